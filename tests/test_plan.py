"""The plan: what is live never overlaps, the order respects what is needed, and the same model gives the same text."""
from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import cases_ops
import numpy as np
import pytest
from cases import FLOAT, STYLES, Style, layer
from graphs import Builder, Sample, assert_c_is_reference, chains, compile, kernels, outputs, samples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from random_graphs import networks
from simulation import fine, simulate

import fuse2c
from fuse2c import toolchain
from fuse2c.codegen import project
from fuse2c.passes import _search
from fuse2c.passes.order import peak, reads, writes
from fuse2c.plan import ALIGN, Plan

SHAPE = (3, 6, 5)       # channels, height, width


def assert_sound(plan: Plan) -> None:
    """Alignment, bounds, no less than any whole step needs at once; nothing is read before it is written."""
    g, sizes = plan.graph, {p.name: p.size for p in plan.places}
    for p in plan.places:
        assert p.offset % ALIGN == 0 and p.offset >= 0 and p.offset + p.size <= plan.arena_bytes and p.first <= p.last
    done = {plan.root(t) for t in g.inputs}
    for step in [plan.steps[i] for i in dict.fromkeys(c.step for c in plan.calls)]:
        if not plan.rings:
            assert reads(plan, step) <= done, f"{step.function} reads what is not there yet"
        done |= writes(plan, step)
        if not fine(plan, step):
            need = sum(sizes.get(t, 0) for t in reads(plan, step) | writes(plan, step)) + step.spec.scratch
            assert plan.arena_bytes >= need
    assert {plan.root(t) for t in g.outputs} <= done


