/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a Plan through the public API. */
#include "program/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program/memory.h"

void sheaf_plan_destroy(struct sheaf_plan *plan)
{
    if (!plan)
        return;
    memory_free(plan->memory);
    free(plan->memory);
    free(plan);
}

const char *sheaf_plan_warning(const struct sheaf_plan *plan, size_t index, uint32_t *ret_row)
{
    if (!plan || index >= plan->warning_count)
        return NULL;
    if (ret_row)
        *ret_row = plan->warnings[index].row;
    return plan->warnings[index].text;
}

const char *sheaf_plan_fingerprint(const struct sheaf_plan *plan)
{
    return plan ? plan->fingerprint : NULL;
}

size_t sheaf_plan_source_count(const struct sheaf_plan *plan)
{
    return plan ? plan->source_count : 0;
}

size_t sheaf_plan_output_count(const struct sheaf_plan *plan)
{
    return plan ? plan->output_count : 0;
}

static int describe_port(const struct sheaf_plan *plan, uint32_t index, const char *name, const char *file,
                         struct sheaf_plan_port *ret_port)
{
    const struct plan_port *port = &plan->ports[index];
    struct sheaf_plan_port described = {
        .size = ret_port->size,
        .kind = port->kind,
        .depth = plan->domains[port->domain].depth,
        .partial = port->partial,
        .name = name,
        .file = file,
    };
    if (ret_port->size < sizeof(described))
        return -EINVAL;
    memcpy(ret_port, &described, sizeof(described));
    return 0;
}

int sheaf_plan_source(const struct sheaf_plan *plan, size_t index, struct sheaf_plan_port *ret_port)
{
    if (!plan || !ret_port)
        return -EINVAL;
    if (index >= plan->source_count)
        return -ENOENT;
    return describe_port(plan, plan->sources[index], plan->ports[plan->sources[index]].name, NULL, ret_port);
}

int sheaf_plan_output(const struct sheaf_plan *plan, size_t index, struct sheaf_plan_port *ret_port)
{
    if (!plan || !ret_port)
        return -EINVAL;
    if (index >= plan->output_count)
        return -ENOENT;
    const struct plan_output *output = &plan->outputs[index];
    return describe_port(plan, output->port, output->name, output->file, ret_port);
}
