/* SPDX-License-Identifier: Apache-2.0 */
/* What a run did, as numbers and as JSON. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/shard.h"
#include "engine/spill.h"
#include "engine/supervisor.h"

/* Counters that several shards keep are summed. They are read while shards run: each is exact for some recent moment,
 * and all are exact once END was polled, because every root is complete then. */

static uint64_t sum_entities(const struct sheaf_run *run, uint32_t domain)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < run->shard_count; i++)
        sum += counts_entities(run->shards[i], domain);
    return sum;
}

static struct lineage_call_counts sum_call(const struct sheaf_run *run, uint32_t call)
{
    struct lineage_call_counts sum = {0};
    for (uint32_t i = 0; i < run->shard_count; i++) {
        struct lineage_call_counts counts;
        counts_call(run->shards[i], call, &counts, NULL);
        sum.grains += counts.grains;
        sum.started += counts.started;
        sum.sealed += counts.sealed;
        sum.failed += counts.failed;
        sum.kept_out += counts.kept_out;
        sum.skipped += counts.skipped;
        sum.discarded += counts.discarded;
    }
    return sum;
}

/* Of the child Domain with most Entities: how far its Calls are. */
static void count_children(const struct sheaf_run *run, uint64_t *ret_entities, uint64_t *ret_done)
{
    uint32_t busiest = PLAN_NONE;
    uint64_t most = 0;
    *ret_entities = *ret_done = 0;
    for (uint32_t domain = 1; domain < run->plan->domain_count; domain++) {
        uint64_t entities = sum_entities(run, domain);
        *ret_entities += entities;
        if (entities > most) {
            most = entities;
            busiest = domain;
        }
    }
    for (uint32_t call = 0; busiest != PLAN_NONE && call < run->plan->call_count; call++) {
        if (run->plan->calls[call].domain != busiest || !run->plan->calls[call].live)
            continue;
        *ret_done = sum_call(run, call).sealed;
        return;
    }
}

int sheaf_run_progress(const struct sheaf_run *run, struct sheaf_progress *ret_progress)
{
    struct sheaf_progress progress = {
        .size = sizeof progress,
        .workers = run->worker_count,
        .submitted = run->submitted,
        .ok = run->finished[SHEAF_ROOT_OK],
        .partial = run->finished[SHEAF_ROOT_PARTIAL],
        .filtered = run->finished[SHEAF_ROOT_FILTERED],
        .failed = run->finished[SHEAF_ROOT_FAILED],
        .worker_deaths = atomic_load_explicit(&run->deaths, memory_order_relaxed),
        .memory_bytes = payload_real_bytes(run->payload),
        .memory_peak_bytes = memory_peak(&run->memory.all),
    };
    count_children(run, &progress.entities, &progress.entities_done);
    *ret_progress = progress;
    return 0;
}

/* What workers' pages say of rows of one Call that run. */
static void look_at_rows(const struct sheaf_run *run, uint32_t call, struct sheaf_call_progress *progress)
{
    uint64_t now_ns = clock_now_ns();
    for (uint32_t worker = 0; worker < run->worker_count; worker++) {
        const struct claim_page *page = &run->workers[worker].lane.claims;
        for (uint32_t i = 0; i < page->row_count; i++) {
            struct claim_row row = claim_page_read(page, i);
            struct dispatch_glance glance;
            if (row.state != CLAIM_RUNNING || !run_glance(run, &row, &glance) || glance.call != call)
                continue;
            uint64_t ran_us = row.since_ns < now_ns ? (now_ns - row.since_ns) / 1000 : 0;
            progress->running++;
            progress->oldest_us = ran_us > progress->oldest_us ? ran_us : progress->oldest_us;
        }
    }
}

int sheaf_run_call_progress(const struct sheaf_run *run, uint32_t call, struct sheaf_call_progress *ret_progress)
{
    if (call >= run->plan->call_count)
        return -ENOENT;
    struct lineage_call_counts sum = sum_call(run, call);
    struct sheaf_call_progress progress = {
        .size = sizeof progress, .name = run->plan->calls[call].name, .done = sum.sealed, .failed = sum.failed};
    look_at_rows(run, call, &progress);
    uint64_t over = progress.done + progress.running; /* of different moments */
    progress.waiting = sum.grains > over ? sum.grains - over : 0;
    *ret_progress = progress;
    return 0;
}

/* ---- JSON ---- */

static void put(json_t *object, const char *name, uint64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
}

static json_t *describe_domains(const struct sheaf_run *run)
{
    json_t *domains = json_array();
    for (uint32_t domain = 0; domain < run->plan->domain_count; domain++) {
        json_t *object = json_object();
        json_object_set_new(object, "domain", json_string(run->plan->domains[domain].name));
        put(object, "depth", run->plan->domains[domain].depth);
        put(object, "entities", sum_entities(run, domain));
        json_array_append_new(domains, object);
    }
    return domains;
}

