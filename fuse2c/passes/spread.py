"""Several cores share an inference (`--cores`): which of them computes what, in phases between which they meet.

The partitions of stream.py are candidates here, too: a group of steps that take turns row by row is what one core does at
a stretch, a step alone may be divided by rows. What is in use while several cores work stays where it is for the whole
phase (place.py); so a schedule for several cores takes more RAM than one for a single core. Where RAM is short, or asked
for, so are plans with kernels of less scratch (_slim.py), and such in which the first core alone does what is at the peak,
down to those in which it does everything.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from fuse2c import price
from fuse2c.errors import PlanError
from fuse2c.fusion.dsl import barred
from fuse2c.passes import _groups, _phases, _rows, _search, _slim, assign, join, order, place, stream
from fuse2c.passes._phases import Job, Problem
from fuse2c.passes._rows import RowStep
from fuse2c.passes._search import Candidate
from fuse2c.plan import Call, Decision, Phase, Plan, Step


def run(plan: Plan) -> Plan:
    """The plan with a schedule for several cores."""
    if plan.options.cores == 1 or not plan.steps:
        return plan
    apart = [n for n in plan.target.cores[:plan.options.cores] if plan.target.processors[n].link.program]
    if apart and plan.options.arena != "caller":
        raise PlanError(f"{apart[0]} has a program of its own, which does not know where this one's arena is",
                        hint="--arena caller: both programs pass the same address, in memory that both reach")
    found = _candidates(plan)
    best = _search.best(list(found))
    return replace(found[best].planned, front=tuple(map(stream.point, _search.unbeaten(found))), point=stream.point(best),
                   decisions=(*plan.decisions, *found[best].decisions(), *_slim.log(plan, best.plan),
                              *_search.refusals(found, best)))


def _candidates(plan: Plan) -> dict[Candidate, Spread]:
    """Every plan that is worth a look, with addresses, and who computes what."""
    steps = _rows.row_steps(plan)
    alone = tuple(range(i, i + 1) for i in range(len(steps)))

    def partitions(p: Plan) -> list[Sequence[range]]:
        parts = stream.thinned(p, price.of_steps(p), _groups.front(p, steps))
        return [alone, *(tuple(part.groups) for part in parts if _allowed(p, part))]

    found = {candidate(s): s for s in (Spread(plan, groups) for groups in partitions(plan))}
    fastest = min(found, key=lambda c: c.cycles)
    if plan.options.optimize == "cycles" and fastest.ram <= plan.target.holding("arena")[1].bytes:
        return found
    options = _slim.variants(plan)
    slim = _slim.slimmest(plan, options)
    both = [Spread(slim, groups) for groups in partitions(slim)]
    found |= {candidate(s): s for first in both for s in (first, first.alone)}
    for groups in itertools.islice(dict.fromkeys(tuple(found[c].groups) for c in _search.ranked(found)), stream.REFINED):
        for p in (plan, *stream.levels(stream.scheduled(plan, steps, groups), options)):
            found |= {candidate(s): s for s in _narrower(Spread(replace(plan, steps=p.steps), groups))}
    return found


def candidate(spread: Spread) -> Candidate:
    """A schedule with addresses, priced. Slower kernels are there only where RAM counts, and are worth what they take."""
    arranged = place.arranged(join.kernels(spread.planned))
    return Candidate(arranged, price.of_plan(arranged), slimmed=False)


def _narrower(spread: Spread) -> list[Spread]:
    """The same with more and more on the first core alone: at a peak of live bytes, what several cores do there."""
    found, most = [spread], spread.plan.target.holding("arena")[1].bytes
    while pins := found[-1].at_peak:
        found.append(replace(found[-1], pinned=found[-1].pinned | pins))
    fits = next((i for i, s in enumerate(found) if stream.peak(s.planned) <= most), len(found) - 1)
    return [found[i] for i in stream.between(fits, len(found))]


def _allowed(plan: Plan, part: _groups.Partition) -> bool:
    """Whether no group fuses what the options keep apart."""
    many = [g for g in part.groups if len(g) > 1]
    return not any(barred(plan.options.fuse_barriers, plan.steps[i].node) for g in many for i in g[:-1]) \
        and (plan.options.fuse or not many)


@dataclass(frozen=True)
class Spread:
    """One partition of the steps into groups, and what each core does of it."""

    plan: Plan
    groups: Sequence[range]
    pinned: frozenset[int] = frozenset()        # stretches that the first core computes
    known: dict[tuple[int, int], float] = field(default_factory=dict)      # what stretches take on cores, whatever is pinned

    @cached_property
    def rows(self) -> list[RowStep]:
        """The steps in terms of rows."""
        return _rows.row_steps(self.plan)

    @cached_property
    def variants(self) -> Mapping[int, Mapping[int, Step]]:
        """Each step on each core, as far as it may run there."""
        return assign.variants(self.plan)

    @cached_property
    def stretches(self) -> list[list[range]]:
        """Groups that one core computes one behind the other: what has nothing to do goes with what follows."""
        found: list[list[range]] = [[]]
        for group in self.groups:
            found[-1].append(group)
            if not all(self.plan.steps[i].spec.written for i in group):
                found.append([])
        return found[:-1]

    @property
    def rest(self) -> list[range]:
        """What has nothing to do, at the end."""
        return list(self.groups[sum(map(len, self.stretches)):])

    @cached_property
    def problem(self) -> Problem:
        """The stretches as jobs."""
        links = [self.plan.target.processors[n].link for n in self.cores]
        byte = [(2 * link.line_cycles / link.line_bytes if link.line_bytes else 0.0)
                + (1 / link.bytes_per_cycle if link.bytes_per_cycle else 0.0) for link in links]
        return Problem([self._job(i) for i in range(len(self.stretches))], byte, price.meeting(self.plan))

    @property
    def cores(self) -> list[str]:
        """Names of the cores that share the inference."""
        return self.plan.target.cores[:self.plan.options.cores]

    def _job(self, at: int) -> Job:
        groups = self.stretches[at]
        g, steps = self.plan.graph, [self.plan.steps[i] for group in groups for i in group]
        writes = {t: g.type(t).bytes for s in steps for t in order.writes(self.plan, s)}
        reads = {t: g.type(t).bytes for s in steps for t in order.reads(self.plan, s) if t not in writes}
        pinned = at in self.pinned
        cycles = tuple(math.inf if core and pinned else self._known(at, core) for core in range(len(self.cores)))
        return Job(cycles, 0 if pinned else self._divisible(groups[-1]), reads, writes)

    def _known(self, at: int, core: int) -> float:
        """What a stretch takes on a core, see `_cycles`."""
        if (at, core) not in self.known:
            self.known[at, core] = self._cycles(self.stretches[at], core)
        return self.known[at, core]

    def _cycles(self, groups: Sequence[range], core: int) -> float:
        """Of a stretch on a core, in cycles of the first one; with whose turn it is, where rows alternate."""
        here, first = (self.plan.target.processors[self.cores[k]].processor for k in (core, 0))
        own, total = self.variants[core], 0.0
        for group in groups:
            if any(i not in own for i in group):
                return math.inf
            turns = sum(self.rows[i].rows for i in group) if len(group) > 1 else 0
            total += sum(price.of_step(self.plan, own[i]).cycles for i in group) + turns * here.turn * here.cpi
        return total * first.clock_hz / here.clock_hz if here.clock_hz and first.clock_hz else total

    def _divisible(self, group: range) -> int:
        """Rows of a step that all cores can compute together; 0: they cannot."""
        spec, i = self.plan.steps[group[0]].spec, group[0]
        if len(group) > 1 or not self.rows[i].splits or spec.over_input or spec.keeps or assign.is_placed(self.plan, i):
            return 0
        kernels = {own[i].kernel if i in own else None for own in self.variants.values()}
        return spec.rows if len(kernels) == 1 and spec.rows >= len(self.cores) else 0

    @cached_property
    def phases(self) -> list[_phases.Phase]:
        """The schedule."""
        return _phases.best(self.problem)

    @property
    def at_peak(self) -> frozenset[int]:
        """Of the phase with the most live bytes the stretches of several cores, as far as the first can compute them."""
        peak = place.peak(self.planned, place.lifetimes(self.planned))
        at = next((i for i, groups in enumerate(self.stretches) if peak and any(peak.step in g for g in groups)), None)
        phase = next((p for p in self.phases if any(at in jobs for jobs in p.jobs)), None)
        several = phase.jobs if phase and sum(map(bool, phase.jobs)) > 1 else ()
        return self._free & {i for jobs in several for i in jobs}

    @property
    def _free(self) -> frozenset[int]:
        """Stretches that are not, but can be, the first core's."""
        return frozenset(i for i, job in enumerate(self.problem.jobs) if job.cycles[0] < math.inf) - self.pinned

    @property
    def alone(self) -> Spread:
        """The first core computes everything that it can."""
        return replace(self, pinned=self.pinned | self._free)

    @cached_property
    def planned(self) -> Plan:
        """The plan with the calls of all cores, phase by phase, and in each core by core: an order for one thread, too."""
        steps, calls, times = list(self.plan.steps), list[Call](), list[Phase]()
        units: list[_rows.Unit] = []
        for phase in self.phases:
            times.append(Phase(len(calls), phase.cycles))
            for core, jobs in enumerate(phase.jobs):
                for job in jobs:
                    for group in self.stretches[job]:
                        part = self._units(group, phase.cuts[core:core + 2] if group is self.stretches[job][-1] else ())
                        if not phase.cuts or core == 0:
                            steps[group[0]:group[-1] + 1] = [self.variants[core][i] for i in group]
                        elif group is not self.stretches[job][-1]:
                            continue        # the first core has said that it is done
                        calls += (replace(c, core=core) for c in stream.calls(self.plan, self.rows, part))
                        units += part
        for group in self.rest:
            calls += stream.calls(self.plan, self.rows, self._units(group, ()))
            units += self._units(group, ())
        rings = stream.rings_of(self.plan, self.rows, self.groups, units)
        return replace(self.plan, steps=tuple(steps), calls=tuple(calls), rings=rings, phases=tuple(times))

    def _units(self, group: range, cut: Sequence[int]) -> list[_rows.Unit]:
        """Rows in the order in which a core computes them; `cut`: the first of its own and the end."""
        return [(group[0], row) for row in range(*cut)] if cut else _rows.interleaved(self.rows, group)

    def decisions(self) -> Iterator[Decision]:
        """What each core does, and why one waits."""
        p, alone = self.problem, sum(job.cycles[0] for job in self.problem.jobs)
        total, known = p.total(self.phases), math.isfinite(alone)
        yield Decision("spread", f"{len(self.cores)} cores", total < alone, f"{total:,.0f} cycles in {len(self.phases)} phases"
                       + f", {alone:,.0f} on one core" * known + f"; no schedule of these steps takes less than {p.bound:,.0f}")
        for phase in self.phases:
            busy = [core for core, jobs in enumerate(phase.jobs) if jobs]
            if phase.cuts:
                parts = ", ".join(f"rows {a} .. {b - 1} on {name}" for name, a, b in zip(
                    self.cores, phase.cuts, phase.cuts[1:], strict=False) if b > a)
                yield Decision("spread", self._named(phase.jobs[0]), True, parts)
                continue
            for core in busy:
                beside = [self.cores[k] for k in busy if k != core]
                yield Decision("spread", self._named(phase.jobs[core]), True, f"on {self.cores[core]}"
                               + (f" beside {', '.join(beside)}" if beside else ""))
            for job in phase.jobs[busy[0]] if len(busy) == 1 else ():
                yield Decision("spread", self._named([job]), False, self._why_alone(job))

    def _named(self, jobs: Sequence[int]) -> str:
        ends = self.stretches[jobs[0]][-1][0], self.stretches[jobs[-1]][-1][-1]
        return " .. ".join(dict.fromkeys(self.plan.steps[i].function for i in ends))

    def _why_alone(self, job: int) -> str:
        """Why a job is neither divided nor beside another."""
        found, p = self.problem.jobs[job], self.problem
        group = self.stretches[job][-1]
        if job in self.pinned:
            return "what several cores do at a time here takes more RAM"
        if found.rows:
            saved = min(found.cycles) - _phases.divided(p, job).time
            return f"dividing its rows saves {max(saved, 0):,.0f} cycles; the cores meet for {p.meeting:,.0f} before and after"
        if len(group) > 1:
            return "its steps take turns row by row, which one core does; nothing else is ready meanwhile"
        if assign.is_placed(self.plan, group[0]):
            return "asked for by --place-node"
        return f"{self.plan.steps[group[0]].kernel.name} has no rows to divide; nothing else is ready, or worth it"
