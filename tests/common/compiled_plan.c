/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/compiled_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/common/operator_signatures.h"

void compiled_plan(const char *text, struct sheaf_registry **ret_registry, struct sheaf_plan **ret_plan)
{
    struct sheaf_program *program;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    assert_int_equal(sheaf_registry_create(ret_registry), 0);
    assert_int_equal(registry_add_plugin(*ret_registry, &operator_signatures, NULL, NULL), 0);
    assert_int_equal(sheaf_program_create(*ret_registry, &program), 0);
    int status = sheaf_program_parse(program, "test", text, strlen(text), NULL, 0, &error);
    status = status ? status : sheaf_program_compile(program, ret_plan, &error);
    if (status)
        print_error("%s\n", error.message);
    assert_int_equal(status, 0);
    sheaf_program_destroy(program);
}
