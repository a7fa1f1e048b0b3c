"""Folds that compute new constants or move an operator to where it costs nothing; each keeps the meaning exactly
for integers, and up to float rounding where weights are multiplied."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, inner_use, op
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import DType, TensorType
from fuse2c.op import bind
from fuse2c.ops import all_ops
from fuse2c.ops.movement import Permutation, Shape


def constant(g: Graph, base: str, value: np.ndarray) -> Tensor:
    """A new constant under a fresh name."""
    return Tensor(g.fresh(base), TensorType(DType(value.dtype.name), value.shape), value)


def along_channels(g: Graph, anchor: Node, value: np.ndarray) -> np.ndarray | None:
    """`value` as one number per output channel of the anchor, or None if it varies along another axis."""
    shape = g.type(anchor.outputs[0]).shape
    axis = (all_ops()[anchor.op].channel_axis or 0) % len(shape)
    full = (1,) * (len(shape) - value.ndim) + value.shape
    if len(full) != len(shape) or any(n != 1 for i, n in enumerate(full) if i != axis):
        return None
    return np.broadcast_to(value.reshape(-1), (shape[axis],)) if full[axis] in (1, shape[axis]) else None


def no_channels(g: Graph, anchor: Node) -> str:
    """Why a constant behind an anchor cannot move into its weights or its bias; "" if it can."""
    if anchor.quantised:
        return "its sums are stored integers"
    if anchor.op == "MatMul" and len(g.type(anchor.inputs[1]).shape) < 2:
        return "a product with a vector has no output channels"
    return ""


def other_input(n: Node, tensor: str) -> str:
    """The operand of a binary node that is not `tensor`."""
    return n.inputs[1] if n.inputs[0] == tensor else n.inputs[0]


def dequantised_constant(g: Graph, tensor: str) -> bool:
    """Whether a tensor is a constant behind a DequantizeLinear."""
    p = g.producer(tensor)
    return p is not None and p.op == "DequantizeLinear" and g.data(p.inputs[0]) is not None


def bias_add(g: Graph, m: Match) -> Rewrite | str:
    """anchor(x, w) + b  =  anchor(x, w, b)."""
    anchor, add = m["anchor"], m["add"]
    if why := inner_use(g, m) or no_channels(g, anchor):
        return why
    bias = other_input(add, anchor.outputs[0])
    value = g.data(bias)
    own = g.data(anchor.inputs[2]) if len(anchor.inputs) > 2 and anchor.inputs[2] else None
    channels = g.type(anchor.outputs[0]).shape[(all_ops()[anchor.op].channel_axis or 0)]
    if dequantised_constant(g, bias) and g.type(bias).shape == (channels,) and anchor.op == "MatMul":
        if len(anchor.inputs) > 2 and anchor.inputs[2]:
            return "it has a bias already"
        return Rewrite((anchor, add), (replace(anchor, inputs=(*anchor.inputs[:2], bias), outputs=add.outputs,
                                               origin=anchor.origin + add.origin),))
    vector = None if value is None else along_channels(g, anchor, value)
    if vector is None:
        return "the addend is not one constant per channel"
    if len(anchor.inputs) > 2 and anchor.inputs[2]:
        if own is None:
            return "it has a bias already"
        vector = own + vector
    t = constant(g, f"{anchor.name}.bias", np.ascontiguousarray(vector, g.type(anchor.outputs[0]).dtype.numpy))
    return Rewrite((anchor, add), (replace(anchor, inputs=(*anchor.inputs[:2], t.name), outputs=add.outputs,
                                           origin=anchor.origin + add.origin),), (t,))


def weight_axis(anchor: Node, rank: int) -> int:
    """The axis of an anchor's weights along which its output channels lie."""
    return 0 if anchor.op == "Conv" or anchor.attrs.trans_b else rank - 1                   # type: ignore[attr-defined]


def scale_weights(g: Graph, m: Match) -> Rewrite | str:
    """anchor(x, w, b) * s  =  anchor(x, w * s, b * s): a batch normalisation's product."""
    anchor, mul = m["anchor"], m["mul"]
    if why := inner_use(g, m) or no_channels(g, anchor):
        return why
    w, factor = g.data(anchor.inputs[1]), g.data(other_input(mul, anchor.outputs[0]))
    vector = None if factor is None else along_channels(g, anchor, factor)
    if w is None or vector is None:
        return "the weights or the factor are not constant along channels"
    has_bias = len(anchor.inputs) > 2 and anchor.inputs[2] != ""
    b = g.data(anchor.inputs[2]) if has_bias else None
    if has_bias and b is None:
        return "the bias is not constant"
    axis = weight_axis(anchor, w.ndim)
    shape = [-1 if i == axis else 1 for i in range(w.ndim)]
    scaled = constant(g, f"{anchor.name}.w", (w.astype(np.float64) * vector.reshape(shape)).astype(w.dtype))
    tensors, inputs = [scaled], [anchor.inputs[0], scaled.name]
    if b is not None:
        tensors.append(constant(g, f"{anchor.name}.b", (b.astype(np.float64) * vector).astype(b.dtype)))
        inputs.append(tensors[-1].name)
    return Rewrite((anchor, mul), (replace(anchor, inputs=tuple(inputs), outputs=mul.outputs,
                                           origin=anchor.origin + mul.origin),), tuple(tensors))


