"""Transposed convolutions as convolutions of the small map: the same results, in kernels that are there for those."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import DRAW
from graphs import Builder, assert_c_is_reference, chains, compile, kernels, reasons
from hypothesis import given
from hypothesis import strategies as st
from test_fusion import assert_same_meaning

I8, U8 = np.int8, np.uint8
F32 = np.float32


def normalised(b: Builder, t: str, channels: int) -> str:
    """A batch normalisation behind t."""
    return str(b.op("BatchNormalization", t, b.const(np.linspace(0.5, 1.5, channels, dtype=F32)), b.floats(channels),
                    b.floats(channels), b.const(np.linspace(0.7, 2.0, channels, dtype=F32))))


def turned(b: Builder, draw: Any, stored: bool) -> None:
    """A transposed convolution of one or two dimensions, with what may be behind it."""
    channels, outs = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    axes = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=2))
    kernel, strides, size = zip(*axes, strict=True)
    ends = [(draw(st.integers(0, max(k - 1, 0) // 2)), draw(st.integers(0, (k - 1) // 2))) for k in kernel]
    attrs: dict[str, Any] = {"strides": strides, "pads": [*(a for a, _ in ends), *(e for _, e in ends)],
                             "output_padding": [draw(st.integers(0, s - 1)) for s in strides]}
    shape, w = (1, channels, *size), (channels, outs, *kernel)
    if stored:
        scale = draw(st.sampled_from([F32(0.013), np.linspace(0.01, 0.02, outs, dtype=F32)]))
        zero = draw(st.sampled_from([None, np.full(np.shape(scale), 3, I8)]))
        ones = [b.bias(outs, F32(0.037) * scale)] if draw(st.booleans()) else []
        y = b.op("ConvTranspose", b.stored(shape, 0.037, draw(st.sampled_from([I8(-128), I8(9), U8(7)]))),
                 b.weights(w, scale, zero, axis=1), *ones, **attrs)
        y = b.op("Relu", y) if draw(st.booleans()) else y
        b.output(b.quantise(y, 0.8, I8(-11)))
        return
    y = b.op("ConvTranspose", b.input(shape), b.floats(*w), *([b.floats(outs)] if draw(st.booleans()) else []), **attrs)
    y = normalised(b, y, outs) if draw(st.booleans()) else y
    b.output(b.op(draw(st.sampled_from(["Relu", "Tanh", "Neg"])), y))


@pytest.mark.parametrize("stored", [False, True], ids=["float", "stored"])
def test_drawn(stored: bool, tmp_path: Path) -> None:
    """Any kernel, step and pads; results that do not fill their last block; stored: at most a tie is rounded otherwise."""
    seen = set[str]()

    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(3):
            turned(b, data.draw, stored)
        compiled = compile(b, tmp_path)
        seen.update(kernels(compiled))
        assert_same_meaning(compiled, steps=1)
    run()
    assert {"conv", "pointwise"} <= seen


def test_between_convolutions_nothing_is_moved(tmp_path: Path) -> None:
    """Its parts are written where they belong, in whole lines of the result, and read there."""
    b = Builder()
    x = b.op("Conv", b.stored((1, 3, 4, 5), 0.037, I8(-9)), b.weights((6, 3, 1, 1), 0.013))
    y = b.op("ConvTranspose", b.requantise(x, 0.4, I8(3)), b.weights((6, 4, 3, 3), np.full(4, 0.01, F32), axis=1),
             strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
    y = b.op("Conv", b.requantise(b.op("Relu", y), 0.5, I8(-128)), b.weights((2, 4, 3, 3), 0.02), pads=[1, 1, 1, 1])
    b.output(b.quantise(y, 2.0, I8(5)))
    compiled = compile(b, tmp_path, target="cortex-m4")
    plan = compiled.plan
    assert [s.kernel.name for s in plan.steps if not s.spec.written] == ["conv_dsp"] * 4
    assert chains(compiled) == ["Conv", "Conv > Relu", "Conv > Relu", "Concat", "Conv"]
    rows = [s.spec.constants["K_H"] for s in plan.steps[1:3]]
    assert rows == [1, 2]       # taps 1 and 0, 2 of three: none is multiplied for nothing
    assert_same_meaning(compiled, steps=1)


REFUSED: dict[str, tuple[tuple[int, ...], dict[str, Any], str]] = {
    "groups": ((4, 2, 2, 2), {"group": 2}, "groups"),
    "gaps": ((4, 2, 2, 2), {"dilations": [1, 2]}, "gaps"),
    "no tap": ((4, 2, 1, 2), {"strides": [2, 1]}, "no input"),
    "far pads": ((4, 2, 2, 2), {"pads": [2, 0, 0, 0]}, "no result"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_near_misses(name: str, tmp_path: Path) -> None:
    weights, attrs, reason = REFUSED[name]
    b = Builder()
    b.output(b.op("ConvTranspose", b.input((1, 4, 3, 5)), b.floats(*weights), **attrs))
    compiled = compile(b, tmp_path)
    assert kernels(compiled) == ["conv_transpose"]
    assert any(reason in why for why in reasons(compiled, "fold", "upsample"))
    assert_c_is_reference(compiled)


def test_variable_weights_stay(tmp_path: Path) -> None:
    """What is between has another reader, weights are an operand: no rewriting, or none of what is behind."""
    b = Builder()
    b.output(b.op("ConvTranspose", b.input((1, 2, 3, 4)), b.input((2, 3, 2, 2))))
    y = b.op("ConvTranspose", b.input((1, 2, 3, 4)), b.floats(2, 3, 2, 2), strides=[2, 2])
    b.output(b.op("Relu", y), b.op("Neg", y))
    compiled = compile(b, tmp_path)
    assert kernels(compiled).count("conv_transpose") == 1 and "Conv" in chains(compiled)
    assert_same_meaning(compiled)
