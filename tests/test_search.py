"""Decisions under limits: what binds is refused with the figure that would do, and exactly enough succeeds."""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fuse2c
from fuse2c import study
from fuse2c.errors import DoesNotFit, LimitsConflict, MissesDeadline, PlanError
from fuse2c.options import weights
from fuse2c.plan import Plan

MODEL = Path(__file__).parents[1] / "examples" / "digits" / "digits_int8.onnx"
BOARD = "nucleo-l476rg"


def plan(**options: object) -> Plan:
    """The example model for a board with prices, clocks and powers."""
    return fuse2c.plan(MODEL, target=BOARD, **options).plan


def number(text: str, pattern: str) -> int:
    """The whole number that a message gives."""
    found = re.search(pattern, text)
    assert found, text
    return int(found[1].replace(",", ""))


def test_a_byte_too_little_ram_says_what_would_do() -> None:
    with pytest.raises(DoesNotFit) as error:
        plan(ram=10)
    least = number(str(error.value), r"needs (\d+) bytes")
    assert plan(ram=least).ram_bytes == least == plan(optimize="ram=1").ram_bytes
    with pytest.raises(DoesNotFit, match="1 too many"):
        plan(ram=least - 1)


def test_a_cycle_too_little_time_says_what_would_do() -> None:
    with pytest.raises(MissesDeadline) as error:
        plan(deadline_ms=plan(optimize="cycles=1").point.cycles / 80e6 * 0.99e3)
    cycles = number(str(error.value), r"predicted to take (\d+) cycles")
    found = plan(deadline_ms=cycles / 80e3)
    assert found.point is not None and int(study.figures(found)["cycles"]) in (cycles, cycles + 1)
    with pytest.raises(MissesDeadline, match="no other plan takes less"):
        plan(deadline_ms=(cycles - 1) / 80e3)


def test_exactly_the_time_of_a_report_is_enough() -> None:
    time = study.figures(plan(optimize="cycles=1"))["time_ms"]
    assert study.figures(plan(deadline_ms=time))["time_ms"] == time


def test_limits_that_only_each_alone_can_be_met() -> None:
    small, fast = plan(optimize="ram=1"), plan(optimize="cycles=1")
    assert small.point is not None and fast.point is not None and small.point.cycles > fast.point.cycles
    time = study.figures(fast)["time_ms"]
    with pytest.raises(LimitsConflict, match="RAM and time") as error:
        plan(ram=small.ram_bytes, deadline_ms=time)
    ram = number(str(error.value), r"RAM: at least ([\d,]+) bytes")
    cycles = number(str(error.value), r"time: at least ([\d,]+) cycles")
    assert plan(ram=ram, deadline_ms=time).ram_bytes == ram
    assert plan(ram=small.ram_bytes, deadline_ms=(cycles + 1) / 80e3).ram_bytes == small.ram_bytes


def test_the_clock_belongs_to_the_search() -> None:
    """At a low rate the slow clock takes least; a deadline that it misses takes the next one, and says so."""
    slow = plan(rate_hz=1.0)
    hz, ms = slow.target.processor.clock_hz, study.figures(slow)["time_ms"]
    assert hz < 80_000_000
    fast = plan(rate_hz=1.0, deadline_ms=ms * 0.9)
    assert fast.target.processor.clock_hz > hz and study.figures(fast)["time_ms"] <= ms * 0.9
    assert any("too late" in d.reason for d in fast.decisions if d.stage == "afford" and not d.taken)


def test_kernels_with_less_scratch_where_ram_is_short() -> None:
    fast = plan()
    short = plan(ram=plan(optimize="ram=1").ram_bytes)
    assert short.ram_bytes < fast.ram_bytes and [s.spec.scratch for s in short.steps] != [s.spec.scratch for s in fast.steps]
    assert any("bytes of scratch are live at the peak" in d.reason for d in short.decisions)
    assert any("more than the limit of RAM" in d.reason for d in short.decisions if d.stage == "stream")
    late = plan(deadline_ms=study.figures(fast)["time_ms"], optimize="ram=1")
    assert [s.spec.scratch for s in late.steps] == [s.spec.scratch for s in fast.steps]         # no time for them
    search = [d.reason for d in late.decisions if d.subject == "search"]
    assert len(search) == 1 and "partitions that none beats were placed" in search[0] and "bytes of RAM are above" in search[0]


def test_weights_of_an_objective() -> None:
    assert weights("cycles=1,ram=0.5") == weights("cycles=1+ram=.5") == {"cycles": 1.0, "ram": 0.5}
    front = plan().front

    def score(ram: float, cycles: float) -> float:
        return 3 * ram / min(p.ram for p in front) + cycles / min(p.cycles for p in front)
    found = plan(optimize="ram=3,cycles=1").point
    assert found is not None and score(found.ram, found.cycles) == pytest.approx(min(score(p.ram, p.cycles) for p in front))


@pytest.mark.parametrize("text", ["fast", "cycles=x", "speed=1", "ram=-1", "ram=0", ""])
def test_objectives_that_are_none(text: str) -> None:
    with pytest.raises(PlanError, match="optimize is"):
        plan(optimize=text)


def test_the_same_plan_every_time() -> None:
    """Whatever the seed of Python's hashes."""
    code = (f"import fuse2c; p = fuse2c.plan({str(MODEL)!r}, target={BOARD!r}, ram={plan().ram_bytes - 1}, "
            f"optimize='ram=1,cycles=2').plan; print(p.text(), p.front)")
    texts = {subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
                            capture_output=True, text=True, check=True).stdout for seed in ("1", "77")}
    assert len(texts) == 1 and "digits_int8" in texts.pop()
