/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/sanitizer.h"
#include "worker/attach.h"

enum { REAP_MS = 10000, TRACED_MS = 1000, ATTACH_FD = 3, SAFE_FD = 16, ENVIRONMENT_WORD_BYTES = 256 };
enum { KERNEL_SIGNALS = 64, CHILD_STACK_BYTES = 16384 };

/* What runs between clone and exec borrows the memory of the thread that waits for it, also that thread's errno and
 * what sanitizers remember of it. So it is bare system calls, of functions that nothing instruments, and it leaves
 * nothing behind but what exec or _exit takes away. */
#define IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

/* The thread sanitizer replaces clone and takes every child for one with memory of its own. */
enum { BORROWED_MEMORY = BUILT_WITH_THREAD_SANITIZER ? 0 : CLONE_VM | CLONE_VFORK };

struct plan_of_child {
    const struct child_options *options;
    char **environment;
    int socket, output, null;
    pid_t parent;
};

/* As the kernel has it: the handler is the first word of it, and zeros are SIG_DFL. */
struct signal_action {
    uintptr_t words[8];
};

IN_CHILD static void set_action(int number, void (*handler)(int))
{
    struct signal_action action = {{(uintptr_t)handler}};
    syscall(SYS_rt_sigaction, number, &action, NULL, KERNEL_SIGNALS / 8);
}

/* Handlers are the parent's; what it ignores stays ignored. What a terminal sent to the parent's group before the child
 * had its own is not for the child, which a SIGTSTP would stop for good: to ignore a signal drops it. */
IN_CHILD static void take_own_signals(void)
{
    for (int number = 1; number <= KERNEL_SIGNALS; number++) {
        struct signal_action action = {{0}};
        bool of_terminal =
            number == SIGINT || number == SIGQUIT || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
        if (syscall(SYS_rt_sigaction, number, NULL, &action, KERNEL_SIGNALS / 8) < 0 ||
            action.words[0] == (uintptr_t)SIG_IGN || (action.words[0] == (uintptr_t)SIG_DFL && !of_terminal))
            continue;
        set_action(number, SIG_IGN);
        set_action(number, SIG_DFL);
    }
    const uint64_t none = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
}

/* The kernel should pick a worker, which can be replaced, before the host. */
IN_CHILD static void prefer_in_oom(void)
{
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    syscall(SYS_write, fd, "500", 3);
    syscall(SYS_close, fd);
}

IN_CHILD static bool take_descriptors(const struct plan_of_child *plan)
{
    bool taken = syscall(SYS_dup3, plan->null, 0, 0) >= 0 && syscall(SYS_dup3, plan->output, 1, 0) >= 0 &&
                 syscall(SYS_dup3, plan->output, 2, 0) >= 0 && syscall(SYS_dup3, plan->socket, ATTACH_FD, 0) >= 0;
    syscall(SYS_close_range, ATTACH_FD + 1, ~0u, 0); /* those of the host; ours are closed by exec in any case */
    return taken;
}

/* The child. Returns only what it ends with when there is no executing. */
IN_CHILD static int become_worker(void *argument)
{
    const struct plan_of_child *plan = argument;
    const struct rlimit64 no_core = {0, 0};
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (syscall(SYS_getppid) != plan->parent)
        return 127; /* the parent died before the line above */
    syscall(SYS_setpgid, 0, 0);
    take_own_signals();
    if (plan->options->cores)
        syscall(SYS_sched_setaffinity, 0, sizeof *plan->options->cores, plan->options->cores);
    syscall(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, NULL);
    prefer_in_oom();
    if (!take_descriptors(plan))
        return 127;
    const char *const arguments[] = {plan->options->path, plan->options->mode, "3", NULL};
    syscall(SYS_execve, plan->options->path, arguments, plan->environment);
    static const char message[] = "cannot execute the worker program\n";
    syscall(SYS_write, 2, message, sizeof message - 1);
    return 127;
}

/* A process without an exit signal, and its pidfd. It runs in this thread's memory, on a stack of its own, while the
 * thread waits for its exec: to copy the page tables of a host (and to fault on each page written after that) costs
 * more than all the rest of a start. Signals are blocked, so that no handler of the host's runs in it. */
IN_CHILD static pid_t clone_with_pidfd(const struct plan_of_child *plan, int *ret_pidfd)
{
    _Alignas(64) char stack[CHILD_STACK_BYTES];
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int pid = clone(become_worker, stack + sizeof stack, BORROWED_MEMORY | CLONE_PIDFD, (void *)plan, ret_pidfd);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

/* Moves a descriptor out of the range that the child rearranges. */
static int move_up(int fd)
{
    if (fd < 0 || fd >= SAFE_FD)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, SAFE_FD);
    close(fd);
    return moved;
}

