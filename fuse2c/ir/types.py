"""The words of the IR: element type, quantisation, storage order, tensor type."""
from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

import ml_dtypes
import numpy as np


class DType(StrEnum):
    """Element types; the value is numpy's name. Types below 8 bits are stored one element a byte."""

    BOOL = "bool"
    I2, U2, I4, U4 = "int2", "uint2", "int4", "uint4"
    I8, U8, I16, U16 = "int8", "uint8", "int16", "uint16"
    I32, U32, I64, U64 = "int32", "uint32", "int64", "uint64"
    F16, BF16, F32, F64 = "float16", "bfloat16", "float32", "float64"

    @property
    def numpy(self) -> np.dtype:
        """The numpy type of one element."""
        return np.dtype(getattr(ml_dtypes, self.value)) if self in SMALL else np.dtype(self.value)

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Any floating type."""
        return self in (DType.F16, DType.BF16, DType.F32, DType.F64)

    @property
    def is_half(self) -> bool:
        """16-bit floats: computed in float32 and rounded after each operator."""
        return self in (DType.F16, DType.BF16)

    @property
    def is_quantised(self) -> bool:
        """The storage types of 8-bit activations and weights."""
        return self in (DType.I8, DType.U8)

    @property
    def is_signed(self) -> bool:
        """Signed integers."""
        return self.value.startswith("int")

    @property
    def bits(self) -> int:
        """Significant bits of an integer type."""
        return int(self.value.lstrip("uint"))

    @property
    def range(self) -> tuple[int, int]:
        """Least and greatest value of an integer type."""
        return (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) if self.is_signed else (0, (1 << self.bits) - 1)


SMALL = frozenset({DType.I2, DType.U2, DType.I4, DType.U4, DType.BF16})
CTYPE = {d: f"{d.value}_t" for d in DType if d.value.startswith(("int", "uint"))} | {
    DType.BOOL: "uint8_t", DType.I2: "int8_t", DType.U2: "uint8_t", DType.I4: "int8_t", DType.U4: "uint8_t",
    DType.F16: "uint16_t", DType.BF16: "uint16_t", DType.F32: "float", DType.F64: "double"}
"""C type of one element in memory."""
COMPUTE = {d: "int32_t" for d in DType} | {
    DType.U32: "uint32_t", DType.I64: "int64_t", DType.U64: "uint64_t",
    DType.F16: "float", DType.BF16: "float", DType.F32: "float", DType.F64: "double"}
"""C type in which elements are computed."""


@dataclass(frozen=True, slots=True)
class Quant:
    """real = scale * (stored - zero); one entry for the tensor, or one for each slice of `axis`."""

    scale: tuple[float, ...]
    zero: tuple[int, ...] = (0,)
    axis: int | None = None

    @property
    def per_tensor(self) -> bool:
        """One scale and one zero point for the whole tensor."""
        return len(self.scale) == 1 and len(self.zero) == 1


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type, logical shape (ONNX axis order), quantisation, and the order in which axes lie in memory.

    `order` lists the logical axes from the outermost to the innermost; empty means row-major. A logical
    [N,C,H,W] tensor stored as NHWC has order (0, 2, 3, 1). `within` is the shape of the tensor whose memory it is a part
    of; empty: it has its own.
    """

    dtype: DType
    shape: tuple[int, ...]
    quant: Quant | None = None
    order: tuple[int, ...] = ()
    within: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return self.count * self.dtype.bytes

    @property
    def storage(self) -> tuple[int, ...]:
        """The storage order, spelled out."""
        return self.order or tuple(range(len(self.shape)))

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in elements between neighbours along each logical axis."""
        strides, step = [0] * len(self.shape), 1
        for axis in reversed(self.storage):
            strides[axis] = step
            step *= (self.within or self.shape)[axis]
        return tuple(strides)

    @property
    def memory_axes(self) -> tuple[int, ...]:
        """Storage order without axes of size 1: two types with equal `memory_axes` and shape share their bytes."""
        return tuple(a for a in self.storage if self.shape[a] != 1)

    @property
    def row_major(self) -> bool:
        """Whether the elements lie in memory in logical order."""
        return self.memory_axes == tuple(sorted(self.memory_axes))

    @property
    def batch_first(self) -> bool:
        """Whether the slices along axis 0, the images of a batch, follow one another in memory."""
        return self.shape[:1] == (1,) or self.memory_axes[:1] == (0,)

    def __str__(self) -> str:
        layout = "" if not self.order else " as " + "".join(map(str, self.order))
        quant = f" q{self.quant.scale[0]:.6g}{self.quant.zero[0]:+d}" if self.quant else ""
        part = f" in {list(self.within)}" if self.within else ""
        return f"{self.dtype.value}[{','.join(map(str, self.shape))}]{layout}{part}{quant}"


def pack(value: np.ndarray, t: TensorType) -> np.ndarray:
    """A logical array as it lies in memory: contiguous and one-dimensional; int2 and int4 extended to whole bytes."""
    wide = value.astype(np.int8) if t.dtype in (DType.I2, DType.I4) else value
    flat = np.ascontiguousarray(np.transpose(wide.reshape(t.shape), t.storage)).reshape(-1)
    return flat if wide is value else flat.view(t.dtype.numpy)


def unpack(memory: np.ndarray, t: TensorType) -> np.ndarray:
    """The logical array that lies in `memory` (inverse of `pack`)."""
    stored = memory.reshape([t.shape[a] for a in t.storage])
    return np.transpose(stored, np.argsort(t.storage)) if t.shape else memory.reshape(())
