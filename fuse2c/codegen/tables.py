"""Constant arrays as C initialisers."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fuse2c.ir.types import CTYPE, DType
from fuse2c.kernels.scalars import literal

WIDTH = {1: 24, 2: 16, 4: 10, 8: 6}     # numbers a line, by element size


@dataclass(frozen=True, slots=True)
class Table:
    """A constant array, its values as lines of text."""

    name: str
    ctype: str
    count: int
    rows: tuple[str, ...]


def table(name: str, values: np.ndarray) -> Table:
    """A numpy array (any element type of the IR) as a C table; halves as their bits."""
    dtype = DType(values.dtype.name)
    flat = values.reshape(-1)
    if flat.size == 0:
        flat = np.zeros(1, values.dtype)        # C has no empty arrays
    return Table(name, CTYPE[dtype], flat.size, tuple(_rows(flat, dtype)))


def _rows(flat: np.ndarray, dtype: DType) -> Iterator[str]:
    if dtype.is_half:
        flat, dtype = flat.view(np.uint16), DType.U16
    if dtype.is_float:
        items = [_plain(literal(v, dtype)) for v in flat]
    else:                               # weights repeat their few values
        values = flat.tolist()
        text = {v: _plain(literal(v, dtype)) for v in set(values)}
        items = [text[v] for v in values]
    width = WIDTH[flat.dtype.itemsize]
    for i in range(0, len(items), width):
        yield ", ".join(items[i:i + width]) + ","


def _plain(text: str) -> str:
    """Without the parentheses that a negative number needs inside an expression only."""
    return text[1:-1] if text.startswith("(-") and " " not in text else text
