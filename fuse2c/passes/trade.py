"""Kernels that are offered, not selected (`Kernel.offer`): an exchange is taken where it pays and no limit forbids it.

An offer exchanges the kernel of one step: fewer instructions, for flash, scratch or a longer worst case. What a kind of
offers needs beside fewer instructions is a row of KINDS; what none may exceed is weighed for all together: the flash that
is to spare, the deadline and the length of a step at worst, and the arena with all scratch. Offers that save most for a
byte of flash come first; a step takes one.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from fuse2c import price
from fuse2c.kernels import skip
from fuse2c.op import Spec
from fuse2c.ops import all_ops
from fuse2c.passes import _search, bound, embed, order, place, select, spread, stream
from fuse2c.plan import Decision, Plan, Step
from fuse2c.price import Cost

SURE = 0.1          # of a kernel's instructions: prices are that exact
LEAST = 0.4         # share of zeros below which no kernel that passes over them was measured to take less
OF_TIME = ("cycles", "energy")      # objectives that count no bytes
MARGIN = 0.8        # of a limit, that the estimated worst case may take


@dataclass(frozen=True, eq=False)
class Offer:
    """Another kernel for step `at` of a plan."""

    plan: Plan
    at: int
    new: Step

    @property
    def old(self) -> Step:
        """The step as it is."""
        return self.plan.steps[self.at]

    @cached_property
    def costs(self) -> tuple[Cost, Cost]:
        """Of the step as it is, and as it would be."""
        return price.of_step(self.plan, self.old), price.of_step(self.plan, self.new)

    @property
    def saved(self) -> float:
        """Instructions, as expected."""
        before, after = self.costs
        return before.instructions - after.instructions

    @property
    def longer(self) -> bool:
        """Whether it takes longer at worst."""
        before, after = self.costs
        return after.worst > before.worst

    @cached_property
    def flash(self) -> int:
        """Bytes of tables and of code that it adds."""
        before, after = (sum(a.nbytes for a in self.plan.constants(s)) for s in (self.old, self.new))
        return after - before + round(price.price_of(self.plan, self.new).code - price.price_of(self.plan, self.old).code)

    @property
    def scratch(self) -> int:
        """Bytes that it adds."""
        return self.new.spec.scratch - self.old.spec.scratch

    @property
    def share(self) -> float | None:
        """Of the operand's elements, those that are zero, as far as that was measured."""
        return self.plan.options.zeros.get(operand(self.old))

    def decision(self, why: str) -> Decision:
        """Taken, or why not."""
        before, after = self.costs
        zeros = f"{self.share:.0%} zeros: " if self.new.kernel.offer == "zeros" else ""
        text = (f"{zeros}{after.instructions:,.0f} instructions for {before.instructions:,.0f}, {self.flash:+,} bytes of "
                f"flash, {self.scratch:+,} of scratch")
        return Decision("trade", f"{self.new.node.name}: {self.new.kernel.name}", not why, f"{text}: {why}" if why else text)


@dataclass(frozen=True, slots=True)
class Kind:
    """What is offered under a name: whether there is such an offer, why it is not taken whatever the limits ("": it may be).

    expected: the spec that is priced, where what a kernel takes depends on the data.
    """

    applies: Callable[[Plan, Step], bool]
    refuse: Callable[[Offer], str]
    expected: Callable[[Offer], Spec] = lambda o: o.new.spec


def _unknown(o: Offer) -> str:
    return "" if all(price.is_listed(o.plan, s) for s in (o.old, o.new)) else "no price to tell"


def _blocks(o: Offer) -> str:
    return _unknown(o) or ("it is to take no more flash" if o.flash > 0 else "")


def _flash(o: Offer) -> str:
    options = o.plan.options
    return "only with --flash BYTES or --winograd auto" if options.winograd == "flash" and options.flash is None else ""


def _zeros(o: Offer) -> str:
    return _unknown(o) or (f"below {LEAST:.0%} none was measured to take less" if (o.share or 0) < LEAST else "")


def _with_zeros(o: Offer) -> Spec:
    return replace(o.new.spec, effort=skip.expected(o.new.spec.most, o.share or 0))


KINDS = {
    "blocks": Kind(lambda plan, step: True, _blocks),
    "flash": Kind(lambda plan, step: plan.options.winograd != "off", _flash),
    "zeros": Kind(lambda plan, step: operand(step) in plan.options.zeros, _zeros, _with_zeros)}


