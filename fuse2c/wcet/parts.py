"""Pieces of Python source that carry out an instruction on abstract values, and what they read and write.

The source works on `R`, the 15 core registers (a number or None), `F`, the flags, and `m`, the stack's memory; see
`values`. `N` and `C` are scratch.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fuse2c.errors import Refused
from fuse2c.wcet.decode import Instruction
from fuse2c.wcet.operands import PC, SP, Imm, Reg
from fuse2c.wcet.values import M

FLAGS, LENGTH = 16, 17
"""The numbers that stand, among the registers read and written, for the flags and for the elements that an iteration of a
tail-predicated loop takes."""


@dataclass(frozen=True, slots=True)
class Part:
    """Source lines; the registers they read and write; whether they always stay; `adds`: all that they do is to add this
    constant to the register that they write."""

    lines: tuple[str, ...]
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    stays: bool = False
    adds: int | None = None


def part(lines: str | list[str], reads: Iterable[int] = (), writes: Iterable[int] = (), stays: bool = False,
         adds: int | None = None) -> Part:
    """A Part; whatever moves the stack pointer stays."""
    text = (lines,) if isinstance(lines, str) else tuple(lines)
    if SP in writes:
        text, stays = (*text, "deepest(R[13])"), True
    return Part(text, frozenset(reads), frozenset(writes), stays, adds)


def known(registers: Iterable[int]) -> str:
    """A condition: all of these registers are numbers."""
    return " and ".join(f"R[{r}] is not None" for r in sorted(set(registers))) or "True"


class Operand2:
    """The flexible second operand: an expression and the registers in it. `address` is that of the instruction.

    `before`: lines that compute it; `known`: the condition that it is a number.
    """

    def __init__(self, op: object, address: int) -> None:
        self.reads: list[int] = []
        self.before: list[str] = []
        if isinstance(op, Imm):
            self.text = str(op.value & M)
        elif isinstance(op, Reg) and op.n == PC:
            self.text = str((address + 4) & M)
        elif isinstance(op, Reg):
            self.reads = [op.n]
            self.text = f"R[{op.n}]"
            by = f"R[{op.amount}] & 255" if op.by_register else str(op.amount)
            if op.by_register:
                self.reads.append(op.amount)
            if op.shift and op.shift != "rrx":
                names = ", ".join(f"R[{r}]" for r in self.reads)
                self.before = [f"S = m.data(shift({op.shift!r}, {self.text}, {by}), {names}) if {known(self.reads)} else None"]
                self.text = "S"
        else:
            raise ValueError(op)
        self.unknown = isinstance(op, Reg) and op.shift == "rrx"
        self.known = "S is not None" if self.before else known(self.reads)


def reg(i: Instruction, at: int) -> int:
    """The number of the core register at an operand's place; Refused for the program counter and anything else."""
    op = i.ops[at]
    if not isinstance(op, Reg):
        raise Refused(f"{i}: a register is expected")
    if op.n == PC:
        raise Refused(f"{i} uses the program counter")
    return op.n


def imm(i: Instruction, at: int) -> int:
    """The constant at an operand's place."""
    op = i.ops[at]
    if not isinstance(op, Imm):
        raise Refused(f"{i}: a constant is expected")
    return op.value


def logic_flags(i: Instruction, d: int) -> list[str]:
    """The flags of a result in a register, carry unknown."""
    return [f"F = logged(R[{d}])"] if i.flags else []


def flagged(i: Instruction, *registers: int) -> list[int]:
    """Registers written, the flags among them if the instruction sets them."""
    return [*registers, FLAGS] if i.flags else [*registers]
