"""QuantizeLinear and DequantizeLinear; the QLinear* operators are imported as Q/DQ around float operators.

IR inputs: (x, scale, zero), scale and zero constants broadcastable to x. The tensor on the integer side carries the
quantisation in its type, so that integer operators find it there.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, Quant, TensorType
from fuse2c.ops import elementwise
from fuse2c.ops.base import Call, Kernel, Op, Scalar, Source
from fuse2c.ops._scalars import literal
from fuse2c.ops.elementwise import Attrs
from fuse2c.quant import quantise


def parameters(src: Source, scale_port: int, zero_port: int, dtype: DType, rank: int, axis: int
               ) -> tuple[Quant, str, str]:
    """(quantisation, scale constant, zero constant) of a Q or DQ node; constants are shaped to broadcast."""
    scale = np.asarray(src.const(scale_port, "the scale"), np.float32)
    zero = src.const(zero_port, "the zero point") if src.has(zero_port) else np.zeros(scale.shape, dtype.numpy)
    if scale.size == 0 or not np.all(np.isfinite(scale)) or np.any(scale <= 0):
        raise src.refuse("scales must be positive and finite")
    if scale.ndim > 1:
        raise src.refuse("blocked quantisation", hint="per tensor and per axis are supported")
    shape: tuple[int, ...] = ()
    along = None
    if scale.size > 1:
        along = axis % rank
        shape = (scale.size, *[1] * (rank - 1 - along))
    zero = np.broadcast_to(zero.astype(np.int32), scale.shape)
    quant = Quant(tuple(map(float, scale.reshape(-1))), tuple(map(int, zero.reshape(-1))), along)
    if along is None or len(set(quant.zero)) == 1:
        quant = replace(quant, zero=quant.zero[:1])
    names = (src.graph.constant(f"{src.name}.scale", scale.reshape(shape)),
             src.graph.constant(f"{src.name}.zero", zero.reshape(shape)))
    return quant, *names


def add_dequantise(src: Source, x: str, ports: tuple[int, int], y: str) -> None:
    """Add a DequantizeLinear of tensor `x`, with scale and zero point from two inputs of the node."""
    t = src.graph.type(x)
    axis = src.attrs.get("axis", 1) if src.op == "DequantizeLinear" else 0
    quant, scale, zero = parameters(src, *ports, t.dtype, len(t.shape), axis)
    if t.quant is None:
        src.graph.retype(x, replace(t, quant=quant))
    src.node("DequantizeLinear", Attrs(), (x, scale, zero), (y,))


def add_quantise(src: Source, x: str, ports: tuple[int, int], y: str) -> None:
    """Add a QuantizeLinear to `y`; the zero point's type decides between int8 and uint8."""
    dtype = DType.U8
    if src.has(ports[1]):
        dtype = DType(src.const(ports[1], "the zero point").dtype.name)
    t = src.graph.type(x)
    axis = src.attrs.get("axis", 1) if src.op == "QuantizeLinear" else 0
    quant, scale, zero = parameters(src, *ports, dtype, len(t.shape), axis)
    src.node("QuantizeLinear", Attrs(), (x, scale, zero), (y,))
    src.graph.retype(y, TensorType(dtype, t.shape, quant))


def from_quantize(src: Source) -> None:
    """QuantizeLinear."""
    add_quantise(src, src.inputs[0], (1, 2), src.outputs[0])


def from_dequantize(src: Source) -> None:
    """DequantizeLinear."""
    add_dequantise(src, src.inputs[0], (1, 2), src.outputs[0])


def infer(c: Call) -> list[TensorType]:
    """The shape of x; QuantizeLinear's element type is set by its importer."""
    return [TensorType(DType.F32 if c.node.op == "DequantizeLinear" else DType.I8, c.type(0).shape)]


