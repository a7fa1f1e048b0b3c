"""Softmax and its relatives over one axis (opset 13) or over all axes from one on (before); float and 8-bit integer.

Integer: exp(s * (x - max)) in Q(K) is a product of two of 32 factors, for the sixteens and for the rest of the
difference; where there are many elements, all 256 products are a table. The sum is divided out once a row by a division
of constant length, so that the kernel takes one path for all inputs.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels.parts import Parts
from fuse2c.kernels.scalars import compute
from fuse2c.op import Call, Expansion, Kernel, Op, Source, Spec, Work
from fuse2c.ops import loop_nest
from fuse2c.ops.elementwise import Attrs as Elementwise
from fuse2c.ops.movement import Shape
from fuse2c.ops.reduce import Attrs as Axes

EXP_BITS = 23           # K at most: entries of the exponential table are at most 2**K
SUM_BITS = 31           # the sum of a row stays below 2**31
FACTOR_BITS = 31        # factors of the exponential are in Q31
WORD = 32               # bits
FEW = 64                # elements up to which 900 bytes of table are dearer than 15 instructions an element
MANY = 256              # elements from which on loops are unrolled


@dataclass(frozen=True, slots=True)
class Attrs:
    """The axis over which the outputs sum to one."""

    axis: int


def from_onnx(src: Source) -> None:
    """Softmax, LogSoftmax, Hardmax."""
    shape = src.graph.type(src.inputs[0]).shape
    axis = src.attrs.get("axis", -1 if src.opset >= 13 else 1)
    axis += len(shape) if axis < 0 else 0
    if src.opset >= 13 or axis == len(shape) - 1:
        src.node(src.op, Attrs(axis))
        return
    flat, soft = (src.graph.temporary(f"{src.outputs[0]}.{part}") for part in ("flat", "soft"))
    src.node("Reshape", Shape((prod(shape[:axis]), prod(shape[axis:]))), src.inputs, (flat,))
    src.node(src.op, Attrs(1), (flat,), (soft,))
    src.node("Reshape", Shape(shape), (soft,))


def infer(c: Call) -> list[TensorType]:
    """The shape of x."""
    return [TensorType(c.type(0).dtype, c.type(0).shape)]


def exp_bits(n: int) -> int:
    """K for rows of n elements."""
    return min(EXP_BITS, SUM_BITS - 1 - max(n - 1, 1).bit_length())


def exp_factors(scale: float) -> np.ndarray:
    """exp(-scale * d) in Q31, uint32: for d = 0, 16 .. 240, then for d = 0 .. 15."""
    d = np.concatenate([16.0 * np.arange(16), np.arange(16.0)])
    return np.rint(np.exp(-scale * d) * 2.0 ** FACTOR_BITS).astype(np.uint32)


def exp_shift(n: int) -> int:
    """By how many bits a product of two factors has more than Q(K)."""
    return 2 * FACTOR_BITS - exp_bits(n)


def exp_table(scale: float, n: int) -> np.ndarray:
    """exp(-scale * d) in Q(K) for d = 0..255, uint32: products of factors, rounded."""
    upper, lower = np.split(exp_factors(scale).astype(np.int64), 2)
    products = np.outer(upper, lower).reshape(-1) + (1 << (exp_shift(n) - 1))
    return (products >> exp_shift(n)).astype(np.uint32)


def numerator(scale: float, n: int) -> tuple[int, int]:
    """(value, T): value = round(2**T / scale) * 2**K, T such that the first factor lies in [2**29, 2**30]."""
    t = 30 - math.ceil(math.log2(1.0 / scale))
    return round(2.0 ** t / scale) << exp_bits(n), t


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """Floats as defined; integers as the module says."""
    axis, y = c.attrs.axis, c.y[0]
    top = x.max(axis=axis, keepdims=True)
    if not c.quantised:
        wide = x.astype(compute(c.type(0).dtype))
        with np.errstate(all="ignore"):
            return [_real(c.node.op, wide, wide.max(axis=axis, keepdims=True), axis).astype(x.dtype)]
    n = x.shape[axis]
    e = exp_table(c.quant(0).scale[0], n)[top.astype(np.int32) - x].astype(np.int64)
    value, shift = numerator(c.y_quant.scale[0], n)
    inverse = value // e.sum(axis=axis, keepdims=True)
    bits = exp_bits(n) + shift
    stored = ((e * inverse + (1 << (bits - 1))) >> bits) + c.y_quant.zero[0]
    return [np.clip(stored, *y.dtype.range).astype(y.dtype.numpy)]


def _real(op: str, x: np.ndarray, top: np.ndarray, axis: int) -> np.ndarray:
    """The three operators on numbers of their compute type."""
    if op == "Hardmax":
        return np.asarray(np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
                          == x.argmax(axis=axis, keepdims=True))
    e = np.exp(x - top)
    total = e.sum(axis=axis, keepdims=True, dtype=x.dtype)
    return np.asarray(x - top - np.log(total) if op == "LogSoftmax" else e / total)


def work(c: Call) -> Work:
    """An exponential, a sum and a product an element."""
    return Work(alu=12 * c.y[0].count)


def integer(c: Call) -> str:
    """One scale per tensor, rows of at most 2**16 elements, output scale at most 1."""
    x, y = c.type(0), c.y[0]
    if not (x.dtype.is_quantised and y.dtype.is_quantised and x.quant and y.quant
            and x.quant.per_tensor and y.quant.per_tensor):
        return "all tensors must be 8 bit with one scale"
    if x.shape[c.attrs.axis] > 1 << 16:
        return "the row is longer than 65536"
    return "" if 2.0 ** -16 <= y.quant.scale[0] <= 1.0 else f"output scale {y.quant.scale[0]:.3g}"


def spec(c: Call) -> Spec:
    """Rows of LENGTH elements STEP apart; the axis splits the rest into OUTER and INNER."""
    x, y, axis = c.type(0), c.y[0], c.attrs.axis
    names = {"OUTER": prod(x.shape[:axis]), "LENGTH": x.shape[axis], "STEP": prod(x.shape[axis + 1:])}
    if not c.quantised:
        return Spec(names, by_rows=False)       # Hardmax
    value, shift = numerator(c.y_quant.scale[0], names["LENGTH"])
    names |= {"SHIFT": exp_bits(names["LENGTH"]) + shift, "ZERO": c.y_quant.zero[0], "LOW": y.dtype.range[0],
              "HIGH": y.dtype.range[1], "LEAST": x.dtype.range[0], "EXP_SHIFT": exp_shift(names["LENGTH"]), "LAST": 255}
    scale, few, narrow = c.quant(0).scale[0], x.count <= FEW, ""
    if (rest := names["SHIFT"] - WORD) > 0:     # the upper half of a product has all that counts
        narrow = "f2c_requant_s8" if y.dtype == DType.I8 else "f2c_requant_u8"
        names |= {"SHIFT": rest, "OFFSET": (c.y_quant.zero[0] << rest) + (1 << (rest - 1))}
    return Spec(names, {"exp": exp_factors(scale) if few else exp_table(scale, names["LENGTH"])[::-1]}, by_rows=False,
                scratch=4 * names["LENGTH"] if few else 0,
                flags={"numerator": value, "factors": few, "narrow": narrow, "scratch_ctype": "uint32_t",
                       "unroll": "F2C_UNROLL" if x.count > MANY else "F2C_UNROLL_BY(1)"})


def nest_form(c: Call) -> Expansion | str:
    """exp(x - max) / sum, or x - max - log(sum)."""
    t, x, over = c.type(0), c.node.inputs[0], Axes((c.attrs.axis,))
    if not t.dtype.is_float:
        return "a softmax of stored values"
    line = replace(t, shape=tuple(1 if i == c.attrs.axis else n for i, n in enumerate(t.shape)))
    parts, none = Parts(c.node.outputs[0]), Elementwise()
    less = parts.add("Sub", (x, parts.add("ReduceMax", (x,), over, line)), none, t)
    power = parts.add("Exp", (less,), none, t)
    total = parts.add("ReduceSum", (power,), over, line)
    if c.node.op == "LogSoftmax":
        parts.add("Sub", (less, parts.add("Log", (total,), none, line)), none, t, parts.base)
    else:
        parts.add("Div", (power, total), none, t, parts.base)
    return parts.done


def order(c: Call) -> str:
    """The loop nest reads and writes any order."""
    return "row-major" if c.quantised else "strided"


def float_when(c: Call) -> str:
    """float32 and float64."""
    return "" if c.type(0).dtype in ("float32", "float64") else f"no kernel for {c.type(0).dtype}"


def stored_when(c: Call) -> str:
    """Stored values that `integer` accepts."""
    return integer(c) if c.quantised else f"no kernel for {c.type(0).dtype}"


OPS = (
    Op(name="Softmax", onnx={"Softmax": from_onnx}, infer=infer, reference=reference, work=work, integer=integer,
       nest=nest_form, layout=order, kernels=(Kernel("loop_nest", loop_nest.spec, when=float_when),
                                                     Kernel("softmax_s8", spec, when=stored_when))),
    Op(name="LogSoftmax", onnx={"LogSoftmax": from_onnx}, infer=infer, reference=reference, work=work, nest=nest_form,
       layout="strided", kernels=(Kernel("loop_nest", loop_nest.spec, when=float_when),)),
    Op(name="Hardmax", onnx={"Hardmax": from_onnx}, infer=infer, reference=reference,
       kernels=(Kernel("hardmax", spec, when=float_when),)),
)
