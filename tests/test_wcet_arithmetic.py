"""The compiler's arithmetic, whose loops data ends: no run of a routine is longer than its bound."""
from __future__ import annotations

from pathlib import Path

import pytest
from test_measure import needs_gcc, needs_qemu

from fuse2c import toolchain
from fuse2c.measure import qemu
from tests import test_measure as toy

pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("networkx", reason="networkx is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")

from test_wcet import M0, TICK, program
from test_wcet_exact import counting_plugin, counts

from fuse2c import wcet


@needs_qemu
@pytest.mark.parametrize("board", [toy.M3, M0], ids=["M3", "M0+"])
def test_soft_float_rests_on_an_assumption(tmp_path: Path, board: qemu.Board) -> None:
    (tmp_path / "build").mkdir()
    body = toy.DOUBLE.replace("f[i] * toy_scale[i]", "f[i] / (f[4 - i] + toy_scale[i])")
    result = wcet.analyse(program(tmp_path, body, board, "-O2"), "toy_run")
    measured = qemu.run(toy.model(tmp_path, body), board, "-O2")
    assert result.instructions >= measured.instructions - TICK and result.ipet >= result.instructions
    assert any("__aeabi_fdiv" in text for text in result.assumptions) and not result.single_path


DIVISIONS = {      # the longest quotients: type, operation, operands
    "signed": ("int32_t", "/", "-2147483647 - 1", "1"), "signed-rest": ("int32_t", "%", "-2147483647", "-1"),
    "unsigned": ("uint32_t", "/", "0xFFFFFFFFu", "1u"), "unsigned-rest": ("uint32_t", "%", "0xFFFFFFFFu", "3u"),
    "long": ("int64_t", "/", "-0x7FFFFFFFFFFFFFFF", "1"), "long-unsigned": ("uint64_t", "%", "0xFFFFFFFFFFFFFFFFu", "1u"),
}


@needs_qemu
@pytest.mark.parametrize("name", DIVISIONS)
def test_divisions_of_data_without_an_instruction(name: str, tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    kind, operation, a, b = DIVISIONS[name]
    body = f"(void)x; for (int i = 0; i < 5; ++i) {{ g[i] = f[i]; }} volatile {kind} a = {a}, b = {b};"
    body += f"for (int i = 0; i < 40; ++i) {{ y[i] = (int8_t)(a {operation} b); }} return 0;"
    result = wcet.analyse(program(tmp_path, body, M0, "-O2"), "toy_run")
    measured = qemu.run(toy.model(tmp_path, body), M0, "-O2").instructions
    assert measured - TICK <= result.instructions <= 1.25 * measured and not result.single_path
    assert result.instructions <= result.ipet <= 1.05 * result.instructions
    assert any("division" in text and "div" in text.rpartition(" in ")[2] for text in result.assumptions)


# Operands: any bits, small and subnormal numbers, and those at the ends.
BITS = """
static uint32_t seed = 99991u;
static uint32_t any(void) { seed ^= seed << 13; seed ^= seed >> 17; seed ^= seed << 5; return seed; }
static const uint32_t ends[] = {0u, 0x80000000u, 1u, 0x7fffffu, 0x800000u, 0x3f800000u, 0x7f7fffffu, 0x7f800000u, 0x400000u,
    3u, 0xffffffffu, 0x7fffffffu, 0x3ff00000u, 0x7fefffffu, 0xfffffu, 0x100000u, 0x55555555u};
static uint32_t word(void)
{
    const uint32_t kind = any() & 7u;
    return kind < 3u ? ends[any() % 17u] : kind == 3u ? any() >> (any() & 31u) : kind == 4u ? any() & 0x800fffffu : any();
}
static uint64_t words(void) { const uint64_t high = word(); return high << 32 | word(); }
"""
TYPES = {"f": ("float", "uint32_t", "word()"), "d": ("double", "uint64_t", "words()"), "i": ("int32_t", "uint32_t", "word()"),
         "u": ("uint32_t", "uint32_t", "word()"), "l": ("int64_t", "uint64_t", "words()"),
         "ul": ("uint64_t", "uint64_t", "words()")}
ROUTINES = {        # operands, operation
    "__aeabi_fadd": ("f", "+"), "__aeabi_fmul": ("f", "*"), "__aeabi_fdiv": ("f", "/"), "__aeabi_dadd": ("d", "+"),
    "__aeabi_dmul": ("d", "*"), "__aeabi_ddiv": ("d", "/"), "__aeabi_idiv": ("i", "/"), "__aeabi_uidiv": ("u", "/"),
    "__aeabi_ldivmod": ("l", "/"), "__aeabi_uldivmod": ("ul", "%"),
}


@needs_qemu
@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m3"])
def test_no_run_of_a_routine_is_longer_than_its_bound(core: str, tmp_path: Path) -> None:
    board = M0 if core == "cortex-m0plus" else toy.M3
    lines = []
    for kind, operation in ROUTINES.values():
        name, whole, value = TYPES[kind]
        skipped = "" if name in ("float", "double") else "if (q != 0)"
        lines.append(f"{{ union {{ {whole} n; {name} x; }} a, b; a.n = {value}; b.n = {value}; const {whole} q = b.n; (void)q; "
                     f"{skipped} {{ volatile {name} r = a.x {operation} b.x; (void)r; }} }}")
    body = "(void)x; (void)y; (void)f; (void)g;\nfor (int n = 0; n < 700; ++n) {\n" + "\n".join(lines) + "\n} return 0;"
    (tmp_path / "build").mkdir()
    elf = program(tmp_path, body, board, "-O2", before=BITS)
    plugin = counting_plugin(tmp_path)
    for name in ROUTINES:
        if core == "cortex-m3" and name in ("__aeabi_idiv", "__aeabi_uidiv"):
            continue                                # it has instructions
        seen = counts(elf, name, ("toy_run",), board, plugin)
        result = wcet.analyse(elf, name, core)
        assert len(seen) > 500 and result.ipet >= result.instructions >= max(seen), name
        assert result.instructions <= 2.6 * max(seen), name


@needs_gcc
@pytest.mark.parametrize("opt", ["-O0", "-O1", "-O3"])
def test_a_division_of_ones_own(opt: str, tmp_path: Path) -> None:
    """A bit a turn, not libgcc's several: 31 shifts to align, and 32 bits of a quotient."""
    (tmp_path / "f.c").write_text("unsigned __aeabi_uidiv(unsigned a, unsigned b) { unsigned q = 0, s = 0;\n"
                                  "if (b == 0) { return 0; } while (b < a && !(b >> 31)) { b <<= 1; s++; }\n"
                                  "for (;;) { if (a >= b) { a -= b; q |= 1u; } if (s == 0) { break; } s--; b >>= 1; q <<= 1; }"
                                  "return q; }\nunsigned f(unsigned a, unsigned b) { return a / b; }\n")
    elf = tmp_path / "f.elf"
    toolchain.run([toolchain.ARM_GCC, "-mcpu=cortex-m0plus", "-mthumb", opt, "-fno-builtin", str(tmp_path / "f.c"), "-o",
                   str(elf), "-nostdlib", "-Wl,-e,f"], "does not link")
    result = wcet.analyse(elf, "f")
    assert [x.maximum for x in result.loops] == [33, 33] and any("int32 33" in text for text in result.assumptions)
    assert result.instructions > 31 * 4 + 32 * 6
