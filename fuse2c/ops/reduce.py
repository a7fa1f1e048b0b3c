"""Reductions over any axes: sums, products, extremes, means, norms and logarithms of sums.

A mean over all spatial axes of [N,C,spatial...] is imported as an average pool. Integers wrap around; a mean of integers is
cut off towards zero; that of stored values is the mean of the numbers they stand for, as an average pool's. What is reduced
over no elements is the identity.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from fuse2c.ir.types import COMPUTE, DType, TensorType
from fuse2c.kernels import fields, nesting, scalars
from fuse2c.kernels.nesting import Access
from fuse2c.kernels.parts import Parts
from fuse2c.kernels.scalars import literal
from fuse2c.kernels.tiling import Store
from fuse2c.op import Accumulator, Call, Expansion, Kernel, NestForm, Op, Reduction, Scalar, Source, Spec, Work
from fuse2c.ops import pool
from fuse2c.ops._average import average_terms, integer_sum, is_soft
from fuse2c.ops.cast import Attrs as Cast
from fuse2c.ops.elementwise import Attrs as Elementwise
from fuse2c.ops.movement import Shape


@dataclass(frozen=True, slots=True)
class Attrs:
    """The reduced axes, ascending; they stay in the shape with extent 1."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One reduction: C text of a step over acc and the element v, for floats and for integers; placeholders as in
    scalars.py. Empty text: no kernel for that class of types."""

    numpy: Callable[..., Any]           # (x, axis, keepdims) -> result in the compute type
    start: float                        # the identity
    real: str
    integer: str = ""
    end: str = "acc"                    # of floats
    whole: str = "{a}"                  # of integers, from the sum {a} in their compute type
    top: bool = False                   # a first pass finds the greatest element


def _sum(x: np.ndarray, **where: Any) -> np.ndarray:
    return np.asarray(np.sum(x, dtype=x.dtype, **where))


def _mean(x: np.ndarray, **where: Any) -> np.ndarray:
    count = np.asarray(prod(x.shape[a] for a in where["axis"]), x.dtype)
    if x.dtype.kind == "f":
        return _sum(x, **where) / count
    return np.asarray(scalars.BINARY["Div"].numpy((), _sum(x, **where), count))


def _log_sum_exp(x: np.ndarray, **where: Any) -> np.ndarray:
    top = np.clip(np.max(x, axis=where["axis"], keepdims=True), np.finfo(x.dtype).min, np.finfo(x.dtype).max)
    return np.asarray(np.log(np.sum(np.exp(x - top), **where)) + top)


_POWER, _SIZE = "acc + (v * v)", "acc + (({S}v < 0) ? (0 - v) : v)"
ROWS = {
    "ReduceSum": Row(_sum, 0.0, "acc + v", "acc + v"),
    "ReduceMean": Row(_mean, 0.0, "acc + v", "acc + v", "(acc / ({F})COUNT)", "({a} / COUNT)"),
    "ReduceProd": Row(lambda x, **where: np.prod(x, dtype=x.dtype, **where), 1.0, "acc * v", "acc * v"),
    "ReduceMax": Row(np.max, -np.inf, "f2c_max_nan{s}(acc, v)", "(acc < v) ? v : acc"),
    "ReduceMin": Row(np.min, np.inf, "f2c_min_nan{s}(acc, v)", "(acc > v) ? v : acc"),
    "ReduceL1": Row(lambda x, **where: _sum(np.abs(x), **where), 0.0, "acc + f2c_abs{s}(v)", _SIZE),
    "ReduceL2": Row(lambda x, **where: np.sqrt(_sum(x * x, **where)), 0.0, _POWER, "", "f2c_sqrt{s}(acc)"),
    "ReduceSumSquare": Row(lambda x, **where: _sum(x * x, **where), 0.0, _POWER, _POWER),
    "ReduceLogSum": Row(lambda x, **where: np.log(_sum(x, **where)), 0.0, "acc + v", "", "f2c_log{s}(acc)"),
    "ReduceLogSumExp": Row(_log_sum_exp, 0.0, "acc + f2c_exp{s}(v - {top})", "", "(f2c_log{s}(acc) + {top})", top=True),
}
EXTREMES = ("ReduceMax", "ReduceMin")
SAME_FOR_ONE = ("ReduceSum", "ReduceMean", "ReduceProd", *EXTREMES)     # of one element: the element
ROOTS = {"ReduceL2": ("ReduceSumSquare", "Sqrt"), "ReduceLogSum": ("ReduceSum", "Log")}


def from_onnx(src: Source) -> None:
    """Any reduction; dropping the reduced axes is a Reshape, which costs nothing."""
    x = src.graph.type(src.inputs[0])
    rank = len(x.shape)
    given = src.setting("axes", 1)
    every = () if src.attrs.get("noop_with_empty_axes", 0) else tuple(range(rank))
    axes = tuple(sorted({int(a) % rank for a in given})) if given else every
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    drop = src.attrs.get("keepdims", 1) != 1
    target = src.graph.temporary(f"{src.outputs[0]}.kept") if drop else src.outputs[0]
    _reduce(src, x, axes, kept, target)
    if drop:
        src.node("Reshape", Shape(tuple(n for i, n in enumerate(kept) if i not in axes)), (target,))


def _reduce(src: Source, x: TensorType, axes: tuple[int, ...], kept: tuple[int, ...], target: str) -> None:
    """The reduction with the reduced axes kept."""
    if x.count == 0 and prod(kept) > 0:
        same = src.graph.constant(f"{src.name}.identity", np.full(kept, _identity(src.op, x.dtype), x.dtype.numpy))
        src.node("Reshape", Shape(kept), (same,), (target,))
    elif not axes and src.op in SAME_FOR_ONE:
        src.node("Reshape", Shape(kept), src.inputs[:1], (target,))
    elif src.op == "ReduceMean" and x.dtype.is_float and len(kept) in (3, 4) and axes == tuple(range(2, len(kept))):
        src.node("AveragePool", pool.Attrs(pool.whole(x.shape)), src.inputs[:1], (target,))
    elif src.op in ROOTS and not x.dtype.is_float:
        # Integers: the sum wraps as theirs, the function of it is a real number.
        total, real, root = (src.graph.temporary(f"{target}.{part}") for part in ("sum", "real", "root"))
        src.node(ROOTS[src.op][0], Attrs(axes), src.inputs[:1], (total,))
        src.node("Cast", Cast(DType.F32), (total,), (real,))
        src.node(ROOTS[src.op][1], Elementwise(), (real,), (root,))
        src.node("Cast", Cast(x.dtype), (root,), (target,))
    else:
        src.node(src.op, Attrs(axes), src.inputs[:1], (target,))


def _identity(op: str, dtype: DType) -> Any:
    """What an empty reduction gives."""
    value = {"ReduceMean": np.nan, "ReduceLogSum": -np.inf, "ReduceLogSumExp": -np.inf}.get(op, ROWS[op].start)
    if np.isfinite(value) or dtype.is_float:
        return value
    if np.isnan(value):
        return 0
    low, high = (0, 1) if dtype == DType.BOOL else dtype.range
    return low if value < 0 else high


def infer(c: Call) -> list[TensorType]:
    """Reduced axes become 1; an extreme keeps the scale."""
    x = c.type(0)
    shape = tuple(1 if i in c.attrs.axes else n for i, n in enumerate(x.shape))
    return [TensorType(x.dtype, shape, x.quant if c.node.op in EXTREMES and c.quantised else None)]


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """numpy's own; halves in float32; means of stored values as a pool's."""
    if c.quantised and c.node.op not in EXTREMES:
        axes = c.attrs.axes
        rows = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(_windows(c).type(0).shape)
        return [pool.reference(_windows(c), rows)[0].reshape(c.y[0].shape)]
    with np.errstate(all="ignore"):
        wide = x.astype(scalars.compute(c.type(0).dtype))
        return [np.asarray(ROWS[c.node.op].numpy(wide, axis=c.attrs.axes, keepdims=True)).astype(x.dtype)]


def integer(c: Call) -> str:
    """Means, with one scale per tensor."""
    return pool.integer(c) if c.node.op == "ReduceMean" and c.attrs.axes else "it has no integer form"


def _windows(c: Call) -> Call:
    """The same means of stored values as a pool's: of one window for each output, [1, outputs, elements]."""
    count = prod(c.type(0).shape[a] for a in c.attrs.axes)
    x, y = TensorType(c.type(0).dtype, (1, c.y[0].count, count), c.type(0).quant), replace(c.y[0], shape=(1, c.y[0].count, 1))
    return replace(c, node=replace(c.node, attrs=pool.Attrs(pool.whole(x.shape))), x=(x,), y=(replace(y, order=()),))


