"""Convolutions of float32 on cores with an FPU: see fp.py and fp_depthwise.py."""
from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import ModuleType

from fuse2c.ir.types import DType
from fuse2c.kernels import dsp, fp, fp_depthwise, reals, windowing
from fuse2c.kernels.conv import adjacent, base_spec, is_depthwise, is_pointwise, is_tiled, matrix, unpadded
from fuse2c.kernels.tiling import index
from fuse2c.op import Call, Kernel, Spec


def is_fp(c: Call) -> str:
    """One group of float32."""
    if why := is_tiled(c):
        return why
    return "" if c.type(0).dtype == "float32" and c.attrs.group == 1 else "grouped, or not float32"


def fp_spec(c: Call, core: ModuleType) -> Spec:
    """Rows of the windows are read in place, or brought together in a strip for each; core: _fp or reals."""
    flat, bias = matrix(c)
    x, names = c.type(0), windowing.constants(c, c.attrs.window)
    found, pixel = core.runs(names["OUT_W"]), x.shape[1] * names["K_W"]
    # What is gathered has no gaps between pixels, and one function reads both.
    dense = is_pointwise(c) == "" or names["X_SW"] in (0, x.shape[1])
    in_place = dense and adjacent(c, names)
    pitch = names["STRIDE_W"] * (names["X_SW"] if in_place else 0) or pixel
    strips = {r.key: fp.Strip(1, (r.size - 1) * names["STRIDE_W"] + names["K_W"]) if in_place
              else fp.Strip(r.size, names["K_W"]) for r in found}
    strip = max(s.groups * s.width for s in strips.values()) * x.shape[1]
    own = {"GROUP_OUT": flat.shape[0], "DEPTH": flat.shape[1], "STRIP": strip, "IN_PLACE": int(in_place),
           "COLUMN_STEP": 1 if in_place else names["DIL_W"]}
    flags = core.flags(flat.shape[0], names["K_H"], pixel, pitch, found, (names["Y_SC"], names["Y_SW"]))
    spec = base_spec(c, 0 if is_pointwise(c) == "" else names["K_H"] * strip * x.dtype.bytes,
                     core.tables(flat, bias, found), own, strips=strips, **flags)
    gathered = windowing.gathered(names, windowing.rows_inside(c), dsp.widths({**spec.flags}), bool(in_place))
    return replace(spec, effort=core.effort(flags, names["OUT_H"]) | {"unpack": 0 if is_pointwise(c) == "" else gathered})


def is_depthwise_fp(c: Call) -> str:
    """float32, as many outputs as channels, windows of a few columns; no output sees nothing but padding in its row."""
    if why := is_tiled(c) or is_depthwise(c):
        return why
    if c.type(0).dtype != DType.F32 or c.type(1).shape[0] != c.attrs.group:
        return "not float32, or several outputs a channel"
    if len(c.y[0].shape) < 4 or not 1 < c.attrs.window.kernel[1] <= fp_depthwise.WIDEST:
        return "a window of one column, or of very many"
    inside = windowing.inside(c.attrs.window, c.type(0).shape[2:], 1, positions=c.y[0].shape[3])
    return "" if inside.any(axis=1).all() else "a column of the result sees nothing but padding"


def is_depthwise_reals(c: Call) -> str:
    """The same of channels by fours, side by side in memory."""
    if why := is_depthwise_fp(c):
        return why
    x, y = c.type(0), c.y[0]
    return "" if x.shape[1] % reals.LANES == 0 and x.strides[1] == y.strides[1] == 1 else "the channels are no groups of four"


def depthwise_fp_spec(c: Call, four: bool) -> Spec:
    """Tiles of a row; rows of the window that are padding are left out, and so are columns. four: channels at a time."""
    flat, bias = matrix(c)
    names = windowing.constants(c, c.attrs.window)
    inside = windowing.inside(c.attrs.window, c.type(0).shape[2:], 1, positions=names["OUT_W"])
    found = fp_depthwise.spans(names, inside, fp_depthwise.most(names["K_W"]) if four else dsp.LARGEST)
    flags = {"core": "parts/reals_depthwise.c.j2", "tiles": fp_depthwise.fours(found, names)} if four else \
        {"core": "parts/fp_depthwise.c.j2", "tile": fp_depthwise.alone(found, names)}
    weights = fp_depthwise.vectors(flat) if four else flat.reshape(-1)
    spec = base_spec(c, 0, {"w": weights, "b": bias}, {}, spans=found, channels=names["OUT_C"], window_rows=names["K_H"],
                     window_columns=names["K_W"], element=index("from", "oc", names["X_SC"]), **flags)
    rows = int(windowing.inside(c.attrs.window, c.type(0).shape[2:], 0, positions=names["OUT_H"]).sum())
    effort = fp_depthwise.effort(found, names["OUT_H"], rows)
    groups = names["OUT_C"] // (reals.LANES if four else 1)
    return replace(spec, macs=unpadded(c), effort={key: n * groups for key, n in effort.items()})


_by_strides = partial(Kernel, strided=True)
DEPTHWISE = (
    _by_strides("depthwise_fp", partial(depthwise_fp_spec, four=True), when=is_depthwise_reals, needs=reals.NEEDS),
    _by_strides("depthwise_fp", partial(depthwise_fp_spec, four=False), when=is_depthwise_fp, needs=fp.NEEDS),
)
TILED = (
    *(_by_strides("pointwise_fp", partial(fp_spec, core=core), when=lambda c: is_fp(c) or is_pointwise(c), needs=core.NEEDS)
      for core in (reals, fp)),
    *(_by_strides("conv_fp", partial(fp_spec, core=core), when=is_fp, needs=core.NEEDS) for core in (reals, fp)),
)
