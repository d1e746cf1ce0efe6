/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/forge.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sheaf/operator.h>

#include "shm/completion_ring.h"
#include "shm/lane.h"

static struct lane lane; /* only what lies in the part that the worker may write */

void forge_prepare(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], access[8];
    unsigned long from, to;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3 || strcmp(access, "rw-s") != 0)
            continue;
        const struct lane_header *header = (const struct lane_header *)from;
        if (header->magic != LANE_MAGIC || lane_plan(&header->shape, &lane.layout) < 0)
            continue;
        char *base = (char *)from;
        lane.shape = header->shape;
        lane.own = (struct segment){.base = base, .size_bytes = to - from, .writable = true};
        lane.claims =
            (struct claim_page){.rows = (void *)(base + lane.layout.claims_at), .row_count = header->shape.claim_rows};
        lane.counters = (void *)(base + lane.layout.counters_at);
    }
    if (maps != NULL)
        fclose(maps);
}

/* The row that runs: this one. */
static uint32_t find_running(struct claim_row *ret_row)
{
    for (uint32_t i = 0; i < lane.claims.row_count; i++) {
        *ret_row = claim_page_read(&lane.claims, i);
        if (ret_row->state == CLAIM_RUNNING)
            return i;
    }
    return CLAIM_ROW_NONE;
}

/* What the worker would do after an answer, done by the operator; to every shard, since whose row it is is not known.
 * The row shares its record with itself, with another dispatch of itself, and with one that there is not: only what
 * comes first counts. */
static void answer_by_hand(const struct claim_row *row, int64_t answer)
{
    struct value_ref values[] = {{.kind = SHEAF_I64, .segment = VALUE_INLINE, .offset = (uint64_t)answer},
                                 {.kind = SHEAF_I64, .segment = VALUE_INLINE, .offset = (uint64_t)answer + 1},
                                 {.kind = SHEAF_BYTES, .segment = 1, .length = 1 << 20},
                                 {.kind = SHEAF_BYTES, .segment = UINT16_MAX, .offset = UINT32_MAX, .length = 1}};
    const struct completion_part parts[] = {{dispatch_name(row->grain, row->number), &values[0]},
                                            {dispatch_name(row->grain, row->number), &values[1]},
                                            {dispatch_name(row->grain, dispatch_next_number(row->number)), &values[2]},
                                            {dispatch_name(DISPATCH_GRAINS_MAX - 1, 1), &values[3]}};
    struct completion record = {
        .kind = COMPLETION_ANSWER, .grain = row->grain, .number = row->number, .value_count = 1, .values = values};
    for (uint32_t shard = 0; shard < lane.shape.shard_count; shard++) {
        struct spsc_ring ring = lane_completion_ring(&lane, shard);
        struct spsc_writer writer;
        spsc_writer_open(&writer, &ring);
        if (completion_write_rows(&writer, &record, parts, 4) == 0)
            spsc_commit(&writer);
    }
}

void forge(enum forgery how, int64_t answer)
{
    struct claim_row row;
    uint32_t index = find_running(&row);
    if (index == CLAIM_ROW_NONE)
        _exit(9); /* the test is broken: it must not pass as if the forgery had been found */
    struct claim_row_shared *shared = &lane.claims.rows[index];
    switch (how) {
    case FORGE_FREE:
        store_release_u64(&shared->word, 0);
        store_release_u64(&lane.counters->state, LANE_IDLE);
        break;
    case FORGE_CLAIMED:
        store_release_u64(&shared->word, 0);
        claim_page_take(&lane.claims, index, row.grain, row.number);
        break;
    case FORGE_BLOCKED:
        claim_page_set_blocked(&lane.claims, index, true, 0);
        store_release_u64(&lane.counters->state, LANE_WAITING_MEMORY);
        break;
    case FORGE_FUTURE:
        store_release_u64(&shared->since_ns, UINT64_MAX);
        break;
    case FORGE_ANSWER:
        answer_by_hand(&row, answer);
        store_release_u64(&shared->word, 0);
        store_release_u64(&lane.counters->state, LANE_IDLE);
        break;
    case FORGE_CROWD:
        for (uint32_t i = claim_page_find_free(&lane.claims, 0); i != CLAIM_ROW_NONE;
             i = claim_page_find_free(&lane.claims, i)) {
            claim_page_take(&lane.claims, i, DISPATCH_GRAINS_MAX - 1, i);
            claim_page_start(&lane.claims, i, DISPATCH_GRAINS_MAX - 1, i, 1);
        }
        raise(SIGKILL);
        break;
    case FORGE_COUNT:
        break;
    }
    for (;;)
        pause();
}