@dataclass(frozen=True, slots=True)
class Walk:
    """One walk over the reduced elements: an accumulator, its start and its step."""

    name: str
    start: str
    step: str


def spec(c: Call) -> Spec:
    """A nest over the output, and inside it one or two over the reduced axes."""
    x, axes = c.type(0), c.attrs.axes
    flags = _nests(c, tuple(a for a in x.storage if a in axes))
    acc, end, finish = _ends(c, prod(x.shape[a] for a in axes))
    return Spec({"COUNT": prod(x.shape[a] for a in axes)}, by_rows=False, acc=acc, finish=finish,
                flags=flags | {"walks": _walks(c), "open": "" if x.dtype.is_float else f"({acc})", "close": "",
                               "store": Store(end, "", flags["outer"].index[0])})


def mean_spec(c: Call, integer: bool, soft: bool = False) -> Spec:
    """The same nests over stored values, in the order in which the reference sums them up. For integer and soft, see
    `pool.average_spec`."""
    flags, count = _nests(c, c.attrs.axes), prod(c.type(0).shape[a] for a in c.attrs.axes)
    terms, finish, acc = average_terms(_windows(c), integer, soft)
    step = "f2c_round24(acc + v)" if soft else "acc + v"
    return Spec({}, by_rows=False, acc=acc, finish=finish, channel="n",
                flags=flags | {"walks": (Walk("acc", "0", step),), "open": terms["term_open"], "close": terms["term_close"],
                               "store": Store("acc", str(count), flags["outer"].index[0])})


