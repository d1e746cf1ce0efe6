/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_dump [--plain | --json | --pdfium | --output DIR] [--times] FILE...
 *
 * What a person writes who needs text of PDF files and has no engine: one loop in one process, pdfium page by page,
 * pages assembled at the end. The same functions and the same `doc.assemble` as in the engine, so it serves to look at
 * the text of one file, to compare it with other tools (compare_text.py), and as the plain loop that speed is measured
 * against.
 *
 *   (nothing)     Markdown to standard output
 *   --json        JSON to standard output
 *   --plain       the text of all blocks, page by page, running heads included
 *   --pdfium      pdfium's own plain text
 *   --output DIR  DIR/NAME.md and DIR/NAME.json for every file
 *   --times       to standard error: milliseconds of CPU per stage
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops/document.h"
#include "ops/layout_document.h"
#include "ops/page_text.h"
#include "tests/common/document_work.h"

enum mode { MODE_MARKDOWN, MODE_JSON, MODE_PLAIN, MODE_PDFIUM, MODE_FILES };

struct times {
    double open, load, extract, encode, assemble, write;
    long pages;
};

static struct times times;

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- pages ---- */

static void read_page(struct document *document, int index, struct page_content *content, struct document_page *record)
{
    const struct pdfium *pdfium = document->pdfium;
    double began = cpu_ms();
    FPDF_PAGE page = pdfium->FPDF_LoadPage(document->pdf, index);
    FPDF_TEXTPAGE text = page ? pdfium->FPDFText_LoadPage(page) : NULL;
    double loaded = cpu_ms();
    page_content_clear(content);
    content->number = (uint32_t)index + 1;
    if (page)
        page_text_extract(pdfium, page, text, (uint32_t)index + 1, content);
    double extracted = cpu_ms();
    size_t bound = page_record_bound(content);
    record->data = malloc(bound);
    if (page_record_encode(content, record->data, bound, &record->bytes))
        abort();
    double encoded = cpu_ms();
    pdfium->FPDFText_ClosePage(text);
    if (page)
        pdfium->FPDF_ClosePage(page);
    times.load += loaded - began + cpu_ms() - encoded;
    times.extract += extracted - loaded;
    times.encode += encoded - extracted;
    times.pages++;
}

static void print_pdfium_text(struct document *document)
{
    const struct pdfium *pdfium = document->pdfium;
    for (int index = 0; index < document->page_count; index++) {
        FPDF_PAGE page = pdfium->FPDF_LoadPage(document->pdf, index);
        FPDF_TEXTPAGE text = page ? pdfium->FPDFText_LoadPage(page) : NULL;
        int count = text ? pdfium->FPDFText_CountChars(text) : 0;
        unsigned short *units = calloc((size_t)count + 1, 2 * sizeof *units);
        int got = count ? pdfium->FPDFText_GetText(text, 0, count, units) : 0;
        for (int i = 0; i + 1 < got; i++) /* UTF-16LE as it is */
            fwrite(&units[i], 2, 1, stdout);
        fwrite("\n\0", 2, 1, stdout);
        free(units);
        pdfium->FPDFText_ClosePage(text);
        if (page)
            pdfium->FPDF_ClosePage(page);
    }
}

static void print_plain(struct document_page *records, int count)
{
    static struct layout layout;
    static struct page_content content;
    struct buffer out = {0};
    struct layout_document all = {0};
    for (int i = 0; i < count; i++) {
        if (!page_record_decode(records[i].data, records[i].bytes, &content))
            layout_document_note(&all, &content);
    }
    layout_document_finish(&all);
    for (int i = 0; i < count; i++) {
        if (page_record_decode(records[i].data, records[i].bytes, &content) ||
            layout_page(&layout, &content, &all.style, NULL))
            continue;
        for (uint32_t k = 0; k < layout.block_count; k++) {
            layout_block_text(&layout, &content, &layout.blocks[k], &out);
            buffer_append_text(&out, "\n\n");
        }
        buffer_append_char(&out, '\f');
    }
    fwrite(out.data, 1, out.length, stdout);
    buffer_fini(&out);
    layout_document_fini(&all);
}

