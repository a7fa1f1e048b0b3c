"""Folds of what stands before an anchor: a batch normalisation's product and sum, and pads on their way to a window."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, inner_use, op
from fuse2c.fusion.folds import constant, no_channels, other_input
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.kernels.windowing import Window, inside
from fuse2c.op import bind
from fuse2c.ops import all_ops
from fuse2c.ops.movement import Pads, fill


def scale_before(g: Graph, m: Match) -> Rewrite | str:
    """anchor(x * s, w, b)  =  anchor(x, s * w, b), s for each input channel: padding stays zero."""
    anchor, mul = m["anchor"], m["mul"]
    found = _per_input(g, m, mul, anchor)
    if isinstance(found, str):
        return found
    w, factor = found
    t = constant(g, f"{anchor.name}.w", (w.astype(np.float64) * factor).astype(w.dtype))
    return Rewrite((mul, anchor), (replace(anchor, inputs=(_variable(g, mul), t.name, *anchor.inputs[2:]),
                                           origin=mul.origin + anchor.origin),), (t,))


def shift_before(g: Graph, m: Match) -> Rewrite | str:
    """anchor(x + t, w, b)  =  anchor(x, w, b + sum over inputs of t * w), where nothing is padded."""
    anchor, add = m["anchor"], m["add"]
    found = _per_input(g, m, add, anchor)
    if isinstance(found, str):
        return found
    w, shift = found
    if anchor.op == "Conv" and any(anchor.attrs.window.pads):                               # type: ignore[attr-defined]
        return "the convolution pads with zeros: at the border the sum is another one"
    given = len(anchor.inputs) > 2 and anchor.inputs[2] != ""
    own = g.data(anchor.inputs[2]) if given else np.zeros(1, w.dtype)
    if own is None:
        return "the bias is not constant"
    product = w.astype(np.float64) * shift
    outputs = 0 if anchor.op == "Conv" or anchor.attrs.trans_b else 1                       # type: ignore[attr-defined]
    sums = product.sum(axis=tuple(i for i in range(w.ndim) if i != outputs))
    t = constant(g, f"{anchor.name}.bias", (own + sums).astype(w.dtype))
    return Rewrite((add, anchor), (replace(anchor, inputs=(_variable(g, add), anchor.inputs[1], t.name),
                                           origin=add.origin + anchor.origin),), (t,))


def _per_input(g: Graph, m: Match, before: Node, anchor: Node) -> tuple[np.ndarray, np.ndarray] | str:
    """The weights, and the constant operand of `before` such that it multiplies them element by element."""
    if why := inner_use(g, m) or no_channels(g, anchor):
        return why
    x, w, value = anchor.inputs[0], g.data(anchor.inputs[1]), g.data(other_input(before, _variable(g, before)))
    if x != before.outputs[0] or w is None or value is None or g.type(_variable(g, before)).shape != g.type(x).shape:
        return "the weights or the other operand are not constant, or it makes the tensor larger"
    shape = g.type(x).shape
    if anchor.op == "MatMul" and (w.ndim != 2 or anchor.attrs.trans_a):                     # type: ignore[attr-defined]
        return "the weights are not one matrix for rows of the input"
    axis = 1 if anchor.op == "Conv" else len(shape) - 1
    full = (1,) * (len(shape) - value.ndim) + value.shape
    if any(n != 1 for i, n in enumerate(full) if i != axis):
        return "the other operand is not one constant per input channel"
    vector = np.broadcast_to(value.reshape(-1), (shape[axis],)).astype(np.float64)
    if anchor.op == "MatMul":
        return w, vector if anchor.attrs.trans_b else vector[:, None]                       # type: ignore[attr-defined]
    groups = anchor.attrs.group                                                             # type: ignore[attr-defined]
    of_output = np.repeat(vector.reshape(groups, -1), w.shape[0] // groups, axis=0)
    return w, of_output.reshape(*w.shape[:2], *[1] * (w.ndim - 2))


def _variable(g: Graph, n: Node) -> str:
    """The operand of a binary node that is no constant."""
    return n.inputs[1] if g.data(n.inputs[0]) is not None else n.inputs[0]


def pad_later(g: Graph, m: Match) -> Rewrite | str:
    """f(Pad(x, v)) = Pad(f(x), f(v)) for an elementwise f: towards the window that may take the pads."""
    pad, n = m["pad"], m["node"]
    if why := inner_use(g, m):
        return why
    attrs: Any = pad.attrs
    if all_ops()[n.op].scalar is None:
        return ""
    if pad.quantised or n.quantised:
        return "stored values"
    padded = g.type(pad.outputs[0])
    filled = np.full(padded.shape, attrs.value, padded.dtype.numpy)
    operands = [filled if t == pad.outputs[0] else g.data(t) for t in n.inputs]
    if any(value is None for value in operands) or g.type(n.outputs[0]).shape != padded.shape:
        return "it has another operand that is variable or larger"
    if not all(value is filled or _along_unpadded(pad, value) for value in operands if value is not None):
        return "another operand varies along a padded axis"
    made = np.unique(all_ops()[n.op].reference(bind(g, n), *operands)[0])
    if made.size != 1 or not np.isfinite(made[0]):
        return "what it makes of the padding is not one finite number"
    x, y = g.type(pad.inputs[0]), g.type(n.outputs[0])
    middle = Tensor(g.fresh(f"{n.outputs[0]}.unpadded"), replace(y, shape=x.shape))
    inputs = tuple(pad.inputs[0] if t == pad.outputs[0] else t for t in n.inputs)
    return Rewrite((pad, n), (replace(n, inputs=inputs, outputs=(middle.name,)),
                              replace(pad, inputs=(middle.name,), outputs=n.outputs,
                                      attrs=replace(attrs, value=float(made[0])))), (middle,))


def _along_unpadded(pad: Node, value: np.ndarray) -> bool:
    """Whether a constant varies only along axes that are not padded."""
    assert isinstance(pad.attrs, Pads)
    rank = len(pad.attrs.pads) // 2
    full = (1,) * (rank - value.ndim) + value.shape
    return all(n == 1 or not (pad.attrs.pads[i] or pad.attrs.pads[i + rank]) for i, n in enumerate(full))


def pad_into_window(g: Graph, m: Match) -> Rewrite | str:
    """window(Pad(x, v)) = window(x) with larger pads: v is zero, or below all that a maximum sees."""
    pad, reader = m["pad"], m["reader"]
    if why := inner_use(g, m):
        return why
    if reader.inputs[0] != pad.outputs[0]:
        return "the padded tensor is not what the window slides over"
    if pad.quantised != reader.quantised:
        return "only one of them computes on stored values"
    attrs: Any = pad.attrs
    rank = len(g.type(pad.inputs[0]).shape)
    begin, end = attrs.pads[:rank], attrs.pads[rank:]
    if any(begin[:2]) or any(end[:2]):
        return "batch or channels are padded"
    window = reader.attrs.window                                                            # type: ignore[attr-defined]
    new: Any = replace(reader.attrs, window=replace(                                        # type: ignore[type-var]
        window, pads=tuple(p + q for p, q in zip(window.pads, begin[2:] + end[2:], strict=True))))
    if why := _not_padding(g, pad, reader, new.window):
        return why
    if reader.op == "AveragePool":
        new = replace(new, count_include_pad=True)
    return Rewrite((pad, reader), (replace(reader, inputs=(pad.inputs[0], *reader.inputs[1:]), attrs=new,
                                           origin=pad.origin + reader.origin),))


def _not_padding(g: Graph, pad: Node, reader: Node, window: Window) -> str:
    """Why what a Pad fills in is not what the reader takes its own padding for."""
    call = bind(g, pad)
    value, zero = fill(call), call.quant(0).zero[0] if pad.quantised else 0
    if reader.op != "MaxPool":
        if reader.op == "AveragePool" and not reader.attrs.count_include_pad and any(       # type: ignore[attr-defined]
                reader.attrs.window.pads):                                                  # type: ignore[attr-defined]
            return "the pool does not count its own padding"
        return f"the padding is {value}, the zero point {zero}" if value != zero else _other_sizes(window)
    size = g.type(pad.inputs[0]).shape[2:]
    if any(inside(window, size, i).sum(axis=1).min(initial=1) == 0 for i in range(len(size))):
        return "a window lies in the padding alone"
    least = _least(g, pad.inputs[0])
    return f"the padding is {value}, but the maximum may be over {least}" if value > least else _other_sizes(window)


def _other_sizes(window: Window) -> str:
    return "with its size rounded up the result is another one" if window.ceil_mode else ""


def _least(g: Graph, t: str) -> float:
    """What no element of a tensor is below."""
    kind, n = g.type(t), g.producer(t)
    if not kind.dtype.is_float:
        return kind.dtype.range[0]
    bounded = n is not None and not n.quantised and n.op in ("Relu", "Sigmoid", "Softmax", "HardSigmoid", "Abs")
    return 0.0 if bounded else -np.inf


BEFORE = (
    Fold("scale-before", op("Conv|MatMul", op("Mul", name="mul"), name="anchor"), scale_before,
         "a batch normalisation's product in front of a layer vanishes"),
    Fold("shift-before", op("Conv|MatMul", op("Add", name="add"), name="anchor"), shift_before,
         "a batch normalisation's sum in front of a layer starts the accumulator"),
    Fold("pad-later", op(frozenset(all_ops()), op("Pad", name="pad"), name="node"), pad_later,
         "brings the padding next to the window, and fewer elements are computed"),
    Fold("pad", op("Conv|MaxPool|AveragePool", op("Pad", name="pad"), name="reader"), pad_into_window,
         "the padded copy is never written"),
)
