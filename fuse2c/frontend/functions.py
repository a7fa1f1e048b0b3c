"""ONNX function operators without a kernel of their own: their nodes, from onnx's own function bodies."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import onnx
from onnx import helper

from fuse2c.ir.types import TensorType

DOMAINS = ("", "ai.onnx", "ai.onnx.preview")        # whose operators may be defined by functions


def schema_of(node: onnx.NodeProto, version: int) -> Any:
    """ONNX's own description of an operator (whose type hints are incomplete), or None."""
    try:
        return onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None


def unchanged(nodes: Iterable[onnx.NodeProto], version: int, later: int) -> bool:
    """Whether operator set `version` has all operators of these nodes as `later` has them, which is newer."""
    def since(n: onnx.NodeProto, opset: int) -> int | None:
        schema = schema_of(n, opset)
        return None if schema is None else int(schema.since_version)
    own = [n for n in nodes if n.domain in DOMAINS]
    return 0 < version < later and all(since(n, version) == since(n, later) is not None and not any(
        a.HasField("g") or a.graphs for a in n.attribute) for n in own)


def defines(node: onnx.NodeProto, version: int) -> bool:
    """Whether ONNX itself defines the operator by other operators."""
    schema = schema_of(node, version)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def expand(node: onnx.NodeProto, types: Mapping[str, TensorType], version: int, prefix: str
           ) -> tuple[list[onnx.NodeProto], dict[str, int]] | None:
    """(nodes that compute `node`, operator sets they are written for), or None where onnx defines no function.

    `types`: of the node's inputs. `prefix` starts the names of inner tensors and nodes.
    """
    schema = schema_of(node, version)
    if schema is None:
        return None
    if schema.has_function:
        function = schema.function_body
    elif schema.has_context_dependent_function:
        kinds = [helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(types[t].dtype.numpy), types[t].shape)
                 .SerializeToString() if t else b"" for t in node.input]
        best = max((v for v in schema.context_dependent_function_opset_versions if v <= version), default=None)
        if best is None:
            return None
        function = onnx.FunctionProto()
        function.ParseFromString(schema.get_context_dependent_function_with_opset_version(
            best, node.SerializeToString(), kinds))
    else:
        return None
    given = {a.name: a for a in node.attribute}
    defaults = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.name}
    inputs = [*node.input, *[""] * len(function.input)]
    names = {inner: outer for inner, outer in zip(function.input, inputs, strict=False)}
    names |= dict(zip(function.output, node.output, strict=False))
    body = [_instance(inner, names, defaults | given, f"{prefix}.{i}") for i, inner in enumerate(function.node)]
    return body, {o.domain: o.version for o in function.opset_import}


def _instance(inner: onnx.NodeProto, names: dict[str, str], given: Mapping[str, onnx.AttributeProto], name: str
              ) -> onnx.NodeProto:
    """A copy of a body's node with outer names and attributes filled in."""
    copy = onnx.NodeProto()
    copy.CopyFrom(inner)
    copy.name = name
    for ports in (copy.input, copy.output):
        for i, t in enumerate(ports):
            if t:
                ports[i] = names.setdefault(t, f"{name.rpartition('.')[0]}.{t}")
    del copy.attribute[:]
    for a in inner.attribute:
        if not a.ref_attr_name:
            _captures(copy.attribute.add(), a, names, name)
        elif a.ref_attr_name in given:
            new = copy.attribute.add()
            new.CopyFrom(given[a.ref_attr_name])
            new.name = a.name
    return copy


def _captures(new: onnx.AttributeProto, a: onnx.AttributeProto, names: dict[str, str], name: str) -> None:
    """An attribute; a subgraph's references to tensors around it get their outer names."""
    new.CopyFrom(a)
    if a.HasField("g"):
        own = {t.name for t in (*a.g.input, *a.g.initializer)} | {t for n in a.g.node for t in n.output}
        for n in new.g.node:
            for i, t in enumerate(n.input):
                if t and t not in own:
                    n.input[i] = names.setdefault(t, f"{name.rpartition('.')[0]}.{t}")
