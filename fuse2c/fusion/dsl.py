"""The words in which fusions are written."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product

from fuse2c.ir.graph import Graph, Node, Tensor

Match = dict[str, Node]
Check = Callable[[Graph, Match], str]       # "" or the reason why not


@dataclass(frozen=True, slots=True)
class Pat:
    """An operator, with patterns for the inputs that must come from inside the match."""

    ops: frozenset[str]
    name: str
    inputs: tuple[Pat, ...] = ()


def op(names: str | Iterable[str], *inputs: Pat, name: str = "") -> Pat:
    """op("Add|Mul", op("Conv")): either of two operators, fed by a convolution."""
    ops = frozenset(names.split("|") if isinstance(names, str) else names)
    return Pat(ops, name or "|".join(sorted(ops)), inputs)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a fold wants: `new` nodes and tensors instead of `old`; then tensors renamed throughout the graph.

    `note`: what is not exact about it, for --why.
    """

    old: tuple[Node, ...]
    new: tuple[Node, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    rename: dict[str, str] = field(default_factory=dict)
    note: str = ""

    def apply(self, g: Graph) -> Graph:
        """The rewritten graph."""
        return g.swap(self.old, self.new, self.tensors).rename(self.rename) if self.rename else \
            g.swap(self.old, self.new, self.tensors)


@dataclass(frozen=True, slots=True)
class Fold:
    """Replace a match by nodes with new constants; `rewrite` returns them, or the reason why not."""

    name: str
    match: Pat
    rewrite: Callable[[Graph, Match], Rewrite | str]
    pays: str = ""


@dataclass(frozen=True, slots=True)
class Fuse:
    """Turn a chain into one node. Its meaning is, by construction, its body run in order."""

    name: str
    match: Pat
    into: str                       # pattern name of the node whose kernel takes the rest as its epilogue
    where: tuple[Check, ...] = ()
    pays: str = ""                  # one line for the report: why this is worth having


def find(g: Graph, root: Node, pat: Pat) -> Iterator[Match]:
    """All matches of `pat` that end at `root`; producers first, so the order is execution order."""
    if root.op not in pat.ops:
        return
    producers = [p for t in dict.fromkeys(root.inputs) if (p := g.producer(t)) is not None]
    choices = [[m for p in producers for m in find(g, p, sub)] for sub in pat.inputs]
    for combination in product(*choices):
        found: Match = {}
        for m in combination:
            found |= m
        yield found | {pat.name: root}


def inner_use(g: Graph, m: Match) -> str:
    """Every result but the last is read inside the match only."""
    nodes = list(m.values())
    for n in nodes[:-1]:
        outside = [u.name for t in n.outputs for u in g.users(t) if u not in nodes]
        if outside or any(t in g.outputs for t in n.outputs):
            return f"{n.outputs[0]} is also read by {', '.join(outside) or 'the caller'}"
    return ""
