"""Elementwise operators: the rows of scalars.py as IR operators, and the one kernel that runs them all."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import nesting, scalars, stored, tiling
from fuse2c.kernels.scalars import BINARY, UNARY, Row, literal
from fuse2c.op import Call, Kernel, Op, RowWindow, Scalar, Source, Spec
from fuse2c.ops.movement import Shape


@dataclass(frozen=True, slots=True)
class Attrs:
    """The operator's numbers, in the order of its row (None: no bound)."""

    values: tuple[Any, ...] = ()


def _clip(p: tuple[Any, Any], x: np.ndarray) -> np.ndarray:
    """Clip as ONNX defines it: min(max, max(min, x)); NaN stays."""
    low = x if p[0] is None else np.maximum(x, np.asarray(p[0]).astype(x.dtype))
    return low if p[1] is None else np.minimum(low, np.asarray(p[1]).astype(x.dtype))


def clip_row(p: tuple[Any, Any]) -> Row:
    """Clip's C form depends on which bounds are there."""
    real = "{a}" if p[0] is None else "f2c_max{s}({a}, {p0})"
    whole = "{a}" if p[0] is None else "(({a} < {p0}) ? {p0} : {a})"
    reals = "{a}" if p[0] is None else "f2c_reals_max({a}, {p0})"
    if p[1] is not None:
        reals = f"f2c_reals_min({reals}, {{p1}})"
        real, whole = f"f2c_min{{s}}({real}, {{p1}})", f"(({whole} > {{p1}}) ? {{p1}} : {whole})"
    return Row(_clip, real, whole, reals=reals, monotone=True)


def row(c: Call) -> Row:
    """The row of a call's operator."""
    if c.node.op == "Clip":
        return clip_row(c.attrs.values)
    if c.node.op in ("Requantise", "Table"):
        return Row(lambda p, x: x)
    if c.node.op == "Where":
        return WHERE
    return UNARY.get(c.node.op) or BINARY[c.node.op]


def from_onnx(src: Source) -> None:
    """Any operator of the two tables; Max, Min and their like take any number of operands."""
    if src.opset < 7 and len(src.inputs) == 2:
        src = aligned(src)
    attrs = Attrs(numbers(src, (UNARY.get(src.op) or BINARY[src.op]).attrs))
    if src.op in UNARY or len(src.inputs) == 2:
        src.node(src.op, attrs)
        return
    chain(src, src.op, attrs, src.outputs)


def aligned(src: Source) -> Source:
    """Before opset 7 the axes of the second operand are those of the first from `axis` on; a PRelu's slope has axis 1.

    Without `axis` they are the last ones, as everywhere since.
    """
    (x, y), axis = src.inputs, src.attrs.get("axis", 1 if src.op == "PRelu" else None)
    rank, shape = len(src.graph.type(x).shape), src.graph.type(y).shape
    if axis is None or prod(shape) == 1:
        return src
    behind = rank - axis % rank - len(shape)
    if behind < 0:
        raise src.refuse(f"an operand of shape {list(shape)} that starts at axis {axis} of {rank}", attr="axis")
    if behind == 0:
        return src
    wide = src.graph.temporary(f"{y}.wide")
    src.node("Reshape", Shape((*shape, *(1,) * behind)), (y,), (wide,))
    return replace(src, inputs=(x, wide))


def numbers(src: Source, known: tuple[tuple[str, float], ...]) -> tuple[float, ...]:
    """Values of a row's attributes."""
    return tuple(float(src.attrs.get(key, default)) for key, default in known)


def chain(src: Source, op: str, attrs: Attrs, outputs: tuple[str, ...]) -> None:
    """op(op(x0, x1), x2), ...: an operator of any number of operands; of one, the operand itself."""
    last = src.inputs[0]
    if len(src.inputs) == 1:
        src.node("Reshape", Shape(src.graph.type(last).shape), (last,), outputs)
    for i, x in enumerate(src.inputs[1:], 2):
        y = outputs[0] if i == len(src.inputs) else src.graph.temporary(f"{outputs[0]}.{i}")
        src.node(op, attrs, (last, x), (y,))
        last = y


def from_sum(src: Source) -> None:
    """Sum: Add of any number of operands."""
    chain(src, "Add", Attrs(), src.outputs)


