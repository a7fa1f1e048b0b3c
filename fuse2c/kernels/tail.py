"""What an elementwise operator behind an anchor may read beside the anchor's result."""
from __future__ import annotations

from fuse2c.ir.types import TensorType
from fuse2c.op import Op


def channel_vector(op: Op, y: TensorType, x: TensorType) -> bool:
    """Whether x has one element for each channel of an anchor's result y, and the anchor knows its channels."""
    rank = len(y.shape)
    if op.channel_axis is None or len(x.shape) > rank or x.shape == y.shape:
        return False
    axis = op.channel_axis % rank
    full = (1,) * (rank - len(x.shape)) + x.shape
    return full[axis] == y.shape[axis] and all(n == 1 for i, n in enumerate(full) if i != axis)
