/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that do their worst. What each act is and should come to is in acts.h and test_hostile.c. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sheaf/operator.h>

#include "tests/hostile/acts.h"
#include "tests/hostile/forge.h"
#include "tests/hostile/scribble.h"
#include "worker/attach_wire.h"

static const struct sheaf_host *host;
static struct sheaf_row stale; /* a copy of a row that is over */
static bool hang_in_evict;
static volatile int zero; /* what the compiler cannot know */

static int answer_i64(const struct sheaf_row *row, int64_t number)
{
    struct sheaf_value value = {.kind = SHEAF_I64, .i64 = number};
    return host->answer(row, &value, 1);
}

/* ---- ends of a process ---- */

static int recurse(int depth)
{
    volatile char room[4096];
    room[0] = (char)depth;
    return zero == 0 ? recurse(depth + 1) + room[zero] : 0;
}

static void corrupt_heap(void)
{
    char *blocks[64];
    for (int i = 0; i < 64; i++)
        blocks[i] = malloc(64u << (i % 8));
    for (int i = 0; i < 64; i++)
        memset(blocks[i] - 32, 0xa5, 96);
    for (int i = 0; i < 64; i++)
        free((void *)((uintptr_t)blocks[i] + 8u + (unsigned)zero));
    for (int i = 0; i < 1000; i++)
        memset(malloc(100), 1, 100);
    abort();
}

/* ---- no end ---- */

static void leak(bool slowly)
{
    struct timespec moment = {0, 2000000};
    for (;;) {
        char *memory = malloc(8 << 20);
        if (memory == NULL)
            pause(); /* and keeps what it has */
        memset(memory, 1, 8 << 20);
        if (slowly)
            nanosleep(&moment, NULL);
    }
}

static void flood_output(void)
{
    static char lines[65536];
    memset(lines, '\n', sizeof lines);
    for (;;)
        if (write(2, lines, sizeof lines) < 0)
            continue;
}

/* Messages that ask for things, thousands of them, with nobody who reads the answers. */
static void send_message(const void *data, size_t bytes, const int *fds, uint32_t fd_count)
{
    union {
        char room[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control = {.room = {0}};
    struct iovec vector = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (fd_count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(part), fds, fd_count * sizeof(int));
    }
    (void)!sendmsg(3, &message, MSG_NOSIGNAL);
}

static const size_t message_bytes = offsetof(struct wire_message, line) + 1; /* with an empty line */

static void flood_socket(void)
{
    struct wire_message want = {
        .magic = WIRE_MAGIC, .version = ATTACH_VERSION, .kind = WIRE_WANT_SEGMENT, .number = 77}; /* there is none */
    for (;;)
        send_message(&want, message_bytes, NULL, 0);
}

static int send_descriptors(const struct sheaf_row *row)
{
    int fds[8] = {0, 1, 2, 0, 1, 2, 0, 1};
    struct wire_message ready = {.magic = WIRE_MAGIC, .version = ATTACH_VERSION, .kind = WIRE_READY};
    send_message(&ready, message_bytes, fds, 8);
    return answer_i64(row, 0);
}

/* ---- broken contracts ---- */

static int break_contract(const struct sheaf_row *row, enum act act, int64_t n)
{
    struct sheaf_value value = {.kind = SHEAF_I64, .i64 = good_answer(n)}, two[2] = {value, value};
    static char long_text[100000];
    switch (act) {
    case ACT_ANSWER_TWICE:
        host->answer(row, &value, 1);
        host->answer(row, &value, 1);
        return 0;
    case ACT_ANSWER_AFTER_FAILING:
        host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_MALFORMED, "first this");
        host->answer(row, &value, 1);
        return 0;
    case ACT_WRONG_KIND:
        value = (struct sheaf_value){.kind = SHEAF_TEXT, .data = "text", .length_bytes = 4};
        host->answer(row, &value, 1);
        return 0;
    case ACT_WRONG_COUNT:
        host->answer(row, two, 2);
        return 0;
    case ACT_LONG_MESSAGE:
        memset(long_text, 'x', sizeof long_text - 1);
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_MALFORMED, "%s", long_text);
    case ACT_STALE_ROW: /* what a row is over must not be answered again, and this one answers itself all the same */
        if (stale.host_row != NULL && answer_i64(&stale, 666) == 0)
            return answer_i64(row, 666);
        return answer_i64(row, good_answer(n));
    default:
        return 0;
    }
}

