/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "command.h"
#include "settings.h"

enum { DESCRIPTORS_MAX = 1 << 16 };

static const struct {
    const char *name;
    int (*run)(const struct settings *settings);
    size_t words_max; /* with the command itself */
} table[] = {
    {"run", command_run, 2},       {"plan", command_plan, 2}, {"check", command_check, 2},
    {"doctor", command_doctor, 1}, {"ops", command_ops, 2},   {"config", command_config, 2},
};

static int print_version(void)
{
    printf("sheaf %s\n", sheaf_version());
    return EXIT_OK;
}

static int unknown(const char *command)
{
    const char *nearest = text_nearest(command, help_commands());
    if (nearest != NULL)
        complain("%s: no such command; did you mean %s?", command, nearest);
    else
        complain("%s: no such command; try sheaf help", command);
    return EXIT_USAGE;
}

static int dispatch(const struct settings *settings)
{
    const char *command = settings->words.count > 0 ? settings->words.items[0] : NULL;
    if (settings->version || (command != NULL && strcmp(command, "version") == 0))
        return print_version();
    if (command != NULL && strcmp(command, "help") == 0)
        return help_print(settings->words.count > 1 ? settings->words.items[1] : NULL);
    if (settings->help)
        return help_print(command);
    if (command == NULL) {
        complain("what is to be done? try sheaf help, or sheaf run documents --input DIR --output DIR");
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].name, command) != 0)
            continue;
        if (settings->words.count > table[i].words_max) {
            complain("%s: '%s' is one word too many; try sheaf help %s", command,
                     settings->words.items[table[i].words_max], command);
            return EXIT_USAGE;
        }
        return table[i].run(settings);
    }
    return unknown(command);
}

static int finish(int code)
{
    bool failed = fflush(stdout) != 0 || ferror(stdout) != 0;
    if (failed && code == EXIT_OK) {
        complain("standard output cannot be written to");
        code = EXIT_RUN_FAILED;
    }
    return code;
}

/* A worker costs the engine about six descriptors, and shells give 1024. Workers inherit the limit. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    rlim_t wanted = limit.rlim_max < DESCRIPTORS_MAX ? limit.rlim_max : DESCRIPTORS_MAX;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* doctor tells what is in force */
    }
}

int main(int argc, char **argv)
{
    raise_descriptor_limit();
    setenv("HWLOC_HIDE_ERRORS", "2", 0); /* what it says of a machine without /sys: `sheaf doctor` says it better */
    if (argc > 1 && strcmp(argv[1], "sim") == 0)
        return finish(argc > 2 && strcmp(argv[2], "--help") == 0 ? help_print("sim") : command_sim(argv + 1));
    struct settings settings;
    struct text error = {0};
    int status = settings_read(&settings, argc, argv, (const char *const *)environ, &error);
    int code = EXIT_USAGE;
    if (status == 0)
        code = dispatch(&settings);
    else
        complain("%s", text_string(&error));
    text_free(&error);
    settings_free(&settings);
    return finish(code);
}
