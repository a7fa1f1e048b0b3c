"""Chains and residual blocks become row-interleaved groups: rings of rows instead of whole tensors, nothing computed twice.

Dynamic programming (_groups.py) finds the partitions of the steps into groups that are worth a look; each is placed, also
with kernels of less scratch (_slim.py), and the search (_search.py) chooses among those that keep within the limits.
"""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fuse2c import price
from fuse2c.errors import PlanError
from fuse2c.passes import _groups, _rows, _search, _slim, join, place, push
from fuse2c.passes._rows import RowStep, Unit
from fuse2c.passes._search import Candidate
from fuse2c.plan import Call, Decision, Plan, Point

MOST = 24           # partitions that are placed
REFINED = 4         # of them, the best ones, that are placed with scratch in between
LEVELS = 4          # of scratch, that are placed of one of these
Groups = tuple[range, ...]


def run(plan: Plan) -> Plan:
    """A schedule of row calls, the tensors that become rings, and kernels whose scratch fits."""
    if not plan.steps or plan.options.cores > 1:
        return plan         # all results are constants; or spread.py has the schedule
    steps = _rows.row_steps(plan)
    space = Space(plan, steps)
    found = space.candidates()
    if plan.options.input_rows:
        found = {c: groups for c, groups in found.items() if _takes_rows(c.plan, steps)}
        if not found:
            raise _not_pushed(plan, steps)
    best = _search.best(list(found))
    log = [Decision("stream", f"{plan.steps[g[0]].function} .. {plan.steps[g[-1]].function}", True,
                    f"{len(g)} steps row by row") for g in found[best] if len(g) > 1]
    log += [*_slim.log(plan, best.plan), *_search.refusals(found, best),
            _search.gap(best, space.placed, space.partitions, space.least_cycles, space.least_peak)]
    plan = replace(plan, steps=best.plan.steps)
    chosen = scheduled(plan, _rows.row_steps(plan), found[best])
    return replace(chosen, front=tuple(map(point, _search.unbeaten(found))), point=point(best),
                   decisions=plan.decisions + tuple(log))


def point(c: Candidate) -> Point:
    """A candidate in figures."""
    return Point(c.ram, round(c.cycles), round(c.cost.instructions), c.plan.call_count)


@dataclass
class Space:
    """All partitions of the steps that none beats, with the fastest kernels and with those of least scratch."""

    plan: Plan
    steps: list[RowStep]
    placed: int = 0             # partitions
    partitions: int = 0
    least_peak: int = 0         # live bytes; no partition of any kernels has fewer
    least_cycles: float = 0.0   # with the fastest kernels, whatever the schedule

    def candidates(self) -> dict[Candidate, Groups]:
        """Every plan that is worth a look, with addresses, and its groups; in an order that does not depend on chance."""
        plan, options = self.plan, _slim.variants(self.plan)
        self.least_cycles = price.of_steps(plan).cycles
        found: dict[Candidate, Groups] = {}
        for p in (plan, *([_slim.slimmest(plan, options)] if options else [])):
            steps = self.steps if p is plan else _rows.row_steps(p)
            work, parts = price.of_steps(p), _groups.front(p, steps)
            some = thinned(p, work, parts)
            self.placed, self.partitions = self.placed + len(some), self.partitions + len(parts)
            self.least_peak = min(part.peak for part in parts)      # the last time with the least scratch
            found |= {candidate(scheduled(p, steps, part.groups), work, p is not plan): tuple(part.groups)
                      for part in (*some, widest(steps))}
        near = dict.fromkeys(found[c] for c in _search.ranked(found)) if options else {}
        for groups in itertools.islice(near, REFINED):
            for p in levels(scheduled(plan, self.steps, groups), options):
                found[candidate(scheduled(p, _rows.row_steps(p), groups), price.of_steps(p), True)] = groups
        return found


def candidate(plan: Plan, work: price.Cost, slimmed: bool) -> Candidate:
    """A schedule with kernels and addresses, priced."""
    arranged = place.arranged(join.kernels(plan))
    return Candidate(arranged, price.of_plan(arranged, work), slimmed)


def levels(plan: Plan, options: _slim.Variants) -> Iterable[Plan]:
    """A few plans with less and less scratch: the last, the first that fits, and some in between."""
    slimmer = list(_slim.slimmer(plan, options))
    limit = plan.target.holding("arena")[1].bytes - (plan.ram_bytes - plan.working_bytes)
    fits = next((i for i, p in enumerate(slimmer) if peak(p) <= limit), len(slimmer) - 1)
    return [slimmer[i] for i in between(fits, len(slimmer)) if i >= 0]


