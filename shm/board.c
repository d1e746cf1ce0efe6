/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/board.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shm/crash_point.h"

#define PLACE_BYTES 4096u /* big parts begin on a page */
/* More descriptors than this are in huge pages: every worker reads from all over the table, and would map each of its
 * pages once, which costs more than to read what is there. */
#define SMALL_PAGES_MAX 1024u

static uint64_t round_up(uint64_t offset, uint64_t step)
{
    return (offset + step - 1) / step * step;
}

static bool is_ring_capacity(uint32_t capacity)
{
    return capacity >= 2 && capacity <= READY_RING_CAPACITY_MAX && (capacity & (capacity - 1)) == 0;
}

static bool is_shape(const struct board_shape *shape)
{
    for (int kind = 0; kind < BOARD_RINGS; kind++) {
        if (!is_ring_capacity(shape->ring_capacity[kind]))
            return false;
    }
    return shape->call_count > 0 && shape->call_count <= BOARD_CALLS_MAX && shape->pool_count > 0 &&
           shape->pool_count <= BOARD_POOLS_MAX && shape->dispatch_capacity > 0 &&
           shape->dispatch_capacity <= DISPATCH_GRAINS_MAX && shape->reserved == 0;
}

int board_plan(const struct board_shape *shape, struct board_layout *ret_layout)
{
    if (!is_shape(shape))
        return -EINVAL;
    struct board_layout layout = {0};
    layout.shard_events_at = round_up(sizeof(struct board_header), FALSE_SHARING_BYTES);
    layout.news_at = layout.shard_events_at + sizeof(struct event_count);
    layout.pool_events_at = layout.news_at + BOARD_NEWS_WORDS * sizeof(shared_u64);
    layout.slots_at = round_up(layout.pool_events_at + shape->pool_count * sizeof(struct event_count), PLACE_BYTES);
    for (int kind = 0; kind < BOARD_RINGS; kind++) {
        layout.slots_stride[kind] = round_up(ready_ring_slots_bytes(shape->ring_capacity[kind]), FALSE_SHARING_BYTES);
        layout.call_stride += layout.slots_stride[kind];
    }
    layout.open_bytes = round_up(layout.slots_at + shape->call_count * layout.call_stride, PLACE_BYTES);
    layout.shard_at = round_up(sizeof(struct board_header), FALSE_SHARING_BYTES);
    layout.calls_at = layout.shard_at + sizeof(struct board_shard);
    layout.rings_at = layout.calls_at + shape->call_count * sizeof(struct board_call);
    uint64_t rings_bytes = (uint64_t)shape->call_count * BOARD_RINGS * sizeof(struct ready_ring_notice);
    layout.dispatches_at = round_up(layout.rings_at + rings_bytes, PLACE_BYTES);
    layout.notice_bytes = round_up(layout.dispatches_at + dispatch_table_bytes(shape->dispatch_capacity), PLACE_BYTES);
    *ret_layout = layout;
    return 0;
}

static void *open_at(const struct board *board, uint64_t offset)
{
    return (char *)board->open.base + offset;
}

static void *notice_at(const struct board *board, uint64_t offset)
{
    return (char *)board->notice.base + offset;
}

static void set_views(struct board *board)
{
    board->dispatches =
        (struct dispatch_table){notice_at(board, board->layout.dispatches_at), board->shape.dispatch_capacity};
    board->shard = notice_at(board, board->layout.shard_at);
    board->calls = notice_at(board, board->layout.calls_at);
    board->shard_events = open_at(board, board->layout.shard_events_at);
    board->pool_events = open_at(board, board->layout.pool_events_at);
    board->news = open_at(board, board->layout.news_at);
}

static struct board_header make_header(const struct board *board)
{
    return (struct board_header){
        .magic = BOARD_MAGIC,
        .version = BOARD_VERSION,
        .header_bytes = sizeof(struct board_header),
        .shape = board->shape,
        .open_bytes = board->layout.open_bytes,
        .notice_bytes = board->layout.notice_bytes,
    };
}

int board_create(const struct board_shape *shape, int node, struct board *ret_board)
{
    struct board board = {.open = SEGMENT_NONE, .notice = SEGMENT_NONE, .shape = *shape};
    char label[32];
    int status = board_plan(shape, &board.layout);
    snprintf(label, sizeof(label), "sheaf-board-%u", shape->shard);
    if (!status)
        status = segment_create(label, board.layout.open_bytes, &board.open);
    snprintf(label, sizeof(label), "sheaf-notice-%u", shape->shard);
    if (!status)
        status = segment_create(label, board.layout.notice_bytes, &board.notice);
    if (!status) {
        (void)segment_bind(&board.open, node);
        (void)segment_bind(&board.notice, node);
    }
    if (!status)
        status = segment_commit(&board.open, 0, board.layout.open_bytes);
    if (!status)
        status = segment_commit(&board.notice, 0, board.layout.dispatches_at);
    if (status) {
        board_release(&board);
        return status;
    }
    set_views(&board);
    struct board_header header = make_header(&board);
    memcpy(board.notice.base, &header, sizeof(header));
    *ret_board = board;
    return 0;
}

