/** @file f2c_log.h  Logarithms, powers, hyperbolic functions and what is made of them, for all float32; no library.
 *
 * Worst errors |result - exact| in units in the last place of the exact result, subnormal results included, by
 * scripts/sweep_math.py.
 * Over all 2^32 inputs: f2c_log 0.83 ULP, f2c_cosh 1.10 ULP.
 * Over all inputs of 2^-14..2^8 in size and one in 64 of the others: f2c_log1p 0.84 ULP, f2c_expm1 0.98 ULP,
 * f2c_softplus 1.19 ULP, f2c_mish 0.78 ULP, f2c_asinh 0.85 ULP, f2c_acosh 0.82 ULP, f2c_atanh 0.85 ULP,
 * f2c_sinh 1.59 ULP. Over 30 million pairs: f2c_pow 0.83 ULP.
 * NaN, infinities and -0 as in C99's functions.
 */
#ifndef F2C_LOG_H
#define F2C_LOG_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_math.h"
#include "f2c_pair.h"
#include "f2c_round.h"

/** v = 2^n * (1 + hi), hi in -0.293..0.4143 exactly, for v > 0 and finite; lo = 0. */
static inline f2c_power f2c_log_split(float v)
{
    const int32_t small = (v < 1.17549435e-38f) ? 1 : 0;
    const uint32_t u = f2c_bits((small != 0) ? (v * 16777216.0f) : v);
    const int32_t n = (int32_t)(u - 0x3F3504F3u) >> 23;
    f2c_power parts;
    parts.hi = f2c_of_bits(u - ((uint32_t)n << 23)) - 1.0f;
    parts.lo = 0.0f;
    parts.n = n - (24 * small);
    return parts;
}

/** n * ln 2 + log(1 + f) + low for f in -0.293..0.4143. f - f^2 / 2 + f^3 times a minimax polynomial. */
static inline float f2c_log_sum(int32_t n, float f, float low)
{
    const float whole = (float)n;
    const float z = f * f;
    float p = 6.749267876e-2f;
    p = (p * f) - 1.167009771e-1f;
    p = (p * f) + 1.188354865e-1f;
    p = (p * f) - 1.240623370e-1f;
    p = (p * f) + 1.422035843e-1f;
    p = (p * f) - 1.666798890e-1f;
    p = (p * f) + 2.000207156e-1f;
    p = (p * f) - 2.500000894e-1f;
    p = (p * f) + 3.333331347e-1f;
    const float rest = ((p * (f * z)) + (low - (whole * 2.12194440e-4f))) - (0.5f * z);
    return (f + rest) + (whole * 0.693359375f);
}

/** log(v), natural. log(0) = -infinity, of a negative number NaN. */
static inline float f2c_log(float v)
{
    const f2c_power parts = f2c_log_split(v);
    const float result = f2c_log_sum(parts.n, parts.hi, 0.0f);
    const float edge = (v == 0.0f) ? -F2C_INFINITY : ((v < 0.0f) ? F2C_NAN : v);
    return ((v > 0.0f) && (v < F2C_INFINITY)) ? result : edge;
}

/** log(1 + v + low) for v > -1 and finite, low small against v. */
static inline float f2c_log1p_pair(float v, float low)
{
    const f2c_float_pair sum = f2c_add_pair(1.0f, v);
    const f2c_power parts = f2c_log_split(sum.hi);
    const uint32_t near_one = (uint32_t)(v > -0.292f) & (uint32_t)(v < 0.414f);
    const float rest = ((near_one != 0u) ? low : (sum.lo + low)) / sum.hi;
    return f2c_log_sum((near_one != 0u) ? 0 : parts.n, (near_one != 0u) ? v : parts.hi, rest);
}

/** log(1 + v). log1p(-1) = -infinity, below NaN. */
static inline float f2c_log1p(float v)
{
    const float result = (v == 0.0f) ? v : f2c_log1p_pair(v, 0.0f);
    const float edge = (v == -1.0f) ? -F2C_INFINITY : ((v < -1.0f) ? F2C_NAN : v);
    return ((v > -1.0f) && (v < F2C_INFINITY)) ? result : edge;
}