def from_mean(src: Source) -> None:
    """Mean: the sum divided by the number of operands."""
    total = src.graph.temporary(f"{src.outputs[0]}.sum")
    chain(src, "Add", Attrs(), (total,))
    dtype = src.graph.type(src.inputs[0]).dtype
    count = src.graph.constant(f"{src.name}.count", np.asarray(len(src.inputs), dtype.numpy))
    src.node("Div", Attrs(), (total, count))


def from_mod(src: Source) -> None:
    """Mod: the sign of the dividend with fmod=1, else of the divisor."""
    src.node("FMod" if src.attrs.get("fmod", 0) else "Mod", Attrs())


def from_clip(src: Source) -> None:
    """Clip: bounds are attributes before opset 11, inputs since; variable bounds become Max and Min."""
    bounds = [src.attrs.get(key) if key in src.attrs else
              src.graph.data(src.inputs[port]) if src.has(port) else None for port, key in ((1, "min"), (2, "max"))]
    variable = [port for port in (1, 2) if src.has(port) and src.graph.data(src.inputs[port]) is None]
    if not variable:
        src.node("Clip", Attrs(tuple(None if b is None else np.asarray(b).item() for b in bounds)), src.inputs[:1])
        return
    last = src.inputs[0]
    given = [(port, op) for port, op in ((1, "Max"), (2, "Min")) if src.has(port)]
    for port, op in given:
        y = src.outputs[0] if (port, op) == given[-1] else src.graph.temporary(f"{src.outputs[0]}.low")
        src.node(op, Attrs(), (last, src.inputs[port]), (y,))
        last = y


def from_is_inf(src: Source) -> None:
    """IsInf: a comparison with one or both infinities."""
    plus, minus = src.attrs.get("detect_positive", 1), src.attrs.get("detect_negative", 1)
    src.node("IsInf", Attrs((np.inf if plus else np.nan, -np.inf if minus else np.nan)))


def from_pow(src: Source) -> None:
    """Pow: computed in the floating type if one of the two is, the result has the base's type.

    Powers of long integers are computed in float64: float32 has not all of them.
    """
    from fuse2c.ops.cast import add as add_cast
    base, exponent = (src.graph.type(t).dtype for t in src.inputs)
    if base == exponent or (not base.is_float and not exponent.is_float):
        src.node("Pow", Attrs())
        return
    common = base if base.is_float else DType.F64 if base.bits > 16 else exponent
    inputs: list[str] = []
    for t, dtype in zip(src.inputs, (base, exponent), strict=True):
        inputs.append(t if dtype == common else src.graph.temporary(f"{src.outputs[0]}.{len(inputs)}"))
        if dtype != common:
            add_cast(src, t, common, inputs[-1])
    y = src.outputs[0] if base == common else src.graph.temporary(f"{src.outputs[0]}.real")
    src.node("Pow", Attrs(), tuple(inputs), (y,))
    if base != common:
        add_cast(src, y, base, src.outputs[0])


def from_shift(src: Source) -> None:
    """BitShift."""
    src.node("BitShift", Attrs((int(src.attrs["direction"] == "LEFT"),)))


def from_prelu(src: Source) -> None:
    """PRelu; no unsigned number is below 0."""
    t = src.graph.type(src.inputs[0])
    if t.dtype.is_float or t.dtype.is_signed:
        from_onnx(src)
    else:
        src.node("Reshape", Shape(t.shape), src.inputs[:1])


def from_shrink(src: Source) -> None:
    """Shrink: x - bias above lambd, x + bias below -lambd, else 0."""
    src.node("Shrink", Attrs((float(src.attrs.get("lambd", 0.5)), float(src.attrs.get("bias", 0.0)))))


def _shrink(p: tuple[float, float], x: np.ndarray) -> np.ndarray:
    """Both numbers are cut off to the type of x first, as in ONNX's own definition of the operator."""
    limit, bias = (np.asarray(v).astype(x.dtype) for v in p)
    below = (x < -limit) if x.dtype.kind != "u" else np.zeros(x.shape, np.bool_)
    return np.where(x > limit, x - bias, np.where(below, x + bias, np.zeros((), x.dtype))).astype(x.dtype)