int board_commit_dispatches(const struct board *board, uint32_t grain_count)
{
    if (grain_count > board->shape.dispatch_capacity)
        return -ERANGE;
    uint64_t first = board->layout.dispatches_at, end = first + dispatch_table_bytes(grain_count);
    int status = segment_commit(&board->notice, first, end - first);
    if (status || grain_count <= SMALL_PAGES_MAX)
        return status;
    end = round_up(end, HUGE_PAGE_BYTES);
    end = end < board->notice.size_bytes ? end : board->notice.size_bytes;
    if (!segment_commit(&board->notice, first, end - first)) /* else: no memory for more than was asked for */
        (void)segment_advise_huge(&board->notice, 0, end);
    return 0;
}

/* The header in `notice`, which workers cannot write, is the one that counts. What `open` says is not looked at: any
 * worker may have written over it, and its replacement must be able to attach. */
static int adopt_header(struct board *board)
{
    struct board_header header;
    if (board->open.size_bytes < sizeof(header) || board->notice.size_bytes < sizeof(header))
        return -EBADMSG;
    memcpy(&header, board->notice.base, sizeof(header));
    if (header.magic != BOARD_MAGIC || header.version != BOARD_VERSION)
        return -EBADMSG;
    board->shape = header.shape;
    if (board_plan(&board->shape, &board->layout))
        return -EBADMSG;
    struct board_header ours = make_header(board);
    if (memcmp(&header, &ours, sizeof(header)) != 0 || board->open.size_bytes < board->layout.open_bytes ||
        board->notice.size_bytes < board->layout.notice_bytes)
        return -EBADMSG;
    return 0;
}

int board_attach(int open_descriptor, int notice_descriptor, struct board *ret_board)
{
    struct board board = {.open = SEGMENT_NONE, .notice = SEGMENT_NONE};
    int status = segment_attach(open_descriptor, true, &board.open);
    if (!status)
        status = segment_attach(notice_descriptor, false, &board.notice);
    if (!status)
        status = adopt_header(&board);
    if (status) {
        board.open.descriptor = board.notice.descriptor = -1; /* still the caller's */
        board_release(&board);
        return status;
    }
    set_views(&board);
    *ret_board = board;
    return 0;
}

void board_release(struct board *board)
{
    segment_release(&board->open);
    segment_release(&board->notice);
    *board = (struct board){.open = SEGMENT_NONE, .notice = SEGMENT_NONE};
}

void board_add_news(const struct board *board, uint32_t worker)
{
    assert(worker < READY_RING_WORKERS_MAX);
    /* Partner: board_take_news. Added even where the bit is seen: it may be taken before what was published is. */
    atomic_fetch_or_explicit(&board->news[worker / 64], UINT64_C(1) << worker % 64, memory_order_acq_rel);
    SHEAF_CRASH_POINT("board.news");
}

uint64_t board_take_news(const struct board *board, uint32_t word)
{
    if (load_relaxed_u64(&board->news[word]) == 0)
        return 0;
    /* Partner: board_add_news. Who added a bit that is taken here published before that. */
    return atomic_exchange_explicit(&board->news[word], 0, memory_order_acq_rel);
}

bool board_has_news(const struct board *board, uint32_t words)
{
    for (uint32_t word = 0; word < words; word++) {
        if (load_relaxed_u64(&board->news[word]) != 0)
            return true;
    }
    return false;
}

void board_promise(const struct board *board, uint64_t looks_ns, const uint64_t *ahead)
{
    for (uint32_t word = 0; word < BOARD_POOL_WORDS; word++)
        store_relaxed_u64(&board->shard->ahead[word], ahead[word]);
    /* Followed by the fence of event_count_announce and a look at the news. Partner: board_promised, which follows the
     * full fence that adding the news is: either this shard sees the news, or the worker sees this promise. */
    store_relaxed_u64(&board->shard->looks_ns, looks_ns);
}

bool board_promised(const struct board *board, uint64_t now_ns)
{
    fence_total(); /* nothing on x86 beyond what board_add_news was; elsewhere the order of news and promise */
    return load_relaxed_u64(&board->shard->looks_ns) > now_ns;
}

bool board_promised_pool(const struct board *board, uint64_t now_ns, uint32_t pool)
{
    assert(pool < BOARD_POOLS_MAX);
    if (!board_promised(board, now_ns))
        return false;
    /* Of another promise than the time: then the shard hears late, but no later than it said. */
    uint64_t ahead = load_relaxed_u64(&board->shard->ahead[pool / 64]);
    return board_pool_is_in(&ahead, pool % 64);
}

struct ready_ring board_ring(const struct board *board, uint32_t call, enum board_ring kind)
{
    assert(call < board->shape.call_count && kind < BOARD_RINGS);
    uint64_t slots = board->layout.slots_at + call * board->layout.call_stride;
    for (int before = 0; before < (int)kind; before++)
        slots += board->layout.slots_stride[before];
    uint32_t number = call * BOARD_RINGS + kind;
    return (struct ready_ring){
        .slots = open_at(board, slots),
        .notice = notice_at(board, board->layout.rings_at + number * sizeof(struct ready_ring_notice)),
        .capacity = board->shape.ring_capacity[kind],
        .salt = board->shape.shard << 16 ^ number,
    };
}
