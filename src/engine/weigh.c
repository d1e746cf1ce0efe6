/* SPDX-License-Identifier: Apache-2.0 */
/* What a row of a batch Call weighs, and of what shape it is: what a batch is limited by besides its rows. */
#include <string.h>

#include "engine/shard.h"
#include "shm/shape.h"

/* Of a gathered list the data of its elements counts; what is nested deeper, or was made as a list by a worker, counts
 * by its references. A worker may say any length: it makes a row heavy, and the row goes alone. */
static uint64_t bytes_of(const struct sheaf_run *run, const struct value_ref *ref)
{
    enum { LENGTH_MAX = 1 << 30 };
    if (SHEAF_KIND_DEPTH(ref->kind) == 0)
        return ref->segment == VALUE_INLINE ? sizeof(uint64_t) : ref->length;
    uint64_t length = ref->length < LENGTH_MAX ? ref->length : LENGTH_MAX, bytes = length * sizeof *ref;
    if (ref->segment == VALUE_INLINE || ref->segment > run->shard_count || SHEAF_KIND_DEPTH(ref->kind) > 1)
        return bytes;
    const struct list_block *block = payload_view(run->payload, ref); /* made by list_build */
    const struct value_ref *elements = (const struct value_ref *)(block + 1);
    for (uint64_t i = 0; i < block->count; i++)
        bytes += elements[i].segment == VALUE_INLINE ? 0 : elements[i].length;
    return bytes;
}

/* Its header lies in memory a worker can write: it is copied, and any nonsense in it is a shape of its own. */
static uint64_t shape_of(const struct payload *payload, const struct value_ref *ref, uint32_t input, uint64_t shape)
{
    struct sheaf_tensor tensor;
    if (ref->kind != SHEAF_TENSOR || ref->segment == VALUE_INLINE || ref->prefix < sizeof tensor)
        return shape;
    const char *data = payload_view(payload, ref);
    if (!data)
        return shape;
    memcpy(&tensor, data - ref->prefix, sizeof tensor);
    return shape_add(shape, input, &tensor);
}

void weigh_row(struct shard *shard, const struct value_ref *inputs, struct dispatch *dispatch)
{
    const struct plan_call *call = &shard->plan->calls[dispatch->call];
    if (!call->batch)
        return;
    for (uint32_t i = 0; i < dispatch->input_count; i++) {
        dispatch->bytes += bytes_of(shard->run, &inputs[i]);
        if (call->op->flags & (SHEAF_OPERATOR_ONE_SHAPE | SHEAF_OPERATOR_DEVICE))
            dispatch->shape = shape_of(shard->run->payload, &inputs[i], i, dispatch->shape);
    }
    batching_row_weighs(shard, dispatch->call, dispatch->bytes);
}
