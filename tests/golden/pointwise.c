/* Conv > Relu
 *   from  pointwise_raw; pointwise_relu
 *   int8 [1, 16, 8, 8] -> int8 [1, 32, 8, 8]
 *   32768 multiply-accumulates */
static inline int8_t digits_int8_04_conv_out(int32_t acc, int32_t oc)
{
    const int32_t v0 = f2c_requant_s8(acc, digits_int8_04_conv_mult[oc], -510, 2);  /* Conv, Relu */
    return (int8_t)v0;
}

static F2C_INLINE void digits_int8_04_conv(const int8_t *restrict x, int8_t *restrict y, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(1, 1, 0, 8) * 128, (row_end - row) * 256, (row_end - row) * 768);
    enum { OUT_W = 8 };
    enum { STRIDE_H = 1, STRIDE_W = 1 };
    enum { X_SH = 128, X_SW = 16, Y_SH = 256, Y_SW = 32 };
    enum { GROUP_OUT = 32, DEPTH = 16, TILE = 2 };
    for (int32_t oy = row; oy < row_end; ++oy) {
        F2C_MACS(OUT_W * GROUP_OUT * DEPTH);
        const int32_t iy = oy * STRIDE_H;
        const int8_t *const x_row = &x[(iy % 1) * X_SH];
        int8_t *const y_row = &y[(oy % 2) * Y_SH];
        for (int32_t ox = 0; ox < OUT_W; ox += TILE) {
            const int32_t count = ((OUT_W - ox) < TILE) ? (OUT_W - ox) : TILE;
            if (count == TILE) {
                const int8_t *w = digits_int8_04_conv_w;
                const int8_t *const p0 = &x_row[(ox + 0) * STRIDE_W * X_SW];
                const int32_t at0 = (ox + 0) * Y_SW;
                const int8_t *const p1 = &x_row[(ox + 1) * STRIDE_W * X_SW];
                const int32_t at1 = (ox + 1) * Y_SW;
                for (int32_t oc = 0; oc < 32; oc += 2) {
                    int32_t acc00 = digits_int8_04_conv_b[oc], acc10 = digits_int8_04_conv_b[oc], acc01 = digits_int8_04_conv_b[oc + 1], acc11 = digits_int8_04_conv_b[oc + 1];

                    F2C_UNROLL
                    for (int32_t i = 0; i < DEPTH; ++i) {
                        const int32_t a0 = p0[i], a1 = p1[i];
                        const int32_t b0 = w[0], b1 = w[1];
                        acc00 += a0 * b0; acc10 += a1 * b0; acc01 += a0 * b1; acc11 += a1 * b1;
                        w += 2;
                    }
                    y_row[at0 + oc] = digits_int8_04_conv_out(acc00, oc);
                    y_row[at1 + oc] = digits_int8_04_conv_out(acc10, oc);
                    y_row[at0 + (oc + 1)] = digits_int8_04_conv_out(acc01, oc + 1);
                    y_row[at1 + (oc + 1)] = digits_int8_04_conv_out(acc11, oc + 1);
                }
            } else {
                for (int32_t n = 0; n < count; ++n) {
                    const int8_t *w = digits_int8_04_conv_w;
                    const int8_t *const p0 = &x_row[(ox + n) * STRIDE_W * X_SW];
                    const int32_t at0 = (ox + n) * Y_SW;
                    for (int32_t oc = 0; oc < 32; oc += 2) {
                        int32_t acc00 = digits_int8_04_conv_b[oc], acc01 = digits_int8_04_conv_b[oc + 1];

                        F2C_UNROLL
                        for (int32_t i = 0; i < DEPTH; ++i) {
                            const int32_t a0 = p0[i];
                            const int32_t b0 = w[0], b1 = w[1];
                            acc00 += a0 * b0; acc01 += a0 * b1;
                            w += 2;
                        }
                        y_row[at0 + oc] = digits_int8_04_conv_out(acc00, oc);
                        y_row[at0 + (oc + 1)] = digits_int8_04_conv_out(acc01, oc + 1);
                    }
                }
            }
        }
    }
}
