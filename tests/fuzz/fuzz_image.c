/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes either are refused as an image with a reason or decode into exactly the planned memory, gray and RGB, whole
 * and scaled down. Runs over a kept corpus as an ordinary test (fuzz_main.c) or under libFuzzer.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ops/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Larger pictures are left out: they take long and find nothing new. */
enum { PIXELS_MAX = 1 << 20, GUARD_BYTES = 64, PAGES_MAX = 4 };

static int count_page(void *cookie, uint32_t page)
{
    uint32_t *count = cookie;
    assert(page == *count);
    return ++*count > PAGES_MAX ? -1 : 0;
}

static void check_decode(const struct image_source *source, const struct image_facts *facts, uint64_t max_pixels,
                         uint32_t channels)
{
    struct image_plan plan;
    struct document_failure failure = {0};
    image_plan_make(facts, max_pixels, &plan);
    assert(plan.width > 0 && plan.height > 0 && plan.dpi > 0);
    if ((uint64_t)plan.width * plan.height > 16 * (uint64_t)PIXELS_MAX)
        return;
    size_t bytes = (size_t)plan.width * plan.height * channels;
    uint8_t *pixels = malloc(bytes + GUARD_BYTES);
    assert(pixels);
    memset(pixels + bytes, 0xA5, GUARD_BYTES);
    int status = image_decode(source, facts, &plan, channels, pixels, &failure);
    assert(status == 0 || (failure.class_id != SHEAF_CLASS_NONE && failure.message[0]));
    for (int i = 0; i < GUARD_BYTES; i++)
        assert(pixels[bytes + (size_t)i] == 0xA5);
    free(pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_source source = {sniff_format(data, size), data, size, 0};
    struct document_failure failure = {0};
    char other[96];
    if (source.format < DOCUMENT_JPEG) {
        sniff_other(data, size, other, sizeof other);
        assert(size == 0 || other[0]);
        return 0;
    }
    uint32_t count = 0;
    if (image_pages(&source, count_page, &count, &failure) < 0)
        count = count > PAGES_MAX ? PAGES_MAX : count;
    for (source.page = 0; source.page < (count ? count : 1); source.page++) {
        struct image_facts facts;
        failure = (struct document_failure){0};
        if (image_facts_read(&source, &facts, &failure) < 0) {
            assert(failure.class_id != SHEAF_CLASS_NONE && failure.message[0]);
            continue;
        }
        if ((uint64_t)facts.width * facts.height > PIXELS_MAX)
            continue;
        check_decode(&source, &facts, 0, 3);
        check_decode(&source, &facts, 1 + (uint64_t)facts.width * facts.height / 5, 1);
    }
    return 0;
}