/* ---- values that stay a while ---- */

enum { CARRIED_WORDS = 1024 };

/* Words that each say what they should be. */
static int run_carry(void *state, const struct sheaf_row *row, char *message)
{
    int64_t *words = host->alloc(row, CARRIED_WORDS * sizeof *words);
    if (words == NULL)
        return -ENOMEM;
    for (int64_t i = 0; i < CARRIED_WORDS; i++)
        words[i] = row->inputs[0].i64 + i;
    struct sheaf_value value = {.kind = SHEAF_BYTES,
                                .data = words,
                                .length_bytes = CARRIED_WORDS * sizeof *words,
                                .name = "application/x-carried"};
    return host->answer(row, &value, 1);
}

/* A good answer only for words that all are what they should be; else an answer that nobody can tell from a good one
 * but the test. */
static int run_check(void *state, const struct sheaf_row *row, char *message)
{
    const int64_t *words = row->inputs[0].data;
    int64_t input = words[0];
    bool right = row->inputs[0].length_bytes == CARRIED_WORDS * sizeof *words && row->inputs[0].name != NULL &&
                 strcmp(row->inputs[0].name, "application/x-carried") == 0;
    for (int64_t i = 0; i < CARRIED_WORDS && right; i++)
        right = words[i] == input + i;
    if (right && input / ACT_STRIDE == ACT_SCRIBBLE)
        scribble((unsigned)(input % ACT_STRIDE));
    return answer_i64(row, right ? good_answer(input % ACT_STRIDE) : -1);
}

static int use_wild_memory(const struct sheaf_row *row, enum act act, int64_t n)
{
    struct sheaf_row forged = *row;
    struct sheaf_value value = {.kind = SHEAF_BYTES, .data = (void *)(uintptr_t)0x10, .length_bytes = 100};
    char *memory;
    switch (act) {
    case ACT_FORGED_ROW:
        forged.host_row = (char *)row->host_row + 8;
        if (answer_i64(&forged, 666) == 0)
            return answer_i64(row, 666);
        forged.host_row = (void *)(uintptr_t)0x1000;
        if (answer_i64(&forged, 666) == 0)
            return answer_i64(row, 666);
        return answer_i64(row, good_answer(n));
    case ACT_WILD_POINTER:
        return host->answer(row, &value, 1);
    case ACT_WILD_LENGTH:
        value.data = &value;
        value.length_bytes = UINT64_C(1) << 62;
        return host->answer(row, &value, 1);
    case ACT_FREED_MEMORY:
        memory = host->alloc(row, 100);
        host->resize(row, memory, 1 << 20);
        memset(memory, 0xff, 100);
        value.data = memory;
        return host->answer(row, &value, 1);
    default:
        return 0;
    }
}

/* ---- what must work ---- */

static void *count_up(void *argument)
{
    ++*(int *)argument;
    return argument;
}

static int use_thread(const struct sheaf_row *row, int64_t n)
{
    pthread_t thread;
    int count = 0;
    if (pthread_create(&thread, NULL, count_up, &count) != 0 || pthread_join(thread, NULL) != 0 || count != 1)
        return -EIO;
    return answer_i64(row, good_answer(n));
}

static int do_the_usual(const struct sheaf_row *row, int64_t n)
{
    struct timespec moment = {0, 1000};
    char *memory = malloc(32 << 20), *moved = memory != NULL ? realloc(memory, 48 << 20) : NULL;
    char *shared = host->alloc(row, 5 << 20);
    struct sheaf_value file = {.kind = SHEAF_FILE, .data = "bytes", .length_bytes = 5, .name = "x"};
    char bytes[6] = "";
    int fd = -1;
    if (moved == NULL || shared == NULL)
        return -ENOMEM;
    memset(moved, 1, 48 << 20);
    memset(shared, 1, 5 << 20);
    free(moved);
    if (nanosleep(&moment, NULL) != 0 || host->file_descriptor(row, &file, &fd) != 0 || pread(fd, bytes, 5, 0) != 5 ||
        strcmp(bytes, "bytes") != 0)
        return -EIO;
    fprintf(stderr, "a line of row %d\n", (int)n);
    printf("and one on the other stream\n");
    fflush(stdout);
    host->log(row, 1, "and one for the log");
    return answer_i64(row, good_answer(n));
}

