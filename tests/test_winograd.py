"""Winograd F(2x2, 3x3): equal to numpy to the bit on the host and on the board, alone and in turns with other kernels."""
from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
from cases import Style
from graphs import Builder, assert_c_is_reference, compile, kernels, run_c, samples
from hypothesis import given
from hypothesis import strategies as st
from simulation import simulate
from test_dsp import DRAW, M4, stored

import fuse2c
from fuse2c import toolchain
from fuse2c.bench import bench
from fuse2c.check import sanitized
from fuse2c.errors import DoesNotFit
from fuse2c.flash import Build
from fuse2c.kernels import winograd
from fuse2c.measure import qemu
from fuse2c.ops import conv as conv_op
from fuse2c.passes import select, trade
from fuse2c.plan import Plan

I8, U8 = np.int8, np.uint8
NAME = "conv_winograd_dsp"
STYLES = (Style(I8(-128), I8(0), I8(11), channels=True), Style(U8(200), U8(128), U8(3)), Style(I8(127), I8(0), I8(-128)))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken however small a layer is, and whatever is asked for."""
    monkeypatch.setattr(trade, "saves", lambda o: True)
    monkeypatch.setattr(trade, "OF_TIME", (*trade.OF_TIME, "ram", "ram=1"))


def built(b: Builder, folder: Path, **options: Any) -> Any:
    """The plan for a core with DSP; HostModel runs it with the portable bodies."""
    return compile(b, folder, target=M4, **{"winograd": "auto", **options})


def conv(x: tuple[int, ...], outputs: int, pads: tuple[int, ...] = (1, 1, 1, 1), bias: bool = True) -> cases.Layer:
    """A 3x3 convolution that moves by one."""
    return cases.Layer(x, (outputs, x[1], 3, 3), {"kernel_shape": [3, 3], "pads": list(pads)}, bias)


@st.composite
def layer(draw: st.DrawFn) -> cases.Layer:
    """Any number of channels, any pads; at least two rows and columns of outputs."""
    pads = tuple(draw(st.integers(0, 2)) for _ in range(4))
    h, w = (draw(st.integers(max(1, 4 - pads[i] - pads[i + 2]), most)) for i, most in ((0, 7), (1, 23)))
    images, channels = draw(st.sampled_from([1, 1, 1, 2])), draw(st.sampled_from([1, 3, 4, 6, 8, 36]))
    # one output alone is computed by pairs of columns: no 3x3 window any more
    return conv((images, channels, h, w), draw(st.integers(2, 7)), pads, draw(st.booleans()))


def test_drawn_convolutions(tmp_path: Path, always: None) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(4):
            data.draw(layer()).conv(data.draw(stored()), b)
        compiled = built(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])))
        assert kernels(compiled) == [NAME] * 4
        assert_c_is_reference(compiled)
    run()


def network(style: Style, height: int, width: int, stride: int, b: Builder) -> None:
    """Residual blocks, and a reader that skips rows: everything that takes turns with pairs of rows."""
    def next_to(layer: cases.Layer, x: str, scale: float) -> str:
        return style.again(b, layer.sum(style, b, x), scale)
    x = style.x(b, 1, 3, height, width)
    start = next_to(conv((1, 3, height, width), 8), x, 0.9)
    inner = next_to(cases.Layer((), (8, 8, 3, 3), {"pads": [1, 1, 1, 1]}, False), start, 4.1)
    total = style.again(b, b.op("Relu", b.op("Add", inner, start)), 3.7)
    down = next_to(cases.Layer((), (5, 8, 1, 1), {"strides": [stride, stride]}, False), total, 2.9)
    last = next_to(cases.Layer((), (5, 5, 3, 3), {"pads": [1, 1, 1, 1]}, False), down, 3.3)
    other = style.again(b, b.op("Add", last, down), 4.4)
    style.same(b, b.op("GlobalAveragePool", other), 9.0)


@pytest.mark.parametrize("optimize", ["cycles", "ram=1"])
@pytest.mark.parametrize(("height", "width", "stride"), [(11, 9, 2), (12, 7, 2), (9, 10, 1), (6, 5, 3)])
def test_rows_take_turns(height: int, width: int, stride: int, optimize: str, tmp_path: Path, always: None,
                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows at a time between kernels that go row by row; no byte is read that is gone, or not there yet."""
    monkeypatch.setattr("fuse2c.passes._slim.variants", lambda plan: {})        # nothing gives way
    b = Builder()
    network(STYLES[0], height, width, stride, b)
    compiled = built(b, tmp_path, optimize=optimize)
    assert kernels(compiled).count(NAME) == 3 and compiled.plan.rings
    row = samples(compiled.plan, 1)[0]
    simulate(compiled.plan, row)
    assert_c_is_reference(compiled)


