/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/operator_signatures.h"

#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PORT(name, kind)                                                                                               \
    {                                                                                                                  \
        name, kind, 0, NULL                                                                                            \
    }
#define GROUP(name, kind)                                                                                              \
    {                                                                                                                  \
        name, kind, SHEAF_PORT_GROUP, NULL                                                                             \
    }
#define LIST(base) SHEAF_LIST_OF(base, 1)

static int run(void *state, const struct sheaf_row *row, char *message)
{
    snprintf(message, 512, "this table holds signatures only");
    return -1;
}

static int run_batch(void *state, const struct sheaf_batch *batch, char *message)
{
    snprintf(message, 512, "this table holds signatures only");
    return -1;
}

/* const gives what its option holds. */
static sheaf_kind const_kind(const struct sheaf_option_value *options, uint32_t output)
{
    switch (options[0].type) {
    case SHEAF_OPTION_BOOL:
        return SHEAF_BOOL;
    case SHEAF_OPTION_I64:
        return SHEAF_I64;
    default:
        return SHEAF_TEXT;
    }
}

static const struct sheaf_port any[] = {PORT("x", SHEAF_ANY)}, i64[] = {PORT("x", SHEAF_I64)},
                               i64_i64[] = {PORT("x", SHEAF_I64), PORT("y", SHEAF_I64)},
                               boolean[] = {PORT("x", SHEAF_BOOL)},
                               bool_bool[] = {PORT("x", SHEAF_BOOL), PORT("y", SHEAF_BOOL)},
                               list_any[] = {PORT("x", LIST(SHEAF_ANY))}, list_i64[] = {PORT("x", LIST(SHEAF_I64))},
                               list_list_any[] = {PORT("x", SHEAF_LIST_OF(SHEAF_ANY, 2))},
                               text[] = {PORT("x", SHEAF_TEXT)},
                               text_text[] = {PORT("x", SHEAF_TEXT), PORT("y", SHEAF_TEXT)},
                               list_text[] = {PORT("x", LIST(SHEAF_TEXT))},
                               group_i64[] = {GROUP("children", SHEAF_I64)},
                               group_any[] = {GROUP("children", SHEAF_ANY)},
                               two_groups[] = {GROUP("children", SHEAF_I64), GROUP("squares", SHEAF_I64)};

#define AT                                                                                                             \
    {                                                                                                                  \
        .name = "at", .type = SHEAF_OPTION_I64_LIST, .required = 1                                                     \
    }
#define LIST_OPTION(option)                                                                                            \
    {                                                                                                                  \
        .name = option, .type = SHEAF_OPTION_I64_LIST, .fallback = {.type = SHEAF_OPTION_I64_LIST }                    \
    }
#define TEXT_OPTION(option, value, allowed)                                                                            \
    {                                                                                                                  \
        .name = option, .type = SHEAF_OPTION_TEXT, .fallback = {.type = SHEAF_OPTION_TEXT, .text = value},             \
        .choices = allowed                                                                                             \
    }
#define I64_OPTION(option, value)                                                                                      \
    {                                                                                                                  \
        .name = option, .type = SHEAF_OPTION_I64, .fallback = {.type = SHEAF_OPTION_I64, .i64 = value }                \
    }
#define STREAM                                                                                                         \
    {                                                                                                                  \
        .name = "stream", .type = SHEAF_OPTION_BOOL, .fallback = {.type = SHEAF_OPTION_BOOL }                          \
    }
#define TAG TEXT_OPTION("tag", "", NULL)
#define CAP I64_OPTION("cap", 1000000)

static const struct sheaf_option sep[] = {TEXT_OPTION("sep", "", NULL)},
                                 value[] = {{.name = "value", .type = SHEAF_OPTION_SCALAR, .required = 1}},
                                 nap_options[] = {AT, I64_OPTION("ms", 20)}, range_options[] = {CAP, STREAM},
                                 stream[] = {STREAM}, skew[] = {LIST_OPTION("skew_at")}, tag[] = {TAG},
                                 at_tag[] = {AT, TAG}, at_item_tag[] = {AT, LIST_OPTION("item_at"), TAG},
                                 at_group_item_tag[] = {AT, LIST_OPTION("group_at"), LIST_OPTION("item_at"), TAG},
                                 bad_rows[] = {AT, TEXT_OPTION("how", "rows", "rows|columns|kind"), TAG},
                                 flaky_options[] = {AT, I64_OPTION("k", 1), TEXT_OPTION("how", "raise", "raise|crash"),
                                                    TAG},
                                 flaky_range_options[] = {AT, I64_OPTION("k", 1), I64_OPTION("emit", 1), CAP, TAG},
                                 emit_options[] = {AT,
                                                   {.name = "k", .type = SHEAF_OPTION_I64, .required = 1},
                                                   CAP,
                                                   TAG,
                                                   TEXT_OPTION("how", "item", "item|group|raise|crash")};