/** e^v - 1 = 2^n (e^r - 1 + 1 - 2^-n). */
static inline float f2c_expm1(float v)
{
    const f2c_power parts = f2c_exp_split(f2c_clamp(v, -30.0f, 91.0f), 0.0f);
    const f2c_float_pair e = f2c_expm1_reduced(parts.hi, parts.lo);
    const int32_t n = (parts.n < 60) ? parts.n : 60;
    const f2c_float_pair one = f2c_add_pair(1.0f, -f2c_exp2i(-n));
    const f2c_float_pair sum = f2c_add_pair(one.hi, e.hi);
    const float result = f2c_scale(sum.hi + (sum.lo + (e.lo + one.lo)), parts.n);
    return (v == 0.0f) ? v : result;
}

/** log2(v) as a pair, relative error about 2^-35, hi in 12 bits; v > 0 and finite. With s = (m - 1) / (m + 1):
 *  log2(m) = 2 / (3 ln 2) * s * (3 + s^2 + s^4 * minimax polynomial in s^2). */
static inline f2c_float_pair f2c_log2_pair(float v)
{
    const f2c_power parts = f2c_log_split(v);
    const float f = parts.hi;
    const float m = f + 1.0f;
    const float inverse = 1.0f / (m + 1.0f);
    const float s = f * inverse;
    const float sh = f2c_head(s);
    const float dh = f2c_head(m + 1.0f);
    const float sl = inverse * ((f - (sh * dh)) - (sh * (m - (dh - 1.0f))));
    const float z = s * s;
    float p = 2.933919430e-1f;
    p = (p * z) + 3.326942325e-1f;
    p = (p * z) + 4.285795987e-1f;
    p = (p * z) + 5.999999642e-1f;
    const float rest = (p * (z * z)) + (sl * (sh + s));
    const float zh = sh * sh;
    const float th = f2c_head((3.0f + zh) + rest);
    const float tl = rest - ((th - 3.0f) - zh);
    const float u = sh * th;
    const float w = (sl * th) + (tl * s);
    const float ph = f2c_head(u + w);
    const float pl = w - (ph - u);
    const float high = ph * 9.619140625e-1f;
    const float low = (ph * -1.1736857402e-4f) + (pl * 9.617966939e-1f);
    const float whole = (float)parts.n;
    f2c_float_pair result;
    result.hi = f2c_head((high + low) + whole);
    result.lo = low - ((result.hi - whole) - high);
    return result;
}

/** 2^(hi + lo); below -155 counts as that, above 130 as well. */
static inline float f2c_exp2_pair(float hi, float lo)
{
    const float sum = hi + lo;
    const uint32_t inside = (uint32_t)(sum > -155.0f) & (uint32_t)(sum < 130.0f);
    const float v = (inside != 0u) ? hi : f2c_clamp(sum, -155.0f, 130.0f);
    const int32_t n = f2c_rint((inside != 0u) ? sum : v);
    const f2c_float_pair r = f2c_add_pair(v - (float)n, (inside != 0u) ? lo : 0.0f);
    const f2c_float_pair natural = f2c_mul_pair(r.hi, 0.693147182f);
    const float low = natural.lo + ((r.lo * 0.693147182f) - (r.hi * 1.90465421e-9f));
    const f2c_float_pair e = f2c_expm1_reduced(natural.hi, low);
    const f2c_float_pair one = f2c_add_pair(1.0f, e.hi);
    return f2c_scale(one.hi + (one.lo + e.lo), n);
}

