/* Conv > Relu
 *   from  stem_raw; stem_relu
 *   uint8 [1, 1, 8, 8] -> uint8 [1, 16, 8, 8]
 *   9216 multiply-accumulates */
static inline uint8_t digits_int8_02_conv_out(int32_t acc, int32_t oc)
{
    const int32_t v0 = f2c_requant_u8(acc, digits_int8_02_conv_mult[oc], 2, 2);  /* Conv, Relu */
    return (uint8_t)v0;
}

/* Sums of 8 pixels, the first one's windows at `from`, by 16 outputs; rows ky_first .. ky_end - 1 of the
 * window are inside. */
static F2C_INLINE void digits_int8_02_conv_sums_8x16(const uint8_t *const *x_rows, int32_t ky_first, int32_t ky_end, const int8_t *w, const int32_t *b, int32_t from, int32_t *sums)
{
    enum { SPAN = 1, UNIT = 4 };
    enum { STEP = 1, SEGMENTS = 1, SEGMENT = 1 };
    enum { PIXELS = 8, LANES = 16, WIDTH = F2C_WIDTH };

    enum { VECTORS = F2C_VECTORS(PIXELS, LANES / WIDTH) };
    for (int32_t o = 0; o < LANES; o += VECTORS * WIDTH) {
        f2c_ints acc[PIXELS][VECTORS];
        F2C_UNROLL_BY(8)
        for (int32_t p = 0; p < PIXELS; ++p) {
            F2C_UNROLL_BY(4)
            for (int32_t v = 0; v < VECTORS; ++v) {
                acc[p][v] = f2c_ints_at(&b[o + (v * WIDTH)]);
            }
        }
        for (int32_t ky = ky_first; ky < ky_end; ++ky) {
            for (int32_t s = 0; s < SEGMENTS; ++s) {
                const uint8_t *const x = &x_rows[ky][from + (s * SEGMENT)];
                const int8_t *const w_s = &w[((((ky * SEGMENTS) + s) * SPAN * LANES) + o) * UNIT];
                for (int32_t i = 0; i < SPAN; ++i) {
                    f2c_ints w_i[VECTORS];
                    F2C_UNROLL_BY(4)
                    for (int32_t v = 0; v < VECTORS; ++v) {
                        w_i[v] = f2c_ints_held(&w_s[((i * LANES) + (v * WIDTH)) * UNIT]);
                    }
                    F2C_UNROLL_BY(8)
                    for (int32_t p = 0; p < PIXELS; ++p) {
                        F2C_UNROLL_BY(4)
                        for (int32_t v = 0; v < VECTORS; ++v) {
                            acc[p][v] = f2c_ints_add_u8(acc[p][v], &x[(p * STEP) + (i * UNIT)], w_i[v]);
                        }
                    }
                }
            }
        }
        F2C_UNROLL_BY(8)
        for (int32_t p = 0; p < PIXELS; ++p) {
            F2C_UNROLL_BY(4)
            for (int32_t v = 0; v < VECTORS; ++v) {
                f2c_ints_store(&sums[(p * LANES) + o + (v * WIDTH)], acc[p][v]);
            }
        }
    }
}

/* 8 pixels, ox and on, of 16 outputs, `first` and on. */
static F2C_INLINE void digits_int8_02_conv_8x16(const uint8_t *const *x_rows, int32_t ky_first, int32_t ky_end, const int8_t *w, uint8_t *restrict y_row, int32_t ox, int32_t first)
{
    enum { Y_SW = 16 };
    enum { STEP = 1 };
    enum { PIXELS = 8, LANES = 16, OUTS = 16 };
    int32_t tile[PIXELS * LANES];
    digits_int8_02_conv_sums_8x16(x_rows, ky_first, ky_end, w, &digits_int8_02_conv_b[first], ox * STEP, tile);
    for (int32_t p = 0; p < PIXELS; ++p) {
        const int32_t *const sums = &tile[p * LANES];
        const int32_t at = (ox + p) * Y_SW;
        for (int32_t o = 0; o < OUTS; ++o) {
            y_row[at + (first + o)] = digits_int8_02_conv_out(sums[o], first + o);
        }
    }
}

static F2C_INLINE void digits_int8_02_conv(const uint8_t *restrict x, uint8_t *restrict y, uint8_t *restrict scratch, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(3, 1, 1, 8) * 8, (row_end - row) * 128, (row_end - row) * 320);
    enum { IN_H = 8, IN_C = 1, OUT_W = 8, K_H = 3 };
    enum { STRIDE_H = 1, DIL_H = 1, PAD_TOP = 1, PAD_LEFT = 1, X_SC = 1 };
    enum { X_SH = 8, X_SW = 1, Y_SH = 128, STREAM = 12 };
    enum { GROUP_OUT = 16, DEPTH = 9, STRIP = 10, STRIPS = 43 };
    enum { EXTENT = 3, FILL = 0, COLUMNS = 8 };
    /* rows of the input with their padding, each brought together once: row iy of the image is number iy % EXTENT; one of padding */
    int32_t next = 0;
    for (int32_t n = 0; n < STRIPS; ++n) {
        scratch[n] = FILL;
    }
    for (int32_t oy = row; oy < row_end; ++oy) {
        F2C_MACS(OUT_W * GROUP_OUT * DEPTH);
        const int32_t top = (oy * STRIDE_H) - PAD_TOP;
        const int32_t ky_first = 0, ky_end = K_H;
        const uint8_t *x_rows[K_H] = {0};
        uint8_t *const y_row = &y[(oy % 3) * Y_SH];
        for (next = (next < top) ? top : next; (next < (top + EXTENT)) && (next < IN_H); ++next) {
            const int32_t iy = next;
            const uint8_t *const x_row = &x[iy * X_SH];
            uint8_t *const to = &scratch[((iy % EXTENT) * STRIP) + (PAD_LEFT * IN_C)];
            for (int32_t ix = 0; ix < COLUMNS; ++ix) {
                for (int32_t c = 0; c < IN_C; ++c) {
                    to[(ix * IN_C) + c] = x_row[(ix * X_SW) + (c * X_SC)];
                }
            }
        }
        for (int32_t ky = ky_first; ky < ky_end; ++ky) {
            const int32_t iy = top + (ky * DIL_H);
            x_rows[ky] = &scratch[(((iy < 0) || (iy >= IN_H)) ? EXTENT : (iy % EXTENT)) * STRIP];
        }
        for (int32_t first = 0; first < 16; first += 16) {
            for (int32_t ox = 0; ox < 8; ox += 8) {
                digits_int8_02_conv_8x16(x_rows, ky_first, ky_end, &digits_int8_02_conv_w[0 + ((first - 0) * STREAM)], y_row, ox, first);
            }
        }
    }
}
