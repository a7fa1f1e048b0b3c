"""Where control goes: ways that meet at a loop, loops that never end, and what a user says of loops and calls."""
from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from test_measure import needs_gcc

from fuse2c import toolchain
from fuse2c.cli import cli
from fuse2c.errors import Refused

pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("networkx", reason="networkx is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")

from test_wcet import assembled

from fuse2c import wcet
from fuse2c.wcet import engine
from fuse2c.wcet.analysis import Result
from fuse2c.wcet.given import facts

COUNTED = "f: ldr r1, [r0]\n1: subs r1, #1\nbne 1b\nbx lr"
POINTER = "f: push {{r4, lr}}\nldr r1, [r0]\n{}\npop {{r4, pc}}\n.size f, . - f\n.type g, %function\ng: nop\nbx lr\n" \
          ".size g, . - g\n.type h, %function\nh: nop\nnop\nnop\nbx lr\n.size h, . - h\nq:"


def loops(result: Result) -> list[tuple[int, int, int]]:
    return [(x.offset, x.maximum, x.total) for x in result.loops]


@needs_gcc
def test_ways_that_meet_at_the_header_of_their_loop(tmp_path: Path) -> None:
    """Three ways through the body, all of them back to its first block: each is a turn."""
    text = "f: movs r1, #6\n1: subs r1, #1\nbeq 9f\nldr r2, [r0]\ncmp r2, #0\nbeq 2f\ncmp r2, #3\nbeq 3f\nnop\nb 1b\n" \
           "3: nop\nnop\nb 1b\n2: nop\nb 1b\n9: bx lr"
    result = wcet.analyse(assembled(tmp_path, text), "f")
    assert result.instructions == 1 + 5 * (5 + 2 + 3) + 2 + 1
    assert result.ipet >= result.instructions and loops(result) == [(2, 6, 6)]


@needs_gcc
def test_ways_that_meet_where_a_loop_begins(tmp_path: Path) -> None:
    """Duff's device: data decides what comes before the first turn, in ways within ways."""
    text = "f: ldr r2, [r0]\nmovs r1, #7\ncmp r2, #2\nbeq 4f\ncmp r2, #3\nbeq 5f\nnop\n1: subs r1, #1\nbne 1b\nbx lr\n" \
           "4: movs r1, #5\nb 1b\n5: movs r1, #4\nnop\nnop\nb 1b"
    result = wcet.analyse(assembled(tmp_path, text), "f")
    assert result.instructions == 7 + 2 * 7 + 1 and result.ipet >= result.instructions


TWO_WAYS = "ldr r2, [r0]\ncbz r2, 3f\nstr r2, [r0, #4]\n3: "
ENDLESS = {         # loops of several blocks; `nothing leads out` and the others say why
    "without an end": (f"1: {TWO_WAYS}adds r1, #1\nb 1b", "nothing leads out"),
    "with a counter that decides": (f"movs r1, #0\n1: {TWO_WAYS}adds r1, #7\nlsls r3, r1, #30\nbne 1b\nnop\nb 1b",
                                    "nothing leads out"),
    "within another": (f"movs r4, #5\n2: subs r4, #1\nbeq 4f\n1: {TWO_WAYS}adds r1, #1\nb 1b\n4: bx lr", "nothing leads out"),
    "odd counter, even limit": (f"movs r1, #1\n1: {TWO_WAYS}adds r1, #2\ncmp r1, #80\nbne 1b\nbx lr", "steps over its limit"),
    "the wrong way": (f"movs r1, #1\n1: {TWO_WAYS}subs r1, #1\ncmp r1, #80\nblt 1b\nbx lr", "steps over its limit"),
    "the wrong way without a sign": (f"movs r1, #90\n1: {TWO_WAYS}adds r1, #1\ncmp r1, #80\nbhs 1b\nbx lr",
                                     "steps over its limit"),
    "to a far sign": (f"movs r1, #90\n1: {TWO_WAYS}adds r1, #1\nbpl 1b\nbx lr", "steps over its limit"),
    "to an overflow, with data": (f"movs r1, #9\n1: {TWO_WAYS}ldr r3, [r0]\ncbz r3, 4f\nadds r1, #1\nbvc 1b\n4: bx lr",
                                  "steps over its limit"),
    "by way of memory": (f"sub sp, #8\nmovs r1, #1\n1: {TWO_WAYS}str r1, [sp]\nldr r1, [sp]\nadds r1, #2\nmovs r3, r1\n"
                         "cmp r3, #0\nbne 1b\nadd sp, #8\nbx lr", "steps over its limit"),
    "also by data": (f"movs r1, #1\n1: {TWO_WAYS}ldr r3, [r0]\ncbz r3, 4f\nadds r1, #2\ncmp r1, #80\nbne 1b\n4: bx lr",
                     "steps over its limit"),
}


