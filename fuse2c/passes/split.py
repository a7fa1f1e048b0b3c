"""A layer of which one row is too long for a step becomes several that compute a part of its columns or channels each.

The parts are put side by side again by a copy. `Plan.parts` says which layers, along which axis, and how long each part is.
"""
from __future__ import annotations

from dataclasses import dataclass, field, replace

from fuse2c import price
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import Quant, TensorType
from fuse2c.op import bind
from fuse2c.ops import all_ops
from fuse2c.ops.movement import Axis, Slices
from fuse2c.plan import Plan

WIDE = 8            # outputs that kernels compute at a time, at most
COLUMNS = 3         # the axis of an image's columns
PART = ".part"
"""In the name of what a part computes: behind that of the layer's result."""


def run(plan: Plan) -> Plan:
    """The layers that `parts` names are split, and with several cores those that have no rows to divide."""
    log = []
    g = plan.graph
    parts = {y: (axis, size, "one row is longer than a step") for y, (axis, size) in plan.parts.items()}
    for y, (axis, size, why) in {**parts, **shared(plan)}.items():
        node = g.producer(y)
        if node is None:
            continue
        count, what = g.type(y).shape[axis], "columns" if node.op == "Conv" and axis == COLUMNS else "channels"
        g = _split(g, node, axis, size)
        log.append((y, True, f"{-(-count // size)} parts of at most {size} of {count} {what}: {why}"))
    return replace(plan, graph=g).decide("split", *log)


def part(node: Node) -> str:
    """Which part of a layer a node computes; "" for what is not in parts."""
    return node.name.partition(PART)[2]


