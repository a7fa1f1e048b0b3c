"""Operators that move, index, sort and resample: C against the numpy reference, and both against others' results.

Every graph holds many small operators, so that one compile tests them all. Shapes have no two equal extents.
"""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from graphs import Builder, Sample, assert_c_is_reference, compile, kernels, run_c, run_ort, samples
from onnx.reference import ReferenceEvaluator

from fuse2c.check.host import sanitized
from fuse2c.errors import UnsupportedOp

I64 = np.int64


def against_ort(b: Builder, folder: Path, rows: list[Sample] | None = None) -> None:
    """C is our reference to the bit (or within its bound), and onnxruntime's result up to rounding."""
    model, compiled = b.model(), compile(b, folder)
    rows = samples(compiled.plan, 1) if rows is None else rows
    assert_c_is_reference(compiled, rows)
    for got, want in zip(run_c(compiled, rows), run_ort(model, rows), strict=True):
        for (name, have), wanted in zip(got.items(), want.values(), strict=False):
            assert have.dtype == wanted.dtype, name
            part = have[tuple(slice(0, n) for n in wanted.shape)]
            np.testing.assert_allclose(part, wanted, rtol=1e-5, atol=1e-6, err_msg=name)


def channels_last(b: Builder) -> str:
    """A tensor [1, 3, 5, 4] that lies channels last: the result of a convolution."""
    return str(b.op("Conv", b.input((1, 2, 6, 6)), b.floats(3, 2, 2, 3)))


def test_moves_of_a_tensor_that_lies_channels_last(tmp_path: Path) -> None:
    b = Builder()
    x = channels_last(b)
    index = b.const(np.array([[2, 0], [-1, 1]], I64))
    runtime = b.input((2, 3), I64)
    repeated = b.op("Tile", x, b.ints(2, 1, 3, 2))
    mirrored = b.op("Pad", x, b.ints(0, 1, 2, 0, 0, 1, 1, 3), mode="reflect")
    border = b.op("Pad", x, b.ints(0, 0, -1, 2, 0, 0, 3, -2), mode="edge")
    cropped = b.op("Pad", x, b.ints(0, -1, 2, -1, 0, 1, -3, 1), b.const(np.float32(-1.5)))
    b.output(repeated, mirrored, border, cropped, b.op("Gather", x, index, axis=2), b.op("Gather", x, runtime, axis=3),
             b.op("Expand", x, b.ints(2, 3, 5, 4)), b.op("Trilu", x, b.const(I64(-1)), upper=0),
             b.op("Concat", x, b.floats(1, 1, 5, 4), x, axis=1), b.op("CumSum", x, b.const(I64(2)), reverse=1),
             *b.op("TopK", x, b.ints(3), outputs=2, axis=1), b.op("ArgMax", x, axis=3, select_last_index=1),
             b.op("ArgMin", x, axis=2, keepdims=0), b.op("DepthToSpace", repeated, blocksize=1))
    rows = samples(compile(b, tmp_path).plan, 1)
    for row in rows:
        row[runtime] = np.array([[3, -4, 0], [-1, 2, 1]], I64)
    against_ort(b, tmp_path, rows)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float64, np.bool_, np.float16])
