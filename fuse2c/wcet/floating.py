"""Floating-point instructions: their values are not followed, their effect on core registers, flags and stack is."""
from __future__ import annotations

from fuse2c.errors import Refused
from fuse2c.wcet.decode import Instruction, word
from fuse2c.wcet.operands import SP, Mem, Reg, Vector
from fuse2c.wcet.parts import FLAGS, Part, part
from fuse2c.wcet.transfers import address, update
from fuse2c.wcet.values import M


def translate(i: Instruction) -> list[Part]:
    """The parts of an instruction of the floating-point unit."""
    if i.name in ("vldr", "vstr"):
        return _single(i)
    if i.name in ("vldm", "vstm", "vldmdb", "vstmdb", "vpush", "vpop"):
        return _several(i)
    if i.name == "vmrs":
        if "apsr" in word(i.ops[0]).lower():
            return [part("F = None", [], [FLAGS])]
        return [_unknown(i, [op.n for op in i.ops[:1] if isinstance(op, Reg)])]
    if i.name in ("vmov", "vmsr"):
        core = [(at, op.n) for at, op in enumerate(i.ops) if isinstance(op, Reg)]
        if core and core[0][0] == 0:
            return [_unknown(i, [r for _, r in core])]
        # A pointer that is kept in a floating-point register is no longer followed.
        return [part(f"m.lost(R[{r}])", [r], stays=True) for _, r in core]
    if any(isinstance(op, Reg | Mem) for op in i.ops):
        raise Refused(f"{i} has a core register where none is expected")
    return []


def _unknown(i: Instruction, registers: list[int]) -> Part:
    return part([f"R[{r}] = None" for r in registers], [], registers)


def _single(i: Instruction) -> list[Part]:
    value, memory = i.ops
    if not isinstance(value, Vector) or not isinstance(memory, Mem) or memory.update:
        raise Refused(f"{i}: a register and an address are expected")
    where, reads = address(i, memory)
    line = f"m.copied({where}, {value.bytes})" if i.name == "vldr" else f"m.store({where}, {value.bytes}, None, 0)"
    return [part(line, reads, stays=True)]


def _several(i: Instruction) -> list[Part]:
    listed, first = i.ops[-1], i.ops[0]
    if not isinstance(listed, Vector):
        raise Refused(f"{i}: a list of registers is expected")
    stack = i.name in ("vpush", "vpop")
    moves = stack or isinstance(first, Mem)
    base = SP if stack else first.base if isinstance(first, Mem) else first.n if isinstance(first, Reg) else -1
    if base < 0:
        raise Refused(f"{i}: a base register is expected")
    down = i.name in ("vpush", "vldmdb", "vstmdb")
    where = f"(None if R[{base}] is None else R[{base}] - {listed.bytes} & {M})" if down else f"R[{base}]"
    stores = i.name in ("vpush", "vstm", "vstmdb")
    line = f"m.store({where}, {listed.bytes}, None, 0)" if stores else f"m.copied({where}, {listed.bytes})"
    change = update(Mem(base, -listed.bytes if down else listed.bytes, update="pre")) if moves else None
    return [part(line, [base], stays=True), *([change] if change else [])]
