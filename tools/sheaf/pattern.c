/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct field {
    bool is_name;
    uint32_t depth; /* 2, 3, ... */
    int width;
};

/* Reads one field after its '{'; returns the place after its '}', or NULL. */
static const char *read_field(const char *at, struct field *ret_field)
{
    struct field field = {0};
    if (strncmp(at, "name}", 5) == 0) {
        field.is_name = true;
        *ret_field = field;
        return at + 5;
    }
    if (!isdigit((unsigned char)*at))
        return NULL;
    char *end;
    unsigned long depth = strtoul(at, &end, 10);
    if (depth < 2 || depth > 255)
        return NULL;
    field.depth = (uint32_t)depth;
    if (*end == ':') {
        if (end[1] != '0' || !isdigit((unsigned char)end[2]))
            return NULL;
        long width = strtol(end + 2, &end, 10);
        if (width < 1 || width > 20)
            return NULL;
        field.width = (int)width;
    }
    if (*end != '}')
        return NULL;
    *ret_field = field;
    return end + 1;
}

int pattern_check(const char *pattern, uint32_t depth, const char **ret_reason)
{
    bool name_seen = false;
    uint64_t depths_seen[4] = {0};
    const char *at = pattern;
    while ((at = strpbrk(at, "{}")) != NULL) {
        struct field field;
        if (*at == '}' || (at = read_field(at + 1, &field)) == NULL) {
            *ret_reason = "a field must be {name}, {2} or {2:05}";
            return SHEAF_E_USAGE;
        }
        name_seen |= field.is_name;
        if (!field.is_name && field.depth > depth) {
            *ret_reason = "a field names a depth that the Port does not have";
            return SHEAF_E_USAGE;
        }
        if (!field.is_name)
            depths_seen[field.depth / 64] |= UINT64_C(1) << field.depth % 64;
    }
    for (uint32_t level = 2; level <= depth; level++) {
        if (level > 255 || (depths_seen[level / 64] >> level % 64 & 1) == 0) {
            *ret_reason = "two items of one source would get the same file; add {2:05} and so on for every depth";
            return SHEAF_E_USAGE;
        }
    }
    if (!name_seen) {
        *ret_reason = "two sources would get the same file; add {name}";
        return SHEAF_E_USAGE;
    }
    return 0;
}

void pattern_expand(const char *pattern, const char *name, const uint64_t *coordinate, uint32_t depth,
                    struct text *path)
{
    const char *at = pattern;
    while (*at != '\0') {
        size_t literal = strcspn(at, "{");
        text_add(path, at, literal);
        at += literal;
        if (*at == '\0')
            return;
        struct field field;
        at = read_field(at + 1, &field);
        assert(at != NULL);
        if (field.is_name) {
            text_adds(path, name);
        } else {
            assert(field.depth <= depth);
            unsigned long long number = coordinate[field.depth - 1] + 1;
            text_addf(path, "%0*llu", field.width, number);
        }
    }
}

void pattern_fit_media_type(struct text *path, const char *media_type)
{
    if (media_type == NULL || path->length < 4)
        return;
    char *end = path->data + path->length - 4;
    if (strcmp(end, ".jpg") == 0 && strcmp(media_type, "image/png") == 0)
        memcpy(end, ".png", 4);
    else if (strcmp(end, ".png") == 0 && strcmp(media_type, "image/jpeg") == 0)
        memcpy(end, ".jpg", 4);
}
