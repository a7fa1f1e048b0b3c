"""Matrix products: Gemm and MatMul, float and 8-bit integer.

One IR operator: y[..., M, N] = alpha * a[..., M, K] @ b[..., K, N] + bias[N], with optional transposes of the last
two axes. With a constant b it is a dense layer and runs on the same matrix core as a pointwise convolution.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from fuse2c import quant
from fuse2c.errors import ShapeError
from fuse2c.ir.types import COMPUTE, CTYPE, DType, TensorType
from fuse2c.kernels import block_offers, dsp, dsp_product, fields, fp, mve, reals, skip_offers, tiling, vector
from fuse2c.kernels.dense import constant_matrix, dense, dense_when, pixels
from fuse2c.kernels.dense_int import (
    dsp_spec,
    dsp_when,
    fields_spec,
    is_alone,
    mve_spec,
    mve_when,
    single,
)
from fuse2c.kernels.scalars import unsigned
from fuse2c.op import Call, Contraction, Kernel, Op, RowWindow, Scalar, Source, Spec, Work
from fuse2c.quant import Requant

LONG = 32       # elements of a row from which on a dense layer takes its operand row by row


@dataclass(frozen=True, slots=True)
class Attrs:
    """Which operands are read transposed."""

    trans_a: bool = False
    trans_b: bool = False


def from_matmul(src: Source) -> None:
    """MatMul."""
    src.node("MatMul", Attrs())


def from_gemm(src: Source) -> None:
    """Gemm: alpha, beta and a bias that is not a vector become multiplications and an addition of their own."""
    alpha, beta = src.attrs.get("alpha", 1.0), src.attrs.get("beta", 1.0)
    attrs = Attrs(bool(src.attrs.get("transA", 0)), bool(src.attrs.get("transB", 0)))
    y = src.outputs[0]
    inputs, dtype = src.inputs[:2], src.graph.type(src.inputs[0]).dtype
    if not dtype.is_float and (alpha % 1 or beta % 1):
        raise src.refuse(f"alpha {alpha} or beta {beta} of {dtype}", hint="whole numbers are supported for integers")
    if alpha != 1.0:
        factor = src.graph.constant(f"{src.name}.alpha", np.asarray(alpha, dtype.numpy))
        scaled = src.graph.temporary(f"{y}.scaled")
        src.node("Mul", _no_attrs(), (inputs[0], factor), (scaled,))
        inputs = (scaled, inputs[1])
    if not src.has(2) or beta == 0.0:
        src.node("MatMul", attrs, inputs)
        return
    bias = src.inputs[2]
    if beta != 1.0:
        factor = src.graph.constant(f"{src.name}.beta", np.asarray(beta, dtype.numpy))
        bias = src.graph.temporary(f"{y}.bias")
        src.node("Mul", _no_attrs(), (src.inputs[2], factor), (bias,))
    columns = src.graph.type(inputs[1]).shape[0 if attrs.trans_b else 1]
    if src.graph.type(bias).shape == (columns,):
        src.node("MatMul", attrs, (*inputs, bias))
        return
    product = src.graph.temporary(f"{y}.product")
    src.node("MatMul", attrs, inputs, (product,))
    src.node("Add", _no_attrs(), (product, bias))


def _no_attrs() -> object:
    from fuse2c.ops.elementwise import Attrs as Elementwise
    return Elementwise()


def infer(c: Call) -> list[TensorType]:
    """numpy's matmul rules."""
    a, b = _turned(c.type(0).shape, c.attrs.trans_a), _turned(c.type(1).shape, c.attrs.trans_b)
    if not a or not b:
        raise ShapeError("a scalar in a matrix product", node=c.node.name, op="MatMul")
    k = b[-2] if len(b) > 1 else b[0]
    if a[-1] != k:
        raise ShapeError(f"inner dimensions differ: {a} x {b}", node=c.node.name, op="MatMul",
                         hint="do the shapes bound by --dim fit together?")
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    return [TensorType(c.type(0).dtype, (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ())))]


