"""Kernels for Arm's DSP extension, and for cores that multiply words only (Cortex-M3, M0+).

Their portable bodies on the host equal numpy to the bit, and so does the board.
"""
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
from graphs import Builder, assert_c_is_reference, compile, kernels, run_c, run_ort, samples
from hypothesis import given
from hypothesis import strategies as st

from fuse2c import toolchain
from fuse2c.bench import bench, worst_case
from fuse2c.check import sanitized
from fuse2c.kernels import dsp, dsp_widen
from fuse2c.measure import qemu

I8, U8 = np.int8, np.uint8
M4 = "cortex-m4"
SPECIAL = {M4: "_dsp", "cortex-m3": ("_fields", "_rows"), "cortex-m0plus": ("_fields", "_rows")}     # ends of kernels' names
BYTES = (Style(I8(-128), I8(0), I8(11), channels=True), Style(U8(200), U8(128), U8(3)), Style(I8(127), I8(0), I8(-128)))


def m4(b: Builder, folder: Path, **options: Any) -> Any:
    """The plan for a core with DSP; HostModel runs it with the portable bodies."""
    return compile(b, folder, **{"target": M4, **options})


@st.composite
def stored(draw: st.DrawFn) -> Style:
    """Any zero points, the ends among them; weights that fit into bytes with their zero point taken off."""
    kind = draw(st.sampled_from([I8, U8]))
    info = np.iinfo(kind)
    zero = st.sampled_from([int(info.min), int(info.max)]) | st.integers(int(info.min), int(info.max))
    weights = draw(st.sampled_from([I8(0), U8(128)])) if kind is U8 else I8(0)
    return Style(kind(draw(zero)), weights, kind(draw(zero)), draw(st.booleans()), draw(st.sampled_from([0.0021, 0.037])))


@pytest.mark.parametrize("target", SPECIAL)
@pytest.mark.parametrize(("windows", "depthwise"), [([1], False), ([1, 2, 3, 5], False), ([3, 5, 7], True)],
                         ids=["pointwise", "conv", "depthwise"])
def test_drawn_convolutions(windows: list[int], depthwise: bool, target: str, tmp_path: Path) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(4):
            data.draw(layer(windows, depthwise)).conv(data.draw(stored()), b)
        compiled = m4(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])), target=target)
        assert all(name.endswith(SPECIAL[target]) for name in kernels(compiled))
        assert_c_is_reference(compiled)
    run()


@pytest.mark.parametrize("windows", [[1], [1, 2, 3]], ids=["pointwise", "conv"])
def test_drawn_groups(windows: list[int], tmp_path: Path) -> None:
    """Groups have streams of their own; how their columns lie in a row is that of all channels."""
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(3):
            one = data.draw(layer(windows, False))
            groups, per = data.draw(st.integers(2, 3)), data.draw(st.sampled_from([4, 8] if windows[1:] else [3, 4, 5, 11]))
            outs = groups * one.w[0]
            replace(one, x=(1, groups * per, *one.x[2:]), w=(outs, per, *one.w[2:]),
                    attrs={**one.attrs, "group": groups}).conv(data.draw(stored()), b)
        compiled = m4(b, tmp_path)
        assert set(kernels(compiled)) == {"conv_dsp"}
        assert_c_is_reference(compiled)
    run()


