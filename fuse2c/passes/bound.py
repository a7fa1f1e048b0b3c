"""Time: what the deadline and the longest step are in cycles, and whether a deadline can be met at all.

Before anything is compiled only one thing is certain: the multiply-accumulates take so many cycles, with the instructions
that do most of them at once. Where the target lists prices of kernels, typical cycles are predicted; if these are too
many already, the worst case is as well. Whether the machine code meets the deadline is found by `build --certify`.
"""
from __future__ import annotations

import math

from fuse2c import price
from fuse2c.errors import MissesDeadline, TargetError
from fuse2c.plan import Plan

PEAK = {"mve": 8, "dsp": 2}
"""8-bit multiply-accumulates a cycle that a core with the feature could do at best; one on others."""
ROUGH = 0.1         # of the predicted cycles: more of them by rough prices are said
EXACT = 1e-6        # cycles: what is lost from cycles to milliseconds and back


def run(plan: Plan) -> Plan:
    """The same plan, or MissesDeadline if no code could meet the deadline."""
    limit = deadline(plan)
    if limit is None:
        return plan
    peak = max((n for feature, n in PEAK.items() if feature in plan.target.processor.features), default=1)
    least = plan.macs // (peak * plan.options.cores)
    cost, rough = price.of_plan(plan), price.rough(plan)
    cycles = math.floor(price.cycles(cost, plan.target, price.clock_of(plan.target)) + price.elapsed(plan) - cost.cycles)
    if cycles > limit and rough < 1:
        guessed = [f"{rough:.0%} of them by rough prices, as none are listed for these kernels"] if rough >= ROUGH else []
        raise missed(plan, cycles, "an inference is predicted to take", "no other plan takes less", *guessed)
    if least > limit:
        raise missed(plan, least, f"{plan.macs} multiply-accumulates take at least")
    guess = f", {rough:.0%} of them by rough prices" if rough else ""
    return plan.decide("bound", ("deadline", True, f"{limit} cycles; the multiply-accumulates take at least {least}, all "
                                 f"instructions about {cycles}{guess}"))


def deadline(plan: Plan) -> int | None:
    """The cycles that an inference may take; None without a deadline. TargetError without a clock."""
    ms = plan.options.deadline_ms
    return None if ms is None else int(ms * clock(plan, "--deadline-ms") / 1e3 + EXACT)


def slice_cycles(plan: Plan) -> int | None:
    """The cycles that a step may take, of --max-slice-us; None without it."""
    us = plan.options.max_slice_us
    return None if us is None else int(us * clock(plan, "--max-slice-us") / 1e6 + EXACT)


def clock(plan: Plan, option: str) -> int:
    """The target's clock in Hz."""
    if not plan.target.processor.clock_hz:
        raise TargetError(f"{option}: the target {plan.target.name} has no clock",
                          hint="choose a board, such as nucleo-f446re, or add clock_hz to [processor] of a target file")
    return plan.target.processor.clock_hz


def missed(plan: Plan, cycles: int, what: str, *detail: str) -> MissesDeadline:
    """The error for an inference of so many cycles: what takes most of them, and what would help."""
    hz, ms = plan.target.processor.clock_hz, plan.options.deadline_ms or 0.0
    costs = [price.of_step(plan, s).cycles for s in plan.steps]
    worst = max(range(len(costs)), key=costs.__getitem__)
    step, percent = plan.steps[worst], int(100 * costs[worst] / max(sum(costs), 1))
    help_ = [f"a clock of {math.ceil(cycles / ms) / 1e3:g} MHz"]
    help_ += ["--optimize cycles"] if plan.options.optimize != "cycles" else []
    help_ += ["--requant fixed"] if plan.options.requant != "fixed" else []
    help_ += ["a smaller model", "or, if the deadline is another task's, --max-slice-us"]
    takes = math.ceil(1e6 * cycles / hz) / 1e3      # rounded up, so that it would be enough
    return MissesDeadline(f"{what} {cycles} cycles, {takes:.3f} ms at {hz / 1e6:g} MHz: "
                          f"{takes - ms:.3f} ms later than {ms:g} ms", detail=detail,
                          node=step.node.name, op=f"{step.node.op}, about {percent} % of the work in {step.function}",
                          hint=", ".join(help_))
