"""Generated C under every compiler: no warnings on any target at any level, no library behind the code's back."""
from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cases
import cases_ops
import pytest
from graphs import Builder
from graphs import compile as compiled
from test_measure import needs_qemu

import fuse2c
from fuse2c import resources, target, toolchain
from fuse2c.codegen import project

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
PEDANTIC = ("-Wpedantic", "-Wundef", "-Wdouble-promotion", "-Wcast-align", "-Wstrict-prototypes", "-Wmissing-prototypes")
LEVELS = ("-O2", "-O3", "-Os")
CORES = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")
MODELS: dict[str, Callable[[], Builder | Path]] = {
    "int8": lambda: DIGITS / "digits_int8.onnx", "float": lambda: DIGITS / "digits_fp32.onnx",
    "residual": lambda: cases.layer("net-residual-clip", cases.STYLES["u8"]),
    "branches": lambda: cases.layer("net-branches", cases.FLOAT),
    "softmax": lambda: cases.layer("net-flattened", cases.STYLES["edge"]),
}
# What a compiler may call of its own accord: copies, and arithmetic that a core lacks.
HELPERS = ("memcpy", "memset", "memmove")


def plan_of(name: str, folder: Path, target_name: str, **options: object) -> fuse2c.Compiled:
    model = MODELS[name]()
    if isinstance(model, Path):
        return fuse2c.plan(model, target_name, **options)
    return compiled(model, folder, target=target_name, **options)


def tools(compiler: str, target_name: str) -> toolchain.Toolchain:
    """A compiler for a target; the test is skipped where it is not installed."""
    for tool in (compiler, *([toolchain.ARM_GCC] if target_name != "host" else [])):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    if target_name == "host":
        return toolchain.host(compiler)
    return toolchain.cross(target.load(target_name).processor.cflags, None if compiler == toolchain.ARM_GCC else compiler)


def objects_of(c: fuse2c.Compiled, tool: toolchain.Toolchain, folder: Path, level: str) -> list[Path]:
    """The objects of a project, example included, every warning an error."""
    out = c.emit(folder / "out")
    extra = [flag for flag in PEDANTIC if flag != "-Wcast-align" or not tool.clang]
    return [toolchain.compile_object(tool, source, folder / f"{source.stem}{level}.o", opt=level, extra=extra)
            for source in sorted(out.glob("*.c"))]


