"""Operators whose result is constant once their parameters are: ConstantOfShape, EyeLike, Range."""
from __future__ import annotations

from math import ceil, prod

import numpy as np

from fuse2c.op import Source
from fuse2c.ops.cast import ONNX_TYPES
from fuse2c.ops.shapes import shape_of, whole_numbers

MOST = 2 ** 24      # elements of a constant that comes from parameters


def from_constant_of_shape(src: Source) -> None:
    """ConstantOfShape."""
    value = np.asarray(src.attrs.get("value", np.zeros(1, np.float32))).reshape(-1)
    shape = whole_numbers(src.const(0, "shape"))
    if min(shape, default=0) < 0 or prod(shape) > MOST:
        raise src.refuse(f"the shape {shape}", hint=f"up to {MOST} elements are supported")
    src.graph.constant(src.outputs[0], np.full(shape, value[0], value.dtype))


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
    if delta == 0:
        raise src.refuse("a step of 0", attr="delta")
    kind: type = int if start.dtype.kind in "iu" else float
    first, last, step = (kind(v) for v in (start, limit, delta))
    count = max(ceil((last - first) / step), 0)
    if count > MOST:
        raise src.refuse(f"a range of {count} numbers", hint=f"up to {MOST} are supported")
    values = first + step * np.arange(count, dtype=np.dtype(kind))
    src.graph.constant(src.outputs[0], values.astype(start.dtype))


IMPORTS = {"ConstantOfShape": from_constant_of_shape, "EyeLike": from_eye_like, "Range": from_range}
