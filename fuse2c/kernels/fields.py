"""The matrix core for cores that multiply words only (Cortex-M3, M0+): three sums in two words, see runtime_c/f2c_fields.h.

Three pixels' elements become two words once, and each is then multiplied by the weights of all outputs: two products for
three multiply-accumulates. A sum has room for 2^20: the depth is cut into parts of which the weights allow no more. Tiles of
two pixels and of one have a word for each; a pixel alone is read in place.

Cores whose signed loads take no constant offset ("unsigned") have weights + 128, and start at -128 times the sum of the
elements.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuse2c.ir.types import CTYPE, TensorType
from fuse2c.kernels import tiling
from fuse2c.kernels.dsp import Run
from fuse2c.kernels.tiling import Block, Lane, Tile
from fuse2c.kernels.windowing import Segments
from fuse2c.quant import accumulator_bound

LARGEST = 3                 # pixels of a tile
TILES = (LARGEST, 1)        # the most pixels of a tile, the fastest first: smaller ones take less scratch
ROOM = 2 ** 20              # of a sum, in magnitude
STEPS = range(4, 9)         # of one trip of the inner loop
OFFSET = 128                # of unsigned weights


@dataclass(frozen=True, slots=True)
class Core:
    """A kind of core: the feature that kernels need, and what its registers and instructions are good for."""

    needs: frozenset[str]
    outputs: int                # that share loaded elements
    alone: int                  # those that share the elements of a pixel alone
    unsigned: bool              # how weights are stored
    sizes: tuple[int, ...]      # outputs of a tile of a depthwise convolution, the favourite first


MLA = Core(frozenset({"mla"}), 4, 8, False, (4, 5, 6, 3))  # multiplies and adds; 13 registers
MUL = Core(frozenset({"mul"}), 1, 4, True, (3, 2))         # multiplies into an operand; 8 registers
CORES = (MLA, MUL)


@dataclass(frozen=True, slots=True)
class Loops:
    """The depth as parts x trips x steps; what is behind it is zeros."""

    parts: int
    trips: int
    steps: int

    @property
    def long(self) -> int:
        """Elements of a part."""
        return self.trips * self.steps

    @property
    def depth(self) -> int:
        """Elements in all."""
        return self.parts * self.long

    @property
    def joined(self) -> Loops:
        """The same depth as one part."""
        return Loops(1, self.parts * self.trips, self.steps)


@dataclass(frozen=True, slots=True)
class Strip:
    """What a tile's pixels read of one row of the input, and where its words and results are."""

    groups: int                     # a gathered strip: so many times ...
    width: int                      # ... so many columns of the input
    values: tuple[str, ...]         # C text of the words of an element at s; none: they are read in place
    places: tuple[str, ...]         # C declarations of where the pixels' results are
    depth: int                      # elements
    loops: Loops
    packed: bool                    # three sums in two words
    ctype: str = "uint32_t"         # of the words

    @property
    def access(self) -> str:
        """Their type for a tile that may add zeros."""
        return self.ctype if self.values else f"const {self.ctype}"

    @property
    def count(self) -> int:
        """Words of an element."""
        return max(len(self.values), 1)

    @property
    def words(self) -> range:
        """Those words."""
        return range(self.count)

    @property
    def filled(self) -> int:
        """Words of all elements."""
        return self.count * self.depth

    @property
    def end(self) -> int:
        """Words that the loops read."""
        return self.count * self.loops.depth

    @property
    def padded(self) -> bool:
        """Whether these are more."""
        return self.end > self.filled

    @property
    def starts(self) -> int:
        """Sums of words that are taken off, of unsigned weights."""
        return self.count * self.loops.parts


@dataclass(frozen=True, slots=True)
class Together(Segments):
    """As strips of words that hold several pixels."""

    @property
    def loose(self) -> bool:
        """Whether strips have to be gathered, without the columns between taps."""
        return self.taps > 1 and self.dilation > 1

    @property
    def length(self) -> int:
        """Elements of a pixel."""
        return self.channels * self.taps

    def strip(self, pixels: int, depth: int, run: Loops, across: int) -> Strip:
        """The strip of a tile. depth: elements under a window; across: distance of neighbouring pixels of the result."""
        step = (self.taps if self.loose else self.stride) * self.channels
        at = ["s[0]", *(f"s[{p * step}]" for p in range(1, pixels))]
        values = (f"f2c_fields({at[0]}, {at[1]}, 21)", f"f2c_fields({at[2]}, {at[1]}, 10)") if pixels == LARGEST \
            else tuple(f"(uint32_t){a}" for a in at)
        groups, width = (pixels, self.taps) if self.loose else (1, (pixels - 1) * self.stride + self.taps)
        places = tuple(f"const int32_t at{p} = at0 + {p * across};" for p in range(1, pixels))
        packed = pixels == LARGEST
        return Strip(groups, width, values, places, depth, run if packed else run.joined, packed)


