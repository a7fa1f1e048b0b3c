"""Small models of random layers, to fit prices to: shapes that real models have, and those in between."""
from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHAINS, LAYERS = 5, 7       # models of each type, layers of each
PRUNED = "pruned"           # how the names of models begin whose weights have blocks of zeros
DRAWN = ("chain", "rare", "blocks", "recurrent", PRUNED)   # and those of all
BLOCKS = ((4, 4), (2, 4), (8, 4), (16, 4), (1, 8), (8, 1), (16, 1))     # outputs by channels


class Chain:
    """A chain of layers, in float32 or with Q/DQ around each; pruned: with blocks of zeros in their weights."""

    def __init__(self, seed: int, quantised: bool, channels: int, size: tuple[int, int], pruned: bool = False) -> None:
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.quantised, self.channels, self.size, self.pruned = quantised, channels, size, pruned
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.last = "x"
        self.shape = (1, channels, *size)

    def name(self) -> str:
        """A name that is not in use yet."""
        return f"t{len(self.nodes)}_{len(self.constants)}"

    def constant(self, value: np.ndarray) -> str:
        """An initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, op: str, *inputs: str, **attrs: object) -> str:
        """A node; the name of its result."""
        y = self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [y], name=y, **attrs))
        return y

    def again(self, x: str) -> str:
        """Quantised and dequantised, if that is the chain's type."""
        if not self.quantised:
            return x
        scale, zero = self.constant(np.float32(0.05)), self.constant(np.int8(self.random.randrange(-20, 20)))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, scale, zero), scale, zero)

    def weights(self, *shape: int) -> str:
        """A weight tensor."""
        kept = self.kept(shape) if self.pruned else np.ones(shape, bool)
        if not self.quantised:
            return self.constant((self.numbers.normal(0, 0.1, shape) * kept).astype(np.float32))
        # pruned models are like those of today, with a scale for each output
        scales = np.linspace(0.01, 0.02, shape[0], dtype=np.float32) if self.pruned else np.float32(0.01)
        return self.node("DequantizeLinear", self.constant((self.numbers.integers(-90, 90, shape) * kept).astype(np.int8)),
                         self.constant(scales), self.constant(np.zeros_like(scales, np.int8)), axis=0)

    def kept(self, shape: tuple[int, ...]) -> np.ndarray:
        """Which weights are not zero, by blocks of outputs and channels; those of each tap of a window are drawn anew."""
        (outputs, channels), taps = shape[:2], int(np.prod(shape[2:]))
        rows, columns = self.random.choice(BLOCKS)
        drawn = self.numbers.random((taps, -(-outputs // rows), -(-channels // columns))) < self.random.choice((0.1, 0.25, 0.5))
        whole = np.kron(drawn, np.ones((1, rows, columns), bool))[:, :outputs, :channels]
        return np.moveaxis(whole, 0, -1).reshape(shape)

    def conv(self) -> None:
        """A convolution: pointwise, depthwise or with a window; perhaps a residual; ReLU."""
        kind, x = self.random.choice(("point", "depth", "window")), self.last
        k = 1 if kind == "point" else self.random.choice((3, 3, 5, 7) if kind == "depth" else (3, 3, 5))
        k = min(k, 2 * min(self.size) - 1)
        group = self.channels if kind == "depth" else 1
        outputs = self.channels if group > 1 else self.random.choice((8, 10, 16, 24, 32, 48, 64))
        stride = 2 if k > 1 and min(self.size) > 7 and self.random.random() < 0.3 else 1
        y = self.node("Conv", x, self.weights(outputs, self.channels // group, k, k), kernel_shape=[k, k], group=group,
                      strides=[stride] * 2, pads=[k // 2] * 4)
        y = self.again(self.node("Relu", y) if self.random.random() < 0.6 else y)
        if stride == 1 and outputs == self.channels and self.random.random() < 0.4:
            y = self.again(self.node("Add", y, x))
        self.last, self.channels = y, outputs
        self.size = tuple((n + stride - 1) // stride for n in self.size)    # type: ignore[assignment]

    def end(self) -> None:
        """A pool over windows or over everything, and two fully connected layers, or three."""
        if min(self.size) > 3:
            self.last = self.again(self.node("MaxPool", self.last, kernel_shape=[2, 2], strides=[2, 2]))
        flat = self.node("Flatten", self.again(self.node("GlobalAveragePool", self.last)))
        for outputs in (self.random.choice((64, 100, 128)), *((self.random.choice((40, 150)),) if self.pruned else ()), 10):
            self.last = self.again(self.node("Gemm", flat, self.weights(outputs, self.channels), transB=1))
            flat, self.channels = self.last, outputs

    def model(self) -> onnx.ModelProto:
        """The whole chain."""
        self.last = self.again(self.last)
        for _ in range(LAYERS):
            self.conv()
        self.end()
        graph = helper.make_graph(self.nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
                                  [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Rare(Chain):
    """Layers that few models have: depthwise ones of a series, with gaps or with several outputs a channel, products of two
    stored matrices, averages."""

    def conv(self) -> None:
        """One of them."""
        chance = self.random.random()
        if chance < (0.25 if self.size[1] == 1 else 0.05) and self.channels <= 48:
            self.product()
        elif chance < 0.4 and min(self.size) > 2:
            self.last = self.again(self.node("AveragePool", self.last, kernel_shape=[3, 3], pads=[1] * 4))
        else:
            self.depthwise()

    def depthwise(self) -> None:
        """Along the rows only where a row is one pixel."""
        wide, several = self.size[1] > 1, self.channels <= 24 and self.random.random() < 0.3
        gap = self.random.choice((1, 3, 4)) if min(self.size) > 12 or (not wide and self.size[0] > 12) else 1
        window, reach = [3, 3 if wide else 1], [gap, gap if wide else 0]
        outputs = self.channels * (2 if several else 1)
        self.last = self.again(self.node("Conv", self.last, self.weights(outputs, 1, *window), kernel_shape=window,
                                         group=self.channels, dilations=[gap] * 2, pads=reach * 2))
        self.channels = outputs

    def product(self) -> None:
        """Each channel times each other one: a series of so many."""
        pixels = self.size[0] * self.size[1]
        x = self.node("Reshape", self.last, self.constant(np.asarray([1, self.channels, pixels])))
        y = self.again(self.node("MatMul", x, self.again(self.node("Transpose", x, perm=[0, 2, 1]))))
        self.last = self.node("Reshape", y, self.constant(np.asarray([1, self.channels, self.channels, 1])))
        self.size = (self.channels, 1)


class Blocks(Chain):
    """What other networks consist of: joined branches, sums of them, pools of larger windows, layer norms, functions."""

    def conv(self) -> None:
        """One of them."""
        kind = self.random.choice(("join", "pool", "norm", "function", "series"))
        if kind == "pool" and min(self.size) > 4:
            stride = self.random.choice((1, 2))
            self.last = self.again(self.node("MaxPool", self.last, kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4))
            self.size = tuple((n + stride - 1) // stride for n in self.size)    # type: ignore[assignment]
        elif kind == "norm":
            self.norm()
        elif kind == "function":
            self.last = self.again(self.node(self.random.choice(("Sigmoid", "Tanh", "Exp", "Erf", "Softplus")), self.last))
        elif self.channels < 40:
            self.join()
        super().conv()

    def join(self) -> None:
        """Two branches, one behind the other."""
        outputs = self.random.choice((6, 8, 12, 18))
        y = self.node("Conv", self.last, self.weights(outputs, self.channels, 1, 1), kernel_shape=[1, 1])
        y = self.again(self.node(self.random.choice(("Relu", "Sigmoid", "Tanh")), y))
        self.last = self.again(self.node("Concat", self.last, y, axis=1))
        self.channels += outputs

    def norm(self) -> None:
        """Over the channels of each pixel."""
        y = self.node("Transpose", self.last, perm=[0, 2, 3, 1])
        scale, bias = (self.constant(self.numbers.normal(0, 1, self.channels).astype(np.float32)) for _ in range(2))
        y = self.node("LayerNormalization", y, scale, bias, axis=-1)
        self.last = self.again(self.node("Transpose", y, perm=[0, 3, 1, 2]))


def recurrent(op: str, steps: int, inputs: int, hidden: int, **more: int) -> onnx.ModelProto:
    """A recurrent layer, its last state through a dense one and Softmax."""
    numbers, gates = np.random.default_rng(hidden), {"GRU": 3, "LSTM": 4, "RNN": 1}[op]
    weights = {"w": (1, gates * hidden, inputs), "r": (1, gates * hidden, hidden), "b": (1, 2 * gates * hidden),
               "d": (hidden, 5)}
    nodes = [helper.make_node(op, ["x", "w", "r", "b"], ["", "h"], hidden_size=hidden, **more),
             helper.make_node("Reshape", ["h", "flat"], ["s"]), helper.make_node("MatMul", ["s", "d"], ["m"]),
             helper.make_node("Softmax", ["m"], ["y"])]
    constants = [numpy_helper.from_array(numbers.normal(0, 0.2, s).astype(np.float32), n) for n, s in weights.items()]
    graph = helper.make_graph(nodes, op, [helper.make_tensor_value_info("x", TensorProto.FLOAT, (steps, 1, inputs))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 5))],
                              [*constants, numpy_helper.from_array(np.asarray([1, hidden]), "flat")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write(folder: Path) -> Iterator[Path]:
    """Writes the models; the same ones each time."""
    for seed in range(CHAINS):
        for quantised in (True, False):
            size = (12 + 3 * seed, 1 if seed % 2 else 9 + seed)
            path = folder / f"rare{seed}_{'int8' if quantised else 'fp32'}.onnx"
            onnx.save(Rare(seed, quantised, 8 + 5 * seed, size).model(), path)
            yield path
    for seed in range(CHAINS):
        for quantised in (True, False):
            path = folder / f"blocks{seed}_{'int8' if quantised else 'fp32'}.onnx"
            onnx.save(Blocks(seed, quantised, 5 + 3 * seed, (9 + 3 * seed, 1 if seed == 3 else 16 - seed)).model(), path)
            yield path
    for op in ("GRU", "LSTM", "RNN"):
        for size in (8, 13, 24, 32):
            path = folder / f"recurrent_{op.lower()}{size}.onnx"
            late = {"linear_before_reset": size // 8 % 2} if op == "GRU" else {}
            onnx.save(recurrent(op, size // 2 + 3, 40 - size, size, **late), path)
            yield path
    for seed in range(CHAINS):
        for quantised in (True, False):
            for pruned in (False, True):
                rng = random.Random(seed)
                size = (rng.randrange(4, 25), rng.randrange(3, 25))
                path = folder / f"{PRUNED if pruned else 'chain'}{seed}_{'int8' if quantised else 'fp32'}.onnx"
                onnx.save(Chain(seed, quantised, rng.choice((1, 3, 8, 16)), size, pruned).model(), path)
                yield path
