"""What a tile of Arm's DSP extension reads: strips of rows, widened by fours to pairs of int16, and weights in that order.

Elements (0, 2) and (1, 3) of four share a word: that is what widening instructions leave. A column that is in several windows
is widened once for all. Where a pixel's elements are no fours, the second four overlaps the first.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fuse2c.kernels.windowing import Segments


@dataclass(frozen=True, slots=True)
class Move:
    """A word of widened elements, and where it goes."""

    slot: int
    value: str


@dataclass(frozen=True, slots=True)
class Column:
    """Four elements to widen, `at` elements into a strip, and what can be stored once they are there."""

    index: int
    at: str
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Strip:
    """What a tile's pixels read of one row of the input, and how that becomes words of the tile."""

    groups: int                     # a gathered strip: so many times ...
    width: int                      # ... so many columns of the input
    columns: tuple[Column, ...]     # for four elements of each: stored side by side where two go to neighbouring slots
    slots: int                      # words that those take
    rest: tuple[Move, ...]          # last words, of elements that fill no group of four
    end: int                        # words that these take


@dataclass(frozen=True, slots=True)
class Widened(Segments):
    """As strips of pairs; `pixel` elements are one pixel, if they are more."""

    pixel: int = 0

    @property
    def shared(self) -> bool:
        """Whether columns are widened one by one, for all windows that they are in, not windows as a whole."""
        return self.taps > 1 and self.channels % 4 == 0

    @property
    def loose(self) -> bool:
        """Whether strips have to be gathered, without the columns between taps."""
        return not self.shared and (self.dilation > 1 or (self.taps > 1 and self.pixel > self.channels))

    @property
    def step(self) -> int:
        """The distance of neighbouring columns in a strip."""
        return self.channels if self.loose else max(self.pixel, self.channels)

    @property
    def length(self) -> int:
        """Elements of one unit: a column if they are shared, else all under a row of the window."""
        return self.channels if self.shared else self.channels * self.taps

    @property
    def first(self) -> int:
        """How far the second four elements of a pixel are behind the first: those overlap where there would be a rest."""
        return self.channels % 4 if self.taps == 1 and self.channels > 4 else 0

    @property
    def quads(self) -> int:
        """How often four elements of one unit are loaded."""
        return self.length // 4 + (self.first > 0)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Which elements under a row of the window share a word; -1: none, or one that was there before."""
        if not self.first:
            return pairs(self.taps * self.channels)
        again = [k if k >= 4 else -1 for k in range(self.first, self.first + 4)]
        return (*pairs(4), (again[0], again[2]), (again[1], again[3]),
                *((a + self.first + 4, b + self.first + 4) for a, b in pairs(self.channels - self.first - 4)))

    def strip(self, pixels: int) -> Strip:
        """The strip of a tile."""
        taps = self.taps if self.shared else 1
        near = (self.reach or self.dilation) if self.shared else 1
        step = self.stride if self.shared or not self.loose else self.taps
        used = sorted({p * step + tap * near for p in range(pixels) for tap in range(taps)})
        moves: dict[int, list[Move]] = {c: [] for c in used}
        for tap in range(taps):
            for first in range(0, pixels, 2):
                pair = range(first, min(first + 2, pixels))
                moves[pair[-1] * step + tap * near] += [
                    Move((2 * tap + half) * pixels + p, f"{name}{p * step + tap * near}")
                    for half, name in enumerate(("low", "high")) for p in pair]
        columns = tuple(Column(c, times("IN_C", c), tuple(moves[c])) for c in used)
        whole = 4 * self.quads
        rest = [] if self.shared else [(a - whole, (b if b >= 0 else a) - whole) for a, b in pairs(self.length)[whole // 2:]]
        at = [p * step * self.step for p in range(pixels)]
        last = tuple(Move(n * pixels + p, f"f2c_pair(s[{at[p] + a}], s[{at[p] + b}])")
                     for n, (a, b) in enumerate(rest) for p in range(pixels))
        span = (pixels - 1) * self.stride + (self.taps - 1) * self.dilation + 1
        groups, width = (pixels, self.taps) if self.loose else (self.taps, self.reach) if self.reach else (1, span)
        return Strip(groups, width, columns, 2 * taps * pixels, last, len(last))


def pairs(length: int) -> tuple[tuple[int, int], ...]:
    """Which elements of a segment share a word: those that a widening instruction leaves side by side; -1: none."""
    whole = length // 4 * 4
    found = [p for k in range(0, whole, 4) for p in ((k, k + 2), (k + 1, k + 3))]
    return (*found, *((k, k + 1 if k + 1 < length else -1) for k in range(whole, length, 2)))


def arranged(w: np.ndarray, seg: Widened, order: tuple[tuple[int, int], ...]) -> np.ndarray:
    """[outputs, depth] -> [outputs, 2 * words], depth being rows of the window; zeros where a word has room.

    order: which elements under a row of the window share a word.
    """
    if seg.shared:
        quads = w.reshape(w.shape[0], -1, seg.taps, seg.channels // 4, 4)
        w = np.ascontiguousarray(quads.transpose(0, 1, 3, 2, 4)).reshape(w.shape[0], -1)
    rows = w.reshape(w.shape[0], -1, seg.taps * seg.channels)
    found = np.concatenate([rows, np.zeros_like(rows[:, :, :1])], axis=2)[:, :, np.asarray(order).reshape(-1)]
    return found.reshape(w.shape[0], -1)


def times(name: str, n: int) -> str:
    """C text of n times a constant."""
    return ("0", name)[n] if n < 2 else f"{n} * {name}"
