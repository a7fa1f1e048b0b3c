"""Winograd's convolutions of integers, offered, not selected: passes/trade.py takes them where they pay."""
from __future__ import annotations

from fuse2c.kernels import winograd
from fuse2c.kernels.conv import base_spec, matrix, requant
from fuse2c.kernels.conv_int import is_dsp
from fuse2c.op import Call, Spec


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
