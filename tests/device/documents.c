/* SPDX-License-Identifier: Apache-2.0 */
/* The documents plug-in (SHEAF_TEST_DOCUMENTS) as if nvcc had built it, for machines without: its kernels have an image
 * that the driver of the tests takes, and their host functions. With SHEAF_TEST_IMAGELESS: as if it had not. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

#include <sheaf/operator.h>

SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    static struct sheaf_plugin plugin;
    static struct sheaf_kernels kernels;
    const char *path = getenv("SHEAF_TEST_DOCUMENTS");
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    sheaf_plugin_function function = NULL;
    if (library != NULL)
        *(void **)(&function) = dlsym(library, SHEAF_PLUGIN_SYMBOL);
    const struct sheaf_plugin *documents = function != NULL ? function(host_abi) : NULL;
    if (documents == NULL || documents->kernels == NULL)
        return NULL;
    kernels = *documents->kernels;
    kernels.image = getenv("SHEAF_TEST_IMAGELESS") == NULL ? "FAKE" : NULL;
    kernels.image_bytes = 4;
    plugin = *documents;
    plugin.kernels = &kernels;
    return &plugin;
}
