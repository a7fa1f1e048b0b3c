"""Where in a function a register or stack slot may hold a pointer into the stack, and how deep the stack is there.

A forward data-flow analysis. Only what may be such a pointer has to be followed when it is stored: a pointer that got out
of sight could be used to change the frame.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fuse2c.wcet.cfg import Block, Function
from fuse2c.wcet.decode import Instruction
from fuse2c.wcet.operands import PC, SP, Imm, Mem, Reg, RegList, Vector
from fuse2c.wcet.parts import FLAGS, Part

Place = int | tuple[str, int]
"""A register, or ("slot", n): the word n of the frame, counted from the stack pointer at the entry."""
ANYWHERE = ("slot", 1 << 30)
RETURNED = frozenset((0, 1))
VOLATILE = frozenset((0, 1, 2, 3, 12, 14))
LOADS, STORES = ("ldr", "ldrd", "pop", "ldm", "ldmdb"), ("str", "strd", "push", "stm", "stmdb")
PLAIN_MEMORY = ("mem", "__aeabi_mem")


@dataclass(frozen=True)
class Here:
    """Before an instruction: how far the stack pointer is from that at the entry, and what may point into the stack."""

    depth: int
    pointers: frozenset[Place]


def trace(function: Function, parts: dict[int, list[Part]], arguments: Iterable[int]) -> dict[int, Here] | None:
    """The state before every instruction; None if the stack pointer changes by what is no constant."""
    before: dict[int, Here] = {}
    entry = {function.entry: Here(0, frozenset(arguments))}
    work = [function.entry]
    while work:
        start = work.pop()
        here = entry[start]
        block = function.blocks[start]
        for i in block.instructions:
            before[i.address] = here
            moved = depth_change(i)
            if moved is None:
                return None
            here = Here(here.depth + moved, _after(function, block, i, here, parts[i.address]))
        for to in block.successors:
            old = entry.get(to)
            if old is not None and old.depth != here.depth:
                return None
            new = here if old is None else Here(old.depth, old.pointers | here.pointers)
            if new != old:
                entry[to] = new
                work.append(to)
    return before


def depth_change(i: Instruction) -> int | None:
    """By how many bytes an instruction moves the stack pointer; None if that is not known."""
    if i.name in ("push", "pop", "vpush", "vpop"):
        listed = i.ops[-1]
        size = 4 * len(listed.numbers) if isinstance(listed, RegList) else listed.bytes if isinstance(listed, Vector) else 0
        return size if i.name.endswith("pop") else -size
    memory = next((op for op in i.ops if isinstance(op, Mem)), None)
    if memory is not None and memory.base == SP and memory.update:
        listed = i.ops[-1]
        if isinstance(listed, RegList | Vector):
            size = 4 * len(listed.numbers) if isinstance(listed, RegList) else listed.bytes
            return -size if i.name.endswith("db") else size
        return memory.offset
    if i.ops and i.ops[0] == Reg(SP) and i.name in ("add", "sub", "mov"):
        last = i.ops[-1]
        if i.name == "mov" or not isinstance(last, Imm) or (len(i.ops) == 3 and i.ops[1] != Reg(SP)):
            return None
        return last.value if i.name == "add" else -last.value
    return 0


def slots(i: Instruction, depth: int) -> list[Place]:
    """The frame's words that a load or store through the stack pointer touches, in the order of its registers."""
    if i.name in ("push", "pop") or (i.name in ("ldm", "ldmdb", "stm", "stmdb") and _base(i) == SP):
        listed = i.ops[-1]
        count = len(listed.numbers) if isinstance(listed, RegList) else 0
        first = depth - 4 * count if i.name in ("push", "stmdb", "ldmdb") else depth
        return [("slot", first // 4 + k) for k in range(count)]
    memory = next((op for op in i.ops if isinstance(op, Mem)), None)
    if memory is None or memory.base != SP or not i.name.startswith(("ldr", "str")):
        return []
    if memory.index is not None:
        return [ANYWHERE]
    at = depth + (0 if memory.update == "post" else memory.offset)
    return [("slot", at // 4 + k) for k in range(2 if i.name in ("ldrd", "strd") else 1)]


def _base(i: Instruction) -> int:
    first = i.ops[0]
    if i.name in ("push", "pop"):
        return SP
    memory = next((op for op in i.ops if isinstance(op, Mem)), None)
    return memory.base if memory else first.n if isinstance(first, Reg) else PC


def moved_registers(i: Instruction) -> list[int]:
    """The core registers that a load or store moves."""
    last = i.ops[-1]
    if isinstance(last, RegList):
        return list(last.numbers)
    return [op.n for op in i.ops[:2 if i.name in ("ldrd", "strd") else 1] if isinstance(op, Reg)]


def _after(function: Function, block: Block, i: Instruction, here: Here, parts: list[Part]) -> frozenset[Place]:
    """What may point into the stack behind an instruction."""
    now = here.pointers
    if i.name in ("bl", "blx"):
        return _called(function, block, now) | (now if i.cond else frozenset())
    gone: set[Place] = set()
    come: set[Place] = set()
    listed = slots(i, here.depth)
    through = _base(i) in now if i.name in LOADS + STORES else False
    some = any(isinstance(p, tuple) for p in now)
    if i.name in LOADS:
        for k, r in enumerate(moved_registers(i)):
            found = (listed[k] in now or ANYWHERE in now) if listed else through and some
            (come if found else gone).add(r)
    elif i.name in STORES:
        for k, r in enumerate(moved_registers(i)):
            if listed:
                (come if r in now else gone).add(listed[k])
            elif through and r in now:
                come.add(ANYWHERE)
    else:
        for p in parts:
            points = bool(p.reads & now) or SP in p.reads
            loads = i.name.startswith(("ldr", "vldr"))
            (come if points and not loads else gone).update(p.writes - {SP, FLAGS})
    return now | come if i.cond else (now - gone) | come


def _called(function: Function, block: Block, now: frozenset[Place]) -> frozenset[Place]:
    if block.ends not in ("call", "invoke"):
        return now - {14}
    kept = now - VOLATILE
    if not now & {0, 1, 2, 3}:
        return kept
    name = function.place(block.taken) if block.taken is not None else ""
    return kept | RETURNED | (frozenset() if name.startswith(PLAIN_MEMORY) else {ANYWHERE})
