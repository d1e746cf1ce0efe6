/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lineage/operators.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct context {
    const struct plan_call *call;
    const json_t *inputs;
    unsigned attempt;
    struct row_result *result;
};

static const struct sheaf_option_value *option(const struct context *c, const char *name)
{
    for (uint32_t i = 0; i < c->call->op->option_count; i++)
        if (strcmp(c->call->op->options[i].name, name) == 0)
            return &c->call->options[i];
    return NULL;
}

static bool listed(const struct context *c, const char *name, json_int_t value)
{
    const struct sheaf_option_value *list = option(c, name);
    for (uint32_t i = 0; list && i < list->count; i++)
        if (list->i64s[i] == value)
            return true;
    return false;
}

static json_int_t number(const struct context *c, size_t index)
{
    return json_integer_value(json_array_get(c->inputs, index));
}

static void give(const struct context *c, json_t *value)
{
    json_array_append_new(c->result->outputs, value);
}

static void give_copy(const struct context *c, const json_t *value)
{
    json_array_append_new(c->result->outputs, json_deep_copy(value));
}

static void ends(const struct context *c, enum row_end end, enum sheaf_scope scope, const char *word)
{
    const struct sheaf_option_value *tag = option(c, "tag");
    c->result->end = end;
    c->result->scope = scope;
    snprintf(c->result->cause, sizeof(c->result->cause), "%s%s %lld", tag ? tag->text : "", word, number(c, 0));
}

static json_t *count_to(json_int_t n)
{
    json_t *list = json_array();
    for (json_int_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(i));
    return list;
}

static json_int_t clamp(json_int_t n, json_int_t cap)
{
    n = n < 0 ? 0 : n;
    return n < cap ? n : cap;
}

static json_int_t wrap(unsigned long long value)
{
    return (json_int_t)value;
}

/* ---- one function per operator or family ---- */

static void run_id(const struct context *c)
{
    give_copy(c, json_array_get(c->inputs, 0));
}

static void run_add(const struct context *c)
{
    give(c, json_integer(wrap((unsigned long long)number(c, 0) + (unsigned long long)number(c, 1))));
}

static void run_mul(const struct context *c)
{
    give(c, json_integer(wrap((unsigned long long)number(c, 0) * (unsigned long long)number(c, 1))));
}

static void run_neg(const struct context *c)
{
    give(c, json_integer(wrap(0ull - (unsigned long long)number(c, 0))));
}

static void run_lt(const struct context *c)
{
    give(c, json_boolean(number(c, 0) < number(c, 1)));
}

static void run_is_even(const struct context *c)
{
    give(c, json_boolean(number(c, 0) % 2 == 0));
}

static void run_not(const struct context *c)
{
    give(c, json_boolean(!json_is_true(json_array_get(c->inputs, 0))));
}

static void run_and(const struct context *c)
{
    give(c, json_boolean(json_is_true(json_array_get(c->inputs, 0)) && json_is_true(json_array_get(c->inputs, 1))));
}

static void run_len(const struct context *c)
{
    give(c, json_integer((json_int_t)json_array_size(json_array_get(c->inputs, 0))));
}

static void run_sum(const struct context *c)
{
    unsigned long long sum = 0;
    size_t i;
    json_t *value;
    json_array_foreach(json_array_get(c->inputs, 0), i, value) sum += (unsigned long long)json_integer_value(value);
    give(c, json_integer(wrap(sum)));
}

static void run_flat(const struct context *c)
{
    json_t *flat = json_array(), *list;
    size_t i;
    json_array_foreach(json_array_get(c->inputs, 0), i, list)
    {
        json_t *copy = json_deep_copy(list);
        json_array_extend(flat, copy);
        json_decref(copy);
    }
    give(c, flat);
}

static void run_to_text(const struct context *c)
{
    give(c, json_sprintf("%lld", number(c, 0)));
}

static void run_concat(const struct context *c)
{
    give(c, json_sprintf("%s%s", json_string_value(json_array_get(c->inputs, 0)),
                         json_string_value(json_array_get(c->inputs, 1))));
}