def test_drawn_depthwise_behind_pointwise(tmp_path: Path) -> None:
    """Rows channel by channel, or, where a second reader wants them so, pixel by pixel."""
    seen = set()

    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        style, twice = data.draw(stored()), data.draw(st.booleans())
        depthwise = data.draw(layer([3, 5, 7], True))
        channels = depthwise.x[1]
        pointwise = cases.Layer((1, 3, *depthwise.x[2:]), (channels, 3, 1, 1), {}, False)
        middle = b.requantise(pointwise.sum(style, b, style.x(b, *pointwise.x)), 0.05, style.x_zero)
        style.y(b, replace(depthwise, bias=False).sum(style, b, middle), 9)
        if twice:
            style.y(b, cases.Layer(depthwise.x, (2, channels, 1, 1), {}, False).sum(style, b, middle), channels)
        compiled = m4(b, tmp_path)
        step = next(s for s in compiled.plan.steps if s.kernel.name == "depthwise_dsp")
        seen.add(step.spec.constants["X_SW"] == 1)
        assert twice or step.spec.constants["X_SW"] == 1
        assert_c_is_reference(compiled)
    run()
    assert seen == {True, False}


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 6, 7, 8, 9, 30])
def test_elements_are_multiplied_once(channels: int) -> None:
    """Also where fours overlap; and words are read in the order in which elements are widened."""
    seg = dsp_widen.Widened(channels)
    found = [k for pair in seg.pairs for k in pair if k >= 0]
    assert sorted(found) == list(range(channels))
    assert len(seg.pairs) == (2 * seg.quads if seg.first else -(-channels // 2))
    starts = [0, *range(seg.first or 4, 4 * seg.quads, 4)][:seg.quads]
    loaded = [(start + k, start + k + 2) for start in starts for k in (0, 1)]
    assert all(k in (-1, at) for pair, ats in zip(seg.pairs, loaded, strict=False) for k, at in zip(pair, ats, strict=True))


@pytest.mark.parametrize("least", [-127, -128])
def test_blocks_of_assembly_are_their_c_twins(least: int, tmp_path: Path) -> None:
    """Tiles of all sizes, one trip and several, a last even output alone; words joined (-127) and in bytes (-128)."""
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    b = Builder()
    for width, depth in ((4, 5), (3, 9), (2, 7), (1, 6), (4, 32), (3, 33), (2, 48), (1, 40)):
        x = b.stored((1, depth, 2 if width > 1 else 1, width), 0.04, I8(-128))      # two rows of one column were a series
        weights = b.rng.integers(least, 127, (5, depth, 1, 1), endpoint=True).astype(I8)
        weights[3, 2], weights[2, 2] = least, -1
        b.output(b.quantise(b.op("Conv", x, b.dequantise(b.const(weights), 0.01, I8(0))), 0.7, I8(5)))
    compiled = m4(b, tmp_path)
    steps = [s.spec.flags for s in compiled.plan.steps]
    assert {(f["runs"][0].size, f["trips"], f["words"]) for f in steps} == {
        (n, trips, "BYTES" if least == -128 else "JOINED") for n in (1, 2, 3, 4) for trips in ("FLAT", "LOOP")}
    assert_c_is_reference(compiled)
    assert bench(compiled.plan, compiled.plan, "tiles").mismatches == 0


@pytest.mark.parametrize("target", SPECIAL)
def test_drawn_dense_layers(target: str, tmp_path: Path) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(4):
            data.draw(dense(6, (1, 70), 27)).build(data.draw(stored()), b)
        compiled = m4(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])), target=target)
        assert {name.split("_")[0] for name in kernels(compiled)} <= {"pointwise", "dense"}
        assert all(name.endswith(SPECIAL[target]) for name in kernels(compiled))
        assert_c_is_reference(compiled)
    run()


def narrow(b: Builder, least: int, bias: int) -> None:
    """A pointwise layer of random weights from `least` on, the odd outputs with a bias."""
    x = b.stored((1, 24, 2, 7), 0.04, I8(-128))
    weights = b.rng.integers(least, 127, (6, 24, 1, 1), endpoint=True).astype(I8)
    weights[3, 5], weights[2, 5] = least, -1
    shift = b.dequantise(b.const(np.array([0, bias] * 3, np.int32)), np.float32(0.04 * 0.01), np.int32(0))
    w = b.dequantise(b.const(weights), 0.01, I8(0))
    b.output(b.quantise(b.op("Conv", x, w, shift), 2.0 + bias * 4e-6, I8(5)))


@pytest.mark.parametrize(("least", "bias", "form"), [(-127, 1000, "joined"), (-127, 2 ** 26, "apart"), (-128, 1000, "bytes")])
def test_weight_words(least: int, bias: int, form: str, tmp_path: Path) -> None:
    """The three ways in which two weights share a halfword, each with inputs at both ends."""
    b = Builder()
    narrow(b, least, bias)
    compiled = m4(b, tmp_path)
    (step,) = compiled.plan.steps
    assert step.spec.flags["form"] == form
    assert step.spec.flags["words"] == ("BYTES" if form == "bytes" else "JOINED")
    assert ("upper" in step.spec.flags) == (form == "joined")
    assert_c_is_reference(compiled)


