"""Energy and power: which clock, and whether the plan keeps within `energy_uj` and `power_mw`."""
from __future__ import annotations

from dataclasses import dataclass, replace

from fuse2c import price
from fuse2c.errors import OverEnergy, PlanError
from fuse2c.plan import Plan
from fuse2c.price import Cost
from fuse2c.target import Clock, Target

EXACT = 1e-9        # of a time: how exactly numbers of a computer can be compared


@dataclass(frozen=True, slots=True)
class Rate:
    """An inference every so often at one clock."""

    clock: Clock
    energy_uj: float        # of an inference, waking up included
    time_s: float           # of an inference
    busy: float             # share of the time that is spent computing; above 1 it is too slow
    power_uw: float         # on average


def run(plan: Plan) -> Plan:
    """The target at the clock that takes least, if there is a choice to make; raises OverEnergy beyond a limit."""
    o, target = plan.options, plan.target
    if o.power_mw is not None and o.rate_hz is None:
        raise PlanError("an average power depends on how often the model runs", hint="give rate_hz (--rate-hz) too")
    if o.energy_uj is None and o.rate_hz is None:
        return plan
    if not any(c.active_uw for c in target.clock):
        raise PlanError(f"{target.name} has no figures for energy",
                        hint="give [[clock]] active_uw in a target file of your own: `fuse2c target new`")
    cost = price.of_plan(plan)
    plan = _at_rate(plan, cost, o.rate_hz) if o.rate_hz is not None else plan
    clock = price.clock_of(plan.target)
    energy = price.energy_uj(cost, plan.target, clock)
    if o.energy_uj is not None and energy is not None:
        if energy > o.energy_uj:
            raise OverEnergy(f"an inference takes {price.up(energy)} uJ at {clock.hz / 1e6:g} MHz, "
                             f"{price.up(energy - o.energy_uj)} more than the limit of {o.energy_uj:g}",
                             hint=_cheaper(plan, cost, energy))
        plan = plan.decide("afford", ("energy", True, f"{energy:,.1f} uJ of the allowed {o.energy_uj:,.1f}"))
    return plan


def _cheaper(plan: Plan, cost: Cost, energy: float) -> str:
    """What would take less: another clock, or another target."""
    others = [(e, c) for c in plan.target.clock if (e := price.energy_uj(cost, plan.target, c)) is not None]
    least, clock = min(others, key=lambda pair: pair[0])
    return (f"at {clock.hz / 1e6:g} MHz it would be {least:,.1f} uJ: --rate-hz lets fuse2c choose the clock" if least < energy
            else "`fuse2c explore` compares targets; a smaller model takes less")


def rates(target: Target, cost: Cost, hz: float, share: float = 1.0) -> list[Rate]:
    """Every clock with a known power, at `hz` inferences a second: computing, then asleep.

    share: of the cycles, those that pass until several cores are done; each takes the active power while it computes.
    """
    found = []
    for clock in target.clock:
        energy, time = price.energy_uj(cost, target, clock), price.seconds(cost, target, clock)
        if energy is None or time is None:
            continue
        energy += clock.active_uw * target.power.wake_us * 1e-6
        time *= share
        busy = (time + target.power.wake_us * 1e-6) * hz
        found.append(Rate(clock, energy, time, busy, energy * hz + target.power.sleep_uw * max(1 - busy, 0)))
    return found


def share(plan: Plan, cost: Cost) -> float:
    """Of the cycles of a plan, those that pass until all its cores are done."""
    return price.elapsed(plan) / cost.cycles if plan.phases and cost.cycles else 1.0


def misses(plan: Plan, cost: Cost, r: Rate) -> dict[str, str]:
    """Which limits cannot be kept at a clock, and by how much; the worst first."""
    o, found = plan.options, dict[str, str]()
    energy = price.energy_uj(cost, plan.target, r.clock)
    if r.busy > 1:
        found["rate"] = f"too slow: {o.rate_hz:g} inferences take {r.busy:.3g} s of a second"
    if o.deadline_ms is not None and r.time_s * 1e3 > o.deadline_ms * (1 + EXACT):
        found["deadline"] = f"too late: {r.time_s * 1e3:.4g} ms, the deadline is {o.deadline_ms:g}"
    if o.energy_uj is not None and energy is not None and energy > o.energy_uj:
        found["energy"] = f"{energy:,.1f} uJ, {energy - o.energy_uj:,.1f} more than the limit"
    return found


