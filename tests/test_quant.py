"""Integer arithmetic: quant.py against exact rationals, against itself in the other mode, and against its twin in C."""
from __future__ import annotations

import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from graphs import Builder, compile, outputs, run_c, run_ort
from hypothesis import given
from hypothesis import strategies as st

from fuse2c import quant, toolchain
from fuse2c.kernels import tiling
from fuse2c.quant import Requant, SumRequant
from fuse2c.resources import folder

I8, U8 = np.int8, np.uint8
LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}
SANITIZE = ("-fsanitize=undefined", "-fno-sanitize-recover=all")


def example(mode: str, scales: tuple[float, ...], zero: int, dtype: str, reach: int) -> Requant:
    """A requantisation with multipliers `scales` from s_x = 1, s_y = 1."""
    return quant.requant(mode, 1.0, tuple(float(np.float32(s)) for s in scales), 1.0, zero, LIMITS[dtype], (reach,))


# zero point, type, reach of the accumulator, multipliers: small, ordinary, near 1 and above
EXAMPLES = [(-128, "int8", 40_000, (0.00310937, 0.00407143, 0.00131719)), (127, "int8", 9_000, (0.0213913,)),
            (0, "uint8", 70_000, (0.00173171, 0.00031127)), (255, "uint8", 30_000, (0.00917393, 0.00771937)),
            (-7, "int8", 900, (0.371173, 0.291371)), (11, "int8", 300, (1.711317,)), (200, "uint8", 20, (41.1731, 3.3179))]


def disagreements(scale: float, zero: int, dtype: str, reach: int) -> tuple[int, int]:
    """(on how many accumulators within reach "fixed" and "float" differ, whether that none do was proved)."""
    fixed, real = (example(mode, (scale,), zero, dtype, reach) for mode in ("fixed", "float"))
    acc = np.arange(-reach, reach + 1)[:, None]
    assert np.abs(fixed(acc) - real(acc)).max() <= 1
    return int(np.count_nonzero(fixed(acc) != real(acc))), fixed.proved


@pytest.mark.parametrize(("zero", "dtype", "reach", "scales"), EXAMPLES)
def test_fixed_is_float_where_it_is_proved(zero: int, dtype: str, reach: int, scales: tuple[float, ...]) -> None:
    fixed, real = (example(mode, scales, zero, dtype, reach) for mode in ("fixed", "float"))
    acc = np.arange(-reach, reach + 1)[:, None].repeat(len(scales), 1)
    assert fixed.proved == len(scales)
    assert np.array_equal(fixed(acc), real(acc))
    want = np.clip(acc * np.asarray(fixed.scale) + zero, *LIMITS[dtype])
    assert np.abs(real(acc) - want).max() <= 0.5 + 1e-4


@given(st.floats(2.0 ** -15, 3.0, width=32), st.sampled_from(list(LIMITS)), st.integers(0, 255), st.integers(1, 60_000))
def test_a_proof_holds_for_every_accumulator(scale: float, dtype: str, zero: int, reach: int) -> None:
    wrong, proved = disagreements(scale, zero + LIMITS[dtype][0], dtype, reach)
    assert wrong == 0 or not proved


def test_most_scales_are_proved() -> None:
    """Without it the property above would hold of a `proved` that is always 0."""
    rng = np.random.default_rng(2)
    found = [disagreements(float(s), -128, "int8", 30_000) for s in np.exp(rng.uniform(-8, -3, 60))]
    assert sum(proved for _, proved in found) >= 50
    assert all(not proved for wrong, proved in found if wrong)


def test_ties_are_not_proved_and_differ_by_one() -> None:
    """0.5 times an odd accumulator is a tie: half up and half to even part."""
    fixed, real = (example(mode, (0.5, 0.3011731), 3, "int8", 200) for mode in ("fixed", "float"))
    acc = np.arange(-200, 201)[:, None].repeat(2, 1)
    assert fixed.proved == 1
    gap = fixed(acc) - real(acc)
    assert set(gap[:, 0]) == {0, 1} and not gap[:, 1].any()
    assert (gap[:, 0] != 0).sum() >= 60


