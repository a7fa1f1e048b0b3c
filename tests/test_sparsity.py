"""Kernels that pass over zeros: equal to numpy to the bit, chosen by measured zeros, never where a limit binds."""
from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
from cases import Style
from click.testing import CliRunner
from graphs import Builder, assert_c_is_reference, compile, kernels, run_c, samples
from hypothesis import given
from hypothesis import strategies as st
from test_blocks import Window, layer
from test_dsp import DRAW, M4, stored

from fuse2c import bench as benches
from fuse2c import cli, price, toolchain
from fuse2c.bench import bench
from fuse2c.check import sanitized, zeros
from fuse2c.errors import ModelError
from fuse2c.measure import qemu
from fuse2c.passes import trade

I8, U8 = np.int8, np.uint8
NAME = "skip_dsp"
RELU = Style(I8(-128), I8(0), I8(-128), channels=True)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken whatever it saves."""
    monkeypatch.setattr(trade, "saves", lambda o: True)


def skipping(b: Builder, folder: Path, share: float = 0.7, **options: Any) -> Any:
    """The plan for a core with DSP, in which that share of every operand is zero."""
    plain = compile(b, folder, target=M4)
    found = {trade.operand(s): share for s in plain.plan.steps}
    return compile(b, folder, target=M4, zeros=found, **options)


def pointwise(b: Builder, style: Style, channels: int, outputs: int, size: tuple[int, int], stride: int = 1) -> None:
    """A pointwise layer behind another, which lays its operand out by pixels."""
    first = cases.Layer((1, 3, *size), (channels, 3, 1, 1), {}, False)
    middle = b.requantise(first.sum(style, b, style.x(b, *first.x)), 0.05, style.x_zero)
    second = cases.Layer((1, channels, *size), (outputs, channels, 1, 1), {"strides": [stride, 1]}, False)
    style.y(b, second.sum(style, b, middle), channels)


def test_drawn_layers(tmp_path: Path, always: None) -> None:
    """Depths and outputs that fill no trip and no block, weights at both ends, any zero point."""
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        rows, depth, outputs = (data.draw(st.integers(1, top)) for top in (4, 40, 11))
        cases.Dense((rows, depth), (outputs, depth), {"transB": 1}, (outputs,)).build(data.draw(stored()), b)
        channels, outs, h, w = (data.draw(st.integers(1, top)) for top in (19, 9, 4, 5))
        pointwise(b, data.draw(stored()), channels, outs, (h, w), data.draw(st.integers(1, 2)))
        compiled = skipping(b, tmp_path, requant=data.draw(st.sampled_from(["fixed", "float"])))
        assert NAME in kernels(compiled)
        rows_of = samples(compiled.plan, 2)
        for row in rows_of[1:]:         # half of the elements at their zero point, or all of one input
            for i, t in enumerate(row):
                zero = compiled.plan.graph.type(t).quant.zero[0]
                row[t] = np.where(np.arange(row[t].size).reshape(row[t].shape) % 2 < i, row[t], row[t].dtype.type(zero))
        assert_c_is_reference(compiled, rows_of)
    run()


def half_of_it(compiled: Any) -> list[dict[str, np.ndarray]]:
    """Inputs: drawn, with every second element zero, all zero."""
    rows = samples(compiled.plan, 3)
    for row, step in zip(rows[-2:], (2, 1), strict=True):
        for t, value in row.items():
            quant = compiled.plan.graph.type(t).quant
            flat = value.reshape(-1).copy()
            flat[::step] = 0 if quant is None else quant.zero[0]
            row[t] = flat.reshape(value.shape)
    return rows


@pytest.mark.parametrize(("name", "target"), [("skip", "cortex-m3"), ("skip", "cortex-m0plus"), ("skip", "host"),
                                              ("skip_fp", M4), ("skip_fp", "cortex-m3"), ("skip_fp", "host")])
def test_drawn_layers_in_plain_c(name: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the DSP extension, and of float32."""
    monkeypatch.setattr(trade, "saves", lambda o: o.new.kernel.name == name)
    monkeypatch.setattr(price, "is_listed", lambda plan, step: True)

    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        def some(low: int, high: int) -> int:
            return data.draw(st.integers(low, high))
        b = Builder(seed=some(0, 99))
        w = b.rng.integers(-128, 128, (some(1, 19), some(1, 40))).astype(I8)
        zero = None if name == "skip_fp" else data.draw(st.sampled_from([-128, -7, 127]))
        layer(b, w, zero, some(1, 3), data.draw(st.sampled_from([None, (2, 5)])), Window(strides=(1, some(1, 2))))
        options: dict[str, Any] = {"target": target, "requant": data.draw(st.sampled_from(["fixed", "float"]))}
        zeros = {trade.operand(s): 0.7 for s in compile(b, tmp_path, **options).plan.steps}
        compiled = compile(b, tmp_path, zeros=zeros, **options)
        assert name in kernels(compiled)
        assert_c_is_reference(compiled, half_of_it(compiled))
    run()


