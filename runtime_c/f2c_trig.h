/** @file f2c_trig.h  Trigonometric functions of float32 and their inverses, for all inputs, in radians; no library.
 *
 * Worst errors |result - exact| in units in the last place of the exact result, subnormal results included, by
 * scripts/sweep_math.py.
 * Over all 2^32 inputs: f2c_sin 0.78 ULP, f2c_cos 0.78 ULP. Over all inputs of 2^-14..2^8 in size and one in 64 of
 * the others: f2c_tan 1.01 ULP, f2c_asin 0.65 ULP, f2c_acos 0.62 ULP, f2c_atan 0.85 ULP. Over 30 million pairs:
 * f2c_atan2 0.81 ULP. NaN, infinities and -0 as in C99's functions.
 */
#ifndef F2C_TRIG_H
#define F2C_TRIG_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_math.h"
#include "f2c_pair.h"
#include "f2c_round.h"

/** |v| = n * pi / 2 + hi + lo with |hi + lo| <= pi / 4 and n counted modulo 4, for every finite v.
 *
 * Payne and Hanek: in the product of the 24-bit significand and 2 / pi, only those 96 bits of 2 / pi matter that make
 * less than four turns of pi / 2 and more than 2^-62 of one, wherever they stand: the same steps for all numbers. No
 * float32 is nearer than 2^-30 turns to a whole one (all tried), so that at least 32 bits remain. */
static inline f2c_power f2c_turns(float v)
{
    static const uint32_t two_over_pi[8] = {0x00000000u, 0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u,
                                            0xF534DDC0u, 0xDB629599u, 0x3C439041u, 0xFE5163ABu};
    const uint32_t u = f2c_bits(v) & 0x7FFFFFFFu;
    const uint32_t field = u >> 23;
    const uint32_t start = (field > 120u) ? (field - 120u) : 0u;
    const uint32_t *words = &two_over_pi[start >> 5];
    const uint32_t shift = start & 31u;
    const uint64_t m = (u & 0x007FFFFFu) | 0x00800000u;
    const uint32_t w0 = (words[0] << shift) | ((words[1] >> 1) >> (31u - shift));
    const uint32_t w1 = (words[1] << shift) | ((words[2] >> 1) >> (31u - shift));
    const uint32_t w2 = (words[2] << shift) | ((words[3] >> 1) >> (31u - shift));
    /* Fixed point, two bits of n and 62 of the fraction. */
    const uint64_t turns = ((m * w0) << 32) + (m * w1) + ((m * w2) >> 32);
    const uint64_t n = (turns + ((uint64_t)1 << 61)) >> 62;
    const uint64_t fraction = turns - (n << 62);
    const uint32_t negative = (uint32_t)(fraction >> 63);
    const uint64_t size = (negative != 0u) ? (0u - fraction) : fraction;
    /* Times pi / 2 = 0xC90FDAA2 / 2^31, in the same format. */
    const int64_t angle = (int64_t)(((size >> 32) * 0x1921FB544u) + (((size & 0xFFFFFFFFu) * 0xC90FDAA2u) >> 31));
    const float hi = (float)angle;
    const float lo = (float)(angle - (int64_t)hi);
    const float unit = (negative != 0u) ? -2.168404345e-19f : 2.168404345e-19f;
    const uint32_t small = (u < 0x3F490FDBu) ? 1u : 0u;
    f2c_power parts;
    parts.hi = (small != 0u) ? f2c_of_bits(u) : (hi * unit);
    parts.lo = (small != 0u) ? 0.0f : (lo * unit);
    parts.n = (small != 0u) ? 0 : (int32_t)(n & 3u);
    return parts;
}

/** sin(hi + lo) as a pair, for |hi| <= pi / 4. */
static inline f2c_float_pair f2c_sin_reduced(float hi, float lo)
{
    const float z = hi * hi;
    float p = 2.832635573e-6f;
    p = (p * z) - 1.985306881e-4f;
    p = (p * z) + 8.333379403e-3f;
    p = (p * z) - 1.666666716e-1f;
    f2c_float_pair result;
    result.hi = hi;
    result.lo = (p * (z * hi)) + (lo - (lo * (0.5f * z)));
    return result;
}

