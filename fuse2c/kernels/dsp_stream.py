"""Depthwise convolution of long planar rows: columns come in fours, and each is added to all sums that it is in.

Sums whose windows reach into the next columns are carried on, so that nothing is loaded twice, and rows of any width are one
loop and an end. Outputs are counted from the first one whose window starts at a trip's columns or in front of them.
"""
from __future__ import annotations

from dataclasses import dataclass

from fuse2c.kernels.dsp_depthwise import Columns, Mac, Rows, products
from fuse2c.kernels.tiling import Block, Lane, Store, Tile

OUTPUTS = 4             # of a trip
TRIPS = 2               # from which on it is worth it


@dataclass(frozen=True, slots=True)
class Part:
    """A trip, or the end of a row: which sums begin there, and what is added to them row by row of the window."""

    begun: tuple[str, ...]
    columns: tuple[Columns, ...]
    key: str                    # its tile among the spec's
    taps: str                   # C declarations of the weights

    @property
    def reads(self) -> bool:
        """Whether there are columns of the row, not only padding."""
        return any(c.value for c in self.columns)


@dataclass(frozen=True, slots=True)
class Stream:
    """A row: `middle` columns in trips of `step`, then the end."""

    step: int
    middle: int
    carried: tuple[tuple[str, str], ...]    # sums, and what they are in the trip before
    late: bool                              # the first of them is that of the output in front of the columns
    border: tuple[Mac, ...]                 # what padding adds to them before the first trip
    words: tuple[str, ...]                  # where the widened taps of a row of the window are kept
    trip: Part
    end: Part

    @property
    def kept(self) -> int:
        """How many words those are."""
        return len(self.words)

    @property
    def long(self) -> bool:
        """Whether there are more trips than gcc puts one behind the other, of few enough instructions for it to matter."""
        return self.step == OUTPUTS and self.middle > TRIPS * self.step


def stream(names: dict[str, int], rows: Rows, channel: str) -> tuple[Stream, dict[str, Tile]] | None:
    """The parts of a row and their stores, or None where a row is too short or its windows start otherwise.

    names: the constants of the window; channel: C text of what the finishing function calls its index or multiplier.
    """
    stride, left, width, outs, taps = rows.stride, names["PAD_LEFT"], names["IN_W"], names["OUT_W"], rows.taps
    step = OUTPUTS * stride

    def first(j: int) -> int:
        """The first column of an output's window."""
        return j * stride - left

    every = [j for j in range(-taps, step + left + 1) if first(j) < step and first(j) + taps > 0]
    carried = [j for j in every if first(j) < 0]
    done = [j for j in every if first(j) + taps <= step]
    trips = min(width // step, (outs - 1 - max(done, default=0)) // OUTPUTS + 1)
    behind = [j for j in every if first(j) + taps > step]
    if rows.single or rows.dilation > 1 or not rows.planar or not carried:
        return None
    if min(carried) < -1 or trips < TRIPS or 0 not in done or [j - OUTPUTS for j in behind] != carried:
        return None
    middle = trips * step
    last = outs - 1 - trips * OUTPUTS       # the last output, counted from the end's columns
    rest = [j for j in range(min(carried), last + 1)]
    count = first(last) + taps if rest else 0
    border = tuple(m for j in carried if j >= 0 for m in _border(_sum(j), -first(j), rows))
    stores = {"trip": done, "end": rest}
    inside = {"trip": [True] * step, "end": [middle + c < width for c in range(count)]}
    columns = {key: tuple(products({_sum(j): {first(j) + t: t for t in range(taps) if 0 <= first(j) + t < len(inside[key])}
                                    for j in (every if key == "trip" else rest)},
                                   inside[key], 0, list(range(0, step, 4)) if key == "trip" else [], rows)) for key in stores}
    tiles = {key: Tile(range(len(js)), ((Block(0, 1, 1), tuple(_lane(j, channel) for j in js)),))
             for key, js in stores.items()}
    words = tuple(f"taps[({len(rows.pairs)} * ky) + {i}]" for i in range(len(rows.pairs)))
    parts = {key: Part(tuple(_sum(j) for j in js if j not in carried), columns[key], key, _taps(columns[key], words))
             for key, js in (("trip", every), ("end", rest))}
    moves = tuple((_sum(j), _sum(j + OUTPUTS)) for j in carried)
    return Stream(step, middle, moves, min(carried) < 0, border, words, parts["trip"], parts["end"]), tiles


def _taps(columns: tuple[Columns, ...], words: tuple[str, ...]) -> str:
    used = sorted({m.word for c in columns for m in c.macs})
    return ", ".join(f"b{i} = {words[i]}" for i in used)


def _sum(j: int) -> str:
    """The C name of an output's sum."""
    return f"acc{j}" if j >= 0 else "before"


def _border(acc: str, taps: int, rows: Rows) -> list[Mac]:
    """The first taps of a window times padding."""
    found = []
    for tap in range(taps):
        word = next(i for i, pair in enumerate(rows.pairs) if tap in pair)
        found.append(Mac(acc, "f2c_smlabb" if rows.pairs[word][0] == tap else "f2c_smlabt", word))
    return found


def _lane(j: int, channel: str) -> Lane:
    at = "last" if j < 0 else ("0", "Y_SW")[j] if j < 2 else f"{j} * Y_SW"
    return Lane(_sum(j), max(j, 0), 0, channel, Store(_sum(j), channel, at))
