"""Exact integer Winograd F(2x2, 3x3): 16 products for four outputs of a 3x3 window, where there are 36.

y = A'[(G g G') * (B' d B)]A for 4x4 inputs d and weights g, with

    B' =  1  0 -1  0      G =  1    0    0       A' =  1  1  1  0
          0  1  1  0          1/2  1/2  1/2            0  1 -1 -1
          0 -1  1  0          1/2 -1/2  1/2
          0  1  0 -1           0    0    1

The weights are transformed offline, to 32 bytes for each 9. 2 G has integers only, so sums are four times those of the plain
convolution; requantisation takes that into account. Halfwords hold transformed inputs (at most four bytes added) and weights
(at most 9 * 128). Sums are modulo 2^32: only the last one has to fit, and that is proved.

A strip is up to four 2x2 tiles side by side. Of each column of 4x4 products p0 .. p3 three sums are kept, one behind the other
in the same accumulators: one = z + p1, upper = one + p2 + p0 and all = one + p2 + p3. They are the upper output's column, and
2 one - all = z + p1 - p2 - p3, the lower one's; z is the bias in column 1 and 0 in the others.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuse2c.kernels import dsp, tiling
from fuse2c.kernels.dsp import Finish, Run
from fuse2c.kernels.dsp_widen import Column, Move, pairs
from fuse2c.kernels.tiling import Lane, Store, Tile
from fuse2c.op import Call, Spec
from fuse2c.quant import SHIFT_MAX, Requant, accumulator_bound

G2 = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
ROWS = (1, 2, 0, 3)     # the order in which the products of a column are summed
BITS = 2                # sums are 2**BITS as large
FLAT, MOST = 16, 8      # steps up to which there is no loop, and of one trip of a loop
SLOTS = 16              # sums kept of a tile and output: of 4 columns, one for each of ROWS


@dataclass(frozen=True, slots=True)
class Output(Lane):
    """One of the four outputs of a tile: C lines in front of it, and what is around it where it need not exist."""

    before: tuple[str, ...] = ()
    opening: str = ""
    closing: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A row of B' d: the rows of a strip that it combines, with their function, and where it goes in [4, depth, tiles]."""

    name: str
    first: int
    second: int
    slot: int


def is_3x3(c: Call) -> str:
    """Windows of 3x3 that move by one over at least two rows and columns."""
    window = c.attrs.window
    if window.kernel != (3, 3) or window.strides != (1, 1) or window.dilations != (1, 1):
        return "no 3x3 window that moves by one"
    return "a single row or column" if min(c.y[0].shape[2:]) < 2 else ""


def why_not(c: Call, w: np.ndarray, bias: np.ndarray, r: Requant) -> str:
    """Why sums four times as large do not do, for centred int8 weights and a folded bias; empty if they do."""
    if r.shift + BITS > SHIFT_MAX:
        return "so small a scale leaves no bits for sums four times as large"
    worst = int(accumulator_bound(w, bias, *c.type(0).dtype.range).max()) << BITS
    return f"four times its sums can reach {worst}, beyond int32" if worst > 2 ** 31 - 1 else ""


def transformed(w: np.ndarray) -> np.ndarray:
    """[outputs, 3 * 3 * channels] -> int16 [outputs, 4 (column), 4 (row), channels]: 4 G g G'."""
    g = w.reshape(w.shape[0], 3, 3, -1).astype(np.int64)
    return np.einsum("ia,oabc,jb->ojic", G2, g, G2).astype(np.int16)


