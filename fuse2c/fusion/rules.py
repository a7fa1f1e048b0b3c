"""Every fusion fuse2c knows, in order of preference. Add an entry; nothing else changes."""
from __future__ import annotations

from fuse2c.fusion.dsl import Fuse, Match, inner_use, op
from fuse2c.ir.graph import Graph
from fuse2c.ops import all_ops


def same_shape(g: Graph, m: Match) -> str:
    """The tail computes one element from each element of the anchor, and no more."""
    anchor, tail = m["anchor"], m["tail"]
    have, want = g.type(anchor.outputs[0]).shape, g.type(tail.outputs[0]).shape
    return "" if have == want else f"the result {want} has another shape than the anchor's {have}"


def aligned_operands(g: Graph, m: Match) -> str:
    """Other operands of the whole tail are single constants, or lie in memory exactly as the result does."""
    anchor, tail = m["anchor"], m["tail"]
    y = g.type(tail.outputs[0])
    made = {t for n in (*anchor.parts, *tail.parts) for t in n.outputs}
    # What the anchor has taken over before counts again: the result may now lie in another order.
    for t in (t for n in (*anchor.parts[1:], *tail.parts) for t in n.inputs):
        if t == "" or t in made or (g.data(t) is not None and g.type(t).count == 1):
            continue
        x = g.type(t)
        if g.data(t) is not None:
            return f"the constant {t} is not a single number"
        if x.shape != y.shape or x.memory_axes != y.memory_axes:
            return f"{t} is broadcast or lies in another order"
    return ""


def writable_order(g: Graph, m: Match) -> str:
    """The anchor's kernel can write the result in the order in which it lies."""
    y, layout = g.type(m["tail"].outputs[0]), all_ops()[m["anchor"].op].layout
    if layout == "row-major" and not y.row_major:
        return "the anchor writes row-major order only"
    return "" if layout != "spatial" or y.batch_first else "the images of the batch do not follow one another"


def anchors() -> frozenset[str]:
    """Operators whose kernels take an epilogue."""
    return frozenset(o.name for o in all_ops().values() if o.anchor)


def scalars() -> frozenset[str]:
    """Operators that can be an epilogue."""
    return frozenset(o.name for o in all_ops().values() if o.scalar)


def rules() -> tuple[Fuse, ...]:
    """All fusions."""
    return (
        Fuse("epilogue", op(scalars(), op(anchors(), name="anchor"), name="tail"), into="anchor",
             where=(inner_use, same_shape, aligned_operands, writable_order),
             pays="the anchor's result stays in a register: one write, one read and one launch less"),
    )
