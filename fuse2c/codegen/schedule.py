"""The body of the run function: kernel calls in order; where rows of several steps alternate, a table and a switch."""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fuse2c.codegen.view import Param, View, clean
from fuse2c.ir.types import CTYPE
from fuse2c.names import identifier
from fuse2c.passes import _rows, _units
from fuse2c.plan import Plan

WIDTH = 32      # entries a line of the table
PIECE = ("piece[1]", "piece[2]")        # the first unit and the end of a piece of a step


def listed(items: Sequence[str]) -> str:
    """A list of parameters: on one line if it fits, else each on its own."""
    text = ", ".join(items)
    return text if len(text) <= 90 else "\n    " + ",\n    ".join(items)


def lines(items: Sequence[str], width: int = WIDTH) -> tuple[str, ...]:
    """The initialisers of a table, so many a line."""
    return tuple(", ".join(items[i:i + width]) + "," for i in range(0, len(items), width))


@dataclass(frozen=True, slots=True)
class Result:
    """What a call wrote, for the tracing run: where it goes in the record, where it lies, its bytes (C text)."""

    offset: str
    pointer: str
    bytes: int


@dataclass(frozen=True, slots=True)
class CallView:
    """One kernel call; inside a schedule it computes row `at`. `loop`: over the images of a batch, or empty."""

    text: str
    loop: str
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Calls one after the other, or a schedule: `order` says whose turn it is."""

    calls: tuple[CallView, ...]
    order: tuple[str, ...] = ()         # lines of the table
    length: int = 0
    starts: str = "0"                   # the first row of each kernel: an earlier schedule may have begun it
    pushed: bool = False                # kernel 0 takes over a row that the caller pushes

    @property
    def steps(self) -> int:
        """How many kernels take turns."""
        return len(self.calls)

    @property
    def ctype(self) -> str:
        """C type of a turn."""
        return _counts(len(self.calls))


@dataclass(frozen=True, slots=True)
class Turns:
    """The units of a function that can stop after any of them: whose turn it is (`order`), and which row (`rows`, empty
    if no call asks), as lines of tables of `length` numbers."""

    calls: tuple[CallView, ...]
    order: tuple[str, ...]
    rows: tuple[str, ...]
    length: int
    ctype: str
    row_ctype: str
    launch: bool                        # whether it is one launch; else its kernels are


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch: a call, or a function that consists of several steps. `piece`: the call of a part of it."""

    parts: tuple[Part, ...]
    function: str = ""                  # "": the one call of its part
    params: str = ""
    args: str = ""
    steps: tuple[str, ...] = ()         # what it consists of, for the comment
    turns: Turns | None = None          # with --step-budget
    piece: CallView | None = None

    @property
    def call(self) -> tuple[str, ...]:
        """The call of the function."""
        everything = f", 0, {self.turns.length}" if self.turns else ""
        return (f"{self.function}({self.args}{everything});",) if self.function else ()

    @property
    def here(self) -> tuple[Part, ...]:
        """What the run function does itself."""
        return () if self.function else self.parts


@dataclass(frozen=True, slots=True)
class Share:
    """The launches of one core in one phase; its name is for a comment."""

    core: int
    name: str
    launches: tuple[Kernel, ...]


def _ctype(p: Param) -> str:
    """What a parameter points to."""
    return p.declaration.rsplit("*", 1)[0].strip()


def _counts(n: int) -> str:
    """C type of a number below n."""
    return "uint8_t" if n <= 256 else "uint16_t"


