"""A static schedule for several cores: phases, between which all cores meet.

In a phase each core runs its own list, and nothing that one writes is read by another; or all cores compute rows of one
step. Dynamic programming over the order of the steps finds the cut into phases with the least time: a phase is what lies
between two positions, which falls into parts that know nothing of each other. Up to EXACT parts all ways to deal them
out are tried, beyond that each goes, the longest first, to the core that is free earliest (list scheduling).
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

LONGEST = 64        # jobs of a phase
EXACT = 8           # parts of a phase that are dealt out in all ways


@dataclass(frozen=True, slots=True)
class Job:
    """What one core does at a stretch, or all cores together if it has rows.

    `cycles`: by core, in cycles of the first; infinite where it cannot run. Tensors are given with their bytes.
    """

    cycles: tuple[float, ...]
    rows: int                       # 0: one core computes it
    reads: dict[str, int]
    writes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Phase:
    """Jobs by core; `cuts`: the first row of each core and the end, where all compute rows of the one job; cycles by core."""

    jobs: tuple[tuple[int, ...], ...]
    cuts: tuple[int, ...]
    cycles: tuple[float, ...]

    @property
    def time(self) -> float:
        """Cycles until the last core is done."""
        return max(self.cycles)


@dataclass(frozen=True)
class Problem:
    """Jobs in order; what passes between the first core and another costs cycles a byte; and so does each meeting."""

    jobs: Sequence[Job]
    byte: Sequence[float]           # by core; of the first: 0
    meeting: float

    @cached_property
    def last_reader(self) -> dict[str, int]:
        """Tensor -> the last job that reads it."""
        return {t: i for i, job in enumerate(self.jobs) for t in job.reads}

    @cached_property
    def makers(self) -> list[frozenset[int]]:
        """Of each job those of which it reads a result."""
        made: dict[str, int] = {}
        found = []
        for i, job in enumerate(self.jobs):
            found.append(frozenset(made[t] for t in job.reads if t in made))
            made |= dict.fromkeys(job.writes, i)
        return found

    def time(self, part: Sequence[int], core: int) -> float:
        """Cycles of jobs on a core, with what it fetches and hands back."""
        total = sum(self.jobs[i].cycles[core] for i in part)
        return total + self.byte[core] * self.moved(part) if self.byte[core] else total

    def moved(self, part: Sequence[int]) -> int:
        """Bytes that jobs read of others' results, and that others read of theirs."""
        inside = {t for i in part for t in self.jobs[i].writes}
        read = {t: n for i in part for t, n in self.jobs[i].reads.items() if t not in inside}
        kept = {t: n for i in part for t, n in self.jobs[i].writes.items() if self.last_reader.get(t, math.inf) > part[-1]}
        return sum(read.values()) + sum(kept.values())

    def total(self, phases: Sequence[Phase]) -> float:
        """Cycles of a schedule: the cores meet before it, too."""
        return self.meeting + sum(p.time + self.meeting for p in phases)

    @cached_property
    def bound(self) -> float:
        """No schedule on these cores takes less: all work dealt out evenly, and the longest chain of jobs."""
        least = [min(job.cycles) for job in self.jobs]
        ends: list[float] = []
        for i, job in enumerate(self.jobs):
            alone = 1 / sum(1 / c for c in job.cycles if 0 < c < math.inf) if job.rows and least[i] else least[i]
            ends.append(alone + max((ends[k] for k in self.makers[i]), default=0.0))
        return max(sum(least) / len(self.byte), *ends)


def best(problem: Problem) -> list[Phase]:
    """The phases that take the least time; of equals the longest last phase."""
    count = len(problem.jobs)
    time, found = [0.0] + [math.inf] * count, [list[Phase]()] * (count + 1)
    for end in range(1, count + 1):
        parts, least = list[list[int]](), 0.0
        for begin in range(end - 1, max(end - LONGEST, 0) - 1, -1):
            parts = _with(problem, parts, begin)
            least += min(problem.jobs[begin].cycles) / len(problem.byte)
            if time[begin] + least + problem.meeting > time[end]:
                continue
            options = [dealt(problem, parts)]
            if end - begin == 1 and problem.jobs[begin].rows:
                options.append(divided(problem, begin))
            phase = min(options, key=lambda p: p.time)
            if time[begin] + phase.time + problem.meeting <= time[end]:
                time[end], found[end] = time[begin] + phase.time + problem.meeting, [*found[begin], phase]
    return found[-1]


def _with(problem: Problem, parts: list[list[int]], job: int) -> list[list[int]]:
    """The parts with one more job in front: those that read of it are one with it."""
    own = [part for part in parts if any(job in problem.makers[i] for i in part)]
    return [sorted([job, *(i for part in own for i in part)]), *(part for part in parts if part not in own)]


def dealt(problem: Problem, parts: Sequence[Sequence[int]]) -> Phase:
    """The parts on cores: in the way that takes least, or by list scheduling if they are many."""
    cores = range(len(problem.byte))
    times = [[problem.time(part, core) for core in cores] for part in parts]
    order = sorted(range(len(parts)), key=lambda k: (-min(times[k]), parts[k]))
    where, load = min(_ways(times, order), key=lambda way: max(way[1]))
    jobs = [sorted(i for k in range(len(parts)) if where[k] == core for i in parts[k]) for core in cores]
    return Phase(tuple(map(tuple, jobs)), (), tuple(load))


def _ways(times: Sequence[Sequence[float]], order: Sequence[int]) -> Iterator[tuple[dict[int, int], list[float]]]:
    """Core of each part, and the time of each core."""
    cores = range(len(times[0]))
    choices = list(product(cores, repeat=len(order))) if len(order) <= EXACT else []
    if not choices:
        free = [0.0] * len(cores)
        listed: list[int] = []
        for k in order:
            core = min(cores, key=lambda c: free[c] + times[k][c])
            free[core] += times[k][core]
            listed.append(core)
        choices = [tuple(listed)]
    for choice in choices:
        load = [0.0] * len(cores)
        for k, core in zip(order, choice, strict=True):
            load[core] += times[k][core]
        yield dict(zip(order, choice, strict=True)), load


def divided(problem: Problem, job: int) -> Phase:
    """All cores compute rows of one job, as many as they are fast."""
    each, rows = problem.jobs[job], problem.jobs[job].rows
    whole = [problem.time([job], core) for core in range(len(problem.byte))]
    speed = [1 / t if t < math.inf else 0.0 for t in whole]
    cuts, share = [0], 0.0
    for s in speed:
        share += s
        cuts.append(min(round(rows * share / sum(speed)), rows))
    cuts[-1] = rows
    cycles = tuple(t * (b - a) / each.rows if b > a else 0.0 for t, a, b in zip(whole, cuts, cuts[1:], strict=False))
    return Phase(tuple((job,) for _ in whole), tuple(cuts), cycles)
