/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators for the tests of the engine: what the conformance operators cannot do. What they log is how a test learns
 * what goes on inside a worker.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sheaf/operator.h>

enum { NUMBERS_MAX = 64, KEYS_MAX = 4096, MESSAGE_BYTES = 512 };

struct state {
    const struct sheaf_host *host;
    int64_t at[NUMBERS_MAX];
    uint32_t at_count;
    char how[16];
    int fifo;
    uint64_t keys[KEYS_MAX];
    uint32_t key_count;
};

static int open_fifo(const char *path)
{
    return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/* All take `at`; some also a text. */
static int open_state(const struct sheaf_open *open, void **ret_state)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    state->host = open->host;
    state->fifo = -1;
    for (uint32_t i = 0; i < open->option_count; i++) {
        const struct sheaf_option_value *option = &open->options[i];
        for (uint32_t j = 0; option->type == SHEAF_OPTION_I64_LIST && j < option->count && j < NUMBERS_MAX; j++)
            state->at[state->at_count++] = option->i64s[j];
        if (option->type == SHEAF_OPTION_TEXT && option->text[0] == '/')
            state->fifo = open_fifo(option->text);
        else if (option->type == SHEAF_OPTION_TEXT)
            snprintf(state->how, sizeof state->how, "%s", option->text);
    }
    *ret_state = state;
    return 0;
}

static int open_refused(const struct sheaf_open *open, void **ret_state)
{
    snprintf(open->error, open->error_bytes, "the model moon.bin is not there");
    return SHEAF_E_ENVIRONMENT;
}

/* Does not come back from opening, or is stopped there: while `file` is there, which the first process removes. */
static int open_late(const struct sheaf_open *open, void **ret_state)
{
    const char *file = open->options[0].text, *how = open->options[1].text;
    if (strcmp(how, "always") != 0 && unlink(file) < 0)
        return open_state(open, ret_state);
    if (strcmp(how, "stop") == 0)
        raise(SIGSTOP);
    for (;;)
        pause();
}

static void close_state(void *state)
{
    free(state);
}

static void never(void)
{
    for (;;)
        pause();
}

/* Does not come back from closing, in the way of `how`. */
static void close_linger(void *cookie)
{
    const struct state *state = cookie;
    if (strcmp(state->how, "stop") == 0)
        raise(SIGSTOP);
    if (strcmp(state->how, "atexit") == 0)
        atexit(never);
    while (strcmp(state->how, "spin") == 0)
        (void)getpid();
    if (strcmp(state->how, "hang") == 0)
        never();
    close_state(cookie);
}

static bool is_at(const struct state *state, const struct sheaf_row *row)
{
    for (uint32_t i = 0; i < state->at_count; i++)
        if (state->at[i] == row->inputs[0].i64)
            return true;
    return false;
}

static int give(const struct state *state, const struct sheaf_row *row, int64_t number)
{
    struct sheaf_value value = {.kind = SHEAF_I64, .i64 = number};
    return state->host->answer(row, &value, 1);
}

/* The first attempt of a value in `at` says its process and never ends. */
static int run_gate(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    if (row->attempt == 0 && is_at(state, row)) {
        state->host->log(row, 2, "at the gate: %d", (int)getpid());
        for (;;)
            pause();
    }
    return give(state, row, row->inputs[0].i64);
}

/* The first value in `at` fails its group, the second says its process and never ends. */
static int run_poison(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    int64_t x = row->inputs[0].i64;
    if (state->at_count > 0 && x == state->at[0])
        return state->host->fail(row, SHEAF_SCOPE_GROUP, SHEAF_CLASS_MALFORMED, "poisoned by %" PRId64, x);
    while (state->at_count > 1 && x == state->at[1])
        pause();
    return give(state, row, x);
}

/* A value in `at` spoils the process, and the next row to run there pays for it. */
static int run_spoil(void *cookie, const struct sheaf_row *row, char *message)
{
    static bool spoiled;
    const struct state *state = cookie;
    if (spoiled)
        __builtin_trap();
    spoiled = is_at(state, row);
    return give(state, row, row->inputs[0].i64);
}