def _nests(c: Call, reduced: tuple[int, ...]) -> dict[str, Any]:
    """The nest over the output, the one over the reduced axes in the given order, and where an element lies."""
    x, y = c.type(0), c.y[0]
    outer = nesting.nest(y, [Access(tuple(0 if i in reduced else s for i, s in enumerate(x.strides)))])
    inner_type = TensorType(x.dtype, tuple(x.shape[a] for a in reduced))
    inner = nesting.nest(inner_type, [Access(tuple(x.strides[a] for a in reduced))], indent=outer.indent)
    inner = replace(inner, loops=tuple(replace(loop, var=loop.var.replace("i", "j")) for loop in inner.loops),
                    index=tuple(text.replace("i", "j") for text in inner.index))
    at = [text for text in (outer.index[1], inner.index[1]) if text != "0"]
    return {"outer": outer, "inner": inner, "from": " + ".join(at) or "0"}


def _ends(c: Call, count: int) -> tuple[str, str, Scalar | None]:
    """C type of the accumulator, the value that is handed on, what finishes it."""
    row, dtype = ROWS[c.node.op], c.type(0).dtype
    ctype = COMPUTE[dtype]
    if dtype.is_float:
        return ctype, _text(row.end, dtype), None
    if c.node.op in EXTREMES:
        return ctype, "acc", Scalar("{a}")
    unsigned = ctype if ctype.startswith("u") else f"u{ctype}"
    return unsigned, "acc", Scalar(row.whole.replace("{a}", f"({ctype}){{a}}").replace("COUNT", str(count)))


