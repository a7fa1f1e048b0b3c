/** @file f2c_config.h  What depends on the compiler or the core; only f2c_config*.h have an #if. */
#ifndef F2C_CONFIG_H
#define F2C_CONFIG_H

/** F2C_ALIGN(n): a constant or buffer starts at a multiple of n bytes. */
#if defined(__GNUC__)
#define F2C_ALIGN(n) __attribute__((aligned(n)))
#else
#define F2C_ALIGN(n)
#endif

/** F2C_UNROLL: the next loop is short and hot; unroll it by four. */
#if defined(__clang__)
#define F2C_UNROLL _Pragma("clang loop unroll_count(4)")
#elif defined(__GNUC__)
#define F2C_UNROLL _Pragma("GCC unroll 4")
#else
#define F2C_UNROLL
#endif

/** F2C_KERNEL: a kernel stays a function of its own, compiled without knowledge of its callers. It is then one entry in
 *  a profile, a map file and a worst-case analysis; and gcc 12 at -O2 cannot specialise it for two addresses inside
 *  the arena, after which it was seen to remove the call. */
#if defined(__clang__)
#define F2C_KERNEL __attribute__((noinline))
#elif defined(__GNUC__)
#define F2C_KERNEL __attribute__((noipa))
#else
#define F2C_KERNEL
#endif

/** F2C_INLINE: a step of a kernel that consists of several. F2C_SHARED: the same, for several of them. */
#if defined(__GNUC__)
#define F2C_INLINE inline __attribute__((always_inline))
#define F2C_SHARED __attribute__((noinline))
#else
#define F2C_INLINE inline
#define F2C_SHARED
#endif

/** -DF2C_COUNT counts work in <name>_macs, <name>_launches (kernels begun) and <name>_calls (of kernel functions, one
 *  for each row where rows of several kernels alternate); see <name>.h.
 *  F2C_MACS(n): so many multiply-accumulates are done here. F2C_CALL(begins): a kernel is called, perhaps to begin.
 *  F2C_TRAFFIC(read, written, weights): a step reads and writes so many bytes in this call.
 *  F2C_ROWS_UNDER(extent, stride, pad, height): rows of an operand under the windows of rows row .. row_end - 1. */
#ifdef F2C_COUNT
static inline int32_t f2c_rows_under(int32_t row, int32_t row_end, int32_t extent, int32_t stride, int32_t pad, int32_t height)
{
    int32_t found = 0;
    for (int32_t at = row; at < row_end; ++at) {
        const int32_t first = (at * stride) - pad, end = first + extent;
        const int32_t inside = ((end < height) ? end : height) - ((first > 0) ? first : 0);
        found += (inside > 0) ? inside : 0;
    }
    return found;
}
#define F2C_ROWS_UNDER(extent, stride, pad, height) f2c_rows_under(row, row_end, (extent), (stride), (pad), (height))
#define F2C_TRAFFIC(read, written, weights) \
    (f2c_read += (uint64_t)(read), f2c_written += (uint64_t)(written), f2c_weights += (uint64_t)(weights))
#define F2C_MACS(n) (f2c_macs += (uint64_t)(n))
#define F2C_CALL(begins) (++f2c_calls, f2c_launches += (begins) ? 1u : 0u)
#else
#define F2C_MACS(n) ((void)0)
#define F2C_CALL(begins) ((void)0)
#define F2C_TRAFFIC(read, written, weights) ((void)0)
#endif

/** F2C_INFINITY, F2C_NAN: float constants, without a library. */
#if defined(__GNUC__)
#define F2C_INFINITY __builtin_inff()
#define F2C_NAN __builtin_nanf("")
#else
#include <math.h>
#define F2C_INFINITY INFINITY
#define F2C_NAN NAN
#endif

/** F2C_SETTLE(v): the float v, chosen by a condition, is a value here. gcc for Arm's FPU then has a conditional move, where
 *  it would skip what depends on v by a branch: code with one path takes the same time for all data. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__ARM_FP)
#define F2C_SETTLE(v) __asm__("" : "+t"(v))
#else
#define F2C_SETTLE(v) ((void)0)
#endif

/** F2C_RELU(y): a float y < 0 becomes 0, by one path; gcc was seen to skip the load of a zero by a branch. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__ARM_FP) && !defined(__ARM_FEATURE_MVE)
#define F2C_RELU(y) \
    __asm__("vcmp.f32 %0, #0.0\n\tvmrs APSR_nzcv, fpscr\n\tit mi\n\tvmovmi.f32 %0, %1" : "+t"(y) : "t"(0.0f) : "cc")
#else
#define F2C_RELU(y) \
    do { \
        float none_ = 0.0f; \
        F2C_SETTLE(none_); \
        (y) = ((y) < none_) ? none_ : (y); \
    } while (0)
#endif

/** F2C_KNOWN(v): v is a constant that the compiler knows here. F2C_SOFT(when, soft, hard): the expression `soft` on an Arm
 *  core without FPU, provided that `when`; else `hard`, which would call the compiler's routines there. */
