"""runtime_c/f2c_int.h: every operator against Python's integers on extremes, and free of undefined behaviour."""
from __future__ import annotations

import itertools
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fuse2c import toolchain
from fuse2c.ops._average import MODERATE
from fuse2c.resources import folder

TYPES = {"s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64}
REALS = {"f32": np.float32, "f64": np.float64}
SANITIZE = ("-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all")


def values(kind: str) -> list[int]:
    """Extremes and their neighbours, small numbers, powers of two, shift counts about the width, some others."""
    low, high = int(np.iinfo(TYPES[kind]).min), int(np.iinfo(TYPES[kind]).max)
    bits = int(kind[1:])
    near = [low, low + 1, high - 1, high, *range(-9, 10), 31, 32, 33, 63, 64, 65, 255, 256, 1000003, 1 << (bits // 2),
            (1 << (bits - 2)) + 1, -(1 << (bits - 2)) - 3, 3 ** (bits // 2 - 3), -(7 ** (bits // 3))]
    return sorted({v for v in near if low <= v <= high})


def wrap(v: int, kind: str) -> int:
    bits = int(kind[1:])
    v %= 1 << bits
    return v - (1 << bits) if kind[0] == "s" and v >> (bits - 1) else v


def truncated(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def power(a: int, b: int, kind: str) -> int:
    return pow(a, b, 1 << int(kind[1:])) if b >= 0 else {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)


OPERATORS: dict[str, Callable[[int, int, str], int]] = {
    "div": lambda a, b, k: truncated(a, b),
    "rem": lambda a, b, k: a - b * truncated(a, b) if b else 0,
    "mod": lambda a, b, k: a % b if b else 0,
    "pow": power,
    "shl": lambda a, b, k: a << b if 0 <= b < int(k[1:]) else 0,
    # What is left of a signed number is its sign.
    "shr": lambda a, b, k: a >> (b if 0 <= b < int(k[1:]) else int(k[1:])),
}


def reals(real: str) -> np.ndarray:
    """Numbers about 0 and about the limits of all four types, on both sides; infinities and NaN."""
    dtype = REALS[real]
    edges = np.array([0, 1, 2.5, 3.99, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 2.0**31 - 1, 2.0**32 - 1, 1e30], dtype)
    steps = [np.nextafter(edges, dtype(s)) for s in (-np.inf, np.inf)]
    found = np.concatenate([edges, *steps, np.array([np.inf, np.nan], dtype)])
    return np.concatenate([found, -found, -found - dtype(0.5)])


def saturated(v: float, kind: str) -> int:
    limits = np.iinfo(TYPES[kind])
    if math.isnan(v):
        return 0
    return int(min(max(math.trunc(v) if math.isfinite(v) else math.copysign(2**70, v), limits.min), limits.max))


PROGRAM = """
    if (strcmp(argv[1], "NAME") == 0) {
        PAIR v;
        while (fread(&v, sizeof v, 1, stdin) == 1) {
            RESULT r = NAME(ARGS);
            if (fwrite(&r, sizeof r, 1, stdout) != 1) { return 1; }
        }
        return 0;
    }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reads operands, writes results of the function that its argument names; undefined behaviour ends it."""
    root = tmp_path_factory.mktemp("int")
    ctype = {k: f"{'u' * (k[0] == 'u')}int{k[1:]}_t" for k in TYPES} | {"f32": "float", "f64": "double"}
    rows = [(f"f2c_{name}_{k}", k, k, "v.a, v.b") for name in OPERATORS for k in TYPES]
    rows += [(f"f2c_abs_{k}", k, k, "v.a") for k in ("s32", "s64")]
    rows += [(f"f2c_{real}_to_{k}", real, k, "v.a") for real in REALS for k in TYPES]
    body = "".join(PROGRAM.replace("NAME", name).replace("PAIR", f"struct {{ {ctype[operand]} a, b; }}")
                   .replace("RESULT", ctype[result]).replace("ARGS", args) for name, operand, result, args in rows)
    (root / "program.c").write_text("#include <stdio.h>\n#include <string.h>\n#include \"f2c_int.h\"\n"
                                    f"int main(int argc, char **argv)\n{{\n    (void)argc;\n{body}    return 2;\n}}\n",
                                    encoding="utf-8")
    toolchain.run([toolchain.host().cc, *toolchain.WARNINGS, *SANITIZE, "-I", str(folder("runtime_c")),
                   str(root / "program.c"), "-o", str(root / "program")], "f2c_int.h does not compile")
    return root / "program"


def call(program: Path, name: str, a: np.ndarray, b: np.ndarray, kind: str) -> list[int]:
    operands = np.stack([a, b], 1).tobytes()
    done = subprocess.run([program, name], input=operands, capture_output=True, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, ""), name
    return np.frombuffer(done.stdout, TYPES[kind]).tolist()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(program: Path, name: str, kind: str) -> None:
    pairs = list(itertools.product(values(kind), repeat=2))
    a, b = (np.array(column, TYPES[kind]) for column in zip(*pairs, strict=True))
    got = call(program, f"f2c_{name}_{kind}", a, b, kind)
    expected = [wrap(OPERATORS[name](*pair, kind), kind) for pair in pairs]
    assert [(p, g, e) for p, g, e in zip(pairs, got, expected, strict=True) if g != e] == []


@pytest.mark.parametrize("kind", ["s32", "s64"])
def test_absolute_value_wraps(program: Path, kind: str) -> None:
    v = np.array(values(kind), TYPES[kind])
    assert call(program, f"f2c_abs_{kind}", v, v, kind) == [wrap(abs(x), kind) for x in values(kind)]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("real", REALS)
def test_conversions_saturate(program: Path, real: str, kind: str) -> None:
    v = reals(real)
    assert call(program, f"f2c_{real}_to_{kind}", v, v, kind) == [saturated(x, kind) for x in v.tolist()]


def test_the_sanitizer_bites(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int main(int argc, char **argv) { (void)argv; return 7 / (argc - 1); }\n",
                                    encoding="utf-8")
    toolchain.run([toolchain.host().cc, *toolchain.WARNINGS, *SANITIZE, str(tmp_path / "bad.c"), "-o",
                   str(tmp_path / "bad")], "bad.c does not compile")
    done = subprocess.run([tmp_path / "bad"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "division by zero" in done.stderr


def test_moderate_scales_are_the_same_in_both_languages() -> None:
    text = (folder("runtime_c") / "f2c_soft.h").read_text(encoding="utf-8")
    (line,) = [row for row in text.splitlines() if row.startswith("#define F2C_MODERATE")]
    assert tuple(map(float, re.findall(r"[\d.]+e[-+]?\d+(?=f)", line))) == MODERATE
