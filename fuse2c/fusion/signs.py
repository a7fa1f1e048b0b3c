"""8-bit tensors inside a quantised model get one sign: stored values and zero points 128 apart mean the same numbers.

Quantisers write uint8 as often as int8, and kernels for vectors have instructions for one of them only. Inputs and outputs
of the model stay as the caller has them.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuse2c.fusion.quantise import moving
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import DType, TensorType
from fuse2c.ops import all_ops

SHIFT = 128
OTHER = {DType.I8: DType.U8, DType.U8: DType.I8}
FILLS = ("Pad", "Trilu")        # movements that add elements of their own, as stored


def unified(g: Graph, to: DType) -> Graph:
    """The graph with `to`, int8 or uint8, for each 8-bit tensor that may be: QuantizeLinear writes it, or it is a constant;
    it is only moved, and read by DequantizeLinear; all its zero points are constants. What one operator reads, or only moves,
    stays of one sign: an input of the model keeps what it is added to."""
    others = {t for t, v in g.tensors.items() if v.type.dtype == OTHER[to]}
    kept, count = {t for n in g.nodes for t in _fixed(g, n)} | {*g.inputs, *g.outputs} & others, -1
    while count != len(kept):
        count = len(kept)
        for n in g.nodes:
            linked = _linked(n)
            if not kept.isdisjoint(linked):
                kept |= linked
    turned = others - kept
    nodes, tensors = [], {**g.tensors, **{t: _turned(g.tensors[t], to) for t in turned}}
    for n in g.nodes:
        if _stored(n) in turned:
            zero = g.tensors[n.inputs[2]]
            assert zero.data is not None
            new = Tensor(f"{zero.name}.{to.value}", zero.type, zero.data + _shift(to))
            tensors[new.name] = new
            n = replace(n, inputs=(*n.inputs[:2], new.name))
        nodes.append(n)
    return replace(g, nodes=tuple(nodes), tensors=tensors)


def as_type(value: np.ndarray, t: TensorType | None) -> np.ndarray:
    """8-bit elements as those of the other sign that stand for them, where `t` has them so; else as they are."""
    if t is None or t.dtype not in OTHER or value.dtype != OTHER[t.dtype].numpy:
        return value
    return (value.view(np.uint8) ^ SHIFT).view(t.dtype.numpy)


def _shift(to: DType) -> int:
    """What becomes of a zero point."""
    return -SHIFT if to == DType.I8 else SHIFT


def _stored(n: Node) -> str:
    """The integers that a node writes or reads as quantised numbers; empty for other nodes."""
    return n.outputs[0] if n.op == "QuantizeLinear" else n.inputs[0] if n.op == "DequantizeLinear" else ""


def _fixed(g: Graph, n: Node) -> set[str]:
    """8-bit tensors that must stay as they are for a node's sake: it takes them for numbers, or adds some."""
    mine = {t for t in (*n.inputs, *n.outputs) if t and g.type(t).dtype in OTHER}
    if stored := _stored(n):
        return mine if g.data(n.inputs[2]) is None else mine - {stored}
    return mine if n.op in FILLS or not all_ops()[n.op].moves else mine - {*_moved(n), *n.outputs[:1]}


def _linked(n: Node) -> set[str]:
    """Tensors of a node, stored or real, whose stored values have one sign if any of them has it for good."""
    if _stored(n):
        return {n.inputs[0], n.outputs[0]}
    return {*_moved(n), *(n.outputs if n.op in moving() else ())}


def _moved(n: Node) -> tuple[str, ...]:
    """The operands; of a movement those that it moves."""
    return n.inputs[:1] if n.op in moving() and n.op != "Concat" else tuple(filter(None, n.inputs))


def _turned(t: Tensor, to: DType) -> Tensor:
    """An 8-bit tensor of the other sign."""
    quant = t.type.quant and replace(t.type.quant, zero=tuple(z + _shift(to) for z in t.type.quant.zero))
    new = replace(t.type, dtype=to, quant=quant)
    return Tensor(t.name, new, None if t.data is None else as_type(np.ascontiguousarray(t.data), new))
