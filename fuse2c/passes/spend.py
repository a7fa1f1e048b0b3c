"""Flash that is to spare buys speed: kernels whose weights take more bytes than int8, where they gain most for a byte.

By default only where `--flash` says how much there is: the smallest image is what a model is first looked at for.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from fuse2c import price
from fuse2c.ops import all_ops
from fuse2c.passes import embed, order, place, select, spread, stream
from fuse2c.plan import Decision, Plan, Step


@dataclass(frozen=True, slots=True)
class Offer:
    """A faster kernel for step `at` of the plan: instructions that it saves, bytes of tables that it adds."""

    at: int
    step: Step
    saved: int
    bytes: int

    @property
    def text(self) -> str:
        """What there is to decide about."""
        return f"some {self.saved} instructions less for {self.bytes} bytes of weights more"


def run(plan: Plan) -> Plan:
    """The best offers for the room in flash, as far as the arena then still fits; the others are refused."""
    found = offers(plan, "flash") if plan.options.winograd != "off" else []
    if not found:
        return plan
    if plan.options.winograd == "flash" and plan.options.flash is None:
        return refused(plan, found, "only with --flash BYTES or --winograd auto")
    # What the code takes is known when steps are joined; no plan has more of it than one that shares nothing.
    code = price.code_bytes(replace(plan, options=replace(plan.options, share_kernels="never")))
    room = plan.target.holding("weights")[1].bytes - plan.weight_bytes - code
    taken: list[Offer] = []
    for offer in sorted(found, key=lambda o: (-o.saved / max(o.bytes, 1), o.at)):
        if offer.bytes <= room:
            room -= offer.bytes
            taken.append(offer)
        else:
            plan = refused(plan, [offer], f"{max(room, 0)} bytes are left")
    while taken and not fits(bought := with_kernels(plan, taken)):
        large = max(taken, key=lambda o: o.step.spec.scratch)
        taken.remove(large)
        plan = refused(plan, [large], f"its {large.step.spec.scratch} bytes of scratch are more than the arena has room for")
    return bought if taken else plan


def offers(plan: Plan, kind: str) -> list[Offer]:
    """Kernels that are offered for something (`Kernel.offer`), and take fewer instructions than what was selected."""
    found = []
    for i, step in enumerate(plan.steps):
        kernels = all_ops()[step.node.op].kernels
        for kernel in kernels[:kernels.index(step.kernel)]:
            call = select.anchor_call(plan, step.node)
            if kernel.offer != kind or select.refuse(kernel, plan.target.processors[step.processor].processor, call):
                continue
            spec = kernel.spec(call)
            new = replace(step, kernel=kernel, spec=spec, work=select.total_work(plan.graph, step.node, spec.macs))
            saved = gain(plan, step, new)
            size = sum(a.nbytes for a in plan.constants(new)) - sum(a.nbytes for a in plan.constants(step))
            size += round(price.price_of(plan, new).code - price.price_of(plan, step).code)
            if saved > 0:
                found.append(Offer(i, new, round(saved), size))
    return found


def gain(plan: Plan, old: Step, new: Step) -> float:
    """Instructions that one step takes more than another, by the target's prices."""
    return price.of_step(plan, old).instructions - price.of_step(plan, new).instructions


def with_kernels(plan: Plan, taken: list[Offer]) -> Plan:
    """The plan with the kernels of these offers."""
    new = {o.at: o.step for o in taken}
    log = tuple(Decision("spend", f"{o.step.node.name}: {o.step.kernel.name}", True, o.text) for o in taken)
    return replace(plan, steps=tuple(new.get(i, s) for i, s in enumerate(plan.steps)), decisions=plan.decisions + log)


def refused(plan: Plan, found: list[Offer], why: str) -> Plan:
    """The plan with a reason for not taking these offers."""
    return plan.decide("spend", *((f"{o.step.node.name}: {o.step.kernel.name}", False, f"{o.text}: {why}") for o in found))


def fits(plan: Plan) -> bool:
    """Whether the best schedule's arena fits, with the scratch of these kernels."""
    placed = place.arranged(spread.run(stream.run(order.run(embed.run(plan)))))
    return placed.ram_bytes <= plan.target.holding("arena")[1].bytes
