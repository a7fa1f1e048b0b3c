/** @file f2c_sample.h  Where GridSample reads along one axis of n elements: indices 0..n - 1 and their weights.
 *
 * `align`: -1 and 1 are the centres of the first and last element, else their outer edges. `padding`: 0 zeros outside,
 * 1 the border repeated, 2 mirrored. Whatever the coordinate is, NaN included, indices stay inside.
 */
#ifndef F2C_SAMPLE_H
#define F2C_SAMPLE_H

#include <stdint.h>

#include "f2c_math.h"
#include "f2c_quant.h"
#include "f2c_round.h"

/** v mirrored at low and high as often as it takes. */
static inline float f2c_mirror(float v, float low, float high)
{
    const float range = high - low;
    const float d = f2c_fmod(f2c_abs(v - low), 2.0f * range);
    return low + ((d <= range) ? d : ((2.0f * range) - d));
}

/** A coordinate -1..1 as a position 0..n - 1, padded; limited to a few elements outside. */
static inline float f2c_sample_at(float g, int32_t n, int32_t align, int32_t padding, int32_t whole)
{
    const float size = (float)n;
    const float real = (align != 0) ? (((g + 1.0f) / 2.0f) * (size - 1.0f)) : ((((g + 1.0f) * size) - 1.0f) / 2.0f);
    const float v = (whole != 0) ? f2c_round_even(real) : real;
    const float low = (align != 0) ? 0.0f : -0.5f;
    const float high = (size - 1.0f) - low;
    float at = v;
    if ((v < low) || (v > high)) {
        at = (padding == 1) ? f2c_clamp(v, 0.0f, size - 1.0f) : ((padding == 2) ? f2c_mirror(v, low, high) : v);
    }
    return (at == at) ? f2c_clamp(at, -4.0f, size + 4.0f) : -4.0f;
}

/** One tap: the index i padded, and its weight, which outside is 0 if zeros are there. */
static inline void f2c_tap(int32_t i, float weight, int32_t n, int32_t align, int32_t padding, int32_t *at, float *w)
{
    const float low = (align != 0) ? 0.0f : -0.5f;
    const int32_t outside = ((i < 0) || (i >= n)) ? 1 : 0;
    const int32_t mirrored = ((padding == 2) && (outside != 0) && (n > 1))
        ? (int32_t)f2c_mirror((float)i, low, ((float)n - 1.0f) - low) : i;
    *at = f2c_clamp_s32(mirrored, 0, n - 1);
    *w = ((padding == 0) && (outside != 0)) ? 0.0f : weight;
}

/** The nearest element. */
static inline void f2c_taps_nearest(float g, int32_t n, int32_t align, int32_t padding, int32_t *at, float *w)
{
    f2c_tap((int32_t)f2c_sample_at(g, n, align, padding, 1), 1.0f, n, align, padding, at, w);
}

/** The two elements around the position. */
static inline void f2c_taps_linear(float g, int32_t n, int32_t align, int32_t padding, int32_t *at, float *w)
{
    const float v = f2c_sample_at(g, n, align, padding, 0);
    const float left = f2c_floor(v);
    const float part = v - left;
    f2c_tap((int32_t)left, 1.0f - part, n, align, padding, &at[0], &w[0]);
    f2c_tap((int32_t)left + 1, part, n, align, padding, &at[1], &w[1]);
}

/** Keys's cubic kernel, a = -0.75, at a distance of up to one element. */
static inline float f2c_cubic_near(float d)
{
    return (((1.25f * d) - 2.25f) * d * d) + 1.0f;
}

/** Keys's cubic kernel, a = -0.75, at a distance of one to two elements. */
static inline float f2c_cubic_far(float d)
{
    return (((((-0.75f * d) + 3.75f) * d) - 6.0f) * d) + 3.0f;
}

/** The four elements around the position. */
static inline void f2c_taps_cubic(float g, int32_t n, int32_t align, int32_t padding, int32_t *at, float *w)
{
    const float v = f2c_sample_at(g, n, align, padding, 0);
    const float left = f2c_floor(v);
    const float part = v - left;
    const int32_t i = (int32_t)left;
    f2c_tap(i - 1, f2c_cubic_far(part + 1.0f), n, align, padding, &at[0], &w[0]);
    f2c_tap(i, f2c_cubic_near(part), n, align, padding, &at[1], &w[1]);
    f2c_tap(i + 1, f2c_cubic_near(1.0f - part), n, align, padding, &at[2], &w[2]);
    f2c_tap(i + 2, f2c_cubic_far(2.0f - part), n, align, padding, &at[3], &w[3]);
}

#endif /* F2C_SAMPLE_H */
