/** @file f2c_lanes.h  Products of 16 int8 with 16 others for Helium, lane by lane: what a depthwise convolution sums up.
 *
 * Products are int16, of even and of odd lanes; several of them are added as such where no sum can overflow, and then to
 * sums of 32 bits. Those are in four vectors, of lanes 0, 4, 8, 12; 2, 6, 10, 14; 1, 5, 9, 13; 3, 7, 11, 15.
 */
#ifndef F2C_LANES_H
#define F2C_LANES_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_mve.h"

/** Sums of products, 16 bits each. */
typedef struct {
    f2c_halves even;
    f2c_halves odd;
} f2c_products;

/** The sums of 16 lanes. */
typedef struct {
    f2c_words of[4];
} f2c_sums;

/** p[0..15]. */
static F2C_INLINE f2c_bytes f2c_bytes_at(const int8_t *p)
{
    f2c_bytes y;
    F2C_MVE(y = vldrbq_s8(p), F2C_LANES(16) y.at[i] = p[i]);
    return y;
}

/** p[0..n-1], n of 16 at most, then zeros. */
static F2C_INLINE f2c_bytes f2c_bytes_first(const int8_t *p, int32_t n)
{
    f2c_bytes y;
    F2C_MVE(y = vldrbq_z_s8(p, vctp8q((uint32_t)n)), F2C_LANES(16) y.at[i] = (int8_t)((i < n) ? p[i] : 0));
    return y;
}

/** n elements, 16 at most, `stride` apart, then zeros. */
static F2C_INLINE f2c_bytes f2c_bytes_gather(const int8_t *p, int32_t stride, int32_t n)
{
    int8_t t[16] = {0};
    for (int32_t i = 0; i < ((n < 16) ? n : 16); ++i) {
        t[i] = p[i * stride];
    }
    return f2c_bytes_at(t);
}

/** 16 times v. */
static F2C_INLINE f2c_bytes f2c_bytes_same(int8_t v)
{
    f2c_bytes y;
    F2C_MVE(y = vdupq_n_s8(v), F2C_LANES(16) y.at[i] = v);
    return y;
}

/** The larger one of each lane. */
static F2C_INLINE f2c_bytes f2c_bytes_max(f2c_bytes a, f2c_bytes b)
{
    f2c_bytes y;
    F2C_MVE(y = vmaxq_s8(a, b), F2C_LANES(16) y.at[i] = (a.at[i] > b.at[i]) ? a.at[i] : b.at[i]);
    return y;
}

/** Stores v. */
static F2C_INLINE void f2c_bytes_store(int8_t *p, f2c_bytes v)
{
    F2C_MVE(vstrbq_s8(p, v), F2C_LANES(16) p[i] = v.at[i]);
}

/** Stores lanes 0..n-1 of v, at most all. */
static F2C_INLINE void f2c_bytes_store_first(int8_t *p, f2c_bytes v, int32_t n)
{
    F2C_MVE(vstrbq_p_s8(p, v, vctp8q((uint32_t)n)), F2C_LANES((n < 16) ? n : 16) p[i] = v.at[i]);
}

/** Stores lanes 0..n-1 of v, at most all, `stride` apart. */
static F2C_INLINE void f2c_bytes_scatter(int8_t *p, int32_t stride, f2c_bytes v, int32_t n)
{
    int8_t t[16];
    f2c_bytes_store(t, v);
    for (int32_t i = 0; i < ((n < 16) ? n : 16); ++i) {
        p[i * stride] = t[i];
    }
}

/** The next 16 weights at *w, which moves on, times 16 elements at x[at]; at is constant, 0..127. */
static F2C_INLINE f2c_products f2c_multiply(const int8_t *x, int32_t at, const int8_t **w)
{
    f2c_products y;
    F2C_MVE(
        __asm__("vldrb.8 q0, [%[x], %[at]]\n\tvldrb.8 q1, [%[w]], #16\n\tvmullb.s8 %q[even], q0, q1\n\tvmullt.s8 %q[odd], q0, q1"
                : [even] "=&w"(y.even), [odd] "=&w"(y.odd), [w] "+r"(*w) : [x] "r"(x), [at] "i"(at) : "q0", "q1", "memory"),
        F2C_LANES(8) {
            y.even.at[i] = (int16_t)(x[at + (2 * i)] * (*w)[2 * i]);
            y.odd.at[i] = (int16_t)(x[at + (2 * i) + 1] * (*w)[(2 * i) + 1]);
        }
        *w += 16);
    return y;
}

