/* SPDX-License-Identifier: Apache-2.0 */
#include "program/registry.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "program/registry_check.h"
#include "program/text.h"

struct entry {
    const struct sheaf_operator *op;
    const char *path;                    /* of its plug-in, or NULL */
    const struct sheaf_kernels *kernels; /* the same */
};

struct loaded {
    const struct sheaf_plugin *plugin;
    void *handle; /* NULL: linked in */
    char *path;   /* NULL: linked in */
};

struct sheaf_registry {
    struct entry *entries; /* in order of name */
    struct loaded *plugins;
    size_t entry_count, plugin_count;
};

int sheaf_registry_create(struct sheaf_registry **ret_registry)
{
    if (!ret_registry)
        return -EINVAL;
    struct sheaf_registry *registry = calloc(1, sizeof(*registry));
    if (!registry)
        return -ENOMEM;
    *ret_registry = registry;
    return 0;
}

void sheaf_registry_destroy(struct sheaf_registry *registry)
{
    if (!registry)
        return;
    for (size_t i = 0; i < registry->plugin_count; i++) {
        if (registry->plugins[i].handle)
            dlclose(registry->plugins[i].handle);
        free(registry->plugins[i].path);
    }
    free(registry->plugins);
    free(registry->entries);
    free(registry);
}

/* Where `name` stands or would stand. */
static size_t entry_position(const struct sheaf_registry *registry, const char *name, bool *ret_found)
{
    size_t low = 0, high = registry->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(registry->entries[middle].op->name, name);
        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_found = false;
    return low;
}

/* Names must be free, also among each other: all or nothing, so that a refused plug-in leaves no trace. */
static int check_names_free(const struct sheaf_registry *registry, const struct sheaf_plugin *plugin, const char *where,
                            struct sheaf_error *error)
{
    for (uint32_t i = 0; i < plugin->operator_count; i++) {
        const char *name = plugin->operators[i]->name;
        bool found;
        size_t at = entry_position(registry, name, &found);
        if (found) {
            const char *owner = registry->entries[at].path;
            return program_error(error, SHEAF_E_USAGE, 0,
                                 "%s: operator \"%s\" is already provided by %s; load only one of them", where, name,
                                 owner ? owner : "a built-in table");
        }
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(plugin->operators[j]->name, name) == 0)
                return program_error(error, SHEAF_E_ABI, 0, "%s: declares operator \"%s\" twice", where, name);
    }
    return 0;
}

/* Takes over `handle` and `path` on success only. */
static int add_plugin(struct sheaf_registry *registry, const struct sheaf_plugin *plugin, void *handle, char *path,
                      struct sheaf_error *error)
{
    const char *where = path ? path : "built-in table";
    int status = plugin_check(plugin, where, error);
    if (status == 0)
        status = check_names_free(registry, plugin, where, error);
    if (status != 0)
        return status;
    struct loaded *plugins = reallocarray(registry->plugins, registry->plugin_count + 1, sizeof(*registry->plugins));
    if (!plugins)
        return program_error(error, -ENOMEM, 0, "%s: out of memory", where);
    registry->plugins = plugins;
    struct entry *entries =
        reallocarray(registry->entries, registry->entry_count + plugin->operator_count, sizeof(*registry->entries));
    if (!entries)
        return program_error(error, -ENOMEM, 0, "%s: out of memory", where);
    registry->entries = entries;
    const struct sheaf_kernels *kernels = plugin->size >= sizeof(*plugin) ? plugin->kernels : NULL;
    plugins[registry->plugin_count++] = (struct loaded){plugin, handle, path};
    for (uint32_t i = 0; i < plugin->operator_count; i++) {
        bool found;
        size_t at = entry_position(registry, plugin->operators[i]->name, &found);
        memmove(&entries[at + 1], &entries[at], (registry->entry_count - at) * sizeof(*entries));
        entries[at] = (struct entry){plugin->operators[i], path, kernels};
        registry->entry_count++;
    }
    return 0;
}

int registry_add_plugin(struct sheaf_registry *registry, const struct sheaf_plugin *plugin, const char *path,
                        struct sheaf_error *error)
{
    char *copy = path ? strdup(path) : NULL;
    if (path && !copy)
        return program_error(error, -ENOMEM, 0, "%s: out of memory", path);
    int status = add_plugin(registry, plugin, NULL, copy, error);
    if (status != 0)
        free(copy);
    return status;
}

static int load_symbol(struct sheaf_registry *registry, void *handle, char *path, struct sheaf_error *error)
{
    void *symbol = dlsym(handle, SHEAF_PLUGIN_SYMBOL);
    if (!symbol)
        return program_error(error, SHEAF_E_ABI, 0, "%s: no plug-in: it does not export %s", path, SHEAF_PLUGIN_SYMBOL);
    sheaf_plugin_function function;
    memcpy(&function, &symbol, sizeof(function)); /* ISO C has no cast from data to function pointers */
    const struct sheaf_plugin *plugin = function(SHEAF_OPERATOR_ABI);
    if (!plugin)
        return program_error(error, SHEAF_E_ABI, 0, "%s: does not serve operator ABI %u; rebuild it for this version",
                             path, SHEAF_OPERATOR_ABI);
    return add_plugin(registry, plugin, handle, path, error);
}

int sheaf_registry_load(struct sheaf_registry *registry, const char *path, struct sheaf_error *error)
{
    if (!registry || !path)
        return program_error(error, -EINVAL, 0, "registry and path must be given");
    char *resolved = realpath(path, NULL); /* with a slash, so that dlopen searches nowhere else */
    if (!resolved) {
        int status = -errno;
        return program_error(error, status, 0, "%s: cannot load plug-in: %s", path, strerrordesc_np(-status));
    }
    void *handle = dlopen(resolved, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *reason = dlerror();
        int status = program_error(error, SHEAF_E_ENVIRONMENT, 0, "%s: cannot load plug-in: %s", path,
                                   reason ? reason : "unknown reason");
        free(resolved);
        return status;
    }
    int status = load_symbol(registry, handle, resolved, error);
    if (status != 0) {
        dlclose(handle);
        free(resolved);
    }
    return status;
}

