"""Operators that only move elements: Reshape and its relatives, Transpose, Slice, Concat, Pad, Resize, Identity.

Each is an index map, computed here: for every axis of the output, which input element a step along it moves to. A
movement whose result lies in memory exactly as its input does is a view and has no kernel (pass `layout`).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import TensorType
from fuse2c.ops import _nest
from fuse2c.ops._nest import Access
from fuse2c.ops.base import Call, Kernel, Op, Source, Spec
from fuse2c.quant import quantise


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
class IndexMap:
    """Resize: for each axis the input index of every output index."""

    maps: tuple[tuple[int, ...], ...]


def from_reshape(src: Source) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze: all become Reshape."""
    shape = src.graph.type(src.inputs[0]).shape
    new = {"Reshape": _reshaped, "Flatten": _flattened, "Squeeze": _squeezed, "Unsqueeze": _unsqueezed}[src.op]
    result = new(src, shape)
    if prod(result) != prod(shape):
        raise ShapeError(f"cannot reshape {shape} to {result}", node=src.name, op=src.op)
    src.node("Reshape", Shape(result), src.inputs[:1])


def _reshaped(src: Source, shape: tuple[int, ...]) -> tuple[int, ...]:
    wanted = [int(n) for n in np.asarray(src.setting("shape", 1)).reshape(-1)]
    if not src.attrs.get("allowzero", 0):
        wanted = [shape[i] if n == 0 and i < len(shape) else n for i, n in enumerate(wanted)]
    known = prod(n for n in wanted if n != -1)
    return tuple(prod(shape) // max(known, 1) if n == -1 else n for n in wanted)


def _flattened(src: Source, shape: tuple[int, ...]) -> tuple[int, ...]:
    axis = src.attrs.get("axis", 1)
    axis += len(shape) if axis < 0 else 0
    return (prod(shape[:axis]), prod(shape[axis:]))


def _squeezed(src: Source, shape: tuple[int, ...]) -> tuple[int, ...]:
    axes = src.setting("axes", 1)
    gone = {a % len(shape) for a in axes} if axes is not None else {i for i, n in enumerate(shape) if n == 1}
    if any(shape[a] != 1 for a in gone):
        raise ShapeError(f"cannot squeeze axes {sorted(gone)} of {shape}", node=src.name, op=src.op)
    return tuple(n for i, n in enumerate(shape) if i not in gone)


def _unsqueezed(src: Source, shape: tuple[int, ...]) -> tuple[int, ...]:
    axes = src.setting("axes", 1)
    rank = len(shape) + len(axes)
    new = {a % rank for a in axes}
    rest = iter(shape)
    return tuple(1 if i in new else next(rest) for i in range(rank))


def from_transpose(src: Source) -> None:
    """Transpose."""
    rank = len(src.graph.type(src.inputs[0]).shape)
    src.node("Transpose", Permutation(tuple(src.attrs.get("perm", range(rank - 1, -1, -1)))))


def from_identity(src: Source) -> None:
    """Identity and Dropout (inference): a reshape to the same shape, which costs nothing."""
    if len(src.outputs) > 1 and src.outputs[1]:
        raise src.refuse("the mask output")
    src.node("Reshape", Shape(src.graph.type(src.inputs[0]).shape), src.inputs[:1], src.outputs[:1])


def from_slice(src: Source) -> None:
    """Slice."""
    shape = src.graph.type(src.inputs[0]).shape
    starts, ends = src.setting("starts", 1), src.setting("ends", 2)
    axes = src.setting("axes", 3) or range(len(starts))
    steps = src.setting("steps", 4) or [1] * len(starts)
    start, step, length = [0] * len(shape), [1] * len(shape), list(shape)
    for axis, first, last, by in zip(axes, starts, ends, steps, strict=True):
        if by == 0:
            raise src.refuse("a step of 0", attr="steps")
        picked = range(shape[axis])[slice(first, last, by)]
        start[axis], step[axis], length[axis] = (picked.start if len(picked) else 0), by, len(picked)
    src.node("Slice", Slices(tuple(start), tuple(step), tuple(length)), src.inputs[:1])


def from_split(src: Source) -> None:
    """Split: one Slice for each output."""
    shape = src.graph.type(src.inputs[0]).shape
    axis = src.attrs.get("axis", 0) % len(shape)
    parts = src.setting("split", 1)
    if parts is None:
        share = -(-shape[axis] // len(src.outputs))
        parts = [min(share, shape[axis] - i * share) for i in range(len(src.outputs))]
    first = 0
    for name, size in zip(src.outputs, parts, strict=True):
        start = tuple(first if i == axis else 0 for i in range(len(shape)))
        length = tuple(size if i == axis else n for i, n in enumerate(shape))
        src.node("Slice", Slices(start, (1,) * len(shape), length), src.inputs[:1], (name,))
        first += size


def from_concat(src: Source) -> None:
    """Concat."""
    rank = len(src.graph.type(src.inputs[0]).shape)
    src.node("Concat", Axis(src.attrs["axis"] % rank))


def from_pad(src: Source) -> None:
    """Pad with a constant; negative pads become a Slice."""
    if src.attrs.get("mode", "constant") != "constant":
        raise src.refuse(f"mode {src.attrs['mode']!r}", attr="mode", hint="constant padding is supported")
    shape = src.graph.type(src.inputs[0]).shape
    pads = [int(n) for n in src.setting("pads", 1)]
    value = float(np.asarray(src.setting("value", 2, 0.0)).reshape(-1)[0])
    axes = [int(a) % len(shape) for a in (src.setting("axes", 3) or range(len(shape)))]
    full = [0] * (2 * len(shape))
    for i, axis in enumerate(axes):
        full[axis], full[len(shape) + axis] = pads[i], pads[len(axes) + i]
    if min(full, default=0) < 0:
        raise src.refuse("negative pads", attr="pads", hint="crop with Slice instead")
    src.node("Pad", Pads(tuple(full), value), src.inputs[:1])


def from_resize(src: Source) -> None:
    """Resize and Upsample, nearest neighbour."""
    if src.attrs.get("mode", "nearest") != "nearest":
        raise src.refuse(f"mode {src.attrs['mode']!r}", attr="mode", hint="nearest is supported")
    shape = src.graph.type(src.inputs[0]).shape
    upsample = src.op == "Upsample" or src.opset < 11
    scales = src.setting("scales", 1 if upsample else 2)
    sizes = None if upsample else src.setting("sizes", 3)
    if scales is None or not len(scales):
        scales = [o / n for o, n in zip(sizes, shape, strict=True)]
    out = tuple(map(int, sizes)) if sizes is not None else tuple(int(np.floor(n * s))
                                                               for n, s in zip(shape, scales, strict=True))
    mode = src.attrs.get("coordinate_transformation_mode", "asymmetric" if upsample else "half_pixel")
    rounding = src.attrs.get("nearest_mode", "floor" if upsample else "round_prefer_floor")
    maps = tuple(_nearest(src, n, o, s, mode, rounding) for n, o, s in zip(shape, out, scales, strict=True))
    src.node("Resize", IndexMap(maps), src.inputs[:1])


def _nearest(src: Source, size: int, out: int, scale: float, mode: str, rounding: str) -> tuple[int, ...]:
    """Input index of each output index along one axis (ONNX's Resize)."""
    i = np.arange(out, dtype=np.float64)
    positions = {"asymmetric": i / scale, "half_pixel": (i + 0.5) / scale - 0.5,
                 "pytorch_half_pixel": (i + 0.5) / scale - 0.5 if out > 1 else i * 0.0,
                 "align_corners": i * (size - 1) / max(out - 1, 1)}
    if mode not in positions:
        raise src.refuse(f"coordinate_transformation_mode {mode!r}", attr="coordinate_transformation_mode")
    x = positions[mode]
    rounded = {"floor": np.floor(x), "ceil": np.ceil(x), "round_prefer_floor": np.ceil(x - 0.5),
               "round_prefer_ceil": np.floor(x + 0.5)}
    if rounding not in rounded:
        raise src.refuse(f"nearest_mode {rounding!r}", attr="nearest_mode")
    return tuple(int(n) for n in np.clip(rounded[rounding], 0, size - 1))


def infer(c: Call) -> list[TensorType]:
    """The shape that the attributes say; element type and scale stay."""
    x, a = c.type(0), c.attrs
    if isinstance(a, Shape):
        shape: tuple[int, ...] = a.shape
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
    if isinstance(a, IndexMap):
        return [x[0][np.ix_(*map(list, a.maps))]]
    return [np.concatenate(x, axis=a.axis)]


def fill(c: Call) -> int | float:
    """The stored value of a Pad's constant."""
    t, value = c.type(0), c.attrs.value
    if c.quantised:
        q = c.quant(0)
        return int(quantise(np.float32(value), np.float32(q.scale[0]), np.int64(q.zero[0]), *t.dtype.range))
    return float(value) if t.dtype.is_float else int(value)


def integer(c: Call) -> str:
    """Any 8-bit tensors, as long as all share one scale."""
    types = [t for t in (*c.x, c.y[0]) if t is not None]
    if not all(t.dtype == types[0].dtype and t.dtype.is_quantised and t.quant == types[0].quant for t in types):
        return "the scale changes"
    return "" if types[0].quant and types[0].quant.per_tensor else "the scale is not per tensor"


@dataclass(frozen=True, slots=True)
class Part:
    """One loop nest of a copy: y[to] = x[port][source]."""

    port: int
    nest: _nest.Nest
    to: str
    source: str
    value: str = ""     # the element read, as C text, filled in by the code generator


def spec(c: Call) -> Spec:
    """One nest for each input; Pad fills first."""
    a, y = c.attrs, c.y[0]
    parts = [_part(c, port) for port in range(len(c.x))]
    flags: dict[str, object] = {"parts": parts, "fill": None}
    tables = {}
    if isinstance(a, Pads):
        flags |= {"fill": fill(c), "count": y.count}
    if isinstance(a, IndexMap):
        tables = {f"map{i}": np.asarray(m, np.int16 if max(m) < 2 ** 15 else np.int32)
                  for i, m in enumerate(a.maps) if not _linear(m)}
    return Spec(tables=tables, by_rows=False, flags=flags)


def _linear(m: tuple[int, ...]) -> bool:
    return m == tuple(range(len(m)))


def _part(c: Call, port: int) -> Part:
    x, y, a = c.type(port), c.y[0], c.attrs
    strides = x.strides
    if isinstance(a, IndexMap):
        return _mapped(c)
    if isinstance(a, Permutation):
        source = Access(tuple(strides[p] for p in a.perm))
    elif isinstance(a, Slices):
        offset = sum(b * s for b, s in zip(a.start, strides, strict=True))
        source = Access(tuple(s * k for s, k in zip(strides, a.step, strict=True)), offset)
    elif isinstance(a, Shape):
        # Not a view: read x in logical order, write y in memory order of the same element sequence.
        own = replace(x, order=())
        n = _nest.nest(own, [Access(strides)], rows=False)
        return Part(port, n, n.index[0], n.index[1])
    else:
        source = Access(strides)
    inner = replace(y, shape=x.shape if isinstance(a, Axis | Pads) else y.shape)
    n = _nest.nest(inner, [Access(y.strides, _offset(c, port)), source], rows=False)
    return Part(port, n, n.index[1], n.index[2])


def _offset(c: Call, port: int) -> int:
    """Where the input's first element lands in y."""
    a, strides = c.attrs, c.y[0].strides
    if isinstance(a, Pads):
        return sum(p * s for p, s in zip(a.pads, strides, strict=False))
    if isinstance(a, Axis):
        return strides[a.axis] * sum(c.type(i).shape[a.axis] for i in range(port))
    return 0


def _mapped(c: Call) -> Part:
    """Resize: some axes go through a table of input indices."""
    x, y, maps = c.type(0), c.y[0], c.attrs.maps
    straight = Access(tuple(s if _linear(m) else 0 for s, m in zip(x.strides, maps, strict=True)))
    # A distinct stride for each mapped axis keeps it from being merged with its neighbours.
    markers = [Access(tuple(int(i == axis) for i in range(len(maps)))) for axis in range(len(maps))
               if not _linear(maps[axis])]
    n = _nest.nest(y, [straight, *markers], rows=False)
    terms = [f"({{t_map{axis}}}[{var}] * {x.strides[axis]})"
             for axis, var in zip((i for i, m in enumerate(maps) if not _linear(m)), n.index[2:], strict=True)
             if var != "0"]
    return Part(0, n, n.index[0], " + ".join([n.index[1], *terms]))


def operator(name: str, layout: str, onnx: dict[str, Callable[[Source], None]]) -> Op:
    """One of the operators of this file."""
    return Op(name=name, onnx=onnx, ports=("x",), infer=infer, reference=reference, integer=integer,
              layout=layout, moves=True, half=True, kernels=(Kernel("copy", spec),))


OPS = (
    operator("Reshape", "view", {"Reshape": from_reshape, "Flatten": from_reshape, "Squeeze": from_reshape,
                                 "Unsqueeze": from_reshape, "Identity": from_identity, "Dropout": from_identity}),
    operator("Transpose", "view", {"Transpose": from_transpose}),
    operator("Slice", "strided", {"Slice": from_slice, "Split": from_split}),
    operator("Concat", "strided", {"Concat": from_concat}),
    operator("Pad", "strided", {"Pad": from_pad}),
    operator("Resize", "strided", {"Resize": from_resize, "Upsample": from_resize}),
)
