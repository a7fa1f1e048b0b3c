"""One search: candidates are schedules with their kernels and the clock; all limits at once; the best by one objective."""
from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from fuse2c import price
from fuse2c.errors import LimitsConflict
from fuse2c.options import weights
from fuse2c.passes import afford, bound
from fuse2c.plan import Decision, Plan
from fuse2c.price import Cost

FREE = 0.04         # of the predicted cycles: what less RAM may cost under `cycles`, and the other way round under `ram`
JOINED = 0.25       # of the least RAM of such plans: what fewer kernels, and less that goes through memory, may cost


@dataclass(frozen=True, eq=False)
class Candidate:
    """A plan with addresses and kernels, and what it costs at the clock that suits it best."""

    plan: Plan
    cost: Cost
    slimmed: bool           # whether kernels gave way to slower ones with less scratch

    @cached_property
    def at(self) -> Plan:
        """The plan, its target at that clock."""
        return afford.at_best_clock(self.plan, self.cost)

    @cached_property
    def ram(self) -> int:
        """Bytes; with exact placement, which comes later, the least that it may get to, if that is needed to fit."""
        most, found, peak = self.plan.target.holding("arena")[1].bytes, self.plan.ram_bytes, self.plan.peak
        if self.plan.options.place != "exact" or peak is None or found <= most:
            return found
        return found - self.plan.working_bytes + peak.bytes

    @cached_property
    def flash(self) -> int:
        """Bytes of weights, and of code as estimated."""
        return self.plan.weight_bytes + price.code_bytes(self.plan)

    @cached_property
    def cycles(self) -> float:
        """Typical ones at the clock, from begin to end, however many cores work at a time."""
        found = price.cycles(self.cost, self.at.target, price.clock_of(self.at.target))
        return found + price.elapsed(self.plan) - self.cost.cycles if self.plan.phases else found

    @cached_property
    def energy(self) -> float:
        """Microjoules of an inference; cycles where the target's figures do not say."""
        found = price.energy_uj(self.cost, self.at.target, price.clock_of(self.at.target))
        return self.cycles if found is None else found

    @cached_property
    def power(self) -> float:
        """Milliwatts on average at the asked rate; 0 where none was asked for."""
        rate, hz = self.plan.options.rate_hz, price.clock_of(self.at.target).hz
        share = afford.share(self.plan, self.cost)
        found = afford.rates(self.plan.target, self.cost, rate, share) if rate is not None else []
        return next((r.power_uw / 1e3 for r in found if r.clock.hz == hz), 0.0)


@dataclass(frozen=True, slots=True)
class Limit:
    """What a candidate must not exceed."""

    name: str
    most: Callable[[Candidate], float | None]
    of: Callable[[Candidate], float]
    text: str               # a format for a figure
    digits: int = 12        # of it that are shown

    def excess(self, c: Candidate) -> float:
        """How much too much it is; 0 within the limit."""
        most = self.most(c)
        return 0 if most is None else max(self.of(c) - most, 0)

    def say(self, value: float) -> str:
        """A figure with its unit, rounded up: as a limit it is enough."""
        return self.text.format(price.up(value, self.digits))


LIMITS = (
    Limit("RAM", lambda c: c.plan.target.holding("arena")[1].bytes, lambda c: c.ram, "{:,.0f} bytes"),
    Limit("flash", lambda c: c.plan.target.holding("weights")[1].bytes, lambda c: c.flash, "{:,.0f} bytes"),
    Limit("time", lambda c: bound.deadline(c.at), lambda c: math.floor(c.cycles), "{:,.0f} cycles"),
    Limit("energy", lambda c: c.plan.options.energy_uj, lambda c: c.energy, "{:,g} uJ", 4),
    Limit("power", lambda c: c.plan.options.power_mw, lambda c: c.power, "{:g} mW", 4))

FIGURES: dict[str, Callable[[Candidate], float]] = {
    "cycles": lambda c: c.cycles, "ram": lambda c: c.ram, "flash": lambda c: c.flash, "energy": lambda c: c.energy}
"""What a weighted sum may be of."""

# By candidate, fewest cycles of all, and least RAM of all (under `cycles`: that need at most FREE more).
OBJECTIVES: dict[str, Callable[[Candidate, float, float], tuple[float, ...]]] = {
    "cycles": lambda c, fastest, least: (max(c.cycles, fastest * (1 + FREE)), max(c.ram, least * (1 + JOINED)),
                                         c.plan.launches, c.ram, c.cycles),
    "balanced": lambda c, fastest, least: (c.ram * c.cycles, c.ram),
    "ram": lambda c, fastest, least: (max(c.ram, least * (1 + FREE)), c.cycles, c.ram),
    "energy": lambda c, fastest, least: (c.energy, c.ram)}


