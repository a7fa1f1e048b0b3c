"""Interrupt masks, special registers, exclusive and ordered loads and stores: their values are not followed."""
from __future__ import annotations

from fuse2c.errors import Refused
from fuse2c.wcet.decode import EXCLUSIVE_LOAD, EXCLUSIVE_STORE, Instruction, word
from fuse2c.wcet.operands import Mem
from fuse2c.wcet.parts import FLAGS, Part, part, reg
from fuse2c.wcet.transfers import address

MASKS = frozenset(("primask", "basepri", "basepri_max", "faultmask"))
READABLE = MASKS | {"apsr", "ipsr", "epsr", "iapsr", "eapsr", "iepsr", "xpsr", "control"}
WIDEST = 4              # a store of less forgets more than it must


def translate(i: Instruction) -> list[Part] | None:
    """The parts of such an instruction, None for others. Refused where the stack pointer may change, or be read."""
    if i.name in ("cpsid", "cpsie"):
        return []
    if i.name == "mrs":
        if word(i.ops[1]).lower() not in READABLE:
            raise Refused(f"{i} reads the stack pointer by a way that is not followed")
        return [part(f"R[{reg(i, 0)}] = None", [], [reg(i, 0)])]
    if i.name == "msr":
        return _write(i, word(i.ops[0]).lower(), reg(i, 1))
    if i.name not in (EXCLUSIVE_LOAD, EXCLUSIVE_STORE):
        return None
    memory = i.ops[-1]
    if not isinstance(memory, Mem) or memory.update:
        raise Refused(f"{i}: a memory operand is expected")
    where, reads = address(i, memory)
    if i.name == EXCLUSIVE_LOAD:
        return [part(f"m.copied({where}, {WIDEST})", reads, stays=True), part(f"R[{reg(i, 0)}] = None", [], [reg(i, 0)])]
    stored = reg(i, len(i.ops) - 2)
    store = [part(f"m.lost(R[{stored}])", [stored], stays=True),
             part(f"m.store({where}, {WIDEST}, None, 0)", reads, stays=True)]
    return store if len(i.ops) == 2 else [*store, part(f"R[{reg(i, 0)}] = None", [], [reg(i, 0)])]


def _write(i: Instruction, to: str, r: int) -> list[Part]:
    if to.startswith("apsr"):
        return [part("F = None", [r], [FLAGS])]
    if to not in MASKS:
        raise Refused(f"{i} changes the stack pointer, or what the processor is in, by a way that is not followed")
    return []
