"""ONNX -> IR. This folder is the only one that imports onnx; opsets and protobuf end here."""
from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fuse2c.errors import InternalError, ModelError, ShapeError, UnboundDims, UnsupportedOp, printable
from fuse2c.frontend import control, external, functions, structure
from fuse2c.frontend.constants import FOLDED, Evaluator
from fuse2c.frontend.inputs import bound, dim_name, dtype_of, is_static, unsupported_type
from fuse2c.ir.graph import Graph, Node, Tensor
from fuse2c.ir.types import DType, TensorType
from fuse2c.op import Call, Importer, Source
from fuse2c.ops import all_ops, onnx_importers
from fuse2c.ops.movement import Shape
from fuse2c.options import Options

OPSET_MIN = 6
MICROSOFT = "com.microsoft"
MAX_RANK = 16
RESULT_LIMIT = 2 ** 26      # elements of an input or a result
MAX_NODES = 50_000  # that loops and functions may become, over all
LISTED = 5          # nodes and reasons of one operator in an error
DOMAINS = (*structure.ONNX_DOMAINS, "ai.onnx.ml", MICROSOFT)
SHARED = ("DequantizeLinear", "Gelu", "QuantizeLinear")     # operators of ONNX's that onnxruntime's domain has as well


def read(path: Path, options: Options) -> Graph:
    """The graph of an ONNX file, every shape known. Raises ModelError."""
    model = external.parse(path)
    opsets = {o.domain: o.version for o in model.opset_import}
    newest = onnx.defs.onnx_opset_version()
    # A model of operators of other domains only need not say which version of ONNX's own it does not use.
    plain = any(n.domain in structure.ONNX_DOMAINS for n in model.graph.node)
    version = opsets.get("", opsets.get("ai.onnx", 0 if plain else newest))
    if not OPSET_MIN <= version <= newest and not functions.unchanged(model.graph.node, version, OPSET_MIN):
        raise ModelError(f"the model uses opset {version}", hint=f"opsets {OPSET_MIN} to {newest} are supported; "
                         "onnx.version_converter can convert it")
    return _Reader(model, path, options, version).graph()


