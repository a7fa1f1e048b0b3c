"""Folds of what stands before an anchor: where they fire, near misses with the reason, and the same meaning."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from graphs import Builder
from test_fusion import SHAPE, check_fold, conv, scalar

PADS = (0, 0, 1, 2, 0, 0, 0, 1)


def norm(b: Builder, x: str, channels: int = 3) -> str:
    """A batch normalisation in inference."""
    spread = b.const(np.linspace(0.5, 2.0, channels), np.float32)
    return str(b.op("BatchNormalization", x, b.floats(channels), b.floats(channels), b.floats(channels), spread))


def norm_conv(b: Builder) -> None:
    b.output(conv(b, norm(b, b.input(SHAPE))))


def norm_conv_without_bias(b: Builder) -> None:
    b.output(conv(b, norm(b, b.input(SHAPE)), bias=False))


def norm_grouped(b: Builder) -> None:
    b.output(b.op("Conv", norm(b, b.input((1, 4, 6, 5)), 4), b.floats(6, 2, 3, 2), group=2, strides=[2, 1]))


def norm_depthwise(b: Builder) -> None:
    b.output(b.op("Conv", norm(b, b.input((1, 4, 6, 5)), 4), b.floats(8, 1, 3, 2), group=4))


def norm_dense(b: Builder) -> None:
    b.output(b.op("Gemm", norm(b, b.input((2, 6)), 6), b.floats(5, 6), b.floats(5), transB=1))


def norm_product(b: Builder) -> None:
    b.output(b.op("MatMul", b.op("Mul", b.input((2, 6)), b.floats(6)), b.floats(6, 5)))


def product_left_constant(b: Builder) -> None:
    b.output(b.op("MatMul", b.op("Mul", scalar(b, 1.5), b.input((2, 6))), b.floats(6, 5)))


def norm_padded(b: Builder) -> None:
    b.output(conv(b, norm(b, b.input(SHAPE)), pads=[1, 0, 0, 1]))


def product_padded(b: Builder) -> None:
    b.output(conv(b, b.op("Mul", b.input(SHAPE), b.floats(3, 1, 1)), pads=[1, 0, 0, 1]))


def product_along_width(b: Builder) -> None:
    b.output(conv(b, b.op("Mul", b.input(SHAPE), b.floats(5))))


def product_of_rows(b: Builder) -> None:
    b.output(b.op("MatMul", b.op("Mul", b.input((2, 6)), b.floats(2, 1)), b.floats(6, 5)))


def product_read_twice(b: Builder) -> None:
    t = b.op("Mul", b.input(SHAPE), b.floats(3, 1, 1))
    b.output(conv(b, t), b.op("Neg", t))


def product_widens(b: Builder) -> None:
    b.output(b.op("MatMul", b.op("Mul", b.input((2, 1)), b.floats(6)), b.floats(6, 5)))


def product_turned(b: Builder) -> None:
    b.output(b.op("Gemm", b.op("Mul", b.input((6, 2)), b.floats(6, 1)), b.floats(6, 5), transA=1))


def sum_of_variables(b: Builder) -> None:
    b.output(conv(b, b.op("Add", b.input(SHAPE), b.input(SHAPE))))


def pad_of_other_value(b: Builder) -> None:
    """The sum takes the padding of 0.5 to zero: then it is the convolution's own."""
    t = b.op("Pad", b.input(SHAPE), b.ints(*PADS), scalar(b, 0.5))
    b.output(conv(b, b.op("Relu", b.op("Sub", t, scalar(b, 0.75)))))


def pad_along_vector(b: Builder) -> None:
    b.output(conv(b, b.op("Relu", b.op("Mul", b.op("Pad", b.input(SHAPE), b.ints(*PADS)), b.floats(3, 1, 1)))))


def pad_of_another_per_channel(b: Builder) -> None:
    t = b.op("Add", b.op("Pad", b.input(SHAPE), b.ints(*PADS)), b.floats(3, 1, 1))
    b.output(conv(b, b.op("Relu", t)))


def pad_to_infinity(b: Builder) -> None:
    t = b.op("Reciprocal", b.op("Pad", b.input(SHAPE), b.ints(*PADS)))
    b.output(conv(b, b.op("Clip", t, scalar(b, -2.0), scalar(b, 2.0))))


