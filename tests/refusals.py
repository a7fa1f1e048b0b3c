"""Sound ONNX that the operators refuse, and shapes that ONNX's own rules let pass: one model for each reason."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from broken import F32, I64, node, value
from broken import model as plain
from onnx import TensorProto

Weights = Mapping[str, Any]


def made(op: str, inputs: str, weights: Weights | None = None, shape: tuple[int, ...] = (1, 3, 5, 4), *, opset: int = 20,
         elem: int = TensorProto.FLOAT, outputs: str = "y", extra: Mapping[str, tuple[int, ...]] | None = None,
         domain: str = "", **attrs: Any) -> onnx.ModelProto:
    """One node on an input x of some shape (and further float inputs)."""
    given = {"x": value("x", shape, elem)} | {k: value(k, s) for k, s in (extra or {}).items()}
    return plain([node(op, inputs, outputs, domain=domain, **attrs)], weights, inputs=given, opset=opset,
                 outputs=outputs.replace("-", "").split(), domains=[domain] if domain else ())


def ones(*shape: int) -> np.ndarray:
    """Weights that do not matter."""
    return np.ones(shape, F32)


def ints(*values: int) -> np.ndarray:
    """A list of whole numbers."""
    return np.array(values, I64)


def halves(op: str, **attrs: Any) -> onnx.ModelProto:
    """A recurrent operator on a sequence of 3 steps."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    return made(op, "x w r", {"w": ones(1, 2 * gates, 4), "r": ones(1, 2 * gates, 2)}, (3, 1, 4), hidden_size=2,
                outputs="y", **attrs)


def sized(then: str) -> onnx.ModelProto:
    """A result whose size depends on the data, read by another node."""
    return plain([node("NonZero", "x", "a"), node(then, "a")])


def stored(scale: Any, zero: Any, op: str = "DequantizeLinear", **attrs: Any) -> onnx.ModelProto:
    """A DequantizeLinear of an int8 tensor."""
    return made(op, "x s z", {"s": scale, "z": zero}, elem=TensorProto.INT8, opset=21, **attrs)


