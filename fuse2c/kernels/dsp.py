"""The matrix core for Arm's DSP extension: tiles of up to four pixels times two outputs, two products an instruction.

The elements of a tile's pixels are widened once to pairs of int16, [depth / 2][pixels]. A weight word serves two outputs
at two depths: the low bytes of its halfwords are the weights of the even output. Where no halfword overflows, it is
256 * odd + even ("joined"): the word itself, taken as two int16, then sums X = even + 256 * odd modulo 2^32, so that
(X - even) >> 8 is the sum of the odd output, if that is below 2^23: one instruction a word less. Where it is only without
its bias, that is added last ("apart"). Else the high byte of a halfword is the odd weight ("bytes").
The sums of a tile are collected by runtime_c/f2c_tile.h. Distances, depths and numbers of outputs are named constants of
the cores, so that layers of other sizes can share them (fuse2c/codegen/share.py).
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import tiling
from fuse2c.kernels.dsp_widen import Widened, arranged, times
from fuse2c.kernels.tiling import Block, Lane, Pass, Store, Tile
from fuse2c.op import EFFORT, Call, Scalar
from fuse2c.quant import Requant, accumulator_bound

NEEDS = frozenset({"dsp"})
LARGEST = 4             # pixels of a tile: more accumulators than eight do not fit into the registers
TILES = (LARGEST, 2, 1)     # the most pixels of a tile, the fastest first: smaller ones take less scratch
DENSE = 8               # outputs of a tile that widens on the way
LONG = 256              # elements of a row from which on a dense layer widens on the way: 1/10 slower, without scratch
USUAL, HALF = 8, 4      # steps of one trip of the inner loop
IN_PLACE, STRIPS = "parts/strips_pointwise.c.j2", "parts/strips.c.j2"      # bodies of the kernel: how tiles find their pixels
UPPER = 8               # bits by which the sums of odd outputs are shifted, as they are collected


@dataclass(frozen=True, slots=True)
class Step(Lane):
    """A lane of the inner loop: what it multiplies its pixel with, and C lines in front, of what is first used here."""

    weight: str = ""
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sum(Lane):
    """A lane of a tile; `advance`: by how many elements pointers to the result move on in front of it, as C text."""

    advance: str = ""


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
    def tiles(self) -> int:
        """How many tiles."""
        return (self.end - self.first) // self.size

    @property
    def key(self) -> str:
        """Its tile among the spec's."""
        return f"of_{self.size}"

    @property
    def title(self) -> str:
        """The pixels of a tile, in words."""
        return ("One pixel", "Two pixels", "Three pixels", "Four pixels")[self.size - 1]

    @property
    def sums(self) -> int:
        """Accumulators of a tile."""
        return 2 * self.size


@dataclass(frozen=True, slots=True)
class Behind(Block):
    """Outputs in blocks; so many words follow the products of each. `advance`: how far the next ones are, as C text."""

    behind: int = 0
    advance: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """How sums become elements: what the finishing function says, and what it calls its index or multiplier."""

    scalar: Scalar
    channel: str = "oc"
    multipliers: np.ndarray | None = None       # one for each output, that follow its block's words; else they are in a table
    single: bool = False                        # one for all
    upper: Scalar | None = None                 # the same for a sum times 256

    def value(self, o: int, oc: str, before: int) -> str:
        """C text of that index or multiplier for output `o` of a block, behind `before` words."""
        return f"w[{before + o}]" if self.multipliers is not None else "mult" if self.single else oc


def finish(c: Call, r: Requant, bits: int = 0) -> Finish:
    """Multipliers are in the stream of weights, unless there is one only, or the function needs the channel for more.

    bits: sums are 2**bits as large as the requantisation has them.
    """
    if r.mode == "float" or not _bare(c):
        return Finish(tiling.finish(r, bits=bits))
    fits = r.shift >= 33 and (abs(r.zero) + 1) << (r.shift + bits - 32 + UPPER) < 2 ** 30
    table = {"mult": r.multipliers} if len(r.scale) == 1 else {}
    scalar, upper = (replace(tiling.finish(r, mult="mult", bits=n), tables=table) for n in (bits, bits + UPPER))
    return Finish(scalar, "mult", None if table else r.multipliers, bool(table), upper if fits else None)


