"""An execution order with a low memory peak, and the names that follow from it."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuse2c.names import identifier
from fuse2c.plan import Plan, Step


def run(plan: Plan) -> Plan:
    """The better of the model's own order and a greedy one; then C names by position."""
    steps = min((list(plan.steps), _greedy(plan)), key=lambda order: peak(plan, order))
    prefix = identifier(plan.graph.name)
    width = len(str(len(steps)))
    named = tuple(replace(s, function=f"{prefix}_{i:0{width}}_{identifier(s.node.op)}")
                  for i, s in enumerate(steps, 1))
    return replace(plan, steps=named)


def reads(plan: Plan, step: Step) -> set[str]:
    """Roots of the variable tensors that a step reads."""
    return {plan.root(t) for t in step.node.inputs if t and plan.graph.data(t) is None}


def writes(plan: Plan, step: Step) -> set[str]:
    """Roots of the tensors that a step writes."""
    return {plan.root(t) for t in step.node.outputs}


def peak(plan: Plan, order: Sequence[Step]) -> int:
    """Largest sum of live bytes under an order (scratch included)."""
    last = {t: i for i, s in enumerate(order) for t in reads(plan, s)}
    live, most = 0, 0
    for i, s in enumerate(order):
        live += sum(plan.graph.type(t).bytes for t in writes(plan, s))
        most = max(most, live + s.spec.scratch)
        live -= sum(plan.graph.type(t).bytes for t, end in last.items() if end == i)
    return most


def _greedy(plan: Plan) -> list[Step]:
    """Of the steps that are ready, always the one that leaves the fewest bytes live; ties by the model's order."""
    size = {t: plan.graph.type(t).bytes for s in plan.steps for t in reads(plan, s) | writes(plan, s)}
    pending = {t: sum(t in reads(plan, s) for s in plan.steps) for t in size}
    made_by = {t for s in plan.steps for t in writes(plan, s)}
    done: set[str] = set()
    rest, order = list(plan.steps), []
    while rest:
        ready = [s for s in rest if all(t in done or t not in made_by for t in reads(plan, s))]

        def growth(s: Step) -> int:
            freed = sum(size[t] for t in reads(plan, s) if pending[t] == 1 and t in made_by)
            return sum(size[t] for t in writes(plan, s)) - freed
        best = min(ready, key=growth)
        for t in reads(plan, best):
            pending[t] -= 1
        done |= writes(plan, best)
        rest.remove(best)
        order.append(best)
    return order