class Caller:
    """Prints calls of the kernels of one plan."""

    def __init__(self, plan: Plan, views: Sequence[View], ports: Mapping[str, str]) -> None:
        self.plan, self.views, self.ports = plan, views, ports
        self.places = {p.name: p.offset for p in plan.places}
        # Of each step, by function, the core of its first call.
        self.homes = {plan.steps[c.step].function: (plan.steps[c.step], c.core) for c in reversed(plan.calls)}
        self.records: dict[str, int] = {}
        self.done: Counter[int] = Counter()     # rows that schedules have computed, by step
        self.rows = _rows.row_steps(plan)
        at = 0
        for step in plan.steps:
            for t in step.node.outputs:
                self.records[t] = at
                at += plan.graph.type(t).bytes

    def kernels(self) -> tuple[Kernel, ...]:
        """The whole schedule, launch by launch."""
        found: list[Kernel] = []
        stops = self.plan.slices is not None
        for k in _units.launches(self.plan):
            parts = self.parts(k.first, k.end)
            if not _units.in_function(self.plan, k) or not (self.plan.kernels or stops):
                (step,) = {c.step for c in self.plan.working(k)} if stops else {-1}
                found.append(Kernel(parts, piece=self.call(self.views[step], PIECE) if stops else None))
                continue
            text = " ".join(call.text for part in parts for call in part.calls)
            used = [(p, n) for p, n in self.pointers if re.search(rf"\b{n}\b", text)]
            steps = dict.fromkeys(c.step for c in self.plan.working(k))
            function = f"{identifier(self.plan.graph.name)}_kernel_{len(found) + 1}"
            args = ", ".join(name for _, name in used)
            range_ = ["int32_t first", "int32_t end"] * stops
            found.append(Kernel(parts, function, listed([p for p, _ in used] + range_), args,
                                tuple(" > ".join(n.op for n in self.plan.steps[i].node.parts) for i in steps),
                                self.turns(len(found)) if stops else None,
                                CallView(f"{function}({', '.join([args, *PIECE])});", "", ()) if stops else None))
        return tuple(found)

    @property
    def pointers(self) -> list[tuple[str, str]]:
        """(declaration, name) of everything that the run function may hand on."""
        owned = [t for t in (*self.plan.inputs, *self.plan.outputs) if t in self.ports]
        found = [(f"{'const ' * (t in self.plan.inputs)}{CTYPE[self.plan.graph.type(t).dtype]} *{self.ports[t]}", self.ports[t])
                 for t in owned]
        return [*found, ("uint8_t *bytes", "bytes")]

    def turns(self, launch: int) -> Turns:
        """The units of a launch that is a function."""
        own = [u for u in _units.units(self.plan) if u.launch == launch]
        steps = list(dict.fromkeys(u.step for u in own))
        index = {step: str(i) for i, step in enumerate(steps)}
        calls = tuple(self.call(self.views[s], ("at", "at + 1")) for s in steps)
        asked = any(re.search(r"\bat\b", c.text + c.loop) for c in calls)
        rows = [str(u.at) for u in own] if asked else []
        return Turns(calls, lines([index[u.step] for u in own]), lines(rows), len(own), _counts(len(steps)),
                     _counts(max(u.at for u in own) + 1), bool(self.plan.kernels))

    def parts(self, first: int = 0, end: int | None = None) -> tuple[Part, ...]:
        """The schedule of some calls, by default of all."""
        parts: list[Part] = []
        run: list[tuple[int, int]] = []         # (step, rows) of the schedule being collected
        # While rows are pushed it is one schedule, which can stop and go on.
        if first == 0:
            self.done.clear()
        for i, call in list(enumerate(self.plan.calls))[first:end]:
            spec = self.plan.steps[call.step].spec
            if spec.written:
                continue
            if call.step in self.plan.shared:
                parts += self._schedule(run)
                run = []
                parts.append(Part((self.call(self.views[call.step], (str(call.first), str(call.end)), call.core),)))
                continue
            whole = (call.first, call.end) == (0, spec.rows) and all(step != call.step for step, _ in run)
            if i <= self.plan.last_push or not whole:
                run += [(call.step, 1)] * (call.end - call.first)
                continue
            parts += self._schedule(run)
            run = []
            parts.append(Part((self.call(self.views[call.step]),)))
        return tuple(parts + self._schedule(run))

    def _schedule(self, run: list[tuple[int, int]]) -> list[Part]:
        if not run:
            return []
        steps = sorted({step for step, _ in run})
        items = [str(steps.index(step)) for step, _ in run]
        starts = ", ".join(str(self.done[s]) for s in steps)
        for step, rows in run:
            self.done[step] += rows
        pushed = self.plan.options.input_rows and 0 in steps
        return [Part(tuple(self.row_call(s) for s in steps), lines(items), len(items), starts, pushed)]

    def phases(self, kernels: Sequence[Kernel]) -> tuple[tuple[Share, ...], ...]:
        """What each core does in each phase; nothing of a plan for one core."""
        first = {k.first: kernel for k, kernel in zip(_units.launches(self.plan), kernels, strict=True)}
        found = []
        for begin, end in self.plan.spans:
            shares = [Share(core, clean(name), tuple(first[i] for i in range(begin, end)
                                                     if i in first and self.plan.calls[i].core == core))
                      for core, name in enumerate(self.plan.target.cores[:self.plan.options.cores])]
            found.append(tuple(s for s in shares if s.launches))
        return tuple(found)

    def call(self, v: View, part: tuple[str, str] | None = None, core: int | None = None) -> CallView:
        """A call that computes everything, or the part from one row or image (C text) up to another, for a core."""
        args = list(v.tables_first)
        for p in v.args:
            pointer = self.pointer(p, v.function, core)
            if v.images > 1 and p.tensor:
                pointer = f"{pointer} + (n * {self.plan.graph.type(p.tensor).count // v.images})"
            args.append(pointer)
        n, end = part or ("0", str(v.images))
        args += (part if part and v.images == 1 else ("0", str(v.rows))) if v.by_rows else ()
        results = tuple(self.result(p) for p in v.args if p.tensor and p.written)
        return CallView(f"{v.callee}({', '.join(args)});", f"int32_t n = {n}; n < {end}; ++n" if v.images > 1 else "", results)

    def result(self, p: Param) -> Result:
        """All that was written: of a part of a tensor the whole tensor, the parts written later still as they were."""
        t = self.plan.inlaid.get(p.tensor, p.tensor)
        return Result(str(self.records[t]), self.buffer(t, _ctype(p)), self.plan.graph.type(t).bytes)

    def row_call(self, step: int) -> CallView:
        """A call that computes row `at` of a step."""
        v = self.views[step]
        args = [*v.tables_first, *(self.pointer(p, v.function) for p in v.args), "at", "at + 1"]
        y = next(p for p in v.args if p.tensor and p.written)
        name = self.plan.inlaid.get(y.tensor, y.tensor)
        t, ring = self.plan.graph.type(name), self.plan.rings.get(self.plan.root(name))
        whole = self.call(v).results
        if self.rows[step].out_rows == v.rows and (name == y.tensor or _rows.goes_along(self.plan, self.rows[step], self.rows)):
            row = t.bytes // v.rows
            lies = f"(at % {ring})" if ring else "at"
            result = Result(f"{self.records[name]} + (size_t)(at * {row})",
                            f"(const uint8_t *){self.buffer(name, _ctype(y))} + ({lies} * {row})", row)
            return CallView(f"{v.callee}({', '.join(args)});", "", (result,))
        return CallView(f"{v.callee}({', '.join(args)});", "", whole)

    def pointer(self, p: Param, function: str, core: int | None = None) -> str:
        """The C expression of a parameter's buffer; scratch is the core's own."""
        if p.tensor:
            return self.buffer(p.tensor, _ctype(p))
        step, usual = self.homes[function]
        return self._place(self.plan.scratch(step, usual if core is None else core), _ctype(p))

    def buffer(self, tensor: str, ctype: str) -> str:
        """The C expression of a tensor's buffer: the caller's and states by name, others by their place in the arena."""
        root, begins, t = self.plan.owner(tensor), self.plan.begins.get(tensor, ()), self.plan.graph.type(tensor)
        at = sum(i * s for i, s in zip(begins, t.strides, strict=False))
        owner = next((self.ports[t] for t in self.ports if self.plan.root(t) == root), None)
        same = self.plan.graph.type(root).dtype == t.dtype
        start = self._place(root, ctype) if owner is None else owner if same else f"({ctype} *)(void *){owner}"
        return f"{start} + {at}" if at else start

    def _place(self, name: str, ctype: str) -> str:
        return f"({ctype} *)(void *)&bytes[{self.places.get(name, 0)}]"


