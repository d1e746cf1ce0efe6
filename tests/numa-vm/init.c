/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of a virtual machine with two NUMA nodes: runs `sheaf` there, and looks where its memory lies.
 *
 * The run is held open (its list of sources comes through a pipe that stays open) until every result is written. Then
 * /proc tells which processing units each thread of the engine and each worker keep to, and on which node the pages of
 * each segment lie, mapped by whomever. The node that a shard or worker keeps to is the one its memory must be on.
 * `sheaf doctor` must put the drive on the bus of the second node beside that node's shard. Prints tables and, at the
 * end, the line that the script beside this looks for.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOURCES = 24, LINES = 32, LINE_BYTES = 4096, WORKERS = 4, SHARDS = 2, NODES = 2, CPUS_PER_NODE = 2 };
enum { LOOKS_MAX = 6000, LOOK_MS = 50, NUMBERS = 8 };
#define MANIFEST "/tmp/out/manifest.jsonl"

/* What there is one of per shard or per worker, and its pages by node. */
struct kind {
    const char *label;
    bool of_worker;
    unsigned long pages[NUMBERS][NODES];
};
static struct kind kinds[] = {{.label = "sheaf-shard-"},
                              {.label = "sheaf-board-"},
                              {.label = "sheaf-notice-"},
                              {.label = "sheaf-worker-", .of_worker = true},
                              {.label = "sheaf-lane-", .of_worker = true},
                              {.label = "sheaf-orders-", .of_worker = true},
                              {.label = "private", .of_worker = true}};
enum { PRIVATE = sizeof kinds / sizeof *kinds - 1 };

static int shard_nodes[NUMBERS], worker_nodes[NUMBERS];
static unsigned wrong;

static void complain(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("wrong: ", stdout);
    vprintf(format, values);
    putchar('\n');
    va_end(values);
    wrong++;
}

static _Noreturn void give_up(const char *what)
{
    printf("numa-vm: %s: %s\n", what, strerror(errno));
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    _exit(1);
}

/* ---- the run ---- */

static void make_sources(void)
{
    static char line[LINE_BYTES];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    if (mkdir("/tmp/in", 0755) < 0)
        give_up("/tmp/in");
    for (int i = 0; i < SOURCES; i++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/in/%d.txt", i);
        FILE *file = fopen(path, "w");
        for (int j = 0; file && j < LINES; j++)
            fwrite(line, 1, sizeof line, file);
        if (!file || fclose(file) != 0)
            give_up(path);
    }
}

/* Starts the engine. `ret_list`: where paths of sources go. */
static pid_t start_engine(int *ret_list)
{
    int list[2];
    if (pipe2(list, O_CLOEXEC) < 0)
        give_up("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(list[0], 0);
        setenv("SHEAF_PLUGINS", "/sheaf", 1);
        setenv("SHEAF_WORKER", "/sheaf/sheaf-worker", 1);
        execl("/sheaf/sheaf", "sheaf", "run", "/sheaf/lines.yaml", "--files-from", "-", "--output", "/tmp/out",
              "--workers", "4", "--memory", "512M", "--progress", "none", "--durability", "none", "--log-level", "info",
              "--set", "shout.longest=100000", (char *)NULL);
        _exit(127);
    }
    if (pid < 0)
        give_up("fork");
    close(list[0]);
    *ret_list = list[1];
    return pid;
}

