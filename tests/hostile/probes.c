/* SPDX-License-Identifier: Apache-2.0 */
/* Everything a sealed worker must not be able to do, one system call each. */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/acts.h"

static int outcome(long result)
{
    return result < 0 ? errno : 0;
}

/* Let: a descriptor, which is not kept. */
static int opened(long fd)
{
    if (fd < 0)
        return errno;
    close((int)fd);
    return 0;
}

static int open_passwords(void)
{
    return opened(open("/etc/passwd", O_RDONLY));
}

static int open_itself(void)
{
    return opened(open("/proc/self/exe", O_RDONLY));
}

static int open_maps(void)
{
    return opened(open("/proc/self/maps", O_RDONLY));
}

static int open_descriptor_again(void)
{
    return opened(open("/proc/self/fd/1", O_WRONLY));
}

static int open_by_openat2(void)
{
    uint64_t how[3] = {O_RDONLY, 0, 0};
    return opened(syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", how, sizeof how));
}

static int create_shared(void)
{
    int status = opened(open("/dev/shm/sheaf-hostile", O_RDWR | O_CREAT, 0600));
    if (status == 0)
        unlink("/dev/shm/sheaf-hostile");
    return status;
}

static int make_folder(void)
{
    int status = outcome(mkdir("/tmp/sheaf-hostile", 0700));
    if (status == 0)
        rmdir("/tmp/sheaf-hostile");
    return status;
}

static int remove_file(void)
{
    return outcome(unlink("/tmp/sheaf-hostile-nothing"));
}

static int rename_file(void)
{
    return outcome(rename("/tmp/sheaf-hostile-nothing", "/tmp/sheaf-hostile-none"));
}

static int change_mode(void)
{
    return outcome(chmod("/tmp/sheaf-hostile-nothing", 0777));
}

static int look_at_file(void)
{
    struct stat file;
    return outcome(stat("/etc/passwd", &file));
}

static int change_folder(void)
{
    return outcome(chdir("/"));
}

static int internet(void)
{
    return opened(socket(AF_INET, SOCK_STREAM, 0));
}

static int local_socket(void)
{
    return opened(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int kernel_socket(void)
{
    return opened(socket(AF_NETLINK, SOCK_RAW, 0));
}

static int fork_a_process(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return pid < 0 ? errno : 0;
}

static int clone_a_process(void)
{
    long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return pid < 0 ? errno : 0;
}

static int execute(void)
{
    char *const arguments[] = {(char[]){"true"}, NULL};
    return outcome(execv("/bin/true", arguments));
}

static int execute_memory(void)
{
    int fd = memfd_create("hostile", 0);
    if (fd < 0)
        return errno;
    char *const arguments[] = {(char[]){"true"}, NULL};
    syscall(SYS_execveat, fd, "", arguments, NULL, AT_EMPTY_PATH);
    int status = errno;
    close(fd);
    return status;
}

/* Memory that only its descriptor holds. */
static int file_in_memory(void)
{
    static const char bytes[4096];
    int fd = memfd_create("hostile", 0);
    if (fd < 0)
        return errno;
    int status = write(fd, bytes, sizeof bytes) < 0 ? errno : 0;
    close(fd);
    return status;
}

static int new_namespace(void)
{
    return outcome(unshare(CLONE_NEWUSER));
}

static int signal_parent(void)
{
    return outcome(kill(getppid(), 0));
}

static int kill_parent(void)
{
    return outcome(kill(getppid(), SIGKILL));
}

static int kill_everybody(void)
{
    return outcome(kill(-1, SIGKILL));
}

static int open_process(void)
{
    return opened(syscall(SYS_pidfd_open, getppid(), 0));
}

static int trace_parent(void)
{
    return outcome(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
}

static int read_parent(void)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)&byte, 1};
    return outcome(process_vm_readv(getppid(), &here, 1, &there, 1, 0));
}

static int raise_files(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    return outcome(setrlimit(RLIMIT_NOFILE, &limit));
}

static int raise_core(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    return outcome(prlimit(0, RLIMIT_CORE, &limit, NULL));
}

static int limit_parent(void)
{
    struct rlimit limit = {0, 0};
    return outcome(prlimit(getppid(), RLIMIT_FSIZE, &limit, NULL));
}

static int outlive_parent(void)
{
    return outcome(prctl(PR_SET_PDEATHSIG, 0));
}

static int ring(void)
{
    struct io_uring_params params = {0};
    return opened(syscall(SYS_io_uring_setup, 2, &params));
}

static int performance(void)
{
    uint64_t attributes[16] = {0};
    ((uint32_t *)attributes)[1] = sizeof attributes;
    return opened(syscall(SYS_perf_event_open, attributes, 0, -1, -1, 0));
}

static int kernel_program(void)
{
    uint64_t attributes[16] = {2, 0, 0};
    return opened(syscall(SYS_bpf, 0, attributes, sizeof attributes));
}

static int keys(void)
{
    return outcome(syscall(SYS_keyctl, 0, -3, 1));
}

static int fault_handler(void)
{
    return opened(syscall(SYS_userfaultfd, 1));
}

static int mapped(void *memory)
{
    if (memory == MAP_FAILED)
        return errno;
    munmap(memory, 4096);
    return 0;
}

static int executable_memory(void)
{
    return mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static int executable_later(void)
{
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return errno;
    int status = outcome(mprotect(memory, 4096, PROT_READ | PROT_EXEC));
    munmap(memory, 4096);
    return status;
}

static int uncounted_memory(void)
{
    return mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

static int old_shared_memory(void)
{
    return outcome(syscall(SYS_shmget, 0, 4096, 0600));
}

static int poisoned_page(void)
{
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status = outcome(madvise(memory, 4096, MADV_REMOVE));
    munmap(memory, 4096);
    return status == EINVAL ? 0 : status; /* it got as far as looking at the mapping */
}

static int other_host_name(void)
{
    return outcome(sethostname("hostile", 7));
}

const struct probe probes[] = {
    {"open /etc/passwd", open_passwords, 1},
    {"open its own program", open_itself, 1},
    {"open its maps", open_maps, 1},
    {"open a descriptor again", open_descriptor_again, 1},
    {"openat2", open_by_openat2, 1},
    {"create in /dev/shm", create_shared, 1},
    {"mkdir", make_folder, 1},
    {"unlink", remove_file, 0},
    {"rename", rename_file, 0},
    {"chmod", change_mode, 0},
    {"stat", look_at_file, 1},
    {"chdir", change_folder, 1},
    {"internet socket", internet, 1},
    {"unix socket", local_socket, 1},
    {"netlink socket", kernel_socket, 0},
    {"fork", fork_a_process, 1},
    {"clone", clone_a_process, 1},
    {"exec", execute, 0},
    {"exec of memory", execute_memory, 0},
    {"user namespace", new_namespace, 0},
    {"signal the parent", signal_parent, 1},
    {"kill the parent", kill_parent, 0},
    {"kill everybody", kill_everybody, 0},
    {"pidfd of the parent", open_process, 1},
    {"trace the parent", trace_parent, 0},
    {"read the parent", read_parent, 0},
    {"raise NOFILE", raise_files, 0},
    {"raise CORE", raise_core, 0},
    {"limit the parent", limit_parent, 0},
    {"outlive the parent", outlive_parent, 0},
    {"io_uring", ring, 0},
    {"perf", performance, 0},
    {"bpf", kernel_program, 0},
    {"keys", keys, 0},
    {"userfaultfd", fault_handler, 0},
    {"executable mmap", executable_memory, 1},
    {"executable mprotect", executable_later, 1},
    {"anonymous shared memory", uncounted_memory, 1},
    {"a file in memory", file_in_memory, 1},
    {"System V shared memory", old_shared_memory, 0},
    {"MADV_REMOVE", poisoned_page, 1},
    {"host name", other_host_name, 0},
};

const int probe_count = sizeof probes / sizeof probes[0];
