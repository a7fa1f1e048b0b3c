"""An abstract machine state, and how two of them become one."""
from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import NamedTuple

from fuse2c.errors import InternalError
from fuse2c.wcet.compiled import Code
from fuse2c.wcet.memory import Memory
from fuse2c.wcet.parts import FLAGS
from fuse2c.wcet.values import Flags, Value, inside


class Summary(NamedTuple):
    """The largest costs of any call of a function, the stack that it takes, and its `totals`, as in State."""

    instructions: int
    cycles: int
    stack: int
    totals: dict[int, int]


class Frame(NamedTuple):
    """A call in progress: where it returns to, the block that called, the stack pointer at its start,
    the position of the calls around it, and the costs at its start: (function, instructions, cycles), of several after
    tail calls."""

    back: int
    call: int
    code: Code
    sp: int
    prefix: tuple[int, ...]
    owners: tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class State:
    """Registers, flags, stack, calls, and the largest cost of the ways here.

    `turns`: iterations of each loop since it was entered; `totals`: since the start, and how often each way of a branch was
    taken, by the block it leads to; `loose`: iterations that data may have ended.
    """

    registers: list[Value]
    flags: Flags
    memory: Memory
    frames: list[Frame]
    pc: int
    turns: dict[int, int]
    totals: dict[int, int]
    loose: dict[int, int]
    instructions: int = 0
    cycles: int = 0

    def copy(self) -> State:
        """An independent state."""
        return State(self.registers[:], self.flags, self.memory.copy(), self.frames[:], self.pc, dict(self.turns),
                     dict(self.totals), dict(self.loose), self.instructions, self.cycles)

    def twin(self) -> State:
        """A state for another way to the same block, on which no loop is entered or turned and no call made."""
        return State(self.registers[:], self.flags, self.memory.copy(), self.frames, self.pc, self.turns, self.totals,
                     self.loose, self.instructions, self.cycles)

    def forget(self, live: frozenset[int]) -> None:
        """Registers that nothing reads do not keep states apart."""
        for r in set(range(15)) - live:
            value = self.registers[r]
            if value is not None and not inside(value):
                self.registers[r] = None
        if FLAGS not in live:
            self.flags = None

    def distance(self, other: State) -> int:
        """In how many registers and words of the stack two states differ."""
        registers = sum(map(operator.ne, self.registers, other.registers))
        words = 0 if self.memory.same(other.memory) else 1 + len(self.memory.words.items() ^ other.memory.words.items())
        return registers + words + (self.flags != other.flags)

    def merge(self, other: State) -> None:
        """Become what holds in both, with the larger costs."""
        if self.pc != other.pc or len(self.frames) != len(other.frames):
            raise InternalError(f"two states at {self.pc:#x} and {other.pc:#x} were to be merged")
        for r in range(15):
            if self.registers[r] != other.registers[r]:
                self.registers[r] = self.memory.either(self.registers[r], other.registers[r])
        if self.flags != other.flags:
            self.flags = None
        self.memory.merge(other.memory)
        self.instructions = max(self.instructions, other.instructions)
        self.cycles = max(self.cycles, other.cycles)
        if self.frames is other.frames:
            return
        for mine, theirs in ((self.turns, other.turns), (self.totals, other.totals), (self.loose, other.loose)):
            for header, n in theirs.items():
                mine[header] = max(mine.get(header, 0), n)
        for k, (a, b) in enumerate(zip(self.frames, other.frames, strict=True)):
            if a is not b:
                self.frames[k] = a._replace(owners=tuple((f, min(i, j), min(c, d)) for (f, i, c), (_, j, d) in
                                                         zip(a.owners, b.owners, strict=False)))
