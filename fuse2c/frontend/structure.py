"""What a model must be before its nodes mean anything: each name written once, and before it is read."""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import checker, helper, numpy_helper, shape_inference

from fuse2c.errors import ExternalData, ModelError, ShapeError
from fuse2c.ir.types import DType, TensorType

ONNX_DOMAINS = ("", "ai.onnx")
WITHDRAWN = {"GroupNormalization": 21}  # versions before this one are deprecated in onnx, but there in models
SMALL = 1024            # elements of a constant whose values may say what a shape or an axis is


def check(graph: onnx.GraphProto, names: Iterable[str]) -> None:
    """Raise ModelError for a graph that is not in static single assignment form and topological order.

    `names` are those of the nodes, in order, for messages.
    """
    if not _is_text(graph):
        raise ModelError("a name in the model is not valid UTF-8", hint="the file is damaged")
    if graph.sparse_initializer:
        raise ModelError("the model has sparse initialisers", tensor=graph.sparse_initializer[0].values.name,
                         hint="export it with dense weights")
    constants = _unique((t.name for t in graph.initializer), "an initialiser")
    known = constants | _unique((v.name for v in graph.input), "an input")
    written = {t for n in graph.node for t in n.output if t}
    for node, name in zip(graph.node, names, strict=True):
        missing = next((t for t in node.input if t and t not in known), None)
        if missing is not None:
            late = missing in written
            what = "a tensor is read before it is written" if late else "nothing writes a tensor that is read"
            raise ModelError(what, node=name, op=node.op_type, tensor=missing,
                             hint="the nodes are out of order or form a cycle" if late else "is the file complete?")
        for t in filter(None, node.output):
            if t in known:
                raise ModelError("a tensor is written twice", node=name, op=node.op_type, tensor=t,
                                 hint="every tensor needs a name of its own")
            known.add(t)
    missing = next((v.name for v in graph.output if v.name not in known), None)
    if missing is not None:
        raise ModelError("an output is never written", tensor=missing)
    if not graph.output:
        raise ModelError("the graph has no outputs")


def _is_text(message: Any) -> bool:
    """Whether all strings of a protobuf message are text; protobuf itself leaves damaged ones as bytes."""
    for field, value in message.ListFields():
        items = value if field.is_repeated else [value]
        if field.type == field.TYPE_STRING and not all(isinstance(item, str) for item in items):
            return False
        if field.type == field.TYPE_MESSAGE and not all(_is_text(item) for item in items):
            return False
    return True


def _unique(names: Iterable[str], what: str) -> set[str]:
    seen: set[str] = set()
    for name in names:
        if not name:
            raise ModelError(f"{what} has no name")
        if name in seen:
            raise ModelError(f"{what} is there twice", tensor=name, hint="every tensor needs a name of its own")
        seen.add(name)
    return seen


