"""Weights pruned in blocks: kernels that hold the units that are not zero are equal to numpy, smaller and faster."""
from __future__ import annotations

import math
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import DRAW
from graphs import Builder, assert_c_is_reference, compile, kernels
from hypothesis import given
from hypothesis import strategies as st

from fuse2c import price, toolchain
from fuse2c.bench import bench
from fuse2c.measure import qemu
from fuse2c.passes import trade

I8 = np.int8
M4, M55 = "cortex-m4", "cortex-m55"
BLOCKS = [(1, 1), (4, 4), (2, 4), (8, 1), (1, 8), (16, 4), (8, 4)]


def pruned(b: Builder, shape: tuple[int, int], block: tuple[int, int], share: float, least: int = -128) -> np.ndarray:
    """Weights of which that share of the blocks is left."""
    keep = b.rng.random((-(-shape[0] // block[0]), -(-shape[1] // block[1]))) < share
    return np.asarray(b.rng.integers(least, 128, shape) * np.kron(keep, np.ones(block))[:shape[0], :shape[1]]).astype(I8)


@dataclass(frozen=True)
class Window:
    """Of a convolution."""

    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)


def layer(b: Builder, w: np.ndarray, zero: int | None, rows: int = 1, size: tuple[int, int] | None = None,
          window: Window = Window()) -> None:
    """A dense layer, or with a size a convolution; w: [outputs, taps * channels]; zero: of the operand, None: float32."""
    n, k = len(w), w.shape[1] // math.prod(window.kernel)
    shape = (rows, k) if size is None else (1, *size, k)
    x = b.input(shape) if zero is None else b.stored(shape, 0.04, I8(zero))
    attrs: dict[str, Any] = {"transB": 1} if size is None else {
        "kernel_shape" if key == "kernel" else key: list(v) for key, v in asdict(window).items()}
    v = w if size is None else np.moveaxis(w.reshape(n, *window.kernel, k), -1, 1)
    scale = (0.01 * (1 + np.arange(n) % 3)).astype(np.float32)
    c = b.const(v.astype(np.float32) / 99) if zero is None else b.dequantise(b.const(v), scale, np.zeros(n, I8), axis=0)
    if size is not None:
        x = b.op("Transpose", x, perm=[0, 3, 1, 2])
    y = b.op("Gemm" if size is None else "Conv", x, c, **attrs)
    b.output(y if zero is None else b.quantise(y, 1.3 * w.shape[1] ** 0.5, I8(3)))


@pytest.mark.parametrize(("kernel", "target"), [
    ("blocks_dsp", M4), ("blocks", "cortex-m3"), ("blocks_fp", M4), ("blocks_mve", M55), ("blocks_fp", M55),
    ("blocks_vec", "host"),
    ("conv_blocks_dsp", M4), ("conv_blocks", "cortex-m0plus"), ("conv_blocks_fp", M4), ("conv_blocks_fp", M55)])
def test_drawn_layers(kernel: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any pattern and shape, zero points and weights at both ends."""
    monkeypatch.setattr(trade, "saves", lambda o: o.new.kernel.name == kernel)
    monkeypatch.setattr(price, "is_listed", lambda plan, step: True)
    taken = set[str]()

    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        def some(low: int, high: int) -> int:
            return data.draw(st.integers(low, high))
        b = Builder(seed=some(0, 99))
        shape = (some(24, 50), some(40, 90))
        w = pruned(b, shape, data.draw(st.sampled_from(BLOCKS)), data.draw(st.sampled_from([0.0, 0.1, 0.3])), -some(127, 128))
        floats = kernel.endswith("_fp") or (kernel == "blocks_vec" and some(0, 1))
        zero = None if floats else data.draw(st.sampled_from([-128, -7, 127]))
        size, window = data.draw(st.sampled_from([None, (2, 5), (3, 1)])), Window(strides=(1, some(1, 2)))
        if kernel.startswith("conv_") or (kernel == "blocks_mve" and some(0, 1)):
            size, taps = (some(3, 4), some(3, 6)), (some(1, 3), some(2, 3))
            step = some(1, 2 if taps[1] == 2 else 1)
            window = Window(taps, (some(1, 2), some(1, 2)), (some(0, 1), 1, 0, some(0, 1)), (1, step))
            w = pruned(b, (shape[0], math.prod(taps) * some(1, 9)), (4, 4), 0.3, -127)
        layer(b, w, zero, some(1, 3), size, window)
        compiled = compile(b, tmp_path, target=target, no_fuse_rules=("unread-elements", "empty-channels"),
                           requant=data.draw(st.sampled_from(["fixed", "float"])))
        taken.update(kernels(compiled))
        assert_c_is_reference(compiled)
    run()
    assert kernel in taken


@pytest.mark.skipif(shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None,
                    reason="arm-none-eabi-gcc or qemu-system-arm is not installed")
@pytest.mark.parametrize(("target", "kernel", "zero"), [
    (M4, "blocks_dsp", -7), (M4, "blocks_fp", None), ("cortex-m7", "blocks_fp", None), ("cortex-m3", "blocks", -7),
    ("cortex-m0plus", "blocks", -7), (M55, "blocks_mve", -7), (M55, "blocks_fp", None)])
def test_pruned_layers_are_smaller_and_faster(target: str, kernel: str, zero: int | None, tmp_path: Path) -> None:
    """75 % of 4x4 blocks are zero, against the dense twin; the worst case is what is executed."""
    conv = f"conv_{kernel}" if kernel != "blocks_mve" else kernel
    pytest.importorskip("capstone", reason="capstone is not installed")
    took = []
    for share in (0.25, 1.0):
        b = Builder()
        layer(b, pruned(b, (64, 256), (4, 4), share), zero)
        layer(b, pruned(b, (64, 64), (4, 4), share), zero, size=(4, 5))
        layer(b, pruned(b, (32, 9 * 16), (4, 4), share), zero, size=(5, 7), window=Window((3, 3), pads=(1, 1, 1, 1)))
        compiled = compile(b, tmp_path, target=target)
        assert kernels(compiled) == [kernel, kernel, conv] or share == 1
        measured = bench(compiled.plan, compiled.plan, "pruned")
        assert measured.mismatches == 0 and measured.instructions is not None
        assert measured.instructions == pytest.approx(compiled.wcet().instructions, rel=1e-3)       # with the call around it
        took.append((measured.instructions, compiled.plan.weight_bytes))
        taken = [d.reason for d in compiled.plan.decisions if d.stage == "trade" and d.taken]
        assert len(taken) == (3 if share < 1 else 0) and all(" instructions for " in why and ", -" in why for why in taken)
    (fast, small), (slow, large) = took
    assert fast < 0.7 * slow and small < 0.45 * large


@pytest.mark.parametrize(("block", "zero", "taken"), [((16, 4), -7, True), ((16, 4), None, True), ((4, 4), -7, False),
                                                      ((4, 4), None, False)])
def test_a_host_reads_sixteen_outputs_at_once(block: tuple[int, int], zero: int | None, taken: bool, tmp_path: Path) -> None:
    """Zeros of smaller blocks are not zeros of all of them."""
    b = Builder()
    layer(b, pruned(b, (256, 512), block, 0.25), zero)
    compiled = compile(b, tmp_path, target="host")
    assert kernels(compiled) == ["blocks_vec" if taken else "conv_vec"]
    assert_c_is_reference(compiled)


def test_no_price_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a target lists no price there is nothing to judge by."""
    monkeypatch.setattr(price, "is_listed", lambda plan, step: step.kernel.name != "blocks_dsp")
    b = Builder()
    layer(b, pruned(b, (64, 256), (4, 4), 0.25), -7)
    compiled = compile(b, tmp_path, target=M4)
    assert not any(k.startswith("blocks") for k in kernels(compiled))
    assert any(d.reason.endswith("no price to tell") for d in compiled.plan.decisions)


@pytest.mark.parametrize(("zeros", "ram", "kernel"), [(0.7, None, "blocks_dsp"), (0.95, None, "skip_dsp"),
                                                      (0.95, 0, "blocks_dsp")])
def test_a_step_takes_one_offer(zeros: float, ram: int | None, kernel: str, tmp_path: Path) -> None:
    """Pruned, and read by many zeros: what saves most is taken, unless its scratch has no room; ram: beside the other's."""
    b = Builder()
    layer(b, pruned(b, (64, 256), (4, 4), 0.25), -7)
    plain = compile(b, tmp_path, target=M4).plan
    compiled = compile(b, tmp_path, target=M4, zeros={trade.operand(plain.steps[0]): zeros},
                       ram=None if ram is None else plain.ram_bytes + ram)
    assert kernels(compiled) == [kernel]
    (other,) = [d.reason for d in compiled.plan.decisions if d.stage == "trade" and d.subject.split()[-1] in
                ({"blocks_dsp", "skip_dsp"} - {kernel})]
    assert other.endswith("another one is taken" if ram is None else "bytes of scratch are more than the arena has room for")
    assert_c_is_reference(compiled)
