"""A layer of which one row is too long for a step becomes several that compute a part of the channels each.

The parts are put side by side again by a copy. `Plan.parts` says which layers, and how many channels each part has.
"""
from __future__ import annotations

from dataclasses import replace

from fuse2c import price
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import Quant, TensorType
from fuse2c.op import bind
from fuse2c.ops import all_ops
from fuse2c.ops.movement import Axis, Slices
from fuse2c.plan import Plan

WIDE = 8            # outputs that kernels compute at a time, at most
PART = ".part"
"""In the name of what a part computes: behind that of the layer's result."""


def run(plan: Plan) -> Plan:
    """The layers that `parts` names are split, and with several cores those that have no rows to divide."""
    log = []
    g = plan.graph
    parts = {y: (size, "one row is longer than a step") for y, size in plan.parts.items()}
    for y, (size, why) in {**parts, **shared(plan)}.items():
        node = g.producer(y)
        if node is None:
            continue
        axis = channels(g, node)
        count = g.type(y).shape[axis]
        g = _split(g, node, axis, size)
        log.append((y, True, f"{-(-count // size)} parts of at most {size} of {count} channels: {why}"))
    return replace(plan, graph=g).decide("split", *log)


def part(node: Node) -> str:
    """Which part of a layer a node computes; "" for what is not in parts."""
    return node.name.partition(PART)[2]


def shared(plan: Plan) -> dict[str, tuple[int, str]]:
    """Layers of which each core is to compute a part of the channels, as there are too few rows: (channels, why), by result."""
    found: dict[str, tuple[int, str]] = {}
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
            found[node.outputs[0]] = (size, f"one for each core saves about {saved - joining:,.0f} cycles")
    return found


def channels(g: Graph, node: Node) -> int:
    """The axis of the result along which a layer can be split; -1 if it cannot."""
    c = bind(g, node)
    if node.op == "MatMul" and c.constant(1) is not None and len(c.type(1).shape) == 2:
        return len(c.y[0].shape) - 1
    if node.op != "Conv" or c.constant(1) is None:
        return -1
    return 1 if c.attrs.group in (1, c.type(0).shape[1]) else -1


def _split(g: Graph, node: Node, axis: int, size: int) -> Graph:
    chain = _chain(g, node)
    y = chain[-1].outputs[0]
    weights_axis = 0 if node.op == "Conv" or node.attrs.trans_b else 1      # type: ignore[attr-defined]
    group = node.attrs.group if node.op == "Conv" else 1                    # type: ignore[attr-defined]
    each = g.type(y).shape[axis] // group       # channels that a channel of the operand gives, if it gives some of its own
    size = max(size - size % each, each) if group > 1 else size
    new: list[Node] = []
    tensors: dict[str, Tensor] = {}

    def take(name: str, along: int, first: int, end: int) -> str:
        tensor = g.tensors[name]
        key = f"{name}{PART}{first}"
        data = None if tensor.data is None else tensor.data.take(range(first, end), along)
        tensors[key] = Tensor(key, _narrow(tensor.type, along, first, end), data)
        return key

    def cut(name: str, first: int, end: int) -> str:
        """The channels of the operand that a part reads; where it lies, after the pass `embed`."""
        shape = g.type(name).shape
        key = f"{y}{PART}{first}.operand"
        tensors[key] = Tensor(key, _narrow(g.type(name), 1, first, end))
        start = tuple(first if k == 1 else 0 for k in range(len(shape)))
        new.append(Node(key, "Slice", (name,), (key,), Slices(start, (1,) * len(shape), tensors[key].type.shape),
                        origin=node.origin))
        return key

    ends: list[str] = []
    for first in range(0, g.type(y).shape[axis], size):
        end = min(first + size, g.type(y).shape[axis])
        x, w, *bias = node.inputs
        attrs = node.attrs
        if group > 1:
            x, attrs = cut(x, first // each, end // each), replace(attrs, group=(end - first) // each)  # type: ignore[type-var]
        inputs = (x, take(w, weights_axis, first, end), *(take(b, 0, first, end) if b else b for b in bias))
        for n, before in zip(chain, (None, *chain), strict=False):
            if before is not None:
                inputs = tuple(new[-1].outputs[0] if t == before.outputs[0] else t for t in n.inputs)
            result = take(n.outputs[0], axis, first, end)
            new.append(replace(n, name=f"{n.name}{PART}{first}", inputs=inputs, outputs=(result,),
                               attrs=attrs if before is None else n.attrs))
        ends.append(new[-1].outputs[0])
    new.append(Node(f"{node.name}.parts", "Concat", tuple(ends), (y,), Axis(axis), origin=node.origin,
                    quantised=chain[-1].quantised))
    return g.swap(chain, new, tensors.values())


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