@settings(max_examples=120)
@given(networks(), st.sampled_from(["cycles", "ram"]))
def test_random_plans_are_sound(b: Builder, optimize: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan = compile(b, Path(folder), optimize=optimize).plan
        assert_sound(plan)
        simulate(plan, samples(plan, 1)[0])


# No shrinking: each attempt compiles C.
@settings(max_examples=24, phases=[Phase.explicit, Phase.generate])
@given(networks(), st.sampled_from(["cycles", "ram"]))
def test_random_plans_compute_what_they_mean(b: Builder, optimize: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile(b, Path(folder), optimize=optimize)
        plan = compiled.plan
        rows = samples(plan, 2)         # the second finds in the arena what the first has left there
        assert_c_is_reference(compiled, rows)
        integer, source = outputs(plan.graph, rows), outputs(plan.source, rows)
        for got, want in zip(integer, source, strict=True):
            for x, y in zip(got.values(), want.values(), strict=True):
                if x.dtype.kind == "f":
                    assert np.allclose(x, y, rtol=1e-4, atol=1e-4 * np.abs(y).max())
                else:       # a step of one operator is a few of the next
                    assert np.abs(x.astype(int) - y.astype(int)).max() <= 3 * len(plan.steps)


def broken(plan: Plan) -> Plan:
    """One buffer moved onto another that is live at the same time and does not belong to the same row."""
    p, q = next((p, q) for p in plan.places for q in plan.places if p.first < q.first <= p.last and "scratch" not in q.name)
    return replace(plan, places=tuple(replace(x, offset=p.offset) if x is q else x for x in plan.places))


@pytest.mark.parametrize("optimize", ["cycles", "ram"])
def test_the_simulation_bites(optimize: str, tmp_path: Path) -> None:
    for name in ("net-branches", "net-flattened"):
        plan = compile(layer(name, STYLES["s8"]), tmp_path, optimize=optimize, no_fuse_rules=("in-place",)).plan
        simulate(plan, samples(plan, 1)[0])
        with pytest.raises(AssertionError, match=r"gone|overwritten|scratch"):
            simulate(broken(plan), samples(plan, 1)[0])


def streamed(b: Builder) -> None:
    """A chain of windows of different heights and strides, odd widths, a residual inside."""
    t = b.op("Relu", b.op("Conv", b.input((1, 2, 17, 5)), b.floats(6, 2, 3, 3), pads=[1, 1, 1, 1]))
    u = b.op("Conv", t, b.floats(6, 1, 3, 2), group=6, pads=[2, 0, 0, 1])
    t = b.op("Add", b.op("Conv", u, b.floats(6, 6, 1, 1)), t)
    t = b.op("MaxPool", t, kernel_shape=[3, 2], strides=[2, 1])
    b.output(b.op("GlobalAveragePool", b.op("Conv", t, b.floats(4, 6, 2, 3), strides=[1, 2])))


@pytest.mark.parametrize("optimize", ["cycles", "ram"])
def test_an_operand_read_twice_by_one_kernel_lives_for_both(optimize: str, tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """conv(x) + x: the window still needs rows of x that the sum has done with."""
    b = Builder()
    x = b.op("Conv", b.input((1, *SHAPE)), b.floats(3, 3, 2, 3), pads=[1, 2, 0, 0])
    total = b.op("Add", b.op("Conv", x, b.floats(3, 3, 3, 2), pads=[2, 1, 0, 0]), x)
    b.output(b.op("Identity", b.op("MaxPool", total, kernel_shape=[2, 2])))
    monkeypatch.setattr(_search, "FREE", 0)
    compiled = compile(b, tmp_path, optimize=optimize)
    assert "Conv > Add" in chains(compiled) and bool(compiled.plan.rings) == (optimize == "ram")
    simulate(compiled.plan, samples(compiled.plan, 1)[0])
    assert_c_is_reference(compiled)


def test_streaming_needs_less_and_computes_the_same(tmp_path: Path) -> None:
    b = Builder()
    streamed(b)
    whole, rows = (compile(b, tmp_path, **how) for how in ({"no_fuse_rules": ("join",)}, {"optimize": "ram"}))
    assert rows.plan.rings and not whole.plan.rings
    assert rows.plan.arena_bytes < 0.7 * whole.plan.arena_bytes
    for compiled in (whole, rows):
        simulate(compiled.plan, samples(compiled.plan, 1)[0])
        assert_c_is_reference(compiled)


def test_order_lowers_the_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two wide branches: the model computes both, then shrinks both; one after the other needs half."""
    b = Builder()
    x = b.input((1, 2, 6, 8))
    wide = [b.op("Conv", x, b.floats(32, 2, 1, 1)) for _ in range(2)]
    small = [b.op("MaxPool", t, kernel_shape=[3, 2], strides=[3, 2]) for t in wide]
    b.output(b.op("Add", *small))
    monkeypatch.setattr(_search, "FREE", 0)
    plan = compile(b, tmp_path, no_fuse_rules=("join",)).plan      # layer by layer
    wide_bytes = 32 * 6 * 8 * 4
    assert wide_bytes < plan.arena_bytes < 1.5 * wide_bytes
    own = sorted(plan.steps, key=lambda s: [n.name for n in plan.graph.nodes].index(s.node.name))
    assert peak(plan, own) >= 2 * wide_bytes


@pytest.mark.parametrize("style", ["float", "s8"])
def test_in_place_results_are_right(style: str, tmp_path: Path) -> None:
    """A residual sum takes the bytes of an operand that dies, and of none that is read again."""
    s = FLOAT if style == "float" else STYLES["s8"]
    b = Builder()
    a = style_conv(s, b, s.x(b, 1, *SHAPE))
    c = style_conv(s, b, style_conv(s, b, a))
    total = s.again(b, b.op("Add", a, c), 0.05)             # a dies here
    late = style_conv(s, b, total)
    b.output(s.again(b, b.op("Add", total, late), 0.05))    # the sum before is read again
    compiled = compile(b, tmp_path)
    taken = [d for d in compiled.plan.decisions if d.stage == "place" and "in place" in d.reason]
    assert len(taken) == 1
    assert_c_is_reference(compiled)
    simulate(compiled.plan, samples(compiled.plan, 1)[0])


def style_conv(style: Style, b: Builder, x: str) -> str:
    """A pointwise convolution with a result of its own."""
    return style.again(b, b.op("Conv", x, style.w(b, (SHAPE[0], SHAPE[0], 1, 1))), 0.05)


def test_a_view_in_another_order_forbids_in_place(tmp_path: Path) -> None:
    """x + x^T: writing over x would destroy what is still to be read."""
    compiled = compile(cases_ops.operator("transposed_sum"), tmp_path)
    assert not [d for d in compiled.plan.decisions if "in place" in d.reason]
    assert_c_is_reference(compiled)


@pytest.mark.parametrize("name", ["net-branches", "net-residual-relu", "pool-average"])
def test_same_model_same_bytes(name: str, tmp_path: Path) -> None:
    data = layer(name, STYLES["u8"]).model().SerializeToString()
    plans = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.onnx").write_bytes(data)
        plans.append(fuse2c.plan(tmp_path / folder / "same.onnx").plan)
    assert plans[0].text() == plans[1].text()
    assert project.files(plans[0]) == project.files(plans[1])
    assert str(tmp_path) not in "".join(project.files(plans[0]).values())


def test_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    """Sets have another order in another process; no output may follow it."""
    model = tmp_path / "same.onnx"
    model.write_bytes(layer("net-branches", FLOAT).model().SerializeToString())
    script = ("import sys, fuse2c; from fuse2c.codegen import project; p = fuse2c.plan(sys.argv[1]).plan; "
              "print(p.text(), project.files(p))")
    texts = {subprocess.run([sys.executable, "-c", script, str(model)], capture_output=True, text=True, check=True,
                            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}).stdout
             for seed in ("1", "2", "3")}
    assert len(texts) == 1


def library(compiled: fuse2c.Compiled, folder: Path) -> ctypes.CDLL:
    """The emitted project as a shared library."""
    name, tools = compiled.path.stem, toolchain.host()
    sources = compiled.emit(folder / "project")
    objects = toolchain.compile_model(tools, sources, name, folder / "shared", extra=["-fPIC"])
    return ctypes.CDLL(str(toolchain.link(tools, objects, folder / "model.so", extra=["-shared"])))


def test_arena_of_the_caller(tmp_path: Path) -> None:
    """Two instances at once, each with an arena of its own: nothing is shared, so nothing is disturbed."""
    compiled = compile(layer("net-branches", STYLES["s8"]), tmp_path, arena="caller")
    plan = compiled.plan
    assert_c_is_reference(compiled)
    run = getattr(library(compiled, tmp_path), f"{compiled.path.stem}_run")
    (x,), ys = plan.graph.inputs, plan.graph.outputs

    def one(row: Sample) -> list[np.ndarray]:
        arena = np.full(plan.arena_bytes + 8, 0xA5, np.uint8)
        results = [np.zeros(plan.graph.type(y).count, np.int8) for y in ys]
        source = np.ascontiguousarray(row[x])
        assert run(*(ctypes.c_void_p(a.ctypes.data) for a in (source, *results)),
                   ctypes.c_void_p(-(-arena.ctypes.data // 8) * 8)) == 0
        return results
    rows = samples(plan, 6)
    want = [[r[y].reshape(-1) for y in ys] for r in outputs(plan.graph, rows)]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(30):
            for got, expected in zip(pool.map(one, rows), want, strict=True):
                assert all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize(("arena", "state"), [("caller", False), ("static", True)])
def test_state_lies_in_the_arena(arena: str, state: bool, tmp_path: Path) -> None:
    """An object file without writable data: that is what makes it re-entrant."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is not installed")
    compiled = compile(layer("net-branches", STYLES["s8"]), tmp_path, arena=arena)
    assert compiled.plan.arena_bytes > 0 and "conv" in kernels(compiled)
    folder = compiled.emit(tmp_path / "out")
    name = compiled.path.stem
    objects = toolchain.compile_model(toolchain.host(), folder, name, tmp_path / "objects")
    symbols = "".join(toolchain.run([nm, str(o)], "nm failed") for o in objects)
    writable = [line.split()[-1] for line in symbols.splitlines() if line.split()[-2] in "bBdDCsS"]
    assert writable == ([f"{name}_arena"] if state else [])
