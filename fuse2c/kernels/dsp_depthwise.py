"""Depthwise convolution for Arm's DSP extension: two columns of a channel in one word, two taps an instruction.

Where a row lies channel by channel ("planar"), four columns are one load, and widening pairs columns (0, 2) and (1, 3).
Words are read at every second column (with strides at every fourth one): an output then finds taps 0 and 2, 1 and 3, 4 and
6, ... each in one word. Elsewhere neighbouring columns are paired from the first one that a tile of outputs reads: an output
that starts at an even column takes taps (0, 1), (2, 3), ...; one that starts at an odd column takes 0 alone, then (1, 2), ...
A tap that is alone is a half of a pair that another output needs.

Cores without that extension have the same tiles of outputs, with one column and one tap a multiplication ("single").
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fuse2c.kernels import tiling
from fuse2c.kernels.tiling import Block, Lane, Store, Tile

SIZES = (4, 5, 6, 3)        # outputs of a tile, the favourite first
UNROLLED = 3                # rows of a window up to which all are computed in line, with zeros for those outside
HALVES = "bt"               # names of a word's halves in instructions


@dataclass(frozen=True, slots=True)
class Mac:
    """acc += columns of a word times taps of a word, or halves of them."""

    acc: str
    function: str
    word: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Two neighbouring columns, or a last one: C name and value, and what they are multiplied with."""

    name: str
    value: str
    macs: tuple[Mac, ...]

    @property
    def text(self) -> str:
        """The C declaration; none of a constant of the kernel."""
        return f"const int32_t {self.name} = {self.value};" if self.value else "/* padding */"


@dataclass(frozen=True, slots=True)
class Span:
    """Output columns first .. end - 1, in tiles of `size` that have the same columns inside."""

    size: int
    first: int
    end: int
    skip: int               # columns in front of the first one inside
    columns: tuple[Columns, ...]
    taps: str               # C declarations of the weights
    lanes: tuple[Lane, ...]
    start: str = ""         # first and end as C text: behind the longest span, at a distance of where that ends, MIDDLE
    stop: str = ""

    @property
    def trips(self) -> int:
        """How many tiles."""
        return (self.end - self.first) // self.size

    @property
    def key(self) -> str:
        """Its tile among the spec's."""
        return f"at_{self.first}_of_{self.size}"


