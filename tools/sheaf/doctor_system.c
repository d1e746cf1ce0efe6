/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "doctor.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { HUGE_PAGE_BYTES = 2 << 20, DESCRIPTORS_WANTED = 4096, PROCESSES_WANTED = 1024 };

/* The first line of a file of the kernel's, without its end. False if it cannot be read. */
static bool read_line(const char *path, char *ret_line, size_t bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool ok = fgets(ret_line, (int)bytes, file) != NULL;
    fclose(file);
    if (ok)
        ret_line[strcspn(ret_line, "\n")] = '\0';
    return ok;
}

static void check_huge_pages(struct doctor *doctor, int descriptor)
{
    /* A huge page needs its place in memory and in the file to be multiples of its size: map at one inside a
     * reservation. */
    char *space = mmap(NULL, 2 * HUGE_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *place = space + (HUGE_PAGE_BYTES - (uintptr_t)space % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    char *memory = MAP_FAILED;
    if (space != MAP_FAILED)
        memory = mmap(place, HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0);
    if (memory == MAP_FAILED) {
        doctor_report(doctor, FINDING_MISSING, "mapping of shared memory", strerror(errno));
        return;
    }
    memset(memory, 1, HUGE_PAGE_BYTES);
    if (madvise(memory, HUGE_PAGE_BYTES, MADV_COLLAPSE) == 0)
        doctor_report(doctor, FINDING_OK, "huge pages (2 MiB, collapsed on demand)", "");
    else
        doctor_report(doctor, FINDING_WARN, "huge pages: not to be had, sharing memory costs more",
                      errno == EINVAL ? "Linux 6.1 or later with transparent huge pages" : strerror(errno));
    munmap(space, 2 * HUGE_PAGE_BYTES);
}

static void check_memfd(struct doctor *doctor)
{
    int descriptor = memfd_create("sheaf-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0 || ftruncate(descriptor, HUGE_PAGE_BYTES) < 0) {
        doctor_report(doctor, FINDING_MISSING, "shared memory (memfd)", strerror(errno));
    } else {
        doctor_report(doctor, FINDING_OK, "shared memory (memfd; /dev/shm is not used)", "");
        check_huge_pages(doctor, descriptor);
    }
    if (descriptor >= 0)
        close(descriptor);
}

static void check_memlock(struct doctor *doctor)
{
    struct rlimit limit = {0};
    struct text what = {0};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        text_adds(&what, "memlock unlimited");
    else
        text_addf(&what, "memlock %llu KiB", (unsigned long long)limit.rlim_cur >> 10);
    bool enough = limit.rlim_cur >= (rlim_t)8 << 20 || geteuid() == 0;
    doctor_report(doctor, enough ? FINDING_OK : FINDING_WARN, what.data,
                  enough ? ""
                         : "kernels before 5.12 charge io_uring's rings to it: raise it (ulimit -l), or --io sync");
    text_free(&what);
}

static void check_memory_limit(struct doctor *doctor)
{
    char line[64];
    struct text what = {0};
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    text_addf(&what, "memory %.1f GiB", (double)total / (1 << 30));
    if (read_line("/sys/fs/cgroup/memory.max", line, sizeof line) && strcmp(line, "max") != 0)
        text_addf(&what, ", cgroup limit %.1f GiB", strtod(line, NULL) / (1 << 30));
    bool small = total < (uint64_t)1 << 30;
    doctor_report(doctor, small ? FINDING_WARN : FINDING_OK, what.data, small ? "under 1 GiB: use --workers 1" : "");
    text_free(&what);
}

void doctor_memory(struct doctor *doctor)
{
    check_memfd(doctor);
    check_memlock(doctor);
    check_memory_limit(doctor);
}

static void check_io_uring(struct doctor *doctor)
{
    if (settings_is(doctor->settings, SETTING_IO, "sync")) {
        doctor_report(doctor, FINDING_OK, "input and output by plain system calls, as --io sync asks", "");
        return;
    }
    struct io_uring_params params = {0};
    int descriptor = (int)syscall(SYS_io_uring_setup, 2, &params);
    if (descriptor >= 0) {
        close(descriptor);
        doctor_report(doctor, FINDING_OK, "input and output by io_uring", "");
        return;
    }
    const char *why = errno == EPERM    ? "denied (a container's seccomp profile, or kernel.io_uring_disabled)"
                      : errno == ENOSYS ? "this kernel has none"
                      : errno == ENOMEM ? "memlock is too low: ulimit -l"
                                        : strerror(errno);
    struct text what = {0};
    text_addf(&what, "io_uring: %s", why);
    bool is_demanded = settings_is(doctor->settings, SETTING_IO, "uring");
    doctor_report(doctor, is_demanded ? FINDING_MISSING : FINDING_WARN, what.data,
                  "plain system calls are used: same results, more CPU for input and output");
    text_free(&what);
}

static void check_limit(struct doctor *doctor, __rlimit_resource_t resource, const char *name, rlim_t wanted,
                        const char *hint)
{
    struct rlimit limit = {0};
    struct text what = {0};
    getrlimit(resource, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        text_addf(&what, "%s unlimited", name);
    else
        text_addf(&what, "%s %llu", name, (unsigned long long)limit.rlim_cur);
    bool enough = limit.rlim_cur >= wanted;
    doctor_report(doctor, enough ? FINDING_OK : FINDING_WARN, what.data, enough ? "" : hint);
    text_free(&what);
}

void doctor_io(struct doctor *doctor)
{
    check_io_uring(doctor);
    check_limit(doctor, RLIMIT_NOFILE, "open files", DESCRIPTORS_WANTED,
                "raise the hard limit (ulimit -Hn) to 4096 or more");
    check_limit(doctor, RLIMIT_NPROC, "processes", PROCESSES_WANTED, "raise it (ulimit -u) to 1024 or more");
}

/* How many entries of a folder are `prefix` and a number. */
static unsigned count_numbered(const char *folder, const char *prefix)
{
    DIR *stream = opendir(folder);
    struct dirent *entry;
    unsigned count = 0;
    size_t length = strlen(prefix);
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        const char *digits = entry->d_name + length;
        if (strncmp(entry->d_name, prefix, length) == 0 && *digits != '\0' &&
            digits[strspn(digits, "0123456789")] == '\0')
            count++;
    }
    if (stream != NULL)
        closedir(stream);
    return count;
}

static void check_cores(struct doctor *doctor)
{
    cpu_set_t set;
    char line[64];
    struct text what = {0};
    unsigned nodes = count_numbered("/sys/devices/system/node", "node");
    int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
    text_addf(&what, "cores %d usable of %ld", usable, sysconf(_SC_NPROCESSORS_ONLN));
    unsigned long long quota, period;
    if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof line) && sscanf(line, "%llu %llu", &quota, &period) == 2)
        text_addf(&what, ", cgroup allows %.1f", (double)quota / (double)period);
    text_addf(&what, "; NUMA nodes %u", nodes == 0 ? 1 : nodes);
    doctor_report(doctor, FINDING_OK, what.data, "");
    text_free(&what);
}

