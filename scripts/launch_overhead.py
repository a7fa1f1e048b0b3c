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


def measured(n: int, fuse: bool) -> tuple[int, int, int]:
    """Of one inference of a chain over n elements: kernel calls, instructions in QEMU, the worst case in machine code."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "chain.onnx"
        path.write_bytes(parser.parse_model(CHAIN.format(n=n)).SerializeToString())
        model = fuse2c.plan(path, target="cortex-m4", fuse=fuse)
        return model.plan.launches, model.bench().instructions or 0, model.wcet().instructions


def main() -> int:
    """One row a size."""
    price = target.load("cortex-m4").processor.launch
    print(f"the target file estimates {price} instructions for a call: {3 * price} for three, {price} for one, 67 % less")
    print("elements   three kernels: QEMU, proven   one kernel: QEMU, proven   saved")
    for n in (1, 4, 16, 64, 256):
        (three, apart, most), (one, fused, least) = measured(n, fuse=False), measured(n, fuse=True)
        if (three, one) != (3, 1):
            print(f"expected 3 kernels and 1, found {three} and {one}", file=sys.stderr)
            return 1
        print(f"{n:8}   {apart:20,} {most:7,}   {fused:17,} {least:7,}   {100 * (most - least) / most:4.0f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
