"""Every operator, kernel and case: generated C equals its numpy meaning; integers to the bit, floats within rounding."""
from __future__ import annotations

from functools import cache
from pathlib import Path

import cases
import cases_ops
import numpy as np
import pytest
from cases import FLOAT, STYLES, Style
from graphs import Builder, assert_c_is_reference, compile, kernels, outputs, run_c, samples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fuse2c.check import sanitized
from fuse2c.check.reference import run_graph
from fuse2c.errors import UnsupportedOp
from fuse2c.ops import all_ops

I8, U8 = np.int8, np.uint8


@pytest.mark.parametrize("name", cases.all_layers())
def test_float_layer(name: str, tmp_path: Path) -> None:
    assert_c_is_reference(compile(cases.layer(name, FLOAT), tmp_path))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", cases.all_layers())
def test_stored_layer(name: str, style: str, tmp_path: Path) -> None:
    """Random inputs, all -128 (or 0), all 127 (or 255); the rounding alternates from case to case."""
    requant = "float" if (list(STYLES).index(style) + len(name)) % 2 else "fixed"
    assert_c_is_reference(compile(cases.layer(name, STYLES[style]), tmp_path, requant=requant))


@pytest.mark.parametrize("requant", ["fixed", "float"])
@pytest.mark.parametrize("name", cases_ops.CASES)
def test_operator(name: str, requant: str, tmp_path: Path) -> None:
    compiled = compile(cases_ops.operator(name), tmp_path, requant=requant)
    if requant == "float" and not any(s.node.quantised for s in compiled.plan.steps):
        assert compiled.plan.steps      # nothing is rounded: the run with "fixed" has seen this plan
        return
    assert_c_is_reference(compiled)


@cache
def reached(folder: Path) -> tuple[dict[str, set[str]], set[str]]:
    """Operator -> kernels that some case of these files selects for it."""
    found, parts = dict[str, set[str]](), set[str]()
    builders = [cases.layer(name, style) for name in cases.all_layers() for style in (FLOAT, STYLES["s8"])]
    for b in (*builders, *map(cases_ops.operator, cases_ops.CASES)):
        for step in compile(b, folder).plan.steps:
            found.setdefault(step.node.op, set()).add(step.kernel.name)
            parts.update(n.op for n in step.node.parts)
    return found, parts


# Kernels of other files' tests: windows in three dimensions; offered only, for pruned weights and zeros (test_blocks.py,
# test_sparsity.py).
ELSEWHERE = {"conv_volume", "pool_volume", "blocks", "conv_blocks", "skip"}
# Kernels for some cores only: test_dsp.py, test_mve.py, test_fp.py, test_vector.py, test_blocks.py.
CORES = "_dsp", "_mve", "_fp", "_fields", "_rows", "_vec", "_quads", "_winograd", "_reals"


def test_every_kernel_has_a_case(tmp_path: Path) -> None:
    """Of every operator that occurs here, all kernels are chosen somewhere."""
    found, parts = reached(tmp_path)
    assert len(parts) > 30 and {"Conv", "MatMul", "AveragePool", "Softmax", "Reshape", "Take"} <= parts
    missing = {name: left for name, chosen in found.items()
               if (left := {k.name for k in all_ops()[name].kernels if not k.name.endswith(CORES)} - chosen - ELSEWHERE)}
    assert missing == {}


# --- extremes --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("requant", ["fixed", "float"])
def test_saturation_at_both_ends(requant: str, tmp_path: Path) -> None:
    """Weights and inputs at their extremes: every output is -128 or 127, and on the right side."""
    b = Builder()
    x = b.stored((1, 2, 4, 3), 1.0, I8(0))
    w = b.dequantise(b.const(np.stack([np.full((2, 2, 2), v, I8) for v in (127, -128)])), 1.0, I8(0))
    b.output(b.quantise(b.op("Conv", x, w), 1.0, I8(-1)))
    compiled = compile(b, tmp_path, requant=requant)
    rows = samples(compiled.plan)[-2:]
    assert_c_is_reference(compiled, rows)
    low, high = (next(iter(r.values())) for r in run_c(compiled, rows))
    assert (low[:, 0] == -128).all() and (low[:, 1] == 127).all()
    assert (high[:, 0] == 127).all() and (high[:, 1] == -128).all()


def test_nan_and_infinity_pass_as_in_numpy(tmp_path: Path) -> None:
    """Floats that are no numbers: comparisons must not lose them."""
    b = Builder()
    x = b.input((1, 1, 4, 5))
    b.output(*(b.op(kind, x) for kind in ("Relu", "Abs", "Neg", "Sigmoid", "Tanh", "Exp")))
    b.output(b.op("Clip", x, b.const(-1, np.float32), b.const(2, np.float32)), b.op("LeakyRelu", x))
    b.output(b.op("MaxPool", x, kernel_shape=[2, 2]), b.op("AveragePool", x, kernel_shape=[3, 2]))
    b.output(b.op("ReduceMax", x, axes=[3]), b.op("ReduceMin", x, axes=[2]), b.op("Softmax", x, axis=3))
    b.output(b.quantise(x, 0.1, I8(-7)))
    compiled = compile(b, tmp_path)
    value = np.random.default_rng(0).standard_normal((1, 1, 4, 5)).astype(np.float32)
    value[0, 0, 0, :3] = np.nan, np.inf, -np.inf
    value[0, 0, 2, 4] = np.nan
    row = {x: value}
    (got,) = run_c(compiled, [row])
    want = run_graph(compiled.plan.graph, row)
    for t in compiled.plan.graph.outputs:
        assert np.array_equal(np.isnan(got[t]), np.isnan(want[t])), t
        assert np.array_equal(np.isinf(got[t]), np.isinf(want[t])), t
        assert np.allclose(got[t].astype(np.float64), want[t], rtol=1e-6, equal_nan=True), t


