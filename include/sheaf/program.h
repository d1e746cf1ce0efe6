/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs and Plans.
 *
 * A Program is a static acyclic graph of sources, Calls and structural operations, built step by step here or read from
 * YAML or JSON. It compiles into an immutable Plan, which an engine runs. What a program means is in docs/SEMANTICS.md.
 *
 * Objects are not thread-safe; a Plan is immutable and may be shared by threads. Strings are copied. Port and Call
 * names share one name space. Steps may stand in any order: names are resolved at compile time.
 */
#ifndef SHEAF_PROGRAM_H
#define SHEAF_PROGRAM_H

#include <stddef.h>

#include <sheaf/operator.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sheaf_registry; /* the operators that are known */
struct sheaf_program;
struct sheaf_plan;

/* ---- operators ---- */

/* An empty registry; free it after all Programs and Plans made from it. */
SHEAF_API int sheaf_registry_create(struct sheaf_registry **ret_registry);
SHEAF_API void sheaf_registry_destroy(struct sheaf_registry *registry);
/* Loads one plug-in (a shared object) and adds its operators. The plug-in stays loaded until the registry is destroyed.
 * Refuses another ABI, malformed signatures and a name that is already taken. */
SHEAF_API int sheaf_registry_load(struct sheaf_registry *registry, const char *path, struct sheaf_error *error);
/* Loads every plug-in of the folders in SHEAF_PLUGINS (colon-separated), or else of the installation. */
SHEAF_API int sheaf_registry_load_default(struct sheaf_registry *registry, struct sheaf_error *error);
SHEAF_API size_t sheaf_registry_count(const struct sheaf_registry *registry);
/* Operator number `index`, in order of name; NULL past the end. Owned by the registry. */
SHEAF_API const struct sheaf_operator *sheaf_registry_operator(const struct sheaf_registry *registry, size_t index);
/* By name; NULL if unknown. */
SHEAF_API const struct sheaf_operator *sheaf_registry_find(const struct sheaf_registry *registry, const char *name);
/* The plug-ins themselves, for `doctor`: NULL past the end. `ret_path` may be NULL. */
SHEAF_API const struct sheaf_plugin *sheaf_registry_plugin(const struct sheaf_registry *registry, size_t index,
                                                           const char **ret_path);

/* ---- building ---- */

enum sheaf_recovery { SHEAF_RECOVERY_FAIL = 0, SHEAF_RECOVERY_RETRY, SHEAF_RECOVERY_ABORT };
enum sheaf_gather_mode { SHEAF_GATHER_STRICT = 0, SHEAF_GATHER_PARTIAL };
enum sheaf_place { SHEAF_PLACE_AUTO = 0, SHEAF_PLACE_CPU, SHEAF_PLACE_GPU };

struct sheaf_named_option {
    const char *name;
    struct sheaf_option_value value;
};

/* A Call. 0 means "not given" for every number. Limits: docs/SEMANTICS.md section 6, row 10. */
struct sheaf_call {
    uint32_t size;
    uint32_t input_count, output_count, option_count;
    const char *name;
    const char *operator_name;
    const char *const *inputs;  /* Port names */
    const char *const *outputs; /* names for the output Ports */
    const struct sheaf_named_option *options;
    const char *pool; /* NULL: a Pool of its own */
    int64_t batch_rows;
    int64_t replicas;
    int64_t timeout_ms;
    int64_t retries;
    int64_t backoff_ms;
    uint32_t given; /* SHEAF_GIVEN_*: which of the numbers were given, so that a given 0 can be refused */
    enum sheaf_recovery recovery;
    enum sheaf_place place;
    int64_t batch_bytes; /* callers of an older header leave it out, by `size` */
};
enum {
    SHEAF_GIVEN_BATCH = 1u << 0,
    SHEAF_GIVEN_REPLICAS = 1u << 1,
    SHEAF_GIVEN_TIMEOUT = 1u << 2,
    SHEAF_GIVEN_RETRIES = 1u << 3,
    SHEAF_GIVEN_BACKOFF = 1u << 4,
    SHEAF_GIVEN_BATCH_BYTES = 1u << 5,
};

