/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test bed for the whole engine: real worker processes behind the public API, and what a test wants to know of them.
 * Every wait ends with a failed test after a while, never with a test that hangs.
 */
#ifndef TESTS_ENGINE_BED_H
#define TESTS_ENGINE_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include <pthread.h>

#include <sheaf/sheaf.h>

enum { BED_WORDS_MAX = 8, BED_WAIT_MS = 30000 };

struct bed {
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    struct sheaf_engine *engine;
    struct sheaf_run *run;
    uint32_t workers, window, worker_rows; /* of the next bed_open; 0: as the engine likes */
    uint64_t memory_bytes;
    uint32_t start_timeout_ms;
    const char *worker_path;
    struct sheaf_run_options run_options;
    const char *device;
    int descriptors_before;
    char *ledger; /* of the run closed last */
    /* What workers logged, by the threads of the engine. */
    pthread_mutex_t lock;
    int log_fd; /* eventfd: a line came */
    struct {
        const char *word; /* beginning of the lines that are counted */
        uint64_t count;
        char last[128]; /* what stood behind it */
    } words[BED_WORDS_MAX];
};

/* cmocka setup and teardown: *state is the bed. The teardown finds descriptors and processes that were left. */
int bed_setup(void **state);
int bed_teardown(void **state);

/* Counts lines of the log that hold `word`. Before bed_open. */
void bed_listen(struct bed *bed, const char *word);
uint64_t bed_heard(struct bed *bed, const char *word);
/* Waits until there are so many; copies what stood behind the last. */
void bed_await(struct bed *bed, const char *word, uint64_t count, char *ret_rest, size_t bytes);

/* Compiles the YAML and opens a run. bed_open must succeed; bed_try_open gives the status. */
void bed_open(struct bed *bed, const char *program);
int bed_try_open(struct bed *bed, const char *program, struct sheaf_error *error);
/* Closes run, engine and plan; keeps the ledger. */
void bed_close(struct bed *bed);

/* A root of i64 sources. */
int bed_submit(struct bed *bed, const int64_t *numbers, uint32_t count);
/* The next event, which must come. */
struct sheaf_event bed_next(struct bed *bed);
/* The same, but NONE when there is none right now. */
struct sheaf_event bed_poll(struct bed *bed);

/* Waits until there may be an event or a line of the log. */
void bed_wait(struct bed *bed);

/* Submits `count` roots of one i64 source each, closes the input and takes everything until END. */
typedef void bed_take(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info);
void bed_drive(struct bed *bed, const int64_t *numbers, uint64_t count, bed_take *take, void *cookie);

/* Item `index` of output `output`. */
struct sheaf_item bed_item(const struct sheaf_result *result, size_t output, size_t index);

/* A number of the ledger: of the whole when `call` is NULL, else of that Call. -1: it is not there. */
int64_t bed_number(const struct bed *bed, const char *call, const char *key);

/* Worker processes of this process, into `ret_pids`; how many. */
uint32_t bed_workers(pid_t *ret_pids, uint32_t capacity);

#endif
