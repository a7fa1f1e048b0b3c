"""ONNX -> IR. This folder is the only one that imports onnx; opsets and protobuf end here."""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fuse2c.errors import Fuse2cError, InternalError, ModelError, UnboundDims, UnsupportedOp
from fuse2c.frontend import constants, external
from fuse2c.ir.graph import Graph, Tensor
from fuse2c.ir.types import DType, TensorType
from fuse2c.ops import all_ops, onnx_importers
from fuse2c.ops.base import Call, Importer, Source
from fuse2c.ops.movement import Shape
from fuse2c.options import Options

OPSET_MIN = 7
DOMAINS = ("", "ai.onnx", "com.microsoft")
KEEP = ("DequantizeLinear",)        # never folded here: integer weights must stay integers until quantisation is known


def read(path: Path, options: Options) -> Graph:
    """The graph of an ONNX file, every shape known. Raises ModelError."""
    model = external.parse(path)
    opsets = {o.domain: o.version for o in model.opset_import}
    version = opsets.get("", opsets.get("ai.onnx", 0))
    newest = onnx.defs.onnx_opset_version()
    if not OPSET_MIN <= version <= newest:
        raise ModelError(f"the model uses opset {version}", hint=f"opsets {OPSET_MIN} to {newest} are supported; "
                         "onnx.version_converter can convert it")
    return _Reader(model, path, options, opsets, version).graph()


