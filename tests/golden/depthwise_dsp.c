/* Conv > Relu
 *   from  depthwise_raw; depthwise_relu
 *   int8 [1, 16, 8, 8] -> int8 [1, 16, 8, 8]
 *   9216 multiply-accumulates */
static inline int8_t digits_int8_03_conv_out(int32_t acc, int32_t mult)
{
    const int32_t v0 = f2c_requant_s8(acc, mult, -510, 2);  /* Conv, Relu */
    return (int8_t)v0;
}

/* One row of the result, channel by channel: each of MIDDLE columns, and what is left, is added to all sums that it is in; what reaches into the next ones is carried on. */
static F2C_ROW_CORE void digits_int8_03_conv_row(const int8_t **x_rows, int8_t *restrict y_start, const int32_t *keep)
{
    enum { OUT_C = 16, K_H = 3 };
    enum { X_SC = 8 };
    enum { Y_SC = 1, Y_SW = 16, BLOCK = 5, FILLS = -8323200 };
    enum { MIDDLE = 8 };
    const int32_t *w = digits_int8_03_conv_w;
    const int8_t *rows[K_H];         /* of the channel */
    F2C_UNROLL_BY(K_H)
    for (int32_t ky = 0; ky < K_H; ++ky) {
        rows[ky] = x_rows[ky];
    }
    for (int32_t oc = 0; oc < OUT_C; ++oc) {
        const int32_t start = w[0];
        const int32_t mult = w[BLOCK - 1];
        int8_t *y_row = &y_start[oc * Y_SC];
        int32_t taps[2 * K_H];
        int32_t before = start, acc0 = start;
        int32_t last = 0;       /* the place of `before`; it is none at first: the next element is then stored over it */
        F2C_UNROLL_BY(K_H)
        for (int32_t ky = 0; ky < K_H; ++ky) {
            const int32_t b0 = f2c_sxtb16(w[ky + 1]), b1 = f2c_sxtb16_ror8(w[ky + 1]);
            taps[(2 * ky) + 0] = b0;
            taps[(2 * ky) + 1] = b1;
            acc0 = f2c_smlabb(FILLS, b0, acc0);
        }
        for (int32_t ix = 0; ix < MIDDLE; ix += 4) {
            int32_t acc1 = start, acc2 = start, acc3 = start, acc4 = start;
            F2C_IN_MEMORY(taps);
            F2C_IN_MEMORY(rows);
            F2C_UNROLL_BY(K_H)
            for (int32_t ky = 0; ky < K_H; ++ky) {
                const int32_t b0 = taps[(2 * ky) + 0], b1 = taps[(2 * ky) + 1];
                const int8_t *const px = &rows[ky][ix];
                const int32_t v0 = f2c_load4(&px[0]);
                const int32_t p0 = f2c_sxtb16(v0);
                before = f2c_smlabt(p0, b0, before);
                acc0 = f2c_smlabb(p0, b1, acc0);
                acc1 = f2c_smlad(p0, b0, acc1);
                acc2 = f2c_smlatb(p0, b1, acc2);
                acc3 = f2c_smlatb(p0, b0, acc3);
                const int32_t p1 = f2c_sxtb16_ror8(v0);
                acc0 = f2c_smlabt(p1, b0, acc0);
                acc1 = f2c_smlabb(p1, b1, acc1);
                acc2 = f2c_smlad(p1, b0, acc2);
                acc3 = f2c_smlatb(p1, b1, acc3);
                acc4 = f2c_smlatb(p1, b0, acc4);
            }
            y_row[last] = digits_int8_03_conv_out(before, mult);
            y_row[0] = digits_int8_03_conv_out(acc0, mult);
            y_row[Y_SW] = digits_int8_03_conv_out(acc1, mult);
            y_row[2 * Y_SW] = digits_int8_03_conv_out(acc2, mult);
            last = -Y_SW;
            y_row += 4 * Y_SW;
            before = acc3;
            acc0 = acc4;
        }
        {
            F2C_IN_MEMORY(taps);
            F2C_UNROLL_BY(K_H)
            for (int32_t ky = 0; ky < K_H; ++ky) {
                const int32_t b0 = taps[(2 * ky) + 0];
                /* padding */
                before = f2c_smlabt(FILLS, b0, before);
            }
            y_row[last] = digits_int8_03_conv_out(before, mult);
        }
        F2C_UNROLL_BY(K_H)
        for (int32_t ky = 0; ky < K_H; ++ky) {
            rows[ky] += X_SC & keep[ky];
        }
        w += BLOCK;
    }
}

static F2C_INLINE void digits_int8_03_conv(const int8_t *restrict x, int8_t *restrict y, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(3, 1, 1, 8) * 128, (row_end - row) * 128, (row_end - row) * 328);
    enum { IN_H = 8, OUT_W = 8, OUT_C = 16, K_H = 3, K_W = 3 };
    enum { STRIDE_H = 1, DIL_H = 1, PAD_TOP = 1 };
    enum { X_SH = 128, Y_SH = 128 };
    for (int32_t oy = row; oy < row_end; ++oy) {
        const int32_t top = (oy * STRIDE_H) - PAD_TOP;
        const int8_t *x_rows[K_H];
        int32_t keep[K_H];                  /* all bits; none of a row of padding: it has one channel for all */
        F2C_UNROLL_BY(1)
        for (int32_t ky = 0; ky < K_H; ++ky) {
            const int32_t iy = top + (ky * DIL_H);
            const int32_t inside = (iy >= 0) && (iy < IN_H);
            x_rows[ky] = inside ? &x[(iy % 3) * X_SH] : digits_int8_03_conv_fill;
            keep[ky] = -inside;
        }
        int8_t *const y_row = &y[(oy % 1) * Y_SH];
        F2C_MACS(K_H * K_W * OUT_W * OUT_C);
        digits_int8_03_conv_row(x_rows, y_row, keep);
    }
}