def pad_after_transpose(g: Graph, m: Match) -> Rewrite | str:
    """Transpose(Pad(x)) = Pad(Transpose(x)): towards the convolution that may take the pads."""
    pad, turn = m["pad"], m["transpose"]
    if why := inner_use(g, m):
        return why
    attrs: Any = pad.attrs
    perm = turn.attrs.perm                                                                  # type: ignore[attr-defined]
    rank = len(perm)
    pads = tuple(attrs.pads[half + p] for half in (0, rank) for p in perm)
    t = g.type(pad.inputs[0])
    middle = Tensor(g.fresh(f"{turn.outputs[0]}.unpadded"), replace(t, shape=tuple(t.shape[p] for p in perm)))
    return Rewrite((pad, turn), (replace(turn, inputs=pad.inputs, outputs=(middle.name,)),
                                 replace(pad, inputs=(middle.name,), outputs=turn.outputs,
                                         attrs=replace(attrs, pads=pads))), (middle,))


def merge_reshapes(g: Graph, m: Match) -> Rewrite | str:
    """Reshape(Reshape(x)) = Reshape(x)."""
    first, second = m["first"], m["second"]
    return inner_use(g, m) or Rewrite((first, second), (replace(second, inputs=first.inputs,
                                                                origin=first.origin + second.origin),))


def merge_transposes(g: Graph, m: Match) -> Rewrite | str:
    """Transpose(Transpose(x)) = Transpose(x)."""
    first, second = m["first"], m["second"]
    perm = tuple(first.attrs.perm[p] for p in second.attrs.perm)                            # type: ignore[attr-defined]
    return inner_use(g, m) or Rewrite((first, second), (replace(second, inputs=first.inputs, attrs=Permutation(perm),
                                                                origin=first.origin + second.origin),))


def flatten_channels_last(g: Graph, m: Match) -> Rewrite | str:
    """A dense layer behind Flatten reads NHWC as it lies: its weights' rows are permuted instead."""
    flat, dense = m["flatten"], m["dense"]
    x, w = g.type(flat.inputs[0]), g.data(dense.inputs[1])
    shape = g.type(flat.outputs[0]).shape
    if why := inner_use(g, m):
        return why
    if w is None or w.ndim != 2 or dense.inputs[0] != flat.outputs[0]:
        return "the weights are not a constant matrix"
    if dense.attrs.trans_a:                                                                 # type: ignore[attr-defined]
        return "the flattened tensor is read transposed"
    producer = g.producer(flat.inputs[0])
    if len(x.shape) < 3 or shape != (x.shape[0], x.count // x.shape[0]):
        return "not a flattening of [N,C,spatial...]"
    spatial = x.count // (x.shape[0] * x.shape[1])
    if producer is None or all_ops()[producer.op].layout not in ("spatial", "same") or spatial == 1 or x.shape[1] == 1:
        return "the input lies in the flattened order already"
    rows = np.arange(x.shape[1] * spatial).reshape(x.shape[1], spatial).T.reshape(-1)
    axis = 1 if dense.attrs.trans_b else 0                                                  # type: ignore[attr-defined]
    weights = Tensor(g.fresh(f"{dense.name}.w"), g.type(dense.inputs[1]), np.take(w, rows, axis=axis))
    perm = (0, *range(2, len(x.shape)), 1)
    turned = Tensor(g.fresh(f"{flat.outputs[0]}.nhwc"), replace(x, shape=tuple(x.shape[p] for p in perm)))
    turn = Node(f"{flat.name}.nhwc", "Transpose", flat.inputs, (turned.name,), Permutation(perm))
    return Rewrite((flat, dense), (turn, replace(flat, inputs=(turned.name,), attrs=Shape(shape)),
                                   replace(dense, inputs=(dense.inputs[0], weights.name, *dense.inputs[2:]))),
                   (weights, turned))


def constant_result(g: Graph, m: Match) -> Rewrite | str:
    """An operator of constants is a constant."""
    n = m["node"]
    values = [g.data(t) for t in n.inputs if t]
    if any(v is None for v in values):
        return "an input is variable"
    if any(t in g.outputs for t in n.outputs):
        return "it is an output of the model"
    results = all_ops()[n.op].reference(bind(g, n), *values)
    tensors = tuple(Tensor(t, g.type(t), np.asarray(v)) for t, v in zip(n.outputs, results, strict=True))
    return Rewrite((n,), (), tensors)


ANCHOR = op("Conv|MatMul", name="anchor")
STRUCTURE = (
    Fold("bias", op("Add", ANCHOR, name="add"), bias_add, "the bias starts the accumulator"),
    Fold("merge-reshapes", op("Reshape", op("Reshape", name="first"), name="second"), merge_reshapes, "one view"),
    Fold("merge-transposes", op("Transpose", op("Transpose", name="first"), name="second"), merge_transposes,
         "one transposition, often none"),
    Fold("pad-transpose", op("Transpose", op("Pad", name="pad"), name="transpose"), pad_after_transpose,
         "brings the padding next to the convolution"),
)
WEIGHTS = (
    Fold("scale", op("Mul", ANCHOR, name="mul"), scale_weights, "a batch normalisation's product vanishes"),
    Fold("bias", op("Add", ANCHOR, name="add"), bias_add, "the bias starts the accumulator"),
    Fold("flatten", op("MatMul", op("Reshape", name="flatten"), name="dense"), flatten_channels_last,
         "no transposition between convolutions and dense layers"),
)


def constants() -> Fold:
    """Any operator whose inputs are all constant."""
    return Fold("constant", op(frozenset(all_ops()), name="node"), constant_result, "computed now, not on the device")
