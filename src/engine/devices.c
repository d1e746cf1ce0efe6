/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/devices.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/run.h"
#include "engine/spawn.h"

enum { PROBE_MS = 60000, PROBE_BYTES = 16384 };

/* ---- words ---- */

/* The next ordinal of "cuda:N,N,..."; false at the end or where there is none. */
static bool next_ordinal(const char **at, uint32_t *ret_ordinal)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    unsigned long ordinal = strtoul(*at, &end, 10);
    if (ordinal >= DEVICES_MAX || (*end != '\0' && *end != ','))
        return false;
    *at = *end == ',' ? end + 1 : end;
    *ret_ordinal = (uint32_t)ordinal;
    return *end != ',' || end[1] != '\0';
}

bool devices_word_is_good(const char *word)
{
    uint32_t ordinal;
    if (strcmp(word, "auto") == 0 || strcmp(word, "host") == 0 || strcmp(word, "cuda") == 0)
        return true;
    if (strncmp(word, "cuda:", 5) != 0)
        return false;
    word += 5;
    do {
        if (!next_ordinal(&word, &ordinal))
            return false;
    } while (*word != '\0');
    return true;
}

/* ---- looking ---- */

/* What the process prints until it ends, or as long as we wait. */
static size_t read_all(const struct child *child, char *buffer, size_t bytes)
{
    uint64_t until_ns = clock_now_ns() + PROBE_MS * UINT64_C(1000000);
    size_t used = 0;
    while (used + 1 < bytes) {
        uint64_t now_ns = clock_now_ns();
        struct pollfd readable = {.fd = child->output, .events = POLLIN};
        if (now_ns >= until_ns || poll(&readable, 1, (int)((until_ns - now_ns) / 1000000) + 1) < 0)
            break;
        ssize_t got = read(child->output, buffer + used, bytes - used - 1);
        if (got == 0)
            break;
        used += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            break;
    }
    buffer[used] = '\0';
    return used;
}

static int run_probe(const char *worker_path, char *buffer, size_t bytes)
{
    struct child child = CHILD_NONE;
    struct child_options options = {.path = worker_path, .mode = "--devices"};
    int wait_status = 0, status = child_spawn(&options, &child);
    long cpu_us;
    if (status < 0)
        return status;
    read_all(&child, buffer, bytes);
    child_kill(&child, SIGKILL); /* it has said all, or says nothing */
    status = child_reap(&child, &wait_status, &cpu_us);
    child_close(&child);
    return status;
}

/* Lines "device ORDINAL BYTES BUS_ID NAME", or "none WHY". */
static void read_lines(char *text, struct devices *devices)
{
    char *rest = text, *line;
    snprintf(devices->why, sizeof devices->why, "looking for devices crashed");
    while ((line = strsep(&rest, "\n")) != NULL) {
        struct device_found found = {0};
        unsigned long long bytes;
        if (strncmp(line, "none ", 5) == 0)
            snprintf(devices->why, sizeof devices->why, "%.250s", line + 5);
        if (devices->count < DEVICES_MAX &&
            sscanf(line, "device %u %llu %15s %63[^\n]", &found.ordinal, &bytes, found.bus_id, found.name) == 4) {
            found.memory_bytes = bytes;
            devices->found[devices->count++] = found;
        }
    }
}

static int fail(struct sheaf_error *error, int status, const char *format, const char *text)
{
    if (error) {
        error->code = status;
        snprintf(error->message, sizeof error->message, format, text);
    }
    return status;
}

/* Keeps those that "cuda:N,..." names, in its order. */
static int choose(const char *list, struct devices *devices, struct sheaf_error *error)
{
    struct devices chosen = {.may_use_host = devices->may_use_host};
    uint32_t ordinal;
    for (const char *at = list; *at != '\0' && next_ordinal(&at, &ordinal);) {
        uint32_t number = 0;
        while (number < devices->count && devices->found[number].ordinal != ordinal)
            number++;
        for (uint32_t before = 0; before < chosen.count; before++)
            if (chosen.found[before].ordinal == ordinal)
                return fail(error, SHEAF_E_USAGE, "device: %s names a device twice", list);
        if (number == devices->count)
            return fail(error, SHEAF_E_ENVIRONMENT, "device: cuda:%s names a device that the driver does not show",
                        list);
        chosen.found[chosen.count++] = devices->found[number];
    }
    *devices = chosen;
    return 0;
}

/* ---- whether to look at all ---- */

static bool is_nvidia(const char *device)
{
    char path[256], vendor[16] = "";
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.200s/vendor", device);
    FILE *file = fopen(path, "re");
    bool known = file && fgets(vendor, sizeof vendor, file);
    if (file)
        fclose(file);
    return known && strncmp(vendor, "0x10de", 6) == 0;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Asking takes a process, and starting that takes longer than all else that a run does before its first row. Not where
 * there is nothing on the bus (nor a device behind Windows or on the board), and no driver that somebody brings along.
 */
static bool may_have_devices(void)
{
    const char *own = getenv("LD_LIBRARY_PATH");
    DIR *bus = opendir("/sys/bus/pci/devices");
    bool found = bus == NULL || (own != NULL && *own != '\0') || exists("/dev/dxg") || exists("/dev/nvidiactl") ||
                 exists("/dev/nvmap");
    for (const struct dirent *entry; !found && (entry = readdir(bus)) != NULL;)
        found = entry->d_name[0] != '.' && is_nvidia(entry->d_name);
    if (bus)
        closedir(bus);
    return found;
}

/* Asks the worker program. */
static void probe(const char *worker_path, struct devices *devices)
{
    char *text = malloc(PROBE_BYTES);
    int status = text ? run_probe(worker_path, text, PROBE_BYTES) : -ENOMEM;
    if (status == 0)
        read_lines(text, devices);
    else
        snprintf(devices->why, sizeof devices->why, "looking for devices failed: %s", strerror(-status));
    free(text);
}

int devices_find(const char *word, const char *worker_path, const char *imageless, struct devices *ret_devices,
                 struct sheaf_error *error)
{
    struct devices devices = {.may_use_host = word == NULL || strcmp(word, "auto") == 0};
    int status = 0;
    if (word != NULL && !devices_word_is_good(word))
        return fail(error, SHEAF_E_USAGE, "device: '%s' is none of auto, host, cuda and cuda:0,1", word);
    if (word != NULL && strcmp(word, "host") == 0) {
        snprintf(devices.why, sizeof devices.why, "as asked for");
        *ret_devices = devices;
        return 0;
    }
    if (imageless != NULL)
        snprintf(devices.why, sizeof devices.why, "the kernels of %.200s were built without nvcc", imageless);
    else if (devices.may_use_host && !may_have_devices())
        snprintf(devices.why, sizeof devices.why, "no NVIDIA device is on the PCI bus");
    else
        probe(worker_path, &devices);
    if (devices.count == 0 && !devices.may_use_host)
        return fail(error, SHEAF_E_ENVIRONMENT, "device: %s; --device auto would use the host", devices.why);
    if (word != NULL && strncmp(word, "cuda:", 5) == 0 && (status = choose(word + 5, &devices, error)) < 0)
        return status;
    *ret_devices = devices;
    return 0;
}

char *devices_visible(uint32_t ordinal)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char *name = NULL;
    for (uint32_t skip = ordinal; list != NULL && *list != '\0' && skip > 0; skip--) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    if (list != NULL && *list != '\0')
        name = strndup(list, strcspn(list, ","));
    else if (asprintf(&name, "%u", ordinal) < 0)
        name = NULL;
    return name;
}
