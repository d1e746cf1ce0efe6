/* SPDX-License-Identifier: Apache-2.0 */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int SHEAF_PRINTF(5, 6) problem(struct io_source_problem *ret_problem, enum sheaf_class class_id, int code,
                                      const char *path, const char *format, ...)
{
    va_list values;
    /* The reason matters more than the head of a long path. */
    size_t length = strlen(path);
    const char *shown = length > 150 ? path + length - 150 : path;
    int used = snprintf(ret_problem->message, sizeof ret_problem->message, "%s%s: ", length > 150 ? "..." : "", shown);

    va_start(values, format);
    vsnprintf(ret_problem->message + used, sizeof ret_problem->message - (size_t)used, format, values);
    va_end(values);
    ret_problem->class_id = class_id;
    ret_problem->code = code;
    return code;
}

static int64_t mtime_of(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

static int open_problem(const char *path, int code, struct io_source_problem *ret_problem)
{
    if (code == -ELOOP)
        return problem(ret_problem, SHEAF_CLASS_UNREADABLE, code, path,
                       "is a symbolic link, which is not followed; name the file it leads to");
    if (code == -EMFILE || code == -ENFILE)
        return problem(ret_problem, SHEAF_CLASS_UNREADABLE, code, path, "too many open files; raise ulimit -n");
    if (code == -ENXIO || code == -ENODEV)
        return problem(ret_problem, SHEAF_CLASS_UNSUPPORTED, code, path, "is a socket or device, not a regular file");
    return problem(ret_problem, SHEAF_CLASS_UNREADABLE, code, path, "cannot be opened: %s", strerror(-code));
}

static const char *type_name(mode_t mode)
{
    return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a FIFO" : S_ISSOCK(mode) ? "a socket" : "a device";
}

static int check_opened(int fd, const char *path, struct io_source *ret_source, struct io_source_problem *ret_problem)
{
    struct stat status;

    if (fstat(fd, &status) < 0)
        return problem(ret_problem, SHEAF_CLASS_UNREADABLE, -errno, path, "cannot be examined: %s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return problem(ret_problem, SHEAF_CLASS_UNSUPPORTED, S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL, path,
                       "is %s, not a regular file", type_name(status.st_mode));
    if (status.st_size == 0)
        return problem(ret_problem, SHEAF_CLASS_EMPTY, -ENODATA, path, "is empty (0 bytes)");
    /* O_NONBLOCK kept a FIFO from blocking the open; on a regular file it would make io_uring give up early. */
    if (fcntl(fd, F_SETFL, 0) < 0)
        return problem(ret_problem, SHEAF_CLASS_UNREADABLE, -errno, path, "cannot be prepared: %s", strerror(errno));
    *ret_source = (struct io_source){fd, (uint64_t)status.st_size, mtime_of(&status)};
    return 0;
}

int io_source_open(const char *path, bool follow, struct io_source *ret_source, struct io_source_problem *ret_problem)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW);
    int fd;

    do
        fd = open(path, flags);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return open_problem(path, -errno, ret_problem);
    int rc = check_opened(fd, path, ret_source, ret_problem);
    if (rc < 0)
        close(fd);
    return rc;
}

int io_source_verify(const char *path, const struct io_source *source, struct io_source_problem *ret_problem)
{
    struct stat status;

    if (fstat(source->fd, &status) < 0)
        return problem(ret_problem, SHEAF_CLASS_IO, -errno, path, "cannot be examined: %s", strerror(errno));
    if ((uint64_t)status.st_size != source->size_bytes)
        return problem(ret_problem, SHEAF_CLASS_IO, -ESTALE, path,
                       "changed while it was read: %llu bytes at the start, %llu now; run again when it is complete",
                       (unsigned long long)source->size_bytes, (unsigned long long)status.st_size);
    if (mtime_of(&status) != source->mtime_ns)
        return problem(ret_problem, SHEAF_CLASS_IO, -ESTALE, path,
                       "was written to while it was read; run again when it is complete");
    return 0;
}
