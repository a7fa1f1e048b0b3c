"""Parts of an ONNX model as models of their own, for comparisons layer by layer with another runtime."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fuse2c.frontend import external
from fuse2c.frontend.inputs import bound
from fuse2c.ir.types import TensorType
from fuse2c.options import Value


class Extractor:
    """Cuts models out of one file. Inputs that are bound to a value are constants of every part."""

    def __init__(self, path: Path, bind: Mapping[str, Value] | None = None) -> None:
        self.model = external.parse(path)
        self.graph = self.model.graph
        self.made_by = {t: n for n in self.graph.node for t in n.output}
        given = {t: numpy_helper.from_array(value, t) for t, value in bound(self.graph, bind or {}).items()}
        kept = [t for t in self.graph.initializer if t.name not in given]
        del self.graph.initializer[:]
        self.graph.initializer.extend((*kept, *given.values()))
        self.constants = {t.name for t in self.graph.initializer}
        weights = external.Weights(path.parent)
        for t in self.graph.initializer:
            if t.data_location == onnx.TensorProto.EXTERNAL:
                t.CopyFrom(numpy_helper.from_array(weights.array(t), t.name))

    def cut(self, inputs: Mapping[str, TensorType], outputs: Iterable[str]) -> bytes | None:
        """A serialised model from `inputs` to `outputs`, or None if the file's graph does not connect them."""
        wanted, nodes, names = list(outputs), [], set()
        while wanted:
            t = wanted.pop()
            if t in inputs or t in self.constants or t == "":
                continue
            node = self.made_by.get(t)
            if node is None:
                return None
            if id(node) not in names:
                names.add(id(node))
                nodes.append(node)
                wanted.extend(_read(node))
        kept = [n for n in self.graph.node if id(n) in names]
        used = {t for n in kept for t in _read(n)}
        graph = helper.make_graph(
            kept, "part", [helper.make_tensor_value_info(t, _elem(kind), list(kind.shape)) for t, kind in inputs.items()
                           if t in used],
            [onnx.ValueInfoProto(name=t) for t in outputs], [i for i in self.graph.initializer if i.name in used])
        part = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)
        content: bytes = onnx.shape_inference.infer_shapes(part).SerializeToString()
        return content


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Tensors that a node reads, those that its bodies take from outside included."""
    yield from node.input
    for body in (g for a in node.attribute for g in (a.g, *a.graphs)):
        own = {v.name for v in (*body.input, *body.initializer)} | {t for n in body.node for t in n.output}
        read = [t for n in body.node for t in _read(n)] + [v.name for v in body.output]
        yield from (t for t in read if t not in own)


def _elem(t: TensorType) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(t.dtype.value)))