def pack(w: np.ndarray, bias: np.ndarray, multipliers: np.ndarray | None) -> np.ndarray:
    """One stream of int32: for each pair of outputs, for each column the starts, and words depth by depth; multipliers.

    w: [outputs, 9 * channels], channels a multiple of four.
    """
    order = np.asarray([k for pair in pairs(w.shape[1] // 9) for k in pair])
    u = transformed(w)[:, :, ROWS, :][..., order].astype(np.int64) & 0xFFFF
    words = u[..., 0::2] | u[..., 1::2] << 16
    start = np.zeros((*words.shape[:2], 1), np.int64)
    start[:, 1, 0] = bias.astype(np.int64) << BITS
    stream = np.concatenate([start, words.reshape(*words.shape[:2], -1)], axis=2)
    parts = []
    for first in range(0, w.shape[0], 2):
        both = stream[first:first + 2]
        both = both if len(both) == 2 else np.concatenate([both, np.zeros_like(both)])
        parts += [np.moveaxis(both, 0, -1).reshape(-1)]
        parts += [] if multipliers is None else [multipliers[first:first + 2].astype(np.int64)]
    return np.concatenate(parts).astype(np.uint32).view(np.int32)


def columns(tiles: int, words: int, pixel: int) -> tuple[Column, ...]:
    """The columns of a strip, `pixel` elements apart; with its last column a tile is turned, four depths at a time."""
    found = []
    for c in range(2 * tiles + 2):
        moves: list[Move] = []
        t = (c - 3) // 2
        if c >= 3 and c % 2:
            for half, name in enumerate(("low", "high")):
                a, b, d, e = (f"{name}{2 * t + k}" for k in range(4))
                texts = (f"f2c_ssub16({a}, {d})", f"f2c_sadd16({b}, {d})", f"f2c_ssub16({d}, {b})", f"f2c_ssub16({b}, {e})")
                moves += [Move((j * 4 * words + half) * tiles + t, text) for j, text in enumerate(texts)]
        found.append(Column(c, str(c * pixel), tuple(moves)))
    return tuple(found)


def tile(tiles: int, outputs: int, y: tuple[int, int], odd: tuple[bool, bool], end: Finish) -> Tile:
    """The outputs of a strip; y: distance of neighbouring channels and pixels of the result; odd: its height and width."""
    made = []
    for b in tiling.blocks(outputs, 2):
        row: list[Lane] = []
        for o in b.outs:
            oc = f"oc + {o}" if o else "oc"
            channel = f"mult{o}" if end.multipliers is not None else end.value(o, oc, 0)
            for p, value in enumerate(_sums(o)):
                below, right = divmod(p, 2)
                guards = [name for name, there in (("below", below and odd[0]), ("right", right and odd[1])) if there]
                at = f"at + {y[1]}" if right else "at"
                store = Store(value, channel, tiling.index(at, oc, y[0]), "_next" if below else "_row")
                row.append(Output(f"y{p}{o}", p, o, oc, store, before=() if p else _kept(tiles, o),
                                  opening=f"if ({' && '.join(guards)}) {{ " * bool(guards), closing=" }" * bool(guards)))
        made.append((b, tuple(row)))
    return Tile(range(tiles), tuple(made))


def _kept(tiles: int, o: int) -> tuple[str, ...]:
    """C lines that load the sums of an output of a tile."""
    def sum_at(column: int, slot: int) -> str:
        """One of the three of a column."""
        return f"(uint32_t)m[{(4 * column + slot) * 2 * tiles + o}]"
    return (*(f"const uint32_t u{j}{o} = {sum_at(j, 2)};" for j in range(4)),
            *(f"const uint32_t l{j}{o} = (2u * {sum_at(j, 0)}) - {sum_at(j, 3)};" for j in range(4)))


def _sums(o: int) -> tuple[str, ...]:
    """The four outputs of a tile."""
    return tuple(f"(int32_t)({text})" for n in "ul" for text in (
        f"{n}0{o} + {n}1{o} + {n}2{o}", f"{n}1{o} - {n}2{o} - {n}3{o}"))


def _restored(tiles: int) -> tuple[str, ...]:
    """C lines that make the accumulators of a strip what they were two sums before."""
    return tuple(f"acc{p}{o} = sums[{2 * p + o - 4 * tiles}];" for p in range(tiles) for o in range(2))


def spec(base: Spec, c: Call, w: np.ndarray, bias: np.ndarray, r: Requant) -> Spec:
    """base: what convolutions have in common; w: [outputs, 9 * channels] centred; bias with the zero point folded in."""
    x, names, zero = c.type(0), base.constants, c.quant(0).zero[0]
    channels, outputs = x.shape[1], c.y[0].shape[1]
    down, across = -(-names["OUT_H"] // 2), -(-names["OUT_W"] // 2)      # tiles
    end, found, pixel = dsp.finish(c, r, BITS), dsp.runs(across), -(-channels // 4) * 4
    words, largest, pairs = pixel // 2, found[0].size, -(-outputs // 2)
    padded = np.pad(w.reshape(outputs, 9, channels), ((0, 0), (0, 0), (0, pixel - channels))).reshape(outputs, -1)
    turned, sums = 16 * words * largest, 2 * SLOTS * largest        # words of scratch; behind them the gathered rows
    own = {"GROUP_OUT": outputs, "DEPTH": w.shape[1], "PAIR_MACS": 16 * across * channels * outputs, "PIXEL": pixel,
           "FILL": zero, "FILLS": int(np.full(4, zero).astype(x.dtype.numpy).view(np.int32)[0]),
           "SUMS": turned, "EDGE": turned + sums, "ADJACENT": int(_by_words(c) and names["X_SW"] == channels)}
    strips = sum((run.end - run.first) // run.size for run in found)
    return replace(
        base, constants={**names, **own}, tables={"w": pack(padded, bias, end.multipliers)}, finish=end.scalar,
        channel=end.channel, scratch=4 * (turned + sums) + 4 * under(largest) * pixel, together=2,
        macs=x.shape[0] * down * own["PAIR_MACS"], flags=flags(c, names, found, words, end),
        effort={"load": down * across * pixel, "tile": down * strips * pairs, "multiply": down * across * 32 * words * pairs})


def _by_words(c: Call) -> bool:
    """Whether the elements of a pixel are adjacent, and fill words."""
    return c.type(0).strides[1] == 1 and c.type(0).shape[1] % 4 == 0


def under(tiles: int) -> int:
    """Columns of the input under a strip."""
    return 2 * tiles + 2


def flags(c: Call, names: Mapping[str, int], runs: tuple[Run, ...], words: int, end: Finish) -> dict[str, Any]:
    """Values for the templates; words: of a pixel's depth."""
    odd, y = (names["OUT_H"] % 2 == 1, names["OUT_W"] % 2 == 1), (names["Y_SC"], names["Y_SW"])
    steps = words if words <= FLAT else max(n for n in range(2, MOST + 1) if words % n == 0)
    sizes = {run.key: run.size for run in runs}
    return {
        "runs": runs, "tile": {key: tile(n, names["OUT_C"], y, odd, end) for key, n in sizes.items()},
        "strips": {key: columns(n, words, 2 * words) for key, n in sizes.items()},
        "width": {key: under(n) for key, n in sizes.items()}, "turned": {key: 2 * n for key, n in sizes.items()},
        "turns": {key: tuple(replace(t, slot=t.slot * words * n) for t in TURNS) for key, n in sizes.items()},
        "restored": {key: _restored(n) for key, n in sizes.items()},
        "pairs": {run.key: tuple(run.pixels[i:i + 2] for i in range(0, run.size, 2)) for run in runs},
        "widen": dsp.widening(c.type(0)), "by_words": _by_words(c), "column_words": 4 * words, "quads": words // 2,
        "steps": steps, "trips": words // steps, "step": 2 * names["Y_SW"], "scratch_ctype": "int32_t",
        "multipliers": end.multipliers is not None, "single": end.single, "odd_width": odd[1],
        "ends_params": ", int32_t columns" * odd[1] + ", int32_t below" * odd[0],
        "ends_args": ", OUT_W - (2 * ox)" * odd[1] + ", (oy + 1) < OUT_H" * odd[0]}


TURNS = (Turn("difference", 0, 2, ROWS.index(0)), Turn("sum", 1, 2, ROWS.index(1)),
         Turn("difference", 2, 1, ROWS.index(2)), Turn("difference", 1, 3, ROWS.index(3)))
