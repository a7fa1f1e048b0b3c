"""Matrix products with constant weights, as pointwise convolutions over rows: what their kernels have in common."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuse2c.kernels import tiling
from fuse2c.op import Call, Scalar


def constant_matrix(c: Call) -> str:
    """A constant matrix on the right, rows adjacent in memory on the left."""
    if c.constant(1) is None or len(c.type(1).shape) != 2:
        return "the right operand is not a constant matrix"
    return "the left operand is transposed" if c.attrs.trans_a else ""


def dense_when(c: Call) -> str:
    """What the matrix core of convolutions can compute."""
    a = c.type(0)
    if why := constant_matrix(c):
        return why
    if c.has(2) and c.constant(2) is None:
        return "the bias is not constant"
    if not (c.quantised or a.dtype in ("float32", "float64")):
        return f"no kernel for {a.dtype}"
    return ""


def dense(c: Call) -> tuple[np.ndarray, np.ndarray, Scalar | None]:
    """(weights [N, K], bias [N], requantisation): the zero point of the left operand is in the bias."""
    b, bias = c.constant(1), c.constant(2)
    assert b is not None
    flat = b if c.attrs.trans_b else b.T
    if not c.quantised:
        return flat, np.zeros(flat.shape[0], flat.dtype) if bias is None else bias, None
    of_weights = c.quant(1)
    flat = tiling.centred(flat, replace(of_weights, axis=0), 0)
    folded = tiling.bias_with_zero(flat, bias, c.quant(0).zero[0])
    tiling.check_accumulator(c, flat, folded, c.type(0))
    return flat, folded.astype(np.int32), tiling.finish(tiling.requant(c, of_weights, flat, bias))


def pixels(rows: int, depth: int, columns: int) -> dict[str, int]:
    """The constants of a pointwise convolution over one row of pixels."""
    return {"OUT_H": 1, "OUT_W": rows, "DEPTH": depth, "GROUP_OUT": columns, "STRIDE_H": 1, "STRIDE_W": 1,
            "X_SH": depth * rows, "X_SW": depth, "Y_SH": columns * rows, "Y_SW": columns, "Y_SC": 1}
