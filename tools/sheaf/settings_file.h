/* SPDX-License-Identifier: Apache-2.0 */
/* The settings file: one YAML mapping of scalars. Who reads it decides which keys exist. */
#ifndef SHEAF_TOOL_SETTINGS_FILE_H
#define SHEAF_TOOL_SETTINGS_FILE_H

#include "text.h"

typedef int (*settings_file_take)(void *cookie, const char *key, const char *value, const char *where,
                                  struct text *error);

/* Calls `take` for every pair; `where` is "path:line". 0 when there is no such file and it need not exist. */
int settings_file_read(const char *path, bool must_exist, settings_file_take take, void *cookie, struct text *error);

#endif
