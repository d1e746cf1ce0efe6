/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators for jobs in which workers die. What a row gives follows from its input alone, whichever process runs it and
 * however often. Items are numbers 1000 * root + ordinal.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sheaf/operator.h>

static const struct sheaf_host *host;
static int64_t parents_open; /* keys that `kin` holds state for in this process */

static int open_any(const struct sheaf_open *open, void **ret_state)
{
    host = open->host;
    *ret_state = NULL;
    return 0;
}

static int answer_i64(const struct sheaf_row *row, int64_t number)
{
    struct sheaf_value value = {.kind = SHEAF_I64, .i64 = number};
    return host->answer(row, &value, 1);
}

static int run_id(void *state, const struct sheaf_row *row, char *message)
{
    return host->answer(row, row->inputs, 1);
}

static bool fails_whole_root(int64_t root)
{
    return root % 3 == 2;
}

/* Children one by one, of which each is a row elsewhere before the next is made. */
static int run_burst(void *state, const struct sheaf_row *row, char *message)
{
    int64_t root = row->inputs[0].i64, count = fails_whole_root(root) ? 40 : 3 + root % 7;
    for (int64_t i = 0; i < count; i++) {
        struct sheaf_value child = {.kind = SHEAF_I64, .i64 = root * 1000 + i};
        int status = host->emit(row, &child, 1);
        if (status < 0)
            return status;
    }
    struct sheaf_value none = {.kind = SHEAF_NONE};
    return host->answer(row, &none, 1);
}

/* 500 children at once. */
static int run_spread(void *state, const struct sheaf_row *row, char *message)
{
    for (int64_t i = 0; i < 500; i++) {
        struct sheaf_value child = {.kind = SHEAF_I64, .i64 = row->inputs[0].i64 * 500 + i};
        int status = host->append(row, 0, &child);
        if (status < 0)
            return status;
    }
    struct sheaf_value none = {.kind = SHEAF_NONE};
    return host->answer(row, &none, 1);
}

/* Fails the root for one of its items. */
static int run_guard(void *state, const struct sheaf_row *row, char *message)
{
    int64_t item = row->inputs[0].i64;
    if (fails_whole_root(item / 1000) && item % 1000 == 20)
        return host->fail(row, SHEAF_SCOPE_ROOT, SHEAF_CLASS_MALFORMED, "root of %" PRId64, item);
    return answer_i64(row, item);
}

/* Bytes of many sizes with a media type; some rows want more memory than a worker starts with. */
/* A descriptor of bytes in memory, now and then: the engine copies them from where it sees them. */
static int look_at_file(const struct sheaf_row *row, int64_t item)
{
    struct sheaf_value file = {.kind = SHEAF_FILE, .data = "bytes", .length_bytes = 5, .name = "bytes.txt"};
    char bytes[5] = "";
    int fd, status = item % 13 == 4 ? host->file_descriptor(row, &file, &fd) : 0;
    if (item % 13 == 4 && status == 0 && (pread(fd, bytes, 5, 0) != 5 || memcmp(bytes, "bytes", 5) != 0))
        return -EIO;
    return status;
}

/* The first three times more than the process can have by then, whatever it was given before: it must ask for it. */
static size_t scratch_bytes(void)
{
    static unsigned times;
    size_t bytes = ((size_t)16 << 20 << times) - ((size_t)4 << 20);
    times += times < 2;
    return bytes;
}

static int run_paint(void *state, const struct sheaf_row *row, char *message)
{
    int64_t item = row->inputs[0].i64;
    if (item % 11 == 5)
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_MALFORMED, "item %" PRId64, item);
    int status = look_at_file(row, item);
    if (status < 0)
        return status;
    size_t bytes = (size_t)(item * 7919 % 3000 + 1) + (item % 50 == 1 ? 200000 : 0);
    if (item % 1000 == 2 && item / 1000 < 5 && !fails_whole_root(item / 1000)) {
        size_t much = scratch_bytes();
        char *scratch = host->alloc(row, much);
        if (!scratch)
            return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory");
        scratch[0] = scratch[much - 1] = 1;
    }
    char *data = host->alloc(row, bytes + 100);
    data = data ? host->resize(row, data, bytes) : NULL;
    if (!data)
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory");
    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)(item + (int64_t)i * 31);
    struct sheaf_value value = {.kind = SHEAF_BYTES, .data = data, .length_bytes = bytes, .name = "image/test"};
    return host->answer(row, &value, 1);
}

/* A list by appending, copied from this function's own memory. */
static int run_words(void *state, const struct sheaf_row *row, char *message)
{
    char word[64];
    for (uint64_t i = 0; i < row->inputs[0].length_bytes % 5; i++) {
        int bytes = snprintf(word, sizeof word, "%" PRIu64 " of %" PRIu64, i, row->inputs[0].length_bytes);
        struct sheaf_value value = {.kind = SHEAF_TEXT, .data = word, .length_bytes = (uint64_t)bytes};
        int status = host->append(row, 0, &value);
        if (status < 0)
            return status;
    }
    struct sheaf_value none = {.kind = SHEAF_NONE};
    return host->answer(row, &none, 1);
}

