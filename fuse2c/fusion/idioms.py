"""Operators that exporters write as several: the one operator has a cheaper kernel, and one table for stored values."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, inner_use, op
from fuse2c.fusion.folds import other_input
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ops.elementwise import Attrs


def number(g: Graph, t: str) -> float | None:
    """A constant that is one number."""
    data = g.data(t)
    return float(data.reshape(-1)[0]) if data is not None and data.size == 1 else None


def power(g: Graph, m: Match) -> Rewrite | str:
    """x ** 2 = x * x, x ** 3 = x * x * x, x ** 0.5 = Sqrt(x), x ** -1 = Reciprocal(x)."""
    n = m["pow"]
    x, p = n.inputs
    exponent, t = number(g, p), g.type(n.outputs[0])
    if exponent not in (2.0, 3.0, 0.5, -1.0) or not t.dtype.is_float or g.type(x).shape != t.shape:
        return "no exponent that has an operator of its own"
    if exponent in (0.5, -1.0):
        return Rewrite((n,), (replace(n, op="Sqrt" if exponent == 0.5 else "Reciprocal", inputs=(x,), attrs=Attrs()),))
    if exponent == 2.0:
        return Rewrite((n,), (replace(n, op="Mul", inputs=(x, x), attrs=Attrs()),))
    square = Tensor(g.fresh(f"{x}.square"), t)
    return Rewrite((n,), (Node(f"{n.name}.square", "Mul", (x, x), (square.name,), Attrs(), origin=n.origin),
                          replace(n, op="Mul", inputs=(square.name, x), attrs=Attrs())), (square,))


def swish(g: Graph, m: Match) -> Rewrite | str:
    """x * Sigmoid(x) = Swish(x)."""
    return _gated(g, m, "Swish", (1.0,))


def hard_swish(g: Graph, m: Match) -> Rewrite | str:
    """x * HardSigmoid(x) with slope 1/6 and offset 1/2 = HardSwish(x)."""
    a = m["gate"].attrs
    if not isinstance(a, Attrs) or not np.allclose(a.values, (1 / 6, 0.5), rtol=1e-6, atol=0.0):
        return "another slope or offset"
    return _gated(g, m, "HardSwish", (1 / 6, 0.5))


def mish(g: Graph, m: Match) -> Rewrite | str:
    """x * Tanh(Softplus(x)) = Mish(x)."""
    return _gated(g, m, "Mish", ())


def _gated(g: Graph, m: Match, name: str, values: tuple[float, ...]) -> Rewrite | str:
    """x * gate(x) as one operator; `first` reads x."""
    gate, product = m["gate"], m["product"]
    first = m.get("first", gate)
    x = other_input(product, gate.outputs[0])
    if why := inner_use(g, m):
        return why
    if first.inputs[0] != x:
        return "the gate is that of another tensor"
    origin = tuple(o for n in m.values() for o in n.origin)
    return Rewrite(tuple(m.values()), (Node(product.name, name, (x,), product.outputs, Attrs(values), origin=origin),))


def hard_sigmoid(g: Graph, m: Match) -> Rewrite | str:
    """Clip(x + a, 0, b) / b, or times 1 / b = HardSigmoid(x) with slope 1 / b and offset a / b."""
    add, clip, scale = m["add"], m["clip"], m["scale"]
    if why := inner_use(g, m):
        return why
    x = add.inputs[0] if number(g, add.inputs[1]) is not None else add.inputs[1]
    offset = number(g, other_input(add, x))
    factor = number(g, other_input(scale, clip.outputs[0]))
    bounds = clip.attrs.values                                                              # type: ignore[attr-defined]
    if offset is None or factor is None or scale.inputs[0] != clip.outputs[0] or None in bounds:
        return "the numbers are not constant"
    slope = 1 / factor if scale.op == "Div" else factor
    if bounds[0] != 0 or not np.isclose(bounds[1] * slope, 1.0, rtol=1e-6):
        return "the result does not end at 1"
    t = g.type(x)
    if not t.dtype.is_float or t.shape != g.type(scale.outputs[0]).shape:
        return "no floats of one shape"
    origin = tuple(o for n in m.values() for o in n.origin)
    return Rewrite(tuple(m.values()), (Node(scale.name, "HardSigmoid", (x,), scale.outputs, Attrs((slope, offset * slope)),
                                            origin=origin),))


IDIOMS = (
    Fold("power", op("Pow", name="pow"), power, "products instead of a power"),
    Fold("hard-sigmoid", op("Div|Mul", op("Clip", op("Add", name="add"), name="clip"), name="scale"), hard_sigmoid,
         "one operator"),
    Fold("swish", op("Mul", op("Sigmoid", name="gate"), name="product"), swish, "one operator"),
    Fold("hard-swish", op("Mul", op("HardSigmoid", name="gate"), name="product"), hard_swish, "one operator"),
    Fold("mish", op("Mul", op("Tanh", op("Softplus", name="first"), name="gate"), name="product"), mish, "one operator"),
)
