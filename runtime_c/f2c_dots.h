/** @file f2c_dots.h  Sums of products of int8 for Helium: tiles of pixels times outputs, 16 elements deep a step.
 *
 * Weights lie in groups of four outputs: 16 elements of each, step by step. The first step takes elements 0..15 of a
 * pixel, the second one starts at element `ahead`: so a depth of no multiple of 16 needs no rest; what both steps see
 * has its weight in the second one.
 *
 * A tile is one block of assembly, unrolled up to four steps: VMLADAV needs its sums in even registers, and gcc 12
 * would move them about (measured on two pixels by four outputs, 64 deep: 115 instructions instead of 85).
 */
#ifndef F2C_DOTS_H
#define F2C_DOTS_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_mve.h"

/** Products of 16 elements of two pixels (q0, q1) with four outputs; sum is "" to begin, "a" to add. */
#define F2C_QUAD_2X4(sum) \
    "vldrb.8 q2, [%[w]], #16\n\tvmladav" sum ".s8 %[s0], q0, q2\n\tvmladav" sum ".s8 %[s4], q1, q2\n\t" \
    "vldrb.8 q3, [%[w]], #16\n\tvmladav" sum ".s8 %[s1], q0, q3\n\tvmladav" sum ".s8 %[s5], q1, q3\n\t" \
    "vldrb.8 q2, [%[w]], #16\n\tvmladav" sum ".s8 %[s2], q0, q2\n\tvmladav" sum ".s8 %[s6], q1, q2\n\t" \
    "vldrb.8 q3, [%[w]], #16\n\tvmladav" sum ".s8 %[s3], q0, q3\n\tvmladav" sum ".s8 %[s7], q1, q3\n\t"

/** The same of one pixel (q0) with four outputs, sums s at weights w. */
#define F2C_QUAD(sum, w, s0, s1, s2, s3) \
    "vldrb.8 q2, [" w "], #16\n\tvmladav" sum ".s8 " s0 ", q0, q2\n\t" \
    "vldrb.8 q3, [" w "], #16\n\tvmladav" sum ".s8 " s1 ", q0, q3\n\t" \
    "vldrb.8 q2, [" w "], #16\n\tvmladav" sum ".s8 " s2 ", q0, q2\n\t" \
    "vldrb.8 q3, [" w "], #16\n\tvmladav" sum ".s8 " s3 ", q0, q3\n\t"
#define F2C_QUAD_1X4(sum) F2C_QUAD(sum, "%[w]", "%[s0]", "%[s1]", "%[s2]", "%[s3]")
#define F2C_QUAD_1X8(sum) F2C_QUAD_1X4(sum) F2C_QUAD(sum, "%[b]", "%[s4]", "%[s5]", "%[s6]", "%[s7]")

/** The first step, of pixels that are `back` elements further on already; and a further one. */
#define F2C_FIRST_2X4 "vldrb.8 q0, [%[a], %[back]]\n\tvldrb.8 q1, [%[b], %[back]]\n\t" F2C_QUAD_2X4("")
#define F2C_FIRST_1X4 "vldrb.8 q0, [%[a], %[back]]\n\t" F2C_QUAD_1X4("")
#define F2C_FIRST_1X8 "vldrb.8 q0, [%[a], %[back]]\n\t" F2C_QUAD_1X8("")
#define F2C_STEP_2X4 "vldrb.8 q0, [%[a]], #16\n\tvldrb.8 q1, [%[b]], #16\n\t" F2C_QUAD_2X4("a")
#define F2C_STEP_1X4 "vldrb.8 q0, [%[a]], #16\n\t" F2C_QUAD_1X4("a")
#define F2C_STEP_1X8 "vldrb.8 q0, [%[a]], #16\n\t" F2C_QUAD_1X8("a")

/** A block of text with its operands, for each shape; `counter`: F2C_COUNTER, if it has a loop. */
#define F2C_COUNTER , [n] "+r"(n)
#define F2C_SUMS [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3)
#define F2C_MORE_SUMS [s4] "=&r"(s4), [s5] "=&r"(s5), [s6] "=&r"(s6), [s7] "=&r"(s7)
#define F2C_REGS \
    register int32_t s0 __asm__("r0"), s1 __asm__("r2"), s2 __asm__("r4"), s3 __asm__("r6"); \
    register int32_t s4 __asm__("r8"), s5 __asm__("r10"), s6 __asm__("r12"), s7 __asm__("r14");
