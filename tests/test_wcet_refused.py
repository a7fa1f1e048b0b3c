"""Programs without a worst case, and files that are no program: each is refused, with its reason, place and way out."""
from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from test_measure import needs_gcc

from fuse2c import toolchain
from fuse2c.errors import Refused

pytest.importorskip("capstone", reason="capstone is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("networkx", reason="networkx is not installed: pip install 'fuse2c[wcet]'")
pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")

from test_wcet import assembled

from fuse2c import wcet
from fuse2c.wcet import engine

BLOCKS = 200_000
"""No program here may take more basic blocks: some seconds."""
G = "\n.size f, . - f\n.type g, %function\ng: "
CALL = "f: push {r4, lr}\nbl g\npop {r4, pc}"
NO_BOUND = r"no bound for the loop at f\+0x"
NOT_LISTED = "is not among the instructions"

LOOPS = {
    "data-dependent count": ("ldr r1, [r0]\n1: subs r1, #1\nbne 1b\nbx lr", NO_BOUND),
    "count is an argument": ("1: subs r0, #1\nbne 1b\nbx lr", "no bound for the loop at f"),
    "data-dependent end": ("ldrb r1, [r0], #1\ncmp r1, #0\nbne f\nbx lr", "no bound for the loop at f"),
    "end by a float": ("vldr s0, [r0]\n1: vadd.f32 s0, s0, s0\nvcmp.f32 s0, #0\nvmrs apsr_nzcv, fpscr\nbne 1b\n"
        "bx lr", NO_BOUND),
    "endless": ("b f", "no bound for the loop at f"),
    "endless, with a counter": ("movs r1, #0\n1: str r1, [r0]\nadds r1, #1\nb 1b", NO_BOUND),
    "endless, with a call": ("bl g\nb f" + G + "bx lr", "no bound for the loop at f"),
    "counter that steps over its limit": ("movs r1, #5\n1: subs r1, #2\nbne 1b\nbx lr", r"f\+0x2 never ends: its counter"),
    "the same, upwards": ("movs r1, #1\n1: adds r1, #4\nbne 1b\nbx lr", r"f\+0x2 never ends: its counter"),
    "polling": ("ldr r1, =0x40000000\n1: ldr r2, [r1]\ncmp r2, #0\nbeq 1b\nbx lr\n.ltorg", NO_BOUND),
    "spinning on an exclusive store": ("ldrex r1, [r0]\nstrex r2, r1, [r0]\ncmp r2, #0\nbne f\n"
        "bx lr", "no bound for the loop at f"),
    "irreducible": ("ldr r1, [r0]\nmovs r2, #9\ncmp r1, #0\nbeq 2f\n1: subs r2, #1\n2: subs r2, #2\ncmp r2, #1\nbgt 1b\nbx lr",
                    "several places .it is irreducible"),
    "bound changed through an alias": ("sub sp, #8\nmovs r1, #5\nstr r1, [sp]\nmov r3, sp\nldr r2, [r0]\nadd r3, r2\n"
                                       "str r2, [r3]\nldr r0, [sp]\n1: subs r0, #1\nbne 1b\nadd sp, #8\nbx lr", NO_BOUND),
    "bound changed by a callee": ("push {r4, lr}\nsub sp, #8\nmovs r1, #5\nstr r1, [sp]\nmov r0, sp\nbl g\nldr r0, [sp]\n"
                                  "1: subs r0, #1\nbne 1b\nadd sp, #8\npop {r4, pc}" + G + "ldr r1, [r2]\nstr r1, [r0]\nbx lr",
                                  NO_BOUND),
    "bound in a variable": ("ldr r1, =n\nldr r1, [r1]\n1: subs r1, #1\nbne 1b\nbx lr\n.ltorg\n.size f, . - f\n.data\n"
        "n: .word 5",
                            NO_BOUND),
    "saved register overwritten": ("movs r4, #5\npush {r4, lr}\nldr r1, [r0]\nstr r1, [sp]\npop {r4, lr}\n"
        "1: subs r4, #1\nbne 1b\n"
                                   "bx lr", NO_BOUND),
}
CALLS = {
    "recursion": ("push {r4, lr}\nbl f\npop {r4, pc}", "f is recursive"),
    "mutual recursion": ("push {r4, lr}\nbl g\npop {r4, pc}" + G + "push {r4, lr}\nbl f\n"
        "pop {r4, pc}", "f is recursive.* in g"),
    "recursion by a tail call": ("push {r4, lr}\nbl g\npop {r4, pc}" + G + "b f", "f is recursive: g jumps to it"),
    "function pointer": ("push {r4, lr}\nldr r3, [r0]\nblx r3\npop {r4, pc}", "blx r3 at .* calls through a pointer"),
    "table of callbacks in RAM": ("push {r4, lr}\nldr r3, =h\nldr r3, [r3, #4]\nblx r3\npop {r4, pc}\n.ltorg" + G
                                  + "bx lr\n.size g, . - g\n.data\n"
        "h: .word g + 1, g + 1", "blx r3 at .* calls through a pointer"),
    "tail call through a pointer": ("ldr r3, [r0]\nbx r3", "bx r3 at .* jumps to an address that is not known"),
    "table without a limit": ("ldr r1, [r0]\ntbb [pc, r1]\n1: .byte (2f-1b)/2, (3f-1b)/2\n2: nop\n3: bx lr",
                              r"tbb \[pc, r1\] at .* jumps to an address that is not known"),
    "index behind the table": ("movs r1, #99\ntbh [pc, r1, lsl #1]\n1: .hword (2f-1b)/2, (3f-1b)/2\n2: nop\n3: bx lr",
                               r"tbh \[pc, r1, lsl #1\] at .* jumps to an address that is not known"),
    "malloc": ("push {r4, lr}\nbl malloc\npop {r4, pc}\n.size f, . - f\n.type malloc, %function\nmalloc: bx lr",
               "f calls malloc: allocation has no bound"),
    "longjmp": ("ldmia r0!, {r4-r11, ip, lr}\nmov sp, ip\n"
        "bx lr", "the stack pointer is set to a value that is not known, in f"),
    "return from an exception": ("ldr r0, =0xfffffff9\nbx r0\n.ltorg", "control reaches 0xfffffff8"),
    "broken return": ("push {r4, lr}\nldr r1, [r0]\nstr r1, [sp, #4]\n"
        "pop {r4, pc}", "pop .* jumps to an address that is not known"),
    "code in RAM": ("push {r4, lr}\nbl g\npop {r4, pc}\n.size f, . - f\n.section .ram, \"awx\", %progbits\n"
        ".type g, %function\n"
                    "g: bx lr", "control reaches 0x.*, where the program has no code"),
}
STACK = {
    "unknown stack pointer": ("ldr r3, [r0]\nmov sp, r3\nbx lr", "stack pointer is set to a value that is not known, in f"),
    "loaded stack pointer": ("ldr sp, [r0]\nbx lr", "stack pointer is set to a value that is not known, in f"),
    "another stack": ("ldr r1, =0x20001000\nmov sp, r1\nbx lr\n"
        ".ltorg", "stack pointer is set to a value that is no stack, in f"),
    "variable-length array": ("push {r7, lr}\nmov r7, sp\nldr r3, [r0]\nsub sp, sp, r3\nmov sp, r7\npop {r7, pc}",
                              "stack pointer is set to a value that is not known, in f"),
    "larger than any memory": ("ldr r1, =0x40000000\nsub sp, sp, r1\nadd sp, sp, r1\nbx lr\n"
        ".ltorg", "stack pointer is set .*, in f"),
    "unbalanced": ("sub sp, #8\nbx lr", "f returns with another stack pointer"),
    "written specially": ("msr msp, r0\nbx lr", "msr msp, r0 at 0x8000 changes the stack pointer"),
    "chosen specially": ("msr control, r0\nbx lr", "msr control, r0 at 0x8000 changes the stack pointer"),
    "read specially": ("mrs r1, psp\nstr r0, [r1]\nbx lr", "mrs r1, psp at 0x8000 reads the stack pointer"),
}
CODE = {
    "undecodable": ("nop\n.inst.w 0xf7f0a000\nbx lr", r"at f\+0x2"),
    "coprocessor": ("mcr p0, #0, r0, c0, c0\nbx lr", "not known at f|not among"),
    "vector instruction": ("nop\n.inst.w 0xef022844\nbx lr", r"at f\+0x2"),
    "waits for an interrupt": ("wfi\nbx lr", f"wfi at f {NOT_LISTED}"), "waits for an event": ("wfe\n"
        "bx lr", f"wfe at f {NOT_LISTED}"),
    "calls an operating system": ("svc #1\nbx lr", f"svc #1 at f {NOT_LISTED}"),
    "calls a debugger": ("bkpt #0xab\nbx lr", f"bkpt #0xab at f {NOT_LISTED}"),
    "never to be reached": ("udf #0\nbx lr", f"udf #0 at f {NOT_LISTED}"),
    "runs into data": ("nop\n.word 0x12345678", r"control reaches data at f\+0x2"),
    "jumps into literals": ("ldr r1, [r0]\ncbz r1, 1f\nbx lr\n.balign 4\n.word 0x12345678\n1: .word 0x47704770",
                            r"control reaches data at f\+0xc"),
    "jump into an IT block": ("ldr r1, [r0]\ncmp r1, #0\nbeq 2f\ncmp r1, #5\nitt eq\nmoveq r2, #1\n2: moveq r3, #2\nbx lr",
                              r"a jump leads to f\+0xc, inside an IT block"),
    "the same into a loop": ("movs r4, #200\nldr r1, [r0]\ncmp r1, #0\nbne 2f\ncmp r1, #1\nite eq\nmoveq r2, #1\n"
        "2: movne r4, #3\n"
                             "1: subs r4, #1\nbne 1b\nbx lr", r"a jump leads to f\+0xe, inside an IT block"),
    "modifies itself": ("adr r1, 1f\nldr r2, =0xbf00bf00\nstr r2, [r1]\nmovs r0, #3\n.balign 4\n1: subs r0, #1\n"
        "bne 1b\nbx lr\n.ltorg",
                        r"a store changes code or a constant, at f\+0xc, in f"),
    "modifies itself in a loop": ("adr r1, 1f\nadds r3, r1, #4\n1: strh r2, [r1], #2\ncmp r1, r3\nbne 1b\nbx lr",
                                  r"a store changes code or a constant, at f\+0x"),
    "changes a constant": ("adr r1, 9f\nmovs r2, #200\nstrb r2, [r1]\nldrb r0, [r1]\n1: subs r0, #1\nbne 1b\nbx lr\n"
        ".balign 4\n"
                           "9: .byte 4, 0", r"a store changes code or a constant, at f\+0x"),
}
HELIUM = {
    "low-overhead loop of data": ("push {r4, lr}\nldr r1, [r0]\ndls lr, r1\n1: nop\nle lr, 1b\npop {r4, pc}",
                                  "the loop of le .* in f has a count that is not known"),
    "the same, while": ("push {r4, lr}\nldr r1, [r0]\nwls lr, r1, 2f\n1: nop\nle lr, 1b\n2: pop {r4, pc}",
                        "le .* in f has a count that is not known"),
    "counter loaded": ("push {r4, lr}\nmovs r1, #5\ndls lr, r1\n1: ldr lr, [r0]\nle lr, 1b\npop {r4, pc}",
                       "le .* in f has a count that is not known"),
    "counter set again": ("push {r4, lr}\nmovs r1, #5\ndls lr, r1\n1: movs r2, #3\nmov lr, r2\nle lr, 1b\n"
        "pop {r4, pc}", NO_BOUND),
    "counter clobbered by a call": ("push {r4, lr}\nmovs r1, #5\ndls lr, r1\n1: bl g\nle lr, 1b\n"
        "pop {r4, pc}" + G + "bx lr", NO_BOUND),
    "jump into a low-overhead loop": ("push {r4, lr}\nldr r1, [r0]\nmovs r2, #5\ncmp r1, #0\nbeq 2f\ndls lr, r2\n"
        "1: nop\n2: nop\n"
                                      "le lr, 1b\npop {r4, pc}", r"f\+0x10 is entered at several places"),
    "without a counter": ("push {r4, lr}\n1: nop\n.inst.w 0xf02fc803\npop {r4, pc}", NO_BOUND),
}
PROGRAMS = [(core, name, *case) for core, cases in (("cortex-m4", LOOPS | CALLS | STACK | CODE), ("cortex-m55", HELIUM))
            for name, case in cases.items()]


@needs_gcc
@pytest.mark.parametrize(("core", "name", "text", "reason"), PROGRAMS, ids=[case[1] for case in PROGRAMS])
def test_programs_without_a_bound(core: str, name: str, text: str, reason: str, tmp_path: Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_BLOCKS", BLOCKS)
    end = "" if ".size f" in text else "\n.size f, . - f"
    elf = assembled(tmp_path, f"f: {text}{end}" + ("" if end else "\n.text\n"), core)
    with pytest.raises(Refused, match=reason) as caught:
        wcet.analyse(elf, "f", core)
    assert "no end after" not in str(caught.value)
    assert re.search(r"\bf\b|0x[0-9a-f]+", caught.value.args[0])        # where


# C that calls what a library has: no source of ours, and reasons deep inside.
LIBRARY = {
    "sine of a library": ("#include <math.h>\ndouble f(const double *x) { return sin(*x); }", "no bound for the loop at __"),
    "malloc of a library": ("#include <stdlib.h>\n"
        "void *f(const int *n) { return malloc((unsigned)*n); }", "allocation has no bound"),
    "longjmp of a library": ("#include <setjmp.h>\nstatic jmp_buf b;\nvoid g(void) { longjmp(b, 1); }\n"
                             "int f(void) { if (setjmp(b) == 0) g(); return 1; }",
        "stack pointer|jumps to an address|not known"),
    "qsort by a comparison": ("#include <stdlib.h>\nstatic int less(const void *a, const void *b)\n"
                              "{ return *(const int *)a - *(const int *)b; }\n"
                              "void f(int *x) { qsort(x, 9, 4, less); }", "no bound|through a pointer|recursive"),
    "strlen": ("#include <string.h>\nunsigned f(const char *s) { return strlen(s) + 1; }", "no bound for the loop at strlen"),
}


@needs_gcc
@pytest.mark.parametrize(("source", "reason"), LIBRARY.values(), ids=LIBRARY)
def test_what_a_library_does(source: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(source)
    tools = toolchain.cross(("-mcpu=cortex-m3",))
    built = [toolchain.ARM_GCC, *tools.flags, "-Os", "-fno-builtin", str(tmp_path / "f.c"), "-o", str(tmp_path / "f.elf"),
             "-nostartfiles", "-Wl,-e,f", "-Wl,--no-warn-rwx-segments", "--specs=nosys.specs", "-lm"]
    toolchain.run(built, "does not link")
    with pytest.raises(Refused, match=reason):
        wcet.analyse(tmp_path / "f.elf", "f")


def field(data: bytes, at: int, form: str, value: int) -> bytes:
    """The bytes with a number in them replaced."""
    return data[:at] + struct.pack(form, value) + data[at + struct.calcsize(form):]


def section(data: bytes, number: int, at: int, value: int) -> bytes:
    """A field of a section's header replaced."""
    return field(data, struct.unpack_from("<I", data, 32)[0] + 40 * number + at, "<I", value)


FILES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "not an ELF file"),
    "text": (lambda data: b"int main(void)\n" * 40, "not an ELF file"),
    "cut in its header": (lambda data: data[:40], "not an ELF file"),
    "cut in its code": (lambda data: data[:0x8010 & 0xFFF], "not an ELF file|cut|symbol table"),
    "cut in its tables": (lambda data: data[:-60], "not an ELF file|cut|symbol table"),
    "for x86-64": (lambda data: field(field(data, 4, "<B", 2), 18, "<H", 62), "no 32-bit little-endian Arm|not an ELF file"),
    "for AArch64": (lambda data: field(data, 18, "<H", 183), "no 32-bit little-endian Arm program"),
    "for RISC-V": (lambda data: field(data, 18, "<H", 243), "no 32-bit little-endian Arm program"),
    "big-endian": (lambda data: field(data, 5, "<B", 2), "no 32-bit little-endian Arm|not an ELF file"),
    "an object": (lambda data: field(data, 16, "<H", 1), "is not linked"),
    "a core dump": (lambda data: field(data, 16, "<H", 4), "is not linked"),
    "section headers far behind": (lambda data: field(data, 32, "<I", 0xFFFFFF00), "not an ELF file|symbol table"),
    "a section of 4 GB": (lambda data: section(data, 1, 20, 0xFFFFFFF0), "not an ELF file|longer than the file|cut"),
    "a section behind the end": (lambda data: section(data, 1, 16, 0xFFFFF000), "not an ELF file|longer than the file|cut"),
}


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return assembled(tmp_path_factory.mktemp("elf"), "f: movs r0, #5\n1: subs r0, #1\nbne 1b\nbx lr").read_bytes()


@needs_gcc
@pytest.mark.parametrize(("change", "reason"), FILES.values(), ids=FILES)
def test_files_that_are_no_program(change: Callable[[bytes], bytes], reason: str, linked: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.elf").write_bytes(change(linked))
    with pytest.raises(Refused, match=reason) as caught:
        wcet.analyse(tmp_path / "x.elf", "f")
    assert "x.elf" in str(caught.value)


@needs_gcc
def test_no_symbols(linked: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.elf").write_bytes(field(field(linked, 32, "<I", 0), 48, "<H", 0))
    with pytest.raises(Refused, match="no symbol table") as caught:
        wcet.analyse(tmp_path / "x.elf", "f")
    assert "do not strip" in caught.value.hint


@needs_gcc
@pytest.mark.parametrize(("text", "reason"), {
    "entry in data": ("f: bx lr\n.size f, . - f\n.global g\n.type g, %object\n.data\ng: .word 5\n"
        ".size g, 4", "no function 'g'"),
    "entry is a label": ("f: nop\ng: bx lr", "no function 'g'"),
    "entry is data in code": ("f: bx lr\n.size f, . - f\n.type g, %function\n.balign 4\n"
        "g: .word 0x47704770", "control reaches data at g"),
}.values())
def test_entries_that_are_no_code(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=reason):
        wcet.analyse(assembled(tmp_path, text), "g")


@needs_gcc
def test_sections_at_one_address(tmp_path: Path) -> None:
    elf = assembled(tmp_path, "f: bx lr\n.size f, . - f\n.section .more, \"ax\", %progbits\nnop\nbx lr")
    with elf.open("rb") as stream:
        sections = {s.name: n for n, s in enumerate(ELFFile(stream).iter_sections())}
    elf.write_bytes(section(elf.read_bytes(), sections[".more"], 12, 0x8000))
    with pytest.raises(Refused, match=r"two sections at address 0x8000: \.(text|more) and"):
        wcet.analyse(elf, "f")


@needs_gcc
def test_any_field_may_be_wrong(linked: bytes, tmp_path: Path) -> None:
    """Each word of the headers and tables, replaced by extreme numbers: an answer that is right, or a refusal."""
    path, answers = tmp_path / "x.elf", set()
    first = struct.unpack_from("<I", linked, 32)[0]
    for at in (*range(4, 52, 4), *range(first, len(linked) - 3, 4)):
        for value in (0, 0x7FFFFFFF, 0xFFFFFFF0):
            path.write_bytes(field(linked, at, "<I", value))
            try:
                answers.add(wcet.analyse(path, "f", "cortex-m4").instructions)
            except Refused:
                answers.add(0)
    assert answers == {0, 12}
