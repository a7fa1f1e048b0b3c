"""The matrix core for Arm's DSP extension: tiles of up to four pixels times two outputs, two products an instruction.

The elements of a tile's pixels are widened once to pairs of int16, [depth / 2][pixels]. A weight word serves two outputs
at two depths: the low bytes of its halfwords are the weights of the even output. Where no halfword overflows, it is
256 * odd + even ("joined"): the word itself, taken as two int16, then sums X = even + 256 * odd modulo 2^32, so that
(X - even) >> 8 is the sum of the odd output, if that is below 2^23: one instruction a word less. Where it is only without
its bias, that is added last ("apart"). Else the high byte of a halfword is the odd weight ("bytes").
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuse2c.ir.types import DType, TensorType
from fuse2c.ops import _tile
from fuse2c.ops._tile import Block, Lane, Store, Tile
from fuse2c.ops.base import Call, Scalar
from fuse2c.quant import Requant, accumulator_bound

NEEDS = frozenset({"dsp"})
LARGEST = 4             # pixels of a tile: more accumulators than eight do not fit into the registers
TILES = (LARGEST, 2, 1)     # the most pixels of a tile, the fastest first: smaller ones take less scratch
DENSE = 8               # outputs of a tile of one pixel
LONG = 256              # elements of a row from which on a dense layer widens on the way: 1/16 slower, without scratch
FLAT = 32               # steps up to which there is no loop: its sums would change registers on every trip
MOST, LEAST = 16, 4     # steps of one trip of the inner loop


@dataclass(frozen=True, slots=True)
class Step(Lane):
    """A lane of the inner loop: what it multiplies its pixel with, and C lines in front, of what is first used here."""

    weight: str = ""
    before: tuple[str, ...] = ()


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
class Move:
    """A word of widened elements, and where it goes."""

    slot: int
    value: str


@dataclass(frozen=True, slots=True)
class Column:
    """Four elements to widen, `at` elements into a strip, and what can be stored once they are there."""

    index: int
    at: int
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
class Segments:
    """The elements under a row of the window, for pixels side by side."""

    channels: int
    taps: int = 1
    stride: int = 1
    dilation: int = 1

    @property
    def shared(self) -> bool:
        """Whether columns are widened one by one, for all windows that they are in, not windows as a whole."""
        return self.taps > 1 and self.channels % 4 == 0

    @property
    def loose(self) -> bool:
        """Whether strips have to be gathered, without the columns between taps."""
        return self.dilation > 1 and not self.shared

    @property
    def length(self) -> int:
        """Elements of one unit: a column if they are shared, else all under a row of the window."""
        return self.channels if self.shared else self.channels * self.taps

    def strip(self, pixels: int) -> Strip:
        """The strip of a tile."""
        taps = self.taps if self.shared else 1
        step, near = (self.stride, self.dilation) if self.shared else (self.taps if self.loose else self.stride, 1)
        used = sorted({p * step + tap * near for p in range(pixels) for tap in range(taps)})
        moves: dict[int, list[Move]] = {c: [] for c in used}
        for tap in range(taps):
            for first in range(0, pixels, 2):
                pair = range(first, min(first + 2, pixels))
                moves[pair[-1] * step + tap * near] += [
                    Move((2 * tap + half) * pixels + p, f"{name}{p * step + tap * near}")
                    for half, name in enumerate(("low", "high")) for p in pair]
        columns = tuple(Column(c, c * self.channels, tuple(moves[c])) for c in used)
        whole = self.length // 4 * 4
        rest = [] if self.shared else [(a - whole, (b if b >= 0 else a) - whole) for a, b in pairs(self.length)[whole // 2:]]
        at = [p * step * self.channels for p in range(pixels)]
        last = tuple(Move(n * pixels + p, f"f2c_pair(s[{at[p] + a}], s[{at[p] + b}])")
                     for n, (a, b) in enumerate(rest) for p in range(pixels))
        span = (pixels - 1) * self.stride + (self.taps - 1) * self.dilation + 1
        groups, width = (pixels, self.taps) if self.loose else (1, span)
        return Strip(groups, width, columns, 2 * taps * pixels, last, len(last))


@dataclass(frozen=True, slots=True)
class Behind(Block):
    """Outputs in blocks; so many words follow the products of each."""

    behind: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """How sums become elements: what the finishing function says, and what it calls its index or multiplier."""

    scalar: Scalar
    channel: str = "oc"
    multipliers: np.ndarray | None = None       # one for each output, that follow its block's words; else they are in a table
    single: bool = False                        # one for all

    def value(self, o: int, oc: str, before: int) -> str:
        """C text of that index or multiplier for output `o` of a block, behind `before` words."""
        return f"w[{before + o}]" if self.multipliers is not None else "mult" if self.single else oc


def finish(c: Call, r: Requant, bits: int = 0) -> Finish:
    """Multipliers are in the stream of weights, unless there is one only, or the function needs the channel for more.

    bits: sums are 2**bits as large as the requantisation has them.
    """
    if r.mode == "float" or not _bare(c):
        return Finish(_tile.finish(r, bits=bits))
    scalar = _tile.finish(r, mult="mult", bits=bits)
    if len(r.scale) == 1:
        return Finish(replace(scalar, tables={"mult": r.multipliers}), "mult", single=True)
    return Finish(scalar, "mult", r.multipliers)


def _bare(c: Call) -> bool:
    """Whether what is fused behind an operator takes no vectors of its channels."""
    if c.group is None:
        return False
    g, shape = c.group.graph, c.y[0].shape
    operands = [t for n in c.group.node.parts[1:] for t in n.inputs if t]
    return all(g.type(t).shape == shape or (g.data(t) is not None and g.type(t).count == 1) for t in operands)


def runs(width: int, largest: int = LARGEST) -> tuple[Run, ...]:
    """A row as the fewest tiles of at most `largest` pixels: none is smaller by more than one than another."""
    count = -(-width // largest)
    size, larger = divmod(width, count)
    split = larger * (size + 1)
    return tuple(r for r in (Run(size + 1, 0, split), Run(size, split, width)) if r.end > r.first)


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
    """Steps of one trip of the inner loop, about sixteen (eight of one pixel, with its many outputs); 0: none divides them."""
    best = MOST if pixels > 1 else MOST // 2
    if words <= (FLAT if pixels > 1 else best // 2):
        return words
    return min((n for n in range(LEAST, MOST + 1) if words % n == 0), key=lambda n: (abs(n - best), -n), default=0)


def padded(words: int, pixels: int) -> int:
    """Words of a stream such that the inner loop can be unrolled without a rest."""
    return next(n for n in range(words, 2 * words + 1) if unrolled(n, pixels))


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


def pack(w: np.ndarray, bias: np.ndarray, block: int, form: str, multipliers: np.ndarray | None = None) -> np.ndarray:
    """One stream of int32: for each block of outputs the start of its accumulators, its words, depth by depth, multipliers.

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
            last = start[:0] if multipliers is None else multipliers[first:first + b.size].astype(np.int64)
            parts += [part.reshape(-1).astype(np.uint32).view(np.int32) for part in (start, words.T, behind, last)]
    return np.concatenate(parts)


