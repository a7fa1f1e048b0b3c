"""Einsum: one loop nest over the output and, inside it, one over the labels that are summed.

Every operand is addressed by strides, so a transposition, a diagonal or a broadcast costs nothing.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import COMPUTE, TensorType
from fuse2c.kernels import nesting
from fuse2c.kernels.nesting import Access
from fuse2c.kernels.scalars import compute, unsigned
from fuse2c.kernels.tiling import Store
from fuse2c.op import Call, Kernel, Op, Scalar, Source, Spec, Work, port_name

PORTS = ("x",)
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Attrs:
    """Labels are numbers: those of each operand's axes, those of the output, and the extent of each label."""

    terms: tuple[tuple[int, ...], ...]
    out: tuple[int, ...]
    extents: tuple[int, ...]


def from_onnx(src: Source) -> None:
    """Einsum."""
    shapes = [src.graph.type(t).shape for t in src.inputs]
    src.node("Einsum", parse(src, src.attrs["equation"].replace(" ", ""), shapes))


def parse(src: Source, equation: str, shapes: list[tuple[int, ...]]) -> Attrs:
    """The labels of an equation; an ellipsis stands for labels of its own, aligned at the last."""
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(shapes):
        raise src.refuse(f"{len(texts)} terms in {equation!r} for {len(shapes)} operands", attr="equation")
    hidden = max((len(s) - len(t.replace("...", "")) for t, s in zip(texts, shapes, strict=True) if "..." in t),
                 default=0)
    dots = [f"...{i}" for i in range(hidden)]
    terms = [_labels(src, t, len(s), dots) for t, s in zip(texts, shapes, strict=True)]
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, n in zip(term, shape, strict=True):
            if extents.setdefault(label, n) != n and 1 not in (n, extents[label]):
                raise ShapeError(f"the label {label!r} of {equation!r} has the extents {extents[label]} and {n}",
                                 node=src.name, op=src.op)
            extents[label] = max(extents[label], n)
    flat = [label for term in terms for label in term]
    out = [*dots, *sorted(label for label in set(flat) - set(dots) if flat.count(label) == 1)]
    if arrow:
        out = _labels(src, right, len(right.replace("...", "")) + (hidden if "..." in right else 0), dots)
    if len(set(out)) != len(out) or not set(out) <= set(extents):
        raise src.refuse(f"the result of {equation!r}", attr="equation")
    number = {label: i for i, label in enumerate(extents)}
    return Attrs(tuple(tuple(number[label] for label in term) for term in terms),
                 tuple(number[label] for label in out), tuple(extents.values()))


def _labels(src: Source, text: str, rank: int, dots: list[str]) -> list[str]:
    """The labels of one term."""
    first, dotted, last = text.partition("...")
    count = rank - len(first) - len(last)
    if count < 0 or (count and not dotted) or not all(ch in LETTERS for ch in first + last):
        raise src.refuse(f"the term {text!r} for a tensor of rank {rank}", attr="equation")
    return [*first, *dots[len(dots) - count:], *last]


def infer(c: Call) -> list[TensorType]:
    """The extents of the output's labels."""
    return [TensorType(c.type(0).dtype, tuple(c.attrs.extents[i] for i in c.attrs.out))]


def reference(c: Call, *x: np.ndarray) -> list[np.ndarray]:
    """numpy's own, in the type of computation."""
    wide = [np.broadcast_to(v.astype(compute(c.type(0).dtype)), v.shape) for v in x]
    operands: list[object] = []
    for v, term in zip(wide, c.attrs.terms, strict=True):
        operands += [v, list(term)]
    return [np.asarray(np.einsum(*operands, list(c.attrs.out))).astype(x[0].dtype)]     # type: ignore[call-overload]


def work(c: Call) -> Work:
    """One multiply-accumulate for each combination of labels and factor after the first."""
    total = prod(c.attrs.extents)
    return Work(macs=total * max(len(c.attrs.terms) - 1, 0), alu=total if len(c.attrs.terms) == 1 else 0)


def strides(c: Call, port: int, labels: tuple[int, ...]) -> Access:
    """How an operand moves with each label: a label that names several of its axes moves along their diagonal."""
    t, term = c.type(port), c.attrs.terms[port]
    own = [sum(s for s, n, label in zip(t.strides, t.shape, term, strict=True) if label == wanted and n != 1)
           for wanted in labels]
    return Access(tuple(own))


def spec(c: Call) -> Spec:
    """Loops and the product of one element of each operand."""
    a, y, ports = c.attrs, c.y[0], range(len(c.attrs.terms))
    summed = tuple(i for i in range(len(a.extents)) if i not in a.out)
    outer = nesting.nest(y, [strides(c, p, a.out) for p in ports])
    inside = TensorType(y.dtype, tuple(a.extents[i] for i in summed))
    inner = nesting.nest(inside, [strides(c, p, summed) for p in ports], rows=False, indent=outer.indent,
                       letter="j")
    wraps = "" if y.dtype.is_float else unsigned(y.dtype)
    tables = {port_name(PORTS, p): value.reshape(-1) for p in ports if (value := c.constant(p)) is not None}
    places = [" + ".join(i for i in pair if i != "0") or "0"
              for pair in zip(outer.index[1:], inner.index[1:], strict=True)]
    factors = [f"{f'({wraps})' if wraps else ''}{{{port_name(PORTS, p)}}}[{places[p]}]" for p in ports]
    return Spec(tables=tables, by_rows=False, acc=wraps,
                finish=Scalar(f"({COMPUTE[y.dtype]}){{a}}") if wraps else None,
                flags={"outer": outer, "inner": inner, "product": " * ".join(factors), "factors": max(len(ports) - 1, 0),
                       "store": Store("acc", "", outer.index[0])})


def when(c: Call) -> str:
    """Numbers."""
    return "" if c.type(0).dtype != "bool" else "no kernel for bool"


OP = Op(name="Einsum", onnx={"Einsum": from_onnx}, ports=PORTS, infer=infer, reference=reference, work=work,
        layout="strided", anchor=True, kernels=(Kernel("einsum", spec, when=when),))
