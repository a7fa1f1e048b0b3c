"""--step-budget: the same inference in steps, each within the budget; contexts that know nothing of each other."""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from graphs import Builder, compile, samples
from test_measure import needs_qemu

import fuse2c
from fuse2c import bench
from fuse2c.check import HostModel
from fuse2c.check.host import Stepping
from fuse2c.cli import cli
from fuse2c.errors import PlanError
from fuse2c.passes._units import units

I8 = np.int8
DIGITS = Path(__file__).parents[1] / "examples" / "digits"
TICK = 40               # instructions: the granularity of the emulated timer
HARNESS = 24            # instructions around the call that is measured, up to the readings of the timer


def conv(b: Builder, x: str, channels: int, out: int, **attrs: object) -> str:
    size = attrs.pop("size", (3, 2))
    group = attrs.get("group", 1)
    assert isinstance(size, tuple) and isinstance(group, int)
    return str(b.op("Relu", b.op("Conv", x, b.floats(out, channels // group, *size), b.floats(out), **attrs)))


def residual() -> Builder:
    """Windows that take turns, a residual, a head that does not go row by row."""
    b = Builder()
    x = b.input((1, 3, 13, 7))
    a = conv(b, x, 3, 8, pads=[1, 0, 1, 1])
    c = conv(b, a, 8, 8, group=8, pads=[1, 0, 1, 1])
    pooled = b.op("GlobalAveragePool", b.op("Add", a, c))
    b.output(b.op("Softmax", b.op("Gemm", b.op("Flatten", pooled), b.floats(8, 5), b.floats(5))))
    return b


def quantised_layers() -> Builder:
    """A dense layer and a convolution of which one row is long; the dense one's weights have scales of their own."""
    b = Builder()
    x = b.stored((1, 6, 4, 3), 0.1, np.int8(-7))
    y = b.quantise(b.op("Relu", b.op("Conv", x, b.weights((22, 6, 1, 1), 0.02))), 0.3, np.int8(-128))
    flat = b.op("Flatten", b.dequantise(y, 0.3, np.int8(-128)))
    z = b.op("Gemm", flat, b.weights((30, 22 * 12), 0.01), transB=1)
    b.output(b.quantise(b.op("Clip", z, b.const(np.float32(-3)), b.const(np.float32(4))), 0.05, np.int8(3)))
    return b


def images() -> Builder:
    """A batch, image by image."""
    b = Builder()
    b.output(conv(b, conv(b, b.input((3, 2, 7, 5)), 2, 5), 5, 4, size=(1, 1)))
    return b


MODELS = {f.__name__: f for f in (residual, quantised_layers, images)}


def run_to_end(s: Stepping) -> int:
    """How many steps it took."""
    count = 1
    while (status := s.step()) == 1:
        count += 1
    assert status == 0
    return count


@pytest.mark.parametrize("options", [{}, {"fuse": False}, {"optimize": "ram"}], ids=["fused", "unfused", "ram"])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_outputs_in_steps(name: str, options: dict[str, object], tmp_path: Path) -> None:
    whole = compile(MODELS[name](), tmp_path, **options)
    rows = samples(whole.plan, 2)
    with HostModel(whole.plan) as host:
        want = [host.run(row) for row in rows]
    seen = set()
    for budget in (10 ** 9, 9000, 3500):
        model = compile(MODELS[name](), tmp_path, step_budget=budget, **options)
        assert model.plan.slices is not None and max(model.plan.slices.bounds) <= budget
        with HostModel(model.plan) as host:
            for row, expected in zip(rows, want, strict=True):
                inference = host.begin(row)
                seen.add(run_to_end(inference))
                assert inference.step() == -1
                got = inference.outputs()
                assert all(np.array_equal(got[t], expected[t]) for t in expected)
                assert all(np.array_equal(v, expected[t]) for t, v in host.run(row).items())
        assert len(model.plan.slices.first) in seen
    assert len(seen) == 3 and 1 in seen


def test_interleaved_contexts_and_a_fresh_start(tmp_path: Path) -> None:
    """Two models, two contexts of one of them, in turn; one is given up half-way and begins again in the same arena."""
    first = compile(residual(), tmp_path, step_budget=3500)
    second = compile(quantised_layers(), tmp_path, step_budget=6000, name="second")
    with HostModel(first.plan) as a, HostModel(second.plan) as b:
        rows, other = samples(first.plan, 3), samples(second.plan, 1)[-1]
        want = [a.run(row) for row in rows]
        running = [a.begin(rows[0]), a.begin(rows[1]), b.begin(other)]
        lost = a.begin(rows[2])
        for _ in range(3):
            assert [s.step() for s in (*running, lost)] == [1, 1, 1, 1]
        lost.abort()
        assert lost.step() == -1
        status = [1] * 3
        while any(status):
            status = [s.step() if more else 0 for s, more in zip(running, status, strict=True)]
        for s, expected in zip(running, (*want[:2], b.run(other)), strict=True):
            got = s.outputs()
            assert all(np.array_equal(got[t], expected[t]) for t in expected)
        lost.begin(rows[1])
        run_to_end(lost)
        assert all(np.array_equal(v, want[1][t]) for t, v in lost.outputs().items())


def test_states_change_with_the_last_step(tmp_path: Path) -> None:
    b = Builder()
    x, h = b.input((4, 16)), b.input((4, 16))
    new = b.op("Tanh", b.op("MatMul", b.op("Add", x, h), b.floats(16, 16, scale=0.2)))
    b.output(b.op("Mul", new, x), new)
    model = compile(b, tmp_path, step_budget=4500, fuse=False, stateful=((h, new),))
    frames = samples(model.plan, 3)
    with HostModel(model.plan) as host:
        want = [host.run(f) for f in frames]
        host.reset()
        for frame, expected in zip(frames, want, strict=True):
            given_up = host.begin(frame)
            given_up.step()
            given_up.abort()
            inference = host.begin(frame)
            assert run_to_end(inference) > 1
            assert all(np.array_equal(v, expected[t]) for t, v in inference.outputs().items())


def test_a_layer_with_a_long_row_is_split(tmp_path: Path) -> None:
    model = compile(quantised_layers(), tmp_path, step_budget=3500)
    log = {d.subject: d.reason for d in model.plan.decisions if d.stage == "split"}
    assert len(log) == 1 and "of 30 channels" in next(iter(log.values()))
    assert [s.node.parts[0].op for s in model.plan.steps].count("MatMul") == 2
    assert model.plan.macs == compile(quantised_layers(), tmp_path).plan.macs


def chain() -> Builder:
    """Dense layers of floats, which are one kernel unless they are long."""
    b = Builder()
    y = b.input((1, 396))
    for before, after in ((396, 10), (10, 24), (24, 70)):
        y = b.op("Relu", b.op("Gemm", y, b.floats(before, after), b.floats(after)))
    b.output(y)
    return b


def depthwise() -> Builder:
    """A depthwise convolution that gives two channels for one."""
    b = Builder()
    y = b.op("Conv", b.stored((1, 6, 3, 11), 0.1, np.int8(-7)), b.weights((12, 1, 3, 2), 0.02), group=6, pads=[1, 0, 1, 1])
    b.output(b.quantise(b.op("Relu", y), 0.05, np.int8(-9)))
    return b


def wide() -> Builder:
    """Two rows of many columns and few channels: steps, gaps and groups, windows that reach into the padding on one side."""
    b = Builder()
    y = b.op("Conv", b.stored((1, 3, 2, 163), 0.05, np.int8(-9)), b.weights((4, 3, 2, 9), 0.002), pads=[1, 5, 0, 1])
    y = b.requantise(b.op("Relu", y), 0.05, np.int8(-128))
    y = b.op("Conv", y, b.weights((4, 2, 1, 5), 0.01), pads=[0, 4, 0, 4], dilations=[1, 2], strides=[1, 3], group=2)
    b.output(b.quantise(y, 0.1, np.int8(3)))
    return b


def single() -> Builder:
    """One column of many channels."""
    b = Builder()
    b.output(b.quantise(b.op("Conv", b.stored((1, 90, 3, 1), 0.05, np.int8(-9)), b.weights((44, 90, 1, 1), 0.002)), 0.1, I8(3)))
    return b


@pytest.mark.parametrize(("make", "budget", "split"), [
    (chain, 2500, {"10 channels", "70 channels"}), (depthwise, 2500, {"12 channels"}),
    (wide, 6000, {"161 columns", "54 columns"}),
    (single, 4000, {"44 channels"})])
def test_long_rows_are_split(make: Callable[[], Builder], budget: int, split: set[str], tmp_path: Path) -> None:
    """By columns, or where they are too few by channels; of a chain the long ones."""
    whole, model = compile(make(), tmp_path), compile(make(), tmp_path, step_budget=budget)
    reasons = [d.reason.partition(":")[0] for d in model.plan.decisions if d.stage == "split"]
    assert {" ".join(reason.split()[-2:]) for reason in reasons} == split
    assert model.plan.slices is not None and max(model.plan.slices.bounds) <= budget
    assert model.plan.macs == whole.plan.macs
    row = samples(whole.plan, 1)[0]
    with HostModel(whole.plan) as host:
        want = host.run(row)
    with HostModel(model.plan) as host:
        inference = host.begin(row)
        run_to_end(inference)
        for t, got in inference.outputs().items():      # other kernels add floats in another order
            assert np.allclose(got, want[t], rtol=1e-5) if got.dtype.kind == "f" else np.array_equal(got, want[t])


@needs_qemu
@pytest.mark.parametrize(("make", "share"), [(wide, 10), (single, 4)])     # elements of a column are computed three at once
def test_the_least_budget_of_long_rows(make: Callable[[], Builder], share: int, tmp_path: Path) -> None:
    """It is far less than all takes, and what the refusal names is proven to do."""
    pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
    pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")
    whole = compile(make(), tmp_path, target="cortex-m4").wcet().instructions
    with pytest.raises(PlanError, match="a budget of at least") as refused:
        compile(make(), tmp_path, target="cortex-m4", step_budget=100).proven()
    least = int(re.findall(r"at least (\d+)", refused.value.hint)[0])
    found = compile(make(), tmp_path, target="cortex-m4", step_budget=least).proven().plan.slices
    assert found is not None and max(found.bounds) <= least < whole / share
    with pytest.raises(PlanError, match=f"at least {least}"):
        compile(make(), tmp_path, target="cortex-m4", step_budget=least - 1).proven()


@pytest.mark.parametrize(("options", "words"), [
    ({"step_budget": 300}, "takes .* instructions, more than a step of 300"), ({"step_budget": 20, "fuse": False}, "more than"),
    ({"step_budget": 5000, "input_rows": True}, "pushed row by row")])
def test_what_cannot_be_cut_is_refused(options: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=words) as caught:
        compile(residual(), tmp_path, **options)
    assert caught.value.hint
    if "input_rows" not in options:
        least = int(next(word for word in caught.value.hint.split() if word.rstrip(";").isdecimal()).rstrip(";"))
        assert least > options["step_budget"]       # type: ignore[operator]


@needs_qemu
@pytest.mark.parametrize(("target", "budget", "opt"), [("cortex-m4", 9000, "-O3"), ("cortex-m7", 60000, "-Os"),
                                                       ("cortex-m4", 15000, "-O2")])
def test_bounds_of_steps_are_proven(target: str, budget: int, opt: str) -> None:
    pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
    pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")
    model = fuse2c.plan(DIGITS / "digits_int8.onnx", target=target, step_budget=budget).proven(opt=opt)
    slices = model.plan.slices
    assert slices is not None and opt in slices.proof and max(slices.bounds) <= budget
    result = model.wcet(opt=opt)
    assert tuple(s.instructions for s in result.steps) == slices.bounds
    assert all(s.keys() == {"instructions", "cycles", "stack", "single_path"} for s in result.json()["steps"])
    measured = bench.measured(model.plan, opt=opt).steps
    assert len(measured) == len(slices.bounds)
    for step, seen, bound in zip(result.steps, measured, slices.bounds, strict=True):
        assert seen - TICK - HARNESS <= bound
        assert not step.single_path or bound <= seen + TICK
    assert sum(slices.bounds) <= 1.02 * result.instructions
    assert len(units(model.plan)) >= len(slices.first) > 1


def test_build_without_a_board_says_that_it_estimates(tmp_path: Path) -> None:
    command = ["build", str(DIGITS / "digits_fp32.onnx"), "--step-budget", "20000", "-o", str(tmp_path / "o")]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    header = (tmp_path / "o" / "digits_fp32.h").read_text()
    assert "nothing is proven" in header and "#define DIGITS_FP32_STEPS " in header
    assert "int digits_fp32_step(digits_fp32_context *context);" in header
