/* SPDX-License-Identifier: Apache-2.0 */
/* The I/O queue and the source reader, on both backends, with random short transfers and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/io.h"
#include "io/reader.h"

#define FILE_MAX 40

struct fixture {
    char folder[64];
    enum sheaf_io_backend backend;
    uint64_t random;
};

static uint64_t next_random(struct fixture *fixture)
{
    fixture->random ^= fixture->random << 13;
    fixture->random ^= fixture->random >> 7;
    fixture->random ^= fixture->random << 17;
    return fixture->random;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    const char *seed = getenv("SHEAF_SEED");

    fixture->backend = (enum sheaf_io_backend)(uintptr_t)*state;
    strcpy(fixture->folder, "/tmp/sheaf-io-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    fixture->random = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + (uint64_t)getpid();
    print_message("SHEAF_SEED=%llu\n", (unsigned long long)fixture->random);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", fixture->folder);
    int rc = system(command);
    free(fixture);
    return rc;
}

static char *path_of(const struct fixture *fixture, const char *name)
{
    char *path;

    assert_true(asprintf(&path, "%s/%s", fixture->folder, name) > 0);
    return path;
}

static void make_file(struct fixture *fixture, const char *name, size_t length, unsigned char **ret_bytes)
{
    char *path = path_of(fixture, name);
    FILE *file = fopen(path, "we");
    unsigned char *bytes = malloc(length + 1);

    assert_non_null(file);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)next_random(fixture);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    if (ret_bytes != NULL)
        *ret_bytes = bytes;
    else
        free(bytes);
    free(path);
}

/* Makes every transfer short at random, and now and then ends a piece with EINTR. */
static int64_t shorten(void *cookie, enum io_opcode opcode, uint64_t offset, uint64_t length)
{
    struct fixture *fixture = cookie;
    uint64_t random = next_random(fixture);

    if (random % 7 == 0)
        return random % 2 ? -EINTR : -EAGAIN;
    if (length <= 1 || random % 3 == 0)
        return (int64_t)length;
    return (int64_t)(1 + next_random(fixture) % length);
}

static struct io *make_queue(struct fixture *fixture, uint32_t depth, bool faults)
{
    struct io_options options = {.backend = fixture->backend, .depth = depth};
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct io *io = NULL;

    if (faults) {
        options.fault = shorten;
        options.fault_cookie = fixture;
    }
    int rc = io_create(&options, &io, &error);
    if (rc == SHEAF_E_ENVIRONMENT) {
        print_message("skipped: %s\n", error.message);
        skip();
    }
    assert_int_equal(rc, 0);
    assert_int_equal(io_backend(io), fixture->backend);
    return io;
}

static struct io_completion wait_one(struct io *io)
{
    struct io_completion completion = {0};
    int count;

    while ((count = io_reap(io, &completion, 1, IO_WAIT_FOREVER)) == 0)
        continue;
    assert_int_equal(count, 1);
    return completion;
}

/* What was written through the queue comes back through the queue, whatever the pieces; ranges past the end are short.
 */
