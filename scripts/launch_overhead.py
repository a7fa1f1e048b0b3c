"""What a kernel call costs, and what fusion saves: three small elementwise kernels on a Cortex-M4, counted in QEMU.

    python scripts/launch_overhead.py
"""
from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from onnx import parser

import fuse2c
from fuse2c import target

CHAIN = '<ir_version: 8, opset_import: ["": 17]> chain (float[{n}] x) => (float[{n}] y) {{ a = Abs(x) b = Neg(a) y = Relu(b) }}'


def measured(n: int, fuse: bool) -> tuple[int, int]:
    """(kernel calls, instructions) of one inference of a chain over n elements."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "chain.onnx"
        path.write_bytes(parser.parse_model(CHAIN.format(n=n)).SerializeToString())
        model = fuse2c.plan(path, target="cortex-m4", fuse=fuse)
        return model.plan.launches, model.bench().instructions or 0


def main() -> int:
    """One row a size."""
    price = target.load("cortex-m4").processor.launch
    print(f"the target file estimates {price} instructions for a call")
    print("elements   three kernels   one kernel   saved")
    for n in (4, 16, 64, 256):
        (three, apart), (one, fused) = measured(n, fuse=False), measured(n, fuse=True)
        if (three, one) != (3, 1):
            print(f"expected 3 kernels and 1, found {three} and {one}", file=sys.stderr)
            return 1
        print(f"{n:8}   {apart:13,}   {fused:10,}   {100 * (apart - fused) / apart:4.0f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
