/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plug-in of five operators: a text becomes its lines, each line is worked on by itself, and the lines come back
 * together under their text. docs/OPERATORS.md walks through it, lines.yaml uses it.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sheaf/operator.h>

/* ---- what the operators have in common: the host, and the options ---- */

struct simple {
    const struct sheaf_host *host;
    int64_t longest; /* lines.shout: option `longest` */
};

static int simple_open(const struct sheaf_open *open, void **ret_state)
{
    struct simple *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    state->host = open->host;
    if (open->option_count > 0)
        state->longest = open->options[0].i64;
    *ret_state = state;
    return 0;
}

static void simple_close(void *state)
{
    free(state);
}

/* The bytes of a `file`: in memory, or, for a file too large for that, read by its descriptor into memory of the row.
 * 0; 1: the row was failed here; negative: raise. */
static int read_file(const struct sheaf_host *host, const struct sheaf_row *row, const struct sheaf_value *file,
                     const char **ret_bytes)
{
    if (file->data) {
        *ret_bytes = file->data;
        return 0;
    }
    int fd, result = host->file_descriptor(row, file, &fd);
    if (result < 0)
        return result;
    char *bytes = host->alloc(row, file->length_bytes);
    if (!bytes)
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory for the text") < 0 ? -EINVAL
                                                                                                               : 1;
    for (uint64_t done = 0; done < file->length_bytes;) {
        ssize_t got = pread(fd, bytes + done, file->length_bytes - done, (off_t)done);
        if (got <= 0)
            return got < 0 ? -errno : -EIO;
        done += (uint64_t)got;
    }
    *ret_bytes = bytes;
    return 0;
}

/* ---- lines.split: streaming, and a failure of the whole root ---- */

static int split_run(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct sheaf_host *host = ((struct simple *)cookie)->host;
    const struct sheaf_value *document = &row->inputs[0];
    const char *bytes;
    int result = read_file(host, row, document, &bytes);
    if (result != 0)
        return result < 0 ? result : 0;
    const char *nul = memchr(bytes, '\0', document->length_bytes);
    if (nul)
        return host->fail(row, SHEAF_SCOPE_ROOT, SHEAF_CLASS_MALFORMED, "byte %zu is NUL: this is no text",
                          (size_t)(nul - bytes));
    int64_t count = 0;
    for (const char *at = bytes, *end = bytes + document->length_bytes; at < end; count++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const struct sheaf_value line = {
            .kind = SHEAF_TEXT, .data = at, .length_bytes = (uint64_t)((stop ? stop : end) - at)};
        result = host->emit(row, &line, 1); /* copied; the line may run elsewhere before this returns */
        if (result < 0)
            return result;
        at = stop ? stop + 1 : end;
    }
    const struct sheaf_value answer[2] = {{.kind = SHEAF_NONE}, {.kind = SHEAF_I64, .i64 = count}};
    return host->answer(row, answer, 2);
}

/* ---- lines.shout: one row, an option, memory for the answer, a failure of the row alone ---- */

static int shout_run(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct simple *state = cookie;
    const struct sheaf_value *line = &row->inputs[0];
    if (line->length_bytes > (uint64_t)state->longest)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_TOO_LARGE,
                                 "%llu bytes, and at most %lld are wanted", (unsigned long long)line->length_bytes,
                                 (long long)state->longest);
    char *loud = state->host->alloc(row, line->length_bytes);
    if (!loud)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory for a line");
    for (uint64_t i = 0; i < line->length_bytes; i++)
        loud[i] = (char)toupper(((const unsigned char *)line->data)[i]);
    const struct sheaf_value answer = {.kind = SHEAF_TEXT, .data = loud, .length_bytes = line->length_bytes};
    return state->host->answer(row, &answer, 1); /* taken over, not copied */
}

/* ---- lines.letters: whole batches ---- */

static int letters_run(void *cookie, const struct sheaf_batch *batch, char *message)
{
    const struct simple *state = cookie;
    for (uint32_t at = 0; at < batch->row_count; at++) {
        const struct sheaf_row *row = batch->rows[at];
        const struct sheaf_value *line = &row->inputs[0];
        struct sheaf_value answer = {.kind = SHEAF_I64};
        for (uint64_t i = 0; i < line->length_bytes; i++)
            answer.i64 += isalpha(((const unsigned char *)line->data)[i]) != 0;
        int result = state->host->answer(row, &answer, 1);
        if (result < 0) {
            snprintf(message, 512, "line %llu: no answer could be given", (unsigned long long)row->coordinate[1]);
            return result;
        }
    }
    return 0;
}

