/** @file f2c_int.h  Integer operators with a defined result for every input, and saturating conversions from floats.
 *
 * No undefined behaviour and no trap: a division by zero gives 0; what does not fit wraps modulo 2^32 or 2^64; a shift
 * by the width or more leaves 0, or the sign, where a signed number is shifted to the right. Loops have a constant
 * length. All operands are allowed; the results are exact. Right shifts of negative numbers are arithmetic in every
 * compiler that this code supports (as in f2c_quant.h).
 */
#ifndef F2C_INT_H
#define F2C_INT_H

#include <stdint.h>

#include "f2c_config.h"

/** The int32_t with these bits. */
static inline int32_t f2c_wrap_s32(uint32_t u)
{
    union { uint32_t u; int32_t s; } bits;
    bits.u = u;
    return bits.s;
}

/** The int64_t with these bits. */
static inline int64_t f2c_wrap_s64(uint64_t u)
{
    union { uint64_t u; int64_t s; } bits;
    bits.u = u;
    return bits.s;
}

/** |v|; the least number stays. */
static inline int32_t f2c_abs_s32(int32_t v)
{
    return f2c_wrap_s32((v < 0) ? (0u - (uint32_t)v) : (uint32_t)v);
}

/** a / b towards zero; a / 0 = 0; the least number by -1 wraps to itself. */
static inline int32_t f2c_div_s32(int32_t a, int32_t b)
{
    const int32_t safe = (((uint32_t)b + 1u) <= 1u) ? 1 : b;
    return (b == 0) ? 0 : ((b == -1) ? f2c_wrap_s32(0u - (uint32_t)a) : (a / safe));
}

/** a / b, rounded down; a / 0 = 0. */
static inline uint32_t f2c_div_u32(uint32_t a, uint32_t b)
{
    return (b == 0u) ? 0u : (a / ((b == 0u) ? 1u : b));
}

/** a - b * trunc(a / b), with the sign of a (C's %); 0 for b = 0. */
static inline int32_t f2c_rem_s32(int32_t a, int32_t b)
{
    return a % ((((uint32_t)b + 1u) <= 1u) ? 1 : b);
}

/** a modulo b; 0 for b = 0. */
static inline uint32_t f2c_rem_u32(uint32_t a, uint32_t b)
{
    return a % ((b == 0u) ? 1u : b);
}

/** a - b * floor(a / b), with the sign of b (Python's %); 0 for b = 0. */
static inline int32_t f2c_mod_s32(int32_t a, int32_t b)
{
    const int32_t rest = f2c_rem_s32(a, b);
    return rest + (((rest != 0) & ((rest ^ b) < 0)) ? b : 0);
}

/** a modulo b; 0 for b = 0. */
static inline uint32_t f2c_mod_u32(uint32_t a, uint32_t b)
{
    return f2c_rem_u32(a, b);
}

/** a^b modulo 2^32. */
static inline uint32_t f2c_pow_u32(uint32_t a, uint32_t b)
{
    uint32_t power = a;
    uint32_t result = 1u;
    for (uint32_t i = 0u; i < 32u; ++i) {
        result *= (((b >> i) & 1u) != 0u) ? power : 1u;
        power *= power;
    }
    return result;
}

/** a^b modulo 2^32; for b < 0 it is 1 or -1 for these two bases, 0 for all others. */
static inline int32_t f2c_pow_s32(int32_t a, int32_t b)
{
    const int32_t power = f2c_wrap_s32(f2c_pow_u32((uint32_t)a, (uint32_t)b));
    return ((b >= 0) || (a == 1) || (a == -1)) ? power : 0;
}

/** a << count modulo 2^32; 0 for counts of 32 and more. */
static inline uint32_t f2c_shl_u32(uint32_t a, uint32_t count)
{
    return (count < 32u) ? (a << (count & 31u)) : 0u;
}

/** a << count modulo 2^32; 0 for counts below 0 and of 32 and more. */
static inline int32_t f2c_shl_s32(int32_t a, int32_t count)
{
    return f2c_wrap_s32(f2c_shl_u32((uint32_t)a, (uint32_t)count));
}

/** a >> count; 0 for counts of 32 and more. */
static inline uint32_t f2c_shr_u32(uint32_t a, uint32_t count)
{
    return (count < 32u) ? (a >> (count & 31u)) : 0u;
}

/** a >> count, rounded down; only the sign is left for counts below 0 and of 32 and more: 0 or -1. */
static inline int32_t f2c_shr_s32(int32_t a, int32_t count)
{
    return a >> (((uint32_t)count < 32u) ? (uint32_t)count : 31u);
}

/** |v|; the least number stays. */
static inline int64_t f2c_abs_s64(int64_t v)
{
    return f2c_wrap_s64((v < 0) ? (0u - (uint64_t)v) : (uint64_t)v);
}

/** a / b towards zero; a / 0 = 0; the least number by -1 wraps to itself. */
static inline int64_t f2c_div_s64(int64_t a, int64_t b)
{
    const int64_t safe = (((uint64_t)b + 1u) <= 1u) ? 1 : b;
    return (b == 0) ? 0 : ((b == -1) ? f2c_wrap_s64(0u - (uint64_t)a) : (a / safe));
}

/** a / b, rounded down; a / 0 = 0. */
static inline uint64_t f2c_div_u64(uint64_t a, uint64_t b)
{
    return (b == 0u) ? 0u : (a / ((b == 0u) ? 1u : b));
}

/** a - b * trunc(a / b), with the sign of a (C's %); 0 for b = 0. */
static inline int64_t f2c_rem_s64(int64_t a, int64_t b)
{
    return a % ((((uint64_t)b + 1u) <= 1u) ? 1 : b);
}

