/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that behave well and badly, for the tests of the worker. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sheaf/operator.h>

static const struct sheaf_host *host;

static int open_any(const struct sheaf_open *open, void **ret_state)
{
    host = open->host;
    *ret_state = NULL;
    return 0;
}

static int open_refused(const struct sheaf_open *open, void **ret_state)
{
    (void)ret_state;
    snprintf(open->error, open->error_bytes, "there is no such\nlibrary");
    return SHEAF_E_ENVIRONMENT;
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

static int run_upper(void *state, const struct sheaf_row *row, char *message)
{
    size_t length = row->inputs[0].length_bytes;
    const char *text = row->inputs[0].data;
    char *unused = host->alloc(row, 100000), *upper = host->alloc(row, 1);
    upper = upper != NULL ? host->resize(row, upper, length) : NULL;
    if (unused == NULL || upper == NULL)
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory");
    for (size_t at = 0; at < length; at++)
        upper[at] = text[at] >= 'a' && text[at] <= 'z' ? (char)(text[at] - 32) : text[at];
    struct sheaf_value value = {.kind = SHEAF_TEXT, .data = upper, .length_bytes = length};
    return host->answer(row, &value, 1);
}

static int run_range(void *state, const struct sheaf_row *row, char *message)
{
    for (int64_t number = 0; number < row->inputs[0].i64; number++) {
        struct sheaf_value value = {.kind = SHEAF_I64, .i64 = 10 * number};
        int status = host->emit(row, &value, 1);
        if (status < 0)
            return status;
    }
    struct sheaf_value none = {.kind = SHEAF_NONE};
    return host->answer(row, &none, 1);
}

/* Appends the words of a text to output 0, and their lengths to output 1; a word "!" goes to output 0 only. */
static int run_split(void *state, const struct sheaf_row *row, char *message)
{
    const char *text = row->inputs[0].data, *end = text + row->inputs[0].length_bytes;
    while (text < end) {
        const char *stop = memchr(text, ' ', (size_t)(end - text));
        stop = stop != NULL ? stop : end;
        struct sheaf_value word = {.kind = SHEAF_TEXT, .data = text, .length_bytes = (uint64_t)(stop - text)};
        struct sheaf_value length = {.kind = SHEAF_I64, .i64 = stop - text};
        int status = host->append(row, 0, &word);
        if (status == 0 && *text != '!')
            status = host->append(row, 1, &length);
        if (status < 0)
            return status;
        text = stop + 1;
    }
    struct sheaf_value none[2] = {{.kind = SHEAF_NONE}, {.kind = SHEAF_NONE}};
    return host->answer(row, none, 2);
}

static int run_sum(void *state, const struct sheaf_row *row, char *message)
{
    int64_t sum = 0;
    struct sheaf_value element;
    for (int pass = 0; pass < 2; pass++) {
        int status;
        while ((status = host->list_next(row->inputs[0].list, &element)) > 0)
            sum += element.i64;
        if (status < 0)
            return status;
        host->list_rewind(row->inputs[0].list);
    }
    struct sheaf_list_error error;
    while (host->list_error_next(row->inputs[0].list, &error) > 0)
        sum += 1000000 * (int64_t)error.ordinal + (int64_t)strlen(error.message);
    return answer_i64(row, sum);
}

static int run_trouble(void *state, const struct sheaf_row *row, char *message)
{
    struct sheaf_value values[3] = {
        {.kind = SHEAF_I64, .i64 = 1}, {.kind = SHEAF_I64, .i64 = 2}, {.kind = SHEAF_I64, .i64 = 3}};
    switch (row->inputs[0].i64) {
    case 0: /* no answer */
        return 0;
    case 1:
        host->answer(row, values, 1);
        host->answer(row, values, 1);
        return 0;
    case 2: /* too many values */
        host->answer(row, values, 2);
        return 0;
    case 3:
        values[0].kind = SHEAF_TEXT;
        values[0].data = "text";
        host->answer(row, values, 1);
        return 0;
    case 4: /* wider than declared */
        host->fail(row, SHEAF_SCOPE_ROOT, SHEAF_CLASS_MALFORMED, "too wide");
        return 0;
    case 5:
        strcpy(message, "raised on purpose");
        return -EIO;
    case 6:
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_MALFORMED, "cause %d", 6);
    case 7:
        host->log(row, 2, "row %d", 7);
        host->log(NULL, 1, "no row");
        return answer_i64(row, 7);
    case 13:
        raise(SIGKILL);
        return 0;
    case 14: /* until somebody does not want it any more */
        while (!host->cancelled(row))
            usleep(1000);
        return 0;
    default:
        return answer_i64(row, row->inputs[0].i64);
    }
}

