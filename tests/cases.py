"""Cases of the operators: small graphs, each with a name. Convolutions, pools and dense layers come as float and stored.

`test_ops.py` compares their C with numpy, `test_reference.py` compares numpy with onnxruntime.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from graphs import Builder

I8, U8 = np.int8, np.uint8
SPREAD = 74.0       # standard deviation of uniformly distributed 8-bit values


@dataclass(frozen=True)
class Style:
    """How a layer's tensors are stored; without an activation's zero point everything is float32."""

    x_zero: Any = None
    w_zero: Any = I8(0)
    y_zero: Any = I8(0)
    channels: bool = False          # one weight scale (and zero point) for each output channel
    x_scale: float = 0.037

    def x(self, b: Builder, *shape: int) -> str:
        """An input."""
        return b.input(shape) if self.x_zero is None else b.stored(shape, self.x_scale, self.x_zero)

    def w_scale(self, count: int) -> Any:
        """One scale, or one for each channel."""
        return (0.011 * (1.0 + np.arange(count) % 5 / 3.0)).astype(np.float32) if self.channels else np.float32(0.013)

    def w(self, b: Builder, shape: tuple[int, ...], axis: int = 0) -> str:
        """Constant weights whose outputs lie along `axis`."""
        if self.x_zero is None:
            return b.floats(*shape)
        zero = np.full(shape[axis], self.w_zero) if self.channels else self.w_zero
        return b.weights(shape, self.w_scale(shape[axis]), zero, axis)

    def bias(self, b: Builder, count: int) -> str:
        """A constant bias."""
        return b.floats(count) if self.x_zero is None else b.bias(count, np.float32(self.x_scale) * self.w_scale(count))

    def y(self, b: Builder, t: str, depth: int) -> None:
        """The output of a sum over `depth` products: few values saturate."""
        if self.x_zero is not None:
            scale = self.x_scale * float(np.mean(self.w_scale(4))) * SPREAD * SPREAD * depth ** 0.5 / 45.0
            t = b.quantise(t, scale, self.y_zero)
        b.output(t)

    def same(self, b: Builder, t: str, gain: float = 1.0) -> None:
        """The output of an operator whose results lie in about the range of its input."""
        b.output(t if self.x_zero is None else b.quantise(t, self.x_scale * gain, self.y_zero))

    def again(self, b: Builder, t: str, scale: float) -> str:
        """Quantised in between."""
        return t if self.x_zero is None else b.requantise(t, scale, self.y_zero)


FLOAT = Style()
STYLES = {
    "s8": Style(I8(-7), I8(0), I8(11), channels=True),
    "u8": Style(U8(200), U8(119), U8(3)),
    "edge": Style(I8(-128), I8(3), I8(127), channels=True, x_scale=0.0041),
}


@dataclass(frozen=True)
class Layer:
    """A convolution or matrix product with constant weights."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    bias: bool = True

    def conv(self, style: Style, b: Builder) -> None:
        """Conv alone."""
        style.y(b, self.sum(style, b, style.x(b, *self.x)), prod(self.w[1:]))

    def sum(self, style: Style, b: Builder, x: str) -> str:
        """The convolution of x; a bias, whose scale is that of x times that of w, needs the style's own x."""
        rest = [style.bias(b, self.w[0])] if self.bias else []
        return str(b.op("Conv", x, style.w(b, self.w), *rest, **self.attrs))


