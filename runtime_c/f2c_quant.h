/** @file f2c_quant.h  The integer arithmetic of quantised models; the same as in fuse2c/quant.py.
 *
 * A right shift of a negative number is arithmetic here: implementation-defined in C99, and so in every compiler
 * that this code supports (gcc, clang, armclang, IAR).
 */
#ifndef F2C_QUANT_H
#define F2C_QUANT_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_config_arm.h"

/** All bits if v is negative, else none. */
static inline int32_t f2c_negative(int32_t v)
{
    return -(int32_t)((uint32_t)v >> 31);
}

/** The smaller of two numbers without a branch on any core: their difference has a sign where they have the same. */
static inline int32_t f2c_min_masked(int32_t a, int32_t b)
{
    const int32_t differ = a ^ b, apart = (int32_t)((uint32_t)a - (uint32_t)b);
    return b ^ (differ & f2c_negative((a & differ) | (apart & ~differ)));
}

/** The greater of two numbers. */
static inline int32_t f2c_max_s32(int32_t a, int32_t b)
{
    return F2C_MAX(a, b);
}

/** The greater of two numbers of at most 16 bits. */
static inline int32_t f2c_max_s16(int32_t a, int32_t b)
{
    return F2C_MAX_NARROW(a, b);
}

/** v limited to low..high. */
static inline int32_t f2c_clamp_s32(int32_t v, int32_t low, int32_t high)
{
    const int32_t least = F2C_MAX(v, low);
    return F2C_MIN(least, high);
}

/** f2c_clamp_s32 without a branch on any core, for |v| < 2^30 and |low|, |high| < 2^30. */
static inline int32_t f2c_clamp_masked(int32_t v, int32_t low, int32_t high)
{
    const int32_t above = (v - low) & ~f2c_negative(v - low);
    const int32_t below = (above + low) - high;
    return (below & f2c_negative(below)) + high;
}

/** (a * b) >> 32 for b >= 0, from products of 16 bits, for cores without a product of 64 bits. */
static inline int32_t f2c_high_product(int32_t a, int32_t b)
{
    const int32_t a_low = a & 0xFFFF, b_low = b & 0xFFFF, a_high = a >> 16, b_high = b >> 16;
    const int32_t upper = (a_high * b_low) + (int32_t)(((uint32_t)a_low * (uint32_t)b_low) >> 16);
    const int32_t lower = (a_low * b_high) + (upper & 0xFFFF);
    return (a_high * b_high) + (upper >> 16) + (lower >> 16);
}

/** a * b from products of 16 bits, for cores without a product of 64 bits. */
static inline uint64_t f2c_long_product(uint32_t a, uint32_t b)
{
    const uint32_t a_low = a & 0xFFFFu, b_low = b & 0xFFFFu, a_high = a >> 16, b_high = b >> 16;
    const uint32_t lowest = a_low * b_low;
    const uint32_t upper = (a_high * b_low) + (lowest >> 16);
    const uint32_t lower = (a_low * b_high) + (upper & 0xFFFFu);
    const uint32_t high = (a_high * b_high) + (upper >> 16) + (lower >> 16);
    return ((uint64_t)high << 32) | ((lower << 16) | (lowest & 0xFFFFu));
}

/** a * b for |a| <= 2^31 and b >= 0, from such products. */
static inline int64_t f2c_signed_product(int64_t a, int32_t b)
{
    const int32_t sign = f2c_negative((int32_t)(a >> 32));
    return ((int64_t)f2c_long_product((uint32_t)((a ^ sign) - sign), (uint32_t)b) ^ sign) - sign;
}

/** ((acc * mult) >> (32 + shift)) rounded half up, plus a zero point.
 *  offset = (zero << shift) + (1 << (shift - 1)); shift 1..22; mult 0..2^31-1. */
static inline int32_t f2c_requant(int32_t acc, int32_t mult, int32_t offset, int32_t shift)
{
    int32_t high;
    F2C_DSP3(high, "smmla", acc, mult, offset, F2C_HIGH_PRODUCT(acc, mult) + offset);
    return high >> shift;
}

/** v >> shift, limited to the range of int8; shift 1..31. */
static inline int32_t f2c_narrow_s8(int32_t v, int32_t shift)
{
    int32_t y;
    F2C_SATURATE(y, "ssat", -128, 127, v, shift);
    return y;
}

