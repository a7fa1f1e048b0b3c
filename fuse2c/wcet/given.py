"""Flow facts that the user gives: how often loops turn, and what calls through pointers call."""
from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fuse2c.errors import Refused
from fuse2c.wcet.image import THUMB, Image

F4 = re.compile(r'\s*loop\s+"([^"]+)"\s*(?:\+\s*(0x[0-9a-fA-F]+|\d+))?\s+max\s+(\d+)\b')


@dataclass(frozen=True)
class Given:
    """`loops`: the most turns for each entry of a loop, by its header, and 0 for other blocks that are never reached;
    `calls`: functions, by the address of the call; `texts`: the same as the user wrote it, for the list of assumptions."""

    loops: dict[int, int] = field(default_factory=dict)
    calls: dict[int, tuple[int, ...]] = field(default_factory=dict)
    texts: tuple[str, ...] = ()


NOTHING = Given()


def read(image: Image, bounds: Iterable[str], calls: Iterable[str]) -> Given:
    """From `PLACE=TURNS` and `PLACE=FUNCTION,FUNCTION`; a place is `function+0x12`, as refusals name it, or an address.

    Refused for what is neither, or not in the program.
    """
    loops, called, texts = {}, {}, []
    for text in bounds:
        place, _, turns = text.rpartition("=")
        if not turns.strip().isdecimal():
            raise Refused(f"{text!r} says no number of turns", hint="such as --bound f+0x12=40")
        loops[_address(image, place)] = int(turns)
        texts.append(f"the loop at {place.strip()} turns at most {int(turns)} times for each entry" if int(turns) else
                     f"no run reaches {place.strip()}: what is there is never executed")
    for text in calls:
        place, _, names = text.partition("=")
        called[_address(image, place)] = tuple(image.entry(name.strip()) for name in names.split(","))
        texts.append(f"the call at {place.strip()} calls no other function than {names}")
    return Given(loops, called, tuple(texts))


def facts(text: str) -> list[str]:
    """The bounds in a file of OTAWA's flow facts (F4, as `--facts FILE.ff` writes them), as `PLACE=TURNS`."""
    found = []
    for line in text.splitlines():
        if not (line := line.partition("//")[0].strip()):
            continue
        m = F4.match(line)
        if m is None:
            raise Refused(f"{line!r} is no loop bound that is understood", hint='such as: loop "f" + 0x12 max 40;')
        found.append(f"{m[1]}+{m[2] or '0'}={m[3]}")
    return found


def _address(image: Image, place: str) -> int:
    name, plus, offset = place.strip().partition("+")
    try:
        return (int(name, 0) & ~THUMB if name[:1].isdigit() else image.entry(name)) + (int(offset, 0) if plus else 0)
    except ValueError:
        raise Refused(f"{place!r} is no place in a program", hint="such as f+0x12, or 0x8012") from None
