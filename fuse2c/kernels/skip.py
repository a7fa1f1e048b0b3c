"""The core that passes over zeros, for Arm's DSP extension: one pixel at a time, four outputs.

A pixel's elements that are not the zero point are listed, with their depths. Two entries are two halfwords to multiply
with: the words of their depths, which hold four outputs each as in dsp.py ("joined" or "bytes"), are turned into pairs of
depths. The zero point is taken off: the bias is the layer's own.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fuse2c.ir.types import TensorType
from fuse2c.kernels import tiling
from fuse2c.kernels.dsp import Finish
from fuse2c.kernels.tiling import Block, Lane, Store, Tile
from fuse2c.quant import accumulator_bound

BLOCK = 4       # outputs side by side
LOOK, LIST = 1, 2          # effort of an element, and of one that is listed
TRIP = 8        # listed elements of one trip of the inner loop: zeros behind the last one fill it


def own_bias(w: np.ndarray, bias: np.ndarray, zero: int) -> np.ndarray:
    """The bias without the zero point that was folded into it, int64; w: [outputs, depth]."""
    return np.asarray(bias.astype(np.int64) + zero * w.sum(axis=1, dtype=np.int64))


def why_not(x: TensorType, w: np.ndarray, bias: np.ndarray, zero: int) -> str:
    """Why elements less their zero point cannot be summed up; empty if they can."""
    low, high = x.dtype.range
    worst = int(accumulator_bound(w, own_bias(w, bias, zero), low - zero, high - zero).max())
    return f"without the zero point in the bias its sums can reach {worst}" if worst > 2 ** 31 - 1 else ""


def is_joined(x: TensorType, w: np.ndarray, bias: np.ndarray, zero: int) -> bool:
    """Whether a word of weights, as it is, sums odd outputs on top of even ones; else they are its upper bytes."""
    low, high = x.dtype.range
    bound = accumulator_bound(w, own_bias(w, bias, zero), low - zero, high - zero)
    return bool(_halves(w).min() >= -2 ** 15 and bound[1::2].max(initial=0) < 2 ** 23)


def _halves(w: np.ndarray) -> np.ndarray:
    """256 times the odd outputs' weights plus the even ones', for whole blocks, int64."""
    even_and_odd = np.pad(w.astype(np.int64), ((0, -len(w) % BLOCK), (0, 0)))
    return np.asarray(256 * even_and_odd[1::2] + even_and_odd[0::2])


def pack(w: np.ndarray, bias: np.ndarray, multipliers: np.ndarray | None, joined: bool) -> np.ndarray:
    """One stream of int32: for each block of outputs the starts of its accumulators, a word for each depth, multipliers."""
    rest = -len(w) % BLOCK
    half, start = _halves(w), np.pad(bias, (0, rest))
    if joined:
        start[1::2] = start[0::2] + 256 * start[1::2]
    else:       # without what an even output's sign takes from the upper byte
        even, odd = (np.pad(w, ((0, rest), (0, 0)))[n::2].astype(np.int64) for n in range(2))
        half = 256 * odd + (even & 0xFF)
    words = (half[0::2] & 0xFFFF) | (half[1::2] & 0xFFFF) << 16
    parts = [start.reshape(-1, BLOCK), words]
    parts += [] if multipliers is None else [np.pad(multipliers.astype(np.int64), (0, rest)).reshape(-1, BLOCK)]
    return np.concatenate(parts, axis=1).reshape(-1).astype(np.uint32).view(np.int32)


def tile(outputs: int, depth: int, stride: int, end: Finish, joined: bool) -> Tile:
    """The stores of a pixel's outputs; stride: distance of neighbouring channels of the result."""
    made = []
    for b in tiling.blocks(outputs, BLOCK):
        row: list[Lane] = []
        for o in b.outs:
            oc = f"oc + {o}" if o else "oc"
            value = f"f2c_upper_sum(acc{o}, acc{o - 1})" if joined and o % 2 else f"acc{o}"
            row.append(Lane(f"acc{o}", 0, o, oc, Store(value, end.value(o, oc, depth), tiling.index("at", oc, stride))))
        made.append((Block(b.first, b.end, b.size), tuple(row)))
    return Tile(range(1), tuple(made))


def parts(x: TensorType, w: np.ndarray, bias: np.ndarray, zero: int, pixels: int, stride: int, end: Finish) -> dict[str, Any]:
    """What a spec has of this core; w: [outputs, depth], bias with the zero point in it.

    pixels: of an image; stride: distance of neighbouring channels of the result.
    """
    outputs, depth = w.shape
    joined, behind = is_joined(x, w, bias, zero), BLOCK * (end.multipliers is not None)
    most = effort(pixels, outputs, depth, joined)
    return {
        "effort": most, "most": most,
        "tables": {"w": pack(w, own_bias(w, bias, zero), end.multipliers, joined)}, "finish": end.scalar,
        "channel": end.channel, "scratch": 12 * ((depth + TRIP) // 2),
        "flags": {"core": "parts/dsp_skip.c.j2", "tile": {"of_1": tile(outputs, depth, stride, end, joined)},
                  "single": end.single, "behind": depth + behind,
                  "odd": ["b1", "b3"] if joined else ["f2c_sxtb16_ror8(b1)", "f2c_sxtb16_ror8(b3)"],
                  "centre": f" - ({zero})" if zero else "", "depth": depth, "most": -(-depth // TRIP),
                  "padding": range(TRIP - 1),
                  "words": 3 * TRIP // 2 * -(-depth // TRIP), "scratch_ctype": "int32_t"}}


def effort(pixels: int, outputs: int, depth: int, joined: bool) -> dict[str, int]:
    """At most: elements looked at and listed; blocks of outputs begun, trips of their loops, those that take upper bytes."""
    blocks = pixels * -(-outputs // BLOCK)
    trips = blocks * -(-depth // TRIP)
    return {"load": (LOOK + LIST) * pixels * depth, "tile": blocks, "multiply": trips, "unpack": 0 if joined else trips}


def expected(most: Mapping[str, int], share: float) -> dict[str, int]:
    """The effort for such a share of zeros: they are looked at, but not listed; a block's last trip is half full on average."""
    def trips(n: int) -> int:
        return min(n, round(n * (1 - share)) + most["tile"] // 2)
    listing = most["load"] * (LOOK + LIST * (1 - share)) / (LOOK + LIST)
    return {**most, "load": round(listing), "multiply": trips(most["multiply"]), "unpack": trips(most["unpack"])}
