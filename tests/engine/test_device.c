/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls for devices under the whole engine: on the host, and on the driver of the tests with one device and eight, with
 * random delays and with everything that can go wrong. What comes out is what the host gives, and nothing is lost.
 * SHEAF_TEST_SEED repeats a run.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/device/kernels.h"
#include "tests/engine/bed.h"

enum { ROOTS = 160, FAULTY_LETTER = 'z' };

#define PROGRAM(more)                                                                                                  \
    "sources: {s: i64}\noutputs: [y]\nsteps:\n- {call: b, op: blob, in: s, out: t}\n"                                  \
    "- {call: d, op: device_sum, in: t, out: y, batch: 8" more "}\n"

struct answers {
    int64_t sums[ROOTS];
    enum sheaf_class classes[ROOTS];
    char causes[ROOTS][128];
    uint64_t ok, failed;
};

static char letter_of(int64_t number)
{
    return (char)('a' + number % 26);
}

static void take_sum(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    struct answers *answers = cookie;
    struct sheaf_item item = bed_item(result, 0, 0);
    assert_true(info->root < ROOTS);
    answers->classes[info->root] = info->class_id;
    snprintf(answers->causes[info->root], sizeof answers->causes[0], "%s", item.cause);
    answers->ok += info->status == SHEAF_ROOT_OK;
    answers->failed += info->status == SHEAF_ROOT_FAILED;
    answers->sums[info->root] = info->status == SHEAF_ROOT_OK ? item.value.i64 : -1;
}

static uint64_t seed(void)
{
    static uint64_t value;
    const char *text = getenv("SHEAF_TEST_SEED");
    if (value == 0) {
        value = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
        print_message("SHEAF_TEST_SEED=%llu\n", (unsigned long long)value);
    }
    return value;
}

/* Mostly short texts, some that go to the device straight from where they lie. */
static void make_numbers(int64_t *numbers)
{
    uint64_t random = seed();
    for (int i = 0; i < ROOTS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        numbers[i] = 1 + (int64_t)((random >> 33) % (i % 16 == 0 ? 400000 : 3000));
    }
}

static void check_sums(const struct answers *answers, const int64_t *numbers)
{
    assert_int_equal(answers->ok + answers->failed, ROOTS);
    for (int i = 0; i < ROOTS; i++)
        if (answers->classes[i] == SHEAF_CLASS_NONE)
            assert_int_equal(answers->sums[i], numbers[i] * letter_of(numbers[i]));
}

/* ---- what the driver is like ---- */

static const char *const variables[] = {
    "SHEAF_FAKE_CUDA_DEVICES", "SHEAF_FAKE_CUDA_SEED",  "SHEAF_FAKE_CUDA_DELAY_US",  "SHEAF_FAKE_CUDA_ERRORS",
    "SHEAF_FAKE_CUDA_STATE",   "SHEAF_FAKE_CUDA_TIMES", "SHEAF_FAKE_CUDA_READ_ONLY", "SHEAF_FAKE_CUDA_TRACE"};

static char state_path[] = "/tmp/sheaf-fake-cuda-XXXXXX";

static void set_number(const char *variable, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    setenv(variable, text, 1);
}

static int device_setup(void **state)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    snprintf(state_path, sizeof state_path, "/tmp/sheaf-fake-cuda-XXXXXX");
    int fd = mkstemp(state_path);
    assert_true(fd >= 0);
    close(fd);
    setenv("SHEAF_FAKE_CUDA_STATE", state_path, 1);
    setenv("SHEAF_FAKE_CUDA_TIMES", "30000:20000:5000:0:0", 1);
    return bed_setup(state);
}

static int device_teardown(void **state)
{
    unlink(state_path);
    return bed_teardown(state);
}

/* A run of which every row that is there must be right, and none is missing. */
static void run_numbers(struct bed *bed, const char *program, const int64_t *numbers, struct answers *answers)
{
    *answers = (struct answers){0};
    bed_open(bed, program);
    bed_drive(bed, numbers, ROOTS, take_sum, answers);
    bed_close(bed);
    check_sums(answers, numbers);
}

static void run_right(struct bed *bed, const char *program)
{
    struct answers answers;
    int64_t numbers[ROOTS];
    make_numbers(numbers);
    run_numbers(bed, program, numbers, &answers);
    for (int i = 0; i < ROOTS; i++)
        if (answers.classes[i] != SHEAF_CLASS_NONE)
            fail_msg("root %d of %lld: class %d: %s", i, (long long)numbers[i], (int)answers.classes[i],
                     answers.causes[i]);
}

