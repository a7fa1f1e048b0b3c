"""Which files of runtime_c a piece of generated C needs."""
from __future__ import annotations

import re
from functools import cache

from fuse2c.resources import folder

ALWAYS = ("f2c.h", "f2c_config.h")


@cache
def _functions() -> dict[str, str]:
    """Function, or macro that kernels use like one -> the header that defines it."""
    found = {}
    for path in sorted(folder("runtime_c").glob("f2c_*.h")):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"static (?:inline|F2C_INLINE|F2C_CORE) [\w *]*?(f2c_\w+)\(|#define (F2C_DOTS_\w+)", text):
            found["".join(name)] = path.name
    return found


@cache
def text(header: str) -> str:
    """The content of a runtime file."""
    return (folder("runtime_c") / header).read_text(encoding="utf-8")


def headers(body: str) -> tuple[str, ...]:
    """Headers that define the functions which `body` calls, sorted; f2c.h first."""
    used = {_functions()[name] for name in set(re.findall(r"\b(?:f2c|F2C_DOTS)_\w+", body)) if name in _functions()}
    return ("f2c.h", *sorted(used - set(ALWAYS)))


def needs_libm(names: tuple[str, ...]) -> bool:
    """Whether functions of the C library's mathematics are called: only in float64."""
    return any("#include <math.h>" in text(header) for header in closure(names) if header not in ALWAYS)


def closure(names: tuple[str, ...]) -> tuple[str, ...]:
    """The headers and all that they include, sorted."""
    todo, found = [*ALWAYS, *names], set()
    while todo:
        header = todo.pop()
        if header not in found:
            found.add(header)
            todo += re.findall(r'#include "(f2c[\w.]*)"', text(header))
    return tuple(sorted(found))
