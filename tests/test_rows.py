"""Row by row is the same as layer by layer: shapes whose axes could be mistaken for each other, and groups in pieces."""
from __future__ import annotations

from pathlib import Path

import cases
import cases_ops
import numpy as np
import pytest
from cases import Style
from graphs import Builder, assert_c_is_reference, kernels, samples
from graphs import compile as compiled
from simulation import simulate

LAYERS = ("conv-same-upper", "conv-valid", "net-square", "net-one-row", "net-planar", "net-residual-relu", "net-nhwc")
OPERATORS = ("diamond", "mul-stored")


@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("name", [*LAYERS, *OPERATORS])
def test_rows_give_what_layers_give(name: str, fuse: bool, tmp_path: Path) -> None:
    models = [cases_ops.operator(name)] if name in OPERATORS else [
        cases.layer(name, style) for style in (cases.FLOAT, cases.STYLES["s8"])]
    for model in models:
        assert_c_is_reference(compiled(model, tmp_path, optimize="ram", fuse=fuse))


def test_a_group_goes_on_where_a_whole_step_interrupted_it(tmp_path: Path) -> None:
    c = compiled(cases_ops.operator("mul-stored"), tmp_path, optimize="ram", fuse=False)
    whole = [i for i, call in enumerate(c.plan.calls)
             if (call.first, call.end) == (0, c.plan.steps[call.step].spec.rows)]
    split = {call.step for call in c.plan.calls if call.first > 0}
    assert whole and split, "the case has no such schedule any more: find another one"


def conv(style: Style, b: Builder, x: str, shape: tuple[int, ...], **attrs: object) -> str:
    """A convolution with a result of its own."""
    return style.again(b, b.op("Conv", x, style.w(b, shape), **attrs), 0.05)


def ended(style: Style, b: Builder, x: str) -> Builder:
    """A window and a pool behind: nothing of x is seen as a whole."""
    b.output(style.again(b, b.op("GlobalAveragePool", conv(style, b, x, (3, 4, 3, 2))), 0.05))
    return b


def padded(style: Style) -> Builder:
    """A pad that no convolution takes over."""
    b = Builder()
    x = conv(style, b, style.x(b, 1, 2, 9, 5), (4, 2, 3, 3), pads=[1, 1, 1, 1])
    return ended(style, b, b.op("MaxPool", style.again(b, b.op(
        "Pad", x, b.ints(0, 0, 2, 0, 0, 0, 1, 3), b.const(np.float32(0.5))), 0.05), kernel_shape=[2, 1]))


def side_by_side(style: Style) -> Builder:
    """Channels of two branches."""
    b = Builder()
    x = conv(style, b, style.x(b, 1, 2, 9, 5), (3, 2, 3, 3), pads=[1, 1, 1, 1])
    two = [conv(style, b, x, (2, 3, 1, 2), pads=[0, 1, 0, 0]), conv(style, b, x, (2, 3, 3, 2), pads=[2, 0, 0, 1])]
    return ended(style, b, style.again(b, b.op("Concat", *two, axis=1), 0.05))


def one_below_the_other(style: Style) -> Builder:
    """Rows of two branches, and of these every other one."""
    b = Builder()
    x = style.x(b, 1, 2, 9, 5)
    two = [conv(style, b, x, (4, 2, 2, 2)), conv(style, b, x, (4, 2, 3, 2))]
    both = style.again(b, b.op("Concat", *two, axis=2), 0.05)
    return ended(style, b, style.again(b, b.op("Slice", both, b.ints(1), b.ints(99), b.ints(2), b.ints(2)), 0.05))


def enlarged(mode: str, style: Style) -> Builder:
    """More rows and columns than before."""
    b = Builder()
    x = conv(style, b, style.x(b, 1, 2, 9, 5), (4, 2, 3, 3), pads=[1, 1, 1, 1])
    return ended(style, b, style.again(b, b.op("Resize", x, "", "", b.ints(1, 4, 14, 7), mode=mode), 0.05))


def flattened(style: Style) -> Builder:
    """A dense layer over rows, channels last, as converters from TensorFlow write it."""
    b = Builder()
    x = conv(style, b, b.op("Transpose", style.x(b, 1, 9, 11, 2), perm=[0, 3, 1, 2]), (5, 2, 3, 3))
    y = style.again(b, b.op("Reshape", b.op("Transpose", x, perm=[0, 2, 3, 1]), b.ints(1, -1)), 0.05)
    b.output(style.again(b, b.op("MatMul", y, style.w(b, (7 * 9 * 5, 6), 1)), 0.3))
    return b


WITHIN = {"pad": (padded, "copy_rows"), "concat": (side_by_side, "copy_rows"), "below": (one_below_the_other, "copy_rows"),
          "nearest": (lambda s: enlarged("nearest", s), "copy_rows"), "linear": (lambda s: enlarged("linear", s), "resample"),
          "dense": (flattened, "dense_rows")}
BLENDED = {("linear", "s8"): "blend_words"}


@pytest.mark.parametrize("style", ["float", "s8"])
@pytest.mark.parametrize("name", list(WITHIN))
def test_kernels_take_turns_row_by_row(name: str, style: str, tmp_path: Path) -> None:
    build, kernel = WITHIN[name]
    kernel = BLENDED.get((name, style), kernel)
    c = compiled(build(cases.FLOAT if style == "float" else cases.STYLES[style]), tmp_path, optimize="ram",
                 no_fuse_rules=("in-place",) if name == "concat" else ())
    (at, *_) = [i for i, k in enumerate(kernels(c)) if k == kernel]
    step = c.plan.steps[at]
    assert any(call.step == at and call.first > 0 for call in c.plan.calls), "its rows are not computed in turn"
    assert any(c.plan.root(t) in c.plan.rings for t in step.node.inputs), "its operand is not kept as a ring"
    simulate(c.plan, samples(c.plan, 1)[0])
    assert_c_is_reference(c)
