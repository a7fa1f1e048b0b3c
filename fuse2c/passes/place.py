"""An address for every intermediate tensor, ring and scratch buffer: several heuristics, the best result.

Lifetimes are those of rows: an output may overlap its own input where the rows that it overwrites have been read.
Tensors that belong to the caller (inputs, outputs) have no address here, nor has the old value of a state; its new
value has one, and lives to the end of the run, when it replaces the old one. An operand that dies at a step may lend its
bytes to the step's result where the kernel reads each element before it writes it (in place).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fuse2c.errors import DoesNotFit
from fuse2c.passes import _rows
from fuse2c.passes._rows import Life, Unit
from fuse2c.plan import ALIGN, Decision, Place, Plan, Step


def run(plan: Plan) -> Plan:
    """Places; raises DoesNotFit when RAM or flash do not suffice."""
    plan, log = _in_place(plan)
    buffers = lifetimes(plan)
    heuristics: tuple[Callable[[Life], tuple[int, ...]], ...] = (
        lambda b: (-b.size, b.spans[0][0]), lambda b: (-(b.spans[-1][1] - b.spans[0][0]), -b.size),
        lambda b: (b.spans[0][0], -b.size), lambda b: (-b.size * (b.spans[-1][1] - b.spans[0][0] + 1),))
    bounds = _all_bounds(buffers)
    best = min((pack(sorted(range(len(buffers)), key=lambda i: key(buffers[i])), buffers, bounds) for key in heuristics),
               key=lambda offsets: max((o + b.size for o, b in zip(offsets, buffers, strict=True)), default=0))
    places = [Place(b.name, o, b.size, b.spans[0][0], b.spans[-1][1]) for o, b in zip(best, buffers, strict=True)]
    plan = replace(plan, places=tuple(sorted(places, key=lambda p: (p.first, p.offset, p.name))),
                   decisions=plan.decisions + tuple(log))
    _check_fit(plan)
    return plan


def _in_place(plan: Plan) -> tuple[Plan, list[Decision]]:
    """Let results take over the bytes of operands that die; recorded as views."""
    log = []
    for i, step in enumerate(plan.steps):
        y = step.node.outputs[0]
        for t in _reusable(plan, step):
            root = plan.root(t)
            if y in _caller_owned(plan) or root in _caller_owned(plan) or _read_afterwards(plan, i, root):
                continue
            if plan.rings.get(root) != plan.rings.get(y):
                continue
            plan = replace(plan, views={**plan.views, y: t})
            log.append(Decision("place", step.function, True, f"in place: the result takes the bytes of {t}"))
            break
    return plan, log


def _read_afterwards(plan: Plan, index: int, root: str) -> bool:
    """Whether another step reads a row of `root` after step `index` would have put a row of its result there.

    Where rows of several steps alternate, that may be a step that comes before it.
    """
    steps, order = [_rows.row_step(plan, s) for s in plan.steps], units(plan)
    own = steps[index]
    written = {row if own.out_rows == own.rows else 0: time for time, (step, row) in reversed(list(enumerate(order)))
               if step == index}
    for time, (step, row) in enumerate(order):
        for reader in steps[step].readers if step != index else ():
            if reader.tensor == root and any(at <= time for r, at in written.items()
                                             if own.out_rows == 1 or reader.first[row] <= r <= reader.last[row]):
                return True
    return False


def _reusable(plan: Plan, step: Step) -> list[str]:
    """Operands that the kernel reads at the very element that it writes next, and nowhere else."""
    g, y, node = plan.graph, plan.graph.type(step.node.outputs[0]), step.node
    if "program" in step.spec.flags:
        return []           # its passes read a row several times
    tail = node.parts if "loads" in step.spec.flags else node.parts[1:]
    names = {t for n in tail for t in n.inputs if t in node.inputs and g.data(t) is None}
    aligned = [t for t in node.inputs if t in names and g.type(t).bytes == y.bytes and g.type(t).shape == y.shape
               and g.type(t).memory_axes == y.memory_axes]
    # The same bytes may be read as well by the anchor, or through a view that lies in another order.
    elsewhere = {t for n in node.parts[:len(node.parts) - len(tail)] for t in n.inputs} | (set(node.inputs) - set(aligned))
    kept = {plan.root(t) for t in elsewhere if t}
    return [t for t in aligned if plan.root(t) not in kept]


def _caller_owned(plan: Plan) -> set[str]:
    """Roots of graph inputs and outputs, which live in the caller's buffers."""
    return {plan.root(t) for t in (*plan.graph.inputs, *plan.graph.outputs)}


def units(plan: Plan) -> list[Unit]:
    """The schedule in units of time: one row each, or a step that cannot be split."""
    steps = [_rows.row_step(plan, s) for s in plan.steps]
    return [(c.step, row) for c in plan.calls
            for row in (range(c.first, c.end) if steps[c.step].splits else range(1))]


