"""Every fusion fuse2c knows, in order of preference. Add an entry; nothing else changes."""
from __future__ import annotations

from math import prod

import numpy as np

from fuse2c.fusion.dsl import Fuse, Group, made, results
from fuse2c.ir.graph import Graph, Node
from fuse2c.ops import all_ops
from fuse2c.ops._tail import channel_vector
from fuse2c.ops.base import bind


def is_scalar(node: Node) -> bool:
    """Whether the whole of a node computes one element from one element of each operand."""
    return all(all_ops()[n.op].scalar is not None for n in node.parts)


def computable(g: Graph, node: Node) -> str:
    """Whether there is C for each operator, with these types."""
    for n in node.parts:
        call = bind(g, n)
        if why := [k.when(call) for k in all_ops()[n.op].kernels if k.when(call)]:
            if len(why) == len(all_ops()[n.op].kernels):
                return why[0]
    return ""


# --- epilogues: an anchor and the elementwise operators behind it ---

def finishes(g: Graph, group: Group, node: Node) -> str:
    """An elementwise operator on the anchor's elements, with operands that the finishing function can read."""
    anchor = group[0]
    if not is_scalar(node):
        return f"{node.op} is not elementwise"
    have, want = g.type(anchor.outputs[0]).shape, g.type(node.outputs[0]).shape
    if have != want or len(node.outputs) != 1:
        return f"the result {want} has another shape than the anchor's {have}"
    op, y = all_ops()[anchor.op], g.type(anchor.outputs[0])
    for t in (t for n in node.parts for t in n.inputs if t and t not in made((*group, node))):
        x = g.type(t)
        constant = g.data(t) is not None
        if not ((constant and x.count == 1) or channel_vector(op, y, x) or (x.shape == y.shape and not constant)):
            return f"{t} is neither one number, nor one a channel, nor of the result's shape"
    return computable(g, node)


def one_result(g: Graph, group: Group) -> str:
    """One tensor leaves the group, and its last node writes it."""
    found = results(g, group)
    outside = [t for t in found if t not in group[-1].outputs]
    return f"{outside[0]} is also read by {_readers(g, group, outside[0])}" if outside else ""


def _readers(g: Graph, group: Group, tensor: str) -> str:
    names = [u.name for u in g.users(tensor) if u not in group]
    return ", ".join(names) or "the caller"


def aligned_operands(g: Graph, group: Group) -> str:
    """Operands of the result's shape lie in memory exactly as the result does."""
    y, inside = g.type(group[-1].outputs[0]), made(group)
    parts = [*group[0].parts[1:], *(p for n in group[1:] for p in n.parts)]
    for t in (t for n in parts for t in n.inputs if t and t not in inside and g.data(t) is None):
        x = g.type(t)
        if x.shape == y.shape and x.memory_axes != y.memory_axes:
            return f"{t} lies in another order"
    return ""


def writable_order(g: Graph, group: Group) -> str:
    """The anchor's kernel can write the result in the order in which it lies."""
    y, layout = g.type(group[-1].outputs[0]), all_ops()[group[0].op].layout
    if layout == "row-major" and not y.row_major:
        return "the anchor writes row-major order only"
    return "" if layout != "spatial" or y.batch_first else "the images of the batch do not follow one another"


# --- elementwise: any number of elementwise operators over one iteration space ---

def alongside(g: Graph, group: Group, node: Node) -> str:
    """Elementwise, over the same elements; a smaller result is computed again for each element that it meets."""
    if not is_scalar(node):
        return f"{node.op} is not elementwise"
    every = (*group, node)
    widest = widest_shape(g, every)
    for n in every:
        shape = g.type(n.outputs[0]).shape
        if np.broadcast_shapes(shape, widest) != widest:
            return f"the results {shape} and {widest} are of two iteration spaces"
        if prod(shape) != prod(widest) and any(all_ops()[p.op].costly(bind(g, p)) for p in n.parts):
            return f"{n.outputs[0]} would be computed again for each element of {widest}"
    return computable(g, node)


def widest_shape(g: Graph, group: Group) -> tuple[int, ...]:
    """The shape that the results of a group broadcast to."""
    return max((g.type(t).shape for n in group for t in n.outputs), key=lambda shape: (prod(shape), len(shape)))


def full_results(g: Graph, group: Group) -> str:
    """All tensors that leave the group have its whole shape."""
    shapes = {g.type(t).shape for t in results(g, group)}
    return "" if len(shapes) == 1 and shapes == {widest_shape(g, group)} else "the results differ in shape"


def anchors() -> frozenset[str]:
    """Operators whose kernels take an epilogue."""
    return frozenset(o.name for o in all_ops().values() if o.anchor)


def scalars() -> frozenset[str]:
    """Operators that can be an epilogue."""
    return frozenset(o.name for o in all_ops().values() if o.scalar)


def rules() -> tuple[Fuse, ...]:
    """All fusions."""
    return (
        Fuse("epilogue", anchors() - scalars(), finishes, (one_result, aligned_operands, writable_order),
             pays="the anchor's result stays in a register: one write, one read and one launch less"),
        Fuse("elementwise", scalars(), alongside, (full_results,), into="Elementwise", upwards=True,
             pays="one loop: every element is loaded once, intermediates stay in registers"),
    )
