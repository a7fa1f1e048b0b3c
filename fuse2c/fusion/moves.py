"""Folds of what only moves elements: movements are pushed towards the end of the graph until they meet and cancel, or
reach an operator that can read through them. Exact for every type."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, inner_use, op
from fuse2c.fusion.folds import constant
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ops import all_ops
from fuse2c.ops.matmul import Attrs as Product
from fuse2c.ops.movement import Permutation, Shape


def same_elements(g: Graph, m: Match) -> Rewrite | str:
    """Reshape(x) to x's own shape, Transpose(x) that changes no axis: x."""
    n = m["move"]
    x, y = n.inputs[0], n.outputs[0]
    perm = n.attrs.perm if isinstance(n.attrs, Permutation) else ()
    if g.type(x).shape != g.type(y).shape or tuple(perm) != tuple(range(len(perm))):
        return ""
    if y in g.outputs:
        return "it is an output of the model"
    return Rewrite((n,), rename={y: x})


def move_later(g: Graph, m: Match) -> Rewrite | str:
    """f(move(x), c) = move(f(x, c')): f elementwise, the other operands constants or moved alike."""
    move, f = m["move"], m["f"]
    if why := inner_use(g, m):
        return why
    inputs, tensors = [], list[Tensor]()
    for t in f.inputs:
        found = _before(g, move, t)
        if isinstance(found, str):
            return found
        inputs.append(found[0])
        tensors += found[1]
    y = g.type(f.outputs[0])
    if y.shape != g.type(move.outputs[0]).shape:
        return "the result is of another shape"
    middle = Tensor(g.fresh(f"{f.outputs[0]}.unmoved"), replace(y, shape=g.type(move.inputs[0]).shape))
    moved = [p for t in f.inputs if (p := g.producer(t)) is not None and p.attrs == move.attrs and p.op == move.op]
    return Rewrite((*{id(p): p for p in moved}.values(), f),
                   (replace(f, inputs=tuple(inputs), outputs=(middle.name,)),
                    replace(move, inputs=(middle.name,), outputs=f.outputs)), (middle, *tensors))


def _before(g: Graph, move: Node, t: str) -> tuple[str, tuple[Tensor, ...]] | str:
    """What an operand was before the movement: (its name, a new constant if it is one), or why it has no such form."""
    if t == "" or t == move.outputs[0]:
        return (move.inputs[0] if t else t), ()
    data, p, shape = g.data(t), g.producer(t), g.type(move.inputs[0]).shape
    if data is not None and data.size == 1 and data.ndim <= len(shape):
        return t, ()
    if p is not None and p.op == move.op and p.attrs == move.attrs and g.type(p.inputs[0]).shape == shape \
            and g.only_user(t) is not None:
        return p.inputs[0], ()
    if data is not None and isinstance(move.attrs, Permutation):
        wide = data.reshape((1,) * (len(shape) - data.ndim) + data.shape)
        new = constant(g, f"{t}.unmoved", np.ascontiguousarray(np.transpose(wide, np.argsort(move.attrs.perm))))
        return new.name, (replace(new, type=replace(g.type(t), shape=new.type.shape)),)
    return f"{t} is not moved alike"


