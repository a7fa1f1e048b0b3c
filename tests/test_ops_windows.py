"""Windows and matrix products in more dimensions, with variable weights, zero points and scales: C, numpy, onnxruntime.

ONNX's own suite (test_conformance.py) has a case or two of each operator; here is what it leaves out: groups with
dilations, asymmetric pads in three dimensions, batches, integers that wrap, scales that are computed at run time.
"""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import Builder, assert_c_is_reference, compile, kernels, outputs, run_c, run_ort, samples

from fuse2c.check import random_samples
from fuse2c.check.host import sanitized
from fuse2c.errors import Fuse2cError, NoKernel, Overflow, UnsupportedOp

I8, U8 = np.int8, np.uint8
Build = Callable[[Builder], None]


def node(kind: str, *shapes: tuple[int, ...] | None, dtype: Any = np.float32, count: int = 1, **attrs: Any) -> Build:
    """One operator whose inputs are all variable (None: absent)."""
    def build(b: Builder) -> None:
        made = b.op(kind, *("" if s is None else b.input(s, dtype) for s in shapes), outputs=count, **attrs)
        b.output(*(made if count > 1 else [made]))
    return build


def conv_3d_stored(b: Builder) -> None:
    """8-bit in three dimensions, a weight scale for each of the channels."""
    x = b.stored((2, 4, 5, 4, 3), 0.04, U8(93))
    scale = np.asarray([0.01, 0.02, 0.015, 0.03, 0.012, 0.02], np.float32)
    y = b.op("Conv", x, b.weights((6, 2, 2, 3, 2), scale, np.zeros(6, I8)), b.bias(6, np.float32(0.04) * scale),
             group=2, pads=[1, 0, 1, 0, 2, 0], strides=[2, 1, 1])
    b.output(b.quantise(b.op("Relu", y), 0.2, U8(3)))


def average_3d_stored(b: Builder) -> None:
    """8-bit means whose number of elements varies."""
    x = b.stored((1, 3, 5, 4, 6), 0.06, I8(-11))
    b.output(b.quantise(b.op("AveragePool", x, kernel_shape=[3, 2, 3], strides=[2, 1, 2], pads=[1, 1, 0, 1, 0, 2]),
                        0.05, I8(7)))


def matmul_both_stored(b: Builder) -> None:
    """8-bit operands that are both variable, as in attention."""
    a, w = b.stored((2, 3, 5, 7), 0.03, U8(100)), b.stored((3, 7, 4), 0.05, I8(-3))
    b.output(b.quantise(b.op("MatMul", a, w), 0.11, I8(9)))


def conv_integer(zero: str) -> Build:
    """ConvInteger with zero points that are constant, variable, or one for each output channel."""
    def build(b: Builder) -> None:
        x, w = b.input((2, 4, 5, 3), U8), b.input((6, 2, 3, 2), I8)
        if zero == "constant":
            x = b.op("ConvInteger", x, b.const(b.rng.integers(-128, 128, (6, 2, 3, 2)), I8), b.const(11, U8),
                     b.const([1, -2, 3, 4, -128, 127], I8), group=2, pads=[1, 0, 2, 1], dilations=[1, 2])
        else:
            x = b.op("ConvInteger", x, w, b.input((), U8), group=2, pads=[1, 0, 2, 1], strides=[2, 1])
        b.output(x)
    return build


def matmul_integer(b: Builder) -> None:
    """Zero points at run time, one for the left operand and one for each column."""
    b.output(b.op("MatMulInteger", b.input((2, 3, 5), U8), b.input((5, 4), I8), b.input((), U8), b.input((4,), I8)))


def dynamic(b: Builder) -> None:
    """A dynamically quantised layer: scale and zero point of the activations are computed at run time."""
    x, scale, zero = b.op("DynamicQuantizeLinear", b.input((3, 7)), outputs=3)
    y = b.op("MatMulInteger", x, b.const(b.rng.integers(-128, 128, (7, 4)), I8), zero, b.const(3, I8))
    b.output(b.op("Mul", b.op("Cast", y, to=1), b.op("Mul", scale, b.const(0.02, np.float32))))