static void test_write_then_read(void **state)
{
    struct fixture *fixture = *state;
    struct io *io = make_queue(fixture, 8, true);
    size_t length = IO_PIECE_BYTES * 2 + 12345;
    unsigned char *bytes = malloc(length), *back = calloc(1, length + 100);
    char *path = path_of(fixture, "data");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)(i * 31 >> 3);
    assert_int_equal(io_submit(io, &(struct io_request){IO_WRITE, fd, bytes, length, 7, 1}), 0);
    struct io_completion completion = wait_one(io);
    assert_int_equal(completion.tag, 1);
    assert_int_equal(completion.result, length);
    assert_int_equal(io_submit(io, &(struct io_request){IO_FDATASYNC, fd, NULL, 0, 0, 2}), 0);
    assert_int_equal(wait_one(io).result, 0);
    assert_int_equal(io_submit(io, &(struct io_request){IO_READ, fd, back, length + 100, 7, 3}), 0);
    assert_int_equal(wait_one(io).result, length); /* the end of the file is told, not an error */
    assert_memory_equal(bytes, back, length);
    assert_int_equal(back[length], 0);
    assert_int_equal(io_submit(io, &(struct io_request){IO_READ, fd, back, 10, length + 7, 4}), 0);
    assert_int_equal(wait_one(io).result, 0);
    assert_int_equal(io_submit(io, &(struct io_request){IO_READ, -1, back, 10, 0, 5}), 0);
    assert_int_equal(wait_one(io).result, -EBADF);
    assert_int_equal(io_submit(io, &(struct io_request){IO_READ, fd, NULL, 0, 0, 6}), 0);
    assert_int_equal(wait_one(io).result, 0);
    assert_int_equal(io_submit(io, &(struct io_request){(enum io_opcode)77, fd, NULL, 0, 0, 6}), -EINVAL);
    assert_int_equal(io_in_flight(io), 0);
    io_destroy(io);
    close(fd);
    free(path);
    free(bytes);
    free(back);
}

