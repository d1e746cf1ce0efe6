/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operators of the conformance cases as a plug-in. Signatures are those of tests/common/operator_signatures.c, the
 * code is here. The case files' ops.py says exactly what each does.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/cases/settings.h"
#include "tests/common/operator_signatures.h"

#define MESSAGE_BYTES 512

static int64_t number_of(const struct sheaf_row *row)
{
    return row->inputs[0].i64;
}

static int64_t wrap(uint64_t number)
{
    return (int64_t)number;
}

static int64_t clamp(int64_t number, int64_t cap)
{
    number = number < 0 ? 0 : number;
    return number < cap ? number : cap;
}

static struct sheaf_value an_i64(int64_t number)
{
    return (struct sheaf_value){.kind = SHEAF_I64, .i64 = number};
}

static struct sheaf_value a_text(const char *text, size_t bytes)
{
    return (struct sheaf_value){.kind = SHEAF_TEXT, .data = text, .length_bytes = bytes};
}

static int give(const struct settings *s, const struct sheaf_row *row, struct sheaf_value value)
{
    return s->host->answer(row, &value, 1);
}

static int give_bool(const struct settings *s, const struct sheaf_row *row, bool value)
{
    return give(s, row, (struct sheaf_value){.kind = SHEAF_BOOL, .boolean = value});
}

static int fail(const struct settings *s, const struct sheaf_row *row, enum sheaf_scope scope, const char *word)
{
    return s->host->fail(row, scope, SHEAF_CLASS_NONE, "%s%s %" PRId64, s->tag, word, number_of(row));
}

static int raise_for(const struct settings *s, const struct sheaf_row *row, const char *word, char *message)
{
    snprintf(message, MESSAGE_BYTES, "%s%s %" PRId64, s->tag, word, number_of(row));
    return -EIO;
}

/* Does not return. */
static int crash(void)
{
    __builtin_trap();
}

/* ---- pure ones ---- */

static int run_id(void *state, const struct sheaf_row *row, char *message)
{
    return give(state, row, row->inputs[0]);
}

static int run_add(void *state, const struct sheaf_row *row, char *message)
{
    return give(state, row, an_i64(wrap((uint64_t)number_of(row) + (uint64_t)row->inputs[1].i64)));
}

static int run_mul(void *state, const struct sheaf_row *row, char *message)
{
    return give(state, row, an_i64(wrap((uint64_t)number_of(row) * (uint64_t)row->inputs[1].i64)));
}

static int run_neg(void *state, const struct sheaf_row *row, char *message)
{
    return give(state, row, an_i64(wrap(0 - (uint64_t)number_of(row))));
}

static int run_lt(void *state, const struct sheaf_row *row, char *message)
{
    return give_bool(state, row, number_of(row) < row->inputs[1].i64);
}

static int run_is_even(void *state, const struct sheaf_row *row, char *message)
{
    return give_bool(state, row, number_of(row) % 2 == 0);
}

static int run_not(void *state, const struct sheaf_row *row, char *message)
{
    return give_bool(state, row, !row->inputs[0].boolean);
}

static int run_and(void *state, const struct sheaf_row *row, char *message)
{
    return give_bool(state, row, row->inputs[0].boolean && row->inputs[1].boolean);
}

/* Counts by reading: the length that the value states must be the number of elements there are. */
static int run_len(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    struct sheaf_value element;
    int64_t count = 0;
    while (s->host->list_next(row->inputs[0].list, &element) > 0)
        count++;
    if ((uint64_t)count != row->inputs[0].length_bytes) {
        snprintf(message, MESSAGE_BYTES, "a list of %" PRIu64 " has %" PRId64 " elements", row->inputs[0].length_bytes,
                 count);
        return -EIO;
    }
    return give(s, row, an_i64(count));
}

static int run_sum(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    struct sheaf_value element;
    uint64_t sum = 0;
    while (s->host->list_next(row->inputs[0].list, &element) > 0)
        sum += (uint64_t)element.i64;
    return give(s, row, an_i64(wrap(sum)));
}

