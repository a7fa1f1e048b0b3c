"""The table of elementwise operators: a C expression beside its numpy meaning, one row an operator.

C text sees the operands {a}, {b}, {c} in their compute type, the operator's numbers {p0}, {p1}, and
    {s}, {l}   suffix of functions and of literals: "" and "f" for float32 (and halves), "_f64" and "" for float64
    {T}, {U}   compute type of an integer and its unsigned twin; {i} the suffix of f2c_int.h's functions (s32, u64, ...)
A result is wrapped to the element type by the code generator: halves are rounded, narrow integers cut off.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuse2c.ir.types import COMPUTE, DType

Numbers = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One operator. Empty text: no kernel for that class of types."""

    numpy: Callable[..., Any]                       # (numbers, *arrays), arrays already in the compute type
    real: str = ""
    integer: str = ""
    boolean: str = ""
    unsigned: str = ""                              # in place of `integer` where that compares uint32 or uint64 with 0
    attrs: tuple[tuple[str, float], ...] = ()       # ONNX attribute and its default, in the order of the numbers
    result: DType | None = None                     # element type of the result; None: that of the first operand
    reals: str = ""                                 # for four float32 at once, by functions of f2c_reals.h
    monotone: bool = False                          # never decreasing: a rounding may be moved in front of it


def compute(dtype: DType) -> np.dtype:
    """numpy's type in which elements of `dtype` are computed."""
    return np.dtype(np.float32) if dtype.is_half else dtype.numpy


def _wide(f: Callable[..., Any]) -> Callable[..., Any]:
    """A real function computed in float64 and rounded once: the truth that C is compared with."""
    def call(p: Numbers, *x: np.ndarray) -> np.ndarray:
        return np.asarray(f(p, *(a.astype(np.float64) for a in x))).astype(x[0].dtype)
    return call


def _erf(x: np.ndarray) -> np.ndarray:
    from math import erf
    return np.vectorize(erf, otypes=[np.float64])(x)