/* ---- where Calls run ---- */

static void test_host(void **state)
{
    struct bed *bed = *state;
    bed_listen(bed, "run on the host: as asked for");
    bed->device = "host";
    run_right(bed, PROGRAM(""));
    assert_int_equal(bed_heard(bed, "run on the host: as asked for"), 1);
    assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 0);
}

static void test_devices(void **state)
{
    struct bed *bed = *state;
    bed_listen(bed, "MiB, 0000:");
    bed->device = "cuda";
    for (uint32_t devices = 1; devices <= 8; devices *= 8) {
        uint64_t before = bed_heard(bed, "MiB, 0000:");
        set_number("SHEAF_FAKE_CUDA_DEVICES", devices);
        run_right(bed, PROGRAM(""));
        assert_int_equal(bed_heard(bed, "MiB, 0000:") - before, devices);
        assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 0);
    }
}

static void test_chosen_devices(void **state)
{
    struct bed *bed = *state;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    bed_listen(bed, "MiB, 0000:");
    bed->device = "cuda:5,2";
    run_right(bed, PROGRAM(""));
    assert_int_equal(bed_heard(bed, "MiB, 0000:"), 2);
    bed->device = "cuda:8";
    assert_int_equal(bed_try_open(bed, PROGRAM(""), &error), SHEAF_E_ENVIRONMENT);
    assert_non_null(strstr(error.message, "cuda:8"));
    bed->device = "tpu";
    assert_int_equal(bed_try_open(bed, PROGRAM(""), &error), SHEAF_E_USAGE);
}

/* On the CPU although there are devices, beside Calls that use them. */
static void test_place(void **state)
{
    struct bed *bed = *state;
    set_number("SHEAF_FAKE_CUDA_DEVICES", 1);
    setenv("SHEAF_FAKE_CUDA_ERRORS", "*:cuLaunchKernel:1+:700", 1);
    run_right(bed, PROGRAM(", place: cpu"));
    assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 0);
}

/* One process on a device, whatever Pools its Calls name; kernels on the CPU have workers of their own. */
static void test_pools(void **state)
{
    struct bed *bed = *state;
    struct answers answers = {0};
    int64_t numbers[ROOTS];
    make_numbers(numbers);
    bed->device = "cuda:3";
    bed_open(bed, "sources: {s: i64}\noutputs: [x, y, z]\nsteps:\n- {call: b, op: blob, in: s, out: t}\n"
                  "- {call: one, op: device_sum, in: t, out: x, pool: one}\n"
                  "- {call: two, op: device_sum, in: t, out: y, pool: two, place: gpu}\n"
                  "- {call: three, op: device_sum, in: t, out: z, place: cpu}\n");
    bed_drive(bed, numbers, ROOTS, take_sum, &answers);
    bed_close(bed);
    assert_int_equal(bed_number(bed, NULL, "workers"), 2 + 1 + 2); /* of blob, the device, the CPU's kernels */
    check_sums(&answers, numbers);
    assert_int_equal(answers.ok, ROOTS);
}

/* An operator that can do without a device: where there is none its Call is an ordinary one of the Pool it names, and
 * on one it takes the rows that do not fit there. */
static void test_either(void **state)
{
    static const char program[] =
        "sources: {s: i64}\noutputs: [y]\nsteps:\n- {call: b, op: blob, in: s, out: t, pool: p}\n"
        "- {call: d, op: device_either, in: t, out: y, pool: p%s}\n";
    struct bed *bed = *state;
    struct answers answers;
    int64_t numbers[ROOTS];
    char text[sizeof program + 16];
    make_numbers(numbers);
    numbers[30] = 7000000;
    set_number("SHEAF_FAKE_CUDA_DEVICES", 1);
    for (int way = 0; way < 3; way++) { /* on a device, on the host, on the CPU beside a device that is no use */
        bed->device = way == 1 ? "host" : "cuda";
        snprintf(text, sizeof text, program, way == 2 ? ", place: cpu" : "");
        setenv("SHEAF_FAKE_CUDA_ERRORS", way == 2 ? "*:cuLaunchKernel:1+:700" : "", 1);
        run_numbers(bed, text, numbers, &answers);
        assert_int_equal(answers.ok, ROOTS);
        assert_int_equal(bed_number(bed, NULL, "workers"), way == 0 ? 2 + 1 : 2);
        assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 0);
    }
    bed->device = "auto";
    bed_listen(bed, "goes on on the host");
    snprintf(text, sizeof text, program, "");
    setenv("SHEAF_FAKE_CUDA_ERRORS", "*:cuLaunchKernel:2+:214", 1);
    assert_int_equal(truncate(state_path, 0), 0);
    run_numbers(bed, text, numbers, &answers);
    assert_int_equal(answers.ok, ROOTS);
    assert_int_equal(bed_heard(bed, "goes on on the host"), 1);
}

