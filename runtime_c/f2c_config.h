/** @file f2c_config.h  Everything that depends on the compiler or the core; no other header has an #if. */
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
#define F2C_RELU(y) ((y) = ((y) < 0.0f) ? 0.0f : (y))
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

/** F2C_DSP1(y, name, a, suffix, portable) and so on: y = the result of an instruction of Arm's DSP extension on a, b, c;
 *  on other cores that of the portable expression. */
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP)
#define F2C_DSP1(y, name, a, suffix, portable) __asm__(name " %0, %1" suffix : "=r"(y) : "r"(a))
#define F2C_DSP2(y, name, a, b, suffix, portable) __asm__(name " %0, %1, %2" suffix : "=r"(y) : "r"(a), "r"(b))
#define F2C_DSP3(y, name, a, b, c, portable) __asm__(name " %0, %1, %2, %3" : "=r"(y) : "r"(a), "r"(b), "r"(c))
#else
#define F2C_DSP1(y, name, a, suffix, portable) ((y) = (portable))
#define F2C_DSP2(y, name, a, b, suffix, portable) ((y) = (portable))
#define F2C_DSP3(y, name, a, b, c, portable) ((y) = (portable))
#endif

/** F2C_DSP_MAX(y, name, a, b, portable): y = the larger bytes of a and b; `name` subtracts, and notes which are. */
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP)
#define F2C_DSP_MAX(y, name, a, b, portable) __asm__(name " %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(y) : "r"(a), "r"(b))
#else
#define F2C_DSP_MAX(y, name, a, b, portable) ((y) = (portable))
#endif

/** F2C_NO_BLOCKS: for you to define where options take a register away (-fno-omit-frame-pointer, -ffixed-r9): gcc then finds
 *  none for a block that takes all of them, and there is no macro by which it says so. The same in C takes its place.
 *  F2C_ALL_REGISTERS(arm, portable): statements with such a block and Arm's DSP extension, and statements for other cores and
 *  compilers. Without optimisation there is no register for it, clang refuses it. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && defined(__ARM_FEATURE_DSP) && !defined(F2C_NO_BLOCKS)
#define F2C_ALL_REGISTERS(arm, portable) arm
#else
#define F2C_ALL_REGISTERS(arm, portable) portable
#endif

/** F2C_LOAD2(y, p, r0, r1) and F2C_LOAD4(y, p, r0, r1, r2, r3): the members a, b (and c, d) of y = the floats at p, which moves
 *  on behind them. One instruction on a core with an FPU, which loads neighbouring registers: those named. */
#if defined(__GNUC__) && defined(__ARM_FP)
#define F2C_LOAD2(y, p, r0, r1) \
    do { \
        register float f2c_a __asm__(r0), f2c_b __asm__(r1); \
        __asm__("vldmia %0!, {" r0 ", " r1 "}" : "+r"(p), "=t"(f2c_a), "=t"(f2c_b) : "m"(*(const float (*)[2])(p))); \
        (y).a = f2c_a; \
        (y).b = f2c_b; \
    } while (0)
#define F2C_LOAD4(y, p, r0, r1, r2, r3) \
    do { \
        register float f2c_a __asm__(r0), f2c_b __asm__(r1), f2c_c __asm__(r2), f2c_d __asm__(r3); \
        __asm__("vldmia %0!, {" r0 ", " r1 ", " r2 ", " r3 "}" \
                : "+r"(p), "=t"(f2c_a), "=t"(f2c_b), "=t"(f2c_c), "=t"(f2c_d) : "m"(*(const float (*)[4])(p))); \
        (y).a = f2c_a; \
        (y).b = f2c_b; \
        (y).c = f2c_c; \
        (y).d = f2c_d; \
    } while (0)
#else
#define F2C_LOAD2(y, p, r0, r1) ((y).a = (p)[0], (y).b = (p)[1], (p) += 2)
#define F2C_LOAD4(y, p, r0, r1, r2, r3) ((y).a = (p)[0], (y).b = (p)[1], (y).c = (p)[2], (y).d = (p)[3], (p) += 4)
#endif

/** F2C_LOAD3(a, b, c, p): a, b, c = the three words at p, which then points behind them; in one instruction, which gcc does
 *  not form by itself: it loads each where it is first used. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__ARM_FEATURE_DSP)
#define F2C_LOAD3(a, b, c, p) \
    do { \
        register int32_t f2c_first __asm__("r4"), f2c_second __asm__("r5"), f2c_third __asm__("r6"); \
        __asm__("ldmia %3!, {%0, %1, %2}" : "=r"(f2c_first), "=r"(f2c_second), "=r"(f2c_third), "+r"(p) \
                : "m"(*(const int32_t(*)[3])(p))); \
        (a) = f2c_first, (b) = f2c_second, (c) = f2c_third; \
    } while (0)
#else
#define F2C_LOAD3(a, b, c, p) ((a) = (p)[0], (b) = (p)[1], (c) = (p)[2], (p) += 3)
#endif

/** F2C_MVE(arm, portable): statements for a core with Helium (MVE), and for others; F2C_VECTOR(arm, lane, n): the type of n
 *  lanes, F2C_VECTOR_HEADER: what declares it. F2C_MVE_BLOCK: F2C_MVE for a block of assembly that takes all core registers.
 *  Without optimisation compilers find no registers for the blocks of assembly in f2c_dots.h: the portable statements, too. */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE == 3)
