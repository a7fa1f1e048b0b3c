"""Det: determinants by elimination with partial pivoting, one matrix at a time in a copy of it."""
from __future__ import annotations

from math import prod

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels.tiling import Store
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work
from fuse2c.ops.elementwise import Attrs


def from_onnx(src: Source) -> None:
    """Det."""
    src.node("Det", Attrs())


def infer(c: Call) -> list[TensorType]:
    """Without the last two axes, which must be equal."""
    shape = c.type(0).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"the determinant of {shape}", node=c.node.name, op=c.node.op)
    return [TensorType(c.type(0).dtype, shape[:-2])]


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """numpy's own, rounded once."""
    return [np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)]


def sums(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """The product of the rows' lengths, which no determinant exceeds (Hadamard)."""
    return [np.sqrt((x.astype(np.float64) ** 2).sum(axis=-1)).prod(axis=-1)]


def work(c: Call) -> Work:
    """About a third of n**3 multiply-accumulates a matrix."""
    n = c.type(0).shape[-1]
    return Work(macs=c.y[0].count * sum((n - col) * (n - col - 1) for col in range(n)), alu=c.type(0).count)


def spec(c: Call) -> Spec:
    """One matrix of scratch."""
    x = c.type(0)
    size = x.shape[-1]
    return Spec({"BATCH": prod(x.shape[:-2]), "SIZE": size}, scratch=size * size * x.dtype.bytes, by_rows=False,
                flags={"size_of": "f2c_abs_f64" if x.dtype == DType.F64 else "f2c_abs",
                       "store": Store("acc", "", "batch")})


def when(c: Call) -> str:
    """float32 and float64."""
    return "" if c.type(0).dtype in (DType.F32, DType.F64) else f"no kernel for {c.type(0).dtype}"


OP = Op(name="Det", onnx={"Det": from_onnx}, infer=infer, reference=reference, work=work, sums=sums, anchor=True,
        kernels=(Kernel("det", spec, when=when),))
