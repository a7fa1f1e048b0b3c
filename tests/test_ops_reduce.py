"""Reductions, softmax and its relatives, normalisations, transforms: what the ONNX suite's cases leave out."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import (
    Builder,
    assert_c_is_reference,
    chains,
    compile,
    kernels,
    outputs,
    run_c,
    run_ort,
    samples,
    steps_apart,
)
from onnx.reference import ReferenceEvaluator

from fuse2c.errors import Fuse2cError, ShapeError, UnsupportedOp
from fuse2c.ops.softmax import FEW, exp_bits, exp_table

FLOAT_BOUND = 3e-6


def run(b: Builder, rows: list[dict[str, np.ndarray]], tmp_path: Path, **options: Any) -> list[dict[str, np.ndarray]]:
    """What C gives, after it was compared with the numpy reference."""
    compiled = compile(b.model(check_model=False), tmp_path, **options)
    got = run_c(compiled, rows)
    for mine, want in zip(got, outputs(compiled.plan.source, rows), strict=True):
        for t in want:
            compare(mine[t], want[t])
    return got


def compare(got: np.ndarray, want: np.ndarray, bound: float = FLOAT_BOUND) -> None:
    """Integers equal, floats within a bound relative to the greatest value."""
    assert got.shape == want.shape and got.dtype == want.dtype
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
    else:
        loose = {np.float64: 1e-13, np.float16: 2e-3}.get(got.dtype.type, bound)
        finite = np.abs(want[np.isfinite(want)].astype(np.float64))
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=loose,
                                   atol=loose * float(finite.max(initial=0.0)))


NAMES = ("Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_reductions(name: str, dtype: Any, tmp_path: Path) -> None:
    b = Builder(13 if name != "Sum" else 11)
    x = b.input((2, 3, 5, 4), dtype)
    b.output(b.op(f"Reduce{name}", x, axes=[-1, 1], keepdims=0), b.op(f"Reduce{name}", x, axes=[2]),
             b.op(f"Reduce{name}", x))
    value = np.random.default_rng(3).uniform(0.4, 1.9, (2, 3, 5, 4)).astype(dtype)
    got = run(b, [{x: value}], tmp_path)[0]
    for t, want in run_ort(b.model(), [{x: value}])[0].items():
        compare(got[t], want)


MEANS = {      # scale of the result: sums of integers do; sums come too close to ties, so that float32 sums are followed
    "integer": (0.06699, "f2c_requant"), "ties": (0.05, "f2c_quantise"),
}


@pytest.mark.parametrize("target", ["cortex-m3", "cortex-m0plus", "cortex-m4"])
@pytest.mark.parametrize("name", MEANS)
def test_means_of_stored_values(name: str, target: str, tmp_path: Path) -> None:
    """Over a last, a first, a middle and two axes apart, of rows and of channels that lie last: no floats without an FPU, and
    onnxruntime's result, but for ties that its order of adding takes the other way."""
    b, (scale, call) = Builder(17), MEANS[name]
    x = b.stored((1, 4, 2, 6), 0.05, np.int8(-9))
    t = b.requantise(b.op("Conv", x, b.weights((8, 4, 1, 1), 0.002)), 0.05, np.int8(7))
    for source, axes, keep in ((x, [3], 1), (t, [2], 0), (t, [1], 0), (x, [1, 3], 1), (t, [1, 2], 0)):
        b.output(b.quantise(b.op("ReduceMean", source, axes=axes, keepdims=keep), scale, np.int8(-3)))
    compiled = compile(b, tmp_path, target=target, requant="float")
    assert kernels(compiled).count("reduce") == 5 and not any("QuantizeLinear" in chain for chain in chains(compiled))
    code = "".join(path.read_text() for path in compiled.emit(tmp_path / "c").glob("*.c"))
    assert call in code and ("f2c_term" in code) == (name == "ties" and target != "cortex-m4")
    assert_c_is_reference(compiled)
    rows = samples(compiled.plan)
    for got, want in zip(run_c(compiled, rows), run_ort(b.model(), rows), strict=True):
        assert steps_apart(got, want).max() <= (name == "ties")


def test_extremes_of_stored_values(tmp_path: Path) -> None:
    """They are stored values too: nothing becomes a float in between."""
    b = Builder(17)
    x = b.stored((2, 3, 4, 5), 0.05, np.uint8(90))
    b.output(b.quantise(b.op("ReduceMax", x, axes=[2], keepdims=0), 0.05, np.uint8(90)),
             b.quantise(b.op("ReduceMin", x, axes=[1, 3]), 0.05, np.uint8(90)))
    compiled = compile(b, tmp_path)
    assert chains(compiled) == ["ReduceMax", "ReduceMin"]
    assert_c_is_reference(compiled)
    rows = samples(compiled.plan)
    assert all(steps_apart(*both).max() == 0 for both in zip(run_c(compiled, rows), run_ort(b.model(), rows), strict=True))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64, np.int8, np.uint8])
