"""Plans with a partition of one's own: which steps take turns row by row is the planner's choice, and any is right."""
from __future__ import annotations

import random
from pathlib import Path

from graphs import PORTABLE

from fuse2c import frontend, target
from fuse2c.options import Options
from fuse2c.passes import _groups, _rows, place, stream
from fuse2c.pipeline import PIPELINE
from fuse2c.plan import Plan


def unscheduled(path: Path, **options: object) -> Plan:
    """The plan as the pass `stream` gets it."""
    chosen = Options(**options)     # type: ignore[arg-type]
    plan = Plan(frontend.load(path, chosen), target.load(PORTABLE), chosen)
    for stage in PIPELINE:
        if stage.name == "stream":
            return plan
        plan = stage.run(plan)
    raise AssertionError("there is no such pass any more")


def partitioned(plan: Plan, groups: list[range]) -> Plan:
    """The plan with these groups, placed."""
    steps = [_rows.row_step(plan, s) for s in plan.steps]
    return place.run(stream.scheduled(plan, steps, groups))


def layered(plan: Plan) -> Plan:
    """Layer by layer."""
    return partitioned(plan, [range(i, i + 1) for i in range(len(plan.steps))])


def random_groups(plan: Plan, seed: int) -> list[range]:
    """Groups of one step or of several, cut at random; also where several tensors cross."""
    rng = random.Random(seed)
    groups, first = [], 0
    for i in range(1, len(plan.steps) + 1):
        if i == len(plan.steps) or rng.random() < 0.3:
            groups.append(range(first, i))
            first = i
    return groups


def streamed(plan: Plan) -> Plan:
    """The partition with the least peak."""
    steps = [_rows.row_step(plan, s) for s in plan.steps]
    return partitioned(plan, _groups.front(plan, steps)[-1].groups)
