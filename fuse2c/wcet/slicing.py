"""Which parts of a function's instructions decide where control goes, or what memory the stack's pointers reach.

The others are left out of the simulation and what they write is unknown. That is sound whatever is left out wrongly:
an unknown value makes a branch fork, it never makes one go the wrong way. Stores always stay.
"""
from __future__ import annotations

from collections.abc import Collection

from fuse2c.wcet.cfg import Block, Function
from fuse2c.wcet.decode import COUNTED, Instruction
from fuse2c.wcet.operands import LR, SP, Reg
from fuse2c.wcet.parts import FLAGS, Part
from fuse2c.wcet.translate import translate

ARGUMENTS = frozenset(range(4))
KEPT = frozenset((*range(4, 12), SP))
CLOBBERED = frozenset((0, 1, 2, 3, 12, LR, FLAGS))
WORD_STORES = ("str", "strd")


def parts_of(function: Function, demanded: Collection[int], root: bool) -> dict[int, list[Part]]:
    """The parts of every instruction. `demanded`: the stores whose values are followed; so are those of words that may
    be pointers into the stack. `root`: its arguments come from a caller whose stack is not looked at."""
    plain = {i.address: translate(i, i.address in demanded) for b in function.blocks.values() for i in b.instructions}
    pointers = _may_point(plain, set() if root else set(ARGUMENTS))
    for b in function.blocks.values():
        for i in b.instructions:
            if i.name in WORD_STORES and any(isinstance(op, Reg) and op.n in pointers for op in i.ops):
                plain[i.address] = translate(i, True)
    return plain


def _may_point(parts: dict[int, list[Part]], pointers: set[int]) -> set[int]:
    """Registers that may hold, somewhere in the function, a pointer into the stack."""
    flow = [(p.reads, p.writes - {SP, FLAGS}) for each in parts.values() for p in each if p.writes - {SP, FLAGS}]
    found = pointers | {SP}
    grew = True
    while grew:
        grew = False
        for reads, writes in flow:
            if reads & found and not writes <= found:
                found |= writes
                grew = True
    return found - {SP}


def relevant(function: Function, parts: dict[int, list[Part]], root: bool) -> set[tuple[int, int]]:
    """The parts that stay, as (instruction, index), by liveness backwards from every branch, address and call."""
    live: dict[int, frozenset[int]] = {b: frozenset() for b in function.blocks}
    stay: set[tuple[int, int]] = set()
    work = sorted(function.blocks, key=lambda b: -function.order[b])
    changed = True
    while changed:
        changed = False
        for start in work:
            block = function.blocks[start]
            now = _block(block, _at_end(block, live, root), parts, stay)
            if now != live[start]:
                live[start], changed = now, True
    return stay


def _at_end(block: Block, live: dict[int, frozenset[int]], root: bool) -> frozenset[int]:
    """What matters behind the last instruction of a block."""
    after = frozenset().union(*(live.get(to, frozenset()) for to in block.successors))
    if block.ends in ("call", "invoke"):
        return after - CLOBBERED | ARGUMENTS | {LR, SP}
    if block.ends == "indirect":
        after |= {SP} if root else KEPT | {0, 1}
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
