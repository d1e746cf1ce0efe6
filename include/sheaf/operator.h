/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator ABI, version 1: how code plugs into Sheaf.
 *
 * A plug-in is a shared object that exports one function, `sheaf_plugin`, and needs nothing of libsheaf: all it calls
 * comes through `struct sheaf_host`. The engine loads a plug-in to read its signatures; a worker process loads it to
 * run it. So loading must be cheap and free of side effects: heavy libraries, models, fonts and language data are
 * loaded in `open`.
 *
 * The life of an operator in a worker process:
 *
 *     open -> [sandbox closes: no files, no network] -> run, run, ... evict, run ... -> close
 *
 * An operator must not open files or sockets once the sandbox is closed; docs/OPERATING.md says what is enforced.
 *
 * All calls into one worker come from one thread. A worker process may serve several Calls, each with its own `open`.
 * A worker may be killed at any instruction; nothing an operator does may rely on `close` being called.
 *
 * Structs grow only at their end; `size` says how much of it the other side knows. Reserved fields are 0.
 */
#ifndef SHEAF_OPERATOR_H
#define SHEAF_OPERATOR_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <sheaf/status.h>
#include <sheaf/value.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHEAF_OPERATOR_ABI 1u

/* The reach of a declared failure. */
enum sheaf_scope {
    SHEAF_SCOPE_ITEM = 0,  /* this row */
    SHEAF_SCOPE_GROUP = 1, /* this row and its siblings: same Call, same direct parent */
    SHEAF_SCOPE_ROOT = 2,  /* everything under the root */
};

enum {
    SHEAF_OPERATOR_BATCH = 1u << 0,            /* `run_batch` sees many rows as a whole; else `run` gets one row */
    SHEAF_OPERATOR_SIDE_EFFECT = 1u << 1,      /* runs for every row with inputs, at least once, even if unobserved */
    SHEAF_OPERATOR_NONDETERMINISTIC = 1u << 2, /* the same input may give other bytes: said in run.json */
    SHEAF_OPERATOR_STATE_OF_ROW =
        1u << 3, /* keeps state under `row->key` after the row (pdf.open: the open document) */
    SHEAF_OPERATOR_STATE_OF_PARENT = 1u << 4, /* keeps or uses state under `row->parent_key` (pdf.page) */
    SHEAF_OPERATOR_ENGINE_CODE = 1u << 5,     /* reserved: runs inside the shard, built-ins only */
    SHEAF_OPERATOR_DEVICE =
        1u
        << 6, /* with BATCH: run_batch and finish_batch work on a device (struct sheaf_device); ONE_SHAPE is implied */
    SHEAF_OPERATOR_ONE_SHAPE =
        1u << 7, /* with BATCH: tensor inputs agree in dtype and shape over the rows of a batch */
};

enum {
    SHEAF_PORT_GROUP =
        1u << 0, /* output only: a group, its kind is the kind of ONE child; only these can be expanded */
    SHEAF_PORT_OPTIONAL = 1u << 1, /* input only: the Call may leave it out from here on */
};

/* An input or output of an operator. */
struct sheaf_port {
    const char *name;
    sheaf_kind kind; /* SHEAF_ANY is a type variable, also inside lists */
    uint32_t flags;
    const char *summary;
};

/* Types of options. SHEAF_OPTION_SCALAR is any of bool, i64 and text. */
enum sheaf_option_type {
    SHEAF_OPTION_BOOL = 1,
    SHEAF_OPTION_I64,
    SHEAF_OPTION_F64,
    SHEAF_OPTION_TEXT,
    SHEAF_OPTION_I64_LIST,
    SHEAF_OPTION_TEXT_LIST,
    SHEAF_OPTION_SCALAR,
};

struct sheaf_option_value {
    enum sheaf_option_type type; /* the actual type: never SCALAR */
    uint32_t count;              /* elements of a list */
    union {
        uint64_t boolean;
        int64_t i64;
        double f64;
        const char *text; /* NUL-terminated UTF-8 */
        const int64_t *i64s;
        const char *const *texts;
    };
};

/* An option: name, type, default, range. `required` options have no default. */
struct sheaf_option {
    const char *name;
    enum sheaf_option_type type;
    uint32_t required;
    struct sheaf_option_value fallback; /* the default */
    int64_t min, max;                   /* range of an i64 (both 0: any) */
    const char *choices;                /* text: "none|jpeg|png", or NULL */
    const char *summary;
};

