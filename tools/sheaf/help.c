/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "settings.h"

static const char *const commands[] = {"run",    "plan", "check",   "doctor", "ops",
                                       "config", "sim",  "version", "help",   NULL};

const char *const *help_commands(void)
{
    return commands;
}

static const char overview[] =
    "sheaf: folders of documents in, ordered Markdown and JSON out, with all cores of this machine\n"
    "\n"
    "  sheaf run PIPELINE --input DIR --output DIR   run a pipeline over files\n"
    "  sheaf plan PIPELINE [--input DIR]             say what a run would do\n"
    "  sheaf check PIPELINE                          does the pipeline compile?\n"
    "  sheaf doctor                                  is this machine fit, and what is missing?\n"
    "  sheaf ops [NAME]                              the operators, or all about one\n"
    "  sheaf config show                             each setting and where it came from\n"
    "  sheaf sim [--experiment NAME]                 published experiments, in simulated time\n"
    "  sheaf version\n"
    "  sheaf help [COMMAND]\n"
    "\n"
    "PIPELINE is a name (documents) or the path of a YAML file.\n"
    "\n"
    "Start here:  sheaf run documents --input papers --output results\n"
    "More:        sheaf help run\n";

static const char run_begin[] =
    "sheaf run PIPELINE --input DIR|FILE|GLOB ... --output DIR\n"
    "\n"
    "Runs a pipeline over files and writes an output tree: for every source its files, and beside them manifest.jsonl "
    "(a\n"
    "line per source), errors.jsonl (what failed, page by page) and run.json (counts, times, memory). The same command "
    "again\n"
    "does only what is not done yet. ^C finishes what is under way, ^C twice stops at once; both can be gone on from.\n"
    "\n"
    "Sources\n"
    "  -i, --input DIR|FILE|GLOB  what to read; may be repeated, more paths may follow. In folders, files are taken "
    "and links\n"
    "                             to files followed; links to folders, hidden files and output folders are passed "
    "over\n"
    "      --include GLOB         of the files in folders, only those whose name matches; may be repeated\n"
    "      --exclude GLOB         ... only those whose name does not match; may be repeated\n";

static const char run_end[] =
    "\n"
    "Pipeline\n"
    "  -s, --set CALL.OPTION=VALUE  set an option of a Call; may be repeated, wins over the flags above\n"
    "\n"
    "Every option without `*` may also be set in the environment (SHEAF_WORKERS=4) or the settings file (workers: 4).\n"
    "\n"
    "Exit status\n"
    "  0  all well                         4    this machine lacks something: sheaf doctor\n"
    "  1  the run failed                   5    no sources were found\n"
    "  2  wrong usage or configuration     130  interrupted; the same command goes on\n"
    "  3  finished, but sources failed     143  terminated; the same command goes on\n"
    "     or are partial\n"
    "\n"
    "Examples\n"
    "  sheaf run documents --input papers --output results\n"
    "  sheaf run documents -i 'scans/*.tif' -o results --lang eng+deu --images jpeg\n"
    "  find . -name '*.pdf' -print0 | sheaf run documents --files-from - -0 -o results\n"
    "  sheaf run documents -i papers -o results --retry-failed --timeout 300\n"
    "  sheaf run my.yaml -i papers -o results --set ocr.lang=fra --workers 4 --memory 2G\n";

static void print_setting(const struct setting *setting)
{
    char left[64], letter[8] = "    ", fallback[64] = "";
    if (setting->letter != 0)
        snprintf(letter, sizeof letter, "-%c, ", setting->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, setting->key, setting->value_name == NULL ? "" : " ",
             setting->value_name == NULL ? "" : setting->value_name);
    const char *shown = setting->choices != NULL ? setting->choices : "";
    if (setting->fallback[0] != '\0' && setting->kind != SETTING_FLAG)
        snprintf(fallback, sizeof fallback, " [%s%s%s]", shown, shown[0] != '\0' ? ", default " : "",
                 setting->fallback);
    printf("  %-26s %s%s%s\n", left, setting->help, fallback, setting->flag_only ? " *" : "");
}

