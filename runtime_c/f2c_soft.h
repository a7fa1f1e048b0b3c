/** @file f2c_soft.h  Floats at the edges of integer models: to stored values, from them, and their means.
 *
 * The same float32 results on all cores. Where there is no FPU they come from integers, by one path (no branch depends on data);
 * a compiler's float routines have many.
 */
#ifndef F2C_SOFT_H
#define F2C_SOFT_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_pair.h"
#include "f2c_quant.h"

/** Whether the functions below may divide by v, or multiply by it: no quotient or product that counts is subnormal or infinite. */
#define F2C_MODERATE(v) (((v) > 1e-30f) && ((v) < 1e30f))

/** The bits that a float is counted in: |v| as f2c_mantissa(v) * 2^f2c_unit(v), for numbers that are not subnormal. */
static inline uint32_t f2c_mantissa(float v)
{
    return (f2c_bits(v) & 0x007FFFFFu) | 0x00800000u;
}

/** See f2c_mantissa. */
static inline int32_t f2c_unit(float v)
{
    return (int32_t)((f2c_bits(v) >> 23) & 255u) - 150;
}

/** v rounded to 24 significant bits, half to even, as a float would hold it; |v| < 2^55. */
static inline int64_t f2c_round24(int64_t v)
{
    uint32_t lost = (uint32_t)(v >> 24) ^ (uint32_t)f2c_negative((int32_t)(v >> 32));
    lost |= lost >> 1;
    lost |= lost >> 2;
    lost |= lost >> 4;
    lost |= lost >> 8;
    lost |= lost >> 16;
    return (v + f2c_half_even((uint32_t)v, lost)) & ~(int64_t)lost;
}

/** q * m rounded to 24 significant bits, half to even: |q| < 256, m < 2^24. */
static inline int64_t f2c_term(int32_t q, uint32_t m)
{
    const int32_t sign = f2c_negative(q);
    const uint32_t size = (uint32_t)((q ^ sign) - sign) * m;
    uint32_t lost = size >> 24;
    lost |= lost >> 1;
    lost |= lost >> 2;
    lost |= lost >> 4;
    return ((int64_t)((size + f2c_half_even(size, lost)) & ~lost) ^ sign) - sign;
}

/** v * 2^unit for v of 24 significant bits; |v| < 2^55, and the result is neither subnormal nor infinite. */
static inline float f2c_real(int64_t v, int32_t unit)
{
    const int32_t sign = f2c_negative((int32_t)(v >> 32));
    const uint64_t size = (uint64_t)((v ^ sign) - sign);
    const int32_t down = f2c_bit_length((uint32_t)(size >> 24));
    const uint32_t whole = ((uint32_t)size >> down) | (((uint32_t)(size >> 32) << 1) << (31 - down));
    const int32_t up = 24 - f2c_bit_length(whole);
    const uint32_t exponent = (uint32_t)(unit + down - up + 149) & (uint32_t)f2c_negative(-(int32_t)whole);
    return f2c_of_bits(((whole << up) + (exponent << 23)) | ((uint32_t)sign & 0x80000000u));
}

/** What f2c_over multiplies by in place of dividing by d: a constant if d is one. */
static F2C_INLINE int32_t f2c_inverse(float d)
{
    const uint64_t most = ((uint64_t)1 << 54) - 1u;
    return (int32_t)(F2C_KNOWN(d) ? (uint32_t)(most / f2c_mantissa(d)) : f2c_reciprocal(most, f2c_mantissa(d)));
}

/** v / d correctly rounded, d moderate; inverse = f2c_inverse(d). A quotient beyond 2^127 or below 2^-126 becomes any of that
 *  size, a subnormal v 0; NaN and infinities stay. */
static inline float f2c_over(float v, float d, int32_t inverse)
{
    const uint32_t u = f2c_bits(v), m = f2c_mantissa(v), by = f2c_mantissa(d);
    const uint32_t below = (m - by) >> 31;      /* the quotient of the mantissas is below 1 */
    const uint32_t guess = (uint32_t)F2C_HIGH_PRODUCT((int32_t)(m << 7), inverse) >> (5u - below);
    const uint32_t over = (m << (24u + below)) - (guess * by);
    const uint32_t more = ((over - by) >> 31) ^ 1u;         /* the guess is one too small */
    const uint32_t quotient = guess + more, rest = over - (by & (0u - more));
    const uint32_t rounded = (quotient + (((0u - rest) >> 31) | ((quotient >> 1) & 1u))) >> 1;
    const int32_t exponent = f2c_clamp_masked(f2c_unit(v) - f2c_unit(d) + 126 - (int32_t)below, 0, 253);
    const uint32_t special = (uint32_t)f2c_negative(104 - f2c_unit(v)), zero = (uint32_t)f2c_negative(f2c_unit(v) + 149);
    const uint32_t size = (rounded + ((uint32_t)exponent << 23)) & ~special & ~zero;
    return f2c_of_bits(size | (u & (special | 0x80000000u)));
}

/** sum * 2^unit / n, where the sum has 24 significant bits: the mean of n terms. */
static F2C_INLINE float f2c_mean(int64_t sum, int32_t unit, int32_t n)
{
    const float count = f2c_real(n, 0);
    return f2c_over(f2c_real(sum, unit), count, f2c_inverse(count));
}

/** DequantizeLinear: n * scale, n less the zero point. */
static F2C_INLINE float f2c_dequantise(int32_t n, float scale)
{
    return F2C_SOFT(F2C_KNOWN(scale) && F2C_MODERATE(scale),
                    f2c_real(f2c_round24(F2C_SIGNED_PRODUCT(f2c_round24(n), (int32_t)f2c_mantissa(scale))), f2c_unit(scale)),
                    (float)n * scale);
}

/** QuantizeLinear: v / scale rounded half to even, plus zero, limited to low..high (8 or 16 bits). */
static F2C_INLINE int32_t f2c_quantise(float v, float scale, int32_t zero, int32_t low, int32_t high)
{
    return f2c_round_clamped(F2C_SOFT(F2C_KNOWN(scale) && F2C_MODERATE(scale), f2c_over(v, scale, f2c_inverse(scale)), v / scale),
                             low - zero, high - zero) + zero;
}

#endif /* F2C_SOFT_H */
