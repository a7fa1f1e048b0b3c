"""Horizontal folds: operators side by side become one with joined weights."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, op
from fuse2c.fusion.folds import constant
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import Quant
from fuse2c.ops import all_ops


def side_by_side(g: Graph, m: Match) -> Rewrite | str:
    """Concat(f(Conv(x, v)), f(Conv(x, w)), ...) = f(Conv(x, [v; w; ...])), along the channels."""
    concat = m["concat"]
    if concat.attrs.axis != 1:                                                              # type: ignore[attr-defined]
        return "it joins along another axis"
    branches = []
    for t in concat.inputs:
        branch = branch_to(g, t)
        if isinstance(branch, str):
            return branch
        branches.append(branch)
    first = branches[0]
    if why := next((why for b in branches[1:] if (why := _differs(g, first, b))), ""):
        return why
    convs = [b[0] for b in branches]
    joined = _weights(g, convs)
    if isinstance(joined, str):
        return joined
    tensors, inputs = joined
    new, last = list[Node](), ""
    for position, n in enumerate(first):
        final = position == len(first) - 1
        kind = replace(g.type(n.outputs[0]), shape=g.type(concat.outputs[0]).shape)
        y = concat.outputs[0] if final else g.fresh(f"{n.outputs[0]}.joined")
        origin = tuple(o for b in branches for o in b[position].origin) + (concat.origin if final else ())
        new.append(replace(n, inputs=inputs if position == 0 else (last, *n.inputs[1:]), outputs=(y,), origin=origin))
        if not final:
            tensors.append(Tensor(y, kind))
        last = y
    return Rewrite((*(n for b in branches for n in b), concat), tuple(new), tuple(tensors))


def branch_to(g: Graph, t: str) -> tuple[Node, ...] | str:
    """The convolution behind a tensor and the operators of one operand between, all of them read once."""
    found: list[Node] = []
    while True:
        n = g.producer(t)
        if n is None or g.only_user(t) is None:
            return f"{t} is also read elsewhere, or no operator's result"
        found.insert(0, n)
        if n.op == "Conv":
            return tuple(found)
        if all_ops()[n.op].scalar is None or len(n.inputs) != 1:
            return f"{t} is no convolution's"
        t = n.inputs[0]


def _differs(g: Graph, a: tuple[Node, ...], b: tuple[Node, ...]) -> str:
    """Why two branches are not alike up to the weights."""
    if [(n.op, n.attrs, n.quantised) for n in a] != [(n.op, n.attrs, n.quantised) for n in b]:
        return "the branches differ in their operators or windows"
    if a[0].inputs[0] != b[0].inputs[0] or a[0].attrs.group != 1:                           # type: ignore[attr-defined]
        return "they read different tensors, or in groups"
    if any(g.type(x.outputs[0]).quant != g.type(y.outputs[0]).quant for x, y in zip(a, b, strict=True)):
        return "their results have different scales"
    return ""


def _weights(g: Graph, convs: list[Node]) -> tuple[list[Tensor], tuple[str, ...]] | str:
    """Weights and bias of all convolutions as one."""
    values = [g.data(n.inputs[1]) for n in convs]
    if any(v is None for v in values) or len({g.type(n.inputs[1]).dtype for n in convs}) > 1:
        return "the weights are variable, or of different types"
    given = [n for n in convs if len(n.inputs) > 2 and n.inputs[2]]
    if any(g.data(n.inputs[2]) is None for n in given):
        return "a bias is variable"
    kind = g.type(convs[0].inputs[1])
    w = constant(g, f"{convs[0].name}.joined.w", np.concatenate([v for v in values if v is not None]))
    w = replace(w, type=replace(w.type, dtype=kind.dtype, quant=_scales(g, convs)))
    tensors = [w]
    inputs: tuple[str, ...] = (convs[0].inputs[0], w.name)
    if given:
        dtype = (g.data(given[0].inputs[2]) if given else values[0]).dtype                  # type: ignore[union-attr]
        parts = [np.zeros(g.type(n.inputs[1]).shape[0], dtype) if n not in given else g.data(n.inputs[2]) for n in convs]
        tensors.append(constant(g, f"{convs[0].name}.joined.b", np.concatenate([p for p in parts if p is not None])))
        inputs += (tensors[-1].name,)
    return tensors, inputs


def _scales(g: Graph, convs: list[Node]) -> Quant | None:
    """One scale and zero point for each output channel."""
    if not convs[0].quantised:
        return None
    scale: list[float] = []
    zero: list[int] = []
    for n in convs:
        t = g.type(n.inputs[1])
        assert t.quant is not None
        scale += np.broadcast_to(t.quant.scale, t.shape[0]).tolist()
        zero += np.broadcast_to(t.quant.zero, t.shape[0]).tolist()
    return Quant(tuple(scale), tuple(zero), 0)


JOINS = (Fold("side-by-side", op("Concat", name="concat"), side_by_side, "one convolution, and its input is read once"),)