def turned_operand(g: Graph, m: Match) -> Rewrite | str:
    """MatMul(Transpose(x), y): read with the last two axes exchanged."""
    turn, product = m["turn"], m["product"]
    if why := inner_use(g, m):
        return why
    perm, attrs = turn.attrs.perm, product.attrs                                            # type: ignore[attr-defined]
    if product.quantised or len(perm) < 2 or not isinstance(attrs, Product):
        return "stored values, or no matrix"
    port = product.inputs.index(turn.outputs[0])
    if port > 1 or product.inputs.count(turn.outputs[0]) > 1:
        return "it is no factor, or both"
    left = (*perm[:-2], perm[-1], perm[-2])
    if left[-1] != len(left) - 1:
        return "the last two axes are not merely exchanged"
    name = turn.inputs[0]
    new, tensors = list[Node](), list[Tensor]()
    if left != tuple(range(len(left))):
        t = g.type(name)
        tensors.append(Tensor(g.fresh(f"{turn.outputs[0]}.kept"), replace(t, shape=tuple(t.shape[p] for p in left))))
        new.append(replace(turn, outputs=(tensors[0].name,), attrs=Permutation(left)))
        name = tensors[0].name
    changed: Any = replace(attrs, trans_a=not attrs.trans_a) if port == 0 else replace(attrs, trans_b=not attrs.trans_b)
    inputs = tuple(name if i == port else t for i, t in enumerate(product.inputs))
    return Rewrite((turn, product), (*new, replace(product, inputs=inputs, attrs=changed)), tuple(tensors))


def pixel_convolution(g: Graph, m: Match) -> Rewrite | str:
    """Conv of a map of one pixel = Reshape(MatMul(Reshape(x))): a dense layer."""
    n = m["conv"]
    x, w, y = g.type(n.inputs[0]), g.type(n.inputs[1]), g.type(n.outputs[0])
    attrs: Any = n.attrs
    if any(s != 1 for s in (*x.shape[2:], *y.shape[2:], *w.shape[2:])):
        return ""
    if n.quantised or attrs.group != 1:
        return "stored values, or groups"
    if (value := g.data(n.inputs[1])) is None:
        return "the weights are variable"
    matrix = constant(g, f"{n.name}.matrix", value.reshape(w.shape[:2]))
    flat = Tensor(g.fresh(f"{n.inputs[0]}.flat"), replace(x, shape=x.shape[:2]))
    dense = Tensor(g.fresh(f"{n.outputs[0]}.flat"), replace(y, shape=y.shape[:2]))
    return Rewrite((n,), (Node(f"{n.name}.in", "Reshape", n.inputs[:1], (flat.name,), Shape(flat.type.shape)),
                          Node(n.name, "MatMul", (flat.name, matrix.name, *n.inputs[2:]), (dense.name,),
                               Product(trans_b=True), origin=n.origin),
                          Node(f"{n.name}.out", "Reshape", (dense.name,), n.outputs, Shape(y.shape))),
                   (matrix, flat, dense))


def common_subexpression(g: Graph, m: Match) -> Rewrite | str:
    """Two operators of one kind with the same operands and attributes compute the same."""
    n = m["node"]
    first = next((t for t in n.inputs if t and g.data(t) is None), "")
    for other in g.users(first):
        if other is n:
            break
        if (other.op, other.inputs, other.quantised, len(other.outputs)) == (n.op, n.inputs, n.quantised, len(n.outputs)) \
                and other.attrs == n.attrs and all(g.type(a) == g.type(b) for a, b in zip(other.outputs, n.outputs,
                                                                                         strict=True)):
            if any(t in g.outputs for t in n.outputs):
                return "it is an output of the model"
            return Rewrite((n,), rename=dict(zip(n.outputs, other.outputs, strict=True)))
    return ""


def elementwise() -> frozenset[str]:
    """Elementwise operators, without those that change the representation."""
    return frozenset(o.name for o in all_ops().values() if o.scalar) - {"QuantizeLinear", "DequantizeLinear"}


MOVE = op("Reshape|Transpose", name="move")


def rules() -> tuple[Fold, ...]:
    """All folds of this file."""
    return (
        Fold("identity", MOVE, same_elements, "nothing is moved"),
        Fold("move-later", op(elementwise(), MOVE, name="f"), move_later, "it meets another movement, or costs nothing"),
        Fold("turned-operand", op("MatMul", op("Transpose", name="turn"), name="product"), turned_operand,
             "the product reads through the transposition"),
        Fold("pixel", op("Conv", name="conv"), pixel_convolution, "a dense layer joins what is around it"),
        Fold("common", op(frozenset(all_ops()), name="node"), common_subexpression, "computed once"),
    )


