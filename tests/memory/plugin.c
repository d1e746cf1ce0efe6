/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that take as much memory as they are told, and find out whether what others made is still what it was. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <sheaf/operator.h>

enum { HEAP_MIB, VALUE_MIB, CHILDREN };
#define MIB ((size_t)1 << 20)

struct state {
    const struct sheaf_host *host;
    int64_t numbers[3];
};

static int open_state(const struct sheaf_open *open, void **ret_state)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    state->host = open->host;
    for (uint32_t i = 0; i < open->option_count && i < 3; i++)
        state->numbers[i] = open->options[i].i64;
    *ret_state = state;
    return 0;
}

static void close_state(void *state)
{
    free(state);
}

/* Words that follow from a seed: what stands in the wrong place is found out. */
static void write_words(uint64_t *words, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = seed + i;
}

/* The seed, or UINT64_MAX when a word is not what it was. */
static uint64_t read_words(const struct sheaf_value *value)
{
    const uint64_t *words = value->data;
    for (size_t i = 0; i < value->length_bytes / sizeof *words; i++) {
        if (words[i] != words[0] + i)
            return UINT64_MAX;
    }
    return value->length_bytes ? words[0] : 0;
}

static int make(const struct state *state, const struct sheaf_row *row, uint64_t seed, struct sheaf_value *ret_value)
{
    size_t bytes = (size_t)state->numbers[VALUE_MIB] * MIB;
    void *memory = state->host->alloc(row, bytes);
    if (!memory)
        return -ENOMEM;
    write_words(memory, bytes, seed);
    *ret_value = (struct sheaf_value){.kind = SHEAF_BYTES, .data = memory, .length_bytes = bytes};
    return 0;
}

static int no_room(const struct state *state, const struct sheaf_row *row)
{
    return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no room for %lld MiB",
                             (long long)state->numbers[VALUE_MIB]);
}

/* A value, and while it is made that much of the process's own memory. */
static int run_fill(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    struct sheaf_value value;
    size_t bytes = (size_t)state->numbers[HEAP_MIB] * MIB;
    uint64_t *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_OOM, "no heap");
    write_words(own, bytes, 7);
    int status = make(state, row, row->key, &value);
    status = status < 0 ? no_room(state, row) : state->host->answer(row, &value, 1);
    munmap(own, bytes);
    return status;
}

static int run_split(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    struct sheaf_value child, none = {.kind = SHEAF_NONE};
    for (int64_t i = 0; i < state->numbers[CHILDREN]; i++) {
        if (make(state, row, (uint64_t)i << 32, &child) < 0)
            return no_room(state, row);
        int status = state->host->emit(row, &child, 1);
        if (status < 0)
            return status;
    }
    return state->host->answer(row, &none, 1);
}

/* The same words again, in memory of this worker. */
static int run_copy(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    struct sheaf_value value;
    uint64_t seed = read_words(&row->inputs[0]);
    if (seed == UINT64_MAX)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_MALFORMED, "its input was changed");
    return make(state, row, seed, &value) < 0 ? no_room(state, row) : state->host->answer(row, &value, 1);
}

static int say(const struct state *state, const struct sheaf_row *row, const char *text)
{
    struct sheaf_value value = {.kind = SHEAF_TEXT, .data = text, .length_bytes = strlen(text)};
    return state->host->answer(row, &value, 1);
}

static int run_check(void *cookie, const struct sheaf_row *row, char *message)
{
    char text[64];
    snprintf(text, sizeof text, "%s %llu", read_words(&row->inputs[0]) == UINT64_MAX ? "changed" : "well",
             (unsigned long long)row->inputs[0].length_bytes);
    return say(cookie, row, text);
}

/* Elements in the order of their seeds, all whole. */
static int run_join(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    struct sheaf_value child;
    uint64_t count = 0, bytes = 0, well = 0;
    while (state->host->list_next(row->inputs[0].list, &child) > 0) {
        well += read_words(&child) == count << 32;
        bytes += child.length_bytes;
        count++;
    }
    char text[96];
    snprintf(text, sizeof text, "%llu of %llu well, %llu bytes", (unsigned long long)well, (unsigned long long)count,
             (unsigned long long)bytes);
    return say(state, row, text);
}

static const struct sheaf_port document[] = {{"document", SHEAF_FILE, 0, NULL}};
static const struct sheaf_port words[] = {{"words", SHEAF_BYTES, 0, NULL}}, text[] = {{"text", SHEAF_TEXT, 0, NULL}};
static const struct sheaf_port group[] = {{"children", SHEAF_BYTES, SHEAF_PORT_GROUP, NULL}};
static const struct sheaf_port list[] = {{"list", SHEAF_LIST_OF(SHEAF_BYTES, 1), 0, NULL}};
#define NUMBER(label)                                                                                                  \
    {                                                                                                                  \
        .name = label, .type = SHEAF_OPTION_I64, .fallback = {.type = SHEAF_OPTION_I64}, .max = 1 << 20,               \
        .summary = label                                                                                               \
    }
static const struct sheaf_option numbers[] = {NUMBER("heap_mib"), NUMBER("value_mib"), NUMBER("children")};

#define OPERATOR(label, in, out, body)                                                                                 \
    {                                                                                                                  \
        .size = sizeof(struct sheaf_operator), .name = label, .version = "1", .summary = label, .inputs = in,          \
        .input_count = 1, .outputs = out, .output_count = 1, .options = numbers, .option_count = 3,                    \
        .open = open_state, .close = close_state, .run = body                                                          \
    }
static const struct sheaf_operator operators[] = {
    OPERATOR("memory.fill", document, words, run_fill), OPERATOR("memory.split", document, group, run_split),
    OPERATOR("memory.copy", words, words, run_copy),    OPERATOR("memory.check", words, text, run_check),
    OPERATOR("memory.join", list, text, run_join),
};

SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    enum { COUNT = sizeof operators / sizeof operators[0] };
    static const struct sheaf_operator *table[COUNT];
    static const struct sheaf_plugin plugin = {sizeof plugin, SHEAF_OPERATOR_ABI, "memory_test", "1", table, COUNT, 0,
                                               NULL};
    for (uint32_t i = 0; i < COUNT; i++)
        table[i] = &operators[i];
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
