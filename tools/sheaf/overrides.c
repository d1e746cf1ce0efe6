/* SPDX-License-Identifier: Apache-2.0 */
/* What the documents flags mean in the pipeline: one table. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "settings.h"

enum form {
    AS_IT_IS,
    UNLESS_NONE,   /* an option that counts only when there are images at all */
    WHEN_NEVER,    /* an option that is false, to save work, when something is never to be done */
    LINES_OF_FILE, /* the flag names a file: its lines become a list */
};

/* One flag may set options of several Calls; a document is opened by every Call that reads its pages. The first is what
 * the flag is for; the others, with a `?`, a pipeline may be without. */
static const struct {
    enum setting_id setting;
    enum form form;
    const char *call_option;
} sugar[] = {
    {SETTING_LANG, AS_IT_IS, "ocr.lang"},
    {SETTING_OCR, AS_IT_IS, "text.ocr"},
    {SETTING_OCR, WHEN_NEVER, "?ocr.load"},
    {SETTING_IMAGES, AS_IT_IS, "text.images"},
    {SETTING_IMAGES, UNLESS_NONE, "?encode.format"},
    {SETTING_DPI, AS_IT_IS, "render.dpi"},
    {SETTING_PASSWORDS, LINES_OF_FILE, "open.passwords"},
    {SETTING_PASSWORDS, LINES_OF_FILE, "?text.passwords"},
    {SETTING_PASSWORDS, LINES_OF_FILE, "?scan.passwords"},
    {SETTING_PASSWORDS, LINES_OF_FILE, "?render.passwords"},
};

/* The lines of a file, with commas between them, as overrides write lists. */
static int add_lines(const char *path, struct text *value, struct text *error)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        text_addf(error, "%s: cannot be read: %s; try a file with one entry a line", path, strerror(errno));
        return SHEAF_E_USAGE;
    }
    char *line = NULL;
    size_t capacity = 0, count = 0;
    int status = 0;
    while (status == 0 && getline(&line, &capacity, file) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '\0')
            continue;
        if (strchr(line, ',') != NULL) {
            text_addf(error, "%s: a line with a comma cannot be given this way; try a list in a pipeline of your own",
                      path);
            status = SHEAF_E_USAGE;
        }
        text_addf(value, "%s%s", count++ > 0 ? "," : "", line);
    }
    free(line);
    fclose(file);
    return status;
}

/* Whether --set gives an option that a flag stands for. */
static bool is_set_otherwise(const struct settings *settings, enum setting_id setting)
{
    for (size_t i = 0; i < sizeof sugar / sizeof *sugar; i++) {
        size_t length = strlen(sugar[i].call_option);
        if (sugar[i].setting != setting || sugar[i].form == WHEN_NEVER)
            continue;
        for (size_t at = 0; at < settings->overrides.count; at++) {
            const char *text = settings->overrides.items[at];
            text += *text == '?';
            if (strncmp(text, sugar[i].call_option, length) == 0 && text[length] == '=')
                return true;
        }
    }
    return false;
}

static bool says_nothing(const struct settings *settings, size_t index)
{
    const char *value = settings_text(settings, sugar[index].setting);
    if (!settings_given(settings, sugar[index].setting))
        return true;
    if (sugar[index].form == WHEN_NEVER)
        return strcmp(value, "never") != 0 || is_set_otherwise(settings, sugar[index].setting);
    return sugar[index].form == UNLESS_NONE && strcmp(value, "none") == 0;
}

int settings_overrides(const struct settings *settings, struct text_list *ret_overrides, struct text *error)
{
    for (size_t i = 0; i < sizeof sugar / sizeof *sugar; i++) {
        const char *value = settings_text(settings, sugar[i].setting);
        if (says_nothing(settings, i))
            continue;
        struct text line = {0};
        int status = 0;
        bool everywhere = settings->values[sugar[i].setting].origin < FROM_FLAG && sugar[i].call_option[0] != '?';
        text_addf(&line, "%s%s=", everywhere ? "?" : "", sugar[i].call_option);
        if (sugar[i].form == LINES_OF_FILE)
            status = add_lines(value, &line, error);
        else if (sugar[i].form == WHEN_NEVER)
            text_adds(&line, "false");
        else
            text_adds(&line, value);
        if (status == 0)
            text_list_add(ret_overrides, line.data);
        text_free(&line);
        if (status < 0)
            return status;
    }
    for (size_t i = 0; i < settings->overrides.count; i++)
        text_list_add(ret_overrides, settings->overrides.items[i]);
    return 0;
}
