/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of device.cu: black and white, measures, hashes, skew. Sums of many pixels: each thread adds up its own, then to
 * the block's, and one thread of the block to the result. All are integers, so any order gives the same.
 */

/* Of negative numbers too: they wrap, as sums of two's complement may. */
#define ADD(to, value) atomicAdd((unsigned long long *)(to), (unsigned long long)(value))

/* The rows of a block that has a grid of one column. */
#define BLOCK_ROWS 8
#define BLOCK_FIRST_ROW (blockIdx.y * BLOCK_ROWS)

KERNEL uint32_t block_last_row(uint32_t first, uint32_t height)
{
    return first + BLOCK_ROWS < height ? first + BLOCK_ROWS : height;
}

DEVICE_FUNCTION(clear, struct clear_args)
{
    EACH_THREAD
    {
        for (uint64_t i = threadIdx.x; i < args.count; i += blockDim.x)
            args.words[i] = 0;
    }
}

/* Bytes of one value in a row: on pages most are paper, and one addition stands for all of a run. */
struct shade_run {
    uint32_t shade, length;
};

KERNEL void shade_count(struct shade_run *run, uint32_t shade, uint32_t *counts)
{
    if (shade == run->shade) {
        run->length++;
        return;
    }
    if (run->length > 0)
        atomicAdd(&counts[run->shade], run->length);
    run->shade = shade;
    run->length = 1;
}

DEVICE_FUNCTION(histogram, struct histogram_args)
{
    SHARED uint32_t counts[256];
    EACH_THREAD
    {
        counts[threadIdx.x] = 0;
    }
    EACH_THREAD
    {
        struct shade_run shades = {0, 0};
        uint32_t first = BLOCK_FIRST_ROW, rows = block_last_row(first, args.in.height) - first;
        uint32_t parts = args.in.width / 16 + 1; /* of a row: its sixteens, and one for what they leave over */
        for (uint32_t i = threadIdx.x; i < rows * parts; i += blockDim.x) {
            const uint8_t *row = args.in.data + (first + i / parts) * args.in.stride;
            struct byte_run run = byte_run_of(row, args.in.width);
            uint32_t part = i % parts, left = args.in.width - 16 * run.sixteens;
            if (part < run.sixteens) {
                struct sixteen loaded = aligned_sixteen(row + run.head + 16 * part);
                UNROLL
                for (uint32_t j = 0; j < 16; j++)
                    shade_count(&shades, BYTE_OF(loaded, j), counts);
            }
            for (uint32_t n = 0; part == parts - 1 && n < left; n++)
                shade_count(&shades, row[left_over(&run, n)], counts);
        }
        if (shades.length > 0)
            atomicAdd(&counts[shades.shade], shades.length);
    }
    EACH_THREAD
    {
        if (counts[threadIdx.x] != 0)
            atomicAdd(&args.counts[threadIdx.x], counts[threadIdx.x]);
    }
}

DEVICE_FUNCTION(otsu, struct otsu_args)
{
    SHARED uint128 criteria[256];
    EACH_THREAD
    {
        uint64_t n = 0, sum = 0, n_0 = 0, sum_0 = 0;
        for (uint32_t i = 0; i < 256; i++) {
            uint64_t count = args.counts[i], part = i <= threadIdx.x ? count : 0;
            n += count;
            sum += i * count;
            n_0 += part;
            sum_0 += i * part;
        }
        criteria[threadIdx.x] = otsu_criterion(n, sum, n_0, sum_0);
    }
    EACH_THREAD
    {
        uint32_t best = 0;
        for (uint32_t i = 1; i < 256 && threadIdx.x == 0; i++)
            best = criteria[i] > criteria[best] ? i : best;
        if (threadIdx.x == 0)
            *args.threshold = criteria[best] > 0 ? best : 0;
    }
}

DEVICE_FUNCTION(threshold, struct threshold_args)
{
    EACH_THREAD
    {
        uint32_t x = WIDE_BYTES * PIXEL_X, y = PIXEL_Y, threshold = args.threshold ? *args.threshold : args.fixed;
        if (x >= args.in.width || y >= args.in.height)
            continue;
        struct sixteen loaded = load_sixteen(args.in.data + y * args.in.stride, x, args.in.width);
        bytes_above(&loaded, threshold);
        store_bytes(args.out + y * args.out_stride, x, args.in.width, 16, &loaded);
    }
}

/* Adds a row to sums of columns from `left` on, or takes it away; columns outside of the picture stay 0. */
KERNEL void columns_move(const struct plane_view *in, int64_t left, int64_t y, uint32_t columns, uint32_t sign,
                         uint32_t thread, uint32_t threads, uint32_t *sums, uint32_t *squares)
{
    if (y < 0 || y >= in->height)
        return;
    for (uint32_t i = thread; i < columns; i += threads) {
        int64_t x = left + i;
        uint32_t pixel = x >= 0 && x < in->width ? in->data[y * in->stride + x] : 0;
        sums[i] += sign * pixel;
        squares[i] += sign * pixel * pixel;
    }
}