def node_names(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """A unique name for each node: its own, else operator and position."""
    seen: set[str] = set()
    names = []
    for i, n in enumerate(nodes):
        name = n.name or f"{n.op_type}_{i}"
        while name in seen:
            name = f"{name}.{i}"
        seen.add(name)
        names.append(name)
    return names


def check_node(node: onnx.NodeProto, name: str, version: int) -> None:
    """Raise ModelError if a node of ONNX's own domain has the wrong number of inputs, outputs or unknown attributes."""
    for tensor in _attribute_tensors(node):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ExternalData("an attribute keeps its value in external data", node=name, op=node.op_type,
                               hint="only weights may be external")
    if node.domain not in ONNX_DOMAINS or _withdrawn(node, version):
        return
    context = checker.C.CheckerContext()
    context.ir_version, context.opset_imports = onnx.IR_VERSION, {"": version}
    if any(a.HasField("g") for a in node.attribute):
        # A body may read tensors around it, which the checker of one node does not know; its nodes are checked later.
        bare = onnx.NodeProto()
        bare.CopyFrom(node)
        for a in bare.attribute:
            if a.HasField("g"):
                del a.g.node[:]
                del a.g.output[:]
        node = bare
    try:
        checker.check_node(node, context)
    except checker.ValidationError as e:
        raise ModelError(f"the node breaks ONNX's rules: {first_line(e)}", node=name, op=node.op_type,
                         hint="was the model changed after its export?") from None
    ports = onnx.defs.get_schema(node.op_type, version).inputs
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    for i, t in enumerate(node.input):
        if not t and ports[min(i, len(ports) - 1)].option != optional:
            raise ModelError(f"input {i} may not be left out", node=name, op=node.op_type,
                             hint="was the model changed after its export?")


def outputs(node: onnx.NodeProto, name: str, version: int, inputs: Mapping[str, np.ndarray | TensorType]
            ) -> dict[str, TensorType]:
    """Types of a node's outputs as ONNX infers them, where it knows their shapes; nothing for other domains.

    Raises ShapeError for inputs whose types or shapes do not fit the operator or each other, and for axes beyond them.
    """
    if node.domain not in ONNX_DOMAINS or _withdrawn(node, version) or _misjudged(node, version):
        return {}
    types = {t: _proto(inputs[t]) for t in node.input if t}
    data = {t: numpy_helper.from_array(value, t) for t in node.input if t
            and isinstance(value := inputs[t], np.ndarray) and value.size <= SMALL}
    try:
        found = shape_inference.infer_node_outputs(onnx.defs.get_schema(node.op_type, version), node, types, data,
                                                   opset_imports=[helper.make_opsetid("", version)])
    except (shape_inference.InferenceError, checker.ValidationError) as e:
        shapes = dict.fromkeys(f"{t} is {_shown(inputs[t])}" for t in node.input if t)
        raise ShapeError(f"the node breaks ONNX's rules: {first_line(e)}", node=name, op=node.op_type,
                         detail=tuple(shapes), hint="was the model changed after its export?") from None
    kinds = {t: kind.tensor_type for t, kind in found.items() if kind.HasField("tensor_type")}
    return {t: TensorType(DType(helper.tensor_dtype_to_np_dtype(kind.elem_type).name),
                          tuple(d.dim_value for d in kind.shape.dim)) for t, kind in kinds.items()
            if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim)
            and helper.tensor_dtype_to_np_dtype(kind.elem_type).name in list(DType)}


def _withdrawn(node: onnx.NodeProto, version: int) -> bool:
    return version < WITHDRAWN.get(node.op_type, 0)


def _misjudged(node: onnx.NodeProto, version: int) -> bool:
    """Whether ONNX's inference of shapes errs about a node.

    It takes an absent attribute `onesided` of STFT, whose default is 1, for 0. Before opset 22 it counts windows of
    pools in ceil mode that start in the end pad, which its own reference, its newer text and onnxruntime leave out.
    """
    ceil = any(a.name == "ceil_mode" and a.i for a in node.attribute)
    return node.op_type == "STFT" or (ceil and version < 22)


def _proto(value: np.ndarray | TensorType) -> onnx.TypeProto:
    dtype = value.dtype if isinstance(value, np.ndarray) else value.dtype.numpy
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), value.shape)


def _shown(value: np.ndarray | TensorType) -> str:
    dtype = value.dtype if isinstance(value, np.ndarray) else value.dtype.numpy
    return f"{dtype.name} {list(value.shape)}"


def _attribute_tensors(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    """All tensors inside a node's attributes, bodies of loops and branches included."""
    for a in node.attribute:
        yield from (a.t, *a.tensors)
        for body in (a.g, *a.graphs):
            yield from body.initializer
            for inner in body.node:
                yield from _attribute_tensors(inner)


def first_line(e: Exception) -> str:
    """The part of a library's message that fits into one line."""
    text = " ".join(str(e).split("\n\n")[0].split())
    text = re.sub(r"^Inference error\(s\): \(.*?\): ", "", text)
    text = re.sub(r"^\[\w+\] ", "", text)
    return text if len(text) <= 200 else f"{text[:197]}..."