@dataclass(frozen=True, slots=True)
class Sum(Lane):
    """A lane with C text behind its start."""

    start: str = ""


@dataclass(frozen=True, slots=True)
class Sums(Block):
    """Outputs in blocks: C text of the words in which their products are added up, of a step, and of what becomes of them."""

    start: str = ""
    steps: tuple[str, ...] = ()
    unpack: tuple[str, ...] = ()


def loops(x: TensorType, w: np.ndarray) -> Loops:
    """The fewest parts in each of which no input makes a sum of an output exceed its room. w: [outputs, depth]."""
    depth = w.shape[1]
    for parts in range(1, depth + 1):
        longest = -(-depth // parts)
        found = Loops(parts, 1, longest) if longest < STEPS[0] else \
            min((Loops(parts, -(-longest // n), n) for n in STEPS), key=lambda f: (f.depth, f.trips))
        wide = np.pad(w, ((0, 0), (0, found.depth - depth))).reshape(-1, found.long)
        if accumulator_bound(wide, np.zeros(len(wide), np.int64), *x.dtype.range).max() < ROOM:
            return found
    raise AssertionError("a single product has room")


def tile(size: int, strip: Strip, blocks: tuple[Block, ...], unsigned: bool, y: int) -> Tile:
    """The sums of a tile; y: distance of neighbouring channels of the result, in elements."""
    made = []
    for b, lanes in tiling.lanes(size, blocks, "{oc}", y).blocks:
        steps, start, unpack = [], [], []
        for o in b.outs:
            names = [f"x{i}{o}" if strip.packed else f"acc{i}{o}" for i in strip.words]
            start += [f"{x} = {f'start[(part * {strip.count}) + {i}]' if unsigned else '0u'}" for i, x in enumerate(names)]
            steps += [f"const uint32_t w{o} = (uint32_t)w[{o}];", *(f"{x} += a{i} * w{o};" for i, x in enumerate(names))]
            unpack += [f"f2c_add_fields({', '.join(names)}, {', '.join(f'&acc{p}{o}' for p in range(size))});"]
        if not strip.packed:
            lanes = tuple(Sum(n.acc, n.pixel, n.out, n.channel, replace(n.store, value=f"(int32_t){n.acc}"),
                              start=f" + start[{n.pixel}]" if unsigned else "") for n in lanes)
        made.append((Sums(b.first, b.end, b.size, ", ".join(start), tuple(steps), tuple(unpack)), lanes))
    return Tile(range(size), tuple(made))


def stored(w: np.ndarray, depth: int, block: int, core: Core) -> np.ndarray:
    """Weights [outputs, depth] as the tiles read them, zeros behind up to a depth."""
    packed = tiling.pack(np.pad(w, ((0, 0), (0, depth - w.shape[1]))), block)
    return (packed.astype(np.int16) + OFFSET).astype(np.uint8) if core.unsigned else packed


def flags(x: TensorType, w: np.ndarray, seg: Together, found: tuple[Run, ...], y: tuple[int, int],
          core: Core) -> tuple[dict[str, np.ndarray], int, dict[str, Any]]:
    """(tables, words of a tile's elements, values for the templates) of the core.

    w: [outputs, depth] centred int8, depth being rows of the window, of segments; y: distances of neighbouring channels
    and pixels of the result.
    """
    run, blocks = loops(x, w), tiling.blocks(w.shape[0], core.outputs)
    strips = {r.key: seg.strip(r.size, w.shape[1], run, y[1]) for r in found}
    tiles = {r.key: tile(r.size, strips[r.key], blocks, core.unsigned, y[0]) for r in found}
    return {"w": stored(w, run.depth, core.outputs, core)}, max(s.end for s in strips.values()), {
        "tile": tiles, "runs": found, "strips": strips, "unsigned": core.unsigned, "length": seg.length,
        "calls": (tiling.Pass(),), "scratch_ctype": "uint32_t"}


def divisor(depth: int) -> int:
    """Steps of one trip over elements that are read in place, without a rest; 0: there are none."""
    return next((n for n in reversed(STEPS) if depth % n == 0), 0)


def alone(pixels: int, depth: int) -> str:
    """Why pixels are not read in place; empty if they are."""
    if pixels > 1:
        return "pixels share what is widened"
    return "" if divisor(depth) else "a pixel's elements are no multiple of 4 to 8"


def alone_flags(x: TensorType, w: np.ndarray, y: int, core: Core) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(tables, values for the templates) of pixels one by one, which are read in place; y: distance of channels."""
    depth = w.shape[1]
    strip = Strip(1, 1, (), (), depth, Loops(1, depth // divisor(depth), divisor(depth)), False, CTYPE[x.dtype])
    made = tile(1, strip, tiling.blocks(w.shape[0], core.alone), core.unsigned, y)
    return {"w": stored(w, depth, core.alone, core)}, {
        "tile": {"of_1": made}, "runs": (Run(1, 0, 1),), "strips": {"of_1": strip}, "unsigned": core.unsigned}
