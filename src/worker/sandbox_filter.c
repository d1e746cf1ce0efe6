/* SPDX-License-Identifier: Apache-2.0 */
/* The list of system calls. What is not on it fails with EPERM: libraries that merely try something go on. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "worker/sandbox.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NAMESPACES                                                                                                     \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* With any arguments. None takes a path; the only descriptors made are to memory, events and pipes of its own. */
static const int always[] = {
    /* memory it has */
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(brk),
    SCMP_SYS(mincore),
    SCMP_SYS(membarrier),
    /* threads it has, and waiting */
    SCMP_SYS(futex),
    SCMP_SYS(futex_waitv),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getcpu),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(select),
    SCMP_SYS(pselect6),
    SCMP_SYS(pause),
    SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    /* its own signals */
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(rt_sigpending),
    SCMP_SYS(rt_sigsuspend),
    /* the time, and what it is */
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(times),
    SCMP_SYS(getrusage),
    SCMP_SYS(getrlimit),
    SCMP_SYS(sysinfo),
    SCMP_SYS(uname),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getppid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(getrandom),
    /* descriptors it has */
    SCMP_SYS(read),
    SCMP_SYS(readv),
    SCMP_SYS(pread64),
    SCMP_SYS(preadv),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(lseek),
    SCMP_SYS(fstat),
    SCMP_SYS(close),
    SCMP_SYS(fsync),
    /* a descriptor of its own making: host.wait. No memory: nobody would count it */
    SCMP_SYS(eventfd2),
};

/* When a masked argument has one of these values. */
struct argument {
    int call;
    unsigned number;
    uint64_t mask, value;
};

static const struct argument sometimes[] = {
    {SCMP_SYS(mprotect), 2, PROT_EXEC, 0},
    {SCMP_SYS(clone), 0, CLONE_THREAD | CLONE_PTRACE | NAMESPACES, CLONE_THREAD},
    {SCMP_SYS(prctl), 0, UINT64_MAX, PR_SET_NAME},
    {SCMP_SYS(prctl), 0, UINT64_MAX, PR_GET_NAME},
    {SCMP_SYS(fcntl), 1, UINT64_MAX, F_GETFD},
    {SCMP_SYS(fcntl), 1, UINT64_MAX, F_SETFD},
    {SCMP_SYS(fcntl), 1, UINT64_MAX, F_GETFL},
    {SCMP_SYS(fcntl), 1, UINT64_MAX, F_GET_SEALS},
    /* Not MADV_REMOVE, which gives back memory that the engine counts on, nor what only root may. */
    {SCMP_SYS(madvise), 2, UINT64_MAX, MADV_NORMAL},
    {SCMP_SYS(madvise), 2, UINT64_MAX, MADV_RANDOM},
    {SCMP_SYS(madvise), 2, UINT64_MAX, MADV_SEQUENTIAL},
    {SCMP_SYS(madvise), 2, UINT64_MAX, MADV_WILLNEED},
    {SCMP_SYS(madvise), 2, UINT64_MAX, MADV_DONTNEED},
    {SCMP_SYS(madvise), 2, UINT64_MAX, MADV_FREE},
    {SCMP_SYS(madvise), 2, UINT64_MAX, MADV_HUGEPAGE},
    {SCMP_SYS(madvise), 2, UINT64_MAX, MADV_NOHUGEPAGE},
    {SCMP_SYS(madvise), 2, UINT64_MAX, MADV_DONTDUMP},
    {SCMP_SYS(madvise), 2, UINT64_MAX, MADV_DODUMP},
    {SCMP_SYS(madvise), 2, UINT64_MAX, 22 /* MADV_POPULATE_READ */},
    {SCMP_SYS(madvise), 2, UINT64_MAX, 23 /* MADV_POPULATE_WRITE */},
};

static int allow(scmp_filter_ctx filter, int call, unsigned count, const struct scmp_arg_cmp *arguments)
{
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, count, arguments);
}

