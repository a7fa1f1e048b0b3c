"""Limits that bind: a refusal names a figure; so much is enough, and the least bit less is refused again."""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphs import Builder
from test_measure import needs_gcc

import fuse2c
from fuse2c import flash
from fuse2c.errors import DoesNotFit, LimitsConflict, MissesDeadline, OverEnergy, PlanError
from fuse2c.options import Options
from fuse2c.passes import bound

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
BOARD = "nucleo-l476rg"
LIMITS: dict[str, tuple[float, str, Callable[[float], float], dict[str, Any]]] = {
    # option -> (far too little, what the refusal says, a bit less than a figure, other options)
    "ram": (1, r"needs (\d+) bytes of", lambda n: n - 1, {}),
    "flash": (1, r"need (\d+) bytes of", lambda n: n - 1, {}),
    "deadline_ms": (1e-3, r"cycles, ([\d.]+) ms at", lambda n: n - 1e-3, {}),
    "energy_uj": (1e-3, r"takes ([\d.]+) uJ", lambda n: n * 0.999, {}),
    "power_mw": (1e-6, r"([\d.]+) mW on average", lambda n: n * 0.999, {"rate_hz": 2.0}),
}


def branches(folder: Path) -> Path:
    """Float: a convolution, two branches that meet again, and a dense layer."""
    b = Builder()
    x = b.op("Conv", b.input((1, 3, 11, 14)), b.floats(5, 3, 3, 3), pads=[1, 0, 0, 2])
    y = b.op("Add", b.op("Relu", x), b.op("Conv", x, b.floats(5, 5, 1, 1)))
    flat = b.op("Reshape", b.op("AveragePool", y, kernel_shape=[2, 3], strides=[2, 3]), b.ints(1, -1))
    b.output(b.op("MatMul", flat, b.floats(100, 7)))
    path = folder / "branches.onnx"
    path.write_bytes(b.model().SerializeToString())
    return path


