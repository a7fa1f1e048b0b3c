"""Fused reductions, products and elementwise operators as a program: for each row a few passes over its elements.

The outer axes of a group are those along which all of its operators work independently. One step of the outer loops
is a row. Inside it, a pass is a loop nest over the elements of one shape; what one pass computes and a later one reads
is a number a row (a sum, a maximum), is computed again where that is cheap, or is stored: in a result if it is one,
else in scratch memory of one row. No tensor is ever held as a whole.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import COMPUTE
from fuse2c.op import Contraction, Expansion, Join, Lookup, NestForm, Reduction, Regroup, Remap, bind
from fuse2c.ops import all_ops

AGAIN = 3               # cheap operators that are computed a second time rather than stored
WIDE = frozenset({"int64_t", "uint64_t", "double"})
SCRATCH = 4096          # bytes of scratch of one kernel, at most


class NoNest(Exception):
    """Why a group is no loop nest."""


@dataclass(frozen=True, slots=True)
class Item:
    """One operator of the program; elementwise ones have no form."""

    node: Node
    form: NestForm | None

    @property
    def y(self) -> str:
        """The tensor that it writes."""
        return self.node.outputs[0]

    @property
    def computed(self) -> bool:
        """Whether it computes elements; else it moves or joins them."""
        return self.form is None or isinstance(self.form, (Reduction, Contraction))


@dataclass(slots=True)
class Pass:
    """One loop nest over elements of shape `inner`; then `after`: numbers that the row has one of."""

    inner: tuple[int, ...]
    items: list[Item] = field(default_factory=list)
    after: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class Program:
    """See the module. `outer`: axes; `rows`: stored tensor -> its first element in scratch."""

    graph: Graph                        # with the tensors between the parts of expanded operators
    outer: tuple[int, ...]
    order: tuple[Item, ...]
    items: dict[str, Item]              # by the tensor written; of several that join one tensor, the last
    results: tuple[str, ...]
    before: list[Item] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    at: dict[str, int] = field(default_factory=dict)        # tensor -> its pass; -1: before the first
    stored: set[str] = field(default_factory=set)

    def shape(self, t: str) -> tuple[int, ...]:
        """A tensor's shape."""
        return self.graph.type(t).shape

    def inner(self, t: str) -> tuple[int, ...]:
        """Extents on the inner axes."""
        return tuple(n for axis, n in enumerate(self.shape(t)) if axis not in self.outer)

    def is_number(self, t: str) -> bool:
        """Whether the row has one element of a tensor that is computed here."""
        return t in self.items and prod(self.inner(t)) == 1

    @property
    def hosts(self) -> dict[str, str]:
        """Stored tensors that lie where a result is written later, element for element: each -> that result."""
        found: dict[str, str] = {}
        for t in (t for t in self.items if t in self.stored and t not in self.results):
            host = next((y for y in self.results if y not in found.values() and self._hosts(y, t)), None)
            if host is not None:
                found[t] = host
        return found

    def _hosts(self, y: str, t: str) -> bool:
        """Whether nobody reads an element of `t` after that of `y` is written in its place."""
        kind = self.graph.type(t).dtype
        moved = any(isinstance(i.form, (Remap, Regroup)) for i in self.order if t in i.node.inputs)
        return (self.inner(y) == self.inner(t) and self.graph.type(y).dtype == kind and not kind.is_half
                and not kind.is_quantised and not self.is_number(y) and y not in self.stored and not moved
                and self.may_follow(t, y))

    def may_follow(self, t: str, y: str) -> bool:
        """Whether an element of `y` may be stored where that of `t` lies: all reads of it come before."""
        free = self.free_from(t)
        # In one pass an element is loaded when it is first needed: certainly before what is computed from it is stored.
        return free <= self.at[y] or (free == self.at[y] + 0.5 and self._computed_from(y, t))

    def _computed_from(self, y: str, t: str) -> bool:
        """Whether `y` needs the element of `t` that lies at its own place."""
        item = self.items.get(y)
        return item is not None and item.form is None and any(
            x == t or (x not in self.stored and self._computed_from(x, t)) for x in item.node.inputs)

    def free_from(self, t: str) -> float:
        """The first pass that may write over a stored row; n + 0.5: pass n may, element for element as it reads."""
        last = 0.0
        for item in (i for i in self.order if t in i.node.inputs):
            if isinstance(item.form, (Remap, Regroup)):
                last = max(last, self.free_from(item.y), self.at[item.y] + 1.0)
            else:
                alike = item.form is None and self.inner(item.y) == self.inner(t) and not self.is_number(item.y)
                again = item.form is None and item.y not in self.stored and not self.is_number(item.y)
                last = max(last, self.at[item.y] + (0.5 if alike else 1.0), self.free_from(item.y) if again else 0.0)
        return last

    @property
    def rows(self) -> dict[str, int]:
        """Where the stored tensors that are no results, and lie in none, lie in scratch, in elements."""
        found, end, hosted = dict[str, int](), 0, self.hosts
        there: dict[int, str] = {}                      # offset -> the tensor that lies there last
        for t in (t for t in self.items if t in self.stored and t not in self.results and t not in hosted):
            size = prod(self.inner(t))
            fits = [o for o, u in there.items() if prod(self.inner(u)) == size and self.may_follow(u, t)
                    and not isinstance(self.items[t].form, Join)]
            found[t] = fits[0] if fits else end
            end += 0 if fits else size
            there[found[t]] = t
        return found

    @property
    def scratch(self) -> int:
        """Bytes of scratch."""
        wide = any(COMPUTE[self.graph.type(t).dtype] in WIDE for t in self.rows)
        return max((at + prod(self.inner(t)) for t, at in self.rows.items()), default=0) * (8 if wide else 4)


