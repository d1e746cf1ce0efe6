/* SPDX-License-Identifier: Apache-2.0 */
/* Batch, replicas, timeout, recovery and placement of a Call (rows 10 and 11). */
#include <inttypes.h>

#include "program/compile.h"

enum { BATCH_ROWS_MAX = 1 << 20, REPLICAS_MAX = 4096, RETRIES_MAX = 1000, DAY_MS = 24 * 3600 * 1000 };
enum { BATCH_ROWS_DEFAULT = 32 };
#define BATCH_BYTES_MAX (INT64_C(1) << 40)

static int check_number(struct compile *compile, const struct program_step *step, const char *key, bool given,
                        int64_t value, int64_t largest)
{
    if ((!given && value == 0) || (value >= 1 && value <= largest))
        return 0;
    return compile_refuse(compile, 10, step,
                          "\"%s\" is %" PRId64 "; write one between 1 and %" PRId64 ", or leave it out", key, value,
                          largest);
}

static int check_recovery(struct compile *compile, const struct program_step *step)
{
    const struct sheaf_call *call = &step->call;
    if (call->recovery == SHEAF_RECOVERY_RETRY)
        return call->retries > 0
                   ? 0
                   : compile_refuse(compile, 10, step,
                                    "\"recovery\" is \"retry\" without a retry; give \"retries\", 1 or more");
    if (call->retries == 0 && call->backoff_ms == 0)
        return 0;
    return compile_refuse(compile, 10, step, "\"%s\" goes with \"recovery: retry\" only, not with \"%s\"",
                          call->retries ? "retries" : "backoff_ms",
                          call->recovery == SHEAF_RECOVERY_ABORT ? "abort" : "fail");
}

int compile_settings(struct compile *compile, const struct program_step *step, struct plan_call *call)
{
    const struct sheaf_call *given = &step->call;
    const struct sheaf_operator *op = call->op;
    int status =
        check_number(compile, step, "batch", given->given & SHEAF_GIVEN_BATCH, given->batch_rows, BATCH_ROWS_MAX);
    if (status == 0)
        status = check_number(compile, step, "batch_bytes", given->given & SHEAF_GIVEN_BATCH_BYTES, given->batch_bytes,
                              BATCH_BYTES_MAX);
    if (status == 0)
        status =
            check_number(compile, step, "replicas", given->given & SHEAF_GIVEN_REPLICAS, given->replicas, REPLICAS_MAX);
    if (status == 0)
        status =
            check_number(compile, step, "timeout_ms", given->given & SHEAF_GIVEN_TIMEOUT, given->timeout_ms, DAY_MS);
    if (status == 0)
        status =
            check_number(compile, step, "retries", given->given & SHEAF_GIVEN_RETRIES, given->retries, RETRIES_MAX);
    if (status == 0)
        status =
            check_number(compile, step, "backoff_ms", given->given & SHEAF_GIVEN_BACKOFF, given->backoff_ms, DAY_MS);
    if (status == 0)
        status = check_recovery(compile, step);
    bool on_device = (op->flags & SHEAF_OPERATOR_DEVICE) != 0;
    if (status == 0 && given->place == SHEAF_PLACE_GPU && !on_device)
        status = compile_refuse(compile, 11, step,
                                "operator \"%s\" has no device implementation; write \"place: cpu\" or leave it out",
                                op->name);
    if (status != 0)
        return status;
    call->batch_rows = (uint32_t)given->batch_rows;
    if (call->batch_rows == 0)
        call->batch_rows = op->batch_rows ? op->batch_rows : BATCH_ROWS_DEFAULT;
    call->batch_bytes = given->batch_bytes ? (uint64_t)given->batch_bytes : (uint64_t)op->batch_kib << 10;
    call->replicas = (uint32_t)given->replicas;
    call->timeout_ms = given->timeout_ms ? (uint32_t)given->timeout_ms : op->timeout_ms;
    call->retries = (uint32_t)given->retries;
    call->backoff_ms = (uint32_t)given->backoff_ms;
    call->recovery = given->recovery;
    call->place = given->place;
    call->by_rows = on_device && op->run && given->place == SHEAF_PLACE_CPU;
    call->batch = (plan_call_flags(call) & SHEAF_OPERATOR_BATCH) != 0;
    call->device = !on_device || call->by_rows       ? PLAN_NO_DEVICE
                   : given->place == SHEAF_PLACE_CPU ? PLAN_HOST_DEVICE
                                                     : PLAN_ANY_DEVICE;
    return 0;
}
