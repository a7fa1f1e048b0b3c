"""The deepest stack a function can need, from GCC's call graph: exact for C, a bound for the libraries."""
from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuse2c import toolchain
from fuse2c.errors import BuildError
from fuse2c.measure import elf

FLAGS = ("-fstack-usage", "-fcallgraph-info=su")
"""What GCC (10 or later) needs to write a .ci file beside every object."""

_SOFT_FLOAT = {
    # libgcc: division (of int32 on M0+ only); arithmetic that the processor lacks (all floats on M3, double on M3, M4 and M55).
    "__aeabi_ldivmod": 64, "__aeabi_uldivmod": 64, "__aeabi_idiv0": 8, "__aeabi_ldiv0": 8,
    "__aeabi_idivmod": 32, "__aeabi_uidivmod": 32, "__aeabi_idiv": 24, "__aeabi_uidiv": 24,
    "__aeabi_llsl": 8, "__aeabi_llsr": 8, "__aeabi_lasr": 8, "__aeabi_lmul": 24,
    "__aeabi_fadd": 8, "__aeabi_fsub": 8, "__aeabi_frsub": 8, "__aeabi_fmul": 8, "__aeabi_fdiv": 8,
    "__aeabi_dadd": 24, "__aeabi_dsub": 24, "__aeabi_drsub": 24, "__aeabi_dmul": 24, "__aeabi_ddiv": 40,
    **{f"__aeabi_fcmp{how}": 40 for how in ("eq", "lt", "le", "ge", "gt", "un")},
    **{f"__aeabi_dcmp{how}": 32 for how in ("eq", "lt", "le", "ge", "gt", "un")},
    **{f"__aeabi_{kind}2f": 8 for kind in ("i", "ui", "l", "ul")},
    **{f"__aeabi_{kind}2d": 48 for kind in ("i", "ui", "l", "ul", "f")},
    "__aeabi_f2iz": 8, "__aeabi_f2uiz": 8, "__aeabi_d2iz": 8, "__aeabi_d2uiz": 8, "__aeabi_d2f": 8,
    "__aeabi_f2lz": 56, "__aeabi_f2ulz": 48, "__aeabi_d2lz": 64, "__aeabi_d2ulz": 48,
    "__popcountsi2": 8, "__popcountdi2": 8, "__ctzdi2": 8, "__clzsi2": 8, "__clzdi2": 8,
}

_LIBC = {
    "memcpy": 24, "memmove": 24, "memset": 24, "memcmp": 24, "__aeabi_memcpy": 24, "__aeabi_memset": 24,
    "__aeabi_memclr": 32, "__aeabi_memmove": 24, "abs": 8, "strlen": 16,
}

_LIBM = {
    "fabsf": 8, "copysignf": 8, "floorf": 64, "ceilf": 64, "truncf": 8, "roundf": 16, "rintf": 32, "nearbyintf": 32,
    "fmaxf": 56, "fminf": 56, "fmodf": 64, "lrintf": 32, "lroundf": 16, "ldexpf": 56, "scalbnf": 16, "frexpf": 24,
    "sqrtf": 64, "expf": 96, "exp2f": 128, "expm1f": 72, "logf": 104, "log2f": 112, "log1pf": 72, "powf": 128,
    "tanhf": 96, "sinhf": 112, "coshf": 112, "asinhf": 112, "acoshf": 120, "atanhf": 112,
    "atanf": 64, "atan2f": 88, "asinf": 96, "acosf": 64, "erff": 112, "erfcf": 112,
    "sinf": 568, "cosf": 568, "tanf": 568,     # the reduction of huge angles has a large buffer
    "fabs": 8, "floor": 56, "ceil": 56, "trunc": 32, "round": 40, "rint": 56, "nearbyint": 56, "lrint": 48,
    "sqrt": 104, "exp": 120, "log": 136, "pow": 224, "tanh": 120, "erf": 144,
}

LIBRARY: dict[str, int] = {**_SOFT_FLOAT, **_LIBC, **_LIBM}
"""Stack in bytes of library functions, everything they call included.

Taken from the disassembly of libgcc 12.2 and newlib as linked for Cortex-M0+, M3, M4, M7 and M55: all pushes and
subtractions from the stack pointer along the deepest chain of calls, the largest of the five cores, rounded up to
the 8 bytes of the procedure call standard, and at least 8 bytes on top for other builds of the libraries.
"""

_NODE = re.compile(r'^node: \{ title: "([^"]*)" label: "([^"]*)"( shape : ellipse)?')
_EDGE = re.compile(r'^edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"')
_FRAME = re.compile(r"(\d+) bytes \(([a-z,]+)\)")
_INDIRECT = "__indirect_call"


