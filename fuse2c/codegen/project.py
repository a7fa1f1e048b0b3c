"""Writes the output folder: header, kernels, weights, the runtime files in use, build files, an example."""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from fuse2c.codegen import folder, loops, render, runtime, share
from fuse2c.codegen.schedule import Caller, Kernel, Part, Share, listed
from fuse2c.codegen.state import State, states
from fuse2c.codegen.steps import NAMES, Steps, steps
from fuse2c.codegen.tables import Table, table
from fuse2c.codegen.view import clean, view
from fuse2c.ir.types import CTYPE, DType, TensorType
from fuse2c.kernels.scalars import literal
from fuse2c.names import Namer, identifier
from fuse2c.plan import Plan


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of the model as the caller sees it."""

    tensor: str
    name: str               # C parameter
    buffer: str             # C array of a program that calls the model
    macro: str              # prefix of its macros
    ctype: str
    type: TensorType

    @property
    def shape(self) -> str:
        """For comments: [1, 32, 32, 3]."""
        return str(list(self.type.shape))

    @property
    def room(self) -> str:
        """Elements of a buffer, as C text: C has no arrays of none."""
        return f"{self.macro}_COUNT" if self.type.count else "1"

    @property
    def scale(self) -> str:
        """C literal of the scale; empty for a tensor without one scale."""
        quant = self.type.quant
        return literal(np.float32(quant.scale[0]), DType.F32) if quant and quant.per_tensor else ""

    @property
    def zero(self) -> int:
        """The zero point."""
        return self.type.quant.zero[0] if self.type.quant else 0


@dataclass(frozen=True, slots=True)
class Pushed:
    """The input that arrives row by row, and how a row of a whole input is passed on (C text)."""

    port: Port
    rows: int
    row_count: int          # elements
    args: str

    @property
    def room(self) -> str:
        """Elements of a buffer for a row, as C text."""
        return f"{self.port.macro}_ROW_COUNT"


@dataclass(frozen=True, slots=True)
class Cores:
    """What <name>_run_on prints: its parameters, launches by phase, and where the cores count their meetings (C text)."""

    count: int
    phases: tuple[tuple[Share, ...], ...]
    meetings: str
    params: str


@dataclass(frozen=True)
class ModelView:
    """All that the templates of model files may see as `m`."""

    name: str
    macro: str
    title: str
    target: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    pushed: Pushed | None
    states: tuple[State, ...]
    successors: tuple[str, ...]     # C expressions of the states' new values at the end of a run
    state_bytes: int                # of all states and the padding between them
    params: str
    reset_params: str
    arena: str
    arena_bytes: int
    arena_used: bool
    macs: int
    launches: int
    weight_bytes: int
    tables: tuple[Table, ...]
    kernels: tuple[str, ...]
    launched: tuple[Kernel, ...]
    parts: tuple[Part, ...]
    unused: tuple[str, ...]     # parameters that no call takes: only their shape mattered
    headers: tuple[str, ...]
    libm: bool                      # float64 calls the C library's mathematics
    sources: tuple[str, ...]
    cflags: str
    example_args: str
    reset_args: str
    steps: Steps | None
    cores: Cores | None
    rows: Mapping[str, int]         # of kernel functions, the most that a call computes

    @property
    def host_call(self) -> str:
        """The call of an inference in a host program: that of the first core, if there are several."""
        return f"{self.name}_run_on(0, {self.example_args})" if self.cores else f"{self.name}_run({self.example_args})"

    @property
    def ports(self) -> tuple[Port, ...]:
        """What the run function takes, but for the arena."""
        return self.inputs + self.outputs


def files(plan: Plan) -> dict[str, str]:
    """File name -> content of the whole output folder; the same plan gives the same bytes."""
    m = model_view(plan)
    result = {
        f"{m.name}.h": render.page("model.h.j2", m=m),
        f"{m.name}.c": loops.bounded(render.page("model.c.j2", m=m, trace=False), m.rows),
        f"{m.name}_weights.h": render.page("weights.h.j2", m=m),
        f"{m.name}_weights.c": render.page("weights.c.j2", m=m),
        "Makefile": render.page("Makefile.j2", m=m),
        "CMakeLists.txt": render.page("CMakeLists.txt.j2", m=m),
        "example_main.c": render.page("example_main.c.j2", m=m),
    }
    return result | {header: runtime.text(header) for header in runtime.closure(m.headers)}


def host_files(plan: Plan) -> dict[str, str]:
    """Further files for checks on the host: a run that records what each step wrote, and a program to sanitize."""
    m = model_view(plan)
    stepwise = replace(m, launched=(Kernel(m.parts),))
    return {f"{m.name}_trace.c": render.page("host/trace.c.j2", m=stepwise, trace=True),
            f"{m.name}_host.c": render.page("host/main.c.j2", m=m)}


def write(plan: Plan, output: Path, more: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Write the folder, with further files; nothing half-written is left behind. An older output is replaced; see folder.py."""
    return folder.write({**files(plan), **more}, output)