def build(g: Graph, nodes: Sequence[Node], results: tuple[str, ...]) -> Program:
    """The program of a group; raises NoNest."""
    g, items = _expanded(g, [part for n in nodes for part in n.parts])
    by_name = {i.y: i for i in items}
    p = Program(g, _outer(g, items, by_name), tuple(items), by_name, results)
    for item in items:
        _schedule(p, item)
    kinds = {COMPUTE[g.type(t).dtype] for t in p.rows}
    if len(kinds) > 1:
        raise NoNest("rows of different types")
    if p.scratch > SCRATCH:
        raise NoNest(f"{p.scratch} bytes of scratch, at most {SCRATCH}")
    for t in results:
        if not (by_name[t].computed or isinstance(by_name[t].form, Join)) \
                and not (isinstance(by_name[t].form, Regroup) and p.is_number(t)):
            raise NoNest(f"{t} is only moved")
    return p


def _expanded(g: Graph, parts: Iterable[Node]) -> tuple[Graph, list[Item]]:
    """Operators that consist of simpler ones as these."""
    items = []
    for part in parts:
        op = all_ops()[part.op]
        form = None if op.scalar is not None else op.nest(bind(g, part))
        if isinstance(form, str):
            raise NoNest(form)
        if isinstance(form, Expansion):
            g = replace(g, tensors={**g.tensors, **{t: Tensor(t, kind) for t, kind in form.types.items()
                                                    if t not in g.tensors}})
            g, inner = _expanded(g, form.nodes)
            items += inner
        elif isinstance(form, Join):
            starts = np.cumsum([0, *(g.type(t).shape[form.axis] for t in part.inputs)])
            items += [Item(replace(part, inputs=(t,)), Join(form.axis, int(at)))
                      for t, at in zip(part.inputs, starts, strict=False) if g.type(t).count]
        else:
            items.append(Item(part, form))
    return g, items


