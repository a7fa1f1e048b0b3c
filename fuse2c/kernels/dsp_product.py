"""Products of two stored matrices for Arm's DSP extension, neither of them packed before: four columns at a time.

Four columns of the right operand, less their zero point, are brought together as pairs of int16 once for all rows of the left
one, which are read in place: four elements a load, whose zero point the widening takes off. 15 instructions are 16
multiply-accumulates.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuse2c.kernels import dsp, tiling
from fuse2c.kernels.tiling import Lane, Store, Tile
from fuse2c.op import Call, Spec
from fuse2c.quant import Requant

COLUMNS = 4             # of a panel
LEAST = 4               # rows that share a panel, and elements of a row, from which on it is worth it


def why_not(c: Call, names: dict[str, int]) -> str:
    """Why a product cannot be computed so; empty if it can. names: the constants of the general kernel."""
    if not c.quantised or c.has(2):
        return "no stored values, or a bias"
    if len(c.quant(1).zero) > 1 or names["A_SK"] != 1:
        return "several zero points, or rows that do not lie in one piece"
    if names["M"] < LEAST or names["K"] < LEAST:
        return "few rows or a short sum"
    return "" if dsp.alone(c) else "what finishes an element reads other tensors"


def spec(c: Call, general: Spec, r: Requant) -> Spec:
    """From the spec of the general kernel."""
    names, zero = {**general.constants}, c.quant(0).zero[0]
    parts = []
    for block in tiling.blocks(names["N"], COLUMNS):
        parts.append((block, tuple(_lane(j, f"col + {j}" if j else "col") for j in block.outs)))
    whole = names["K"] // 4 * 4
    own = {"WHOLE": whole, "ZERO_A": zero, "ZERO_B": c.quant(1).zero[0],
           "NEGATED": int(np.asarray([-zero, -zero], np.int16).view(np.int32)[0])}
    return replace(general, constants=names | own, finish=tiling.finish(r, "col"), channel="col",
                   scratch=4 * COLUMNS * (whole // 2 + names["K"] - whole),
                   flags={"tile": {"panel": Tile(range(1), tuple(parts))}, "wtype": general.flags["wtype"],
                          "scratch_ctype": "int32_t", "widen": dsp.widening(c.type(0)).replace("xtb", "xtab")})


def _lane(j: int, channel: str) -> Lane:
    """The sum of column j of a panel."""
    return Lane(f"acc{j}", 0, j, channel, Store(f"acc{j}", channel, f"at + ({j} * Y_SN)" if j else "at"))
