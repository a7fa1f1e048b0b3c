/** @file f2c_simd.h  One instruction of Arm's DSP extension a function, each with a portable body of the same meaning.
 *
 * A word holds two halfwords (low, high) or four bytes, the first element lowest: little-endian, as the generator packs.
 * Sums wrap around: a kernel may let them, where what it takes from them fits.
 */
#ifndef F2C_SIMD_H
#define F2C_SIMD_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_config_arm.h"

/** The low halfword. */
static inline int32_t f2c_low(int32_t a)
{
    return (int16_t)a;
}

/** The high halfword. */
static inline int32_t f2c_high(int32_t a)
{
    return (int16_t)((uint32_t)a >> 16);
}

/** a + b + c modulo 2^32. */
static inline int32_t f2c_wrapping_sum(int32_t a, int32_t b, int32_t c)
{
    return (int32_t)((uint32_t)a + (uint32_t)b + (uint32_t)c);
}

/** The sum h that was collected 256-fold on top of another: x = low + 256 h modulo 2^32, |h| < 2^23. */
static inline int32_t f2c_upper_sum(int32_t x, int32_t low)
{
    return (int32_t)((uint32_t)x - (uint32_t)low) >> 8;
}

/** The word at any address. */
static inline int32_t f2c_load4(const void *p)
{
    int32_t y;
    F2C_COPY(&y, p, 4);
    return y;
}

/** Stores a word at any address. */
static inline void f2c_store4(void *p, int32_t a)
{
    F2C_COPY(p, &a, 4);
}

/** Stores a halfword at any address. */
static inline void f2c_store2(void *p, int32_t a)
{
    const int16_t low = (int16_t)a;
    F2C_COPY(p, &low, 2);
}

/** (low of a, low of b). */
static inline int32_t f2c_pair(int32_t a, int32_t b)
{
    int32_t y;
    F2C_DSP2(y, "pkhbt", a, b, ", lsl #16", (int32_t)(((uint32_t)a & 0xFFFFu) | ((uint32_t)b << 16)));
    return y;
}

/** (high of a, high of b). */
static inline int32_t f2c_pair_high(int32_t a, int32_t b)
{
    int32_t y;
    F2C_DSP2(y, "pkhtb", b, a, ", asr #16", (int32_t)(((uint32_t)b & 0xFFFF0000u) | ((uint32_t)a >> 16)));
    return y;
}

/** Bytes 0 and 2 of a, signed, as halfwords. */
static inline int32_t f2c_sxtb16(int32_t a)
{
    int32_t y;
    F2C_DSP1(y, "sxtb16", a, "", f2c_pair((int8_t)a, (int8_t)(a >> 16)));
    return y;
}

/** Bytes 1 and 3 of a, signed, as halfwords. */
static inline int32_t f2c_sxtb16_ror8(int32_t a)
{
    int32_t y;
    F2C_DSP1(y, "sxtb16", a, ", ror #8", f2c_pair((int8_t)(a >> 8), (int8_t)(a >> 24)));
    return y;
}

/** Bytes 0 and 2 of a, unsigned, as halfwords. */
static inline int32_t f2c_uxtb16(int32_t a)
{
    int32_t y;
    F2C_DSP1(y, "uxtb16", a, "", a & 0x00FF00FF);
    return y;
}

/** Bytes 1 and 3 of a, unsigned, as halfwords. */
static inline int32_t f2c_uxtb16_ror8(int32_t a)
{
    int32_t y;
    F2C_DSP1(y, "uxtb16", a, ", ror #8", (a >> 8) & 0x00FF00FF);
    return y;
}

/** a + b, halfword by halfword, each modulo 2^16. */
static inline int32_t f2c_sadd16(int32_t a, int32_t b)
{
    int32_t y;
    F2C_DSP2(y, "sadd16", a, b, "", f2c_pair(f2c_low(a) + f2c_low(b), f2c_high(a) + f2c_high(b)));
    return y;
}

/** a - b, halfword by halfword, each modulo 2^16. */
static inline int32_t f2c_ssub16(int32_t a, int32_t b)
{
    int32_t y;
    F2C_DSP2(y, "ssub16", a, b, "", f2c_pair(f2c_low(a) - f2c_low(b), f2c_high(a) - f2c_high(b)));
    return y;
}

/** (low of a, high of a) + bytes 0 and 2 of b, signed. */
static inline int32_t f2c_sxtab16(int32_t a, int32_t b)
{
    int32_t y;
    F2C_DSP2(y, "sxtab16", a, b, "", f2c_pair(f2c_low(a) + (int8_t)b, f2c_high(a) + (int8_t)(b >> 16)));
    return y;
}

