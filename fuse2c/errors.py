"""Every error a user can see: one base class, one printed shape."""
from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection
from typing import Any

LONGEST = 200       # characters of a name or a message in an error
MOST = 24           # names in a hint


def printable(text: str, longest: int = LONGEST) -> str:
    """Text from a file, safe to show in one line: control characters escaped, the middle of what is long left out."""
    plain = "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)
    half = longest // 2 - 2
    return plain if len(plain) <= longest else f"{plain[:half]} .. {plain[-half:]}"


def did_you_mean(word: str, known: Collection[str]) -> str:
    """A hint for a name that does not exist: the one like it, else what there is (the first of many)."""
    if close := difflib.get_close_matches(word, known, 1):
        return f"did you mean {printable(close[0])!r}?"
    first = [printable(name, LONGEST // 4) for name in itertools.islice(known, MOST)]
    return f"known: {', '.join(first) or 'none'}" + (f" and {len(known) - MOST} more" if len(known) > MOST else "")


class Fuse2cError(Exception):
    """What went wrong, where in the model, and what to do about it."""

    code = "F000"
    exit_status = 1

    def __init__(self, message: str, *, node: str = "", op: str = "", attr: str = "", tensor: str = "",
                 hint: str = "", detail: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.where = {"node": node, "op": op, "attribute": attr, "tensor": tensor}
        self.hint = hint
        self.detail = detail            # further lines, for example one per unsupported operator

    def __str__(self) -> str:
        lines = [f"error[{self.code}]: {printable(self.args[0], 2 * LONGEST)}"]
        lines += [f"  {printable(line, 10 * LONGEST)}" for line in self.detail]
        lines += [f"  {key:9}: {printable(value)}" for key, value in self.where.items() if value]
        lines += [f"  hint     : {self.hint}"] if self.hint else []
        return "\n".join(lines)


class ModelError(Fuse2cError):
    """The model file cannot be used as it is."""

    code = "F100"


class UnsupportedOp(ModelError):
    """One or more operators have no implementation; all of them are listed at once.

    `constants` names inputs of the model that an operator needs as constants (option `bind`).
    """

    code = "F101"
    constants: tuple[str, ...] = ()


class UnboundDims(ModelError):
    """Dimensions that are still symbolic after --dim and the default for the batch; or --dim for none of them."""

    code = "F102"


class ShapeError(ModelError):
    """Shapes or types that do not fit together."""

    code = "F103"


class Overflow(ModelError):
    """An int32 accumulator that the real weights could overflow."""

    code = "F104"


class ExternalData(ModelError):
    """External data that is missing, truncated, or outside the model's folder."""

    code = "F105"


class TargetError(Fuse2cError):
    """A target that does not exist or a target file that is wrong."""

    code = "F200"


class PlanError(Fuse2cError):
    """The model is sound, but no plan meets the limits."""

    code = "F300"


class NoKernel(PlanError):
    """No kernel runs a node on this target."""

    code = "F301"


class DoesNotFit(PlanError):
    """More RAM or flash than the target has; `memory` says which of them."""

    code = "F302"

    def __init__(self, message: str, *, memory: str = "RAM", **more: Any) -> None:
        super().__init__(message, **more)
        self.memory = memory


class MissesDeadline(PlanError):
    """An inference, or a step that cannot be made smaller, takes longer than it may."""

    code = "F303"


class OverEnergy(PlanError):
    """More energy an inference, or power on average, than is allowed."""

    code = "F304"


class LimitsConflict(PlanError):
    """Limits that can be met one by one, but not together."""

    code = "F305"


class BuildError(Fuse2cError):
    """A compiler, linker or emulator failed; carries the command and what it said."""

    code = "F401"

    def __init__(self, message: str, *, hint: str = "", command: str = "", stderr: str = "") -> None:
        detail = (f"command  : {command}",) if command else ()
        super().__init__(message, hint=hint, detail=detail + tuple(stderr.strip().splitlines()[-20:]))
        self.command, self.stderr = command, stderr


class ToolMissing(BuildError):
    """A compiler or emulator is not installed."""

    code = "F402"


class Refused(Fuse2cError):
    """Machine code that has no proven worst case: what stands in the way, and where."""

    code = "F404"


class OutputError(Fuse2cError):
    """The output folder cannot be written, or holds what fuse2c did not write."""

    code = "F403"


class Mismatch(Fuse2cError):
    """Generated C and the reference disagree."""

    code = "F501"


class InternalError(Fuse2cError):
    """A broken invariant: a bug in fuse2c, never in the user's model."""

    code = "F900"
    exit_status = 3