@given(st.floats(1e-9, 1e6), st.integers(-128, 127), st.lists(st.integers(-2 ** 31, 2 ** 31 - 1), min_size=1, max_size=20))
def test_fixed_is_its_formula(scale: float, zero: int, acc: list[int]) -> None:
    """clamp(floor((acc M + 2**(S-1)) / 2**S) + zero), in exact arithmetic; M and S within the bounds of the C code."""
    r = Requant("fixed", (scale,), (float(np.float32(scale)),), zero, -128, 127)
    m, s = int(r.multipliers[0]), r.shift
    assert 0 < m < 2 ** 31 and 1 <= s <= quant.SHIFT_MAX
    assert abs(Fraction(m, 2 ** s) / Fraction(scale) - 1) < Fraction(1, 10 ** 5) or s == quant.SHIFT_MAX
    exact = [min(max((a * m + 2 ** (s - 1)) // 2 ** s + zero, -128), 127) for a in acc]
    assert r(np.asarray(acc, np.int64)[:, None])[:, 0].tolist() == exact


def test_shift_leaves_the_greatest_multiplier_below_two_to_the_31() -> None:
    for scale in (1.0 - 2.0 ** -33, 1.0, 2.0 ** -20, 0.75, 1e9, 1e-30, 0.003):
        r = Requant("fixed", (scale, scale / 3), (scale, scale / 3), 0, -128, 127)
        assert r.multipliers.min() >= 0 and r.multipliers.max() <= 2 ** 31 - 1
        lost = quant.LOST_BITS * (r.shift in quant.COMMON_SHIFTS)
        assert r.shift in (1, quant.SHIFT_MAX) or r.multipliers.max() >= 2 ** (30 - lost) - 1


def test_layers_have_one_shift_where_nothing_is_lost() -> None:
    """As many thresholds must agree as with the largest shift, which is kept otherwise."""
    seen = set()
    for scale in np.geomspace(0.0004, 0.03, 80):
        r = Requant("fixed", (scale,), (float(np.float32(scale)),), 3, -128, 127, (int(200 / scale),))
        largest = r.largest_shift
        assert largest - quant.LOST_BITS <= r.shift <= largest
        moved, least = (quant._multipliers(r, shift)[1].sum() for shift in (r.shift, largest))
        assert moved <= least and r.proved == (moved == 0)
        seen |= {r.shift if r.shift in quant.COMMON_SHIFTS else 0} if largest > max(quant.COMMON_SHIFTS) else set()
    assert seen == {0, *quant.COMMON_SHIFTS}


# --- the twin in C ---------------------------------------------------------------------------------------------------

HEAD = """
#include <stdio.h>
#include <stdlib.h>
#include "f2c_quant.h"
#include "f2c_soft.h"
"""
MAIN = """
static int32_t in[1 << 20];
int main(void)
{
    const size_t n = fread(in, 4u, (size_t)1 << 20, stdin);
    for (size_t i = 0; i < n; ++i) {
        int32_t row[COLUMNS];
        union { int32_t i; float f; } v;
        v.i = in[i];
        BODY
        fwrite(row, 4u, COLUMNS, stdout);
    }
    return 0;
}
"""


def twin(folder_: Path, declarations: str, columns: list[str], values: np.ndarray) -> np.ndarray:
    """Each C expression over v.i (an int32) or v.f (the float with its bits), for each value: [values, columns].

    Compiled with the undefined-behaviour sanitizer, which ends the program at its first find.
    """
    body = "\n        ".join(f"row[{i}] = {text};" for i, text in enumerate(columns))
    source = HEAD + declarations + MAIN.replace("COLUMNS", str(len(columns))).replace("BODY", body)
    (folder_ / "twin.c").write_text(source, encoding="utf-8")
    toolchain.run([toolchain.host().cc, *toolchain.WARNINGS, "-O1", "-ffp-contract=off", *SANITIZE, "-I",
                   str(folder("runtime_c")), str(folder_ / "twin.c"), "-o", str(folder_ / "twin")], "twin.c does not compile")
    done = subprocess.run([folder_ / "twin"], input=values.astype("<i4").tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, np.int32).reshape(-1, len(columns))


def accumulators() -> np.ndarray:
    """int32 values of all sizes, and the extremes."""
    rng = np.random.default_rng(3)
    parts = [rng.integers(-2 ** bits, 2 ** bits, 300) for bits in (4, 10, 17, 24, 30, 31)]
    ends = [0, 1, -1, 2 ** 31 - 1, -2 ** 31 + 1, -2 ** 31, 2 ** 30, -2 ** 30]
    return np.clip(np.concatenate([*parts, ends]), -2 ** 31, 2 ** 31 - 1)


@pytest.mark.parametrize("mode", ["fixed", "float"])
def test_requant_in_c(mode: str, tmp_path: Path) -> None:
    """What the code generator prints for a requantisation, for shifts of 1 to 54 and every kind of zero point."""
    rows = [example(mode, scales, zero, dtype, reach) for zero, dtype, reach, scales in EXAMPLES]
    for exponent in (-23, -18, -12, -7, -3, -2, -1, 0, 3, 11, 29):
        for zero in (-128, 127, 0):
            rows.append(example(mode, (1.37 * 2.0 ** exponent,), zero, "int8", 1000))
    assert {r.shift for r in rows} >= {1, 32, 33, 53}
    tables, columns = "", []
    for i, r in enumerate(rows):
        done = tiling.finish(r, "0")
        text = done.expr
        for key, values in done.tables.items():
            ctype = "float" if values.dtype == np.float32 else "int32_t"
            numbers = ", ".join(f"{float(v)!r}f" if ctype == "float" else str(v) for v in values)
            tables += f"static const {ctype} {key}{i}[{len(values)}] = {{ {numbers} }};\n"
            text = text.replace(f"{{t_{key}}}", f"{key}{i}")
        columns.append(f"f2c_clamp_s32({text.replace('{a}', 'v.i')}, {r.low}, {r.high})")
    acc = accumulators()
    got = twin(tmp_path, tables, columns, acc)
    for i, r in enumerate(rows):
        want = r(acc[:, None].repeat(len(r.scale), 1))[:, 0]
        assert np.array_equal(got[:, i], want), f"{r}: at {acc[got[:, i] != want][0]}"


SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3.4e38, -3.4e38, 0.05, -0.05, 0.15, 12.75, 2.0 ** 22)


def floats() -> np.ndarray:
    """float32 numbers of all sizes, ties of a scale of 0.1 and 0.5, special values."""
    rng = np.random.default_rng(4)
    ties = (np.arange(-300, 300) + 0.5)
    return np.concatenate([rng.normal(0, 10.0 ** e, 200) for e in (-3, 0, 1, 3, 20)] + [ties * 0.1, ties * 0.5, SPECIAL]
                          ).astype(np.float32)


QUANTISATIONS = [(0.1, -7, -128, 127), (0.5, 200, 0, 255), (0.1, 0, -32768, 32767), (3e-5, -128, -128, 127),
                 (0.25, 65535, 0, 65535)]


def test_quantise_in_c(tmp_path: Path) -> None:
    columns = [f"f2c_quantise(v.f, {s}f, {z}, {low}, {high})" for s, z, low, high in QUANTISATIONS]
    x = floats()
    got = twin(tmp_path, "", columns, x.view(np.int32))
    for i, (scale, zero, low, high) in enumerate(QUANTISATIONS):
        want = quant.quantise(x, np.float32(scale), np.int64(zero), low, high)
        assert np.array_equal(got[:, i], want), f"at {x[got[:, i] != want][0]}"
        assert got[:, i].min() == low and got[:, i].max() == high


def test_floats_in_integers(tmp_path: Path) -> None:
    """What cores without FPU compute in f2c_soft.h, with one path, is what float32 gives."""
    x = np.concatenate([floats(), np.random.default_rng(7).normal(0, 10, 4000).astype(np.float32)])
    columns = [f"f2c_round_soft(f2c_over(v.f, {s}f, f2c_inverse({s}f)), {low - z}, {high - z}) + {z}"
               for s, z, low, high in QUANTISATIONS]
    got = twin(tmp_path, "", columns, x.view(np.int32))
    for i, (scale, zero, low, high) in enumerate(QUANTISATIONS):
        want = quant.quantise(x, np.float32(scale), np.int64(zero), low, high)
        assert np.array_equal(got[:, i], want), f"at {x[got[:, i] != want][0]}"
    n = accumulators().astype(np.int32)
    for scale in (0.1, 0.5, 3e-5, 1.0, 7.123e-9):
        bits = (f"(int32_t)f2c_bits(f2c_real(f2c_round24(f2c_round24(v.i) * (int64_t)f2c_mantissa({scale}f)), "
                f"f2c_unit({scale}f)))")
        got = twin(tmp_path, "", [bits], n)[:, 0]
        assert np.array_equal(got.view(np.float32), n.astype(np.float32) * np.float32(scale))


@pytest.mark.parametrize("scale", [0.1270691454410553, 0.0027, 0.5, 1.9999])
def test_means_in_integers(scale: float, tmp_path: Path) -> None:
    """A float32 sum of 8-bit elements, rounded at each step, and its mean: positive ones, mixed ones, and cancellation."""
    rng = np.random.default_rng(11)
    for low, high, n in ((0, 255, 64), (-255, 0, 9), (-128, 127, 49), (-3, 4, 7), (-255, 255, 200)):
        q = rng.integers(low, high + 1, (500, n)).astype(np.int32)
        q[0], q[1], q[2, n // 2:] = low, high, -q[2, :n - n // 2]
        sums = np.zeros(len(q), np.float32)
        for i in range(n):
            sums += q[:, i].astype(np.float32) * np.float32(scale)
        declarations = f"""
            static int32_t mean(int32_t q, int32_t *at)
            {{
                static int64_t acc;
                acc = f2c_round24(((*at == 0) ? 0 : acc) + f2c_term(q, f2c_mantissa({scale!r}f)));
                *at = (*at + 1) % {n};
                return (int32_t)f2c_bits(f2c_mean(acc, f2c_unit({scale!r}f), {n}));
            }}
            static int32_t at;
        """
        got = twin(tmp_path, declarations, ["mean(v.i, &at)"], q.reshape(-1))[n - 1::n, 0]
        assert np.array_equal(np.ascontiguousarray(got).view(np.float32), sums / np.float32(n))


def test_a_clamp_without_a_branch(tmp_path: Path) -> None:
    """f2c_clamp_masked is f2c_clamp_s32 for what a shifted accumulator can be."""
    near = np.arange(-300, 300, dtype=np.int64)
    v = np.concatenate([near, near + 2 ** 30 - 400, near - 2 ** 30 + 400]).astype(np.int32)
    for low, high in ((-128, 127), (0, 255), (-7, 5)):
        got = twin(tmp_path, "", [f"f2c_clamp_masked(v.i, {low}, {high})"], v)
        assert np.array_equal(got.reshape(-1), np.clip(v, low, high))


def test_reciprocal_and_rounding_in_c(tmp_path: Path) -> None:
    """f2c_reciprocal is a division; f2c_rint is half to even."""
    sums = np.asarray([1, 2, 3, 7, 255, 65_537, 2 ** 23, 2 ** 30 + 12_345, 2 ** 31 - 1])
    top = 2 ** 53
    got = twin(tmp_path, "", [f"(int32_t)f2c_reciprocal({top}u, (uint32_t)v.i)"], sums[sums > 2 ** 22])
    assert got[:, 0].tolist() == [top // int(n) for n in sums if n > 2 ** 22]
    got = twin(tmp_path, "", ["(int32_t)f2c_reciprocal(2000000000u, (uint32_t)v.i)"], sums)
    assert got[:, 0].tolist() == [2_000_000_000 // int(n) for n in sums]
    rng = np.random.default_rng(4)
    many = np.unique(np.concatenate([2 ** 31 - 1 - np.arange(500), 2 ** 23 + np.arange(300),
                                     (2.0 ** rng.uniform(23, 31, 4000)).astype(np.int64)]))
    for top in (2 ** 54 - 1, 2 ** 53 + 12_345, 2 ** 53 - 2 ** 31):
        got = twin(tmp_path, "", [f"(int32_t)f2c_reciprocal_by_{s}({top}u, (uint32_t)v.i)" for s in ("parts", "bits")], many)
        assert got.tolist() == [[top // int(n)] * 2 for n in many]
    x = np.concatenate([np.arange(-40, 40) / 4, [2.0 ** 22 - 0.5, -(2.0 ** 22) + 0.5, 1e-45]]).astype(np.float32)
    assert twin(tmp_path, "", ["f2c_rint(v.f)"], x.view(np.int32))[:, 0].tolist() == np.rint(x).tolist()


# --- sums of two operands, on all 65,536 pairs ---------------------------------------------------------------------

# operator, type, (scale, zero point) of both operands and the result, and on how many of the 65,536 pairs the integer
# form ("fixed", "float") differs from the Q/DQ graph: ties, which scales with few digits have and others do not.
SUMS = [("Add", I8, (0.03127193, -128), (0.04719317, 31), (0.0617139, -9), 0, 0),
        ("Sub", I8, (0.05173, 127), (0.013191, -128), (0.04417, 3), 1, 0),
        ("Add", U8, (0.02, 0), (0.02, 255), (0.031, 128), 0, 0), ("Add", I8, (0.1, 5), (0.0007, -60), (0.09, 0), 29, 27),
        ("Add", I8, (0.031, -128), (0.047, 31), (0.06, -9), 443, 290),
        ("Sub", U8, (0.25, 128), (0.25, 128), (0.5, 100), 15_851, 0)]


@pytest.mark.parametrize("mode", ["fixed", "float"])
@pytest.mark.parametrize(("kind", "dtype", "a", "b", "y", "fixed", "real"), SUMS)
def test_all_pairs_of_a_sum(kind: str, dtype: type, a: tuple[float, int], b: tuple[float, int], y: tuple[float, int],
                            fixed: int, real: int, mode: str, tmp_path: Path) -> None:
    """C = numpy, numpy's Q/DQ graph = onnxruntime; where the two pairs part, they part as often as stated."""
    g = Builder()
    left, right = g.stored((256, 1), a[0], dtype(a[1])), g.stored((1, 256), b[0], dtype(b[1]))
    g.output(g.quantise(g.op(kind, left, right), y[0], dtype(y[1])))
    compiled = compile(g, tmp_path, requant=mode)
    span = np.arange(*np.asarray([0, 256]) + np.iinfo(dtype).min).astype(dtype)
    names = compiled.plan.graph.inputs
    row = {names[0]: span[:, None], names[1]: span[None, :]}
    (c,), (integer,), (source,), (ort,) = (run_c(compiled, [row]), outputs(compiled.plan.graph, [row]),
                                           outputs(compiled.plan.source, [row]), run_ort(g.model(), [row]))
    (name,) = compiled.plan.graph.outputs
    assert np.array_equal(c[name], integer[name])
    assert np.array_equal(source[name], ort[name])
    r = sum_requant(mode, kind, a, b, y, dtype)
    wrong = np.abs(integer[name].astype(int) - r.as_float(span[:, None], span[None, :]))
    assert wrong.max() <= 1 and np.count_nonzero(wrong) == (r.disagreements if mode == "fixed" else 0)
    beyond = np.abs(integer[name].astype(int) - source[name].astype(int))
    assert beyond.max() <= 1 and np.count_nonzero(beyond) == (fixed if mode == "fixed" else real)


def sum_requant(mode: str, kind: str, a: tuple[float, int], b: tuple[float, int], y: tuple[float, int],
                dtype: type) -> SumRequant:
    """The arithmetic that the pass derives from the scales (float32 numbers in the file)."""
    sa, sb, sy = (float(np.float32(t[0])) for t in (a, b, y))
    info = np.iinfo(dtype)
    return SumRequant(mode, (sa / sy, (-sb if kind == "Sub" else sb) / sy), (a[1], b[1]), y[1], int(info.min),
                      int(info.max))


def test_sum_constants_stay_in_32_bits() -> None:
    rng = np.random.default_rng(5)
    for _ in range(25):
        scale = tuple(10.0 ** rng.uniform(-4, 2, 2) * rng.choice([-1, 1], 2))
        zeros = tuple(map(int, rng.choice([-128, 127, 0, 31], 2)))
        r = SumRequant("fixed", (float(scale[0]), float(scale[1])), zeros, 4, -128, 127)        # type: ignore[arg-type]
        assert r.problem() == "" and 1 <= r.shift <= quant.SUM_SHIFT_MAX
        ma, mb, offset = r.constants
        for x in (-128, 127):
            for z in (-128, 127):
                partial = (x * ma + offset, x * ma + offset + z * mb)
                assert all(-2 ** 31 <= p < 2 ** 31 for p in partial)
    assert "differ too much" in SumRequant("fixed", (2.0 ** 21, 1.0), (0, 0), 0, -128, 127).problem()


# --- quantisation and bounds -----------------------------------------------------------------------------------------

def test_quantise_of_special_values() -> None:
    x = np.asarray([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.05, 0.15, 0.25, -0.05, -0.15, 1e-45], np.float32)
    for zero, low, high in ((-7, -128, 127), (200, 0, 255)):
        got = quant.quantise(x, np.float32(0.1), np.int64(zero), low, high)
        half = np.rint(np.asarray([0.05, 0.15, 0.25, -0.05, -0.15, 0], np.float32) / np.float32(0.1)).astype(int) + zero
        assert got.tolist() == [low, high, low, high, low, *half]
    exact = quant.quantise(np.asarray([0.5, 1.5, 2.5, -0.5, -1.5], np.float32), np.float32(1), np.int64(3), -128, 127)
    assert exact.tolist() == [3, 5, 5, 3, 1]        # ties to even, then the zero point


@pytest.mark.parametrize("dtype", [I8, U8])
def test_quantise_as_onnxruntime(dtype: type, tmp_path: Path) -> None:
    x = floats()
    x = x[np.isfinite(x)]
    g = Builder()
    t = g.input(x.shape)
    g.output(g.quantise(t, 0.1, dtype(9)))
    want = next(iter(run_ort(g.model(), [{t: x}])[0].values()))
    info = np.iinfo(dtype)
    assert np.array_equal(quant.quantise(x, np.float32(0.1), np.int64(9), int(info.min), int(info.max)), want)


@given(st.integers(0, 2 ** 32 - 1))
def test_accumulator_bound_is_exact(seed: int) -> None:
    """No input and no prefix of the sum goes beyond it; some input reaches it."""
    rng = np.random.default_rng(seed)
    w, bias = rng.integers(-128, 128, (3, 5)), rng.integers(-100_000, 100_000, 3)
    low, high = -int(rng.integers(0, 256)), int(rng.integers(0, 256))
    bound = quant.accumulator_bound(w, bias, low, high)
    reached = np.zeros(3, np.int64)
    for pick in (np.where(w > 0, high, low), np.where(w > 0, low, high), rng.integers(low, high + 1, (3, 5))):
        order = rng.permutation(5)
        sums = np.concatenate([bias[:, None], bias[:, None] + np.cumsum((w * pick)[:, order], axis=1)], axis=1)
        reached = np.maximum(reached, np.abs(sums).max(axis=1))
    assert np.array_equal(reached, bound)


def test_high_product_in_c(tmp_path: Path) -> None:
    """f2c_high_product is the upper word of the product of 64 bits."""
    v = accumulators()
    for mult in (0, 1, 0xFFFF, 0x10000, 0x12345678, 2 ** 31 - 0x10000, 2 ** 31 - 1):
        got = twin(tmp_path, "", [f"f2c_high_product(v.i, {mult})"], v)
        assert np.array_equal(got[:, 0], (v.astype(np.int64) * mult) >> 32)


def test_three_sums_in_two_words_in_c(tmp_path: Path) -> None:
    """f2c_add_fields tells apart what f2c_fields put together, up to the largest sums that there is room for."""
    rng = np.random.default_rng(4)
    first, second, third = (np.concatenate([rng.integers(-2 ** bits, 2 ** bits, 900), ends]) for bits, ends in (
        (20, [-2 ** 20, 2 ** 20 - 1, 0, -1]), (21, [2 ** 21 - 1, -2 ** 21, -1, 2 ** 11]), (20, [2 ** 20 - 1, -2 ** 20, 0, -1])))
    declarations = f"""
static const int32_t first[] = {{ {", ".join(map(str, first))} }};
static const int32_t second[] = {{ {", ".join(map(str, second))} }};
static const int32_t third[] = {{ {", ".join(map(str, third))} }};
static int32_t field(int32_t i, int32_t which)
{{
    int32_t s[3] = {{ 5, -6, 7 }};
    f2c_add_fields(f2c_fields(first[i], second[i], 21), f2c_fields(third[i], second[i], 10), &s[0], &s[1], &s[2]);
    return s[which];
}}
"""
    columns = [f"field(v.i, {n})" for n in range(3)]
    got = twin(tmp_path, '#include "f2c_fields.h"\n' + declarations, columns, np.arange(len(first)))
    assert np.array_equal(got, np.stack([first + 5, second - 6, third + 7], axis=1))
