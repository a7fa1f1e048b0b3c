"""What the kernels of convolutions have in common: weights as a matrix, the constants of windows, which layers are which."""
from __future__ import annotations

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.kernels import tiling, windowing
from fuse2c.op import Call, Spec
from fuse2c.quant import Requant


def requant(c: Call, w: np.ndarray, b: np.ndarray | None) -> Requant:
    """The requantisation of the accumulators, for centred weights [O, ...]."""
    return tiling.requant(c, c.quant(1), w.reshape(w.shape[0], -1), b)


def matrix(c: Call, fold_zero: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """(weights [O, KH*KW*C/group] centred, bias [O], with the zero point folded in if asked); checks the sums."""
    w, b = c.constant(1), c.constant(2)
    if w is None:
        raise ShapeError("the weights are not constant", node=c.node.name, op="Conv", tensor=c.node.inputs[1])
    flat = np.moveaxis(w, 1, -1).reshape(w.shape[0], -1)
    x = c.type(0)
    if not c.quantised:
        return flat, np.zeros(w.shape[0], w.dtype) if b is None else b
    flat = tiling.centred(flat, c.quant(1), 0)
    zero = c.quant(0).zero[0]
    bias = tiling.bias_with_zero(flat, b, zero if fold_zero else 0)
    tiling.check_accumulator(c, flat, bias, x, 0 if fold_zero else zero)
    return flat, bias.astype(np.int32)


def base_spec(c: Call, size: int, tables: dict[str, np.ndarray], names: dict[str, int], **flags: object) -> Spec:
    """What all convolution kernels have in common."""
    x = c.type(0)
    names = windowing.constants(c, c.attrs.window) | names
    finish = None
    if c.quantised:
        w = c.constant(1)
        assert w is not None
        finish = tiling.finish(requant(c, tiling.centred(w, c.quant(1), 0), c.constant(2)))
    return Spec(constants=names, tables=tables, finish=finish,
                scratch=size, rows=names["OUT_H"], images=x.shape[0], flags=flags,
                window=windowing.row_window(c), along=windowing.scattered(c))


def is_pointwise(c: Call) -> str:
    """1x1, one group, no pads, channels adjacent in memory."""
    w = c.attrs.window
    if max(w.kernel) > 1 or max(w.pads) > 0 or c.attrs.group > 1:
        return "the kernel is larger than 1x1, padded or grouped"
    return "" if c.type(0).strides[1] == 1 else "the channels of a pixel are not adjacent in memory"


def is_depthwise(c: Call) -> str:
    """One input channel a group."""
    return "" if c.attrs.group == c.type(0).shape[1] and c.attrs.group > 1 else "not one input channel a group"


def unpadded(c: Call) -> int:
    """Multiply-accumulates of a kernel that skips the padding."""
    x, y = c.type(0), c.y[0]
    return x.shape[0] * y.shape[1] * c.type(1).shape[1] * windowing.taps(c.attrs.window, y.shape[2:], x.shape[2:])


def has_accumulator(c: Call) -> str:
    """float32, float64, or 8-bit integers with scales."""
    x = c.type(0)
    if c.quantised or x.dtype in ("float32", "float64"):
        return ""
    return f"no kernel for {x.dtype}"


def is_tiled(c: Call) -> str:
    """Rows and columns at most; weights and bias in tables."""
    if len(c.type(0).shape) > 4:
        return "three spatial dimensions"
    variable = c.constant(1) is None or (c.has(2) and c.constant(2) is None)
    return "the weights or the bias are variable" if variable else has_accumulator(c)


def adjacent(c: Call, names: dict[str, int]) -> bool:
    """Whether the elements under a row of the window are adjacent in memory."""
    channels = c.type(0).shape[1]
    return names["DIL_W"] == 1 and (channels == 1 or names["X_SC"] == 1) and (names["K_W"] == 1 or names["X_SW"] == channels)
