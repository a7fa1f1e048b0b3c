/** @file f2c_erf.h  The error function and GELU, float32, for all inputs; no library.
 *
 * Worst errors |result - exact| in units in the last place of the exact result, subnormal results included, by
 * scripts/sweep_math.py.
 * Over all 2^32 inputs: f2c_erf 1.11 ULP. Over all inputs of 2^-14..2^8 in size and one in 64 of the others:
 * f2c_gelu 1.78 ULP, f2c_gelu_tanh 0.81 ULP.
 * NaN stays. GELU of -infinity is NaN, as the product -infinity * 0 in its definition.
 */
#ifndef F2C_ERF_H
#define F2C_ERF_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_math.h"
#include "f2c_pair.h"

/** erf(v): v + v times a polynomial in v^2 below 0.93, 1 - e^-(v + v times a polynomial in v) up to 4, above 1. */
static inline float f2c_erf(float v)
{
    const float size = f2c_abs(v);
    const float x = f2c_min(size, 4.0f);
    const float z = x * x;
    float p = 7.996649947e-5f;
    p = (p * z) - 8.049769676e-4f;
    p = (p * z) + 5.192405079e-3f;
    p = (p * z) - 2.685573138e-2f;
    p = (p * z) + 1.128362566e-1f;
    p = (p * z) - 3.761262894e-1f;
    p = (p * z) + 1.283791661e-1f;
    const float inner = (p * x) + x;
    float q = 1.042969507e-5f;
    q = (q * x) - 3.148308315e-4f;
    q = (q * x) + 3.610258689e-3f;
    q = (q * x) - 2.369444445e-2f;
    q = (q * x) + 1.061589643e-1f;
    q = (q * x) + 6.351980567e-1f;
    q = (q * x) + 1.286370754e-1f;
    const f2c_float_pair exponent = f2c_add_pair(-x, -(q * x));
    const float outer = 1.0f - f2c_exp_mul(exponent.hi, exponent.lo, 1.0f);
    return f2c_copysign((size < 0.93f) ? inner : outer, v);
}

/** GELU, v * (1 + erf(v / sqrt 2)) / 2 = v * P(v) with the normal distribution P, to all bits also where P is small:
 *  t * P(-t) = e^(-t^2 / 2) * w * minimax polynomial in 2 w - 1, with w = t / (t + 3.5). Between -0.5 and 0.5
 *  v * (1 / 2 + v * minimax polynomial in v^2). */
static inline float f2c_gelu(float v)
{
    const float size = f2c_abs(v);
    const float t = f2c_min(size, 14.6f);
    const f2c_float_pair den = f2c_add_pair(t, 3.5f);
    const float w = t / den.hi;
    const float low = f2c_div_rest(t, -(w * den.lo), den.hi, w);
    const float u = (w - 0.5f) + ((w - 0.5f) + (2.0f * low));
    float g = 1.100587324e-4f;
    g = (g * u) + 4.220757110e-4f;
    g = (g * u) - 4.931095173e-4f;
    g = (g * u) - 3.175165504e-3f;
    g = (g * u) + 6.491803564e-3f;
    g = (g * u) + 1.740624197e-2f;
    g = (g * u) - 1.160527021e-1f;
    g = (g * u) + 3.154250681e-1f;
    g = (g * u) - 5.655617714e-1f;
    const f2c_float_pair factor = f2c_add_pair(7.444160581e-1f, (g * u) + 1.597111610e-8f);
    const f2c_float_pair part = f2c_mul_pair(w, factor.hi);
    const f2c_float_pair square = f2c_mul_pair(t, t);
    const f2c_power e = f2c_exp_parts(-0.5f * square.hi, -0.5f * square.lo);
    const f2c_float_pair product = f2c_mul_pair(part.hi, e.hi);
    const float rest = part.lo + ((w * factor.lo) + (low * factor.hi));
    const float tail = f2c_scale(product.hi + (product.lo + ((part.hi * e.lo) + (rest * e.hi))), e.n);
    float p = -1.121377340e-3f;
    p = (p * square.hi) + 9.960688651e-3f;
    p = (p * square.hi) - 6.648944318e-2f;
    p = (p * square.hi) + 3.989422619e-1f;
    const float inner = size * (0.5f + (p * v));
    const float outer = (v < 0.0f) ? tail : (size - tail);
    const float result = (size < 0.5f) ? inner : outer;
    return (v == -F2C_INFINITY) ? F2C_NAN : ((size < F2C_INFINITY) ? f2c_copysign(result, v) : v);
}

/** GELU, tanh form: v * (1 + tanh(w)) / 2 = v / (1 + e^-2w) with 2 w = 2 sqrt(2 / pi) (v + 0.044715 v^3). */
static inline float f2c_gelu_tanh(float v)
{
    const float size = f2c_abs(v);
    const float t = f2c_min(size, 11.0f);
    const f2c_float_pair square = f2c_mul_pair(t, t);
    const f2c_float_pair cubic = f2c_mul_pair(square.hi, 7.13548139e-2f);
    const f2c_float_pair factor = f2c_add_pair(1.59576917f, cubic.hi);
    const float constants = (square.hi * 2.39883240e-9f) - 4.53406803e-8f;
    const float low = factor.lo + (cubic.lo + ((square.lo * 7.13548139e-2f) + constants));
    const f2c_float_pair twice = f2c_mul_pair(t, factor.hi);
    const f2c_power e = f2c_exp_parts(-twice.hi, -(twice.lo + (t * low)));
    const f2c_float_pair den = f2c_add_pair(1.0f, f2c_scale(e.hi, e.n));
    const f2c_float_pair left = f2c_mul_pair(t, e.hi);
    const uint32_t negative = (v < 0.0f) ? 1u : 0u;
    const float num = (negative != 0u) ? left.hi : t;
    const float num_low = (negative != 0u) ? (left.lo + (t * e.lo)) : 0.0f;
    const float part = num / den.hi;
    const float rest = f2c_div_rest(num, num_low - (part * (den.lo + f2c_scale(e.lo, e.n))), den.hi, part);
    const float middle = f2c_scale(part + rest, (negative != 0u) ? e.n : 0);
    const float result = ((size < 11.0f) || (negative != 0u)) ? middle : size;
    return (v == -F2C_INFINITY) ? F2C_NAN : ((size < F2C_INFINITY) ? f2c_copysign(result, v) : v);
}

#endif /* F2C_ERF_H */
