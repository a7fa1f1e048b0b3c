/** @file f2c_row.h  A row of floats times eight columns of a matrix, for Arm's FPU: what a dense layer sums up. */
#ifndef F2C_ROW_H
#define F2C_ROW_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_fpu.h"

/** Adds an element times the next four weights at w. */
#define F2C_ROW_TIMES_4(element, s0, s1, s2, s3) \
    { \
        const f2c_four v = f2c_four_next(&w); \
        s0 += (element) * v.a; \
        s1 += (element) * v.b; \
        s2 += (element) * v.c; \
        s3 += (element) * v.d; \
    }

/** c[0..7] = sums over k of x[k] * w[8 * k], w[(8 * k) + 1], ..., w[(8 * k) + 7], k < depth, in order. */
static F2C_CORE void f2c_row_times_8(const float *x, const float *w, int32_t depth, float *c)
{
    const int32_t rest = (depth % 8) / 2;
    float c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f, c4 = 0.0f, c5 = 0.0f, c6 = 0.0f, c7 = 0.0f;
    for (int32_t k = 0; k < depth / 8; ++k) {
        F2C_UNROLL_BY(4)
        for (int32_t n = 0; n < 4; ++n) {
            const f2c_two a = f2c_two_of_0(&x);
            F2C_ROW_TIMES_4(a.a, c0, c1, c2, c3)
            F2C_ROW_TIMES_4(a.a, c4, c5, c6, c7)
            F2C_ROW_TIMES_4(a.b, c0, c1, c2, c3)
            F2C_ROW_TIMES_4(a.b, c4, c5, c6, c7)
        }
    }
    for (int32_t n = 0; n < rest; ++n) {
        const f2c_two a = f2c_two_of_0(&x);
        F2C_ROW_TIMES_4(a.a, c0, c1, c2, c3)
        F2C_ROW_TIMES_4(a.a, c4, c5, c6, c7)
        F2C_ROW_TIMES_4(a.b, c0, c1, c2, c3)
        F2C_ROW_TIMES_4(a.b, c4, c5, c6, c7)
    }
    if ((depth % 2) != 0) {
        F2C_ROW_TIMES_4(*x, c0, c1, c2, c3)
        F2C_ROW_TIMES_4(*x, c4, c5, c6, c7)
    }
    c[0] = c0;
    c[1] = c1;
    c[2] = c2;
    c[3] = c3;
    c[4] = c4;
    c[5] = c5;
    c[6] = c6;
    c[7] = c7;
}

#endif /* F2C_ROW_H */