#if defined(__GNUC__)
#define F2C_KNOWN(v) __builtin_constant_p((double)(v))    /* a cast, as -Wdouble-promotion sees a variadic call */
#else
#define F2C_KNOWN(v) 0
#endif
#if defined(__arm__) && !defined(__ARM_FP)
#define F2C_SOFT(when, soft, hard) ((when) ? (soft) : (hard))
#else
#define F2C_SOFT(when, soft, hard) (hard)
#endif

/** F2C_SQRT(y, x): y = the square root of x, by the instruction where there is one: the compiler's builtin would call
 *  sqrtf for errno. */
#if defined(__GNUC__) && defined(__SSE__)
#define F2C_SQRT(y, x) __asm__("sqrtss %1, %0" : "=x"(y) : "x"(x))
#elif defined(__GNUC__) && defined(__aarch64__)
#define F2C_SQRT(y, x) __asm__("fsqrt %s0, %s1" : "=w"(y) : "w"(x))
#elif defined(__GNUC__) && defined(__ARM_FP)
#define F2C_SQRT(y, x) __asm__("vsqrt.f32 %0, %1" : "=t"(y) : "t"(x))
#else
#define F2C_SQRT(y, x) ((y) = f2c_sqrt_soft(x))
#endif

/** F2C_HIGH_PRODUCT(a, b): (a * b) >> 32 for b >= 0; Armv6-M would call a function for a product of 64 bits. */
#if defined(__thumb__) && !defined(__thumb2__)
#define F2C_HIGH_PRODUCT(a, b) f2c_high_product((a), (b))
#else
#define F2C_HIGH_PRODUCT(a, b) ((int32_t)(((int64_t)(a) * (b)) >> 32))
#endif

/** F2C_LONG_PRODUCT(a, b): all bits of a * b for uint32_t; F2C_SIGNED_PRODUCT(a, b): for |a| <= 2^31 and an int32_t b >= 0.
 *  F2C_MIN(a, b), F2C_MAX(a, b): of int32_t. Armv6-M has neither such products nor conditional instructions: the compiler
 *  would have data decide branches. */
#if defined(__thumb__) && !defined(__thumb2__)
#define F2C_LONG_PRODUCT(a, b) f2c_long_product((a), (b))
#define F2C_SIGNED_PRODUCT(a, b) f2c_signed_product((a), (b))
#define F2C_MIN(a, b) f2c_min_masked((a), (b))
#define F2C_MAX(a, b) (~f2c_min_masked(~(a), ~(b)))
#else
#define F2C_LONG_PRODUCT(a, b) ((uint64_t)(a) * (b))
#define F2C_SIGNED_PRODUCT(a, b) ((int64_t)(a) * (b))
#define F2C_MIN(a, b) (((a) > (b)) ? (b) : (a))
#define F2C_MAX(a, b) (((a) < (b)) ? (b) : (a))
#endif

/** F2C_RECIPROCAL(numerator, sum): see f2c_reciprocal. Armv6-M has no division. */
#if defined(__thumb__) && !defined(__thumb2__)
#define F2C_RECIPROCAL(numerator, sum) f2c_reciprocal_by_bits((numerator), (sum))
#else
#define F2C_RECIPROCAL(numerator, sum) f2c_reciprocal_by_parts((numerator), (sum))
#endif

/** F2C_MAX_NARROW(a, b): of numbers of at most 16 bits. */
#if defined(__thumb__) && !defined(__thumb2__)
#define F2C_MAX_NARROW(a, b) ((a) + (((b) - (a)) & ~(((b) - (a)) >> 31)))
#else
#define F2C_MAX_NARROW(a, b) F2C_MAX((a), (b))
#endif

/** F2C_SATURATE(y, name, low, high, v, shift): y = v >> shift limited to low..high, the range of 8 bits that the
 *  instruction `name` has; shift 1..31. One instruction where the compiler knows the shift; masks where the core has
 *  no conditional instructions either, so that there is one path. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__ARM_FEATURE_SAT)
#define F2C_SATURATE(y, name, low, high, v, shift) \
    do { \
        if (__builtin_constant_p(shift)) { \
            __asm__(name " %0, #8, %1, asr %2" : "=r"(y) : "r"(v), "i"(shift)); \
        } else { \
            __asm__(name " %0, #8, %1" : "=r"(y) : "r"((v) >> (shift))); \
        } \
    } while (0)
#elif defined(__thumb__) && !defined(__thumb2__)
#define F2C_SATURATE(y, name, low, high, v, shift) ((y) = f2c_clamp_masked((v) >> (shift), (low), (high)))
#else
#define F2C_SATURATE(y, name, low, high, v, shift) ((y) = f2c_clamp_s32((v) >> (shift), (low), (high)))
#endif

/** F2C_COPY(to, from, n): n bytes, a constant; a load or a store where the core has one, even with -ffreestanding. */
#if defined(__GNUC__)
#define F2C_COPY(to, from, n) ((void)__builtin_memcpy((to), (from), (n)))
#else
#include <string.h>
#define F2C_COPY(to, from, n) ((void)memcpy((to), (from), (n)))
#endif

