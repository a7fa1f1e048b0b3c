"""Bounds of loops, written before them for analysers of the source: F2C_LOOPBOUND(least, most), TACLeBench's annotation."""
from __future__ import annotations

import re
from collections.abc import Mapping

FUNCTION = re.compile(r"^\w[\w \t*()]*?\b(\w+)\(")
ENUM = re.compile(r"^\s*enum \{")
LOOP = re.compile(r"^(\s*)for \(int32_t (\w+) = (.+?); \2 < (.+?); (?:\+\+\2|\2 \+= (.+?))\) \{$")


def bounded(text: str, rows: Mapping[str, int]) -> str:
    """C text with the bounds of all loops whose limits are constants, or the rows that a kernel is called for.

    `rows`: how many that are at most, by function.
    """
    out: list[str] = []
    constants: dict[str, int] = {}
    function = ""
    for line in text.split("\n"):
        if found := FUNCTION.match(line):
            function, constants = found[1], {}
        elif ENUM.match(line):
            constants |= {name: int(value) for name, value in re.findall(r"(\w+) = (-?\d+)", line)}
        elif found := LOOP.match(line):
            bounds = _bounds(found[3], found[4], found[5] or "1", constants, rows.get(function, 0))
            if bounds is not None:
                at = len(out) - out[-1].lstrip().startswith("F2C_UNROLL")       # that belongs to the loop itself
                out.insert(at, f"{found[1]}F2C_LOOPBOUND({bounds[0]}, {bounds[1]})")
        out.append(line)
    return "\n".join(out)


def _bounds(first: str, end: str, step: str, constants: Mapping[str, int], rows: int) -> tuple[int, int] | None:
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
