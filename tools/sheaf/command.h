/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the `sheaf` program and what they share: exit codes and one-line messages.
 *
 * The program is a client of include/sheaf and nothing else. Standard output carries data only (what a command was
 * asked to print); progress, notes and errors go to standard error, an error being one line: what, where, why, what to
 * try.
 */
#ifndef SHEAF_TOOL_COMMAND_H
#define SHEAF_TOOL_COMMAND_H

#include <sheaf/sheaf.h>

enum exit_code {
    EXIT_OK = 0,
    EXIT_RUN_FAILED = 1,
    EXIT_USAGE = 2,       /* wrong arguments, configuration or program */
    EXIT_ROOTS = 3,       /* finished, but a source failed or is partial */
    EXIT_ENVIRONMENT = 4, /* this machine lacks something */
    EXIT_NO_INPUT = 5,
    EXIT_INTERRUPTED = 130,
    EXIT_TERMINATED = 143,
};

struct settings;

int command_run(const struct settings *settings);
int command_plan(const struct settings *settings);
int command_check(const struct settings *settings);
int command_doctor(const struct settings *settings);
int command_ops(const struct settings *settings);
int command_config(const struct settings *settings);
/* Its arguments are its own: argv[0] is the command. Returns only if sheaf-sim cannot be started. */
int command_sim(char **argv);

/* `sheaf help [COMMAND]`: to standard output. EXIT_USAGE for a command that does not exist. */
int help_print(const char *command);
/* Is this a command? For main and for suggestions. */
const char *const *help_commands(void);

/* One line on standard error, after "sheaf: ". */
void complain(const char *format, ...) SHEAF_PRINTF(1, 2);
/* The line of a library error (or the status in words), and the exit code it stands for. */
int complain_error(const char *what, int status, const struct sheaf_error *error);

#endif
