/* SPDX-License-Identifier: Apache-2.0 */
#include "program/text.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int program_error(struct sheaf_error *error, int code, uint32_t row, const char *format, ...)
{
    if (!error || error->size <= offsetof(struct sheaf_error, message))
        return code;
    error->code = code;
    error->row = row;
    size_t room = error->size - offsetof(struct sheaf_error, message);
    if (room > sizeof(error->message))
        room = sizeof(error->message);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->message, room, format, arguments);
    va_end(arguments);
    if (length < 0)
        error->message[0] = '\0';
    for (char *at = error->message; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = ' ';
    return code;
}

static const struct {
    const char *name;
    sheaf_kind base;
} bases[] = {
    {"bool", SHEAF_BOOL},   {"i64", SHEAF_I64},       {"f64", SHEAF_F64},       {"text", SHEAF_TEXT},
    {"bytes", SHEAF_BYTES}, {"tensor", SHEAF_TENSOR}, {"record", SHEAF_RECORD}, {"file", SHEAF_FILE},
};

static const char *base_text(sheaf_kind base)
{
    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
        if (bases[i].base == base)
            return bases[i].name;
    return base == SHEAF_ANY ? "any" : "none";
}

const char *kind_text(sheaf_kind kind, char text[KIND_TEXT_BYTES])
{
    unsigned depth = SHEAF_KIND_DEPTH(kind);
    const char *base = base_text(SHEAF_KIND_BASE(kind));
    if (depth > 16) {
        snprintf(text, KIND_TEXT_BYTES, "list^%u<%s>", depth, base);
        return text;
    }
    char *at = text;
    for (unsigned i = 0; i < depth; i++)
        at = stpcpy(at, "list<");
    at = stpcpy(at, base);
    memset(at, '>', depth);
    at[depth] = '\0';
    return text;
}

int kind_parse(const char *text, sheaf_kind *ret_kind)
{
    unsigned depth = 0;
    while (strncmp(text, "list<", 5) == 0) {
        text += 5;
        if (++depth > 255)
            return -EINVAL;
    }
    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        size_t length = strlen(bases[i].name);
        if (strncmp(text, bases[i].name, length) != 0)
            continue;
        if (strlen(text + length) != depth || strspn(text + length, ">") != depth)
            continue;
        *ret_kind = SHEAF_LIST_OF(bases[i].base, depth);
        return 0;
    }
    return -EINVAL;
}

bool kind_is_concrete(sheaf_kind kind)
{
    return kind >> 16 == 0 && SHEAF_KIND_BASE(kind) >= SHEAF_BOOL && SHEAF_KIND_BASE(kind) <= SHEAF_FILE;
}

enum { NEAREST_BYTES = 48 };

/* Edits (insert, delete, replace, swap neighbours) from `a` to `b`; both are short. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][NEAREST_BYTES + 1];
    assert(a_length <= NEAREST_BYTES && b_length <= NEAREST_BYTES);
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best)
                best = before[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && earlier[j - 2] + 1 < best)
                best = earlier[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[a_length % 3][b_length];
}

void nearest_start(struct nearest *nearest, const char *wrong)
{
    nearest->wrong = wrong;
    nearest->best = NULL;
    nearest->distance = strlen(wrong) / 3 + 2; /* worse than this is no help */
}

void nearest_offer(struct nearest *nearest, const char *candidate)
{
    size_t length = strlen(candidate), wrong_length = strlen(nearest->wrong);
    if (length > NEAREST_BYTES || wrong_length > NEAREST_BYTES)
        return;
    size_t distance = edit_distance(nearest->wrong, wrong_length, candidate, length);
    if (distance < nearest->distance && distance < length) {
        nearest->distance = distance;
        nearest->best = candidate;
    }
}

const char *nearest_hint(struct nearest *nearest)
{
    nearest->hint[0] = '\0';
    if (nearest->best)
        snprintf(nearest->hint, sizeof(nearest->hint), "; did you mean \"%s\"?", nearest->best);
    return nearest->hint;
}