@dataclass(frozen=True, slots=True)
class Rows:
    """How rows of the input lie and are read: what decides which taps share a word of weights."""

    taps: int
    stride: int
    planar: bool
    widen: str              # the function that widens bytes 0 and 2
    single: bool = False    # one column and one tap a multiplication
    dilation: int = 1       # columns from a tap to the next

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of taps that outputs need, in order."""
        if self.single or (self.dilation > 1 and not self.planar):
            return [(j, j) for j in range(self.taps)]
        if self.planar:
            near = 2 // self.dilation       # so many taps on is the other column of a word; 0: at none
            whole = [(j, j + near) for j in range(self.taps - near) if j % (2 * near) < near] if near else []
            return whole + [(j, j) for j in range(self.taps) if not any(j in pair for pair in whole)]
        return sorted({pair for o in range(2) for _, _, pair in self.uses(o * self.stride)})

    @property
    def words(self) -> int:
        """Words of taps of a row of the window."""
        return -(-len(self.pairs) // (4 if self.single else 2))

    def uses(self, base: int) -> list[tuple[str, int, tuple[int, int]]]:
        """(function, word of columns, pair of taps) for an output whose first column is `base`."""
        columns = [base + j * self.dilation for j in range(self.taps)]
        if self.single:
            return [("f2c_mla", c, (j, j)) for j, c in enumerate(columns)]
        if self.dilation > 1:
            return [(f"f2c_smla{HALVES[c % 2]}b", c // 2, (j, j)) for j, c in enumerate(columns)]
        return uses(base, self.taps)

    def columns(self, size: int) -> int:
        """Columns from the first to the last one under a tile of so many outputs."""
        return (size - 1) * self.stride + (self.taps - 1) * self.dilation + 1

    def fill(self, zero: int) -> int:
        """A word of padding."""
        return zero if self.single else int(np.asarray([zero, zero], np.int16).view(np.int32)[0])


def uses(base: int, taps: int) -> list[tuple[str, int, tuple[int, int]]]:
    """(function, word of columns, pair of taps) for an output whose first column is `base`."""
    found, j = [], 0
    while j < taps:
        column = base + j
        if column % 2:
            found.append(("f2c_smlatb", column // 2, (j, j + 1)) if j + 1 < taps else ("f2c_smlatt", column // 2, (j - 1, j)))
            j += 1
        elif j + 1 < taps:
            found.append(("f2c_smlad", column // 2, (j, j + 1)))
            j += 2
        else:
            found.append(("f2c_smlabt", column // 2, (j - 1, j)))
            j += 1
    return found


@dataclass(frozen=True, slots=True)
class Form:
    """A function for one row of the result: all rows of the window in line, or any range of them in a loop."""

    name: str
    comment: str = ""
    masked: bool = False    # rows of padding are read from a table of its value, which all channels share
    ranged: bool = False    # they are left out
    several: bool = False   # a group has several outputs
    many: bool = False      # and several channels
    before: str = ""        # C text in front of its call
    after: str = ""         # and behind it
    spans: tuple[Span, ...] = ()

    @property
    def params(self) -> str:
        """Its further parameters."""
        return ", const int32_t *keep" if self.masked else ", int32_t ky_first, int32_t ky_end" if self.ranged else ""

    @property
    def args(self) -> str:
        """What it is called with for them."""
        return ", keep" if self.masked else ", ky_first, ky_end" if self.ranged else ""

    @property
    def limits(self) -> tuple[str, str]:
        """The rows of the window that it reads."""
        return ("ky_first", "ky_end") if self.ranged else ("0", "K_H")

    @property
    def channel(self) -> str:
        """C text of where a channel starts in a row."""
        first = "(oc / MULT)" if self.several else "oc"
        first += " * GROUP_C * X_SC" if self.many else " * X_SC"
        return f"({first}) & keep[ky]" if self.masked else first

    @property
    def further(self) -> str:
        """C text of how far behind that of an output the channel of the next one starts."""
        step = "((((oc + 1) % MULT) == 0) ? X_SC : 0)" if self.several else "X_SC"
        return f"{step} & keep[ky]" if self.masked else step


def forms(unrolled: bool, padded: bool, planar: bool, several: int, per: int) -> tuple[Form, ...]:
    """Of windows whose rows are computed in line or not; padded: some are not inside; several, per: outputs and channels of a
    group."""
    whole = Form("row", several=several > 1, many=per > 1)
    edge = replace(whole, name="edge", comment=", of rows ky_first .. ky_end - 1 of the window; the others are padding",
                   ranged=True)
    if not unrolled:
        return (replace(edge, name="row"),)
    if not padded:
        return (whole,)
    if planar:
        return (replace(whole, masked=True, comment="; rows with keep = 0 are the same for all channels"),)
    inner = "\n" + " " * 12
    return (replace(whole, before=f"if ((ky_first == 0) && (ky_end == K_H)) {{{inner}"),
            replace(edge, before=f"}} else {{{inner}", after=f"\n{inner[1:-4]}}}"))


def taps(rows: Rows, macs: Iterable[Mac]) -> str:
    """C declarations of the pairs of taps of row ky that products need, two widened from a word, or of single ones, four."""
    row = f"(ky * {rows.words})" if rows.words > 1 else "ky"

    def value(i: int) -> str:
        if rows.single:
            return f"f2c_byte(w[{row} + {1 + i // 4}], {i % 4})"
        return f"f2c_sxtb16{'_ror8' * (i % 2)}(w[{row} + {1 + i // 2}])"
    return ", ".join(f"b{i} = {value(i)}" for i in sorted({m.word for m in macs}))


def padding(rows: Rows) -> list[Mac]:
    """A row of the window that is padding: its taps times the padding's value."""
    if rows.planar and not rows.single:
        return [Mac("start", "f2c_smlad" if a != b else "f2c_smlabb", i) for i, (a, b) in enumerate(rows.pairs)]
    return [Mac("start", function, rows.pairs.index(pair)) for function, _, pair in rows.uses(0)]