/*
 * One row. Valid from the call until the row is answered or failed.
 * `key` and `parent_key` are never reused in a run; parent_key is 0 in the root Domain.
 *
 * State: until `evict`, an operator with STATE_OF_ROW may go on reading the row's inputs, one with STATE_OF_PARENT
 * those that are the same for all rows of the parent (broadcasts), by copies of their struct sheaf_value.
 */
struct sheaf_row {
    uint32_t size;
    uint32_t attempt; /* charged attempts before this one, from 0 */
    uint64_t key;
    uint64_t parent_key;
    const uint64_t *coordinate; /* root index, ordinal, ordinal, ... */
    uint32_t depth;             /* number of entries in coordinate */
    uint32_t input_count;
    const struct sheaf_value *inputs; /* readable until the row is answered */
    void *host_row;                   /* the host's; pass `row` back as it came */
};

/* One error that a partial gather left out of its list. */
struct sheaf_list_error {
    uint64_t ordinal; /* of the missing child under its parent */
    enum sheaf_class class_id;
    uint32_t reserved;
    const char *message; /* NUL-terminated */
};

/*
 * What the host offers an operator. Functions return 0 or a negative status; every one may be called only from the
 * thread that called the operator, and with a row that is not yet answered.
 */
struct sheaf_host {
    uint32_t size;
    uint32_t version; /* SHEAF_OPERATOR_ABI */

    /* Memory for a value's bytes, in shared memory, 64-byte aligned, uninitialised. NULL when the budget is used up:
     * then fail the row with SHEAF_CLASS_RESOURCE_EXHAUSTED (it may be run again when there is more). Belongs to the
     * row: what no answer or emit refers to is freed when the row ends. `resize` keeps the contents, may move, and may
     * shrink. */
    void *(*alloc)(const struct sheaf_row *row, size_t bytes);
    void *(*resize)(const struct sheaf_row *row, void *memory, size_t bytes);

    /* Streaming expansion: one more child, one value per group output in their order. The child is schedulable when
     * this returns. May block while the budget has no room. A status other than 0: stop, return it. */
    int (*emit)(const struct sheaf_row *row, const struct sheaf_value *values, uint32_t count);

    /* Appends one element to output `port`, a group or a list. For groups that are answered whole rather than streamed.
     */
    int (*append)(const struct sheaf_row *row, uint32_t port, const struct sheaf_value *value);

    /* The row's answer: one value per output in order; for groups and appended lists leave kind SHEAF_NONE. Values
     * whose memory came from `alloc` are taken over without a copy, anything else is copied. */
    int (*answer)(const struct sheaf_row *row, const struct sheaf_value *values, uint32_t count);

    /* A declared failure, instead of an answer. `class_id` 0 means SHEAF_CLASS_OPERATOR. The text is the cause, kept as
     * is. */
    int (*fail)(const struct sheaf_row *row, enum sheaf_scope scope, enum sheaf_class class_id, const char *format, ...)
        SHEAF_PRINTF(4, 5);

    /* A list by cursor: the next element, 1; at the end, 0. The element is valid until the next call on the same list
     * or list_rewind. */
    int (*list_next)(struct sheaf_list *list, struct sheaf_value *ret_value);
    void (*list_rewind)(struct sheaf_list *list);
    /* The members a partial gather left out, in order: 1 and an error, or 0 at the end. */
    int (*list_error_next)(struct sheaf_list *list, struct sheaf_list_error *ret_error);

    /* A descriptor to read a `file` value by, opened read-only, positioned nowhere in particular (use pread). It
     * belongs to the host and stays open as long as the value is readable. Works whether or not the bytes are in
     * memory. */
    int (*file_descriptor)(const struct sheaf_row *row, const struct sheaf_value *file, int *ret_fd);

    /* A line for the run's log, attributed to the row. level: 0 debug, 1 info, 2 warning. row may be NULL. */
    void (*log)(const struct sheaf_row *row, int level, const char *format, ...) SHEAF_PRINTF(3, 4);

    /* True when the row's result is no longer wanted; a long row may return early, with any answer or none. */
    int (*cancelled)(const struct sheaf_row *row);

    /* A batch operator with `slots` > 1 takes another row when it can: 1 and a row, 0 if none is ready now. Both say
     * SHEAF_E_CLOSED when the worker is to end: finish the rows at hand and return. */
    int (*take)(void *batch, const struct sheaf_row **ret_row);
    /* Parks until a row can be taken, `fd` is readable (-1: none) or `timeout_ms` (-1: none) is over. */
    int (*wait)(void *batch, int fd, int timeout_ms);
};

