"""Inputs and outputs as the user wants them (--io), and a graph without dead code.

The importer has already refused, all at once, every node that is no operator of ours.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuse2c.errors import PlanError, ShapeError, did_you_mean
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import DType, Quant, TensorType
from fuse2c.ops.elementwise import Attrs
from fuse2c.plan import Plan


def run(plan: Plan) -> Plan:
    """Apply --io, drop dead code, keep the graph as the model's own meaning."""
    g = plan.graph
    _check_states(plan)
    if plan.options.io == "int8":
        g = _stored_outputs(_stored_inputs(g, plan.inputs), plan.outputs)
    elif plan.options.io == "float":
        g = _real_outputs(_real_inputs(g, plan.inputs), plan.outputs)
    g = g.pruned()
    return replace(plan, graph=g, source=g)


def _check_states(plan: Plan) -> None:
    """Each pair of --stateful is an input and an output that hold the same; --io leaves both as the model has them."""
    g, seen = plan.graph, set[str]()
    for pair in plan.options.stateful:
        for what, name, known in (("input", pair[0], g.inputs), ("output", pair[1], g.outputs)):
            if name not in known:
                raise PlanError(f"--stateful: the model has no {what} called {name!r}", hint=did_you_mean(name, known))
        x, y = (g.type(t) for t in pair)
        if pair[0] in seen:
            raise PlanError("--stateful: an input is named twice", tensor=pair[0], hint="one output for each input")
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            raise ShapeError(f"--stateful: {pair[0]} is {x.dtype.value} {list(x.shape)}, but {pair[1]} is "
                             f"{y.dtype.value} {list(y.shape)}", tensor=pair[1],
                             hint="a state has one type and shape; --dim gives a value to a symbolic dimension")
        if not x.count:
            raise ShapeError("--stateful: a state without elements", tensor=pair[0])
        seen.add(pair[0])
    if plan.options.stateful and not plan.outputs:
        raise PlanError("--stateful: every output is a state, and none is left for the caller",
                        hint="leave one output out, or add one to the model")


def _stored_inputs(g: Graph, names: tuple[str, ...]) -> Graph:
    """Drop the QuantizeLinear behind each float input: the firmware then gives stored values."""
    for name in names:
        user = g.only_user(name)
        if g.type(name).dtype.is_float:
            if user is None or user.op != "QuantizeLinear":
                raise PlanError("--io int8: a float input is not quantised by the model", tensor=name,
                                hint="quantise the model, or use --io model")
            t = g.type(user.outputs[0])
            g = replace(g, nodes=tuple(n for n in g.nodes if n is not user)).rename({user.outputs[0]: name})
            g = g.retype({name: t})
    return g


def _stored_outputs(g: Graph, names: tuple[str, ...]) -> Graph:
    """Drop the DequantizeLinear before each float output."""
    for name in names:
        dq = g.producer(name)
        if g.type(name).dtype.is_float:
            if dq is None or dq.op != "DequantizeLinear":
                raise PlanError("--io int8: a float output is not dequantised by the model", tensor=name,
                                hint="quantise the model, or use --io model")
            stored = dq.inputs[0]
            if stored in g.outputs or stored in g.inputs or g.data(stored) is not None:
                raise PlanError("--io int8: the stored output is an input, a constant, or another output", tensor=name,
                                hint="use --io model")
            t = g.type(stored)
            g = replace(g, nodes=tuple(n for n in g.nodes if n is not dq)).rename({stored: name}).retype({name: t})
    return g


def _real_inputs(g: Graph, names: tuple[str, ...]) -> Graph:
    """A QuantizeLinear behind each stored input."""
    for name in names:
        t = g.type(name)
        quant = t.quant or next((g.type(d.inputs[0]).quant for d in g.users(name)), None)
        if t.dtype.is_float or quant is None:
            continue
        stored = Tensor(g.fresh(f"{name}.stored"), replace(t, quant=quant))
        nodes = tuple(replace(n, inputs=tuple(stored.name if i == name else i for i in n.inputs)) for n in g.nodes)
        node, constants = _node(g, "QuantizeLinear", f"{name}.quantise", name, stored.name, quant, t.dtype)
        tensors = {**g.tensors, name: Tensor(name, TensorType(DType.F32, t.shape)), stored.name: stored, **constants}
        g = replace(g, nodes=(node, *nodes), tensors=tensors)
    return g


def _real_outputs(g: Graph, names: tuple[str, ...]) -> Graph:
    """A DequantizeLinear before each stored output."""
    for name in names:
        t = g.type(name)
        if t.dtype.is_float or t.quant is None or name in g.inputs:
            continue
        stored = Tensor(g.fresh(f"{name}.stored"), t)
        inner = {name: stored.name}
        nodes = g.rename(inner).nodes
        node, constants = _node(g, "DequantizeLinear", f"{name}.dequantise", stored.name, name, t.quant, t.dtype)
        tensors = {**g.tensors, name: Tensor(name, TensorType(DType.F32, t.shape)), stored.name: stored, **constants}
        g = replace(g, nodes=(*nodes, node), tensors=tensors)
    return g


def _node(g: Graph, op: str, name: str, x: str, y: str, quant: Quant, stored: DType) -> tuple[Node, dict[str, Tensor]]:
    scale = Tensor(g.fresh(f"{name}.scale"), TensorType(DType.F32, ()), np.asarray(quant.scale[0], np.float32))
    zero = Tensor(g.fresh(f"{name}.zero"), TensorType(DType.I32, ()), np.asarray(quant.zero[0], np.int32))
    node = Node(name, op, (x, scale.name, zero.name), (y,), Attrs(), origin=(name,))
    return node, {scale.name: scale, zero.name: zero}
