"""Sizes of a model's compiled objects, read from the section headers and symbol tables of 32-bit ELF files."""
from __future__ import annotations

import struct
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fuse2c import toolchain
from fuse2c.errors import BuildError

SHT_SYMTAB = 2
SHF_WRITE, SHF_ALLOC = 1, 2
SHN_UNDEF = 0
HEADER = struct.Struct("<16sHHIIIIIHHHHHH")
SECTION = struct.Struct("<10I")
SYMBOL = struct.Struct("<IIIBBH")
HEAP = frozenset({"malloc", "calloc", "realloc", "free", "_malloc_r", "_calloc_r", "_realloc_r", "_free_r",
                  "sbrk", "_sbrk", "_sbrk_r"})


@dataclass(frozen=True)
class Section:
    """One section: `size` in bytes, in memory."""

    name: str
    size: int
    flags: int

    @property
    def in_memory(self) -> bool:
        """Whether it takes memory on the target at all (debug information does not)."""
        return bool(self.flags & SHF_ALLOC)

    @property
    def writable(self) -> bool:
        """Whether it has to lie in RAM."""
        return bool(self.flags & SHF_WRITE)


@dataclass(frozen=True)
class Symbol:
    """One symbol: `size` in bytes, the section it lies in (None if it is defined elsewhere), its address or place in there."""

    name: str
    size: int
    section: Section | None
    value: int


@dataclass(frozen=True)
class Elf:
    """The part of a 32-bit little-endian ELF file that sizes need."""

    path: Path
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]


@dataclass(frozen=True)
class Sizes:
    """What a model's objects take, in bytes.

    code: instructions and constants of every object but <name>_weights.o; weights: the constants of that one; library: what
    they need of the compiler's and C's libraries, and what lies between them for alignment; static: RAM, the arena included
    if it is static; ram_symbols: the RAM again, by variable.
    """

    code: int
    weights: int
    static: int
    ram_symbols: Mapping[str, int]
    library: int = 0

    @property
    def flash(self) -> int:
        """All that a program gets larger by, if nothing of the model is left out."""
        return self.code + self.weights + self.library

    def static_without(self, symbol: str) -> int:
        """RAM in bytes without one variable, for example `<name>_arena`; the variable may be absent.

        A static variable inside a function counts too: compilers call it `<symbol>.<number>`.
        """
        return self.static - sum(size for name, size in self.ram_symbols.items() if name.split(".")[0] == symbol)


def of_model(folder: Path, name: str, cflags: Sequence[str], *, opt: str = "-O3", cc: str | None = None) -> Sizes:
    """Sizes of the model in `folder`, compiled for a Cortex-M target with `cflags`, and linked."""
    tools = toolchain.cross(cflags, cc)
    with tempfile.TemporaryDirectory(prefix="f2c_size_") as work:
        return linked(tools, toolchain.compile_model(tools, folder, name, Path(work), opt=opt), name)


def linked(tools: toolchain.Toolchain, objects: Sequence[Path], name: str) -> Sizes:
    """Sizes of the model `name` from its object files, and of what they need of libraries."""
    found = sizes(objects, name)
    with tempfile.TemporaryDirectory(prefix="f2c_size_") as work:
        program = toolchain.link(tools, objects, Path(work) / f"{name}.elf",
                                 extra=["-nostartfiles", "-Wl,--no-gc-sections", f"-Wl,--entry={name}_run"])
        total = sum(s.size for s in read(program).sections if s.in_memory and not s.writable)
    return replace(found, library=max(total - found.code - found.weights, 0))


def sizes(objects: Iterable[Path], name: str) -> Sizes:
    """Sizes of the model `name` from its object files; BuildError if any of its weights would lie in RAM."""
    code = weights = static = 0
    ram_symbols: Counter[str] = Counter()
    for elf in map(read, objects):
        constant = sum(section.size for section in elf.sections if section.in_memory and not section.writable)
        ram = Counter({s.name: s.size for s in elf.symbols if s.section is not None and s.section.writable and s.size})
        used = sum(section.size for section in elf.sections if section.in_memory and section.writable)
        if elf.path.stem == f"{name}_weights":
            if used:
                names = ", ".join(sorted(ram)) or "unnamed data"
                raise BuildError(f"{used} bytes of weights would lie in RAM: {names}", hint="weights must be const")
            weights += constant
        else:
            code += constant
            static += used
            ram_symbols.update(ram)
    return Sizes(code=code, weights=weights, static=static, ram_symbols=ram_symbols)


def heap_symbols(path: Path) -> tuple[str, ...]:
    """The heap functions that a linked program contains; a model must leave this empty."""
    return tuple(sorted({symbol.name for symbol in read(path).symbols} & HEAP))


def read(path: Path) -> Elf:
    """Reads sections and symbols of an object file or a linked program."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x01\x01":
        raise BuildError(f"{path.name} is not a 32-bit little-endian ELF file")
    try:
        header = HEADER.unpack_from(data)
        start, entry, count, names_at = header[6], header[11], header[12], header[13]
        raw = [SECTION.unpack_from(data, start + index * entry) for index in range(count)]
        names = raw[names_at]
        sections = tuple(Section(_text(data, names[4] + each[0]), size=each[5], flags=each[2]) for each in raw)
        symbols = tuple(symbol for each in raw if each[1] == SHT_SYMTAB
                        for symbol in _symbols(data, each, raw[each[6]][4], sections))
    except (struct.error, IndexError, ValueError) as error:
        raise BuildError(f"{path.name} is a damaged ELF file: {error}") from error
    return Elf(path, sections, symbols)


def _symbols(data: bytes, table: tuple[int, ...], strings: int, sections: tuple[Section, ...]) -> Iterator[Symbol]:
    for at in range(table[4], table[4] + table[5], SYMBOL.size):
        name, value, size, _, _, index = SYMBOL.unpack_from(data, at)
        if name != 0 and index != SHN_UNDEF:
            yield Symbol(_text(data, strings + name), size, sections[index] if index < len(sections) else None, value)


def _text(data: bytes, start: int) -> str:
    return data[start:data.index(b"\0", start)].decode("utf-8", "replace")
