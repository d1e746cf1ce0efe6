/* SPDX-License-Identifier: Apache-2.0 */
/* The hello, replies and descriptors over the socket, both ends in one process. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/attach.h"

#define SEGMENTS 700u

static ino_t inode_of(int fd)
{
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    return info.st_ino;
}

struct sender {
    int socket;
    const struct attach_hello *hello;
    int status;
};

static void *send_it(void *context)
{
    struct sender *sender = context;
    sender->status = attach_send_hello(sender->socket, sender->hello, 20000);
    return NULL;
}

static void check_hello(const struct attach_hello *got, const struct attach_segment *segments)
{
    assert_int_equal(got->worker, 9);
    assert_true(got->crowded);
    assert_string_equal(got->run_id, "run");
    assert_null(got->data_path);
    assert_int_equal(inode_of(got->lane_own_fd), inode_of(segments[2].fd));
    assert_int_equal(got->lane_orders_fd, -1);
    assert_int_equal(inode_of(got->shards[0].notice_fd), inode_of(segments[1].fd));
    assert_int_equal(got->segment_count, SEGMENTS);
    for (uint32_t at = 0; at < SEGMENTS; at++) {
        assert_int_equal(inode_of(got->segments[at].fd), inode_of(segments[at].fd));
        assert_int_equal(got->segments[at].own, at == 3);
    }
    assert_int_equal(got->chunks[0].chunk, 31);
}

static void check_call(const struct attach_call *back)
{
    assert_string_equal(back->plugin_path, "/opt/\xff/x.so");
    assert_int_equal(back->group_outputs, UINT64_C(1) << 63);
    assert_int_equal(back->expanded_groups, UINT64_C(1) << 63);
    assert_int_equal(back->memory_budget_bytes, UINT64_MAX);
    assert_int_equal(back->output_kinds[1], SHEAF_LIST_OF(SHEAF_I64, 2));
    assert_int_equal(back->options[1].i64, -9);
    assert_true(back->options[2].f64 == 0.1);
    assert_string_equal(back->options[3].text, "a\nb");
    assert_int_equal(back->options[4].i64s[0], INT64_MIN);
    assert_int_equal(back->options[4].i64s[2], INT64_MAX);
    assert_string_equal(back->options[5].texts[1], "eng");
}

/* More descriptors than one message takes, every type of option, a path that is no UTF-8. */
static void test_hello_arrives_whole(void **state)
{
    int sockets[2];
    assert_int_equal(attach_pair(sockets), 0);
    struct attach_segment segments[SEGMENTS];
    for (uint32_t at = 0; at < SEGMENTS; at++)
        segments[at] = (struct attach_segment){memfd_create("segment", MFD_CLOEXEC), at + 1, at == 3};
    int64_t numbers[] = {INT64_MIN, 0, INT64_MAX};
    const char *texts[] = {"", "eng"};
    struct sheaf_option_value options[] = {
        {SHEAF_OPTION_BOOL, 0, {.boolean = 1}},        {SHEAF_OPTION_I64, 0, {.i64 = -9}},
        {SHEAF_OPTION_F64, 0, {.f64 = 0.1}},           {SHEAF_OPTION_TEXT, 0, {.text = "a\nb"}},
        {SHEAF_OPTION_I64_LIST, 3, {.i64s = numbers}}, {SHEAF_OPTION_TEXT_LIST, 2, {.texts = texts}},
    };
    sheaf_kind kinds[] = {SHEAF_TEXT, SHEAF_LIST_OF(SHEAF_I64, 2)};
    struct attach_call call = {.call = 4,
                               .name = "pages",
                               .plugin_path = "/opt/\xff/x.so",
                               .operator_name = "pdf.open",
                               .options = options,
                               .option_count = 6,
                               .batch_rows = 7,
                               .timeout_ms = 60000,
                               .operator_flags = SHEAF_OPERATOR_BATCH,
                               .widest_failure = SHEAF_SCOPE_GROUP,
                               .slots = 3,
                               .input_count = 2,
                               .output_count = 2,
                               .output_kinds = kinds,
                               .group_outputs = UINT64_C(1) << 63,
                               .expanded_groups = UINT64_C(1) << 63,
                               .memory_budget_bytes = UINT64_MAX};
    struct attach_shard shard = {segments[0].fd, segments[1].fd, 1};
    struct attach_chunk chunk = {4, 31};
    struct attach_hello hello = {.worker = 9,
                                 .generation = 2,
                                 .pool = 1,
                                 .node = 1,
                                 .crowded = true,
                                 .integrity = ATTACH_INTEGRITY_CRASH,
                                 .payload_limit_bytes = 5,
                                 .heap_limit_bytes = 6,
                                 .run_id = "run",
                                 .lane_own_fd = segments[2].fd,
                                 .lane_orders_fd = -1,
                                 .shard_count = 1,
                                 .shards = &shard,
                                 .segment_count = SEGMENTS,
                                 .segments = segments,
                                 .chunk_count = 1,
                                 .chunks = &chunk,
                                 .call_count = 1,
                                 .calls = &call};
    struct sender sender = {sockets[0], &hello, 1};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_it, &sender), 0);
    struct attach_hello got;
    char line[ATTACH_LINE_BYTES] = "";
    assert_int_equal(attach_receive_hello(sockets[1], &got, line), 0);
    pthread_join(thread, NULL);
    assert_int_equal(sender.status, 0);

    check_hello(&got, segments);
    check_call(&got.calls[0]);
    attach_hello_close(&got);
    attach_hello_free(&got);
    for (uint32_t at = 0; at < SEGMENTS; at++)
        close(segments[at].fd);
    close(sockets[0]);
    close(sockets[1]);
}

