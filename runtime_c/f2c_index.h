/** @file f2c_index.h  Indices that come from tensors: whatever they hold, an access stays inside. */
#ifndef F2C_INDEX_H
#define F2C_INDEX_H

#include <stdint.h>

/** An index along an axis of n >= 1 elements: negative ones count from the end, what is then outside is limited. */
static inline int32_t f2c_index(int64_t i, int32_t n)
{
    const int64_t j = (i < 0) ? (i + n) : i;
    const int64_t low = (j < 0) ? 0 : j;
    return (low < n) ? (int32_t)low : (n - 1);
}

/** i modulo n, 0..n - 1, for n >= 1: an index into a ring. */
static inline int32_t f2c_ring(int64_t i, int32_t n)
{
    const int32_t rest = (int32_t)(i % n);
    return (rest < 0) ? (rest + n) : rest;
}

/** A number of elements out of n: i limited to 0..n. */
static inline int32_t f2c_length(int64_t i, int32_t n)
{
    const int64_t low = (i < 0) ? 0 : i;
    return (low < n) ? (int32_t)low : n;
}

#endif /* F2C_INDEX_H */
