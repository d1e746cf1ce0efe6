/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/shard.h"

struct root *root_of(const struct shard *shard, uint32_t lineage_root)
{
    return (struct root *)(uintptr_t)lineage_root_tag(shard->lineage, lineage_root);
}

void root_free(struct root *root)
{
    if (!root)
        return;
    for (uint32_t i = 0; root->paths && i < root->source_count; i++)
        free(root->paths[i]);
    free(root->paths);
    free(root->sources);
    free(root->source_ids);
    free(root->message);
    free(root);
}

/* ---- waiting roots ---- */

void admit_submit(struct shard *shard, struct root *root)
{
    root->phase = ROOT_WAITING;
    if (admission_add(&shard->admission, (uintptr_t)root, root->bytes) < 0) {
        root_free(root);
        shard_fail(shard, -ENOMEM, "queueing a root");
    }
}

static void link_admitted(struct shard *shard, struct root *root)
{
    root->previous = NULL;
    root->next = shard->admitted;
    if (root->next)
        root->next->previous = root;
    shard->admitted = root;
    shard->admitted_count++;
    root->ahead = true;
    shard->ahead_bytes += root->bytes;
}

static void unlink_admitted(struct shard *shard, struct root *root)
{
    if (root->previous)
        root->previous->next = root->next;
    else
        shard->admitted = root->next;
    if (root->next)
        root->next->previous = root->previous;
    shard->admitted_count--;
    admit_begun(shard, root);
}

void admit_begun(struct shard *shard, struct root *root)
{
    if (root->ahead)
        shard->ahead_bytes -= root->bytes;
    root->ahead = false;
}

/* ---- roots that are begun again ---- */

/* Once in the company of others, for most are innocent; then alone, where damage is its own doing. */
enum { AGAIN_TOGETHER = 1, AGAIN_MAX = 2 };

static bool may_begin_again(const struct shard *shard, struct root *root)
{
    return shard->run->integrity != SHEAF_INTEGRITY_OFF && !shard->cancelled && root->begun_again++ < AGAIN_MAX;
}

/* One more or one fewer is under way in all shards together. */
static void count_live(struct shard *shard, int32_t change)
{
    /* Partner: the load in step_aside. A shard that waits to be alone sees the last one end, or is woken. */
    atomic_fetch_add_explicit(&shard->run->roots_live, (uint32_t)change, memory_order_seq_cst);
    if (change < 0 && atomic_load_explicit(&shard->run->exclusive, memory_order_seq_cst) != 0)
        shard_wake_all(shard->run);
}

/* One root more is under way, unless somebody has, or waits to have, everything to himself. */
static bool go_live(struct shard *shard)
{
    const struct sheaf_run *run = shard->run;
    if (atomic_load_explicit(&run->exclusive, memory_order_relaxed) != 0)
        return false;
    count_live(shard, 1);
    /* Counted first, partner: step_aside takes everything first and then looks at the count. One of us sees the other.
     */
    if (atomic_load_explicit(&run->exclusive, memory_order_seq_cst) == 0)
        return true;
    count_live(shard, -1);
    return false;
}

/* ---- into lineage ---- */

static void fail_root(struct shard *shard, struct root *root, enum sheaf_class class_id, const char *text)
{
    struct lineage_cause cause = {
        .scope = SHEAF_SCOPE_ROOT, .class_id = class_id, .text = text, .length_bytes = (uint32_t)strlen(text)};
    int result = lineage_fail_root(shard->lineage, root->lineage_root, &cause);
    if (result < 0)
        shard_fail(shard, result, "failing a root");
}

/* All sources are there, or known to be missing. */
static void enter(struct shard *shard, struct root *root)
{
    int result = lineage_admit(shard->lineage, (uintptr_t)root, root->sources, &root->lineage_root);
    if (result < 0) {
        shard_fail(shard, result, "admitting a root");
        return;
    }
    root->phase = ROOT_LIVE;
    shard->reading--;
    if (root->class_id != SHEAF_CLASS_NONE)
        fail_root(shard, root, root->class_id, root->message ? root->message : "");
    else if (shard->cancelled)
        fail_root(shard, root, SHEAF_CLASS_CANCELLED, shard->cancel_text);
    shard_settle(shard);
}

/* With the sources it has; it is counted as live. */
static void enter_again(struct shard *shard, struct root *root)
{
    shard->reading++; /* as a root whose sources have just come */
    enter(shard, root);
}

