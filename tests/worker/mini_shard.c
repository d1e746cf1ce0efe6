/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worker/mini_shard.h"

#define DEADLINE_NS UINT64_C(20000000000)

static void make_shared(struct mini *mini, uint32_t call_count, const struct mini_options *options)
{
    struct board_shape shape = {
        .call_count = call_count, .pool_count = 1, .ring_capacity = {64, 4096, 64}, .dispatch_capacity = MINI_GRAINS};
    assert_int_equal(board_create(&shape, SEGMENT_ANY_NODE, &mini->board), 0);
    assert_int_equal(board_commit_dispatches(&mini->board, MINI_GRAINS), 0);
    for (uint32_t call = 0; call < call_count; call++)
        for (uint32_t kind = 0; kind < BOARD_RINGS; kind++) {
            struct ready_ring ring = board_ring(&mini->board, call, kind);
            assert_int_equal(ready_producer_open(&mini->producers[call][kind], &ring), 0);
        }
    struct lane_shape lane_shape = {.worker = 0,
                                    .shard_count = 1,
                                    .claim_rows = options->claim_rows != 0 ? options->claim_rows : 64,
                                    .completion_bytes =
                                        options->completion_bytes != 0 ? options->completion_bytes : 1 << 20,
                                    .control_bytes = 1 << 16};
    assert_int_equal(lane_create(&lane_shape, SEGMENT_ANY_NODE, &mini->lane), 0);
    struct spsc_ring orders = lane_control_ring(&mini->lane, 0), records = lane_completion_ring(&mini->lane, 0);
    spsc_writer_open(&mini->orders, &orders);
    assert_int_equal(completion_reader_open(&mini->records, &records), 0);
    assert_int_equal(segment_create("test-inputs", 4 << 20, &mini->inputs), 0);
    assert_int_equal(segment_commit(&mini->inputs, 0, 4 << 20), 0);
    uint64_t outputs_bytes = options->outputs_bytes != 0 ? options->outputs_bytes : 64 << 20;
    assert_int_equal(segment_create("test-outputs", outputs_bytes, &mini->outputs), 0);
}

static void start_process(struct mini *mini)
{
    const char *path = getenv("SHEAF_TEST_WORKER");
    assert_non_null(path);
    int sockets[2];
    assert_int_equal(attach_pair(sockets), 0);
    char number[16];
    snprintf(number, sizeof number, "%d", sockets[1]);
    mini->pid = fork();
    assert_true(mini->pid >= 0);
    if (mini->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fcntl(sockets[1], F_SETFD, 0); /* the one descriptor it is to have */
        execl(path, path, "--attach", number, (char *)NULL);
        _exit(127);
    }
    close(sockets[1]);
    mini->socket = sockets[0];
}

/* Waits for the worker to say something on the socket. */
static struct attach_reply next_reply(struct mini *mini)
{
    struct pollfd readable = {.fd = mini->socket, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, (int)(DEADLINE_NS / 1000000)), 1);
    struct attach_reply reply;
    assert_int_equal(attach_receive_reply(mini->socket, &reply), 0);
    return reply;
}

static void fill_calls(struct attach_call *ret_calls, const struct mini_call *calls, uint32_t call_count)
{
    const char *plugin = getenv("SHEAF_TEST_PLUGIN");
    assert_non_null(plugin);
    for (uint32_t at = 0; at < call_count; at++)
        ret_calls[at] = (struct attach_call){.call = at,
                                             .name = calls[at].operator_name,
                                             .plugin_path = plugin,
                                             .operator_name = calls[at].operator_name,
                                             .batch_rows = calls[at].batch_rows != 0 ? calls[at].batch_rows : 1,
                                             .operator_flags = calls[at].flags,
                                             .widest_failure = calls[at].widest_failure,
                                             .slots = calls[at].slots,
                                             .input_count = 1,
                                             .output_count = calls[at].output_count,
                                             .group_outputs = calls[at].group_outputs,
                                             .expanded_groups = calls[at].group_outputs & ~calls[at].unexpanded,
                                             .output_kinds = calls[at].output_kinds};
}

