"""Frames that are aligned to more than the stack is: clang's, of vectors."""
from __future__ import annotations

from collections.abc import Sequence

from fuse2c.errors import Refused
from fuse2c.wcet.engine import Engine
from fuse2c.wcet.machine import UNKNOWN_STACK
from fuse2c.wcet.state import State
from fuse2c.wcet.values import TOP, Value


def worst(engine: Engine, entry: int, arena: int | None = None, given: Sequence[Value] = ()) -> State:
    """See `Engine.analyse`. Where a function aligns its frame to 16 bytes, the stack pointer of which 8 are known is not known
    any more: both of what it may be at the entry are analysed, and must give the same but for the stack."""
    try:
        return engine.analyse(entry, arena, given)
    except Refused as error:
        if not error.args[0].startswith(UNKNOWN_STACK):
            raise
        refused = error
    engine.placed, found = True, []
    for low in (8, 0):
        engine.top = TOP - low
        engine.forget()
        try:
            state = engine.analyse(entry, arena, given)
        except Refused:
            raise refused from None
        found.append((engine.facts, state.instructions, state.cycles, engine.stack_bytes))
    if found[0][:3] != found[1][:3]:
        raise refused
    engine.stack_low = engine.top - max(stack for *_, stack in found)
    return state
