"""NonZero, Compress, Unique: results whose size depends on the data.

A result has the largest size that it can get; its beginning counts, the rest is zero. How much counts is a further
output of the model, one int64 (Importer.sized).
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import CTYPE, DType, TensorType
from fuse2c.kernels import copy, lines
from fuse2c.kernels.nesting import index_text
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work
from fuse2c.ops.movement import IndexMap, Permutation
from fuse2c.ops.shapes import axis_of, reshape, shape_of

COUNT = TensorType(DType.I64, (1,))


@dataclass(frozen=True, slots=True)
class Axis:
    """Compress: along which axis."""

    axis: int


@dataclass(frozen=True, slots=True)
class Order:
    """Unique: ascending, or in order of first occurrence."""

    ascending: bool


def from_non_zero(src: Source) -> None:
    """NonZero."""
    if not shape_of(src):
        raise src.refuse("a scalar")
    src.node("NonZero", None, src.inputs, (src.outputs[0], src.graph.sized(src.outputs[0])))


def from_compress(src: Source) -> None:
    """Compress; without an axis the input is flattened. A constant condition is a Take."""
    shape, x = shape_of(src), src.inputs[0]
    if "axis" in src.attrs:
        axis = axis_of(src, src.attrs["axis"], len(shape))
    else:
        axis, flat = 0, (src.graph.type(x).count,)
        if shape != flat:
            x = src.graph.temporary(f"{src.outputs[0]}.flat")
            reshape(src, src.inputs[0], flat, x)
            shape = flat
    condition = src.graph.data(src.inputs[1])
    if condition is None:
        src.node("Compress", Axis(axis), (x, src.inputs[1]), (src.outputs[0], src.graph.sized(src.outputs[0])))
    else:
        kept = tuple(map(int, np.flatnonzero(condition[:shape[axis]])))
        maps = tuple(kept if i == axis else tuple(range(n)) for i, n in enumerate(shape))
        src.node("Take", IndexMap(maps), (x,))


def from_unique(src: Source) -> None:
    """Unique: the items become the rows of a matrix, and the different rows items again."""
    shape, y = shape_of(src), src.outputs[0]
    names = [t or src.graph.temporary(f"{y}.{i}") for i, t in enumerate((*src.outputs, "", "", "")[:4])]
    count = src.graph.sized(names[0], names[1], names[3])
    ordered = Order(bool(src.attrs.get("sorted", 1)))
    total = src.graph.type(src.inputs[0]).count
    rows, picked = (src.graph.temporary(f"{y}.{what}") for what in ("rows", "picked"))
    axis = axis_of(src, src.attrs["axis"], len(shape)) if "axis" in src.attrs else 0
    n = shape[axis] if "axis" in src.attrs else total
    if not total:
        raise src.refuse("an empty tensor")
    first = src.inputs[0]
    front = (axis, *(i for i in range(len(shape)) if i != axis))
    turned = "axis" in src.attrs and axis > 0
    if turned:
        first = src.graph.temporary(f"{y}.front")
        src.node("Transpose", Permutation(front), src.inputs, (first,))
    reshape(src, first, (n, total // n), rows)
    src.node("Unique", ordered, (rows,), (picked, *names[1:], count))
    back = src.graph.temporary(f"{y}.back") if turned else y
    reshape(src, picked, tuple(shape[i] for i in front) if "axis" in src.attrs else (n,), back)
    if turned:
        src.node("Transpose", Permutation(tuple(int(i) for i in np.argsort(front))), (back,), (y,))


def infer(c: Call) -> list[TensorType]:
    """Largest sizes."""
    x = c.type(0)
    if c.node.op == "NonZero":
        return [TensorType(DType.I64, (len(x.shape), x.count)), COUNT]
    if c.node.op == "Compress":
        length = min(c.type(1).count, x.shape[c.attrs.axis])
        shape = tuple(length if i == c.attrs.axis else n for i, n in enumerate(x.shape))
        return [replace(x, shape=shape, quant=None, order=()), COUNT]
    if len(x.shape) != 2:
        raise ShapeError(f"rows of the shape {x.shape}", node=c.node.name, op=c.node.op)
    line = TensorType(DType.I64, x.shape[:1])
    return [replace(x, quant=None, order=()), line, line, line, COUNT]


def reference(c: Call, x: np.ndarray, condition: np.ndarray | None = None) -> list[np.ndarray]:
    """numpy's own, padded with zeros."""
    if condition is not None:
        axis = c.attrs.axis
        kept = np.flatnonzero(condition[:x.shape[axis]])
        return [_padded(np.take(x, kept, axis), infer(c)[0].shape), np.array([kept.size], np.int64)]
    if c.node.op == "NonZero":
        found = np.array(np.nonzero(x), np.int64)
        return [_padded(found, infer(c)[0].shape), np.array([found.shape[1]], np.int64)]
    y, first, inverse, counts = np.unique(x, True, True, True, axis=0)
    inverse = inverse.reshape(-1)
    if not c.attrs.ascending:
        order = np.argsort(first)
        y, first, counts, inverse = y[order], first[order], counts[order], np.argsort(order)[inverse]
    n = x.shape[:1]
    return [_padded(y, x.shape), _padded(first, n), inverse, _padded(counts, n), np.array([len(first)], np.int64)]


