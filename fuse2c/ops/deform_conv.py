"""DeformConv in two dimensions: a convolution whose taps lie where a tensor of offsets says, between pixels too.

x [N,C,H,W], w [O,C/group,KH,KW], offset [N,offset_group*KH*KW*2,OH,OW] (down, right), b [O],
mask [N,offset_group*KH*KW,OH,OW] -> [N,O,OH,OW]. Outside of x there are zeros.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import windowing
from fuse2c.kernels.tiling import Store
from fuse2c.kernels.windowing import Window
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work

PORTS = ("x", "w", "offset", "b", "mask")


@dataclass(frozen=True, slots=True)
class Attrs:
    """Where the windows lie before they are deformed; groups of channels with weights (and offsets) of their own."""

    window: Window
    group: int = 1
    offsets: int = 1


def from_onnx(src: Source) -> None:
    """DeformConv."""
    x, w = src.graph.type(src.inputs[0]), src.graph.type(src.inputs[1])
    if len(x.shape) != 4 or len(w.shape) != 4:
        raise src.refuse(f"a tensor of shape {x.shape}", hint="two spatial dimensions are supported")
    kernel = tuple(src.attrs.get("kernel_shape", w.shape[2:]))
    if kernel != w.shape[2:]:
        raise ShapeError(f"kernel_shape is {kernel}, the weights are {w.shape}", node=src.name, op=src.op)
    window = windowing.from_attrs(src, x.shape[2:], kernel)
    src.node("DeformConv", Attrs(window, src.attrs.get("group", 1), src.attrs.get("offset_group", 1)))


def infer(c: Call) -> list[TensorType]:
    """[N, O, OH, OW]."""
    x, w, a = c.type(0), c.type(1), c.attrs
    out = a.window.out(x.shape[2:])
    taps = a.offsets * prod(a.window.kernel)
    if w.shape[1] * a.group != x.shape[1] or w.shape[0] % a.group or x.shape[1] % a.offsets:
        raise ShapeError(f"weights {w.shape} in {a.group} groups for {x.shape[1]} channels", node=c.node.name,
                         op=c.node.op)
    for port, channels in ((2, 2 * taps), (4, taps)):
        wanted = (x.shape[0], channels, *out)
        if c.has(port) and c.type(port).shape != wanted:
            raise ShapeError(f"{PORTS[port]} has the shape {c.type(port).shape}, expected {wanted}", node=c.node.name,
                             op=c.node.op)
    return [TensorType(x.dtype, (x.shape[0], w.shape[0], *out))]


def reference(c: Call, x: np.ndarray, w: np.ndarray, offset: np.ndarray, b: np.ndarray | None = None,
              mask: np.ndarray | None = None) -> list[np.ndarray]:
    """Sampled in float64, rounded once."""
    a, (n, channels, height, width), (out_h, out_w) = c.attrs, x.shape, c.y[0].shape[2:]
    kh, kw = a.window.kernel
    by = offset.astype(np.float64).reshape(n, a.offsets, kh, kw, 2, out_h, out_w)
    base = [np.arange(o)[None, :] * s + np.arange(k)[:, None] * d - p for o, s, k, d, p in zip(
        (out_h, out_w), a.window.strides, (kh, kw), a.window.dilations, a.window.begin, strict=True)]
    down = by[:, :, :, :, 0] + base[0][None, None, :, None, :, None]
    right = by[:, :, :, :, 1] + base[1][None, None, None, :, None, :]
    share = channels // a.offsets
    image = np.arange(n)[:, None, None, None, None, None]
    taps = np.zeros((n, channels, kh, kw, out_h, out_w))
    for channel in range(channels):
        d, r = down[:, channel // share], right[:, channel // share]
        top, left = np.floor(d).astype(np.int64), np.floor(r).astype(np.int64)
        for i in range(2):
            for j in range(2):
                row, col = top + i, left + j
                inside = (row >= 0) & (row < height) & (col >= 0) & (col < width)
                weight = (1 - np.abs(d - row)) * (1 - np.abs(r - col))
                value = x[image[:, 0], channel, np.clip(row, 0, height - 1), np.clip(col, 0, width - 1)]
                taps[:, channel] += np.where(inside, weight * value, 0.0)
    return [_weighted(c, taps, w, b, mask).astype(x.dtype)]


def sums(c: Call, x: np.ndarray, w: np.ndarray, offset: np.ndarray, b: np.ndarray | None = None,
         mask: np.ndarray | None = None) -> list[np.ndarray]:
    """Every sample as large as the largest element: what the sums can reach wherever the offsets lead."""
    taps = np.full((*x.shape[:2], *c.attrs.window.kernel, *c.y[0].shape[2:]), float(x.max(initial=0.0)))
    return [_weighted(c, taps, w, b, mask)]


def _weighted(c: Call, taps: np.ndarray, w: np.ndarray, b: np.ndarray | None, mask: np.ndarray | None) -> np.ndarray:
    """The convolution of samples [N, C, KH, KW, OH, OW], in float64."""
    a, (n, channels, kh, kw, out_h, out_w) = c.attrs, taps.shape
    if mask is not None:
        taps = taps * np.repeat(mask.astype(np.float64).reshape(n, a.offsets, kh, kw, out_h, out_w),
                                channels // a.offsets, axis=1)
    groups = taps.reshape(n, a.group, channels // a.group, kh, kw, out_h, out_w)
    filters = w.astype(np.float64).reshape(a.group, w.shape[0] // a.group, -1, kh, kw)
    y = np.einsum("ngcklhw,gockl->ngohw", groups, filters).reshape(c.y[0].shape)
    return np.asarray(y if b is None else y + b.astype(np.float64).reshape(1, -1, 1, 1))


def work(c: Call) -> Work:
    """One multiply-accumulate, and some twenty operations of interpolation, for each tap."""
    taps = c.y[0].count * prod(c.type(1).shape[1:])
    return Work(macs=taps, alu=20 * taps)


def spec(c: Call) -> Spec:
    """Constants of the window; every operand may be constant."""
    x, y, a = c.type(0), c.y[0], c.attrs
    wide = x.dtype == DType.F64
    names = windowing.volume_constants(x, y, a.window)
    names |= {"GROUP_C": x.shape[1] // a.group, "GROUP_OUT": y.shape[1] // a.group, "OFFSETS": a.offsets,
              "OFFSET_C": x.shape[1] // a.offsets, "PIXELS": prod(y.shape[2:])}
    tables = {PORTS[i]: value.reshape(-1) for i in range(len(c.x)) if (value := c.constant(i)) is not None}
    flags = {"start": "{b}[oc]" if c.has(3) else "0", "sample": "f2c_bilinear_f64" if wide else "f2c_bilinear",
             "masked": " * {mask}[((taps + tap) * PIXELS) + pixel]" if c.has(4) else "",
             "store": Store("acc", "oc", "at")}
    return Spec(names, tables, by_rows=False, flags=flags)


def when(c: Call) -> str:
    """float32 and float64."""
    return "" if c.type(0).dtype in (DType.F32, DType.F64) else f"no kernel for {c.type(0).dtype}"


OP = Op(name="DeformConv", onnx={"DeformConv": from_onnx}, ports=PORTS, infer=infer, reference=reference, work=work,
        sums=sums, anchor=True, channel_axis=1, docs="2-D", kernels=(Kernel("deform_conv", spec, when=when),))
