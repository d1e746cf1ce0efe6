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
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ops/document.h"
#include "ops/document_info.h"
#include "ops/layout_document.h"
#include "ops/operators.h"
#include "ops/page_text.h"

enum mode { MODE_MARKDOWN, MODE_JSON, MODE_PLAIN, MODE_PDFIUM, MODE_FILES };

struct record {
    void *data;
    size_t bytes;
};

/* A list in memory, read by cursor. */
struct sheaf_list {
    struct record *records;
    size_t count, next;
};

struct times {
    double open, load, extract, encode, assemble, write;
    long pages;
};

static struct sheaf_value answers[2];
static void *memories[64];
static struct times times;

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- the least host that doc.assemble needs ---- */

static void *host_alloc(const struct sheaf_row *row, size_t bytes)
{
    (void)row;
    for (size_t i = 0; i < 64; i++) {
        if (!memories[i])
            return memories[i] = malloc(bytes ? bytes : 1);
    }
    return NULL;
}

static void *host_resize(const struct sheaf_row *row, void *memory, size_t bytes)
{
    (void)row;
    for (size_t i = 0; i < 64; i++) {
        if (memories[i] == memory) {
            void *moved = realloc(memory, bytes);
            return moved ? memories[i] = moved : NULL;
        }
    }
    return NULL;
}

static int host_answer(const struct sheaf_row *row, const struct sheaf_value *values, uint32_t count)
{
    (void)row;
    memcpy(answers, values, count * sizeof *values);
    return 0;
}

static int host_fail(const struct sheaf_row *row, enum sheaf_scope scope, enum sheaf_class class_id, const char *format,
                     ...)
{
    va_list arguments;
    (void)row, (void)scope, (void)class_id;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return 0;
}

static int host_list_next(struct sheaf_list *list, struct sheaf_value *ret_value)
{
    if (list->next == list->count)
        return 0;
    struct record *record = &list->records[list->next++];
    *ret_value = (struct sheaf_value){.kind = SHEAF_RECORD, .data = record->data, .length_bytes = record->bytes};
    return 1;
}

static void host_list_rewind(struct sheaf_list *list)
{
    list->next = 0;
}

static int host_list_error_next(struct sheaf_list *list, struct sheaf_list_error *ret_error)
{
    (void)list, (void)ret_error;
    return 0;
}

static int host_cancelled(const struct sheaf_row *row)
{
    (void)row;
    return 0;
}

static const struct sheaf_host host = {
    .size = sizeof host,
    .version = SHEAF_OPERATOR_ABI,
    .alloc = host_alloc,
    .resize = host_resize,
    .answer = host_answer,
    .fail = host_fail,
    .list_next = host_list_next,
    .list_rewind = host_list_rewind,
    .list_error_next = host_list_error_next,
    .cancelled = host_cancelled,
};

/* ---- pages ---- */

static void read_page(struct document *document, int index, struct page_content *content, struct record *record)
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

static void print_plain(struct record *records, int count)
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

static int assemble(struct document *document, struct record *records, void *state)
{
    void *info;
    size_t info_bytes;
    if (document_info_encode(document, &info, &info_bytes))
        return -ENOMEM;
    struct sheaf_list pages = {records, (size_t)document->page_count, 0}, none = {NULL, 0, 0};
    struct sheaf_value inputs[3] = {
        {.kind = SHEAF_RECORD, .data = info, .length_bytes = info_bytes},
        {.kind = SHEAF_LIST_OF(SHEAF_RECORD, 1), .list = &pages, .length_bytes = pages.count},
        {.kind = SHEAF_LIST_OF(SHEAF_RECORD, 1), .list = &none},
    };
    uint64_t coordinate = 0;
    struct sheaf_row row = {
        .size = sizeof row, .key = 1, .coordinate = &coordinate, .depth = 1, .input_count = 3, .inputs = inputs};
    char message[512];
    double began = cpu_ms();
    int status = operator_doc_assemble.run(state, &row, message);
    times.assemble += cpu_ms() - began;
    free(info);
    return status;
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

static void give(enum mode mode, const char *folder, const char *path)
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

static int dump(const struct pdfium *pdfium, struct document *document, enum mode mode, const char *folder,
                const char *path, void *state)
{
    static struct page_content content;
    (void)pdfium;
    if (mode == MODE_PDFIUM) {
        print_pdfium_text(document);
        return 0;
    }
    struct record *records = calloc((size_t)document->page_count + 1, sizeof *records);
    for (int index = 0; index < document->page_count; index++)
        read_page(document, index, &content, &records[index]);
    int status = 0;
    if (mode == MODE_PLAIN) {
        print_plain(records, document->page_count);
    } else {
        status = assemble(document, records, state);
        if (!status)
            give(mode, folder, path);
    }
    for (int index = 0; index < document->page_count; index++)
        free(records[index].data);
    free(records);
    for (size_t i = 0; i < 64; i++) {
        free(memories[i]);
        memories[i] = NULL;
    }
    memset(answers, 0, sizeof answers);
    return status;
}

/* Reads the file and opens it; the plain way, without the operators' cache. */
static int dump_file(const struct pdfium *pdfium, enum mode mode, const char *folder, const char *path, void *state)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about)) {
        perror(path);
        if (fd >= 0)
            close(fd);
        return 1;
    }
    double began = cpu_ms();
    size_t size = (size_t)about.st_size;
    char *data = malloc(size + 1);
    ssize_t got = read(fd, data, size);
    close(fd);
    struct document document = {.pdfium = pdfium, .format = DOCUMENT_PDF, .page_index = -1, .descriptor = -1};
    document.pdf = got == (ssize_t)size ? pdfium->FPDF_LoadMemDocument64(data, size, NULL) : NULL;
    if (!document.pdf) {
        fprintf(stderr, "%s: %s\n", path, pdfium_error_text(pdfium->FPDF_GetLastError()));
        free(data);
        return 1;
    }
    document.page_count = pdfium->FPDF_GetPageCount(document.pdf);
    times.open += cpu_ms() - began;
    int status = dump(pdfium, &document, mode, folder, path, state);
    pdfium->FPDF_CloseDocument(document.pdf);
    free(data);
    return status != 0;
}

int main(int count, char **arguments)
{
    enum mode mode = MODE_MARKDOWN;
    const char *folder = NULL;
    bool show_times = false;
    char error[1024];
    const struct pdfium *pdfium;
    void *state;
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
    if (pdfium_load(NULL, error, sizeof error, &pdfium)) {
        fprintf(stderr, "%s\n", error);
        return 77;
    }
    fonts_install(pdfium, NULL);
    struct sheaf_open open = {.size = sizeof open, .host = &host, .error = error, .error_bytes = sizeof error};
    if (operator_doc_assemble.open(&open, &state))
        return 1;
    for (int i = first; i < count; i++)
        failed |= dump_file(pdfium, mode, folder, arguments[i], state);
    operator_doc_assemble.close(state);
    if (show_times)
        fprintf(stderr, "pages %ld ms: open %.1f load %.1f extract %.1f encode %.1f assemble %.1f write %.1f\n",
                times.pages, times.open, times.load, times.extract, times.encode, times.assemble, times.write);
    return failed;
}