/* A block for as many columns as it has threads, and some rows: the sums of the window's columns move down with it. */
DEVICE_FUNCTION(sauvola, struct sauvola_args)
{
    SHARED uint32_t sums[PLAN_BLOCK_THREADS + 2 * SAUVOLA_RADIUS_MAX],
        squares[PLAN_BLOCK_THREADS + 2 * SAUVOLA_RADIUS_MAX];
    int64_t radius = args.radius, left = (int64_t)blockIdx.x * blockDim.x - radius,
            top = blockIdx.y * SAUVOLA_BLOCK_ROWS;
    uint32_t columns = blockDim.x + 2 * args.radius;
    int64_t bottom = top + SAUVOLA_BLOCK_ROWS < args.in.height ? top + SAUVOLA_BLOCK_ROWS : args.in.height;
    EACH_THREAD
    {
        for (uint32_t i = threadIdx.x; i < columns; i += blockDim.x)
            sums[i] = squares[i] = 0;
        for (int64_t y = top - radius; y < top + radius; y++)
            columns_move(&args.in, left, y, columns, 1, threadIdx.x, blockDim.x, sums, squares);
    }
    for (int64_t y = top; y < bottom; y++) {
        int64_t rows = (y + radius < args.in.height ? y + radius + 1 : args.in.height) - (y > radius ? y - radius : 0);
        EACH_THREAD
        {
            columns_move(&args.in, left, y + radius, columns, 1, threadIdx.x, blockDim.x, sums, squares);
        }
        EACH_THREAD
        {
            int64_t x = left + radius + threadIdx.x;
            if (x >= args.in.width)
                continue;
            int64_t from = x > radius ? x - radius : 0,
                    to = x + radius < args.in.width ? x + radius + 1 : args.in.width;
            uint32_t sum = 0, square = 0;
            for (uint32_t i = threadIdx.x; i <= threadIdx.x + 2 * args.radius; i++) {
                sum += sums[i];
                square += squares[i];
            }
            args.out[y * args.out_stride + x] = sauvola_is_paper(args.in.data[y * args.in.stride + x],
                                                                 (double)((to - from) * rows), sum, square, args.k_256)
                                                    ? 255
                                                    : 0;
        }
        EACH_THREAD
        {
            columns_move(&args.in, left, y - radius, columns, 0xFFFFFFFFu, threadIdx.x, blockDim.x, sums, squares);
        }
    }
}

DEVICE_FUNCTION(sharpness, struct sharpness_args)
{
    SHARED unsigned long long sum, squares;
    EACH_THREAD
    {
        if (threadIdx.x == 0)
            sum = squares = 0;
    }
    EACH_THREAD
    {
        int64_t mine = 0, mine_squares = 0;
        for (uint32_t y = BLOCK_FIRST_ROW; y < block_last_row(BLOCK_FIRST_ROW, args.in.height); y++) {
            const uint8_t *row = args.in.data + y * args.in.stride;
            const uint8_t *up = y > 0 ? row - args.in.stride : row;
            const uint8_t *down = y + 1 < args.in.height ? row + args.in.stride : row;
            for (uint32_t x = threadIdx.x; x < args.in.width; x += blockDim.x) {
                uint32_t left = x > 0 ? x - 1 : x, right = x + 1 < args.in.width ? x + 1 : x;
                int32_t value = laplacian(up[x], row[left], row[x], row[right], down[x]);
                mine += value;
                mine_squares += value * value;
            }
        }
        ADD(&sum, mine);
        ADD(&squares, mine_squares);
    }
    EACH_THREAD
    {
        if (threadIdx.x == 0) {
            ADD(args.sum, sum);
            ADD(args.squares, squares);
        }
    }
}

/* A thread for a window. */
DEVICE_FUNCTION(ssim, struct ssim_args)
{
    SHARED unsigned long long sum;
    EACH_THREAD
    {
        if (threadIdx.x == 0 && threadIdx.y == 0)
            sum = 0;
    }
    EACH_THREAD
    {
        uint32_t x = 4 * PIXEL_X, y = 4 * PIXEL_Y;
        if (x + 8 > args.a.width || y + 8 > args.a.height)
            continue;
        struct ssim_sums window = {0, 0, 0, 0};
        for (uint32_t i = 0; i < 64; i++) {
            uint32_t a = args.a.data[(y + i / 8) * args.a.stride + x + i % 8];
            uint32_t b = args.b.data[(y + i / 8) * args.b.stride + x + i % 8];
            window.a += a;
            window.b += b;
            window.squares += a * a + b * b;
            window.product += a * b;
        }
        ADD(&sum, ssim_window(&window));
    }
    EACH_THREAD
    {
        if (threadIdx.x == 0 && threadIdx.y == 0)
            ADD(args.sum, sum);
    }
}

