"""The same schedule with less scratch: where the peak is, the kernel gives way to the next one that needs less.

Scratch lives only while its own step runs. So at a peak there is one step to change, and nothing else helps: the plans
found this way are all that are worth a look for a schedule, from the fastest kernels to those with the least scratch.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fuse2c.passes import _rows, place
from fuse2c.passes._rows import RowStep
from fuse2c.passes.select import alternatives
from fuse2c.plan import Decision, Plan, Step

Variants = Mapping[int, Sequence[Step]]
"""By step: itself and the slower kernels with less and less scratch, where there are any."""


def variants(plan: Plan) -> Variants:
    """What could run instead of each step, in the same rows."""
    found: dict[int, Sequence[Step]] = {}
    for i, step in enumerate(plan.steps):
        if not step.spec.scratch or step.spec.keeps:
            continue
        steps, rows = [step], _rows.row_step(plan, step)
        for other in alternatives(plan, step):
            less = other.spec.scratch < steps[-1].spec.scratch and not other.spec.keeps
            if less and _is_as_fine(_rows.row_step(plan, other), rows):
                steps.append(other)
        if len(steps) > 1:
            found[i] = steps
    return found


def _is_as_fine(rows: RowStep, before: RowStep) -> bool:
    """Whether a step reads and writes the same rows as before, as many or fewer of them together."""
    return before.together % rows.together == 0 and replace(rows, together=before.together, beside=before.beside) == before


def slimmest(plan: Plan, options: Variants) -> Plan:
    """The plan with the least scratch of each step."""
    return _with(plan, {i: steps[-1] for i, steps in options.items()})


def slimmer(plan: Plan, options: Variants) -> Iterator[Plan]:
    """The plan's schedule with one kernel after another changed, the peak of live bytes never higher than before."""
    needs = _others(plan, options)
    chosen = dict.fromkeys(options, 0)
    while chosen:
        highest = max(chosen, key=lambda i: (needs[i] + options[i][chosen[i]].spec.scratch, -i))
        if chosen[highest] + 1 == len(options[highest]):
            return
        chosen[highest] += 1
        yield _with(plan, {i: options[i][at] for i, at in chosen.items()})


def _others(plan: Plan, options: Variants) -> dict[int, int]:
    """By step: the most other bytes that are live while its scratch is."""
    buffers = place.lifetimes(plan)
    live = np.zeros(len(place.units(plan)), np.int64)
    for b in buffers:
        if not b.scratch:
            rows = _rows.profile(b, len(live))
            live += np.where(rows > 0, b.size, 0) if b.ring else rows
    spans = {b.name: b.spans for b in buffers if b.scratch}
    return {i: max(int(live[a:b + 1].max()) for a, b in spans[plan.scratch(plan.steps[i], 0)]) for i in options}


def _with(plan: Plan, changed: Mapping[int, Step]) -> Plan:
    return replace(plan, steps=tuple(changed.get(i, s) for i, s in enumerate(plan.steps)))


def log(before: Plan, after: Plan) -> Iterator[Decision]:
    """Which kernels gave way."""
    for old, new in zip(before.steps, after.steps, strict=True):
        if old.spec.scratch != new.spec.scratch:
            yield Decision("stream", f"{old.node.name}: {old.kernel.name}", False,
                           f"its {old.spec.scratch:,} bytes of scratch are live at the peak: {new.kernel.name} takes "
                           f"{new.spec.scratch:,}")
