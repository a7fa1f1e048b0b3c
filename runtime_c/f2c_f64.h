/** @file f2c_f64.h  The float64 twins of the float32 functions, over <math.h>: link with -lm.
 *
 * Same meaning, range, units and special values. What C99 has is C99's, as accurate as the library that is linked
 * (glibc: 1 ULP); the others lose a few ULP more, f2c_gelu_f64 and f2c_gelu_tanh_f64 a relative v^2 * 2^-52 on the
 * left. For float64 tensors alone: without a double-precision unit a call takes hundreds of cycles.
 */
#ifndef F2C_F64_H
#define F2C_F64_H

#include <math.h>
#include <stdint.h>

#include "f2c_config.h"
#include "f2c_half.h"
#include "f2c_pair.h"

/** The greater of two numbers; NaN in `a` stays. */
static inline double f2c_max_f64(double a, double b)
{
    return (a < b) ? b : a;
}

/** The lesser of two numbers; NaN in `a` stays. */
static inline double f2c_min_f64(double a, double b)
{
    return (a > b) ? b : a;
}

/** The greater of two numbers; NaN if one of them is NaN. */
static inline double f2c_max_nan_f64(double a, double b)
{
    return ((a < b) || (b != b)) ? b : a;
}

/** The lesser of two numbers; NaN if one of them is NaN. */
static inline double f2c_min_nan_f64(double a, double b)
{
    return ((a > b) || (b != b)) ? b : a;
}

/** v limited to low..high; NaN stays. */
static inline double f2c_clamp_f64(double v, double low, double high)
{
    return f2c_min_f64(f2c_max_f64(v, low), high);
}

/** max(v, 0); NaN stays. */
static inline double f2c_relu_f64(double v)
{
    return (v < 0.0) ? 0.0 : v;
}

/** 1, -1 or 0; NaN stays, -0 gives 0. */
static inline double f2c_sign_f64(double v)
{
    const double sign = (double)((int32_t)(v > 0.0) - (int32_t)(v < 0.0));
    return (v == v) ? sign : v;
}

/** |v|. */
static inline double f2c_abs_f64(double v)
{
    return fabs(v);
}

/** The greatest integer <= v. */
static inline double f2c_floor_f64(double v)
{
    return floor(v);
}

/** The least integer >= v. */
static inline double f2c_ceil_f64(double v)
{
    return ceil(v);
}

/** v without its fraction, towards zero. */
static inline double f2c_trunc_f64(double v)
{
    return trunc(v);
}

/** The nearest integer, half to even. */
static inline double f2c_round_even_f64(double v)
{
    return nearbyint(v);
}

/** The square root; negative gives NaN. */
static inline double f2c_sqrt_f64(double v)
{
    return sqrt(v);
}

/** e^v. */
static inline double f2c_exp_f64(double v)
{
    return exp(v);
}

/** e^v - 1. */
static inline double f2c_expm1_f64(double v)
{
    return expm1(v);
}

/** log(v), natural. */
static inline double f2c_log_f64(double v)
{
    return log(v);
}

/** log(1 + v). */
static inline double f2c_log1p_f64(double v)
{
    return log1p(v);
}

/** sinh(v). */
static inline double f2c_sinh_f64(double v)
{
    return sinh(v);
}

/** cosh(v). */
static inline double f2c_cosh_f64(double v)
{
    return cosh(v);
}

/** tanh(v). */
static inline double f2c_tanh_f64(double v)
{
    return tanh(v);
}

/** asinh(v). */
static inline double f2c_asinh_f64(double v)
{
    return asinh(v);
}

/** acosh(v). */
static inline double f2c_acosh_f64(double v)
{
    return acosh(v);
}

/** atanh(v). */
static inline double f2c_atanh_f64(double v)
{
    return atanh(v);
}

/** sin(v). */
static inline double f2c_sin_f64(double v)
{
    return sin(v);
}

/** cos(v). */
static inline double f2c_cos_f64(double v)
{
    return cos(v);
}

/** tan(v). */
static inline double f2c_tan_f64(double v)
{
    return tan(v);
}

