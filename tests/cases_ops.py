"""Cases of the operators that have no weights: movements, elementwise operators, reductions, softmax, Q/DQ, QLinear.

Each is a function that adds nodes to a builder; its name is the function's, with the opset where it is not 17.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from graphs import Builder

Build = Callable[[Builder], None]
I8, U8 = np.int8, np.uint8


def move(kind: str, shape: tuple[int, ...], *constants: Any, stored: bool = False, outputs: int = 1,
         **attrs: Any) -> Build:
    """One movement of an input; constants become int64 inputs (None: absent, float: float32)."""
    def build(b: Builder) -> None:
        x = b.stored(shape, 0.05, I8(9)) if stored else b.input(shape)
        rest = ["" if c is None else b.const(c, np.float32 if isinstance(c, float) or (
            isinstance(c, list) and any(isinstance(n, float) for n in c)) else np.int64) for c in constants]
        made = b.op(kind, x, *rest, outputs=outputs, **attrs)
        for t in made if outputs > 1 else [made]:
            b.output(b.quantise(t, 0.05, I8(9)) if stored else t)
    return build


def behind_conv(kind: str, shape: tuple[int, ...], *constants: Any, **attrs: Any) -> Build:
    """The same of a tensor that lies channels-last in memory, between two operators of the model."""
    def build(b: Builder) -> None:
        x = b.op("Conv", b.input(shape), b.floats(shape[1], shape[1], *[1] * (len(shape) - 2)))
        rest = [b.const(c, np.float32 if isinstance(c, float) else np.int64) for c in constants]
        t = b.op(kind, x, *rest, **attrs)
        b.output(b.op("Tanh", t))
    return build


def resize(shape: tuple[int, ...], coordinates: str, rounding: str, scales: list[float] | None = None,
           sizes: list[int] | None = None, conv: bool = False) -> Build:
    """Resize, nearest."""
    def build(b: Builder) -> None:
        x = b.input(shape)
        if conv:
            x = b.op("Conv", x, b.floats(4, shape[1], 1, 1))
        inputs = [x, "", b.const(scales, np.float32)] if scales else [x, "", "", b.ints(*(sizes or []))]
        b.output(b.op("Resize", *inputs, mode="nearest", coordinate_transformation_mode=coordinates,
                      nearest_mode=rounding))
    return build


def concat(b: Builder) -> None:
    """Three inputs, the last axis but one."""
    b.output(b.op("Concat", b.input((2, 3, 4)), b.input((2, 1, 4)), b.input((2, 5, 4)), axis=-2))


def concat_scales(b: Builder) -> None:
    """Stored inputs of different scales and zero points: one table each."""
    parts = [b.stored((1, n, 3, 2), scale, I8(zero)) for n, scale, zero in ((2, 0.02, -128), (1, 0.07, 5), (3, 0.05, 127))]
    b.output(b.quantise(b.op("Concat", *parts, axis=1), 0.05, I8(-3)))


def concat_constant(b: Builder) -> None:
    """A constant part, and one part twice."""
    x = b.input((2, 3))
    b.output(b.op("Concat", x, b.floats(2, 4), x, axis=1))


def pad_stored(b: Builder) -> None:
    """Zeros are the zero point, not 0."""
    x = b.stored((1, 2, 3, 4), 0.1, U8(77))
    b.output(b.quantise(b.op("Pad", x, b.ints(0, 1, 2, 0, 0, 0, 1, 3)), 0.1, U8(77)))


def pad_attributes(b: Builder) -> None:
    """Opset 10: pads and value are attributes."""
    b.output(b.op("Pad", b.input((2, 3)), pads=[1, 0, 0, 2], value=-1.25))


def split_parts(b: Builder) -> None:
    """Unequal parts along the channels of a channels-last tensor."""
    x = b.op("Conv", b.input((1, 3, 4, 2)), b.floats(6, 3, 1, 1))
    for part in b.op("Split", x, b.ints(1, 3, 2), axis=1, outputs=3):
        b.output(b.op("Abs", part))


def squeeze_attributes(b: Builder) -> None:
    """Opset 11: axes are attributes; none of them: all axes of size 1."""
    x = b.op("Unsqueeze", b.input((3, 4)), axes=[0, 3])
    b.output(b.op("Neg", b.op("Squeeze", x, axes=[3])), b.op("Neg", b.op("Squeeze", x)))


def squeeze_inputs(b: Builder) -> None:
    """Opset 13: axes are inputs."""
    x = b.op("Unsqueeze", b.input((3, 4)), b.ints(-1, 0))
    b.output(b.op("Neg", b.op("Squeeze", x, b.ints(-1))), b.op("Neg", b.op("Squeeze", x)))


def views(b: Builder) -> None:
    """Identity, Dropout, Flatten: outputs that share bytes, or would."""
    x = b.input((2, 3, 4))
    t = b.op("Neg", x)
    b.output(b.op("Identity", t), b.op("Dropout", t), b.op("Flatten", t, axis=0), b.op("Flatten", x, axis=-1), x)


def turned_batch(b: Builder) -> None:
    """A batch that is not the outermost axis in memory, in front of convolution and pool."""
    x = b.op("Transpose", b.input((3, 2, 5, 4)), perm=[1, 0, 2, 3])
    b.output(b.op("Conv", x, b.floats(4, 3, 2, 3), b.floats(4)))
    b.output(b.op("MaxPool", x, kernel_shape=[2, 3], strides=[2, 1]))


def conv_plus_matmul(b: Builder) -> None:
    """A channels-last sum with a row-major product: one of the two must not write the result."""
    x = b.input((1, 3, 4, 5))
    conv = b.op("Conv", x, b.floats(3, 3, 1, 1))
    product = b.op("MatMul", x, b.floats(5, 5))
    b.output(b.op("Conv", b.op("Add", conv, product), b.floats(2, 3, 2, 1)))


def transposed_sum(b: Builder) -> None:
    """x + x^T: the result must not take the bytes of x."""
    x = b.op("Tanh", b.input((4, 4)))
    total = b.op("Add", x, b.op("Transpose", x))
    b.output(b.op("MatMul", total, b.floats(4, 3)))


def twice(b: Builder) -> None:
    """One tensor on both sides, alone and behind a convolution."""
    x = b.input((2, 3))
    b.output(b.op("Add", x, x))
    y = b.op("Conv", b.input((1, 2, 3, 4)), b.floats(3, 2, 2, 1))
    b.output(b.op("Mul", y, y))


def twice_stored(b: Builder) -> None:
    """The same for stored values."""
    x = b.stored((2, 3), 0.03, I8(-5))
    b.output(b.quantise(b.op("Mul", x, x), 0.06, I8(-128)), b.quantise(b.op("Sub", x, x), 0.01, I8(100)))


def chain(b: Builder) -> None:
    """A chain of elementwise operators with operands that broadcast: one kernel."""
    x = b.input((2, 3, 4))
    t = b.op("Mul", x, b.floats(3, 1))
    t = b.op("Add", t, b.input((2, 1, 1)))
    t = b.op("Sub", b.const(0.75, np.float32), t)
    t = b.op("LeakyRelu", b.op("Div", t, b.input((2, 3, 4))), alpha=0.125)
    b.output(b.op("HardSigmoid", t, alpha=0.3, beta=0.4))


def diamond(b: Builder) -> None:
    """A swish, written out: the sigmoid's operand is read twice."""
    x = b.input((1, 3, 4, 2))
    t = b.op("Conv", x, b.floats(4, 3, 1, 2), b.floats(4))
    b.output(b.op("Mul", t, b.op("Sigmoid", t)))


