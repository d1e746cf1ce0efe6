/* SPDX-License-Identifier: Apache-2.0 */
/* Part of rows.c: black and white, measures, skew. */

/* Into four tables, so that equal neighbours do not wait for each other, and all four are read before one is written: a
 * processor does not know in time that they are never the same. */
static void histogram_row(const uint8_t *row, uint32_t n, uint32_t tables[4][256])
{
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        uint32_t a = tables[0][row[i]], b = tables[1][row[i + 1]];
        uint32_t c = tables[2][row[i + 2]], d = tables[3][row[i + 3]];
        tables[0][row[i]] = a + 1;
        tables[1][row[i + 1]] = b + 1;
        tables[2][row[i + 2]] = c + 1;
        tables[3][row[i + 3]] = d + 1;
    }
    for (; i < n; i++)
        tables[0][row[i]]++;
}

static void histogram(const struct plane_view *in, uint32_t counts[256])
{
    uint32_t tables[4][256] = {{0}};
    for (uint32_t y = 0; y < in->height; y++)
        histogram_row(in->data + y * in->stride, in->width, tables);
    for (uint32_t i = 0; i < 256; i++)
        counts[i] = tables[0][i] + tables[1][i] + tables[2][i] + tables[3][i];
}

static void threshold_row(const uint8_t *restrict row, uint32_t threshold, uint8_t *restrict out, uint32_t n)
{
    uint8_t most = (uint8_t)threshold;
    for (uint32_t i = 0; i < n; i++)
        out[i] = row[i] > most ? 255 : 0;
}

/* ---- Sauvola ---- */

static void columns_add(const uint8_t *restrict row, uint32_t *restrict sum, uint32_t *restrict squares, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        sum[i] += row[i];
        squares[i] += (uint32_t)row[i] * row[i];
    }
}

static void columns_take(const uint8_t *restrict row, uint32_t *restrict sum, uint32_t *restrict squares, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        sum[i] -= row[i];
        squares[i] -= (uint32_t)row[i] * row[i];
    }
}

static void sauvola_columns(const uint8_t *enters, const uint8_t *leaves, const struct sauvola_sums *sums, uint32_t n)
{
    if (enters)
        columns_add(enters, sums->sum, sums->squares, n);
    if (leaves)
        columns_take(leaves, sums->sum, sums->squares, n);
}

/* across[i]: the sum of the columns before i - radius. Wraps around at 2^32, which differences do not mind. */
static void run_across(const uint32_t *columns, uint32_t *across, uint32_t radius, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i <= radius; i++)
        across[i] = 0;
    for (uint32_t i = 0; i < n; i++)
        across[radius + 1 + i] = sum += columns[i];
    for (uint32_t i = 0; i < radius; i++)
        across[radius + 1 + n + i] = sum;
}

static void sauvola_row(const struct sauvola_args *args, const struct sauvola_sums *sums, const uint8_t *restrict row,
                        uint8_t *restrict out)
{
    int32_t width = (int32_t)args->in.width, radius = (int32_t)args->radius;
    const uint32_t *restrict across = sums->across, *restrict squares = sums->across_squares;
    double k_256 = args->k_256;
    run_across(sums->sum, sums->across, args->radius, args->in.width);
    run_across(sums->squares, sums->across_squares, args->radius, args->in.width);
    for (int32_t x = 0; x < width; x++) {
        int32_t from = x > radius ? x - radius : 0, to = x + radius < width ? x + radius + 1 : width;
        double n = (to - from) * (int32_t)sums->rows;
        double sum = (int32_t)(across[x + 2 * radius + 1] - across[x]);
        double square = (int32_t)(squares[x + 2 * radius + 1] - squares[x]);
        out[x] = sauvola_is_paper(row[x], n, sum, square, k_256) ? 255 : 0;
    }
}

/* ---- measures ---- */

