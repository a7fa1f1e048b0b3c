"""All that a report says about a plan, as data under a versioned schema: docs/JSON.md lists the keys."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from fuse2c import memory, price
from fuse2c.plan import Plan
from fuse2c.price import Cost
from fuse2c.target import Target

T = TypeVar("T", int, str)
SCHEMA = "fuse2c-report/1"


def of(plan: Plan, unfused: Plan, model: str) -> dict[str, Any]:
    """The plan, what it was before fusion, and what nothing could go below."""
    t, clock = plan.target, price.clock_of(plan.target)
    return {
        "schema": SCHEMA, "model": model,
        "target": {"name": t.name, "title": t.title, "status": t.status, "source": t.source, "clock_hz": clock.hz or None,
                   "prices": t.origin("price")},
        "figures": {"unfused": figures(unfused), "fused": figures(plan), "limits": limits(plan)},
        "kernels": kernels(plan), "kernels_unfused": kernels(unfused), "roofs": roofs(plan),
        "memory": {"bytes": plan.arena_bytes, "bound": plan.peak.bytes if plan.peak else None, "boxes": boxes(plan)},
        "front": front(plan), "cores": price.shared(plan),
        "decisions": [asdict(d) for d in plan.decisions],
        "ends": ends(plan), "measured": None,
        "wcet": None, "wcet_note": "The worst case was not asked for."}


def ends(plan: Plan) -> dict[str, Any]:
    """What goes in and out, and which kernel makes the outputs."""
    made = {t: k for k, group in enumerate(plan.kernel_steps, 1) for i in group for t in plan.steps[i].node.outputs}
    owners = [_owner(plan, t, made) for t in plan.outputs]
    by = [owner if isinstance(owner, int) else None for owner in owners]
    return {"inputs": list(plan.inputs), "outputs": list(plan.outputs), "made_by": by}


def front(plan: Plan) -> list[dict[str, Any]]:
    """The plans to choose from."""
    return [asdict(p) | {"chosen": p == plan.point} for p in plan.front]


def figures(plan: Plan) -> dict[str, Any]:
    """The figures of one plan as a whole; None where the target file does not know enough."""
    cost = price.of_plan(plan)
    called, time = price.launch_cycles(plan), price.latency(plan, price.clock_of(plan.target))
    return {"launches": plan.launches, "calls": plan.call_count, "launch_cycles": round(called),
            "intermediate_bytes": plan.intermediate_bytes, **_priced(cost, plan.target),
            "time_ms": None if time is None else time * 1e3, "ram_bytes": plan.ram_bytes, "weight_bytes": plan.weight_bytes}


def _priced(cost: Cost, target: Target) -> dict[str, Any]:
    """What one Cost is in all units."""
    clock = price.clock_of(target)
    time, energy = price.seconds(cost, target, clock), price.energy_uj(cost, target, clock)
    return {"macs": cost.macs, "operations": cost.operations, "instructions": round(cost.instructions),
            "cycles": round(price.cycles(cost, target, clock)), "cycles_worst": round(cost.worst),
            "traffic": cost.by_memory(target),
            "time_ms": None if time is None else time * 1e3, "energy_uj": energy,
            "operations_per_watt": cost.operations / (energy * 1e-6) if energy else None}


def limits(plan: Plan) -> dict[str, Any]:
    """What no plan of this model on this target goes below: one launch, every operand once, arithmetic alone."""
    g, cost = plan.graph, price.of_plan(plan)
    ends = sum(g.type(t).bytes for t in (*plan.inputs, *plan.outputs))
    compute = sum(s.work.macs / price.peak(plan, s) for s in plan.steps)
    least = Cost(instructions=0, cycles=compute, worst=compute, launches=1, read=0, written=ends, weights=plan.weight_bytes,
                 macs=cost.macs, alu=cost.alu)
    p = plan.target.processor
    return {"launches": 1, "calls": 1, "launch_cycles": round(p.launch * p.cpi), "intermediate_bytes": 0,
            **_priced(least, plan.target), "instructions": None,
            "ram_bytes": plan.peak.rows if plan.peak else 0, "weight_bytes": plan.weight_bytes}


def saved(report: Mapping[str, Any], key: str) -> float | None:
    """The share of a figure that fusion saved; None where it is unknown."""
    before, after = (report["figures"][which][key] for which in ("unfused", "fused"))
    return None if not before or after is None else 1 - after / before


def kernels(plan: Plan) -> list[dict[str, Any]]:
    """Each launch: its steps, what it costs, and where it stands under the roofs."""
    total = price.of_plan(plan).cycles
    return [_kernel(plan, number, steps, total) for number, steps in enumerate(plan.kernel_steps, 1)]


def _kernel(plan: Plan, number: int, steps: Sequence[int], total: float) -> dict[str, Any]:
    cost = price.of_kernel(plan, steps)
    made = {t: k for k, group in enumerate(plan.kernel_steps, 1) for i in group for t in plan.steps[i].node.outputs}
    read = dict.fromkeys(_owner(plan, t, made) for i in steps for t in plan.steps[i].node.inputs
                         if t and plan.graph.data(t) is None)
    return {"number": number, "steps": [_step(plan, i, total) for i in steps], **_priced(cost, plan.target),
            "launches": cost.launches, "share": cost.cycles / total if total else 0.0,
            "after": [k for k in read if isinstance(k, int) and k != number],
            "reads": [k for k in read if isinstance(k, str)], "levels": levels(plan, steps, cost)}


def _owner(plan: Plan, tensor: str, made: Mapping[str, T]) -> T | str:
    """The kernel (or step) that a tensor comes from, through views; or the input's name."""
    while tensor not in made and tensor in plan.views:
        tensor = plan.views[tensor]
    return made.get(tensor, tensor)


