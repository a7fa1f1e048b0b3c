"""Kernels for a host with vectors of floats: blocks of neighbouring outputs (lanes) by tiles of pixels.

How wide a vector is, the C compiler knows; here, lanes come in blocks that all widths divide. The weights of a block are
[depth][lanes], and what is missing of a block's outputs is zero. See runtime_c/f2c_wide.h.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import dsp
from fuse2c.kernels.dsp import Run, runs
from fuse2c.kernels.tiling import Store, index

NEEDS = frozenset({"vectors"})
PIXELS = 8              # of a tile, at most
FEWEST = 8              # channels and outputs from which on Winograd's sums pay
LANES = 16              # of the widest vector


@dataclass(frozen=True, slots=True)
class Elements:
    """How the elements of a type are multiplied: vectors, the blocks that they fill, the function that adds products."""

    blocks: tuple[int, ...]     # lanes, the largest first; vectors of eight are used where eight are enough
    vector: str                 # C type, and the beginning of the names of functions
    add: str                    # the function that adds what one step multiplies
    unit: int = 1               # elements of an input that one lane multiplies in a step


FLOATS = Elements((64, 32, 16, 8), "f2c_wide", "f2c_wide_add")
EIGHT = Elements((8,), "f2c_narrow", "f2c_narrow_add")
OF = {DType.F32: FLOATS, DType.I8: Elements((64, 32, 16), "f2c_ints", "f2c_ints_add_s8", 4),
      DType.U8: Elements((64, 32, 16), "f2c_ints", "f2c_ints_add_u8", 4)}


@dataclass(frozen=True, slots=True)
class Block:
    """Outputs first .. end - 1, `lanes` at a time, of which `outs` count; their weights begin at `at` of the table."""

    first: int
    end: int
    lanes: int
    outs: int
    at: int
    elements: Elements

    @property
    def vector(self) -> str:
        """The C type of its vectors."""
        return self.elements.vector

    @property
    def add(self) -> str:
        """The C function of a step."""
        return self.elements.add

    @property
    def width(self) -> str:
        """C text: lanes of a vector."""
        return "F2C_NARROW" if self.elements is EIGHT else "F2C_WIDTH"


@dataclass(frozen=True, slots=True)
class Tile:
    """A run of tiles of one size, for one block: a function of the kernel."""

    run: Run
    block: Block

    @property
    def name(self) -> str:
        """What makes its name."""
        return f"{self.run.size}x{self.block.outs}"


def blocks(outputs: int, stream: int, elements: Elements) -> tuple[Block, ...]:
    """The fewest, largest blocks: all of a size, then smaller ones for the rest. stream: weights of an output."""
    found: list[Block] = []
    first = at = 0
    for lanes in elements.blocks:
        kind, count = EIGHT if lanes == 8 else elements, (outputs - first) // lanes
        if count:
            found.append(Block(first, first + count * lanes, lanes, lanes, at, kind))
            first, at = first + count * lanes, at + count * lanes * stream
    if first < outputs:
        found.append(Block(first, outputs, lanes, outputs - first, at, kind))
    return tuple(found)


def lanes_of(values: np.ndarray, b: Block) -> np.ndarray:
    """The rows of a block, those that are missing zero."""
    return np.pad(values, [(0, b.lanes - len(values))] + [(0, 0)] * (values.ndim - 1))


def spread(values: np.ndarray, found: tuple[Block, ...]) -> list[np.ndarray]:
    """[outputs, ...] -> [lanes, ...] of each block."""
    return [lanes_of(values[first:first + b.outs], b) for b in found for first in range(b.first, b.end, b.outs)]


def matrix(w: np.ndarray, bias: np.ndarray, dtype: DType, width: int,
           channel: int) -> tuple[dict[str, np.ndarray], dict[str, int], dict[str, Any]]:
    """(tables, constants, values for the template) of weights [outputs, segments, depth], for rows of so many pixels.

    The elements of a segment are neighbours in memory; the last step of one may read up to three elements behind it, which
    meet weights of zero. channel: distance of neighbouring outputs of y, in elements.
    """
    elements = OF[dtype]
    unit = elements.unit
    whole = np.pad(w, ((0, 0), (0, 0), (0, -w.shape[2] % unit)))
    steps = whole.shape[2] // unit
    stream = whole[0].size
    found = blocks(len(w), stream, elements)
    words = whole.reshape(len(w), -1, unit)
    packed = [p.transpose(1, 0, 2).reshape(-1) for p in spread(words, found)]
    if dtype == DType.I8:
        bias = lifted(bias, w)
    store = Store("sums[o]", "first + o", index("at", "first + o", channel))
    tables = {"w": np.concatenate(packed), "b": np.concatenate(spread(bias, found))}
    return tables, {"SPAN": steps, "UNIT": unit, "STREAM": stream}, {
        "tiles_by_blocks": tuple(Tile(run, b) for b in found for run in runs(width, PIXELS)), "store": store}


def columns(w: np.ndarray, bias: np.ndarray,
            dtype: DType) -> tuple[dict[str, np.ndarray], dict[str, int], dict[str, Any]]:
    """(tables, constants, values for the template) of a depthwise convolution of integers, w [channels, rows, columns]."""
    elements = OF[dtype]
    unit, height = elements.unit, w.shape[1]
    found = blocks(len(w), 1, replace(elements, blocks=(LANES,)))
    whole = np.pad(w, ((0, 0), (0, -height % unit), (0, 0)))
    taps = whole.reshape(len(w), -1, unit, w.shape[2]).transpose(0, 1, 3, 2).reshape(len(w), -1, unit)
    packed = [p.transpose(1, 0, 2).reshape(-1) for p in spread(taps, found)]
    if dtype == DType.I8:
        bias = lifted(bias, w)
    rows = [f"x_rows[{ky}][n]" if ky < height else "0" for ky in range(whole.shape[1])]
    quad = "f2c_quad_s8" if dtype == DType.I8 else "f2c_quad_u8"
    return {"w": np.concatenate(packed), "b": np.concatenate(spread(bias, found))}, {
        "QUADS": len(rows) // unit, "TAPS": taps.shape[1], "UNIT": unit}, {
        "lanes_by_blocks": found, "filled": f"{quad}(FILL, FILL, FILL, FILL)",
        "quads": [f"{quad}({', '.join(rows[i:i + unit])})" for i in range(0, len(rows), unit)]}


def lifted(bias: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The bias of int8 elements that are taken as 128 more than they are, modulo 2^32."""
    total = bias.astype(np.int64) - 128 * w.reshape(len(w), -1).sum(axis=1, dtype=np.int64)
    return total.astype(np.int32)


def dense(flat: np.ndarray, bias: np.ndarray, dtype: DType,
          rows: int) -> tuple[dict[str, np.ndarray], dict[str, int], dict[str, Any]]:
    """(tables, constants, values for the template) of a dense layer: a pointwise convolution over a row of pixels."""
    tables, own, flags = matrix(flat[:, None], bias, dtype, rows, 1)
    own |= {"STEP": flat.shape[1], "SEGMENTS": 1, "SEGMENT": 0, "K_H": 1, "DIL_H": 1, "PAD_TOP": 0, "IN_H": 1}
    return tables, own, flags | {"direct": True, "skips": True}


def why_not(x: TensorType, w: np.ndarray | None) -> str:
    """Why rows of x [..., depth] cannot be multiplied where they lie, with centred weights or floats (None)."""
    if x.dtype == DType.F32:
        return ""
    fours = x.shape[-1] % OF[DType.I8].unit == 0        # else the last step would read behind them
    return dsp.why_not(w) or ("" if fours else "rows that are not in whole fours")
