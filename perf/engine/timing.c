/* SPDX-License-Identifier: Apache-2.0 */
#include "timing.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t timing_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void run_steps(uint64_t steps)
{
    uint64_t word = 88172645463325252u;
    while (steps-- > 0) {
        word ^= word << 13;
        word ^= word >> 7;
        __asm__ volatile("" : "+r"(word));
    }
}

int64_t timing_steps_per_us(void)
{
    enum { STEPS = 4000000 };
    double best = 0;
    for (int round = 0; round < 5; round++) {
        uint64_t since = timing_now_ns();
        run_steps(STEPS);
        double rate = (double)STEPS * 1000 / (double)(timing_now_ns() - since);
        best = rate > best ? rate : best;
    }
    return (int64_t)best;
}

static int map_trace(struct timing *timing, const char *path)
{
    struct stat about;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &about) < 0 || about.st_size < (off_t)sizeof(struct timing_trace)) {
        close(fd);
        return -EINVAL;
    }
    timing->trace_bytes = (uint64_t)about.st_size;
    timing->trace_capacity = (timing->trace_bytes - sizeof(struct timing_trace)) / sizeof(struct timing_record);
    void *memory = mmap(NULL, timing->trace_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return -errno;
    timing->trace = memory;
    return 0;
}

int timing_open(struct timing *timing, const struct timing_cost *cost, const char *trace)
{
    *timing = (struct timing){.cost = *cost};
    return trace && *trace ? map_trace(timing, trace) : 0;
}

void timing_close(struct timing *timing)
{
    if (timing->trace)
        munmap(timing->trace, timing->trace_bytes);
    timing->trace = NULL;
}

static void sleep_until(uint64_t end_ns)
{
    struct timespec end = {(time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        ;
}

void timing_work(struct timing *timing, uint32_t rows)
{
    uint64_t start = timing_now_ns();
    uint64_t takes = (uint64_t)timing->cost.ns_per_batch + rows * (uint64_t)timing->cost.ns_per_row;
    if (timing->cost.steps_per_us > 0)
        run_steps(takes * (uint64_t)timing->cost.steps_per_us / 1000);
    else if (takes > 0)
        sleep_until(start + takes);
    if (!timing->trace)
        return;
    uint64_t at = __atomic_fetch_add(&timing->trace->used, 1, __ATOMIC_RELAXED);
    if (at < timing->trace_capacity)
        timing->trace->records[at] = (struct timing_record){start, timing_now_ns(), (uint32_t)getpid(), rows};
}
