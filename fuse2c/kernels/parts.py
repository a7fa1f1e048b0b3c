"""Collects the simpler operators of which another one consists inside a loop nest."""
from __future__ import annotations

from dataclasses import dataclass, field

from fuse2c.ir.graph import Node
from fuse2c.ir.types import TensorType
from fuse2c.op import Expansion


@dataclass(slots=True)
class Parts:
    """Nodes and the types of their results; names start with that of the tensor that is computed."""

    base: str
    nodes: list[Node] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)

    def add(self, op: str, inputs: tuple[str, ...], attrs: object, t: TensorType, out: str = "") -> str:
        """One more operator; returns the tensor that it writes."""
        y = out or f"{self.base}.{op}.{len(self.nodes)}"
        self.nodes.append(Node(y, op, inputs, (y,), attrs))
        self.types[y] = t
        return y

    @property
    def done(self) -> Expansion:
        """All of it."""
        return Expansion(tuple(self.nodes), self.types)
