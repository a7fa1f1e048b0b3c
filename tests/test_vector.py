"""Kernels for a host with vectors equal numpy: to the bit for integers; for every width of vectors that this computer has."""
from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
from cases import FLOAT, Style
from graphs import Builder, assert_c_is_reference, compile, kernels, samples
from hypothesis import given
from hypothesis import strategies as st
from test_count import counted, planned
from test_dsp import DRAW, layer, stored

import fuse2c
from fuse2c import toolchain
from fuse2c.bench import bench
from fuse2c.check import sanitized, timing
from fuse2c.kernels import vector

I8 = np.int8
WIDTHS = {"__SSE2__": (), "__AVX__": ("-mavx",), "__AVX2__": ("-mavx2", "-mfma"), "__AVX512BW__": ("-mavx512f", "-mavx512bw")}
STYLES = {"float": FLOAT, "s8": Style(I8(-7), I8(0), I8(11), channels=True)}


@cache
def builds() -> tuple[dict[str, Any], ...]:
    """Compilers and flags that make code for this processor, from its smallest vectors to all that it has."""
    compilers = [cc for cc in ("gcc", "clang") if shutil.which(cc)]
    return tuple({"cc": cc, "opt": "-O2", "extra": flags} for cc in compilers for flags in _flags(cc))


def _flags(cc: str) -> Iterator[tuple[str, ...]]:
    native = toolchain.native(cc)
    known = subprocess.run([cc, *native, "-dM", "-E", "-"], input="", capture_output=True, text=True, check=True).stdout
    # Without its macro, what processors without such instructions do.
    yield from {(), ("-U__SSE2__",), *(flags for macro, flags in WIDTHS.items() if f"#define {macro} " in known), native}


def host(b: Builder, folder: Path, **options: Any) -> fuse2c.Compiled:
    """The plan for this computer."""
    return compile(b, folder, target="host", **options)


@st.composite
def styles(draw: st.DrawFn) -> Style:
    """float32, or integers with any zero points."""
    return draw(st.just(FLOAT) | stored())


@st.composite
def wide(draw: st.DrawFn, windows: list[int], depthwise: bool) -> cases.Layer:
    """A drawn layer with up to 40 channels and 90 outputs: whole blocks and every kind of rest; perhaps dilated."""
    found = draw(layer(windows, depthwise))
    channels = draw(st.integers(2, 40))
    outs = channels if depthwise else draw(st.integers(1, 90))
    attrs = {**found.attrs, "group": channels if depthwise else 1}
    room = [found.x[i] + attrs["pads"][i - 2] + attrs["pads"][i] for i in (2, 3)]
    if all(n > 2 * (k - 1) for n, k in zip(room, found.w[2:], strict=True)) and draw(st.booleans()):
        attrs["dilations"] = [2, 1] if draw(st.booleans()) else [1, 2]
    return replace(found, x=(1, channels, *found.x[2:]), w=(outs, 1 if depthwise else channels, *found.w[2:]), attrs=attrs)


@pytest.mark.parametrize(("windows", "depthwise"), [([1], False), ([1, 2, 3, 5], False), ([1, 2, 3, 5, 8], True)],
                         ids=["pointwise", "conv", "depthwise"])
def test_drawn_convolutions(windows: list[int], depthwise: bool, tmp_path: Path) -> None:
    seen = set()

    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(4):
            one, style = data.draw(wide(windows, depthwise)), data.draw(styles())
            if depthwise:       # behind another layer, so that channels are neighbours
                first = cases.Layer((1, 3, *one.x[2:]), (one.x[1], 3, 1, 1), {}, False)
                middle = style.again(b, first.sum(style, b, style.x(b, *first.x)), 0.05)
                one = replace(one, bias=one.bias and style is FLOAT)
                style.y(b, one.sum(replace(style, x_zero=style.y_zero if style.x_zero is not None else None), b, middle), 9)
            else:
                one.conv(style, b)
        compiled = host(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])))
        seen.update(kernels(compiled))
        assert_c_is_reference(compiled, **data.draw(st.sampled_from(builds())))
    run()
    assert seen >= ({"depthwise_vec", "depthwise_quads"} if depthwise else {"conv_vec"})


def test_drawn_dense_layers(tmp_path: Path) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(4):
            rows, fours, columns = (data.draw(st.integers(1, most)) for most in (19, 42, 90))
            depth = 4 * fours
            cases.Dense((rows, depth), (columns, depth), {"transB": 1}, (columns,)).build(data.draw(styles()), b)
        compiled = host(b, tmp_path)
        assert set(kernels(compiled)) == {"conv_vec"}
        assert_c_is_reference(compiled, **data.draw(st.sampled_from(builds())))
    run()


@pytest.mark.parametrize("style", ["float", "s8"])
@pytest.mark.parametrize("name", [n for n in cases.all_layers() if n.startswith(("conv", "dense", "net"))])
def test_layers(name: str, style: str, tmp_path: Path) -> None:
    """Batches, 1-D, groups, wholly padded windows, residuals: whichever kernels serve them."""
    compiled = host(cases.layer(name, STYLES[style]), tmp_path)
    build = builds()[sum(map(ord, name + style)) % len(builds())]
    assert_c_is_reference(compiled, **build)
    assert counted(compiled.plan) == planned(compiled.plan)


