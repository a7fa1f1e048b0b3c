"""How long an inference takes on this computer, beside onnxruntime on one thread: both in turn, in the same seconds."""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fuse2c import toolchain
from fuse2c.check import ort
from fuse2c.check.host import HostModel
from fuse2c.errors import BuildError
from fuse2c.plan import Plan

ROUNDS = 300            # turns of each; the fastest counts, since other programs can only make it slower
ROUND_S = 0.001         # seconds of one turn


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds of an inference; onnxruntime's are None where it is not installed or cannot run the model."""

    fuse2c_us: float
    onnxruntime_us: float | None

    @property
    def ratio(self) -> float | None:
        """Our time, as a part of onnxruntime's."""
        return self.fuse2c_us / self.onnxruntime_us if self.onnxruntime_us else None


def timed(plan: Plan, path: Path, sample: Mapping[str, np.ndarray], opt: str, cc: str | None) -> Timing:
    """The model's C, compiled for this processor, beside the model's file in onnxruntime, optimised as it likes.

    Raises BuildError if an inference fails.
    """
    with HostModel(plan, opt=opt, cc=cc, extra=toolchain.native(toolchain.host(cc).cc)) as model:
        sources, results = model.buffers(sample)
        arguments, function = model.arguments(sources, results, model.arena), model.function("run")
        if function(*arguments) != 0:
            raise BuildError(f"{model.name}_run failed")
        turns: list[Callable[[], object]] = [lambda: function(*arguments)]
        if (other := _onnxruntime(plan, path, sample)) is not None:
            turns.append(other)
        best = fastest(turns)
    return Timing(best[0] * 1e6, best[1] * 1e6 if len(best) > 1 else None)


def _onnxruntime(plan: Plan, path: Path, sample: Mapping[str, np.ndarray]) -> Callable[[], object] | None:
    """One inference there, or None."""
    if ort.runtime() is None:
        return None
    try:
        session = ort.whole(plan, path, plan.graph.outputs)
        if session is None:
            return None
        feed = {i.name: np.ascontiguousarray(sample[i.name]) for i in session.get_inputs()}
        session.run(None, feed)
    except Exception:       # whatever onnxruntime has against the model
        return None
    return lambda: session.run(None, feed)


def fastest(turns: list[Callable[[], object]]) -> list[float]:
    """Seconds that each of the functions takes at best, all of them in turn."""
    counts = [max(1, round(ROUND_S / max(_seconds(turn, 1), 1e-9))) for turn in turns]
    rounds = [[_seconds(turn, n) for turn, n in zip(turns, counts, strict=True)] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def _seconds(turn: Callable[[], object], count: int) -> float:
    """Seconds that one of `count` calls takes on average."""
    start = time.perf_counter()
    for _ in range(count):
        turn()
    return (time.perf_counter() - start) / count
