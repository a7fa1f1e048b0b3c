"""An address for every intermediate tensor and scratch buffer: several heuristics, the best result.

Tensors that belong to the caller (inputs, outputs) have no address here. An operand that dies at a step may lend
its bytes to the step's result where the kernel reads each element before it writes it (in place).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fuse2c.errors import DoesNotFit
from fuse2c.ops import all_ops
from fuse2c.passes.order import reads, writes
from fuse2c.plan import Decision, Place, Plan, Step

ALIGN = 8       # bytes; kernels may use 64-bit loads


def run(plan: Plan) -> Plan:
    """Places; raises DoesNotFit when RAM or flash do not suffice."""
    plan, log = _in_place(plan)
    lives = lifetimes(plan)
    heuristics: tuple[Callable[[Place], tuple[int, ...]], ...] = (
        lambda p: (-p.size, p.first), lambda p: (-(p.last - p.first), -p.size),
        lambda p: (p.first, -p.size), lambda p: (-p.size * (p.last - p.first + 1), p.first))
    best = min((_pack(sorted(lives, key=key)) for key in heuristics),
               key=lambda places: max((p.offset + p.size for p in places), default=0))
    plan = replace(plan, places=tuple(sorted(best, key=lambda p: (p.first, p.offset, p.name))),
                   decisions=plan.decisions + tuple(log))
    _check_fit(plan)
    return plan


def _in_place(plan: Plan) -> tuple[Plan, list[Decision]]:
    """Let results take over the bytes of operands that die; recorded as views."""
    log = []
    for i, step in enumerate(plan.steps):
        y = step.node.outputs[0]
        for t in _reusable(plan, step):
            root, later = plan.root(t), plan.steps[i + 1:]
            if y in _caller_owned(plan) or root in _caller_owned(plan) or any(root in reads(plan, s) for s in later):
                continue
            plan = replace(plan, views={**plan.views, y: t})
            log.append(Decision("place", step.function, True, f"in place: the result takes the bytes of {t}"))
            break
    return plan, log


def _reusable(plan: Plan, step: Step) -> list[str]:
    """Operands that the kernel reads at the very element that it writes next."""
    g, y = plan.graph, plan.graph.type(step.node.outputs[0])
    parts = step.node.parts
    made = {t for n in parts for t in n.outputs}
    tail = parts if all_ops()[step.node.op].scalar else parts[1:]
    names = [t for n in tail for t in n.inputs if t and t not in made and g.data(t) is None]
    anchor = set(() if all_ops()[step.node.op].scalar else parts[0].inputs)
    return [t for t in names if t not in anchor and g.type(t).bytes == y.bytes and g.type(t).shape == y.shape
            and g.type(t).memory_axes == y.memory_axes and plan.root(t) not in {plan.root(a) for a in anchor if a}]


def _caller_owned(plan: Plan) -> set[str]:
    """Roots of graph inputs and outputs, which live in the caller's buffers."""
    return {plan.root(t) for t in (*plan.graph.inputs, *plan.graph.outputs)}


def lifetimes(plan: Plan) -> list[Place]:
    """Every buffer with its size and the steps from first write to last read; offsets still 0."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for i, step in enumerate(plan.steps):
        for t in writes(plan, step) | reads(plan, step):
            first.setdefault(t, i)
            last[t] = i
    owned = _caller_owned(plan)
    found = [Place(t, 0, plan.graph.type(t).bytes, first[t], last[t]) for t in first if t not in owned]
    return found + [Place(f"{s.function} scratch", 0, s.spec.scratch, i, i)
                    for i, s in enumerate(plan.steps) if s.spec.scratch]


def _pack(lives: list[Place]) -> list[Place]:
    """Each in turn at the lowest offset where it meets no other that is live at the same time."""
    placed: list[Place] = []
    for p in lives:
        offset = 0
        for other in sorted((o for o in placed if o.first <= p.last and p.first <= o.last), key=lambda o: o.offset):
            if offset + p.size <= other.offset:
                break
            offset = max(offset, -(-(other.offset + other.size) // ALIGN) * ALIGN)
        placed.append(replace(p, offset=offset))
    return placed


def _check_fit(plan: Plan) -> None:
    ram_name, ram = plan.target.holding("arena")
    if plan.arena_bytes > ram.bytes:
        at = max(plan.places, key=lambda p: p.offset + p.size)
        step = plan.steps[at.first]
        live = [f"{p.size:>9} bytes  {p.name}" for p in plan.places if p.first <= at.first <= p.last]
        raise DoesNotFit(f"the arena needs {plan.arena_bytes} bytes of {ram_name}, {plan.target.name} has {ram.bytes}: "
                         f"{plan.arena_bytes - ram.bytes} too many", node=step.node.name, op=step.node.op,
                         detail=("live at the peak:", *live),
                         hint="a smaller input, int8 instead of float32, or a target with more RAM")
    flash_name, flash = plan.target.holding("weights")
    if plan.weight_bytes > flash.bytes:
        largest = max(plan.steps, key=lambda s: sum(a.nbytes for a in s.spec.tables.values()))
        raise DoesNotFit(f"the weights need {plan.weight_bytes} bytes of {flash_name}, {plan.target.name} has "
                         f"{flash.bytes}: {plan.weight_bytes - flash.bytes} too many", node=largest.node.name,
                         op=largest.node.op, hint="int8 weights, or a target with more flash")
