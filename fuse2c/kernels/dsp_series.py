"""Series for the matrix core: a tensor of one column is one row whose columns are its rows; a tile of them is computed at once.

So steps still take turns row by row, and rings hold the last elements of a series: what a tile reads is in place where those
do not wrap around, else gathered.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fuse2c.kernels.dsp import Run
from fuse2c.op import Call, Spec

Maker = Callable[[Call], Spec]
BODY = "parts/strips_series.c.j2"
AXES = ("IN", "OUT", "K", "STRIDE", "DIL")


def is_series(names: dict[str, int]) -> bool:
    """Whether there is one column, and more than one row. names: the constants of the window."""
    return names["IN_W"] == names["OUT_W"] == names["K_W"] == 1 < names["OUT_H"]


def turned(names: dict[str, int]) -> dict[str, int]:
    """The same constants with rows for columns; X_SH and Y_SH stay the distances of elements of the series."""
    found = dict(names)
    for axis in AXES:
        found |= {f"{axis}_H": names[f"{axis}_W"], f"{axis}_W": names[f"{axis}_H"]}
    return found | {"PAD_TOP": 0, "PAD_LEFT": names["PAD_TOP"], "X_SW": names["X_SH"], "Y_SW": names["Y_SH"]}


def runs(length: int, largest: int) -> tuple[Run, ...]:
    """Tiles of `largest` elements, each of which starts at a multiple of that, and what is left."""
    size = min(length, largest)
    whole = length // size * size
    return tuple(r for r in (Run(size, 0, whole), Run(length - whole, whole, length)) if r.end > r.first)


def reach(names: dict[str, int], largest: int) -> int:
    """Columns under one tap of a tile, if the gaps between taps are wider; else 0."""
    under = (largest - 1) * names["STRIDE_W"] + 1
    return under if names["K_W"] > 1 and names["DIL_W"] > under else 0


def by_tiles(spec: Spec, found: tuple[Run, ...]) -> Spec:
    """The spec of a kernel that computes the elements of such tiles together, which are its rows."""
    size, end = found[0].size, found[-1].end
    guards = [f"if (oy < {found[0].end}) ", f"if (oy >= {found[0].end}) "] if len(found) > 1 else [""]
    flags = {"series": True, "guards": {run.key: guard for run, guard in zip(found, guards, strict=True)},
             "first_row": f"((row + {size - 1}) / {size}) * {size}" if size > 1 else "row"}
    return replace(spec, rows=end, together=size, adjoining=True, flags={**spec.flags, **flags})