def binary_stored(kind: str, a: tuple[int, ...], c: tuple[int, ...], scale: float, u8: bool = False,
                  constant: bool = False) -> Build:
    """A stored sum, difference or product; shapes broadcast."""
    def build(b: Builder) -> None:
        zeros = (U8(3), U8(255), U8(128)) if u8 else (I8(-128), I8(31), I8(-9))
        left = b.stored(a, 0.031, zeros[0])
        right = b.weights(c, 0.047, zeros[1]) if constant else b.stored(c, 0.047, zeros[1])
        b.output(b.quantise(b.op(kind, left, right), scale, zeros[2]))
    return build


def unary_stored(*kinds: str, u8: bool = False) -> Build:
    """Stored operators of one operand: tables, or clamps where the scale stays."""
    def build(b: Builder) -> None:
        x = b.stored((2, 3, 5), 0.04, U8(140) if u8 else I8(-20))
        for kind in kinds:
            y = b.op("Clip", x, b.const(-1.3, np.float32), b.const(2.2, np.float32)) if kind == "Clip" else b.op(kind, x)
            b.output(b.quantise(y, 0.023, U8(10) if u8 else I8(17)), b.quantise(y, 0.04, U8(140) if u8 else I8(-20)))
    return build


def clips(b: Builder) -> None:
    """One bound, both, none; disjoint clips in a row (stored and float)."""
    x = b.input((3, 4))
    b.output(b.op("Clip", x, b.const(-0.5, np.float32)), b.op("Clip", x, "", b.const(0.25, np.float32)),
             b.op("Clip", b.op("Clip", x, b.const(-0.5, np.float32), b.const(0.1, np.float32)), b.const(0.4, np.float32)))
    s = b.stored((3, 4), 0.05, I8(-7))
    t = b.requantise(b.op("Clip", s, b.const(-2.0, np.float32), b.const(-1.0, np.float32)), 0.05, I8(-7))
    b.output(b.quantise(b.op("Clip", t, b.const(1.0, np.float32), b.const(2.0, np.float32)), 0.05, I8(-7)))


