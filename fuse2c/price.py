"""What a plan costs on its target: instructions, cycles, bytes by memory, launches, energy; per step and as a whole.

Counts come from the operators (Work) and the kernels' shapes; prices are data of the target file, per kernel. A kernel
without a price of its own is priced by the processor's rough ones.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from fuse2c import pressure
from fuse2c.kernels import functions
from fuse2c.op import EFFORT, FUNCTION, RowWindow, bind
from fuse2c.ops import all_ops
from fuse2c.plan import Plan, Step
from fuse2c.target import Clock, Price, Target

WORD = 4        # bytes of a load that waits

HARD, SOFTWARE = {"fpu-sp", "fpu-dp", "vectors"}, 40     # features for floats; instructions for one without them, to one

CALL, ENTRY = 16, 40        # bytes of code: of a call with the addresses of its arguments, and of the function that calls

ALONE = {True: 9, False: 2}
"""Instructions of an element of a vector that is finished alone, of reals (stored, loaded, computed) and of bytes."""

COUNTS = tuple(f.name for f in fields(Price) if f.name not in ("tile_of", "cpi", "cpi_worst", "code"))
"""What is counted of a step, in the order of the fields of target.Price."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a step, a kernel or a whole plan, in one inference."""

    instructions: float = 0.0
    cycles: float = 0.0                     # typical
    worst: float = 0.0                      # cycles at worst
    launches: int = 0
    read: int = 0                           # bytes of operands, see Traffic
    written: int = 0
    weights: int = 0                        # bytes of constants
    macs: int = 0
    alu: int = 0                            # other arithmetic
    waits: float = 0.0                      # of the cycles: for weights, at the clock that the memory's wait states are for

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Cost)))

    def by_memory(self, target: Target) -> dict[str, int]:
        """Bytes that pass between the processor and each memory, by its name; inputs and outputs lie where the arena is."""
        found = dict.fromkeys((target.holding("arena")[0], target.holding("weights")[0]), 0)
        found[target.holding("arena")[0]] += self.read + self.written
        found[target.holding("weights")[0]] += self.weights
        return found

    @property
    def operations(self) -> int:
        """Arithmetic operations; a multiply-accumulate is two."""
        return 2 * self.macs + self.alu


def up(value: float, digits: int = 4) -> float:
    """The value rounded up to so many digits, for messages: as a limit it is enough."""
    if not value:
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits)
    return float(f"{math.ceil(value / unit) * unit:.{digits}g}")


def clock_of(target: Target) -> Clock:
    """The usual clock, with what it takes there as far as that is known."""
    usual = target.processor.clock_hz
    return next((c for c in target.clock if c.hz == usual), Clock(usual))


def cycles(cost: Cost, target: Target, clock: Clock) -> float:
    """Typical cycles at a clock: waits for weights grow and shrink with its wait states, between those of the clocks."""
    most = max((c.wait_states for c in target.clock), default=0)
    return cost.cycles + cost.waits * (clock.wait_states / most - 1 if most else 0)


def seconds(cost: Cost, target: Target, clock: Clock) -> float | None:
    """Typical time of an inference; None without a clock."""
    return cycles(cost, target, clock) / clock.hz if clock.hz else None


def energy_uj(cost: Cost, target: Target, clock: Clock) -> float | None:
    """Microjoules of an inference: the processor while it computes, and the bytes moved; None where the power is unknown."""
    if not clock.hz or not clock.active_uw:
        return None
    moved = sum(n * target.memory[name].pj_per_byte for name, n in cost.by_memory(target).items())
    return clock.active_uw * cycles(cost, target, clock) / clock.hz + moved * 1e-6


def families(plan: Plan, step: Step) -> tuple[str, ...]:
    """What a step's price may be listed under: its kernel with the operator that ends it, or its kernel; with _float32 behind
    it where floats are computed in software, which has nothing to do with what the same kernel takes with integers. What ends
    with stored values may have a price of its own: compilers use vectors for sums of floats."""
    names = (f"{step.kernel.name}_{step.node.parts[-1].op}", step.kernel.name)
    if in_software(plan, step):
        return tuple(f"{n}_float32" for n in names)
    ends = (*step.node.inputs[:1], *step.node.outputs[:1])
    stored = all(t and plan.graph.type(t).dtype.is_quantised for t in ends)
    return (f"{names[0]}_int8", *names) if stored else names