def test_elements_of_any_type_move(dtype: type, tmp_path: Path) -> None:
    b = Builder()
    x, other = b.input((3, 4, 2), dtype), b.input((3, 1, 2), dtype)
    lengths, places = b.input((4,), I64), b.input((2, 2), I64)
    first = b.op("Slice", other, b.ints(0), b.ints(1), b.ints(0))
    back = b.op("Slice", x, b.ints(-1, 3), b.ints(-9, 0), b.ints(0, 1), b.ints(-2, -1))
    b.output(b.op("Transpose", x, perm=[2, 0, 1]), back, b.op("GatherND", x, places),
             b.op("ReverseSequence", x, lengths, time_axis=0, batch_axis=1),
             b.op("ScatterElements", x, b.const(np.array([[[2, -3]]], I64)), first, axis=0),
             b.op("Concat", other, x, axis=1), b.op("Tile", other, b.ints(1, 3, 2)))
    model, compiled = b.model(), compile(b, tmp_path)
    rows = samples(compiled.plan, 1)
    for row in rows:
        row[lengths], row[places] = np.array([3, 0, 2, 1], I64), np.array([[-1, 0], [1, 3]], I64)
    assert_c_is_reference(compiled, rows)
    for row, got in zip(rows, run_c(compiled, rows), strict=True):
        for have, want in zip(got.values(), ReferenceEvaluator(model).run(None, row), strict=True):
            np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_move_as_bits(dtype: type, tmp_path: Path) -> None:
    b = Builder(opset=24)
    x, i = b.input((3, 5), dtype), b.input((2,), I64)
    b.output(b.op("Gather", x, i, axis=1), b.op("Pad", x, b.ints(1, 0, 0, 2), b.const(np.asarray(-2.5, dtype))),
             b.op("Trilu", x), *b.op("TopK", x, b.ints(2), outputs=2))
    compiled = compile(b, tmp_path)
    row = {x: np.arange(-7, 8).reshape(3, 5).astype(dtype), i: np.array([-1, 2], I64)}
    gathered, padded, upper, top, where = run_c(compiled, [row])[0].values()
    np.testing.assert_array_equal(gathered, row[x][:, [-1, 2]])
    np.testing.assert_array_equal(padded.astype(np.float32)[0], [-2.5] * 7)
    np.testing.assert_array_equal(upper, np.triu(row[x].astype(np.float32)).astype(dtype))
    np.testing.assert_array_equal(top.astype(np.float32), row[x].astype(np.float32)[:, [4, 3]])
    np.testing.assert_array_equal(where, [[4, 3]] * 3)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter(reduction: str, tmp_path: Path) -> None:
    b = Builder(opset=18)
    x, n = b.input((4, 3, 2)), b.input((4, 3, 2), np.int32)
    i, where = b.input((2, 3, 1), I64), b.input((3, 2, 1), I64)
    u, v = b.input((2, 3, 1)), b.input((3, 2, 3, 2))
    b.output(b.op("ScatterElements", x, i, u, axis=0, reduction=reduction),
             b.op("ScatterND", x, where, v, reduction=reduction),
             b.op("ScatterElements", n, i, b.op("Cast", u, to=6), axis=0, reduction=reduction))
    compiled = compile(b, tmp_path)
    row = samples(compiled.plan, 1)[0]
    row[i] = np.array([[[0], [-1], [2]], [[3], [1], [-4]]], I64)
    row[where] = np.array([[[0], [3]], [[-3], [2]], [[2], [1]]], I64)
    if reduction == "none":
        row[where] = np.array([[[0], [3]], [[-3], [2]], [[0], [3]]], I64)       # the last one stays
    against_ort(b, tmp_path, [row])


INDEXED: dict[str, Callable[[Builder, str, str], str]] = {
    "gather": lambda b, x, i: b.op("Gather", x, i, axis=1),
    "elements": lambda b, x, i: b.op("GatherElements", x, b.op("Unsqueeze", i, b.ints(0)), axis=1),
    "nd": lambda b, x, i: b.op("GatherND", x, b.op("Unsqueeze", i, b.ints(0))),
    "scatter": lambda b, x, i: b.op("ScatterElements", x, b.op("Unsqueeze", i, b.ints(0)), b.floats(1, 2), axis=1),
    "scatter-nd": lambda b, x, i: b.op("ScatterND", x, b.op("Unsqueeze", i, b.ints(0)), b.floats(1)),
    "one-hot": lambda b, x, i: b.op("OneHot", i, b.ints(3), b.floats(2), axis=0),
    "reverse": lambda b, x, i: b.op("ReverseSequence", b.op("Transpose", x), i, time_axis=0, batch_axis=1),
}


@pytest.mark.parametrize("kind", INDEXED)
def test_no_index_reaches_outside(kind: str, tmp_path: Path) -> None:
    b = Builder()
    x, i = b.input((2, 5)), b.input((2,), I64)
    b.output(INDEXED[kind](b, x, i))
    compiled = compile(b, tmp_path)
    wild = [[5, -6], [10 ** 9, -(10 ** 9)], [2 ** 63 - 1, -(2 ** 63)], [-5, 4]]
    rows = [{x: np.arange(10, dtype=np.float32).reshape(2, 5), i: np.array(w, I64)} for w in wild]
    rows = [{t: v for t, v in row.items() if t in compiled.plan.graph.inputs} for row in rows]
    checked = sanitized(compiled.plan, rows)
    for have, want in zip(checked, run_c(compiled, rows), strict=True):
        for t, value in want.items():
            np.testing.assert_array_equal(have[t], value)
    assert_c_is_reference(compiled, rows)


