/* Softmax
 *   from  softmax
 *   int8 [1, 10] -> int8 [1, 10]
 *   120 operations */
static F2C_INLINE void digits_int8_09_softmax(const int8_t *restrict x, int8_t *restrict y, uint32_t *restrict scratch)
{
    F2C_TRAFFIC(10, 10, 128);
    enum { OUTER = 1, LENGTH = 10, STEP = 1, SHIFT = 13 };
    enum { EXP_SHIFT = 39, OFFSET = -1044480 };
    for (int32_t outer = 0; outer < OUTER; ++outer) {
        for (int32_t inner = 0; inner < STEP; ++inner) {
            const int8_t *const px = &x[(outer * LENGTH * STEP) + inner];
            int8_t *const py = &y[(outer * LENGTH * STEP) + inner];
            int32_t top = px[0];
            F2C_UNROLL_BY(1)
            for (int32_t i = 1; i < LENGTH; ++i) {
                top = f2c_max_s16(top, px[i * STEP]);
            }
            uint32_t sum = 0u;
            F2C_UNROLL_BY(1)
            for (int32_t i = 0; i < LENGTH; ++i) {
                const uint32_t power = f2c_exp_product(digits_int8_09_softmax_exp, top - px[i * STEP], EXP_SHIFT);
                scratch[i] = power;
                sum += power;
            }
            const uint32_t inverse = f2c_reciprocal(9007199254740992u, sum);
            F2C_UNROLL_BY(1)
            for (int32_t i = 0; i < LENGTH; ++i) {
                const uint32_t power = scratch[i];
                py[i * STEP] = (int8_t)f2c_requant_s8((int32_t)power, (int32_t)inverse, OFFSET, SHIFT);
            }
        }
    }
}
