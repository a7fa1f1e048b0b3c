"""Every entry of the analysis' tables matters: without it, or with another number in it, an oracle fails.

The oracles are small programs that end in a loop of as many turns as a register says: a wrong value is a wrong count, an
unknown one has no bound. They are assembled once; a mutant runs those that have the instruction it is about.
"""
from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from test_measure import needs_gcc

from fuse2c import toolchain
from fuse2c.errors import Refused

pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("networkx", reason="networkx is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")

import vector_programs
from test_wcet import COUNTS, TURN, VALUES

from fuse2c.wcet import cycles, decode, helium, slicing, ways
from fuse2c.wcet import image as images
from fuse2c.wcet.cycles import Costs
from fuse2c.wcet.engine import Engine
from fuse2c.wcet.parts import part
from fuse2c.wcet.translate import translate

M4, M55 = "cortex-m4", "cortex-m55"
FLAGS = {M4: ["-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"], M55: ["-mfloat-abi=hard"]}
OF_VECTORS = " of vectors"
UNKNOWN = None          # the outcome of a program whose last loop has no bound: the register is not known

# What is computed of packed numbers and the like is not followed: nothing may be known of the result.
OPAQUE = {
    "r0, r1": "uxtb16 sxtb16 rev rev16 revsh",
    "r0, r1, r2": """uxtab uxtah sxtab sxtah uxtab16 sxtab16 smuad smuadx smusd smulwb smulwt smmul smmulr pkhbt sadd16
                  sadd8 uadd8 uadd16 ssub16 ssub8 usub8 usub16 sel qadd qsub qdadd qdsub qadd8 qsub8 qadd16 qsub16 uqadd8 uqsub8
                  uqadd16 uqsub16 shadd8 shadd16 uhadd8 uhadd16 shsub16 uhsub16 usad8""",
    "r0, r1, r2, r3": "smlad smladx smlsd smlsdx smlawb smlawt smmla smmlar smmls smmlsr usada8",
    "r0, #3, r1": "ssat16 usat16", "r0, r1, r2, asr #3": "pkhtb",
    "r0, r4, r1, r2": "smlal umlal umaal smlald smlaldx smlalbb smlalbt smlaltb smlaltt",
}
LONG = {"r0, r5, #3": "asrl lsll lsrl sqshll uqshll srshrl urshrl", "r0, r5, #48, r6": "sqrshrl uqrshll"}
LONG_HIGH = {"r4, r5, #3": "asrl lsll lsrl"}
START = "movs r0, #3; movs r1, #4; movs r2, #5; movs r3, #6; movs r4, #2; movs r5, #1; movs r6, #7"
FLOATS = {
    "s0, s1, s2": "vadd vsub vmul vnmul vdiv vmla vmls vnmla vnmls vfma vfms vfnma vfnms",
    "s0, s1": "vsqrt vabs vneg vcmp vcmpe",
}
FLOATS_5 = {"s0, s1, s2": "vmaxnm vminnm vseleq vselge vselgt vselvs",
            "s0, s1": "vrinta vrintn vrintp vrintm vrintx vrintz vrintr"}
ROUNDS_5 = "vcvta vcvtn vcvtp vcvtm"

HALVES = "movw r1, #0xfffd; movt r1, #4; movw r2, #0xfffa; movt r2, #2; movs r3, #40; "
ESCAPED = "ldr r2, [r0]; str r3, [r2]; ldr r0, [sp, #4]; add sp, #8"
TBH = ("movs r2, #1; movs r0, #2; muls r0, r2, r0; tbh [pc, r0, lsl #1]; 1: .hword (2f-1b)/2, (3f-1b)/2, (4f-1b)/2; "
       "2: nop; 3: nop; 4: movs r0, #6")
BLX = "push {r4, lr}; ldr r2, =5f+1; blx r2; pop {r4, lr}; movs r0, #5; b 6f; .ltorg; 5: bx lr; 6: nop"

