/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a row: one number over dtype and dimensions of its tensor inputs. Rows with different numbers have
 * different shapes; the shard goes by it when it describes a row, the worker checks it when it has the row. */
#ifndef SHM_SHAPE_H
#define SHM_SHAPE_H

#include <sheaf/value.h>

#define SHAPE_NONE UINT64_C(0) /* of rows without tensors, and where nobody asks */

static inline uint64_t shape_mix(uint64_t shape, uint64_t number)
{
    return (shape ^ number) * UINT64_C(0x9E3779B97F4A7C15) ^ shape >> 29;
}

/* Input number `input` is a tensor. It is a private copy: what says its rank may be nonsense, but must not change. */
static inline uint64_t shape_add(uint64_t shape, uint32_t input, const struct sheaf_tensor *tensor)
{
    uint32_t rank = tensor->rank < 8 ? tensor->rank : 8;
    shape = shape_mix(shape, UINT64_C(1) << 48 | (uint64_t)input << 32 | (uint64_t)tensor->dtype << 8 | rank);
    for (uint32_t i = 0; i < rank; i++)
        shape = shape_mix(shape, tensor->shape[i]);
    return shape == SHAPE_NONE ? 1 : shape;
}

#endif
