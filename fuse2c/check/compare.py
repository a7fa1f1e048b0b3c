"""Counting differences: in steps for integers, in ULP and relative to the tensor for floats."""
from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True, slots=True)
class Difference:
    """What a comparison found. For integers an element differs if it is not equal; `worst` is in steps. For floats
    an element differs if it is outside the stated tolerance; `worst` is |got - want| / max|want|."""

    elements: int = 0
    differing: int = 0
    worst: float = 0.0
    worst_ulp: int = 0
    first: str = ""             # where, got, want of the first difference

    def __add__(self, other: Difference) -> Difference:
        return Difference(self.elements + other.elements, self.differing + other.differing,
                          max(self.worst, other.worst), max(self.worst_ulp, other.worst_ulp), self.first or other.first)

    def json(self) -> dict[str, float]:
        """The keys that `check --json` documents."""
        return {"elements": self.elements, "differing": self.differing, "worst": self.worst}


def difference(got: np.ndarray, want: np.ndarray, tolerance: np.ndarray | float = 0.0) -> Difference:
    """Compare two arrays of one shape; `tolerance` (absolute, per element) is for floats only."""
    if got.dtype == BFLOAT16:       # no kind of numpy's own
        got, want = got.astype(np.float32), want.astype(np.float32)
    if got.dtype.kind == "f":
        return _floats(got, want, tolerance)
    gap = np.abs(got.astype(np.int64) - want.astype(np.int64))
    return Difference(got.size, int(np.count_nonzero(gap)), float(gap.max(initial=0)), int(gap.max(initial=0)),
                      _first(got, want, gap > 0))


def _floats(got: np.ndarray, want: np.ndarray, tolerance: np.ndarray | float) -> Difference:
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(same, 0.0, np.abs(got.astype(np.float64) - want.astype(np.float64)))
        bad = ~same & ~(gap <= tolerance)
    worst = float(np.max(np.nan_to_num(gap, nan=np.inf), initial=0.0)) / (largest(want) or 1.0)
    return Difference(got.size, int(np.count_nonzero(bad)), worst, int(ulps(got, want).max(initial=0)),
                      _first(got, want, bad))


def largest(a: np.ndarray) -> float:
    """The largest magnitude in an array of floats, apart from infinities and what is no number."""
    return float(np.abs(a[np.isfinite(a)]).max(initial=0.0))


def ulps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance in representable float32 numbers; NaN equals NaN."""
    def ordered(x: np.ndarray) -> np.ndarray:
        bits = np.ascontiguousarray(x, np.float32).view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    return np.where(np.isnan(a) & np.isnan(b), 0, np.abs(ordered(a) - ordered(b)))


def _first(got: np.ndarray, want: np.ndarray, bad: np.ndarray) -> str:
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"at {list(at)}: got {got[at]}, want {want[at]}"
