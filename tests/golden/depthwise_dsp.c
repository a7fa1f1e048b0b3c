/* Conv > Relu
 *   from  depthwise_raw; depthwise_relu
 *   int8 [1, 16, 8, 8] -> int8 [1, 16, 8, 8]
 *   9216 multiply-accumulates */
static inline int8_t digits_int8_03_conv_out(int32_t acc, int32_t mult)
{
    const int32_t v0 = f2c_requant_s8(acc, mult, -1020, 3);  /* Conv, Relu */
    return (int8_t)v0;
}

/* One row of the result, channel by channel, of all rows of the window. */
static F2C_CORE void digits_int8_03_conv_row(const int8_t **x_rows, int8_t *restrict y_row)
{
    enum { OUT_C = 16, K_H = 3 };
    enum { STRIDE_W = 1, PAD_LEFT = 1, X_SC = 8 };
    enum { X_SW = 1, Y_SW = 16, BLOCK = 5, FILLS = -8323200 };
    const int32_t *w = digits_int8_03_conv_w;
    for (int32_t oc = 0; oc < OUT_C; ++oc) {
        const int32_t start = w[0];
        const int32_t mult = w[BLOCK - 1];
        for (int32_t ox = 0; ox < 4; ox += 4) {
            const int32_t left = (((ox * STRIDE_W) - PAD_LEFT + 1) * X_SW) + (oc * X_SC), at = ox * Y_SW;
            int32_t acc0 = start, acc1 = start, acc2 = start, acc3 = start;

            F2C_UNROLL_BY(3)
            for (int32_t ky = 0; ky < K_H; ++ky) {
                const int8_t *const px = &x_rows[ky][left];
                const int32_t b0 = f2c_sxtb16(w[ky + 1]), b1 = f2c_sxtb16_ror8(w[ky + 1]);
                /* padding */
                acc0 = f2c_smlabb(FILLS, b0, acc0);
                const int32_t v1 = f2c_load4(&px[0]);
                const int32_t p1 = f2c_sxtb16(v1);
                acc0 = f2c_smlabb(p1, b1, acc0);
                acc1 = f2c_smlad(p1, b0, acc1);
                acc2 = f2c_smlatb(p1, b1, acc2);
                acc3 = f2c_smlatb(p1, b0, acc3);
                const int32_t p2 = f2c_sxtb16_ror8(v1);
                acc0 = f2c_smlabt(p2, b0, acc0);
                acc1 = f2c_smlabb(p2, b1, acc1);
                acc2 = f2c_smlad(p2, b0, acc2);
                acc3 = f2c_smlatb(p2, b1, acc3);
                const int32_t p5 = px[4];
                acc3 = f2c_smlabt(p5, b0, acc3);
            }
            y_row[at + oc] = digits_int8_03_conv_out(acc0, mult);
            y_row[at + 16 + oc] = digits_int8_03_conv_out(acc1, mult);
            y_row[at + 32 + oc] = digits_int8_03_conv_out(acc2, mult);
            y_row[at + 48 + oc] = digits_int8_03_conv_out(acc3, mult);
        }
        for (int32_t ox = 4; ox < 8; ox += 4) {
            const int32_t left = (((ox * STRIDE_W) - PAD_LEFT + 0) * X_SW) + (oc * X_SC), at = ox * Y_SW;
            int32_t acc0 = start, acc1 = start, acc2 = start, acc3 = start;

            F2C_UNROLL_BY(3)
            for (int32_t ky = 0; ky < K_H; ++ky) {
                const int8_t *const px = &x_rows[ky][left];
                const int32_t b0 = f2c_sxtb16(w[ky + 1]), b1 = f2c_sxtb16_ror8(w[ky + 1]);
                /* padding */
                acc3 = f2c_smlabt(FILLS, b0, acc3);
                const int32_t v0 = f2c_load4(&px[0]);
                const int32_t p0 = f2c_sxtb16(v0);
                acc0 = f2c_smlad(p0, b0, acc0);
                acc1 = f2c_smlatb(p0, b1, acc1);
                acc2 = f2c_smlatb(p0, b0, acc2);
                const int32_t p1 = f2c_sxtb16_ror8(v0);
                acc0 = f2c_smlabb(p1, b1, acc0);
                acc1 = f2c_smlad(p1, b0, acc1);
                acc2 = f2c_smlatb(p1, b1, acc2);
                acc3 = f2c_smlatb(p1, b0, acc3);
                const int32_t p4 = px[4];
                acc2 = f2c_smlabt(p4, b0, acc2);
                acc3 = f2c_smlabb(p4, b1, acc3);
            }
            y_row[at + oc] = digits_int8_03_conv_out(acc0, mult);
            y_row[at + 16 + oc] = digits_int8_03_conv_out(acc1, mult);
            y_row[at + 32 + oc] = digits_int8_03_conv_out(acc2, mult);
            y_row[at + 48 + oc] = digits_int8_03_conv_out(acc3, mult);
        }
        w += BLOCK;
    }
}

