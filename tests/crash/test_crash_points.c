/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets a worker die after every write it makes to shared memory: for each named point, at its first, second and third
 * passage. The run must end, with the results of an undisturbed one and a ledger that balances, and nothing may be left
 * over: no claim, no held input, no live value in any chunk, no process.
 *
 *     test_crash_points [point]
 *
 * One worker first: it is the one that dies, so a point it never reaches is seen. Then two, where the other goes on
 * working while the first is being cleared away: at the first passage, with CRASH_FULL=1 at all three.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

enum { PASSAGES = 3, ROOTS = 15 };

struct point {
    const char *name;
    const char *pause; /* widens the window in which the point is reached */
    bool once;         /* a process passes it a single time */
};

/* check_points.py compares this table with the sources. */
static const struct point points[] = {
    /* points of a worker */
    {"lane.ready", NULL, true},
    {"ready.claimed", NULL, false},
    {"claim.taken", NULL, false},
    {"ready.unlinked", NULL, false},
    {"ready.unlinked_cancelled", "ready.claimed:5000", false},
    {"ready.head_moved", NULL, false},
    {"claim.started", NULL, false},
    {"claim.child", NULL, false},
    {"claim.blocked", NULL, false},
    {"claim.released", NULL, false},
    {"payload.set_up", NULL, false},
    {"payload.written", NULL, false},
    {"payload.copied", NULL, false},
    {"payload.block_written", NULL, false},
    {"payload.unmarked", NULL, false},
    {"payload.freed", NULL, false},
    {"payload.wanted", NULL, false},
    {"payload.satisfied", NULL, false},
    {"record.written", NULL, false},
    {"spsc.filled", NULL, false},
    {"spsc.committed", NULL, false},
    {"board.news", NULL, false},
    {"spsc.released", NULL, false},
    {"event.announced", NULL, false},
    {"event.moved", NULL, false},
    /* end */
};

struct test {
    struct job_options options;
    struct job_outcome calm;
    unsigned runs, deaths, failures;
};

static void complain(struct test *test, const char *where, const char *what)
{
    test->failures++;
    printf("%s, %u workers: %s\n", where, test->options.workers, what);
}

static const char *first_difference(const char *left, const char *right, char *room, size_t bytes)
{
    size_t at = 0, line = 0;
    while (left[at] && left[at] == right[at]) {
        at++;
        line = left[at - 1] == '\n' ? at : line;
    }
    snprintf(room, bytes, "results differ:\n  calm %.300s\n  now  %.300s", left + line, right + line);
    return room;
}

/* Numbers of the ledger that must not depend on who died: what was made, not how often it was tried. */
static unsigned long long number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static const char *ledger_problem(const struct test *test, const struct job_outcome *outcome)
{
    static const char *const same[] = {"\"inputs\": ", "\"ok\": ", "\"partial\": ", "\"filtered\": ", "\"failed\": "};
    unsigned long long sum = 0;
    if (!outcome->ledger)
        return "there is no ledger";
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        unsigned long long now = number_after(outcome->ledger, same[i]);
        sum += i > 0 ? now : 0;
        if (now != number_after(test->calm.ledger, same[i]))
            return "the ledger counts other roots";
    }
    return sum == number_after(outcome->ledger, same[0]) ? NULL : "the ledger does not balance";
}

static void check(struct test *test, const char *where, const struct job_outcome *outcome)
{
    char room[1024];
    const char *trouble = outcome->problem[0] ? outcome->problem : ledger_problem(test, outcome);
    if (!trouble && strcmp(test->calm.text, outcome->text) != 0)
        trouble = first_difference(test->calm.text, outcome->text, room, sizeof room);
    if (trouble)
        complain(test, where, trouble);
}

static void try_point(struct test *test, const struct point *point, unsigned passage)
{
    char wish[128];
    struct job_outcome outcome;
    snprintf(wish, sizeof wish, "%s:%u@0.1", point->name, passage);
    setenv("SHEAF_CRASH_AT", wish, 1);
    if (point->pause)
        setenv("SHEAF_CRASH_PAUSE", point->pause, 1);
    job_run(&test->options, &outcome);
    unsetenv("SHEAF_CRASH_AT");
    unsetenv("SHEAF_CRASH_PAUSE");
    test->runs++;
    test->deaths += outcome.killed;
    check(test, wish, &outcome);
    if (test->options.workers == 1 && !outcome.killed)
        complain(test, wish, "never reached");
    job_free(&outcome);
}

static void try_all(struct test *test, const char *only)
{
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        if (only && strcmp(only, points[i].name) != 0)
            continue;
        bool few = points[i].once || (test->options.workers > 1 && !getenv("CRASH_FULL"));
        for (unsigned passage = 1; passage <= (few ? 1 : PASSAGES); passage++)
            try_point(test, &points[i], passage);
    }
}

int main(int argument_count, char **arguments)
{
    struct test test = {.options = {.plugin = getenv("CRASH_PLUGIN"),
                                    .worker = getenv("CRASH_WORKER"),
                                    .program = job_program,
                                    .roots = ROOTS,
                                    .memory_bytes = UINT64_C(512) << 20}};
    if (!test.options.plugin || !test.options.worker) {
        fprintf(stderr, "set CRASH_PLUGIN and CRASH_WORKER\n");
        return 2;
    }
    for (test.options.workers = 1; test.options.workers <= 2; test.options.workers++) {
        job_free(&test.calm);
        job_run(&test.options, &test.calm);
        if (test.calm.problem[0] || test.calm.deaths > 0) {
            printf("undisturbed: %s, %llu deaths\n", test.calm.problem, (unsigned long long)test.calm.deaths);
            return 1;
        }
        try_all(&test, argument_count > 1 ? arguments[1] : NULL);
    }
    if (getenv("CRASH_SHOW"))
        fputs(test.calm.text, stdout);
    job_free(&test.calm);
    printf("%zu points, %u runs, %u deaths, %u failures\n", sizeof points / sizeof *points, test.runs, test.deaths,
           test.failures);
    return test.failures > 0;
}
