/* MatMul
 *   from  logits_raw
 *   int8 [1, 32] -> int8 [1, 10]
 *   320 multiply-accumulates */
static inline int8_t digits_int8_08_matmul_out(int32_t acc, int32_t mult)
{
    const int32_t v0 = f2c_requant_s8(acc, mult, 82, 2);  /* MatMul */
    return (int8_t)v0;
}

/* One row of the operand times the weights. Four elements are widened to pairs (0, 2) and (1, 3) for each block of outputs. */
static F2C_CORE void digits_int8_08_matmul_dense(const int8_t *x_row, int8_t *y_row, int32_t at)
{
    const int32_t *w = digits_int8_08_matmul_w;
    for (int32_t oc = 0; oc < 8; oc += 8) {
        const int8_t *s = x_row;
        int32_t acc1 = w[1], acc3 = w[3], acc0 = w[0], acc2 = w[2], acc5 = w[5], acc7 = w[7], acc4 = w[4], acc6 = w[6];

        w += 8;
        for (int32_t i = 0; i < 8; ++i) {
            F2C_UNROLL_BY(1)
            for (int32_t n = 0; n < 1; ++n) {
                const int32_t v = f2c_load4(s);
                {
                    const int32_t a0 = f2c_sxtb16(v);
                    const int32_t w0 = w[0], w1 = w[1];
                    acc1 = f2c_smlad(a0, w0, acc1);
                    acc3 = f2c_smlad(a0, w1, acc3);
                    acc0 = f2c_smlad(a0, f2c_sxtb16(w0), acc0);
                    acc2 = f2c_smlad(a0, f2c_sxtb16(w1), acc2);
                    const int32_t w2 = w[2], w3 = w[3];
                    acc5 = f2c_smlad(a0, w2, acc5);
                    acc7 = f2c_smlad(a0, w3, acc7);
                    acc4 = f2c_smlad(a0, f2c_sxtb16(w2), acc4);
                    acc6 = f2c_smlad(a0, f2c_sxtb16(w3), acc6);
                    w += 4;
                }
                {
                    const int32_t a0 = f2c_sxtb16_ror8(v);
                    const int32_t w0 = w[0], w1 = w[1];
                    acc1 = f2c_smlad(a0, w0, acc1);
                    acc3 = f2c_smlad(a0, w1, acc3);
                    acc0 = f2c_smlad(a0, f2c_sxtb16(w0), acc0);
                    acc2 = f2c_smlad(a0, f2c_sxtb16(w1), acc2);
                    const int32_t w2 = w[2], w3 = w[3];
                    acc5 = f2c_smlad(a0, w2, acc5);
                    acc7 = f2c_smlad(a0, w3, acc7);
                    acc4 = f2c_smlad(a0, f2c_sxtb16(w2), acc4);
                    acc6 = f2c_smlad(a0, f2c_sxtb16(w3), acc6);
                    w += 4;
                }
                s += 4;
            }
        }
        y_row[at + (oc + 1)] = digits_int8_08_matmul_out(f2c_upper_sum(acc1, acc0), w[1]);
        y_row[at + (oc + 3)] = digits_int8_08_matmul_out(f2c_upper_sum(acc3, acc2), w[3]);
        y_row[at + oc] = digits_int8_08_matmul_out(acc0, w[0]);
        y_row[at + (oc + 2)] = digits_int8_08_matmul_out(acc2, w[2]);
        y_row[at + (oc + 5)] = digits_int8_08_matmul_out(f2c_upper_sum(acc5, acc4), w[5]);
        y_row[at + (oc + 7)] = digits_int8_08_matmul_out(f2c_upper_sum(acc7, acc6), w[7]);
        y_row[at + (oc + 4)] = digits_int8_08_matmul_out(acc4, w[4]);
        y_row[at + (oc + 6)] = digits_int8_08_matmul_out(acc6, w[6]);
        w += 8;
    }
    for (int32_t oc = 8; oc < 10; oc += 2) {
        const int8_t *s = x_row;
        int32_t acc1 = w[1], acc0 = w[0];

        w += 2;
        for (int32_t i = 0; i < 8; ++i) {
            F2C_UNROLL_BY(1)
            for (int32_t n = 0; n < 1; ++n) {
                const int32_t v = f2c_load4(s);
                {
                    const int32_t a0 = f2c_sxtb16(v);
                    const int32_t w0 = w[0];
                    acc1 = f2c_smlad(a0, w0, acc1);
                    acc0 = f2c_smlad(a0, f2c_sxtb16(w0), acc0);
                    w += 1;
                }
                {
                    const int32_t a0 = f2c_sxtb16_ror8(v);
                    const int32_t w0 = w[0];
                    acc1 = f2c_smlad(a0, w0, acc1);
                    acc0 = f2c_smlad(a0, f2c_sxtb16(w0), acc0);
                    w += 1;
                }
                s += 4;
            }
        }
        y_row[at + (oc + 1)] = digits_int8_08_matmul_out(f2c_upper_sum(acc1, acc0), w[1]);
        y_row[at + oc] = digits_int8_08_matmul_out(acc0, w[0]);
        w += 2;
    }
}

static F2C_INLINE void digits_int8_08_matmul(const int8_t *restrict x, int8_t *restrict y, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC((row == 0) * 32, (row_end - row) * 10, (row_end - row) * 400);
    enum { OUT_W = 1, DEPTH = 32, GROUP_OUT = 10, STRIDE_H = 1, X_SH = 32 };
    enum { X_SW = 32, Y_SH = 10, Y_SW = 10 };
    for (int32_t oy = row; oy < row_end; ++oy) {
        F2C_MACS(OUT_W * GROUP_OUT * DEPTH);
        const int32_t iy = oy * STRIDE_H;
        const int8_t *const x_row = &x[iy * X_SH];
        int8_t *const y_row = &y[oy * Y_SH];
        for (int32_t ox = 0; ox < OUT_W; ++ox) {
            digits_int8_08_matmul_dense(&x_row[ox * X_SW], y_row, ox * Y_SW);
        }
    }
}