/* Where everything would be on two sockets with four GPUs each: a driver of a device on its socket, and nobody else on
 * its core. */
static void test_placement(void **state)
{
    struct bed *bed = *state;
    const char *shared = getenv("SHEAF_SHARED");
    char path[4096], *text = NULL;
    snprintf(path, sizeof path, "%s/hgx-8gpu.xml", shared ? shared : "../shared");
    if (access(path, R_OK) != 0) {
        print_message("skipped: no %s\n", path);
        skip();
    }
    struct sheaf_engine_options options = {.size = sizeof options, .topology_xml = path};
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_engine *engine = NULL;
    struct sheaf_program *program = NULL;
    struct sheaf_plan *plan = NULL;
    assert_int_equal(sheaf_program_create(bed->registry, &program), 0);
    assert_int_equal(sheaf_program_parse(program, "test", PROGRAM(""), strlen(PROGRAM("")), NULL, 0, &error), 0);
    assert_int_equal(sheaf_program_compile(program, &plan, &error), 0);
    assert_int_equal(sheaf_engine_create(&options, &engine, &error), 0);
    assert_int_equal(sheaf_engine_placement(engine, plan, &text), 0);
    assert_non_null(strstr(text, "\nb                0          44  0-86:2\n"));
    assert_non_null(strstr(text, "\nb                1          44  96-182:2\n"));
    assert_non_null(strstr(text, "\ngpu              0           4  88-94:2\n"));
    assert_non_null(strstr(text, "\ngpu              1           4  184-190:2\n"));
    assert_null(strstr(text, "share a core"));
    free(text);
    sheaf_engine_destroy(engine);
    sheaf_plan_destroy(plan);
    sheaf_program_destroy(program);
}

static void test_no_driver(void **state)
{
    struct bed *bed = *state;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    char *path = strdup(getenv("LD_LIBRARY_PATH"));
    unsetenv("LD_LIBRARY_PATH");
    bed_listen(bed, "run on the host: no NVIDIA ");
    bed->device = "auto";
    run_right(bed, PROGRAM(""));
    assert_int_equal(bed_heard(bed, "run on the host: no NVIDIA "), 1);
    bed->device = "cuda";
    assert_int_equal(bed_try_open(bed, PROGRAM(""), &error), SHEAF_E_ENVIRONMENT);
    assert_non_null(strstr(error.message, "libcuda.so.1"));
    setenv("LD_LIBRARY_PATH", path, 1);
    free(path);
}

static void test_delays(void **state)
{
    struct bed *bed = *state;
    bed->device = "cuda";
    for (uint64_t round = 0; round < 3; round++) {
        set_number("SHEAF_FAKE_CUDA_DEVICES", round == 0 ? 1 : 8);
        set_number("SHEAF_FAKE_CUDA_SEED", seed() + round);
        set_number("SHEAF_FAKE_CUDA_DELAY_US", 400);
        set_number("SHEAF_FAKE_CUDA_READ_ONLY", round != 1);
        setenv("SHEAF_FAKE_CUDA_TIMES", "1000:1000:1000:0:0", 1);
        run_right(bed, PROGRAM(""));
        assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 0);
    }
}

/* ---- faults ---- */

/* One fault each, at a moment of the seed's choosing: no row is to blame, and none is lost. */
static void test_one_fault(void **state)
{
    static const struct {
        const char *function;
        int calls, error;
    } faults[] = {{"cuLaunchKernel", 8, 700},        {"cuLaunchKernel", 8, 719}, {"cuMemcpyHtoDAsync", 16, 214},
                  {"cuEventSynchronize", 8, 999},    {"cuLaunchKernel", 8, 702}, {"cuMemcpyDtoHAsync", 8, 214},
                  {"cuStreamWaitEvent", 16, 999},    {"cuEventRecord", 20, 700}, {"cuMemAlloc", 1, 2},
                  {"cuDevicePrimaryCtxRetain", 1, 2}};
    struct bed *bed = *state;
    bed->device = "cuda";
    set_number("SHEAF_FAKE_CUDA_DEVICES", 1 + seed() % 2);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char text[96];
        snprintf(text, sizeof text, "0:%s:%d:%d", faults[i].function, 1 + (int)(seed() / 7 % (uint64_t)faults[i].calls),
                 faults[i].error);
        assert_int_equal(truncate(state_path, 0), 0);
        setenv("SHEAF_FAKE_CUDA_ERRORS", text, 1);
        print_message("%s\n", text);
        run_right(bed, PROGRAM(""));
    }
}

