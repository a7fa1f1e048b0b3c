"""Processors of a target: which one computes a step, by prices or because it was asked for; cores that differ."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from graphs import Builder, assert_c_is_reference, compile, kernels, samples
from test_cores import chain, chain_file

import fuse2c
from fuse2c import check, price, target
from fuse2c.cli import cli
from fuse2c.errors import PlanError, TargetError
from fuse2c.passes import assign
from fuse2c.plan import Plan
from fuse2c.target import Target


def changed(name: str, folder: Path, *changes: tuple[str, str]) -> str:
    """A target file like one that comes with fuse2c, but for some text."""
    text = (target.FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "changed.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def dear(folder: Path, call: float) -> str:
    """Cortex-M55 with so many instructions more for a call of conv_mve."""
    text = (target.FOLDER / "cortex-m55.toml").read_text(encoding="utf-8")
    (old,) = re.findall(r"\[price\.conv_mve\]\n(?:.+\n)*", text)
    own = target.load("cortex-m55").price["conv_mve"].call
    return changed("cortex-m55", folder, (old, re.sub(r"(?m)^call = .*\n", "", old) + f"call = {own + call}\n"))


def board(*cores: str) -> Target:
    """A Cortex-M4 with further tables."""
    text = (target.FOLDER / "cortex-m4.toml").read_text(encoding="utf-8")
    return target.parse(target.tomllib.loads(text.replace("[emulator]", "\n".join([*cores, "[emulator]"]))), "board.toml")


def test_a_core_is_the_first_one_but_for_its_own_keys() -> None:
    t = board("[core.b]\nhandover = 70\nclock_hz = 8000000", '[core.c]\nlike = "cortex-m0plus"',
              '[core.d]\non = "cpu"\nfeatures = []')
    assert list(t.processors) == ["cpu", "b", "c", "d"] and t.cores == ["cpu", "b", "c"]
    b, c, d = (t.core[n] for n in "bcd")
    assert b.processor.features == t.processor.features and b.price == t.price and b.link.handover == 70
    assert b.processor.clock_hz == 8_000_000 != t.processor.clock_hz and b.processor.name == "b"
    assert c.processor.isa == "armv6-m" and c.price == target.load("cortex-m0plus").price and c.link.handover == 0
    assert d.processor.features == () and d.link.on == "cpu"
    figures = dict(t.figures())
    assert figures["core.b.handover"] == 70 and figures["core.b.clock_hz"] == 8e6 and "core.b.cpi" not in figures


@pytest.mark.parametrize("table, said", [
    ("[core.b]\nhand = 7", "has no field 'hand'"), ("[core.b]\nhandover = -1", "above 0"), ('[core.b]\non = "c"', "on has 'c'"),
    ('[core.b]\nfeatures = ["mv"]', "features has 'mv'"), ('[core.b]\nprogram = "mine"', "program has 'mine'"),
    ('[core.b]\nlike = "cortex-m44"', "no target called"), ("[core]\nb = 3", "is 3, not a table"),
])
def test_a_mistake_in_a_core_is_found(table: str, said: str) -> None:
    with pytest.raises(TargetError) as error:
        board(table)
    assert said in str(error.value)


def test_boards_with_several_cores() -> None:
    cores = {name: t.cores for name in target.known() if len((t := target.load(name)).cores) > 1}
    assert cores == {"rp2040": ["cpu", "core1"], "rp2350": ["cpu", "core1"], "host": ["cpu", "core1"],
                     "nrf5340-dk": ["cpu", "network"], "alif-ensemble-e3": ["mve", "he"]}
    assert all("scalar" in target.load(n).processors for n in ("cortex-m55", "alif-ensemble-e3", "corstone-300"))


def test_helium_where_it_is_cheaper(tmp_path: Path) -> None:
    """By the prices of the file; where a kernel has none, as it was."""
    usual = compile(chain(), tmp_path, target="cortex-m55")
    assert kernels(usual)[:2] == ["conv_mve", "conv_mve"] and {s.processor for s in usual.plan.steps} == {"mve"}
    found = compile(chain(), tmp_path, target=dear(tmp_path, 1e7))
    assert kernels(found)[:2] == ["conv_dsp", "conv_dsp"] and [s.processor for s in found.plan.steps][:2] == ["scalar"] * 2
    reasons = [d.reason for d in found.plan.decisions if d.stage == "assign" and d.taken]
    assert len(reasons) == 2 and "conv_dsp takes" in reasons[0]
    assert_c_is_reference(found)
    unknown = changed("cortex-m55", tmp_path, ("[price.conv_dsp]", "[price.other]"))
    plan = compile(chain(), tmp_path, target=unknown).plan
    assert {s.processor for s in plan.steps} == {"mve"}
    assert "no price to tell" in [d.reason for d in plan.decisions if d.stage == "assign"]


def test_two_forms_of_a_kernel_have_prices_by_processor(tmp_path: Path) -> None:
    """With one list for both nothing is weighed; with a list of its own the scalar form is taken where it is cheaper."""
    def net() -> Builder:
        b = Builder()
        b.output(b.op("Conv", b.input((1, 8, 20, 21)), b.floats(12, 8, 3, 3)))
        return b
    dearer = ("[price.conv_fp]\n", "[price.conv_fp]\ncall = 1e7\n")
    one = compile(net(), tmp_path, target=changed("cortex-m55", tmp_path, dearer)).plan
    assert kernels_of(one) == ["conv_fp"] and not [d for d in one.decisions if d.stage == "assign"]
    own = changed("cortex-m55", tmp_path, dearer, ("[core.scalar]\n", '[core.scalar]\nlike = "cortex-m33"\n'))
    plan = compile(net(), tmp_path, target=own).plan
    assert kernels_of(plan) == ["conv_fp"] and [s.processor for s in plan.steps] == ["scalar"]


def kernels_of(plan: Plan) -> list[str]:
    """Names of kernels."""
    return [s.kernel.name for s in plan.steps]


def test_close_prices_change_nothing(tmp_path: Path) -> None:
    """Of 10 % nobody is sure."""
    usual = fuse2c.plan(chain_file(tmp_path), target="cortex-m55").plan
    placed = tuple((n, "scalar") for n in usual.steps[0].node.origin)
    dsp = compile(chain(), tmp_path, target="cortex-m55", place_node=placed).plan
    assert dsp.steps[0].kernel.name == "conv_dsp" and dsp.steps[1].kernel.name == "conv_mve"
    mve, plain = (price.of_step(p, p.steps[0]).instructions for p in (usual, dsp))
    for times, processor in ((0.95, "mve"), (1.05, "scalar")):
        call = times * plain / (1 - assign.SURE) - mve
        assert compile(chain(), tmp_path, target=dear(tmp_path, call)).plan.steps[0].processor == processor


def test_a_node_where_it_was_asked_for(tmp_path: Path) -> None:
    plan = fuse2c.plan(chain_file(tmp_path), target="cortex-m55").plan
    node = plan.steps[1].node.origin[0]
    found = compile(chain(), tmp_path, target="cortex-m55", place_node=((node, "scalar"),))
    assert [s.processor for s in found.plan.steps].count("scalar") == 1 and found.plan.steps[1].kernel.name == "conv_dsp"
    assert_c_is_reference(found)
    done = CliRunner().invoke(cli, ["plan", str(tmp_path / "chain.onnx"), "-t", "cortex-m55", "--place-node", f"{node}=scalar"])
    assert "scalar" in done.output and done.exit_code == 0
    with pytest.raises(PlanError, match="no processor called 'skalar'"):
        CliRunner().invoke(cli, ["plan", str(tmp_path / "chain.onnx"), "-t", "cortex-m55", "--place-node", f"{node}=skalar"],
                           catch_exceptions=False, standalone_mode=False)
    assert CliRunner().invoke(cli, ["plan", str(tmp_path / "chain.onnx"), "--place-node", "cpu"]).exit_code == 2


def test_a_slower_core_gets_fewer_rows(tmp_path: Path) -> None:
    """By clock; its memory is the first one's, over a bus that costs by byte."""
    options = {"target": "alif-ensemble-e3", "cores": 2, "arena": "caller"}
    compiled = compile(chain(60), tmp_path, **options)
    plan = compiled.plan
    rows = {core: sum(c.end - c.first for c in plan.calls if c.core == core and c.step in plan.shared) for core in (0, 1)}
    assert 0 < rows[1] < 0.4 * rows[0] and price.alone(plan) > 1.1 * price.elapsed(plan)
    assert_c_is_reference(compiled, samples(plan, 2))
    check.sanitized(plan, samples(plan, 5), check.SANITIZERS[1])


