"""Several cores share an inference: schedules, what is in use at a time, results under ThreadSanitizer, and mistakes found."""
from __future__ import annotations

import itertools
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import PORTABLE, Builder, Sample, assert_c_is_reference, compile, outputs, samples
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import networks

import fuse2c
from fuse2c import check, explain, price, report, study, toolchain
from fuse2c.codegen import project
from fuse2c.errors import BuildError, DoesNotFit, OverEnergy
from fuse2c.passes import _phases, place
from fuse2c.passes._phases import Job, Problem
from fuse2c.passes._search import FREE
from fuse2c.plan import Plan

MEETING = "f2c_meet("


def chain(rows: int = 23) -> Builder:
    """Windows over images of an odd number of rows, a residual, an average: rows can be divided, the end cannot."""
    b = Builder()
    x = b.stored((1, 3, rows, 9), 0.05, np.int8(-7))
    first = b.requantise(b.op("Conv", x, b.weights((8, 3, 3, 3), 0.02), pads=[1, 1, 1, 1]), 0.3, np.int8(5))
    y = b.requantise(b.op("Conv", first, b.weights((8, 8, 3, 3), 0.01), pads=[1, 1, 1, 1]), 0.4, np.int8(-3))
    z = b.requantise(b.op("Add", first, y), 0.5, np.int8(2))
    z = b.requantise(b.op("GlobalAveragePool", z), 0.2, np.int8(1))
    b.output(b.quantise(b.op("Flatten", z), 0.2, np.int8(1)))
    return b


def branches() -> Builder:
    """Two products of products that know nothing of each other and have no rows, and their sum."""
    b = Builder()
    x = b.stored((1, 260), 0.05, np.int8(-7))
    ways = []
    for wide in (270, 250):
        y = b.requantise(b.op("Relu", b.op("MatMul", x, b.weights((260, wide), 0.01))), 0.4, np.int8(-100))
        ways.append(b.requantise(b.op("MatMul", y, b.weights((wide, 210), 0.01)), 0.5, np.int8(4)))
    y = b.requantise(b.op("Add", *ways), 0.6, np.int8(3))
    b.output(b.quantise(b.op("MatMul", y, b.weights((210, 7), 0.01)), 0.7, np.int8(1)))
    return b


MODELS = {"rows": chain, "branches": branches}


@pytest.mark.parametrize("arena", ["static", "caller"])
@pytest.mark.parametrize("name", MODELS)
def test_threads_compute_what_one_thread_and_numpy_compute(name: str, arena: str, tmp_path: Path) -> None:
    compiled = compile(MODELS[name](), tmp_path, cores=2, arena=arena)
    plan = compiled.plan
    assert any(len({c.core for c in plan.calls[a:b]}) == 2 for a, b in plan.spans), "nothing is done side by side"
    assert (name == "rows") == bool(plan.shared)
    assert_c_is_reference(compiled)
    rows = samples(plan, 20, seed=3)
    wanted = outputs(plan.graph, rows)
    for got, want in zip(check.sanitized(plan, rows, check.SANITIZERS[1]), wanted, strict=True):
        for t in plan.outputs:
            np.testing.assert_allclose(got[t], want[t], rtol=0, atol=0 if got[t].dtype.kind == "i" else 1e-4)


def without_meeting(text: str, number: int) -> str:
    """The C file without one of the calls at which cores meet."""
    lines = text.split("\n")
    at = [i for i, line in enumerate(lines) if MEETING in line]
    return "\n".join(line for i, line in enumerate(lines) if i != at[number])


@pytest.mark.parametrize("name", MODELS)
def test_a_meeting_that_is_missing_is_found(name: str, tmp_path: Path) -> None:
    """So each is needed: at the start, between phases, and at the end."""
    plan = compile(MODELS[name](), tmp_path, cores=2).plan
    count = len(plan.phases) + 1
    text = project.files(plan)[f"{plan.graph.name}.c"]
    assert text.count(MEETING) == count > 2
    rows = samples(plan, 60, seed=3)
    assert [n for n in range(count) if not any(_races(plan, rows, n) for _ in range(20))] == []


def _races(plan: Plan, rows: list[Sample], number: int) -> bool:
    """Whether a race is seen in one run: not where a thread came so late that it saw the other at its next meeting."""
    try:
        check.sanitized(plan, rows, check.SANITIZERS[1], lambda text: without_meeting(text, number))
    except BuildError as e:
        assert "data race" in str(e)
        return True
    return False