def _outer(g: Graph, items: Sequence[Item], own: dict[str, Item]) -> tuple[int, ...]:
    """The axes along which all operators of a group work independently."""
    shape = {t: g.type(t).shape for i in items for t in (*i.node.inputs, i.y) if t}
    ranks = {len(shape[i.y]) for i in items}
    axes = [a for a in range(min(ranks)) if len({shape[i.y][a] for i in items}) == 1]
    if len(ranks) > 1 or any(isinstance(i.form, Regroup) for i in items):
        axes = [a for position, a in enumerate(axes) if a == position]      # a prefix
    looked_up = 0
    for i in items:
        inside = [t for t in i.node.inputs if t in own]
        if isinstance(i.form, Reduction):
            axes = [a for a in axes if a not in i.form.axes]
        elif isinstance(i.form, Contraction):
            axes = [a for a in axes if a < len(shape[i.y]) - 1]
            row, matrix = own.get(i.node.inputs[0]), own.get(i.node.inputs[1])
            if row is not None and isinstance(row.form, Remap) and not _in_steps(row.form.maps[-1]):
                raise NoNest(f"the elements of {row.y} are picked by a table")
            if matrix is not None and not _read_in_place(matrix, own):
                raise NoNest(f"the matrix {i.node.inputs[1]} would have to be stored as a whole")
        elif isinstance(i.form, Lookup):
            axes = [a for a in axes if a < len(shape[i.node.inputs[1]])]
            looked_up = max(looked_up, len(shape[i.node.inputs[1]]))
        elif isinstance(i.form, Remap) and inside:
            axes = [a for a in axes if list(i.form.maps[a]) == list(range(shape[i.y][a]))]
        if isinstance(i.form, Join):
            axes = [a for a in axes if a != i.form.axis]
        for t in inside:
            lost = len(shape[i.y]) - len(shape[t]) if i.form is None or isinstance(i.form, Join) else 0
            axes = [a for a in axes if a < len(shape[t]) and not lost and shape[t][a] == shape[i.y][a]]
    if any(a not in axes for a in range(looked_up)):
        raise NoNest("the indices of a table are reduced over")
    return tuple(axes)


def _read_in_place(matrix: Item, own: dict[str, Item]) -> bool:
    """Whether a matrix is an operand whose matrices are picked by an index map: its rows and columns are in steps."""
    return isinstance(matrix.form, Remap) and matrix.node.inputs[0] not in own and all(map(_in_steps, matrix.form.maps[-2:]))


def _in_steps(indices: Sequence[int]) -> bool:
    """Whether indices grow by the same step."""
    return len(set(np.diff(indices).tolist())) < 2


def _schedule(p: Program, item: Item) -> None:
    """Give an operator its pass."""
    form, y = item.form, item.y
    if isinstance(form, (Remap, Regroup, Lookup)):
        _movement(p, item)
        return
    if isinstance(form, Join):
        _join(p, item, form)
        return
    first = 0
    for t in dict.fromkeys(item.node.inputs):
        if t in p.items:
            first = max(first, _available(p, item, t))
    if isinstance(form, Contraction) and (prod(p.inner(y)) != p.inner(y)[-1] or p.is_number(y)):
        raise NoNest(f"the rows of {y} are no vectors")
    shape = p.inner(y)
    if isinstance(form, Reduction) and p.is_number(y):
        x = item.node.inputs[0]
        shape = p.inner(x)
        if "{i}" in "".join(a.update for a in form.accumulators) and prod(shape) != p.shape(x)[form.axes[-1]]:
            raise NoNest("an index over several axes")
    elif p.is_number(y) and not isinstance(form, Contraction):
        p.at[y] = max((p.at[t] for t in item.node.inputs if t in p.items), default=-1)
        (p.before if p.at[y] < 0 else p.passes[p.at[y]].after).append(item)
        return
    place = next((i for i in range(first, len(p.passes)) if p.passes[i].inner == shape
                  and _alike(p.passes[i], item)), len(p.passes))
    if place == len(p.passes):
        p.passes.append(Pass(shape))
    p.passes[place].items.append(item)
    p.at[y] = place
    for t in item.node.inputs:
        if t in p.items:
            _reached(p, t, place)


