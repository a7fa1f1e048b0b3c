"""Partitions of the steps into row-interleaved groups, by dynamic programming: which peaks can be had for how many turns.

A group of several steps takes turns row by row; a group of one step runs as a whole, and so does a step that cannot be
split inside a larger group. What crosses from one group to another is there as a whole. A partition has the largest peak
of its groups, and the sum of what they take beside the work itself: calls, and turns inside a kernel.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from fuse2c.passes import _rows, join
from fuse2c.passes._rows import RowStep, Unit
from fuse2c.plan import Plan

LONGEST = 64        # steps of one group: the time to plan then grows with their number, not with its square


@dataclass(frozen=True, slots=True)
class Partition:
    """Groups of steps, in order: live bytes at their peak, and instructions of calls and turns on top of the work."""

    peak: int = 0
    extra: int = 0
    last: range | None = None
    before: Partition | None = None

    @property
    def groups(self) -> list[range]:
        """All groups from the first to the last."""
        found: list[range] = []
        part: Partition | None = self
        while part is not None and part.last is not None:
            found.append(part.last)
            part = part.before
        return found[::-1]


@dataclass(frozen=True)
class Problem:
    """The steps of a plan in terms of rows, and what is looked up of them all the time."""

    plan: Plan
    steps: Sequence[RowStep]

    @cached_property
    def owned(self) -> set[str]:
        """Roots of what belongs to the caller."""
        return {self.plan.root(t) for t in (*self.plan.graph.inputs, *self.plan.graph.outputs)}

    @cached_property
    def last_reader(self) -> dict[str, int]:
        """Root -> the last step that reads it."""
        return {r.tensor: i for i, s in enumerate(self.steps) for r in s.readers}

    def written(self, i: int) -> list[str]:
        """Intermediate tensors that a step writes."""
        return [t for t in (self.steps[i].writes, *self.steps[i].also) if t not in self.owned]

    def read(self, i: int) -> list[str]:
        """Intermediate tensors that a step reads."""
        return [r.tensor for r in self.steps[i].readers if r.tensor not in self.owned]

    @cached_property
    def cuts(self) -> list[int]:
        """Where a group may start or end: anywhere, except behind a step that only takes over rows that are pushed."""
        pushed = self.plan.options.input_rows and len(self.steps) > 1
        return [at for at in range(len(self.steps) + 1) if at != 1 or not pushed]

    def passing(self, at: int) -> dict[str, int]:
        """Bytes of the tensors that are there before position `at` and still needed from there on."""
        return {t: self.plan.graph.type(t).bytes for i in range(at) for t in self.written(i)
                if self.last_reader.get(t, -1) >= at}


def front(plan: Plan, steps: Sequence[RowStep]) -> list[Partition]:
    """The partitions that no other one beats in both peak and extra instructions; the one with the fewest comes first."""
    problem, p = Problem(plan, steps), plan.target.processor
    turn, launch = (p.turn, p.launch) if join.joins(plan) else (p.launch, 0)
    places = problem.cuts
    at = {place: k for k, place in enumerate(places)}
    best = [[Partition()]]
    for lo, hi in pairwise(places):
        options = []
        if hi - lo == 1:
            order = [(lo, row) for row in range(steps[lo].rows)]
            ((_, peak),) = peaks(problem, range(lo, hi), order, [lo])
            options += [_then(part, range(lo, hi), peak, plan.steps[lo].launches * p.launch) for part in best[at[lo]]]
        starts = [place for place in places if hi - LONGEST <= place < hi - 1]
        if starts:
            together = range(starts[0], hi)
            rows = np.cumsum([steps[k].rows for k in together][::-1])[::-1].tolist()
            for start, peak in peaks(problem, together, _rows.interleaved(steps, together), starts):
                extra = rows[start - starts[0]] * turn + launch
                options += [_then(part, range(start, hi), peak, extra) for part in best[at[start]]]
        best.append(unbeaten(options))
    return best[-1]


def _then(part: Partition, group: range, peak: int, extra: int) -> Partition:
    return Partition(max(part.peak, peak), part.extra + extra, group, part)


def unbeaten(options: Iterable[Partition]) -> list[Partition]:
    """Those for which there is none with both a lower peak and no more extra instructions."""
    found: list[Partition] = []
    for p in sorted(options, key=lambda p: (p.extra, p.peak)):
        if not found or p.peak < found[-1].peak:
            found.append(p)
    return found


def peaks(problem: Problem, together: range, order: Sequence[Unit], starts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(start, peak of live bytes while steps start .. together.stop - 1 run), for each start, the last one first.

    The order of a group is that of a longer one without the steps in front, so one order serves all starts. Rows inside,
    whole tensors at the ends (less the rows of the operand that are done with), scratch.
    """
    plan, steps, end = problem.plan, problem.steps, len(order)
    tensors = [t for i in together for t in (*problem.written(i), *problem.read(i))]
    lives, times = _rows.lives(plan, steps, order, tensors), _rows.times_of(steps, order)
    for t, life in lives.items():
        if problem.last_reader.get(t, -1) >= together.stop:
            life.dies[:] = end - 1
            life.spans = [(life.spans[0][0], end - 1)]
    live, operands, passing = np.zeros(end, np.int64), dict[str, None](), problem.passing(together.stop)
    for i in reversed(together):
        for t in (*problem.written(i), *problem.read(i)):
            passing.pop(t, None)
        for t in dict.fromkeys(problem.written(i)):
            operands.pop(t, None)
            live += _rows.profile(lives[t], end)
        operands |= dict.fromkeys(problem.read(i))
        spec = plan.steps[i].spec
        if spec.scratch:
            live[slice(times[i][0], times[i][-1] + 1) if spec.keeps else times[i]] += spec.scratch
        if i in starts:
            found = sum((_rows.profile(lives[t], end, whole=True) for t in operands), live)
            yield i, int(found.max()) + sum(passing.values())
