/** @file f2c_reals_row.h  A row of floats times eight columns of a matrix, for Helium: what a dense layer sums up. */
#ifndef F2C_REALS_ROW_H
#define F2C_REALS_ROW_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_reals.h"

/** c[0..7] = sums over k of x[k] * w[8 * k], w[(8 * k) + 1], ..., w[(8 * k) + 7], k < depth, in order. */
static F2C_CORE void f2c_reals_row_times_8(const float *x, const float *w, int32_t depth, float *c)
{
    f2c_reals c0 = f2c_reals_same(0.0f), c1 = c0;
    for (int32_t k = 0; k < (depth / 4); ++k) {
        F2C_UNROLL_BY(2)
        for (int32_t n = 0; n < 2; ++n) {
            const f2c_two a = f2c_factors_next(&x);
            c0 = f2c_reals_add_times(c0, f2c_reals_next(&w), a.a);
            c1 = f2c_reals_add_times(c1, f2c_reals_next(&w), a.a);
            c0 = f2c_reals_add_times(c0, f2c_reals_next(&w), a.b);
            c1 = f2c_reals_add_times(c1, f2c_reals_next(&w), a.b);
        }
    }
    for (int32_t k = 0; k < (depth % 4); ++k) {
        c0 = f2c_reals_add_times(c0, f2c_reals_next(&w), x[k]);
        c1 = f2c_reals_add_times(c1, f2c_reals_next(&w), x[k]);
    }
    f2c_reals_store(c, c0);
    f2c_reals_store(&c[4], c1);
}

#endif /* F2C_REALS_ROW_H */
