"""Rows in time: which rows a step reads and writes, in which order rows are computed, and how long each must stay.

Time is counted in rows computed. A step that cannot be split computes its whole output in one unit of time.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import lcm

import numpy as np

from fuse2c.ir.types import TensorType
from fuse2c.plan import Plan, Step

Unit = tuple[int, int]      # (index of a step, row)
MAX_ROWS = 1024             # of a step that is split: comparing two tensors row by row takes the square of it
WHOLE = 1 << 30             # last row of a tensor that is read as a whole, however many it has


def height(t: TensorType) -> int:
    """Rows of a tensor of three or more axes: its parts along the outermost axis in memory."""
    return t.shape[t.memory_axes[0]] if len(t.shape) >= 3 and t.memory_axes else 1


def vertical(t: TensorType) -> int:
    """Rows of a [1,C,H,...] tensor along H, if they lie one after the other in memory; else 0."""
    fits = len(t.shape) in (3, 4) and t.shape[0] == 1 and (t.shape[2] == 1 or t.memory_axes[:1] == (2,))
    return t.shape[2] if fits else 0


@dataclass(frozen=True)
class Reader:
    """What one operand of a step needs: the tensor that owns the bytes, and the rows for each row computed."""

    tensor: str
    first: tuple[int, ...]      # neither ever decreases
    last: tuple[int, ...]

    def last_reads(self, times: np.ndarray, rows: int) -> np.ndarray:
        """When each of the tensor's `rows` rows is read last, where row j is computed at times[j]; -1: never.

        A tensor that was written as a whole has one row here, however many its readers see.
        """
        if not len(times):
            return np.full(rows, -1)
        if rows == 1:
            reading = np.asarray(self.last[:len(times)]) >= np.asarray(self.first[:len(times)])
            return np.where(reading, times, -1).max(keepdims=True)
        every = np.arange(rows)
        reader = np.searchsorted(np.asarray(self.first[:len(times)]), every, side="right") - 1
        reads = (reader >= 0) & (np.asarray(self.last[:len(times)])[reader] >= every)
        return np.where(reads, times[reader], -1)


@dataclass(frozen=True)
class RowStep:
    """A step in terms of rows."""

    rows: int                   # units of time it takes
    readers: tuple[Reader, ...]
    writes: str                 # root of its output
    out_rows: int               # rows of the output as they lie in memory; 1: written as a whole
    splits: bool                # may be interleaved with other steps row by row
    together: int = 1           # so many rows come with the first of them
    beside: frozenset[str] = frozenset()    # tensors of which those rows have to follow each other in memory
    also: tuple[str, ...] = ()  # roots of further outputs, each written as a whole


def interleaves(step: Step) -> bool:
    """Whether a step may be interleaved with others row by row."""
    spec = step.spec
    return spec.by_rows and spec.images == 1 and len(step.node.outputs) == 1 and spec.rows <= MAX_ROWS


def row_step(plan: Plan, step: Step) -> RowStep:
    """The rows of one step."""
    g, spec = plan.graph, step.spec
    y = step.node.outputs[0]
    splits = interleaves(step)
    rows = spec.rows if splits else 1
    first, elementwise = step.node.parts[0], "loads" in spec.flags or spec.window is None
    # An elementwise kernel goes along the outermost axis in memory, the others along H, wherever it lies.
    rows_of = height if elementwise else vertical
    by_rows = spec.along is None and rows_of(g.type(y)) == spec.rows
    # What a part of a joined tensor is there of is counted in rows, however they lie in the joined tensor.
    out_rows = spec.rows if splits and not spec.over_input and (by_rows or y in plan.inlaid) else 1
    readers = []
    for t in dict.fromkeys(t for t in step.node.inputs if t and g.data(t) is None):
        count, same = rows_of(g.type(t)), False
        if spec.over_input and t == first.inputs[0] and height(g.type(plan.root(t))) == spec.rows:
            count, same = spec.rows, True       # a vector that is a view of rows
        # What has one row along H may lie in memory as several rows: planes of its channels.
        fits = count > 1 and (not elementwise or _alongside(g.type(t), g.type(y)))
        if splits and spec.window is None:
            readers.append(_given(plan, step, t, count, rows))
            continue
        # The kernel reads a window of its first operand, what finishes an element the row of the result: perhaps both.
        windowed = not elementwise and t == first.inputs[0]
        aligned = elementwise or t in _tail(step)
        if not splits or not fits or not (same or _same_rows(plan, t, count)) or not (windowed or aligned) \
                or (aligned and count != rows) or spec.window is None:
            pairs = [(0, WHOLE)] * rows
        else:
            pairs = [spec.window.rows(j, count) if windowed else (j, j) for j in range(rows)]
            if windowed and aligned:
                pairs = [(min(a, j), max(b, j)) for j, (a, b) in enumerate(pairs)]
        readers.append(Reader(plan.root(t), tuple(a for a, _ in pairs), tuple(b for _, b in pairs)))
    return RowStep(rows, tuple(readers), plan.root(y), out_rows, splits, spec.together if splits else 1,
                   _beside(plan, step, readers), tuple(map(plan.root, step.node.outputs[1:])))


def _beside(plan: Plan, step: Step, readers: Sequence[Reader]) -> frozenset[str]:
    """What a step writes, finishes its elements with, or reads row for row, if it takes rows that follow each other."""
    if not step.spec.adjoining:
        return frozenset()
    own = tuple(range(step.spec.rows))
    found = [*step.node.outputs[:1], *(t for t in _tail(step) if plan.graph.data(t) is None)]
    return frozenset({plan.owner(t) for t in found} | {plan.owner(r.tensor) for r in readers if r.first == r.last == own})


def row_steps(plan: Plan) -> list[RowStep]:
    """The rows of all steps."""
    return [row_step(plan, s) for s in plan.steps]


def _given(plan: Plan, step: Step, t: str, count: int, rows: int) -> Reader:
    """The rows that the kernel itself says it reads; all of them if t has none, or is read as two operands."""
    reads = [step.spec.reads.get(i) for i, other in enumerate(step.node.inputs) if other == t]
    if "program" not in step.spec.flags and t in _tail(step) and t not in step.node.parts[0].inputs and count == rows:
        reads = [(tuple(range(rows)), tuple(range(rows)))]
    if count < 2 or not _same_rows(plan, t, count) or len(reads) > 1 or reads[0] is None:
        return Reader(plan.root(t), (0,) * rows, (WHOLE,) * rows)
    return Reader(plan.root(t), *reads[0])


def _alongside(t: TensorType, y: TensorType) -> bool:
    """Whether row i of an operand is what row i of an elementwise result is computed from."""
    return t.shape == y.shape and t.memory_axes[:1] == y.memory_axes[:1]


def _tail(step: Step) -> set[str]:
    return {t for n in step.node.parts[1:] for t in n.inputs}


def _same_rows(plan: Plan, t: str, count: int) -> bool:
    """Whether a view has the rows of the tensor whose bytes it shares."""
    while t in plan.views:
        t = plan.views[t]
        own = height(plan.graph.type(t))
        if own != count and not (t in plan.graph.inputs and plan.graph.type(t).count % count == 0):
            return False
    return True


def goes_along(plan: Plan, part: RowStep, steps: Sequence[RowStep]) -> bool:
    """Whether a part of a joined tensor is written in the rows in which the joined tensor lies."""
    whole = next(s for s in steps if s.writes == plan.inlaid[part.writes])
    return part.out_rows == part.rows == whole.out_rows == whole.rows


def interleaved(steps: Sequence[RowStep], group: range) -> list[Unit]:
    """The order that computes each row of the group as late as possible: on demand of the rows of later steps."""
    made_by = {t: i for i in group for t in (steps[i].writes, *steps[i].also)}
    done = dict.fromkeys(group, 0)
    order: list[Unit] = []
    for sink in group:
        if any(made_by.get(r.tensor) == sink for i in group if i > sink for r in steps[i].readers):
            continue
        for row in range(steps[sink].rows):
            _demand(steps, sink, row, made_by, done, order)
    return order


def _demand(steps: Sequence[RowStep], sink: int, row: int, made_by: dict[str, int], done: dict[int, int],
            order: list[Unit]) -> None:
    """Append (sink, row) after the rows that it needs; iterative, since a network may be deep."""
    stack: list[Unit] = [(sink, row)]
    while stack:
        step, wanted = stack[-1]
        if done[step] > wanted:
            stack.pop()
            continue
        at = done[step]
        missing = None
        for reader in steps[step].readers:
            source = made_by.get(reader.tensor)
            if source is None or source >= step:
                continue
            needed, at_once = steps[source].rows - 1, at + steps[step].together - 1
            # Rows that nobody reads are computed all the same: the last row of a reader asks for them.
            by_rows = steps[source].out_rows == steps[source].rows and reader.tensor == steps[source].writes
            if by_rows and at_once < steps[step].rows - 1:
                needed = min(reader.last[at_once], needed)
            if done[source] <= needed:
                missing = (source, needed)
                break
        if missing is not None:
            stack.append(missing)
            continue
        tile = range(at, min(at + steps[step].together, steps[step].rows))
        order += [(step, row) for row in tile]
        done[step] = tile.stop


@dataclass
class Life:
    """A buffer over time: when each of its rows is written first and read last (units of time, both inclusive)."""

    name: str
    row_bytes: int
    born: np.ndarray
    dies: np.ndarray
    ring: int = 0               # rows kept; 0: all
    scratch: bool = False       # no tensor
    spans: list[tuple[int, int]] = field(default_factory=list)      # times at which any row lives

    @property
    def size(self) -> int:
        """Bytes."""
        return self.row_bytes * (self.ring or len(self.born))


def times_of(steps: Sequence[RowStep], order: Sequence[Unit]) -> list[np.ndarray]:
    """For each step, when each of its rows is computed, as far as it is in `order` at all."""
    return _first_of_tiles(steps, units_of(steps, order))


def _first_of_tiles(steps: Sequence[RowStep], asked: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.repeat(at[::step.together], step.together)[:len(at)] for step, at in zip(steps, asked, strict=True)]


def units_of(steps: Sequence[RowStep], order: Sequence[Unit]) -> list[np.ndarray]:
    """The same, but of rows that come with the row before them when they are asked for."""
    if not steps:
        return []
    index = np.fromiter((step for step, _ in order), np.int64, len(order))
    by_step = np.argsort(index, kind="stable")
    ends = np.searchsorted(index[by_step], np.arange(len(steps) + 1)).tolist()
    return [by_step[a:b] for a, b in pairwise(ends)]


def lives(plan: Plan, steps: Sequence[RowStep], order: Sequence[Unit], tensors: Iterable[str]) -> dict[str, Life]:
    """The life of each of `tensors`; what nothing in `order` writes lives from the start, what nothing reads to the end.

    Several steps may write one tensor's bytes (in place): the first one counts.
    """
    asked, end = units_of(steps, order), len(order) - 1
    times = _first_of_tiles(steps, asked)
    found: dict[str, Life] = {}
    count = {s.writes: s.out_rows for s in steps}
    for t in dict.fromkeys(tensors):    # in order: a set has another one in another process
        rows = count.get(t, 1)
        found[t] = Life(t, plan.graph.type(t).bytes // rows, np.full(rows, end + 1), np.full(rows, -1))
    for step, at, until in zip(steps, times, asked, strict=True):
        if not len(at):
            continue
        for life, reads in ((found[r.tensor], r) for r in step.readers if r.tensor in found):
            life.dies = np.maximum(life.dies, reads.last_reads(at, len(life.dies)))
        if step.writes in found:
            life = found[step.writes]
            by_rows = step.out_rows == step.rows == len(life.born) == len(at)
            life.born = np.minimum(life.born, at if by_rows else at[0])
            life.dies = np.maximum(life.dies, until if by_rows else until[-1])
        if plan.inlaid.get(step.writes) in found:        # the tensor is there as soon as a part of it is
            life = found[plan.inlaid[step.writes]]
            along = goes_along(plan, step, steps) and len(life.born) == len(at)
            life.born = np.minimum(life.born, at if along else at[0])
            life.dies = np.maximum(life.dies, until if along else until[-1])
        for life in (found[t] for t in step.also if t in found):
            life.born, life.dies = np.minimum(life.born, at[0]), np.maximum(life.dies, at[-1])
    for life in found.values():
        life.born = np.where(life.born > end, 0, life.born)
        life.dies = np.where(life.dies < 0, end, np.maximum(life.dies, life.born))
        life.spans = merged(list(zip(life.born.tolist(), life.dies.tolist(), strict=True)))
    return found


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping or touching intervals joined."""
    result: list[tuple[int, int]] = []
    for a, b in sorted(spans):
        if result and a <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], b))
        else:
            result.append((a, b))
    return result


