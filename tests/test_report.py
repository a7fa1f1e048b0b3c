"""`fuse2c report` and `explain`: the data add up, the page stands alone, shows every part and raises no error."""
from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from graphs import Builder

import fuse2c
from fuse2c import explain, page, price, study
from fuse2c.cli import cli
from fuse2c.errors import PlanError

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "examples" / "digits" / "digits_int8.onnx"
CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    model = fuse2c.plan(MODEL, target="nucleo-l476rg")
    return study.of(model.plan, model.unfused().plan, MODEL.name)


def test_kernels_add_up(found: dict[str, Any]) -> None:
    for which, key in (("fused", "kernels"), ("unfused", "kernels_unfused")):
        total, kernels = found["figures"][which], found[key]
        assert sum(k["launches"] for k in kernels) == total["launches"]
        for figure in ("macs", "instructions", "cycles"):
            assert sum(k[figure] for k in kernels) == pytest.approx(total[figure], abs=len(kernels))
        for memory, size in total["traffic"].items():
            assert sum(k["traffic"][memory] for k in kernels) == size
        assert sum(k["share"] for k in kernels) == pytest.approx(1)


def test_steps_add_up_to_their_kernel(found: dict[str, Any]) -> None:
    """But for whose turn it is; and no figure is more typically than at worst."""
    joined = [k for k in found["kernels"] if len(k["steps"]) > 1]
    assert joined
    for k in joined:
        assert sum(s["macs"] for s in k["steps"]) == k["macs"]
        for figure in ("instructions", "cycles", "share"):
            assert 0.9 * k[figure] < sum(s[figure] for s in k["steps"]) <= k[figure] + len(k["steps"])
        for row in (k, *k["steps"]):
            assert row["cycles"] <= row["cycles_worst"], row.get("function")
    assert [row[0]["text"] for row in page._rows(found["kernels"])][:3] == ["1", "1.1", "1.2"]


def test_fusion_gains_and_nothing_beats_the_limits(found: dict[str, Any]) -> None:
    before, after, least = (found["figures"][which] for which in ("unfused", "fused", "limits"))
    for key in ("launches", "launch_cycles", "intermediate_bytes", "cycles", "energy_uj", "ram_bytes"):
        assert least[key] <= after[key] <= before[key], key
    assert study.saved(found, "launches") == pytest.approx(1 - after["launches"] / before["launches"])
    assert least["operations_per_watt"] > after["operations_per_watt"] > before["operations_per_watt"]


def test_energy_is_power_times_time_and_bytes(found: dict[str, Any]) -> None:
    board, after = fuse2c.target.load("nucleo-l476rg"), found["figures"]["fused"]
    (clock,) = (c for c in board.clock if c.hz == board.processor.clock_hz)
    moved = sum(n * board.memory[name].pj_per_byte * 1e-6 for name, n in after["traffic"].items())
    assert after["energy_uj"] == pytest.approx(clock.active_uw * after["time_ms"] * 1e-3 + moved, rel=1e-4)


def test_a_kernel_is_under_the_lower_roof(found: dict[str, Any]) -> None:
    kernels = found["kernels"] + found["kernels_unfused"]
    levels = [lv for k in kernels for part in (k, *k["steps"]) for lv in part["levels"]]
    assert levels
    for lv in levels:
        (roof,) = (r for r in found["roofs"] if r["memory"] == lv["memory"])
        slope = lv["intensity"] * roof["bytes_per_s"]
        assert lv["roof"] == pytest.approx(min(slope, lv["flat"])) and (lv["bound"] == "memory") == (slope < lv["flat"])
        assert lv["below"] == pytest.approx(lv["roof"] / lv["reached"])


def test_prices_meet_qemu() -> None:
    """A model that the prices were not fitted to."""
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    model = fuse2c.plan(MODEL, target="cortex-m4")
    assert price.of_plan(model.plan).instructions == pytest.approx(model.bench().instructions, rel=0.15)


def pictures(r: dict[str, Any]) -> int:
    """Plan, memory, front, one roofline a memory, and the steps of each kernel of several."""
    return 3 + len(r["roofs"]) + sum(len(k["steps"]) > 1 for k in r["kernels"])


def test_the_plan_is_a_graph(found: dict[str, Any]) -> None:
    """Every kernel is a box that leads to its steps, every step a box inside; arrows as the data flows."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    text = page.html(found)
    for k in found["kernels"]:
        assert f'xlink:href="#kernel-{k["number"]}"' in text and f'id="kernel-{k["number"]}"' in text
        inside = {s["function"] for s in k["steps"]}
        assert all(set(s["after"]) & inside or i == 0 for i, s in enumerate(k["steps"]))
    assert found["ends"]["made_by"] == [len(found["kernels"])]


def test_the_page_stands_alone(found: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    text = page.html(found)
    assert text == page.html(found)     # the same bytes
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)([^"']*)""", text) == [] and "@import" not in text
    assert text.count("<svg ") == pictures(found) and "currentColor" in text
    ids = re.findall(r'\bid="(\w+)"', re.sub(r"<svg.*?</svg>", "", text, flags=re.S))
    assert [i for i, _ in page.SECTIONS] == [i for i in ids if i in dict(page.SECTIONS)]


