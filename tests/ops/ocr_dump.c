/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What OCR makes of files, without the engine: `ocr_dump [--text] [NAME=VALUE ...] FILE ...`
 *
 * Runs pdf.open, pdf.text, pdf.render and image.ocr over every page, with the options given (each operator takes those
 * it has; the others have the values of pipelines/documents.yaml), and prints one line a page that is read: size of the
 * picture, resolution, milliseconds of CPU for rendering and reading, confidence, words. With --text the words too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host.h"
#include "ops/operators.h"
#include "ops/page_record.h"

enum { GIVEN_MAX = 16 };

static const char *given[GIVEN_MAX] = {"dpi=300", "min_dpi=150", "max_pixels=20000000", "color=gray"};
static size_t given_count = 4;
static int with_text;

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void *operator_open(const struct sheaf_operator *operator)
{
    struct host_option options[GIVEN_MAX];
    size_t count = 0;
    char error[512];
    for (size_t i = 0; i < given_count; i++) {
        const char *value = strchr(given[i], '=') + 1;
        for (uint32_t at = 0; at < operator->option_count; at++) {
            const struct sheaf_option *known = &operator->options[at];
            if (strncmp(known->name, given[i], (size_t)(value - given[i]) - 1) != 0 ||
                known->name[value - given[i] - 1] != 0)
                continue;
            struct host_option *option = &options[count++];
            *option = (struct host_option){known->name, {.type = known->type}};
            if (known->type == SHEAF_OPTION_TEXT)
                option->value.text = value;
            else
                option->value.i64 = atoll(value);
        }
    }
    void *state = host_open(operator, options, count, error);
    if (!state)
        fprintf(stderr, "%s: %s\n", operator->name, error);
    return state;
}

struct operators {
    void *open, *text, *render, *ocr;
};

static void content_print(const struct host_run *run, const char *name, int64_t page, double rendered_ms,
                          double read_ms, const struct host_run *picture)
{
    struct page_content content;
    page_content_init(&content);
    if (page_record_decode(run->outputs[0].data, run->outputs[0].length_bytes, &content) == 0) {
        const struct sheaf_tensor *shape = picture->outputs[0].tensor;
        printf("%s page %" PRId64 ": %" PRIu64 "x%" PRIu64
               " %.0f dpi, render %.0f ms, read %.0f ms, rotation %u, confidence %.0f, "
               "%u words\n",
               name, page + 1, (uint64_t)shape->shape[1], (uint64_t)shape->shape[0], picture->outputs[1].f64,
               rendered_ms, read_ms, content.rotation, (double)content.confidence, content.span_count);
        for (uint32_t i = 0; with_text && i < content.line_count; i++) {
            const struct page_line *line = &content.lines[i];
            for (uint32_t at = line->first_span; at < line->first_span + line->span_count; at++) {
                uint32_t bytes;
                const char *text = page_span_text(&content, &content.spans[at], &bytes);
                printf("%s%.*s", content.spans[at].flags & PAGE_SPACE_BEFORE ? " " : "", (int)bytes, text);
            }
            putchar('\n');
        }
    }
    fflush(stdout);
    page_content_fini(&content);
}

static void page_read(const struct operators *ops, const char *name, const struct sheaf_value inputs[2])
{
    struct host_run text, picture, ocr;
    int64_t page = inputs[0].i64;
    host_run(&operator_pdf_text, ops->text, (struct host_keys){100 + (uint64_t)page, 7}, inputs, 2, &text);
    int needs_ocr = text.answered && text.outputs[1].boolean;
    if (text.failed)
        printf("%s page %" PRId64 ": %s\n", name, page + 1, text.message);
    host_run_fini(&text);
    if (!needs_ocr)
        return;
    double began = cpu_ms();
    host_run(&operator_pdf_render, ops->render, (struct host_keys){200 + (uint64_t)page, 7}, inputs, 2, &picture);
    double rendered = cpu_ms();
    if (picture.answered) {
        struct sheaf_value seen[3] = {picture.outputs[0], inputs[0], picture.outputs[1]};
        host_run(&operator_image_ocr, ops->ocr, (struct host_keys){300 + (uint64_t)page, 7}, seen, 3, &ocr);
        if (ocr.answered)
            content_print(&ocr, name, page, rendered - began, cpu_ms() - rendered, &picture);
        host_run_fini(&ocr);
    } else {
        printf("%s page %" PRId64 ": %s\n", name, page + 1, picture.message);
    }
    host_run_fini(&picture);
}

static void file_read(const struct operators *ops, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t bytes;
    uint8_t *data = host_file_read(path, &bytes);
    struct host_run run;
    if (!data) {
        perror(path);
        return;
    }
    struct sheaf_value file = host_file_value(path, data, bytes);
    host_run(&operator_pdf_open, ops->open, (struct host_keys){7, 0}, &file, 1, &run);
    if (run.failed)
        printf("%s: %s\n", name, run.message);
    for (uint64_t i = 0; i < run.child_count; i++) {
        struct sheaf_value inputs[2] = {run.children[i], file};
        page_read(ops, name, inputs);
    }
    host_run_fini(&run);
    operator_pdf_text.evict(ops->text, 7);
    free(data);
}

int main(int count, char **arguments)
{
    int at = 1;
    for (; at < count &&
           (strcmp(arguments[at], "--text") == 0 || (strchr(arguments[at], '=') && given_count < GIVEN_MAX));
         at++) {
        if (strcmp(arguments[at], "--text") == 0)
            with_text = 1;
        else
            given[given_count++] = arguments[at];
    }
    struct operators ops = {operator_open(&operator_pdf_open), operator_open(&operator_pdf_text),
                            operator_open(&operator_pdf_render), operator_open(&operator_image_ocr)};
    if (!ops.open || !ops.text || !ops.render || !ops.ocr)
        return 1;
    for (; at < count; at++)
        file_read(&ops, arguments[at]);
    host_close(&operator_image_ocr, ops.ocr);
    host_close(&operator_pdf_render, ops.render);
    host_close(&operator_pdf_text, ops.text);
    host_close(&operator_pdf_open, ops.open);
    return 0;
}
