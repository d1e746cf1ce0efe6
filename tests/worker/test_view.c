/* SPDX-License-Identifier: Apache-2.0 */
/* Views of values in memory that another process goes on writing: what was checked is what the operator reads. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/view.h"

#define SEGMENT 3u

struct other {
    struct segment segment; /* as the other process writes it */
    struct payload_map map;
};

static void other_open(struct other *other)
{
    assert_int_equal(segment_create("test-view", 1 << 20, &other->segment), 0);
    payload_map_init(&other->map, -1);
    int descriptor = fcntl(other->segment.descriptor, F_DUPFD_CLOEXEC, 0);
    assert_int_equal(payload_map_add(&other->map, SEGMENT, descriptor, false), 0);
}

static void other_close(struct other *other)
{
    assert_null(other->map.rooms);
    payload_map_done(&other->map);
    segment_release(&other->segment);
}

static void test_shape_stays(void **state)
{
    struct other other;
    other_open(&other);
    struct sheaf_tensor shape = {.dtype = SHEAF_U8, .rank = 2, .shape = {4, 4}, .stride_bytes = {4, 1}};
    struct value_ref ref = {
        .kind = SHEAF_TENSOR, .segment = SEGMENT, .prefix = sizeof shape, .offset = 64 + sizeof shape, .length = 16};
    char *shared = segment_at(&other.segment, 64, sizeof shape);
    memcpy(shared, &shape, sizeof shape);
    struct view_room room = {0};
    struct sheaf_value value;
    assert_int_equal(value_view(&other.map, &ref, NULL, &room, &value), 0);
    memset(shared, 0xff, sizeof shape);
    assert_int_equal(value.tensor->rank, 2);
    assert_int_equal(value.tensor->shape[1], 4);
    assert_int_equal(value_view(&other.map, &ref, NULL, &room, &value), -EBADMSG);
    view_room_done(&room);
    other_close(&other);
}

static void test_names_stay_and_end(void **state)
{
    struct other other;
    other_open(&other);
    struct view_room rooms[2] = {{0}};
    struct sheaf_value value, file;
    char *shared = segment_at(&other.segment, 64, 16);
    struct value_ref ref = {.kind = SHEAF_BYTES, .segment = SEGMENT, .prefix = 16, .offset = 80, .length = 1};
    memcpy(shared, "image/jpeg\0....", 16);
    assert_int_equal(value_view(&other.map, &ref, NULL, &rooms[0], &value), 0);

    struct file_prefix prefix = {.source = 7, .path_bytes = 6};
    char *path = segment_at(&other.segment, 256, 32);
    memcpy(path, &prefix, sizeof prefix);
    memcpy(path + sizeof prefix, "a.pdf", 6);
    struct value_ref file_ref = {.kind = SHEAF_FILE, .segment = SEGMENT, .prefix = 32, .offset = 288, .length = 9};
    assert_int_equal(value_view(&other.map, &file_ref, NULL, &rooms[1], &file), 0);

    memset(other.segment.base, 'x', 4096); /* no end of a text anywhere near */
    assert_string_equal(value.name, "image/jpeg");
    assert_string_equal(file.name, "a.pdf");
    assert_true(view_file_prefix(&other.map, &file, &prefix));
    assert_int_equal(prefix.source, 7);
    assert_false(view_file_prefix(&other.map, &value, &prefix));
    file.name = "a.pdf"; /* of the operator's own making */
    assert_false(view_file_prefix(&other.map, &file, &prefix));
    assert_int_equal(value_view(&other.map, &ref, NULL, &rooms[0], &value), -EBADMSG);
    view_room_done(&rooms[0]);
    view_room_done(&rooms[1]);
    other_close(&other);
}

static void test_list_keeps_its_length(void **state)
{
    struct other other;
    other_open(&other);
    struct list_block block = {.count = 2, .bytes = sizeof block + 2 * sizeof(struct value_ref)};
    char *shared = segment_at(&other.segment, 64, block.bytes);
    memcpy(shared, &block, sizeof block);
    for (uint64_t at = 0; at < 2; at++) {
        struct value_ref element = {.kind = SHEAF_I64, .segment = VALUE_INLINE, .offset = 10 + at};
        memcpy(shared + sizeof block + at * sizeof element, &element, sizeof element);
    }
    struct value_ref ref = {.kind = SHEAF_LIST_OF(SHEAF_I64, 1), .segment = SEGMENT, .offset = 64, .length = 2};
    struct sheaf_list list = {0};
    struct view_room room = {0};
    struct sheaf_value value, element;
    assert_int_equal(value_view(&other.map, &ref, &list, &room, &value), 0);
    block.count = 1u << 20;
    memcpy(shared, &block, sizeof block);
    int64_t sum = 0;
    while (list_next(value.list, &element) > 0)
        sum += element.i64;
    assert_int_equal(sum, 21);
    list_done(&list);
    view_room_done(&room);
    other_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape_stays),
        cmocka_unit_test(test_names_stay_and_end),
        cmocka_unit_test(test_list_keeps_its_length),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
