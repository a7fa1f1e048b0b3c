"""Layers drawn by hypothesis, for the tests of kernels for certain cores."""
from __future__ import annotations

from typing import Any

import cases
from graphs import Builder
from hypothesis import Phase, settings
from hypothesis import strategies as st

DRAW = settings(max_examples=12, phases=[Phase.explicit, Phase.generate])


def span(draw: st.DrawFn, most: int, kernels: list[int], pad: bool) -> tuple[int, int, int, int, int]:
    """(size, kernel, stride, pad before, pad behind) along an axis, such that a window fits."""
    size, kernel, stride = draw(st.integers(1, most)), draw(st.sampled_from(kernels)), draw(st.integers(1, 2))
    before, behind = (draw(st.integers(0, kernel - 1)) if pad else 0 for _ in range(2))
    return max(size, kernel - before - behind), kernel, stride, before, behind


@st.composite
def layer(draw: st.DrawFn, kernels: list[int], depthwise: bool, dilate: bool = False, several: bool = False) -> cases.Layer:
    """A convolution of any width and number of channels, pads on four sides, perhaps with gaps between a window's columns.

    A depthwise one may also have several outputs a channel.
    """
    (h, kh, sh, top, bottom), (w, kw, sw, left, right) = (span(draw, most, kernels, True) for most in (5, 14))
    channels, outs = draw(st.integers(2 if depthwise else 1, 13)), draw(st.integers(1, 9))
    attrs = {"kernel_shape": [kh, kw], "strides": [sh, sw], "pads": [top, left, bottom, right]}
    if dilate:
        (dy, dx), (height, width) = draw(st.tuples(*[st.integers(1, 3)] * 2)), (h, w)
        h, w = max(height, (kh - 1) * dy + 1 - top - bottom), max(width, (kw - 1) * dx + 1 - left - right)
        attrs["dilations"] = [dy, dx]
    if depthwise:
        outs = channels * (draw(st.integers(1, 3)) if several else 1)
        return cases.Layer((1, channels, h, w), (outs, 1, kh, kw), {**attrs, "group": channels}, draw(st.booleans()))
    return cases.Layer((1, channels, h, w), (outs, channels, kh, kw), attrs, draw(st.booleans()))


@st.composite
def dense(draw: st.DrawFn, rows: int, depth: tuple[int, int], columns: int) -> cases.Dense:
    """A dense layer with a bias, of at most so many rows and columns."""
    m, k, n = draw(st.integers(1, rows)), draw(st.integers(*depth)), draw(st.integers(1, columns))
    return cases.Dense((m, k), (n, k), {"transB": 1}, (n,))


def pool(b: Builder, kind: str, channels: int, attrs: dict[str, Any], zero: Any, scale: float) -> None:
    """A pool with its channels last, as between convolutions; an average has another scale than its operand."""
    x = b.op("Transpose", b.stored((1, 5, 6, channels), 0.05, zero), perm=[0, 3, 1, 2])
    y = b.op(kind, x, **attrs)
    y = b.quantise(y, 0.05 if kind == "MaxPool" else scale, zero if kind == "MaxPool" else zero.dtype.type(3))
    b.output(b.op("Transpose", y, perm=[0, 2, 3, 1]))