static void sharpness_row(const uint8_t *up, const uint8_t *row, const uint8_t *down, uint32_t n, int64_t *sum,
                          uint64_t *squares)
{
    enum { SHORT = 1024 }; /* so that sums of squares fit 32 bits */
    int32_t first = laplacian(up[0], row[0], row[0], row[n > 1 ? 1 : 0], down[0]);
    int32_t last = n > 1 ? laplacian(up[n - 1], row[n - 2], row[n - 1], row[n - 1], down[n - 1]) : 0;
    *sum += first + last;
    *squares += (uint64_t)(first * first + last * last);
    for (uint32_t at = 1, to; at + 1 < n; at = to) {
        int32_t part = 0, part_squares = 0;
        to = n - 1 - at < SHORT ? n - 1 : at + SHORT;
        for (uint32_t x = at; x < to; x++) {
            int16_t value = laplacian(up[x], row[x - 1], row[x], row[x + 1], down[x]);
            part += value;
            part_squares += (int32_t)value * value;
        }
        *sum += part;
        *squares += (uint64_t)part_squares;
    }
}

/* Sums of columns of four rows first, of RUN pixels at a time. */
struct ssim_columns {
    uint16_t a[RUN], b[RUN];
    uint32_t squares[RUN], product[RUN];
};

static void ssim_columns_make(const uint8_t *restrict a, uint64_t a_stride, const uint8_t *restrict b,
                              uint64_t b_stride, struct ssim_columns *restrict out, uint32_t n)
{
    memset(out, 0, sizeof *out);
    for (uint32_t y = 0; y < 4; y++, a += a_stride, b += b_stride)
        for (uint32_t i = 0; i < n; i++) {
            out->a[i] = (uint16_t)(out->a[i] + a[i]);
            out->b[i] = (uint16_t)(out->b[i] + b[i]);
            out->squares[i] += (uint32_t)(a[i] * a[i] + b[i] * b[i]);
            out->product[i] += (uint32_t)(a[i] * b[i]);
        }
}

static void ssim_blocks(const uint8_t *a, uint64_t a_stride, const uint8_t *b, uint64_t b_stride, struct ssim_sums *out,
                        uint32_t blocks)
{
    struct ssim_columns columns;
    for (uint32_t at = 0, n; at < blocks; at += n, a += 4 * n, b += 4 * n) {
        n = blocks - at < RUN / 4 ? blocks - at : RUN / 4;
        ssim_columns_make(a, a_stride, b, b_stride, &columns, 4 * n);
        for (uint32_t i = 0; i < n; i++) {
            struct ssim_sums sums = {0};
            for (uint32_t x = 4 * i; x < 4 * i + 4; x++) {
                sums.a += columns.a[x];
                sums.b += columns.b[x];
                sums.squares += columns.squares[x];
                sums.product += columns.product[x];
            }
            out[at + i] = sums;
        }
    }
}

/* ---- skew ---- */

/* Ink of a row of pixels by strips; counts are `height` apart. */
static void skew_count(const uint8_t *row, uint32_t width, uint32_t threshold, uint16_t *counts, uint32_t height)
{
    uint8_t most = (uint8_t)threshold;
    uint32_t whole = width / SKEW_STRIP_WIDTH;
    for (uint32_t strip = 0; strip < whole; strip++) {
        uint16_t ink = 0; /* gcc 12 gets sums of comparisons in 8 bits wrong */
        for (uint32_t x = 0; x < SKEW_STRIP_WIDTH; x++)
            ink = (uint16_t)(ink + (row[strip * SKEW_STRIP_WIDTH + x] <= most));
        counts[(size_t)strip * height] = ink;
    }
    if (width % SKEW_STRIP_WIDTH != 0)
        counts[(size_t)whole * height] = skew_strip_ink(row, width, whole, threshold);
}

static void skew_add(const uint16_t *restrict counts, uint16_t *restrict profile, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        profile[i] = (uint16_t)(profile[i] + counts[i]);
}

static uint64_t skew_score(const uint16_t *profile, uint32_t n)
{
    uint64_t score = 0;
    for (uint32_t i = 0; i + 1 < n; i++) {
        int64_t change = (int64_t)profile[i + 1] - profile[i];
        score += (uint64_t)(change * change);
    }
    return score;
}
