/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in with one operator, for the registry's tests. */
#include <sheaf/operator.h>

static int run(void *state, const struct sheaf_row *row, char *message)
{
    return -1;
}

static const struct sheaf_port text[] = {{"text", SHEAF_TEXT, 0, "a text"}};
static const struct sheaf_operator echo = {
    .size = sizeof(echo),
    .name = "test.echo",
    .version = "1",
    .summary = "gives what it gets",
    .inputs = text,
    .outputs = text,
    .input_count = 1,
    .output_count = 1,
    .run = run,
};
static const struct sheaf_operator *const operators[] = {&echo};
static const struct sheaf_plugin plugin = {
    .size = sizeof(plugin),
    .abi = SHEAF_OPERATOR_ABI,
    .name = "test",
    .version = "1",
    .operators = operators,
    .operator_count = 1,
};

SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);
const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