@pytest.fixture(params=["digits_int8", "digits_fp32", "branches"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return branches(tmp_path) if request.param == "branches" else DIGITS / f"{request.param}.onnx"


def figure(text: str, pattern: str) -> float:
    """What a message names."""
    found = re.search(pattern, text)
    assert found, text
    return float(found[1]) if "." in found[1] else int(found[1])


@needs_gcc
@pytest.mark.parametrize("option", LIMITS)
def test_what_a_refusal_names_is_enough(option: str, model: Path) -> None:
    nothing, said, less, others = LIMITS[option]
    with pytest.raises(PlanError) as refused:
        fuse2c.plan(model, BOARD, **others, **{option: nothing})
    enough = figure(str(refused.value), said)
    fuse2c.plan(model, BOARD, **others, **{option: enough})
    try:
        smaller = fuse2c.plan(model, BOARD, **others, **{option: less(enough)}).plan
    except type(refused.value) as error:
        assert figure(str(error), said) == enough
    else:       # only of flash not all plans are looked at before one is refused: they would have to be compiled
        assert option == "flash" and flash.Build().sizes(smaller).flash < enough


@pytest.mark.parametrize("option", ["deadline_ms", "energy_uj", "power_mw"])
def test_a_limit_out_of_reach_is_named_though_the_fastest_plan_needs_more_ram(option: str) -> None:
    path, (nothing, said, less, others) = DIGITS / "digits_int8.onnx", LIMITS[option]
    small, fast = (fuse2c.plan(path, BOARD, optimize=f"{what}=1").plan for what in ("ram", "cycles"))
    ram = small.ram_bytes
    assert fast.ram_bytes > ram
    with pytest.raises((MissesDeadline, OverEnergy)) as refused:
        fuse2c.plan(path, BOARD, ram=ram, **others, **{option: nothing})
    enough = figure(str(refused.value), said)
    assert fuse2c.plan(path, BOARD, ram=ram, **others, **{option: enough}).plan.ram_bytes <= ram
    with pytest.raises((MissesDeadline, OverEnergy, LimitsConflict)):
        fuse2c.plan(path, BOARD, ram=ram, **others, **{option: less(enough)})


@needs_gcc
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_flash_is_what_is_linked(target: str, model: Path) -> None:
    """The plan without a limit fits into just what it takes; with a byte less another one does, or none."""
    build = flash.Build()
    free = fuse2c.plan(model, target).plan
    whole = build.sizes(free)
    assert whole.flash == whole.code + whole.weights + whole.library > whole.weights == free.weight_bytes
    assert build.sizes(fuse2c.plan(model, target, flash=whole.flash, winograd="off").plan).flash <= whole.flash
    try:
        less = fuse2c.plan(model, target, flash=whole.flash - 1).plan
    except DoesNotFit as error:
        assert figure(str(error), LIMITS["flash"][1]) >= whole.flash
    else:
        assert build.sizes(less).flash < whole.flash and less.target.holding("weights")[1].bytes == whole.flash - 1


@needs_gcc
def test_the_flash_of_another_optimisation() -> None:
    """What fits with -Os, and with -O3 takes a smaller plan or none."""
    path = DIGITS / "digits_fp32.onnx"
    need = flash.Build("-Os").sizes(fuse2c.plan(path, BOARD, optimize="flash=1").plan).flash
    small = fuse2c.compile_model(path, BOARD, Options(flash=need), opt="-Os")
    assert flash.Build("-Os").sizes(small.plan).flash <= need
    with pytest.raises(DoesNotFit, match="as linked"):
        fuse2c.compile_model(path, BOARD, Options(flash=need))


def test_without_a_compiler_the_estimates_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuse2c.toolchain.ARM_GCC", "no-such-compiler")
    path = DIGITS / "digits_int8.onnx"
    with pytest.raises(DoesNotFit) as error:
        fuse2c.plan(path, BOARD, flash=10)
    least = int(figure(str(error.value), r"need about (\d+) bytes"))
    fuse2c.plan(path, BOARD, flash=least)
    with pytest.raises(DoesNotFit, match="1 too many"):
        fuse2c.plan(path, BOARD, flash=least - 1)


def pools(folder: Path) -> Path:
    """Two kernels whose rows cannot be split."""
    b = Builder()
    b.output(b.op("AveragePool", b.op("MaxPool", b.input((1, 3, 9, 14)), kernel_shape=[2, 3]), kernel_shape=[3, 2]))
    path = folder / "pools.onnx"
    path.write_bytes(b.model().SerializeToString())
    return path


@needs_gcc
@pytest.mark.parametrize("build", [pools, branches])
def test_the_least_slice(build: Callable[[Path], Path], tmp_path: Path) -> None:
    path = build(tmp_path)
    with pytest.raises(MissesDeadline) as refused:
        fuse2c.plan(path, BOARD, max_slice_us=0.1).proven()
    enough = figure(str(refused.value), r"--max-slice-us ([\d.]+)\)")
    found = fuse2c.plan(path, BOARD, max_slice_us=enough).proven().plan
    limit = bound.slice_cycles(found)
    assert found.slices is not None and limit is not None and max(found.slices.bounds) <= limit
    with pytest.raises(MissesDeadline, match=f"a budget of at least {limit} cycles"):
        fuse2c.plan(path, BOARD, max_slice_us=enough - 1 / 80).proven()


def test_the_least_budget_is_that_of_all_units(tmp_path: Path) -> None:
    """Not of the first that is refused: layers that are longer can be split, but not as far."""
    path = branches(tmp_path)
    with pytest.raises(MissesDeadline) as refused:
        fuse2c.plan(path, "host", step_budget=1)
    enough = int(figure(str(refused.value), r"a budget of at least (\d+)"))
    assert int(figure(str(refused.value), r"takes (\d+) instructions")) < enough
    found = fuse2c.plan(path, "host", step_budget=enough).plan
    assert found.slices is not None and max(found.slices.bounds) <= enough
    with pytest.raises(MissesDeadline, match=f"a budget of at least {enough}"):
        fuse2c.plan(path, "host", step_budget=enough - 1)