#define F2C_VECTOR_HEADER <arm_mve.h>
#define F2C_VECTOR(arm, lane, n) arm
#define F2C_MVE(arm, ...) arm
#if defined(F2C_NO_BLOCKS)
#define F2C_MVE_BLOCK(arm, ...) __VA_ARGS__
#else
#define F2C_MVE_BLOCK(arm, ...) arm
#endif
#else
#define F2C_VECTOR_HEADER <stdint.h>
#define F2C_VECTOR(arm, lane, n) struct { lane at[n]; }
#define F2C_MVE(arm, ...) __VA_ARGS__
#define F2C_MVE_BLOCK(arm, ...) __VA_ARGS__
#endif

/** F2C_LIMIT(y, v, sign, name, limit): y = v, but `limit` in the lanes that are lt, or gt, it: `sign` says so to the assembler,
 *  `name` to an intrinsic. gcc 12 would take the predicate to a core register and back. */
#if defined(__clang__)
#define F2C_LIMIT(y, v, sign, name, limit) (y = vpselq_f32(vdupq_n_f32(limit), v, vcmp##name##q_n_f32(v, limit)))
#else
#define F2C_LIMIT(y, v, sign, name, limit) \
    mve_pred16_t f2c_lanes; \
    __asm__("vcmp.f32 " sign ", %q2, %3\n\tvpsel %q0, %q4, %q2" \
            : "=w"(y), "=Up"(f2c_lanes) : "w"(v), "r"(limit), "w"(vdupq_n_f32(limit)))
#endif

/** F2C_WIDTH: lanes of 32 bits in the widest vector that the core has registers for; F2C_NARROW: the same, eight at most.
 *  F2C_MOST_SUMS: how many such vectors of sums fit into the registers beside what they are made of.
 *  F2C_FUSED(n, sum, a, b): sum + a * b for vectors of n floats, rounded once where the core has that instruction. */
#if defined(__AVX512F__)
#define F2C_WIDTH 16
#define F2C_NARROW 8
#define F2C_MOST_SUMS 24
#elif defined(__AVX__)
#define F2C_WIDTH 8
#define F2C_NARROW 8
#define F2C_MOST_SUMS 12
#elif defined(__aarch64__)
#define F2C_WIDTH 4
#define F2C_NARROW 4
#define F2C_MOST_SUMS 24
#else
#define F2C_WIDTH 4
#define F2C_NARROW 4
#define F2C_MOST_SUMS 12
#endif
#if defined(__SSE2__)
#define F2C_WIDE_HEADER <immintrin.h>
#elif defined(__aarch64__)
#define F2C_WIDE_HEADER <arm_neon.h>
#else
#define F2C_WIDE_HEADER <stdint.h>
#endif
#if defined(__AVX512F__)
#define F2C_FUSED_16(sum, a, b) _mm512_fmadd_ps((a), (b), (sum))
#endif
#if defined(__FMA__)
#define F2C_FUSED_8(sum, a, b) _mm256_fmadd_ps((a), (b), (sum))
#elif defined(__AVX__)
#define F2C_FUSED_8(sum, a, b) ((sum) + ((a) * (b)))
#elif defined(__aarch64__)
#define F2C_FUSED_4(sum, a, b) vfmaq_f32((sum), (a), (b))
#else
#define F2C_FUSED_4(sum, a, b) ((sum) + ((a) * (b)))
#endif
/** F2C_VECTORS(pixels, n): into how many vectors a step of n vectors is best taken, for so many pixels: 1, 2 or 4. */
#define F2C_VECTORS(pixels, n) \
    ((((n) % 4) == 0) && ((4 * (pixels)) <= F2C_MOST_SUMS) ? 4 : (((n) % 2) == 0) && ((2 * (pixels)) <= F2C_MOST_SUMS) ? 2 : 1)
/** F2C_DOT(sum, x, w): to each of F2C_WIDTH sums modulo 2^32, four products: unsigned bytes of x times signed bytes of w.
 *  F2C_MULTIPLY_ADD(a, b): sums of two neighbouring products of int16. F2C_BYTE(j): where byte j of a word in memory is. */