static int is_shared_object(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 3 && entry->d_name[0] != '.' && strcmp(entry->d_name + length - 3, ".so") == 0;
}

/* Loads the plug-ins of a folder in order of file name; adds their number to `ret_count`. */
static int load_folder(struct sheaf_registry *registry, const char *folder, size_t *ret_count,
                       struct sheaf_error *error)
{
    struct dirent **files = NULL;
    int count = scandir(folder, &files, is_shared_object, alphasort);
    if (count < 0) {
        int status = -errno;
        return program_error(error, status, 0, "%s: cannot read plug-in folder: %s", folder, strerrordesc_np(-status));
    }
    int status = 0;
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        if (status == 0 && asprintf(&path, "%s/%s", folder, files[i]->d_name) < 0)
            status = program_error(error, -ENOMEM, 0, "%s: out of memory", folder);
        if (status == 0)
            status = sheaf_registry_load(registry, path, error);
        *ret_count += status == 0;
        free(path);
        free(files[i]);
    }
    free(files);
    return status;
}

static int load_folder_list(struct sheaf_registry *registry, const char *list, struct sheaf_error *error)
{
    char *copy = strdup(list);
    if (!copy)
        return program_error(error, -ENOMEM, 0, "SHEAF_PLUGINS: out of memory");
    size_t count = 0;
    int status = 0;
    char *rest = copy;
    for (char *folder; status == 0 && (folder = strsep(&rest, ":"));)
        if (*folder)
            status = load_folder(registry, folder, &count, error);
    if (status == 0 && count == 0)
        status = program_error(error, SHEAF_E_ENVIRONMENT, 0,
                               "SHEAF_PLUGINS=%s: no plug-in (*.so) in these folders; correct or unset it", list);
    free(copy);
    return status;
}

/* The folder this library, or the program it is linked into, was loaded from; to be freed. */
static char *library_folder(void)
{
    Dl_info info;
    static const char anchor; /* lies in this library's image */
    if (!dladdr(&anchor, &info) || !info.dli_fname)
        return NULL;
    char *path = realpath(info.dli_fname, NULL);
    if (!path)
        path = realpath("/proc/self/exe", NULL); /* a program found through PATH gives only its name */
    char *slash = path ? strrchr(path, '/') : NULL;
    if (slash)
        *slash = '\0';
    return path;
}

static int load_installed(struct sheaf_registry *registry, const char *library, struct sheaf_error *error)
{
    static const char *const places[] = {"sheaf/plugins", "ops"}; /* an installation, a build tree */
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char folder[PATH_MAX];
        int length = snprintf(folder, sizeof(folder), "%s/%s", library, places[i]);
        struct stat info;
        if (length < 0 || (size_t)length >= sizeof(folder) || stat(folder, &info) != 0 || !S_ISDIR(info.st_mode))
            continue;
        size_t count = 0;
        int status = load_folder(registry, folder, &count, error);
        if (status != 0 || count > 0)
            return status;
    }
    return program_error(error, SHEAF_E_ENVIRONMENT, 0,
                         "%s: no plug-ins in sheaf/plugins or ops below it; set SHEAF_PLUGINS to their folder",
                         library);
}

int sheaf_registry_load_default(struct sheaf_registry *registry, struct sheaf_error *error)
{
    if (!registry)
        return program_error(error, -EINVAL, 0, "registry must be given");
    const char *list = getenv("SHEAF_PLUGINS");
    if (list && *list)
        return load_folder_list(registry, list, error);
    char *library = library_folder();
    if (!library)
        return program_error(error, SHEAF_E_ENVIRONMENT, 0,
                             "cannot tell where this library lies; set SHEAF_PLUGINS to the folder of the plug-ins");
    int status = load_installed(registry, library, error);
    free(library);
    return status;
}

size_t sheaf_registry_count(const struct sheaf_registry *registry)
{
    return registry ? registry->entry_count : 0;
}

const struct sheaf_operator *sheaf_registry_operator(const struct sheaf_registry *registry, size_t index)
{
    return registry && index < registry->entry_count ? registry->entries[index].op : NULL;
}

const struct sheaf_operator *sheaf_registry_find(const struct sheaf_registry *registry, const char *name)
{
    bool found = false;
    size_t at = registry && name ? entry_position(registry, name, &found) : 0;
    return found ? registry->entries[at].op : NULL;
}

const struct sheaf_plugin *sheaf_registry_plugin(const struct sheaf_registry *registry, size_t index,
                                                 const char **ret_path)
{
    if (!registry || index >= registry->plugin_count)
        return NULL;
    if (ret_path)
        *ret_path = registry->plugins[index].path;
    return registry->plugins[index].plugin;
}

static const struct entry *entry_of(const struct sheaf_registry *registry, const struct sheaf_operator *op)
{
    bool found = false;
    size_t at = registry && op ? entry_position(registry, op->name, &found) : 0;
    return found && registry->entries[at].op == op ? &registry->entries[at] : NULL;
}

const char *registry_plugin_path(const struct sheaf_registry *registry, const struct sheaf_operator *op)
{
    const struct entry *entry = entry_of(registry, op);
    return entry ? entry->path : NULL;
}

const struct sheaf_kernels *registry_kernels(const struct sheaf_registry *registry, const struct sheaf_operator *op)
{
    const struct entry *entry = entry_of(registry, op);
    return entry ? entry->kernels : NULL;
}
