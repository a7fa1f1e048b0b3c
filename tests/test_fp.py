"""float32 on cores with an FPU, and with Helium: the portable bodies on the host agree with numpy, and so does the board."""
from __future__ import annotations

import shutil
from pathlib import Path

import cases
import numpy as np
import pytest
from cases import FLOAT
from draws import DRAW, dense, layer
from graphs import Builder, assert_c_is_reference, compile, kernels, outputs, run_c, samples
from hypothesis import given
from hypothesis import strategies as st
from test_count import counted, planned

from fuse2c import toolchain
from fuse2c.bench import bench
from fuse2c.check import sanitized
from fuse2c.measure import qemu

CORES = pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])


@CORES
@pytest.mark.parametrize(("windows", "depthwise", "names"), [
    ([1], False, {"pointwise_fp", "conv_fp"}), ([1, 2, 3, 5], False, {"pointwise_fp", "conv_fp"}),
    ([2, 3, 5, 7], True, {"depthwise_fp"})], ids=["pointwise", "conv", "depthwise"])
@pytest.mark.parametrize("dilate", [False, True])
def test_drawn_convolutions(windows: list[int], depthwise: bool, names: set[str], dilate: bool, core: str,
                            tmp_path: Path) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(4):
            data.draw(layer(windows, depthwise, dilate)).conv(FLOAT, b)
        compiled = compile(b, tmp_path, target=core)
        assert dilate or set(kernels(compiled)) <= names
        assert_c_is_reference(compiled)
    run()


@CORES
def test_drawn_dense_layers(core: str, tmp_path: Path) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(4):
            data.draw(dense(6, (1, 70), 27)).build(FLOAT, b)
        compiled = compile(b, tmp_path, target=core)
        assert set(kernels(compiled)) == {"pointwise_fp"}
        assert_c_is_reference(compiled)
    run()


def chain(b: Builder, x: str, depths: tuple[int, ...], outs: int) -> str:
    """Dense layers one behind the other: a loop nest."""
    for depth, columns in zip(depths, (*depths[1:], outs), strict=True):
        x = b.op("Relu", b.op("Gemm", x, b.floats(depth, columns, scale=depth ** -0.5), b.floats(columns)))
    return x


@CORES
@pytest.mark.parametrize("depths", [(21, 8, 9), (640, 16, 19), (7, 3, 32)], ids=str)
def test_rows_times_eight_columns(depths: tuple[int, ...], core: str, tmp_path: Path) -> None:
    """Blocks of eight columns and a rest; depths of any remainder."""
    b = Builder()
    b.output(chain(b, b.input((2, depths[0])), depths, 13))
    compiled = compile(b, tmp_path, target=core)
    assert kernels(compiled) == ["loop_nest"] and compiled.plan.steps[0].spec.flags["times"]
    assert_c_is_reference(compiled)


@CORES
def test_products_of_what_is_not_constant_keep_their_loops(core: str, tmp_path: Path) -> None:
    b = Builder()
    x = chain(b, b.input((3, 10)), (10, 16), 9)
    b.output(b.op("MatMul", x, b.input((9, 11))))
    compiled = compile(b, tmp_path, target=core)
    assert "loop_nest" in kernels(compiled)
    assert not any(s.spec.flags["times"] for s in compiled.plan.steps if s.kernel.name == "loop_nest")
    assert_c_is_reference(compiled)


def wide_strides(b: Builder) -> None:
    """A convolution of half of the channels, and one of a tensor whose second half it is: pixels with gaps between."""
    x = b.input((1, 12, 5, 9))
    left, right = b.op("Split", x, outputs=2, axis=1)
    y = b.op("Conv", left, b.floats(5, 6, 3, 3), pads=[1, 1, 1, 1])
    b.output(b.op("Concat", y, b.op("Conv", right, b.floats(3, 6, 1, 1)), axis=1))


def finished(b: Builder) -> None:
    """Behind a convolution of whole and of broken vectors of outputs: a number, one a channel, and an operand."""
    for outs in (8, 10):
        y = b.op("Relu", b.op("Conv", b.input((1, 5, 3, 7)), b.floats(outs, 5, 1, 1), b.floats(outs)))
        y = b.op("Sub", b.op("Mul", y, b.floats(outs, 1, 1)), b.const(np.float32(0.75)))
        y = b.op("Add", y, b.input((1, outs, 3, 7)))
        b.output(b.op("Clip", y, b.const(np.float32(-0.5)), b.const(np.float32(1.25))))


def elementwise(b: Builder, count: int) -> None:
    """One operator, and several as one loop, of a number of elements."""
    def x() -> str:
        return b.input((1, 3, count))
    b.output(b.op("Mul", x(), x()), b.op("Relu", b.op("Sub", b.op("Add", x(), x()), b.const(np.float32(0.25)))))
    b.output(b.op("Clip", b.op("Add", b.op("Exp", x()), x()), b.const(np.float32(-0.5))))


@CORES
@pytest.mark.parametrize("count", [1, 4, 7])
def test_elements_by_fours(count: int, core: str, tmp_path: Path) -> None:
    """And what is left over; numbers that are none stay what they are."""
    b = Builder()
    elementwise(b, count)
    compiled = compile(b, tmp_path, target=core)
    fours = core == "cortex-m55" and count > 1
    assert sorted(kernels(compiled)) == ["elementwise", *["elementwise_mve" if fours else "elementwise"] * 2]
    assert_c_is_reference(compiled)
    special = {t: np.resize(np.float32([np.nan, -1.0, np.inf, -np.inf, 3.0]), (1, 3, count)) for t in compiled.plan.inputs}
    assert_c_is_reference(compiled, [special])