/* The table of the plan: the drive hangs on node 1, and its readers are the shard of that node. */
static void look_at_plan(void)
{
    int ends[2];
    char line[256];
    bool found = false, may_bind = false;
    if (pipe2(ends, O_CLOEXEC) < 0)
        give_up("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        setenv("SHEAF_WORKER", "/sheaf/sheaf-worker", 1);
        execl("/sheaf/sheaf", "sheaf", "doctor", "--workers", "4", "--memory", "512M", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *table = fdopen(ends[0], "r");
    while (table && fgets(line, sizeof line, table)) {
        unsigned node, shard;
        may_bind |= strstr(line, "ok       memory can be bound to NUMA nodes") != NULL;
        if (sscanf(line, "NVMe %*s %*s %u %u", &node, &shard) != 2)
            continue;
        printf("%s", line);
        found = node == 1 && shard == 1;
    }
    if (table)
        fclose(table);
    waitpid(pid, NULL, 0); /* it misses pipelines and operators that are not here */
    if (!may_bind)
        complain("sheaf doctor does not say that memory can be bound");
    if (!found)
        complain("the drive is not beside shard 1, on node 1");
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int lines = 0;
    for (int c; file && (c = getc(file)) != EOF;)
        lines += c == '\n';
    if (file)
        fclose(file);
    return lines;
}

static void wait_for_results(pid_t engine)
{
    for (int look = 0; count_lines(MANIFEST) < SOURCES; look++) {
        if (look == LOOKS_MAX || waitpid(engine, NULL, WNOHANG) != 0)
            give_up("the run does not get ready");
        poll(NULL, 0, LOOK_MS);
    }
}

/* ---- who keeps to which node ---- */

/* The node that a thread or process keeps to, or -1. */
static int node_of(const char *task)
{
    char path[128], line[256];
    int first = -1, last = -1;
    snprintf(path, sizeof path, "%s/status", task);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        int found = sscanf(line, "Cpus_allowed_list: %d-%d", &first, &last);
        if (found == 1)
            last = first;
        if (found > 0 && strpbrk(line, ","))
            last = 1 << 20;
    }
    if (file)
        fclose(file);
    return first >= 0 && first / CPUS_PER_NODE == last / CPUS_PER_NODE ? first / CPUS_PER_NODE : -1;
}

static void look_at_threads(pid_t engine)
{
    char path[64], name[128], comm[32];
    snprintf(path, sizeof path, "/proc/%d/task", (int)engine);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        int shard;
        snprintf(name, sizeof name, "%s/%.16s/comm", path, task->d_name);
        FILE *file = fopen(name, "r");
        if (!file || !fgets(comm, sizeof comm, file))
            comm[0] = '\0';
        if (file)
            fclose(file);
        if (sscanf(comm, "sheaf-shard-%d", &shard) != 1 && sscanf(comm, "sheaf-io-%d", &shard) != 1)
            continue;
        snprintf(name, sizeof name, "%s/%.16s", path, task->d_name);
        int node = node_of(name);
        if (shard < 0 || shard >= SHARDS || node < 0)
            complain("thread %.15s keeps to no node", comm);
        else if (shard_nodes[shard] >= 0 && shard_nodes[shard] != node)
            complain("threads of shard %d keep to different nodes", shard);
        else
            shard_nodes[shard] = node;
    }
    if (tasks)
        closedir(tasks);
}

/* The number of the worker whose process this is: it alone can write that segment. -1: it is no worker. */
static int worker_number(const char *process)
{
    char path[128], line[512];
    int number = -1;
    snprintf(path, sizeof path, "%s/maps", process);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *label = strstr(line, "memfd:sheaf-worker-");
        if (label && strstr(line, " rw-s "))
            sscanf(label, "memfd:sheaf-worker-%d", &number);
    }
    if (file)
        fclose(file);
    return number < NUMBERS ? number : -1;
}

static int parent_of(const char *process)
{
    char path[128];
    int parent = -1;
    snprintf(path, sizeof path, "%s/stat", process);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1)
        parent = -1;
    if (file)
        fclose(file);
    return parent;
}

/* ---- where pages are ---- */

static void add_pages(unsigned long *pages, const char *line)
{
    for (int node = 0; node < NODES; node++) {
        char word[8];
        snprintf(word, sizeof word, " N%d=", node);
        const char *at = strstr(line, word);
        pages[node] += at ? strtoul(at + strlen(word), NULL, 10) : 0;
    }
}

