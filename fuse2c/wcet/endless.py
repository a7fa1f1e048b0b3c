"""Loops that do not end, told early: nothing leads out, nothing that is known changes, or an end that is too far off."""
from __future__ import annotations

import itertools
from typing import NamedTuple

from fuse2c.errors import Refused
from fuse2c.wcet.cfg import Function
from fuse2c.wcet.closed import until_equal
from fuse2c.wcet.decode import COUNTED, Instruction
from fuse2c.wcet.operands import LR, Reg
from fuse2c.wcet.state import State
from fuse2c.wcet.values import SIGN, Flags, M, Value, signed

FEW, LONG = 4, 4096             # turns of a loop: from when on it is watched, and at every turn
MEASURED = 64                   # turns from when on counters are taken to go on as they did
FURTHEST = 100_000_000          # turns that no analysis lives to see
LONGEST_LOOSE = 1 << 17         # turns of a loop that data may end while a counter ends it too
OF_THE_RESULT = ("mi", "pl", "vs", "vc")         # conditions on what a comparison computes, not on what it compares
HINT = "end the loop by a counter with a constant limit too, or say how often it turns: --bound {}=TURNS"


Pair = tuple[int, int]
"""Two numbers that are compared."""


class Sample(NamedTuple):
    """At a turn: what each branch that may end the loop compared last."""

    turns: int
    pairs: dict[int, Pair | None]


def no_bound(place: str) -> Refused:
    """The refusal of a loop that data ends."""
    return Refused(f"no bound for the loop at {place}: no number that is known ends it", hint=HINT.format(place))


def ways_out(function: Function, header: int) -> list[int]:
    """The blocks of a loop that control may leave it from."""
    body = function.loops[header]
    return [b for b in sorted(body) if not function.blocks[b].successors or function.blocks[b].conditional
            or function.blocks[b].ends == "indirect" or any(to not in body for to in function.blocks[b].successors)]


def compared(i: Instruction, registers: list[Value], flags: Flags) -> Pair | None:
    """The two numbers that a branch compares; None if they are not known."""
    if i.name in ("cbz", "cbnz", *COUNTED):
        first = Reg(LR) if i.name in COUNTED else i.ops[0]
        value = registers[first.n] if isinstance(first, Reg) else None
        return None if value is None else (value, 0)
    if flags is None or flags[0] not in ("sub", "add", "log"):
        return None
    if flags[0] == "sub" and i.cond not in OF_THE_RESULT:
        return flags[1], flags[2]
    return (flags[1] if flags[0] == "log" else flags[1] - flags[2] if flags[0] == "sub" else flags[1] + flags[2]) & M, 0


class Watch:
    """What was seen of each loop since it was entered, by its header."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple] = {}
        self._samples: dict[int, list[Sample]] = {}
        self.last: dict[int, Pair | None] = {}      # by block: what its branch compared when it was decided last

    def enter(self, function: Function, header: int) -> None:
        """A loop is entered. Refused if nothing leads out of it."""
        self._kept.pop(header, None)
        self._samples.pop(header, None)
        if not ways_out(function, header):
            raise Refused(f"no bound for the loop at {function.place(header)}: nothing leads out of it",
                          hint=f"if no run gets there, say so: --bound {function.place(header)}=0")

    def turn(self, function: Function, header: int, turns: int, state: State) -> None:
        """A turn of a loop whose end no fact tells. Refused if it would go on for ever, or further than is followed."""
        if turns < FEW:
            return
        self._stuck(function, header, turns, state)
        if turns >= MEASURED // 4 and turns & (turns - 1) == 0:
            self._far(function, header, turns, state)

    def _stuck(self, function: Function, header: int, turns: int, state: State) -> None:
        """Nothing that is known changes. The state is kept at powers of two and compared a turn later, and at every turn of
        long loops (Brent)."""
        kept = self._kept.get(header)
        if kept is not None and (turns > LONG or turns & (turns - 1) == 1) and kept[0] == state.registers[:15] \
                and kept[1] == state.flags and kept[2] == (state.memory.words, state.memory.bytes):
            raise no_bound(function.place(header))
        if turns & (turns - 1) == 0:
            self._kept[header] = (state.registers[:15], state.flags, (dict(state.memory.words), dict(state.memory.bytes)))

    def _far(self, function: Function, header: int, turns: int, state: State) -> None:
        """All known ends are counters at a constant pace, and the nearest is further than is followed."""
        blocks = [b for b in ways_out(function, header) if b in self.last]
        samples = self._samples.setdefault(header, [])
        if samples and samples[-1].turns >= turns:              # another state's, behind
            return
        samples.append(Sample(turns, {b: self.last[b] for b in blocks}))
        if turns < MEASURED or not blocks:
            return
        left = [_left(b, function.blocks[b].last, samples[-3:]) for b in blocks] if len(samples) > 2 else [None]
        most = LONGEST_LOOSE if state.loose.get(header) else FURTHEST
        if all(n is not None and n > most for n in left):
            place = function.place(header)
            raise Refused(f"no bound for the loop at {place}: its counter steps over its limit, or is further from it than "
                          f"{most:,} turns", hint="compare with < instead of !=; " + HINT.format(place))


def _left(block: int, last: Instruction, samples: list[Sample]) -> int | None:
    """Turns until a comparison comes out in another way; None if its numbers do not change at a constant pace."""
    pairs = [pair for s in samples if (pair := s.pairs.get(block)) is not None]
    turns = samples[1].turns - samples[0].turns             # between the second and the third twice as many
    if len(pairs) < 3:
        return None
    paces = [_pace([pair[k] for pair in pairs], turns) for k in (0, 1)]
    if None in paces or paces[0] == paces[1]:
        return None
    (a, b), (x, y) = pairs[-1], paces
    change = x - y                                          # type: ignore[operator]
    if last.cond in ("eq", "ne", ""):
        return until_equal(a - b & M, change & M) or 1 << 32
    bias = SIGN if last.cond in ("lt", "le", "gt", "ge", *OF_THE_RESULT) else 0
    return min(_wraps(a - b & M, change), _wraps(a ^ bias, x), _wraps(b ^ bias, y))         # type: ignore[arg-type]


def _pace(values: list[int], turns: int) -> int | None:
    """What each turn adds to a number, by three values of which the second is so many turns behind the first."""
    first, second = (signed(after - before & M) for before, after in itertools.pairwise(values))
    return first // turns if second == 2 * first and first % turns == 0 else None


def _wraps(value: int, change: int) -> int:
    """Turns until a number passes 0."""
    return 1 << 32 if change == 0 else (-value & M if change > 0 else value) // abs(change)
