"""Dense and pointwise layers that pass over zeros of their operand: offered; passes/trade.py takes them where they pay."""
from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from fuse2c.ir.types import DType
from fuse2c.kernels import dsp, fields, fp, skip, skip_plain, tiling, vector
from fuse2c.kernels.conv import base_spec, is_pointwise, is_tiled, matrix, requant
from fuse2c.kernels.dense import dense, dense_when, pixels
from fuse2c.op import Call, Kernel, Spec

FEW, SEVERAL = 4, 8         # outputs of a block: as the core has registers for
CORES = (*((core.needs, FEW if "mul" in core.needs else SEVERAL) for core in fields.CORES), (vector.NEEDS, SEVERAL))


def when(c: Call, floats: bool) -> str:
    """A dense layer or a pointwise convolution, of float32 or of integers whose sums fit without the zero point in the bias."""
    if why := dense_when(c) if c.node.op == "MatMul" else is_tiled(c) or is_pointwise(c):
        return why
    if floats:
        return "" if c.type(0).dtype == DType.F32 and not c.quantised else "not float32"
    w, bias = _weights(c)
    return dsp.why_not(w if c.quantised else None) or skip.why_not(c.type(0), w, bias, c.quant(0).zero[0])


def _weights(c: Call) -> tuple[np.ndarray, np.ndarray]:
    """(weights [outputs, depth], bias with the zero point in it)."""
    return dense(c)[:2] if c.node.op == "MatMul" else matrix(c)


def spec(c: Call, simd: bool, size: int = 0) -> Spec:
    """One pixel at a time, without its zeros; size: outputs of a block, where there is no DSP extension."""
    w, bias = _weights(c)
    if c.node.op == "MatMul":
        names = pixels(c.type(0).count // w.shape[1], *w.shape[::-1])
        start = Spec(constants=names, flags={"rowwise": True})
        r = tiling.requant(c, c.quant(1), w, c.constant(2)) if c.quantised else None
    else:
        start = base_spec(c, 0, {}, {"GROUP_OUT": w.shape[0], "DEPTH": w.shape[1]})
        names, r = dict(start.constants), requant(c, w, c.constant(2)) if c.quantised else None
    count, zero = names["OUT_H"] * names["OUT_W"], c.quant(0).zero[0] if c.quantised else None
    if simd:
        assert r is not None and zero is not None
        parts = skip.parts(c.type(0), w, bias, zero, count, names["Y_SC"], dsp.finish(c, r))
    else:
        parts = skip_plain.parts(w, bias, zero, size, count, names["Y_SC"])
        parts["finish"] = None if r is None else tiling.finish(r)
    return replace(start, **parts | {"flags": {**start.flags, **parts["flags"]}})


def kernels(strided: bool) -> tuple[Kernel, ...]:
    """The kernels of an operator; strided: its operands may be parts of larger tensors."""
    kinds = [("skip_dsp", partial(spec, simd=True), False, dsp.NEEDS)]
    kinds += [("skip", partial(spec, simd=False, size=size), False, needs) for needs, size in CORES]
    kinds += [("skip_fp", partial(spec, simd=False, size=size), True, needs) for needs, size in ((fp.NEEDS, SEVERAL), *CORES)]
    return tuple(Kernel(name, made, when=partial(when, floats=floats), needs=needs, offer="zeros", strided=strided)
                 for name, made, floats, needs in kinds)
