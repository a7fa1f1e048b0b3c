/** @file f2c_dots.h  Sums of products of int8 for Helium: tiles of pixels times outputs, 16 elements deep a step.
 *
 * Weights lie in groups of four outputs: 16 elements of each, step by step. The blocks of assembly hold their eight sums
 * in the even registers, as VMLADAV demands; gcc 12 would move them about (measured on two pixels by four outputs, 64
 * deep: 115 instructions instead of 78). The first step starts at elements 0..15 of a pixel, the second one `overlap`
 * elements earlier than its end: so a depth of no multiple of 16 needs no rest; the weights of what is there twice are
 * zero once.
 */
#ifndef F2C_DOTS_H
#define F2C_DOTS_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_mve.h"

/** One step of two pixels by four outputs; sum is "" to begin, "a" to add. */
#define F2C_STEP_2X4(sum) \
    "vldrb.8 q0, [%[a]], #16\n\tvldrb.8 q1, [%[b]], #16\n\t" \
    "vldrb.8 q2, [%[w]], #16\n\tvmladav" sum ".s8 %[s0], q0, q2\n\tvmladav" sum ".s8 %[s4], q1, q2\n\t" \
    "vldrb.8 q3, [%[w]], #16\n\tvmladav" sum ".s8 %[s1], q0, q3\n\tvmladav" sum ".s8 %[s5], q1, q3\n\t" \
    "vldrb.8 q2, [%[w]], #16\n\tvmladav" sum ".s8 %[s2], q0, q2\n\tvmladav" sum ".s8 %[s6], q1, q2\n\t" \
    "vldrb.8 q3, [%[w]], #16\n\tvmladav" sum ".s8 %[s3], q0, q3\n\tvmladav" sum ".s8 %[s7], q1, q3\n\t"

/** One step of one pixel by four outputs: sums s of weights w. */
#define F2C_STEP_1X4(sum, w, s0, s1, s2, s3) \
    "vldrb.8 q2, [" w "], #16\n\tvmladav" sum ".s8 " s0 ", q0, q2\n\t" \
    "vldrb.8 q3, [" w "], #16\n\tvmladav" sum ".s8 " s1 ", q0, q3\n\t" \
    "vldrb.8 q2, [" w "], #16\n\tvmladav" sum ".s8 " s2 ", q0, q2\n\t" \
    "vldrb.8 q3, [" w "], #16\n\tvmladav" sum ".s8 " s3 ", q0, q3\n\t"

#define F2C_ALONE(sum) "vldrb.8 q0, [%[a]], #16\n\t" F2C_STEP_1X4(sum, "%[w]", "%[s0]", "%[s1]", "%[s2]", "%[s3]")

/** One step of one pixel by eight outputs, in two groups. */
#define F2C_STEP_1X8(sum) \
    F2C_ALONE(sum) \
    F2C_STEP_1X4(sum, "%[b]", "%[s4]", "%[s5]", "%[s6]", "%[s7]")

/** A number n of times four steps. */
#define F2C_LOOP(step) "1:\n\t" step("a") step("a") step("a") step("a") "subs %[n], %[n], #1\n\tbne 1b"

/** The operands of such a block: sums with constraint c, pointers that move on. */
#define F2C_FOUR_SUMS(c, s) [s0] c((s)[0]), [s1] c((s)[1]), [s2] c((s)[2]), [s3] c((s)[3])
#define F2C_SUMS(c, s) \
    F2C_FOUR_SUMS(c, s), [s4] c((s)[4]), [s5] c((s)[5]), [s6] c((s)[6]), [s7] c((s)[7])
#define F2C_MOVING(x, y, z) [a] "+r"(*(x)), [b] "+r"(*(y)), [w] "+r"(*(z))
#define F2C_VECTORS "q0", "q1", "q2", "q3", "memory"

/** s[0..3] += 16 elements at x times those of four outputs at w; s[4..7] the same for y and v. */
static inline void f2c_dots_step(const int8_t *x, const int8_t *y, const int8_t *w, const int8_t *v, int32_t *s)
{
    for (int32_t o = 0; o < 4; ++o) {
        F2C_LANES(16) {
            s[o] += x[i] * w[(16 * o) + i];
            s[o + 4] += y[i] * v[(16 * o) + i];
        }
    }
}

