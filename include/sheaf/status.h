/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes, failure classes and error messages of the Sheaf API.
 *
 * Every function that can fail returns an int: 0, a negative errno value (-ENOENT, -ENOMEM, ...), or one of the
 * negative SHEAF_E codes below, which no errno value reaches. Where a `struct sheaf_error *` is taken it may be NULL;
 * otherwise it is filled with one line that says what failed, where, why, and what to try. The library never prints.
 */
#ifndef SHEAF_STATUS_H
#define SHEAF_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SHEAF_API __attribute__((visibility("default")))
#define SHEAF_PRINTF(format_at, values_at) __attribute__((format(printf, format_at, values_at)))
#else
#define SHEAF_API
#define SHEAF_PRINTF(format_at, values_at)
#endif

enum {
    SHEAF_OK = 0,
    SHEAF_E_REFUSED = -10001,     /* the compiler refuses the program; `sheaf_error.row` is the rule's number */
    SHEAF_E_USAGE = -10002,       /* wrong arguments, unknown option or key */
    SHEAF_E_ENVIRONMENT = -10003, /* this machine cannot run it: a library, a limit, memory, a kernel feature */
    SHEAF_E_ABI = -10004,         /* a plug-in or a caller speaks another version of an interface */
    SHEAF_E_CLOSED = -10005,      /* the engine, run or source is closed */
    SHEAF_E_INPUT = -10006,       /* the input of a run is refused before anything is admitted */
    SHEAF_E_CORRUPT = -10007,     /* a journal, region or record does not check out */
};

/* One line of text about a failure. `size` is sizeof(struct sheaf_error) as the caller knows it. */
struct sheaf_error {
    uint32_t size;
    int32_t code; /* what the function returned */
    uint32_t row; /* SHEAF_E_REFUSED: the row of the refusal table (docs/PROGRAMS.md), else 0 */
    char message[1020];
};
#define SHEAF_ERROR_INIT                                                                                               \
    {                                                                                                                  \
        sizeof(struct sheaf_error), 0, 0, ""                                                                           \
    }

/*
 * Why one Grain failed. The names are stable: they stand in manifest.jsonl, errors.jsonl and metrics.
 */
enum sheaf_class {
    SHEAF_CLASS_NONE = 0,
    SHEAF_CLASS_UNREADABLE,         /* the source cannot be opened or read */
    SHEAF_CLASS_ENCRYPTED,          /* a password is needed and none given fits */
    SHEAF_CLASS_MALFORMED,          /* the bytes are not what they claim to be */
    SHEAF_CLASS_UNSUPPORTED,        /* a form this build does not read */
    SHEAF_CLASS_EMPTY,              /* no bytes */
    SHEAF_CLASS_TOO_LARGE,          /* over a stated cap (pixels, pages, bytes) */
    SHEAF_CLASS_RESOURCE_EXHAUSTED, /* its own estimate exceeds the budget */
    SHEAF_CLASS_TIMEOUT,            /* over its deadline */
    SHEAF_CLASS_CRASHED,            /* killed its worker */
    SHEAF_CLASS_OOM,                /* its worker ran out of memory */
    SHEAF_CLASS_CONTRACT,           /* the operator broke the operator contract */
    SHEAF_CLASS_OPERATOR,           /* declared by the operator */
    SHEAF_CLASS_GPU,                /* device fault */
    SHEAF_CLASS_IO,                 /* reading or writing failed midway */
    SHEAF_CLASS_CANCELLED,          /* the run or root was cancelled */
    SHEAF_CLASS_COUNT,
};

/* "malformed" for SHEAF_CLASS_MALFORMED; "none" for 0; "unknown" out of range. The string is static. */
SHEAF_API const char *sheaf_class_name(enum sheaf_class class_id);

/* A short text for any status this API returns, errno values included. The string is static or thread-local. */
SHEAF_API const char *sheaf_status_text(int status);

/* The library's version, "0.1.0". */
SHEAF_API const char *sheaf_version(void);

#ifdef __cplusplus
}
#endif
#endif
