"""Every elementwise operator, on every element type that ONNX allows it, with broadcasting and with special values."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from graphs import Builder, compile, outputs, run_c, run_ort

import fuse2c
from fuse2c.errors import NoKernel
from fuse2c.ops import all_ops, onnx_importers

OPSET = 24
TYPES = {f"tensor({name})": np.dtype(kind) for name, kind in {
    "float": np.float32, "double": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "bool": np.bool_,
    **{n: n for n in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")}}.items()}
# Operators of ONNX that become one elementwise kernel; Where and Clip have operands of their own kind.
NAMES = sorted(name for name, op in all_ops().items() if op.scalar and name in onnx_importers()
               and name not in ("Where", "Clip", "QuantizeLinear", "DequantizeLinear", "Cast"))
ATTRS: dict[str, dict[str, Any]] = {
    "BitShift": {"direction": "LEFT"}, "LeakyRelu": {"alpha": 0.3}, "Elu": {"alpha": 1.7}, "Celu": {"alpha": 0.6},
    "Selu": {"alpha": 1.5, "gamma": 1.2}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "ThresholdedRelu": {"alpha": 0.4},
    "Shrink": {"lambd": 0.5, "bias": 0.25}, "IsInf": {"detect_negative": 0}}
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-38, 88.0, -88.0, 1e5, 3e38)
# Relative errors by element type: a few units in the last place of C's own functions, one of a half.
FLOAT_ERROR = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3}
ORT_ERROR = {"float32": 4e-6, "float64": 1e-12, "float16": 2e-3, "bfloat16": 8e-3}


def types(name: str) -> list[np.dtype]:
    """Element types that ONNX allows for the first operand."""
    schema = onnx.defs.get_schema(name, OPSET)
    allowed = schema.inputs[0].types
    if name == "Mod":
        allowed = {t for t in allowed if "float" not in t and "double" not in t}    # those want fmod=1
    return [kind for text, kind in TYPES.items() if text in allowed]


def operands(name: str) -> int:
    """How many operands."""
    return 1 if onnx.defs.get_schema(name, OPSET).max_input == 1 else 2


def values(kind: np.dtype, shape: tuple[int, ...], special: bool, seed: int) -> np.ndarray:
    """Numbers over the type's range; with `special`, extremes and what is no number."""
    rng = np.random.default_rng(seed)
    if kind == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        small = rng.integers(max(int(info.min), -9), 10, shape)
        wide = rng.integers(int(info.min), int(info.max), shape, endpoint=True, dtype=kind)
        ends = rng.choice(np.asarray([info.min, info.max, 0, 1], kind), shape)
        return np.where(rng.random(shape) < 0.5, small.astype(kind), ends if special else wide).astype(kind)
    real = rng.choice(SPECIAL, shape) if special else rng.normal(0.0, 1.5, shape)
    with np.errstate(over="ignore"):
        return real.astype(kind)


def graph(name: str, kinds: list[np.dtype]) -> Builder:
    """One node of the operator for each type; the second operand is broadcast, and so is the first."""
    b = Builder(OPSET)
    for kind in kinds:
        shapes = [(2, 3, 5)] if operands(name) == 1 else [(2, 3, 1, 4), (3, 5, 1)]
        if name == "PRelu":         # its slope is broadcast to x, and x to nothing
            shapes = [(2, 3, 5, 4), (3, 1, 4)]
        b.output(b.op(name, *(b.input(s, kind) for s in shapes), **ATTRS.get(name, {})))
    return b


def supported(name: str, folder: Path) -> list[np.dtype]:
    """The types for which there is a kernel."""
    found = []
    for kind in types(name):
        try:
            compile(graph(name, [kind]), folder)
        except NoKernel:
            continue
        found.append(kind)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_operator_on_all_types(name: str, tmp_path: Path) -> None:
    kinds = supported(name, tmp_path)
    # Tables of 8-bit integers aside, what ONNX defines has a kernel.
    assert set(types(name)) - set(kinds) <= set(), f"{name} has no kernel for {set(types(name)) - set(kinds)}"
    assert_special_values(compile(graph(name, kinds), tmp_path))


