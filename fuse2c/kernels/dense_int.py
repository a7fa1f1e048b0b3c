"""Specs of the integer kernels of matrix products for Arm's DSP extension, Helium, and cores that multiply words only."""
from __future__ import annotations

from collections.abc import Callable

from fuse2c.kernels import dsp, dsp_dense, dsp_widen, fields, mve, tiling
from fuse2c.kernels.dense import dense, dense_when, pixels
from fuse2c.op import Call, Spec


def dsp_when(c: Call) -> str:
    """A dense layer of integers whose weights fit into bytes."""
    return dense_when(c) or dsp.why_not(dense(c)[0] if c.quantised else None)


def dsp_spec(tile: int) -> Callable[[Call], Spec]:
    """The spec of a pointwise convolution over M pixels of K channels, in tiles of at most `tile`; 0: without scratch."""
    def spec(c: Call) -> Spec:
        flat, bias, _ = dense(c)
        end = dsp.finish(c, tiling.requant(c, c.quant(1), flat, c.constant(2)))
        depth, columns = flat.shape[1], flat.shape[0]
        rows = c.type(0).count // depth
        x, to = c.type(0), (1, columns)
        tables, words, flags = dsp.flags(x, flat, bias, dsp_widen.Widened(depth), dsp.runs(rows, tile), to, end) if tile \
            else dsp_dense.dense_flags(x, flat, bias, end)
        effort = dsp.effort(flags, 1) if tile else {}
        names = pixels(rows, depth, columns) | flags.pop("own")
        return Spec(constants=names, tables=tables, finish=end.scalar, channel=end.channel, effort=effort,
                    scratch=4 * words, flags=flags | {"rowwise": True, "body": dsp.IN_PLACE})
    return spec


def fields_spec(pixels_of_tile: int, core: fields.Core) -> Callable[[Call], Spec]:
    """The same for cores that multiply words only; 0: pixels one by one."""
    def spec(c: Call) -> Spec:
        flat, bias, finish = dense(c)
        depth, columns = flat.shape[1], flat.shape[0]
        rows, x, words = c.type(0).count // depth, c.type(0), 0
        if pixels_of_tile:
            found = dsp.runs(rows, pixels_of_tile)
            tables, words, flags = fields.flags(x, flat, fields.Together(depth), found, (1, columns), core)
        else:
            tables, flags = fields.alone_flags(x, flat, 1, core)
        return Spec(constants=pixels(rows, depth, columns), tables=tables | {"b": bias}, finish=finish, scratch=4 * words,
                    flags=flags | {"rowwise": True})
    return spec


def is_alone(c: Call) -> str:
    """One row of integers."""
    if why := dsp_when(c):
        return why
    depth = c.type(0).shape[-1]
    return fields.alone(c.type(0).count // depth, depth)


def single(c: Call) -> str:
    """One row, for few outputs, or so long that its words would be more than what they save."""
    if why := dsp_when(c):
        return why
    depth = c.type(0).shape[-1]
    if c.type(0).count > depth:
        return "several rows share what is widened"
    return "" if depth > dsp.LONG or not dsp.many(c.y[0].count) else "a short row for many outputs"


def mve_when(c: Call) -> str:
    """A dense layer of int8 with rows that fill a vector."""
    if why := dense_when(c) or mve.why_not(c.type(0), dense(c)[0] if c.quantised else None):
        return why
    return "" if c.type(0).shape[-1] >= mve.LANES else "a row does not fill a vector"


def mve_spec(c: Call) -> Spec:
    """A pointwise convolution over M pixels of K channels."""
    flat, bias, finish = dense(c)
    depth, columns = flat.shape[1], flat.shape[0]
    rows = c.type(0).count // depth
    tables, flags = mve.flags(flat, bias, True, rows, (1, columns))
    names = pixels(rows, depth, columns) | {"PAIRED": rows // 2 * 2}
    return Spec(constants=names, tables=tables, finish=finish, by_rows=True, flags=flags | {"rowwise": True},
                effort=mve.effort(columns, depth, rows, 1, 0))
