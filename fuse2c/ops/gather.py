"""Elements picked by indices that are computed at run time: copies whose source index depends on a tensor.

No index reads outside: negative ones count from the end, others are limited (f2c_index). GatherND's batch axes are
axes that the indices share with the data.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import copy
from fuse2c.kernels.copy import Part, wrap
from fuse2c.kernels.nesting import Access
from fuse2c.op import Call, Kernel, Lookup, Op, Source, Spec
from fuse2c.ops import cast, movement
from fuse2c.ops.movement import IndexMap
from fuse2c.ops.shapes import axis_of, reshape, shape_of, whole_numbers

PORTS = ("x", "indices")


@dataclass(frozen=True, slots=True)
class Along:
    """Gather, GatherElements: the axis that the indices select from."""

    axis: int


@dataclass(frozen=True, slots=True)
class Batch:
    """GatherND: how many leading axes data and indices share."""

    axes: int


@dataclass(frozen=True, slots=True)
class Times:
    """ReverseSequence: the axis of time and the axis of the sequences."""

    time: int
    batch: int


def from_gather(src: Source) -> None:
    """Gather, GatherElements; constant indices are a Take, which needs no test at run time."""
    shape = shape_of(src)
    axis = axis_of(src, src.attrs.get("axis", 0), len(shape))
    indices = src.graph.data(src.inputs[1])
    if src.op == "GatherElements" or indices is None or src.graph.data(src.inputs[0]) is not None:
        src.node(src.op, Along(axis))
        return
    if indices.size and not (-shape[axis] <= indices.min() and indices.max() < shape[axis]):
        raise ShapeError(f"indices reach outside axis {axis} of {shape}", node=src.name, op=src.op)
    picked = tuple(map(int, wrap(indices, shape[axis]).reshape(-1)))
    maps = tuple(picked if i == axis else tuple(range(n)) for i, n in enumerate(shape))
    if indices.ndim == 1:
        src.node("Take", IndexMap(maps), src.inputs[:1])
        return
    flat = src.graph.temporary(f"{src.outputs[0]}.flat")
    src.node("Take", IndexMap(maps), src.inputs[:1], (flat,))
    reshape(src, flat, shape[:axis] + indices.shape + shape[axis + 1:], src.outputs[0])


def from_array_feature_extractor(src: Source) -> None:
    """ai.onnx.ml's ArrayFeatureExtractor: Gather along the last axis, with a flat list of indices."""
    shape = shape_of(src)
    count = src.graph.type(src.inputs[1]).count
    flat, picked = (src.graph.temporary(f"{src.outputs[0]}.{what}") for what in ("indices", "picked"))
    reshape(src, src.inputs[1], (count,), flat)
    src.node("Gather", Along(len(shape) - 1), (src.inputs[0], flat), (picked,))
    reshape(src, picked, (shape[:-1] if len(shape) > 1 else (1,)) + (count,), src.outputs[0])


def from_reverse_sequence(src: Source) -> None:
    """ReverseSequence."""
    rank = len(shape_of(src))
    src.node("ReverseSequence", Times(axis_of(src, src.attrs.get("time_axis", 0), rank),
                                      axis_of(src, src.attrs.get("batch_axis", 1), rank)))


def from_one_hot(src: Source) -> None:
    """OneHot: `depth` is a parameter; indices may be real numbers."""
    x, depth = src.inputs[0], whole_numbers(src.const(1, "depth"))[0]
    t = src.graph.type(x)
    if t.dtype.is_float:
        x = src.graph.temporary(f"{src.outputs[0]}.indices")
        cast.add(src, src.inputs[0], DType.I64, x)
    axis = axis_of(src, src.attrs.get("axis", -1), len(t.shape) + 1)
    src.node("OneHot", Depth(axis, depth), (src.inputs[2], x))


@dataclass(frozen=True, slots=True)
class Depth:
    """OneHot: the new axis and its extent."""

    axis: int
    depth: int


