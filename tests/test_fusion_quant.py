"""From Q/DQ to integer operators: when it happens, and the near misses that must stay in float, with their reasons."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from graphs import Builder, assert_c_is_reference, chains, compile, outputs, reasons, samples
from test_fusion import SHAPE, assert_same_meaning, conv, scalar, stored_conv

from fuse2c.check.reference import run_graph
from fuse2c.errors import Overflow

I8, U8 = np.int8, np.uint8
F32 = np.float32


def q_conv(b: Builder) -> None:
    b.output(b.quantise(b.op("Conv", b.stored(SHAPE, 0.03, I8(-9)), b.weights((4, 3, 2, 3), 0.01)), 0.4, I8(5)))


def q_float_bias(b: Builder) -> None:
    """A float bias is rounded to the accumulator's scale."""
    t = b.op("Conv", b.stored(SHAPE, 0.03, I8(-9)), b.weights((4, 3, 2, 3), 0.01), b.floats(4))
    b.output(b.quantise(t, 0.4, I8(5)))


def q_second_reader(b: Builder) -> None:
    t = b.op("Conv", b.stored(SHAPE, 0.03, I8(-9)), b.weights((4, 3, 2, 3), 0.01))
    b.output(b.quantise(t, 0.4, I8(5)), t)


def q_variable_weights(b: Builder) -> None:
    t = b.op("MatMul", b.stored((2, 6), 0.03, I8(-9)), b.stored((6, 5), 0.02, I8(4)))
    b.output(b.quantise(t, 0.4, I8(5)))


def q_transposed(b: Builder) -> None:
    t = b.op("Gemm", b.stored((6, 2), 0.03, I8(-9)), b.weights((6, 5), 0.02), transA=1)
    b.output(b.quantise(t, 0.4, I8(5)))


def q_batch_of_weights(b: Builder) -> None:
    t = b.op("MatMul", b.stored((3, 2, 6), 0.03, I8(-9)), b.weights((3, 6, 5), 0.02))
    b.output(b.quantise(t, 0.4, I8(5)))


def q_vector_of_scales(b: Builder) -> None:
    """A vector on the right has one scale for each term of the sum."""
    w = b.weights((6,), np.linspace(0.01, 0.02, 6).astype(F32))
    b.output(b.quantise(b.op("MatMul", b.stored((2, 6), 0.03, I8(-9)), w), 0.4, I8(5)))


def q_long_sum(b: Builder) -> None:
    """Two variable operands: nothing is known of their values, 255 * 255 * 33,100 is beyond int32."""
    t = b.op("MatMul", b.stored((1, 33_100), 0.003, I8(-128)), b.stored((33_100, 1), 0.002, I8(127)))
    b.output(b.quantise(t, 5.0, I8(5)))


def q_float_operand(b: Builder) -> None:
    b.output(b.quantise(b.op("Add", b.stored((2, 5), 0.03, I8(-9)), b.input((2, 5))), 0.4, I8(5)))


def q_scales_along_inputs(b: Builder) -> None:
    """Weight scales that differ along the inputs do not come out of the sum."""
    w = b.weights((4, 5, 1, 1), np.linspace(0.01, 0.02, 5).astype(F32), axis=1)
    b.output(b.quantise(b.op("Conv", b.stored((1, 5, 3, 2), 0.03, I8(-9)), w), 0.4, I8(5)))


def q_two_scales(b: Builder) -> None:
    """One stored tensor, read with two scales: its type states the first."""
    x = b.input((2, 5), I8)
    first, second = b.dequantise(x, 0.03, I8(-9)), b.dequantise(x, 0.05, I8(-9))
    b.output(b.quantise(b.op("Tanh", first), 0.01, I8(0)), b.quantise(b.op("Tanh", second), 0.01, I8(0)))


