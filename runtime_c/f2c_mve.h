/** @file f2c_mve.h  Vectors of 16 bytes for Arm's Helium (MVE), each function with a portable body of the same meaning.
 *
 * A vector is 16 int8 (f2c_bytes), 8 int16 (f2c_halves), 4 int32 (f2c_words) or 4 float (f2c_reals). Sums wrap around.
 * Where gcc 12 copies vectors for no reason, there is a line of assembly.
 */
#ifndef F2C_MVE_H
#define F2C_MVE_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_config_arm.h"
#include "f2c_quant.h"
#include "f2c_simd.h"
#include "f2c_soft.h"

#include F2C_VECTOR_HEADER

typedef F2C_VECTOR(int8x16_t, int8_t, 16) f2c_bytes;
typedef F2C_VECTOR(int16x8_t, int16_t, 8) f2c_halves;
typedef F2C_VECTOR(int32x4_t, int32_t, 4) f2c_words;
typedef F2C_VECTOR(float32x4_t, float, 4) f2c_reals;

/** F2C_LANES(n): a portable body, for each lane i. */
#define F2C_LANES(n) for (int32_t i = 0; i < (n); ++i)

/** (a, b, c, d). */
static inline f2c_words f2c_words_of(int32_t a, int32_t b, int32_t c, int32_t d)
{
    f2c_words y;
    F2C_MVE(__asm__("vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4"
                    : "=&w"(y) : "r"(a), "r"(b), "r"(c), "r"(d)),
            y.at[0] = a; y.at[1] = b; y.at[2] = c; y.at[3] = d);
    return y;
}

/** Four times v. */
static inline f2c_words f2c_words_same(int32_t v)
{
    f2c_words y;
    F2C_MVE(y = vdupq_n_s32(v), F2C_LANES(4) y.at[i] = v);
    return y;
}

/** p[0..3]. */
static inline f2c_words f2c_words_at(const int32_t *p)
{
    f2c_words y;
    F2C_MVE(y = vldrwq_s32(p), F2C_LANES(4) y.at[i] = p[i]);
    return y;
}

/** p[0..3]. */
static inline f2c_words f2c_words_from_s8(const int8_t *p)
{
    f2c_words y;
    F2C_MVE(y = vldrbq_s32(p), F2C_LANES(4) y.at[i] = p[i]);
    return y;
}

/** p[0..3]. */
static inline f2c_words f2c_words_from_u8(const uint8_t *p)
{
    f2c_words y;
    F2C_MVE(y = vreinterpretq_s32_u32(vldrbq_u32(p)), F2C_LANES(4) y.at[i] = p[i]);
    return y;
}

/** table[v - least], each 0..255 from the table's start. */
static inline f2c_words f2c_words_table_s8(const int8_t *table, f2c_words v, int32_t least)
{
    f2c_words y;
    F2C_MVE(y = vldrbq_gather_offset_s32(table, vreinterpretq_u32_s32(vsubq_n_s32(v, least))),
            F2C_LANES(4) y.at[i] = table[v.at[i] - least]);
    return y;
}

/** table[v - least], each 0..255 from the table's start. */
static inline f2c_words f2c_words_table_u8(const uint8_t *table, f2c_words v, int32_t least)
{
    f2c_words y;
    F2C_MVE(y = vreinterpretq_s32_u32(vldrbq_gather_offset_u32(table, vreinterpretq_u32_s32(vsubq_n_s32(v, least)))),
            F2C_LANES(4) y.at[i] = table[v.at[i] - least]);
    return y;
}

/** p[0..3] = v limited to -128..127. */
static inline void f2c_words_to_s8(int8_t *p, f2c_words v)
{
    F2C_MVE(
        __asm__("vqmovnb.s32 %q0, %q0\n\tvqmovnb.s16 %q0, %q0" : "+w"(v));
        vstrbq_s32(p, v),
        F2C_LANES(4) p[i] = (int8_t)f2c_clamp_s32(v.at[i], -128, 127));
}

/** p[0..3] = v limited to 0..255. */
static inline void f2c_words_to_u8(uint8_t *p, f2c_words v)
{
    F2C_MVE(
        __asm__("vqmovunb.s32 %q0, %q0\n\tvqmovnb.u16 %q0, %q0" : "+w"(v));
        vstrbq_u32(p, vreinterpretq_u32_s32(v)),
        F2C_LANES(4) p[i] = (uint8_t)f2c_clamp_s32(v.at[i], 0, 255));
}

