/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a plug-in's descriptors: versions, sizes, counts, names, kinds, defaults, choices. What passes here the
 * compiler and the engine trust.
 */
#ifndef SRC_PROGRAM_REGISTRY_CHECK_H
#define SRC_PROGRAM_REGISTRY_CHECK_H

#include <stdbool.h>

#include <sheaf/operator.h>

/* 0 or SHEAF_E_ABI with a line that names the plug-in, the operator and the field. */
int plugin_check(const struct sheaf_plugin *plugin, const char *where, struct sheaf_error *error);

/* Does `text` stand among choices "a|b|c"? */
bool choices_contain(const char *choices, const char *text);
/* Is the number, which may be one of a list, within the option's bounds? */
bool option_in_range(const struct sheaf_option *option, int64_t value);

#endif
