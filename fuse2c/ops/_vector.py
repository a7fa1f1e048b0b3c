"""Kernels for a host with vectors of floats: blocks of neighbouring outputs (lanes) by tiles of pixels.

How wide a vector is, the C compiler knows; here, lanes come in blocks that all widths divide. The weights of a block are
[depth][lanes], and what is missing of a block's outputs is zero. See runtime_c/f2c_wide.h.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuse2c.ops._dsp import Run, runs
from fuse2c.ops._tile import Store, index

NEEDS = frozenset({"vectors"})
PIXELS = 8              # of a tile, at most
BLOCKS = (64, 32, 16, 8)    # lanes of a block: the last for vectors of eight


@dataclass(frozen=True, slots=True)
class Block:
    """Outputs first .. end - 1, `lanes` at a time, of which `outs` count; their weights begin at `at` of the table."""

    first: int
    end: int
    lanes: int
    outs: int
    at: int

    @property
    def vector(self) -> str:
        """The C type of its vectors, which begins the names of its functions."""
        return "f2c_eight" if self.lanes == 8 else "f2c_wide"

    @property
    def width(self) -> str:
        """C text: lanes of a vector."""
        return "8" if self.lanes == 8 else "F2C_WIDTH"


@dataclass(frozen=True, slots=True)
class Tile:
    """A run of tiles of one size, for one block: a function of the kernel."""

    run: Run
    block: Block

    @property
    def name(self) -> str:
        """What makes its name."""
        return f"{self.run.size}x{self.block.outs}"


def blocks(outputs: int, depth: int) -> tuple[Block, ...]:
    """The fewest, largest blocks: all of a size, then smaller ones for the rest."""
    found: list[Block] = []
    first = at = 0
    for lanes in BLOCKS:
        count = (outputs - first) // lanes
        smaller = [n for n in BLOCKS if n < lanes]
        rest = outputs - first - count * lanes
        if count:
            found.append(Block(first, first + count * lanes, lanes, lanes, at))
            first, at = first + count * lanes, at + count * lanes * depth
        if rest and (not smaller or rest > smaller[0]):     # no smaller block holds it
            found.append(Block(first, outputs, lanes, rest, at))
            break
    return tuple(found)


def pack(w: np.ndarray, found: tuple[Block, ...]) -> np.ndarray:
    """[outputs, depth] -> block after block, [depth][lanes] each."""
    parts = [lanes_of(w[first:first + b.outs], b).T for b in found for first in range(b.first, b.end, b.outs)]
    return np.concatenate([p.reshape(-1) for p in parts])


def lanes_of(values: np.ndarray, b: Block) -> np.ndarray:
    """The rows of a block, those that are missing zero."""
    return np.pad(values, [(0, b.lanes - len(values))] + [(0, 0)] * (values.ndim - 1))


def spread(values: np.ndarray, found: tuple[Block, ...]) -> np.ndarray:
    """[outputs] -> the same with zeros for the lanes that are missing."""
    return np.concatenate([lanes_of(values[first:first + b.outs], b) for b in found
                           for first in range(b.first, b.end, b.outs)])


def matrix(flat: np.ndarray, bias: np.ndarray, width: int,
           channel: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(tables, values for the template) of weights [outputs, depth], for rows of so many pixels.

    channel: distance of neighbouring outputs of y, in elements.
    """
    found = blocks(*flat.shape)
    return {"w": pack(flat, found), "b": spread(bias, found)}, {
        "tiles_by_blocks": tuple(Tile(run, block) for block in found for run in runs(width, PIXELS)),
        "store": Store("sums[(p * LANES) + o]", "first + o", index("at", "first + o", channel))}


def dense(flat: np.ndarray, bias: np.ndarray,
          rows: int) -> tuple[dict[str, np.ndarray], dict[str, int], dict[str, Any]]:
    """(tables, constants, values for the template) of a dense layer: a pointwise convolution over a row of pixels."""
    tables, flags = matrix(flat, bias, rows, 1)
    depth = flat.shape[1]
    own = {"STEP": depth, "SEGMENTS": 1, "SEGMENT": 0, "SPAN": depth, "K_H": 1, "DIL_H": 1, "PAD_TOP": 0, "IN_H": 1}
    return tables, own, flags | {"direct": True}