def clip_attributes(b: Builder) -> None:
    """Opset 10: bounds are attributes."""
    b.output(b.op("Clip", b.input((3, 4)), min=-0.5, max=0.75))


def softmax_rows(b: Builder) -> None:
    """Softmax along the last, the middle and the first axis."""
    x = b.input((3, 4, 5))
    b.output(*(b.op("Softmax", b.op("Mul", x, b.const(factor, np.float32)), axis=axis)
               for axis, factor in ((-1, 1.0), (1, 7.0), (0, 0.1))))


def softmax_flattened(b: Builder) -> None:
    """Opset 11: all axes from one on."""
    x = b.input((2, 3, 4))
    b.output(b.op("Softmax", x, axis=1), b.op("Softmax", x, axis=0), b.op("Softmax", x, axis=-1), b.op("Softmax", x))


def softmax_stored(b: Builder) -> None:
    """Stored rows of several lengths, scales and types."""
    for i, (shape, axis, scale, zero) in enumerate((((3, 7), -1, 0.1, I8(-128)), ((1, 5, 4), 1, 0.02, I8(-128)),
                                                    ((2, 300), 1, 0.3, I8(-100)), ((4, 1), 1, 0.1, I8(127)))):
        x = b.stored(shape, scale, I8(13 - 40 * i))
        b.output(b.quantise(b.op("Softmax", x, axis=axis), 1 / 256, zero))
    x = b.stored((2, 9), 0.11, U8(91))
    b.output(b.quantise(b.op("Softmax", x, axis=-1), 0.005, U8(2)))


def dense_of_rows(b: Builder) -> None:
    """A vector that is the rows of a tensor, channels last."""
    x = b.op("Conv", b.op("Transpose", b.input((1, 4, 13, 2)), perm=[0, 3, 1, 2]), b.floats(3, 2, 2, 2))
    flat = b.op("Reshape", b.op("Transpose", x, perm=[0, 2, 3, 1]), b.ints(1, -1))
    b.output(b.op("Gemm", flat, b.floats(5, 3 * 12 * 3), b.floats(5), transB=1))


