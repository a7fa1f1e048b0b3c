"""Bilinear interpolation of stored values: rows, then columns, weighed by whole numbers; what Resize becomes between Q and DQ.

An output is the mean of so many elements as its weights sum up to: requantised as an average is (`_average`).
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import copy, copy_rows, tiling, windowing
from fuse2c.kernels.tiling import Block, Lane, Store, Tile
from fuse2c.op import Call, Kernel, Op, Spec, Work
from fuse2c.ops._average import finish, finished, halvings

MOST = 256              # sum of weights: with them 255 stays below 2**16
ROUND = 4               # channels of two words
FIELDS, FLIP = 0x00010001, 0x80808080


@dataclass(frozen=True, slots=True)
class Lines:
    """For every position along an axis two inputs and their weights, which sum up to `whole`."""

    at: tuple[tuple[int, int], ...]
    weights: tuple[tuple[int, int], ...]
    whole: int


@dataclass(frozen=True, slots=True)
class Attrs:
    """How rows and columns are interpolated."""

    rows: Lines
    columns: Lines

    @property
    def whole(self) -> int:
        """What all four weights of an output sum up to."""
        return self.rows.whole * self.columns.whole


def infer(c: Call) -> list[TensorType]:
    """[N, C, rows, columns]."""
    x, a = c.type(0), c.attrs
    return [TensorType(x.dtype, (*x.shape[:2], len(a.rows.at), len(a.columns.at)))]


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """The exact sums, requantised."""
    sums = x.astype(np.int64) - c.quant(0).zero[0]
    for axis, lines in ((2, c.attrs.rows), (3, c.attrs.columns)):
        at, weights = np.asarray(lines.at), np.asarray(lines.weights)
        column = [-1 if i == axis else 1 for i in range(sums.ndim)]
        sums = np.asarray(sum(np.take(sums, at[:, i], axis) * weights[:, i].reshape(column) for i in range(2)))
    return [finished(c, [c.attrs.whole], sums, c.attrs.whole).astype(c.y[0].dtype.numpy)]


def work(c: Call) -> Work:
    """Four products an element."""
    return Work(macs=4 * c.y[0].count)


def base_spec(c: Call, zero: int, step: int) -> Spec:
    """What both kernels have. zero: what an element has too much; step: between columns of what is read."""
    x, y, a = c.type(0), c.y[0], c.attrs
    tables = {"iy": copy.smallest(np.asarray(a.rows.at)), "wy": copy.smallest(np.asarray(a.rows.weights)),
              "ix": copy.smallest(np.asarray(a.columns.at) * step), "wx": copy.smallest(np.asarray(a.columns.weights))}
    names = windowing.element_strides("X", x) | windowing.element_strides("Y", y) | {
        "OUT_W": y.shape[3], "OUT_C": y.shape[1], "ZERO": zero * a.whole}
    each = np.sort(np.asarray(a.rows.at), axis=1)
    ordered = copy_rows.in_rows(x, 2) and (np.diff(each, axis=0) >= 0).all()
    return Spec(names, tables, finish=finish(c, [a.whole]), rows=y.shape[2], images=x.shape[0], along=windowing.scattered(c),
                reads={0: (tuple(each[:, 0].tolist()), tuple(each[:, 1].tolist()))} if ordered else {}, channel="n")


def spec(c: Call) -> Spec:
    """Element by element, whatever the layout."""
    s = base_spec(c, c.quant(0).zero[0], c.type(0).strides[3])
    return replace(s, flags={"store": Store("acc", "", tiling.index("at", "c", c.y[0].strides[1]))})


def in_words(c: Call) -> str:
    """Channels next to each other, by fours, and pixels."""
    x, y = c.type(0), c.y[0]
    if x.strides[1] != 1 or y.strides[1] != 1 or x.strides[3] != x.shape[1]:
        return "the channels of a row are not adjacent in memory"
    return "the number of channels is no multiple of four" if x.shape[1] % ROUND else ""


def words_spec(c: Call) -> Spec:
    """Two elements in a word, 16 bits each and without a sign: rows are weighed once for all columns."""
    x, y, a = c.type(0), c.y[0], c.attrs
    offset = 128 if x.dtype == DType.I8 else 0
    zero = c.quant(0).zero[0] + offset
    s = base_spec(c, zero, x.shape[1] // 2)
    words = x.shape[1] // ROUND
    at = [f"at + (4 * i){f' + {i}' if i else ''}" for i in range(ROUND)]
    lanes = tuple(Lane(f"acc{i}", 0, i, "", Store(f"acc{i}", "", at[i])) for i in range(ROUND))
    k = halvings(c, [a.whole])
    same = x.quant == y.quant and x.dtype == y.dtype and (c.group is None or len(c.group.node.parts) == 1) and k > 0
    names = {**s.constants, "WORDS": words, "STRIP": words * x.shape[3], "SHIFT": k,
             "HALF": ((1 << max(k - 1, 0)) - 1) * FIELDS}
    return replace(s, constants=names, scratch=8 * words * x.shape[3], flags={
        "tile": {"fours": Tile(range(1), ((Block(0, 1, 1), lanes),))}, "scratch_ctype": "uint32_t", "same": same,
        "flip": f" ^ 0x{FLIP:08X}u" if offset else "", "odd": f"0x{FIELDS:08X}u" if zero % 2 else "0u"})


OP = Op(name="Blend", infer=infer, reference=reference, work=work, layout="spatial", anchor=True,
        kernels=(Kernel("blend_words", words_spec, when=in_words), Kernel("blend", spec)))
