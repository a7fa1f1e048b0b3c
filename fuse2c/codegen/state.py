"""Tensors that the model keeps between runs (--stateful): where they lie, what replaces them at the end of a run."""
from __future__ import annotations

from dataclasses import dataclass

from fuse2c.ir.types import CTYPE, TensorType
from fuse2c.names import Namer
from fuse2c.plan import Plan


@dataclass(frozen=True, slots=True)
class State:
    """One kept tensor: a graph input, and the graph output whose value is the input's in the next run."""

    tensor: str
    output: str
    name: str               # for comments: the input's name as a C identifier
    successor: str          # for comments: the output's
    array: str              # C array; empty if the state lies in the caller's arena
    buffer: str             # C expression of its first element's address
    ctype: str
    type: TensorType
    record: int             # where the tracing run puts its old value

    @property
    def shape(self) -> str:
        """For comments: [1, 32, 32, 3]."""
        return str(list(self.type.shape))


def states(plan: Plan, name: str, namer: Namer) -> tuple[State, ...]:
    """The states of a plan, in the order of the option."""
    found = []
    record = sum(plan.graph.type(t).bytes for s in plan.steps for t in s.node.outputs)
    for (tensor, output), place in zip(plan.options.stateful, plan.state_places, strict=True):
        t = plan.graph.type(tensor)
        own, ctype = namer(tensor, "state"), CTYPE[t.dtype]
        array = "" if plan.options.arena == "caller" else namer(f"{name}_state_{own}")
        found.append(State(tensor, output, own, namer(output, "state"), array,
                           array or f"(({ctype} *)(void *)&bytes[{place.offset}])", ctype, t, record))
        record += t.bytes
    return tuple(found)