#if defined(__AVX512VNNI__)
#define F2C_DOT(sum, x, w) ((f2c_ints)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(x), (__m512i)(w)))
#elif defined(__AVXVNNI__) && (F2C_WIDTH == 8)
#define F2C_DOT(sum, x, w) ((f2c_ints)_mm256_dpbusd_avx_epi32((__m256i)(sum), (__m256i)(x), (__m256i)(w)))
#elif defined(__AVX512BW__)
#define F2C_MULTIPLY_ADD(a, b) ((f2c_ints)_mm512_madd_epi16((__m512i)(a), (__m512i)(b)))
#elif defined(__AVX2__) && (F2C_WIDTH == 8)
#define F2C_MULTIPLY_ADD(a, b) ((f2c_ints)_mm256_madd_epi16((__m256i)(a), (__m256i)(b)))
#elif defined(__SSE2__) && (F2C_WIDTH == 4)
#define F2C_MULTIPLY_ADD(a, b) ((f2c_ints)_mm_madd_epi16((__m128i)(a), (__m128i)(b)))
#endif
#if !defined(F2C_DOT) && defined(F2C_MULTIPLY_ADD)
#define F2C_DOT(sum, x, w) \
    ((sum) + F2C_MULTIPLY_ADD((f2c_shorts)(x) & 255, (f2c_shorts)((f2c_unsigned)(w) << 8) >> 8) \
     + F2C_MULTIPLY_ADD((f2c_shorts)((f2c_unsigned)(x) >> 8), (f2c_shorts)(w) >> 8))
#elif !defined(F2C_DOT)
#define F2C_DOT(sum, x, w) \
    ((sum) + F2C_PRODUCT(x, w, 0) + F2C_PRODUCT(x, w, 8) + F2C_PRODUCT(x, w, 16) + F2C_PRODUCT(x, w, 24))
#define F2C_PRODUCT(x, w, bit) \
    ((((x) >> (bit)) & 255u) * (f2c_ints)((f2c_signed)((w) << (24 - (bit))) >> 24))
#endif
#if defined(__BYTE_ORDER__) && (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
#define F2C_BYTE(j) (24 - (8 * (j)))
#else
#define F2C_BYTE(j) (8 * (j))
#endif
/** F2C_HELD(v): the vector v is in a register here. gcc would load weights that several pixels share once for each. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512F__)
#define F2C_HELD(v) __asm__("" : "+v"(v))
#elif defined(__GNUC__) && !defined(__clang__) && defined(__SSE2__)
#define F2C_HELD(v) __asm__("" : "+x"(v))
#else
#define F2C_HELD(v) ((void)0)
#endif
#define F2C_JOINED(a, b) a##b
#define F2C_FUSED(n, sum, a, b) F2C_JOINED(F2C_FUSED_, n)(sum, a, b)

/** F2C_HIGH_PRODUCT(a, b): (a * b) >> 32 for b >= 0; Armv6-M would call a function for a product of 64 bits. */
#if defined(__thumb__) && !defined(__thumb2__)
#define F2C_HIGH_PRODUCT(a, b) f2c_high_product((a), (b))
#else
#define F2C_HIGH_PRODUCT(a, b) ((int32_t)(((int64_t)(a) * (b)) >> 32))
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
 *  analyser of the machine code sees how often it turns; gcc would compare with p's last value. */
#if defined(__GNUC__)
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

/** F2C_RELEASE(at, v): store v into a uint32_t for other cores, after all that was written before; F2C_ACQUIRE(at): load it,
 *  before all that is read afterwards. A load, a store and a barrier: Cortex-M0+ has no more. */
#if defined(__GNUC__)
#define F2C_RELEASE(at, v) __atomic_store_n((at), (v), __ATOMIC_RELEASE)
#define F2C_ACQUIRE(at) __atomic_load_n((at), __ATOMIC_ACQUIRE)
#else
#include <stdatomic.h>
#define F2C_RELEASE(at, v) atomic_store_explicit((_Atomic uint32_t *)(at), (v), memory_order_release)
#define F2C_ACQUIRE(at) atomic_load_explicit((_Atomic uint32_t *)(at), memory_order_acquire)
#endif

/** F2C_WAIT(): what a core does while others work, again and again; F2C_WAKE(): after it has said that it is there. Nothing,
 *  or define both: __WFE() and __SEV() sleep. F2C_GIVE(), F2C_TAKE(): before it says so, and when all are there: clean and
 *  invalidate the data cache, where there is one over memory that the cores share. */
#ifndef F2C_WAIT
#if defined(__unix__) || defined(__APPLE__)
#include <sched.h>
#define F2C_WAIT() ((void)sched_yield())
#else
#define F2C_WAIT() ((void)0)
#endif
#endif
#ifndef F2C_WAKE
#define F2C_WAKE() ((void)0)
#endif
#ifndef F2C_GIVE
#define F2C_GIVE() ((void)0)
#define F2C_TAKE() ((void)0)
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
