"""Time: what the deadline and the longest step are in cycles, and whether a deadline can be met at all.

Before anything is compiled only one thing is certain: the multiply-accumulates take so many cycles, with the instructions
that do most of them at once. Whether the machine code meets the deadline is found by `build --certify`.
"""
from __future__ import annotations

from fuse2c.errors import MissesDeadline, TargetError
from fuse2c.plan import Plan, Step

PEAK = {"mve": 8, "dsp": 2}
"""8-bit multiply-accumulates a cycle that a core with the feature could do at best; one on others."""


def run(plan: Plan) -> Plan:
    """The same plan, or MissesDeadline if no code could meet the deadline."""
    limit = deadline(plan)
    if limit is None:
        return plan
    peak = max((n for feature, n in PEAK.items() if feature in plan.target.processor.features), default=1)
    least = plan.macs // (peak * plan.options.cores)
    if least > limit:
        raise missed(plan, least, f"{plan.macs} multiply-accumulates take at least")
    return plan.decide("bound", ("deadline", True, f"{limit} cycles; the multiply-accumulates take at least {least}, all "
                                 f"instructions about {plan.instructions} (rough)"))


def deadline(plan: Plan) -> int | None:
    """The cycles that an inference may take; None without a deadline. TargetError without a clock."""
    ms = plan.options.deadline_ms
    return None if ms is None else int(ms * clock(plan, "--deadline-ms") / 1e3)


def slice_cycles(plan: Plan) -> int | None:
    """The cycles that a step may take, of --max-slice-us; None without it."""
    us = plan.options.max_slice_us
    return None if us is None else int(us * clock(plan, "--max-slice-us") / 1e6)


def clock(plan: Plan, option: str) -> int:
    """The target's clock in Hz."""
    if not plan.target.processor.clock_hz:
        raise TargetError(f"{option}: the target {plan.target.name} has no clock",
                          hint="choose a board, such as nucleo-f446re, or add clock_hz to [processor] of a target file")
    return plan.target.processor.clock_hz


def missed(plan: Plan, cycles: int, what: str) -> MissesDeadline:
    """The error for an inference of so many cycles: what takes most of them, and what would help."""
    hz, ms = plan.target.processor.clock_hz, plan.options.deadline_ms or 0.0
    price = plan.target.processor

    def share(step: Step) -> int:
        return price.mac * step.work.macs + price.alu * step.work.alu
    worst = max(plan.steps, key=share)
    percent = 100 * share(worst) // max(sum(map(share, plan.steps)), 1)
    help_ = [f"a clock of {cycles / ms / 1e3:.1f} MHz"]
    help_ += ["--optimize cycles"] if plan.options.optimize != "cycles" else []
    help_ += ["--requant fixed"] if plan.options.requant != "fixed" else []
    help_ += ["a smaller model", "or, if the deadline is another task's, --max-slice-us"]
    return MissesDeadline(f"{what} {cycles} cycles, {1e3 * cycles / hz:.3f} ms at {hz / 1e6:g} MHz: later than {ms:g} ms",
                          node=worst.node.name, op=f"{worst.node.op}, about {percent} % of the work in {worst.function}",
                          hint=", ".join(help_))
