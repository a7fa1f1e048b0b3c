"""What elementwise operators behind a kernel can be computed four elements at a time."""
from __future__ import annotations

from fuse2c.ir.graph import Graph, Node
from fuse2c.op import Call, Scalar, bind
from fuse2c.ops import all_ops


def only_elements(c: Call) -> str:
    """Why what is fused behind a call is no function of each element alone, with a form for four of them; else empty."""
    if c.group is None:
        return ""
    graph, node = c.group.graph, c.group.node
    if len(node.outputs) > 1:
        return "more than one result"
    for n in node.parts[1:]:
        s = scalar(graph, n)
        if s.clamp is None and (not s.words or sum(t != "" for t in n.inputs) > 1):
            return f"{n.op} behind it is no function of one element with a form for four"
    return ""


def finishes_fours(c: Call) -> str:
    """Why the elementwise operators of a call cannot be computed four elements at a time; empty if they can."""
    first = scalar(c.group.graph, c.group.node.parts[0]) if c.group is not None else None
    if first is None or not first.words:
        return "it has no form for four elements at a time"
    return only_elements(c)


def scalar(g: Graph, n: Node) -> Scalar:
    """What an elementwise operator does to an element."""
    op = all_ops()[n.op]
    assert op.scalar is not None
    return op.scalar(bind(g, n))
