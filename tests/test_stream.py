"""Which schedule is chosen: objectives, limits, the front, and how exact placement and its bounds are."""
from __future__ import annotations

import builtins
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from cases import STYLES
from graphs import Builder, assert_c_is_reference, compile
from test_count import chain

import fuse2c
from fuse2c import memory
from fuse2c.errors import DoesNotFit, ToolMissing
from fuse2c.passes import _exact, _groups, _rows, _search, place
from fuse2c.plan import ALIGN, Plan


def wide(rows: int = 24, layers: int = 6) -> Builder:
    """A chain of windows whose work is large against the cost of a call."""
    b = Builder()
    x = b.input((1, 8, rows, 20))
    for i in range(layers):
        x = b.op("Conv", x, b.floats(8, 8, 3, 3), pads=[1, 1, 1, 1], strides=[1 + i % 2, 1])
    b.output(b.op("GlobalAveragePool", x))
    return b


def brute_force(plan: Plan) -> set[tuple[int, int]]:
    """(peak, extra instructions) of every partition of the steps at the cuts, as the front defines them."""
    steps = [_rows.row_step(plan, s) for s in plan.steps]
    problem, places = _groups.Problem(plan, steps), _groups.Problem(plan, steps).cuts
    found, p = set(), plan.target.processor
    for choice in range(2 ** (len(places) - 2)):
        cuts = [0, *(p for i, p in enumerate(places[1:-1]) if choice >> i & 1), len(steps)]
        peak = extra = 0
        for lo, hi in pairwise(cuts):
            streams = hi - lo > 1
            order = _rows.interleaved(steps, range(lo, hi))
            ((_, own),) = _groups.peaks(problem, range(lo, hi), order, [lo])
            peak = max(peak, own)
            turns = sum(s.rows for s in steps[lo:hi])
            extra += turns * p.turn + p.launch if streams else plan.steps[lo].launches * p.launch
        found.add((peak, extra))
    return found


def test_dynamic_programming_finds_what_trying_all_partitions_finds(tmp_path: Path) -> None:
    plan = compile(wide(layers=5), tmp_path).plan
    everything = brute_force(plan)
    best = {(p, c) for p, c in everything if not any((q, d) != (p, c) and q <= p and d <= c for q, d in everything)}
    steps = [_rows.row_step(plan, s) for s in plan.steps]
    assert {(p.peak, p.extra) for p in _groups.front(plan, steps)} == best and len(best) > 2


def test_objectives(tmp_path: Path) -> None:
    """ram: the least; cycles: the fewest kernels for little RAM and no time; balanced: between them."""
    b = wide()
    plans = {how: compile(b, tmp_path, optimize=how).plan for how in ("cycles", "balanced", "ram")}
    front = plans["ram"].front
    assert len(front) > 1 and all(p.front == front for p in plans.values())
    assert [p.ram for p in front] == sorted({p.ram for p in front}, reverse=True)
    assert [p.cycles for p in front] == sorted({p.cycles for p in front})
    assert plans["ram"].ram_bytes == max(p.ram for p in front if p.ram <= (1 + _search.FREE) * front[-1].ram)
    assert compile(b, tmp_path, optimize="ram=1").plan.ram_bytes == front[-1].ram
    allowed = [p for p in front if p.cycles <= front[0].cycles * (1 + _search.FREE)]
    assert allowed[-1].ram <= plans["cycles"].ram_bytes <= (1 + _search.JOINED) * allowed[-1].ram
    assert plans["cycles"].launches <= plans["ram"].launches
    balanced = plans["balanced"].point
    assert balanced is not None and balanced.ram * balanced.cycles == min(p.ram * p.cycles for p in front)