@pytest.mark.parametrize("name", ["Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare"])
def test_integers_wrap(name: str, dtype: Any, tmp_path: Path) -> None:
    if np.dtype(dtype).itemsize == 1 and name not in ("Max", "Min"):
        return      # ONNX has no such type for these
    b = Builder(18)
    x = b.input((3, 2, 7), dtype)
    b.output(b.op(f"Reduce{name}", x, b.ints(0, 2)))
    info = np.iinfo(dtype)
    wide = np.random.default_rng(5).integers(info.min, info.max, (3, 2, 7), dtype, endpoint=True)
    small = (wide % 11).astype(dtype)
    run(b, [{x: small}] if name == "L2" else [{x: wide}, {x: small}], tmp_path)


def test_a_mean_of_integers_is_cut_off_towards_zero(tmp_path: Path) -> None:
    b = Builder(18)
    x = b.input((2, 4), np.int32)
    b.output(b.op("ReduceMean", x, b.ints(1)))
    value = np.array([[-1, -2, -3, -1], [1, 2, 3, 1]], np.int32)
    assert next(iter(run(b, [{x: value}], tmp_path)[0].values())).tolist() == [[-1], [1]]


def test_infinities_and_nan_reach_the_result(tmp_path: Path) -> None:
    b = Builder(18)
    x = b.input((5, 3))
    b.output(*(b.op(f"Reduce{name}", x, b.ints(1), keepdims=0) for name in ("Max", "Min", "LogSumExp")))
    inf, nan = np.inf, np.nan
    value = np.array([[1, inf, 2], [-inf, -inf, -inf], [1, nan, 2], [nan, 1, 2], [-inf, 3, 1]], np.float32)
    high, low, log = run(b, [{x: value}], tmp_path)[0].values()
    np.testing.assert_array_equal(high, [inf, -inf, nan, nan, 3])
    np.testing.assert_array_equal(low, [1, -inf, nan, nan, -inf])
    np.testing.assert_allclose(log, [inf, -inf, nan, nan, np.log(np.exp(3) + np.exp(1))], rtol=1e-6)


@pytest.mark.parametrize(("name", "want"), [
    ("Sum", 0), ("Mean", np.nan), ("Prod", 1), ("Max", -np.inf), ("Min", np.inf), ("L1", 0), ("L2", 0),
    ("LogSum", -np.inf), ("LogSumExp", -np.inf)])
def test_reduced_over_nothing(name: str, want: float, tmp_path: Path) -> None:
    b = Builder(18)
    x = b.input((2, 0, 3))
    b.output(b.op(f"Reduce{name}", x, b.ints(1), keepdims=0))
    got = next(iter(run(b, [{x: np.zeros((2, 0, 3), np.float32)}], tmp_path)[0].values()))
    np.testing.assert_array_equal(got, np.full((2, 3), want, np.float32))


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(("opset", "dtype"), [(11, np.float32), (13, np.float32), (13, np.float64), (13, np.float16)])
def test_softmax_family(op: str, opset: int, dtype: Any, tmp_path: Path) -> None:
    b = Builder(opset)
    x = b.input((2, 3, 5), dtype)
    b.output(b.op(op, x, axis=1), b.op(op, x, axis=-1), b.op(op, x))
    value = (4 * np.random.default_rng(1).standard_normal((2, 3, 5))).astype(dtype)
    got = run(b, [{x: value}], tmp_path)[0]
    for t, want in zip(got, ReferenceEvaluator(b.model()).run(None, {x: value}), strict=True):
        if opset >= 13 and dtype != np.float16:     # which onnx's own reference adds up in float16
            compare(got[t], want)
    if dtype == np.float32:
        for t, want in run_ort(b.model(), [{x: value}])[0].items():
            compare(got[t], want)


@pytest.mark.parametrize(("scale", "n"), [(1e-4, 2), (0.02, 5), (0.11, 300), (3.0, 12)])
def test_exponentials_are_products_of_two_factors(scale: float, n: int) -> None:
    """Each within a unit of the exponential, the greatest exactly one."""
    found, want = exp_table(scale, n).astype(np.float64), np.exp(-scale * np.arange(256.0)) * 2.0 ** exp_bits(n)
    assert found[0] == want[0] and np.abs(found - want).max() < 1


def test_a_softmax_of_few_elements_has_two_small_tables(tmp_path: Path) -> None:
    """32 factors instead of 256 products, and the reference's result of both."""
    for n, entries in ((FEW, 32), (FEW + 1, 256)):
        b = Builder()
        x = b.stored((1, n), 0.07, np.int8(-5))
        b.output(b.quantise(b.op("Softmax", x, axis=1), 1 / 256, np.int8(-128)))
        model = compile(b, tmp_path, name=f"few{n}")
        assert [s.spec.tables["exp"].size for s in model.plan.steps if "exp" in s.spec.tables] == [entries]
        assert_c_is_reference(model)


