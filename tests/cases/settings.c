/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cases/settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Where an option goes. */
static const struct place {
    const char *name;
    size_t offset;
} places[] = {
    {"at", offsetof(struct settings, at)},           {"group_at", offsetof(struct settings, group_at)},
    {"item_at", offsetof(struct settings, item_at)}, {"skew_at", offsetof(struct settings, skew_at)},
    {"cap", offsetof(struct settings, cap)},         {"k", offsetof(struct settings, k)},
    {"emit", offsetof(struct settings, emit)},       {"ms", offsetof(struct settings, ms)},
    {"stream", offsetof(struct settings, stream)},   {"tag", offsetof(struct settings, tag)},
    {"how", offsetof(struct settings, how)},         {"sep", offsetof(struct settings, sep)},
    {"value", offsetof(struct settings, value)},
};

static int copy_numbers(const struct sheaf_option_value *value, struct numbers *ret_numbers)
{
    struct numbers numbers = {calloc(value->count + 1, sizeof *numbers.numbers), value->count};
    if (!numbers.numbers)
        return -ENOMEM;
    if (value->count > 0)
        memcpy(numbers.numbers, value->i64s, value->count * sizeof *numbers.numbers);
    *ret_numbers = numbers;
    return 0;
}

static int copy_text(const char *text, char **ret_text)
{
    char *copy = strdup(text);
    if (!copy)
        return -ENOMEM;
    *ret_text = copy;
    return 0;
}

static int set_value(struct settings *settings, const struct sheaf_option_value *value)
{
    char *text = NULL;
    settings->value = *value;
    if (value->type != SHEAF_OPTION_TEXT)
        return 0;
    int status = copy_text(value->text, &text);
    settings->value.text = text;
    return status;
}

static int set(struct settings *settings, const char *name, const struct sheaf_option_value *value)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (strcmp(places[i].name, name) != 0)
            continue;
        void *to = (char *)settings + places[i].offset;
        if (to == &settings->value)
            return set_value(settings, value);
        switch (value->type) {
        case SHEAF_OPTION_BOOL:
            *(bool *)to = value->boolean != 0;
            return 0;
        case SHEAF_OPTION_I64:
            *(int64_t *)to = value->i64;
            return 0;
        case SHEAF_OPTION_TEXT:
            return copy_text(value->text, to);
        case SHEAF_OPTION_I64_LIST:
            return copy_numbers(value, to);
        default:
            return -EINVAL;
        }
    }
    return -EINVAL;
}

int settings_open(const struct sheaf_open *open, const struct sheaf_operator *op, void **ret_state)
{
    struct settings *settings = calloc(1, sizeof *settings);
    int status = settings ? 0 : -ENOMEM;
    if (settings)
        settings->host = open->host;
    for (uint32_t i = 0; status == 0 && i < open->option_count; i++)
        status = set(settings, op->options[i].name, &open->options[i]);
    if (status < 0) {
        settings_close(settings);
        return status;
    }
    *ret_state = settings;
    return 0;
}

void settings_close(void *state)
{
    struct settings *settings = state;
    if (!settings)
        return;
    free(settings->at.numbers);
    free(settings->group_at.numbers);
    free(settings->item_at.numbers);
    free(settings->skew_at.numbers);
    free(settings->tag);
    free(settings->how);
    free(settings->sep);
    if (settings->value.type == SHEAF_OPTION_TEXT)
        free((char *)(uintptr_t)settings->value.text);
    free(settings);
}

bool numbers_have(const struct numbers *numbers, int64_t number)
{
    for (uint32_t i = 0; i < numbers->count; i++)
        if (numbers->numbers[i] == number)
            return true;
    return false;
}
