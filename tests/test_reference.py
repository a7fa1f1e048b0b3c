"""The numpy reference against onnxruntime (its optimiser off) and onnx's own: it is what the C is compared with."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cases
import cases_ops
import numpy as np
import pytest
from cases import FLOAT, STYLES
from graphs import Builder, Sample, compile, outputs, run_ort, samples
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

EPS = float(np.finfo(np.float32).eps)
RELATIVE = 8 * EPS          # of the largest element of an output, for one layer of up to a few hundred products
# Not in onnxruntime: SAME padding with dilations.
ABSENT = {"conv-same-dilated"}
# Not right in onnx.reference: SAME_LOWER pools, and averages over windows that ceil_mode lets reach beyond the padding
# (it divides by the whole kernel; onnxruntime and PyTorch divide by what lies inside the padded input).
ODD = {"pool-max-same", "pool-average-ceil-include", "pool-average-dilated-ceil-include"}
# Integers that may be a step apart before any rewriting: float32 sums in another order move a few ties.
TIES = {"net-": 2, "pool-average-": 2, "qlinear_binary": 8}


def pairs(got: list[Sample], want: list[Sample]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Outputs by position: an output that is an input has another name on our side."""
    for x, y in zip(got, want, strict=True):
        for a, b in zip(x.values(), y.values(), strict=True):
            yield a, b.reshape(a.shape)


def float_error(a: np.ndarray, b: np.ndarray) -> float:
    """Worst |a - b| relative to the largest element; infinities and NaN must be at the same places."""
    assert np.array_equal(np.isfinite(a), np.isfinite(b))
    finite = np.isfinite(b)
    scale = float(np.abs(b[finite]).max(initial=0.0)) or 1.0
    return float(np.abs(a[finite].astype(np.float64) - b[finite]).max(initial=0.0)) / scale


def compared(got: list[Sample], want: list[Sample]) -> tuple[float, int, int, int]:
    """(worst relative float error, integers that differ, worst step, integers)."""
    error, differing, worst, count = 0.0, 0, 0, 0
    for a, b in pairs(got, want):
        assert a.dtype == b.dtype
        if a.dtype.kind == "f":
            error = max(error, float_error(a, b))
        else:
            gap = np.abs(a.astype(np.int64) - b.astype(np.int64))
            differing, worst, count = differing + np.count_nonzero(gap), max(worst, int(gap.max())), count + gap.size
    return error, differing, worst, count


def everything() -> dict[str, Builder]:
    """Every case: float and three ways to store the layers, and all other operators."""
    found = {f"{style}/{name}": cases.layer(name, s) for name in cases.all_layers() if name not in ABSENT
             for style, s in {"float": FLOAT, **STYLES}.items()}
    return found | {f"op/{name}": cases_ops.operator(name) for name in cases_ops.CASES}


ALL = everything()


@pytest.mark.parametrize("name", ALL)
def test_the_model_as_onnxruntime_computes_it(name: str, tmp_path: Path) -> None:
    """The imported graph, before any rewriting: Q and DQ in float32, as the file says. Integers are equal."""
    model = ALL[name].model()
    plan = compile(model, tmp_path, fuse=False).plan
    rows = samples(plan, 3)
    error, differing, worst, _ = compared(outputs(plan.source, rows), run_ort(model, rows))
    assert error <= RELATIVE * (4 if "net-" in name else 1)
    assert worst <= 1 and differing <= next((n for key, n in TIES.items() if key in name), 0)


@pytest.mark.parametrize("requant", ["fixed", "float"])
def test_integer_operators_stay_within_a_step(requant: str, tmp_path: Path) -> None:
    """All stored cases together: how many elements the integer operators put a step beside onnxruntime's."""
    total, different = 0, 0
    for name, b in ALL.items():
        if name.startswith("float/"):
            continue
        model = b.model()
        plan = compile(model, tmp_path, requant=requant).plan
        if plan.source is not None and not any(n.quantised for n in plan.graph.nodes):
            continue
        rows = samples(plan, 3)
        error, differing, worst, count = compared(outputs(plan.graph, rows), run_ort(model, rows))
        assert error <= 8 * RELATIVE and worst <= 1, name
        total, different = total + count, different + differing
    assert total > 50_000
    # At equal scales one average in six of six elements is a tie, which float sums decide by their rounding.
    assert different <= (24 if requant == "fixed" else 3), f"{different} of {total} elements differ"


@pytest.mark.parametrize("name", [n for n in cases.all_layers() if n not in ABSENT | ODD])
def test_float_layers_as_onnx_defines_them(name: str, tmp_path: Path) -> None:
    """onnx.reference: a second opinion, written independently of onnxruntime."""
    model = cases.layer(name, FLOAT).model()
    plan = compile(model, tmp_path).plan
    rows = samples(plan, 1)
    error, *_ = compared(outputs(plan.graph, rows), [run_onnx(model, row) for row in rows])
    assert error <= 4 * RELATIVE


def run_onnx(model: ModelProto, row: Sample) -> Sample:
    """Outputs of onnx's reference implementation."""
    evaluator = ReferenceEvaluator(model)
    return dict(zip(evaluator.output_names, evaluator.run(None, row), strict=True))


def test_the_comparison_bites() -> None:
    one = [{"y": np.asarray([1.0, 2.0], np.float32)}]
    assert compared(one, [{"y": np.asarray([1.0, 2.00001], np.float32)}])[0] > RELATIVE
    with pytest.raises(AssertionError):
        compared(one, [{"y": np.asarray([1.0, np.nan], np.float32)}])
    stored = [{"y": np.asarray([3, 5], np.int8)}]
    assert compared(stored, [{"y": np.asarray([3, 7], np.int8)}])[1:] == (1, 2, 2)
