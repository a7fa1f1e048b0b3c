"""Writes the output folder: header, kernels, weights, the runtime files in use, build files, an example."""
from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fuse2c.codegen import render, runtime
from fuse2c.codegen.tables import Table, table
from fuse2c.codegen.view import Param, View, view
from fuse2c.errors import PlanError
from fuse2c.ir.types import CTYPE, TensorType
from fuse2c.names import Namer, identifier
from fuse2c.plan import Plan


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of the model as the caller sees it."""

    tensor: str
    name: str               # C parameter
    macro: str              # prefix of its macros
    ctype: str
    type: TensorType

    @property
    def shape(self) -> str:
        """For comments: [1, 32, 32, 3]."""
        return str(list(self.type.shape))


@dataclass(frozen=True, slots=True)
class CallView:
    """One kernel call inside the run function."""

    text: str
    images: int
    results: tuple[tuple[str, int], ...]    # pointer to, and bytes of, what the step wrote


@dataclass(frozen=True)
class ModelView:
    """All that the templates of model files may see as `m`."""

    name: str
    macro: str
    title: str
    target: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    params: str
    arena: str
    arena_bytes: int
    arena_used: bool
    macs: int
    launches: int
    weight_bytes: int
    tables: tuple[Table, ...]
    kernels: tuple[str, ...]
    calls: tuple[CallView, ...]
    headers: tuple[str, ...]
    sources: tuple[str, ...]
    cflags: str
    example_args: str


def files(plan: Plan) -> dict[str, str]:
    """File name -> content of the whole output folder; the same plan gives the same bytes."""
    m = model_view(plan)
    result = {
        f"{m.name}.h": render.page("model.h.j2", m=m),
        f"{m.name}.c": render.page("model.c.j2", m=m, trace=False),
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
    return {f"{m.name}_trace.c": render.page("host/trace.c.j2", m=m, trace=True),
            f"{m.name}_host.c": render.page("host/main.c.j2", m=m)}


def write(plan: Plan, output: Path) -> Path:
    """Write the folder; nothing half-written is left behind. An older output of fuse2c is replaced."""
    content = files(plan)
    marker = f"{identifier(plan.graph.name)}_weights.c"
    if output.exists() and (not output.is_dir() or (any(output.iterdir()) and not _is_ours(output))):
        raise PlanError(f"{output} exists and is no output of fuse2c", hint="choose another folder with -o")
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        for name, text in content.items():
            (temporary / name).write_text(text, encoding="utf-8", newline="\n")
        assert (temporary / marker).exists()
        temporary.chmod(0o755)
        if output.exists():
            shutil.rmtree(output)
        temporary.rename(output)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return output


def _is_ours(output: Path) -> bool:
    return (output / "f2c.h").is_file() and (output / "example_main.c").is_file()


def model_view(plan: Plan) -> ModelView:
    """The view of a whole model."""
    name = identifier(plan.graph.name)
    namer = Namer(frozenset({"arena", "n"}))
    inputs = tuple(_port(plan, t, namer, name, "input") for t in plan.graph.inputs)
    outputs = tuple(_port(plan, t, namer, name, "output") for t in plan.graph.outputs)
    views = [view(plan, s) for s in plan.steps]
    kernels = tuple(render.kernel(v, s.kernel.name) for v, s in zip(views, plan.steps, strict=True))
    tables = {n: a for v in views for n, a in v.tables.items()}
    params = [f"const {p.ctype} *{p.name}" for p in inputs] + [f"{p.ctype} *{p.name}" for p in outputs]
    caller = plan.options.arena == "caller"
    places = {p.name: p.offset for p in plan.places}
    ports = {p.tensor: p.name for p in inputs + outputs}
    calls = tuple(_call(plan, v, ports, places) for v in views)
    return ModelView(
        name=name, macro=name.upper(), title=plan.graph.name if plan.graph.name.isascii() else name,
        target=plan.target.title, inputs=inputs, outputs=outputs,
        params=", ".join(params + ["void *arena"] * caller), arena=plan.options.arena, arena_bytes=plan.arena_bytes,
        arena_used=bool(plan.places), macs=plan.macs, launches=plan.launches,
        weight_bytes=sum(a.nbytes for a in tables.values()),
        tables=tuple(table(n, a) for n, a in tables.items()),
        kernels=kernels, calls=calls, headers=runtime.headers("\n".join(kernels)), sources=(f"{name}.c", f"{name}_weights.c"),
        cflags=" ".join(plan.target.processor.cflags),
        example_args=", ".join([p.name for p in inputs + outputs] + ["arena"] * caller))


def _port(plan: Plan, tensor: str, namer: Namer, model: str, fallback: str) -> Port:
    name = namer(tensor, fallback)
    t = plan.graph.type(tensor)
    return Port(tensor, name, f"{model}_{name}".upper(), CTYPE[t.dtype], t)


def _call(plan: Plan, v: View, ports: dict[str, str], places: dict[str, int]) -> CallView:
    """The C call of a kernel: caller's buffers by name, intermediates by their place in the arena."""
    args = []
    for p in v.args:
        pointer = _pointer(plan, p, ports, places, v.function)
        if v.images > 1 and p.tensor:
            pointer = f"{pointer} + (n * {plan.graph.type(p.tensor).count // v.images})"
        args.append(pointer)
    if v.by_rows:
        args += ["0", str(v.rows)]
    results = tuple((_pointer(plan, p, ports, places, v.function), plan.graph.type(p.tensor).bytes)
                    for p in v.args if p.tensor and p.written)
    return CallView(f"{v.function}({', '.join(args)});", v.images, results)


def _pointer(plan: Plan, p: Param, ports: dict[str, str], places: dict[str, int], function: str) -> str:
    """The C expression of a buffer."""
    ctype = p.declaration.rsplit("*", 1)[0].strip()
    root = plan.root(p.tensor) if p.tensor else f"{function} scratch"
    owner = next((ports[t] for t in ports if p.tensor and plan.root(t) == root), None)
    if owner is None:
        return f"({ctype} *)(void *)&bytes[{places.get(root, 0)}]"
    return owner if plan.graph.type(root).dtype == plan.graph.type(p.tensor).dtype else f"({ctype} *)(void *){owner}"
