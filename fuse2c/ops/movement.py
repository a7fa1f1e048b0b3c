"""Operators that only move elements: Reshape, Transpose, Slice, Concat, Pad, Expand, Take.

Each is an index map, computed here: for every axis of the output, which input element a step along it moves to. A
movement whose result lies in memory exactly as its input does is a view and has no kernel (pass `layout`). ONNX's
operators become these in shapes.py.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import TensorType
from fuse2c.kernels import copy, copy_rows, nesting
from fuse2c.kernels.copy import Part
from fuse2c.kernels.copy_rows import Source
from fuse2c.kernels.nesting import Access
from fuse2c.op import Call, Join, Kernel, Op, Regroup, Remap, Spec, port_name
from fuse2c.quant import quantise

PORTS = ("x",)


@dataclass(frozen=True, slots=True)
class Shape:
    """Reshape: the new shape."""

    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Permutation:
    """Transpose: output axis i is input axis perm[i]."""

    perm: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slices:
    """Slice: start, step and length for each axis; a step may be negative."""

    start: tuple[int, ...]
    step: tuple[int, ...]
    length: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """Concat: along which axis."""

    axis: int


@dataclass(frozen=True, slots=True)
class Pads:
    """Pad: begins then ends, one entry per axis; `value` is a real number, the stored one follows from the type."""

    pads: tuple[int, ...]
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Expand: the shape to broadcast to; axes are aligned at the last."""

    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IndexMap:
    """Take: for each axis the input index of every output index."""

    maps: tuple[tuple[int, ...], ...]


def infer(c: Call) -> list[TensorType]:
    """The shape that the attributes say; element type and scale stay."""
    x, a = c.type(0), c.attrs
    if isinstance(a, Shape | Broadcast):
        shape: tuple[int, ...] = a.shape
        fits = prod(shape) == x.count if isinstance(a, Shape) else len(x.shape) <= len(shape) and all(
            n in (1, size) for n, size in zip(reversed(x.shape), reversed(shape), strict=False))
        if not fits:
            raise ShapeError(f"cannot make the shape {list(shape)} from {list(x.shape)}", node=c.node.name,
                             op=c.node.op)
    elif isinstance(a, Permutation):
        if sorted(a.perm) != list(range(len(x.shape))):
            raise ShapeError(f"perm {a.perm} does not fit the shape {x.shape}", node=c.node.name, op="Transpose")
        shape = tuple(x.shape[p] for p in a.perm)
    elif isinstance(a, Slices):
        shape = a.length
    elif isinstance(a, Pads):
        rank = len(x.shape)
        shape = tuple(n + a.pads[i] + a.pads[rank + i] for i, n in enumerate(x.shape))
    elif isinstance(a, IndexMap):
        shape = tuple(map(len, a.maps))
    else:
        shapes = [t.shape for t in c.x if t is not None]
        shape = tuple(sum(s[i] for s in shapes) if i == a.axis else n for i, n in enumerate(shapes[0]))
        if any(s[:a.axis] + s[a.axis + 1:] != shape[:a.axis] + shape[a.axis + 1:] for s in shapes):
            raise ShapeError(f"shapes {shapes} differ beside axis {a.axis}", node=c.node.name, op="Concat")
    return [replace(x, shape=shape, order=())]


def reference(c: Call, *x: np.ndarray) -> list[np.ndarray]:
    """numpy's own."""
    a = c.attrs
    if isinstance(a, Shape):
        return [x[0].reshape(a.shape)]
    if isinstance(a, Permutation):
        return [np.transpose(x[0], a.perm)]
    if isinstance(a, Pads):
        rank = x[0].ndim
        return [np.pad(x[0], list(zip(a.pads[:rank], a.pads[rank:], strict=True)), constant_values=fill(c))]
    if isinstance(a, Slices):
        return [x[0][np.ix_(*(np.arange(n) * s + b for b, s, n in zip(a.start, a.step, a.length, strict=True)))]]
    if isinstance(a, Broadcast):
        return [np.broadcast_to(x[0], a.shape)]
    if isinstance(a, IndexMap):
        return [x[0][np.ix_(*(np.asarray(m, np.int64) for m in a.maps))]]
    return [np.concatenate(x, axis=a.axis)]