static void write_file(const char *folder, const char *path, const char *extension, const struct sheaf_value *value)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *dot = strrchr(name, '.');
    char target[4096];
    snprintf(target, sizeof target, "%s/%.*s.%s", folder, dot ? (int)(dot - name) : (int)strlen(name), name, extension);
    FILE *file = fopen(target, "wb");
    if (!file || fwrite(value->data, 1, value->length_bytes, file) != value->length_bytes || fclose(file)) {
        perror(target);
        exit(1);
    }
}

static void give(enum mode mode, const char *folder, const char *path, const struct sheaf_value *answers)
{
    double began = cpu_ms();
    if (mode == MODE_FILES) {
        write_file(folder, path, "md", &answers[0]);
        write_file(folder, path, "json", &answers[1]);
    } else {
        const struct sheaf_value *value = &answers[mode == MODE_JSON];
        fwrite(value->data, 1, value->length_bytes, stdout);
    }
    times.write += cpu_ms() - began;
}

static int assemble(struct document_work *work, struct document_opened *opened, const struct document_page *pages,
                    enum mode mode, const char *folder, const char *path)
{
    struct host_run run;
    double began = cpu_ms();
    int status = document_work_assemble(work, opened, pages, &run);
    times.assemble += cpu_ms() - began;
    if (status < 0)
        return status;
    give(mode, folder, path, run.outputs);
    host_run_fini(&run);
    return 0;
}

static int dump(struct document_work *work, struct document_opened *opened, enum mode mode, const char *folder,
                const char *path)
{
    static struct page_content content;
    struct document *document = document_work_inside(opened);
    if (mode == MODE_PDFIUM) {
        print_pdfium_text(document);
        return 0;
    }
    struct document_page *records = calloc((size_t)document->page_count + 1, sizeof *records);
    for (int index = 0; index < document->page_count; index++)
        read_page(document, index, &content, &records[index]);
    int status = 0;
    if (mode == MODE_PLAIN)
        print_plain(records, document->page_count);
    else
        status = assemble(work, opened, records, mode, folder, path);
    for (int index = 0; index < document->page_count; index++)
        free(records[index].data);
    free(records);
    return status;
}

/* Reads the file and opens it; the plain way, without the operators' cache. */
static int dump_file(struct document_work *work, enum mode mode, const char *folder, const char *path)
{
    int status;
    double began = cpu_ms();
    struct document_opened *opened = document_work_open(work, path, &status);
    times.open += cpu_ms() - began;
    if (!opened) {
        fprintf(stderr, "%s: %s\n", path, strerror(-status));
        return 1;
    }
    status = dump(work, opened, mode, folder, path);
    document_work_close(opened);
    return status != 0;
}

int main(int count, char **arguments)
{
    enum mode mode = MODE_MARKDOWN;
    const char *folder = NULL;
    bool show_times = false;
    char error[1024];
    int failed = 0, first = 1;
    for (; first < count && arguments[first][0] == '-'; first++) {
        if (!strcmp(arguments[first], "--json"))
            mode = MODE_JSON;
        else if (!strcmp(arguments[first], "--plain"))
            mode = MODE_PLAIN;
        else if (!strcmp(arguments[first], "--pdfium"))
            mode = MODE_PDFIUM;
        else if (!strcmp(arguments[first], "--times"))
            show_times = true;
        else if (!strcmp(arguments[first], "--output") && first + 1 < count) {
            mode = MODE_FILES;
            folder = arguments[++first];
        } else
            break;
    }
    if (first >= count) {
        fprintf(stderr, "usage: text_dump [--plain | --json | --pdfium | --output DIR] [--times] FILE...\n");
        return 2;
    }
    struct document_work *work = document_work_create(error, sizeof error);
    if (!work) {
        fprintf(stderr, "%s\n", error);
        return 77;
    }
    for (int i = first; i < count; i++)
        failed |= dump_file(work, mode, folder, arguments[i]);
    document_work_destroy(work);
    if (show_times)
        fprintf(stderr, "pages %ld ms: open %.1f load %.1f extract %.1f encode %.1f assemble %.1f write %.1f\n",
                times.pages, times.open, times.load, times.extract, times.encode, times.assemble, times.write);
    return failed;
}
