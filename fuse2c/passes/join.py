"""Steps that take turns row by row, or hand on a few numbers, become one kernel: one launch.

So do neighbours that read the same tensor and know nothing of each other. Between the steps of such a kernel there are
rings of rows and vectors of at most SMALL bytes, never a whole tensor.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from fuse2c import pressure
from fuse2c.fusion.dsl import barred
from fuse2c.passes import _registers
from fuse2c.plan import Decision, Launch, Plan

SMALL = 512         # bytes that one step of a kernel may hand on to another at once


def joins(plan: Plan) -> bool:
    """Whether calls may become one kernel; without fusion each step is a kernel, also where rows take turns."""
    return plan.options.fuse and not plan.options.input_rows and "join" not in plan.options.no_fuse_rules


def kernels(plan: Plan) -> Plan:
    """The plan with its calls joined, where that is allowed."""
    if plan.phases:
        return replace(plan, kernels=tuple(k for run in _runs(plan) for k in joined(plan, run)))
    if not joins(plan):
        return plan
    found = joined(plan, segments(plan, 0, len(plan.calls)))
    if any(_barred_inside(plan, part) for part in found if part.rows):
        return plan
    return replace(plan, kernels=tuple(found))


def _barred_inside(plan: Plan, part: Launch) -> bool:
    """Whether rows pass a barrier while they take turns."""
    steps = sorted({c.step for c in plan.calls[part.first:part.end]})
    return any(barred(plan.options.fuse_barriers, plan.steps[i].node) for i in steps[:-1])


def run(plan: Plan) -> Plan:
    """Each call belongs to one kernel."""
    plan, log = kernels(plan), []
    for part in plan.kernels:
        steps = sorted({plan.calls[c].step for c in range(part.first, part.end)})
        if len(steps) > 1:
            each = plan.target.processor.turn + pressure.of_turn(plan, steps)
            what = f"rows take turns, at some {each:.0f} instructions each" if part.rows else f"at most {SMALL} bytes between"
            log.append(Decision("join", f"{plan.steps[steps[0]].function} .. {plan.steps[steps[-1]].function}", True,
                                f"one kernel of {len(steps)} steps: {what}"))
    return replace(plan, decisions=(*plan.decisions, *log, *_registers.decisions(plan)))


def _runs(plan: Plan) -> Iterator[list[Launch]]:
    """By phase and core: its calls, where what several cores compute together is alone, and without fusion everything."""
    joins = plan.options.fuse and "join" not in plan.options.no_fuse_rules
    for first, end in plan.spans:
        for _, found in groupby(range(first, end), lambda i: plan.calls[i].core):
            calls = list(found)
            if any(plan.calls[i].step in plan.shared for i in calls):
                yield from ([Launch(i, i + 1, False)] for i in calls)
                continue
            parts = segments(plan, calls[0], calls[-1] + 1)
            yield from [parts] if joins else ([part] for part in parts)


def segments(plan: Plan, begin: int, end: int) -> list[Launch]:
    """Of some calls, those that compute whole results, and runs of calls between which a step is interrupted."""
    found: list[Launch] = []
    first, open_ = begin, set[int]()
    for i, call in enumerate(plan.calls[begin:end], begin):
        whole = (call.first, call.end) == (0, plan.steps[call.step].spec.rows) and call.step not in open_
        if whole and i > plan.last_push:
            if first < i:
                found.append(Launch(first, i, True))
            found.append(Launch(i, i + 1, False))
            first, open_ = i + 1, set()
        else:
            open_.add(call.step)
    if first < end:
        found.append(Launch(first, end, True))
    return found


def joined(plan: Plan, parts: list[Launch]) -> list[Launch]:
    """Neighbours that hand on little become one."""
    result = parts[:1]
    for part in parts[1:]:
        if _little(plan, result[-1], part):
            result[-1] = Launch(result[-1].first, part.end, result[-1].rows or part.rows)
        else:
            result.append(part)
    return result


def _little(plan: Plan, a: Launch, b: Launch) -> bool:
    """Whether b reads what a writes, and not much of it; or the same as a."""
    written = {plan.owner(t) for c in plan.calls[a.first:a.end] for t in plan.steps[c.step].node.outputs}
    read = {plan.owner(t) for c in plan.calls[b.first:b.end] for t in plan.steps[c.step].node.inputs if t}
    steps = {c.step for c in plan.calls[a.first:a.end]}
    if any(barred(plan.options.fuse_barriers, plan.steps[i].node) for i in steps):
        return False
    sources = {plan.owner(t) for i in steps for t in plan.steps[i].node.inputs if t and plan.graph.data(t) is None}
    if not written & read:
        return bool(sources & read)         # side by side
    return all(plan.graph.type(t).bytes <= SMALL for t in written & read)