static int answer_appended(const struct settings *s, const struct sheaf_row *row, uint32_t count)
{
    static const struct sheaf_value none[2];
    return s->host->answer(row, none, count);
}

static int run_flat(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    struct sheaf_value inner, element;
    int status = 0;
    while (s->host->list_next(row->inputs[0].list, &inner) > 0)
        while (status == 0 && s->host->list_next(inner.list, &element) > 0)
            status = s->host->append(row, 0, &element);
    return status < 0 ? status : answer_appended(s, row, 1);
}

static int run_to_text(void *state, const struct sheaf_row *row, char *message)
{
    char text[32];
    int bytes = snprintf(text, sizeof text, "%" PRId64, number_of(row));
    return give(state, row, a_text(text, (size_t)bytes));
}

static int run_concat(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    const struct sheaf_value *a = &row->inputs[0], *b = &row->inputs[1];
    char *text = s->host->alloc(row, a->length_bytes + b->length_bytes + 1);
    if (!text)
        return -ENOMEM;
    memcpy(text, a->data, a->length_bytes);
    memcpy(text + a->length_bytes, b->data, b->length_bytes);
    return give(s, row, a_text(text, a->length_bytes + b->length_bytes));
}

static int run_join(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    size_t bytes = 0, separator_bytes = strlen(s->sep);
    char *text = s->host->alloc(row, 1);
    struct sheaf_value part;
    for (uint64_t i = 0; text && s->host->list_next(row->inputs[0].list, &part) > 0; i++) {
        size_t gap = i > 0 ? separator_bytes : 0;
        text = s->host->resize(row, text, bytes + gap + part.length_bytes + 1);
        if (!text)
            return -ENOMEM;
        memcpy(text + bytes, s->sep, gap);
        memcpy(text + bytes + gap, part.data, part.length_bytes);
        bytes += gap + part.length_bytes;
    }
    return text ? give(s, row, a_text(text, bytes)) : -ENOMEM;
}

static int run_const(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    switch (s->value.type) {
    case SHEAF_OPTION_BOOL:
        return give_bool(s, row, s->value.boolean);
    case SHEAF_OPTION_I64:
        return give(s, row, an_i64(s->value.i64));
    default:
        return give(s, row, a_text(s->value.text, strlen(s->value.text)));
    }
}

static int give_two(const struct settings *s, const struct sheaf_row *row, int64_t a, int64_t b)
{
    const struct sheaf_value values[2] = {an_i64(a), an_i64(b)};
    return s->host->answer(row, values, 2);
}

static int run_minmax(void *state, const struct sheaf_row *row, char *message)
{
    int64_t a = number_of(row), b = row->inputs[1].i64;
    return give_two(state, row, a < b ? a : b, a < b ? b : a);
}

static int run_nap(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    struct timespec nap = {s->ms / 1000, s->ms % 1000 * 1000000};
    if (numbers_have(&s->at, number_of(row)))
        nanosleep(&nap, NULL);
    return run_id(state, row, message);
}

/* ---- expanding ones ---- */

static int give_children(const struct settings *s, const struct sheaf_row *row, int64_t count, bool stream)
{
    for (int64_t i = 0; i < count; i++) {
        struct sheaf_value child = an_i64(i);
        int status = stream ? s->host->emit(row, &child, 1) : s->host->append(row, 0, &child);
        if (status < 0)
            return status;
    }
    return 0;
}

static int run_range(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    int status = give_children(s, row, clamp(number_of(row), s->cap), s->stream);
    return status < 0 ? status : answer_appended(s, row, 1);
}

static int run_split(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    struct sheaf_value element;
    int status = 0;
    while (status == 0 && s->host->list_next(row->inputs[0].list, &element) > 0)
        status = s->stream ? s->host->emit(row, &element, 1) : s->host->append(row, 0, &element);
    return status < 0 ? status : answer_appended(s, row, 1);
}

