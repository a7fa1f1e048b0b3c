"""Computes what is constant in a model, with onnx's own reference implementation, within a budget of elements."""
from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from itertools import zip_longest

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from fuse2c.errors import ModelError
from fuse2c.frontend.structure import first_line

# What exporters compute shapes, indices and weights with. Each has one size of output for given inputs, needs no more
# memory than its inputs and outputs, and gives the same result every time; what is not here is never run.
FOLDED = frozenset("""
Abs Add And ArgMax ArgMin Cast CastLike Ceil Clip Concat Constant ConstantOfShape CumSum DepthToSpace Div Equal Erf Exp
Expand EyeLike Flatten Floor Gather GatherElements GatherND Gemm Greater GreaterOrEqual Identity IsInf IsNaN Less
LessOrEqual Log MatMul Max Mean Min Mod Mul Neg NonZero Not OneHot Or Pad Pow QuantizeLinear Range Reciprocal ReduceL1
ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Round ScatterElements
ScatterND Sigmoid Sign Sin Cos Size Slice Softmax SpaceToDepth Split Sqrt Squeeze Sub Sum Tanh Tile Transpose Trilu
Unsqueeze Where Xor
""".split())

SPARE = 2 ** 24             # elements that a model without weights may compute
GROWTH = 16                 # and for each element of its weights


class Evaluator:
    """Runs single nodes; remembers how much it may still make."""

    def __init__(self, weights: int) -> None:
        self.left = SPARE + GROWTH * weights

    def spend(self, count: float, node: str, op: str) -> None:
        """Account for `count` more elements. Raises ModelError beyond the budget, or for a size that is none."""
        if not 0 <= count <= self.left:
            raise ModelError("the model's constants would become too large", node=node, op=op,
                             hint=f"{self.left:,} elements are left of the budget that its weights give it; "
                             "shapes that come from the file are not trusted")
        self.left -= int(count)

    def run(self, node: onnx.NodeProto, name: str, inputs: list[np.ndarray], version: int
            ) -> list[np.ndarray]:
        """The outputs of a node whose inputs are all known. Raises ModelError if they are too large or cannot be."""
        if node.op_type == "Range":         # ONNX's own function bodies give it lists of one number
            inputs = [a.reshape(()) if a.size == 1 else a for a in inputs]
        by_values = GROWING.get((node.op_type, len(inputs)))
        try:
            foreseen = None if by_values is None else by_values(*inputs)
        except (ValueError, TypeError, IndexError, OverflowError) as e:
            raise self._failed(node, name, e) from None
        graph = helper.make_graph([node], "constant", [], [onnx.ValueInfoProto(name=n) for n in node.output if n],
                                  [numpy_helper.from_array(a, n)
                                   for n, a in dict(zip(filter(None, node.input), inputs, strict=True)).items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
        self.spend(self._inferred(model, node, name) if foreseen is None else foreseen, name, node.op_type)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")     # what is no number is none at run time either
                return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, {})]
        except Exception as e:              # whatever onnx's implementation raises for a malformed node
            raise self._failed(node, name, e) from None

    def _inferred(self, model: onnx.ModelProto, node: onnx.NodeProto, name: str) -> int:
        """Elements of the outputs, known before anything is allocated."""
        try:
            outputs = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.output
        except shape_inference.InferenceError as e:
            raise self._failed(node, name, e) from None
        shapes = [v.type.tensor_type.shape.dim for v in outputs]
        if any(not v.type.tensor_type.HasField("shape") for v in outputs) or any(
                not d.HasField("dim_value") for dims in shapes for d in dims):
            raise ModelError("the size of a constant is not known before it is computed", node=name, op=node.op_type,
                             hint="simplify the model with constant folding")
        return sum(math.prod(d.dim_value for d in dims) for dims in shapes)

    def _failed(self, node: onnx.NodeProto, name: str, e: Exception) -> ModelError:
        return ModelError(f"a constant cannot be computed: {first_line(e)}", node=name, op=node.op_type,
                          hint="does onnx.checker accept the model?")


def _count(shape: np.ndarray) -> float:
    """Elements of a tensor of this shape; infinite for a shape that is none."""
    dims = [int(n) for n in shape.reshape(-1)]
    return math.prod(dims) if min(dims, default=0) >= 0 else math.inf


def _expanded(x: np.ndarray, shape: np.ndarray) -> float:
    """Elements of x broadcast against a shape."""
    wanted = [int(n) for n in shape.reshape(-1)]
    pairs = zip_longest(reversed(x.shape), reversed(wanted), fillvalue=1)
    return math.prod(max(pair) for pair in pairs) if min(wanted, default=0) >= 0 else math.inf


def _range(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> float:
    """Elements of a Range, rounded up; infinite where it would never end."""
    first, last, step = float(start), float(limit), float(delta)
    return abs(last - first) / abs(step) + 1 if step else math.inf


def _padded(x: np.ndarray, pads: np.ndarray) -> float:
    """At least the elements of a padded tensor, whichever axes are meant."""
    most = int(np.abs(pads).max(initial=0))
    return math.prod(n + 2 * most for n in x.shape)


# Operators (with their number of inputs) whose output size depends on values: how many elements they would make.
GROWING: dict[tuple[str, int], Callable[..., float]] = {
    ("ConstantOfShape", 1): _count,
    ("Expand", 2): _expanded,
    ("Tile", 2): lambda x, repeats: _count(repeats) * x.size,
    ("Range", 3): _range,
    ("OneHot", 3): lambda indices, depth, values: float(depth.reshape(-1)[0]) * max(indices.size, 1),
    ("NonZero", 1): lambda x: x.size * max(x.ndim, 1),
    **{("Pad", count): lambda x, pads, *rest: _padded(x, pads) for count in (2, 3, 4)},
}
