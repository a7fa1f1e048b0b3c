"""Comparison with onnxruntime, where it is installed."""
from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuse2c.frontend.extract import Extractor
from fuse2c.fusion import signs
from fuse2c.plan import Plan


@cache
def runtime() -> Any:
    """The onnxruntime module, or None."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError:
        return None


def session(content: bytes, optimise: bool = True) -> Any:
    """An inference session on one thread; errors of onnxruntime pass through."""
    ort = runtime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


class Layers:
    """One session for each step whose input and output tensors the ONNX file has too."""

    def __init__(self, plan: Plan, path: Path) -> None:
        self.plan, cut = plan, Extractor(path, plan.options.bind)
        self.sessions: dict[str, tuple[Any, tuple[str, ...]]] = {}
        self.skipped: list[str] = []
        self.types = {t: v.type for t, v in (plan.source or plan.graph).tensors.items()}
        for step in plan.steps:
            inputs = {t: self.types.get(t, plan.graph.type(t)) for t in step.node.inputs
                      if t and plan.graph.data(t) is None}
            content = cut.cut(inputs, step.node.outputs[:1])
            if content is None:
                self.skipped.append(step.function)
                continue
            # A float result between Q/DQ nodes would tempt the optimiser into another precision.
            real = plan.graph.type(step.node.outputs[0]).dtype.is_float
            self.sessions[step.node.outputs[0]] = (session(content, optimise=not real), tuple(inputs))

    def run(self, tensor: str, values: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """What onnxruntime makes of a step from the same inputs."""
        if tensor not in self.sessions:
            return None
        s, inputs = self.sessions[tensor]
        names = {i.name for i in s.get_inputs()}
        try:
            given = {t: signs.as_type(np.ascontiguousarray(values[t]), self.types.get(t)) for t in inputs if t in names}
            return signs.as_type(np.asarray(s.run(None, given)[0]), self.plan.graph.type(tensor))
        except Exception:       # onnxruntime has loaded the layer, and yet cannot run it
            del self.sessions[tensor]
            self.skipped.append(tensor)
            return None


def whole(plan: Plan, path: Path, tensors: tuple[str, ...], optimise: bool = True) -> Any:
    """A session from the model's inputs to `tensors`, or None if the file does not have them."""
    content = Extractor(path, plan.options.bind).cut({t: plan.graph.type(t) for t in plan.graph.inputs}, tensors)
    return None if content is None else session(content, optimise)
