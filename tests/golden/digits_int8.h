/** @file digits_int8.h
 *  digits_int8, compiled by fuse2c for: Arm Cortex-M4 with FPU.
 *  198976 multiply-accumulates and 1 kernels an inference; 11420 bytes of constants.
 */
#ifndef DIGITS_INT8_H
#define DIGITS_INT8_H

#include <stdint.h>

#include "f2c.h"

#if F2C_API != 1
#error "f2c.h and digits_int8.h are of different versions: regenerate"
#endif

/* input image: int8 [1, 1, 8, 8] */
#define DIGITS_INT8_IMAGE_COUNT 64
#define DIGITS_INT8_IMAGE_SCALE 0.003921569f    /* real = scale * (stored - zero) */
#define DIGITS_INT8_IMAGE_ZERO (-128)

/* output probabilities: int8 [1, 10] */
#define DIGITS_INT8_PROBABILITIES_COUNT 10
#define DIGITS_INT8_PROBABILITIES_SCALE 0.00390625f    /* real = scale * (stored - zero) */
#define DIGITS_INT8_PROBABILITIES_ZERO (-128)

/** Bytes of working memory: a buffer of the caller's, aligned to 8 bytes. */
#define DIGITS_INT8_ARENA_BYTES 3552

#ifdef __cplusplus
extern "C" {
#endif

/** One inference. Returns 0. Re-entrant: all state is in the arena, which may be reused between calls. */
int digits_int8_run(const int8_t *image, int8_t *probabilities, void *arena);

#ifdef F2C_COUNT
/** Work of all runs so far: multiply-accumulates, kernels begun, calls of kernel functions; bytes of operands and results
 *  (rows under a window each time) and of weights (for each row). */
extern uint64_t digits_int8_macs, digits_int8_launches, digits_int8_calls;
extern uint64_t digits_int8_read, digits_int8_written, digits_int8_weights;
#endif

#ifdef __cplusplus
}
#endif

#endif /* DIGITS_INT8_H */
