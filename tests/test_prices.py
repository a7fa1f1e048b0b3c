"""Predicted instructions against the machine code: within 10 % for every kernel over 1 % of its model, further on M3 and M0+.

The worst-case analysis counts exactly where the code has one path, which QEMU confirms (tests/test_wcet.py).
"""
from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import fuse2c
from fuse2c import bench, price, toolchain
from fuse2c.errors import Refused
from fuse2c.measure import qemu
from fuse2c.names import identifier
from fuse2c.plan import Plan

ROOT = Path(__file__).parents[1]
FOLDER = ROOT.parent / "shared" / "models"
if not FOLDER.is_dir():
    pytest.skip("the models are not there: no folder shared/models beside the checkout", allow_module_level=True)
if shutil.which(toolchain.ARM_GCC) is None:
    pytest.skip(f"{toolchain.ARM_GCC} is not installed", allow_module_level=True)
for library in ("capstone", "elftools", "networkx", "highspy"):
    pytest.importorskip(library, reason=f"{library} is not installed")

MODELS = ["ad_fp32", "kws_fp32", "ic_fp32", "vww_fp32", "ad_int8", "kws_int8", "ic_int8", "vww_int8", "micro_speech_int8",
          "mcunet_vww_int8"]
QUICK = ["ad_fp32", "kws_fp32", "ad_int8", "kws_int8", "ic_int8", "micro_speech_int8"]
MATTERS = 0.01
CLOSE = {"cortex-m4": 0.10, "cortex-m55": 0.10, "cortex-m7": 0.10, "cortex-m33": 0.10, "cortex-m3": 0.15, "cortex-m0plus": 0.20}
"""By core. M7 and M33 have the M4's prices. What gcc unrolls on M3 and M0+ depends on the depth, which no price knows."""
SOFTWARE = ("cortex-m3", "cortex-m0plus")       # they have no instructions for floats


def launches(plan: Plan) -> list[tuple[str, price.Cost]]:
    """The C function of each kernel, and what it is predicted to take."""
    name = identifier(plan.graph.name)
    found = []
    for number, (kernel, steps) in enumerate(zip(plan.kernels, plan.kernel_steps, strict=True), 1):
        function = f"{name}_kernel_{number}" if plan.is_joined(kernel) else plan.steps[steps[0]].function
        found.append((function, price.of_kernel(plan, steps)))
    return found


@pytest.mark.parametrize("core", CLOSE)
@pytest.mark.parametrize("name", MODELS)
def test_every_kernel_takes_what_was_predicted(name: str, core: str, request: pytest.FixtureRequest) -> None:
    if core not in ("cortex-m4", "cortex-m55") and name not in QUICK and not request.config.getoption("--all-models"):
        pytest.skip("slow: --all-models")
    if core in SOFTWARE and name.endswith("fp32"):
        pytest.skip("floats in software: the worst case is no measure, see the next test")
    model = fuse2c.plan(FOLDER / f"{name}.onnx", target=core, share_kernels="never")
    try:
        worst = model.wcet()
    except Refused as error:
        pytest.skip(f"the analysis has no bound: {error.args[0]}")
    close = CLOSE[core]
    took = {k["name"]: k["instructions"] for k in worst.json()["kernels"]}
    off = {f: round(cost.instructions / took[f] - 1, 3) for f, cost in launches(model.plan)
           if took[f] > MATTERS * worst.instructions and abs(cost.instructions / took[f] - 1) > close}
    assert off == {}
    assert price.of_plan(model.plan).instructions == pytest.approx(worst.instructions, rel=close)


@pytest.mark.skipif(shutil.which(qemu.QEMU) is None, reason=f"{qemu.QEMU} is not installed")
@pytest.mark.parametrize("core", SOFTWARE)
@pytest.mark.parametrize("name", ["ad_fp32", "kws_fp32"])
def test_floats_in_software_take_what_was_predicted(name: str, core: str) -> None:
    """What they take depends on their values: QEMU counts it."""
    plan = fuse2c.plan(FOLDER / f"{name}.onnx", target=core).plan
    assert price.of_plan(plan).instructions == pytest.approx(bench.measured(plan).instructions, rel=CLOSE[core])
