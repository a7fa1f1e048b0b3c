"""Integer arithmetic that Armv6-M has no instructions for: by one path, with the results of other cores."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graphs import Builder, assert_c_is_reference, compile
from test_measure import needs_gcc
from test_quant import accumulators, twin


def test_what_armv6m_has_no_instructions_for(tmp_path: Path) -> None:
    """Minima and products of 64 bits by one path, and quotients."""
    a = accumulators()
    others = (0, 1, -1, 7, -300, 65535, 0x12345, 2 ** 31 - 1, -2 ** 31)
    columns = [f"f2c_min_masked(v.i, {max(b, 1 - 2 ** 31)} - {int(b == -2 ** 31)})" for b in others]
    got = twin(tmp_path, "", columns, a)
    assert np.array_equal(got, np.minimum(a[:, None], np.array(others)))
    for function, x, first in (("f2c_long_product", a & 0xFFFFFFFF, "(uint32_t)v.i"), ("f2c_signed_product", a, "v.i")):
        by = [b for b in others if b >= 0]
        columns = [f"(int32_t)(uint32_t)({function}({first}, {b}) {part})" for b in by for part in (">> 32", ">> 0")]
        got = twin(tmp_path, "", columns, a).astype(np.int64)
        low, high = got[:, 1::2] & 0xFFFFFFFF, got[:, ::2] & 0xFFFFFFFF
        for i, b in enumerate(by):
            exact = [int(v) * b & (2 ** 64 - 1) for v in x]
            assert [int(h) << 32 | int(v) for h, v in zip(high[:, i], low[:, i], strict=True)] == exact
    sums = np.concatenate([np.arange(2 ** 22 + 1, 2 ** 22 + 400), 2 ** 31 - 1 - np.arange(300), [-1, -2 ** 31]])
    got = twin(tmp_path, "", [f"(int32_t)f2c_reciprocal_by_bits({2 ** 53}u, (uint32_t)v.i)"], sums)
    assert got[:, 0].tolist() == [2 ** 53 // (int(s) & 0xFFFFFFFF) for s in sums]


@needs_gcc
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m33", "cortex-m55"])
def test_one_path(target: str, tmp_path: Path) -> None:
    """Floats at both ends, means that follow float32 sums, a residual of two scales, maxima, softmax: no branch on data."""
    pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
    pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")
    b = Builder()
    t = b.op("Conv", b.requantise(b.input((1, 4, 2, 6)), 0.05, np.int8(-9)), b.weights((8, 4, 1, 1), 0.002))
    t = b.requantise(t, 0.05, np.int8(7))
    two = b.op("Add", t, b.requantise(b.op("Sigmoid", t), 0.004, np.int8(-128)))
    pooled = b.op("MaxPool", b.requantise(two, 0.06, np.int8(-3)), kernel_shape=[2, 2])
    for y in (b.op("ReduceMean", t, axes=[2], keepdims=0), b.op("Relu", b.op("AveragePool", t, kernel_shape=[2, 3])), pooled):
        b.output(b.requantise(y, 0.05, np.int8(-3)))
    b.output(b.requantise(b.op("Softmax", b.op("Flatten", t)), 1 / 256, np.int8(-128)))
    compiled = compile(b, tmp_path, target=target)
    assert_c_is_reference(compiled)
    result = compiled.wcet()
    assert result.single_path and result.ipet == result.instructions
