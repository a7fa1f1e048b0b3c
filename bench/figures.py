"""What one model takes on one core, and what others take, as data: see docs/JSON.md, `make bench`."""
from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fuse2c
from fuse2c import bench
from fuse2c.check import random_samples, timing
from fuse2c.codegen import project
from fuse2c.errors import Fuse2cError, Refused, ToolMissing
from fuse2c.measure import profile, qemu
from fuse2c.names import identifier
from fuse2c.plan import Plan

SCHEMA = "fuse2c-benchmarks/1"
PEERS = Path(__file__).with_name("peers.toml")
TIMED = ("cortex-m0plus", "cortex-m3", "cortex-m4")      # cores with a public table of cycles


def peers(model: str, target: str) -> list[dict[str, Any]]:
    """What is recorded of others for a model on a target."""
    recorded = tomllib.loads(PEERS.read_text(encoding="utf-8"))
    return [{"peer": f["peer"], "source": recorded["sources"][f["source"]], **f[model]}
            for f in recorded["figure"] if f["target"] == target and model in f]


def on_core(model: Path, target: str) -> dict[str, Any]:
    """The figures of a model on a core; `skipped` has the reasons why some, or all, are missing."""
    found: dict[str, Any] = {"model": model.stem, "target": target, "skipped": [], "peers": peers(model.stem, target)}
    try:
        compiled = fuse2c.plan(model, target)
        if _real(compiled.plan) and "fpu-sp" not in compiled.plan.target.processor.features:
            return found | {"skipped": ["floats on a core without FPU"]}
        result = bench.bench(compiled.plan, compiled.plan, model).json()
        parameters = _parameters(compiled.plan)
        found |= {key: result[key] for key in ("compiler", "flags", "instructions", "macs", "launches", "mismatches")}
        found |= {"ram_bytes": result["ram_bytes"], "flash_bytes": {
            "code": result["flash_bytes"]["code"], "parameters": parameters,
            "tables": result["flash_bytes"]["weights"] - parameters}}
        found |= _worst(compiled.plan, found["skipped"])
        found["kernels"] = kernels(model, target)
    except Fuse2cError as error:
        found["skipped"].append(str(error.args[0]))
    return found


def _real(plan: Plan) -> bool:
    """Whether most multiply-accumulates are of floats."""
    floats = sum(s.work.macs for s in plan.steps if plan.graph.type(s.node.outputs[0]).dtype.is_float)
    return 2 * floats > plan.macs


def _parameters(plan: Plan) -> int:
    """Bytes of the model's own constants, as they are stored in the file."""
    read = {t for s in plan.steps for n in s.node.parts for t in n.inputs if t}
    return sum(plan.graph.type(t).bytes for t in read if plan.graph.data(t) is not None)


def _worst(plan: Plan, skipped: list[str]) -> dict[str, Any]:
    """The bounds of one inference, in instructions and in modelled cycles, and what the latter is worth."""
    nothing = {"bound": None, "cycles": None, "cycles_status": "none", "single_path": None}
    if plan.target.name not in TIMED:
        return nothing
    try:
        result = bench.worst_case(plan).json()
    except (Refused, ToolMissing) as error:
        skipped.append(f"cycles: {error.args[0]}")
        return nothing
    return {key: result["instructions" if key == "bound" else key] for key in nothing}


def kernels(model: Path, target: str) -> list[dict[str, Any]]:
    """What each layer takes, in a build where every one has functions of its own: nothing is joined or shared."""
    plan = fuse2c.plan(model, target, no_fuse_rules=("join",), share_kernels="never").plan
    assert plan.target.emulator is not None
    with tempfile.TemporaryDirectory(prefix="fuse2c_") as folder:
        root, name = project.write(plan, Path(folder) / "model"), identifier(plan.graph.name)
        board = qemu.Board(plan.target.emulator.machine, plan.target.processor.cflags)
        took = profile.by_function(bench.firmware(plan, name, root, random_samples(plan, 1, 0)[0]), board)
        users = callers((root / f"{name}.c").read_text(encoding="utf-8"), [s.function for s in plan.steps])
    rows = []
    for step in plan.steps:
        own = sum(n for f, n in took.items() if f == step.function or f.startswith(f"{step.function}_"))
        own += sum(took.get(f, 0) for f, steps in users.items() if steps == {step.function})
        rows.append(_layer(step.function, step.kernel.name, [n.op for n in step.node.parts], step.work.macs, own))
    rows += [_layer(f, "", [], 0, took[f]) for f, steps in users.items() if len(steps) > 1 and f in took]
    library = sum(n for f, n in took.items() if f.startswith("__"))
    return rows + [_layer("(compiler's library)", "", [], 0, library)] * (library > 0)


def callers(text: str, functions: Sequence[str]) -> dict[str, set[str]]:
    """The runtime's functions that a C file calls, each with those of `functions` that do, or their helpers."""
    found: dict[str, set[str]] = {}
    here = ""
    for line in text.splitlines():
        if line[:1].isalpha() and (head := re.search(r"(\w+)\(", line)):
            here = next((f for f in functions if head[1] == f or head[1].startswith(f"{f}_")), "")
        elif here:
            for callee in re.findall(r"\b(f2c_\w+)\(", line):
                found.setdefault(callee, set()).add(here)
    return found


def _layer(function: str, kernel: str, operators: list[str], macs: int, instructions: int) -> dict[str, Any]:
    return {"function": function, "kernel": kernel, "operators": operators, "macs": macs, "instructions": instructions,
            "instructions_per_mac": round(instructions / macs, 4) if macs else None}


def on_host(model: Path) -> dict[str, Any]:
    """Seconds of an inference here and in onnxruntime on one thread, in turns; the fastest of both counts."""
    found: dict[str, Any] = {"model": model.stem, "target": "host", "skipped": [], "peers": peers(model.stem, "host")}
    plan = fuse2c.plan(model).plan
    times = timing.timed(plan, model, random_samples(plan, 1, 0)[0], "-O3", None)
    if times.onnxruntime_us is None:
        return found | {"skipped": ["onnxruntime is not installed, or cannot run the model"]}
    return found | {"seconds": times.fuse2c_us / 1e6, "onnxruntime_seconds": times.onnxruntime_us / 1e6, "ratio": times.ratio}