def _bare(c: Call) -> bool:
    """Whether what is fused behind an operator takes no vectors of its channels."""
    if c.group is None:
        return False
    g, shape = c.group.graph, c.y[0].shape
    operands = [t for n in c.group.node.parts[1:] for t in n.inputs if t]
    return all(g.type(t).shape == shape or (g.data(t) is not None and g.type(t).count == 1) for t in operands)


def alone(c: Call) -> bool:
    """Whether what is fused behind an operator reads no other tensors."""
    if c.group is None:
        return True
    made = {t for n in c.group.node.parts for t in n.outputs}
    return all(t in made or c.group.graph.data(t) is not None for n in c.group.node.parts[1:] for t in n.inputs if t)


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


def unrolled(words: int) -> int:
    """Steps of one trip of the inner loop: all of few, else eight or four, so that layers of all depths share two loops."""
    return words if words < USUAL else next((n for n in (USUAL, HALF) if words % n == 0), 0)


def padded(words: int) -> int:
    """Words of a stream such that the inner loop has no rest. Trips of eight steps save one word in 32 or so."""
    if words < USUAL:
        return words
    by_eight, by_four = (-(-words // n) * n for n in (USUAL, HALF))
    return by_eight if 32 * by_eight <= 33 * by_four else by_four


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
    for b in tiling.blocks(w.shape[0], block):
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


def tile(pixels: int, outputs: int, form: str, y: tuple[int, int], end: Finish) -> Tile:
    """The sums s[..] of a tile, pixels of the even output first; y: distance of neighbouring channels and pixels of the result.

    A single output is computed twice and stored once.
    """
    behind, size = (form == "apart") + 2 * (end.multipliers is not None), min(outputs, 2)
    order = [(p, o) for o in range(size) for p in range(pixels)]
    lanes = tuple(_pair_lane(p, o, pixels, form, y, end) for p, o in (order if y[0] != 1 else sorted(order)))
    return Tile(range(pixels), ((Behind(0, outputs, size, behind, "Y_SC" if y[0] != 1 else str(size)), lanes),))


def passes(outputs: int, channels: int, grouped: bool, counted: bool, series: bool) -> tuple[Pass, ...]:
    """The calls of a tile: for all pairs of outputs, and where their number is odd, once more for the last two.

    channels: distance of neighbouring ones of the result; counted: the finishing function is told the number of a channel;
    series: rows start at the tile.
    """
    made = []
    for last in range(1 + (outputs % 2 and outputs > 1)):
        stream = " + ".join(["group * STREAM"] * grouped + ["PAIRS * PAIR"] * last) or "0"
        places = [*["ox * Y_SW"] * (not series), *["group * GROUP_OUT * Y_SC"] * grouped]
        places += ["GROUP_OUT - 2" if channels == 1 else "(GROUP_OUT - 2) * Y_SC"] * last
        at = (places or ["0"])[0] if len(places) < 2 else " + ".join(f"({place})" for place in places)
        made.append(Pass(f"&{{w}}[{stream}], {1 if last else 'PAIRS'}, ",
                         f"{'GROUP_OUT - 2' if last else '0'}, {at}" if counted else at))
    return tuple(made)


def twos(outputs: int) -> np.ndarray:
    """Which outputs are computed together, two by two: of an odd number the last with the one before it, once more."""
    every = np.arange(outputs)
    return np.append(every[:-1], [max(outputs - 2, 0), outputs - 1]) if outputs % 2 else every


def _pair_lane(p: int, o: int, pixels: int, form: str, y: tuple[int, int], end: Finish) -> Sum:
    """Pixel p of the even (0) or odd (1) output. Channel by channel, pointers move on between the two."""
    by_channel = y[0] != 1
    acc = f"s[{o * pixels + p}]"
    at = str(p) if y[1] == 1 else times("Y_SW", p)
    channel = end.value(o, "oc + 1" if o else "oc", int(form == "apart"))
    upper = bool(o) and form == "joined" and end.upper is not None
    value = acc
    if o and form != "bytes":
        value = f"{'f2c_upper' if upper else 'f2c_upper_sum'}({acc}, s[{p}])"
        value += " + w[0]" if form == "apart" else ""
    if o and not by_channel:
        at = f"{at} + 1" if p else "1"
    return Sum(acc, p, o, channel, Store(value, channel, at), upper, advance="Y_SC" if o and by_channel and p == 0 else "")


def flags(x: TensorType, w: np.ndarray, bias: np.ndarray, seg: Widened, found: tuple[Run, ...],
          y: tuple[int, int], end: Finish, groups: int = 1, series: bool = False,
          ) -> tuple[dict[str, np.ndarray], int, dict[str, Any]]:
    """(tables, words of a tile's widened pixels, values for the templates) of the core; constants are in "own".

    w: [outputs, depth] centred int8, depth being rows of the window, of segments; groups of outputs have inputs of their own.
    """
    outputs = w.shape[0] // groups
    taken = np.concatenate([first + twos(outputs) for first in range(0, w.shape[0], outputs)])
    w, bias, scale = w[taken], bias[taken], None if end.multipliers is None else end.multipliers[taken]
    needed = {packing(x, *part) for part in zip(np.split(w, groups), np.split(bias, groups), strict=True)}
    form = next(f for f in ("bytes", "apart", "joined") if f in needed)
    stream = arranged(w, seg, seg.pairs)
    words = padded(stream.shape[1] // 2)
    stream = np.pad(stream, ((0, 0), (0, 2 * words - stream.shape[1])))
    packed = pack(stream, bias, 2, form, scale)
    steps = unrolled(words)
    tiles = {r.key: tile(r.size, outputs, form, y, end) for r in found}
    strips = {r.key: seg.strip(r.size) for r in found}
    uppers = any(lane.upper for t in tiles.values() for _, lanes in t.blocks for lane in lanes)
    counted = end.multipliers is None and not end.single
    calls, pairs = passes(outputs, y[0], groups > 1, counted, series), max(outputs // 2, 1)
    return {"w": packed}, words * found[0].size, {
        "tile": tiles, "runs": found, "strips": strips, "form": form, "single": end.single,
        "steps": steps, "trips": "FLAT" if steps == words != USUAL else "LOOP",
        "words": "BYTES" if form == "bytes" else "JOINED",
        "quads": seg.quads, "overlapping": seg.first > 0, "widen": widening(x), "scratch_ctype": "int32_t",
        "grouped": groups > 1, "counted": counted, "calls": calls, "fewest": 1 if len(calls) > 1 else pairs, "most": pairs,
        "own": {"WORDS": words, "QUADS": seg.quads, "FIRST": seg.first, "PAIRS": pairs,
                "PAIR": 2 + words + (form == "apart") + 2 * (end.multipliers is not None), "IN_C": seg.step,
                "STREAM": len(packed) // groups},
        **({"upper": end.upper} if uppers else {})}


def widths(flags: dict[str, Any]) -> list[tuple[range, int, int]]:
    """The columns at which tiles begin, and their strips: so many times so many columns."""
    strips = ((r, flags["strips"][r.key]) for r in flags["runs"])
    return [(range(r.first, r.end, r.size), s.groups, s.width) for r, s in strips]


def effort(flags: dict[str, Any], rows: int, lines: int = 1, groups: int = 1, gathered: int = 0) -> dict[str, int]:
    """What the core does for an image of so many rows, by its values for the templates.

    lines: strips of a tile; gathered: elements for them. Products and widening are counted in instructions.
    """
    own, found = flags["own"], dict.fromkeys(EFFORT, 0)
    pairs = own["PAIRS"] + len(flags["calls"]) - 1
    for run in flags["runs"]:
        tiles, strip = groups * rows * run.tiles, flags["strips"][run.key]
        words = tiles * pairs * own["WORDS"]
        moved = sum(3 + len(c.moves) for c in strip.columns)
        found["multiply"] += words * (3 * run.size + (flags["form"] == "bytes")) + words // 2 * (run.size == 1)
        found["tile"] += tiles * pairs
        found["unpack"] += tiles * lines * (own["QUADS"] * moved + 4 * len(strip.rest))
        found["line"] += tiles * lines
    found["load"] = gathered
    return found


def many(outputs: int) -> bool:
    """Whether a dense layer has so many outputs that it is worth unrolling and that they share what is widened."""
    return outputs > 2 * DENSE


def widening(x: TensorType) -> str:
    """The function that widens bytes 0 and 2 of a word."""
    return "f2c_sxtb16" if x.dtype == DType.I8 else "f2c_uxtb16"
