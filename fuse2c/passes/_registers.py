"""An estimate of what a kernel keeps live in its loops, against the core's registers: what is more lies on the stack.

Pointers that advance or are added to, accumulators, counters, what is being computed; a kernel of several steps also keeps
whose turn it is, the tables of its schedule and the caller's pointers. Innermost loops that are functions of their own have
the registers to themselves, and are not counted. `bench` says what the compiler made of it.
"""
from __future__ import annotations

from collections.abc import Sequence

from fuse2c.plan import Decision, Plan, Step

COUNTERS = 3        # of rows, columns and channels
AT_HAND = 4         # values of the expression that is being computed
TURNS = 3           # whose turn it is, its row, and the table that says so
APART = ("dsp", "mve", "fpu-sp")        # what kernels need that have their innermost loops in functions of their own


def kept(plan: Plan, step: Step) -> int:
    """Values that the loops of one step keep live."""
    operands = {plan.owner(t) for t in step.node.inputs if t and plan.graph.data(t) is None}
    pointers = len(operands) + len(step.node.outputs) + len(step.spec.tables) + bool(step.spec.scratch)
    sums = 0 if step.kernel.needs & set(APART) else 1 if step.work.macs else 0
    return pointers + sums + COUNTERS + AT_HAND


def of_kernel(plan: Plan, steps: Sequence[int]) -> int:
    """Values that one kernel keeps live where it keeps most."""
    most = max((kept(plan, plan.steps[i]) for i in steps), default=0)
    if len(steps) < 2:
        return most
    ends = {*plan.graph.inputs, *plan.graph.outputs}
    callers = {t for i in steps for t in (*plan.steps[i].node.inputs, *plan.steps[i].node.outputs) if t in ends}
    return most + TURNS + len(callers) + (plan.options.arena == "caller")


def decisions(plan: Plan) -> list[Decision]:
    """For each kernel of several steps, and each loop nest: whether its values have registers."""
    found = []
    for steps in plan.kernel_steps:
        if len(steps) < 2 and all("program" not in plan.steps[i].spec.flags for i in steps):
            continue
        have, live = plan.target.processor.registers, of_kernel(plan, steps)
        why = f"some {live} values live in loops, {have} registers"
        name = plan.steps[steps[0]].function + (f" .. {plan.steps[steps[-1]].function}" if len(steps) > 1 else "")
        found.append(Decision("registers", name, live <= have,
                              why if live <= have else f"{why}: about {live - have} wait on the stack, see `bench`"))
    return found
