/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of output trees share: a folder of their own, and looking at what is in it. */
#ifndef TESTS_IO_TREE_FIXTURE_H
#define TESTS_IO_TREE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/tree/tree.h"

#define TEXT_BYTES 4096

struct fixture {
    char folder[64];
    enum sheaf_io_backend backend;
    uint64_t random;
};

uint64_t next_random(struct fixture *fixture);
void remove_all(const char *folder);
/* The initial state is an enum sheaf_io_backend; sync stands in for uring where that is denied. */
int set_up(void **state);
int tear_down(void **state);
struct sheaf_tree_options options_of(const struct fixture *fixture);
/* A file of the tree; NULL when it is missing. Free it. */
char *read_text(const struct fixture *fixture, const char *name);
void assert_text(const struct fixture *fixture, const char *name, const char *expected);
bool exists(const struct fixture *fixture, const char *name);
unsigned count_files(const struct fixture *fixture, const char *name);
unsigned count_of(const char *text, const char *word);
void wait_readable(int fd);
struct sheaf_tree *open_again(const struct fixture *fixture, const char *run_id);

#define ON(backend, function)                                                                                          \
    {                                                                                                                  \
#function " " #backend, function, set_up, tear_down, (void *)(uintptr_t)SHEAF_IO_##backend                     \
    }
#define ON_BOTH(function) ON(URING, function), ON(SYNC, function)

#endif