def _same(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the operands alone."""
    return lambda p, *x: f(*x)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Truncating for integers; x / 0 = 0."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    quotient = np.abs(a.astype(object)) // np.abs(safe.astype(object))
    signed = np.where((a < 0) != (safe < 0), -quotient, quotient)
    return np.where(b == 0, 0, _wrap(signed, a.dtype))


def _wrap(exact: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Python integers cut off to a type's bits."""
    bits = dtype.itemsize * 8
    cut = np.asarray(exact, object) & ((1 << bits) - 1)
    if dtype.kind == "i":
        cut = np.where(np.asarray(cut >= 1 << (bits - 1), np.bool_), cut - (1 << bits), cut)
    return np.asarray(cut).astype(dtype)


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f":
        return np.asarray(np.power(a.astype(np.float64), b.astype(np.float64))).astype(a.dtype)
    # 1 / a**-b, cut off: 1 or -1 for these two bases, 0 for all others.
    power = np.power(a, np.where(b < 0, b % 2, b).astype(a.dtype))
    return np.where((b >= 0) | (np.abs(a) == 1), power, 0).astype(a.dtype)


def _shift(p: Numbers, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A count that is negative or beyond the type's bits shifts all of them out; the sign stays in a right shift."""
    wide = (b < 0) | (b >= a.dtype.itemsize * 8)
    amount = np.where(wide, 0, b).astype(a.dtype)
    out = 0 if p[0] else np.where(a < 0, -1, 0)
    return np.where(wide, out, a << amount if p[0] else a >> amount).astype(a.dtype)


def _round(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.rint(x))


def _selu(p: Numbers, x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, p[1] * x, p[1] * (p[0] * np.exp(np.minimum(x, 0)) - p[0]))


def _wrapping(sign: str) -> str:
    return f"({{T}})(({{U}}){{a}} {sign} ({{U}}){{b}})"


def _compare(sign: str, function: Callable[..., Any]) -> Row:
    text = f"(({{a}} {sign} {{b}}) ? 1 : 0)"
    return Row(_same(function), text, text, text, result=DType.BOOL)


def _logic(sign: str, function: Callable[..., Any]) -> Row:
    return Row(_same(function), boolean=f"({{a}} {sign} {{b}})")


def _bitwise(sign: str, function: Callable[..., Any]) -> Row:
    return Row(_same(function), integer=f"({{T}})(({{U}}){{a}} {sign} ({{U}}){{b}})")


UNARY: dict[str, Row] = {
    "Abs": Row(_same(np.abs), "f2c_abs{s}({a})", "(({a} < 0) ? ({T})(0 - ({U}){a}) : {a})", unsigned="{a}"),
    "Acos": Row(_wide(_same(np.arccos)), "f2c_acos{s}({a})"),
    "Acosh": Row(_wide(_same(np.arccosh)), "f2c_acosh{s}({a})"),
    "Asin": Row(_wide(_same(np.arcsin)), "f2c_asin{s}({a})"),
    "Asinh": Row(_wide(_same(np.arcsinh)), "f2c_asinh{s}({a})"),
    "Atan": Row(_wide(_same(np.arctan)), "f2c_atan{s}({a})"),
    "Atanh": Row(_wide(_same(np.arctanh)), "f2c_atanh{s}({a})"),
    "BitwiseNot": Row(_same(np.invert), integer="({T})(~({U}){a})"),
    "Ceil": Row(_same(np.ceil), "f2c_ceil{s}({a})"),
    "Celu": Row(_wide(lambda p, x: np.maximum(x, 0) + np.minimum(0, p[0] * (np.exp(np.minimum(x, 0) / p[0]) - 1))),
                "(f2c_max{s}({a}, 0.0{l}) + f2c_min{s}(0.0{l}, {p0} * f2c_expm1{s}({a} / {p0})))",
                attrs=(("alpha", 1.0),)),
    "Cos": Row(_wide(_same(np.cos)), "f2c_cos{s}({a})"),
    "Cosh": Row(_wide(_same(np.cosh)), "f2c_cosh{s}({a})"),
    "Elu": Row(_wide(lambda p, x: np.where(x < 0, p[0] * (np.exp(np.minimum(x, 0)) - 1), x)),
               "(({a} < 0.0{l}) ? ({p0} * f2c_expm1{s}({a})) : {a})", attrs=(("alpha", 1.0),)),
    "Erf": Row(_wide(_same(_erf)), "f2c_erf{s}({a})"),
    "Exp": Row(_wide(_same(np.exp)), "f2c_exp{s}({a})"),
    "Floor": Row(_same(np.floor), "f2c_floor{s}({a})"),
    "HardSigmoid": Row(lambda p, x: np.clip(x * x.dtype.type(p[0]) + x.dtype.type(p[1]), 0, 1),
                       "f2c_clamp{s}((({a} * {p0}) + {p1}), 0.0{l}, 1.0{l})", attrs=(("alpha", 0.2), ("beta", 0.5))),
    "HardSwish": Row(lambda p, x: x * np.clip(x * x.dtype.type(1 / 6) + x.dtype.type(0.5), 0, 1),
                     "({a} * f2c_clamp{s}((({a} * {p0}) + {p1}), 0.0{l}, 1.0{l}))", attrs=(("", 1 / 6), ("", 0.5))),
    "IsNaN": Row(_same(np.isnan), "(({a} == {a}) ? 0 : 1)", result=DType.BOOL),
    "LeakyRelu": Row(lambda p, x: np.where(x < 0, x * x.dtype.type(p[0]), x), "(({a} < 0.0{l}) ? ({a} * {p0}) : {a})",
                     attrs=(("alpha", 0.01),)),
    "Log": Row(_wide(_same(np.log)), "f2c_log{s}({a})"),
    "Mish": Row(_wide(lambda p, x: x * np.tanh(np.logaddexp(0, x))), "f2c_mish{s}({a})"),
    "Neg": Row(_same(np.negative), "(-{a})", "({T})(0 - ({U}){a})"),
    "Not": Row(_same(np.logical_not), boolean="({a} ^ 1)"),
    "Reciprocal": Row(_same(np.reciprocal), "(1.0{l} / {a})"),
    "Relu": Row(lambda p, x: np.maximum(x, x.dtype.type(0)), "f2c_relu{s}({a})", "(({a} < 0) ? 0 : {a})",
                reals="f2c_reals_max({a}, 0.0f)", monotone=True),
    "Round": Row(_same(_round), "f2c_round_even{s}({a})"),
    "Selu": Row(_wide(_selu), "({p1} * (({a} > 0.0{l}) ? {a} : ({p0} * f2c_expm1{s}({a}))))",
                attrs=(("alpha", 1.6732632423543772), ("gamma", 1.0507009873554805))),
    "Sigmoid": Row(_wide(lambda p, x: np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))),
                   "f2c_sigmoid{s}({a})"),
    "Sign": Row(_same(np.sign), "f2c_sign{s}({a})", "(({a} > 0) - ({a} < 0))", unsigned="(({a} > 0u) ? 1u : 0u)"),
    "Sin": Row(_wide(_same(np.sin)), "f2c_sin{s}({a})"),
    "Sinh": Row(_wide(_same(np.sinh)), "f2c_sinh{s}({a})"),
    "Softplus": Row(_wide(lambda p, x: np.logaddexp(0, x)), "f2c_softplus{s}({a})"),
    "Softsign": Row(_same(lambda x: x / (1 + np.abs(x))), "({a} / (1.0{l} + f2c_abs{s}({a})))"),
    "Sqrt": Row(_same(np.sqrt), "f2c_sqrt{s}({a})"),
    "Swish": Row(_wide(lambda p, x: x / (1 + np.exp(-p[0] * x))), "({a} * f2c_sigmoid{s}({p0} * {a}))",
                 attrs=(("alpha", 1.0),)),
    "Tan": Row(_wide(_same(np.tan)), "f2c_tan{s}({a})"),
    "Tanh": Row(_wide(_same(np.tanh)), "f2c_tanh{s}({a})"),
    "ThresholdedRelu": Row(lambda p, x: np.where(x > x.dtype.type(p[0]), x, 0), "(({a} > {p0}) ? {a} : 0.0{l})",
                           attrs=(("alpha", 1.0),)),
}