def reductions(b: Builder) -> None:
    """All reductions over the last, a middle, several and all axes; channels-last too."""
    x = b.input((2, 3, 4, 5))
    for kind, axes, keep in (("ReduceMean", [-1], 1), ("ReduceMax", [1], 0), ("ReduceMin", [0, 2], 1),
                             ("ReduceMean", [1, 3], 0), ("ReduceMax", None, 0)):
        b.output(b.op(kind, x, **({} if axes is None else {"axes": axes}), keepdims=keep))
    b.output(b.op("ReduceSum", x, b.ints(3, 1), keepdims=0), b.op("ReduceSum", x, noop_with_empty_axes=1))
    t = b.op("Conv", x, b.floats(4, 3, 2, 2))
    b.output(b.op("ReduceMax", t, axes=[1]), b.op("ReduceMean", t, axes=[2], keepdims=0))


def quantise_axes(b: Builder) -> None:
    """Q and DQ with one scale for each slice, int8, uint8, int32; default zero point."""
    x = b.input((2, 3, 4))
    b.output(b.quantise(x, [0.01, 0.05, 0.02], np.asarray([-128, 127, 3], I8), axis=1),
             b.quantise(x, [0.013, 0.05, 0.02, 0.1], np.asarray([0, 255, 3, 200], U8), axis=-1),
             b.quantise(x, 0.02, I8(-100)), b.op("QuantizeLinear", x, b.const(0.03, np.float32)))
    s = b.input((3, 2), I8)
    b.output(b.dequantise(s, [0.5, 0.25, 0.1], np.asarray([-128, 127, 3], I8), axis=0),
             b.op("DequantizeLinear", b.input((2, 3), np.int32), b.const(0.003, np.float32)))


def qlinear_conv(b: Builder) -> None:
    """QLinearConv, per tensor and per channel, with and without bias."""
    def conv(w_zero: Any, w_scale: Any, x: str, x_zero: Any, y_zero: Any, *bias: str, **attrs: Any) -> str:
        info = np.iinfo(np.asarray(w_zero).dtype)
        w = b.const(b.rng.integers(info.min, info.max, (4, 3, 2, 3)).astype(np.asarray(w_zero).dtype))
        return str(b.op("QLinearConv", x, b.const(0.04, np.float32), b.const(x_zero), w, b.const(w_scale, np.float32),
                        b.const(w_zero), b.const(0.3, np.float32), b.const(y_zero), *bias, **attrs))
    bias = b.const(b.rng.integers(-9000, 9000, 4).astype(np.int32))
    s8, u8 = b.input((1, 3, 5, 6), I8), b.input((1, 3, 5, 6), U8)
    b.output(conv(np.zeros(4, I8), [0.01, 0.02, 0.005, 0.03], s8, I8(-7), I8(9), bias, pads=[1, 0, 0, 2]),
             conv(U8(130), 0.01, u8, U8(3), U8(99), strides=[2, 1]))


def qlinear_matmul(b: Builder) -> None:
    """QLinearMatMul with constant weights: per tensor and per column."""
    for zero, scale in ((I8(0), np.float32(0.02)), (np.zeros(5, I8), np.asarray([0.01, 0.02, 0.03, 0.015, 0.02], np.float32))):
        w = b.const(b.rng.integers(-128, 127, (6, 5)).astype(I8))
        b.output(b.op("QLinearMatMul", b.input((3, 6), I8), b.const(0.05, np.float32), b.const(I8(-11)), w,
                      b.const(scale), b.const(zero), b.const(0.6, np.float32), b.const(I8(4))))


def qlinear_binary(b: Builder) -> None:
    """QLinearAdd and QLinearMul of onnxruntime, variable and constant operands."""
    a, c = b.input((2, 3, 4), I8), b.input((3, 1), I8)
    k = b.const(b.rng.integers(-128, 127, (3, 4)).astype(I8))

    def operand(t: str, scale: float, zero: int) -> tuple[str, str, str]:
        return t, b.const(scale, np.float32), b.const(I8(zero))
    for kind, right, scale in (("QLinearAdd", c, 0.06), ("QLinearMul", c, 0.05), ("QLinearAdd", k, 0.08)):
        b.output(b.microsoft(kind, *operand(a, 0.03, -9), *operand(right, 0.05, 20), b.const(scale, np.float32),
                             b.const(I8(-30))))