@pytest.mark.parametrize("largest", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [*range(1, 18), 39])
def test_a_row_is_covered_once(width: int, largest: int) -> None:
    """By as few tiles as can be, none smaller than another by more than one pixel."""
    found = dsp.runs(width, largest)
    assert [ox for r in found for ox in range(r.first, r.end)] == list(range(width))
    assert all((r.end - r.first) % r.size == 0 for r in found)
    sizes = [r.size for r in found]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] <= largest and sizes[0] - sizes[-1] <= 1
    assert sum((r.end - r.first) // r.size for r in found) == -(-width // largest)


def test_less_scratch_is_a_smaller_tile(tmp_path: Path) -> None:
    """Tiles of four, two and one pixel, dense layers that widen on the way, portable C: as there is room, the fastest."""
    b = Builder()
    cases.Layer((1, 8, 3, 11), (6, 8, 3, 3), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, True).conv(BYTES[0], b)
    cases.Dense((3, 40), (5, 40), {"transB": 1}, (5,)).build(BYTES[0], b)
    found, least = [], m4(b, tmp_path, optimize="ram=1").plan.ram_bytes
    ram = m4(b, tmp_path).plan.ram_bytes
    while ram >= least:
        compiled = m4(b, tmp_path, ram=ram)
        assert_c_is_reference(compiled)
        found.append([(s.kernel.name, s.spec.flags["runs"][0].size if "runs" in s.spec.flags else 0)
                      for s in compiled.plan.steps])
        ram = compiled.plan.ram_bytes - 1
    assert found == [[("pointwise_dsp", 3), ("conv_dsp", 4)], [("pointwise_dsp", 3), ("conv_dsp", 2)],
                     [("pointwise_dsp", 2), ("conv_dsp", 1)], [("dense_dsp", 0), ("conv", 0)]]


@pytest.mark.parametrize(("least", "bias", "form"), [(-127, 1000, "joined"), (-127, 2 ** 26, "apart"), (-128, 1000, "bytes")])
@pytest.mark.parametrize("depth", [300, 301, 303, 7])
def test_long_dense_layers(least: int, bias: int, form: str, depth: int, tmp_path: Path) -> None:
    """Outputs in blocks of eight, and a rest of three; elements in fours, and a rest. Short rows are widened first."""
    b = Builder()
    x = b.stored((1, depth), 0.04, I8(-128))
    weights = b.rng.integers(least, 127, (19, depth), endpoint=True).astype(I8)
    weights[3, 5], weights[2, 5] = least, -1
    shift = b.dequantise(b.const(np.array([0, bias] * 9 + [7], np.int32)), np.float32(0.04 * 0.01), np.int32(0))
    w = b.dequantise(b.const(weights), 0.01, I8(0))
    b.output(b.quantise(b.op("Gemm", x, w, shift, transB=1), 3.0 + bias * 4e-6, I8(5)))
    compiled = m4(b, tmp_path)
    (step,) = compiled.plan.steps
    assert step.kernel.name == ("dense_dsp" if depth > 256 else "pointwise_dsp")
    assert step.spec.flags["form"] == form and (step.spec.scratch == 0) == (depth > 256)
    assert_c_is_reference(compiled)


@pytest.mark.parametrize("target", SPECIAL)
@pytest.mark.parametrize("weight", [127, -127])
@pytest.mark.parametrize("channels", [64, 65, 256])
def test_words_of_the_largest_sums(channels: int, weight: int, target: str, tmp_path: Path) -> None:
    """All inputs and weights at the same end: 255 * 127 for each of 256 channels is the most that odd outputs may collect.

    Three sums in two words: 128 * 127 for each of 64 channels is the most that a sum has room for.
    """
    b = Builder()
    x = b.stored((1, channels, 1, 5), 0.04, I8(-128))
    w = b.dequantise(b.const(np.full((4, channels, 1, 1), weight, I8)), 0.01, I8(0))
    b.output(b.quantise(b.op("Conv", x, w), 15.0, I8(-128)))
    compiled = m4(b, tmp_path, target=target)
    if target != M4:
        (step,) = compiled.plan.steps
        assert step.spec.flags["strips"]["of_3"].loops.parts == {64: 1, 65: 2, 256: 4}[channels]
    assert_c_is_reference(compiled)


MEAN = 0.0638       # scale of averages
POOLS = {
    "max": ("MaxPool", 20, {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1]}, "max_pool_dsp"),
    "max-wide": ("MaxPool", 8, {"kernel_shape": [2, 3], "dilations": [2, 1], "pads": [0, 2, 0, 1]}, "max_pool_dsp"),
    "max-rest": ("MaxPool", 6, {"kernel_shape": [2, 2], "strides": [2, 2]}, "max_pool"),
    "average": ("AveragePool", 12, {"kernel_shape": [3, 2], "strides": [1, 2]}, "average_pool_dsp"),
    "average-varied": ("AveragePool", 8, {"kernel_shape": [2, 3], "pads": [1, 0, 0, 2]}, "average_pool_dsp"),
    "average-rest": ("AveragePool", 6, {"kernel_shape": [2, 3], "pads": [1, 0, 0, 2]}, "average_pool"),
    "global": ("GlobalAveragePool", 24, {}, "global_average_dsp"),
    "global-rest": ("GlobalAveragePool", 7, {}, "global_average"),
}