def all_kinds() -> Builder:
    """Odd everything: all kernels of this file, with residuals, strides and pads."""
    b = Builder()
    for name in ("conv-2d", "conv-2d-dilated", "conv-1d", "conv-pointwise-strided", "conv-depthwise", "conv-wholly-padding",
                 "conv-depthwise-wholly-padding", "conv-one-channel", "conv-batch", "conv-depthwise-batch",
                 "conv-one-pixel-padded", "dense-gemm", "dense-gemm-turned", "net-residual-relu", "net-residual-clip",
                 "net-planar", "net-nhwc", "net-flattened"):
        cases.all_layers()[name](FLOAT, b)
    for channels, columns, window in ((6, 4, 3), (6, 11, 3), (8, 11, 3), (12, 4, 5), (4, 7, 7)):
        attrs = {"group": channels, "pads": [window // 2] * 4}
        cases.Layer((1, channels, 5, columns), (channels, 1, window, window), attrs).conv(FLOAT, b)
    for columns in (4, 11):
        cases.Layer((1, 9, 5, columns), (7, 9, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}).conv(FLOAT, b)
    for rows in (1, 3):
        cases.Dense((rows, 41), (15, 41), {"transB": 1}, (15,)).build(FLOAT, b)
    wide_strides(b)
    finished(b)
    elementwise(b, 7)
    b.output(chain(b, b.input((2, 21)), (21, 8, 9), 13))
    return b


@CORES
def test_gaps_between_pixels(core: str, tmp_path: Path) -> None:
    b = Builder()
    wide_strides(b)
    assert_c_is_reference(compile(b, tmp_path, target=core))


@CORES
def test_under_sanitizers(core: str, tmp_path: Path) -> None:
    """AddressSanitizer and UndefinedBehaviorSanitizer; the outputs are those of the plain build."""
    compiled = compile(all_kinds(), tmp_path, target=core)
    assert {"conv_fp", "depthwise_fp", "depthwise", "pointwise_fp", "loop_nest"} <= set(kernels(compiled))
    cores = {str(s.spec.flags.get("core")).split("/")[-1] for s in compiled.plan.steps}
    assert cores == {"None", "fp_depthwise.c.j2", *(["reals_tile.c.j2", "reals_depthwise.c.j2"] if core == "cortex-m55"
                                                    else ["fp_tile.c.j2"])}
    assert_c_is_reference(compiled)
    rows = samples(compiled.plan, 1)
    for x, y in zip(sanitized(compiled.plan, rows), run_c(compiled, rows), strict=True):
        assert all(np.array_equal(x[t], y[t]) for t in x)


@CORES
def test_work_is_counted(core: str, tmp_path: Path) -> None:
    """Multiply-accumulates as the plan says."""
    plan = compile(all_kinds(), tmp_path, target=core).plan
    assert counted(plan) == planned(plan)


@CORES
@pytest.mark.parametrize("opt", ["-O0", "-Os", "-O3"])
def test_on_the_board(opt: str, core: str, tmp_path: Path) -> None:
    """The instructions do in QEMU what the portable bodies do here, optimised or not."""
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    compiled = compile(all_kinds(), tmp_path, target=core)
    assert bench(compiled.plan, compiled.plan, "all kinds", opt=opt).mismatches == 0


@CORES
def test_what_is_no_number(core: str, tmp_path: Path) -> None:
    """NaN and infinities behind a ReLU6 and in maxima of floats: on the board as here, and as numpy has them."""
    rng, b = np.random.default_rng(7), Builder()
    odd = rng.choice(np.float32([0, 0, 0, np.nan, np.inf, -np.inf]), (6, 5, 8))
    x = b.op("Transpose", b.input((1, 6, 5, 8)), perm=[0, 3, 1, 2])
    for attrs in ({"kernel_shape": [2, 2]}, {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}):
        t = b.op("Add", x, b.op("Transpose", b.const(odd[None]), perm=[0, 3, 1, 2]))
        b.output(b.op("Transpose", b.op("MaxPool", t, **attrs), perm=[0, 2, 3, 1]))
    conv = b.op("Conv", x, b.const(rng.normal(size=(16, 8, 1, 1)).astype(np.float32)), b.const(rng.permutation(
        np.float32([np.nan, np.inf, -np.inf, *range(13)]))))
    b.output(b.op("Transpose", b.op("Clip", conv, b.const(np.float32(0)), b.const(np.float32(6))), perm=[0, 2, 3, 1]))
    compiled = compile(b, tmp_path, target=core)
    assert ("max_pool_reals" in kernels(compiled)) == (core == "cortex-m55")
    rows = samples(compiled.plan)
    for got, want in zip(run_c(compiled, rows), outputs(compiled.plan.graph, rows), strict=True):
        assert all(np.isnan(want[t]).any() for t in want)
        for t in want:
            np.testing.assert_allclose(got[t], want[t], rtol=1e-5, atol=1e-5)
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    assert bench(compiled.plan, compiled.plan, "no numbers").mismatches == 0
