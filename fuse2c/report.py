"""Plan and measurements -> text, tables and JSON for people and scripts."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from fuse2c.bench import BenchResult
from fuse2c.check import CheckResult
from fuse2c.check.compare import Difference
from fuse2c.fusion import folds, quantise, rules
from fuse2c.ops import all_ops, onnx_importers
from fuse2c.plan import Plan


def summary(plan: Plan) -> str:
    """A few lines: kernels, work, memory."""
    lines = [f"{plan.graph.name} for {plan.target.title}",
             f"  kernels      : {plan.launches} calls, {plan.macs:,} multiply-accumulates",
             f"  intermediates: {plan.intermediate_bytes:,} bytes written and read",
             f"  arena        : {plan.arena_bytes:,} bytes{_peak(plan)}",
             f"  weights      : {plan.weight_bytes:,} bytes"]
    return "\n".join(lines)


def _peak(plan: Plan) -> str:
    if not plan.places:
        return ""
    top = max(plan.places, key=lambda p: p.offset + p.size)
    return f" (peak while {plan.steps[top.first].function} runs)"


def steps(plan: Plan) -> Table:
    """One row a kernel call."""
    table = Table(title=f"{plan.graph.name}: kernels in execution order", title_justify="left")
    for name, justify in (("kernel", "left"), ("fused", "left"), ("output", "left"), ("MAC", "right"), ("variant", "left")):
        table.add_column(name, justify="right" if justify == "right" else "left")
    for s in plan.steps:
        y = plan.graph.type(s.node.outputs[0])
        table.add_row(s.function, " > ".join(n.op for n in s.node.parts), f"{y.dtype.value} {list(y.shape)}",
                      f"{s.work.macs:,}", s.kernel.name)
    return table


def decisions(plan: Plan) -> Iterable[str]:
    """Every choice with its reason, for --why."""
    for d in plan.decisions:
        yield f"{'+' if d.taken else '-'} {d.stage:7} {d.subject}: {d.reason}"


def bench_table(r: BenchResult) -> Table:
    """The figures of one measurement, before and after fusion where there is a before."""
    table = Table(title=f"{r.model} on {r.target}", title_justify="left")
    table.add_column("")
    table.add_column("unfused", justify="right")
    table.add_column("fused", justify="right")
    table.add_row("kernel calls an inference", f"{r.launches_unfused:,}", f"{r.launches:,}")
    table.add_row("bytes of intermediates", f"{r.intermediate_bytes_unfused:,}", f"{r.intermediate_bytes:,}")
    table.add_row("multiply-accumulates", "", f"{r.macs:,}")
    table.add_row("instructions an inference", "", "not run: no emulator" if r.instructions is None else f"{r.instructions:,}")
    table.add_row("flash: code / weights", "", f"{r.flash_bytes['code']:,} / {r.flash_bytes['weights']:,}")
    ram = r.ram_bytes
    table.add_row("RAM: arena / static / stack", "", f"{ram['arena']:,} / {ram['static']:,} / {ram['stack']:,}")
    table.add_row("outputs that differ from the host", "", "-" if r.mismatches is None else str(r.mismatches))
    return table


def check_table(r: CheckResult, plan: Plan) -> Table:
    """Differences by comparison."""
    floats = all(plan.graph.type(s.node.outputs[0]).dtype.is_float for s in plan.steps)
    table = Table(title=f"{plan.graph.name}: {r.samples} samples", title_justify="left")
    for name in ("comparison", "elements", "differing", "worst, relative" if floats else "worst, steps", "worst, ULP"):
        table.add_column(name, justify="left" if name == "comparison" else "right")

    def row(name: str, d: Difference | None) -> None:
        if d is not None and d.elements:
            worst = f"{d.worst:.2e}" if floats else f"{d.worst:g}"
            table.add_row(name, f"{d.elements:,}", str(d.differing), worst, str(d.worst_ulp) if floats else "")
    row("C against numpy, kernel by kernel", sum(r.steps.values(), Difference()))
    row("C, run against traced run, outputs", r.outputs)
    row("C against onnxruntime, same layer input", r.ort_layers)
    row("C against onnxruntime, end to end", r.ort_outputs)
    row("onnxruntime against itself, end to end", r.ort_self)
    return table


def check_json(r: CheckResult, model: str, target: str) -> dict[str, Any]:
    """The documented keys of `check --json`."""
    def row(d: Difference | None) -> dict[str, float] | None:
        return d.json() if d is not None and d.elements else None
    return {"model": model, "target": target, "samples": r.samples, "reference": r.reference.json(),
            "onnxruntime": row(r.ort_layers), "onnxruntime_outputs": row(r.ort_outputs),
            "onnxruntime_itself": row(r.ort_self), "note": r.ort_note}


def operators() -> list[tuple[str, str, str]]:
    """(ONNX operator, becomes, remarks), sorted: `list ops` and docs/OPERATORS.md."""
    home = {name: op for op in all_ops().values() for name in op.onnx}
    rows = []
    for name in sorted(onnx_importers()):
        op = home.get(name)
        kinds = "float32, int8/uint8" if op and _has_integer(name) else "float32"
        rows.append((name, kinds, op.docs if op else "folded into its neighbours or two elementwise operators"))
    return rows


def _has_integer(name: str) -> bool:
    home = {n: op for op in all_ops().values() for n in op.onnx}
    return "no integer form" not in (home[name].integer.__doc__ or "") and home[name].integer.__name__ != "<lambda>"


def all_rules() -> list[tuple[str, str, str]]:
    """(kind, name, what it pays): `list rules`."""
    rows = [("fold", f.name, f.pays) for f in (*folds.STRUCTURE, *quantise.rules(), folds.constants(), *folds.WEIGHTS)]
    return list(dict.fromkeys(rows)) + [("fuse", f.name, f.pays) for f in rules.rules()]
