"""--step-budget and --max-slice-us: where <name>_step stops, so that no step takes more than the budget.

What the units of work take is estimated, or proven from the machine code of a build in which each is a step. Of a layer
of which one unit is too long, the columns or the channels are split; then the model is planned again.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fuse2c import price
from fuse2c.errors import MissesDeadline
from fuse2c.ir.graph import Node
from fuse2c.op import bind
from fuse2c.ops import all_ops
from fuse2c.passes import bound, split
from fuse2c.passes._units import Unit, estimates, packed, units
from fuse2c.plan import Plan, Slices

ROOM = 0.95         # of the budget: what a part of a layer is to take, as parts cost a little more than their share
BLOCK = 4           # columns and channels that kernels compute side by side
MOST = 32           # parts of a layer: each is a kernel
TRIES = 6           # budgets that are tried to name one that is enough: each may be some builds of the whole model

Parts = Mapping[str, tuple[int, int]]
"""For the result of a layer to split: the axis, and how long a part is."""
Replan = Callable[[Parts], Plan]
Costs = Callable[[Plan], Sequence[int]]
"""What each step of a plan takes, in the unit of the budget."""
Tried = Callable[[Parts], tuple[Plan, Sequence[int]]]
"""The plan with some layers split, each unit a step, and what its steps take."""


def budget_of(plan: Plan) -> tuple[int, str]:
    """What a step may take, and in which unit: instructions or cycles."""
    cycles = bound.slice_cycles(plan)
    return (plan.options.step_budget or 0, "instructions") if cycles is None else (cycles, "cycles")


def estimated(plan: Plan) -> Plan:
    """The plan cut by estimates, whether or not every unit fits."""
    return cut(plan, estimates(plan), budget_of(plan)[0])


def cut(plan: Plan, costs: Sequence[int], budget: int) -> Plan:
    """The plan with as many units in a step as fit, by their costs."""
    first = packed(costs, budget)
    bounds = [sum(costs[a:b]) for a, b in zip(first, (*first[1:], len(costs)), strict=True)]
    return replace(plan, slices=Slices(first, tuple(bounds), unit=budget_of(plan)[1]))


def alone(plan: Plan) -> Plan:
    """The plan in which each unit is a step."""
    costs = estimates(plan)
    return replace(plan, slices=Slices(tuple(range(len(costs))), tuple(costs)))


class Whole(Exception):
    """A unit takes more than the budget, and nothing in it can be split."""

    def __init__(self, plan: Plan, unit: Unit, cost: int) -> None:
        super().__init__(cost)
        self.plan, self.unit, self.cost = plan, unit, cost


def fitted(replan: Replan, costs: Costs, budget: int) -> tuple[Plan, Sequence[int]]:
    """A plan of which no unit takes more than the budget, and what its units take. MissesDeadline if there is none; it names
    a budget that is enough, and that of which all units of its plan need no less."""
    known: dict[tuple[tuple[str, tuple[int, int]], ...], tuple[Plan, Sequence[int]]] = {}

    def tried(parts: Parts) -> tuple[Plan, Sequence[int]]:      # several budgets begin alike, and each is a build
        key = tuple(sorted(parts.items()))
        if key not in known:
            plan = alone(replan(parts))
            known[key] = plan, costs(plan)
        return known[key]
    try:
        return _fitted(tried, budget)
    except Whole as error:
        raise _too_long(error, budget, _enough(tried, error.cost)) from None


def _enough(tried: Tried, budget: int) -> int:
    """The least budget that was found to do in TRIES; less than `budget` does not."""
    done = None
    for _ in range(TRIES):
        try:
            longest = max(_fitted(tried, budget)[1])
        except Whole as error:
            if done is not None:
                return done
            budget = error.cost
        else:
            if longest == budget:
                return budget
            # Layers that this budget leaves whole may leave the others shorter than those that raised it.
            done, budget = budget, longest
    return done or max(tried({})[1])        # nothing has to be split


def _fitted(tried: Tried, budget: int) -> tuple[Plan, Sequence[int]]:
    """The same; raises Whole."""
    parts: dict[str, tuple[int, int]] = {}
    while True:
        plan, found = tried(parts)
        smaller = _smaller(plan, found, budget)
        if not smaller:
            return plan, found
        parts = {**parts, **smaller}        # not in place: a plan that is known has its own


def proven(plan: Plan, costs: Sequence[int], prove: Costs, budget: int, proof: str) -> Plan:
    """The plan cut into steps that `prove` bounds by the budget; units cost a little less together than apart."""
    room = budget
    while True:
        found = cut(plan, costs, room)
        bounds = prove(found)
        if max(bounds) <= budget:
            assert found.slices is not None
            return replace(found, slices=replace(found.slices, bounds=tuple(bounds), proof=proof))
        room -= max(bounds) - budget


def _smaller(plan: Plan, costs: Sequence[int], budget: int) -> dict[str, tuple[int, int]]:
    """The layers with a unit that is too long, as `Parts`; of several units the longest decides."""
    found: dict[str, tuple[int, int]] = {}
    for cost, unit in sorted(zip(costs, units(plan), strict=True), key=lambda item: -item[0]):
        if cost > budget:
            found = _parts(plan, unit, cost, budget) | found
    return found


def _parts(plan: Plan, unit: Unit, cost: int, budget: int) -> dict[str, tuple[int, int]]:
    """The layers of a unit to split, as in `_smaller`: all that take more than the budget, or the largest of several.
    Raises Whole if nothing in the unit can be split."""
    step = plan.steps[unit.step]
    macs = {n: all_ops()[n.op].work(bind(plan.graph, n)).macs for n in step.node.parts}
    layers = sorted((n for n in macs if macs[n]), key=lambda n: -macs[n])
    found: dict[str, tuple[int, int]] = {}
    for node in layers:
        share = ROOM * budget * sum(macs.values()) / (cost * macs[node])
        way = _way(plan, node, share, alone=len(layers) == 1 or bool(found))
        if way is not None:
            found[node.outputs[0].partition(split.PART)[0]] = way
    if not found:
        raise Whole(plan, unit, cost)
    return found


def _way(plan: Plan, node: Node, share: float, alone: bool) -> tuple[int, int] | None:
    """Axis and length of parts that take that share of what a layer, or a part of one, takes, or not much more; None if no
    parts take less. `alone`: it is already a kernel of its own, which anything that is split becomes."""
    y, extent = node.outputs[0].partition(split.PART)[0], dict(enumerate(plan.graph.type(node.outputs[0]).shape))
    have = 1.0      # the share of this part in the layer
    if y in plan.parts:
        along, size = plan.parts[y]
        extent[along] = sum(plan.graph.type(n.outputs[0]).shape[along] for s in plan.steps for n in s.node.parts
                            if n.outputs[0].partition(split.PART)[0] == y)
        have = size / extent[along]
    found: dict[int, int] = {}
    for axis in split.axes(plan.graph, node):
        want = int(extent[axis] * have * share)
        want = want if alone else min(want, extent[axis] - 1)
        size = max(want - want % BLOCK if want > BLOCK else want, -(-extent[axis] // MOST))
        if size / extent[axis] < have:
            found[axis] = size
            if want >= BLOCK:
                return axis, size
    return min(found.items(), key=lambda way: way[1] / extent[way[0]], default=None)


def _too_long(error: Whole, budget: int, enough: int) -> MissesDeadline:
    """For the user: the unit that cannot be split, and the least budget that was found to do."""
    plan, step, unit = error.plan, error.plan.steps[error.unit.step], budget_of(error.plan)[1]
    what = "row" if step.spec.by_rows else "image" if step.spec.images > 1 else "call"
    us = "" if unit == "instructions" else f" cycles (--max-slice-us {price.up(1e6 * enough / bound.clock(plan, ''), 6):g})"
    return MissesDeadline(f"a {what} of {step.function} takes {error.cost} {unit}, more than a step of {budget}",
                          node=step.node.name, op=step.node.op,
                          hint=f"a budget of at least {enough}{us}; this {what} cannot be split")
