"""Plan and measurements -> text, tables and JSON for people and scripts."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from fuse2c import catalogue, price
from fuse2c.bench import BenchResult
from fuse2c.check import CheckResult
from fuse2c.check.compare import Difference
from fuse2c.fusion import catalog, rules
from fuse2c.plan import Plan


def summary(plan: Plan) -> str:
    """A few lines: kernels, work, memory."""
    lines = [f"{plan.graph.name} for {plan.target.title}",
             f"  kernels      : {plan.launches} in {plan.call_count} calls, {plan.macs:,} multiply-accumulates",
             f"  intermediates: {plan.intermediate_bytes:,} bytes written and read",
             *_cores(plan), *_arena(plan), *_pushed(plan),
             f"  weights      : {plan.weight_bytes:,} bytes"]
    if plan.options.stateful:
        names = ", ".join(t for t, _ in plan.options.stateful)
        where = "in the arena" if plan.options.arena == "caller" else "beside the arena"
        lines.append(f"  states       : {sum(p.size for p in plan.state_places):,} bytes {where}: {names}")
    return "\n".join(lines)


def _cores(plan: Plan) -> list[str]:
    found = price.shared(plan)
    return [] if found is None else [
        f"  cores        : {' and '.join(found['names'])}: {found['cycles']:,} cycles in {found['phases']} phases, "
        f"{found['cycles_alone']:,} on one core: {found['speedup']:.2f} times as fast"]


def _arena(plan: Plan) -> list[str]:
    """Size, where the peak is, and what is proven about it."""
    if plan.peak is None:
        return [f"  arena        : {plan.arena_bytes:,} bytes"]
    gap = plan.working_bytes - plan.peak.bytes
    return [f"  arena        : {plan.arena_bytes:,} bytes (peak while {plan.steps[plan.peak.step].function} runs)",
            f"  lower bound  : {plan.peak.bytes:,} bytes, gap {gap:,}; live rows alone: {plan.peak.rows:,}"]


def _pushed(plan: Plan) -> list[str]:
    found = pushed(plan)
    return [] if found is None else [f"  input        : {found['rows']} rows pushed one by one, {found['kept']} kept: "
                                     f"{found['bytes']:,} bytes of the arena"]


def pushed(plan: Plan) -> dict[str, int] | None:
    """Rows of an input that is pushed row by row, how many of them are kept, and the bytes that takes; else None."""
    if not plan.options.input_rows:
        return None
    rows, kept = plan.steps[0].spec.rows, plan.rings[plan.root(plan.steps[0].node.outputs[0])]
    return {"rows": rows, "kept": kept, "bytes": plan.graph.type(plan.steps[0].node.outputs[0]).bytes // rows * kept}


def new_table(title: str, *columns: str) -> Table:
    """An empty table; a column whose name ends in ":" holds text, the others numbers."""
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    for name in columns:
        text = name.endswith(":")
        table.add_column(name.rstrip(":"), justify="left" if text else "right", no_wrap=not text, overflow="fold")
    return table


def steps(plan: Plan) -> Table:
    """One row a step; its number is that in the name of its C function. Several steps may be one kernel."""
    several = any(plan.where(i) != [plan.target.processor.name] for i in range(len(plan.steps)))
    table = new_table(f"{plan.graph.name}: steps in execution order", "#", "launch", "operators:", "output:", "MAC", "kernel:",
                      *["on:"] * several)
    owner = {i: k for k, group in enumerate(plan.kernel_steps, 1) for i in group}
    for i, s in enumerate(plan.steps, 1):
        shapes = (plan.graph.type(t) for t in s.node.outputs if t)
        table.add_row(str(i), str(owner[i - 1]), " > ".join(n.op for n in s.node.parts),
                      ", ".join(f"{t.dtype.value} {'x'.join(map(str, t.shape)) or 'scalar'}" for t in shapes),
                      f"{s.work.macs:,}", "in place" if s.spec.written else s.kernel.name,
                      *[", ".join(plan.where(i - 1))] * several)
    return table


def front(plan: Plan) -> Table:
    """The plans that were compared; the chosen one is marked."""
    table = new_table("RAM against cycles, predicted", "RAM, bytes", "cycles", "instructions", "kernel calls", ":")
    for p in plan.front:
        table.add_row(f"{p.ram:,}", f"{p.cycles:,}", f"{p.instructions:,}", f"{p.calls:,}",
                      "chosen" if p == plan.point else "")
    return table


def decisions(plan: Plan) -> Iterable[str]:
    """Every choice with its reason, for --why."""
    for d in plan.decisions:
        yield f"{'+' if d.taken else '-'} {d.stage:8} {d.subject}: {d.reason}"


def plan_json(plan: Plan, unfused: Plan, model: str, why: bool = False, pareto: bool = False) -> dict[str, Any]:
    """The documented keys of `plan --json`: those of `bench --json` that need no compiler, and what the planner knows."""
    peak = plan.peak
    found: dict[str, Any] = {
        "model": model, "target": plan.target.name, "macs": plan.macs, "launches": plan.launches,
        "launches_unfused": unfused.launches, "calls": plan.call_count, "intermediate_bytes": plan.intermediate_bytes,
        "intermediate_bytes_unfused": unfused.intermediate_bytes, "flash_bytes": {"weights": plan.weight_bytes},
        "ram_bytes": {"arena": plan.arena_bytes}, "instructions_estimated": round(price.of_plan(plan).instructions),
        "peak": peak and {"step": plan.steps[peak.step].function, "bound": peak.bytes,
                          "gap": plan.working_bytes - peak.bytes, "rows": peak.rows}}
    if plan.options.input_rows:
        found["input_rows"] = pushed(plan)
    if plan.phases:
        found["cores"] = price.shared(plan)
    if pareto:
        found["front"] = [asdict(p) for p in plan.front]
    if why:
        found["decisions"] = [asdict(d) for d in plan.decisions]
    return found


def bench_table(r: BenchResult) -> Table:
    """The figures of one measurement, before and after fusion where there is a before."""
    def row(label: str, value: int | None, unfused: str = "", none: str = "-") -> None:
        table.add_row(label, unfused, none if value is None else f"{value:,}")
    table = new_table(f"{r.model} on {r.target}", ":", "unfused", "fused")
    row("kernels an inference", r.launches, f"{r.launches_unfused:,}")
    row("calls of kernel functions", r.calls)
    row("intermediates, bytes", r.intermediate_bytes, f"{r.intermediate_bytes_unfused:,}")
    row("multiply-accumulates", r.macs)
    row("instructions an inference", r.instructions, none="not run: no emulator")
    for kind, sizes in (("flash", r.flash_bytes), ("RAM", r.ram_bytes)):
        for part, size in sizes.items():
            row(f"{kind}, {part}, bytes", size)
    if r.spills is not None:
        row("values that wait on the stack, words", sum(s.slots for s in r.spills))
        row("stack accesses in innermost loops", sum(s.inner for s in r.spills))
    row("outputs that differ from the host's", r.mismatches)
    if r.host_us["fuse2c"] is not None:
        for who, value in r.host_us.items():
            label = "time, of onnxruntime's" if who == "ratio" else f"time, {who}, us"
            table.add_row(label, "", "-" if value is None else f"{value:,.2f}")
    return table


def check_table(r: CheckResult, plan: Plan) -> Table:
    """Differences by comparison."""
    floats = all(plan.graph.type(s.node.outputs[0]).dtype.is_float for s in plan.steps)
    table = new_table(f"{plan.graph.name}: generated C, {r.samples} samples", "compared with:", "elements", "differing",
                      *(["worst, relative", "ULP"] if floats else ["worst, steps"]))

    def row(name: str, d: Difference | None) -> None:
        if d is not None and d.elements:
            ulp = f"{d.worst_ulp:,}" if d.worst_ulp < 10 ** 7 else f"{d.worst_ulp:.1e}"
            worst = [f"{d.worst:.2e}", ulp] if floats else [f"{d.worst:g}"]
            table.add_row(name, f"{d.elements:,}", f"{d.differing:,}", *worst)
    row("numpy, kernel by kernel", sum(r.steps.values(), Difference()))
    row("itself, run without tracing", r.outputs)
    row("itself, by all cores", r.cores)
    row("onnxruntime, layer by layer", r.ort_layers)
    row("onnxruntime, end to end", r.ort_outputs)
    row("(onnxruntime with itself)", r.ort_self)
    return table


def check_json(r: CheckResult, model: str, target: str) -> dict[str, Any]:
    """The documented keys of `check --json`."""
    def row(d: Difference | None) -> dict[str, float] | None:
        return d.json() if d is not None and d.elements else None
    return {"model": model, "target": target, "samples": r.samples, "reference": r.reference.json(),
            "onnxruntime": row(r.ort_layers), "onnxruntime_outputs": row(r.ort_outputs),
            "onnxruntime_itself": row(r.ort_self), "note": r.ort_note}


def operators() -> Table:
    """`list ops`."""
    table = new_table("Operators", "operator:", "opsets:", "element types:", "fused with:", "not supported, remarks:")
    for row in catalogue.operators():
        table.add_row(row.name, row.opsets, row.types, row.fusion, row.remark)
    return table


def all_rules() -> list[tuple[str, str, str]]:
    """(kind, name, what it pays): `list rules`."""
    rows = [("fold", f.name, f.pays) for f in catalog.folds()]
    return list(dict.fromkeys(rows)) + [("fuse", f.name, f.pays) for f in rules.rules()] + [
        ("plan", "in-place", "what is joined is written where it belongs, what is cut out is read where it lies"),
        ("plan", "join", "steps that take turns row by row, or hand on little, are one kernel")]
