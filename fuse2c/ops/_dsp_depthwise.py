"""Depthwise convolution for Arm's DSP extension: neighbouring columns of a channel in one word, two taps an instruction.

Columns are paired from the first one that a tile of outputs reads. An output that starts at an even column takes taps
(0, 1), (2, 3), ...; one that starts at an odd column takes 0 alone, then (1, 2), (3, 4), ... A tap that is alone is a half
of a pair that another output needs.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fuse2c.ops import _tile
from fuse2c.ops._tile import Block, Lane, Store, Tile

SIZES = (4, 5, 6, 3)        # outputs of a tile, the favourite first
UNROLLED = 3                # rows of a window up to which all are computed in line, with zeros for those outside


@dataclass(frozen=True, slots=True)
class Mac:
    """acc += columns of a word times taps of a word, or halves of them."""

    acc: str
    function: str
    word: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Two neighbouring columns, or a last one: C name and value, and what they are multiplied with."""

    name: str
    value: str
    macs: tuple[Mac, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Output columns first .. end - 1, in tiles of `size` that have the same columns inside."""

    size: int
    first: int
    end: int
    skip: int               # columns in front of the first one inside
    columns: tuple[Columns, ...]
    lanes: tuple[Lane, ...]

    @property
    def key(self) -> str:
        """Its tile among the spec's."""
        return f"at_{self.first}"


def uses(base: int, taps: int) -> list[tuple[str, int, tuple[int, int]]]:
    """(function, word of columns, pair of taps) for an output whose first column is `base`."""
    found, j = [], 0
    while j < taps:
        column = base + j
        if column % 2:
            found.append(("f2c_smlatb", column // 2, (j, j + 1)) if j + 1 < taps else ("f2c_smlatt", column // 2, (j - 1, j)))
            j += 1
        elif j + 1 < taps:
            found.append(("f2c_smlad", column // 2, (j, j + 1)))
            j += 2
        else:
            found.append(("f2c_smlabt", column // 2, (j - 1, j)))
            j += 1
    return found


def words(taps: int, stride: int) -> list[tuple[int, int]]:
    """The pairs of taps that outputs need, in order."""
    return sorted({pair for o in range(2) for _, _, pair in uses(o * stride, taps)})


def pack(w: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    """[channels, rows, taps] int8 -> [channels, rows, words / 2] int32: bytes 0 and 2 are one pair, 1 and 3 the next."""
    wide = w.astype(np.int64)
    halves = [wide[..., a] & 0xFF | (wide[..., b] & 0xFF) << 16 for a, b in pairs]
    halves += [np.zeros_like(halves[0])] * (len(halves) % 2)
    words = np.stack([a | b << 8 for a, b in zip(halves[0::2], halves[1::2], strict=True)], axis=-1)
    return words.astype(np.uint32).view(np.int32)


def tiles(width: int) -> list[tuple[int, int]]:
    """(first output, size) of the tiles of a row."""
    size = next((n for n in SIZES if width % n == 0), SIZES[0])
    found, at = [], 0
    while at < width:
        found.append((at, min(size, width - at)))
        at += found[-1][1]
    return found


def spans(names: dict[str, int], fill: int) -> tuple[tuple[Span, ...], dict[str, Tile]]:
    """The tiles of a row, equal neighbours together, and their stores; `names` are the constants of the window."""
    stride, taps, left, width = names["STRIDE_W"], names["K_W"], names["PAD_LEFT"], names["IN_W"]
    order, found, stores = words(taps, stride), list[Span](), dict[str, Tile]()
    for first, size in tiles(names["OUT_W"]):
        count = (size - 1) * stride + taps
        inside = [0 <= first * stride - left + i < width for i in range(count)]
        skip = inside.index(True) if True in inside else 0
        columns = tuple(_columns(inside, skip, stride, taps, size, order, fill))
        if found and (found[-1].size, found[-1].columns) == (size, columns):
            found[-1] = replace(found[-1], end=first + size)
            continue
        lanes = tuple(_lane(o, names["Y_SC"], names["Y_SW"]) for o in range(size))
        found.append(Span(size, first, first + size, skip, columns, lanes))
        stores[found[-1].key] = Tile(range(size), ((Block(0, 1, 1), lanes),))
    return tuple(found), stores


def effort(found: tuple[Span, ...], words: int, rows: int, window: int, computed: int) -> dict[str, int]:
    """Of one channel. rows: of the output; window: of a window; computed: rows of windows that are computed, of all."""
    trips = [((s.end - s.first) // s.size, s) for s in found]
    padded = (rows * window - computed) * words
    return {"load": computed * sum(n * len(s.columns) for n, s in trips),
            "multiply": computed * sum(n * len(c.macs) for n, s in trips for c in s.columns) + padded,
            "tile": rows * sum(n for n, _ in trips), "unpack": rows * window * words}


def _lane(o: int, channel: int, column: int) -> Lane:
    at = f"at + {o * column}" if o else "at"
    return Lane(f"acc{o}", o, 0, "oc", Store(f"acc{o}", "oc", _tile.index(at, "oc", channel)))


def _columns(inside: list[bool], skip: int, stride: int, taps: int, size: int, order: list[tuple[int, int]],
             fill: int) -> list[Columns]:
    """Columns of a tile in pairs, each with the products that it is in."""
    def value(i: int) -> str:
        return f"px[{i - skip} * X_SW]" if inside[i] else str(fill)
    macs: dict[int, list[Mac]] = {}
    for o in range(size):
        for function, word, pair in uses(o * stride, taps):
            macs.setdefault(word, []).append(Mac(f"acc{o}", function, order.index(pair)))
    return [Columns(f"p{word}", f"f2c_pair({value(2 * word)}, {value(2 * word + 1)})" if 2 * word + 1 < len(inside)
                    else value(2 * word), tuple(macs[word])) for word in sorted(macs)]
