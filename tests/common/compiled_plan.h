/* SPDX-License-Identifier: Apache-2.0 */
/* A program in YAML, over the operators of the conformance cases (signatures only), as a Plan for tests of lineage and
 * sched. */
#ifndef TESTS_COMMON_COMPILED_PLAN_H
#define TESTS_COMMON_COMPILED_PLAN_H

#include "program/plan.h"
#include "program/registry.h"

/* Fails the test, with the compiler's words, when the text does not compile. The caller destroys first the Plan, then
 * the registry. */
void compiled_plan(const char *text, struct sheaf_registry **ret_registry, struct sheaf_plan **ret_plan);

#endif
