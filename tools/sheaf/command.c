/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <stdio.h>

void complain(const char *format, ...)
{
    char line[2048];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    for (char *at = line; *at != '\0'; at++) {
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    }
    fprintf(stderr, "sheaf: %s\n", line);
}

int complain_error(const char *what, int status, const struct sheaf_error *error)
{
    if (error != NULL && error->message[0] != '\0')
        complain("%s", error->message);
    else
        complain("%s: %s", what, sheaf_status_text(status));
    switch (status) {
    case SHEAF_E_REFUSED:
    case SHEAF_E_USAGE:
    case SHEAF_E_INPUT:
    case -EEXIST:
    case -EBUSY:
    case -EINVAL:
        return EXIT_USAGE;
    case SHEAF_E_ENVIRONMENT:
    case SHEAF_E_ABI:
        return EXIT_ENVIRONMENT;
    default:
        return EXIT_RUN_FAILED;
    }
}