# Programs of which a core register, the flags, the stack or the memory is known, or is not.
MORE: dict[str, list[tuple[str, int | None]]] = {M4: [
    ("movs r0, #3; vmov r0, s0", UNKNOWN),
    ("movs r0, #3; movs r1, #1; cmp r1, #1; vmrs apsr_nzcv, fpscr; it eq; moveq r0, #5", UNKNOWN),
    ("movs r0, #3; vmrs r0, fpscr", UNKNOWN), ("movs r0, #3; vmsr fpscr, r1", 3),
    ("sub sp, #8; movs r1, #9; str r1, [sp, #4]; vstr s0, [sp, #4]; ldr r0, [sp, #4]; add sp, #8", UNKNOWN),
    ("sub sp, #8; movs r1, #9; str r1, [sp, #4]; vldr s0, [sp, #4]; ldr r0, [sp, #4]; add sp, #8", 9),
    ("sub sp, #8; movs r1, #9; str r1, [sp, #4]; mov r2, sp; vstm r2, {s0, s1}; ldr r0, [sp, #4]; add sp, #8", UNKNOWN),
    ("sub sp, #8; movs r1, #9; str r1, [sp]; add r2, sp, #8; vstmdb r2!, {s0, s1}; ldr r0, [sp]; add sp, #8", UNKNOWN),
    ("movs r0, #60; vldm r0!, {s0, s1}; subs r0, #50", 18), ("movs r0, #60; vldmdb r0!, {s0, s1}; subs r0, #50", 2),
    ("movs r1, #9; push {r1, r2}; vpush {s0}; vpop {s0}; pop {r0, r2}", 9),
    ("movs r1, #9; push {r1, r2}; vpush {s0, s1}; ldr r0, [sp, #8]; add sp, #16", 9),
    ("movs r0, #1; vcvt.f32.s32 s0, s1; vcvtr.s32.f32 s0, s1; vcvtb.f32.f16 s0, s1; vcvtt.f32.f16 s0, s1", 1),
    ("movs r0, #3; rrxs r0, r0", UNKNOWN), ("movs r0, #3; smull r0, r4, r1, r2", UNKNOWN),
    ("movs r0, #3; umull r4, r0, r1, r2", UNKNOWN),
    *((f"sub sp, #8; movs r3, #9; str r3, [sp, #4]; mov r1, sp; {escape}; {ESCAPED}", UNKNOWN)
      for escape in ("vmov s0, r1", "vmsr fpscr, r1", "str r1, [sp]; vldr s0, [sp]", "str r1, [sp]; vldm r1, {s0}",
                       "str r1, [sp]; ldrex r4, [r1]", "strex r4, r1, [r0]")),
    ("movs r0, #3; mrs r0, primask", UNKNOWN), ("movs r0, #3; strex r0, r1, [r2]", UNKNOWN),
    ("movs r0, #3; msr primask, r1; msr basepri_max, r1; cpsid i; cpsie f; clrex; sev; yield", 3),
    ("movs r0, #3; movs r1, #1; cmp r1, #1; msr apsr_nzcvq, r2; it eq; moveq r0, #5", UNKNOWN),
    ("sub sp, #8; movs r1, #9; str r1, [sp, #4]; add r2, sp, #4; ldrexb r0, [r2]; add sp, #8", UNKNOWN),
    ("sub sp, #8; movs r1, #9; str r1, [sp, #4]; add r2, sp, #4; strexh r3, r1, [r2]; ldr r0, [sp, #4]; add sp, #8", UNKNOWN),
    *((f"{HALVES}smul{a}{b} r0, r1, r2; adds r0, #30", n + 30)
      for a, b, n in (("b", "b", 18), ("b", "t", -6), ("t", "b", -24), ("t", "t", 8))),
    *((f"{HALVES}smla{a}{b} r0, r1, r2, r3", n + 40)
      for a, b, n in (("b", "b", 18), ("b", "t", -6), ("t", "b", -24), ("t", "t", 8))),
    # Of addresses only sums and differences are known.
    *((f"movs r0, #3; movs r2, #5; {text}", UNKNOWN) for text in (
        "mul r0, r0, r1", "mul r0, r1, r0", "mla r0, r1, r2, r0", "mls r0, r2, r1, r0", "udiv r0, r1, r2", "sdiv r0, r2, r1",
        "umull r0, r4, r1, r2", "smull r4, r0, r2, r1", "smulbb r0, r2, r1", "lsl r0, r0, r1", "lsl r0, r1, r2",
        "add r0, r0, r1, lsl #3", "orr r0, r0, r1, lsl #4", "cmp r0, r1, lsl #3; it hi; movhi r0, #4", "mvn r0, r1",
        "uxtb r0, r1, ror #8", "clz r0, r1")),
    ("movs r0, #2; dmb; dsb; isb; nop; pld [r1, #4]; pli [r2]", 2), ("adr r1, 9f+16; ldmdb r1, {r0, r2}", 77),
    ("sub sp, #8; add r2, sp, #8; movs r3, #4; movs r4, #5; stmdb r2!, {r3, r4}; ldr r0, [sp, #4]; add sp, #8", 5),
    (TBH, 6),
    ("movs r0, #7; cbnz r0, 2f; nop; 2: nop", 7),
    (BLX, 5),
    ("movs r2, #6; movs r1, #1; cmp r1, #2; ite gt; movgt r0, #3; movle r0, #8", 8),
], M55: [
    ("movs r1, #6; movs r2, #9; cmp r1, r2; csel r0, r1, r2, lt", 6), ("movs r1, #6; cmp r1, #9; csinc r0, r1, r1, gt", 7),
    ("movs r1, #6; mvn r2, #6; cmp r1, #9; csinv r0, r1, r2, gt", 6),
    ("movs r1, #6; mvn r2, #6; cmp r1, #9; csneg r0, r1, r2, gt", 7), *vector_programs.VALUES,
]}
LOOPS: dict[str, list[tuple[str, int]]] = {M4: COUNTS, M55: [
    ("push {r7, lr}; movs r0, #6; dls lr, r0; 1: nop; le lr, 1b; pop {r7, lr}", 4 + 12),
    ("push {r7, lr}; movs r0, #0; wls lr, r0, 2f; 1: nop; le lr, 1b; 2: pop {r7, lr}", 4),
    *vector_programs.LOOPS,
]}


