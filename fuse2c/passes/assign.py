"""A processor for every step: of those that share the first one's core, the one whose kernel takes fewest cycles.

Such processors are ways to use one core, such as Helium and plain instructions: between them nothing is handed over, so
each step is chosen for itself. What other cores do is a matter of time, too, and decided with it (spread.py); an
accelerator would be one more processor, with kernels that need a feature of its own.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fuse2c import price
from fuse2c.errors import NoKernel, PlanError, did_you_mean
from fuse2c.passes.select import chosen
from fuse2c.plan import Decision, Plan, Step

SURE = 0.1          # prices are that exact: a kernel that seems to take less by no more is not taken for it
SMALL = 20_000      # cycles: they were fitted to layers that take more


def run(plan: Plan) -> Plan:
    """The same plan with each step's kernel for its processor; PlanError for a place that no node or processor has."""
    forced = places(plan)
    if plan.options.cores > len(plan.target.cores):
        raise PlanError(f"{plan.target.name} has {len(plan.target.cores)} of the {plan.options.cores} cores",
                        hint=f"--cores {len(plan.target.cores)}, or a target file with a [core.NAME]")
    first, log = plan.target.cores[0], list[Decision]()
    ways = [name for name, core in plan.target.processors.items() if first in (name, core.link.on)]
    steps = [on(plan, s, forced[i], log) if i in forced else _best(plan, s, ways, log) for i, s in enumerate(plan.steps)]
    return replace(plan, steps=tuple(steps), decisions=plan.decisions + tuple(log))


def places(plan: Plan) -> dict[int, str]:
    """Steps that --place-node names, by index, and their processors. Raises PlanError."""
    names: dict[str, list[int]] = {}
    for i, step in enumerate(plan.steps):
        for name in dict.fromkeys(n for part in step.node.parts for n in (part.name, *part.origin)):
            names.setdefault(name, []).append(i)
    found: dict[int, str] = {}
    for node, processor in plan.options.place_node:
        if processor not in plan.target.processors:
            raise PlanError(f"--place-node: {plan.target.name} has no processor called {processor!r}", node=node,
                            hint=did_you_mean(processor, list(plan.target.processors)))
        core = core_of(plan, processor)
        if core >= plan.options.cores:
            raise PlanError(f"--place-node: {processor} is another core, which no code is generated for", node=node,
                            hint=f"--cores {core + 1}")
        if node not in names:
            raise PlanError(f"--place-node: no kernel has a node called {node!r}", hint=did_you_mean(node, sorted(names)))
        for i in names[node]:
            if found.setdefault(i, processor) != processor:
                raise PlanError(f"--place-node: one kernel computes this node and another one on {found[i]}", node=node,
                                hint="--fuse-barrier between them, or one processor for both")
    return found


def is_placed(plan: Plan, i: int) -> bool:
    """Whether --place-node names a node of a step."""
    names = {n for part in plan.steps[i].node.parts for n in (part.name, *part.origin)}
    return any(node in names for node, _ in plan.options.place_node)


def core_of(plan: Plan, processor: str) -> int:
    """The number of the core that a processor is, or is a way to use."""
    return plan.target.cores.index(plan.target.processors[processor].link.on or processor)


def on(plan: Plan, step: Step, processor: str, log: list[Decision]) -> Step:
    """A step as it would be on a processor."""
    if step.processor == processor:
        return step
    found = chosen(plan, step.node, plan.target.processors[processor].processor, log)
    log.append(Decision("assign", f"{step.node.name}: {processor}", True, f"asked for; its kernel is {found.kernel.name}"))
    return found


def _best(plan: Plan, step: Step, ways: list[str], log: list[Decision]) -> Step:
    """Of the ways to use one core, the one on which a step takes fewest cycles, as far as prices tell."""
    for processor in ways:
        try:
            other = chosen(plan, step.node, plan.target.processors[processor].processor, [])
        except NoKernel:
            continue
        if other.kernel.name == step.kernel.name and price.price_of(plan, other) == price.price_of(plan, step):
            continue        # one price for two forms of a kernel says nothing of which takes less
        now, then = price.of_step(plan, step).cycles, price.of_step(plan, other).cycles
        what = f"{other.kernel.name} takes {then:,.0f} cycles, {step.kernel.name} {now:,.0f}"
        priced = all(_is_priced(plan, s) for s in (step, other))
        better = priced and now > SMALL and then < now * (1 - SURE)
        close = "too close to tell" if now > SMALL else "too small for prices to hold"
        why = what if better or (priced and then > now) else f"{what}: {close}" if priced else "no price to tell"
        log.append(Decision("assign", f"{step.node.name}: {processor}", better, why))
        step = other if better else step
    return step


def _is_priced(plan: Plan, step: Step) -> bool:
    """Whether a step's price holds for layers of all shapes: one of multiply-accumulates alone was fitted to deep ones."""
    listed = plan.target.processors[step.processor].price
    family = next((f for f in price.families(plan, step) if f in listed), None)
    return family is not None and any(getattr(listed[family], key) for key in price.COUNTS if key not in ("mac", "alu"))


def variants(plan: Plan) -> Mapping[int, Mapping[int, Step]]:
    """By core and index, each step as it would be there; steps that have no kernel there are missing."""
    found: dict[int, dict[int, Step]] = {}
    for core, name in enumerate(plan.target.cores[:plan.options.cores]):
        found[core] = {}
        for i, step in enumerate(plan.steps):
            own = core_of(plan, step.processor) == core
            if own or not is_placed(plan, i):
                other = step if own else _as_on(plan, step, name)
                if other is not None:
                    found[core][i] = other
    return found


def _as_on(plan: Plan, step: Step, name: str) -> Step | None:
    """The step on another core: with the same kernel if that core has what it needs; None where it has no kernel."""
    processor = plan.target.processors[name].processor
    if step.kernel.needs <= set(processor.features) or step.spec.written:
        return replace(step, processor=name)
    if any(plan.graph.type(t).within for t in (*step.node.inputs, *step.node.outputs) if t):
        return None         # parts of larger tensors: the kernel was chosen with them
    try:
        other = chosen(plan, step.node, processor, [])
    except NoKernel:
        return None
    return replace(other, function=step.function)