/** s = the products of pixels a and b with four outputs, `steps` steps deep. */
static inline void f2c_dots_2x4(const int8_t *a, const int8_t *b, const int8_t *w, int32_t overlap, int32_t steps, int32_t *s)
{
    const int32_t rest = (steps - 1) % 4;
    int32_t n = (steps - 1) / 4;
    F2C_MVE(
        __asm__(F2C_STEP_2X4("") : F2C_SUMS("=&Te", s), F2C_MOVING(&a, &b, &w) : : F2C_VECTORS);
        a -= overlap;
        b -= overlap;
        for (int32_t i = 0; i < rest; ++i) {
            __asm__(F2C_STEP_2X4("a") : F2C_SUMS("+Te", s), F2C_MOVING(&a, &b, &w) : : F2C_VECTORS);
        }
        if (n > 0) {
            __asm__(F2C_LOOP(F2C_STEP_2X4) : F2C_SUMS("+Te", s), F2C_MOVING(&a, &b, &w), [n] "+r"(n) : : F2C_VECTORS, "cc");
        },
        F2C_LANES(8) s[i] = 0;
        for (int32_t k = 0; k < rest + (4 * n) + 1; ++k) {
            const int32_t at = (16 * k) - ((k > 0) ? overlap : 0);
            f2c_dots_step(&a[at], &b[at], &w[64 * k], &w[64 * k], s);
        })
}

/** s = the products of pixel a with eight outputs, `steps` steps deep. */
static inline void f2c_dots_1x8(const int8_t *a, const int8_t *w, int32_t overlap, int32_t steps, int32_t *s)
{
    const int32_t rest = (steps - 1) % 4;
    int32_t n = (steps - 1) / 4;
    const int8_t *v = &w[64 * steps];
    F2C_MVE(
        __asm__(F2C_STEP_1X8("") : F2C_SUMS("=&Te", s), F2C_MOVING(&a, &v, &w) : : F2C_VECTORS);
        a -= overlap;
        for (int32_t i = 0; i < rest; ++i) {
            __asm__(F2C_STEP_1X8("a") : F2C_SUMS("+Te", s), F2C_MOVING(&a, &v, &w) : : F2C_VECTORS);
        }
        if (n > 0) {
            __asm__(F2C_LOOP(F2C_STEP_1X8) : F2C_SUMS("+Te", s), F2C_MOVING(&a, &v, &w), [n] "+r"(n) : : F2C_VECTORS, "cc");
        },
        F2C_LANES(8) s[i] = 0;
        for (int32_t k = 0; k < rest + (4 * n) + 1; ++k) {
            const int32_t at = (16 * k) - ((k > 0) ? overlap : 0);
            f2c_dots_step(&a[at], &a[at], &w[64 * k], &v[64 * k], s);
        })
}

/** s[0..3] = the products of pixel a with four outputs, `steps` steps deep. */
static inline void f2c_dots_1x4(const int8_t *a, const int8_t *w, int32_t overlap, int32_t steps, int32_t *s)
{
    const int32_t rest = (steps - 1) % 4;
    int32_t n = (steps - 1) / 4;
    F2C_MVE(
        __asm__(F2C_ALONE("") : F2C_FOUR_SUMS("=&Te", s), [a] "+r"(a), [w] "+r"(w) : : F2C_VECTORS);
        a -= overlap;
        for (int32_t i = 0; i < rest; ++i) {
            __asm__(F2C_ALONE("a") : F2C_FOUR_SUMS("+Te", s), [a] "+r"(a), [w] "+r"(w) : : F2C_VECTORS);
        }
        if (n > 0) {
            __asm__(F2C_LOOP(F2C_ALONE) : F2C_FOUR_SUMS("+Te", s), [a] "+r"(a), [w] "+r"(w), [n] "+r"(n) : : F2C_VECTORS, "cc");
        },
        F2C_LANES(8) s[i] = 0;
        for (int32_t k = 0; k < rest + (4 * n) + 1; ++k) {
            const int32_t at = (16 * k) - ((k > 0) ? overlap : 0);
            f2c_dots_step(&a[at], &a[at], &w[64 * k], &w[64 * k], s);
        })
}

#endif /* F2C_DOTS_H */