/* ---- the operators ---- */

static int end_or_stay(enum act act)
{
    switch (act) {
    case ACT_SEGFAULT:
        raise(SIGSEGV);
        return *(volatile int *)(uintptr_t)zero;
    case ACT_ABORT:
        abort();
    case ACT_EXIT:
        exit(0);
    case ACT_EXIT_AT_ONCE:
        _exit(0);
    case ACT_STACK:
        return recurse(0);
    case ACT_HEAP:
        corrupt_heap();
        return 0;
    case ACT_SPIN:
        while (zero == 0)
            ;
        return 0;
    case ACT_SLEEP:
        for (;;)
            pause();
    case ACT_STOP:
        for (;;)
            raise(SIGSTOP);
    case ACT_LEAK:
    case ACT_LEAK_SLOWLY:
        leak(act == ACT_LEAK_SLOWLY);
        return 0;
    case ACT_TOUCH_OWN:
    case ACT_TOUCH_OTHERS:
        touch_holes(act == ACT_TOUCH_OWN);
        return 0;
    case ACT_FLOOD_OUTPUT:
        flood_output();
        return 0;
    case ACT_FLOOD_SOCKET:
        flood_socket();
        return 0;
    default:
        return 0;
    }
}

static int run_row(void *state, const struct sheaf_row *row, char *message)
{
    int64_t input = row->inputs[0].i64, n = input % ACT_STRIDE;
    enum act act = (enum act)(input / ACT_STRIDE);
    if (act >= ACT_PROBE)
        return answer_i64(row, probes[act - ACT_PROBE].run());
    if (act == ACT_SCRIBBLE) {
        scribble((unsigned)n);
        return answer_i64(row, good_answer(n));
    }
    if (act == ACT_FORGE)
        forge((enum forgery)n, good_answer(n));
    if (act >= ACT_FORGED_ROW && act <= ACT_FREED_MEMORY)
        return use_wild_memory(row, act, n);
    if (act >= ACT_ANSWER_TWICE && act < ACT_FORGED_ROW)
        return break_contract(row, act, n);
    if (act == ACT_SEND_DESCRIPTORS)
        return send_descriptors(row);
    if (act == ACT_CLOSE_ALL)
        for (int fd = 0; fd < 1024; fd++)
            close(fd);
    if (act == ACT_THREAD)
        return use_thread(row, n);
    if (act == ACT_USUAL)
        return do_the_usual(row, n);
    hang_in_evict |= act == ACT_HANG_IN_EVICT;
    if (act != ACT_GOOD && act != ACT_CLOSE_ALL && act != ACT_HANG_IN_EVICT)
        return end_or_stay(act);
    stale = *row;
    return answer_i64(row, good_answer(n));
}

/* n children, and the act after the last. */
static int run_children(void *state, const struct sheaf_row *row, char *message)
{
    int64_t input = row->inputs[0].i64;
    for (int64_t child = 0; child < input % ACT_STRIDE; child++) {
        struct sheaf_value value = {.kind = SHEAF_I64, .i64 = child};
        int status = host->emit(row, &value, 1);
        if (status < 0)
            return status;
    }
    enum act act = (enum act)(input / ACT_STRIDE);
    if (act != ACT_GOOD)
        return end_or_stay(act);
    struct sheaf_value none = {.kind = SHEAF_NONE};
    return host->answer(row, &none, 1);
}

/* The first bad row of a batch does its act; then all are answered. */
static int run_batch(void *state, const struct sheaf_batch *batch, char *message)
{
    for (uint32_t i = 0; i < batch->row_count; i++) {
        int64_t input = batch->rows[i]->inputs[0].i64;
        if (input / ACT_STRIDE == ACT_FORGE)
            forge((enum forgery)(input % ACT_STRIDE), 0);
        if (input >= ACT_STRIDE)
            end_or_stay((enum act)(input / ACT_STRIDE));
    }
    for (uint32_t i = 0; i < batch->row_count; i++)
        answer_i64(batch->rows[i], good_answer(batch->rows[i]->inputs[0].i64 % ACT_STRIDE));
    return 0;
}

