/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds and values: what flows between operators.
 *
 * A value is immutable once its row is answered. A `struct sheaf_value` is a view: it owns nothing. Who may read the
 * memory it points to, and for how long, is said where the value is handed over (operator.h, engine.h).
 */
#ifndef SHEAF_VALUE_H
#define SHEAF_VALUE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Base kinds. The numbers are part of the operator ABI. */
enum {
    SHEAF_NONE = 0,
    SHEAF_BOOL = 1,
    SHEAF_I64 = 2,
    SHEAF_F64 = 3,
    SHEAF_TEXT = 4,   /* UTF-8, not terminated */
    SHEAF_BYTES = 5,  /* with a media type */
    SHEAF_TENSOR = 6, /* dtype and shape */
    SHEAF_RECORD = 7, /* self-describing map: MessagePack */
    SHEAF_FILE = 8,   /* a byte source: in memory, or behind a descriptor */
    SHEAF_ANY = 15,   /* only in signatures: a type variable, the same kind at every place of one Call */
};

/* A kind: a base kind inside 0..255 lists. `list<list<i64>>` is SHEAF_LIST_OF(SHEAF_I64, 2). */
typedef uint32_t sheaf_kind;
#define SHEAF_LIST_OF(base, depth) ((sheaf_kind)(base) | (sheaf_kind)(depth) << 8)
#define SHEAF_KIND_BASE(kind) ((kind)&0xffu)
#define SHEAF_KIND_DEPTH(kind) ((kind) >> 8 & 0xffu)

enum sheaf_dtype {
    SHEAF_U8 = 1,
    SHEAF_I8,
    SHEAF_U16,
    SHEAF_I16,
    SHEAF_I32,
    SHEAF_DI64,
    SHEAF_F16,
    SHEAF_BF16,
    SHEAF_F32,
    SHEAF_DF64,
};

/* Row-major unless strides say otherwise. Strides are in bytes. */
struct sheaf_tensor {
    uint32_t dtype; /* enum sheaf_dtype */
    uint32_t rank;  /* 0..8 */
    uint64_t shape[8];
    int64_t stride_bytes[8];
};

struct sheaf_list; /* read by cursor: sheaf_host.list_next, sheaf_list_next */

/*
 * One value. Which fields count follows from `kind`:
 *   bool            boolean
 *   i64, f64        i64, f64
 *   text, record    data, length_bytes
 *   bytes           data, length_bytes, name = media type ("image/jpeg"), NULL: application/octet-stream
 *   tensor          data, length_bytes, tensor
 *   file            name = the source's path; data, length_bytes when it is in memory, else data == NULL and the bytes
 *                   come through sheaf_host.file_descriptor; length_bytes is the size in both cases
 *   list<...>       list, length_bytes = number of elements
 */
struct sheaf_value {
    sheaf_kind kind;
    uint32_t reserved; /* 0 from callers */
    union {
        int64_t i64;
        double f64;
        uint64_t boolean;
        const void *data;
        struct sheaf_list *list;
    };
    uint64_t length_bytes;
    const char *name;
    const struct sheaf_tensor *tensor;
};

#ifdef __cplusplus
}
#endif
#endif