def test_names_from_a_model_are_no_markup(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    b = Builder()
    b.output(b.op("Relu", b.input((1, 3, 5))))
    model = b.model()
    model.graph.node[0].name = "<script>alert(1)</script>"
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    plan = fuse2c.plan(path, target="cortex-m4").plan
    text = page.html(study.of(plan, plan, "<b>m</b>.onnx"))
    assert "<script>alert" not in text and "<b>m</b>" not in text and "&lt;script&gt;" in text


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as p:
        started = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("width, scheme", [(1200, "light"), (1200, "dark"), (390, "light")])
def test_a_browser_shows_it(found: dict[str, Any], browser: Any, width: int, scheme: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    file = tmp_path / "report.html"
    model = fuse2c.plan(MODEL, target="nucleo-l476rg", fuse=False)      # many kernels: something to sort
    many = study.of(model.plan, model.plan, MODEL.name)
    file.write_text(page.html(many), encoding="utf-8")
    tab, said = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme), list[str]()
    tab.on("console", lambda m: said.append(m.text))
    tab.on("pageerror", lambda e: said.append(str(e)))
    tab.on("request", lambda r: said.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
    tab.goto(file.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") == width        # nothing hangs over the edge
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    assert tab.locator("svg").count() == pictures(many) and tab.locator("svg").first.bounding_box()["height"] > 100
    tab.locator("#plan > .graph svg a text").first.click()      # a box of the graph opens its kernel
    tab.wait_for_selector("details.kernel[open]", timeout=5000)
    assert tab.locator("details.kernel[open]").count() == 1
    box = tab.locator("details.kernel").nth(2)
    box.locator("summary").click()
    assert box.locator("li").first.is_visible()
    head = tab.locator("table.sortable th button").nth(4)
    column = "[...document.querySelectorAll('table.sortable tbody tr')].map(r => Number(r.cells[4].dataset.value))"
    head.click()
    assert tab.evaluate(column) == sorted((k["cycles"] for k in many["kernels"]), reverse=True)
    head.click()
    assert tab.evaluate(column) == sorted(k["cycles"] for k in many["kernels"])
    tab.locator("#decisions > details > summary").click()
    rows = tab.locator("#decision-table > tbody > tr")
    reasons = {(d["stage"], d["taken"], d["reason"]) for d in many["decisions"]}
    assert rows.count() == len(reasons) < len(many["decisions"])
    listed = rows.all_text_contents()
    assert all(any(d["subject"] in row for row in listed) for d in many["decisions"])
    tab.locator("#filter").fill("select")
    assert 0 < tab.locator("#decision-table > tbody > tr:visible").count() < len(reasons)
    assert said == []
    tab.close()


def test_the_command(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    file = tmp_path / "report.html"
    arguments = ["report", str(MODEL), "-t", "cortex-m4", "-o", str(file)]
    done = CliRunner().invoke(cli, [*arguments, "--no-wcet", "--json"], catch_exceptions=False)
    data = json.loads(done.stdout)
    assert data["schema"] == study.SCHEMA and data["wcet"] is None and data["wcet_note"] and file.stat().st_size > 50_000
    assert "written to" in CliRunner().invoke(cli, [*arguments, "--no-wcet"], catch_exceptions=False).output
    assert CliRunner().invoke(cli, ["report", str(MODEL)]).exit_code == 2
    done = CliRunner().invoke(cli, ["report", str(MODEL), "--json"], catch_exceptions=False)
    assert "Cortex-M" in json.loads(done.stdout)["wcet_note"]      # the host has none, and says so


def test_every_key_is_in_the_documents() -> None:
    text = (ROOT / "docs" / "JSON.md").read_text(encoding="utf-8")
    model = fuse2c.plan(MODEL, target="nucleo-l476rg")
    data = study.of(model.plan, model.plan, MODEL.name)

    def keys(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if not re.fullmatch(r"sram1|flash", key):       # names of memories
                    yield key
                yield from keys(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from keys(inner)
    missing = {key for key in keys(data) if not re.search(rf"[`.]{key}`", text)}
    assert missing == set()


def test_explain_says_where_a_node_went() -> None:
    plan = fuse2c.plan(MODEL, target="cortex-m0plus").plan
    step = next(s for s in plan.steps if len(s.node.parts) > 1 and s.node.op == "Conv")
    said = "\n".join(explain.node(plan, step.node.parts[-1].name))
    assert step.function in said and "kernel     : 1 of" in said
    assert "would change it: a target whose core has dsp" in said and "+ fuse" in said
    unfused = fuse2c.plan(MODEL, target="cortex-m0plus", fuse=False).plan
    assert "alone      : --no-fuse" in "\n".join(explain.node(unfused, step.node.parts[0].name))
    with pytest.raises(PlanError, match="no node called"):
        explain.node(plan, "nowhere")


def test_explain_names_the_limit_that_changes_the_schedule() -> None:
    plan = fuse2c.plan(MODEL, target="cortex-m4").plan
    smaller = [p for p in plan.front if p.ram < plan.ram_bytes]
    said = "\n".join(explain.node(plan, plan.steps[1].function))
    assert (f"--ram {plan.ram_bytes - 1} leads to another schedule" in said) == bool(smaller)
    if smaller:
        other = fuse2c.plan(MODEL, target="cortex-m4", ram=plan.ram_bytes - 1).plan
        assert f"{other.ram_bytes:,} bytes of RAM, {other.call_count} calls" in said


def test_the_command_explain() -> None:
    step = fuse2c.plan(MODEL, target="cortex-m4").plan.steps[2]
    done = CliRunner().invoke(cli, ["explain", str(MODEL), step.function, "-t", "cortex-m4"], catch_exceptions=False)
    assert step.kernel.name in done.output
