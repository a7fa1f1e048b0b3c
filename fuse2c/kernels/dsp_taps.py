"""Depthwise convolution, four channels of a pixel at a time: any gaps between taps, one column, several outputs a channel.

A table says where each tap of a pixel's window is, those of the padding at zero points; all channels share it. Bytes 0 and 2
of a word of elements and of one of weights are widened, then 1 and 3: four products in ten instructions. Cores without DSP
("single") load and multiply one element at a time, as the channels behind the last whole word do everywhere.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fuse2c.kernels import dsp, dsp_widen, tiling, windowing
from fuse2c.kernels.conv import base_spec, is_depthwise, is_tiled, matrix, requant
from fuse2c.kernels.tiling import Block, Lane, Store, Tile
from fuse2c.op import Call, Spec

GROUP = 4           # channels of a word
UNROLLED = 9        # taps that are computed in line
MOST = 256          # taps of a window: their places are on the stack


@dataclass(frozen=True, slots=True)
class Channels(Block):
    """Channels first..end, `size` at a time; so many words of the stream are behind their products. Texts: a tap's products."""

    behind: int = 0
    products: tuple[str, ...] = ()


def why_not(c: Call) -> str:
    """Why a convolution cannot be computed so; empty if it can."""
    if why := is_tiled(c) or is_depthwise(c):
        return why
    if c.type(0).strides[1] != 1:
        return "the channels of a pixel are not adjacent in memory"
    if c.type(1).count // c.type(1).shape[0] > MOST:
        return "a window of very many taps"
    weights = c.constant(1)
    return dsp.why_not(tiling.centred(weights, c.quant(1), 0) if c.quantised and weights is not None else None)


def spec(single: bool) -> Callable[[Call], Spec]:
    """The spec of a kernel with one multiplication for each product, or one word for four channels."""
    def made(c: Call) -> Spec:
        flat, bias = matrix(c)
        x, zero, end = c.type(0), c.quant(0).zero[0], dsp.finish(c, requant(c, flat, c.constant(2)))
        channels, taps = x.shape[1], flat.shape[1]
        parts = tiling.blocks(channels, GROUP)
        tables = {"w": pack(flat, bias, parts, end.multipliers), "fill": np.full(channels, zero, x.dtype.numpy)}
        y_sc = windowing.constants(c, c.attrs.window)["Y_SC"]
        found = tuple(_block(b, y_sc, single or b.size < GROUP, end, dsp.widening(x)) for b in parts)
        own = {"TAPS": taps, "MULT": flat.shape[0] // channels}
        steps = max(n for n in range(1, UNROLLED + 1) if taps % n == 0)
        flags = {"tile": {"one": Tile(range(1), found)}, "single": end.single, "steps": steps,
                 "masked": False, "ranged": False, "outside": "{fill}", "under": "K_H", "each": ""}
        return replace(base_spec(c, 0, tables, own, **flags), finish=end.scalar, channel=end.channel)
    return made


def pack(w: np.ndarray, bias: np.ndarray, parts: tuple[Block, ...], multipliers: np.ndarray | None) -> np.ndarray:
    """One stream of int32: for channels by fours, and each of their outputs, starts of sums, words of taps, multipliers.

    w: [outputs, taps] int8, the outputs of a channel side by side.
    """
    channels, stream = parts[-1].end, list[np.ndarray]()
    of_output = [w.astype(np.int64) & 0xFF, bias] + ([] if multipliers is None else [multipliers])
    by_channel = [a.reshape(channels, len(w) // channels, *a.shape[1:]) for a in of_output]
    for b in parts:
        shifts = 8 * np.arange(b.size)[:, None]
        for first in range(b.first, b.end, b.size):
            for j in range(len(w) // channels):
                taps, *vectors = (a[first:first + b.size, j] for a in by_channel)
                words = (taps << shifts).sum(axis=0).astype(np.uint32).view(np.int32)
                stream += [vectors[0], words, *vectors[1:]]
    return np.concatenate(stream).astype(np.int32)


def _block(b: Block, channel_step: int, single: bool, end: dsp.Finish, widen: str) -> tuple[Channels, tuple[Lane, ...]]:
    """Channels that are computed at once, and their sums."""
    made = []
    for o in range(b.size):
        oc = f"oc + {dsp_widen.times('MULT', o)}" if o else "oc"
        channel = end.value(o, oc, 0)
        made.append(Lane(f"acc{o}", 0, o, channel, Store(f"acc{o}", channel, tiling.index("at", oc, channel_step))))
    behind = b.size if end.multipliers is not None else 0
    return Channels(b.first, b.end, b.size, behind, _products(b.size, single, widen)), tuple(made)


def _products(size: int, single: bool, widen: str) -> tuple[str, ...]:
    """Statements that add a tap's products, of elements at p and the word of weights v."""
    if single:
        return tuple(f"acc{o} = f2c_mla(p[{o}], f2c_byte(v, {o}), acc{o});" for o in range(size))
    lines = ["const int32_t u = f2c_load4(p);"]
    for first, ror in ((0, ""), (1, "_ror8")):
        lines += [f"const int32_t x{first} = {widen}{ror}(u), w{first} = f2c_sxtb16{ror}(v);",
                  f"acc{first} = f2c_smlabb(x{first}, w{first}, acc{first});",
                  f"acc{first + 2} = f2c_smlatt(x{first}, w{first}, acc{first + 2});"]
    return tuple(lines)
