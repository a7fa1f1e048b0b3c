"""Elementwise operators on stored 8-bit values: tables of 256 entries, requantised sums and products (quant.py)."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fuse2c.ir.types import DType
from fuse2c.kernels import tiling
from fuse2c.kernels.scalars import literal
from fuse2c.op import Call, Scalar
from fuse2c.quant import Requant, SumRequant, quantise, requant

SUFFIX = {DType.I8: "s8", DType.U8: "u8"}          # of functions of the runtime
Real = Callable[[Call, np.ndarray], np.ndarray]     # the operator on float32 numbers


def reference(c: Call, real: Real, *x: np.ndarray) -> np.ndarray:
    """Stored results of stored operands."""
    if len(c.x) == 1:
        return table(c, real)[x[0].astype(np.int32) - c.type(0).dtype.range[0]]
    if c.node.op == "Mul":
        za, zb = c.quant(0).zero[0], c.quant(1).zero[0]
        product = (x[0].astype(np.int32) - za) * (x[1].astype(np.int32) - zb)
        return product_requant(c)(product[..., None])[..., 0].astype(c.y[0].dtype.numpy)
    return sum_requant(c)(x[0], x[1]).astype(c.y[0].dtype.numpy)


def table(c: Call, real: Real) -> np.ndarray:
    """All 256 results of an operator of one operand, indexed by stored value minus the type's least value."""
    low, high = c.type(0).dtype.range
    return as_written(c, real, np.arange(low, high + 1))


def as_written(c: Call, real: Real, *x: np.ndarray) -> np.ndarray:
    """Stored results of stored operands, by way of the float32 numbers that they stand for, as the model has it."""
    if c.node.op == "Table":
        return np.asarray(c.attrs.values, c.y[0].dtype.numpy)[x[0].astype(np.int64) - c.type(0).dtype.range[0]]
    numbers = [(v.astype(np.int64) - c.quant(i).zero[0]).astype(np.float32) * np.float32(c.quant(i).scale[0])
               for i, v in enumerate(x)]
    q, y = c.y_quant, c.y[0].dtype
    return quantise(real(c, *numbers), np.float32(q.scale[0]), np.int64(q.zero[0]), *y.range).astype(y.numpy)


def sum_requant(c: Call) -> SumRequant:
    """Add and Sub."""
    a, b, y = c.quant(0), c.quant(1), c.y_quant
    sign = -1.0 if c.node.op == "Sub" else 1.0
    return SumRequant(c.requant, (a.scale[0] / y.scale[0], sign * b.scale[0] / y.scale[0]),
                      (a.zero[0], b.zero[0]), y.zero[0], *c.y[0].dtype.range)


def product_requant(c: Call) -> Requant:
    """Mul; a product of two differences of 8-bit values stays below 2**16."""
    a, b, y = c.quant(0), c.quant(1), c.y_quant
    return requant(c.requant, a.scale[0], b.scale, y.scale[0], y.zero[0], c.y[0].dtype.range, (1 << 16,))


def integer(c: Call) -> str:
    """One operand: always, as a table. Two: Add, Sub and Mul of operands of one type."""
    types = [*c.x, c.y[0]]
    if not all(t is not None and t.dtype.is_quantised and t.quant and t.quant.per_tensor for t in types):
        return "all tensors must be 8 bit with one scale"
    if len(c.x) == 1:
        return ""
    if c.node.op not in ("Add", "Sub", "Mul") or len(c.x) != 2:
        return f"{c.node.op} has no integer form"
    if c.type(0).dtype != c.type(1).dtype:
        return "the operands have different types"
    return "" if c.node.op == "Mul" else sum_requant(c).problem()


def scalar(c: Call, real: Real) -> Scalar:
    """The C expression of one stored element."""
    if len(c.x) == 1:
        return _unary(c, real)
    za, zb = (literal(c.quant(i).zero[0], DType.I32) for i in (0, 1))
    if c.node.op == "Mul":
        return tiling.finish(product_requant(c), value=f"({{a}} - {za}) * ({{b}} - {zb})",
                            words=f"f2c_words_product({{a}}, {za}, {{b}}, {zb})")
    s = sum_requant(c)
    zero, limits = literal(s.zero, DType.I32), (s.low, s.high)
    if s.mode == "float":
        fa, fb = (literal(v, DType.F32) for v in s.scale)
        return Scalar(f"f2c_add_float({{a}} - {za}, {{b}} - {zb}, {fa}, {fb}, {s.low - s.zero}, {s.high - s.zero}) "
                      f"+ {zero}", limits=limits)
    ma, mb, k = (literal(n, DType.I32) for n in s.constants)
    return Scalar(f"((({{a}} * {ma}) + {k} + ({{b}} * {mb})) >> {s.shift}) + {zero}", limits=limits, limited=_narrowed(c, s),
                  words=f"f2c_words_weigh({{a}}, {ma}, {{b}}, {mb}, {k}, {s.shift}, {zero})")


def _narrowed(c: Call, s: SumRequant) -> dict[tuple[int, int], str]:
    """The sum with the zero point in front of the shift, which then saturates; none where that could leave 32 bits."""
    ma, mb, k = s.constants
    offset = k + (s.zero << s.shift)
    (a_low, a_high), (b_low, b_high) = (sorted(v * m for v in c.type(i).dtype.range) for i, m in ((0, ma), (1, mb)))
    ends = (offset, a_low + offset, a_high + offset, a_low + offset + b_low, a_high + offset + b_high)
    if max(ends) >= 2 ** 31 or min(ends) < -2 ** 31:
        return {}
    text = "({{a}} * {}) + {} + ({{b}} * {}), {}".format(*(literal(n, DType.I32) for n in (ma, offset, mb)), s.shift)
    return {t.range: f"f2c_narrow_{name}({text})"
            for t, name in SUFFIX.items()}


def _unary(c: Call, real: Real) -> Scalar:
    """A clamp where it is one, else a table."""
    x, y = c.type(0), c.y[0]
    values = table(c, real)
    if x.quant == y.quant and x.dtype == y.dtype:
        low, high = int(values.min()), int(values.max())
        stored = np.arange(x.dtype.range[0], x.dtype.range[1] + 1)
        if np.array_equal(values, np.clip(stored, low, high)):
            return Scalar(f"f2c_clamp_s32({{a}}, {low}, {high})", clamp=(low, high))
    least = literal(x.dtype.range[0], DType.I32)
    return Scalar(f"{{t_lut}}[{{a}} - {least}]", {"lut": values},
                  words=f"f2c_words_table_{SUFFIX[y.dtype]}({{t_lut}}, {{a}}, {least})")