REFUSALS: dict[str, Callable[[], onnx.ModelProto]] = {
    "auto_pad": lambda: made("Conv", "x w", {"w": ones(2, 3, 2, 2)}, auto_pad="FOO"),
    "data-dependent size": lambda: sized("Neg"),
    "bias of a convolution": lambda: made("Conv", "x w b", {"w": ones(2, 3, 2, 2), "b": ones(3)}),
    "kernel_shape of a convolution": lambda: made("Conv", "x w", {"w": ones(2, 3, 2, 2)}, kernel_shape=[2, 3]),
    "kernel beyond the input": lambda: made("Conv", "x w", {"w": ones(2, 3, 9, 2)}),
    "4-D convolution": lambda: made("Conv", "x w", {"w": ones(2, 3, 1, 1, 1, 1)}, (1, 3, 2, 2, 2, 2)),
    "channels of a transposed convolution": lambda: made("ConvTranspose", "x w", {"w": ones(4, 2, 2, 2)}),
    "bias of a transposed convolution": lambda: made("ConvTranspose", "x w b", {"w": ones(3, 2, 2, 2), "b": ones(3)}),
    "kernel_shape of a transposed one": lambda: made("ConvTranspose", "x w", {"w": ones(3, 2, 2, 2)}, kernel_shape=[2, 3]),
    "4-D transposed convolution": lambda: made("ConvTranspose", "x w", {"w": ones(3, 2, 1, 1, 1, 1)}, (1, 3, 2, 2, 2, 2)),
    "blocks that are no image": lambda: made("Col2Im", "x i b", {"i": ints(5, 5), "b": ints(2, 2)}, (1, 12, 15)),
    "4-D images": lambda: made("Col2Im", "x i b", {"i": ints(2, 2, 2, 2), "b": ints(1, 1, 1, 1)}, (1, 1, 16)),
    "channels of a deformable convolution": lambda: made(
        "DeformConv", "x w o", {"w": ones(2, 4, 2, 2)}, extra={"o": (1, 8, 4, 3)}),
    "offsets of a deformable convolution": lambda: made(
        "DeformConv", "x w o", {"w": ones(2, 3, 2, 2)}, extra={"o": (1, 8, 4, 4)}),
    "kernel_shape of a deformable one": lambda: made(
        "DeformConv", "x w o", {"w": ones(2, 3, 2, 2)}, extra={"o": (1, 8, 4, 3)}, kernel_shape=[2, 1]),
    "3-D deformable convolution": lambda: made(
        "DeformConv", "x w o", {"w": ones(2, 3, 1, 1, 1)}, (1, 3, 2, 2, 2), extra={"o": (1, 3, 2, 2, 2)}),
    "training of a batch normalisation": lambda: made(
        "BatchNormalization", "x w w w w", {"w": ones(3)}, opset=8, outputs="y m v"),
    "training of a dropout": lambda: made("Dropout", "x r t", {"r": F32(0.5), "t": np.bool_(True)}),
    "k beyond the axis": lambda: made("TopK", "x k", {"k": ints(9)}, outputs="y i"),
    "scalar in NonZero": lambda: made("NonZero", "x", shape=()),
    "terms of Einsum": lambda: made("Einsum", "x", equation="ij,jk->ik", shape=(2, 3)),
    "extents of Einsum": lambda: made("Einsum", "x z", shape=(2, 3), extra={"z": (4, 2)}, equation="ij,jk->ik"),
    "result of Einsum": lambda: made("Einsum", "x", shape=(2, 3), equation="ij->ii"),
    "letters of Einsum": lambda: made("Einsum", "x", shape=(2, 3), equation="i1->i"),
    "axis of an old broadcast": lambda: made("Add", "x z", shape=(2, 3), extra={"z": (3, 4)}, opset=6, broadcast=1, axis=1),
    "indices that reach outside": lambda: made("Gather", "x i", {"i": ints(7)}, axis=2),
    "indices of another shape": lambda: made("GatherElements", "x i", {"i": np.zeros((1, 3, 5, 9), I64)}, axis=1),
    "indices of batches": lambda: made("GatherND", "x i", {"i": np.zeros((2, 1), I64)}, batch_dims=1),
    "lengths of sequences": lambda: made("ReverseSequence", "x l", {"l": ints(1, 2, 3)}, (4, 5), time_axis=0, batch_axis=1),
    "mode of a grid": lambda: made("GridSample", "x g", extra={"g": (1, 2, 2, 2)}, mode="quintic"),
    "padding of a grid": lambda: made("GridSample", "x g", extra={"g": (1, 2, 2, 2)}, padding_mode="mirror"),
    "grid of another batch": lambda: made("GridSample", "x g", extra={"g": (2, 2, 2, 2)}),
    "theta of another size": lambda: made("AffineGrid", "x s", {"s": ints(1, 1, 2, 2)}, (2, 2, 3)),
    "sum beyond int32": lambda: made("MatMulInteger", "x w", {"w": np.ones((40_000, 2), np.uint8)}, (1, 40_000),
                                     elem=TensorProto.UINT8),
    "alpha of integers": lambda: made("Gemm", "x w", {"w": np.ones((4, 2), np.int32)}, (3, 4), elem=TensorProto.INT32,
                                      alpha=0.5),
    "boxes and scores": lambda: made("NonMaxSuppression", "x s m", {"m": ints(3)}, (1, 6, 4), extra={"s": (1, 2, 5)}),
    "mode of Pad": lambda: made("Pad", "x p", {"p": ints(0, 0, 1, 1, 0, 0, 1, 1)}, mode="mirror"),
    "number of pads": lambda: made("Pad", "x p - a", {"p": ints(1, 1, 1), "a": ints(2)}),
    "pads that cut off too much": lambda: made("Pad", "x p", {"p": ints(0, 0, -9, 0, 0, 0, 0, 0)}),
    "4-D pooling": lambda: made("MaxPool", "x", shape=(1, 3, 2, 2, 2, 2), kernel_shape=[1, 1, 1, 1]),
    "4-D global pooling": lambda: made("GlobalMaxPool", "x", shape=(1, 3, 2, 2, 2, 2)),
    "window in the padding": lambda: made("MaxPool", "x", kernel_shape=[2, 2], pads=[2, 0, 2, 0]),
    "scale and zero point": lambda: stored(ones(3), np.ones(2, np.int8), axis=1),
    "scales of no axis": lambda: stored(ones(2, 2), np.ones((2, 2), np.int8), axis=1),
    "axis of blocks": lambda: stored(ones(1, 3, 5, 2), np.ones((1, 3, 5, 2), np.int8), axis=7, block_size=2),
    "blocks that do not divide": lambda: stored(ones(1, 3, 5, 2), np.ones((1, 3, 5, 2), np.int8), axis=3, block_size=3),
    "QGemm with a float output": lambda: made(
        "QGemm", "x s z w s z", {"s": F32(0.1), "z": np.int8(1), "w": np.ones((4, 2), np.int8)}, (3, 4),
        elem=TensorProto.INT8, domain="com.microsoft"),
    "channels at the end of a pool": lambda: made(
        "QLinearGlobalAveragePool", "x s z s z", {"s": F32(0.1), "z": np.int8(1)}, (1, 4, 4, 3),
        elem=TensorProto.INT8, domain="com.microsoft", channels_last=1),
    "scales beyond float32": lambda: plain(
        [node("DequantizeLinear", "x s z", "a"), node("DequantizeLinear", "w s z", "b", name="w"),
         node("Conv", "a b", "c"), node("QuantizeLinear", "c t z")],
        {"w": np.ones((2, 3, 1, 1), np.int8), "s": F32(1e18), "t": F32(1e-38), "z": np.int8(1)},
        inputs={"x": value("x", (1, 3, 5, 4), TensorProto.INT8)}),
    "direction of an LSTM": lambda: halves("LSTM", direction="sideways"),
    "activation of a GRU": lambda: halves("GRU", activations=["Sigmoid", "Cosine"]),
    "activations of an RNN": lambda: halves("RNN", activations=["Tanh", "Tanh"]),
    "mode of Resize": lambda: made("Resize", "x - s", {"s": np.array([1, 1, 2, 2], F32)}, mode="quintic"),
    "coordinates of Resize": lambda: made(
        "Resize", "x - s", {"s": np.array([1, 1, 2, 2], F32)}, coordinate_transformation_mode="polar"),
    "rounding of Resize": lambda: made("Resize", "x - s", {"s": np.array([1, 1, 2, 2], F32)}, nearest_mode="up"),
    "aspect ratio of Resize": lambda: made("Resize", "x - - s", {"s": ints(1, 3, 9, 9)}, keep_aspect_ratio_policy="bend"),
    "regions": lambda: made("MaxRoiPool", "x r", extra={"r": (2, 4)}, pooled_shape=[2, 2]),
    "reduction of a scatter": lambda: made(
        "ScatterND", "x i u", {"i": np.zeros((1, 1), I64)}, extra={"u": (1, 3, 5, 4)}, reduction="median"),
    "updates of a scatter": lambda: made("ScatterND", "x i u", {"i": np.zeros((1, 1), I64)}, extra={"u": (1, 3, 5, 9)}),
    "step of Slice": lambda: made("Slice", "x b e a s", {"b": ints(0), "e": ints(3), "a": ints(2), "s": ints(0)}),
    "parts of Split": lambda: made("Split", "x s", {"s": ints(1, 1)}, axis=1, outputs="y z"),
    "repeats of Tile": lambda: made("Tile", "x r", {"r": ints(1, 2)}),
    "shape of Expand": lambda: made("Expand", "x s", {"s": ints(2, 7)}),
    "blocks of SpaceToDepth": lambda: made("SpaceToDepth", "x", blocksize=2),
    "step of Range": lambda: made("Range", "x l d", {"l": F32(9), "d": F32(1)}, ()),
    "frames of a spectrum": lambda: made("STFT", "x f - l", {"f": ints(2), "l": ints(99)}, (1, 16, 1)),
    "length of a spectrum": lambda: made("DFT", "x l", {"l": ints(0)}, (1, 16, 1)),
    "signal of a spectrum": lambda: made("DFT", "x", None, (1, 16, 3)),
    "pool of strings": lambda: made("TfIdfVectorizer", "x", None, (4,), elem=TensorProto.INT32, mode="TF", min_gram_length=1,
                                    max_gram_length=1, max_skip_count=0, ngram_counts=[0], ngram_indexes=[0],
                                    pool_strings=["a"]),
    "windows of an unpooling": lambda: made("MaxUnpool", "x i", {"i": np.zeros((1, 3, 5, 4), I64)}, kernel_shape=[2]),
    "indices of an unpooling": lambda: made("MaxUnpool", "x i", {"i": np.zeros((1, 3, 5, 3), I64)}, kernel_shape=[2, 2]),
    "determinant": lambda: made("Det", "x"),
    "bits of another size": lambda: made("BitCast", "x", opset=26, to=int(TensorProto.INT64)),
    "type of EyeLike": lambda: made("EyeLike", "x", shape=(3, 3), dtype=int(TensorProto.FLOAT8E4M3FN)),
    "type of Cast": lambda: made("Cast", "x", to=int(TensorProto.STRING)),
}
