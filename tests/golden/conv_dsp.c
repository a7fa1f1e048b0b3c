/* Conv > Relu
 *   from  stem_raw; stem_relu
 *   int8 [1, 1, 8, 8] -> int8 [1, 16, 8, 8]
 *   9216 multiply-accumulates */
static inline int8_t digits_int8_02_conv_out(int32_t acc, int32_t mult)
{
    const int32_t v0 = f2c_requant_s8(acc, mult, -16320, 7);  /* Conv, Relu */
    return (int8_t)v0;
}

/* Widens a strip of a row for 4 pixels, four elements to pairs (0, 2) and (1, 3); returns the end of what it wrote. */
static F2C_CORE int32_t *digits_int8_02_conv_widen4(int32_t *t, const int8_t *s)
{
    t[0] = f2c_pair(s[0], s[1]);
    t[1] = f2c_pair(s[1], s[2]);
    t[2] = f2c_pair(s[2], s[3]);
    t[3] = f2c_pair(s[3], s[4]);
    t[4] = f2c_pair(s[2], s[2]);
    t[5] = f2c_pair(s[3], s[3]);
    t[6] = f2c_pair(s[4], s[4]);
    t[7] = f2c_pair(s[5], s[5]);
    return &t[8];
}

/* The widened pixels at t times the weights, 6 words deep; the first pixel's results are at y_row[at]. */
static F2C_CORE void digits_int8_02_conv_tile4(const int32_t *t, int8_t *y_row, int32_t at)
{
    const int32_t *w = digits_int8_02_conv_w;
    for (int32_t oc = 0; oc < 16; oc += 2) {
        const int32_t *a = t;
        int32_t acc00 = w[0], acc01 = w[1], acc10 = w[0], acc11 = w[1], acc20 = w[0], acc21 = w[1], acc30 = w[0], acc31 = w[1];

        w += 2;
        for (int32_t i = 0; i < 1; ++i) {
            F2C_UNROLL_BY(6)
            for (int32_t n = 0; n < 6; ++n) {
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
        y_row[at + (oc * 8)] = digits_int8_02_conv_out(acc00, w[0]);
        y_row[at + ((oc + 1) * 8)] = digits_int8_02_conv_out(f2c_upper_sum(acc01, acc00), w[1]);
        y_row[at + 1 + (oc * 8)] = digits_int8_02_conv_out(acc10, w[0]);
        y_row[at + 1 + ((oc + 1) * 8)] = digits_int8_02_conv_out(f2c_upper_sum(acc11, acc10), w[1]);
        y_row[at + 2 + (oc * 8)] = digits_int8_02_conv_out(acc20, w[0]);
        y_row[at + 2 + ((oc + 1) * 8)] = digits_int8_02_conv_out(f2c_upper_sum(acc21, acc20), w[1]);
        y_row[at + 3 + (oc * 8)] = digits_int8_02_conv_out(acc30, w[0]);
        y_row[at + 3 + ((oc + 1) * 8)] = digits_int8_02_conv_out(f2c_upper_sum(acc31, acc30), w[1]);
        w += 2;
    }
}

/* The strip of 4 pixels from column `left` on, padding filled in. */
static F2C_CORE const int8_t *digits_int8_02_conv_gather4(int8_t *edge, const int8_t *x_row, int32_t left)
{
    enum { IN_W = 8, IN_C = 1 };
    enum { X_SC = 1 };
    enum { X_SW = 1, FILL = -128 };
    enum { GROUP_STEP = 1, COLUMN_STEP = 1 };
    int8_t *to = edge;
    for (int32_t n = 0; n < 1; ++n) {
        for (int32_t column = 0; column < 6; ++column) {
            const int32_t ix = left + (n * GROUP_STEP) + (column * COLUMN_STEP);
            const int32_t inside = (ix >= 0) && (ix < IN_W);
            for (int32_t c = 0; c < IN_C; ++c) {
                to[c] = inside ? x_row[(ix * X_SW) + (c * X_SC)] : FILL;
            }
            to += IN_C;
        }
    }
    return edge;
}

static F2C_INLINE void digits_int8_02_conv(const int8_t *restrict x, int8_t *restrict y, int32_t *restrict scratch, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(3, 1, 1, 8) * 8, (row_end - row) * 128, (row_end - row) * 320);
    enum { IN_H = 8, IN_W = 8, OUT_W = 8, K_H = 3 };
    enum { STRIDE_H = 1, STRIDE_W = 1, DIL_H = 1, PAD_TOP = 1, PAD_LEFT = 1 };
    enum { X_SH = 8, X_SW = 1, Y_SH = 128, Y_SW = 1, GROUP_OUT = 16, DEPTH = 9 };
    enum { ADJACENT = 1, EDGE = 24 };
    int8_t *const edge = (int8_t *)&scratch[EDGE];
    for (int32_t oy = row; oy < row_end; ++oy) {
        F2C_MACS(OUT_W * GROUP_OUT * DEPTH);
        const int8_t *x_rows[K_H];     /* under the window */
        int32_t from[K_H];                  /* 0; of a row of padding a column behind the last one */
        for (int32_t ky = 0; ky < K_H; ++ky) {
            const int32_t iy = (oy * STRIDE_H) - PAD_TOP + (ky * DIL_H);
            const int32_t inside_y = (iy >= 0) && (iy < IN_H);
            x_rows[ky] = inside_y ? &x[(iy % 3) * X_SH] : x;
            from[ky] = inside_y ? 0 : (IN_W + PAD_LEFT);
        }
        int8_t *const y_row = &y[(oy % 3) * Y_SH];
        for (int32_t ox = 0; ox < 8; ox += 4) {
            int32_t *t = scratch;
            for (int32_t ky = 0; ky < K_H; ++ky) {
                const int32_t left = (ox * STRIDE_W) - PAD_LEFT + from[ky];
                const int32_t inside = ADJACENT && (left >= 0) && (left <= (IN_W - 6));
                const int8_t *const s = inside ? &x_rows[ky][left * X_SW]
                    : digits_int8_02_conv_gather4(edge, x_rows[ky], left);
                t = digits_int8_02_conv_widen4(t, s);
            }
            digits_int8_02_conv_tile4(scratch, y_row, ox * Y_SW);
        }
    }
}
