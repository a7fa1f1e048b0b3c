/** @file f2c_units.h  The sums of f2c_dots.h over some of a pixel's elements only: those whose weights are not all zero.
 *
 * A unit is four neighbouring elements that begin at a multiple of four; the elements of a pixel are words in memory. A stream of
 * bytes has for each four outputs the number of steps, one at least, and of each step where four units begin, divided by four,
 * and 16 weights of each output.
 */
#ifndef F2C_UNITS_H
#define F2C_UNITS_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_dots.h"

/** A step of two pixels, and of one. */
#define F2C_UNITS_2X4(sum) \
    "vldrb.u32 q2, [%[w]], #4\n\tvldrw.u32 q0, [%[a], q2, uxtw #2]\n\tvldrw.u32 q1, [%[b], q2, uxtw #2]\n\t" F2C_QUAD_2X4(sum)
#define F2C_UNITS_1X4(sum) "vldrb.u32 q2, [%[w]], #4\n\tvldrw.u32 q0, [%[a], q2, uxtw #2]\n\t" F2C_QUAD_1X4(sum)

/** n steps. */
#define F2C_UNITS_LOOP(step) \
    step("") "subs %[n], %[n], #1\n\tbeq 2f\n1:\n\t" step("a") "subs %[n], %[n], #1\n\tbne 1b\n2:"
#define F2C_UNITS_BLOCK \
    { F2C_REGS __asm__(F2C_UNITS_LOOP(F2C_UNITS_2X4) \
            : F2C_SUMS, F2C_MORE_SUMS, [w] "+r"(w), [n] "+r"(n) : [a] "r"(a), [b] "r"(b) : "q0", "q1", "q2", "q3", "cc", "memory"); \
    s[0] = s0; s[1] = s1; s[2] = s2; s[3] = s3; s[4] = s4; s[5] = s5; s[6] = s6; s[7] = s7; }
#define F2C_UNITS_BLOCK_OF_4 \
    { register int32_t s0 __asm__("r0"), s1 __asm__("r2"), s2 __asm__("r4"), s3 __asm__("r6"); \
    __asm__(F2C_UNITS_LOOP(F2C_UNITS_1X4) \
            : F2C_SUMS, [w] "+r"(w), [n] "+r"(n) : [a] "r"(a) : "q0", "q2", "q3", "cc", "memory"); \
    s[0] = s0; s[1] = s1; s[2] = s2; s[3] = s3; }

/** s[o] += the products of the step at w with output o of the four. */
static inline void f2c_units_helium(const int8_t *x, const int8_t *w, int32_t *s)
{
    for (int32_t o = 0; o < 4; ++o) {
        F2C_LANES(16) s[o] += x[(4 * (uint8_t)w[i / 4]) + (i % 4)] * w[4 + (16 * o) + i];
    }
}

/** s[0..3] = the products of pixel a with four outputs, s[4..7] those of pixel b. The stream is at *next, which moves on. */
static F2C_INLINE void f2c_units_2x4(const int8_t *a, const int8_t *b, const int8_t **next, int32_t *s)
{
    const int8_t *w = &(*next)[1];
    int32_t n = **next;
    F2C_MVE(
        F2C_UNITS_BLOCK,
        F2C_LANES(8) s[i] = 0;
        for (; n > 0; --n) {
            f2c_units_helium(a, w, s);
            f2c_units_helium(b, w, &s[4]);
            w += 68;
        })
    *next = w;
}

/** s[0..3] = the products of pixel a with four outputs. */
static F2C_INLINE void f2c_units_1x4(const int8_t *a, const int8_t **next, int32_t *s)
{
    const int8_t *w = &(*next)[1];
    int32_t n = **next;
    F2C_MVE(
        F2C_UNITS_BLOCK_OF_4,
        F2C_LANES(4) s[i] = 0;
        for (; n > 0; --n) {
            f2c_units_helium(a, w, s);
            w += 68;
        })
    *next = w;
}

#endif /* F2C_UNITS_H */
