"""Helium's matrix core for weights that were pruned in blocks: four outputs and the units of four elements that they read.

Elements under a window are gathered first, so that units are words in memory, wherever a pixel lies. What is listed, and the
sums, see runtime_c/f2c_units.h.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from fuse2c.kernels import mve
from fuse2c.kernels.mve import GROUP, LANES
from fuse2c.kernels.tiling import Block

UNIT = 4                    # neighbouring elements
FOUR = LANES // UNIT        # units of a step
DEEPEST = 256 * UNIT        # elements under a window: where a unit begins is a byte


def packed(w: np.ndarray) -> tuple[np.ndarray, int]:
    """(stream, steps in it) of [outputs, depth] int8; unused units of a group's last step have no weights."""
    whole = np.pad(w, ((0, -w.shape[0] % GROUP), (0, -w.shape[1] % UNIT)))
    stream, total = list[np.ndarray](), 0
    for group in whole.reshape(-1, GROUP, whole.shape[1] // UNIT, UNIT):
        there = np.flatnonzero((group != 0).any(axis=(0, 2)))
        steps = max(-(-len(there) // FOUR), 1)
        rest = steps * FOUR - len(there)
        held = np.pad(group[:, there], ((0, 0), (0, rest), (0, 0))).reshape(GROUP, steps, LANES)
        starts = np.pad(there, (0, rest)).astype(np.uint8).view(np.int8).reshape(steps, FOUR)
        body = np.concatenate([starts, held.transpose(1, 0, 2).reshape(steps, -1)], axis=1)
        stream += [np.asarray([steps], np.int8), body.reshape(-1)]
        total += steps
    return np.concatenate(stream), total


def parts(w: np.ndarray, bias: np.ndarray, width: int, rows: int, lines: int, y: tuple[int, int]) -> dict[str, Any]:
    """What a spec has of this core: tables, flags, scratch, effort, and weights held for a pixel.

    width, rows: of the result; lines: rows of a window; y: distances of neighbouring channels and pixels of the result.
    """
    outputs, depth = w.shape
    stream, steps = packed(w)
    whole = outputs // GROUP * GROUP
    blocks = [b for b in (Block(0, whole, GROUP), Block(whole, outputs, outputs - whole)) if b.end > b.first]
    calls = {"two": "f2c_units_2x4(a, b, &w, s);", "one": "f2c_units_1x4(a, &w, s);"}
    there = {"two": width > 1, "one": width % 2 > 0}
    tiles = {key: tuple(mve.tile(b, dots, y, key == "two") for b in blocks if there[key]) for key, dots in calls.items()}
    patch, pixels = depth + -depth % UNIT, rows * width
    gathered = lines * (1 + -(-(depth // lines) // LANES))      # lines begun, and vectors
    effort = {"load": pixels * gathered, "tile": rows * -(-width // 2) * steps, "multiply": pixels * steps,
              "unpack": pixels * -(-outputs // GROUP)}
    return {"tables": {"w": stream, "b": bias}, "scratch": 2 * patch, "held": steps * GROUP * LANES, "effort": effort,
            "constants": {"GROUP_OUT": outputs, "DEPTH": depth, "PATCH": patch, "PAIRED": width // 2 * 2},
            "flags": {"tiles": tiles, "products": "HELD"}}
