"""Tiny ONNX graphs for the tests: asymmetric by default, float or between QuantizeLinear and DequantizeLinear.

    b = Builder()
    x = b.stored((1, 3, 5, 4), 0.1, np.int8(-7))        # an int8 input behind a DequantizeLinear
    y = b.op("Conv", x, b.weights((4, 3, 2, 3), 0.02), pads=[1, 0, 0, 2])
    b.output(b.quantise(y, 0.3, np.int8(5)))
    compiled = compile(b.model(), tmp_path)
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

import fuse2c
from fuse2c.check import HostModel, check, random_samples
from fuse2c.check.reference import run_graph
from fuse2c.ir.graph import Graph
from fuse2c.plan import Plan

Sample = dict[str, np.ndarray]
IR_VERSION = 10
PORTABLE = str(Path(__file__).parent / "portable.toml")     # the target of most tests: kernels for any core


class Builder:
    """Collects the nodes of one graph; every method that adds something returns the tensor's name."""

    def __init__(self, opset: int = 17, seed: int = 0) -> None:
        self.opset, self.rng = opset, np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.constants: list[TensorProto] = []
        self.domains: set[str] = set()

    def name(self, stem: str) -> str:
        """A name that is not in use."""
        return f"{stem}{len(self.nodes) + len(self.inputs) + len(self.constants)}"

    def input(self, shape: Iterable[int], dtype: Any = np.float32) -> str:
        """A graph input."""
        name = self.name("x")
        elem = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, elem, list(shape)))
        return name

    def const(self, value: Any, dtype: Any = None) -> str:
        """An initializer."""
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def floats(self, *shape: int, scale: float = 1.0) -> str:
        """An initializer of normal float32 numbers."""
        return self.const((scale * self.rng.standard_normal(shape)).astype(np.float32))

    def ints(self, *values: int) -> str:
        """An int64 vector: shapes, axes, pads."""
        return self.const(np.asarray(values, np.int64))

    def op(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attrs: Any) -> Any:
        """A node; returns its output's name, or a list of names."""
        names = [self.name(f"{kind.lower()}_") + (f"_{i}" if outputs > 1 else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], domain=domain, **attrs))
        self.domains.add(domain)
        return names if outputs > 1 else names[0]

    def microsoft(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """A node of onnxruntime's own domain."""
        return str(self.op(kind, *inputs, domain="com.microsoft", **attrs))

    def output(self, *names: str) -> None:
        """Graph outputs, in this order; their types are inferred."""
        given = {v.name: v for v in self.inputs}
        self.outputs += [given.get(n, onnx.ValueInfoProto(name=n)) for n in names]

    def quantise(self, x: str, scale: Any, zero: Any, **attrs: Any) -> str:
        """QuantizeLinear; the zero point is a numpy scalar or array, its type is that of the result."""
        return str(self.op("QuantizeLinear", x, self.const(scale, np.float32), self.const(zero), **attrs))

    def dequantise(self, x: str, scale: Any, zero: Any, **attrs: Any) -> str:
        """DequantizeLinear."""
        return str(self.op("DequantizeLinear", x, self.const(scale, np.float32), self.const(zero), **attrs))

    def stored(self, shape: Iterable[int], scale: float, zero: Any) -> str:
        """A graph input of stored values, dequantised."""
        return self.dequantise(self.input(shape, np.asarray(zero).dtype), scale, zero)

    def requantise(self, x: str, scale: float, zero: Any) -> str:
        """QuantizeLinear and DequantizeLinear: the end of one quantised operator and the start of the next."""
        return self.dequantise(self.quantise(x, scale, zero), scale, zero)

    def weights(self, shape: Iterable[int], scale: Any, zero: Any = None, axis: int = 0) -> str:
        """Stored constants over the whole range, dequantised; `scale` of a vector is along `axis`."""
        zero = np.zeros(np.shape(scale), np.int8) if zero is None else np.asarray(zero)
        info = np.iinfo(zero.dtype)
        value = self.rng.integers(info.min, info.max, tuple(shape), endpoint=True).astype(zero.dtype)
        return self.dequantise(self.const(value), scale, zero, **({"axis": axis} if np.ndim(scale) else {}))

    def bias(self, count: int, scale: Any, reach: int = 4000) -> str:
        """int32 at the accumulator's scale, dequantised."""
        value = self.rng.integers(-reach, reach, count).astype(np.int32)
        attrs = {"axis": 0} if np.ndim(scale) else {}
        return self.dequantise(self.const(value), scale, np.zeros(np.shape(scale), np.int32), **attrs)

    def model(self, check_model: bool = True) -> ModelProto:
        """The model, checked by onnx where all of its operators are ONNX's own."""
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(d, 1) for d in sorted(self.domains - {""})]
        graph = helper.make_graph(self.nodes, "graph", self.inputs, self.outputs, self.constants)
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        if self.domains <= {""}:
            model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
            if check_model:
                onnx.checker.check_model(model)
        return model


