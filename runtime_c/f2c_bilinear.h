/** @file f2c_bilinear.h  Values between the pixels of an image. */
#ifndef F2C_BILINEAR_H
#define F2C_BILINEAR_H

#include <stdint.h>

/** Bilinear interpolation at (y, x) in an image of height x width with zeros around it; NaN gives 0.
 *  step_y, step_x: distance of neighbours in elements. */
static inline float f2c_bilinear(const float *image, int32_t height, int32_t width, int32_t step_y, int32_t step_x,
    float y, float x)
{
    float sum = 0.0f;
    if ((y > -1.0f) && (y < (float)height) && (x > -1.0f) && (x < (float)width)) {
        const int32_t top = (int32_t)(y + 1.0f) - 1;
        const int32_t left = (int32_t)(x + 1.0f) - 1;
        for (int32_t i = 0; i < 2; ++i) {
            for (int32_t j = 0; j < 2; ++j) {
                const int32_t row = top + i;
                const int32_t col = left + j;
                if ((row >= 0) && (row < height) && (col >= 0) && (col < width)) {
                    const float down = (i == 0) ? ((float)(top + 1) - y) : (y - (float)top);
                    const float right = (j == 0) ? ((float)(left + 1) - x) : (x - (float)left);
                    sum += down * right * image[(row * step_y) + (col * step_x)];
                }
            }
        }
    }
    return sum;
}

/** The same in float64. */
static inline double f2c_bilinear_f64(const double *image, int32_t height, int32_t width, int32_t step_y, int32_t step_x,
    double y, double x)
{
    double sum = 0.0;
    if ((y > -1.0) && (y < (double)height) && (x > -1.0) && (x < (double)width)) {
        const int32_t top = (int32_t)(y + 1.0) - 1;
        const int32_t left = (int32_t)(x + 1.0) - 1;
        for (int32_t i = 0; i < 2; ++i) {
            for (int32_t j = 0; j < 2; ++j) {
                const int32_t row = top + i;
                const int32_t col = left + j;
                if ((row >= 0) && (row < height) && (col >= 0) && (col < width)) {
                    const double down = (i == 0) ? ((double)(top + 1) - y) : (y - (double)top);
                    const double right = (j == 0) ? ((double)(left + 1) - x) : (x - (double)left);
                    sum += down * right * image[(row * step_y) + (col * step_x)];
                }
            }
        }
    }
    return sum;
}

#endif /* F2C_BILINEAR_H */
