"""runtime_c's functions of floats: no worse than their headers state, special values as in C99, no library behind.

The float32 figures are parsed from the headers, so that text and code cannot drift apart; the dense sample here has
every exponent, scripts/sweep_math.py has every float. Truth is numpy in float64 (math.erf where numpy has none).
"""
from __future__ import annotations

import importlib.util
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuse2c import toolchain
from fuse2c.resources import folder

_spec = importlib.util.spec_from_file_location("sweep_math", Path(__file__).parents[1] / "scripts" / "sweep_math.py")
assert _spec and _spec.loader
sweep_math = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sweep_math)

Function = Callable[..., Any]
HEADERS = ("f2c_round.h", "f2c_log.h", "f2c_trig.h", "f2c_erf.h")
FREE = ("f2c_math.h", "f2c_pair.h", *HEADERS, "f2c_half.h", "f2c_int.h")  # of any library
STATED = sweep_math.stated(HEADERS)
ERF, ERFC = (np.frompyfunc(f, 1, 1) for f in (math.erf, math.erfc))
ARM = {"cortex-m0plus": (), "cortex-m3": (), "cortex-m4": ("-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
       "cortex-m55": ("-mfloat-abi=hard",)}


def sigmoid(x: np.ndarray) -> np.ndarray:
    q = np.exp(-np.abs(x))
    return np.where(x < 0, q, 1.0) / (1.0 + q)


def mish(x: np.ndarray) -> np.ndarray:
    """x tanh(log(1 + e^x)) = x (u^2 - 1) / (u^2 + 1) for u = 1 + e^x; near 1 where e^x is beyond float64."""
    e = np.exp(np.minimum(x, 40))
    return x * (e * (e + 2) / (e * (e + 2) + 2))


TRUTH: dict[str, Function] = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round_even": np.rint, "sqrt": np.sqrt,
    "sqrt_soft": np.sqrt, "sign": lambda x: np.sign(x) + 0.0,
    "log": np.log, "log1p": np.log1p, "expm1": np.expm1, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), "mish": mish,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "erf": lambda x: ERF(x).astype(float),
    "gelu": lambda x: x * (ERFC(-x / math.sqrt(2)).astype(float) / 2),
    "gelu_tanh": lambda x: x * sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)),
    "pow": np.power, "fmod": np.fmod, "mod": np.mod, "atan2": np.arctan2,
}
FURTHER: dict[str, Function] = {  # float64 twins of f2c_math.h
    "exp": np.exp, "sigmoid": sigmoid, "tanh": np.tanh, "abs": np.abs, "relu": lambda x: np.where(x < 0, 0.0, x),
    "max_nan": np.maximum, "min_nan": np.minimum,
}
TWO = ("pow", "fmod", "mod", "atan2", "max_nan", "min_nan")
LOOP = """
void NAME_all(const T *a, const T *b, R *y, int64_t n);
void NAME_all(const T *a, const T *b, R *y, int64_t n)
{
    (void)b;
    for (int64_t i = 0; i < n; ++i) {
        y[i] = NAME(ARGS);
    }
}
"""
TWINS = [name for name in (*TRUTH, *FURTHER) if name != "sqrt_soft"]
HALVES = [("f2c_to_f16", "float", "uint16_t"), ("f2c_from_f16", "uint16_t", "float"),
          ("f2c_to_bf16", "float", "uint16_t"), ("f2c_from_bf16", "uint16_t", "float"),
          ("f2c_round_f16", "float", "float"), ("f2c_round_bf16", "float", "float"),
          ("f2c_to_f16_f64", "double", "uint16_t"), ("f2c_to_bf16_f64", "double", "uint16_t"),
          ("f2c_round_f16_f64", "double", "double"), ("f2c_round_bf16_f64", "double", "double"),
          ("f2c_from_f16_f64", "uint16_t", "double"), ("f2c_from_bf16_f64", "uint16_t", "double")]
