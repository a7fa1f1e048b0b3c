"""Kernels that hold the blocks of weights that are not zero, where they take fewer instructions and no more flash."""
from __future__ import annotations

from dataclasses import replace

from fuse2c import price
from fuse2c.passes import spend
from fuse2c.plan import Decision, Plan, Step

SURE = 0.1         # of the plain kernel's instructions: prices are that exact


def run(plan: Plan) -> Plan:
    """The same plan with such kernels where both counts are lower; of several the one with the fewest instructions."""
    log, steps = list[Decision](), list(plan.steps)
    for offer in sorted(spend.offers(plan, "blocks"), key=lambda o: (o.at, -o.saved)):
        old, new = plan.steps[offer.at], offer.step
        taken = steps[offer.at] is old and offer.bytes <= 0 and offer.saved > SURE * price.of_step(plan, old).instructions
        taken = taken and price.is_listed(plan, old) and price.is_listed(plan, new)     # rough prices are no judges
        if taken:
            steps[offer.at] = new
        log.append(Decision("blocks", f"{new.node.name}: {new.kernel.name}", taken, _counts(plan, old, new)))
    return replace(plan, steps=tuple(steps), decisions=plan.decisions + tuple(log))


def _counts(plan: Plan, old: Step, new: Step) -> str:
    """Instructions and bytes of tables of both."""
    found = [(price.of_step(plan, s).instructions, sum(a.nbytes for a in plan.constants(s))) for s in (new, old)]
    return "{:,.0f} instructions and {:,} bytes of tables, {:,.0f} and {:,} without it".format(*found[0], *found[1])
