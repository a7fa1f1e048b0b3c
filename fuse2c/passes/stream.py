"""Chains and residual blocks become row-interleaved groups: rings of rows instead of whole tensors, nothing computed twice.

Dynamic programming (_groups.py) finds the partitions of the steps into groups that are worth a look; each is placed, and
the objective chooses among those that fit into the RAM.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fuse2c import price
from fuse2c.errors import PlanError
from fuse2c.passes import _groups, _rows, bound, join, place, push
from fuse2c.passes._rows import RowStep, Unit
from fuse2c.plan import Call, Decision, Plan, Point

FREE = 0.04         # of the estimated instructions: what less RAM may cost under `cycles`; estimates are no better
JOINED = 0.25       # of the least RAM of such plans: what fewer kernels, and less that goes through memory, may cost
MOST = 24           # partitions that are placed
# By plan, fewest instructions of all, and least RAM of the plans that need at most FREE more.
OBJECTIVES: dict[str, Callable[[Plan, float, float], tuple[float, ...]]] = {
    "cycles": lambda p, fastest, least: (max(p.instructions, fastest * (1 + FREE)), max(p.ram_bytes, least * (1 + JOINED)),
                                         p.launches, p.ram_bytes, p.instructions),
    "balanced": lambda p, fastest, least: (p.ram_bytes * p.instructions,),
    "ram": lambda p, fastest, least: (p.ram_bytes, p.instructions),
    "energy": lambda p, fastest, least: (_energy(p), p.ram_bytes)}


def _energy(plan: Plan) -> float:
    """Microjoules of an inference at the usual clock, as far as the target's figures go."""
    cost = price.of_plan(plan)
    return price.energy_uj(cost, plan.target, price.clock_of(plan.target)) or cost.cycles


def run(plan: Plan) -> Plan:
    """A schedule of row calls, and the tensors that become rings."""
    if not plan.steps or plan.options.cores > 1:
        return plan         # all results are constants; or spread.py has the schedule
    steps = [_rows.row_step(plan, s) for s in plan.steps]
    candidates = [*thinned(plan, _groups.front(plan, steps)), widest(steps)]
    found = [(p, place.arranged(join.kernels(scheduled(plan, steps, p.groups)))) for p in candidates]
    if plan.options.input_rows:
        found = [(part, p) for part, p in found if _takes_rows(p, steps)]
        if not found:
            raise _not_pushed(plan, steps)
    groups = choose(plan, found)
    points = tuple(Point(p.ram_bytes, p.instructions, p.call_count) for p in unbeaten([p for _, p in found]))
    log = [Decision("stream", f"{plan.steps[g[0]].function} .. {plan.steps[g[-1]].function}", True,
                    f"{len(g)} steps row by row") for g in groups if len(g) > 1]
    log += refusals(plan, [p for _, p in found], groups_of(found, groups))
    return replace(scheduled(plan, steps, groups), front=points, decisions=plan.decisions + tuple(log))


def groups_of(found: Sequence[tuple[_groups.Partition, Plan]], groups: list[range]) -> Plan:
    """The plan of the chosen partition."""
    return next(p for part, p in found if part.groups == groups)


def refusals(plan: Plan, found: Sequence[Plan], chosen: Plan) -> list[Decision]:
    """Why each of the schedules that no other one beats was not taken."""
    limit, allowed = plan.target.holding("arena")[1].bytes, plan.options.energy_uj
    log = []
    for p in unbeaten(found):
        if p is chosen or (p.ram_bytes, p.instructions) == (chosen.ram_bytes, chosen.instructions):
            continue
        why = (f"{chosen.ram_bytes:,} bytes and {chosen.call_count:,} calls are better for --optimize {plan.options.optimize}")
        if p.ram_bytes > limit:
            why = f"{p.ram_bytes - limit:,} bytes more than the RAM of {limit:,}"
        elif allowed is not None and _energy(p) > allowed:
            why = f"{_energy(p):,.1f} uJ, {_energy(p) - allowed:,.1f} more than allowed"
        log.append(Decision("stream", f"schedule of {p.ram_bytes:,} bytes, {p.call_count:,} calls", False, why))
    return log


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


def choose(plan: Plan, found: Sequence[tuple[_groups.Partition, Plan]]) -> list[range]:
    """The groups of the best of the plans that fit, or of those that need the least if none does."""
    limit = plan.target.holding("arena")[1].bytes
    fits = [(part, p) for part, p in found if p.ram_bytes <= limit]
    if not fits and plan.options.place == "exact":      # an exact placement may get there
        fits = [(part, p) for part, p in found if p.peak and p.peak.bytes <= limit]
    if not fits:
        least = min(p.ram_bytes for _, p in found)
        fits = [(part, p) for part, p in found if p.ram_bytes == least]
    time = bound.deadline(plan)
    fits = [(part, p) for part, p in fits if time is None or p.instructions <= time] \
        or [min(fits, key=lambda pair: pair[1].instructions)]
    fastest = min(p.instructions for _, p in fits)
    least = min(p.ram_bytes for _, p in fits if p.instructions <= fastest * (1 + FREE))
    if plan.options.energy_uj is not None:
        fits = [(part, p) for part, p in fits if _energy(p) <= plan.options.energy_uj] or fits
    best, _ = min(fits, key=lambda pair: OBJECTIVES[plan.options.optimize](pair[1], fastest, least))
    return best.groups


def thinned(plan: Plan, partitions: Sequence[_groups.Partition]) -> list[_groups.Partition]:
    """About MOST of them: both ends, what the objective `cycles` and the limit of RAM ask for, and some in between."""
    price, limit = plan.target.processor, plan.target.holding("arena")[1].bytes
    work = price.mac * plan.macs + price.alu * sum(s.work.alu for s in plan.steps)
    room = (work + price.launch * partitions[0].calls) * (1 + FREE)
    free = [i for i, p in enumerate(partitions) if work + price.launch * p.calls <= room]
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


def unbeaten(plans: Sequence[Plan]) -> list[Plan]:
    """The Pareto front of RAM against instructions."""
    found: list[Plan] = []
    for p in sorted(plans, key=lambda p: (p.instructions, p.ram_bytes)):
        if not found or p.ram_bytes < found[-1].ram_bytes:
            found.append(p)
    return found


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
    rings = {t: _rows.ring_rows(life) for t, life in found.items()}
    return {t: n for t, n in rings.items() if n < len(found[t].born)}
