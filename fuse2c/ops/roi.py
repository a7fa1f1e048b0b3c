"""RoiAlign and MaxRoiPool: regions of an image, each pooled into a grid of one size.

x [N,C,H,W]; RoiAlign: rois [R,4] (left, top, right, bottom) and the image of each, [R]; MaxRoiPool: rois [R,5], the
image first. -> [R,C,OH,OW]. An image's number outside of the batch is limited to it. With sampling_ratio 0 the number
of samples follows from a region's size; it is limited to that of a region as large as the image.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import COMPUTE, DType, TensorType
from fuse2c.kernels.copy import wrap
from fuse2c.kernels.scalars import literal
from fuse2c.kernels.tiling import Store
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work

PORTS = ("x", "rois", "images")
FAR = 1 << 24       # pixels: beyond any image


@dataclass(frozen=True, slots=True)
class Attrs:
    """Extents of the result, image pixels per unit of a region; RoiAlign: samples a bin (0: adaptive), and how."""

    out: tuple[int, int]
    scale: float
    samples: int = 0
    maximum: bool = False
    half: bool = False


def from_align(src: Source) -> None:
    """RoiAlign; before opset 16 without the shift of half a pixel."""
    mode = src.attrs.get("coordinate_transformation_mode", "half_pixel" if src.opset >= 16 else "output_half_pixel")
    src.node("RoiAlign", Attrs((src.attrs.get("output_height", 1), src.attrs.get("output_width", 1)),
                               float(src.attrs.get("spatial_scale", 1.0)), src.attrs.get("sampling_ratio", 0),
                               src.attrs.get("mode", "avg") == "max", mode == "half_pixel"))


def from_pool(src: Source) -> None:
    """MaxRoiPool."""
    src.node("MaxRoiPool", Attrs(tuple(src.attrs["pooled_shape"]), float(src.attrs.get("spatial_scale", 1.0))))


def infer(c: Call) -> list[TensorType]:
    """[R, C, OH, OW]."""
    x, rois = c.type(0), c.type(1).shape
    if len(x.shape) != 4 or len(rois) != 2 or rois[1] != (4 if c.node.op == "RoiAlign" else 5):
        raise ShapeError(f"regions of the shape {rois} for {x.shape}", node=c.node.name, op=c.node.op)
    return [TensorType(x.dtype, (rois[0], x.shape[1], *c.attrs.out))]


def limits(c: Call) -> tuple[int, int]:
    """The most samples of a bin, down and to the right."""
    height, width = (max(1, ceil((n + 1) / o)) for n, o in zip(c.type(0).shape[2:], c.attrs.out, strict=True))
    return (c.attrs.samples, c.attrs.samples) if c.attrs.samples else (height, width)


def align_reference(c: Call, x: np.ndarray, rois: np.ndarray, images: np.ndarray) -> list[np.ndarray]:
    """In the type of x, sample by sample as ONNX's reference does."""
    a, (oh, ow), most = c.attrs, c.attrs.out, limits(c)
    one = x.dtype.type
    y = np.zeros(c.y[0].shape, x.dtype)
    for n, image in enumerate(wrap(images, x.shape[0])):
        corner = rois[n].astype(x.dtype) * one(a.scale) - one(0.5 if a.half else 0.0)
        (left, top), size = corner[:2], corner[2:] - corner[:2]
        width, height = size if a.half else np.maximum(size, one(1))
        bins = (one(height / oh), one(width / ow))
        grid = [a.samples or int(np.clip(np.ceil(b), 0, m)) for b, m in zip(bins, most, strict=True)]
        rows, cols = (first + np.arange(o, dtype=x.dtype)[:, None] * b + (np.arange(g, dtype=x.dtype) + one(0.5)) * b
                      / one(max(g, 1)) for first, o, b, g in zip((top, left), (oh, ow), bins, grid, strict=True))
        values = _corners(x[image], rows, cols)
        if not values.size:
            continue
        if a.maximum:
            y[n] = values.max(axis=0).max(axis=(-1, -2))
        else:
            y[n] = values.sum(axis=0).sum(axis=(-1, -2)) / one(max(grid[0] * grid[1], 1))
    return [y]


def align_sums(c: Call, x: np.ndarray, rois: np.ndarray, images: np.ndarray) -> list[np.ndarray]:
    """Means of samples between elements of x; the rounding of a position counts as often as the image is long."""
    return [np.full(c.y[0].shape, (1 + max(x.shape[2:]) / 16) * float(x.max(initial=0.0)))]