/* As many as the depth are taken, the next is refused, each completes once; folders can be synced. */
static void test_many(void **state)
{
    struct fixture *fixture = *state;
    struct io *io = make_queue(fixture, 16, true);
    struct io_completion completions[32];
    unsigned char *bytes, buffers[16][1000];
    unsigned seen = 0, folder_seen = 0, total = 0;

    make_file(fixture, "many", 16 * 1000, &bytes);
    char *path = path_of(fixture, "many");
    int fd = open(path, O_RDONLY | O_CLOEXEC), folder = open(fixture->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (uint64_t i = 0; i < 15; i++)
        assert_int_equal(io_submit(io, &(struct io_request){IO_READ, fd, buffers[i], 1000, i * 1000, i}), 0);
    assert_int_equal(io_submit(io, &(struct io_request){IO_FSYNC, folder, NULL, 0, 0, 99}), 0);
    assert_int_equal(io_submit(io, &(struct io_request){IO_READ, fd, buffers[15], 1000, 0, 15}), -EAGAIN);
    assert_int_equal(io_flush(io), 0);
    while (total < 16) {
        int count = io_reap(io, completions, 32, IO_WAIT_FOREVER);

        assert_true(count >= 0);
        for (int i = 0; i < count; i++, total++) {
            if (completions[i].tag == 99) {
                assert_int_equal(completions[i].result, 0);
                folder_seen++;
                continue;
            }
            assert_int_equal(completions[i].result, 1000);
            assert_memory_equal(buffers[completions[i].tag], bytes + completions[i].tag * 1000, 1000);
            seen |= 1u << completions[i].tag;
        }
    }
    assert_int_equal(seen, 0x7fff);
    assert_int_equal(folder_seen, 1);
    assert_int_equal(io_reap(io, completions, 32, 0), 0);
    io_destroy(io);
    close(fd);
    close(folder);
    free(path);
    free(bytes);
}

static int64_t always_fails(void *cookie, enum io_opcode opcode, uint64_t offset, uint64_t length)
{
    return offset >= 500 ? -EIO : (int64_t)(length < 500 ? length : 500);
}

/* An error in the middle of a range is the result of the whole range. */
static void test_error_midway(void **state)
{
    struct fixture *fixture = *state;
    struct io_options options = {.backend = fixture->backend, .fault = always_fails};
    unsigned char buffer[1000];
    struct io *io;

    if (io_create(&options, &io, NULL) < 0)
        skip();
    make_file(fixture, "bad", 1000, NULL);
    char *path = path_of(fixture, "bad");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(io_submit(io, &(struct io_request){IO_READ, fd, buffer, 1000, 0, 1}), 0);
    assert_int_equal(wait_one(io).result, -EIO);
    io_destroy(io);
    close(fd);
    free(path);
}

static void *wake_it(void *argument)
{
    io_wake(argument);
    return NULL;
}

/* A wait ends by a wake from another thread, also by one that came before it; one wake ends one wait. */
static void test_wake(void **state)
{
    struct fixture *fixture = *state;
    struct io *io = make_queue(fixture, 4, false);
    struct io_completion completion;
    pthread_t thread;

    for (int i = 0; i < 100; i++) {
        assert_int_equal(pthread_create(&thread, NULL, wake_it, io), 0);
        assert_int_equal(io_reap(io, &completion, 1, IO_WAIT_FOREVER), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_int_equal(io_reap(io, &completion, 1, 1000), 0); /* out of time */
    io_wake(io);
    assert_int_equal(io_reap(io, &completion, 1, 0), 0); /* does not wait, so does not use it up */
    assert_int_equal(io_reap(io, &completion, 1, IO_WAIT_FOREVER), 0);
    io_destroy(io);
}

/* ---- sources ---- */

static void check_refused(struct fixture *fixture, const char *name, enum sheaf_class class_id, const char *says)
{
    struct io_source source = {.fd = -7};
    struct io_source_problem problem;
    char *path = path_of(fixture, name);

    assert_true(io_source_open(path, false, &source, &problem) < 0);
    assert_int_equal(source.fd, -7);
    assert_int_equal(problem.class_id, class_id);
    assert_non_null(strstr(problem.message, path));
    assert_non_null(strstr(problem.message, says));
    free(path);
}

static void test_sources(void **state)
{
    struct fixture *fixture = *state;
    struct io_source source;
    struct io_source_problem problem;
    char *fifo = path_of(fixture, "fifo"), *link = path_of(fixture, "link"), *good = path_of(fixture, "good");

    make_file(fixture, "good", 10, NULL);
    make_file(fixture, "empty", 0, NULL);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("good", link), 0);
    check_refused(fixture, "missing", SHEAF_CLASS_UNREADABLE, "No such file");
    check_refused(fixture, "empty", SHEAF_CLASS_EMPTY, "empty");
    check_refused(fixture, ".", SHEAF_CLASS_UNSUPPORTED, "folder");
    check_refused(fixture, "fifo", SHEAF_CLASS_UNSUPPORTED, "FIFO");
    check_refused(fixture, "link", SHEAF_CLASS_UNREADABLE, "symbolic link");
    assert_int_equal(io_source_open("/dev/null", false, &source, &problem), -EINVAL);
    assert_int_equal(problem.class_id, SHEAF_CLASS_UNSUPPORTED);
    assert_int_equal(io_source_open(link, true, &source, &problem), 0);
    assert_int_equal(source.size_bytes, 10);
    assert_int_equal(io_source_verify(good, &source, &problem), 0);
    assert_int_equal(truncate(good, 5), 0);
    assert_int_equal(io_source_verify(good, &source, &problem), -ESTALE);
    assert_int_equal(problem.class_id, SHEAF_CLASS_IO);
    close(source.fd);
    free(fifo);
    free(link);
    free(good);
}

/* ---- the reader ---- */

struct reading {
    struct fixture *fixture;
    unsigned char *bytes[FILE_MAX];
    size_t length[FILE_MAX];
    uint32_t placed, done, open_now, open_most, later;
    uint64_t room_bytes; /* what may be placed at once */
    struct reader_result results[FILE_MAX];
    const char *shrink; /* truncated when its place is asked for */
    const char *grow;   /* appended to then */
};

static void append_byte(const char *path)
{
    FILE *file = fopen(path, "ae");

    assert_non_null(file);
    assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
}

static void place(void *cookie, uint64_t tag, const char *path, uint64_t size, int64_t mtime, struct reader_place *ret)
{
    struct reading *reading = cookie;

    assert_true(mtime > 0);
    if (size > reading->room_bytes) {
        reading->later++;
        ret->kind = READER_LATER;
        return;
    }
    if (tag == 3) {
        ret->kind = READER_STREAM;
        return;
    }
    if (tag == 5) {
        ret->kind = READER_REFUSE;
        ret->class_id = SHEAF_CLASS_TOO_LARGE;
        snprintf(ret->message, sizeof ret->message, "%s: over the cap", path);
        return;
    }
    if (reading->shrink != NULL && strstr(path, reading->shrink) != NULL)
        assert_int_equal(truncate(path, (off_t)(size / 2)), 0);
    if (reading->grow != NULL && strstr(path, reading->grow) != NULL)
        append_byte(path);
    reading->room_bytes -= size;
    reading->placed++;
    reading->open_now++;
    if (reading->open_now > reading->open_most)
        reading->open_most = reading->open_now;
    ret->kind = READER_READ;
    ret->memory = malloc(size);
}

static void done(void *cookie, const struct reader_result *result)
{
    struct reading *reading = cookie;

    assert_true(result->tag < FILE_MAX);
    assert_null(reading->results[result->tag].path); /* once only */
    reading->results[result->tag] = *result;
    reading->done++;
    if (result->memory != NULL) {
        reading->open_now--;
        reading->room_bytes += result->size_bytes;
    }
    if (result->class_id == SHEAF_CLASS_NONE && result->memory != NULL) {
        assert_int_equal(result->size_bytes, reading->length[result->tag]);
        assert_memory_equal(result->memory, reading->bytes[result->tag], result->size_bytes);
    }
    assert_int_equal(result->class_id == SHEAF_CLASS_NONE, result->message[0] == '\0');
    free(result->memory);
}

static struct reader *make_reader(struct reading *reading, bool faults)
{
    struct fixture *fixture = reading->fixture;
    struct reader_options options = {
        .io = {.backend = fixture->backend, .depth = 8, .fault = faults ? shorten : NULL, .fault_cookie = fixture},
        .in_flight_max = 6,
        .queued_max = FILE_MAX,
        .cookie = reading,
        .place = place,
        .done = done,
    };
    struct reader *reader;

    if (reader_create(&options, &reader, NULL) < 0)
        skip();
    return reader;
}

static void submit(struct reading *reading, struct reader *reader, uint64_t tag)
{
    char name[32];

    snprintf(name, sizeof name, "f%llu", (unsigned long long)tag);
    char *path = path_of(reading->fixture, name);
    assert_int_equal(reader_submit(reader, path, tag), 0);
    free(path);
}

static void make_inputs(struct reading *reading)
{
    char name[32];

    for (unsigned i = 0; i < FILE_MAX; i++) {
        snprintf(name, sizeof name, "f%u", i);
        reading->length[i] = 1 + next_random(reading->fixture) % 70000;
        make_file(reading->fixture, name, reading->length[i], &reading->bytes[i]);
    }
}

static void free_inputs(struct reading *reading)
{
    for (unsigned i = 0; i < FILE_MAX; i++)
        free(reading->bytes[i]);
}

/* Many files, bounded in flight and in memory, each reported once with its own bytes or its own problem. */
static void test_reader(void **state)
{
    struct reading reading = {.fixture = *state, .room_bytes = 200000, .shrink = "/f11", .grow = "/f13"};
    struct reader *reader = make_reader(&reading, true);
    char *gone = path_of(reading.fixture, "f7");

    make_inputs(&reading);
    assert_int_equal(unlink(gone), 0);
    for (uint64_t i = 0; i < FILE_MAX; i++)
        submit(&reading, reader, i);
    assert_int_equal(reader_submit(reader, gone, 1), -EAGAIN);
    while (reading.done < FILE_MAX) {
        assert_true(reader_step(reader, IO_WAIT_FOREVER) >= 0);
        reader_retry(reader); /* room came back with each result */
    }
    assert_int_equal(reader_pending(reader), 0);
    assert_int_equal(reading.results[3].class_id, SHEAF_CLASS_NONE);
    assert_true(reading.results[3].fd >= 0);
    assert_int_equal(close(reading.results[3].fd), 0);
    assert_int_equal(reading.results[5].class_id, SHEAF_CLASS_TOO_LARGE);
    assert_int_equal(reading.results[7].class_id, SHEAF_CLASS_UNREADABLE);
    assert_int_equal(reading.results[11].class_id, SHEAF_CLASS_IO);
    assert_int_equal(reading.results[11].code, -ESTALE);
    assert_int_equal(reading.results[13].class_id, SHEAF_CLASS_IO);
    assert_int_equal(reading.placed, FILE_MAX - 3);
    assert_true(reading.open_most <= 6);
    reader_destroy(reader);
    free(gone);
    free_inputs(&reading);
}

/* LATER keeps the order and is asked again only after a retry; destroying reports what is left as cancelled. */
static void test_reader_later(void **state)
{
    struct reading reading = {.fixture = *state, .room_bytes = 0};
    struct reader *reader = make_reader(&reading, false);

    make_inputs(&reading);
    submit(&reading, reader, 0);
    submit(&reading, reader, 1);
    reader_wake(reader);
    assert_int_equal(reader_step(reader, IO_WAIT_FOREVER), 0);
    assert_int_equal(reader_step(reader, 0), 0);
    assert_int_equal(reading.later, 1); /* nothing overtakes the one that waits */
    reading.room_bytes = reading.length[0];
    reader_retry(reader);
    while (reading.done == 0)
        assert_true(reader_step(reader, IO_WAIT_FOREVER) >= 0);
    assert_int_equal(reading.results[0].class_id, SHEAF_CLASS_NONE);
    reading.room_bytes = 0;
    reader_step(reader, 0);
    submit(&reading, reader, 2);
    reader_destroy(reader);
    assert_int_equal(reading.done, 3);
    assert_int_equal(reading.results[1].class_id, SHEAF_CLASS_CANCELLED);
    assert_int_equal(reading.results[2].class_id, SHEAF_CLASS_CANCELLED);
    free_inputs(&reading);
}

/* ---- where io_uring is denied ---- */

static void deny_io_uring(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
}

static int denied_child(void)
{
    struct io_options options = {.backend = SHEAF_IO_AUTO};
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct io *io = NULL;

    deny_io_uring();
    unsetenv("SHEAF_IO");
    if (io_create(&options, &io, NULL) != 0 || io_backend(io) != SHEAF_IO_SYNC)
        return 1;
    if (strstr(io_describe(io), "plain system calls") == NULL)
        return 2;
    io_destroy(io);
    options.backend = SHEAF_IO_URING;
    if (io_create(&options, &io, &error) != SHEAF_E_ENVIRONMENT || strstr(error.message, "SHEAF_IO=sync") == NULL)
        return 3;
    setenv("SHEAF_IO", "uring", 1);
    options.backend = SHEAF_IO_AUTO;
    if (io_create(&options, &io, &error) != SHEAF_E_ENVIRONMENT)
        return 4;
    setenv("SHEAF_IO", "nonsense", 1);
    return io_create(&options, &io, &error) == SHEAF_E_USAGE ? 0 : 5;
}

static void test_denied(void **state)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(denied_child());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* seccomp filters cannot be set here */
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define ON(backend, function)                                                                                          \
    {                                                                                                                  \
#function " " #backend, function, set_up, tear_down, (void *)(uintptr_t)SHEAF_IO_##backend                     \
    }
#define ON_BOTH(function) ON(URING, function), ON(SYNC, function)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_write_then_read), ON_BOTH(test_many),
        ON_BOTH(test_error_midway),    ON_BOTH(test_wake),
        ON_BOTH(test_reader),          ON_BOTH(test_reader_later),
        ON(SYNC, test_sources),        cmocka_unit_test(test_denied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