def test_a_core_without_dsp_has_kernels_of_its_own(tmp_path: Path) -> None:
    """What is asked for runs there with plain C; what both compute together needs one kernel, so nothing is divided."""
    b = chain()
    node = [n.name for n in b.nodes if n.op_type == "Conv"][1]
    compiled = compile(b, tmp_path, target="nrf5340-dk", cores=2, arena="caller", place_node=((node, "network"),))
    plan = compiled.plan
    (placed,) = [i for i, s in enumerate(plan.steps) if node in {n.name for n in s.node.parts}]
    assert plan.steps[placed].kernel.needs == frozenset() and plan.steps[0].kernel.name == "conv_dsp"
    assert plan.where(placed) == ["network"] and not plan.shared
    assert price.elapsed(plan) > price.elapsed(compile(b, tmp_path, target="nrf5340-dk").plan)
    assert_c_is_reference(compiled)
    assert np.isfinite(price.alone(plan))


def test_kernels_that_buy_speed_are_divided_too(tmp_path: Path) -> None:
    """Winograd's tiles of rows, with flash to spare: what a schedule for cores needs is looked at, not that for one."""
    b = Builder()
    x = b.stored((1, 16, 23, 17), 0.05, np.int8(-7))
    y = b.requantise(b.op("Conv", x, b.weights((24, 16, 3, 3), 0.01), pads=[1, 1, 1, 1]), 0.4, np.int8(-3))
    b.output(b.quantise(b.op("Conv", y, b.weights((16, 24, 3, 3), 0.01), pads=[1, 1, 1, 1]), 0.5, np.int8(1)))
    compiled = compile(b, tmp_path, target="rp2350", cores=2, winograd="auto")
    assert compiled.plan.shared == {0, 1} and any("winograd" in name for name in kernels(compiled))
    assert_c_is_reference(compiled, samples(compiled.plan, 2))
    check.sanitized(compiled.plan, samples(compiled.plan, 5), check.SANITIZERS[1])


def test_two_forms_of_a_kernel_under_one_price_are_not_compared(tmp_path: Path) -> None:
    """float32 layers have a Helium form and a plain one of one name: prices of the one say nothing of the other."""
    b = Builder()
    b.output(b.op("Relu", b.op("Conv", b.input((1, 16, 20, 18)), b.floats(16, 16, 3, 3), pads=[1, 1, 1, 1])))
    compiled = compile(b, tmp_path, target="cortex-m55")
    (step,) = compiled.plan.steps
    assert step.processor == compiled.plan.target.cores[0] and step.kernel.needs >= {"mve"}


def test_a_sum_of_floats_says_nothing_of_stored_values(tmp_path: Path) -> None:
    """A compiler uses vectors for the one by itself; stored values are taken by fours."""
    b = Builder()
    x, y = b.stored((1, 20, 12, 32), 0.05, np.int8(3)), b.stored((1, 20, 12, 32), 0.04, np.int8(-5))
    b.output(b.quantise(b.op("Add", x, y), 0.07, np.int8(9)), b.op("Add", *(b.input((1, 20, 12, 32)) for _ in range(2))))
    plan = compile(b, tmp_path, target="cortex-m55").plan
    assert kernels_of(plan) == ["elementwise_mve", "elementwise"]
