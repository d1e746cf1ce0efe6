/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/pdfium.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOW_TO_GET "run tools/fetch-pdfium, or set SHEAF_PDFIUM to a libpdfium.so"

/* One per process, because pdfium itself is. */
static struct pdfium loaded;
static int is_loaded;

static int fill(void *library, struct pdfium *table, char *error, size_t error_bytes, const char *path)
{
#define PDFIUM_FILL(result, name, arguments)                                                                           \
    table->name = (result(*) arguments)dlsym(library, #name);                                                          \
    if (!table->name) {                                                                                                \
        snprintf(error, error_bytes, "pdfium: %s has no function %s: too old or not pdfium; " HOW_TO_GET, path,        \
                 #name);                                                                                               \
        return -ENOSYS;                                                                                                \
    }
    PDFIUM_FUNCTIONS(PDFIUM_FILL)
#undef PDFIUM_FILL
    return 0;
}

enum { PLACES = 5 };

/* The n-th place to look, or 0 when there is none at n. The last is a bare name for the dynamic linker. */
static int place(int n, char *path, size_t path_bytes)
{
    Dl_info info;
    char own[PATH_MAX];
    /* Beside the plug-in; above it, in <libdir>/sheaf of an installation, where what is in sheaf/plugins is a plug-in;
     * <build>/pdfium, where the plug-in lies in <build>/src/ops or <build>/plugins. */
    static const char *const forms[] = {"%s/libpdfium.so", "%s/../libpdfium.so", "%s/../../pdfium/libpdfium.so",
                                        "%s/../pdfium/libpdfium.so"};
    if (n == PLACES - 1) {
        snprintf(path, path_bytes, "libpdfium.so");
        return 1;
    }
    if (!dladdr((void *)pdfium_find, &info) || !info.dli_fname || !realpath(info.dli_fname, own))
        return 0;
    if (snprintf(path, path_bytes, forms[n], dirname(own)) >= (int)path_bytes)
        return 0;
    return access(path, R_OK) == 0;
}

int pdfium_find(char *path, size_t path_bytes, char *error, size_t error_bytes)
{
    const char *named = getenv("SHEAF_PDFIUM");
    if (named && *named) {
        snprintf(path, path_bytes, "%s", named);
        if (access(path, R_OK) == 0)
            return 0;
        snprintf(error, error_bytes,
                 "pdfium: SHEAF_PDFIUM=%s cannot be read: %s; correct it, or unset it and run tools/fetch-pdfium",
                 named, strerror(errno));
        return -ENOENT;
    }
    for (int n = 0; n < PLACES; n++) {
        if (!place(n, path, path_bytes))
            continue;
        void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
        if (!library)
            continue;
        dlclose(library);
        return 0;
    }
    snprintf(
        error, error_bytes,
        "pdfium: no libpdfium.so with the plug-in, in the build tree or in the system's library path; " HOW_TO_GET);
    return -ENOENT;
}

int pdfium_load(const char *path, char *error, size_t error_bytes, const struct pdfium **ret_pdfium)
{
    if (!is_loaded) {
        char found[sizeof loaded.path];
        if (path && *path)
            snprintf(found, sizeof found, "%s", path);
        else if (pdfium_find(found, sizeof found, error, error_bytes) < 0)
            return -ENOENT;
        void *library = dlopen(found, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            snprintf(error, error_bytes, "pdfium: cannot load %s: %s; " HOW_TO_GET, found, dlerror());
            return -ELIBACC;
        }
        int status = fill(library, &loaded, error, error_bytes, found);
        if (status < 0) {
            dlclose(library);
            return status;
        }
        memcpy(loaded.path, found, sizeof loaded.path);
        struct pdfium_library_config config = {.version = 2};
        loaded.FPDF_InitLibraryWithConfig(&config);
        is_loaded = 1;
    }
    *ret_pdfium = &loaded;
    return 0;
}

const char *pdfium_error_text(unsigned long code)
{
    switch (code) {
    case FPDF_ERR_FILE:
        return "the file cannot be read";
    case FPDF_ERR_FORMAT:
        return "not a PDF, or too damaged to be read as one";
    case FPDF_ERR_PASSWORD:
        return "a password is needed";
    case FPDF_ERR_SECURITY:
        return "its security handler is not supported";
    case FPDF_ERR_PAGE:
        return "the page is missing or damaged";
    default:
        return "pdfium gives no reason";
    }
}
