/* The strip of 2 pixels from column `left` on, padding filled in. Shared by 2 steps. */
static F2C_CORE const int8_t *digits_int8_gather2(int32_t in_w, int32_t in_c, int32_t x_sw, int32_t group_c, int8_t *edge, const int8_t *x_row, int32_t left)
{
    enum { X_SC = 1, FILL = -128, GROUP_STEP = 1, COLUMN_STEP = 1 };
    int8_t *to = edge;
    F2C_LOOPBOUND(1, 1)
    F2C_UNROLL_BY(1)
    for (int32_t n = 0; n < 1; ++n) {
        F2C_LOOPBOUND(4, 4)
        F2C_UNROLL_BY(1)
        for (int32_t column = 0; column < 4; ++column) {
            const int32_t ix = left + (n * GROUP_STEP) + (column * COLUMN_STEP);
            const int32_t inside = (ix >= 0) && (ix < in_w);
            const int8_t *const from = &x_row[(inside ? ix : 0) * x_sw];
            F2C_LOOPBOUND(1, 32)
            for (int32_t c = 0; c < group_c; ++c) {
                to[c] = inside ? from[c * X_SC] : FILL;
            }
            to += in_c;
            F2C_UNTIED(to);       /* a column is not told by its distance to an arena of unknown place */
        }
    }
    return edge;
}

/* Conv > Relu
 *   from  stem_raw; stem_relu
 *   int8 [1, 1, 8, 8] -> int8 [1, 16, 8, 8]
 *   9216 multiply-accumulates */
static inline int8_t digits_int8_02_conv_out(int32_t acc, int32_t oc)
{
    const int32_t v0 = f2c_requant_s8(acc, digits_int8_02_conv_mult[oc], -510, 2);  /* Conv, Relu */
    return (int8_t)v0;
}

/* The elements of 3 pixels' strips as words; returns the end of what it wrote. */
static F2C_CORE uint32_t *digits_int8_02_conv_widen3(uint32_t *t, const int8_t *s)
{
    F2C_UNROLL
    for (int32_t i = 0; i < 3; ++i) {
        t[0] = f2c_fields(s[0], s[1], 21);
        t[1] = f2c_fields(s[2], s[1], 10);
        t += 2;
        ++s;
    }
    return t;
}

/* The elements at t times the weights; the first pixel's results are at y_row[at0]. */
static F2C_CORE void digits_int8_02_conv_tile3(uint32_t *t, int8_t *y_row, int32_t at0)
{
    const int8_t *w = digits_int8_02_conv_w;
    const int32_t at1 = at0 + 16;
    const int32_t at2 = at0 + 32;
    for (int32_t i = 18; i < 20; ++i) {
        t[i] = 0u;
    }
    for (int32_t oc = 0; oc < 16; oc += 4) {
        const uint32_t *a = t;
        int32_t acc00 = digits_int8_02_conv_b[oc], acc10 = digits_int8_02_conv_b[oc], acc20 = digits_int8_02_conv_b[oc], acc01 = digits_int8_02_conv_b[oc + 1], acc11 = digits_int8_02_conv_b[oc + 1], acc21 = digits_int8_02_conv_b[oc + 1], acc02 = digits_int8_02_conv_b[oc + 2], acc12 = digits_int8_02_conv_b[oc + 2], acc22 = digits_int8_02_conv_b[oc + 2], acc03 = digits_int8_02_conv_b[oc + 3], acc13 = digits_int8_02_conv_b[oc + 3], acc23 = digits_int8_02_conv_b[oc + 3];

        for (int32_t part = 0; part < 1; ++part) {
            uint32_t x00 = 0u, x10 = 0u, x01 = 0u, x11 = 0u, x02 = 0u, x12 = 0u, x03 = 0u, x13 = 0u;
            for (int32_t i = 0; i < 2; ++i) {
                F2C_UNROLL_BY(5)
                for (int32_t n = 0; n < 5; ++n) {
                    const uint32_t a0 = (uint32_t)a[0], a1 = (uint32_t)a[1];
                    const uint32_t w0 = (uint32_t)w[0];
                    x00 += a0 * w0;
                    x10 += a1 * w0;
                    const uint32_t w1 = (uint32_t)w[1];
                    x01 += a0 * w1;
                    x11 += a1 * w1;
                    const uint32_t w2 = (uint32_t)w[2];
                    x02 += a0 * w2;
                    x12 += a1 * w2;
                    const uint32_t w3 = (uint32_t)w[3];
                    x03 += a0 * w3;
                    x13 += a1 * w3;
                    a += 2;
                    w += 4;
                }
            }
            f2c_add_fields(x00, x10, &acc00, &acc10, &acc20);
            f2c_add_fields(x01, x11, &acc01, &acc11, &acc21);
            f2c_add_fields(x02, x12, &acc02, &acc12, &acc22);
            f2c_add_fields(x03, x13, &acc03, &acc13, &acc23);
        }
        y_row[at0 + oc] = digits_int8_02_conv_out(acc00, oc);
        y_row[at1 + oc] = digits_int8_02_conv_out(acc10, oc);
        y_row[at2 + oc] = digits_int8_02_conv_out(acc20, oc);
        y_row[at0 + (oc + 1)] = digits_int8_02_conv_out(acc01, oc + 1);
        y_row[at1 + (oc + 1)] = digits_int8_02_conv_out(acc11, oc + 1);
        y_row[at2 + (oc + 1)] = digits_int8_02_conv_out(acc21, oc + 1);
        y_row[at0 + (oc + 2)] = digits_int8_02_conv_out(acc02, oc + 2);
        y_row[at1 + (oc + 2)] = digits_int8_02_conv_out(acc12, oc + 2);
        y_row[at2 + (oc + 2)] = digits_int8_02_conv_out(acc22, oc + 2);
        y_row[at0 + (oc + 3)] = digits_int8_02_conv_out(acc03, oc + 3);
        y_row[at1 + (oc + 3)] = digits_int8_02_conv_out(acc13, oc + 3);
        y_row[at2 + (oc + 3)] = digits_int8_02_conv_out(acc23, oc + 3);
    }
}