/** v >> shift, limited to the range of uint8; shift 1..31. */
static inline int32_t f2c_narrow_u8(int32_t v, int32_t shift)
{
    int32_t y;
    F2C_SATURATE(y, "usat", 0, 255, v, shift);
    return y;
}

/** f2c_requant, limited to the range of int8. */
static inline int32_t f2c_requant_s8(int32_t acc, int32_t mult, int32_t offset, int32_t shift)
{
    return f2c_narrow_s8(f2c_requant(acc, mult, offset, 0), shift);
}

/** f2c_requant, limited to the range of uint8. */
static inline int32_t f2c_requant_u8(int32_t acc, int32_t mult, int32_t offset, int32_t shift)
{
    return f2c_narrow_u8(f2c_requant(acc, mult, offset, 0), shift);
}

/** What v / 2^shift rounded half to even, plus a zero point, is the whole part of, times 2^shift.
 *  offset = (zero << shift) + (1 << (shift - 1)) - 1. */
static inline int32_t f2c_half_to_even(int32_t v, int32_t offset, int32_t shift)
{
    return v + ((v >> shift) & 1) + offset;
}

/** v / 2^shift rounded half to even, plus a zero point; see f2c_half_to_even. */
static inline int32_t f2c_halve(int32_t v, int32_t offset, int32_t shift)
{
    return f2c_half_to_even(v, offset, shift) >> shift;
}

/** f2c_halve, limited to the range of int8. */
static inline int32_t f2c_halve_s8(int32_t v, int32_t offset, int32_t shift)
{
    return f2c_narrow_s8(f2c_half_to_even(v, offset, shift), shift);
}

/** f2c_halve, limited to the range of uint8. */
static inline int32_t f2c_halve_u8(int32_t v, int32_t offset, int32_t shift)
{
    return f2c_narrow_u8(f2c_half_to_even(v, offset, shift), shift);
}

/** v limited to the range of int32, by masks: compilers compare 64-bit numbers by branches. */
static inline int32_t f2c_saturate(int64_t v)
{
    const int32_t low = (int32_t)v, high = (int32_t)(v >> 32);
    const uint32_t rest = (uint32_t)(high ^ f2c_negative(low));
    const uint32_t lost = (uint32_t)f2c_negative((int32_t)(rest | (0u - rest)));
    return (int32_t)(((uint32_t)low & ~lost) | ((uint32_t)(f2c_negative(high) ^ INT32_MAX) & lost));
}

/** f2c_requant for shifts of 1..54 in all, limited to low..high (for scales of a quarter and more). */
static inline int32_t f2c_requant_wide(int32_t acc, int32_t mult, int32_t shift, int32_t zero, int32_t low,
                                       int32_t high)
{
    const int64_t half = (int64_t)1 << (shift - 1);
    return f2c_clamp_s32(f2c_saturate(((F2C_SIGNED_PRODUCT(acc, mult) + half) >> shift) + zero), low, high);
}

/** Nearest integer, half to even, of |v| < 2^22: adding 1.5 * 2^23 leaves it in the lowest bits. */
static inline int32_t f2c_rint(float v)
{
    union { float f; int32_t i; } bits;
    bits.f = v + 12582912.0f;
    return bits.i - 0x4B400000;
}

/** What rounding v half to even adds to it before the bits `lost` (the lowest ones, or none) are cleared. */
static inline uint32_t f2c_half_even(uint32_t v, uint32_t lost)
{
    const uint32_t last = v & (lost + 1u);
    return (lost >> 1) + (((last | (0u - last)) >> 31) & lost);
}

/** f2c_round_clamped in integers, by one path. */
static inline int32_t f2c_round_soft(float v, int32_t low, int32_t high)
{
    union { float f; uint32_t u; } bits;
    bits.f = v;
    const uint32_t size = (bits.u & 0x007FFFFFu) | 0x00800000u;
    const int32_t count = f2c_clamp_masked(150 - (int32_t)((bits.u >> 23) & 255u), 0, 25);
    const uint32_t lost = (1u << count) - 1u;
    const int32_t whole = (int32_t)((size + f2c_half_even(size, lost)) >> count);
    const int32_t sign = f2c_negative((int32_t)bits.u);
    const int32_t nan = f2c_negative(0x7F800000 - (int32_t)(bits.u & 0x7FFFFFFFu));
    return f2c_clamp_masked((((whole ^ sign) - sign) & ~nan) | (nan & -0x01000000), low, high);
}

