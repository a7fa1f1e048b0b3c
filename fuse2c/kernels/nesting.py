"""Loop nests over an output: broadcasting resolved into strides, adjacent dimensions merged."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fuse2c.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: `for (int32_t var = begin; var < end; ++var)`, or `var += step`."""

    var: str
    begin: str
    end: str
    indent: str
    step: int = 1

    @property
    def head(self) -> str:
        """Its first line."""
        step = f"++{self.var}" if self.step == 1 else f"{self.var} += {self.step}"
        return f"{self.indent}for (int32_t {self.var} = {self.begin}; {self.var} < {self.end}; {step}) {{"


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops from the outermost to the innermost, and each operand's C index into its memory (or into its row)."""

    loops: tuple[Loop, ...]
    index: tuple[str, ...]
    indent: str             # of the loop body
    rows: int = 1                           # rows that the caller loops over, outside of these loops
    row_strides: tuple[int, ...] = ()       # distance in elements between rows of each operand

    def by(self, step: int, end: str) -> Nest:
        """With an innermost loop of such steps and such an end."""
        return replace(self, loops=(*self.loops[:-1], replace(self.loops[-1], step=step, end=end)))

    def adjacent(self, index: str) -> bool:
        """Whether an index grows by one with the innermost loop's variable."""
        return self.loops[-1].var in index.split(" + ")

    @property
    def closing(self) -> tuple[str, ...]:
        """Indents of the closing braces, innermost first."""
        return tuple(loop.indent for loop in reversed(self.loops))

    @property
    def head(self) -> str:
        """The loops' heads as C lines."""
        return "\n".join(o.head for o in self.loops)

    @property
    def tail(self) -> str:
        """The loops' ends as C lines."""
        return "\n".join(f"{indent}}}" for indent in self.closing)


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


def nest(y: TensorType, operands: Sequence[Access], rows: bool = False, indent: str = "    ", letter: str = "i") -> Nest:
    """Loops over `y` in storage order. The first index belongs to y itself, the others to `operands`.

    With `rows`, the outermost axis of a tensor of three or more is left to the caller, who computes a range of its
    rows. `letter` starts the names of the variables.
    """
    accesses = [Access(y.strides), *operands]
    axes = [a for a in y.storage if y.shape[a] != 1] or [0] * bool(y.shape)
    count, row_strides = 1, [0] * len(accesses)
    if rows and len(y.shape) >= 3 and len(axes) > 1:
        count, row_strides = y.shape[axes[0]], [a.strides[axes[0]] for a in accesses]
        axes = axes[1:]
    merged: list[tuple[int, list[int]]] = []            # (extent, stride of each operand)
    for axis in axes:
        extent, strides = y.shape[axis], [a.strides[axis] for a in accesses]
        if merged and all(o == s * extent for o, s in zip(merged[-1][1], strides, strict=True)):
            merged[-1] = (merged[-1][0] * extent, strides)
        else:
            merged.append((extent, strides))
    merged = merged or [(1, [0] * len(accesses))]
    variables = [f"{letter}{level}" for level in range(len(merged))]
    loops = tuple(Loop(var, "0", str(extent), indent + "    " * level)
                  for level, (var, (extent, _)) in enumerate(zip(variables, merged, strict=True)))
    index = tuple(index_text(variables, [strides[i] for _, strides in merged], a.offset)
                  for i, a in enumerate(accesses))
    return Nest(loops, index, indent + "    " * len(merged), count, tuple(row_strides))


def index_text(variables: Sequence[str], strides: Sequence[int], offset: int = 0) -> str:
    """The C expression of an element's index."""
    terms = [v if s == 1 else f"({v} * {s})" for v, s in zip(variables, strides, strict=True) if s != 0]
    text = " + ".join([str(offset)] * bool(offset) + terms).replace("+ (-", "- (")
    return text or "0"
