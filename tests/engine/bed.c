/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/bed.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- what is left ---- */

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static bool is_worker(const char *pid)
{
    char path[64], line[512] = "", name[32], state;
    int own, parent;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool read = fgets(line, sizeof line, file) && sscanf(line, "%d (%31[^)]) %c %d", &own, name, &state, &parent) == 4;
    fclose(file);
    return read && parent == (int)getpid() && strncmp(name, "sheaf-worker", 12) == 0;
}

uint32_t bed_workers(pid_t *ret_pids, uint32_t capacity)
{
    DIR *folder = opendir("/proc");
    uint32_t count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !is_worker(entry->d_name))
            continue;
        if (count < capacity)
            ret_pids[count] = (pid_t)atoi(entry->d_name);
        count++;
    }
    closedir(folder);
    return count < capacity || capacity == 0 ? count : capacity;
}

/* ---- set up ---- */

int bed_setup(void **state)
{
    struct bed *bed = calloc(1, sizeof *bed);
    struct sheaf_error error = SHEAF_ERROR_INIT;
    const char *plugins[] = {getenv("SHEAF_CONFORMANCE_OPS"), getenv("SHEAF_ENGINE_OPS"), getenv("SHEAF_DEVICE_OPS")};
    assert_non_null(bed);
    bed->workers = 2;
    bed->memory_bytes = UINT64_C(2) << 30;
    bed->log_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&bed->lock, NULL);
    assert_int_equal(sheaf_registry_create(&bed->registry), 0);
    for (size_t i = 0; i < 3; i++) {
        if (i == 2 && !plugins[i])
            continue; /* only where devices are tested */
        assert_non_null(plugins[i]);
        if (sheaf_registry_load(bed->registry, plugins[i], &error) < 0)
            fail_msg("%s", error.message);
    }
    bed->descriptors_before = count_descriptors();
    *state = bed;
    return 0;
}

int bed_teardown(void **state)
{
    struct bed *bed = *state;
    if (bed->run)
        bed_close(bed);
    assert_int_equal(bed_workers(NULL, 0), 0);
    assert_int_equal(count_descriptors(), bed->descriptors_before);
    sheaf_registry_destroy(bed->registry);
    close(bed->log_fd);
    pthread_mutex_destroy(&bed->lock);
    free(bed->ledger);
    free(bed);
    return 0;
}

/* ---- the log ---- */

static void on_log(void *cookie, int level, const char *line)
{
    struct bed *bed = cookie;
    uint64_t one = 1;
    pthread_mutex_lock(&bed->lock);
    for (int i = 0; i < BED_WORDS_MAX && bed->words[i].word; i++) {
        const char *found = strstr(line, bed->words[i].word);
        if (!found)
            continue;
        bed->words[i].count++;
        snprintf(bed->words[i].last, sizeof bed->words[i].last, "%s", found + strlen(bed->words[i].word));
    }
    pthread_mutex_unlock(&bed->lock);
    (void)!write(bed->log_fd, &one, sizeof one);
}

static int find_word(const struct bed *bed, const char *word)
{
    int i = 0;
    while (i < BED_WORDS_MAX && bed->words[i].word && strcmp(bed->words[i].word, word) != 0)
        i++;
    assert_true(i < BED_WORDS_MAX);
    return i;
}

void bed_listen(struct bed *bed, const char *word)
{
    bed->words[find_word(bed, word)].word = word;
}

uint64_t bed_heard(struct bed *bed, const char *word)
{
    pthread_mutex_lock(&bed->lock);
    uint64_t count = bed->words[find_word(bed, word)].count;
    pthread_mutex_unlock(&bed->lock);
    return count;
}

void bed_await(struct bed *bed, const char *word, uint64_t count, char *ret_rest, size_t bytes)
{
    struct pollfd wait = {.fd = bed->log_fd, .events = POLLIN};
    uint64_t ignored;
    while (bed_heard(bed, word) < count) {
        if (poll(&wait, 1, BED_WAIT_MS) == 0)
            fail_msg("nobody logged \"%s\" %llu times", word, (unsigned long long)count);
        (void)!read(bed->log_fd, &ignored, sizeof ignored);
    }
    pthread_mutex_lock(&bed->lock);
    if (ret_rest)
        snprintf(ret_rest, bytes, "%s", bed->words[find_word(bed, word)].last);
    pthread_mutex_unlock(&bed->lock);
}

/* ---- runs ---- */

static void compile(struct bed *bed, const char *text)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_program *program;
    assert_int_equal(sheaf_program_create(bed->registry, &program), 0);
    int status = sheaf_program_parse(program, "test", text, strlen(text), NULL, 0, &error);
    if (status == 0)
        status = sheaf_program_compile(program, &bed->plan, &error);
    sheaf_program_destroy(program);
    if (status < 0)
        fail_msg("%s", error.message);
}

