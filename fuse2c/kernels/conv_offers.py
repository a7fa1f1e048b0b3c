"""Integer convolutions that are offered, not selected: passes/trade.py takes them where they pay."""
from __future__ import annotations

from dataclasses import replace

from fuse2c.kernels import dsp, skip, winograd
from fuse2c.kernels.conv import base_spec, matrix, requant
from fuse2c.kernels.conv_int import is_dsp, is_pointwise_dsp
from fuse2c.op import Call, Spec


def is_skip(c: Call) -> str:
    """Pointwise, and pairs of outputs that fit."""
    if why := is_pointwise_dsp(c):
        return why
    return skip.why_not(c.type(0), *matrix(c), c.quant(0).zero[0])


def skip_spec(c: Call) -> Spec:
    """One pixel at a time, without its zeros."""
    flat, bias = matrix(c)
    spec = base_spec(c, 0, {}, {"GROUP_OUT": flat.shape[0], "DEPTH": flat.shape[1]})
    count, end = spec.constants["OUT_H"] * spec.constants["OUT_W"], dsp.finish(c, requant(c, flat, c.constant(2)))
    return replace(spec, **skip.parts(c.type(0), flat, bias, c.quant(0).zero[0], count, spec.constants["Y_SC"], end))


def is_winograd(c: Call) -> str:
    """What the direct form takes, if it is 3x3 and four times its sums fit."""
    if why := is_dsp(c) or winograd.is_3x3(c):
        return why
    flat, bias = matrix(c)
    return winograd.why_not(c, flat, bias, requant(c, flat, c.constant(2)))


def winograd_spec(c: Call) -> Spec:
    """Two rows at once."""
    flat, bias = matrix(c)
    return winograd.spec(base_spec(c, 0, {}, {}), c, flat, bias, requant(c, flat, c.constant(2)))