def infer(c: Call) -> list[TensorType]:
    """See ONNX's operators."""
    x, indices, a = c.type(0), c.type(1).shape, c.attrs
    if c.node.op == "Gather":
        shape = x.shape[:a.axis] + indices + x.shape[a.axis + 1:]
    elif c.node.op == "GatherElements":
        shape = indices
        if len(shape) != len(x.shape) or any(i > n for axis, (i, n) in enumerate(zip(shape, x.shape, strict=True))
                                             if axis != a.axis):
            raise ShapeError(f"indices of the shape {shape} for {x.shape}", node=c.node.name, op=c.node.op)
    elif c.node.op == "GatherND":
        depth = indices[-1]
        if a.axes + depth > len(x.shape) or indices[:a.axes] != x.shape[:a.axes]:
            raise ShapeError(f"indices of the shape {indices} for {x.shape}", node=c.node.name, op=c.node.op)
        shape = indices[:-1] + x.shape[a.axes + depth:]
    elif c.node.op == "OneHot":
        shape = (*indices[:a.axis], a.depth, *indices[a.axis:])
    else:
        shape = x.shape
        if indices != (x.shape[a.batch],) or a.time == a.batch:
            raise ShapeError(f"{indices} lengths for {x.shape}", node=c.node.name, op=c.node.op)
    return [replace(x, shape=tuple(shape), order=())]


def reference(c: Call, x: np.ndarray, indices: np.ndarray) -> list[np.ndarray]:
    """numpy's own, with the limits of f2c_index."""
    a, op = c.attrs, c.node.op
    if op == "Gather":
        return [np.take(x, wrap(indices, x.shape[a.axis]), a.axis)]
    if op == "GatherElements":
        own = x[tuple(slice(n if axis != a.axis else None) for axis, n in enumerate(indices.shape))]
        return [np.take_along_axis(own, wrap(indices, x.shape[a.axis]), a.axis)]
    if op == "GatherND":
        depth = indices.shape[-1]
        picked = [wrap(indices[..., k], x.shape[a.axes + k]) for k in range(depth)]
        grid = np.ix_(*(np.arange(n) for n in indices.shape[:-1])) if indices.ndim > 1 else ()
        return [np.asarray(x[tuple([*grid[:a.axes], *picked])])]
    if op == "OneHot":
        i = np.expand_dims(indices.astype(np.int64), a.axis)
        steps = np.arange(a.depth).reshape([-1 if axis == a.axis else 1 for axis in range(i.ndim)])
        return [np.where((i == steps) | (i == steps - a.depth), x[1], x[0])]
    n = x.shape[a.time]
    lengths = np.clip(indices.astype(np.int64), 0, n)
    time = np.arange(n).reshape([-1 if axis == a.time else 1 for axis in range(x.ndim)])
    length = lengths.reshape([-1 if axis == a.batch else 1 for axis in range(x.ndim)])
    return [np.take_along_axis(x, np.broadcast_to(np.where(time < length, length - 1 - time, time), x.shape), a.time)]


def spec(c: Call) -> Spec:
    """One copy; its source depends on the indices."""
    part = {"Gather": _gather, "GatherElements": _elements, "GatherND": _nd, "OneHot": _one_hot,
            "ReverseSequence": _reverse}[c.node.op](c)
    return copy.spec(c, PORTS, [part])


def _gather(c: Call) -> Part:
    x, i, axis = c.type(0), c.type(1), c.attrs.axis
    rest = (0,) * len(i.shape)
    base = Access(x.strides[:axis] + rest + x.strides[axis + 1:])
    at = Access((0,) * axis + i.strides + (0,) * (len(x.shape) - axis - 1))
    return picked(c, base, at, [(0, x.shape[axis], x.strides[axis])])


def _elements(c: Call) -> Part:
    x, i, axis = c.type(0), c.type(1), c.attrs.axis
    base = Access(tuple(0 if k == axis else s for k, s in enumerate(x.strides)))
    return picked(c, base, Access(i.strides), [(0, x.shape[axis], x.strides[axis])])