/* The elements of 2 pixels' strips as words; returns the end of what it wrote. */
static F2C_CORE uint32_t *digits_int8_02_conv_widen2(uint32_t *t, const int8_t *s)
{
    F2C_UNROLL
    for (int32_t i = 0; i < 3; ++i) {
        t[0] = (uint32_t)s[0];
        t[1] = (uint32_t)s[1];
        t += 2;
        ++s;
    }
    return t;
}

/* The elements at t times the weights; the first pixel's results are at y_row[at0]. */
static F2C_CORE void digits_int8_02_conv_tile2(uint32_t *t, int8_t *y_row, int32_t at0)
{
    const int8_t *w = digits_int8_02_conv_w;
    const int32_t at1 = at0 + 16;
    for (int32_t i = 18; i < 20; ++i) {
        t[i] = 0u;
    }
    for (int32_t oc = 0; oc < 16; oc += 4) {
        const uint32_t *a = t;
        uint32_t acc00 = (uint32_t)digits_int8_02_conv_b[oc], acc10 = (uint32_t)digits_int8_02_conv_b[oc], acc01 = (uint32_t)digits_int8_02_conv_b[oc + 1], acc11 = (uint32_t)digits_int8_02_conv_b[oc + 1], acc02 = (uint32_t)digits_int8_02_conv_b[oc + 2], acc12 = (uint32_t)digits_int8_02_conv_b[oc + 2], acc03 = (uint32_t)digits_int8_02_conv_b[oc + 3], acc13 = (uint32_t)digits_int8_02_conv_b[oc + 3];

        for (int32_t i = 0; i < 2; ++i) {
            F2C_UNROLL_BY(5)
            for (int32_t n = 0; n < 5; ++n) {
                const uint32_t a0 = (uint32_t)a[0], a1 = (uint32_t)a[1];
                const uint32_t w0 = (uint32_t)w[0];
                acc00 += a0 * w0;
                acc10 += a1 * w0;
                const uint32_t w1 = (uint32_t)w[1];
                acc01 += a0 * w1;
                acc11 += a1 * w1;
                const uint32_t w2 = (uint32_t)w[2];
                acc02 += a0 * w2;
                acc12 += a1 * w2;
                const uint32_t w3 = (uint32_t)w[3];
                acc03 += a0 * w3;
                acc13 += a1 * w3;
                a += 2;
                w += 4;
            }
        }
        y_row[at0 + oc] = digits_int8_02_conv_out((int32_t)acc00, oc);
        y_row[at1 + oc] = digits_int8_02_conv_out((int32_t)acc10, oc);
        y_row[at0 + (oc + 1)] = digits_int8_02_conv_out((int32_t)acc01, oc + 1);
        y_row[at1 + (oc + 1)] = digits_int8_02_conv_out((int32_t)acc11, oc + 1);
        y_row[at0 + (oc + 2)] = digits_int8_02_conv_out((int32_t)acc02, oc + 2);
        y_row[at1 + (oc + 2)] = digits_int8_02_conv_out((int32_t)acc12, oc + 2);
        y_row[at0 + (oc + 3)] = digits_int8_02_conv_out((int32_t)acc03, oc + 3);
        y_row[at1 + (oc + 3)] = digits_int8_02_conv_out((int32_t)acc13, oc + 3);
    }
}