MODES = [(mode, transform, extra) for mode in ("nearest", "linear", "cubic")
         for transform in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
         for extra in ("plain", "exclude_outside", "antialias") if not (mode == "nearest" and extra != "plain")]


@pytest.mark.parametrize(("mode", "transform"), sorted({(m, t) for m, t, _ in MODES}))
def test_resize(mode: str, transform: str, tmp_path: Path) -> None:
    b = Builder(opset=19)
    x = channels_last(b)
    for extra in ("plain", "exclude_outside", "antialias"):
        flags = {} if extra == "plain" else {extra: 1}
        if (mode, transform, extra) in MODES and not (extra == "exclude_outside" and mode == "linear"):
            scales = b.const(np.array([1, 1, 0.7, 2.3], np.float32))
            b.output(b.op("Resize", x, "", scales, mode=mode, coordinate_transformation_mode=transform, **flags),
                     b.op("Resize", x, "", "", b.ints(7, 3), mode=mode, axes=[3, 2],
                          coordinate_transformation_mode=transform, keep_aspect_ratio_policy="not_larger", **flags))
    model, compiled = b.model(), compile(b, tmp_path)
    rows = samples(compiled.plan, 1)
    assert_c_is_reference(compiled, rows)
    for have, want in zip(run_c(compiled, rows)[0].values(), ReferenceEvaluator(model).run(None, rows[0]), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_crops(mode: str, tmp_path: Path) -> None:
    b = Builder(opset=19)
    x, n = b.input((1, 2, 6, 5)), b.input((1, 2, 6, 5), np.uint8)
    roi = b.const(np.array([0, 0, 0.33, -0.2, 1, 1, 0.81, 1.3], np.float32))
    for t in (x, n):
        b.output(b.op("Resize", t, roi, "", b.ints(1, 2, 4, 7), mode=mode, extrapolation_value=7.0,
                      coordinate_transformation_mode="tf_crop_and_resize"))
    model, compiled = b.model(), compile(b, tmp_path)
    rows = samples(compiled.plan, 1)
    assert_c_is_reference(compiled, rows)
    real, whole = run_c(compiled, rows)[0].values()
    want = ReferenceEvaluator(model).run(None, rows[0])
    np.testing.assert_allclose(real, want[0], rtol=1e-4, atol=1e-5)
    assert np.abs(whole.astype(int) - want[1].astype(int)).max() <= 1       # a tie may fall to the other side
    assert (real == 7.0).any()


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample(mode: str, padding: str, tmp_path: Path) -> None:
    b = Builder(opset=20)
    x, grid = channels_last(b), b.input((1, 2, 7, 2))
    b.output(*(b.op("GridSample", x, grid, mode=mode, padding_mode=padding, align_corners=c) for c in (0, 1)))
    compiled = compile(b, tmp_path)
    row = samples(compiled.plan, 1)[0]
    row[grid] = np.random.default_rng(3).uniform(-3.1, 3.1, (1, 2, 7, 2)).astype(np.float32)
    wanted = ReferenceEvaluator(b.model()).run(None, row)
    for have, want in zip(run_c(compiled, [row])[0].values(), wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)
    wild = {**row, grid: np.resize(np.array([np.nan, np.inf, -np.inf, 3e38, -1e9, 1e5], np.float32), (1, 2, 7, 2))}
    assert len(sanitized(compiled.plan, [wild])) == 1


def test_sizes_that_depend_on_the_data(tmp_path: Path) -> None:
    b = Builder()
    x, kept = b.input((3, 5), np.float32), b.input((3,), np.bool_)
    found, picked = b.op("NonZero", x), b.op("Compress", x, kept, axis=0)
    flat = b.op("Compress", x, b.input((4,), np.bool_))
    values, first, back, counts = b.op("Unique", x, outputs=4, axis=1)
    b.output(found, picked, flat, values, first, back, counts)
    b.output(*b.op("Unique", x, outputs=4, sorted=0))
    compiled = compile(b, tmp_path)
    counted = {t: t.endswith("_count") for t in compiled.plan.graph.outputs}
    assert sum(counted.values()) == 5       # one each; Unique's three results share theirs
    row = samples(compiled.plan, 1)[0]
    row[x] = np.array([[0, 2, 0, 1, 2], [1, 3, 1, 0, 3], [0, 0, 0, 0, 0]], np.float32)
    row[kept] = np.array([True, False, True])
    against_ort(b, tmp_path, [row])
    got = run_c(compiled, [row])[0]
    assert [int(v[0]) for t, v in got.items() if counted[t]] == [7, 2, int(row[next(
        t for t in row if t not in (x, kept))].sum()), 3, 4]


def test_a_size_that_depends_on_the_data_is_no_input(tmp_path: Path) -> None:
    b = Builder()
    b.output(b.op("Transpose", b.op("NonZero", b.input((3, 4)))))
    with pytest.raises(UnsupportedOp, match="size depends on the data"):
        compile(b, tmp_path)


def test_best_boxes(tmp_path: Path) -> None:
    b = Builder()
    boxes, scores = b.input((2, 9, 4)), b.input((2, 3, 9))
    limits = [b.ints(4), b.const(np.array([0.3], np.float32)), b.const(np.array([0.2], np.float32))]
    b.output(b.op("NonMaxSuppression", boxes, scores, *limits),
             b.op("NonMaxSuppression", boxes, scores, *limits, center_point_box=1))
    rng = np.random.default_rng(5)
    row = {t: rng.uniform(0, 1, shape).astype(np.float32) for t, shape in ((boxes, (2, 9, 4)), (scores, (2, 3, 9)))}
    against_ort(b, tmp_path, [row])


def test_ties_keep_their_order(tmp_path: Path) -> None:
    b = Builder()
    x = b.input((2, 7), np.int32)
    b.output(*b.op("TopK", x, b.ints(5), outputs=2, largest=0), *b.op("TopK", x, b.ints(7), outputs=2))
    against_ort(b, tmp_path, [{x: np.array([[3, 1, 3, 1, 2, 3, 1], [0, -1, -1, 0, 5, 5, -9]], np.int32)}])


def test_stored_values_move_as_bytes(tmp_path: Path) -> None:
    b = Builder()
    scale, zero = 0.05, np.int8(-7)
    x, i = b.stored((4, 6), scale, zero), b.input((3,), I64)
    y = b.op("Trilu", b.op("Pad", b.op("Gather", x, i, axis=0), b.ints(1, 0, 0, 1), mode="edge"))
    b.output(b.quantise(y, scale, zero))
    compiled = compile(b, tmp_path)
    assert set(kernels(compiled)) == {"copy"}
    row = samples(compiled.plan, 1)[0]
    row[i] = np.array([2, 0, -1], I64)
    assert_c_is_reference(compiled, [row])
    want = run_ort(b.model(), [row])[0]
    np.testing.assert_array_equal(next(iter(run_c(compiled, [row])[0].values())), next(iter(want.values())))


def test_a_stored_table_stays_as_it_is(tmp_path: Path) -> None:
    b = Builder()
    i, plain, stored = b.input((2, 3), I64), b.floats(7, 4), b.weights((7, 4), 0.03, np.int8(-5))
    b.output(b.op("Gather", plain, i), b.op("Gather", stored, i))
    compiled = compile(b, tmp_path)
    tables = [t for s in compiled.plan.steps for t in s.spec.tables.values()]
    assert sorted(t.nbytes for t in tables) == [28, 112]
    rows = [{i: np.array([[0, 6, -1], [-7, 3, 2]], I64)}]
    against_ort(b, tmp_path, rows)


def test_empty_tensors(tmp_path: Path) -> None:
    b = Builder()
    x, none = b.input((3, 4)), b.input((0, 4))
    nothing = b.op("Slice", x, b.ints(2), b.ints(2), b.ints(1))
    turned = b.op("Transpose", nothing)
    b.output(b.op("Concat", none, x, axis=0), b.op("Relu", nothing), b.op("MatMul", nothing, turned))
    compiled = compile(b, tmp_path)
    row = {x: np.arange(12, dtype=np.float32).reshape(3, 4), none: np.zeros((0, 4), np.float32)}
    assert_c_is_reference(compiled, [row])
    joined, empty, product = run_c(compiled, [row])[0].values()
    np.testing.assert_array_equal(joined, row[x])
    assert empty.shape == (3, 0)
    np.testing.assert_array_equal(product, np.zeros((3, 3), np.float32))


