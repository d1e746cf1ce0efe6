/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that die, hang, raise or cannot start: who is charged, who runs again, and that nothing stays behind. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/engine/bed.h"

#define ONE "sources: {s: i64}\noutputs: [y]\nsteps:\n"

/* By root: the class it failed with, NONE: it gave its number back. */
struct outcomes {
    enum sheaf_class classes[256];
    char causes[256][128];
    uint64_t ok, failed;
};

static void take_outcome(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    struct outcomes *outcomes = cookie;
    struct sheaf_item item = bed_item(result, 0, 0);
    assert_true(info->root < 256);
    outcomes->classes[info->root] = info->class_id;
    snprintf(outcomes->causes[info->root], sizeof outcomes->causes[0], "%s", item.cause);
    outcomes->ok += info->status == SHEAF_ROOT_OK;
    outcomes->failed += info->status == SHEAF_ROOT_FAILED;
    if (info->status == SHEAF_ROOT_OK)
        assert_int_equal(item.value.i64, (int64_t)info->tag);
}

static void count_up(int64_t *numbers, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        numbers[i] = (int64_t)i;
}

/* Only the row that kills its worker is charged, whatever was claimed with it. */
static void test_crash(void **state)
{
    struct bed *bed = *state;
    struct outcomes outcomes = {0};
    int64_t numbers[200];
    count_up(numbers, 200);
    bed_open(bed, ONE "- {call: c, op: crash_if, in: s, out: y, with: {at: [3, 77, 150]}}\n");
    bed_drive(bed, numbers, 200, take_outcome, &outcomes);
    bed_close(bed);
    assert_int_equal(outcomes.ok, 197);
    for (int i = 0; i < 200; i++)
        assert_int_equal(outcomes.classes[i], i == 3 || i == 77 || i == 150 ? SHEAF_CLASS_CRASHED : SHEAF_CLASS_NONE);
    assert_true(bed_number(bed, NULL, "worker_deaths") >= 3);
    assert_int_equal(bed_number(bed, "c", "started"), 200);
}

/* Damage is often older than the row that shows it: such a row is run once more, alone, in a process that has run
 * nothing, and is charged for nothing it did not do there. */
static void test_old_damage_is_not_charged(void **state)
{
    struct bed *bed = *state;
    int64_t numbers[200];
    count_up(numbers, 200);
    for (uint32_t workers = 1; workers <= 2; workers++) {
        static const char *const programs[] = {
            ONE "- {call: c, op: spoil, in: s, out: y, with: {at: [20, 90]}}\n",
            ONE "- {call: c, op: fresh, in: s, out: y, with: {at: [20, 21, 90, 199]}}\n",
            "sources: {s: i64}\noutputs: [y]\nsteps:\n- {call: a, op: say, in: s, out: x}\n"
            "- {call: c, op: fresh, in: x, out: y, with: {at: [20, 90, 91]}}\n",
        };
        for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
            struct outcomes outcomes = {0};
            bed->workers = workers;
            bed_open(bed, programs[i]);
            bed_drive(bed, numbers, 200, take_outcome, &outcomes);
            bed_close(bed);
            assert_int_equal(outcomes.ok, 200);
            assert_true(bed_number(bed, NULL, "worker_deaths") > 0);
        }
    }
}

/* A batch that crashes, hangs or raises is halved until the culprit is alone, within the promised number of dispatches.
 */
static void bisects(struct bed *bed, const char *how, enum sheaf_class class_id, uint64_t dispatches_max)
{
    struct outcomes outcomes = {0};
    int64_t numbers[32];
    char program[512];
    count_up(numbers, 32);
    bed->workers = 1;
    bed->window = 64;
    uint64_t before = bed_heard(bed, "batch ");
    snprintf(program, sizeof program,
             ONE
             "- {call: b, op: batch_trouble, in: s, out: y, with: {at: [13], how: %s}, batch: 32, timeout_ms: 80}\n",
             how);
    bed_open(bed, program);
    bed_drive(bed, numbers, 32, take_outcome, &outcomes);
    bed_close(bed);
    assert_int_equal(outcomes.ok, 31);
    assert_int_equal(outcomes.classes[13], class_id);
    assert_true(bed_heard(bed, "batch ") - before <= dispatches_max);
}