def variable_scales(b: Builder) -> None:
    """QuantizeLinear and DequantizeLinear along an axis, scales and zero points as data."""
    scale, zero = b.op("Abs", b.input((3,))), b.input((3,), I8)
    q = b.op("QuantizeLinear", b.input((2, 3, 4)), b.op("Add", scale, b.const(0.01, np.float32)), zero, axis=1)
    b.output(b.op("DequantizeLinear", q, scale, zero, axis=-2))


def blocked(b: Builder) -> None:
    """Blocks of 4 elements along the middle axis, uint16 storage."""
    scale, zero = b.const(b.rng.uniform(0.01, 0.2, (2, 3, 5)), np.float32), b.const(b.rng.integers(0, 65536, (2, 3, 5)),
                                                                                   np.uint16)
    q = b.op("QuantizeLinear", b.input((2, 12, 5)), scale, zero, axis=1, block_size=4)
    b.output(q, b.op("DequantizeLinear", q, scale, zero, axis=1, block_size=4))


def unpool(b: Builder) -> None:
    """What a MaxPool with indices took apart."""
    x, i = b.op("MaxPool", b.input((2, 3, 4, 6)), kernel_shape=[2, 3], strides=[2, 3], outputs=2)
    b.output(b.op("MaxUnpool", x, i, kernel_shape=[2, 3], strides=[2, 3]), i)


def between_convolutions(b: Builder) -> None:
    """Tensors that lie channels-last in memory on both sides."""
    x = b.op("Conv", b.input((1, 3, 6, 5)), b.floats(4, 3, 1, 1))
    y = b.op("ConvTranspose", b.op("LpPool", x, kernel_shape=[2, 3]), b.floats(4, 3, 2, 2), b.floats(3), strides=[2, 1])
    b.output(b.op("Conv", b.op("LRN", b.op("Relu", y), size=3, alpha=0.3, beta=0.6, bias=1.5), b.floats(2, 3, 1, 1)))