@needs_gcc
@pytest.mark.parametrize(("text", "reason"), ENDLESS.values(), ids=ENDLESS)
def test_loops_that_never_end(text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_BLOCKS", 20_000)         # told long before
    with pytest.raises(Refused, match=f"no bound for the loop at f.*{reason}") as caught:
        wcet.analyse(assembled(tmp_path, f"f: {text}"), "f")
    assert "--bound f" in caught.value.hint


ENDING = {          # what the same means must not refuse, and the turns
    "even limit": (f"movs r1, #0\n1: {TWO_WAYS}adds r1, #2\ncmp r1, #400\nbne 1b\nbx lr", 200),
    "wraps without a sign": (f"movw r1, #999\nmvn r1, r1\nmov r4, #0x80000000\n"
                             f"1: {TWO_WAYS}adds r1, #1\ncmp r1, r4\nbhs 1b\nbx lr", 1000),
    "wraps with a sign": (f"mvn r1, #0x80000000\nsub r1, r1, #255\n1: {TWO_WAYS}adds r1, #1\ncmp r1, #5\nbgt 1b\nbx lr", 256),
    "until a flag": (f"movs r1, #0\nmovs r4, #0\n1: {TWO_WAYS}adds r1, #1\ncmp r1, #600\nit eq\nmoveq r4, #1\ncmp r4, #0\n"
                     "beq 1b\nbx lr", 600),
    "not at a pace": (f"movs r1, #1\nmovs r4, #5\n1: {TWO_WAYS}muls r1, r4, r1\nadds r1, #3\nuxtb r1, r1\ncmp r1, #9\n"
                      "bne 1b\nbx lr", 200),
}


@needs_gcc
@pytest.mark.parametrize(("text", "turns"), ENDING.values(), ids=ENDING)
def test_loops_that_end_late(text: str, turns: int, tmp_path: Path) -> None:
    body, before = text.partition("\nbx lr")[0].split("1: ")[1], text.split("1: ")[0]
    result = wcet.analyse(assembled(tmp_path, f"f: {text}"), "f")
    assert result.instructions == before.count("\n") + turns * len(body.splitlines()) + 1


GIVEN = {       # what is said, and the instructions
    "at the bottom": (COUNTED, {"bounds": ["f+0x2=40"]}, 1 + 2 * 40 + 1),
    "by an address": (COUNTED, {"bounds": ["0x8002=40"]}, 1 + 2 * 40 + 1),
    "at the top": ("f: ldr r1, [r0]\n1: cmp r1, #0\nbeq 2f\nsubs r1, #1\nb 1b\n2: bx lr", {"bounds": ["f+0x2=41"]},
                   1 + 40 * 4 + 2 + 1),
    "for each entry": ("f: movs r2, #3\n2: ldr r1, [r0]\n1: subs r1, #1\nbne 1b\nsubs r2, #1\nbne 2b\nbx lr",
                       {"bounds": ["f+0x4=9"]}, 1 + 3 * (1 + 2 * 9 + 2) + 1),
    "more than data may end": (COUNTED, {"bounds": ["f+0x2=3000"]}, 1 + 2 * 3000 + 1),
    "never reached": ("f: ldr r1, [r0]\ncbz r1, 2f\nbx lr\n2: nop\nb 2b", {"bounds": ["f+0x6=0"]}, 3),
    "a trap that is never reached": ("f: ldr r1, [r0]\ncbz r1, 2f\nbx lr\n2: udf #255", {"bounds": ["f+0x6=0"]}, 3),
    "a function that is never called": ("f: push {r4, lr}\nldr r1, [r0]\ncbz r1, 2f\nbl abort\n2: pop {r4, pc}\n"
        ".size f, . - f\n.type abort, %function\nabort: b abort\n.size abort, . - abort\nh:", {"bounds": ["abort=0"]}, 4),
    "call": (POINTER.format("blx r1"), {"calls": ["f+0x4=g, h"]}, 4 + 4),
    "jump": (POINTER.format("pop {r4, lr}\nbx r1"), {"calls": ["f+0x8=g"]}, 4 + 2),
    "several words": (COUNTED.replace("bx lr", "ldr r1, [r0, #4]\n1: subs r1, #1\nbne 1b\nbx lr"),
                      {"bounds": ["f+0x2=4", " f+8 = 6 "]}, 2 + 2 * 4 + 2 * 6 + 1),
}


@needs_gcc
@pytest.mark.parametrize(("text", "said", "count"), GIVEN.values(), ids=GIVEN)
def test_what_a_user_says(text: str, said: dict[str, list[str]], count: int, tmp_path: Path) -> None:
    elf = assembled(tmp_path, text)
    with pytest.raises(Refused) as caught:
        wcet.analyse(elf, "f")
    assert any(option in caught.value.hint for option in ("--bound f", "--bound abort", "--calls f"))
    result = wcet.analyse(elf, "f", **said)
    assert result.instructions == count and result.ipet >= count and not result.single_path
    places = {text.partition("=")[0].strip() for texts in said.values() for text in texts}
    assert all(any(f" {place}" in text for text in result.assumptions) for place in places)


@needs_gcc
def test_a_bound_of_a_low_overhead_loop(tmp_path: Path) -> None:
    elf = assembled(tmp_path, "f: push {r4, lr}\nldr r1, [r0]\ndls lr, r1\n1: nop\nle lr, 1b\npop {r4, pc}", "cortex-m55")
    assert wcet.analyse(elf, "f", bounds=["f+0x8=9"]).instructions == 3 + 2 * 9 + 1


@needs_gcc
@pytest.mark.parametrize(("said", "reason"), [
    ({"bounds": ["f+0x4=9"]}, "no bound for the loop at f\\+0x2"), ({"bounds": ["f+0x2"]}, "says no number of turns"),
    ({"bounds": ["f+0x2=-1"]}, "says no number of turns"), ({"bounds": ["f+x=1"]}, "is no place"),
    ({"bounds": ["g=1"]}, "no function 'g'"), ({"bounds": ["f+0x2=9", "f+0x6=1"]}, r"f\+0x6 is no first instruction of a loop"),
    ({"bounds": ["f+0x2=9"], "calls": ["f+0x2=f"]}, r"f\+0x2 is no call through a pointer"),
    ({"calls": ["f+0x2=g"]}, "no function 'g'"), ({"bounds": ["f+0x2=0"]}, "f never returns"),
])
def test_what_a_user_says_wrongly(said: dict[str, list[str]], reason: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=reason):
        wcet.analyse(assembled(tmp_path, COUNTED), "f", **said)


@needs_gcc
def test_bounds_from_the_command_line_and_a_file(tmp_path: Path) -> None:
    elf, out = assembled(tmp_path, COUNTED), tmp_path / "out.ff"
    run = ["wcet", "--elf", str(elf), "--entry", "f"]
    done = CliRunner().invoke(cli, [*run, "--bound", "f+0x2=40", "--facts", str(out)])
    assert done.exit_code == 0 and "at most 82" in done.stdout and "turns at most 40 times" in done.stdout
    assert facts(out.read_text()) == ["f+0x2=40"]
    assert "at most 82" in CliRunner().invoke(cli, [*run, "--annotations", str(out)]).stdout
    assert "at most 22" in CliRunner().invoke(cli, [*run, "--annotations", str(out), "--bound", "f+2=10"]).stdout
    out.write_text("the loop turns 40 times")
    assert "no loop bound that is understood" in str(CliRunner().invoke(cli, [*run, "--annotations", str(out)]).exception)
    assert CliRunner().invoke(cli, ["wcet", "x.onnx", "--bound", "f=1"]).exit_code == 2


SWITCHES = {        # a comparison is on each way to the jump; the same without one of them; instructions
    "behind two comparisons": ("ldr r1, [r0]\nldr r2, [r0, #4]\ncmp r2, #0\nbeq 3f\ncmp r1, #2\nbls 4f\n2: bx lr\n"
                               "3: subs r1, #7\n{}4: tbb [pc, r1]", "cmp r1, #1\nbhi 2b\n", "cmp r1, #1\nbls 2b\n", 7 + 1 + 5),
    "behind a constant": ("ldr r1, [r0]\ncmp r1, #2\n{}movs r1, #1\n4: tbb [pc, r1]", "bls 4f\n", "bhs 4f\n", 4 + 1 + 5),
    "by way of the stack": ("sub sp, #8\nldr r1, [r0]\nstr r1, [sp, #4]\ncmp r1, #2\nbhi 2f\n{}tbb [pc, r3]",
                            "ldr r3, [sp, #4]\n", "strb r2, [sp, r3]\nldr r3, [sp, #4]\n", 7 + 5),
}
TABLE = "\n1: .byte (5f-1b)/2, (6f-1b)/2, (7f-1b)/2, 0\n5: nop\n6: nop\n7: nop\n2: {}\nbx lr"


@needs_gcc
@pytest.mark.parametrize(("text", "limit", "none", "count"), SWITCHES.values(), ids=SWITCHES)
def test_switches_that_several_ways_lead_to(text: str, limit: str, none: str, count: int, tmp_path: Path) -> None:
    table = TABLE.format("add sp, #8" if "sp" in text else "nop")
    result = wcet.analyse(assembled(tmp_path, f"f: {text.format(limit)}{table}"), "f")
    assert result.instructions == count and result.ipet >= count and not result.single_path
    with pytest.raises(Refused, match="jumps to an address that is not known"):
        wcet.analyse(assembled(tmp_path, f"f: {text.format(none)}{table}"), "f")


@needs_gcc
@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m4"])
def test_stack_protectors(core: str, tmp_path: Path) -> None:
    """The word that they compare is one number; a store that may be into the frame does not change its copy."""
    (tmp_path / "f.c").write_text("void g(int *a, int *volatile *to) { *to = a; **to = 5; }\nint *volatile seen;\n"
                                  "int f(const int *x) {\n"
                                  "int a[9]; g(a, &seen); for (int k = 0; k < 9; ++k) { a[k] = x[k]; } return a[x[0] & 7]; }\n"
                                  "void __stack_chk_fail(void) { for (;;) { } }\nunsigned __stack_chk_guard = 77;\n")
    elf = tmp_path / "f.elf"
    for kind in ("-fstack-protector-all", "-fno-stack-protector"):
        toolchain.run([toolchain.ARM_GCC, f"-mcpu={core}", "-mthumb", "-O1", "-fno-inline", kind, str(tmp_path / "f.c"), "-o",
                       str(elf), "-nostdlib", "-Wl,-e,f", "-lgcc"], "does not link")
        result = wcet.analyse(elf, "f")
        assert result.single_path, result.branches
    assert result.instructions > 30


@needs_gcc
def test_what_never_returns_ends_its_function(tmp_path: Path) -> None:
    """Behind the call of abort is a loop, which a return would lead into."""
    text = "f: push {{r4, lr}}\nmovs r1, #3\nldr r2, [r0]\ncmp r2, #0\nbne 2f\n1: subs r1, #1\nbne 1b\npop {{r4, pc}}\n" \
           "2: bl abort\n.size f, . - f\n.type abort, %function\nabort: {}\n.size abort, . - abort\nh:"
    with pytest.raises(Refused, match=r"abort returns to .*, where no call leads"):
        wcet.analyse(assembled(tmp_path, text.format("bx lr")), "f")
    with pytest.raises(Refused, match="loop at abort: nothing leads out"):
        wcet.analyse(assembled(tmp_path, text.format("b abort")), "f")
    assert wcet.analyse(assembled(tmp_path, text.format("b abort")), "f", bounds=["abort=0"]).instructions == 5 + 2 * 3 + 1