static void test_batch_bisection(void **state)
{
    struct bed *bed = *state;
    /* What has not arrived when the first batch is taken makes batches of its own: 32 rows in at most 31 batches. */
    uint64_t extra = 2 * 5 + 1;
    bed_listen(bed, "batch ");
    bisects(bed, "raise", SHEAF_CLASS_OPERATOR, 32 + extra);
    bisects(bed, "crash", SHEAF_CLASS_CRASHED, 32 + extra + 1); /* once more in a fresh worker */
    bisects(bed, "hang", SHEAF_CLASS_TIMEOUT, 32 + extra);
}

/* A machine with more to do than cores makes rows late, which is no fault of theirs: time without a core does not
 * count against the deadline. */
static void test_a_row_without_a_core_is_not_late(void **state)
{
    enum { HOGS = 9, NEEDS_MS = 60 }; /* ten times as long by the clock */
    struct bed *bed = *state;
    struct outcomes outcomes = {0};
    int64_t number = NEEDS_MS;
    cpu_set_t before, one;
    pid_t hogs[HOGS];
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &before))
            CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    for (int i = 0; i < HOGS; i++) {
        hogs[i] = fork();
        if (hogs[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                atomic_signal_fence(memory_order_seq_cst);
        }
    }
    bed_open(bed, ONE "- {call: b, op: burn, in: s, out: y, timeout_ms: 400}\n");
    bed_drive(bed, &number, 1, take_outcome, &outcomes);
    for (int i = 0; i < HOGS; i++) {
        kill(hogs[i], SIGKILL);
        waitpid(hogs[i], NULL, 0);
    }
    sched_setaffinity(0, sizeof before, &before);
    sched_setaffinity(0, sizeof before, &before);
    assert_int_equal(outcomes.ok, 1);
}