def test_a_window_in_the_padding_alone_is_refused(tmp_path: Path) -> None:
    """A mean of nothing: pads as large as the kernel, or a dilated kernel that steps over the whole input."""
    for attrs in ({"kernel_shape": [2, 2], "pads": [2, 0, 0, 0]}, {"kernel_shape": [2, 1], "dilations": [5, 1],
                                                                  "pads": [1, 0, 1, 0]}):
        for kind in ("AveragePool", "MaxPool"):
            b = Builder(19)
            b.output(b.op(kind, b.input((1, 2, 4, 3)), **attrs))
            with pytest.raises(UnsupportedOp, match="padding"):
                compile(b, tmp_path)


def test_output_type_of_a_quantisation_without_zero_point(tmp_path: Path) -> None:
    """Opset 21: output_dtype says int8 where no zero point does."""
    b = Builder(21)
    b.output(b.op("QuantizeLinear", b.input((2, 5)), b.const(0.03, np.float32), output_dtype=3))
    compiled = compile(b, tmp_path)
    assert compiled.plan.graph.type(compiled.plan.graph.outputs[0]).dtype == "int8"
    assert_c_is_reference(compiled)


# --- sanitizers: many cases in one program ---------------------------------------------------------------------------

SANITIZED = ("conv-2d-dilated", "conv-1d-batch", "conv-pointwise-strided", "conv-grouped", "conv-depthwise-multiplier",
             "conv-depthwise-1d", "conv-wholly-padding", "conv-depthwise-wholly-padding", "conv-one-channel", "pool-max",
             "pool-max-dilated", "pool-average", "pool-average-include", "pool-average-global", "dense-gemm",
             "dense-gemm-turned", "dense-by-broadcast-batch", "net-residual-relu", "net-nhwc", "net-flattened")
OPERATORS = ("concat_scales", "slice-backwards", "pad-conv", "resize-half-pixel", "resize-to-one", "transpose-conv",
             "reductions", "chain", "diamond", "softmax_rows", "softmax_stored", "quantise_axes", "unary-stored", "sub-stored",
             "mul-stored-coarse", "qlinear_conv", "split_parts", "views")


def sanitize(b: Builder, folder: Path) -> set[str]:
    """Run under AddressSanitizer and UndefinedBehaviorSanitizer; the outputs are those of the plain build."""
    compiled = compile(b, folder)
    rows = samples(compiled.plan, 1)
    for x, y in zip(sanitized(compiled.plan, rows), run_c(compiled, rows), strict=True):
        for t in x:
            assert np.array_equal(x[t], y[t], equal_nan=x[t].dtype.kind == "f")
    return set(kernels(compiled))


def test_stored_layers_under_sanitizers(tmp_path: Path) -> None:
    b = Builder()
    for i, name in enumerate(SANITIZED):
        cases.all_layers()[name](list(STYLES.values())[i % 3], b)
    assert {"conv", "depthwise", "pointwise", "matmul", "max_pool", "average_pool"} <= sanitize(b, tmp_path)


def test_float_layers_under_sanitizers(tmp_path: Path) -> None:
    b = Builder()
    for name in SANITIZED:
        cases.all_layers()[name](FLOAT, b)
    assert {"conv", "depthwise", "pointwise", "matmul", "max_pool", "average_pool"} <= sanitize(b, tmp_path)


def test_operators_under_sanitizers(tmp_path: Path) -> None:
    b = Builder()
    for name in OPERATORS:
        cases_ops.CASES[name][0](b)
    assert {"copy", "elementwise", "loop_nest", "softmax_s8"} <= sanitize(b, tmp_path)


# --- drawn shapes, several layers a graph -----------------------------------------------------------------------------
# No shrinking: each attempt compiles C, and what was drawn is small already.
DRAW = settings(max_examples=15, phases=[Phase.explicit, Phase.generate])


def style(draw: st.DrawFn) -> Style:
    """Any zero points of any 8-bit type, weights symmetric or not."""
    kind = draw(st.sampled_from([I8, U8]))
    info = np.iinfo(kind)
    zero = st.integers(int(info.min), int(info.max))
    w_kind = draw(st.sampled_from([I8, U8])) if kind is U8 else I8
    w_zero = 0 if w_kind is I8 and draw(st.booleans()) else draw(st.integers(int(np.iinfo(w_kind).min), 127))
    return Style(kind(draw(zero)), w_kind(w_zero), kind(draw(zero)), draw(st.booleans()),
                 draw(st.sampled_from([0.0021, 0.037, 1.3])))