/* Roots that must be alone, one after the other. */
static void step_aside(struct shard *shard)
{
    struct sheaf_run *run = shard->run;
    uint32_t nobody = 0, own = shard->number + 1;
    if (!shard->aside) {
        if (atomic_load_explicit(&run->exclusive, memory_order_relaxed) == own &&
            atomic_load_explicit(&run->roots_live, memory_order_relaxed) == 0) {
            atomic_store_explicit(&run->exclusive, 0, memory_order_release);
            shard_wake_all(run);
        }
        return;
    }
    if (!atomic_compare_exchange_strong_explicit(&run->exclusive, &nobody, own, memory_order_seq_cst,
                                                 memory_order_seq_cst) &&
        nobody != own)
        return; /* whoever has it wakes us when he is done */
    if (atomic_load_explicit(&run->roots_live, memory_order_seq_cst) > 0)
        return;
    struct root *root = shard->aside;
    shard->aside = root->next_aside;
    count_live(shard, 1);
    enter_again(shard, root);
}

void admit_source(struct shard *shard, struct message_source *message)
{
    struct root *root = message->root;
    assert(root->phase == ROOT_READING && root->reads_left > 0);
    if (message->class_id == SHEAF_CLASS_NONE) {
        root->sources[message->index] = message->ref;
        root->source_ids[message->index] = message->id;
    } else if (root->class_id == SHEAF_CLASS_NONE) {
        root->class_id = message->class_id;
        root->message = strdup(message->text);
    }
    if (--root->reads_left == 0)
        enter(shard, root);
}

/* Starts reading what a root needs. False: the reader takes no more now. */
static bool start_reads(struct shard *shard, struct root *root)
{
    root->phase = ROOT_READING;
    shard->reading++;
    for (uint32_t i = 0; i < shard->plan->source_count; i++)
        root->reads_left += root->paths[i] != NULL;
    if (root->reads_left == 0 || shard->cancelled) {
        root->reads_left = 0;
        enter(shard, root);
        return true;
    }
    for (uint32_t i = 0; i < shard->plan->source_count; i++) {
        if (!root->paths[i])
            continue;
        int result = sources_read(shard->sources, root->paths[i], root, i);
        if (result < 0) {
            shard_fail(shard, result, "asking for a source");
            return false;
        }
    }
    return true;
}

/* Memory came back, which all shards share: whoever waits for it looks again. */
static void retry_everywhere(struct shard *shard)
{
    const struct sheaf_run *run = shard->run;
    for (uint32_t i = 0; i < run->shard_count; i++) {
        sources_retry(run->shards[i]->sources);
        if (run->shards[i] != shard)
            event_count_bump(run->shards[i]->board.shard_events);
    }
}

/* What roots that are there take of the fixed part. */
static uint64_t own_bytes(const struct shard *shard)
{
    const struct memory_count *counts = shard->run->memory.of;
    return lineage_live_bytes(shard->lineage) * shard->run->shard_count + memory_now(&counts[MEMORY_RESULTS]) +
           memory_now(&counts[MEMORY_MESSAGES]);
}

/* Roots in flight; where the order matters each shard has its part of them, else the host's window sees to it. */
static uint64_t roots_max(const struct shard *shard)
{
    const struct sheaf_run *run = shard->run;
    bool more = !atomic_load_explicit(&run->input_closed, memory_order_relaxed) &&
                !atomic_load_explicit(&run->input_full, memory_order_relaxed);
    uint32_t parts = run->order == ADMISSION_LARGEST_FIRST ? run->shard_count : 1;
    return admission_roots_max(&shard->admission, (run->window + parts - 1) / parts,
                               (run->worker_count + parts - 1) / parts, more);
}

/* Sources are read before workers want them, but not all that there are: what waits long in memory is memory that has
 * to be made, where that of a root which is over could be used again. */
static bool is_far_ahead(const struct shard *shard)
{
    enum { AHEAD_BYTES_PER_WORKER = 4 << 20 };
    const struct sheaf_run *run = shard->run;
    return shard->ahead_bytes > (uint64_t)AHEAD_BYTES_PER_WORKER * run->worker_count / run->shard_count;
}

