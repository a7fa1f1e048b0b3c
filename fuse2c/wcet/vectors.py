"""Vector instructions of Armv8.1-M as parts: values are not followed, core registers and memory they change are."""
from __future__ import annotations

from dataclasses import replace

from fuse2c.wcet.decode import Instruction, word
from fuse2c.wcet.helium import COUNTING, LOADS, STORES
from fuse2c.wcet.operands import LR, Mem, Operand, Reg, Vector, parse
from fuse2c.wcet.parts import LENGTH, Part, part
from fuse2c.wcet.transfers import address, update

INTERLEAVED = ("vld2", "vld4", "vst2", "vst4")


def translate(i: Instruction) -> list[Part]:
    """The parts of a vector instruction."""
    name, ops = i.name, i.ops
    memory = next((op for op in ops if isinstance(op, Mem)), None)
    if name in LOADS | STORES:
        if memory is None:                                  # gather, scatter: an address for each lane
            return [_scatter(ops[-1])] if name in STORES else _gather(ops[-1])
        size = ops[0].bytes if isinstance(ops[0], Vector) else 64
        # `[r0]!`: the base moves behind all that several instructions of a kind load or store together.
        change = update(replace(memory, offset=size) if memory.update and name[:4] in INTERLEAVED else memory)
        where, reads = address(i, memory)
        line = f"m.store({where}, {size}, None, 0)" if name in STORES else f"m.copied({where}, {size})"
        return [part(line, reads, stays=True), *([change] if change else [])]
    cores = [op.n for op in ops if isinstance(op, Reg)]
    leading = [op.n for k, op in enumerate(ops) if isinstance(op, Reg) and all(isinstance(o, Reg) for o in ops[:k])]
    written = [] if name == "vctp" else cores[:1] if name in COUNTING else leading
    taken = cores if name in COUNTING else [r for r in cores if r not in written]
    return [*(part(f"m.lost(R[{r}])", [r], stays=True) for r in taken),
            *([part([f"R[{r}] = None" for r in written], [], written)] if written else [])]


def _scatter(where: Operand) -> Part:
    """A store by an address for each lane: anywhere, and into the frames if the base points there."""
    base = parse(word(where).strip("[]!").partition(",")[0])[0]
    if isinstance(base, Reg):
        return part(f"m.store(m.loose(R[{base.n}], None), 4, None, 0)", [base.n], stays=True)
    return part("m.store(None, 4, None, 0)", stays=True)


def _gather(where: Operand) -> list[Part]:
    """A load by an address for each lane: pointers that lie in the frames are out of sight if the base points there."""
    base = parse(word(where).strip("[]!").partition(",")[0])[0]
    return [part(f"m.gathered(R[{base.n}])", [base.n], stays=True)] if isinstance(base, Reg) else []


def tail_loop(size: int, register: int) -> Part:
    """DLSTP and WLSTP: the number of elements, and how many an iteration takes."""
    return part([f"R[{LR}] = R[{register}]", f"R[{LENGTH}] = {128 // size}"], [register], [LR, LENGTH], stays=True)
