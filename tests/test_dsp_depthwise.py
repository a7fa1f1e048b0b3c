"""Depthwise layers with gaps between taps, one column or several outputs a channel, on cores without vectors."""
from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import cases
import numpy as np
import pytest
from draws import DRAW, layer
from graphs import Builder, assert_c_is_reference, compile, kernels
from hypothesis import given
from hypothesis import strategies as st
from test_dsp import M4, SPECIAL, m4, stored

from fuse2c import toolchain
from fuse2c.bench import bench, worst_case
from fuse2c.kernels import dsp_groups
from fuse2c.measure import qemu

I8, U8 = np.int8, np.uint8
TICK = 80           # instructions: twice what the boards' timer counts as one
STYLE = cases.Style(I8(-128), I8(0), I8(11), channels=True)


def behind_pointwise(b: Builder, style: cases.Style, one: cases.Layer) -> None:
    """A depthwise layer of what a pointwise one writes, so that its channels lie as kernels want them."""
    point = cases.Layer((1, 3, *one.x[2:]), (one.x[1], 3, *(1 for _ in one.x[2:])), {}, False)
    middle = b.requantise(point.sum(style, b, style.x(b, *point.x)), 0.05, style.x_zero)
    style.y(b, replace(one, bias=False).sum(style, b, middle), 9)


@pytest.mark.parametrize("target", SPECIAL)
def test_drawn_gaps(target: str, tmp_path: Path) -> None:
    """Windows of any columns and dilations, read where the caller has them or channel by channel."""
    seen = set[str]()

    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for alone in (True, True, False):
            one, style = data.draw(layer([1, 2, 3, 5], True, True, True)), data.draw(stored())
            one.conv(style, b) if alone else behind_pointwise(b, style, one)
        compiled = compile(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])), target=target)
        seen.update(kernels(compiled))
        assert_c_is_reference(compiled)
    run()
    assert seen & {"depthwise_dsp", "depthwise_rows"}


@st.composite
def one_column(draw: st.DrawFn) -> cases.Layer:
    """A depthwise layer along one axis, which is the only one, or has a second one of one column."""
    kernel, gap, several = draw(st.integers(1, 5)), draw(st.integers(1, 7)), draw(st.integers(1, 3))
    channels, before, behind = draw(st.integers(2, 13)), draw(st.integers(0, 9)), draw(st.integers(0, 4))
    size = max(draw(st.integers(1, 14)), (kernel - 1) * gap + 1 - before - behind)
    more: tuple[int, ...] = (1,) * draw(st.integers(0, 1))
    zeros = [0] * len(more)
    return cases.Layer((1, channels, size, *more), (several * channels, 1, kernel, *more), {
        "group": channels, "dilations": [gap, *more], "strides": [draw(st.integers(1, 2)), *more],
        "pads": [before, *zeros, behind, *zeros]})


@pytest.mark.parametrize("target", SPECIAL)
def test_drawn_columns(target: str, tmp_path: Path) -> None:
    """Tap by tap, four channels at a time; channels behind the last four, and outputs of one channel. Series: by tiles."""
    seen = set[str]()

    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(2):
            behind_pointwise(b, data.draw(stored()), data.draw(one_column()))
        compiled = compile(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])), target=target)
        taps = {"depthwise_taps_dsp", "depthwise_dsp"} if target == M4 else {"depthwise_taps_rows"}
        seen.update(taps & set(kernels(compiled)))
        assert sum(name in taps for name in kernels(compiled)) == 2
        assert_c_is_reference(compiled)
    run()
    assert target != M4 or len(seen) == 2


def test_a_wide_gap_is_read_tap_by_tap(tmp_path: Path) -> None:
    """Where hardly two tiles of a row see the same padding, there would be a copy of the code for each."""
    b = Builder()
    attrs = {"group": 6, "dilations": [1, 9], "pads": [1, 18, 0, 7]}
    behind_pointwise(b, STYLE, cases.Layer((1, 6, 3, 23), (6, 1, 2, 3), attrs))
    compiled = compile(b, tmp_path, target=M4)
    assert kernels(compiled)[-1] == "depthwise_taps_dsp"
    assert_c_is_reference(compiled)


@pytest.mark.parametrize("target", SPECIAL)
def test_on_the_board(target: str, tmp_path: Path) -> None:
    """The same in QEMU; every run takes as many instructions as the analysis says that the longest one takes."""
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    b = Builder()
    behind_pointwise(b, STYLE, cases.Layer((1, 7, 19), (14, 1, 3), {"group": 7, "dilations": [4], "pads": [8, 0]}))
    behind_pointwise(b, cases.Style(U8(3), I8(0), U8(200)), cases.Layer(
        (1, 5, 6, 11), (10, 1, 3, 3), {"group": 5, "dilations": [1, 2], "pads": [1, 2, 0, 1]}))
    compiled = compile(b, tmp_path, target=target)
    found = bench(compiled.plan, compiled.plan, "gaps")
    assert found.mismatches in (0, None)
    assert found.mismatches == 0 and found.instructions is not None
    if found.instructions is not None:
        worst = worst_case(compiled.plan)
        assert worst.branches == () and abs(worst.instructions - found.instructions) <= TICK


def test_drawn_groups_of_few_channels(tmp_path: Path) -> None:
    """The rows of all channels of a group are those of one window; with many outputs its neighbours' channels are read, too."""
    seen = set()

    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(3):
            one = data.draw(layer([2, 3], False, dilate=data.draw(st.booleans())))
            groups, more = data.draw(st.integers(2, 3)), data.draw(st.integers(1, 7))
            per = data.draw(st.sampled_from([2, 3, 5, 6]))
            replace(one, x=(1, groups * per, *one.x[2:]), w=(groups * more, per, *one.w[2:]),
                    attrs={**one.attrs, "group": groups}).conv(data.draw(stored()), b)
        compiled = m4(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])))
        assert set(kernels(compiled)) <= {"depthwise_dsp", "conv_dsp", "conv"}      # a window in padding alone is for the last
        seen.update(kernels(compiled))
        assert_c_is_reference(compiled)
    run()
    assert seen >= {"depthwise_dsp", "conv_dsp"}


@pytest.mark.parametrize(("groups", "per"), [(2, 3), (3, 2), (2, 6), (4, 5), (7, 1)])
def test_neighbours_have_weights_of_zero(groups: int, per: int) -> None:
    """Each weight is at its channel, within those that the group reads."""
    wide = dsp_groups.width(per, 3, groups * per)
    w = np.arange(1, groups * 2 * 9 * per + 1).reshape(groups * 2, 9 * per)
    found = dsp_groups.embedded(w, groups, per, wide).reshape(groups, 2, 9, wide)
    for group, part in enumerate(w.reshape(groups, 2, 9, per)):
        first = dsp_groups.first(group, groups, per, wide)
        assert 0 <= first <= groups * per - wide
        at = group * per - first
        assert np.array_equal(found[group, :, :, at:at + per], part)
        assert np.count_nonzero(found[group]) == part.size
