"""The matrix core for Arm's FPU, float32: tiles of up to four pixels by four outputs, or of one pixel by eight.

Sixteen sums, two elements of each pixel and four weights fill the registers; elements and weights come several an
instruction. Products and sums are two instructions: VFMA takes three cycles, VMUL and VADD one each.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuse2c.kernels import dsp, tiling
from fuse2c.kernels.dsp import Run
from fuse2c.kernels.tiling import Block, Lane, Store, Tile

NEEDS = frozenset({"fpu-sp"})
QUAD, ALONE = 4, 8          # outputs of a tile of several pixels, and of one


@dataclass(frozen=True, slots=True)
class Loaded(Block):
    """Outputs in blocks, and the C statements that load a weight for each."""

    loads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Product(Lane):
    """A lane, and the C text of the weight that it multiplies."""

    weight: str = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """What a tile's windows see of one row: so many times so many columns."""

    groups: int
    width: int


def runs(width: int) -> tuple[Run, ...]:
    """The tiles of a row."""
    return dsp.runs(width)


def tables(w: np.ndarray, bias: np.ndarray, found: tuple[Run, ...]) -> dict[str, np.ndarray]:
    """[outputs, depth] in the order in which the tiles read it, and the bias."""
    return {"w": tiling.pack(w, block_size(found)), "b": bias}


def block_size(found: tuple[Run, ...]) -> int:
    """Outputs of a block."""
    return QUAD if found[0].size > 1 else ALONE


def weights(size: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(C statements that load the weights of a block, C text of each weight)."""
    loads, names = [], []
    for name in "vu"[:size // QUAD]:
        loads.append(f"const f2c_four {name} = f2c_four_next(&w);")
        names += [f"{name}.{member}" for member in "abcd"]
    if size % QUAD >= 2:
        loads.append("const f2c_two t = f2c_two_next(&w);")
        names += ["t.a", "t.b"]
    if size % 2:
        loads.append("const float s = f2c_one_next(&w);")
        names.append("s")
    return tuple(loads), tuple(names)


def tile(pixels: int, outputs: int, block: int, y: tuple[int, int]) -> Tile:
    """The sums of a tile; y: distance of neighbouring channels and pixels of the result, in elements."""
    made = []
    for b in tiling.blocks(outputs, block):
        loads, names = weights(b.size)
        row = []
        for p in range(pixels):
            for o in b.outs:
                acc, oc = f"acc{p}{o}", f"oc + {o}" if o else "oc"
                at = f"at + {p * y[1]}" if p else "at"
                row.append(Product(acc, p, o, oc, Store(acc, oc, tiling.index(at, oc, y[0])), weight=names[o]))
        made.append((Loaded(b.first, b.end, b.size, loads), tuple(row)))
    return Tile(range(pixels), tuple(made))


def flags(outputs: int, rows: int, depth: int, pitch: int, found: tuple[Run, ...], y: tuple[int, int]) -> dict[str, Any]:
    """Values for the templates: windows of `rows` rows of `depth` elements, of pixels `pitch` elements apart."""
    block, pairs = block_size(found), depth // 2
    steps = next(n for n in ((4, 2, 3, 1) if found[0].size == 1 else (2, 3, 1)) if pairs % n == 0)
    return {"core": "parts/fp_tile.c.j2", "runs": found, "tile": {r.key: tile(r.size, outputs, block, y) for r in found},
            "window_rows": rows, "pitch": pitch, "steps": steps, "trips": pairs // steps, "odd": depth % 2}


def effort(flags: dict[str, Any], rows: int) -> dict[str, int]:
    """What the core does for so many rows, by its values for the templates."""
    return tiling.effort(sum(r.tiles for r in flags["runs"]), rows, flags["window_rows"], depth(flags), [
        (run.tiles, b, run.size * b.size, len(b.loads) + (run.size + 1) // 2) for run in flags["runs"]
        for b, _ in flags["tile"][run.key].blocks])


def depth(flags: dict[str, Any]) -> int:
    """Elements that a row of a window has."""
    return int(2 * flags["trips"] * flags["steps"] + flags["odd"])