@st.composite
def window(draw: st.DrawFn, size: tuple[int, ...], dilate: bool = True) -> dict[str, list[int]]:
    """kernel_shape, strides, dilations and four different pads, such that at least one window fits."""
    kernel, strides, dilations, begins, ends = [], [], [], [], []
    for n in size:
        d = draw(st.integers(1, 3)) if dilate else 1
        k = draw(st.integers(1, 4))
        begin, end = draw(st.integers(0, max(k - 1, 0))), draw(st.integers(0, max(k - 1, 0)))
        while (k - 1) * d + 1 > n + begin + end:
            k, d = (k, d - 1) if d > 1 else (k - 1, d)
        kernel.append(k)
        dilations.append(d)
        strides.append(draw(st.integers(1, 3)))
        begins.append(min(begin, k - 1))
        ends.append(end if begin <= k - 1 else end + begin - (k - 1))
    return {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": begins + [min(e, k - 1) for e, k in
            zip(ends, kernel, strict=True)]}


def fits(size: tuple[int, ...], attrs: dict[str, list[int]]) -> bool:
    """Whether at least one window lies inside."""
    rank = len(size)
    return all((attrs["kernel_shape"][i] - 1) * attrs["dilations"][i] < n + attrs["pads"][i] + attrs["pads"][rank + i]
               for i, n in enumerate(size))


@st.composite
def conv_layer(draw: st.DrawFn, kind: str) -> cases.Layer:
    """A convolution of a kind with drawn shapes."""
    rank = draw(st.sampled_from([1, 2, 2]))
    size = tuple(draw(st.integers(1, 8)) for _ in range(rank))
    batch = draw(st.sampled_from([1, 1, 2]))
    channels = draw(st.integers(2 if kind == "depthwise" else 1, 6))
    if kind == "pointwise":
        strides = [draw(st.integers(1, 3)) for _ in size]
        return cases.Layer((batch, channels, *size), (draw(st.integers(1, 9)), channels, *[1] * rank),
                           {"strides": strides}, draw(st.booleans()))
    attrs = draw(window(size).filter(lambda a: fits(size, a)))
    group = channels if kind == "depthwise" else draw(st.sampled_from([g for g in (1, 1, 2, 3) if channels % g == 0]))
    outs = group * draw(st.integers(1, 3))
    return cases.Layer((batch, channels, *size), (outs, channels // group, *attrs["kernel_shape"]),
                       {**attrs, "group": group}, draw(st.booleans()))


@pytest.mark.parametrize("kind", ["general", "depthwise", "pointwise"])
def test_drawn_convolutions(kind: str, tmp_path: Path) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(3):
            data.draw(conv_layer(kind)).conv(data.draw(st.composite(style)()), b)
        assert_c_is_reference(compile(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"]))))
    run()


def test_drawn_dense_layers(tmp_path: Path) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(3):
            rows, depth, columns = (data.draw(st.integers(1, top)) for top in (5, 40, 11))
            turned = data.draw(st.booleans())
            layer = cases.Dense((rows, depth), (columns, depth) if turned else (depth, columns),
                                {"transB": int(turned)}, (columns,) if data.draw(st.booleans()) else None)
            layer.build(data.draw(st.composite(style)()), b)
        assert_c_is_reference(compile(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"]))))
    run()


def test_drawn_pools(tmp_path: Path) -> None:
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(19, seed=data.draw(st.integers(0, 99)))
        for _ in range(3):
            size = tuple(data.draw(st.integers(1, 8)) for _ in range(data.draw(st.sampled_from([1, 2, 2]))))
            attrs = data.draw(window(size, dilate=False).filter(lambda a, n=size: fits(n, a)))
            kind = data.draw(st.sampled_from(["MaxPool", "AveragePool"]))
            flags = {"count_include_pad": data.draw(st.integers(0, 1))} if kind == "AveragePool" else {}
            shape = (data.draw(st.sampled_from([1, 2])), data.draw(st.integers(1, 5)), *size)
            cases.Pool(kind, shape, {**attrs, **flags}).build(data.draw(st.composite(style)()), b)
        assert_c_is_reference(compile(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"]))))
    run()


def test_the_comparison_bites(tmp_path: Path) -> None:
    """A single changed weight is seen, in float and in int8."""
    from dataclasses import replace
    for s in (FLOAT, STYLES["s8"]):
        compiled = compile(cases.layer("conv-2d", s), tmp_path)
        (step,) = compiled.plan.steps
        w = step.spec.tables["w"].copy()
        w[3] += 1
        wrong = replace(step, spec=replace(step.spec, tables={**step.spec.tables, "w": w}))
        with pytest.raises(AssertionError, match="conv of"):
            assert_c_is_reference(replace(compiled, plan=replace(compiled.plan, steps=(wrong,))))
    assert outputs(compiled.plan.source, samples(compiled.plan))
