"""Chains and residual blocks become row-interleaved groups: rings of rows instead of whole tensors, nothing computed twice.

The steps are cut into groups where only one tensor crosses; dynamic programming finds the partition with the least
peak of live rows. A group of one step is layer by layer.
"""
from __future__ import annotations

from dataclasses import replace

from fuse2c.passes import _rows
from fuse2c.passes._rows import RowStep, Unit
from fuse2c.plan import Call, Decision, Plan


def run(plan: Plan) -> Plan:
    """A schedule of row calls, and the tensors that become rings."""
    steps = [_rows.row_step(plan, s) for s in plan.steps]
    whole = [range(i, i + 1) for i in range(len(steps))]
    groups = best_partition(plan, steps) if plan.options.optimize == "ram" else whole
    order = [unit for group in groups for unit in _rows.interleaved(steps, group)]
    rings = _rings(plan, steps, groups, order)
    log = [Decision("stream", f"{plan.steps[g[0]].function} .. {plan.steps[g[-1]].function}", True,
                    f"{len(g)} steps row by row") for g in groups if len(g) > 1]
    return replace(plan, calls=calls(plan, steps, order), rings=rings, decisions=plan.decisions + tuple(log))


def calls(plan: Plan, steps: list[RowStep], order: list[Unit]) -> tuple[Call, ...]:
    """The order as calls: consecutive rows of one step are one call."""
    result: list[Call] = []
    for step, row in order:
        if result and result[-1].step == step and result[-1].end == row:
            result[-1] = replace(result[-1], end=row + 1)
        else:
            result.append(Call(step, row, row + 1))
    return tuple(replace(c, end=plan.steps[c.step].spec.rows) if not steps[c.step].splits else c for c in result)


def _rings(plan: Plan, steps: list[RowStep], groups: list[range], order: list[Unit]) -> dict[str, int]:
    """Rows kept of each tensor that is written and read inside one group of several steps."""
    owned = {plan.root(t) for t in (*plan.graph.inputs, *plan.graph.outputs)}
    inner = []
    for group in groups:
        if len(group) > 1:
            inside = {steps[i].writes for i in group if steps[i].out_rows == steps[i].rows}
            outside = {r.tensor for i, s in enumerate(steps) if i not in group for r in s.readers}
            inner += sorted(inside - outside - owned)
    found = _rows.lives(plan, steps, order, inner)
    rings = {t: _rows.ring_rows(life) for t, life in found.items()}
    return {t: n for t, n in rings.items() if n < len(found[t].born)}


def cuts(plan: Plan, steps: list[RowStep]) -> list[int]:
    """Positions between steps that at most one intermediate tensor crosses."""
    owned = {plan.root(t) for t in (*plan.graph.inputs, *plan.graph.outputs)}
    last = {r.tensor: i for i, s in enumerate(steps) for r in s.readers}
    positions = []
    for at in range(1, len(steps)):
        crossing = {s.writes for s in steps[:at] if last.get(s.writes, -1) >= at} - owned
        if len(crossing) <= 1:
            positions.append(at)
    return [0, *positions, len(steps)]


def best_partition(plan: Plan, steps: list[RowStep]) -> list[range]:
    """The partition into groups with the least peak; ties go to fewer streamed steps."""
    places = cuts(plan, steps)
    best: list[tuple[tuple[int, int], list[range]]] = [((0, 0), [])]
    for j in range(1, len(places)):
        options: list[tuple[tuple[int, int], list[range]]] = []
        for i in range(j - 1, -1, -1):
            group = range(places[i], places[j])
            streams = all(steps[k].splits for k in group)
            if len(group) > 1 and not streams and options:
                break
            # Steps that several tensors cross and that cannot be split run one after the other.
            parts = [group] if streams else [range(k, k + 1) for k in group]
            (peak, streamed), before = best[i]
            cost = (max(peak, group_bytes(plan, steps, group)),
                    streamed + (len(group) if streams and len(group) > 1 else 0))
            options.append((cost, [*before, *parts]))
        best.append(min(options, key=lambda o: o[0]))
    return best[-1][1]


def group_bytes(plan: Plan, steps: list[RowStep], group: range) -> int:
    """Peak of live bytes while a group runs: rows inside it, whole tensors at its ends, scratch."""
    order = _rows.interleaved(steps, group)
    owned = {plan.root(t) for t in (*plan.graph.inputs, *plan.graph.outputs)}
    written = {steps[i].writes for i in group}
    read = {r.tensor for i in group for r in steps[i].readers}
    later = {r.tensor for i, s in enumerate(steps) if i >= group.stop for r in s.readers}
    change = [0] * (len(order) + 2)
    for t, life in _rows.lives(plan, steps, order, (written | read) - owned).items():
        if t in later or (t in read and t not in written):
            life.born[:], life.dies[:] = (0 if t not in written else life.born), len(order) - 1 if t in later else life.dies
        for born, dies in zip(life.born, life.dies, strict=True):
            change[born] += life.row_bytes
            change[dies + 1] -= life.row_bytes
    for i in group:
        spec = plan.steps[i].spec
        times = [time for time, (step, _) in enumerate(order) if step == i]
        if spec.keeps and spec.scratch:
            change[times[0]] += spec.scratch
            change[times[-1] + 1] -= spec.scratch
        elif spec.scratch:
            for time in times:
                change[time] += spec.scratch
                change[time + 1] -= spec.scratch
    live = peak = 0
    for step in change:
        live += step
        peak = max(peak, live)
    return peak
