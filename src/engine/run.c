/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "device/pipeline.h"
#include "engine/place.h"
#include "engine/shard.h"
#include "engine/spill.h"
#include "engine/supervisor.h"
#include "program/registry.h"

uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

int thread_start(pthread_t *ret_thread, void *(*body)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = -pthread_create(ret_thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

uint32_t run_timeout_ms(const struct sheaf_run *run, const struct plan_call *call)
{
    enum { DEFAULT_MS = 60000 };
    uint32_t given_ms = run->engine->options.row_timeout_ms;
    return given_ms ? given_ms : call->timeout_ms ? call->timeout_ms : DEFAULT_MS;
}

bool run_glance(const struct sheaf_run *run, const struct claim_row *row, struct dispatch_glance *ret_glance)
{
    uint32_t shard = row->grain / run->slots_per_shard;
    return shard < run->shard_count &&
           dispatch_glance(&run->shards[shard]->board.dispatches, row->grain, row->number, ret_glance) == 0;
}

uint32_t run_start_timeout_ms(const struct sheaf_run *run)
{
    enum { DEFAULT_MS = 300000 }; /* models of many gigabytes come from slow disks */
    uint32_t given_ms = run->engine->options.start_timeout_ms;
    return given_ms ? given_ms : DEFAULT_MS;
}

void run_log(const struct sheaf_run *run, int level, const char *format, ...)
{
    const struct sheaf_engine_options *options = &run->engine->options;
    if (!options->log)
        return;
    char line[2048];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    for (char *at = line; *at; at++) {
        if ((unsigned char)*at < ' ')
            *at = ' ';
    }
    options->log(options->cookie, level, line);
}

void run_tell_host(struct sheaf_run *run, struct message *first)
{
    uint64_t one = 1;
    if (!mailbox_post_all(&run->inbox, first))
        return;
    atomic_fetch_add_explicit(&run->told, 1, memory_order_relaxed); /* the write orders it before what the host reads */
    (void)!write(run->inbox_fd, &one, sizeof one);
}

void run_fail(struct sheaf_run *run, const char *format, ...)
{
    struct message_text *message = calloc(1, sizeof *message);
    if (!message)
        return; /* nothing left to say it with; the host sees no progress and closes */
    message->message.kind = MESSAGE_FATAL;
    va_list values;
    va_start(values, format);
    vsnprintf(message->text, sizeof message->text, format, values);
    va_end(values);
    run_tell_host(run, &message->message);
}

/* ---- submitting ---- */

static struct shard *shard_for(struct sheaf_run *run, uint64_t root)
{
    return run->shards[root % run->shard_count];
}

static struct root *new_root(const struct sheaf_run *run)
{
    uint32_t sources = run->plan->source_count;
    struct root *root = calloc(1, sizeof *root);
    if (!root)
        return NULL;
    root->source_count = sources;
    root->first_hold = UINT32_MAX;
    root->sources = calloc(sources, sizeof *root->sources);
    root->source_ids = calloc(sources, sizeof *root->source_ids);
    root->paths = calloc(sources, sizeof *root->paths);
    if (root->sources && root->source_ids && root->paths)
        return root;
    root_free(root);
    return NULL;
}

static int fill_source(struct sheaf_run *run, struct root *root, uint32_t index, const struct sheaf_value *value,
                       struct sheaf_error *error)
{
    const struct plan_port *port = &run->plan->ports[run->plan->sources[index]];
    if (value->kind != port->kind) {
        if (error)
            snprintf(error->message, sizeof error->message,
                     "source %s: the value has another kind than the source; "
                     "see the program's `sources`",
                     port->name);
        return SHEAF_E_INPUT;
    }
    if (SHEAF_KIND_BASE(value->kind) == SHEAF_FILE && SHEAF_KIND_DEPTH(value->kind) == 0 && !value->data) {
        if (!value->name)
            return SHEAF_E_INPUT;
        /* Until it was read the root has no value here; what lineage sees if it cannot be read is an empty file. */
        root->sources[index] = (struct value_ref){.kind = SHEAF_FILE};
        root->paths[index] = strdup(value->name);
        return root->paths[index] ? 0 : -ENOMEM;
    }
    uint32_t shard = (uint32_t)(root->index % run->shard_count);
    if (SHEAF_KIND_DEPTH(value->kind) > 0)
        return list_copy_in(run->payload, shard, value, &root->sources[index]);
    return leaf_copy_in(run->payload, shard, value, &root->sources[index]);
}

/* What a submission that failed had already copied in. */
static void free_sources(struct sheaf_run *run, struct root *root)
{
    for (uint32_t i = 0; i < root->source_count; i++) {
        const struct value_ref *ref = &root->sources[i];
        uint64_t offset, bytes;
        if (ref->segment == VALUE_INLINE)
            continue;
        source_run(run->payload, ref, &offset, &bytes);
        payload_run_free(run->payload, ref->segment - 1u, offset, bytes);
    }
}

/* The host stops submitting: shards that wait for larger roots need not wait for more. */
static void wait_for_space(struct sheaf_run *run)
{
    run->want_space = true;
    if (run->order == ADMISSION_AS_SUBMITTED || atomic_exchange_explicit(&run->input_full, true, memory_order_relaxed))
        return;
    for (uint32_t shard = 0; shard < run->shard_count; shard++)
        event_count_bump(run->shards[shard]->board.shard_events);
}

/* What is known of a value's size before it is read. */
static uint64_t size_of(const struct sheaf_value *value)
{
    return value_is_scalar(value->kind) || SHEAF_KIND_DEPTH(value->kind) > 0 ? 0 : value->length_bytes;
}

int sheaf_run_submit(struct sheaf_run *run, const struct sheaf_submission *submission, uint64_t *ret_root,
                     struct sheaf_error *error)
{
    if (run->closed || run->ended)
        return SHEAF_E_CLOSED;
    if (submission->value_count != run->plan->source_count) {
        if (error)
            snprintf(error->message, sizeof error->message,
                     "a root needs %u values, one per source of the program; got %u", run->plan->source_count,
                     submission->value_count);
        return SHEAF_E_INPUT;
    }
    if (run->submitted - run->acknowledged >= run->submitted_max) {
        wait_for_space(run);
        return -EAGAIN;
    }
    struct root *root = new_root(run);
    struct message_submit *message = calloc(1, sizeof *message);
    int result = root && message ? 0 : -ENOMEM;
    if (root) {
        root->index = run->submitted;
        root->tag = submission->tag;
    }
    for (uint32_t i = 0; i < run->plan->source_count && result == 0; i++) {
        root->bytes += size_of(&submission->values[i]);
        result = fill_source(run, root, i, &submission->values[i], error);
    }
    if (result < 0) {
        if (result == -ENOMEM && root && payload_shard_bytes(run->payload) > 0) {
            result = -EAGAIN; /* memory comes back as roots are done with */
            wait_for_space(run);
            run->space_after = run->acknowledged + 1;
        }
        if (error)
            error->code = result;
        if (root)
            free_sources(run, root);
        root_free(root);
        free(message);
        return result;
    }
    message->message.kind = MESSAGE_SUBMIT;
    message->root = root;
    atomic_store_explicit(&run->input_full, false, memory_order_relaxed);
    if (ret_root)
        *ret_root = run->submitted;
    shard_tell_in_time(shard_for(run, run->submitted++), &message->message);
    return 0;
}

/* No more roots: shards that decide about batches look again, what is left may be all there is. */
static void close_input(struct sheaf_run *run)
{
    run->closed = true;
    atomic_store_explicit(&run->input_closed, true, memory_order_relaxed);
    for (uint32_t shard = 0; shard < run->shard_count; shard++)
        event_count_bump(run->shards[shard]->board.shard_events);
}

void sheaf_run_close_input(struct sheaf_run *run)
{
    close_input(run);
}

static void cancel_all(struct sheaf_run *run, const char *text)
{
    for (uint32_t shard = 0; shard < run->shard_count; shard++) {
        struct message_text *message = calloc(1, sizeof *message);
        if (!message)
            return;
        message->message.kind = MESSAGE_CANCEL;
        snprintf(message->text, sizeof message->text, "%s", text);
        shard_tell(run->shards[shard], &message->message);
    }
}

void sheaf_run_cancel(struct sheaf_run *run)
{
    close_input(run);
    cancel_all(run, "the run was cancelled");
}

/* ---- polling ---- */

int sheaf_run_descriptor(const struct sheaf_run *run)
{
    return run->inbox_fd;
}

/* A submit that was refused may work now. */
static bool has_space(const struct sheaf_run *run)
{
    return run->want_space && run->submitted - run->acknowledged < run->submitted_max &&
           run->acknowledged >= run->space_after;
}

/* Empties the descriptor, if anybody has written there since the last time. One who is about to write is not missed: he
 * makes it readable once more. */
static void make_unreadable(struct sheaf_run *run)
{
    uint64_t times;
    if (!run->readable && atomic_load_explicit(&run->told, memory_order_relaxed) == run->heard)
        return;
    if (read(run->inbox_fd, &times, sizeof times) != (ssize_t)sizeof times)
        return;
    run->heard += times - run->readable;
    run->readable = false;
}

static struct message *next_message(struct sheaf_run *run)
{
    if (!run->taken) {
        make_unreadable(run);
        run->taken = mailbox_take(&run->inbox);
    }
    struct message *message = run->taken;
    if (message)
        run->taken = message->next;
    return message;
}

/* The descriptor must be readable while there is something to poll: a message that was taken out, or an event that
 * comes of what the host itself did. */
static void keep_readable(struct sheaf_run *run)
{
    uint64_t one = 1;
    bool end = run->closed && !run->ended && run->acknowledged == run->submitted;
    bool space = has_space(run);
    if (!run->readable && (run->taken || end || space))
        run->readable = write(run->inbox_fd, &one, sizeof one) == (ssize_t)sizeof one;
}

static void deliver(struct sheaf_run *run, struct message *message, struct sheaf_event *event)
{
    if (message->kind == MESSAGE_RESULT) {
        event->kind = SHEAF_EVENT_ROOT;
        event->result = (struct sheaf_result *)message;
        run->finished[event->result->info.status]++;
        return;
    }
    struct message_text *text = (struct message_text *)message;
    event->kind = message->kind == MESSAGE_ABORT ? SHEAF_EVENT_ABORT : SHEAF_EVENT_FATAL;
    if (event->kind == SHEAF_EVENT_ABORT) {
        close_input(run);
        cancel_all(run, text->text);
    }
    free(run->message);
    run->message = strdup(text->text);
    event->message = run->message ? run->message : "";
    free(text);
}

int sheaf_run_poll(struct sheaf_run *run, struct sheaf_event *ret_event)
{
    struct sheaf_event event = {.size = sizeof event, .message = ""};
    struct message *message = next_message(run);
    if (message) {
        deliver(run, message, &event);
    } else if (has_space(run) && !run->closed) {
        run->want_space = false;
        event.kind = SHEAF_EVENT_SPACE;
    } else if (run->closed && !run->ended && run->acknowledged == run->submitted) {
        run->ended = true;
        event.kind = SHEAF_EVENT_END;
    }
    if (event.kind != SHEAF_EVENT_NONE)
        keep_readable(run);
    *ret_event = event;
    return 0;
}

void sheaf_result_acknowledge(struct sheaf_result *result)
{
    struct sheaf_run *run = result->run;
    run->acknowledged++;
    result->message.kind = MESSAGE_ACKNOWLEDGE;
    shard_tell_in_time(run->shards[result->shard], &result->message);
    keep_readable(run);
}

/* ---- reading results ---- */

int sheaf_result_info(const struct sheaf_result *result, struct sheaf_result_info *ret_info)
{
    *ret_info = result->info;
    return 0;
}

int sheaf_result_item(const struct sheaf_result *result, size_t output, size_t index, struct sheaf_item *ret_item)
{
    if (output >= result->run->plan->output_count)
        return -EINVAL;
    if (index >= result->item_counts[output])
        return -ENOENT;
    *ret_item = result->items[output][index];
    return 0;
}

int sheaf_result_failure(const struct sheaf_result *result, size_t index, struct sheaf_failure *ret_failure)
{
    if (index >= result->failure_count)
        return -ENOENT;
    *ret_failure = result->failures[index];
    return 0;
}

int sheaf_list_next(struct sheaf_list *list, struct sheaf_value *ret_value)
{
    if (list->next >= list->count)
        return 0;
    *ret_value = list->values[list->next++];
    return 1;
}

uint64_t sheaf_list_ordinal(const struct sheaf_list *list)
{
    uint64_t last = list->next > 0 ? list->next - 1 : 0;
    return list->ordinals && last < list->count ? list->ordinals[last] : last;
}

void sheaf_list_rewind(struct sheaf_list *list)
{
    list->next = 0;
    list->error_next = 0;
}

int sheaf_list_error_next(struct sheaf_list *list, struct sheaf_list_error *ret_error)
{
    if (list->error_next >= list->error_count)
        return 0;
    *ret_error = list->errors[list->error_next++];
    return 1;
}

const char *sheaf_root_status_name(enum sheaf_root_status status)
{
    static const char *const names[] = {"ok", "partial", "filtered", "failed", "skipped"};
    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "unknown";
}

/* ---- life ---- */

uint32_t run_batch_rows(const struct plan_call *call)
{
    return call->batch_rows < CLAIM_ROWS_MAX ? call->batch_rows : CLAIM_ROWS_MAX;
}

/* Roots in flight: enough that every worker has several documents to choose from, few enough that they stay in memory.
 */
static uint32_t default_window(const struct sheaf_run *run)
{
    uint32_t window = run->worker_count * 8;
    return window < 64 ? 64 : window > 4096 ? 4096 : window;
}

static bool has_devices(const struct sheaf_run *run)
{
    return run->devices && run->devices->count > 0;
}

static void shape_lane(const struct sheaf_run *run, struct lane_shape *shape)
{
    uint32_t batch_rows = 64, values = 1;
    for (uint32_t call = 0; call < run->plan->call_count; call++) {
        const struct plan_call *plan_call = &run->plan->calls[call];
        batch_rows = run_batch_rows(plan_call) > batch_rows ? run_batch_rows(plan_call) : batch_rows;
        values = plan_call->output_count > values ? plan_call->output_count : values;
    }
    uint32_t completion_bytes = completion_ring_bytes_min(values);
    shape->shard_count = run->shard_count;
    /* A worker with a device has several batches at once, and one that waits. */
    uint64_t at_once = has_devices(run) ? (uint64_t)batch_rows * (PIPELINE_DEPTH + 1) : batch_rows;
    shape->claim_rows = power_of_two(at_once < CLAIM_ROWS_MAX ? at_once : CLAIM_ROWS_MAX);
    shape->completion_bytes = power_of_two(completion_bytes > (1u << 17) ? completion_bytes : 1u << 17);
    shape->control_bytes = 1u << 16;
}

static int create_workers(struct sheaf_run *run)
{
    run->workers = calloc(run->worker_count + 1, sizeof *run->workers);
    if (!run->workers)
        return -ENOMEM;
    for (uint32_t i = 0; i < run->worker_count; i++)
        run->workers[i].lane = (struct lane){.own = SEGMENT_NONE, .orders_segment = SEGMENT_NONE};
    int result = 0;
    for (uint32_t i = 0; i < run->worker_count && result == 0; i++) {
        struct worker *worker = &run->workers[i];
        worker->number = i;
        worker->pool = run->placement->workers[i].pool;
        worker->node = run->placement->workers[i].node;
        enum plan_device device = run->plan->pools[worker->pool].device;
        bool has_device = device == PLAN_ANY_DEVICE && has_devices(run);
        worker->on_device = device != PLAN_NO_DEVICE;
        worker->device = has_device ? i - run->pool_first[worker->pool] : TOPO_NONE;
        struct lane_shape shape = {.worker = i};
        shape_lane(run, &shape);
        result = lane_create(&shape, place_worker_memory(run, i), &worker->lane);
    }
    return result;
}

static int divide_memory(struct sheaf_run *run, struct sheaf_error *error)
{
    uint64_t bytes = run->engine->memory_bytes, least = budget_minimum(run->worker_count);
    if (bytes >= least) {
        run->budget = budget_divide(bytes, run->worker_count);
        return 0;
    }
    if (error)
        snprintf(
            error->message, sizeof error->message,
            "memory: a budget of %llu %s cannot hold %u worker%s: the least for them is %llu MiB; give more memory or "
            "fewer workers",
            (unsigned long long)(bytes >> 20 ? bytes >> 20 : bytes), bytes >> 20 ? "MiB" : "bytes", run->worker_count,
            run->worker_count == 1 ? "" : "s", (unsigned long long)(least >> 20));
    return SHEAF_E_ENVIRONMENT;
}

/* Every process maps every segment: none larger than what one may ever hold, and all of them within half of the 47 bits
 * of address space that a process has. */
static uint64_t segment_bytes(const struct sheaf_run *run)
{
    uint64_t space = UINT64_C(64) << 40, most = space / ((uint64_t)run->shard_count + run->worker_count);
    uint64_t wanted = 2 * run->budget.payload_bytes; /* so that what is freed here and there leaves long runs */
    return wanted < most ? wanted : most;
}

/* A run without a place for it is no worse off than one whose disk is full. */
static void create_spill(struct sheaf_run *run)
{
    const char *folder = run->spill_folder;
    const char *temporary = getenv("TMPDIR");
    const char *const folders[] = {folder                    ? folder
                                   : temporary && *temporary ? temporary
                                                             : "/var/tmp",
                                   "/var/tmp", NULL};
    int status = spill_create(folders, &run->spill);
    if (status < 0)
        run_log(run, 1, "values cannot be moved to disk when memory is short: %s: %s; set TMPDIR to a folder on a disk",
                folders[0], sheaf_status_text(status));
}

static int create_payload(struct sheaf_run *run)
{
    int *nodes = calloc((size_t)run->shard_count + run->worker_count, sizeof *nodes);
    if (!nodes)
        return -ENOMEM;
    for (uint32_t i = 0; i < run->shard_count; i++)
        nodes[i] = place_shard_memory(run, i);
    for (uint32_t i = 0; i < run->worker_count; i++)
        nodes[run->shard_count + i] = place_worker_memory(run, i);
    struct payload_options options = {.shard_count = run->shard_count,
                                      .worker_count = run->worker_count,
                                      .segment_bytes = segment_bytes(run),
                                      .spill = run->spill ? spill_segment(run->spill) : NULL,
                                      .spill_read_only = run->spill ? spill_read_only(run->spill) : -1,
                                      .keeps_real = has_devices(run),
                                      .limit_bytes = run->budget.payload_bytes,
                                      .nodes = nodes};
    int result = payload_create(&options, &run->payload);
    free(nodes);
    if (result == 0 && payload_bind_status(run->payload) < 0)
        run_log(run, 1, "memory cannot be bound to NUMA nodes: %s; a container needs CAP_SYS_NICE for it",
                sheaf_status_text(payload_bind_status(run->payload)));
    return result;
}

/* An operator of a live Call for devices whose kernels were built for none. NULL: there is no such. */
static const char *imageless(const struct sheaf_plan *plan)
{
    for (uint32_t i = 0; i < plan->call_count; i++) {
        const struct plan_call *call = &plan->calls[i];
        const struct sheaf_kernels *kernels = registry_kernels(plan->registry, call->op);
        if (call->device == PLAN_ANY_DEVICE && call->live && kernels && !kernels->image)
            return call->op->name;
    }
    return NULL;
}

/* Devices are looked for only when a Call that runs is for them. Where there are none the run goes by the Plan for
 * that. */
static int find_devices(struct sheaf_run *run, struct sheaf_error *error)
{
    bool wanted = false;
    for (uint32_t call = 0; call < run->plan->call_count; call++)
        wanted |= run->plan->calls[call].device == PLAN_ANY_DEVICE && run->plan->calls[call].live;
    if (!wanted)
        return 0;
    run->devices = calloc(1, sizeof *run->devices);
    if (!run->devices)
        return -ENOMEM;
    int result =
        devices_find(run->engine->options.device, run->engine->worker_path, imageless(run->plan), run->devices, error);
    if (result == 0 && !has_devices(run)) {
        run_log(run, 1, "Calls for devices run on the host: %s", run->devices->why);
        run->plan = run->plan->on_host ? run->plan->on_host : run->plan;
    }
    for (uint32_t i = 0; result == 0 && i < run->devices->count; i++)
        run_log(run, 1, "device %u: %s, %llu MiB, %s", run->devices->found[i].ordinal, run->devices->found[i].name,
                (unsigned long long)(run->devices->found[i].memory_bytes >> 20), run->devices->found[i].bus_id);
    return result;
}

static int create_parts(struct sheaf_run *run, struct sheaf_error *error)
{
    int result = find_devices(run, error);
    if (result == 0)
        result = place_run(run, error);
    if (result == 0)
        result = divide_memory(run, error);
    if (result == 0)
        result = create_workers(run);
    if (result == 0)
        create_spill(run);
    if (result == 0)
        result = create_payload(run);
    run->shards = calloc(run->shard_count + 1, sizeof *run->shards);
    if (result == 0 && !run->shards)
        result = -ENOMEM;
    for (uint32_t i = 0; i < run->shard_count && result == 0; i++)
        result = shard_create(run, i, &run->shards[i], error);
    return result;
}

/* The isolation dial, 0: off. */
static uint32_t unproven_rows(const struct sheaf_run_options *options)
{
    enum { DEFAULT_ROWS = 20 };
    uint32_t rows = 0;
    if (options && options->size >= offsetof(struct sheaf_run_options, unproven_rows) + sizeof rows)
        rows = options->unproven_rows;
    return rows == UINT32_MAX ? 0 : rows ? rows : DEFAULT_ROWS;
}

/* Roots that may be submitted at once for the largest to be chosen from. */
enum { CHOICE_ROOTS = 1 << 16 };

static enum admission_order order_of(const struct sheaf_run_options *options)
{
    bool given = options && options->size >= offsetof(struct sheaf_run_options, order) + sizeof options->order;
    return given && options->order == SHEAF_ORDER_LARGEST_FIRST ? ADMISSION_LARGEST_FIRST : ADMISSION_AS_SUBMITTED;
}

static const char *spill_folder(const struct sheaf_run_options *options)
{
    bool given =
        options && options->size >= offsetof(struct sheaf_run_options, spill_path) + sizeof options->spill_path;
    return given ? options->spill_path : NULL;
}

static void take_gives_up(struct sheaf_run *run, const struct sheaf_run_options *options)
{
    if (!options || options->size < offsetof(struct sheaf_run_options, cookie) + sizeof options->cookie)
        return;
    run->gives_up = options->gives_up;
    run->gives_up_cookie = options->cookie;
}

int sheaf_run_open(struct sheaf_engine *engine, const struct sheaf_plan *plan, const struct sheaf_run_options *options,
                   struct sheaf_run **ret_run, struct sheaf_error *error)
{
    if (engine->run)
        return -EBUSY;
    struct sheaf_run *run = calloc(1, sizeof *run);
    if (!run)
        return -ENOMEM;
    run->engine = engine;
    run->plan = plan;
    run->integrity = engine->options.integrity;
    run->started_ns = clock_now_ns();
    memory_start(run);
    run->slots_per_shard = 1u << 14;
    for (uint32_t call = 0; call < plan->call_count; call++) {
        while (run->slots_per_shard < 8 * run_batch_rows(&plan->calls[call]) &&
               run->slots_per_shard < DISPATCH_GRAINS_MAX / 64)
            run->slots_per_shard *= 2;
    }
    run->unproven_rows = unproven_rows(options);
    run->order = order_of(options);
    run->spill_folder = spill_folder(options);
    take_gives_up(run, options);
    if (options && options->run_id)
        snprintf(run->run_id, sizeof run->run_id, "%s", options->run_id);
    else
        snprintf(run->run_id, sizeof run->run_id, "%llx-%x", (unsigned long long)time(NULL), (unsigned)getpid());
    mailbox_init(&run->inbox, &run->memory.of[MEMORY_MESSAGES]);
    run->inbox_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int result = run->inbox_fd < 0 ? -errno : create_parts(run, error);
    run->window = engine->options.root_window ? engine->options.root_window : default_window(run);
    run->submitted_max =
        run->order == ADMISSION_AS_SUBMITTED || run->window > CHOICE_ROOTS ? run->window : CHOICE_ROOTS;
    for (uint32_t i = 0; i < run->shard_count && result == 0; i++)
        result = shard_start(run->shards[i]);
    if (result == 0)
        result = supervisor_start(run, error);
    if (result < 0) {
        if (error && error->message[0] == '\0')
            snprintf(error->message, sizeof error->message, "cannot open a run: %s%s", sheaf_status_text(result),
                     result == -EMFILE   ? "; raise the limit (ulimit -n), or try fewer workers"
                     : result == -ENOMEM ? "; try a smaller memory budget, fewer workers, or ulimit -v unlimited"
                                         : "");
        if (error)
            error->code = result;
        engine->run = run;
        sheaf_run_close(run);
        return result;
    }
    engine->run = run;
    *ret_run = run;
    return 0;
}

static void free_messages(struct message *message)
{
    while (message) {
        struct message *next = message->next;
        if (message->kind == MESSAGE_RESULT)
            result_free((struct sheaf_result *)message);
        else
            free(message);
        message = next;
    }
}

void sheaf_run_close(struct sheaf_run *run)
{
    if (!run)
        return;
    for (uint32_t i = 0; run->shards && i < run->shard_count; i++) {
        if (run->shards[i])
            shard_stop(run->shards[i]);
    }
    supervisor_stop(run->supervisor);
    for (uint32_t i = 0; run->shards && i < run->shard_count; i++)
        shard_destroy(run->shards[i]);
    for (uint32_t i = 0; run->workers && i < run->worker_count; i++)
        lane_release(&run->workers[i].lane);
    payload_destroy(run->payload);
    spill_destroy(run->spill);
    free_messages(run->taken);
    free_messages(mailbox_take(&run->inbox));
    mailbox_fini(&run->inbox);
    if (run->inbox_fd >= 0)
        close(run->inbox_fd);
    run->engine->run = NULL;
    free(run->shards);
    free(run->workers);
    free(run->devices);
    free(run->pool_first);
    free(run->pool_count);
    topo_plan_destroy(run->placement);
    free(run->message);
    free(run);
}
