"""Loop nests over an output: broadcasting resolved into strides, adjacent dimensions merged."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuse2c.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: `for (int32_t var = begin; var < end; ++var)`; the outermost one runs over rows."""

    var: str
    begin: str
    end: str
    indent: str


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops from the outermost to the innermost, and each operand's C index into its memory."""

    loops: tuple[Loop, ...]
    index: tuple[str, ...]
    rows: int
    indent: str             # of the loop body

    @property
    def closing(self) -> tuple[str, ...]:
        """Indents of the closing braces, innermost first."""
        return tuple(loop.indent for loop in reversed(self.loops))


@dataclass(frozen=True, slots=True)
class Access:
    """How an operand is addressed: a stride in elements for each logical axis of the output, and an offset."""

    strides: tuple[int, ...]
    offset: int = 0


def broadcast(t: TensorType, rank: int) -> Access:
    """numpy's rule: aligned at the last axis, axes of size 1 repeat."""
    missing = rank - len(t.shape)
    own = [0 if n == 1 else s for n, s in zip(t.shape, t.strides, strict=True)]
    return Access((0,) * missing + tuple(own))


def nest(y: TensorType, operands: Sequence[Access], rows: bool = True, indent: str = "    ") -> Nest:
    """Loops over `y` in storage order. The first index belongs to y itself, the others to `operands`.

    With `rows`, the outermost loop takes the kernel's row range; spatial tensors keep their first axis apart for it,
    so that a row of the loop is a row of the tensor.
    """
    accesses = [Access(y.strides), *operands]
    axes = [a for a in y.storage if y.shape[a] != 1] or [0] * bool(y.shape)
    merged: list[tuple[int, list[int]]] = []            # (extent, stride of each operand)
    for axis in axes:
        extent, strides = y.shape[axis], [a.strides[axis] for a in accesses]
        if merged and not (rows and len(y.shape) >= 3 and len(merged) == 1):
            outer_extent, outer = merged[-1]
            if all(o == s * extent for o, s in zip(outer, strides, strict=True)):
                merged[-1] = (outer_extent * extent, strides)
                continue
        merged.append((extent, strides))
    merged = merged or [(1, [0] * len(accesses))]
    variables = [f"i{level}" for level in range(len(merged))]
    loops = tuple(Loop(var, "row" if rows and level == 0 else "0", "row_end" if rows and level == 0 else str(extent),
                       indent + "    " * level)
                  for level, (var, (extent, _)) in enumerate(zip(variables, merged, strict=True)))
    index = tuple(index_text(variables, [strides[i] for _, strides in merged], a.offset)
                  for i, a in enumerate(accesses))
    return Nest(loops, index, merged[0][0], indent + "    " * len(merged))


def index_text(variables: Sequence[str], strides: Sequence[int], offset: int = 0) -> str:
    """The C expression of an element's index."""
    terms = [v if s == 1 else f"({v} * {s})" for v, s in zip(variables, strides, strict=True) if s != 0]
    text = " + ".join([str(offset)] * bool(offset) + terms).replace("+ (-", "- (")
    return text or "0"
