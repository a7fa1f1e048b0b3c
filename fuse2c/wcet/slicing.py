"""Which parts of a function's instructions decide where control goes, or what memory the stack's pointers reach.

The others are left out of the simulation and what they write is unknown. That is sound whatever is left out wrongly:
an unknown value makes a branch fork, it never makes one go the wrong way. Stores always stay.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping

from fuse2c.wcet.cfg import Block, Function
from fuse2c.wcet.decode import COUNTED, Instruction
from fuse2c.wcet.operands import LR, SP, Mem, Reg
from fuse2c.wcet.parts import FLAGS, Part
from fuse2c.wcet.pointers import ANYWHERE, Here, Place, moved_registers, slots, trace
from fuse2c.wcet.translate import translate

ARGUMENTS = frozenset(range(4))
KEPT = frozenset((*range(4, 12), SP))
CLOBBERED = frozenset((0, 1, 2, 3, 12, LR, FLAGS))
ARITHMETIC, FOLLOWED = ("__aeabi_",), ("__aeabi_mem", "__aeabi_idiv", "__aeabi_uidiv")
"""Calls for arithmetic that the core lacks, on numbers that are data; divisions may also compute rows and columns."""
WORD_STORES = ("str", "strd")


def computes(name: str) -> bool:
    """Whether a function does arithmetic on numbers that are data."""
    return name.startswith(ARITHMETIC) and not name.startswith(FOLLOWED)


def parts_of(function: Function, demanded: Collection[int], arguments: frozenset[int],
             root: bool) -> tuple[dict[int, list[Part]], set[tuple[int, int]], dict[int, frozenset[int]]]:
    """The parts of every instruction, those that stay, and the registers that matter before each block.

    Followed are the values of `demanded` stores, of words that may be pointers into the stack, and of slots of the frame
    that a part which stays loads. `arguments`: registers that come with pointers into the stack; `root`: the caller's
    registers do not matter.
    """
    instructions = [i for b in function.blocks.values() for i in b.instructions]
    parts = {i.address: translate(i, i.address in demanded) for i in instructions}
    here = trace(function, parts, arguments)
    followed = {i.address for i in instructions if i.name in WORD_STORES and here is None}
    if here is not None:
        followed |= {i.address for i in instructions if i.name.startswith("str") and _matters(i, here[i.address].pointers)}
        followed |= _arrays(instructions, here)
    for i in instructions:
        if i.address in followed:
            parts[i.address] = translate(i, True)
        elif here is not None:
            pointers = here[i.address].pointers
            parts[i.address] = [p for p in parts[i.address] if p.writes or _may_lose(p, pointers)]
    if here is None:
        for i in instructions:
            if i.name.startswith("str"):
                parts[i.address] = translate(i, True)
        return parts, *relevant(function, parts, root)
    stores = {i.address: i.name.startswith("st") for i in instructions}
    frame = {i.address: slots(i, here[i.address].depth) for i in instructions}
    while True:
        stay, live = relevant(function, parts, root)
        loaded = {slot for address, _ in stay for slot in frame[address] if not stores[address]}
        more = [i for i in instructions if stores[i.address] and i.address not in followed
                and (loaded.intersection(frame[i.address]) or (ANYWHERE in loaded and frame[i.address]))]
        if not more:
            return parts, stay, live
        for i in more:
            followed.add(i.address)
            parts[i.address] = translate(i, True)


def _may_lose(p: Part, pointers: frozenset[Place]) -> bool:
    """Whether a part matters that only loses sight of a pointer, in a register or in the frame. Others do."""
    if p.lines[0].startswith("m.lost("):
        return bool(p.reads & pointers)
    if p.lines[0].startswith("m.copied("):
        return any(isinstance(place, tuple) for place in pointers) and bool(p.reads & {SP, *pointers})
    return True


def _matters(i: Instruction, pointers: frozenset[Place]) -> bool:
    """Whether a store may write a pointer into the stack, or may itself be to a local array."""
    memory = next(op for op in i.ops if isinstance(op, Mem))
    return memory.base in pointers or (i.name in WORD_STORES and bool(pointers.intersection(moved_registers(i))))


def _arrays(instructions: list[Instruction], here: Mapping[int, Here]) -> set[int]:
    """Stores to words of the frame that are never loaded through the stack pointer: the start values of local arrays."""
    loaded = {slot for i in instructions if i.name.startswith("ldr") for slot in slots(i, here[i.address].depth)}
    return {i.address for i in instructions if i.name.startswith("str")
            if (touched := slots(i, here[i.address].depth)) and not loaded.intersection(touched)}


def relevant(function: Function, parts: dict[int, list[Part]], root: bool
             ) -> tuple[set[tuple[int, int]], dict[int, frozenset[int]]]:
    """The parts that stay, as (instruction, index), by liveness backwards from every branch, address and call; and what is
    live before each block."""
    live: dict[int, frozenset[int]] = {b: frozenset() for b in function.blocks}
    stay: set[tuple[int, int]] = set()
    work = sorted(function.blocks, key=lambda b: -function.order[b])
    changed = True
    while changed:
        changed = False
        for start in work:
            block = function.blocks[start]
            now = _block(block, _at_end(function, block, live, root), parts, stay)
            if now != live[start]:
                live[start], changed = now, True
    return stay, live


def _at_end(function: Function, block: Block, live: dict[int, frozenset[int]], root: bool) -> frozenset[int]:
    """What matters behind the last instruction of a block."""
    after = frozenset().union(*(live.get(to, frozenset()) for to in block.successors))
    if block.ends in ("call", "invoke"):
        name = function.place(block.taken) if block.taken is not None else ""
        kept = after | _decides(block.last) if block.conditional else after - CLOBBERED
        return kept | (frozenset() if computes(name) else ARGUMENTS) | {LR, SP}
    if block.ends == "indirect":
        after |= {SP} if root else KEPT | {0, 1}
        if block.last.name == "bx" and block.last.ops[0] != Reg(LR):        # a tail call through a pointer
            after |= ARGUMENTS | {LR}
    if block.ends == "tail":
        after |= ARGUMENTS | KEPT | {LR}
    return after | _decides(block.last) if block.ends == "branch" or block.conditional else after


def _decides(i: Instruction) -> frozenset[int]:
    """What a conditional transfer looks at."""
    if i.name in ("cbz", "cbnz"):
        first = i.ops[0]
        return frozenset({first.n}) if isinstance(first, Reg) else frozenset()
    return frozenset({LR}) if i.name in COUNTED else frozenset({FLAGS})


def _block(block: Block, live: frozenset[int], parts: dict[int, list[Part]], stay: set[tuple[int, int]]) -> frozenset[int]:
    """Liveness before a block from that behind it; notes the parts that stay."""
    for i in reversed(block.instructions):
        for index in reversed(range(len(parts[i.address]))):
            p = parts[i.address][index]
            if p.stays or p.writes & live:
                stay.add((i.address, index))
                live = (live if i.cond else live - p.writes) | p.reads | ({FLAGS} if i.cond else frozenset())
    return live
