"""The matrix core for Arm's Helium (MVE): tiles of two pixels by four outputs, or one by eight, 16 products an instruction.

The elements of a pixel are read as they lie in memory; see runtime_c/f2c_dots.h. Weights are in groups of four outputs,
[outputs / 4][steps][4][16]. Four sums are finished at once where the operators behind them have such a form.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import dsp
from fuse2c.kernels.tiling import Block, Store, index
from fuse2c.op import Call

NEEDS = frozenset({"mve"})
LANES, GROUP = 16, 4        # elements of a step; outputs of a group


@dataclass(frozen=True, slots=True)
class Quad:
    """Four sums of neighbouring outputs: the C name of what they become, their value, their channel and index in y."""

    name: str
    value: str
    channel: str
    at: str


@dataclass(frozen=True, slots=True)
class Tile:
    """A block of outputs of one or two pixels: the call that sums their products up, and what becomes of the sums.

    Of floats: one vector of sums, which `spill` stores where its lanes are finished one by one.
    """

    block: Block
    dots: str
    lanes: tuple[Store, ...]
    quads: tuple[Quad, ...]         # the same sums; none: they are no neighbours in memory, or fewer than four
    spill: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()     # the statements that finish and store them, filled in by the code generator


def why_not(x: TensorType, w: np.ndarray | None) -> str:
    """Why this core cannot take an input and weights (as `dsp.why_not` has them); empty if it can."""
    if why := dsp.why_not(w):
        return why
    return "" if x.dtype == DType.I8 else "the input is not int8"


def channels_when(c: Call) -> str:
    """Whether int8 channels of a pixel are neighbours in memory, before and behind a call."""
    x, y = c.type(0), c.y[0]
    if x.dtype != DType.I8 or y.dtype != DType.I8:
        return "not int8"
    return "" if x.strides[1] == y.strides[1] == 1 else "the channels of a pixel are not adjacent in memory"


def pack(w: np.ndarray, overlap: int) -> np.ndarray:
    """[outputs, depth] int8 in the order of the tiles; the first step has weights only for what the second one does not."""
    outputs = w.shape[0]
    first = LANES - overlap
    spread = np.concatenate([w[:, :first], np.zeros((outputs, overlap), w.dtype), w[:, first:]], axis=1)
    steps = -(-spread.shape[1] // LANES)
    whole = np.pad(spread, ((0, -outputs % GROUP), (0, steps * LANES - spread.shape[1])))
    return whole.reshape(-1, GROUP, steps, LANES).transpose(0, 2, 1, 3).reshape(-1)


def flags(w: np.ndarray, bias: np.ndarray, direct: bool, width: int,
          y: tuple[int, int]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(tables, values for the templates) of the core.

    w: [outputs, depth] centred int8; direct: pixels are read in place, nothing behind their last element; width: pixels
    of a row; y: distances of neighbouring channels and pixels of the result, in elements.
    """
    outputs, depth = w.shape
    overlap = -depth % LANES if direct else 0
    packed = pack(w, overlap)
    steps = -(-depth // LANES)
    tail = f"{LANES - overlap}, {steps}, s)"
    two = f"f2c_dots_2x4(a, b, &w, {tail}"
    one = f"(a, &w, {tail}"
    whole, rest = outputs // GROUP * GROUP, outputs % GROUP
    wide = outputs // (2 * GROUP) * 2 * GROUP
    blocks = {"two": [(Block(0, whole, GROUP), two), (Block(whole, outputs, rest), two)],
              "one": [(Block(0, wide, 2 * GROUP), f"f2c_dots_1x8{one}"), (Block(wide, whole, GROUP), f"f2c_dots_1x4{one}"),
                      (Block(whole, outputs, rest), f"f2c_dots_1x4{one}")]}
    tiles = {key: tuple(tile(b, f"{dots};", y, key == "two") for b, dots in found if b.end > b.first)
             for key, found in blocks.items() if (width > 1 if key == "two" else width % 2)}
    tiles = {"one": (), "two": ()} | tiles
    return {"w": packed, "b": bias}, {"tiles": tiles, "depth": LANES * steps, "products": "GROUP_OUT * DEPTH"}


def effort(outputs: int, depth: int, width: int, rows: int, lines: int, more: int = 0) -> dict[str, int]:
    """What the core does for an image: tiles, their vectors of 16 elements, vectors gathered, groups of results finished.

    width, rows: of the result; lines: runs of a window that are gathered, 0 where pixels are read in place; more: lines that
    are filled before that, as they see padding.
    """
    fours, odd = -(-outputs // GROUP), width % 2
    tiles = rows * (width // 2 * fours + odd * (outputs // (2 * GROUP) + -(-(outputs % (2 * GROUP)) // GROUP)))
    gathered = rows * width * lines * -(-(depth // max(lines, 1)) // LANES)
    return {"tile": tiles, "multiply": tiles * -(-depth // LANES), "load": gathered, "unpack": rows * width * fours,
            "line": rows * width * lines + more}


def tile(block: Block, dots: str, y: tuple[int, int], two: bool) -> Tile:
    """The sums of a block: s[0..3] of the first pixel or group, s[4..7] of the second one."""
    def channel(o: int) -> str:
        return f"oc + {o}" if o else "oc"
    lanes, quads = [], []
    for second in (0, GROUP) if two or block.size > GROUP else (0,):
        base = f"at + {y[1]}" if two and second else "at"
        outs = [o + (0 if two else second) for o in range(min(block.size, GROUP))]
        for i, o in enumerate(outs, second):
            oc = channel(o)
            lanes.append(Store(f"s[{i}] + {{b}}[{oc}]", oc, index(base, oc, y[0])))
        if len(outs) == GROUP and y[0] == 1:
            sums = ", ".join(f"s[{second + i}]" for i in range(GROUP))
            oc = channel(outs[0])
            value = f"f2c_words_add(f2c_words_of({sums}), f2c_words_at(&{{b}}[{oc}]))"
            quads.append(Quad(f"v{second}", value, oc, index(base, oc, 1)))
    return Tile(block, dots, tuple(lanes), tuple(quads))
