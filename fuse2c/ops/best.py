"""ArgMax, ArgMin, TopK: the greatest or least elements along an axis and where they are.

TopK is an insertion sort into K places: at most K comparisons and moves for each element, whatever the data. Of equal
elements the one with the lower index comes first. NaN is never better than another element.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fuse2c.ir.types import COMPUTE, CTYPE, DType, TensorType
from fuse2c.kernels import lines
from fuse2c.kernels.tiling import Store
from fuse2c.op import Accumulator, Call, Kernel, Op, Reduction, Source, Spec, Work
from fuse2c.ops.shapes import axis_of, reshape, shape_of, whole_numbers


@dataclass(frozen=True, slots=True)
class Arg:
    """ArgMax, ArgMin: the axis, which stays with extent 1; whether the last of equal elements counts."""

    axis: int
    last: bool


@dataclass(frozen=True, slots=True)
class Top:
    """TopK."""

    axis: int
    k: int
    largest: bool


def from_arg(src: Source) -> None:
    """ArgMax, ArgMin."""
    shape = shape_of(src)
    axis = axis_of(src, src.attrs.get("axis", 0), len(shape))
    kept = src.attrs.get("keepdims", 1) == 1
    y = src.outputs[0] if kept else src.graph.temporary(f"{src.outputs[0]}.kept")
    src.node(src.op, Arg(axis, bool(src.attrs.get("select_last_index", 0))), src.inputs[:1], (y,))
    if not kept:
        reshape(src, y, shape[:axis] + shape[axis + 1:], src.outputs[0])


def from_top_k(src: Source) -> None:
    """TopK: k is an attribute in opset 1, an input since 10."""
    shape = shape_of(src)
    axis = axis_of(src, src.attrs.get("axis", -1), len(shape))
    k = whole_numbers(src.setting("k", 1))[0]
    if not 0 <= k <= shape[axis]:
        raise src.refuse(f"k is {k}, the axis has {shape[axis]} elements", attr="k")
    outputs = [t or src.graph.temporary(f"{src.name}.{i}") for i, t in enumerate((*src.outputs, "")[:2])]
    src.node("TopK", Top(axis, k, bool(src.attrs.get("largest", 1))), src.inputs[:1], tuple(outputs))


def infer_arg(c: Call) -> list[TensorType]:
    """One index for each line."""
    return [TensorType(DType.I64, tuple(1 if i == c.attrs.axis else n for i, n in enumerate(c.type(0).shape)))]


def reference_arg(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """numpy's, from the end for the last index."""
    a, best = c.attrs, np.argmax if c.node.op == "ArgMax" else np.argmin
    y = best(np.flip(x, a.axis) if a.last else x, axis=a.axis, keepdims=True)
    return [np.asarray(x.shape[a.axis] - 1 - y if a.last else y).astype(np.int64)]


def infer_top(c: Call) -> list[TensorType]:
    """Values and indices."""
    a, x = c.attrs, c.type(0)
    shape = tuple(a.k if i == a.axis else n for i, n in enumerate(x.shape))
    return [replace(x, shape=shape, quant=None, order=()), TensorType(DType.I64, shape)]


def reference_top(c: Call, x: np.ndarray) -> list[np.ndarray]:
    """A stable sort; for the largest first, of the reversed line, so that ties keep their order."""
    a = c.attrs
    if a.largest:
        last = x.shape[a.axis] - 1
        order = last - np.flip(np.argsort(np.flip(x, a.axis), axis=a.axis, kind="stable"), a.axis)
    else:
        order = np.argsort(x, axis=a.axis, kind="stable")
    picked = np.take(order, np.arange(a.k), axis=a.axis).astype(np.int64)
    return [np.take_along_axis(x, picked, a.axis), picked]


def spec_arg(c: Call) -> Spec:
    """Loops over the lines."""
    x, a = c.type(0), c.attrs
    n = lines.around(x, a.axis, c.y[0])
    sign = (">" if c.node.op == "ArgMax" else "<") + ("=" if a.last else "")
    return Spec({"COUNT": x.shape[a.axis], "X_STEP": x.strides[a.axis]}, by_rows=False, flags={
        "nest": n, "from": n.index[1], "store": Store("best", "", n.index[2]), "better": sign,
        "value": CTYPE[x.dtype]})


def spec_top(c: Call) -> Spec:
    """Loops over the lines; both outputs lie in the same order."""
    x, y, a = c.type(0), c.y[0], c.attrs
    n = lines.around(x, a.axis, y)
    return Spec({"COUNT": x.shape[a.axis], "K": a.k, "X_STEP": x.strides[a.axis], "Y_STEP": y.strides[a.axis]},
                by_rows=False, flags={"nest": n, "from": n.index[1], "to": n.index[2], "value": CTYPE[x.dtype],
                                      "better": ">" if a.largest else "<"})


def when(c: Call) -> str:
    """Numbers that C compares as they lie in memory."""
    return "" if not c.type(0).dtype.is_half else f"no kernel for {c.type(0).dtype}"


def nest_form(c: Call) -> Reduction | str:
    """The best value so far and its index; the first value counts whatever it is."""
    a, dtype = c.attrs, c.type(0).dtype
    if not dtype.is_float or dtype.is_half:
        return "an index among integers"
    better = "{v} " + (">" if c.node.op == "ArgMax" else "<") + ("=" if a.last else "") + " {acc1}"
    return Reduction((a.axis,), (Accumulator("int32_t", "0", f"(({{i}} == 0) || ({better})) ? {{i}} : {{acc0}}"),
                                 Accumulator(COMPUTE[dtype], "0", "({acc0} == {i}) ? {v} : {acc1}")), "{acc0}")


def work_top(c: Call) -> Work:
    """Every element may move all others."""
    return Work(alu=c.type(0).count * max(c.attrs.k, 1))


OPS = (
    *(Op(name=name, onnx={name: from_arg}, infer=infer_arg, reference=reference_arg, layout="strided", nest=nest_form,
         work=lambda c: Work(alu=c.type(0).count), kernels=(Kernel("arg", spec_arg, when=when),))
      for name in ("ArgMax", "ArgMin")),
    Op(name="TopK", onnx={"TopK": from_top_k}, infer=infer_top, reference=reference_top, layout="row-major",
       work=work_top, kernels=(Kernel("top_k", spec_top, when=when),)),
)
