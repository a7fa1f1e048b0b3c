"""8-bit tensors inside a quantised model get one sign: stored values and zero points 128 apart mean the same numbers.

Quantisers write uint8 as often as int8, and kernels for vectors have instructions for one of them only. Inputs and outputs
of the model stay as the caller has them.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import DType, TensorType
from fuse2c.ops import all_ops

SHIFT = 128
OTHER = {DType.I8: DType.U8, DType.U8: DType.I8}
FILLS = ("Pad", "Trilu")        # movements that add elements of their own, as stored


def unified(g: Graph, to: DType) -> Graph:
    """The graph with `to`, int8 or uint8, for each 8-bit tensor that may be: QuantizeLinear writes it, or it is a constant;
    it is only moved, and read by DequantizeLinear; and all its zero points are constants."""
    turned = {t for t, v in g.tensors.items() if v.type.dtype == OTHER[to] and t not in {*g.inputs, *g.outputs}
              and g.users(t) and (v.data is not None or g.producer(t) is not None)}
    while kept := {t for n in g.nodes for t in _kept(g, n, turned)}:
        turned -= kept
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


def _kept(g: Graph, n: Node, turned: set[str]) -> set[str]:
    """Which of some tensors must stay as they are for a node's sake."""
    mine = {t for t in (*n.inputs, *n.outputs) if t in turned}
    if stored := _stored(n):
        return mine if g.data(n.inputs[2]) is None else mine - {stored}
    op, moved = all_ops()[n.op], {*n.outputs, *(n.inputs if n.op == "Concat" else n.inputs[:1])}
    return mine - moved if op.moves and n.op not in FILLS and moved <= turned else mine


def _turned(t: Tensor, to: DType) -> Tensor:
    """An 8-bit tensor of the other sign."""
    quant = t.type.quant and replace(t.type.quant, zero=tuple(z + _shift(to) for z in t.type.quant.zero))
    new = replace(t.type, dtype=to, quant=quant)
    return Tensor(t.name, new, None if t.data is None else as_type(np.ascontiguousarray(t.data), new))