/** asin(v). */
static inline double f2c_asin_f64(double v)
{
    return asin(v);
}

/** acos(v). */
static inline double f2c_acos_f64(double v)
{
    return acos(v);
}

/** atan(v). */
static inline double f2c_atan_f64(double v)
{
    return atan(v);
}

/** The error function. */
static inline double f2c_erf_f64(double v)
{
    return erf(v);
}

/** The angle of the point (x, y), with the sign of y. */
static inline double f2c_atan2_f64(double y, double x)
{
    return atan2(y, x);
}

/** a^b with C99's special cases. */
static inline double f2c_pow_f64(double a, double b)
{
    return pow(a, b);
}

/** a - b * trunc(a / b), exactly, with the sign of a. */
static inline double f2c_fmod_f64(double a, double b)
{
    return fmod(a, b);
}

/** a - b * floor(a / b) with the sign of b (Python's %, numpy's mod). */
static inline double f2c_mod_f64(double a, double b)
{
    const double rest = fmod(a, b);
    const double other = ((rest < 0.0) != (b < 0.0)) ? (rest + b) : rest;
    return (rest == 0.0) ? copysign(0.0, b) : other;
}

/** 1 / (1 + e^-v), without overflow. */
static inline double f2c_sigmoid_f64(double v)
{
    const double q = exp(-fabs(v));
    return ((v < 0.0) ? q : 1.0) / (1.0 + q);
}

/** log(1 + e^v) = max(v, 0) + log(1 + e^-|v|). */
static inline double f2c_softplus_f64(double v)
{
    return f2c_relu_f64(v) + log1p(exp(-fabs(v)));
}

/** v * tanh(softplus(v)), in q = e^-|v|; of -infinity NaN. */
static inline double f2c_mish_f64(double v)
{
    const double q = exp(-fabs(v));
    const double above = (1.0 + (2.0 * q)) / (1.0 + (2.0 * (q + (q * q))));
    const double below = (q * (q + 2.0)) / (2.0 + (q * (q + 2.0)));
    return v * ((v < 0.0) ? below : above);
}

/** GELU, v * (1 + erf(v / sqrt 2)) / 2; of -infinity NaN. */
static inline double f2c_gelu_f64(double v)
{
    return v * (0.5 * erfc(v * -0.70710678118654752440));
}

/** GELU, tanh form: v / (1 + e^-2w), w = sqrt(2 / pi) (v + 0.044715 v^3); of -infinity NaN. */
static inline double f2c_gelu_tanh_f64(double v)
{
    return v * f2c_sigmoid_f64(1.59576912160573071176 * (v + (0.044715 * ((v * v) * v))));
}

/** The value of a half. */
static inline double f2c_from_f16_f64(uint16_t half)
{
    return (double)f2c_from_f16(half);
}

/** The value of a bfloat16. */
static inline double f2c_from_bf16_f64(uint16_t bits)
{
    return (double)f2c_from_bf16(bits);
}

/** v as a float32 rounded to odd: a further rounding to fewer bits then gives what one rounding of v would. */
static inline float f2c_odd_f32(double v)
{
    const float rounded = (float)v;
    const uint32_t beyond = (fabs((double)rounded) > fabs(v)) ? 1u : 0u;
    const float odd = f2c_of_bits((f2c_bits(rounded) - beyond) | 1u);
    return (((double)rounded == v) || (v != v)) ? rounded : odd;
}

/** The nearest half, rounded once. */
static inline uint16_t f2c_to_f16_f64(double v)
{
    return f2c_to_f16(f2c_odd_f32(v));
}

/** The nearest bfloat16, rounded once. */
static inline uint16_t f2c_to_bf16_f64(double v)
{
    return f2c_to_bf16(f2c_odd_f32(v));
}

/** v rounded to a half. */
static inline double f2c_round_f16_f64(double v)
{
    return f2c_from_f16_f64(f2c_to_f16_f64(v));
}

/** v rounded to a bfloat16. */
static inline double f2c_round_bf16_f64(double v)
{
    return f2c_from_bf16_f64(f2c_to_bf16_f64(v));
}

#endif /* F2C_F64_H */
