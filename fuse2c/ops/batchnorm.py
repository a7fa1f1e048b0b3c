"""BatchNormalization in inference is a product and a sum with constants; the fold pass puts both into weights.

With variable parameters the two factors are computed first; with training_mode=1 from the batch's own statistics.
"""
from __future__ import annotations

import numpy as np

from fuse2c.op import Source
from fuse2c.ops._emit import Emit


def from_onnx(src: Source) -> None:
    """BatchNormalization: y = x * (gamma / sqrt(var + eps)) + (beta - mean * gamma / sqrt(var + eps))."""
    training = bool(src.attrs.get("training_mode", 0))
    if not training and any(src.outputs[1:]):
        raise src.refuse("training mode", attr="training_mode", hint="export the model with model.eval()")
    known = [src.graph.data(t) for t in src.inputs[1:5]]
    if training or any(value is None for value in known):
        _variable(Emit(src), training)
        return
    gamma, beta, mean, variance = (np.asarray(value, np.float64) for value in known)
    dtype = src.graph.type(src.inputs[0]).dtype
    factor = gamma / np.sqrt(variance + src.attrs.get("epsilon", 1e-5))
    shape = _aligned(src)
    emit = Emit(src)
    scaled = emit.op("Mul", src.inputs[0], emit.const(factor.reshape(shape), dtype))
    emit.op("Add", scaled, emit.const((beta - mean * factor).reshape(shape), dtype), out=src.outputs[0])


def _aligned(src: Source) -> tuple[int, ...]:
    """The shape of one number a channel, aligned with axis 1 of x."""
    rank = len(src.graph.type(src.inputs[0]).shape)
    return (-1, *[1] * (rank - 2)) if rank > 1 else (1,)


def _variable(emit: Emit, training: bool) -> None:
    """Parameters that are not constant, or the statistics of x itself."""
    src = emit.src
    x, gamma, beta, mean, variance = src.inputs[:5]
    shape, own = emit.type(x).shape, emit.type(x).dtype
    axes = [axis for axis in range(len(shape)) if axis != 1]
    wide = emit.type(mean).dtype
    gamma, beta = emit.cast(gamma, wide), emit.cast(beta, wide)
    if training:
        running = mean, variance
        centre, _, spread = emit.centred(emit.cast(x, wide), axes)
        mean, variance = (emit.reshape(t, emit.type(running[0]).shape) for t in (centre, spread))
        momentum = src.attrs.get("momentum", 0.9)
        for now, before, y in zip((mean, variance), running, src.outputs[1:3], strict=False):
            if y:
                kept = emit.op("Mul", before, emit.const(momentum, wide))
                emit.op("Add", kept, emit.op("Mul", now, emit.const(1.0 - momentum, wide)), out=y)
    deviation = emit.op("Sqrt", emit.op("Add", variance, emit.const(src.attrs.get("epsilon", 1e-5), wide)))
    factor = emit.op("Div", gamma, deviation)
    shift = emit.op("Sub", beta, emit.op("Mul", mean, factor))
    channels = [n for n in emit.type(mean).shape] + [1] * (len(shape) - 2)
    scaled = emit.op("Mul", emit.cast(x, wide), emit.reshape(factor, channels))
    if wide == own:
        emit.op("Add", scaled, emit.reshape(shift, channels), out=src.outputs[0])
    else:
        emit.cast(emit.op("Add", scaled, emit.reshape(shift, channels)), own, out=src.outputs[0])


IMPORTS = {"BatchNormalization": from_onnx}