def q_two_zero_points(b: Builder) -> None:
    """The same with one scale and two zero points."""
    x = b.input((2, 5), I8)
    first, second = b.dequantise(x, 0.03, I8(-9)), b.dequantise(x, 0.03, I8(20))
    b.output(b.quantise(b.op("Sigmoid", first), 0.01, I8(0)), b.quantise(b.op("Sigmoid", second), 0.01, I8(0)))


def q_again(b: Builder) -> None:
    """Q(DQ(x)) with the same scale is x."""
    t = b.quantise(b.input((2, 5)), 0.03, I8(-9))
    b.output(b.quantise(b.dequantise(t, 0.03, I8(-9)), 0.03, I8(-9)))


def q_other_scale(b: Builder) -> None:
    b.output(b.quantise(b.stored((2, 5), 0.03, I8(-9)), 0.04, I8(20)))


def q_other_type(b: Builder) -> None:
    b.output(b.quantise(b.stored((2, 5), 0.03, I8(-9)), 0.03, U8(119)))


def q_per_axis(b: Builder) -> None:
    x = b.dequantise(b.input((2, 5), I8), np.asarray([0.1, 0.2], F32), np.zeros(2, I8), axis=0)
    b.output(b.quantise(x, 0.04, I8(20)))


def q_read_with_another(b: Builder) -> None:
    x = b.input((2, 5), I8)
    b.output(b.op("Neg", b.dequantise(x, 0.03, I8(-9))), b.quantise(b.dequantise(x, 0.07, I8(1)), 0.04, I8(20)))


def late_move(b: Builder) -> None:
    t = b.op("Slice", b.stored((2, 3, 5), 0.03, I8(-9)), b.ints(4, 1), b.ints(0, 3), b.ints(2, 1), b.ints(-2, 1))
    b.output(b.op("Relu", b.op("MaxPool", t, kernel_shape=[2])))


def late_pad(b: Builder) -> None:
    """0.06 is two steps above the zero point: a stored value."""
    b.output(b.op("Pad", b.stored((2, 5), 0.03, I8(-9)), b.ints(0, 1, 0, 2), scalar(b, float(F32(0.03)) * 2)))


def late_pad_unstored(b: Builder) -> None:
    b.output(b.op("Pad", b.stored((2, 5), 0.03, I8(-9)), b.ints(0, 1, 0, 2), scalar(b, 0.07)))


def late_pad_beyond(b: Builder) -> None:
    b.output(b.op("Pad", b.stored((2, 5), 0.03, I8(-9)), b.ints(0, 1, 0, 2), scalar(b, -100.0)))


def late_relu_of_two_scales(b: Builder) -> None:
    x = b.input((2, 5), I8)
    b.output(b.op("Relu", b.dequantise(x, 0.03, I8(-9))), b.op("Relu", b.dequantise(x, 0.03, I8(40))))


def early_move(b: Builder) -> None:
    t = b.op("Transpose", b.op("Clip", b.input((2, 5)), scalar(b, -1.0), scalar(b, 1.5)))
    b.output(b.quantise(t, 0.03, I8(-9)))


def early_concat(b: Builder) -> None:
    b.output(b.quantise(b.op("Concat", b.input((2, 5)), b.stored((1, 5), 0.02, I8(3)), axis=0), 0.03, I8(-9)))


def early_per_axis(b: Builder) -> None:
    t = b.op("Transpose", b.input((2, 5)))
    b.output(b.quantise(t, np.linspace(0.01, 0.03, 5).astype(F32), np.zeros(5, I8), axis=0))


def requantised(b: Builder, op: str, *x: str, scale: float = 0.03, zero: int = -9) -> str:
    """An operator with stored operands and a stored result."""
    return b.requantise(b.op(op, *x), scale, I8(zero))


def table_swish(b: Builder) -> None:
    """x * sigmoid(x) after a convolution, in three stored numbers."""
    t = stored_conv(b, b.stored(SHAPE, 0.03, I8(-9)), 0.05, I8(-7))
    b.output(requantised(b, "Mul", t, requantised(b, "Sigmoid", t, scale=1 / 256, zero=-128)))


