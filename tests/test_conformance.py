"""ONNX's backend suite: no case that passed before may fail now. `python scripts/conformance.py` renews the list."""
from __future__ import annotations

from collections import Counter

import onnx
import pytest

onnxruntime_free = pytest.importorskip("onnx.backend.test.loader", reason="onnx comes without its backend tests")

import conformance  # noqa: E402  (needs onnx's test modules)

PARTS = 8


def passed_before() -> set[str]:
    """Names of the cases that have passed."""
    return {name for name, line in conformance.recorded().items() if line.passed}


@pytest.mark.skipif(not conformance.compiler(), reason="no C compiler on this machine")
@pytest.mark.parametrize("part", range(PARTS))
def test_suite(part: int) -> None:
    """One part of the suite: everything on the list passes; nothing crashes or computes something else in silence."""
    cases = list(conformance.chunks(PARTS))[part]
    results = conformance.run(cases)
    assert set(results) == {c.name for c in cases}
    lost = {n: r.reason for n, r in results.items() if n in passed_before() and r.status != "passed"}
    assert lost == {}
    crashed = {n: r.reason for n, r in results.items() if r.reason.startswith("crash")}
    assert crashed == {}
    wrong = {n: r.reason for n, r in results.items() if r.status == "failed" and r.reason.startswith("output")}
    assert set(wrong) <= KNOWN_WRONG, wrong


# The suite expects numpy's own rounding noise of 2e-7 in an inverse DFT whose exact result is 0, within 1e-7.
# Attention in 16-bit floats: onnx's reference rounds inside its softmax, fuse2c once at the end; one step apart.
KNOWN_WRONG: frozenset[str] = frozenset({"test_dft_inverse", "test_dft_inverse_opset19"}) | frozenset(
    f"test_attention_{rank}d_{case}_{half}{form}" for rank in (3, 4) for half in ("fp16", "bf16")
    for case in ("causal", "attn_mask_causal", "padded_kv", "causal_padded_kv") for form in ("", "_expanded"))


def test_the_list_is_complete() -> None:
    """docs/OPERATORS.md counts the cases that the installed onnx has."""
    if conformance.recorded_with() != onnx.__version__:
        pytest.skip(f"the list is of onnx {conformance.recorded_with()}, {onnx.__version__} is installed")
    assert {c.name: c.kind for c in conformance.cases()} == {n: line.kind for n, line in conformance.recorded().items()}


def test_every_reason_is_on_the_closed_list() -> None:
    """Out of scope is a short list of reasons, each with cases."""
    counts = Counter(conformance.out_of_scope(c) for c in conformance.cases())
    assert set(counts) - {""} <= {*conformance.REASONS, "sequences and optionals", "float8 and float4", "complex numbers"}
    assert counts[""] > 1500


def test_the_comparison_can_fail() -> None:
    """A wrong expected output is noticed."""
    case = next(c for c in conformance.cases() if c.name == "test_add")
    inputs, outputs = case.data[0]
    broken = conformance.Case(case.name, case.kind, case.model, ((inputs, [conformance._array(outputs[0]) + 1]),),
                              case.rtol, case.atol)
    assert conformance.run([broken])["test_add"].status == "failed"
