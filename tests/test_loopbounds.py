"""The bounds in front of loops are true: the generated C counts its own turns."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from graphs import PORTABLE

import fuse2c
from fuse2c import toolchain
from fuse2c.codegen.loops import bounded
from fuse2c.errors import ToolMissing

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
BOUND = re.compile(r"F2C_LOOPBOUND\((\d+), (\d+)\)")
FIXED = re.compile(r"F2C_LOOPBOUND\((\d+), (\1)\)")
COUNTER = """
#include <stdio.h>
#include <stdlib.h>
static long turns[100000], least[100000], most[100000], seen[100000];
static void f2c_check(int line)
{
    if (seen[line] && (turns[line] < least[line] || turns[line] > most[line])) {
        printf("line %d: %ld turns, not %ld to %ld\\n", line, turns[line], least[line], most[line]);
        exit(1);
    }
}
static void f2c_begin(int line, long low, long high)
{
    f2c_check(line);
    seen[line] = 1, turns[line] = 0, least[line] = low, most[line] = high;
}
#undef F2C_LOOPBOUND
#define F2C_LOOPBOUND(low, high) f2c_begin(__LINE__, low, high);
"""
MAIN = """
int main(void)
{
    %s
    for (int line = 0; line < 100000; ++line) {
        f2c_check(line);
    }
    return 0;
}
"""


def counted(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Runs the model's own example with counters at every loop that has a bound."""
    try:
        cc = toolchain.host().cc
    except ToolMissing as error:
        pytest.skip(str(error))
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line.lstrip().startswith("F2C_LOOPBOUND("):
            loop = next(i for i in (at + 1, at + 2) if lines[i].lstrip().startswith("for ("))
            lines[loop] += f" ++turns[{at + 1}];"
    name = next(folder.glob("*_weights.h")).name.removesuffix("_weights.h")
    last = max(i for i, line in enumerate(lines) if line.startswith("#include"))
    body = "\n".join([*lines[:last + 1], COUNTER, "#line " + str(last + 2), *lines[last + 1:]])
    example = (folder / "example_main.c").read_text()
    declared = re.findall(r"^static .*\[.*;$", example, re.M)
    call = re.search(rf"{name}_run\([^;]*;", example)
    assert call is not None
    (folder / "counted.c").write_text("\n".join([body, *declared, MAIN % call[0]]))
    toolchain.run([cc, "-std=gnu99", "-O1", "-ffp-contract=off", str(folder / "counted.c"), str(folder / f"{name}_weights.c"),
                   "-lm", "-o", str(folder / "counted")], "the counting program does not compile")
    return subprocess.run([str(folder / "counted")], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("options", [{}, {"target": "cortex-m4", "step_budget": 20000}, {"fuse": False, "optimize": "ram"}],
                         ids=["portable", "dsp, steps", "unfused"])
@pytest.mark.parametrize("kind", ["int8", "fp32"])
def test_loops_turn_as_often_as_it_says(kind: str, options: dict[str, object], tmp_path: Path) -> None:
    model = fuse2c.plan(DIGITS / f"digits_{kind}.onnx", **{"target": PORTABLE, **options})
    folder = model.emit(tmp_path / "out")
    text = (folder / f"digits_{kind}.c").read_text()
    loops, bounds = len(re.findall(r"\bfor \(", text)), text.count("F2C_LOOPBOUND(")
    assert bounds >= 0.7 * loops > 10       # where padding ends a loop, only the machine code tells
    assert counted(folder, text).returncode == 0
    wrong = FIXED.sub(lambda m: f"F2C_LOOPBOUND({int(m[1]) + 1}, {int(m[2]) + 1})", text)
    done = counted(folder, wrong)
    assert done.returncode == 1 and "turns, not" in done.stdout


def test_the_pragma_is_taclebenchs(tmp_path: Path) -> None:
    try:
        cc = toolchain.host().cc
    except ToolMissing as error:
        pytest.skip(str(error))
    folder = fuse2c.plan(DIGITS / "digits_int8.onnx").emit(tmp_path / "out")
    source = str(folder / "digits_int8.c")
    seen = toolchain.run([cc, "-E", "-DF2C_LOOPBOUNDS", source], "the preprocessor failed")
    first = BOUND.search((folder / "digits_int8.c").read_text())
    assert first is not None and f"#pragma loopbound min {first[1]} max {first[2]}" in seen
    assert "loopbound" not in toolchain.run([cc, "-E", source], "the preprocessor failed")


@pytest.mark.parametrize(("loop", "bound"), [
    ("for (int32_t i = 0; i < 7; ++i) {", "7, 7"), ("for (int32_t i = 1; i < 8; i += 3) {", "3, 3"),
    ("for (int32_t i = A; i < A * B - 1; ++i) {", "8, 8"), ("for (int32_t y = row; y < row_end; ++y) {", "1, 9"),
    ("for (int32_t i = 5; i < 5; ++i) {", "0, 0"), ("for (int32_t i = 0; i < n; ++i) {", ""),
    ("for (int32_t i = 0; i < (A); ++i) {", ""), ("for (int32_t i = 0; i < A / B; ++i) {", "")])
def test_what_is_constant(loop: str, bound: str) -> None:
    text = f"static void f(int32_t n)\n{{\n    enum {{ A = 3, B = 4 }};\n    F2C_UNROLL\n    {loop}\n"
    got = bounded(text, {"f": 9})
    assert got == (text.replace("    F2C_UNROLL", f"    F2C_LOOPBOUND({bound})\n    F2C_UNROLL") if bound else text)
    other = text.replace("void f(", "void g(").replace("};", "};\n}\nstatic void h(int32_t n)\n{")
    assert ("F2C_LOOPBOUND" in bounded(other, {"f": 9})) == (bound != "" and "row" not in loop and "A" not in loop)
