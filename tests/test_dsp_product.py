"""Products of two stored activations on cores with DSP: the portable bodies equal numpy to the bit, and so does the board."""
from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import DRAW
from graphs import Builder, assert_c_is_reference, compile, kernels
from hypothesis import given
from hypothesis import strategies as st

from fuse2c import toolchain
from fuse2c.bench import bench, worst_case
from fuse2c.measure import qemu

I8, U8 = np.int8, np.uint8
TICK = 80           # instructions: twice what the boards' timer counts as one
ZEROS = [I8(-128), I8(127), I8(5), U8(0), U8(255), U8(131)]


def product(b: Builder, left: tuple[int, ...], right: tuple[int, ...], zeros: tuple[Any, Any], turned: bool = False) -> None:
    """left [..., M, K] times right [..., K, N], which is stored as [..., N, K] if turned: by a Gemm, so without batches."""
    x, y = b.stored(left, 0.037, zeros[0]), b.stored((*right[:-2], right[-1], right[-2]) if turned else right, 0.021, zeros[1])
    t = b.op("Gemm", x, y, transB=1) if turned else b.op("MatMul", x, y)
    b.output(b.quantise(t, 0.037 * 0.021 * 3000 * left[-1] ** 0.5 / 20, zeros[0].dtype.type(9)))


def test_drawn_products(tmp_path: Path) -> None:
    """Any rest of rows, columns and depth; batches that are broadcast; both operands unsigned or signed."""
    @DRAW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        b = Builder(seed=data.draw(st.integers(0, 99)))
        for _ in range(3):
            m, k, n = (data.draw(st.integers(*limits)) for limits in ((4, 9), (4, 22), (1, 11)))
            turned = data.draw(st.booleans())
            batch, shared = (), data.draw(st.booleans())
            if not turned:
                batch = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
            product(b, (*batch, m, k), (*(() if shared else batch), k, n),
                    (data.draw(st.sampled_from(ZEROS)), data.draw(st.sampled_from(ZEROS))), turned)
        compiled = compile(b, tmp_path, target="cortex-m4", requant=data.draw(st.sampled_from(["fixed", "float"])))
        assert set(kernels(compiled)) == {"matmul_dsp"}
        assert_c_is_reference(compiled)
    run()


@pytest.mark.parametrize(("left", "right"), [((3, 8), (8, 5)), ((6, 3), (3, 5))], ids=["rows", "depth"])
def test_small_ones_stay(left: tuple[int, int], right: tuple[int, int], tmp_path: Path) -> None:
    b = Builder()
    product(b, left, right, (I8(3), I8(-9)))
    compiled = compile(b, tmp_path, target="cortex-m4")
    assert kernels(compiled) == ["matmul"]
    assert_c_is_reference(compiled)


def test_on_the_board(tmp_path: Path) -> None:
    """The same in QEMU, in as many instructions as the analysis says that the longest run takes."""
    if shutil.which(toolchain.ARM_GCC) is None or shutil.which(qemu.QEMU) is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    b = Builder()
    product(b, (2, 9, 15), (2, 15, 7), (I8(-128), I8(127)))
    product(b, (5, 18), (18, 6), (U8(255), I8(-3)), turned=True)
    plan = compile(b, tmp_path, target="cortex-m4").plan
    found, worst = bench(plan, plan, "products"), worst_case(plan)
    assert found.mismatches == 0 and found.instructions is not None
    assert worst.branches == () and abs(worst.instructions - found.instructions) <= TICK