def shaped(table: dict[str, str], kind: str = "") -> list[str]:
    return [f"{name}{kind} {ops}" for ops, names in table.items() for name in names.split()]


def values(core: str) -> list[tuple[str, int | None]]:
    """Programs that leave a number, or nothing that is known, in r0."""
    if core == M4:
        return [*VALUES, *MORE[core], *((f"{START}; {text}", UNKNOWN) for text in shaped(OPAQUE)),
                *((f"{START}; {text.replace('r4', 'r8').replace('r0', 'r4').replace('r8', 'r0')}", UNKNOWN)
                  for text in shaped({k: v for k, v in OPAQUE.items() if k.startswith("r0, r4")})),
                *((f"movs r0, #3; {text}", 3) for text in shaped(FLOATS, ".f32"))]
    return [*MORE[core], *((f"{START}; {text}", UNKNOWN) for text in shaped(LONG)),
            *((f"{START}; {text}; mov r0, r5", UNKNOWN) for text in shaped(LONG_HIGH)),
            *((f"movs r0, #3; {text}", 3) for text in shaped(FLOATS_5, ".f32")),
            *((f"movs r0, #3; {name}.s32.f32 s0, s1", 3) for name in ROUNDS_5.split())]


@pytest.fixture(scope="module", autouse=True)
def impatient() -> Iterator[None]:
    """No oracle turns more than this: an unbounded loop is refused sooner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ways, "LONGEST_LOOSE", 1000)
        yield


@cache
def programs(core: str) -> tuple[tuple[str, int | None], ...]:
    """(text, instructions or UNKNOWN) of every oracle."""
    return (*((text, None if value is UNKNOWN else executed(text) + TURN * value + 1) for text, value in values(core)),
            *((text, count + 1) for text, count in LOOPS[core]))


def executed(text: str) -> int:
    """Instructions of a program without jumps, by its text; others say how many in a comment of their own."""
    return LENGTHS.get(text, len([line for line in text.split(";") if not re.match(r" *(\.|\d:? *$)", line)]))


LENGTHS = {text: n for text, n in (
    (TBH, 5),
    ("movs r0, #7; cbnz r0, 2f; nop; 2: nop", 3),
    (BLX, 8))}


@pytest.fixture(scope="module")
def elfs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, images.Image]:
    """One linked program a core with a function for each oracle."""
    found = {}
    for core in (M4, M55):
        folder = tmp_path_factory.mktemp("oracles")
        out = [".syntax unified\n.thumb\n.text\n"]
        for k, (text, _) in enumerate(programs(core)):
            loop = "" if k >= len(values(core)) else "7: subs r0, #1\nbne 7b\n"
            out.append(f".balign 8\n.global f{k}\n.type f{k}, %function\nf{k}: " + text.replace(";", "\n") + f"\n{loop}bx lr\n"
                       ".balign 4\n9: .byte 1, 2, 3, 4, 5, 0, 0xfe, 0xff\n.word 77, 78\n" f".size f{k}, . - f{k}\n.ltorg\n")
        (folder / "f.S").write_text("".join(out))
        flags = [f"-mcpu={core}", "-mthumb", "-nostdlib", "-Wl,-Ttext=0x8000", "-Wl,-e,f0", *FLAGS[core]]
        toolchain.run([toolchain.ARM_GCC, *flags, str(folder / "f.S"), "-o", str(folder / "f.elf")], "does not assemble")
        found[core] = images.load(folder / "f.elf")
    return found


def outcome(image: images.Image, core: str, k: int) -> tuple[int | None, Engine]:
    """What the analysis says of an oracle; -1 for a refusal for another reason than a missing bound."""
    engine = Engine(image, Costs(core))
    try:
        return engine.analyse(image.entry(f"f{k}")).instructions, engine
    except Refused as error:
        return (UNKNOWN if "no bound for the loop" in str(error) else -1), engine


@pytest.fixture(scope="module")
def seen(elfs: dict[str, images.Image]) -> dict[str, dict[int, set[str]]]:
    """By core: the names of the instructions of every oracle. All oracles hold."""
    found: dict[str, dict[int, set[str]]] = {}
    for core, image in elfs.items():
        found[core] = {}
        for k, (text, want) in enumerate(programs(core)):
            got, engine = outcome(image, core, k)
            assert got == want, f"{core}: {text}: {got}, not {want}"
            found[core][k] = {named(i) for code in engine.codes.values() for b in code.function.blocks.values()
                              for i in b.instructions}
    return found


def named(i: decode.Instruction) -> str:
    """The name in a list; some are in that of the FPU and in that of vectors."""
    return i.name + OF_VECTORS * (i.kind == "mve")


def survives(elfs: dict[str, images.Image], seen: dict[str, dict[int, set[str]]], name: str) -> bool:
    """Whether all oracles with this instruction still hold."""
    return all(outcome(elfs[core], core, k)[0] == programs(core)[k][1]
               for core, named in seen.items() for k, names in named.items() if name in names)


@needs_gcc
def test_every_instruction_on_the_list_has_an_oracle(elfs: Any, seen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, table, suffix in ((decode, "CORE", ""), (decode, "FLOATING", ""), (helium, "NAMES", OF_VECTORS)):
        whole = getattr(module, table)
        alive = []
        for name in sorted(whole - helium.ALIASES):
            monkeypatch.setattr(module, table, whole - {name})
            alive += [name] * survives(elfs, seen, name + suffix)
        assert not alive, f"{alive} on the list, and no oracle has it"
        monkeypatch.setattr(module, table, whole)


# Parts of what one vector instruction does: a store also moves its base.
PIECES = {"first deleted": slice(1, None), "last deleted": slice(-1)}
Translate = Callable[[decode.Instruction, bool], list]


@needs_gcc
@pytest.mark.parametrize("kind", ["deleted", "not followed", "first deleted", "last deleted"])
def test_every_transfer_function_matters(kind: str, elfs: Any, seen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its effect, or with its results unknown, an instruction makes an oracle fail."""
    touched: set[str] = set()
    alive: list[str] = []

    def mutant(name: str) -> Translate:
        def changed(i: decode.Instruction, valued: bool) -> list:
            parts = translate(i, valued)
            if named(i) != name or not parts:
                return parts
            if kind in PIECES and len(parts) < 2:
                return parts
            lost = [part([f"R[{r}] = None" if r < 16 else "F = None" for r in sorted(p.writes)], p.reads, p.writes)
                    for p in parts if p.writes]
            if kind in PIECES or kind == "deleted" or (lost and not unknown_anyway(parts)):
                touched.add(name)
                return {"deleted": [], "not followed": lost, **{k: parts[cut] for k, cut in PIECES.items()}}[kind]
            return parts
        return changed
    others = frozenset() if kind in PIECES else decode.CORE | decode.FLOATING
    for name in sorted(others | {name + OF_VECTORS for name in helium.NAMES}):
        monkeypatch.setattr(slicing, "translate", mutant(name))
        alive += [name] * (survives(elfs, seen, name) and name in touched)
    assert alive == [], f"{kind}, and no oracle fails"
    assert len(touched) > (10 if kind in PIECES else 60)