def in_software(plan: Plan, step: Step) -> bool:
    """Whether a step computes with floats on a processor that has no instructions for them."""
    p = plan.target.processors[step.processor].processor
    hard = p.isa == "native" or HARD & set(p.features)
    return not hard and any(plan.graph.type(t).dtype.is_float for t in step.node.inputs[:1] if t)


def price_of(plan: Plan, step: Step) -> Price:
    """The price of a step's family: the target's for it, or the processor's rough one."""
    core = plan.target.processors[step.processor]
    p, listed = core.processor, core.price
    times = SOFTWARE if in_software(plan, step) else 1
    rough = Price(mac=p.mac * times, alu=p.alu * times, call=p.launch)
    found = next((listed[f] for f in families(plan, step) if f in listed), rough)
    worst = found.cpi_worst or max(p.cpi_worst, p.cpi)
    # A kernel of few loads and branches may take less at worst than the usual mix does typically.
    return replace(found, cpi=min(found.cpi or p.cpi, worst), code=found.code or p.code, cpi_worst=worst)


def is_listed(plan: Plan, step: Step) -> bool:
    """Whether the target lists a price for a step's family."""
    return any(f in plan.target.processors[step.processor].price for f in families(plan, step))


def rough(plan: Plan) -> float:
    """The share of the cycles that is priced roughly, as the target lists no price for the kernel."""
    found = [(of_step(plan, s).cycles, not is_listed(plan, s)) for s in plan.steps]
    return sum(c for c, guess in found if guess) / max(sum(c for c, _ in found), 1e-9)


def code_bytes(plan: Plan) -> int:
    """Estimated bytes of code: of each kernel's function, and of the calls. Kernels that are alike may share theirs."""
    mode, functions, found = plan.options.share_kernels, set[Any](), float(ENTRY)
    for i, s in enumerate(plan.steps):
        if s.spec.written:
            continue
        alone = mode == "never" or (mode == "auto" and i in plan.inlined)
        key = i if alone else (s.kernel.name, s.node.parts[0].op, tuple(n.op for n in s.node.parts),
                               tuple(sorted(s.spec.constants.items())))
        found += CALL + (price_of(plan, s).code if key not in functions else 0)
        functions.add(key)
    return round(found)


def of_step(plan: Plan, step: Step) -> Cost:
    """All calls of one step."""
    if step.spec.written:
        return Cost()
    price, images = price_of(plan, step), step.spec.images
    found = counts(plan, step, price.tile_of)
    more = pressure.spilled(plan, step) + of_functions(plan, step)
    total, most = (instructions(price, n) + more for n in (found, found | _times(step.spec.most, images)))
    read, written, weights = (n * images for n in traffic(plan, step).total)
    stalls = {what: plan.target.holding(what)[1].wait_states * n / WORD
              for what, n in (("arena", read + written), ("weights", weights))}
    waits = sum(stalls.values())
    return Cost(total, total * price.cpi + waits, most * price.cpi_worst + waits, step.launches, read, written, weights,
                step.work.macs, step.work.alu, stalls["weights"])


def of_kernel(plan: Plan, steps: Sequence[int]) -> Cost:
    """One launch: its steps, and whose turn it is where their rows alternate."""
    found = sum((of_step(plan, plan.steps[i]) for i in steps), Cost())
    launches = min(1, found.launches) if len(steps) > 1 else found.launches
    return replace(_scheduled(plan, found, set(steps)), launches=launches)


def of_steps(plan: Plan) -> Cost:
    """All steps, whatever their schedule: what no schedule of the same kernels goes below."""
    return sum((of_step(plan, s) for s in plan.steps), Cost())


def of_plan(plan: Plan, work: Cost | None = None) -> Cost:
    """The whole inference; `work` is that of its steps, if it is known already: it is the same for all schedules."""
    found = _scheduled(plan, of_steps(plan) if work is None else work, set(range(len(plan.steps))))
    return replace(found, launches=plan.launches)


def _scheduled(plan: Plan, work: Cost, steps: set[int]) -> Cost:
    """The work of some steps, and what their schedule adds: turns in a kernel, and a call for each row outside of one."""
    p = plan.target.processor
    turns = 0.0
    for rows in ([c for c in plan.working(k) if c.step in steps] for k in plan.kernels if k.rows):
        each = p.turn + pressure.of_turn(plan, sorted({c.step for c in rows}))
        turns += each * sum(c.end - c.first for c in rows)
    calls = {} if plan.kernels else plan.calls_of
    again = sum(n - plan.steps[i].launches for i, n in calls.items() if i in steps)
    more = turns + again * p.launch
    return replace(work, instructions=work.instructions + more, cycles=work.cycles + more * p.cpi,
                   worst=work.worst + more * max(p.cpi_worst, p.cpi))


