"""Linear interpolation between DequantizeLinear and QuantizeLinear: of stored values, weighed by whole numbers."""
from __future__ import annotations

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, op
from fuse2c.fusion.quantise import as_stated, both_per_tensor
from fuse2c.ir.graph import Graph, Node
from fuse2c.ops.blend import MOST, Attrs, Lines
from fuse2c.ops.resize import Attrs as Resampled

CLOSE = 1e-6            # of a whole number: what float32 scales lose
TAPS = 2


def blend(g: Graph, m: Match) -> Rewrite | str:
    """Q(Resample(Resample(DQ(x)))) = Blend(x): along rows, columns or both."""
    q, chain, t = m["q"], list[Node](), m["q"].inputs[0]
    while (p := g.producer(t)) is not None and p.op == "Resample":
        if g.only_user(t) is None:
            return f"{t} is also read by others"
        chain.append(p)
        t = p.inputs[0]
    x, y = g.type(p.inputs[0]) if p is not None and p.op == "DequantizeLinear" else None, g.type(q.outputs[0])
    if p is None or x is None:
        return "it is not behind a DequantizeLinear"
    if not both_per_tensor(x, y):
        return "not 8 bit with one scale on both sides"
    if len(x.shape) != 4 or not as_stated(g, p):
        return "no rows and columns, or another scale elsewhere"
    if g.requant == "float":
        return "--requant float keeps the float definition"
    found = {a: Lines(tuple((i, i) for i in range(n)), ((1, 0),) * n, 1) for a, n in ((2, x.shape[2]), (3, x.shape[3]))}
    for n in chain:
        attrs = n.attrs
        assert isinstance(attrs, Resampled)
        lines = whole_weights(attrs)
        if isinstance(lines, str):
            return lines
        if attrs.axis not in found or found[attrs.axis].whole > 1:
            return "no rows and columns"
        found[attrs.axis] = lines
    attributes = Attrs(found[2], found[3])
    if attributes.whole > MOST:
        return f"the weights sum up to {attributes.whole}: more than 16 bits hold"
    node = Node(q.name, "Blend", p.inputs[:1], q.outputs, attributes, quantised=True,
                origin=tuple(o for n in (*reversed(chain), q) for o in n.origin))
    return Rewrite((*chain, q), (node,))


def whole_weights(a: Resampled) -> Lines | str:
    """The weights of an axis times the least number that makes them whole."""
    weights = np.asarray(a.weights).reshape(-1, a.taps)
    if a.taps != TAPS or a.add or weights.min() < 0:
        return "no linear interpolation"
    for whole in range(1, MOST + 1):
        scaled = weights * whole
        if np.abs(scaled - np.rint(scaled)).max() < CLOSE * whole:
            left = np.rint(scaled[:, 0]).astype(int)
            at = np.asarray(a.at).reshape(-1, TAPS)
            pairs = [((int(i), int(j)), (int(w), whole - int(w))) for (i, j), w in zip(at, left, strict=True)]
            return Lines(tuple(p for p, _ in pairs), tuple(w for _, w in pairs), whole)
    return "the weights are no fractions of a small number"


BLEND = (Fold("blend", op("QuantizeLinear", op("Resample"), name="q"), blend,
              "two pixels of a word at a time, instead of floats"),)
