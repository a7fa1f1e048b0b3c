"""Means of windows: how many elements count, the arithmetic of stored values, its C text.

"fixed": the exact sum, requantised as that of a dense layer; where it is only to be divided by a power of two, half to even.
"float": what the Q/DQ graph's float32 sums give. Integers are taken for it where no sum can come too close to a tie.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import frexp, prod
from typing import Any

import numpy as np

from fuse2c import quant
from fuse2c.ir.types import DType
from fuse2c.kernels import tiling, windowing
from fuse2c.kernels.scalars import literal
from fuse2c.op import Call, Scalar
from fuse2c.quant import Requant

NARROW = 33         # shifts from here on are those of the upper half of a product
HALVINGS = 16       # a zero point shifted by so many bits, and a sum, are far from 2**31
MODERATE = (1e-30, 1e30)        # F2C_MODERATE of f2c_soft.h: between them scales are no subject of its fallbacks


def counts(c: Call) -> list[np.ndarray]:
    """How many elements each output averages along each axis: a product of these is the divisor."""
    size = c.type(0).shape[2:]
    return [windowing.inside(c.attrs.window, size, i, c.attrs.count_include_pad).sum(axis=1) for i in range(len(size))]


def divisors(c: Call) -> np.ndarray:
    """How many elements each output averages, [out...]."""
    return np.asarray(reduce(np.multiply.outer, counts(c)))


def same_count(c: Call) -> int:
    """The number of elements that every output averages; 0 if it varies."""
    counts = divisors(c)
    return int(counts.flat[0]) if counts.min() == counts.max() else 0


def possible_counts(c: Call) -> Sequence[int]:
    """How many elements an output may average: one number, or 1..KH*KW."""
    return [same_count(c)] if same_count(c) else range(1, prod(c.attrs.window.kernel) + 1)


def requant(c: Call, counts: Sequence[int]) -> Requant:
    """s_x / (s_y * count) for each count."""
    x, y = c.quant(0), c.y_quant
    return quant.requant(c.requant, x.scale[0], tuple(1.0 / n for n in counts), y.scale[0], y.zero[0],
                         c.y[0].dtype.range)


def halvings(c: Call, counts: Sequence[int]) -> int:
    """k, if a mean of the one count in steps of the output is exactly the sum / 2**k; else 0."""
    fraction, exponent = frexp(c.quant(0).scale[0] / c.y_quant.scale[0] / counts[0])
    k = 1 - exponent
    return k if c.requant == "fixed" and len(counts) == 1 and fraction == 0.5 and 1 <= k <= HALVINGS else 0


def finished(c: Call, counts: Sequence[int], sums: np.ndarray, n: np.ndarray | int) -> np.ndarray:
    """Stored means of sums [N, C, out...] of n elements less their zero point; counts: what n may be."""
    if k := halvings(c, counts):
        whole = (sums + ((sums >> k) & 1) + (1 << (k - 1)) - 1) >> k
        return np.clip(whole + c.y_quant.zero[0], *c.y[0].dtype.range)
    r = requant(c, counts)
    if len(r.scale) == 1:
        return np.asarray(r(sums[..., None])[..., 0])
    every = r(np.broadcast_to(sums[..., None], (*sums.shape, len(r.scale))))
    return np.asarray(np.take_along_axis(every, np.broadcast_to(n, sums.shape)[..., None] - 1, -1)[..., 0])


def finish(c: Call, counts: Sequence[int]) -> Scalar:
    """The same in C, of one sum or of four."""
    zero, (low, high) = c.y_quant.zero[0], c.y[0].dtype.range
    if k := halvings(c, counts):
        offset = (zero << k) - 1
        args = f"({{a}}, {offset + (1 << (k - 1))}, {k})"
        limited = {t.range: f"f2c_halve_{name}{args}" for t, name in ((DType.I8, "s8"), (DType.U8, "u8"))}
        four = f"f2c_words_even({{a}}, {offset}, {k})"
        return Scalar(f"f2c_halve{args}", limits=(low, high), limited=limited, words=f"f2c_words_halve{args}",
                      shifted=(four, k))
    r = requant(c, counts)
    size = max(abs(v - c.quant(0).zero[0]) for v in c.type(0).dtype.range) * max(counts)
    # Larger sums have the shift that the instructions for a product's upper half need.
    bits = max(NARROW - r.shift, 0) if r.mode == "fixed" else 0
    if not bits or size << bits >= 1 << 31:
        return tiling.finish(r, "n - 1", alike=True)
    return tiling.finish(r, "n - 1", f"{{a}} * {1 << bits}", words=f"f2c_words_times({{a}}, {1 << bits})", bits=bits,
                         alike=True)


def integer_sum(c: Call) -> str:
    """Whether sums of integers give the mean for every input; else, of "float", the sum that comes too close to a tie.

    The float32 result is within (n + 4) eps / 2 of the sum of magnitudes; where no sum of n stored values lies that
    close to a tie, and the fixed-point multiplier rounds each of them alike, both kernels are equal.
    """
    t = c.type(0)
    if not c.quantised:
        return "it averages floats"
    if c.requant == "fixed":
        return ""
    x, y = c.quant(0), c.y_quant
    low, high = t.dtype.range[0] - x.zero[0], t.dtype.range[1] - x.zero[0]
    counts = sorted(set(divisors(c).reshape(-1).tolist()))
    r = requant(c, possible_counts(c))
    for n in counts:
        sums = np.arange(n * low, n * high + 1)
        exact = sums * (x.scale[0] / y.scale[0] / n)
        magnitude = np.abs(exact) if low >= 0 or high <= 0 else np.full(len(sums), np.abs(exact).max())
        inside = (exact > r.low - r.zero - 1) & (exact < r.high - r.zero + 1)
        close = np.abs(exact - np.floor(exact) - 0.5) <= (n + 4) * 2.0 ** -24 * magnitude
        column = 0 if len(r.scale) == 1 else n - 1
        got = r(np.repeat(sums[:, None], len(r.scale), 1) if len(r.scale) > 1 else sums[:, None])[:, column]
        bad = inside & close | (got != np.clip(np.rint(exact) + r.zero, r.low, r.high))
        if bad.any():
            return f"a sum of {sums[bad][0]} over {n} elements is too close to a tie"
    return ""


def is_soft(c: Call) -> str:
    """8-bit elements whose float32 sums can be followed in integers (f2c_soft.h)."""
    if not c.quantised:
        return "it averages floats"
    scales, (low, high) = (c.quant(0).scale[0], c.y_quant.scale[0]), MODERATE
    return "" if all(low < s < high for s in scales) and divisors(c).max() < 2 ** 22 else "scales of extreme size"


def average_terms(c: Call, integer: bool, soft: bool) -> tuple[dict[str, Any], Scalar, str]:
    """(how an element becomes a term and enters the sum, how a sum of n terms becomes a mean, the sum's type)."""
    plain = {"enter": "+=", "left": ""}
    if not c.quantised:
        return {**plain, "term_open": "", "term_close": ""}, Scalar("({a} / (float)n)"), ""
    zero = c.quant(0).zero[0]
    if integer:
        flags = {**plain, "term_open": "", "term_close": f" - ({zero})"}
        return flags, finish(c, possible_counts(c)), ""
    low, high = c.y[0].dtype.range
    scale = literal(c.quant(0).scale[0], DType.F32)
    quotient = f"f2c_mean({{a}}, f2c_unit({scale}), n)" if soft else "{a} / (float)n"
    mean = Scalar(f"f2c_quantise({quotient}, {literal(c.y_quant.scale[0], DType.F32)}, {c.y_quant.zero[0]}, {low}, {high})")
    if soft:
        return {"enter": "= f2c_round24(acc +", "term_open": "f2c_term(",
                "term_close": f" - ({zero}), f2c_mantissa({scale}))", "left": ")"}, mean, "int64_t"
    return {**plain, "term_open": "(float)(", "term_close": f" - ({zero})) * {scale}"}, mean, "float"
