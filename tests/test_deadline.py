"""--deadline-ms, --max-slice-us, build --certify: what cannot fit is refused, before compilation or after."""
from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_measure import needs_gcc

import fuse2c
from fuse2c import price
from fuse2c.cli import cli
from fuse2c.errors import MissesDeadline, PlanError, TargetError
from fuse2c.passes import bound

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits_int8.onnx"
BOARD = """
name = "slow"
title = "a slow board"
source = "made up"
status = "estimated"
[processor]
isa = "armv7e-m"
features = ["dsp", "fpu-sp"]
cflags = ["-mcpu={core}"]
clock_hz = 1000000
[memory.all]
bytes = 1000000
holds = ["arena", "weights"]
"""


@pytest.fixture
def slow(tmp_path: Path) -> str:
    """A board whose milliseconds are thousands of cycles."""
    (tmp_path / "slow.toml").write_text(BOARD.format(core="cortex-m4"))
    return str(tmp_path / "slow.toml")


def test_what_no_code_could_do_is_refused(slow: str) -> None:
    macs = fuse2c.plan(DIGITS, slow).plan.macs
    assert fuse2c.plan(DIGITS, slow, deadline_ms=macs / 2 / 1e3 + 1).plan.macs == macs
    with pytest.raises(MissesDeadline, match=f"{macs} multiply-accumulates take at least {macs // 2} cycles") as caught:
        fuse2c.plan(DIGITS, slow, deadline_ms=macs / 2 / 1e3 - 1, optimize="ram")
    assert "a clock of 1.0" in caught.value.hint and "--optimize cycles" in caught.value.hint
    assert "% of the work in digits_int8_" in str(caught.value)


def test_a_few_rough_prices_are_no_way_around_a_deadline(tmp_path: Path) -> None:
    """Where some kernels have no price, the prediction refuses all the same, and says how rough it is."""
    path = tmp_path / "some.toml"
    path.write_text(BOARD.format(core="cortex-m4") + "[price.conv_dsp]\nmac = 2.0\n")
    free = fuse2c.plan(DIGITS, str(path), optimize="cycles=1").plan
    assert 0.1 <= price.rough(free) < 1
    with pytest.raises(MissesDeadline, match=f"{price.rough(free):.0%} of them by rough prices") as caught:
        fuse2c.plan(DIGITS, str(path), optimize="cycles=1", deadline_ms=1e-3)
    found = re.search(r"take (\d+) cycles", str(caught.value))
    assert found is not None
    fuse2c.plan(DIGITS, str(path), optimize="cycles=1", deadline_ms=int(found[1]) / 1e3)
    with pytest.raises(MissesDeadline, match=f"take {found[1]} cycles"):
        fuse2c.plan(DIGITS, str(path), optimize="cycles=1", deadline_ms=(int(found[1]) - 1) / 1e3)


def test_the_planner_takes_a_plan_in_time(slow: str) -> None:
    smallest, fastest = (fuse2c.plan(DIGITS, slow, optimize=how, fuse=False).plan for how in ("ram=1", "cycles=1"))
    assert smallest.point is not None and fastest.point is not None and smallest.point.cycles > fastest.point.cycles
    between = (smallest.point.cycles + fastest.point.cycles) / 2e3
    in_time = fuse2c.plan(DIGITS, slow, optimize="ram=1", fuse=False, deadline_ms=between).plan
    assert bound.deadline(in_time) == int(between * 1e3) and in_time.point is not None
    assert in_time.point.cycles <= between * 1e3 and in_time.ram_bytes >= smallest.ram_bytes
    hopeless = fuse2c.plan(DIGITS, slow, optimize="ram=1", fuse=False, deadline_ms=fastest.macs / 2e3 + 1).plan
    assert hopeless.point == fastest.front[0]       # no prices: too rough to refuse anything


@pytest.mark.parametrize("options", [{"deadline_ms": 5.0}, {"max_slice_us": 5.0}])
def test_a_time_needs_a_clock(options: dict[str, float]) -> None:
    with pytest.raises(TargetError, match="host has no clock") as caught:
        fuse2c.plan(DIGITS, "host", **options)
    assert "clock_hz" in caught.value.hint


def test_one_limit_for_a_step(slow: str) -> None:
    with pytest.raises(PlanError, match="two limits"):
        fuse2c.plan(DIGITS, slow, step_budget=500, max_slice_us=500.0)


@needs_gcc
def test_certify(tmp_path: Path, slow: str) -> None:
    pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
    pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")
    whole = fuse2c.plan(DIGITS, slow).wcet()
    assert whole.cycles is not None
    out = tmp_path / "out"
    command = ["build", str(DIGITS), "-t", slow, "-o", str(out), "--certify", "--deadline-ms"]
    late = CliRunner().invoke(cli, [*command, str(whole.cycles / 2e3)])
    assert isinstance(late.exception, MissesDeadline) and "the worst case of digits_int8_run takes" in str(late.exception)
    assert not out.exists()
    done = CliRunner().invoke(cli, [*command, str(whole.cycles / 1e3 + 50), "--max-slice-us", "200000"])
    assert done.exit_code == 0, done.output
    evidence = json.loads((out / "certificate.json").read_text())
    assert evidence["cycles"] <= whole.cycles + 50e3 and len(evidence["sha256"]) == len(hashlib.sha256().hexdigest())
    header = (out / "digits_int8.h").read_text()
    assert "the most cycles of any" in header and "an estimate" in header
    assert max(step["cycles"] for step in evidence["steps"]) <= 200000
    assert f"STEP_BOUND_MAX {max(step['cycles'] for step in evidence['steps'])}\n" in header
    assert CliRunner().invoke(cli, ["build", str(DIGITS), "-t", slow, "-o", str(out)]).exit_code == 0   # ours to replace


@needs_gcc
def test_cores_without_a_public_timing_have_no_certified_time(tmp_path: Path) -> None:
    pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
    pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")
    (tmp_path / "m7.toml").write_text(BOARD.format(core="cortex-m7"))
    with pytest.raises(TargetError, match="no timing of cortex-m7 is public") as caught:
        fuse2c.plan(DIGITS, str(tmp_path / "m7.toml"), deadline_ms=1e5).certified()
    assert "--step-budget" in caught.value.hint
