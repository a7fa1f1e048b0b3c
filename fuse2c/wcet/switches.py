"""Where a switch on data may go: the table that it reads, as far as the comparison or mask in front of it lets it.

The blocks on the one way to the jump are carried out on terms, which are linear in one number that is not known.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fuse2c.wcet.cfg import Block, Function
from fuse2c.wcet.decode import CONDITIONS, EXCLUSIVE_STORE, INVERSE, Instruction
from fuse2c.wcet.image import THUMB, Image
from fuse2c.wcet.operands import PC, SP, Imm, Mem, Reg, RegList
from fuse2c.wcet.transfers import WIDTHS
from fuse2c.wcet.values import M, Value, extend

LONGEST = 1 << 10       # cases
CHAIN = 4               # blocks looked at in front of the jump
STORES = ("st", "push", "vst", "vpush", EXCLUSIVE_STORE)
BELOW = {"ls": 1, "lo": 0}      # the conditions that a number is below a constant plus this


@dataclass(eq=False)
class Unknown:
    """A number that is not known: `least` .. `most` if that is not None. `table`: where it was loaded from, how wide, if
    signed."""

    most: int | None = None
    least: int = 0
    table: tuple[Term, int, bool] | None = None


class Term(NamedTuple):
    """offset + factor * of, of 32 bits; a constant if `of` is None."""

    offset: int
    factor: int = 0
    of: Unknown | None = None


def goals(function: Function, block: Block, registers: list[Value], image: Image) -> set[int] | None:
    """Where the last instruction of a block may jump to, or a call of libgcc's switches return; None if that is not found.

    `registers`: their values before the block.
    """
    found: set[int] = set()
    for way in _ways(function, block):
        path = _Path(registers, image, {r for one in way[:-1] for i in one.instructions for r in _written(i)})
        for at, one in enumerate(way):
            for i in one.instructions[:-1]:
                path.run(i)
            if at + 1 < len(way):
                path.run(one.last)
                path.pass_on(one, way[at + 1].start)
        target = path.target(block.last, function.helper(block))
        some = None if target is None else _enumerate(function, target, image)
        if some is None:
            return None
        found |= some
    return found


def _ways(function: Function, block: Block) -> list[list[Block]]:
    """Blocks that come right before a block, it being the last: a way for each block that leads to it. There are no others."""
    before = _before(function, block)
    return [[*_way(function, one), block] for one in before] or [[block]]


def _way(function: Function, block: Block) -> list[Block]:
    """The blocks that always come right before a block, and it."""
    way = [block]
    while len(way) < CHAIN:
        before = _before(function, way[0])
        if len(before) != 1 or before[0] in way:
            break
        way.insert(0, before[0])
    return way


def _before(function: Function, block: Block) -> list[Block]:
    """All blocks that lead to a block; none if control may also come from elsewhere."""
    before = [b for b in function.blocks.values() if block.start in b.successors]
    plain = all(b.ends in ("fall", "jump", "branch") for b in before)
    return before if plain and block.start != function.entry else []


def _written(i: Instruction) -> list[int]:
    """The core registers that an instruction may write, generously."""
    found = [op.base for op in i.ops if isinstance(op, Mem) and op.update]
    found += [SP] if i.name in ("push", "pop", "vpush", "vpop") else []
    if i.name.startswith(STORES) and i.name != EXCLUSIVE_STORE:
        return found
    found += [n for op in i.ops if isinstance(op, RegList) for n in op.numbers]
    return found + [op.n for op in i.ops if isinstance(op, Reg)]


class _Path:
    """Registers and memory as terms, along a way. `changing`: registers that the way may write before its last block."""

    def __init__(self, registers: list[Value], image: Image, changing: set[int]) -> None:
        self.image = image
        self._now = {r: _start(None if r in changing else registers[r]) for r in range(PC)}
        self._loaded: dict[tuple[Term, str], Term] = {}
        self._compared: tuple[Term, Term] | None = None

    def run(self, i: Instruction) -> None:
        """Carry out an instruction; what it writes is a new unknown number where it is none of those followed."""
        value = None if i.cond else self._value(i)
        if i.name in ("b", "cbz", "cbnz", "cmp", "nop", "it"):
            if i.name == "cmp":
                a, b = self._operand(i.ops[0]), self._operand(i.ops[1])
                self._compared = (a, b) if not i.cond and a and b else None
            return
        if i.flags or i.name in ("cmn", "tst", "teq") or i.name.startswith("v"):
            self._compared = None
        if i.name.startswith(STORES):
            self._loaded.clear()
            at = self._address(i.ops[1]) if i.name == "str" and not i.cond else None
            if at is not None and isinstance(i.ops[0], Reg):
                self._loaded[at, "ldr"] = self._now[i.ops[0].n]
        if value is None:
            self._now |= {r: Term(0, 1, Unknown()) for r in _written(i)}
        elif isinstance(i.ops[0], Reg):             # what is followed writes nothing else
            self._now[i.ops[0].n] = value

    def pass_on(self, block: Block, to: int) -> None:
        """The branch of a block leads on: what it compared is below a constant."""
        cond = block.last.cond
        if block.ends != "branch" or block.last.name != "b" or self._compared is None or cond not in CONDITIONS:
            return
        cond = cond if to == block.successors[0] else INVERSE[cond]
        a, b = self._compared
        if cond in BELOW and a.of is not None and a.factor == 1 and b.of is None and 0 < b.offset + BELOW[cond] <= LONGEST:
            low = -a.offset & M
            low -= (low >> 31) << 32
            a.of.most, a.of.least = b.offset - 1 + BELOW[cond] + low, low       # a.offset + number: 0 .. limit

    def target(self, i: Instruction, helper: tuple[int, bool] | None) -> Term | None:
        """Where the last instruction leads, as a term."""
        if helper is not None:
            return self._behind(i, *helper)
        if i.name in ("tbb", "tbh"):
            return self._branch(i)
        if i.name == "ldr":
            return self._load(i)
        last = self._operand(i.ops[-1]) if i.ops else None
        if last is None or i.name not in ("mov", "add", "bx"):
            return None
        return _add(last, Term(i.address + 4)) if i.name == "add" else last

    def _behind(self, i: Instruction, width: int, sign: bool) -> Term:
        """Behind a call of libgcc's: an entry of the table there, by the number in r0, in halfwords or, of words, bytes."""
        base = i.end if width < 4 else (i.end + 3) & ~3
        number = _times(self._now[0], width)
        entry = Unknown(table=(Term(base + number.offset & M, number.factor, number.of), width, sign))
        return Term(base, 2 if width < 4 else 1, entry)

    def _branch(self, i: Instruction) -> Term | None:
        """TBB and TBH: an entry of the table, in halfwords from the instruction on."""
        memory, width = i.ops[0], 1 if i.name == "tbb" else 2
        if not isinstance(memory, Mem) or memory.index is None:
            return None
        at = _add(Term(i.address + 4) if memory.base == PC else self._now[memory.base], _times(self._now[memory.index], width))
        return None if at is None else Term(i.address + 4, 2, Unknown(table=(at, width, False)))

    def _operand(self, op: object) -> Term | None:
        if isinstance(op, Imm):
            return Term(op.value & M)
        if isinstance(op, Reg) and op.n != PC and op.shift in ("", "lsl") and not op.by_register:
            return _times(self._now[op.n], 1 << op.amount)
        return None

    def _value(self, i: Instruction) -> Term | None:
        if i.name in WIDTHS and i.name.startswith("ld"):
            return self._load(i)
        if i.name == "adr" or (i.name == "add" and len(i.ops) == 3 and i.ops[1] == Reg(PC)):
            distance = i.ops[-1]
            return Term(((i.address + 4) & ~3) + distance.value & M) if isinstance(distance, Imm) else None
        if i.name == "add" and i.ops[-1] == Reg(PC):
            return _add(self._operand(i.ops[0]), Term(i.address + 4))
        if i.name in ("uxtb", "uxth"):
            return Term(0, 1, Unknown(0xFF if i.name == "uxtb" else 0xFFFF))
        terms = [self._operand(op) for op in i.ops]
        if not terms or terms[-1] is None or i.name not in ("mov", "add", "sub", "lsl", "lsr", "and"):
            return None
        first, last = terms[-2] if len(terms) > 1 else None, terms[-1]
        if i.name == "mov":
            return last
        if i.name == "and":
            masks = [t.offset for t in (first, last) if t is not None and t.of is None]
            return Term(0, 1, Unknown(min(masks))) if masks else None
        if i.name in ("add", "sub"):
            return _add(first, last if i.name == "add" else _times(last, -1))
        if last.of is not None or first is None or last.offset > 31:
            return None
        return _times(first, 1 << last.offset) if i.name == "lsl" else Term(0, 1, Unknown(M >> last.offset))

    def _address(self, memory: object) -> Term | None:
        if not isinstance(memory, Mem) or memory.update or memory.base == PC:
            return None
        at = _add(self._now[memory.base], Term(memory.offset & M))
        return at if memory.index is None else _add(at, _times(self._now[memory.index], 1 << memory.shift))

    def _load(self, i: Instruction) -> Term | None:
        memory = i.ops[1]
        if isinstance(memory, Mem) and memory.base == PC:
            at: Term | None = Term(((i.address + 4) & ~3) + memory.offset & M)
        else:
            at = self._address(memory)
        if at is None:
            return None
        width, sign = WIDTHS[i.name], i.name in ("ldrsb", "ldrsh")
        if at.of is None:
            word = self.image.read(at.offset, width)
            if word is not None:
                return Term(extend(word, 8 * width) if sign else word)
        key = at, i.name
        if key not in self._loaded:
            self._loaded[key] = Term(0, 1, Unknown(255 if i.name == "ldrb" else None, table=(at, width, sign)))
        return self._loaded[key]