def _turned(shape: tuple[int, ...], transposed: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if transposed and len(shape) > 1 else shape


def reference(c: Call, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> list[np.ndarray]:
    """Exact for integers; float32 sums in float32."""
    a = np.swapaxes(a, -1, -2) if c.attrs.trans_a else a
    b = np.swapaxes(b, -1, -2) if c.attrs.trans_b else b
    if not c.quantised:
        y = np.matmul(a, b)
        return [y if bias is None else y + bias]
    w = tiling.centred(b, c.quant(1), b.ndim - 1)
    acc = np.matmul(a.astype(np.float64) - c.quant(0).zero[0], w.astype(np.float64)).astype(np.int64)
    r = requant(c) if constant_matrix(c) else tiling.requant(c, c.quant(1), w.T, bias)
    return [r(acc + (0 if bias is None else bias.astype(np.int64))).astype(c.y[0].dtype.numpy)]


def requant(c: Call) -> Requant:
    """The requantisation of sums of products of any two stored operands."""
    a, b, y = c.quant(0), c.quant(1), c.y_quant
    return quant.requant(c.requant, a.scale[0], b.scale, y.scale[0], y.zero[0], c.y[0].dtype.range, (reach(c),))


def reach(c: Call) -> int:
    """What no sum of products of stored operands (less their zero points), and the bias, exceeds."""
    depth, bias = _turned(c.type(0).shape, c.attrs.trans_a)[-1], c.constant(2)
    farthest = [max(abs(v - zero) for zero in c.quant(port).zero for v in c.type(port).dtype.range) for port in (0, 1)]
    return depth * farthest[0] * farthest[1] + (0 if bias is None else int(np.abs(bias.astype(np.int64)).max()))


def work(c: Call) -> Work:
    """M * N * K."""
    return Work(macs=c.y[0].count * _turned(c.type(0).shape, c.attrs.trans_a)[-1], alu=4 * c.y[0].count)


def integer(c: Call) -> str:
    """8-bit operands, the left one per tensor, the right one per tensor or per column."""
    a, b, y = c.type(0), c.type(1), c.y[0]
    if not (a.dtype.is_quantised and b.dtype.is_quantised and y.dtype.is_quantised):
        return "activations and weights must be 8 bit"
    if b.quant is None or a.quant is None or y.quant is None:
        return "a tensor has no scale"
    if constant_matrix(c) and (reach(c) >= 2 ** 31 or (c.has(2) and c.constant(2) is None)):
        return "a sum may not fit into 32 bits, or the bias is variable"
    if not a.quant.per_tensor or not y.quant.per_tensor:
        return "activations must have one scale"
    column = 0 if c.attrs.trans_b else len(b.shape) - 1
    # A vector on the right has no columns: its scales lie along the sum.
    columns = len(b.shape) > 1 and b.quant.axis == column
    return "" if b.quant.per_tensor or columns else "weight scales must be per column"


def dense_spec(c: Call) -> Spec:
    """A pointwise convolution over M pixels of K channels."""
    flat, bias, finish = dense(c)
    depth, columns = flat.shape[1], flat.shape[0]
    rows = c.type(0).count // depth
    tile, block = (1, 4) if rows == 1 else (2, 4 if c.type(0).dtype.is_float else 2)
    return Spec(constants=pixels(rows, depth, columns) | {"TILE": tile}, tables={"w": tiling.pack(flat, block), "b": bias},
                finish=finish, by_rows=True,
                flags={"rowwise": True, "tile": tiling.tile(tile, tiling.blocks(columns, block), "{oc}", 1), "groups": 1})


def fp_when(c: Call) -> str:
    """A dense layer of float32."""
    return dense_when(c) or ("" if c.type(0).dtype == DType.F32 else "not float32")


def fp_spec(c: Call, core: ModuleType) -> Spec:
    """A pointwise convolution over M pixels of K channels; core: _fp or reals."""
    flat, bias, _ = dense(c)
    columns, depth = flat.shape
    found = core.runs(rows := c.type(0).count // depth)
    flags = core.flags(columns, 1, depth, depth, found, (1, columns))
    return Spec(constants=pixels(rows, depth, columns), tables=core.tables(flat, bias, found), effort=core.effort(flags, 1),
                flags=flags | {"rowwise": True})


def vector_when(c: Call) -> str:
    """A dense layer of float32, or of integers in whole fours whose weights fit into bytes."""
    return dense_when(c) or vector.why_not(c.type(0), dense(c)[0] if c.quantised else None)


def vector_spec(c: Call) -> Spec:
    """A pointwise convolution over M pixels of K channels."""
    flat, bias, finish = dense(c)
    depth, columns = flat.shape[1], flat.shape[0]
    rows = c.type(0).count // depth
    tables, own, flags = vector.dense(flat, bias, c.type(0).dtype, rows)
    return Spec(constants=pixels(rows, depth, columns) | own, tables=tables, finish=finish, by_rows=True, flags=flags)


def nest_form(c: Call) -> Contraction | str:
    """Rows of a floating matrix times a matrix."""
    if not c.type(0).dtype.is_float or c.type(0).dtype.is_half:
        return "a product of integers"
    if c.attrs.trans_a or len(c.type(0).shape) < 2 or len(c.type(1).shape) < 2:
        return "the left operand has no rows"
    return Contraction(c.attrs.trans_b)


def by_rows_when(c: Call) -> str:
    """One vector that is the rows of a tensor, one after the other, long enough that keeping the sums costs little."""
    if why := dense_when(c):
        return why
    depth = c.type(0).shape[-1]
    if c.type(0).count != depth or c.rows < 2 or depth % c.rows or depth // c.rows < LONG:
        return "the left operand is not one vector of long rows"
    return ""


def by_rows_spec(c: Call) -> Spec:
    """The sums of one row of the operand are added to those of the rows before."""
    flat, bias, finish = dense(c)
    columns, depth, block = flat.shape[0], flat.shape[1] // c.rows, 4
    packed = [tiling.pack(flat[:, i * depth:(i + 1) * depth], block) for i in range(c.rows)]
    acc = COMPUTE[c.y[0].dtype]
    return Spec(constants={"IN_H": c.rows, "DEPTH": depth, "GROUP_OUT": columns, "X_SH": depth},
                tables={"w": np.concatenate(packed), "b": bias}, finish=finish,
                scratch=columns * (8 if acc == "double" else 4), keeps=True, over_input=True, rows=c.rows, window=RowWindow(),
                flags={"tile": tiling.tile(1, tiling.blocks(columns, block), "{oc}", 1), "scratch_ctype": acc,
                       "store": tiling.Store("acc", "oc", "oc")})


def general_when(c: Call) -> str:
    """Floats and whole numbers."""
    return "" if c.type(0).dtype != "bool" else "no kernel for bool"


def general_spec(c: Call) -> Spec:
    """Both operands in memory, batches broadcast: one offset a batch and operand. Integers wrap around."""
    dtype = c.y[0].dtype
    if c.quantised:
        zero = c.quant(1).zero
        text = f" - ({zero[0]})" if len(zero) == 1 else " - {wz}[col]"
        spec = products(c, open_a="(", close_a=f" - ({c.quant(0).zero[0]}))", open_b="(", close_b=f"{text})")
        tables = {**spec.tables, "wz": np.asarray(zero, np.int32)} if len(zero) > 1 else spec.tables
        return replace(spec, finish=tiling.finish(requant(c), "col"), channel="col", tables=tables)
    if dtype.is_float:
        return products(c)
    wraps = unsigned(dtype)
    start = {"start": f"({wraps}){{b}}[col]"} if c.has(2) else {}
    return replace(products(c, open_a=f"({wraps})", open_b=f"({wraps})", **start), acc=wraps,
                   finish=Scalar(f"({COMPUTE[dtype]}){{a}}"))


def product_when(c: Call) -> str:
    """Two matrices of integers in memory."""
    if not c.quantised or len(c.type(0).shape) < 2:
        return "no matrices of integers"
    return dsp_product.why_not(c, {**products(c).constants})


def product_spec(c: Call) -> Spec:
    """Four columns at a time."""
    return dsp_product.spec(c, products(c), requant(c))


def _matrix_strides(t: TensorType, transposed: bool, right: bool) -> tuple[int, int]:
    """Strides along the rows and along the columns of an operand as it is multiplied; a vector is one row, or column."""
    if len(t.shape) < 2:
        return (t.strides[0], 0) if right else (0, t.strides[0])
    row, column = t.strides[-2:]
    return (column, row) if transposed else (row, column)


def orders(c: Call) -> str:
    """The matrix core reads whole rows; the general kernel reads and writes any order."""
    return "row-major" if c.quantised or not dense_when(c) else "strided"


def products(c: Call, **flags: Any) -> Spec:
    """The general kernel; flags say how an element enters a product."""
    a, b, y = c.type(0), c.type(1), c.y[0]
    sa, sb = _turned(a.shape, c.attrs.trans_a), _turned(b.shape, c.attrs.trans_b)
    m, n = (sa[-2] if len(sa) > 1 else 1), (sb[-1] if len(sb) > 1 else 1)
    k = sa[-1]
    batch = y.shape[:len(y.shape) - (len(sa) > 1) - (len(sb) > 1)]
    count = prod(batch)

    def offsets(t: TensorType, axes: int) -> np.ndarray:
        """Where the matrix of each element of the batch starts."""
        own = sum((np.arange(size).reshape([-1 if i == axis else 1 for i in range(axes)]) * t.strides[axis]
                   for axis, size in enumerate(t.shape[:axes])), np.zeros((1,) * axes, np.int64))
        return np.broadcast_to(own, batch).reshape(-1).astype(np.int32)
    (a_row, a_col), (b_row, b_col) = _matrix_strides(a, c.attrs.trans_a, False), _matrix_strides(b, c.attrs.trans_b, True)
    names = {"BATCH": count, "M": m, "N": n, "K": k, "A_SM": a_row, "A_SK": a_col, "B_SK": b_row, "B_SN": b_col,
             "Y_SM": y.strides[len(batch)] if len(sa) > 1 else 0, "Y_SN": y.strides[-1] if len(sb) > 1 else 0}
    tables = {"a_at": offsets(a, max(len(a.shape) - 2, 0)), "w_at": offsets(b, max(len(b.shape) - 2, 0)),
              "y_at": offsets(y, len(batch))}
    constants = {port: c.constant(i) for port, i in (("x", 0), ("w", 1), ("b", 2)) if c.constant(i) is not None}
    tables |= {port: value.reshape(-1) for port, value in constants.items() if value is not None}
    text = {"start": "{b}[col]" if c.has(2) else "0", "store": tiling.Store("acc", "col", "at"),
            "wtype": CTYPE[b.dtype], "open_a": "", "close_a": "", "open_b": "", "close_b": ""}
    return Spec(constants=names, tables=tables, by_rows=False, flags=text | flags)


OP = Op(
    name="MatMul", onnx={"MatMul": from_matmul, "Gemm": from_gemm}, ports=("x", "w", "b"), infer=infer,
    reference=reference, work=work, integer=integer, layout=orders, anchor=True, channel_axis=-1, nest=nest_form,
    kernels=(*block_offers.kernels(strided=False),
             *skip_offers.kernels(strided=False),
             Kernel("conv_vec", vector_spec, when=vector_when, needs=vector.NEEDS),
             Kernel("dense_rows", by_rows_spec, when=by_rows_when),
             Kernel("pointwise_mve", mve_spec, when=mve_when, needs=mve.NEEDS),
             Kernel("dense_dsp", dsp_spec(0), when=single, needs=dsp.NEEDS),
             *(Kernel("pointwise_dsp", dsp_spec(n), when=dsp_when, needs=dsp.NEEDS) for n in dsp.TILES),
             Kernel("dense_dsp", dsp_spec(0), when=dsp_when, needs=dsp.NEEDS),
             *(Kernel("dense_fields", fields_spec(0, core), when=is_alone, needs=core.needs) for core in fields.CORES),
             *(Kernel("pointwise_fields", fields_spec(n, core), when=dsp_when, needs=core.needs)
               for core in fields.CORES for n in fields.TILES),
             *(Kernel("pointwise_fp", partial(fp_spec, core=core), when=fp_when, needs=core.NEEDS) for core in (reals, fp)),
             Kernel("pointwise", dense_spec, when=dense_when),
             Kernel("matmul_dsp", product_spec, when=product_when, needs=dsp.NEEDS),
             Kernel("matmul", general_spec, when=general_when)),
)