def compile_bytes(data: bytes, folder: Path, **options: Any) -> fuse2c.Compiled:
    """A serialised model as `fuse2c.plan` sees it: a file of its own in `folder`."""
    path = folder / f"m{sum(1 for _ in folder.iterdir())}.onnx"
    path.write_bytes(data)
    return fuse2c.plan(path, **{"target": PORTABLE, **options})


def compile(model: ModelProto | Builder, folder: Path, **options: Any) -> fuse2c.Compiled:
    """The plan of a model or of what a builder holds."""
    proto = model.model() if isinstance(model, Builder) else model
    return compile_bytes(proto.SerializeToString(), folder, **options)


def samples(plan: Plan, count: int = 2, seed: int = 0) -> list[Sample]:
    """Random inputs over the whole range, and for integers the two extremes."""
    rows = random_samples(plan, count, seed)
    types = {t: plan.graph.type(t) for t in plan.graph.inputs}
    if any(not t.dtype.is_float and t.dtype != "bool" for t in types.values()):
        for end in (0, 1):
            rows.append({name: rows[0][name] if t.dtype.is_float or t.dtype == "bool"
                         else np.full(t.shape, t.dtype.range[end], t.dtype.numpy) for name, t in types.items()})
    return rows


def assert_c_is_reference(compiled: fuse2c.Compiled, rows: list[Sample] | None = None, **build: Any) -> None:
    """Every kernel's C equals its numpy meaning (floats: within the stated tolerance), and so do the outputs."""
    plan = compiled.plan
    result = check(plan, samples(plan) if rows is None else rows, **{"opt": "-O1", **build})
    assert set(result.steps) == {s.function for s in plan.steps}
    for step in plan.steps:
        d = result.steps[step.function]
        assert d.elements > 0 and d.differing == 0, f"{step.kernel.name} of {step.node.name}: {d}"
    assert result.outputs.differing == 0, f"run and trace differ: {result.outputs}"
    assert result.cores.differing == 0, f"one core and several differ: {result.cores}"


def run_c(compiled: fuse2c.Compiled, rows: list[Sample], **build: Any) -> list[Sample]:
    """Outputs of generated C."""
    with HostModel(compiled.plan, **{"opt": "-O1", **build}) as host:
        return [host.run(row) for row in rows]


def outputs(g: Graph | None, rows: list[Sample]) -> list[Sample]:
    """Outputs of the numpy reference."""
    assert g is not None
    return [{t: values[t] for t in g.outputs} for values in (run_graph(g, row) for row in rows)]


def kernels(compiled: fuse2c.Compiled) -> list[str]:
    """Names of the kernels in order."""
    return [s.kernel.name for s in compiled.plan.steps]


def chains(compiled: fuse2c.Compiled) -> list[str]:
    """What each kernel computes: "Conv > Add > Relu"."""
    return [" > ".join(n.op for n in s.node.parts) for s in compiled.plan.steps]


def reasons(compiled: fuse2c.Compiled, stage: str, rule: str, taken: bool = False) -> list[str]:
    """Why a rule was refused (or taken) wherever it was tried."""
    return [d.reason for d in compiled.plan.decisions
            if d.stage == stage and d.taken == taken and d.subject.startswith(f"{rule} at ")]


def ort_session(model: ModelProto, optimise: bool = False) -> Any:
    """An onnxruntime session; its optimiser is off, since it changes the rounding of ties."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run_ort(model: ModelProto, rows: list[Sample]) -> list[Sample]:
    """Outputs of onnxruntime."""
    session = ort_session(model)
    names = [o.name for o in session.get_outputs()]
    used = {i.name for i in session.get_inputs()}
    return [dict(zip(names, session.run(None, {k: v for k, v in row.items() if k in used}), strict=True))
            for row in rows]


def steps_apart(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> np.ndarray:
    """|got - want| of all elements of integer outputs."""
    return np.concatenate([np.abs(got[t].astype(np.int64) - want[t].reshape(got[t].shape).astype(np.int64)).reshape(-1)
                           for t in want])


