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

/** The next 16 constants at *p, which moves on: gcc would keep an address of its own for each. */
static F2C_INLINE f2c_bytes f2c_bytes_next(const int8_t **p)
{
    f2c_bytes y;
    F2C_MVE(__asm__("vldrb.8 %q0, [%1], #16" : "=w"(y), "+r"(*p)), y = f2c_bytes_at(*p); *p += 16);
    return y;
}

/** p[0..n-1], n of 16 at most, then zeros. */
static F2C_INLINE f2c_bytes f2c_bytes_first(const int8_t *p, int32_t n)
{
    f2c_bytes y;
    F2C_MVE(y = vldrbq_z_s8(p, vctp8q((uint32_t)n)), F2C_LANES(16) y.at[i] = (int8_t)((i < n) ? p[i] : 0));
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

/** x * w. */
static F2C_INLINE f2c_products f2c_multiply(f2c_bytes x, f2c_bytes w)
{
    f2c_products y;
    F2C_MVE(
        y.even = vmullbq_int_s8(x, w);
        y.odd = vmulltq_int_s8(x, w),
        F2C_LANES(8) {
            y.even.at[i] = (int16_t)(x.at[2 * i] * w.at[2 * i]);
            y.odd.at[i] = (int16_t)(x.at[(2 * i) + 1] * w.at[(2 * i) + 1]);
        });
    return y;
}

/** p + x * w; no lane overflows. */
static F2C_INLINE f2c_products f2c_multiply_add(f2c_products p, f2c_bytes x, f2c_bytes w)
{
    f2c_products y = f2c_multiply(x, w);
    F2C_MVE(
        y.even = vaddq_s16(p.even, y.even);
        y.odd = vaddq_s16(p.odd, y.odd),
        F2C_LANES(8) {
            y.even.at[i] = (int16_t)(p.even.at[i] + y.even.at[i]);
            y.odd.at[i] = (int16_t)(p.odd.at[i] + y.odd.at[i]);
        });
    return y;
}

/** s + p. */
static F2C_INLINE f2c_sums f2c_collect(f2c_sums s, f2c_products p)
{
    f2c_sums y;
    F2C_MVE(
        y.of[0] = vaddq_s32(s.of[0], vmovlbq_s16(p.even));
        y.of[1] = vaddq_s32(s.of[1], vmovltq_s16(p.even));
        y.of[2] = vaddq_s32(s.of[2], vmovlbq_s16(p.odd));
        y.of[3] = vaddq_s32(s.of[3], vmovltq_s16(p.odd)),
        F2C_LANES(8) {
            y.of[i % 2].at[i / 2] = s.of[i % 2].at[i / 2] + p.even.at[i];
            y.of[2 + (i % 2)].at[i / 2] = s.of[2 + (i % 2)].at[i / 2] + p.odd.at[i];
        });
    return y;
}

/** The 16 lanes in order, limited to -128..127. */
static F2C_INLINE f2c_bytes f2c_sums_to_s8(f2c_sums s)
{
    f2c_bytes y;
    F2C_MVE(
        const int16x8_t even = vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(s.of[0]), s.of[0]), s.of[1]);
        const int16x8_t odd = vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(s.of[2]), s.of[2]), s.of[3]);
        y = vqmovntq_s16(vqmovnbq_s16(vreinterpretq_s8_s16(even), even), odd),
        F2C_LANES(16) y.at[i] = (int8_t)f2c_clamp_s32(s.of[(2 * (i % 2)) + ((i % 4) / 2)].at[i / 4], -128, 127));
    return y;
}

#endif /* F2C_LANES_H */
