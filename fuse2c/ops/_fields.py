"""The matrix core for cores that multiply words only (Cortex-M3, M0+): three sums in two words, see runtime_c/f2c_fields.h.

Three pixels' elements become two words once, and each is then multiplied by the weights of all outputs: two products for
three multiply-accumulates. A sum has room for 2^20: the depth is cut into parts of which the weights allow no more. Tiles of
two pixels and of one have a word for each.

Cores whose signed loads take no constant offset ("unsigned") have weights + 128, and start at -128 times the sum of the
elements.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuse2c.ir.types import TensorType
from fuse2c.ops import _tile
from fuse2c.ops._dsp import Run
from fuse2c.ops._tile import Block, Tile
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
    unsigned: bool              # how weights are stored
    sizes: tuple[int, ...]      # outputs of a tile of a depthwise convolution, the favourite first


MLA = Core(frozenset({"mla"}), 4, False, (4, 5, 6, 3))  # multiplies and adds; 13 registers
MUL = Core(frozenset({"mul"}), 1, True, (2, 3))         # multiplies into an operand; 8 registers
CORES = (MLA, MUL)


@dataclass(frozen=True, slots=True)
class Strip:
    """What a tile's pixels read of one row of the input, and where its words and results are."""

    groups: int                     # a gathered strip: so many times ...
    width: int                      # ... so many columns of the input
    values: tuple[str, ...]         # C text of the words of an element at s
    places: tuple[str, ...]         # C declarations of where the pixels' results are
    filled: int                     # words of the elements ...
    end: int                        # ... and of those that the loops read
    starts: int                     # sums of words that are taken off

    @property
    def count(self) -> int:
        """Words of an element."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Segments:
    """The elements under a row of the window, for pixels side by side."""

    channels: int
    taps: int = 1
    stride: int = 1
    dilation: int = 1

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
        words = len(values)
        return Strip(groups, width, values, places, words * depth, words * run.depth, words * run.parts)


@dataclass(frozen=True, slots=True)
class Sums(Block):
    """Outputs in blocks: C text of the words in which their products are added up, of a step, and of what becomes of them."""

    start: str = ""
    steps: tuple[str, ...] = ()
    unpack: tuple[str, ...] = ()


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


def tile(size: int, words: int, outputs: int, core: Core, y: int) -> Tile:
    """The sums of a tile; y: distance of neighbouring channels of the result, in elements."""
    made = []
    for b, lanes in _tile.lanes(size, _tile.blocks(outputs, core.outputs), "{oc}", y).blocks:
        start, steps, unpack = [], [], []
        for o in b.outs:
            names = [f"x{i}{o}" for i in range(words)]
            start += [f"{x} = {f'start[(part * {words}) + {i}]' if core.unsigned else '0u'}" for i, x in enumerate(names)]
            steps += [f"const uint32_t w{o} = (uint32_t)w[{o}];", *(f"{x} += a{i} * w{o};" for i, x in enumerate(names))]
            sums = ", ".join(f"&acc{p}{o}" for p in range(size))
            unpack += [f"f2c_add_fields({', '.join(names)}, {sums});"] if size == LARGEST else \
                [f"acc{p}{o} += (int32_t){x};" for p, x in enumerate(names)]
        made.append((Sums(b.first, b.end, b.size, ", ".join(start), tuple(steps), tuple(unpack)), lanes))
    return Tile(range(size), tuple(made))


def flags(x: TensorType, w: np.ndarray, seg: Segments, found: tuple[Run, ...], y: tuple[int, int],
          core: Core) -> tuple[dict[str, np.ndarray], int, dict[str, Any]]:
    """(tables, words of a tile's elements, values for the templates) of the core.

    w: [outputs, depth] centred int8, depth being rows of the window, of segments; y: distances of neighbouring channels
    and pixels of the result.
    """
    run = loops(x, w)
    packed = _tile.pack(np.pad(w, ((0, 0), (0, run.depth - w.shape[1]))), core.outputs)
    strips = {r.key: seg.strip(r.size, w.shape[1], run, y[1]) for r in found}
    tiles = {r.key: tile(r.size, strips[r.key].count, w.shape[0], core, y[0]) for r in found}
    stored = (packed.astype(np.int16) + OFFSET).astype(np.uint8) if core.unsigned else packed
    return {"w": stored}, max(s.end for s in strips.values()), {
        "tile": tiles, "runs": found, "strips": strips, "loops": run, "unsigned": core.unsigned, "length": seg.length,
        "padded": run.depth > w.shape[1], "scratch_ctype": "uint32_t"}
