"""Taps and channels of a layer's weights that are zero: neither stored nor computed, and the same results to the bit."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import DRAW
from graphs import Builder, assert_c_is_reference, compile, outputs, samples
from hypothesis import given
from hypothesis import strategies as st

from fuse2c.passes import select
from fuse2c.plan import Plan

I8 = np.int8
TARGETS = ("cortex-m4", "cortex-m3", "cortex-m0plus", "host")
RULES = ("empty-taps", "unread-elements")


def macs(plan: Plan) -> int:
    """Multiply-accumulates of the graph, whatever zeros its kernels leave out."""
    return sum(select.total_work(plan.graph, s.node, None).macs for s in plan.steps)


def weights(b: Builder, value: np.ndarray, zero: int | None) -> str:
    """Constant weights: float32, or stored with a zero point."""
    if zero is None:
        return b.const((value * np.float32(0.01)).astype(np.float32))
    return b.dequantise(b.const((value + zero).astype(I8)), np.float32(0.01), I8(zero))


def layer(b: Builder, shape: tuple[int, ...], w: np.ndarray, zeros: tuple[int, int] | None, **attrs: Any) -> None:
    """A convolution or a dense layer; zeros: zero points of its operand and its weights, None: float32."""
    x = b.input(shape) if zeros is None else b.stored(shape, 0.04, I8(zeros[0]))
    kind = "Conv" if w.ndim > 2 else "MatMul"
    y = b.op(kind, x, weights(b, w, None if zeros is None else zeros[1]), **attrs)
    b.output(y if zeros is None else b.quantise(y, 0.9, I8(3)))


def same(b: Builder, folder: Path, target: str = "cortex-m4", **options: Any) -> Any:
    """The compiled model, which is as it would be without these folds."""
    compiled = compile(b, folder, target=target, **options)
    plain = compile(b, folder, target=target, no_fuse_rules=RULES, **options)
    rows = samples(compiled.plan)
    assert_c_is_reference(compiled, rows)
    for got, want in zip(outputs(compiled.plan.graph, rows), outputs(plain.plan.graph, rows), strict=True):
        for x, y in zip(got.values(), want.values(), strict=True):
            if x.dtype == I8:
                assert np.array_equal(x, y)
            else:
                assert np.allclose(x, y, rtol=1e-5, atol=1e-5)
    return compiled


@pytest.mark.parametrize("target", TARGETS)
def test_drawn_windows(target: str, tmp_path: Path) -> None:
    """Any taps, pads, strides and dilations; also windows of which nothing is left."""
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        def some(low: int, high: int) -> int:
            return data.draw(st.integers(low, high))
        b, group = Builder(seed=some(0, 99)), some(0, 1)
        kernel = [some(1, 5), some(1, 5)]
        channels = some(2, 7)
        w = b.rng.integers(-90, 90, (channels if group else some(1, 5), 1 if group else channels, *kernel))
        for axis in (2, 3):
            gone = data.draw(st.sets(st.integers(0, kernel[axis - 2] - 1)))
            w[(slice(None),) * axis + (sorted(gone),)] = 0
        dilations, strides = [some(1, 2), some(1, 2)], [some(1, 2), some(1, 2)]
        pads = [some(0, k - 1) for k in kernel * 2]
        size = [(k - 1) * d + some(1, 4) for k, d in zip(kernel, dilations, strict=True)]
        zeros = data.draw(st.sampled_from([None, (-128, 0), (5, 0), (127, 3)]))
        layer(b, (1, channels, *size), w, zeros, kernel_shape=kernel, pads=pads, strides=strides, dilations=dilations,
              group=channels if group else 1)
        same(b, tmp_path, target)
    run()


@pytest.mark.parametrize(("kernel", "taps", "pad", "group", "want"), [
    (3, ([1], [1]), 1, 1, ((1, 1), (1, 1), 0)),             # the middle alone: pointwise
    (5, ([1, 2, 3], [1, 2, 3]), 2, 1, ((3, 3), (1, 1), 1)),
    (5, ([0, 2, 4], [0, 2, 4]), 2, 1, ((3, 3), (2, 2), 2)),
    (5, ([0, 2, 4], [0, 2, 4]), 2, 6, ((3, 5), (2, 1), 2)),  # fast depthwise kernels have neighbouring columns
    (3, ([1], [1]), 1, 6, ((1, 2), (1, 1), 0)),
    (3, ([0, 1, 2], [0, 2]), 1, 1, ((3, 2), (1, 2), 1)),
    (3, ([1, 2], [0, 1, 2]), 0, 1, ((3, 3), (1, 1), 0)),    # without padding the window cannot begin below its first row
])
@pytest.mark.parametrize("zeros", [None, (-7, 0)], ids=["float32", "int8"])
def test_windows_become_smaller(kernel: int, taps: tuple[list[int], list[int]], pad: int, group: int, want: Any, zeros: Any,
                                tmp_path: Path) -> None:
    b = Builder()
    w = np.zeros((6 if group > 1 else 4, 6 // group, kernel, kernel), np.int64)
    w[:, :, *np.ix_(*taps)] = b.rng.integers(1, 90, (*w.shape[:2], *map(len, taps)))
    layer(b, (1, 6, 9, 8), w, zeros, kernel_shape=[kernel] * 2, pads=[pad] * 4, group=group)
    compiled = same(b, tmp_path)
    (conv,) = (p for n in compiled.plan.graph.nodes for p in n.parts if p.op == "Conv")
    window = conv.attrs.window
    assert (window.kernel, window.dilations, window.pads[0]) == want
    assert compiled.plan.graph.type(conv.inputs[1]).shape[2:] == want[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("zeros", [None, (-7, 2)], ids=["float32", "int8"])
@pytest.mark.parametrize(("shape", "columns", "kernel", "op"), [
    ((2, 40), range(8, 20), None, "Slice"), ((2, 40), (0, 3, 4, 39), None, "Take"),
    ((1, 12, 5, 6), (1, 2, 7, 11), 1, "Take"), ((1, 12, 5, 6), range(5, 9), 3, "Slice"), ((1, 12, 5, 6), (), 3, "Slice")])
def test_channels_that_nothing_reads(shape: tuple[int, ...], columns: Any, kernel: int | None, op: str, zeros: Any, target: str,
                                     tmp_path: Path) -> None:
    """The operand is the caller's: its channels cannot be cut where they are made."""
    b = Builder()
    w = np.zeros((shape[1], 48) if kernel is None else (48, shape[1], kernel, kernel), np.int64)
    at = (list(columns),) if kernel is None else (slice(None), list(columns))
    w[at] = b.rng.integers(1, 90, w[at].shape)
    layer(b, shape, w, zeros)
    compiled = same(b, tmp_path, target)
    nodes = [p for n in compiled.plan.graph.nodes for p in n.parts]
    assert op in [n.op for n in nodes]
    assert compiled.plan.graph.type(nodes[-1].inputs[1]).count == w[at].size or not columns
    assert macs(compiled.plan) < macs(compile(b, tmp_path, target=target, no_fuse_rules=RULES).plan)


def test_what_takes_longer_to_move_stays(tmp_path: Path) -> None:
    b = Builder()
    w = b.rng.integers(1, 90, (8, 40, 1, 1))
    w[:, ::9] = 0
    layer(b, (1, 40, 5, 6), w, None)
    compiled = same(b, tmp_path)
    assert [n.op for n in compiled.plan.graph.nodes] == ["Conv"]
    assert any("moving the others takes longer" in d.reason for d in compiled.plan.decisions)
