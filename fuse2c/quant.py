"""The integer arithmetic of quantised models. runtime_c/f2c_quant.h holds the same arithmetic in C.

"fixed" rounds half up, once: y = clamp(((acc * M + 2**(S-1)) >> S) + zero), with one shift S for a layer and a
multiplier M < 2**31 for each channel. "float" rounds half to even in float32, as onnxruntime's kernels do.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fuse2c.errors import ModelError

COMMON_SHIFTS = (34, 36)    # of layers that can choose
LOST_BITS = 5           # of multipliers at most: what is left, 2**-26, is finer than float32
NEAR = np.asarray(sorted(range(-8, 9), key=abs))     # what is tried around a multiplier that cannot always agree with "float"
SHIFT_MAX = 54          # keeps zero << (S - 32) inside int32 for any 8-bit zero point
Number = Any      # an array or a numpy scalar
EXACT_FLOAT = 2 ** 24   # integers up to here are exact in float32
SUM_BITS = 21           # multipliers of a two-term sum: 255 * 2**21 * 2 terms stay inside int32
SUM_SHIFT_MAX = 28


@dataclass(frozen=True, slots=True)
class Requant:
    """How accumulators become stored values: real multipliers, zero point and limits of the output.

    `single` holds the multipliers as onnxruntime computes them, s_x * s_w / s_y in float32; `reach` bounds the
    accumulators. "fixed" multipliers are chosen, where one exists, such that both modes agree on every accumulator
    within reach.
    """

    mode: str                       # "fixed" or "float"
    scale: tuple[float, ...]        # s_x * s_w / s_y, one per channel or one for all
    single: tuple[float, ...]
    zero: int
    low: int
    high: int
    reach: tuple[int, ...] = (EXACT_FLOAT,)

    @property
    def shift(self) -> int:
        """S: the first of COMMON_SHIFTS, so that layers differ in tables only and share code, with which nothing is lost: it
        agrees with "float" on as many thresholds of outputs as the largest shift. Else that."""
        largest = self.largest_shift
        tried = [shift for shift in COMMON_SHIFTS if shift < largest <= shift + LOST_BITS]
        least = _multipliers(self, largest)[1].sum() if tried else 0
        return next((shift for shift in tried if _multipliers(self, shift)[1].sum() <= least), largest)

    @property
    def largest_shift(self) -> int:
        """The largest shift that keeps every multiplier below 2**31."""
        top = max(self.scale)
        if top <= 0.0:
            return SHIFT_MAX
        _, exponent = math.frexp(top)               # top = m * 2**exponent, m in [0.5, 1)
        shift = 31 - exponent
        if round(top * 2.0 ** shift) >= 1 << 31:
            shift -= 1
        return max(1, min(shift, SHIFT_MAX))

    @property
    def multipliers(self) -> np.ndarray:
        """M, int32, one per entry of `scale`."""
        return _multipliers(self, self.shift)[0]

    @property
    def proved(self) -> int:
        """For how many entries of `scale` "fixed" and "float" agree on every accumulator within reach."""
        return int((_multipliers(self, self.shift)[1] == 0).sum())

    def __call__(self, acc: np.ndarray) -> np.ndarray:
        """Stored values (int32, inside the limits) of accumulators whose last axis is the channel."""
        if self.mode == "float":
            real = acc.astype(np.float32) * np.asarray(self.single, np.float32)
            clipped = np.clip(real, np.float32(self.low - self.zero), np.float32(self.high - self.zero))
            return np.rint(clipped).astype(np.int32) + np.int32(self.zero)
        shift = self.shift
        y = (acc.astype(np.int64) * self.multipliers.astype(np.int64) + (np.int64(1) << (shift - 1))) >> shift
        return np.clip(y + self.zero, self.low, self.high).astype(np.int32)


def requant(mode: str, x: float, w: tuple[float, ...], y: float, zero: int, limits: tuple[int, int],
            reach: tuple[int, ...] = (EXACT_FLOAT,)) -> Requant:
    """The requantisation of accumulators at scale x * w to a tensor of scale y and the given zero point."""
    with np.errstate(over="ignore"):
        single = np.float32(x) * np.asarray(w, np.float32) / np.float32(y)
    if not np.all(np.isfinite(single)):
        raise ModelError(f"the scales {x:g} * {max(w):g} / {y:g} are beyond float32", hint="quantise the model again")
    return Requant(mode, tuple(x * s / y for s in w), tuple(map(float, single)), zero, *limits, reach)


@lru_cache(maxsize=4096)
def _multipliers(r: Requant, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """(M, how many thresholds of the output it moves against "float"; 0: it is proved to agree) for each channel.

    With q the distance of an output from the zero point and T_q the least accumulator that "float" maps to q or
    more, "fixed" agrees if and only if M T_q >= K and M (T_q - 1) < K for K = q 2**S - 2**(S-1), for every q. Each
    condition bounds M from one side, so all of them leave an interval.
    """
    ideal = np.minimum(np.rint(np.asarray(r.scale, np.float64) * 2.0 ** shift), 2 ** 31 - 1).astype(np.int64)
    if min(r.single) <= 0.0:
        return ideal.astype(np.int32), np.full(len(ideal), r.high - r.low)
    q = np.arange(r.low - r.zero + 1, r.high - r.zero + 1, dtype=np.int64)
    threshold, known = _thresholds(np.asarray(r.single, np.float32), q, np.asarray(r.reach, np.int64))
    k = np.broadcast_to((q << shift) - (1 << (shift - 1)), threshold.shape)
    least, most = np.zeros(len(ideal), np.int64), np.full(len(ideal), 2 ** 31 - 1, np.int64)
    possible = np.ones(len(ideal), np.bool_)
    for t, bound, upper in ((threshold, k, False), (threshold - 1, k - 1, True)):
        # upper: M t <= bound; else M t >= bound. Dividing by a negative t turns the condition around.
        t_safe = np.where(t == 0, 1, t)
        down, up = bound // t_safe, -((-bound) // t_safe)
        is_upper = (t > 0) == upper
        most = np.minimum(most, np.where(known & (t != 0) & is_upper, down, 2 ** 31 - 1).min(axis=1))
        least = np.maximum(least, np.where(known & (t != 0) & ~is_upper, up, 0).max(axis=1))
        holds = bound >= 0 if upper else bound <= 0
        possible &= (~known | (t != 0) | holds).all(axis=1)
    possible &= least <= most
    tried = np.where(possible, np.clip(ideal, least, np.maximum(least, most)), ideal)[:, None] + NEAR * ~possible[:, None]
    tried = np.clip(tried, 1, 2 ** 31 - 1)
    moved = ((-(-k[:, None] // tried[..., None]) != threshold[:, None]) & known[:, None]).sum(axis=-1)
    best = (np.arange(len(ideal)), moved.argmin(axis=1))
    return tried[best].astype(np.int32), np.where(possible, 0, np.maximum(moved[best], 1))


def _thresholds(scale: np.ndarray, q: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(T_q, whether it lies within reach) for each channel and q: least acc with rint(float32(acc) * scale) >= q."""
    guess = np.floor((q[None, :] - 0.5) / scale.astype(np.float64)[:, None])
    guess = np.clip(guess, -EXACT_FLOAT, EXACT_FLOAT).astype(np.int64)
    window = guess[..., None] + np.arange(-3, 5)
    reached = np.rint(window.astype(np.float32) * scale[:, None, None]) >= q[None, :, None]
    threshold = np.take_along_axis(window, reached.argmax(axis=-1)[..., None], -1)[..., 0]
    bracketed = ~reached[..., 0] & reached[..., -1]
    return threshold, bracketed & (np.abs(threshold) <= np.minimum(reach, EXACT_FLOAT)[:, None])


