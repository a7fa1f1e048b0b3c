/** @file f2c_fpu.h  Loads of neighbouring floats for the tiles of Arm's FPU: two elements of a pixel, weights of four outputs.
 *
 * One VLDM each, where single loads would be a third of the inner loop. Sixteen sums and products between take s0..s19.
 */
#ifndef F2C_FPU_H
#define F2C_FPU_H

#include "f2c_config.h"
#include "f2c_config_arm.h"

/** Two neighbouring elements. */
typedef struct {
    float a;
    float b;
} f2c_two;

/** Four of them. */
typedef struct {
    float a;
    float b;
    float c;
    float d;
} f2c_four;

/** The next two elements of the first pixel of a tile at *p, which moves on behind them. */
static F2C_INLINE f2c_two f2c_two_of_0(const float **p)
{
    f2c_two y;
    F2C_LOAD2(y, *p, "s24", "s25");
    return y;
}

/** The same of the second pixel. */
static F2C_INLINE f2c_two f2c_two_of_1(const float **p)
{
    f2c_two y;
    F2C_LOAD2(y, *p, "s26", "s27");
    return y;
}

/** The same of the third pixel. */
static F2C_INLINE f2c_two f2c_two_of_2(const float **p)
{
    f2c_two y;
    F2C_LOAD2(y, *p, "s28", "s29");
    return y;
}

/** The same of the fourth pixel. */
static F2C_INLINE f2c_two f2c_two_of_3(const float **p)
{
    f2c_two y;
    F2C_LOAD2(y, *p, "s30", "s31");
    return y;
}

/** The next two weights. */
static F2C_INLINE f2c_two f2c_two_next(const float **p)
{
    f2c_two y;
    F2C_LOAD2(y, *p, "s20", "s21");
    return y;
}

/** The next four weights. */
static F2C_INLINE f2c_four f2c_four_next(const float **p)
{
    f2c_four y;
    F2C_LOAD4(y, *p, "s20", "s21", "s22", "s23");
    return y;
}

/** The next one. */
static F2C_INLINE float f2c_one_next(const float **p)
{
    const float y = **p;
    ++*p;
    return y;
}

#endif /* F2C_FPU_H */
