"""Trilu: the upper or lower triangle of matrices, zeros elsewhere; the diagonal may be chosen at run time."""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fuse2c.ir.types import TensorType
from fuse2c.kernels import copy
from fuse2c.kernels.copy import Part
from fuse2c.kernels.nesting import Access
from fuse2c.op import Call, Kernel, Op, Source, Spec
from fuse2c.ops import movement

PORTS = ("x", "diagonal")


@dataclass(frozen=True, slots=True)
class Attrs:
    """Which triangle; the diagonal if no input gives it."""

    upper: bool
    diagonal: int = 0


def from_onnx(src: Source) -> None:
    """Trilu."""
    upper = bool(src.attrs.get("upper", 1))
    given = src.graph.data(src.inputs[1]) if src.has(1) else np.zeros((), np.int64)
    if given is None:
        src.node("Trilu", Attrs(upper))
    else:
        src.node("Trilu", Attrs(upper, int(given.reshape(-1)[0])), src.inputs[:1])


def infer(c: Call) -> list[TensorType]:
    """As x."""
    return [replace(c.type(0), order=())]


def reference(c: Call, x: np.ndarray, diagonal: np.ndarray | None = None) -> list[np.ndarray]:
    """By coordinates; the zero of stored values is their zero point."""
    k = c.attrs.diagonal if diagonal is None else int(diagonal.reshape(-1)[0])
    rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    kept = columns - rows >= k if c.attrs.upper else columns - rows <= k
    return [np.where(kept, x, np.asarray(zero(c), x.dtype))]


def zero(c: Call) -> int:
    """The stored value of 0."""
    return c.quant(0).zero[0] if c.quantised else 0


def spec(c: Call) -> Spec:
    """A copy that chooses between x and zero."""
    rank, sign = len(c.y[0].shape), ">=" if c.attrs.upper else "<="
    n, (at, row, column) = copy.walk(c.y[0], [Access(c.type(0).strides)], [rank - 2, rank - 1])
    diagonal = "{diagonal}[0]" if c.has(1) else str(c.attrs.diagonal)
    nothing = str(zero(c)) if c.quantised else copy.element(0, c.y[0].dtype)
    part = Part(n, n.index[0], f"(({column} - {row}) {sign} {diagonal}) ? {{x}}[{at}] : {nothing}")
    return copy.spec(c, PORTS, [part])


OP = Op(name="Trilu", onnx={"Trilu": from_onnx}, ports=PORTS, infer=infer, reference=reference,
        integer=movement.integer, layout="strided", moves=True, half=True, kernels=(Kernel("copy", spec),))
