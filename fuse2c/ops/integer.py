"""ConvInteger and MatMulInteger: int32 sums of products of 8-bit integers less their zero points.

Zero points may be variable, as they are behind DynamicQuantizeLinear: one for the tensor, one for each row of the left
matrix, one for each output channel or column of the right operand.
"""
from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from fuse2c.errors import Overflow
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import volume, windowing
from fuse2c.op import Call, Kernel, Op, Source, Spec
from fuse2c.ops import conv, matmul
from fuse2c.ops.conv import Attrs


def from_conv(src: Source) -> None:
    """ConvInteger."""
    conv.from_onnx(src)


def from_matmul(src: Source) -> None:
    """MatMulInteger; also com.microsoft's."""
    src.node("MatMulInteger", matmul.Attrs())


def infer_conv(c: Call) -> list[TensorType]:
    """As Conv, in int32."""
    _check(c, prod(c.type(1).shape[1:]))
    plain = replace(c, x=c.x[:2], const=c.const[:2])
    return [replace(conv.infer(plain)[0], dtype=DType.I32)]


def infer_matmul(c: Call) -> list[TensorType]:
    """As MatMul, in int32."""
    _check(c, c.type(0).shape[-1])
    return [replace(matmul.infer(c)[0], dtype=DType.I32)]


def _check(c: Call, terms: int) -> None:
    """Raise Overflow where a sum may leave int32."""
    if terms * 255 * 255 >= 2 ** 31:
        raise Overflow(f"a sum of {terms} products may leave int32", node=c.node.name, op=c.node.op)


def centred(x: np.ndarray, zero: np.ndarray | None, rows: bool) -> np.ndarray:
    """x - zero in int32; zero points of one dimension belong to the axis before the last (`rows`) or to the last."""
    if zero is None:
        return x.astype(np.int32)
    shaped = zero.astype(np.int32)
    return np.asarray(x.astype(np.int32) - (shaped[..., None] if rows and zero.ndim == 1 and zero.size > 1 else shaped))


def conv_reference(c: Call, x: np.ndarray, w: np.ndarray, xz: np.ndarray | None = None, wz: np.ndarray | None = None
                   ) -> list[np.ndarray]:
    """Exact."""
    shape = (-1, *[1] * (w.ndim - 1))
    centre = w.astype(np.int32) - (0 if wz is None else wz.astype(np.int32).reshape(shape))
    real = x.astype(np.float64) - (0 if xz is None else xz.astype(np.float64).reshape(()))
    return [windowing.correlate(real, centre.astype(np.float64), c.attrs.window, c.attrs.group).astype(np.int32)]


def matmul_reference(c: Call, a: np.ndarray, b: np.ndarray, az: np.ndarray | None = None, bz: np.ndarray | None = None
                     ) -> list[np.ndarray]:
    """Exact."""
    return [np.asarray(np.matmul(centred(a, az, True), centred(b, bz, False)))]


def _zero(c: Call, port: int, name: str, index: str) -> tuple[str, dict[str, np.ndarray]]:
    """(C text that subtracts a zero point, its table)."""
    if not c.has(port):
        return "", {}
    value = c.constant(port)
    if value is not None and value.size == 1:
        return f" - ({int(value.reshape(-1)[0])})", {}
    at = "0" if c.type(port).count == 1 else index
    return f" - {{{name}}}[{at}]", {} if value is None else {name: value.reshape(-1)}


def conv_spec(c: Call) -> Spec:
    """The general convolution kernel."""
    a: Attrs = c.attrs
    text_x, _ = _zero(c, 2, "xz", "0")
    text_w, table = _zero(c, 3, "wz", "oc")
    plain = replace(c, x=c.x[:2], const=c.const[:2])
    spec = volume.spec(plain, a.window, c.constant(1), None, 1, groups=a.group, centre=text_x, centre_w=text_w)
    return replace(spec, tables={**spec.tables, **table})


def matmul_spec(c: Call) -> Spec:
    """The general matrix kernel."""
    m, n = (c.type(0).shape[-2:-1] or (1,))[0], c.type(1).shape[-1]
    batch = prod(c.y[0].shape) // (m * n)
    left, left_table = _zero(c, 2, "xz", _index(c, 2, m, batch, "line", "M"))
    right, right_table = _zero(c, 3, "wz", _index(c, 3, n, batch, "col", "N"))
    spec = matmul.products(replace(c, x=c.x[:2], const=c.const[:2]), open_a="(", close_a=f"{left})", open_b="(",
                           close_b=f"{right})")
    return replace(spec, tables={**spec.tables, **left_table, **right_table})


def _index(c: Call, port: int, extent: int, batch: int, var: str, name: str) -> str:
    """Where a row's or a column's zero point lies: the same in every batch, or its own."""
    return f"(n * {name}) + {var}" if c.has(port) and c.type(port).count == batch * extent and batch > 1 else var


def zeros_fit(c: Call) -> str:
    """One zero point, one for each row or column, or those of every batch."""
    shape, y = c.type(1).shape, c.y[0].shape
    if c.node.op == "ConvInteger":
        right, left = {1, shape[0]}, {1}
    else:
        m, n = (c.type(0).shape[-2:-1] or (1,))[0], shape[-1]
        left, right = {1, m, prod(y) // n}, {1, n, prod(y) // m}
    fits = all(not c.has(port) or c.type(port).count in counts for port, counts in ((2, left), (3, right)))
    return "" if fits else "zero points of another shape"


OPS = (
    Op(name="ConvInteger", onnx={"ConvInteger": from_conv}, ports=("x", "w", "xz", "wz"), infer=infer_conv,
       reference=conv_reference, work=conv.work, layout="spatial", anchor=True, docs="1-D to 3-D",
       kernels=(Kernel("conv_volume", conv_spec, when=zeros_fit),)),
    Op(name="MatMulInteger", onnx={"MatMulInteger": from_matmul}, ports=("x", "w", "xz", "wz"), infer=infer_matmul,
       reference=matmul_reference, work=matmul.work, anchor=True,
       kernels=(Kernel("matmul", matmul_spec, when=zeros_fit),)),
)