/** p[0..3] = v. */
static inline void f2c_words_store(int32_t *p, f2c_words v)
{
    F2C_MVE(vstrwq_s32(p, v), F2C_LANES(4) p[i] = v.at[i]);
}

/** a + b. */
static inline f2c_words f2c_words_add(f2c_words a, f2c_words b)
{
    f2c_words y;
    F2C_MVE(y = vaddq_s32(a, b), F2C_LANES(4) y.at[i] = f2c_wrapping_sum(a.at[i], b.at[i], 0));
    return y;
}

/** v limited to low..high. */
static inline f2c_words f2c_words_clamp(f2c_words v, int32_t low, int32_t high)
{
    f2c_words y;
    F2C_MVE(y = vminq_s32(vmaxq_s32(v, vdupq_n_s32(low)), vdupq_n_s32(high)),
            F2C_LANES(4) y.at[i] = f2c_clamp_s32(v.at[i], low, high));
    return y;
}

/** p[0..3] = v >> shift rounded half up and limited to -128..127; shift 1..16, constant. */
static F2C_INLINE void f2c_words_shift_to_s8(int8_t *p, f2c_words v, int32_t shift)
{
    F2C_MVE(
        __asm__("vqrshrnb.s32 %q0, %q0, %1\n\tvqmovnb.s16 %q0, %q0" : "+w"(v) : "i"(shift));
        vstrbq_s32(p, v),
        F2C_LANES(4) p[i] = (int8_t)f2c_clamp_s32((((v.at[i] >> (shift - 1)) + 1) >> 1), -128, 127));
}

/** p[0..3] = v >> shift rounded half up and limited to 0..255. */
static F2C_INLINE void f2c_words_shift_to_u8(uint8_t *p, f2c_words v, int32_t shift)
{
    F2C_MVE(
        __asm__("vqrshrunb.s32 %q0, %q0, %1\n\tvqmovnb.u16 %q0, %q0" : "+w"(v) : "i"(shift));
        vstrbq_u32(p, vreinterpretq_u32_s32(v)),
        F2C_LANES(4) p[i] = (uint8_t)f2c_clamp_s32((((v.at[i] >> (shift - 1)) + 1) >> 1), 0, 255));
}

/** ((acc * mult) >> 32) + offset. Constants are vectors: those stay in registers from tile to tile. */
static inline f2c_words f2c_words_scale(f2c_words acc, f2c_words mult, int32_t offset)
{
    f2c_words y;
    F2C_MVE(y = vaddq_s32(vmulhq_s32(acc, mult), vdupq_n_s32(offset)),
            F2C_LANES(4) y.at[i] = f2c_requant(acc.at[i], mult.at[i], offset, 0));
    return y;
}

/** f2c_requant of four accumulators. */
static inline f2c_words f2c_words_requant(f2c_words acc, f2c_words mult, int32_t offset, int32_t shift)
{
    f2c_words y;
    F2C_MVE(y = vshlq_s32(f2c_words_scale(acc, mult, offset), vdupq_n_s32(-shift)),
            F2C_LANES(4) y.at[i] = f2c_requant(acc.at[i], mult.at[i], offset, shift));
    return y;
}

/** f2c_half_to_even of four numbers. */
static inline f2c_words f2c_words_even(f2c_words v, int32_t offset, int32_t shift)
{
    f2c_words y;
    F2C_MVE(y = vaddq_s32(vaddq_s32(v, vdupq_n_s32(offset)), vandq_s32(vshlq_s32(v, vdupq_n_s32(-shift)), vdupq_n_s32(1))),
            F2C_LANES(4) y.at[i] = f2c_half_to_even(v.at[i], offset, shift));
    return y;
}

/** f2c_halve of four numbers. */
static inline f2c_words f2c_words_halve(f2c_words v, int32_t offset, int32_t shift)
{
    f2c_words y;
    F2C_MVE(y = vshlq_s32(f2c_words_even(v, offset, shift), vdupq_n_s32(-shift)),
            F2C_LANES(4) y.at[i] = f2c_halve(v.at[i], offset, shift));
    return y;
}

/** Four numbers times one. */
static inline f2c_words f2c_words_times(f2c_words v, int32_t by)
{
    f2c_words y;
    F2C_MVE(y = vmulq_s32(v, vdupq_n_s32(by)), F2C_LANES(4) y.at[i] = v.at[i] * by);
    return y;
}

