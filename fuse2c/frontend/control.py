"""Control flow is gone after import: constant branches are chosen, loops of a constant length are unrolled.

An If whose condition is known only at run time becomes both branches and a selection, which takes the same time either
way. Bodies are copied into the graph around them under names of their own.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from fuse2c.errors import ShapeError, UnsupportedOp
from fuse2c.frontend.structure import node_names
from fuse2c.ir.graph import Node
from fuse2c.op import Importer
from fuse2c.ops import elementwise
from fuse2c.ops.movement import Axis, Shape, Slices

OPERATORS = ("If", "Loop", "Scan")
UNROLLED = 20_000       # nodes that one loop may become


@dataclass(frozen=True)
class Inliner:
    """Copies the bodies of one node into the graph under construction."""

    graph: Importer
    node: Callable[[onnx.NodeProto, str, int], None]        # imports a node
    constant: Callable[[str, np.ndarray], None]             # adds a constant under a name
    array: Callable[[onnx.TensorProto], np.ndarray]         # the value of an initialiser
    proto: onnx.NodeProto
    name: str
    version: int

    def run(self) -> None:
        """Import the node. Raises UnsupportedOp where its course depends on values that are known only at run time."""
        {"If": self._branch, "Loop": self._loop, "Scan": self._scan}[self.proto.op_type]()

    def _attribute(self, name: str) -> onnx.AttributeProto | None:
        return next((a for a in self.proto.attribute if a.name == name), None)

    def _body(self, name: str) -> onnx.GraphProto:
        found = self._attribute(name)
        if found is None:
            raise UnsupportedOp(f"no body {name}", node=self.name, op=self.proto.op_type, attr=name)
        return found.g

    def _ints(self, name: str, default: Sequence[int]) -> list[int]:
        found = self._attribute(name)
        return list(default) if found is None else list(found.ints)

    def _known(self, tensor: str, what: str) -> np.ndarray:
        """A value that must be constant."""
        value = self.graph.data(tensor)
        if value is None:
            raise UnsupportedOp(f"{what} must be a constant", node=self.name, op=self.proto.op_type, tensor=tensor)
        return value

    def copy(self, body: onnx.GraphProto, inputs: Sequence[str], prefix: str) -> list[str] | None:
        """Import a copy of a body; returns its outputs' names, or None if a node of it cannot be imported."""
        names = dict(zip((v.name for v in body.input), inputs, strict=True))
        for tensor in body.initializer:
            names[tensor.name] = self.graph.temporary(f"{prefix}.{tensor.name}")
            self.constant(names[tensor.name], self.array(tensor))
        for proto, name in zip(body.node, node_names(body.node), strict=True):
            for t in filter(None, proto.output):
                names[t] = self.graph.temporary(f"{prefix}.{t}")
            self.node(renamed(proto, names), f"{prefix}.{name}", self.version)
        found = [names.get(v.name, v.name) for v in body.output]
        return found if all(t in self.graph.tensors for t in found) else None

    def _add(self, op: str, attrs: object, inputs: Sequence[str], y: str) -> str:
        self.graph.add(Node(y, op, tuple(inputs), (y,), attrs, origin=(self.name,)))
        return y

    def _alias(self, inner: str, outer: str) -> None:
        """Give a body's result the name that the node around it gives it."""
        value = self.graph.data(inner)
        if value is not None:
            self.constant(outer, value)
        else:
            self._add("Reshape", Shape(self.graph.type(inner).shape), (inner,), outer)

    def _branch(self) -> None:
        """If."""
        condition = self.proto.input[0]
        value = self.graph.data(condition)
        if value is not None:
            side = "then_branch" if value.reshape(-1)[0] else "else_branch"
            for inner, outer in zip(self.copy(self._body(side), (), self.name) or (), self.proto.output, strict=False):
                self._alias(inner, outer)
            return
        then, other = (self.copy(self._body(side), (), f"{self.name}.{side[:4]}") for side in ("then_branch",
                                                                                             "else_branch"))
        if then is None or other is None:
            return
        scalar = self._add("Reshape", Shape(()), (condition,), self.graph.temporary(f"{self.name}.condition"))
        for yes, no, outer in zip(then, other, self.proto.output, strict=True):
            types = self.graph.type(yes), self.graph.type(no)
            if types[0].shape != types[1].shape or types[0].dtype != types[1].dtype:
                raise UnsupportedOp(f"the branches give {types[0]} and {types[1]}", node=self.name, op="If",
                                    tensor=condition)
            self._add("Where", elementwise.Attrs(), (scalar, yes, no), outer)

    def _loop(self) -> None:
        """Loop: a body for every turn."""
        body, inputs = self._body("body"), list(self.proto.input) + [""] * (2 - len(self.proto.input))
        turns = int(self._known(inputs[0], "the number of turns").reshape(-1)[0]) if inputs[0] else UNROLLED
        going = not inputs[1] or bool(self._known(inputs[1], "the condition").reshape(-1)[0])
        carried, rows = inputs[2:], [list[str]() for _ in self.proto.output[len(inputs) - 2:]]
        turn = 0
        while going and turn < turns:
            self._limit((turn + 1) * len(body.node))
            number = self.graph.constant(f"{self.name}.turn", np.asarray(turn, np.int64))
            flag = self.graph.constant(f"{self.name}.going", np.asarray(True))
            found = self.copy(body, [number, flag, *carried][:len(body.input)], f"{self.name}.{turn}")
            if found is None:
                return
            going = bool(self._known(found[0], "whether the loop goes on").reshape(-1)[0])
            carried = found[1:1 + len(carried)]
            for row, t in zip(rows, found[1 + len(carried):], strict=True):
                row.append(t)
            turn += 1
        self._results(carried, rows, [0] * len(rows))

    def _limit(self, nodes: int) -> None:
        if nodes > UNROLLED:
            raise UnsupportedOp(f"it would become more than {UNROLLED} nodes", node=self.name, op=self.proto.op_type)

    def _scan(self) -> None:
        """Scan: a body for every slice of the scanned inputs."""
        body, inputs = self._body("body"), list(self.proto.input)
        attribute = self._attribute("num_scan_inputs")
        count = 0 if attribute is None else attribute.i
        if self.version < 9:
            inputs = [self._without_batch(t) for t in inputs[1:]]
        states, scanned = inputs[:len(inputs) - count], inputs[len(inputs) - count:]
        outputs = len(self.proto.output) - len(states)
        axes, turned = self._ints("scan_input_axes", [0] * count), self._ints("scan_input_directions", [0] * count)
        if self.version < 9:
            turned = self._ints("directions", [0] * count)
        axes = [a % len(self.graph.type(t).shape) for a, t in zip(axes, scanned, strict=True)]
        turns = {self.graph.type(t).shape[a] for t, a in zip(scanned, axes, strict=True)}
        if len(turns) != 1:
            raise ShapeError(f"the scanned inputs have lengths {sorted(turns)}", node=self.name, op="Scan")
        rows = [list[str]() for _ in range(outputs)]
        for turn in range(max(turns)):
            self._limit((turn + 1) * len(body.node))
            parts = [self._slice(t, a, max(turns) - 1 - turn if back else turn)
                     for t, a, back in zip(scanned, axes, turned, strict=True)]
            found = self.copy(body, [*states, *parts], f"{self.name}.{turn}")
            if found is None:
                return
            states = found[:len(states)]
            for row, t in zip(rows, found[len(states):], strict=True):
                row.append(t)
        for row, back in zip(rows, self._ints("scan_output_directions", [0] * outputs), strict=True):
            row[:] = row[::-1] if back else row
        self._results(states, rows, self._ints("scan_output_axes", [0] * outputs))

    def _without_batch(self, t: str) -> str:
        """Scan before opset 9 has a leading batch axis."""
        shape = self.graph.type(t).shape
        if shape[0] != 1:
            raise UnsupportedOp(f"a batch of {shape[0]} before opset 9", node=self.name, op="Scan", tensor=t)
        return self._add("Reshape", Shape(shape[1:]), (t,), self.graph.temporary(f"{t}.one"))

    def _slice(self, t: str, axis: int, at: int) -> str:
        """One slice of a tensor, without its axis."""
        shape = self.graph.type(t).shape
        start = tuple(at if i == axis else 0 for i in range(len(shape)))
        length = tuple(1 if i == axis else n for i, n in enumerate(shape))
        part = self._add("Slice", Slices(start, (1,) * len(shape), length), (t,), self.graph.temporary(f"{t}.{at}"))
        return self._add("Reshape", Shape(shape[:axis] + shape[axis + 1:]), (part,), self.graph.temporary(f"{t}.{at}"))

    def _results(self, states: Sequence[str], rows: Sequence[Sequence[str]], axes: Sequence[int]) -> None:
        """The last states, and what every turn gave, side by side along a new axis."""
        batch = self.proto.op_type == "Scan" and self.version < 9
        outputs = list(self.proto.output)
        results = list(states)
        for row, axis, y in zip(rows, axes, outputs[len(states):], strict=True):
            if not row:
                raise UnsupportedOp("no turn at all", node=self.name, op=self.proto.op_type, tensor=y)
            shape = list(self.graph.type(row[0]).shape)
            axis %= len(shape) + 1
            wide = (*shape[:axis], 1, *shape[axis:])
            parts = [self._add("Reshape", Shape(wide), (t,), self.graph.temporary(f"{t}.row")) for t in row]
            joined = self._add("Concat", Axis(axis), parts, self.graph.temporary(f"{self.name}.rows"))
            results.append(joined)
        for inner, outer in zip(results, outputs, strict=True):
            if outer and batch:
                self._add("Reshape", Shape((1, *self.graph.type(inner).shape)), (inner,), outer)
            elif outer:
                self._alias(inner, outer)


def renamed(proto: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of a node with other names for tensors; bodies inside it keep the names that they define themselves."""
    copy = onnx.NodeProto()
    copy.CopyFrom(proto)
    for ports in (copy.input, copy.output):
        for i, t in enumerate(ports):
            ports[i] = names.get(t, t)
    for a in copy.attribute:
        for body in (a.g, *a.graphs) if a.HasField("g") or a.graphs else ():
            own = {v.name for v in (*body.input, *body.initializer)} | {t for n in body.node for t in n.output}
            outer = {k: v for k, v in names.items() if k not in own}
            nodes = [renamed(n, outer) for n in body.node]
            del body.node[:]
            body.node.extend(nodes)
            for value in body.output:
                value.name = outer.get(value.name, value.name)
    return copy