def fill(c: Call) -> int | float:
    """The stored value of a Pad's constant."""
    t, value = c.type(0), c.attrs.value
    if c.quantised:
        q = c.quant(0)
        return int(quantise(np.asarray(value, np.float32), np.asarray(q.scale[0], np.float32),
                            np.asarray(q.zero[0], np.int64), *t.dtype.range))
    return float(value) if t.dtype.is_float else int(value)


def integer(c: Call) -> str:
    """Any 8-bit tensors, as long as all share one scale."""
    types = [t for t in (*c.x, c.y[0]) if t is not None]
    if not all(t.dtype == types[0].dtype and t.dtype.is_quantised and t.quant == types[0].quant for t in types):
        return "the scale changes"
    return "" if types[0].quant and types[0].quant.per_tensor else "the scale is not per tensor"


def spec(c: Call) -> Spec:
    """One nest for each input; Pad fills first."""
    return copy.spec(c, PORTS, [_part(c, port) for port in range(len(c.x))], _filling(c), _maps(c))


def rows_spec(c: Call) -> Spec:
    """The same, row by row."""
    axis = copy_rows.axis_of(c)
    assert axis is not None
    found = [s for port in range(len(c.x)) if (s := _source(c, port, axis)).rows]
    return copy_rows.spec(c, PORTS, found, _filling(c), _maps(c))


def rows_when(c: Call) -> str:
    """Tensors whose outermost axis in memory is the same, or of which the others are read or written with steps."""
    axis = copy_rows.axis_of(c)
    if isinstance(c.attrs, Pads) and axis is not None and not copy_rows.in_rows(c.y[0], axis):
        return "a padded row is filled as one piece of memory"
    return "" if axis is not None else "not all tensors lie in rows along the same axis"


def _maps(c: Call) -> dict[str, np.ndarray]:
    maps = c.attrs.maps if isinstance(c.attrs, IndexMap) else ()
    return {f"map{i}": copy.smallest(np.asarray(m, np.int64)) for i, m in enumerate(maps) if not _linear(m)}


def _filling(c: Call) -> str | None:
    """What all of the output is set to first, as C text."""
    if not isinstance(c.attrs, Pads):
        return None
    return str(fill(c)) if c.quantised else copy.element(fill(c), c.y[0].dtype)


def _source(c: Call, port: int, axis: int) -> Source:
    """What an input contributes to which rows along `axis`."""
    x, y, a = c.type(port), c.y[0], c.attrs
    strides = tuple(0 if i == axis else s for i, s in enumerate(x.strides))
    count = x.shape[axis]
    if isinstance(a, IndexMap):
        through = tuple(i for i, m in enumerate(a.maps) if i != axis and not _linear(m))
        access = Access(tuple(0 if i in through else s for i, s in enumerate(strides)))
        row = "oy" if _linear(a.maps[axis]) else f"{{map{axis}}}[oy]"
        return Source(port, access, 0, y.shape, 0, a.maps[axis], row, through)
    if isinstance(a, Slices):
        offset = sum(b * s for b, s in zip(a.start, strides, strict=True))
        access = Access(tuple(s * k for s, k in zip(strides, a.step, strict=True)), offset)
        rows = tuple(a.start[axis] + i * a.step[axis] for i in range(a.length[axis]))
        return Source(port, access, 0, y.shape, 0, rows, f"((oy * {a.step[axis]}) + {a.start[axis]})")
    if isinstance(a, Pads):
        first, begins = a.pads[axis], a.pads[:len(x.shape)]
        start = sum(p * s for i, (p, s) in enumerate(zip(begins, y.strides, strict=True)) if i != axis)
        return Source(port, Access(strides), start, x.shape, first, tuple(range(count)), f"(oy - {first})")
    before = sum(c.type(i).shape[a.axis] for i in range(port))
    if a.axis == axis:
        return Source(port, Access(strides), 0, x.shape, before, tuple(range(count)), f"(oy - {before})")
    return Source(port, Access(strides), before * y.strides[a.axis], x.shape, 0, tuple(range(count)), "oy")


