/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators whose work is known in advance, so that what is left over is the engine: perf.pages makes as many children
 * as its input says, perf.sleep takes a stated time per row, perf.paint makes payload, perf.count and perf.weigh close
 * the document. timing.h has the work itself, which the processes without an engine and the peers share.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sheaf/operator.h>

#include "timing.h"

/* ---- perf.pages: a number as so many children ---- */

static int keep_host(const struct sheaf_open *open, void **ret_state)
{
    *ret_state = (void *)open->host;
    return 0;
}

static int pages_run(void *state, const struct sheaf_row *row, char *message)
{
    const struct sheaf_host *host = state;
    const struct sheaf_value none = {.kind = SHEAF_NONE};
    for (int64_t i = 0; i < row->inputs[0].i64; i++) {
        struct sheaf_value child = {.kind = SHEAF_I64, .i64 = i};
        int status = host->append(row, 0, &child);
        if (status < 0)
            return status;
    }
    return host->answer(row, &none, 1);
}

/* ---- perf.sleep: one deadline per batch, from the moment it was begun ---- */

struct sleeper {
    const struct sheaf_host *host;
    struct timing timing;
    int64_t fail_every; /* rows with an ordinal of 0 of every so many roots fail; 0: none */
};

static int sleep_open(const struct sheaf_open *open, void **ret_state)
{
    struct sleeper *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    const struct sheaf_option_value *options = open->options;
    state->host = open->host;
    state->fail_every = options[4].i64;
    const struct timing_cost cost = {options[0].i64, options[1].i64, options[2].i64};
    int status = timing_open(&state->timing, &cost, options[3].text);
    if (status < 0) {
        free(state);
        return status;
    }
    *ret_state = state;
    return 0;
}

static void sleep_close(void *cookie)
{
    struct sleeper *state = cookie;
    timing_close(&state->timing);
    free(state);
}

static int sleep_answer(const struct sleeper *state, const struct sheaf_row *row)
{
    if (state->fail_every && row->coordinate[1] == 0 && row->coordinate[0] % (uint64_t)state->fail_every == 0)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_MALFORMED, "fails as the experiment wants");
    return state->host->answer(row, row->inputs, 1);
}

static int sleep_run(void *cookie, const struct sheaf_batch *batch, char *message)
{
    struct sleeper *state = cookie;
    timing_work(&state->timing, batch->row_count);
    for (uint32_t at = 0; at < batch->row_count; at++) {
        int status = sleep_answer(state, batch->rows[at]);
        if (status < 0)
            return status;
    }
    return 0;
}

/* ---- perf.paint: payload, and a mark that shows whether a reader sees the same memory ---- */

enum { MARK_AT_ANSWER = 1, MARK_LATER = 2 };

struct painter {
    const struct sheaf_host *host;
    int64_t bytes;
};

static int paint_open(const struct sheaf_open *open, void **ret_state)
{
    struct painter *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    *state = (struct painter){open->host, open->options[0].i64};
    *ret_state = state;
    return 0;
}

static int paint_run(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct painter *state = cookie;
    unsigned char *data = state->host->alloc(row, (size_t)state->bytes);
    if (!data)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory for a page");
    memset(data, (int)row->inputs[0].i64, (size_t)state->bytes);
    data[0] = MARK_AT_ANSWER;
    const struct sheaf_value value = {.kind = SHEAF_BYTES, .data = data, .length_bytes = (uint64_t)state->bytes};
    int status = state->host->answer(row, &value, 1);
    /* The answer has taken the memory over. No operator may write to it from here on; this one does, once, so that
     * perf.weigh can tell the memory itself from a copy of what was answered. */
    if (status == 0)
        *(volatile unsigned char *)data = MARK_LATER;
    return status;
}

/* The bytes of a list, and how many of them lie in the memory that perf.paint wrote. */
static int weigh_run(void *state, const struct sheaf_row *row, char *message)
{
    const struct sheaf_host *host = state;
    struct sheaf_value value, answers[2] = {{.kind = SHEAF_I64}, {.kind = SHEAF_I64}};
    int status;
    while ((status = host->list_next(row->inputs[0].list, &value)) > 0) {
        const volatile unsigned char *data = value.data;
        answers[0].i64 += (int64_t)value.length_bytes;
        answers[1].i64 += data[0] == MARK_LATER ? (int64_t)value.length_bytes : 0;
    }
    return status < 0 ? status : host->answer(row, answers, 2);
}