/** a^b with all of C99's special cases: a^0 = 1^b = 1, (-1)^(+-infinity) = 1, a negative a needs an integer b. */
static inline float f2c_pow(float a, float b)
{
    const float size = f2c_abs(a);
    const uint32_t plain = (uint32_t)(size > 0.0f) & (uint32_t)(size < F2C_INFINITY);
    const f2c_float_pair log2 = f2c_log2_pair((plain != 0u) ? size : 2.0f);
    /* Beyond 2^33 every power but that of one overflows or underflows, as it does there. */
    const float exponent = f2c_clamp(b, -8589934592.0f, 8589934592.0f);
    const float head = f2c_head(exponent);
    const float power = f2c_exp2_pair(head * log2.hi, ((exponent - head) * log2.hi) + (exponent * log2.lo));
    const float half = 0.5f * b;
    const uint32_t whole = (f2c_trunc(b) == b) ? 1u : 0u;
    const uint32_t odd = whole & ((f2c_trunc(half) != half) ? 1u : 0u);
    const uint32_t negative = f2c_bits(a) >> 31;
    const float edge = ((size == 0.0f) == (b < 0.0f)) ? F2C_INFINITY : 0.0f;
    const float positive = (plain != 0u) ? power : edge;
    const float result = ((odd & negative) != 0u) ? -positive : positive;
    const uint32_t invalid = plain & negative & (whole ^ 1u);
    const float number = (invalid != 0u) ? F2C_NAN : result;
    const uint32_t nan = (uint32_t)(a != a) | (uint32_t)(b != b);
    const uint32_t one = (uint32_t)(b == 0.0f) | (uint32_t)(a == 1.0f);
    return (one != 0u) ? 1.0f : ((nan != 0u) ? F2C_NAN : number);
}

/** log(1 + e^v) = max(v, 0) + log(1 + e^-|v|). */
static inline float f2c_softplus(float v)
{
    const f2c_power q = f2c_exp_parts(-f2c_abs(v), 0.0f);
    return f2c_relu(v) + f2c_log1p_pair(f2c_scale(q.hi, q.n), f2c_scale(q.lo, q.n));
}

/** v * tanh(softplus(v)) = v * m / (m + 2 e), in q = e^-|v|: m = q (q + 2) and e = 1 on the left, m = 1 + 2 q and
 *  e = q^2 on the right. Of -infinity NaN, as the product -infinity * 0. */
static inline float f2c_mish(float v)
{
    const uint32_t left = (v < 0.0f) ? 1u : 0u;
    const float size = f2c_min(f2c_abs(v), 160.0f);
    const f2c_power e = f2c_exp_parts(-size, 0.0f);
    const float q = f2c_scale(e.hi, e.n);
    const float q_low = f2c_scale(e.lo, e.n);
    const f2c_float_pair square = f2c_mul_pair(q, q);
    const f2c_float_pair sum = f2c_add_pair((left != 0u) ? 2.0f : 1.0f, (left != 0u) ? q : (2.0f * q));
    const float sum_low = sum.lo + ((left != 0u) ? q_low : (2.0f * q_low));
    /* The factor q of the left side without its 2^n, which comes last: v q is a number where q is subnormal. */
    const f2c_float_pair m = f2c_mul_pair(sum.hi, (left != 0u) ? e.hi : 1.0f);
    const float m_low = m.lo + ((left != 0u) ? ((sum_low * e.hi) + (sum.hi * e.lo)) : sum_low);
    const int32_t n = (left != 0u) ? e.n : 0;
    const f2c_float_pair den = f2c_add_pair((left != 0u) ? 2.0f : (2.0f * square.hi), f2c_scale(m.hi, n));
    const float square_low = (left != 0u) ? 0.0f : (2.0f * (square.lo + (2.0f * (q * q_low))));
    const f2c_float_pair num = f2c_mul_pair(size, m.hi);
    const float num_low = num.lo + (size * m_low);
    const float part = num.hi / den.hi;
    const float den_low = den.lo + (square_low + f2c_scale(m_low, n));
    const float rest = f2c_div_rest(num.hi, num_low - (part * den_low), den.hi, part);
    const float result = f2c_scale(part + rest, n);
    const float number = ((v > 160.0f) || (v != v)) ? v : f2c_copysign(result, v);
    return (v == -F2C_INFINITY) ? F2C_NAN : number;
}

/** sqrt(hi + lo) as a pair, for hi in 2^-100..2^100. */
static inline f2c_float_pair f2c_sqrt_pair(float hi, float lo)
{
    f2c_float_pair root;
    root.hi = f2c_sqrt(hi);
    root.lo = 0.5f * f2c_div_rest(hi, lo, root.hi, root.hi);
    return root;
}

/** log(2 v) for v > 0 and finite. */
static inline float f2c_log_twice(float v)
{
    const f2c_power parts = f2c_log_split(v);
    return f2c_log_sum(parts.n + 1, parts.hi, 0.0f);
}

