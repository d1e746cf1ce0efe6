/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/tesseract.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tesseract loaded;
static int is_loaded;

static int fill(void *library, struct tesseract *table, char *error, size_t error_bytes)
{
#define TESSERACT_FILL(result, name, arguments)                                                                        \
    table->name = (result(*) arguments)dlsym(library, #name);                                                          \
    if (!table->name) {                                                                                                \
        snprintf(error, error_bytes, "ocr: this libtesseract has no function %s; version 5 is needed", #name);         \
        return -ENOSYS;                                                                                                \
    }
    TESSERACT_FUNCTIONS(TESSERACT_FILL)
#undef TESSERACT_FILL
    return 0;
}

int tesseract_load(char *error, size_t error_bytes, const struct tesseract **ret_tesseract)
{
    static const char *const names[] = {"libtesseract.so.5", "libtesseract.so", "libtesseract.so.4"};
    void *library = NULL;
    if (is_loaded) {
        *ret_tesseract = &loaded;
        return 0;
    }
    setenv("OMP_THREAD_LIMIT", "1", 0);
    for (size_t i = 0; !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(error, error_bytes, "ocr: cannot load libtesseract.so.5: %s; apt install libtesseract5", dlerror());
        return -ELIBACC;
    }
    int status = fill(library, &loaded, error, error_bytes);
    if (status < 0) {
        dlclose(library);
        return status;
    }
    enum { LEPTONICA_SEVERITY_NONE = 6 };
    int (*severity_set)(int severity) = (int (*)(int))dlsym(library, "setMsgSeverity");
    if (severity_set)
        severity_set(LEPTONICA_SEVERITY_NONE);
    is_loaded = 1;
    *ret_tesseract = &loaded;
    return 0;
}

static int language_missing(const char *language, size_t language_bytes, const char *searched, char *error,
                            size_t error_bytes)
{
    char package[64];
    snprintf(package, sizeof package, "tesseract-ocr-%.*s", (int)language_bytes, language);
    for (char *at = package; *at; at++)
        *at = *at == '_' ? '-' : *at;
    snprintf(error, error_bytes, "ocr: no data for language '%.*s': %.*s.traineddata is not in %s; apt install %s",
             (int)language_bytes, language, (int)language_bytes, language, searched, package);
    return -ENOENT;
}

/* Data that lies in <libdir>/sheaf/tessdata of an installation, or NULL. */
static const char *carried_data(char *path, size_t path_bytes)
{
    Dl_info info;
    char own[PATH_MAX];
    if (!dladdr((void *)carried_data, &info) || !info.dli_fname || !realpath(info.dli_fname, own))
        return NULL;
    if (snprintf(path, path_bytes, "%s/../tessdata", dirname(own)) >= (int)path_bytes)
        return NULL;
    return access(path, R_OK) == 0 ? path : NULL;
}

int tesseract_find_language(const char *data_path, const char *language, size_t language_bytes, char *folder,
                            size_t folder_bytes, char *error, size_t error_bytes)
{
    char carried[PATH_MAX / 2];
    const char *const places[] = {data_path,
                                  getenv("TESSDATA_PREFIX"),
                                  carried_data(carried, sizeof carried),
                                  "/usr/share/tesseract-ocr/5/tessdata",
                                  "/usr/share/tesseract-ocr/4.00/tessdata",
                                  "/usr/share/tessdata",
                                  "/usr/local/share/tessdata"};
    size_t place_count = data_path && *data_path ? 1 : sizeof places / sizeof places[0];
    char searched[512] = "", path[PATH_MAX];
    size_t used = 0;
    for (size_t i = 0; i < place_count; i++) {
        if (!places[i] || !*places[i])
            continue;
        snprintf(path, sizeof path, "%s/%.*s.traineddata", places[i], (int)language_bytes, language);
        if (access(path, R_OK) == 0) {
            snprintf(folder, folder_bytes, "%s", places[i]);
            return 0;
        }
        if (used < sizeof searched)
            used += (size_t)snprintf(searched + used, sizeof searched - used, "%s%s", used ? ", " : "", places[i]);
    }
    return language_missing(language, language_bytes, searched, error, error_bytes);
}