def _padded(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.pad(a, [(0, n - m) for m, n in zip(a.shape, shape, strict=True)])


def spec_non_zero(c: Call) -> Spec:
    """One loop for each axis, in logical order."""
    x = c.type(0)
    axes = range(len(x.shape))
    n, at = copy.walk(x, [], axes)
    rows = [(index_text(["n"], [1], axis * x.count), text) for axis, text in zip(axes, at, strict=True)]
    return Spec({"COUNT": c.y[0].count}, copy.constants(c, ("x",)), by_rows=False,
                flags={"nest": n, "at": n.index[0], "stores": rows})


def spec_compress(c: Call) -> Spec:
    """The axis outside, the others inside."""
    x, y, a = c.type(0), c.y[0], c.attrs
    n = lines.around(x, a.axis, y, indent=" " * 12)
    constants = {"COUNT": y.count, "LENGTH": y.shape[a.axis], "X_STEP": x.strides[a.axis], "Y_STEP": y.strides[a.axis]}
    return Spec(constants, copy.constants(c, ("x",)), by_rows=False,
                flags={"nest": n, "from": n.index[1], "to": n.index[2]})


def spec_unique(c: Call) -> Spec:
    """Insertion into the list of different rows."""
    x = c.type(0)
    less, more = "(a < b)", "(a > b)"
    if x.dtype.is_float:        # NaN is equal to NaN and greater than any number
        less, more = "((a < b) || ((b != b) && (a == a)))", "((a > b) || ((a != a) && (b == b)))"
    return Spec({"N": x.shape[0], "M": x.shape[1]}, by_rows=False, flags={
        "value": CTYPE[x.dtype], "less": less, "more": more, "ascending": c.attrs.ascending})


def when(c: Call) -> str:
    """Numbers that C compares as they lie in memory."""
    return f"no kernel for {c.type(0).dtype}" if c.type(0).dtype.is_half else ""


def work_unique(c: Call) -> Work:
    """Every row is compared with every other."""
    return Work(alu=c.type(0).count * c.type(0).shape[0])


OPS = (
    Op(name="NonZero", onnx={"NonZero": from_non_zero}, infer=infer, reference=reference, layout="row-major",
       kernels=(Kernel("non_zero", spec_non_zero, when=when),)),
    Op(name="Compress", onnx={"Compress": from_compress}, ports=("x", "condition"), infer=infer, reference=reference,
       layout="strided", half=True, kernels=(Kernel("compress", spec_compress),)),
    Op(name="Unique", onnx={"Unique": from_unique}, infer=infer, reference=reference, layout="row-major",
       work=work_unique, kernels=(Kernel("unique", spec_unique, when=when),)),
)