/** p[0..3]. */
static inline f2c_reals f2c_reals_at(const float *p)
{
    f2c_reals y;
    F2C_MVE(y = vldrwq_f32(p), F2C_LANES(4) y.at[i] = p[i]);
    return y;
}

/** Four times v. */
static inline f2c_reals f2c_reals_same(float v)
{
    f2c_reals y;
    F2C_MVE(y = vdupq_n_f32(v), F2C_LANES(4) y.at[i] = v);
    return y;
}

/** acc * scale rounded half to even, plus zero; limits of 8 bits are still to be applied, what is beyond 16 may be off. */
static inline f2c_words f2c_words_requant_float(f2c_words acc, f2c_reals scale, int32_t zero)
{
    f2c_words y;
    F2C_MVE(y = vqaddq_n_s32(vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(acc), scale)), zero),
            F2C_LANES(4) y.at[i] = f2c_requant_float(acc.at[i], scale.at[i], -32768, 32767) + zero);
    return y;
}

/** a / scale rounded half to even, plus zero; NaN becomes low. Limits of 8 bits, low among them, are still to be applied. */
static inline f2c_words f2c_words_quantise(f2c_reals a, float scale, int32_t zero, int32_t low)
{
    f2c_words y;
    F2C_MVE(
        __asm__("vmov q0, %q0\n\tvdiv.f32 s0, s0, %1\n\tvdiv.f32 s1, s1, %1\n\tvdiv.f32 s2, s2, %1\n\tvdiv.f32 s3, s3, %1\n\t"
                "vmov %q0, q0" : "+w"(a) : "t"(scale) : "q0");
        y = vqaddq_n_s32(vcvtnq_s32_f32(vmaxnmq_f32(a, vdupq_n_f32((float)(low - zero)))), zero),
        F2C_LANES(4) y.at[i] = f2c_quantise(a.at[i], scale, zero, low, 32767));
    return y;
}

/** ((a * ma + k + b * mb) >> shift) + zero. */
static inline f2c_words f2c_words_weigh(f2c_words a, int32_t ma, f2c_words b, int32_t mb, int32_t k, int32_t shift,
                                        int32_t zero)
{
    f2c_words y;
    F2C_MVE(y = vaddq_n_s32(vshlq_r_s32(vmlaq_n_s32(vmlaq_n_s32(vdupq_n_s32(k), a, ma), b, mb), -shift), zero),
            F2C_LANES(4) y.at[i] = (((a.at[i] * ma) + k + (b.at[i] * mb)) >> shift) + zero);
    return y;
}

/** (a - za) * (b - zb). */
static inline f2c_words f2c_words_product(f2c_words a, int32_t za, f2c_words b, int32_t zb)
{
    f2c_words y;
    F2C_MVE(y = vmulq_s32(vsubq_n_s32(a, za), vsubq_n_s32(b, zb)), F2C_LANES(4) y.at[i] = (a.at[i] - za) * (b.at[i] - zb));
    return y;
}

/** n bytes; `to` and `from` do not overlap. */
static inline void f2c_copy(int8_t *to, const int8_t *from, int32_t n)
{
    F2C_MVE(
        const int32_t words = ((n < 16) && ((n % 4) == 0)) ? n : 0;
        for (int32_t i = 0; i < words; i += 4) {
            f2c_store4(&to[i], f2c_load4(&from[i]));
        }
        for (int32_t i = words; i < (n & -16); i += 16) {
            vstrbq_s8(&to[i], vldrbq_s8(&from[i]));
        }
        if ((n % 16) > words) {
            const mve_pred16_t p = vctp8q((uint32_t)n % 16u);
            vstrbq_p_s8(&to[n & -16], vldrbq_z_s8(&from[n & -16], p), p);
        },
        F2C_LANES(n) to[i] = from[i];)
}

/** n times v. */
static inline void f2c_fill(int8_t *to, int8_t v, int32_t n)
{
    F2C_MVE(
        for (int32_t i = 0; i < n; i += 16) {
            vstrbq_p_s8(&to[i], vdupq_n_s8(v), vctp8q((uint32_t)(n - i)));
        },
        F2C_LANES(n) to[i] = v;)
}

#endif /* F2C_MVE_H */
