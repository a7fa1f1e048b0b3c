/** @file f2c_config_wide.h  What depends on the vectors of the core: x86, AArch64, or any through the compiler's own. */
#ifndef F2C_CONFIG_WIDE_H
#define F2C_CONFIG_WIDE_H

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

#endif /* F2C_CONFIG_WIDE_H */