@np.errstate(all="ignore")      # tables of absurd scales may overflow; what they hold is then infinite
def model_view(plan: Plan) -> ModelView:
    """The view of a whole model."""
    name = identifier(plan.graph.name)
    # What the run function names beside its parameters.
    namer = Namer(frozenset({"at", "bytes", "i", "n", "order", "rows", "trace", "trace_at", f"{name}_arena",
                             "more", "taken", f"{name}_run", f"{name}_trace", f"{name}_reset",
                             f"{name}_next", f"{name}_push_row", *(NAMES if plan.slices else ()),
                             *((f"{name}_run_on", f"{name}_meetings", "core") if plan.phases else ()),
                             *(s.function for s in plan.steps)}))
    inputs = tuple(_port(plan, t, namer, name, "input") for t in plan.inputs)
    outputs = tuple(_port(plan, t, namer, name, "output") for t in plan.outputs)
    kept = states(plan, name, namer)
    views, kernels = share.kernels(plan, [view(plan, s) for s in plan.steps])
    tables = {n: a for v in views for n, a in v.tables.items()}
    caller = plan.options.arena == "caller"
    params = [*(f"const {p.ctype} *{p.name}" for p in inputs), *(f"{p.ctype} *{p.name}" for p in outputs),
              *["void *arena"] * caller]
    args = [*(p.buffer for p in inputs + outputs), *["arena"] * caller]
    buffers = {p.tensor: p.name for p in inputs + outputs} | {s.tensor: s.buffer for s in kept}
    calls = Caller(plan, views, buffers)
    parts, launched = calls.parts(), calls.kernels()
    return ModelView(
        name=name, macro=name.upper(), title=clean(plan.graph.name),
        target=clean(plan.target.title), inputs=inputs, outputs=outputs,
        pushed=_pushed(plan, inputs, outputs), states=kept, successors=tuple(calls.buffer(s.output, s.ctype) for s in kept),
        state_bytes=plan.ram_bytes - plan.state_places[0].offset if kept else 0,
        params=listed(params) or "void",
        reset_params="void *arena" if caller else "void", reset_args="arena" if caller else "",
        arena=plan.options.arena, arena_bytes=plan.arena_bytes,
        arena_used=bool(plan.places or (kept and caller)), macs=plan.macs, launches=plan.launches,
        weight_bytes=sum(a.nbytes for a in tables.values()),
        tables=tuple(table(n, a) for n, a in tables.items()),
        kernels=kernels, launched=launched, parts=parts, unused=_unused([p.name for p in inputs + outputs], parts),
        headers=(headers := runtime.headers("\n".join(["f2c_meet"] * bool(plan.phases) + [*kernels]))),
        libm=runtime.needs_libm(headers),
        sources=(f"{name}.c", f"{name}_weights.c"),
        cflags=" ".join(plan.target.processor.cflags),
        steps=steps(plan, launched), cores=_cores(plan, calls.phases(launched), params), rows={v.callee: v.rows for v in views},
        example_args=listed(args))


def _cores(plan: Plan, phases: tuple[tuple[Share, ...], ...], params: list[str]) -> Cores | None:
    if not plan.phases:
        return None
    name = identifier(plan.graph.name)
    at = f"(uint32_t *)(void *)&bytes[{plan.meetings_at}]" if plan.options.arena == "caller" else f"{name}_meetings"
    return Cores(plan.options.cores, phases, at, listed(["int32_t core", *params]))


def _pushed(plan: Plan, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Pushed | None:
    if not plan.options.input_rows:
        return None
    (port,), rows = inputs, plan.steps[0].spec.rows
    args = [f"&{port.name}[at * {port.macro}_ROW_COUNT]", *(p.name for p in outputs)]
    return Pushed(port, rows, port.type.count // rows, ", ".join(args))


def _unused(names: Iterable[str], parts: tuple[Part, ...]) -> tuple[str, ...]:
    """Parameters that the run function does not name."""
    text = " ".join(call.text for part in parts for call in part.calls)
    return tuple(n for n in names if not re.search(rf"\b{n}\b", text))


def _port(plan: Plan, tensor: str, namer: Namer, model: str, fallback: str) -> Port:
    name = namer(tensor, fallback)
    t = plan.graph.type(tensor)
    return Port(tensor, name, f"{fallback[:-3]}_{name}", f"{model}_{name}".upper(), CTYPE[t.dtype], t)
