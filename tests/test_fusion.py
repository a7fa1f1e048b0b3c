"""Each fold and fusion: an example where it fires, exact in C, and near misses with the reason for each refusal."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import Builder, assert_c_is_reference, chains, compile, outputs, reasons, samples

import fuse2c

I8, U8 = np.int8, np.uint8
F32 = np.float32


def assert_same_meaning(compiled: fuse2c.Compiled, steps: int = 0) -> None:
    """C = body = the model before any rewriting: floats up to rounding, integers within `steps`."""
    plan = compiled.plan
    rows = samples(plan)
    assert_c_is_reference(compiled, rows)
    for got, want in zip(outputs(plan.graph, rows), outputs(plan.source, rows), strict=True):
        for x, y in zip(got.values(), want.values(), strict=True):
            if x.dtype.kind == "f":
                assert np.allclose(x, y, rtol=2e-6, atol=2e-6 * float(np.abs(y).max()))
            else:
                assert np.abs(x.astype(int) - y.astype(int)).max() <= steps


def conv(b: Builder, x: str, outputs_: int = 4, bias: bool = True, kernel: tuple[int, int] = (3, 2), **attrs: Any) -> str:
    """A float convolution of three channels."""
    rest = [b.floats(outputs_)] if bias else []
    return str(b.op("Conv", x, b.floats(outputs_, 3, *kernel), *rest, **attrs))


def stored_conv(b: Builder, x: str, scale: float = 0.4, zero: Any = I8(5), **attrs: Any) -> str:
    """A quantised convolution of three channels, its result dequantised."""
    t = b.op("Conv", x, b.weights((4, 3, 2, 3), np.full(4, 0.013, F32)), **attrs)
    return b.requantise(t, scale, zero)


def scalar(b: Builder, value: float) -> str:
    """A float32 constant of rank 0."""
    return b.const(value, F32)


SHAPE = (1, 3, 6, 5)

# --- epilogues -------------------------------------------------------------------------------------------------------


def ep_relu(b: Builder) -> None:
    b.output(b.op("Relu", conv(b, b.input(SHAPE))))


def ep_chain(b: Builder) -> None:
    t = b.op("Mul", b.op("Tanh", conv(b, b.input(SHAPE))), scalar(b, 1.5))
    b.output(b.op("Sub", scalar(b, 0.5), b.op("LeakyRelu", t, alpha=0.25)))


def ep_residual(b: Builder) -> None:
    x = conv(b, b.input(SHAPE), 3, kernel=(1, 1))
    t = b.op("Add", conv(b, x, 3, kernel=(3, 3), pads=[1, 1, 1, 1]), x)
    b.output(conv(b, b.op("Relu", t)))


def ep_dense(b: Builder) -> None:
    b.output(b.op("Sigmoid", b.op("MatMul", b.input((2, 6)), b.floats(6, 5))))


def ep_general(b: Builder) -> None:
    b.output(b.op("Abs", b.op("MatMul", b.input((2, 6)), b.input((6, 5)))))


def ep_pool(b: Builder) -> None:
    b.output(b.op("Neg", b.op("AveragePool", b.input(SHAPE), kernel_shape=[2, 3])))


def ep_stored(b: Builder) -> None:
    t = stored_conv(b, b.stored(SHAPE, 0.03, I8(-9)))
    t = b.requantise(b.op("Relu", t), 0.4, I8(5))
    b.output(b.quantise(b.op("Sigmoid", t), 1 / 256, I8(-128)))


def ep_dequantise(b: Builder) -> None:
    b.output(b.op("Relu", stored_conv(b, b.stored(SHAPE, 0.03, I8(-9)))))


def ep_square(b: Builder) -> None:
    t = conv(b, b.input(SHAPE))
    b.output(b.op("Mul", t, t))


def ep_broadcast(b: Builder) -> None:
    b.output(b.op("Div", conv(b, b.input(SHAPE)), b.input((4, 1, 1))))


def ep_slope(b: Builder) -> None:
    t = b.op("PRelu", conv(b, b.input(SHAPE)), b.floats(4, 1, 1))
    b.output(b.op("Mul", t, b.op("Sigmoid", t)))


FIRES: list[tuple[Callable[[Builder], None], list[str]]] = [
    (ep_broadcast, ["Conv > Div"]), (ep_slope, ["Conv > PRelu > Swish"]),
    (ep_relu, ["Conv > Relu"]), (ep_chain, ["Conv > Tanh > Mul > LeakyRelu > Sub"]),
    (ep_residual, ["Conv", "Conv > Add > Relu", "Conv"]), (ep_dense, ["MatMul > Sigmoid"]), (ep_general, ["MatMul > Abs"]),
    (ep_pool, ["AveragePool > Neg"]), (ep_stored, ["Conv > Table"]),
    (ep_dequantise, ["Conv > Relu > DequantizeLinear"]), (ep_square, ["Conv > Mul"]),
]


@pytest.mark.parametrize(("build", "want"), FIRES, ids=lambda v: getattr(v, "__name__", ""))
def test_epilogue(build: Callable[[Builder], None], want: list[str], tmp_path: Path) -> None:
    b = Builder()
    build(b)
    compiled = compile(b, tmp_path)
    assert chains(compiled) == want
    assert compiled.plan.launches <= len(want) < compile(b, tmp_path, fuse=False).plan.launches
    assert reasons(compiled, "fuse", "epilogue", taken=True)
    assert_same_meaning(compiled, steps=1)


def miss_second_reader(b: Builder) -> None:
    t = conv(b, b.input(SHAPE))
    b.output(b.op("Relu", t), b.op("Abs", t))


def miss_output(b: Builder) -> None:
    t = conv(b, b.input(SHAPE))
    b.output(t, b.op("Relu", t))


def miss_larger_tail(b: Builder) -> None:
    b.output(b.op("Add", b.op("MatMul", b.input((1, 6)), b.floats(6, 5)), b.input((3, 5))))


def miss_order(b: Builder) -> None:
    """The residual lies channels-last, the result is an output: row-major."""
    x = conv(b, b.input(SHAPE), 3, kernel=(1, 1))
    t = b.op("Add", conv(b, x, 3, kernel=(3, 3), pads=[1, 1, 1, 1]), x)
    b.output(b.op("Relu", t))


def miss_row_major_anchor(b: Builder) -> None:
    x = b.input((1, 3, 4, 5))
    t = b.op("Add", conv(b, x, 3, kernel=(1, 1)), b.op("MatMul", x, b.floats(5, 5)))
    b.output(conv(b, t))


def miss_constant_map(b: Builder) -> None:
    b.output(b.op("Div", b.op("MaxPool", b.input(SHAPE), kernel_shape=[2, 2]), b.floats(5, 4)))


MISSES: list[tuple[Callable[[Builder], None], list[str], str]] = [
    (miss_second_reader, ["Conv", "Relu > Abs"], "is also read by"),
    (miss_output, ["Conv", "Relu"], "is also read by the caller"),
    (miss_larger_tail, ["MatMul", "Add"], "has another shape than the anchor's"),
    (miss_order, ["Conv", "Conv", "Add > Relu"], "lies in another order"),
    (miss_row_major_anchor, ["Conv", "MatMul", "Add", "Conv"], "the anchor writes row-major order only"),
    (miss_constant_map, ["MaxPool", "Div"], "is neither one number, nor one a channel, nor of the result's shape"),
]


@pytest.mark.parametrize(("build", "want", "reason"), MISSES, ids=lambda v: getattr(v, "__name__", ""))
def test_epilogue_near_miss(build: Callable[[Builder], None], want: list[str], reason: str, tmp_path: Path) -> None:
    b = Builder()
    build(b)
    compiled = compile(b, tmp_path)
    assert sorted(chains(compiled)) == sorted(want)
    if reason:
        assert any(reason in r for r in reasons(compiled, "fuse", "epilogue")), reasons(compiled, "fuse", "epilogue")
    assert_same_meaning(compiled)


# --- folds: (graph, chains of the kernels, rule, "" if it is taken, else why not) -----------------------------------


def bias_conv(b: Builder) -> None:
    b.output(b.op("Add", conv(b, b.input(SHAPE), bias=False), b.floats(4, 1, 1)))


def bias_added_to_bias(b: Builder) -> None:
    b.output(b.op("Add", b.floats(1, 4, 1, 1), conv(b, b.input(SHAPE))))


def bias_scalar(b: Builder) -> None:
    b.output(b.op("Add", b.op("MatMul", b.input((2, 6)), b.floats(6, 5)), scalar(b, 0.25)))


def bias_stored(b: Builder) -> None:
    t = b.op("MatMul", b.stored((2, 6), 0.05, I8(3)), b.weights((6, 5), 0.01))
    b.output(b.quantise(b.op("Add", t, b.bias(5, F32(0.05) * F32(0.01))), 0.1, I8(-20)))


def bias_along_width(b: Builder) -> None:
    b.output(b.op("Add", conv(b, b.input(SHAPE)), b.floats(4)))      # 4 channels, and 4 columns


def bias_variable(b: Builder) -> None:
    b.output(b.op("Add", conv(b, b.input(SHAPE)), b.input((1, 4, 1, 1))))


def bias_of_vector_product(b: Builder) -> None:
    b.output(b.op("Add", b.op("MatMul", b.input((4, 6)), b.floats(6)), b.floats(4)))


def bias_read_twice(b: Builder) -> None:
    t = conv(b, b.input(SHAPE), bias=False)
    b.output(b.op("Add", t, b.floats(4, 1, 1)), t)


def bias_between_stored(b: Builder) -> None:
    """A constant added to stored values has a scale of its own: it is no bias."""
    t = stored_conv(b, b.stored(SHAPE, 0.03, I8(-9)))
    b.output(b.quantise(b.op("Add", t, b.weights((4, 1, 1), 0.05, I8(7))), 0.4, I8(-1)))


def scale_conv(b: Builder) -> None:
    b.output(b.op("Mul", conv(b, b.input(SHAPE)), b.floats(1, 4, 1, 1)))


def scale_dense(b: Builder) -> None:
    t = b.op("Gemm", b.input((2, 6)), b.floats(5, 6), b.floats(5), transB=1)
    b.output(b.op("Mul", b.floats(5), t))


def scale_of_vector_product(b: Builder) -> None:
    b.output(b.op("Mul", b.op("MatMul", b.input((6, 6)), b.floats(6)), b.floats(6)))


def scale_between_stored(b: Builder) -> None:
    t = stored_conv(b, b.stored(SHAPE, 0.03, I8(-9)))
    b.output(b.quantise(b.op("Mul", t, b.weights((4, 1, 1), 0.02, I8(7))), 0.4, I8(-1)))


def scale_variable_weights(b: Builder) -> None:
    b.output(b.op("Mul", b.op("MatMul", b.input((2, 6)), b.input((6, 5))), b.floats(5)))


def pad_zero(b: Builder) -> None:
    b.output(conv(b, b.op("Pad", b.input(SHAPE), b.ints(0, 0, 1, 2, 0, 0, 0, 3)), pads=[0, 1, 2, 0]))


def pad_zero_point(b: Builder) -> None:
    x = b.quantise(b.input(SHAPE), 0.03, I8(-9))
    t = b.op("Pad", b.dequantise(x, 0.03, I8(-9)), b.ints(0, 0, 1, 2, 0, 0, 0, 3))
    b.output(stored_conv(b, b.requantise(t, 0.03, I8(-9))))


def pad_other_value(b: Builder) -> None:
    b.output(conv(b, b.op("Pad", b.input(SHAPE), b.ints(0, 0, 1, 2, 0, 0, 0, 3), scalar(b, 0.5))))


def pad_stored_other_value(b: Builder) -> None:
    t = b.op("Pad", b.stored(SHAPE, 0.03, I8(-9)), b.ints(0, 0, 1, 2, 0, 0, 0, 3), scalar(b, 0.06))
    b.output(b.quantise(stored_conv(b, b.requantise(t, 0.03, I8(-9))), 0.4, I8(5)))


def pad_channels(b: Builder) -> None:
    b.output(conv(b, b.op("Pad", b.input((1, 2, 6, 5)), b.ints(0, 1, 1, 2, 0, 0, 0, 3))))


def pad_read_twice(b: Builder) -> None:
    t = b.op("Pad", b.input(SHAPE), b.ints(0, 0, 1, 2, 0, 0, 0, 3))
    b.output(conv(b, t), b.op("Neg", t))


def pad_nhwc(b: Builder) -> None:
    """The pad of a channels-last exporter: behind it the transposition, then the convolution."""
    t = b.op("Pad", b.input((1, 6, 5, 3)), b.ints(0, 1, 2, 0, 0, 0, 3, 0))
    b.output(b.op("Transpose", conv(b, b.op("Transpose", t, perm=[0, 3, 1, 2])), perm=[0, 2, 3, 1]))


def flat(b: Builder) -> None:
    t = b.op("Flatten", conv(b, b.input(SHAPE)))
    b.output(b.op("Gemm", t, b.floats(7, 64), b.floats(7), transB=1))


def flat_transposed(b: Builder) -> None:
    t = b.op("Flatten", conv(b, b.input((2, 3, 6, 5))))
    b.output(b.op("Gemm", t, b.floats(2, 5), transA=1))


def flat_row_major(b: Builder) -> None:
    b.output(b.op("MatMul", b.op("Flatten", b.input(SHAPE)), b.floats(90, 4)))


def flat_split(b: Builder) -> None:
    t = b.op("Reshape", conv(b, b.input(SHAPE)), b.ints(4, 16))
    b.output(b.op("MatMul", t, b.floats(16, 5)))


def flat_variable(b: Builder) -> None:
    b.output(b.op("MatMul", b.op("Flatten", conv(b, b.input(SHAPE))), b.input((64, 5))))


def reshapes(b: Builder) -> None:
    t = b.op("Reshape", b.input((2, 3, 4)), b.ints(6, 4))
    b.output(b.op("Tanh", b.op("Reshape", t, b.ints(4, 3, 2))))


def transposes(b: Builder) -> None:
    t = b.op("Transpose", b.input((2, 3, 4)), perm=[1, 2, 0])
    b.output(b.op("Tanh", b.op("Transpose", t, perm=[2, 0, 1])))


FOLDS: list[tuple[Callable[[Builder], None], list[str], str, str]] = [
    (bias_conv, ["Conv"], "bias", ""), (bias_added_to_bias, ["Conv"], "bias", ""), (bias_scalar, ["MatMul"], "bias", ""),
    (bias_stored, ["MatMul"], "bias", ""),
    (bias_along_width, ["Conv", "Add"], "bias", "not one constant per channel"),
    (bias_variable, ["Conv > Add"], "bias", "not one constant per channel"),
    (bias_of_vector_product, ["MatMul", "Add"], "bias", "a product with a vector has no output channels"),
    (bias_read_twice, ["Conv", "Add"], "bias", "is also read by the caller"),
    (bias_between_stored, ["Conv > Add"], "bias", "its sums are stored integers"),
    (scale_conv, ["Conv"], "scale", ""), (scale_dense, ["MatMul"], "scale", ""),
    (scale_of_vector_product, ["MatMul", "Mul"], "scale", "a product with a vector has no output channels"),
    (scale_between_stored, ["Conv > Mul"], "scale", "its sums are stored integers"),
    (scale_variable_weights, ["MatMul > Mul"], "scale", "are not constant along channels"),
    (pad_zero, ["Conv"], "pad", ""), (pad_zero_point, ["QuantizeLinear", "Conv > DequantizeLinear"], "pad", ""),
    (pad_other_value, ["Pad", "Conv"], "pad", "the padding is 0.5, the zero point 0"),
    (pad_stored_other_value, ["Pad", "Conv"], "pad", "the padding is -7, the zero point -9"),
    (pad_channels, ["Pad", "Conv"], "pad", "batch or channels are padded"),
    (pad_read_twice, ["Pad", "Conv", "Neg"], "pad", "is also read by"),
    (pad_nhwc, ["Conv"], "pad-transpose", ""),
    (flat, ["Conv", "MatMul"], "flatten", ""),
    (flat_transposed, ["Conv", "MatMul"], "flatten", "the flattened tensor is read transposed"),
    (flat_row_major, ["MatMul"], "flatten", "the input lies in the flattened order already"),
    (flat_split, ["Conv", "Reshape", "MatMul"], "flatten", "not a flattening of [N,C,spatial...]"),
    (flat_variable, ["Conv", "MatMul"], "flatten", "the weights are not a constant matrix"),
    (reshapes, ["Tanh"], "merge-reshapes", ""), (transposes, ["Tanh"], "merge-transposes", ""),
]


def check_fold(build: Callable[[Builder], None], want: list[str], rule: str, why_not: str, folder: Path) -> None:
    """The kernels that are left, the decision on record, the same meaning."""
    b = Builder()
    build(b)
    compiled = compile(b, folder)
    assert sorted(chains(compiled)) == sorted(want)
    found = reasons(compiled, "fold", rule, taken=not why_not)
    assert any(why_not in reason for reason in found), compiled.plan.decisions
    assert_same_meaning(compiled, steps=1)


@pytest.mark.parametrize(("build", "want", "rule", "why_not"), FOLDS, ids=lambda v: getattr(v, "__name__", ""))
def test_fold(build: Callable[[Builder], None], want: list[str], rule: str, why_not: str, tmp_path: Path) -> None:
    check_fold(build, want, rule, why_not, tmp_path)
