/* SPDX-License-Identifier: Apache-2.0 */
/* The event count: its words by themselves, then two threads and two processes that only ever meet through it. */
#include "cmocka_all.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/event_count.h"
#include "shm/segment.h"

#define SECOND_NS UINT64_C(1000000000)
#define ROUNDS 3000u

static void news_between_sample_and_sleep_is_seen(void **state)
{
    struct event_count events = {0};
    uint32_t seen = event_count_sample(&events);
    event_count_bump(&events);
    assert_false(event_count_announce(&events, seen));
    seen = event_count_sample(&events);
    assert_true(event_count_announce(&events, seen));
    assert_true(event_count_announce(&events, seen)); /* a second sleeper */
    assert_int_equal(load_relaxed_u32(&events.word), seen | EVENT_COUNT_FLAG);
    event_count_bump(&events);
    assert_int_equal(load_relaxed_u32(&events.word), seen + 2);
    assert_int_equal(event_count_wait(&events, seen, EVENT_COUNT_FOREVER), 0); /* the word moved: no sleep */
    seen = event_count_sample(&events);
    assert_true(event_count_announce(&events, seen));
    assert_int_equal(event_count_wait(&events, seen, 1000), -ETIMEDOUT);
    event_count_bump_always(&events);
    assert_false(event_count_announce(&events, seen));
}

static void the_sequence_wraps(void **state)
{
    struct event_count events = {0};
    store_relaxed_u32(&events.word, UINT32_MAX); /* the last sequence, flag on */
    uint32_t seen = event_count_sample(&events);
    assert_int_equal(seen, UINT32_MAX - 1);
    event_count_bump(&events);
    assert_int_equal(load_relaxed_u32(&events.word), 0);
    assert_false(event_count_announce(&events, seen));
}

/* Two players hand a ball to and fro; a lost wake-up is a time-out of a second. */
struct court {
    struct event_count events[2];
    shared_u32 ball[2];
    shared_u32 lost;
};

static void play(struct court *court, uint32_t me)
{
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (;;) {
            uint32_t seen = event_count_sample(&court->events[me]);
            if (load_acquire_u32(&court->ball[me]) >= round)
                break;
            if (event_count_announce(&court->events[me], seen) && load_acquire_u32(&court->ball[me]) < round &&
                event_count_wait(&court->events[me], seen, SECOND_NS) == -ETIMEDOUT) {
                store_relaxed_u32(&court->lost, round);
                return;
            }
        }
        store_release_u32(&court->ball[!me], round + me); /* player 1 sends the next round to player 0 */
        event_count_bump(&court->events[!me]);
    }
}

static void *second_player(void *court)
{
    play(court, 1);
    return NULL;
}

static void threads_lose_no_wake_up(void **state)
{
    static struct court court;
    pthread_t thread;
    store_relaxed_u32(&court.ball[0], 1);
    assert_int_equal(pthread_create(&thread, NULL, second_player, &court), 0);
    play(&court, 0);
    pthread_join(thread, NULL);
    assert_int_equal(load_relaxed_u32(&court.lost), 0);
    assert_int_equal(load_relaxed_u32(&court.ball[0]), ROUNDS + 1);
}

static void processes_lose_no_wake_up(void **state)
{
    struct segment segment;
    assert_int_equal(segment_create("court", sizeof(struct court), &segment), 0);
    assert_int_equal(segment_commit(&segment, 0, sizeof(struct court)), 0);
    struct court *court = segment.base;
    store_relaxed_u32(&court->ball[0], 1);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        play(court, 1);
        _exit(0);
    }
    play(court, 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(load_relaxed_u32(&court->lost), 0);
    segment_release(&segment);
}

/* The sleeper is really asleep, the flag was cleared by one who died before waking: only the unconditional bump helps.
 */
static void a_death_bump_wakes_without_the_flag(void **state)
{
    struct segment segment;
    assert_int_equal(segment_create("court", sizeof(struct court), &segment), 0);
    assert_int_equal(segment_commit(&segment, 0, sizeof(struct court)), 0);
    struct court *court = segment.base;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        uint32_t seen = event_count_sample(&court->events[0]);
        event_count_announce(&court->events[0], seen);
        int status = event_count_wait(&court->events[0], seen, 2 * SECOND_NS);
        _exit(status == 0 ? 0 : 1);
    }
    char name[64], call[32] = "";
    snprintf(name, sizeof(name), "/proc/%d/wchan", (int)child);
    for (int look = 0; look < 2000 && !strstr(call, "futex"); look++) { /* until the kernel says that it sleeps */
        FILE *file = fopen(name, "r");
        if (file) {
            if (!fgets(call, sizeof(call), file))
                call[0] = '\0';
            fclose(file);
        }
        if (load_relaxed_u32(&court->events[0].word) & EVENT_COUNT_FLAG && strcmp(call, "0") == 0)
            break; /* a kernel that does not tell where a process waits */
        sched_yield();
    }
    store_release_u32(&court->events[0].word, 2); /* the dead one's half of a bump */
    event_count_bump_always(&court->events[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    segment_release(&segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(news_between_sample_and_sleep_is_seen),
        cmocka_unit_test(the_sequence_wraps),
        cmocka_unit_test(threads_lose_no_wake_up),
        cmocka_unit_test(processes_lose_no_wake_up),
        cmocka_unit_test(a_death_bump_wakes_without_the_flag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
