"""Worst error of the C runtime's float32 functions over all 2^32 inputs, against their float64 twins on this machine.

    PYTHONPATH=. python scripts/sweep_math.py f2c_exp f2c_sin   # one to four minutes each
    PYTHONPATH=. python scripts/sweep_math.py --part            # all functions, some 20 seconds each

With --part every input of 2^-14..2^8 in size, where most functions bend, and one in 64 of the others. Functions of two
arguments take 30 million pairs of all kinds. A line each: the worst |result - exact| in units in the last place of the
exact result, and the input that has it. The headers in runtime_c state these figures and how far the sweep went;
tests/test_runtime_math.py holds the headers to them on a dense sample. Exit code 1 when a function is worse than its
header says, or wrong in NaN, an infinity or the sign of a zero.
"""
from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from fuse2c import toolchain
from fuse2c.resources import folder

HEADERS = ("f2c_math.h", "f2c_round.h", "f2c_log.h", "f2c_trig.h", "f2c_erf.h")
TWO_ARGUMENTS = ("f2c_pow", "f2c_fmod", "f2c_mod", "f2c_atan2")
ROUNDS, ROUND = 30, 1_000_000  # of pairs

# |got - exact| in units in the last place of exact as a float32; infinity where the kind or a zero's sign is wrong.
# The unit is 2^(e - 23), e in -126..127. Its reciprocal comes from the bits of exact: ldexp would take long.
ULPS = """
static double f2c_test_ulps(float got, double exact)
{
    union { double d; uint64_t u; } bits, scale;
    const double limit = 0x1p128;
    const double a = (fabsf(got) > FLT_MAX) ? copysign(limit, got) : (double)got;
    const double b = (fabs(exact) > limit) ? copysign(limit, exact) : exact;
    bits.d = exact;
    const int64_t exponent = (int64_t)((bits.u >> 52) & 2047u) - 1023;
    const int64_t limited = (exponent > 127) ? 127 : ((exponent < -126) ? -126 : exponent);
    scale.u = (uint64_t)(1023 + 23 - limited) << 52;
    if ((got != got) || (exact != exact)) {
        return ((got != got) && (exact != exact)) ? 0.0 : HUGE_VAL;
    }
    if (((got == 0.0f) && (!signbit(got) != !signbit(exact))) || ((exact == 0.0) && (got != 0.0f))) {
        return HUGE_VAL;
    }
    return fabs(a - b) * scale.d;
}
"""
SWEEP = """
void sweep_NAME(uint64_t first, uint64_t count, double *worst, float *where)
{
    for (uint64_t i = first; i < first + count; ++i) {
        const float v = f2c_of_bits((uint32_t)i);
        const double error = f2c_test_ulps(NAME(v), TWIN_f64((double)v));
        if (error > *worst) {
            *worst = error;
            *where = v;
        }
    }
}
"""
SWEEP_PAIRS = """
void sweep_NAME(const float *a, const float *b, uint64_t count, double *worst, float *where)
{
    for (uint64_t i = 0; i < count; ++i) {
        const double error = f2c_test_ulps(NAME(a[i], b[i]), TWIN_f64((double)a[i], (double)b[i]));
        if (error > *worst) {
            *worst = error;
            where[0] = a[i];
            where[1] = b[i];
        }
    }
}
"""


def stated(headers: tuple[str, ...] = HEADERS) -> dict[str, float]:
    """Function name -> worst error in ULP, as the comments at the head of the headers say."""
    result: dict[str, float] = {}
    for header in headers:
        head = (folder("runtime_c") / header).read_text(encoding="utf-8").split("*/")[0]
        result |= {name: float(ulp) for name, ulp in re.findall(r"(f2c_\w+) (\d+(?:\.\d+)?) ULP", head)}
    return result