def test_small_layers_are_not_cut_into_rows_for_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call for each row costs more than it may."""
    monkeypatch.setattr(_search, "FREE", 0.01)
    plan = compile(chain(STYLES["s8"]), tmp_path, no_fuse_rules=("join",)).plan
    assert not plan.rings and plan.call_count == plan.launches
    assert compile(chain(STYLES["s8"]), tmp_path, optimize="ram").plan.rings


def test_a_limit_gives_the_fastest_plan_that_fits(tmp_path: Path) -> None:
    b = chain(STYLES["s8"])
    front = compile(b, tmp_path).plan.front
    assert len(front) > 1
    for point in front:
        plan = compile(b, tmp_path, ram=point.ram).plan
        assert plan.ram_bytes <= point.ram and plan.point and plan.point.cycles <= (1 + _search.FREE) * point.cycles
    with pytest.raises(DoesNotFit, match=f"needs {front[-1].ram} bytes.*1 too many") as e:
        compile(b, tmp_path, ram=front[-1].ram - 1)
    assert "no other schedule needs less" in e.value.detail[0]


def test_exact_placement_is_optimal() -> None:
    """Four buffers that first-fit in order of size packs badly; the bound is reached and proven."""
    pytest.importorskip("highspy", reason="highspy is not installed")
    sizes, times = (24, 16, 16, 40), ((0, 1), (0, 3), (2, 5), (4, 5))
    bounds = {(i, j): (-sizes[j], sizes[i]) for i in range(4) for j in range(i + 1, 4)
              if times[i][0] <= times[j][1] and times[j][0] <= times[i][1]}
    start = (0, 24, 40, 56)
    found = _exact.solve(sizes, bounds, start, 0, ALIGN)
    assert max(o + n for o, n in zip(found.offsets, sizes, strict=True)) == found.bound == 56
    for (i, j), (low, high) in bounds.items():
        assert not low < found.offsets[j] - found.offsets[i] < high


@pytest.mark.parametrize("optimize", ["cycles", "ram"])
def test_exact_plans_are_no_worse_and_right(optimize: str, tmp_path: Path) -> None:
    pytest.importorskip("highspy", reason="highspy is not installed")
    b = chain(STYLES["s8"])
    plain, exact = (compile(b, tmp_path, optimize=optimize, place=how) for how in ("heuristic", "exact"))
    assert plain.plan.peak is not None and exact.plan.peak is not None
    assert plain.plan.peak.bytes <= exact.plan.peak.bytes <= exact.plan.working_bytes <= plain.plan.working_bytes
    assert any(d.subject == "exact" for d in exact.plan.decisions)
    assert_c_is_reference(exact)


def test_exact_placement_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: object, **kwargs: object) -> object:
        if name == "highspy":
            raise ImportError(name)
        return real(name, *args, **kwargs)      # type: ignore[arg-type]
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ToolMissing, match="highspy"):
        _exact.solve((8,), {}, (0,), 0, ALIGN)


def test_polishing_helps_and_never_harms(tmp_path: Path) -> None:
    plan = compile(wide(), tmp_path, optimize="ram").plan
    buffers = place.lifetimes(plan)
    bounds = place.all_bounds(buffers)
    near = place.neighbours(bounds, len(buffers))
    for sequence in (list(range(len(buffers))), list(range(len(buffers)))[::-1]):
        first = place.pack(sequence, near)
        better = place.polished(sequence, first, buffers, near, 0)
        assert place.top(buffers, better) <= place.top(buffers, first)
        for (i, j), (low, high) in bounds.items():
            assert not low < better[j] - better[i] < high


def test_the_map_shows_every_buffer(tmp_path: Path) -> None:
    c = compile(wide(), tmp_path, optimize="ram")
    text, picture = memory.text(c.plan), memory.svg(c.plan)
    listed = re.findall(r"^  (\w) (\w+) +(\d+) \.\. (\d+)", text, re.M)
    assert len(listed) == len(c.plan.places)
    assert {int(start) for _, _, start, _ in listed} == {p.offset for p in c.plan.places}
    assert {kind for _, kind, _, _ in listed} == {"ring", "scratch", "tensor"}
    grid = re.findall(r"\|(.+)\|", text)
    assert len(grid) == memory.LINES and len({len(row) for row in grid}) == 1
    root = ElementTree.fromstring(picture)
    shapes = [e for e in root.iter() if e.tag.endswith("}path")]
    assert len(shapes) == len(c.plan.places) and str(c.plan.arena_bytes) in picture
    empty = Builder()
    empty.output(empty.op("Relu", empty.input((2, 3))))
    plan = compile(empty, tmp_path).plan
    assert plan.peak is None and memory.text(plan) == "the arena is empty"
    assert ElementTree.fromstring(memory.svg(plan)).tag.endswith("svg")


def test_boxes_of_the_map_never_overlap(tmp_path: Path) -> None:
    """What the picture shows is what the planner promises: no byte belongs to two buffers at one time."""
    plan = compile(wide(), tmp_path, optimize="ram").plan
    end = len(place.units(plan))
    owner = np.full((plan.arena_bytes, end), -1)
    for i, box in enumerate(memory.boxes(plan)):
        for band in box.bands:
            part = owner[band.start:band.end, band.first:band.last + 1]
            assert (part == -1).all(), box.name
            part[...] = i


def test_a_graph_of_many_nodes_is_planned_with_little_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the layers, no more than four times the placements and orders that are tried."""
    counts = []
    for layers in (20, 40):
        tried = [0]
        real = _rows.interleaved

        def counted(*args: object, tried: list[int] = tried, real: object = real) -> object:
            found = real(*args)         # type: ignore[operator]
            tried[0] += len(found)
            return found
        monkeypatch.setattr(_rows, "interleaved", counted)
        b = Builder()
        x = b.input((1, 2, 16, 3))
        for _ in range(layers):
            x = b.op("Conv", x, b.floats(2, 2, 1, 1))
        b.output(b.op("GlobalAveragePool", x))
        fuse2c.plan(compile(b, tmp_path).path)
        monkeypatch.setattr(_rows, "interleaved", real)
        counts.append(tried[0])
    assert counts[1] <= 5 * counts[0]
