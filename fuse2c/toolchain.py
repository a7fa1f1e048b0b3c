"""Finding C compilers and running them: the host's own, and one for Arm Cortex-M."""
from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuse2c.errors import BuildError, ToolMissing

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wundef", "-Werror")
"""What every generated file and every runtime file must compile under, with gcc and with clang."""

SECTIONS = ("-ffunction-sections", "-fdata-sections", "-fno-common", "-fno-unwind-tables",
            "-fno-asynchronous-unwind-tables")
"""One section per function and variable, so that the linker drops what is unused; no tables for C++ exceptions."""

ARM_GCC = "arm-none-eabi-gcc"
COMPILE_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Toolchain:
    """A compiler, the program that links what it compiled, and the flags each of them always gets."""

    cc: str
    linker: str
    flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()

    @property
    def clang(self) -> bool:
        """Whether `cc` is clang, whatever it is called."""
        return is_clang(self.cc)


def which(tool: str, hint: str = "") -> str:
    """The path of a tool; ToolMissing with a hint if it is neither on PATH nor a path itself."""
    path = shutil.which(tool)
    if path is None:
        raise ToolMissing(f"{tool} was not found", hint=hint or f"install {tool} and put it on PATH")
    return path


def host(cc: str | None = None) -> Toolchain:
    """The compiler for this machine: `cc`, else the first of gcc, clang and cc that is there."""
    chosen = cc or next((name for name in ("gcc", "clang", "cc") if shutil.which(name)), None)
    if chosen is None:
        raise ToolMissing("no C compiler was found", hint="install gcc or clang, or name one with --cc")
    path = which(chosen, "name an installed compiler with --cc")
    return Toolchain(cc=path, linker=path, link_flags=("-lm",))


@functools.cache
def native(cc: str) -> tuple[str, ...]:
    """The flag by which a compiler uses all that this computer's processor has; none if it knows no such flag."""
    for flag in ("-march=native", "-mcpu=native"):
        try:
            run([cc, flag, "-x", "c", "-E", os.devnull], "asking for this processor")
        except BuildError:
            continue
        return (flag,)
    return ()


def cross(cflags: Sequence[str], cc: str | None = None) -> Toolchain:
    """The compiler for a Cortex-M target with `cflags`, such as -mcpu=cortex-m4: `cc`, else arm-none-eabi-gcc.

    Clang compiles with newlib's headers; arm-none-eabi-gcc links for both, as it knows where newlib and libgcc are.
    """
    gcc = which(ARM_GCC, "install gcc-arm-none-eabi and libnewlib-arm-none-eabi, or Arm's GNU toolchain")
    path = which(cc, "name an installed compiler with --cc") if cc else gcc
    flags = ("-mthumb", *cflags, *(("-DF2C_NO_BLOCKS",) if "-fno-omit-frame-pointer" in cflags else ()))
    # nosys: stubs for system calls, so that a model that wants a heap links and can be told so by name.
    link_flags = (*flags, "--specs=nosys.specs", "-Wl,--gc-sections", "-lm")
    if is_clang(path):
        flags = ("--target=arm-none-eabi", *flags, "-isystem", str(newlib_headers(gcc)))
        return Toolchain(cc=path, linker=gcc, flags=flags, link_flags=link_flags)
    # Another gcc brings its own libraries.
    return Toolchain(cc=path, linker=path, flags=flags, link_flags=link_flags)


@functools.cache
def is_clang(cc: str) -> bool:
    """Whether a compiler says of itself that it is clang; its name does not tell (cc, gcc on macOS)."""
    return "clang" in run([cc, "--version"], "asking for the compiler's version")


@functools.cache
def newlib_headers(gcc: str) -> Path:
    """The folder of newlib's headers that a cross gcc uses."""
    sysroot = run([gcc, "-print-sysroot"], "asking for the sysroot").strip()
    if sysroot and (Path(sysroot) / "include" / "stdlib.h").is_file():
        return Path(sysroot) / "include"
    # Distributions build gcc without a sysroot: ask which stdlib.h it would include.
    rule = run([gcc, "-M", "-include", "stdlib.h", "-x", "c", os.devnull], "asking for the headers' folder")
    for word in rule.replace("\\\n", " ").split():
        if Path(word).name == "stdlib.h":
            return Path(word).resolve().parent
    raise ToolMissing("newlib's headers were not found", hint="install libnewlib-arm-none-eabi")


def compile_object(toolchain: Toolchain, source: Path, output: Path, *, opt: str = "-O2",
                   include: Sequence[Path] = (), extra: Sequence[str] = ()) -> Path:
    """Compiles one C file to the object `output`, every warning an error; returns `output`."""
    folders = [word for folder in include for word in ("-I", str(folder))]
    command = [toolchain.cc, *toolchain.flags, *WARNINGS, *SECTIONS, opt, *extra, *folders,
               "-c", str(source), "-o", str(output)]
    run(command, f"{source.name} does not compile")
    return output


def compile_model(toolchain: Toolchain, folder: Path, name: str, output: Path, *, opt: str = "-O2",
                  extra: Sequence[str] = ()) -> tuple[Path, ...]:
    """Compiles a generated model's C files (<name>.c, <name>_weights.c, f2c_*.c) into the folder `output`."""
    sources = [folder / f"{name}.c", folder / f"{name}_weights.c", *sorted(folder.glob("f2c_*.c"))]
    if not sources[0].is_file():
        raise BuildError(f"{sources[0]} does not exist", hint="give the folder that `fuse2c build` wrote")
    output.mkdir(parents=True, exist_ok=True)
    return tuple(compile_object(toolchain, source, output / f"{source.stem}.o", opt=opt, include=[folder], extra=extra)
                 for source in sources if source.is_file())


def link(toolchain: Toolchain, objects: Iterable[Path], output: Path, *, extra: Sequence[str] = ()) -> Path:
    """Links objects to the program `output` and returns it."""
    command = [toolchain.linker, *(str(each) for each in objects), *toolchain.link_flags, *extra, "-o", str(output)]
    run(command, f"{output.name} does not link")
    return output


def run(command: Sequence[str], failure: str, timeout_s: float = COMPILE_TIMEOUT_S) -> str:
    """Runs a tool and returns its standard output; BuildError, with `failure` as its message, if it fails."""
    shown = shlex.join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout_s,
                              stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError as error:
        raise ToolMissing(f"{command[0]} was not found", hint=f"install {Path(command[0]).name}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{failure}: no end after {timeout_s:g} s", command=shown) from error
    except OSError as error:
        raise BuildError(f"{failure}: {error}", command=shown) from error
    if done.returncode != 0:
        raise BuildError(failure, command=shown, stderr=done.stderr)
    return done.stdout
