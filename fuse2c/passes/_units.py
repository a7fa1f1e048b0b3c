"""Units: the least that a call of <name>_step can do. A row of a kernel, an image of a batch, or a kernel as a whole.

Units are numbered in the order in which they run; those of one launch follow one another.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fuse2c import price
from fuse2c.op import Spec
from fuse2c.plan import Launch, Plan


@dataclass(frozen=True, slots=True)
class Unit:
    """Row or image `at` of a step of the plan, run by a launch."""

    launch: int
    step: int
    at: int


def launches(plan: Plan) -> tuple[Launch, ...]:
    """What a call of <name>_step chooses from; without joined kernels everything takes turns in one function."""
    return tuple(k for k in plan.kernels if plan.working(k)) or (Launch(0, len(plan.calls), True),)


def in_function(plan: Plan, k: Launch) -> bool:
    """Whether the units of a launch are the turns of one C function, not the rows of a kernel."""
    return not plan.kernels or plan.is_joined(k)


def units(plan: Plan) -> tuple[Unit, ...]:
    """All units of an inference."""
    found = []
    for index, k in enumerate(launches(plan)):
        for call in plan.working(k):
            spec = plan.steps[call.step].spec
            if spec.images > 1:
                found += [Unit(index, call.step, n) for n in range(spec.images)]
            elif spec.by_rows:
                found += [Unit(index, call.step, row) for row in range(call.first, call.end)]
            else:
                found.append(Unit(index, call.step, 0))
    return tuple(found)


def estimates(plan: Plan) -> list[int]:
    """What each unit is predicted to take, by the target's prices: cycles where the limit is a time, else instructions."""
    p, timed = plan.target.processor, plan.options.max_slice_us is not None
    count = [s.spec.images if s.spec.images > 1 else s.spec.rows if s.spec.by_rows else 1 for s in plan.steps]
    costs = [price.of_step(plan, s) for s in plan.steps]
    whole = [math.ceil((c.cycles if timed else c.instructions) / n) for c, n in zip(costs, count, strict=True)]
    more = math.ceil((p.launch + p.turn) * (p.cpi if timed else 1))
    return [_rows_with(plan.steps[u.step].spec, u.at) * whole[u.step] + more for u in units(plan)]


def _rows_with(spec: Spec, row: int) -> int:
    """Rows that are computed when `row` is asked for."""
    return min(spec.together, spec.rows - row) if row % spec.together == 0 else 0


def packed(costs: Sequence[int], budget: int) -> tuple[int, ...]:
    """The first unit of each step, if as many units as fit are one step; one that does not fit is a step of its own."""
    first, room = [0], budget
    for i, cost in enumerate(costs):
        if cost > room and i > first[-1]:
            first.append(i)
            room = budget
        room -= cost
    return tuple(first)
