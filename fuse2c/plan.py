"""The plan: everything decided about a model on a target. C and reports are printed from it."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fuse2c.ir.graph import Graph, Node
from fuse2c.ir.text import dump
from fuse2c.op import Kernel, Spec, Work, bind
from fuse2c.ops import all_ops
from fuse2c.options import Options
from fuse2c.target import Target

ALIGN = 8       # bytes, of every buffer; kernels may use 64-bit loads
WORD = 4        # bytes of a core's counter of meetings


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice, and why."""

    stage: str
    subject: str
    taken: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel call. `function` is its C name; `processor`: for which of the target's its kernel was chosen."""

    node: Node
    kernel: Kernel
    spec: Spec
    function: str
    work: Work
    processor: str = ""                 # "": the first

    @property
    def launches(self) -> int:
        """Kernel calls in one inference."""
        return 0 if self.spec.written else self.spec.images


@dataclass(frozen=True, slots=True)
class Call:
    """Rows first..end-1 of a step; `core`: which of the cores that share the inference computes them."""

    step: int
    first: int
    end: int
    core: int = 0


@dataclass(frozen=True, slots=True)
class Phase:
    """What several cores do between two meetings: calls from `first` on, estimated cycles by core (in those of the first)."""

    first: int
    cycles: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor, a ring or a scratch buffer lies while calls first..last run."""

    name: str
    offset: int         # bytes from the start of the arena
    size: int           # bytes
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Launch:
    """Calls first..end-1 are one kernel; `rows`: some of its steps take turns row by row."""

    first: int
    end: int
    rows: bool


@dataclass(frozen=True, slots=True)
class Slices:
    """Where <name>_step stops: step i runs the units first[i] .. first[i + 1] - 1, see passes/_units.py.

    `bounds`: the most instructions (or what `unit` says) of each step; `proof`: what proves them, empty where they are
    estimates.
    """

    first: tuple[int, ...]
    bounds: tuple[int, ...]
    proof: str = ""
    unit: str = "instructions"


@dataclass(frozen=True, slots=True)
class Point:
    """One of the plans that were compared: none of them has both less RAM and fewer cycles."""

    ram: int                # bytes: arena and states
    cycles: int             # typical, by the target's prices
    instructions: int       # likewise
    calls: int              # of kernel functions


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes that are live at once; no placement of the same schedule can take less."""

    bytes: int              # rings whole, of other buffers the rows that are live
    rows: int               # of rings, too, only the rows that are live: ideal packing
    time: int               # when, in rows computed
    step: int               # what runs then


