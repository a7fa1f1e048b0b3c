"""`fuse2c check`: generated C against the numpy reference, kernel by kernel, and against onnxruntime."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fuse2c.check import ort
from fuse2c.check.compare import Difference, difference, largest
from fuse2c.check.host import SANITIZE, THREADS, HostModel, sanitized
from fuse2c.check.reference import float_tolerance, run_step
from fuse2c.errors import ModelError
from fuse2c.fusion import signs
from fuse2c.plan import Plan

CLOSING = ("Softmax", "DequantizeLinear")
END_TO_END = 4e-6       # of the largest output, for each step that a float error passes through

SANITIZERS = (SANITIZE, THREADS)    # flags of builds that a plan is run under; the last one for several cores

__all__ = ["SANITIZERS", "CheckResult", "HostModel", "check", "difference", "largest", "load_samples", "random_samples",
           "sanitized"]


@dataclass
class CheckResult:
    """Differences by step and for the outputs; onnxruntime's are empty where it is not installed."""

    samples: int
    steps: dict[str, Difference] = field(default_factory=dict)
    outputs: Difference = field(default_factory=Difference)
    cores: Difference = field(default_factory=Difference)       # of all cores together, against one of them
    ort_steps: dict[str, Difference] = field(default_factory=dict)
    ort_outputs: Difference | None = None
    ort_pairs: dict[int, Difference] = field(default_factory=dict)      # onnxruntime against itself, see _Ort
    ort_note: str = ""

    @property
    def reference(self) -> Difference:
        """All comparisons with the numpy reference."""
        return sum(self.steps.values(), self.outputs + self.cores)

    @property
    def ort_layers(self) -> Difference:
        """All comparisons with onnxruntime on the same layer input."""
        return sum(self.ort_steps.values(), Difference())

    @property
    def ort_self(self) -> Difference | None:
        """The pair of onnxruntime's own variants that differ most."""
        return max(self.ort_pairs.values(), key=lambda d: d.differing) if self.ort_pairs else None