static int run_weigh(void *state, const struct sheaf_batch *batch, char *message)
{
    for (uint32_t at = 0; at < batch->row_count; at++) {
        if (batch->rows[at]->inputs[0].i64 % 23 == 9) {
            snprintf(message, 512, "one of them is bad");
            return -EIO;
        }
    }
    for (uint32_t at = 0; at < batch->row_count; at++)
        answer_i64(batch->rows[at], batch->rows[at]->inputs[0].i64 * 3);
    return 0;
}

static int run_kin(void *state, const struct sheaf_row *row, char *message)
{
    parents_open++;
    return answer_i64(row, row->inputs[0].i64 + row->inputs[1].i64);
}

static void evict_kin(void *state, uint64_t key)
{
    parents_open--;
}

static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(1099511628211);
    return hash;
}

/* What came back under the root, in order, as one line. */
static int run_total(void *state, const struct sheaf_row *row, char *message)
{
    uint64_t hash = UINT64_C(14695981039346656037), count = 0, errors = 0;
    for (uint32_t input = 0; input < row->input_count; input++) {
        struct sheaf_value element, inner;
        struct sheaf_list_error error;
        while (host->list_next(row->inputs[input].list, &element) > 0) {
            count++;
            if (SHEAF_KIND_DEPTH(element.kind) > 0) {
                while (host->list_next(element.list, &inner) > 0)
                    hash = mix(hash, inner.data, inner.length_bytes);
            } else if (element.kind == SHEAF_I64) {
                hash = mix(hash, &element.i64, sizeof element.i64);
            } else {
                hash = mix(hash, element.data, element.length_bytes);
                hash = mix(hash, element.name, strlen(element.name));
            }
        }
        while (host->list_error_next(row->inputs[input].list, &error) > 0) {
            errors++;
            hash = mix(hash, &error.ordinal, sizeof error.ordinal);
            hash = mix(hash, error.message, strlen(error.message));
        }
    }
    char text[128];
    int bytes = snprintf(text, sizeof text, "%" PRIu64 " values, %" PRIu64 " errors, %016" PRIx64, count, errors, hash);
    struct sheaf_value value = {.kind = SHEAF_TEXT, .data = text, .length_bytes = (uint64_t)bytes};
    return host->answer(row, &value, 1);
}

static const struct sheaf_port any[] = {{"value", SHEAF_ANY, 0, NULL}};
static const struct sheaf_port number[] = {{"number", SHEAF_I64, 0, NULL}};
static const struct sheaf_port two_numbers[] = {{"number", SHEAF_I64, 0, NULL}, {"other", SHEAF_I64, 0, NULL}};
static const struct sheaf_port numbers[] = {{"numbers", SHEAF_I64, SHEAF_PORT_GROUP, NULL}};
static const struct sheaf_port bytes_port[] = {{"bytes", SHEAF_BYTES, 0, NULL}};
static const struct sheaf_port words_port[] = {{"words", SHEAF_LIST_OF(SHEAF_TEXT, 1), 0, NULL}};
static const struct sheaf_port text_port[] = {{"text", SHEAF_TEXT, 0, NULL}};
static const struct sheaf_port lists[] = {{"pictures", SHEAF_LIST_OF(SHEAF_BYTES, 1), 0, NULL},
                                          {"words", SHEAF_LIST_OF(SHEAF_TEXT, 2), 0, NULL},
                                          {"weights", SHEAF_LIST_OF(SHEAF_I64, 1), 0, NULL},
                                          {"kins", SHEAF_LIST_OF(SHEAF_I64, 1), 0, NULL}};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define OPERATOR(label, in, out, ...)                                                                                  \
    {                                                                                                                  \
        .size = sizeof(struct sheaf_operator), .name = label, .version = "1", .summary = label, .inputs = in,          \
        .outputs = out, .input_count = COUNT_OF(in), .output_count = COUNT_OF(out), .open = open_any, __VA_ARGS__      \
    }

static const struct sheaf_operator operators[] = {
    OPERATOR("crash.id", any, any, .run = run_id),
    OPERATOR("crash.burst", number, numbers, .run = run_burst),
    OPERATOR("crash.spread", number, numbers, .run = run_spread),
    OPERATOR("crash.guard", number, number, .run = run_guard, .widest_failure = SHEAF_SCOPE_ROOT),
    OPERATOR("crash.paint", number, bytes_port, .run = run_paint),
    OPERATOR("crash.words", bytes_port, words_port, .run = run_words),
    OPERATOR("crash.weigh", number, number, .run_batch = run_weigh, .flags = SHEAF_OPERATOR_BATCH),
    OPERATOR("crash.kin", two_numbers, number, .run = run_kin, .evict = evict_kin,
             .flags = SHEAF_OPERATOR_STATE_OF_PARENT),
    OPERATOR("crash.total", lists, text_port, .run = run_total),
};

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

__attribute__((visibility("default"))) const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    static const struct sheaf_operator *table[COUNT_OF(operators)];
    static struct sheaf_plugin plugin = {sizeof plugin, SHEAF_OPERATOR_ABI,  "crash", "1",
                                         table,         COUNT_OF(operators), 0,       NULL};
    for (uint32_t at = 0; at < COUNT_OF(operators); at++)
        table[at] = &operators[at];
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
