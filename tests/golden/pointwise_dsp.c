/* Conv > Relu
 *   from  pointwise_raw; pointwise_relu
 *   int8 [1, 16, 8, 8] -> int8 [1, 32, 8, 8]
 *   32768 multiply-accumulates */
static inline int8_t digits_int8_04_conv_out(int32_t acc, int32_t mult)
{
    const int32_t v0 = f2c_requant_s8(acc, mult, -8160, 6);  /* Conv, Relu */
    return (int8_t)v0;
}

/* Widens a strip of a row for 4 pixels, four elements to pairs (0, 2) and (1, 3); returns the end of what it wrote. */
static F2C_CORE int32_t *digits_int8_04_conv_widen4(int32_t *t, const int8_t *s)
{
    F2C_UNROLL_BY(2)
    for (int32_t i = 0; i < 4; ++i) {
        const int32_t v0 = f2c_load4(&s[0]);
        const int32_t low0 = f2c_sxtb16(v0), high0 = f2c_sxtb16_ror8(v0);
        const int32_t v1 = f2c_load4(&s[16]);
        const int32_t low1 = f2c_sxtb16(v1), high1 = f2c_sxtb16_ror8(v1);
        t[0] = low0;
        t[1] = low1;
        t[4] = high0;
        t[5] = high1;
        const int32_t v2 = f2c_load4(&s[32]);
        const int32_t low2 = f2c_sxtb16(v2), high2 = f2c_sxtb16_ror8(v2);
        const int32_t v3 = f2c_load4(&s[48]);
        const int32_t low3 = f2c_sxtb16(v3), high3 = f2c_sxtb16_ror8(v3);
        t[2] = low2;
        t[3] = low3;
        t[6] = high2;
        t[7] = high3;
        s += 4;
        t += 8;
    }
    return &t[0];
}

/* The widened pixels at t times the weights, 8 words deep; the first pixel's results are at y_row[at]. */
static F2C_CORE void digits_int8_04_conv_tile4(const int32_t *t, int8_t *y_row, int32_t at)
{
    const int32_t *w = digits_int8_04_conv_w;
    for (int32_t oc = 0; oc < 32; oc += 2) {
        const int32_t *a = t;
        int32_t acc00 = w[0], acc01 = w[1], acc10 = w[0], acc11 = w[1], acc20 = w[0], acc21 = w[1], acc30 = w[0], acc31 = w[1];

        w += 2;
        for (int32_t i = 0; i < 1; ++i) {
            F2C_UNROLL_BY(8)
            for (int32_t n = 0; n < 8; ++n) {
                const int32_t w0 = w[0];
                const int32_t b0 = f2c_sxtb16(w0), b1 = w0;
                const int32_t a0 = a[0], a1 = a[1];
                acc00 = f2c_smlad(a0, b0, acc00);
                acc01 = f2c_smlad(a0, b1, acc01);
                acc10 = f2c_smlad(a1, b0, acc10);
                acc11 = f2c_smlad(a1, b1, acc11);
                const int32_t a2 = a[2], a3 = a[3];
                acc20 = f2c_smlad(a2, b0, acc20);
                acc21 = f2c_smlad(a2, b1, acc21);
                acc30 = f2c_smlad(a3, b0, acc30);
                acc31 = f2c_smlad(a3, b1, acc31);
                a += 4;
                w += 1;
            }
        }
        y_row[at + oc] = digits_int8_04_conv_out(acc00, w[0]);
        y_row[at + (oc + 1)] = digits_int8_04_conv_out(f2c_upper_sum(acc01, acc00), w[1]);
        y_row[at + 32 + oc] = digits_int8_04_conv_out(acc10, w[0]);
        y_row[at + 32 + (oc + 1)] = digits_int8_04_conv_out(f2c_upper_sum(acc11, acc10), w[1]);
        y_row[at + 64 + oc] = digits_int8_04_conv_out(acc20, w[0]);
        y_row[at + 64 + (oc + 1)] = digits_int8_04_conv_out(f2c_upper_sum(acc21, acc20), w[1]);
        y_row[at + 96 + oc] = digits_int8_04_conv_out(acc30, w[0]);
        y_row[at + 96 + (oc + 1)] = digits_int8_04_conv_out(f2c_upper_sum(acc31, acc30), w[1]);
        w += 2;
    }
}

static F2C_INLINE void digits_int8_04_conv(const int8_t *restrict x, int8_t *restrict y, int32_t *restrict scratch, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(1, 1, 0, 8) * 128, (row_end - row) * 256, (row_end - row) * 768);
    enum { OUT_W = 8 };
    enum { STRIDE_H = 1, STRIDE_W = 1 };
    enum { X_SH = 128, X_SW = 16, Y_SH = 256, Y_SW = 32, GROUP_OUT = 32, DEPTH = 16 };
    for (int32_t oy = row; oy < row_end; ++oy) {
        F2C_MACS(OUT_W * GROUP_OUT * DEPTH);
        const int32_t iy = oy * STRIDE_H;
        const int8_t *const x_row = &x[(iy % 1) * X_SH];
        int8_t *const y_row = &y[(oy % 2) * Y_SH];
        for (int32_t ox = 0; ox < 8; ox += 4) {
            (void)digits_int8_04_conv_widen4(scratch, &x_row[ox * STRIDE_W * X_SW]);
            digits_int8_04_conv_tile4(scratch, y_row, ox * Y_SW);
        }
    }
}