int bed_try_open(struct bed *bed, const char *program, struct sheaf_error *error)
{
    struct sheaf_engine_options options = {.size = sizeof options,
                                           .workers = bed->workers,
                                           .memory_bytes = bed->memory_bytes,
                                           .worker_path = bed->worker_path,
                                           .root_window = bed->window,
                                           .device = bed->device,
                                           .worker_rows = bed->worker_rows,
                                           .start_timeout_ms = bed->start_timeout_ms,
                                           .cookie = bed,
                                           .log = on_log};
    compile(bed, program);
    int status = sheaf_engine_create(&options, &bed->engine, error);
    if (status == 0) {
        bed->run_options.size = sizeof bed->run_options;
        status = sheaf_run_open(bed->engine, bed->plan, &bed->run_options, &bed->run, error);
        if (status < 0)
            sheaf_engine_destroy(bed->engine);
    }
    if (status < 0) {
        sheaf_plan_destroy(bed->plan);
        bed->plan = NULL;
    }
    return status;
}

void bed_open(struct bed *bed, const char *program)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    if (bed_try_open(bed, program, &error) < 0)
        fail_msg("%s", error.message);
}

void bed_close(struct bed *bed)
{
    free(bed->ledger);
    bed->ledger = NULL;
    assert_int_equal(sheaf_run_ledger(bed->run, &bed->ledger), 0);
    sheaf_run_close(bed->run);
    sheaf_engine_destroy(bed->engine);
    sheaf_plan_destroy(bed->plan);
    bed->run = NULL;
    bed->engine = NULL;
    bed->plan = NULL;
    assert_int_equal(bed_workers(NULL, 0), 0);
}

int bed_submit(struct bed *bed, const int64_t *numbers, uint32_t count)
{
    struct sheaf_value values[16] = {0};
    assert_true(count <= 16);
    for (uint32_t i = 0; i < count; i++)
        values[i] = (struct sheaf_value){.kind = SHEAF_I64, .i64 = numbers[i]};
    struct sheaf_submission submission = {
        .size = sizeof submission, .value_count = count, .values = values, .tag = (uint64_t)numbers[0]};
    return sheaf_run_submit(bed->run, &submission, NULL, NULL);
}

struct sheaf_event bed_poll(struct bed *bed)
{
    struct sheaf_event event = {.size = sizeof event};
    assert_int_equal(sheaf_run_poll(bed->run, &event), 0);
    return event;
}

struct sheaf_event bed_next(struct bed *bed)
{
    struct pollfd wait = {.fd = sheaf_run_descriptor(bed->run), .events = POLLIN};
    struct sheaf_event event;
    while ((event = bed_poll(bed)).kind == SHEAF_EVENT_NONE)
        if (poll(&wait, 1, BED_WAIT_MS) == 0)
            fail_msg("stuck: nothing was heard of the run for %d ms", BED_WAIT_MS);
    return event;
}

void bed_wait(struct bed *bed)
{
    struct pollfd waits[] = {{.fd = sheaf_run_descriptor(bed->run), .events = POLLIN},
                             {.fd = bed->log_fd, .events = POLLIN}};
    uint64_t ignored;
    if (poll(waits, 2, BED_WAIT_MS) == 0)
        fail_msg("stuck: nothing was heard of the run for %d ms", BED_WAIT_MS);
    (void)!read(bed->log_fd, &ignored, sizeof ignored);
}

static void take_root(struct sheaf_result *result, bed_take *take, void *cookie)
{
    struct sheaf_result_info info = {.size = sizeof info};
    sheaf_result_info(result, &info);
    if (take)
        take(cookie, result, &info);
    sheaf_result_acknowledge(result);
}

void bed_drive(struct bed *bed, const int64_t *numbers, uint64_t count, bed_take *take, void *cookie)
{
    uint64_t next = 0;
    bool space = true, closed = false;
    for (;;) {
        while (space && next < count) {
            int status = bed_submit(bed, &numbers[next], 1);
            space = status == 0;
            next += status == 0;
            if (status < 0)
                assert_int_equal(status, -EAGAIN);
        }
        if (next == count && !closed)
            sheaf_run_close_input(bed->run);
        closed = next == count;
        struct sheaf_event event = bed_next(bed);
        if (event.kind == SHEAF_EVENT_ROOT)
            take_root(event.result, take, cookie);
        else if (event.kind == SHEAF_EVENT_SPACE)
            space = true;
        else if (event.kind == SHEAF_EVENT_END)
            return;
        else
            fail_msg("event %d: %s", (int)event.kind, event.message);
    }
}

struct sheaf_item bed_item(const struct sheaf_result *result, size_t output, size_t index)
{
    struct sheaf_item item = {.size = sizeof item};
    assert_int_equal(sheaf_result_item(result, output, index, &item), 0);
    return item;
}

int64_t bed_number(const struct bed *bed, const char *call, const char *key)
{
    json_t *ledger = json_loads(bed->ledger, 0, NULL), *entry;
    const json_t *number = call ? NULL : json_object_get(ledger, key);
    size_t i;
    json_array_foreach(json_object_get(ledger, "calls"), i, entry)
    {
        if (call && strcmp(json_string_value(json_object_get(entry, "call")), call) == 0)
            number = json_object_get(entry, key);
    }
    int64_t result = json_is_integer(number) ? json_integer_value(number) : -1;
    json_decref(ledger);
    return result;
}
