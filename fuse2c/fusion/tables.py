"""8-bit operators that together are a function of one stored number become a table of its 256 values.

    g(f(x), x) = t[x],  t[i] = g(f(i), i)       x * sigmoid(x), a GELU or a HardSwish in its parts, chains of such operators

The values are those of the model as it is written, in float32: nearer to it than sums and products of stored numbers.
"""
from __future__ import annotations

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, op
from fuse2c.ir.graph import Graph, Node
from fuse2c.kernels import stored
from fuse2c.op import bind
from fuse2c.ops import all_ops
from fuse2c.ops._fours import scalar
from fuse2c.ops.elementwise import Attrs, real


def elementwise() -> frozenset[str]:
    """Operators on single elements that have a form for stored numbers."""
    return frozenset(o.name for o in all_ops().values() if o.scalar is not None and o.layout == "same")


def to_table(g: Graph, m: Match) -> Rewrite | str:
    """The largest part of the graph that ends at a node and depends on one 8-bit tensor only."""
    cone = largest(g, m["node"])
    if len(cone) < 2 or all(scalar(g, n).clamp is not None for n in cone):
        return ""
    (x,) = operands(g, cone)
    low, high = g.type(x).dtype.range
    value = {x: np.arange(low, high + 1).astype(g.type(x).dtype.numpy)}
    for n in cone:
        call = bind(g, n)
        found = [value[t] if t in value else np.asarray(g.data(t)).reshape(()) for t in n.inputs if t]
        value[n.outputs[0]] = stored.as_written(call, real, *found)
    last = cone[-1]
    table = Attrs(tuple(np.broadcast_to(value[last.outputs[0]], (high - low + 1,)).tolist()))
    origin = tuple(dict.fromkeys(name for n in cone for name in n.origin))
    return Rewrite(cone, (Node(last.name, "Table", (x,), last.outputs, table, origin=origin, quantised=True),))


def largest(g: Graph, last: Node) -> tuple[Node, ...]:
    """Nodes in execution order; none where no such part of the graph ends at `last`."""
    cone, found = [last], list[Node]()
    if not _fits(g, last, last):
        return ()
    while True:
        inputs = operands(g, cone)
        x = g.type(inputs[0]) if len(inputs) == 1 else None
        if x is not None and x.dtype.is_quantised and x.shape == g.type(last.outputs[0]).shape:
            found = list(cone)
        grown = next((p for t in inputs if (p := g.producer(t)) is not None and _joins(g, p, cone, last)), None)
        if grown is None:
            return tuple(n for n in g.nodes if n in found)
        cone.append(grown)


def operands(g: Graph, cone: list[Node] | tuple[Node, ...]) -> list[str]:
    """Variable tensors that a part of the graph reads."""
    made = {t for n in cone for t in n.outputs}
    return list(dict.fromkeys(t for n in cone for t in n.inputs if t and t not in made and g.data(t) is None))


def _joins(g: Graph, n: Node, cone: list[Node], last: Node) -> bool:
    """Whether only the cone reads what a node writes."""
    t = n.outputs[0]
    return _fits(g, n, last) and t not in g.outputs and all(u in cone for u in g.users(t))


def _fits(g: Graph, n: Node, last: Node) -> bool:
    """Whether a node computes stored numbers from stored ones and single constants, each from those at its own place."""
    y = g.type(n.outputs[0])
    if not (n.quantised and n.op in elementwise() and len(n.outputs) == 1 and y.dtype.is_quantised):
        return False
    single = all(g.type(t).count == 1 for t in n.inputs if t and g.data(t) is not None)
    return single and y.shape == g.type(last.outputs[0]).shape


def rules() -> tuple[Fold, ...]:
    """The fold."""
    return (Fold("table", op(elementwise(), name="node"), to_table, "one look-up instead of several operators"),)
