"""Switches and transfers under a condition: with any case left out or statement deleted, an oracle fails."""
from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_measure import needs_gcc

from fuse2c import toolchain
from fuse2c.errors import Refused

pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("networkx", reason="networkx is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")

from fuse2c.wcet import engine, switches, ways
from fuse2c.wcet import image as images
from fuse2c.wcet.cycles import Costs
from fuse2c.wcet.engine import Engine

BELOW = "cmp r0, #2; bhi 2f; "
TABLES = {"tbb": "1: .byte (5f-1b)/2, (6f-1b)/2, (7f-1b)/2, 0; ", "tbh": "1: .hword (5f-1b)/2, (6f-1b)/2, (7f-1b)/2, 0; ",
          "ldr": ".balign 4; 1: .word 5f+1, 6f+1, 7f+1, 9f+1; 9: nop; nop; nop; nop; nop; ", "": ""}
CASES = "5: nop; 6: nop; 7: nop; 2: bx lr"
LIMITED = {         # by the kind of table: ways to it, and the instructions of the longest with the three cases behind it
    "tbb": [
        (f"{BELOW}tbb [pc, r0]", 7), ("cmp r0, #3; bhs 2f; tbb [pc, r0]", 7), ("cmp r0, #2; bls 3f; b 2f; 3: tbb [pc, r0]", 7),
        ("cmp r0, #3; blo 3f; b 2f; 3: tbb [pc, r0]", 7), ("subs r0, #70; " + BELOW + "tbb [pc, r0]", 8),
        ("adds r1, r0, #9; cmp r1, #2; bhi 2f; tbb [pc, r1]", 8),
        ("sub r1, r0, #70; cmp r1, #2; bhi 2f; mov r3, r1; tbb [pc, r3]", 9),
        ("subs r1, r0, #7; cmp r1, #2; bhi 2f; subs r0, #7; tbb [pc, r0]", 9),
        ("ands r0, r0, #1; tbb [pc, r0]", 6),
        ("movs r1, #1; ands r1, r0; tbb [pc, r1]", 7), ("lsrs r0, r0, #31; tbb [pc, r0]", 6),
        ("ldr r1, [r0]; cmp r1, #2; bhi 2f; ldr r2, [r0]; tbb [pc, r2]", 9),
        ("ldr r1, [r0, r3, lsl #2]; cmp r1, #2; bhi 2f; ldr r2, [r0, r3, lsl #2]; tbb [pc, r2]", 9),
        ("cmp r1, #0; beq 3f; cmp r0, #2; bls 4f; b 2f; 3: cmp r0, #1; bhi 2f; 4: tbb [pc, r0]", 9),
        ("cmp r0, #2; bls 4f; movs r0, #1; 4: tbb [pc, r0]", 8),
        ("str r0, [r3, #4]; " + BELOW + "ldr r1, [r3, #4]; tbb [pc, r1]", 9),
    ],
    "": [("uxtb r0, r0; tbb [pc, r0]; .fill 256, 1, 128", 6),
         (f".balign 4; {BELOW}nop; add r0, pc; ldrb r0, [r0, #4]; lsls r0, r0, #1; add pc, r0; "
          ".byte (5f-1f)/2+1, (6f-1f)/2+1, (7f-1f)/2+1, 0; 1:", 7 + 4),
         (f"b 3f; .balign 4; 5: nop; 6: nop; 7: nop; bx lr; 3: {BELOW}adr r3, 1f; ldrsb r3, [r3, r0]; lsls r3, r3, #1; "
          "add pc, r3; 8: .balign 4; 1: .byte (5b-8b-2)/2, (6b-8b-2)/2, (7b-8b-2)/2, 0", 7 + 4),
         (f"{BELOW}movs r0, #1; adr r3, 1f; ldrb r0, [r3, r0]; lsls r0, r0, #1; add pc, r0; .balign 4; 1: .byte 7, 2, 9, 0",
          7 + 4)],
    "tbh": [(f"{BELOW}tbh [pc, r0, lsl #1]", 7)],
    "ldr": [
        ("adr r3, 1f; ldr pc, [r3, r0, lsl #2]", 2 + 9),        # to where the words are no addresses of its code
        (f"{BELOW}adr r3, 1f; ldr pc, [r3, r0, lsl #2]", 8), (f"{BELOW}adr r3, 1f; ldr r3, [r3, r0, lsl #2]; bx r3", 9),
        (f"{BELOW}ldr r3, 8f; ldr r3, [r3, r0, lsl #2]; mov pc, r3; .balign 4; 8: .word 1f", 9),
        (f"{BELOW}lsls r0, r0, #1; adr r3, 1f; ldr r3, [r3, r0, lsl #1]; bx r3", 10),
        (f"{BELOW}adr r3, 1f; lsls r0, r0, #2; add r3, r0; ldr r3, [r3]; bx r3", 11),
    ],
}
UNLIMITED = [       # a byte table
    "cmp r0, #2; bgt 2f; tbb [pc, r0]", "cmp r0, #2; bls 2f; tbb [pc, r0]", "cmp r0, r1; bhi 2f; tbb [pc, r0]",
    f"{BELOW}tbb [pc, r1]", "movs r2, #2; cmp r2, r0; bhi 2f; tbb [pc, r0]", "tbb [pc, r0]", "ands r0, r1; tbb [pc, r0]",
    "asrs r0, r0, #31; tbb [pc, r0]", "lsrs r0, r1; tbb [pc, r0]", "ldrb r1, [r0]; tbb [pc, r1]",
    f"{BELOW}cmp r1, #7; it eq; moveq r0, r1; tbb [pc, r0]", f"{BELOW}adds r0, r0, r1; tbb [pc, r0]",
    f"{BELOW}cmp r1, #7; it eq; moveq r0, #1; tbb [pc, r0]", "ldr r1, [r3]; cmp r0, #1; bhi 2f; adds r0, r0, r1; tbb [pc, r0]",
    f"{BELOW}eors r0, r1; tbb [pc, r0]", "cmp r0, #2; adds r1, #1; bhi 2f; tbb [pc, r0]",
    "cmp r0, #2; tst r1, r1; bhi 2f; tbb [pc, r0]", "cmp r0, #2; it eq; cmpeq r1, #1; bhi 2f; tbb [pc, r0]",
    "cmp r0, #2; cmn r1, #1; bhi 2f; tbb [pc, r0]", "cmp r0, #2; cbz r1, 2f; tbb [pc, r0]",
    f"{BELOW}ldmia r1!, {{r0, r2}}; tbb [pc, r0]", f"{BELOW}ldr r3, [r0], #4; tbb [pc, r0]",
    f"{BELOW}ldr r3, [r0, #4]!; tbb [pc, r0]",
    "cmp r0, #2; vcmp.f32 s0, #0; vmrs apsr_nzcv, fpscr; bhi 2f; tbb [pc, r0]", f"{BELOW}uxtb r0, r0; tbb [pc, r0]",
    "ldr r1, [r0]; cmp r1, #2; bhi 2f; ldr r2, [r0, #4]; tbb [pc, r2]",
    "ldr r1, [r0, r3, lsl #2]; cmp r1, #2; bhi 2f; ldr r2, [r0, r3, lsl #1]; tbb [pc, r2]",
    "ldrb r1, [r0]; cmp r1, #2; bhi 2f; ldr r2, [r0]; tbb [pc, r2]",
    *(f"ldr r1, [r0]; cmp r1, #2; bhi 2f; {store}; ldr r2, [r0]; tbb [pc, r2]"
      for store in ("str r1, [r3]", "vstr s0, [r3]", "strex r4, r5, [r3]", "strd r4, r5, [r3]")),
    "ldr r1, [r0]; cmp r1, #2; bhi 2f; strex r1, r2, [r3]; tbb [pc, r1]",
    "str r0, [r3, #4]; " + BELOW + "ldr r1, [r3]; tbb [pc, r1]",
    "strb r0, [r3, #4]; " + BELOW + "ldr r1, [r3, #4]; tbb [pc, r1]",
    "str r1, [r3, #4]; cmp r0, #0; it eq; streq r0, [r3, #4]; " + BELOW + "ldr r1, [r3, #4]; tbb [pc, r1]",
    "str r0, [r3], #4; " + BELOW + "ldr r1, [r3]; tbb [pc, r1]",
    "cmp r1, #0; beq 4f; " + BELOW + "4: tbb [pc, r0]", "cmp r0, #2; bls 4f; movs r0, #100; 4: tbb [pc, r0]",
    "sub sp, #8; str r0, [sp, #4]; " + BELOW + "pop {r3}; ldr r1, [sp, #4]; tbb [pc, r1]",
    "cmp r0, #200; bhi 2f; tbb [pc, r0]", "cmp r0, #3; bhi 2f; lsls r0, r0, #1; tbb [pc, r0]",
]
CALLS = [           # transfers under a condition; a call of g takes 3 instructions and leaves 9 turns
    ("push {r4, lr}; movs r4, #5; cmp r0, r1; it eq; bleq g; 1: subs r4, #1; bne 1b; pop {r4, pc}", 5 + 3 + 18 + 1),
    ("push {r4, lr}; movs r4, #20; cmp r0, r1; it eq; bleq g; 1: subs r4, #1; bne 1b; pop {r4, pc}", 5 + 40 + 1),
    ("movs r0, #3; cmp r0, #3; it eq; bxeq lr; nop; nop; bx lr", 4),
    ("movs r0, #3; cmp r0, #4; it eq; bxeq lr; nop; nop; bx lr", 7),
    ("cmp r0, #3; it eq; bxeq lr; nop; nop; bx lr", 6),
    ("push {r4, lr}; cmp r0, #3; it eq; popeq {r4, pc}; nop; pop {r4, pc}", 6),
    ("push {r4, lr}; cmp r0, #3; itt eq; nopeq; popeq {r4, pc}; pop {r4, pc}", 6),
    ("cmp r0, #3; beq g; bx lr", 2 + 3),
    ("movs r0, #3; cmp r0, #3; beq g; bx lr", 3 + 3), ("movs r0, #3; cmp r0, #4; beq g; bx lr", 4),
    ("movw r4, #1100; 1: ldrb r3, [r0]; cbz r3, 2f; subs r4, #1; bne 1b; 2: bx lr", 1 + 1100 * 4 + 1),
    ("movw r4, #1100; 1: ldrb r3, [r0]; cbz r3, 2f; subs r4, #1; it eq; bxeq lr; b 1b; 2: bx lr", 1 + 1100 * 6 - 1),
    ("movs r4, #5; 1: cmp r0, #7; it eq; bxeq lr; subs r4, #1; bne 1b; bx lr", 1 + 5 * 5 + 1),
]
G = ".balign 4; .type g, %function; g: movs r4, #9; nop; bx lr; .size g, . - g; "
ORACLES: list[tuple[str, int | None]] = [
    *((f"{text}; {TABLES[kind]}{CASES}", count) for kind, programs in LIMITED.items() for text, count in programs),
    *((f"{text}; {TABLES['tbb']}{CASES}", None) for text in UNLIMITED), *CALLS,
]