def _linear(m: tuple[int, ...]) -> bool:
    return m == tuple(range(len(m)))


def _part(c: Call, port: int) -> Part:
    x, y, a = c.type(port), c.y[0], c.attrs
    name, strides = port_name(PORTS, port), x.strides
    if isinstance(a, IndexMap):
        return _mapped(c)
    if isinstance(a, Permutation):
        source = Access(tuple(strides[p] for p in a.perm))
    elif isinstance(a, Slices):
        offset = sum(b * s for b, s in zip(a.start, strides, strict=True))
        source = Access(tuple(s * k for s, k in zip(strides, a.step, strict=True)), offset)
    elif isinstance(a, Broadcast):
        source = nesting.broadcast(x, len(y.shape))
    elif isinstance(a, Shape):
        return _reordered(c)
    else:
        source = Access(strides)
    inner = replace(y, shape=x.shape if isinstance(a, Axis | Pads) else y.shape)
    n = nesting.nest(inner, [Access(y.strides, _offset(c, port)), source])
    return Part(n, n.index[1], f"{{{name}}}[{n.index[2]}]")


def _reordered(c: Call) -> Part:
    """A Reshape that is no view: x is read in logical order, y lies in that order."""
    x = c.type(0)
    n = nesting.nest(replace(x, order=()), [Access(x.strides)])
    return Part(n, n.index[0], f"{{x}}[{n.index[1]}]")


def _offset(c: Call, port: int) -> int:
    """Where the input's first element lands in y."""
    a, strides = c.attrs, c.y[0].strides
    if isinstance(a, Pads):
        return sum(p * s for p, s in zip(a.pads, strides, strict=False))
    if isinstance(a, Axis):
        return strides[a.axis] * sum(c.type(i).shape[a.axis] for i in range(port))
    return 0


def _mapped(c: Call) -> Part:
    """Take: some axes go through a table of input indices."""
    x, y, maps = c.type(0), c.y[0], c.attrs.maps
    through = [axis for axis, m in enumerate(maps) if not _linear(m)]
    straight = Access(tuple(0 if axis in through else s for axis, s in enumerate(x.strides)))
    n, (base, *at) = copy.walk(y, [straight], through)
    terms = [f"({{map{axis}}}[{var}] * {x.strides[axis]})" for axis, var in zip(through, at, strict=True)]
    return Part(n, n.index[0], f"{{x}}[{' + '.join([base, *terms])}]")


def nest_form(c: Call) -> Remap | Join | Regroup | str:
    """Elements are read where they lie, or where the map says."""
    a = c.attrs
    if isinstance(a, Shape):
        return Regroup()
    if isinstance(a, Slices):
        return Remap(tuple(range(s, s + d * n, d) for s, d, n in zip(a.start, a.step, a.length, strict=True)))
    if isinstance(a, Axis):
        return Join(a.axis)
    if isinstance(a, Broadcast) and len(a.shape) == len(c.type(0).shape):
        sizes = zip(a.shape, c.type(0).shape, strict=True)
        return Remap(tuple((0,) * n if size == 1 else tuple(range(n)) for n, size in sizes))
    return Remap(a.maps) if isinstance(a, IndexMap) else f"{c.node.op} inside a loop nest"


def operator(name: str, layout: str, *first: Kernel) -> Op:
    """One of the operators of this file."""
    return Op(name=name, ports=PORTS, infer=infer, reference=reference, integer=integer, layout=layout, moves=True,
              nest=nest_form, half=True, kernels=(*first, Kernel("copy", spec)))


IN_ROWS = Kernel("copy_rows", rows_spec, when=rows_when)
OPS = (operator("Reshape", "view"), operator("Transpose", "view"), operator("Slice", "strided", IN_ROWS),
       operator("Concat", "strided", IN_ROWS), operator("Pad", "strided", IN_ROWS), operator("Expand", "strided"),
       operator("Take", "strided", IN_ROWS))
