"""The graph: immutable, in execution order, edges are tensor names."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fuse2c.ir.types import TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A named value; `data` is there for constants only (logical shape)."""

    name: str
    type: TensorType
    data: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. An input named "" is absent. A fused node keeps the nodes it replaced in `body`."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: object = None
    body: tuple[Node, ...] = ()
    origin: tuple[str, ...] = ()        # names of the ONNX nodes it came from
    quantised: bool = False             # computes on stored values of the real numbers that its types' scales mean

    @property
    def parts(self) -> tuple[Node, ...]:
        """The nodes to run, in order, for the meaning of this one."""
        return self.body or (self,)


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order, and every tensor they name."""

    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str = field(default="model")
    requant: str = field(default="fixed")      # how integer operators round: "fixed" or "float", see quant.py

    @cached_property
    def _producers(self) -> dict[str, Node]:
        return {t: n for n in self.nodes for t in n.outputs}

    @cached_property
    def _users(self) -> dict[str, tuple[Node, ...]]:
        users: dict[str, list[Node]] = {}
        for n in self.nodes:
            for t in dict.fromkeys(n.inputs):
                users.setdefault(t, []).append(n)
        return {t: tuple(found) for t, found in users.items()}

    def producer(self, tensor: str) -> Node | None:
        """The node that writes `tensor`; None for inputs and constants."""
        return self._producers.get(tensor)

    def users(self, tensor: str) -> tuple[Node, ...]:
        """The nodes that read `tensor`."""
        return self._users.get(tensor, ())

    def only_user(self, tensor: str) -> Node | None:
        """The single reader of `tensor`, when nobody else (caller included) sees it."""
        users = self.users(tensor)
        return users[0] if len(users) == 1 and tensor not in self.outputs else None

    def type(self, tensor: str) -> TensorType:
        """The type of a tensor."""
        return self.tensors[tensor].type

    def data(self, tensor: str) -> np.ndarray | None:
        """The constant's value; None for a variable or an absent input."""
        return self.tensors[tensor].data if tensor in self.tensors else None

    def swap(self, old: Iterable[Node], new: Iterable[Node], tensors: Iterable[Tensor] = ()) -> Graph:
        """A graph in which `new` stands where the last of `old` stood."""
        gone = set(map(id, old))
        last = max(i for i, n in enumerate(self.nodes) if id(n) in gone)
        keep_before = tuple(n for n in self.nodes[:last] if id(n) not in gone)
        return replace(self, nodes=keep_before + tuple(new) + self.nodes[last + 1:],
                       tensors={**self.tensors, **{t.name: t for t in tensors}})

    def sorted(self) -> Graph:
        """The same graph with each node behind those that it reads; otherwise in the order as it is."""
        pending, known = list(self.nodes), set(self.inputs) | {t for t, v in self.tensors.items() if v.data is not None}
        ordered: list[Node] = []
        while pending:
            left = []
            for n in pending:
                if all(t in known for t in n.inputs if t):
                    ordered.append(n)
                    known.update(n.outputs)
                else:
                    left.append(n)
            if len(left) == len(pending):
                raise ValueError(f"a cycle through {left[0].name}")
            pending = left
        return replace(self, nodes=tuple(ordered))

    def retype(self, types: Mapping[str, TensorType]) -> Graph:
        """The same graph with other types for some tensors."""
        changed = {n: replace(self.tensors[n], type=t) for n, t in types.items()}
        return replace(self, tensors={**self.tensors, **changed})

    def rename(self, names: Mapping[str, str]) -> Graph:
        """Every reference to a key becomes a reference to its value (graph outputs too)."""
        def new(t: str) -> str:
            return names.get(t, t)
        nodes = tuple(replace(n, inputs=tuple(map(new, n.inputs)), outputs=tuple(map(new, n.outputs)))
                      for n in self.nodes)
        return replace(self, nodes=nodes, outputs=tuple(map(new, self.outputs)))

    def pruned(self) -> Graph:
        """Without nodes whose results nobody reads, and without tensors that nobody names."""
        wanted, kept = set(self.outputs), []
        for n in reversed(self.nodes):
            if any(t in wanted for t in n.outputs):
                kept.append(n)
                wanted.update(t for part in n.parts for t in part.inputs)
                wanted.update(t for part in n.parts for t in part.outputs)
        wanted.update(self.inputs)
        return replace(self, nodes=tuple(reversed(kept)),
                       tensors={k: t for k, t in self.tensors.items() if k in wanted})

    def fresh(self, base: str) -> str:
        """A tensor name that is not in use."""
        name, count = base, 1
        while name in self.tensors:
            name, count = f"{base}.{count}", count + 1
        return name