/* ---- lines.share: state per parent ---- */

/* What is known of one text, so that it is read once here and not for each of its lines. */
struct known {
    struct known *next;
    uint64_t parent_key;
    uint64_t longest_line;
};

struct share {
    const struct sheaf_host *host;
    struct known *known;
};

static int share_open(const struct sheaf_open *open, void **ret_state)
{
    struct share *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    state->host = open->host;
    *ret_state = state;
    return 0;
}

static void share_evict(void *cookie, uint64_t key)
{
    struct share *state = cookie;
    for (struct known **link = &state->known; *link; link = &(*link)->next) {
        struct known *known = *link;
        if (known->parent_key != key)
            continue;
        *link = known->next;
        free(known);
        return;
    }
}

static void share_close(void *cookie)
{
    struct share *state = cookie;
    while (state->known)
        share_evict(state, state->known->parent_key);
    free(state);
}

static uint64_t longest_line(const char *bytes, uint64_t length_bytes)
{
    uint64_t longest = 1, here = 0; /* 1: no division by zero later */
    for (uint64_t i = 0; i < length_bytes; i++) {
        here = bytes[i] == '\n' ? 0 : here + 1;
        longest = here > longest ? here : longest;
    }
    return longest;
}

static int share_run(void *cookie, const struct sheaf_row *row, char *message)
{
    struct share *state = cookie;
    struct known *known = state->known;
    while (known && known->parent_key != row->parent_key)
        known = known->next;
    if (!known) {
        const char *bytes;
        int result = read_file(state->host, row, &row->inputs[1], &bytes);
        if (result != 0)
            return result < 0 ? result : 0;
        known = calloc(1, sizeof *known);
        if (!known)
            return -ENOMEM; /* raises: the row fails with class `operator` */
        known->parent_key = row->parent_key;
        known->longest_line = longest_line(bytes, row->inputs[1].length_bytes);
        known->next = state->known;
        state->known = known;
    }
    const struct sheaf_value answer = {.kind = SHEAF_I64,
                                       .i64 = (int64_t)(row->inputs[0].length_bytes * 100 / known->longest_line)};
    return state->host->answer(row, &answer, 1);
}

/* ---- lines.join: lists by cursor, and what a partial gather left out ---- */

/* Appends to a text in memory of the row that grows. False: no memory. */
struct writing {
    const struct sheaf_host *host;
    const struct sheaf_row *row;
    char *text;
    size_t used, room;
};

static int write_text(struct writing *writing, const void *bytes, size_t length_bytes)
{
    if (writing->room - writing->used < length_bytes) {
        size_t room = 2 * (writing->room + length_bytes);
        char *larger = writing->host->resize(writing->row, writing->text, room); /* NULL: as alloc */
        if (!larger)
            return 0;
        writing->text = larger;
        writing->room = room;
    }
    memcpy(writing->text + writing->used, bytes, length_bytes);
    writing->used += length_bytes;
    return 1;
}

static int write_line(struct writing *writing, const struct sheaf_value *line, int64_t letters, int64_t percent)
{
    char head[64];
    int length = snprintf(head, sizeof head, "%lld letters, %lld%%: ", (long long)letters, (long long)percent);
    return write_text(writing, head, (size_t)length) && write_text(writing, line->data, line->length_bytes) &&
           write_text(writing, "\n", 1);
}

static int write_missing(struct writing *writing, const struct sheaf_list_error *error)
{
    char line[512];
    snprintf(line, sizeof line, "line %llu is missing: %s: %s\n", (unsigned long long)error->ordinal + 1,
             error->class_id == SHEAF_CLASS_TOO_LARGE ? "too long" : "failed", error->message);
    return write_text(writing, line, strlen(line));
}

static int join_run(void *cookie, const struct sheaf_row *row, char *message)
{
    const struct sheaf_host *host = ((struct simple *)cookie)->host;
    struct writing writing = {.host = host, .row = row};
    struct sheaf_value line, letters, percent;
    struct sheaf_list_error error;
    int result, fits = 1;
    while (fits && (result = host->list_next(row->inputs[0].list, &line)) > 0) {
        if ((result = host->list_next(row->inputs[1].list, &letters)) <= 0 ||
            (result = host->list_next(row->inputs[2].list, &percent)) <= 0)
            return result < 0 ? result : -EINVAL; /* the lists have the same members: cannot happen */
        fits = write_line(&writing, &line, letters.i64, percent.i64);
    }
    while (fits && result == 0 && (result = host->list_error_next(row->inputs[0].list, &error)) > 0) {
        fits = write_missing(&writing, &error);
        result = 0;
    }
    if (!fits)
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory for the text");
    if (result < 0)
        return result;
    const struct sheaf_value answer = {
        .kind = SHEAF_TEXT, .data = writing.text ? writing.text : "", .length_bytes = writing.used};
    return host->answer(row, &answer, 1);
}

