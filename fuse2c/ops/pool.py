"""Pooling over one to three spatial dimensions: maximum, average, p-norm; float and 8-bit integer.

Global pools and ReduceMean over all spatial axes are windows of the whole plane.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import COMPUTE, CTYPE, DType, TensorType
from fuse2c.kernels import dsp, fields, mve, pool_dsp, pool_reals, tiling, volume, windowing
from fuse2c.kernels.scalars import literal
from fuse2c.kernels.tiling import Store
from fuse2c.kernels.windowing import Window
from fuse2c.op import Call, Kernel, NestForm, Op, RowWindow, Source, Spec, Work
from fuse2c.ops import _fours
from fuse2c.ops._average import (
    average_terms,
    counts,
    divisors,
    finish,
    finished,
    integer_sum,
    is_soft,
    possible_counts,
    same_count,
)
from fuse2c.quant import quantise


@dataclass(frozen=True, slots=True)
class Attrs:
    """Where the windows lie; whether padding counts in an average; p of a norm; axes order of indices."""

    window: Window
    count_include_pad: bool = False
    p: float = 2.0
    column_major: bool = False


def from_onnx(src: Source) -> None:
    """MaxPool, AveragePool, LpPool. A maximum with indices is an operator of its own."""
    x = src.graph.type(src.inputs[0])
    kernel = tuple(src.attrs["kernel_shape"])
    if not 1 <= len(kernel) <= volume.MAX_RANK or len(x.shape) != len(kernel) + 2:
        raise src.refuse(f"{len(kernel)}-D pooling of a tensor of shape {x.shape}")
    attrs = Attrs(windowing.from_attrs(src, x.shape[2:], kernel), bool(src.attrs.get("count_include_pad", 0)),
                  float(src.attrs.get("p", 2)), bool(src.attrs.get("storage_order", 0)))
    if src.op != "LpPool" and any(windowing.inside(attrs.window, x.shape[2:], i).sum(axis=1).min(initial=1) == 0
                                  for i in range(len(kernel))):
        raise src.refuse("a window lies in the padding alone", attr="pads", hint="pads must be smaller than the kernel")
    if len(src.outputs) > 1 and src.outputs[1]:
        values = src.outputs[0] or src.graph.temporary(f"{src.outputs[1]}.values")
        src.node("MaxPoolIndices", attrs, outputs=(values, src.outputs[1]))
    else:
        src.node(src.op, attrs, outputs=src.outputs[:1])


def from_global(src: Source) -> None:
    """GlobalAveragePool, GlobalMaxPool, GlobalLpPool."""
    x = src.graph.type(src.inputs[0])
    if not 1 <= len(x.shape) - 2 <= volume.MAX_RANK:
        raise src.refuse(f"global pooling of a tensor of shape {x.shape}")
    src.node(src.op.removeprefix("Global"), Attrs(whole(x.shape), p=float(src.attrs.get("p", 2))))


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


def infer_indices(c: Call) -> list[TensorType]:
    """Values and indices, both [N, C, out...]."""
    y = infer(c)[0]
    return [y, TensorType(DType.I64, y.shape)]


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """Maximum, or mean over the elements that count.

    The mean of 8-bit integers is the requantised sum ("fixed"), or what the Q/DQ graph says ("float"): float32 values, summed
    row by row, divided, quantised.
    """
    t, window, y = c.type(0), c.attrs.window, c.y[0]
    out = y.shape[2:]
    axes = tuple(range(-len(out), 0))
    if c.node.op == "MaxPool":
        least = -np.inf if t.dtype.is_float else t.dtype.range[0]
        return [windowing.windows(x, window, least, out).max(axis=axes)]
    if c.node.op == "LpPool":
        powers = np.abs(windowing.windows(x, window, 0, out).astype(np.float64)) ** c.attrs.p
        return [(powers.sum(axis=axes) ** (1.0 / c.attrs.p)).astype(x.dtype)]
    real = x
    if c.quantised and c.requant == "fixed":
        terms = windowing.windows(x.astype(np.int64) - c.quant(0).zero[0], window, 0, out)
        return [finished(c, possible_counts(c), terms.sum(axis=axes), divisors(c)).astype(y.dtype.numpy)]
    if c.quantised:
        real = (x.astype(np.int32) - c.quant(0).zero[0]).astype(np.float32) * np.float32(c.quant(0).scale[0])
    taps = windowing.windows(real, window, 0, out).reshape(*y.shape, -1)
    sums = np.zeros(y.shape, real.dtype)
    for i in range(taps.shape[-1]):
        sums += taps[..., i]
    mean = sums / divisors(c).astype(real.dtype)
    if not c.quantised:
        return [mean]
    scale, zero = np.asarray(c.y_quant.scale[0], np.float32), np.asarray(c.y_quant.zero[0], np.int64)
    return [quantise(mean, scale, zero, *y.dtype.range).astype(y.dtype.numpy)]


def indices_reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """The first maximum of each window, and where it lies in the whole tensor."""
    window, size, shape = c.attrs.window, x.shape[2:], c.y[0].shape
    least = -np.inf if c.type(0).dtype.is_float else c.type(0).dtype.range[0]
    numbers = np.arange(prod(size))
    places = (numbers.reshape(size[::-1]).T if c.attrs.column_major else numbers.reshape(size))[None, None]
    taps = windowing.windows(x, window, least, shape[2:]).reshape(*shape, -1)
    where = windowing.windows(places, window, -1, shape[2:]).reshape(1, 1, *shape[2:], -1)
    first = np.where(where < 0, least, taps).argmax(axis=-1)[..., None]
    outside = np.broadcast_to(where < 0, taps.shape)
    first = np.where(np.take_along_axis(outside, first, -1), (~outside).argmax(axis=-1)[..., None], first)
    index = np.take_along_axis(np.broadcast_to(where, taps.shape), first, -1)[..., 0]
    images = np.arange(prod(shape[:2])).reshape(*shape[:2], *[1] * len(size)) * prod(size)
    return [np.take_along_axis(taps, first, -1)[..., 0], index + images]


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
    x, names = c.type(0), windowing.constants(c, c.attrs.window)
    store = Store("acc", "", tiling.index("at", "c", c.y[0].strides[1]))
    return Spec(names, rows=names["OUT_H"], images=x.shape[0], acc=CTYPE[x.dtype],
                window=windowing.row_window(c), along=windowing.scattered(c), effort=effort(c),
                flags={**inner_bounds(c), "least": least_value(x.dtype), "step": greater(x.dtype), "store": store})


def inner_bounds(c: Call) -> dict[str, Any]:
    """The bounds of the loops over a window, and whether all windows have them."""
    return {"whole": windowing.whole(c, c.attrs.window), "bounds": windowing.bounds(c, c.attrs.window)}


def effort(c: Call) -> dict[str, int]:
    """Elements, those of them that are reals, windows, rows of them, and pixels of an image, what is padding left out."""
    x, y, window = c.type(0), c.y[0], c.attrs.window
    channels, across = y.shape[1], prod(y.shape[3:])
    taps = channels * windowing.taps(window, y.shape[2:], x.shape[2:])
    down = int(windowing.inside(window, x.shape[2:], 0, positions=y.shape[2]).sum())
    return {"load": taps, "multiply": taps * x.dtype.is_float, "line": channels * across * down,
            "tile": channels * across * y.shape[2], "unpack": across * y.shape[2]}


def less(dtype: DType) -> str:
    """C text of whether v takes the place of acc as the maximum: the first NaN does and stays, as in the reference."""
    return "((acc < v) || ((v != v) && (acc == acc)))" if dtype.is_float else "(acc < v)"


def greater(dtype: DType) -> str:
    """C text of the maximum with v."""
    if dtype.is_float or dtype.range[1] > DType.I16.range[1]:
        return f"{less(dtype)} ? v : acc"
    return f"({CTYPE[dtype]})f2c_max_s16(acc, v)"


def least_value(dtype: DType) -> str:
    """C text of what no element is below."""
    return "-F2C_INFINITY" if dtype.is_float else str(dtype.range[0])


def average_spec(c: Call, integer: bool, soft: bool = False) -> Spec:
    """Constants of the window; how a term enters the sum, and how the sum becomes an element.

    integer: sums of stored values; soft: float32 sums, their roundings in integers; else floats.
    """
    x, y, names = c.type(0), c.y[0], windowing.constants(c, c.attrs.window)
    window = c.attrs.window
    names |= {"PAD_BOTTOM": window.pads[len(window.kernel)],
              "PAD_RIGHT": window.pads[-1] if len(window.kernel) > 1 else 0}
    fixed = same_count(c)
    store = Store("acc", str(fixed or "n"), tiling.index("at", "c", y.strides[1]))
    flags, finish, acc = average_terms(c, integer, soft)
    flags |= {**inner_bounds(c), "count": fixed, "include_pad": c.attrs.count_include_pad, "store": store}
    return Spec(names, finish=finish, flags=flags, rows=names["OUT_H"], images=x.shape[0], acc=acc, channel="n",
                window=windowing.row_window(c), along=windowing.scattered(c))


def is_max_mve(c: Call) -> str:
    """16 channels at a time, nothing fused behind them."""
    if why := flat(c) or mve.channels_when(c):
        return why
    return "operators behind it" if c.group is not None and len(c.group.node.parts) > 1 else ""


def max_mve(c: Call) -> Spec:
    """The same constants."""
    spec = max_spec(c)
    return replace(spec, constants={**spec.constants, "LANES": mve.LANES})


def is_average_mve(c: Call) -> str:
    """Four channels at a time."""
    if why := flat(c) or integer_sum(c) or mve.channels_when(c):
        return why
    if c.y[0].shape[1] % mve.GROUP or not finish(c, possible_counts(c)).words:
        return "the number of channels is no multiple of four, or the scale is too large"
    return _fours.only_elements(c)


def average_mve(c: Call, spec: Callable[..., Spec]) -> Spec:
    """A spec of these sums, the zero point taken off at their start."""
    s = spec(c, integer=True)
    fours = (s.flags["store"],)
    return replace(s, constants={**s.constants, "ZERO": c.quant(0).zero[0]}, flags={**s.flags, "fours": fours})


def average_dsp(c: Call) -> Spec:
    """The sums of four channels of a window."""
    return pool_dsp.average(c, average_spec(c, integer=True))


def global_dsp(c: Call) -> Spec:
    """The sums of four channels of a row."""
    return pool_dsp.average(c, global_spec(c, integer=True), windowing.constants(c, c.attrs.window)["IN_W"])


def volume_spec(c: Call, step: str, start: str, **flags: Any) -> Spec:
    """Any number of dimensions, whole batches."""
    text = {"store": Store("acc", "", "at"), "index": "", "count": "", "term_open": "", "term_close": ""}
    return Spec(windowing.volume_constants(c.type(0), c.y[0], c.attrs.window), by_rows=False, channel="n",
                acc=CTYPE[c.type(0).dtype], flags=text | {"step": step, "start": start} | flags)


def max_volume(c: Call) -> Spec:
    """Maximum, with indices if there is a second output."""
    least = least_value(c.type(0).dtype)
    if len(c.y) < 2:
        return volume_spec(c, greater(c.type(0).dtype), least)
    index = "(((id * IN_H) + ih) * IN_W) + iw"
    if c.attrs.column_major:
        index = "(((iw * IN_H) + ih) * IN_D) + id"
    return volume_spec(c, "", least, index=index, less=less(c.type(0).dtype))


def average_volume(c: Call, integer: bool, soft: bool = False) -> Spec:
    """The number of elements of an average is a product of one table an axis."""
    flags, finish, acc = average_terms(c, integer, soft)
    fixed, tables = same_count(c), dict[str, np.ndarray]()
    count = str(fixed)
    if not fixed:
        axes = "dhw"[-len(counts(c)):] if len(counts(c)) > 1 else "h"
        tables = {f"n_{axis}": n.astype(np.int32) for axis, n in zip(axes, counts(c), strict=True)}
        count = " * ".join(f"{{n_{axis}}}[o{axis}]" for axis in axes)
    store = Store("acc", str(fixed or "n"), "at")
    step = "f2c_round24(acc + v)" if soft else "acc + v"
    spec = volume_spec(c, step, "0", **flags, store=store, count="" if fixed else count)
    return replace(spec, tables=tables, finish=finish, acc=acc)


def norm_volume(c: Call) -> Spec:
    """(sum |v|**p) ** (1 / p)."""
    dtype, p = c.type(0).dtype, c.attrs.p
    s = "_f64" if dtype == DType.F64 else ""
    step, end = {1.0: ("acc + v", "acc"), 2.0: ("acc + (v * v)", f"f2c_sqrt{s}(acc)")}.get(
        p, (f"acc + f2c_pow{s}(v, {literal(p, dtype)})", f"f2c_pow{s}(acc, {literal(1.0 / p, dtype)})"))
    return volume_spec(c, step, literal(0.0, dtype), term_open=f"f2c_abs{s}(", term_close=")",
                       store=Store(end, "", "at"))


def flat(c: Call) -> str:
    """The kernels that compute row by row have rows and columns only."""
    return "three spatial dimensions" if len(c.type(0).shape) > 4 else when(c)


def when(c: Call) -> str:
    """float32, or 8-bit integers."""
    t = c.type(0)
    if t.dtype.is_float:
        return ""
    if c.node.op.startswith("MaxPool"):
        return "" if not t.dtype.is_half and t.dtype != "bool" else f"no kernel for {t.dtype}"
    return integer(c) if c.quantised else f"no kernel for {t.dtype}"


def is_global(c: Call) -> str:
    """One window over the whole plane, no padding, one image."""
    w, x = c.attrs.window, c.type(0)
    if w.kernel != x.shape[2:] or any(w.pads) or x.shape[0] != 1 or max(w.dilations) > 1:
        return "the window is not the whole plane of one image"
    return ""


def global_spec(c: Call, integer: bool, soft: bool = False) -> Spec:
    """The same sums, but rows outside and channels inside, so that rows can be taken as they come."""
    s = average_spec(c, integer, soft)
    height = s.constants["IN_H"]
    # One output pixel: an element's index is its channel's offset.
    at = tiling.index("", "c", c.y[0].strides[1]).removeprefix(" + ")
    return replace(s, scratch=(8 if soft else 4) * c.y[0].count, keeps=True, rows=height, over_input=True, window=RowWindow(),
                   flags={**s.flags, "scratch_ctype": s.acc or COMPUTE[c.y[0].dtype],
                          "store": replace(s.flags["store"], at=at)})


def nest_form(c: Call) -> NestForm:
    """A mean or maximum over the whole plane."""
    from fuse2c.ops.reduce import reduction
    w, x = c.attrs.window, c.type(0)
    if w.kernel != x.shape[2:] or any(w.pads) or max(w.dilations) > 1:
        return "the window is not the whole plane"
    return reduction("ReduceMax" if c.node.op == "MaxPool" else "ReduceMean", x, tuple(range(2, len(x.shape))))


OPS = (
    Op(name="MaxPool", onnx={"MaxPool": from_onnx, "GlobalMaxPool": from_global}, infer=infer, reference=reference,
       work=work, integer=integer, layout="spatial", moves=True, anchor=True, nest=nest_form, docs="1-D to 3-D",
       kernels=(Kernel("max_pool_mve", max_mve, when=is_max_mve, needs=mve.NEEDS, strided=True),
                Kernel("max_pool_dsp", lambda c: pool_dsp.maximum(c, max_spec(c)), needs=dsp.NEEDS, strided=True,
                       when=lambda c: flat(c) or pool_dsp.is_max(c)),
                Kernel("max_pool_reals", max_spec, when=lambda c: flat(c) or pool_reals.is_max(c), needs=pool_reals.NEEDS,
                       strided=True),
                Kernel("max_pool", max_spec, when=flat, strided=True), Kernel("pool_volume", max_volume, when=when))),
    Op(name="MaxPoolIndices", infer=infer_indices, reference=indices_reference, work=work, docs="MaxPool with indices",
       kernels=(Kernel("pool_volume", max_volume, when=when),)),
    Op(name="AveragePool", onnx={"AveragePool": from_onnx, "GlobalAveragePool": from_global}, infer=infer,
       reference=reference, work=work, integer=integer, layout="spatial", anchor=True, nest=nest_form, docs="1-D to 3-D",
       kernels=(Kernel("global_average_mve", partial(average_mve, spec=global_spec),
                       when=lambda c: is_average_mve(c) or is_global(c), needs=mve.NEEDS),
                Kernel("global_average_dsp", global_dsp, needs=dsp.NEEDS,
                       when=lambda c: flat(c) or is_global(c) or pool_dsp.is_global(c) or integer_sum(c)),
                Kernel("global_average", partial(global_spec, integer=True),
                       when=lambda c: flat(c) or is_global(c) or integer_sum(c)),
                *(Kernel("global_average", partial(global_spec, integer=False, soft=True), needs=core.needs,
                         when=lambda c: flat(c) or is_global(c) or is_soft(c)) for core in fields.CORES),
                Kernel("global_average_reals", lambda c: pool_reals.average(c, global_spec(c, integer=False)),
                       when=lambda c: flat(c) or is_global(c) or pool_reals.why_not(c), needs=pool_reals.NEEDS),
                Kernel("global_average", partial(global_spec, integer=False), when=lambda c: flat(c) or is_global(c)),
                Kernel("average_pool_mve", partial(average_mve, spec=average_spec), when=is_average_mve, needs=mve.NEEDS,
                       strided=True),
                Kernel("average_pool_dsp", average_dsp, needs=dsp.NEEDS, strided=True,
                       when=lambda c: flat(c) or pool_dsp.is_average(c) or integer_sum(c)),
                Kernel("average_pool", partial(average_spec, integer=True), when=lambda c: flat(c) or integer_sum(c),
                       strided=True),
                *(Kernel("average_pool", partial(average_spec, integer=False, soft=True), needs=core.needs, strided=True,
                         when=lambda c: flat(c) or is_soft(c)) for core in fields.CORES),
                Kernel("average_pool_reals", lambda c: pool_reals.average(c, average_spec(c, integer=False)),
                       when=lambda c: flat(c) or pool_reals.why_not(c), needs=pool_reals.NEEDS, strided=True),
                Kernel("average_pool", partial(average_spec, integer=False), when=flat, strided=True),
                Kernel("pool_volume", partial(average_volume, integer=True), when=lambda c: when(c) or integer_sum(c)),
                *(Kernel("pool_volume", partial(average_volume, integer=False, soft=True), needs=core.needs,
                         when=lambda c: when(c) or is_soft(c)) for core in fields.CORES),
                Kernel("pool_volume", partial(average_volume, integer=False), when=when))),
    Op(name="LpPool", onnx={"LpPool": from_onnx, "GlobalLpPool": from_global}, infer=infer, reference=reference,
       work=work, layout="spatial", anchor=True, docs="1-D to 3-D",
       kernels=(Kernel("pool_volume", norm_volume, when=when),)),
)
