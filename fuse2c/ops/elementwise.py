"""Elementwise operators: one row each, a C expression beside its numpy meaning; one kernel for all of them.

On 8-bit integers an operator of one operand is a 256-entry table, exact by construction (or a plain clamp where the
scale stays the same); sums and products of two operands have integer forms of their own (quant.py).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, Quant, TensorType
from fuse2c.ops import _nest, _tile
from fuse2c.ops.base import Call, Kernel, Op, Scalar, Source, Spec
from fuse2c.quant import Requant, SumRequant, quantise, requant


@dataclass(frozen=True, slots=True)
class Attrs:
    """The operator's numbers, in the order of its row in UNARY (None: no bound)."""

    values: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One operator. `c` sees {a}, {b} and the numbers {p0}, {p1}; `numpy` sees (numbers, *arrays)."""

    c: str
    numpy: Callable[..., np.ndarray]
    attrs: tuple[tuple[str, float], ...] = ()       # ONNX attribute and its default
    monotone: bool = False                          # never decreasing: a rounding may be moved in front of it


def _sigmoid(p: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return (1.0 / (1.0 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


UNARY: dict[str, Row] = {
    "Relu": Row("f2c_relu({a})", lambda p, x: np.maximum(x, x.dtype.type(0)), monotone=True),
    "LeakyRelu": Row("(({a} < 0.0f) ? ({a} * {p0}) : {a})",
                     lambda p, x: np.where(x < 0, x * x.dtype.type(p[0]), x), (("alpha", 0.01),)),
    "Sigmoid": Row("f2c_sigmoid({a})", _sigmoid),
    "Tanh": Row("f2c_tanh({a})", lambda p, x: np.tanh(x)),
    "Exp": Row("f2c_exp({a})", lambda p, x: np.exp(x)),
    "HardSigmoid": Row("f2c_clamp((({a} * {p0}) + {p1}), 0.0f, 1.0f)",
                       lambda p, x: np.clip(x * x.dtype.type(p[0]) + x.dtype.type(p[1]), 0, 1).astype(x.dtype),
                       (("alpha", 0.2), ("beta", 0.5))),
    "HardSwish": Row("({a} * f2c_clamp((({a} * 0.16666667f) + 0.5f), 0.0f, 1.0f))",
                     lambda p, x: x * np.clip(x * np.float32(1 / 6) + np.float32(0.5), 0, 1).astype(x.dtype)),
    "Neg": Row("(-{a})", lambda p, x: -x),
    "Abs": Row("f2c_abs({a})", lambda p, x: np.abs(x)),
}

BINARY: dict[str, Row] = {
    "Add": Row("({a} + {b})", lambda p, a, b: a + b),
    "Sub": Row("({a} - {b})", lambda p, a, b: a - b),
    "Mul": Row("({a} * {b})", lambda p, a, b: a * b),
    "Div": Row("({a} / {b})", lambda p, a, b: a / b),
}


def clip(p: tuple[float | None, float | None], x: np.ndarray) -> np.ndarray:
    """Clip as ONNX defines it: min(max, max(min, x)); NaN stays."""
    low = x if p[0] is None else np.maximum(x, x.dtype.type(p[0]))
    return low if p[1] is None else np.minimum(low, x.dtype.type(p[1]))


def clip_row(p: tuple[float | None, float | None]) -> Row:
    """Clip's C form depends on which bounds are there."""
    low = "{a}" if p[0] is None else "f2c_max({a}, {p0})"
    return Row(low if p[1] is None else f"f2c_min({low}, {{p1}})", clip, monotone=True)


def row(c: Call) -> Row:
    """The row of a call's operator."""
    if c.node.op == "Clip":
        return clip_row(c.attrs.values)
    return UNARY.get(c.node.op) or BINARY[c.node.op]


def from_onnx(src: Source) -> None:
    """Any operator of the two tables."""
    known = (UNARY.get(src.op) or BINARY[src.op]).attrs
    src.node(src.op, Attrs(tuple(float(src.attrs.get(key, default)) for key, default in known)))


def from_clip(src: Source) -> None:
    """Clip: bounds are attributes before opset 11, inputs since."""
    low, high = src.setting("min", 1), src.setting("max", 2)
    src.node("Clip", Attrs((low, high)), src.inputs[:1])


