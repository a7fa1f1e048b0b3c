"""Kernels for Arm's Helium: their portable bodies on the host equal numpy to the bit, and so does the board."""
from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
from cases import Style
from draws import DRAW, dense, layer, pool
from graphs import Builder, assert_c_is_reference, compile, kernels, run_c, samples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_count import counted, planned

from fuse2c import toolchain
from fuse2c.bench import bench
from fuse2c.check import sanitized
from fuse2c.kernels import mve, mve_depthwise
from fuse2c.measure import qemu

I8 = np.int8
M55 = "cortex-m55"
BYTES = (Style(I8(-128), I8(0), I8(11), channels=True), Style(I8(3), I8(0), I8(127)), Style(I8(127), I8(0), I8(-128)))
OFTEN = settings(DRAW, max_examples=200)


def m55(b: Builder, folder: Path, **options: Any) -> Any:
    """The plan for a core with Helium; HostModel runs it with the portable bodies."""
    return compile(b, folder, target=M55, **options)


@st.composite
def stored(draw: st.DrawFn) -> Style:
    """int8 with any zero points, the ends among them."""
    zero = st.sampled_from([-128, 127]) | st.integers(-128, 127)
    return Style(I8(draw(zero)), I8(0), I8(draw(zero)), draw(st.booleans()), draw(st.sampled_from([0.0021, 0.037])))


@st.composite
def wide(draw: st.DrawFn, windows: list[int], depthwise: bool) -> cases.Layer:
    """A drawn layer with up to 40 channels: several vectors and a rest."""
    found = draw(layer(windows, depthwise))
    channels = draw(st.integers(2, 40))
    weights = (channels, *found.w[1:]) if depthwise else (found.w[0], channels, *found.w[2:])
    attrs = {**found.attrs, "group": channels} if depthwise else found.attrs
    return replace(found, x=(1, channels, *found.x[2:]), w=weights, attrs=attrs)


@pytest.mark.parametrize(("windows", "depthwise", "names"), [
    ([1], False, {"pointwise_mve", "conv_mve"}), ([1, 2, 3, 5], False, {"conv_mve", "pointwise_mve"}),
    ([1, 2, 3, 5, 8], True, {"depthwise_mve"})], ids=["pointwise", "conv", "depthwise"])
def test_drawn_convolutions(windows: list[int], depthwise: bool, names: set[str], tmp_path: Path) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(4):
            data.draw(wide(windows, depthwise)).conv(data.draw(stored()), b)
        compiled = m55(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])))
        assert set(kernels(compiled)) <= names
        assert_c_is_reference(compiled)
    run()


def test_drawn_dense_layers(tmp_path: Path) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(4):
            data.draw(dense(6, (16, 170), 21)).build(data.draw(stored()), b)
        compiled = m55(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])))
        assert set(kernels(compiled)) == {"pointwise_mve"}
        assert_c_is_reference(compiled)
    run()


