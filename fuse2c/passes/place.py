"""An address for every intermediate tensor, ring and scratch buffer: several heuristics, the best result.

Lifetimes are those of rows: an output may overlap its own input where the rows that it overwrites have been read.
Tensors that belong to the caller (inputs, outputs) have no address here, nor has the old value of a state; its new
value has one, and lives to the end of the run, when it replaces the old one. An operand that dies at a step may lend its
bytes to the step's result where the kernel reads each element before it writes it (in place).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import lcm

import numpy as np

from fuse2c import price
from fuse2c.errors import DoesNotFit
from fuse2c.passes import _exact, _rows
from fuse2c.passes._rows import Life, Reader, RowStep, Unit
from fuse2c.plan import ALIGN, Decision, Peak, Place, Plan, Step

EFFORT = 100_000    # pairs of buffers that polishing may look at
Bounds = dict[tuple[int, int], tuple[int, int]]
Near = Sequence[dict[int, tuple[int, int]]]
"""Buffer -> those that live at the same time -> open interval in which its offset minus theirs must not lie."""


def run(plan: Plan) -> Plan:
    """Places; raises DoesNotFit when RAM or flash do not suffice."""
    plan = arranged(plan)
    if plan.options.place == "exact":
        plan = _exactly(plan)
    _check_fit(plan)
    return plan


def _exactly(plan: Plan) -> Plan:
    """The same plan with the best offsets that there are, or that are found in time."""
    buffers, at = lifetimes(plan), {p.name: p.offset for p in plan.places}
    if plan.peak is None or max(p.offset + p.size for p in plan.places) <= plan.peak.bytes:
        return plan.decide("place", ("exact", False, "the heuristics' result is the least that there can be"))
    found = _exact.solve([b.size for b in buffers], all_bounds(buffers), [at[b.name] for b in buffers], plan.peak.bytes,
                         ALIGN)
    plan = replace(plan, places=places(buffers, found.offsets), peak=replace(plan.peak, bytes=found.bound))
    return plan.decide("place", ("exact", True, f"no placement of these buffers needs less than {found.bound} bytes"))


def arranged(plan: Plan) -> Plan:
    """Places by the best of the heuristics, and the peak that bounds them; they may not fit."""
    plan, log = _in_place(plan)
    buffers = lifetimes(plan)
    heuristics: tuple[Callable[[Life], tuple[int, ...]], ...] = (
        lambda b: (-b.size, b.spans[0][0]), lambda b: (-(b.spans[-1][1] - b.spans[0][0]), -b.size),
        lambda b: (b.spans[0][0], -b.size), lambda b: (-b.size * (b.spans[-1][1] - b.spans[0][0] + 1),))
    near, floor = neighbours(all_bounds(buffers), len(buffers)), peak(plan, buffers)
    sequences = [sorted(range(len(buffers)), key=lambda i: key(buffers[i])) for key in heuristics]
    tried = [(top(buffers, offsets), i, offsets) for i, s in enumerate(sequences) for offsets in [pack(s, near)]]
    _, chosen, offsets = min(tried, default=(0, 0, []))
    if floor is not None:
        offsets = polished(sequences[chosen], offsets, buffers, near, floor.bytes)
    return replace(plan, places=places(buffers, offsets), peak=floor, decisions=plan.decisions + tuple(log))


def top(buffers: Sequence[Life], offsets: Sequence[int]) -> int:
    """Where the highest buffer ends."""
    return max((o + b.size for o, b in zip(offsets, buffers, strict=True)), default=0)


def polished(sequence: list[int], offsets: list[int], buffers: Sequence[Life], near: Near, floor: int) -> list[int]:
    """The same or better offsets: what ends highest is placed earlier and earlier, until that has not helped for long."""
    best, now, seen = top(buffers, offsets), offsets, set[tuple[int, ...]]()
    while best > floor and len(seen) < EFFORT // max(len(buffers), 1) ** 2 and tuple(sequence) not in seen:
        seen.add(tuple(sequence))       # the next sequence follows from this one alone: what was seen leads round in a circle
        highest = max(sequence, key=lambda i: now[i] + buffers[i].size)
        at = sequence.index(highest)
        sequence = [*sequence[:at // 2], highest, *sequence[at // 2:at], *sequence[at + 1:]]
        now = pack(sequence, near)
        if top(buffers, now) < best:
            best, offsets = top(buffers, now), now
        elif at == 0:
            break
    return offsets


def places(buffers: Sequence[Life], offsets: Sequence[int]) -> tuple[Place, ...]:
    """In order of time."""
    found = [Place(b.name, o, b.size, b.spans[0][0], b.spans[-1][1]) for o, b in zip(offsets, buffers, strict=True)]
    return tuple(sorted(found, key=lambda p: (p.first, p.offset, p.name)))


def peak(plan: Plan, buffers: Sequence[Life]) -> Peak | None:
    """The most live bytes at any time."""
    order = units(plan)
    if not buffers:
        return None
    rows, whole = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    for b in buffers:
        live = _rows.profile(b, len(order))
        rows += live
        whole += np.where(live > 0, b.size, 0) if b.ring else live
    at = int(whole.argmax())
    return Peak(int(whole[at]), int(rows.max()), at, order[at][0])


def _in_place(plan: Plan) -> tuple[Plan, list[Decision]]:
    """Let results take over the bytes of operands that die; recorded as views."""
    log, owned = list[Decision](), _caller_owned(plan) | set(plan.inlaid) | set(plan.inlaid.values())
    steps = _rows.row_steps(plan)
    times, tiles = _rows.times_of(steps, units(plan)), _rows.tiles(steps)
    begins, ends = together(plan)
    writers = {s.writes: i for i, s in reversed(list(enumerate(steps)))}
    readers: dict[str, list[tuple[int, Reader]]] = {}
    for i, s in enumerate(steps):
        for r in s.readers:
            readers.setdefault(r.tensor, []).append((i, r))
    for i, step in enumerate(plan.steps):
        y = step.node.outputs[0]
        options: list[tuple[int, str, int]] = []        # rows saved, operand, rows of a ring for both
        for t in _reusable(plan, step):
            root = plan.root(t)
            others = [(at, r) for at, r in readers.get(root, []) if at != i]
            if y in owned or root in owned or (root in plan.rings) != (y in plan.rings) \
                    or _read_afterwards(steps[i], begins[times[i]], [(ends[times[at]], r) for at, r in others]):
                continue
            users, rows = readers.get(root, []) + readers.get(y, []), 0
            if y in plan.rings:
                rows = _shared_ring(times[writers[root]], [r.last_reads(times[at], steps[i].rows) for at, r in users])
                rows = _rows.rounded(rows, lcm(tiles.get(root, 1), tiles.get(y, 1)))
            options.append((plan.rings.get(root, 1) + plan.rings.get(y, 0) - rows, t, rows))
        saved, t, rows = max(options, key=lambda o: o[0], default=(0, "", 0))
        if saved > 0:
            root = plan.root(t)
            rings = {k: n for k, n in plan.rings.items() if k not in (root, y)} | ({root: rows} if rows else {})
            plan = replace(plan, views={**plan.views, y: t}, rings=rings)
            readers.setdefault(root, []).extend(readers.get(y, []))
            log.append(Decision("place", step.function, True, f"in place: the result takes the bytes of {t}"))
    return plan, log


def _shared_ring(written: np.ndarray, reads: Sequence[np.ndarray]) -> int:
    """Rows of a ring that an operand and a result share: from when the operand's row is there until the result's is read."""
    dies = np.maximum(np.max(reads, axis=0), written)
    return _rows.ring_rows(Life("", 1, written, dies))


def _read_afterwards(own: RowStep, times: np.ndarray, others: Sequence[tuple[np.ndarray, Reader]]) -> bool:
    """Whether another step reads a row of an operand after a step, at `times`, would have put a row of its result there.

    Where rows of several steps alternate, that may be a step that comes before it. others: when they read.
    """
    rows = own.out_rows
    written = times if rows == own.rows else np.full(rows, times[0])
    return any((reader.last_reads(at, rows) >= written).any() for at, reader in others)


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
    return [unit for call in _units_of_calls(plan) for unit in call]


def _units_of_calls(plan: Plan) -> list[list[Unit]]:
    """The same, call by call."""
    splits = [_rows.interleaves(s) for s in plan.steps]
    return [[(c.step, row) for row in (range(c.first, c.end) if splits[c.step] else range(1))] for c in plan.calls]


def together(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """For each unit of time the first and the last one that other cores may be at: those of its phase, if it is theirs too."""
    at = np.cumsum([0, *map(len, _units_of_calls(plan))])
    begins = np.arange(at[-1])
    ends = begins.copy()
    for first, end in plan.spans:
        if len({c.core for c in plan.calls[first:end]}) > 1:
            begins[at[first]:at[end]], ends[at[first]:at[end]] = at[first], at[end] - 1
    return begins, ends


def _stretched(life: Life, begins: np.ndarray, ends: np.ndarray) -> Life:
    """The same buffer, in use for the whole of each phase in which any of several cores uses it."""
    return replace(life, born=begins[life.born], dies=ends[life.dies],
                   spans=_rows.merged([(int(begins[a]), int(ends[b])) for a, b in life.spans]))


def lifetimes(plan: Plan) -> list[Life]:
    """Every buffer of the arena."""
    steps, order = _rows.row_steps(plan), units(plan)
    times = _rows.times_of(steps, order)
    used = {t for s in steps for t in (s.writes, *s.also, *(r.tensor for r in s.readers))}
    kept = {plan.root(t) for _, t in plan.options.stateful}
    tensors = sorted(used - _caller_owned(plan) - set(plan.inlaid) | used & kept)
    found = list(_rows.lives(plan, steps, order, tensors).values())
    for life in found:
        life.ring = plan.rings.get(life.name, 0)
        if life.name in kept:
            life.dies[:] = len(order) - 1
            life.spans = _rows.merged(list(zip(life.born.tolist(), life.dies.tolist(), strict=True)))
    for i, (s, at) in enumerate(zip(plan.steps, times, strict=True)):
        if s.spec.scratch and len(at):
            spans = [(int(at[0]), int(at[-1]))] if s.spec.keeps else _rows.merged([(t, t) for t in at.tolist()])
            for core in sorted({c.core for c in plan.calls if c.step == i}):
                found.append(Life(plan.scratch(s, core), s.spec.scratch, np.array([spans[0][0]]), np.array([spans[-1][1]]),
                                  scratch=True, spans=spans))
    if not plan.phases:
        return found
    begins, ends = together(plan)
    return [_stretched(life, begins, ends) for life in found]


def all_bounds(buffers: Sequence[Life]) -> Bounds:
    """(i, j), i < j -> open interval of forbidden differences offset_j - offset_i; absent: any difference will do."""
    begins, ends = (np.array([b.spans[at][at] for b in buffers]) for at in (0, -1))
    near = np.triu((begins[:, None] <= ends) & (begins <= ends[:, None]), 1)  # begin to end; there may be gaps
    pairs = ((i, j, forbidden(buffers[i], buffers[j])) for i, j in np.argwhere(near).tolist())
    return {(i, j): bound for i, j, bound in pairs if bound is not None}


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


def neighbours(bounds: Bounds, count: int) -> Near:
    """The same bounds, from each of `count` buffers to all that it meets."""
    near: list[dict[int, tuple[int, int]]] = [{} for _ in range(count)]
    for (i, j), (low, high) in bounds.items():
        near[j][i], near[i][j] = (low, high), (-high, -low)
    return near


def pack(sequence: Sequence[int], near: Near) -> list[int]:
    """Offsets: each buffer in turn at the lowest aligned one that no earlier buffer forbids."""
    offsets: dict[int, int] = {}
    for k in sequence:
        blocked = [(offsets[i] + low, offsets[i] + high) for i, (low, high) in near[k].items() if i in offsets]
        offset = 0
        for low, high in sorted(blocked):
            if low < offset < high:
                offset = -(-high // ALIGN) * ALIGN
        offsets[k] = offset
    return [offsets[k] for k in range(len(sequence))]


def _check_fit(plan: Plan) -> None:
    ram_name, ram = plan.target.holding("arena")
    if plan.ram_bytes > ram.bytes:
        peak = plan.peak or Peak(0, 0, 0, 0)
        step = plan.steps[peak.step]
        live = [f"{p.size:>9} bytes  {p.name}" for p in plan.places if p.first <= peak.time <= p.last]
        live += [f"{p.size:>9} bytes  state {p.name}" for p in plan.state_places]
        raise DoesNotFit(f"the arena needs {plan.ram_bytes} bytes of {ram_name}, {plan.target.name} has {ram.bytes}: "
                         f"{plan.ram_bytes - ram.bytes} too many", node=step.node.name, op=step.node.op,
                         detail=("no other schedule needs less; live at its peak:", *live),
                         hint=("--place exact, " if plan.options.place != "exact" and peak.bytes <= ram.bytes else "")
                              + "a smaller input, int8 instead of float32, or a target with more RAM")
    flash_name, flash = plan.target.holding("weights")
    code = price.code_bytes(plan)
    if plan.weight_bytes + code > flash.bytes:
        largest = max(plan.steps, key=lambda s: sum(a.nbytes for a in plan.constants(s)))
        shared = price.code_bytes(replace(plan, options=replace(plan.options, share_kernels="always")))
        raise DoesNotFit(f"{plan.weight_bytes} bytes of weights and about {code} of code need about "
                         f"{plan.weight_bytes + code} bytes of {flash_name}, {plan.target.name} has {flash.bytes}: "
                         f"{plan.weight_bytes + code - flash.bytes} too many", node=largest.node.name, op=largest.node.op,
                         hint=(f"--share-kernels always (about {code - shared} bytes less), " if shared < code else "")
                              + "int8 weights, or a target with more flash", memory="flash")
