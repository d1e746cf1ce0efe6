/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/case_files.h"

#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/plan.h"

static int check_file(const char *path, void (*check)(void *cookie, const json_t *spec), void *cookie)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t capacity = 0;
    int cases = file ? 0 : -1;
    while (cases >= 0 && getline(&line, &capacity, file) > 0) {
        json_t *spec = json_loads(line, 0, NULL);
        cases = spec ? cases + 1 : -1;
        if (spec)
            check(cookie, spec);
        json_decref(spec);
    }
    if (cases < 0)
        fprintf(stderr, "%s: cannot be read, or holds a line that is no JSON\n", path);
    free(line);
    if (file)
        fclose(file);
    return cases;
}

int cases_each(void (*check)(void *cookie, const json_t *spec), void *cookie)
{
    const char *shared = getenv("SHEAF_SHARED"), *root = getenv("SHEAF_SOURCE_ROOT");
    char handed[4096], own[4096];
    glob_t files = {0};
    int cases = 0;
    root = root ? root : ".";
    snprintf(handed, sizeof(handed), "%s%s/conformance/handed/*.jsonl", shared ? shared : root,
             shared ? "" : "/../shared");
    snprintf(own, sizeof(own), "%s/tests/cases/*.jsonl", root);
    glob(handed, 0, NULL, &files);
    glob(own, files.gl_pathc ? GLOB_APPEND : 0, NULL, &files);
    for (size_t i = 0; i < files.gl_pathc && cases >= 0; i++) {
        int more = check_file(files.gl_pathv[i], check, cookie);
        cases = more < 0 ? -1 : cases + more;
    }
    globfree(&files);
    if (cases == 0)
        fprintf(stderr, "skipped: no conformance cases at %s or %s; set SHEAF_SHARED\n", handed, own);
    return cases;
}

char *case_program(const json_t *spec, const size_t *step_order)
{
    const json_t *written = json_object_get(spec, "steps");
    json_t *steps = json_array();
    for (size_t i = 0; i < json_array_size(written); i++)
        json_array_append(steps, json_array_get(written, step_order ? step_order[i] : i));
    json_t *program = json_pack("{s:O,s:o,s:O}", "sources", json_object_get(spec, "sources"), "steps", steps, "outputs",
                                json_object_get(spec, "outputs"));
    char *text = json_dumps(program, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    json_decref(program);
    return text;
}

int case_compile(const struct sheaf_registry *registry, const json_t *spec, struct sheaf_plan **ret_plan,
                 struct sheaf_error *error)
{
    struct sheaf_program *program;
    const char *name = json_string_value(json_object_get(spec, "name"));
    char *text = case_program(spec, NULL);
    int status = text ? sheaf_program_create(registry, &program) : -ENOMEM;
    if (status == 0) {
        status = sheaf_program_parse(program, name, text, strlen(text), NULL, 0, error);
        if (status == 0)
            status = sheaf_program_compile(program, ret_plan, error);
        sheaf_program_destroy(program);
    }
    free(text);
    return status;
}

bool case_columns(const struct sheaf_plan *plan, const json_t *spec, json_t *columns[CASE_SOURCES_MAX])
{
    const json_t *sources = json_object_get(spec, "sources");
    for (uint32_t i = 0; i < plan->source_count && i < CASE_SOURCES_MAX; i++)
        columns[i] = json_object_get(json_object_get(sources, plan->ports[plan->sources[i]].name), "rows");
    return plan->source_count <= CASE_SOURCES_MAX;
}
