"""A small convolutional network in pure numpy: forward, backward and Adam.

Repeatable to the bit: floating-point sums normally depend on their order, and so on the processor, the
BLAS library and the number of threads. Here every operand of a sum is first rounded to a multiple of 2**-16
(``grid``). A product of two such values is a multiple of 2**-32, and float64 adds those without any rounding
as long as sums stay below 2**20; the largest in this training is below 2**12. So every order of summation
gives the same bits. The remaining element-wise steps (+ - * / sqrt) are correctly rounded by IEEE 754.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

GRID = 65536.0  # 2**16
BN_EPSILON = 1e-5
BN_MOMENTUM = 0.1  # share of the newest batch in the running statistics
CLASSES = 10


def grid(x: Array) -> Array:
    """Round to the nearest multiple of 2**-16 (see the head of this file for the reason)."""
    return np.rint(x * GRID) / GRID


def windows(x: Array, kernel: int) -> Array:
    """[N,C,H,W] -> [N,C,kernel*kernel,H,W]: for each pixel its neighbours, zeros outside the image."""
    if kernel == 1:
        return x[:, :, None]
    edge = kernel // 2
    height, width = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    shifts = [padded[:, :, r : r + height, c : c + width] for r in range(kernel) for c in range(kernel)]
    return np.stack(shifts, axis=2)


def add_windows(parts: Array, kernel: int) -> Array:
    """[N,C,kernel*kernel,H,W] -> [N,C,H,W]: the transpose of ``windows``, for the gradient."""
    if kernel == 1:
        return parts[:, :, 0]
    n, channels, _, height, width = parts.shape
    edge = kernel // 2
    padded = np.zeros((n, channels, height + 2 * edge, width + 2 * edge))
    for k in range(kernel * kernel):
        r, c = divmod(k, kernel)
        padded[:, :, r : r + height, c : c + width] += parts[:, :, k]
    return padded[:, :, edge:-edge, edge:-edge]


@dataclass
class Param:
    """One trained tensor: full-precision master copy, its gradient, and the two moments Adam keeps."""

    master: Array
    grad: Array = field(init=False)
    first: Array = field(init=False)
    second: Array = field(init=False)

    def __post_init__(self) -> None:
        self.grad, self.first, self.second = (np.zeros_like(self.master) for _ in range(3))

    @property
    def value(self) -> Array:
        """The value that is computed with and exported; small Adam steps add up in the master copy."""
        return grid(self.master)


class Conv:
    """Convolution, stride 1, same size; ``groups`` is 1 or, for a depthwise one, the channel count."""

    def __init__(self, rng: np.random.RandomState, shape: tuple[int, ...], groups: int = 1, bias: bool = True) -> None:
        limit = np.sqrt(6.0 / np.prod(shape[1:]))  # He, uniform: needs no log or exp, unlike a normal draw
        self.weight = Param(rng.uniform(-limit, limit, shape))
        self.bias = Param(np.zeros(shape[0])) if bias else None
        self.groups, self.kernel = groups, shape[-1]

    def params(self) -> list[Param]:
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    def forward(self, x: Array) -> Array:
        """[N,C,H,W] -> [N,O,H,W]."""
        n, _, height, width = x.shape
        self.seen = windows(x, self.kernel)
        weight = self.weight.value
        if self.groups == 1:
            flat = weight.reshape(len(weight), -1)  # [O, C*k*k]
            y = (flat @ self.seen.reshape(n, flat.shape[1], -1)).reshape(n, -1, height, width)
        else:
            y = (weight.reshape(len(weight), -1, 1, 1) * self.seen).sum(axis=2)
        return grid(y if self.bias is None else y + self.bias.value[:, None, None])

    def backward(self, dy: Array) -> Array:
        """Gradient [N,O,H,W] of the output -> gradient [N,C,H,W] of the input."""
        n, weight = len(dy), self.weight.value
        if self.bias is not None:
            self.bias.grad = dy.sum(axis=(0, 2, 3))
        if self.groups == 1:
            flat = weight.reshape(len(weight), -1)
            seen, rows = self.seen.reshape(n, flat.shape[1], -1), dy.reshape(n, len(weight), -1)
            self.weight.grad = (rows @ seen.transpose(0, 2, 1)).sum(axis=0).reshape(weight.shape)
            parts = (flat.T @ rows).reshape(self.seen.shape)
        else:
            self.weight.grad = (dy[:, :, None] * self.seen).sum(axis=(0, 3, 4)).reshape(weight.shape)
            parts = weight.reshape(len(weight), -1, 1, 1) * dy[:, :, None]
        return grid(add_windows(parts, self.kernel))


class BatchNorm:
    """Normalisation per channel: batch statistics while training, running statistics afterwards."""

    def __init__(self, channels: int) -> None:
        self.scale, self.shift = Param(np.ones(channels)), Param(np.zeros(channels))
        self.mean, self.var = np.zeros(channels), np.ones(channels)

    def params(self) -> list[Param]:
        return [self.scale, self.shift]

    def forward(self, x: Array, training: bool) -> Array:
        """[N,C,H,W] -> [N,C,H,W]."""
        mean, var = self.mean, self.var
        if training:
            count = x.size // x.shape[1]
            mean = x.sum(axis=(0, 2, 3)) / count
            var = (x * x).sum(axis=(0, 2, 3)) / count - mean * mean
            self.mean = grid(self.mean + BN_MOMENTUM * (mean - self.mean))
            self.var = grid(self.var + BN_MOMENTUM * (var - self.var))
        self.inverse = 1.0 / np.sqrt(var + BN_EPSILON)
        self.normal = grid((x - mean[:, None, None]) * self.inverse[:, None, None])
        return grid(self.normal * self.scale.value[:, None, None] + self.shift.value[:, None, None])

    def backward(self, dy: Array) -> Array:
        """Gradient of the output -> gradient of the input, both [N,C,H,W]; for a training pass."""
        count = dy.size // dy.shape[1]
        self.shift.grad = dy.sum(axis=(0, 2, 3))
        self.scale.grad = (dy * self.normal).sum(axis=(0, 2, 3))
        centred = dy - (self.shift.grad / count)[:, None, None]
        spread = self.normal * (self.scale.grad / count)[:, None, None]
        return grid((centred - spread) * (self.scale.value * self.inverse)[:, None, None])


class MaxPool:
    """Maximum over 2x2 blocks."""

    def forward(self, x: Array) -> Array:
        """[N,C,H,W] -> [N,C,H/2,W/2]."""
        n, channels, height, width = x.shape
        blocks = x.reshape(n, channels, height // 2, 2, width // 2, 2)
        y: Array = blocks.max(axis=(3, 5))
        self.winner = blocks == y[:, :, :, None, :, None]
        return y

    def backward(self, dy: Array) -> Array:
        """[N,C,H/2,W/2] -> [N,C,H,W]; equal maxima share the gradient."""
        share = dy / self.winner.sum(axis=(3, 5))
        n, channels, height, width = dy.shape
        return grid((self.winner * share[:, :, :, None, :, None]).reshape(n, channels, 2 * height, 2 * width))


class DigitsNet:
    """Images [N,1,8,8] -> logits [N,10].

    conv3x3 + batch norm + relu, depthwise 3x3 + relu, pointwise + relu, max-pool 2x2,
    conv3x3 with a residual add + relu, global average, fully connected.
    """

    def __init__(self, rng: np.random.RandomState) -> None:
        self.stem = Conv(rng, (16, 1, 3, 3), bias=False)  # the batch norm behind it has a shift of its own
        self.norm = BatchNorm(16)
        self.depthwise = Conv(rng, (16, 1, 3, 3), groups=16)
        self.pointwise = Conv(rng, (32, 16, 1, 1))
        self.pool = MaxPool()
        self.residual = Conv(rng, (32, 32, 3, 3))
        self.head = Conv(rng, (CLASSES, 32, 1, 1))  # fully connected = 1x1 convolution of a 1x1 image

    def params(self) -> list[Param]:
        layers = (self.stem, self.norm, self.depthwise, self.pointwise, self.residual, self.head)
        return [param for layer in layers for param in layer.params()]

    def forward(self, x: Array, training: bool = False) -> dict[str, Array]:
        """Images [N,1,8,8] -> every activation of the network by name; "logits" is [N,10]."""
        acts = {"image": grid(x)}
        acts["stem"] = np.maximum(self.norm.forward(self.stem.forward(acts["image"]), training), 0.0)  # [N,16,8,8]
        acts["depthwise"] = np.maximum(self.depthwise.forward(acts["stem"]), 0.0)  # [N,16,8,8]
        acts["pointwise"] = np.maximum(self.pointwise.forward(acts["depthwise"]), 0.0)  # [N,32,8,8]
        acts["pool"] = self.pool.forward(acts["pointwise"])  # [N,32,4,4]
        acts["branch"] = self.residual.forward(acts["pool"])  # [N,32,4,4]
        acts["residual"] = np.maximum(acts["branch"] + acts["pool"], 0.0)  # [N,32,4,4]
        acts["average"] = grid(acts["residual"].mean(axis=(2, 3), keepdims=True))  # [N,32,1,1]
        acts["logits"] = self.head.forward(acts["average"])[:, :, 0, 0]
        return acts

    def backward(self, acts: dict[str, Array], d_logits: Array) -> None:
        """Fill ``grad`` of every parameter from the gradient [N,10] of the logits."""
        d = self.head.backward(d_logits[:, :, None, None])
        pixels = acts["residual"].shape[2] * acts["residual"].shape[3]
        d = grid(d / pixels) * (acts["residual"] > 0)
        d = d + self.residual.backward(d)
        d = self.pool.backward(d) * (acts["pointwise"] > 0)
        d = self.pointwise.backward(d) * (acts["depthwise"] > 0)
        d = self.depthwise.backward(d) * (acts["stem"] > 0)
        self.stem.backward(self.norm.backward(d))


def softmax(logits: Array) -> Array:
    """Logits [N,10] -> probabilities [N,10] on the grid, which also hides last-bit differences of exp()."""
    powers = grid(np.exp(logits - logits.max(axis=1, keepdims=True)))
    return grid(powers / powers.sum(axis=1, keepdims=True))


class Adam:
    """Adam with decoupled weight decay (AdamW) on tensors of more than one dimension."""

    def __init__(self, params: list[Param], decay: float, beta1: float = 0.9, beta2: float = 0.999) -> None:
        self.params, self.decay, self.beta1, self.beta2 = params, decay, beta1, beta2
        self.power1 = self.power2 = 1.0  # running beta**t: pow() of the C library may differ in the last bit

    def step(self, rate: float) -> None:
        """Move every master copy by one step of size ``rate``."""
        self.power1 *= self.beta1
        self.power2 *= self.beta2
        for p in self.params:
            p.first = self.beta1 * p.first + (1.0 - self.beta1) * p.grad
            p.second = self.beta2 * p.second + (1.0 - self.beta2) * p.grad * p.grad
            move = (p.first / (1.0 - self.power1)) / (np.sqrt(p.second / (1.0 - self.power2)) + 1e-8)
            if p.master.ndim > 1:
                move = move + self.decay * p.master
            p.master = p.master - rate * move
