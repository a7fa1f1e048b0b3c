"""What a user may ask of a compilation: one object, filled by the API and by the command line alike."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fuse2c.errors import PlanError

CHOICES = {"arena": ("static", "caller"), "io": ("model", "int8", "float"), "requant": ("fixed", "float"),
            "place": ("heuristic", "exact"), "share_kernels": ("auto", "always", "never"),
            "winograd": ("flash", "auto", "off")}
OBJECTIVES = ("cycles", "balanced", "ram", "energy")
WEIGHED = ("cycles", "ram", "flash", "energy")
"""What the weighted sum of an objective may be of."""
Numbers = float | Sequence[float]
Value = np.ndarray | np.generic | Numbers


def weights(text: str) -> dict[str, float]:
    """The weights of an objective such as "cycles=1,ram=0.5" (or with + between them). Raises PlanError."""
    found = {}
    for part in text.replace("+", ",").split(","):
        key, _, value = part.partition("=")
        try:
            found[key.strip()] = float(value)
        except ValueError:
            found = {}
            break
    if not found or set(found) - set(WEIGHED) or not all(0 <= w < math.inf for w in found.values()) or not any(found.values()):
        raise PlanError(f"optimize is {text!r}", hint=f"one of {', '.join(OBJECTIVES)}, or weights, none below 0: "
                                                      f"cycles=1,ram=0.5 (of {', '.join(WEIGHED)})")
    return found


@dataclass(frozen=True)
class Options:
    """Options of `build`, `check` and `bench`; the defaults are the command line's.

    dims: values for symbolic dimensions. bind: inputs that become constants: arrays of their types and shapes, or
    numbers. optimize: one of OBJECTIVES, or weights of a sum. ram, flash: limits in bytes instead of the target's.
    energy_uj: the most an inference may take; power_mw: the most on average at rate_hz inferences a second, for which the
    clock is chosen. winograd: 3x3 convolutions with fewer products and more bytes of weights, as far as the limit or the
    target's flash allows: where there is a limit ("flash"), or without one, too ("auto"). zeros: by tensor,
    which share of its elements is zero; where it pays, kernels pass over them. calib: an .npz file with typical inputs, of
    which that is measured. name: C prefix, default from the file name.
    stateful: (input, output) pairs of tensors that the generated model keeps from one run to the next.
    step_budget: instructions of a call of <name>_step, which is generated beside <name>_run; all state is then in what the
    caller passes, so that the arena is the caller's. max_slice_us: the same as a time at the target's clock. deadline_ms: the
    time that an inference may take at that clock. cores: how many of the target's share an inference, in <name>_run_on.
    place_node: (node of the model, processor) pairs, where fuse2c does not choose itself.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    bind: Mapping[str, Value] = field(default_factory=dict)
    arena: str = "static"
    io: str = "model"
    requant: str = "fixed"
    fuse: bool = True
    no_fuse_rules: tuple[str, ...] = ()
    fuse_barriers: tuple[str, ...] = ()
    share_kernels: str = "auto"
    optimize: str = "cycles"
    place: str = "heuristic"
    input_rows: bool = False
    ram: int | None = None
    flash: int | None = None
    winograd: str = "flash"
    zeros: Mapping[str, float] = field(default_factory=dict)
    calib: Path | None = None
    energy_uj: float | None = None
    power_mw: float | None = None
    rate_hz: float | None = None
    name: str | None = None
    stateful: tuple[tuple[str, str], ...] = ()
    step_budget: int | None = None
    max_slice_us: float | None = None
    deadline_ms: float | None = None
    cores: int = 1
    place_node: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for key, allowed in CHOICES.items():
            if getattr(self, key) not in allowed:
                raise PlanError(f"{key} is {getattr(self, key)!r}", hint=f"one of {', '.join(allowed)}")
        if self.optimize not in OBJECTIVES:
            weights(self.optimize)
        if self.step_budget is not None and self.max_slice_us is not None:
            raise PlanError("two limits for a step", hint="give step_budget or max_slice_us")
        if self.cores < 1:
            raise PlanError(f"cores is {self.cores}", hint="1, or more with a target that has them")
        if self.cores > 1:
            self._refuse_with_cores()
        if self.in_steps:
            if self.input_rows:
                raise PlanError("steps of an input that is pushed row by row", hint="a row that is pushed is a step already")
            object.__setattr__(self, "arena", "caller")

    def _refuse_with_cores(self) -> None:
        """Raise PlanError for what goes on where one thread stopped: several cores have no such place."""
        if self.in_steps:
            raise PlanError("steps of an inference that several cores share", hint="leave --cores or the limit for a step out")
        if self.input_rows:
            raise PlanError("an input that is pushed row by row to several cores", hint="leave --cores or --input-rows out")

    @property
    def in_steps(self) -> bool:
        """Whether <name>_step is generated."""
        return self.step_budget is not None or self.max_slice_us is not None