@pytest.fixture(scope="module", autouse=True)
def impatient() -> Iterator[None]:
    """No oracle takes more basic blocks than this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "MOST_BLOCKS", 10_000)
        yield


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> images.Image:
    """One linked program with a function for each oracle."""
    folder = tmp_path_factory.mktemp("ways")
    out = [".syntax unified\n.thumb\n.text\n", G.replace("; ", "\n")]
    for k, (text, _) in enumerate(ORACLES):
        out.append(f".balign 8\n.global f{k}\n.type f{k}, %function\nf{k}: " + text.replace("; ", "\n")
                   + f"\n.size f{k}, . - f{k}\n.ltorg\n")
    (folder / "f.S").write_text("".join(out))
    flags = ["-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "-nostdlib", "-Wl,-Ttext=0x8000",
             "-Wl,-e,f0"]
    toolchain.run([toolchain.ARM_GCC, *flags, str(folder / "f.S"), "-o", str(folder / "f.elf")], "does not assemble")
    return images.load(folder / "f.elf")


ENDLESS = ("way.insert(0, before[0])", "self._extra.setdefault(address, set()).update(goal")
"""Without these a mutant runs for ever."""
UNSEEN = {
    # libgcc's helpers, which C on an M0+ calls (test_wcet.py)
    "base = i.end if width < 4 else i.end + 3 & ~3", "entry = Unknown(table=(Term(base + number.offset &", "helper is not None",
    "number = _times(self._now[0], width)", "width < 4", "code.function.name in TABLE_HELPERS",
    # loops that data ends (test_wcet_refused.py)
    "state.loose[header] = n + 1", "n > (LONGEST_LOOSE if header in self._counted else",
    # what breaks off otherwise, or limits a number that has a limit
    "at is None", "entry is None", "target is None", "last is None or i.name not in ('mov', 'add', 'bx')", "i.name == 'ldrb'",
    "not isinstance(memory, Mem) or memory.index is Non", "low -= low >> 31 << 32", "sign", "ways = sorted(cases)",
}
"""What no oracle here notices, and why that is so."""


def outcome(image: images.Image, k: int) -> Any:
    """Instructions and cycles of an oracle, None if it is refused; -1 if the analysis breaks off."""
    machine = Engine(image, Costs("cortex-m4"))
    try:
        state = machine.analyse(image.entry(f"f{k}"))
    except Refused as error:
        return None if "jumps to an address that is not known" in str(error) else error.args
    except Exception as error:          # a mutant may do anything
        return type(error)
    return state.instructions, state.cycles, machine.stack_bytes, sorted(machine.facts.forks.items())


@pytest.fixture(scope="module")
def expected(image: images.Image) -> list[Any]:
    """What comes out of every oracle; the instructions are those that are written down."""
    found = [outcome(image, k) for k in range(len(ORACLES))]
    for (text, count), got in zip(ORACLES, found, strict=True):
        assert (got if count is None or not isinstance(got, tuple) else got[0]) == count, text
    return found


def mutants(source: str) -> Iterator[tuple[str, ast.Module]]:
    """The source with one condition never met, or one statement left out; the condition or statement in short."""
    for at in range(len(list(ast.walk(ast.parse(source))))):
        tree = ast.parse(source)
        node = list(ast.walk(tree))[at]
        text = " ".join(ast.unparse(node.test if isinstance(node, ast.If | ast.IfExp) else node).split())[:50]
        if isinstance(node, ast.If | ast.IfExp):
            node.test = ast.Constant(False)
        elif isinstance(node, ast.Expr | ast.Assign | ast.AugAssign) and not isinstance(node.value, ast.Constant):
            for parent in ast.walk(tree):
                for body in (getattr(parent, "body", None), getattr(parent, "orelse", None)):
                    if isinstance(body, list) and node in body:
                        body[body.index(node)] = ast.copy_location(ast.Pass(), node)
        else:
            continue
        if text not in ENDLESS:
            yield text, ast.fix_missing_locations(tree)


def alive(image: images.Image, expected: list[Any], source: str, install: Callable[[Any], None]) -> tuple[list[str], int]:
    """The mutants that no oracle notices, and how many there were."""
    found, count = [], 0
    for name, tree in mutants(source):
        count += 1
        install(tree)
        if all(outcome(image, k) == want for k, want in enumerate(expected)):
            found.append(name)
    return found, count


@needs_gcc
def test_every_case_of_a_switch_matters(image: images.Image, expected: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def install(tree: ast.Module) -> None:
        space: dict[str, Any] = {"__name__": switches.__name__}
        exec(compile(tree, "<mutant>", "exec"), space)
        monkeypatch.setattr(ways, "goals", space["goals"])
    found, count = alive(image, expected, inspect.getsource(switches), install)
    assert set(found) <= UNSEEN and count > 90


@needs_gcc
@pytest.mark.parametrize(("owner", "method"), [(Engine, "_conditional"), (ways.Ways, "_fork"), (ways.Ways, "_each"),
                                               (ways.Ways, "_all_ways"), (ways.Ways, "_know")])
def test_every_statement_of_a_transfer_matters(owner: type, method: str, image: images.Image, expected: list[Any],
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    def install(tree: ast.Module) -> None:
        space: dict[str, Any] = dict(vars(inspect.getmodule(owner)))
        exec(compile(tree, "<mutant>", "exec"), space)
        monkeypatch.setattr(owner, method, space[method])
    found, count = alive(image, expected, textwrap.dedent(inspect.getsource(getattr(owner, method))), install)
    assert set(found) <= UNSEEN and count > 0