def infer(c: Call) -> list[TensorType]:
    """numpy's broadcasting."""
    shapes = [t.shape for t in c.x if t is not None]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(f"shapes {' and '.join(map(str, shapes))} do not broadcast", node=c.node.name,
                         op=c.node.op) from None
    return [TensorType(c.type(0).dtype, shape)]


def float_reference(c: Call, *x: np.ndarray) -> np.ndarray:
    """The operator on real numbers."""
    with np.errstate(all="ignore"):
        return row(c).numpy(c.attrs.values, *x)


def reference(c: Call, *x: np.ndarray) -> list[np.ndarray]:
    """Floats by the table; 8-bit integers as quant.py and table() define them."""
    t = c.type(0)
    if not (t.dtype.is_quantised and t.quant):
        return [np.asarray(float_reference(c, *x)).astype(t.dtype.numpy)]
    if len(c.x) == 1:
        return [table(c)[x[0].astype(np.int32) - t.dtype.range[0]]]
    if c.node.op == "Mul":
        za, zb = (c.type(i).quant.zero[0] for i in (0, 1))              # type: ignore[union-attr]
        product = (x[0].astype(np.int32) - za) * (x[1].astype(np.int32) - zb)
        return [_product(c)(product[..., None])[..., 0].astype(c.y[0].dtype.numpy)]
    return [_sum(c)(x[0], x[1]).astype(c.y[0].dtype.numpy)]


def table(c: Call) -> np.ndarray:
    """All 256 results of an 8-bit operator of one operand, indexed by stored value minus the type's least value."""
    x, y = c.type(0), c.y[0]
    q, r = _quant(x), _quant(y)
    low, high = x.dtype.range
    real = (np.arange(low, high + 1) - q.zero[0]).astype(np.float32) * np.float32(q.scale[0])
    result = real if c.node.op == "Requantise" else float_reference(c, real)
    return quantise(result, np.float32(r.scale[0]), np.int64(r.zero[0]), *y.dtype.range).astype(y.dtype.numpy)


def _quant(t: TensorType) -> Quant:
    assert t.quant is not None
    return t.quant


def _sum(c: Call) -> SumRequant:
    a, b, y = _quant(c.type(0)), _quant(c.type(1)), _quant(c.y[0])
    sign = -1.0 if c.node.op == "Sub" else 1.0
    return SumRequant(c.requant, (a.scale[0] / y.scale[0], sign * b.scale[0] / y.scale[0]),
                      (a.zero[0], b.zero[0]), y.zero[0], *c.y[0].dtype.range)


def _product(c: Call) -> Requant:
    a, b, y = _quant(c.type(0)), _quant(c.type(1)), _quant(c.y[0])
    return requant(c.requant, a.scale[0], b.scale, y.scale[0], y.zero[0], c.y[0].dtype.range, (1 << 16,))


def integer(c: Call) -> str:
    """One operand: always, as a table. Two: Add, Sub and Mul."""
    types = [*c.x, c.y[0]]
    if not all(t is not None and t.dtype.is_quantised and t.quant and t.quant.per_tensor for t in types):
        return "all tensors must be 8 bit with one scale"
    if len(c.x) == 1 or c.node.op == "Mul":
        return ""
    return _sum(c).problem() if c.node.op in ("Add", "Sub") else f"{c.node.op} has no integer form"


