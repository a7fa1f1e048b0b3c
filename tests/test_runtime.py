"""runtime_c/f2c_math.h: exp, sigmoid and tanh keep to the errors that the header states, on every exponent."""
from __future__ import annotations

import ctypes
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fuse2c import toolchain
from fuse2c.names import identifier
from fuse2c.resources import folder

FUNCTIONS = ("f2c_exp", "f2c_sigmoid", "f2c_tanh")
TRUTH: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "f2c_exp": np.exp,
    "f2c_sigmoid": lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)), 1.0) / (1.0 + np.exp(-np.abs(x))),
    "f2c_tanh": np.tanh,
}
BUSY = range(97, 134)           # biased exponents of 2**-30 .. 2**7, where the functions are neither flat nor saturated
ONE = """
void NAME_all(const float *x, float *y, int64_t n);
void NAME_all(const float *x, float *y, int64_t n) { for (int64_t i = 0; i < n; ++i) { y[i] = NAME(x[i]); } }
"""
TWO = """
void NAME_all(const float *x, const float *z, float *y, int64_t n);
void NAME_all(const float *x, const float *z, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) { y[i] = NAME(x[i], z[i]); }
}
"""


@pytest.fixture(scope="module", params=["gcc", "clang"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The header's functions over arrays, compiled as generated code is, without warnings."""
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    root: Path = tmp_path_factory.mktemp("runtime")
    loops = [ONE.replace("NAME", name) for name in (*FUNCTIONS, "f2c_relu", "f2c_abs")]
    loops += [TWO.replace("NAME", name) for name in ("f2c_max", "f2c_min")]
    (root / "all.c").write_text('#include "f2c_math.h"\n' + "\n".join(loops), encoding="utf-8")
    toolchain.run([request.param, *toolchain.WARNINGS, "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-I",
                   str(folder("runtime_c")), str(root / "all.c"), "-o", str(root / "all.so")], "f2c_math.h does not compile")
    return ctypes.CDLL(str(root / "all.so"))


def call(library: ctypes.CDLL, name: str, *x: np.ndarray) -> np.ndarray:
    """A function over arrays."""
    y = np.empty_like(x[0])
    getattr(library, f"{name}_all")(*(ctypes.c_void_p(a.ctypes.data) for a in (*x, y)), ctypes.c_int64(y.size))
    return y


@cache
def stated() -> dict[str, float]:
    """Function -> worst error in ULP, as the comment at the header's head says."""
    head = (folder("runtime_c") / "f2c_math.h").read_text(encoding="utf-8").split("*/")[0]
    return {name: float(ulp) for name, ulp in re.findall(r"(f2c_\w+) (\d+(?:\.\d+)?) ULP", head)}


@cache
def sweep() -> np.ndarray:
    """Both signs of all 256 exponents: 2,048 mantissas each, 65,536 where the functions are busy; both ends."""
    rng = np.random.default_rng(1)
    parts = []
    for exponent in range(256):
        mantissa = rng.integers(0, 1 << 23, 1 << 16 if exponent in BUSY else 1 << 11, dtype=np.uint32)
        mantissa[:2] = 0, (1 << 23) - 1
        parts.append(mantissa | np.uint32(exponent << 23))
    bits = np.concatenate(parts)
    return np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|got - exact| in units in the last place of the exact result; beyond the greatest float: of 2**128."""
    clipped = np.clip(exact, -(2.0 ** 128), 2.0 ** 128)
    _, exponent = np.frexp(clipped)
    value = np.where(np.isinf(got), np.copysign(2.0 ** 128, got.astype(np.float64)), got.astype(np.float64))
    return np.abs(value - clipped) / np.ldexp(1.0, np.clip(exponent, -125, 128) - 24)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_worst_error_is_the_one_stated(library: ctypes.CDLL, name: str) -> None:
    x = sweep()[np.isfinite(sweep())]
    with np.errstate(over="ignore"):
        exact = TRUTH[name](x.astype(np.float64))
    got = call(library, name, x)
    assert not np.isnan(got).any()
    worst = float(ulps(got, exact).max())
    limit = stated()[name]
    # The limit comes from all 2**32 inputs; a sample of 5 million finds nearly the worst, so it is no loose bound.
    assert 0.9 * limit < worst <= limit, f"{worst:.3f} ULP at {x[ulps(got, exact).argmax()]!r}"


def test_the_measure_bites() -> None:
    one = np.asarray([1.0], np.float32)
    assert ulps(np.nextafter(one, np.float32(2)), one.astype(np.float64)) == 1.0
    assert ulps(np.asarray([0], np.float32), np.asarray([2.0 ** -127])) == 2.0 ** 22
    assert ulps(np.asarray([np.inf], np.float32), np.asarray([1e300])) == 0.0
    assert ulps(np.asarray([np.inf], np.float32), np.asarray([2.0 ** 127])) == 2.0 ** 23


def test_special_values(library: ctypes.CDLL) -> None:
    x = np.asarray([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38], np.float32)
    want = {"f2c_exp": [np.nan, np.nan, np.inf, 0, 1, 1, 1, 1, np.inf, 0],
            "f2c_sigmoid": [np.nan, np.nan, 1, 0, 0.5, 0.5, 0.5, 0.5, 1, 0],
            "f2c_tanh": [np.nan, np.nan, 1, -1, 0, -0.0, 1e-45, -1e-45, 1, -1],
            "f2c_relu": [np.nan, np.nan, np.inf, 0, 0, 0, 1e-45, 0, 3.4e38, 0],
            "f2c_abs": [np.nan, np.nan, np.inf, np.inf, 0, 0, 1e-45, 1e-45, 3.4e38, 3.4e38]}
    for name, values in want.items():
        assert np.array_equal(call(library, name, x), np.asarray(values, np.float32), equal_nan=True), name
    assert np.signbit(call(library, "f2c_tanh", x))[5] and not np.signbit(call(library, "f2c_abs", x))[5]


def test_exp_reaches_the_subnormals(library: ctypes.CDLL) -> None:
    x = np.linspace(-104.0, -87.0, 4001, dtype=np.float32)
    got = call(library, "f2c_exp", x)
    assert got[0] == 0.0 and got[got > 0.0].min() == np.float32(1e-45) and (np.diff(got) >= 0).all()


def test_nan_in_the_first_operand_stays(library: ctypes.CDLL) -> None:
    a = np.asarray([np.nan, 1, np.nan, 2, -np.inf], np.float32)
    b = np.asarray([1, np.nan, np.nan, 3, np.inf], np.float32)
    assert np.array_equal(call(library, "f2c_max", a, b), np.asarray([np.nan, 1, np.nan, 3, np.inf], np.float32),
                          equal_nan=True)
    assert np.array_equal(call(library, "f2c_min", a, b), np.asarray([np.nan, 1, np.nan, 2, -np.inf], np.float32),
                          equal_nan=True)


def test_what_depends_on_the_compiler_is_in_one_place() -> None:
    conditions = {path.name for path in folder("runtime_c").glob("*.h")
                  if re.search(r"^\s*#\s*(if|ifdef|elif|pragma)\b", path.read_text(encoding="utf-8"), re.M)}
    assert conditions and all(name.startswith("f2c_config") for name in conditions)


def test_a_name_has_one_header() -> None:
    """A model may need any of them together."""
    where: dict[str, set[str]] = {}
    for path in folder("runtime_c").glob("*.h"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^\s*#\s*define (\w+)|^static (?:inline|F2C_INLINE)[^(;]*?\b(f2c_\w+)\(", text, re.M):
            where.setdefault("".join(name), set()).add(path.name)
    assert len(where) > 100 and {name: files for name, files in where.items() if len(files) > 1} == {}


def test_no_model_hides_a_header() -> None:
    """A model's own header is called as the model is, and lies beside these."""
    ours = {path.stem for path in folder("runtime_c").glob("*.h")}
    others = {name for path in folder("runtime_c").glob("*.h")
              for name in re.findall(r"(?:#include|_HEADER) <(\w+)\.h>", path.read_text(encoding="utf-8"))}
    assert {"f2c_tile", "arm_mve", "math"} <= ours | others
    assert [name for name in sorted(ours | others) if identifier(name) == name] == []