/* A value in `at` lives only in a process that has run nothing else. */
static int run_fresh(void *cookie, const struct sheaf_row *row, char *message)
{
    static uint64_t rows;
    const struct state *state = cookie;
    if (rows++ > 0 && is_at(state, row))
        __builtin_trap();
    return give(state, row, row->inputs[0].i64);
}

static int run_say(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    state->host->log(row, 2, "said %" PRId64, row->inputs[0].i64);
    return give(state, row, row->inputs[0].i64);
}

/* Trouble for a whole batch in which a value of `at` is. */
static int run_batch_trouble(void *cookie, const struct sheaf_batch *batch, char *message)
{
    const struct state *state = cookie;
    state->host->log(NULL, 2, "batch %u", batch->row_count);
    for (uint32_t i = 0; i < batch->row_count; i++) {
        if (!is_at(state, batch->rows[i]))
            continue;
        while (strcmp(state->how, "hang") == 0)
            pause();
        if (strcmp(state->how, "crash") == 0)
            __builtin_trap();
        snprintf(message, MESSAGE_BYTES, "trouble with %" PRId64, batch->rows[i]->inputs[0].i64);
        return -EIO;
    }
    for (uint32_t i = 0; i < batch->row_count; i++)
        give(state, batch->rows[i], batch->rows[i]->inputs[0].i64);
    return 0;
}

/* Needs as many milliseconds of a core as its number says. */
static int run_burn(void *cookie, const struct sheaf_row *row, char *message)
{
    struct timespec since, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &since);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - since.tv_sec) * 1000 + (now.tv_nsec - since.tv_nsec) / 1000000 < row->inputs[0].i64);
    return give(cookie, row, row->inputs[0].i64);
}

static int run_sum12(void *cookie, const struct sheaf_row *row, char *message)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < row->input_count; i++)
        sum += (int64_t)(i + 1) * row->inputs[i].i64;
    return give(cookie, row, sum);
}

/* Three children at once, then nothing before somebody writes to the FIFO, then the others. */
static int run_stream_gate(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    struct sheaf_value child = {.kind = SHEAF_I64}, none = {.kind = SHEAF_NONE};
    struct pollfd wait = {.fd = state->fifo, .events = POLLIN};
    char byte;
    int status = 0;
    for (; status == 0 && child.i64 < 3; child.i64++)
        status = state->host->emit(row, &child, 1);
    while (status == 0 && (poll(&wait, 1, -1) < 0 || read(state->fifo, &byte, 1) != 1))
        ;
    for (; status == 0 && child.i64 < row->inputs[0].i64; child.i64++)
        status = state->host->emit(row, &child, 1);
    return status < 0 ? status : state->host->answer(row, &none, 1);
}

/* Keeps its parents' keys; says when it opens and when it must drop one. */
static int run_keep(void *cookie, const struct sheaf_row *row, char *message)
{
    struct state *state = cookie;
    uint32_t at = 0;
    while (at < state->key_count && state->keys[at] != row->parent_key)
        at++;
    if (at == state->key_count) {
        if (state->key_count == KEYS_MAX)
            return -ENOSPC;
        state->keys[state->key_count++] = row->parent_key;
        state->host->log(row, 2, "opened");
    }
    return give(state, row, row->inputs[0].i64);
}

static void evict_keep(void *cookie, uint64_t key)
{
    struct state *state = cookie;
    for (uint32_t at = 0; at < state->key_count; at++) {
        if (state->keys[at] != key)
            continue;
        state->keys[at] = state->keys[--state->key_count];
        state->host->log(NULL, 2, "evicted");
        return;
    }
    state->host->log(NULL, 2, "evicted what was not open");
}

/* A text of so many bytes, all of one letter that follows from the number. */
static int run_blob(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    size_t bytes = (size_t)row->inputs[0].i64;
    char *text = state->host->alloc(row, bytes + 1);
    if (!text)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no room for %zu", bytes);
    memset(text, 'a' + (int)(bytes % 26), bytes);
    struct sheaf_value value = {.kind = SHEAF_TEXT, .data = text, .length_bytes = bytes};
    return state->host->answer(row, &value, 1);
}