@pytest.mark.parametrize("style", ["float", "s8"])
def test_rows_in_turn(style: str, tmp_path: Path) -> None:
    """Rings of rows: padding and strips begin anew at every row."""
    b = Builder()
    chosen = STYLES[style]
    t = chosen.x(b, 1, 12, 17, 7)
    for i, (outs, channels, group) in enumerate([(20, 12, 1), (20, 1, 20), (19, 20, 1), (5, 19, 1)]):
        one = cases.Layer((), (outs, channels, 3, 3), {"pads": [1, 1, 1, 1], "group": group}, i == 0)
        t = chosen.again(b, one.sum(chosen, b, t), 3.0)
    b.output(t)
    part = host(b, tmp_path)
    assert part.plan.rings and "conv_vec" in kernels(part)
    for build in builds():
        assert_c_is_reference(part, **build)


@pytest.mark.parametrize("value", [-128, 127])
def test_the_largest_sums(value: int, tmp_path: Path) -> None:
    """All weights at one end, and inputs at both (the samples have them)."""
    b = Builder()
    x = b.op("Transpose", b.stored((1, 4, 7, 24), 0.04, I8(-128)), perm=[0, 3, 1, 2])
    w = b.dequantise(b.const(np.full((24, 1, 3, 3), value, I8)), 0.01, I8(0))
    b.output(b.quantise(b.op("Conv", x, w, group=24, pads=[1, 1, 1, 1]), 2.0, I8(-128)))
    v = b.dequantise(b.const(np.full((5, 24, 3, 1), value, I8)), 0.01, I8(0))
    b.output(b.quantise(b.op("Conv", x, v, pads=[1, 0, 1, 0]), 9.0, I8(127)))
    compiled = host(b, tmp_path)
    assert set(kernels(compiled)) == {"depthwise_quads", "conv_vec"}
    for build in builds():
        assert_c_is_reference(compiled, **build)


@pytest.mark.parametrize("style", ["float", "s8"])
def test_nothing_is_read_behind_a_tensor(style: str, tmp_path: Path) -> None:
    """Channels that are no multiple of a vector or of four, under the sanitizers."""
    b, chosen = Builder(), STYLES[style]
    rows = cases.Layer((1, 3, 3, 5), (19, 3, 1, 1), {}, False).sum(chosen, b, chosen.x(b, 1, 3, 3, 5))
    chosen.y(b, cases.Layer((), (19, 1, 3, 3), {"group": 19, "pads": [1, 1, 1, 1]}, False).sum(
        chosen, b, chosen.again(b, rows, 0.05)), 9)
    for one in (cases.Layer((1, 11, 3, 5), (11, 1, 3, 3), {"group": 11, "pads": [1, 1, 1, 1]}),
                cases.Layer((1, 17, 3, 5), (17, 1, 3, 2), {"group": 17}), cases.Layer((1, 7, 2, 3), (13, 7, 1, 1)),
                cases.Layer((1, 8, 2, 3), (33, 8, 1, 1), {"strides": [1, 2]})):
        one.conv(chosen, b)
    plan = host(b, tmp_path).plan
    sanitized(plan, samples(plan))


def test_blocks_hold_every_output_once() -> None:
    for elements in vector.OF.values():
        for outputs in range(1, 200):
            found = vector.blocks(outputs, 3, elements)
            assert [o for b in found for o in range(b.first, b.end)] == list(range(outputs))
            assert all(b.outs == b.lanes for b in found[:-1])
            spare = sum(-(-(b.end - b.first) // b.outs) * b.lanes for b in found) - outputs
            assert 0 <= spare < elements.blocks[-1]


def test_times_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round runs each, and the fastest round counts; numbers come from a clock of the test's own."""
    clock, order = [0.0], []

    def turn(name: str, seconds: Iterator[float]) -> Any:
        def run() -> None:
            order.append(name)
            clock[0] += next(seconds)
        return run
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(timing, "ROUNDS", 3)
    monkeypatch.setattr(timing, "ROUND_S", 0.0)
    found = timing.fastest([turn("a", iter([9.0, 4.0, 2.0, 3.0])), turn("b", iter([9.0, 8.0, 7.0, 6.0]))])
    assert found == [2.0, 6.0] and order == list("ab" * 4)
    assert timing.Timing(2.0, 4.0).ratio == 0.5 and timing.Timing(2.0, None).ratio is None


def test_bench_has_times_for_the_host_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "ROUNDS", 1)
    compiled = host(cases.layer("conv-pointwise", FLOAT), tmp_path)
    found = compiled.bench().host_us
    assert found["fuse2c"] is not None and found["fuse2c"] > 0
    monkeypatch.setattr(timing.ort, "runtime", lambda: None)
    assert bench(compiled.plan, compiled.plan, compiled.path).host_us["onnxruntime"] is None