def qgemm(b: Builder) -> None:
    """QGemm of onnxruntime with bias and transposed weights, per column."""
    w = b.const(b.rng.integers(-128, 127, (5, 6)).astype(I8))
    scale = np.asarray([0.01, 0.02, 0.03, 0.015, 0.02], np.float32)
    bias = b.const(b.rng.integers(-5000, 5000, 5).astype(np.int32))
    b.output(b.microsoft("QGemm", b.input((3, 6), I8), b.const(0.05, np.float32), b.const(I8(-11)), w, b.const(scale),
                         b.const(np.zeros(5, I8)), bias, b.const(0.6, np.float32), b.const(I8(4)), transB=1))


def qlinear_forms(b: Builder) -> None:
    """onnxruntime's operators of QOperator format with one operand, several and a condition."""
    def at(scale: float, zero: int) -> tuple[str, str]:
        return b.const(scale, np.float32), b.const(I8(zero))
    a, c, image = b.input((2, 3, 4), I8), b.input((2, 1, 4), I8), b.input((1, 3, 5, 6), I8)
    b.output(b.microsoft("QLinearSigmoid", a, *at(0.04, -9), *at(1 / 256, -128)),
             b.microsoft("QLinearLeakyRelu", a, *at(0.04, -9), *at(0.03, -100), alpha=0.2),
             b.microsoft("QLinearSoftmax", a, *at(0.04, -9), *at(1 / 256, -128), axis=-1, opset=13),
             b.microsoft("QLinearConcat", *at(0.05, 7), a, *at(0.04, -9), c, *at(0.06, 30), axis=1),
             b.microsoft("QLinearWhere", b.const(b.rng.random((2, 3, 4)) < 0.5), a, *at(0.04, -9), c, *at(0.06, 30),
                         *at(0.05, 7)),
             b.microsoft("QLinearAveragePool", image, *at(0.04, -9), *at(0.03, 5), kernel_shape=[3, 2],
                         strides=[2, 1], pads=[1, 0, 1, 1], count_include_pad=1),
             b.microsoft("QLinearGlobalAveragePool", image, *at(0.04, -9), *at(0.02, 3)))


def batch_norm(b: Builder) -> None:
    """BatchNormalization alone, behind a convolution, and behind a dense layer."""
    def norm(x: str, n: int) -> str:
        return str(b.op("BatchNormalization", x, b.floats(n), b.floats(n), b.floats(n),
                        b.const(b.rng.uniform(0.5, 2.0, n).astype(np.float32)), epsilon=0.01))
    x = b.input((1, 3, 4, 5))
    b.output(norm(x, 3), norm(b.op("Conv", x, b.floats(4, 3, 2, 2)), 4))
    b.output(norm(b.op("Gemm", b.input((2, 6)), b.floats(6, 5), b.floats(5)), 5))


CASES: dict[str, tuple[Build, int]] = {f.__name__: (f, 17) for f in (
    concat, concat_scales, concat_constant, pad_stored, split_parts, squeeze_inputs, views, turned_batch,
    conv_plus_matmul, transposed_sum, twice, twice_stored, chain, diamond, clips, softmax_rows,
    softmax_stored, dense_of_rows, reductions, quantise_axes, qlinear_conv, qlinear_matmul, qlinear_binary, qlinear_forms,
    qgemm, batch_norm)}
CASES |= {f.__name__: (f, opset) for f, opset in (
    (pad_attributes, 10), (squeeze_attributes, 11), (clip_attributes, 10), (softmax_flattened, 11))}
