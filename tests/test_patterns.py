"""The corpus of fusion patterns, where it is: right, and in no more kernels than any other compiler needs.

`bar.csv` states for each pattern the fewest launches of all tools that were measured, and an ideal.
"""

import csv
from pathlib import Path

import numpy as np
import onnx
import pytest

import fuse2c
from fuse2c.check import HostModel

ROOT = Path(__file__).parents[1]
FOLDER = ROOT.parent / "shared" / "patterns"
if not FOLDER.is_dir():
    pytest.skip(f"the patterns are not there: no folder {FOLDER.relative_to(ROOT.parent)} beside the checkout",
                allow_module_level=True)

BAR = {row["pattern"]: row for row in csv.DictReader((FOLDER / "bar.csv").read_text().splitlines())}
MOST, IDEAL = 93, 70        # launches of all patterns together; patterns that reach their ideal


def compiled(name: str, fuse: bool = True) -> fuse2c.Compiled:
    """A pattern, its symbolic dimensions as the recorded inputs have them."""
    dims = {}
    with np.load(FOLDER / f"{name}.npz") as data:
        for i, port in enumerate(onnx.load(FOLDER / f"{name}.onnx").graph.input):
            for d, n in zip(port.type.tensor_type.shape.dim, data[f"in_{i}"].shape, strict=True):
                if d.dim_param:
                    dims[d.dim_param] = int(n)
    return fuse2c.plan(FOLDER / f"{name}.onnx", dims=dims, fuse=fuse)


@pytest.mark.parametrize("name", BAR)
def test_pattern(name: str) -> None:
    """The recorded outputs, and kernels as the C code itself counts them."""
    plan = compiled(name).plan
    with np.load(FOLDER / f"{name}.npz") as data, HostModel(plan, "-O1", count=True) as host:
        got = host.run({t: data[f"in_{i}"] for i, t in enumerate(plan.inputs)})
        for i, t in enumerate(plan.outputs):
            want = data[f"out_{i}"]
            if want.dtype.kind == "f":
                assert np.allclose(got[t], want, rtol=1e-4, atol=1e-5 * float(np.abs(want).max()))
            else:
                assert np.abs(got[t].astype(np.int64) - want.astype(np.int64)).max() <= (1 if name.startswith("qdq") else 0)
        assert host.counted()["launches"] == plan.launches <= int(BAR[name]["best_of_all"])


def test_all_patterns_together(capsys: pytest.CaptureFixture[str]) -> None:
    plans = {name: (compiled(name).plan, compiled(name, fuse=False).plan) for name in BAR}
    lines = [f"{name:34} {p.launches:2} of {u.launches:3} kernels, {p.intermediate_bytes:7,} of {u.intermediate_bytes:9,} bytes"
             for name, (p, u) in plans.items()]
    assert all(p.intermediate_bytes <= u.intermediate_bytes for p, u in plans.values()), "\n".join(lines)
    assert sum(p.launches for p, _ in plans.values()) <= MOST
    assert sum(p.launches <= int(BAR[name]["ideal"]) for name, (p, _) in plans.items()) >= IDEAL
    with capsys.disabled():
        print("\n" + "\n".join(lines))
