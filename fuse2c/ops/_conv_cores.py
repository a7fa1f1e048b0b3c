"""A convolution's kernels for what a core has beyond plain C: Helium, Arm's DSP extension, an FPU, products of words."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from fuse2c.ir.types import DType
from fuse2c.ops import _dsp, _dsp_depthwise, _fields, _mve, _mve_depthwise, _tile, _window
from fuse2c.ops._conv import (
    base_spec,
    block_size,
    is_depthwise,
    is_dsp,
    is_pointwise,
    is_tiled,
    matrix,
    requant,
)
from fuse2c.ops.base import Call, Kernel, Spec


def is_fp(c: Call) -> str:
    """One group of float32."""
    if why := is_tiled(c):
        return why
    return "" if c.type(0).dtype == "float32" and c.attrs.group == 1 else "grouped, or not float32"


def fp_spec(c: Call) -> Spec:
    """Tiles of four pixels by four outputs: sixteen sums and what they are made of fill the registers of an FPU."""
    flat, bias = matrix(c)
    x, y, found = c.type(0), c.y[0], _dsp.runs(_window.plane(c.y[0].shape[2:], 1)[1])
    parts = _tile.blocks(y.shape[1], block_size(c))
    tiles = {r.key: _tile.lanes(r.size, parts, "{oc}", y.strides[1]) for r in found}
    names = {"GROUP_OUT": y.shape[1], "DEPTH": flat.shape[1], "FILL": 0}
    scratch = 0 if is_pointwise(c) == "" else found[0].size * flat.shape[1] * x.dtype.bytes
    return base_spec(c, scratch, {"w": _tile.pack(flat, block_size(c)), "b": bias}, names, runs=found, tile=tiles)


def is_depthwise_dsp(c: Call) -> str:
    """Windows of adjacent columns, as many outputs as channels; weights that fit into bytes."""
    if why := is_tiled(c) or is_depthwise(c):
        return why
    w = c.attrs.window
    if len(w.kernel) < 2 or w.kernel[1] < 2 or w.dilations[1] > 1 or c.type(1).shape[0] != c.attrs.group:
        return "a window of one column, dilated, or several outputs a channel"
    weights = c.constant(1)
    return _dsp.why_not(_tile.centred(weights, c.quant(1), 0) if c.quantised and weights is not None else None)


def depthwise_rows_spec(single: bool, sizes: tuple[int, ...] = _dsp_depthwise.SIZES) -> Callable[[Call], Spec]:
    """The spec of a kernel that computes tiles of a row, of one of these sizes; see `_dsp_depthwise.Rows` for `single`."""
    def spec(c: Call) -> Spec:
        names = _window.constants(c, c.attrs.window)
        rows = _dsp_depthwise.Rows(names["K_W"], names["STRIDE_W"], names["X_SW"] == 1, _dsp.widening(c.type(0)), single)
        return depthwise_spec(c, names, rows, sizes)
    return spec


def depthwise_spec(c: Call, names: dict[str, int], rows: _dsp_depthwise.Rows, sizes: tuple[int, ...]) -> Spec:
    """Rows of the window that are padding are in the accumulator's start."""
    flat, bias = matrix(c)
    zero, end = c.quant(0).zero[0], _dsp.finish(c, requant(c, flat, c.constant(2)))
    height, taps = names["K_H"], names["K_W"]
    found, tiles = _dsp_depthwise.spans(names, rows, zero, end.channel, sizes)
    unrolled = height <= _dsp_depthwise.UNROLLED
    table = _dsp_depthwise.pack(flat.reshape(-1, height, taps), rows, bias, end.multipliers)
    inside = _window.inside(c.attrs.window, c.type(0).shape[2:], 0, positions=names["OUT_H"])
    padding = _dsp_depthwise.padding(rows)
    forms = _dsp_depthwise.forms(height, not inside.all())
    flags = {"spans": found, "tile": tiles, "taps": _dsp_depthwise.taps(rows, padding), "single": end.single,
             "streamed": end.multipliers is not None, "forms": forms, "padded": not (unrolled and inside.all()),
             "closed": "}" if len(forms) > 1 else "",
             "padding": padding, "rows_done": "K_H" if unrolled else "(ky_end - ky_first)"}
    own = {"BLOCK": 1 + height * rows.words + (end.multipliers is not None), "FILLS": rows.fill(zero)}
    effort = _dsp_depthwise.effort(found, len(rows.pairs), height * names["OUT_H"], int(inside.sum()))
    spec = replace(base_spec(c, 0, {"w": table}, own, **flags), finish=end.scalar, channel=end.channel,
                   effort={key: n * names["OUT_C"] for key, n in effort.items()})
    rows_inside = c.type(0).shape[0] * int(inside.sum())
    return spec if unrolled else replace(spec, macs=rows_inside * taps * names["OUT_W"] * names["OUT_C"])


