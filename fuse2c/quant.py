"""The integer arithmetic of quantised models. runtime_c/f2c_quant.h holds the same arithmetic in C.

"fixed" rounds half up, once: y = clamp(((acc * M + 2**(S-1)) >> S) + zero), with one shift S for a layer and a
multiplier M < 2**31 for each channel. "float" rounds half to even in float32, as onnxruntime's kernels do.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

SHIFT_MAX = 54          # keeps zero << (S - 32) inside int32 for any 8-bit zero point
SUM_BITS = 21           # multipliers of a two-term sum: 255 * 2**21 * 2 terms stay inside int32
SUM_SHIFT_MAX = 28


@dataclass(frozen=True, slots=True)
class Requant:
    """How accumulators become stored values: real multipliers, zero point and limits of the output."""

    mode: str                       # "fixed" or "float"
    scale: tuple[float, ...]        # s_x * s_w / s_y, one per channel or one for all
    zero: int
    low: int
    high: int

    @property
    def shift(self) -> int:
        """S: the largest shift that keeps every multiplier below 2**31."""
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
        m = np.rint(np.asarray(self.scale, np.float64) * 2.0 ** self.shift)
        return np.minimum(m, (1 << 31) - 1).astype(np.int32)

    def __call__(self, acc: np.ndarray) -> np.ndarray:
        """Stored values (int32, inside the limits) of accumulators whose last axis is the channel."""
        if self.mode == "float":
            real = acc.astype(np.float32) * np.asarray(self.scale, np.float32)
            clipped = np.clip(real, np.float32(self.low - self.zero), np.float32(self.high - self.zero))
            return np.rint(clipped).astype(np.int32) + np.int32(self.zero)
        shift = self.shift
        y = (acc.astype(np.int64) * self.multipliers.astype(np.int64) + (np.int64(1) << (shift - 1))) >> shift
        return np.clip(y + self.zero, self.low, self.high).astype(np.int32)


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
    def multipliers(self) -> tuple[int, int]:
        """The two integer multipliers, sign included."""
        a, b = (round(s * 2.0 ** self.shift) for s in self.scale)
        return a, b

    @property
    def offset(self) -> int:
        """Rounding constant and both zero points in one addend."""
        (ma, mb), (za, zb) = self.multipliers, self.zeros
        return (1 << (self.shift - 1)) - za * ma - zb * mb

    def problem(self) -> str:
        """Why this sum has no 32-bit integer form; empty when it has."""
        return "" if self.shift >= 1 else f"the scales differ too much ({self.scale[0]:.3g}, {self.scale[1]:.3g})"

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Stored values, int32, inside the limits."""
        if self.mode == "float":
            fa, fb = np.float32(self.scale[0]), np.float32(self.scale[1])
            xa = (a.astype(np.int32) - self.zeros[0]).astype(np.float32)
            xb = (b.astype(np.int32) - self.zeros[1]).astype(np.float32)
            clipped = np.clip(xa * fa + xb * fb, np.float32(self.low - self.zero), np.float32(self.high - self.zero))
            return np.rint(clipped).astype(np.int32) + np.int32(self.zero)
        ma, mb = self.multipliers
        y = (a.astype(np.int64) * ma + b.astype(np.int64) * mb + self.offset) >> self.shift
        return np.clip(y + self.zero, self.low, self.high).astype(np.int32)


def quantise(real: np.ndarray, scale: np.ndarray, zero: np.ndarray, low: int, high: int) -> np.ndarray:
    """QuantizeLinear of float32 as ONNX defines it: x / scale, half to even, then the zero point; int64.

    NaN, which ONNX leaves undefined, becomes the least value.
    """
    least, greatest = (low - zero).astype(np.float32), (high - zero).astype(np.float32)
    with np.errstate(all="ignore"):
        scaled = np.asarray(real, np.float32) / np.asarray(scale, np.float32)
    inside = np.where(scaled > least, scaled, least)
    return np.rint(np.where(inside < greatest, inside, greatest)).astype(np.int64) + zero


def accumulator_bound(w: np.ndarray, bias: np.ndarray, x_low: int, x_high: int) -> np.ndarray:
    """Largest |accumulator| that any input can reach, at any point of the sum; w is [channel, k], bias [channel]."""
    reach = max(abs(x_low), abs(x_high))
    return np.abs(w.astype(np.int64)).sum(axis=1) * reach + np.abs(bias.astype(np.int64))
