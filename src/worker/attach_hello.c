/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a hello: nested MessagePack arrays, fields in the order of the structs in attach.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/attach_wire.h"

/* ---- packing ---- */

struct writer {
    msgpack_packer packer;
    int *fds;
    uint32_t fd_count;
};

static void put(struct writer *writer, uint64_t number)
{
    msgpack_pack_uint64(&writer->packer, number);
}

static void put_array(struct writer *writer, uint32_t count)
{
    msgpack_pack_array(&writer->packer, count);
}

static void put_text(struct writer *writer, const char *text)
{
    if (text == NULL)
        msgpack_pack_nil(&writer->packer);
    else
        msgpack_pack_str_with_body(&writer->packer, text, strlen(text));
}

/* The number of the descriptor among those sent, from 1; 0: none. */
static void put_fd(struct writer *writer, int fd)
{
    uint32_t number = 0;
    if (fd >= 0) {
        writer->fds[writer->fd_count++] = fd;
        number = writer->fd_count;
    }
    put(writer, number);
}

static void put_option(struct writer *writer, const struct sheaf_option_value *option)
{
    put_array(writer, 2);
    put(writer, option->type);
    switch (option->type) {
    case SHEAF_OPTION_BOOL:
        put(writer, option->boolean);
        break;
    case SHEAF_OPTION_I64:
        msgpack_pack_int64(&writer->packer, option->i64);
        break;
    case SHEAF_OPTION_F64:
        msgpack_pack_double(&writer->packer, option->f64);
        break;
    case SHEAF_OPTION_TEXT:
        put_text(writer, option->text);
        break;
    case SHEAF_OPTION_I64_LIST:
        put_array(writer, option->count);
        for (uint32_t at = 0; at < option->count; at++)
            msgpack_pack_int64(&writer->packer, option->i64s[at]);
        break;
    case SHEAF_OPTION_TEXT_LIST:
        put_array(writer, option->count);
        for (uint32_t at = 0; at < option->count; at++)
            put_text(writer, option->texts[at]);
        break;
    case SHEAF_OPTION_SCALAR:
    default:
        msgpack_pack_nil(&writer->packer); /* never an actual type: unpacking refuses it */
        break;
    }
}

static void put_call(struct writer *writer, const struct attach_call *call)
{
    put_array(writer, 16);
    put(writer, call->call);
    put_text(writer, call->name);
    put_text(writer, call->plugin_path);
    put_text(writer, call->operator_name);
    put_array(writer, call->option_count);
    for (uint32_t at = 0; at < call->option_count; at++)
        put_option(writer, &call->options[at]);
    put(writer, call->batch_rows);
    put(writer, call->batch_bytes);
    put(writer, call->timeout_ms);
    put(writer, call->operator_flags);
    put(writer, call->widest_failure);
    put(writer, call->slots);
    put(writer, call->input_count);
    put(writer, call->group_outputs);
    put(writer, call->expanded_groups);
    put_array(writer, call->output_count);
    for (uint32_t at = 0; at < call->output_count; at++)
        put(writer, call->output_kinds != NULL ? call->output_kinds[at] : 0);
    put(writer, call->memory_budget_bytes);
}

static void put_hello(struct writer *writer, const struct attach_hello *hello)
{
    put_array(writer, 21);
    put(writer, hello->worker);
    put(writer, hello->generation);
    put(writer, hello->pool);
    put(writer, hello->node);
    put(writer, hello->crowded);
    put(writer, hello->integrity);
    put(writer, hello->payload_limit_bytes);
    put(writer, hello->heap_limit_bytes);
    put(writer, hello->on_device);
    put(writer, hello->device_backend);
    put(writer, hello->device_ordinal);
    put(writer, hello->pool_workers);
    put(writer, hello->memory_segments);
    put_text(writer, hello->run_id);
    put_text(writer, hello->data_path);
    put_fd(writer, hello->lane_own_fd);
    put_fd(writer, hello->lane_orders_fd);
    put_array(writer, 3 * hello->shard_count);
    for (uint32_t at = 0; at < hello->shard_count; at++) {
        put_fd(writer, hello->shards[at].open_fd);
        put_fd(writer, hello->shards[at].notice_fd);
        put(writer, hello->shards[at].node);
    }
    put_array(writer, 3 * hello->segment_count);
    for (uint32_t at = 0; at < hello->segment_count; at++) {
        put_fd(writer, hello->segments[at].fd);
        put(writer, hello->segments[at].number);
        put(writer, hello->segments[at].own);
    }
    put_array(writer, 2 * hello->chunk_count);
    for (uint32_t at = 0; at < hello->chunk_count; at++) {
        put(writer, hello->chunks[at].segment);
        put(writer, hello->chunks[at].chunk);
    }
    put_array(writer, hello->call_count);
    for (uint32_t at = 0; at < hello->call_count; at++)
        put_call(writer, &hello->calls[at]);
}