DEVICE_FUNCTION(distance, struct distance_args)
{
    SHARED unsigned long long n_a, n_b, sum;
    EACH_THREAD
    {
        if (threadIdx.x == 0)
            n_a = n_b = sum = 0;
    }
    EACH_THREAD
    {
        ADD(&n_a, args.a[threadIdx.x]);
        ADD(&n_b, args.b[threadIdx.x]);
    }
    EACH_THREAD
    {
        ADD(&sum, bin_difference(args.a[threadIdx.x], n_a, args.b[threadIdx.x], n_b));
    }
    EACH_THREAD
    {
        if (threadIdx.x == 0)
            *args.distance = histogram_distance(sum, n_a, n_b);
    }
}

/* ---- hashes ---- */

DEVICE_FUNCTION(dhash, struct hash_args)
{
    EACH_THREAD
    {
        if (threadIdx.x == 0)
            *args.hash = dhash_of_samples(args.samples);
    }
}

DEVICE_FUNCTION(phash, struct hash_args)
{
    SHARED int32_t rows[256];
    SHARED int64_t coefficients[64];
    EACH_THREAD
    {
        rows[threadIdx.x] = phash_row_coefficient(args.samples, threadIdx.x / 8, threadIdx.x % 8);
    }
    EACH_THREAD
    {
        if (threadIdx.x < 64)
            coefficients[threadIdx.x] = phash_coefficient(rows, threadIdx.x / 8, threadIdx.x % 8);
    }
    EACH_THREAD
    {
        if (threadIdx.x == 0)
            *args.hash = phash_of_coefficients(coefficients);
    }
}

/* ---- skew ---- */

DEVICE_FUNCTION(skew_strips, struct skew_args)
{
    EACH_THREAD
    {
        uint32_t strip = PIXEL_X, y = PIXEL_Y, threshold = args.found ? *args.found : args.threshold;
        if (strip == 0 && y == 0) {
            skew_begin(args.search, args.step);
            ROLLED
            for (uint32_t i = 0; i < SKEW_CANDIDATES_MAX; i++) /* blocks add to them */
                args.scores[i] = 0;
        }
        if (strip >= args.strips || y >= args.in.height)
            continue;
        const uint8_t *row = args.in.data + y * args.in.stride;
        uint16_t *count = &args.counts[(uint64_t)strip * args.in.height + y];
        if ((strip + 1) * SKEW_STRIP_WIDTH > args.in.width) {
            *count = skew_strip_ink(row, args.in.width, strip, threshold);
            continue;
        }
        struct sixteen loaded = load_sixteen(row, strip * SKEW_STRIP_WIDTH, args.in.width);
        *count = (uint16_t)bytes_at_most(&loaded, threshold);
    }
}

/* Row y of the profile at a slope: 16 bits, as on the host, hold the width of any picture. */
KERNEL uint16_t skew_profile(const struct skew_args *args, int32_t slope, uint32_t y)
{
    uint16_t ink = 0;
    for (uint32_t strip = 0; strip < args->strips; strip++) {
        int64_t at = (int64_t)y + skew_shift(slope, strip, args->in.width);
        if (at >= 0 && at < args->in.height)
            ink = (uint16_t)(ink + args->counts[(uint64_t)strip * args->in.height + (uint64_t)at]);
    }
    return ink;
}

/* A block for a candidate and SKEW_BLOCK_ROWS rows: a thread for a row of the profile, then for its change to the next.
 */
DEVICE_FUNCTION(skew_scores, struct skew_args)
{
    SHARED uint16_t profile[PLAN_BLOCK_THREADS];
    SHARED uint64_t sums[PLAN_BLOCK_THREADS];
    int32_t slope = skew_candidate(args.search, args.candidates, blockIdx.x);
    bool is_allowed = slope >= -args.max_slope && slope <= args.max_slope;
    EACH_THREAD
    {
        uint32_t y = blockIdx.y * SKEW_BLOCK_ROWS + threadIdx.x;
        profile[threadIdx.x] = is_allowed && y < args.in.height ? skew_profile(&args, slope, y) : 0;
    }
    EACH_THREAD
    {
        uint32_t y = blockIdx.y * SKEW_BLOCK_ROWS + threadIdx.x;
        bool has_next = threadIdx.x < SKEW_BLOCK_ROWS && y + 1 < args.in.height;
        int64_t change = has_next ? (int64_t)profile[threadIdx.x + 1] - profile[threadIdx.x] : 0;
        sums[threadIdx.x] = (uint64_t)(change * change);
    }
    BLOCK_SUM(sums)
    EACH_THREAD
    {
        if (threadIdx.x == 0 && sums[0] != 0)
            ADD(&args.scores[blockIdx.x], sums[0]);
    }
}

DEVICE_FUNCTION(skew_choose, struct skew_args)
{
    EACH_THREAD
    {
        if (threadIdx.x != 0)
            continue;
        skew_choose(args.search, args.scores, args.candidates, args.round);
        args.result->slope = args.search->middle;
        args.result->reserved = 0;
        args.result->best = args.search->best;
        args.result->level = args.search->level;
    }
    EACH_THREAD
    {
        for (uint32_t i = threadIdx.x; i < SKEW_CANDIDATES_MAX; i += blockDim.x) /* for the next round */
            args.scores[i] = 0;
    }
}
