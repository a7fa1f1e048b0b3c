"""Where a loop over elements keeps more values than the core has registers: several loops, if that takes less.

What an elementwise kernel computes side by side, from the same operands, may as well be computed one behind the other: that
takes a loop and loads more for each part, no memory. Dynamic programming finds the parts, in the order of the nodes.
Kernels with vectors compute one result: where each branch has one, that is worth more than any load saved.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from fuse2c import pressure
from fuse2c.fusion.dsl import Group, body, made, operands, results
from fuse2c.ir.graph import Graph
from fuse2c.op import Kernel
from fuse2c.plan import Decision, Plan

VECTORS = "mve"
LOOP = 2            # instructions of a loop, an element
SURE = 0.1          # of a loop's instructions: prices are that exact


def parts(plan: Plan, g: Graph, group: Group, served: Callable[[Group], Kernel | None]) -> tuple[list[Group], str]:
    """The group in as many loops as take least, and why there are several; the group itself where that is best.

    served: the kernel that a group would have.
    """
    p, branches = plan.target.processor, _branches(group)
    live = pressure.of_loop(g, body(group), p)
    if len(branches) > 1 and VECTORS in p.features:
        alone = [served(b) for b in branches]
        if all(k is not None and VECTORS in k.needs for k in alone):
            return branches, f"{', '.join({k.name: 0 for k in alone if k})} computes several elements at a time, of one result"
    if live <= p.registers or len(branches) == 1 or not p.spill:
        return [group], ""
    elements = prod(g.type(group[0].outputs[0]).shape)

    def cost(first: int, end: int) -> float:
        """Instructions an element, without those that all divisions have."""
        nodes = body([n for branch in branches[first:end] for n in branch])
        loads = sum(g.data(t) is None for t in operands(nodes))
        more = max(pressure.of_loop(g, nodes, p) - p.registers, 0)
        return loads + LOOP + p.spill * more + p.launch / elements
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end in range(1, len(branches) + 1):
        best.append(min((best[first][0] + cost(first, end), first) for first in range(end)))
    together, apart = cost(0, len(branches)), best[-1][0]
    whole = together + p.alu * len(body(group)) + len(results(g, group))
    if together - apart <= SURE * whole:
        return [group], ""
    found, end = list[Group](), len(branches)
    while end:
        first = best[end][1]
        found.append(tuple(n for n in group if any(n is m for branch in branches[first:end] for m in branch)))
        end = first
    return found[::-1], (f"some {live} values live in one loop, {p.registers} registers: {len(found)} loops save some "
                         f"{(together - apart) * elements:,.0f} of {whole * elements:,.0f} instructions")


def _branches(group: Group) -> list[Group]:
    """What is computed from operands of the group alone: nodes that hand on nothing to those of another branch."""
    found: list[Group] = []
    for n in group:
        near = [b for b in found if made(b) & {t for part in n.parts for t in part.inputs}]
        found = [b for b in found if b not in near] + [(*(m for b in near for m in b), n)]
    return found


def decisions(plan: Plan) -> list[Decision]:
    """For each kernel of several steps, and each loop nest: whether its values have registers."""
    found = []
    for steps in plan.kernel_steps:
        if len(steps) < 2 and all("program" not in plan.steps[i].spec.flags for i in steps):
            continue
        have, live = plan.target.processor.registers, pressure.of_kernel(plan, steps)
        why = f"some {live} values live in loops, {have} registers"
        found.append(Decision("registers", _named(plan, steps), live <= have,
                              why if live <= have else f"{why}: about {live - have} wait on the stack, see `bench`"))
    return found


def _named(plan: Plan, steps: Sequence[int]) -> str:
    return " .. ".join(dict.fromkeys(plan.steps[i].function for i in (steps[0], steps[-1])))
