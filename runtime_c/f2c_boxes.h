/** @file f2c_boxes.h  Overlap of rectangles. */
#ifndef F2C_BOXES_H
#define F2C_BOXES_H

#include <stdint.h>

#include "f2c_math.h"

/** The ends of a rectangle along one axis, low then high: from two corners, or from a centre and a size. */
static inline void f2c_box_side(float first, float second, int32_t centred, float *side)
{
    const float half = second / 2.0f;
    side[0] = (centred != 0) ? (first - half) : f2c_min(first, second);
    side[1] = (centred != 0) ? (first + half) : f2c_max(first, second);
}

/** Whether the intersection of two boxes over their union exceeds a threshold; boxes without an area overlap nothing.
 * A box is y1, x1, y2, x2 or, if `centred`, x, y of the centre, width, height. */
static inline int32_t f2c_boxes_overlap(const float *a, const float *b, int32_t centred, float threshold)
{
    float u[4], v[4];
    const float *const one[2] = { a, b };
    float *const sides[2] = { u, v };
    for (int32_t i = 0; i < 2; ++i) {
        f2c_box_side(one[i][0], one[i][2], centred, &sides[i][0]);
        f2c_box_side(one[i][1], one[i][3], centred, &sides[i][2]);
    }
    const float height = f2c_min(u[1], v[1]) - f2c_max(u[0], v[0]);
    const float width = f2c_min(u[3], v[3]) - f2c_max(u[2], v[2]);
    const float common = width * height;
    const float area = (u[1] - u[0]) * (u[3] - u[2]);
    const float other = (v[1] - v[0]) * (v[3] - v[2]);
    const float both = area + other - common;
    return ((width > 0.0f) && (height > 0.0f) && (common > 0.0f) && (area > 0.0f) && (other > 0.0f) && (both > 0.0f)
            && ((common / both) > threshold)) ? 1 : 0;
}

#endif /* F2C_BOXES_H */
