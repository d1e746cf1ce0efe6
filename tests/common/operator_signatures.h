/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operators of the conformance cases as signatures only: enough to compile any case. Their run functions refuse
 * every row, so this table is for compilers and planners; what the operators do is in the plug-in of the conformance
 * tests.
 */
#ifndef TESTS_COMMON_OPERATOR_SIGNATURES_H
#define TESTS_COMMON_OPERATOR_SIGNATURES_H

#include <sheaf/operator.h>

extern const struct sheaf_plugin operator_signatures;

#endif
