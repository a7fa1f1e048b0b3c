"""The numpy reference: a graph's meaning, and how far a float32 kernel may be from it."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fuse2c.ir.graph import Graph, Node
from fuse2c.op import bind
from fuse2c.ops import all_ops
from fuse2c.plan import Plan, Step

EPS = float(np.finfo(np.float32).eps)
HALF_EPS = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}
SUMS = frozenset({"Conv", "ConvTranspose", "Col2Im", "Einsum", "MatMul", "AveragePool", "ReduceMean", "ReduceSum",
                  "ReduceSumSquare", "ReduceL1", "ReduceLogSum"})


PROGRAMS = frozenset({"Elementwise", "LoopNest"})     # nodes whose body is no anchor with its epilogue
TRIALS = 8


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


def run_step(plan: Plan, step: Step, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The results of one step from given inputs, by tensor name."""
    found = dict(values)
    run_node(plan.graph, step.node, found)
    return {t: found[t] for t in step.node.outputs}


def float_tolerance(plan: Plan, step: Step, values: Mapping[str, np.ndarray], want: np.ndarray, output: int = 0
                    ) -> np.ndarray:
    """Largest |C - reference| that rounding explains, per element of the step's output number `output`.

    A sum of n products in any order differs from another order by at most 2 n eps sum|x||w| (Higham, Accuracy and
    Stability, 3.1); each operator behind it adds a few eps of its operands. Exponentials scale the error of their
    argument by their value, which is at most one after a softmax.
    """
    if step.node.op in PROGRAMS:
        return propagated(plan.graph, step.node, values, step.node.outputs[output])
    g, first = plan.graph, step.node.parts[0]
    inputs = [None if t == "" else np.abs(values[t] if t in values else g.data(t)) for t in first.inputs]  # type: ignore[arg-type]
    if "mixes" in step.spec.flags and (w := inputs[1]) is not None:
        # Winograd's sums: each column of a window also meets the weights of the others.
        inputs[1] = np.broadcast_to(w.max(axis=-1, keepdims=True), w.shape)
    op = all_ops()[first.op]
    size = np.abs(want).astype(np.float64)
    terms = 16
    if first.op in SUMS or op.sums is not None:
        sums = (op.sums or op.reference)(bind(g, first), *inputs)
        size = np.maximum(size, np.abs(sums[min(output, len(sums) - 1)]).astype(np.float64).max(initial=0.0)
                          if output else np.abs(sums[0]).astype(np.float64))
        terms += step.work.macs // max(want.size, 1) if step.work.macs else step.work.alu // max(want.size, 1)
    made = {t for n in step.node.parts for t in n.outputs}
    for n in step.node.parts[1:]:
        for t in n.inputs:
            if t and t not in made:
                size = size + np.abs(np.asarray(values[t] if t in values else g.data(t), np.float64))
    if first.op == "Softmax":
        x = values[first.inputs[0]].astype(np.float64)
        x = x[np.isfinite(x)]               # a mask of minus infinities takes no part
        terms += want.shape[-1] + int(4 * max(float(np.ptp(x)) if x.size else 0.0, 1.0))
    half = HALF_EPS.get(want.dtype.name, 0.0)       # a value near the middle of two 16-bit floats may go either way
    return 2.0 * EPS * terms * size + half * np.abs(want).astype(np.float64) + 1e-37


def rounding(g: Graph, part: Node, inputs: list[np.ndarray | None], outputs: list[np.ndarray]) -> list[np.ndarray]:
    """How far one operator's own arithmetic may be from its reference, from exact operands."""
    op, terms = all_ops()[part.op], 8
    sizes = [np.abs(y).astype(np.float64) if y.dtype.kind == "f" else np.zeros(y.shape) for y in outputs]
    if part.op in SUMS or op.sums is not None:
        sums = (op.sums or op.reference)(bind(g, part), *(None if x is None else np.abs(x) for x in inputs))
        sizes = [np.abs(y).astype(np.float64) for y in sums[:len(sizes)]]
        work = op.work(bind(g, part))
        terms += (work.macs or work.alu) // max(outputs[0].size, 1)
    if part.op in ("Softmax", "LogSoftmax"):
        terms += 12 * outputs[0].shape[-1]
    return [2.0 * EPS * terms * np.where(np.isfinite(size), size, 0.0) + 1e-38 for size in sizes]


def propagated(g: Graph, n: Node, values: Mapping[str, np.ndarray], output: str) -> np.ndarray:
    """A bound on the error of a fused body, by random rounding errors in every operator of it.

    Monte Carlo arithmetic (Parker, 1997): each result is moved by up to its own bound, and the rest computed from
    that. Four times the largest deviation of a few trials, and of a tensor at least its mean.
    """
    rng, results = np.random.default_rng(0), list[np.ndarray]()
    for trial in range(TRIALS + 1):
        found = dict(values)
        for part in n.parts:
            inputs = [None if t == "" else found[t] if t in found else g.data(t) for t in part.inputs]
            outputs = all_ops()[part.op].reference(bind(g, part), *inputs)
            for t, y, bound in zip(part.outputs, outputs, rounding(g, part, inputs, outputs), strict=True):
                noise = rng.uniform(-1.0, 1.0, y.shape) * bound if trial and y.dtype.kind == "f" else None
                found[t] = y if noise is None else (y + noise).astype(y.dtype)
        results.append(found[output].astype(np.float64))
    deviation = np.nan_to_num(np.max([np.abs(r - results[0]) for r in results[1:]], axis=0), posinf=0.0)
    half = HALF_EPS.get(g.type(output).dtype.value, 0.0)
    return np.asarray(4.0 * np.maximum(deviation, deviation.mean()) + (16.0 * EPS + half) * np.abs(results[0]) + 1e-37)