SHEAF_API int sheaf_program_create(const struct sheaf_registry *registry, struct sheaf_program **ret_program);
SHEAF_API void sheaf_program_destroy(struct sheaf_program *program);

/* The building functions record a step; what is wrong with it is said by sheaf_program_compile. They fail only for
 * NULL, empty names and memory. */
SHEAF_API int sheaf_program_source(struct sheaf_program *program, const char *port, sheaf_kind kind);
SHEAF_API int sheaf_program_call(struct sheaf_program *program, const struct sheaf_call *call);
SHEAF_API int sheaf_program_expand(struct sheaf_program *program, const char *const *groups, const char *const *as,
                                   uint32_t count);
/* `members` NULL: the first value. */
SHEAF_API int sheaf_program_gather(struct sheaf_program *program, const char *const *values, const char *const *as,
                                   uint32_t count, const char *members, enum sheaf_gather_mode mode);
SHEAF_API int sheaf_program_broadcast(struct sheaf_program *program, const char *port, const char *like,
                                      const char *as);
SHEAF_API int sheaf_program_filter(struct sheaf_program *program, const char *port, const char *mask, const char *as);
/* An output. `file`: NULL, or the pattern of the file its items are written to, for hosts that write an output tree:
 * "{name}.md", "{name}.pages/{2:05}.jpg" ({name}: the source's path below its input folder; {k:0w}: the ordinal at
 * depth k plus 1, zero-padded; depth 1 is the root). */
SHEAF_API int sheaf_program_output(struct sheaf_program *program, const char *port, const char *file);

/* Reads a program in the words of docs/PROGRAMS.md (YAML, of which JSON is a part). `name` is for messages. `overrides`
 * sets options of Calls, "call.option=value", and wins over the text; with "?" before it, it is passed over where there
 * is no such Call or option. */
SHEAF_API int sheaf_program_parse(struct sheaf_program *program, const char *name, const char *text,
                                  size_t length_bytes, const char *const *overrides, size_t override_count,
                                  struct sheaf_error *error);

/* ---- compiling ---- */

/* Checks everything docs/SEMANTICS.md section 6 names; SHEAF_E_REFUSED with error->row for the first refusal. The
 * Program may be destroyed afterwards, the registry not. */
SHEAF_API int sheaf_program_compile(const struct sheaf_program *program, struct sheaf_plan **ret_plan,
                                    struct sheaf_error *error);
SHEAF_API void sheaf_plan_destroy(struct sheaf_plan *plan);

/* Warning number `index` (rows 12, 13), NULL past the end; `ret_row` may be NULL. */
SHEAF_API const char *sheaf_plan_warning(const struct sheaf_plan *plan, size_t index, uint32_t *ret_row);

/* 64 hexadecimal digits over everything that can change an output: steps, options, operator versions. The string is the
 * plan's. */
SHEAF_API const char *sheaf_plan_fingerprint(const struct sheaf_plan *plan);

/* What a Plan looks like, for people: "text" or "dot". Free the string with free(). */
SHEAF_API int sheaf_plan_describe(const struct sheaf_plan *plan, const char *format, char **ret_text);

struct sheaf_plan_port {
    uint32_t size;
    sheaf_kind kind;
    uint32_t depth;   /* of its Domain: 1 for the root Domain */
    uint32_t partial; /* it is itself a partial gather */
    const char *name;
    const char *file; /* pattern, or NULL */
};
SHEAF_API size_t sheaf_plan_source_count(const struct sheaf_plan *plan);
SHEAF_API size_t sheaf_plan_output_count(const struct sheaf_plan *plan);
SHEAF_API int sheaf_plan_source(const struct sheaf_plan *plan, size_t index, struct sheaf_plan_port *ret_port);
SHEAF_API int sheaf_plan_output(const struct sheaf_plan *plan, size_t index, struct sheaf_plan_port *ret_port);

#ifdef __cplusplus
}
#endif
#endif