@dataclass(frozen=True)
class Stack:
    """The worst case of one function: `bytes` on the stack below its caller's frame, along `path` of calls."""

    bytes: int
    path: tuple[str, ...]


@dataclass(frozen=True)
class _Graph:
    frames: dict[str, tuple[int, str]]      # bytes and GCC's word for them, by function
    calls: dict[str, set[str]]


def of_model(folder: Path, name: str, cflags: Sequence[str], *, entry: str = "", opt: str = "-O3") -> Stack:
    """The worst stack of `<name>_run` (or of `entry`), compiled with arm-none-eabi-gcc for `cflags`."""
    gcc = toolchain.cross(cflags)
    with tempfile.TemporaryDirectory(prefix="f2c_stack_") as work:
        objects = toolchain.compile_model(gcc, folder, name, Path(work), opt=opt, extra=FLAGS)
        return worst([each.with_suffix(".ci") for each in objects], entry or f"{name}_run")


def worst(ci_files: Iterable[Path], entry: str) -> Stack:
    """The worst stack of `entry` over the call graph in the .ci files of all its objects, which lie beside them.

    BuildError on what has no bound or is not known: recursion, calls through pointers, frames of variable size, and
    external functions that LIBRARY does not list. What `entry` cannot reach may contain any of these.
    """
    graph = _read(ci_files)
    if entry not in graph.frames:
        raise BuildError(f"{entry} is in none of the call graphs")
    done: dict[str, Stack] = {}
    return _deepest(graph, entry, (), done)


def _deepest(graph: _Graph, function: str, callers: tuple[str, ...], done: dict[str, Stack]) -> Stack:
    if function in callers:
        loop = " -> ".join((*callers[callers.index(function):], function))
        raise BuildError(f"recursion has no largest stack: {loop}")
    if function not in done:
        frame = _frame(graph, function, callers)
        callees = [_deepest(graph, callee, (*callers, function), done)
                   for callee in sorted(graph.calls.get(function, ()))]
        below = max(callees, key=lambda stack: stack.bytes, default=Stack(0, ()))
        done[function] = Stack(frame + below.bytes, (function, *below.path))
    return done[function]


def _frame(graph: _Graph, function: str, callers: tuple[str, ...]) -> int:
    """Bytes of one function's own frame; for a library function, of all that it calls as well."""
    caller = callers[-1] if callers else function
    if function == _INDIRECT:
        raise BuildError(f"{caller} calls through a pointer: its stack has no bound")
    if function in graph.frames:
        size, kind = graph.frames[function]
        if kind not in ("static", "dynamic,bounded"):
            raise BuildError(f"{function} has a stack frame of variable size (an array of variable length, or alloca)")
        return size
    if function in LIBRARY:
        return LIBRARY[function]
    raise BuildError(f"{caller} calls {function}, whose stack is not known",
                     hint="add it to LIBRARY in fuse2c/measure/stack.py, measured as described there")


def _read(ci_files: Iterable[Path]) -> _Graph:
    graph = _Graph({}, {})
    for path in ci_files:
        if not path.is_file():
            raise BuildError(f"{path.name} was not written", hint=f"compile with GCC 10 or later and {' '.join(FLAGS)}")
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            edge, node = _EDGE.match(line), _NODE.match(line)
            if edge:
                graph.calls.setdefault(_short(edge[1]), set()).add(_short(edge[2]))
            elif node and not node[3]:      # an ellipse is a function defined elsewhere
                name, frame = _short(node[1]), _FRAME.search(node[2])
                if frame is None:
                    raise BuildError(f"{path.name} gives no frame for {name}", hint=f"compile with {FLAGS[1]}")
                graph.frames[name] = (int(frame[1]), frame[2])
        _merge(graph, path.with_suffix(".o"))
    return graph


def _merge(graph: _Graph, compiled: Path) -> None:
    """Of functions with equal code GCC keeps one, and is silent on the others; in the object they have one address."""
    at: dict[tuple[str, int], list[str]] = {}
    for s in elf.read(compiled).symbols if compiled.is_file() else ():
        if s.section is not None and s.size:
            at.setdefault((s.section.name, s.value), []).append(s.name)
    titles = {title.rpartition(":")[2]: title for title in graph.frames}
    for called in set().union(*graph.calls.values()) - graph.frames.keys():
        names = next((names for names in at.values() if called.rpartition(":")[2] in names), [])
        twin = next((titles[name] for name in names if name in titles), None)
        if twin is not None:
            graph.frames[called], graph.calls[called] = graph.frames[twin], graph.calls.get(twin, set())


def _short(title: str) -> str:
    """GCC calls a static function <path of the C file>:<name>; the file's name is enough within one model."""
    return title.rpartition("/")[2]
