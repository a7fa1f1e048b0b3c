/** @file f2c_math.h  float32 functions without a library, one path for all inputs.
 *
 * Worst errors over all float32 inputs, in units in the last place of the exact result (subnormal ones included):
 * f2c_exp 0.99 ULP, f2c_sigmoid 1.97 ULP, f2c_tanh 1.33 ULP. NaN and infinities as in C99's functions.
 * tests/test_runtime.py holds them to these figures on a dense sweep of all exponents.
 */
#ifndef F2C_MATH_H
#define F2C_MATH_H

#include <stdint.h>

#include "f2c_config.h"

/** The greater of two numbers; NaN in `a` stays. */
static inline float f2c_max(float a, float b)
{
    float y = (a < b) ? b : a;
    F2C_SETTLE(y);
    return y;
}

/** The lesser of two numbers; NaN in `a` stays. */
static inline float f2c_min(float a, float b)
{
    float y = (a > b) ? b : a;
    F2C_SETTLE(y);
    return y;
}

/** The greater of two numbers; NaN if one of them is NaN. */
static inline float f2c_max_nan(float a, float b)
{
    float y = (b != b) ? b : a;
    F2C_SETTLE(y);
    return f2c_max(y, b);
}

/** The lesser of two numbers; NaN if one of them is NaN. */
static inline float f2c_min_nan(float a, float b)
{
    float y = (b != b) ? b : a;
    F2C_SETTLE(y);
    return f2c_min(y, b);
}

/** v limited to low..high; NaN stays. */
static inline float f2c_clamp(float v, float low, float high)
{
    return f2c_min(f2c_max(v, low), high);
}

/** max(v, 0); NaN stays. */
static inline float f2c_relu(float v)
{
    float y = v;
    F2C_RELU(y);
    return y;
}

/** |v|. */
static inline float f2c_abs(float v)
{
    union { float f; uint32_t u; } bits;
    bits.f = v;
    bits.u &= 0x7FFFFFFFu;
    return bits.f;
}

/** 2^n for n in -126..127. */
static inline float f2c_exp2i(int32_t n)
{
    union { float f; uint32_t u; } bits;
    bits.u = (uint32_t)(n + 127) << 23;
    return bits.f;
}

/** e^x. x = n * ln 2 + r with |r| <= ln 2 / 2; e^r by a polynomial; 2^n in two factors for subnormal results. */
static inline float f2c_exp(float x)
{
    const float v = f2c_clamp(x, -104.0f, 89.0f);
    union { float f; int32_t i; } bits;
    bits.f = (v * 1.44269504f) + 12582912.0f;
    const float whole = bits.f - 12582912.0f;
    const int32_t n = bits.i - 0x4B400000;      /* of NaN any number: it stays NaN */
    const float r = (v - (whole * 0.693359375f)) + (whole * 2.12194440e-4f);
    float p = 1.9875691500e-4f;
    p = (p * r) + 1.3981999507e-3f;
    p = (p * r) + 8.3334519073e-3f;
    p = (p * r) + 4.1665795894e-2f;
    p = (p * r) + 1.6666665459e-1f;
    p = (p * r) + 5.0000001201e-1f;
    p = ((p * (r * r)) + r) + 1.0f;
    const int32_t half = n / 2;
    return (p * f2c_exp2i(half)) * f2c_exp2i(n - half);
}

/** 1 / (1 + e^-x) = e^x / (1 + e^x): the one whose exponential cannot overflow. The quotient is corrected by what the
 *  rounding of 1 + e lost; 1 - e/2 is 1 / (1 + e), near enough. */
static inline float f2c_sigmoid(float x)
{
    const float e = f2c_exp(-f2c_abs(x));
    const float d = 1.0f + e;
    const float lost = e - (d - 1.0f);
    const float y = ((x < 0.0f) ? e : 1.0f) / d;
    return y - ((y * lost) * (1.0f - (0.5f * e)));
}

/** tanh(x): an odd polynomial below 0.625, 1 - 2 / (e^2x + 1) above; the sign is that of x, of -0 too. */
static inline float f2c_tanh(float x)
{
    const float size = f2c_abs(x);
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = (p * z) + 2.06390887954e-2f;
    p = (p * z) - 5.37397155531e-2f;
    p = (p * z) + 1.33314422036e-1f;
    p = (p * z) - 3.33332819422e-1f;
    const float small = ((p * z) * size) + size;
    const float large = 1.0f - (2.0f / (f2c_exp(2.0f * size) + 1.0f));
    union { float f; uint32_t u; } sign, bits;
    sign.f = x;
    bits.f = (size < 0.625f) ? small : large;
    bits.u |= sign.u & 0x80000000u;
    return bits.f;
}

#endif /* F2C_MATH_H */
