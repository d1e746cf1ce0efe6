/* SPDX-License-Identifier: Apache-2.0 */
/* Segments, and the lane and the board that lie in them, between two processes. */
#include "cmocka_all.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/board.h"
#include "shm/completion_ring.h"
#include "shm/control_ring.h"
#include "shm/lane.h"

static void a_segment_keeps_its_size(void **state)
{
    struct segment segment;
    assert_int_equal(segment_create("test", 3u << 20, &segment), 0);
    assert_int_equal((uintptr_t)segment.base & (HUGE_PAGE_BYTES - 1), 0);
    assert_int_equal(segment.size_bytes, 3u << 20);
    assert_int_not_equal(ftruncate(segment.descriptor, 4096), 0);
    assert_int_not_equal(ftruncate(segment.descriptor, 8 << 20), 0);
    assert_int_not_equal(fcntl(segment.descriptor, F_ADD_SEALS, F_SEAL_WRITE), 0);
    assert_int_equal(fcntl(segment.descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_null(segment_at(&segment, 1u << 20, (2u << 20) + 1));
    assert_null(segment_at(&segment, UINT64_MAX, 2));
    assert_ptr_equal(segment_at(&segment, 3u << 20, 0), (char *)segment.base + (3u << 20));
    segment_release(&segment);
    segment_release(&segment);
    assert_int_equal(segment_create("test", 0, &segment), -EINVAL);
}

static uint64_t blocks_bytes(const struct segment *segment)
{
    struct stat file;
    assert_int_equal(fstat(segment->descriptor, &file), 0);
    return (uint64_t)file.st_blocks * 512;
}

static void only_committed_parts_take_memory(void **state)
{
    struct segment segment;
    assert_int_equal(segment_create("test", 64u << 20, &segment), 0);
    assert_int_equal(blocks_bytes(&segment), 0);
    assert_int_equal(segment_commit(&segment, 5000, 1), 0);
    assert_true(blocks_bytes(&segment) >= 4096 && blocks_bytes(&segment) < 64u << 20);
    assert_int_equal(segment_commit(&segment, 60u << 20, 8u << 20), -EINVAL);
    assert_int_equal(segment_commit(&segment, 0, 4u << 20), 0);
    enum segment_backing backing = segment_advise_huge(&segment, 0, 4u << 20);
    assert_true(backing >= SEGMENT_SMALL_PAGES && backing <= SEGMENT_HUGE_NOW);
    assert_int_equal(segment_advise_huge(&segment, 4096, 2u << 20), SEGMENT_SMALL_PAGES); /* no whole block inside */
    memset(segment.base, 7, 4u << 20);
    assert_int_equal(segment_touch(&segment, 0, 4u << 20), 0);
    assert_int_equal(((unsigned char *)segment.base)[12345], 7);
    assert_int_equal(segment_decommit(&segment, 0, 4u << 20), 0);
    assert_int_equal(segment_commit(&segment, 0, 4096), 0);
    assert_int_equal(((unsigned char *)segment.base)[12345 % 4096], 0);
    segment_release(&segment);
}

/* Where the system has huge pages for us it has them for memory that was never touched, and clears them in place. */
static void huge_pages_come_before_committing(void **state)
{
    struct segment before, after;
    assert_int_equal(segment_create("test", 8u << 20, &before), 0);
    assert_int_equal(segment_create("test", 8u << 20, &after), 0);
    assert_int_equal(segment_commit(&after, 0, 4u << 20), 0);
    enum segment_backing backing = segment_advise_huge(&after, 0, 4u << 20);
    assert_int_equal(segment_advise_huge(&before, 0, 4u << 20), backing);
    if (backing == SEGMENT_HUGE_NOW)
        assert_int_equal(blocks_bytes(&before), 4u << 20);
    assert_int_equal(segment_commit(&before, 0, 4u << 20), 0);
    assert_int_equal(blocks_bytes(&before), 4u << 20);
    segment_release(&before);
    segment_release(&after);
}

static void a_full_machine_is_an_error(void **state)
{
    struct segment segment;
    assert_int_equal(segment_create("test", UINT64_C(1) << 40, &segment), 0);
    if (segment_memory_available() < UINT64_C(1) << 40) /* else the kernel would be asked, and might kill somebody */
        assert_int_equal(segment_commit(&segment, 0, UINT64_C(1) << 40), -ENOMEM);
    assert_int_equal(blocks_bytes(&segment), 0);
    segment_release(&segment);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static void remove_file(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

/* The tightest group on the way up counts, whichever it is, and files it caches are not used memory. */
static void every_group_above_limits(void **state)
{
    char mount[] = "/tmp/sheaf_group_XXXXXX", slice[64], unit[64];
    static const char *const names[] = {"memory.max", "memory.current", "memory.stat"};
    assert_non_null(mkdtemp(mount));
    snprintf(slice, sizeof slice, "%s/a.slice", mount);
    snprintf(unit, sizeof unit, "%s/a.slice/b.service", mount);
    assert_int_equal(mkdir(slice, 0700) + mkdir(unit, 0700), 0);
    assert_true(segment_group_memory(mount, "/a.slice/b.service") == UINT64_MAX);
    write_file(slice, "memory.max", "10000\n");
    write_file(slice, "memory.current", "7000\n");
    write_file(slice, "memory.stat", "anon 1\ninactive_file 2000\n");
    write_file(unit, "memory.max", "max\n");
    write_file(unit, "memory.current", "1000\n");
    write_file(unit, "memory.stat", "anon 1\n");
    assert_int_equal(segment_group_memory(mount, "/a.slice/b.service"), 5000);
    assert_true(segment_group_memory(mount, "") == UINT64_MAX);
    write_file(unit, "memory.max", "1500\n");
    assert_int_equal(segment_group_memory(mount, "/a.slice/b.service"), 500);
    write_file(unit, "memory.max", "900\n");
    assert_int_equal(segment_group_memory(mount, "/a.slice/b.service"), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        remove_file(slice, names[i]);
        remove_file(unit, names[i]);
    }
    assert_int_equal(rmdir(unit) + rmdir(slice) + rmdir(mount), 0);
}

static void a_read_only_view_sees_and_cannot_write(void **state)
{
    struct segment segment, view;
    int descriptor;
    assert_int_equal(segment_create("test", 8192, &segment), 0);
    assert_int_equal(segment_commit(&segment, 0, 8192), 0);
    assert_int_equal(segment_open_read_only(&segment, &descriptor), 0);
    assert_int_equal(segment_attach(descriptor, true, &view), -EACCES);
    assert_int_equal(segment_attach(descriptor, false, &view), 0);
    ((char *)segment.base)[5000] = 'x';
    assert_int_equal(((const char *)view.base)[5000], 'x');
    assert_int_not_equal(mprotect(view.base, 4096, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(segment_touch(&view, 0, 8192), 0);
    segment_release(&view);
    segment_release(&segment);
}

static void what_is_no_segment_is_refused(void **state)
{
    struct segment view;
    int plain = memfd_create("plain", MFD_CLOEXEC);
    assert_int_equal(ftruncate(plain, 8192), 0);
    assert_int_equal(segment_attach(plain, true, &view), -EINVAL);
    close(plain);
    assert_int_equal(segment_attach(plain, true, &view), -EBADF);
}

static const struct lane_shape lane_shape = {
    .worker = 9, .shard_count = 2, .claim_rows = 33, .completion_bytes = 4096, .control_bytes = 1024};

static int twin(const struct segment *segment)
{
    return fcntl(segment->descriptor, F_DUPFD_CLOEXEC, 0);
}

static void a_lane_joins_two_views(void **state)
{
    struct lane engine, worker;
    int orders;
    assert_int_equal(lane_create(&lane_shape, SEGMENT_ANY_NODE, &engine), 0);
    assert_int_equal(segment_open_read_only(&engine.orders_segment, &orders), 0);
    assert_int_equal(lane_attach(twin(&engine.own), orders, &worker), 0);
    assert_int_equal(worker.shape.worker, 9);
    for (uint32_t shard = 0; shard < 2; shard++) {
        struct spsc_ring here = lane_completion_ring(&engine, shard), there = lane_completion_ring(&worker, shard);
        struct completion_reader reader;
        struct spsc_writer writer;
        struct completion record = {.kind = COMPLETION_RELEASED, .grain = shard, .number = 4}, read;
        assert_int_equal(completion_reader_open(&reader, &here), 0);
        spsc_writer_open(&writer, &there);
        assert_int_equal(completion_write(&writer, &record), 0);
        spsc_commit(&writer);
        assert_int_equal(completion_read(&reader, &read), 0);
        assert_int_equal(read.grain, shard);
        completion_reader_close(&reader);

        struct spsc_ring to = lane_control_ring(&engine, shard), from = lane_control_ring(&worker, shard);
        struct spsc_reader orders_reader;
        struct control order = {CONTROL_EVICT, 0, 40 + shard}, got;
        spsc_writer_open(&writer, &to);
        spsc_reader_open(&orders_reader, &from);
        assert_int_equal(control_write(&writer, &order), 0);
        assert_int_equal(control_read(&orders_reader, &got), 0);
        assert_int_equal(got.value, 40 + shard);
    }
    claim_page_take(&worker.claims, 32, 5, 6);
    assert_int_equal(claim_page_find(&engine.claims, 5, 6), 32);
    store_relaxed_u64(&engine.orders->granted_chunks, 12);
    assert_int_equal(load_relaxed_u64(&worker.orders->granted_chunks), 12);
    lane_reset(&engine);
    assert_int_equal(claim_page_find(&engine.claims, 5, 6), CLAIM_ROW_NONE);
    assert_int_equal(load_relaxed_u64(&worker.orders->granted_chunks), 0);
    lane_release(&worker);
    lane_release(&engine);
}

static void a_lane_of_another_shape_is_refused(void **state)
{
    struct lane engine, worker;
    struct lane_layout layout;
    struct lane_shape crooked = lane_shape;
    crooked.completion_bytes = 3000;
    assert_int_equal(lane_plan(&crooked, &layout), -EINVAL);
    assert_int_equal(lane_create(&crooked, SEGMENT_ANY_NODE, &engine), -EINVAL);
    assert_int_equal(lane_create(&lane_shape, SEGMENT_ANY_NODE, &engine), 0);
    ((struct lane_header *)engine.own.base)->version++;
    int own = twin(&engine.own), orders;
    assert_int_equal(segment_open_read_only(&engine.orders_segment, &orders), 0);
    assert_int_equal(lane_attach(own, orders, &worker), -EBADMSG);
    ((struct lane_header *)engine.orders_segment.base)->version++;
    assert_int_equal(lane_attach(own, orders, &worker), -EBADMSG);
    assert_int_equal(close(own), 0); /* a refused descriptor is still the caller's */
    assert_int_equal(close(orders), 0);
    lane_release(&engine);
}

static const struct board_shape board_shape = {
    .shard = 1, .call_count = 3, .pool_count = 2, .ring_capacity = {4, 16, 8}, .dispatch_capacity = 100};

static void a_board_keeps_its_rings_apart(void **state)
{
    struct board board;
    struct ready_producer producers[3][BOARD_RINGS];
    assert_int_equal(board_create(&board_shape, SEGMENT_ANY_NODE, &board), 0);
    assert_int_equal(board_commit_dispatches(&board, 100), 0);
    assert_int_equal(board_commit_dispatches(&board, 101), -ERANGE);
    for (uint32_t call = 0; call < 3; call++) {
        for (enum board_ring kind = 0; kind < BOARD_RINGS; kind++) {
            struct ready_ring ring = board_ring(&board, call, kind);
            assert_int_equal(ready_producer_open(&producers[call][kind], &ring), 0);
            uint64_t position;
            for (uint32_t i = 0; i < board_shape.ring_capacity[kind]; i++)
                assert_int_equal(ready_ring_push(&producers[call][kind], i, 0, &position), 0);
        }
    }
    memset((void *)board.calls, 0xff, 3 * sizeof(*board.calls));
    memset((void *)board.pool_events, 0xff, 2 * sizeof(*board.pool_events));
    memset((void *)board.shard_events, 0xff, sizeof(*board.shard_events));
    memset(board.dispatches.slots, 0xff, dispatch_table_bytes(100));
    for (uint32_t call = 0; call < 3; call++) {
        for (enum board_ring kind = 0; kind < BOARD_RINGS; kind++) {
            assert_int_equal(ready_ring_check(&producers[call][kind]), 0);
            assert_int_equal(ready_ring_count_ready(&producers[call][kind].ring), board_shape.ring_capacity[kind]);
            ready_producer_close(&producers[call][kind]);
        }
    }
    board_release(&board);
}

/* News of a worker are its bit until the shard takes them; a promise holds until its time. */
static void a_board_says_who_wrote(void **state)
{
    struct board board;
    assert_int_equal(board_create(&board_shape, SEGMENT_ANY_NODE, &board), 0);
    assert_false(board_has_news(&board, BOARD_NEWS_WORDS));
    board_add_news(&board, 3);
    board_add_news(&board, 63);
    board_add_news(&board, 3);
    board_add_news(&board, READY_RING_WORKERS_MAX - 1);
    assert_true(board_has_news(&board, 1));
    assert_int_equal(board_take_news(&board, 0), UINT64_C(1) << 3 | UINT64_C(1) << 63);
    assert_int_equal(board_take_news(&board, 0), 0);
    assert_false(board_has_news(&board, BOARD_NEWS_WORDS - 1));
    assert_int_equal(board_take_news(&board, BOARD_NEWS_WORDS - 1), UINT64_C(1) << 63);
    assert_false(board_has_news(&board, BOARD_NEWS_WORDS));
    assert_false(board_promised(&board, 0));
    const uint64_t ahead[BOARD_POOL_WORDS] = {2, 0, 0, UINT64_C(1) << 63};
    board_promise(&board, 1000, ahead);
    assert_true(board_promised(&board, 999));
    assert_false(board_promised(&board, 1000));
    assert_true(board_promised_pool(&board, 999, 1) && board_promised_pool(&board, 999, BOARD_POOLS_MAX - 1));
    assert_false(board_promised_pool(&board, 999, 0) || board_promised_pool(&board, 999, BOARD_POOLS_MAX - 2));
    assert_false(board_promised_pool(&board, 1000, 1));
    memset((void *)board.news, 0xff, BOARD_NEWS_WORDS * sizeof *board.news); /* and lies beside nothing else */
    struct ready_ring ring = board_ring(&board, 0, BOARD_RETRY);
    assert_int_equal(load_relaxed_u32(&board.shard_events->word), 0);
    assert_int_equal(load_relaxed_u32(&board.pool_events[0].word), 0);
    assert_int_equal(load_relaxed_u64(&ring.slots->head), 0);
    board_release(&board);
}

/* A second process maps the board by descriptor, claims from it, and cannot write the notice. */
static void a_board_reaches_another_process(void **state)
{
    struct board board;
    assert_int_equal(board_create(&board_shape, SEGMENT_ANY_NODE, &board), 0);
    assert_int_equal(board_commit_dispatches(&board, 100), 0);
    struct ready_ring ring = board_ring(&board, 2, BOARD_READY);
    struct ready_producer producer;
    uint64_t position;
    assert_int_equal(ready_producer_open(&producer, &ring), 0);
    struct dispatch dispatch = {.grain = 42, .number = 3, .key = 4242};
    dispatch_write(&board.dispatches, &dispatch);
    assert_int_equal(ready_ring_push(&producer, 42, 3, &position), 0);
    int open_descriptor = twin(&board.open), notice;
    assert_int_equal(segment_open_read_only(&board.notice, &notice), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct board view;
        struct claim_row_shared rows[1] = {0};
        struct claim_page page = {rows, 1};
        struct ready_claim claim;
        struct ready_wish wish = {.rows_max = 1};
        if (board_attach(open_descriptor, notice, &view) || view.shape.call_count != 3)
            _exit(1);
        struct ready_ring there = board_ring(&view, 2, BOARD_READY);
        if (ready_ring_claim(&there, &view.dispatches, &page, 0, &wish, &claim).claimed != 1)
            _exit(2);
        if (mprotect(view.notice.base, 4096, PROT_READ | PROT_WRITE) == 0)
            _exit(3);
        _exit(claim.dispatch.key == 4242 ? 0 : 4);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(ready_ring_find(&producer, 42, 3, position), READY_GONE);
    close(open_descriptor);
    close(notice);
    ready_producer_close(&producer);
    board_release(&board);
}

static void a_board_that_lies_is_refused(void **state)
{
    struct board board, view;
    struct board_shape crooked = board_shape;
    crooked.ring_capacity[1] = 17;
    assert_int_equal(board_create(&crooked, SEGMENT_ANY_NODE, &board), -EINVAL);
    assert_int_equal(board_create(&board_shape, SEGMENT_ANY_NODE, &board), 0);
    struct board_header *notice_header = board.notice.base;
    notice_header->shape.dispatch_capacity = 1u << 20;
    int notice;
    assert_int_equal(segment_open_read_only(&board.notice, &notice), 0);
    int open_descriptor = twin(&board.open);
    assert_int_equal(board_attach(open_descriptor, notice, &view), -EBADMSG);
    close(open_descriptor);
    close(notice);
    board_release(&board);
}

/* What a worker wrote over must not keep its replacement out. */
static void a_scribbled_board_is_attached_to(void **state)
{
    struct board board, view;
    int notice;
    assert_int_equal(board_create(&board_shape, SEGMENT_ANY_NODE, &board), 0);
    memset(board.open.base, 0xff, board.open.size_bytes);
    assert_int_equal(segment_open_read_only(&board.notice, &notice), 0);
    assert_int_equal(board_attach(twin(&board.open), notice, &view), 0);
    assert_int_equal(view.shape.call_count, board_shape.call_count);
    board_release(&view);
    board_release(&board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_keeps_its_size),
        cmocka_unit_test(only_committed_parts_take_memory),
        cmocka_unit_test(huge_pages_come_before_committing),
        cmocka_unit_test(every_group_above_limits),
        cmocka_unit_test(a_full_machine_is_an_error),
        cmocka_unit_test(a_read_only_view_sees_and_cannot_write),
        cmocka_unit_test(what_is_no_segment_is_refused),
        cmocka_unit_test(a_lane_joins_two_views),
        cmocka_unit_test(a_lane_of_another_shape_is_refused),
        cmocka_unit_test(a_board_keeps_its_rings_apart),
        cmocka_unit_test(a_board_says_who_wrote),
        cmocka_unit_test(a_board_reaches_another_process),
        cmocka_unit_test(a_board_that_lies_is_refused),
        cmocka_unit_test(a_scribbled_board_is_attached_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