/** cos(hi + lo) as a pair, for |hi| <= pi / 4. */
static inline f2c_float_pair f2c_cos_reduced(float hi, float lo)
{
    const f2c_float_pair z = f2c_mul_pair(hi, hi);
    float p = 2.443254198e-5f;
    p = (p * z.hi) - 1.388731063e-3f;
    p = (p * z.hi) + 4.166664556e-2f;
    f2c_float_pair result = f2c_add_pair(1.0f, -0.5f * z.hi);
    result.lo += (p * (z.hi * z.hi)) - ((0.5f * z.lo) + (hi * lo));
    return result;
}

/** sin(v) for a turn of 0, cos(v) for a turn of 1. */
static inline float f2c_sin_turned(float v, int32_t turn)
{
    const f2c_power x = f2c_turns(v);
    const f2c_float_pair s = f2c_sin_reduced(x.hi, x.lo);
    const f2c_float_pair c = f2c_cos_reduced(x.hi, x.lo);
    const int32_t n = x.n + turn;
    const float size = ((n & 1) != 0) ? (c.hi + c.lo) : (s.hi + s.lo);
    const float result = ((n & 2) != 0) ? -size : size;
    return (f2c_abs(v) < F2C_INFINITY) ? result : F2C_NAN;
}

/** sin(v). */
static inline float f2c_sin(float v)
{
    const float size = f2c_sin_turned(v, 0);
    return ((f2c_bits(v) >> 31) != 0u) ? -size : size;
}

/** cos(v). */
static inline float f2c_cos(float v)
{
    return f2c_sin_turned(v, 1);
}

/** tan(v) = sin / cos, or -cos / sin in the odd quarters. */
static inline float f2c_tan(float v)
{
    const f2c_power x = f2c_turns(v);
    const f2c_float_pair s = f2c_sin_reduced(x.hi, x.lo);
    const f2c_float_pair c = f2c_cos_reduced(x.hi, x.lo);
    const uint32_t odd = (uint32_t)x.n & 1u;
    const float num = (odd != 0u) ? -c.hi : s.hi;
    const float num_low = (odd != 0u) ? -c.lo : s.lo;
    const f2c_float_pair den = f2c_add_pair((odd != 0u) ? s.hi : c.hi, (odd != 0u) ? s.lo : c.lo);
    const float quotient = (num + num_low) / den.hi;
    const float rest = f2c_div_rest(num, num_low - (quotient * den.lo), den.hi, quotient);
    const float size = f2c_abs(v);
    const float result = (size < 2.44140625e-4f) ? size : (quotient + rest);
    return (size < F2C_INFINITY) ? f2c_copysign(1.0f, v) * result : F2C_NAN;
}

/** asin(s) - s for 0 <= s <= 0.5: s^3 times a minimax polynomial. */
static inline float f2c_asin_rest(float s, float z)
{
    float p = 3.769744188e-2f;
    p = (p * z) + 1.431464311e-2f;
    p = (p * z) + 3.183910623e-2f;
    p = (p * z) + 4.451337457e-2f;
    p = (p * z) + 7.500521839e-2f;
    p = (p * z) + 1.666665971e-1f;
    return p * (z * s);
}

/** asin(v); beyond +-1 NaN. Above 0.5 pi / 2 - 2 asin(sqrt((1 - |v|) / 2)). */
static inline float f2c_asin(float v)
{
    const float size = f2c_abs(v);
    const uint32_t far = (size > 0.5f) ? 1u : 0u;
    const float z = (far != 0u) ? (0.5f * (1.0f - size)) : (size * size);
    const float s = (far != 0u) ? f2c_sqrt(z) : size;
    const f2c_float_pair back = f2c_mul_pair(s, s);
    const float low = (z == 0.0f) ? 0.0f : (((z - back.hi) - back.lo) / (2.0f * s));
    const float rest = f2c_asin_rest(s, z);
    const f2c_float_pair outer = f2c_add_pair(1.57079637f, -2.0f * s);
    const float large = outer.hi + (outer.lo - ((2.0f * (rest + low)) + 4.37113883e-8f));
    const float result = (far != 0u) ? large : (s + rest);
    return f2c_copysign((size <= 1.0f) ? result : F2C_NAN, v);
}

