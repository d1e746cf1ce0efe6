/* SPDX-License-Identifier: Apache-2.0 */
/* A gathered list as an operator reads it: references in shared memory, checked and copied one by one. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "perf/micro/bench.h"
#include "worker/view.h"

#define SEGMENT 3u
#define SLICE_BYTES 256u

struct shelf {
    struct segment segment;
    struct payload_map map;
    struct value_ref list;
};

/* `count` slices of bytes, and a list block that names them. */
static bool open_shelf(struct shelf *shelf, uint32_t count)
{
    uint64_t block_bytes = sizeof(struct list_block) + (uint64_t)count * sizeof(struct value_ref);
    uint64_t slices = 64 + (block_bytes + 63) / 64 * 64;
    *shelf = (struct shelf){
        .list = {.kind = SHEAF_LIST_OF(SHEAF_BYTES, 1), .segment = SEGMENT, .offset = 64, .length = count}};
    if (segment_create("bench-view", (slices + SLICE_BYTES * 64 + (2u << 20)) & ~((2u << 20) - 1ull), &shelf->segment))
        return false;
    payload_map_init(&shelf->map, -1);
    int descriptor = fcntl(shelf->segment.descriptor, F_DUPFD_CLOEXEC, 0);
    if (payload_map_add(&shelf->map, SEGMENT, descriptor, false))
        return false;
    struct list_block block = {.count = count, .bytes = (uint32_t)block_bytes};
    char *shared = segment_at(&shelf->segment, 64, block_bytes);
    memcpy(shared, &block, sizeof block);
    for (uint32_t at = 0; at < count; at++) {
        struct value_ref slice = {
            .kind = SHEAF_BYTES, .segment = SEGMENT, .offset = slices + at % 64 * SLICE_BYTES, .length = SLICE_BYTES};
        memcpy(shared + sizeof block + at * sizeof slice, &slice, sizeof slice);
    }
    return true;
}

/* One item is one element; the argument is how many there are. */
static void read_list(struct bench *bench)
{
    struct shelf shelf;
    struct sheaf_list list = {0};
    struct view_room room = {0};
    struct sheaf_value value, element;
    int64_t elements = 0, count = bench_argument(bench);
    bool opened = open_shelf(&shelf, (uint32_t)count);
    if (!opened)
        bench_fail(bench, "no shared memory");
    while (opened && bench_next(bench)) {
        if (value_view(&shelf.map, &shelf.list, &list, &room, &value)) {
            bench_fail(bench, "the list does not check out");
            break;
        }
        while (list_next(value.list, &element) > 0)
            elements++;
    }
    if (elements != count * bench_iterations(bench))
        bench_fail(bench, "elements are missing");
    bench_count_items(bench, elements);
    list_done(&list);
    view_room_done(&room);
    payload_map_done(&shelf.map);
    segment_release(&shelf.segment);
}
BENCH("view/list_next", read_list, 10, 1000, 100000, 1000000)