def _step(plan: Plan, i: int, total: float) -> dict[str, Any]:
    step, g = plan.steps[i], plan.graph
    cost = price.of_step(plan, step)

    def text(t: str) -> str:
        kind, ring = g.type(t), plan.rings.get(plan.root(t))
        return f"{kind.dtype.value} {'x'.join(map(str, kind.shape)) or 'scalar'}" + (f", ring of {ring} rows" if ring else "")
    made = {t: s.function for s in plan.steps for t in s.node.outputs}
    read = dict.fromkeys(_owner(plan, t, made) for t in step.node.inputs if t and g.data(t) is None)
    return {"function": step.function, "kernel": step.kernel.name, "processors": plan.where(i),
            "after": [t for t in read if t in made.values()], "operators": [n.op for n in step.node.parts],
            "nodes": list(dict.fromkeys(o for n in step.node.parts for o in n.origin)),
            "inputs": [text(t) for t in step.node.inputs if t and g.data(t) is None],
            "outputs": [text(t) for t in step.node.outputs if t], **_priced(cost, plan.target),
            "share": cost.cycles / total if total else 0.0, "levels": levels(plan, [i], cost)}


def levels(plan: Plan, steps: Sequence[int], cost: Cost) -> list[dict[str, Any]]:
    """By memory: operations a byte, what the roofs allow, which of them is lower, and how far below it the kernel is."""
    clock, found = price.clock_of(plan.target), list[dict[str, Any]]()
    time = price.seconds(cost, plan.target, clock)
    macs = sum(plan.steps[i].work.macs for i in steps)
    flat = 2 * clock.hz * (macs / sum(plan.steps[i].work.macs / price.peak(plan, plan.steps[i]) for i in steps) if macs
                           else plan.target.processor.macs_per_cycle)
    for name, size in cost.by_memory(plan.target).items():
        bandwidth = plan.target.memory[name].gb_per_s * 1e9
        if not time or not bandwidth or not size or not cost.operations:
            continue
        intensity = cost.operations / size
        roof, reached = min(flat, intensity * bandwidth), cost.operations / time
        found.append({"memory": name, "intensity": intensity, "reached": reached, "roof": roof, "flat": flat,
                      "bound": "memory" if intensity * bandwidth < flat else "compute", "below": roof / reached})
    return found


def roofs(plan: Plan) -> list[dict[str, Any]]:
    """The sloping roof of each memory in use, bytes a second, and the flat ones, operations a second."""
    t, clock = plan.target, price.clock_of(plan.target)
    names = dict.fromkeys(t.holding(what)[0] for what in ("arena", "weights"))
    return [{"memory": n, "bytes_per_s": t.memory[n].gb_per_s * 1e9, "source": t.origin(f"memory.{n}.gb_per_s"),
             "int8": 2 * clock.hz * t.processor.macs_per_cycle, "float32": 2 * clock.hz * t.processor.flops_per_cycle}
            for n in names if t.memory[n].gb_per_s and clock.hz]


def boxes(plan: Plan) -> list[dict[str, Any]]:
    """The buffers of the arena, see memory.boxes."""
    return [{"name": b.name, "label": b.label, "kind": b.kind, "bytes": b.size, "offset": b.start, "first": b.span[0],
             "last": b.span[1]} for b in memory.boxes(plan)]
