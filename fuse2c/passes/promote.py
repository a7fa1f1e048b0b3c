"""16-bit floats where an operator has no kernel for them: float32 in between, one rounding at the end."""
from __future__ import annotations

from dataclasses import replace

from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import DType
from fuse2c.ops import all_ops
from fuse2c.ops.cast import Attrs
from fuse2c.plan import Plan


def run(plan: Plan) -> Plan:
    """Casts around every operator that is not made for halves."""
    g = plan.graph
    for node in g.nodes:
        types = [g.type(t) for t in (*node.inputs, *node.outputs) if t]
        if not all_ops()[node.op].half and any(t.dtype.is_half for t in types):
            g = _wide(g, node)
    return replace(plan, graph=g)


def _wide(g: Graph, node: Node) -> Graph:
    """The node in float32, between casts."""
    tensors: list[Tensor] = []
    before: list[Node] = []
    after: list[Node] = []

    def wide(t: str, suffix: str) -> str:
        if not t or not g.type(t).dtype.is_half:
            return t
        data = g.data(t)
        name = g.fresh(f"{t}.{node.name}.{suffix}")
        tensors.append(Tensor(name, replace(g.type(t), dtype=DType.F32),
                              None if data is None else data.astype(DType.F32.numpy)))
        if suffix == "out":
            after.append(Node(f"{name}.cast", "Cast", (name,), (t,), Attrs(g.type(t).dtype), origin=node.origin))
        elif data is None:
            before.append(Node(f"{name}.cast", "Cast", (t,), (name,), Attrs(DType.F32), origin=node.origin))
        return name
    inputs = tuple(wide(t, f"in{i}") for i, t in enumerate(node.inputs))
    outputs = tuple(wide(t, "out") for t in node.outputs)
    return g.swap((node,), (*before, replace(node, inputs=inputs, outputs=outputs), *after), tensors)
