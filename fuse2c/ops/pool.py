"""Pooling over one or two spatial dimensions: maximum and average; float and 8-bit integer.

Global pools and ReduceMean over all spatial axes are windows of the whole plane.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import TensorType
from fuse2c.ops import _tile, _window
from fuse2c.ops._window import Window
from fuse2c.ops.base import Call, Kernel, Op, Scalar, Source, Spec, Work
from fuse2c.quant import Requant


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
    """Maximum, or mean over the elements that count."""
    t, window = c.type(0), c.attrs.window
    out = c.y[0].shape[2:]
    axes = tuple(range(-len(out), 0))
    if c.node.op == "MaxPool":
        least = -np.inf if t.dtype.is_float else t.dtype.range[0]
        return [_window.windows(x, window, least, out).max(axis=axes)]
    counts = divisors(c)
    if t.quant is None:
        sums = _window.windows(x, window, 0, out).sum(axis=axes, dtype=x.dtype)
        return [(sums / counts.astype(x.dtype)).astype(x.dtype)]
    acc = _window.windows(x.astype(np.int64) - t.quant.zero[0], window, 0, out).sum(axis=axes)
    r = requant(c)
    done = r(np.repeat(acc[..., None], len(r.scale), axis=-1))
    index = np.broadcast_to(counts - 1 if len(r.scale) > 1 else 0, acc.shape)
    return [np.take_along_axis(done, index[..., None], -1)[..., 0].astype(c.y[0].dtype.numpy)]


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
    x, y = c.type(0).quant, c.y[0].quant
    assert x is not None and y is not None
    counts = [same_count(c)] if same_count(c) else range(1, prod(c.attrs.window.kernel) + 1)
    return Requant(c.requant, tuple(x.scale[0] / (y.scale[0] * n) for n in counts), y.zero[0], *c.y[0].dtype.range)


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


def spec(c: Call) -> Spec:
    """Constants of the window; for integer averages a multiplier for each count."""
    x = c.type(0)
    names = _window.constants(c, c.attrs.window)
    fixed = same_count(c) if c.node.op == "AveragePool" else 0
    store = _tile.Store("acc", str(fixed or "n"), _tile.index("at", "c", c.y[0].strides[1]))
    common: dict[str, Any] = {"rows": names["OUT_H"], "images": x.shape[0], "channel": "n"}
    if c.node.op == "MaxPool":
        least = "-F2C_INFINITY" if x.dtype.is_float else str(x.dtype.range[0])
        return Spec(names, flags={"least": least, "store": store}, **common)
    flags = {"count": fixed, "include_pad": c.attrs.count_include_pad,
             "store": store}
    names |= {"PAD_BOTTOM": c.attrs.window.pads[len(c.attrs.window.kernel)],
              "PAD_RIGHT": c.attrs.window.pads[-1] if len(c.attrs.window.kernel) > 1 else 0}
    if x.dtype.is_float:
        return Spec(names, finish=Scalar("({a} / (float)n)"), flags=flags | {"centre": ""}, **common)
    zero = x.quant.zero[0] if x.quant else 0
    flags["centre"] = f" - ({zero})" if zero else ""
    return Spec(names, finish=_tile.finish(requant(c), "n - 1"), flags=flags, **common)


def when(c: Call) -> str:
    """float32, or 8-bit integers."""
    t = c.type(0)
    if t.dtype.is_float:
        return ""
    if c.node.op == "MaxPool":
        return "" if t.dtype.is_quantised else f"no kernel for {t.dtype}"
    return integer(c) if t.dtype.is_quantised and t.quant else f"no kernel for {t.dtype}"


OPS = (
    Op(name="MaxPool", onnx={"MaxPool": from_onnx, "GlobalMaxPool": from_global}, infer=infer, reference=reference,
       work=work, integer=integer, layout="spatial", moves=True, anchor=True, kernels=(Kernel("max_pool", spec, when=when),),
       docs="1-D and 2-D; no indices"),
    Op(name="AveragePool", onnx={"AveragePool": from_onnx, "GlobalAveragePool": from_global}, infer=infer,
       reference=reference, work=work, integer=integer, layout="spatial", anchor=True,
       kernels=(Kernel("average_pool", spec, when=when),), docs="1-D and 2-D"),
)
