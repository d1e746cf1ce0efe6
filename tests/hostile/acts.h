/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hostile operators do, by number: a row's input is `act * ACT_STRIDE + n`. A row of ACT_GOOD answers what
 * good_answer(n) says; a probe answers with the errno it got, 0 when the system let it.
 */
#ifndef TESTS_HOSTILE_ACTS_H
#define TESTS_HOSTILE_ACTS_H

#include <stdint.h>

#define ACT_STRIDE 1000000

static inline int64_t good_answer(int64_t n)
{
    return 3 * n + 1;
}

enum act {
    ACT_GOOD = 0,
    /* ends of a process */
    ACT_SEGFAULT,
    ACT_ABORT,
    ACT_EXIT,
    ACT_EXIT_AT_ONCE,
    ACT_STACK,
    ACT_HEAP,
    /* no end */
    ACT_SPIN,
    ACT_SLEEP,
    ACT_STOP, /* SIGSTOP to itself */
    ACT_LEAK,
    ACT_LEAK_SLOWLY,
    ACT_TOUCH_OWN,    /* holes of its own payload segment */
    ACT_TOUCH_OTHERS, /* and, by reading, of others' */
    ACT_FLOOD_OUTPUT,
    ACT_FLOOD_SOCKET,
    /* broken contracts */
    ACT_ANSWER_TWICE,
    ACT_ANSWER_NEVER,
    ACT_ANSWER_AFTER_FAILING,
    ACT_WRONG_KIND,
    ACT_WRONG_COUNT,
    ACT_LONG_MESSAGE,
    ACT_STALE_ROW,
    ACT_FORGED_ROW,
    ACT_WILD_POINTER,
    ACT_WILD_LENGTH,
    ACT_FREED_MEMORY,
    ACT_CLOSE_ALL,
    ACT_SEND_DESCRIPTORS,
    /* over everything it can write */
    ACT_SCRIBBLE,
    ACT_FORGE,         /* and a claim page that tells another story, by a process that stays */
    ACT_HANG_IN_EVICT, /* answers well; never comes back from giving up what it keeps open */
    /* what must work */
    ACT_THREAD,
    ACT_USUAL,
    ACT_PROBE, /* + number of the probe */
};

struct probe {
    const char *name;
    int (*run)(void); /* 0 when it was let, else errno */
    int harmless;     /* and may be run without a sandbox, where the system lets it */
};

extern const struct probe probes[];
extern const int probe_count;

#endif
