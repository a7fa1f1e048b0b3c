/* MaxPool
 *   from  pool
 *   float32 [1, 32, 8, 8] -> float32 [1, 32, 4, 4]
 *   2048 operations */
static F2C_INLINE void digits_fp32_4_maxpool(const float *restrict x, float *restrict y, int32_t row, int32_t row_end)
{
    F2C_TRAFFIC(F2C_ROWS_UNDER(2, 2, 0, 8) * 1024, (row_end - row) * 512, 0);
    enum { OUT_W = 4, OUT_C = 32, K_H = 2, K_W = 2 };
    enum { STRIDE_H = 2, STRIDE_W = 2, DIL_H = 1, DIL_W = 1, PAD_TOP = 0, PAD_LEFT = 0, X_SC = 1 };
    enum { X_SH = 256, X_SW = 32, Y_SH = 128, Y_SW = 32 };
    for (int32_t oy = row; oy < row_end; ++oy) {
        const float *x_rows[K_H];
        const int32_t ky_first = 0, ky_end = K_H;
        for (int32_t ky = 0; ky < K_H; ++ky) {
            const int32_t iy = (oy * STRIDE_H) - PAD_TOP + (ky * DIL_H);
            x_rows[ky] = &x[(iy % 2) * X_SH];
        }
        float *const y_row = &y[oy * Y_SH];
        for (int32_t ox = 0; ox < OUT_W; ++ox) {
            const int32_t left = (ox * STRIDE_W) - PAD_LEFT, kx_first = 0, kx_end = K_W;
            const int32_t at = ox * Y_SW;
            for (int32_t c = 0; c < OUT_C; ++c) {
                float acc = -F2C_INFINITY;
                for (int32_t ky = ky_first; ky < ky_end; ++ky) {
                    const float *const px = &x_rows[ky][(left * X_SW) + (c * X_SC)];
                    for (int32_t kx = kx_first; kx < kx_end; ++kx) {
                        const float v = px[kx * DIL_W * X_SW];
                        acc = ((acc < v) || ((v != v) && (acc == acc))) ? v : acc;
                    }
                }
                y_row[at + c] = acc;
            }
        }
    }
}