/* Bytes: the number, and memory to send it in. */
static int run_bytes(void *state, const struct sheaf_row *row, char *message)
{
    int64_t input = row->inputs[0].i64;
    if (input / ACT_STRIDE == ACT_SCRIBBLE) {
        scribble((unsigned)(input % ACT_STRIDE));
        input %= ACT_STRIDE;
    }
    if (input >= ACT_STRIDE)
        return use_wild_memory(row, (enum act)(input / ACT_STRIDE), input % ACT_STRIDE);
    int64_t *memory = host->alloc(row, sizeof *memory);
    if (memory == NULL)
        return -ENOMEM;
    *memory = good_answer(input);
    struct sheaf_value value = {.kind = SHEAF_BYTES, .data = memory, .length_bytes = sizeof *memory};
    return host->answer(row, &value, 1);
}

static void evict(void *state, uint64_t key)
{
    while (hang_in_evict)
        pause();
}

static int open_any(const struct sheaf_open *open, void **ret_state)
{
    host = open->host;
    *ret_state = NULL;
    scribble_prepare();
    forge_prepare();
    return 0;
}

static int open_and_die(const struct sheaf_open *open, void **ret_state)
{
    raise(SIGSEGV);
    return 0;
}

static int open_and_exit(const struct sheaf_open *open, void **ret_state)
{
    _exit(7);
}

static const struct sheaf_port in[] = {{"in", SHEAF_I64, 0, NULL}};
static const struct sheaf_port out[] = {{"out", SHEAF_I64, 0, NULL}};
static const struct sheaf_port bytes[] = {{"out", SHEAF_BYTES, 0, NULL}};
static const struct sheaf_port carried[] = {{"in", SHEAF_BYTES, 0, NULL}};
static const struct sheaf_port children[] = {{"out", SHEAF_I64, SHEAF_PORT_GROUP, NULL}};

#define OPERATOR(label, ...)                                                                                           \
    {                                                                                                                  \
        .size = sizeof(struct sheaf_operator), .name = label, .version = "1", .summary = label, .input_count = 1,      \
        .output_count = 1, __VA_ARGS__                                                                                 \
    }

static const struct sheaf_operator operators[] = {
    OPERATOR("hostile.row", .inputs = in, .outputs = out, .open = open_any, .run = run_row),
    OPERATOR("hostile.keeper", .inputs = in, .outputs = out, .open = open_any, .run = run_row, .evict = evict,
             .flags = SHEAF_OPERATOR_STATE_OF_ROW),
    OPERATOR("hostile.children", .inputs = in, .outputs = children, .open = open_any, .run = run_children),
    OPERATOR("hostile.batch", .inputs = in, .outputs = out, .open = open_any, .run_batch = run_batch, .batch_rows = 16,
             .flags = SHEAF_OPERATOR_BATCH),
    OPERATOR("hostile.bytes", .inputs = in, .outputs = bytes, .open = open_any, .run = run_bytes),
    OPERATOR("hostile.dies", .inputs = in, .outputs = out, .open = open_and_die, .run = run_row),
    OPERATOR("hostile.exits", .inputs = in, .outputs = out, .open = open_and_exit, .run = run_row),
    OPERATOR("hostile.carry", .inputs = in, .outputs = bytes, .open = open_any, .run = run_carry),
    OPERATOR("hostile.check", .inputs = carried, .outputs = out, .open = open_any, .run = run_check),
};

#define COUNT (sizeof operators / sizeof operators[0])

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

__attribute__((visibility("default"))) const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    static const struct sheaf_operator *table[COUNT];
    static struct sheaf_plugin plugin = {sizeof plugin, SHEAF_OPERATOR_ABI, "hostile", "1", table, COUNT, 0, NULL};
    for (uint32_t at = 0; at < COUNT; at++)
        table[at] = &operators[at];
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