/* A row by itself when its device fails is not to blame before it fails alone, and never for what is the device's. */
static void test_rows_by_themselves(void **state)
{
    struct bed *bed = *state;
    bed->device = "cuda";
    bed->window = 1;
    set_number("SHEAF_FAKE_CUDA_DEVICES", 1);
    setenv("SHEAF_FAKE_CUDA_ERRORS", "0:cuLaunchKernel:5:700,0:cuLaunchKernel:9:214,0:cuLaunchKernel:10:999", 1);
    run_right(bed, PROGRAM(""));
    assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 3);
}

/* Many faults of all kinds on eight devices, at random. */
static void test_many_faults(void **state)
{
    static const char *const functions[] = {"cuLaunchKernel",     "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
                                            "cuEventSynchronize", "cuEventRecord",     "cuStreamWaitEvent"};
    static const int errors[] = {700, 214, 999, 702, 719};
    struct bed *bed = *state;
    uint64_t random = seed();
    bed->device = "auto";
    set_number("SHEAF_FAKE_CUDA_DELAY_US", 300);
    for (int round = 0; round < 2; round++) {
        char text[512] = "";
        for (int fault = 0; fault < 10; fault++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%d:%s:%d:%d", fault > 0 ? "," : "", (int)(random >> 60) % 8,
                     functions[(random >> 50) % 6], 1 + (int)((random >> 40) % 12), errors[(random >> 30) % 5]);
        }
        print_message("%s\n", text);
        assert_int_equal(truncate(state_path, 0), 0);
        setenv("SHEAF_FAKE_CUDA_ERRORS", text, 1);
        set_number("SHEAF_FAKE_CUDA_SEED", random);
        /* A row by itself that meets two of them is charged for the second. */
        run_right(bed, PROGRAM(", recovery: retry, retries: 9"));
    }
}

/* A kernel that does not end: its process is ended at the deadline. */
static void test_a_kernel_that_hangs(void **state)
{
    struct bed *bed = *state;
    bed->device = "cuda";
    set_number("SHEAF_FAKE_CUDA_DEVICES", 1);
    setenv("SHEAF_FAKE_CUDA_ERRORS", "0:cuLaunchKernel:4:hang", 1);
    run_right(bed, PROGRAM(", timeout_ms: 1000"));
    assert_true(bed_number(bed, NULL, "worker_deaths") >= 1);
}

/* Rows that make the device fail are found, each by itself, and the others come through; the device is not retired for
 * what they do. */
static void test_rows_that_fault(void **state)
{
    struct bed *bed = *state;
    struct answers answers;
    int64_t numbers[ROOTS];
    uint64_t guilty = 0;
    bed_listen(bed, "is retired");
    bed->device = "cuda";
    set_number("SHEAF_FAKE_CUDA_DEVICES", 2);
    make_numbers(numbers);
    for (int i = 0; i < ROOTS; i++) { /* two: with a third a device might fail three times in a row */
        bool wanted = i == 40 || i == 120;
        while ((letter_of(numbers[i]) == FAULTY_LETTER) != wanted)
            numbers[i]++;
    }
    run_numbers(bed, PROGRAM(", with: {fault: 122}"), numbers, &answers);
    for (int i = 0; i < ROOTS; i++) {
        bool faulty = letter_of(numbers[i]) == FAULTY_LETTER;
        guilty += faulty;
        if (answers.classes[i] != (faulty ? SHEAF_CLASS_GPU : SHEAF_CLASS_NONE))
            fail_msg("root %d of %lld: class %d: %s", i, (long long)numbers[i], (int)answers.classes[i],
                     answers.causes[i]);
    }
    assert_int_equal(guilty, 2);
    assert_int_equal(answers.failed, guilty);
    assert_int_equal(bed_heard(bed, "is retired"), 0);
    assert_true(bed_number(bed, NULL, "worker_deaths") >= 3);
}

