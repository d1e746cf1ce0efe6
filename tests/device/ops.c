/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators with kernels for the tests of devices. The driver of the tests takes their kernels from here.
 *
 *     device_sum   text -> i64     the sum of its bytes; `fault`: texts that begin with this byte make the device fail
 *     device_mix   text -> bytes   as many bytes, mixed with the root's index; more device memory than it says
 *     device_pry   text -> i64     the same, if the sandbox keeps it from files, sockets, processes and new code
 *     device_crash text -> i64     the sum of its bytes; on device 0 a z kills a process that has run others
 *     device_either text -> i64    the sum of its bytes, on a device or by a row in place
 *     device_stray text -> i64     fetches from memory that is none of the device's
 *     make_tensor  i64 -> tensor   of one of five shapes, on the CPU
 *     device_shapes tensor -> i64  the sum of its bytes, if all rows of the batch are of one shape
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/device/kernels.h"

struct state {
    const struct sheaf_host *host;
    uint64_t fault;
    bool landlock;
    bool has_run;
};

static int open_state(const struct sheaf_open *open, void **ret_state)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    state->host = open->host;
    state->landlock = syscall(444 /* landlock_create_ruleset */, NULL, (size_t)0, 1 /* its version */) > 0;
    state->fault = open->option_count > 0 ? (uint64_t)open->options[0].i64 : 0;
    *ret_state = state;
    return 0;
}

static void close_state(void *state)
{
    free(state);
}

static int sum_run(void *cookie, const struct sheaf_batch *batch, char *message)
{
    const struct state *state = cookie;
    const struct sheaf_device_input *in = &batch->inputs[0];
    size_t bytes = batch->row_count * sizeof(int64_t);
    struct sum_argument argument = {.in = in->base,
                                    .offsets = in->device_offsets,
                                    .lengths = in->device_lengths,
                                    .sums = batch->device->alloc(batch, bytes),
                                    .fault = state->fault};
    struct sheaf_grid grid = {.blocks = {batch->row_count, 1, 1}, .threads = {256, 1, 1}};
    if (!argument.sums)
        return -ENOMEM;
    int status = batch->device->launch(batch, "test_sum", &grid, &argument);
    int64_t *sums = status == 0 ? malloc(bytes) : NULL;
    if (!sums)
        return status < 0 ? status : -ENOMEM;
    *batch->cookie = sums;
    return batch->device->fetch(batch, sums, argument.sums, bytes);
}

static int sum_finish(void *cookie, const struct sheaf_batch *batch, char *message)
{
    const struct state *state = cookie;
    int64_t *sums = *batch->cookie;
    for (uint32_t row = 0; row < batch->row_count; row++) {
        struct sheaf_value value = {.kind = SHEAF_I64, .i64 = sums[row]};
        state->host->answer(batch->rows[row], &value, 1);
    }
    free(sums);
    return 0;
}

static int sum_row(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    const unsigned char *text = row->inputs[0].data;
    struct sheaf_value value = {.kind = SHEAF_I64};
    for (uint64_t at = 0; at < row->inputs[0].length_bytes; at++)
        value.i64 += text[at];
    return state->host->answer(row, &value, 1);
}

static int crash_run(void *cookie, const struct sheaf_batch *batch, char *message)
{
    struct state *state = cookie;
    const char *text = batch->rows[0]->inputs[0].data;
    if (state->has_run && batch->device->ordinal == 0 && text[0] == 'z')
        __builtin_trap();
    state->has_run = true;
    return sum_run(cookie, batch, message);
}

