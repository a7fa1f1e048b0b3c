"""Operators that work along one axis: every other axis is a loop around them."""
from __future__ import annotations

from dataclasses import replace

from fuse2c.ir.types import TensorType
from fuse2c.kernels import nesting
from fuse2c.kernels.nesting import Access


def around(x: TensorType, axis: int, *others: TensorType, indent: str = "    ") -> nesting.Nest:
    """Loops over all axes but one; indices: unused, then where the line starts in x and in each of `others`."""
    one = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    starts = [Access(tuple(0 if i == axis else s for i, s in enumerate(t.strides))) for t in (x, *others)]
    return nesting.nest(replace(x, shape=one), starts, rows=False, indent=indent)
