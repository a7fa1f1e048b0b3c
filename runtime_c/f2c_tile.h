/** @file f2c_tile.h  Sums of products for Arm's DSP extension: tiles of one to four pixels times two outputs.
 *
 * t holds a tile's pixels, widened to pairs of int16, [depth / 2][pixels]. w is the stream of the two outputs: where their sums
 * start, then a word for each pair of elements, whose halfwords are each 256 * odd weight + even weight ("JOINED": the
 * word itself then sums odd * 256 + even), or two bytes ("BYTES"). s[0..pixels-1] are the sums of the even output,
 * s[pixels..] those of the odd one, as they were collected.
 *
 * A trip is one block of assembly: with all sums, two or four words of pixels and a word of weights at once it takes all 14
 * registers, and gcc 12 would move sums about between trips, and not load several words at once (measured on three pixels,
 * 64 deep, two outputs: 354 instructions instead of 322). f2c_dots is the same in C.
 */
#ifndef F2C_TILE_H
#define F2C_TILE_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_simd.h"

/** The sums of `pixels` pixels, widened at t up to `end`; returns the stream behind the words. */
static inline const int32_t *f2c_dots(const int32_t *w, const int32_t *t, const int32_t *end, int32_t pixels, int32_t bytes, int32_t *s)
{
    for (int32_t p = 0; p < pixels; ++p) {
        s[p] = w[0];
        s[pixels + p] = w[1];
    }
    w += 2;
    for (const int32_t *a = t; a != end; a += pixels) {
        const int32_t even = f2c_sxtb16(*w), odd = (bytes != 0) ? f2c_sxtb16_ror8(*w) : *w;
        for (int32_t p = 0; p < pixels; ++p) {
            s[p] = f2c_smlad(a[p], even, s[p]);
            s[pixels + p] = f2c_smlad(a[p], odd, s[pixels + p]);
        }
        ++w;
    }
    return w;
}

/** What was collected 256-fold on top of another sum: 256 h of x = low + 256 h modulo 2^32. */
static inline int32_t f2c_upper(int32_t x, int32_t low)
{
    return (int32_t)((uint32_t)x - (uint32_t)low);
}

/** F2C_DOTS_4(trips, steps, form, w, t, end, s) is w = f2c_dots(w, t, end, 4, form, s), for a depth of `steps` words a trip:
 *  trips FLAT, one, or LOOP, several; form JOINED or BYTES. F2C_DOTS_3, _2, _1: for three, two pixels, one. */
