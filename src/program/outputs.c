/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs and the patterns of the files they are written to. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program/compile.h"
#include "program/text.h"

enum { WIDTH_MAX = 18 };

static int refuse_pattern(struct compile *compile, const struct program_output *output, const char *why)
{
    return compile_refuse_output(compile, 0, output, "file pattern \"%.300s\": %s", output->file, why);
}

/* Reads "k}" or "k:0w}" after a brace; gives the end and k, or NULL. */
static const char *read_ordinal(const char *at, uint32_t *ret_depth)
{
    if (*at < '1' || *at > '9')
        return NULL;
    char *end;
    unsigned long depth = strtoul(at, &end, 10);
    if (depth > UINT32_MAX)
        return NULL;
    if (*end == ':') {
        if (end[1] != '0' || end[2] < '1' || end[2] > '9')
            return NULL;
        if (strtoul(end + 2, &end, 10) > WIDTH_MAX)
            return NULL;
    }
    *ret_depth = (uint32_t)depth;
    return *end == '}' ? end + 1 : NULL;
}

/* Marks in `seen` (of `depth` + 1) which ordinals stand in the pattern; seen[0] stands for {name}. */
static const char *read_pattern(const char *pattern, uint32_t depth, bool *seen)
{
    for (const char *at = pattern; *at;) {
        uint32_t ordinal = 0;
        if (*at == '}')
            return "a \"}\" without \"{\"";
        if (*at != '{') {
            at++;
            continue;
        }
        const char *end = strncmp(at, "{name}", 6) == 0 ? at + 6 : read_ordinal(at + 1, &ordinal);
        if (!end)
            return "write {name}, {k} or {k:0w} between braces, k a depth and w a width";
        if (ordinal > depth)
            return "it names a depth that the output's Domain does not have";
        seen[ordinal] = true;
        at = end;
    }
    return NULL;
}

static const char *check_path(const char *pattern)
{
    if (*pattern == '/')
        return "write a path below the output folder, not an absolute one";
    for (const char *at = pattern; at; at = strchr(at, '/')) {
        at += *at == '/';
        size_t length = strcspn(at, "/");
        if (length == 0 || (length <= 2 && strncmp(at, "..", length) == 0))
            return "no component may be empty, \".\" or \"..\"";
    }
    return NULL;
}

/* How many numbers name one file of a Port: the Coordinate of an Item, and in a list the ordinal of the element. */
static uint32_t file_depth(const struct sheaf_plan *plan, const struct plan_port *port)
{
    return plan->domains[port->domain].depth + SHEAF_KIND_DEPTH(port->kind);
}

static int check_pattern(struct compile *compile, const struct program_output *output, uint32_t depth)
{
    bool *seen = memory_array(&compile->scratch, depth + 1, sizeof(*seen));
    if (!seen)
        return compile_no_memory(compile);
    const char *wrong = check_path(output->file);
    if (!wrong)
        wrong = read_pattern(output->file, depth, seen);
    if (!wrong && !seen[0] && !seen[1])
        wrong = "it needs {name}, or the files of two sources would have one name";
    for (uint32_t i = 2; !wrong && i <= depth; i++)
        if (!seen[i])
            wrong = "it needs {k} for every depth k from 2 on, or two items would have one file";
    return wrong ? refuse_pattern(compile, output, wrong) : 0;
}

/* The Port an output means. */
static int find_port(struct compile *compile, const struct program_output *output, uint32_t *ret_port)
{
    const struct name_entry *entry = compile_find_name(compile, output->port);
    if (!entry) {
        struct nearest nearest;
        nearest_start(&nearest, output->port);
        compile_offer_ports(compile, &nearest);
        return compile_refuse_output(compile, 9, output, "no step defines this Port%s", nearest_hint(&nearest));
    }
    if (entry->slot == NAME_OF_CALL)
        return compile_refuse_output(compile, 9, output, "this is a Call, not a Port; name one of the Call's outputs");
    *ret_port = entry->port;
    return 0;
}

int compile_outputs(struct compile *compile)
{
    const struct sheaf_program *program = compile->program;
    struct sheaf_plan *plan = compile->plan;
    plan->outputs = memory_array(compile->memory, program->output_count, sizeof(*plan->outputs));
    if (!plan->outputs)
        return compile_no_memory(compile);
    for (uint32_t i = 0; i < program->output_count; i++) {
        const struct program_output *output = &program->outputs[i];
        struct plan_output *made = &plan->outputs[plan->output_count++];
        int status = find_port(compile, output, &made->port);
        if (status == 0 && output->file)
            status = check_pattern(compile, output, file_depth(plan, &plan->ports[made->port]));
        for (uint32_t j = 0; status == 0 && output->file && j < i; j++)
            if (program->outputs[j].file && strcmp(program->outputs[j].file, output->file) == 0)
                status = refuse_pattern(compile, output, "another output writes the same files");
        if (status != 0)
            return status;
        made->name = memory_string(compile->memory, output->port);
        made->file = output->file ? memory_string(compile->memory, output->file) : NULL;
        if (!made->name || (output->file && !made->file))
            return compile_no_memory(compile);
    }
    return 0;
}
