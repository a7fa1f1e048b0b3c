"""Series on cores with DSP: tiles of elements computed together, in turns with other kernels; equal to numpy to the bit."""
from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import cases
import numpy as np
import pytest
from cases import Style
from graphs import Builder, assert_c_is_reference, compile, kernels, run_c, samples
from hypothesis import given
from hypothesis import strategies as st
from simulation import simulate
from test_dsp import BYTES, DRAW, m4, stored
from test_steps import run_to_end

from fuse2c import toolchain
from fuse2c.bench import bench, worst_case
from fuse2c.check import HostModel
from fuse2c.kernels import dsp, dsp_series
from fuse2c.measure import qemu

I8 = np.int8


@st.composite
def layer(draw: st.DrawFn, kernels: list[int], depthwise: bool) -> cases.Layer:
    """A convolution along one axis of any length, [N,C,L] or [N,C,L,1], in one group, in two, or one for each channel."""
    kernel, stride, gap = draw(st.sampled_from(kernels)), draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 4, 7]))
    before, behind = (draw(st.integers(0, kernel - 1)) for _ in range(2))
    length = max(draw(st.integers(2, 23)), (kernel - 1) * gap + 1 - before - behind)
    groups = draw(st.integers(2, 13)) if depthwise else draw(st.sampled_from([1, 1, 2]))
    channels = groups * (1 if depthwise else draw(st.integers(1, 13)) if groups == 1 else draw(st.sampled_from([3, 4, 5, 8])))
    more = [1] * draw(st.integers(0, 1))
    zeros = [0] * len(more)
    attrs = {"kernel_shape": [kernel, *more], "strides": [stride, *more], "dilations": [gap, *more], "group": groups,
             "pads": [before, *zeros, behind, *zeros]}
    x, outs = (draw(st.sampled_from([1, 1, 2])), channels, length, *more), groups * draw(st.integers(1, 3 if depthwise else 9))
    return cases.Layer(x, (outs, channels // groups, kernel, *more), attrs, draw(st.booleans()))


@pytest.mark.parametrize(("windows", "depthwise"), [([1], False), ([2, 3, 5], False), ([2, 3, 9], True)],
                         ids=["pointwise", "conv", "depthwise"])
def test_drawn_series(windows: list[int], depthwise: bool, tmp_path: Path) -> None:
    seen = set()

    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(4):
            one, style = data.draw(layer(windows, depthwise)), data.draw(stored())
            if depthwise:       # behind a layer that writes channels beside each other
                middle = b.requantise(cases.Layer((), (one.x[1], 3, *one.w[2:]), {}, False)
                                      .sum(style, b, style.x(b, 1, 3, one.x[2] + one.w[2] - 1, *one.x[3:])), 0.05, style.x_zero)
                style.y(b, replace(one, bias=False).sum(style, b, middle), 9)
            else:
                one.conv(style, b)
        compiled = m4(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])))
        assert_c_is_reference(compiled)
        name = "depthwise_dsp" if depthwise else "conv_dsp"
        for s in (s for s in compiled.plan.steps if s.spec.rows > 1 and s.kernel.name == name):
            assert s.spec.flags["series"] and s.spec.together in {min(s.spec.rows, n) for n in dsp.TILES}
            seen.add(s.kernel.name)
    run()
    assert not depthwise or "depthwise_dsp" in seen


@pytest.mark.parametrize("largest", [1, 2, 4])
@pytest.mark.parametrize("length", [*range(1, 14), 39])
def test_tiles_start_at_multiples(length: int, largest: int) -> None:
    """Whatever range of rows is asked for, each is computed once, with the first of its tile."""
    runs = dsp_series.runs(length, largest)
    tiles = [range(at, at + r.size) for r in runs for at in range(r.first, r.end, r.size)]
    assert [i for tile in tiles for i in tile] == list(range(length))
    assert all(tile.start % runs[0].size == 0 for tile in tiles)