@OFTEN
@given(st.data())
def test_groups_cannot_overflow(data: st.DataObject) -> None:
    """Each group's magnitudes times 128 fit into int16, all taps are there once, and one more would not have fitted."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10 ** 6)))
    w = rng.integers(-128, 128, (data.draw(st.integers(1, 9)), data.draw(st.integers(1, 25)))).astype(I8)
    w = (w * data.draw(st.sampled_from([1, 1, 0.3]))).astype(I8)
    sizes, at = list(mve_depthwise.groups(w)), 0
    for size in sizes:
        sums = np.abs(w[:, at:at + size].astype(np.int64)).sum(axis=1)
        assert size == 1 or 128 * sums.max() < 2 ** 15
        more = np.abs(w[:, at:at + size + 1].astype(np.int64)).sum(axis=1)
        assert at + size == w.shape[1] or 128 * more.max() >= 2 ** 15
        at += size
    assert at == w.shape[1]


@pytest.mark.parametrize("value", [-128, 127])
def test_the_largest_sums(value: int, tmp_path: Path) -> None:
    """All weights at one end, and inputs at both (the samples have them): sums of int16 are as large as they get."""
    b = Builder()
    x = b.stored((1, 24, 4, 7), 0.04, I8(-128))
    w = b.dequantise(b.const(np.full((24, 1, 3, 3), value, I8)), 0.01, I8(0))
    b.output(b.quantise(b.op("Conv", x, w, group=24, pads=[1, 1, 1, 1]), 2.0, I8(-128)))
    v = b.dequantise(b.const(np.full((5, 24, 3, 1), value, I8)), 0.01, I8(0))
    b.output(b.quantise(b.op("Conv", x, v, pads=[1, 0, 1, 0]), 9.0, I8(127)))
    compiled = m55(b, tmp_path)
    assert set(kernels(compiled)) == {"depthwise_mve", "conv_mve"}
    assert_c_is_reference(compiled)


def ranges(b: Builder) -> None:
    """int8 in and uint8 out; a fused clamp that is narrower than the type."""
    for zero, scale, clamp in ((np.uint8(0), 0.06, ("Relu",)), (I8(-20), 0.05, ("Clip", b.const(np.float32(-1.5)),
                                                                               b.const(np.float32(2.25))))):
        y = b.op("Conv", b.stored((1, 16, 3, 5), 0.04, I8(-3)), b.weights((9, 16, 1, 1), np.float32(0.013), I8(0), 0))
        b.output(b.quantise(b.op(clamp[0], y, *clamp[1:]), scale, zero))


@pytest.mark.parametrize("requant", ["fixed", "float"])
def test_other_ranges(requant: str, tmp_path: Path) -> None:
    b = Builder()
    ranges(b)
    compiled = m55(b, tmp_path, requant=requant)
    assert set(kernels(compiled)) == {"conv_mve"}
    assert_c_is_reference(compiled)


def test_a_pixel_is_read_in_place_and_no_further() -> None:
    """Depths of no multiple of 16: the first step shares elements with the second one, each has its weight once."""
    w = np.arange(1, 1 + 3 * 21, dtype=I8).reshape(3, 21)
    packed = mve.pack(w, -21 % 16).reshape(1, 2, 4, 16)
    assert np.array_equal(packed[0, 0, :3, :5], w[:, :5]) and not packed[0, 0, :, 5:].any()
    assert np.array_equal(packed[0, 1, :3], w[:, 5:]) and not packed[0, :, 3].any()


def test_what_other_kernels_do(tmp_path: Path) -> None:
    """uint8 inputs and outputs, and groups of several channels, are left to the DSP kernels."""
    b = Builder()
    for name in ("conv-2d-dilated", "conv-depthwise", "conv-grouped"):
        cases.all_layers()[name](Style(np.uint8(200), np.uint8(128), np.uint8(3)), b)
    compiled = m55(b, tmp_path)
    assert set(kernels(compiled)) == {"conv_dsp", "depthwise_dsp"}
    assert_c_is_reference(compiled)


def elementwise(b: Builder, count: int, zero: int) -> None:
    """A quantisation, and a sum of two stored operands, of a number of elements."""
    b.output(b.quantise(b.input((2, 3, count)), 0.021, I8(zero)))
    x, y = b.stored((1, 2, count), 0.04, I8(zero)), b.stored((1, 2, count), 0.07, I8(-9))
    b.output(b.quantise(b.op("Add", x, y), 0.09, I8(5)))
    b.output(b.quantise(b.op("Mul", x, y), 0.3, I8(-5)))


@pytest.mark.parametrize("count", [1, 3, 4, 22])
def test_elements_by_fours(count: int, tmp_path: Path) -> None:
    """And what is left over."""
    b = Builder()
    elementwise(b, count, 100)
    compiled = m55(b, tmp_path)
    assert ("elementwise_mve" in kernels(compiled)) == (count > 1)
    assert_c_is_reference(compiled)


def curves(b: Builder, channels: int, zero: int) -> None:
    """x * sigmoid(x) behind a depthwise and a pointwise layer; a product with a number for each channel."""
    x = b.stored((1, channels, 5, 7), 0.04, I8(zero))
    w = b.weights((channels, 1, 3, 3), np.float32(0.02), I8(0), 0)
    t = b.requantise(b.op("Conv", x, w, group=channels, pads=[1, 1, 1, 1]), 0.05, I8(3))
    t = b.requantise(b.op("Mul", t, b.requantise(b.op("Sigmoid", t), 1 / 256, I8(-128))), 0.05, I8(-120))
    t = b.requantise(b.op("Conv", t, b.weights((9, channels, 1, 1), np.float32(0.02), I8(0), 0)), 0.1, I8(zero))
    b.output(b.quantise(b.op("Mul", t, b.requantise(b.op("Tanh", t), 1 / 128, I8(0))), 0.05, np.uint8(7)))
    rows, factors = b.stored((1, 6, 5, channels), 0.03, I8(-3)), b.stored((1, 1, 1, channels), 0.004, I8(zero))
    b.output(b.quantise(b.op("Mul", rows, factors), 0.01, I8(9)))


@pytest.mark.parametrize(("channels", "zero"), [(16, -128), (22, 5), (3, 127)])
def test_functions_of_one_number(channels: int, zero: int, tmp_path: Path) -> None:
    """Tables are looked up by fours; with three channels there are no four neighbours to multiply."""
    b = Builder()
    curves(b, channels, zero)
    compiled = m55(b, tmp_path)
    found = kernels(compiled)
    assert "depthwise_mve" in found and ("elementwise_mve" in found) == (channels > 3)
    assert_c_is_reference(compiled)


def test_no_number_is_the_least_one(tmp_path: Path) -> None:
    """NaN, infinities and ties, as onnxruntime's definition of QuantizeLinear has them."""
    b = Builder()
    b.output(b.quantise(b.input((1, 8)), 0.5, I8(-7)))
    compiled = m55(b, tmp_path)
    (x,) = compiled.plan.inputs
    values = np.array([[np.nan, np.inf, -np.inf, 0.25, 0.75, -0.25, 1e30, -60.5]], np.float32)
    (got,) = run_c(compiled, [{x: values}])
    assert next(iter(got.values())).reshape(-1).tolist() == [-128, 127, -128, -7, -5, -7, 127, -128]