def test_variable_batch_norm_and_its_statistics(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    shapes = [(2, 3, 4, 5), (3,), (3,), (3,), (3,)]
    values = [rng.uniform(0.2, 1.5, s).astype(np.float32) for s in shapes]
    for training in (0, 1):
        b = Builder(15)
        names = [b.input(s) for s in shapes]
        results = b.op("BatchNormalization", *names, outputs=1 + 2 * training, training_mode=training, momentum=0.7)
        b.output(*([results] if isinstance(results, str) else results))
        row = dict(zip(names, values, strict=True))
        got = run(b, [row], tmp_path)[0]
        for t, want in zip(got, ReferenceEvaluator(b.model(check_model=False)).run(None, row), strict=True):
            compare(got[t], want, 2e-5)


def test_normalisations(tmp_path: Path) -> None:
    b = Builder(17)
    x, scale, bias = b.input((2, 3, 4, 5)), b.input((3,)), b.input((3,))
    b.output(b.op("InstanceNormalization", x, scale, bias, epsilon=0.01), b.op("LpNormalization", x, axis=2, p=1),
             b.op("LpNormalization", x, axis=1), b.op("MeanVarianceNormalization", x, axes=[1, 3]),
             b.op("LayerNormalization", x, b.floats(4, 5), axis=2))
    rng = np.random.default_rng(8)
    row = {t: rng.standard_normal(s).astype(np.float32) for t, s in ((x, (2, 3, 4, 5)), (scale, (3,)), (bias, (3,)))}
    row[x][0, :, 1] = 0         # a slice without a norm stays zero
    got = run(b, [row], tmp_path)[0]
    for t, want in run_ort(b.model(), [row])[0].items():
        compare(got[t], np.nan_to_num(want), 2e-5)


@pytest.mark.parametrize(("shape", "attrs", "length"), [
    ((2, 9, 3, 1), {"axis": 1}, None), ((2, 9, 3, 2), {"axis": 1, "inverse": 1}, 7), ((2, 6, 5, 1), {"axis": 2,
                                                                                                  "onesided": 1}, 8)])
def test_transforms(shape: tuple[int, ...], attrs: dict[str, int], length: int | None, tmp_path: Path) -> None:
    b = Builder(17)
    x = b.input(shape)
    b.output(b.op("DFT", x, *([b.const(np.int64(length))] if length else []), **attrs))
    row = {x: np.random.default_rng(4).standard_normal(shape).astype(np.float32)}
    got = run(b, [row], tmp_path)[0]
    for t, want in zip(got, ReferenceEvaluator(b.model(check_model=False)).run(None, row), strict=True):
        compare(got[t], want)


@pytest.mark.parametrize("window", [None, "constant", "input"])
def test_short_time_transform(window: str | None, tmp_path: Path) -> None:
    b = Builder(17)
    x, taps = b.input((2, 25, 1)), np.hanning(7).astype(np.float32)
    w = "" if window is None else b.const(taps) if window == "constant" else b.input((7,))
    b.output(b.op("STFT", x, b.const(np.int64(3)), w, b.const(np.int64(7)), onesided=1))
    row = {x: np.random.default_rng(4).standard_normal((2, 25, 1)).astype(np.float32)}
    row |= {w: taps} if window == "input" else {}
    got = run(b, [row], tmp_path)[0]
    for t, want in run_ort(b.model(), [row])[0].items():
        compare(got[t], want)


def test_checks_allow_rounding_in_transforms(tmp_path: Path) -> None:
    b = Builder(17)
    b.output(b.op("STFT", b.input((2, 95, 1)), b.const(np.int64(3)), "", b.const(np.int64(70))))
    assert_c_is_reference(compile(b, tmp_path))


def refused(b: Builder, tmp_path: Path, error: type[Fuse2cError]) -> str:
    with pytest.raises(error) as e:
        compile(b.model(check_model=False), tmp_path)
    return str(e.value)


def test_refusals(tmp_path: Path) -> None:
    b = Builder(17)
    b.output(b.op("MelWeightMatrix", *(b.const(np.int64(n)) for n in (1000, 65536, 16000)), b.const(np.float32(20)),
                  b.const(np.float32(8000))))
    assert "more than 16777216 weights" in refused(b, tmp_path, UnsupportedOp)
    b = Builder(17)
    b.output(b.op("BatchNormalization", b.input((2, 3)), *(b.floats(3) for _ in range(4)), outputs=5)[0])
    b.opset = 8
    assert "training mode" in refused(b, tmp_path, UnsupportedOp)
    b = Builder(17)
    b.output(b.op("DFT", b.input((2, 5, 3)), axis=1))
    assert "no signal" in refused(b, tmp_path, ShapeError)
