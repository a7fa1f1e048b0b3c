"""`fuse2c bench --firmware DIR`: a project for a real board that times each kernel with the core's cycle counter."""
from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from fuse2c import bench, price
from fuse2c.check import random_samples
from fuse2c.codegen import folder, project, render
from fuse2c.codegen.schedule import Kernel
from fuse2c.errors import TargetError
from fuse2c.measure import qemu
from fuse2c.plan import Plan
from fuse2c.resources import folder as resource
from fuse2c.target import Target

STACK_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Row:
    """A step: its CSV row without the cycles, and where what it writes ends in the record of a traced run."""

    text: str
    end: int


def write(plan: Plan, output: Path, seed: int = 0) -> Path:
    """Write the project into a folder. Raises TargetError for a target whose memories have no addresses."""
    return folder.write(files(plan, seed), output)


def files(plan: Plan, seed: int = 0) -> dict[str, str]:
    """File name -> content: the model, a program that runs it step by step, start-up code, linker script, Makefile."""
    m = replace(project.model_view(plan), launched=(Kernel(project.model_view(plan).parts),))
    case = replace(bench.firmware(plan, m.name, Path(), random_samples(plan, 1, seed)[0]), entry="profile")
    source = resource("runtime_c") / "qemu"
    return project.files(plan) | {
        f"{m.name}_profile.c": render.page("firmware/profile.c.j2", m=m, rows=_rows(plan),
                                           count=len(plan.steps), trace=True),
        "bench_case.h": qemu.case_header(case),
        "board.ld": linker_script((source / "mps2.ld").read_text(encoding="utf-8"), plan.target),
        "Makefile": render.page("firmware/Makefile.j2", m=m, board=plan.target),
        **{name: (source / name).read_text(encoding="utf-8") for name in ("startup.c", "f2c_board.h")}}


def _rows(plan: Plan) -> list[Row]:
    found, end = [], 0
    for step in plan.steps:
        end += sum(plan.graph.type(t).bytes for t in step.node.outputs)
        cost = price.of_step(plan, step)
        waits = cost.cycles - cost.instructions * price.price_of(plan, step).cpi
        found.append(Row(f"{step.function},{step.kernel.name},{cost.instructions:.0f},{waits:.0f},", end))
    return found


def linker_script(text: str, target: Target) -> str:
    """QEMU's script with the board's addresses and sizes."""
    regions = []
    for region, what in (("FLASH", "weights"), ("RAM", "arena")):
        name, memory = target.holding(what)
        if not memory.origin:
            raise TargetError(f"{target.name}: no address of the memory {name}",
                              hint=f'add origin = "0x..." to [memory.{name}], or choose a board')
        regions.append((region, memory.origin, memory.bytes))
    text = re.sub(r"STACK_BYTES = \w+", f"STACK_BYTES = {STACK_BYTES}", qemu.place(text, regions))
    return re.sub(r"/\* QEMU's MPS2.*?\*/", f"/* {target.title}: addresses and sizes from its target file. */", text, count=1,
                  flags=re.S)