@pytest.mark.parametrize("name", MODELS)
def test_what_cores_use_at_a_time_does_not_overlap(name: str, tmp_path: Path) -> None:
    """Buffers of a phase of several cores have no byte in common, but for a result in the place of its operand."""
    plan = compile(MODELS[name](), tmp_path, cores=2).plan
    at, lives = {p.name: p for p in plan.places}, place.lifetimes(plan)
    firsts = np.cumsum([0, *(c.end - c.first if plan.steps[c.step].spec.by_rows else 1 for c in plan.calls)])
    seen = 0
    for begin, end in plan.spans:
        if len({c.core for c in plan.calls[begin:end]}) < 2:
            continue
        a, b = int(firsts[begin]), int(firsts[end]) - 1
        used = [at[life.name] for life in lives if any(s <= b and a <= e for s, e in life.spans)]
        assert all(any(s <= a and b <= e for s, e in life.spans) for life in lives if at[life.name] in used)
        for p, q in itertools.combinations(used, 2):
            assert p.offset + p.size <= q.offset or q.offset + q.size <= p.offset, (p, q)
        seen += len(used)
    assert seen > 2


def test_a_chain_is_almost_twice_as_fast(tmp_path: Path) -> None:
    two, one = (compile(chain(64), tmp_path, target="rp2350", cores=n).plan for n in (2, 1))
    assert 1.6 < price.elapsed(one) / price.elapsed(two) < 2.0
    assert price.elapsed(one) == price.of_plan(one).cycles


def small_problems() -> Iterator[Problem]:
    rng = random.Random(1)
    for _ in range(40):
        jobs = []
        for i in range(rng.randint(1, 6)):
            reads = {f"t{k}": rng.randint(1, 9) for k in range(i) if rng.random() < 0.4}
            cycles = float(rng.randint(1, 50))
            jobs.append(Job((cycles, cycles * rng.choice((1, 2))), rng.choice((0, 0, 7)), reads, {f"t{i}": 8}))
        yield Problem(jobs, (0.0, rng.choice((0.0, 0.5))), float(rng.randint(0, 9)))


def all_times(problem: Problem, begin: int = 0) -> Iterator[float]:
    """Of every schedule in phases from a job on: all cuts, in each phase all ways to deal out what is independent."""
    if begin == len(problem.jobs):
        yield 0.0
    for end in range(begin + 1, len(problem.jobs) + 1):
        times = [_phases.divided(problem, begin).time] if end == begin + 1 and problem.jobs[begin].rows else []
        for where in itertools.product((0, 1), repeat=end - begin):
            if all(where[i - begin] == where[k - begin] for i in range(begin, end) for k in problem.makers[i] if k >= begin):
                times.append(max(_load(problem, where, begin, core) for core in (0, 1)))
        for rest in all_times(problem, end):
            yield from (t + problem.meeting + rest for t in times)


def _load(problem: Problem, where: Sequence[int], begin: int, core: int) -> float:
    """Cycles of a core; what depends on each other is moved as one."""
    own = [begin + i for i, c in enumerate(where) if c == core]
    parts: list[list[int]] = []
    for job in reversed(own):
        parts = _phases._with(problem, parts, job)
    return sum(problem.time(part, core) for part in parts)


def test_dynamic_programming_finds_the_best_schedule() -> None:
    for problem in small_problems():
        found = problem.total(_phases.best(problem))
        assert found == pytest.approx(problem.meeting + min(all_times(problem)))
        assert found >= problem.bound


def test_many_parts_are_dealt_out_well() -> None:
    jobs = [Job((float(c), float(c)), 0, {}, {f"t{c}": 8}) for c in range(10, 30)]
    problem = Problem(jobs, (0.0, 0.0), 5.0)
    (phase,) = _phases.best(problem)
    assert problem.bound <= phase.time <= problem.bound * 1.05 and sorted(itertools.chain(*phase.jobs)) == list(range(20))


