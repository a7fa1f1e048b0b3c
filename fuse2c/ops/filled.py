"""Operators whose result is constant once their parameters are: ConstantOfShape, EyeLike, Range."""
from __future__ import annotations

import numpy as np

from fuse2c.ops.base import Source
from fuse2c.ops.cast import ONNX_TYPES
from fuse2c.ops.shapes import shape_of, whole_numbers


def from_constant_of_shape(src: Source) -> None:
    """ConstantOfShape."""
    value = np.asarray(src.attrs.get("value", np.zeros(1, np.float32))).reshape(-1)
    src.graph.constant(src.outputs[0], np.full(whole_numbers(src.const(0, "shape")), value[0], value.dtype))


def from_eye_like(src: Source) -> None:
    """EyeLike: only the shape and type of the input matter."""
    rows, columns = shape_of(src)
    code = src.attrs.get("dtype")
    dtype = src.graph.type(src.inputs[0]).dtype if code is None else ONNX_TYPES.get(code)
    if dtype is None:
        raise src.refuse(f"element type {code}", attr="dtype")
    src.graph.constant(src.outputs[0], np.eye(rows, columns, src.attrs.get("k", 0)).astype(dtype.numpy))


def from_range(src: Source) -> None:
    """Range: start + i * delta, rounded as the type does."""
    start, limit, delta = (src.const(i, what).reshape(-1)[0] for i, what in enumerate(("start", "limit", "delta")))
    kind = np.float64 if start.dtype.kind not in "iu" else np.int64
    first, last, step = (kind(v) for v in (start, limit, delta))
    count = max(int(np.ceil((last - first) / step)), 0)
    src.graph.constant(src.outputs[0], (first + step * np.arange(count, dtype=kind)).astype(start.dtype))


IMPORTS = {"ConstantOfShape": from_constant_of_shape, "EyeLike": from_eye_like, "Range": from_range}
