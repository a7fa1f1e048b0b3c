"""What waits on the stack: counted from machine code, estimated for kernels."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graphs import Builder, assert_c_is_reference, compile, kernels
from test_measure import needs_gcc, needs_qemu

import fuse2c
from fuse2c import pressure, price, toolchain
from fuse2c.bench import bench
from fuse2c.fusion import rules
from fuse2c.measure import spills
from fuse2c.passes import _registers

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits_int8.onnx"
CODE = """
00000000 <f>:
   0:\te92d 4ff0 \tstmdb\tsp!, {r4, r5, lr}
   4:\tb087      \tsub\tsp, #28
   6:\t9003      \tstr\tr0, [sp, #12]
   8:\te9cd 1204 \tstrd\tr1, r2, [sp, #16]
   c:\t9b14      \tldr\tr3, [sp, #80]\t; 0x50
   e:\t9a05      \tldr\tr2, [sp, #20]
  10:\t6812      \tldr\tr2, [r2, #0]
  12:\td1fc      \tbne.n\te <f+0xe>
  14:\t9803      \tldr\tr0, [sp, #12]
  16:\t9301      \tstr\tr3, [sp, #4]
  18:\tf7ff fffe \tbl\t0 <g>
  1c:\td1f6      \tbne.n\tc <f+0xc>
  1e:\tf85d 4b04 \tldr.w\tr4, [sp], #4
"""


def test_a_disassembly_by_hand() -> None:
    """Slots 12 and 20 are read again; 16 is not, nor is the argument for g; what is pushed and popped is no spill."""
    ((name, lines),) = spills.functions(CODE)
    assert spills.of_code(name, lines) == spills.Spills("f", slots=2, stores=2, reloads=2, inner=1)


@needs_gcc
@pytest.mark.parametrize(("live", "spilled"), [(4, False), (24, True)])
def test_what_a_compiler_spills(live: int, spilled: bool, tmp_path: Path) -> None:
    names = [f"a{i}" for i in range(live)]
    source = tmp_path / "f.c"
    source.write_text("int f(const int *p, int n)\n{\n" + "".join(f"    int {a} = p[{i}];\n" for i, a in enumerate(names))
                      + "    for (int i = 0; i < n; ++i) {\n" + "".join(f"        {a} += p[i + {i}] * {b};\n" for i, (a, b) in
                                                                      enumerate(zip(names, names[1:] + names[:1], strict=True)))
                      + f"    }}\n    return {' ^ '.join(names)};\n}}\n")
    tools = toolchain.cross(("-mcpu=cortex-m4", "-mthumb"))
    found = spills.of_objects([toolchain.compile_object(tools, source, tmp_path / "f.o", opt="-O2")], tools.cc)
    assert bool(found) == spilled
    if found:
        assert found[0].function == "f" and found[0].slots >= live - 13 and found[0].inner > 0


def test_kernels_of_several_steps_are_estimated() -> None:
    plan = fuse2c.plan(DIGITS, target="cortex-m4").plan
    (row,) = [d for d in plan.decisions if d.stage == "registers"]
    live = pressure.of_kernel(plan, plan.kernel_steps[0])
    assert row.taken == (live <= 13) and f"some {live} values live in loops, 13 registers" in row.reason
    assert live > max(pressure.kept(plan, s) for s in plan.steps)


def branches(count: int, size: int = 250) -> Builder:
    """Integers times and plus numbers that no instruction holds, once for each of some results."""
    b = Builder()
    x = b.input((size,), dtype=np.int32)
    for _ in range(count):
        factor, term = (b.const(np.int32(n)) for n in b.rng.integers(300, 10 ** 6, 2))
        b.output(b.op("Add", b.op("Mul", x, factor), term))
    return b


def test_values_of_a_loop_are_counted(tmp_path: Path) -> None:
    """Index, operand, three results; large numbers only, each once."""
    b = Builder()
    x = b.input((7,), dtype=np.int32)
    for n in (255, -256, -256):
        b.output(b.op("Mul", x, b.const(np.int32(n))))
    plan = compile(b, tmp_path, target="cortex-m4").plan
    assert pressure.of_loop(plan.graph, plan.steps[0].node.parts, plan.target.processor) == 1 + 1 + 3 + 1


@pytest.mark.parametrize(("target", "numbers"), [("cortex-m4", 1), ("cortex-m0plus", 0)])
def test_real_numbers_of_a_loop(target: str, numbers: int, tmp_path: Path) -> None:
    """In software each call loads its own."""
    b = Builder()
    b.output(b.op("Mul", b.input((7,)), b.const(np.float32(0.3))))
    plan = compile(b, tmp_path, target=target).plan
    assert pressure.of_loop(plan.graph, plan.steps[0].node.parts, plan.target.processor) == 1 + 1 + 1 + numbers


def test_what_has_no_register_has_a_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registers, "SURE", 1e9)
    plan = compile(branches(12), tmp_path, target="cortex-m4").plan
    (step,), p = plan.steps, plan.target.processor
    assert pressure.spilled(plan, step) == pytest.approx((1 + 1 + 12 + 24 - 13) * 250 * p.spill)
    monkeypatch.setattr(pressure, "spilled", lambda plan, step: 0.0)
    without = price.of_step(plan, step).instructions
    monkeypatch.undo()
    assert price.of_step(plan, step).instructions - without == pytest.approx(pressure.spilled(plan, step))


@needs_qemu
@pytest.mark.parametrize(("target", "loops"), [("cortex-m4", [4, 4, 4]), ("cortex-m0plus", [12])])
def test_a_wide_loop_is_divided_where_that_takes_less(target: str, loops: list[int], tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of spilled values a second and a third loop; where the core takes more for a loop than for those, one."""
    chosen = compile(branches(12), tmp_path, target=target)
    assert [len(s.node.outputs) for s in chosen.plan.steps] == loops and chosen.plan.launches == 1
    whys = [d.reason for d in chosen.plan.decisions if d.stage == "fuse" and "live in one loop" in d.reason]
    assert len(whys) == (len(loops) > 1) and all(f"{len(loops)} loops save" in why for why in whys)
    assert_c_is_reference(chosen)
    monkeypatch.setattr(*(rules, "POINTERS", 5) if len(loops) == 1 else (_registers, "SURE", 1e9))
    other = compile(branches(12), tmp_path, target=target)
    assert [len(s.node.outputs) for s in other.plan.steps] == ([4, 4, 4] if len(loops) == 1 else [12])
    took = [bench(c.plan, c.plan, "wide").instructions for c in (chosen, other)]
    assert took[0] is not None and took[1] is not None and took[0] < 0.95 * took[1]


def test_what_hands_on_a_tensor_stays_together(tmp_path: Path) -> None:
    """Thirteen operands of one sum: loops of fewer would hand on whole tensors."""
    b = Builder()
    y = b.input((50,), dtype=np.int32)
    for _ in range(12):
        y = b.op("Add", y, b.input((50,), dtype=np.int32))
    b.output(y)
    plan = compile(b, tmp_path, target="cortex-m4").plan
    assert len(plan.steps) == 1 and plan.ram_bytes == 0


@needs_qemu
def test_vectors_compute_one_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four results of one operand: a kernel with vectors for each, in one launch."""
    def results() -> Builder:
        b = Builder()
        x = b.input((256,))
        for n in (0.3, -1.7, 2.5, 0.6):
            b.output(b.op("Add", b.op("Mul", x, b.const(np.float32(n))), b.const(np.float32(n + 1))))
        return b
    chosen = compile(results(), tmp_path, target="cortex-m55")
    assert kernels(chosen) == ["elementwise_mve"] * 4 and chosen.plan.launches == 1
    monkeypatch.setattr(_registers, "VECTORS", "none")
    other = compile(results(), tmp_path, target="cortex-m55")
    took = [bench(c.plan, c.plan, "wide").instructions for c in (chosen, other)]
    assert kernels(other) == ["elementwise"] and took[0] is not None and took[1] is not None and took[0] < 0.5 * took[1]
