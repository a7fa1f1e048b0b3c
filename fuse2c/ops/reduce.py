"""Reductions over any axes: ReduceMean, ReduceSum, ReduceMax, ReduceMin on float32.

A mean over all spatial axes of [N,C,spatial...] is imported as an average pool, which has an integer form.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from fuse2c.ir.types import TensorType
from fuse2c.ops import _nest, pool
from fuse2c.ops._nest import Access
from fuse2c.ops._tile import Store
from fuse2c.ops.base import Call, Kernel, Op, Source, Spec, Work
from fuse2c.ops.movement import Shape


@dataclass(frozen=True, slots=True)
class Attrs:
    """The reduced axes, ascending; they stay in the shape with extent 1."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One reduction: start value, step over {acc} and {x}, end over {acc} (n elements)."""

    start: str
    step: str
    end: str
    numpy: Callable[..., np.ndarray]


ROWS = {
    "ReduceMean": Row("0.0f", "acc + v", "(acc / (float)COUNT)", np.mean),
    "ReduceSum": Row("0.0f", "acc + v", "acc", np.sum),
    "ReduceMax": Row("-F2C_INFINITY", "f2c_max(acc, v)", "acc", np.max),
    "ReduceMin": Row("F2C_INFINITY", "f2c_min(acc, v)", "acc", np.min),
}


def from_onnx(src: Source) -> None:
    """Any reduction; dropping the reduced axes is a Reshape, which costs nothing."""
    shape = src.graph.type(src.inputs[0]).shape
    axes = src.setting("axes", 1)
    if not axes and src.attrs.get("noop_with_empty_axes", 0):
        src.node("Reshape", Shape(shape), src.inputs[:1])
        return
    axes = tuple(sorted({int(a) % len(shape) for a in axes})) if axes else tuple(range(len(shape)))
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    drop = not src.attrs.get("keepdims", 1)
    target = src.graph.temporary(f"{src.outputs[0]}.kept") if drop else src.outputs[0]
    if src.op == "ReduceMean" and len(shape) in (3, 4) and axes == tuple(range(2, len(shape))):
        src.node("AveragePool", pool.Attrs(pool.whole(shape)), src.inputs[:1], (target,))
    else:
        src.node(src.op, Attrs(axes), src.inputs[:1], (target,))
    if drop:
        src.node("Reshape", Shape(tuple(n for i, n in enumerate(kept) if i not in axes)), (target,))


def infer(c: Call) -> list[TensorType]:
    """Reduced axes become 1."""
    x = c.type(0)
    return [TensorType(x.dtype, tuple(1 if i in c.attrs.axes else n for i, n in enumerate(x.shape)))]


def reference(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """numpy's own."""
    return [np.asarray(ROWS[c.node.op].numpy(x, axis=c.attrs.axes, keepdims=True)).astype(x.dtype)]


def spec(c: Call) -> Spec:
    """A nest over the output, and inside it one over the reduced axes."""
    x, y, axes = c.type(0), c.y[0], c.attrs.axes
    outer = _nest.nest(y, [Access(tuple(0 if i in axes else s for i, s in enumerate(x.strides)))])
    reduced = tuple(a for a in x.storage if a in axes)
    inner_type = TensorType(x.dtype, tuple(x.shape[a] for a in reduced))
    inner = _nest.nest(inner_type, [Access(tuple(x.strides[a] for a in reduced))], rows=False, indent=outer.indent)
    inner = replace(inner, loops=tuple(replace(loop, var=loop.var.replace("i", "j")) for loop in inner.loops),
                    index=tuple(text.replace("i", "j") for text in inner.index))
    row = ROWS[c.node.op]
    return Spec({"COUNT": prod(inner_type.shape)}, rows=outer.rows,
                flags={"outer": outer, "inner": inner, "start": row.start, "step": row.step,
                       "from": f"{outer.index[1]} + {inner.index[1]}", "store": Store(row.end, "", outer.index[0])})


def when(c: Call) -> str:
    """float32."""
    return "" if c.type(0).dtype == "float32" else f"no kernel for {c.type(0).dtype}"


OPS = tuple(Op(name=name, onnx={name: from_onnx}, infer=infer, reference=reference, layout="strided", anchor=True,
               work=lambda c: Work(alu=c.type(0).count), kernels=(Kernel("reduce", spec, when=when),))
            for name in ROWS)
