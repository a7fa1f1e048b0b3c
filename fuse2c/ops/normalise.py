"""Normalisations that ONNX does not define by other operators, written as such: over an instance, by a norm."""
from __future__ import annotations

from fuse2c.ops._emit import Emit
from fuse2c.ops.base import Source


def from_instance(src: Source) -> None:
    """InstanceNormalization: each channel of each image by its own mean and variance."""
    emit = Emit(src)
    x, gamma, beta = src.inputs
    shape, dtype = emit.type(x).shape, emit.type(x).dtype
    _, centred, variance = emit.centred(x, range(2, len(shape)))
    deviation = emit.op("Sqrt", emit.op("Add", variance, emit.const(src.attrs.get("epsilon", 1e-5), dtype)))
    aligned = (shape[1], *[1] * (len(shape) - 2))
    factor = emit.op("Div", emit.reshape(gamma, aligned), deviation)
    emit.op("Add", emit.op("Mul", centred, factor), emit.reshape(beta, aligned), out=src.outputs[0])


def from_lp(src: Source) -> None:
    """LpNormalization: divided by the 1- or 2-norm along an axis; a slice of zeros stays zero."""
    emit = Emit(src)
    x = src.inputs[0]
    axis = src.attrs.get("axis", -1) % len(emit.type(x).shape)
    norm = emit.reduce("ReduceL1" if src.attrs.get("p", 2) == 1 else "ReduceL2", x, (axis,))
    dtype = emit.type(x).dtype
    zero = emit.op("Equal", norm, emit.const(0, dtype))
    emit.op("Div", x, emit.op("Where", zero, emit.const(1, dtype), norm), out=src.outputs[0])


IMPORTS = {"InstanceNormalization": from_instance, "LpNormalization": from_lp}