DTYPE = {"float": np.float32, "double": np.float64, "uint16_t": np.uint16}


class Library:
    """The headers' functions over arrays."""

    def __init__(self, root: Path) -> None:
        loops = [(f"f2c_{n}", "float", "float", n in TWO) for n in TRUTH]
        loops += [(f"f2c_{n}_f64", "double", "double", n in TWO) for n in TWINS]
        loops += [(*row, False) for row in HALVES]
        self.result = {name: DTYPE[result] for name, _, result, _ in loops}
        source = "#include <float.h>\n" + "".join(f'#include "{h}"\n' for h in (*FREE, "f2c_f64.h")) + sweep_math.ULPS
        source += LOOP.replace("NAME", "f2c_test_ulps").replace("const T *b", "const double *b").replace(
            "T *a", "float *a").replace("R", "double", 1).replace("R *y", "double *y").replace("ARGS", "a[i], b[i]")
        declarations = "void f2c_test_ulps_all(const void *, const void *, void *, int64_t);"
        for name, operand, result, two in loops:
            source += (LOOP.replace("NAME", name).replace("const T", f"const {operand}").replace("R *y", f"{result} *y")
                       .replace("ARGS", "a[i], b[i]" if two else "a[i]"))
            declarations += f"void {name}_all(const void *, const void *, void *, int64_t);"
        self.ffi, self.library = sweep_math.build(source, declarations, root)

    def __call__(self, name: str, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        y = np.empty(a.shape, np.float64 if name == "f2c_test_ulps" else self.result[name])
        at = [self.ffi.from_buffer(np.ascontiguousarray(x)) for x in (a, a if b is None else b)]
        getattr(self.library, f"{name}_all")(*at, self.ffi.from_buffer(y), a.size)
        return y


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(tmp_path_factory.mktemp("math"))


def sample() -> np.ndarray:
    """Every exponent with both signs: 4,096 mantissas each, NaN and infinity with the last exponent."""
    step = np.arange(4096, dtype=np.uint32)
    mantissa = step * 2048 + (step * 1031) % 2048
    mantissa[-1] = (1 << 23) - 1
    bits = (np.arange(512, dtype=np.uint32)[:, None] << 23) | mantissa
    return bits.ravel().view(np.float32)


def test_every_function_states_its_error() -> None:
    assert set(STATED) == {f"f2c_{name}" for name in TRUTH}
    assert all(figure <= 2 for figure in STATED.values())


@pytest.mark.parametrize("name", TRUTH)
@np.errstate(all="ignore")
def test_float32_keeps_to_the_stated_error(library: Library, name: str) -> None:
    x, y = sweep_math.pairs(f"f2c_{name}", 200_000, 5) if name in TWO else (sample(), None)
    got = library(f"f2c_{name}", x, y)
    exact = TRUTH[name](*(v.astype(float) for v in (x, y) if v is not None))
    error = library("f2c_test_ulps", got, exact)
    at = int(np.argmax(error))
    where = f"{x[at]!r}" + ("" if y is None else f", {y[at]!r}") + f": {got[at]!r}, exact {exact[at]!r}"
    stated = STATED[f"f2c_{name}"]
    assert error[at] <= stated, where
    assert error[at] >= 0.8 * stated - 0.01, f"{stated} is stated, {error[at]} is the worst: state less"


def test_the_measure_of_errors(library: Library) -> None:
    """One step is one unit, also below 2^-126 and beyond the greatest number; kinds and signs of zero count."""
    got = np.array([1.0000001, 1e-45, np.inf, np.inf, -0.0, np.nan, 1, 0, 3e-45], np.float32)
    exact = np.array([1.0, 0.0, 2.0**128 - 2.0**104, 1e300, 0.0, 1, np.nan, 1e-46, 1.4012984643e-45])
    expected = [1, np.inf, 1, 0, np.inf, np.inf, np.inf, 0.071, 1]
    np.testing.assert_allclose(library("f2c_test_ulps", got, exact), expected, rtol=0.01)


@pytest.mark.parametrize("name", TWINS)
@np.errstate(all="ignore")
def test_float64_twins(library: Library, name: str) -> None:
    """Within a few units of numpy's; with a small e^-x^2 within a relative 1e-12. Special values equal."""
    x, y = sweep_math.pairs(f"f2c_{name}", 200_000, 5) if name in TWO else (sample()[::7], None)
    args = [v.astype(float) * 1.0000000001 for v in (x, y) if v is not None]
    got = library(f"f2c_{name}_f64", *args)
    exact = (TRUTH | FURTHER)[name](*args)
    np.testing.assert_allclose(got, exact, rtol=1e-12 if "gelu" in name else 2e-15, atol=1e-300)
    zero = (got == 0) & (exact == 0) & (name not in ("max_nan", "min_nan"))  # of zeros, either may be the greater
    assert np.array_equal(np.signbit(got[zero]), np.signbit(exact[zero]))


def nearest(v: np.ndarray, digits: int, least: int, greatest: float) -> np.ndarray:
    """float64 rounded once to `digits` significant bits, half to even, with 2^least as the smallest unit."""
    unit = np.exp2(np.maximum(np.frexp(v)[1] - digits, least).astype(float))
    rounded = np.rint(v / unit) * unit
    return np.where(np.abs(rounded) > greatest, np.copysign(np.inf, v), rounded)


FORMATS = {"f16": (np.float16, 11, -24), "bf16": (None, 8, -133)}


@pytest.fixture(params=FORMATS)
def half(request: pytest.FixtureRequest) -> tuple[str, Any, int, int]:
    dtype, digits, least = FORMATS[request.param]
    if dtype is None:
        dtype = pytest.importorskip("ml_dtypes", reason="ml_dtypes, which has bfloat16, is not installed").bfloat16
    return request.param, dtype, digits, least


@np.errstate(invalid="ignore")
def test_halves_widen_exactly(library: Library, half: tuple[str, Any, int, int]) -> None:
    bits = np.arange(65536, dtype=np.uint16)
    exact = bits.view(half[1]).astype(np.float32)
    got = library(f"f2c_from_{half[0]}", bits)
    number = ~np.isnan(exact)
    assert np.array_equal(got.view(np.uint32)[number], exact.view(np.uint32)[number])
    assert np.array_equal(np.isnan(got), ~number) and np.array_equal(np.signbit(got), bits >= 0x8000)
    assert np.array_equal(library(f"f2c_from_{half[0]}_f64", bits), got.astype(float), equal_nan=True)
    # The way back: all but NaN, which stay NaN with their sign.
    back = library(f"f2c_to_{half[0]}", got)
    assert np.array_equal(back[number], bits[number])
    assert np.isnan(back[~number].view(half[1]).astype(float)).all() and np.array_equal(back >> 15, bits >> 15)


@np.errstate(all="ignore")
def test_halves_narrow_to_the_nearest(library: Library, half: tuple[str, Any, int, int]) -> None:
    """Over the sample, over the middles of all neighbours, and over what is a step from a middle in float32 and 64."""
    name, dtype, digits, least = half
    values = np.arange(65536, dtype=np.uint16).view(dtype).astype(float)
    greatest = values[np.isfinite(values)].max()
    ordered = np.sort(values[np.isfinite(values)])
    beyond = greatest * (1 + 2.0**-digits / (2 - 2.0**(1 - digits)))  # the middle between the greatest and infinity
    middle = np.concatenate([(ordered[1:] + ordered[:-1]) / 2,
                             [beyond, -beyond, np.inf, -np.inf, 1e300, -5e-324, np.nan]])
    x = np.concatenate([sample(), *(np.nextafter(middle.astype(np.float32), s) for s in np.float32([-np.inf, np.inf])),
                        middle.astype(np.float32)])
    expected = x.astype(dtype)
    bits = library(f"f2c_to_{name}", x)
    number = ~np.isnan(x)
    assert np.array_equal(bits[number], expected.view(np.uint16)[number])
    assert np.array_equal(library(f"f2c_round_{name}", x), expected.astype(np.float32), equal_nan=True)
    wide = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), middle * 1.0001])
    exact = nearest(wide, digits, least, greatest)
    got = library(f"f2c_round_{name}_f64", wide)
    assert np.array_equal(got, exact, equal_nan=True) and np.array_equal(np.signbit(got), np.signbit(exact))
    number = ~np.isnan(wide)
    assert np.array_equal(library(f"f2c_to_{name}_f64", wide)[number].view(dtype).astype(float), exact[number])


