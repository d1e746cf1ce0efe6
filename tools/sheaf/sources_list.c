/* SPDX-License-Identifier: Apache-2.0 */
#include "sources_list.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sources.h"

enum { BUFFER_BYTES = 64 << 10, LINE_BYTES_MAX = 1 << 20 };

struct sources_list {
    int descriptor;
    bool owns_descriptor, at_end;
    char separator;
    size_t begin, end; /* unread bytes in the buffer */
    struct text line;  /* a line so far */
    bool line_given;   /* it was handed out and is to be emptied */
    char buffer[BUFFER_BYTES];
};

int sources_list_open(const char *path, bool null_separated, struct sources_list **ret_list, struct text *error)
{
    bool is_standard = strcmp(path, "-") == 0;
    int descriptor = is_standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        text_addf(error, "files-from: %s: %s; try a file that exists, or - for standard input", path, strerror(errno));
        return SHEAF_E_USAGE;
    }
    struct sources_list *list = must_allocate(sizeof *list);
    memset(list, 0, offsetof(struct sources_list, buffer));
    list->descriptor = descriptor;
    list->owns_descriptor = !is_standard;
    list->separator = null_separated ? '\0' : '\n';
    *ret_list = list;
    return 0;
}

void sources_list_close(struct sources_list *list)
{
    if (list == NULL)
        return;
    if (list->owns_descriptor)
        close(list->descriptor);
    text_free(&list->line);
    free(list);
}

int sources_list_descriptor(const struct sources_list *list)
{
    return list->descriptor;
}

/* More bytes: 1, 0 at the end, SOURCES_WAIT or a negative errno. */
static int refill(struct sources_list *list)
{
    struct pollfd ready = {.fd = list->descriptor, .events = POLLIN};
    int count = poll(&ready, 1, 0);
    if (count == 0 || (count < 0 && errno == EINTR))
        return SOURCES_WAIT;
    ssize_t bytes = read(list->descriptor, list->buffer, sizeof list->buffer);
    if (bytes < 0)
        return errno == EINTR || errno == EAGAIN ? SOURCES_WAIT : -errno;
    list->begin = 0;
    list->end = (size_t)bytes;
    list->at_end = bytes == 0;
    return bytes > 0;
}

/* Moves buffered bytes to the line. 1 when the line is whole, 0, or -EILSEQ. */
static int take_line(struct sources_list *list)
{
    const char *from = list->buffer + list->begin;
    size_t left = list->end - list->begin;
    const char *stop = left == 0 ? NULL : memchr(from, list->separator, left);
    size_t length = stop == NULL ? left : (size_t)(stop - from);
    if (memchr(from, '\0', length) != NULL)
        return -EILSEQ; /* paths that end in NUL, taken for lines: only the first of them would be seen */
    text_add(&list->line, from, length);
    list->begin += length + (stop != NULL);
    return stop != NULL;
}

const char *sources_list_problem(int status)
{
    if (status == -EILSEQ)
        return "it holds NUL bytes, so its paths end in them; try -0";
    if (status == -ENAMETOOLONG)
        return "a line is longer than a mebibyte; try a list of paths, one a line";
    return strerror(-status);
}

int sources_list_next(struct sources_list *list, const char **ret_path)
{
    if (list->line_given)
        text_clear(&list->line);
    list->line_given = false;
    for (;;) {
        int whole = take_line(list);
        if (whole < 0)
            return whole;
        if (list->line.length > LINE_BYTES_MAX)
            return -ENAMETOOLONG;
        if (whole || list->at_end) {
            if (list->line.length > 0) {
                list->line_given = true;
                *ret_path = list->line.data;
                return SOURCES_ONE;
            }
            if (list->at_end)
                return SOURCES_END;
            continue;
        }
        int status = refill(list);
        if (status < 0 || status == SOURCES_WAIT)
            return status;
    }
}
