"""Generated C on the host: built as a shared library, called through cffi. The only file that imports cffi."""
from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from fuse2c import toolchain
from fuse2c.codegen import project
from fuse2c.errors import BuildError
from fuse2c.ir.types import CTYPE, TensorType, pack, unpack
from fuse2c.names import identifier
from fuse2c.plan import Plan

SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g")
THREADS = ("-fsanitize=thread", "-fno-omit-frame-pointer", "-g", "-pthread")

COUNTERS = ("macs", "launches", "calls", "read", "written", "weights")


@dataclass
class HostModel:
    """A plan's C, compiled for this machine. Use as a context manager: the build folder goes with it."""

    plan: Plan
    opt: str = "-O2"
    cc: str | None = None
    count: bool = False                         # build with -DF2C_COUNT
    extra: tuple[str, ...] = ()                 # further flags
    folder: tempfile.TemporaryDirectory[str] = field(init=False)
    arena: np.ndarray = field(init=False)       # of a model with states and a caller's arena: its instance

    def __post_init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="fuse2c_")
        self.name = identifier(self.plan.graph.name)
        root = Path(self.folder.name)
        for name, text in (project.files(self.plan) | project.host_files(self.plan)).items():
            (root / name).write_text(text, encoding="utf-8")
        self.library = self._load(self._build(root))
        self.arena = self.instance()
        self.reset()
        if self.plan.phases and self.plan.options.arena == "caller":
            getattr(self.library, f"{self.name}_reset_cores")(*self._arena(self.arena))

    def __enter__(self) -> HostModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()

    def _build(self, root: Path) -> Path:
        tools = toolchain.host(self.cc)
        sources = [f"{self.name}_trace.c", f"{self.name}_weights.c"]
        output = root / "model.so"
        counting = ["-DF2C_COUNT"] * self.count
        toolchain.run([tools.cc, *toolchain.WARNINGS, self.opt, *self.extra, *counting, "-ffp-contract=off", "-shared", "-fPIC",
                       *(str(root / s) for s in sources), "-o", str(output)], f"{self.name}.c does not compile")
        return output

    def instance(self) -> np.ndarray:
        """A further arena, full of rubbish; put into `arena` and reset, it is another instance of the model."""
        return np.full(self.plan.arena_bytes + 8, 0xA5, np.uint8)

    def reset(self) -> None:
        """States become zeros; a model without states has nothing to reset."""
        if self.plan.options.stateful:
            self.function("reset")(*self._arena(self.arena))

    def _arena(self, arena: np.ndarray) -> list[object]:
        """The argument that only the caller's arena needs."""
        return [self.ffi.cast("void *", arena.ctypes.data)] if self.plan.options.arena == "caller" else []

    def _load(self, library: Path) -> object:
        self.ffi = cffi.FFI()
        types = {t: CTYPE[self.plan.graph.type(t).dtype] for t in (*self.plan.inputs, *self.plan.outputs)}
        arena = ["void *"] * (self.plan.options.arena == "caller")
        params = [f"const {types[t]} *" for t in self.plan.inputs] + [f"{types[t]} *" for t in self.plan.outputs] + arena
        self.ffi.cdef(f"int {self.name}_run({', '.join(params)}); int {self.name}_trace({', '.join([*params, 'uint8_t *'])});")
        if self.count:
            self.ffi.cdef(f"extern uint64_t {', '.join(f'{self.name}_{what}' for what in COUNTERS)};")
        if self.plan.options.stateful:
            self.ffi.cdef(f"void {self.name}_reset({', '.join(arena)});")
        if self.plan.phases:
            self.ffi.cdef(f"int {self.name}_run_on(int32_t, {', '.join(params)}); void {self.name}_reset_cores(void *);")
        if self.plan.slices is not None:
            fields = " ".join(f"{p.strip(' *')} *p{i};" for i, p in enumerate(params))
            self.ffi.cdef(f"typedef struct {{ int32_t next; {fields} }} context_t;"
                          f"void {self.name}_init(context_t *, {', '.join(params)}); int {self.name}_step(context_t *);"
                          f"void {self.name}_abort(context_t *);")
        return self.ffi.dlopen(str(library))

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs (logical arrays) of one inference; with states, of the next frame."""
        return self._call("run", inputs, None)

    def together(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The same by all cores of a plan for several, each a thread."""
        sources, results = self.buffers(inputs)
        buffers, run_on = self.arguments(sources, results, self.arena), getattr(self.library, f"{self.name}_run_on")
        with ThreadPoolExecutor(self.plan.options.cores) as pool:
            statuses = list(pool.map(lambda core: run_on(core, *buffers), range(self.plan.options.cores)))
        if any(statuses):
            raise BuildError(f"{self.name}_run_on returned {statuses}")
        return {t: unpack(a, self.plan.graph.type(t)) for t, a in zip(self.plan.outputs, results, strict=True)}

    def begin(self, inputs: Mapping[str, np.ndarray]) -> Stepping:
        """An inference in steps, of a plan with slices; without states it has an arena of its own."""
        return Stepping(self, inputs)

    def function(self, what: str) -> Any:
        """<name>_<what>, to be called with `arguments`."""
        return getattr(self.library, f"{self.name}_{what}")

    def counted(self) -> dict[str, int]:
        """The counters of a build with `count`: work of all runs so far."""
        return {what: int(getattr(self.library, f"{self.name}_{what}")) for what in COUNTERS}

    def trace(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inputs, states before the run and what each step wrote, by tensor name; views included."""
        g = self.plan.graph
        written = [t for s in self.plan.steps for t in s.node.outputs] + [t for t, _ in self.plan.options.stateful]
        record = np.zeros(sum(g.type(t).bytes for t in written) + 1, np.uint8)
        self._call("trace", inputs, record)
        values = {t: np.asarray(a) for t, a in inputs.items()}
        values |= {t: data for t in g.outputs if (data := g.data(t)) is not None}       # outputs without elements
        at = 0
        for t in written:
            kind = g.type(t)
            values[t] = unpack(record[at:at + kind.bytes].view(kind.dtype.numpy), kind)
            at += kind.bytes
        return self._with_views(values)

    def _part(self, whole: np.ndarray, t: str) -> np.ndarray:
        """A part of a joined tensor, or a slice that is read where it lies."""
        sizes = zip(self.plan.begins[t], self.plan.graph.type(t).shape, strict=True)
        return whole[tuple(slice(first, first + n) for first, n in sizes)]

    def _with_views(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Tensors that share another's bytes without a step of their own."""
        g = self.plan.graph
        values |= {t: self._part(values[whole], t) for t, whole in self.plan.inlaid.items()}
        for n in g.nodes:
            if n.outputs[0] in self.plan.begins and n.outputs[0] not in values:
                values[n.outputs[0]] = self._part(values[n.inputs[0]], n.outputs[0])
            elif n.outputs[0] not in values:
                x, y = g.type(n.inputs[0]), g.type(n.outputs[0])
                values[n.outputs[0]] = unpack(pack(values[n.inputs[0]], x), y)
        return values

    def buffers(self, inputs: Mapping[str, np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """What the model reads, as it lies in memory, and room for what it writes."""
        g = self.plan.graph
        return ([pack(np.asarray(inputs[t], g.type(t).dtype.numpy), g.type(t)) for t in self.plan.inputs],
                [np.zeros(g.type(t).count, g.type(t).dtype.numpy) for t in self.plan.outputs])

    def arguments(self, sources: list[np.ndarray], results: list[np.ndarray], arena: np.ndarray) -> list[object]:
        """The pointers that the model takes."""
        g = self.plan.graph
        return [*(self._pointer(a, g.type(t)) for a, t in zip(sources + results, self.plan.inputs + self.plan.outputs,
                                                              strict=True)), *self._arena(arena)]

    def _call(self, entry: str, inputs: Mapping[str, np.ndarray], record: np.ndarray | None) -> dict[str, np.ndarray]:
        g = self.plan.graph
        sources, results = self.buffers(inputs)
        buffers = self.arguments(sources, results, self.arena)
        if record is not None:
            buffers.append(self.ffi.cast("uint8_t *", record.ctypes.data))
        status = self.function(entry)(*buffers)
        if status != 0:
            raise BuildError(f"{self.name}_{entry} returned {status}")
        return {t: unpack(a, g.type(t)) for t, a in zip(self.plan.outputs, results, strict=True)}

    def _pointer(self, a: np.ndarray, t: TensorType) -> object:
        return self.ffi.cast(f"{CTYPE[t.dtype]} *", a.ctypes.data)


class Stepping:
    """One inference of a model whose library is loaded, step by step."""

    def __init__(self, model: HostModel, inputs: Mapping[str, np.ndarray]) -> None:
        self.model, self.arena = model, model.arena if model.plan.options.stateful else model.instance()
        self.context = model.ffi.new("context_t *")
        self.begin(inputs)

    def begin(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Start another inference."""
        self.sources, self.results = self.model.buffers(inputs)
        self.model.function("init")(self.context, *self.model.arguments(self.sources, self.results, self.arena))

    def step(self) -> int:
        """The next step; see the generated header."""
        return int(self.model.function("step")(self.context))

    def abort(self) -> None:
        """Give the inference up."""
        self.model.function("abort")(self.context)

    def outputs(self) -> dict[str, np.ndarray]:
        """What lies in the output buffers, as logical arrays."""
        plan = self.model.plan
        return {t: unpack(a, plan.graph.type(t)) for t, a in zip(plan.outputs, self.results, strict=True)}


def sanitized(plan: Plan, samples: list[dict[str, np.ndarray]], flags: Sequence[str] = SANITIZE,
              edit: Callable[[str], str] = lambda text: text) -> list[dict[str, np.ndarray]]:
    """Outputs of a build with AddressSanitizer and UndefinedBehaviorSanitizer, or others; BuildError with their report.

    The cores of a plan for several are threads. edit: changes the model's C file, to see whether that is found.
    """
    name, g = identifier(plan.graph.name), plan.graph
    with tempfile.TemporaryDirectory(prefix="fuse2c_") as folder:
        root = Path(folder)
        for file, text in (project.files(plan) | project.host_files(plan)).items():
            (root / file).write_text(edit(text) if file == f"{name}.c" else text, encoding="utf-8")
        program = root / "host"
        sources = [str(root / f"{name}{part}.c") for part in ("_host", "", "_weights")]
        toolchain.run([toolchain.host().cc, "-std=c99", "-O1", "-ffp-contract=off", *flags, *sources,
                       "-o", str(program), *["-pthread"] * bool(plan.phases)], "the sanitizer build failed")
        feed = b"".join(pack(np.asarray(s[t], g.type(t).dtype.numpy), g.type(t)).tobytes() for s in samples
                        for t in plan.inputs)
        done = subprocess.run([str(program), str(len(samples))], input=feed, capture_output=True, check=False)
    if done.returncode != 0:
        raise BuildError("the sanitizer found a fault", stderr=done.stderr.decode(errors="replace"))
    outputs, at = [], 0
    for _ in samples:
        row = {}
        for t in plan.outputs:
            kind = g.type(t)
            row[t] = unpack(np.frombuffer(done.stdout, kind.dtype.numpy, kind.count, at), kind)
            at += kind.bytes
        outputs.append(row)
    return outputs