static void send_hello(struct mini *mini, const struct mini_call *calls, uint32_t call_count,
                       const struct mini_options *options)
{
    struct attach_call attach_calls[MINI_CALLS_MAX];
    fill_calls(attach_calls, calls, call_count);
    struct attach_shard shard = {mini->board.open.descriptor, -1, 0};
    int orders_fd = -1, inputs_fd = -1;
    assert_int_equal(segment_open_read_only(&mini->board.notice, &shard.notice_fd), 0);
    assert_int_equal(segment_open_read_only(&mini->lane.orders_segment, &orders_fd), 0);
    assert_int_equal(segment_open_read_only(&mini->inputs, &inputs_fd), 0);
    /* The segment of inputs is not in the hello: the worker asks for it when a row names it. */
    struct attach_segment segment = {mini->outputs.descriptor, MINI_OUTPUTS, true};
    struct attach_chunk chunks[256];
    uint32_t chunk_count = options->chunk_count != 0 ? options->chunk_count : 4;
    for (uint32_t at = 0; at < chunk_count; at++)
        chunks[at] = (struct attach_chunk){MINI_OUTPUTS, at};
    mini->granted_chunks = chunk_count;
    struct attach_hello hello = {.crowded = true,
                                 .integrity = options->integrity,
                                 .payload_limit_bytes = options->limit_bytes,
                                 .run_id = "test",
                                 .lane_own_fd = mini->lane.own.descriptor,
                                 .lane_orders_fd = orders_fd,
                                 .shard_count = 1,
                                 .shards = &shard,
                                 .segment_count = 1,
                                 .segments = &segment,
                                 .chunk_count = chunk_count,
                                 .chunks = chunks,
                                 .call_count = call_count,
                                 .calls = attach_calls};
    assert_int_equal(attach_send_hello(mini->socket, &hello, 20000), 0);
    close(shard.notice_fd);
    close(orders_fd);
    close(inputs_fd);
}

void mini_start(struct mini *mini, const struct mini_call *calls, uint32_t call_count,
                const struct mini_options *options)
{
    static const struct mini_options usual;
    options = options != NULL ? options : &usual;
    memset(mini, 0, sizeof *mini);
    mini->call_count = call_count;
    mini->inputs_used = 64;
    make_shared(mini, call_count, options);
    start_process(mini);
    send_hello(mini, calls, call_count, options);
    struct attach_reply reply = next_reply(mini);
    assert_int_equal(reply.kind, options->expect_error ? ATTACH_ERROR : ATTACH_READY);
    memcpy(mini->error, reply.line, sizeof mini->error);
}

int mini_reap(struct mini *mini)
{
    int status = 0;
    pid_t pid;
    do
        pid = waitpid(mini->pid, &status, 0);
    while (pid < 0 && errno == EINTR);
    assert_int_equal(pid, mini->pid);
    mini->pid = 0;
    return status;
}

void mini_release(struct mini *mini)
{
    assert_int_equal(mini->pid, 0);
    for (uint32_t call = 0; call < mini->call_count; call++)
        for (uint32_t kind = 0; kind < BOARD_RINGS; kind++)
            ready_producer_close(&mini->producers[call][kind]);
    completion_reader_close(&mini->records);
    board_release(&mini->board);
    lane_release(&mini->lane);
    segment_release(&mini->inputs);
    segment_release(&mini->outputs);
    close(mini->socket);
}

void mini_stop(struct mini *mini)
{
    mini_order(mini, CONTROL_STOP, 0, 0);
    mini_tell(mini);
    int status = mini_reap(mini);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    mini_release(mini);
}

/* ---- values ---- */

static char *input_room(struct mini *mini, uint64_t bytes, uint64_t *ret_offset)
{
    mini->requests = true;
    uint64_t offset = (mini->inputs_used + 63) & ~UINT64_C(63);
    char *room = segment_at(&mini->inputs, offset, bytes);
    assert_non_null(room);
    mini->inputs_used = offset + bytes;
    *ret_offset = offset;
    return room;
}

struct value_ref mini_i64(int64_t number)
{
    return (struct value_ref){.kind = SHEAF_I64, .segment = VALUE_INLINE, .offset = (uint64_t)number};
}

struct value_ref mini_text(struct mini *mini, const char *text)
{
    struct value_ref ref = {.kind = SHEAF_TEXT, .segment = MINI_INPUTS, .length = strlen(text)};
    memcpy(input_room(mini, ref.length, &ref.offset), text, ref.length);
    return ref;
}

