"""Convolutions on a host with vectors, see vector.py: their conditions and specs."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuse2c.ir.types import DType
from fuse2c.kernels import dsp, tiling, vector, windowing
from fuse2c.kernels.conv import base_spec, is_depthwise, is_tiled, matrix, unpadded
from fuse2c.kernels.conv_fp import is_fp
from fuse2c.kernels.conv_int import is_dsp
from fuse2c.kernels.tiling import Store, index
from fuse2c.op import Call, Spec


def direct(names: dict[str, int]) -> bool:
    """Whether windows are read where they lie: none is cut off on the left or right, channels are neighbours."""
    wide = strip(names)
    return names["PAD_LEFT"] == 0 and wide <= names["IN_W"] and names["IN_C"] * names["X_SC"] == names["IN_C"] \
        and (names["K_W"] == 1 or names["X_SW"] == names["IN_C"])


def strip(names: dict[str, int]) -> int:
    """Columns under the windows of a row."""
    return (names["OUT_W"] - 1) * names["STRIDE_W"] + (names["K_W"] - 1) * names["DIL_W"] + 1


def spec(c: Call) -> Spec:
    """One group: tiles of a row by blocks of outputs; rows with padding are brought together first."""
    flat, bias = matrix(c)
    x, names = c.type(0), windowing.constants(c, c.attrs.window)
    floats, segments = x.dtype == DType.F32, 1 if names["DIL_W"] == 1 else names["K_W"]
    w = flat.reshape(len(flat), names["K_H"] * segments, -1)
    tables, own, flags = vector.matrix(w, bias, x.dtype, names["OUT_W"], names["Y_SC"])
    in_place = direct(names) and (floats or (w.shape[2] % own["UNIT"] == 0 and all_inside(c)))
    column = names["X_SW"] if in_place else names["IN_C"]
    wide = strip(names) * names["IN_C"]
    extent = c.attrs.window.extent(0)
    size = (extent + 1) * wide + own["UNIT"] - 1
    own |= {"GROUP_OUT": len(flat), "DEPTH": flat.shape[1], "STEP": names["STRIDE_W"] * column, "SEGMENTS": segments,
            "SEGMENT": names["DIL_W"] * column, "STRIP": wide, "STRIPS": size, "EXTENT": extent,
            "FILL": 0 if floats else c.quant(0).zero[0],
            "COLUMNS": min(names["IN_W"], strip(names) - names["PAD_LEFT"])}
    return base_spec(c, 0 if in_place else size * x.dtype.bytes, tables, own, direct=in_place, skips=floats, **flags)


def all_inside(c: Call) -> bool:
    """Whether no window has a part in the padding."""
    return all(windowing.inside(c.attrs.window, c.type(0).shape[2:], axis, positions=n).all()
               for axis, n in enumerate(c.y[0].shape[2:]))


def when(c: Call) -> str:
    """One group of float32, or of integers whose weights fit into bytes."""
    return is_fp(c) and is_dsp(c)


def is_winograd(c: Call) -> str:
    """Windows of three columns that move by one, enough channels and columns; float32."""
    if why := is_fp(c):
        return why
    w, x, y = c.attrs.window, c.type(0), c.y[0]
    if len(w.kernel) < 2 or (w.kernel[1], w.strides[1], w.dilations[1]) != (3, 1, 1):
        return "not three adjacent columns, or a step of more than one"
    small = x.shape[1] < vector.FEWEST or y.shape[1] < vector.FEWEST or y.shape[3] < vector.FEWEST // 2
    return "few channels, outputs or columns" if small else ""


def winograd(c: Call) -> Spec:
    """Two pixels from four products instead of six: Winograd's F(2, 3) along the columns."""
    flat, bias = matrix(c)
    names = windowing.constants(c, c.attrs.window)
    channels, pairs = names["IN_C"], -(-names["OUT_W"] // 2)
    g = np.moveaxis(flat.reshape(len(flat), names["K_H"], 3, channels), 2, 0).astype(np.float64)
    four = np.stack([g[0], (g[0] + g[1] + g[2]) / 2, (g[0] - g[1] + g[2]) / 2, g[2]], axis=1).astype(np.float32)
    tables, own, flags = vector.matrix(four.reshape(len(flat), 4 * names["K_H"], channels), bias, DType.F32, pairs,
                                        names["Y_SC"])
    extent, wide = c.attrs.window.extent(0), (2 * pairs + 2) * channels
    own |= {"GROUP_OUT": len(flat), "STEP": channels, "SEGMENTS": 1, "SEGMENT": 0, "STRIP": wide, "EXTENT": extent,
            "PAIRS": pairs, "PART": names["K_H"] * channels, "ZEROS": tables["b"].size,
            "COLUMNS": min(names["IN_W"], names["OUT_W"] + 2 - names["PAD_LEFT"])}
    tables["b"] = np.concatenate([tables["b"], np.zeros(vector.FLOATS.blocks[0], np.float32)])
    spec = base_spec(c, 4 * (wide + extent * 4 * pairs * channels), tables, own, mixes="columns", **flags)
    return replace(spec, macs=c.type(0).shape[0] * names["OUT_H"] * 4 * pairs * len(flat) * names["K_H"] * channels)


def is_depthwise_vec(c: Call) -> str:
    """float32, as many outputs as channels, which are neighbours in memory and fill a vector of eight."""
    if why := is_tiled(c) or is_depthwise(c):
        return why
    if c.type(0).dtype != "float32" or c.type(1).shape[0] != c.attrs.group:
        return "not float32, or several outputs a channel"
    if c.type(0).shape[1] < 8:
        return "fewer channels than a vector"
    return "" if c.type(0).strides[1] == 1 else "the channels of a pixel are not adjacent in memory"


def depthwise(c: Call) -> Spec:
    """Channel by channel of a pixel, in vectors; what is padding is left out."""
    flat, bias = matrix(c)
    names = windowing.constants(c, c.attrs.window)
    columns = windowing.inside(c.attrs.window, c.type(0).shape[2:], 1) if len(c.y[0].shape) > 3 else np.ones((1, 1), bool)
    whole = np.flatnonzero(columns.all(axis=1))
    first, end = (int(whole[0]), int(whole[-1]) + 1) if whole.size else (names["OUT_W"], names["OUT_W"])
    own = {"WHOLE_FIRST": first, "WHOLE_END": end, "COLUMNS": int(columns.sum())}
    wide = names["OUT_C"] >= 16
    spec = base_spec(c, 0, {"w": flat.T.reshape(-1), "b": bias}, own, vector="f2c_wide" if wide else "f2c_narrow",
                          width="F2C_WIDTH" if wide else "F2C_NARROW",
                          store=Store("sums[o]", "c + o", index("at", "c + o", names["Y_SC"])))
    return replace(spec, macs=unpadded(c))


def is_quads(c: Call) -> str:
    """Integers, as many outputs as channels, weights that fit into bytes; rows of pixels without gaps."""
    if why := is_tiled(c) or is_depthwise(c):
        return why
    w = c.constant(1)
    if c.type(1).shape[0] != c.attrs.group:
        return "several outputs a channel"
    names = windowing.constants(c, c.attrs.window)
    if names["X_SC"] != 1 or names["IN_W"] * names["X_SW"] != names["IN_W"] * names["IN_C"]:
        return "the channels of a pixel are not adjacent in memory, or pixels are not"
    return dsp.why_not(tiling.centred(w, c.quant(1), 0) if c.quantised and w is not None else None)


def quads(c: Call) -> Spec:
    """Four rows of a window are put side by side, so that one step multiplies them all."""
    flat, bias = matrix(c)
    x, names = c.type(0), windowing.constants(c, c.attrs.window)
    tables, own, flags = vector.columns(flat.reshape(len(flat), names["K_H"], -1), bias, x.dtype)
    wide, columns = strip(names) * names["IN_C"], min(names["IN_W"], strip(names) - names["PAD_LEFT"])
    words = own["QUADS"] * wide + vector.LANES
    own |= {"STRIP": wide, "COLUMNS": columns, "PADDING": 4 * words, "FILL": c.quant(0).zero[0]}
    spec = base_spec(c, 4 * words + columns * names["IN_C"], tables, own, **flags)
    at = index("at", "c + o", names["Y_SC"])
    return replace(spec, flags={**spec.flags, "store": Store("sums[o]", "c + o", at)})