@dataclass(frozen=True, slots=True)
class SumRequant:
    """y = clamp(sum_i (x_i - zero_i) * scale_i / scale_y + zero_y) of two 8-bit operands; a negative scale subtracts."""

    mode: str
    scale: tuple[float, float]      # s_a / s_y, s_b / s_y
    zeros: tuple[int, int]
    zero: int
    low: int
    high: int

    @property
    def shift(self) -> int:
        """S: the largest shift that keeps both multipliers below 2**SUM_BITS."""
        _, exponent = math.frexp(max(map(abs, self.scale)))
        return min(SUM_BITS - 1 - exponent, SUM_SHIFT_MAX)

    @property
    def constants(self) -> tuple[int, int, int]:
        """(M_a, M_b, offset): y = ((a M_a + b M_b + offset) >> S) + zero, limited; zero points are in the offset."""
        return _sum_constants(self)[:3]

    @property
    def disagreements(self) -> int:
        """On how many of the 65,536 pairs "fixed" and "float" differ."""
        return _sum_constants(self)[3]

    def problem(self) -> str:
        """Why this sum has no 32-bit integer form; empty when it has."""
        return "" if self.shift >= 1 else f"the scales differ too much ({self.scale[0]:.3g}, {self.scale[1]:.3g})"

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Stored values, int32, inside the limits."""
        if self.mode == "float":
            return self.as_float(a, b)
        ma, mb, offset = self.constants
        y = (a.astype(np.int64) * ma + b.astype(np.int64) * mb + offset) >> self.shift
        return np.clip(y + self.zero, self.low, self.high).astype(np.int32)

    def as_float(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The "float" result, whatever the mode."""
        fa, fb = np.float32(self.scale[0]), np.float32(self.scale[1])
        xa = (a.astype(np.int32) - self.zeros[0]).astype(np.float32)
        xb = (b.astype(np.int32) - self.zeros[1]).astype(np.float32)
        clipped = np.clip(xa * fa + xb * fb, np.float32(self.low - self.zero), np.float32(self.high - self.zero))
        return np.rint(clipped).astype(np.int32) + np.int32(self.zero)