struct value_ref mini_i64_list(struct mini *mini, const int64_t *numbers, uint32_t count, const char *error)
{
    struct list_block block = {.count = count, .error_count = 1};
    uint64_t refs_bytes = count * sizeof(struct value_ref);
    block.bytes = sizeof block + refs_bytes + sizeof(struct list_error_ref) + strlen(error);
    struct value_ref ref = {.kind = SHEAF_LIST_OF(SHEAF_I64, 1), .segment = MINI_INPUTS, .length = count};
    char *room = input_room(mini, block.bytes, &ref.offset);
    struct list_error_ref failure = {.ordinal = 3, .class_id = SHEAF_CLASS_TIMEOUT};
    failure.message_length = (uint32_t)strlen(error);
    failure.message_offset = ref.offset + block.bytes - strlen(error);
    memcpy(room, &block, sizeof block);
    for (uint32_t at = 0; at < count; at++) {
        struct value_ref element = mini_i64(numbers[at]);
        memcpy(room + sizeof block + at * sizeof element, &element, sizeof element);
    }
    memcpy(room + sizeof block + refs_bytes, &failure, sizeof failure);
    memcpy(room + block.bytes - strlen(error), error, strlen(error));
    return ref;
}

struct value_ref mini_file(struct mini *mini, const char *path, uint64_t source)
{
    struct file_prefix prefix = {.source = source, .path_bytes = (uint32_t)strlen(path) + 1};
    struct value_ref ref = {.kind = SHEAF_FILE, .segment = MINI_INPUTS, .length = 1000};
    ref.prefix = (uint16_t)((sizeof prefix + prefix.path_bytes + 7) / 8 * 8);
    char *room = input_room(mini, ref.prefix, &ref.offset);
    memcpy(room, &prefix, sizeof prefix);
    memcpy(room + sizeof prefix, path, prefix.path_bytes);
    ref.offset += ref.prefix;
    return ref;
}

/* ---- rows and records ---- */

uint32_t mini_push_dispatch(struct mini *mini, enum board_ring ring, struct dispatch dispatch)
{
    dispatch.grain = mini->next_grain++ % MINI_GRAINS;
    dispatch.number = 1;
    dispatch.depth = 1;
    dispatch.coordinate[0] = dispatch.grain;
    if (dispatch.key == 0)
        dispatch.key = dispatch.grain + 1;
    dispatch_write(&mini->board.dispatches, &dispatch);
    uint64_t position;
    assert_int_equal(ready_ring_push(&mini->producers[dispatch.call][ring], dispatch.grain, 1, &position), 0);
    return dispatch.grain;
}

uint32_t mini_push(struct mini *mini, uint32_t call, enum board_ring ring, struct value_ref input)
{
    struct dispatch dispatch = {.call = call, .home = DISPATCH_HOME_ANY, .input_count = 1, .inputs = {input}};
    return mini_push_dispatch(mini, ring, dispatch);
}

void mini_wait_idle(const struct mini *mini)
{
    while (load_relaxed_u64(&mini->lane.counters->state) != LANE_IDLE)
        cpu_pause();
}

void mini_tell(struct mini *mini)
{
    event_count_bump(&mini->board.pool_events[0]);
    event_count_bump(mini->lane.events);
}

/* Hands out the segment of inputs, and /dev/zero-like sources: source n is a file of bytes n. */
static void answer_requests(struct mini *mini)
{
    struct attach_reply reply;
    while (attach_receive_reply(mini->socket, &reply) == 0) {
        int fd = -1;
        if (reply.kind == ATTACH_REQUEST_SEGMENT && reply.number == MINI_INPUTS) {
            assert_int_equal(segment_open_read_only(&mini->inputs, &fd), 0);
        } else if (reply.kind == ATTACH_REQUEST_DESCRIPTOR && reply.number < 128) {
            FILE *file = tmpfile();
            assert_non_null(file);
            fputc((int)reply.number, file);
            fflush(file);
            fd = dup(fileno(file));
            fclose(file);
        }
        assert_int_equal(attach_answer_descriptor(mini->socket, reply.number, fd, fd >= 0 ? 0 : -ENOENT), 0);
        if (fd >= 0)
            close(fd);
    }
}

