"""`fuse2c bench`: instructions, flash, RAM and launches of a compiled model, and whether it still computes the same."""
from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fuse2c import toolchain, wcet
from fuse2c.check import HostModel, random_samples
from fuse2c.check.compare import Difference, difference
from fuse2c.check.timing import timed
from fuse2c.codegen import project
from fuse2c.errors import TargetError
from fuse2c.ir.types import pack
from fuse2c.measure import elf, qemu, spills, stack
from fuse2c.measure.spills import Spills
from fuse2c.names import identifier
from fuse2c.plan import Plan

if TYPE_CHECKING:
    from fuse2c.wcet.analysis import Result

TIMES = ("fuse2c", "onnxruntime", "ratio")
FLOAT_BOUND = 1e-5      # of the largest output: host and target may contract and convert differently


@dataclass(frozen=True)
class BenchResult:
    """One model on one target. `instructions` and `mismatches` are None where nothing runs the code (no emulator for
    the target); the sizes of code, static data and stack are None on the host, where they say nothing."""

    model: str
    target: str
    compiler: str
    flags: str
    instructions: int | None
    macs: int
    launches: int
    launches_unfused: int
    calls: int
    intermediate_bytes: int
    intermediate_bytes_unfused: int
    flash_bytes: dict[str, int | None]
    ram_bytes: dict[str, int | None]
    mismatches: int | None
    stack_path: tuple[str, ...] = ()
    spills: tuple[Spills, ...] | None = None        # of the functions that have any, the worst first; None on the host
    host_us: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(TIMES))

    def json(self) -> dict[str, Any]:
        """The documented keys of `bench --json`."""
        return {k: getattr(self, k) for k in (
            "model", "target", "compiler", "flags", "instructions", "macs", "launches", "launches_unfused", "calls",
            "intermediate_bytes", "intermediate_bytes_unfused", "flash_bytes", "ram_bytes", "mismatches", "host_us")} | {
                "spills": None if self.spills is None else [s.json() for s in self.spills]}


def bench(plan: Plan, unfused: Plan, model: str | Path, *, opt: str = "-O3", cc: str | None = None,
          seed: int = 0) -> BenchResult:
    """Build `plan` for its target, run it in QEMU where a board is known, and compare the outputs with the host's.

    `model`: its file, which onnxruntime runs on the host, or no more than a name.
    `unfused` is the same model compiled with --no-fuse, for the figures before fusion. The arena and states count as RAM
    (states as static data, or in the caller's arena), the caller's input and output buffers do not.
    """
    cflags = plan.target.processor.cflags
    with tempfile.TemporaryDirectory(prefix="fuse2c_") as folder:
        root = project.write(plan, Path(folder) / "model")
        name = identifier(plan.graph.name)
        tools = toolchain.cross(cflags, cc) if cflags else toolchain.host(cc)
        objects = toolchain.compile_model(tools, root, name, Path(folder) / "objects", opt=opt)
        run: qemu.Measurement | None = None
        sample = random_samples(plan, 1, seed)[0]
        if plan.target.emulator is not None:
            run = qemu.run(firmware(plan, name, root, sample), qemu.Board(plan.target.emulator.machine, cflags), opt, cc)
        # The host's objects are no ELF for a microcontroller, and its stack is no concern.
        sizes = elf.linked(tools, objects, name) if cflags else None
        spilled = spills.of_objects(objects, tools.cc) if cflags else None
        deepest = stack.of_model(root, name, cflags, entry=f"{name}_run", opt=opt) if cflags else None
    static = sizes.static_without(f"{name}_arena") if sizes else None
    depth = deepest.bytes if deepest else None
    arena = plan.arena_bytes
    return BenchResult(
        model=Path(model).name, target=plan.target.name, compiler=_version(tools.cc),
        flags=" ".join((opt, *(cflags or toolchain.native(tools.cc)))),
        instructions=run.instructions if run else None, macs=plan.macs, launches=plan.launches,
        launches_unfused=unfused.launches, calls=plan.call_count, intermediate_bytes=plan.intermediate_bytes,
        intermediate_bytes_unfused=unfused.intermediate_bytes,
        flash_bytes={"code": sizes.code if sizes else None, "library": sizes.library if sizes else None,
                     "weights": sizes.weights if sizes else plan.weight_bytes},
        ram_bytes={"arena": arena, "static": static, "stack": depth,
                   "total": (plan.ram_bytes if static is None else arena + static) + (depth or 0)},
        mismatches=_compare(plan, sample, run).differing if run else None,
        stack_path=deepest.path if deepest else (), spills=spilled, host_us=_times(plan, Path(model), sample, opt, cc))


