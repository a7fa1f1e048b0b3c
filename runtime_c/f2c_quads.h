/** @file f2c_quads.h  Vectors of 32-bit sums, to which products of bytes are added by fours, on any core with gcc or clang.
 *
 * A lane has four bytes of each operand. Elements are unsigned, weights signed; int8 elements count as 128 more than they
 * are, which the bias takes back. Sums are modulo 2^32.
 */
#ifndef F2C_QUADS_H
#define F2C_QUADS_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_config_wide.h"

#include F2C_WIDE_HEADER

/** F2C_WIDTH words anywhere in memory; the same lanes with a sign, and as pairs of int16. */
typedef uint32_t f2c_ints __attribute__((vector_size(4 * F2C_WIDTH), aligned(4), may_alias));
typedef int32_t f2c_signed __attribute__((vector_size(4 * F2C_WIDTH)));
typedef int16_t f2c_shorts __attribute__((vector_size(4 * F2C_WIDTH)));
typedef uint16_t f2c_unsigned __attribute__((vector_size(4 * F2C_WIDTH)));

/** The words at p. */
static F2C_INLINE f2c_ints f2c_ints_at(const void *p)
{
    f2c_ints y;
    F2C_COPY(&y, p, sizeof y);
    return y;
}

/** The same, held in a register for several uses. */
static F2C_INLINE f2c_ints f2c_ints_held(const void *p)
{
    f2c_ints v = f2c_ints_at(p);
    F2C_HELD(v);
    return v;
}

/** p[0], p[1], ... = v. */
static F2C_INLINE void f2c_ints_store(int32_t *p, f2c_ints v)
{
    F2C_COPY(p, &v, sizeof v);
}

/** Four products more in each lane: unsigned bytes of x, signed bytes of w. */
static F2C_INLINE f2c_ints f2c_ints_dot(f2c_ints sum, f2c_ints x, f2c_ints w)
{
    return F2C_DOT(sum, x, w);
}

/** The same for x[0..3] in all lanes. */
static F2C_INLINE f2c_ints f2c_ints_add_u8(f2c_ints sum, const uint8_t *x, f2c_ints w)
{
    uint32_t four;
    F2C_COPY(&four, x, 4);
    return f2c_ints_dot(sum, four - (f2c_ints){0}, w);
}

/** The same for x[0..3] + 128 in all lanes. */
static F2C_INLINE f2c_ints f2c_ints_add_s8(f2c_ints sum, const int8_t *x, f2c_ints w)
{
    uint32_t four;
    F2C_COPY(&four, x, 4);
    return f2c_ints_dot(sum, (four - (f2c_ints){0}) ^ 0x80808080u, w);
}

/** Four bytes that are neighbours in memory, as a word. */
static F2C_INLINE uint32_t f2c_quad_u8(int32_t a, int32_t b, int32_t c, int32_t d)
{
    return ((uint32_t)a << F2C_BYTE(0)) | ((uint32_t)b << F2C_BYTE(1)) | ((uint32_t)c << F2C_BYTE(2)) | ((uint32_t)d << F2C_BYTE(3));
}

/** The same of int8, 128 added to each. */
static F2C_INLINE uint32_t f2c_quad_s8(int32_t a, int32_t b, int32_t c, int32_t d)
{
    return f2c_quad_u8(a & 255, b & 255, c & 255, d & 255) ^ 0x80808080u;
}

#endif /* F2C_QUADS_H */
