"""LRN: x / (bias + alpha * mean of squares over neighbouring channels) ** beta, written as a pooling over channels."""
from __future__ import annotations

from math import prod

from fuse2c.kernels.windowing import Window
from fuse2c.op import Source
from fuse2c.ops._emit import Emit
from fuse2c.ops.pool import Attrs


def from_onnx(src: Source) -> None:
    """LRN: channels become the rows of an image, everything behind them its columns; padding counts as zeros."""
    emit, x = Emit(src), src.inputs[0]
    t, size = src.graph.type(x), int(src.attrs["size"])
    before = (size - 1) // 2
    window = Window((size, 1), (1, 1), (before, 0, size - 1 - before, 0), (1, 1))
    squares = emit.reshape(emit.op("Mul", x, x), (t.shape[0], 1, t.shape[1], prod(t.shape[2:])))
    mean = emit.reshape(emit.op("AveragePool", squares, attrs=Attrs(window, count_include_pad=True)), t.shape)
    scaled = emit.op("Mul", mean, emit.const(src.attrs.get("alpha", 0.0001), t.dtype))
    base = emit.op("Add", scaled, emit.const(src.attrs.get("bias", 1.0), t.dtype))
    power = emit.op("Pow", base, emit.const(src.attrs.get("beta", 0.75), t.dtype))
    emit.op("Div", x, power, out=src.outputs[0])


IMPORTS = {"LRN": from_onnx}