static void print_run(void)
{
    const char *group = "Sources";
    fputs(run_begin, stdout);
    for (int i = 0; i < SETTING_COUNT; i++) {
        const struct setting *setting = setting_at((enum setting_id)i);
        if (strcmp(group, setting->group) != 0)
            printf("\n%s\n", setting->group);
        group = setting->group;
        print_setting(setting);
    }
    fputs(run_end, stdout);
}

/* The pages that are short. */
static const struct {
    const char *command, *text;
} pages[] = {
    {"plan",
     "sheaf plan PIPELINE [--input ...] [--format text|dot] [--topology FILE]\n\nPrints the compiled pipeline, "
     "the files it writes, where shards, workers and memory would be on this machine (or on that of\nan hwloc "
     "XML file), and, with inputs, how many sources there are. Reads no source.\nTakes the options of sheaf run.\n"},
    {"check",
     "sheaf check PIPELINE\n\nCompiles the pipeline and prints its fingerprint, or what is wrong with it (exit 2).\n"},
    {"doctor",
     "sheaf doctor [--topology FILE]\n\nOne line per finding: ok, warn or missing; what; what to do about it. "
     "Then where shards, workers and memory would be\non this machine, or on that of an hwloc XML file "
     "(lstopo FILE.xml). Exit 4 if something needed is missing.\n"},
    {"ops", "sheaf ops [NAME] [--format text|json]\n\nThe operators with their kinds, or everything about one: ports, "
            "options, "
            "defaults.\n"},
    {"config", "sheaf config show\n\nEvery setting, its value, and where it came from: a flag, the environment, the "
               "settings file or "
               "the default.\n"},
    {"sim",
     "sheaf sim [--experiment E2|E3|E4|E5|E6|E7|E9|E10|E11|E12|E13|scale|all] [--json] [--trace FILE] [OPTION "
     "VALUE]...\n\n"
     "Plays published experiments over the engine's own lineage and scheduling with a virtual clock and pretended "
     "devices.\n"
     "Every figure is simulated, and a function of the options. \"scale\" is 10 million rows on 10,000 devices.\n\n"
     "  --seed N              of everything random; --seeds N: so many, and the mean of every target\n"
     "  --devices N, --batch N, --roots N (scale)\n"
     "  --dial N              siblings of an unproven parent in flight (0: no bound)\n"
     "  --fixed-batches       take what is ready, without a policy\n"
     "  --largest-first       admit the largest roots first\n"
     "  --order ORDER         fifo; unordered and parent are what E4 and E3 measure, and know no recovery\n"
     "  --jitter PERCENT      service times vary evenly by so much; or --spread exponential, --spread "
     "lognormal:PERCENT\n"
     "  --slow PERCENT:FACTOR so many devices take so many times as long\n"
     "  --raises N, --crashes N, --hangs N    of a million rows; --losses N: of a million dispatches, to nobody's "
     "fault\n"
     "  --deadline-ms N, --restart-ms N       what a hang costs, and a lost worker\n"
     "  --children N          a budget: children alive before emitting blocks\n"
     "  --copy-in BYTES, --copy-out BYTES     of a page, --link MB_PER_S of each device, --bridge MB_PER_S:DEVICES "
     "shared,\n"
     "                        --in-flight N batches copied, computed and copied back at once\n"
     "  --trace FILE          each dispatch, for chrome://tracing or Perfetto\n\n"
     "Exit 1 if a target is missed.\n"},
    {"version", "sheaf version\n\nThe version of the library in use.\n"},
    {"help", "sheaf help [COMMAND]\n"},
};

int help_print(const char *command)
{
    if (command == NULL) {
        fputs(overview, stdout);
        return EXIT_OK;
    }
    if (strcmp(command, "run") == 0) {
        print_run();
        return EXIT_OK;
    }
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(pages[i].command, command) == 0) {
            fputs(pages[i].text, stdout);
            return EXIT_OK;
        }
    }
    complain("help: %s: no such command; try sheaf help", command);
    return EXIT_USAGE;
}