def all_used(headers: tuple[str, ...]) -> str:
    """C that calls every function of the headers."""
    text = "".join(f'#include "{header}"\n' for header in headers)
    for header in headers:
        for result, name, params in re.findall(r"static inline (\w+) (f2c_\w+)\(([^)]*)\)", source(header)):
            names = ", ".join(p.split()[-1].lstrip("*") for p in params.split(","))
            text += f"{result} use_{name}({params});\n{result} use_{name}({params}) {{ return {name}({names}); }}\n"
    return text


def source(header: str) -> str:
    return (folder("runtime_c") / header).read_text(encoding="utf-8")


def arm_object(core: str, text: str, root: Path) -> Path:
    if not shutil.which(toolchain.ARM_GCC):
        pytest.skip(f"{toolchain.ARM_GCC} is not installed")
    (root / "use.c").write_text(text, encoding="utf-8")
    return toolchain.compile_object(toolchain.cross((f"-mcpu={core}", *ARM[core])), root / "use.c", root / "use.o",
                                    include=[folder("runtime_c")])


def undefined(obj: Path) -> set[str]:
    """Symbols that an object leaves to others, but for those of the compiler's own library."""
    names = toolchain.run([toolchain.ARM_GCC.replace("gcc", "nm"), "-u", str(obj)], "nm").split()
    return {n for n in names if n != "U" and not re.match(r"__aeabi_|__(clz|ctz|popcount)[sd]i2$", n)}


