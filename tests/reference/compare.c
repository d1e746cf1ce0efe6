/* SPDX-License-Identifier: Apache-2.0 */
/* A run against what the reference evaluator allows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/reference/reference.h"

static bool differ(char *why, size_t bytes, const char *where, const json_t *wanted, const json_t *got)
{
    char *want = wanted ? json_dumps(wanted, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    char *have = got ? json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    snprintf(why, bytes, "%s: wanted %.600s, got %.600s", where, want ? want : "nothing", have ? have : "nothing");
    free(want);
    free(have);
    return false;
}

static bool cause_is_allowed(const json_t *set, const json_t *entry)
{
    const char *class_name = json_string_value(json_object_get(entry, "class"));
    const char *cause = json_string_value(json_object_get(entry, "cause"));
    char text[512];
    if (!class_name || !cause || !cause[0])
        return false;
    snprintf(text, sizeof(text), "%s:%s", class_name, cause);
    if (json_object_get(set, text))
        return true;
    snprintf(text, sizeof(text), "%s:", class_name);
    return json_object_get(set, text) != NULL;
}

static bool entry_agrees(const json_t *want, const json_t *have)
{
    const char *letters = json_string_value(json_object_get(want, "o"));
    const char *letter = json_string_value(json_object_get(have, "o"));
    if (!strchr(letters, letter[0]))
        return false;
    if (letter[0] == 'F' || letter[0] == 'S')
        return cause_is_allowed(json_object_get(want, letter), have);
    json_t *errors = json_object_get(want, "errs");
    if (letter[0] == 'P' && !json_equal(json_object_get(want, "v"), json_object_get(have, "v")))
        return false;
    return errors ? json_equal(errors, json_object_get(have, "errs")) : !json_object_get(have, "errs");
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
        if (!same || !entry_agrees(want, have))
            return differ(why, bytes, name, want, have);
        w++;
        g++;
    }
    return true;
}

static bool starts_agree(const char *call, const json_t *allowed, const json_t *started, char *why, size_t bytes)
{
    const char *at;
    json_t *must;
    json_object_foreach((json_t *)(uintptr_t)allowed, at, must)
    {
        if (json_is_true(must) && !json_object_get(started, at)) {
            snprintf(why, bytes, "%s never starts %s", call, at);
            return false;
        }
    }
    json_object_foreach((json_t *)(uintptr_t)started, at, must)
    {
        if (!json_object_get(allowed, at)) {
            snprintf(why, bytes, "%s starts %s", call, at);
            return false;
        }
    }
    return true;
}

bool expected_agrees(const struct expected *expected, const json_t *outputs, const json_t *roots, const json_t *started,
                     char *why, size_t why_bytes)
{
    const char *name;
    json_t *value;
    json_object_foreach(expected->outputs, name, value)
    {
        if (!output_agrees(name, value, json_object_get(outputs, name), why, why_bytes))
            return false;
    }
    if (!json_equal(expected->roots, roots))
        return differ(why, why_bytes, "roots", expected->roots, roots);
    json_object_foreach(expected->starts, name, value)
    {
        if (started && !starts_agree(name, value, json_object_get(started, name), why, why_bytes))
            return false;
    }
    return true;
}
