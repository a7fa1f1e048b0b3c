/* Conv > Relu
 *   from  depthwise_raw; depthwise_relu
 *   int8 [1, 16, 8, 8] -> int8 [1, 16, 8, 8]
 *   7744 multiply-accumulates */
static inline int8_t digits_int8_03_conv_out(int32_t acc, int32_t oc)
{
    const int32_t v0 = f2c_requant_s8(acc, digits_int8_03_conv_mult[oc], -510, 2);  /* Conv, Relu */
    return (int8_t)v0;
}

static F2C_INLINE void digits_int8_03_conv(const int8_t *restrict x, int8_t *restrict y, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(3, 1, 1, 8) * 128, (row_end - row) * 128, (row_end - row) * 272);
    enum { IN_H = 8, IN_W = 8, OUT_W = 8, OUT_C = 16, K_H = 3, K_W = 3 };
    enum { STRIDE_H = 1, STRIDE_W = 1, DIL_H = 1, DIL_W = 1, PAD_TOP = 1, PAD_LEFT = 1, X_SC = 1 };
    enum { X_SH = 128, X_SW = 16, Y_SH = 128, Y_SW = 16, MULT = 1 };
    for (int32_t oy = row; oy < row_end; ++oy) {
        const int32_t top = (oy * STRIDE_H) - PAD_TOP;
        const int32_t ky_first = (top < 0) ? ((DIL_H - 1 - top) / DIL_H) : 0;
        const int32_t ky_room = (IN_H - top + DIL_H - 1) / DIL_H;
        const int32_t ky_end = (ky_room < K_H) ? ky_room : K_H;
        const int8_t *x_rows[K_H] = {0};
        for (int32_t ky = ky_first; ky < ky_end; ++ky) {
            const int32_t iy = top + (ky * DIL_H);
            x_rows[ky] = &x[(iy % 3) * X_SH];
        }
        int8_t *const y_row = &y[(oy % 1) * Y_SH];
        for (int32_t ox = 0; ox < OUT_W; ++ox) {
            const int32_t left = (ox * STRIDE_W) - PAD_LEFT;
            const int32_t kx_first = (left < 0) ? ((DIL_W - 1 - left) / DIL_W) : 0;
            const int32_t kx_room = (IN_W - left + DIL_W - 1) / DIL_W;
            const int32_t kx_end = (kx_room < K_W) ? kx_room : K_W;
            const int32_t at = ox * Y_SW;
            if ((ky_first == 0) && (ky_end == K_H) && (kx_first == 0) && (kx_end == K_W)) {
                /* the whole window lies inside: constant bounds, so that the compiler unrolls */
                F2C_MACS(OUT_C * K_H * K_W);
                for (int32_t oc = 0; oc < OUT_C; ++oc) {
                    int32_t acc = digits_int8_03_conv_b[oc];
                    for (int32_t ky = 0; ky < K_H; ++ky) {
                        const int8_t *const px = &x_rows[ky][(left * X_SW) + ((oc / MULT) * X_SC)];
                        for (int32_t kx = 0; kx < K_W; ++kx) {
                            acc += (px[kx * DIL_W * X_SW] - (-128)) * digits_int8_03_conv_w[(((ky * K_W) + kx) * OUT_C) + oc];
                        }
                    }
                    y_row[at + oc] = digits_int8_03_conv_out(acc, oc);
                }
            } else {
                for (int32_t oc = 0; oc < OUT_C; ++oc) {
                    int32_t acc = digits_int8_03_conv_b[oc];
                    for (int32_t ky = ky_first; ky < ky_end; ++ky) {
                        for (int32_t kx = kx_first; kx < kx_end; ++kx) {
                            const int32_t ix = left + (kx * DIL_W);
                            F2C_MACS(1);
                            acc += (x_rows[ky][(ix * X_SW) + ((oc / MULT) * X_SC)] - (-128))
                                * digits_int8_03_conv_w[(((ky * K_W) + kx) * OUT_C) + oc];
                        }
                    }
                    y_row[at + oc] = digits_int8_03_conv_out(acc, oc);
                }
            }
        }
    }
}
