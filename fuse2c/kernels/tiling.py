"""The matrix core that convolution, pointwise convolution and dense layers share: tiles of pixels x outputs.

Weights are packed offline in blocks of outputs, [block][depth][outputs of the block], so that the inner loop reads
one stream. The zero point of the input is folded into the bias.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fuse2c import quant
from fuse2c.errors import Overflow
from fuse2c.ir.types import DType, Quant, TensorType
from fuse2c.op import EFFORT, Call, Scalar
from fuse2c.quant import Requant, accumulator_bound


@dataclass(frozen=True, slots=True)
class Store:
    """One finished element: its value, its output channel and its index in y, as C text."""

    value: str
    channel: str
    at: str
    row: str = "_row"   # what ends the names of pointers to the rows of the result and of further operands


@dataclass(frozen=True, slots=True)
class Lane:
    """One accumulator of a tile: pixel p times output `out` of the block."""

    acc: str
    pixel: int
    out: int
    channel: str
    store: Store
    upper: bool = False     # the sum is finished as it was collected, times 256
    text: str = ""          # the statement that finishes and stores it, filled in by the code generator


@dataclass(frozen=True, slots=True)
class Pass:
    """A call of a tile's function, as C text: the arguments in front, and those that say where its results go."""

    first: str = ""
    at: str = "ox * Y_SW"


@dataclass(frozen=True, slots=True)
class Block:
    """Outputs first..end are computed `size` at a time."""

    first: int
    end: int
    size: int

    @property
    def outs(self) -> range:
        """The outputs inside one block."""
        return range(self.size)

    @property
    def words(self) -> int:
        """Weight words of one step, where a word serves two outputs."""
        return (self.size + 1) // 2

    @property
    def pairs(self) -> range:
        """Those words."""
        return range(self.words)

    @property
    def odd(self) -> int:
        """Outputs with an odd number in the block."""
        return self.size // 2


@dataclass(frozen=True, slots=True)
class Tile:
    """A number of pixels, and for each block of outputs the accumulators."""

    pixels: range
    blocks: tuple[tuple[Block, tuple[Lane, ...]], ...]


def blocks(outputs: int, size: int) -> tuple[Block, ...]:
    """Whole blocks of `size` outputs, then one smaller block with the rest."""
    whole = outputs // size * size
    parts = [Block(0, whole, size)] if whole else []
    return tuple(parts + ([Block(whole, outputs, outputs - whole)] if outputs > whole else []))


def effort(strips: int, rows: int, height: int, depth: int, parts: Iterable[tuple[int, Block, int, int]]) -> dict[str, int]:
    """What tiles of reals do in so many rows of a result: sums of `height` rows of `depth` elements.

    strips: tiles of a row. parts: of them so many, and for each outputs in blocks, with the products and the loads that a block
    takes for an element of all its pixels.
    """
    found = dict.fromkeys(EFFORT, 0)
    for tiles, b, products, loads in parts:
        blocks = rows * tiles * (b.end - b.first) // b.size
        found["multiply"] += blocks * height * depth * products
        found["load"] += blocks * height * depth * loads
        found["tile"] += blocks
        found["line"] += blocks * height
    found["line"] += rows * strips * height
    return found


def index(base: str, channel: str, stride: int) -> str:
    """The index of a channel of the pixel at `base`."""
    inner = channel if " " not in channel else f"({channel})"
    return f"{base} + {inner if stride == 1 else f'({inner} * {stride})'}"


def lanes(pixels: int, parts: tuple[Block, ...], channel: str, stride: int) -> Tile:
    """A tile of `pixels` pixels; `channel` is the output channel of {oc}, `stride` that of neighbouring channels of y."""
    made = []
    for block in parts:
        row = []
        for o in block.outs:
            oc = channel.replace("{oc}", f"oc + {o}" if o else "oc")
            for p in range(pixels):
                acc = f"acc{p}{o}"
                row.append(Lane(acc, p, o, oc, Store(acc, oc, index(f"at{p}", oc, stride))))
        made.append((block, tuple(row)))
    return Tile(range(pixels), tuple(made))


def tile(pixels: int, parts: tuple[Block, ...], channel: str, stride: int) -> dict[str, Tile]:
    """Tiles of `pixels` pixels ("full") and of one pixel ("one"), see `lanes`."""
    return {"full": lanes(pixels, parts, channel, stride), "one": lanes(1, parts, channel, stride)}


def pack(w: np.ndarray, size: int) -> np.ndarray:
    """[outputs, depth] -> one stream, in the order in which the tiles read it."""
    return np.concatenate([w[first:first + b.size].T.reshape(-1)
                           for b in blocks(w.shape[0], size) for first in range(b.first, b.end, b.size)])


