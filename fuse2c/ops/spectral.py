"""Discrete Fourier transforms as direct sums: DFT, STFT, and the filter bank MelWeightMatrix.

Complex numbers are pairs along the last axis. One kernel, for every frame of a signal:
y[k] = sum over n of window[n] * x[n] * e^(-+ 2 pi i k n / N). The sines and cosines of one period are tables.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import DType, TensorType
from fuse2c.kernels.scalars import compute, literal
from fuse2c.op import Call, Kernel, Op, Source, Spec, Work
from fuse2c.ops import _onnx
from fuse2c.ops._emit import Emit

MEL_LIMIT = 2 ** 24     # elements of a filter bank


@dataclass(frozen=True, slots=True)
class Attrs:
    """A transform along `axis`: `taps` elements of each of `frames` frames, `hop` apart, give `bins` of `length`.

    inverse: the other sign, divided by length. real: only the real part is wanted.
    """

    axis: int
    length: int
    taps: int
    bins: int
    frames: int = 0         # 0: no axis of frames in the output
    hop: int = 0
    inverse: bool = False
    real: bool = False


def from_dft(src: Source) -> None:
    """DFT; the inverse of a one-sided spectrum weighs all bins but the outermost twice."""
    shape = src.graph.type(src.inputs[0]).shape
    axis = src.attrs.get("axis", 1) if src.opset < 20 else int(
        src.const(2, "the axis").reshape(-1)[0]) if src.has(2) else -2
    axis %= len(shape)
    inverse, onesided = bool(src.attrs.get("inverse", 0)), bool(src.attrs.get("onesided", 0))
    natural = 2 * (shape[axis] - 1) if inverse and onesided else shape[axis]
    length = int(src.const(1, "the length").reshape(-1)[0]) if src.has(1) else natural
    if length < 1:
        raise ShapeError(f"a transform of length {length}", node=src.name, op=src.op)
    half = length // 2 + 1
    if not (inverse and onesided):
        src.node("DFT", Attrs(axis, length, min(length, shape[axis]), half if onesided else length, inverse=inverse),
                 src.inputs[:1])
        return
    taps = min(half, shape[axis])
    weights = np.full(taps, 2.0)
    weights[0] = 1.0
    if length % 2 == 0 and taps == half:
        weights[-1] = 1.0
    window = Emit(src).const(weights, src.graph.type(src.inputs[0]).dtype)
    src.node("DFT", Attrs(axis, length, taps, length, inverse=True, real=True), (src.inputs[0], window))


def from_stft(src: Source) -> None:
    """STFT: frames of a signal [batch, time, 1 or 2], each under a window."""
    shape = src.graph.type(src.inputs[0]).shape
    hop = int(src.const(1, "the step of the frames").reshape(-1)[0])
    size = src.graph.type(src.inputs[2]).shape[0] if src.has(2) else None
    length = int(src.const(3, "the length of the frames").reshape(-1)[0]) if src.has(3) else size or shape[1]
    if not 0 < length <= shape[1] or hop < 1:
        raise ShapeError(f"frames of {length}, {hop} apart, of a signal of {shape[1]}", node=src.name, op=src.op)
    bins = length // 2 + 1 if src.attrs.get("onesided", 1) else length
    attrs = Attrs(1, length, min(length, size or length), bins, (shape[1] - length) // hop + 1, hop)
    src.node("DFT", attrs, (src.inputs[0], *src.inputs[2:3]) if size else src.inputs[:1])


def from_mel(src: Source) -> None:
    """MelWeightMatrix: a constant."""
    given = [src.const(i, "a parameter of the filter bank") for i in range(5)]
    if (int(given[1].reshape(-1)[0]) // 2 + 1) * int(given[0].reshape(-1)[0]) > MEL_LIMIT:
        raise src.refuse(f"more than {MEL_LIMIT} weights")
    value = _onnx.run(_onnx.attrs(src.op, src.opset, src.attrs), list(given))[0]
    emit = Emit(src)
    emit.reshape(emit.const(value, DType(value.dtype.name)), value.shape, out=src.outputs[0])


def infer(c: Call) -> list[TensorType]:
    """[..., bins, ..., 2], with frames [batch, frames, bins, 2]."""
    x, a = c.type(0), c.attrs
    if x.shape[-1] not in (1, 2) or len(x.shape) < 2 or a.axis == len(x.shape) - 1:
        raise ShapeError(f"{x.shape} is no signal with real numbers or pairs along its last axis", node=c.node.name,
                         op=c.node.op)
    frames = (a.frames,) if a.frames else ()
    return [TensorType(x.dtype, (*x.shape[:a.axis], *frames, a.bins, *x.shape[a.axis + 1:-1], 1 if a.real else 2))]


def reference(c: Call, x: np.ndarray, window: np.ndarray | None = None) -> list[np.ndarray]:
    """The sum as defined, in float64."""
    a = c.attrs
    wide = x.astype(np.float64)
    signal = np.moveaxis(wide[..., 0] + (1j * wide[..., 1] if x.shape[-1] == 2 else 0), a.axis, -1)
    starts = np.arange(max(a.frames, 1)) * a.hop
    frames = signal[..., starts[:, None] + np.arange(a.taps)]
    if window is not None:
        frames = frames * window[:a.taps].astype(np.float64)
    turns = np.outer(np.arange(a.taps), np.arange(a.bins)) % a.length
    y = frames @ np.exp((2j if a.inverse else -2j) * np.pi * turns / a.length) / (a.length if a.inverse else 1)
    y = y if a.frames else np.moveaxis(y[..., 0, :], -1, a.axis)
    parts = [y.real] if a.real else [y.real, y.imag]
    return [np.stack(parts, axis=-1).astype(x.dtype)]


def sums(c: Call, x: np.ndarray, window: np.ndarray | None = None) -> list[np.ndarray]:
    """Each bin adds up everything in its frame."""
    flat = replace(c.attrs, length=1, inverse=False)
    both = np.abs(x).sum(axis=-1, keepdims=True)
    call = replace(c, node=replace(c.node, attrs=flat), x=(replace(c.type(0), shape=both.shape), *c.x[1:]))
    real = reference(call, both, window)[0][..., :1]
    return [np.broadcast_to(real, c.y[0].shape)]


def spec(c: Call) -> Spec:
    """Sizes, and one period of the cosine and of the sine with its sign."""
    x, a = c.type(0), c.attrs
    names = {"OUTER": prod(x.shape[:a.axis]), "FRAMES": max(a.frames, 1), "HOP": a.hop, "TAPS": a.taps, "BINS": a.bins,
             "LENGTH": a.length, "INNER": prod(x.shape[a.axis + 1:-1]), "SPAN": x.shape[a.axis], "PARTS": x.shape[-1]}
    angle = 2.0 * np.pi * np.arange(a.length) / a.length
    dtype = compute(x.dtype)
    tables = {"cosine": np.cos(angle).astype(dtype),
              "sine": (np.sin(angle) if a.inverse else -np.sin(angle)).astype(dtype)}
    window = c.constant(1)
    if window is not None:
        tables["w"] = window.reshape(-1)
    return Spec(names, tables, by_rows=False, flags={
        "window": c.has(1), "pairs": x.shape[-1] == 2, "imaginary": not a.real,
        "scale": f" * {literal(1.0 / a.length, x.dtype)}" if a.inverse else ""})


def work(c: Call) -> Work:
    """Two or four products a tap and bin."""
    return Work(macs=c.y[0].count * c.attrs.taps * c.type(0).shape[-1])


def when(c: Call) -> str:
    """float32 and float64."""
    return "" if c.type(0).dtype in (DType.F32, DType.F64) else f"no kernel for {c.type(0).dtype}"


OPS = (Op(name="DFT", onnx={"DFT": from_dft, "STFT": from_stft}, ports=("x", "w"), infer=infer, reference=reference,
          work=work, sums=sums, kernels=(Kernel("dft", spec, when=when),)),)
IMPORTS = {"MelWeightMatrix": from_mel}
