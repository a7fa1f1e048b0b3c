"""Costs of instructions in cycles, from Arm's public tables: estimates, see docs/WCET.md."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from fuse2c.wcet.decode import EXCLUSIVE_LOAD, EXCLUSIVE_STORE, Instruction
from fuse2c.wcet.operands import PC, SP, Mem, Operand, Reg, RegList, Vector

REFILL = 3              # cycles to refill the pipeline after a taken branch: 1 to 3 on M3 and M4, the worst
TABLES = ("cortex-m0plus", "cortex-m3", "cortex-m4")


@dataclass(frozen=True)
class Costs:
    """Cycles of blocks on one core. `multiply`: of MULS on an M0+, 1 or 32 by the maker's choice."""

    core: str
    multiply: int = 1

    @property
    def known(self) -> bool:
        """Whether there is a public table for the core."""
        return self.core in TABLES

    def of(self, block: Sequence[Instruction]) -> tuple[int, int]:
        """Cycles of a block, and what its last instruction takes in addition when it transfers control."""
        if not self.known or not block:
            return 0, 0
        one = _m0plus if self.core == "cortex-m0plus" else _m34
        costs = [one(self, i) for i in block]
        # Between two instructions a load may wait for an address that the one before computed.
        waits = sum(_waits(a, b) for a, b in itertools.pairwise(block)) if one is _m34 else 0
        return sum(c for c, _ in costs) + waits, costs[-1][1]

    def variable(self, i: Instruction) -> bool:
        """Whether an instruction's time depends on its operands on this core."""
        if i.name in ("sdiv", "udiv"):
            return self.core != "cortex-m0plus"
        return (self.core == "cortex-m3" and i.name in ("smull", "umull", "smlal", "umlal")) \
            or (self.core in ("cortex-m7", "cortex-m33", "cortex-m55") and i.name in ("vdiv", "vsqrt"))


def _words(op: Operand) -> int:
    """How many words the registers of a load or store hold."""
    return len(op.numbers if isinstance(op, RegList) else range(op.bytes // 4) if isinstance(op, Vector) else ())


def _to_pc(i: Instruction) -> bool:
    last, first = i.ops[-1], i.ops[0]
    return first == Reg(PC) or (isinstance(last, RegList) and PC in last.numbers)


def _m0plus(costs: Costs, i: Instruction) -> tuple[int, int]:
    name = i.name
    if name == "b":
        return 1, 1
    if name in ("bl", "bx", "blx"):
        return (3 if name == "bl" else 2), 0
    if name in ("push", "pop", "ldm", "stm"):
        return 1 + _words(i.ops[-1]) + (2 if _to_pc(i) else 0), 0
    if name.startswith(("ldr", "str")):
        return 2, 0
    if name in ("dmb", "dsb", "isb", "mrs", "msr"):
        return 3, 0
    if name == "mul":
        return costs.multiply, 0
    return (2 if name in ("mov", "add") and i.ops[0] == Reg(PC) else 1), 0


_M3_LONG = {"smull": 5, "umull": 5, "smlal": 7, "umlal": 7, "mla": 2, "mls": 2}


def _m34(costs: Costs, i: Instruction) -> tuple[int, int]:
    name = i.name
    if name[0] == "v":
        return _floating(i), 0
    if name in ("b", "cbz", "cbnz", "bl", "blx", "bx"):
        return 1, REFILL
    if name in ("tbb", "tbh"):
        return 2, REFILL
    if name in ("udiv", "sdiv"):
        return 12, 0
    if costs.core == "cortex-m3" and name in _M3_LONG:
        return _M3_LONG[name], 0
    if name in ("ldrd", "strd"):
        return 5, 0                                         # either word may be unaligned to the bus's liking
    if name in ("push", "pop", "ldm", "ldmdb", "stm", "stmdb"):
        return 1 + _words(i.ops[-1]), REFILL if _to_pc(i) else 0
    if name in ("ldr", "ldrh", "ldrsh", "ldrb", "ldrsb", "str", "strh", "strb"):
        memory = i.ops[1]
        literal = isinstance(memory, Mem) and memory.base == PC
        stack = isinstance(memory, Mem) and memory.base in (PC, SP)
        split = 0 if stack or name[-1] == "b" else 1        # an unaligned access is two
        return 2 + split + literal, REFILL if _to_pc(i) else 0
    if name in ("dmb", "dsb", "isb"):
        return 4, 0
    if name in ("mrs", "msr", "cpsid", "cpsie", EXCLUSIVE_LOAD, EXCLUSIVE_STORE):
        return 2, 0
    return 1, REFILL if name in ("mov", "add") and i.ops[0] == Reg(PC) else 0


def _floating(i: Instruction) -> int:
    if i.name in ("vldr", "vstr"):
        return 2 + _words(i.ops[0])
    if i.name in ("vldm", "vstm", "vldmdb", "vstmdb", "vpush", "vpop"):
        return 1 + _words(i.ops[-1])
    if i.name in ("vdiv", "vsqrt"):
        return 15
    if i.name[:4] in ("vmla", "vmls", "vfma", "vfms", "vnml", "vfnm"):
        return 4
    if i.name[:4] in ("vadd", "vsub", "vmul", "vnmu", "vcvt"):
        return 2
    return 2 if i.name == "vmov" and len(i.ops) > 2 else 1


def _waits(before: Instruction, i: Instruction) -> int:
    """1 where the base or index of a load or store is the result of the arithmetic right before it."""
    memory = next((op for op in i.ops if isinstance(op, Mem)), None)
    if memory is None or not before.ops or before.name.startswith(("ld", "st", "v", "push", "pop", "b", "cmp", "t")):
        return 0
    return int(isinstance(before.ops[0], Reg) and before.ops[0].n in (memory.base, memory.index))
