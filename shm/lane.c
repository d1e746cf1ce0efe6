/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/lane.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define INDEX_PAIR_BYTES (2 * FALSE_SHARING_BYTES) /* a write index and a read index, apart */

static uint64_t apart(uint64_t offset)
{
    return (offset + FALSE_SHARING_BYTES - 1) / FALSE_SHARING_BYTES * FALSE_SHARING_BYTES;
}

/* Append `bytes` to a layout: where they begin. */
static uint64_t place(uint64_t *end, uint64_t bytes)
{
    uint64_t at = apart(*end);
    *end = at + bytes;
    return at;
}

static bool is_ring_size(uint32_t bytes)
{
    return bytes >= SPSC_RING_BYTES_MIN && bytes <= SPSC_RING_BYTES_MAX && (bytes & (bytes - 1)) == 0;
}

int lane_plan(const struct lane_shape *shape, struct lane_layout *ret_layout)
{
    if (shape->shard_count == 0 || shape->shard_count > LANE_SHARDS_MAX || shape->claim_rows == 0 ||
        shape->claim_rows > CLAIM_ROWS_MAX || shape->reserved != 0 || !is_ring_size(shape->completion_bytes) ||
        !is_ring_size(shape->control_bytes))
        return -EINVAL;
    uint64_t shards = shape->shard_count;
    struct lane_layout layout;
    uint64_t own = sizeof(struct lane_header);
    layout.counters_at = place(&own, sizeof(struct lane_counters));
    layout.events_at = place(&own, sizeof(struct event_count));
    layout.claims_at = place(&own, claim_page_bytes(shape->claim_rows));
    layout.completion_indices_at = place(&own, shards * INDEX_PAIR_BYTES);
    layout.control_read_at = place(&own, shards * FALSE_SHARING_BYTES);
    layout.completion_data_at = place(&own, shards * shape->completion_bytes);
    layout.own_bytes = apart(own);
    uint64_t orders = sizeof(struct lane_header);
    layout.orders_at = place(&orders, sizeof(struct lane_orders));
    layout.control_write_at = place(&orders, shards * FALSE_SHARING_BYTES);
    layout.control_data_at = place(&orders, shards * shape->control_bytes);
    layout.orders_bytes = apart(orders);
    *ret_layout = layout;
    return 0;
}

static void *own_at(const struct lane *lane, uint64_t offset)
{
    return (char *)lane->own.base + offset;
}

static void *orders_at(const struct lane *lane, uint64_t offset)
{
    return (char *)lane->orders_segment.base + offset;
}

/* The pointers of a view whose segments and layout are known. */
static void set_views(struct lane *lane)
{
    lane->claims = (struct claim_page){own_at(lane, lane->layout.claims_at), lane->shape.claim_rows};
    lane->events = own_at(lane, lane->layout.events_at);
    lane->counters = own_at(lane, lane->layout.counters_at);
    lane->orders = orders_at(lane, lane->layout.orders_at);
}

static struct lane_header make_header(const struct lane *lane)
{
    return (struct lane_header){
        .magic = LANE_MAGIC,
        .version = LANE_VERSION,
        .header_bytes = sizeof(struct lane_header),
        .shape = lane->shape,
        .own_bytes = lane->layout.own_bytes,
        .orders_bytes = lane->layout.orders_bytes,
    };
}

static void write_headers(const struct lane *lane)
{
    struct lane_header header = make_header(lane);
    memcpy(lane->own.base, &header, sizeof(header));
    memcpy(lane->orders_segment.base, &header, sizeof(header));
}

/* Both sides go round the rings, so all of them is touched, page by page, by a thread that has something better to do.
 */
static void map_at_once(const struct lane *lane)
{
    (void)segment_touch(&lane->own, 0, lane->layout.own_bytes);
}

int lane_create(const struct lane_shape *shape, int node, struct lane *ret_lane)
{
    struct lane lane = {.own = SEGMENT_NONE, .orders_segment = SEGMENT_NONE, .shape = *shape};
    char label[32];
    int status = lane_plan(shape, &lane.layout);
    snprintf(label, sizeof(label), "sheaf-lane-%u", shape->worker);
    if (!status)
        status = segment_create(label, lane.layout.own_bytes, &lane.own);
    snprintf(label, sizeof(label), "sheaf-orders-%u", shape->worker);
    if (!status)
        status = segment_create(label, lane.layout.orders_bytes, &lane.orders_segment);
    if (!status) {
        (void)segment_bind(&lane.own, node);
        (void)segment_bind(&lane.orders_segment, node);
    }
    if (!status)
        status = segment_commit(&lane.own, 0, lane.layout.own_bytes);
    if (!status)
        status = segment_commit(&lane.orders_segment, 0, lane.layout.orders_bytes);
    if (status) {
        lane_release(&lane);
        return status;
    }
    map_at_once(&lane);
    set_views(&lane);
    write_headers(&lane);
    *ret_lane = lane;
    return 0;
}

