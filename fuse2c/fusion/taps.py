"""What pruning has emptied inside a layer's weights: taps of its window, and elements of its operand, that no output reads."""
from __future__ import annotations

from dataclasses import replace
from math import gcd, prod
from typing import Any

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, op
from fuse2c.fusion.folds import weight_axis
from fuse2c.fusion.prune import cut_weights, filled
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ops.movement import IndexMap, Slices

MOVED = 16      # multiply-accumulates that take about as long as moving an element


def empty_taps(g: Graph, m: Match) -> Rewrite | str:
    """Conv(x, w) under the smallest window with all taps of w that are not zero: cropped, or with gaps between its taps."""
    n, a = m["conv"], _attrs(m["conv"])
    if g.data(n.inputs[1]) is None:
        return ""
    w, window, rank = g.tensors[n.inputs[1]], a.window, len(a.window.kernel)
    found = [_axis(filled(g, n, 2 + i), window.dilations[i], window.pads[i], window.pads[rank + i],
                   narrow=a.group > 1 and i == 1) for i in range(rank)]
    if all(taps == range(size) for taps, size in zip(found, window.kernel, strict=True)):
        return ""
    begin = (p - taps[0] * d for p, taps, d in zip(window.pads[:rank], found, window.dilations, strict=True))
    end = (p - (size - 1 - taps[-1]) * d
           for p, taps, size, d in zip(window.pads[rank:], found, window.kernel, window.dilations, strict=True))
    steps = tuple(taps.step * d if len(taps) > 1 else 1 for taps, d in zip(found, window.dilations, strict=True))
    smaller = replace(window, kernel=tuple(map(len, found)), pads=(*begin, *end), dilations=steps)
    assert w.data is not None
    value = np.ascontiguousarray(w.data[:, :, *(slice(taps.start, taps.stop, taps.step) for taps in found)])
    new = Tensor(g.fresh(f"{w.name}.taps"), replace(w.type, shape=value.shape), value)
    return Rewrite((n,), (replace(n, inputs=(n.inputs[0], new.name, *n.inputs[2:]), attrs=replace(a, window=smaller)),), (new,))


def _attrs(n: Node) -> Any:
    """A convolution's attributes."""
    return n.attrs


def _axis(there: np.ndarray, dilation: int, begin: int, end: int, narrow: bool) -> range:
    """The taps of an axis to keep, of which some are `there`: pads, of `begin` and `end` elements, shrink at most to none.

    narrow: two taps or more that are neighbours, as fast kernels of depthwise convolutions have them.
    """
    last, used = len(there) - 1, np.flatnonzero(there)
    if not len(used):
        used = np.asarray([min(begin // dilation, last)])       # one tap stays: a window has some
    first = min(int(used[0]), begin // dilation)
    stop = max(int(used[-1]), last - end // dilation)
    if narrow:
        first = max(min(first, stop - 1), 0)
        return range(first, min(max(stop, first + 1), last) + 1)
    step = gcd(*(int(t) - first for t in used), stop - first)
    return range(first, stop + 1, step or 1)


def unread_elements(g: Graph, m: Match) -> Rewrite | str:
    """layer(x, w) = layer(Take(x), w without the channels that are zero), where that saves more than the Take costs."""
    n = m["layer"]
    kind = g.type(n.inputs[0])
    if g.data(n.inputs[1]) is None or g.data(n.inputs[0]) is not None:
        return ""
    a = _attrs(n)
    if a.group > 1 if n.op == "Conv" else a.trans_a or len(g.type(n.inputs[1]).shape) != 2:
        return ""
    inner = 1 - weight_axis(n, 2)
    axis, there = (1 if n.op == "Conv" else len(kind.shape) - 1), filled(g, n, inner)
    keep = np.flatnonzero(there) if there.any() else np.arange(1)
    if len(keep) == len(there):
        return ""
    moved = kind.count // len(there) * len(keep)
    saved = g.type(n.outputs[0]).count * prod(g.type(n.inputs[1]).shape[2:]) * (len(there) - len(keep))
    if saved < MOVED * moved:
        return f"{len(there) - len(keep)} of {len(there)} channels are not read: moving the others takes longer"
    part = Tensor(g.fresh(f"{n.inputs[0]}.read"), replace(kind, shape=(*kind.shape[:axis], len(keep), *kind.shape[axis + 1:])))
    tensors = [part]
    name = cut_weights(g, n, keep, inner, tensors)
    move = Node(f"{n.name}.read", *_picked(kind.shape, axis, keep, n.inputs[0], part), origin=n.origin, quantised=n.quantised)
    return Rewrite((n,), (move, replace(n, inputs=(part.name, name, *n.inputs[2:]))), tuple(tensors))


def _picked(shape: tuple[int, ...], axis: int, keep: np.ndarray, x: str, y: Tensor,
            ) -> tuple[str, tuple[str, ...], tuple[str, ...], Slices | IndexMap]:
    """Operator, operands, results and attributes of what reads some elements along an axis."""
    if keep[-1] - keep[0] + 1 == len(keep):
        start = tuple(int(keep[0]) if i == axis else 0 for i in range(len(shape)))
        return "Slice", (x,), (y.name,), Slices(start, (1,) * len(shape), y.type.shape)
    maps = tuple(tuple(map(int, keep)) if i == axis else tuple(range(n)) for i, n in enumerate(shape))
    return "Take", (x,), (y.name,), IndexMap(maps)


TAPS = (
    Fold("empty-taps", op("Conv", name="conv"), empty_taps, "taps without weights are neither computed nor stored"),
    Fold("unread-elements", op("Conv|MatMul", name="layer"), unread_elements,
         "what is multiplied with zeros alone is not read"),
)
