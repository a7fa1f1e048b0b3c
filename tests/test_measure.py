"""Compilers, and what a compiled model costs: on tiny hand-written models, so that each number can be checked."""
from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

from fuse2c import toolchain
from fuse2c.errors import BuildError, ToolMissing
from fuse2c.measure import elf, qemu, stack

M3 = qemu.Board("mps2-an385", ("-mcpu=cortex-m3",))
M4 = qemu.Board("mps2-an386", ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"))
M7 = qemu.Board("mps2-an500", ("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard"))
M33 = qemu.Board("mps2-an505", ("-mcpu=cortex-m33", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard"))
M55 = qemu.Board("mps3-an547", ("-mcpu=cortex-m55", "-mfloat-abi=hard"))
BOARDS = {"M3": M3, "M4": M4, "M7": M7, "M33": M33, "M55": M55}

needs_gcc = pytest.mark.skipif(not shutil.which(toolchain.ARM_GCC), reason=f"{toolchain.ARM_GCC} is not installed")
needs_qemu = pytest.mark.skipif(not shutil.which(qemu.QEMU) or not shutil.which(toolchain.ARM_GCC),
                                reason=f"{qemu.QEMU} or {toolchain.ARM_GCC} is not installed")
ARM_CLANG = next((name for name in ("clang", "clang-14") if shutil.which(name)), "")
needs_clang = pytest.mark.skipif(not ARM_CLANG, reason="clang is not installed")

RUN = "int toy_run(const int8_t *x, const float *f, int8_t *y, float *g{arena})"
DOUBLE = """
    for (int i = 0; i < 40; ++i) {
        y[i] = (int8_t)(x[i] * 2);
    }
    for (int i = 0; i < 5; ++i) {
        g[i] = f[i] * toy_scale[i];
    }
    return 0;
"""
X = np.arange(-20, 20, dtype=np.int8)
F = np.array([0.5, -1.25, 3.0e8, 1e-30, -0.0], dtype=np.float32)
OUTPUTS = ((np.dtype(np.int8), 40), (np.dtype(np.float32), 5))


def model(folder: Path, body: str = DOUBLE, before: str = "", arena: str = "",
          weights: str = "const float toy_scale[5] = {2, 2, 2, 2, 2};") -> qemu.Firmware:
    """A model folder as `fuse2c build` would write it, with this body of toy_run."""
    prototype = RUN.format(arena=arena)
    guard = "#ifndef TOY_H\n#define TOY_H\n#include <stdint.h>\n#define TOY_ARENA_BYTES 24\n"
    (folder / "toy.h").write_text(f"{guard}{prototype};\n#endif\n")
    (folder / "toy_weights.h").write_text("extern const float toy_scale[5];\n")
    (folder / "toy_weights.c").write_text(f'#include "toy_weights.h"\n{weights}\n')
    (folder / "toy.c").write_text(f'#include "toy.h"\n#include "toy_weights.h"\n{before}\n{prototype}\n{{{body}}}\n')
    return qemu.Firmware("toy", folder, (X, F), OUTPUTS, caller_arena=bool(arena))


@needs_qemu
@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_runs_count_and_repeat(tmp_path: Path, board: qemu.Board) -> None:
    firmware = model(tmp_path)
    first, again = qemu.run(firmware, board), qemu.run(firmware, board)
    assert first.returned == 0
    assert np.array_equal(first.outputs[0], X * 2)
    assert first.outputs[1].tobytes() == (F * np.float32(2)).tobytes()
    assert 0 < first.instructions < 2000
    assert first.instructions == again.instructions
    assert first.stack_used <= stack.of_model(tmp_path, "toy", board.cflags).bytes


@needs_qemu
@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_instructions_of_a_known_loop(tmp_path: Path, board: qemu.Board) -> None:
    # 2 instructions a turn; 340 million turns are more than one wrap of the 24-bit timer.
    turns = 340_000_000 if board is M4 else 1_000_000
    loop = f"""uint32_t turns = {turns}u;
        __asm__ volatile("1: subs %0, %0, #1\\n\\tbne 1b" : "+r"(turns) : : "cc");"""
    short = qemu.run(model(tmp_path), board).instructions
    long = qemu.run(model(tmp_path, loop + DOUBLE), board).instructions
    assert abs(long - short - 2 * turns) <= 100


@needs_qemu
def test_stack_and_arena(tmp_path: Path) -> None:
    # The volatile array takes 400 bytes and all of it is written, so measured and computed stack both hold it.
    before = "static int deep(const int8_t *x) { volatile int32_t a[100]; int s = 0;" \
             " for (int i = 0; i < 100; ++i) { a[i] = x[i % 40]; } for (int i = 0; i < 100; ++i) { s += a[i]; }" \
             " return s; }"
    body = "uint8_t *bytes = arena; bytes[23] = 1; bytes[0] = (uint8_t)deep(x);" + DOUBLE.replace("urn 0", "urn -7")
    measured = qemu.run(model(tmp_path, body, before, ", void *arena"), M4, "-O2")
    computed = stack.of_model(tmp_path, "toy", M4.cflags, opt="-O2")
    assert measured.returned == -7
    assert 400 <= measured.stack_used <= computed.bytes <= 480


@needs_qemu
def test_library_calls_stay_within_the_table(tmp_path: Path) -> None:
    """The largest users of stack among the functions that models call: measured stack below the computed one."""
    body = "g[0] = (float)((int64_t)(f[2] * 1e9f) / (x[3] + 77)); g[1] = tanhf(f[1]) + powf(f[0], f[0]);" \
           "g[2] = expf(f[0]) + erff(f[1]); g[3] = sinf(f[2]); g[4] = floorf(f[1]) + sqrtf(f[0]) + fmodf(f[2], f[0]);" \
           "memset(y, 0, 40); memcpy(y, x, (size_t)(x[20] + 40)); return 0;"
    for board in BOARDS.values():
        firmware = model(tmp_path, body, "#include <math.h>\n#include <string.h>")
        measured = qemu.run(firmware, board)
        assert measured.stack_used <= stack.of_model(tmp_path, "toy", board.cflags).bytes
        assert measured.outputs[1][3] == pytest.approx(np.sin(np.float64(F[2])), abs=1e-5)
        assert np.array_equal(measured.outputs[0], X)


@needs_qemu
@pytest.mark.parametrize(("body", "before", "message"), [
    ("volatile int8_t *p = malloc((size_t)(x[39] + 1)); if (p) { p[0] = x[0]; y[0] = p[0]; }" + DOUBLE,
     "#include <stdlib.h>", "links a heap: .*malloc"),
    ("*(volatile uint32_t *)0x50000000u = 1;" + DOUBLE, "", "faulted"),
    ("y[40] = 1;" + DOUBLE, "", "behind an output"),
    (DOUBLE.replace("i < 40", "i < 39"), "", "two answers"),
    ("static int8_t runs; ++runs; y[39] = runs;" + DOUBLE.replace("i < 40", "i < 39"), "", "two answers"),
    ("volatile int8_t big[70000]; big[0] = 1; y[0] = big[0];" + DOUBLE, "", "overflowed its stack"),
    ("int unused = 1;" + DOUBLE, "", "does not compile"),
], ids=["heap", "fault", "overrun", "unwritten", "state", "stack", "warning"])
def test_bad_models_are_refused(tmp_path: Path, body: str, before: str, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        qemu.run(model(tmp_path, body, before), M4, timeout_s=30)


@needs_qemu
def test_endless_run_ends(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no end of the run"):
        qemu.run(model(tmp_path, "while (*(const volatile int8_t *)x != 100) { }" + DOUBLE), M4, timeout_s=2)


@needs_qemu
@needs_clang
@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_clang_for_arm(tmp_path: Path, board: qemu.Board) -> None:
    measured = qemu.run(model(tmp_path, before="#include <string.h>"), board, cc=ARM_CLANG)
    assert np.array_equal(measured.outputs[0], X * 2)
    assert measured.outputs[1].tobytes() == (F * np.float32(2)).tobytes()


def test_nonsense_from_the_harness_is_refused(tmp_path: Path) -> None:
    firmware = qemu.Firmware("toy", tmp_path, (X,), OUTPUTS[:1], caller_arena=False)
    good = "f2c-bench 1\nreturned ffffffff\ninstructions 2a\nstack 10\nrepeat 1\nguard 1\noutput 00 00000028\n" \
           f"{X[:32].tobytes().hex()}\n{X[32:].tobytes().hex()}\nend\n"
    measured = qemu.parse(good, firmware)
    assert (measured.returned, measured.instructions, measured.stack_used) == (-1, 42, 16)
    assert np.array_equal(measured.outputs[0], X)
    for bad in ("", "hello\n", good[:-4], good.replace("2a", "xyz"), good.replace("stack", "heap"),
                good.replace("00000028", "00000029")):
        with pytest.raises(BuildError, match="something else than a measurement"):
            qemu.parse(bad, firmware)


def compiled(tmp_path: Path, firmware: qemu.Firmware, board: qemu.Board = M4) -> tuple[Path, ...]:
    tools = toolchain.cross(board.cflags)
    return toolchain.compile_model(tools, firmware.folder, "toy", tmp_path / "objects", opt="-O2", extra=stack.FLAGS)


@needs_gcc
def test_sizes(tmp_path: Path) -> None:
    before = "static uint8_t toy_arena[96]; static int32_t toy_state = 3; static const int32_t table[10] = {1, 2, 3};"
    body = "static int16_t kept[4]; kept[0] = x[0]; toy_arena[x[0] & 7] = 1;" \
           "y[0] = (int8_t)(toy_arena[x[1] & 7] + kept[x[2] & 3] + table[x[3] & 7] + toy_state++);" \
           "return (int)f[0] + (int)g[0];"
    objects = compiled(tmp_path, model(tmp_path, body, before))
    measured = elf.sizes(objects, "toy")
    assert measured == elf.of_model(tmp_path, "toy", M4.cflags, opt="-O2")
    assert measured.weights == 5 * 4
    assert measured.static == 96 + 4 + 8
    assert measured.static_without("toy_arena") == 4 + 8
    assert measured.static_without("kept") == 96 + 4       # a static variable inside a function
    assert measured.ram_symbols["toy_arena"] == 96
    assert 40 + 20 < measured.code < 40 + 200      # the table and a handful of instructions


@needs_gcc
def test_weights_in_ram_are_refused(tmp_path: Path) -> None:
    weights = "const float toy_scale[5] = {1}; extern float b[2]; float b[2];"
    objects = compiled(tmp_path, model(tmp_path, weights=weights))
    with pytest.raises(BuildError, match="8 bytes of weights would lie in RAM: b"):
        elf.sizes(objects, "toy")


@pytest.mark.parametrize("content", [b"", b"no ELF at all", b"\x7fELF\x01\x01\x01", b"\x7fELF\x01\x01" + b"\xff" * 60])
def test_damaged_elf_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.o").write_bytes(content)
    with pytest.raises(BuildError, match="ELF file"):
        elf.read(tmp_path / "x.o")


@needs_gcc
@pytest.mark.parametrize(("before", "call", "message"), [
    ("int again(int n); int again(int n) { volatile int a[3]; a[n % 3] = n; return n ? again(n - 1) * a[0] + n : 1; }",
     "again(x[0])", "recursion has no largest stack: again -> again"),
    ("__attribute__((noinline)) static int vla(int n) { volatile char a[n]; a[n / 2] = 1; return a[0]; }",
     "vla(x[0])", "vla.* frame of variable size"),
    ("extern int (*toy_hook)(int);", "toy_hook(x[0]) + 1", "toy_run calls through a pointer"),
    ("int unknown(int n);", "unknown(x[0])", "toy_run calls unknown, whose stack is not known"),
], ids=["recursion", "vla", "pointer", "unknown"])
def test_stack_without_a_bound_is_refused(tmp_path: Path, before: str, call: str, message: str) -> None:
    firmware = model(tmp_path, f"y[0] = (int8_t)({call});{DOUBLE}", before)
    with pytest.raises(BuildError, match=message):
        stack.of_model(firmware.folder, "toy", M4.cflags)


@needs_gcc
def test_worst_path(tmp_path: Path) -> None:
    big = "__attribute__((noinline)) static int {0}(int n) {{ volatile char a[{1}]; a[n & 7] = 1; return a[0]; }}"
    before = big.format("small", 16) + big.format("large", 256)
    objects = compiled(tmp_path, model(tmp_path, f"y[0] = (int8_t)(small(x[0]) + large(x[1]));{DOUBLE}", before))
    ci_files = [each.with_suffix(".ci") for each in objects]
    worst = stack.worst(ci_files, "toy_run")
    assert [step.split(":")[-1].split(".")[0] for step in worst.path] == ["toy_run", "large"]
    assert 256 <= worst.bytes <= 320
    with pytest.raises(BuildError, match="in none of the call graphs"):
        stack.worst(ci_files, "absent")


@needs_gcc
def test_functions_with_equal_code_have_one_frame(tmp_path: Path) -> None:
    """GCC keeps one of them, and says nothing of the other's frame."""
    same = ("__attribute__((noinline)) static int {0}(int n) {{ volatile int a[40]; "
            "for (int i = 0; i < n; ++i) {{ a[i & 31] = i; }} return a[n & 31]; }}")
    body = f"y[0] = (int8_t)(one(x[0]) + other(x[1]) * 2);{DOUBLE}"
    firmware = model(tmp_path, body, same.format("one") + same.format("other"))
    assert stack.of_model(firmware.folder, "toy", M4.cflags, opt="-Os").bytes >= 160


@pytest.mark.parametrize("cc", [None, *(name for name in ("gcc", "clang", "clang-14") if shutil.which(name))])
def test_host_compiler(tmp_path: Path, cc: str | None) -> None:
    firmware = model(tmp_path)
    try:
        tools = toolchain.host(cc)
    except ToolMissing as error:
        pytest.skip(str(error))
    (tmp_path / "main.c").write_text(
        '#include "toy.h"\nint main(void) { int8_t x[40] = {3}, y[40]; float f[5] = {0}, g[5];'
        ' return toy_run(x, f, y, g) != 0 || y[0] != 6; }\n')
    objects = toolchain.compile_model(tools, firmware.folder, "toy", tmp_path / "objects")
    main = toolchain.compile_object(tools, tmp_path / "main.c", tmp_path / "main.o", include=[tmp_path])
    program = toolchain.link(tools, [*objects, main], tmp_path / "program")
    assert toolchain.run([str(program)], "the program failed") == ""
    assert tools.clang == (cc is not None and "clang" in cc) or cc is None


def test_failures_name_the_command(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int f(int a) { int b = 1; return a; }\n")
    try:
        tools = toolchain.host()
    except ToolMissing as error:
        pytest.skip(str(error))
    with pytest.raises(BuildError, match=r"bad\.c does not compile") as caught:
        toolchain.compile_object(tools, tmp_path / "bad.c", tmp_path / "bad.o")
    assert "-Werror" in caught.value.command
    assert "unused" in caught.value.stderr
    with pytest.raises(ToolMissing, match="no-such-compiler"):
        toolchain.host("no-such-compiler")


def test_missing_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ToolMissing, match=toolchain.ARM_GCC):
        toolchain.cross(("-mcpu=cortex-m3",))
    with pytest.raises(ToolMissing, match="no C compiler"):
        toolchain.host()
    with pytest.raises(ToolMissing, match=qemu.QEMU):
        qemu.run(qemu.Firmware("toy", tmp_path, (), (), caller_arena=False), M3)


@needs_qemu
def test_launch_overhead_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Three small kernels apart and as one: fewer instructions at every size, as the README shows."""
    path = Path(__file__).parents[1] / "scripts" / "launch_overhead.py"
    spec = importlib.util.spec_from_file_location("launch_overhead", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.main() == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert len(rows) == 5 and all(int(row.split()[-2]) >= 20 for row in rows)
    for row in rows:        # QEMU's clock ticks every 40 instructions
        _, three, proven_three, one, proven_one, *_ = (int(n) for n in row.replace(",", "").replace("%", "").split())
        assert 0 <= three - proven_three < 40 and 0 <= one - proven_one < 40
