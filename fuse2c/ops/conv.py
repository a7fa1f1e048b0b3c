"""Convolution in one to three spatial dimensions, with groups; float and 8-bit integer.

Logical layouts are ONNX's: x [N,C,H,W], w [O,C/group,KH,KW], b [O]. Integer: x and y 8 bit per tensor, w 8 bit per
tensor or per output channel, b int32 at scale s_x * s_w.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import TensorType
from fuse2c.ops import _conv_cores, _tile, _volume, _window
from fuse2c.ops._conv import (
    base_spec,
    block_size,
    has_accumulator,
    is_depthwise,
    is_pointwise,
    is_tiled,
    matrix,
    requant,
    unpadded,
)
from fuse2c.ops._tile import Store, index
from fuse2c.ops._window import Window
from fuse2c.ops.base import Call, Kernel, Op, Source, Spec, Work


@dataclass(frozen=True, slots=True)
class Attrs:
    """Where the windows lie, and into how many groups the channels are split."""

    window: Window
    group: int = 1


def from_onnx(src: Source) -> None:
    """Conv."""
    weights = src.graph.type(src.inputs[1])
    x = src.graph.type(src.inputs[0])
    rank = len(weights.shape) - 2
    if not 1 <= rank <= _volume.MAX_RANK or len(x.shape) != len(weights.shape):
        raise src.refuse(f"{rank}-D convolution of a tensor of shape {x.shape}", hint="1-D, 2-D and 3-D are supported")
    kernel = tuple(src.attrs.get("kernel_shape", weights.shape[2:]))
    if kernel != weights.shape[2:]:
        raise ShapeError(f"kernel_shape is {kernel}, the weights are {weights.shape}", node=src.name, op=src.op)
    window = _window.from_attrs(src, x.shape[2:], kernel)
    src.node(src.op, Attrs(window, src.attrs.get("group", 1)))


def infer(c: Call) -> list[TensorType]:
    """[N, O, out...]."""
    x, w = c.type(0), c.type(1)
    if w.shape[1] * c.attrs.group != x.shape[1] or w.shape[0] % c.attrs.group:
        raise ShapeError(f"weights expect {w.shape[1] * c.attrs.group} input channels, the input has {x.shape[1]}",
                         node=c.node.name, op=c.node.op, tensor=c.node.inputs[1],
                         hint="was the model exported with the layout it declares?")
    if c.has(2) and c.type(2).shape != (w.shape[0],):
        raise ShapeError(f"the bias has shape {c.type(2).shape}, expected ({w.shape[0]},)", node=c.node.name)
    out = c.attrs.window.out(x.shape[2:])
    if min(out) < 1:
        raise ShapeError(f"the kernel does not fit into the input: output would be {out}", node=c.node.name,
                         op=c.node.op)
    return [TensorType(x.dtype, (x.shape[0], w.shape[0], *out))]


def reference(c: Call, x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> list[np.ndarray]:
    """Exact for integers; float32 sums in float32."""
    if not c.quantised:
        y = correlate(c, x, w, 0)
        return [y if b is None else y + b.reshape(1, -1, *[1] * (y.ndim - 2))]
    centred = _tile.centred(w, c.quant(1), 0)
    acc = np.moveaxis(correlate(c, x.astype(np.float64) - c.quant(0).zero[0], centred.astype(np.float64), 0), 1, -1)
    total = acc.astype(np.int64) + (0 if b is None else b.astype(np.int64))
    y = requant(c, centred, b)(total)
    return [np.moveaxis(y, -1, 1).astype(c.y[0].dtype.numpy)]



def correlate(c: Call, x: np.ndarray, w: np.ndarray, fill: int) -> np.ndarray:
    """[N,O,out...]; integers are summed in float64, which is exact below 2**53."""
    out = c.attrs.window.out(x.shape[2:])
    view = _window.windows(x, c.attrs.window, fill, out)
    n, groups, rank = x.shape[0], c.attrs.group, len(out)
    per = x.shape[1] // groups
    order = (0, *range(2, 2 + rank), 1, *range(2 + rank, 2 + 2 * rank))
    parts = []
    for g in range(groups):
        patch = np.ascontiguousarray(view[:, g * per:(g + 1) * per].transpose(order)).reshape(n * prod(out), -1)
        share = w[g * (w.shape[0] // groups):(g + 1) * (w.shape[0] // groups)].reshape(w.shape[0] // groups, -1)
        parts.append((patch @ share.T).reshape(n, *out, -1))
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)


def work(c: Call) -> Work:
    """One multiply-accumulate per output and weight of its channel."""
    return Work(macs=c.y[0].count * prod(c.type(1).shape[1:]), alu=4 * c.y[0].count)


def integer(c: Call) -> str:
    """8-bit activations per tensor, 8-bit constant weights, scale per tensor or per output channel."""
    x, w, y = c.type(0), c.type(1), c.y[0]
    if not (x.dtype.is_quantised and w.dtype.is_quantised and y.dtype.is_quantised):
        return "activations and weights must be 8 bit"
    if c.constant(1) is None or w.quant is None or x.quant is None or y.quant is None:
        return "the weights are not constant, or a tensor has no scale"
    if not x.quant.per_tensor or not y.quant.per_tensor or (len(w.quant.scale) > 1 and w.quant.axis != 0):
        return "scales must be per tensor for activations, per output channel for weights"
    return ""


def tiled(pixels: int, outputs: Callable[[Call], int], gather: bool) -> Callable[[Call], Spec]:
    """The spec of a kernel that multiplies `pixels` patches (gathered first, or as they lie) by blocks of outputs."""
    def spec(c: Call) -> Spec:
        flat, bias = matrix(c)
        x, group = c.type(0), c.attrs.group
        per, block = flat.shape[0] // group, outputs(c)
        packed = np.concatenate([_tile.pack(flat[g * per:(g + 1) * per], block) for g in range(group)])
        names = {"GROUPS": group, "GROUP_C": x.shape[1] // group, "GROUP_OUT": per, "DEPTH": flat.shape[1],
                 "FILL": c.quant(0).zero[0] if c.quantised else 0, "TILE": pixels}
        scratch = pixels * flat.shape[1] * x.dtype.bytes if gather else 0
        channel = "(group * GROUP_OUT) + {oc}" if group > 1 else "{oc}"
        return base_spec(c, scratch, {"w": packed, "b": bias}, names, groups=group,
                         tile=_tile.tile(pixels, _tile.blocks(per, block), channel, c.y[0].strides[1]))
    return spec


def depthwise_spec(c: Call) -> Spec:
    """Weights as [KH][KW][O], so that neighbouring channels are neighbours.

    The zero point is subtracted from each element: a window that is cut off at the border has no padding to sum.
    """
    flat, bias = matrix(c, fold_zero=False)
    zero = c.quant(0).zero[0] if c.quantised else 0
    names = {"MULT": flat.shape[0] // c.attrs.group}
    at = index("at", "oc", c.y[0].strides[1])
    spec = base_spec(c, 0, {"w": flat.T.reshape(-1), "b": bias}, names, store=Store("acc", "oc", at),
                     centre=f" - ({zero})" if zero else "")
    inside = [_window.inside(c.attrs.window, c.type(0).shape[2:], axis, positions=n) for axis, n in enumerate(c.y[0].shape[2:])]
    cut = 1 - reduce(np.multiply.outer, [i.all(axis=1).astype(np.int64) for i in inside])
    taps = cut * reduce(np.multiply.outer, [i.sum(axis=1) for i in inside])
    return replace(spec, macs=unpadded(c),
                   effort={"load": int(taps.sum()) * flat.shape[0], "tile": int(cut.sum()) * flat.shape[0]})


def volume_spec(c: Call) -> Spec:
    """Any number of dimensions, variable weights; the zero point is subtracted from each element (see depthwise)."""
    w, bias, finish, zero = c.constant(1), c.constant(2), None, 0
    if c.quantised:
        assert w is not None
        zero, finish = c.quant(0).zero[0], _tile.finish(requant(c, _tile.centred(w, c.quant(1), 0), bias))
        bias, w = matrix(c, fold_zero=False)[1], _tile.centred(w, c.quant(1), 0)
    spec = _volume.spec(c, c.attrs.window, w, bias, 1, finish=finish, groups=c.attrs.group,
                        centre=f" - ({zero})" if zero else "")
    return replace(spec, macs=unpadded(c))


_by_strides = partial(Kernel, strided=True)
OP = Op(
    name="Conv", onnx={"Conv": from_onnx}, ports=("x", "w", "b"), infer=infer, reference=reference, work=work,
    integer=integer, layout="spatial", anchor=True, channel_axis=1, docs="1-D to 3-D",
    kernels=(
        *_conv_cores.DEPTHWISE,
        _by_strides("depthwise", depthwise_spec, when=lambda c: is_tiled(c) or is_depthwise(c)),
        *_conv_cores.MATRIX,
        _by_strides("pointwise", tiled(2, block_size, False), when=lambda c: is_tiled(c) or is_pointwise(c)),
        _by_strides("conv", tiled(2, block_size, True), when=is_tiled),
        Kernel("conv_volume", volume_spec, when=has_accumulator),
    ),
)
