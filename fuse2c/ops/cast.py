"""Cast and its relatives: from any element type to any other.

Floats to integers truncate and saturate (ONNX leaves out-of-range undefined), below 8 bits they truncate and wrap as
ONNX's own cases do; integers to narrower ones wrap; halves round half to even.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fuse2c.ir.graph import Node
from fuse2c.ir.types import CTYPE, DType, TensorType
from fuse2c.op import Call, Kernel, Op, Scalar, Source, Spec
from fuse2c.ops import elementwise
from fuse2c.ops.movement import Shape

ONNX_TYPES = {1: DType.F32, 2: DType.U8, 3: DType.I8, 4: DType.U16, 5: DType.I16, 6: DType.I32, 7: DType.I64,
              9: DType.BOOL, 10: DType.F16, 11: DType.F64, 12: DType.U32, 13: DType.U64, 16: DType.BF16,
              21: DType.U4, 22: DType.I4, 25: DType.U2, 26: DType.I2}
INTEGER_64 = (DType.I64, DType.U64)


@dataclass(frozen=True, slots=True)
class Attrs:
    """The element type of the result."""

    to: DType
    values: tuple[float, ...] = ()


def from_cast(src: Source) -> None:
    """Cast."""
    to = ONNX_TYPES.get(src.attrs["to"])
    if to is None:
        raise src.refuse(f"element type {src.attrs['to']}", attr="to")
    add(src, src.inputs[0], to, src.outputs[0])


def from_cast_like(src: Source) -> None:
    """CastLike: the type of the second operand, whose value does not matter."""
    add(src, src.inputs[0], src.graph.type(src.inputs[1]).dtype, src.outputs[0])


def add(src: Source, x: str, to: DType, y: str) -> None:
    """Add a cast; where the type stays a Reshape, which costs nothing; of a constant, a constant."""
    t, value = src.graph.type(x), src.graph.data(x)
    if value is not None and y == src.graph.temporary(y):
        # A parameter of another operator may depend on it, so it must be a constant at once.
        c = Call(Node(src.name, "Cast", (x,), (y,), Attrs(to)), (t,), (TensorType(to, t.shape),), (value,))
        src.graph.constant(y, reference(c, value)[0])
    elif t.dtype == to:
        src.node("Reshape", Shape(t.shape), (x,), (y,))
    else:
        src.node("Cast", Attrs(to), (x,), (y,))


def infer(c: Call) -> list[TensorType]:
    """The shape of x."""
    return [TensorType(c.attrs.to, c.type(0).shape)]


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """See the module."""
    to, dtype = c.attrs.to, c.type(0).dtype
    if to == DType.BOOL:
        return [x.astype(np.float32) != 0 if dtype.is_half else x != 0]
    if to.is_float:
        wide = x.astype(np.float32) if dtype.is_half else x
        if to.is_half:
            wide = wide.astype(np.float32)
        return [wide.astype(to.numpy)]
    if dtype.is_float:
        low, high = to.range if to.bits >= 8 else DType.I32.range
        real = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        exact = [min(max(int(v), low), high) if np.isfinite(v) else (high if v > 0 else low) for v in real.reshape(-1)]
        x = np.array(exact, object).reshape(x.shape)
    low, _ = to.range
    cut = (x.astype(object) - low) & ((1 << to.bits) - 1)
    return [np.asarray(cut + low, object).astype(_holder(to)).astype(to.numpy)]


def _holder(to: DType) -> np.dtype:
    """A numpy type that converts exactly to an element type."""
    return np.dtype(np.int64) if to != DType.U64 else np.dtype(np.uint64)


def scalar(c: Call) -> Scalar:
    """C conversions, with defined results."""
    dtype, to = c.type(0).dtype, c.attrs.to
    if to == DType.BOOL:
        zero = {DType.F64: "0.0"}.get(dtype, "0.0f") if dtype.is_float else "0"
        return Scalar(f"(({{a}} != {zero}) ? 1 : 0)")
    if to.is_float:
        return Scalar("(double){a}" if to == DType.F64 else "(float){a}")
    if dtype.is_float:
        kind = {DType.U32: "u32", DType.I64: "s64", DType.U64: "u64"}.get(to, "s32")
        text = f"f2c_{'f64' if dtype == DType.F64 else 'f32'}_to_{kind}({{a}})"
        low, high = to.range
        return Scalar(_cut(text, to) if to.bits < 8 else text if to.bits >= 32 else
                      f"f2c_clamp_s32({text}, {low}, {high})")
    if to.bits < 8:
        return Scalar(_cut("{a}", to))
    return Scalar(f"({CTYPE[to]}){{a}}")


def _cut(value: str, to: DType) -> str:
    """An integer modulo 2**bits of a type below 8 bits."""
    low, _ = to.range
    mask = (1 << to.bits) - 1
    return f"(int32_t)(((uint32_t){value} + {-low}u) & {mask}u) - {-low}" if low else \
        f"(int32_t)((uint32_t){value} & {mask}u)"


def from_bitcast(src: Source) -> None:
    """BitCast: the same bytes read as another type of the same size."""
    to = ONNX_TYPES.get(src.attrs["to"])
    if to is None or to.bytes != src.graph.type(src.inputs[0]).dtype.bytes:
        raise src.refuse("a type of another size", attr="to")
    src.node("BitCast", Attrs(to))


def bitcast_reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """numpy's view."""
    return [np.ascontiguousarray(x).view(c.attrs.to.numpy).reshape(x.shape)]


def bitcast_spec(c: Call) -> Spec:
    """Byte by byte: C lets characters alone read any type's memory."""
    return Spec({"BYTES": c.y[0].bytes}, by_rows=False)


OPS = (
    Op(name="Cast", onnx={"Cast": from_cast, "CastLike": from_cast_like}, ports=("a",), infer=infer,
       reference=reference, layout="same", anchor=True, half=True, scalar=scalar,
       kernels=(Kernel("elementwise", elementwise.spec),)),
    Op(name="BitCast", onnx={"BitCast": from_bitcast}, infer=infer, reference=bitcast_reference, half=True,
       kernels=(Kernel("bitcast", bitcast_spec),)),
)
