/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output patterns: "{name}.md", "{name}.pages/{2:05}.jpg". {name} is the source's name in the output tree, {k} or
 * {k:0w} the ordinal at depth k plus 1 (k from 2, depth 1 being the root), zero-padded to w digits.
 */
#ifndef SHEAF_TOOL_PATTERN_H
#define SHEAF_TOOL_PATTERN_H

#include "text.h"

/* 0, or SHEAF_E_USAGE with a reason: unknown field, unclosed brace, depth beyond `depth`, and a pattern that would give
 * two items of one Port the same file (every depth below the root must occur, and {name} too). */
int pattern_check(const char *pattern, uint32_t depth, const char **ret_reason);

/* Appends the path. The pattern was checked for this depth. */
void pattern_expand(const char *pattern, const char *name, const uint64_t *coordinate, uint32_t depth,
                    struct text *path);

/* A path that ends in .jpg or .png takes the other end when the value's media type is the other one, so that one
 * pattern serves whatever format the pipeline was set to. */
void pattern_fit_media_type(struct text *path, const char *media_type);

#endif
