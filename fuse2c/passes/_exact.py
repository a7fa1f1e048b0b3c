"""Placement as an integer program, solved by HiGHS: `--place exact`.

One offset for each buffer, in units of ALIGN. Two buffers that are live at the same time lie on one side or the other
of each other, which a binary variable says: offset_j - offset_i is at least `high`, or at most `low`.
"""
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fuse2c.errors import InternalError, ToolMissing

SECONDS = 60.0      # at most; what is found by then counts


@dataclass(frozen=True, slots=True)
class Solution:
    """Offsets in bytes; `bound`: no placement of these buffers needs less."""

    offsets: tuple[int, ...]
    bound: int


def solve(sizes: Sequence[int], bounds: dict[tuple[int, int], tuple[int, int]], start: Sequence[int], least: int,
          align: int) -> Solution:
    """Multiples of `align` with the least max(offset + size), which is known to be at least `least`; `start`: a first guess.

    bounds: (i, j) -> open interval in which offset_j - offset_i must not lie. All in bytes. Raises ToolMissing.
    """
    try:
        import highspy
    except ImportError:
        raise ToolMissing("--place exact needs the package highspy", hint="pip install 'fuse2c[exact]'") from None
    with silent():
        solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("log_to_console", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 0)
    solver.setOptionValue("time_limit", SECONDS)
    solver.setOptionValue("mip_rel_gap", 0.0)
    # Peaks differ by whole bytes: half of one is no gap.
    solver.setOptionValue("mip_abs_gap", 0.5)
    units = [-(-size // align) for size in sizes]
    limit = max(o // align + n for o, n in zip(start, units, strict=True))
    highest = max(o + size for o, size in zip(start, sizes, strict=True))
    peak = solver.addVariable(least, highest, obj=1.0, type=highspy.HighsVarType.kInteger)
    at = [solver.addVariable(0, limit - n, type=highspy.HighsVarType.kInteger) for n in units]
    above = {}
    for x, size in zip(at, sizes, strict=True):
        solver.addConstr(peak - align * x >= size)
    for (i, j), (low, high) in bounds.items():
        low, high = low // align, -(-high // align)
        # No offset lies outside 0 .. limit, which says how much the constraint that does not count must give way.
        above[i, j] = solver.addBinary()
        solver.addConstr(at[j] - at[i] >= high - (1 - above[i, j]) * (high + limit))
        solver.addConstr(at[j] - at[i] <= low + above[i, j] * (limit - low))
    first = [highest, *(o // align for o in start),
             *(int(start[j] - start[i] >= bounds[i, j][1]) for i, j in above)]
    solver.setSolution(len(first), np.arange(len(first), dtype=np.int32), np.asarray(first, np.float64))
    if solver.run() == highspy.HighsStatus.kError:      # such as another number of threads than earlier in the process
        raise InternalError(f"the placement's integer program ended as {solver.getModelStatus()}")
    info, values = solver.getInfo(), solver.getSolution().col_value
    offsets = tuple(round(v) * align for v in values[1:1 + len(at)]) if values else tuple(start)
    proven = int(np.ceil(info.mip_dual_bound - 1e-6)) if np.isfinite(info.mip_dual_bound) else least
    return Solution(offsets, max(least, proven))


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """No output at all, not even from C: the solver greets as soon as it is there, before it can be told not to."""
    kept, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(null)