/* What an operator asks the driver for and cannot have is the operator's failure, not the device's. */
static void test_an_operator_that_strays(void **state)
{
    struct bed *bed = *state;
    struct answers answers = {0};
    const int64_t numbers[] = {10, 20, 30, 40};
    bed->device = "cuda";
    set_number("SHEAF_FAKE_CUDA_DEVICES", 1);
    bed_open(bed, "sources: {s: i64}\noutputs: [y]\nsteps:\n- {call: b, op: blob, in: s, out: t}\n"
                  "- {call: d, op: device_stray, in: t, out: y, batch: 4}\n");
    bed_drive(bed, numbers, 4, take_sum, &answers);
    bed_close(bed);
    assert_int_equal(answers.failed, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(answers.classes[i], SHEAF_CLASS_OPERATOR);
        assert_non_null(strstr(answers.causes[i], "cuMemcpyDtoHAsync"));
    }
    assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 0);
}

/* ---- what fits, and what goes together ---- */

enum { MIXED_ROOTS = 48 };

static void take_mixed(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    uint64_t *right = cookie;
    struct sheaf_item item = bed_item(result, 0, 0);
    if (info->status != SHEAF_ROOT_OK) {
        assert_int_equal(info->class_id, SHEAF_CLASS_RESOURCE_EXHAUSTED);
        assert_true((int64_t)info->tag > 6000000);
        return;
    }
    const unsigned char *bytes = item.value.data;
    assert_int_equal(item.value.length_bytes, info->tag);
    for (uint64_t at = 0; at < info->tag; at++)
        if (bytes[at] != mix((unsigned char)letter_of((int64_t)info->tag), info->root, at))
            fail_msg("root %llu is wrong at byte %llu", (unsigned long long)info->root, (unsigned long long)at);
    ++*right;
}

/* Batches are cut so that they fit the device's memory, cut again when the operator takes more than it said, and a row
 * that does not fit by itself fails by itself. Large results come straight into their rows' memory. */
static void test_memory_of_the_device(void **state)
{
    struct bed *bed = *state;
    int64_t numbers[MIXED_ROOTS];
    for (int i = 0; i < MIXED_ROOTS; i++)
        numbers[i] = i == 30 ? 7000000 : i % 3 != 0 ? 500000 + i : 1000 + 7 * i;
    set_number("SHEAF_FAKE_CUDA_DEVICES", 2);
    for (int host = 0; host < 2; host++) {
        uint64_t right = 0;
        bed->device = host ? "host" : "cuda";
        bed_open(bed, "sources: {s: i64}\noutputs: [y]\nsteps:\n- {call: b, op: blob, in: s, out: t}\n"
                      "- {call: d, op: device_mix, in: t, out: y, batch: 12}\n");
        bed_drive(bed, numbers, MIXED_ROOTS, take_mixed, &right);
        bed_close(bed);
        assert_true(right >= (uint64_t)(host ? MIXED_ROOTS : MIXED_ROOTS - 1)); /* the host has more */
        assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 0);
    }
}

/* Rows of a batch have tensors of one shape, without gaps between them: the operator checks it. */
static void test_shapes(void **state)
{
    struct bed *bed = *state;
    int64_t numbers[ROOTS];
    for (int i = 0; i < ROOTS; i++)
        numbers[i] = i;
    set_number("SHEAF_FAKE_CUDA_DEVICES", 2);
    for (int host = 0; host < 2; host++) {
        struct answers answers = {0};
        bed->device = host ? "host" : "cuda";
        bed_open(bed, "sources: {s: i64}\noutputs: [y]\nsteps:\n- {call: b, op: make_tensor, in: s, out: t}\n"
                      "- {call: d, op: device_shapes, in: t, out: y, batch: 16}\n");
        bed_drive(bed, numbers, ROOTS, take_sum, &answers);
        bed_close(bed);
        assert_int_equal(answers.ok, ROOTS);
        for (int i = 0; i < ROOTS; i++)
            assert_int_equal(answers.sums[i], (1 + i % 5) * 32 * (i % 100));
    }
}

/* Workers with a GPU, and those that stand in for them, are sealed. */
static void test_sandbox(void **state)
{
    struct bed *bed = *state;
    set_number("SHEAF_FAKE_CUDA_DEVICES", 1);
    for (int host = 0; host < 2; host++) {
        bed->device = host ? "host" : "cuda";
        run_right(bed, "sources: {s: i64}\noutputs: [y]\nsteps:\n- {call: b, op: blob, in: s, out: t}\n"
                       "- {call: d, op: device_pry, in: t, out: y, batch: 8}\n");
    }
}

/* ---- devices that are no use ---- */