def scalar(c: Call) -> Scalar:
    """The C expression of one element."""
    x, y = c.type(0), c.y[0]
    if not (x.dtype.is_quantised and x.quant):
        numbers = {f"p{i}": literal(v, x.dtype) for i, v in enumerate(c.attrs.values) if v is not None}
        text = row(c).c
        for key, value in numbers.items():
            text = text.replace(f"{{{key}}}", value)
        return Scalar(text)
    if len(c.x) == 1:
        return _unary_integer(c)
    if c.node.op == "Mul":
        za, zb = (literal(_quant(c.type(i)).zero[0], DType.I32) for i in (0, 1))
        done = _tile.finish(_product(c))
        return replace(done, expr=done.expr.replace("{a}", f"({{a}} - {za}) * ({{b}} - {zb})"))
    s = _sum(c)
    if s.mode == "float":
        factors = [literal(v, DType.F32) for v in s.scale]
        za, zb, zero = (literal(n, DType.I32) for n in (*s.zeros, s.zero))
        text = (f"f2c_add_float({{a}} - {za}, {{b}} - {zb}, {factors[0]}, {factors[1]}, "
                f"{s.low - s.zero}, {s.high - s.zero}) + {zero}")
        return Scalar(text, limits=(s.low, s.high))
    ma, mb, k, zero = (literal(n, DType.I32) for n in (*s.constants, s.zero))
    text = f"((({{a}} * {ma}) + {k} + ({{b}} * {mb})) >> {s.shift}) + {zero}"
    return Scalar(text, limits=(s.low, s.high))


def _unary_integer(c: Call) -> Scalar:
    """A clamp where it is one, else a table."""
    x, y = c.type(0), c.y[0]
    values = table(c)
    if x.quant == y.quant and x.dtype == y.dtype:
        low, high = int(values.min()), int(values.max())
        stored = np.arange(x.dtype.range[0], x.dtype.range[1] + 1)
        if np.array_equal(values, np.clip(stored, low, high)):
            return Scalar(f"f2c_clamp_s32({{a}}, {low}, {high})", clamp=(low, high))
    return Scalar(f"{{t_lut}}[{{a}} - {literal(x.dtype.range[0], DType.I32)}]", {"lut": values})


def literal(value: float, dtype: DType) -> str:
    """A C literal of a number."""
    if not dtype.is_float:
        return f"({int(value)})" if value < 0 else str(int(value))
    v = np.float32(value) if dtype == DType.F32 else np.float64(value)
    if not np.isfinite(v):
        name = "NAN" if np.isnan(v) else "INFINITY"
        return f"(-F2C_{name})" if v < 0 else f"F2C_{name}"
    text = repr(float(str(v)))
    text = text if any(mark in text for mark in ".en") else f"{text}.0"
    text += "f" if dtype == DType.F32 else ""
    return f"({text})" if v < 0 else text


@dataclass(frozen=True, slots=True)
class Load:
    """One operand of the innermost loop: a port's element, an element of a constant table, or a literal."""

    port: int
    index: str
    table: str = ""
    literal: str = ""


def spec(c: Call) -> Spec:
    """One loop nest over the output, operands addressed by broadcast strides."""
    rank = len(c.y[0].shape)
    ports = [(i, t) for i, t in enumerate(c.x) if t is not None]
    n = _nest.nest(c.y[0], [_nest.broadcast(t, rank) for _, t in ports])
    loads, tables = [], {}
    for (port, t), index in zip(ports, n.index[1:], strict=True):
        value = c.constant(port)
        if value is None:
            loads.append(Load(port, index))
        elif value.size == 1:
            loads.append(Load(port, index, literal=literal(float(value.reshape(-1)[0]), t.dtype)))
        else:
            tables[f"c{port}"] = value.reshape(-1)
            loads.append(Load(port, index, table=f"c{port}"))
    return Spec(tables=tables, rows=n.rows, flags={"nest": n, "loads": tuple(loads),
                                                   "store": _tile.Store("", "", n.index[0])})


def when(c: Call) -> str:
    """float32, or 8-bit integers with an integer form."""
    t = c.type(0)
    if t.dtype == DType.F32:
        return ""
    return integer(c) if t.dtype.is_quantised and t.quant else f"no kernel for {t.dtype}"


def operator(name: str, load: Callable[[Source], None] | None, ports: tuple[str, ...]) -> Op:
    """One of the operators of this file."""
    return Op(name=name, onnx={name: load} if load else {}, ports=ports, infer=infer, reference=reference,
              integer=integer, layout="same", anchor=True, scalar=scalar, kernels=(Kernel("elementwise", spec, when=when),))


OPS = (*(operator(name, from_onnx, ("a",)) for name in UNARY), operator("Clip", from_clip, ("a",)),
       *(operator(name, from_onnx, ("a", "b")) for name in BINARY), operator("Requantise", None, ("a",)))
