/** @file f2c_blend.h  Weighted sums of bytes, two in a word: 16 bits each, without a sign, so that none reaches into the other. */
#ifndef F2C_BLEND_H
#define F2C_BLEND_H

#include <stdint.h>

/** Bytes 0 and 2. */
static inline uint32_t f2c_even_bytes(uint32_t v)
{
    return v & 0x00FF00FFu;
}

/** a * w0 + b * w1 of both; every sum below 2^16. */
static inline uint32_t f2c_blend(uint32_t a, uint32_t b, int32_t w0, int32_t w1)
{
    return (a * (uint32_t)w0) + (b * (uint32_t)w1);
}

/** Both divided by 2^shift, half to even; or, if `odd` has bits 0 and 16, to odd. half: 2^(shift - 1) - 1 in both.
 *  Results are bytes. */
static inline uint32_t f2c_halve_fields(uint32_t v, uint32_t half, int32_t shift, uint32_t odd)
{
    return ((v + (((v >> shift) ^ odd) & 0x00010001u) + half) >> shift) & 0x00FF00FFu;
}

#endif /* F2C_BLEND_H */