def meeting(plan: Plan) -> int:
    """Cycles for all cores that share the inference to meet."""
    names = plan.target.cores[:plan.options.cores]
    return max(plan.target.processors[name].link.handover for name in names)


def elapsed(plan: Plan) -> float:
    """Typical cycles from begin to end, however many cores work at a time."""
    if not plan.phases:
        return of_plan(plan).cycles
    return meeting(plan) + sum(max(p.cycles) + meeting(plan) for p in plan.phases)


def alone(plan: Plan) -> float:
    """Typical cycles if the first core computed everything, with the same kernels."""
    first = plan.target.cores[0]
    return sum(of_step(plan, replace(s, processor=first)).cycles for s in plan.steps) if plan.phases else elapsed(plan)


def shared(plan: Plan) -> dict[str, Any] | None:
    """How several cores share the inference, under the keys of docs/JSON.md; None of a plan for one."""
    if not plan.phases:
        return None
    time, first = elapsed(plan), alone(plan)
    busy = [sum(p.cycles[k] for p in plan.phases) for k in range(plan.options.cores)]
    return {"names": plan.target.cores[:plan.options.cores], "phases": len(plan.phases), "meeting_cycles": meeting(plan),
            "cycles": round(time), "cycles_alone": round(first), "speedup": first / time, "busy": [b / time for b in busy]}


def latency(plan: Plan, clock: Clock) -> float | None:
    """Seconds of an inference at a clock, by as many cores as the plan is for; None without a clock."""
    cost = of_plan(plan)
    time = seconds(cost, plan.target, clock)
    return time * elapsed(plan) / cost.cycles if time is not None and cost.cycles else time


def launch_cycles(plan: Plan) -> float:
    """Cycles of calling kernel functions: arguments, prologues, epilogues."""
    return plan.call_count * plan.target.processor.launch * plan.target.processor.cpi


