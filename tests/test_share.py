"""Innermost loops that layers share: kernels for Arm's DSP extension, whose text says what is a parameter."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
from cases import Style
from graphs import Builder, assert_c_is_reference, compile

from fuse2c.codegen import project

I8 = np.int8


def m4(b: Builder, folder: Path, **options: Any) -> Any:
    """The plan for a core with DSP; HostModel runs it with the portable bodies."""
    return compile(b, folder, **{"target": "cortex-m4", **options})


@pytest.mark.parametrize("share", ["auto", "never"])
def test_layers_of_one_shape_share_their_innermost_loops(share: str, tmp_path: Path) -> None:
    """Each with its own weights, biases and multipliers, inside of one joined kernel."""
    b = Builder()
    style = Style(I8(-128), I8(0), I8(-128), channels=True)
    x = style.x(b, 1, 6, 4, 9)
    pointwise = cases.Layer((1, 6, 4, 9), (6, 6, 1, 1), {}, False)
    depthwise = cases.Layer((1, 6, 4, 9), (6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}, False)
    for part in (pointwise, depthwise, pointwise, depthwise):
        x = b.requantise(part.sum(style, b, x), 0.037, I8(-128))
    style.y(b, pointwise.sum(style, b, x), 6)
    compiled = m4(b, tmp_path, share_kernels=share)
    text = "\n".join(project.model_view(compiled.plan).kernels)
    assert compiled.plan.launches == 1
    found = re.findall(r"Shared by (\d) steps[^(]*? \*?m\d*_(\w+)\(", text)
    assert found == [("3", "widen3"), ("3", "tile3"), ("2", "row")] * (share == "auto")
    assert_c_is_reference(compiled)


def test_layers_of_other_sizes_share_their_innermost_loops(tmp_path: Path) -> None:
    """Depths, numbers of outputs, widths and distances are parameters, with bounds of loops that hold for all."""
    b = Builder()
    style = Style(I8(-128), I8(0), I8(-128), channels=True)
    x = style.x(b, 1, 16, 5, 24)
    for channels, outs, stride in ((16, 32, 1), (32, 48, 2)):
        pointwise = cases.Layer(x_shape := (1, channels, 5, 24 // stride), (outs, channels, 1, 1), {}, False)
        x = b.requantise(pointwise.sum(style, b, x), 0.037, I8(-128))
        depthwise = cases.Layer((1, outs, *x_shape[2:]), (outs, 1, 3, 3), {"group": outs, "pads": [1, 1, 1, 1]}, False)
        x = b.requantise(depthwise.sum(style, b, x), 0.037, I8(-128))
        x = b.op("MaxPool", x, kernel_shape=[1, 2], strides=[1, 2])
    b.output(x)
    compiled = m4(b, tmp_path)
    text = project.files(compiled.plan)[f"{compiled.plan.graph.name}.c"]
    tile, row = (re.search(rf"{name}\([^)]*\)\n{{.*?\n}}\n", text, re.DOTALL) for name in ("_tile4", "_row"))
    assert tile and row
    assert {"int32_t words", "int32_t pairs", "int32_t y_sc"} <= set(re.findall(r"int32_t \w+", tile[0]))
    assert {"int32_t out_c", "int32_t x_sc", "int32_t middle"} <= set(re.findall(r"int32_t \w+", row[0]))
    assert "F2C_LOOPBOUND(16, 24)" in tile[0] and "F2C_LOOPBOUND(32, 48)" in row[0] and "F2C_LOOPBOUND(3, 6)" in row[0]
    assert_c_is_reference(compiled)


def test_layers_of_other_scales_share_their_innermost_loops(tmp_path: Path) -> None:
    """Zero points, and the factors of an addition behind; their numbers of outputs are odd and even, their depths no fours."""
    b = Builder()
    style = Style(I8(-128), I8(0), I8(-128), channels=True)
    x = style.x(b, 1, 9, 3, 8)
    for outs, zero in ((7, -5), (11, 4), (6, 0)):
        layer = cases.Layer((1, 9, 3, 8), (outs, 9, 1, 1), {}, False)
        beside = b.stored((1, outs, 3, 8), 0.02 + outs / 1000, I8(zero))
        y = b.dequantise(b.quantise(layer.sum(style, b, x), 0.037, I8(zero)), 0.037, I8(zero))
        b.output(b.quantise(b.op("Add", y, beside), 0.05 - outs / 1000, I8(zero - 3)))
    compiled = m4(b, tmp_path)
    text = project.files(compiled.plan)[f"{compiled.plan.graph.name}.c"]
    tile = re.search(r"Shared by 3 steps[^(]*_tile4\([^)]*\)", text)
    assert tile, "the tiles differ in more than numbers"
    assert len(re.findall(r"int32_t (?:factor|offset)_\d+", tile[0])) == 5
    assert "F2C_LOOPBOUND(1, 5)" in text
    assert_c_is_reference(compiled)
