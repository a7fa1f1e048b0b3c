"""Pad in all modes: negative pads are a Slice, a constant border a Pad, mirrored and repeated borders a Take."""
from __future__ import annotations

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.op import Source
from fuse2c.ops.movement import IndexMap, Pads, Slices
from fuse2c.ops.shapes import axis_of, reshape, shape_of, whole_numbers

MODES = ("constant", "reflect", "edge", "wrap")


def from_pad(src: Source) -> None:
    """Pad; opsets below 11 give pads and value as attributes."""
    mode = src.attrs.get("mode", "constant")
    if mode not in MODES:
        raise src.refuse(f"mode {mode!r}", attr="mode", hint=f"one of {', '.join(MODES)}")
    shape, (begin, end) = shape_of(src), _pads(src)
    cropped = _cropped(src, shape, begin, end)
    left = [n + min(b, 0) + min(e, 0) for n, b, e in zip(shape, begin, end, strict=True)]
    begin, end = [max(b, 0) for b in begin], [max(e, 0) for e in end]
    if not any(begin + end):
        reshape(src, cropped, tuple(left), src.outputs[0])
    elif mode == "constant":
        value = np.asarray(src.setting("value", 2, 0)).reshape(-1)[0]
        src.node("Pad", Pads((*begin, *end), value.item()), (cropped,))
    else:
        maps = [np.pad(np.arange(n), pair, mode=mode) if any(pair) else np.arange(n)
                for n, *pair in zip(left, begin, end, strict=True)]
        src.node("Take", IndexMap(tuple(tuple(map(int, m)) for m in maps)), (cropped,))


def _pads(src: Source) -> tuple[list[int], list[int]]:
    """Pads before and behind each axis."""
    rank, pads = len(shape_of(src)), whole_numbers(src.setting("pads", 1))
    axes = [axis_of(src, a, rank) for a in whole_numbers(src.setting("axes", 3, range(rank)))]
    if len(pads) != 2 * len(axes):
        raise ShapeError(f"{len(pads)} pads for {len(axes)} axes", node=src.name, op=src.op)
    begin, end = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        begin[axis], end[axis] = pads[i], pads[len(axes) + i]
    return begin, end


def _cropped(src: Source, shape: tuple[int, ...], begin: list[int], end: list[int]) -> str:
    """What negative pads leave of the input."""
    first = [-min(b, 0) for b in begin]
    length = [n - f + min(e, 0) for n, f, e in zip(shape, first, end, strict=True)]
    if min(length, default=0) < 0:
        raise ShapeError(f"pads {begin}, {end} cut off more than the shape {shape} has", node=src.name, op=src.op)
    if tuple(length) == shape:
        return src.inputs[0]
    name = src.graph.temporary(f"{src.outputs[0]}.cropped")
    src.node("Slice", Slices(tuple(first), (1,) * len(shape), tuple(length)), src.inputs[:1], (name,))
    return name


IMPORTS = {"Pad": from_pad}