def build(source: str, declarations: str, root: Path) -> tuple[Any, Any]:
    """(ffi, library) of C text that includes runtime_c's headers, compiled with all warnings as errors."""
    (root / "library.c").write_text(source, encoding="utf-8")
    toolchain.run([toolchain.host(None).cc, *toolchain.WARNINGS, "-O2", "-shared", "-fPIC", "-I",
                   str(folder("runtime_c")), str(root / "library.c"), "-o", str(root / "library.so"), "-lm"],
                  "library.c does not compile")
    ffi = cffi.FFI()
    ffi.cdef(declarations)
    return ffi, ffi.dlopen(str(root / "library.so"))


def pairs(name: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """At least 2 * count pairs: of all exponents, with a result of moderate size, and all pairs of special values."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2**32, (2, count), dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        if name == "f2c_pow":
            a = np.concatenate([a, np.abs(a), rng.uniform(0.5, 2, count).astype(np.float32)])
            near = (rng.uniform(-152, 130, a.size) / np.log2(np.abs(a.astype(float)))).astype(np.float32)
            b = np.concatenate([b, rng.integers(-40, 40, count).astype(np.float32), b])
        else:
            size = rng.uniform(-1, 1, count) * np.exp2(rng.uniform(-6, 6, count))
            near = (size * a.astype(float)).astype(np.float32)
    special = np.array([0, 1e-45, 1.1754944e-38, 1e-30, 0.3, 0.5, 0.99999994, 1, 1.0000001, 1.5, 2, 3, 4, 8388607.5,
                        16777215, 16777216, 33554432, 2147483648, 3.4028235e38, np.inf, np.nan], np.float32)
    grid = np.meshgrid(*[np.concatenate([special, -special])] * 2)
    return np.concatenate([a, a, grid[0].ravel()]), np.concatenate([b, near, grid[1].ravel()])


def intervals(part: bool) -> Iterator[tuple[int, int]]:
    """(first, count) of the 32 bits of the inputs."""
    if not part:
        yield 0, 1 << 32
        return
    for sign in (0, 1 << 31):
        yield sign + ((127 - 14) << 23), 22 << 23
    for block in range(1 << 16):
        yield (block << 16) + (block * 40503 & 0xFC00), 1 << 10  # scattered, so that mantissas differ in each exponent


def sweep(names: list[str], part: bool) -> int:
    """Sweep the functions one after the other; the number of those that are worse than stated."""
    limits, worse = stated(), 0
    source = "#include <float.h>\n" + "".join(f'#include "{h}"\n' for h in (*HEADERS, "f2c_f64.h")) + ULPS
    source += "".join((SWEEP_PAIRS if name in TWO_ARGUMENTS else SWEEP)
                      .replace("TWIN", name.removesuffix("_soft")).replace("NAME", name) for name in names)
    prototypes = "".join(f"void sweep_{n}({'const float *, const float *' if n in TWO_ARGUMENTS else 'uint64_t'},"
                         "uint64_t, double *, float *);" for n in names)
    with tempfile.TemporaryDirectory() as root:
        ffi, library = build(source, prototypes, Path(root))
        for name in names:
            worst, where, run = ffi.new("double *", 0.0), ffi.new("float[2]"), getattr(library, f"sweep_{name}")
            if name in TWO_ARGUMENTS:
                for seed in range(ROUNDS):
                    a, b = pairs(name, ROUND // 2, seed)
                    run(ffi.from_buffer("float[]", a), ffi.from_buffer("float[]", b), a.size, worst, where)
            else:
                for first, count in intervals(part):
                    run(first, count, worst, where)
            bad = not worst[0] <= limits[name]
            worse += bad
            at = ", ".join(repr(v) for v in list(where)[:1 + (name in TWO_ARGUMENTS)])
            print(f"{name} {worst[0]:.4f} ULP at {at}" + bad * f", stated {limits[name]}", flush=True)
    return worse


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--part", action="store_true", help="2^-14..2^8 in size, and one in 64 of the others")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(stated())}; default: all")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - stated().keys()):
        parser.error(f"no error is stated for {', '.join(unknown)}")
    sys.exit(1 if sweep(options.names or list(stated()), options.part) else 0)