/* What `open` gets. Valid during `open` only, except `host`, which lives as long as the worker. */
struct sheaf_open {
    uint32_t size;
    uint32_t option_count;
    const struct sheaf_host *host;
    const struct sheaf_option_value *options; /* in the order of the declaration, defaults filled in */
    const char *data_path;                    /* the installation's data folder, or NULL */
    uint64_t memory_budget_bytes;             /* for one worker of this Call; 0: not limited */
    char *error;                              /* write one line here when `open` fails */
    size_t error_bytes;
};

/* ---- devices ---- */

enum sheaf_device_backend {
    SHEAF_DEVICE_HOST = 0, /* the CPU: device memory is memory, kernels are their host functions */
    SHEAF_DEVICE_CUDA,
    SHEAF_DEVICE_SIM, /* host arithmetic with modelled times: for planning and tests */
};

/* The shape of one launch. */
struct sheaf_grid {
    uint32_t blocks[3];
    uint32_t threads[3]; /* of a block */
    uint32_t shared_bytes;
    uint32_t reserved;
};

/* A kernel has one argument, a struct by value, that holds device pointers and numbers. */
struct sheaf_kernel {
    const char
        *name; /* as it is called in the image: extern "C" __global__ void NAME(const struct ARGUMENT argument) */
    uint32_t argument_bytes;
    uint32_t reserved;
    /* All of the grid on the CPU, with the same result. The argument is the callee's copy. */
    void (*host)(const void *argument, const struct sheaf_grid *grid);
};

/* The kernels of a plug-in: what a device runs and what a CPU runs in its place. Static data. */
struct sheaf_kernels {
    uint32_t size;
    uint32_t kernel_count;
    const struct sheaf_kernel *kernels;
    const void *image; /* a fatbin for cuda; NULL: built without nvcc, these run on the host only */
    uint64_t image_bytes;
};

struct sheaf_batch;

/*
 * What an operator with SHEAF_OPERATOR_DEVICE works with. Its batch is already on the device when run_batch is called:
 * the data of every input that has data lies at batch->devices, and batch->stream waits for it. run_batch puts work on
 * the stream and returns without waiting for it; when all of that is done and what it fetched is in host memory, the
 * engine calls finish_batch, which answers the rows. Between the two other batches run. Rows of one batch have inputs
 * of one dtype and shape, or else ragged ones: see struct sheaf_device_input.
 *
 * The functions are for the thread that called the operator, with the batch of that call. 0 or a negative status; after
 * one that is negative run_batch returns it.
 */
struct sheaf_device {
    uint32_t size;
    uint32_t backend; /* enum sheaf_device_backend */
    uint32_t ordinal; /* among those of the machine */
    uint32_t reserved;
    const char *name;
    uint64_t memory_bytes; /* of the pool that `alloc` takes from, for one batch */

    /* Device memory until the batch is finished, 256-byte aligned, uninitialised. NULL: the batch does not fit; return
     * -ENOMEM and it is run again in smaller ones. */
    void *(*alloc)(const struct sheaf_batch *batch, uint64_t bytes);
    /* A kernel of the operator's plug-in, by name, on the stream. -ENOENT: there is none. */
    int (*launch)(const struct sheaf_batch *batch, const char *kernel, const struct sheaf_grid *grid,
                  const void *argument);
    /* Host memory to the device, ordered on the stream. The bytes are taken before it returns. For tables and small
     * things: inputs are there already. */
    int (*upload)(const struct sheaf_batch *batch, void *device, const void *host, uint64_t bytes);
    /* Device memory to the host, behind what is on the stream now. `host` is filled when finish_batch is called; memory
     * of host->alloc is reached without another copy. */
    int (*fetch)(const struct sheaf_batch *batch, void *host, const void *device, uint64_t bytes);
};

/* One input of all rows of a batch, on the device, as run_batch sees it: row r is lengths[r] bytes at base +
 * offsets[r]. All of it is 0 for scalars and lists. */
struct sheaf_device_input {
    void *base;
    uint64_t stride_bytes;          /* from one row to the next where all are of one length; 0: ragged */
    const uint64_t *offsets;        /* of row_count rows, in host memory, as the next */
    const uint64_t *lengths;        /* in bytes */
    const uint64_t *device_offsets; /* the same two on the device */
    const uint64_t *device_lengths;
};

/* A batch, for operators with SHEAF_OPERATOR_BATCH. Rows are answered in any order, each exactly once. */
struct sheaf_batch {
    uint32_t size;
    uint32_t row_count;
    const struct sheaf_row *const *rows;
    void *host_batch; /* for `take` and `wait` */
    /* From here on: devices. NULL or 0 for operators without SHEAF_OPERATOR_DEVICE. */
    void *stream;               /* CUstream on the primary context; NULL where the device is no GPU */
    const void *const *devices; /* device pointers of the inputs: [row * input_count + input], NULL without data */
    const struct sheaf_device *device;
    const struct sheaf_device_input *inputs; /* [input] */
    void **cookie;                           /* the operator's own, from run_batch to finish_batch; NULL at first */
};

