/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "settings_file.h"

static const struct setting table[SETTING_COUNT] = {
    [SETTING_FILES_FROM] = {"files-from", 0, SETTING_TEXT, true, NULL, "", "FILE", "Sources",
                            "read source paths from FILE, one a line; - is standard input"},
    [SETTING_NULL] = {"null", '0', SETTING_FLAG, true, NULL, "no", NULL, "Sources",
                      "paths in --files-from end with NUL, not with a line end"},
    [SETTING_RECURSIVE] = {"recursive", 0, SETTING_FLAG, false, NULL, "yes", NULL, "Sources",
                           "go into subfolders (--no-recursive: do not)"},
    [SETTING_ORDER] = {"order", 0, SETTING_CHOICE, false, "as-found|largest-first", "as-found", "ORDER", "Sources",
                       "begin with the largest files, so that none of them is left alone at the end"},
    [SETTING_OUTPUT] = {"output", 'o', SETTING_TEXT, true, NULL, "", "DIR", "Results",
                        "write the output tree here; the same command again goes on where it stopped"},
    [SETTING_DURABILITY] = {"durability", 0, SETTING_CHOICE, false, "full|none", "full", "HOW", "Results",
                            "full: what is journalled survives a power cut; none: only a crash of sheaf"},
    [SETTING_RETRY_FAILED] = {"retry-failed", 0, SETTING_FLAG, true, NULL, "no", NULL, "Results",
                              "run only the sources that failed in an earlier run"},
    [SETTING_RESTART] = {"restart", 0, SETTING_FLAG, true, NULL, "no", NULL, "Results",
                         "forget earlier runs in this output folder and begin again"},
    [SETTING_ALLOW_FAILURES] = {"allow-failures", 0, SETTING_FAILURES, false, NULL, "0", "N|P%", "Results",
                                "exit 0 although up to N sources (P percent) failed or are partial"},
    [SETTING_LANG] = {"lang", 'l', SETTING_TEXT, false, NULL, "", "LANGS", "Documents",
                      "languages for OCR, as eng+deu (default: the pipeline's)"},
    [SETTING_OCR] = {"ocr", 0, SETTING_CHOICE, false, "auto|never|always", "auto", "WHEN", "Documents",
                     "auto: pages without a text layer"},
    [SETTING_IMAGES] = {"images", 0, SETTING_CHOICE, false, "none|jpeg|png", "none", "FORM", "Documents",
                        "write an image of every page"},
    [SETTING_DPI] = {"dpi", 0, SETTING_NUMBER, false, NULL, "150", "N", "Documents", "resolution of page images"},
    [SETTING_PASSWORDS] = {"passwords", 0, SETTING_TEXT, false, NULL, "", "FILE", "Documents",
                           "passwords to try on encrypted files, one a line"},
    [SETTING_WORKERS] = {"workers", 'w', SETTING_NUMBER, false, NULL, "0", "N", "Machine",
                         "worker processes; 0: one per usable core"},
    [SETTING_WORKERS_PER_CORE] = {"workers-per-core", 0, SETTING_NUMBER, false, NULL, "1", "N", "Machine",
                                  "with --workers 0: as many on each core, if it has so many hardware threads"},
    [SETTING_MEMORY] = {"memory", 'm', SETTING_BYTES, false, NULL, "0", "SIZE", "Machine",
                        "memory budget, as 2G; 0: three quarters of what may be used"},
    [SETTING_TIMEOUT] = {"timeout", 0, SETTING_SECONDS, false, NULL, "60", "SECONDS", "Machine",
                         "longest time for one page (for one row of a Call)"},
    [SETTING_START_TIMEOUT] = {"start-timeout", 0, SETTING_SECONDS, false, NULL, "300", "SECONDS", "Machine",
                               "longest time until a worker is ready: its steps open, and load their models"},
    [SETTING_INTEGRITY] = {"integrity", 0, SETTING_CHOICE, false, "off|crash|always", "crash", "WHEN", "Machine",
                           "look whether values are as they were answered: after crashes, or whenever one is read"},
    [SETTING_IO] = {"io", 0, SETTING_CHOICE, false, "auto|uring|sync", "auto", "HOW", "Machine",
                    "read and write through io_uring or plain system calls"},
    [SETTING_DEVICE] = {"device", 0, SETTING_DEVICES, false, NULL, "auto", "WHICH", "Machine",
                        "for steps with GPU kernels: auto, host, cuda, or cuda:0,3; auto: GPUs if there are any"},
    [SETTING_PROGRESS] = {"progress", 'p', SETTING_CHOICE, false, "auto|bar|plain|json|none", "auto", "FORM", "Reports",
                          "progress on standard error; auto: a bar on a terminal, else plain lines"},
    [SETTING_LOG_LEVEL] = {"log-level", 0, SETTING_CHOICE, false, "error|warning|info|debug", "warning", "LEVEL",
                           "Reports", "what else is said on standard error"},
    [SETTING_PIPELINES] = {"pipelines", 0, SETTING_TEXT, false, NULL, "", "DIR", "Surroundings",
                           "folder of the named pipelines (default: the installation's)"},
    [SETTING_CONFIG] = {"config", 0, SETTING_TEXT, false, NULL, "", "FILE", "Surroundings",
                        "settings file (default: ~/.config/sheaf/config.yaml if there is one)"},
    [SETTING_TOPOLOGY] = {"topology", 0, SETTING_TEXT, true, NULL, "", "FILE", "Surroundings",
                          "`plan` and `doctor`: say where things would be on the machine of this hwloc XML file"},
    [SETTING_FORMAT] = {"format", 'f', SETTING_CHOICE, true, "text|dot|json", "text", "FORM", "Surroundings",
                        "form of what `plan` (text, dot) and `ops` (text, json) print"},
};

