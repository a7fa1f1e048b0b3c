"""Loops of the compiler's arithmetic that data ends: how often they turn at most, by the name of the routine and their look."""
from __future__ import annotations

from collections.abc import Sequence

from fuse2c.wcet.decode import Instruction

SHIFTS, BITS = 0, 1
ROUTINES = {"__aeabi_d": (52, 56), "__aeabi_cd": (52, 56), "__aeabi_f": (23, 27), "__aeabi_cf": (23, 27),
            **dict.fromkeys(("__aeabi_i2", "__aeabi_ui2", "__aeabi_l2", "__aeabi_ul2", "__divdi3", "__udivdi3", "__moddi3",
                             "__umoddi3", "__udivmoddi4"), (64, 64)),
            **dict.fromkeys(("__aeabi_idiv", "__aeabi_uidiv", "__divsi3", "__udivsi3"), (33, 33))}
"""By how a name begins: turns of a loop that shifts a significand until its highest bit is set, so many as it has bits behind
the point; and of one that finds a bit of a quotient a turn, of which float routines want three more than the result has."""
UNROLLED = {"__aeabi_idiv": 5, "__aeabi_uidiv": 3, "__divsi3": 5, "__udivsi3": 3}
STEPS, DOUBLE_STEPS, DOUBLE_TURNS = 6, 4, 14
"""libgcc's divisions on M0+ find six or eight bits a turn, and begin within one; those of double on M3 and M4 four, of two
words one after the other."""
ASSUMED = ("loops that data ends turn at most once for each bit of a number (float 23, a quotient 27; double 52, a quotient 56 "
           "or, by four bits, 14; int64 64; division of int32 33 or, by several bits, 5, of uint32 3) in ")


def turns(name: str, loop: Sequence[Instruction]) -> int | None:
    """The most turns of a loop in a routine of this name; None for any other function."""
    found = next((numbers for start, numbers in ROUTINES.items() if name.startswith(start)), None)
    if found is None:
        return None
    compares = sum(i.name == "cmp" for i in loop)
    borrows = sum(i.name == "sbc" and i.flags for i in loop)
    for start, most in UNROLLED.items():
        if name.startswith(start) and compares >= STEPS:
            return most
    if name.startswith("__aeabi_d") and borrows >= DOUBLE_STEPS:
        return DOUBLE_TURNS
    return found[BITS if compares or borrows else SHIFTS]