/** asinh(v) = log1p(v + v^2 / (1 + sqrt(1 + v^2))); above 2^12 log(2 v); below 2^-12 v. */
static inline float f2c_asinh(float v)
{
    const float size = f2c_abs(v);
    const float x = f2c_clamp(size, 2.44140625e-4f, 4096.0f);
    const f2c_float_pair square = f2c_mul_pair(x, x);
    const f2c_float_pair sum = f2c_add_pair(1.0f, square.hi);
    const f2c_float_pair root = f2c_sqrt_pair(sum.hi, sum.lo + square.lo);
    const f2c_float_pair den = f2c_add_pair(1.0f, root.hi);
    const float part = square.hi / den.hi;
    const float rest = f2c_div_rest(square.hi, square.lo - (part * (den.lo + root.lo)), den.hi, part);
    const f2c_float_pair argument = f2c_add_pair(x, part);
    const float middle = f2c_log1p_pair(argument.hi, argument.lo + rest);
    const float result = (size < 4096.0f) ? middle : f2c_log_twice(size);
    const uint32_t same = (uint32_t)(size < 2.44140625e-4f) | (uint32_t)!(size < F2C_INFINITY);
    return (same != 0u) ? v : f2c_copysign(result, v);
}

/** acosh(v) = log1p(t + sqrt(t (t + 2))), t = v - 1; above 2^12 log(2 v). Below 1 NaN. */
static inline float f2c_acosh(float v)
{
    const float x = f2c_clamp(v, 1.00000012f, 4096.0f);
    const float t = x - 1.0f;
    const f2c_float_pair other = f2c_add_pair(t, 2.0f);
    const f2c_float_pair square = f2c_mul_pair(t, other.hi);
    const f2c_float_pair root = f2c_sqrt_pair(square.hi, square.lo + (t * other.lo));
    const f2c_float_pair argument = f2c_add_pair(t, root.hi);
    const float middle = f2c_log1p_pair(argument.hi, argument.lo + root.lo);
    const float result = (v < 4096.0f) ? middle : f2c_log_twice(v);
    const float edge = (v < 1.0f) ? F2C_NAN : ((v == 1.0f) ? 0.0f : v);
    return ((v > 1.0f) && (v < F2C_INFINITY)) ? result : edge;
}

/** atanh(v) = log1p(2 v / (1 - v)) / 2; below 2^-12 v. Of +-1 infinity, beyond NaN. */
static inline float f2c_atanh(float v)
{
    const float size = f2c_abs(v);
    const float x = f2c_clamp(size, 2.44140625e-4f, 0.99999994f);
    const f2c_float_pair den = f2c_add_pair(1.0f, -x);
    const float twice = 2.0f * x;
    const float quotient = twice / den.hi;
    const float rest = f2c_div_rest(twice, -(quotient * den.lo), den.hi, quotient);
    const float middle = 0.5f * f2c_log1p_pair(quotient, rest);
    const float result = (size < 1.0f) ? middle : ((size == 1.0f) ? F2C_INFINITY : F2C_NAN);
    return (size < 2.44140625e-4f) ? v : f2c_copysign(result, v);
}

/** sinh(v): v + v^3 times a polynomial below 1, e^|v| / 2 - e^-|v| / 2 above. */
static inline float f2c_sinh(float v)
{
    const float size = f2c_abs(v);
    const float x = f2c_min(size, 1.0f);
    const float z = x * x;
    float p = 2.782213187e-6f;
    p = (p * z) + 1.984289556e-4f;
    p = (p * z) + 8.333310485e-3f;
    p = (p * z) + 1.666666716e-1f;
    const float inner = (p * (z * x)) + x;
    const float half = f2c_exp_mul(size, 0.0f, 0.5f);
    return f2c_copysign((size < 1.0f) ? inner : (half - (0.25f / half)), v);
}

/** cosh(v) = e^|v| / 2 + e^-|v| / 2. */
static inline float f2c_cosh(float v)
{
    const float half = f2c_exp_mul(f2c_abs(v), 0.0f, 0.5f);
    return half + (0.25f / half);
}

#endif /* F2C_LOG_H */