def lifetimes(plan: Plan) -> list[Life]:
    """Every buffer of the arena."""
    steps, order = [_rows.row_step(plan, s) for s in plan.steps], units(plan)
    used = {t for s in steps for t in (s.writes, *s.also, *(r.tensor for r in s.readers))}
    kept = {plan.root(t) for _, t in plan.options.stateful}
    tensors = sorted(used - _caller_owned(plan) | used & kept)
    found = list(_rows.lives(plan, steps, order, tensors).values())
    for life in found:
        life.ring = plan.rings.get(life.name, 0)
        if life.name in kept:
            life.dies[:] = len(order) - 1
            life.spans = _rows.merged(list(zip(life.born.tolist(), life.dies.tolist(), strict=True)))
    for i, s in enumerate(plan.steps):
        times = [time for time, (step, _) in enumerate(order) if step == i]
        if s.spec.scratch and times:
            spans = [(times[0], times[-1])] if s.spec.keeps else _rows.merged([(time, time) for time in times])
            found.append(Life(f"{s.function} scratch", s.spec.scratch, np.array([spans[0][0]]), np.array([spans[-1][1]]),
                              0, spans))
    return found


def _all_bounds(buffers: Sequence[Life]) -> dict[tuple[int, int], tuple[int, int]]:
    """(i, j), i < j -> open interval of forbidden differences offset_j - offset_i; absent: any difference will do."""
    found = {}
    for i, a in enumerate(buffers):
        for j in range(i + 1, len(buffers)):
            bound = forbidden(a, buffers[j])
            if bound is not None:
                found[i, j] = bound
    return found


def forbidden(a: Life, b: Life) -> tuple[int, int] | None:
    """The open interval in which offset_b - offset_a must not lie; None if the two never live at the same time.

    Row i of a and row j of b that live at the same time must not overlap: offset_b - offset_a is not strictly between
    i * A - (j + 1) * B and (i + 1) * A - j * B, for row sizes A and B. Rings use all of their bytes all the time.
    """
    if not _meet(a.spans, b.spans):
        return None
    if a.ring or b.ring or (len(a.born) == 1 and len(b.born) == 1):
        return (-b.size, a.size)
    together = (a.born[:, None] <= b.dies[None, :]) & (b.born[None, :] <= a.dies[:, None])
    i, j = np.nonzero(together)
    low = (i * a.row_bytes - (j + 1) * b.row_bytes).min()
    high = ((i + 1) * a.row_bytes - j * b.row_bytes).max()
    return int(low), int(high)


def _meet(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> bool:
    """Whether two sorted lists of closed intervals have a common time."""
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][1] < b[j][0]:
            i += 1
        elif b[j][1] < a[i][0]:
            j += 1
        else:
            return True
    return False


def pack(sequence: Sequence[int], buffers: Sequence[Life], bounds: dict[tuple[int, int], tuple[int, int]]) -> list[int]:
    """Offsets: each buffer in turn at the lowest aligned one that no earlier buffer forbids."""
    offsets: dict[int, int] = {}
    for k in sequence:
        blocked = []
        for other, at in offsets.items():
            bound = bounds.get((min(k, other), max(k, other)))
            if bound is not None:
                low, high = bound if other < k else (-bound[1], -bound[0])
                blocked.append((at + low, at + high))
        offset = 0
        for low, high in sorted(blocked):
            if low < offset < high or (low < offset and offset < high):
                offset = -(-high // ALIGN) * ALIGN
        # An interval that starts later may still cover the place: repeat until none does.
        while any(low < offset < high for low, high in blocked):
            offset = -(-max(high for low, high in blocked if low < offset < high) // ALIGN) * ALIGN
        offsets[k] = offset
    return [offsets[k] for k in range(len(buffers))]


def _check_fit(plan: Plan) -> None:
    ram_name, ram = plan.target.holding("arena")
    if plan.ram_bytes > ram.bytes:
        at = max(plan.places, key=lambda p: p.offset + p.size)
        step = plan.steps[units(plan)[at.first][0]]
        live = [f"{p.size:>9} bytes  {p.name}" for p in plan.places if p.first <= at.first <= p.last]
        live += [f"{p.size:>9} bytes  state {p.name}" for p in plan.state_places]
        raise DoesNotFit(f"the arena needs {plan.ram_bytes} bytes of {ram_name}, {plan.target.name} has {ram.bytes}: "
                         f"{plan.ram_bytes - ram.bytes} too many", node=step.node.name, op=step.node.op,
                         detail=("live at the peak:", *live),
                         hint="--optimize ram, a smaller input, int8 instead of float32, or a target with more RAM")
    flash_name, flash = plan.target.holding("weights")
    if plan.weight_bytes > flash.bytes:
        largest = max(plan.steps, key=lambda s: sum(a.nbytes for a in plan.constants(s)))
        raise DoesNotFit(f"the weights need {plan.weight_bytes} bytes of {flash_name}, {plan.target.name} has "
                         f"{flash.bytes}: {plan.weight_bytes - flash.bytes} too many", node=largest.node.name,
                         op=largest.node.op, hint="int8 weights, or a target with more flash")
