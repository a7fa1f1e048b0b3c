"""A plan, run on a byte arena that knows who wrote each byte: independent of the passes that placed the buffers.

Which rows of an operand an output row needs is found by changing them and looking at the result, not from the plan.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from graphs import Sample

from fuse2c.check.reference import run_graph, run_step
from fuse2c.ir.types import TensorType, unpack
from fuse2c.plan import Plan, Step

Span = tuple[int, int] | np.ndarray     # logical bytes of a tensor: first..end-1, or each by number


def rows_of(t: TensorType) -> int:
    """Rows of a tensor as it lies in memory: its parts along the outermost axis."""
    return t.shape[t.memory_axes[0]] if t.memory_axes else 1


def axis_of(plan: Plan, step: Step) -> int:
    """The axis of the output along which the kernel computes rows."""
    y = plan.graph.type(step.node.outputs[0])
    return step.spec.along if step.spec.along is not None else y.memory_axes[0] if y.memory_axes else 0


def bytes_of(span: Span) -> np.ndarray:
    """Numbers of the bytes."""
    return np.arange(*span) if isinstance(span, tuple) else span


def part_of(plan: Plan, t: str, row: int | None) -> np.ndarray:
    """The bytes of its owner that a part or a slice is: those of one row as it lies in memory, or all."""
    kind, whole = plan.graph.type(t), plan.graph.type(plan.owner(t))
    numbers = unpack(np.arange(whole.count), whole)
    own = numbers[tuple(slice(b, b + n) for b, n in zip(plan.begins[t], kind.shape, strict=True))]
    own = own if row is None else np.take(own, row, axis=kind.memory_axes[0])
    size = kind.dtype.bytes
    return np.sort((own.reshape(-1, 1) * size + np.arange(size)).reshape(-1))


def fine(plan: Plan, step: Step) -> bool:
    """Whether the kernel computes one row of its output after the other."""
    y, spec = plan.graph.type(step.node.outputs[0]), step.spec
    return (spec.by_rows and spec.images == 1 and not spec.over_input and bool(y.shape)
            and y.shape[axis_of(plan, step)] == spec.rows > 1)


def dependence(plan: Plan, step: Step, operand: str, values: Sample) -> np.ndarray:
    """[rows of y, rows of the operand]: whether changing one changes the other."""
    t, want, axis = plan.graph.type(operand), values[step.node.outputs[0]], axis_of(plan, step)
    rows = want.shape[axis] if want.shape else 1
    found = np.zeros((rows, rows_of(t)), np.bool_)
    rng = np.random.default_rng(0)
    for row in range(rows_of(t)):
        for change in ("high", "low", "random"):
            other = values[operand].copy()
            at = [slice(None)] * other.ndim
            if t.memory_axes:
                at[t.memory_axes[0]] = slice(row, row + 1)
            part = other[tuple(at)]
            if t.dtype.is_float:
                part[...] = {"high": 1e3, "low": -1e3}.get(change, 0.0) + rng.standard_normal(part.shape)
            else:
                low, high = t.dtype.range
                part[...] = {"high": high, "low": low}.get(change, 0)
                if change == "random":
                    part[...] = rng.integers(low, high, part.shape, endpoint=True)
            got = run_step(plan, step, {**values, operand: other})[step.node.outputs[0]]
            for i in range(rows):
                same = np.array_equal(np.take(got, i, axis), np.take(want, i, axis)) if want.shape else got == want
                found[i, row] |= not same
    return found


@dataclass
class Arena:
    """Who wrote each byte of the arena: a tensor (or scratch) and which byte of it."""

    plan: Plan
    writer: np.ndarray = field(init=False)
    byte: np.ndarray = field(init=False)
    names: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.writer = np.full(self.plan.arena_bytes, -1)
        self.byte = np.zeros(self.plan.arena_bytes, np.int64)
        self.places = {p.name: p for p in self.plan.places}
        self.made = {t for s in self.plan.steps for t in s.node.outputs}

    def author(self, t: str) -> str:
        """The tensor that a step wrote and that `t` is a view of."""
        while t not in self.made and t in self.plan.views:
            t = self.plan.views[t]
        return t

    def addresses(self, owner: str, span: Span) -> np.ndarray:
        """Where the bytes of a buffer lie; a ring keeps its last rows only."""
        place, logical = self.places[owner], bytes_of(span)
        ring = self.plan.rings.get(owner)
        if ring:
            t = self.plan.graph.type(owner)
            row = t.bytes // rows_of(t)
            assert place.size == ring * row
            return np.asarray(place.offset + logical // row % ring * row + logical % row)
        assert logical.max(initial=-1) < place.size
        return np.asarray(place.offset + logical)

    def write(self, name: str, owner: str, span: Span) -> None:
        """Take over the bytes of a buffer."""
        at = self.addresses(owner, span)
        assert at.min(initial=0) >= 0 and at.max(initial=0) < len(self.writer)
        self.writer[at] = self.names.setdefault(name, len(self.names))
        self.byte[at] = bytes_of(span)

    def intact(self, name: str, owner: str, span: Span) -> bool:
        """Whether the bytes are still what `name` wrote."""
        at = self.addresses(owner, span)
        return bool((self.writer[at] == self.names.get(name, -2)).all() and (self.byte[at] == bytes_of(span)).all())


def simulate(plan: Plan, row: Sample) -> None:
    """Run all calls; AssertionError where an operand is gone when it is read, or would be overwritten while it is."""
    values, arena = run_graph(plan.graph, row), Arena(plan)
    needs = {(i, t): dependence(plan, s, t, values) for i, s in enumerate(plan.steps)
             for t in s.node.inputs if t and plan.graph.data(t) is None and plan.root(t) in arena.places}
    done = dict.fromkeys(range(len(plan.steps)), 0)
    for call in plan.calls:
        step = plan.steps[call.step]
        assert done[call.step] == call.first < call.end <= step.spec.rows, f"{step.function}: rows out of turn"
        units = range(call.first, call.end) if fine(plan, step) or step.spec.over_input else [None]
        for unit in (u for u in units if u is None or u % step.spec.together == 0):
            _unit(plan, arena, step, unit, {t: n for (i, t), n in needs.items() if i == call.step})
        done[call.step] = call.end
    assert all(done[i] == s.spec.rows for i, s in enumerate(plan.steps))
    for t in plan.graph.outputs:
        assert plan.root(t) not in arena.places, f"{t} is not the caller's"


def _unit(plan: Plan, arena: Arena, step: Step, unit: int | None, needs: dict[str, np.ndarray]) -> None:
    """One row of a step, or all of it."""
    y = step.node.outputs[0]
    count = 1 if unit is None else min(step.spec.together, step.spec.rows - unit)
    reads: list[tuple[str, str, Span]] = []
    for t, need in needs.items():
        size = plan.graph.type(t).bytes // need.shape[1]
        wanted = need.any(axis=0) if unit is None else need[min(unit, len(need) - 1):][:count].any(axis=0)
        if step.spec.over_input:        # a sum over the input's rows, one after the other
            size = plan.graph.type(t).bytes // step.spec.rows
            wanted = np.arange(step.spec.rows) == unit
        reads += [(arena.author(t), plan.root(t), part_of(plan, t, i) if t in plan.begins else (i * size, (i + 1) * size))
                  for i in np.nonzero(wanted)[0]]
    for name, owner, span in reads:
        assert arena.intact(name, owner, span), f"{step.function}: bytes {span} of {name} are gone"
    scratch = f"{step.function} scratch"
    if step.spec.scratch:
        whole = (0, step.spec.scratch)
        if step.spec.keeps and unit:
            assert arena.intact(scratch, scratch, whole), f"{scratch} was overwritten"
        arena.write(scratch, scratch, whole)
    if step.spec.written:           # its parts are there by now, and nothing has overwritten them
        if y in arena.places:
            rows = rows_of(plan.graph.type(y))
            part = plan.graph.type(y).bytes // rows
            own = (0, part * rows) if unit is None or step.spec.along is not None else (unit * part, (unit + 1) * part)
            assert arena.intact(y, y, own), f"{step.function}: a part was overwritten"
    elif plan.inlaid.get(y) in arena.places:
        whole_rows = unit is None or step.spec.along is not None
        for row in [None] if whole_rows else range(unit, unit + count):
            arena.write(plan.inlaid[y], plan.inlaid[y], part_of(plan, y, row))
    elif plan.root(y) in arena.places and not (step.spec.over_input and unit != step.spec.rows - 1):
        size = plan.graph.type(y).bytes
        apart = fine(plan, step) and step.spec.along is None
        part = size // rows_of(plan.graph.type(y)) if apart else size
        first = (unit or 0) * part if apart else 0
        if step.spec.along is not None and unit:        # the rows are scattered: all of it is there from the first on
            assert arena.intact(y, plan.root(y), (0, size)), f"{step.function}: the result was overwritten"
        arena.write(y, plan.root(y), (first, first + part * (count if apart else 1)))
    for more in step.node.outputs[1:]:
        if plan.root(more) in arena.places:
            arena.write(more, plan.root(more), (0, plan.graph.type(more).bytes))
    if step.spec.scratch:
        assert arena.intact(scratch, scratch, (0, step.spec.scratch)), f"{step.function}: the result lies in its scratch"
    for name, owner, span in reads:
        if owner != plan.root(y):       # else in place: each element is read before it is written
            assert arena.intact(name, owner, span), f"{step.function}: {name} is overwritten while it is read"
