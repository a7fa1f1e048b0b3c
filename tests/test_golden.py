"""A few outputs as they are meant to look; read the difference before `pytest --update-golden`."""
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from conftest import Golden
from graphs import PORTABLE

import fuse2c
from fuse2c import cli
from fuse2c.codegen import project

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
M3, M4 = "cortex-m3", "cortex-m4"
KERNELS = {"conv": ("int8", PORTABLE), "depthwise": ("int8", PORTABLE), "pointwise": ("int8", PORTABLE),
           "conv_vec": ("int8", "host"),
           "softmax_s8": ("int8", M4), "conv_fields": ("int8", M3), "max_pool": ("fp32", M4), "conv_dsp": ("int8", M4),
           "depthwise_dsp": ("int8", M4), "pointwise_dsp": ("int8", M4)}


def plan_of(kind: str, target: str) -> fuse2c.Compiled:
    return fuse2c.plan(DIGITS / f"digits_{kind}.onnx", target)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel(kernel: str, golden: Golden) -> None:
    c = plan_of(*KERNELS[kernel])
    texts = project.model_view(c.plan).kernels
    at = next(i for i, step in enumerate(c.plan.steps) if step.kernel.name == kernel)
    golden(f"{kernel}.c", texts[at])


def test_header(golden: Golden) -> None:
    c = fuse2c.plan(DIGITS / "digits_int8.onnx", "cortex-m4", io="int8", arena="caller")
    golden("digits_int8.h", project.files(c.plan)["digits_int8.h"])


@pytest.mark.parametrize("stage", ["legalize", "fuse"])
def test_dump(stage: str, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    fuse2c.compile_model(DIGITS / "digits_int8.onnx", "cortex-m4", fuse2c.Options(), (stage,))
    text = capsys.readouterr().out
    golden(f"{stage}.txt", re.sub(r"(?m)^[+-] .*\n", "", text))         # decisions have a test of their own


def test_report(golden: Golden, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["fuse2c", "plan", str(DIGITS / "digits_int8.onnx"), "-t", "cortex-m4", "--why"])
    cli.main()
    golden("report.txt", capsys.readouterr().out)
