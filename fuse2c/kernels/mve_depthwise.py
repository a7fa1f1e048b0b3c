"""Depthwise convolution for Arm's Helium (MVE): 16 lanes at a time, which are channels, or channels of several pixels.

The columns of a row of the window are brought together first, padding filled in, so that the inner loop has no borders.
Products are added as int16 while no input can make them overflow: that is known from the weights. See
runtime_c/f2c_lanes.h.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuse2c.kernels.mve import LANES
from fuse2c.kernels.tiling import Store, index
from fuse2c.op import Scalar

UNROLLED = 49                       # taps of a window up to which all are computed in line
FARTHEST = 127                      # what the address of a vector of bytes may have added to it
SAFE = (2 ** 15 - 1) // 2 ** 7      # what the magnitudes of weights may add up to whose products are added as int16
ORDER = (0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15)      # the lanes of the sums


@dataclass(frozen=True, slots=True)
class Tap:
    """One product: where its elements are, base and distance; whether it begins or ends a sum of int16."""

    base: str
    at: int
    begins: bool
    ends: bool


@dataclass(frozen=True, slots=True)
class Put:
    """A call that stores lanes, as C text: the value is between its address and how many of them count."""

    function: str
    address: str
    count: str


def groups(w: np.ndarray) -> Iterator[int]:
    """How many taps of w [channels (times rows), taps] are added as int16, from the first one on."""
    size, total = 0, np.zeros(len(w), np.int64)
    for column in np.abs(w.astype(np.int64)).T:
        if size and (total + column).max() > SAFE:
            yield size
            size, total = 0, np.zeros(len(w), np.int64)
        size, total = size + 1, total + column
    yield size


def taps(w: np.ndarray, steps: list[int]) -> tuple[Tap, ...]:
    """The products of w [channels (times rows), taps] with elements at these steps from the start of each row, in order."""
    found: list[Tap] = []
    for size in groups(w):
        for i in range(size):
            row, column = divmod(len(found), len(steps))
            far = steps[column] > FARTHEST
            base = f"&x{row}[{steps[column]}]" if far else f"x{row}"
            found.append(Tap(base, 0 if far else steps[column], i == 0, i == size - 1))
    return tuple(found)


def crop(w: np.ndarray, names: dict[str, int], inside: list[np.ndarray]) -> tuple[np.ndarray, dict[str, int]]:
    """(w [channels, rows, columns], constants of the window) without first and last taps that see nothing but padding.

    inside: for each axis, whether a tap ever sees an element.
    """
    rows, columns = (_used(inside[axis], names[pad], names[step]) if axis < len(inside) else (0, 1)
                     for axis, (pad, step) in enumerate((("PAD_TOP", "DIL_H"), ("PAD_LEFT", "DIL_W"))))
    found = {"K_H": rows[1] - rows[0], "K_W": columns[1] - columns[0],
             "PAD_TOP": names["PAD_TOP"] - rows[0] * names["DIL_H"],
             "PAD_LEFT": names["PAD_LEFT"] - columns[0] * names["DIL_W"]}
    return w[:, rows[0]:rows[1], columns[0]:columns[1]], found


def _used(inside: np.ndarray, pad: int, step: int) -> tuple[int, int]:
    """The first tap and the end of those that are left, one at least; there is still no output in front of the padding."""
    first = min(int(inside.argmax()), pad // step)
    return first, max(first + 1, len(inside) - int(inside[::-1].argmax()) if inside.any() else 0)


def pixels(channels: int, names: dict[str, int]) -> int:
    """Pixels that 16 lanes hold: several only if they are neighbours in all that the lanes multiply and become."""
    adjacent = (names["X_SC"], names["X_SW"], names["Y_SC"], names["Y_SW"]) == (1, channels, 1, channels)
    return LANES // channels if adjacent and names["STRIDE_W"] == 1 and LANES % channels == 0 else 1


def lanes(values: np.ndarray, together: int) -> np.ndarray:
    """[channels, ...] -> [groups of lanes, 16, ...]: several pixels, or zeros where channels run out."""
    wide = np.concatenate([values] * together)
    pad = [(0, -len(wide) % LANES)] + [(0, 0)] * (values.ndim - 1)
    return np.pad(wide, pad).reshape(-1, LANES, *values.shape[1:])


def ordered(values: np.ndarray, together: int) -> np.ndarray:
    """A value for each channel in the order of the sums."""
    return lanes(values, together)[:, ORDER].reshape(-1)


def finish(scalar: Scalar, together: int) -> Scalar:
    """A requantisation whose tables lie in the order of the sums."""
    tables = {name: values if values.size == 1 else ordered(values, together) for name, values in scalar.tables.items()}
    return replace(scalar, tables=tables)


def flags(w: np.ndarray, names: dict[str, int]) -> tuple[dict[str, np.ndarray], dict[str, int], dict[str, Any]]:
    """(tables, constants, values for the templates) of w [channels, rows, columns]; `names`: those of the window."""
    channels, rows, columns = w.shape
    together = pixels(channels, names)
    column = channels if together > 1 else LANES
    wide = (names["OUT_W"] - 1) * names["STRIDE_W"] + (columns - 1) * names["DIL_W"] + 1
    inside = min(names["IN_W"], wide - names["PAD_LEFT"])
    strip = wide * column
    loop = rows * columns > UNROLLED
    steps = [kx * names["DIL_W"] * column for kx in range(columns)]
    packed = lanes(w.reshape(channels, -1), together).transpose(0, 2, 1)
    constants = {"LANES": LANES, "PIXELS": together, "COLUMN": column, "COLUMNS": inside, "STRIP": strip,
                 "BEHIND": (names["PAD_LEFT"] + inside) * column}
    return {"w": packed.reshape(-1)}, constants, {
        "scratch": rows * strip + (LANES if together > 1 else 0), "loop": loop, "trips": rows if loop else 1,
        "taps": taps(w.reshape(-1, columns) if loop else w.reshape(channels, -1), steps), "bases": range(1 if loop else rows),
        "adjacent": column == channels == names["X_SW"] and names["X_SC"] == 1,
        "channel": index("", "c", names["X_SC"]).removeprefix(" + "), "load": load(channels, names["X_SC"]),
        "start": "{{" + ", ".join(f"f2c_words_at(&b[{4 * i}])" for i in range(4)) + "}}",
        "fours": tuple(Store(f"s.of[{i}]", f"c + {4 * i}" if i else "c", "") for i in range(4)),
        "put": put(channels, together, names)}


def effort(names: dict[str, int], found: tuple[Tap, ...], adjacent: bool) -> dict[str, int]:
    """What the kernel does for an image: vectors gathered, tiles of 16 lanes, products of vectors, sums of int16 that end."""
    rows = sum(0 <= oy * names["STRIDE_H"] - names["PAD_TOP"] + ky * names["DIL_H"] < names["IN_H"]
               for oy in range(names["OUT_H"]) for ky in range(names["K_H"]))
    lanes = -(-names["OUT_C"] // LANES)
    columns = -(-names["COLUMNS"] * names["COLUMN"] // LANES) if adjacent else names["COLUMNS"]
    tiles = names["OUT_H"] * lanes * -(-names["OUT_W"] // names["PIXELS"])
    trips = names["K_H"] * names["K_W"] // len(found)
    return {"load": rows * lanes * columns, "tile": tiles, "multiply": tiles * len(found) * trips,
            "unpack": tiles * trips * sum(t.ends for t in found)}


def load(channels: int, stride: int) -> str:
    """C text of the lanes of a column: channels c and on, `stride` apart in memory."""
    if stride != 1:
        return "f2c_bytes_gather(x_row, X_SC, OUT_C - c)"
    return "f2c_bytes_first(x_row, OUT_C - c)" if channels % LANES else "f2c_bytes_at(x_row)"


def put(channels: int, together: int, names: dict[str, int]) -> Put:
    """How the lanes are stored."""
    at = f"&y_row[{index('(ox * Y_SW)', 'c', names['Y_SC'])}]"
    if names["Y_SC"] != 1:
        return Put("f2c_bytes_scatter", f"{at}, Y_SC", ", OUT_C - c")
    if together > 1 and names["OUT_W"] % together:
        return Put("f2c_bytes_store_first", at, ", (OUT_W - ox) * OUT_C")
    if together == 1 and channels % LANES:
        return Put("f2c_bytes_store_first", at, ", OUT_C - c")
    return Put("f2c_bytes_store", at, "")
