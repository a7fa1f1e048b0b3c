"""Helium's floats for weights that were pruned in blocks: units of a few elements, each a factor of vectors of four outputs."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuse2c.kernels import blocks, reals, tiling
from fuse2c.kernels.blocks import Units
from fuse2c.kernels.dsp import Run
from fuse2c.kernels.mve import Tile
from fuse2c.kernels.reals import LANES, Vectors

SHAPES = ((16, 4), (16, 2), (8, 4), (8, 2), (4, 4), (4, 2))
MOST = 6                # vectors of sums


@dataclass(frozen=True, slots=True)
class Listed(Vectors):
    """A block of outputs with its units: C lines of one, the fewest and most of a group."""

    lines: tuple[str, ...] = ()
    least: int = 0
    most: int = 0


def choice(w: np.ndarray, pixels: int) -> Units:
    """The units with the fewest instructions of a tile of so many pixels; w: outputs in whole vectors."""
    def instructions(found: Units) -> float:
        vectors, elements = found.form.outputs // LANES, found.form.elements
        unit = 4 + pixels * (1 + elements // 2) + elements * vectors * (1 + pixels)
        return found.count * unit + (8 + 4 * pixels * vectors) * len(found.starts)
    fit = tuple(s for s in SHAPES if s[0] // LANES * pixels <= MOST)
    return min((blocks.units(w, f) for f in blocks.forms(fit, w, False)), key=instructions)


def parts(w: np.ndarray, bias: np.ndarray, runs: tuple[Run, ...], rows: int, y: tuple[int, int]) -> dict[str, Any]:
    """What a spec has of this core; y: distances of neighbouring channels and pixels of the result."""
    rest = -len(w) % LANES
    whole = np.pad(w, ((0, rest), (0, 0)))
    found = choice(whole, runs[0].size)
    packed = [np.moveaxis(found.weights(whole, first, end, starts), 0, -1).reshape(-1) for first, end, starts in found.starts]
    listed, tiles = dict[str, tuple[Listed, ...]](), dict[str, tuple[Tile, ...]]()
    for run in runs:
        made = []
        for b in _blocks(len(w), found.form.outputs):
            counts = [len(s) for first, _, s in found.starts if b.first <= first < b.end]
            v = Vectors(b.first, b.end, b.size, f"{run.key}_{b.first}")
            sums = tuple(reals.Sum(f"acc{p}{q}", p, q) for p in run.pixels for q in v.vectors)
            tiles[v.key] = tuple(reals.finished(s, v, y) for s in sums)
            made.append(Listed(b.first, b.end, b.size, v.key, sums, _lines(run, v, sums, found), min(counts), max(counts)))
        listed[run.key] = tuple(made)
    return {"effort": blocks.effort(found, runs, rows, 1), "held": found.held,
            "tables": {"w": np.concatenate(packed), "b": np.pad(bias, (0, rest)), "at": found.table()},
            "flags": {"core": "parts/reals_blocks.c.j2", "blocks": listed, "tiles": tiles, "runs": runs}}


def _blocks(outputs: int, size: int) -> tuple[tiling.Block, ...]:
    """The groups as `blocks.units` has them, of outputs padded to whole vectors; the last vector, if not full, apart."""
    padded = outputs + -outputs % LANES
    found = list(tiling.blocks(padded, size))
    if padded == outputs:
        return tuple(found)
    last = found.pop()
    if last.end - last.first > last.size:
        found.append(tiling.Block(last.first, last.end - last.size, last.size))
    start = last.end - last.size
    return (*found, tiling.Block(start, outputs, outputs - start))


def _lines(run: Run, block: Vectors, sums: tuple[reals.Sum, ...], found: Units) -> tuple[str, ...]:
    """A unit's elements, by twos, times the vectors of a group."""
    at = "s[0]" if found.step == 1 else f"{found.step} * s[0]"
    lines = [f"const float *x{p} = &p{p}[{at}];" for p in run.pixels]
    for _ in range(found.form.elements // 2):
        lines += ["{", *(f"    const f2c_two a{p} = f2c_factors_next(&x{p});" for p in run.pixels)]
        for half in ("a", "b"):
            lines += ["    {", *(f"        const f2c_reals v{v} = f2c_reals_next(&w);" for v in block.vectors)]
            lines += [f"        {s.acc} = f2c_reals_add_times({s.acc}, v{s.vector}, a{s.pixel}.{half});" for s in sums]
            lines.append("    }")
        lines.append("}")
    return (*lines, "++s;")