/* Adds what a process has mapped. `worker`: whose private memory it is, -1: nobody's that is looked at. */
static void look_at_memory(const char *process, int worker)
{
    char path[128], line[1024];
    snprintf(path, sizeof path, "%s/numa_maps", process);
    FILE *file = fopen(path, "r");
    if (!file)
        complain("%s cannot be read", path);
    while (file && fgets(line, sizeof line, file)) {
        for (size_t i = 0; i < PRIVATE; i++) {
            const char *at = strstr(line, kinds[i].label);
            unsigned number = at ? (unsigned)strtoul(at + strlen(kinds[i].label), NULL, 10) : NUMBERS;
            if (number < NUMBERS)
                add_pages(kinds[i].pages[number], line);
        }
        if (worker >= 0 && strstr(line, " anon=") && !strstr(line, "file="))
            add_pages(kinds[PRIVATE].pages[worker], line);
    }
    if (file)
        fclose(file);
}

static void look_at_workers(pid_t engine)
{
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        char process[64];
        snprintf(process, sizeof process, "/proc/%.16s", entry->d_name);
        if (parent_of(process) != (int)engine)
            continue;
        int number = worker_number(process);
        if (number < 0)
            continue;
        worker_nodes[number] = node_of(process);
        if (worker_nodes[number] < 0)
            complain("worker %d keeps to no node", number);
        look_at_memory(process, number);
    }
    if (processes)
        closedir(processes);
}

static void check(void)
{
    int on[NODES] = {0};
    for (int i = 0; i < WORKERS; i++)
        on[worker_nodes[i] > 0] += worker_nodes[i] >= 0;
    if (on[0] != WORKERS / 2 || on[1] != WORKERS / 2)
        complain("%d workers keep to node 0 and %d to node 1", on[0], on[1]);
    if (shard_nodes[0] < 0 || shard_nodes[1] < 0 || shard_nodes[0] == shard_nodes[1])
        complain("the shards keep to nodes %d and %d", shard_nodes[0], shard_nodes[1]);
    printf("%-16s %-8s %12s %12s\n", "memory", "keeps to", "KiB on 0", "KiB on 1");
    for (size_t i = 0; i <= PRIVATE; i++) {
        for (int number = 0; number < (kinds[i].of_worker ? WORKERS : SHARDS); number++) {
            const unsigned long *pages = kinds[i].pages[number];
            int node = kinds[i].of_worker ? worker_nodes[number] : shard_nodes[number];
            char name[32];
            snprintf(name, sizeof name, i == PRIVATE ? "%s of %d" : "%s%d", kinds[i].label, number);
            printf("%-16s node %-3d %12lu %12lu\n", name, node, pages[0] * 4, pages[1] * 4);
            if (pages[0] + pages[1] == 0)
                complain("%s has no pages", name);
            if (node >= 0 && pages[!node] > 0)
                complain("%s: %lu pages are on node %d", name, pages[!node], !node);
        }
    }
}

int main(void)
{
    int list = -1, status = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    mkdir("/tmp", 0755);
    if (mount("proc", "/proc", "proc", 0, NULL) < 0 || mount("sys", "/sys", "sysfs", 0, NULL) < 0 ||
        mount("dev", "/dev", "devtmpfs", 0, NULL) < 0 || mount("tmp", "/tmp", "tmpfs", 0, NULL) < 0)
        give_up("mount");
    memset(shard_nodes, -1, sizeof shard_nodes);
    memset(worker_nodes, -1, sizeof worker_nodes);
    make_sources();
    pid_t engine = start_engine(&list);
    for (int i = 0; i < SOURCES; i++)
        dprintf(list, "/tmp/in/%d.txt\n", i);
    wait_for_results(engine);
    char process[32];
    snprintf(process, sizeof process, "/proc/%d", (int)engine);
    look_at_threads(engine);
    look_at_memory(process, -1);
    look_at_workers(engine);
    check();
    look_at_plan();
    close(list);
    if (waitpid(engine, &status, 0) < 0 || status != 0)
        complain("the run ended with status %#x", (unsigned)status);
    printf(wrong == 0 ? "numa-vm: all is where it was planned\n" : "numa-vm: %u wrong\n", wrong);
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    return 1;
}