/** v limited to low..high and rounded half to even; NaN gives low. |low|, |high| < 2^22. */
static inline int32_t f2c_round_clamped(float v, int32_t low, int32_t high)
{
    float least = (float)low, most = (float)high;
    F2C_SETTLE(least);      /* in registers: gcc was seen to skip the load of a limit by a branch */
    F2C_SETTLE(most);
    least = (v > least) ? v : least;
    F2C_SETTLE(least);
    least = (least < most) ? least : most;
    F2C_SETTLE(least);
    return F2C_SOFT(1, f2c_round_soft(v, low, high), f2c_rint(least));
}

/** acc * scale rounded half to even and limited to low..high; the caller adds the zero point. */
static inline int32_t f2c_requant_float(int32_t acc, float scale, int32_t low, int32_t high)
{
    return f2c_round_clamped((float)acc * scale, low, high);
}

/** a * scale_a + b * scale_b rounded half to even and limited to low..high; the caller adds the zero point. */
static inline int32_t f2c_add_float(int32_t a, int32_t b, float scale_a, float scale_b, int32_t low, int32_t high)
{
    const float x = (float)a * scale_a;
    const float y = (float)b * scale_b;
    return f2c_round_clamped(x + y, low, high);
}

/** The power for the sixteens of d < 256 by that for the rest of it, both in Q31; rounded, `shift` > 32 bits less. */
static inline uint32_t f2c_exp_product(const uint32_t *factors, int32_t d, int32_t shift)
{
    const uint64_t product = F2C_LONG_PRODUCT(factors[(uint32_t)d >> 4], factors[16u + ((uint32_t)d & 15u)]);
    return (uint32_t)((product + ((uint64_t)1 << (shift - 1))) >> shift);
}

/** How many bits v has, v < 2^31: by halves, since not all cores count zeros. */
static inline int32_t f2c_bit_length(uint32_t v)
{
    const uint32_t a = ((0xFFFFu - v) >> 31) << 4;
    const uint32_t b = ((0xFFu - (v >> a)) >> 31) << 3;
    const uint32_t c = ((0xFu - (v >> (a + b))) >> 31) << 2;
    const uint32_t d = ((3u - (v >> (a + b + c))) >> 31) << 1;
    const uint32_t e = (1u - (v >> (a + b + c + d))) >> 31;
    return (int32_t)(a + b + c + d + e + (v >> (a + b + c + d + e)));
}

/** numerator / sum, rounded down, for numerator < 2^54 and a quotient below 2^31: always 31 steps, no branch. */
static inline uint32_t f2c_reciprocal_by_bits(uint64_t numerator, uint32_t sum)
{
    int64_t rest = (int64_t)numerator, part = (int64_t)((uint64_t)sum << 30);
    uint32_t quotient = 0u;
    for (int32_t bit = 0; bit < 31; ++bit) {
        rest -= part;
        const int32_t less = f2c_negative((int32_t)(rest >> 32));
        rest += part & less;        /* given back if it was too much */
        quotient = (quotient << 1) + 1u + (uint32_t)less;
        part >>= 1;
    }
    return quotient;
}

/** The same for sum < 2^31 by quotients of 32 bits. Each is of a divisor that is rounded up, so that none is too large: the
 *  first leaves less than 2^18 times the divisor, the second less than 2^7, the third less than 2. */
static inline uint32_t f2c_reciprocal_by_parts(uint64_t numerator, uint32_t sum)
{
    const int32_t up = 31 - f2c_bit_length(sum);
    const uint32_t divisor = sum << up;
    const uint64_t whole = numerator << up;
    const uint32_t first = ((uint32_t)(whole >> 32) / ((divisor >> 16) + 1u)) << 16;
    const uint64_t rest = whole - ((uint64_t)first * divisor);
    const uint32_t second = (uint32_t)(rest >> 18) / ((divisor >> 18) + 1u);
    const uint64_t little = rest - ((uint64_t)second * divisor);
    const uint32_t third = (uint32_t)(little >> 8) / ((divisor >> 8) + 1u);
    const uint32_t last = (uint32_t)little - (third * divisor);
    return first + second + third + ((divisor - 1u - last) >> 31);
}

/** The same by the quicker of both. */
static inline uint32_t f2c_reciprocal(uint64_t numerator, uint32_t sum)
{
    return F2C_RECIPROCAL(numerator, sum);
}

#endif /* F2C_QUANT_H */
