"""Kernels for Arm's DSP extension: their portable bodies on the host equal numpy to the bit, and so does the board."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
from cases import STYLES, Style
from graphs import Builder, assert_c_is_reference, compile, kernels, run_c, samples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fuse2c.check import sanitized
from fuse2c.measure import qemu
from fuse2c.ops import _dsp

I8, U8 = np.int8, np.uint8
DRAW = settings(max_examples=12, phases=[Phase.explicit, Phase.generate])
M4 = "cortex-m4"


def m4(b: Builder, folder: Path, **options: Any) -> Any:
    """The plan for a core with DSP; HostModel runs it with the portable bodies."""
    return compile(b, folder, target=M4, **options)


@st.composite
def stored(draw: st.DrawFn) -> Style:
    """Any zero points, the ends among them; weights that fit into bytes with their zero point taken off."""
    kind = draw(st.sampled_from([I8, U8]))
    info = np.iinfo(kind)
    zero = st.sampled_from([int(info.min), int(info.max)]) | st.integers(int(info.min), int(info.max))
    weights = draw(st.sampled_from([I8(0), U8(128)])) if kind is U8 else I8(0)
    return Style(kind(draw(zero)), weights, kind(draw(zero)), draw(st.booleans()), draw(st.sampled_from([0.0021, 0.037])))


def span(draw: st.DrawFn, most: int, kernels: list[int], pad: bool) -> tuple[int, int, int, int, int]:
    """(size, kernel, stride, pad before, pad behind) along an axis, such that a window fits."""
    size, kernel, stride = draw(st.integers(1, most)), draw(st.sampled_from(kernels)), draw(st.integers(1, 2))
    before, behind = (draw(st.integers(0, kernel - 1)) if pad else 0 for _ in range(2))
    return max(size, kernel - before - behind), kernel, stride, before, behind


@st.composite
def layer(draw: st.DrawFn, kernels: list[int], depthwise: bool) -> cases.Layer:
    """A convolution of any width and number of channels, pads on four sides."""
    (h, kh, sh, top, bottom), (w, kw, sw, left, right) = (span(draw, most, kernels, True) for most in (5, 14))
    channels, outs = draw(st.integers(2 if depthwise else 1, 13)), draw(st.integers(1, 9))
    attrs = {"kernel_shape": [kh, kw], "strides": [sh, sw], "pads": [top, left, bottom, right]}
    if depthwise:
        return cases.Layer((1, channels, h, w), (channels, 1, kh, kw), {**attrs, "group": channels}, draw(st.booleans()))
    return cases.Layer((1, channels, h, w), (outs, channels, kh, kw), attrs, draw(st.booleans()))


@pytest.mark.parametrize(("windows", "depthwise"), [([1], False), ([1, 2, 3, 5], False), ([3, 5, 7], True)],
                         ids=["pointwise", "conv", "depthwise"])
def test_drawn_convolutions(windows: list[int], depthwise: bool, tmp_path: Path) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(4):
            data.draw(layer(windows, depthwise)).conv(data.draw(stored()), b)
        compiled = m4(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])))
        assert all(name.endswith("_dsp") for name in kernels(compiled))
        assert_c_is_reference(compiled)
    run()
