"""A convolution's integer kernels for cores without vectors: with Arm's DSP extension, and those that multiply words only."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fuse2c.ir.types import TensorType
from fuse2c.kernels import dsp, dsp_depthwise, dsp_groups, dsp_series, dsp_stream, dsp_widen, fields, tiling, windowing
from fuse2c.kernels.conv import (
    base_spec,
    is_depthwise,
    is_pointwise,
    is_tiled,
    matrix,
    requant,
)
from fuse2c.op import Call, Spec

BORDER = 4              # tiles that may see padding, each of them otherwise, where there are gaps between taps
LEAST = 3               # channels of a group, from which on tiles are worth it
MOST_ROWS = 64          # of a window, of all channels of its group: pointers on the stack
WORD = 4                # bytes that are copied at once


def is_depthwise_rows(c: Call) -> str:
    """Windows along a row, in few tiles that see padding; weights that fit into bytes."""
    return is_tiled(c) or is_depthwise(c) or _is_along_rows(c)


def is_few_rows(c: Call) -> str:
    """The same of groups of several channels: rows of a window are then those of all of them."""
    if why := is_tiled(c) or ("one group, or one channel each" if c.attrs.group in (1, c.type(0).shape[1]) else ""):
        return why
    if _is_worth_tiles(c) and (c.group is None or not is_grouped_dsp(c)):       # None: what is behind it is not known yet
        return "the matrix core takes it"
    many = c.type(1).shape[1] * windowing.plane(c.attrs.window.kernel, 1)[0] > MOST_ROWS
    return "windows of very many rows" if many else _is_along_rows(c)


def _is_along_rows(c: Call) -> str:
    """Why tiles of a row are no way to compute a layer; empty if they are."""
    w = c.attrs.window
    if len(w.kernel) < 2 or (w.kernel[1] == c.y[0].shape[3] == c.type(0).strides[1] == 1):
        return "one column of channels that are adjacent in memory"
    if w.dilations[1] > 1 and sum(-(-w.pads[i] // (dsp_depthwise.SIZES[0] * w.strides[1])) for i in (1, 3)) > BORDER:
        return "gaps between taps let many tiles see padding"
    if not windowing.inside(w, c.type(0).shape[2:], 1, positions=c.y[0].shape[3]).any(axis=1).all():
        return "a column of the result sees nothing but padding"
    weights = c.constant(1)
    return dsp.why_not(tiling.centred(weights, c.quant(1), 0) if c.quantised and weights is not None else None)


def is_dsp(c: Call) -> str:
    """One group of integers whose weights fit into bytes."""
    if why := is_tiled(c):
        return why
    if c.attrs.group > 1:
        return "grouped"
    w = c.constant(1)
    return dsp.why_not(tiling.centred(w, c.quant(1), 0) if c.quantised and w is not None else None)


def is_grouped_dsp(c: Call) -> str:
    """One group, or groups of which columns lie as they are read, and whose multipliers need no number of a channel."""
    group = c.attrs.group
    if group == 1:
        return is_dsp(c)
    w = c.constant(1)
    if why := is_tiled(c) or dsp.why_not(tiling.centred(w, c.quant(1), 0) if c.quantised and w is not None else None):
        return why
    if not _is_worth_tiles(c):
        return "groups of few channels"
    end = dsp.finish(c, requant(c, matrix(c)[0], c.constant(2)))
    return "" if end.single or end.multipliers is not None else "grouped, and what finishes an element needs its channel"


def _is_worth_tiles(c: Call) -> bool:
    """Whether groups have channels in fours, are read where they lie, or have enough products for some zeros."""
    per = c.type(1).shape[1]
    if per >= LEAST and (per % WORD == 0 or windowing.constants(c, c.attrs.window)["K_W"] == 1):
        return True
    return dsp_groups.pays(per, c.type(1).shape[0] // c.attrs.group, c.type(0).shape[1])


def is_pointwise_dsp(c: Call) -> str:
    """A pointwise convolution of such integers."""
    return is_dsp(c) or is_pointwise(c)


def depthwise_rows_spec(single: bool, sizes: tuple[int, ...] = dsp_depthwise.SIZES) -> Callable[[Call], Spec]:
    """The spec of a kernel that computes tiles of a row, of one of these sizes; see `dsp_depthwise.Rows` for `single`."""
    def spec(c: Call) -> Spec:
        names = windowing.constants(c, c.attrs.window)
        rows = dsp_depthwise.Rows(names["K_W"], names["STRIDE_W"], names["X_SW"] == 1, dsp.widening(c.type(0)), single,
                                  names["DIL_W"])
        return depthwise_spec(c, names, rows, sizes)
    return spec


def depthwise_spec(c: Call, names: dict[str, int], rows: dsp_depthwise.Rows, sizes: tuple[int, ...]) -> Spec:
    """Rows of the window that are padding are in the accumulator's start, or read like others from a table of zero points."""
    flat, bias = matrix(c)
    zero, end = c.quant(0).zero[0], dsp.finish(c, requant(c, flat, c.constant(2)))
    per, taps, several = c.type(1).shape[1], names["K_W"], names["OUT_C"] // c.attrs.group
    height = names["K_H"] * per
    unrolled = per == 1 and height <= dsp_depthwise.UNROLLED
    flowing = dsp_stream.stream(names, rows, end.channel) if unrolled and dsp.alone(c) else None
    found, tiles = dsp_depthwise.spans(names, rows, zero, end.channel, sizes)
    weights = np.moveaxis(flat.reshape(-1, names["K_H"], taps, per), 3, 2).reshape(-1, height, taps)
    tables = {"w": dsp_depthwise.pack(weights, rows, bias, end.multipliers)}
    inside = windowing.inside(c.attrs.window, c.type(0).shape[2:], 0, positions=names["OUT_H"])
    padding, forms = dsp_depthwise.padding(rows), dsp_depthwise.forms(unrolled, not inside.all(), rows.planar, several, per)
    masked = any(f.masked for f in forms)
    if masked:
        tables["fill"] = np.full(names["IN_W"], zero, c.type(0).dtype.numpy)
    forms = tuple(replace(f, spans=found) for f in forms)
    flags = {"tile": tiles, "body": "parts/depthwise_rows.c.j2", "taps": dsp_depthwise.taps(rows, padding), "padding": padding,
             "cores": "parts/dsp_depthwise.c.j2", "single": end.single, "streamed": end.multipliers is not None, "forms": forms,
             "masked": masked, "ranged": any(f.ranged for f in forms),
             "outside": "{fill}" if masked else "x", "rows_done": "K_H" if unrolled else "(ky_end - ky_first)",
             "under": "K_H * GROUP_C" if per > 1 else "K_H", "each": " * GROUP_C" if per > 1 else ""}
    own = {"BLOCK": 1 + height * rows.words + (end.multipliers is not None), "FILLS": rows.fill(zero),
           "MIDDLE": flowing[0].middle if flowing else dsp_depthwise.middle(found).end}
    own |= ({"MULT": several} if several > 1 else {}) | ({"GROUP_C": per} if per > 1 else {})
    if flowing is not None:
        flags |= {"cores": "parts/dsp_stream.c.j2", "stream": flowing[0], "tile": flowing[1]}
    effort = dsp_depthwise.effort(found, len(rows.pairs), height * names["OUT_H"], per * int(inside.sum()))
    spec = replace(base_spec(c, 0, tables, own, **flags), finish=end.scalar, channel=end.channel,
                   effort={key: n * names["OUT_C"] for key, n in effort.items()})
    rows_inside = c.type(0).shape[0] * per * int(inside.sum())
    return spec if unrolled else replace(spec, macs=rows_inside * taps * names["OUT_W"] * names["OUT_C"])