def between(fits: int, count: int) -> list[int]:
    """Positions in a row of plans with less and less RAM: LEVELS of them, the last among them, and the one that `fits`."""
    some = min(LEVELS, count)
    return sorted({fits} | {round((i + 1) * (count - 1) / some) for i in range(some)})


def peak(plan: Plan) -> int:
    """Most live bytes."""
    found = place.peak(plan, place.lifetimes(plan))
    return found.bytes if found else 0


def _takes_rows(plan: Plan, steps: Sequence[RowStep]) -> bool:
    """Whether the rows that are pushed are used up as they come, by steps that go row by row."""
    early = {c.step for c in plan.calls[:plan.last_push]}
    return plan.root(plan.steps[0].node.outputs[0]) in plan.rings and all(steps[i].splits for i in early)


def _not_pushed(plan: Plan, steps: Sequence[RowStep]) -> PlanError:
    """The first steps do not take the rows as they come: the step that is to blame."""
    first = next((i for i, s in enumerate(steps) if not s.splits), len(steps) - 1)
    for i, s in enumerate(steps[:first + 1]):
        if any(r.tensor == steps[0].writes and r.last[0] == _rows.WHOLE for r in s.readers):
            first = i
            break
    return push.refused(f"the kernel {plan.steps[first].kernel.name} of {plan.steps[first].node.name} needs all rows of "
                        "its operand at once", plan.graph.inputs[0])


def thinned(plan: Plan, work: price.Cost, partitions: Sequence[_groups.Partition]) -> list[_groups.Partition]:
    """About MOST of them: both ends, what the objective `cycles` and the limit of RAM ask for, and some in between."""
    limit = plan.target.holding("arena")[1].bytes
    room = (work.instructions + partitions[0].extra) * (1 + _search.FREE)
    free = [i for i, p in enumerate(partitions) if work.instructions + p.extra <= room]
    fits = [i for i, p in enumerate(partitions) if p.peak <= limit]
    count = min(MOST, len(partitions))
    chosen = {round(i * (len(partitions) - 1) / max(count - 1, 1)) for i in range(count)}
    return [partitions[i] for i in sorted(chosen | set(free[-2:]) | set(fits[:2]))]


def widest(steps: Sequence[RowStep]) -> _groups.Partition:
    """All steps in turn that can be: the fewest kernels, also where that does not lower the peak."""
    part, first = _groups.Partition(), 0
    for i, s in enumerate(steps):
        last = i + 1 == len(steps)
        if last or not s.splits or not steps[i + 1].splits:
            part, first = _groups.Partition(0, 0, range(first, i + 1), part), i + 1
    return part


def scheduled(plan: Plan, steps: list[RowStep], groups: Sequence[range]) -> Plan:
    """The plan with the calls and rings of a partition of its steps into groups."""
    order = [unit for group in groups for unit in _rows.interleaved(steps, group)]
    rings = rings_of(plan, steps, groups, order)
    if plan.options.input_rows:
        rings[plan.graph.inputs[0]] = 1     # the caller's: the row that is pushed
    return replace(plan, calls=calls(plan, steps, order), rings=rings)


def calls(plan: Plan, steps: list[RowStep], order: list[Unit]) -> tuple[Call, ...]:
    """The order as calls: consecutive rows of one step are one call."""
    result: list[Call] = []
    for step, row in order:
        if result and result[-1].step == step and result[-1].end == row:
            result[-1] = replace(result[-1], end=row + 1)
        else:
            result.append(Call(step, row, row + 1))
    return tuple(replace(c, end=plan.steps[c.step].spec.rows) if not steps[c.step].splits else c for c in result)


def rings_of(plan: Plan, steps: list[RowStep], groups: Sequence[range], order: list[Unit]) -> dict[str, int]:
    """Rows kept of each tensor that is written and read inside one group of several steps."""
    owned = {plan.root(t) for t in (*plan.graph.inputs, *plan.graph.outputs)}
    where = {i: n for n, group in enumerate(groups) for i in group}
    users: dict[str, set[int]] = {}
    for i, s in enumerate(steps):
        for t in (s.writes, *(r.tensor for r in s.readers)):
            users.setdefault(plan.owner(t), set()).add(where[i])
    whole = {plan.inlaid[s.writes] for s in steps if s.writes in plan.inlaid and not _rows.goes_along(plan, s, steps)}
    inner = [s.writes for i, s in enumerate(steps) if len(groups[where[i]]) > 1 and s.out_rows == s.rows
             and s.writes not in owned | whole and s.writes not in plan.inlaid and len(users[s.writes]) == 1]
    found = _rows.lives(plan, steps, order, inner)
    tiles = _rows.tiles(steps)
    rings = {t: _rows.rounded(_rows.ring_rows(life), tiles.get(t, 1)) for t, life in found.items()}
    return {t: n for t, n in rings.items() if n < len(found[t].born)}