def shared(plan: Plan) -> dict[str, tuple[int, int, str]]:
    """Layers of which each core is to compute a part of the channels, as there are too few rows: (axis, channels, why), by
    result."""
    found: dict[str, tuple[int, int, str]] = {}
    g, cores, p = plan.graph, plan.options.cores, plan.target.processor
    for node in g.nodes if cores > 1 else ():
        axis = channels(g, node)
        t = g.type(node.outputs[0])
        if axis < 0 or t.count >= cores * t.shape[axis]:
            continue        # it has rows, or columns
        size = -(-t.shape[axis] // (cores * WIDE)) * WIDE
        saved = p.mac * p.cpi * all_ops()[node.op].work(bind(g, node)).macs * (1 - 1 / cores)
        joining = 2 * price.meeting(plan) + p.cpi * (2 * p.launch + p.alu * t.count)
        if size < t.shape[axis] and saved > 2 * joining:
            found[node.outputs[0]] = (axis, size, f"one for each core saves about {saved - joining:,.0f} cycles")
    return found


def axes(g: Graph, node: Node) -> tuple[int, ...]:
    """The axes of the result along which a layer can be split: columns before channels, as parts of the channels gather each
    window anew; but channels that have windows of their own come first."""
    c = bind(g, node)
    if node.op == "MatMul" and c.constant(1) is not None and len(c.type(1).shape) == 2:
        return (len(c.y[0].shape) - 1,)
    if node.op != "Conv" or c.constant(1) is None:
        return ()
    w = c.attrs.window
    columns = (COLUMNS,) * (len(w.kernel) == 2 and max(w.pads[1], w.pads[3]) < w.extent(1))     # none sees padding alone
    if c.attrs.group == 1:
        return (*columns, 1)
    return (1, *columns) if c.attrs.group == c.type(0).shape[1] else columns


def channels(g: Graph, node: Node) -> int:
    """The axis of the channels that can be computed in parts; -1 if they cannot."""
    return next((axis for axis in axes(g, node) if node.op != "Conv" or axis != COLUMNS), -1)


@dataclass
class _Split:
    """A graph in which a layer, and what is computed of each of its elements alone, is replaced by parts: nodes and tensors."""

    g: Graph
    chain: list[Node]
    axis: int
    new: list[Node] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def take(self, name: str, along: int, first: int, end: int, key: str = "") -> str:
        """A part of a tensor along an axis; a constant's value too."""
        tensor, key = self.g.tensors[name], key or f"{name}{PART}{first}"
        data = None if tensor.data is None else tensor.data.take(range(first, end), along)
        self.tensors[key] = Tensor(key, _narrow(tensor.type, along, first, end), data)
        return key

    def cut(self, name: str, along: int, first: int, end: int, at: int) -> str:
        """What a part reads of its operand, which begins at `at` of the result; where it lies, after the pass `embed`."""
        shape = self.g.type(name).shape
        if (first, end) == (0, shape[along]):
            return name
        key = self.take(name, along, first, end, f"{self.chain[-1].outputs[0]}{PART}{at}.operand")
        start = tuple(first if k == along else 0 for k in range(len(shape)))
        self.new.append(Node(key, "Slice", (name,), (key,), Slices(start, (1,) * len(shape), self.tensors[key].type.shape),
                             origin=self.chain[0].origin))
        return key

    def columns(self, first: int, end: int) -> tuple[tuple[str, ...], object]:
        """Operands and attributes of the layer for some columns."""
        x, *rest = self.chain[0].inputs
        attrs = self.chain[0].attrs
        w, size = attrs.window, self.g.type(x).shape[COLUMNS]       # type: ignore[attr-defined]
        start, stop = first * w.strides[1] - w.pads[1], (end - 1) * w.strides[1] - w.pads[1] + w.extent(1)
        begin, last = max(start, 0), min(stop, size)
        pads = (w.pads[0], begin - start, w.pads[2], stop - last)
        narrow = replace(attrs, window=replace(w, pads=pads, ceil_mode=w.ceil_mode))    # type: ignore[type-var]
        return (self.cut(x, COLUMNS, begin, last, first), *rest), narrow

    def channels(self, first: int, end: int) -> tuple[tuple[str, ...], object]:
        """The same for some channels."""
        node = self.chain[0]
        x, w, *bias = node.inputs
        attrs, group = node.attrs, node.attrs.group if node.op == "Conv" else 1     # type: ignore[attr-defined]
        if group > 1:
            each = self.g.type(node.outputs[0]).shape[1] // group
            x = self.cut(x, 1, first // each, end // each, first)
            attrs = replace(attrs, group=(end - first) // each)     # type: ignore[type-var]
        along = 0 if node.op == "Conv" or node.attrs.trans_b else 1     # type: ignore[attr-defined]
        return (x, self.take(w, along, first, end), *(self.take(b, 0, first, end) if b else b for b in bias)), attrs

    def part(self, first: int, end: int) -> str:
        """Adds the nodes of a part; returns its result."""
        by_columns = self.chain[0].op == "Conv" and self.axis == COLUMNS
        inputs, attrs = (self.columns if by_columns else self.channels)(first, end)
        for n, before in zip(self.chain, (None, *self.chain), strict=False):
            if before is not None:
                inputs = tuple(self.new[-1].outputs[0] if t == before.outputs[0] else t for t in n.inputs)
            self.new.append(replace(n, name=f"{n.name}{PART}{first}", inputs=inputs, attrs=attrs if before is None else n.attrs,
                                    outputs=(self.take(n.outputs[0], self.axis, first, end),)))
        return self.new[-1].outputs[0]


def _split(g: Graph, node: Node, axis: int, size: int) -> Graph:
    found = _Split(g, _chain(g, node), axis)
    y, count = found.chain[-1].outputs[0], g.type(node.outputs[0]).shape[axis]
    group = node.attrs.group if node.op == "Conv" and axis != COLUMNS else 1    # type: ignore[attr-defined]
    each = count // group       # channels that a channel of the operand gives, if it gives some of its own
    size = max(size - size % each, each) if group > 1 else size
    ends = tuple(found.part(first, min(first + size, count)) for first in range(0, count, size))
    joined = Node(f"{node.name}.parts", "Concat", ends, (y,), Axis(axis), origin=node.origin,
                  quantised=found.chain[-1].quantised)
    return g.swap(found.chain, [*found.new, joined], found.tensors.values())


def _chain(g: Graph, node: Node) -> list[Node]:
    """The layer and what is computed of each of its elements alone, as long as nobody else reads it."""
    found = [node]
    while (n := g.only_user(found[-1].outputs[0])) is not None:
        alone = all(t == found[-1].outputs[0] or (g.data(t) is not None and g.type(t).count == 1) for t in n.inputs if t)
        if all_ops()[n.op].scalar is None or not alone or g.type(n.outputs[0]).shape != g.type(found[0].outputs[0]).shape:
            break
        found.append(n)
    return found


def _narrow(t: TensorType, axis: int, first: int, end: int) -> TensorType:
    """The type of a part along an axis."""
    shape = (*t.shape[:axis], end - first, *t.shape[axis + 1:])
    quant = t.quant
    if quant is not None and not quant.per_tensor and quant.axis == axis:
        quant = Quant(quant.scale[first:end] if len(quant.scale) > 1 else quant.scale,
                      quant.zero[first:end] if len(quant.zero) > 1 else quant.zero, quant.axis)
    return replace(t, shape=shape, quant=quant)
