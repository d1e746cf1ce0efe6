/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that are replaced after some rows, or die: no row is lost, nobody is charged, and nothing grows with it. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/engine/bed.h"

enum { ROOTS = 3000, ROWS = 4, ROOTS_PER_KILL = 25 };

struct seen {
    struct bed *bed;
    bool kills;
    uint64_t ok;
    uint64_t held_bytes, mappings; /* of this process, after some roots and at the end */
    uint64_t first_bytes, first_mappings;
};

/* Blocks of the memfds this process has open: all segments of the run. */
static uint64_t segment_bytes(void)
{
    uint64_t bytes = 0;
    for (int descriptor = 0; descriptor < 1024; descriptor++) {
        char path[64], name[64];
        struct stat status;
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(path, name, sizeof name - 1);
        if (length < 7 || memcmp(name, "/memfd:", 7) != 0 || fstat(descriptor, &status) < 0)
            continue;
        bytes += (uint64_t)status.st_blocks * 512;
    }
    return bytes;
}

static uint64_t mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    char line[1024];
    uint64_t count = 0;
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, "/memfd:") != NULL;
    if (file)
        fclose(file);
    return count;
}

/* The one that became ready last: a number whose processes die before they are ready, three times, ends the run. */
static void kill_one(struct bed *bed)
{
    char pid[32];
    bed_await(bed, "is ready: process ", 1, pid, sizeof pid);
    kill((pid_t)atoi(pid), SIGKILL);
}

static void take(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    struct seen *seen = cookie;
    struct sheaf_item item = bed_item(result, 0, 0);
    assert_int_equal(info->status, SHEAF_ROOT_OK);
    assert_int_equal(item.value.length_bytes, info->tag);
    seen->ok++;
    if (seen->kills && seen->ok % ROOTS_PER_KILL == 0)
        kill_one(seen->bed);
    if (seen->ok == ROOTS / 5) {
        seen->first_bytes = segment_bytes();
        seen->first_mappings = mappings();
    } else if (seen->ok == ROOTS) {
        seen->held_bytes = segment_bytes();
        seen->mappings = mappings();
    }
}

/* Values of some hundred kilobytes: several chunks are in use, and some live on when their maker ends. */
static void recycle(struct bed *bed, struct seen *seen)
{
    static int64_t numbers[ROOTS];
    for (uint32_t i = 0; i < ROOTS; i++)
        numbers[i] = 100000 + i * 100;
    bed->workers = 2;
    bed->worker_rows = ROWS;
    bed->memory_bytes = UINT64_C(1) << 30;
    seen->bed = bed;
    bed_listen(bed, "is ready: process ");
    bed_open(
        bed,
        "sources: {s: i64}\noutputs: [y]\nsteps:\n- {call: c, op: blob, in: s, out: y, recovery: retry, retries: 5}\n");
    bed_drive(bed, numbers, ROOTS, take, seen);
    bed_close(bed);
    print_message("%" PRId64 " recycled, %" PRId64 " died; %" PRIu64 " KiB then %" PRIu64 " KiB, %" PRIu64
                  " then %" PRIu64 " mappings\n",
                  bed_number(bed, NULL, "workers_recycled"), bed_number(bed, NULL, "worker_deaths"),
                  seen->first_bytes >> 10, seen->held_bytes >> 10, seen->first_mappings, seen->mappings);
    assert_int_equal(seen->ok, ROOTS);
    assert_int_equal(bed_number(bed, NULL, "failed"), 0);
    assert_int_equal(seen->mappings, seen->first_mappings);
    /* A chunk or two more for each worker may be under way at one moment and not at the other. */
    assert_in_range(seen->held_bytes, 0, seen->first_bytes + 2 * 3 * (UINT64_C(2) << 20));
}

static void test_after_some_rows(void **state)
{
    struct bed *bed = *state;
    struct seen seen = {0};
    recycle(bed, &seen);
    assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 0);
    assert_int_equal(bed_number(bed, "c", "raised") + bed_number(bed, "c", "retried"), 0);
    /* Up to 32 rows are claimed at once, and those at hand are run. */
    assert_in_range(bed_number(bed, NULL, "workers_recycled"), ROOTS / (ROWS + 32), ROOTS);
}

/* The same with kills at any moment: what was running then runs again. */
static void test_among_deaths(void **state)
{
    struct bed *bed = *state;
    struct seen seen = {.kills = true};
    recycle(bed, &seen);
    assert_in_range(bed_number(bed, NULL, "worker_deaths"), ROOTS / ROOTS_PER_KILL / 4, ROOTS / ROOTS_PER_KILL);
    assert_in_range(bed_number(bed, NULL, "workers_recycled"), ROOTS / (ROWS + 32) / 2, ROOTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_after_some_rows, bed_setup, bed_teardown),
        cmocka_unit_test_setup_teardown(test_among_deaths, bed_setup, bed_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
