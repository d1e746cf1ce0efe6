/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/check.h"
#include "kernels/rows.h"

enum { ROUNDS = 3, ROUND_CANDIDATES = 9, FIRST_SIDE_MAX = SKEW_CANDIDATES_MAX / 2, FIRST_PIXELS = 4 };

/* Candidates of the first round are FIRST_PIXELS apart at the edges of the picture, or more if that were too many. */
static int skew_prepare(const struct sheaf_image *in, uint32_t threshold, uint32_t max_slope, struct skew_args *args)
{
    int status = plane_check(in);
    if (status < 0)
        return status;
    if (max_slope > 65536)
        return -EINVAL;
    uint32_t step = FIRST_PIXELS * 2 * 65536 / in->width, least = (max_slope + FIRST_SIDE_MAX - 1) / FIRST_SIDE_MAX;
    step = step > least ? step : least;
    step = step > 0 ? step : 1;
    *args = (struct skew_args){.in = plane_view(in),
                               .threshold = threshold < 255 ? threshold : 255,
                               .strips = (in->width + SKEW_STRIP_WIDTH - 1) / SKEW_STRIP_WIDTH,
                               .candidates = 2 * ((max_slope + step - 1) / step) + 1,
                               .step = (int32_t)step,
                               .max_slope = (int32_t)max_slope};
    return 0;
}

/* Scores of all candidates of a round into args->scores. */
static void candidates_score(const struct skew_args *args, uint16_t *profile)
{
    const struct kernel_rows *rows = kernel_rows();
    uint32_t height = args->in.height;
    for (uint32_t i = 0; i < args->candidates; i++) {
        int32_t slope = skew_candidate(args->search, args->candidates, i);
        args->scores[i] = 0;
        if (slope < -args->max_slope || slope > args->max_slope)
            continue;
        memset(profile, 0, height * sizeof *profile);
        for (uint32_t strip = 0; strip < args->strips; strip++) {
            int64_t shift = skew_shift(slope, strip, args->in.width);
            int64_t from = shift < 0 ? -shift : 0, to = shift < 0 ? height : (int64_t)height - shift;
            if (from < to)
                rows->skew_add(args->counts + (uint64_t)strip * height + from + shift, profile + from,
                               (uint32_t)(to - from));
        }
        args->scores[i] = rows->skew_score(profile, height);
    }
}

int sheaf_kernel_skew(const struct sheaf_image *in, uint32_t threshold, uint32_t max_slope, struct sheaf_skew *ret_skew)
{
    struct skew_args args;
    struct skew_search search;
    uint64_t scores[SKEW_CANDIDATES_MAX];
    int status = skew_prepare(in, threshold, max_slope, &args);
    if (status < 0)
        return status;
    uint16_t *profile = malloc(in->height * sizeof *profile);
    args.counts = malloc((size_t)args.strips * in->height * sizeof *args.counts);
    args.scores = scores;
    args.search = &search;
    if (profile && args.counts) {
        for (uint32_t y = 0; y < in->height; y++)
            kernel_rows()->skew_count(args.in.data + y * args.in.stride, args.in.width, args.threshold, args.counts + y,
                                      in->height);
        skew_begin(&search, args.step);
        for (args.round = 0; args.round < ROUNDS; args.round++) {
            candidates_score(&args, profile);
            skew_choose(&search, scores, args.candidates, args.round);
            args.candidates = ROUND_CANDIDATES;
        }
        *ret_skew = (struct sheaf_skew){.slope = search.middle, .best = search.best, .level = search.level};
    } else {
        status = -ENOMEM;
    }
    free(profile);
    free(args.counts);
    return status;
}

/* What the steps of a search work with: at the head of scratch memory, and behind it the strips' counts. */
struct skew_scratch {
    struct skew_search search;
    uint64_t scores[SKEW_CANDIDATES_MAX];
    uint32_t shades[256], threshold, reserved;
};

static int scratch_take(struct skew_args *args, struct sheaf_kernel_plan *plan, struct skew_scratch **ret_scratch)
{
    uint64_t counts = (uint64_t)args->strips * args->in.height * sizeof *args->counts;
    int status = plan_scratch(plan, sizeof(struct skew_scratch) + counts);
    if (status < 0)
        return status;
    struct skew_scratch *scratch = (struct skew_scratch *)(uintptr_t)plan->scratch;
    args->search = &scratch->search;
    args->scores = scratch->scores;
    args->counts = (uint16_t *)(scratch + 1);
    *ret_scratch = scratch;
    return 0;
}

static int search_plan(struct skew_args *args, struct sheaf_kernel_plan *plan)
{
    int status = plan_append(plan, FUNCTION_skew_strips, args, args->strips, args->in.height);
    for (args->round = 0; args->round < ROUNDS && status == 0; args->round++) {
        status = plan_append_blocks(plan, FUNCTION_skew_scores, args, args->candidates,
                                    args->in.height > 1 ? (args->in.height - 2) / SKEW_BLOCK_ROWS + 1 : 1);
        if (status == 0)
            status = plan_append_blocks(plan, FUNCTION_skew_choose, args, 1, 1);
        args->candidates = ROUND_CANDIDATES;
    }
    return status;
}

int sheaf_plan_skew(const struct sheaf_image *in, uint32_t threshold, uint32_t max_slope, struct sheaf_skew *skew,
                    struct sheaf_kernel_plan *plan)
{
    struct skew_args args;
    struct skew_scratch *scratch;
    int status = skew_prepare(in, threshold, max_slope, &args);
    if (status == 0)
        status = skew ? scratch_take(&args, plan, &scratch) : -EINVAL;
    if (status < 0)
        return status;
    args.result = skew;
    return search_plan(&args, plan);
}

int sheaf_plan_skew_otsu(const struct sheaf_image *in, uint32_t max_slope, struct sheaf_skew *skew,
                         struct sheaf_kernel_plan *plan)
{
    struct skew_args args;
    struct skew_scratch *scratch;
    int status = skew_prepare(in, 0, max_slope, &args);
    if (status == 0)
        status = skew ? scratch_take(&args, plan, &scratch) : -EINVAL;
    if (status < 0)
        return status;
    args.result = skew;
    args.found = &scratch->threshold;
    struct otsu_args otsu = {scratch->shades, &scratch->threshold};
    status = plan_histogram(&args.in, scratch->shades, plan);
    if (status == 0)
        status = plan_append_blocks(plan, FUNCTION_otsu, &otsu, 1, 1);
    return status == 0 ? search_plan(&args, plan) : status;
}
