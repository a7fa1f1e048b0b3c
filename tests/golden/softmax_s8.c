/* Softmax
 *   from  softmax
 *   int8 [1, 10] -> int8 [1, 10]
 *   120 operations */
static F2C_INLINE void digits_int8_09_softmax(const int8_t *restrict x, int8_t *restrict y)
{
    F2C_TRAFFIC(10, 10, 128);
    enum { OUTER = 1, LENGTH = 10, STEP = 1, SHIFT = 45, ZERO = -128, LOW = -128, HIGH = 127 };
    enum { EXP_SHIFT = 39 };
    for (int32_t outer = 0; outer < OUTER; ++outer) {
        for (int32_t inner = 0; inner < STEP; ++inner) {
            const int8_t *const px = &x[(outer * LENGTH * STEP) + inner];
            int8_t *const py = &y[(outer * LENGTH * STEP) + inner];
            int32_t top = px[0];
            F2C_UNROLL_BY(1)
            for (int32_t i = 1; i < LENGTH; ++i) {
                top = f2c_max_s32(top, px[i * STEP]);
            }
            uint32_t sum = 0u;
            F2C_UNROLL_BY(1)
            for (int32_t i = 0; i < LENGTH; ++i) {
                sum += f2c_exp_product(digits_int8_09_softmax_exp, top - px[i * STEP], EXP_SHIFT);
            }
            const uint32_t inverse = f2c_reciprocal(9007199254740992u, sum);
            F2C_UNROLL_BY(1)
            for (int32_t i = 0; i < LENGTH; ++i) {
                const uint64_t share = F2C_LONG_PRODUCT(f2c_exp_product(digits_int8_09_softmax_exp, top - px[i * STEP], EXP_SHIFT), inverse);
                const int32_t v = (int32_t)((share + ((uint64_t)1 << (SHIFT - 1))) >> SHIFT) + ZERO;
                py[i * STEP] = (int8_t)f2c_clamp_s32(v, LOW, HIGH);
            }
        }
    }
}
