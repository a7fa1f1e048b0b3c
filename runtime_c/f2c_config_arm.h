/** @file f2c_config_arm.h  Instructions of Arm's DSP extension, FPU and Helium, and what does the same on other cores. */
#ifndef F2C_CONFIG_ARM_H
#define F2C_CONFIG_ARM_H

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

/** F2C_LIMIT(y, v, limit, a, b, operands): y = v, but `limit` in the lanes where a > b, which are these two; `operands` are their
 *  numbers for the assembler, "3" for the limit. "gt" does not hold for NaN, "lt" would. gcc 12 would take the predicate to a core
 *  register and back. */
#if defined(__clang__)
#define F2C_LIMIT(y, v, limit, a, b, operands) (y = vpselq_f32(limit, v, vcmpgtq_f32(a, b)))
#else
#define F2C_LIMIT(y, v, limit, a, b, operands) \
    mve_pred16_t f2c_lanes; \
    __asm__("vcmp.f32 gt, " operands "\n\tvpsel %q0, %q3, %q2" : "=w"(y), "=Up"(f2c_lanes) : "w"(v), "w"(limit))
#endif

/** F2C_LARGER(y, a, v): y = a, but v in the lanes where a is a number and not >= v: "lt" holds for what has no order, too. */
#if defined(__clang__)
#define F2C_LARGER(y, a, v) (y = vpselq_f32(v, a, vcmpeqq_m_f32(a, a, vcmpltq_f32(a, v))))
#else
#define F2C_LARGER(y, a, v) \
    mve_pred16_t f2c_lanes; \
    __asm__("vpt.f32 lt, %q2, %q3\n\tvcmpt.f32 eq, %q2, %q2\n\tvpsel %q0, %q3, %q2" \
            : "=w"(y), "=Up"(f2c_lanes) : "w"(a), "w"(v))
#endif

#endif /* F2C_CONFIG_ARM_H */
