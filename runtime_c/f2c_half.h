/** @file f2c_half.h  IEEE half precision (f16) and bfloat16 (bf16) as their 16 bits, for all values; no library.
 *
 * Widening is exact. Narrowing rounds once, half to even, subnormals included: f2c_to_f16 0.5 ULP, f2c_to_bf16 0.5 ULP,
 * f2c_round_f16 0.5 ULP, f2c_round_bf16 0.5 ULP. Too great gives infinity; NaN gives a quiet NaN with its sign.
 */
#ifndef F2C_HALF_H
#define F2C_HALF_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_pair.h"

/** The value of a half: 5 bits of exponent, 10 of fraction. */
static inline float f2c_from_f16(uint16_t half)
{
    const uint32_t size = (uint32_t)half & 0x7FFFu;
    const uint32_t sign = ((uint32_t)half & 0x8000u) << 16;
    const uint32_t normal = (size << 13) + ((size >= 0x7C00u) ? 0x70000000u : 0x38000000u);
    const uint32_t subnormal = f2c_bits((float)size * 5.96046448e-8f);
    const uint32_t quiet = (size > 0x7C00u) ? 0x00400000u : 0u;
    return f2c_of_bits(((size < 0x0400u) ? subnormal : (normal | quiet)) | sign);
}

/** The nearest half. A sum with 0.5 leaves a result below 2^-14 in its lowest bits, in units of 2^-24. */
static inline uint16_t f2c_to_f16(float v)
{
    const uint32_t u = f2c_bits(v);
    const uint32_t size = u & 0x7FFFFFFFu;
    const uint32_t normal = (size - 0x38000000u + 0x0FFFu + ((size >> 13) & 1u)) >> 13;
    const uint32_t subnormal = f2c_bits(f2c_of_bits(size) + 0.5f) - 0x3F000000u;
    const uint32_t finite = (size < 0x38800000u) ? subnormal : normal;
    const uint32_t edge = (size > 0x7F800000u) ? 0x7E00u : 0x7C00u;
    return (uint16_t)(((size < 0x477FF000u) ? finite : edge) | ((u >> 16) & 0x8000u));
}

/** The value of a bfloat16: the upper half of a float32. */
static inline float f2c_from_bf16(uint16_t bits)
{
    return f2c_of_bits((uint32_t)bits << 16);
}

/** The nearest bfloat16. */
static inline uint16_t f2c_to_bf16(float v)
{
    const uint32_t u = f2c_bits(v);
    const uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    const uint32_t nan = (u >> 16) | 0x0040u;
    return (uint16_t)(((u & 0x7FFFFFFFu) > 0x7F800000u) ? nan : rounded);
}

/** v rounded to a half. */
static inline float f2c_round_f16(float v)
{
    return f2c_from_f16(f2c_to_f16(v));
}

/** v rounded to a bfloat16. */
static inline float f2c_round_bf16(float v)
{
    return f2c_from_bf16(f2c_to_bf16(v));
}

#endif /* F2C_HALF_H */
