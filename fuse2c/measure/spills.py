"""What the compiler could not keep in registers: stack slots that a function writes and reads again, from its machine code."""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fuse2c import toolchain

_FUNCTION = re.compile(r"^[0-9a-f]+ <([\w.$]+)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\t[^\t]+\t(\S+)\s*(.*)$")
_SLOT = re.compile(r"\[sp(?:, #(\d+))?\](?!!|,)")           # neither pushed nor popped
_TARGET = re.compile(r"\b([0-9a-f]+) <")
_BRANCH = re.compile(r"b(?!l|kpt|f|i|x)\w*(\.\w)?|le|letp")
_WORDS = {"strd": 2, "ldrd": 2, "vstrw": 4, "vldrw": 4}      # of 32 bits; a d register is two


@dataclass(frozen=True, slots=True)
class Spills:
    """Of one function: words of its frame that it writes and reads again, how often that stands in the code, and where.

    Arguments on the stack for a callee are not read again, saved registers are pushed: neither counts. What lies in an
    array of the function counts only where it is addressed like a variable.
    """

    function: str
    slots: int              # words
    stores: int             # instructions
    reloads: int
    inner: int              # loads and stores of the stack in innermost loops, arguments that lie there among them

    def json(self) -> dict[str, Any]:
        """The documented keys."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Line:
    """An instruction, as objdump shows it."""

    address: int
    name: str
    operands: str

    @property
    def words(self) -> tuple[int, ...]:
        """The words of the frame that a load or store of the stack touches."""
        found = _SLOT.search(self.operands)
        if found is None or not self.name.startswith(("ldr", "str", "vldr", "vstr")):
            return ()
        first, base = int(found[1] or 0), self.name.split(".")[0]
        count = 2 if self.operands.startswith("d") and base in ("vldr", "vstr") else _WORDS.get(base, 1)
        return tuple(range(first, first + 4 * count, 4))

    @property
    def stores(self) -> bool:
        """Whether it writes memory."""
        return "st" in self.name[:3]


def of_objects(objects: Iterable[Path], cc: str) -> tuple[Spills, ...]:
    """The functions of some object files that use the stack so, the worst first, by the objdump beside the compiler `cc`."""
    tool = re.sub(r"gcc(-[\d.]+)?(\.exe)?$", "objdump", cc)
    found = [of_code(name, lines) for each in objects
             for name, lines in functions(toolchain.run([tool, "-d", str(each)], f"{each.name} cannot be disassembled"))]
    return tuple(sorted((s for s in found if s.slots or s.inner), key=lambda s: (-s.inner, -s.reloads, s.function)))


def of_code(function: str, lines: Sequence[Line]) -> Spills:
    """One function, from its disassembly."""
    written = {w for line in lines if line.stores for w in line.words}
    read = {w for line in lines if not line.stores for w in line.words}
    spilled = written & read
    touching = [line for line in lines if spilled & set(line.words)]
    loops = [(int(t[1], 16), line.address) for line in lines
             if _BRANCH.fullmatch(line.name) and (t := _TARGET.search(line.operands)) and int(t[1], 16) <= line.address]
    innermost = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    inner = sum(any(a <= line.address <= b for a, b in innermost) for line in lines if line.words)
    stores = sum(line.stores for line in touching)
    return Spills(function, len(spilled), stores, len(touching) - stores, inner)


def functions(text: str) -> Iterator[tuple[str, list[Line]]]:
    """Names and lines of the functions in a disassembly."""
    name, lines = "", list[Line]()
    for row in text.splitlines():
        if found := _FUNCTION.match(row):
            if name:
                yield name, lines
            name, lines = found[1], []
        elif found := _LINE.match(row):
            lines.append(Line(int(found[1], 16), found[2], found[3]))
    if name:
        yield name, lines
