"""The matrix core for Arm's DSP extension: tiles of up to four pixels times two outputs, two products an instruction.

The elements of a tile's pixels are widened once to pairs of int16, [depth / 2][pixels]. A weight word serves two outputs
at two depths: the low bytes of its halfwords are the weights of the even output. Where no halfword overflows, it is
256 * odd + even ("joined"): the word itself, taken as two int16, then sums X = even + 256 * odd modulo 2^32, so that
(X - even) >> 8 is the sum of the odd output, if that is below 2^23: one instruction a word less. Where it is only without
its bias, that is added last ("apart"). Else the high byte of a halfword is the odd weight ("bytes").
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuse2c.ir.types import DType, TensorType
from fuse2c.ops import _tile
from fuse2c.ops._tile import Lane, Store, Tile
from fuse2c.quant import accumulator_bound

NEEDS = frozenset({"dsp"})
LARGEST = 4             # pixels of a tile: more accumulators than eight do not fit into the registers
MOST, LEAST = 16, 4     # steps of one trip of the inner loop


@dataclass(frozen=True, slots=True)
class Step(Lane):
    """A lane of the inner loop; `load` are the pixels that it and the lanes behind it read first."""

    load: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """Output columns first .. end - 1 of a row, in tiles of `size` pixels."""

    size: int
    first: int
    end: int

    @property
    def pixels(self) -> range:
        """The pixels of a tile."""
        return range(self.size)

    @property
    def key(self) -> str:
        """Its tile among the spec's."""
        return f"of_{self.size}"


@dataclass(frozen=True, slots=True)
class Pair:
    """The elements of a segment that one word holds; an odd one out is there twice, the second time without weight."""

    low: int
    high: int


