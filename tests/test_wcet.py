"""Worst cases from machine code: against QEMU's counts, against counts by hand, and programs that must be refused."""
from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import fuse2c
from fuse2c import toolchain
from fuse2c.cli import cli
from fuse2c.errors import Refused, TargetError
from fuse2c.measure import qemu
from tests import test_measure as toy
from tests.test_measure import needs_clang, needs_gcc, needs_qemu

pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("networkx", reason="networkx is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")

from fuse2c import wcet
from fuse2c.target import load
from fuse2c.wcet import facts

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits_int8.onnx"
TICK = 50               # instructions: the granularity of the emulated timers, at most
TURN = 2                # instructions of the loop that makes a count of a value
M0 = qemu.Board("mps2-an385", ("-mcpu=cortex-m0plus",))
BOARDS = {**toy.BOARDS, "M0+": M0}

# A convolution-like kernel: padding by constant conditions, a table of offsets, a clamp, a switch over a constant order.
KERNEL = """
    static const uint8_t order[12] = {0, 1, 1, 2, 0, 1, 2, 2, 0, 0, 1, 2};
    int16_t rows[3] = {0, 1, 2};
    for (int turn = 0; turn < 12; ++turn) {
        const int at = rows[order[turn]];
        int32_t acc = 0;
        for (int i = 0; i < 37; ++i) {
            const int32_t pad = at + i - 4;
            acc += pad >= 0 && pad < 40 ? x[pad] * (i + 1) : 3;
        }
        switch (order[turn]) {
        case 0: acc >>= 3; break;
        case 1: acc = acc * 5 + 1; break;
        default: acc = -acc; break;
        }
        acc = (int32_t)(((int64_t)acc * 1234567890 + (1 << 30)) >> 37);
        y[turn] = (int8_t)(acc < -128 ? -128 : acc > 127 ? 127 : acc);
        rows[order[turn]] = (int16_t)(at + 1);
    }
    for (int i = 12; i < 40; ++i) {
        y[i] = x[i];
    }
    for (int i = 0; i < 5; ++i) {
        g[i] = f[i];
    }
    return 0;
"""


def program(tmp_path: Path, body: str, board: qemu.Board, opt: str, cc: str | None = None, before: str = "") -> Path:
    return qemu.build(toy.model(tmp_path, body, before), board, tmp_path / "build", opt, cc)


def assembled(tmp_path: Path, text: str, core: str = "cortex-m4") -> Path:
    """A linked program from assembly; `f` is the function to analyse."""
    source = tmp_path / "f.S"
    source.write_text(".syntax unified\n.thumb\n.text\n.global f\n.type f, %function\n" + text +
                      ("" if ".size f" in text else "\n.size f, . - f") + "\n")
    flags = [f"-mcpu={core}", "-mthumb", "-nostdlib", "-Wl,-Ttext=0x8000", "-Wl,-e,f"]
    flags += ["-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"] if core == "cortex-m4" else []
    toolchain.run([toolchain.ARM_GCC, *flags, str(source), "-o", str(tmp_path / "f.elf")], "does not assemble")
    return tmp_path / "f.elf"