uint32_t hello_fd_limit(const struct attach_hello *hello)
{
    return 2 + 2 * hello->shard_count + hello->segment_count;
}

int hello_pack(const struct attach_hello *hello, msgpack_sbuffer *buffer, int *fds, uint32_t *ret_fd_count)
{
    struct writer writer = {.fds = fds};
    msgpack_packer_init(&writer.packer, buffer, msgpack_sbuffer_write);
    put_hello(&writer, hello);
    assert(writer.fd_count <= hello_fd_limit(hello));
    *ret_fd_count = writer.fd_count;
    return 0;
}

/* ---- unpacking ---- */

/* Reads one array from its start. The first thing that does not fit sets `*broken`, and everything reads as 0 or NULL.
 */
struct reader {
    const msgpack_object *items;
    uint32_t count, next;
    const int *fds;
    uint32_t fd_count;
    msgpack_zone *zone;
    bool *broken;
};

static const msgpack_object *take(struct reader *reader)
{
    static const msgpack_object nil = {.type = MSGPACK_OBJECT_NIL};
    if (reader->next >= reader->count) {
        *reader->broken = true;
        return &nil;
    }
    return &reader->items[reader->next++];
}

static uint64_t take_u64(struct reader *reader, uint64_t max)
{
    const msgpack_object *object = take(reader);
    if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER || object->via.u64 > max) {
        *reader->broken = true;
        return 0;
    }
    return object->via.u64;
}

static uint32_t take_u32(struct reader *reader)
{
    return (uint32_t)take_u64(reader, UINT32_MAX);
}

