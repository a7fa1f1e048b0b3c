"""A transposed convolution is convolutions of the small map: one for each row of a block of results that begins at an
element, with the columns of the block as channels. What is behind it is computed before the parts are put together."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, op
from fuse2c.fusion.folds import along_channels, constant, dequantised_constant
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import Quant, TensorType
from fuse2c.kernels.windowing import Window
from fuse2c.ops import all_ops
from fuse2c.ops.conv import Attrs as Convolution
from fuse2c.ops.movement import Axis, Permutation, Shape, Slices

Arranged = Callable[[np.ndarray, np.ndarray], np.ndarray]

ENDS = "QuantizeLinear"     # what is computed of the parts ends with it: stored values are put together


@dataclass(frozen=True)
class Span:
    """Inputs under a window along an axis, and for each phase which tap each of them meets: -1 for none."""

    begin: int
    end: int
    taps: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """How many inputs."""
        return len(self.taps[0])


def span(phases: range, kernel: int, stride: int, pad: int, size: int, count: int) -> Span:
    """For results stride * j + phase, j < count: they meet input j + e - m at tap r + stride * m, where phase + pad is
    stride * e + r. Pads may come out negative."""
    met = []
    for phase in phases:
        e, r = divmod(phase + pad, stride)
        met.append({e - m: tap for m, tap in enumerate(range(r, kernel, stride))})
    first, last = min(min(m, default=0) for m in met), max(max(m, default=0) for m in met)
    return Span(-first, count - size + last, tuple(tuple(m.get(at, -1) for at in range(first, last + 1)) for m in met))


def to_convolutions(g: Graph, m: Match, stored: bool) -> Rewrite | str:
    """f(ConvTranspose(x, w)) = Reshape(Transpose(Concat(f(Conv(x, w0)), f(Conv(x, w1)), ...))), by the rows of a block."""
    n = m["turned"]
    a: Any = n.attrs
    w, rank = n.inputs[1], len(a.window.kernel)
    known = dequantised_constant(g, w) if stored else g.data(w) is not None
    if not known or any(g.data(t) is None and not dequantised_constant(g, t) for t in n.inputs[2:] if t):
        return ""
    if rank > 2 or a.group > 1 or any(d > 1 for d in a.window.dilations):
        return "it has groups, gaps between taps, or three dimensions"
    strides, size = a.window.strides, g.type(n.inputs[0]).shape[2:]
    counts = tuple(-(-out // s) for out, s in zip(a.out, strides, strict=True))
    axes = [(a.window.kernel[i], strides[i], a.window.pads[i], size[i], counts[i]) for i in range(rank)]
    rows = [span(range(p, p + 1), *axes[0]) for p in range(strides[0])] if rank > 1 else []
    columns = span(range(strides[-1]), *axes[-1])
    if any(s.begin < 0 or s.end < 0 for s in (*rows, columns)) or any(set(s.taps[0]) == {-1} for s in rows):
        return "some results meet no input, or some inputs no result"
    chain = behind(g, n)
    build = _Parts(g, n, strides[-1])
    parts = [build.part(chain, (row, columns), str(i)) for i, row in enumerate(rows)] or [build.part(chain, (columns,), "0")]
    y = (n, *chain)[-1].outputs[0]
    build.together(parts, g.type(y).shape, strides, counts, y)
    return Rewrite((n, *chain), tuple(build.nodes), tuple(build.tensors))


def behind(g: Graph, n: Node) -> tuple[Node, ...]:
    """What is computed element by element of a result alone, up to a quantisation."""
    found, y = list[Node](), n.outputs[0]
    while (f := g.only_user(y)) is not None and y not in g.outputs and len(f.outputs) == 1 and f.inputs.count(y) == 1:
        others = [g.data(t) for t in f.inputs if t and t != y]
        alike = g.type(f.outputs[0]).shape == g.type(y).shape
        if not alike or all_ops()[f.op].scalar is None or f.op == "DequantizeLinear" or any(
                v is None or (v.size > 1 and along_channels(g, n, v) is None) for v in others):
            break
        found.append(f)
        y = f.outputs[0]
        if f.op == ENDS:
            break
    return tuple(found)


class _Parts:
    """The nodes and tensors under construction; every channel becomes `several`, one for each column of a block."""

    def __init__(self, g: Graph, n: Node, several: int) -> None:
        self.g, self.n, self.several = g, n, several
        self.nodes: list[Node] = []
        self.tensors: list[Tensor] = []

    def part(self, chain: tuple[Node, ...], spans: tuple[Span, ...], name: str) -> str:
        """One convolution and what is behind it; the name of the result."""
        g, n = self.g, self.n
        window = Window(tuple(s.size for s in spans), (1,) * len(spans),
                        tuple(s.begin for s in spans) + tuple(s.end for s in spans), (1,) * len(spans))
        inputs = [n.inputs[0], self.weights(spans, name)]
        if len(n.inputs) > 2 and n.inputs[2]:
            inputs.append(self.constant(n.inputs[2], lambda b, _: np.tile(b, self.several)))
        x, y = g.type(n.inputs[0]), g.type(n.outputs[0])
        shape = (x.shape[0], self.several * y.shape[1], *window.out(x.shape[2:]))
        last = self.result(f"{n.outputs[0]}.{name}", replace(y, shape=shape))
        self.nodes.append(Node(f"{n.name}.{name}", "Conv", tuple(inputs), (last,), Convolution(window), origin=n.origin))
        for f in chain:
            made = self.result(f"{f.outputs[0]}.{name}", replace(g.type(f.outputs[0]), shape=shape))
            given = tuple(last if t in (n.outputs[0], *(c.outputs[0] for c in chain)) else self.operand(t) for t in f.inputs)
            self.nodes.append(replace(f, name=f"{f.name}.{name}", inputs=given, outputs=(made,)))
            last = made
        return last

    def together(self, parts: list[str], shape: tuple[int, ...], strides: tuple[int, ...], counts: tuple[int, ...],
                 y: str) -> None:
        """Blocks of results from the parts, each of them a row of all blocks; all that is moved lies there already."""
        kind, last = self.g.type(y), parts[0]
        batch, channels, columns = shape[0], shape[1], self.several
        lengths = (*counts[:-1], *strides[:-1], counts[-1])         # rows, parts, columns; or columns alone
        whole = tuple(n * s for n, s in zip(counts, strides, strict=True))
        quantised = kind.quant is not None

        def move(op_name: str, inputs: tuple[str, ...], attrs: object, to: tuple[int, ...], name: str = "") -> str:
            made = name or self.result(f"{y}.whole", replace(kind, shape=to))
            self.nodes.append(Node(f"{self.n.name}.{op_name}{len(self.nodes)}", op_name, inputs, (made,), attrs,
                                   origin=self.n.origin, quantised=quantised))
            return made
        if len(parts) > 1:
            last = move("Concat", tuple(parts), Axis(3), (batch, columns * channels, counts[0], len(parts) * counts[1]))
        apart, rank = (batch, columns, channels, *lengths), len(lengths)
        last = move("Reshape", (last,), Shape(apart), apart)
        turned = (batch, channels, *lengths, columns)
        last = move("Transpose", (last,), Permutation((0, *range(2, rank + 3), 1)), turned)
        cut = whole != shape[2:]
        last = move("Reshape", (last,), Shape((batch, channels, *whole)), (batch, channels, *whole), "" if cut else y)
        if cut:
            move("Slice", (last,), Slices((0,) * len(shape), (1,) * len(shape), shape), shape, y)

    def weights(self, spans: tuple[Span, ...], name: str) -> str:
        """[C, O, ...] as [columns * O, C, ...]: the taps that each phase meets."""
        *rows, columns = spans

        def arranged(w: np.ndarray, fill: np.ndarray) -> np.ndarray:
            for row in rows:
                w = _picked(w, fill, 2, row.taps[0])
            by_phase = np.stack([_picked(w, fill, w.ndim - 1, taps) for taps in columns.taps])
            return np.moveaxis(by_phase, 2, 1).reshape(-1, w.shape[0], *by_phase.shape[3:])
        return self.constant(self.n.inputs[1], arranged)

    def constant(self, t: str, arranged: Arranged) -> str:
        """A constant in another arrangement, which is asked for with the stored zero; behind a DequantizeLinear if it was."""
        dq = self.g.producer(t)
        if dq is None:
            return self.new(t, arranged(self.value(t), np.zeros((), np.float32)))
        stored, scale, zero = (self.value(i) for i in dq.inputs)
        value = arranged(stored, zero)
        vectors = [self.new(f"{t}.{what}", v if v.size == 1 else np.tile(v.reshape(-1), self.several).reshape(
            -1, *[1] * (value.ndim - 1))) for what, v in (("scale", scale), ("zero", zero))]
        q = self.g.type(dq.inputs[0]).quant
        quant = q and Quant(_tiled(q.scale, self.several), _tiled(q.zero, self.several), None if q.axis is None else 0)
        made = self.result(f"{t}.real", replace(self.g.type(t), shape=value.shape))
        self.nodes.append(replace(dq, name=f"{dq.name}.{made}", inputs=(self.new(t, value, quant), *vectors), outputs=(made,)))
        return made

    def value(self, t: str) -> np.ndarray:
        """That of a constant."""
        found = self.g.data(t)
        assert found is not None, "the fold has looked"
        return found

    def operand(self, t: str) -> str:
        """A constant that an operator behind the convolution takes: one number, or one for each channel."""
        value = self.g.data(t) if t else None
        if value is None or value.size == 1:
            return t
        vector = along_channels(self.g, self.n, value)
        assert vector is not None
        shape = (-1, *[1] * (len(self.g.type(self.n.outputs[0]).shape) - 2))
        return self.new(t, np.tile(vector, self.several).reshape(shape))

    def new(self, t: str, value: np.ndarray, quant: Quant | None = None) -> str:
        """A new constant instead of another one."""
        made = constant(self.g, f"{t}.phases{len(self.tensors)}", np.ascontiguousarray(value))
        self.tensors.append(replace(made, type=replace(made.type, quant=quant)))
        return made.name

    def result(self, base: str, kind: TensorType) -> str:
        """A new tensor."""
        self.tensors.append(Tensor(self.g.fresh(f"{base}.{len(self.tensors)}"), kind))
        return self.tensors[-1].name


def _tiled(values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    return values * count if len(values) > 1 else values


def _picked(w: np.ndarray, fill: np.ndarray, axis: int, taps: tuple[int, ...]) -> np.ndarray:
    """Slices of weights, `fill` for number -1."""
    none = np.broadcast_to(fill, np.take(w, [0], axis=axis).shape).astype(w.dtype)
    return np.take(np.concatenate([w, none], axis=axis), taps, axis=axis)


TURNED = op("ConvTranspose", name="turned")
PAYS = "no element is looked for: a convolution of the small map"
STORED = (Fold("upsample-stored", TURNED, partial(to_convolutions, stored=True), PAYS),)
REAL = (Fold("upsample", TURNED, partial(to_convolutions, stored=False), PAYS),)