def pool(b: Builder, value: float, relu: bool = False, **attrs: int) -> None:
    t = b.op("Relu", b.input(SHAPE)) if relu else b.input(SHAPE)
    b.output(b.op("MaxPool", b.op("Pad", t, b.ints(*PADS), scalar(b, value)), kernel_shape=[3, 3], **attrs))


def pool_below(b: Builder) -> None:
    pool(b, -np.inf)


def pool_of_relu(b: Builder) -> None:
    pool(b, 0.0, relu=True)


def pool_zero(b: Builder) -> None:
    pool(b, 0.0)


def pool_rounded_up(b: Builder) -> None:
    pool(b, -np.inf, ceil_mode=1)


def pool_in_padding(b: Builder) -> None:
    t = b.op("Pad", b.input(SHAPE), b.ints(0, 0, 3, 0, 0, 0, 0, 0), scalar(b, -np.inf))
    b.output(b.op("MaxPool", t, kernel_shape=[2, 2]))


def mean(b: Builder) -> None:
    t = b.op("Pad", b.input(SHAPE), b.ints(*PADS))
    b.output(b.op("AveragePool", t, kernel_shape=[3, 3], strides=[2, 1]))


def mean_with_own_pads(b: Builder) -> None:
    t = b.op("Pad", b.input(SHAPE), b.ints(*PADS))
    b.output(b.op("AveragePool", t, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))


def mean_of_stored(b: Builder) -> None:
    t = b.op("Pad", b.stored(SHAPE, 0.03, np.int8(-9)), b.ints(*PADS))
    t = b.op("AveragePool", b.requantise(t, 0.03, np.int8(-9)), kernel_shape=[3, 3])
    b.output(b.quantise(t, 0.02, np.int8(4)))


FOLDS: list[tuple[Callable[[Builder], None], list[str], str, str]] = [
    (norm_conv, ["Conv"], "scale-before", ""), (norm_conv, ["Conv"], "shift-before", ""),
    (norm_conv_without_bias, ["Conv"], "shift-before", ""), (norm_grouped, ["Conv"], "scale-before", ""),
    (norm_depthwise, ["Conv"], "shift-before", ""), (norm_dense, ["MatMul"], "shift-before", ""),
    (norm_product, ["MatMul"], "scale-before", ""), (product_left_constant, ["MatMul"], "scale-before", ""),
    (norm_padded, ["Mul > Add", "Conv"], "shift-before", "at the border the sum is another one"),
    (product_padded, ["Conv"], "scale-before", ""),
    (product_along_width, ["Mul", "Conv"], "scale-before", "not one constant per input channel"),
    (product_of_rows, ["Mul > MatMul"], "scale-before", "not one constant per input channel"),
    (product_read_twice, ["Mul > Neg", "Conv"], "scale-before", "is also read by"),
    (product_widens, ["Mul > MatMul"], "scale-before", "makes the tensor larger"),
    (product_turned, ["Mul", "MatMul"], "scale-before", "not one matrix for rows of the input"),
    (sum_of_variables, ["Add", "Conv"], "shift-before", "the other operand are not constant"),
    (pad_of_other_value, ["Sub > Relu", "Conv"], "pad", ""), (pad_along_vector, ["Mul > Relu", "Conv"], "pad", ""),
    (pad_of_another_per_channel, ["Add > Relu", "Pad", "Conv"], "pad-later", "is not one finite number"),
    (pad_to_infinity, ["Pad", "Reciprocal > Clip", "Conv"], "pad-later", "is not one finite number"),
    (pool_below, ["MaxPool"], "pad", ""), (pool_of_relu, ["Relu", "MaxPool"], "pad", ""),
    (pool_zero, ["Pad", "MaxPool"], "pad", "the maximum may be over -inf"),
    (pool_rounded_up, ["Pad", "MaxPool"], "pad", "rounded up"),
    (pool_in_padding, ["Pad", "MaxPool"], "pad", "in the padding alone"),
    (mean, ["AveragePool"], "pad", ""), (mean_of_stored, ["AveragePool"], "pad", ""),
    (mean_with_own_pads, ["Pad", "AveragePool"], "pad", "does not count its own padding"),
]


@pytest.mark.parametrize(("build", "want", "rule", "why_not"), FOLDS, ids=lambda v: getattr(v, "__name__", ""))
def test_fold(build: Callable[[Builder], None], want: list[str], rule: str, why_not: str, tmp_path: Path) -> None:
    check_fold(build, want, rule, why_not, tmp_path)
