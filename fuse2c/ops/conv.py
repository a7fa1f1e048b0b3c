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
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import (
    block_offers,
    conv_fp,
    depthwise_series,
    dsp,
    dsp_taps,
    fields,
    mve,
    mve_depthwise,
    skip_offers,
    tiling,
    vector,
    vector_conv,
    volume,
    windowing,
)
from fuse2c.kernels.conv import (
    adjacent,
    base_spec,
    has_accumulator,
    is_depthwise,
    is_pointwise,
    is_tiled,
    matrix,
    requant,
    unpadded,
)
from fuse2c.kernels.conv_int import (
    alone_spec,
    depthwise_rows_spec,
    dsp_spec,
    fields_spec,
    is_alone,
    is_depthwise_rows,
    is_dsp,
    is_few_rows,
    is_grouped_dsp,
    is_pointwise_dsp,
)
from fuse2c.kernels.conv_offers import is_winograd, winograd_spec
from fuse2c.kernels.tiling import Store, index
from fuse2c.kernels.windowing import Window
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work
from fuse2c.ops import _fours


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
    if not 1 <= rank <= volume.MAX_RANK or len(x.shape) != len(weights.shape):
        raise src.refuse(f"{rank}-D convolution of a tensor of shape {x.shape}", hint="1-D, 2-D and 3-D are supported")
    kernel = tuple(src.attrs.get("kernel_shape", weights.shape[2:]))
    if kernel != weights.shape[2:]:
        raise ShapeError(f"kernel_shape is {kernel}, the weights are {weights.shape}", node=src.name, op=src.op)
    window = windowing.from_attrs(src, x.shape[2:], kernel)
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
        y = windowing.correlate(x, w, c.attrs.window, c.attrs.group)
        return [y if b is None else y + b.reshape(1, -1, *[1] * (y.ndim - 2))]
    centred = tiling.centred(w, c.quant(1), 0)
    real = x.astype(np.float64) - c.quant(0).zero[0]
    acc = np.moveaxis(windowing.correlate(real, centred.astype(np.float64), c.attrs.window, c.attrs.group), 1, -1)
    total = acc.astype(np.int64) + (0 if b is None else b.astype(np.int64))
    y = requant(c, centred, b)(total)
    return [np.moveaxis(y, -1, 1).astype(c.y[0].dtype.numpy)]


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
        packed = np.concatenate([tiling.pack(flat[g * per:(g + 1) * per], block) for g in range(group)])
        names = {"GROUPS": group, "GROUP_C": x.shape[1] // group, "GROUP_OUT": per, "DEPTH": flat.shape[1],
                 "FILL": c.quant(0).zero[0] if c.quantised else 0, "TILE": pixels}
        scratch = pixels * flat.shape[1] * x.dtype.bytes if gather else 0
        channel = "(group * GROUP_OUT) + {oc}" if group > 1 else "{oc}"
        return base_spec(c, scratch, {"w": packed, "b": bias}, names, groups=group,
                         tile=tiling.tile(pixels, tiling.blocks(per, block), channel, c.y[0].strides[1]))
    return spec


def block_size(c: Call) -> int:
    """Outputs per tile: float accumulators live in their own registers, so there is room for more."""
    return 4 if c.type(0).dtype.is_float else 2


