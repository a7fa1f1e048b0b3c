"""Linear Resize between Q and DQ: stored values weighed by whole numbers, two of them in a word where channels lie by fours."""
from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import Builder, assert_c_is_reference, compile, kernels, outputs, run_c, run_ort, samples

from fuse2c import toolchain
from fuse2c.bench import bench, worst_case
from fuse2c.measure import qemu

I8, U8 = np.int8, np.uint8
SIZES = {       # mode of coordinates, channels, rows and columns of the result (5 and 6 of the operand), kernel
    "twice": ("half_pixel", 8, (10, 12), "blend_words"), "pytorch": ("pytorch_half_pixel", 4, (10, 12), "blend_words"),
    "four-times": ("half_pixel", 12, (20, 24), "blend_words"), "three-times": ("asymmetric", 4, (15, 18), "blend_words"),
    "rows": ("half_pixel", 4, (10, 6), "blend_words"), "columns": ("half_pixel", 8, (5, 12), "blend_words"),
    "smaller": ("half_pixel", 4, (4, 3), "blend_words"), "corners": ("align_corners", 8, (9, 11), "blend_words"),
    "odd": ("half_pixel", 7, (10, 12), "blend"), "uneven": ("align_corners", 4, (20, 24), "resample"),
}


def model(name: str, zero: Any, scale: float, channels_last: bool = True) -> Builder:
    """A Resize with its channels last, or first."""
    mode, channels, (rows, columns), _ = SIZES[name]
    b = Builder()
    x = b.op("Transpose", b.stored((1, 5, 6, channels), 0.05, zero), perm=[0, 3, 1, 2]) if channels_last else \
        b.stored((1, channels, 5, 6), 0.05, zero)
    y = b.op("Resize", x, "", "", b.const(np.array([1, channels, rows, columns])), mode="linear",
             coordinate_transformation_mode=mode)
    y = b.quantise(y, scale, zero)
    b.output(b.op("Transpose", y, perm=[0, 2, 3, 1]) if channels_last else y)
    return b


@pytest.mark.parametrize("scale", [0.05, 0.0437])
@pytest.mark.parametrize("zero", [I8(-128), I8(5), I8(127), U8(0), U8(99)])
@pytest.mark.parametrize("name", SIZES)
def test_linear(name: str, zero: Any, scale: float, tmp_path: Path) -> None:
    """numpy's bits; off ties those of the Q/DQ graph, too."""
    b = model(name, zero, scale)
    compiled = compile(b, tmp_path, target="cortex-m4")
    assert SIZES[name][3] in kernels(compiled)
    assert_c_is_reference(compiled)
    rows = samples(compiled.plan)
    for got, floats in zip(run_c(compiled, rows), outputs(compiled.plan.source, rows), strict=True):
        for t, want in floats.items():
            apart = np.abs(got[t].astype(int) - want)
            assert apart.max() <= 1 and (apart > 0).mean() < (0.1 if scale == 0.05 else 0.005)


def test_channels_first(tmp_path: Path) -> None:
    """Whatever the layout; and --requant float keeps the floats."""
    compiled = compile(model("twice", I8(5), 0.05, channels_last=False), tmp_path, target="cortex-m4")
    assert kernels(compiled) == ["blend"]
    assert_c_is_reference(compiled)
    compiled = compile(model("twice", I8(5), 0.05), tmp_path, target="cortex-m4", requant="float")
    assert "resample" in kernels(compiled)
    rows = samples(compiled.plan)
    for got, want in zip(run_c(compiled, rows), run_ort(model("twice", I8(5), 0.05).model(), rows), strict=True):
        assert all(np.abs(got[t].astype(int) - want[t]).max() <= 1 for t in want)


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "cortex-m3", "cortex-m0plus"])
def test_on_the_board(target: str, tmp_path: Path) -> None:
    """The same there, row by row behind a convolution and in front of another; one path."""
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    b = Builder()
    x = b.stored((1, 3, 5, 6), 0.05, I8(-7))
    for scale in (0.05, 0.043):
        for channels in (8, 6):
            t = b.requantise(b.op("Conv", x, b.weights((channels, 3, 3, 3), 0.002), pads=[1, 1, 1, 1]), 0.05, I8(3))
            y = b.quantise(b.op("Resize", t, "", b.const(np.array([1, 1, 2, 2], np.float32)), mode="linear"), scale, I8(3))
            real = b.dequantise(y, scale, I8(3))
            b.output(b.requantise(b.op("Conv", real, b.weights((4, channels, 3, 3), 0.002)), 0.05, I8(3)))
    compiled = compile(b, tmp_path, target=target)
    assert {"blend_words", "blend"} <= set(kernels(compiled))
    assert_c_is_reference(compiled)
    assert bench(compiled.plan, compiled.plan, "blend").mismatches == 0
    assert worst_case(compiled.plan).branches == ()
