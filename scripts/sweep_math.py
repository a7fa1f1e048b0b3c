"""Worst error of the C runtime's float32 functions over all 2^32 inputs, against their float64 twins on this machine.

    PYTHONPATH=. python scripts/sweep_math.py                 # every function of one argument: about an hour
    PYTHONPATH=. python scripts/sweep_math.py f2c_exp f2c_sin # one to three minutes each

A line each: the worst |result - exact| in units in the last place of the exact result, and the input that has it. The
headers in runtime_c state these figures; tests/test_runtime_math.py holds the headers to them on a dense sample.
Exit code 1 when a function is worse than its header says, or wrong in NaN, an infinity or the sign of a zero.
"""
from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import cffi

from fuse2c import toolchain
from fuse2c.resources import folder

HEADERS = ("f2c_math.h", "f2c_round.h", "f2c_log.h", "f2c_trig.h", "f2c_erf.h")
TWO_ARGUMENTS = ("f2c_pow", "f2c_fmod", "f2c_mod", "f2c_atan2")
INTERVALS = 64  # progress, and an early end on Ctrl-C

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
void sweep_NAME(uint64_t first, uint64_t count, double *worst, uint32_t *where)
{
    for (uint64_t i = first; i < first + count; ++i) {
        const float v = f2c_of_bits((uint32_t)i);
        const double error = f2c_test_ulps(NAME(v), TWIN_f64((double)v));
        if (error > *worst) {
            *worst = error;
            *where = (uint32_t)i;
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


def sweep(names: list[str]) -> int:
    """Sweep the functions one after the other; the number of those that are worse than stated."""
    limits, worse = stated(), 0
    includes = "#include <float.h>\n" + "".join(f'#include "{h}"\n' for h in (*HEADERS, "f2c_f64.h"))
    source = includes + ULPS + "".join(
        SWEEP.replace("TWIN", name.removesuffix("_soft")).replace("NAME", name) for name in names)
    with tempfile.TemporaryDirectory() as root:
        prototypes = "".join(f"void sweep_{n}(uint64_t, uint64_t, double *, uint32_t *);" for n in names)
        ffi, library = build(source, prototypes, Path(root))
        for name in names:
            worst, where = ffi.new("double *", 0.0), ffi.new("uint32_t *", 0)
            size = 2**32 // INTERVALS
            for i in range(INTERVALS):
                getattr(library, f"sweep_{name}")(i * size, size, worst, where)
            value = struct.unpack("<f", struct.pack("<I", where[0]))[0]
            bad = not worst[0] <= limits[name]
            worse += bad
            print(f"{name} {worst[0]:.4f} ULP at {value!r} (0x{where[0]:08X})" + bad * f", stated {limits[name]}",
                  flush=True)
    return worse


if __name__ == "__main__":
    known = [name for name in stated() if name not in TWO_ARGUMENTS]
    wanted = sys.argv[1:] or known
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"not a function of one argument with a stated error: {', '.join(unknown)}; known: {', '.join(known)}")
    try:
        sys.exit(1 if sweep(wanted) else 0)
    except subprocess.SubprocessError as error:
        sys.exit(str(error))
