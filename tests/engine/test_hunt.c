/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hunt for deadlocks: whatever waits for whatever, a run ends.
 *
 * Each round draws a program of large values from a seed: Pools of one worker that several Calls share, or of their
 * own; a budget in which about three children have room, so that workers stand blocked in emit and alloc; rows that
 * raise and back off; a window of one root or several; and kills, at roots that the seed picks. A run that does nothing
 * for half a minute fails the test (bed.h). What comes out must be right, or failed for what was done to it.
 *
 *     SHEAF_TEST_SEED=N SHEAF_TEST_ROUNDS=N build/tests/engine/test_engine_hunt
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/engine/bed.h"

enum { ROOTS = 10, KIB_OF_CHILD = 7 << 10, CHILDREN_MAX = 6 };

struct hunt {
    uint64_t random;
    bool kills;
    uint64_t done, right, killed;
};

static uint32_t draw(struct hunt *hunt, uint32_t below)
{
    hunt->random = hunt->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(hunt->random >> 33) % below;
}

static uint64_t from_environment(const char *name, uint64_t usual)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : usual;
}

static void kill_one(struct hunt *hunt)
{
    pid_t workers[8];
    uint32_t count = bed_workers(workers, 8);
    if (count > 0 && kill(workers[draw(hunt, count)], SIGKILL) == 0)
        hunt->killed++;
}

/* The tag is what was asked for: how many children, and of what size. */
static void take(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    struct hunt *hunt = cookie;
    hunt->done++;
    if (hunt->kills && draw(hunt, 3) == 0)
        kill_one(hunt);
    int64_t count = (int64_t)info->tag % 1000, bytes = (int64_t)info->tag / 1000 << 10;
    if (info->status != SHEAF_ROOT_OK) {
        bool crashed = info->class_id == SHEAF_CLASS_CRASHED && hunt->killed > 0;
        /* What of a budget this small is refused is for other tests; here nothing may be waited for in vain. */
        if (!crashed && info->class_id != SHEAF_CLASS_RESOURCE_EXHAUSTED)
            fail_msg("%" PRId64 " children: %s: %s", count, sheaf_class_name(info->class_id), info->message);
        return;
    }
    struct sheaf_item item = bed_item(result, 0, 0);
    assert_int_equal(item.value.i64, count * bytes);
    hunt->right++;
}

static void write_program(struct hunt *hunt, char *text, size_t room)
{
    const char *pool = draw(hunt, 3) ? ", pool: all" : "";
    const char *retry = ", recovery: retry, retries: 30, backoff_ms: 15";
    bool copies = draw(hunt, 2);
    int used = snprintf(text, room,
                        "sources: {s: i64}\noutputs: [y]\nsteps:\n"
                        "- {call: pour, op: pour, in: s, out: [g]%s%s}\n"
                        "- {expand: [g], as: [c]}\n",
                        pool, retry);
    if (copies)
        used +=
            snprintf(text + used, room - (size_t)used, "- {call: again, op: again, in: c, out: d%s%s}\n", pool, retry);
    snprintf(text + used, room - (size_t)used,
             "- {call: swallow, op: swallow, in: %s, out: n%s%s}\n"
             "- {gather: [n], as: [all]}\n"
             "- {call: sum, op: sum, in: all, out: y%s%s}\n",
             copies ? "d" : "c", pool, retry, pool, retry);
}

static uint64_t play_round(struct bed *bed, uint64_t seed)
{
    struct hunt hunt = {.random = seed};
    char program[1024];
    int64_t numbers[ROOTS];
    write_program(&hunt, program, sizeof program);
    bool shared = strstr(program, "pool: all") != NULL;
    uint32_t pools = shared ? 1 : strstr(program, "again") ? 4 : 3;
    bed->workers = shared ? 1 + draw(&hunt, 2) : pools;
    bed->memory_bytes = (UINT64_C(104) + 64 * bed->workers) << 20; /* the least is 80 and 64 */
    bed->window = draw(&hunt, 2) ? 1 : 1 + draw(&hunt, 8);
    hunt.kills = draw(&hunt, 2);
    for (uint32_t i = 0; i < ROOTS; i++)
        numbers[i] = (int64_t)(1000 * KIB_OF_CHILD + draw(&hunt, CHILDREN_MAX));
    print_message("SHEAF_TEST_SEED=%" PRIu64 ": %u workers%s, window %u%s\n", seed, bed->workers,
                  shared ? " in one pool" : "", bed->window, hunt.kills ? ", kills" : "");
    bed_open(bed, program);
    bed_drive(bed, numbers, ROOTS, take, &hunt);
    bed_close(bed);
    assert_int_equal(hunt.done, ROOTS);
    print_message("    %" PRIu64 " right, %" PRIu64 " kills\n", hunt.right, hunt.killed);
    return hunt.right;
}

static void test_hunt(void **state)
{
    uint64_t seed = from_environment("SHEAF_TEST_SEED", 4), rounds = from_environment("SHEAF_TEST_ROUNDS", 5);
    uint64_t right = 0;
    for (uint64_t round = 0; round < rounds; round++)
        right += play_round(*state, seed + round);
    assert_true(right >= rounds * ROOTS / 3); /* it hunts where there is something to be hunted */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_hunt, bed_setup, bed_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