/* Roots, as many as it takes until the log says it: all of them are right. */
static void run_until_heard(struct bed *bed, const char *words)
{
    struct sheaf_event event = {0};
    bool closed = false;
    for (int64_t number = 1; event.kind != SHEAF_EVENT_END; number++) {
        bool heard = bed_heard(bed, words) > 0;
        if (!heard && bed_submit(bed, &number, 1) < 0)
            number--;
        if (heard && !closed)
            sheaf_run_close_input(bed->run);
        closed = heard;
        event = heard ? bed_next(bed) : bed_poll(bed);
        assert_int_not_equal(event.kind, SHEAF_EVENT_FATAL);
        if (event.kind != SHEAF_EVENT_ROOT)
            continue;
        struct sheaf_result_info info = {.size = sizeof info};
        sheaf_result_info(event.result, &info);
        assert_int_equal(info.status, SHEAF_ROOT_OK);
        assert_int_equal(bed_item(event.result, 0, 0).value.i64, (int64_t)info.tag * letter_of((int64_t)info.tag));
        sheaf_result_acknowledge(event.result);
    }
}

static void test_a_broken_device_is_retired(void **state)
{
    struct bed *bed = *state;
    bed_listen(bed, "is retired after 3 failures");
    bed->device = "cuda";
    set_number("SHEAF_FAKE_CUDA_DEVICES", 2);
    setenv("SHEAF_FAKE_CUDA_ERRORS", "1:cuLaunchKernel:1+:214", 1);
    bed_open(bed, PROGRAM(""));
    run_until_heard(bed, "is retired after 3 failures");
    bed_close(bed);
    assert_int_equal(bed_heard(bed, "is retired after 3 failures"), 1);
}

/* Submits roots of one number and waits for them: all of them are right. */
static void run_some(struct bed *bed, int64_t number, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(bed_submit(bed, &number, 1), 0);
    for (; count > 0; count--) {
        struct sheaf_event event = bed_next(bed);
        struct sheaf_result_info info = {.size = sizeof info};
        assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
        sheaf_result_info(event.result, &info);
        assert_int_equal(info.status, SHEAF_ROOT_OK);
        assert_int_equal(bed_item(event.result, 0, 0).value.i64, number * letter_of(number));
        sheaf_result_acknowledge(event.result);
    }
}

/* A row over which a process died waits for the next process of that number, or one that has run nothing. When none
 * comes, as the device is retired, it runs on another. */
static void test_a_suspect_of_a_retired_device(void **state)
{
    enum { WINDOW = 32, OF_A = 26, OF_Z = 25 };
    struct bed *bed = *state;
    bed_listen(bed, "device 0 (fake device 0) is retired");
    bed->device = "cuda";
    bed->window = WINDOW;
    set_number("SHEAF_FAKE_CUDA_DEVICES", 2);
    setenv("SHEAF_FAKE_CUDA_TIMES", "1000:5000000:1000:0:0", 1); /* so long that one device does not take all */
    setenv("SHEAF_FAKE_CUDA_ERRORS", "0:cuDevicePrimaryCtxRetain:2+:214", 1);
    bed_open(bed, "sources: {s: i64}\noutputs: [y]\nsteps:\n- {call: b, op: blob, in: s, out: t}\n"
                  "- {call: d, op: device_crash, in: t, out: y, batch: 1}\n");
    run_some(bed, OF_A, WINDOW);
    while (bed_heard(bed, "device 0 (fake device 0) is retired") == 0)
        run_some(bed, OF_Z, 1);
    sheaf_run_close_input(bed->run);
    assert_int_equal(bed_next(bed).kind, SHEAF_EVENT_END);
    bed_close(bed);
    assert_true(bed_number(bed, NULL, "worker_deaths") >= 1 + 3);
}

static void test_on_to_the_host(void **state)
{
    struct bed *bed = *state;
    bed_listen(bed, "is retired after 3 failures");
    bed_listen(bed, "goes on on the host");
    bed->device = "auto";
    set_number("SHEAF_FAKE_CUDA_DEVICES", 2);
    setenv("SHEAF_FAKE_CUDA_ERRORS", "*:cuLaunchKernel:2+:999", 1);
    run_right(bed, PROGRAM(""));
    assert_int_equal(bed_heard(bed, "is retired after 3 failures"), 2);
    assert_non_null(strstr(bed->ledger, "\"retired\": true"));
    assert_int_equal(bed_heard(bed, "goes on on the host"), 1);
}