def test_what_does_not_pay_is_not_done(tmp_path: Path) -> None:
    """A meeting costs more than half of a small layer."""
    b = Builder()
    x = b.op("Conv", b.input((1, 1, 7, 4)), b.floats(2, 1, 3, 2))
    b.output(b.op("Conv", x, b.floats(3, 2, 3, 2)))
    plan = compile(b, tmp_path, cores=2, fuse=False).plan
    assert len(plan.phases) == 1 and {c.core for c in plan.calls} == {0}
    whole, *each = [d.reason for d in plan.decisions if d.stage == "spread" and not d.taken]
    assert "cycles in 1 phases" in whole and len(each) == 2
    assert all("the cores meet for 2,000 before and after" in why for why in each)


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target whose cores meet for next to nothing, so that everything is divided that can be."""
    file = tmp_path_factory.mktemp("target") / "eager.toml"
    text = Path(PORTABLE).read_text(encoding="utf-8")
    file.write_text(text.replace("handover = 2000", "handover = 1"), encoding="utf-8")
    return file


@settings(max_examples=12)
@given(net=networks(), optimize=st.sampled_from(["cycles", "ram"]))
def test_random_networks_in_threads(net: Builder, optimize: str, eager: Path) -> None:
    """Divided wherever that is possible, the same bytes as in one thread; and no race."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile(net, Path(folder), target=str(eager), cores=2, optimize=optimize)
        assert_c_is_reference(compiled, samples(compiled.plan, 1))
        check.sanitized(compiled.plan, samples(compiled.plan, 3), check.SANITIZERS[1])


def test_a_node_is_where_it_was_asked_for(tmp_path: Path) -> None:
    b = chain()
    node = b.nodes[next(i for i, n in enumerate(b.nodes) if n.op_type == "Conv")].name
    compiled = compile(b, tmp_path, cores=2, place_node=((node, "core1"),))
    plan = compiled.plan
    assert {c.core for c in plan.calls if c.step == 0} == {1} and plan.steps[0].processor == "core1"
    assert_c_is_reference(compiled)


def test_states_are_kept_by_one_core(tmp_path: Path) -> None:
    b = Builder()
    x, h = b.input((1, 2, 33, 30)), b.input((1, 4, 33, 30))
    y = b.op("Tanh", b.op("Add", b.op("Conv", x, b.floats(4, 2, 3, 3), pads=[1, 1, 1, 1]), h))
    b.output(b.op("Conv", y, b.floats(3, 4, 3, 3, scale=0.1)), y)
    for arena in ("static", "caller"):
        compiled = compile(b, tmp_path, cores=2, arena=arena, stateful=((h, y),))
        assert compiled.plan.shared
        assert_c_is_reference(compiled, samples(compiled.plan, 4))
        check.sanitized(compiled.plan, samples(compiled.plan, 9), check.SANITIZERS[1])


def test_it_costs_nothing_for_one_core(tmp_path: Path) -> None:
    files = project.files(compile(chain(), tmp_path).plan)
    assert not any("meet" in text or "run_on" in text for name, text in files.items() if name != "f2c_config.h")
    assert "f2c_cores.h" not in files


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m33"])
def test_boards_have_what_a_meeting_needs(core: str, tmp_path: Path) -> None:
    """Loads, stores and a barrier: no call of a library, no exclusive access."""
    if shutil.which(toolchain.ARM_GCC) is None:
        pytest.skip(f"{toolchain.ARM_GCC} is not installed")
    compiled = compile(chain(), tmp_path, cores=2)
    folder = compiled.emit(tmp_path / "out")
    name = compiled.plan.graph.name
    subprocess.run([toolchain.ARM_GCC, f"-mcpu={core}", "-mthumb", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-S",
                    f"{name}.c", "-o", "model.s"], cwd=folder, check=True)
    text = (folder / "model.s").read_text(encoding="utf-8")
    assert "__atomic" not in text and "ldrex" not in text and ("dmb" in text or "stl" in text)


def test_the_plan_is_the_same_every_time(tmp_path: Path) -> None:
    plans: list[Plan] = [fuse2c.plan(chain_file(tmp_path), cores=2).plan for _ in range(2)]
    assert plans[0].calls == plans[1].calls and plans[0].places == plans[1].places


def chain_file(folder: Path) -> Path:
    path = folder / "chain.onnx"
    path.write_bytes(chain().model().SerializeToString())
    return path


