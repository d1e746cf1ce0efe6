/* SPDX-License-Identifier: Apache-2.0 */
#include "tree_fixture.h"

#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t next_random(struct fixture *fixture)
{
    fixture->random ^= fixture->random << 13;
    fixture->random ^= fixture->random >> 7;
    fixture->random ^= fixture->random << 17;
    return fixture->random;
}

void remove_all(const char *folder)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* A file system in memory where there is one: these tests are about processes that die, not about power. */
int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    const char *seed = getenv("SHEAF_SEED");
    struct io_options options = {.backend = (enum sheaf_io_backend)(uintptr_t)*state};
    struct io *io;

    fixture->backend = options.backend;
    strcpy(fixture->folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/sheaf-tree-XXXXXX" : "/tmp/sheaf-tree-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    fixture->random = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + (uint64_t)getpid();
    print_message("SHEAF_SEED=%llu\n", (unsigned long long)fixture->random);
    *state = fixture;
    if (io_create(&options, &io, NULL) < 0) {
        print_message("io_uring is not available here: the same over plain system calls\n");
        fixture->backend = SHEAF_IO_SYNC;
        return 0;
    }
    io_destroy(io);
    return 0;
}

int tear_down(void **state)
{
    struct fixture *fixture = *state;

    remove_all(fixture->folder);
    free(fixture);
    return 0;
}

struct sheaf_tree_options options_of(const struct fixture *fixture)
{
    return (struct sheaf_tree_options){.size = sizeof(struct sheaf_tree_options),
                                       .durability = SHEAF_DURABILITY_FULL,
                                       .run_id = "first",
                                       .fingerprint = "f1",
                                       .description = "call: a\n  dpi: 150\n",
                                       .io = fixture->backend};
}

char *read_text(const struct fixture *fixture, const char *name)
{
    char path[PATH_MAX], *text = calloc(1, TEXT_BYTES * 16);

    snprintf(path, sizeof path, "%s/%s", fixture->folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        free(text);
        return NULL;
    }
    size_t length = fread(text, 1, TEXT_BYTES * 16 - 1, file);
    text[length] = '\0';
    fclose(file);
    return text;
}

void assert_text(const struct fixture *fixture, const char *name, const char *expected)
{
    char *text = read_text(fixture, name);

    if (text == NULL)
        fail_msg("%s is missing", name);
    assert_string_equal(text, expected);
    free(text);
}

bool exists(const struct fixture *fixture, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", fixture->folder, name);
    return access(path, F_OK) == 0;
}

static unsigned counted;
static int count_file(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    counted += type == FTW_F;
    return 0;
}

unsigned count_files(const struct fixture *fixture, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", fixture->folder, name);
    counted = 0;
    nftw(path, count_file, 16, FTW_PHYS);
    return counted;
}

unsigned count_of(const char *text, const char *word)
{
    unsigned count = 0;

    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        count++;
    return count;
}

void wait_readable(int fd)
{
    struct pollfd descriptor = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&descriptor, 1, 60000), 1);
}

struct sheaf_tree *open_again(const struct fixture *fixture, const char *run_id)
{
    struct sheaf_tree_options options = options_of(fixture);
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_tree *tree = NULL;

    options.run_id = run_id;
    int rc = sheaf_tree_open(fixture->folder, &options, &tree, &error);
    if (rc < 0)
        fail_msg("%d: %s", rc, error.message);
    return tree;
}
