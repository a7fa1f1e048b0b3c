"""Invariants of a graph, checked after every pass."""
from __future__ import annotations

from fuse2c.errors import InternalError
from fuse2c.ir.graph import Graph, Node


def verify(g: Graph) -> None:
    """Raise InternalError unless each tensor is typed, defined once and before use, and fused bodies are consistent."""
    seen = set(g.inputs) | {t.name for t in g.tensors.values() if t.data is not None}
    for n in g.nodes:
        for t in filter(None, n.inputs):
            if t not in g.tensors:
                raise InternalError("a tensor has no type", node=n.name, tensor=t)
            if t not in seen:
                raise InternalError("a tensor is used before it is defined", node=n.name, tensor=t)
        for t in n.outputs:
            if t in seen:
                raise InternalError("a tensor is defined twice", node=n.name, tensor=t)
            seen.add(t)
        _body(n, seen)
    for t in g.outputs:
        if t not in seen:
            raise InternalError("an output is never written", tensor=t)
    for tensor in g.tensors.values():
        order, shape = tensor.type.order, tensor.type.shape
        if sorted(tensor.type.storage) != list(range(len(shape))):
            raise InternalError(f"storage order {order} does not fit the shape {shape}", tensor=tensor.name)


def _body(n: Node, seen: set[str]) -> None:
    """A fused body reads only the node's inputs or its own results, and ends in the node's outputs."""
    if not n.body:
        return
    made = {t for b in n.body for t in b.outputs}
    for b in n.body:
        for t in filter(None, b.inputs):
            if t not in n.inputs and t not in made:
                raise InternalError("a fused body reads a tensor from outside", node=n.name, tensor=t)
    if not set(n.outputs) <= made:
        raise InternalError("a fused body does not write its output", node=n.name)
    if (inner := made - set(n.outputs)) & seen:
        raise InternalError("a fused body writes a tensor that is defined elsewhere", node=n.name,
                            tensor=min(inner & seen))
