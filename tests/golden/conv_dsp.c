/* The strip of 4 pixels from column `left` on, padding filled in. Shared by 2 steps. */
static F2C_CORE const int8_t *digits_int8_gather4(int32_t in_w, int32_t in_c, int32_t x_sw, int8_t *edge, const int8_t *x_row, int32_t left)
{
    enum { X_SC = 1, FILL = -128, GROUP_STEP = 1, COLUMN_STEP = 1 };
    int8_t *to = edge;
    F2C_LOOPBOUND(1, 1)
    F2C_UNROLL_BY(1)
    for (int32_t n = 0; n < 1; ++n) {
        F2C_LOOPBOUND(6, 6)
        F2C_UNROLL_BY(1)
        for (int32_t column = 0; column < 6; ++column) {
            const int32_t ix = left + (n * GROUP_STEP) + (column * COLUMN_STEP);
            const int32_t inside = (ix >= 0) && (ix < in_w);
            F2C_LOOPBOUND(1, 32)
            for (int32_t c = 0; c < in_c; ++c) {
                to[c] = inside ? x_row[(ix * x_sw) + (c * X_SC)] : FILL;
            }
            to += in_c;
        }
    }
    return edge;
}
