/** @file f2c_reals.h  Four floats at a time for Helium: what the kernels of float32 layers load, sum up and finish.
 *
 * VFMA rounds once; so do the portable bodies, but for one sum in some 2^29 (a product of floats is exact in double, the sum
 * is rounded to double first). Helium takes denormal numbers for zeros.
 */
#ifndef F2C_REALS_H
#define F2C_REALS_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_fpu.h"
#include "f2c_mve.h"

/** a * b + c, rounded once. */
static inline float f2c_fused(float a, float b, float c)
{
    return (float)(((double)a * (double)b) + (double)c);
}

/** The next two floats at *p, which moves on behind them, as factors of vectors: in core registers. */
static F2C_INLINE f2c_two f2c_factors_next(const float **p)
{
    f2c_two y;
    F2C_MVE(__asm__("ldrd %0, %1, [%2], #8" : "=r"(y.a), "=r"(y.b), "+r"(*p) : "m"(*(const float (*)[2])*p)),
            y.a = (*p)[0];
            y.b = (*p)[1];
            *p += 2);
    return y;
}

/** The next four floats at *p, which moves on behind them. */
static F2C_INLINE f2c_reals f2c_reals_next(const float **p)
{
    const f2c_reals y = f2c_reals_at(*p);
    *p += 4;
    return y;
}

/** Stores v. */
static F2C_INLINE void f2c_reals_store(float *p, f2c_reals v)
{
    F2C_MVE(vstrwq_f32(p, v), F2C_LANES(4) p[i] = v.at[i]);
}

/** c + v * x. */
static F2C_INLINE f2c_reals f2c_reals_add_times(f2c_reals c, f2c_reals v, float x)
{
    f2c_reals y;
    F2C_MVE(y = vfmaq_n_f32(c, v, x), F2C_LANES(4) y.at[i] = f2c_fused(v.at[i], x, c.at[i]));
    return y;
}

/** c + a * b, lane by lane. */
static F2C_INLINE f2c_reals f2c_reals_add_products(f2c_reals c, f2c_reals a, f2c_reals b)
{
    f2c_reals y;
    F2C_MVE(y = vfmaq_f32(c, a, b), F2C_LANES(4) y.at[i] = f2c_fused(a.at[i], b.at[i], c.at[i]));
    return y;
}

/** a + b. */
static F2C_INLINE f2c_reals f2c_reals_add(f2c_reals a, f2c_reals b)
{
    f2c_reals y;
    F2C_MVE(y = vaddq_f32(a, b), F2C_LANES(4) y.at[i] = a.at[i] + b.at[i]);
    return y;
}

/** Whole numbers as floats. */
static F2C_INLINE f2c_reals f2c_reals_from(f2c_words v)
{
    f2c_reals y;
    F2C_MVE(y = vcvtq_f32_s32(v), F2C_LANES(4) y.at[i] = (float)v.at[i]);
    return y;
}

/** a - b. */
static F2C_INLINE f2c_reals f2c_reals_sub(f2c_reals a, f2c_reals b)
{
    f2c_reals y;
    F2C_MVE(y = vsubq_f32(a, b), F2C_LANES(4) y.at[i] = a.at[i] - b.at[i]);
    return y;
}

/** a * b. */
static F2C_INLINE f2c_reals f2c_reals_mul(f2c_reals a, f2c_reals b)
{
    f2c_reals y;
    F2C_MVE(y = vmulq_f32(a, b), F2C_LANES(4) y.at[i] = a.at[i] * b.at[i]);
    return y;
}

/** The greater of each lane and `low`; NaN stays. */
static F2C_INLINE f2c_reals f2c_reals_max(f2c_reals v, float low)
{
    f2c_reals y;
    F2C_MVE(const f2c_reals least = vdupq_n_f32(low);
            F2C_LIMIT(y, v, least, least, v, "%q3, %q2"),
            F2C_LANES(4) y.at[i] = (v.at[i] < low) ? low : v.at[i]);
    return y;
}

/** The greater of both in each lane; the first NaN stays. */
static F2C_INLINE f2c_reals f2c_reals_larger(f2c_reals a, f2c_reals v)
{
    f2c_reals y;
    F2C_MVE(F2C_LARGER(y, a, v),
            F2C_LANES(4) y.at[i] = ((a.at[i] < v.at[i]) || ((v.at[i] != v.at[i]) && (a.at[i] == a.at[i]))) ? v.at[i] : a.at[i]);
    return y;
}

/** The lesser of each lane and `high`; NaN stays. */
static F2C_INLINE f2c_reals f2c_reals_min(f2c_reals v, float high)
{
    f2c_reals y;
    F2C_MVE(const f2c_reals most = vdupq_n_f32(high);
            F2C_LIMIT(y, v, most, v, most, "%q2, %q3"),
            F2C_LANES(4) y.at[i] = (v.at[i] > high) ? high : v.at[i]);
    return y;
}

#endif /* F2C_REALS_H */