/* Where the host is not allowed the run ends, and says why. */
static void test_no_device_is_left(void **state)
{
    struct bed *bed = *state;
    struct sheaf_event event = {0};
    bed->device = "cuda";
    set_number("SHEAF_FAKE_CUDA_DEVICES", 1);
    setenv("SHEAF_FAKE_CUDA_ERRORS", "*:cuLaunchKernel:2+:214", 1);
    bed_open(bed, PROGRAM(""));
    for (int64_t number = 0; number < 60; number++)
        assert_int_equal(bed_submit(bed, &number, 1), 0);
    do {
        event = bed_next(bed);
        if (event.kind == SHEAF_EVENT_ROOT)
            sheaf_result_acknowledge(event.result);
    } while (event.kind != SHEAF_EVENT_FATAL);
    assert_non_null(strstr(event.message, "no device is left"));
    assert_non_null(strstr(event.message, "CUDA_ERROR_ECC_UNCORRECTABLE"));
    bed_close(bed);
}

/* ---- how busy they are: modelled times, no measurement ---- */

enum { BUSY_DEVICES = 8, BUSY_ROOTS = 1920, SPANS_MAX = 4096 };

struct span {
    uint64_t start_ns, end_ns;
};

struct trace {
    struct span kernels[BUSY_DEVICES][SPANS_MAX], copies[BUSY_DEVICES][SPANS_MAX];
    uint32_t kernel_count[BUSY_DEVICES], copy_count[BUSY_DEVICES];
};

static struct trace *read_trace(const char *path)
{
    struct trace *trace = calloc(1, sizeof *trace);
    FILE *file = fopen(path, "re");
    unsigned device;
    char engine[8];
    unsigned long long start_ns, end_ns, bytes;
    assert_true(trace && file);
    while (fscanf(file, "%u %7s %llu %llu %llu", &device, engine, &start_ns, &end_ns, &bytes) == 5) {
        bool kernel = strcmp(engine, "kernel") == 0;
        uint32_t *count = kernel ? &trace->kernel_count[device] : &trace->copy_count[device];
        assert_true(device < BUSY_DEVICES && *count < SPANS_MAX);
        (kernel ? trace->kernels : trace->copies)[device][(*count)++] = (struct span){start_ns, end_ns};
    }
    fclose(file);
    return trace;
}

static uint64_t overlap_ns(const struct span *a, const struct span *b)
{
    uint64_t start_ns = a->start_ns > b->start_ns ? a->start_ns : b->start_ns;
    uint64_t end_ns = a->end_ns < b->end_ns ? a->end_ns : b->end_ns;
    return end_ns > start_ns ? end_ns - start_ns : 0;
}

/* From when every device has begun to when the first has nothing more to do. */
static struct span steady_phase(const struct trace *trace)
{
    enum { RAMP = 3 };
    struct span steady = {0, UINT64_MAX};
    for (uint32_t device = 0; device < BUSY_DEVICES; device++) {
        uint32_t count = trace->kernel_count[device];
        assert_true(count > 2 * RAMP);
        const struct span *first = &trace->kernels[device][RAMP], *last = &trace->kernels[device][count - RAMP];
        steady.start_ns = first->start_ns > steady.start_ns ? first->start_ns : steady.start_ns;
        steady.end_ns = last->end_ns < steady.end_ns ? last->end_ns : steady.end_ns;
    }
    assert_true(steady.end_ns > steady.start_ns);
    return steady;
}

static double busy_share(const struct trace *trace, uint32_t device, const struct span *steady)
{
    uint64_t busy_ns = 0;
    for (uint32_t i = 0; i < trace->kernel_count[device]; i++)
        busy_ns += overlap_ns(&trace->kernels[device][i], steady);
    return (double)busy_ns / (double)(steady->end_ns - steady->start_ns);
}

/* The share of the time of copies in which the device's kernels ran. */
static double hidden_share(const struct trace *trace, uint32_t device, const struct span *steady)
{
    uint64_t all_ns = 0, hidden_ns = 0;
    for (uint32_t i = 0; i < trace->copy_count[device]; i++) {
        const struct span *copy = &trace->copies[device][i];
        if (copy->start_ns < steady->start_ns || copy->end_ns > steady->end_ns)
            continue;
        all_ns += copy->end_ns - copy->start_ns;
        for (uint32_t j = 0; j < trace->kernel_count[device]; j++)
            hidden_ns += overlap_ns(copy, &trace->kernels[device][j]);
    }
    return all_ns > 0 ? (double)hidden_ns / (double)all_ns : 0;
}