_SELECT = "(({a} != 0) ? {b} : {c})"
WHERE = Row(lambda p, condition, x, y: np.where(condition.astype(np.bool_), x, y), _SELECT, _SELECT, _SELECT)
UNARY["IsInf"] = Row(lambda p, x: (x == p[0]) | (x == p[1]), "((({a} == {p0}) || ({a} == {p1})) ? 1 : 0)",
                     result=DType.BOOL)
UNARY["Shrink"] = Row(_shrink,
                      "(({a} > {p0}) ? ({a} - {p1}) : (({a} < -{p0}) ? ({a} + {p1}) : 0.0{l}))",
                      "(({a} > {p0}) ? ({a} - {p1}) : (({a} < -{p0}) ? ({a} + {p1}) : 0))",
                      unsigned="(({a} > {p0}) ? ({a} - {p1}) : 0u)")
BINARY["BitShift"] = Row(scalars._shift, integer="(({p0} != 0) ? f2c_shl_{i}({a}, {b}) : f2c_shr_{i}({a}, {b}))")


def infer(c: Call) -> list[TensorType]:
    """numpy's broadcasting; the row says the element type."""
    shapes = [t.shape for t in c.x if t is not None]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(f"shapes {' and '.join(map(str, shapes))} do not broadcast", node=c.node.name,
                         op=c.node.op) from None
    return [TensorType(row(c).result or operand_type(c), shape)]


def operand_type(c: Call) -> DType:
    """The element type that decides on the C text: that of the first operand, of Where's second."""
    return c.type(1 if c.node.op == "Where" else 0).dtype


def real(c: Call, *x: np.ndarray) -> np.ndarray:
    """The operator on plain numbers of any type."""
    with np.errstate(all="ignore"):
        return np.asarray(row(c).numpy(c.attrs.values, *x))


def reference(c: Call, *x: np.ndarray) -> list[np.ndarray]:
    """Plain numbers by the table, halves in float32 with one rounding; stored values as stored.py defines them."""
    if c.quantised:
        return [stored.reference(c, real, *x)]
    operands = [a.astype(scalars.compute(t.dtype)) for a, t in zip(x, c.x, strict=True) if t is not None]
    return [real(c, *operands).astype((row(c).result or operand_type(c)).numpy)]


def scalar(c: Call) -> Scalar:
    """The C expression of one element."""
    if c.quantised:
        return stored.scalar(c, real)
    dtype = operand_type(c)
    text, four = scalars.text(row(c), dtype), row(c).reals if dtype == DType.F32 else ""
    for i, v in enumerate(c.attrs.values):
        if v is not None:
            text, four = (t.replace(f"{{p{i}}}", literal(v, dtype)) for t in (text, four))
    return Scalar(text, words=four)


@dataclass(frozen=True, slots=True)
class Load:
    """One operand of the innermost loop: a port's element, an element of a constant table, or a literal."""

    port: int
    index: str
    row_stride: int         # elements between rows of the operand; 0 where all rows read the same
    table: str = ""
    literal: str = ""


def spec(c: Call) -> Spec:
    """One loop nest over the output, operands addressed by broadcast strides."""
    if c.group is not None and c.group.node.body:
        c = c.group.call
    rank = len(c.y[0].shape)
    ports = [(i, t) for i, t in enumerate(c.x) if t is not None]
    accesses = [nesting.broadcast(t, rank) for t in (*(t for _, t in ports), *c.y[1:])]
    n = nesting.nest(c.y[0], accesses, rows=True, indent="        ")
    loads, tables = [], {}
    for (port, t), index, stride in zip(ports, n.index[1:], n.row_strides[1:], strict=False):
        value = c.constant(port)
        if value is None:
            loads.append(Load(port, index, stride))
        elif value.size == 1:
            loads.append(Load(port, index, 0, literal=literal(value.reshape(-1)[0], t.dtype)))
        else:
            tables[f"c{port}"] = value.reshape(-1)
            loads.append(Load(port, index, stride, table=f"c{port}"))
    more = range(len(n.index) - len(c.y) + 1, len(n.index))
    return Spec(tables=tables, rows=n.rows, window=RowWindow() if n.rows > 1 else None,
                flags={"nest": n, "loads": tuple(loads), "row_stride": n.row_strides[0],
                       "further": tuple((n.index[i], n.row_strides[i]) for i in more),
                       "store": tiling.Store("", "", n.index[0])})