/* Results go straight to the memory of their rows. */
static int mix_run(void *cookie, const struct sheaf_batch *batch, char *message)
{
    const struct state *state = cookie;
    const struct sheaf_device_input *in = &batch->inputs[0];
    const struct sheaf_device *device = batch->device;
    uint64_t rows = batch->row_count, end = in->offsets[rows - 1] + in->lengths[rows - 1];
    uint64_t *salts = calloc(2 * rows + 1, sizeof *salts), *offsets = salts + rows;
    unsigned char *out = device->alloc(batch, end);
    uint64_t *on_device = device->alloc(batch, (2 * rows + 1) * sizeof *salts);
    void **results = calloc(rows, sizeof *results);
    int status = salts && out && on_device && results ? 0 : -ENOMEM;
    for (uint32_t row = 0; row < rows && status == 0; row++) {
        salts[row] = batch->rows[row]->coordinate[0];
        offsets[row] = in->offsets[row];
        results[row] = state->host->alloc(batch->rows[row], in->lengths[row]);
        status = results[row] ? device->fetch(batch, results[row], out + offsets[row], in->lengths[row]) : -ENOSPC;
    }
    if (status == 0) {
        offsets[rows] = end;
        status = device->upload(batch, on_device, salts, (2 * rows + 1) * sizeof *salts);
    }
    struct mix_argument argument = {in->base, out, on_device + rows, on_device};
    struct sheaf_grid grid = {.blocks = {batch->row_count, 1, 1}, .threads = {256, 1, 1}};
    if (status == 0)
        status = device->launch(batch, "test_mix", &grid, &argument);
    free(salts);
    *batch->cookie = results;
    if (status < 0)
        free(results);
    return status;
}

static int mix_finish(void *cookie, const struct sheaf_batch *batch, char *message)
{
    const struct state *state = cookie;
    void **results = *batch->cookie;
    for (uint32_t row = 0; row < batch->row_count; row++) {
        struct sheaf_value value = {
            .kind = SHEAF_BYTES, .data = results[row], .length_bytes = batch->inputs[0].lengths[row]};
        state->host->answer(batch->rows[row], &value, 1);
    }
    free(results);
    return 0;
}

static int tensor_run(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct state *state = cookie;
    int64_t number = row->inputs[0].i64;
    struct sheaf_tensor tensor = {
        .dtype = SHEAF_U8, .rank = 2, .shape = {1 + (uint64_t)number % 5, 32}, .stride_bytes = {32, 1}};
    unsigned char bytes[5 * 32];
    memset(bytes, (int)(number % 100), sizeof bytes);
    struct sheaf_value value = {
        .kind = SHEAF_TENSOR, .data = bytes, .length_bytes = tensor.shape[0] * 32, .tensor = &tensor};
    return state->host->answer(row, &value, 1);
}

static int shapes_run(void *cookie, const struct sheaf_batch *batch, char *message)
{
    const struct sheaf_device_input *in = &batch->inputs[0];
    uint64_t rows = batch->rows[0]->inputs[0].tensor->shape[0];
    for (uint32_t row = 0; row < batch->row_count; row++)
        if (batch->rows[row]->inputs[0].tensor->shape[0] != rows || in->stride_bytes != rows * 32 ||
            batch->devices[row] != (char *)in->base + row * in->stride_bytes)
            return -EINVAL;
    return sum_run(cookie, batch, message);
}

static int stray_run(void *cookie, const struct sheaf_batch *batch, char *message)
{
    static int64_t nowhere;
    return batch->device->fetch(batch, &nowhere, (void *)(uintptr_t)64, sizeof nowhere);
}

/* What the sandbox of a worker with a GPU must still refuse. Under a sanitizer there is none. */
static int pry_run(void *cookie, const struct sheaf_batch *batch, char *message)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const struct state *state = cookie;
    const char *done = NULL;
    if (state->landlock && open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0)
        done = "opened a file that is not the driver's";
    if (open("/proc/self/environ", O_RDWR | O_CLOEXEC) >= 0)
        done = "opened a file for writing";
    if (socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0)
        done = "made a socket";
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        done = "made memory executable";
    if (syscall(SYS_kill, getppid(), 0) == 0)
        done = "signalled its parent";
    if (done) {
        snprintf(message, 512, "%s", done);
        return -EPERM;
    }
#endif
    return sum_run(cookie, batch, message);
}

static const struct sheaf_port text[] = {{"text", SHEAF_TEXT, 0, NULL}}, sum[] = {{"sum", SHEAF_I64, 0, NULL}},
                               mixed[] = {{"mixed", SHEAF_BYTES, 0, NULL}}, number[] = {{"number", SHEAF_I64, 0, NULL}},
                               tensor_port[] = {{"tensor", SHEAF_TENSOR, 0, NULL}};
