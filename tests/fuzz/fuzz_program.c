/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text either is refused with a message or compiles to a Plan that keeps its promises. The first line may hold an
 * override after "#set ". Runs over a kept corpus as an ordinary test (fuzz_main.c) or under libFuzzer.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "program/plan.h"
#include "program/registry.h"
#include "tests/common/operator_signatures.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_plan(const struct sheaf_plan *plan)
{
    for (uint32_t i = 0; i < plan->port_count; i++) {
        const struct plan_port *port = &plan->ports[i];
        assert(port->source == PLAN_NONE || port->source < i);
        assert(port->members == PLAN_NONE || port->members < i);
        assert(port->mask == PLAN_NONE || port->mask < i);
        assert(plan->domain_ports[plan->domains[port->domain].port_first + port->column] == i);
    }
    for (uint32_t i = 1; i < plan->domain_count; i++)
        assert(plan->domains[i].parent < i);
    for (uint32_t i = 0; i < plan->call_count; i++)
        assert(plan->calls[i].pool < plan->pool_count && plan->calls[i].batch_rows > 0);
    assert(strlen(plan->fingerprint) == 64);
}

static void describe(const struct sheaf_plan *plan, const char *format)
{
    char *text = NULL;
    int status = sheaf_plan_describe(plan, format, &text);
    assert(status == 0 && text);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sheaf_registry *registry;
    struct sheaf_program *program;
    struct sheaf_plan *plan = NULL;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    char override[256] = "";
    const char *overrides = override;
    static const char mark[] = "#set ";
    size_t skip = sizeof(mark) - 1;
    const uint8_t *end = size > skip && memcmp(data, mark, skip) == 0 ? memchr(data, '\n', size) : NULL;
    if (end && (size_t)(end - data) - skip < sizeof(override))
        memcpy(override, data + skip, (size_t)(end - data) - skip);
    int status = sheaf_registry_create(&registry);
    assert(status == 0);
    status = registry_add_plugin(registry, &operator_signatures, NULL, NULL);
    assert(status == 0);
    status = sheaf_program_create(registry, &program);
    assert(status == 0);
    status = sheaf_program_parse(program, "fuzz", (const char *)data, size, &overrides, *override != '\0', &error);
    if (status == 0)
        status = sheaf_program_compile(program, &plan, &error);
    sheaf_program_destroy(program);
    assert((status == 0) == (plan != NULL));
    assert(status == 0 || (error.code == status && error.message[0] && !strchr(error.message, '\n')));
    assert((status == SHEAF_E_REFUSED) == (error.row > 0));
    if (plan) {
        check_plan(plan);
        describe(plan, "text");
        describe(plan, "dot");
    }
    sheaf_plan_destroy(plan);
    sheaf_registry_destroy(registry);
    return 0;
}
