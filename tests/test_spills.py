"""What waits on the stack: counted from machine code, estimated for kernels."""
from __future__ import annotations

from pathlib import Path

import pytest
from test_measure import needs_gcc

import fuse2c
from fuse2c import toolchain
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
    live = _registers.of_kernel(plan, plan.kernel_steps[0])
    assert row.taken == (live <= 13) and f"some {live} values live in loops, 13 registers" in row.reason
    assert live > max(_registers.kept(plan, s) for s in plan.steps)