static const struct sheaf_option options[] = {{.name = "fault",
                                               .type = SHEAF_OPTION_I64,
                                               .fallback = {.type = SHEAF_OPTION_I64},
                                               .max = 255,
                                               .summary = "the first byte of rows that make the device fail"}};

static const struct sheaf_operator operators[] = {
    {.size = sizeof(struct sheaf_operator),
     .flags = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_DEVICE,
     .name = "device_sum",
     .version = "1",
     .summary = "sums bytes on a device",
     .inputs = text,
     .outputs = sum,
     .options = options,
     .input_count = 1,
     .output_count = 1,
     .option_count = 1,
     .open = open_state,
     .close = close_state,
     .run_batch = sum_run,
     .finish_batch = sum_finish},
    {.size = sizeof(struct sheaf_operator),
     .flags = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_DEVICE,
     .name = "device_mix",
     .version = "1",
     .summary = "mixes bytes on a device",
     .inputs = text,
     .outputs = mixed,
     .input_count = 1,
     .output_count = 1,
     .open = open_state,
     .close = close_state,
     .run_batch = mix_run,
     .finish_batch = mix_finish},
    {.size = sizeof(struct sheaf_operator),
     .flags = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_DEVICE,
     .name = "device_pry",
     .version = "1",
     .summary = "sums bytes, if it is kept from the rest of the machine",
     .inputs = text,
     .outputs = sum,
     .input_count = 1,
     .output_count = 1,
     .open = open_state,
     .close = close_state,
     .run_batch = pry_run,
     .finish_batch = sum_finish},
    {.size = sizeof(struct sheaf_operator),
     .flags = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_DEVICE,
     .name = "device_crash",
     .version = "1",
     .summary = "crashes on device 0",
     .inputs = text,
     .outputs = sum,
     .input_count = 1,
     .output_count = 1,
     .open = open_state,
     .close = close_state,
     .run_batch = crash_run,
     .finish_batch = sum_finish},
    {.size = sizeof(struct sheaf_operator),
     .flags = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_DEVICE,
     .name = "device_either",
     .version = "1",
     .summary = "sums bytes on a device or not",
     .inputs = text,
     .outputs = sum,
     .input_count = 1,
     .output_count = 1,
     .open = open_state,
     .close = close_state,
     .run = sum_row,
     .run_batch = sum_run,
     .finish_batch = sum_finish},
    {.size = sizeof(struct sheaf_operator),
     .flags = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_DEVICE,
     .name = "device_stray",
     .version = "1",
     .summary = "fetches what it must not",
     .inputs = text,
     .outputs = sum,
     .input_count = 1,
     .output_count = 1,
     .open = open_state,
     .close = close_state,
     .run_batch = stray_run,
     .finish_batch = sum_finish},
    {.size = sizeof(struct sheaf_operator),
     .name = "make_tensor",
     .version = "1",
     .summary = "makes tensors",
     .inputs = number,
     .outputs = tensor_port,
     .input_count = 1,
     .output_count = 1,
     .open = open_state,
     .close = close_state,
     .run = tensor_run},
    {.size = sizeof(struct sheaf_operator),
     .flags = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_DEVICE,
     .name = "device_shapes",
     .version = "1",
     .summary = "sums tensors of one shape on a device",
     .inputs = tensor_port,
     .outputs = sum,
     .input_count = 1,
     .output_count = 1,
     .open = open_state,
     .close = close_state,
     .run_batch = shapes_run,
     .finish_batch = sum_finish},
};

SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    static const struct sheaf_operator *const table[] = {&operators[0], &operators[1], &operators[2], &operators[3],
                                                         &operators[4], &operators[5], &operators[6], &operators[7]};
    static const struct sheaf_plugin plugin = {.size = sizeof plugin,
                                               .abi = SHEAF_OPERATOR_ABI,
                                               .name = "device_test",
                                               .version = "1",
                                               .operators = table,
                                               .operator_count = sizeof table / sizeof *table,
                                               .kernels = &test_kernels};
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
