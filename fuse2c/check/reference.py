"""The numpy reference: a graph's meaning, and how far a float32 kernel may be from it."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fuse2c.ir.graph import Graph, Node
from fuse2c.ops import all_ops
from fuse2c.ops.base import bind
from fuse2c.plan import Plan, Step

EPS = float(np.finfo(np.float32).eps)
SUMS = frozenset({"Conv", "ConvTranspose", "Col2Im", "Einsum", "MatMul", "AveragePool", "ReduceMean", "ReduceSum",
                  "ReduceSumSquare", "ReduceL1", "ReduceLogSum"})


def run_node(g: Graph, n: Node, values: dict[str, np.ndarray]) -> None:
    """Compute a node (its body, in order) from `values` and put the results there."""
    for part in n.parts:
        inputs = [None if t == "" else values[t] if t in values else g.data(t) for t in part.inputs]
        outputs = all_ops()[part.op].reference(bind(g, part), *inputs)
        values |= dict(zip(part.outputs, outputs, strict=True))


def run_graph(g: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every tensor of the graph (logical arrays), from its inputs."""
    values = {t: np.asarray(a) for t, a in inputs.items()}
    values |= {t: data for t in g.outputs if (data := g.data(t)) is not None}       # outputs without elements
    for n in g.nodes:
        run_node(g, n, values)
    return values


def run_step(plan: Plan, step: Step, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The result of one step from given inputs."""
    found = dict(values)
    run_node(plan.graph, step.node, found)
    return found[step.node.outputs[0]]


def float_tolerance(plan: Plan, step: Step, values: Mapping[str, np.ndarray], want: np.ndarray) -> np.ndarray:
    """Largest |C - reference| that rounding explains, per element.

    A sum of n products in any order differs from another order by at most 2 n eps sum|x||w| (Higham, Accuracy and
    Stability, 3.1); each operator behind it adds a few eps of its operands. Exponentials scale the error of their
    argument by their value, which is at most one after a softmax.
    """
    g, first = plan.graph, step.node.parts[0]
    inputs = [None if t == "" else np.abs(values[t] if t in values else g.data(t)) for t in first.inputs]  # type: ignore[arg-type]
    op = all_ops()[first.op]
    size = np.abs(want).astype(np.float64)
    terms = 16
    if first.op in SUMS or op.sums is not None:
        size = np.maximum(size, np.abs((op.sums or op.reference)(bind(g, first), *inputs)[0]).astype(np.float64))
        terms += step.work.macs // max(want.size, 1) if step.work.macs else step.work.alu // max(want.size, 1)
    made = {t for n in step.node.parts for t in n.outputs}
    for n in step.node.parts[1:]:
        for t in n.inputs:
            if t and t not in made:
                size = size + np.abs(np.asarray(values[t] if t in values else g.data(t), np.float64))
    if first.op == "Softmax":
        terms += want.shape[-1] + int(4 * max(float(np.ptp(values[first.inputs[0]])), 1.0))
    return 2.0 * EPS * terms * size + 1e-37
