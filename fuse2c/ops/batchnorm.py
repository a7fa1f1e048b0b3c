"""BatchNormalization in inference is a product and a sum with constants; the fold pass puts both into weights."""
from __future__ import annotations

import numpy as np

from fuse2c.ops.base import Source
from fuse2c.ops.elementwise import Attrs


def from_onnx(src: Source) -> None:
    """BatchNormalization: y = x * (gamma / sqrt(var + eps)) + (beta - mean * gamma / sqrt(var + eps))."""
    if src.attrs.get("training_mode", 0) or any(src.outputs[1:]):
        raise src.refuse("training mode", attr="training_mode", hint="export the model with model.eval()")
    gamma, beta, mean, variance = (np.asarray(src.const(i, "a batch normalisation parameter"), np.float64)
                                   for i in range(1, 5))
    dtype = src.graph.type(src.inputs[0]).dtype.numpy
    rank = len(src.graph.type(src.inputs[0]).shape)
    factor = gamma / np.sqrt(variance + src.attrs.get("epsilon", 1e-5))
    shape = (-1, *[1] * (rank - 2))
    scale = src.graph.constant(f"{src.name}.factor", factor.reshape(shape).astype(dtype))
    shift = src.graph.constant(f"{src.name}.shift", (beta - mean * factor).reshape(shape).astype(dtype))
    scaled = src.graph.temporary(f"{src.outputs[0]}.scaled")
    src.node("Mul", Attrs(), (src.inputs[0], scale), (scaled,))
    src.node("Add", Attrs(), (scaled, shift), src.outputs[:1])


IMPORTS = {"BatchNormalization": from_onnx}