@pytest.mark.parametrize("zero", [I8(-128), I8(5), I8(127), U8(0), U8(255)])
@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str, zero: Any, tmp_path: Path) -> None:
    kind, channels, attrs, kernel = POOLS[name]
    b = Builder()
    pool(b, kind, channels, attrs, zero, MEAN)
    compiled = m4(b, tmp_path)
    assert kernel in kernels(compiled)
    assert_c_is_reference(compiled)


def test_pools_on_the_board(tmp_path: Path) -> None:
    """Differences of bytes and sums of pairs, signed and unsigned."""
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    b = Builder()
    for kind, channels, attrs, _ in POOLS.values():
        for zero in (I8(-128), I8(7), U8(0), U8(255)):
            pool(b, kind, channels, attrs, zero, MEAN)
    compiled = m4(b, tmp_path)
    assert {k for *_, k in POOLS.values()} <= set(kernels(compiled))
    assert_c_is_reference(compiled)
    assert bench(compiled.plan, compiled.plan, "pools").mismatches == 0


HALF = [(2, 2, 0.05), (4, 2, 0.05), (2, 3, 0.05), (2, 2, 0.1), (1, 3, 0.031)]     # of the window, and the scale of the result


@pytest.mark.parametrize("target", [M4, "cortex-m55", "cortex-m3", "cortex-m0plus", "host"])
@pytest.mark.parametrize("zero", [I8(-128), I8(7), U8(255)])
def test_exact_means(zero: Any, target: str, tmp_path: Path) -> None:
    """Sums of integers, requantised: half to even where only bits are cut off. A tie may be a step from
    onnxruntime's, whose float32 sums are in an order of its own."""
    b, s = Builder(), np.float32(0.05)
    x = b.stored((1, 5, 6, 8), 0.05, zero)
    turned = b.op("Transpose", x, perm=[0, 3, 1, 2])
    for height, width, scale in HALF:
        y = b.op("AveragePool", turned, kernel_shape=[height, width])
        b.output(b.op("Transpose", b.quantise(y, scale, zero), perm=[0, 2, 3, 1]))
    compiled = m4(b, tmp_path, target=target)
    assert_c_is_reference(compiled)
    rows = samples(compiled.plan)
    for row, found, ort in zip(rows, run_c(compiled, rows), run_ort(b.model(), rows), strict=True):
        (stored,) = row.values()
        for (height, width, scale), name in zip(HALF, compiled.plan.graph.outputs, strict=True):
            taps = np.lib.stride_tricks.sliding_window_view(stored.astype(int) - int(zero), (height, width), axis=(1, 2))
            mean = np.rint(1e9 * taps.sum(axis=(-1, -2)) * float(s) / float(np.float32(scale)) / (height * width)) / 1e9
            tie = np.abs(mean - np.floor(mean) - 0.5) < 1e-6
            limits = np.iinfo(zero.dtype)
            want = np.clip(np.rint(mean) + int(zero), limits.min, limits.max)
            assert (found[name] == want)[~tie | (width != 3)].all()
            assert np.abs(found[name].astype(int) - ort[name]).max() <= 1 and (found[name] == ort[name])[~tie].all()
    if target != "host" and shutil.which(toolchain.ARM_GCC) and shutil.which(qemu.QEMU):
        assert bench(compiled.plan, compiled.plan, "means").mismatches == 0