def _corners(image: np.ndarray, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """[4, C, OH, OW, samples down, samples right]: the weighted neighbours of each sample."""
    height, width = image.shape[1:]
    near = [(p >= -1) & (p <= n) for p, n in ((rows, height), (cols, width))]
    places = [np.clip(p, 0, n - 1) for p, n in ((rows, height), (cols, width))]
    low = [p.astype(np.int64) for p in places]
    high = [np.minimum(i + 1, n - 1) for i, n in zip(low, (height, width), strict=True)]
    rest = [p - i for p, i in zip(places, low, strict=True)]
    inside = near[0][:, None, :, None] & near[1][None, :, None, :]
    found = []
    for i, wy in ((low[0], 1 - rest[0]), (high[0], rest[0])):
        for j, wx in ((low[1], 1 - rest[1]), (high[1], rest[1])):
            value = image[:, i[:, None, :, None], j[None, :, None, :]]
            found.append(np.where(inside, (wy[:, None, :, None] * wx[None, :, None, :]) * value, 0))
    return np.asarray(found).astype(image.dtype)


def pool_reference(c: Call, x: np.ndarray, rois: np.ndarray) -> list[np.ndarray]:
    """Regions rounded to whole pixels; an empty bin is 0."""
    scaled = np.trunc(rois[:, 1:] * x.dtype.type(c.attrs.scale) + np.copysign(x.dtype.type(0.5), rois[:, 1:]))
    scaled = np.clip(np.nan_to_num(scaled), -FAR, FAR).astype(np.int64)
    y = np.zeros(c.y[0].shape, x.dtype)
    for n, image in enumerate(wrap(rois[:, 0], x.shape[0])):
        left, top, right, bottom = scaled[n]
        spans = []
        for first, last, o, size in zip((top, left), (bottom, right), c.attrs.out, x.shape[2:], strict=True):
            step = x.dtype.type(max(last - first + 1, 1)) / x.dtype.type(o)
            low = np.floor(np.arange(o, dtype=x.dtype) * step).astype(np.int64) + first
            high = np.ceil(np.arange(1, o + 1, dtype=x.dtype) * step).astype(np.int64) + first
            spans.append(list(zip(np.clip(low, 0, size), np.clip(high, 0, size), strict=True)))
        for i, (r0, r1) in enumerate(spans[0]):
            for j, (c0, c1) in enumerate(spans[1]):
                if r1 > r0 and c1 > c0:
                    y[n, :, i, j] = x[image, :, r0:r1, c0:c1].max(axis=(1, 2))
    return [y]


def spec(c: Call) -> Spec:
    """Extents, and the functions of the element type."""
    x, a, wide = c.type(0), c.attrs, c.type(0).dtype == DType.F64
    s, f = ("_f64", "f64") if wide else ("", "f32")
    names = {"ROIS": c.type(1).shape[0], "BATCH": x.shape[0], "IN_C": x.shape[1], "IN_H": x.shape[2],
             "IN_W": x.shape[3], "OUT_H": a.out[0], "OUT_W": a.out[1], "FAR": FAR}
    tables = {PORTS[i]: value.reshape(-1) for i in range(len(c.x)) if (value := c.constant(i)) is not None}
    flags = {"scale": literal(a.scale, x.dtype), "store": Store("acc", "", "at"), "down": f"f2c_floor{s}",
             "up": f"f2c_ceil{s}", "to_s32": f"f2c_{f}_to_s32", "to_s64": f"f2c_{f}_to_s64"}
    if c.node.op == "MaxRoiPool":
        return Spec(names, tables, by_rows=False, flags=flags | {"half": literal(0.5, x.dtype)})
    most = limits(c)
    grids = [str(n) if a.samples else f"f2c_clamp_s32(f2c_{f}_to_s32(f2c_ceil{s}({bin_})), 0, {n})"
             for n, bin_ in zip(most, ("bin_h", "bin_w"), strict=True)]
    greatest = "v[0]"
    for i in range(1, 4):
        greatest = f"f2c_max{s}({greatest}, v[{i}])"
    flags |= {"average": not a.maximum, "half": literal(0.5 if a.half else 0.0, x.dtype),
              "middle": literal(0.5, x.dtype), "grid_h": grids[0], "grid_w": grids[1],
              "floor": f"f2c_max{s}", "least": "-F2C_INFINITY" if a.half else literal(1.0, x.dtype),
              "clamp": f"f2c_clamp{s}"}
    if a.maximum:
        first = "((i == 0) && (j == 0))"
        flags |= {"start": literal(0.0, x.dtype), "step": f"{first} ? {greatest} : f2c_max{s}(acc, {greatest})"}
    else:
        flags |= {"start": literal(0.0, x.dtype), "step": "acc + (v[0] + v[1] + v[2] + v[3])",
                  "store": Store(f"acc / ({COMPUTE[x.dtype]})count", "", "at")}
    return Spec(names, tables, by_rows=False, flags=flags)


def when(c: Call) -> str:
    """float32 and float64."""
    return "" if c.type(0).dtype in (DType.F32, DType.F64) else f"no kernel for {c.type(0).dtype}"


def work(c: Call) -> Work:
    """At most as many samples as a bin can have."""
    down, right = limits(c)
    return Work(alu=c.y[0].count * down * right * 20)


OPS = (
    Op(name="RoiAlign", onnx={"RoiAlign": from_align}, ports=PORTS, infer=infer, reference=align_reference, work=work,
       sums=align_sums, anchor=True, docs="adaptive sampling is limited to regions as large as the image",
       kernels=(Kernel("roi_align", spec, when=when),)),
    Op(name="MaxRoiPool", onnx={"MaxRoiPool": from_pool}, ports=PORTS[:2], infer=infer, reference=pool_reference,
       work=work, anchor=True, kernels=(Kernel("roi_pool", spec, when=when),)),
)