def counts(plan: Plan, step: Step, tile_of: int) -> dict[str, float]:
    """What a price list multiplies, by COUNTS, of one inference; `tile_of`: how many pixels share a pass over the weights."""
    g, spec, names = plan.graph, step.spec, step.spec.constants
    outputs = sum(g.type(t).count for t in step.node.outputs if t)
    rows = spec.images * (1 if spec.flags.get("series") else spec.rows)     # a series is a row
    columns = names.get("OUT_W", 1)
    depth = names.get("DEPTH", step.work.macs / max(outputs, 1))
    runs = spec.flags.get("runs")       # where the kernel says how it tiles a row
    tiles = rows * (sum(r.tiles for r in runs) if runs else -(-columns // tile_of))
    across = names.get("GROUP_OUT", names.get("OUT_C", 1))
    operands = sum(g.type(t).count for t in step.node.inputs[1:] if t and g.data(t) is None)
    return {"mac": step.work.macs, "alu": step.work.alu, "output": outputs, "operand": operands, "pixel": rows * columns,
            "window": rows * columns * depth, "stream": tiles * across * depth, "block": tiles * across,
            "row": rows, "call": spec.images, **dict.fromkeys(EFFORT, 0),
            **_times({key: n for key, n in spec.effort.items() if key in COUNTS}, spec.images)}


def of_functions(plan: Plan, step: Step) -> float:
    """Instructions of the runtime's functions of reals: e^x, tanh and the like."""
    g, own = plan.graph, step.spec.effort.get(FUNCTION)
    times = plan.target.processors[step.processor].processor.function
    if own is not None:
        return times * own * step.spec.images
    scalars = ((bind(g, n), all_ops()[n.op].scalar) for n in step.node.parts)
    found = times * sum(functions.instructions(scalar(c).expr) * c.y[0].count for c, scalar in scalars
                        if scalar is not None and not c.quantised)
    return found + _one_by_one(plan, step)


def _one_by_one(plan: Plan, step: Step) -> float:
    """Instructions of finishing the elements of vectors one by one, as what is fused has no form for four of them."""
    g, y = plan.graph, plan.graph.type(step.node.outputs[0])
    behind = (all_ops()[n.op].scalar for n in step.node.parts[1:])
    if "mve" not in step.kernel.needs or not step.node.parts[0].inputs:
        return 0
    texts = [scalar(bind(g, n)) for n, scalar in zip(step.node.parts[1:], behind, strict=True) if scalar is not None]
    alone = any(s.tables or not s.words for s in texts if s.clamp is None)     # or read from a table
    return alone * y.count * ALONE[y.dtype.is_float]


def _times(effort: Mapping[str, int], images: int) -> dict[str, float]:
    """The effort of all images."""
    return {key: n * images for key, n in effort.items()}


def instructions(price: Price, found: dict[str, float]) -> float:
    """A kernel's instructions, from what was counted of it."""
    return sum(getattr(price, key) * n for key, n in found.items())


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that one call of a step moves, by its rows; the same numbers are C text for a build that counts.

    The rows of an operand under a window are read anew for each row of the result, other operands once; weights pass once
    for each row. Inputs and outputs of the model count like the arena, wherever the caller keeps them.
    """

    rows: int
    by_rows: bool
    window: RowWindow | None = None
    height: int = 0                         # rows of the operand under the window
    row: int = 0                            # bytes of one of them
    once: int = 0                           # bytes read when row 0 begins
    each: int = 0                           # bytes read with every row, beside the window's
    written: int = 0                        # bytes written with every row
    last: int = 0                           # bytes written with the last row
    weights: int = 0                        # bytes of constants for every row

    @property
    def total(self) -> tuple[int, int, int]:
        """Bytes read, written, and of weights, of all rows."""
        under = 0
        if self.window is not None:
            spans = (self.window.rows(j, self.height) for j in range(self.rows))
            under = sum(max(last - first + 1, 0) for first, last in spans)
        return (under * self.row + self.once + self.each * self.rows, self.written * self.rows + self.last,
                self.weights * self.rows)

    @property
    def read_text(self) -> str:
        """C expression of the bytes read by rows row .. row_end - 1."""
        w = self.window
        under = f"F2C_ROWS_UNDER({w.extent}, {w.stride}, {w.pad}, {self.height}) * {self.row}" if w is not None else ""
        return self._sum(under, self._each(self.each), f"(row == 0) * {self.once}" if self.by_rows else str(self.once))

    @property
    def written_text(self) -> str:
        """The same of the bytes written."""
        end = f"(row_end == {self.rows}) * {self.last}" if self.by_rows else str(self.last)
        return self._sum(self._each(self.written), end)

    @property
    def weights_text(self) -> str:
        """The same of the weights."""
        return self._sum(self._each(self.weights))

    def _each(self, size: int) -> str:
        return f"(row_end - row) * {size}" if self.by_rows else str(size * self.rows)

    @staticmethod
    def _sum(*parts: str) -> str:
        return " + ".join(p for p in parts if p and p.split(" * ")[-1] != "0") or "0"


def traffic(plan: Plan, step: Step) -> Traffic:
    """What one call of a step (for one image) moves."""
    g, spec, images = plan.graph, step.spec, step.spec.images
    weights = sum(a.nbytes for a in plan.constants(step))
    operands = [t for t in dict.fromkeys(step.node.inputs) if t and g.data(t) is None]
    results = sum(g.type(t).bytes for t in step.node.outputs if t) // images
    first = step.node.parts[0].inputs[0] if step.node.parts[0].inputs else ""
    found = Traffic(spec.rows, spec.by_rows, weights=weights,
                    once=sum(g.type(t).bytes for t in operands) // images)
    split = spec.by_rows and not spec.over_input and results % spec.rows == 0
    found = replace(found, written=results // spec.rows) if split else replace(found, last=results)
    height = spec.rows if spec.over_input else g.type(first).shape[2] if first and len(g.type(first).shape) > 2 else 0
    if spec.window is None or not spec.by_rows or not height or first not in operands:
        return found
    size = g.type(first).bytes // images
    return replace(found, window=spec.window, height=height, row=size // height,
                   once=sum(g.type(t).bytes for t in operands if t != first) // images)


def peak(plan: Plan, step: Step) -> float:
    """Multiply-accumulates a cycle that the arithmetic alone could do, by the type of the step's operands."""
    p, y = plan.target.processor, plan.graph.type(step.node.outputs[0])
    return p.flops_per_cycle if y.dtype.is_float and not step.node.parts[0].quantised else p.macs_per_cycle