static json_t *describe_outputs(const struct sheaf_run *run)
{
    json_t *outputs = json_array();
    for (uint32_t output = 0; output < run->plan->output_count; output++) {
        struct lineage_output_counts sum = {0};
        for (uint32_t i = 0; i < run->shard_count; i++) {
            struct lineage_output_counts counts;
            counts_output(run->shards[i], output, &counts);
            sum.entities += counts.entities;
            sum.present += counts.present;
            sum.dropped += counts.dropped;
            sum.failed += counts.failed;
            sum.suppressed += counts.suppressed;
        }
        json_t *object = json_object();
        const struct plan_port *port = &run->plan->ports[run->plan->outputs[output].port];
        json_object_set_new(object, "output", json_string(run->plan->outputs[output].name));
        json_object_set_new(object, "domain", json_string(run->plan->domains[port->domain].name));
        put(object, "entities", sum.entities);
        put(object, "present", sum.present);
        put(object, "dropped", sum.dropped);
        put(object, "failed", sum.failed);
        put(object, "suppressed", sum.suppressed);
        json_array_append_new(outputs, object);
    }
    return outputs;
}

/* Why batches had no more rows, and what one costs. */
static json_t *describe_batching(const struct call_counts *work)
{
    json_t *batching = json_object(), *closes = json_object();
    for (enum policy_close close = POLICY_FULL; close < POLICY_CLOSE_COUNT; close++) {
        char key[32];
        snprintf(key, sizeof key, "%s", policy_close_name(close));
        for (char *at = key; (at = strchr(at, ' '));)
            *at = '_';
        put(closes, key, work->closes[close]);
    }
    json_object_set_new(batching, "closed", closes);
    json_object_set_new(batching, "waited_s", json_real((double)work->waited_us / 1e6));
    json_object_set_new(batching, "fixed_us", json_real(work->fixed_us));
    json_object_set_new(batching, "row_us", json_real(work->row_us));
    return batching;
}

static json_t *describe_call(const struct sheaf_run *run, uint32_t index)
{
    const struct plan_call *call = &run->plan->calls[index];
    struct lineage_call_counts counts = sum_call(run, index);
    struct call_counts work = {0};
    for (uint32_t i = 0; i < run->shard_count; i++) {
        struct call_counts own;
        counts_call(run->shards[i], index, NULL, &own);
        work.rows += own.rows;
        work.batches += own.batches;
        work.raised += own.raised;
        work.retried += own.retried;
        work.isolated += own.isolated;
        work.run_ns += own.run_ns;
        for (uint32_t close = 0; close < POLICY_CLOSE_COUNT; close++)
            work.closes[close] += own.closes[close];
        work.waited_us += own.waited_us;
        if (own.batches >= work.batches - own.batches) { /* of the shard that knows most */
            work.fixed_us = own.fixed_us;
            work.row_us = own.row_us;
        }
    }
    json_t *object = json_object();
    json_object_set_new(object, "call", json_string(call->name));
    json_object_set_new(object, "operator", json_string(call->op->name));
    json_object_set_new(object, "version", json_string(call->op->version ? call->op->version : ""));
    put(object, "grains", counts.grains);
    put(object, "started", counts.started);
    put(object, "failed", counts.failed);
    put(object, "kept_out", counts.kept_out);
    put(object, "skipped", counts.skipped);
    put(object, "discarded", counts.discarded);
    put(object, "rows", work.rows);
    put(object, "batches", work.batches);
    put(object, "batch_rows", call->batch ? run_batch_rows(call) : 1);
    double fill =
        work.batches ? (double)work.rows / (double)work.batches / (call->batch ? run_batch_rows(call) : 1) : 0;
    json_object_set_new(object, "fill", json_real(fill));
    if (call->batch)
        json_object_set_new(object, "batching", describe_batching(&work));
    put(object, "raised", work.raised);
    put(object, "retried", work.retried);
    put(object, "isolated", work.isolated);
    json_object_set_new(object, "busy_s", json_real((double)work.run_ns / 1e9));
    return object;
}

static double seconds(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static json_t *describe_cpu(const struct sheaf_run *run)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    json_t *cpu = json_object();
    json_object_set_new(cpu, "engine", json_real(seconds(&usage.ru_utime) + seconds(&usage.ru_stime)));
    json_object_set_new(cpu, "workers", json_real((double)supervisor_worker_cpu_us(run->supervisor, NULL) / 1e6));
    return cpu;
}

