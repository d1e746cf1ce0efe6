/* SPDX-License-Identifier: Apache-2.0 */
/* A child begins with nothing of its host but what it is to have, and the host is as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/spawn.h"

enum { OUTPUT_BYTES = 8192 };

#define PROGRAM_TEMPLATE "/tmp/sheaf-spawn-XXXXXX"
static char program[] = PROGRAM_TEMPLATE;

static void write_program(const char *text, mode_t mode)
{
    strcpy(program, PROGRAM_TEMPLATE);
    int fd = mkstemp(program);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

/* What it prints until it ends. Returns its wait status. */
static int run_program(const cpu_set_t *cores, char *ret_output)
{
    struct child_options options = {.path = program, .mode = "mode", .cores = cores};
    struct child child = CHILD_NONE;
    int status = 0;
    long cpu_us;
    size_t used = 0;
    assert_int_equal(child_spawn(&options, &child), 0);
    assert_true(child.pid > 0 && child.pidfd >= 0);
    for (ssize_t got = 1; got != 0;) {
        struct pollfd readable = {.fd = child.output, .events = POLLIN};
        assert_int_equal(poll(&readable, 1, 60000), 1);
        got = read(child.output, ret_output + used, OUTPUT_BYTES - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    ret_output[used] = '\0';
    assert_int_equal(poll(&(struct pollfd){.fd = child.pidfd, .events = POLLIN}, 1, 60000), 1);
    assert_int_equal(child_reap(&child, &status, &cpu_us), 0);
    child_close(&child);
    unlink(program);
    return status;
}

static volatile sig_atomic_t caught;

static void count_signal(int number)
{
    caught = caught + number;
}

/* The hexadecimal word behind a name of /proc/PID/status. */
static uint64_t mask_of(const char *output, const char *name)
{
    const char *at = strstr(output, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 16);
}

static void test_signals(void **state)
{
    char output[OUTPUT_BYTES];
    struct sigaction handler = {.sa_handler = count_signal}, ignore = {.sa_handler = SIG_IGN}, before[3], after;
    sigset_t blocked, mask;
    sigaction(SIGUSR1, &handler, &before[0]);
    sigaction(SIGRTMIN + 3, &handler, &before[1]);
    sigaction(SIGPIPE, &ignore, &before[2]);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    /* cat, not the shell: a shell changes what it inherits */
    write_program("#!/bin/cat /proc/self/status\n", 0700);
    assert_int_equal(run_program(NULL, output), 256); /* cat finds no file `mode` */
    assert_int_equal(mask_of(output, "SigBlk:"), 0);
    assert_true(mask_of(output, "SigIgn:") >> (SIGPIPE - 1) & 1);
    sigaction(SIGUSR1, NULL, &after);
    assert_ptr_equal(after.sa_handler, count_signal);
    pthread_sigmask(SIG_UNBLOCK, &blocked, &mask);
    assert_true(sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIGUSR1));
    raise(SIGUSR1);
    assert_int_equal(caught, SIGUSR1);
    sigaction(SIGUSR1, &before[0], NULL);
    sigaction(SIGRTMIN + 3, &before[1], NULL);
    sigaction(SIGPIPE, &before[2], NULL);
}

static void test_what_it_has(void **state)
{
    char output[OUTPUT_BYTES];
    cpu_set_t cores, own;
    int inherited = fcntl(STDERR_FILENO, F_DUPFD, 77); /* not close-on-exec: some library of the host's */
    assert_true(inherited >= 77);
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_CORE, &limit), 0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){limit.rlim_max, limit.rlim_max});
    CPU_ZERO(&cores);
    for (size_t core = 0; CPU_COUNT(&cores) == 0; core++)
        if (CPU_ISSET(core, &own))
            CPU_SET(core, &cores);
    write_program("#!/bin/sh\n"
                  "echo arguments $1 $2; echo core $(ulimit -c); echo oom $(cat /proc/self/oom_score_adj)\n"
                  "for fd in /proc/$$/fd/*; do echo fd ${fd##*/}; done\n"
                  "echo group $(cut -d' ' -f5 /proc/$$/stat) $$\n"
                  "grep Cpus_allowed_list /proc/self/status\n",
                  0700);
    assert_int_equal(run_program(&cores, output), 0);
    assert_non_null(strstr(output, "arguments mode 3\n"));
    assert_non_null(strstr(output, "core 0\n"));
    assert_non_null(strstr(output, "oom 500\n"));
    assert_non_null(strstr(output, "fd 3\n"));
    char name[32];
    snprintf(name, sizeof name, "fd %d\n", inherited);
    assert_null(strstr(output, name));
    int process = 0, leader = 0;
    const char *group = strstr(output, "group "), *allowed = strstr(output, "Cpus_allowed_list:");
    assert_true(group != NULL && allowed != NULL);
    assert_int_equal(sscanf(group, "group %d %d", &leader, &process), 2);
    assert_int_equal(leader, process);
    assert_null(strpbrk(allowed, ",-")); /* one core */
    cpu_set_t still;
    assert_int_equal(sched_getaffinity(0, sizeof still, &still), 0);
    assert_true(CPU_EQUAL(&still, &own));
    close(inherited);
}

static void test_no_program(void **state)
{
    char output[OUTPUT_BYTES];
    struct child child = CHILD_NONE;
    write_program("\177ELF is not what it is", 0700);
    assert_int_equal(WEXITSTATUS(run_program(NULL, output)), 127);
    assert_string_equal(output, "cannot execute the worker program\n");
    struct child_options options = {.path = "/nowhere/sheaf-worker", .mode = "mode"};
    assert_int_equal(child_spawn(&options, &child), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_what_it_has),
        cmocka_unit_test(test_no_program),
    };
    return cmocka_run_group_tests_name("engine spawn", tests, NULL, NULL);
}