void admit_step(struct shard *shard)
{
    const struct sched_window window = {.roots_max = roots_max(shard), .bytes_max = shard->run->budget.source_bytes};
    bool full = shard->admitted_count > 0 && own_bytes(shard) > shard->run->budget.fixed_bytes / 2;
    full |= atomic_load_explicit(&shard->run->memory_short, memory_order_relaxed);
    uint64_t next;
    step_aside(shard);
    while (shard->admission.count > 0 && !full && !is_far_ahead(shard) &&
           sched_may_admit(&window, shard->admitted_count, payload_shard_bytes(shard->run->payload), 0) &&
           go_live(shard)) {
        if (!admission_take(&shard->admission, &next)) {
            count_live(shard, -1);
            break;
        }
        struct root *root = (struct root *)(uintptr_t)next;
        link_admitted(shard, root);
        if (!start_reads(shard, root))
            return;
    }
    if (shard->retry_reads) {
        shard->retry_reads = false;
        retry_everywhere(shard);
    }
}

void admit_cancel(struct shard *shard, const char *text)
{
    if (shard->cancelled)
        return;
    shard->cancel_text = strdup(text);
    if (!shard->cancel_text) {
        shard_fail(shard, -ENOMEM, "cancelling");
        return;
    }
    shard->cancelled = true;
    for (struct root *root = shard->admitted, *next; root; root = next) {
        next = root->next;
        if (root->phase == ROOT_LIVE && !lineage_root_is_complete(shard->lineage, root->lineage_root))
            fail_root(shard, root, SHEAF_CLASS_CANCELLED, text);
    }
    shard_settle(shard);
}

/* ---- out again ---- */

static void abandon(struct shard *shard, struct root *root)
{
    root->again = true;
    int result = lineage_abandon_root(shard->lineage, root->lineage_root);
    if (result < 0)
        shard_fail(shard, result, "beginning a root again");
}

void admit_again(struct shard *shard, struct root *root)
{
    if (root->phase != ROOT_LIVE || root->again)
        return;
    if (may_begin_again(shard, root))
        abandon(shard, root);
    else
        fail_root(shard, root, SHEAF_CLASS_CONTRACT,
                  "values of it were damaged in shared memory each time it was begun again");
    shard_settle(shard);
}

void admit_complete(struct shard *shard, uint32_t lineage_root)
{
    struct root *root = root_of(shard, lineage_root);
    bool damaged = false;
    assert(root->phase == ROOT_LIVE);
    root->phase = ROOT_COMPLETE;
    count_live(shard, -1);
    sched_root_over(shard->sched, lineage_root);
    hold_evict_root(shard, root);
    struct sheaf_result *result = root->again ? NULL : result_make(shard, root, &damaged);
    if (damaged && may_begin_again(shard, root)) {
        result_free(result);
        abandon(shard, root);
    }
    if (root->again) {
        root->phase = ROOT_LEAVING;
        admit_leave(shard, root);
        return;
    }
    if (!result) {
        shard_fail(shard, -ENOMEM, "making a result");
        return;
    }
    result->message.kind = MESSAGE_RESULT;
    atomic_fetch_add_explicit(&shard->run->results_out, 1, memory_order_relaxed);
    shard_add_message(shard, &result->message);
}

void admit_acknowledge(struct shard *shard, struct root *root)
{
    assert(root->phase == ROOT_COMPLETE);
    root->phase = ROOT_LEAVING;
    admit_leave(shard, root);
}

void admit_leave(struct shard *shard, struct root *root)
{
    if (root->phase != ROOT_LEAVING)
        return;
    int result = lineage_release_root(shard->lineage, root->lineage_root);
    if (result == -EBUSY)
        return; /* a worker still has it open, or still runs a row whose result nobody wants */
    if (result < 0) {
        shard_fail(shard, result, "releasing a root");
        return;
    }
    if (root->again) {
        root->again = false;
        root->phase = ROOT_WAITING;
        if (root->begun_again <= AGAIN_TOGETHER && go_live(shard)) {
            enter_again(shard, root);
        } else {
            root->next_aside = shard->aside;
            shard->aside = root;
        }
        return;
    }
    for (uint32_t i = 0; i < shard->plan->source_count; i++) {
        if (root->source_ids[i])
            sources_forget(shard->sources, root->source_ids[i]);
    }
    atomic_fetch_sub_explicit(&shard->run->results_out, 1, memory_order_relaxed);
    unlink_admitted(shard, root);
    root_free(root);
}
