"""fuse2c: compiles an ONNX neural network into fused, static, analysable C.

    import fuse2c
    compiled = fuse2c.plan("kws.onnx", target="cortex-m4", ram=64_000)
    print(compiled.report())
    compiled.emit("out/kws")
    compiled.check()
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fuse2c import bench as _bench
from fuse2c import check as _check
from fuse2c import fission, frontend, report, target
from fuse2c import flash as _flash
from fuse2c.check import zeros as _zeros
from fuse2c.codegen import project
from fuse2c.errors import Fuse2cError
from fuse2c.ir.graph import Graph
from fuse2c.options import Options
from fuse2c.passes import bound
from fuse2c.pipeline import PIPELINE, compile_plan
from fuse2c.plan import Plan

if TYPE_CHECKING:
    from fuse2c.wcet.analysis import Result

__version__ = "0.1.0"
__all__ = ["Compiled", "Fuse2cError", "Options", "compile_model", "plan"]


@dataclass(frozen=True)
class Compiled:
    """A planned model: what to print, write, check and measure."""

    plan: Plan
    path: Path

    def report(self) -> str:
        """A summary for people."""
        return report.summary(self.plan)

    def emit(self, output: str | Path, more: Mapping[str, str] | None = None) -> Path:
        """Write the C project into a folder (replaced if fuse2c wrote it before), with further files. Returns the folder."""
        return project.write(self.plan, Path(output), more or {})

    def check(self, samples: Sequence[Mapping[str, np.ndarray]] | None = None, *, count: int = 20, seed: int = 0,
              opt: str = "-O2", cc: str | None = None,
              progress: Callable[[str], None] = lambda text: None) -> _check.CheckResult:
        """Compare generated C on this computer with the numpy reference and, if installed, onnxruntime."""
        rows = _check.random_samples(self.plan, count, seed) if samples is None else samples
        return _check.check(self.plan, rows, self.path, opt=opt, cc=cc, progress=progress)

    def replanned(self, parts: Mapping[str, tuple[int, int]]) -> Plan:
        """The plan with some layers split, see passes/split.py."""
        graph = frontend.load(self.path, self.plan.options)
        return compile_plan(Plan(graph, self.plan.target, self.plan.options, parts=parts))

    def unfused(self) -> Compiled:
        """The same model with one kernel for each node, however much memory that takes."""
        if not self.plan.options.fuse:
            return self
        options = replace(self.plan.options, fuse=False, optimize="cycles", ram=None, flash=None)
        board = self.plan.target.limited(_flash.UNLIMITED, _flash.UNLIMITED)
        return Compiled(compile_plan(Plan(frontend.load(self.path, options), board, options)), self.path)

    def bench(self, *, opt: str = "-O3", cc: str | None = None, seed: int = 0) -> _bench.BenchResult:
        """Instructions, flash, RAM; see fuse2c.bench."""
        return _bench.bench(self.plan, self.unfused().plan, self.path, opt=opt, cc=cc, seed=seed)

    def proven(self, *, opt: str = "-O3", cc: str | None = None) -> Compiled:
        """In steps, on a board: the model in steps whose bounds are proven from the machine code of this compiler.

        MissesDeadline if a part that cannot be split takes more than a step; Refused where there is no bound.
        """
        if self.plan.slices is None or self.plan.target.is_host:
            return self
        budget, unit = fission.budget_of(self.plan)

        def bounds(p: Plan) -> list[int]:
            found = _bench.worst_case(p, opt=opt, cc=cc)
            return [s.instructions if unit == "instructions" else _bench.in_cycles(found, s.cycles) for s in found.steps]
        planned, costs = fission.fitted(self.replanned, bounds, budget)
        how = "proven" if unit == "instructions" else "by Arm's table for memory without wait states (an estimate),"
        proof = f"{how} for {self.plan.target.name}, {_bench.compiler(planned, cc)}, {opt}"
        found = fission.proven(planned, costs, bounds, budget, proof)
        return replace(self, plan=_flash.check(found, _flash.Build(opt, cc)))

    def certified(self, *, opt: str = "-O3", cc: str | None = None) -> tuple[Compiled, Result]:
        """The model with its steps proven, and its worst case. MissesDeadline if that is later than the deadline."""
        model = self.proven(opt=opt, cc=cc)
        result = model.wcet(opt=opt, cc=cc)
        limit = bound.deadline(model.plan)
        if limit is not None and (cycles := _bench.in_cycles(result, result.cycles)) > limit:
            raise bound.missed(model.plan, cycles, f"the worst case of {result.entry} takes")
        return model, result

    def wcet(self, *, opt: str = "-O3", cc: str | None = None) -> Result:
        """The worst case of one run on the target, and of its steps, from the machine code; see fuse2c.wcet."""
        return _bench.worst_case(self.plan, opt=opt, cc=cc)


def imported(path: str | Path, target_name: str, options: Options, dump_after: tuple[str, ...] = ()) -> Graph:
    """The graph of a model file, with the inputs and outputs that the options ask for; nothing is planned."""
    board = target.load(target_name)
    return PIPELINE[0].run(Plan(frontend.load(Path(path), options), board, options)).graph


def compile_model(path: str | Path, target_name: str, options: Options, dump_after: tuple[str, ...] = (), opt: str = "-O3",
                  cc: str | None = None) -> Compiled:
    """Read, plan and return a model; `opt`, `cc`: how it will be compiled, where flash is short. Raises Fuse2cError."""
    board = target.load(target_name).limited(options.ram, options.flash)
    if options.calib is not None:
        options = calibrated(path, board, options)
    graph = frontend.load(Path(path), options)

    def planned(board: target.Target, options: Options) -> Plan:
        found = compile_plan(Plan(graph, board, options), dump_after)
        if not options.in_steps:
            return found
        if not board.is_host:       # estimates, until the machine code is looked at: see Compiled.proven
            return fission.estimated(found)
        budget, _ = fission.budget_of(found)
        small, costs = fission.fitted(Compiled(found, Path(path)).replanned, lambda p: p.slices.bounds if p.slices else (),
                                      budget)
        return fission.cut(small, costs, budget)
    return Compiled(_flash.fitted(planned, board, options, _flash.Build(opt, cc)), Path(path))


def calibrated(path: str | Path, board: target.Target, options: Options) -> Options:
    """The options with the zeros that the inputs of `options.calib` make, in place of that file."""
    plain = replace(options, calib=None)
    first = compile_plan(Plan(frontend.load(Path(path), plain), board.limited(_flash.UNLIMITED, _flash.UNLIMITED), plain))
    assert options.calib is not None
    return replace(plain, zeros=_zeros.measured(first, _check.load_samples(first, options.calib)))


def plan(path: str | Path, target: str = "host", **options: Any) -> Compiled:
    """The front door of the API: options are the fields of fuse2c.Options."""
    return compile_model(path, target, Options(**options))