def unknown_anyway(parts: list) -> bool:
    """Whether results are unknown with these parts, too."""
    return all("= None" in line and " if " not in line for p in parts for line in p.lines if line.startswith(("R[", "F")))


# Cycles and, when control is transferred, more of them: on M0+, M3 and M4; None where the core lacks the instruction.
ONE = (1, 0)
TIMES: list[tuple[str, Any, Any, Any]] = [
    ("adds r0, r1, r2", ONE, ONE, ONE), ("muls r0, r1, r0", ONE, ONE, ONE), ("ldr r0, [r1]", (2, 0), (3, 0), (3, 0)),
    ("ldr r0, [sp, #4]", (2, 0), (2, 0), (2, 0)), ("ldr r0, 9f", (2, 0), (3, 0), (3, 0)),
    ("strb r0, [r1]", (2, 0), (2, 0), (2, 0)), ("str r0, [r1]", (2, 0), (3, 0), (3, 0)),
    ("ldrh r0, [r1]", (2, 0), (3, 0), (3, 0)), ("push {r4, r5, lr}", (4, 0), (4, 0), (4, 0)),
    ("pop {r4, r5}", (3, 0), (3, 0), (3, 0)), ("pop {r4, pc}", (5, 0), (3, 3), (3, 3)),
    ("ldm r0, {r1, r2, r3}", (4, 0), (4, 0), (4, 0)), ("stm r0!, {r1, r2}", (3, 0), (3, 0), (3, 0)),
    ("b 9f", (1, 1), (1, 3), (1, 3)), ("bl 9f", (3, 0), (1, 3), (1, 3)), ("bx lr", (2, 0), (1, 3), (1, 3)),
    ("blx r2", (2, 0), (1, 3), (1, 3)), ("mov pc, r2", (2, 0), (1, 3), (1, 3)), ("add pc, r2", (2, 0), (1, 3), (1, 3)),
    ("dmb", (3, 0), (4, 0), (4, 0)), ("mrs r0, primask", (3, 0), (2, 0), (2, 0)), ("msr primask, r0", (3, 0), (2, 0), (2, 0)),
    ("cpsid i", ONE, (2, 0), (2, 0)), ("cpsie i", ONE, (2, 0), (2, 0)), ("ldrex r0, [r1]", None, (2, 0), (2, 0)),
    ("strex r0, r1, [r2]", None, (2, 0), (2, 0)), ("dsb", (3, 0), (4, 0), (4, 0)), ("isb", (3, 0), (4, 0), (4, 0)),
    ("cbz r0, 9f", None, (1, 3), (1, 3)), ("tbb [pc, r0]", None, (2, 3), (2, 3)),
    ("tbh [pc, r0, lsl #1]", None, (2, 3), (2, 3)), ("udiv r0, r1, r2", None, (12, 0), (12, 0)),
    ("sdiv r0, r1, r2", None, (12, 0), (12, 0)), ("mla r0, r1, r2, r3", None, (2, 0), ONE),
    ("mls r0, r1, r2, r3", None, (2, 0), ONE), ("smull r0, r1, r2, r3", None, (5, 0), ONE),
    ("umull r0, r1, r2, r3", None, (5, 0), ONE), ("smlal r0, r1, r2, r3", None, (7, 0), ONE),
    ("umlal r0, r1, r2, r3", None, (7, 0), ONE), ("ldrd r0, r2, [r1]", None, (5, 0), (5, 0)),
    ("strd r0, r2, [r1]", None, (5, 0), (5, 0)), ("ldr pc, [r1]", None, (3, 3), (3, 3)),
    ("ldmdb r0, {r1, r2}", None, (3, 0), (3, 0)), ("ldm r0, {r1, pc}", None, (3, 3), (3, 3)),
    ("adds r1, r1, #4; ldr r0, [r1]", (3, 0), (5, 0), (5, 0)), ("adds r2, r2, #4; ldr r0, [r1, r2]", (3, 0), (5, 0), (5, 0)),
    ("adds r2, r2, #4; ldr r0, [r1]", (3, 0), (4, 0), (4, 0)), ("ldr r1, [r2]; ldr r0, [r1]", (4, 0), (6, 0), (6, 0)),
    ("cmp r1, #4; ldr r0, [r1]", (3, 0), (4, 0), (4, 0)), ("mov r1, r2; mov r3, r1", (2, 0), (2, 0), (2, 0)),
    ("vadd.f32 s0, s1, s2", None, None, (2, 0)), ("vsub.f32 s0, s1, s2", None, None, (2, 0)),
    ("vmul.f32 s0, s1, s2", None, None, (2, 0)), ("vnmul.f32 s0, s1, s2", None, None, (2, 0)),
    ("vcvt.f32.s32 s0, s1", None, None, (2, 0)), ("vmla.f32 s0, s1, s2", None, None, (4, 0)),
    ("vmls.f32 s0, s1, s2", None, None, (4, 0)), ("vfma.f32 s0, s1, s2", None, None, (4, 0)),
    ("vfms.f32 s0, s1, s2", None, None, (4, 0)), ("vnmla.f32 s0, s1, s2", None, None, (4, 0)),
    ("vfnma.f32 s0, s1, s2", None, None, (4, 0)), ("vdiv.f32 s0, s1, s2", None, None, (15, 0)),
    ("vsqrt.f32 s0, s1", None, None, (15, 0)), ("vldr s0, [r0]", None, None, (3, 0)), ("vldr d0, [r0]", None, None, (4, 0)),
    ("vstr s0, [r0]", None, None, (3, 0)), ("vldm r0, {s0, s1, s2}", None, None, (4, 0)),
    ("vpush {s0, s1}", None, None, (3, 0)), ("vmov s0, r1", None, None, ONE), ("vmov r0, r1, d0", None, None, (2, 0)),
    ("vabs.f32 s0, s1", None, None, ONE), ("adds r0, r0, #4; vldr s0, [r0]", None, None, (5, 0)),
    ("vadd.f32 s0, s1, s2; ldr r0, [r1]", None, None, (5, 0)),
]
CORES = ("cortex-m0plus", "cortex-m3", "cortex-m4")
LATER = {"cortex-m7", "cortex-m33", M55}
VARIABLE = {"udiv r0, r1, r2": {"cortex-m3", M4, *LATER}, "sdiv r0, r1, r2": {"cortex-m3", M4, *LATER},
            "vdiv.f32 s0, s1, s2": LATER, "vsqrt.f32 s0, s1": LATER,
            **{f"{name} r0, r1, r2, r3": {"cortex-m3"} for name in ("smull", "umull", "smlal", "umlal")}}


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[decode.Instruction]]:
    """The instructions of TIMES, decoded."""
    folder = tmp_path_factory.mktemp("times")
    out = [".syntax unified\n.thumb\n.text\n"]
    for k, (text, *_) in enumerate(TIMES):
        out.append(f".balign 8\n.global f{k}\n.type f{k}, %function\nf{k}: " + text.replace(";", "\n") + "\nbkpt\n.balign 4\n"
                   f"9: nop\n.size f{k}, . - f{k}\n")
    (folder / "f.S").write_text("".join(out))
    flags = ["-mcpu=cortex-m4", "-mthumb", "-nostdlib", "-Wl,-e,f0", *FLAGS[M4]]
    toolchain.run([toolchain.ARM_GCC, *flags, str(folder / "f.S"), "-o", str(folder / "f.elf")], "does not assemble")
    image = images.load(folder / "f.elf")
    decoder, found = decode.Decoder(image, M4), {}
    for k, (text, *_) in enumerate(TIMES):
        at, found[text] = image.entry(f"f{k}"), []
        for _ in text.split(";"):
            found[text].append(decoder.at(at))
            at = found[text][-1].end
    return found