@dataclass(frozen=True)
class Plan:
    """Graph, target and options on the way from model to C; passes fill in the rest."""

    graph: Graph
    target: Target
    options: Options = field(default_factory=Options)
    steps: tuple[Step, ...] = ()
    places: tuple[Place, ...] = ()
    views: dict[str, str] = field(default_factory=dict)     # tensor -> the tensor whose bytes it shares
    inlaid: dict[str, str] = field(default_factory=dict)     # tensor -> the joined tensor in whose bytes it is written
    begins: dict[str, tuple[int, ...]] = field(default_factory=dict)    # of parts and slices: where in the owner they begin
    rings: dict[str, int] = field(default_factory=dict)     # root tensor -> rows that are kept of it
    calls: tuple[Call, ...] = ()                            # the schedule: which rows of which step, in order
    decisions: tuple[Decision, ...] = ()
    phases: tuple[Phase, ...] = ()      # of several cores
    kernels: tuple[Launch, ...] = ()    # calls that are one kernel; none: each step is one
    front: tuple[Point, ...] = ()       # the plans to choose from, the one with the fewest cycles first
    point: Point | None = None          # the one that was chosen
    peak: Peak | None = None            # None: nothing is ever live
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # result -> axis and length of its parts: split.py
    slices: Slices | None = None        # with --step-budget, from fission.py
    source: Graph | None = None         # the graph as imported, before any rewriting: the model's own meaning

    def decide(self, stage: str, *rows: tuple[str, bool, str]) -> Plan:
        """The same plan with more decisions."""
        return replace(self, decisions=self.decisions + tuple(Decision(stage, *row) for row in rows))

    def root(self, tensor: str) -> str:
        """The tensor that owns the bytes of `tensor`."""
        while tensor in self.views:
            tensor = self.views[tensor]
        return tensor

    def owner(self, tensor: str) -> str:
        """The tensor in whose place in memory `tensor` lies: its root, or what that is a part of."""
        root = self.root(tensor)
        return self.inlaid.get(root, root)

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the caller passes: the graph's inputs that are no state."""
        return tuple(t for t in self.graph.inputs if t not in dict(self.options.stateful))

    @property
    def outputs(self) -> tuple[str, ...]:
        """What the caller receives: the graph's outputs that are no state."""
        return tuple(t for t in self.graph.outputs if t not in dict(self.options.stateful).values())

    @property
    def state_places(self) -> tuple[Place, ...]:
        """Where the states (by input) lie in a caller's arena: behind all that one inference needs, aligned."""
        at, found = _aligned(self.working_bytes), []
        for t, _ in self.options.stateful:
            found.append(Place(t, at, self.graph.type(t).bytes, 0, len(self.calls)))
            at += _aligned(found[-1].size)
        return tuple(found)

    @property
    def working_bytes(self) -> int:
        """All that one inference needs, without states."""
        return max((p.offset + p.size for p in self.places), default=0)

    @property
    def ram_bytes(self) -> int:
        """Arena and states, wherever the states lie, and where several cores count their meetings."""
        return self.meetings_at + WORD * self.options.cores if self.phases else self._with_states

    @property
    def _with_states(self) -> int:
        return max((_aligned(p.offset + p.size) for p in self.state_places), default=self.working_bytes)

    @property
    def meetings_at(self) -> int:
        """Where in a caller's arena the cores count their meetings."""
        return _aligned(self._with_states)

    @property
    def arena_bytes(self) -> int:
        """Size of the arena; the states are in it if it is the caller's, else they are arrays of their own."""
        return self.ram_bytes if self.options.arena == "caller" else self.working_bytes

    @property
    def launches(self) -> int:
        """Kernel calls in one inference; what several cores compute together counts once."""
        if not self.kernels:
            return sum(s.launches for s in self.steps)
        return sum(1 if self.is_joined(k) else sum(self.steps[c.step].launches for c in self.working(k) if c.first == 0)
                   for k in self.kernels)

    def is_joined(self, k: Launch) -> bool:
        """Whether a kernel is more than one call of one step."""
        return k.rows or len(self.working(k)) > 1

    def working(self, k: Launch) -> tuple[Call, ...]:
        """The calls of a kernel without those of steps that have nothing to do."""
        return tuple(c for c in self.calls[k.first:k.end] if not self.steps[c.step].spec.written)

    @property
    def kernel_steps(self) -> list[list[int]]:
        """Steps by kernel, in the order of their first call."""
        if not self.kernels:
            return [[i] for i in range(len(self.steps))]
        found: list[list[int]] = []
        for k in self.kernels:
            steps = list(dict.fromkeys(c.step for c in self.calls[k.first:k.end]))
            if found and set(steps) <= set(found[-1]):
                continue                # another core's part of the same
            if found and all(self.steps[i].spec.written for i in steps):
                found[-1] += steps      # what the kernel before it has written
            else:
                found.append(steps)
        return found

    @property
    def inlined(self) -> set[int]:
        """Steps that are no kernels of their own."""
        return {c.step for k in self.kernels if self.is_joined(k) for c in self.calls[k.first:k.end]}

    @cached_property
    def shared(self) -> frozenset[int]:
        """Steps of which several cores compute rows."""
        cores: dict[int, set[int]] = {}
        for c in self.calls:
            cores.setdefault(c.step, set()).add(c.core)
        return frozenset(step for step, found in cores.items() if len(found) > 1)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First call and end of each phase."""
        firsts = [p.first for p in self.phases]
        return tuple(zip(firsts, [*firsts[1:], len(self.calls)], strict=True)) if firsts else ()

    def where(self, i: int) -> list[str]:
        """The processors that compute a step."""
        cores = sorted({c.core for c in self.calls if c.step == i})
        return [self.target.cores[k] if k else self.steps[i].processor for k in cores]

    def scratch(self, step: Step, core: int) -> str:
        """The name of the scratch of a core's call."""
        return f"{step.function} scratch" + (f" of core {core}" if core else "")

    @property
    def call_count(self) -> int:
        """Calls of kernel functions in one inference; a kernel that takes turns row by row is called for each row."""
        if self.kernels:
            return self.launches + sum(c.first > 0 for c in self.calls if c.step in self.shared)
        return sum(self.calls_of.values())

    @property
    def calls_of(self) -> dict[int, int]:
        """Calls of each step's function in one inference, where each step is a kernel of its own."""
        found, last_push = dict[int, int](), self.last_push
        for i, c in enumerate(self.calls):
            step = self.steps[c.step]
            whole = c.end - c.first == step.spec.rows and i > last_push
            if not step.spec.written:
                found[c.step] = found.get(c.step, 0) + (step.launches if whole else c.end - c.first)
        return found

    @property
    def last_push(self) -> int:
        """The call that takes over the last row of an input that is pushed row by row; -1: none is."""
        pushes = (i for i, c in enumerate(self.calls) if c.step == 0 and self.options.input_rows)
        return max(pushes, default=-1)

    @property
    def turns(self) -> int:
        """Rows that are computed in turn with those of other steps, inside a kernel."""
        return sum(c.end - c.first for k in self.kernels if k.rows for c in self.working(k))

    @property
    def macs(self) -> int:
        """Multiply-accumulates in one inference."""
        return sum(s.work.macs for s in self.steps)

    @property
    def intermediate_bytes(self) -> int:
        """Bytes of all tensors that one kernel writes and another reads."""
        outputs = {self.root(t) for t in self.graph.outputs} | set(self.graph.outputs)
        inside = self.handed_on
        return sum(self.graph.type(t).bytes for s in self.steps for t in s.node.outputs
                   if t not in outputs and t not in self.inlaid and self.root(t) not in inside)

    @property
    def handed_on(self) -> set[str]:
        """Roots of tensors that only the steps of one kernel know: rings and short vectors."""
        kernel = {step: i for i, k in enumerate(self.kernels) for step in {c.step for c in self.calls[k.first:k.end]}}
        users: dict[str, set[int]] = {}
        for i, s in enumerate(self.steps):
            for t in (*s.node.inputs, *s.node.outputs):
                users.setdefault(self.owner(t), set()).add(kernel.get(i, -1 - i))
        return {t for t, found in users.items() if len(found) == 1}

    def constants(self, step: Step) -> list[np.ndarray]:
        """All tables of a step: its kernel's, and those of the operators that finish its elements."""
        loads = "loads" in step.spec.flags or "program" in step.spec.flags
        parts = step.node.parts if loads else step.node.parts[1:]
        scalars = [op.scalar(bind(self.graph, n)) for n in parts if (op := all_ops()[n.op]).scalar is not None]
        tables = [a for found in (step.spec, step.spec.finish, *scalars) if found is not None
                  for a in found.tables.values()]
        vectors = dict.fromkeys(t for n in parts for t in n.inputs) if not loads else ()
        return tables + [a for t in vectors if (a := self.graph.data(t)) is not None and a.size > 1]

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all constant tables."""
        return sum(a.nbytes for s in self.steps for a in self.constants(s))

    def text(self) -> str:
        """A stable dump: graph, steps, places, decisions."""
        out = [dump(self.graph)]
        out += [f"step {i}: {s.function} = {s.kernel.name}, {s.work.macs} MAC" for i, s in enumerate(self.steps)]
        out += [f"view {t} = {owner}" for t, owner in self.views.items()]
        out += [f"part {t} in {self.owner(t)} at {list(at)}" for t, at in self.begins.items()]
        out += [f"arena+{p.offset} {p.size} B [{p.first},{p.last}] {p.name}" for p in self.places]
        out += [f"{'+' if d.taken else '-'} {d.stage}: {d.subject}: {d.reason}" for d in self.decisions]
        return "\n".join(out) + "\n"