MEAN = 0.0531       # scale of averages
POOLS = {
    "max": ("MaxPool", 20, {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1]}, "max_pool_mve"),
    "max-narrow": ("MaxPool", 3, {"kernel_shape": [2, 3], "dilations": [2, 1]}, "max_pool_mve"),
    "average": ("AveragePool", 12, {"kernel_shape": [3, 2], "strides": [1, 2]}, "average_pool_mve"),
    "average-include": ("AveragePool", 8, {"kernel_shape": [2, 3], "pads": [1, 0, 0, 2], "count_include_pad": 1},
                        "average_pool_mve"),
    "average-varied": ("AveragePool", 8, {"kernel_shape": [2, 3], "pads": [1, 0, 0, 2]}, "average_pool_mve"),
    "average-halved": ("AveragePool", 16, {"kernel_shape": [2, 4]}, "average_pool_mve"),
    "global": ("GlobalAveragePool", 24, {}, "global_average_mve"),
    "global-rest": ("GlobalAveragePool", 7, {}, "global_average"),
}


@pytest.mark.parametrize("zero", [-128, 5, 127])
@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str, zero: int, tmp_path: Path) -> None:
    kind, channels, attrs, kernel = POOLS[name]
    b = Builder()
    pool(b, kind, channels, attrs, I8(zero), MEAN)
    compiled = m55(b, tmp_path)
    assert kernel in kernels(compiled)
    assert_c_is_reference(compiled)


REAL = {
    "average": ("AveragePool", 12, {"kernel_shape": [3, 2], "strides": [1, 2]}, "average_pool_reals"),
    "average-varied": ("AveragePool", 4, {"kernel_shape": [2, 4], "pads": [1, 0, 0, 2]}, "average_pool_reals"),
    "average-include": ("AveragePool", 8, {"kernel_shape": [2, 3], "pads": [1, 0, 0, 2], "count_include_pad": 1,
                                           "ceil_mode": 1, "strides": [2, 2]}, "average_pool_reals"),
    "average-rest": ("AveragePool", 6, {"kernel_shape": [2, 2]}, "average_pool"),
    "global": ("GlobalAveragePool", 20, {}, "global_average_reals"),
    "global-rest": ("GlobalAveragePool", 5, {}, "global_average"),
}


