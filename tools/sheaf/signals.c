/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* The one global of the program: a handler can reach nothing else. */
static int pipe_ends[2] = {-1, -1};
static volatile sig_atomic_t signal_count;

static void on_signal(int number)
{
    int saved = errno;
    if (number != SIGNAL_STATE && ++signal_count > 2) {
        struct sigaction normal = {.sa_handler = SIG_DFL};
        sigaction(number, &normal, NULL);
        raise(number); /* delivered when the handler returns */
    }
    unsigned char byte = (unsigned char)number;
    ssize_t written = write(pipe_ends[1], &byte, 1);
    (void)written; /* full: there are signals enough in it */
    errno = saved;
}

int signals_install(void)
{
    if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, &action, NULL) < 0 || sigaction(SIGTERM, &action, NULL) < 0 ||
        sigaction(SIGUSR1, &action, NULL) < 0 || sigaction(SIGPIPE, &ignore, NULL) < 0 ||
        sigaction(SIGXFSZ, &ignore, NULL) < 0) /* over `ulimit -f`: an error of the write */
        return -errno;
    return 0;
}

void signals_restore(void)
{
    struct sigaction normal = {.sa_handler = SIG_DFL};
    sigaction(SIGINT, &normal, NULL);
    sigaction(SIGTERM, &normal, NULL);
}

int signals_descriptor(void)
{
    return pipe_ends[0];
}

int signals_next(void)
{
    unsigned char byte;
    return read(pipe_ends[0], &byte, 1) == 1 ? byte : 0;
}