def table_gelu(b: Builder) -> None:
    """GELU as exporters write it: two constants, one of them stored, in a chain that comes back to its operand."""
    x, half = b.stored((2, 3, 5), 0.03, I8(-9)), b.dequantise(b.const(I8(64)), 1 / 128, I8(0))
    t = requantised(b, "Erf", requantised(b, "Mul", x, b.dequantise(b.const(I8(90)), 1 / 128, I8(0))), scale=1 / 127, zero=0)
    b.output(requantised(b, "Mul", requantised(b, "Mul", requantised(b, "Add", t, b.dequantise(
        b.const(I8(127)), 1 / 127, I8(0))), x), half, scale=0.02, zero=-100))


def table_two_operands(b: Builder) -> None:
    """A product of two variable tensors is no function of one number; the two sigmoids are one operator each."""
    x, y = b.stored((2, 5), 0.03, I8(-9)), b.stored((2, 5), 0.03, I8(-9))
    b.output(requantised(b, "Mul", requantised(b, "Sigmoid", x), requantised(b, "Tanh", y)))


def table_channels(b: Builder) -> None:
    """A constant for each channel."""
    w = b.dequantise(b.const(np.asarray([[3], [90]], I8)), 1 / 128, I8(0))
    b.output(requantised(b, "Tanh", requantised(b, "Mul", b.stored((2, 5), 0.03, I8(-9)), w)))


def table_broadcast(b: Builder) -> None:
    """A number for each row meets each number of the row."""
    x = b.stored((2, 1), 0.03, I8(-9))
    b.output(requantised(b, "Mul", requantised(b, "Sigmoid", x), b.dequantise(b.const(np.ones((1, 5), I8)), 0.5, I8(0))))


def table_second_reader(b: Builder) -> None:
    """What is read elsewhere stays; what follows it is a table of it."""
    t = requantised(b, "Sigmoid", b.stored((2, 5), 0.03, I8(-9)))
    b.output(requantised(b, "Mul", t, requantised(b, "Tanh", t)), t)


ROWS: list[tuple[Callable[[Builder], None], list[str], str, str]] = [
    (q_conv, ["Conv"], "integer", ""), (q_float_bias, ["Conv"], "integer", ""),
    (q_second_reader, ["Conv", "QuantizeLinear", "DequantizeLinear"], "integer", "is also read by the caller"),
    (q_variable_weights, ["MatMul"], "integer", ""), (q_transposed, ["MatMul"], "integer", ""),
    (q_batch_of_weights, ["MatMul"], "integer", ""),
    (q_vector_of_scales, [], "integer", "weight scales must be per column"),
    (q_long_sum, [], "integer", "a sum may not fit into 32 bits"),
    (q_float_operand, [], "integer", "is not behind a DequantizeLinear"),
    (q_scales_along_inputs, [], "integer", "per output channel for weights"),
    (q_two_scales, [], "integer", "is read with two different scales"),
    (q_two_zero_points, [], "integer", "is read with two different scales"),
    (q_again, ["QuantizeLinear"], "requantise", ""), (q_other_scale, ["Requantise"], "requantise", ""),
    (q_other_type, ["Requantise"], "requantise", ""),
    (q_per_axis, ["DequantizeLinear > QuantizeLinear"], "requantise", "not 8 bit with one scale on both sides"),
    (q_read_with_another, [], "requantise", "is read with two different scales"),
    (late_move, ["Slice", "MaxPool > Relu > DequantizeLinear"], "dequantise-late", ""),
    (late_pad, ["Pad", "DequantizeLinear"], "dequantise-late", ""),
    (late_pad_unstored, ["DequantizeLinear", "Pad"], "dequantise-late", "the padding 0.07 is no stored value"),
    (late_pad_beyond, ["DequantizeLinear", "Pad"], "dequantise-late", "the padding -100 is no stored value"),
    (late_relu_of_two_scales, [], "dequantise-late", "the tensor has another scale elsewhere"),
    (early_move, [], "quantise-early", ""), (early_concat, ["QuantizeLinear > Requantise > Concat"], "quantise-early", ""),
    (table_swish, ["Conv > Table > DequantizeLinear"], "table", ""), (table_gelu, ["Table > DequantizeLinear"], "table", ""),
    (table_second_reader, ["Sigmoid > DequantizeLinear > Table > DequantizeLinear"], "table", ""),
    (early_per_axis, ["QuantizeLinear"], "quantise-early", "the scale is not one constant for the tensor"),
]


