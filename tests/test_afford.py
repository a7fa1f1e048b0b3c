"""Limits of energy and power: they bind to the last digit, and the clock is the one that takes least."""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import fuse2c
from fuse2c import price, study, target
from fuse2c.errors import OverEnergy
from fuse2c.passes import afford
from fuse2c.price import Cost
from fuse2c.target import Clock, Power

MODEL = Path(__file__).parents[1] / "examples" / "digits" / "digits_int8.onnx"
BOARD = "nucleo-l476rg"


def energy(**options: object) -> float:
    plan = fuse2c.plan(MODEL, target=BOARD, **options).plan
    return study.figures(plan)["energy_uj"]


def test_the_limit_of_energy_binds() -> None:
    need = energy(optimize="energy")        # no schedule takes less
    assert energy(energy_uj=need * (1 + 1e-9)) == need
    with pytest.raises(OverEnergy, match="more than the limit"):
        energy(energy_uj=need * (1 - 1e-9))


def test_the_objective_energy_takes_no_more() -> None:
    assert energy(optimize="energy") <= min(energy(optimize="cycles"), energy(optimize="ram"))


@pytest.mark.parametrize("rate", [0.1, 30.0, 150.0])
def test_the_clock_is_the_one_that_takes_least(rate: float) -> None:
    plan = fuse2c.plan(MODEL, target=BOARD, rate_hz=rate).plan
    found = afford.rates(target.load(BOARD), price.of_plan(plan), rate)
    best = min((r for r in found if r.busy <= 1), key=lambda r: r.power_uw)
    assert plan.target.processor.clock_hz == best.clock.hz
    taken = [d for d in plan.decisions if d.stage == "afford"]
    assert len(taken) == len(found) and [d.subject for d in taken if d.taken] == [f"{best.clock.hz / 1e6:g} MHz"]


def test_the_limit_of_power_binds() -> None:
    plan = fuse2c.plan(MODEL, target=BOARD, rate_hz=20.0, optimize="energy").plan
    found = {r.clock.hz: r.power_uw for r in afford.rates(target.load(BOARD), price.of_plan(plan), 20.0)}
    need = found[plan.target.processor.clock_hz] / 1e3
    fuse2c.plan(MODEL, target=BOARD, rate_hz=20.0, optimize="energy", power_mw=need * (1 + 1e-9))
    with pytest.raises(OverEnergy, match="on average") as error:
        fuse2c.plan(MODEL, target=BOARD, rate_hz=20.0, optimize="energy", power_mw=need * (1 - 1e-3))
    assert "at most 20 a second" in str(error.value)


def test_race_to_idle_or_slow_and_steady() -> None:
    """A cycle costs the same at both clocks, or half at the slow one: leakage while computing decides."""
    board = target.load(BOARD)
    for slow_uw, said, hz in ((6_000.0, "race to idle", 20_000_000), (2_000.0, "slow and steady", 10_000_000)):
        clocks = (Clock(10_000_000, slow_uw), Clock(20_000_000, 8_000.0))
        t = replace(board, clock=clocks, power=Power(sleep_uw=1.0), processor=replace(board.processor, clock_hz=20_000_000))
        plan = replace(fuse2c.plan(MODEL, target=BOARD).plan, target=t)
        plan = afford.run(replace(plan, options=replace(plan.options, rate_hz=1.0)))
        assert plan.target.processor.clock_hz == hz and any(said in d.reason for d in plan.decisions if d.taken)


def test_average_power_by_hand() -> None:
    """1 million cycles at 10 MHz are 0.1 s at 5,000 uW, twice a second; 0.8 s asleep at 10 uW."""
    board = replace(target.load(BOARD), clock=(Clock(10_000_000, 5_000.0),), power=Power(sleep_uw=10.0))
    (r,) = afford.rates(board, Cost(cycles=1e6), 2.0)
    assert r.busy == pytest.approx(0.2) and r.power_uw == pytest.approx(0.2 * 5_000 + 0.8 * 10)
