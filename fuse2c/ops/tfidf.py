"""TfIdfVectorizer on integers: how often each n-gram of a fixed pool occurs, counted, weighted, or both."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import copy
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work
from fuse2c.ops import _onnx
from fuse2c.ops.shapes import shape_of

MODES = ("TF", "IDF", "TFIDF")


@dataclass(frozen=True, slots=True)
class Gram:
    """One n-gram of the pool that counts, and where it is counted."""

    items: tuple[int, ...]
    column: int


def from_onnx(src: Source) -> None:
    """TfIdfVectorizer; the pool is a list of all 1-grams, 2-grams, ... one after the other."""
    if "pool_strings" in src.attrs:
        raise src.refuse("a pool of strings", attr="pool_strings")
    if src.attrs["mode"] not in MODES or len(shape_of(src)) not in (1, 2):
        raise src.refuse(f"mode {src.attrs['mode']!r} of the shape {shape_of(src)}", attr="mode")
    src.node("TfIdfVectorizer", _onnx.attrs("TfIdfVectorizer", 9, src.attrs))


def grams(c: Call) -> list[Gram]:
    """The n-grams whose length is asked for."""
    a = c.attrs
    pool, starts, columns = a.get("pool_int64s"), a.get("ngram_counts"), a.get("ngram_indexes")
    found, number = [], 0
    for length, (first, end) in enumerate(zip(starts, (*starts[1:], len(pool)), strict=True), 1):
        for at in range(first, end - length + 1, length):
            if a.get("min_gram_length") <= length <= a.get("max_gram_length"):
                found.append(Gram(tuple(pool[at:at + length]), columns[number]))
            number += 1
    return found


def infer(c: Call) -> list[TensorType]:
    """A column for each index."""
    x, columns = c.type(0).shape, c.attrs.get("ngram_indexes")
    weights = c.attrs.get("weights")
    if not columns or min(columns) < 0 or (weights and len(weights) <= max(columns)):
        raise ShapeError(f"columns {columns} with {len(weights or ())} weights", node=c.node.name, op=c.node.op)
    return [TensorType(DType.F32, (*x[:-1], max(columns) + 1))]


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """onnx's own."""
    return [_onnx.run(c.attrs, [x])[0].astype(np.float32)]


def spec(c: Call) -> Spec:
    """Tables of the pool: items, and for each n-gram its first item, length, column and weight."""
    x, y, a, found = c.type(0), c.y[0], c.attrs, grams(c)
    weights = a.get("weights")
    lengths = [len(g.items) for g in found]
    firsts = np.cumsum([0, *lengths])[:-1]
    tables = {"items": copy.smallest(np.array([i for g in found for i in g.items], np.int64))}
    for name, values in (("first", firsts), ("length", lengths), ("column", [g.column for g in found])):
        tables[name] = copy.smallest(np.asarray(values, np.int64))
    if weights and a.get("mode") != "TF":
        tables["weight"] = np.asarray(weights, np.float32)[:y.shape[-1]]
    length = x.shape[-1]
    return Spec({"ROWS": x.count // length, "LENGTH": length, "COLUMNS": y.shape[-1], "GRAMS": len(found),
                 "LONGEST": max(lengths, default=0), "SKIPS": a.get("max_skip_count") + 1}, tables, by_rows=False,
                flags={"once": a.get("mode") == "IDF", "weighted": "weight" in tables})


def work(c: Call) -> Work:
    """Every n-gram at every place."""
    return Work(alu=4 * c.type(0).count * max(len(grams(c)), 1) * (c.attrs.get("max_skip_count") + 1))


OP = Op(name="TfIdfVectorizer", onnx={"TfIdfVectorizer": from_onnx}, infer=infer, reference=reference, work=work,
        layout="row-major", kernels=(Kernel("tfidf", spec),))
