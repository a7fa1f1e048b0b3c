"""QuantizeLinear and DequantizeLinear.

IR inputs: (x, scale, zero), float32 scale and integer zero point broadcastable to x. Where both are constants, the
tensor on the integer side carries them in its type, so that integer operators find them there.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from fuse2c.ir.types import DType, Quant, TensorType
from fuse2c.kernels import mve
from fuse2c.kernels.scalars import literal
from fuse2c.op import Call, Kernel, Op, Scalar, Source
from fuse2c.ops import elementwise
from fuse2c.ops._emit import Emit
from fuse2c.ops.cast import ONNX_TYPES
from fuse2c.ops.elementwise import Attrs
from fuse2c.quant import quantise


@dataclass(frozen=True, slots=True)
class Scales:
    """Scale and zero point of a Q or DQ node, shaped to broadcast against x.

    quant: their values where they are constants, one for the tensor or one for each slice of an axis. split: the
    shape in which x has an axis of its own inside each block; () unless the scales are blocked.
    """

    scale: str
    zero: str
    quant: Quant | None
    split: tuple[int, ...] = ()


def scales(src: Source, scale: str, zero: str, shape: tuple[int, ...], axis: int, block: int = 0) -> Scales:
    """The scales of a tensor of some shape; `zero` may be "" (all zero points are 0)."""
    emit, given = Emit(src), src.graph.type(scale).shape
    values, zeros = src.graph.data(scale), src.graph.data(zero) if zero else np.zeros((), np.int32)
    if values is not None and (values.size == 0 or not np.all(np.isfinite(values)) or np.any(values <= 0)):
        raise src.refuse("scales must be positive and finite")
    split: tuple[int, ...] = ()
    along = None
    if prod(given) == 1:
        target: tuple[int, ...] = ()
    elif len(given) == 1 and not block:
        along = axis % max(len(shape), 1)
        if not -len(shape) <= axis < len(shape) or given[0] != shape[along]:
            raise src.refuse(f"{given[0]} scales along axis {axis} of a tensor of shape {list(shape)}", attr="axis")
        target = (*given, *[1] * (len(shape) - 1 - along))
    else:
        target, split = _blocked(src, given, shape, axis, block)
    for name in (scale, zero):
        if name and src.graph.type(name).count not in (1, prod(given)):
            raise src.refuse("scale and zero point have different shapes")
    quant = None
    if values is not None and zeros is not None and (not target or along is not None):
        numbers = np.broadcast_to(zeros.astype(np.int32).reshape(-1), values.size)
        quant = Quant(tuple(map(float, values.astype(np.float32).reshape(-1))), tuple(map(int, numbers)), along)
        quant = replace(quant, zero=quant.zero[:1]) if along is None or len(set(quant.zero)) == 1 else quant
    return Scales(_shaped(emit, scale, target, DType.F32), _shaped(emit, zero, target, None), quant, split)


def _blocked(src: Source, given: tuple[int, ...], shape: tuple[int, ...], axis: int, block: int
             ) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape of the scales, shape of x) with the blocks of an axis apart; without blocks, plain broadcasting."""
    if not block:
        fits = all(n in (1, size) for n, size in zip(given[::-1], shape[::-1], strict=False))
        if len(given) > len(shape) or not fits:
            raise src.refuse(f"scales of shape {list(given)} for a tensor of shape {list(shape)}")
        return given, ()
    if not -len(shape) <= axis < len(shape):
        raise src.refuse(f"axis {axis} of a tensor of shape {list(shape)}", attr="axis")
    axis %= len(shape)
    if len(given) != len(shape) or given[axis] * block != shape[axis]:
        raise src.refuse(f"blocks of {block} along axis {axis} of {shape} with scales {given}", attr="block_size",
                         hint="blocks must divide the axis")
    return ((*given[:axis + 1], 1, *given[axis + 1:]), (*shape[:axis], given[axis], block, *shape[axis + 1:]))


def _shaped(emit: Emit, name: str, shape: tuple[int, ...], dtype: DType | None) -> str:
    """A scale or zero point in the shape that broadcasts; constants are made anew, zero points as int32."""
    graph = emit.src.graph
    value = graph.data(name) if name else np.zeros((), np.int32)
    target = shape if (value.size if value is not None else graph.type(name).count) > 1 else ()
    if value is not None:
        return graph.constant(f"{emit.src.name}.{'scale' if dtype else 'zero'}",
                              value.astype(np.float32 if dtype else np.int32).reshape(target))
    shaped = name if graph.type(name).shape == target else emit.reshape(name, target)
    return emit.cast(shaped, dtype) if dtype else shaped


def add_dequantise(src: Source, x: str, ports: tuple[int, int], y: str, axis: int = 0, block: int = 0) -> None:
    """Add a DequantizeLinear of tensor `x` to float32, with scale and zero point from two inputs of the node."""
    t, emit = src.graph.type(x), Emit(src)
    found = scales(src, src.inputs[ports[0]], src.inputs[ports[1]] if src.has(ports[1]) else "", t.shape, axis, block)
    if t.quant is None and found.quant is not None:
        src.graph.retype(x, replace(t, quant=found.quant))
    inner = emit.reshape(x, found.split) if found.split else x
    real = emit.op("DequantizeLinear", inner, found.scale, found.zero, out="" if found.split else y)
    if found.split:
        emit.reshape(real, t.shape, out=y)