def _nd(c: Call) -> Part:
    x, i, batch = c.type(0), c.type(1), c.attrs.axes
    depth, rest = i.shape[-1], len(i.shape) - 1 - batch
    tail = x.strides[batch + depth:]
    terms = [(k * i.strides[-1], x.shape[batch + k], x.strides[batch + k]) for k in range(depth)]
    return picked(c, Access(x.strides[:batch] + (0,) * rest + tail), Access(i.strides[:-1] + (0,) * len(tail)), terms)


def picked(c: Call, base: Access, at: Access, terms: Sequence[tuple[int, int, int]]) -> Part:
    """A copy whose source adds, for each (offset into the indices, extent, stride), one index times the stride."""
    n, (own, index) = copy.walk(c.y[0], [base, at])
    lines, text = index_terms(index, terms)
    return Part(n, n.index[0], f"{{x}}[{' + '.join([own, *text])}]", lines)


def index_terms(index: str, terms: Sequence[tuple[int, int, int]]) -> tuple[tuple[str, ...], list[str]]:
    """(declarations of j0, j1, ..., terms that use them) for (offset into the indices, extent, stride) each."""
    places = [f"{index} + {offset}" if offset else index for offset, _, _ in terms]
    lines = tuple(f"const int32_t j{k} = f2c_index({{indices}}[{at}], {extent});"
                  for k, (at, (_, extent, _)) in enumerate(zip(places, terms, strict=True)))
    return lines, [f"(j{k} * {stride})" for k, (_, _, stride) in enumerate(terms)]


def _one_hot(c: Call) -> Part:
    i, a = c.type(1), c.attrs
    n, (at, step) = copy.walk(c.y[0], [Access((*i.strides[:a.axis], 0, *i.strides[a.axis:]))], [a.axis])
    return Part(n, n.index[0], f"{{x}}[((j == {step}) || (j == ({step} - {a.depth}))) ? {c.type(0).strides[0]} : 0]",
                (f"const int64_t j = (int64_t){{indices}}[{at}];",))


def _reverse(c: Call) -> Part:
    x, i, a = c.type(0), c.type(1), c.attrs
    base = Access(tuple(0 if k == a.time else s for k, s in enumerate(x.strides)))
    which = Access(tuple(i.strides[0] if k == a.batch else 0 for k in range(len(x.shape))))
    n, (own, at, time) = copy.walk(c.y[0], [base, which], [a.time])
    return Part(n, n.index[0], f"{{x}}[{own} + (j * {x.strides[a.time]})]",
                (f"const int32_t length = f2c_length({{indices}}[{at}], {x.shape[a.time]});",
                 f"const int32_t j = ({time} < length) ? (length - 1 - {time}) : {time};"))


def nest_form(c: Call) -> Lookup | str:
    """Whole slices of a table, by indices that select along its first axis."""
    return Lookup() if c.node.op == "Gather" and c.attrs.axis == 0 else f"{c.node.op} inside a loop nest"


def operator(name: str, load: dict[str, Callable[[Source], None]], moves: bool = True) -> Op:
    """One of the operators of this file."""
    return Op(name=name, onnx=load, ports=PORTS, infer=infer, reference=reference, integer=movement.integer,
              layout="strided", moves=moves, half=True, nest=nest_form, kernels=(Kernel("copy", spec),))


OPS = (
    operator("Gather", {"Gather": from_gather, "ArrayFeatureExtractor": from_array_feature_extractor}),
    operator("GatherElements", {"GatherElements": from_gather}),
    operator("GatherND", {"GatherND": lambda src: src.node("GatherND", Batch(src.attrs.get("batch_dims", 0)))}),
    operator("ReverseSequence", {"ReverseSequence": from_reverse_sequence}),
    operator("OneHot", {"OneHot": from_one_hot}, moves=False),
)