def assert_special_values(compiled: fuse2c.Compiled) -> None:
    """C = numpy on ordinary numbers, on extremes, and on what is no number."""
    g = compiled.plan.graph
    rows = [{t: values(g.type(t).dtype.numpy, g.type(t).shape, special, seed + i) for i, t in enumerate(g.inputs)}
            for special, seed in ((False, 0), (True, 50), (True, 99))]
    with np.errstate(all="ignore"):
        for got, want in zip(run_c(compiled, rows), outputs(g, rows), strict=True):
            for t in g.outputs:
                assert_close(got[t], want[t], FLOAT_ERROR)


# onnxruntime computes these in float32, where ONNX's definition casts the attributes to the type of x.
IN_FLOAT32 = {("Shrink", kind.name) for kind in TYPES.values() if kind.name not in ("float32", "float16")}


@pytest.mark.parametrize("name", NAMES)
def test_operator_as_onnxruntime_computes_it(name: str, tmp_path: Path) -> None:
    """Ordinary values; types that onnxruntime has no kernel for are left out."""
    compared = 0
    for kind in (k for k in types(name) if (name, k.name) not in IN_FLOAT32):
        b = graph(name, [kind])
        compiled = compile(b, tmp_path)
        row = {t: ordinary(name, kind, compiled.plan.graph.type(t).shape, i)
               for i, t in enumerate(compiled.plan.graph.inputs)}
        try:
            (want,) = (next(iter(r.values())) for r in run_ort(b.model(), [row]))
        except Exception as e:
            assert any(known in str(e) for known in ("NOT_IMPLEMENTED", "INVALID_GRAPH", "can't be converted")), e
            continue
        (got,) = (next(iter(r.values())) for r in outputs(compiled.plan.graph, [row]))
        compared += 1
        assert_close(got, want, ORT_ERROR)
    if not compared:
        pytest.skip(f"onnxruntime has no {name}")


def ordinary(name: str, kind: np.dtype, shape: tuple[int, ...], port: int) -> np.ndarray:
    """Values in every operator's domain: no division by zero, no shift by the width, no overflowing power."""
    x = values(kind, shape, False, 7 + port)
    if kind.kind in "iu" and name in ("Pow", "BitShift", "Mod", "Div"):
        return (1 + np.random.default_rng(port).integers(0, 4, shape)).astype(kind)
    if name in ("Log", "Sqrt", "Pow", "Acosh"):
        return (1.0 + np.abs(x.astype(np.float64))).astype(kind)
    return np.clip(x.astype(np.float64), -0.9, 0.9).astype(kind) if name in ("Acos", "Asin", "Atanh") else x


def assert_close(got: np.ndarray, want: np.ndarray, error: dict[str, float]) -> None:
    """Equal for integers and bool; within the relative error for floats, NaN and infinities at the same places."""
    assert got.dtype == want.dtype and got.shape == want.shape
    if got.dtype.kind in "biu":
        assert np.array_equal(got, want)
        return
    a, b, rtol = got.astype(np.float64), want.astype(np.float64), error[want.dtype.name]
    least = float(ml_dtypes.finfo(want.dtype).smallest_normal)
    bad = ~((np.abs(a - b) <= rtol * np.abs(b) + least) | (a == b) | (np.isnan(a) & np.isnan(b)))
    assert not bad.any(), f"{want.dtype}: got {a[bad][0]}, want {b[bad][0]}"


def test_where_and_clip_on_all_types(tmp_path: Path) -> None:
    b = Builder(OPSET)
    for kind in TYPES.values():
        b.output(b.op("Where", b.input((3, 1), np.bool_), b.input((2, 1, 4), kind), b.input((3, 4), kind)))
    for text in onnx.defs.get_schema("Clip", OPSET).inputs[0].types:
        if text in TYPES:
            kind = TYPES[text]
            x = b.input((2, 7), kind)
            b.output(b.op("Clip", x, b.const(np.asarray(1, kind)), b.const(np.asarray(2, kind))),
                     b.op("Clip", x, b.const(np.asarray(1, kind))), b.op("Clip", x, "", b.input((), kind)))
    compiled = compile(b, tmp_path)
    assert_special_values(compiled)