/** acos(v); beyond +-1 NaN. */
static inline float f2c_acos(float v)
{
    const float size = f2c_abs(v);
    const uint32_t far = (size > 0.5f) ? 1u : 0u;
    const float z = (far != 0u) ? (0.5f * (1.0f - size)) : (size * size);
    const float s = (far != 0u) ? f2c_sqrt(z) : v;
    const f2c_float_pair back = f2c_mul_pair(s, s);
    const float low = ((far == 0u) || (z == 0.0f)) ? 0.0f : (((z - back.hi) - back.lo) / (2.0f * s));
    const float rest = f2c_asin_rest(s, z) + low;
    const f2c_float_pair middle = f2c_add_pair(1.57079637f, -s);
    const f2c_float_pair left = f2c_add_pair(3.14159274f, -2.0f * s);
    const float near_one = (2.0f * s) + (2.0f * rest);
    const float near_zero = middle.hi + (middle.lo - (rest + 4.37113883e-8f));
    const float near_minus = left.hi + (left.lo - ((2.0f * rest) + 8.74227766e-8f));
    const float result = (far == 0u) ? near_zero : ((v < 0.0f) ? near_minus : near_one);
    return (size <= 1.0f) ? result : F2C_NAN;
}

/** The angle of the point (x, y), with the sign of y; both zero or both infinite as in C99's atan2f.
 *
 * In the octant of t = min / max: atan(t), or pi / 4 + atan((t - 1) / (t + 1)) above tan(pi / 8), from the numbers
 * themselves, with the rest of the division; then the octants are put together as a multiple of pi / 4. */
static inline float f2c_atan2(float y, float x)
{
    const float rise = f2c_abs(y);
    const float run = f2c_abs(x);
    const uint32_t steep = (rise > run) ? 1u : 0u;
    const float lesser = (steep != 0u) ? run : rise;
    const float greater = (steep != 0u) ? rise : run;
    /* Sums without overflow, and rests of divisions without underflow. */
    const float unit = (greater > 4.2535296e37f) ? 0.25f : ((greater < 8.27180613e-25f) ? 1.84467441e19f : 1.0f);
    const uint32_t endless = (greater == F2C_INFINITY) ? 1u : 0u;
    const float a = (endless != 0u) ? ((lesser == F2C_INFINITY) ? 1.0f : 0.0f) : (lesser * unit);
    const float b = ((endless != 0u) || (greater == 0.0f)) ? 1.0f : (greater * unit);
    const uint32_t outer = (a > (0.414213562f * b)) ? 1u : 0u;
    const f2c_float_pair num = f2c_add_pair(a, (outer != 0u) ? -b : 0.0f);
    const f2c_float_pair den = f2c_add_pair(b, (outer != 0u) ? a : 0.0f);
    const float t = num.hi / den.hi;
    const float lost = f2c_div_rest(num.hi, num.lo - (t * den.lo), den.hi, t);
    const float low = (f2c_abs(t) > 5.96046448e-8f) ? lost : 0.0f;
    const float z = t * t;
    float p = -6.090057641e-2f;
    p = (p * z) + 1.059916914e-1f;
    p = (p * z) - 1.424439102e-1f;
    p = (p * z) + 1.999852806e-1f;
    p = (p * z) - 3.333331645e-1f;
    const float rest = (p * (z * t)) + low;
    const uint32_t left = f2c_bits(x) >> 31;
    const int32_t octant = (steep != 0u) ? (2 - (int32_t)outer) : (int32_t)outer;
    const int32_t octants = (left != 0u) ? (4 - octant) : octant;
    const float sign = ((steep ^ left) != 0u) ? -1.0f : 1.0f;
    const f2c_float_pair sum = f2c_add_pair((float)octants * 0.78515625f, sign * t);
    const float angle = sum.hi + (sum.lo + ((sign * rest) + ((float)octants * 2.41913397e-4f)));
    const uint32_t nan = (uint32_t)(x != x) | (uint32_t)(y != y);
    return (nan != 0u) ? F2C_NAN : f2c_copysign(angle, y);
}

/** atan(v). */
static inline float f2c_atan(float v)
{
    return f2c_atan2(v, 1.0f);
}

#endif /* F2C_TRIG_H */