CASES: dict[str, Build] = {
    "conv_1d_variable": node("Conv", (2, 4, 9), (6, 2, 3), (6,), group=2, pads=[2, 1], strides=[2], dilations=[2]),
    "conv_3d": node("Conv", (2, 2, 5, 4, 6), (3, 2, 2, 3, 2), (3,), pads=[1, 0, 2, 0, 1, 1], strides=[2, 1, 3]),
    "conv_3d_double": node("Conv", (1, 2, 4, 3, 5), (2, 2, 2, 2, 3), dtype=np.float64, dilations=[2, 1, 2]),
    "conv_transpose_groups": node("ConvTranspose", (2, 4, 3, 5), (4, 3, 2, 3), (6,), group=2, strides=[3, 2],
                                  dilations=[2, 1], pads=[1, 0, 2, 1], output_padding=[2, 1]),
    "conv_transpose_same": node("ConvTranspose", (1, 2, 3, 4), (2, 3, 3, 2), strides=[2, 3], auto_pad="SAME_LOWER"),
    "conv_transpose_shape": node("ConvTranspose", (1, 2, 3, 4), (2, 3, 3, 2), strides=[3, 2], output_shape=[10, 8]),
    "conv_transpose_3d": node("ConvTranspose", (1, 2, 3, 2, 4), (2, 2, 2, 3, 2), strides=[2, 1, 2]),
    "max_pool_3d": node("MaxPool", (2, 2, 5, 4, 6), kernel_shape=[2, 3, 2], strides=[2, 1, 3], pads=[1, 0, 1, 0, 2, 0],
                        ceil_mode=1),
    "max_pool_indices_columns": node("MaxPool", (2, 3, 5, 4), kernel_shape=[3, 2], pads=[1, 1, 0, 0], count=2,
                                     storage_order=1, dilations=[1, 2]),
    "average_pool_3d": node("AveragePool", (1, 2, 5, 4, 7), kernel_shape=[2, 3, 2], strides=[2, 2, 3], ceil_mode=1,
                            pads=[1, 1, 0, 0, 1, 1], count_include_pad=1),
    "lp_pool": node("LpPool", (2, 3, 6, 5), kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 2, 1], p=3),
    "global_lp_pool": node("GlobalLpPool", (2, 3, 4, 5), p=1),
    "gemm_int": node("Gemm", (3, 5), (5, 4), (4,), dtype=np.int32),
    "matmul_uint64": node("MatMul", (2, 1, 3, 5), (4, 5, 2), dtype=np.uint64),
    "matmul_vectors": node("MatMul", (5,), (2, 5, 3), dtype=np.float64),
    "einsum_diagonal": node("Einsum", (3, 4, 3), (4, 2), equation="iji,jk->ki"),
    "einsum_dots": node("Einsum", (2, 3, 4), (1, 4, 5), equation="...ij,...jk"),
    "det": node("Det", (2, 4, 4)),
    "max_roi_pool": node("MaxRoiPool", (2, 3, 7, 5), (4, 5), pooled_shape=[3, 2], spatial_scale=0.5),
    "conv_3d_stored": conv_3d_stored, "average_3d_stored": average_3d_stored,
    "matmul_both_stored": matmul_both_stored, "conv_integer_constant": conv_integer("constant"),
    "conv_integer_variable": conv_integer("variable"), "matmul_integer": matmul_integer, "dynamic": dynamic,
    "variable_scales": variable_scales, "blocked": blocked, "unpool": unpool,
    "between_convolutions": between_convolutions,
}
OPSETS = {"blocked": 21, "lp_pool": 18, "max_pool_indices_columns": 12}
# onnxruntime has no kernel, or reads another meaning into it.
NOT_ORT = {"matmul_uint64": "no kernel for uint64", "conv_3d_double": "no kernel for float64",
           "conv_integer_constant": "one zero point for all weights",
           "gemm_int": "no kernel for int32"}
# A mean over three dimensions is summed in another order: where it comes to a tie, it is one step apart.
STEPS = {"average_3d_stored": 1}


