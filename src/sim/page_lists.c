/* SPDX-License-Identifier: Apache-2.0 */
/* The page lists of the published experiments. CBIG is built so that every figure published of it holds exactly. */
#include <stdlib.h>
#include <string.h>

#include "sim/experiment.h"

struct list {
    uint32_t *pages, count, capacity;
};

static void add(struct list *list, uint32_t pages, uint32_t copies)
{
    for (uint32_t i = 0; i < copies && list->count < list->capacity; i++)
        list->pages[list->count++] = pages;
}

static void make_c368(struct list *list)
{
    static const uint32_t pages[] = {9,  9,  10, 11, 12, 12, 13, 14, 14, 15, 16, 16,
                                     16, 17, 19, 20, 20, 22, 26, 27, 34, 37, 53};
    for (uint32_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
        add(list, pages[i], 16);
}

static void make_c160(struct list *list)
{
    static const uint32_t pages[] = {9, 12, 14, 16, 19, 20, 27, 34, 53};
    for (uint32_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
        add(list, pages[i], pages[i] == 20 ? 32 : 16);
}

static void make_cmix(struct list *list)
{
    static const uint8_t pages[] = {
        11, 8,  17, 15, 16, 22, 31, 12, 17, 30, 17, 13, 12, 11, 10, 23, 28, 8,  19, 22, 9,  16, 46, 20, 24, 9,
        15, 25, 32, 19, 13, 12, 27, 14, 10, 16, 28, 13, 12, 10, 40, 16, 63, 14, 18, 13, 22, 15, 12, 8,  8,  22,
        23, 14, 15, 10, 12, 38, 20, 20, 19, 17, 10, 38, 16, 18, 10, 16, 48, 10, 11, 20, 9,  9,  10, 32, 14, 11,
        16, 38, 18, 21, 20, 10, 8,  10, 40, 8,  40, 32, 25, 15, 9,  16, 17, 11, 18, 10, 26, 14, 11, 35, 21, 35,
        16, 56, 13, 25, 9,  17, 20, 17, 15, 18, 18, 14, 16, 40, 17, 14, 24, 53, 50, 22, 11, 11, 12};
    add(list, 293, 1);
    for (uint32_t i = 0; i < sizeof(pages); i++)
        add(list, pages[i], 1);
}

/* ---- CBIG ---- */

enum { BIG = 3689, BIG_PAGES = 174744, SMALL = 1786, SMALL_PAGES = 21894, TOP = 99, TOP_PAGES = 23613, PAPERS = 2000 };

static const uint32_t top_20[] = {427, 395, 390, 376, 374, 334, 322, 310, 302, 298,
                                  295, 293, 287, 280, 276, 274, 273, 272, 270, 263};

/* Values from `low` to `high` over sorted[first .. last], along t^(1 or 2), then nudged to the sum. */
static void fill(uint32_t *sorted, uint32_t first, uint32_t last, uint32_t low, uint32_t high, bool convex, int64_t sum)
{
    uint32_t steps = last > first ? last - first : 1;
    for (uint32_t i = first; i <= last; i++) {
        double t = (double)(i - first) / steps;
        sorted[i] = low + (uint32_t)((high - low) * (convex ? t * t : t) + 0.5);
        sum -= sorted[i];
    }
    while (sum != 0) {
        int64_t before = sum;
        for (uint32_t i = first; i <= last && sum != 0; i++) {
            if (sum > 0 && sorted[i] < high) {
                sorted[i]++;
                sum--;
            } else if (sum < 0 && sorted[i] > low) {
                sorted[i]--;
                sum++;
            }
        }
        if (sum == before)
            return;
    }
}

static int64_t sum_of(const uint32_t *sorted, uint32_t first, uint32_t last)
{
    int64_t sum = 0;
    for (uint32_t i = first; i <= last; i++)
        sum += sorted[i];
    return sum;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void shuffle(uint32_t *pages, uint32_t count, uint64_t *random)
{
    for (uint32_t i = count; i > 1; i--) {
        *random = *random * 6364136223846793005ull + 1442695040888963407ull;
        uint32_t j = (uint32_t)((*random >> 33) % i), swapped = pages[i - 1];
        pages[i - 1] = pages[j];
        pages[j] = swapped;
    }
}

/* In order of size: quantile q stands at q * 3688. */
static void make_sorted(uint32_t *sorted)
{
    const uint32_t p50 = 1844, p90 = 3319, p95 = 3503, p99 = 3651, top = BIG - TOP, last_20 = BIG - 20;
    sorted[0] = 1;
    fill(sorted, 1, SMALL - 1, 1, 23, false, SMALL_PAGES - 1);
    fill(sorted, SMALL, p50, 24, 24, false, (p50 - SMALL + 1) * 24);
    fill(sorted, p90, p90 + 1, 125, 125, false, 250);
    fill(sorted, p95, p95 + 1, 162, 162, false, 324);
    fill(sorted, p90 + 2, p95 - 1, 125, 162, false, (p95 - p90 - 2) * 143);
    fill(sorted, p95 + 2, top - 1, 162, 191, false, (top - p95 - 2) * 176);
    int64_t middle = BIG_PAGES - SMALL_PAGES - TOP_PAGES;
    fill(sorted, p50 + 1, p90 - 1, 24, 125, true, middle - sum_of(sorted, SMALL, p50) - sum_of(sorted, p90, top - 1));
    for (uint32_t i = 0; i < 20; i++)
        sorted[BIG - 1 - i] = top_20[i];
    fill(sorted, p99, p99 + 1, 236, 236, false, 472);
    fill(sorted, p99 + 2, last_20 - 1, 237, 262, false, (last_20 - p99 - 2) * 249);
    fill(sorted, top, p99 - 1, 192, 236, false, TOP_PAGES - sum_of(sorted, p99, BIG - 1));
    qsort(sorted, BIG, sizeof(*sorted), compare);
}

/* Scanned books first, then papers: the small ones and some of the middle. */
static void make_cbig(struct list *list)
{
    uint32_t *sorted = calloc(BIG, sizeof(*sorted)), books = 0, papers = 0;
    uint64_t random = 20260918;
    if (!sorted)
        return;
    make_sorted(sorted);
    for (uint32_t i = 0; i < BIG; i++) {
        bool paper = i < SMALL || (papers < PAPERS && i < BIG - TOP && (i - SMALL) % 8 == 0);
        papers += paper;
        if (!paper)
            list->pages[books++] = sorted[i];
    }
    uint32_t next = books;
    for (uint32_t i = 0, taken = 0; i < BIG; i++) {
        bool paper = i < SMALL || (taken < PAPERS && i < BIG - TOP && (i - SMALL) % 8 == 0);
        taken += paper;
        if (paper)
            list->pages[next++] = sorted[i];
    }
    shuffle(list->pages, books, &random);
    shuffle(list->pages + books, BIG - books, &random);
    list->count = BIG;
    free(sorted);
}

static void keep_tail(struct list *list)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->pages[i] <= 23 || list->pages[i] >= 192)
            list->pages[kept++] = list->pages[i];
    list->count = kept;
}

uint32_t *page_list_make(enum page_list which, uint32_t *ret_documents, uint64_t *ret_pages)
{
    struct list list = {.capacity = BIG + 1, .pages = calloc(BIG + 1, sizeof(uint32_t))};
    if (!list.pages)
        return NULL;
    switch (which) {
    case LIST_C48:
        add(&list, 12, 16);
        add(&list, 16, 16);
        add(&list, 34, 16);
        break;
    case LIST_C368:
        make_c368(&list);
        break;
    case LIST_C160:
        make_c160(&list);
        break;
    case LIST_CMIX:
        make_cmix(&list);
        break;
    case LIST_CBIG:
    case LIST_CTAIL:
        make_cbig(&list);
        if (which == LIST_CTAIL)
            keep_tail(&list);
        break;
    case LIST_CTOP8:
        for (uint32_t i = 0; i < 8; i++)
            add(&list, top_20[i], 1);
        break;
    case LIST_COUNT:
        break;
    }
    *ret_documents = list.count;
    *ret_pages = 0;
    for (uint32_t i = 0; i < list.count; i++)
        *ret_pages += list.pages[i];
    return list.pages;
}

const char *page_list_name(enum page_list list)
{
    static const char *const names[LIST_COUNT] = {"C48", "C368", "C160", "CBIG", "CMIX", "CTAIL", "CTOP8"};
    return (unsigned)list < LIST_COUNT ? names[list] : "unknown";
}
