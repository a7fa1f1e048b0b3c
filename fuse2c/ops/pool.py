"""Pooling over one or two spatial dimensions: maximum and average; float and 8-bit integer.

Global pools and ReduceMean over all spatial axes are windows of the whole plane.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from fuse2c import quant
from fuse2c.errors import ShapeError
from fuse2c.ir.types import CTYPE, DType, TensorType
from fuse2c.ops import _tile, _window
from fuse2c.ops._tile import Store
from fuse2c.ops._window import Window
from fuse2c.ops.base import Call, Kernel, Op, Scalar, Source, Spec, Work
from fuse2c.ops._scalars import literal
from fuse2c.quant import Requant, quantise


@dataclass(frozen=True, slots=True)
class Attrs:
    """Where the windows lie; whether padding counts in an average."""

    window: Window
    count_include_pad: bool = False


def from_onnx(src: Source) -> None:
    """MaxPool, AveragePool."""
    x = src.graph.type(src.inputs[0])
    kernel = tuple(src.attrs["kernel_shape"])
    if len(kernel) not in (1, 2) or len(x.shape) != len(kernel) + 2:
        raise src.refuse(f"{len(kernel)}-D pooling of a tensor of shape {x.shape}")
    if len(src.outputs) > 1 and src.outputs[1]:
        raise src.refuse("the second output (indices)")
    window = _window.from_attrs(src, x.shape[2:], kernel)
    src.node(src.op, Attrs(window, bool(src.attrs.get("count_include_pad", 0))), outputs=src.outputs[:1])


def from_global(src: Source) -> None:
    """GlobalAveragePool, GlobalMaxPool."""
    x = src.graph.type(src.inputs[0])
    if len(x.shape) not in (3, 4):
        raise src.refuse(f"global pooling of a tensor of shape {x.shape}")
    src.node(src.op.removeprefix("Global"), Attrs(whole(x.shape)))


def whole(shape: tuple[int, ...]) -> Window:
    """One window over all of the spatial axes."""
    size, rank = shape[2:], len(shape) - 2
    return Window(size, size, (0,) * (2 * rank), (1,) * rank)


def infer(c: Call) -> list[TensorType]:
    """[N, C, out...]."""
    x = c.type(0)
    out = c.attrs.window.out(x.shape[2:])
    if min(out) < 1:
        raise ShapeError(f"the window does not fit into the input: output would be {out}", node=c.node.name,
                         op=c.node.op)
    return [TensorType(x.dtype, (*x.shape[:2], *out), x.quant if c.node.op == "MaxPool" else None)]


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """Maximum, or mean over the elements that count.

    The mean of 8-bit integers is what the Q/DQ graph says: float32 values, summed row by row, divided, quantised.
    """
    t, window, y = c.type(0), c.attrs.window, c.y[0]
    out = y.shape[2:]
    axes = tuple(range(-len(out), 0))
    if c.node.op == "MaxPool":
        least = -np.inf if t.dtype.is_float else t.dtype.range[0]
        return [_window.windows(x, window, least, out).max(axis=axes)]
    real = x
    if c.quantised:
        real = (x.astype(np.int32) - c.quant(0).zero[0]).astype(np.float32) * np.float32(c.quant(0).scale[0])
    taps = _window.windows(real, window, 0, out).reshape(*y.shape, -1)
    sums = np.zeros(y.shape, real.dtype)
    for i in range(taps.shape[-1]):
        sums += taps[..., i]
    mean = sums / divisors(c).astype(real.dtype)
    if not c.quantised:
        return [mean]
    return [quantise(mean, np.float32(c.y_quant.scale[0]), np.int64(c.y_quant.zero[0]), *y.dtype.range).astype(y.dtype.numpy)]


def divisors(c: Call) -> np.ndarray:
    """How many elements each output averages, [out...]."""
    window, x = c.attrs.window, c.type(0)
    out = c.y[0].shape[2:]
    per_axis = []
    rank = len(out)
    for i, o in enumerate(out):
        n = x.shape[2 + i]
        start = np.arange(o) * window.strides[i] - window.pads[i]
        taps = start[:, None] + np.arange(window.kernel[i]) * window.dilations[i]
        inside = (taps >= 0) & (taps < n)
        if c.attrs.count_include_pad:
            inside = (taps >= -window.pads[i]) & (taps < n + window.pads[rank + i])
        per_axis.append(inside.sum(axis=1))
    return per_axis[0] if rank == 1 else per_axis[0][:, None] * per_axis[1][None, :]


def same_count(c: Call) -> int:
    """The number of elements that every output averages; 0 if it varies."""
    counts = divisors(c)
    return int(counts.flat[0]) if counts.min() == counts.max() else 0


def requant(c: Call) -> Requant:
    """s_x / (s_y * count) for the one count, or for each possible count 1..KH*KW."""
    x, y = c.quant(0), c.y_quant
    counts = [same_count(c)] if same_count(c) else range(1, prod(c.attrs.window.kernel) + 1)
    return quant.requant(c.requant, x.scale[0], tuple(1.0 / n for n in counts), y.scale[0], y.zero[0],
                         c.y[0].dtype.range)


def integer_sum(c: Call) -> str:
    """Whether integer arithmetic gives the same mean for every input; else the sum that comes too close to a tie.

    The float32 result is within (n + 4) eps / 2 of the sum of magnitudes; where no sum of n stored values lies that
    close to a tie, and the fixed-point multiplier rounds each of them alike, both kernels are equal.
    """
    t = c.type(0)
    if not c.quantised:
        return "it averages floats"
    x, y = c.quant(0), c.y_quant
    low, high = t.dtype.range[0] - x.zero[0], t.dtype.range[1] - x.zero[0]
    counts = sorted(set(divisors(c).reshape(-1).tolist()))
    r = requant(c)
    for n in counts:
        sums = np.arange(n * low, n * high + 1)
        exact = sums * (x.scale[0] / y.scale[0] / n)
        magnitude = np.abs(exact) if low >= 0 or high <= 0 else np.full(len(sums), np.abs(exact).max())
        inside = (exact > r.low - r.zero - 1) & (exact < r.high - r.zero + 1)
        close = np.abs(exact - np.floor(exact) - 0.5) <= (n + 4) * 2.0 ** -24 * magnitude
        column = 0 if len(r.scale) == 1 else n - 1
        got = r(np.repeat(sums[:, None], len(r.scale), 1) if len(r.scale) > 1 else sums[:, None])[:, column]
        bad = inside & close | (got != np.clip(np.rint(exact) + r.zero, r.low, r.high))
        if bad.any():
            return f"a sum of {sums[bad][0]} over {n} elements is too close to a tie"
    return ""


def work(c: Call) -> Work:
    """One operation per window element."""
    return Work(alu=c.y[0].count * prod(c.attrs.window.kernel))


def integer(c: Call) -> str:
    """One scale per tensor; a maximum keeps it."""
    x, y = c.type(0), c.y[0]
    if not (x.dtype.is_quantised and y.dtype.is_quantised and x.quant and y.quant
            and x.quant.per_tensor and y.quant.per_tensor):
        return "all tensors must be 8 bit with one scale"
    if c.node.op == "MaxPool" and (x.quant != y.quant or x.dtype != y.dtype):
        return "a maximum keeps the scale"
    return ""


def max_spec(c: Call) -> Spec:
    """Constants of the window."""
    x, names = c.type(0), _window.constants(c, c.attrs.window)
    least = "-F2C_INFINITY" if x.dtype.is_float else str(x.dtype.range[0])
    store = Store("acc", "", _tile.index("at", "c", c.y[0].strides[1]))
    return Spec(names, rows=names["OUT_H"], images=x.shape[0], acc=CTYPE[x.dtype],
                flags={"least": least, "store": store})


def average_spec(c: Call, integer: bool) -> Spec:
    """Constants of the window; how a term enters the sum, and how the sum becomes an element."""
    x, y, names = c.type(0), c.y[0], _window.constants(c, c.attrs.window)
    window = c.attrs.window
    names |= {"PAD_BOTTOM": window.pads[len(window.kernel)],
              "PAD_RIGHT": window.pads[-1] if len(window.kernel) > 1 else 0}
    fixed = same_count(c)
    store = Store("acc", str(fixed or "n"), _tile.index("at", "c", y.strides[1]))
    flags = {"count": fixed, "include_pad": c.attrs.count_include_pad, "store": store, "term_open": "", "term_close": ""}
    finish, acc = Scalar("({a} / (float)n)"), ""
    if c.quantised:
        zero = c.quant(0).zero[0]
        flags["term_close"] = f" - ({zero})"
        if integer:
            finish = _tile.finish(requant(c), "n - 1")
        else:
            acc = "float"
            flags |= {"term_open": "(float)(", "term_close": f" - ({zero})) * {literal(c.quant(0).scale[0], DType.F32)}"}
            low, high = y.dtype.range
            finish = Scalar(f"f2c_quantise({{a}} / (float)n, {literal(c.y_quant.scale[0], DType.F32)}, "
                            f"{c.y_quant.zero[0]}, {low}, {high})")
    return Spec(names, finish=finish, flags=flags, rows=names["OUT_H"], images=x.shape[0], acc=acc, channel="n")


def when(c: Call) -> str:
    """float32, or 8-bit integers."""
    t = c.type(0)
    if t.dtype.is_float:
        return ""
    if c.node.op == "MaxPool":
        return "" if not t.dtype.is_half and t.dtype != "bool" else f"no kernel for {t.dtype}"
    return integer(c) if c.quantised else f"no kernel for {t.dtype}"


OPS = (
    Op(name="MaxPool", onnx={"MaxPool": from_onnx, "GlobalMaxPool": from_global}, infer=infer, reference=reference,
       work=work, integer=integer, layout="spatial", moves=True, anchor=True, docs="1-D and 2-D; no indices",
       kernels=(Kernel("max_pool", max_spec, when=when),)),
    Op(name="AveragePool", onnx={"AveragePool": from_onnx, "GlobalAveragePool": from_global}, infer=infer,
       reference=reference, work=work, integer=integer, layout="spatial", anchor=True, docs="1-D and 2-D",
       kernels=(Kernel("average_pool", partial(average_spec, integer=True), when=lambda c: when(c) or integer_sum(c)),
                Kernel("average_pool", partial(average_spec, integer=False), when=when))),
)
