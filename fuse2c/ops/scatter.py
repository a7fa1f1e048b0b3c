"""Elements put where indices say: Scatter, ScatterElements, ScatterND, TensorScatter; with or without a reduction.

A copy of the data, then one of the updates whose target index depends on a tensor. Updates are taken in their own
order, so of several for one element the last one stays. No index writes outside (f2c_index).
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import COMPUTE, CTYPE, TensorType
from fuse2c.kernels import copy, scalars
from fuse2c.kernels.copy import Part, wrap
from fuse2c.kernels.nesting import Access
from fuse2c.op import Call, Kernel, Op, Source, Spec
from fuse2c.ops.gather import index_terms
from fuse2c.ops.shapes import axis_of, shape_of

PORTS = ("x", "indices", "updates")
REDUCTIONS = {"none": "", "add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}


@dataclass(frozen=True, slots=True)
class Attrs:
    """How indices address x: along one `axis`, as whole coordinates ("nd"), or as a position in a cache ("cache")."""

    kind: str
    axis: int = 0
    circular: bool = False      # of a cache: positions count modulo its length
    reduction: str = "none"


def from_onnx(src: Source) -> None:
    """All four."""
    reduction = src.attrs.get("reduction", "none")
    if reduction not in REDUCTIONS:
        raise src.refuse(f"reduction {reduction!r}", attr="reduction", hint=f"one of {', '.join(REDUCTIONS)}")
    rank, inputs = len(shape_of(src)), src.inputs
    if src.op == "ScatterND":
        attrs = Attrs("nd", reduction=reduction)
    elif src.op == "TensorScatter":
        axis = axis_of(src, src.attrs.get("axis", -2), rank)
        attrs = Attrs("cache", axis, src.attrs.get("mode", "linear") == "circular")
        first = src.inputs[2] if src.has(2) else \
            src.graph.constant(f"{src.name}.positions", np.zeros(shape_of(src)[0], np.int64))
        inputs = (src.inputs[0], first, src.inputs[1])
    else:
        attrs = Attrs("axis", axis_of(src, src.attrs.get("axis", 0), rank), reduction=reduction)
    src.node("Scatter" if reduction == "none" else "ScatterReduce", attrs, inputs)


def infer(c: Call) -> list[TensorType]:
    """As x. Raises ShapeError unless indices and updates fit."""
    x, i, u, a = c.type(0).shape, c.type(1).shape, c.type(2).shape, c.attrs
    if a.kind == "nd":
        fits = len(i) > 0 and i[-1] <= len(x) and u == i[:-1] + x[i[-1]:]
    elif a.kind == "cache":
        fits = a.axis > 0 and i == x[:1] and len(u) == len(x) and all(
            m == n or (k == a.axis and m < n) for k, (m, n) in enumerate(zip(u, x, strict=True)))
    else:
        fits = u == i and len(i) == len(x) and all(m <= n or k == a.axis
                                                   for k, (m, n) in enumerate(zip(i, x, strict=True)))
    if not fits:
        raise ShapeError(f"indices {i} and updates {u} do not fit the data {x}", node=c.node.name, op=c.node.op)
    return [replace(c.type(0), order=())]


def reference(c: Call, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> list[np.ndarray]:
    """One update after the other."""
    y, a = np.array(x), c.attrs
    row = scalars.BINARY.get(REDUCTIONS[a.reduction])
    depth = indices.shape[-1] if a.kind == "nd" else 0
    for at in np.ndindex(indices.shape[:-1] if a.kind == "nd" else updates.shape):
        if a.kind == "nd":
            to = tuple(int(wrap(np.asarray(indices[at][k]), x.shape[k])) for k in range(depth))
        else:
            i = int(indices[at]) if a.kind == "axis" else int(indices[at[0]]) + at[a.axis]
            j = i % x.shape[a.axis] if a.circular else int(wrap(np.asarray(i), x.shape[a.axis]))
            to = (*at[:a.axis], j, *at[a.axis + 1:])
        with np.errstate(all="ignore"):
            y[to] = updates[at] if row is None else row.numpy((), y[to], updates[at])
    return [y]


def spec(c: Call) -> Spec:
    """Two copies."""
    x, u, i, a = c.type(0), c.type(2), c.type(1), c.attrs
    whole, (own,) = copy.walk(c.y[0], [Access(x.strides)])
    y = c.y[0].strides
    if a.kind == "nd":
        depth, rest = i.shape[-1], len(i.shape) - 1
        tail = y[depth:]
        n, (base, read, index) = copy.walk(u, [Access((0,) * rest + tail), Access(u.strides),
                                                Access(i.strides[:-1] + (0,) * len(tail))])
        lines, terms = index_terms(index, [(k * i.strides[-1], x.shape[k], y[k]) for k in range(depth)])
    else:
        others = Access(tuple(0 if k == a.axis else s for k, s in enumerate(y)))
        which = i.strides if a.kind == "axis" else (i.strides[0],) + (0,) * (len(u.shape) - 1)
        n, (base, read, index, step) = copy.walk(u, [others, Access(u.strides), Access(which)], [a.axis])
        if a.kind == "axis":
            lines, terms = index_terms(index, [(0, x.shape[a.axis], y[a.axis])])
        else:
            function = "f2c_ring" if a.circular else "f2c_index"
            lines = (f"const int32_t j = {function}((int64_t){{indices}}[{index}] + {step}, {x.shape[a.axis]});",)
            terms = [f"(j * {y[a.axis]})"]
    lines += (f"const int32_t at = {' + '.join([base, *terms])};",)
    return copy.spec(c, PORTS, [Part(whole, whole.index[0], f"{{x}}[{own}]"),
                                 Part(n, "at", reduced(c, "y[at]", f"{{updates}}[{read}]"), lines)])


def reduced(c: Call, have: str, new: str) -> str:
    """The C text of one update."""
    dtype, op = c.y[0].dtype, REDUCTIONS[c.attrs.reduction]
    if not op:
        return new
    text = scalars.text(scalars.BINARY[op], dtype).replace("{a}", have).replace("{b}", new)
    return text if CTYPE[dtype] == COMPUTE[dtype] else f"({CTYPE[dtype]})({text})"


def when(c: Call) -> str:
    """A reduction needs a C form for the type."""
    op = REDUCTIONS[c.attrs.reduction]
    return "" if not op or scalars.text(scalars.BINARY[op], c.y[0].dtype) else f"no kernel for {c.y[0].dtype}"


def operator(name: str, onnx: tuple[str, ...], half: bool) -> Op:
    """One of the operators of this file."""
    return Op(name=name, onnx=dict.fromkeys(onnx, from_onnx), ports=PORTS, infer=infer, reference=reference,
              layout="strided", half=half, kernels=(Kernel("copy", spec, when=when),))


OPS = (operator("Scatter", ("Scatter", "ScatterElements", "ScatterND", "TensorScatter"), half=True),
       operator("ScatterReduce", (), half=False))