/* ---- values as large as a good part of a budget ---- */

static int room_for(const struct state *state, const struct sheaf_row *row, size_t bytes, struct sheaf_value *ret_value)
{
    char *text = state->host->alloc(row, bytes);
    if (!text)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no room for %zu", bytes);
    memset(text, 'p', bytes);
    *ret_value = (struct sheaf_value){.kind = SHEAF_TEXT, .data = text, .length_bytes = bytes};
    return 1;
}

/* As many children as the number says below a thousand, of so many KiB as it says above. */
static int run_pour(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    int64_t count = row->inputs[0].i64 % 1000;
    size_t bytes = (size_t)(row->inputs[0].i64 / 1000) << 10;
    struct sheaf_value none = {.kind = SHEAF_NONE};
    int status = 1;
    for (int64_t i = 0; i < count && status > 0; i++) {
        struct sheaf_value child;
        status = room_for(state, row, bytes, &child);
        if (status > 0 && (status = state->host->emit(row, &child, 1)) == 0)
            status = 1;
    }
    return status > 0 ? state->host->answer(row, &none, 1) : status;
}

/* A copy of a text. */
static int run_again(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    struct sheaf_value copy;
    int status = room_for(state, row, row->inputs[0].length_bytes, &copy);
    return status > 0 ? state->host->answer(row, &copy, 1) : status;
}

/* The length of a text; raises at the first attempt for every third key. */
static int run_swallow(void *cookie, const struct sheaf_row *row, char *message)
{
    if (row->attempt == 0 && row->key % 3 == 0)
        return -EAGAIN;
    return give(cookie, row, (int64_t)row->inputs[0].length_bytes);
}

/* One of three shapes. */
static int run_shaped(void *cookie, const struct sheaf_row *row, char *message)
{
    static const char pixels[3];
    const struct state *state = cookie;
    struct sheaf_tensor tensor = {.dtype = SHEAF_U8, .rank = 1, .stride_bytes = {1}};
    tensor.shape[0] = 1 + (uint64_t)row->inputs[0].i64 % 3;
    struct sheaf_value value = {
        .kind = SHEAF_TENSOR, .data = pixels, .length_bytes = tensor.shape[0], .tensor = &tensor};
    return state->host->answer(row, &value, 1);
}

/* Says so if the rows of a batch are of several shapes. */
static int run_one_shape(void *cookie, const struct sheaf_batch *batch, char *message)
{
    const struct state *state = cookie;
    for (uint32_t i = 0; i < batch->row_count; i++) {
        if (batch->rows[i]->inputs[0].tensor->shape[0] != batch->rows[0]->inputs[0].tensor->shape[0])
            state->host->log(NULL, 2, "mixed shapes");
        give(state, batch->rows[i], (int64_t)batch->rows[i]->inputs[0].tensor->shape[0]);
    }
    return 0;
}

/* Says so if several rows together have over 1,000 bytes. */
static int run_weigh(void *cookie, const struct sheaf_batch *batch, char *message)
{
    const struct state *state = cookie;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < batch->row_count; i++)
        bytes += batch->rows[i]->inputs[0].length_bytes;
    if (batch->row_count > 1 && bytes > 1000)
        state->host->log(NULL, 2, "too heavy");
    for (uint32_t i = 0; i < batch->row_count; i++)
        give(state, batch->rows[i], (int64_t)batch->rows[i]->inputs[0].length_bytes);
    return 0;
}

/* ---- signatures ---- */

#define I64(name)                                                                                                      \
    {                                                                                                                  \
        name, SHEAF_I64, 0, NULL                                                                                       \
    }
static const struct sheaf_port one[] = {I64("x")}, text[] = {{"text", SHEAF_TEXT, 0, NULL}},
                               tensor[] = {{"tensor", SHEAF_TENSOR, 0, NULL}};