def centred(w: np.ndarray, q: Quant, channel_axis: int) -> np.ndarray:
    """Integer weights minus their zero point, in the smallest of int8 and int16 that holds them."""
    shape = [1] * w.ndim
    if len(q.zero) > 1:
        shape[channel_axis] = -1
    wide = w.astype(np.int32) - np.asarray(q.zero, np.int32).reshape(shape)
    fits = wide.size == 0 or (wide.min() >= -128 and wide.max() <= 127)
    return wide.astype(np.int8 if fits else np.int16)


def bias_with_zero(w: np.ndarray, bias: np.ndarray | None, zero: int) -> np.ndarray:
    """bias - zero * sum(w) for w [outputs, depth]: the sum then runs over stored values; int64."""
    own = np.zeros(w.shape[0], np.int64) if bias is None else bias.astype(np.int64)
    return own - zero * w.astype(np.int64).sum(axis=1)


def check_accumulator(c: Call, w: np.ndarray, bias: np.ndarray, x: TensorType, zero: int = 0) -> None:
    """Raise Overflow unless no input at all can push the int32 sum of (x - zero) * w out of range."""
    low, high = x.dtype.range
    bound = accumulator_bound(w, bias, low - zero, high - zero)
    worst = int(bound.argmax())
    if bound[worst] > 2 ** 31 - 1:
        raise Overflow(f"output channel {worst} can reach {bound[worst]}, an int32 accumulator holds {2 ** 31 - 1}",
                       node=c.node.name, op=c.node.op, hint="use a smaller kernel, or fewer input channels a layer")


def requant(c: Call, w_quant: Quant, w: np.ndarray, bias: np.ndarray | None) -> Requant:
    """The requantisation from s_x * s_w accumulators to the output, for centred weights [O, depth]."""
    x, y = c.quant(0), c.y_quant
    low, high = c.type(0).dtype.range
    own = np.zeros(w.shape[0], np.int64) if bias is None else bias.astype(np.int64)
    bound = accumulator_bound(w, own, low - x.zero[0], high - x.zero[0])
    reach = (int(bound.max()),) if len(w_quant.scale) == 1 else tuple(map(int, bound))
    return quant.requant(c.requant, x.scale[0], w_quant.scale, y.scale[0], y.zero[0], c.y[0].dtype.range, reach)


def finish(r: Requant, channel: str = "oc", value: str = "{a}", mult: str = "", words: str = "", bits: int = 0,
           alike: bool = False) -> Scalar:
    """The C form of a requantisation of a value, {a} or another; its clamp is left open: what is fused behind it narrows it.

    words: four such values, {a} by default; mult: C text of the multiplier, if it is not to be read from a table.
    bits: the value is 2**bits as large; alike: four values share their channel.
    """
    index = f"[{channel}]" if len(r.scale) > 1 else "[0]"
    limits, words = (r.low, r.high), words or value * (value == "{a}")

    def many(kind: str, name: str) -> str:
        """The factors of four channels."""
        return f"f2c_{kind}_same({{t_{name}}}{index})" if alike or len(r.scale) == 1 else f"f2c_{kind}_at(&{{t_{name}}}{index})"
    if r.mode == "float":
        text = f"f2c_requant_float({value}, {{t_scale}}{index}, {r.low - r.zero}, {r.high - r.zero}) + {r.zero}"
        four = f"f2c_words_requant_float({words}, {many('reals', 'scale')}, {r.zero})" if words else ""
        scale = np.ldexp(np.asarray(r.single, np.float32), -bits)
        return Scalar(text.replace("+ -", "- "), {"scale": scale}, limits=limits, words=four)
    table, mult = ({}, mult) if mult else ({"mult": r.multipliers}, f"{{t_mult}}{index}")
    shift = r.shift + bits
    if shift >= 33:
        j = shift - 32
        args = f"({value}, {mult}, {(1 << (j - 1)) + (r.zero << j)}, {j})"
        limited = {t.range: f"f2c_requant_{name}{args}" for t, name in ((DType.I8, "s8"), (DType.U8, "u8"))}
        if not words or not table:
            return Scalar(f"f2c_requant{args}", table, limits=limits, limited=limited)
        four = many("words", "mult")
        return Scalar(f"f2c_requant{args}", table, limits=limits, limited=limited,
                      words=f"f2c_words_requant({words}, {four}, {(1 << (j - 1)) + (r.zero << j)}, {j})",
                      shifted=(f"f2c_words_scale({words}, {four}, {r.zero << j})", j) if j <= 16 else ("", 0))
    text = f"f2c_requant_wide({value}, {mult}, {shift}, {r.zero}, {r.low}, {r.high})"
    return Scalar(text, table, limits=limits)