/* The environment with other words about devices: in the order of buses, as the topology has them, and those that it is
 * to see. The strings are those of environ, but for the two in `ret_words`. */
static char **environment_with(const char *devices, char ret_words[2][ENVIRONMENT_WORD_BYTES])
{
    static const char order[] = "CUDA_DEVICE_ORDER=", visible[] = "CUDA_VISIBLE_DEVICES=";
    size_t count = 0, kept = 0;
    bool ordered = getenv("CUDA_DEVICE_ORDER") != NULL;
    while (environ[count])
        count++;
    char **changed = calloc(count + 3, sizeof *changed);
    if (!changed)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!devices || strncmp(environ[i], visible, sizeof visible - 1) != 0)
            changed[kept++] = environ[i];
    snprintf(ret_words[0], ENVIRONMENT_WORD_BYTES, "%sPCI_BUS_ID", order);
    snprintf(ret_words[1], ENVIRONMENT_WORD_BYTES, "%s%s", visible, devices ? devices : "");
    if (!ordered)
        changed[kept++] = ret_words[0];
    if (devices)
        changed[kept++] = ret_words[1];
    return changed;
}

int child_spawn(const struct child_options *options, struct child *ret_child)
{
    int sockets[2] = {-1, -1}, pipes[2] = {-1, -1}, null = -1, result;
    char words[2][ENVIRONMENT_WORD_BYTES], **environment = NULL;
    if (access(options->path, X_OK) < 0)
        return -errno;
    if ((result = attach_pair(sockets)) < 0)
        return result;
    if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) < 0 || (null = move_up(open("/dev/null", O_RDONLY | O_CLOEXEC))) < 0) {
        result = -errno;
        goto out;
    }
    sockets[1] = move_up(sockets[1]);
    pipes[1] = move_up(pipes[1]);
    if (sockets[1] < 0 || pipes[1] < 0) {
        result = -EMFILE;
        goto out;
    }
    fcntl(pipes[1], F_SETFL, 0); /* our ends do not block, the child's do */
    environment = environment_with(options->devices, words);
    if (!environment) {
        result = -ENOMEM;
        goto out;
    }
    struct plan_of_child plan = {options, environment, sockets[1], pipes[1], null, getpid()};
    struct child child = CHILD_NONE;
    child.socket = sockets[0];
    child.output = pipes[0];
    child.pid = clone_with_pidfd(&plan, &child.pidfd);
    if (child.pid < 0) {
        result = -errno;
        goto out;
    }
    *ret_child = child;
    sockets[0] = pipes[0] = -1;
    result = 0;
out:
    for (int i = 0; i < 2; i++) {
        if (sockets[i] >= 0)
            close(sockets[i]);
        if (pipes[i] >= 0)
            close(pipes[i]);
    }
    if (null >= 0)
        close(null);
    free(environment);
    return result;
}

void child_kill(const struct child *child, int signal_number)
{
    if (child->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, child->pidfd, signal_number, NULL, 0);
}

bool child_is_stopped(const struct child *child)
{
    siginfo_t info = {.si_pid = 0};
    /* __WALL: it has no exit signal. Left as it is, it is said again until the child goes on. */
    int looked = waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOHANG | WNOWAIT | __WALL);
    return looked == 0 && info.si_pid == child->pid;
}

int child_reap(struct child *child, int *ret_status, long *ret_cpu_us)
{
    int status;
    struct rusage usage;
    pid_t pid;
    struct pollfd gone = {.fd = child->pidfd, .events = POLLIN};
    kill(-child->pid, SIGKILL); /* what it started: while its number is still its own */
    if (poll(&gone, 1, REAP_MS) < 0 && errno != EINTR)
        return -errno;
    int rounds = TRACED_MS; /* a tracer of its own, as a sanitizer that looks for leaks, dies with it a little later */
    while (((pid = wait4(child->pid, &status, __WALL | WNOHANG, &usage)) < 0 && errno == EINTR) ||
           (pid == 0 && rounds-- > 0))
        poll(NULL, 0, pid == 0);
    if (pid <= 0) /* stuck in the system, or some tracer has it */
        return pid < 0 ? -errno : -EBUSY;
    *ret_status = status;
    *ret_cpu_us =
        (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000L + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    return 0;
}

void child_close(struct child *child)
{
    const int descriptors[] = {child->pidfd, child->socket, child->output, child->statm, child->schedstat};
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++) {
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    }
    *child = CHILD_NONE;
}