static int run_pair_expand(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    int64_t count = clamp(number_of(row), INT64_MAX), squares = count;
    if (numbers_have(&s->skew_at, number_of(row)))
        squares = count % 2 ? count - 1 : count + 1;
    int status = give_children(s, row, count, false);
    for (int64_t i = 0; status == 0 && i < squares; i++) {
        struct sheaf_value child = an_i64(wrap((uint64_t)i * (uint64_t)i));
        status = s->host->append(row, 1, &child);
    }
    return status < 0 ? status : answer_appended(s, row, 2);
}

static int run_flaky_range(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    bool fails = numbers_have(&s->at, number_of(row)) && row->attempt < s->k;
    int64_t count = clamp(number_of(row), s->cap);
    int status = give_children(s, row, fails ? clamp(s->emit, count) : count, true);
    if (status < 0)
        return status;
    return fails ? raise_for(s, row, "flaky", message) : answer_appended(s, row, 1);
}

static int run_emit_then_fail(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    bool fails = numbers_have(&s->at, number_of(row));
    int status = give_children(s, row, fails ? clamp(s->k, INT64_MAX) : clamp(number_of(row), s->cap), true);
    if (status < 0)
        return status;
    if (!fails)
        return answer_appended(s, row, 1);
    if (strcmp(s->how, "crash") == 0)
        return crash();
    if (strcmp(s->how, "raise") == 0)
        return raise_for(s, row, "emit", message);
    return fail(s, row, strcmp(s->how, "group") == 0 ? SHEAF_SCOPE_GROUP : SHEAF_SCOPE_ITEM, "emit");
}

/* ---- failing ones ---- */

static int run_divmod(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    int64_t a = number_of(row), b = row->inputs[1].i64;
    if (b == 0)
        return s->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_NONE, "%sdivision by zero", s->tag);
    if (b == -1)
        return give_two(s, row, wrap(0 - (uint64_t)a), 0);
    return give_two(s, row, a / b, a % b);
}

static int run_fail_item_if(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    return numbers_have(&s->at, number_of(row)) ? fail(s, row, SHEAF_SCOPE_ITEM, "item") : run_id(state, row, message);
}

static int run_even_or_fail(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    return numbers_have(&s->at, number_of(row)) ? fail(s, row, SHEAF_SCOPE_ITEM, "item")
                                                : run_is_even(state, row, message);
}

static int run_fail_group_if(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    if (numbers_have(&s->at, number_of(row)))
        return fail(s, row, SHEAF_SCOPE_GROUP, "group");
    if (numbers_have(&s->item_at, number_of(row)))
        return fail(s, row, SHEAF_SCOPE_ITEM, "item");
    return run_id(state, row, message);
}

static int run_fail_root_if(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    if (numbers_have(&s->at, number_of(row)))
        return fail(s, row, SHEAF_SCOPE_ROOT, "root");
    if (numbers_have(&s->group_at, number_of(row)))
        return fail(s, row, SHEAF_SCOPE_GROUP, "group");
    if (numbers_have(&s->item_at, number_of(row)))
        return fail(s, row, SHEAF_SCOPE_ITEM, "item");
    return run_id(state, row, message);
}

static int run_crash_if(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    return numbers_have(&s->at, number_of(row)) ? crash() : run_id(state, row, message);
}

static int run_hang_if(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    while (numbers_have(&s->at, number_of(row)))
        pause();
    return run_id(state, row, message);
}

static int run_flaky(void *state, const struct sheaf_row *row, char *message)
{
    const struct settings *s = state;
    if (!numbers_have(&s->at, number_of(row)) || row->attempt >= s->k)
        return run_id(state, row, message);
    return strcmp(s->how, "crash") == 0 ? crash() : raise_for(s, row, "flaky", message);
}

/* ---- those that see the batch ---- */

static int batch_raise_if(void *state, const struct sheaf_batch *batch, char *message)
{
    const struct settings *s = state;
    for (uint32_t i = 0; i < batch->row_count; i++)
        if (numbers_have(&s->at, number_of(batch->rows[i])))
            return raise_for(s, batch->rows[i], "raise", message);
    for (uint32_t i = 0; i < batch->row_count; i++)
        run_id(state, batch->rows[i], message);
    return 0;
}