enum { OPTION_BASE = 1000, OPTION_NO = 2000, OPTION_INPUT = 3000, OPTION_INCLUDE, OPTION_EXCLUDE, OPTION_SET };

const struct setting *setting_at(enum setting_id id)
{
    return &table[id];
}

static bool is_choice(const char *choices, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = choices; at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (length > 0 && strncmp(at, word, length) == 0 && (at[length] == '|' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* A number with a fraction and, for sizes, a unit. False if it is not one. */
static bool read_amount(const char *word, bool with_unit, double *ret_amount)
{
    char *end;
    if (!isdigit((unsigned char)word[0]))
        return false;
    double amount = strtod(word, &end);
    static const char units[] = "KMGT";
    const char *unit = with_unit && *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit != NULL) {
        for (const char *at = units; at <= unit; at++)
            amount *= 1024;
        end++;
        if (strcmp(end, "iB") == 0 || strcmp(end, "B") == 0)
            end += strlen(end);
    }
    if (*end != '\0' || !(amount < 9e15))
        return false;
    *ret_amount = amount;
    return true;
}

static bool value_fits(const struct setting *setting, const char *word, const char **ret_wanted)
{
    double amount;
    size_t length = strlen(word);
    switch (setting->kind) {
    case SETTING_TEXT:
        *ret_wanted = "a text that is not empty";
        return length > 0;
    case SETTING_CHOICE:
        *ret_wanted = setting->choices;
        return is_choice(setting->choices, word);
    case SETTING_FLAG:
        *ret_wanted = "yes|no";
        return is_choice("yes|no", word);
    case SETTING_NUMBER:
        *ret_wanted = "a whole number";
        return length > 0 && length < 10 && strspn(word, "0123456789") == length;
    case SETTING_BYTES:
        *ret_wanted = "a size as 512M or 2G";
        return read_amount(word, true, &amount);
    case SETTING_SECONDS:
        *ret_wanted = "seconds as 0.5 or 60, up to a day";
        return read_amount(word, false, &amount) && amount > 0 && amount <= 86400;
    case SETTING_DEVICES:
        *ret_wanted = "auto|host|cuda, or cuda:0,3";
        return is_choice("auto|host|cuda", word) ||
               (strncmp(word, "cuda:", 5) == 0 && length > 5 && strspn(word + 5, "0123456789,") == length - 5);
    case SETTING_FAILURES:
        *ret_wanted = "a count as 10, or a percentage as 5%";
        return length > 0 && strspn(word, "0123456789") == length - (word[length - 1] == '%') && length < 12 &&
               isdigit((unsigned char)word[0]);
    }
    return false;
}

static int set_value(struct settings *settings, enum setting_id id, const char *word, enum setting_origin origin,
                     const char *where, struct text *error)
{
    struct setting_value *value = &settings->values[id];
    const char *wanted = "";
    if (!value_fits(&table[id], word, &wanted)) {
        text_addf(error, "%s: '%s' does not fit: want %s", where, word, wanted);
        return SHEAF_E_USAGE;
    }
    if (value->text != NULL && value->origin > origin)
        return 0;
    free(value->text);
    free(value->where);
    *value = (struct setting_value){must_copy(word), origin, must_copy(where)};
    return 0;
}

/* ---- flags ---- */

static const char *const other_flags[] = {"input", "include", "exclude", "set", "help", "version", NULL};

static void suggest_flag(const char *given, struct text *error)
{
    const char *words[2 * SETTING_COUNT + 8];
    size_t count = 0, length = strcspn(given, "=");
    char word[64];
    for (size_t i = 0; i < SETTING_COUNT; i++)
        words[count++] = table[i].key;
    for (size_t i = 0; other_flags[i] != NULL; i++)
        words[count++] = other_flags[i];
    words[count] = NULL;
    text_addf(error, "%.*s: no such option", (int)length, given);
    if (strncmp(given, "--", 2) == 0 && length - 2 < sizeof word) {
        memcpy(word, given + 2, length - 2);
        word[length - 2] = '\0';
        const char *nearest = text_nearest(word, words);
        if (nearest != NULL) {
            text_addf(error, "; did you mean --%s?", nearest);
            return;
        }
    }
    text_adds(error, "; try sheaf help run");
}

static void build_options(struct option *options, char *letters)
{
    size_t count = 0;
    char *letter = letters;
    *letter++ = ':'; /* a missing argument is told apart */
    for (int i = 0; i < SETTING_COUNT; i++) {
        bool is_flag = table[i].kind == SETTING_FLAG;
        options[count++] =
            (struct option){table[i].key, is_flag ? no_argument : required_argument, NULL, OPTION_BASE + i};
        if (table[i].letter != 0) {
            *letter++ = table[i].letter;
            if (!is_flag)
                *letter++ = ':';
        }
    }
    options[count++] = (struct option){"no-recursive", no_argument, NULL, OPTION_NO + SETTING_RECURSIVE};
    options[count++] = (struct option){"input", required_argument, NULL, OPTION_INPUT};
    options[count++] = (struct option){"include", required_argument, NULL, OPTION_INCLUDE};
    options[count++] = (struct option){"exclude", required_argument, NULL, OPTION_EXCLUDE};
    options[count++] = (struct option){"set", required_argument, NULL, OPTION_SET};
    options[count++] = (struct option){"help", no_argument, NULL, 'h'};
    options[count++] = (struct option){"version", no_argument, NULL, 'V'};
    options[count] = (struct option){0};
    memcpy(letter, "hVi:s:", sizeof "hVi:s:");
}

static int take_flag(struct settings *settings, int flag, const char *given, struct text *error)
{
    switch (flag) {
    case 'i':
    case OPTION_INPUT:
        text_list_add(&settings->inputs, optarg);
        return 0;
    case OPTION_INCLUDE:
        text_list_add(&settings->includes, optarg);
        return 0;
    case OPTION_EXCLUDE:
        text_list_add(&settings->excludes, optarg);
        return 0;
    case 's':
    case OPTION_SET:
        text_list_add(&settings->overrides, optarg);
        return 0;
    case 'h':
        settings->help = true;
        return 0;
    case 'V':
        settings->version = true;
        return 0;
    case ':':
        text_addf(error, "%s: a value is missing; try sheaf help run", given);
        return SHEAF_E_USAGE;
    case '?':
        suggest_flag(given, error);
        return SHEAF_E_USAGE;
    default:
        break;
    }
    for (int i = 0; i < SETTING_COUNT; i++) {
        char where[64];
        snprintf(where, sizeof where, "--%s%s", flag == OPTION_NO + i ? "no-" : "", table[i].key);
        if (flag == OPTION_NO + i)
            return set_value(settings, (enum setting_id)i, "no", FROM_FLAG, where, error);
        if (flag == OPTION_BASE + i || (flag == table[i].letter && flag != 0))
            return set_value(settings, (enum setting_id)i, table[i].kind == SETTING_FLAG ? "yes" : optarg, FROM_FLAG,
                             where, error);
    }
    return SHEAF_E_USAGE;
}

static int read_flags(struct settings *settings, int argc, char **argv, struct text *error)
{
    struct option options[SETTING_COUNT + 16];
    char letters[2 * SETTING_COUNT + 16];
    build_options(options, letters);
    optind = 0; /* glibc: start anew, so that this may be called twice */
    opterr = 0;
    int previous = 1;
    for (;;) {
        int flag = getopt_long(argc, argv, letters, options, NULL);
        if (flag < 0)
            break;
        const char *given = argv[optind > previous ? optind - 1 : previous];
        int status = take_flag(settings, flag, given, error);
        if (status < 0)
            return status;
        previous = optind;
    }
    for (int i = optind; i < argc; i++)
        text_list_add(&settings->words, argv[i]);
    /* `--input a b c`, as a shell's own globbing gives it: the words after the pipeline are inputs too. */
    bool takes_inputs = settings->words.count > 2 &&
                        (strcmp(settings->words.items[0], "run") == 0 || strcmp(settings->words.items[0], "plan") == 0);
    for (size_t i = 2; takes_inputs && i < settings->words.count; i++) {
        text_list_add(&settings->inputs, settings->words.items[i]);
        free(settings->words.items[i]);
    }
    if (takes_inputs)
        settings->words.count = 2;
    return 0;
}

/* ---- environment and file ---- */

static void variable_name(const char *key, char *ret_name, size_t bytes)
{
    snprintf(ret_name, bytes, "SHEAF_%s", key);
    for (char *at = ret_name; *at != '\0'; at++)
        *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
}

static int read_environment(struct settings *settings, const char *const *environment, struct text *error)
{
    for (int i = 0; i < SETTING_COUNT; i++) {
        char name[64];
        variable_name(table[i].key, name, sizeof name);
        size_t length = strlen(name);
        for (const char *const *at = environment; !table[i].flag_only && *at != NULL; at++) {
            if (strncmp(*at, name, length) != 0 || (*at)[length] != '=' || (*at)[length + 1] == '\0')
                continue;
            int status = set_value(settings, (enum setting_id)i, *at + length + 1, FROM_ENVIRONMENT, name, error);
            if (status < 0)
                return status;
        }
    }
    return 0;
}

static int take_pair(void *cookie, const char *key, const char *value, const char *where, struct text *error)
{
    struct settings *settings = cookie;
    const char *words[SETTING_COUNT + 1];
    size_t count = 0;
    for (int i = 0; i < SETTING_COUNT; i++) {
        if (table[i].flag_only || i == SETTING_CONFIG)
            continue;
        if (strcmp(table[i].key, key) == 0)
            return set_value(settings, (enum setting_id)i, value, FROM_FILE, where, error);
        words[count++] = table[i].key;
    }
    words[count] = NULL;
    const char *nearest = text_nearest(key, words);
    text_addf(error, "%s: %s: no such setting", where, key);
    text_addf(error, nearest != NULL ? "; did you mean %s?" : "; try sheaf config show", nearest);
    return SHEAF_E_USAGE;
}

static int read_file(struct settings *settings, struct text *error)
{
    if (settings_given(settings, SETTING_CONFIG))
        return settings_file_read(settings_text(settings, SETTING_CONFIG), true, take_pair, settings, error);
    const char *home = getenv("XDG_CONFIG_HOME");
    struct text path = {0};
    if (home != NULL && home[0] == '/')
        text_addf(&path, "%s/sheaf/config.yaml", home);
    else if ((home = getenv("HOME")) != NULL && home[0] == '/')
        text_addf(&path, "%s/.config/sheaf/config.yaml", home);
    int status = path.length == 0 ? 0 : settings_file_read(path.data, false, take_pair, settings, error);
    text_free(&path);
    return status;
}

int settings_read(struct settings *settings, int argc, char **argv, const char *const *environment, struct text *error)
{
    *settings = (struct settings){0};
    int status = read_flags(settings, argc, argv, error);
    if (status == 0)
        status = read_environment(settings, environment, error);
    if (status == 0)
        status = read_file(settings, error);
    return status;
}

void settings_free(struct settings *settings)
{
    for (int i = 0; i < SETTING_COUNT; i++) {
        free(settings->values[i].text);
        free(settings->values[i].where);
    }
    text_list_free(&settings->inputs);
    text_list_free(&settings->includes);
    text_list_free(&settings->excludes);
    text_list_free(&settings->overrides);
    text_list_free(&settings->words);
    *settings = (struct settings){0};
}

/* ---- reading ---- */

const char *settings_text(const struct settings *settings, enum setting_id id)
{
    const char *text = settings->values[id].text;
    return text != NULL ? text : table[id].fallback;
}

bool settings_is(const struct settings *settings, enum setting_id id, const char *word)
{
    return strcmp(settings_text(settings, id), word) == 0;
}

bool settings_given(const struct settings *settings, enum setting_id id)
{
    return settings->values[id].text != NULL;
}

uint64_t settings_number(const struct settings *settings, enum setting_id id)
{
    double amount = 0;
    read_amount(settings_text(settings, id), table[id].kind == SETTING_BYTES, &amount);
    return (uint64_t)amount;
}

double settings_seconds(const struct settings *settings, enum setting_id id)
{
    double amount = 0;
    read_amount(settings_text(settings, id), false, &amount);
    return amount;
}

bool settings_failures_allowed(const struct settings *settings, uint64_t failures, uint64_t inputs)
{
    const char *text = settings_text(settings, SETTING_ALLOW_FAILURES);
    uint64_t amount = strtoull(text, NULL, 10);
    if (text[strlen(text) - 1] == '%')
        return (double)failures * 100 <= (double)amount * (double)inputs;
    return failures <= amount;
}
