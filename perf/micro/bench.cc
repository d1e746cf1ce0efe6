// SPDX-License-Identifier: Apache-2.0
// The only C++ in the tree: Google Benchmark behind bench.h.
#include "perf/micro/bench.h"

#include <benchmark/benchmark.h>

#include <cstring>
#include <string>

static bench_entry *first_entry; // filled before main, in the order of linking
static bench_entry **last_entry = &first_entry;

static benchmark::State *state_of(const struct bench *bench)
{
    return reinterpret_cast<benchmark::State *>(const_cast<struct bench *>(bench));
}

extern "C" {

void bench_register(bench_entry *entry)
{
    *last_entry = entry;
    last_entry = &entry->next;
}

bool bench_next(struct bench *bench)
{
    return state_of(bench)->KeepRunning();
}

int64_t bench_argument(const struct bench *bench)
{
    return state_of(bench)->range(0);
}

int64_t bench_iterations(const struct bench *bench)
{
    return static_cast<int64_t>(state_of(bench)->iterations());
}

void bench_pause(struct bench *bench)
{
    state_of(bench)->PauseTiming();
}

void bench_resume(struct bench *bench)
{
    state_of(bench)->ResumeTiming();
}

void bench_count_items(struct bench *bench, int64_t items)
{
    state_of(bench)->SetItemsProcessed(items);
}

void bench_count_bytes(struct bench *bench, int64_t bytes)
{
    state_of(bench)->SetBytesProcessed(bytes);
}

void bench_fail(struct bench *bench, const char *why)
{
    state_of(bench)->SkipWithError(why);
}
}

// --counted=N as the first word: every benchmark does N iterations, whatever time that takes, so that counts of
// instructions can be compared.
static int64_t take_counted(int *count, char **words)
{
    static const std::string name = "--counted=";
    if (*count < 2 || strncmp(name.c_str(), words[1], name.size()) != 0)
        return 0;
    int64_t iterations = strtoll(words[1] + name.size(), nullptr, 10);
    for (int at = 1; at + 1 < *count; at++)
        words[at] = words[at + 1];
    --*count;
    return iterations;
}

int main(int count, char **words)
{
    int64_t iterations = take_counted(&count, words);
    benchmark::Initialize(&count, words);
    if (benchmark::ReportUnrecognizedArguments(count, words))
        return 2;
    for (bench_entry *entry = first_entry; entry; entry = entry->next) {
        void (*body)(struct bench *) = entry->body;
        auto *registered = benchmark::RegisterBenchmark(
            entry->name, [body](benchmark::State &state) { body(reinterpret_cast<struct bench *>(&state)); });
        for (int i = 0; i < entry->argument_count; i++)
            registered->Arg(entry->arguments[i]);
        if (entry->wall)
            registered->UseRealTime();
        if (iterations > 0)
            registered->Iterations(iterations);
    }
    return benchmark::RunSpecifiedBenchmarks() == 0;
}