/** F2C_CORE: the innermost loops of a kernel, a function of its own whose statements are in the order in which they
 *  should run: gcc's first scheduler would load far ahead and run out of registers (measured on Cortex-M4: 40 % more).
 *  Where words are multiplied (Cortex-M3, M0+) it would sum up products in an order of its own, with additions of their
 *  own and more registers (10 % more, and 50 %). */
#if defined(__clang__)
#define F2C_CORE __attribute__((noinline))
#elif defined(__GNUC__) && defined(__ARM_FEATURE_DSP)
#define F2C_CORE __attribute__((noipa, optimize("no-schedule-insns")))
#elif defined(__GNUC__) && defined(__arm__)
#define F2C_CORE __attribute__((noipa, optimize("no-tree-reassoc")))
#elif defined(__GNUC__)
#define F2C_CORE __attribute__((noipa))
#else
#define F2C_CORE
#endif

/** F2C_ROW_CORE: the same for a loop that needs all registers. gcc would also copy it for a stride of one, collect bytes in
 *  a register to store them as a word, and keep more addresses than there are registers for. F2C_TILE_CORE: around a block
 *  that takes all of them (F2C_ALL_REGISTERS), gcc would keep constants from trip to trip, and load each where it is used. */
#if defined(__clang__)
#define F2C_ROW_CORE __attribute__((noinline))
#define F2C_TILE_CORE __attribute__((noinline))
#elif defined(__GNUC__) && defined(__ARM_FEATURE_DSP)
#define F2C_FEW "no-schedule-insns", "no-tree-slp-vectorize", "no-version-loops-for-strides", "no-ivopts"
#define F2C_ROW_CORE __attribute__((noipa, optimize(F2C_FEW)))
#define F2C_TILE_CORE __attribute__((noipa, optimize(F2C_FEW, "no-move-loop-invariants", "no-gcse")))
#elif defined(__GNUC__)
#define F2C_ROW_CORE __attribute__((noipa))
#define F2C_TILE_CORE __attribute__((noipa))
#else
#define F2C_ROW_CORE
#define F2C_TILE_CORE
#endif

/** F2C_IN_MEMORY(array): its elements are loaded again from here on. gcc would load them all ahead, and spill them. */
#if defined(__GNUC__)
#define F2C_IN_MEMORY(array) __asm__("" : "+m"(array))
#else
#define F2C_IN_MEMORY(array) ((void)0)
#endif

/** F2C_UNTIED(p): the pointer p is what it is by no rule that the compiler knows. A loop then ends by its counter, of which an
 *  analyser of the machine code sees how often it turns; gcc would compare with p's last value. Not on Armv6-M, which has no
 *  register for another counter. */
#if defined(__GNUC__) && !(defined(__thumb__) && !defined(__thumb2__))
#define F2C_UNTIED(p) __asm__("" : "+r"(p))
#else
#define F2C_UNTIED(p) ((void)0)
#endif

/** F2C_VECTOR_CORE: the same for Helium. gcc would also keep r14 for a loop counter, which leaves too few even registers,
 *  and delay sums until they are needed, which takes more vectors than there are. */
#if defined(__clang__)
#define F2C_VECTOR_CORE __attribute__((noinline))
#elif defined(__GNUC__)
#define F2C_VECTOR_CORE __attribute__((noipa, optimize("no-branch-count-reg", "no-schedule-insns", "no-tree-ter")))
#else
#define F2C_VECTOR_CORE
#endif

/** F2C_UNROLL_BY(n): the next loop is short and hot; unroll it by n, which divides its trips. */
#define F2C_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define F2C_UNROLL_BY(n) F2C_PRAGMA(clang loop unroll_count(n))
#elif defined(__GNUC__)
#define F2C_UNROLL_BY(n) F2C_PRAGMA(GCC unroll n)
#else
#define F2C_UNROLL_BY(n)
#endif

/** F2C_LOOPBOUND(least, most): turns of the next loop. With -DF2C_LOOPBOUNDS it is the pragma that TACLeBench has for
 *  analysers of the source; without, nothing: compilers warn about pragmas that they do not know. */
#ifdef F2C_LOOPBOUNDS
#define F2C_LOOPBOUND(least, most) F2C_PRAGMA(loopbound min least max most)
#else
#define F2C_LOOPBOUND(least, most)
#endif

/* A product and a sum round twice, as in the reference: never contracted to a fused multiply-add by clang.
 * gcc does not contract under -std=c99; under -std=gnu* give -ffp-contract=off. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#endif /* F2C_CONFIG_H */