static void take_any(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    assert_int_equal(info->status, SHEAF_ROOT_OK);
    assert_int_equal(bed_item(result, 0, 0).value.i64, (int64_t)info->tag * letter_of((int64_t)info->tag));
}

/* Eight devices whose kernels take 60 ms and whose copies take 15 ms each way, in modelled time: every one is busy in
 * the steady phase, and copies are hidden behind kernels. */
static void test_every_device_is_busy(void **state)
{
    struct bed *bed = *state;
    int64_t *numbers = calloc(BUSY_ROOTS, sizeof *numbers);
    char path[] = "/tmp/sheaf-fake-trace-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && numbers);
    close(fd);
    for (int i = 0; i < BUSY_ROOTS; i++)
        numbers[i] = 100 + i;
    setenv("SHEAF_FAKE_CUDA_TIMES", "15000000:60000000:15000000:0:0", 1);
    setenv("SHEAF_FAKE_CUDA_TRACE", path, 1);
    bed->device = "cuda";
    bed->window = BUSY_ROOTS;
    bed_open(bed, PROGRAM(""));
    bed_drive(bed, numbers, BUSY_ROOTS, take_any, NULL);
    bed_close(bed);
    unsetenv("SHEAF_FAKE_CUDA_TRACE");
    struct trace *trace = read_trace(path);
    struct span steady = steady_phase(trace);
    print_message("modelled: steady phase of %.3f s\n", (double)(steady.end_ns - steady.start_ns) / 1e9);
    for (uint32_t device = 0; device < BUSY_DEVICES; device++) {
        double busy = busy_share(trace, device, &steady), hidden = hidden_share(trace, device, &steady);
        print_message("modelled: device %u: %u kernels, busy %.4f, copies behind kernels %.4f\n", device,
                      trace->kernel_count[device], busy, hidden);
        assert_true(busy >= 0.98);
        assert_true(hidden >= 0.9);
    }
    unlink(path);
    free(trace);
    free(numbers);
}

/* What was in flight when the device failed runs last, when nothing else is there, and each batch by itself: the last
 * one is copied in only when the kernel before it is over. */
static void test_without_overlap(void **state)
{
    enum { NUMBERS = 64 };
    struct bed *bed = *state;
    int64_t numbers[NUMBERS];
    char path[] = "/tmp/sheaf-fake-trace-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = 100 + i;
    set_number("SHEAF_FAKE_CUDA_DEVICES", 1);
    setenv("SHEAF_FAKE_CUDA_TIMES", "2000000:20000000:1000000:0:0", 1);
    setenv("SHEAF_FAKE_CUDA_TRACE", path, 1);
    setenv("SHEAF_FAKE_CUDA_ERRORS", "0:cuLaunchKernel:3:700", 1);
    bed->device = "cuda";
    bed_open(bed, PROGRAM(""));
    bed_drive(bed, numbers, NUMBERS, take_any, NULL);
    bed_close(bed);
    unsetenv("SHEAF_FAKE_CUDA_TRACE");
    assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 1);
    struct trace *trace = read_trace(path);
    uint32_t kernels = trace->kernel_count[0];
    uint64_t copied_ns = 0;
    assert_true(kernels >= 3);
    for (uint32_t i = 0; i < trace->copy_count[0]; i++)
        if (trace->copies[0][i].end_ns <= trace->kernels[0][kernels - 1].start_ns &&
            trace->copies[0][i].start_ns > copied_ns)
            copied_ns = trace->copies[0][i].start_ns;
    assert_true(copied_ns >= trace->kernels[0][kernels - 2].end_ns);
    unlink(path);
    free(trace);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup, device_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_host),
        TEST(test_devices),
        TEST(test_chosen_devices),
        TEST(test_place),
        TEST(test_pools),
        TEST(test_either),
        TEST(test_placement),
        TEST(test_no_driver),
        TEST(test_delays),
        TEST(test_one_fault),
        TEST(test_rows_by_themselves),
        TEST(test_many_faults),
        TEST(test_a_kernel_that_hangs),
        TEST(test_rows_that_fault),
        TEST(test_an_operator_that_strays),
        TEST(test_memory_of_the_device),
        TEST(test_shapes),
        TEST(test_sandbox),
        TEST(test_a_broken_device_is_retired),
        TEST(test_a_suspect_of_a_retired_device),
        TEST(test_on_to_the_host),
        TEST(test_no_device_is_left),
        TEST(test_every_device_is_busy),
        TEST(test_without_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