static int64_t take_i64(struct reader *reader)
{
    const msgpack_object *object = take(reader);
    if (object->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return object->via.i64;
    if (object->type == MSGPACK_OBJECT_POSITIVE_INTEGER && object->via.u64 <= INT64_MAX)
        return (int64_t)object->via.u64;
    *reader->broken = true;
    return 0;
}

static void *zone_array(struct reader *reader, size_t count, size_t size)
{
    void *memory = msgpack_zone_malloc(reader->zone, count > 0 ? count * size : 1);
    if (memory == NULL)
        *reader->broken = true;
    else
        memset(memory, 0, count * size);
    return memory;
}

static const char *take_text(struct reader *reader)
{
    const msgpack_object *object = take(reader);
    if (object->type == MSGPACK_OBJECT_NIL)
        return NULL;
    if (object->type != MSGPACK_OBJECT_STR || memchr(object->via.str.ptr, 0, object->via.str.size) != NULL) {
        *reader->broken = true;
        return NULL;
    }
    char *text = zone_array(reader, object->via.str.size + 1, 1);
    if (text != NULL)
        memcpy(text, object->via.str.ptr, object->via.str.size);
    return text;
}

static const char *take_required_text(struct reader *reader)
{
    const char *text = take_text(reader);
    if (text == NULL)
        *reader->broken = true;
    return text != NULL ? text : "";
}

/* The next item as an array of `stride` items per element. */
static struct reader take_array(struct reader *reader, uint32_t stride, uint32_t *ret_count)
{
    const msgpack_object *object = take(reader);
    struct reader inner = *reader;
    inner.items = NULL;
    inner.count = inner.next = 0;
    if (object->type != MSGPACK_OBJECT_ARRAY || object->via.array.size % stride != 0) {
        *reader->broken = true;
    } else {
        inner.items = object->via.array.ptr;
        inner.count = object->via.array.size;
    }
    *ret_count = inner.count / stride;
    return inner;
}

static int take_fd(struct reader *reader)
{
    uint64_t number = take_u64(reader, reader->fd_count);
    return number > 0 ? reader->fds[number - 1] : -1;
}

static void take_option(struct reader *outer, struct sheaf_option_value *ret_option)
{
    uint32_t count = 0;
    struct reader reader = take_array(outer, 1, &count);
    ret_option->type = take_u64(&reader, SHEAF_OPTION_TEXT_LIST);
    switch (ret_option->type) {
    case SHEAF_OPTION_BOOL:
        ret_option->boolean = take_u64(&reader, 1);
        return;
    case SHEAF_OPTION_I64:
        ret_option->i64 = take_i64(&reader);
        return;
    case SHEAF_OPTION_F64: {
        const msgpack_object *object = take(&reader);
        *reader.broken |= object->type != MSGPACK_OBJECT_FLOAT64;
        ret_option->f64 = object->via.f64;
        return;
    }
    case SHEAF_OPTION_TEXT:
        ret_option->text = take_text(&reader);
        return;
    case SHEAF_OPTION_I64_LIST: {
        struct reader list = take_array(&reader, 1, &ret_option->count);
        int64_t *numbers = zone_array(&reader, ret_option->count, sizeof *numbers);
        for (uint32_t at = 0; at < ret_option->count && numbers != NULL; at++)
            numbers[at] = take_i64(&list);
        ret_option->i64s = numbers;
        return;
    }
    case SHEAF_OPTION_TEXT_LIST: {
        struct reader list = take_array(&reader, 1, &ret_option->count);
        const char **texts = zone_array(&reader, ret_option->count, sizeof *texts);
        for (uint32_t at = 0; at < ret_option->count && texts != NULL; at++)
            texts[at] = take_required_text(&list);
        ret_option->texts = texts;
        return;
    }
    case SHEAF_OPTION_SCALAR:
    default:
        *reader.broken = true;
    }
}

static void take_call(struct reader *outer, struct attach_call *ret_call)
{
    uint32_t count = 0;
    struct reader reader = take_array(outer, 1, &count);
    ret_call->call = take_u32(&reader);
    ret_call->name = take_required_text(&reader);
    ret_call->plugin_path = take_required_text(&reader);
    ret_call->operator_name = take_required_text(&reader);
    struct reader list = take_array(&reader, 1, &ret_call->option_count);
    struct sheaf_option_value *options = zone_array(&reader, ret_call->option_count, sizeof *options);
    for (uint32_t at = 0; at < ret_call->option_count && options != NULL; at++)
        take_option(&list, &options[at]);
    ret_call->options = options;
    ret_call->batch_rows = take_u32(&reader);
    *reader.broken |= ret_call->batch_rows == 0;
    ret_call->batch_bytes = take_u64(&reader, UINT64_MAX);
    ret_call->timeout_ms = take_u32(&reader);
    ret_call->operator_flags = take_u32(&reader);
    ret_call->widest_failure = (uint32_t)take_u64(&reader, SHEAF_SCOPE_ROOT);
    ret_call->slots = take_u32(&reader);
    ret_call->input_count = take_u32(&reader);
    ret_call->group_outputs = take_u64(&reader, UINT64_MAX);
    ret_call->expanded_groups = take_u64(&reader, ret_call->group_outputs);
    *reader.broken |= (ret_call->expanded_groups & ~ret_call->group_outputs) != 0;
    list = take_array(&reader, 1, &ret_call->output_count);
    sheaf_kind *kinds = zone_array(&reader, ret_call->output_count, sizeof *kinds);
    for (uint32_t at = 0; at < ret_call->output_count && kinds != NULL; at++)
        kinds[at] = take_u32(&list);
    ret_call->output_kinds = kinds;
    ret_call->memory_budget_bytes = take_u64(&reader, UINT64_MAX);
}

static void take_shards(struct reader *reader, struct attach_hello *ret_hello)
{
    struct reader list = take_array(reader, 3, &ret_hello->shard_count);
    struct attach_shard *shards = zone_array(reader, ret_hello->shard_count, sizeof *shards);
    for (uint32_t at = 0; at < ret_hello->shard_count && shards != NULL; at++) {
        shards[at].open_fd = take_fd(&list);
        shards[at].notice_fd = take_fd(&list);
        shards[at].node = take_u32(&list);
    }
    ret_hello->shards = shards;
}

static void take_payload(struct reader *reader, struct attach_hello *ret_hello)
{
    struct reader list = take_array(reader, 3, &ret_hello->segment_count);
    struct attach_segment *segments = zone_array(reader, ret_hello->segment_count, sizeof *segments);
    for (uint32_t at = 0; at < ret_hello->segment_count && segments != NULL; at++) {
        segments[at].fd = take_fd(&list);
        segments[at].number = (uint32_t)take_u64(&list, UINT16_MAX);
        segments[at].own = take_u64(&list, 1) != 0;
    }
    ret_hello->segments = segments;
    list = take_array(reader, 2, &ret_hello->chunk_count);
    struct attach_chunk *chunks = zone_array(reader, ret_hello->chunk_count, sizeof *chunks);
    for (uint32_t at = 0; at < ret_hello->chunk_count && chunks != NULL; at++) {
        chunks[at].segment = take_u32(&list);
        chunks[at].chunk = take_u32(&list);
    }
    ret_hello->chunks = chunks;
}

static void take_hello(struct reader *reader, struct attach_hello *ret_hello)
{
    ret_hello->worker = take_u32(reader);
    ret_hello->generation = take_u32(reader);
    ret_hello->pool = take_u32(reader);
    ret_hello->node = take_u32(reader);
    ret_hello->crowded = take_u64(reader, 1) != 0;
    ret_hello->integrity = take_u64(reader, ATTACH_INTEGRITY_ALWAYS);
    ret_hello->payload_limit_bytes = take_u64(reader, UINT64_MAX);
    ret_hello->heap_limit_bytes = take_u64(reader, UINT64_MAX);
    ret_hello->on_device = take_u64(reader, 1) != 0;
    ret_hello->device_backend = (uint32_t)take_u64(reader, SHEAF_DEVICE_SIM);
    ret_hello->device_ordinal = take_u32(reader);
    ret_hello->pool_workers = take_u32(reader);
    ret_hello->memory_segments = take_u32(reader);
    ret_hello->run_id = take_required_text(reader);
    ret_hello->data_path = take_text(reader);
    ret_hello->lane_own_fd = take_fd(reader);
    ret_hello->lane_orders_fd = take_fd(reader);
    take_shards(reader, ret_hello);
    take_payload(reader, ret_hello);
    struct reader list = take_array(reader, 1, &ret_hello->call_count);
    struct attach_call *calls = zone_array(reader, ret_hello->call_count, sizeof *calls);
    for (uint32_t at = 0; at < ret_hello->call_count && calls != NULL; at++)
        take_call(&list, &calls[at]);
    ret_hello->calls = calls;
}

int hello_unpack(const char *text, size_t text_bytes, const int *fds, uint32_t fd_count, struct attach_hello *ret_hello)
{
    msgpack_unpacked *unpacked = malloc(sizeof *unpacked);
    if (unpacked == NULL)
        return -ENOMEM;
    msgpack_unpacked_init(unpacked);
    size_t used = 0;
    struct attach_hello hello = {.memory = unpacked};
    bool broken = msgpack_unpack_next(unpacked, text, text_bytes, &used) != MSGPACK_UNPACK_SUCCESS ||
                  used != text_bytes || unpacked->zone == NULL;
    if (!broken) {
        struct reader outer = {&unpacked->data, 1, 0, fds, fd_count, unpacked->zone, &broken};
        uint32_t field_count = 0;
        struct reader reader = take_array(&outer, 1, &field_count);
        take_hello(&reader, &hello);
    }
    if (broken) {
        attach_hello_free(&hello);
        return -EPROTO;
    }
    *ret_hello = hello;
    return 0;
}

void attach_hello_free(struct attach_hello *hello)
{
    if (hello == NULL || hello->memory == NULL)
        return;
    msgpack_unpacked_destroy(hello->memory);
    free(hello->memory);
    hello->memory = NULL;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

void attach_hello_close(struct attach_hello *hello)
{
    close_fd(hello->lane_own_fd);
    close_fd(hello->lane_orders_fd);
    for (uint32_t at = 0; at < hello->shard_count; at++) {
        close_fd(hello->shards[at].open_fd);
        close_fd(hello->shards[at].notice_fd);
    }
    for (uint32_t at = 0; at < hello->segment_count; at++)
        close_fd(hello->segments[at].fd);
}
