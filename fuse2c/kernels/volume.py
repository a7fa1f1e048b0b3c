"""Convolutions in one to three dimensions whose weights and bias may be variable: what their kernels share.

Unlike the tiled kernels of two dimensions, these run over the whole batch in one call: a weight tensor in memory does
not move on with the image.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from fuse2c.ir.types import CTYPE, DType, TensorType, pack
from fuse2c.kernels import windowing
from fuse2c.kernels.tiling import Store
from fuse2c.kernels.windowing import Window
from fuse2c.op import Call, Scalar, Spec

MAX_RANK = 3


def spec(c: Call, window: Window, w: np.ndarray | None, bias: np.ndarray | None, inner: int, *,
         finish: Scalar | None = None, groups: int = 1, **flags: Any) -> Spec:
    """A kernel over x [N,C,spatial...] and weights of which axis `inner` meets the input's channels.

    w, bias: the constant values to put into tables; None where they are variable (or, the bias, absent).
    """
    x, y = c.type(0), c.y[0]
    weights, tables = c.type(1), dict[str, np.ndarray]()
    if w is not None:
        order = (*(a for a in range(w.ndim) if a != inner), inner)
        weights = TensorType(DType(w.dtype.name), w.shape, order=order)
        tables["w"] = pack(w, weights)
    if bias is not None:
        tables["b"] = bias.reshape(-1)
    names = windowing.volume_constants(x, y, window) | windowing.volume_strides("W", weights)
    names |= {"GROUP_C": x.shape[1] // groups, "GROUP_OUT": y.shape[1] // groups}
    has_bias = bias is not None or c.has(2)
    start = "{b}[oc]" if has_bias else "0.0" if y.dtype == DType.F64 else "0.0f" if y.dtype.is_float else "0"
    text = {"start": start, "wtype": CTYPE[weights.dtype], "store": Store("acc", "oc", "at")}
    return Spec(names, tables, finish, by_rows=False, flags=text | {"centre": "", "centre_w": ""} | flags)
