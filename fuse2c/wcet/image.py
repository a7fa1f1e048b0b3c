"""A linked program as the analysis sees it: read-only bytes, code, function symbols."""
from __future__ import annotations

import bisect
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile

from fuse2c.errors import Refused

SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 1, 2, 4, 0x400
# What pyelftools meets in a broken file.
UNREADABLE = (ELFError, ConstructError, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError,
              ValueError, OSError, RecursionError)
ABI = "__aeabi_"
CANARY = 0x5AFEC0DE     # stands for the number that stack protectors compare
THUMB = 1               # lowest bit of a code address
# Tag_CPU_arch of the ABI's build attributes, to the smallest core that has it.
ARCHITECTURES = {11: "cortex-m0plus", 12: "cortex-m0plus", 10: "cortex-m3", 13: "cortex-m4", 16: "cortex-m0plus",
                 17: "cortex-m33", 21: "cortex-m55"}


@dataclass(frozen=True)
class Region:
    """Bytes that no store changes: constants or code, from `start` up to `end`."""

    start: int
    end: int
    data: bytes
    executable: bool


@dataclass
class Image:
    """A linked program. `named`: it names the core, not only an
    architecture of several. `functions` are (address, size, name), sorted; `marks` are the ABI's mapping symbols."""

    path: Path
    sha256: str
    core: str
    named: bool
    regions: list[Region] = field(default_factory=list)
    functions: list[tuple[int, int, str]] = field(default_factory=list)
    marks: list[tuple[int, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Of several names of one function the one that the ABI gives it tells most: __aeabi_fadd, not __addsf3.
        self.functions.sort(key=lambda f: (f[0], not f[2].startswith(ABI), f))
        self._names = {start: name for start, _, name in reversed(self.functions)}
        self.marks.sort()
        self._starts = [start for start, _, _ in self.functions]
        self._mark_starts = [start for start, _ in self.marks]

    def read(self, address: int, width: int) -> int | None:
        """A little-endian number from read-only memory; None where the program does not fix it."""
        for region in self.regions:
            if region.start <= address and address + width <= region.end:
                at = address - region.start
                return int.from_bytes(region.data[at:at + width], "little")
        return None

    def words(self, value: int) -> Iterator[int]:
        """Where a code address, with or without its lowest bit, lies as a word in read-only memory."""
        for region in self.regions:
            for word in (value, value | THUMB):
                at = region.data.find(word.to_bytes(4, "little"))
                while at >= 0:
                    if (region.start + at) % 4 == 0:
                        yield region.start + at
                    at = region.data.find(word.to_bytes(4, "little"), at + 1)

    def is_code(self, address: int) -> bool:
        """Whether instructions, not a table or a literal, lie at an address of an executable section."""
        if not any(r.executable and r.start <= address < r.end for r in self.regions):
            return False
        index = bisect.bisect_right(self._mark_starts, address) - 1
        return index < 0 or self.marks[index][1]

    def entry(self, symbol: str) -> int:
        """The address of a function. Refused if the program has none of this name."""
        for start, _, name in self.functions:
            if name == symbol:
                return start
        raise Refused(f"{self.path.name} has no function {symbol!r}", hint="was it dropped by the linker, or inlined?")

    def begins(self, address: int) -> bool:
        """Whether a function begins at an address."""
        index = bisect.bisect_left(self._starts, address)
        return index < len(self._starts) and self._starts[index] == address

    def extent(self, address: int) -> tuple[int, int]:
        """First and last byte plus one of the function around an address."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return address, address + 1
        start = self._starts[index]
        size = max(size for begin, size, _ in self.functions if begin == start)
        following = self._starts[index + 1] if index + 1 < len(self._starts) else start + 0x10000
        end = start + size if size else following
        return (start, end) if address < end else (address, following)

    def place(self, address: int) -> str:
        """`function+0x12`, or the bare function name at its start, for messages and flow facts."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return f"{address:#x}"
        start = self._starts[index]
        name = self._names[start]
        return name if start == address else f"{name}+{address - start:#x}"


def load(path: Path) -> Image:
    """Reads a linked 32-bit Arm program. Refused for anything else."""
    data = path.read_bytes()
    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            if elf["e_machine"] != "EM_ARM" or elf.elfclass != 32 or not elf.little_endian:
                raise Refused(f"{path.name} is no 32-bit little-endian Arm program")
            if elf["e_type"] not in ("ET_EXEC", "ET_DYN"):
                raise Refused(f"{path.name} is not linked", hint="analyse the program that runs, not an object file")
            _whole(elf, path.name, len(data))
            return Image(path, hashlib.sha256(data).hexdigest(), *_core(elf), [*_regions(elf), *_guard(elf)], *_symbols(elf))
    except UNREADABLE as error:
        raise Refused(f"{path.name} is not an ELF file that can be read: {error}") from error


def _whole(elf: ELFFile, name: str, size: int) -> None:
    """Refused if a part of the program is missing, or two of them claim the same addresses."""
    placed: list[tuple[int, int, str]] = []
    for section in elf.iter_sections():
        if section["sh_type"] != "SHT_NOBITS" and section["sh_offset"] + section["sh_size"] > size:
            raise Refused(f"{name} is cut: section {section.name} ends behind the file")
        if section["sh_flags"] & SHF_ALLOC and not section["sh_flags"] & SHF_TLS and section["sh_size"]:
            placed.append((section["sh_addr"], section["sh_addr"] + section["sh_size"], section.name))
    placed.sort()
    for (_, end, one), (start, _, other) in itertools.pairwise(placed):
        if start < end:
            raise Refused(f"{name} has two sections at address {start:#x}: {one} and {other}", hint="no overlays")


def _regions(elf: ELFFile) -> list[Region]:
    found = []
    for section in elf.iter_sections():
        flags = section["sh_flags"]
        # A linker writes the table of addresses that code for any place (-fPIC) has, and in a linked program nobody else.
        fixed = not flags & SHF_WRITE or (section.name == ".got" and elf["e_type"] == "ET_EXEC")
        if section["sh_type"] == "SHT_PROGBITS" and flags & SHF_ALLOC and fixed:
            data = section.data()
            start = section["sh_addr"]
            found.append(Region(start, start + len(data), data, bool(flags & SHF_EXECINSTR)))
    return found


def _guard(elf: ELFFile) -> list[Region]:
    """The word that stack protectors compare, which is the same all the time; what it is does not matter."""
    table: Any = elf.get_section_by_name(".symtab")
    found = table.get_symbol_by_name("__stack_chk_guard") if table is not None else None
    return [Region(s["st_value"], s["st_value"] + 4, CANARY.to_bytes(4, "little"), False) for s in found or ()
            if s["st_shndx"] != "SHN_UNDEF"]


def _symbols(elf: ELFFile) -> tuple[list[tuple[int, int, str]], list[tuple[int, bool]]]:
    table: Any = elf.get_section_by_name(".symtab")
    if table is None:
        raise Refused("the program has no symbol table", hint="link without -s, and do not strip it")
    functions, marks = [], []
    code = {n for n, section in enumerate(elf.iter_sections()) if section["sh_flags"] & SHF_EXECINSTR}
    for symbol in table.iter_symbols():
        if symbol["st_shndx"] not in code:      # debug sections have marks, too, of addresses of their own
            continue
        address = symbol["st_value"]
        if symbol["st_info"]["type"] == "STT_FUNC":
            functions.append((address & ~THUMB, symbol["st_size"], symbol.name))
        elif symbol.name[:2] in ("$t", "$d") and symbol.name[2:3] in ("", "."):
            marks.append((address, symbol.name[1] == "t"))
        elif symbol.name[:2] == "$a" and symbol.name[2:3] in ("", "."):
            raise Refused("the program has code in the Arm instruction set", hint="only Thumb is analysed")
    return functions, marks


def _core(elf: ELFFile) -> tuple[str, bool]:
    """The core that the build attributes name, or the smallest of their architecture; "" if there are none."""
    section: Any = elf.get_section_by_name(".ARM.attributes")
    if section is None:
        return "", False
    tags: dict[str, Any] = {attribute.tag: attribute.value for sub in section.iter_subsections()
            for part in sub.iter_subsubsections() for attribute in part.iter_attributes()}
    name = str(tags.get("TAG_CPU_NAME", "")).lower().replace("+", "plus")
    named = name.startswith("cortex-m")
    return (name if named else ARCHITECTURES.get(tags.get("TAG_CPU_ARCH", -1), "")), named