/* The strip of 3 pixels from column `left` on, padding filled in. */
static F2C_CORE const int8_t *digits_int8_02_conv_gather3(int8_t *edge, const int8_t *x_row, int32_t left)
{
    enum { IN_W = 8, IN_C = 1 };
    enum { X_SC = 1 };
    enum { X_SW = 1, GROUP_C = 1 };
    enum { FILL = -128, GROUP_STEP = 1, COLUMN_STEP = 1 };
    int8_t *to = edge;
    F2C_UNROLL_BY(1)
    for (int32_t n = 0; n < 1; ++n) {
        F2C_UNROLL_BY(1)
        for (int32_t column = 0; column < 5; ++column) {
            const int32_t ix = left + (n * GROUP_STEP) + (column * COLUMN_STEP);
            const int32_t inside = (ix >= 0) && (ix < IN_W);
            const int8_t *const from = &x_row[(inside ? ix : 0) * X_SW];
            for (int32_t c = 0; c < GROUP_C; ++c) {
                to[c] = inside ? from[c * X_SC] : FILL;
            }
            to += IN_C;
            F2C_UNTIED(to);       /* a column is not told by its distance to an arena of unknown place */
        }
    }
    return edge;
}

static F2C_INLINE void digits_int8_02_conv(const int8_t *restrict x, int8_t *restrict y, uint32_t *restrict scratch, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(3, 1, 1, 8) * 8, (row_end - row) * 128, (row_end - row) * 288);
    enum { IN_H = 8, IN_W = 8, OUT_W = 8, K_H = 3 };
    enum { STRIDE_H = 1, STRIDE_W = 1, DIL_H = 1, PAD_TOP = 1, PAD_LEFT = 1 };
    enum { X_SH = 8, X_SW = 1, Y_SH = 128, Y_SW = 16, GROUP_OUT = 16 };
    enum { DEPTH = 9, ADJACENT = 1 };
    enum { EDGE = 20 };
    int8_t *const edge = (int8_t *)&scratch[EDGE];
    for (int32_t oy = row; oy < row_end; ++oy) {
        const int8_t *x_rows[K_H];     /* under the window */
        int32_t from[K_H];                  /* 0; of a row of padding a column behind the last one */
        for (int32_t ky = 0; ky < K_H; ++ky) {
            const int32_t iy = (oy * STRIDE_H) - PAD_TOP + (ky * DIL_H);
            const int32_t inside_y = (iy >= 0) && (iy < IN_H);
            x_rows[ky] = inside_y ? &x[(iy % 3) * X_SH] : x;
            from[ky] = inside_y ? 0 : (IN_W + PAD_LEFT);
        }
        int8_t *const y_row = &y[(oy % 3) * Y_SH];
        F2C_MACS(OUT_W * GROUP_OUT * DEPTH);
        for (int32_t ox = 0; ox < 6; ox += 3) {
            uint32_t *t = scratch;
            for (int32_t ky = 0; ky < K_H; ++ky) {
                const int32_t left = (ox * STRIDE_W) - PAD_LEFT + from[ky];
                const int32_t inside = ADJACENT && (left >= 0) && (left <= (IN_W - 5));
                const int8_t *const s = inside ? &x_rows[ky][(left * X_SW)]
                    : digits_int8_02_conv_gather3(edge, x_rows[ky], left);
                t = digits_int8_02_conv_widen3(t, s);
            }
            digits_int8_02_conv_tile3(scratch, y_row, ox * Y_SW);
        }
        for (int32_t ox = 6; ox < 8; ox += 2) {
            uint32_t *t = scratch;
            for (int32_t ky = 0; ky < K_H; ++ky) {
                const int32_t left = (ox * STRIDE_W) - PAD_LEFT + from[ky];
                const int32_t inside = ADJACENT && (left >= 0) && (left <= (IN_W - 4));
                const int8_t *const s = inside ? &x_rows[ky][(left * X_SW)]
                    : digits_int8_gather2(/* in_w */ 8, /* in_c */ 1, /* x_sw */ 1, /* group_c */ 1, edge, x_rows[ky], left);
                t = digits_int8_02_conv_widen2(t, s);
            }
            digits_int8_02_conv_tile2(scratch, y_row, ox * Y_SW);
        }
    }
}