def undefined(objects: list[Path], nm: str) -> set[str]:
    """Symbols that the model takes from elsewhere; the example's own are left out."""
    if shutil.which(nm) is None:
        pytest.skip(f"{nm} is not installed")
    found, own = set[str](), set[str]()
    for path in objects:
        if path.name.startswith("example_main"):
            continue
        listed = subprocess.run([nm, str(path)], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            *_, kind, name = line.split()
            (found if kind == "U" else own).add(name)
    return found - own


def foreign(objects: list[Path]) -> set[str]:
    """What Arm objects call beyond copies and arithmetic: a heap, a library of mathematics."""
    return {symbol for symbol in undefined(objects, "arm-none-eabi-nm")
            if not symbol.startswith(("__aeabi_", "__gnu_thumb1_")) and symbol not in HELPERS}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("model", MODELS)
def test_no_warnings_on_the_host(model: str, compiler: str, tmp_path: Path) -> None:
    c, tool = plan_of(model, tmp_path, "host"), tools(compiler, "host")
    for level in LEVELS:
        objects = objects_of(c, tool, tmp_path, level)
    assert undefined(objects, "nm") <= {*HELPERS, "_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("core", CORES)
def test_no_warnings_and_no_library_on_any_core(core: str, level: str, tmp_path: Path) -> None:
    tool = tools(toolchain.ARM_GCC, core)
    for model in ("int8", "float") if level != "-O2" else MODELS:
        (tmp_path / model).mkdir()
        objects = objects_of(plan_of(model, tmp_path / model, core), tool, tmp_path / model, level)
        assert foreign(objects) == set(), model


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_no_warnings_with_clang_for_arm(core: str, tmp_path: Path) -> None:
    tool = tools("clang", core)
    for model in ("int8", "float"):
        (tmp_path / model).mkdir()
        objects_of(plan_of(model, tmp_path / model, core), tool, tmp_path / model, "-O2")


@pytest.mark.parametrize("option", [{"arena": "caller"}, {"io": "int8"}, {"optimize": "ram"}, {"requant": "float"},
                                    {"input_rows": True}, {"place": "exact"},
                                    {"fuse": False}], ids=str)
def test_no_warnings_with_any_option(option: dict[str, object], tmp_path: Path) -> None:
    tool = tools(toolchain.ARM_GCC, "cortex-m4")
    objects_of(plan_of("int8", tmp_path, "cortex-m4", **option), tool, tmp_path, "-O2")


BLOCKS = ("conv-2d", "conv-pointwise", "conv-depthwise", "dense-matmul-deep", "net-residual-clip")
RESERVING = ("-fno-omit-frame-pointer -DF2C_NO_BLOCKS", "-ffixed-r9 -DF2C_NO_BLOCKS",
             "-fPIC -msingle-pic-base -DF2C_NO_BLOCKS")
FLAGS = ("-Og", "-O1", "-fPIC", "-fstack-protector-strong", "-flto", "-mno-unaligned-access", "-mslow-flash-data",
         "-mpure-code", "-mlong-calls", "-fno-inline", "-ffreestanding", "-funroll-loops",
         "-fsanitize=undefined -fsanitize-undefined-trap-on-error",
         *RESERVING)
CLANG_FLAGS = ("-O0", "-Oz", "-fPIC", "-flto", "-fno-omit-frame-pointer", "-ffixed-r9", "-fno-inline")


def blocks(core: str, folder: Path) -> list[Path]:
    """C of kernels that have blocks of assembly, one file each."""
    return [compiled(cases.layer(name, cases.STYLES["s8"]), folder, target=core, name=f"b{n}").emit(folder / name) / f"b{n}.c"
            for n, name in enumerate(BLOCKS)]


@pytest.mark.parametrize(("compiler", "flags"), [(toolchain.ARM_GCC, FLAGS), ("clang", CLANG_FLAGS)], ids=["gcc", "clang"])
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
def test_flags_of_others(core: str, compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    tool = tools(compiler, core)
    for source in blocks(core, tmp_path):
        for extra in flags:
            toolchain.compile_object(tool, source, tmp_path / "x.o", extra=extra.split())


def with_flags(c: fuse2c.Compiled, *flags: str) -> fuse2c.Compiled:
    """A model for a target that has more flags."""
    target_ = c.plan.target
    part = replace(target_.processor, cflags=(*target_.processor.cflags, *flags))
    return replace(c, plan=replace(c.plan, target=replace(target_, processor=part)))


@needs_qemu
@pytest.mark.parametrize("flag", ["-fPIC", "-mpure-code", "-mslow-flash-data", "-mno-unaligned-access", "-mlong-calls",
                                  "-funroll-all-loops", "-fno-jump-tables"])
def test_a_bound_with_flags_of_others(flag: str) -> None:
    pytest.importorskip("highspy", reason="highspy is not installed: pip install 'fuse2c[wcet]'")
    c = fuse2c.plan(DIGITS / "digits_int8.onnx", "cortex-m4")
    usual, found = c.wcet(opt="-O2").instructions, with_flags(c, flag).wcet(opt="-O2")
    assert usual / 2 < found.instructions < 2 * usual and found.ipet >= found.instructions


@needs_qemu
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
def test_a_frame_pointer_leaves_no_register_for_blocks(core: str) -> None:
    """Named among a target's flags, it takes the C twins: the same results, and a bound."""
    c = fuse2c.plan(DIGITS / "digits_int8.onnx", core)
    other = with_flags(c, "-fno-omit-frame-pointer")
    measured, usual = other.bench(opt="-O2"), c.bench(opt="-O2")
    assert measured.mismatches == 0 and measured.instructions is not None and usual.instructions is not None
    assert measured.instructions > usual.instructions
    assert other.wcet(opt="-O2").instructions >= measured.instructions - 40


@pytest.mark.parametrize("style", ["float", *cases.STYLES])
def test_every_kernel_cross_compiles(style: str, tmp_path: Path) -> None:
    """One object for all layers: their C, one after the other, for a core without and one with an FPU."""
    styles = {"float": cases.FLOAT} | cases.STYLES
    plans = [compiled(cases.layer(name, styles[style]), tmp_path, target="cortex-m4", name=f"m{i}").plan
             for i, name in enumerate(cases.all_layers())]
    if style == "float":
        plans += [compiled(cases_ops.operator(name), tmp_path, target="cortex-m4", name=f"o{i}").plan
                  for i, name in enumerate(cases_ops.CASES)]
    sources, headers = [], {}
    for plan in plans:
        for name, text in project.files(plan).items():
            if name.endswith(".h"):
                headers[name] = text
            elif not name.startswith(("example_main", "Makefile", "CMake")):
                sources.append(text)
    for name, text in headers.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "all.c").write_text("\n".join(sources), encoding="utf-8")
    assert len({plan.steps[0].kernel.name for plan in plans}) > 5
    for core in ("cortex-m3", "cortex-m7"):
        built = toolchain.compile_object(tools(toolchain.ARM_GCC, core), tmp_path / "all.c", tmp_path / f"{core}.o",
                                         opt="-O1", extra=PEDANTIC)
        assert foreign([built]) == set()


def test_a_warning_would_be_noticed(tmp_path: Path) -> None:
    c, tool = plan_of("int8", tmp_path, "host"), tools("gcc", "host")
    wrong = replace(c.plan, graph=replace(c.plan.graph, name="wrong"))
    for name, text in project.files(wrong).items():
        (tmp_path / name).write_text(text.replace("const int32_t v0", "const int16_t v0"), encoding="utf-8")
    with pytest.raises(fuse2c.Fuse2cError, match="does not compile"):
        toolchain.compile_object(tool, tmp_path / "wrong.c", tmp_path / "wrong.o", extra=PEDANTIC)


@pytest.mark.parametrize("core", [*CORES, "host"])
def test_the_headers_go_together(core: str, tmp_path: Path) -> None:
    """A model may need any of them: no two define the same name."""
    tools = toolchain.host() if core == "host" else toolchain.cross(target.load(core).processor.cflags)
    if shutil.which(tools.cc) is None:
        pytest.skip(f"{tools.cc} is not installed")
    folder = resources.folder("runtime_c")
    source = tmp_path / "all.c"
    source.write_text("".join(f'#include "{header.name}"\n' for header in sorted(folder.glob("*.h"))))
    toolchain.compile_object(tools, source, tmp_path / "all.o", include=[folder], extra=("-Wno-unused-function",))