/** The same, added to p; no lane overflows. The elements are loaded twice: there is no vector to spare. */
static F2C_INLINE f2c_products f2c_multiply_add(f2c_products p, const int8_t *x, int32_t at, const int8_t **w)
{
    F2C_MVE(
        __asm__("vldrb.8 q0, [%[x], %[at]]\n\tvldrb.8 q1, [%[w]], #16\n\tvmullb.s8 q0, q0, q1\n\tvadd.i16 %q[even], %q[even], q0\n\t"
                "vldrb.8 q0, [%[x], %[at]]\n\tvmullt.s8 q0, q0, q1\n\tvadd.i16 %q[odd], %q[odd], q0"
                : [even] "+w"(p.even), [odd] "+w"(p.odd), [w] "+r"(*w) : [x] "r"(x), [at] "i"(at) : "q0", "q1", "memory"),
        const f2c_products y = f2c_multiply(x, at, w);
        F2C_LANES(8) {
            p.even.at[i] = (int16_t)(p.even.at[i] + y.even.at[i]);
            p.odd.at[i] = (int16_t)(p.odd.at[i] + y.odd.at[i]);
        });
    return p;
}

/** s + p. */
static F2C_INLINE f2c_sums f2c_collect(f2c_sums s, f2c_products p)
{
    F2C_MVE(
        __asm__("vmovlb.s16 q0, %q[even]\n\tvadd.i32 %q[s0], %q[s0], q0\n\tvmovlt.s16 q1, %q[even]\n\tvadd.i32 %q[s1], %q[s1], q1\n\t"
                "vmovlb.s16 q0, %q[odd]\n\tvadd.i32 %q[s2], %q[s2], q0\n\tvmovlt.s16 q1, %q[odd]\n\tvadd.i32 %q[s3], %q[s3], q1"
                : [s0] "+w"(s.of[0]), [s1] "+w"(s.of[1]), [s2] "+w"(s.of[2]), [s3] "+w"(s.of[3])
                : [even] "w"(p.even), [odd] "w"(p.odd) : "q0", "q1"),
        F2C_LANES(8) {
            s.of[i % 2].at[i / 2] += p.even.at[i];
            s.of[2 + (i % 2)].at[i / 2] += p.odd.at[i];
        });
    return s;
}

/** The 16 lanes in order, limited to -128..127. */
static F2C_INLINE f2c_bytes f2c_sums_to_s8(f2c_sums s)
{
    f2c_bytes y;
    F2C_MVE(
        __asm__("vqmovnb.s32 %q0, %q0\n\tvqmovnt.s32 %q0, %q2\n\tvqmovnb.s32 %q1, %q1\n\tvqmovnt.s32 %q1, %q3\n\t"
                "vqmovnb.s16 %q0, %q0\n\tvqmovnt.s16 %q0, %q1"
                : "+w"(s.of[0]), "+w"(s.of[2]) : "w"(s.of[1]), "w"(s.of[3]));
        y = vreinterpretq_s8_s32(s.of[0]),
        F2C_LANES(16) y.at[i] = (int8_t)f2c_clamp_s32(s.of[(2 * (i % 2)) + ((i % 4) / 2)].at[i / 4], -128, 127));
    return y;
}

/** The 16 lanes in order, each shifted right, rounded half up, limited to -128..127; shift 1..16, constant. */
static F2C_INLINE f2c_bytes f2c_sums_shift_to_s8(f2c_sums s, int32_t shift)
{
    f2c_bytes y;
    F2C_MVE(
        __asm__("vqrshrnb.s32 %q0, %q0, %4\n\tvqrshrnt.s32 %q0, %q2, %4\n\tvqrshrnb.s32 %q1, %q1, %4\n\tvqrshrnt.s32 %q1, %q3, %4\n\t"
                "vqmovnb.s16 %q0, %q0\n\tvqmovnt.s16 %q0, %q1"
                : "+w"(s.of[0]), "+w"(s.of[2]) : "w"(s.of[1]), "w"(s.of[3]), "i"(shift));
        y = vreinterpretq_s8_s32(s.of[0]),
        for (int32_t n = 0; n < 4; ++n) {
            F2C_LANES(4) s.of[n].at[i] = ((s.of[n].at[i] >> (shift - 1)) + 1) >> 1;
        }
        y = f2c_sums_to_s8(s));
    return y;
}

#endif /* F2C_LANES_H */