/** a modulo b; 0 for b = 0. */
static inline uint64_t f2c_rem_u64(uint64_t a, uint64_t b)
{
    return a % ((b == 0u) ? 1u : b);
}

/** a - b * floor(a / b), with the sign of b (Python's %); 0 for b = 0. */
static inline int64_t f2c_mod_s64(int64_t a, int64_t b)
{
    const int64_t rest = f2c_rem_s64(a, b);
    return rest + (((rest != 0) & ((rest ^ b) < 0)) ? b : 0);
}

/** a modulo b; 0 for b = 0. */
static inline uint64_t f2c_mod_u64(uint64_t a, uint64_t b)
{
    return f2c_rem_u64(a, b);
}

/** a^b modulo 2^64. */
static inline uint64_t f2c_pow_u64(uint64_t a, uint64_t b)
{
    uint64_t power = a;
    uint64_t result = 1u;
    for (uint32_t i = 0u; i < 64u; ++i) {
        result *= (((b >> i) & 1u) != 0u) ? power : 1u;
        power *= power;
    }
    return result;
}

/** a^b modulo 2^64; for b < 0 it is 1 or -1 for these two bases, 0 for all others. */
static inline int64_t f2c_pow_s64(int64_t a, int64_t b)
{
    const int64_t power = f2c_wrap_s64(f2c_pow_u64((uint64_t)a, (uint64_t)b));
    return ((b >= 0) || (a == 1) || (a == -1)) ? power : 0;
}

/** a << count modulo 2^64; 0 for counts of 64 and more. */
static inline uint64_t f2c_shl_u64(uint64_t a, uint64_t count)
{
    return (count < 64u) ? (a << (count & 63u)) : 0u;
}

/** a << count modulo 2^64; 0 for counts below 0 and of 64 and more. */
static inline int64_t f2c_shl_s64(int64_t a, int64_t count)
{
    return f2c_wrap_s64(f2c_shl_u64((uint64_t)a, (uint64_t)count));
}

/** a >> count; 0 for counts of 64 and more. */
static inline uint64_t f2c_shr_u64(uint64_t a, uint64_t count)
{
    return (count < 64u) ? (a >> (count & 63u)) : 0u;
}

/** a >> count, rounded down; only the sign is left for counts below 0 and of 64 and more: 0 or -1. */
static inline int64_t f2c_shr_s64(int64_t a, int64_t count)
{
    return a >> (((uint64_t)count < 64u) ? (uint32_t)count : 63u);
}

/** v towards zero, limited to the type; NaN gives 0. */
static inline int32_t f2c_f32_to_s32(float v)
{
    const float safe = ((v > -2147483648.0f) && (v < 2147483648.0f)) ? v : 0.0f;
    const int32_t edge = (v >= 2147483648.0f) ? INT32_MAX : (int32_t)safe;
    return (v <= -2147483648.0f) ? INT32_MIN : edge;
}

/** v towards zero, limited to the type; NaN and what is below zero give 0. */
static inline uint32_t f2c_f32_to_u32(float v)
{
    const float safe = ((v > 0.0f) && (v < 4294967296.0f)) ? v : 0.0f;
    return (v >= 4294967296.0f) ? UINT32_MAX : (uint32_t)safe;
}

/** v towards zero, limited to the type; NaN gives 0. */
static inline int64_t f2c_f32_to_s64(float v)
{
    const float safe = ((v > -9223372036854775808.0f) && (v < 9223372036854775808.0f)) ? v : 0.0f;
    const int64_t edge = (v >= 9223372036854775808.0f) ? INT64_MAX : (int64_t)safe;
    return (v <= -9223372036854775808.0f) ? INT64_MIN : edge;
}

/** v towards zero, limited to the type; NaN and what is below zero give 0. */
static inline uint64_t f2c_f32_to_u64(float v)
{
    const float safe = ((v > 0.0f) && (v < 18446744073709551616.0f)) ? v : 0.0f;
    return (v >= 18446744073709551616.0f) ? UINT64_MAX : (uint64_t)safe;
}

/** v towards zero, limited to the type; NaN gives 0. */
static inline int32_t f2c_f64_to_s32(double v)
{
    const double safe = ((v > -2147483648.0) && (v < 2147483648.0)) ? v : 0.0;
    const int32_t edge = (v >= 2147483648.0) ? INT32_MAX : (int32_t)safe;
    return (v <= -2147483648.0) ? INT32_MIN : edge;
}

/** v towards zero, limited to the type; NaN and what is below zero give 0. */
static inline uint32_t f2c_f64_to_u32(double v)
{
    const double safe = ((v > 0.0) && (v < 4294967296.0)) ? v : 0.0;
    return (v >= 4294967296.0) ? UINT32_MAX : (uint32_t)safe;
}

/** v towards zero, limited to the type; NaN gives 0. */
static inline int64_t f2c_f64_to_s64(double v)
{
    const double safe = ((v > -9223372036854775808.0) && (v < 9223372036854775808.0)) ? v : 0.0;
    const int64_t edge = (v >= 9223372036854775808.0) ? INT64_MAX : (int64_t)safe;
    return (v <= -9223372036854775808.0) ? INT64_MIN : edge;
}

/** v towards zero, limited to the type; NaN and what is below zero give 0. */
static inline uint64_t f2c_f64_to_u64(double v)
{
    const double safe = ((v > 0.0) && (v < 18446744073709551616.0)) ? v : 0.0;
    return (v >= 18446744073709551616.0) ? UINT64_MAX : (uint64_t)safe;
}

#endif /* F2C_INT_H */
