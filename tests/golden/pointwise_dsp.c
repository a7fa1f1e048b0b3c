/* Conv > Relu
 *   from  pointwise_raw; pointwise_relu
 *   int8 [1, 16, 8, 8] -> int8 [1, 32, 8, 8]
 *   32768 multiply-accumulates */
static inline int8_t digits_int8_04_conv_out(int32_t acc, int32_t mult)
{
    const int32_t v0 = f2c_requant_s8(acc, mult, -510, 2);  /* Conv, Relu */
    return (int8_t)v0;
}

/* The same for 256 times a sum, as it is collected in the upper halves of words. */
static inline int8_t digits_int8_04_conv_out_upper(int32_t acc, int32_t mult)
{
    const int32_t v0 = f2c_requant_s8(acc, mult, -130560, 10);  /* Conv, Relu */
    return (int8_t)v0;
}

/* Widens a strip of a row for 4 pixels, four elements to pairs (0, 2) and (1, 3); returns the end of what it wrote. */
static F2C_CORE int32_t *digits_int8_04_conv_widen4(int32_t *t, const int8_t *s)
{
    enum { IN_C = 16 };
    enum { QUADS = 4 };
    F2C_UNROLL_BY(1)
    for (int32_t i = 0; i < QUADS; ++i) {
        const int32_t v0 = f2c_load4(&s[0]);
        const int32_t low0 = f2c_sxtb16(v0), high0 = f2c_sxtb16_ror8(v0);
        const int32_t v1 = f2c_load4(&s[IN_C]);
        const int32_t low1 = f2c_sxtb16(v1), high1 = f2c_sxtb16_ror8(v1);
        t[0] = low0;
        t[1] = low1;
        t[4] = high0;
        t[5] = high1;
        const int32_t v2 = f2c_load4(&s[2 * IN_C]);
        const int32_t low2 = f2c_sxtb16(v2), high2 = f2c_sxtb16_ror8(v2);
        const int32_t v3 = f2c_load4(&s[3 * IN_C]);
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

/* Four pixels, widened at t to WORDS words each, times pairs of outputs, PAIR words of the stream w; the first result is y_row[at]. */
static F2C_TILE_CORE void digits_int8_04_conv_tile4(const int32_t *w, int32_t pairs, const int32_t *t, int8_t *restrict y_row, int32_t at)
{
    enum { Y_SW = 32 };
    enum { WORDS = 8 };
    enum { PAIR = 12 };
    const int32_t *const end = &t[4 * WORDS];
    y_row += at;            /* and on, from output to output */
    F2C_LOOPBOUND(16, 16)
    for (const int32_t *const w_end = &w[pairs * PAIR]; w < w_end;) {
        int32_t s[8];          /* of the even output, then of the odd one */
        F2C_DOTS_4(LOOP, 8, JOINED, w, t, end, s);
        y_row[0] = digits_int8_04_conv_out(s[0], w[0]);
        y_row[1] = digits_int8_04_conv_out_upper(f2c_upper(s[4], s[0]), w[1]);
        y_row[Y_SW] = digits_int8_04_conv_out(s[1], w[0]);
        y_row[Y_SW + 1] = digits_int8_04_conv_out_upper(f2c_upper(s[5], s[1]), w[1]);
        y_row[2 * Y_SW] = digits_int8_04_conv_out(s[2], w[0]);
        y_row[2 * Y_SW + 1] = digits_int8_04_conv_out_upper(f2c_upper(s[6], s[2]), w[1]);
        y_row[3 * Y_SW] = digits_int8_04_conv_out(s[3], w[0]);
        y_row[3 * Y_SW + 1] = digits_int8_04_conv_out_upper(f2c_upper(s[7], s[3]), w[1]);
        y_row += 2;
        w += 2;
    }
}

static F2C_INLINE void digits_int8_04_conv(const int8_t *restrict x, int8_t *restrict y, int32_t *restrict scratch, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(1, 1, 0, 8) * 128, (row_end - row) * 256, (row_end - row) * 768);
    enum { OUT_W = 8 };
    enum { STRIDE_H = 1, STRIDE_W = 1 };
    enum { X_SH = 128, X_SW = 16, Y_SH = 256, Y_SW = 32 };
    enum { GROUP_OUT = 32, DEPTH = 16, PAIRS = 16 };
    for (int32_t oy = row; oy < row_end; ++oy) {
        F2C_MACS(OUT_W * GROUP_OUT * DEPTH);
        const int32_t iy = oy * STRIDE_H;
        const int8_t *const x_row = &x[(iy % 1) * X_SH];
        int8_t *const y_row = &y[(oy % 2) * Y_SH];
        for (int32_t ox = 0; ox < 8; ox += 4) {
            (void)digits_int8_04_conv_widen4(scratch, &x_row[ox * STRIDE_W * X_SW]);
            digits_int8_04_conv_tile4(&digits_int8_04_conv_w[0], PAIRS, scratch, y_row, ox * Y_SW);
        }
    }
}