def tiles(steps: Sequence[RowStep]) -> dict[str, int]:
    """By tensor: rows of which a ring has to hold a multiple, such that those of a tile follow each other."""
    found: dict[str, int] = {}
    for s in steps:
        found |= {t: lcm(found.get(t, 1), s.together) for t in s.beside}
    return found


def rounded(rows: int, tile: int) -> int:
    """The next multiple of a tile."""
    return -(-rows // tile) * tile


def ring_rows(life: Life) -> int:
    """Rows that a ring must keep: when a row is written, it and all older rows that are still to be read."""
    most = 1
    for row, time in enumerate(life.born):
        older = np.nonzero(life.dies[:row + 1] >= time)[0]
        most = max(most, row - int(older[0]) + 1)
    return most


def profile(life: Life, end: int, whole: bool = False) -> np.ndarray:
    """Bytes of a buffer's live rows at each time 0 .. end - 1; with `whole`, of all rows from the start."""
    if len(life.born) == 1:             # a scratch buffer may live now and then
        born, dies = (np.asarray(t) for t in zip(*life.spans, strict=True))
    else:
        born, dies = life.born, life.dies
    change = np.bincount(born * (not whole), minlength=end + 1) - np.bincount(dies + 1, minlength=end + 1)
    return np.asarray(np.cumsum(change[:end]) * life.row_bytes)
