"""Writes a trained ``DigitsNet`` as ONNX: as it is in float32, and quantised to int8 in Q/DQ form.

In Q/DQ form every stored tensor is int8 (weights) or int32 (biases) with a DequantizeLinear behind it, and
every activation passes a QuantizeLinear/DequantizeLinear pair that says on which int8 scale it is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from network import BN_EPSILON, CLASSES, Array, BatchNorm, Conv, DigitsNet

OPSET = 17
IR_VERSION = 8
INPUT, OUTPUT = "image", "probabilities"
INT8_MIN, INT8_MAX = -128, 127
CONV3X3: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
CONV1X1: dict[str, Any] = {"kernel_shape": [1, 1], "pads": [0, 0, 0, 0], "strides": [1, 1]}
POOL2X2: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
MIN_PEAK = 1e-3  # of a weight channel: keeps the int32 bias of an all-zero channel in range


def _model(name: str, nodes: list[NodeProto], stored: list[TensorProto]) -> ModelProto:
    """Wrap nodes and initializers as a model from INPUT [N,1,8,8] to OUTPUT [N,10], both float."""
    image = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["N", 1, 8, 8])
    result = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["N", CLASSES])
    graph = helper.make_graph(nodes, name, [image], [result], initializer=stored)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="fuse2c-digits"
    )


def float_model(net: DigitsNet) -> ModelProto:
    """The network in float32, with its batch normalisation as a node of its own."""
    stored: list[TensorProto] = []

    def store(name: str, value: Array) -> str:
        stored.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def weights(layer: Conv, name: str, shape: tuple[int, ...] | None = None) -> list[str]:
        value = layer.weight.value
        names = [store(f"{name}.weight", value if shape is None else value.reshape(shape))]
        return names if layer.bias is None else [*names, store(f"{name}.bias", layer.bias.value)]

    def node(op: str, inputs: list[str], output: str, **attributes: Any) -> NodeProto:
        return helper.make_node(op, inputs, [output], name=output, **attributes)

    norm = net.norm
    statistics = {"scale": norm.scale.value, "shift": norm.shift.value, "mean": norm.mean, "var": norm.var}
    nodes = [
        node("Conv", [INPUT, *weights(net.stem, "stem")], "stem_conv", **CONV3X3),
        node(
            "BatchNormalization",
            ["stem_conv", *(store(f"norm.{key}", value) for key, value in statistics.items())],
            "stem_norm",
            epsilon=BN_EPSILON,
        ),
        node("Relu", ["stem_norm"], "stem"),
        node("Conv", ["stem", *weights(net.depthwise, "depthwise")], "depthwise_conv", group=16, **CONV3X3),
        node("Relu", ["depthwise_conv"], "depthwise"),
        node("Conv", ["depthwise", *weights(net.pointwise, "pointwise")], "pointwise_conv", **CONV1X1),
        node("Relu", ["pointwise_conv"], "pointwise"),
        node("MaxPool", ["pointwise"], "pool", **POOL2X2),
        node("Conv", ["pool", *weights(net.residual, "residual")], "branch", **CONV3X3),
        node("Add", ["branch", "pool"], "residual_sum"),
        node("Relu", ["residual_sum"], "residual"),
        node("GlobalAveragePool", ["residual"], "average"),
        node("Flatten", ["average"], "features", axis=1),
        node("Gemm", ["features", *weights(net.head, "head", (CLASSES, 32))], "logits", transB=1),
        node("Softmax", ["logits"], OUTPUT, axis=1),
    ]
    return _model("digits_fp32", nodes, stored)


def fold(conv: Conv, norm: BatchNorm | None = None) -> tuple[Array, Array]:
    """Weight [O,C,k,k] and bias [O] of a convolution together with the batch normalisation behind it."""
    weight = conv.weight.value
    bias = np.zeros(len(weight)) if conv.bias is None else conv.bias.value
    if norm is None:
        return weight, bias
    factor = norm.scale.value / np.sqrt(norm.var + BN_EPSILON)
    return weight * factor[:, None, None, None], norm.shift.value + (bias - norm.mean) * factor


class QdqGraph:
    """Collects nodes and initializers; remembers scale and zero point of every quantised activation."""

    def __init__(self, acts: dict[str, Array]) -> None:
        self.acts = acts
        self.nodes: list[NodeProto] = []
        self.stored: list[TensorProto] = []
        self.scales: dict[str, tuple[np.float32, np.int8]] = {}

    def add(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def store(self, name: str, value: NDArray[Any] | np.generic) -> str:
        self.stored.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def measured(self, name: str) -> tuple[np.float32, np.int8]:
        """Scale and zero point so that int8 spans all calibration values of one activation, and zero."""
        low = min(float(self.acts[name].min()), 0.0)  # zero must be exact: padding and relu produce it
        high = max(float(self.acts[name].max()), 0.0)
        scale = np.float32((high - low) / (INT8_MAX - INT8_MIN))
        zero = np.rint(INT8_MIN - low / float(scale))
        return scale, np.int8(np.clip(zero, INT8_MIN, INT8_MAX))

    def requantize(self, source: str, name: str, scale: np.float32, zero: np.int8, last: str | None = None) -> str:
        """Put ``source`` on the given int8 scale; returns the float name behind it (``last``, if given)."""
        self.scales[name] = (scale, zero)
        pair = [self.store(f"{name}.scale", scale), self.store(f"{name}.zero", zero)]
        self.add("QuantizeLinear", [source, *pair], f"{name}_int8")
        return self.add("DequantizeLinear", [f"{name}_int8", *pair], last or f"{name}_dq")

    def weights(self, name: str, source: str, weight: Array, bias: Array) -> list[str]:
        """Store weight [O,...] as int8 and bias [O] as int32, both with one scale per output channel."""
        axes = tuple(range(1, weight.ndim))
        peak = np.maximum(np.abs(weight).max(axis=axes), MIN_PEAK)
        scale = (peak / INT8_MAX).astype(np.float32)
        steps = np.rint(weight / scale.astype(np.float64).reshape(-1, *(1 for _ in axes)))
        bias_scale = self.scales[source][0] * scale  # so that the bias adds to the int32 sum of x*w directly
        bias_steps = np.rint(bias / bias_scale.astype(np.float64))
        weight_inputs = [
            self.store(f"{name}.weight_int8", np.clip(steps, -INT8_MAX, INT8_MAX).astype(np.int8)),
            self.store(f"{name}.weight_scale", scale),
            self.store(f"{name}.weight_zero", np.zeros(len(weight), np.int8)),
        ]
        bias_inputs = [
            self.store(f"{name}.bias_int32", bias_steps.astype(np.int32)),
            self.store(f"{name}.bias_scale", bias_scale),
        ]
        return [
            self.add("DequantizeLinear", weight_inputs, f"{name}.weight", axis=0),
            self.add("DequantizeLinear", bias_inputs, f"{name}.bias", axis=0),
        ]

    def step(self, op: str, inputs: list[str], name: str, relu: bool = False, **attributes: Any) -> str:
        """One operation, its relu and the measured int8 scale of the result; inputs and result in float."""
        raw = self.add(op, inputs, f"{name}_raw", **attributes)
        if relu:
            raw = self.add("Relu", [raw], f"{name}_relu")
        return self.requantize(raw, name, *self.measured(name))

    def same_scale(self, op: str, source: str, origin: str, name: str, **attributes: Any) -> str:
        """An operation that only picks or moves values: its result stays on the int8 scale of ``origin``."""
        return self.requantize(self.add(op, [source], f"{name}_raw", **attributes), name, *self.scales[origin])


def int8_model(net: DigitsNet, acts: dict[str, Array]) -> ModelProto:
    """The network in Q/DQ int8; ``acts`` are its activations on calibration images."""
    graph = QdqGraph(acts)
    step = graph.step
    x = graph.requantize(INPUT, "image", *graph.measured("image"))
    x = step("Conv", [x, *graph.weights("stem", "image", *fold(net.stem, net.norm))], "stem", relu=True, **CONV3X3)
    stored = graph.weights("depthwise", "stem", *fold(net.depthwise))
    x = step("Conv", [x, *stored], "depthwise", relu=True, group=16, **CONV3X3)
    stored = graph.weights("pointwise", "depthwise", *fold(net.pointwise))
    x = step("Conv", [x, *stored], "pointwise", relu=True, **CONV1X1)
    pooled = graph.same_scale("MaxPool", x, "pointwise", "pool", **POOL2X2)
    branch = step("Conv", [pooled, *graph.weights("residual", "pool", *fold(net.residual))], "branch", **CONV3X3)
    x = step("Add", [branch, pooled], "residual", relu=True)
    x = step("GlobalAveragePool", [x], "average")
    x = graph.same_scale("Flatten", x, "average", "features", axis=1)
    weight, bias = fold(net.head)
    stored = graph.weights("head", "features", weight.reshape(CLASSES, -1), bias)
    x = step("Gemm", [x, *stored], "logits", transB=1)
    x = graph.add("Softmax", [x], "softmax", axis=1)
    # A probability lies in 0..1, so its scale needs no measuring: 256 steps from 0 to 255/256.
    graph.requantize(x, "softmax_out", np.float32(1.0 / 256.0), np.int8(INT8_MIN), last=OUTPUT)
    return _model("digits_int8", graph.nodes, graph.stored)
