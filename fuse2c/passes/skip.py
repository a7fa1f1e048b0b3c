"""Kernels that pass over zeros, where so many elements of their operand are zero that they take fewer instructions.

How many are zero is measured, by `--calib` or `check --profile-sparsity`. At worst none is: such a kernel then takes longer
than the plain one, which no deadline and no step may have to pay.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fuse2c import price
from fuse2c.kernels.skip import LIST, LOOK
from fuse2c.ops import all_ops
from fuse2c.passes import bound, select
from fuse2c.plan import Decision, Plan, Step

SURE = 0.1          # of the plain kernel's instructions: prices are that exact
LEAST = 0.4         # share of zeros below which no such kernel was measured to take less
MARGIN = 0.8        # of a limit, that the estimated worst case may take


def run(plan: Plan) -> Plan:
    """The same plan with such kernels where they are expected to save more than SURE."""
    log, steps = list[Decision](), list(plan.steps)
    for i, step in enumerate(plan.steps):
        share = plan.options.zeros.get(operand(step))
        other = None if share is None else offered(plan, step, share)
        if share is None or other is None:
            continue
        plain, expected = price.of_step(plan, step), price.of_step(plan, other)
        why = f"{share:.0%} zeros: {expected.instructions:,.0f} instructions expected, {plain.instructions:,.0f} without it"
        taken = share >= LEAST and expected.instructions < plain.instructions * (1 - SURE)
        trial = replace(plan, steps=tuple(other if j == i else s for j, s in enumerate(steps)))
        if taken and (limit := exceeded(trial, i)):
            taken, why = False, f"{why}: {limit}"
        if taken:
            steps[i] = other
        log.append(Decision("skip", f"{step.node.name}: {other.kernel.name}", taken, why))
    return replace(plan, steps=tuple(steps), decisions=plan.decisions + tuple(log))


def operand(step: Step) -> str:
    """What a kernel of this kind lists: the first operand; empty if there is none."""
    first = step.node.parts[0].inputs
    return first[0] if first else ""


def offered(plan: Plan, step: Step, share: float) -> Step | None:
    """The step with a kernel that passes over zeros, priced for such a share of them; None if there is no such kernel."""
    kernels = all_ops()[step.node.op].kernels
    for kernel in (k for k in kernels[:kernels.index(step.kernel)] if k.offer == "zeros"):
        call = select.anchor_call(plan, step.node)
        if select.refuse(kernel, plan.target.processors[step.processor].processor, call):
            continue
        spec = kernel.spec(call)
        return replace(step, kernel=kernel, spec=replace(spec, effort=expected(spec.most, share)),
                       work=select.total_work(plan.graph, step.node, spec.macs))
    return None


def expected(most: Mapping[str, int], share: float) -> dict[str, int]:
    """The effort for such a share of zeros: they are looked at, but not listed; a block's last trip is half full on average."""
    def trips(n: int) -> int:
        return min(n, round(n * (1 - share)) + most["tile"] // 2)
    listing = most["load"] * (LOOK + LIST * (1 - share)) / (LOOK + LIST)
    return {**most, "load": round(listing), "multiply": trips(most["multiply"]), "unpack": trips(most["unpack"])}


def exceeded(plan: Plan, i: int) -> str:
    """Which limit step `i` may break at worst, by estimates; empty if none."""
    worst, limit = price.of_plan(plan).worst, bound.deadline(plan)
    if limit is not None and worst > MARGIN * limit:
        return f"at worst the model takes {worst:,.0f} cycles, too near the deadline of {limit:,}"
    if not plan.options.in_steps:
        return ""
    step = plan.steps[i]
    rows = step.spec.rows if step.spec.by_rows else 1
    row, limit = price.of_step(plan, step).worst / rows, bound.slice_cycles(plan)
    if limit is None:
        row, limit = row / price.price_of(plan, step).cpi_worst, plan.options.step_budget or 0
    return f"at worst a row takes {row:,.0f}, too near the {limit:,} of a step" if row > MARGIN * limit else ""
