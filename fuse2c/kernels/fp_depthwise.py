"""Depthwise convolution of float32 for Arm's FPU: tiles of up to four outputs of a channel, side by side in a row.

For Helium the same with vectors of four channels.
The weights of a row of the window stay in registers, an element is loaded once for all windows that it is in. Which
columns are padding is known for each tile: tiles at the edges have functions of their own, without those taps.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fuse2c.kernels import dsp, mve, reals, tiling
from fuse2c.kernels.tiling import Block, Lane, Store, Tile

VECTORS = 8     # registers
WIDEST = 8      # columns of a window: their weights, four sums, an element and products are in registers


@dataclass(frozen=True, slots=True)
class Use:
    """One product: of the sum of `pixel` with the weight of column `tap`."""

    pixel: int
    tap: int


@dataclass(frozen=True, slots=True)
class Column:
    """An element, `at` elements from where addresses start, and its products."""

    name: str
    at: int
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Output columns first .. end - 1 in tiles of `size` that see the same of the padding; `key`: their tile among the spec's.

    start: the first column that the tile at column 0 reads, or would read: a load reaches far ahead, and hardly back.
    """

    key: str
    first: int
    end: int
    size: int
    start: int
    columns: tuple[Column, ...]

    @property
    def taps(self) -> list[int]:
        """Columns of the window whose weights are used."""
        return sorted({u.tap for c in self.columns for u in c.uses})

    @property
    def products(self) -> int:
        """Products of a tile in a row of the window."""
        return sum(len(c.uses) for c in self.columns)


def spans(names: dict[str, int], inside: np.ndarray, largest: int = dsp.LARGEST) -> tuple[Span, ...]:
    """The tiles of a row, equal neighbours together; `names` are the constants of the window.

    inside: for each output column which taps see an element: one at least. largest: the most outputs of a tile.
    """
    found = list[Span]()
    for run in dsp.runs(names["OUT_W"], largest):
        for ox in range(run.first, run.end, run.size):
            start, columns = _columns(inside[ox:ox + run.size], names)
            last = found[-1] if found else None
            if last is not None and (last.size, last.start, last.columns) == (run.size, start, columns):
                found[-1] = replace(last, end=last.end + run.size)
                continue
            found.append(Span(f"{len(found)}", ox, ox + run.size, run.size, start, columns))
    return tuple(found)


def alone(found: tuple[Span, ...], names: dict[str, int]) -> dict[str, Tile]:
    """The stores of tiles of one channel at a time."""
    y = names["Y_SC"], names["Y_SW"]
    return {s.key: Tile(range(s.size), ((Block(0, 1, 1), tuple(_lane(p, *y) for p in range(s.size))),)) for s in found}


def fours(found: tuple[Span, ...], names: dict[str, int]) -> dict[str, tuple[mve.Tile, ...]]:
    """The stores of tiles of four channels at a time."""
    return {s.key: tuple(reals.finished(reals.Sum(f"acc{p}", p, 0), Block(0, 4, 4), (1, names["Y_SW"]))
                         for p in range(s.size)) for s in found}


def vectors(w: np.ndarray) -> np.ndarray:
    """[channels, rows * columns] in groups of four channels: [channels / 4][rows][columns][4]."""
    return w.reshape(-1, reals.LANES, w.shape[1]).transpose(0, 2, 1).reshape(-1)


def most(columns: int) -> int:
    """The most vectors of sums beside those of a row's weights and one of elements."""
    return max(1, min(dsp.LARGEST, VECTORS - 1 - columns))


def effort(found: tuple[Span, ...], height: int, inside: int) -> dict[str, int]:
    """Of one channel. height: rows of the result; inside: rows of all their windows that are no padding."""
    tiles = [((s.end - s.first) // s.size, s) for s in found]
    return {"load": inside * sum(n * (len(s.columns) + len(s.taps)) for n, s in tiles),
            "multiply": inside * sum(n * s.products for n, s in tiles), "tile": height * sum(n for n, _ in tiles)}


def _columns(inside: np.ndarray, names: dict[str, int]) -> tuple[int, tuple[Column, ...]]:
    """(start, elements that a tile reads of a row, from left to right: each sum then takes its taps in order)."""
    uses: dict[int, list[Use]] = {}
    for p, tap in np.argwhere(inside).tolist():
        uses.setdefault(p * names["STRIDE_W"] + tap * names["DIL_W"], []).append(Use(p, tap))
    first = min(uses)
    found = tuple(Column(f"x{n}", (at - first) * names["X_SW"], tuple(uses[at])) for n, at in enumerate(sorted(uses)))
    return first - names["PAD_LEFT"], found


def _lane(p: int, channel_step: int, column_step: int) -> Lane:
    at = f"at + {p * column_step}" if p else "at"
    return Lane(f"acc{p}", p, 0, "oc", Store(f"acc{p}", "oc", tiling.index(at, "oc", channel_step)))
