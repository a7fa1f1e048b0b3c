"""Operands of Thumb instructions, parsed from the disassembler's text."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

SP, LR, PC = 13, 14, 15
ALIASES = {"sb": 9, "sl": 10, "fp": 11, "ip": 12, "sp": SP, "lr": LR, "pc": PC}
REGISTERS = {f"r{n}": n for n in range(16)} | ALIASES
SHIFTS = ("lsl", "lsr", "asr", "ror", "rrx")


@dataclass(frozen=True, slots=True)
class Reg:
    """A core register; `shift` is one of SHIFTS with its amount, a number or the number of a register."""

    n: int
    shift: str = ""
    amount: int = 0
    by_register: bool = False


@dataclass(frozen=True, slots=True)
class Imm:
    """A constant, of 32 bits when used."""

    value: int


@dataclass(frozen=True, slots=True)
class Mem:
    """An address: base + offset, or base + (index << shift). `update`: "" or how the base changes, "pre" or "post"."""

    base: int
    offset: int = 0
    index: int | None = None
    shift: int = 0
    update: str = ""


@dataclass(frozen=True, slots=True)
class RegList:
    """The core registers of a load or store of several, ascending."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Vector:
    """Floating-point registers of one kind ("s", "d" or "q"), `count` of them from number `first`."""

    kind: str
    first: int
    count: int = 1

    @property
    def bytes(self) -> int:
        """What they hold."""
        return self.count * {"s": 4, "d": 8, "q": 16}[self.kind]


@dataclass(frozen=True, slots=True)
class Word:
    """Anything else: a condition, a barrier's scope, a status register."""

    text: str


Operand = Reg | Imm | Mem | RegList | Vector | Word


class Unparsed(ValueError):
    """Text that is no operand known here."""


def parse(text: str) -> tuple[Operand, ...]:
    """The operands of one instruction. Unparsed for what is not understood."""
    out: list[Operand] = []
    for part in _split(text):
        last = out[-1] if out else None
        kind = part.split()[0] if part else ""
        if kind in SHIFTS and isinstance(last, Reg):
            out[-1] = _shifted(last, part)
        elif isinstance(last, Mem) and not last.update and not part.startswith("["):
            out[-1] = _post(last, part)
        else:
            out.append(_operand(part))
    return tuple(out)


def _split(text: str) -> list[str]:
    parts, depth, word = [], 0, ""
    for ch in text:
        depth += (ch in "[{") - (ch in "]}")
        if ch == "," and depth == 0:
            parts.append(word.strip())
            word = ""
        else:
            word += ch
    return [*parts, word.strip()] if word.strip() else parts


def _number(text: str) -> int:
    try:
        return int(text.lstrip("#"), 0)
    except ValueError:
        raise Unparsed(text) from None


def _register(text: str) -> int:
    if text not in REGISTERS:
        raise Unparsed(text)
    return REGISTERS[text]


def _shifted(reg: Reg, part: str) -> Reg:
    kind, _, amount = part.partition(" ")
    if kind == "rrx":
        return Reg(reg.n, "rrx")
    if amount.startswith("#"):
        return Reg(reg.n, kind, _number(amount))
    return Reg(reg.n, kind, _register(amount), True)


def _post(mem: Mem, part: str) -> Mem:
    if not part.startswith("#") or mem.index is not None or mem.offset:
        raise Unparsed(part)
    return Mem(mem.base, _number(part), update="post")


def _operand(part: str) -> Operand:
    if part.startswith("["):        # with a vector in it: gather, scatter, an address for each lane
        return Word(part) if re.search(r"\bq\d", part) else _memory(part)
    if part.startswith("{"):
        return _list(part.strip("{}^ "))
    if part.startswith("#"):
        return Imm(_number(part)) if ("." not in part and "e" not in part.lower().replace("0x", "")) or "0x" in part \
            else Word(part)
    name = part.rstrip("!")
    if name in REGISTERS:
        # A base that is written back (`ldm r0!`) is a memory operand whose extent the list tells.
        return Mem(REGISTERS[name], update="pre") if part.endswith("!") else Reg(REGISTERS[name])
    if re.fullmatch(r"[sdq]\d+", part):
        return Vector(part[0], int(part[1:]))
    return Word(part)


def _memory(part: str) -> Mem:
    inner = part[1:part.index("]")].split(",")
    base, rest = _register(inner[0].strip()), [word.strip() for word in inner[1:]]
    update = "pre" if part.endswith("!") else ""
    if not rest:
        return Mem(base, update=update)
    if rest[0].startswith("#"):
        return Mem(base, _number(rest[0]), update=update)
    shift = 0
    if len(rest) > 1:
        kind, _, amount = rest[1].partition(" ")
        if kind != "lsl":
            raise Unparsed(part)
        shift = _number(amount)
    return Mem(base, index=_register(rest[0]), shift=shift, update=update)


def _list(inner: str) -> RegList | Vector:
    words = [word.strip() for word in inner.split(",")]
    if words[0][:1] in ("s", "d", "q") and words[0][1:2].isdigit():
        numbers = [n for word in words for n in _range(word, lambda text: int(text[1:]))]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise Unparsed(inner)
        return Vector(words[0][0], numbers[0], len(numbers))
    return RegList(tuple(sorted(n for word in words for n in _range(word, _register))))


def _range(word: str, number: Callable[[str], int]) -> list[int]:
    first, _, last = word.partition("-")
    return list(range(number(first), number(last or first) + 1))
