"""Pooling for Arm's DSP extension: four channels of a pixel in a word, as two pairs of 16-bit sums, or as bytes."""
from __future__ import annotations

from dataclasses import replace
from math import prod

from fuse2c.ir.types import DType
from fuse2c.kernels import windowing
from fuse2c.kernels.tiling import Block, Lane, Store, Tile
from fuse2c.op import Call, Spec

GROUP = 4               # channels of a word
MOST = 128              # elements of a sum: 255 times as many fit into 16 bits


def why_not(c: Call) -> str:
    """Why channels cannot be taken by fours; empty if they can."""
    x, y = c.type(0), c.y[0]
    if not x.dtype.is_quantised or not y.dtype.is_quantised:
        return "not 8 bit"
    if x.strides[1] != 1 or y.strides[1] != 1:
        return "the channels of a pixel are not adjacent in memory"
    return "the number of channels is no multiple of four" if y.shape[1] % GROUP else ""


def is_max(c: Call) -> str:
    """Nothing fused behind a maximum."""
    return why_not(c) or ("operators behind it" if c.group is not None and len(c.group.node.parts) > 1 else "")


def is_average(c: Call) -> str:
    """Windows of which sums fit."""
    return why_not(c) or ("" if prod(c.attrs.window.kernel) <= MOST else "a sum exceeds 16 bits")


def is_global(c: Call) -> str:
    """Rows whose sums fit."""
    names = windowing.constants(c, c.attrs.window)
    return why_not(c) or ("" if names["IN_W"] <= MOST else "a sum of a row exceeds 16 bits")


def average(c: Call, spec: Spec, elements: int = 1) -> Spec:
    """A spec of averages with the sums of four channels as lanes, from which so many zero points are taken off at once."""
    base = spec.flags["store"]
    at = "" if spec.over_input else "at + "
    lanes = tuple(Lane(f"acc{i}", 0, i, base.channel, Store(f"acc{i}", base.channel, f"{at}c + {i}" if i else f"{at}c"))
                  for i in range(GROUP))
    signed = "s" if c.type(0).dtype == DType.I8 else "u"
    flags = {k: v for k, v in spec.flags.items() if k != "store"}
    return replace(spec, constants={**spec.constants, "ZERO": elements * c.quant(0).zero[0]}, flags={
        **flags, "tile": {"fours": Tile(range(1), ((Block(0, 1, 1), lanes),))}, "add": f"f2c_{signed}xtab16"})


def maximum(c: Call, spec: Spec) -> Spec:
    """A spec of maxima of four channels."""
    least = spec.flags["least"]
    byte = int(least) & 0xFF
    word = byte * 0x01010101
    return replace(spec, constants={**spec.constants, "LEAST": word - (word >> 31 << 32)}, flags={
        **{k: v for k, v in spec.flags.items() if k != "store"},
        "larger": f"f2c_max_{'s' if c.type(0).dtype == DType.I8 else 'u'}8"})