class _Reader(Importer):
    """Walks the nodes of one model in order."""

    def __init__(self, model: onnx.ModelProto, path: Path, options: Options, version: int) -> None:
        super().__init__()
        self.proto, self.path, self.options, self.version = model.graph, path, options, version
        self.weights = external.Weights(path.parent)
        self.infer = self._infer
        self.visited = 0                                        # nodes, those inside loops once a turn
        self.functions = {(f.domain, f.name) for f in model.functions}
        self.unsupported: list[tuple[str, str, str]] = []       # (operator, node, reason)
        self.unknown: set[str] = set()                          # tensors that an unsupported node would write
        self.wanted: set[str] = set()                           # tensors that would have to be constants
        self.foreign: dict[str, np.ndarray] = {}                # constants of types that only other constants may use

    def graph(self) -> Graph:
        """Import everything; all problems with operators are reported at once."""
        names = structure.node_names(self.proto.node)
        structure.check(self.proto, names)
        for tensor in self.proto.initializer:
            self._constant(tensor.name, self.weights.array(tensor))
        self.evaluator = Evaluator(sum(t.type.count for t in self.tensors.values()))
        inputs = self._inputs()
        for proto, name in zip(self.proto.node, names, strict=True):
            self._node(proto, name, self.version)
        if self.unsupported:
            raise self._unsupported()
        outputs: tuple[str, ...] = ()
        for value in self.proto.output:
            outputs += (self._output(value.name, inputs + outputs),)
        outputs += tuple(dict.fromkeys(count for t, count in self.counts.items() if t in outputs))
        return Graph(tuple(self.nodes), self.tensors, inputs, outputs, self.options.name or self.path.stem,
                     self.options.requant).pruned()

    def _constant(self, name: str, value: np.ndarray) -> None:
        """Add a constant; one of a type that generated code has not may still be computed with here."""
        if value.dtype.name in list(DType):
            self.tensors[name] = Tensor(name, TensorType(DType(value.dtype.name), value.shape), value)
        else:
            self.foreign[name] = value

    def _inputs(self) -> tuple[str, ...]:
        """Types of the graph's inputs; symbolic dimensions are bound, what stays unbound is listed."""
        known = {t.name for t in self.proto.initializer} | set(self.options.bind)
        for name, value in bound(self.proto, self.options.bind).items():
            self._constant(name, value)
        values = [v for v in self.proto.input if v.name not in known]
        self._check_dims({dim_name(v.name, axis, d) for v in values for axis, d in
                          enumerate(v.type.tensor_type.shape.dim) if not is_static(d)})
        unbound = []
        for value in values:
            t = value.type.tensor_type
            if not value.type.HasField("tensor_type") or not t.HasField("shape"):
                raise ModelError("an input has no tensor type with a shape", tensor=value.name,
                                 hint="export the model with shapes")
            dims = [self._dim(value.name, axis, dim) for axis, dim in enumerate(t.shape.dim)]
            unbound += [f"{value.name}: axis {axis} ({dim_name(value.name, axis, t.shape.dim[axis])})"
                        for axis, size in enumerate(dims) if size is None]
            shape = tuple(size or 0 for size in dims)
            if prod(shape) > RESULT_LIMIT or len(shape) > MAX_RANK:
                raise ShapeError(f"an input has the shape {list(shape[:MAX_RANK])}", tensor=value.name,
                                 hint=f"up to {RESULT_LIMIT} elements and {MAX_RANK} axes are supported")
            dtype = dtype_of(t.elem_type, value.name)
            known_value = np.zeros(shape, dtype.numpy) if prod(shape) == 0 and None not in dims else None
            self.tensors[value.name] = Tensor(value.name, TensorType(dtype, shape), known_value)
        if unbound:
            raise UnboundDims("dimensions without a value", detail=tuple(unbound),
                              hint="give each with --dim NAME=VALUE; the name is the one in parentheses")
        return tuple(v.name for v in values)

    def _dim(self, tensor: str, axis: int, dim: onnx.TensorShapeProto.Dimension) -> int | None:
        """A dimension's value; a first axis without one is the batch and defaults to 1."""
        if is_static(dim):
            return int(dim.dim_value)
        return self.options.dims.get(dim_name(tensor, axis, dim), 1 if axis == 0 else None)

    def _check_dims(self, named: set[str]) -> None:
        """Refuse values for dimensions that no input has."""
        for name in self.options.dims:
            if name not in named:
                close = difflib.get_close_matches(name, named, 1)
                raise UnboundDims(f"no input has a dimension called {name!r}",
                                  hint=f"did you mean {close[0]!r}?" if close else
                                  f"the model has {', '.join(sorted(named)) or 'none that are symbolic'}")

    def _node(self, proto: onnx.NodeProto, name: str, version: int) -> None:
        """Fold, import, expand or note a node as unsupported; `version` is the operator set that it is written for."""
        self.visited += 1
        if self.visited > MAX_NODES + len(self.proto.node):
            raise ModelError(f"loops and functions become more than {MAX_NODES} nodes", node=name, op=proto.op_type,
                             hint="export the model with fewer or shorter loops")
        try:
            self._refuse_unknown(proto, name, version)
            if any(t in self.unknown for t in proto.input):
                self.unknown.update(proto.output)
                return
            structure.check_node(proto, name, version)
            if self._fold(proto, name, version) or self._inline(proto, name, version):
                return
            for t in proto.input:
                if t in self.foreign:
                    raise unsupported_type(self.foreign[t].dtype.name, t)
            inputs = {t: self.type(t) if (data := self.data(t)) is None else data for t in proto.input if t}
            expected = structure.outputs(proto, name, version, inputs)
            for kind in expected.values():
                _check_size(kind, name, proto.op_type)
            if not self._expand(proto, name, version):
                load = onnx_importers().get(proto.op_type)
                if load is None:
                    raise UnsupportedOp(f"{proto.op_type} of tensors that are not constant", node=name,
                                        op=proto.op_type)
                load(Source(name, proto.op_type, tuple(proto.input), tuple(proto.output), _attributes(proto), version,
                            self))
            for t, kind in expected.items():
                if t in self.tensors and (self.type(t).dtype, self.type(t).shape) != (kind.dtype, kind.shape):
                    raise ShapeError(f"the result should be {kind}, but the inputs make {self.type(t)}", node=name,
                                     op=proto.op_type, tensor=t, hint="was the model changed after its export?")
        except UnsupportedOp as e:
            self.wanted.add(e.where["tensor"])
            self._note(proto, name, f"{e.args[0]}" + (f"; {e.hint}" if e.hint else ""))
        except (LookupError, ValueError, TypeError, ArithmeticError, AttributeError, MemoryError) as e:
            raise ModelError(f"the node is malformed ({type(e).__name__}: {structure.first_line(e)})", node=name,
                             op=proto.op_type, hint="does onnx.checker accept the model?") from e

    def _note(self, proto: onnx.NodeProto, name: str, reason: str) -> None:
        self.unsupported.append((proto.op_type, name, reason))
        self.unknown.update(proto.output)

    def _refuse_unknown(self, proto: onnx.NodeProto, name: str, version: int) -> None:
        """Raise UnsupportedOp for a node that cannot be compiled, whatever its inputs are."""
        domain, op = proto.domain, proto.op_type
        if (domain, op) in self.functions:
            raise UnsupportedOp(f"a function of the model's own: {op}", node=name, op=op,
                                hint="onnx.inliner replaces such functions by their nodes")
        plain = domain in structure.ONNX_DOMAINS
        if domain in DOMAINS and op in onnx_importers() and (domain != MICROSOFT or op in SHARED or not onnx.defs.has(op)):
            return
        if plain and op in (*FOLDED, *control.OPERATORS, "Shape", "Size"):
            return
        if domain in functions.DOMAINS and functions.defines(proto, version):
            return
        raise UnsupportedOp(f"no operator {'' if plain else f'{domain}.'}{op}", node=name, op=op)

    def _expand(self, proto: onnx.NodeProto, name: str, version: int) -> bool:
        """Import an operator without an importer that ONNX defines by other operators. True if it did."""
        if proto.domain not in functions.DOMAINS or proto.op_type in onnx_importers():
            return False
        types = {t: self.tensors[t].type for t in proto.input if t in self.tensors}
        if any(t not in types for t in proto.input if t):
            return False
        found = functions.expand(proto, types, version, name)
        if found is None:
            return False
        before = len(self.unsupported)
        for inner in found[0]:
            self._node(inner, inner.name, found[1].get("", version))
        self._joined(before, proto, name)
        return True

    def _inline(self, proto: onnx.NodeProto, name: str, version: int) -> bool:
        """Import control flow as the nodes of its bodies. True if it was control flow."""
        if proto.domain not in structure.ONNX_DOMAINS or proto.op_type not in control.OPERATORS:
            return False
        before = len(self.unsupported)
        control.Inliner(self, self._node, self._constant, self.weights.array, proto, name, version).run()
        self._joined(before, proto, name)
        return True

    def _joined(self, before: int, proto: onnx.NodeProto, name: str) -> None:
        """Note what is unsupported of a node's inner nodes as the node's own."""
        if len(self.unsupported) > before:
            reasons = [reason for _, _, reason in self.unsupported[before:]]
            del self.unsupported[before:]
            self._note(proto, name, f"it needs {'; '.join(dict.fromkeys(reasons))}")

    def _fold(self, proto: onnx.NodeProto, name: str, version: int) -> bool:
        """Compute a node whose result is constant. True if it was."""
        if proto.domain not in structure.ONNX_DOMAINS:
            return False
        if proto.op_type in ("Shape", "Size") and proto.input[0] in self.tensors:
            t, found = self.tensors[proto.input[0]].type, _attributes(proto)
            shape = np.asarray(t.shape[found.get("start", 0):found.get("end", len(t.shape))], np.int64)
            self._constant(proto.output[0], shape if proto.op_type == "Shape" else np.asarray(t.count, np.int64))
            return True
        tensor = next((a.t for a in proto.attribute if proto.op_type == "Constant" and a.name == "value"), None)
        if tensor is not None:
            self._constant(proto.output[0], self.weights.array(tensor))
            return True
        values = [self.foreign.get(t, self.data(t)) for t in proto.input if t]
        if proto.op_type not in FOLDED or any(v is None for v in values):
            return False
        known = [v for v in values if v is not None]
        try:
            results = self.evaluator.run(proto, name, known, version)
        except ModelError:      # onnx's implementations trip over tensors without elements, the operators here do not
            if not known or known[0].size or proto.op_type not in onnx_importers():
                raise
            return False
        for output, value in zip(filter(None, proto.output), results, strict=True):
            self._constant(output, value)
        return True

    def add(self, node: Node) -> None:
        """Append a node. One that reads only constants, of which one is empty, is computed now: no kernel sees it."""
        super().add(node)
        read = [t for t in node.inputs if t]
        if all(self.data(t) is not None for t in read) and any(self.type(t).count == 0 for t in read) \
                and self.nodes and self.nodes[-1] is node:
            call = Call(node, tuple(self.type(t) if t else None for t in node.inputs),
                        tuple(self.type(t) for t in node.outputs), tuple(self.data(t) for t in node.inputs))
            self.nodes.pop()
            for t, value in zip(node.outputs, all_ops()[node.op].reference(call, *call.const), strict=True):
                self.tensors[t] = replace(self.tensors[t], data=np.asarray(value, self.type(t).dtype.numpy))

    def _infer(self, c: Call) -> list[TensorType]:
        """Output types of a node; refuses tensors that are empty or too large for generated code."""
        op = all_ops().get(c.node.op)
        if op is None:
            raise InternalError("an importer made an unknown operator", op=c.node.op)
        types = op.infer(c)
        for t in types:
            _check_size(t, c.node.name, c.node.op)
            if all(self.data(name) is not None for name in c.node.inputs if name):      # computed later, not run
                self.evaluator.spend(t.count, c.node.name, c.node.op)
        return types

    def _output(self, name: str, taken: tuple[str, ...]) -> str:
        """An output that is an input, a constant or an output already gets a copy, for the caller's own buffer."""
        if name in self.foreign:
            raise unsupported_type(self.foreign[name].dtype.name, name)
        if name not in taken and (self.data(name) is None or self.type(name).count == 0):
            return name
        copy = self.temporary(f"{name}_out")
        Source(copy, "Identity", (name,), (copy,), {}, self.version, self).node("Reshape", Shape(self.type(name).shape))
        return copy

    def _unsupported(self) -> UnsupportedOp:
        """All unsupported nodes in one error: counts by operator, then names and reasons."""
        rows = []
        for op, count in sorted(Counter(op for op, _, _ in self.unsupported).items()):
            nodes = [name for o, name, _ in self.unsupported if o == op]
            reasons = dict.fromkeys(reason for o, _, reason in self.unsupported if o == op)
            more = f" and {count - LISTED} more" if count > LISTED else ""
            rows.append(f"{op} ({count}x): {', '.join(nodes[:LISTED])}{more}: {'; or '.join(list(reasons)[:LISTED])}")
        count = len(self.unsupported)
        needed = self._behind(self.wanted - self.counts.keys())     # what has a size of its own is data, no parameter
        error = UnsupportedOp(f"{count} node{'s' if count > 1 else ''} cannot be compiled", detail=tuple(rows), hint=(
            f"make inputs constants with {' '.join(f'--bind {printable(t)}=VALUE' for t in needed)}" if needed else
            "`fuse2c list ops` shows what is supported"))
        error.constants = self._behind(self.wanted)
        return error

    def _behind(self, tensors: set[str]) -> tuple[str, ...]:
        """The model's inputs that tensors are computed from."""
        for node in reversed(self.nodes):
            tensors = tensors | set(node.inputs) if tensors & set(node.outputs) else tensors
        return tuple(sorted(tensors & {v.name for v in self.proto.input}))


def _check_size(t: TensorType, node: str, op: str) -> None:
    """Refuse a result that is too large for generated code, before anything of its size is made here."""
    if min(t.shape, default=0) < 0 or t.count > RESULT_LIMIT or len(t.shape) > MAX_RANK:
        raise ShapeError(f"the result has the shape {list(t.shape[:MAX_RANK])}", node=node, op=op,
                         hint=f"up to {RESULT_LIMIT} elements and {MAX_RANK} axes are supported")


def _attributes(proto: onnx.NodeProto) -> Mapping[str, Any]:
    """Attributes as plain Python values; tensors as arrays."""
    values = {}
    for a in proto.attribute:
        value = helper.get_attribute_value(a)
        if isinstance(value, int) and not -2 ** 31 <= value < 2 ** 31:      # ONNX's own rules cut axes to 32 bits
            raise ValueError(f"the attribute {a.name} is {value}")
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        elif isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        values[a.name] = value
    return values
