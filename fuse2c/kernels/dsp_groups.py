"""Groups whose channels are no fours: each reads some channels of its neighbours as well, with weights of zero.

The last groups, behind which there are too few channels, read what is in front of them.
"""
from __future__ import annotations

import numpy as np

FOUR = 4                # channels that are widened at once
LEAST = 12              # weights of a tap, from which on tiles of such groups are worth their zeros


def width(per: int, taps: int, channels: int) -> int:
    """Channels that a group of `per` reads, of all `channels`; taps: of a row of the window."""
    wide = -(-per // FOUR) * FOUR
    return wide if per % FOUR and taps > 1 and per < wide <= channels else per


def pays(per: int, outputs: int, channels: int) -> bool:
    """Whether a group of so many channels and outputs has enough products for the zeros among them."""
    return -(-per // FOUR) * FOUR <= channels and per * outputs >= LEAST


def embedded(w: np.ndarray, groups: int, per: int, wide: int) -> np.ndarray:
    """[outputs, taps * per] -> [outputs, taps * wide], zeros where a channel is a neighbour's."""
    own = w.reshape(groups, w.shape[0] // groups, -1, per)
    found = np.zeros((*own.shape[:3], wide), w.dtype)
    for group in range(groups):
        before = group * per - first(group, groups, per, wide)
        found[group, :, :, before:before + per] = own[group]
    return found.reshape(w.shape[0], -1)


def first(group: int, groups: int, per: int, wide: int) -> int:
    """The first channel that a group reads."""
    return min(group * per, groups * per - wide)


def first_texts(groups: int, per: int, wide: int) -> dict[str, str]:
    """The same as C text, and where that is in x."""
    last = groups * per - wide
    text = "group * GROUP_C" if wide == per else f"(((group * {per}) < {last}) ? (group * {per}) : {last})"
    return {"first": text, "from": f"&x[{text} * X_SC]" if groups > 1 else "x"}