static int add_lists(scmp_filter_ctx filter)
{
    int status = 0;
    for (size_t at = 0; at < COUNT(always) && status == 0; at++)
        status = allow(filter, always[at], 0, NULL);
    for (size_t at = 0; at < COUNT(sometimes) && status == 0; at++) {
        const struct argument *rule = &sometimes[at];
        struct scmp_arg_cmp argument = SCMP_CMP64(rule->number, SCMP_CMP_MASKED_EQ, rule->mask, rule->value);
        if (rule->mask == UINT64_MAX)
            argument = SCMP_CMP32(rule->number, SCMP_CMP_EQ, (uint32_t)rule->value); /* ints: the kernel sees 32 bits */
        status = allow(filter, rule->call, 1, &argument);
    }
    return status;
}

/* New memory: never executable, and shared only from a descriptor it was handed: anonymous shared memory is counted
 * against no limit. */
static int add_mapping(scmp_filter_ctx filter)
{
    const struct scmp_arg_cmp private[] = {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                                           SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_SHARED, 0)};
    const struct scmp_arg_cmp of_file[] = {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                                           SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED)};
    int status = allow(filter, SCMP_SYS(mmap), COUNT(private), private);
    return status < 0 ? status : allow(filter, SCMP_SYS(mmap), COUNT(of_file), of_file);
}

/* What concerns this process: its own signals, its socket, looking at its limits. */
static int add_self(scmp_filter_ctx filter, int socket)
{
    const struct scmp_arg_cmp self = SCMP_A0_32(SCMP_CMP_EQ, (uint32_t)getpid());
    const struct scmp_arg_cmp to_engine = SCMP_A0_32(SCMP_CMP_EQ, (uint32_t)socket);
    const struct scmp_arg_cmp look_only[] = {SCMP_A2(SCMP_CMP_EQ, 0)};
    int status = allow(filter, SCMP_SYS(tgkill), 1, &self);
    if (status == 0)
        status = allow(filter, SCMP_SYS(kill), 1, &self);
    if (status == 0)
        status = allow(filter, SCMP_SYS(sendmsg), 1, &to_engine);
    if (status == 0)
        status = allow(filter, SCMP_SYS(recvmsg), 1, &to_engine);
    if (status == 0)
        status = allow(filter, SCMP_SYS(prlimit64), COUNT(look_only), look_only);
    /* Its arguments lie in memory, out of a filter's sight; the C library then makes threads by clone. */
    return status < 0 ? status : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

/* What a GPU's driver does besides. That opening ends at its own files is for Landlock. */
static int add_gpu(scmp_filter_ctx filter)
{
    static const int calls[] = {SCMP_SYS(openat),        SCMP_SYS(ioctl),
                                SCMP_SYS(newfstatat),    SCMP_SYS(statx),
                                SCMP_SYS(readlink),      SCMP_SYS(readlinkat),
                                SCMP_SYS(access),        SCMP_SYS(faccessat),
                                SCMP_SYS(getdents64),    SCMP_SYS(sched_setaffinity),
                                SCMP_SYS(get_mempolicy), SCMP_SYS(mlock),
                                SCMP_SYS(munlock),       SCMP_SYS(memfd_create),
                                SCMP_SYS(pwrite64)};
    /* What is pinned must not be shared with a child. */
    static const int advice[] = {MADV_DONTFORK, MADV_DOFORK};
    const struct scmp_arg_cmp any[] = {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)};
    int status = allow(filter, SCMP_SYS(mmap), COUNT(any), any);
    for (size_t at = 0; at < COUNT(advice) && status == 0; at++) {
        const struct scmp_arg_cmp is_advice = SCMP_A2_32(SCMP_CMP_EQ, (uint32_t)advice[at]);
        status = allow(filter, SCMP_SYS(madvise), 1, &is_advice);
    }
    for (size_t at = 0; at < COUNT(calls) && status == 0; at++)
        status = allow(filter, calls[at], 0, NULL);
    return status;
}

static int add_profile(scmp_filter_ctx filter, const struct sandbox_options *options)
{
    int status = add_lists(filter);
    if (status == 0)
        status = add_mapping(filter);
    if (status == 0)
        status = add_self(filter, options->socket);
    return status == 0 && options->profile == SANDBOX_GPU ? add_gpu(filter) : status;
}

int sandbox_filter(const struct sandbox_options *options)
{
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
        return -ENOSYS;
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (filter == NULL)
        return -ENOMEM;
    int status = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (status == 0)
        status = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (status == 0)
        status = add_profile(filter, options);
    if (status == 0)
        status = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (status == 0)
        status = seccomp_load(filter);
    seccomp_release(filter);
    return status;
}