def best(plan: Plan, cost: Cost, found: list[Rate]) -> Rate:
    """The clock with the least average power of those that keep up, in time and within the energy as far as any does."""
    def order(r: Rate) -> tuple[bool, bool, bool, float, int]:
        missed = misses(plan, cost, r)
        slow, late = "rate" in missed, "deadline" in missed
        return (slow, late, "energy" in missed, r.time_s if slow or late else r.power_uw, r.clock.hz)
    return min(found, key=order)


def at_best_clock(plan: Plan, cost: Cost) -> Plan:
    """The plan at the clock that takes least, if a rate is given; else as it is."""
    found = rates(plan.target, cost, plan.options.rate_hz, share(plan, cost)) if plan.options.rate_hz is not None else []
    return replace(plan, target=plan.target.clocked(best(plan, cost, found).clock.hz)) if found else plan


def _at_rate(plan: Plan, cost: Cost, hz: float) -> Plan:
    """The plan at the best clock, and why; raises OverEnergy if it cannot keep up or takes too much power."""
    found = rates(plan.target, cost, hz, share(plan, cost))
    chosen, missed = best(plan, cost, found), {r.clock.hz: misses(plan, cost, r) for r in found}
    if chosen.busy > 1:
        raise OverEnergy(f"{plan.target.name} is too slow for {hz:g} inferences a second, even at "
                         f"{chosen.clock.hz / 1e6:g} MHz",
                         hint=f"at most {hz / chosen.busy:.3g} a second; `fuse2c explore` compares targets")
    limit = plan.options.power_mw
    if limit is not None and chosen.power_uw > limit * 1e3:
        raise OverEnergy(f"{price.up(chosen.power_uw / 1e3)} mW on average at {hz:g} inferences a second, the limit is "
                         f"{limit:g}",
                         hint=f"at {chosen.clock.hz / 1e6:g} MHz, the best clock: at most "
                              f"{_most(chosen, plan.target, hz, limit):.3g} a second")
    log = [(f"{r.clock.hz / 1e6:g} MHz", False, "; ".join(missed[r.clock.hz].values()) or f"{r.power_uw / 1e3:.4g} mW on "
            f"average, {chosen.power_uw / 1e3:.4g} at {chosen.clock.hz / 1e6:g} MHz") for r in found if r is not chosen]
    enough = [r for r in found if not missed[r.clock.hz]]
    log.append((f"{chosen.clock.hz / 1e6:g} MHz", True, _why(chosen, enough or [chosen], plan.target)))
    return replace(plan.decide("afford", *log), target=plan.target.clocked(chosen.clock.hz))


def _why(best: Rate, enough: list[Rate], target: Target) -> str:
    """Race to idle or slow and steady, with the figures that decide."""
    figures = f"{best.power_uw / 1e3:.4g} mW on average, computing {best.busy:.1%} of the time"
    if len(enough) == 1:
        return f"{figures}; the only clock that is fast enough"
    if best.clock.hz == max(r.clock.hz for r in enough):
        return (f"race to idle: {figures}; an inference takes least energy at the fastest clock, and sleep takes "
                f"{target.power.sleep_uw / 1e3:.3g} mW")
    return f"slow and steady: {figures}; a cycle takes less energy at this clock than what sleeping longer would save"


def _most(r: Rate, target: Target, hz: float, limit_mw: float) -> float:
    """Inferences a second within an average power at a clock, where `hz` of them take what `r` says."""
    more = r.power_uw - target.power.sleep_uw
    return hz * max(limit_mw * 1e3 - target.power.sleep_uw, 0) / more if more > 0 else 0.0
