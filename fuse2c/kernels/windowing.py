"""Windows that slide over one or two spatial axes: shared by convolution and pooling.

A 1-D tensor [N,C,L] is treated as H = L rows of width 1, so that 1-D networks are computed, and later streamed,
row by row along time.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from fuse2c.ir.types import TensorType
from fuse2c.op import Call, RowWindow, Source

LONGEST = 2 ** 16       # strides and dilations whose products with positions stay inside int32


@dataclass(frozen=True, slots=True)
class Segments:
    """The elements under a row of the window, for pixels side by side.

    reach: so many columns for each tap are gathered side by side, where the gaps between taps are wider; 0: gaps are read over.
    """

    channels: int
    taps: int = 1
    stride: int = 1
    dilation: int = 1
    reach: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel extent, strides, dilations and pads (all begins, then all ends), one entry per spatial axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil_mode: bool = False

    def extent(self, axis: int) -> int:
        """Input elements that one window spans."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def out(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Output extents for input extents `size` (ONNX's formula; in ceil mode no window starts in the end pad)."""
        result = []
        rank = len(self.kernel)
        for i, n in enumerate(size):
            room = n + self.pads[i] + self.pads[rank + i] - self.extent(i)
            steps = -(-room // self.strides[i]) if self.ceil_mode else room // self.strides[i]
            if self.ceil_mode and steps * self.strides[i] >= n + self.pads[i]:
                steps -= 1
            result.append(steps + 1)
        return tuple(result)

    @property
    def begin(self) -> tuple[int, ...]:
        """Pads before the first element of each axis."""
        return self.pads[:len(self.kernel)]


def from_attrs(src: Source, size: tuple[int, ...], kernel: tuple[int, ...]) -> Window:
    """The window of an ONNX node; resolves auto_pad."""
    rank = len(kernel)
    strides = tuple(src.attrs.get("strides", [1] * rank))
    dilations = tuple(src.attrs.get("dilations", [1] * rank))
    pads = tuple(src.attrs.get("pads", [0] * 2 * rank))
    auto = src.attrs.get("auto_pad", "NOTSET")
    if auto == "VALID":
        pads = (0,) * (2 * rank)
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        begins, ends = [], []
        for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
            total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            small, large = total // 2, total - total // 2
            begins.append(small if auto == "SAME_UPPER" else large)
            ends.append(large if auto == "SAME_UPPER" else small)
        pads = tuple(begins + ends)
    elif auto != "NOTSET":
        raise src.refuse(f"auto_pad is {auto!r}", attr="auto_pad", hint="NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    if min(pads, default=0) < 0:
        raise src.refuse("negative pads", attr="pads", hint="crop with Slice instead")
    if max(strides + dilations, default=1) > LONGEST:
        raise src.refuse(f"a stride or dilation beyond {LONGEST}", attr="strides")
    if min(strides, default=1) < 1 or min(dilations, default=1) < 1 or min(kernel, default=1) < 1:
        raise src.refuse("kernel, strides and dilations must be at least 1", attr="strides")
    return Window(kernel, strides, pads, dilations, bool(src.attrs.get("ceil_mode", 0)))


def plane(values: tuple[int, ...], fill: int) -> tuple[int, int]:
    """One or two spatial values as (vertical, horizontal)."""
    return (values[0], values[1] if len(values) > 1 else fill)


def constants(c: Call, w: Window) -> dict[str, int]:
    """The C constants of a sliding window: extents, strides in elements, pads."""
    x, y = c.type(0), c.y[0]
    (in_h, in_w), (out_h, out_w) = plane(x.shape[2:], 1), plane(y.shape[2:], 1)
    names = {"IN_H": in_h, "IN_W": in_w, "IN_C": x.shape[1], "OUT_H": out_h, "OUT_W": out_w, "OUT_C": y.shape[1]}
    pairs: Mapping[str, tuple[int, int]] = {
        "K": plane(w.kernel, 1), "STRIDE": plane(w.strides, 1), "DIL": plane(w.dilations, 1)}
    for key, (vertical, horizontal) in pairs.items():
        names |= {f"{key}_H": vertical, f"{key}_W": horizontal}
    top, left = plane(w.begin, 0)
    return names | {"PAD_TOP": top, "PAD_LEFT": left} | element_strides("X", x) | element_strides("Y", y)


def element_strides(prefix: str, t: TensorType) -> dict[str, int]:
    """<prefix>_SC, _SH, _SW: distance between neighbouring channels, rows, columns of a [N,C,(H,(W))] tensor."""
    s = t.strides
    return {f"{prefix}_SC": s[1], f"{prefix}_SH": s[2], f"{prefix}_SW": s[3] if len(s) > 3 else 0}


def inside(window: Window, size: tuple[int, ...], axis: int, padded: bool = False, positions: int | None = None) -> np.ndarray:
    """Whether each element of each window along an axis lies in the input (or else in its padding), [out, kernel].

    positions: how many windows there are, if not as many as fit into `size`.
    """
    begin, end = (window.pads[axis], window.pads[len(size) + axis]) if padded else (0, 0)
    count = window.out(size)[axis] if positions is None else positions
    start = np.arange(count) * window.strides[axis] - window.pads[axis]
    at = start[:, None] + np.arange(window.kernel[axis]) * window.dilations[axis]
    return np.asarray((at >= -begin) & (at < size[axis] + end))


def whole(c: Call, window: Window) -> bool:
    """Whether no window of a call reaches into padding."""
    return all(inside(window, c.type(0).shape[2:], axis, positions=n).all() for axis, n in enumerate(c.y[0].shape[2:]))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Elements under a window as C text: first and end of rows and columns, and what is in front of the loops over them."""

    guard: str = ""
    ky_first: str = "ky_first"
    ky_end: str = "ky_end"
    kx_first: str = "kx_first"
    kx_end: str = "kx_end"


def bounds(c: Call, window: Window) -> tuple[Bounds, ...]:
    """For windows that lie inside constant bounds, so that the compiler unrolls; where all do, the variables are constant."""
    if whole(c, window):
        return (Bounds(),)
    inside = "(ky_first == 0) && (ky_end == K_H) && (kx_first == 0) && (kx_end == K_W)"
    return Bounds(f"if ({inside}) {{", "0", "K_H", "0", "K_W"), Bounds("} else {")


def taps(window: Window, positions: tuple[int, ...], size: tuple[int, ...]) -> int:
    """Elements in all windows of one channel; what lies in the padding does not count."""
    return prod(int(inside(window, size, axis, positions=n).sum()) for axis, n in enumerate(positions))


def rows_inside(c: Call) -> int:
    """Rows of all windows down an image that are no padding."""
    size = c.type(0).shape[2:]
    return int(inside(c.attrs.window, size, 0, positions=plane(c.y[0].shape[2:], 1)[0]).sum())


def gathered(names: Mapping[str, int], there: int, tiles: Iterable[tuple[range, int, int]], in_line: bool) -> int:
    """Elements of an image that are brought together for tiles: those of strips that see padding, or all that lie not in line.

    names: the constants of the window; there: see `rows_inside`; tiles: the columns at which tiles of a size begin, and their
    strip of each row: so many times so many columns.
    """
    found = 0
    for columns, times, width in tiles:
        lefts = [ox * names["STRIDE_W"] - names["PAD_LEFT"] for ox in columns]
        whole = sum(0 <= left <= names["IN_W"] - width for left in lefts) if in_line else 0
        found += (names["OUT_H"] * names["K_H"] * len(lefts) - there * whole) * times * width
    return found * names["IN_C"]


def scattered(c: Call) -> int | None:
    """Axis 2, along which windows go, where the output's rows along it are no parts that follow each other in memory."""
    y = c.y[0]
    return 2 if y.shape[2] != 1 and y.memory_axes[:1] != (2,) else None


def row_window(c: Call) -> RowWindow:
    """How output rows depend on input rows."""
    w = c.attrs.window
    return RowWindow(w.extent(0), w.strides[0], w.pads[0])


def volume(values: tuple[int, ...], fill: int) -> tuple[int, int, int]:
    """One to three spatial values as (depth, vertical, horizontal); one value is vertical, as in `plane`."""
    one, two = fill, fill
    return {1: lambda v: (one, v[0], two), 2: lambda v: (one, *v), 3: lambda v: v}[len(values)](values)


def volume_constants(x: TensorType, y: TensorType, w: Window) -> dict[str, int]:
    """The C constants of windows in up to three dimensions: extents, steps, pads, strides in elements."""
    names = {"BATCH": x.shape[0], "IN_C": x.shape[1], "OUT_C": y.shape[1]}
    triples = {"IN": volume(x.shape[2:], 1), "OUT": volume(y.shape[2:], 1), "K": volume(w.kernel, 1),
               "STRIDE": volume(w.strides, 1), "DIL": volume(w.dilations, 1)}
    for key, values in triples.items():
        names |= {f"{key}_{axis}": n for axis, n in zip("DHW", values, strict=True)}
    names |= dict(zip(("PAD_FRONT", "PAD_TOP", "PAD_LEFT"), volume(w.begin, 0), strict=True))
    return names | volume_strides("X", x) | volume_strides("Y", y)


def volume_strides(prefix: str, t: TensorType) -> dict[str, int]:
    """<prefix>_SN, _SC, _SD, _SH, _SW: distance between neighbours of a [N,C,spatial...] tensor."""
    s = t.strides
    return {f"{prefix}_S{axis}": n for axis, n in zip("NCDHW", (*s[:2], *volume(s[2:], 0)), strict=True)}


def windows(x: np.ndarray, w: Window, fill: float | int, out: tuple[int, ...]) -> np.ndarray:
    """All windows of x [N,C,spatial...] as [N,C,out...,kernel...], with `fill` outside of x."""
    rank = len(w.kernel)
    need = [(o - 1) * s + w.extent(i) for i, (o, s) in enumerate(zip(out, w.strides, strict=True))]
    ends = [max(n - (size + b), 0) for n, size, b in zip(need, x.shape[2:], w.begin, strict=True)]
    padded = np.pad(x, [(0, 0), (0, 0), *zip(w.begin, ends, strict=True)], constant_values=fill)
    spans = tuple(w.extent(i) for i in range(rank))
    view = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=tuple(range(2, 2 + rank)))
    pick = [slice(None), slice(None)]
    pick += [slice(0, (o - 1) * s + 1, s) for o, s in zip(out, w.strides, strict=True)]
    pick += [slice(None, None, d) for d in w.dilations]
    return view[tuple(pick)]


def correlate(x: np.ndarray, w: np.ndarray, window: Window, groups: int) -> np.ndarray:
    """[N,O,out...] of w [O,C/groups,kernel...], zeros outside of x; integers are summed in float64, exact below 2**53."""
    out = window.out(x.shape[2:])
    view = windows(x, window, 0, out)
    n, rank = x.shape[0], len(out)
    per = x.shape[1] // groups
    order = (0, *range(2, 2 + rank), 1, *range(2 + rank, 2 + 2 * rank))
    parts = []
    for g in range(groups):
        patch = np.ascontiguousarray(view[:, g * per:(g + 1) * per].transpose(order)).reshape(n * prod(out), -1)
        share = w[g * (w.shape[0] // groups):(g + 1) * (w.shape[0] // groups)].reshape(w.shape[0] // groups, -1)
        parts.append((patch @ share.T).reshape(n, *out, -1))
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)
