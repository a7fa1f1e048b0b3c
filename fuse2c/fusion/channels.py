"""Folds along the channels of convolutions and products: slices, shuffles and sums of them move into the weights."""
from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, inner_use, op
from fuse2c.fusion.folds import constant, no_channels, weight_axis
from fuse2c.fusion.joins import branch_to
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.op import Remap, bind
from fuse2c.ops import all_ops
from fuse2c.ops.movement import IndexMap, Slices


def picked(g: Graph, anchor: Node, channels: np.ndarray, y: str) -> tuple[Node, tuple[Tensor, ...]]:
    """The anchor with some of its output channels only, or with all of them in another order; it writes `y`."""
    w, t = g.data(anchor.inputs[1]), g.type(anchor.inputs[1])
    assert w is not None
    new = [constant(g, f"{y}.w", np.ascontiguousarray(np.take(w, channels, axis=weight_axis(anchor, w.ndim))))]
    new[0] = replace(new[0], type=replace(new[0].type, dtype=t.dtype))
    inputs = [anchor.inputs[0], new[0].name]
    if len(anchor.inputs) > 2 and anchor.inputs[2]:
        b = g.data(anchor.inputs[2])
        assert b is not None
        new.append(constant(g, f"{y}.b", b[channels]))
        inputs.append(new[-1].name)
    return replace(anchor, inputs=tuple(inputs), outputs=(y,)), tuple(new)


def constant_weights(g: Graph, anchor: Node) -> str:
    """Whether the output channels of an anchor are rows of constants."""
    if why := no_channels(g, anchor):
        return why
    if any(g.data(t) is None for t in anchor.inputs[1:] if t):
        return "the weights or the bias are variable"
    if anchor.op == "Conv" and anchor.attrs.group > 1:                                      # type: ignore[attr-defined]
        return "the channels are in groups"
    return "" if len(g.type(anchor.inputs[1]).shape) == (4 if anchor.op == "Conv" else 2) else "the weights are no matrix"


def sliced_product(g: Graph, m: Match) -> Rewrite | str:
    """Slice(MatMul(x, w)) along the columns = MatMul(x, some columns of w), where only slices read the product."""
    product, cut = m["product"], m["slice"]
    if why := constant_weights(g, product):
        return why
    if product.op == "Conv" and prod(g.type(product.inputs[1]).shape[2:]) > 1:
        return "each slice would gather its windows again"
    axis = len(g.type(product.outputs[0]).shape) - 1 if product.op == "MatMul" else 1
    users = g.users(product.outputs[0])
    if product.outputs[0] in g.outputs or any(not isinstance(u.attrs, Slices) for u in users):
        return "not only slices read it"
    taken: list[int] = []
    for u in users:
        found = _channels(g, u, axis)
        if found is None:
            return "a slice along another axis"
        taken += found.tolist()
    if len(set(taken)) < len(taken):
        return "the slices overlap"
    own = _channels(g, cut, axis)
    assert own is not None
    node, tensors = picked(g, product, own, cut.outputs[0])
    name = f"{product.name}.{int(own[0])}"
    old = (product, cut) if len(users) == 1 else (cut,)
    return Rewrite(old, (replace(node, name=name, origin=product.origin + cut.origin),), tensors)


def _channels(g: Graph, cut: Node, axis: int) -> np.ndarray | None:
    """The channels that a Slice takes, if it takes all of everything else."""
    a: Any = cut.attrs
    shape = g.type(cut.inputs[0]).shape
    whole = all(a.start[i] == 0 and a.step[i] == 1 and a.length[i] == n for i, n in enumerate(shape) if i != axis)
    return a.start[axis] + a.step[axis] * np.arange(a.length[axis]) if whole and a.length[axis] else None


def index_map(g: Graph, m: Match) -> Rewrite | str:
    """Reshape(f(Reshape(x))), f a transposition or a broadcast, that moves along each axis for itself = Take(x, maps)."""
    first, move, last = m["first"], m["move"], m["last"]
    if why := inner_use(g, m):
        return why
    x, y = g.type(first.inputs[0]), g.type(last.outputs[0])
    if len(x.shape) < 3 or len(x.shape) != len(y.shape) or not y.count:
        return "the result has other axes"
    index = np.arange(x.count).reshape(g.type(first.outputs[0]).shape)
    moved = all_ops()[move.op].reference(bind(g, move), index)[0].reshape(y.shape)
    corner = np.unravel_index(moved, x.shape)       # the index along each axis of x, for every element of y
    maps = tuple(c[tuple(slice(None) if i == axis else 0 for i in range(c.ndim))] for axis, c in enumerate(corner))
    if not np.array_equal(moved, np.arange(x.count).reshape(x.shape)[np.ix_(*maps)]):
        return "it moves along several axes at once"
    if x.shape == y.shape and all(np.array_equal(along, np.arange(n)) for along, n in zip(maps, x.shape, strict=True)):
        return "it moves nothing"
    found = IndexMap(tuple(tuple(map(int, along)) for along in maps))
    return Rewrite((first, move, last), (Node(last.name, "Take", first.inputs, last.outputs, found,
                                              origin=first.origin + move.origin + last.origin, quantised=last.quantised),))