@pytest.mark.parametrize(("build", "want", "rule", "why_not"), ROWS, ids=lambda v: getattr(v, "__name__", ""))
def test_rule(build: Callable[[Builder], None], want: list[str], rule: str, why_not: str, tmp_path: Path) -> None:
    b = Builder()
    build(b)
    compiled = compile(b, tmp_path)
    if want:
        assert sorted(chains(compiled)) == sorted(want)
    found = reasons(compiled, "fold", rule, taken=not why_not)
    assert any(why_not in reason for reason in found), compiled.plan.decisions
    assert_same_meaning(compiled, steps=1)


@pytest.mark.parametrize("build", [table_two_operands, table_channels, table_broadcast], ids=lambda f: f.__name__)
def test_no_table_of_more_than_one_number(build: Callable[[Builder], None], tmp_path: Path) -> None:
    b = Builder()
    build(b)
    compiled = compile(b, tmp_path)
    assert not reasons(compiled, "fold", "table", taken=True) and not any("Table" in c for c in chains(compiled))
    assert_c_is_reference(compiled)


@pytest.mark.parametrize("build", [table_swish, table_gelu], ids=lambda f: f.__name__)
def test_a_table_is_the_model_as_written(build: Callable[[Builder], None], tmp_path: Path) -> None:
    """All 256 numbers: not a step from Q/DQ in float; the integer operators alone are within one of it."""
    b = Builder()
    build(b)
    plain, folded = compile(b, tmp_path, no_fuse_rules=("table",)), compile(b, tmp_path)
    graph, (x, *_) = folded.plan.graph, folded.plan.inputs
    shape = graph.type(x).shape
    for i in range(0, 256, 16):
        rows = {x: np.resize(np.roll(np.arange(-128, 128), -i).astype(I8), shape)}
        want, got, near = (run_graph(g, rows)[graph.outputs[0]] for g in (folded.plan.source, graph, plain.plan.graph))
        if build is table_gelu:         # behind a convolution its own rounding is a step, too
            np.testing.assert_array_equal(got, want)
        assert np.abs(near - want).max() <= 2 * 0.03 + 1e-6


def test_unfused_is_the_model_as_it_stands(tmp_path: Path) -> None:
    """--no-fuse leaves Q and DQ where they are; the results stay within a step."""
    b = Builder()
    q_conv(b)
    plain, fused = compile(b, tmp_path, fuse=False), compile(b, tmp_path)
    assert chains(plain) == ["DequantizeLinear", "Conv", "QuantizeLinear"] and chains(fused) == ["Conv"]
    assert_same_meaning(plain)
    rows = samples(plain.plan)
    for x, y in zip(outputs(plain.plan.graph, rows), outputs(fused.plan.graph, rows), strict=True):
        assert max(np.abs(x[t].astype(int) - y[t].astype(int)).max() for t in x) <= 1


