/** @file f2c_wide.h  Vectors of floats as gcc and clang have them for any core: as wide as its registers, or of at most eight lanes.
 *
 * Products are added with one rounding where the core can, else with two: results differ in the last bits.
 */
#ifndef F2C_WIDE_H
#define F2C_WIDE_H

#include "f2c_config.h"
#include "f2c_config_wide.h"

#include F2C_WIDE_HEADER

/** F2C_WIDTH floats, and F2C_NARROW; anywhere in memory. */
typedef float f2c_wide __attribute__((vector_size(4 * F2C_WIDTH), aligned(4), may_alias));
typedef float f2c_narrow __attribute__((vector_size(4 * F2C_NARROW), aligned(4), may_alias));

/** p[0], p[1], ... */
static F2C_INLINE f2c_wide f2c_wide_at(const float *p)
{
    return *(const f2c_wide *)p;
}

/** p[0], p[1], ... */
static F2C_INLINE f2c_narrow f2c_narrow_at(const float *p)
{
    return *(const f2c_narrow *)p;
}

/** The same, held in a register for several uses. */
static F2C_INLINE f2c_wide f2c_wide_held(const float *p)
{
    f2c_wide v = f2c_wide_at(p);
    F2C_HELD(v);
    return v;
}

/** The same, held in a register for several uses. */
static F2C_INLINE f2c_narrow f2c_narrow_held(const float *p)
{
    f2c_narrow v = f2c_narrow_at(p);
    F2C_HELD(v);
    return v;
}

/** p[0], p[1], ... = v. */
static F2C_INLINE void f2c_wide_store(float *p, f2c_wide v)
{
    *(f2c_wide *)p = v;
}

/** p[0], p[1], ... = v. */
static F2C_INLINE void f2c_narrow_store(float *p, f2c_narrow v)
{
    *(f2c_narrow *)p = v;
}

/** sum + a * b in each lane. */
static F2C_INLINE f2c_wide f2c_wide_fused(f2c_wide sum, f2c_wide a, f2c_wide b)
{
    return F2C_FUSED(F2C_WIDTH, sum, a, b);
}

/** sum + a * b in each lane. */
static F2C_INLINE f2c_narrow f2c_narrow_fused(f2c_narrow sum, f2c_narrow a, f2c_narrow b)
{
    return F2C_FUSED(F2C_NARROW, sum, a, b);
}

/** sum + *x * w: one number for all lanes. */
static F2C_INLINE f2c_wide f2c_wide_add(f2c_wide sum, const float *x, f2c_wide w)
{
    return f2c_wide_fused(sum, *x - (f2c_wide){0}, w);
}

/** sum + *x * w: one number for all lanes. */
static F2C_INLINE f2c_narrow f2c_narrow_add(f2c_narrow sum, const float *x, f2c_narrow w)
{
    return f2c_narrow_fused(sum, *x - (f2c_narrow){0}, w);
}

#endif /* F2C_WIDE_H */
