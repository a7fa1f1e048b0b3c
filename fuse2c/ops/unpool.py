"""MaxUnpool: each element goes to where its index says, all else is zero.

Indices count through the tensor that was pooled (whose extents follow from the window); a wanted output shape may be
larger. What lies outside is limited to the tensor.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from fuse2c.errors import ShapeError
from fuse2c.ir.types import TensorType
from fuse2c.kernels import copy, windowing
from fuse2c.kernels.copy import Part
from fuse2c.kernels.nesting import Access
from fuse2c.op import Call, Kernel, Op, Source, Spec

PORTS = ("x", "indices")


@dataclass(frozen=True, slots=True)
class Attrs:
    """Shape of the tensor that was pooled, and of the result."""

    pooled: tuple[int, ...]
    out: tuple[int, ...]


def from_onnx(src: Source) -> None:
    """MaxUnpool: output_shape is a parameter."""
    x = src.graph.type(src.inputs[0])
    kernel = tuple(src.attrs["kernel_shape"])
    if len(x.shape) != len(kernel) + 2:
        raise src.refuse(f"{len(kernel)}-D windows for a tensor of shape {x.shape}")
    window = windowing.from_attrs(src, x.shape[2:], kernel)
    size = [(n - 1) * s + k - window.pads[i] - window.pads[len(kernel) + i]
            for i, (n, s, k) in enumerate(zip(x.shape[2:], window.strides, kernel, strict=True))]
    pooled = (*x.shape[:2], *size)
    out = tuple(map(int, src.const(2, "output_shape"))) if src.has(2) else pooled
    if len(out) != len(pooled) or any(o < p for o, p in zip(out, pooled, strict=True)):
        raise ShapeError(f"output_shape {out} is smaller than {pooled}", node=src.name, op=src.op)
    src.node("MaxUnpool", Attrs(pooled, out), src.inputs[:2])


def infer(c: Call) -> list[TensorType]:
    """The wanted shape."""
    if c.type(0).shape != c.type(1).shape or min(c.attrs.out, default=1) < 1:
        raise ShapeError(f"indices of the shape {c.type(1).shape} for {c.type(0).shape}", node=c.node.name,
                         op=c.node.op)
    return [replace(c.type(0), shape=c.attrs.out, order=(), quant=None)]


def reference(c: Call, x: np.ndarray, indices: np.ndarray) -> list[np.ndarray]:
    """Later elements win."""
    y = np.zeros(c.attrs.pooled, x.dtype)
    y.reshape(-1)[copy.wrap(indices, y.size).reshape(-1)] = x.reshape(-1)
    result = np.zeros(c.attrs.out, x.dtype)
    result[tuple(slice(n) for n in c.attrs.pooled)] = y
    return [result]


def spec(c: Call) -> Spec:
    """A scatter of single elements, in the order of x."""
    x, a = c.type(0), c.attrs
    nest, (source, index) = copy.walk(replace(x, order=()), [Access(x.strides), Access(c.type(1).strides)])
    steps, at = c.y[0].strides, []
    for axis, n in enumerate(a.pooled):
        behind = prod(a.pooled[axis + 1:])
        at += [f"(((at / {behind}) % {n}) * {steps[axis]})"] * (n > 1)
    line = f"const int32_t at = f2c_index({{indices}}[{index}], {prod(a.pooled)});"
    to = "at" if a.pooled == a.out and c.y[0].row_major else " + ".join(at) or "0"
    return copy.spec(c, PORTS, [Part(nest, to, f"{{x}}[{source}]", (line,))], fill="0")


OP = Op(name="MaxUnpool", onnx={"MaxUnpool": from_onnx}, ports=PORTS, infer=infer, reference=reference, half=True,
        kernels=(Kernel("copy", spec),))