static void test_replies(void **state)
{
    int sockets[2];
    struct attach_reply reply;
    assert_int_equal(attach_pair(sockets), 0);
    assert_int_equal(attach_receive_reply(sockets[0], &reply), -EAGAIN);
    assert_int_equal(attach_send_error(sockets[1], SHEAF_E_ENVIRONMENT, "two\nlines"), 0);
    assert_int_equal(attach_send_ready(sockets[1]), 0);
    assert_int_equal(attach_receive_reply(sockets[0], &reply), 0);
    assert_int_equal(reply.kind, ATTACH_ERROR);
    assert_int_equal(reply.status, SHEAF_E_ENVIRONMENT);
    assert_string_equal(reply.line, "two lines");
    assert_int_equal(attach_receive_reply(sockets[0], &reply), 0);
    assert_int_equal(reply.kind, ATTACH_READY);
    close(sockets[1]);
    assert_int_equal(attach_receive_reply(sockets[0], &reply), -EPIPE);
    close(sockets[0]);
}

static void test_descriptors(void **state)
{
    int sockets[2], fd = -1, file = memfd_create("source", MFD_CLOEXEC);
    assert_int_equal(attach_pair(sockets), 0);
    /* Answers may be there before they are asked for: one thread does both ends. */
    assert_int_equal(attach_answer_descriptor(sockets[0], 12, file, 0), 0);
    assert_int_equal(attach_request_descriptor(sockets[1], 12, &fd), 0);
    assert_int_equal(inode_of(fd), inode_of(file));
    close(fd);
    assert_int_equal(attach_answer_descriptor(sockets[0], 13, -1, -EACCES), 0);
    assert_int_equal(attach_request_segment(sockets[1], 13, &fd), -EACCES);
    assert_int_equal(attach_answer_descriptor(sockets[0], 14, file, 0), 0);
    assert_int_equal(attach_request_segment(sockets[1], 15, &fd), -EPROTO); /* not what was asked for */
    struct attach_reply reply;
    assert_int_equal(attach_receive_reply(sockets[0], &reply), 0);
    assert_int_equal(reply.kind, ATTACH_REQUEST_DESCRIPTOR);
    assert_int_equal(reply.number, 12);
    assert_int_equal(attach_receive_reply(sockets[0], &reply), 0);
    assert_int_equal(reply.kind, ATTACH_REQUEST_SEGMENT);
    close(file);
    close(sockets[0]);
    close(sockets[1]);
}

static void test_nonsense_is_refused(void **state)
{
    int sockets[2];
    struct attach_reply reply;
    struct attach_hello hello;
    char line[ATTACH_LINE_BYTES];
    assert_int_equal(attach_pair(sockets), 0);
    assert_int_equal(send(sockets[1], "nonsense", 8, 0), 8);
    assert_int_equal(attach_receive_reply(sockets[0], &reply), -EPROTO);
    uint32_t words[9] = {0x66656853u, ATTACH_VERSION + 1};
    assert_int_equal(send(sockets[0], words, sizeof words, 0), sizeof words);
    assert_int_equal(attach_receive_hello(sockets[1], &hello, line), SHEAF_E_ABI);
    assert_non_null(strstr(line, "another version"));
    words[1] = ATTACH_VERSION;
    words[2] = 1; /* a hello without descriptors */
    assert_int_equal(send(sockets[0], words, sizeof words, 0), sizeof words);
    assert_int_equal(attach_receive_hello(sockets[1], &hello, line), -EPROTO);
    close(sockets[0]);
    close(sockets[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello_arrives_whole),
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_nonsense_is_refused),
    };
    return cmocka_run_group_tests_name("attach", tests, NULL, NULL);
}