#define OPERATOR(symbol, called, in, out, ...)                                                                         \
    static const struct sheaf_operator symbol = {.size = sizeof(struct sheaf_operator),                                \
                                                 .name = called,                                                       \
                                                 .version = "1",                                                       \
                                                 .summary = "",                                                        \
                                                 .inputs = in,                                                         \
                                                 .input_count = COUNT(in),                                             \
                                                 .outputs = out,                                                       \
                                                 .output_count = COUNT(out),                                           \
                                                 __VA_ARGS__}
#define OPTIONS(array) .options = array, .option_count = COUNT(array)
#define ROWS .run = run
#define BATCH .run_batch = run_batch, .flags = SHEAF_OPERATOR_BATCH
#define GROUP_FAILURE .widest_failure = SHEAF_SCOPE_GROUP
#define ROOT_FAILURE .widest_failure = SHEAF_SCOPE_ROOT

OPERATOR(op_id, "id", any, any, ROWS);
OPERATOR(op_add, "add", i64_i64, i64, ROWS);
OPERATOR(op_mul, "mul", i64_i64, i64, ROWS);
OPERATOR(op_neg, "neg", i64, i64, ROWS);
OPERATOR(op_lt, "lt", i64_i64, boolean, ROWS);
OPERATOR(op_is_even, "is_even", i64, boolean, ROWS);
OPERATOR(op_not, "not", boolean, boolean, ROWS);
OPERATOR(op_and, "and", bool_bool, boolean, ROWS);
OPERATOR(op_len, "len", list_any, i64, ROWS);
OPERATOR(op_sum, "sum", list_i64, i64, ROWS);
OPERATOR(op_flat, "flat", list_list_any, list_any, ROWS);
OPERATOR(op_to_text, "to_text", i64, text, ROWS);
OPERATOR(op_concat, "concat", text_text, text, ROWS);
OPERATOR(op_join, "join", list_text, text, ROWS, OPTIONS(sep));
OPERATOR(op_const, "const", any, any, ROWS, OPTIONS(value), .output_kind = const_kind);
OPERATOR(op_minmax, "minmax", i64_i64, i64_i64, ROWS);
OPERATOR(op_nap, "nap", i64, i64, ROWS, OPTIONS(nap_options));
OPERATOR(op_range, "range", i64, group_i64, ROWS, OPTIONS(range_options));
OPERATOR(op_split, "split", list_any, group_any, ROWS, OPTIONS(stream));
OPERATOR(op_pair_expand, "pair_expand", i64, two_groups, ROWS, OPTIONS(skew));
OPERATOR(op_tap, "tap", any, any, ROWS, .flags = SHEAF_OPERATOR_SIDE_EFFECT);
OPERATOR(op_divmod, "divmod", i64_i64, i64_i64, ROWS, OPTIONS(tag));
OPERATOR(op_fail_item_if, "fail_item_if", i64, i64, ROWS, OPTIONS(at_tag));
OPERATOR(op_even_or_fail, "even_or_fail", i64, boolean, ROWS, OPTIONS(at_tag));
OPERATOR(op_fail_group_if, "fail_group_if", i64, i64, ROWS, OPTIONS(at_item_tag), GROUP_FAILURE);
OPERATOR(op_fail_root_if, "fail_root_if", i64, i64, ROWS, OPTIONS(at_group_item_tag), ROOT_FAILURE);
OPERATOR(op_raise_if, "raise_if", i64, i64, BATCH, OPTIONS(at_tag));
OPERATOR(op_crash_if, "crash_if", i64, i64, ROWS, OPTIONS(at_tag));
OPERATOR(op_hang_if, "hang_if", i64, i64, ROWS, OPTIONS(at_tag));
OPERATOR(op_bad_rows_if, "bad_rows_if", i64, i64, BATCH, OPTIONS(bad_rows));
OPERATOR(op_flaky, "flaky", i64, i64, ROWS, OPTIONS(flaky_options));
OPERATOR(op_flaky_range, "flaky_range", i64, group_i64, ROWS, OPTIONS(flaky_range_options));
OPERATOR(op_emit_then_fail, "emit_then_fail", i64, group_i64, ROWS, OPTIONS(emit_options), GROUP_FAILURE);

static const struct sheaf_operator *const operators[] = {
    &op_id,
    &op_add,
    &op_mul,
    &op_neg,
    &op_lt,
    &op_is_even,
    &op_not,
    &op_and,
    &op_len,
    &op_sum,
    &op_flat,
    &op_to_text,
    &op_concat,
    &op_join,
    &op_const,
    &op_minmax,
    &op_nap,
    &op_range,
    &op_split,
    &op_pair_expand,
    &op_tap,
    &op_divmod,
    &op_fail_item_if,
    &op_even_or_fail,
    &op_fail_group_if,
    &op_fail_root_if,
    &op_raise_if,
    &op_crash_if,
    &op_hang_if,
    &op_bad_rows_if,
    &op_flaky,
    &op_flaky_range,
    &op_emit_then_fail,
};

const struct sheaf_plugin operator_signatures = {
    .size = sizeof(struct sheaf_plugin),
    .abi = SHEAF_OPERATOR_ABI,
    .name = "signatures",
    .version = "1",
    .operators = operators,
    .operator_count = COUNT(operators),
};
