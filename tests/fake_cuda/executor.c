/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread behind one context. Work is scheduled (given a start and an end) as soon as all that it waits for is
 * scheduled, and has its effect at its end. So times follow from the model alone, however late this thread wakes up.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/fake_cuda/fake_cuda.h"

#define NEVER_NS UINT64_MAX

static _Thread_local int fault_of_kernel;

void fake_cuda_fault(int error)
{
    fault_of_kernel = error;
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t draw(struct CUctx_st *context)
{
    context->random ^= context->random << 13;
    context->random ^= context->random >> 7;
    context->random ^= context->random << 17;
    return context->random;
}

/* ---- scheduling ---- */

static uint64_t duration_ns(struct CUctx_st *context, const struct fake_work *work)
{
    static const int engines = FAKE_COPY_OUT;
    if ((int)work->kind > engines)
        return 0;
    uint64_t takes_ns = work->kind == FAKE_COPY_IN    ? fake.in_ns + work->bytes * fake.in_ps_per_byte / 1000
                        : work->kind == FAKE_COPY_OUT ? fake.out_ns + work->bytes * fake.out_ps_per_byte / 1000
                                                      : fake.kernel_ns;
    return takes_ns + (fake.delay_ns > 0 ? draw(context) % fake.delay_ns : 0);
}

/* The first work of a stream that has no time yet, if what it waits for has one; and when it could start. */
static struct fake_work *schedulable(struct CUstream_st *stream, uint64_t *ret_start_ns)
{
    struct fake_work *work = stream->first;
    while (work != NULL && work->scheduled)
        work = work->next;
    if (work == NULL)
        return NULL;
    uint64_t start_ns = later(stream->free_ns, work->asked_ns);
    if (work->kind == FAKE_WAIT) {
        if (work->event->scheduled < work->generation)
            return NULL;
        start_ns = later(start_ns, work->event->end_ns);
    }
    if (work->kind <= FAKE_COPY_OUT)
        start_ns = later(start_ns, stream->context->engine_free_ns[work->kind]);
    *ret_start_ns = start_ns;
    return work;
}

static void schedule(struct CUstream_st *stream, struct fake_work *work, uint64_t start_ns)
{
    struct CUctx_st *context = stream->context;
    work->scheduled = true;
    work->start_ns = start_ns;
    work->end_ns = work->error == FAKE_HANG ? NEVER_NS : start_ns + duration_ns(context, work);
    stream->free_ns = work->end_ns;
    if (work->kind <= FAKE_COPY_OUT)
        context->engine_free_ns[work->kind] = work->end_ns;
    if (work->kind == FAKE_RECORD) {
        work->event->scheduled = work->generation;
        work->event->end_ns = work->end_ns;
    }
}

/* Whatever can start first gets its time first. */
static void schedule_all(struct CUctx_st *context)
{
    for (;;) {
        struct CUstream_st *best = NULL;
        struct fake_work *best_work = NULL;
        uint64_t best_ns = NEVER_NS;
        for (struct CUstream_st *stream = context->streams; stream != NULL; stream = stream->next) {
            uint64_t start_ns;
            struct fake_work *work = schedulable(stream, &start_ns);
            if (work != NULL && start_ns < best_ns) {
                best = stream;
                best_work = work;
                best_ns = start_ns;
            }
        }
        if (best == NULL)
            return;
        schedule(best, best_work, best_ns);
    }
}

/* ---- effects ---- */

static void trace(const struct CUctx_st *context, const struct fake_work *work)
{
    static const char *const engines[] = {"in", "kernel", "out"};
    char line[128];
    if (fake.trace < 0 || work->kind > FAKE_COPY_OUT)
        return;
    int length =
        snprintf(line, sizeof line, "%u %s %llu %llu %llu\n", context->device, engines[work->kind],
                 (unsigned long long)work->start_ns, (unsigned long long)work->end_ns, (unsigned long long)work->bytes);
    (void)!write(fake.trace, line, (size_t)length);
}

/* Not under the lock: a kernel may take long. Returns the error it leaves. */
static int take_effect(const struct fake_work *work)
{
    fault_of_kernel = CUDA_OK;
    if (work->kind == FAKE_COPY_IN || work->kind == FAKE_COPY_OUT)
        memcpy(work->to, work->snapshot != NULL ? work->snapshot : work->from, work->bytes);
    if (work->kind == FAKE_KERNEL && work->error == CUDA_OK)
        work->kernel->host(work->argument, &work->grid);
    return work->error != CUDA_OK ? work->error : fault_of_kernel;
}

static void free_work(struct fake_work *work)
{
    free(work->snapshot);
    free(work->argument);
    free(work);
}

/* The work that ends first; of those that end at once, one that an engine did. */
static struct CUstream_st *first_to_end(struct CUctx_st *context)
{
    struct CUstream_st *first = NULL;
    for (struct CUstream_st *stream = context->streams; stream != NULL; stream = stream->next) {
        const struct fake_work *work = stream->first;
        if (work == NULL || !work->scheduled || work->end_ns == NEVER_NS)
            continue;
        if (first == NULL || work->end_ns < first->first->end_ns)
            first = stream;
    }
    return first;
}

static void sleep_until(struct CUctx_st *context, uint64_t until_ns)
{
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    pthread_cond_timedwait(&context->changed, &context->lock, &until);
}

static void finish(struct CUstream_st *stream)
{
    struct CUctx_st *context = stream->context;
    struct fake_work *work = stream->first;
    pthread_mutex_unlock(&context->lock);
    int error = take_effect(work);
    trace(context, work);
    pthread_mutex_lock(&context->lock);
    stream->first = work->next;
    if (stream->first == NULL)
        stream->last = NULL;
    if (work->kind == FAKE_RECORD)
        work->event->done = work->generation;
    if (error != CUDA_OK && context->error == CUDA_OK)
        context->error = error;
    free_work(work);
    pthread_cond_broadcast(&context->changed);
}

static void *executor(void *argument)
{
    struct CUctx_st *context = argument;
    pthread_mutex_lock(&context->lock);
    while (context->running) {
        schedule_all(context);
        struct CUstream_st *next = context->error == CUDA_OK ? first_to_end(context) : NULL;
        if (next == NULL)
            pthread_cond_wait(&context->changed, &context->lock);
        else if (next->first->end_ns > clock_ns())
            sleep_until(context, next->first->end_ns);
        else
            finish(next);
    }
    pthread_mutex_unlock(&context->lock);
    return NULL;
}

int executor_start(struct CUctx_st *context)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&context->lock, NULL);
    pthread_cond_init(&context->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    context->running = true;
    context->random = (fake.seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + context->device;
    return pthread_create(&context->thread, NULL, executor, context) == 0 ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

void executor_free_module(struct CUmod_st *module)
{
    while (module->functions != NULL) {
        struct CUfunc_st *function = module->functions;
        module->functions = function->next;
        free(function);
    }
    free(module);
}

void executor_stop(struct CUctx_st *context)
{
    pthread_mutex_lock(&context->lock);
    context->running = false;
    pthread_cond_broadcast(&context->changed);
    pthread_mutex_unlock(&context->lock);
    pthread_join(context->thread, NULL);
    while (context->streams != NULL) {
        struct CUstream_st *stream = context->streams;
        context->streams = stream->next;
        while (stream->first != NULL) {
            struct fake_work *work = stream->first;
            stream->first = work->next;
            free_work(work);
        }
        free(stream);
    }
    while (context->events != NULL) {
        struct CUevent_st *event = context->events;
        context->events = event->next;
        free(event);
    }
    while (context->modules != NULL) {
        struct CUmod_st *module = context->modules;
        context->modules = module->next;
        executor_free_module(module);
    }
    pthread_cond_destroy(&context->changed);
    pthread_mutex_destroy(&context->lock);
}

void executor_add(struct CUstream_st *stream, struct fake_work *work)
{
    work->asked_ns = clock_ns();
    if (stream->last != NULL)
        stream->last->next = work;
    else
        stream->first = work;
    stream->last = work;
    pthread_cond_broadcast(&stream->context->changed);
}

int executor_wait_event(struct CUevent_st *event)
{
    struct CUctx_st *context = event->context;
    uint64_t generation = event->recorded;
    while (event->done < generation && context->error == CUDA_OK)
        pthread_cond_wait(&context->changed, &context->lock);
    return context->error;
}

int executor_wait_stream(struct CUstream_st *stream)
{
    struct CUctx_st *context = stream->context;
    while (stream->first != NULL && context->error == CUDA_OK)
        pthread_cond_wait(&context->changed, &context->lock);
    return context->error;
}
