"""Rows of the input arrive one by one (`--input-rows`): a first kernel takes them over into a ring of the arena.

The row is a part along the outermost axis in memory. An input [1,C,H,W] that a window slides over is taken channels
last: a row then holds all channels of its pixels, as a sensor delivers them. The pass `stream` must find a schedule in
which the rows are used up as they come; it says so if there is none.
"""
from __future__ import annotations

from dataclasses import replace

from fuse2c.errors import PlanError
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import TensorType
from fuse2c.ops import all_ops
from fuse2c.ops.cast import Attrs
from fuse2c.passes._rows import height
from fuse2c.plan import Plan


def run(plan: Plan) -> Plan:
    """The same plan without --input-rows; else with a copy of the input, row for row, that every reader reads instead."""
    if not plan.options.input_rows:
        return plan
    if len(plan.inputs) != 1 or plan.options.stateful:
        raise refused(f"the model has {len(plan.inputs)} inputs" if len(plan.inputs) != 1 else "the model keeps states")
    if plan.options.arena == "caller":
        raise refused("how many rows have come is kept beside the arena, which --arena caller rules out")
    (x,) = plan.inputs
    g = plan.graph
    t = g.type(x)
    if _under_window(g, x):
        t = replace(t, order=(0, *range(2, len(t.shape)), 1))
    if x in g.outputs or not g.users(x):
        raise refused("the input is an output, or nothing reads it", x)
    if height(t) < 2 or len(t.memory_axes) < 2:
        raise refused(f"an input of shape {list(t.shape)} has no rows of several elements", x)
    return replace(plan, graph=_copied(g, x, t)).decide("push", (x, True, f"{height(t)} rows are pushed one by one"))


def refused(reason: str, tensor: str = "") -> PlanError:
    """Why rows cannot be pushed."""
    return PlanError(f"--input-rows: {reason}", tensor=tensor, hint="leave --input-rows out")


def _under_window(g: Graph, x: str) -> bool:
    """Whether the first operator that is not elementwise slides windows over the input's own axes."""
    node = g.only_user(x)
    while node is not None and all_ops()[node.op].layout == "same":
        node = g.only_user(node.outputs[0])
    return node is not None and all_ops()[node.op].layout == "spatial" and g.type(x).shape[0] == 1


def _copied(g: Graph, x: str, t: TensorType) -> Graph:
    rows = Tensor(g.fresh(f"{x}.rows"), t)
    copy = Node(f"{x}.push", "Cast", (x,), (rows.name,), Attrs(t.dtype))
    nodes = tuple(replace(n, inputs=tuple(rows.name if i == x else i for i in n.inputs)) for n in g.nodes)
    return replace(g.retype({x: t}), nodes=(copy, *nodes), tensors={**g.tensors, x: Tensor(x, t), rows.name: rows})