def dequantise_reference(c: Call, x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> list[np.ndarray]:
    """(x - zero) * scale in float32."""
    return [(x.astype(np.int64) - zero).astype(np.float32) * scale]


def quantise_reference(c: Call, x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> list[np.ndarray]:
    """x / scale, half to even, plus zero, saturated."""
    dtype = c.y[0].dtype
    return [quantise(x, scale, zero.astype(np.int64), *dtype.range).astype(dtype.numpy)]


def _operand(c: Call, port: int, name: str, dtype: DType) -> str:
    value = c.constant(port)
    if value is None:
        raise ShapeError("scale and zero point must be constants", node=c.node.name, op=c.node.op)
    return literal(float(value.reshape(-1)[0]), dtype) if value.size == 1 else name


def dequantise_scalar(c: Call) -> Scalar:
    """C: exact conversion, one product."""
    scale, zero = _operand(c, 1, "{b}", DType.F32), _operand(c, 2, "{c}", DType.I32)
    return Scalar(f"((float)({{a}} - {zero}) * {scale})")


def quantise_scalar(c: Call) -> Scalar:
    """C: a division, since the product with the reciprocal would differ on ties."""
    scale, zero = _operand(c, 1, "{b}", DType.F32), _operand(c, 2, "{c}", DType.I32)
    low, high = c.y[0].dtype.range
    return Scalar(f"f2c_quantise({{a}}, {scale}, {zero}, {low}, {high})")


def when(c: Call) -> str:
    """float32 on one side, an integer type of at most 32 bits on the other."""
    stored = c.type(0) if c.node.op == "DequantizeLinear" else c.y[0]
    return "" if stored.dtype in (DType.I8, DType.U8, DType.I16, DType.U16, DType.I32) else f"{stored.dtype} storage"


def q_names(src: Source, count: int) -> list[str]:
    """Fresh names for the float tensors inside an expanded QLinear operator."""
    return [src.graph.temporary(f"{src.outputs[0]}.real{i}") for i in range(count)]


def from_qlinear_conv(src: Source) -> None:
    """QLinearConv: (x, s, z, w, s, z, y_s, y_z, bias)."""
    from fuse2c.ops import conv
    x, w, b, y = q_names(src, 4)
    add_dequantise(src, src.inputs[0], (1, 2), x)
    add_dequantise(src, src.inputs[3], (4, 5), w)
    inputs: tuple[str, ...] = (x, w)
    if src.has(8):
        inputs = (x, w, _bias(src, src.inputs[8], (1, 4), b))
    conv.from_onnx(replace(src, op="Conv", inputs=inputs, outputs=(y,)))
    add_quantise(src, y, (6, 7), src.outputs[0])


def _bias(src: Source, bias: str, scale_ports: tuple[int, int], name: str) -> str:
    """The real bias: int32 at scale s_x * s_w."""
    scale = (np.asarray(src.const(scale_ports[0], "the scale"), np.float32)
             * np.asarray(src.const(scale_ports[1], "the scale"), np.float32)).reshape(-1)
    scale_name = src.graph.constant(f"{src.name}.bias_scale", scale if scale.size > 1 else scale.reshape(()))
    src.graph.retype(bias, replace(src.graph.type(bias), quant=Quant(tuple(map(float, scale)), (0,), 0)))
    zero = src.graph.constant(f"{src.name}.bias_zero", np.zeros((), np.int32))
    src.node("DequantizeLinear", Attrs(), (bias, scale_name, zero), (name,))
    return name


def from_qlinear_matmul(src: Source) -> None:
    """QLinearMatMul: (a, s, z, b, s, z, y_s, y_z)."""
    from fuse2c.ops import matmul
    a, b, y = q_names(src, 3)
    add_dequantise(src, src.inputs[0], (1, 2), a)
    columns = len(src.graph.type(src.inputs[3]).shape) - 1
    add_dequantise(replace(src, op="DequantizeLinear", attrs={"axis": columns}), src.inputs[3], (4, 5), b)
    matmul.from_matmul(replace(src, op="MatMul", inputs=(a, b), outputs=(y,)))
    add_quantise(src, y, (6, 7), src.outputs[0])


def from_qgemm(src: Source) -> None:
    """QGemm (com.microsoft): (a, s, z, b, s, z, bias, y_s, y_z)."""
    from fuse2c.ops import matmul
    a, b, bias, y = q_names(src, 4)
    add_dequantise(src, src.inputs[0], (1, 2), a)
    column = 0 if src.attrs.get("transB", 0) else 1
    add_dequantise(replace(src, op="DequantizeLinear", attrs={"axis": column}), src.inputs[3], (4, 5), b)
    inputs = (a, b, _bias(src, src.inputs[6], (1, 4), bias)) if src.has(6) else (a, b)
    if not src.has(7):
        raise src.refuse("QGemm with a float output", hint="give y_scale and y_zero_point")
    matmul.from_gemm(replace(src, op="Gemm", inputs=inputs, outputs=(y,)))
    add_quantise(src, y, (7, 8), src.outputs[0])


def from_qlinear_binary(src: Source) -> None:
    """QLinearAdd, QLinearMul (com.microsoft): (a, s, z, b, s, z, y_s, y_z)."""
    a, b, y = q_names(src, 3)
    add_dequantise(src, src.inputs[0], (1, 2), a)
    add_dequantise(src, src.inputs[3], (4, 5), b)
    elementwise.from_onnx(replace(src, op=src.op.removeprefix("QLinear"), inputs=(a, b), outputs=(y,), attrs={}))
    add_quantise(src, y, (6, 7), src.outputs[0])


KERNELS = (Kernel("elementwise", elementwise.spec, when=when),)
OPS = (
    Op(name="QuantizeLinear", ports=("a", "b", "c"), infer=infer, reference=quantise_reference, layout="same",
       anchor=True, scalar=quantise_scalar, kernels=KERNELS, docs="per tensor and per axis, constant scale",
       onnx={"QuantizeLinear": from_quantize, "QLinearConv": from_qlinear_conv, "QLinearMatMul": from_qlinear_matmul,
             "QGemm": from_qgemm, "QLinearAdd": from_qlinear_binary, "QLinearMul": from_qlinear_binary}),
    Op(name="DequantizeLinear", ports=("a", "b", "c"), infer=infer, reference=dequantise_reference, layout="same",
       anchor=True, scalar=dequantise_scalar, kernels=KERNELS, onnx={"DequantizeLinear": from_dequantize},
       docs="per tensor and per axis, constant scale"),
)
