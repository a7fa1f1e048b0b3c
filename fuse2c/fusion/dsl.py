"""The words in which folds and fusions are written."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from fuse2c.ir.graph import Graph, Node, Tensor

Match = dict[str, Node]
Group = tuple[Node, ...]                            # in execution order
Joins = Callable[[Graph, Group, Node], str]         # may this node join the group? "" or the reason why not
Check = Callable[[Graph, Group], str]               # is the group one kernel? "" or the reason why not


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
    """Replace a match by nodes with new constants; `rewrite` returns them, or the reason why not.

    The reason is "" where there is nothing that anybody would expect to be rewritten: no decision is recorded.
    """

    name: str
    match: Pat
    rewrite: Callable[[Graph, Match], Rewrite | str]
    pays: str = ""


@dataclass(frozen=True, slots=True)
class Fuse:
    """Turn a group of nodes into one. Its meaning is, by construction, its body run in order.

    A group starts at a node of `seeds` and grows over its neighbours for as long as `joins` lets it; the largest
    group that passes all checks of `where` is taken. `into` names the operator whose kernels serve it: "" for the
    seed's own.
    """

    name: str
    seeds: frozenset[str]
    joins: Joins
    where: tuple[Check, ...]
    into: str = ""
    upwards: bool = False           # the group also grows to producers, and to other readers of its operands
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


def barred(barriers: Sequence[str], producer: Node) -> str:
    """Whether the user wants nothing to be fused behind a node."""
    names = [name for name in producer.origin if name in barriers]
    return f"a barrier behind {names[0]}" if names else ""


def inner_use(g: Graph, m: Match) -> str:
    """Every result but the last is read inside the match only."""
    nodes = list(m.values())
    for n in nodes[:-1]:
        outside = [u.name for t in n.outputs for u in g.users(t) if u not in nodes]
        if outside or any(t in g.outputs for t in n.outputs):
            return f"{n.outputs[0]} is also read by {', '.join(outside) or 'the caller'}"
    return ""


def body(group: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes that a group replaces: those of the model, not those fused before."""
    return tuple(part for n in group for part in n.parts)


def made(group: Sequence[Node]) -> set[str]:
    """Every tensor that is written inside a group."""
    return {t for n in body(group) for t in n.outputs}


def operands(group: Sequence[Node]) -> tuple[str, ...]:
    """Tensors that a group reads from outside, in order of first use."""
    own = made(group)
    return tuple(dict.fromkeys(t for n in body(group) for t in n.inputs if t and t not in own))


def results(g: Graph, group: Sequence[Node]) -> tuple[str, ...]:
    """Tensors that others read of a group, in the order in which they are written."""
    members = {id(n) for n in group}
    return tuple(t for n in group for t in n.outputs
                 if t in g.outputs or any(id(u) not in members for u in g.users(t)))