@pytest.mark.parametrize("target", ["cortex-m3", "cortex-m0plus"])
def test_means_without_an_fpu(target: str, tmp_path: Path) -> None:
    """Scales of which sums are ties, in integers: whole planes, padding, three dimensions."""
    b = Builder()
    for kind, channels, attrs, _ in POOLS.values():
        for zero in (I8(-128), I8(7), U8(255)):
            pool(b, kind, channels, attrs, zero, 0.05)
    volume = b.op("AveragePool", b.stored((1, 3, 4, 3, 5), 0.05, I8(-9)), kernel_shape=[2, 2, 3], pads=[1, 0, 1, 0, 1, 2])
    b.output(b.quantise(volume, 0.05, I8(-9)))
    compiled = m4(b, tmp_path, target=target, requant="float")
    assert sum(s.spec.acc == "int64_t" for s in compiled.plan.steps) >= 9
    assert_c_is_reference(compiled)
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    assert bench(compiled.plan, compiled.plan, "means").mismatches == 0


@pytest.mark.parametrize(("target", "opt", "mode"), [("cortex-m3", "-O2", "float"), ("cortex-m3", "-Os", "float"),
                                                     ("cortex-m4", "-O3", "float"), ("cortex-m3", "-O3", "fixed")])
def test_means_have_one_path(target: str, opt: str, mode: str, tmp_path: Path) -> None:
    """Quantisation, means with ties, dequantisation, a lower limit of zero: with and without an FPU."""
    if shutil.which(toolchain.ARM_GCC) is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    b = Builder()
    for attrs in ({"kernel_shape": [2, 3], "pads": [1, 0, 0, 2]}, {"kernel_shape": [5, 6]}):
        x = b.requantise(b.input((1, 3, 5, 6)), 0.05, I8(-128))
        b.output(b.requantise(b.op("AveragePool", x, **attrs), 0.05, I8(-128)))
    plan = m4(b, tmp_path, target=target, requant=mode).plan
    assert (worst_case(plan, opt=opt).branches, len(plan.outputs)) == ((), 2)


def all_kinds() -> Builder:
    """Odd everything: all kernels of this file, with residuals, strides and pads."""
    b = Builder()
    for i, name in enumerate(("conv-2d", "conv-2d-dilated", "conv-pointwise-strided", "conv-depthwise", "conv-wholly-padding",
                              "conv-one-channel", "conv-batch", "conv-depthwise-batch", "dense-gemm", "dense-gemm-turned",
                              "net-residual-relu", "net-residual-clip", "net-planar", "net-nhwc", "net-flattened")):
        cases.all_layers()[name](BYTES[i % 3], b)
    cases.Dense((3, 41), (7, 41), {"transB": 1}, (7,)).build(BYTES[0], b)
    pointwise = cases.Layer((1, 3, 5, 9), (6, 3, 1, 1), {}, False)
    depthwise = cases.Layer((1, 6, 5, 9), (6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}, False)
    middle = b.requantise(pointwise.sum(BYTES[0], b, BYTES[0].x(b, *pointwise.x)), 0.05, BYTES[0].x_zero)
    BYTES[0].y(b, depthwise.sum(BYTES[0], b, middle), 9)
    return b


@pytest.mark.parametrize("target", SPECIAL)
def test_under_sanitizers(target: str, tmp_path: Path) -> None:
    """AddressSanitizer and UndefinedBehaviorSanitizer; the outputs are those of the plain build."""
    compiled = m4(all_kinds(), tmp_path, target=target)
    found = {name.split("_")[0] for name in kernels(compiled) if name.endswith(SPECIAL[target])}
    assert {"conv", "depthwise", "pointwise"} <= found
    assert_c_is_reference(compiled)
    rows = samples(compiled.plan, 1)
    for x, y in zip(sanitized(compiled.plan, rows), run_c(compiled, rows), strict=True):
        assert all(np.array_equal(x[t], y[t]) for t in x)


@pytest.mark.parametrize("opt", ["-O0", "-O3"])
@pytest.mark.parametrize("requant", ["fixed", "float"])
@pytest.mark.parametrize("target", SPECIAL)
def test_on_the_board(target: str, opt: str, requant: str, tmp_path: Path) -> None:
    """The instructions do in QEMU what the portable bodies do here, optimised or not."""
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    compiled = m4(all_kinds(), tmp_path, requant=requant, target=target)
    assert bench(compiled.plan, compiled.plan, "all kinds", opt=opt).mismatches == 0