BINARY: dict[str, Row] = {
    "Add": Row(_same(np.add), "({a} + {b})", _wrapping("+"), reals="f2c_reals_add({a}, {b})"),
    "Sub": Row(_same(np.subtract), "({a} - {b})", _wrapping("-"), reals="f2c_reals_sub({a}, {b})"),
    "Mul": Row(_same(np.multiply), "({a} * {b})", _wrapping("*"), reals="f2c_reals_mul({a}, {b})"),
    "Div": Row(_same(_divide), "({a} / {b})", "f2c_div_{i}({a}, {b})"),
    "Pow": Row(_same(_power), "f2c_pow{s}({a}, {b})", "f2c_pow_{i}({a}, {b})"),
    "PRelu": Row(_same(lambda x, slope: np.where(x < 0, x * slope, x)), "(({a} < 0.0{l}) ? ({a} * {b}) : {a})",
                 "(({a} < 0) ? ({T})(({U}){a} * ({U}){b}) : {a})"),
    "Max": Row(_same(np.maximum), "f2c_max_nan{s}({a}, {b})", "(({a} < {b}) ? {b} : {a})"),
    "Min": Row(_same(np.minimum), "f2c_min_nan{s}({a}, {b})", "(({a} > {b}) ? {b} : {a})"),
    "FMod": Row(_same(np.fmod), "f2c_fmod{s}({a}, {b})", "f2c_rem_{i}({a}, {b})"),
    "Mod": Row(_same(np.mod), "f2c_mod{s}({a}, {b})", "f2c_mod_{i}({a}, {b})"),
    "And": _logic("&", np.logical_and), "Or": _logic("|", np.logical_or), "Xor": _logic("^", np.logical_xor),
    "BitwiseAnd": _bitwise("&", np.bitwise_and), "BitwiseOr": _bitwise("|", np.bitwise_or),
    "BitwiseXor": _bitwise("^", np.bitwise_xor),
    "Equal": _compare("==", np.equal), "Less": _compare("<", np.less), "Greater": _compare(">", np.greater),
    "LessOrEqual": _compare("<=", np.less_equal), "GreaterOrEqual": _compare(">=", np.greater_equal),
}


def text(row: Row, dtype: DType) -> str:
    """The C text for operands of a type, with its placeholders for that type filled in; "" if there is none."""
    if dtype.is_float:
        wide = dtype == DType.F64
        return row.real.replace("{s}", "_f64" if wide else "").replace("{l}", "" if wide else "f")
    ctype = COMPUTE[dtype]
    suffix = f"{'u' if ctype.startswith('u') else 's'}{64 if '64' in ctype else 32}"
    chosen = row.boolean if dtype == DType.BOOL else row.integer
    if ctype.startswith("u"):
        chosen = row.unsigned or chosen
    return chosen.replace("{T}", ctype).replace("{U}", unsigned(dtype)).replace("{i}", suffix)


def unsigned(dtype: DType) -> str:
    """The unsigned twin of an integer's compute type: in it, sums and products wrap around."""
    return COMPUTE[dtype] if COMPUTE[dtype].startswith("u") else f"u{COMPUTE[dtype]}"


def literal(value: Any, dtype: DType) -> str:
    """A C literal of a number of an element type (halves: of the float32 that they are)."""
    if not dtype.is_float:
        suffix = {DType.U32: "u", DType.I64: "LL", DType.U64: "u"}.get(dtype, "")
        number = int(value)
        if number in (-2 ** 31, -2 ** 63) and dtype in (DType.I32, DType.I64):
            return f"({number + 1}{suffix} - 1)"
        return f"({number}{suffix})" if number < 0 else f"{number}{suffix}"
    v = np.float64(value) if dtype is DType.F64 else np.float32(value)
    real = float(v)                 # numpy's functions take long for one number, and weights are millions
    if not math.isfinite(real):
        name = "NAN" if math.isnan(real) else "INFINITY"
        return f"(-F2C_{name})" if real < 0 else f"F2C_{name}"
    digits = str(v)
    digits = digits if "." in digits or "e" in digits else f"{digits}.0"
    digits += "" if dtype is DType.F64 else "f"
    return f"({digits})" if digits[0] == "-" else digits