def _walks(c: Call) -> tuple[Walk, ...]:
    row, dtype = ROWS[c.node.op], c.type(0).dtype
    start = literal(_identity(c.node.op, dtype) if c.node.op in EXTREMES else row.start, dtype)
    if not dtype.is_float:
        start = start if c.node.op in EXTREMES else f"{int(row.start)}u"
        signed = COMPUTE[dtype] if not COMPUTE[dtype].startswith("u") else ""
        size = row.integer if signed or c.node.op != "ReduceL1" else "acc + v"
        return (Walk("acc", start, size.replace("{S}", f"({signed})")),)
    main = Walk("acc", start, _text(row.real, dtype))
    top = Walk("top", literal(-np.inf, dtype), _text("f2c_max_nan{s}(top, v)", dtype))
    return (top, main) if row.top else (main,)


def _text(text: str, dtype: DType) -> str:
    """Placeholders for a floating type filled in; infinite maxima are limited, so that their difference is defined."""
    wide = dtype == DType.F64
    most = literal(np.finfo(np.float64 if wide else np.float32).max, dtype)
    text = text.replace("{top}", f"f2c_clamp{{s}}(top, -{most}, {most})").replace("{F}", "double" if wide else "float")
    return text.replace("{s}", "_f64" if wide else "")


def nest_form(c: Call) -> NestForm:
    """One accumulator; with a first pass for the greatest element, several operators."""
    return expanded_log_sum_exp(c) if ROWS[c.node.op].top else reduction(c.node.op, c.type(0), c.attrs.axes)


def reduction(op: str, x: TensorType, axes: tuple[int, ...]) -> NestForm:
    """A floating reduction by name."""
    if not x.dtype.is_float:
        return "a reduction of integers"
    row, count = ROWS[op], prod(x.shape[a] for a in axes)
    start = literal(_identity(op, x.dtype) if op in EXTREMES else row.start, x.dtype)
    text = {key: _text(text, x.dtype).replace("acc", "{acc0}").replace("COUNT", str(count))
            for key, text in (("step", row.real), ("end", row.end))}
    step = re.sub(r"\bv\b", "{v}", text["step"])
    return Reduction(axes, (Accumulator(COMPUTE[x.dtype], start, step),), text["end"])


def expanded_log_sum_exp(c: Call) -> Expansion:
    """log(sum(exp(x - max))) + max, with the maximum limited to finite numbers: their difference is then defined."""
    x, y, attrs = c.node.inputs[0], c.node.outputs[0], c.attrs
    parts, most = Parts(y), float(np.finfo(scalars.compute(c.type(0).dtype)).max)
    top = parts.add("Clip", (parts.add("ReduceMax", (x,), attrs, c.y[0]),), Elementwise((-most, most)), c.y[0])
    power = parts.add("Exp", (parts.add("Sub", (x, top), Elementwise(), c.type(0)),), Elementwise(), c.type(0))
    total = parts.add("ReduceSum", (power,), attrs, c.y[0])
    parts.add("Add", (parts.add("Log", (total,), Elementwise(), c.y[0]), top), Elementwise(), c.y[0], y)
    return parts.done


def when(c: Call) -> str:
    """float32, float64, integers; truth values have extremes."""
    dtype = c.type(0).dtype
    if (c.quantised or dtype == DType.BOOL) and c.node.op not in EXTREMES:
        return f"no kernel for {'stored values' if c.quantised else dtype}"
    return "" if dtype.is_float or ROWS[c.node.op].integer else f"no kernel for {dtype}"


def means(soft: bool = False, needs: frozenset[str] = frozenset(), why: Callable[[Call], str] | None = None) -> Kernel:
    """A kernel for means of stored values, by sums of integers or of floats."""
    def applies(c: Call) -> str:
        if not c.quantised or c.node.op in EXTREMES:
            return "no mean of stored values"
        return why(_windows(c)) if why else ""
    return Kernel("reduce", partial(mean_spec, integer=why is integer_sum, soft=soft), needs=needs, when=applies)


KERNELS = (means(why=integer_sum), *(means(True, core.needs, is_soft) for core in fields.CORES), means(),
           Kernel("reduce", spec, when=when))
OPS = tuple(Op(name=name, onnx={name: from_onnx}, infer=infer, reference=reference, integer=integer, layout="strided",
               anchor=True, nest=nest_form, work=lambda c: Work(alu=c.type(0).count), kernels=KERNELS) for name in ROWS)