def _join(p: Program, item: Item, form: Join) -> None:
    """A part of a joined tensor is stored in a pass over its own elements."""
    x, y = item.node.inputs[0], item.y
    if p.is_number(y):
        raise NoNest("numbers of a row are joined")
    shape = tuple(n for axis, n in enumerate(p.shape(x)) if axis not in p.outer)
    first = 0
    if x in p.items:
        moved = not p.items[x].computed
        first = max(0, p.at[x] + (1 if p.is_number(x) and not moved else 0))
    place = next((i for i in range(first, len(p.passes)) if p.passes[i].inner == shape), len(p.passes))
    if place == len(p.passes):
        p.passes.append(Pass(shape))
    p.passes[place].items.append(item)
    p.at[y] = max(p.at.get(y, 0), place)
    p.stored.add(y)
    if x in p.items:
        _reached(p, x, place)


def _alike(found: Pass, item: Item) -> bool:
    """A product over k elements shares its pass with elementwise operators, not with one that is read before it."""
    return not isinstance(item.form, Contraction) or all(
        isinstance(i.form, Contraction) or i.form is None for i in found.items)


def _available(p: Program, item: Item, t: str) -> int:
    """The first pass in which an operator may read `t`; marks `t` as stored where nothing else will do."""
    if p.is_number(t):
        if isinstance(item.form, Contraction):
            raise NoNest(f"{t} has one element a row")
        return p.at[t] + 1
    # A reduction to more than a number has a loop of its own for each of its elements, a product one over k.
    moved = not p.items[t].computed
    apart = isinstance(item.form, Contraction) or (isinstance(item.form, Reduction) and not p.is_number(item.y))
    other = p.inner(t) != (p.inner(item.node.inputs[0]) if isinstance(item.form, Reduction) else p.inner(item.y))
    if isinstance(p.items[t].form, Join):
        return p.at[t] + 1
    if moved:
        return p.at[t]
    if apart or other:
        p.stored.add(t)
        return p.at[t] + 1
    return p.at[t]


def _reached(p: Program, t: str, place: int) -> None:
    """A value of an earlier pass is computed again if that is cheap, else stored."""
    if p.at[t] < place and not p.is_number(t) and t not in p.stored and again(p, t) > AGAIN and p.items[t].computed:
        p.stored.add(t)


def again(p: Program, t: str) -> int:
    """Operators to compute `t` once more from what lies in memory and numbers of the row; large where it is costly."""
    if t not in p.items or t in p.stored or p.is_number(t):
        return 0
    item = p.items[t]
    if item.form is not None:
        return 0 if not isinstance(item.form, (Reduction, Contraction)) else AGAIN + 1
    if all_ops()[item.node.op].costly(bind(p.graph, item.node)):
        return AGAIN + 1
    return 1 + sum(again(p, x) for x in dict.fromkeys(item.node.inputs) if x)


def _movement(p: Program, item: Item) -> None:
    """What only moves elements is read in place, from outside or from a stored row."""
    source = item.node.inputs[0]
    if isinstance(item.form, Lookup) and (source in p.items or item.node.inputs[1] in p.items):
        raise NoNest("a table or its indices are computed in the group")
    if isinstance(item.form, Regroup) and source not in p.items:
        raise NoNest("a reshape of an operand")
    moved = source in p.items and isinstance(p.items[source].form, (Remap, Lookup))
    if isinstance(item.form, Regroup) and p.is_number(source) and p.is_number(item.y) and not moved:
        p.at[item.y] = p.at[source]
        (p.before if p.at[source] < 0 else p.passes[p.at[source]].after).append(item)
        return
    if source in p.items:
        if p.is_number(source) or not p.items[source].computed:
            raise NoNest("a movement of what was moved, or of one number")
        p.stored.add(source)
        p.at[item.y] = p.at[source] + 1
    else:
        p.at[item.y] = -1 if prod(p.inner(item.y)) == 1 else 0
