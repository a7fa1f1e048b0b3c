/* Conv > Relu
 *   from  stem_raw; stem_relu
 *   int8 [1, 1, 8, 8] -> int8 [1, 16, 8, 8]
 *   9216 multiply-accumulates */
static inline int8_t digits_int8_02_conv_out(int32_t acc, int32_t oc)
{
    const int32_t v0 = f2c_requant_s8(acc, digits_int8_02_conv_mult[oc], -510, 2);  /* Conv, Relu */
    return (int8_t)v0;
}

static F2C_INLINE void digits_int8_02_conv(const int8_t *restrict x, int8_t *restrict y, int8_t *restrict scratch, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(3, 1, 1, 8) * 8, (row_end - row) * 128, (row_end - row) * 272);
    enum { IN_H = 8, IN_W = 8, OUT_W = 8, K_H = 3, K_W = 3 };
    enum { STRIDE_H = 1, STRIDE_W = 1, DIL_H = 1, DIL_W = 1, PAD_TOP = 1, PAD_LEFT = 1, X_SC = 1 };
    enum { X_SH = 8, X_SW = 1, Y_SH = 128, Y_SW = 16, GROUPS = 1, GROUP_C = 1, GROUP_OUT = 16 };
    enum { DEPTH = 9, FILL = -128, TILE = 2 };
    for (int32_t oy = row; oy < row_end; ++oy) {
        F2C_MACS(OUT_W * GROUPS * GROUP_OUT * DEPTH);
        const int8_t *x_rows[K_H] = {0};
        for (int32_t ky = 0; ky < K_H; ++ky) {
            const int32_t iy = (oy * STRIDE_H) - PAD_TOP + (ky * DIL_H);
            if ((iy >= 0) && (iy < IN_H)) {
                x_rows[ky] = &x[iy * X_SH];
            }
        }
        int8_t *const y_row = &y[(oy % 3) * Y_SH];
        for (int32_t ox = 0; ox < OUT_W; ox += TILE) {
            const int32_t count = ((OUT_W - ox) < TILE) ? (OUT_W - ox) : TILE;
            const int8_t *w = digits_int8_02_conv_w;
            for (int32_t group = 0; group < GROUPS; ++group) {
                /* the tile's patches, one after the other, padding filled in */
                int8_t *patch = scratch;
                for (int32_t n = 0; n < count; ++n) {
                    const int32_t left = ((ox + n) * STRIDE_W) - PAD_LEFT;
                    for (int32_t ky = 0; ky < K_H; ++ky) {
                        const int8_t *const x_row = x_rows[ky];
                        for (int32_t kx = 0; kx < K_W; ++kx) {
                            const int32_t ix = left + (kx * DIL_W);
                            if ((x_row != 0) && (ix >= 0) && (ix < IN_W)) {
                                for (int32_t c = 0; c < GROUP_C; ++c) {
                                    patch[c] = x_row[(ix * X_SW) + (((group * GROUP_C) + c) * X_SC)];
                                }
                            } else {
                                for (int32_t c = 0; c < GROUP_C; ++c) {
                                    patch[c] = FILL;
                                }
                            }
                            patch += GROUP_C;
                        }
                    }
                }
                const int8_t *const first = w;
                if (count == TILE) {
                    const int8_t *const p0 = &scratch[0 * DEPTH];
                    const int32_t at0 = (ox + 0) * Y_SW;
                    const int8_t *const p1 = &scratch[1 * DEPTH];
                    const int32_t at1 = (ox + 1) * Y_SW;
                    for (int32_t oc = 0; oc < 16; oc += 2) {
                        int32_t acc00 = digits_int8_02_conv_b[oc], acc10 = digits_int8_02_conv_b[oc], acc01 = digits_int8_02_conv_b[oc + 1], acc11 = digits_int8_02_conv_b[oc + 1];

                        F2C_UNROLL
                        for (int32_t i = 0; i < DEPTH; ++i) {
                            const int32_t a0 = p0[i], a1 = p1[i];
                            const int32_t b0 = w[0], b1 = w[1];
                            acc00 += a0 * b0; acc10 += a1 * b0; acc01 += a0 * b1; acc11 += a1 * b1;
                            w += 2;
                        }
                        y_row[at0 + oc] = digits_int8_02_conv_out(acc00, oc);
                        y_row[at1 + oc] = digits_int8_02_conv_out(acc10, oc);
                        y_row[at0 + (oc + 1)] = digits_int8_02_conv_out(acc01, oc + 1);
                        y_row[at1 + (oc + 1)] = digits_int8_02_conv_out(acc11, oc + 1);
                    }
                } else {
                    for (int32_t n = 0; n < count; ++n) {
                        const int8_t *const p0 = &scratch[n * DEPTH];
                        const int32_t at0 = (ox + n) * Y_SW;
                        w = first;
                        for (int32_t oc = 0; oc < 16; oc += 2) {
                            int32_t acc00 = digits_int8_02_conv_b[oc], acc01 = digits_int8_02_conv_b[oc + 1];

                            F2C_UNROLL
                            for (int32_t i = 0; i < DEPTH; ++i) {
                                const int32_t a0 = p0[i];
                                const int32_t b0 = w[0], b1 = w[1];
                                acc00 += a0 * b0; acc01 += a0 * b1;
                                w += 2;
                            }
                            y_row[at0 + oc] = digits_int8_02_conv_out(acc00, oc);
                            y_row[at0 + (oc + 1)] = digits_int8_02_conv_out(acc01, oc + 1);
                        }
                    }
                }
            }
        }
    }
}
