"""Normalisations written as other operators: over an instance, over groups of channels, by a norm."""
from __future__ import annotations

from math import prod

from fuse2c.ir.types import DType
from fuse2c.op import Source
from fuse2c.ops._emit import Emit


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


def from_group(src: Source) -> None:
    """GroupNormalization: groups of channels by their own statistics; before opset 21 with one factor for a group."""
    emit = Emit(src)
    x, *factors = src.inputs
    shape, dtype = emit.type(x).shape, emit.type(x).dtype
    groups = src.attrs["num_groups"]
    if groups < 1 or shape[1] % groups:
        raise src.refuse(f"{shape[1]} channels in {groups} groups", attr="num_groups")
    wide = DType.F32 if dtype.is_half and src.attrs.get("stash_type", 1) == 1 else dtype
    rows = emit.cast(emit.reshape(x, (shape[0], groups, prod(shape[2:]) * shape[1] // groups)), wide)
    _, centred, variance = emit.centred(rows, (2,))
    deviation = emit.op("Sqrt", emit.op("Add", variance, emit.const(src.attrs.get("epsilon", 1e-5), wide)))
    normal = emit.cast(emit.op("Div", centred, deviation), dtype)
    if src.opset < 21:
        gamma, beta = (emit.reshape(t, (groups, 1)) for t in factors)
        emit.reshape(emit.op("Add", emit.op("Mul", normal, gamma), beta), shape, out=src.outputs[0])
    else:
        gamma, beta = (emit.reshape(t, (shape[1], *[1] * (len(shape) - 2))) for t in factors)
        emit.op("Add", emit.op("Mul", emit.reshape(normal, shape), gamma), beta, out=src.outputs[0])


def from_layer(src: Source) -> None:
    """LayerNormalization over all axes from `axis` on, with the mean and the inverse deviation as further results."""
    emit = Emit(src)
    x, gamma = src.inputs[:2]
    shape, dtype = emit.type(x).shape, emit.type(x).dtype
    axis = src.attrs.get("axis", -1)
    axis += len(shape) if axis < 0 else 0
    wide = DType.F32 if dtype.is_half and src.attrs.get("stash_type", 1) == 1 else dtype
    mean, centred, variance = emit.centred(emit.cast(x, wide), range(axis, len(shape)))
    deviation = emit.op("Sqrt", emit.op("Add", variance, emit.const(src.attrs.get("epsilon", 1e-5), wide)))
    normal = emit.cast(emit.op("Div", centred, deviation), dtype)
    shifted = len(src.inputs) > 2 and src.inputs[2] != ""
    scaled = emit.op("Mul", normal, gamma, out="" if shifted else src.outputs[0])
    if shifted:
        emit.op("Add", scaled, src.inputs[2], out=src.outputs[0])
    if len(src.outputs) > 1 and src.outputs[1]:
        emit.reshape(mean, emit.type(mean).shape, out=src.outputs[1])
    if len(src.outputs) > 2 and src.outputs[2]:
        emit.op("Reciprocal", deviation, out=src.outputs[2])


def from_lp(src: Source) -> None:
    """LpNormalization: divided by the 1- or 2-norm along an axis; a slice of zeros stays zero."""
    emit = Emit(src)
    x = src.inputs[0]
    axis = src.attrs.get("axis", -1) % len(emit.type(x).shape)
    norm = emit.reduce("ReduceL1" if src.attrs.get("p", 2) == 1 else "ReduceL2", x, (axis,))
    dtype = emit.type(x).dtype
    zero = emit.op("Equal", norm, emit.const(0, dtype))
    emit.op("Div", x, emit.op("Where", zero, emit.const(1, dtype), norm), out=src.outputs[0])


IMPORTS = {"GroupNormalization": from_group, "InstanceNormalization": from_instance,
           "LayerNormalization": from_layer, "LpNormalization": from_lp}
