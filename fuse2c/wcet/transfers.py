"""Loads and stores of core registers, as parts of Python source."""
from __future__ import annotations

from fuse2c.errors import Refused
from fuse2c.wcet.decode import Instruction
from fuse2c.wcet.operands import LR, PC, SP, Mem, Reg, RegList
from fuse2c.wcet.parts import Part, known, part
from fuse2c.wcet.values import M

WIDTHS = {"ldr": 4, "ldrb": 1, "ldrh": 2, "ldrsb": 1, "ldrsh": 2, "str": 4, "strb": 1, "strh": 2}
SAVED = frozenset((*range(4, 12), LR))
"""Registers that a function saves: a push of these alone is no array."""


def translate(i: Instruction, valued: bool) -> list[Part] | None:
    """The parts of a load or store, None for other instructions. `valued`: what it stores is to be followed."""
    if i.name in WIDTHS:
        registers, memory = [i.ops[0]], i.ops[1]
    elif i.name in ("ldrd", "strd"):
        registers, memory = list(i.ops[:2]), i.ops[2]
    elif i.name in ("push", "pop", "ldm", "ldmdb", "stm", "stmdb"):
        return _several(i)
    else:
        return None
    if not isinstance(memory, Mem):
        raise Refused(f"{i}: a memory operand is expected")
    numbers = [op.n for op in registers if isinstance(op, Reg)]
    parts = _stores(i, numbers, memory, valued) if i.name[0] == "s" else _loads(i, numbers, memory)
    change = update(memory)
    return [*parts, *([change] if change else [])]


def address(i: Instruction, memory: Mem, more: int = 0) -> tuple[str, list[int]]:
    """An expression for the address (None if unknown), `more` bytes on, and the registers in it."""
    if memory.base == PC:
        if memory.index is not None:
            raise Refused(f"{i} takes an index from the program counter")
        return str(((i.address + 4) & ~3) + memory.offset + more & M), []
    offset = (0 if memory.update == "post" else memory.offset) + more
    base = f"R[{memory.base}]"
    if memory.index is None:
        return f"(None if {base} is None else {base} + {offset} & {M})" if offset else base, [memory.base]
    index = f"R[{memory.index}]"
    scaled = f"m.data({index} << {memory.shift} & {M}, {index})" if memory.shift else index
    reads = [memory.base, memory.index]
    text = f"m.plus({base}, {scaled}) if {index} is not None else m.loose({base}, None)"
    return f"({text})" if not more else f"m.plus({text}, {more})", reads


def update(memory: Mem) -> Part | None:
    """The write to the base register, if there is one."""
    if not memory.update:
        return None
    b = memory.base
    return part(f"R[{b}] = None if R[{b}] is None else R[{b}] + {memory.offset} & {M}", [b], [b], adds=memory.offset)


def _loads(i: Instruction, registers: list[int], memory: Mem) -> list[Part]:
    width = WIDTHS.get(i.name, 4)
    if registers[0] == PC:
        where, reads = address(i, memory)
        return [part([*_indexed(memory), f"R[15] = m.load({where}, 4)"], reads, [PC], stays=True)]
    if len(registers) == 2:
        (first, reads), (second, _) = address(i, memory), address(i, memory, 4)
        a, b = registers
        return [part(f"R[{a}], R[{b}] = m.load({first}, 4), m.load({second}, 4)", reads, [a, b])]
    d, (where, reads) = registers[0], address(i, memory)
    lines = [f"R[{d}] = m.load({where}, {width})"]
    if width == 4:
        lines = [*_indexed(memory), *lines]
    if i.name in ("ldrsb", "ldrsh"):
        lines.append(f"if R[{d}] is not None: R[{d}] = extend(R[{d}], {8 * width})")
    if memory.update and d == memory.base:
        raise Refused(f"{i} loads its own base")
    return [part(lines, reads, [d])]


def _indexed(memory: Mem) -> list[str]:
    """Notes where a word comes from that is the entry of a table."""
    return [] if memory.index is None else [f"m.indexed = R[{memory.base}], R[{memory.index}]"]


def _stores(i: Instruction, registers: list[int], memory: Mem, valued: bool) -> list[Part]:
    parts = []
    width = WIDTHS.get(i.name, 4)
    for k, r in enumerate(registers):
        where, reads = address(i, memory, 4 * k)
        value = f"R[{r}], 0" if valued else f"None, {i.address}"
        parts.append(part(f"m.store({where}, {width}, {value})", [*reads, *([r] if valued else [])], stays=True))
    return parts


def _several(i: Instruction) -> list[Part]:
    listed = i.ops[-1]
    if not isinstance(listed, RegList):
        raise Refused(f"{i}: a list of registers is expected")
    base_op = i.ops[0]
    if i.name in ("push", "pop"):
        base, moves = SP, True
    elif isinstance(base_op, Mem | Reg):
        base, moves = (base_op.base, True) if isinstance(base_op, Mem) else (base_op.n, False)
    else:
        raise Refused(f"{i}: a base register is expected")
    count = len(listed.numbers)
    down = i.name in ("push", "stmdb", "ldmdb")
    lowest = -4 * count if down else 0
    parts = []
    # A base in the list is loaded last, as the others need it.
    for k, r in sorted(enumerate(listed.numbers), key=lambda item: item[1] == base):
        where = f"(None if R[{base}] is None else R[{base}] + {lowest + 4 * k} & {M})"
        if i.name in ("push", "stm", "stmdb"):
            lines = [f"m.store({where}, 4, R[{r}], 0)"]
            if base == SP and moves and set(listed.numbers) <= SAVED | {3}:     # r3 fills up to 8 bytes
                lines.append(f"if {known([base])}: m.guard({where})")
            parts.append(part(lines, [base, r], stays=True))
        else:
            parts.append(part(f"R[{r}] = m.load({where}, 4)", [base], [r], stays=r == PC))
    loaded = i.name in ("pop", "ldm", "ldmdb") and base in listed.numbers
    change = update(Mem(base, -4 * count if down else 4 * count, update="pre")) if moves and not loaded else None
    return [*parts, *([change] if change else [])]