@lru_cache(maxsize=1024)
def _sum_constants(r: SumRequant) -> tuple[int, int, int, int]:
    """The constants nearest to the ideal ones that disagree with "float" on the fewest of all pairs.

    Only pairs whose sum lies close to a tie can disagree, so only those are tried.
    """
    shift = r.shift
    ideal = [round(s * 2.0 ** shift) for s in r.scale]
    span = np.arange(r.low, r.high + 1)
    a, b = (grid.reshape(-1) for grid in np.meshgrid(span, span, indexing="ij"))
    exact = (a - r.zeros[0]) * r.scale[0] + (b - r.zeros[1]) * r.scale[1]
    near = np.abs(exact - np.floor(exact) - 0.5) < 1e-3
    a, b = a[near], b[near]
    want = r.as_float(a, b)
    best: tuple[int, int, int, int] | None = None
    for distance in range(5):
        steps = [(i, j, k) for i in range(-distance, distance + 1) for j in range(-distance, distance + 1)
                 for k in (0, -1, 1, -16, 16, -64, 64) if max(abs(i), abs(j)) == distance]
        for i, j, k in steps:
            ma, mb = ideal[0] + i, ideal[1] + j
            offset = (1 << (shift - 1)) - r.zeros[0] * ma - r.zeros[1] * mb + k
            got = np.clip(((a * ma + b * mb + offset) >> shift) + r.zero, r.low, r.high)
            wrong = int(np.count_nonzero(got != want))
            if best is None or wrong < best[3]:
                best = (ma, mb, offset, wrong)
        if best is not None and best[3] == 0:
            break
    assert best is not None
    return best


def quantise(real: Number, scale: Number, zero: Number, low: int, high: int) -> np.ndarray:
    """QuantizeLinear of float32 as ONNX defines it: x / scale, half to even, then the zero point; int64.

    NaN, which ONNX leaves undefined, becomes the least value.
    """
    least, greatest = (low - zero).astype(np.float32), (high - zero).astype(np.float32)
    with np.errstate(all="ignore"):
        scaled = np.asarray(real, np.float32) / np.asarray(scale, np.float32)
    inside = np.where(scaled > least, scaled, least)
    return np.rint(np.where(inside < greatest, inside, greatest)).astype(np.int64) + zero


def accumulator_bound(w: np.ndarray, bias: np.ndarray, x_low: int, x_high: int) -> np.ndarray:
    """Largest |accumulator| that any input can reach, at any point of the sum; w is [channel, k], bias [channel].

    x_low <= 0 <= x_high, so that every further term can only widen the range that the sum may lie in.
    """
    ends = w.astype(np.int64)[..., None] * np.asarray([x_low, x_high], np.int64)
    start = bias.astype(np.int64)
    least, greatest = start + ends.min(axis=-1).sum(axis=1), start + ends.max(axis=-1).sum(axis=1)
    return np.maximum(np.maximum(-least, greatest), np.abs(start))