def _times(plan: Plan, path: Path, sample: dict[str, np.ndarray], opt: str, cc: str | None) -> dict[str, float | None]:
    """Microseconds on this computer, where that is the target; by TIMES."""
    if not plan.target.is_host or plan.options.input_rows:
        return dict.fromkeys(TIMES)
    found = timed(plan, path, sample, opt, cc)
    return dict(zip(TIMES, (found.fuse2c_us, found.onnxruntime_us, found.ratio), strict=True))


def measured(plan: Plan, *, opt: str = "-O3", cc: str | None = None, seed: int = 0) -> qemu.Measurement:
    """One run of `plan` in QEMU, on its target's board, and where it has steps one step by step."""
    if plan.target.emulator is None:
        raise TargetError(f"no emulator for {plan.target.name}", hint="choose a board that QEMU has, such as cortex-m4")
    with tempfile.TemporaryDirectory(prefix="fuse2c_") as folder:
        root, name = project.write(plan, Path(folder) / "model"), identifier(plan.graph.name)
        return qemu.run(firmware(plan, name, root, random_samples(plan, 1, seed)[0]),
                        qemu.Board(plan.target.emulator.machine, plan.target.processor.cflags), opt, cc)


def worst_case(plan: Plan, *, opt: str = "-O3", cc: str | None = None) -> Result:
    """Build and link `plan` for its target as `bench` does, and analyse the program. Raises Refused, see fuse2c.wcet."""
    target = plan.target
    if target.is_host:
        raise TargetError("worst cases are found for Cortex-M targets", hint="choose one with -t, such as cortex-m4")
    with tempfile.TemporaryDirectory(prefix="fuse2c_") as folder:
        name = identifier(plan.graph.name)
        root = project.write(plan, Path(folder) / "model")
        # The harness only has to link: a core without a board in QEMU takes another's start-up code.
        board = qemu.Board(target.emulator.machine if target.emulator else next(iter(qemu.MACHINES)),
                           target.processor.cflags)
        case = firmware(plan, name, root, random_samples(plan, 1, 0)[0])
        program = qemu.build(case, board, Path(folder), opt, cc)
        core = next((flag.partition("=")[2] for flag in target.processor.cflags if flag.startswith("-mcpu=")), "")
        ports = len(plan.inputs + plan.outputs)
        known: dict[str, Any] = {"pointers": True}
        known |= {"arguments": ports + 1, "arena": ports} if plan.options.arena == "caller" else {}
        known |= {"step": f"{name}_step", "count": len(plan.slices.first)} if plan.slices else {}
        return wcet.analyse(program, f"{name}_run", core, **known)


def in_cycles(result: Result, cycles: int | None) -> int:
    """A bound in cycles for a time. TargetError where no timing is public."""
    if cycles is None:
        raise TargetError(f"no timing of {result.core} is public: no time can be certified",
                          hint="bound steps by instructions (--step-budget), and measure one run on the board")
    return cycles


def firmware(plan: Plan, name: str, root: Path, sample: dict[str, np.ndarray]) -> qemu.Firmware:
    """The model in the folder `root` with the inputs of a sample, for the measuring harness."""
    g = plan.graph
    return qemu.Firmware(name, root, tuple(pack(sample[t], g.type(t)) for t in plan.inputs),
                         tuple((g.type(t).dtype.numpy, g.type(t).count) for t in plan.outputs),
                         plan.options.arena == "caller", bool(plan.options.stateful),
                         len(plan.slices.first) if plan.slices else 0)


def _compare(plan: Plan, sample: dict[str, np.ndarray], run: qemu.Measurement) -> Difference:
    """Outputs of the emulated board against the same C on the host: equal for integers, within a bound for floats."""
    total = Difference()
    with HostModel(plan) as host:
        want = host.run(sample)
    for t, got in zip(plan.outputs, run.outputs, strict=True):
        expected = pack(want[t], plan.graph.type(t))
        bound = FLOAT_BOUND * float(np.abs(expected).max(initial=0.0)) if expected.dtype.kind == "f" else 0.0
        total += difference(got.reshape(-1), expected, bound)
    return total


def compiler(plan: Plan, cc: str | None = None) -> str:
    """What the compiler for the plan's target says it is."""
    return _version(toolchain.cross(plan.target.processor.cflags, cc).cc)


def _version(cc: str) -> str:
    """The compiler's own first line, without the path it was called by."""
    first = toolchain.run([cc, "--version"], "asking for the compiler's version").splitlines()[0]
    return first.replace(cc, Path(cc).name)
