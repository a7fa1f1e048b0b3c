"""Copies that go row by row: Slice, Pad, Concat and Take, where both sides lie in memory along the same axis.

A row is a part along the outermost axis in memory. Each input serves a range of the output's rows, and for each of
them one row of its own. templates/kernels/copy_rows.c.j2 prints it.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fuse2c.ir.types import TensorType
from fuse2c.kernels import copy, nesting
from fuse2c.kernels.nesting import Access, Nest
from fuse2c.op import Call, Reads, Spec, port_name

INDENT = " " * 12


@dataclass(frozen=True, slots=True)
class Source:
    """What one input contributes: to output rows first .. end - 1 the input's rows `rows`, one each."""

    port: int
    access: Access          # of one row of the input, by the output's logical axes
    start: int              # of one row of the output: where its first element goes
    shape: tuple[int, ...]  # elements to copy in one row, by the output's logical axes
    first: int
    rows: tuple[int, ...]
    row: str                # the input row of output row {oy}, as C text
    maps: tuple[int, ...] = ()      # axes whose input index is read from the table map<axis>

    @property
    def end(self) -> int:
        """The row behind its last one."""
        return self.first + len(self.rows)


@dataclass(frozen=True, slots=True)
class RowPart:
    """One loop nest of a copy of a row."""

    nest: Nest
    to: str
    value: str
    guard: str              # C text: for which rows
    port: int
    row: str
    row_stride: int         # elements between rows of the input
    source: object = None   # the input's pointer and where its row starts, filled in by the code generator
    lines: tuple[str, ...] = ()

    @property
    def body(self) -> str:
        """What the loops do."""
        return f"{self.nest.indent}y_row[{self.to}] = {self.value};"


def axis_of(c: Call) -> int | None:
    """The axis along which the output or an input lies in rows, preferably all of them."""
    y, xs = c.y[0], [t for t in c.x if t is not None]
    if len(y.shape) < 3 or len(y.memory_axes) < 2 or any(len(t.shape) != len(y.shape) for t in xs):
        return None
    found = [t.memory_axes[0] for t in (y, *xs) if t.memory_axes and y.shape[t.memory_axes[0]] > 1]
    best = max(dict.fromkeys(found), key=found.count, default=None)
    # Axis 2 is that along which convolutions compute rows: a copy between some of them goes along with them.
    return 2 if 2 in found else best


def in_rows(t: TensorType, axis: int) -> bool:
    """Whether a tensor lies in memory in rows along an axis."""
    return t.memory_axes[:1] == (axis,)


def spec(c: Call, ports: tuple[str, ...], sources: Sequence[Source], fill: str | None = None,
         tables: dict[str, np.ndarray] | None = None) -> Spec:
    """The spec of a copy row by row; with `fill`, all of a row is first set to that C expression."""
    y, axis = c.y[0], axis_of(c)
    assert axis is not None
    rows = y.shape[axis]
    parts = [_part(c, ports, s, y, axis) for s in sources]
    flags: dict[str, object] = {"parts": parts, "fill": fill, "count": y.count // rows, "row_stride": y.strides[axis]}
    reads = {s.port: found for s in sources if (found := _reads(c, s, rows, axis)) is not None}
    return Spec(tables={**copy.constants(c, ports), **(tables or {})}, rows=rows, reads=reads,
                along=None if in_rows(y, axis) else axis, flags=flags)


def _part(c: Call, ports: tuple[str, ...], s: Source, y: TensorType, axis: int) -> RowPart:
    name, x = port_name(ports, s.port), c.type(s.port)
    shape = tuple(1 if i == axis else n for i, n in enumerate(s.shape))
    markers = [Access(tuple(int(i == at) for i in range(len(shape)))) for at in s.maps]
    n = nesting.nest(replace(y, shape=shape), [Access(y.strides, s.start), s.access, *markers], indent=INDENT)
    terms = [f"({{map{at}}}[{index}] * {x.strides[at]})" for at, index in zip(s.maps, n.index[3:], strict=True)]
    whole = s.first == 0 and s.end == y.shape[axis]
    return RowPart(n, n.index[1], f"{{{name}}}_row[{' + '.join([n.index[2], *terms])}]",
                   "" if whole else f"if ((oy >= {s.first}) && (oy < {s.end})) ", s.port, s.row,
                   x.strides[axis] if x.shape[axis] > 1 else 0)


def _reads(c: Call, s: Source, rows: int, axis: int) -> Reads | None:
    """Rows that the output's rows need; None for all of them, where they are not taken in order."""
    if not in_rows(c.type(s.port), axis) or list(s.rows) != sorted(s.rows):
        return None
    height, behind = c.type(s.port).shape[axis], rows - s.end
    return ((0,) * s.first + s.rows + (height,) * behind, (-1,) * s.first + s.rows + (height - 1,) * behind)