def best(found: Sequence[Candidate]) -> Candidate:
    """The best one within all limits. If there is a limit that none is within, of those within the others the one that exceeds
    it by the least: a later pass says so.

    LimitsConflict if each limit can be kept, but not all at once.
    """
    fits = [c for c in found if not any(limit.excess(c) for limit in LIMITS)]
    if fits:
        return min(fits, key=order(fits))
    beyond = [limit for limit in LIMITS if min(map(limit.excess, found))]
    rest = [limit for limit in LIMITS if limit not in beyond]
    kept = [c for c in found if not any(limit.excess(c) for limit in rest)]
    if not beyond or not kept:
        raise _conflict(found, rest)
    least = min(map(beyond[0].excess, kept))
    closest = [c for c in kept if beyond[0].excess(c) == least]
    return min(closest, key=order(closest))


def ranked(found: Collection[Candidate]) -> list[Candidate]:
    """The Pareto front, what is within the limits first, then what exceeds them by the least; the best first."""
    front = unbeaten(found)
    key = order(front)

    def excess(c: Candidate) -> float:      # in parts of all that is asked for: a limit out of reach is no more than one
        found = ((limit.excess(c), max(limit.most(c) or 1, 1e-9)) for limit in LIMITS)
        return sum(over / (most + over) for over, most in found)
    return sorted(front, key=lambda c: (excess(c), key(c)))


def order(found: Sequence[Candidate]) -> Callable[[Candidate], tuple[float, ...]]:
    """What the best of some candidates has the least of."""
    how = found[0].plan.options.optimize
    if how not in OBJECTIVES:
        least = {key: max(min(map(FIGURES[key], found)), 1e-9) for key in weights(how)}
        return lambda c: (sum(w * FIGURES[key](c) / least[key] for key, w in weights(how).items()), c.ram, c.cycles)
    # Under `cycles` kernels give way for a limit only: prices of single kernels are too close to call.
    own = [c for c in found if how != "cycles" or not c.slimmed] or found
    fastest = min(c.cycles for c in own)
    ram = min(c.ram for c in own if how != "cycles" or c.cycles <= fastest * (1 + FREE))
    return lambda c: (how == "cycles" and c.slimmed, *OBJECTIVES[how](c, fastest, ram))


def _conflict(found: Sequence[Candidate], limits: Sequence[Limit]) -> LimitsConflict:
    """What each of these limits would have to be, if the others are kept."""
    lines = []
    for limit in limits:
        rest = [c for c in found if not any(other.excess(c) for other in limits if other is not limit)]
        if rest and any(map(limit.excess, found)):
            c = min(rest, key=limit.of)
            lines.append(f"{limit.name}: at least {limit.say(limit.of(c))} within the other limits, the limit is "
                         f"{limit.say(limit.most(c) or 0)}")
    broken = [limit.name for limit in limits if any(map(limit.excess, found))]
    return LimitsConflict(f"no plan keeps within the limits of {' and '.join(broken)} together: each of them alone can be met",
                          detail=tuple(lines), hint="one of them has to give way")


def refusals(found: Iterable[Candidate], chosen: Candidate) -> list[Decision]:
    """Why each of the candidates that none beats was not taken: the limit that it misses and by how much, or the objective."""
    log = []
    for c in unbeaten(found):
        if (c.ram, c.cycles) == (chosen.ram, chosen.cycles):
            continue
        missed = [f"{limit.say(excess)} more than the limit of {limit.name}, {limit.say(limit.most(c) or 0)}"
                  for limit in LIMITS if (excess := limit.excess(c))]
        why = "; ".join(missed) or (f"{chosen.ram:,} bytes and {chosen.cycles:,.0f} cycles are better for --optimize "
                                    f"{c.plan.options.optimize}")
        log.append(Decision("stream", f"schedule of {c.ram:,} bytes, {c.plan.call_count:,} calls, {c.cycles:,.0f} cycles",
                            False, why))
    return log


def gap(chosen: Candidate, placed: int, partitions: int, least_cycles: float, least_peak: int) -> Decision:
    """How much of the space was looked at, and how far the chosen one is from what no candidate can go below."""
    ram = max(chosen.plan.working_bytes - least_peak, 0)
    return Decision("stream", "search", True, (
        f"{placed} of {partitions} partitions were placed" if placed < partitions else f"all {partitions} partitions that none "
        f"beats were placed") + f"; at most {chosen.cost.cycles / max(least_cycles, 1) - 1:.1%} of the cycles and {ram:,} "
        "bytes of RAM are above what no schedule goes below")


def unbeaten(found: Iterable[Candidate]) -> list[Candidate]:
    """The Pareto front of RAM against cycles."""
    front: list[Candidate] = []
    for c in sorted(found, key=lambda c: (c.cycles, c.ram)):
        if not front or c.ram < front[-1].ram:
            front.append(c)
    return front