def run(plan: Plan) -> Plan:
    """The plan with the exchanges that pay within the limits; each offer is a decision."""
    found = offers(plan)
    if not found:
        return plan
    barred = dict[Offer, str]()
    while True:
        taken, why, room = list[Offer](), dict[Offer, str](), _room(plan)
        for o in found:
            why[o] = barred.get(o) or _refused(o, taken, room)
            if not why[o]:
                taken, room = [*taken, o], room - o.flash
        large = max(too_large(plan, taken), key=lambda pair: pair[0].scratch, default=None)
        if large is None:
            break
        barred[large[0]] = f"its {large[0].new.spec.scratch:,} bytes of scratch are {large[1]}"
    return replace(_with(plan, taken), decisions=plan.decisions + tuple(o.decision(why[o]) for o in found))


def offers(plan: Plan) -> list[Offer]:
    """All kernels that could be exchanged for what was selected, those that save most for a byte first."""
    found = []
    for i, step in enumerate(plan.steps):
        kernels, call = all_ops()[step.node.op].kernels, select.anchor_call(plan, step.node)
        for kernel in (k for k in kernels[:kernels.index(step.kernel)] if k.offer and KINDS[k.offer].applies(plan, step)):
            if not select.refuse(kernel, plan.target.processors[step.processor].processor, call):
                offer = Offer(plan, i, select.served(plan, step, kernel, call))
                found.append(replace(offer, new=replace(offer.new, spec=KINDS[kernel.offer].expected(offer))))
    return sorted(found, key=lambda o: (-o.saved / max(o.flash, 1), o.at))


def operand(step: Step) -> str:
    """Whose zeros count: the first operand; empty if there is none."""
    first = step.node.parts[0].inputs
    return first[0] if first else ""


def saves(o: Offer) -> bool:
    """Whether it takes fewer instructions by more than prices may be wrong."""
    return o.saved > SURE * o.costs[0].instructions


def _refused(o: Offer, taken: list[Offer], room: int) -> str:
    """Why an offer is not taken beside others, with so much flash to spare; empty if it is."""
    if not saves(o):
        return "too little is saved"
    if why := KINDS[o.new.kernel.offer].refuse(o):
        return why
    if any(o.at == other.at for other in taken):
        return "another one is taken"
    if o.flash > max(room, 0):
        return f"{max(room, 0):,} bytes of flash are left"
    return exceeded(_with(o.plan, [*taken, o]), o.at) if o.longer else ""


def exceeded(plan: Plan, i: int) -> str:
    """Which limit step `i` may break at worst, by estimates; empty if none."""
    worst, limit = price.of_plan(plan).worst, bound.deadline(plan)
    if limit is not None and worst > MARGIN * limit:
        return f"at worst the model takes {worst:,.0f} cycles, too near the deadline of {limit:,}"
    if not plan.options.in_steps:
        return ""
    step = plan.steps[i]
    rows = step.spec.rows if step.spec.by_rows else 1
    row, limit = price.of_step(plan, step).worst / rows, bound.slice_cycles(plan)
    if limit is None:
        row, limit = row / price.price_of(plan, step).cpi_worst, plan.options.step_budget or 0
    return f"at worst a row takes {row:,.0f}, too near the {limit:,} of a step" if row > MARGIN * limit else ""


def _room(plan: Plan) -> int:
    """Bytes of flash to spare: what the code takes is known later, but no plan has more of it than one that shares nothing."""
    code = price.code_bytes(replace(plan, options=replace(plan.options, share_kernels="never")))
    return plan.target.holding("weights")[1].bytes - plan.weight_bytes - code


def _with(plan: Plan, taken: Iterable[Offer]) -> Plan:
    """The plan with these exchanges."""
    new = {o.at: o.new for o in taken}
    return replace(plan, steps=tuple(new.get(i, s) for i, s in enumerate(plan.steps)))


def too_large(plan: Plan, taken: Iterable[Offer]) -> list[tuple[Offer, str]]:
    """Of the offers that a plan is to take, those whose scratch is too much, and for what: the best schedule that fits has
    no room for it, or the plan is better without by an objective that counts bytes."""
    some = [o for o in taken if o.scratch > 0]
    if not some:
        return []
    placed = _placed(_with(plan, taken))
    kept = {s.node.outputs: s.kernel for s in placed.steps}
    fits = placed.ram_bytes <= plan.target.holding("arena")[1].bytes
    over = [(o, "more than the arena has room for") for o in some
            if not fits or kept.get(o.new.node.outputs) is not o.new.kernel]
    if over or plan.options.optimize in OF_TIME:
        return over
    without, within = (_search.Candidate(p, price.of_plan(p), slimmed=False)
                       for p in (_placed(_with(plan, [o for o in taken if o not in some])), placed))
    worse = _search.ranked((without, within))[0] is without
    return [(o, f"not worth it for --optimize {plan.options.optimize}") for o in some] if worse else []


def _placed(plan: Plan) -> Plan:
    """The plan with the best schedule, and addresses."""
    return place.arranged(spread.run(stream.run(order.run(embed.run(plan)))))
