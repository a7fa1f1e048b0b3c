"""What a plan costs on its target: instructions, cycles, bytes by memory, launches, energy; per step and as a whole.

Counts come from the operators (Work) and the kernels' shapes; prices are data of the target file, per kernel. A kernel
without a price of its own is priced by the processor's rough ones.
"""
from __future__ import annotations

from dataclasses import dataclass, fields

from fuse2c.ops.base import EFFORT
from fuse2c.plan import Plan, Step
from fuse2c.target import Clock, Price

COUNTS = tuple(f.name for f in fields(Price) if f.name not in ("tile_of", "cpi", "cpi_worst"))
"""What is counted of a step, in the order of the fields of target.Price."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a step, a kernel or a whole plan, in one inference."""

    instructions: float = 0.0
    cycles: float = 0.0                     # typical
    worst: float = 0.0                      # cycles at worst
    launches: int = 0
    read: int = 0                           # bytes of the arena and of the caller's buffers
    written: int = 0
    weights: int = 0                        # bytes of constants
    macs: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Cost)))

    @property
    def traffic(self) -> int:
        """Bytes that pass between the processor and its memories."""
        return self.read + self.written + self.weights


def counts(plan: Plan, step: Step, tile_of: int) -> dict[str, float]:
    """What a price list multiplies, by COUNTS, of one inference; `tile_of`: how many pixels share a pass over the weights."""
    g, spec, names = plan.graph, step.spec, step.spec.constants
    outputs = sum(g.type(t).count for t in step.node.outputs if t)
    rows = spec.images * spec.rows
    columns = names.get("OUT_W", 1)
    depth = names.get("DEPTH", step.work.macs / max(outputs, 1))
    tiles = rows * -(-columns // tile_of)
    across = names.get("GROUP_OUT", names.get("OUT_C", 1))
    operands = sum(g.type(t).count for t in step.node.inputs[1:] if t and g.data(t) is None)
    return {"mac": step.work.macs, "alu": step.work.alu, "output": outputs, "operand": operands, "pixel": rows * columns,
            "window": rows * columns * depth, "stream": tiles * across * depth, "block": tiles * across,
            "row": rows, "call": spec.images, **dict.fromkeys(EFFORT, 0),
            **{key: n * spec.images for key, n in spec.effort.items()}}


def instructions(price: Price, found: dict[str, float]) -> float:
    """A kernel's instructions, from what was counted of it."""
    return sum(getattr(price, key) * n for key, n in found.items())
