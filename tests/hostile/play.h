/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays roots through the real engine by its public API: one operator of the hostile plug-in (or hostile.carry and
 * hostile.check behind it), one source, one output.
 * Every play checks that afterwards nothing is left: no child process, no descriptor, nothing in /dev/shm.
 */
#ifndef TESTS_HOSTILE_PLAY_H
#define TESTS_HOSTILE_PLAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sheaf/engine.h>

#include "tests/hostile/acts.h"

struct play {
    const char *operator_name; /* NULL: hostile.row */
    uint32_t workers;          /* 0: 2 */
    uint32_t row_timeout_ms;   /* 0: 20,000 */
    uint32_t retries;
    uint32_t batch_rows;
    uint64_t memory_bytes; /* 0: 1 GiB */
    uint32_t window;       /* roots at once; 0: as the engine likes */
    enum sheaf_integrity integrity;
};

struct root_end {
    enum sheaf_root_status status;
    enum sheaf_class class_id;
    int64_t value;        /* of the first item that is PRESENT */
    uint64_t child_count; /* items that are PRESENT */
    char message[256];
};

struct play_end {
    int opened;        /* status of sheaf_run_open */
    char message[600]; /* of a failed open, or of a FATAL event */
    bool fatal;
    uint64_t deaths;
    uint64_t elapsed_ms;
    uint64_t shared_bytes; /* memory_peak_bytes */
};

/* Plays `count` roots, one of each input. Fails the test when the run does not end within 60 s. */
struct play_end play(const struct play *play, const int64_t *inputs, uint32_t count, struct root_end *ret_ends);

/* An input, and what a good row answers. */
int64_t act_input(int act, int64_t n);
/* `count` inputs: good ones, and `bad` at every `step`th place from `first` on. */
void mix(int64_t *ret_inputs, uint32_t count, int bad, uint32_t first, uint32_t step);
/* All good rows right; all others failed with `class_id` (SHEAF_CLASS_NONE: any). Returns how many those were. */
uint32_t check_ends(const int64_t *inputs, const struct root_end *ends, uint32_t count, enum sheaf_class class_id);

#endif