/* One row of the result, channel by channel, of rows ky_first .. ky_end - 1 of the window; the others are all padding. */
static F2C_CORE void digits_int8_03_conv_edge(const int8_t **x_rows, int8_t *restrict y_row, int32_t ky_first, int32_t ky_end)
{
    enum { OUT_C = 16, K_H = 3 };
    enum { STRIDE_W = 1, PAD_LEFT = 1, X_SC = 8 };
    enum { X_SW = 1, Y_SW = 16, BLOCK = 5, FILLS = -8323200 };
    const int32_t *w = digits_int8_03_conv_w;
    for (int32_t oc = 0; oc < OUT_C; ++oc) {
        int32_t start = w[0];
        const int32_t mult = w[BLOCK - 1];
        for (int32_t ky = 0; ky < K_H; ++ky) {
            if ((ky < ky_first) || (ky >= ky_end)) {
                const int32_t b0 = f2c_sxtb16(w[ky + 1]), b1 = f2c_sxtb16_ror8(w[ky + 1]);
                start = f2c_smlad(FILLS, b0, start);
                start = f2c_smlabb(FILLS, b1, start);
            }
        }
        for (int32_t ox = 0; ox < 4; ox += 4) {
            const int32_t left = (((ox * STRIDE_W) - PAD_LEFT + 1) * X_SW) + (oc * X_SC), at = ox * Y_SW;
            int32_t acc0 = start, acc1 = start, acc2 = start, acc3 = start;


            for (int32_t ky = ky_first; ky < ky_end; ++ky) {
                const int8_t *const px = &x_rows[ky][left];
                const int32_t b0 = f2c_sxtb16(w[ky + 1]), b1 = f2c_sxtb16_ror8(w[ky + 1]);
                /* padding */
                acc0 = f2c_smlabb(FILLS, b0, acc0);
                const int32_t v1 = f2c_load4(&px[0]);
                const int32_t p1 = f2c_sxtb16(v1);
                acc0 = f2c_smlabb(p1, b1, acc0);
                acc1 = f2c_smlad(p1, b0, acc1);
                acc2 = f2c_smlatb(p1, b1, acc2);
                acc3 = f2c_smlatb(p1, b0, acc3);
                const int32_t p2 = f2c_sxtb16_ror8(v1);
                acc0 = f2c_smlabt(p2, b0, acc0);
                acc1 = f2c_smlabb(p2, b1, acc1);
                acc2 = f2c_smlad(p2, b0, acc2);
                acc3 = f2c_smlatb(p2, b1, acc3);
                const int32_t p5 = px[4];
                acc3 = f2c_smlabt(p5, b0, acc3);
            }
            y_row[at + oc] = digits_int8_03_conv_out(acc0, mult);
            y_row[at + 16 + oc] = digits_int8_03_conv_out(acc1, mult);
            y_row[at + 32 + oc] = digits_int8_03_conv_out(acc2, mult);
            y_row[at + 48 + oc] = digits_int8_03_conv_out(acc3, mult);
        }
        for (int32_t ox = 4; ox < 8; ox += 4) {
            const int32_t left = (((ox * STRIDE_W) - PAD_LEFT + 0) * X_SW) + (oc * X_SC), at = ox * Y_SW;
            int32_t acc0 = start, acc1 = start, acc2 = start, acc3 = start;


            for (int32_t ky = ky_first; ky < ky_end; ++ky) {
                const int8_t *const px = &x_rows[ky][left];
                const int32_t b0 = f2c_sxtb16(w[ky + 1]), b1 = f2c_sxtb16_ror8(w[ky + 1]);
                /* padding */
                acc3 = f2c_smlabt(FILLS, b0, acc3);
                const int32_t v0 = f2c_load4(&px[0]);
                const int32_t p0 = f2c_sxtb16(v0);
                acc0 = f2c_smlad(p0, b0, acc0);
                acc1 = f2c_smlatb(p0, b1, acc1);
                acc2 = f2c_smlatb(p0, b0, acc2);
                const int32_t p1 = f2c_sxtb16_ror8(v0);
                acc0 = f2c_smlabb(p1, b1, acc0);
                acc1 = f2c_smlad(p1, b0, acc1);
                acc2 = f2c_smlatb(p1, b1, acc2);
                acc3 = f2c_smlatb(p1, b0, acc3);
                const int32_t p4 = px[4];
                acc2 = f2c_smlabt(p4, b0, acc2);
                acc3 = f2c_smlabb(p4, b1, acc3);
            }
            y_row[at + oc] = digits_int8_03_conv_out(acc0, mult);
            y_row[at + 16 + oc] = digits_int8_03_conv_out(acc1, mult);
            y_row[at + 32 + oc] = digits_int8_03_conv_out(acc2, mult);
            y_row[at + 48 + oc] = digits_int8_03_conv_out(acc3, mult);
        }
        w += BLOCK;
    }
}

static F2C_INLINE void digits_int8_03_conv(const int8_t *restrict x, int8_t *restrict y, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(3, 1, 1, 8) * 128, (row_end - row) * 128, (row_end - row) * 320);
    enum { IN_H = 8, OUT_W = 8, OUT_C = 16, K_H = 3, K_W = 3 };
    enum { STRIDE_H = 1, DIL_H = 1, PAD_TOP = 1 };
    enum { X_SH = 128, Y_SH = 128 };
    for (int32_t oy = row; oy < row_end; ++oy) {
        const int32_t top = (oy * STRIDE_H) - PAD_TOP;
        const int32_t ky_first = (top < 0) ? ((DIL_H - 1 - top) / DIL_H) : 0;
        const int32_t ky_room = (IN_H - top + DIL_H - 1) / DIL_H;
        const int32_t ky_end = (ky_room < K_H) ? ky_room : K_H;
        const int8_t *x_rows[K_H];
        for (int32_t ky = 0; ky < K_H; ++ky) {
            const int32_t iy = top + (ky * DIL_H);
            x_rows[ky] = ((iy >= 0) && (iy < IN_H)) ? &x[(iy % 3) * X_SH] : x;
        }
        int8_t *const y_row = &y[(oy % 1) * Y_SH];
        F2C_MACS(K_H * K_W * OUT_W * OUT_C);
        if ((ky_first == 0) && (ky_end == K_H)) {
            digits_int8_03_conv_row(x_rows, y_row);
        } else {
            digits_int8_03_conv_edge(x_rows, y_row, ky_first, ky_end);
        }
    }
}
