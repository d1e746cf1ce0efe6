/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/case_compare.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    return text ? text : "";
}

static bool outcome_agrees(const json_t *wanted, const json_t *got)
{
    const char *want = text_of(wanted, "o"), *have = text_of(got, "o");
    if (strcmp(want, "FS") == 0)
        return strcmp(have, "F") == 0 || strcmp(have, "S") == 0;
    return strcmp(want, have) == 0;
}

static bool entry_agrees(const json_t *wanted, const json_t *got)
{
    static const char *const keys[] = {"v", "errs", "class", "cause"};
    const char *have = text_of(got, "o");
    if (!outcome_agrees(wanted, got))
        return false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *want = json_object_get(wanted, keys[i]);
        if (want && !json_equal(want, json_object_get(got, keys[i])))
            return false;
    }
    bool bad = strcmp(have, "F") == 0 || strcmp(have, "S") == 0;
    if (bad && text_of(got, "cause")[0] == '\0')
        return false;
    return json_object_get(wanted, "errs") || !json_object_get(got, "errs");
}

static void describe(char *why, size_t bytes, const char *what, const json_t *wanted, const json_t *got)
{
    char *want = wanted ? json_dumps(wanted, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    char *have = got ? json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    snprintf(why, bytes, "%s: wanted %.400s, got %.400s", what, want ? want : "nothing", have ? have : "nothing");
    free(want);
    free(have);
}

static bool output_agrees(const char *name, const json_t *wanted, const json_t *got, char *why, size_t bytes)
{
    size_t w = 0, g = 0;
    while (w < json_array_size(wanted) || g < json_array_size(got)) {
        const json_t *want = json_array_get(wanted, w), *have = json_array_get(got, g);
        bool same = want && have && json_equal(json_object_get(want, "at"), json_object_get(have, "at"));
        if (!same && want && json_is_true(json_object_get(want, "opt"))) {
            w++;
            continue;
        }
        if (!same || !entry_agrees(want, have)) {
            describe(why, bytes, name, want, have);
            return false;
        }
        w++;
        g++;
    }
    return true;
}

bool outputs_agree(const json_t *wanted, const json_t *got, char *why, size_t bytes)
{
    const char *name;
    json_t *entries;
    json_object_foreach((json_t *)(uintptr_t)wanted, name, entries)
    {
        if (!output_agrees(name, entries, json_object_get(got, name), why, bytes))
            return false;
    }
    return true;
}

bool dispatches_agree(const json_t *wanted, const json_t *got, char *why, size_t bytes)
{
    const char *call;
    json_t *range;
    json_object_foreach((json_t *)(uintptr_t)wanted, call, range)
    {
        json_int_t count = json_integer_value(json_object_get(got, call));
        if (count >= json_integer_value(json_array_get(range, 0)) &&
            count <= json_integer_value(json_array_get(range, 1)))
            continue;
        char what[256];
        snprintf(what, sizeof what, "Grains of %s that were started", call);
        describe(why, bytes, what, range, json_object_get(got, call));
        return false;
    }
    return true;
}

bool json_agrees(const char *what, const json_t *wanted, const json_t *got, char *why, size_t bytes)
{
    if (json_equal(wanted, got))
        return true;
    describe(why, bytes, what, wanted, got);
    return false;
}
