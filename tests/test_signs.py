"""One sign for the 8-bit tensors inside a model, whichever its quantiser chose; inputs and outputs keep their own."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import Builder, compile, kernels, samples
from test_fusion import SHAPE, assert_same_meaning, stored_conv

import fuse2c
from fuse2c.check import check
from fuse2c.ir.types import DType

I8, U8 = np.int8, np.uint8
F32 = np.float32
TARGETS = {"cortex-m55": DType.I8, "cortex-m4": DType.I8, "cortex-m0plus": DType.I8, "host": DType.U8}


def network(zero: Any) -> Builder:
    """A convolution, a pool, a join with another branch, a convolution, from floats to floats."""
    b = Builder()
    x = b.requantise(b.input(SHAPE), 0.03, zero(-9))
    y = stored_conv(b, x, 0.4, zero(5))
    pooled = b.requantise(b.op("MaxPool", y, kernel_shape=[2, 2], pads=[0, 1, 1, 0]), 0.4, zero(5))
    both = b.requantise(b.op("Concat", pooled, pooled, axis=1), 0.4, zero(5))
    w = b.weights((6, 8, 1, 1), np.full(6, 0.011, F32))
    b.output(b.requantise(b.op("Conv", both, w), 0.9, zero(-3)))
    return b


def inner(compiled: Any) -> set[DType]:
    """Types of the 8-bit tensors that a plan computes, but for inputs and outputs."""
    g = compiled.plan.graph
    made = {t for n in g.nodes for part in n.parts for t in part.outputs} - {*g.inputs, *g.outputs}
    return {g.type(t).dtype for t in made if g.type(t).dtype.is_quantised}


@pytest.mark.parametrize("target", TARGETS)
def test_a_model_has_the_kernels_of_its_target_whatever_its_signs(target: str, tmp_path: Path) -> None:
    plans = [compile(network(zero), tmp_path, target=target) for zero in (lambda z: I8(z), lambda z: U8(z + 128))]
    assert kernels(plans[0]) == kernels(plans[1])
    for plan in plans:
        assert inner(plan) == {TARGETS[target]}
        assert_same_meaning(plan, steps=1)


@pytest.mark.parametrize("target", ["cortex-m55", "host"])
@pytest.mark.parametrize("zero", [I8(-7), U8(130)])
def test_inputs_and_outputs_keep_their_type(zero: Any, target: str, tmp_path: Path) -> None:
    b = Builder()
    inside = zero.dtype.type
    y = stored_conv(b, b.stored(SHAPE, 0.03, zero), 0.4, inside(9))
    b.output(b.quantise(b.op("Relu", b.op("Add", y, y)), 0.5, zero))
    compiled = compile(b, tmp_path, target=target)
    g = compiled.plan.graph
    assert {g.type(t).dtype.numpy for t in (*g.inputs, *g.outputs)} == {zero.dtype}
    assert_same_meaning(compiled, steps=1)


def moved(b: Builder, q: str) -> str:
    """Stored values that are pooled, joined and read in another order as they are."""
    pooled = b.op("MaxPool", q, kernel_shape=[2, 2])
    return str(b.op("Transpose", b.op("Concat", pooled, pooled, axis=1), perm=[0, 2, 1, 3]))


def padded(b: Builder, q: str) -> str:
    """Padding of stored values is a number of its own."""
    return str(b.op("Pad", q, b.ints(0, 0, 1, 1, 0, 0, 0, 0), b.const(U8(7))))


def cut(b: Builder, q: str) -> str:
    """So are the zeros of a triangle."""
    return str(b.op("Trilu", q))


def counted(b: Builder, q: str) -> str:
    """Stored values that something else reads as numbers."""
    b.output(b.op("Cast", q, to=6))
    return q


@pytest.mark.parametrize(("between", "sign"), [(moved, DType.I8), (padded, DType.U8), (cut, DType.U8), (counted, DType.U8)])
def test_stored_values_between_quantisation_and_its_end(between: Callable[[Builder, str], str], sign: DType, tmp_path: Path
                                                        ) -> None:
    b = Builder()
    q = b.quantise(b.op("Relu", b.input(SHAPE)), 0.03, U8(100))
    y = b.dequantise(between(b, q), 0.03, U8(100))
    b.output(b.op("Mul", y, y))
    compiled = compile(b, tmp_path, target="cortex-m55")
    assert sign in inner(compiled) and not (sign == DType.I8 and DType.U8 in inner(compiled))
    assert_same_meaning(compiled)


@pytest.mark.parametrize(("target", "zero"), [("cortex-m55", U8(133)), ("host", I8(5))])
def test_onnxruntime_is_asked_in_the_signs_of_the_file(target: str, zero: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    b = Builder()
    y = stored_conv(b, b.requantise(b.input(SHAPE), 0.03, zero), 0.4, zero)
    b.output(b.op("Softmax", y, axis=1))
    path = tmp_path / "m.onnx"
    path.write_bytes(b.model().SerializeToString())
    compiled = fuse2c.plan(path, target=target)
    result = check(compiled.plan, samples(compiled.plan), path)
    turned = [s.function for s in compiled.plan.steps if compiled.plan.graph.type(s.node.outputs[0]).dtype == TARGETS[target]]
    assert turned and set(turned) <= set(result.ort_steps)
    assert result.ort_outputs is not None
    for d in (*result.ort_steps.values(), result.ort_outputs, *result.ort_pairs.values()):
        assert d.elements and d.worst <= 1
