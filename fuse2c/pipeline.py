"""The compiler, in order. Each row takes a plan and returns a new one."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fuse2c.errors import Fuse2cError, InternalError
from fuse2c.ir.verify import verify
from fuse2c.passes import (
    afford,
    assign,
    bound,
    embed,
    fold,
    fuse,
    join,
    layout,
    legalize,
    order,
    place,
    promote,
    push,
    select,
    split,
    spread,
    stream,
    trade,
)
from fuse2c.plan import Plan


@dataclass(frozen=True, slots=True)
class Pass:
    """One stage, and what holds after it."""

    name: str
    run: Callable[[Plan], Plan]
    what: str


PIPELINE = (
    Pass("legalize", legalize.run, "inputs and outputs are as the caller has them"),
    Pass("promote", promote.run, "16-bit floats are float32 inside operators without kernels for them"),
    Pass("fold", fold.run, "what is constant is computed, quantised operators are integer operators"),
    Pass("split", split.run, "layers of which a row is too long for a step compute their channels in parts"),
    Pass("push", push.run, "the input comes row by row, if it is to"),
    Pass("layout", layout.run, "one storage order for each tensor, views where nothing moves"),
    Pass("fuse", fuse.run, "chains are single nodes where the rules allow"),
    Pass("select", select.run, "a kernel for every node"),
    Pass("assign", assign.run, "a processor for every step, of those that share a core the fastest"),
    Pass("trade", trade.run, "kernels that are offered are exchanged for others where that pays within the limits"),
    Pass("embed", embed.run, "what is joined is written, what is cut out is read where it lies"),
    Pass("order", order.run, "an order with a low memory peak"),
    Pass("stream", stream.run, "a schedule of row calls, rings where rows are enough"),
    Pass("spread", spread.run, "with several cores: which of them computes what, and when they meet"),
    Pass("place", place.run, "an address for every intermediate"),
    Pass("join", join.run, "which steps are one kernel"),
    Pass("afford", afford.run, "energy and power are within the limits, at a clock that is chosen"),
    Pass("bound", bound.run, "the deadline is not out of reach"),
)


@np.errstate(all="ignore")      # constants may overflow or be no number, as they would at run time
def compile_plan(plan: Plan, dump_after: tuple[str, ...] = (), dump_to: Path | None = None) -> Plan:
    """Run all passes. An exception that is no user's error leaves with the pass's name."""
    for i, stage in enumerate(PIPELINE):
        try:
            plan = stage.run(plan)
            verify(plan.graph)
        except Fuse2cError:
            raise
        except Exception as e:
            raise InternalError(f"pass {stage.name}: {type(e).__name__}: {e}",
                                hint="this is a bug in fuse2c; run again with --debug and report it") from e
        if stage.name in dump_after or "all" in dump_after:
            text = f"# after {stage.name}: {stage.what}\n{plan.text()}"
            if dump_to is None:
                print(text)
            else:
                (dump_to / f"{i:02}-{stage.name}.txt").write_text(text, encoding="utf-8")
    return plan