/* ---- what the plug-in says of itself ---- */

static const struct sheaf_port text_file[] = {{"text", SHEAF_FILE, 0, "a text file"}};
static const struct sheaf_port line[] = {{"line", SHEAF_TEXT, 0, "one line, without its end"}};
static const struct sheaf_port number[] = {{"number", SHEAF_I64, 0, NULL}};
static const struct sheaf_port split_outputs[] = {{"lines", SHEAF_TEXT, SHEAF_PORT_GROUP, "the lines, in order"},
                                                  {"count", SHEAF_I64, 0, "how many there are"}};
static const struct sheaf_port share_inputs[] = {{"line", SHEAF_TEXT, 0, "one line"},
                                                 {"text", SHEAF_FILE, 0, "the text it is from"}};
static const struct sheaf_port join_inputs[] = {{"lines", SHEAF_LIST_OF(SHEAF_TEXT, 1), 0, "lines, in order"},
                                                {"letters", SHEAF_LIST_OF(SHEAF_I64, 1), 0, "letters of each"},
                                                {"percent", SHEAF_LIST_OF(SHEAF_I64, 1), 0, "length of each"}};
static const struct sheaf_port joined[] = {{"text", SHEAF_TEXT, 0, "a line for each line"}};

static const struct sheaf_option shout_options[] = {{.name = "longest",
                                                     .type = SHEAF_OPTION_I64,
                                                     .fallback = {.type = SHEAF_OPTION_I64, .i64 = 200},
                                                     .min = 1,
                                                     .max = 1 << 20,
                                                     .summary = "a line of more bytes than this fails"}};

static const struct sheaf_operator split = {.size = sizeof split,
                                            .name = "lines.split",
                                            .version = "1",
                                            .summary = "a text as its lines",
                                            .inputs = text_file,
                                            .outputs = split_outputs,
                                            .input_count = 1,
                                            .output_count = 2,
                                            .widest_failure = SHEAF_SCOPE_ROOT,
                                            .open = simple_open,
                                            .close = simple_close,
                                            .run = split_run};
static const struct sheaf_operator shout = {.size = sizeof shout,
                                            .name = "lines.shout",
                                            .version = "1",
                                            .summary = "a line in capitals",
                                            .inputs = line,
                                            .outputs = line,
                                            .options = shout_options,
                                            .input_count = 1,
                                            .output_count = 1,
                                            .option_count = 1,
                                            .open = simple_open,
                                            .close = simple_close,
                                            .run = shout_run};
static const struct sheaf_operator letters = {.size = sizeof letters,
                                              .flags = SHEAF_OPERATOR_BATCH,
                                              .name = "lines.letters",
                                              .version = "1",
                                              .summary = "how many letters a line has",
                                              .inputs = line,
                                              .outputs = number,
                                              .input_count = 1,
                                              .output_count = 1,
                                              .batch_rows = 32,
                                              .open = simple_open,
                                              .close = simple_close,
                                              .run_batch = letters_run};
static const struct sheaf_operator share = {.size = sizeof share,
                                            .flags = SHEAF_OPERATOR_STATE_OF_PARENT,
                                            .name = "lines.share",
                                            .version = "1",
                                            .summary = "length of a line in percent of the longest",
                                            .inputs = share_inputs,
                                            .outputs = number,
                                            .input_count = 2,
                                            .output_count = 1,
                                            .open = share_open,
                                            .close = share_close,
                                            .run = share_run,
                                            .evict = share_evict};
static const struct sheaf_operator join = {.size = sizeof join,
                                           .name = "lines.join",
                                           .version = "1",
                                           .summary = "lines and what is known of them as one text",
                                           .inputs = join_inputs,
                                           .outputs = joined,
                                           .input_count = 3,
                                           .output_count = 1,
                                           .open = simple_open,
                                           .close = simple_close,
                                           .run = join_run};
static const struct sheaf_operator *const operators[] = {&split, &shout, &letters, &share, &join};
static const struct sheaf_plugin plugin = {.size = sizeof plugin,
                                           .abi = SHEAF_OPERATOR_ABI,
                                           .name = "lines",
                                           .version = "1",
                                           .operators = operators,
                                           .operator_count = sizeof operators / sizeof *operators};

SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);
const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