def pack(w: np.ndarray, rows: Rows, bias: np.ndarray, multipliers: np.ndarray | None) -> np.ndarray:
    """One stream of int32: for each channel the start of its sums, its taps row by row, its multiplier.

    w: [channels, rows, taps] int8. Bytes 0 and 2 of a word are one pair, 1 and 3 the next; or each is a tap.
    """
    wide = w.astype(np.int64) & 0xFF
    if rows.single:
        order = list(range(rows.taps))
    else:
        pairs = [*rows.pairs, (-1, -1)][:2 * rows.words]
        order = [tap for (a, b), (c, d) in zip(pairs[0::2], pairs[1::2], strict=True) for tap in (a, c, b, d)]
    order += [-1] * (4 * rows.words - len(order))
    taps_of = np.concatenate([wide, np.zeros_like(wide[..., :1])], axis=-1)[..., order].reshape(*w.shape[:2], rows.words, 4)
    words = (taps_of << np.array([0, 8, 16, 24])).sum(axis=-1)
    columns = [bias[:, None], words.astype(np.uint32).view(np.int32).reshape(len(w), -1)]
    columns += [] if multipliers is None else [multipliers[:, None]]
    return np.concatenate(columns, axis=1).astype(np.int32).reshape(-1)


def tiles(width: int, sizes: tuple[int, ...] = SIZES) -> list[tuple[int, int]]:
    """(first output, size) of the tiles of a row, of the first of some sizes that divides it."""
    size = next((n for n in sizes if width % n == 0), sizes[0])
    found, at = [], 0
    while at < width:
        found.append((at, min(size, width - at)))
        at += found[-1][1]
    return found


def spans(names: dict[str, int], rows: Rows, fill: int, channel: str,
          sizes: tuple[int, ...] = SIZES) -> tuple[tuple[Span, ...], dict[str, Tile]]:
    """The tiles of a row, equal neighbours together, and their stores; `names` are the constants of the window.

    channel: C text of what the finishing function calls its index or multiplier.
    """
    stride, left, width = rows.stride, names["PAD_LEFT"], names["IN_W"]
    found, stores = list[Span](), dict[str, Tile]()
    for first, size in tiles(names["OUT_W"], sizes):
        count = rows.columns(size)
        inside = [0 <= first * stride - left + i < width for i in range(count)]
        skip = inside.index(True) if True in inside else 0
        in_words = rows.planar and not rows.single
        columns = tuple(_words(inside, skip, size, rows) if in_words else _columns(inside, skip, size, rows, fill))
        if found and (found[-1].size, found[-1].columns) == (size, columns):
            found[-1] = replace(found[-1], end=first + size)
            continue
        lanes = tuple(_lane(o, names["Y_SC"], channel) for o in range(size))
        found.append(Span(size, first, first + size, skip, columns, taps(rows, (m for c in columns for m in c.macs)), lanes))
        stores[found[-1].key] = Tile(range(size), ((Block(0, 1, 1), lanes),))
    return _named(found), stores


def middle(found: Sequence[Span]) -> Span:
    """The span of most tiles; of several, one behind the border."""
    return max(found, key=lambda s: (s.trips, s.first > 0, -s.first))


def _named(found: list[Span]) -> tuple[Span, ...]:
    """Spans with their limits as C text, such that rows of other widths have the same text."""
    longest = middle(found)
    simple = len(found) < 3 and longest.trips == 1

    def text(at: int) -> str:
        if simple or at <= longest.first:
            return str(at)
        return f"MIDDLE + {at - longest.end}" if at > longest.end else "MIDDLE"
    return tuple(replace(s, start=text(s.first), stop=text(s.end)) for s in found)


def effort(found: tuple[Span, ...], words: int, window: int, inside: int) -> dict[str, int]:
    """Of one channel. words: of taps in a row of a window; window: rows of all windows; inside: those that are no padding."""
    trips = [(s.trips, s) for s in found]
    height = sum(n for n, _ in trips)
    return {"load": inside * sum(n * len(s.columns) for n, s in trips),
            "multiply": inside * sum(n * len(c.macs) for n, s in trips for c in s.columns) + (window - inside) * words,
            "tile": window * height, "unpack": inside * words}


