"""Copies: loop nests whose body is one assignment y[to] = value, where both indices may depend on other tensors.

Everything that only moves elements is such a copy, from a slice to a scatter; templates/kernels/copy.c.j2 prints it.
Text may name an operand by its C name in braces, {x}: a pointer parameter, or the table of a constant input.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import nesting
from fuse2c.kernels.nesting import Access
from fuse2c.kernels.scalars import literal
from fuse2c.op import Call, Spec, port_name


@dataclass(frozen=True, slots=True)
class Part:
    """One loop nest of a copy. `lines` are statements before the assignment."""

    nest: nesting.Nest
    to: str
    value: str
    lines: tuple[str, ...] = ()

    @property
    def body(self) -> str:
        """What the loops do, as C lines."""
        return "\n".join(f"{self.nest.indent}{line}" for line in (*self.lines, f"y[{self.to}] = {self.value};"))


def walk(y: TensorType, accesses: Sequence[Access], axes: Sequence[int] = (),
         indent: str = "    ") -> tuple[nesting.Nest, list[str]]:
    """Loops over `y` in storage order, and as C text: each access's index, then the coordinate on each of `axes`."""
    rank = len(y.shape)
    markers = [Access(tuple(int(i == axis) for i in range(rank))) for axis in axes]
    n = nesting.nest(y, [*accesses, *markers], indent=indent)
    return n, list(n.index[1:])


def spec(c: Call, ports: tuple[str, ...], parts: Sequence[Part], fill: str | None = None,
         tables: dict[str, np.ndarray] | None = None) -> Spec:
    """The spec of a copy; with `fill`, all of y is first set to that C expression."""
    flags: dict[str, object] = {"parts": list(parts), "fill": fill, "count": c.y[0].count}
    return Spec(tables={**constants(c, ports), **(tables or {})}, by_rows=False, flags=flags)


def constants(c: Call, ports: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Constant inputs as tables, under the names that their pointers would have."""
    found = {}
    for i, t in enumerate(c.x):
        value = c.constant(i)
        if t is not None and value is not None:
            found[port_name(ports, i)] = smallest(value) if t.dtype == DType.I64 else value.reshape(-1)
    return found


def smallest(indices: np.ndarray) -> np.ndarray:
    """Constant integers in the smallest of int8, int16, int32 and int64 that holds them; one-dimensional."""
    flat = indices.reshape(-1)
    low, high = int(flat.min(initial=0)), int(flat.max(initial=0))
    for dtype in (np.int8, np.int16, np.int32):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return flat.astype(dtype)
    return flat


def element(value: float | int | bool, dtype: DType) -> str:
    """A number as it lies in memory, as C text: a half as its bits."""
    if dtype.is_half:
        return str(int(np.asarray(value, dtype.numpy).view(np.uint16)))
    return literal(value, dtype)


def wrap(indices: np.ndarray, size: int) -> np.ndarray:
    """What f2c_index does: negative indices count from the end, what is then outside is limited."""
    i = indices.astype(np.int64)
    return np.clip(np.where(i < 0, i + size, i), 0, max(size - 1, 0))