static void test_hang(void **state)
{
    struct bed *bed = *state;
    struct outcomes outcomes = {0};
    int64_t numbers[50];
    count_up(numbers, 50);
    bed_open(bed, ONE "- {call: h, op: hang_if, in: s, out: y, with: {at: [20]}, timeout_ms: 60}\n");
    bed_drive(bed, numbers, 50, take_outcome, &outcomes);
    assert_int_equal(outcomes.ok, 49);
    assert_int_equal(outcomes.classes[20], SHEAF_CLASS_TIMEOUT);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void test_retry_with_backoff(void **state)
{
    struct bed *bed = *state;
    struct outcomes outcomes = {0};
    int64_t numbers[20];
    count_up(numbers, 20);
    bed_open(bed, ONE "- {call: f, op: flaky, in: s, out: y, with: {at: [4, 5], k: 2}, recovery: retry, retries: 2, "
                      "backoff_ms: 40}\n");
    uint64_t started_ms = now_ms();
    bed_drive(bed, numbers, 20, take_outcome, &outcomes);
    assert_true(now_ms() - started_ms >= 80);
    bed_close(bed);
    assert_int_equal(outcomes.ok, 20);
    assert_int_equal(bed_number(bed, "f", "retried"), 4);
    /* One retry too few. */
    outcomes = (struct outcomes){0};
    bed_open(bed, ONE "- {call: f, op: flaky, in: s, out: y, with: {at: [4], k: 2, how: crash}, recovery: retry, "
                      "retries: 1}\n");
    bed_drive(bed, numbers, 20, take_outcome, &outcomes);
    assert_int_equal(outcomes.ok, 19);
    assert_int_equal(outcomes.classes[4], SHEAF_CLASS_CRASHED);
}

static bool take_all(struct bed *bed, struct outcomes *outcomes)
{
    for (struct sheaf_event event; (event = bed_poll(bed)).kind != SHEAF_EVENT_NONE;) {
        struct sheaf_result_info info = {.size = sizeof info};
        if (event.kind == SHEAF_EVENT_END)
            return true;
        assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
        sheaf_result_info(event.result, &info);
        take_outcome(outcomes, event.result, &info);
        sheaf_result_acknowledge(event.result);
    }
    return false;
}

/* A worker killed from outside in the middle of a row: the row is tried again, alone in a fresh worker if others ran
 * before it, where it must be killed once more to be charged. */
static void kill_from_outside(struct bed *bed, int first_signal, int second_signal)
{
    struct outcomes outcomes = {0};
    int64_t numbers[30];
    uint64_t heard = bed_heard(bed, "at the gate: "), killed = 0;
    count_up(numbers, 30);
    bed_open(bed, ONE "- {call: g, op: gate, in: s, out: y, with: {at: [7]}, recovery: retry, retries: 3}\n");
    for (int i = 0; i < 30; i++)
        assert_int_equal(bed_submit(bed, &numbers[i], 1), 0);
    sheaf_run_close_input(bed->run);
    while (!take_all(bed, &outcomes)) {
        char rest[128];
        bed_wait(bed);
        if (bed_heard(bed, "at the gate: ") <= heard + killed)
            continue;
        bed_await(bed, "at the gate: ", heard + ++killed, rest, sizeof rest);
        assert_true(atoi(rest) > 1);
        kill((pid_t)atoi(rest), first_signal);
        if (second_signal)
            kill((pid_t)atoi(rest), second_signal);
    }
    bed_close(bed);
    assert_int_equal(outcomes.ok, 30);
    assert_in_range(killed, 1, 2);
}

static void take_same(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    assert_int_equal(info->status, SHEAF_ROOT_OK);
    assert_int_equal(bed_item(result, 0, 0).value.i64, info->tag);
    ++*(uint64_t *)cookie;
}

/* What a worker says of claims that have ended is discarded, though their slots describe other rows of its own. The
 * worker does not load operators: it gives back what it gets. */
static void test_late_answers_are_discarded(void **state)
{
    struct bed *bed = *state;
    static int64_t numbers[2000];
    uint64_t rows = 0;
    count_up(numbers, 2000);
    bed->worker_path = getenv("SHEAF_LATE_WORKER");
    bed_open(bed, ONE "- {call: k, op: say, in: s, out: y}\n");
    bed_drive(bed, numbers, 2000, take_same, &rows);
    bed_close(bed);
    assert_int_equal(rows, 2000);
    assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 0);
}

static void test_killed_from_outside(void **state)
{
    struct bed *bed = *state;
    bed_listen(bed, "at the gate: ");
    kill_from_outside(bed, SIGKILL, 0);
    kill_from_outside(bed, SIGSEGV, 0);
    kill_from_outside(bed, SIGSTOP, SIGKILL);
}

static void test_abort(void **state)
{
    struct bed *bed = *state;
    int64_t numbers[40];
    uint64_t roots = 0, cancelled = 0;
    bool aborted = false;
    count_up(numbers, 40);
    bed_open(bed, ONE "- {call: m, op: raise_if, in: s, out: y, with: {at: [9], tag: 'x '}, batch: 4, "
                      "recovery: abort}\n");
    for (int i = 0; i < 40; i++) {
        int status = bed_submit(bed, &numbers[i], 1);
        assert_true(status == 0 || status == SHEAF_E_CLOSED);
    }
    sheaf_run_close_input(bed->run);
    for (struct sheaf_event event; (event = bed_next(bed)).kind != SHEAF_EVENT_END;) {
        struct sheaf_result_info info = {.size = sizeof info};
        if (event.kind == SHEAF_EVENT_ABORT) {
            assert_string_equal(event.message, "x raise 9");
            aborted = true;
            continue;
        }
        assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
        sheaf_result_info(event.result, &info);
        roots++;
        cancelled += info.class_id == SHEAF_CLASS_CANCELLED;
        if (info.tag == 9)
            assert_string_equal(info.message, "x raise 9");
        sheaf_result_acknowledge(event.result);
    }
    assert_true(aborted);
    assert_int_equal(roots, 40);
    assert_true(cancelled < 40);
    assert_int_equal(bed_submit(bed, numbers, 1), SHEAF_E_CLOSED);
}