/*
 * An operator. All pointers are to static data.
 *
 * run, run_batch: return 0 when every row was answered or failed. A negative return raises for the whole dispatch: a
 * per-row operator's row fails with class `operator`; a batch is bisected down to the guilty row. `message` (at most
 * 512 bytes with its NUL) carries the cause.
 *
 * An operator with SHEAF_OPERATOR_DEVICE may have `run` too, with the same results: then a Call of it is an ordinary
 * one, row by row on inputs in place, where the run has no device or the Call says `place: cpu`; and on a device `run`
 * gets the rows that do not fit there.
 */
struct sheaf_operator {
    uint32_t size;
    uint32_t flags; /* SHEAF_OPERATOR_* */
    const char *name;
    const char *version; /* goes into fingerprints and error records; change it when the output may change */
    const char *summary; /* one line, for `sheaf ops` */
    const struct sheaf_port *inputs;
    const struct sheaf_port *outputs;
    const struct sheaf_option *options;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t option_count;
    uint32_t widest_failure; /* enum sheaf_scope */
    uint32_t slots;          /* most rows RUNNING at once in one worker; 0 and 1: one */
    uint32_t timeout_ms; /* default deadline of a row (of a dispatch for a batch operator); 0: the engine's default */
    uint32_t batch_rows; /* default and largest sensible batch; 0: the engine's default */
    uint32_t batch_kib;  /* default of the most input a batch has, in KiB; 0: any. A row with more goes alone */

    int (*open)(const struct sheaf_open *open, void **ret_state); /* may be NULL: state is NULL */
    void (*close)(void *state);                                   /* may be NULL */
    int (*run)(void *state, const struct sheaf_row *row, char *message);
    int (*run_batch)(void *state, const struct sheaf_batch *batch, char *message);
    /* Drop what is kept under `key` (a row's or a parent's): its inputs are about to go. Must not fail. */
    void (*evict)(void *state, uint64_t key);
    /* Bytes the row's outputs will take in shared memory; reserved before it runs, so better too many than too few.
     * NULL: unknown, a default is used. Called in the engine's process: of `inputs` only kinds, numbers and lengths are
     * there (a list's is its number of elements), no bytes. */
    uint64_t (*estimate)(const struct sheaf_option_value *options, const struct sheaf_value *inputs, uint32_t count);
    /* Kind of output `output` where it follows from the options; NULL: as declared. Called by the compiler. */
    sheaf_kind (*output_kind)(const struct sheaf_option_value *options, uint32_t output);

    /* Since 0.2; an operator that is smaller has none of these. */

    /* With SHEAF_OPERATOR_DEVICE: the stream's work for this batch is done. Answers every row that run_batch has not
     * failed. Not called for a batch whose run_batch returned an error, or whose device failed. */
    int (*finish_batch)(void *state, const struct sheaf_batch *batch, char *message);
    /* Bytes of device memory that one row takes beside its inputs: batches are cut so that all of it fits. NULL: 0. */
    uint64_t (*device_bytes)(void *state, const struct sheaf_row *row);
};
/* The size of an operator that knows nothing of devices. */
#define SHEAF_OPERATOR_SIZE_0_1 offsetof(struct sheaf_operator, finish_batch)

struct sheaf_plugin {
    uint32_t size;
    uint32_t abi;     /* SHEAF_OPERATOR_ABI */
    const char *name; /* "documents" */
    const char *version;
    const struct sheaf_operator *const *operators;
    uint32_t operator_count;
    uint32_t reserved;
    /* Environment check for `sheaf doctor`: calls `report` once per finding. May be NULL. Only here may it load
     * libraries outside `open`. ok: 1 fine, 0 missing (`hint` says what to do). */
    void (*doctor)(void (*report)(void *cookie, int ok, const char *what, const char *hint), void *cookie);
    /* Since 0.2: the kernels of its operators, or NULL. */
    const struct sheaf_kernels *kernels;
};
#define SHEAF_PLUGIN_SIZE_0_1 offsetof(struct sheaf_plugin, kernels)

/* The one symbol a plug-in exports: `const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)`. NULL: cannot serve
 * it. */
typedef const struct sheaf_plugin *(*sheaf_plugin_function)(uint32_t host_abi);
#define SHEAF_PLUGIN_SYMBOL "sheaf_plugin"

#ifdef __cplusplus
}
#endif
#endif