def depthwise_spec(c: Call) -> Spec:
    """Weights as [KH][KW][O], so that neighbouring channels are neighbours.

    The zero point is subtracted from each element: a window that is cut off at the border has no padding to sum.
    """
    flat, bias = matrix(c, fold_zero=False)
    zero = c.quant(0).zero[0] if c.quantised else 0
    names = {"MULT": flat.shape[0] // c.attrs.group}
    at = index("at", "oc", c.y[0].strides[1])
    spec = base_spec(c, 0, {"w": flat.T.reshape(-1), "b": bias}, names, store=Store("acc", "oc", at),
                     centre=f" - ({zero})" if zero else "", whole=False)
    inside = [windowing.inside(c.attrs.window, c.type(0).shape[2:], axis, positions=n)
              for axis, n in enumerate(c.y[0].shape[2:])]
    cut = 1 - reduce(np.multiply.outer, [i.all(axis=1).astype(np.int64) for i in inside])
    taps = cut * reduce(np.multiply.outer, [i.sum(axis=1) for i in inside])
    return replace(spec, macs=unpadded(c),
                   effort={"load": int(taps.sum()) * flat.shape[0], "tile": int(cut.sum()) * flat.shape[0]})


def is_depthwise_mve(c: Call) -> str:
    """int8, as many outputs as channels, nothing but functions of single elements behind it."""
    if why := is_tiled(c) or is_depthwise(c):
        return why
    x, w = c.type(0), c.constant(1)
    if c.type(1).shape[0] != c.attrs.group:
        return "several outputs a channel"
    if why := mve.why_not(x, tiling.centred(w, c.quant(1), 0) if c.quantised and w is not None else None):
        return why
    finish = base_spec(c, 0, {}, {}).finish
    if c.y[0].dtype != DType.I8 or finish is None or not finish.words:
        return "its elements cannot be finished four at a time"
    return _fours.only_elements(c)


def depthwise_mve_spec(c: Call) -> Spec:
    """16 channels at a time, or all channels of several pixels."""
    flat, bias = matrix(c)
    x, y, zero = c.type(0), c.y[0], c.quant(0).zero[0]
    names = windowing.constants(c, c.attrs.window)
    inside = [np.any(windowing.inside(c.attrs.window, x.shape[2:], i), axis=0, keepdims=True)[0]
              for i in range(len(y.shape) - 2)]
    weights, cropped = mve_depthwise.crop(flat.reshape(-1, names["K_H"], names["K_W"]), names, inside)
    bias = bias + zero * (flat.sum(axis=1, dtype=np.int32) - weights.sum(axis=(1, 2), dtype=np.int32))
    tables, own, flags = mve_depthwise.flags(weights, names | cropped)
    tables["b"] = mve_depthwise.ordered(bias, own["PIXELS"])
    spec = base_spec(c, flags.pop("scratch"), tables, own | cropped | {"FILL": zero}, **flags)
    assert spec.finish is not None
    effort = mve_depthwise.effort({**spec.constants}, flags["taps"], flags["adjacent"])
    return replace(spec, finish=mve_depthwise.finish(spec.finish, own["PIXELS"]), effort=effort,
                   macs=y.count * cropped["K_H"] * cropped["K_W"])


def is_mve(c: Call) -> str:
    """One group of int8."""
    w = c.constant(1)
    return is_dsp(c) or mve.why_not(c.type(0), None if w is None else tiling.centred(w, c.quant(1), 0))


def is_pointwise_mve(c: Call) -> str:
    """Pixels that fill a vector are read in place."""
    if why := is_pointwise(c) or is_mve(c):
        return why
    return "" if c.type(0).shape[1] >= mve.LANES else "a pixel does not fill a vector"


def mve_spec(c: Call, direct: bool) -> Spec:
    """Pixels are read in place, or the elements under a window are gathered."""
    flat, bias = matrix(c)
    y, names = c.y[0], windowing.constants(c, c.attrs.window)
    tables, flags = mve.flags(flat, bias, direct, names["OUT_W"], (names["Y_SC"], names["Y_SW"]))
    own = {"GROUP_OUT": y.shape[1], "DEPTH": flat.shape[1], "FILL": c.quant(0).zero[0], "PATCH": flags["depth"],
           "SPAN": flat.shape[1] // names["K_H"], "PAIRED": names["OUT_W"] // 2 * 2}
    spec = base_spec(c, 0 if direct else 2 * flags["depth"], tables, own, adjacent=adjacent(c, names), **flags)
    lines = 0 if direct else names["K_H"]
    whole = [windowing.inside(c.attrs.window, c.type(0).shape[2:], axis, positions=n).all(axis=1).sum()
             for axis, n in enumerate(y.shape[2:])]
    more = lines * (names["OUT_H"] * names["OUT_W"] - int(np.prod(whole)))
    effort = mve.effort(flat.shape[0], flat.shape[1], names["OUT_W"], spec.rows, lines, more)
    if not direct and names["X_SC"] != 1 != names["IN_C"]:      # element by element
        effort["load"] += spec.rows * names["OUT_W"] * flat.shape[1] // 2
    return replace(spec, effort=effort)


def volume_spec(c: Call) -> Spec:
    """Any number of dimensions, variable weights; the zero point is subtracted from each element (see depthwise)."""
    w, bias, finish, zero = c.constant(1), c.constant(2), None, 0
    if c.quantised:
        assert w is not None
        zero, finish = c.quant(0).zero[0], tiling.finish(requant(c, tiling.centred(w, c.quant(1), 0), bias))
        bias, w = matrix(c, fold_zero=False)[1], tiling.centred(w, c.quant(1), 0)
    spec = volume.spec(c, c.attrs.window, w, bias, 1, finish=finish, groups=c.attrs.group,
                        centre=f" - ({zero})" if zero else "", whole=False)
    return replace(spec, macs=unpadded(c))


_by_strides = partial(Kernel, strided=True)
OP = Op(
    name="Conv", onnx={"Conv": from_onnx}, ports=("x", "w", "b"), infer=infer, reference=reference, work=work,
    integer=integer, layout="spatial", anchor=True, channel_axis=1, docs="1-D to 3-D",
    kernels=(
        _by_strides("depthwise_mve", depthwise_mve_spec, when=is_depthwise_mve, needs=mve.NEEDS),
        _by_strides("depthwise_dsp", depthwise_rows_spec(single=False), when=is_depthwise_rows, needs=dsp.NEEDS, planar=True),
        *(_by_strides("depthwise_rows", depthwise_rows_spec(True, core.sizes), when=is_depthwise_rows, needs=core.needs)
          for core in fields.CORES),
        *(_by_strides("depthwise_dsp", depthwise_series.spec(n), when=depthwise_series.why_not, needs=dsp.NEEDS)
          for n in dsp.TILES),
        _by_strides("depthwise_taps_dsp", dsp_taps.spec(single=False), when=dsp_taps.why_not, needs=dsp.NEEDS),
        *(_by_strides("depthwise_taps_rows", dsp_taps.spec(single=True), when=dsp_taps.why_not, needs=core.needs)
          for core in fields.CORES),
        *conv_fp.DEPTHWISE,
        _by_strides("depthwise_vec", vector_conv.depthwise, when=vector_conv.is_depthwise_vec, needs=vector.NEEDS),
        _by_strides("depthwise_quads", vector_conv.quads, when=vector_conv.is_quads, needs=vector.NEEDS),
        _by_strides("depthwise", depthwise_spec, when=lambda c: is_tiled(c) or is_depthwise(c)),
        *block_offers.kernels(strided=True),
        *skip_offers.kernels(strided=True),
        _by_strides("pointwise_mve", partial(mve_spec, direct=True), when=is_pointwise_mve, needs=mve.NEEDS),
        _by_strides("conv_mve", partial(mve_spec, direct=False), when=is_mve, needs=mve.NEEDS),
        *(_by_strides("pointwise_dsp", dsp_spec(n), when=is_pointwise_dsp, needs=dsp.NEEDS)
          for n in dsp.TILES),
        _by_strides("conv_winograd_dsp", winograd_spec, when=is_winograd, needs=dsp.NEEDS, offer="flash"),
        *(_by_strides("conv_dsp", dsp_spec(n), when=is_grouped_dsp, needs=dsp.NEEDS) for n in dsp.TILES),
        _by_strides("depthwise_dsp", depthwise_rows_spec(single=False), when=is_few_rows, needs=dsp.NEEDS, planar=True),
        *(_by_strides("dense_fields", alone_spec(core), when=is_alone, needs=core.needs) for core in fields.CORES),
        *(_by_strides(name, fields_spec(n, core), when=when, needs=core.needs)
          for name, when in (("pointwise_fields", is_pointwise_dsp), ("conv_fields", is_dsp))
          for core in fields.CORES for n in fields.TILES),
        *conv_fp.TILED,
        _by_strides("conv_winograd", vector_conv.winograd, when=vector_conv.is_winograd, needs=vector.NEEDS),
        _by_strides("conv_vec", vector_conv.spec, when=vector_conv.when, needs=vector.NEEDS),
        _by_strides("pointwise", tiled(2, block_size, False), when=lambda c: is_tiled(c) or is_pointwise(c)),
        _by_strides("conv", tiled(2, block_size, True), when=is_tiled),
        Kernel("conv_volume", volume_spec, when=has_accumulator),
    ),
)
