/* Conv > Relu
 *   from  stem_raw; stem_relu
 *   int8 [1, 1, 8, 8] -> int8 [1, 16, 8, 8]
 *   9216 multiply-accumulates */
static inline int8_t digits_int8_02_conv_out(int32_t acc, int32_t mult)
{
    const int32_t v0 = f2c_requant_s8(acc, mult, -510, 2);  /* Conv, Relu */
    return (int8_t)v0;
}

/* The same for 256 times a sum, as it is collected in the upper halves of words. */
static inline int8_t digits_int8_02_conv_out_upper(int32_t acc, int32_t mult)
{
    const int32_t v0 = f2c_requant_s8(acc, mult, -130560, 10);  /* Conv, Relu */
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

/* Four pixels, widened at t to WORDS words each, times pairs of outputs, PAIR words of the stream w; the first result is y_row[at]. */
static F2C_TILE_CORE void digits_int8_02_conv_tile4(const int32_t *w, int32_t pairs, const int32_t *t, int8_t *restrict y_row, int32_t at)
{
    enum { Y_SC = 8 };
    enum { WORDS = 6 };
    enum { PAIR = 10 };
    const int32_t *const end = &t[4 * WORDS];
    y_row += at;            /* and on, from output to output */
    F2C_LOOPBOUND(8, 8)
    for (const int32_t *const w_end = &w[pairs * PAIR]; w < w_end;) {
        int32_t s[8];          /* of the even output, then of the odd one */
        F2C_DOTS_4(FLAT, 6, JOINED, w, t, end, s);
        y_row[0] = digits_int8_02_conv_out(s[0], w[0]);
        y_row[1] = digits_int8_02_conv_out(s[1], w[0]);
        y_row[2] = digits_int8_02_conv_out(s[2], w[0]);
        y_row[3] = digits_int8_02_conv_out(s[3], w[0]);
        y_row += Y_SC;
        y_row[0] = digits_int8_02_conv_out_upper(f2c_upper(s[4], s[0]), w[1]);
        y_row[1] = digits_int8_02_conv_out_upper(f2c_upper(s[5], s[1]), w[1]);
        y_row[2] = digits_int8_02_conv_out_upper(f2c_upper(s[6], s[2]), w[1]);
        y_row[3] = digits_int8_02_conv_out_upper(f2c_upper(s[7], s[3]), w[1]);
        y_row += Y_SC;
        w += 2;
    }
}

/* The strip of 4 pixels from column `left` on, padding filled in. */
static F2C_CORE const int8_t *digits_int8_02_conv_gather4(int8_t *edge, const int8_t *x_row, int32_t left)
{
    enum { IN_W = 8, IN_C = 1 };
    enum { X_SC = 1 };
    enum { X_SW = 1, FILL = -128 };
    enum { GROUP_STEP = 1, COLUMN_STEP = 1, GROUP_C = 1 };
    int8_t *to = edge;
    F2C_UNROLL_BY(1)
    for (int32_t n = 0; n < 1; ++n) {
        F2C_UNROLL_BY(1)
        for (int32_t column = 0; column < 6; ++column) {
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

static F2C_INLINE void digits_int8_02_conv(const int8_t *restrict x, int8_t *restrict y, int32_t *restrict scratch, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(3, 1, 1, 8) * 8, (row_end - row) * 128, (row_end - row) * 320);
    enum { IN_H = 8, IN_W = 8, OUT_W = 8, K_H = 3 };
    enum { STRIDE_H = 1, STRIDE_W = 1, DIL_H = 1, PAD_TOP = 1, PAD_LEFT = 1 };
    enum { X_SH = 8, X_SW = 1, Y_SH = 128, Y_SW = 1 };
    enum { ADJACENT = 1, EDGE = 24 };
    enum { GROUP_OUT = 16, DEPTH = 9, PAIRS = 8 };
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
        for (int32_t ox = 0; ox < 8; ox += 4) {
            int32_t *t = scratch;
            for (int32_t ky = 0; ky < K_H; ++ky) {
                const int32_t left = (ox * STRIDE_W) - PAD_LEFT + from[ky];
                const int32_t inside = ADJACENT && (left >= 0) && (left <= (IN_W - 6));
                const int8_t *const s = inside ? &x_rows[ky][(left * X_SW)]
                    : digits_int8_02_conv_gather4(edge, x_rows[ky], left);
                t = digits_int8_02_conv_widen4(t, s);
            }
            digits_int8_02_conv_tile4(&digits_int8_02_conv_w[0], PAIRS, scratch, y_row, ox * Y_SW);
        }
    }
}