static void run_join(const struct context *c)
{
    json_t *text = json_string(""), *part;
    size_t i;
    json_array_foreach(json_array_get(c->inputs, 0), i, part)
    {
        json_t *longer =
            json_sprintf("%s%s%s", json_string_value(text), i ? option(c, "sep")->text : "", json_string_value(part));
        json_decref(text);
        text = longer;
    }
    give(c, text);
}

static void run_const(const struct context *c)
{
    const struct sheaf_option_value *value = option(c, "value");
    if (value->type == SHEAF_OPTION_BOOL)
        give(c, json_boolean(value->boolean));
    else if (value->type == SHEAF_OPTION_I64)
        give(c, json_integer(value->i64));
    else
        give(c, json_string(value->text));
}

static void run_minmax(const struct context *c)
{
    json_int_t a = number(c, 0), b = number(c, 1);
    give(c, json_integer(a < b ? a : b));
    give(c, json_integer(a < b ? b : a));
}

static void run_range(const struct context *c)
{
    give(c, count_to(clamp(number(c, 0), option(c, "cap")->i64)));
    c->result->streams = option(c, "stream")->boolean;
}

static void run_split(const struct context *c)
{
    run_id(c);
    c->result->streams = option(c, "stream")->boolean;
}

static void run_pair_expand(const struct context *c)
{
    json_int_t n = number(c, 0) < 0 ? 0 : number(c, 0);
    if (listed(c, "skew_at", number(c, 0))) {
        c->result->end = ROW_BREAKS;
        return;
    }
    json_t *squares = json_array();
    for (json_int_t i = 0; i < n; i++)
        json_array_append_new(squares, json_integer(i * i));
    give(c, count_to(n));
    give(c, squares);
}

static void run_divmod(const struct context *c)
{
    json_int_t a = number(c, 0), b = number(c, 1);
    if (b == 0) {
        ends(c, ROW_DECLARES, SHEAF_SCOPE_ITEM, "");
        snprintf(c->result->cause, sizeof(c->result->cause), "%sdivision by zero", option(c, "tag")->text);
        return;
    }
    json_int_t quotient = b == -1 ? wrap(0ull - (unsigned long long)a) : a / b;
    give(c, json_integer(quotient));
    give(c, json_integer(b == -1 ? 0 : a % b));
}

static void run_fail_item_if(const struct context *c)
{
    if (listed(c, "at", number(c, 0)))
        ends(c, ROW_DECLARES, SHEAF_SCOPE_ITEM, "item");
    else
        run_id(c);
}

static void run_even_or_fail(const struct context *c)
{
    if (listed(c, "at", number(c, 0)))
        ends(c, ROW_DECLARES, SHEAF_SCOPE_ITEM, "item");
    else
        run_is_even(c);
}

static void run_fail_group_if(const struct context *c)
{
    if (listed(c, "at", number(c, 0)))
        ends(c, ROW_DECLARES, SHEAF_SCOPE_GROUP, "group");
    else if (listed(c, "item_at", number(c, 0)))
        ends(c, ROW_DECLARES, SHEAF_SCOPE_ITEM, "item");
    else
        run_id(c);
}

static void run_fail_root_if(const struct context *c)
{
    if (listed(c, "at", number(c, 0)))
        ends(c, ROW_DECLARES, SHEAF_SCOPE_ROOT, "root");
    else if (listed(c, "group_at", number(c, 0)))
        ends(c, ROW_DECLARES, SHEAF_SCOPE_GROUP, "group");
    else if (listed(c, "item_at", number(c, 0)))
        ends(c, ROW_DECLARES, SHEAF_SCOPE_ITEM, "item");
    else
        run_id(c);
}

static void run_raise_if(const struct context *c)
{
    if (listed(c, "at", number(c, 0)))
        ends(c, ROW_RAISES, SHEAF_SCOPE_ITEM, "raise");
    else
        run_id(c);
}

