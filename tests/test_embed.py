"""Concat and Slice that move nothing: parts of a tensor are written and read in place."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from graphs import Builder, assert_c_is_reference, compile, outputs, reasons, samples
from simulation import simulate

SHAPE = (1, 3, 6, 5)
I8 = np.int8


def conv(b: Builder, x: str, channels: int, size: int, inputs: int = 3) -> str:
    """A convolution that keeps rows and columns."""
    pad = size // 2
    return str(b.op("Relu", b.op("Conv", x, b.floats(channels, inputs, size, size), b.floats(channels), pads=[pad] * 4)))


def inception(b: Builder) -> None:
    """Branches of different windows, one of them a pool; the next convolution reads them joined."""
    x = b.input(SHAPE)
    parts = conv(b, x, 4, 1), conv(b, x, 2, 3), b.op("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    b.output(conv(b, b.op("Concat", *parts, axis=1), 5, 3, 9))


def at_the_end(b: Builder) -> None:
    """The caller's buffer holds planes: each branch writes some."""
    x = b.input(SHAPE)
    b.output(b.op("Concat", conv(b, x, 4, 1), conv(b, x, 2, 3), axis=1))


def rows_joined(b: Builder) -> None:
    x = b.input(SHAPE)
    b.output(conv(b, b.op("Concat", conv(b, x, 4, 1), conv(b, x, 4, 3), axis=2), 3, 3, 4))


def rows_at_the_end(b: Builder) -> None:
    x = b.input(SHAPE)
    b.output(b.op("Concat", conv(b, x, 4, 1), conv(b, x, 4, 3), axis=2))


def stored(b: Builder) -> None:
    """8-bit branches of one scale."""
    x = b.stored(SHAPE, 0.03, I8(-9))
    parts = [b.requantise(b.op("Conv", x, b.weights((c, 3, s, s), np.full(c, 0.013, np.float32)), pads=[s // 2] * 4),
                          0.4, I8(5)) for c, s in ((5, 1), (3, 3))]
    t = b.requantise(b.op("Concat", *parts, axis=1), 0.4, I8(5))
    t = b.op("Conv", t, b.weights((4, 8, 3, 3), np.full(4, 0.01, np.float32)), pads=[1, 1, 1, 1])
    b.output(b.quantise(t, 1.5, I8(-3)))


def halves(b: Builder) -> None:
    """A shuffle unit: half of the channels passes, the other half is convolved."""
    x = conv(b, b.input(SHAPE), 8, 3)
    left, right = b.op("Split", x, b.ints(5, 3), axis=1, outputs=2)
    b.output(b.op("Concat", conv(b, left, 4, 3, 5), conv(b, right, 2, 1, 3), axis=1))


def read_twice(b: Builder) -> None:
    x = b.input(SHAPE)
    t = conv(b, x, 4, 1)
    b.output(conv(b, b.op("Concat", t, conv(b, x, 2, 3), axis=1), 5, 3, 6), conv(b, t, 3, 3, 4))


def with_the_input(b: Builder) -> None:
    x = b.input(SHAPE)
    b.output(conv(b, b.op("Concat", x, conv(b, x, 2, 3), axis=1), 5, 3, 5))


def residual(b: Builder) -> None:
    x = conv(b, b.input(SHAPE), 3, 1)
    t = b.op("Add", b.op("Conv", x, b.floats(3, 3, 3, 3), pads=[1] * 4), x)
    b.output(conv(b, b.op("Concat", t, conv(b, x, 2, 5), axis=1), 5, 3, 5))


def every_second(b: Builder) -> None:
    x = conv(b, b.input(SHAPE), 8, 3)
    t = b.op("Slice", x, b.ints(0), b.ints(8), b.ints(1), b.ints(2))
    b.output(conv(b, t, 3, 3, 4), b.op("Neg", x))


GRAPHS: list[tuple[Callable[[Builder], None], int, str]] = [
    (inception, 1, ""), (at_the_end, 1, ""), (rows_at_the_end, 1, ""), (stored, 1, ""), (halves, 3, ""),
    (read_twice, 0, "read elsewhere as well"), (with_the_input, 0, "is the caller's"),
    (rows_joined, 0, "one operand's rows follow the other's"),
    (residual, 0, "which lies like its result"), (every_second, 0, "it goes in steps"),
]


@pytest.mark.parametrize("target", ["host", "cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("optimize", ["cycles", "ram"])
@pytest.mark.parametrize(("build", "moved", "why_not"), GRAPHS, ids=lambda v: getattr(v, "__name__", ""))
def test_in_place(build: Callable[[Builder], None], moved: int, why_not: str, optimize: str, target: str,
                  tmp_path: Path) -> None:
    b = Builder()
    build(b)
    # A loop nest would write the sum into its part.
    compiled = compile(b, tmp_path, target=target, optimize=optimize, no_fuse_rules=("loop-nest",))
    plan = compiled.plan
    taken = [d for d in plan.decisions if d.stage == "embed" and d.taken]
    assert len(taken) == moved, plan.decisions
    if why_not:
        assert any(why_not in d.reason for d in plan.decisions if d.stage == "embed")
    rows = samples(plan)
    assert_c_is_reference(compiled, rows)
    simulate(plan, rows[0])
    for got, want in zip(outputs(plan.graph, rows), outputs(plan.source, rows), strict=True):
        for t in want:
            assert np.allclose(got[t], want[t], rtol=1e-5, atol=1e-5 * float(np.abs(want[t]).max()))


def test_nothing_is_copied(tmp_path: Path) -> None:
    """Without a copy, and without a kernel that would make one; with the rule left out there are both."""
    b = Builder()
    inception(b)
    compiled, without = compile(b, tmp_path), compile(b, tmp_path, no_fuse_rules=("in-place",))
    assert len([s for s in compiled.plan.steps if not s.spec.written]) == len(without.plan.steps) - 1
    kept, copied = ({p.name for p in c.plan.places if "scratch" not in p.name} for c in (compiled, without))
    assert kept < copied
    assert not reasons(without, "embed", "", taken=True)