def test_reports_say_who_computes_what(tmp_path: Path) -> None:
    compiled = compile(chain(64), tmp_path, target="rp2350", cores=2)
    plan, unfused = compiled.plan, compiled.unfused().plan
    said = compiled.report()
    found = report.plan_json(plan, unfused, "chain.onnx")["cores"]
    assert found["names"] == ["cpu", "core1"] and found["phases"] == len(plan.phases) and found["meeting_cycles"] == 100
    assert found["speedup"] == pytest.approx(found["cycles_alone"] / found["cycles"], rel=1e-3) and 1.6 < found["speedup"] < 2
    assert all(0.5 < share < 1 for share in found["busy"])
    assert f"cpu and core1: {found['cycles']:,} cycles in {found['phases']} phases" in said
    data = study.of(plan, unfused, "chain.onnx")
    steps = {s["function"]: s["processors"] for k in data["kernels"] for s in k["steps"]}
    assert [steps[s.function] for s in plan.steps] == [["cpu", "core1"]] * len(plan.shared) + [["cpu"]] * (
        len(plan.steps) - len(plan.shared)) and data["cores"] == found
    figures = data["figures"]["fused"]
    assert figures["time_ms"] == pytest.approx(1e3 * found["cycles"] / 150e6, rel=1e-3)
    lines = explain.node(plan, plan.steps[0].function)
    assert any("on         : cpu rows 0 .. 31, core1 rows 32 .. 63" in line for line in lines)


def test_a_rate_counts_what_cores_save(tmp_path: Path) -> None:
    """Two cores meet a rate that one does not."""
    plan = compile(chain(64), tmp_path, target="rp2350", cores=2).plan
    hz = 1.3 * plan.target.processor.clock_hz / price.of_plan(plan).cycles
    assert compile(chain(64), tmp_path, target="rp2350", cores=2, rate_hz=hz).plan.target.processor.clock_hz == 150_000_000
    with pytest.raises(OverEnergy, match="too slow"):
        compile(chain(64), tmp_path, target="rp2350", rate_hz=hz)


def test_layers_without_rows_are_shared_by_channels(tmp_path: Path) -> None:
    b = Builder()
    x = b.stored((1, 300), 0.05, np.int8(-7))
    y = b.requantise(b.op("Relu", b.op("MatMul", x, b.weights((300, 270), 0.01))), 0.4, np.int8(-100))
    b.output(b.quantise(b.op("MatMul", y, b.weights((270, 7), 0.01)), 0.7, np.int8(1)))
    compiled = compile(b, tmp_path, target="rp2350", cores=2)
    products = [s.work.macs for s in compiled.plan.steps if s.work.macs]
    assert products == [300 * 136, 300 * 134, 270 * 7] and price.alone(compiled.plan) > 1.7 * price.elapsed(compiled.plan)
    assert_c_is_reference(compiled)


@pytest.mark.parametrize("name", MODELS)
def test_ram_is_kept_on_two_cores(name: str, tmp_path: Path) -> None:
    """Less RAM, more cycles: on two cores for as long as there is room, then on one; the refusal's figure is enough."""
    def built(**options: Any) -> fuse2c.Compiled:
        return compile(MODELS[name](), tmp_path, target="rp2350", **{"cores": 2, **options})
    fast, least, one = built().plan, built(optimize="ram").plan.ram_bytes, built(optimize="ram", cores=1).plan.ram_bytes
    assert one < least < fast.ram_bytes and (name == "branches" or least == -(-one // 8) * 8 + 8)       # the cores' counters
    between, narrow = built(ram=fast.ram_bytes - 1), built(ram=least)
    assert least < between.plan.ram_bytes < fast.ram_bytes
    assert price.elapsed(fast) <= (1 + FREE) * price.elapsed(between.plan)
    assert price.elapsed(between.plan) < 0.6 * price.alone(between.plan)
    with pytest.raises(DoesNotFit, match=rf"needs {least} bytes"):
        built(ram=least - 1)
    assert narrow.plan.ram_bytes == least and {c.core for c in narrow.plan.calls} == {0}
    assert any(d.stage == "stream" and "more than the limit of RAM" in d.reason for d in narrow.plan.decisions)
    assert not any(d.taken for d in narrow.plan.decisions if d.stage == "spread" and d.subject == "2 cores")
    for compiled in (between, narrow):
        assert_c_is_reference(compiled)
        check.sanitized(compiled.plan, samples(compiled.plan, 3), check.SANITIZERS[1])


def test_what_takes_more_ram_is_said(tmp_path: Path) -> None:
    plan = compile(branches(), tmp_path, target="rp2350", cores=2).plan
    small = compile(branches(), tmp_path, target="rp2350", cores=2, ram=plan.ram_bytes // 2).plan
    assert {c.core for c in small.calls} == {0}
    assert any(d.stage == "spread" and "takes more RAM" in d.reason for d in small.decisions)
