"""Stored convolutions of one output as convolutions of two neighbouring columns."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import DRAW
from graphs import Builder, assert_c_is_reference, compile, outputs, samples
from hypothesis import given
from hypothesis import strategies as st

I8, U8 = np.int8, np.uint8


def one_output(b: Builder, width: int, channels: int, kernel: tuple[int, int], **attrs: Any) -> None:
    """A stored convolution with a bias, and a Sigmoid behind it."""
    w = b.weights((1, channels, *kernel), np.float32(0.02), I8(-3))
    y = b.op("Conv", b.stored((1, channels, 5, width), 0.037, I8(-9)), w, b.bias(1, np.float32(0.037 * 0.02)), **attrs)
    b.output(b.quantise(b.op("Sigmoid", b.requantise(y, 0.9, I8(4))), 1 / 256, I8(-128)))


def pairs(compiled: Any) -> int:
    """How many convolutions compute two columns at once."""
    return sum("column-pairs" in d.subject and d.taken for d in compiled.plan.decisions)


def test_drawn(tmp_path: Path) -> None:
    """Any kernel and pads: the integers are the same, whatever the target's kernels."""
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        kh, kw, left, right = (data.draw(st.integers(*limits)) for limits in ((1, 4), (2, 5), (0, 3), (0, 3)))
        width = 2 * data.draw(st.integers(1, 5)) + kw - 1 - left - right
        if width < 1:
            return
        one_output(b, width, data.draw(st.integers(1, 5)), (kh, kw), pads=[0, left, 2, right],
                   strides=[data.draw(st.integers(1, 2)), 1])
        model, target = b.model(), data.draw(st.sampled_from(["cortex-m4", "cortex-m55", "cortex-m3"]))
        compiled, without = (compile(model, tmp_path, target=target, no_fuse_rules=rules) for rules in ((), ("column-pairs",)))
        assert (pairs(compiled), pairs(without)) == (1, 0)
        assert_c_is_reference(compiled)
        rows = samples(compiled.plan)
        for got, want in zip(outputs(compiled.plan.graph, rows), outputs(without.plan.graph, rows), strict=True):
            assert all(np.array_equal(x, y) for x, y in zip(got.values(), want.values(), strict=True))
    run()


@pytest.mark.parametrize(("width", "kernel", "attrs"), [
    (7, (3, 3), {}), (8, (3, 3), {"strides": [1, 2]}), (8, (2, 2), {"dilations": [1, 3]}), (8, (3, 1), {})],
    ids=["odd", "steps", "gaps", "one column"])
def test_near_misses(width: int, kernel: tuple[int, int], attrs: dict[str, Any], tmp_path: Path) -> None:
    b = Builder()
    one_output(b, width, 2, kernel, **attrs)
    compiled = compile(b, tmp_path)
    assert pairs(compiled) == 0
    assert_c_is_reference(compiled)
