"""What loops keep live, against the core's registers: each value more costs `Processor.spill` instructions an element.

An elementwise loop keeps a pointer to each operand and result, its index, and the numbers that no instruction holds.
A kernel of several steps keeps what its steps do, whose turn it is, the tables of its schedule and the caller's pointers;
innermost loops that are functions of their own have the registers to themselves, and are not counted.
These are estimates; `bench` says what the compiler made of it.
"""
from __future__ import annotations

import re
from collections.abc import Sequence

from fuse2c.ir.graph import Graph, Node
from fuse2c.op import bind
from fuse2c.ops import all_ops
from fuse2c.plan import Plan, Step
from fuse2c.target import Processor

HELD = 255          # numbers up to there are part of an instruction
INTEGER, REAL = re.compile(r"(?<![\w.])\d+(?=[uUlL]*\b(?!\.))"), re.compile(r"(?<![\w.])\d+\.\d*(?:e[+-]?\d+)?f?")
COUNTERS = 3        # of rows, columns and channels
AT_HAND = 4         # values of the expression that is being computed
TURNS = 3           # whose turn it is, its row, and the table that says so
APART = ("dsp", "mve", "fpu-sp")        # what kernels need that have their innermost loops in functions of their own


def of_loop(g: Graph, parts: Sequence[Node], processor: Processor) -> int:
    """Values that a loop over elements keeps, which computes these operators."""
    made = {t for n in parts for t in n.outputs}
    read = {t for n in parts for t in n.inputs if t and t not in made}
    wide = {t for t in read if (data := g.data(t)) is None or data.size > 1}
    inner = {t for t in made if t not in g.outputs and all(any(u is n for n in parts) for u in g.users(t))}
    return 1 + len(wide) + len(made - inner) + len(_numbers(g, parts, read - wide, processor))


def _numbers(g: Graph, parts: Sequence[Node], constants: set[str], processor: Processor) -> set[str]:
    """Distinct numbers that need a register; in software, calls for real ones load theirs each time."""
    text = " ".join(s(bind(g, n)).expr for n in parts if (s := all_ops()[n.op].scalar) is not None)
    values = [v for t in constants if (v := g.data(t)) is not None]
    whole = {int(v) for v in INTEGER.findall(text)} | {int(v.reshape(-1)[0]) for v in values if v.dtype.kind in "iu"}
    found = {str(v) for v in whole if abs(v) > HELD}
    if "fpu-sp" in processor.features:
        found |= {*REAL.findall(text), *(str(v.reshape(-1)[0]) for v in values if v.dtype.kind == "f")}
    return found


def spilled(plan: Plan, step: Step) -> float:
    """Instructions that an elementwise kernel takes for values without a register."""
    if step.kernel.name != "elementwise":
        return 0.0
    p = plan.target.processors[step.processor].processor
    more = max(of_loop(plan.graph, step.node.parts, p) - p.registers, 0)
    return p.spill * more * plan.graph.type(step.node.outputs[0]).count


def kept(plan: Plan, step: Step) -> int:
    """Values that the loops of one step keep live."""
    if step.kernel.name == "elementwise":
        return of_loop(plan.graph, step.node.parts, plan.target.processors[step.processor].processor)
    operands = {plan.owner(t) for t in step.node.inputs if t and plan.graph.data(t) is None}
    pointers = len(operands) + len(step.node.outputs) + len(step.spec.tables) + bool(step.spec.scratch)
    sums = 0 if step.kernel.needs & set(APART) else 1 if step.work.macs else 0
    return pointers + sums + COUNTERS + AT_HAND


def of_kernel(plan: Plan, steps: Sequence[int]) -> int:
    """Values that one kernel keeps live where it keeps most; of several steps one behind the other, as each alone."""
    most = max((kept(plan, plan.steps[i]) for i in steps), default=0)
    if not any(k.rows and plan.calls[k.first].step in steps for k in plan.kernels):
        return most
    ends = {*plan.graph.inputs, *plan.graph.outputs}
    callers = {t for i in steps for t in (*plan.steps[i].node.inputs, *plan.steps[i].node.outputs) if t in ends}
    return most + TURNS + len(callers) + (plan.options.arena == "caller")


def of_turn(plan: Plan, steps: Sequence[int]) -> float:
    """Instructions that each turn of a kernel of several steps takes for values without a register."""
    p = plan.target.processor
    return p.spill * max(of_kernel(plan, steps) - p.registers, 0)