def merge_maps(g: Graph, m: Match) -> Rewrite | str:
    """Take(Take(x, p), q) = Take(x, p[q]), along each axis; a Slice or an Expand is such a map, too."""
    first, second = m["first"], m["second"]
    if why := inner_use(g, m):
        return why
    if "Take" not in (first.op, second.op):
        return "both move in steps, without a table"
    forms = [all_ops()[n.op].nest(bind(g, n)) for n in (first, second)]
    if not all(isinstance(f, Remap) for f in forms):
        return "it adds axes"
    inner, outer = (f.maps for f in forms if isinstance(f, Remap))
    found = IndexMap(tuple(tuple(p[i] for i in q) for p, q in zip(inner, outer, strict=True)))
    return Rewrite((first, second), (Node(second.name, "Take", first.inputs, second.outputs, found,
                                          origin=first.origin + second.origin, quantised=second.quantised),))


def shuffled_anchor(g: Graph, m: Match) -> Rewrite | str:
    """Take(f(Conv(x, w)), channels) = f(Conv(x, w[channels])): f elementwise, of one operand."""
    take = m["take"]
    maps = take.attrs.maps                                                                  # type: ignore[attr-defined]
    if any(tuple(p) != tuple(range(n)) for i, (p, n) in enumerate(zip(maps, g.type(take.inputs[0]).shape, strict=True))
           if i != 1):
        return "it moves more than channels"
    chain = branch_to(g, take.inputs[0])
    if isinstance(chain, str):
        return chain
    if why := constant_weights(g, chain[0]):
        return why
    conv, tensors = picked(g, chain[0], np.asarray(maps[1]), chain[0].outputs[0] if len(chain) > 1 else take.outputs[0])
    rest = list(chain[1:])
    if rest:
        rest[-1] = replace(rest[-1], outputs=take.outputs, origin=rest[-1].origin + take.origin)
    return Rewrite((*chain, take), (conv, *rest), tensors)


def sum_of_convolutions(g: Graph, m: Match) -> Rewrite | str:
    """Conv(x, v) + Conv(x, w) = Conv(x, v + w), the smaller window in the middle of the larger."""
    add = m["add"]
    a, b = (g.producer(t) for t in add.inputs)
    if a is None or b is None or a is b or {a.op, b.op} != {"Conv"} or a.inputs[0] != b.inputs[0]:
        return "not the sum of two convolutions of one tensor"
    if any(g.only_user(n.outputs[0]) is None or constant_weights(g, n) for n in (a, b)):
        return "a convolution is also read elsewhere, or its weights are variable"
    if len(g.type(a.inputs[1]).shape) != 4 or not g.type(a.outputs[0]).dtype.is_float:
        return "not floats in two dimensions"
    large, small = sorted((a, b), key=lambda n: -prod(g.type(n.inputs[1]).shape[2:]))
    v, w = g.data(large.inputs[1]), g.data(small.inputs[1])
    assert v is not None and w is not None
    big: Any = large.attrs
    little: Any = small.attrs
    shift = [p - q for p, q in zip(big.window.pads[:2], little.window.pads[:2], strict=True)]
    room = [n - k - s for n, k, s in zip(v.shape[2:], w.shape[2:], shift, strict=True)]
    if big.window.strides != little.window.strides or max(*big.window.dilations, *little.window.dilations) > 1 \
            or min(*shift, *room) < 0:
        return "the windows do not lie in each other"
    wide = np.pad(w, ((0, 0), (0, 0), *((s, r) for s, r in zip(shift, room, strict=True))))
    tensors = [constant(g, f"{add.name}.w", (v.astype(np.float64) + wide).astype(v.dtype))]
    biases = [g.data(n.inputs[2]) for n in (a, b) if len(n.inputs) > 2 and n.inputs[2]]
    inputs: tuple[str, ...] = (large.inputs[0], tensors[0].name)
    if biases:
        total = np.sum([x.astype(np.float64) for x in biases if x is not None], axis=0).astype(v.dtype)
        tensors.append(constant(g, f"{add.name}.b", total))
        inputs += (tensors[1].name,)
    return Rewrite((a, b, add), (replace(large, inputs=inputs, outputs=add.outputs, origin=a.origin + b.origin + add.origin),),
                   tuple(tensors))


CHANNELS = (
    Fold("index-map", op("Reshape", op("Transpose|Expand", op("Reshape", name="first"), name="move"), name="last"), index_map,
         "elements are picked where they lie: no tensor is turned or repeated"),
    Fold("merge-maps", op("Take|Slice|Expand", op("Take|Slice|Expand", name="first"), name="second"), merge_maps,
         "elements are picked once"),
    Fold("shuffled-anchor", op("Take", name="take"), shuffled_anchor, "the weights are in the other order instead"),
    Fold("sliced-product", op("Slice", op("MatMul|Conv", name="product"), name="slice"), sliced_product,
         "each part is a product of its own, which fuses with what reads it"),
    Fold("sum-of-convolutions", op("Add", name="add"), sum_of_convolutions, "one convolution instead of two and a sum"),
)