@pytest.mark.parametrize("core", ARM)
def test_no_library_behind_float32(core: str, tmp_path: Path) -> None:
    """Nothing to link but the compiler's arithmetic, on cores with and without a floating-point unit."""
    assert undefined(arm_object(core, all_used(FREE), tmp_path)) == set()


def test_the_check_for_a_library_bites(tmp_path: Path) -> None:
    text = "#include <math.h>\nfloat use(float v);\nfloat use(float v) { return sinf(v); }\n"
    assert undefined(arm_object("cortex-m4", text, tmp_path)) == {"sinf"}
    assert "erf" in undefined(arm_object("cortex-m4", all_used(("f2c_f64.h",)), tmp_path))


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("header", [*FREE, "f2c_f64.h"])
def test_each_header_stands_alone(compiler: str, header: str, tmp_path: Path) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "use.c").write_text(all_used((header,)), encoding="utf-8")
    toolchain.compile_object(toolchain.host(compiler), tmp_path / "use.c", tmp_path / "use.o",
                             include=[folder("runtime_c")])


@pytest.mark.parametrize("header", [*FREE, "f2c_f64.h"])
def test_one_path_for_all_inputs(header: str) -> None:
    """Selections only: no branch, no loop but of constant length; at most 399 lines."""
    text = source(header)
    code = re.sub(r"/\*.*?\*/|^#.*?$", "", text, flags=re.S | re.M)
    assert re.findall(r"\b(?:if|while|do|switch|goto)\b", code) == []
    loops = re.findall(r"\bfor\b.*", code)
    assert [loop for loop in loops if not re.fullmatch(r"for \(u?int32_t i = 0u?; i < \d+u?; \+\+i\) \{", loop)] == []
    assert len(text.splitlines()) < 400