def mve_when(c: Call) -> str:
    """Elements of float32 or 8 bits that are finished four at a time, from operands that lie in memory as they do."""
    from fuse2c.ops._fours import finishes_fours
    return fours_when(c) or finishes_fours(c)


def group_when(c: Call) -> str:
    """Operators of float32 that all have a form for four elements."""
    from fuse2c.ops._fours import scalar
    assert c.group is not None
    g, node = c.group.graph, c.group.node
    for n in node.parts:
        if not scalar(g, n).words or any(g.type(t).dtype != DType.F32 for t in (*n.inputs, *n.outputs) if t):
            return f"{n.op} has no form for four float32"
    return fours_when(c)


def fours_when(c: Call) -> str:
    """One result of float32 or 8 bits, its operands in memory as it is, four neighbours at a time."""
    whole = c.group.call if c.group is not None else c
    s = spec(c)
    nest = s.flags["nest"]
    if whole.y[0].dtype not in (DType.F32, DType.I8, DType.U8) or len(whole.y) > 1 or int(nest.loops[-1].end) < 4:
        return "the result is not one tensor of float32 or 8 bits with four neighbours at a time"
    loads = [load for load in s.flags["loads"] if not load.literal]
    plain = (DType.F32, DType.I8, DType.U8)
    if any(load.table or whole.type(load.port).dtype not in plain for load in loads) \
            or not all(nest.adjacent(index) for index in (nest.index[0], *(load.index for load in loads))):
        return "an operand's neighbours are not those of the result"
    return ""


def mve_spec(c: Call) -> Spec:
    """Four elements of the innermost loop at a time, then the rest."""
    s = spec(c)
    nest = s.flags["nest"]
    *outer, inner = nest.loops
    count = int(inner.end)
    return replace(s, constants={"COUNT": count, "WHOLE": count // 4 * 4}, flags={
        **s.flags, "fours": (), "rest": count % 4, "nest": nest.by(4, "WHOLE"), "inner": inner, "outer": outer[::-1]})


def when(c: Call) -> str:
    """Types for which the row has a C form; 8-bit stored values with an integer form."""
    if c.quantised:
        return stored.integer(c)
    return "" if scalars.text(row(c), operand_type(c)) else f"no kernel for {operand_type(c)}"


def costly(c: Call) -> bool:
    """A function of the runtime, or a division."""
    return not c.quantised and any(sign in scalar(c).expr for sign in ("f2c_", " / "))


def operator(name: str, onnx: dict[str, Callable[[Source], None]], ports: tuple[str, ...]) -> Op:
    """One of the operators of this file."""
    return Op(name=name, onnx=onnx, ports=ports, infer=infer, reference=reference, integer=stored.integer,
              layout="same", anchor=True, half=True, scalar=scalar, costly=costly,
              kernels=(Kernel("elementwise_mve", mve_spec, when=lambda c: when(c) or mve_when(c), needs=frozenset({"mve"})),
                       Kernel("elementwise", spec, when=when)))


OWN: dict[str, dict[str, Callable[[Source], None]]] = {
    "Add": {"Add": from_onnx, "Sum": from_sum, "Mean": from_mean}, "Mod": {"Mod": from_mod}, "FMod": {},
    "Pow": {"Pow": from_pow}, "PRelu": {"PRelu": from_prelu},
    "IsInf": {"IsInf": from_is_inf}, "BitShift": {"BitShift": from_shift},
    "Shrink": {"Shrink": from_shrink}}
GROUP = Op(name="Elementwise", ports=("a", "b", "c"), infer=infer, reference=reference, layout="same", anchor=True,
           half=True, docs="several of them as one loop",
           kernels=(Kernel("elementwise_mve", mve_spec, when=group_when, needs=frozenset({"mve"})),
                    Kernel("elementwise", spec)))
OPS = (GROUP, *(operator(name, OWN.get(name, {name: from_onnx}), ("a",)) for name in UNARY),
       *(operator(name, OWN.get(name, {name: from_onnx}), ("a", "b")) for name in BINARY),
       operator("Where", {"Where": lambda src: src.node("Where", Attrs())}, ("a", "b", "c")),
       operator("Clip", {"Clip": from_clip}, ("a",)), operator("Requantise", {}, ("a",)), operator("Table", {}, ("a",)))