def test_rows_that_are_pushed(tmp_path: Path, always: None) -> None:
    b = Builder()
    network(STYLES[1], 9, 6, 2, b)
    compiled = built(b, tmp_path, input_rows=True, optimize="ram")
    row = samples(compiled.plan, 1)[0]
    simulate(compiled.plan, row)
    assert_c_is_reference(compiled)


def same_everywhere(weight: int, channels: int) -> Builder:
    """All inputs and weights at ends of their ranges: the largest sums there are."""
    b = Builder()
    x = b.stored((1, channels, 5, 6), 0.04, I8(-128))
    w = b.dequantise(b.const(np.full((3, channels, 3, 3), weight, I8)), 0.01, I8(0))
    b.output(b.quantise(b.op("Conv", x, w, pads=[1, 1, 1, 1]), 0.04 * channels, I8(-128)))
    return b


@pytest.mark.parametrize("weight", [-128, 127])
def test_extremes(weight: int, tmp_path: Path, always: None) -> None:
    compiled = built(same_everywhere(weight, 90), tmp_path)
    assert kernels(compiled) == [NAME]
    rows = [{"x0": np.full((1, 90, 5, 6), v, I8)} for v in (-128, 127)]
    (name,) = compiled.plan.inputs
    chess = np.where(np.indices((1, 90, 5, 6)).sum(axis=0) % 2, I8(127), I8(-128)).astype(I8)
    assert_c_is_reference(compiled, [{name: row["x0"]} for row in rows] + [{name: chess}])


def test_sums_that_do_not_fit_four_times_are_computed_directly(tmp_path: Path, always: None) -> None:
    """255 * 128 * 9 * 2000, four times, is beyond int32."""
    compiled = built(same_everywhere(-128, 2000), tmp_path)
    assert kernels(compiled) == ["conv_dsp"]
    call = select.anchor_call(compiled.plan, compiled.plan.steps[0].node)
    assert conv_op.is_winograd(call).startswith("four times its sums can reach")


def layers(b: Builder) -> None:
    """Two convolutions, of which the first saves more for a byte: its map is larger."""
    for channels, size in ((8, (16, 20)), (16, (8, 10))):
        conv((1, channels, *size), channels).conv(STYLES[0], b)


@pytest.mark.parametrize(("options", "taken"), [
    ({"winograd": "flash"}, 0), ({"winograd": "off", "flash": 2 ** 20}, 0), ({"winograd": "auto"}, 2),
    ({"winograd": "flash", "flash": 2 ** 20}, 2), ({"winograd": "flash", "flash": 14000}, 1),
    ({"winograd": "flash", "flash": 6700}, 0)])
def test_flash_is_spent_where_it_gains_most(options: dict[str, Any], taken: int, tmp_path: Path) -> None:
    b = Builder()
    layers(b)
    compiled = built(b, tmp_path, **options)
    assert kernels(compiled) == [NAME] * taken + ["conv_dsp"] * (2 - taken)
    assert compiled.plan.weight_bytes <= options.get("flash", 2 ** 20)
    if shutil.which(toolchain.ARM_GCC) is not None:
        assert Build().sizes(compiled.plan).flash <= options.get("flash", 2 ** 20)
    whys = [d.reason for d in compiled.plan.decisions if d.stage == "trade"]
    assert len(whys) == (0 if options["winograd"] == "off" else 2)
    assert all(" instructions for " in why and " bytes of flash, " in why for why in whys)
    assert_c_is_reference(compiled)


def test_the_weights_have_to_fit_at_all(tmp_path: Path) -> None:
    b = Builder()
    layers(b)
    with pytest.raises(DoesNotFit, match=r"\d+ bytes of weights and (about \d+ of code|\d+ of code, as linked,) need"):
        built(b, tmp_path, flash=2000)