@pytest.mark.parametrize("zero", [I8(-128), I8(5), np.uint8(255), None], ids=str)
@pytest.mark.parametrize("name", REAL)
def test_averages_as_floats(name: str, zero: Any, tmp_path: Path) -> None:
    """Scales of which sums are ties, and float32: each channel's sum is in the order of the scalar kernel."""
    kind, channels, attrs, kernel = REAL[name]
    b = Builder()
    if zero is not None:
        pool(b, kind, channels, attrs, zero, 0.05)
    else:
        x = b.op("Transpose", b.input((1, 5, 6, channels)), perm=[0, 3, 1, 2])
        b.output(b.op("Transpose", b.op(kind, x, **attrs), perm=[0, 2, 3, 1]))
    compiled = m55(b, tmp_path, requant="float")
    assert kernel in kernels(compiled)
    assert_c_is_reference(compiled)


def all_kinds() -> Builder:
    """Odd everything: all kernels of this file, with residuals, strides and pads."""
    b = Builder()
    elementwise(b, 11, -128)
    curves(b, 22, -9)
    ranges(b)
    for kind, channels, attrs, _ in POOLS.values():
        pool(b, kind, channels, attrs, I8(-7), MEAN)
    for kind, channels, attrs, _ in REAL.values():
        pool(b, kind, channels, attrs, np.uint8(99), 0.05)
    names = ("conv-2d", "conv-2d-dilated", "conv-pointwise-strided", "conv-depthwise", "conv-wholly-padding", "conv-batch",
             "conv-one-channel", "conv-depthwise-batch", "dense-gemm", "net-residual-relu", "net-residual-clip",
             "net-planar", "net-nhwc", "net-flattened")
    for i, name in enumerate(names):
        cases.all_layers()[name](BYTES[i % 3], b)
    for channels, columns in ((8, 9), (24, 5), (4, 7)):
        attrs = {"group": channels, "pads": [1, 1, 1, 1]}
        cases.Layer((1, channels, 5, columns), (channels, 1, 3, 3), attrs).conv(BYTES[0], b)
    for channels, outs in ((21, 13), (150, 6), (16, 8)):
        cases.Layer((1, channels, 3, 5), (outs, channels, 1, 1), {}).conv(BYTES[1], b)
        cases.Dense((1, channels), (channels, outs), {}, (outs,)).build(BYTES[2], b)
    return b


def test_under_sanitizers(tmp_path: Path) -> None:
    """AddressSanitizer and UndefinedBehaviorSanitizer; the outputs are those of the plain build."""
    compiled = m55(all_kinds(), tmp_path)
    assert {"conv_mve", "depthwise_mve", "pointwise_mve", "elementwise_mve", "max_pool_mve", "average_pool_mve",
            "global_average_mve"} <= set(kernels(compiled))
    assert_c_is_reference(compiled)
    rows = samples(compiled.plan, 1)
    for x, y in zip(sanitized(compiled.plan, rows), run_c(compiled, rows), strict=True):
        assert all(np.array_equal(x[t], y[t]) for t in x)


def test_taps_that_see_padding_alone_are_left_out(tmp_path: Path) -> None:
    """Of 7x7 with three pads on 2x3, the rows at both ends, and all but five columns; the zero point is not 0."""
    b = Builder()
    cases.Layer((1, 20, 2, 3), (20, 1, 7, 7), {"group": 20, "pads": [3, 3, 3, 3]}).conv(BYTES[1], b)
    compiled = m55(b, tmp_path)
    (step,) = compiled.plan.steps
    assert step.kernel.name == "depthwise_mve"
    assert [step.spec.constants[k] for k in ("K_H", "K_W", "PAD_TOP", "PAD_LEFT")] == [3, 5, 1, 2]
    assert_c_is_reference(compiled)


def test_work_is_counted(tmp_path: Path) -> None:
    """Multiply-accumulates as the plan says."""
    plan = m55(all_kinds(), tmp_path).plan
    assert counted(plan) == planned(plan)


@pytest.mark.parametrize(("opt", "requant"), [("-O0", "fixed"), ("-O1", "float"), ("-Os", "fixed"), ("-O2", "float"),
                                              ("-O3", "fixed"), ("-O3", "float")])
def test_on_the_board(opt: str, requant: str, tmp_path: Path) -> None:
    """The instructions do in QEMU what the portable bodies do here, whatever the optimisation."""
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    compiled = m55(all_kinds(), tmp_path, requant=requant)
    assert bench(compiled.plan, compiled.plan, "all kinds", opt=opt).mismatches == 0