@needs_qemu
@pytest.mark.parametrize("opt", ["-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_bound_is_not_below_the_measured_count(tmp_path: Path, board: qemu.Board, opt: str) -> None:
    (tmp_path / "build").mkdir()
    result = wcet.analyse(program(tmp_path, KERNEL, board, opt), "toy_run")
    measured = qemu.run(toy.model(tmp_path, KERNEL), board, opt)
    assert result.instructions >= measured.instructions - TICK
    assert result.instructions <= 1.15 * measured.instructions + TICK
    if result.single_path:
        assert result.instructions <= measured.instructions + TICK
    assert result.ipet >= result.instructions
    assert result.stack >= measured.stack_used
    assert result.single_path == (not result.branches)


@needs_qemu
@needs_clang
@pytest.mark.parametrize("board", [toy.M4, M0], ids=["M4", "M0+"])
@pytest.mark.parametrize("opt", ["-O1", "-O3", "-Os"])
def test_clang(tmp_path: Path, board: qemu.Board, opt: str) -> None:
    (tmp_path / "build").mkdir()
    result = wcet.analyse(program(tmp_path, KERNEL, board, opt, toy.ARM_CLANG), "toy_run")
    measured = qemu.run(toy.model(tmp_path, KERNEL), board, opt, toy.ARM_CLANG)
    assert measured.instructions - TICK <= result.instructions <= 1.15 * measured.instructions + TICK


# Instructions that leave a small number in r0, whose turns are then counted.
VALUES = [
    ("movs r1, #9; adds r0, r1, #4", 13), ("movs r1, #9; subs r0, r1, #4", 5), ("movs r1, #9; rsb r0, r1, #20", 11),
    ("movw r0, #300", 300), ("movw r1, #1; movt r1, #2; lsrs r0, r1, #16", 2), ("mvn r1, #6; mvns r0, r1", 6),
    ("movs r1, #13; and r0, r1, #6", 4), ("movs r1, #12; orr r0, r1, #3", 15), ("movs r1, #12; eor r0, r1, #5", 9),
    ("movs r1, #15; bic r0, r1, #6", 9), ("movs r1, #1; mvn r2, #6; orn r0, r1, r2", 7),
    ("movs r1, #3; lsls r0, r1, #4", 48), ("movs r1, #48; lsrs r0, r1, #3", 6),
    ("mvn r1, #63; asr r1, r1, #4; rsb r0, r1, #0", 4),
    ("movs r1, #6; ror r1, r1, #1; mov r0, r1", 3), ("movs r1, #3; movs r2, #5; add r0, r1, r2, lsl #2", 23),
    ("movs r1, #3; movs r2, #2; lsl r0, r1, r2", 12),
    ("movs r1, #3; movs r2, #5; muls r1, r2, r1; mov r0, r1", 15),
    ("movs r1, #3; movs r2, #5; movs r3, #2; mla r0, r1, r2, r3", 17),
    ("movs r1, #3; movs r2, #5; movs r3, #20; mls r0, r1, r2, r3", 5), ("movs r1, #47; movs r2, #5; udiv r0, r1, r2", 9),
    ("movw r1, #0xfffd; movw r2, #0xfffe; smulbb r0, r1, r2", 6),
    ("movw r1, #7; movt r1, #3; movs r2, #5; movs r3, #20; smlatb r0, r1, r2, r3", 35),
    ("mvn r1, #46; mvn r2, #4; sdiv r0, r1, r2", 9), ("movw r1, #0x105; uxtb r0, r1", 5),
    ("movw r1, #7; movt r1, #3; uxth r0, r1", 7),
    ("movs r1, #250; sxtb r1, r1; rsb r0, r1, #0", 6), ("movw r1, #0xfff9; sxth r1, r1; rsb r0, r1, #0", 7),
    ("movw r1, #0x1d0; ubfx r0, r1, #4, #4", 13), ("movw r1, #0x1d0; sbfx r1, r1, #4, #4; rsb r0, r1, #0", 3),
    ("movs r1, #0xff; bfc r1, #3, #5; mov r0, r1", 7), ("movs r0, #0x80; movs r1, #5; bfi r0, r1, #4, #4; subs r0, #1", 79),
    ("movs r1, #1; clz r0, r1", 31), ("mov r1, #0xb0000000; rbit r0, r1", 13),
    ("movw r1, #300; ssat r0, #6, r1", 31), ("movw r1, #300; usat r0, #5, r1", 31),
    ("mov r1, #0x10000; mov r2, #0x70000; umull r3, r0, r1, r2", 7),
    ("mov r1, #0x10000; mvn r2, #0x70000; smull r3, r0, r1, r2; rsb r0, r0, #0", 8),
    ("movw r1, #0x2493; movt r1, #0x9249; movs r2, #49; smull r3, r0, r1, r2; adds r0, r0, r2; asrs r0, r0, #2", 7),
    ("mvn r1, #0; adds r1, r1, #1; mov r2, #7; adc r0, r2, #3", 11), ("movs r1, #3; cmp r1, #5; mov r2, #9; sbc r0, r2, #2", 6),
    ("adr r1, 9f; ldrb r0, [r1, #2]", 3), ("adr r1, 9f; movs r2, #2; ldrh r0, [r1, r2, lsl #1]", 5),
    ("adr r1, 9f; ldrsb r0, [r1, #6]; rsb r0, r0, #0", 2), ("adr r1, 9f; ldrsh r0, [r1, #6]; rsb r0, r0, #0", 2),
    ("ldr r0, 9f+8", 77), ("adr r1, 9f; ldrd r2, r0, [r1, #4]", 77), ("adr r1, 9f+8; ldm r1, {r0, r2}", 77),
    ("adr r1, 9f; ldrb r0, [r1, #1]!; ldrb r0, [r1, #2]!", 4), ("adr r1, 9f; ldrb r0, [r1], #1; ldrb r0, [r1], #1", 2),
    ("sub sp, #8; movs r1, #9; str r1, [sp, #4]; ldr r0, [sp, #4]; add sp, #8", 9),
    ("sub sp, #8; mov r2, sp; movs r1, #9; strb r1, [r2, #5]; ldrb r0, [sp, #5]; add sp, #8", 9),
    ("sub sp, #8; movw r1, #777; strh r1, [sp, #6]; ldrh r0, [sp, #6]; add sp, #8", 777),
    ("sub sp, #8; movs r1, #6; movs r2, #8; strd r1, r2, [sp]; ldr r0, [sp, #4]; add sp, #8", 8),
    ("sub sp, #8; movs r1, #6; movs r2, #8; stm sp, {r1, r2}; ldr r0, [sp, #4]; add sp, #8", 8),
    ("movs r1, #6; push {r1, r2}; pop {r0, r2}", 6), ("movs r1, #9; cmp r1, #9; ite eq; moveq r0, #3; movne r0, #8", 3),
    ("movs r1, #9; cmn r1, #9; ite lt; movlt r0, #3; movge r0, #8", 8),
    ("movs r1, #8; tst r1, #4; ite ne; movne r0, #4; moveq r0, #5", 5),
    ("movs r1, #8; teq r1, #8; ite eq; moveq r0, #4; movne r0, #5", 4),
    ("movs r1, #6; vmov s0, r1; movs r0, #9", 9),
]


@needs_gcc
@pytest.mark.parametrize(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_values_are_followed(tmp_path: Path, text: str, value: int) -> None:
    """A loop of as many turns as the value: a wrong value is a wrong count, an unknown one has no bound."""
    body = text.replace(";", "\n")
    elf = assembled(tmp_path, f"f: {body}\n1: subs r0, #1\nbne 1b\nbx lr\n.balign 4\n9: .byte 1, 2, 3, 4, 5, 0, 0xfe, 0xff\n"
                              ".word 77, 78")
    result = wcet.analyse(elf, "f")
    assert result.instructions == len(text.split(";")) + TURN * value + 1
    assert result.single_path and result.ipet == result.instructions


COUNTS = [
    ("movs r0, #0; 1: adds r0, #3; cmp r0, #20; blt 1b", 1 + 3 * 7),
    ("movs r0, #40; 1: subs r0, #3; cmp r0, #5; bhi 1b", 1 + 3 * 12),
    ("movs r0, #7; 1: subs r0, #1; bpl 1b", 1 + 2 * 8), ("movs r0, #12; 1: subs r0, #4; cbz r0, 2f; b 1b; 2:", 1 + 3 * 3 - 1),
    ("movs r1, #5; 1: movs r0, #4; 2: subs r0, #1; bne 2b; subs r1, #1; bne 1b", 1 + 5 * (1 + 8 + 2)),
    ("mov r2, r0; adds r1, r0, #24; 1: strb r3, [r2], #2; cmp r2, r1; bne 1b", 2 + 3 * 12),
    ("movs r1, #64; movs r3, #144; movs r2, #3; 1: vldmia r1!, {s0-s3}; ldm r1!, {r0, r12}; subs r2, #1; bne 1b; "
     "2: subs r3, #4; cmp r3, r1; bne 2b", 3 + 4 * 3 + 3 * 2),      # a pointer that loads of several registers moved
    ("movs r1, #1; movs r0, #2; muls r0, r1, r0; tbb [pc, r0]; 1: .byte (2f-1b)/2, (3f-1b)/2, (4f-1b)/2, 0; "
     "2: nop; 3: nop; 4: nop", 4 + 1),
    ("push {r4, lr}; movs r0, #3; bl g; bl g; pop {r4, lr}; b 8f; g: nop; bx lr; 8:", 6 + 4),
]


@needs_gcc
@pytest.mark.parametrize(("text", "count"), COUNTS, ids=[text for text, _ in COUNTS])
def test_exact_counts(tmp_path: Path, text: str, count: int) -> None:
    result = wcet.analyse(assembled(tmp_path, "f: " + text.replace(";", "\n") + "\nbx lr"), "f")
    assert result.instructions == count + 1
    assert result.single_path


@needs_gcc
def test_low_overhead_loops_and_selects(tmp_path: Path) -> None:
    text = "f: push {r7, lr}\nmovs r1, #6\nmovs r2, #9\ncmp r1, r2\ncsel r0, r1, r2, lt\ncsinc r0, r0, r2, lt\ndls lr, r0\n" \
           "1: nop\nle lr, 1b\nmovs r3, #0\nwls lr, r3, 2f\nnop\n2: pop {r7, pc}"
    elf = assembled(tmp_path, text, "cortex-m55")
    result = wcet.analyse(elf, "f")
    assert result.instructions == 7 + 2 * 6 + 3
    assert result.stack == 8
    with pytest.raises(Refused, match=r"csel at f\+0x8 is an instruction of Armv8.1-M"):
        wcet.analyse(elf, "f", "cortex-m33")


@needs_gcc
def test_a_low_overhead_loop_without_a_counter(tmp_path: Path) -> None:
    """LE without LR jumps back for ever; what ends the loop is another branch."""
    elf = assembled(tmp_path, "f: movs r0, #5\n1: subs r0, #1\nbeq 2f\n.inst.w 0xf02fc005\n2: bx lr", "cortex-m55")
    assert wcet.analyse(elf, "f").instructions == 1 + 4 * 3 + 2 + 1


@needs_gcc
def test_vector_instructions(tmp_path: Path) -> None:
    """What Helium kernels have: predicates, pointers that move on, sums in core registers, stores of a part."""
    text = "f: movs r3, #7\nmovs r5, #9\nvctp.8 r3\nvpst\nvldrbt.8 q0, [r0], #16\nvmladava.s8 r2, q0, q0\n" \
           "vmov q1[2], q1[0], r2, r3\nvmulh.s32 q1, q1, q0\nvqmovnb.s32 q1, q1\nvpst\nvstrbt.8 q1, [r1], #16\n" \
           "1: subs r5, #1\nbne 1b\nbx lr"
    result = wcet.analyse(assembled(tmp_path, text, "cortex-m55"), "f")
    assert result.instructions == 11 + 2 * 9 + 1 and result.single_path


CASES = "cmp r0, #3\nbhi 8f\n{jump}\n8: bx lr\n4: nop\n5: nop\n6: nop\n7: bx lr\n"
SWITCHES = {        # the number of instructions from the comparison on, for the longest case
    "addresses by an index": ("cortex-m3", "adr r1, 9f\nldr r2, [r1, r0, lsl #2]\nmov pc, r2\n.balign 4\n"
                              "9: .word 4f+1, 5f+1, 6f+1, 7f+1", 9),
    "addresses by a sum": ("cortex-m0plus", "ldr r1, =9f\nlsls r2, r0, #2\nadds r1, r1, r2\nldr r1, [r1]\nmov pc, r1\n"
                           ".balign 4\n9: .word 4f+1, 5f+1, 6f+1, 7f+1", 11),
    "distances": ("cortex-m0plus", ".balign 4\nadd r0, pc\nldrb r0, [r0, #4]\nlsls r0, r0, #1\nadd pc, r0\n"
                  ".byte (4f-9f)/2+1, (5f-9f)/2+1, (6f-9f)/2+1, (7f-9f)/2+1\n9:", 10),
}


@needs_gcc
@pytest.mark.parametrize(("core", "jump", "count"), SWITCHES.values(), ids=SWITCHES)
def test_switches_on_data(tmp_path: Path, core: str, jump: str, count: int) -> None:
    elf = assembled(tmp_path, "f: " + CASES.format(jump=jump) + ".ltorg", core)
    result = wcet.analyse(elf, "f")
    assert result.instructions == count and result.ipet == count and not result.single_path
    if ", lsl #2]" in jump:
        return                          # a table of addresses ends where its words are no addresses of the function's code
    with pytest.raises(Refused, match="address that is not known"):     # the table may have more entries
        wcet.analyse(assembled(tmp_path, "f: " + CASES.format(jump=jump).partition("\nbhi 8f\n")[2] + ".ltorg", core), "f")


@needs_gcc
def test_a_call_under_a_condition(tmp_path: Path) -> None:
    text = "f: push {r4, lr}\nmovs r4, #5\ncmp r0, r1\nit eq\nbleq g\n1: subs r4, #1\nbne 1b\npop {r4, pc}\n.size f, .-f\n" \
           ".type g, %function\ng: movs r4, #3\nbx lr\n.size g, .-g\nh:"
    assert wcet.analyse(assembled(tmp_path, text, "cortex-m3"), "f").instructions == 5 + 2 * 5 + 1


@needs_gcc
def test_numbers_of_several_ways_are_kept_apart(tmp_path: Path) -> None:
    """Either way leaves another number of turns; neither is lost where they meet."""
    text = "f: movs r1, #3\ncmp r0, #0\nbeq 1f\nmovs r1, #7\n1: nop\n2: subs r1, #1\nbne 2b\nbx lr"
    result = wcet.analyse(assembled(tmp_path, text), "f")
    assert result.instructions == 4 + 1 + 2 * 7 + 1 and result.ipet >= result.instructions


@needs_gcc
def test_the_longer_way_of_a_fork_counts(tmp_path: Path) -> None:
    text = "f: ldrb r1, [r0]\ncmp r1, #3\nbeq 1f\nnop\nnop\nb 2f\n1: nop\n2: ldrb r1, [r0, #1]\ncbz r1, 3f\nnop\n3: bx lr"
    result = wcet.analyse(assembled(tmp_path, text), "f")
    assert result.instructions == 3 + 3 + 3 + 1
    assert result.branches == ("f+0x4", "f+0x10")
    assert result.ipet == result.instructions


ALIGNED = "f: push {{r4, r6, r7, lr}}\nadd r7, sp, #8\nsub sp, #24\nmov r4, sp\n{align}\nmov sp, r4\n{body}\n1: subs r0, #4\n" \
          "bne 1b\nsub r4, r7, #8\nmov sp, r4\npop {{r4, r6, r7, pc}}"


@needs_gcc
def test_frames_that_vectors_align(tmp_path: Path) -> None:
    """Whether 8 bytes are left out depends on the stack's start: the count must not, the depth is the larger one."""
    known = "movs r1, #20\nstr r1, [sp, #4]\nldr r0, [sp, #4]"
    for align in ("bfc r4, #0, #4", "bic r4, r4, #15"):
        result = wcet.analyse(assembled(tmp_path, ALIGNED.format(align=align, body=known)), "f")
        assert (result.instructions, result.stack, result.single_path) == (9 + 2 * 5 + 3, 16 + 24 + 8, True)
    for align, body in (("bfc r4, #0, #5", known), ("bfc r4, #0, #4", "subs r0, r7, r4")):
        with pytest.raises(Refused, match="stack pointer is set to a value that is not known"):
            wcet.analyse(assembled(tmp_path, ALIGNED.format(align=align, body=body)), "f")


@needs_gcc
def test_addresses_in_the_table_of_code_for_any_place(tmp_path: Path) -> None:
    text = "f: ldr r1, =table\nldr r1, [r1]\nldr r0, [r1]\n1: subs r0, #1\nbne 1b\nbx lr\n.ltorg\n9: .word 7\n" \
           ".size f, . - f\n.section {}, \"aw\", %progbits\ntable: .word 9b"
    assert wcet.analyse(assembled(tmp_path, text.format(".got")), "f").instructions == 3 + 2 * 7 + 1
    with pytest.raises(Refused, match="no bound for the loop at f"):        # anyone may write there
        wcet.analyse(assembled(tmp_path, text.format(".data")), "f")


@needs_gcc
def test_a_store_by_an_unknown_index_into_the_stack_forgets(tmp_path: Path) -> None:
    """`a[x[0]] = 1` may set a[2]: the loop that runs a[2] times has no bound."""
    text = "f: sub sp, #16\nmovs r1, #3\nstr r1, [sp, #8]\nldrb r2, [r0]\nadd r3, sp, #0\n{store}\n" \
           "ldr r0, [sp, #8]\n1: subs r0, #1\nbne 1b\nadd sp, #16\nbx lr"
    assert wcet.analyse(assembled(tmp_path, text.format(store="nop")), "f").instructions == 7 + 2 * 3 + 2
    with pytest.raises(Refused, match="no bound for the loop at f"):
        wcet.analyse(assembled(tmp_path, text.format(store="strb r1, [r3, r2]")), "f")


@needs_gcc
def test_a_stack_pointer_that_escapes_makes_stores_count(tmp_path: Path) -> None:
    text = "f: sub sp, #16\nmovs r1, #3\nstr r1, [sp, #8]\nadd r3, sp, #8\n{escape}\nldr r2, [r0]\nstr r1, [r2]\n" \
           "ldr r0, [sp, #8]\n1: subs r0, #1\nbne 1b\nadd sp, #16\nbx lr"
    assert wcet.analyse(assembled(tmp_path, text.format(escape="nop")), "f").instructions == 8 + 2 * 3 + 2
    with pytest.raises(Refused, match="no bound for the loop"):
        wcet.analyse(assembled(tmp_path, text.format(escape="str r3, [r0]")), "f")


@needs_gcc
def test_entries_and_cores(tmp_path: Path) -> None:
    elf = assembled(tmp_path, "f: nop\nbx lr")
    with pytest.raises(Refused, match="no function 'g'"):
        wcet.analyse(elf, "g")
    with pytest.raises(Refused, match="cortex-m1"):
        wcet.analyse(elf, "f", "cortex-m1")
    by_core = {core: wcet.analyse(elf, "f", core) for core in ("cortex-m0plus", "cortex-m4", "cortex-m7")}
    assert [r.cycles for r in by_core.values()] == [3, 1 + 1 + 3, None]
    assert by_core["cortex-m4"].cycles_status.startswith("estimate")
    assert by_core["cortex-m7"].cycles_status.startswith("measure")
    assert [r.cycles_model for r in by_core.values()] == [None, None, round(2 * load("cortex-m7").processor.cpi)]
    assert any("no bound" in line for line in facts.summary(by_core["cortex-m7"]))


@needs_gcc
def test_variable_time_is_listed(tmp_path: Path) -> None:
    elf = assembled(tmp_path, "f: udiv r0, r1, r2\numull r0, r1, r2, r3\nbx lr")
    assert wcet.analyse(elf, "f", "cortex-m4").variable == ("udiv at f",)
    assert wcet.analyse(elf, "f", "cortex-m3").variable == ("udiv at f", "umull at f+0x4")


@needs_gcc
def test_command(tmp_path: Path) -> None:
    elf = assembled(tmp_path, "f: movs r0, #5\n1: subs r0, #1\nbne 1b\nbx lr")
    files = {suffix: tmp_path / f"f{suffix}" for suffix in facts.FORMATS}
    for file in files.values():
        done = CliRunner().invoke(cli, ["wcet", "--elf", str(elf), "--entry", "f", "--facts", str(file), "--json",
                                        "--certificate", str(tmp_path / "f.json")])
        assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told == json.loads((tmp_path / "f.json").read_text())
    assert {"instructions", "cycles", "cycles_status", "stack", "single_path", "kernels", "steps", "assumptions"} <= told.keys()
    assert (told["instructions"], told["single_path"], told["stack"]) == (12, True, 0)
    assert told["loops"] == [{"function": "f", "offset": 2, "address": 0x8002, "maximum": 5, "total": 5}]
    assert 'loop "f" + 0x2 max 5 total 5;' in files[".ff"].read_text()
    assert '<loop label="f" offset="0x2" maxcount="5" totalcount="5"/>' in files[".ffx"].read_text()
    assert 'loop "f" + 0x2 bytes { bound: 0..5; }' in files[".ais"].read_text()
    text = CliRunner().invoke(cli, ["wcet", "--elf", str(elf), "--entry", "f"]).stdout
    assert "at most 12, exactly that" in text and "single path  : yes" in text
    assert CliRunner().invoke(cli, ["wcet", "--elf", str(elf)]).exit_code == 2
    assert CliRunner().invoke(cli, ["wcet", "--elf", str(elf), "--entry", "f", "--facts", "x.txt"]).exit_code == 2


@needs_qemu
@pytest.mark.parametrize(("target", "opt"), [("cortex-m4", "-O3"), ("cortex-m7", "-Os"), ("cortex-m55", "-O2")])
def test_a_model(target: str, opt: str) -> None:
    model = fuse2c.plan(DIGITS, target=target)
    result, measured = model.wcet(opt=opt), model.bench(opt=opt)
    assert measured.instructions is not None
    assert measured.instructions - TICK <= result.instructions <= 1.001 * measured.instructions + TICK
    assert result.instructions <= result.ipet <= 1.05 * result.instructions
    assert result.core == target
    assert any(k.name.startswith("digits_int8_") for k in result.kernels)


def test_the_host_has_no_worst_case() -> None:
    with pytest.raises(TargetError, match="Cortex-M"):
        fuse2c.plan(DIGITS).wcet()


@needs_qemu
@pytest.mark.parametrize("target", ["cortex-m3", "cortex-m4", "cortex-m55"])
def test_one_path_wherever_the_arena_is(target: str) -> None:
    result = fuse2c.plan(DIGITS, target=target, arena="caller").wcet()
    assert result.single_path, result.branches