def test_disjoint_clamps_meet_at_the_last(tmp_path: Path) -> None:
    """clamp(clamp(v, -2, -1), 1, 2) is 1 whatever v: narrowing both ends at once would give -1."""
    b = Builder()
    t = stored_conv(b, b.stored(SHAPE, 0.03, I8(-9)), 0.05, I8(-7))
    for low, high in ((-2.0, -1.0), (1.0, 2.0)):
        t = b.requantise(b.op("Clip", t, scalar(b, low), scalar(b, high)), 0.05, I8(-7))
    b.output(t)
    compiled = compile(b, tmp_path)
    assert_same_meaning(compiled)
    got = run_graph(compiled.plan.graph, samples(compiled.plan)[0])[compiled.plan.graph.outputs[0]]
    assert (got == F32(0.05) * 20).all()


def test_accumulator_at_its_limit(tmp_path: Path) -> None:
    """Weights of -128, inputs 255 above the zero point: one product, or one unit of bias, too many is refused."""
    def dense(depth: int, bias: int) -> Builder:
        b = Builder()
        x = b.stored((1, depth), 0.01, I8(-128))
        w = b.dequantise(b.const(np.full((depth, 1), -128, I8)), 0.01, I8(0))
        c = b.dequantise(b.const(np.asarray([bias], np.int32)), F32(0.01) * F32(0.01), np.int32(0))
        b.output(b.quantise(b.op("Gemm", x, w, c), 2000.0, I8(120)))
        return b
    limit = (2 ** 31 - 1) // (128 * 255)
    room = 2 ** 31 - 1 - limit * 128 * 255
    compiled = compile(dense(limit, -room), tmp_path)
    high = {t: np.full((1, limit), 127, I8) for t in compiled.plan.graph.inputs}
    assert_same_meaning(compiled, steps=1)
    want = run_graph(compiled.plan.graph, high)[compiled.plan.graph.outputs[0]]
    assert want.item() == round(-(limit * 128 * 255 + room) * 1e-4 / 2000) + 120 < 20
    for depth, bias in ((limit, -room - 1), (limit + 1, 0)):
        with pytest.raises(Overflow, match="an int32 accumulator holds 2147483647"):
            compile(dense(depth, bias), tmp_path)


def test_conv_helper_is_float(tmp_path: Path) -> None:
    """The float convolution of these tests has no integer form: nothing above passes because both sides are float."""
    b = Builder()
    b.output(conv(b, b.input(SHAPE)))
    assert chains(compile(b, tmp_path)) == ["Conv"] and not reasons(compile(b, tmp_path), "fold", "integer", taken=True)


@pytest.mark.parametrize(("scale", "values", "steps"), [
    (0.002, [40, -7, 13], ""), (0.003, [40, -7, 13], "0.50"), (0.0025, [40, -7, 13], "0.25"), (None, [0.08, -0.014, 0.026], ""),
    (None, [0.0801, -0.0145, 0.0263], "0.25")])
def test_a_bias_at_another_scale_is_a_decision(scale: float | None, values: list[float], steps: str, tmp_path: Path) -> None:
    """The sum's scale is 0.1 * 0.02 = 0.002; what rounding to it does is said, and how much."""
    b = Builder()
    x, w = b.stored((1, 2, 5, 4), 0.1, np.int8(-7)), b.weights((3, 2, 2, 3), F32(0.02))
    bias = b.const(values, np.float32) if scale is None else b.dequantise(
        b.const(values, np.int32), F32(scale), np.int32(0))
    b.output(b.quantise(b.op("Conv", x, w, bias), 0.3, np.int8(5)))
    compiled = compile(b, tmp_path)
    assert chains(compiled) == ["Conv"]
    notes = [r for r in reasons(compiled, "fold", "integer", taken=True) if "bias" in r]
    assert notes == ([f"the bias has another scale than the sum; it is rounded by up to {steps} of the sum's steps"] if steps
                     else [])
    stored = next(compiled.plan.graph.data(n.inputs[2]) for n in compiled.plan.graph.nodes if n.op == "Conv")
    assert stored is not None
    np.testing.assert_array_equal(stored, np.rint(np.asarray(values) * (scale or 1) / 0.002))
