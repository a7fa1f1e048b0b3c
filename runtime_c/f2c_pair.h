/** @file f2c_pair.h  What the other headers of floats are made of: the bits of a float32, and pairs of float32.
 *
 * A pair is the unevaluated sum hi + lo, lo at most half a unit in the last place of hi: about 44 bits. A product's
 * halves come from splitting its factors in 12 bits and 12 bits, so that nothing depends on a fused multiply-add.
 * No results of this file's own to measure: they show in the headers that build on it.
 */
#ifndef F2C_PAIR_H
#define F2C_PAIR_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_math.h"
#include "f2c_quant.h"

/** hi + lo, not added up. */
typedef struct {
    float hi;
    float lo;
} f2c_float_pair;

/** (hi + lo) * 2^n. */
typedef struct {
    float hi;
    float lo;
    int32_t n;
} f2c_power;

/** The 32 bits of v. */
static inline uint32_t f2c_bits(float v)
{
    union { float f; uint32_t u; } bits;
    bits.f = v;
    return bits.u;
}

/** The float32 that has these 32 bits. */
static inline float f2c_of_bits(uint32_t u)
{
    union { float f; uint32_t u; } bits;
    bits.u = u;
    return bits.f;
}

/** |v| with the sign of s, also of -0 and NaN. */
static inline float f2c_copysign(float v, float s)
{
    return f2c_of_bits((f2c_bits(v) & 0x7FFFFFFFu) | (f2c_bits(s) & 0x80000000u));
}

/** v * 2^n for n in -252..254, rounded once where v is normal: two exact factors. */
static inline float f2c_scale(float v, int32_t n)
{
    const int32_t half = n / 2;
    return (v * f2c_exp2i(half)) * f2c_exp2i(n - half);
}

/** The upper 12 significant bits of v: the product of two such is exact. */
static inline float f2c_head(float v)
{
    return f2c_of_bits(f2c_bits(v) & 0xFFFFF000u);
}

/** a + b, exactly, whichever is greater. */
static inline f2c_float_pair f2c_add_pair(float a, float b)
{
    f2c_float_pair sum;
    sum.hi = a + b;
    const float part = sum.hi - a;
    sum.lo = (a - (sum.hi - part)) + (b - part);
    return sum;
}

/** a * b to 44 bits or better, for products and factors away from overflow and underflow. */
static inline f2c_float_pair f2c_mul_pair(float a, float b)
{
    const float ah = f2c_head(a);
    const float bh = f2c_head(b);
    const float al = a - ah;
    const float bl = b - bh;
    f2c_float_pair product;
    product.hi = a * b;
    product.lo = ((((ah * bh) - product.hi) + (ah * bl)) + (al * bh)) + (al * bl);
    return product;
}

/** (num + low) / den - quotient, to first order: what the rounding of quotient = num / den has lost. */
static inline float f2c_div_rest(float num, float low, float den, float quotient)
{
    const f2c_float_pair back = f2c_mul_pair(quotient, den);
    return (((num - back.hi) - back.lo) + low) / den;
}

/** e^(hi + lo) - 1 = result.hi + result.lo for |hi| <= 0.3475 and |lo| < 2^-12; result.hi = hi.
 *  r^2 times a minimax polynomial, relative error of the whole below 2^-33. */
static inline f2c_float_pair f2c_expm1_reduced(float hi, float lo)
{
    const f2c_float_pair r = f2c_add_pair(hi, lo);
    float q = 1.974615298e-4f;
    q = (q * r.hi) + 1.393545186e-3f;
    q = (q * r.hi) + 8.333563805e-3f;
    q = (q * r.hi) + 4.166645929e-2f;
    q = (q * r.hi) + 1.666666567e-1f;
    q = (q * r.hi) + 0.5f;
    f2c_float_pair result;
    result.hi = r.hi;
    result.lo = (r.lo + (r.lo * r.hi)) + (q * (r.hi * r.hi));
    return result;
}

/** x + low = n * ln 2 + hi + lo, |hi| <= 0.3475, for |x| <= 160. */
static inline f2c_power f2c_exp_split(float x, float low)
{
    f2c_power parts;
    parts.n = f2c_rint(x * 1.44269504f);
    const float whole = (float)parts.n;
    parts.hi = x - (whole * 0.693359375f);
    parts.lo = low + (whole * 2.12194440e-4f);
    return parts;
}

/** e^(x + low) with about 30 correct bits; x below -160 and above 91 counts as that. */
static inline f2c_power f2c_exp_parts(float x, float low)
{
    f2c_power parts = f2c_exp_split(f2c_clamp(x, -160.0f, 91.0f), low);
    const f2c_float_pair e = f2c_expm1_reduced(parts.hi, parts.lo);
    const f2c_float_pair sum = f2c_add_pair(1.0f, e.hi);
    parts.hi = sum.hi + (sum.lo + e.lo);
    parts.lo = ((sum.hi - parts.hi) + sum.lo) + e.lo;
    return parts;
}

/** factor * e^(x + low): only the last step can overflow or underflow. */
static inline float f2c_exp_mul(float x, float low, float factor)
{
    const f2c_power parts = f2c_exp_parts(x, low);
    return f2c_scale(parts.hi * factor, parts.n);
}

#endif /* F2C_PAIR_H */