def is_depthwise_mve(c: Call) -> str:
    """int8, as many outputs as channels, nothing but clamps behind it."""
    if why := is_tiled(c) or is_depthwise(c):
        return why
    x, w = c.type(0), c.constant(1)
    if c.type(1).shape[0] != c.attrs.group:
        return "several outputs a channel"
    if why := _mve.why_not(x, _tile.centred(w, c.quant(1), 0) if c.quantised and w is not None else None):
        return why
    finish = base_spec(c, 0, {}, {}).finish
    if c.y[0].dtype != DType.I8 or finish is None or not finish.words:
        return "its elements cannot be finished four at a time"
    return "" if _mve.only_clamps(c) else "operators behind it that are no clamps"


def depthwise_mve_spec(c: Call) -> Spec:
    """16 channels at a time, or all channels of several pixels."""
    flat, bias = matrix(c)
    x, y, zero = c.type(0), c.y[0], c.quant(0).zero[0]
    names = _window.constants(c, c.attrs.window)
    inside = [np.any(_window.inside(c.attrs.window, x.shape[2:], i), axis=0, keepdims=True)[0] for i in range(len(y.shape) - 2)]
    weights, cropped = _mve_depthwise.crop(flat.reshape(-1, names["K_H"], names["K_W"]), names, inside)
    bias = bias + zero * (flat.sum(axis=1, dtype=np.int32) - weights.sum(axis=(1, 2), dtype=np.int32))
    tables, own, flags = _mve_depthwise.flags(weights, names | cropped)
    tables["b"] = _mve_depthwise.ordered(bias, own["PIXELS"])
    spec = base_spec(c, flags.pop("scratch"), tables, own | cropped | {"FILL": zero}, **flags)
    assert spec.finish is not None
    return replace(spec, finish=_mve_depthwise.finish(spec.finish, own["PIXELS"]),
                   macs=y.count * cropped["K_H"] * cropped["K_W"])


def is_mve(c: Call) -> str:
    """One group of int8."""
    w = c.constant(1)
    return is_dsp(c) or _mve.why_not(c.type(0), None if w is None else _tile.centred(w, c.quant(1), 0))


def is_pointwise_mve(c: Call) -> str:
    """Pixels that fill a vector are read in place."""
    if why := is_pointwise(c) or is_mve(c):
        return why
    return "" if c.type(0).shape[1] >= _mve.LANES else "a pixel does not fill a vector"


def adjacent(c: Call, names: dict[str, int]) -> bool:
    """Whether the elements under a row of the window are adjacent in memory."""
    channels = c.type(0).shape[1]
    return names["DIL_W"] == 1 and (channels == 1 or names["X_SC"] == 1) and (names["K_W"] == 1 or names["X_SW"] == channels)