/* ---- perf.count: the members of a list ---- */

static int count_run(void *state, const struct sheaf_row *row, char *message)
{
    const struct sheaf_host *host = state;
    const struct sheaf_value count = {.kind = SHEAF_I64, .i64 = (int64_t)row->inputs[0].length_bytes};
    return host->answer(row, &count, 1);
}

/* ---- what the plug-in says of itself ---- */

static const struct sheaf_port number[] = {{"number", SHEAF_I64, 0, NULL}};
static const struct sheaf_port children[] = {{"pages", SHEAF_I64, SHEAF_PORT_GROUP, "ordinals"}};
static const struct sheaf_port payload[] = {{"page", SHEAF_BYTES, 0, NULL}};
static const struct sheaf_port numbers[] = {{"pages", SHEAF_LIST_OF(SHEAF_I64, 1), 0, NULL}};
static const struct sheaf_port payloads[] = {{"pages", SHEAF_LIST_OF(SHEAF_BYTES, 1), 0, NULL}};
static const struct sheaf_port weights[] = {{"bytes", SHEAF_I64, 0, "in all"},
                                            {"same", SHEAF_I64, 0, "of them in the memory they were made in"}};

#define I64_OPTION(option_name, value, largest)                                                                        \
    {                                                                                                                  \
        .name = option_name, .type = SHEAF_OPTION_I64, .fallback = {.type = SHEAF_OPTION_I64, .i64 = value}, .min = 0, \
        .max = largest                                                                                                 \
    }
static const struct sheaf_option sleep_options[] = {
    I64_OPTION("ns_per_row", 10000000, INT64_C(100000000000)),
    I64_OPTION("ns_per_batch", 0, INT64_C(100000000000)),
    I64_OPTION("steps_per_us", 0, 1000000),
    {.name = "trace", .type = SHEAF_OPTION_TEXT, .fallback = {.type = SHEAF_OPTION_TEXT, .text = ""}},
    I64_OPTION("fail_every", 0, 1 << 30),
};
static const struct sheaf_option paint_options[] = {I64_OPTION("bytes", 4096, 1 << 30)};

#define SHARED(operator_name, in, out, outs)                                                                           \
    .size = sizeof(struct sheaf_operator), .name = operator_name, .version = "1", .inputs = in, .input_count = 1,      \
    .outputs = out, .output_count = outs
static const struct sheaf_operator pages = {SHARED("perf.pages", number, children, 1), .summary = "so many children",
                                            .open = keep_host, .run = pages_run};
static const struct sheaf_operator sleep_operator = {SHARED("perf.sleep", number, number, 1),
                                                     .summary = "takes its time",
                                                     .flags = SHEAF_OPERATOR_BATCH,
                                                     .batch_rows = 1 << 16,
                                                     .options = sleep_options,
                                                     .option_count = 5,
                                                     .open = sleep_open,
                                                     .close = sleep_close,
                                                     .run_batch = sleep_run};
static const struct sheaf_operator paint = {SHARED("perf.paint", number, payload, 1),
                                            .summary = "makes payload",
                                            .options = paint_options,
                                            .option_count = 1,
                                            .open = paint_open,
                                            .close = free,
                                            .run = paint_run};
static const struct sheaf_operator weigh = {SHARED("perf.weigh", payloads, weights, 2), .summary = "weighs a list",
                                            .open = keep_host, .run = weigh_run};
static const struct sheaf_operator count = {SHARED("perf.count", numbers, number, 1), .summary = "counts a list",
                                            .open = keep_host, .run = count_run};
static const struct sheaf_operator *const operators[] = {&pages, &sleep_operator, &paint, &weigh, &count};
static const struct sheaf_plugin plugin = {.size = sizeof plugin,
                                           .abi = SHEAF_OPERATOR_ABI,
                                           .name = "perf",
                                           .version = "1",
                                           .operators = operators,
                                           .operator_count = sizeof operators / sizeof *operators};

SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);
const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
