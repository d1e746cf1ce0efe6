/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings: one table says each one's name, kind, default and help, and everything follows from it: flags, environment
 * variables, the settings file, `sheaf config show` and `--help`.
 *
 * A value comes from, in this order: a flag (--workers 4), the environment (SHEAF_WORKERS=4), the settings file (a YAML
 * mapping: `workers: 4`; --config, else SHEAF_CONFIG, else ~/.config/sheaf/config.yaml), the default. A flag or key
 * that does not exist is an error that names the nearest one.
 */
#ifndef SHEAF_TOOL_SETTINGS_H
#define SHEAF_TOOL_SETTINGS_H

#include "text.h"

enum setting_id {
    /* sources */
    SETTING_FILES_FROM,
    SETTING_NULL,
    SETTING_RECURSIVE,
    SETTING_ORDER,
    /* results */
    SETTING_OUTPUT,
    SETTING_DURABILITY,
    SETTING_RETRY_FAILED,
    SETTING_RESTART,
    SETTING_ALLOW_FAILURES,
    /* documents */
    SETTING_LANG,
    SETTING_OCR,
    SETTING_IMAGES,
    SETTING_DPI,
    SETTING_PASSWORDS,
    /* machine */
    SETTING_WORKERS,
    SETTING_WORKERS_PER_CORE,
    SETTING_MEMORY,
    SETTING_TIMEOUT,
    SETTING_START_TIMEOUT,
    SETTING_INTEGRITY,
    SETTING_IO,
    SETTING_DEVICE,
    /* reports */
    SETTING_PROGRESS,
    SETTING_LOG_LEVEL,
    /* surroundings */
    SETTING_PIPELINES,
    SETTING_CONFIG,
    SETTING_TOPOLOGY,
    SETTING_FORMAT,
    SETTING_COUNT,
};

enum setting_kind {
    SETTING_TEXT,
    SETTING_CHOICE,   /* one of `choices`, "a|b" */
    SETTING_NUMBER,   /* 0 to 2^31 - 1 */
    SETTING_BYTES,    /* 512M, 2G, ...: powers of 1024 */
    SETTING_SECONDS,  /* 0.5, 60 */
    SETTING_FLAG,     /* yes|no; --key and --no-key */
    SETTING_FAILURES, /* 10 or 5% */
    SETTING_DEVICES   /* auto, host, cuda, cuda:0,3 */
};

struct setting {
    const char *key;
    char letter; /* short flag, or 0 */
    enum setting_kind kind;
    bool flag_only; /* belongs to one command line: not read from environment or file */
    const char *choices;
    const char *fallback;   /* "" when the default is made elsewhere (and said in `help`) */
    const char *value_name; /* for --help */
    const char *group;
    const char *help;
};

enum setting_origin { FROM_DEFAULT = 0, FROM_FILE, FROM_ENVIRONMENT, FROM_FLAG };

struct setting_value {
    char *text;
    enum setting_origin origin;
    char *where; /* the flag, variable or file:line */
};

struct settings {
    struct setting_value values[SETTING_COUNT];
    struct text_list inputs, includes, excludes, overrides; /* --input, --include, --exclude, --set; in order */
    struct text_list words;                                 /* arguments that are no flags: command, pipeline, ... */
    bool help, version;
};

const struct setting *setting_at(enum setting_id id);

/* Reads everything. 0, or SHEAF_E_USAGE with one line in `error`. `environment` is the process's. */
int settings_read(struct settings *settings, int argc, char **argv, const char *const *environment, struct text *error);
void settings_free(struct settings *settings);

const char *settings_text(const struct settings *settings, enum setting_id id);
bool settings_is(const struct settings *settings, enum setting_id id, const char *word);
bool settings_given(const struct settings *settings, enum setting_id id);
uint64_t settings_number(const struct settings *settings, enum setting_id id); /* NUMBER and BYTES; "" is 0 */
double settings_seconds(const struct settings *settings, enum setting_id id);
/* Are so many failures among so many sources allowed? */
bool settings_failures_allowed(const struct settings *settings, uint64_t failures, uint64_t inputs);

/* Overrides of the pipeline's Calls, "call.option=value": those of the documents flags that were given, then --set. A
 * flag wants a Call that it is for; the environment and the settings file are for all pipelines, and count where there
 * is one. 0, or SHEAF_E_USAGE with one line in `error` when a file that a flag names cannot be read. */
int settings_overrides(const struct settings *settings, struct text_list *ret_overrides, struct text *error);

#endif
