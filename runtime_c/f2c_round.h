/** @file f2c_round.h  Rounding, remainders and the square root of float32, for all inputs; no library.
 *
 * All are exact or correctly rounded: f2c_floor 0 ULP, f2c_ceil 0 ULP, f2c_trunc 0 ULP, f2c_round_even 0 ULP,
 * f2c_fmod 0 ULP, f2c_mod 0.5 ULP, f2c_sqrt 0.5 ULP, f2c_sqrt_soft 0.5 ULP, f2c_sign 0 ULP. Measured by
 * scripts/sweep_math.py over all inputs of 2^-14..2^8 in size and one in 64 of the others, and over 30 million pairs.
 * NaN gives NaN; -0 as in C99 unless a line below says else.
 */
#ifndef F2C_ROUND_H
#define F2C_ROUND_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_math.h"
#include "f2c_pair.h"

/** v without its fraction, towards zero. */
static inline float f2c_trunc(float v)
{
    const uint32_t u = f2c_bits(v);
    const int32_t exponent = (int32_t)((u >> 23) & 255u) - 127;
    const uint32_t count = (exponent < 0) ? 0u : (uint32_t)exponent;
    const uint32_t fraction = (count > 22u) ? 0u : (0x007FFFFFu >> (count & 31u));
    return f2c_of_bits(u & ~((exponent < 0) ? 0x7FFFFFFFu : fraction));
}

/** The greatest integer <= v. */
static inline float f2c_floor(float v)
{
    const float whole = f2c_trunc(v);
    return whole - ((whole > v) ? 1.0f : 0.0f);
}

/** The least integer >= v. */
static inline float f2c_ceil(float v)
{
    return -f2c_floor(-v);
}

/** The nearest integer, half to even (C's rintf, ONNX's Round). Adding 2^23 leaves no fraction. */
static inline float f2c_round_even(float v)
{
    const float size = f2c_abs(v);
    const float whole = (size + 8388608.0f) - 8388608.0f;
    return (size < 8388608.0f) ? f2c_copysign(whole, v) : v;
}

/** a - b * trunc(a / b), exactly, with the sign of a (C's fmodf). a infinite or b zero gives NaN.
 *  Always 32 steps: 8 bits each of an exponent difference of at most 253. */
static inline float f2c_fmod(float a, float b)
{
    const uint32_t ua = f2c_bits(a) & 0x7FFFFFFFu;
    const uint32_t ub = f2c_bits(b) & 0x7FFFFFFFu;
    const uint32_t ea = (ua < 0x00800000u) ? 1u : (ua >> 23);
    const uint32_t eb = (ub < 0x00800000u) ? 1u : (ub >> 23);
    const uint32_t mb = (ub & 0x007FFFFFu) | ((ub < 0x00800000u) ? 0u : 0x00800000u);
    const uint32_t divisor = (mb == 0u) ? 1u : mb;
    uint32_t rest = (ua & 0x007FFFFFu) | ((ua < 0x00800000u) ? 0u : 0x00800000u);
    uint32_t left = (ea > eb) ? (ea - eb) : 0u;
    rest %= divisor;
    for (int32_t i = 0; i < 32; ++i) {
        const uint32_t step = (left < 8u) ? left : 8u;
        rest = (rest << step) % divisor;
        left -= step;
    }
    const float size = f2c_scale((float)rest, (int32_t)eb - 150);
    const float result = f2c_copysign((ua < ub) ? f2c_abs(a) : size, a);
    const uint32_t valid = (ua < 0x7F800000u) & (ub <= 0x7F800000u) & (ub != 0u);
    return (valid != 0u) ? result : F2C_NAN;
}

/** a - b * floor(a / b) with the sign of b (Python's %, numpy's mod); the one rounding is that of fmod + b. */
static inline float f2c_mod(float a, float b)
{
    const float rest = f2c_fmod(a, b);
    const float other = ((rest < 0.0f) != (b < 0.0f)) ? (rest + b) : rest;
    return (rest == 0.0f) ? f2c_copysign(0.0f, b) : other;
}

/** The square root, correctly rounded, in integers: one bit in each of 25 steps. Negative gives NaN, -0 stays. */
static inline float f2c_sqrt_soft(float v)
{
    const uint32_t small = (v < 1.17549435e-38f) ? 1u : 0u;
    const uint32_t u = f2c_bits((small != 0u) ? (v * 16777216.0f) : v);
    const int32_t exponent = (int32_t)((u >> 23) & 255u) - 127 - ((small != 0u) ? 24 : 0);
    const uint32_t odd = (uint32_t)exponent & 1u;
    uint32_t rest = ((u & 0x007FFFFFu) | 0x00800000u) << (1u + odd);
    uint32_t sum = 0u;
    uint32_t root = 0u;
    uint32_t bit = 0x01000000u;
    for (int32_t i = 0; i < 25; ++i) {
        const uint32_t trial = sum + bit;
        const uint32_t take = (trial <= rest) ? 1u : 0u;
        sum += (bit * 2u) * take;
        rest -= trial * take;
        root += bit * take;
        rest <<= 1;
        bit >>= 1;
    }
    const int32_t half = (exponent - (int32_t)odd) / 2;
    const uint32_t rounded = (root + (root & 1u)) >> 1;
    const float result = f2c_of_bits(rounded + ((uint32_t)(half + 126) << 23));
    const uint32_t same = (uint32_t)(v == 0.0f) | (uint32_t)(v != v) | (uint32_t)(v == F2C_INFINITY);
    return (same != 0u) ? v : ((v < 0.0f) ? F2C_NAN : result);
}

/** The square root, correctly rounded; negative gives NaN, -0 stays. The instruction itself, where there is one. */
static inline float f2c_sqrt(float v)
{
    float result;
    F2C_SQRT(result, v);
    return result;
}

/** 1, -1 or 0; NaN stays, -0 gives 0 (numpy's sign). */
static inline float f2c_sign(float v)
{
    const float sign = (float)((int32_t)(v > 0.0f) - (int32_t)(v < 0.0f));
    return (v == v) ? sign : v;
}

#endif /* F2C_ROUND_H */