/* Grants what the worker asks for, one chunk after the other, up to the end of its segment; then says no. */
static void grant_chunks(struct mini *mini)
{
    uint64_t wanted = LANE_CHUNKS(load_acquire_u64(&mini->lane.counters->wanted_chunks));
    while (mini->granted_chunks < wanted) {
        if ((mini->granted_chunks + 1) * CHUNK_BYTES > mini->outputs.size_bytes) {
            mini_order(mini, CONTROL_CHUNK, MINI_OUTPUTS, CONTROL_NO_CHUNK);
            event_count_bump(mini->lane.events);
            return;
        }
        mini_order(mini, CONTROL_CHUNK, MINI_OUTPUTS, mini->granted_chunks++);
        store_release_u64(&mini->lane.orders->granted_chunks, mini->granted_chunks);
        event_count_bump(mini->lane.events);
    }
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Child `at` of a record of several, as a record of its own. */
static struct completion child_of(const struct completion *record, uint32_t at)
{
    struct completion child = *record;
    child.child_count = 1;
    child.ordinal += at;
    child.value_count = record->value_count / (uint32_t)record->child_count;
    child.values += at * child.value_count;
    return child;
}

/* What the record read last says of one more row, or child. */
static struct completion next_part(struct mini *mini)
{
    uint32_t at = mini->part++;
    mini->parts_left--;
    if (mini->record.kind == COMPLETION_CHILD)
        return child_of(&mini->record, at);
    if (at == 0)
        mini->row = completion_first_row(&mini->record);
    else
        completion_next_row(&mini->record, &mini->row, at);
    return mini->row;
}

struct completion mini_next(struct mini *mini)
{
    uint64_t until_ns = clock_ns() + DEADLINE_NS;
    for (;;) {
        uint32_t seen = event_count_sample(mini->board.shard_events);
        answer_requests(mini);
        grant_chunks(mini);
        if (mini->parts_left > 0)
            return next_part(mini);
        int status = completion_read(&mini->records, &mini->record);
        if (status == 0) {
            spsc_release(&mini->records.ring);
            event_count_bump(mini->lane.events);
            mini->records_read += mini->record.kind != COMPLETION_LOG; /* what a sanitizer's build says first */
            mini->part = 0;
            mini->parts_left =
                mini->record.kind == COMPLETION_CHILD ? (uint32_t)mini->record.child_count : mini->record.row_count;
            continue;
        }
        assert_int_equal(status, -EAGAIN);
        assert_true(clock_ns() < until_ns);
        /* A request on the socket does not move the event count: look at both. Otherwise only a bump may wake us, so
         * that a missing one is seen. */
        if (event_count_announce(mini->board.shard_events, seen) && !spsc_pending(&mini->records.ring))
            event_count_wait(mini->board.shard_events, seen, mini->requests ? 2000000 : DEADLINE_NS);
    }
}

struct completion mini_expect(struct mini *mini, enum completion_kind kind, uint32_t grain)
{
    static const char open_sandbox[] = "the sandbox is off"; /* said at the start of a worker under a sanitizer */
    struct completion record = mini_next(mini);
    while (record.kind == COMPLETION_LOG && record.text_length_bytes > sizeof open_sandbox &&
           memcmp(record.text, open_sandbox, sizeof open_sandbox - 1) == 0)
        record = mini_next(mini);
    if (record.kind != kind || record.grain != grain)
        print_error("kind %d grain %u: %.*s\n", record.kind, record.grain, (int)record.text_length_bytes,
                    record.text != NULL ? record.text : "");
    assert_int_equal(record.kind, kind);
    assert_int_equal(record.grain, grain);
    if (kind != COMPLETION_EVICTED && grain != COMPLETION_NO_GRAIN)
        assert_int_equal(record.number, 1);
    return record;
}

void mini_order(struct mini *mini, enum control_kind kind, uint32_t segment, uint64_t value)
{
    struct control order = {kind, segment, value};
    assert_int_equal(control_write(&mini->orders, &order), 0);
}

void mini_free(struct mini *mini, const struct value_ref *ref)
{
    bool list = SHEAF_KIND_DEPTH(ref->kind) != 0;
    if (ref->segment != VALUE_INLINE)
        mini_order(mini, CONTROL_FREE, ref->segment, ref->offset - (list ? 0 : ref->prefix));
}

int64_t mini_i64_of(const struct completion *record, uint32_t at)
{
    assert_true(at < record->value_count);
    assert_int_equal(record->values[at].kind, SHEAF_I64);
    return (int64_t)record->values[at].offset;
}

const void *mini_data(const struct mini *mini, const struct value_ref *ref)
{
    assert_int_equal(ref->segment, MINI_OUTPUTS);
    assert_true(ref->offset >= ref->prefix);
    const void *data = segment_at(&mini->outputs, ref->offset, ref->length);
    assert_non_null(data);
    return data;
}
