"""Channels that pruning has emptied vanish from the layer that computes them and from the one that reads them."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, op
from fuse2c.fusion.folds import weight_axis
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import DType, Quant, TensorType
from fuse2c.op import bind
from fuse2c.ops import all_ops

ALONG = frozenset({"MaxPool", "AveragePool"})       # keep channels apart


def empty_channels(g: Graph, m: Match) -> Rewrite | str:
    """Conv(f(Conv(x, v)), w) without channels of which w is zero, or v is and f(v's bias) goes into w's bias."""
    reader = m["reader"]
    chain = _chain(g, reader)
    if not chain or _axes(g, reader) is None:
        return ""
    maker = chain[0]
    unread = ~filled(g, reader, 1 - weight_axis(reader, 2))
    unmade = ~filled(g, maker, weight_axis(maker, 2)) & ~unread
    constants = _constants(g, chain) if unmade.any() else None
    unmade &= False if constants is None else _foldable(g, reader, constants)
    gone = unread | unmade
    keep = np.nonzero(~gone)[0] if not gone.all() else np.arange(1)
    if len(keep) == len(gone):
        return ""
    tensors: list[Tensor] = []
    kept = {t: g.fresh(f"{t}.kept") for n in chain for t in n.outputs}
    new = [_cut(g, n, keep, kept, tensors) for n in chain]
    behind, bias = cut_weights(g, reader, keep, 1 - weight_axis(reader, 2), tensors), reader.inputs[2:]
    shift = _shift(g, reader, constants, np.setdiff1d(np.nonzero(unmade)[0], keep))
    if shift.any():
        total = _total(g, reader, shift)
        if reader.quantised and np.abs(total).max() > 2 ** 31 - 1:
            return f"with the constant channels a bias of {reader.name} would not fit into 32 bits"
        bias = (_bias(g, reader, total, tensors),)
    return Rewrite((*chain, reader), (*new, replace(reader, inputs=(kept[reader.inputs[0]], behind, *bias))), tuple(tensors))


def _chain(g: Graph, reader: Node) -> tuple[Node, ...]:
    """The layer behind a reader's operand and what is between, channel by channel; empty if it is anything else."""
    found: list[Node] = []
    t = reader.inputs[0]
    while True:
        n = g.producer(t)
        if n is None or g.only_user(t) is None or len(n.outputs) > 1:
            return ()
        found.insert(0, n)
        if _axes(g, n) is not None:
            same = n.op == reader.op or len(g.type(n.outputs[0]).shape) == 2
            return tuple(found) if same and len(g.type(n.outputs[0]).shape) == len(g.type(reader.inputs[0]).shape) else ()
        single = len([t for t in n.inputs if t]) == 1
        if not (single and (all_ops()[n.op].scalar is not None or n.op in ALONG)) and not _is_depthwise(g, n):
            return ()
        t = n.inputs[0]


def _axes(g: Graph, n: Node) -> int | None:
    """The rank of the weights of a layer with constants of its own; None if it is no such layer."""
    if n.op not in ("Conv", "MatMul") or any(g.data(t) is None for t in n.inputs[1:] if t):
        return None
    a: Any = n.attrs
    rank = len(g.type(n.inputs[1]).shape)
    if n.op == "Conv":
        return rank if a.group == 1 else None
    return rank if rank == 2 and not a.trans_a and len(g.type(n.inputs[0]).shape) == 2 else None


def _is_depthwise(g: Graph, n: Node) -> bool:
    """A convolution of each channel by itself."""
    a: Any = n.attrs
    constant = n.op == "Conv" and all(g.data(t) is not None for t in n.inputs[1:] if t)
    return constant and a.group > 1 and g.type(n.inputs[1]).shape[:2] == (a.group, 1)


def real(g: Graph, n: Node) -> np.ndarray:
    """The weights less their zero point."""
    w, q = g.data(n.inputs[1]), g.type(n.inputs[1]).quant
    assert w is not None
    if not n.quantised or q is None:
        return w
    zero = np.asarray(q.zero, np.int64)
    return np.asarray(w.astype(np.int64) - (zero.reshape([-1 if i == q.axis else 1 for i in range(w.ndim)])
                                            if len(zero) > 1 else zero[0]))


def filled(g: Graph, n: Node, axis: int) -> np.ndarray:
    """For each slice of the weights along an axis, whether anything in it is not zero."""
    w = real(g, n)
    return np.asarray((w != 0).any(axis=tuple(i for i in range(w.ndim) if i != axis)))


def _constants(g: Graph, chain: Sequence[Node]) -> np.ndarray | None:
    """What each channel would be at the reader if it had no weights; None where that depends on the place."""
    if any(n.op in ALONG or _is_depthwise(g, n) for n in chain):
        return None
    kind = g.type(chain[0].inputs[0])
    value = np.zeros(kind.shape, kind.dtype.numpy)
    for i, n in enumerate(chain):
        rest = [g.data(t) if t else None for t in n.inputs[1:]]
        if i == 0:
            rest[0] = np.zeros_like(real(g, n)) if not n.quantised else g.data(n.inputs[1])
            value = np.full_like(value, 0 if kind.quant is None or not n.quantised else kind.quant.zero[0])
        value = all_ops()[n.op].reference(bind(g, n), value, *rest)[0]
    return np.asarray(np.moveaxis(value, 1, -1).reshape(-1, value.shape[1])[0])


def _foldable(g: Graph, reader: Node, constants: np.ndarray) -> np.ndarray:
    """Which constant channels add the same to all sums of a reader: those of zeros, where there is padding."""
    a: Any = reader.attrs
    padded = reader.op == "Conv" and max(a.window.pads) > 0
    return constants == _zero(g, reader) if padded else np.full(constants.shape, True)


def _zero(g: Graph, reader: Node) -> int:
    """How the real zero is stored in a layer's operand."""
    q = g.type(reader.inputs[0]).quant
    return q.zero[0] if reader.quantised and q is not None else 0


def _shift(g: Graph, reader: Node, constants: np.ndarray | None, channels: np.ndarray) -> np.ndarray:
    """What constant channels add to each sum of a reader."""
    if constants is None or not len(channels):
        return np.zeros(1)
    part = np.take(np.moveaxis(real(g, reader), 1 - weight_axis(reader, 2), 0), channels, axis=0).astype(np.float64)
    return np.asarray(np.tensordot(constants[channels].astype(np.float64) - _zero(g, reader),
                                   part.sum(axis=tuple(range(2, part.ndim))), 1))


def _total(g: Graph, reader: Node, shift: np.ndarray) -> np.ndarray:
    """A reader's bias and what constant channels add to it, float64."""
    own = g.data(reader.inputs[2]) if len(reader.inputs) > 2 else None
    return shift if own is None else np.asarray(shift + own.astype(np.float64))


def _bias(g: Graph, reader: Node, value: np.ndarray, tensors: list[Tensor]) -> str:
    """A new bias of a reader, of these values."""
    old = reader.inputs[2] if len(reader.inputs) > 2 else ""
    own, dtype = g.data(old), np.int32 if reader.quantised else g.type(reader.inputs[1]).dtype.numpy
    total = value.astype(dtype)
    name = g.fresh(f"{reader.outputs[0]}.b")
    kind = g.type(old) if own is not None else TensorType(DType(total.dtype.name), total.shape)
    tensors.append(Tensor(name, kind, total))
    return name


def cut_weights(g: Graph, n: Node, keep: np.ndarray, axis: int, tensors: list[Tensor], port: int = 1) -> str:
    """The name of a constant operand with some of its slices only."""
    old = g.tensors[n.inputs[port]]
    assert old.data is not None
    value, q = np.ascontiguousarray(np.take(old.data, keep, axis=axis)), old.type.quant
    if q is not None and q.axis == axis and not q.per_tensor:
        def some(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(values[i] for i in keep) if len(values) > 1 else values
        q = Quant(some(q.scale), some(q.zero), q.axis)
    name = f"{old.name}.kept"
    while name in g.tensors or any(t.name == name for t in tensors):
        name += "+"
    tensors.append(Tensor(name, replace(old.type, shape=value.shape, quant=q), value))
    return name


def _cut(g: Graph, n: Node, keep: np.ndarray, kept: dict[str, str], tensors: list[Tensor]) -> Node:
    """A node of the chain with some of its channels only; `kept`: its results are no tensors of the model any more."""
    for t in n.outputs:
        kind = g.type(t)
        tensors.append(Tensor(kept[t], replace(kind, shape=(kind.shape[0], len(keep), *kind.shape[2:]))))
    inputs = [kept.get(t, t) for t in n.inputs]
    outputs = tuple(kept[t] for t in n.outputs)
    if n.op not in ("Conv", "MatMul"):
        return replace(n, inputs=tuple(inputs), outputs=outputs)
    inputs[1] = cut_weights(g, n, keep, weight_axis(n, 2), tensors)
    if len(n.inputs) > 2 and n.inputs[2]:
        inputs[2] = cut_weights(g, n, keep, 0, tensors, 2)
    a: Any = n.attrs
    attrs = replace(a, group=len(keep)) if _is_depthwise(g, n) else a
    return replace(n, inputs=tuple(inputs), outputs=outputs, attrs=attrs)


PRUNED = (Fold("empty-channels", op("Conv|MatMul", name="reader"), empty_channels,
               "a channel without weights is neither computed nor stored"),)