def _start(value: Value) -> Term:
    return Term(0, 1, Unknown()) if value is None else Term(value)


def _times(a: Term, n: int) -> Term:
    return Term(a.offset * n & M, a.factor * n & M, a.of)


def _add(a: Term | None, b: Term | None) -> Term | None:
    if a is None or b is None or (a.of is not None and b.of is not None and a.of is not b.of):
        return None
    return Term(a.offset + b.offset & M, a.factor + b.factor & M, a.of or b.of)


def _enumerate(function: Function, target: Term, image: Image) -> set[int] | None:
    """The targets that a term stands for; None if it has no limit, or one of them is no code of the function."""
    entry, found = target.of, set()
    if entry is None:
        return None
    at = entry.table[0] if entry.table is not None else target
    numbers = range(1)                  # the place in the table is known
    if at.of is not None:
        if at.of.most is None or at.of.most - at.of.least >= LONGEST:
            return None
        numbers = range(at.of.least, at.of.most + 1)
    for number in numbers:
        to: int | None = at.offset + at.factor * number & M
        if entry.table is not None and to is not None:
            _, width, sign = entry.table
            to = image.read(to, width)
            if to is not None:
                to = target.offset + target.factor * (extend(to, 8 * width) if sign else to) & M
        if to is None or not function.inside(to & ~THUMB) or not image.is_code(to & ~THUMB):
            return None
        found.add(to & ~THUMB)
    return found