/* A worker that cannot serve is said in one line that names why, and nothing is left. */
static void test_cannot_start(void **state)
{
    struct bed *bed = *state;
    static const struct {
        const char *worker, *op, *said;
    } starts[] = {
        {NULL, "unopenable", "the model moon.bin is not there"},
        {"/bin/false", "say", "/bin/false"},
        {"/nowhere/sheaf-worker", "say", "/nowhere/sheaf-worker"},
    };
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        struct sheaf_error error = SHEAF_ERROR_INIT;
        char program[256];
        snprintf(program, sizeof program, ONE "- {call: u, op: %s, in: s, out: y}\n", starts[i].op);
        bed->worker_path = starts[i].worker;
        assert_int_equal(bed_try_open(bed, program, &error), SHEAF_E_ENVIRONMENT);
        if (!strstr(error.message, starts[i].said))
            fail_msg("\"%s\" does not say \"%s\"", error.message, starts[i].said);
        assert_null(strchr(error.message, '\n'));
        assert_int_equal(bed_workers(NULL, 0), 0);
    }
}

/* One process of an operator that hangs or is stopped while it opens costs that process; one that always hangs ends the
 * run, which says why. */
static void test_never_ready(void **state)
{
    struct bed *bed = *state;
    static const char *const hows[] = {"hang", "stop", "always"};
    char file[] = "/tmp/sheaf-late-XXXXXX", program[256];
    bed->workers = 1;
    bed->start_timeout_ms = 1500;
    bed_listen(bed, "is still starting after ");
    for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++) {
        struct sheaf_error error = SHEAF_ERROR_INIT;
        struct outcomes outcomes = {0};
        int64_t number = 1;
        strcpy(file, "/tmp/sheaf-late-XXXXXX");
        close(mkstemp(file));
        snprintf(program, sizeof program,
                 ONE "- {call: l, op: late, in: s, out: y, timeout_ms: 200, with: {file: %s, how: %s}}\n", file,
                 hows[i]);
        int status = bed_try_open(bed, program, &error);
        if (strcmp(hows[i], "always") == 0) {
            assert_int_equal(unlink(file), 0);
            assert_int_equal(status, SHEAF_E_ENVIRONMENT);
            assert_non_null(strstr(error.message, "it was not ready within 1.5 s"));
            assert_int_equal(bed_workers(NULL, 0), 0);
            continue;
        }
        assert_int_equal(status, 0);
        bed_drive(bed, &number, 1, take_outcome, &outcomes);
        bed_close(bed);
        assert_int_equal(outcomes.ok, 1);
        assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 1);
    }
    assert_true(bed_heard(bed, "is still starting after ") >= 1 + 3);
}

/* ---- killing at random ---- */

enum { ROOTS = 2000, KILLS_MAX = 25 };

#define KILL_PROGRAM                                                                                                   \
    "sources: {s: i64}\noutputs: [t, r, m]\nsteps:\n"                                                                  \
    "- {call: f, op: range, in: s, out: g, with: {stream: true}, recovery: retry, retries: 1000}\n"                    \
    "- {expand: g, as: c}\n"                                                                                           \
    "- {call: n, op: neg, in: c, out: d, recovery: retry, retries: 1000}\n"                                            \
    "- {call: i, op: fail_item_if, in: d, out: e, with: {at: [-4]}, recovery: retry, retries: 1000}\n"                 \
    "- {gather: d, as: l}\n- {gather: e, mode: partial, as: r}\n"                                                      \
    "- {call: u, op: sum, in: l, out: v, recovery: retry, retries: 1000}\n"                                            \
    "- {call: b, op: raise_if, in: v, out: m, with: {at: [-1]}, batch: 16, recovery: retry, retries: 1000}\n"          \
    "- {call: x, op: to_text, in: v, out: t, recovery: retry, retries: 1000}\n"

struct disturbance {
    struct bed *bed;
    uint64_t random;
    uint32_t kills; /* still to do */
    uint64_t hash[ROOTS];
};

static uint64_t draw(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random >> 11;
}

static uint64_t mix(uint64_t hash, uint64_t number)
{
    return (hash ^ number) * UINT64_C(1099511628211);
}