CASES |= {name: (build, 17) for name, build in {
    "slice": move("Slice", (5, 7, 4), [1, -3], [4, 2**62], [0, 1], [2, 1]),
    "slice-plane": move("Slice", (5, 7), [1, -3], [4, 2**62], [0, 1], [2, 1]),
    "slice-backwards": move("Slice", (5, 7, 4), [-1, 5, 3], [-2**62, 0, 0], [0, 1, 2], [-1, -2, -3]),
    "slice-conv": behind_conv("Slice", (1, 5, 6, 4), [3, 5], [0, 1], [1, 2], [-2, -1]),
    "slice-stored": move("Slice", (1, 3, 5, 4), [1], [3], [-2], stored=True),
    "split-equal": move("Split", (2, 7, 3), [3, 4], outputs=2, axis=-2),
    "transpose": move("Transpose", (2, 3, 4, 5), perm=[2, 0, 3, 1]),
    "transpose-reversed": move("Transpose", (2, 3, 4)),
    "transpose-conv": behind_conv("Transpose", (1, 3, 4, 5), perm=[3, 1, 0, 2]),
    "reshape-zero": move("Reshape", (2, 3, 4), [0, -1]),
    "reshape-conv": behind_conv("Reshape", (1, 4, 3, 2), [2, 3, 4]),
    "flatten-conv": behind_conv("Flatten", (1, 4, 3, 2)),
    "pad-conv": behind_conv("Pad", (1, 2, 4, 3), [0, 1, 0, 2, 0, 0, 3, 1], 0.1),
    "pad-lowest": move("Pad", (2, 3), [1, 0, 2, 3], -3.5e-3),
    "pad-infinite": move("Pad", (2, 3), [1, 0, 2, 3], float("-inf")),
    "resize-asymmetric": resize((1, 2, 3, 4), "asymmetric", "floor", scales=[1.0, 1.0, 2.0, 3.0]),
    "resize-half-pixel": resize((1, 2, 5, 4), "half_pixel", "round_prefer_floor", sizes=[1, 2, 3, 9]),
    "resize-ceil": resize((1, 2, 5, 4), "half_pixel", "ceil", scales=[1.0, 1.0, 0.6, 2.5]),
    "resize-corners": resize((1, 2, 5, 4), "align_corners", "round_prefer_ceil", sizes=[1, 2, 8, 3]),
    "resize-pytorch": resize((1, 2, 5, 4), "pytorch_half_pixel", "floor", sizes=[1, 2, 1, 7]),
    "resize-to-one": resize((1, 2, 5, 3), "half_pixel", "floor", sizes=[1, 2, 1, 1]),
    "resize-conv": resize((1, 2, 3, 4), "asymmetric", "floor", scales=[1.0, 1.0, 2.0, 2.0], conv=True),
    "resize-conv-channels": resize((1, 2, 3, 4), "half_pixel", "floor", sizes=[1, 7, 5, 2], conv=True),
    "add-stored": binary_stored("Add", (1, 3, 4, 5), (1, 3, 4, 5), 0.061),
    "sub-stored": binary_stored("Sub", (2, 3, 4), (3, 1), 0.049, u8=True),
    "mul-stored": binary_stored("Mul", (2, 3, 4), (1, 3, 4), 0.083),
    "add-stored-constant": binary_stored("Add", (1, 3, 4, 5), (3, 1, 1), 0.05, constant=True),
    "mul-stored-constant": binary_stored("Mul", (1, 3, 4, 5), (3, 4, 5), 0.07, u8=True, constant=True),
    "mul-stored-coarse": binary_stored("Mul", (2, 3, 4), (2, 1, 4), 0.0011),
    "add-stored-unequal": binary_stored("Add", (2, 3, 4), (2, 3, 1), 7.5),
    "unary-stored": unary_stored("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "Neg", "Abs", "Clip"),
    "unary-stored-u8": unary_stored("Relu", "HardSigmoid", "Exp", "Clip", u8=True),
}.items()}


def operator(name: str) -> Builder:
    """The graph of one case."""
    build, opset = CASES[name]
    b = Builder(opset)
    build(b)
    return b
