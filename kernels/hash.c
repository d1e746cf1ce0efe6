/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>

#include "kernels/check.h"
#include "kernels/scale.h"

/* The input as a gray picture: of NV12 its luma. */
static struct sheaf_image gray_of(const struct sheaf_image *in)
{
    struct sheaf_image gray = *in;
    gray.format = SHEAF_IMAGE_GRAY;
    gray.matrix = 0;
    gray.chroma_offset = 0;
    return gray;
}

/* What a hash is made of: `width` x `height` samples, packed. */
static int samples_make(const struct sheaf_image *in, uint32_t width, uint32_t height, uint8_t *samples)
{
    int status = plane_check(in);
    if (status < 0)
        return status;
    struct sheaf_image gray = gray_of(in), out = sheaf_image_packed(width, height, SHEAF_IMAGE_GRAY, samples);
    return sheaf_kernel_resize(&gray, &out, SHEAF_FILTER_AREA);
}

int sheaf_kernel_dhash(const struct sheaf_image *in, uint64_t *ret_hash)
{
    uint8_t samples[9 * 8];
    int status = samples_make(in, 9, 8, samples);
    if (status == 0)
        *ret_hash = dhash_of_samples(samples);
    return status;
}

int sheaf_kernel_phash(const struct sheaf_image *in, uint64_t *ret_hash)
{
    uint8_t samples[32 * 32];
    int32_t rows[32 * 8];
    int64_t coefficients[64];
    int status = samples_make(in, 32, 32, samples);
    if (status < 0)
        return status;
    for (uint32_t i = 0; i < 256; i++)
        rows[i] = phash_row_coefficient(samples, i / 8, i % 8);
    for (uint32_t i = 0; i < 64; i++)
        coefficients[i] = phash_coefficient(rows, i / 8, i % 8);
    *ret_hash = phash_of_coefficients(coefficients);
    return 0;
}

uint32_t sheaf_hash_distance(uint64_t a, uint64_t b)
{
    return (uint32_t)__builtin_popcountll(a ^ b);
}

static int hash_plan(const struct sheaf_image *in, enum kernel_function_index function, uint32_t width, uint32_t height,
                     uint64_t *hash, struct sheaf_kernel_plan *plan)
{
    int status = plane_check(in);
    if (status == 0)
        status = hash ? plan_scratch(plan, (uint64_t)width * height) : -EINVAL;
    if (status < 0)
        return status;
    uint8_t *samples = (uint8_t *)(uintptr_t)plan->scratch;
    struct sheaf_image gray = gray_of(in), out = sheaf_image_packed(width, height, SHEAF_IMAGE_GRAY, samples);
    struct hash_args args = {samples, hash};
    status = sheaf_plan_resize(&gray, &out, SHEAF_FILTER_AREA, plan);
    return status < 0 ? status : plan_append_blocks(plan, function, &args, 1, 1);
}

int sheaf_plan_dhash(const struct sheaf_image *in, uint64_t *hash, struct sheaf_kernel_plan *plan)
{
    return hash_plan(in, FUNCTION_dhash, 9, 8, hash, plan);
}

int sheaf_plan_phash(const struct sheaf_image *in, uint64_t *hash, struct sheaf_kernel_plan *plan)
{
    return hash_plan(in, FUNCTION_phash, 32, 32, hash, plan);
}