def dsp_spec(pixels: int) -> Callable[[Call], Spec]:
    """The spec of a kernel with tiles of at most `pixels` pixels; what they read is in strips: as it lies, or gathered."""
    def spec(c: Call) -> Spec:
        flat, bias = matrix(c)
        x, y = c.type(0), c.y[0]
        names = windowing.constants(c, c.attrs.window)
        groups, series, reach = c.attrs.group, is_series(c, names), 0
        if series:
            names = dsp_series.turned(names)
        per, depth, end = x.shape[1] // groups, flat.shape[1], dsp.finish(c, requant(c, flat, c.constant(2)))
        wide = dsp_groups.width(per, names["K_W"], x.shape[1]) if groups > 1 else per
        flat = flat if wide == per else dsp_groups.embedded(flat, groups, per, wide)
        if series:
            found, reach = dsp_series.runs(names["OUT_W"], pixels), 0 if wide % WORD else dsp_series.reach(names, pixels)
        else:
            found = dsp.runs(names["OUT_W"], pixels)
        seg = dsp_widen.Widened(wide, names["K_W"], names["STRIDE_W"], names["DIL_W"], reach, x.shape[1])
        tables, words, flags = dsp.flags(x, flat, bias, seg, found, (names["Y_SC"], names["Y_SW"]), end, groups, series)
        own, edge = strips(c, names, seg, words, flags["strips"][found[0].key])
        own |= names | {"GROUPS": groups, "GROUP_C": wide, "GROUP_OUT": y.shape[1] // groups, "DEPTH": depth,
                        "WHOLE": wide // WORD * WORD}
        there = 1 if series else windowing.rows_inside(c)
        gathered = windowing.gathered(names, there, dsp.widths(flags), bool(own["ADJACENT"])) if edge else 0
        effort = dsp.effort(flags, names["OUT_H"], names["K_H"], groups, gathered)
        own |= flags.pop("own")
        body = dsp_series.BODY if series else dsp.STRIPS if edge else dsp.IN_PLACE
        made = base_spec(c, 4 * words + edge, tables, own, body=body, gathers=edge > 0, **flags, **copied(x, wide),
                         **dsp_groups.first_texts(groups, per, wide))
        return replace(dsp_series.by_tiles(made, found) if series else made, finish=end.scalar, channel=end.channel,
                       effort=effort)
    return spec


def fields_spec(pixels: int, core: fields.Core) -> Callable[[Call], Spec]:
    """The same for cores that multiply words only."""
    def spec(c: Call) -> Spec:
        flat, bias = matrix(c)
        x, y = c.type(0), c.y[0]
        names = windowing.constants(c, c.attrs.window)
        seg = fields.Together(x.shape[1], names["K_W"], names["STRIDE_W"], names["DIL_W"])
        found = dsp.runs(names["OUT_W"], pixels)
        tables, words, flags = fields.flags(x, flat, seg, found, (names["Y_SC"], names["Y_SW"]), core)
        own, edge = strips(c, names, seg, words, flags["strips"][found[0].key])
        own = {"GROUP_C": x.shape[1], "GROUP_OUT": y.shape[1], "DEPTH": flat.shape[1]} | own
        return base_spec(c, 4 * words + edge, tables | {"b": bias}, own, grouped=False, by_words=False, **flags)
    return spec


def alone_spec(core: fields.Core) -> Callable[[Call], Spec]:
    """The spec of a kernel that reads pixels in place, one by one."""
    def spec(c: Call) -> Spec:
        flat, bias = matrix(c)
        tables, flags = fields.alone_flags(c.type(0), flat, c.y[0].strides[1], core)
        return base_spec(c, 0, tables | {"b": bias}, {"GROUP_OUT": flat.shape[0], "DEPTH": flat.shape[1]}, **flags)
    return spec


def is_alone(c: Call) -> str:
    """A pointwise convolution of one pixel a row."""
    if why := is_pointwise_dsp(c):
        return why
    return fields.alone(windowing.plane(c.y[0].shape[2:], 1)[1], c.type(0).shape[1])


def is_series(c: Call, names: dict[str, int]) -> bool:
    """A series; pixels that are read in place follow each other there."""
    return dsp_series.is_series(names) and (is_pointwise(c) != "" or names["STRIDE_H"] * c.type(0).shape[1] == names["X_SH"])


def copied(x: TensorType, channels: int) -> dict[str, Any]:
    """How the channels of a column are copied: as words, the last of which overlaps where there would be a rest."""
    return {"by_words": x.strides[1] == 1 and channels >= WORD, "overlapped": channels % WORD > 0}


def fills(x: TensorType, zero: int) -> dict[str, int]:
    """The constants of padding: an element, and a word of them."""
    return {"FILL": zero, "FILLS": int(np.full(WORD, zero).astype(x.dtype.numpy).view(np.int32)[0])}


def strips(c: Call, names: dict[str, int], seg: dsp_widen.Widened | fields.Together, words: int,
           widest: dsp_widen.Strip | fields.Strip) -> tuple[dict[str, int], int]:
    """(constants, bytes) of gathering what a tile reads of a row behind so many words of scratch."""
    x = c.type(0)
    in_line = not seg.loose and not seg.reach and (x.shape[1] == 1 or names["X_SC"] == 1) and names["X_SW"] in (0, x.shape[1])
    own = {**fills(x, c.quant(0).zero[0]),
           "ADJACENT": int(in_line), "GROUP_STEP": names["DIL_W" if seg.reach else "STRIDE_W"],
           "COLUMN_STEP": names["DIL_W"] if seg.loose else 1, "EDGE": words}
    return own, 0 if is_pointwise(c) == "" else widest.groups * widest.width * x.shape[1]
