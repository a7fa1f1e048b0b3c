"""Resize and Upsample: axis by axis, with the weights of every output position in tables.

Interpolation is separable, so one axis after the other is resampled: y[o] = sum over k of w[o][k] * x[at[o][k]]. All
modes, coordinate transformations and antialiasing differ in these tables only. Nearest neighbours need no weights: they
are a Take. Integers are interpolated as float32, rounded half to even and
saturated.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isclose

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels import copy, copy_rows
from fuse2c.kernels.nesting import Access
from fuse2c.kernels.tiling import Store
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work
from fuse2c.ops import cast, elementwise
from fuse2c.ops.movement import IndexMap
from fuse2c.ops.shapes import axis_of, reshape, shape_of, whole_numbers

NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor, "ceil": np.ceil, "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5)}
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
               "tf_crop_and_resize")


@dataclass(frozen=True, slots=True)
class Attrs:
    """Along `axis`, for every output position: `taps` input indices and weights, flat, and a number to add."""

    axis: int
    taps: int
    at: tuple[int, ...]
    weights: tuple[float, ...]
    add: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """How one axis is resampled: extents, scale, and the part of the input that counts (of 0..1)."""

    axis: int
    size: int
    out: int
    scale: float
    roi: tuple[float, float] = (0.0, 1.0)

    @property
    def plain(self) -> bool:
        """Whether nothing changes."""
        return self.size == self.out and isclose(self.scale, 1.0) and self.roi == (0.0, 1.0)


def from_resize(src: Source) -> None:
    """Resize, Upsample."""
    mode = src.attrs.get("mode", "nearest")
    if mode not in ("nearest", "linear", "bilinear", "cubic"):
        raise src.refuse(f"mode {mode!r}", attr="mode", hint="nearest, linear or cubic")
    axes = [a for a in _axes(src) if not a.plain]
    outside = {a.axis: _outside(src, a) for a in axes}
    if mode == "nearest" and not any(o.any() for o in outside.values()):
        maps = {a.axis: _nearest(src, a) for a in axes}
        shape = shape_of(src)
        src.node("Take", IndexMap(tuple(maps.get(i, tuple(range(n))) for i, n in enumerate(shape))), src.inputs[:1])
        return
    _chain(src, [_table(src, mode, a, outside[a.axis]) for a in axes])


def _chain(src: Source, tables: list[Attrs]) -> None:
    """One node for each axis, in float32 if the type is an integer; axes that shrink come first."""
    dtype, x, y = src.graph.type(src.inputs[0]).dtype, src.inputs[0], src.outputs[0]
    shape = shape_of(src)
    if not tables:
        reshape(src, x, shape, y)
        return
    if not dtype.is_float:
        x = src.graph.temporary(f"{y}.real")
        cast.add(src, src.inputs[0], DType.F32, x)
    tables = sorted(tables, key=lambda t: len(t.at) / t.taps / shape[t.axis])
    for i, table in enumerate(tables):
        last = dtype.is_float and i == len(tables) - 1
        name = y if last else src.graph.temporary(f"{y}.axis{table.axis}")
        src.node("Resample", table, (x,), (name,))
        x = name
    if not dtype.is_float:
        whole = src.graph.temporary(f"{y}.rounded")
        src.node("Round", elementwise.Attrs(), (x,), (whole,))
        cast.add(src, whole, dtype, y)


def _axes(src: Source) -> list[Axis]:
    """Every axis with its extents and scale."""
    shape = shape_of(src)
    rank, upsample = len(shape), src.op == "Upsample" or src.opset < 11
    axes = [axis_of(src, a, rank) for a in src.attrs.get("axes", range(rank))]
    scales = src.setting("scales", 1 if upsample else 2)
    sizes = None if upsample or not src.has(3) else src.const(3, "sizes")
    roi = src.const(1, "roi").tolist() if not upsample and src.has(1) and \
        src.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize" else []
    factors, out = [1.0] * rank, list(shape)
    if sizes is not None and sizes.size:
        ratios = {a: n / shape[a] for a, n in zip(axes, whole_numbers(sizes), strict=True)}
        policy = src.attrs.get("keep_aspect_ratio_policy", "stretch")
        if policy not in ("stretch", "not_larger", "not_smaller"):
            raise src.refuse(f"keep_aspect_ratio_policy {policy!r}", attr="keep_aspect_ratio_policy")
        one = {"not_larger": min, "not_smaller": max}.get(policy)
        for axis, n in zip(axes, whole_numbers(sizes), strict=True):
            factors[axis] = one(ratios.values()) if one else ratios[axis]
            out[axis] = int(factors[axis] * shape[axis] + 0.5) if one else n
    elif scales is not None and len(scales):
        for axis, factor in zip(axes, scales, strict=True):
            factors[axis], out[axis] = float(factor), int(factor * shape[axis])
    else:
        raise ShapeError("neither scales nor sizes", node=src.name, op=src.op)
    ranges = {a: (roi[i], roi[len(axes) + i]) for i, a in enumerate(axes)} if roi else {}
    return [Axis(i, shape[i], out[i], factors[i], ranges.get(i, (0.0, 1.0))) for i in range(rank)]


def _positions(src: Source, a: Axis) -> np.ndarray:
    """Where in the input each output position lies, as real numbers."""
    upsample = src.op == "Upsample" or src.opset < 11
    mode = src.attrs.get("coordinate_transformation_mode", "asymmetric" if upsample else "half_pixel")
    if mode not in COORDINATES:
        raise src.refuse(f"coordinate_transformation_mode {mode!r}", attr="coordinate_transformation_mode",
                         hint=f"one of {', '.join(COORDINATES)}")
    i, width = np.arange(a.out, dtype=np.float64), a.scale * a.size
    if mode == "asymmetric":
        return np.asarray(i / a.scale)
    if mode == "align_corners":
        return np.asarray(i * 0.0 if width == 1 else i * (a.size - 1) / (width - 1))
    if mode == "tf_crop_and_resize":
        first, last = (r * (a.size - 1) for r in a.roi)
        return np.asarray(i * 0.0 + (first + last) / 2 if width == 1 else first + i * (last - first) / (width - 1))
    centre = (i + 0.5) / a.scale - 0.5
    if mode == "pytorch_half_pixel" and width == 1:
        return np.asarray(i * 0.0 - 0.5)
    return np.asarray(centre + (a.size / 2 * (1 - a.out / width) if mode == "half_pixel_symmetric" else 0.0))


def _outside(src: Source, a: Axis) -> np.ndarray:
    """Output positions that get the extrapolation value."""
    if src.attrs.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        return np.zeros(a.out, np.bool_)
    x = _positions(src, a)
    return np.asarray((x < 0) | (x > a.size - 1))


def _nearest(src: Source, a: Axis) -> tuple[int, ...]:
    """The input index of each output index."""
    upsample = src.op == "Upsample" or src.opset < 11
    rounding = src.attrs.get("nearest_mode", "floor" if upsample else "round_prefer_floor")
    if rounding not in NEAREST:
        raise src.refuse(f"nearest_mode {rounding!r}", attr="nearest_mode", hint=f"one of {', '.join(NEAREST)}")
    return tuple(int(n) for n in np.clip(NEAREST[rounding](_positions(src, a)), 0, a.size - 1))


def _table(src: Source, mode: str, a: Axis, outside: np.ndarray) -> Attrs:
    """The weights of one axis."""
    if mode == "nearest":
        at, weights = np.asarray(_nearest(src, a))[:, None], np.ones((a.out, 1))
    else:
        at, weights = _taps(src, mode, a)
        if src.attrs.get("exclude_outside", 0):
            weights = np.where((at < 0) | (at >= a.size), 0.0, weights)
            total = weights.sum(axis=1, keepdims=True)
            weights = weights / np.where(total == 0, 1.0, total)
    weights = np.where(outside[:, None], 0.0, weights)
    add = outside * src.attrs.get("extrapolation_value", 0.0) if outside.any() else np.zeros(0)
    return Attrs(a.axis, at.shape[1], tuple(map(int, np.clip(at, 0, a.size - 1).reshape(-1))),
                 tuple(map(float, weights.reshape(-1))), tuple(map(float, add)))


def _taps(src: Source, mode: str, a: Axis) -> tuple[np.ndarray, np.ndarray]:
    """Input indices (they may lie outside) and weights of linear and cubic interpolation, [out, taps]."""
    x = _positions(src, a)
    stretch = min(a.scale, 1.0) if src.attrs.get("antialias", 0) else 1.0
    reach = 2 if mode == "cubic" else 1
    first = int(np.floor(-reach / stretch) + 1)
    steps = np.arange(first, 2 - first)
    # A position that is an integer counts as lying one step behind its left neighbour, as in ONNX's reference.
    left = np.ceil(x) - 1
    distance = np.abs(steps[None, :] - (x - left)[:, None]) * stretch
    if mode == "cubic":
        weights = _cubic(distance, src.attrs.get("cubic_coeff_a", -0.75))
    else:
        weights = np.clip(1 - distance, 0.0, 1.0)
    if stretch < 1.0:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return (left[:, None] + steps[None, :]).astype(np.int64), weights


def _cubic(d: np.ndarray, a: float) -> np.ndarray:
    """Keys's cubic convolution kernel."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def infer(c: Call) -> list[TensorType]:
    """The axis gets its new extent."""
    x, a = c.type(0), c.attrs
    shape = tuple(len(a.at) // a.taps if i == a.axis else n for i, n in enumerate(x.shape))
    return [TensorType(x.dtype, shape)]


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """The weighted sum, in the order in which C adds."""
    a, axis = c.attrs, c.attrs.axis
    kind = np.result_type(x.dtype, np.float32)
    at, weights = (np.asarray(v).reshape(-1, a.taps) for v in (a.at, a.weights))
    column = [-1 if i == axis else 1 for i in range(x.ndim)]
    y = np.zeros(c.y[0].shape if c.y else infer(c)[0].shape, kind)
    if a.add:
        y = y + np.asarray(a.add, kind).reshape(column)
    for k in range(a.taps):
        y = y + weights[:, k].astype(kind).reshape(column) * np.take(x, at[:, k], axis)
    return [y.astype(x.dtype)]


def spec(c: Call) -> Spec:
    """A nest over y, row by row where both tensors lie in rows; the axis's coordinate picks a line of the tables."""
    x, y, a = c.type(0), c.y[0], c.attrs
    along = copy_rows.axis_of(c)       # what rows follow one another along
    rows = 1 if along is None or x.shape[along] == 1 else y.shape[along]
    if along is None or rows == 1:
        along = None
    inner = replace(y, shape=tuple(1 if i == along else n for i, n in enumerate(y.shape)))
    straight = Access(tuple(0 if i in (a.axis, along) else s for i, s in enumerate(x.strides)))
    to = Access(tuple(0 if i == along else s for i, s in enumerate(y.strides)))
    nest, (at, base, line) = copy.walk(inner, [to, straight], [a.axis], "        ")
    down = along == a.axis
    tables = {"at": copy.smallest(np.asarray(a.at, np.int64) * (1 if down else x.strides[a.axis])),
              "w": np.asarray(a.weights, x.dtype.numpy)}
    if a.add:
        tables["add"] = np.asarray(a.add, x.dtype.numpy)
    line = "oy" if down else line
    start = f"{{add}}[{line}]" if a.add else ("0.0" if x.dtype == DType.F64 else "0.0f")
    tap = f"{{at}}[({line} * TAPS) + i]"
    each = np.asarray(a.at).reshape(-1, a.taps) if down else np.arange(rows)[:, None]
    ordered = (np.diff(each.min(axis=1)) >= 0).all() and (np.diff(each.max(axis=1)) >= 0).all()
    by_rows = along is not None and ordered and copy_rows.in_rows(x, along)
    reads = {0: (tuple(each.min(axis=1).tolist()), tuple(each.max(axis=1).tolist()))} if by_rows else {}
    strides = {} if along is None else {"X_SH": x.strides[along], "Y_SH": y.strides[along]}
    return Spec({"TAPS": a.taps} | (strides or {"X_SH": 0, "Y_SH": 0}), tables, rows=rows, reads=reads,
                along=None if along is None or copy_rows.in_rows(y, along) else along,
                flags={"nest": nest, "iy": tap if down else "oy", "from": base if down else f"{base} + {tap}",
                       "line": line, "start": start, "store": Store("acc", "", at)})


def work(c: Call) -> Work:
    """A multiply-accumulate for each tap."""
    return Work(macs=c.y[0].count * c.attrs.taps)


def when(c: Call) -> str:
    """Real numbers."""
    return "" if c.type(0).dtype in (DType.F32, DType.F64) else f"no kernel for {c.type(0).dtype}"


IMPORTS = {"Resize": from_resize, "Upsample": from_resize}
OP = Op(name="Resample", infer=infer, reference=reference, work=work, layout="strided", anchor=True,
        kernels=(Kernel("resample", spec, when=when),))
