/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/claim_page.h"

#include <errno.h>

#include "shm/crash_point.h"

/* The row word: g in bits 0..27, d in 28..60, state in 61..63. FREE is 0 as a whole. */
#define ROW_STATE_SHIFT DISPATCH_NAME_BITS
static_assert(ROW_STATE_SHIFT == 61, "g, d and three bits of state fill the word");

static uint64_t row_word(enum claim_state state, uint32_t grain, uint64_t number)
{
    return (uint64_t)state << ROW_STATE_SHIFT | dispatch_name(grain, number);
}

static enum claim_state row_state(uint64_t word)
{
    uint64_t state = word >> ROW_STATE_SHIFT;
    if (state > CLAIM_RECALLED || (state == CLAIM_FREE && word != 0))
        return CLAIM_DAMAGED;
    return (enum claim_state)state;
}

uint32_t claim_page_find_free(const struct claim_page *page, uint32_t from)
{
    for (uint32_t row = from; row < page->row_count; row++) {
        if (load_relaxed_u64(&page->rows[row].word) == 0)
            return row;
    }
    return CLAIM_ROW_NONE;
}

void claim_page_take(const struct claim_page *page, uint32_t row, uint32_t grain, uint64_t number)
{
    assert(row < page->row_count && load_relaxed_u64(&page->rows[row].word) == 0);
    assert(grain < DISPATCH_GRAINS_MAX && number <= DISPATCH_NUMBER_MASK);
    /* C3, before C4: who sees the slot unlinked (acquire) sees this row. */
    store_release_u64(&page->rows[row].word, row_word(CLAIM_CLAIMED, grain, number));
    SHEAF_CRASH_POINT("claim.taken");
}

int claim_page_start(const struct claim_page *page, uint32_t row, uint32_t grain, uint64_t number, uint64_t now_ns)
{
    assert(row < page->row_count);
    struct claim_row_shared *shared = &page->rows[row];
    store_relaxed_u64(&shared->since_ns, now_ns);
    store_relaxed_u32(&shared->emitted, 0);
    store_relaxed_u32(&shared->blocked, 0);
    /* C5, partner X3 and L1: exactly one of the three takes the row out of CLAIMED. */
    if (!swap_exact_u64(&shared->word, row_word(CLAIM_CLAIMED, grain, number), row_word(CLAIM_RUNNING, grain, number)))
        return -ECANCELED;
    SHEAF_CRASH_POINT("claim.started");
    return 0;
}

void claim_page_count_child(const struct claim_page *page, uint32_t row, uint64_t now_ns)
{
    assert(row < page->row_count);
    struct claim_row_shared *shared = &page->rows[row];
    store_relaxed_u64(&shared->since_ns, now_ns);
    store_relaxed_u32(&shared->emitted, load_relaxed_u32(&shared->emitted) + 1);
    SHEAF_CRASH_POINT("claim.child");
}

void claim_page_set_blocked(const struct claim_page *page, uint32_t row, bool blocked, uint64_t now_ns)
{
    assert(row < page->row_count);
    struct claim_row_shared *shared = &page->rows[row];
    store_relaxed_u64(&shared->since_ns, now_ns); /* before the flag falls: the deadline never sees an old start */
    store_release_u32(&shared->blocked, blocked);
    SHEAF_CRASH_POINT("claim.blocked");
}

void claim_page_release(const struct claim_page *page, uint32_t row)
{
    assert(row < page->row_count);
    /* C7, after C6: who sees the row FREE (acquire) finds the record when it drains. */
    store_release_u64(&page->rows[row].word, 0);
    SHEAF_CRASH_POINT("claim.released");
}

struct claim_row claim_page_read(const struct claim_page *page, uint32_t row)
{
    struct claim_row read = {CLAIM_FREE, 0, 0, 0, 0, false};
    if (row >= page->row_count)
        return read;
    const struct claim_row_shared *shared = &page->rows[row];
    uint64_t word = load_acquire_u64(&shared->word);
    read.state = row_state(word);
    read.grain = dispatch_name_grain(word);
    read.number = dispatch_name_number(word);
    read.blocked = load_acquire_u32(&shared->blocked) != 0;
    read.since_ns = load_relaxed_u64(&shared->since_ns);
    read.emitted = load_relaxed_u32(&shared->emitted);
    return read;
}

uint32_t claim_page_find(const struct claim_page *page, uint32_t grain, uint64_t number)
{
    uint64_t named = dispatch_name(grain, number);
    uint64_t mask = (UINT64_C(1) << ROW_STATE_SHIFT) - 1;
    for (uint32_t row = 0; row < page->row_count; row++) {
        uint64_t word = load_acquire_u64(&page->rows[row].word);
        enum claim_state state = row_state(word);
        if (state != CLAIM_FREE && state != CLAIM_DAMAGED && (word & mask) == named)
            return row;
    }
    return CLAIM_ROW_NONE;
}

/* CLAIMED(g, d) -> `wanted`(g, d); else what the row is now, as far as (g, d) is concerned. */
static enum claim_state take_back(const struct claim_page *page, uint32_t row, uint32_t grain, uint64_t number,
                                  enum claim_state wanted)
{
    if (row >= page->row_count)
        return CLAIM_FREE;
    shared_u64 *word = &page->rows[row].word;
    if (swap_exact_u64(word, row_word(CLAIM_CLAIMED, grain, number), row_word(wanted, grain, number))) {
        SHEAF_CRASH_POINT("claim.taken_back");
        return wanted;
    }
    uint64_t found = load_acquire_u64(word);
    enum claim_state state = row_state(found);
    if (state == CLAIM_DAMAGED || state == CLAIM_FREE)
        return state;
    return dispatch_name_grain(found) == grain && dispatch_name_number(found) == number ? state : CLAIM_FREE;
}

enum claim_state claim_page_cancel(const struct claim_page *page, uint32_t row, uint32_t grain, uint64_t number)
{
    return take_back(page, row, grain, number, CLAIM_CANCELLED);
}

enum claim_state claim_page_recall(const struct claim_page *page, uint32_t row, uint32_t grain, uint64_t number)
{
    return take_back(page, row, grain, number, CLAIM_RECALLED);
}

void claim_page_sweep(const struct claim_page *page, claim_page_visit *visit, void *context)
{
    for (uint32_t row = 0; row < page->row_count; row++) {
        struct claim_row read = claim_page_read(page, row);
        if (read.state == CLAIM_FREE)
            continue;
        visit(context, &read);
        store_release_u64(&page->rows[row].word, 0);
    }
}