def wrong(made: Any, blocks: dict[str, list[decode.Instruction]]) -> list[str]:
    """What a table of costs (the module, or a mutant's names) says otherwise than TIMES and VARIABLE."""
    found = []
    for text, *expected in TIMES:
        block = blocks[text]
        for core, want in zip(CORES, expected, strict=True):
            if want is not None and made.Costs(core).of(block) != want:
                found.append(f"{core}: {text}: {made.Costs(core).of(block)}, not {want}")
        for core in (*CORES, "cortex-m7", "cortex-m33", M55):
            if made.Costs(core).variable(block[0]) != (core in VARIABLE.get(text, ())):
                found.append(f"{core}: {text}: variable")
    product = blocks["muls r0, r1, r0"]
    if made.Costs("cortex-m0plus", 32).of(product) != (32, 0) or made.Costs(M4, 32).of(product) != ONE:
        found.append("the multiplier of the M0+")
    none = made.Costs("cortex-m7")
    if none.of(blocks["bx lr"]) != (0, 0) or made.Costs(M4).of([]) != (0, 0) or none.known:
        found.append("no table")
    return found


def mutants() -> Iterator[tuple[str, ast.Module]]:
    """cycles.py with one number in a result or table raised, or one case left out."""
    source = inspect.getsource(cycles)
    count = len(list(ast.walk(ast.parse(source))))
    for at in range(count):
        tree = ast.parse(source)
        nodes = list(ast.walk(tree))
        node = nodes[at]
        if isinstance(node, ast.If):
            node.test = ast.Constant(False)
            yield f"line {node.lineno}: the case left out", ast.fix_missing_locations(tree)
        elif isinstance(node, ast.Return | ast.Dict | ast.Assign):
            for k, number in enumerate(n for n in ast.walk(node) if isinstance(n, ast.Constant) and type(n.value) is int):
                if inside_index(node, number):
                    continue
                before, number.value = number.value, number.value + 1
                yield f"line {node.lineno}: {before} of number {k} raised", ast.fix_missing_locations(tree)
                number.value = before


def inside_index(tree: ast.AST, number: ast.AST) -> bool:
    """Whether a number is an index or compared: no cycles."""
    return any(number in ast.walk(n.slice if isinstance(n, ast.Subscript) else n) for n in ast.walk(tree)
               if isinstance(n, ast.Subscript | ast.Compare))


@needs_gcc
def test_every_timing_term_matters(blocks: Any) -> None:
    assert wrong(cycles, blocks) == []
    alive, count = [], 0
    for name, tree in mutants():
        space: dict[str, Any] = {"__name__": cycles.__name__}
        exec(compile(tree, "<mutant>", "exec"), space)
        count += 1
        try:
            if not wrong(SimpleNamespace(**space), blocks):
                alive.append(name)
        except (AttributeError, IndexError, TypeError):
            pass                        # that is noticed, too
    assert alive == [], "no time changed"
    assert count > 60
