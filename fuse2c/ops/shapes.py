"""ONNX's operators on shapes, as movements: Reshape and its relatives, Transpose, Slice, Split, Concat, Expand, Tile.

Shapes, axes and bounds are parameters: constants, or inputs that the user binds to constants.
"""
from __future__ import annotations

from math import prod

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.op import Source
from fuse2c.ops.movement import Axis, Broadcast, Permutation, Shape, Slices


def shape_of(src: Source) -> tuple[int, ...]:
    """The shape of the first input."""
    return src.graph.type(src.inputs[0]).shape


def axis_of(src: Source, value: int, rank: int) -> int:
    """An axis counted from the front. Raises ShapeError for one that is not there."""
    if not -rank <= value < max(rank, 1):
        raise ShapeError(f"axis {value} of a tensor of {rank} axes", node=src.name, op=src.op)
    return value % rank if rank else 0


def whole_numbers(value: object) -> list[int]:
    """A list parameter, given as a list or as one number."""
    return [int(n) for n in np.asarray(value).reshape(-1)]


def reshape(src: Source, x: str, shape: tuple[int, ...], y: str) -> None:
    """Add a Reshape."""
    src.node("Reshape", Shape(shape), (x,), (y,))


def from_reshape(src: Source) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze: all become Reshape."""
    shape = shape_of(src)
    new = {"Reshape": _reshaped, "Flatten": _flattened, "Squeeze": _squeezed, "Unsqueeze": _unsqueezed}[src.op]
    result = new(src, shape)
    if prod(result) != prod(shape):
        raise ShapeError(f"cannot reshape {shape} to {result}", node=src.name, op=src.op)
    src.node("Reshape", Shape(result), src.inputs[:1])


def _reshaped(src: Source, shape: tuple[int, ...]) -> tuple[int, ...]:
    wanted = whole_numbers(src.setting("shape", 1))
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
    gone = {i for i, n in enumerate(shape) if n == 1} if axes is None else \
        {axis_of(src, a, len(shape)) for a in whole_numbers(axes)}
    if any(shape[a] != 1 for a in gone):
        raise ShapeError(f"cannot squeeze axes {sorted(gone)} of {shape}", node=src.name, op=src.op)
    return tuple(n for i, n in enumerate(shape) if i not in gone)


def _unsqueezed(src: Source, shape: tuple[int, ...]) -> tuple[int, ...]:
    axes = whole_numbers(src.setting("axes", 1))
    rank = len(shape) + len(axes)
    new = {axis_of(src, a, rank) for a in axes}
    if len(new) < len(axes):
        raise ShapeError(f"an axis of {axes} is there twice", node=src.name, op=src.op)
    rest = iter(shape)
    return tuple(1 if i in new else next(rest) for i in range(rank))


def from_transpose(src: Source) -> None:
    """Transpose."""
    rank = len(shape_of(src))
    src.node("Transpose", Permutation(tuple(src.attrs.get("perm", range(rank - 1, -1, -1)))))


def from_identity(src: Source) -> None:
    """Identity, and Dropout as at inference: a reshape to the same shape, which costs nothing; nothing is dropped."""
    shape = shape_of(src)
    if src.op == "Dropout" and src.has(2) and bool(src.const(2, "training_mode")) and \
            src.setting("ratio", 1, 0.5) != 0:
        raise src.refuse("training mode", hint="export the model for inference")
    src.node("Reshape", Shape(shape), src.inputs[:1], src.outputs[:1])
    if len(src.outputs) > 1 and src.outputs[1]:
        kept = np.bool_ if src.opset >= 10 else src.graph.type(src.inputs[0]).dtype.numpy
        src.graph.constant(src.outputs[1], np.ones(shape, kept))


def from_slice(src: Source) -> None:
    """Slice."""
    shape = shape_of(src)
    starts, ends = whole_numbers(src.setting("starts", 1)), whole_numbers(src.setting("ends", 2))
    axes = whole_numbers(src.setting("axes", 3, range(len(starts))))
    steps = whole_numbers(src.setting("steps", 4, [1] * len(starts)))
    start, step, length = [0] * len(shape), [1] * len(shape), list(shape)
    for given, first, last, by in zip(axes, starts, ends, steps, strict=True):
        if by == 0:
            raise src.refuse("a step of 0", attr="steps")
        axis = axis_of(src, given, len(shape))
        picked = range(shape[axis])[slice(first, last, by)]
        start[axis], step[axis], length[axis] = (picked.start if len(picked) else 0), by, len(picked)
    src.node("Slice", Slices(tuple(start), tuple(step), tuple(length)), src.inputs[:1])


def from_split(src: Source) -> None:
    """Split: one Slice for each output."""
    shape = shape_of(src)
    axis = axis_of(src, src.attrs.get("axis", 0), len(shape))
    parts = src.setting("split", 1)
    if parts is None:
        share = -(-shape[axis] // len(src.outputs))
        parts = [max(min(share, shape[axis] - i * share), 0) for i in range(len(src.outputs))]
    sizes = whole_numbers(parts)
    if sum(sizes) != shape[axis] or min(sizes, default=0) < 0:
        raise ShapeError(f"parts of {sizes} do not make up {shape[axis]}", node=src.name, op=src.op)
    first = 0
    for name, size in zip(src.outputs, sizes, strict=True):
        start = tuple(first if i == axis else 0 for i in range(len(shape)))
        length = tuple(size if i == axis else n for i, n in enumerate(shape))
        if name:
            src.node("Slice", Slices(start, (1,) * len(shape), length), src.inputs[:1], (name,))
        first += size


def from_concat(src: Source) -> None:
    """Concat."""
    src.node("Concat", Axis(axis_of(src, src.attrs["axis"], len(shape_of(src)))))


def from_expand(src: Source) -> None:
    """Expand: broadcasting in both directions."""
    shape, wanted = shape_of(src), tuple(whole_numbers(src.const(1, "shape")))
    try:
        result = np.broadcast_shapes(shape, wanted)
    except ValueError:
        raise ShapeError(f"{shape} does not broadcast against {wanted}", node=src.name, op=src.op) from None
    src.node("Expand", Broadcast(tuple(result)), src.inputs[:1])


def from_tile(src: Source) -> None:
    """Tile: each axis becomes two, the first of which repeats."""
    shape, repeats = shape_of(src), whole_numbers(src.const(1, "repeats"))
    if len(shape) != len(repeats) or min(repeats, default=0) < 0:
        raise ShapeError(f"repeats {repeats} of the shape {shape}", node=src.name, op=src.op)
    y = src.outputs[0]
    apart, wide = (src.graph.temporary(f"{y}.{what}") for what in ("apart", "wide"))
    reshape(src, src.inputs[0], tuple(n for size in shape for n in (1, size)), apart)
    pairs = zip(repeats, shape, strict=True)
    src.node("Expand", Broadcast(tuple(n for pair in pairs for n in pair)), (apart,), (wide,))
    reshape(src, wide, tuple(r * n for r, n in zip(repeats, shape, strict=True)), y)


def from_depth_to_space(src: Source) -> None:
    """DepthToSpace: channels in blocks of b x b (or of c) become b x b pixels."""
    (n, c, h, w), b = shape_of(src), src.attrs["blocksize"]
    depth_first = src.attrs.get("mode", "DCR") == "DCR"
    apart = (n, b, b, c // (b * b), h, w) if depth_first else (n, c // (b * b), b, b, h, w)
    perm = (0, 3, 4, 1, 5, 2) if depth_first else (0, 1, 4, 2, 5, 3)
    _reordered(src, apart, perm, (n, c // (b * b), h * b, w * b))


def from_space_to_depth(src: Source) -> None:
    """SpaceToDepth: the opposite; mode CRD keeps the pixels of one channel together."""
    (n, c, h, w), b = shape_of(src), src.attrs["blocksize"]
    perm = (0, 3, 5, 1, 2, 4) if src.attrs.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    _reordered(src, (n, c, h // b, b, w // b, b), perm, (n, c * b * b, h // b, w // b))


def _reordered(src: Source, apart: tuple[int, ...], perm: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Reshape, Transpose, Reshape."""
    if prod(apart) != prod(shape_of(src)):
        raise ShapeError(f"the block size does not divide the shape {shape_of(src)}", node=src.name, op=src.op)
    split, turned = (src.graph.temporary(f"{src.outputs[0]}.{what}") for what in ("blocks", "turned"))
    reshape(src, src.inputs[0], apart, split)
    src.node("Transpose", Permutation(perm), (split,), (turned,))
    reshape(src, turned, shape, src.outputs[0])


IMPORTS = {
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), from_reshape),
    **dict.fromkeys(("Identity", "Dropout"), from_identity),
    "Transpose": from_transpose, "Slice": from_slice, "Split": from_split, "Concat": from_concat,
    "Expand": from_expand, "Tile": from_tile, "DepthToSpace": from_depth_to_space,
    "SpaceToDepth": from_space_to_depth,
}