CONVS = {
    "2d": Layer((1, 3, 7, 6), (5, 3, 3, 2), {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
    "2d-dilated": Layer((1, 2, 9, 8), (3, 2, 2, 3), {"dilations": [3, 2], "pads": [0, 2, 1, 3], "strides": [1, 2]}),
    "1d": Layer((1, 4, 11), (3, 4, 3), {"strides": [2], "pads": [1, 2], "dilations": [2]}),
    "1d-batch": Layer((2, 3, 6), (5, 3, 4), {"pads": [3, 1]}, bias=False),
    "pointwise": Layer((1, 5, 4, 3), (7, 5, 1, 1)),
    "pointwise-strided": Layer((1, 5, 5, 7), (6, 5, 1, 1), {"strides": [2, 3]}, bias=False),
    "pointwise-padded": Layer((1, 3, 3, 4), (2, 3, 1, 1), {"pads": [0, 1, 2, 0]}),
    "pointwise-1d": Layer((1, 6, 5), (3, 6, 1)),
    "pointwise-batch": Layer((3, 4, 2, 3), (5, 4, 1, 1)),
    "grouped": Layer((1, 6, 5, 7), (9, 2, 2, 3), {"group": 3, "dilations": [1, 2], "pads": [1, 0, 0, 2]}),
    "grouped-one-output": Layer((2, 4, 4, 3), (2, 2, 3, 2), {"group": 2, "pads": [1, 1, 0, 0]}, bias=False),
    "depthwise": Layer((1, 5, 6, 7), (5, 1, 3, 2), {"group": 5, "strides": [1, 2], "pads": [0, 1, 2, 1]}),
    "depthwise-multiplier": Layer((1, 3, 5, 6), (6, 1, 2, 3), {"group": 3, "dilations": [2, 1], "pads": [1, 2, 0, 1]}),
    "depthwise-1d": Layer((1, 4, 9), (4, 1, 3), {"group": 4, "strides": [2], "pads": [2, 1]}, bias=False),
    "depthwise-batch": Layer((2, 3, 4, 5), (3, 1, 3, 3), {"group": 3, "pads": [2, 1, 0, 1], "strides": [2, 1]}),
    "same-upper": Layer((1, 3, 8, 7), (4, 3, 3, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
    "same-lower": Layer((1, 3, 8, 7), (4, 3, 4, 2), {"auto_pad": "SAME_LOWER", "strides": [3, 1]}),
    "same-dilated": Layer((1, 2, 7, 9), (3, 2, 3, 2), {"auto_pad": "SAME_UPPER", "dilations": [2, 3]}),
    "valid": Layer((1, 3, 6, 5), (4, 3, 3, 2), {"auto_pad": "VALID", "strides": [1, 2]}),
    "batch": Layer((3, 2, 5, 4), (5, 2, 3, 3), {"pads": [1, 0, 1, 2]}),
    "one-pixel": Layer((1, 7, 1, 1), (5, 7, 1, 1)),
    "one-pixel-padded": Layer((1, 3, 1, 1), (2, 3, 3, 2), {"pads": [1, 1, 1, 0]}),
    "one-channel": Layer((1, 1, 6, 5), (1, 1, 3, 2), {"pads": [1, 0, 2, 1]}),
    "one-output": Layer((1, 5, 1, 2), (1, 5, 1, 2)),
    "wholly-padding": Layer((1, 2, 3, 4), (3, 2, 2, 2), {"pads": [3, 0, 0, 3]}),
    "depthwise-wholly-padding": Layer((1, 3, 3, 2), (3, 1, 2, 2), {"group": 3, "pads": [0, 3, 4, 0]}),
    "tall-stride": Layer((1, 2, 9, 3), (3, 2, 2, 2), {"strides": [4, 1]}),
}


def residual(style: Style, tail: str, flip: bool, b: Builder) -> None:
    """Conv + residual, then Relu or Clip: one kernel each."""
    x = style.x(b, 1, 4, 5, 3)
    start = style.again(b, Layer((), (4, 4, 1, 1)).sum(style, b, x), 0.9)
    inner = style.again(b, Layer((), (4, 4, 3, 3), {"pads": [1, 1, 1, 1]}, False).sum(style, b, start), 4.1)
    total = style.again(b, b.op("Add", *((start, inner) if flip else (inner, start))), 3.7)
    done = b.op("Relu", total) if tail == "Relu" else b.op("Clip", total, b.const(-0.4, np.float32),
                                                            b.const(2.5, np.float32))
    style.same(b, done, 3.7 / style.x_scale)


def planar(style: Style, b: Builder) -> None:
    """Conv + an input of the model, both with planes of channels: rows are no parts of the outermost axis."""
    x, other = style.x(b, 1, 3, 5, 4), style.x(b, 1, 4, 5, 4)
    inner = style.again(b, Layer((), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}).sum(style, b, x), 1.1)
    style.same(b, b.op("Relu", b.op("Add", inner, other)), 30.0)


def one_row(style: Style, b: Builder) -> None:
    """A tensor of one row and several planes, written by one kernel and read by the next."""
    x = b.op("Neg", style.x(b, 1, 5, 1, 2))
    style.y(b, Layer((), (3, 5, 1, 2)).sum(style, b, style.again(b, x, 0.05)), 10)


def square(style: Style, b: Builder) -> None:
    """As many channels as rows, in planes: a row is none of them."""
    x = style.x(b, 1, 2, 4, 3)
    inner = style.again(b, Layer((), (4, 2, 3, 3), {"pads": [1, 1, 1, 1]}).sum(style, b, x), 0.9)
    style.same(b, b.op("Neg", inner), 30.0)
    style.same(b, b.op("MatMul", inner, style.w(b, (3, 5), 1)) if style.x_zero is None else b.op("Abs", inner), 30.0)


def nhwc(style: Style, b: Builder) -> None:
    """A channels-last model as TensorFlow exports it: transposed around each convolution."""
    x = style.x(b, 1, 6, 5, 3)
    t = b.op("Transpose", x, perm=[0, 3, 1, 2])
    t = Layer((), (4, 3, 3, 2), {"pads": [1, 0, 1, 1]}).sum(style, b, t)
    t = style.again(b, b.op("Relu", t), 2.0)
    t = Layer((), (4, 1, 2, 2), {"group": 4}, False).sum(style, b, t)
    style.y(b, b.op("Transpose", t, perm=[0, 2, 3, 1]), 40)


def branches(style: Style, b: Builder) -> None:
    """One tensor read by two convolutions and returned itself (an NCHW output), joined by Concat."""
    x = style.x(b, 1, 3, 4, 5)
    t = style.again(b, Layer((), (4, 3, 2, 3)).sum(style, b, x), 1.1)
    left = style.again(b, Layer((), (3, 4, 1, 1), {}, False).sum(style, b, t), 1.7)
    right = style.again(b, Layer((), (5, 4, 3, 1), {"pads": [1, 0, 1, 0]}, False).sum(style, b, t), 2.3)
    style.same(b, b.op("Concat", left, right, axis=1), 60.0)
    style.same(b, t, 30.0)


def flattened(style: Style, b: Builder) -> None:
    """Conv, MaxPool, Flatten, Gemm, Softmax."""
    x = style.x(b, 1, 2, 6, 5)
    t = b.op("Relu", Layer((), (3, 2, 3, 2), {"pads": [1, 0, 1, 1]}).sum(style, b, x))
    t = b.op("MaxPool", style.again(b, t, 0.8), kernel_shape=[2, 2], strides=[2, 2])
    t = b.op("Flatten", t)
    t = b.op("Gemm", t, style.w(b, (7, 18), 0), transB=1)
    t = style.again(b, t, 6.0)
    t = b.op("Softmax", t, axis=1)
    b.output(t if style.x_zero is None else b.quantise(t, 1 / 256, np.asarray(style.y_zero).dtype.type(0)))


NETWORKS: dict[str, Callable[[Style, Builder], None]] = {
    "residual-relu": lambda s, b: residual(s, "Relu", False, b),
    "residual-clip": lambda s, b: residual(s, "Clip", True, b),
    "planar": planar, "one-row": one_row, "square": square, "nhwc": nhwc, "branches": branches, "flattened": flattened,
}


@dataclass(frozen=True)
class Pool:
    """A pooling operator."""

    kind: str
    x: tuple[int, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 17

    def build(self, style: Style, b: Builder) -> None:
        """The operator; a maximum keeps its input's scale."""
        y = b.op(self.kind, style.x(b, *self.x), **self.attrs)
        if "Max" in self.kind and style.x_zero is not None:
            b.output(b.quantise(y, style.x_scale, style.x_zero))
        else:
            style.same(b, y, 0.6)


POOLS = {
    "max": Pool("MaxPool", (1, 3, 7, 6), {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1]}),
    "max-1d": Pool("MaxPool", (2, 3, 9), {"kernel_shape": [4], "strides": [3], "pads": [2, 1]}),
    "max-dilated": Pool("MaxPool", (1, 2, 8, 9), {"kernel_shape": [2, 3], "dilations": [3, 2], "pads": [1, 2, 0, 1]}),
    "max-ceil": Pool("MaxPool", (1, 2, 6, 8), {"kernel_shape": [3, 2], "strides": [2, 3], "ceil_mode": 1}),
    "max-same": Pool("MaxPool", (1, 2, 7, 5), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "max-global": Pool("GlobalMaxPool", (2, 3, 4, 5)),
    "average": Pool("AveragePool", (1, 3, 7, 6), {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1]}),
    "average-1d": Pool("AveragePool", (2, 3, 9), {"kernel_shape": [4], "strides": [3], "pads": [2, 1]}),
    "average-plain": Pool("AveragePool", (2, 3, 6, 4), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "average-same": Pool("AveragePool", (1, 2, 7, 5), {"kernel_shape": [3, 2], "strides": [2, 2],
                                                       "auto_pad": "SAME_UPPER"}),
    "average-include": Pool("AveragePool", (1, 2, 5, 4), {"kernel_shape": [3, 2], "strides": [1, 3],
                                                          "pads": [1, 0, 2, 1], "count_include_pad": 1}),
    "average-ceil": Pool("AveragePool", (1, 2, 7, 8), {"kernel_shape": [3, 3], "strides": [2, 3], "ceil_mode": 1,
                                                       "pads": [1, 0, 0, 0]}, 19),
    "average-ceil-include": Pool("AveragePool", (1, 2, 6, 8), {
        "kernel_shape": [4, 3], "strides": [3, 2], "ceil_mode": 1, "pads": [1, 2, 1, 0], "count_include_pad": 1}, 19),
    "average-dilated": Pool("AveragePool", (1, 2, 8, 9), {"kernel_shape": [2, 3], "dilations": [3, 2],
                                                          "pads": [1, 2, 0, 1]}, 19),
    "average-dilated-ceil-include": Pool("AveragePool", (1, 2, 9, 7), {
        "kernel_shape": [3, 2], "dilations": [2, 3], "strides": [3, 2], "pads": [1, 0, 2, 1], "ceil_mode": 1,
        "count_include_pad": 1}, 19),
    "average-global": Pool("GlobalAveragePool", (2, 3, 4, 5)),
    "mean-spatial": Pool("ReduceMean", (1, 4, 3, 5), {"axes": [2, 3], "keepdims": 0}),
}


@dataclass(frozen=True)
class Dense:
    """A matrix product with constant weights w, per column scales where the style has them."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    attrs: Mapping[str, Any] | None = None      # None: MatMul
    bias: tuple[int, ...] | None = None

    def build(self, style: Style, b: Builder) -> None:
        """Gemm or MatMul."""
        turned = bool((self.attrs or {}).get("transB", 0))
        axis = 0 if turned else len(self.w) - 1
        inputs = [style.x(b, *self.x), style.w(b, self.w, axis)]
        if self.bias == self.w[axis:axis + 1] and len(self.w) > 1:
            inputs.append(style.bias(b, self.bias[0]))
        elif self.bias is not None:
            inputs.append(b.floats(*self.bias))
        y = b.op("MatMul", *inputs[:2]) if self.attrs is None else b.op("Gemm", *inputs, **self.attrs)
        if self.attrs is None and len(inputs) > 2:
            y = b.op("Add", y, inputs[2])
        style.y(b, y, self.x[-2] if (self.attrs or {}).get("transA", 0) else self.x[-1])


DENSE = {
    "gemm": Dense((1, 9), (5, 9), {"transB": 1}, (5,)),
    "gemm-no-bias": Dense((3, 7), (7, 6), {}),
    "gemm-one-output": Dense((4, 5), (5, 1), {}, (1,)),
    "gemm-row-bias": Dense((3, 4), (4, 5), {}, (1, 5)),
    "gemm-scalar-bias": Dense((3, 4), (4, 5), {}, ()),
    "gemm-column-bias": Dense((3, 4), (4, 5), {}, (3, 1)),
    "gemm-matrix-bias": Dense((3, 4), (5, 4), {"transB": 1}, (3, 5)),
    "gemm-alpha-beta": Dense((3, 4), (4, 5), {"alpha": 0.5, "beta": -1.5}, (5,)),
    "gemm-beta-zero": Dense((3, 4), (4, 5), {"beta": 0.0}, (5,)),
    "gemm-turned": Dense((4, 3), (4, 5), {"transA": 1}, (5,)),
    "gemm-both-turned": Dense((4, 3), (5, 4), {"transA": 1, "transB": 1, "alpha": 2.0}, (5,)),
    "matmul": Dense((3, 6), (6, 7)),
    "matmul-add": Dense((2, 3, 6), (6, 5), None, (5,)),
    "matmul-vector": Dense((6,), (6, 5)),
    "matmul-vector-add": Dense((6,), (6, 5), None, (5,)),
    "matmul-deep": Dense((2, 1, 3, 4), (4, 5)),
}
VECTORS = {
    # Shapes beyond a constant matrix: products that have no integer form.
    "by-vector": Dense((3, 4), (4,)),
    "by-vector-add": Dense((4, 4), (4,), None, (4,)),
    "by-batch": Dense((2, 3, 4), (2, 4, 5)),
    "by-broadcast-batch": Dense((3, 1, 2, 4), (5, 4, 3)),
}


def all_layers() -> dict[str, Callable[[Style, Builder], None]]:
    """Everything that exists as float and as stored."""
    found: dict[str, Callable[[Style, Builder], None]] = {f"conv-{k}": v.conv for k, v in CONVS.items()}
    found |= {f"pool-{k}": v.build for k, v in POOLS.items()}
    found |= {f"dense-{k}": v.build for k, v in (DENSE | VECTORS).items()}
    return found | {f"net-{k}": v for k, v in NETWORKS.items()}


OPSETS = {f"pool-{k}": v.opset for k, v in POOLS.items()}


def layer(name: str, style: Style) -> Builder:
    """The graph of one layer."""
    b = Builder(OPSETS.get(name, 17))
    all_layers()[name](style, b)
    return b


