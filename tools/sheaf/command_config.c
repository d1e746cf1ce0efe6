/* SPDX-License-Identifier: Apache-2.0 */
/* `sheaf config show`: every setting, its value and where it came from. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "settings.h"

int command_config(const struct settings *settings)
{
    if (settings->words.count != 2 || strcmp(settings->words.items[1], "show") != 0) {
        complain("config: there is one thing to do with it; try sheaf config show");
        return EXIT_USAGE;
    }
    for (int i = 0; i < SETTING_COUNT; i++) {
        const struct setting_value *value = &settings->values[i];
        const struct setting *setting = setting_at((enum setting_id)i);
        if (setting->flag_only)
            continue;
        const char *text = settings_text(settings, (enum setting_id)i);
        printf("%-16s %-12s %s\n", setting->key, text[0] == '\0' ? "-" : text,
               value->where == NULL ? "default" : value->where);
    }
    return EXIT_OK;
}