static void run_crash_if(const struct context *c)
{
    if (listed(c, "at", number(c, 0)))
        c->result->end = ROW_CRASHES;
    else
        run_id(c);
}

static void run_hang_if(const struct context *c)
{
    if (listed(c, "at", number(c, 0)))
        c->result->end = ROW_HANGS;
    else
        run_id(c);
}

static void run_bad_rows_if(const struct context *c)
{
    if (listed(c, "at", number(c, 0)))
        c->result->end = strcmp(option(c, "how")->text, "kind") == 0 ? ROW_BREAKS : ROW_BREAKS_ANSWER;
    else
        run_id(c);
}

static void run_flaky(const struct context *c)
{
    bool fails = listed(c, "at", number(c, 0)) && (json_int_t)c->attempt < option(c, "k")->i64;
    if (!fails)
        run_id(c);
    else if (strcmp(option(c, "how")->text, "crash") == 0)
        c->result->end = ROW_CRASHES;
    else
        ends(c, ROW_RAISES, SHEAF_SCOPE_ITEM, "flaky");
}

static void run_flaky_range(const struct context *c)
{
    json_int_t n = clamp(number(c, 0), option(c, "cap")->i64);
    c->result->streams = true;
    if (listed(c, "at", number(c, 0)) && (json_int_t)c->attempt < option(c, "k")->i64) {
        ends(c, ROW_RAISES, SHEAF_SCOPE_ITEM, "flaky");
        n = option(c, "emit")->i64 < n ? option(c, "emit")->i64 : n;
    }
    give(c, count_to(n));
}

static void run_emit_then_fail(const struct context *c)
{
    c->result->streams = true;
    if (!listed(c, "at", number(c, 0))) {
        give(c, count_to(clamp(number(c, 0), option(c, "cap")->i64)));
        return;
    }
    const char *how = option(c, "how")->text;
    give(c, count_to(option(c, "k")->i64));
    if (strcmp(how, "crash") == 0)
        c->result->end = ROW_CRASHES;
    else if (strcmp(how, "raise") == 0)
        ends(c, ROW_RAISES, SHEAF_SCOPE_ITEM, "emit");
    else
        ends(c, ROW_DECLARES, strcmp(how, "group") == 0 ? SHEAF_SCOPE_GROUP : SHEAF_SCOPE_ITEM, "emit");
}

static const struct {
    const char *name;
    void (*run)(const struct context *context);
} table[] = {
    {"id", run_id},
    {"add", run_add},
    {"mul", run_mul},
    {"neg", run_neg},
    {"lt", run_lt},
    {"is_even", run_is_even},
    {"not", run_not},
    {"and", run_and},
    {"len", run_len},
    {"sum", run_sum},
    {"flat", run_flat},
    {"to_text", run_to_text},
    {"concat", run_concat},
    {"join", run_join},
    {"const", run_const},
    {"minmax", run_minmax},
    {"nap", run_id},
    {"range", run_range},
    {"split", run_split},
    {"pair_expand", run_pair_expand},
    {"tap", run_id},
    {"divmod", run_divmod},
    {"fail_item_if", run_fail_item_if},
    {"even_or_fail", run_even_or_fail},
    {"fail_group_if", run_fail_group_if},
    {"fail_root_if", run_fail_root_if},
    {"raise_if", run_raise_if},
    {"crash_if", run_crash_if},
    {"hang_if", run_hang_if},
    {"bad_rows_if", run_bad_rows_if},
    {"flaky", run_flaky},
    {"flaky_range", run_flaky_range},
    {"emit_then_fail", run_emit_then_fail},
};

void operator_run(const struct plan_call *call, const json_t *inputs, unsigned attempt, struct row_result *ret_result)
{
    *ret_result = (struct row_result){.end = ROW_ANSWERS, .outputs = json_array()};
    struct context context = {call, inputs, attempt, ret_result};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, call->op->name) == 0) {
            table[i].run(&context);
            return;
        }
    }
    assert(!"an operator of the conformance cases");
}
