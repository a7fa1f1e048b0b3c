"""Q/DQ around float operators becomes integer operators.

    Q(f(DQ(x), ...)) = f_int(x, ...)              where the operator has an integer form
    Q(g(x)) = g_int(Q(x)),  g(DQ(x)) = DQ(g_int(x))  where g moves elements, or never decreases (Relu, Clip, extremes)
    Q(DQ(x)) = x, or a 256-entry table where the scale changes
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, inner_use, op
from fuse2c.fusion.folds import constant
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import DType, TensorType
from fuse2c.op import Call, bind
from fuse2c.ops import all_ops
from fuse2c.ops.elementwise import Attrs
from fuse2c.ops.movement import Pads, fill

MONOTONE = frozenset({"Relu", "Clip", "ReduceMax", "ReduceMin"})
FLOAT_NOISE = 0.01      # of a step: what float32 itself may lose of a bias at the sum's scale
BIAS_PORT = {"Conv": 2, "MatMul": 2}


def moving() -> frozenset[str]:
    """Operators that commute with a per-tensor quantisation."""
    return frozenset(o.name for o in all_ops().values() if o.moves) | MONOTONE


def per_tensor(g: Graph, q: Node) -> bool:
    """Whether a Q or DQ node has one scale."""
    return g.type(q.inputs[1]).count == 1


def both_per_tensor(x: TensorType, y: TensorType) -> bool:
    """Whether 8-bit values and what they become have one scale each."""
    return bool(x.dtype.is_quantised and x.quant and x.quant.per_tensor and y.quant and y.quant.per_tensor)


def as_stated(g: Graph, dq: Node) -> bool:
    """Whether a DequantizeLinear reads its tensor with the very scale and zero point that the tensor's type states.

    A stored tensor may be read by several of them, each with its own; the type states those of the first.
    """
    t, scale, zero = g.type(dq.inputs[0]), g.data(dq.inputs[1]), g.data(dq.inputs[2])
    if t.quant is None or scale is None or zero is None:
        return False
    axis = None if scale.size == 1 else len(t.shape) - scale.ndim
    return (t.quant.axis == axis and t.quant.scale == tuple(map(float, scale.reshape(-1)))
            and bool((np.asarray(t.quant.zero) == zero.reshape(-1)).all()))


def quantise_before(g: Graph, m: Match) -> Rewrite | str:
    """Q(g(x)) = g(Q(x))."""
    mover, q = m["mover"], m["q"]
    if why := inner_use(g, m):
        return why
    t = g.type(q.outputs[0])
    if not per_tensor(g, q) or t.quant is None:
        return "the scale is not one constant for the tensor"
    new: list[Node] = []
    tensors: list[Tensor] = []
    inputs: list[str] = []
    movers = mover.inputs if mover.op == "Concat" else mover.inputs[:1]
    for x in movers:
        stored = Tensor(g.fresh(f"{x}.q.{mover.name}.{len(new)}"), replace(t, shape=g.type(x).shape))
        new.append(replace(q, name=f"{q.name}.{len(new)}" if len(movers) > 1 else q.name,
                           inputs=(x, *q.inputs[1:]), outputs=(stored.name,)))
        tensors.append(stored)
        inputs.append(stored.name)
    moved = replace(mover, inputs=(*inputs, *mover.inputs[len(movers):]), outputs=q.outputs, quantised=True)
    return Rewrite((mover, q), (*new, moved), tuple(tensors))


def dequantise_after(g: Graph, m: Match) -> Rewrite | str:
    """g(DQ(x)) = DQ(g(x)); the other readers of DQ(x) keep it."""
    dq, mover = m["dq"], m["mover"]
    if mover.op in ("Concat", "Clip"):
        return "it has several inputs, or bounds that are no stored values"
    if not per_tensor(g, dq) or (g.data(dq.inputs[0]) is not None and all(
            g.data(t) is not None for t in mover.inputs[1:])):      # a table that is indexed at run time stays as it is
        return "a constant, or a scale that is not per tensor"
    t = g.type(dq.inputs[0])
    if t.dtype not in (DType.I8, DType.U8) or not as_stated(g, dq):
        return "the tensor has another scale elsewhere"
    if isinstance(mover.attrs, Pads) and t.quant is not None:
        stored_fill = fill(bind(g, replace(mover, inputs=dq.inputs[:1], quantised=True)))
        if np.float32((stored_fill - t.quant.zero[0]) * t.quant.scale[0]) != np.float32(mover.attrs.value):
            return f"the padding {mover.attrs.value:g} is no stored value"
    y = mover.outputs[0]
    stored = Tensor(g.fresh(f"{y}.q"), replace(t, shape=g.type(y).shape))
    return Rewrite((mover,), (replace(mover, inputs=(dq.inputs[0], *mover.inputs[1:]), outputs=(stored.name,), quantised=True),
                              replace(dq, name=f"{dq.name}.{mover.name}", inputs=(stored.name, *dq.inputs[1:]),
                                      outputs=(y,))), (stored,))


def requantise(g: Graph, m: Match) -> Rewrite | str:
    """Q(DQ(x))."""
    dq, q = m["dq"], m["q"]
    x, y = g.type(dq.inputs[0]), g.type(q.outputs[0])
    if not both_per_tensor(x, y):
        return "not 8 bit with one scale on both sides"
    if not as_stated(g, dq):
        return f"{dq.inputs[0]} is read with two different scales"
    if x.quant == y.quant and x.dtype == y.dtype:
        if q.outputs[0] not in g.outputs:
            return Rewrite((q,), rename={q.outputs[0]: dq.inputs[0]})
        if g.producer(dq.inputs[0]) is not None and dq.inputs[0] not in g.outputs:
            return Rewrite((q,), rename={dq.inputs[0]: q.outputs[0]})
    return Rewrite((q,), (Node(q.name, "Requantise", dq.inputs[:1], q.outputs, Attrs(), origin=q.origin, quantised=True),))


def to_integer(g: Graph, m: Match) -> Rewrite | str:
    """Q(f(DQ(x), ...)) = f_int(x, ...)."""
    f, q = m["f"], m["q"]
    if why := inner_use(g, m):
        return why
    found = _stored_inputs(g, f)
    if isinstance(found, str):
        return found
    inputs, tensors, note = found
    typed = {t.name: t for t in tensors}
    types = tuple((typed[t].type if t in typed else g.type(t)) if t else None for t in inputs)
    const = tuple(typed[t].data if t in typed else g.data(t) for t in inputs)
    node = replace(f, inputs=inputs, outputs=q.outputs, quantised=True)
    call = Call(node, types, (g.type(q.outputs[0]),), const, g.requant)
    if why := all_ops()[f.op].integer(call):
        return why
    return Rewrite((f, q), (node,), tensors, note=note)


def _stored_inputs(g: Graph, f: Node) -> tuple[tuple[str, ...], tuple[Tensor, ...], str] | str:
    """The stored tensors behind f's DequantizeLinear inputs, with a new int32 bias and what to note about it; or why
    there are none."""
    inputs, tensors, note = [], [], ""
    for port, t in enumerate(f.inputs):
        if t == "" or port == BIAS_PORT.get(f.op):
            inputs.append(t)
            continue
        dq = g.producer(t)
        if dq is None or dq.op != "DequantizeLinear":
            return f"{t} is not behind a DequantizeLinear"
        if not as_stated(g, dq):
            return f"{dq.inputs[0]} is read with two different scales"
        inputs.append(dq.inputs[0])
    port = BIAS_PORT.get(f.op, -1)
    if 0 <= port < len(f.inputs) and f.inputs[port]:
        x, w = g.type(inputs[0]).quant, g.type(inputs[1]).quant
        assert x is not None and w is not None
        bias = _bias(g, f.inputs[port], np.asarray(w.scale) * x.scale[0])
        if isinstance(bias, str):
            return bias
        value, note = bias
        tensors.append(constant(g, f"{f.name}.bias", value))
        inputs[port] = tensors[-1].name
    return tuple(inputs), tuple(tensors), note


def _bias(g: Graph, bias: str, scale: np.ndarray) -> tuple[np.ndarray, str] | str:
    """The bias as int32 at scale s_x * s_w, its own integers where the scales agree, else rounded; and by how much."""
    dq, value = g.producer(bias), g.data(bias)
    if dq is not None and dq.op == "DequantizeLinear" and all(g.data(t) is not None for t in dq.inputs):
        own = g.tensors[dq.inputs[1]].data
        stored = g.data(dq.inputs[0])
        assert own is not None and stored is not None
        zero = g.data(dq.inputs[2])
        if stored.dtype == np.int32 and zero is not None and not zero.any() \
                and np.allclose(own.reshape(-1).astype(np.float64), scale, rtol=1e-5, atol=0.0):
            return stored, ""
        value = all_ops()[dq.op].reference(bind(g, dq), *(g.data(t) for t in dq.inputs))[0]
    if value is None:
        return "the bias is not constant"
    exact = value.astype(np.float64).reshape(-1) / scale
    rounded = np.rint(exact)
    if np.abs(rounded).max(initial=0) >= 2 ** 31:
        return "the bias does not fit into int32 at the accumulator's scale"
    error = float(np.abs(rounded - exact).max(initial=0.0))
    note = f"the bias has another scale than the sum; it is rounded by up to {error:.2f} of the sum's steps"
    return rounded.astype(np.int32), note if error > FLOAT_NOISE else ""


def propagate_quant(g: Graph) -> Graph:
    """A movement in front of a DequantizeLinear carries its scale back to where the integers come from."""
    for n in reversed(g.nodes):
        if n.op not in moving() or len(n.inputs) != 1:
            continue
        x, y = g.type(n.inputs[0]), g.type(n.outputs[0])
        if x.quant is None and y.quant is not None and y.quant.per_tensor and x.dtype == y.dtype:
            g = g.retype({n.inputs[0]: replace(x, quant=y.quant)})
    return g


def rules() -> tuple[Fold, ...]:
    """All folds of this file, in order of preference."""
    dq, q = op("DequantizeLinear", name="dq"), "QuantizeLinear"
    movers = moving()
    operators = frozenset(all_ops()) - {"QuantizeLinear", "DequantizeLinear"}
    return (
        Fold("requantise", op(q, dq, name="q"), requantise, "no round trip through float"),
        Fold("integer", op(q, op(operators, name="f"), name="q"), to_integer, "integer arithmetic"),
        Fold("dequantise-late", op(movers, dq, name="mover"), dequantise_after, "moves bytes instead of floats"),
        Fold("quantise-early", op(q, op(movers, name="mover"), name="q"), quantise_before,
             "moves bytes instead of floats"),
    )
