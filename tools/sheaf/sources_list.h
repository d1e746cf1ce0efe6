/* SPDX-License-Identifier: Apache-2.0 */
/* Paths from a file or standard input, line by line, without ever blocking on a slow writer. */
#ifndef SHEAF_TOOL_SOURCES_LIST_H
#define SHEAF_TOOL_SOURCES_LIST_H

#include "text.h"

struct sources_list;

int sources_list_open(const char *path, bool null_separated, struct sources_list **ret_list, struct text *error);
void sources_list_close(struct sources_list *list);
/* SOURCES_ONE and a path, valid until the next call; SOURCES_END, SOURCES_WAIT; or a negative errno
 * (sources_list_problem says what it means). Empty lines are passed over; the last line needs no end. */
int sources_list_next(struct sources_list *list, const char **ret_path);
const char *sources_list_problem(int status);
int sources_list_descriptor(const struct sources_list *list);

#endif
