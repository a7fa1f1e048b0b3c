"""Loops of one block in closed form: how often they run, and what an iteration adds to each register."""
from __future__ import annotations

import math
from typing import NamedTuple

from fuse2c.errors import Refused
from fuse2c.wcet.compiled import Step
from fuse2c.wcet.decode import Instruction
from fuse2c.wcet.operands import LR, PC, SP, Imm, Mem, Reg, Vector
from fuse2c.wcet.parts import FLAGS, Part
from fuse2c.wcet.state import State
from fuse2c.wcet.transfers import WIDTHS
from fuse2c.wcet.values import SIGN, STACK, WINDOW, M, inside, signed, window


class Term(NamedTuple):
    """The value of a register at the start of an iteration (None: zero) plus a constant."""

    register: int | None
    offset: int


class Store(NamedTuple):
    """A store in the loop: where, so many bytes; `valued`: the register whose value is followed."""

    where: Term | None
    width: int
    valued: int | None


class Summary(NamedTuple):
    """One iteration: the registers it writes, with what they become (None: unknown); the comparison that its branch
    looks at, of two terms or of one with zero; its stores; whether no more than equality can be told by the comparison."""

    writes: dict[int, Term | None]
    left: Term | None
    right: Term | None
    stores: tuple[Store, ...]
    equality: bool


def summary(step: Step) -> Summary | None:
    """What an iteration does; None if it does more than can be summed up."""
    writes: dict[int, Term | None] = dict.fromkeys(step.unknown - {FLAGS})
    terms: dict[int, Term | None] = {}
    compared: tuple[Term | None, Term | None] | None = None
    stores, equality = [], False
    for i, p in step.kept:
        if SP in p.writes or PC in p.writes or (i.cond and i.name != "b" and (FLAGS in p.writes or p.stays)):
            return None
        if p.stays:
            store = _store(i, p, terms)
            if store is None:
                return None
            stores.append(store)
            continue
        if FLAGS in p.writes:
            compared, equality = _compared(i, terms), i.name == "add"
        value = None if i.cond else _value(i, p, terms)
        for r in p.writes - {FLAGS}:
            terms[r] = value
    writes |= terms
    last = step.block.last
    if last.name in ("cbz", "cbnz"):
        compared, equality = (_term(last.ops[0], terms), Term(None, 0)), False
    elif last.name == "le":
        compared = None if LR in terms else (Term(LR, 0), Term(None, 1))
        writes[LR] = Term(LR, -1)
    return None if compared is None else Summary(writes, *compared, tuple(stores), equality)


def _term(op: object, terms: dict[int, Term | None]) -> Term | None:
    if isinstance(op, Imm):
        return Term(None, op.value)
    if isinstance(op, Reg) and not op.shift:
        return terms.get(op.n, Term(op.n, 0))
    return None


def _value(i: Instruction, p: Part, terms: dict[int, Term | None]) -> Term | None:
    """What the only register that a part writes becomes."""
    if p.adds is not None:
        base = _term(Reg(next(iter(p.writes))), terms)
        return Term(base.register, base.offset + p.adds) if base else None
    if i.name == "mov":
        return _term(i.ops[1], terms)
    if i.name not in ("add", "sub"):
        return None
    return _sum(i, terms)


def _sum(i: Instruction, terms: dict[int, Term | None]) -> Term | None:
    a, b = _term(i.ops[-2] if len(i.ops) == 3 else i.ops[0], terms), _term(i.ops[-1], terms)
    if a is None or b is None:
        return None
    if b.register is None:
        return Term(a.register, a.offset + (b.offset if i.name == "add" else -b.offset))
    return Term(b.register, b.offset + a.offset) if i.name == "add" and a.register is None else None


def _compared(i: Instruction, terms: dict[int, Term | None]) -> tuple[Term | None, Term | None] | None:
    if i.name == "cmp":
        return _term(i.ops[0], terms), _term(i.ops[1], terms)
    if i.name == "sub":
        return _term(i.ops[-2] if len(i.ops) == 3 else i.ops[0], terms), _term(i.ops[-1], terms)
    return (_sum(i, terms), Term(None, 0)) if i.name == "add" else None


def _store(i: Instruction, p: Part, terms: dict[int, Term | None]) -> Store | None:
    memory = next((op for op in i.ops if isinstance(op, Mem)), None)
    if memory is None or not i.name.startswith(("str", "vstr")):
        return None
    if any(line.startswith("m.lost") for line in p.lines):
        return None
    base = _term(Reg(memory.base), terms)
    followed = p.reads - {memory.base, memory.index}
    offset = 0 if memory.update == "post" else memory.offset
    where = None if base is None or memory.index is not None else Term(base.register, base.offset + offset)
    first = i.ops[0]
    width = first.bytes if isinstance(first, Vector) else 8 if i.name == "strd" else WIDTHS[i.name]
    return Store(where, width, next(iter(followed), None))