static void check_gpus(struct doctor *doctor)
{
    const char *device = settings_text(doctor->settings, SETTING_DEVICE);
    struct text what = {0};
    unsigned devices = count_numbered("/dev", "nvidia");
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    text_addf(&what, "GPUs %u", devices);
    if (devices > 0 && driver == NULL)
        doctor_report(doctor, FINDING_WARN, what.data,
                      "libcuda.so.1 is not found: install the driver's user libraries");
    else
        doctor_report(doctor, FINDING_OK, what.data,
                      devices == 0                  ? "none is needed: steps with kernels run on the CPU"
                      : strcmp(device, "host") == 0 ? "not used, as --device host says"
                                                    : "steps with kernels use them; their workers may open the "
                                                      "driver's files");
    if (driver != NULL)
        dlclose(driver);
    text_free(&what);
}

/* What a container may deny: with several nodes, memory is to lie where its users are. */
static void check_binding(struct doctor *doctor)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (count_numbered("/sys/devices/system/node", "node") < 2)
        return;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long first = 1;
    bool bound = memory != MAP_FAILED && syscall(SYS_mbind, memory, bytes, MPOL_PREFERRED, &first, 64ul, 0) == 0;
    if (bound)
        doctor_report(doctor, FINDING_OK, "memory can be bound to NUMA nodes", "");
    else
        doctor_report(doctor, FINDING_WARN, "memory cannot be bound to NUMA nodes",
                      errno == EPERM ? "allow mbind: CAP_SYS_NICE in a container; without it, it lies where it is "
                                       "touched first"
                                     : strerror(errno));
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
}

void doctor_processors(struct doctor *doctor)
{
    check_cores(doctor);
    check_binding(doctor);
    check_gpus(doctor);
}