def mve_spec(c: Call, direct: bool) -> Spec:
    """Pixels are read in place, or the elements under a window are gathered."""
    flat, bias = matrix(c)
    y, names = c.y[0], _window.constants(c, c.attrs.window)
    tables, flags = _mve.flags(flat, bias, direct, names["OUT_W"], (names["Y_SC"], names["Y_SW"]))
    own = {"GROUP_OUT": y.shape[1], "DEPTH": flat.shape[1], "FILL": c.quant(0).zero[0], "PATCH": flags["depth"],
           "SPAN": flat.shape[1] // names["K_H"], "PAIRED": names["OUT_W"] // 2 * 2}
    return base_spec(c, 0 if direct else 2 * flags["depth"], tables, own, adjacent=adjacent(c, names), **flags)


def dsp_spec(pixels: int) -> Callable[[Call], Spec]:
    """The spec of a kernel with tiles of at most `pixels` pixels; what they read is in strips: as it lies, or gathered."""
    def spec(c: Call) -> Spec:
        flat, bias = matrix(c)
        x, y = c.type(0), c.y[0]
        names = _window.constants(c, c.attrs.window)
        seg = _dsp.Segments(x.shape[1], names["K_W"], names["STRIDE_W"], names["DIL_W"])
        found = _dsp.runs(names["OUT_W"], pixels)
        end = _dsp.finish(c, requant(c, flat, c.constant(2)))
        tables, words, flags = _dsp.flags(x, flat, bias, seg, found, (names["Y_SC"], names["Y_SW"]), end)
        own, edge = strips(c, names, seg.loose, words, flags["strips"][found[0].key])
        own = {"GROUP_OUT": y.shape[1], "DEPTH": flat.shape[1]} | own
        return replace(base_spec(c, 4 * words + edge, tables, own, **flags), finish=end.scalar, channel=end.channel)
    return spec


def fields_spec(pixels: int, core: _fields.Core) -> Callable[[Call], Spec]:
    """The same for cores that multiply words only."""
    def spec(c: Call) -> Spec:
        flat, bias = matrix(c)
        x, y = c.type(0), c.y[0]
        names = _window.constants(c, c.attrs.window)
        seg = _fields.Segments(x.shape[1], names["K_W"], names["STRIDE_W"], names["DIL_W"])
        found = _dsp.runs(names["OUT_W"], pixels)
        tables, words, flags = _fields.flags(x, flat, seg, found, (names["Y_SC"], names["Y_SW"]), core)
        own, edge = strips(c, names, seg.loose, words, flags["strips"][found[0].key])
        own = {"GROUP_OUT": y.shape[1], "DEPTH": flat.shape[1]} | own
        return base_spec(c, 4 * words + edge, tables | {"b": bias}, own, **flags)
    return spec


def alone_spec(core: _fields.Core) -> Callable[[Call], Spec]:
    """The spec of a kernel that reads pixels in place, one by one."""
    def spec(c: Call) -> Spec:
        flat, bias = matrix(c)
        tables, flags = _fields.alone_flags(c.type(0), flat, c.y[0].strides[1], core)
        return base_spec(c, 0, tables | {"b": bias}, {"GROUP_OUT": flat.shape[0], "DEPTH": flat.shape[1]}, **flags)
    return spec


def is_alone(c: Call) -> str:
    """A pointwise convolution of one pixel a row."""
    if why := is_pointwise_dsp(c):
        return why
    return _fields.alone(_window.plane(c.y[0].shape[2:], 1)[1], c.type(0).shape[1])


def strips(c: Call, names: dict[str, int], loose: bool, words: int,
           widest: _dsp.Strip | _fields.Strip) -> tuple[dict[str, int], int]:
    """(constants, bytes) of gathering what a tile reads of a row behind so many words of scratch."""
    x = c.type(0)
    in_line = not loose and (x.shape[1] == 1 or names["X_SC"] == 1) and names["X_SW"] in (0, x.shape[1])
    own = {"FILL": c.quant(0).zero[0], "ADJACENT": int(in_line), "GROUP_STEP": names["STRIDE_W"],
           "COLUMN_STEP": names["DIL_W"] if loose else 1, "EDGE": words}
    return own, 0 if is_pointwise(c) == "" else widest.groups * widest.width * x.shape[1]


def is_pointwise_dsp(c: Call) -> str:
    """A pointwise convolution of integers."""
    return is_dsp(c) or is_pointwise(c)


_by_strides = partial(Kernel, strided=True)
DEPTHWISE = (
    _by_strides("depthwise_mve", depthwise_mve_spec, when=is_depthwise_mve, needs=_mve.NEEDS),
    _by_strides("depthwise_dsp", depthwise_rows_spec(single=False), when=is_depthwise_dsp, needs=_dsp.NEEDS, planar=True),
    *(_by_strides("depthwise_rows", depthwise_rows_spec(True, core.sizes), when=is_depthwise_dsp, needs=core.needs)
      for core in _fields.CORES),
)
MATRIX = (
    _by_strides("pointwise_mve", partial(mve_spec, direct=True), when=is_pointwise_mve, needs=_mve.NEEDS),
    _by_strides("conv_mve", partial(mve_spec, direct=False), when=is_mve, needs=_mve.NEEDS),
    *(_by_strides("pointwise_dsp", dsp_spec(n), when=is_pointwise_dsp, needs=_dsp.NEEDS) for n in _dsp.TILES),
    *(_by_strides("conv_dsp", dsp_spec(n), when=is_dsp, needs=_dsp.NEEDS) for n in _dsp.TILES),
    *(_by_strides("dense_fields", alone_spec(core), when=is_alone, needs=core.needs) for core in _fields.CORES),
    *(_by_strides("pointwise_fields", fields_spec(n, core), when=is_pointwise_dsp, needs=core.needs)
      for core in _fields.CORES for n in _fields.TILES),
    *(_by_strides("conv_fields", fields_spec(n, core), when=is_dsp, needs=core.needs)
      for core in _fields.CORES for n in _fields.TILES),
    _by_strides("pointwise_fp", fp_spec, when=lambda c: is_fp(c) or is_pointwise(c), needs=frozenset({"fpu-sp"})),
    _by_strides("conv_fp", fp_spec, when=is_fp, needs=frozenset({"fpu-sp"})),
)