def network(style: Style, length: int, stride: int, b: Builder) -> None:
    """Dilated residual blocks as in temporal convolutional networks, and a reader that skips elements."""
    def next_to(x: str, outs: int, kernel: int, scale: float, gap: int = 1, step: int = 1, depth: int = 0,
                groups: int = 1) -> str:
        pads = [gap * (kernel - 1), 0] if gap > 1 else [kernel // 2, (kernel - 1) // 2]
        attrs = {"dilations": [gap], "strides": [step], "pads": pads, "group": groups}
        return style.again(b, cases.Layer((), (outs, depth, kernel), attrs, False).sum(style, b, x), scale)
    start = next_to(style.x(b, 1, 3, length), 6, 5, 0.9, depth=3)
    inner = next_to(next_to(next_to(start, 7, 3, 1.7, gap=5, depth=6), 7, 4, 1.1, depth=1, groups=7), 6, 1, 2.1, depth=7)
    total = style.again(b, b.op("Relu", b.op("Add", inner, start)), 3.7)
    down = next_to(total, 5, 1, 2.9, step=stride, depth=6)
    last = next_to(down, 5, 2, 3.3, gap=2, depth=5)
    other = style.again(b, b.op("Add", last, down), 4.4)
    style.same(b, b.op("GlobalAveragePool", other), 9.0)


@pytest.mark.parametrize("tiled", [False, True], ids=["any", "tiled"])
@pytest.mark.parametrize("options", [{}, {"optimize": "ram"}, {"input_rows": True}], ids=["cycles", "ram", "pushed"])
@pytest.mark.parametrize(("length", "stride"), [(11, 2), (12, 1), (26, 1), (41, 3)])
def test_rows_take_turns(length: int, stride: int, options: dict[str, object], tiled: bool, tmp_path: Path,
                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings hold whole tiles of what is written; no byte is read that is gone, or not there yet."""
    if tiled:
        monkeypatch.setattr("fuse2c.passes._slim.variants", lambda plan: {})        # nothing gives way
    b = Builder()
    network(BYTES[length % 3], length, stride, b)
    compiled = m4(b, tmp_path, **options)
    simulate(compiled.plan, samples(compiled.plan, 1)[0])
    assert_c_is_reference(compiled)
    plan = compiled.plan
    rings = [(plan.rings[plan.owner(s.node.outputs[0])], s.spec.together) for s in plan.steps
             if s.spec.adjoining and plan.owner(s.node.outputs[0]) in plan.rings]
    assert all(rows % together == 0 for rows, together in rings)
    assert not tiled or "optimize" not in options or length < 26 or any(together == dsp.LARGEST for _, together in rings)


def test_tiles_become_smaller_where_ram_counts(tmp_path: Path) -> None:
    """Down to single elements, whose rings are the shortest."""
    found, b = {}, Builder()
    network(BYTES[0], 64, 1, b)
    for objective in ("cycles", "ram"):
        compiled = compile(b, tmp_path, target="cortex-m4", optimize=objective)
        steps = compiled.plan.steps
        found[objective] = (compiled.plan.ram_bytes, max(s.spec.together for s in steps), min(s.spec.together for s in steps))
    assert found["ram"][0] < 0.7 * found["cycles"][0]
    assert found["cycles"][1] == dsp.LARGEST and found["ram"][2] == 1


@pytest.mark.parametrize("cores", [2, 3])
def test_cores_divide_a_series_anywhere(cores: int, tmp_path: Path) -> None:
    """Also inside a tile, which the core computes that has its first element."""
    b = Builder()
    style = replace(BYTES[0], channels=False)
    cases.Layer((1, 8, 37), (24, 8, 9), {"pads": [4, 4]}).conv(style, b)
    whole, shared = m4(b, tmp_path), m4(b, tmp_path, target="rp2350", cores=min(cores, 2))
    rows = samples(whole.plan, 2)
    for got, want in zip(run_c(shared, rows), run_c(whole, rows), strict=True):
        assert all(got[t].tobytes() == want[t].tobytes() for t in whole.plan.outputs)


def test_on_the_board(tmp_path: Path) -> None:
    """The same bits, by one path, in less than 1.3 instructions a multiply-accumulate: 1.8 without tiles."""
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    b, style = Builder(), BYTES[0]
    x = style.again(b, cases.Layer((1, 20, 47), (24, 20, 3), {"dilations": [4], "pads": [8, 0]}, False).sum(
        style, b, style.x(b, 1, 20, 47)), 2.1)
    style.same(b, cases.Layer((), (20, 24, 1), {}, False).sum(style, b, x), 9.0)
    compiled = m4(b, tmp_path)
    assert kernels(compiled) == ["conv_dsp", "pointwise_dsp"]
    result = bench(compiled.plan, compiled.plan, "series")
    assert result.mismatches == 0 and result.instructions < 1.3 * compiled.plan.macs
    pytest.importorskip("capstone", reason="capstone is not installed")
    assert worst_case(compiled.plan).json()["single_path"]


@pytest.mark.parametrize("options", [{}, {"optimize": "ram"}], ids=["cycles", "ram"])
def test_steps_end_between_tiles_or_inside(options: dict[str, object], tmp_path: Path) -> None:
    """A step that begins inside a tile has nothing to do until the next one."""
    b = Builder()
    network(BYTES[0], 41, 1, b)
    whole = m4(b, tmp_path, **options)
    rows = samples(whole.plan, 2)
    for budget in (9000, 6000):
        model = m4(b, tmp_path, step_budget=budget, **options)
        with HostModel(whole.plan) as one, HostModel(model.plan) as host:
            for row in rows:
                inference = host.begin(row)
                assert run_to_end(inference) > 2
                got, want = inference.outputs(), one.run(row)
                assert all(np.array_equal(got[t], want[t]) for t in want)
