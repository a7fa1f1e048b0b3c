"""A convolution of one output has two neighbouring columns as outputs instead: kernels compute outputs by twos at least."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fuse2c.fusion.dsl import Fold, Match, Rewrite, op
from fuse2c.fusion.folds import constant
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import Quant
from fuse2c.ops.movement import Permutation, Shape

SEVERAL = 2         # columns


def column_pairs(g: Graph, m: Match) -> Rewrite | str:
    """Conv(x, w) of one output = Reshape(Transpose(Conv(x, [w 0; 0 w]))) by steps of two columns, w twice side by side."""
    n = m["conv"]
    a: Any = n.attrs
    x, w, y = g.type(n.inputs[0]), g.data(n.inputs[1]), g.type(n.outputs[0])
    if not n.quantised or y.shape[1] != 1 or len(y.shape) != 4 or a.window.kernel[1] == 1:
        return ""       # the zeros between are too much where products are all that counts: floats, one column
    if w is None or a.group > 1 or a.window.strides[1] > 1 or a.window.dilations[1] > 1 or y.shape[3] % SEVERAL:
        return "variable weights, groups, steps, gaps, or an odd number of columns"
    quant = g.type(n.inputs[1]).quant
    assert quant is not None, "a stored layer's weights have a scale"
    both = np.concatenate([np.pad(w, ((0, 0), (0, 0), (0, 0), (i, SEVERAL - 1 - i)), constant_values=quant.zero[0])
                           for i in range(SEVERAL)])
    weights = constant(g, f"{n.inputs[1]}.columns", both)
    weights = replace(weights, type=replace(weights.type, quant=Quant(quant.scale[:1], quant.zero[:1])))
    tensors, inputs = [weights], [n.inputs[0], weights.name]
    if len(n.inputs) > 2 and n.inputs[2]:
        if (bias := g.data(n.inputs[2])) is None:
            return "the bias is variable"
        tensors.append(constant(g, f"{n.inputs[2]}.columns", np.repeat(bias, SEVERAL)))
        inputs.append(tensors[-1].name)
    batch, _, height, width = y.shape
    window = replace(a.window, kernel=(a.window.kernel[0], both.shape[3]), strides=(a.window.strides[0], SEVERAL))
    apart = Tensor(g.fresh(f"{n.outputs[0]}.columns"), replace(y, shape=(batch, SEVERAL, height, width // SEVERAL)))
    turned = Tensor(g.fresh(f"{n.outputs[0]}.turned"), replace(y, shape=(batch, height, width // SEVERAL, SEVERAL)))
    assert window.out(x.shape[2:]) == apart.type.shape[2:]
    moves = (Node(f"{n.name}.turn", "Transpose", (apart.name,), (turned.name,), Permutation((0, 2, 3, 1))),
             Node(f"{n.name}.flat", "Reshape", (turned.name,), n.outputs, Shape(y.shape)))
    both_columns = replace(n, inputs=tuple(inputs), outputs=(apart.name,), attrs=replace(a, window=window))
    return Rewrite((n,), (both_columns, *(replace(move, origin=n.origin, quantised=True) for move in moves)),
                   (*tensors, apart, turned))


COLUMNS = (Fold("column-pairs", op("Conv", name="conv"), column_pairs, "two outputs cost hardly more than one"),)