class _Reader(Importer):
    """Walks the nodes of one model in order."""

    def __init__(self, model: onnx.ModelProto, path: Path, options: Options, opsets: dict[str, int],
                 version: int) -> None:
        super().__init__()
        self.proto, self.path, self.options = model.graph, path, options
        self.opsets, self.version = opsets, version
        self.infer = _infer
        self.unsupported: list[tuple[str, str, str]] = []       # (operator, node, reason)
        self.unknown: set[str] = set()                          # tensors that an unsupported node would write

    def graph(self) -> Graph:
        """Import everything; all problems with operators are reported at once."""
        for tensor in self.proto.initializer:
            self._constant(tensor.name, external.array(tensor, self.path.parent))
        inputs = self._inputs()
        names = _node_names(self.proto.node)
        for proto, name in zip(self.proto.node, names, strict=True):
            self._node(proto, name)
        if self.unsupported:
            raise self._unsupported()
        outputs = tuple(self._output(v.name, inputs) for v in self.proto.output)
        if not outputs:
            raise ModelError("the graph has no outputs")
        return Graph(tuple(self.nodes), self.tensors, inputs, outputs, self.options.name or self.path.stem,
                     self.options.requant).pruned()

    def _constant(self, name: str, value: np.ndarray) -> None:
        self.tensors[name] = Tensor(name, TensorType(_dtype(value.dtype, name), value.shape), value)

    def _inputs(self) -> tuple[str, ...]:
        """Types of the graph's inputs; symbolic dimensions are bound, what stays unbound is listed."""
        known = {t.name for t in self.proto.initializer}
        unbound, names = [], []
        for value in self.proto.input:
            if value.name in known:
                continue
            t = value.type.tensor_type
            if not value.type.HasField("tensor_type") or not t.HasField("shape"):
                raise ModelError("an input has no tensor type with a shape", tensor=value.name)
            dims = []
            for axis, dim in enumerate(t.shape.dim):
                bound = self._dim(dim, axis)
                if bound is None:
                    unbound.append(f"{value.name}: axis {axis} ({dim.dim_param or 'unnamed'})")
                dims.append(bound or 0)
            dtype = _dtype(np.dtype(helper.tensor_dtype_to_np_dtype(t.elem_type)), value.name)
            self.tensors[value.name] = Tensor(value.name, TensorType(dtype, tuple(dims)))
            names.append(value.name)
        if unbound:
            raise UnboundDims("dimensions without a value", detail=tuple(unbound), hint="give each with --dim NAME=VALUE"
                              "; an unnamed one needs an export with static shapes")
        return tuple(names)

    def _dim(self, dim: onnx.TensorShapeProto.Dimension, axis: int) -> int | None:
        """A dimension's value; a symbolic first axis is the batch and defaults to 1."""
        if dim.HasField("dim_value") and dim.dim_value > 0:
            return int(dim.dim_value)
        if dim.dim_param in self.options.dims:
            return self.options.dims[dim.dim_param]
        return 1 if axis == 0 else None

    def _node(self, proto: onnx.NodeProto, name: str) -> None:
        """Fold, import or note a node as unsupported."""
        if any(t in self.unknown for t in proto.input):
            self.unknown.update(proto.output)
        try:
            if self._fold(proto, name):
                return
            load = onnx_importers().get(proto.op_type) if proto.domain in DOMAINS else None
            if load is None:
                domain = f"{proto.domain}." if proto.domain not in ("", "ai.onnx") else ""
                raise UnsupportedOp(f"no operator {domain}{proto.op_type}", node=name, op=proto.op_type)
            if any(t in self.unknown for t in proto.input):
                return
            missing = next((t for t in proto.input if t and t not in self.tensors), None)
            if missing is not None:
                raise ModelError("an input is never written", node=name, op=proto.op_type, tensor=missing,
                                 hint="are the nodes in topological order?")
            load(Source(name, proto.op_type, tuple(proto.input), tuple(proto.output), _attributes(proto),
                        self.version, self))
        except UnsupportedOp as e:
            self.unsupported.append((proto.op_type, name, f"{e.args[0]}" + (f"; {e.hint}" if e.hint else "")))
            self.unknown.update(proto.output)
        except Fuse2cError:
            raise
        except (KeyError, IndexError, ValueError, TypeError, ZeroDivisionError, AttributeError) as e:
            raise ModelError(f"the node is malformed ({type(e).__name__}: {e})", node=name, op=proto.op_type,
                             hint="does onnx.checker accept the model?") from e

    def _fold(self, proto: onnx.NodeProto, name: str) -> bool:
        """Compute a node whose result is constant. True if it was."""
        if proto.domain not in ("", "ai.onnx") or proto.op_type in KEEP:
            return False
        if proto.op_type == "Shape" and proto.input[0] in self.tensors:
            shape = self.tensors[proto.input[0]].type.shape
            first, last = (helper.get_node_attr_value(proto, a) if any(x.name == a for x in proto.attribute) else d
                           for a, d in (("start", 0), ("end", len(shape))))
            self._constant(proto.output[0], np.asarray(shape[first:last], np.int64))
            return True
        values = [self.data(t) for t in proto.input if t]
        if any(v is None for v in values) or any(a.HasField("g") for a in proto.attribute):
            return False
        if proto.op_type == "Constant":
            tensors = [a.t for a in proto.attribute if a.name == "value"]
            if tensors:
                self._constant(proto.output[0], external.array(tensors[0], self.path.parent))
                return True
        proto.name = name
        results = constants.evaluate(proto, [v for v in values if v is not None], self.opsets)
        for output, value in zip([t for t in proto.output if t], results, strict=True):
            self._constant(output, value)
        return True

    def _output(self, name: str, inputs: tuple[str, ...]) -> str:
        """An output that is an input or a constant gets a copy, so that the caller finds it in its own buffer."""
        if name not in self.tensors:
            raise ModelError("an output is never written", tensor=name)
        if name not in inputs and self.data(name) is None:
            return name
        copy = self.temporary(f"{name}_out")
        Source(copy, "Identity", (name,), (copy,), {}, self.version, self).node("Reshape", Shape(self.type(name).shape))
        return copy

    def _unsupported(self) -> UnsupportedOp:
        """All unsupported nodes in one error: counts by operator, then names and reasons."""
        counts = Counter(op for op, _, _ in self.unsupported)
        rows = [f"{op} ({counts[op]}x): {', '.join(n for o, n, _ in self.unsupported if o == op)[:200]}: "
                f"{next(r for o, _, r in self.unsupported if o == op)}" for op in sorted(counts)]
        return UnsupportedOp(f"{len(self.unsupported)} nodes cannot be compiled", detail=tuple(rows),
                             hint="`fuse2c list ops` shows what is supported")


def _infer(c: Call) -> list[TensorType]:
    op = all_ops().get(c.node.op)
    if op is None:
        raise InternalError("an importer made an unknown operator", op=c.node.op)
    return op.infer(c)


def _dtype(dtype: np.dtype, tensor: str) -> DType:
    try:
        return DType(dtype.name)
    except ValueError:
        raise ModelError(f"element type {dtype.name} is not supported", tensor=tensor,
                         hint="convert the model to float32 or quantise it to int8") from None


def _node_names(nodes: Any) -> list[str]:
    """A unique name for each node: its own, else operator and position."""
    seen: set[str] = set()
    names = []
    for i, n in enumerate(nodes):
        name = n.name or f"{n.op_type}_{i}"
        name = f"{name}.{i}" if name in seen else name
        seen.add(name)
        names.append(name)
    return names


def _attributes(proto: onnx.NodeProto) -> Mapping[str, Any]:
    """Attributes as plain Python values; tensors as arrays."""
    values = {}
    for a in proto.attribute:
        value = helper.get_attribute_value(a)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        elif isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        values[a.name] = value
    return values