def closed_form(step: Step, state: State) -> int:
    """Runs all but the last of the iterations at once; returns how many that were, 0 if it cannot tell."""
    if step.summary is False:
        step.summary = summary(step)
    if not step.summary:
        return 0
    n = _iterations(step, step.summary, state) - 1
    fixed = _stores(step.summary, state, n) if n > 0 else None
    if fixed is None:
        return 0
    for where, width in fixed:
        state.memory.store(where, width, None, 0)
    registers = state.registers
    new = {r: _after(step.summary, registers, r, n) for r in step.summary.writes}
    for r, value in new.items():
        old = registers[r]
        if value is not None and old is not None and window(value) != window(old):
            value = None
        if value is None:
            state.memory.lost(registers[r])
        registers[r] = value
    return n


def _after(s: Summary, registers: list, r: int, n: int) -> int | None:
    """A register after n iterations, n > 0."""
    term = s.writes[r]
    if term is None:
        return None
    if term.register is None:
        return term.offset & M
    if term.register == r:
        return None if registers[r] is None else registers[r] + n * term.offset & M
    if term.register not in s.writes and registers[term.register] is not None:
        return registers[term.register] + term.offset & M
    return None


def _line(s: Summary, registers: list, term: Term | None) -> tuple[int, int] | None:
    """A term's value in the first iteration and what each further one adds."""
    if term is None:
        return None
    if term.register is None:
        return term.offset & M, 0
    value = registers[term.register]
    change = s.writes.get(term.register, Term(term.register, 0))
    if value is None or change is None or change.register != term.register:
        return None
    return value + term.offset & M, change.offset


def _iterations(step: Step, s: Summary, state: State) -> int:
    """How often the loop still runs; 0 if that is not known. Refused if it never ends."""
    left, right = _line(s, state.registers, s.left), _line(s, state.registers, s.right)
    if left is None or right is None or window(left[0]) != window(right[0]):
        return 0
    last = step.block.last
    if last.name == "le":
        return left[0]
    condition = {"cbz": "eq", "cbnz": "ne"}.get(last.name, last.cond)
    if step.block.successors[0] != step.block.start:
        condition = _OPPOSITE.get(condition, "")
    (a, da), (b, db) = left, right
    if condition == "ne":
        n = until_equal((a - b) & M, (da - db) & M)
        if n == 0:
            raise Refused(f"the loop at {state.memory.image.place(step.block.start)} never ends: its counter steps over the "
                          "limit", hint="compare with < instead of !=")
        return n
    if s.equality or db or condition not in _ORDER or (window(a) and _ORDER[condition][0]):
        return 0
    return _while_below(condition, a, da, b)


_OPPOSITE = {"eq": "ne", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "lo": "hs", "hs": "lo", "hi": "ls", "ls": "hi"}
# The loop goes on while a < b, after turning the comparison: (signed, a and b change roles, or equal).
_ORDER = {"lt": (True, False, False), "le": (True, False, True), "gt": (True, True, False), "ge": (True, True, True),
          "lo": (False, False, False), "ls": (False, False, True), "hi": (False, True, False), "hs": (False, True, True)}


def until_equal(distance: int, change: int) -> int:
    """The first k for which distance + (k - 1) * change is 0 modulo 2^32; 0 if there is none."""
    if distance == 0:
        return 1
    divisor = math.gcd(change, 1 << 32)
    if change == 0 or distance % divisor:
        return 0
    period = (1 << 32) // divisor
    return -distance // divisor * pow(change // divisor, -1, period) % period + 1


def _while_below(condition: str, a: int, change: int, b: int) -> int:
    """Iterations while `a`, which changes by a constant, compares like this with the constant `b`; 0 if it wraps."""
    with_sign, reverse, equal = _ORDER[condition]
    low, high = (-SIGN, SIGN - 1) if with_sign else (0, M)
    if with_sign:
        a, b = signed(a), signed(b)
    if reverse:
        a, b, change, low, high = -a, -b, -change, -high, -low
    limit = b + 1 if equal else b           # it goes on while a < limit
    if a >= limit:
        return 1
    if change <= 0:
        return 0
    k = (limit - a + change - 1) // change
    return k + 1 if a + k * change <= high else 0


def _stores(s: Summary, state: State, n: int) -> list[tuple[int, int]] | None:
    """Where n iterations store into the stack, each to the same places, as (address, width); None if other places that are
    followed may change."""
    fixed = []
    for store in s.stores:
        if store.valued is not None:
            value = state.registers[store.valued]
            if store.valued in s.writes or (value is not None and inside(value)):
                return None
        where = _line(s, state.registers, store.where)
        if where is None:
            # A pointer that is unknown from the start stays outside the stack, unless one into it has got lost.
            if state.memory.wild or not _foreign(s, state, store.where):
                return None
            continue
        first, last = where[0], where[0] + n * where[1]
        if not window(first) and any(state.memory.image.read(at, 1) is not None for at in (first, last & M)):
            return None
        if (min(first, last) >> WINDOW) <= STACK <= (max(first, last) + store.width) >> WINDOW:
            if where[1]:
                return None
            fixed.append((first, store.width))
    return fixed


def _foreign(s: Summary, state: State, where: Term | None) -> bool:
    """Whether an address is that of an unknown register plus constants in every iteration."""
    if where is None or where.register is None or state.registers[where.register] is not None:
        return False
    change = s.writes.get(where.register, where)
    return change is not None and change.register == where.register