def _lane(o: int, channel_step: int, channel: str) -> Lane:
    at = ("at", "at + Y_SW")[o] if o < 2 else f"at + ({o} * Y_SW)"
    return Lane(f"acc{o}", o, 0, channel, Store(f"acc{o}", channel, tiling.index(at, "oc", channel_step)))


def _columns(inside: list[bool], skip: int, size: int, rows: Rows, fill: int) -> list[Columns]:
    """Columns of a tile in pairs, each with the products that it is in."""
    def value(i: int) -> str:
        return f"px[{i - skip} * X_SW]" if inside[i] else str(fill)
    macs: dict[int, list[Mac]] = {}
    for o in range(size):
        for function, word, pair in rows.uses(o * rows.stride):
            macs.setdefault(word, []).append(Mac(f"acc{o}", function, rows.pairs.index(pair)))

    def text(word: int) -> str:
        if rows.single:
            return value(word)
        return f"f2c_pair({value(2 * word)}, {value(2 * word + 1)})" if 2 * word + 1 < len(inside) else value(2 * word)
    return [Columns(f"p{word}", text(word), tuple(macs[word])) for word in sorted(macs)]


def _words(inside: list[bool], skip: int, size: int, rows: Rows) -> list[Columns]:
    """Columns of a tile of a planar row: words of four where they are all inside."""
    end = skip + sum(inside)
    loads = list(range(skip, end - 3, 2 if rows.stride == 1 else 4))
    outputs = {f"acc{o}": {o * rows.stride + tap * rows.dilation: tap for tap in range(rows.taps)} for o in range(size)}
    return products(outputs, inside, skip, loads, rows)


def products(outputs: dict[str, dict[int, int]], inside: list[bool], skip: int, loads: list[int], rows: Rows) -> list[Columns]:
    """Columns of a planar row, each with the products that it is in: words of four from `loads` on, then single ones.

    outputs: of each sum, which column is under which tap. inside: whether columns are in the row, the first such one being
    number `skip`; else they have the padding's value.
    """
    pairs = [c for load in loads for c in (load, load + 1)]      # the first columns of pairs (c, c + 2)
    alone = [c for c in range(len(inside)) if inside[c] and not any(c in (p, p + 2) for p in pairs)]
    macs: dict[str, list[Mac]] = {}
    for acc, under in outputs.items():
        columns = dict(under)
        for p in pairs:
            taps = (columns.get(p, -1), columns.get(p + 2, -1))
            if taps in rows.pairs:
                macs.setdefault(f"p{p}", []).append(Mac(acc, "f2c_smlad", rows.pairs.index(taps)))
                del columns[p], columns[p + 2]
        for c, tap in columns.items():
            word = next(i for i, pair in enumerate(rows.pairs) if tap in pair)
            other = HALVES[rows.pairs[word].index(tap)]
            p = next((p for p in pairs if c in (p, p + 2)), c)
            name = f"p{p}" if inside[c] else "FILLS"
            macs.setdefault(name, []).append(Mac(acc, f"f2c_smla{HALVES[p != c] if inside[c] else 'b'}{other}", word))
    found = [Columns("FILLS", "", tuple(macs["FILLS"]))] if "FILLS" in macs else []
    for load in loads:
        if not macs.keys() & {f"p{load}", f"p{load + 1}"}:
            continue
        found.append(Columns(f"v{load}", f"f2c_load4(&px[{load - skip}])", ()))
        for p, text in ((load, f"{rows.widen}(v{load})"), (load + 1, f"{rows.widen}_ror8(v{load})")):
            found += [Columns(f"p{p}", text, tuple(macs[f"p{p}"]))] if f"p{p}" in macs else []
    return found + [Columns(f"p{c}", f"px[{c - skip}]", tuple(macs[f"p{c}"])) for c in alone if f"p{c}" in macs]