static const struct sheaf_port texts[] = {{"children", SHEAF_TEXT, SHEAF_PORT_GROUP, NULL}};
static const struct sheaf_port group[] = {{"children", SHEAF_I64, SHEAF_PORT_GROUP, NULL}};
static const struct sheaf_port twelve[] = {I64("a"), I64("b"), I64("c"), I64("d"), I64("e"), I64("f"),
                                           I64("g"), I64("h"), I64("i"), I64("j"), I64("k"), I64("l")};
static const struct sheaf_option trouble_options[] = {
    {.name = "at", .type = SHEAF_OPTION_I64_LIST, .fallback = {.type = SHEAF_OPTION_I64_LIST}},
    {.name = "how",
     .type = SHEAF_OPTION_TEXT,
     .fallback = {.type = SHEAF_OPTION_TEXT, .text = "raise"},
     .choices = "raise|crash|hang"}};
static const struct sheaf_option fifo_options[] = {{.name = "fifo", .type = SHEAF_OPTION_TEXT, .required = 1}};

static const struct sheaf_option linger_options[] = {
    {.name = "how", .type = SHEAF_OPTION_TEXT, .required = 1, .choices = "hang|spin|atexit|stop"}};

static const struct sheaf_option late_options[] = {
    {.name = "file", .type = SHEAF_OPTION_TEXT, .required = 1},
    {.name = "how", .type = SHEAF_OPTION_TEXT, .required = 1, .choices = "hang|stop|always"}};

#define BARE(label, in, out, ...)                                                                                      \
    {                                                                                                                  \
        .size = sizeof(struct sheaf_operator), .name = label, .version = "1", .summary = label, .inputs = in,          \
        .input_count = sizeof in / sizeof in[0], .outputs = out, .output_count = 1, __VA_ARGS__                        \
    }
#define OPERATOR(label, in, out, ...) BARE(label, in, out, .open = open_state, .close = close_state, __VA_ARGS__)
#define AT .options = trouble_options, .option_count = 1

static const struct sheaf_operator operators[] = {
    OPERATOR("gate", one, one, .run = run_gate, AT),
    OPERATOR("poison", one, one, .run = run_poison, .widest_failure = SHEAF_SCOPE_GROUP, AT),
    OPERATOR("say", one, one, .run = run_say),
    OPERATOR("spoil", one, one, .run = run_spoil, AT),
    OPERATOR("fresh", one, one, .run = run_fresh, AT),
    OPERATOR("batch_trouble", one, one, .run_batch = run_batch_trouble, .flags = SHEAF_OPERATOR_BATCH,
             .options = trouble_options, .option_count = 2),
    OPERATOR("burn", one, one, .run = run_burn),
    OPERATOR("sum12", twelve, one, .run = run_sum12),
    OPERATOR("stream_gate", one, group, .run = run_stream_gate, .options = fifo_options, .option_count = 1),
    OPERATOR("keep", one, one, .run = run_keep, .evict = evict_keep, .flags = SHEAF_OPERATOR_STATE_OF_PARENT),
    OPERATOR("blob", one, text, .run = run_blob),
    OPERATOR("pour", one, texts, .run = run_pour),
    OPERATOR("again", text, text, .run = run_again),
    OPERATOR("swallow", text, one, .run = run_swallow),
    OPERATOR("shaped", one, tensor, .run = run_shaped),
    OPERATOR("one_shape", tensor, one, .run_batch = run_one_shape,
             .flags = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_ONE_SHAPE),
    OPERATOR("weigh", text, one, .run_batch = run_weigh, .flags = SHEAF_OPERATOR_BATCH),
    BARE("late", one, one, .open = open_late, .close = close_state, .run = run_say, .options = late_options,
         .option_count = 2),
    BARE("linger", one, one, .open = open_state, .close = close_linger, .run = run_say, .options = linger_options,
         .option_count = 1),
    BARE("unopenable", one, one, .open = open_refused, .run = run_say),
};

SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    enum { COUNT = sizeof operators / sizeof operators[0] };
    static const struct sheaf_operator *table[COUNT];
    static const struct sheaf_plugin plugin = {sizeof plugin, SHEAF_OPERATOR_ABI, "engine_test", "1", table, COUNT, 0,
                                               NULL};
    for (uint32_t i = 0; i < COUNT; i++)
        table[i] = &operators[i];
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