@pytest.mark.skipif(shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None,
                    reason="arm-none-eabi-gcc or qemu-system-arm is not installed")
@pytest.mark.parametrize(("name", "target", "zero"), [("skip", "cortex-m3", -7), ("skip_fp", M4, None)])
def test_plain_c_pays(name: str, target: str, zero: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken by its price, and on a board with 80 % zeros fewer instructions than the kernel that multiplies them."""
    pytest.importorskip("capstone", reason="capstone is not installed")
    b = Builder()
    layer(b, b.rng.integers(-128, 128, (64, 256)).astype(I8), zero)
    plain = compile(b, tmp_path, target=target)
    compiled = compile(b, tmp_path, target=target, zeros={trade.operand(plain.plan.steps[0]): 0.8})
    assert kernels(compiled) == [name]
    (x,) = compiled.plan.inputs
    rows = samples(compiled.plan, 1)
    rows[0][x][b.rng.random(rows[0][x].shape) < 0.8] = zero or 0
    monkeypatch.setattr(benches, "random_samples", lambda *args: rows)
    sparse, dense = (bench(c.plan, c.plan, "sparse") for c in (compiled, plain))
    assert sparse.mismatches == 0 and sparse.instructions is not None and dense.instructions is not None
    assert sparse.instructions < 0.75 * dense.instructions
    assert sparse.instructions < compiled.wcet().instructions


@pytest.mark.parametrize(("target", "zero"), [("cortex-m55", -7), ("cortex-m55", None), ("host", -7), ("host", None)])
def test_vectors_do_not_skip(target: str, zero: int | None, tmp_path: Path) -> None:
    """They multiply zeros faster than anything finds them; the plan says what was weighed."""
    b = Builder()
    layer(b, b.rng.integers(-128, 128, (64, 256)).astype(I8), zero)
    plain = compile(b, tmp_path, target=target)
    compiled = compile(b, tmp_path, target=target, zeros={trade.operand(plain.plan.steps[0]): 0.9})
    assert kernels(compiled) == kernels(plain)
    (offer,) = [d for d in compiled.plan.decisions if d.stage == "trade"]
    assert not offer.taken and "skip" in offer.subject and offer.reason.endswith("too little is saved")


@pytest.mark.parametrize(("least", "joined"), [(-127, True), (-128, False)])
def test_two_forms_of_words(least: int, joined: bool, tmp_path: Path, always: None) -> None:
    b = Builder()
    x = b.stored((3, 24), 0.04, I8(-128))
    weights = b.rng.integers(least, 127, (6, 24), endpoint=True).astype(I8)
    weights[3, 5], weights[2, 5] = least, -1
    w = b.dequantise(b.const(weights), 0.01, I8(0))
    b.output(b.quantise(b.op("Gemm", x, w, transB=1), 2.0, I8(5)))
    compiled = skipping(b, tmp_path)
    (step,) = compiled.plan.steps
    assert step.kernel.name == NAME and (step.spec.flags["odd"][0] == "b1") == joined
    (name,) = compiled.plan.inputs
    assert_c_is_reference(compiled, [{name: np.full((3, 24), v, I8)} for v in (-128, -127, 127)])


def layers() -> Builder:
    """A long and a short dense layer, a pointwise one."""
    b = Builder()
    cases.Dense((1, 256), (64, 256), {"transB": 1}, (64,)).build(RELU, b)
    cases.Dense((1, 20), (3, 20), {"transB": 1}, (3,)).build(RELU, b)
    pointwise(b, RELU, 128, 96, (3, 5))
    return b


@pytest.mark.parametrize(("share", "taken"), [(0.3, 0), (0.45, 1), (0.7, 3), (0.95, 3)])
def test_enough_zeros_pay(share: float, taken: int, tmp_path: Path) -> None:
    """The page of measurements has them even at 45 % in dense layers, at 60 % in pointwise ones; short rows pay last."""
    compiled = skipping(layers(), tmp_path, share)
    assert kernels(compiled).count(NAME) == taken
    found = [d for d in compiled.plan.decisions if d.stage == "trade"]
    assert [d.taken for d in found].count(True) == taken
    assert all(d.reason.startswith(f"{share:.0%} zeros: ") and " instructions for " in d.reason for d in found)
    for step in compiled.plan.steps:
        cost = price.of_step(compiled.plan, step)
        if step.kernel.name == NAME:     # at worst nothing is zero
            assert cost.worst > 1.9 * cost.instructions * price.price_of(compiled.plan, step).cpi_worst * (1 - share)
    assert_c_is_reference(compiled)


@pytest.mark.parametrize(("limit", "taken"), [({"deadline_ms": 100.0}, 3), ({"deadline_ms": 5.5}, 2),
                                              ({"step_budget": 10 ** 6}, 3), ({"step_budget": 30000}, 1),
                                              ({"max_slice_us": 900.0}, 2)])
def test_no_limit_has_to_pay_for_the_worst_case(limit: dict[str, Any], taken: int, tmp_path: Path) -> None:
    compiled = skipping(layers(), tmp_path, 0.7, **limit)
    assert kernels(compiled).count(NAME) == taken
    refused = [d.reason for d in compiled.plan.decisions if d.stage == "trade" and not d.taken and "at worst" in d.reason]
    assert len(refused) == 3 - taken


def test_zeros_are_measured(tmp_path: Path) -> None:
    """By --calib, or by check --profile-sparsity for --sparsity: the same kernels."""
    b = layers()
    model, data, shares = tmp_path / "m.onnx", tmp_path / "typical.npz", tmp_path / "zeros.json"
    model.write_bytes(b.model().SerializeToString())
    plan = compile(b, tmp_path, target=M4).plan
    first = plan.inputs[0]
    rng = np.random.default_rng(3)
    rows = {t: rng.integers(-127, 127, (4, *plan.graph.type(t).shape)).astype(I8) for t in plan.inputs}
    rows[first][rng.random(rows[first].shape) < 0.75] = -128
    np.savez(data, **rows)
    run = CliRunner()
    assert run.invoke(cli.cli, ["check", str(model), "--inputs", str(data), "--samples", "1", "--profile-sparsity",
                                 str(shares)]).exit_code == 0
    found = json.loads(shares.read_text())
    assert found["samples"] == 4
    assert found["zeros"][trade.operand(plan.steps[0])] == pytest.approx((rows[first] == -128).mean(), abs=1e-5)
    by_file = compile(b, tmp_path, target=M4, zeros=zeros.read(shares))
    by_data = compile(b, tmp_path, target=M4, calib=data)
    assert kernels(by_file) == kernels(by_data) and NAME in kernels(by_data)
    out = run.invoke(cli.cli, ["plan", str(model), "-t", M4, "--sparsity", str(shares), "--why"])
    assert out.exit_code == 0 and NAME in out.output
    both = run.invoke(cli.cli, ["plan", str(model), "-t", M4, "--sparsity", str(shares), "--calib", str(data)])
    assert both.exit_code != 0 and "one of them" in both.output


@pytest.mark.parametrize("content", ["", "[]", '{"zeros": {"x": "many"}}', '{"zeros": {"x": 1.5}}', '{"zeros": 3}'])
def test_files_that_are_none(content: str, tmp_path: Path) -> None:
    path = tmp_path / "zeros.json"
    path.write_text(content)
    with pytest.raises(ModelError, match=r"zeros\.json"):
        zeros.read(path)


def test_under_sanitizers(tmp_path: Path, always: None) -> None:
    compiled = skipping(layers(), tmp_path)
    rows = samples(compiled.plan, 1)
    for x, y in zip(sanitized(compiled.plan, rows), run_c(compiled, rows), strict=True):
        assert all(np.array_equal(x[t], y[t]) for t in x)


@pytest.mark.skipif(shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None,
                    reason="arm-none-eabi-gcc or qemu-system-arm is not installed")
def test_on_the_board(tmp_path: Path, always: None) -> None:
    """The worst case bounds what is measured; nearly all elements of random inputs are no zeros."""
    pytest.importorskip("capstone", reason="capstone is not installed")
    compiled = skipping(layers(), tmp_path)
    assert kernels(compiled).count(NAME) == 3
    measured = bench(compiled.plan, compiled.plan, "sparse")
    assert measured.mismatches == 0 and measured.instructions is not None
    assert 0.5 < (measured.instructions - 100) / compiled.wcet().instructions <= 1.0