/** (low of a, high of a) + bytes 1 and 3 of b, signed. */
static inline int32_t f2c_sxtab16_ror8(int32_t a, int32_t b)
{
    int32_t y;
    F2C_DSP2(y, "sxtab16", a, b, ", ror #8", f2c_pair(f2c_low(a) + (int8_t)(b >> 8), f2c_high(a) + (int8_t)(b >> 24)));
    return y;
}

/** (low of a, high of a) + bytes 0 and 2 of b, unsigned. */
static inline int32_t f2c_uxtab16(int32_t a, int32_t b)
{
    int32_t y;
    F2C_DSP2(y, "uxtab16", a, b, "", f2c_pair(f2c_low(a) + (uint8_t)b, f2c_high(a) + (uint8_t)(b >> 16)));
    return y;
}

/** (low of a, high of a) + bytes 1 and 3 of b, unsigned. */
static inline int32_t f2c_uxtab16_ror8(int32_t a, int32_t b)
{
    int32_t y;
    F2C_DSP2(y, "uxtab16", a, b, ", ror #8", f2c_pair(f2c_low(a) + (uint8_t)(b >> 8), f2c_high(a) + (uint8_t)(b >> 24)));
    return y;
}

/** The larger of two bytes at a place of their words, signed, where it is. */
static inline int32_t f2c_larger_s8(int32_t a, int32_t b, int32_t place)
{
    const int8_t p = (int8_t)(a >> place), q = (int8_t)(b >> place);
    return (int32_t)((uint32_t)(uint8_t)((p > q) ? p : q) << place);
}

/** The same, unsigned. */
static inline int32_t f2c_larger_u8(int32_t a, int32_t b, int32_t place)
{
    const uint8_t p = (uint8_t)(a >> place), q = (uint8_t)(b >> place);
    return (int32_t)((uint32_t)((p > q) ? p : q) << place);
}

/** The larger bytes, signed. */
static inline int32_t f2c_max_s8(int32_t a, int32_t b)
{
    int32_t y;
    F2C_DSP_MAX(y, "ssub8", a, b, f2c_larger_s8(a, b, 0) | f2c_larger_s8(a, b, 8) | f2c_larger_s8(a, b, 16) | f2c_larger_s8(a, b, 24));
    return y;
}

/** The larger bytes, unsigned. */
static inline int32_t f2c_max_u8(int32_t a, int32_t b)
{
    int32_t y;
    F2C_DSP_MAX(y, "usub8", a, b, f2c_larger_u8(a, b, 0) | f2c_larger_u8(a, b, 8) | f2c_larger_u8(a, b, 16) | f2c_larger_u8(a, b, 24));
    return y;
}

/** sum + low of a * low of b + high of a * high of b. */
static inline int32_t f2c_smlad(int32_t a, int32_t b, int32_t sum)
{
    int32_t y;
    F2C_DSP3(y, "smlad", a, b, sum, f2c_wrapping_sum(sum, f2c_low(a) * f2c_low(b), f2c_high(a) * f2c_high(b)));
    return y;
}

/** sum + low of a * low of b. */
static inline int32_t f2c_smlabb(int32_t a, int32_t b, int32_t sum)
{
    int32_t y;
    F2C_DSP3(y, "smlabb", a, b, sum, f2c_wrapping_sum(sum, f2c_low(a) * f2c_low(b), 0));
    return y;
}

/** sum + low of a * high of b. */
static inline int32_t f2c_smlabt(int32_t a, int32_t b, int32_t sum)
{
    int32_t y;
    F2C_DSP3(y, "smlabt", a, b, sum, f2c_wrapping_sum(sum, f2c_low(a) * f2c_high(b), 0));
    return y;
}

/** sum + high of a * low of b. */
static inline int32_t f2c_smlatb(int32_t a, int32_t b, int32_t sum)
{
    int32_t y;
    F2C_DSP3(y, "smlatb", a, b, sum, f2c_wrapping_sum(sum, f2c_high(a) * f2c_low(b), 0));
    return y;
}

/** sum + high of a * high of b. */
static inline int32_t f2c_smlatt(int32_t a, int32_t b, int32_t sum)
{
    int32_t y;
    F2C_DSP3(y, "smlatt", a, b, sum, f2c_wrapping_sum(sum, f2c_high(a) * f2c_high(b), 0));
    return y;
}

#endif /* F2C_SIMD_H */
