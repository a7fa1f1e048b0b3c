"""Bounds of loops, written before them for analysers of the source: F2C_LOOPBOUND(least, most), TACLeBench's annotation."""
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

FUNCTION = re.compile(r"^\w[\w \t*()]*?\b(\w+)\(")
ENUM = re.compile(r"^\s*enum \{")
LOOP = re.compile(r"^(\s*)for \(int32_t (\w+) = (.+?); \2 < (.+?); (?:\+\+\2|\2 \+= (.+?))\) \{$")
STREAM = re.compile(r"^(\s*)for \(const int32_t \*const (\w+) = &w\[(\w+) \* \w+\]; w < \2;\) \{$")
"""Over a stream of so many pieces of so many words."""
BOUND = "F2C_LOOPBOUND"
GIVEN = re.compile(rf"^\s*{BOUND}\((\d+), (\d+)\)$")

Bound = tuple[int, int]
"""The least and the most turns of a loop."""


def bounded(text: str, rows: Mapping[str, int]) -> str:
    """C text with the bounds of all loops whose limits are constants, or the rows that a kernel is called for.

    `rows`: how many that are at most, by function. Bounds that are there already stay.
    """
    return annotated(text, list(_found(text.split("\n"), rows)))


def bounds(text: str) -> tuple[Bound | None, ...]:
    """The bounds of the loops of a text, in order; None where they are not constant."""
    return tuple(_found(text.split("\n"), {}))


def annotated(text: str, found: Sequence[Bound | None]) -> str:
    """C text with bounds in front of its loops."""
    out: list[str] = []
    rest = iter(found)
    for line in text.split("\n"):
        if match := LOOP.match(line) or STREAM.match(line):
            bound = next(rest)
            at = len(out) - out[-1].lstrip().startswith("F2C_UNROLL")       # that belongs to the loop itself
            if bound is not None and BOUND not in out[at - 1]:
                out.insert(at, f"{match[1]}{BOUND}({bound[0]}, {bound[1]})")
        out.append(line)
    return "\n".join(out)


def _found(lines: Sequence[str], rows: Mapping[str, int]) -> Iterator[Bound | None]:
    """The bounds of the loops of a text."""
    constants: dict[str, int] = {}
    function, given = "", None
    for line in lines:
        if found := GIVEN.match(line):
            given = int(found[1]), int(found[2])
        elif found := FUNCTION.match(line):
            function, constants = found[1], {}
        elif ENUM.match(line):
            constants |= {name: int(value) for name, value in re.findall(r"(\w+) = (-?\d+)", line)}
        elif found := LOOP.match(line):
            yield given or _bounds(found[3], found[4], found[5] or "1", constants, rows.get(function, 0))
            given = None
        elif found := STREAM.match(line):
            yield given or _bounds("0", found[3], "1", constants, 0)
            given = None


def _bounds(first: str, end: str, step: str, constants: Mapping[str, int], rows: int) -> Bound | None:
    """The least and the most turns of a loop, if they are known."""
    if (first, end) == ("row", "row_end"):
        return (1, rows) if rows else None
    if (first, end) == ("row + (row & 1)", "row_end"):
        return (0, (rows + 1) // 2) if rows else None
    values = [_value(text, constants) for text in (first, end, step)]
    if any(v is None for v in values):
        return None
    a, b, by = (v or 0 for v in values)
    turns = max(-((a - b) // by), 0) if by > 0 else 0
    return turns, turns


def _value(text: str, constants: Mapping[str, int]) -> int | None:
    """The value of a constant C expression of sums and products."""
    plain = re.sub(r"[A-Za-z_]\w*", lambda m: str(constants.get(m[0], "?")), text)
    total = 0
    for sign, term in re.findall(r"([+-]?)([^+-]+)", plain.replace(" ", "")):
        product = 1
        for factor in term.split("*"):
            if not factor.isdecimal():
                return None
            product *= int(factor)
        total += -product if sign == "-" else product
    return total