static uint64_t mix_text(uint64_t hash, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = mix(hash, (unsigned char)text[i]);
    return hash;
}

static uint64_t hash_item(uint64_t hash, const struct sheaf_item *item)
{
    struct sheaf_value element;
    struct sheaf_list_error error;
    hash = mix(mix(hash, item->outcome), item->class_id);
    if (item->outcome == SHEAF_FAILED)
        return mix_text(hash, item->cause, strlen(item->cause));
    if (item->outcome != SHEAF_PRESENT)
        return hash;
    if (item->value.kind == SHEAF_TEXT)
        return mix_text(hash, item->value.data, item->value.length_bytes);
    if (SHEAF_KIND_DEPTH(item->value.kind) == 0)
        return mix(hash, (uint64_t)item->value.i64);
    while (sheaf_list_next(item->value.list, &element) > 0)
        hash = mix(mix(hash, (uint64_t)element.i64), sheaf_list_ordinal(item->value.list));
    while (sheaf_list_error_next(item->value.list, &error) > 0)
        hash = mix_text(mix(mix(hash, error.ordinal), error.class_id), error.message, strlen(error.message));
    return hash;
}

static void take_and_kill(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    static const int signals[] = {SIGKILL, SIGSEGV, SIGSTOP};
    struct disturbance *disturbance = cookie;
    assert_true(info->root < ROOTS && disturbance->hash[info->root] == 0);
    uint64_t hash = mix(14695981039346656037u, info->status);
    for (size_t output = 0; output < 3; output++) {
        struct sheaf_item item = bed_item(result, output, 0);
        hash = hash_item(hash, &item);
    }
    disturbance->hash[info->root] = hash;
    if (disturbance->kills == 0 || draw(&disturbance->random) % (ROOTS / KILLS_MAX / 2) != 0)
        return;
    pid_t pids[16];
    uint32_t count = bed_workers(pids, 16);
    int signal = signals[draw(&disturbance->random) % 3];
    if (count == 0)
        return;
    pid_t pid = pids[draw(&disturbance->random) % count];
    kill(pid, signal);
    if (signal == SIGSTOP)
        kill(pid, SIGKILL);
    disturbance->kills--;
}

static void run_disturbed(struct bed *bed, uint64_t seed, uint32_t kills, struct disturbance *ret_disturbance)
{
    int64_t numbers[ROOTS];
    for (int i = 0; i < ROOTS; i++)
        numbers[i] = i % 7;
    *ret_disturbance = (struct disturbance){.bed = bed, .random = seed * 2654435761u + 1, .kills = kills};
    bed_open(bed, KILL_PROGRAM);
    bed_drive(bed, numbers, ROOTS, take_and_kill, ret_disturbance);
    bed_close(bed);
}

/* Whoever is killed when: what comes out is what comes out undisturbed. */
static void test_random_kills(void **state)
{
    static struct disturbance calm, disturbed;
    struct bed *bed = *state;
    const char *given = getenv("SHEAF_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    print_message("seed %llu (SHEAF_TEST_SEED)\n", (unsigned long long)seed);
    bed->workers = 1; /* of each Pool */
    run_disturbed(bed, seed, 0, &calm);
    assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 0);
    run_disturbed(bed, seed, KILLS_MAX, &disturbed);
    print_message("%lld workers died\n", (long long)bed_number(bed, NULL, "worker_deaths"));
    assert_true(bed_number(bed, NULL, "worker_deaths") > 0);
    for (int i = 0; i < ROOTS; i++)
        if (calm.hash[i] != disturbed.hash[i])
            fail_msg("root %d came out otherwise when workers were killed", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)
        TEST(test_crash),
        TEST(test_old_damage_is_not_charged),
        TEST(test_batch_bisection),
        TEST(test_hang),
        TEST(test_a_row_without_a_core_is_not_late),
        TEST(test_retry_with_backoff),
        TEST(test_late_answers_are_discarded),
        TEST(test_killed_from_outside),
        TEST(test_abort),
        TEST(test_cannot_start),
        TEST(test_never_ready),
        TEST(test_random_kills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