def rois(rows: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Regions in place of random numbers: inside, reversed, partly outside."""
    regions = np.asarray([[0, 1, 2, 9, 13], [1, 6, 3, 2, 8], [1, -4, 0, 5, 30], [0, 3, 3, 3, 3]], np.float32)
    return [{t: regions if a.shape == regions.shape else a for t, a in row.items()} for row in rows]


@pytest.mark.parametrize("name", CASES)
def test_c_is_numpy_is_onnxruntime(name: str, tmp_path: Path) -> None:
    b = Builder(opset=OPSETS.get(name, 17))
    CASES[name](b)
    model = b.model()
    compiled = compile(model, tmp_path)
    rows = samples(compiled.plan)
    rows = rois(rows) if name == "max_roi_pool" else rows
    assert_c_is_reference(compiled, rows)
    if name in NOT_ORT:
        return
    for got, want in zip(outputs(compiled.plan.source, rows), run_ort(model, rows), strict=True):
        for t, value in want.items():
            assert got[t].dtype == value.dtype
            assert got[t].shape == value.shape
            if value.dtype.kind == "f":
                assert np.allclose(got[t], value, rtol=3e-5, atol=3e-5)
            else:
                assert np.abs(got[t].astype(np.int64) - value.astype(np.int64)).max() <= STEPS.get(name, 0)


def test_the_kernels_are_those_meant(tmp_path: Path) -> None:
    """What has a quicker kernel keeps it; what is new runs on the general ones."""
    wanted = {"conv_3d_stored": ["conv_volume"], "matmul_both_stored": ["matmul"], "average_3d_stored": ["pool_volume"],
              "conv_integer_variable": ["conv_volume"], "einsum_dots": ["einsum"]}
    for name, want in wanted.items():
        b = Builder()
        CASES[name](b)
        assert kernels(compile(b, tmp_path)) == want, name
    b = Builder()
    b.output(b.op("Conv", b.input((1, 2, 5, 4)), b.floats(3, 2, 2, 3)))
    assert kernels(compile(b, tmp_path)) == ["conv"]


def test_roi_align_samples_adaptively(tmp_path: Path) -> None:
    """The number of samples follows from the region; images outside of the batch are limited to it."""
    for mode, ratio in (("avg", 0), ("max", 0), ("avg", 3)):
        b = Builder(opset=16)
        b.output(b.op("RoiAlign", b.input((2, 3, 9, 7)), b.input((3, 4)), b.input((3,), np.int64), output_height=3,
                      output_width=2, sampling_ratio=ratio, spatial_scale=0.5, mode=mode))
        model = b.model()
        compiled = compile(model, tmp_path)
        row = random_samples(compiled.plan, 1, 0)[0]
        _, regions, images = compiled.plan.graph.inputs
        row |= {regions: np.asarray([[0, 1, 9, 16], [3.5, 2, 12, 5.25], [1, 1, 2, 2]], np.float32),
                images: np.asarray([1, 0, 1], np.int64)}
        assert_c_is_reference(compiled, [row])
        got, want = run_c(compiled, [row])[0], run_ort(model, [row])[0]
        assert np.allclose(*got.values(), *want.values(), rtol=1e-5, atol=1e-5)
        wild = row | {images: np.asarray([7, -1, -9], np.int64),
                      regions: np.asarray([[0, 0, 1e30, 1e30], [np.nan] * 4, [-9e9, -5, 9e9, 5]], np.float32)}
        sanitized(compiled.plan, [wild])        # reads nothing outside, converts nothing that does not fit


def test_integer_products_wrap(tmp_path: Path) -> None:
    b = Builder()
    b.output(b.op("MatMul", b.input((2, 3), np.int32), b.input((3, 2), np.int32)))
    compiled = compile(b, tmp_path)
    big = np.full((2, 3), 2 ** 31 - 1, np.int32)
    row = dict(zip(compiled.plan.graph.inputs, (big, big.T.copy()), strict=True))
    assert set(run_c(compiled, [row])[0].popitem()[1].reshape(-1)) == {3}


@pytest.mark.parametrize(("build", "error", "says"), [
    (node("Conv", (1, 2, 3, 3, 3, 3), (2, 2, 1, 1, 1, 1)), UnsupportedOp, "4-D convolution"),
    (node("ConvTranspose", (1, 2, 3, 3), (2, 2, 1, 1), pads=[2, 0, 2, 0]), Fuse2cError, "-1"),
    (node("MatMulInteger", (1, 40000), (40000, 1), dtype=U8), Overflow, "40000 products"),
    (node("Gemm", (2, 3), (3, 2), dtype=np.int32, alpha=0.5), UnsupportedOp, "whole numbers"),
    (node("Einsum", (2, 3), equation="ij->ii"), Fuse2cError, "result"),
    (node("MaxPool", (1, 1, 4, 4, 4, 4), kernel_shape=[2, 2, 2, 2]), UnsupportedOp, "4-D pooling"),
])
def test_what_is_refused_says_why(build: Build, error: type[Fuse2cError], says: str, tmp_path: Path) -> None:
    b = Builder()
    build(b)
    with pytest.raises(error, match=says):
        compile(b, tmp_path)


def test_variable_zero_points_of_another_shape_have_no_kernel(tmp_path: Path) -> None:
    b = Builder()
    b.output(b.op("MatMulInteger", b.input((2, 3, 5), U8), b.input((2, 5, 4), I8), b.input((2, 1, 1), U8)))
    with pytest.raises(NoKernel, match="zero points of another shape"):
        compile(b, tmp_path)