#define F2C_DOTS_4(trips, steps, form, w, t, end, s) \
    F2C_ALL_REGISTERS(F2C_TILE_4(F2C_##trips, F2C_BUT_ONE_##steps, F2C_HIGH_##form, w, t, end, s), \
                      w = f2c_dots((w), (t), (end), 4, F2C_IS_##form, (s)))
#define F2C_DOTS_3(trips, steps, form, w, t, end, s) \
    F2C_ALL_REGISTERS(F2C_TILE_3(F2C_##trips, F2C_BUT_ONE_##steps, F2C_HIGH_##form, w, t, end, s), \
                      w = f2c_dots((w), (t), (end), 3, F2C_IS_##form, (s)))
#define F2C_DOTS_2(trips, steps, form, w, t, end, s) \
    F2C_ALL_REGISTERS(F2C_TILE_2(F2C_##trips##_2, F2C_BY_TWO_##steps, F2C_HIGH_##form, w, t, end, s), \
                      w = f2c_dots((w), (t), (end), 2, F2C_IS_##form, (s)))
#define F2C_DOTS_1(trips, steps, form, w, t, end, s) \
    F2C_ALL_REGISTERS(F2C_TILE_1(F2C_##trips##_2, F2C_BY_FOUR_##steps, F2C_ODD_##form, w, t, end, s), \
                      w = f2c_dots((w), (t), (end), 1, F2C_IS_##form, (s)))

#define F2C_IS_JOINED 0
#define F2C_IS_BYTES 1

/** What a word of weights is made of in place, once its even weights are widened elsewhere. */
#define F2C_HIGH_JOINED(word)
#define F2C_HIGH_BYTES(word) "sxtb16 %[" word "], %[" word "], ror #8\n\t"

/** n or n - 1 times a text; n as twos and a one, as fours and ones. */
#define F2C_TIMES_0(x)
#define F2C_TIMES_1(x) x
#define F2C_TIMES_2(x) x x
#define F2C_TIMES_3(x) x x x
#define F2C_TIMES_4(x) x x x x
#define F2C_TIMES_5(x) x x x x x
#define F2C_TIMES_6(x) x x x x x x
#define F2C_TIMES_7(x) x x x x x x x
#define F2C_BUT_ONE_1 F2C_TIMES_0
#define F2C_BUT_ONE_2 F2C_TIMES_1
#define F2C_BUT_ONE_3 F2C_TIMES_2
#define F2C_BUT_ONE_4 F2C_TIMES_3
#define F2C_BUT_ONE_5 F2C_TIMES_4
#define F2C_BUT_ONE_6 F2C_TIMES_5
#define F2C_BUT_ONE_7 F2C_TIMES_6
#define F2C_BUT_ONE_8 F2C_TIMES_7
#define F2C_BY_TWO_1(two, one) one
#define F2C_BY_TWO_2(two, one) two
#define F2C_BY_TWO_3(two, one) two one
#define F2C_BY_TWO_4(two, one) two two
#define F2C_BY_TWO_5(two, one) two two one
#define F2C_BY_TWO_6(two, one) two two two
#define F2C_BY_TWO_7(two, one) two two two one
#define F2C_BY_TWO_8(two, one) two two two two
#define F2C_BY_FOUR_1(four, one) one
#define F2C_BY_FOUR_2(four, one) one one
#define F2C_BY_FOUR_3(four, one) one one one
#define F2C_BY_FOUR_4(four, one) four
#define F2C_BY_FOUR_5(four, one) four one
#define F2C_BY_FOUR_6(four, one) four one one
#define F2C_BY_FOUR_7(four, one) four one one one
#define F2C_BY_FOUR_8(four, one) four four

/** Four pixels (c, d twice): 12 instructions for 16 products. The first step adds to where sums start, e0 and x0. */
#define F2C_STEP_4(high) \
    "ldr %[v], [%[w]], #4\n\tldrd %[c], %[d], [%[a]], #16\n\tsxtb16 %[l], %[v]\n\t" high("v") \
    "smlad %[e0], %[c], %[l], %[e0]\n\tsmlad %[x0], %[c], %[v], %[x0]\n\t" \
    "smlad %[e1], %[d], %[l], %[e1]\n\tsmlad %[x1], %[d], %[v], %[x1]\n\tldrd %[c], %[d], [%[a], #-8]\n\t" \
    "smlad %[e2], %[c], %[l], %[e2]\n\tsmlad %[x2], %[c], %[v], %[x2]\n\t" \
    "smlad %[e3], %[d], %[l], %[e3]\n\tsmlad %[x3], %[d], %[v], %[x3]\n\t"
#define F2C_FIRST_4(high) \
    "ldr %[v], [%[w]], #4\n\tldrd %[c], %[d], [%[a], #8]\n\tsxtb16 %[l], %[v]\n\t" high("v") \
    "smlad %[e2], %[c], %[l], %[e0]\n\tsmlad %[x2], %[c], %[v], %[x0]\n\t" \
    "smlad %[e3], %[d], %[l], %[e0]\n\tsmlad %[x3], %[d], %[v], %[x0]\n\tldrd %[c], %[d], [%[a]], #16\n\t" \
    "smlad %[e1], %[d], %[l], %[e0]\n\tsmlad %[x1], %[d], %[v], %[x0]\n\t" \
    "smlad %[e0], %[c], %[l], %[e0]\n\tsmlad %[x0], %[c], %[v], %[x0]\n\t"

/** Three pixels (c, d, g): 9 instructions for 12 products. */
#define F2C_LOAD_3(high) "ldr %[v], [%[w]], #4\n\tldmia %[a]!, {%[c], %[d], %[g]}\n\tsxtb16 %[l], %[v]\n\t" high("v")
#define F2C_STEP_3(high) F2C_LOAD_3(high) \
    "smlad %[e0], %[c], %[l], %[e0]\n\tsmlad %[x0], %[c], %[v], %[x0]\n\t" \
    "smlad %[e1], %[d], %[l], %[e1]\n\tsmlad %[x1], %[d], %[v], %[x1]\n\t" \
    "smlad %[e2], %[g], %[l], %[e2]\n\tsmlad %[x2], %[g], %[v], %[x2]\n\t"
#define F2C_FIRST_3(high) F2C_LOAD_3(high) \
    "smlad %[e1], %[d], %[l], %[e0]\n\tsmlad %[x1], %[d], %[v], %[x0]\n\t" \
    "smlad %[e2], %[g], %[l], %[e0]\n\tsmlad %[x2], %[g], %[v], %[x0]\n\t" \
    "smlad %[e0], %[c], %[l], %[e0]\n\tsmlad %[x0], %[c], %[v], %[x0]\n\t"

/** Two pixels at two steps (c, d, then g, h): 12 instructions for 16 products. */
#define F2C_SUMS_2(c, d, v, high) \
    "sxtb16 %[l], %[" v "]\n\t" high(v) "smlad %[e0], %[" c "], %[l], %[e0]\n\tsmlad %[x0], %[" c "], %[" v "], %[x0]\n\t" \
    "smlad %[e1], %[" d "], %[l], %[e1]\n\tsmlad %[x1], %[" d "], %[" v "], %[x1]\n\t"
#define F2C_TWO_STEPS_2(high) \
    "ldrd %[v], %[u], [%[w]], #8\n\tldmia %[a]!, {%[c], %[d], %[g], %[h]}\n\t" \
    F2C_SUMS_2("c", "d", "v", high) F2C_SUMS_2("g", "h", "u", high)
#define F2C_STEP_2(high) "ldr %[v], [%[w]], #4\n\tldrd %[c], %[d], [%[a]], #8\n\t" F2C_SUMS_2("c", "d", "v", high)

/** One pixel at four steps (c, d, g, h): 14 instructions for 16 products. The odd output first, whose word then holds the even weights. */
#define F2C_ODD_JOINED(c, v) "smlad %[x0], %[" c "], %[" v "], %[x0]\n\t"
#define F2C_ODD_BYTES(c, v) "sxtb16 %[l], %[" v "], ror #8\n\tsmlad %[x0], %[" c "], %[l], %[x0]\n\t"
#define F2C_SUMS_1(c, v, odd) odd(c, v) "sxtb16 %[" v "], %[" v "]\n\tsmlad %[e0], %[" c "], %[" v "], %[e0]\n\t"
#define F2C_FOUR_STEPS_1(odd) \
    "ldmia %[w]!, {%[v], %[u], %[m], %[n]}\n\tldmia %[a]!, {%[c], %[d], %[g], %[h]}\n\t" \
    F2C_SUMS_1("c", "v", odd) F2C_SUMS_1("d", "u", odd) F2C_SUMS_1("g", "m", odd) F2C_SUMS_1("h", "n", odd)
#define F2C_STEP_1(odd) "ldr %[v], [%[w]], #4\n\tldr %[c], [%[a]], #4\n\t" F2C_SUMS_1("c", "v", odd)

/** Trips of a first step and some more, the last with instructions that compare a with end. */
#define F2C_FLAT(first, step, times, last) first times(step)
#define F2C_LOOP(first, step, times, last) first "b 2f\n1:\n\t" step "2:\n\t" times(step) last "bne 1b"
#define F2C_FLAT_2(trip) trip
#define F2C_LOOP_2(trip) "1:\n\t" trip "ldr %[l], %[end]\n\tcmp %[a], %[l]\n\tbne 1b"

#define F2C_SUMS_OF(w) int32_t e0 = (w)[0], x0 = (w)[1]; const int32_t *stream = &(w)[2]
#define F2C_ENDS [a] "+r"(a), [w] "+r"(stream)
#define F2C_TILE_4(trips, times, high, w, t, stop, s) do { \
    F2C_SUMS_OF(w); const int32_t *a = (t); int32_t e1, e2, e3, x1, x2, x3, v, l, c, d; \
    __asm__(trips(F2C_FIRST_4(high), F2C_STEP_4(high), times, "ldr %[l], %[end]\n\tcmp %[a], %[l]\n\t") \
            : [e0] "+r"(e0), [x0] "+r"(x0), [e1] "=&r"(e1), [x1] "=&r"(x1), [e2] "=&r"(e2), [x2] "=&r"(x2), \
              [e3] "=&r"(e3), [x3] "=&r"(x3), [v] "=&r"(v), [l] "=&r"(l), [c] "=&r"(c), [d] "=&r"(d), F2C_ENDS \
            : [end] "m"(stop) : "cc", "memory"); \
    (s)[0] = e0; (s)[1] = e1; (s)[2] = e2; (s)[3] = e3; (s)[4] = x0; (s)[5] = x1; (s)[6] = x2; (s)[7] = x3; (w) = stream; } while (0)
#define F2C_TILE_3(trips, times, high, w, t, stop, s) do { \
    F2C_SUMS_OF(w); const int32_t *a = (t); int32_t e1, e2, x1, x2, v, l; \
    register int32_t c __asm__("r4"); register int32_t d __asm__("r5"); register int32_t g __asm__("r6"); \
    __asm__(trips(F2C_FIRST_3(high), F2C_STEP_3(high), times, "cmp %[a], %[end]\n\t") \
            : [e0] "+r"(e0), [x0] "+r"(x0), [e1] "=&r"(e1), [x1] "=&r"(x1), [e2] "=&r"(e2), [x2] "=&r"(x2), \
              [v] "=&r"(v), [l] "=&r"(l), [c] "=&r"(c), [d] "=&r"(d), [g] "=&r"(g), F2C_ENDS \
            : [end] "r"(stop) : "cc", "memory"); \
    (s)[0] = e0; (s)[1] = e1; (s)[2] = e2; (s)[3] = x0; (s)[4] = x1; (s)[5] = x2; (w) = stream; } while (0)
#define F2C_TILE_2(trips, steps, high, w, t, stop, s) do { \
    F2C_SUMS_OF(w); const int32_t *a = (t); int32_t e1 = e0, x1 = x0, v, u, l; \
    register int32_t c __asm__("r4"); register int32_t d __asm__("r5"); register int32_t g __asm__("r6"); \
    register int32_t h __asm__("r7"); \
    __asm__(trips(steps(F2C_TWO_STEPS_2(high), F2C_STEP_2(high))) \
            : [e0] "+r"(e0), [x0] "+r"(x0), [e1] "+r"(e1), [x1] "+r"(x1), [v] "=&r"(v), [u] "=&r"(u), [l] "=&r"(l), \
              [c] "=&r"(c), [d] "=&r"(d), [g] "=&r"(g), [h] "=&r"(h), F2C_ENDS \
            : [end] "m"(stop) : "cc", "memory"); \
    (s)[0] = e0; (s)[1] = e1; (s)[2] = x0; (s)[3] = x1; (w) = stream; } while (0)
#define F2C_TILE_1(trips, steps, odd, w, t, stop, s) do { \
    F2C_SUMS_OF(w); const int32_t *a = (t); int32_t l; \
    register int32_t c __asm__("r4"); register int32_t d __asm__("r5"); register int32_t g __asm__("r6"); \
    register int32_t h __asm__("r7"); register int32_t v __asm__("r8"); register int32_t u __asm__("r9"); \
    register int32_t m __asm__("r10"); register int32_t n __asm__("r11"); \
    __asm__(trips(steps(F2C_FOUR_STEPS_1(odd), F2C_STEP_1(odd))) \
            : [e0] "+r"(e0), [x0] "+r"(x0), [v] "=&r"(v), [u] "=&r"(u), [m] "=&r"(m), [n] "=&r"(n), [l] "=&r"(l), \
              [c] "=&r"(c), [d] "=&r"(d), [g] "=&r"(g), [h] "=&r"(h), F2C_ENDS \
            : [end] "m"(stop) : "cc", "memory"); \
    (s)[0] = e0; (s)[1] = x0; (w) = stream; } while (0)

#endif /* F2C_TILE_H */