def arranged(w: np.ndarray, seg: Segments) -> np.ndarray:
    """[outputs, depth] -> [outputs, 2 * words], depth being rows of the window; zeros where a word has room."""
    if seg.shared:
        quads = w.reshape(w.shape[0], -1, seg.taps, seg.channels // 4, 4)
        w = np.ascontiguousarray(quads.transpose(0, 1, 3, 2, 4)).reshape(w.shape[0], -1)
    length = seg.taps * seg.channels
    order = np.asarray([k for pair in pairs(length) for k in pair])
    rows = w.reshape(w.shape[0], -1, length)
    found = np.concatenate([rows, np.zeros_like(rows[:, :, :1])], axis=2)[:, :, order]
    return found.reshape(w.shape[0], -1)


def tile(pixels: int, outputs: int, block: int, form: str, y: tuple[int, int], end: Finish,
         load: str = "a{p} = a[{p}]") -> Tile:
    """The accumulators of a tile; y: distance of neighbouring channels and pixels of the result, in elements.

    load: C text of a widened pixel; empty if the template has it.
    """
    made = []
    for plain in _tile.blocks(outputs, block):
        before = plain.odd if form == "apart" else 0
        b = Behind(plain.first, plain.end, plain.size, before + (plain.size if end.multipliers is not None else 0))
        row = []
        for words in (b.pairs[i:i + 2] for i in range(0, b.words, 2)):
            for first in range(0, pixels, 2 if pixels == LARGEST else pixels):
                group = range(pixels)[first:first + 2] if pixels == LARGEST else range(pixels)
                lines = _declared(words, b.size, form, pixels) if first == 0 else ()
                if load and words[0] == 0:
                    lines += (f"const int32_t {', '.join(load.format(p=p) for p in group)};",)
                for p in group:
                    for o in _order(words, b.size, pixels):
                        step = _step(p, o, form, pixels, y, lines)
                        channel = end.value(o, step.channel, before)
                        row.append(replace(step, store=replace(step.store, channel=channel)))
                        lines = ()
        made.append((b, tuple(row)))
    return Tile(range(pixels), tuple(made))


def _order(words: range, outputs: int, pixels: int) -> list[int]:
    """The outputs of words; of a single pixel the odd ones first, so that a word's register can then hold its even half."""
    found = [o for word in words for o in (2 * word, 2 * word + 1) if o < outputs]
    return found if pixels > 1 else [o for o in found if o % 2] + [o for o in found if o % 2 == 0]


def _half(o: int, form: str) -> str:
    """The weights of an output."""
    upper = "f2c_sxtb16_ror8(w{})" if form == "bytes" else "w{}"
    return (upper if o % 2 else "f2c_sxtb16(w{})").format(o // 2)


def _declared(words: range, outputs: int, form: str, pixels: int) -> tuple[str, ...]:
    """Words of weights, and what several pixels are multiplied with."""
    loaded = f"const int32_t {', '.join(f'w{i} = w[{i}]' for i in words)};"
    if pixels == 1:
        return (loaded,)
    return (loaded, f"const int32_t {', '.join(f'b{o} = {_half(o, form)}' for o in _order(words, outputs, pixels))};")


def _step(p: int, o: int, form: str, pixels: int, y: tuple[int, int], before: tuple[str, ...]) -> Step:
    oc, acc = f"oc + {o}" if o else "oc", f"acc{p}{o}"
    value = f"f2c_upper_sum({acc}, acc{p}{o - 1})" if form != "bytes" and o % 2 else acc
    value += f" + w[{o // 2}]" if form == "apart" and o % 2 else ""
    at = f"at + {p * y[1]}" if p else "at"
    return Step(acc, p, o, oc, Store(value, oc, _tile.index(at, oc, y[0])),
                weight=_half(o, form) if pixels == 1 else f"b{o}", before=before)


def flags(x: TensorType, w: np.ndarray, bias: np.ndarray, seg: Segments, found: tuple[Run, ...],
          y: tuple[int, int], end: Finish) -> tuple[dict[str, np.ndarray], int, dict[str, Any]]:
    """(tables, words of a tile's widened pixels, values for the templates) of the core.

    w: [outputs, depth] centred int8, depth being rows of the window, of segments.
    """
    form = packing(x, w, bias)
    block = DENSE if found[0].size == 1 else 2
    stream = arranged(w, seg)
    stream = np.pad(stream, ((0, 0), (0, 2 * padded(stream.shape[1] // 2, found[0].size) - stream.shape[1])))
    words = stream.shape[1] // 2
    steps = unrolled(words, found[0].size)
    tiles = {r.key: tile(r.size, w.shape[0], block, form, y, end) for r in found}
    strips = {r.key: seg.strip(r.size) for r in found}
    return {"w": pack(stream, bias, block, form, end.multipliers)}, words * found[0].size, {
        "tile": tiles, "runs": found, "strips": strips, "form": form, "single": end.single,
        "words": words, "steps": steps, "trips": words // steps,
        "quads": seg.length // 4, "unroll": 1 + (seg.length % 8 == 0), "widen": widening(x), "scratch_ctype": "int32_t"}


def many(outputs: int) -> bool:
    """Whether a dense layer has so many outputs that it is worth unrolling and that they share what is widened."""
    return outputs > 2 * DENSE


def dense_flags(x: TensorType, w: np.ndarray, bias: np.ndarray, y: tuple[int, int], end: Finish,
                ) -> tuple[dict[str, np.ndarray], int, dict[str, Any]]:
    """The same as `flags`, for one pixel at a time, its elements widened where they are multiplied: no scratch."""
    form, quads, outputs = packing(x, w, bias), w.shape[1] // 4, w.shape[0]
    steps = next(n for n in (4, 5, 3, 2, 1) if quads % n == 0) if many(w.shape[0]) else 1
    stream = arranged(w, Segments(w.shape[1]))
    made = tile(1, outputs, DENSE, form, y, end, load="")
    rest = [f"f2c_pair(x_row[{a}], x_row[{b if b >= 0 else a}])" for a, b in pairs(w.shape[1])[2 * quads:]]
    return {"w": pack(stream, bias, DENSE, form, end.multipliers)}, 0, {
        "tile": {"of_1": made}, "sides": (f"{widening(x)}(v)", f"{widening(x)}_ror8(v)"), "form": form, "single": end.single,
        "trips": quads // steps, "steps": steps, "rest": rest}


def widening(x: TensorType) -> str:
    """The function that widens bytes 0 and 2 of a word."""
    return "f2c_sxtb16" if x.dtype == DType.I8 else "f2c_uxtb16"
