/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of this folder share: a registry of test operators, and programs from short texts. */
#ifndef TESTS_PROGRAM_PROGRAM_TEST_H
#define TESTS_PROGRAM_PROGRAM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/plan.h"
#include "program/registry.h"
#include "tests/common/operator_signatures.h"

static inline struct sheaf_registry *test_registry(void)
{
    struct sheaf_registry *registry;
    assert_int_equal(sheaf_registry_create(&registry), 0);
    assert_int_equal(registry_add_plugin(registry, &operator_signatures, NULL, NULL), 0);
    return registry;
}

/* Parses and compiles; the text is called "t.yaml" in messages. */
static inline int try_compile(const struct sheaf_registry *registry, const char *text, const char *const *overrides,
                              size_t override_count, struct sheaf_plan **ret_plan, struct sheaf_error *error)
{
    struct sheaf_program *program;
    assert_int_equal(sheaf_program_create(registry, &program), 0);
    *error = (struct sheaf_error)SHEAF_ERROR_INIT;
    *ret_plan = NULL;
    int status = sheaf_program_parse(program, "t.yaml", text, strlen(text), overrides, override_count, error);
    if (status == 0)
        status = sheaf_program_compile(program, ret_plan, error);
    sheaf_program_destroy(program);
    return status;
}

static inline struct sheaf_plan *must_compile(const struct sheaf_registry *registry, const char *text)
{
    struct sheaf_plan *plan;
    struct sheaf_error error;
    if (try_compile(registry, text, NULL, 0, &plan, &error) != 0)
        fail_msg("refused: %s", error.message);
    return plan;
}

static inline uint32_t find_port(const struct sheaf_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->port_count; i++)
        if (strcmp(plan->ports[i].name, name) == 0)
            return i;
    fail_msg("no Port %s", name);
    return PLAN_NONE;
}

static inline uint32_t find_call(const struct sheaf_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->call_count; i++)
        if (strcmp(plan->calls[i].name, name) == 0)
            return i;
    fail_msg("no Call %s", name);
    return PLAN_NONE;
}

#endif
