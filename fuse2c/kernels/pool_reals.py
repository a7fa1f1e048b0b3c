"""For Helium: maxima of float32, and averages as float32 sums, four channels at a time, in the scalar kernel's order."""
from __future__ import annotations

from dataclasses import replace

from fuse2c.ir.types import DType
from fuse2c.kernels import reals
from fuse2c.kernels.scalars import literal
from fuse2c.kernels.stored import SUFFIX
from fuse2c.kernels.tiling import Block, Lane, Store, Tile
from fuse2c.op import Call, Spec

NEEDS = reals.NEEDS
LEAST = 1e-30       # of a scale: smaller products may be denormal, which Helium takes for zero


def why_not(c: Call) -> str:
    """Why channels cannot be taken by fours; empty if they can."""
    x, y = c.type(0), c.y[0]
    if x.dtype != DType.F32 and not (c.quantised and c.quant(0).scale[0] > LEAST):
        return "neither float32 nor stored at a moderate scale"
    if x.strides[1] != 1 or y.strides[1] != 1:
        return "the channels of a pixel are not adjacent in memory"
    return "the number of channels is no multiple of four" if y.shape[1] % reals.LANES else ""


def is_max(c: Call) -> str:
    """float32, nothing fused behind it."""
    if c.type(0).dtype != DType.F32:
        return "not float32"
    return why_not(c) or ("operators behind it" if c.group is not None and len(c.group.node.parts) > 1 else "")


def average(c: Call, spec: Spec) -> Spec:
    """A spec of such averages with four channels of a pixel as a vector of terms, and their sums as lanes."""
    base, at = spec.flags["store"], "" if spec.over_input else "at + "
    lanes = tuple(Lane(f"sums[{i}]", 0, i, base.channel, Store(f"sums[{i}]", base.channel, f"{at}c + {i}" if i else f"{at}c"))
                  for i in range(reals.LANES))
    opening, closing = "f2c_reals_at(", ")"
    if c.quantised:
        zero, scale = literal(-c.quant(0).zero[0], DType.I32), literal(c.quant(0).scale[0], DType.F32)
        opening = f"f2c_reals_mul(f2c_reals_from(f2c_words_add(f2c_words_from_{SUFFIX[c.type(0).dtype]}("
        closing = f"), f2c_words_same({zero}))), f2c_reals_same({scale}))"
    flags = {key: value for key, value in spec.flags.items() if key != "store"}
    return replace(spec, flags={**flags, "tile": {"fours": Tile(range(1), ((Block(0, 1, 1), lanes),))},
                                "term_open": opening, "term_close": closing, "scratch_ctype": "float"})