#define F2C_BLOCK(text, counter) \
    { F2C_REGS __asm__(text : F2C_SUMS, F2C_MORE_SUMS, [a] "+r"(a), [b] "+r"(b), [w] "+r"(w) counter \
            : [back] "i"(-ahead) : "q0", "q1", "q2", "q3", "cc", "memory"); \
    s[0] = s0; s[1] = s1; s[2] = s2; s[3] = s3; s[4] = s4; s[5] = s5; s[6] = s6; s[7] = s7; }
#define F2C_BLOCK_OF_4(text, counter) \
    { register int32_t s0 __asm__("r0"), s1 __asm__("r2"), s2 __asm__("r4"), s3 __asm__("r6"); \
     __asm__(text : F2C_SUMS, [a] "+r"(a), [w] "+r"(w) counter \
            : [back] "i"(-ahead) : "q0", "q2", "q3", "cc", "memory"); \
     s[0] = s0; s[1] = s1; s[2] = s2; s[3] = s3; }

/** The block for a number of steps: the first one, up to three more, then n times four. */
#define F2C_TILE(block, first, step) \
    switch ((n > 0) ? (4 + rest) : rest) { \
    case 0: block(first, ); break; \
    case 1: block(first step, ); break; \
    case 2: block(first step step, ); break; \
    case 3: block(first step step step, ); break; \
    case 4: block(first F2C_DOTS_LOOP(step), F2C_COUNTER); break; \
    case 5: block(first step F2C_DOTS_LOOP(step), F2C_COUNTER); break; \
    case 6: block(first step step F2C_DOTS_LOOP(step), F2C_COUNTER); break; \
    default: block(first step step step F2C_DOTS_LOOP(step), F2C_COUNTER); break; \
    }
#define F2C_DOTS_LOOP(step) "1:\n\t" step step step step "subs %[n], %[n], #1\n\tbne 1b"

/** s[0..3] = the products of the elements at x with four outputs at w, s[4..7] the same for y and v. */
static inline void f2c_dots_helium(const int8_t *x, const int8_t *y, const int8_t *w, const int8_t *v, int32_t ahead,
                            int32_t steps, int32_t *s)
{
    F2C_LANES(8) s[i] = 0;
    for (int32_t k = 0; k < steps; ++k) {
        const int32_t at = (k > 0) ? (ahead + (16 * (k - 1))) : 0;
        for (int32_t o = 0; o < 4; ++o) {
            F2C_LANES(16) {
                s[o] += x[at + i] * w[(64 * k) + (16 * o) + i];
                s[o + 4] += y[at + i] * v[(64 * k) + (16 * o) + i];
            }
        }
    }
}

/** s[0..3] = the products of pixel a with four outputs, s[4..7] those of pixel b; steps is constant, ahead 1..16. The
 *  weights are at *next, which moves on behind them. */
static F2C_INLINE void f2c_dots_2x4(const int8_t *a, const int8_t *b, const int8_t **next, int32_t ahead, int32_t steps, int32_t *s)
{
    const int8_t *w = *next;
    F2C_MVE_BLOCK(
        const int32_t rest = (steps - 1) % 4;
        int32_t n = (steps - 1) / 4;
        a += ahead;
        b += ahead;
        F2C_TILE(F2C_BLOCK, F2C_FIRST_2X4, F2C_STEP_2X4)
        *next = w,
        f2c_dots_helium(a, b, w, w, ahead, steps, s);
        *next += 64 * steps);
}

/** s[0..7] = the products of pixel a with eight outputs. */
static F2C_INLINE void f2c_dots_1x8(const int8_t *a, const int8_t **next, int32_t ahead, int32_t steps, int32_t *s)
{
    const int8_t *w = *next, *b = &w[64 * steps];
    F2C_MVE_BLOCK(
        const int32_t rest = (steps - 1) % 4;
        int32_t n = (steps - 1) / 4;
        a += ahead;
        F2C_TILE(F2C_BLOCK, F2C_FIRST_1X8, F2C_STEP_1X8)
        *next = b,
        f2c_dots_helium(a, a, w, b, ahead, steps, s);
        *next += 128 * steps);
}

/** s[0..3] = the products of pixel a with four outputs. */
static F2C_INLINE void f2c_dots_1x4(const int8_t *a, const int8_t **next, int32_t ahead, int32_t steps, int32_t *s)
{
    const int8_t *w = *next;
    F2C_MVE_BLOCK(
        const int32_t rest = (steps - 1) % 4;
        int32_t n = (steps - 1) / 4;
        a += ahead;
        F2C_TILE(F2C_BLOCK_OF_4, F2C_FIRST_1X4, F2C_STEP_1X4)
        *next = w,
        f2c_dots_helium(a, a, w, w, ahead, steps, s);
        *next += 64 * steps);
}

#endif /* F2C_DOTS_H */