static int run_batch(void *state, const struct sheaf_batch *batch, char *message)
{
    for (uint32_t at = batch->row_count; at > 0; at--) {
        const struct sheaf_row *row = batch->rows[at - 1];
        if (row->inputs[0].i64 == 13) {
            strcpy(message, "one of them is bad");
            return -EIO;
        }
        if (row->inputs[0].i64 == 15)
            host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_MALFORMED, "fifteen");
        else if (row->inputs[0].i64 != 14)
            answer_i64(row, row->inputs[0].i64 * 100 + batch->row_count);
    }
    return 0;
}

/* So many bytes, as a JPEG would be; and the same again to drop. */
static int run_heavy(void *state, const struct sheaf_row *row, char *message)
{
    size_t bytes = (size_t)row->inputs[0].i64;
    char *drop = host->alloc(row, bytes), *keep = host->alloc(row, bytes);
    if (drop == NULL || keep == NULL)
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
    memset(drop, 1, bytes);
    memset(keep, 2, bytes);
    struct sheaf_value value = {.kind = SHEAF_BYTES, .data = keep, .length_bytes = bytes, .name = "image/jpeg"};
    return host->answer(row, &value, 1);
}

static int run_tensor(void *state, const struct sheaf_row *row, char *message)
{
    uint8_t *pixels = host->alloc(row, 6000);
    memset(pixels, 7, 6000);
    struct sheaf_tensor shape = {.dtype = SHEAF_U8, .rank = 3, .shape = {20, 100, 3}, .stride_bytes = {300, 3, 1}};
    struct sheaf_value value = {.kind = SHEAF_TENSOR, .data = pixels, .length_bytes = 6000, .tensor = &shape};
    return host->answer(row, &value, 1);
}

static int run_parent(void *state, const struct sheaf_row *row, char *message)
{
    return answer_i64(row, (int64_t)row->parent_key);
}

static void evict_parent(void *state, uint64_t key)
{
    host->log(NULL, 0, "evicted %llu", (unsigned long long)key);
}

static int run_first_byte(void *state, const struct sheaf_row *row, char *message)
{
    int fd, again;
    char byte = 0;
    int status = host->file_descriptor(row, &row->inputs[0], &fd);
    if (status == 0)
        status = host->file_descriptor(row, &row->inputs[0], &again);
    if (status < 0 || fd != again || pread(fd, &byte, 1, 0) != 1)
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_IO, "%s: status %d", row->inputs[0].name, status);
    return answer_i64(row, byte);
}

static const struct sheaf_port any_port[] = {{"value", SHEAF_ANY, 0, NULL}};
static const struct sheaf_port i64_port[] = {{"number", SHEAF_I64, 0, NULL}};

#define OPERATOR(label, ...)                                                                                           \
    {                                                                                                                  \
        .size = sizeof(struct sheaf_operator), .name = label, .version = "1", .summary = label, .inputs = any_port,    \
        .outputs = i64_port, .input_count = 1, .output_count = 1, .open = open_any, __VA_ARGS__                        \
    }

static const struct sheaf_operator operators[] = {
    OPERATOR("id", .run = run_id),
    OPERATOR("upper", .run = run_upper),
    OPERATOR("range", .run = run_range),
    OPERATOR("split", .run = run_split),
    OPERATOR("sum", .run = run_sum),
    OPERATOR("trouble", .run = run_trouble),
    OPERATOR("batch", .run_batch = run_batch, .flags = SHEAF_OPERATOR_BATCH),
    OPERATOR("heavy", .run = run_heavy),
    OPERATOR("tensor", .run = run_tensor),
    OPERATOR("parent", .run = run_parent, .evict = evict_parent, .flags = SHEAF_OPERATOR_STATE_OF_PARENT),
    OPERATOR("first_byte", .run = run_first_byte),
    {.size = sizeof(struct sheaf_operator), .name = "refused", .run = run_id, .open = open_refused},
};

#define COUNT (sizeof operators / sizeof operators[0])

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

__attribute__((visibility("default"))) const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    static const struct sheaf_operator *table[COUNT];
    static struct sheaf_plugin plugin = {sizeof plugin, SHEAF_OPERATOR_ABI, "test", "1", table, COUNT, 0, NULL};
    for (uint32_t at = 0; at < COUNT; at++)
        table[at] = &operators[at];
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
