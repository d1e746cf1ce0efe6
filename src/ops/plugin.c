/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in `documents`: its table of operators and what it needs of the machine. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/table.h"
#include "ops/operators.h"
#include "ops/pdfium.h"
#include "ops/tesseract.h"

typedef void (*report_function)(void *cookie, int ok, const char *what, const char *hint);

static void check_pdfium(report_function report, void *cookie)
{
    char path[4096], error[512] = "", what[4200];
    if (pdfium_find(path, sizeof path, error, sizeof error) < 0) {
        report(cookie, 0, error, "tools/fetch-pdfium");
        return;
    }
    snprintf(what, sizeof what, "pdfium: %s", path);
    report(cookie, 1, what, NULL);
}

static void check_tesseract(report_function report, void *cookie)
{
    char folder[4000], error[1024] = "", what[4200];
    const struct tesseract *tesseract;
    if (tesseract_load(error, sizeof error, &tesseract) < 0) {
        report(cookie, 0, error, "apt install libtesseract5 tesseract-ocr-eng");
        return;
    }
    snprintf(what, sizeof what, "Tesseract %s", tesseract->TessVersion());
    report(cookie, 1, what, NULL);
    if (tesseract_find_language(NULL, "eng", 3, folder, sizeof folder, error, sizeof error) < 0) {
        report(cookie, 0, error, "apt install tesseract-ocr-eng");
        return;
    }
    snprintf(what, sizeof what, "Tesseract's English data: %s", folder);
    report(cookie, 1, what, NULL);
}

/* Fonts are looked for where Debian and its relatives, Fedora and Arch put them. */
static void check_fonts(report_function report, void *cookie)
{
    static const struct {
        const char *what, *hint, *paths[4];
    } sets[] = {
        {"Noto fonts",
         "apt install fonts-noto-core",
         {"/usr/share/fonts/truetype/noto", "/usr/share/fonts/google-noto", "/usr/share/fonts/noto", NULL}},
        {"Noto fonts for Chinese, Japanese and Korean",
         "apt install fonts-noto-cjk",
         {"/usr/share/fonts/opentype/noto", "/usr/share/fonts/google-noto-cjk", "/usr/share/fonts/noto-cjk",
          "/usr/share/fonts/google-noto-sans-cjk-fonts"}},
    };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        int found = getenv("SHEAF_FONTS") != NULL;
        for (size_t at = 0; at < 4 && sets[i].paths[at]; at++)
            found = found || access(sets[i].paths[at], R_OK) == 0;
        report(cookie, found, sets[i].what, found ? NULL : sets[i].hint);
    }
}

/* Never missing: the host's loops do the same work. */
static void check_kernels(report_function report, void *cookie)
{
    char what[256];
    snprintf(what, sizeof what, "kernels: on the host for %s; %s", sheaf_kernel_host_variant(),
             sheaf_device_kernels_text());
    report(cookie, 1, what, NULL);
}

static void doctor(report_function report, void *cookie)
{
    check_kernels(report, cookie);
    check_pdfium(report, cookie);
    check_tesseract(report, cookie);
    check_fonts(report, cookie);
}

static const struct sheaf_operator *const operators[] = {
    &operator_pdf_open,  &operator_pdf_text,     &operator_pdf_render,   &operator_image_measure,
    &operator_image_ocr, &operator_image_encode, &operator_doc_assemble,
};

static const struct sheaf_plugin plugin = {
    .size = sizeof plugin,
    .abi = SHEAF_OPERATOR_ABI,
    .name = "documents",
    .version = "0.1.0",
    .operators = operators,
    .operator_count = sizeof operators / sizeof operators[0],
    .doctor = doctor,
    .kernels = &sheaf_device_kernels,
};

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