def test_scratch_that_does_not_fit_is_not_taken(tmp_path: Path) -> None:
    """--ram is kept: the direct form has less scratch."""
    b = Builder()
    layers(b)
    least = built(b, tmp_path, winograd="off").plan.ram_bytes
    compiled = built(b, tmp_path, ram=least)
    assert compiled.plan.ram_bytes <= least and "conv_dsp" in kernels(compiled)
    assert any("bytes of scratch" in d.reason for d in compiled.plan.decisions if d.stage == "trade" and not d.taken)
    assert_c_is_reference(compiled)


@pytest.mark.parametrize("optimize", ["ram", "balanced", "ram=1", "cycles"])
def test_scratch_is_a_price_where_ram_counts(optimize: str, tmp_path: Path) -> None:
    """An objective of RAM is not worse for kernels that are offered; one of cycles takes them whatever scratch they need."""
    model = Path(__file__).parents[1] / "examples" / "digits" / "digits_int8.onnx"
    off, auto = (fuse2c.plan(model, "cortex-m4", optimize=optimize, winograd=how).plan for how in ("off", "auto"))

    def value(plan: Plan) -> float:
        return {"cycles": plan.point.cycles, "balanced": plan.point.cycles * plan.point.ram}.get(optimize, plan.point.ram)
    assert value(auto) <= value(off)
    assert any(d.taken for d in auto.decisions if d.stage == "trade") == (optimize == "cycles")


def everything() -> Builder:
    """Odd and even maps, alone and in turns."""
    b = Builder()
    for i, (h, w) in enumerate(((7, 11), (6, 8), (2, 3))):
        conv((1, (5, 8, 3)[i], h, w), (3, 4, 7)[i]).conv(STYLES[i], b)
    network(STYLES[0], 9, 10, 2, b)
    return b


def test_under_sanitizers(tmp_path: Path, always: None) -> None:
    compiled = built(everything(), tmp_path)
    rows = samples(compiled.plan, 1)
    for x, y in zip(sanitized(compiled.plan, rows), run_c(compiled, rows), strict=True):
        assert all(np.array_equal(x[t], y[t]) for t in x)


needs_board = pytest.mark.skipif(shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None,
                                 reason="arm-none-eabi-gcc or qemu-system-arm is not installed")


@needs_board
@pytest.mark.parametrize(("opt", "requant"), [("-O0", "fixed"), ("-O3", "fixed"), ("-O3", "float")])
def test_on_the_board(opt: str, requant: str, tmp_path: Path, always: None) -> None:
    compiled = built(everything(), tmp_path, requant=requant)
    assert kernels(compiled).count(NAME) == 6
    assert bench(compiled.plan, compiled.plan, "winograd", opt=opt).mismatches == 0


@needs_board
def test_the_worst_case_is_what_is_measured(tmp_path: Path, always: None) -> None:
    """One path: the bound is the count, but for what the firmware adds around it."""
    pytest.importorskip("capstone", reason="capstone is not installed")
    b = Builder()
    network(STYLES[0], 9, 10, 2, b)
    compiled = built(b, tmp_path)
    measured = bench(compiled.plan, compiled.plan, "winograd").instructions
    assert measured is not None and 0 <= measured - compiled.wcet().instructions < 100


@needs_board
def test_steps_within_a_budget(tmp_path: Path, always: None) -> None:
    """A step may end between the two rows of a pair; both are computed by then."""
    pytest.importorskip("capstone", reason="capstone is not installed")
    b = Builder()
    network(STYLES[0], 9, 10, 2, b)
    compiled = built(b, tmp_path, step_budget=12000).proven()
    slices = compiled.plan.slices
    assert slices is not None and len(slices.first) > 5 and max(slices.bounds) <= 12000
    assert kernels(compiled).count(NAME) >= 3
    assert_c_is_reference(compiled)
    assert bench(compiled.plan, compiled.plan, "winograd").mismatches == 0


def test_transformed_weights_fit_a_halfword() -> None:
    """The most that nine weights at one end give."""
    for weight in (-128, 127):
        u = winograd.transformed(np.full((1, 9), weight, I8))
        assert u.dtype == np.int16 and np.abs(u.astype(np.int64)).max() == 9 * abs(weight)
