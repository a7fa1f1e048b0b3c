"""Random small networks, float or quantised: every tensor has one shape, so that any operator may follow any other."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from cases import FLOAT, STYLES, Style
from graphs import Builder
from hypothesis import strategies as st

# Channels, height, width. As many channels as rows, and single rows and channels, hide what a row is.
SHAPES = ((3, 6, 5), (3, 6, 5), (6, 6, 3), (1, 7, 4), (4, 1, 5))
SCALE = 0.05


@dataclass(frozen=True)
class Net:
    """A graph under construction: the style of its tensors and their common shape."""

    b: Builder
    style: Style
    shape: tuple[int, int, int]

    def again(self, t: str) -> str:
        """Quantised in between."""
        return self.style.again(self.b, t, SCALE)

    def conv(self, x: str, kernel: tuple[int, int], depthwise: bool = False, channels: int = 0) -> str:
        """A convolution that keeps height and width: it looks up and to the left."""
        c = self.shape[0]
        group = c if depthwise and c > 1 else 1
        w = self.style.w(self.b, (c, (channels or c) // group, *kernel))
        pads = [kernel[0] - 1, kernel[1] - 1, 0, 0]
        return str(self.b.op("Conv", x, w, group=group, pads=pads))


def conv(n: Net, x: str, other: str) -> str:
    """A window."""
    return n.conv(x, (3, 2))


def depthwise(n: Net, x: str, other: str) -> str:
    """A window in each channel."""
    return n.conv(x, (2, 3), depthwise=True)


def pointwise(n: Net, x: str, other: str) -> str:
    """No window."""
    return n.conv(x, (1, 1))


def add(n: Net, x: str, other: str) -> str:
    """Two results, perhaps the same."""
    return str(n.b.op("Add", x, other))


def mul(n: Net, x: str, other: str) -> str:
    """Two results, perhaps the same."""
    return str(n.b.op("Mul", x, other))


def tanh(n: Net, x: str, other: str) -> str:
    """A table, for stored values."""
    return str(n.b.op("Tanh", x))


def pool(n: Net, x: str, other: str) -> str:
    """A maximum over a window that looks down."""
    return str(n.b.op("MaxPool", x, kernel_shape=[2, 3], pads=[0, 1, 1, 1]))


def residual(n: Net, x: str, other: str) -> str:
    """Window, pointwise, plus the input of both."""
    inner = n.again(n.conv(x, (3, 2), depthwise=bool(n.b.rng.integers(2))))
    return str(n.b.op("Add", n.again(n.conv(inner, (1, 1))), x))


def onto(n: Net, x: str, other: str) -> str:
    """A window, plus what it looks at: one kernel that reads one tensor twice."""
    return str(n.b.op("Add", n.again(n.conv(x, (3, 2), depthwise=bool(n.b.rng.integers(2)))), x))


def turn(n: Net, x: str, other: str) -> str:
    """Rows and columns swapped, and back behind an operator."""
    return str(n.b.op("Transpose", n.b.op("Relu", n.b.op("Transpose", x, perm=[0, 1, 3, 2])), perm=[0, 1, 3, 2]))


def concat(n: Net, x: str, other: str) -> str:
    """Two results side by side, and a convolution of both."""
    both = n.again(n.b.op("Concat", x, other, axis=1))
    return n.conv(both, (1, 1), channels=2 * n.shape[0])


def gate(n: Net, x: str, other: str) -> str:
    """Squeeze and excite: a number for each channel, broadcast."""
    mean = n.again(n.b.op("GlobalAveragePool", other))
    return str(n.b.op("Mul", x, n.again(n.b.op("Sigmoid", mean))))


def shift(n: Net, x: str, other: str) -> str:
    """The first row away, one below: slice and pad."""
    if n.shape[1] == 1:
        return tanh(n, x, other)
    cut = n.b.op("Slice", x, n.b.ints(1), n.b.ints(99), n.b.ints(2))
    return str(n.b.op("Pad", cut, n.b.ints(0, 0, 0, 0, 0, 0, 1, 0)))


def soft(n: Net, x: str, other: str) -> str:
    """Softmax over the columns: it wants row-major order."""
    return str(n.b.op("Softmax", x, axis=3))


def stretch(n: Net, x: str, other: str) -> str:
    """Every other row twice: pool and resize."""
    if n.shape[1] % 2:
        return pool(n, x, other)
    half = n.again(n.b.op("AveragePool", x, kernel_shape=[2, 1], strides=[2, 1]))
    return str(n.b.op("Resize", half, "", n.b.const([1, 1, 2, 1], np.float32), mode="nearest"))


def smooth(n: Net, x: str, other: str) -> str:
    """Half the rows, interpolated back."""
    if n.shape[1] % 2:
        return pool(n, x, other)
    half = n.again(n.b.op("MaxPool", x, kernel_shape=[2, 1], strides=[2, 1]))
    return str(n.b.op("Resize", half, "", n.b.const([1, 1, 2, 1], np.float32), mode="linear"))


def below(n: Net, x: str, other: str) -> str:
    """Two results one below the other, and every other row of both."""
    both = n.again(n.b.op("Concat", x, other, axis=2))
    return str(n.b.op("Slice", both, n.b.ints(1), n.b.ints(99), n.b.ints(2), n.b.ints(2)))


OPERATORS: tuple[Callable[[Net, str, str], str], ...] = (
    conv, depthwise, pointwise, add, mul, tanh, pool, residual, residual, onto, turn, concat, gate, shift, soft,
    stretch, smooth, below)


@st.composite
def networks(draw: st.DrawFn, styles: tuple[Style, ...] = (FLOAT, STYLES["s8"])) -> Builder:
    """Three to nine operators, mostly on the last result; the last one and sometimes others are outputs."""
    n = Net(Builder(seed=draw(st.integers(0, 99))), draw(st.sampled_from(styles)), draw(st.sampled_from(SHAPES)))
    made = [n.style.x(n.b, 1, *n.shape)]

    def pick() -> str:
        return draw(st.sampled_from([*made[-4:], *made[-1:] * 4]))
    for _ in range(draw(st.integers(3, 9))):
        made.append(n.again(draw(st.sampled_from(OPERATORS))(n, pick(), pick())))
    others = draw(st.lists(st.sampled_from(made[1:-1]), max_size=2, unique=True)) if draw(st.booleans()) else []
    n.b.output(*(n.b.quantise(t, SCALE, n.style.y_zero) if n.style.x_zero is not None else n.b.op("Identity", t)
                 for t in (*others, made[-1])))
    return n.b