/* One row too few: the last, whoever is guilty. */
static int batch_bad_rows_if(void *state, const struct sheaf_batch *batch, char *message)
{
    const struct settings *s = state;
    bool any = false;
    for (uint32_t i = 0; i < batch->row_count; i++)
        any |= numbers_have(&s->at, number_of(batch->rows[i]));
    bool short_of_rows = any && strcmp(s->how, "rows") == 0;
    for (uint32_t i = 0; i + short_of_rows < batch->row_count; i++) {
        const struct sheaf_row *row = batch->rows[i];
        bool guilty = numbers_have(&s->at, number_of(row));
        if (guilty && strcmp(s->how, "columns") == 0)
            s->host->answer(row, NULL, 0);
        else if (guilty && strcmp(s->how, "kind") == 0)
            run_to_text(state, row, message);
        else
            run_id(state, row, message);
    }
    return 0;
}

/* ---- the table ---- */

#define OPERATORS_MAX 64u
static struct sheaf_operator operators[OPERATORS_MAX];
static const struct sheaf_operator *operator_pointers[OPERATORS_MAX];
static struct sheaf_plugin plugin;

static const struct sheaf_operator *find(const char *name)
{
    for (uint32_t i = 0; i < plugin.operator_count; i++)
        if (strcmp(operators[i].name, name) == 0)
            return &operators[i];
    return NULL;
}

/* `open` is not told for whom it is called: one function per operator. */
#define OPEN(symbol)                                                                                                   \
    static int open_##symbol(const struct sheaf_open *open, void **ret_state)                                          \
    {                                                                                                                  \
        return settings_open(open, find(#symbol), ret_state);                                                          \
    }
/* clang-format off */
#define EACH_ROW_OPERATOR(X)                                                                                           \
    X(id) X(add) X(mul) X(neg) X(lt) X(is_even) X(not) X(and) X(len) X(sum) X(flat) X(to_text) X(concat) X(join)       \
    X(const) X(minmax) X(nap) X(range) X(split) X(pair_expand) X(divmod) X(fail_item_if) X(even_or_fail)               \
    X(fail_group_if) X(fail_root_if) X(crash_if) X(hang_if) X(flaky) X(flaky_range) X(emit_then_fail)
#define EACH_BATCH_OPERATOR(X) X(raise_if) X(bad_rows_if)

EACH_ROW_OPERATOR(OPEN)
EACH_BATCH_OPERATOR(OPEN)
OPEN(tap)
/* clang-format on */

struct code {
    const char *name;
    int (*open)(const struct sheaf_open *open, void **ret_state);
    int (*run)(void *state, const struct sheaf_row *row, char *message);
    int (*run_batch)(void *state, const struct sheaf_batch *batch, char *message);
};

#define ROW_CODE(symbol) {#symbol, open_##symbol, run_##symbol, NULL},
#define BATCH_CODE(symbol) {#symbol, open_##symbol, NULL, batch_##symbol},
static const struct code codes[] = {
    /* clang-format off */
    EACH_ROW_OPERATOR(ROW_CODE)
    EACH_BATCH_OPERATOR(BATCH_CODE)
    {"tap", open_tap, run_id, NULL},
    /* clang-format on */
};

static const struct code *code_of(const char *name)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(codes[i].name, name) == 0)
            return &codes[i];
    return NULL;
}

SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    if (host_abi != SHEAF_OPERATOR_ABI || operator_signatures.operator_count > OPERATORS_MAX)
        return NULL;
    plugin = operator_signatures;
    plugin.name = "conformance";
    plugin.operators = operator_pointers;
    for (uint32_t i = 0; i < plugin.operator_count; i++) {
        const struct code *code = code_of(operator_signatures.operators[i]->name);
        if (!code)
            return NULL;
        operators[i] = *operator_signatures.operators[i];
        operators[i].open = code->open;
        operators[i].close = settings_close;
        operators[i].run = code->run;
        operators[i].run_batch = code->run_batch;
        operator_pointers[i] = &operators[i];
    }
    return &plugin;
}
