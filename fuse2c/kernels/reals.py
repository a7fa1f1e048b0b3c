"""The matrix core for Helium's floats: tiles of up to three pixels by eight outputs, or of one pixel by sixteen.

A vector is four outputs; it is multiplied with an element of a pixel, which is in a core register. Six vectors of sums
and two of weights are all that there are. The last outputs, if they fill no vector, are computed with zeros for weights.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuse2c.kernels import dsp, fp, mve, tiling
from fuse2c.kernels.dsp import Run
from fuse2c.kernels.mve import Quad, Tile
from fuse2c.kernels.tiling import Block, Store

NEEDS = frozenset({"fpu-sp", "mve"})
LARGEST = 3                 # pixels of a tile
LANES = 4
SEVERAL, ALONE = 8, 16      # outputs of a tile of several pixels, and of one


@dataclass(frozen=True, slots=True)
class Sum:
    """A vector of sums: pixel p times vector q of a block."""

    acc: str
    pixel: int
    vector: int


@dataclass(frozen=True, slots=True)
class Vectors(Block):
    """Outputs in blocks of so many vectors; `key`: what becomes of their sums, among the spec's tiles."""

    key: str = ""
    sums: tuple[Sum, ...] = ()

    @property
    def vectors(self) -> range:
        """The vectors of a block."""
        return range(-(-self.size // LANES))


def runs(width: int) -> tuple[Run, ...]:
    """The tiles of a row."""
    return dsp.runs(width, LARGEST)


def blocks(outputs: int, size: int) -> tuple[Block, ...]:
    """Blocks of whole vectors, then one of what fills none."""
    whole = outputs // LANES * LANES
    return (*tiling.blocks(whole, size), *([Block(whole, outputs, outputs - whole)] if outputs > whole else []))


def tables(w: np.ndarray, bias: np.ndarray, found: tuple[Run, ...]) -> dict[str, np.ndarray]:
    """[outputs, depth] in the order in which the tiles read it, and the bias; zeros where a vector is not full."""
    whole = w.shape[0] // LANES * LANES
    parts = [tiling.pack(w[:whole], block_size(found))] if whole else []
    if w.shape[0] > whole:
        parts.append(np.pad(w[whole:], ((0, -w.shape[0] % LANES), (0, 0))).T.reshape(-1))
    return {"w": np.concatenate(parts), "b": np.pad(bias, (0, -w.shape[0] % LANES))}


def block_size(found: tuple[Run, ...]) -> int:
    """Outputs of a block."""
    return SEVERAL if found[0].size > 1 else ALONE


def flags(outputs: int, rows: int, depth: int, pitch: int, found: tuple[Run, ...], y: tuple[int, int]) -> dict[str, Any]:
    """Values for the templates: windows of `rows` rows of `depth` elements, of pixels `pitch` elements apart."""
    pairs, parts, tiles = depth // 2, dict[str, tuple[Vectors, ...]](), dict[str, tuple[Tile, ...]]()
    for run in found:
        made = []
        for b in blocks(outputs, block_size(found)):
            v = Vectors(b.first, b.end, b.size, f"{run.key}_{b.first}")
            sums = tuple(Sum(f"acc{p}{q}", p, q) for p in run.pixels for q in v.vectors)
            tiles[v.key] = tuple(finished(s, v, y) for s in sums)
            made.append(Vectors(b.first, b.end, b.size, v.key, sums))
        parts[run.key] = tuple(made)
    steps = next(n for n in (2, 3, 1) if pairs % n == 0)
    return {"core": "parts/reals_tile.c.j2", "runs": found, "blocks": parts, "tiles": tiles,
            "window_rows": rows, "pitch": pitch, "steps": steps, "trips": pairs // steps, "odd": depth % 2}


def finished(s: Sum, b: Block, y: tuple[int, int]) -> Tile:
    """What becomes of a vector of sums: all at once, or one by one."""
    name, first = f"s{s.pixel}{s.vector}", LANES * s.vector
    base = f"at + {s.pixel * y[1]}" if s.pixel else "at"

    def lane(value: str, o: int) -> Store:
        oc = f"oc + {first + o}" if first + o else "oc"
        return Store(value, oc, tiling.index(base, oc, y[0]))
    count = min(LANES, b.size - first)
    whole = lane(s.acc, 0)
    quads = (Quad(f"v{s.pixel}{s.vector}", whole.value, whole.channel, whole.at),) if y[0] == 1 and count == LANES else ()
    return mve.Tile(b, "", tuple(lane(f"{name}[{i}]", i) for i in range(count)), quads,
                     spill=(f"float {name}[{LANES}];", f"f2c_reals_store({name}, {s.acc});"))


def effort(flags: dict[str, Any], rows: int) -> dict[str, int]:
    """What the core does for so many rows, by its values for the templates."""
    return tiling.effort(sum(r.tiles for r in flags["runs"]), rows, flags["window_rows"], fp.depth(flags), [
        (run.tiles, b, len(b.sums), len(b.vectors) + (run.size + 1) // 2) for run in flags["runs"]
        for b in flags["blocks"][run.key]])