def add_quantise(src: Source, x: str, ports: tuple[int, int], y: str, axis: int = 0, block: int = 0,
                 dtype: DType | None = None) -> None:
    """Add a QuantizeLinear to `y`; the zero point's type decides on y's, without one `dtype` does (default uint8)."""
    zero = src.inputs[ports[1]] if src.has(ports[1]) else ""
    dtype = src.graph.type(zero).dtype if zero else dtype or DType.U8
    t, emit = src.graph.type(x), Emit(src)
    found = scales(src, src.inputs[ports[0]], zero, t.shape, axis, block)
    inner = emit.reshape(x, found.split) if found.split else x
    stored = y if not found.split else src.graph.temporary(f"{y}.blocks")
    src.node("QuantizeLinear", Attrs(), (inner, found.scale, found.zero), (stored,))
    src.graph.retype(stored, TensorType(dtype, found.split or t.shape, found.quant))
    if found.split:
        emit.reshape(stored, t.shape, out=y)


def from_quantize(src: Source) -> None:
    """QuantizeLinear. With scales of 16 bits the quotient is rounded to them, unless `precision` says otherwise."""
    emit, x, scale = Emit(src), src.inputs[0], src.inputs[1]
    dtype = ONNX_TYPES.get(src.attrs.get("output_dtype", 0))
    axis, block = src.attrs.get("axis", 1), src.attrs.get("block_size", 0)
    precision = ONNX_TYPES.get(src.attrs.get("precision", 0), src.graph.type(scale).dtype)
    if not precision.is_half:
        real = x if src.graph.type(x).dtype.is_float else emit.cast(x, DType.F32)
        add_quantise(src, real, (1, 2), src.outputs[0], axis, block, dtype)
        return
    t = src.graph.type(x)
    found = scales(src, scale, "", t.shape, axis, block)
    inner = emit.reshape(x, found.split) if found.split else x
    quotient = emit.op("Div", emit.cast(inner, precision), emit.cast(found.scale, precision))
    whole = emit.reshape(quotient, t.shape) if found.split else quotient
    ones = src.graph.constant(f"{src.name}.ones", np.ones(src.graph.type(scale).shape, np.float32))
    add_quantise(replace(src, inputs=(whole, ones, *src.inputs[2:])), whole, (1, 2), src.outputs[0], axis, block, dtype)


def from_dequantize(src: Source) -> None:
    """DequantizeLinear: computed in float32, rounded once to the type of the scale or to `output_dtype`."""
    to = ONNX_TYPES.get(src.attrs.get("output_dtype", 0), src.graph.type(src.inputs[1]).dtype)
    y = src.outputs[0] if to == DType.F32 else src.graph.temporary(f"{src.outputs[0]}.real")
    add_dequantise(src, src.inputs[0], (1, 2), y, src.attrs.get("axis", 1), src.attrs.get("block_size", 0))
    if to != DType.F32:
        Emit(src).cast(y, to, out=src.outputs[0])


def constants(src: Source, *ports: int) -> None:
    """Raise UnsupportedOp unless scales and zero points are constants: integer kernels need them."""
    for port in ports:
        if src.has(port):
            src.const(port, "scale and zero point")


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
    return literal(float(value.reshape(-1)[0]), dtype) if value is not None and value.size == 1 else name


def dequantise_scalar(c: Call) -> Scalar:
    """C: exact conversion, one product."""
    scale, zero = _operand(c, 1, "{b}", DType.F32), _operand(c, 2, "{c}", DType.I32)
    if c.type(0).dtype.bits > 16 or "{" in scale:
        return Scalar(f"((float)({{a}} - {zero}) * {scale})")
    return Scalar(f"f2c_dequantise({{a}} - {zero}, {scale})")


def quantise_scalar(c: Call) -> Scalar:
    """C: a division, since the product with the reciprocal would differ on ties."""
    scale, zero = _operand(c, 1, "{b}", DType.F32), _operand(c, 2, "{c}", DType.I32)
    low, high = c.y[0].dtype.range
    words = f"f2c_words_quantise({{a}}, {scale}, {zero}, {low})" if "{" not in scale + zero else ""
    return Scalar(f"f2c_quantise({{a}}, {scale}, {zero}, {low}, {high})", words=words)


def when(c: Call) -> str:
    """float32 on one side, an integer type of at most 32 bits on the other."""
    stored = c.type(0) if c.node.op == "DequantizeLinear" else c.y[0]
    fits = not stored.dtype.is_float and stored.dtype != DType.BOOL and (stored.dtype.bits <= 16 or stored is c.type(0))
    return "" if fits and stored.dtype.bits <= 32 and stored.dtype != DType.U32 else f"{stored.dtype} storage"


KERNELS = (Kernel("elementwise_mve", elementwise.mve_spec, when=lambda c: when(c) or elementwise.mve_when(c), needs=mve.NEEDS),
           Kernel("elementwise", elementwise.spec, when=when))
OPS = (
    Op(name="QuantizeLinear", ports=("a", "b", "c"), infer=infer, reference=quantise_reference, layout="same",
       anchor=True, scalar=quantise_scalar, kernels=KERNELS, docs="per tensor, per axis, blocked",
       onnx={"QuantizeLinear": from_quantize}),
    Op(name="DequantizeLinear", ports=("a", "b", "c"), infer=infer, reference=dequantise_reference, layout="same",
       anchor=True, scalar=dequantise_scalar, kernels=KERNELS, onnx={"DequantizeLinear": from_dequantize},
       docs="per tensor, per axis, blocked"),
)
