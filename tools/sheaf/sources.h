/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sources a run has: folders, files, globs, or a list from a file or standard input, one after another.
 *
 * Nothing holds the whole: a folder is read when its turn comes, sorted by the bytes of its names (one of more than
 * SOURCES_SORTED entries in pieces of that many), a list is read as it is consumed. Names are bytes.
 *
 * What is a source: every regular file below an input folder, and every symbolic link to one. Links to folders are not
 * followed (so there are no loops), hidden files and folders are passed over, and so are sockets, devices, pipes and
 * output folders, ours and those that hold the journal of another run. What is named itself, as an argument or in a
 * list, is always taken, links followed. What cannot be read is still a source, one with a `problem`.
 *
 * `name` is what output files are named after. One input folder: the path below it. Several inputs: the path below the
 * deepest folder that holds them all. A list: the path as it stands there. So two sources never share a name.
 */
#ifndef SHEAF_TOOL_SOURCES_H
#define SHEAF_TOOL_SOURCES_H

#include <sys/stat.h>

#include "text.h"

enum { SOURCES_SORTED = 1 << 20 };

struct sources_options {
    const struct text_list *inputs;
    const struct text_list *includes, *excludes; /* globs over the last component, for what is found in folders */
    const char *files_from;                      /* NULL: none; "-": standard input */
    bool null_separated;
    bool recursive;
};

/* One source; strings are valid until the next call. */
struct source {
    const char *path;
    const char *name;
    const char *problem; /* NULL, or why it cannot be read */
    uint64_t size_bytes;
    int64_t mtime_ns;
};

struct sources_counts {
    uint64_t found, hidden, special, folder_links, excluded, outputs;
};

struct sources;

/* Resolves arguments. 0; with a line: SHEAF_E_INPUT for a pattern that nothing matches, SHEAF_E_USAGE for an input that
 * does not exist or lies inside another. */
int sources_open(const struct sources_options *options, struct sources **ret_sources, struct text *error);
void sources_close(struct sources *sources);

/* Names the output folder, so that it is passed over before there is a journal in it. */
void sources_own_output(struct sources *sources, const struct stat *folder);

enum { SOURCES_END = 0, SOURCES_ONE = 1, SOURCES_WAIT = 2 };
/* ONE and a source; END; WAIT: the list has none yet, poll sources_descriptor; or a negative errno (the list broke). */
int sources_next(struct sources *sources, struct source *ret_source);
int sources_descriptor(const struct sources *sources);

void sources_count(const struct sources *sources, struct sources_counts *ret_counts);

#endif
