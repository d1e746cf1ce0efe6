/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker dies right after each of its writes to shared memory, at several passages of each; recovery must lose
 * nothing, double nothing, and charge only a row that was RUNNING. Built with crash points.
 */
#include "cmocka_all.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/crash_point.h"
#include "world.h"

#define TIME_OUT_NS (UINT64_C(10) * 1000000000u)

/* The points a working worker passes, and whether a row of it is RUNNING there with no record out. */
static const struct {
    const char *name;
    bool may_charge;
} points[] = {
    {"ready.claimed", false},    {"claim.taken", false},    {"ready.unlinked", false},
    {"ready.head_moved", false}, {"claim.started", true},   {"spsc.filled", true},
    {"spsc.committed", false},   {"claim.released", false}, {"event.moved", false},
};

static uint32_t charges(const struct world *world)
{
    uint32_t sum = 0;
    for (uint32_t id = 0; id < world->options.grains; id++)
        sum += world->grains[id].charged;
    return sum;
}

static void die_once(const char *name, bool may_charge, uint32_t passage, uint32_t batch_rows)
{
    struct world_options options = {
        .grains = 40, .workers = 2, .ring_capacity = 8, .batch_rows = batch_rows, .seed = passage * 31 + batch_rows};
    struct world *world = world_open(&options);
    for (uint32_t id = 0; id < 8; id++)
        world_push(world, id); /* so that the one who is to die finds work before the other is there */
    world_start(world, 0, name, passage);
    /* Until it is dead nobody else works: every passage is really reached. Its records are read meanwhile. */
    world->options.workers = 1;
    bool over = world_run(world, TIME_OUT_NS);
    world->options.workers = 2;
    world_start(world, 1, NULL, 0);
    over = over && world_run(world, TIME_OUT_NS);
    uint32_t deaths = world->deaths, charged = charges(world);
    const char *verdict = world_verdict(world);
    world_close(world);
    if (verdict || !over || deaths != 1)
        fail_msg("%s:%u, batches of %u: %s, deaths %u", name, passage, batch_rows, verdict ? verdict : "fine", deaths);
    /* Rows whose batch is answered together stay RUNNING until the commit: at most the batch is charged. */
    if (charged > (may_charge ? batch_rows : 0))
        fail_msg("%s:%u, batches of %u: %u rows charged", name, passage, batch_rows, charged);
}

static void a_death_after_every_write_loses_nothing(void **state)
{
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        for (uint32_t passage = 1; passage <= 5; passage++) {
            die_once(points[i].name, points[i].may_charge, passage, 1);
            die_once(points[i].name, points[i].may_charge, passage, 6);
        }
    }
}

struct late_cancel {
    struct ready_producer producer; /* the shard's view, as it was when the process was made */
    uint32_t grain;
    uint64_t number, position;
};

/* While the worker looks at the second row, the first is between C3 and C4: the shard cancels it there. */
static bool cancel_meanwhile(void *context, const struct dispatch_peek *peek)
{
    struct late_cancel *late = context;
    if (peek->grain != late->grain)
        ready_ring_cancel(&late->producer, late->grain, late->number, late->position);
    return true;
}

static void claim_two_and_die(struct world *world, const char *name)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    crash_point_arm(name, 1);
    struct late_cancel late = {world->producer, 0, world->grains[0].number, world->grains[0].position};
    struct ready_claim claims[2];
    struct ready_wish wish = {.rows_max = 2, .wanted = cancel_meanwhile, .context = &late};
    struct ready_ring ring = board_ring(&world->board, 0, BOARD_READY);
    ready_ring_claim(&ring, &world->board.dispatches, &world->lanes[0].claims, 0, &wish, claims);
    _exit(0);
}

/* Grain 0 is cancelled by X2 in the hands of a worker that dies before, or right after, it unlinked it. */
static void a_death_around_a_marked_cancel(void **state)
{
    const char *const names[] = {"ready.cancel_marked", "ready.unlinked_cancelled", "ready.unlinked"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct world_options options = {.grains = 2, .workers = 1, .ring_capacity = 4, .batch_rows = 2, .seed = 1};
        struct world *world = world_open(&options);
        assert_true(world_push(world, 0) && world_push(world, 1));
        pid_t child = fork();
        if (child == 0)
            claim_two_and_die(world, names[i]);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        /* The shard's own books of the cancel it did through that view. */
        world->grains[0].state = WORLD_SEALED;
        world->grains[0].cancelled = world->grains[0].never_run = true;
        world->sealed++;
        world_recover(world, 0);
        assert_int_equal(world->grains[0].live, 0);
        const struct world_grain *other = &world->grains[1];
        assert_true(other->live == 0 ||
                    ready_ring_find(&world->producer, 1, other->number, other->position) == READY_WAITING);
        assert_int_equal(charges(world), 0);
        world_start(world, 0, NULL, 0);
        assert_true(world_run(world, TIME_OUT_NS));
        assert_null(world_verdict(world));
        world_close(world);
    }
}

/* The recovery itself may be cut short and done again: what it did once counts once. */
static void recovery_is_idempotent(void **state)
{
    struct world_options options = {.grains = 8, .workers = 1, .ring_capacity = 8, .batch_rows = 8, .seed = 5};
    struct world *world = world_open(&options);
    for (uint32_t id = 0; id < 8; id++)
        world_push(world, id);
    world_start(world, 0, "claim.started", 1);
    waitpid(world->processes[0], NULL, 0);
    world->processes[0] = 0;
    world_recover(world, 0);
    world_recover(world, 0);
    assert_int_equal(charges(world), 1);
    world_start(world, 0, NULL, 0);
    assert_true(world_run(world, TIME_OUT_NS));
    assert_null(world_verdict(world));
    world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_after_every_write_loses_nothing),
        cmocka_unit_test(a_death_around_a_marked_cancel),
        cmocka_unit_test(recovery_is_idempotent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
