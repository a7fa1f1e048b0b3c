"""Computes what is constant in a model, with onnx's own reference implementation."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from fuse2c.errors import ModelError
from fuse2c.frontend.external import ELEMENT_LIMIT

# Operators whose output size depends on the values of their inputs: how many elements they would make.
GROWING: dict[str, Callable[[list[np.ndarray]], float]] = {
    "ConstantOfShape": lambda x: math.prod(map(int, x[0].reshape(-1))),
    "Expand": lambda x: math.prod(map(int, x[1].reshape(-1))) * x[0].size,
    "Tile": lambda x: math.prod(map(int, x[1].reshape(-1))) * x[0].size,
    "Range": lambda x: abs(float(x[1]) - float(x[0])) / max(abs(float(x[2])), 1e-30),
    "OneHot": lambda x: float(x[1].reshape(-1)[0]) * max(x[0].size, 1),
    "Pad": lambda x: math.prod(n + 2 * int(np.abs(x[1]).max(initial=0)) for n in x[0].shape),
    "Resize": lambda x: math.prod(float(n) for n in x[-1].reshape(-1)) * max(x[0].size, 1),
    "Upsample": lambda x: math.prod(float(n) for n in x[-1].reshape(-1)) * max(x[0].size, 1),
}


def evaluate(node: onnx.NodeProto, inputs: list[np.ndarray], opsets: dict[str, int]) -> list[np.ndarray]:
    """The outputs of a node whose inputs are all known. Raises ModelError if they would be too large or fail."""
    if node.op_type in GROWING and GROWING[node.op_type](inputs) > ELEMENT_LIMIT:
        raise ModelError("a constant would become too large", node=node.name, op=node.op_type,
                         hint=f"at most {ELEMENT_LIMIT} elements")
    present = [name for name in node.input if name]
    feeds = dict(zip(present, inputs, strict=True))
    graph = helper.make_graph([node], "constant", [], [onnx.ValueInfoProto(name=n) for n in node.output if n],
                              [numpy_helper.from_array(a, n) for n, a in feeds.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in opsets.items()])
    _check_size(model, node)
    try:
        return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, {})]
    except Exception as e:              # whatever onnx's implementation raises for a malformed node
        raise ModelError(f"a constant cannot be computed: {e}", node=node.name, op=node.op_type,
                         hint="does onnx.checker accept the model?") from None


def _check_size(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    """Refuse outputs whose inferred shape is too large, before anything is allocated."""
    try:
        outputs = shape_inference.infer_shapes(model, data_prop=True).graph.output
    except shape_inference.InferenceError:
        return
    for value in outputs:
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if math.prod(dims) > ELEMENT_LIMIT:
            raise ModelError(f"a constant of shape {dims} would become too large", node=node.name, op=node.op_type,
                             hint=f"at most {ELEMENT_LIMIT} elements")