def random_samples(plan: Plan, count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Inputs over the whole range of integers; floats in the range that a quantised model reads, else normal."""
    rng, g = np.random.default_rng(seed), plan.graph
    rows = []
    for _ in range(count):
        row: dict[str, np.ndarray] = {}
        for t in plan.inputs:
            kind = g.type(t)
            if kind.dtype.is_float:
                row[t] = _floats(plan, t, rng)
            elif kind.dtype == "bool":
                row[t] = rng.integers(0, 2, kind.shape).astype(np.bool_)
            else:
                low, high = kind.dtype.range
                row[t] = rng.integers(max(low, -2 ** 31), min(high, 2 ** 31 - 1), kind.shape, endpoint=True
                                      ).astype(kind.dtype.numpy)
        rows.append(row)
    return rows


def _floats(plan: Plan, t: str, rng: np.random.Generator) -> np.ndarray:
    kind = plan.graph.type(t)
    for user in plan.graph.users(t):
        first = user.parts[0]
        if first.op == "QuantizeLinear":
            stored = plan.graph.type(first.outputs[0])
            if stored.quant is not None and stored.dtype.is_quantised:
                low, high = ((n - stored.quant.zero[0]) * stored.quant.scale[0] for n in stored.dtype.range)
                return rng.uniform(low * 1.05, high * 1.05, kind.shape).astype(kind.dtype.numpy)
    return rng.standard_normal(kind.shape).astype(kind.dtype.numpy)


def load_samples(plan: Plan, path: Path) -> list[dict[str, np.ndarray]]:
    """Inputs from an .npz file: one array per input by name, with or without a leading axis over samples."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {k: archive[k] for k in archive.files}
    except (OSError, ValueError, EOFError, BadZipFile) as e:
        raise ModelError(f"cannot read {path.name}: {e}", hint="an .npz file with one array per input") from None
    g = plan.graph
    missing = [t for t in plan.inputs if t not in arrays]
    if missing:
        raise ModelError(f"{path.name} has no array {missing[0]!r}", hint=f"it has {', '.join(arrays) or 'none'}")
    rows: list[dict[str, np.ndarray]] = []
    for t in plan.inputs:
        kind, a = g.type(t), arrays[t]
        batch = a.reshape(1, *a.shape) if a.shape == kind.shape else a
        if batch.size == 0 or batch.size % max(kind.count, 1) or batch[0].size != kind.count:
            raise ModelError(f"{path.name}: {t} has shape {a.shape}, the model wants {kind.shape}", tensor=t)
        rows = rows or [{} for _ in batch]
        if len(batch) != len(rows):
            raise ModelError(f"{path.name}: inputs have different numbers of samples", tensor=t)
        for row, value in zip(rows, batch, strict=True):
            row[t] = value.reshape(kind.shape).astype(kind.dtype.numpy)
    return rows


@np.errstate(all="ignore")      # infinities and no numbers are compared like others
def check(plan: Plan, samples: Sequence[Mapping[str, np.ndarray]], model_path: Path | None = None, *,
          opt: str = "-O2", cc: str | None = None, extra: tuple[str, ...] = (),
          progress: Callable[[str], None] = lambda text: None) -> CheckResult:
    """Run the samples through C on the host and compare; onnxruntime joins in where it is installed.

    extra: further flags of the compiler.     With states the samples are the frames of one sequence that starts with a reset.
    """
    result = CheckResult(len(samples))
    progress("compiling for this computer")
    with HostModel(plan, opt, cc, extra=extra) as model:
        comparer = _ort(plan, model_path, result)
        traced = []
        states = {t: np.zeros(plan.graph.type(t).shape, plan.graph.type(t).dtype.numpy) for t, _ in plan.options.stateful}
        for i, sample in enumerate(samples):
            progress(f"sample {i + 1} of {len(samples)}")
            values = model.trace(sample)
            for t, want in states.items():
                result.outputs += difference(values[t], want)
            states = {t: values[y] for t, y in plan.options.stateful}
            for step in plan.steps:
                _step(plan, step, values, result, comparer)
            traced.append({t: values[t] for t in plan.outputs})
            if comparer is not None:
                comparer.outputs(values, {**sample, **{t: values[t] for t in states}}, result)
        model.reset()
        for sample, before in zip(samples, traced, strict=True):
            outputs = model.run(sample)
            for t in plan.outputs:
                result.outputs += difference(outputs[t], before[t])
        model.reset()
        for sample, before in zip(samples if plan.phases else (), traced, strict=False):
            outputs = model.together(sample)
            for t in plan.outputs:
                result.cores += difference(outputs[t], before[t])
    return result


def _step(plan: Plan, step: Any, values: dict[str, np.ndarray], result: CheckResult, comparer: _Ort | None) -> None:
    """One kernel against the reference, from the inputs that it had."""
    y = step.node.outputs[0]
    found = run_step(plan, step, {t: values[t] for t in step.node.inputs if t in values})
    tolerance: np.ndarray | float = 0.0
    for i, t in reversed(list(enumerate(step.node.outputs))):       # the first one last: its tolerance serves below
        tolerance = float_tolerance(plan, step, values, found[t], i) if plan.graph.type(t).dtype.is_float else 0.0
        result.steps[step.function] = (result.steps.get(step.function, Difference())
                                       + difference(values[t], found[t], tolerance))
    if comparer is not None and (other := comparer.layers.run(y, values)) is not None:
        allowed, _ = _alike(np.broadcast_to(tolerance, values[y].shape), other)
        result.ort_steps[step.function] = (result.ort_steps.get(step.function, Difference())
                                           + difference(*_alike(values[y], other), allowed))


class _Ort:
    """Sessions of onnxruntime for one plan: optimised, not optimised, and optimised with every layer as an output,
    which makes its optimiser choose other kernels and is a third opinion of the same runtime."""

    def __init__(self, plan: Plan, path: Path, result: CheckResult) -> None:
        self.plan, self.layers = plan, ort.Layers(plan, path)
        self.tensors = _before_softmax(plan)
        inner = tuple(t for s in plan.steps for t in s.node.outputs if t in self.layers.sessions)
        self.sessions = [ort.whole(plan, path, self.tensors), ort.whole(plan, path, self.tensors, optimise=False),
                         ort.whole(plan, path, tuple(dict.fromkeys((*self.tensors, *inner))))]
        if self.sessions[0] is None:
            result.ort_note = "no node of the file makes an output (--io, constants, copies): compared layer by layer only"

    def outputs(self, values: Mapping[str, np.ndarray], sample: Mapping[str, np.ndarray], result: CheckResult) -> None:
        """End to end, before a closing softmax: C against onnxruntime, and onnxruntime against itself."""
        if self.sessions[0] is None:
            return
        names = {i.name for i in self.sessions[0].get_inputs()}
        feed = {t: np.ascontiguousarray(a) for t, a in sample.items() if t in names}
        try:
            runs = [[signs.as_type(a, self.plan.graph.type(t)) for t, a in zip(self.tensors, s.run(None, feed), strict=False)]
                    for s in self.sessions]
        except Exception as e:      # it has loaded the model, and yet cannot run it
            self.sessions[0] = None
            result.ort_note = f"onnxruntime cannot run the model: {str(e).splitlines()[0]}"
            return
        result.ort_outputs = (result.ort_outputs or Difference()) + self._sum([values[t] for t in self.tensors], runs[0])
        for i, (a, b) in enumerate(((runs[0], runs[1]), (runs[0], runs[2]), (runs[1], runs[2]))):
            result.ort_pairs[i] = result.ort_pairs.get(i, Difference()) + self._sum(a, b)

    def _sum(self, got: list[np.ndarray], want: list[np.ndarray]) -> Difference:
        """Over all outputs."""
        total = Difference()
        for a, b in itertools.starmap(_alike, zip(got, want, strict=True)):
            scale = largest(b) if b.dtype.kind == "f" else 0.0
            total += difference(a, b, END_TO_END * len(self.plan.steps) * scale)
        return total


def _alike(ours: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two results in one shape: where the size depends on the data, generated C has room behind what counts."""
    if ours.ndim == theirs.ndim and ours.size > theirs.size:
        return ours[tuple(slice(n) for n in theirs.shape)], theirs
    return ours, theirs.reshape(ours.shape)


def _ort(plan: Plan, path: Path | None, result: CheckResult) -> _Ort | None:
    if path is None or ort.runtime() is None:
        result.ort_note = "no ONNX file to compare with" if path is None else "onnxruntime is not installed"
        return None
    try:
        return _Ort(plan, path, result)
    except Exception as e:      # onnxruntime refuses a model in many ways; ours is still checked without it
        result.ort_note = f"onnxruntime cannot run the model: {str(e).splitlines()[0]}"
        return None


def _before_softmax(plan: Plan) -> tuple[str, ...]:
    """The outputs, or the stored integers behind a closing softmax or DequantizeLinear."""
    made = {t: s.node for s in plan.steps for t in s.node.outputs}
    tensors = []
    for t in plan.graph.outputs:
        node = made.get(t)
        tensors.append(node.inputs[0] if node is not None and node.op in CLOSING else t)
    return tuple(tensors)