def runs(width: int) -> tuple[Run, ...]:
    """A row as tiles of four, then of three pixels; narrow rows are one tile. No tile of one or two is left over."""
    if width < 3:
        return (Run(width, 0, width),)
    if width == 5:
        return (Run(3, 0, 3), Run(2, 3, 5))
    fours = next(n for n in range(width // LARGEST, -1, -1) if (width - LARGEST * n) % 3 == 0)
    split = fours * LARGEST
    return tuple(r for r in (Run(LARGEST, 0, split), Run(3, split, width)) if r.end > r.first)


def why_not(w: np.ndarray | None) -> str:
    """Why this core cannot take weights (None: they are no integers with scales; else centred); empty if it can."""
    if w is None:
        return "no integers with scales"
    return "" if w.dtype == np.int8 else "the weights less their zero point do not fit into 8 bits"


def pairs(length: int) -> tuple[tuple[int, int], ...]:
    """Which elements of a segment share a word: those that a widening instruction leaves side by side; -1: none."""
    whole = length // 4 * 4
    found = [p for k in range(0, whole, 4) for p in ((k, k + 2), (k + 1, k + 3))]
    return (*found, *((k, k + 1 if k + 1 < length else -1) for k in range(whole, length, 2)))


def unrolled(words: int, pixels: int) -> int:
    """Steps of one trip of the inner loop, about eight, sixteen if they are short; 0 if no such number divides them."""
    if words <= MOST // 2:
        return words
    best = MOST
    return min((n for n in range(LEAST, MOST + 1) if words % n == 0), key=lambda n: (abs(n - best), -n), default=0)


def padded(words: int) -> int:
    """Words of a stream such that the inner loop can be unrolled without a rest."""
    return next(n for n in range(words, 2 * words + 1) if unrolled(n, 1))


def packing(x: TensorType, w: np.ndarray, bias: np.ndarray) -> str:
    """"joined", "apart" or "bytes": how two weights share a halfword."""
    even, odd = _outputs(w)
    if (256 * odd.astype(np.int32) + even).min() < -2 ** 15:
        return "bytes"
    for form, start in (("joined", bias), ("apart", np.zeros_like(bias))):
        if _outputs(accumulator_bound(w, start, *x.dtype.range))[1].max() < 2 ** 23:
            return form
    return "bytes"


def _outputs(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of even and of odd outputs; a last even one is paired with zeros."""
    if len(a) % 2:
        a = np.concatenate([a, np.zeros_like(a[:1])])
    return a[0::2], a[1::2]


def pack(w: np.ndarray, bias: np.ndarray, block: int, form: str) -> np.ndarray:
    """One stream of int32: for each block of outputs the start of its accumulators, then its words, depth by depth.

    If "apart", the starts of odd outputs are those of the even ones, and their biases follow the words.

    w: [outputs, 2 * words], in the order of the tile's pairs.
    """
    parts = []
    for b in _tile.blocks(w.shape[0], block):
        for first in range(b.first, b.end, b.size):
            even, odd = (part.astype(np.int64) for part in _outputs(w[first:first + b.size]))
            start = bias[first:first + b.size].astype(np.int64)
            behind = start[1::2].copy() if form == "apart" else start[:0]
            if form != "bytes":
                start[1::2] = (256 * start[1::2] if form == "joined" else 0) + start[0:len(start) // 2 * 2:2]
            half = 256 * odd + (even & 0xFF if form == "bytes" else even)
            words = (half[:, 0::2] & 0xFFFF) | (half[:, 1::2] & 0xFFFF) << 16
            parts += [part.reshape(-1).astype(np.uint32).view(np.int32) for part in (start, words.T, behind)]
    return np.concatenate(parts)


def arranged(w: np.ndarray, segments: int) -> np.ndarray:
    """[outputs, depth] -> [outputs, 2 * words], depth being `segments` of equal length; zeros where a word has room."""
    length = w.shape[1] // segments
    order = np.asarray([k for pair in pairs(length) for k in pair])
    blank = np.zeros((w.shape[0], segments, 1), w.dtype)
    found = np.concatenate([w.reshape(w.shape[0], segments, length), blank], axis=2)[:, :, order]
    flat = found.reshape(w.shape[0], -1)
    return np.pad(flat, ((0, 0), (0, 2 * padded(flat.shape[1] // 2) - flat.shape[1])))


def tile(pixels: int, outputs: int, block: int, form: str, y: tuple[int, int]) -> Tile:
    """The accumulators of a tile; y: distance of neighbouring channels and pixels of the result, in elements."""
    made = []
    for b in _tile.blocks(outputs, block):
        row = []
        for first in range(0, pixels, 2 if pixels == LARGEST else pixels):
            group = tuple(range(first, min(first + (2 if pixels == LARGEST else pixels), pixels)))
            for p in group:
                for o in b.outs:
                    oc = f"oc + {o}" if o else "oc"
                    acc = f"acc{p}{o}"
                    value = f"f2c_upper_sum({acc}, acc{p}{o - 1})" if form != "bytes" and o % 2 else acc
                    value += f" + w[{o // 2}]" if form == "apart" and o % 2 else ""
                    at = f"at + {p * y[1]}" if p else "at"
                    row.append(Step(acc, p, o, oc, Store(value, oc, _tile.index(at, oc, y[0])),
                                    load=group if p == group[0] and o == 0 else ()))
        made.append((b, tuple(row)))
    return Tile(range(pixels), tuple(made))


def flags(x: TensorType, w: np.ndarray, bias: np.ndarray, segments: int, width: int,
          y: tuple[int, int]) -> tuple[dict[str, np.ndarray], int, dict[str, Any]]:
    """(tables, words of a tile's widened pixels, values for the templates) of the core.

    w: [outputs, depth] centred int8, depth being segments of elements that are adjacent in memory.
    """
    form, found = packing(x, w, bias), runs(width)
    block = 4 if found[0].size == 1 else 2
    stream, length = arranged(w, segments), w.shape[1] // segments
    words = stream.shape[1] // 2
    upper = "f2c_sxtb16_ror8({})" if form == "bytes" else "{}"
    halves = [text.format(f"w{i}") for i in range(2) for text in ("f2c_sxtb16({})", upper)]
    steps = unrolled(words, found[0].size)
    tiles = {r.key: tile(r.size, w.shape[0], block, form, y) for r in found}
    return {"w": pack(stream, bias, block, form)}, words * max(r.size for r in found), {
        "tile": tiles, "runs": found, "apart": form == "apart", "halves": halves,
        "words": words, "steps": steps, "trips": words // steps,
        "quads": length // 4, "rest": rest(length), "widen": widening(x), "scratch_ctype": "int32_t"}


def rest(length: int) -> Sequence[Pair]:
    """The last words of a segment, of elements that fill no group of four."""
    return [Pair(a, b if b >= 0 else a) for a, b in pairs(length)[length // 4 * 2:]]


def widening(x: TensorType) -> str:
    """The function that widens bytes 0 and 2 of a word."""
    return "f2c_sxtb16" if x.dtype == DType.I8 else "f2c_uxtb16"