/* Word by word: shards that look for a row in every page of a Pool may be reading. They find the row of a dead worker,
 * which they have released, or none. */
static void clear_words(void *from, uint64_t bytes)
{
    shared_u64 *words = from;
    for (uint64_t i = 0; i < bytes / sizeof(*words); i++)
        store_relaxed_u64(&words[i], 0);
}

void lane_reset(struct lane *lane)
{
    uint64_t header = sizeof(struct lane_header);
    static_assert(sizeof(struct lane_header) % sizeof(shared_u64) == 0, "what follows is words");
    clear_words(own_at(lane, header), lane->layout.completion_data_at - header);
    clear_words(orders_at(lane, header), lane->layout.control_data_at - header);
    write_headers(lane);
}

/* Read the header that the worker cannot write, and hold the other one against it. */
static int adopt_header(struct lane *lane)
{
    struct lane_header header, twin;
    if (lane->own.size_bytes < sizeof(header) || lane->orders_segment.size_bytes < sizeof(header))
        return -EBADMSG;
    memcpy(&header, lane->orders_segment.base, sizeof(header));
    memcpy(&twin, lane->own.base, sizeof(twin));
    if (header.magic != LANE_MAGIC || header.version != LANE_VERSION || memcmp(&header, &twin, sizeof(header)) != 0)
        return -EBADMSG;
    lane->shape = header.shape;
    if (lane_plan(&lane->shape, &lane->layout))
        return -EBADMSG;
    struct lane_header ours = make_header(lane);
    if (memcmp(&header, &ours, sizeof(header)) != 0 || lane->own.size_bytes < lane->layout.own_bytes ||
        lane->orders_segment.size_bytes < lane->layout.orders_bytes)
        return -EBADMSG;
    return 0;
}

int lane_attach(int own_descriptor, int orders_descriptor, struct lane *ret_lane)
{
    struct lane lane = {.own = SEGMENT_NONE, .orders_segment = SEGMENT_NONE};
    int status = segment_attach(own_descriptor, true, &lane.own);
    if (!status)
        status = segment_attach(orders_descriptor, false, &lane.orders_segment);
    if (!status)
        status = adopt_header(&lane);
    if (status) {
        lane.own.descriptor = lane.orders_segment.descriptor = -1; /* still the caller's */
        lane_release(&lane);
        return status;
    }
    map_at_once(&lane);
    set_views(&lane);
    *ret_lane = lane;
    return 0;
}

void lane_release(struct lane *lane)
{
    segment_release(&lane->own);
    segment_release(&lane->orders_segment);
    *lane = (struct lane){.own = SEGMENT_NONE, .orders_segment = SEGMENT_NONE};
}

struct spsc_ring lane_completion_ring(const struct lane *lane, uint32_t shard)
{
    assert(shard < lane->shape.shard_count);
    char *indices = own_at(lane, lane->layout.completion_indices_at + (uint64_t)shard * INDEX_PAIR_BYTES);
    return (struct spsc_ring){
        .write_index = (shared_u64 *)(void *)indices,
        .read_index = (shared_u64 *)(void *)(indices + FALSE_SHARING_BYTES),
        .data = own_at(lane, lane->layout.completion_data_at + (uint64_t)shard * lane->shape.completion_bytes),
        .capacity_bytes = lane->shape.completion_bytes,
    };
}

struct spsc_ring lane_control_ring(const struct lane *lane, uint32_t shard)
{
    assert(shard < lane->shape.shard_count);
    return (struct spsc_ring){
        .write_index = orders_at(lane, lane->layout.control_write_at + (uint64_t)shard * FALSE_SHARING_BYTES),
        .read_index = own_at(lane, lane->layout.control_read_at + (uint64_t)shard * FALSE_SHARING_BYTES),
        .data = orders_at(lane, lane->layout.control_data_at + (uint64_t)shard * lane->shape.control_bytes),
        .capacity_bytes = lane->shape.control_bytes,
    };
}