static json_t *describe_memory(const struct sheaf_run *run)
{
    const struct memory_ledger *ledger = &run->memory;
    json_t *memory = json_object(), *classes = json_object();
    put(memory, "budget", run->engine->memory_bytes);
    put(memory, "peak", memory_peak(&ledger->all));
    put(memory, "payload_peak", payload_real_bytes_peak(run->payload));
    put(memory, "worker_private_peak", memory_peak(&ledger->of[MEMORY_HEAPS]));
    for (enum memory_class one = 0; one < MEMORY_CLASSES; one++)
        put(classes, memory_class_name(one), memory_peak(&ledger->of[one]));
    json_object_set_new(memory, "peak_by_class", classes);
    put(memory, "spilled_peak", run->spill ? spill_bytes_peak(run->spill) : 0);
    put(memory, "engine_private_peak", memory_peak(&ledger->engine));
    put(memory, "engine_uncounted_peak", atomic_load_explicit(&ledger->uncounted, memory_order_relaxed));
    return memory;
}

/* Where Calls with kernels ran. */
static json_t *describe_devices(const struct devices *devices)
{
    json_t *object = json_object(), *list = json_array();
    for (uint32_t i = 0; i < devices->count; i++) {
        json_t *device = json_object();
        put(device, "ordinal", devices->found[i].ordinal);
        json_object_set_new(device, "name", json_string(devices->found[i].name));
        put(device, "failures", atomic_load_explicit(&devices->failures[i], memory_order_relaxed));
        json_object_set_new(device, "retired",
                            json_boolean(atomic_load_explicit(&devices->retired[i], memory_order_relaxed)));
        json_array_append_new(list, device);
    }
    json_object_set_new(object, "cuda", list);
    if (devices->count == 0)
        json_object_set_new(object, "host", json_string(devices->why));
    return object;
}

static double sum_times(const struct sheaf_run *run, const shared_u64 *counter, const _Atomic uint64_t *past)
{
    uint64_t most_ns = clock_now_ns() - run->started_ns, now_ns = load_relaxed_u64(counter);
    return (double)((now_ns < most_ns ? now_ns : most_ns) + atomic_load_explicit(past, memory_order_relaxed)) / 1e9;
}

/* What workers did with their time, by their own counts: what goes on at this moment is not in them yet. */
static json_t *describe_pools(const struct sheaf_run *run)
{
    json_t *pools = json_array();
    for (uint32_t pool = 0; pool < run->plan->pool_count; pool++) {
        double busy = 0, idle = 0;
        for (uint32_t i = 0; i < run->pool_count[pool]; i++) {
            const struct worker *worker = &run->workers[run->pool_first[pool] + i];
            const struct lane_counters *counters = worker->lane.counters;
            busy += sum_times(run, &counters->busy_ns, &worker->past_busy_ns);
            idle += sum_times(run, &counters->idle_ns, &worker->past_idle_ns);
        }
        json_t *object = json_object();
        json_object_set_new(object, "pool", json_string(run->plan->pools[pool].name));
        put(object, "workers", run->pool_count[pool]);
        json_object_set_new(object, "busy_s", json_real(busy));
        json_object_set_new(object, "idle_s", json_real(idle));
        json_array_append_new(pools, object);
    }
    return pools;
}

int sheaf_run_ledger(const struct sheaf_run *run, char **ret_json)
{
    json_t *ledger = json_object(), *calls = json_array();
    for (uint32_t call = 0; call < run->plan->call_count; call++)
        json_array_append_new(calls, describe_call(run, call));
    json_object_set_new(ledger, "run_id", json_string(run->run_id));
    json_object_set_new(ledger, "fingerprint", json_string(run->plan->fingerprint));
    put(ledger, "inputs", run->submitted);
    for (enum sheaf_root_status status = SHEAF_ROOT_OK; status <= SHEAF_ROOT_SKIPPED; status++)
        put(ledger, sheaf_root_status_name(status), run->finished[status]);
    json_object_set_new(ledger, "domains", describe_domains(run));
    json_object_set_new(ledger, "outputs", describe_outputs(run));
    json_object_set_new(ledger, "calls", calls);
    json_object_set_new(ledger, "pools", describe_pools(run));
    put(ledger, "workers", run->worker_count);
    put(ledger, "shards", run->shard_count);
    put(ledger, "worker_deaths", atomic_load_explicit(&run->deaths, memory_order_relaxed));
    put(ledger, "workers_recycled", atomic_load_explicit(&run->recycled, memory_order_relaxed));
    put(ledger, "workers_replaced", atomic_load_explicit(&run->replaced, memory_order_relaxed));
    json_object_set_new(ledger, "io", json_string(sources_describe(run->shards[0]->sources)));
    if (run->devices)
        json_object_set_new(ledger, "devices", describe_devices(run->devices));
    json_object_set_new(ledger, "memory_bytes", describe_memory(run));
    json_object_set_new(ledger, "cpu_s", describe_cpu(run));
    json_object_set_new(ledger, "wall_s", json_real((double)(clock_now_ns() - run->started_ns) / 1e9));
    char *text = json_dumps(ledger, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(ledger);
    if (!text)
        return -ENOMEM;
    *ret_json = text;
    return 0;
}
