"""`make bench`: its figures are those of the commands, its records are complete, and what is missing has a reason."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import figures
import fuse2c
from fuse2c import toolchain
from fuse2c.measure import profile, qemu

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "examples" / "digits"


def run(folder: Path, *options: str, **environment: str) -> tuple[dict[str, Any], str]:
    """What is written and what is printed."""
    file = folder / "new" / "out.json"
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--json", str(file), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160", **environment})
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text(encoding="utf-8")), done.stdout


def test_digits_on_two_cores(tmp_path: Path) -> None:
    """The figures of `bench`; a layer's are the same in a build of its own, but for what joins them."""
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    written, printed = run(tmp_path, "--models", str(DIGITS), "--model", "digits_int8", "-t", "cortex-m55", "-t", "cortex-m4",
                           "--jobs", "1")
    assert written["schema"] == "fuse2c-benchmarks/1"
    assert [(r["model"], r["target"]) for r in written["results"]] == [("digits_int8", t) for t in ("cortex-m55", "cortex-m4")]
    m55, m4 = written["results"]
    compiled = fuse2c.plan(DIGITS / "digits_int8.onnx", "cortex-m4")
    result = compiled.bench().json()
    assert {k: m4[k] for k in ("instructions", "macs", "launches", "ram_bytes", "mismatches")} == \
        {k: result[k] for k in ("instructions", "macs", "launches", "ram_bytes", "mismatches")}
    assert m4["mismatches"] == 0 and m4["flash_bytes"]["code"] == result["flash_bytes"]["code"]
    assert m4["flash_bytes"]["parameters"] + m4["flash_bytes"]["tables"] == result["flash_bytes"]["weights"]
    assert m4["bound"] is None or m4["bound"] == pytest.approx(m4["instructions"], rel=1e-3)
    assert m55["cycles"] is None and (m4["cycles"] is None) == any("cycles" in text for text in m4["skipped"])
    assert [k["function"] for k in m4["kernels"]] == [s.function for s in compiled.plan.steps]
    # The layers apart, nothing joined or shared: what calls and loops of other depths cost is not in there.
    assert sum(k["instructions"] for k in m4["kernels"]) == pytest.approx(m4["instructions"], rel=0.06)
    assert f"{m4['instructions']:,}" in printed and m4["kernels"][1]["function"] in printed
    (host,) = written["host"]
    assert host["skipped"] or host["ratio"] == pytest.approx(host["seconds"] / host["onnxruntime_seconds"])
    documented = (ROOT / "docs" / "JSON.md").read_text(encoding="utf-8")
    for key in {*written, *m4, *m4["kernels"][0]}:
        assert f"`{key}`" in documented or f"`{key}." in documented, key


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """Without tools, without the folder of models, without a model."""
    (tmp_path / "bin").mkdir()
    written, printed = run(tmp_path, "--models", "nowhere", "--model", "nothing", PATH=str(tmp_path / "bin"))
    assert written["results"] == written["host"] == []
    assert written["skipped"] == [f"{toolchain.ARM_GCC} is not installed: nothing is measured on cores",
                                  f"{qemu.QEMU} is not installed: nothing is measured on cores",
                                  "no folder nowhere: the project's own models are measured", "no model nothing"]
    assert all(f"skipped: {text}" in printed for text in written["skipped"])


def test_records_say_where_they_come_from() -> None:
    recorded = tomllib.loads((ROOT / "bench" / "peers.toml").read_text(encoding="utf-8"))
    assert {f["source"] for f in recorded["figure"]} == set(recorded["sources"])
    for f in recorded["figure"]:
        models = {k: v for k, v in f.items() if k not in ("peer", "source", "target")}
        assert models and all(re.fullmatch(r"\w+_(int8|fp32)", m) for m in models)
        assert all(set(v) <= {"instructions", "arena", "code", "ratio"} and min(v.values()) > 0 for v in models.values())


def test_blocks_are_counted_by_function() -> None:
    """Two inferences: a block of three instructions in `model_run`, one of two that it runs four times, and other code."""
    log = ["----", "IN: main", "0x00000010:  4618       mov      r0, r3", "", "Trace 0: 0x1 [0/00000010/0/ff] main",
           "IN: model_run", "0x00000020:  4618       mov      r0, r3", "0x00000022:  4618       mov      r0, r3",
           "0x00000024:  f000 fa9c  bl       #0x30", "Trace 0: 0x2 [0/00000020/0/ff] model_run",
           "IN: model_1_conv", "0x00000030:  4618       mov      r0, r3", "0x00000032:  4770       bx       lr",
           *["Trace 0: 0x3 [0/00000030/0/ff] model_1_conv"] * 4, "Trace 0: 0x2 [0/00000020/0/ff] model_run",
           *["Trace 0: 0x3 [0/00000030/0/ff] model_1_conv"] * 4]
    assert profile.counted(log, "model_run") == {"main": 0, "model_run": 3, "model_1_conv": 8}


def test_a_layer_has_what_it_calls() -> None:
    """Functions of the runtime that one layer alone calls, also from a helper, are that layer's; others are named."""
    text = "\n".join(["static int m_01_conv_out(int a)", "    return f2c_requant(a);", "static void m_01_conv(int *y)",
                      "    y[0] = m_01_conv_out(f2c_dot(y));", "static void m_02_conv(int *y)", "    y[0] = f2c_dot(y);",
                      "void m_run(void)", "    f2c_row(y);"])
    assert figures.callers(text, ["m_01_conv", "m_02_conv"]) == {"f2c_requant": {"m_01_conv"},
                                                                "f2c_dot": {"m_01_conv", "m_02_conv"}}


def test_layers_of_a_nest_add_up() -> None:
    """The rows of a dense layer of floats are summed by a function of the runtime."""
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    model = DIGITS / "digits_fp32.onnx"
    layers = figures.kernels(model, "cortex-m4")
    whole = fuse2c.plan(model, "cortex-m4").bench().json()["instructions"]
    assert sum(k["instructions"] for k in layers) == pytest.approx(whole, rel=0.06)
