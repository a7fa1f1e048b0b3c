"""CumSum, CumProd: running sums and products along an axis."""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import lines, scalars
from fuse2c.kernels.scalars import BINARY, literal
from fuse2c.op import Call, Kernel, Op, Source, Spec
from fuse2c.ops.shapes import axis_of, shape_of, whole_numbers

ROWS = {"CumSum": ("Add", 0), "CumProd": ("Mul", 1)}


@dataclass(frozen=True, slots=True)
class Attrs:
    """Axis; without the element itself; from the end."""

    axis: int
    exclusive: bool
    reverse: bool


def from_onnx(src: Source) -> None:
    """Both; the axis is a parameter."""
    axis = axis_of(src, whole_numbers(src.const(1, "axis"))[0], len(shape_of(src)))
    attrs = Attrs(axis, bool(src.attrs.get("exclusive", 0)), bool(src.attrs.get("reverse", 0)))
    src.node(src.op, attrs, src.inputs[:1])


def infer(c: Call) -> list[TensorType]:
    """As x."""
    return [replace(c.type(0), quant=None, order=())]


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """numpy's own, shifted by one where the element itself does not count."""
    a, (op, start) = c.attrs, ROWS[c.node.op]
    line = np.moveaxis(x, a.axis, -1)
    line = line[..., ::-1] if a.reverse else line
    with np.errstate(all="ignore"):
        total = (np.cumsum if op == "Add" else np.cumprod)(line, axis=-1, dtype=x.dtype)
    if a.exclusive:
        total = np.concatenate([np.full_like(total[..., :1], start), total[..., :-1]], axis=-1)
    return [np.moveaxis(total[..., ::-1] if a.reverse else total, -1, a.axis)]


def spec(c: Call) -> Spec:
    """Loops over the lines."""
    x, y, a = c.type(0), c.y[0], c.attrs
    op, start = ROWS[c.node.op]
    n = x.shape[a.axis]
    nest = lines.around(x, a.axis, y)
    constants = {"COUNT": n, "FIRST": n - 1 if a.reverse else 0, "STEP": -1 if a.reverse else 1,
                 "X_STEP": x.strides[a.axis], "Y_STEP": y.strides[a.axis]}
    step = scalars.text(BINARY[op], x.dtype).replace("{a}", "acc").replace("{b}", "{x}[from + (i * X_STEP)]")
    return Spec(constants, by_rows=False, flags={
        "nest": nest, "from": nest.index[1], "to": nest.index[2], "start": literal(start, x.dtype), "step": step,
        "exclusive": a.exclusive})


def when(c: Call) -> str:
    """Numbers of 32 or 64 bits."""
    known = c.type(0).dtype in (DType.F32, DType.F64, DType.I32, DType.U32, DType.I64, DType.U64)
    return "" if known else f"no kernel for {c.type(0).dtype}"


OPS = tuple(Op(name=name, onnx={name: from_onnx}, infer=infer, reference=reference, layout="strided",
               kernels=(Kernel("cumulate", spec, when=when),)) for name in ROWS)
