"""onnx's own reference implementation as the meaning of an operator that keeps its ONNX attributes."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator


@dataclass(frozen=True, slots=True)
class Attrs:
    """An ONNX operator: name, operator set, attributes as sorted pairs (lists as tuples)."""

    op: str
    opset: int
    pairs: tuple[tuple[str, Any], ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        """An attribute's value."""
        return dict(self.pairs).get(key, default)


def attrs(op: str, opset: int, values: Mapping[str, Any]) -> Attrs:
    """Attributes in a form that can be compared and hashed."""
    return Attrs(op, opset, tuple(sorted((k, tuple(v) if isinstance(v, list) else v) for k, v in values.items())))


@lru_cache(maxsize=512)
def _evaluator(a: Attrs, inputs: tuple[bool, ...], outputs: int) -> ReferenceEvaluator:
    names = [f"x{i}" if there else "" for i, there in enumerate(inputs)]
    values: dict[str, Any] = {k: list(v) if isinstance(v, tuple) else v for k, v in a.pairs}
    node = helper.make_node(a.op, names, [f"y{i}" for i in range(outputs)], **values)
    graph = helper.make_graph([node], "one", [helper.make_empty_tensor_value_info(n) for n in names if n],
                              [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)])
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", a.opset)]))


def run(a: Attrs, inputs: list[np.ndarray | None], outputs: int = 1) -> list[np.ndarray]:
    """The outputs that onnx's reference implementation gives for these inputs."""
    evaluator = _evaluator(a, tuple(x is not None for x in inputs), outputs)
    feeds = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    return [np.asarray(y) for y in evaluator.run(None, feeds)]
