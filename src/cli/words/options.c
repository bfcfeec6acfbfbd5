/* options.c - parsing the options that all subcommands share. */
#include "cli/words/options.h"

#include "base/cleanup.h"
#include "base/nearest.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cost/centres.h"
#include "query/pattern.h"
#include "traverse/named.h"

#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <string.h>

enum { CODE_FIRST = 256, THREADS_MAX = 256 };

struct option_row {
    const char *name;
    char letter;
    const char *argument, *about;
};

static const struct option_row rows[] = {
#define X(id, name, letter, argument, about) {name, letter, argument, about},
    HX_OPTIONS(X)
#undef X
};

static hx_error *usage(const char *what, const char *todo, const char *why)
{
    return hx_error_new(HX_E_USAGE, what, todo, "%s", why);
}

/* --- Hints -------------------------------------------------------------------- */

struct name_cursor {
    uint64_t options;
    size_t next;
};

static const char *next_option(void *context)
{
    struct name_cursor *cursor = context;
    for (; cursor->next < HX_OPTS; cursor->next++)
        if (cursor->options >> cursor->next & 1)
            return rows[cursor->next++].name;
    return NULL;
}

static hx_error *unknown_option(const struct hx_command *command, const char *shown)
{
    if (shown[0] == '-' && isdigit((unsigned char)shown[1]))
        return usage(shown, "give a PID as ps -e shows it", "is neither an option nor a PID");
    char name[64], hint[128];
    const char *bare = shown + strspn(shown, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(bare, "="), bare);
    struct name_cursor cursor = {command->options | HX_OPTS_ALWAYS, 0};
    const char *near = shown[1] == '-' ? hx_nearest(name, next_option, &cursor) : NULL;
    if (near)
        snprintf(hint, sizeof hint, "did you mean --%s?", near);
    else
        snprintf(hint, sizeof hint, "see: heapx help %s", command->name);
    return usage(shown, hint, "unknown option");
}

/* --- Values ------------------------------------------------------------------- */

bool hx_is_pid(const char *word)
{
    return word[0] && word[strspn(word, "0123456789")] == 0;
}

hx_error *hx_parse_pid(const char *word, pid_t *ret)
{
    if (!word[0])
        return usage("PID", "give a PID as ps -e shows it", "is empty");
    if (!hx_is_pid(word))
        return usage(word, "give a PID as ps -e shows it", "is no PID: a PID is a number");
    uint64_t value = 0;
    for (const char *s = word; *s && value <= INT_MAX; s++)
        value = value * 10 + (uint64_t)(*s - '0');
    if (value == 0 || value > INT_MAX) {
        HX_FREE char *what = NULL;
        HX_NEED(asprintf(&what, "PID %s", word) >= 0);
        return hx_error_new(HX_E_ABSENT, what, "see: ps -e", "no such process");
    }
    *ret = (pid_t)value;
    return NULL;
}

static hx_error *bad_value(const char *name, const char *value, const char *wanted)
{
    HX_FREE char *what = NULL;
    HX_NEED(asprintf(&what, "--%s", name) >= 0);
    return hx_error_new(HX_E_USAGE, what, NULL, "'%s' is not %s", value, wanted);
}

static hx_error *parse_count(const char *name, const char *value, uint64_t least, uint64_t most,
                             uint64_t *ret)
{
    char wanted[96];
    snprintf(wanted, sizeof wanted, "a whole number from %llu%s", (unsigned long long)least,
             most < INT64_MAX ? "" : " on");
    if (most < INT64_MAX)
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), " to %llu",
                 (unsigned long long)most);
    if (!hx_is_pid(value) || !hx_parse_u64(value, ret) || *ret < least || *ret > most)
        return bad_value(name, value, wanted);
    return NULL;
}

static hx_error *parse_duration(const char *name, const char *value, uint64_t *ret)
{
    if (!hx_parse_duration(value, ret) || *ret == 0)
        return bad_value(name, value, "a duration above zero, such as 500ms, 10s, 5m, 1h");
    return NULL;
}

/* The index of value among words, which end with NULL. */
static bool one_of(const char *value, const char *const *words, int *ret)
{
    for (*ret = 0; words[*ret]; ++*ret)
        if (strcmp(value, words[*ret]) == 0)
            return true;
    return false;
}

static hx_error *parse_pause(const char *value, struct hx_args *args)
{
    static const char *const words[] = {"auto", "copy", "precopy", "fork", NULL};
    int which;
    if (!one_of(value, words, &which))
        return bad_value("pause", value, "one of auto, precopy, fork, copy");
    static const enum hx_pause methods[] = {HX_PAUSE_AUTO, HX_PAUSE_COPY, HX_PAUSE_PRECOPY,
                                            HX_PAUSE_AUTO};
    args->capture.pause = methods[which];
    args->pause = which == 3 ? words[which] : NULL;
    return NULL;
}

static hx_error *parse_interior(const char *value, struct hx_args *args)
{
    static const char *const words[] = {"known", "on", "off", NULL};
    static const enum hx_interior kinds[] = {HX_INTERIOR_KNOWN, HX_INTERIOR_ON, HX_INTERIOR_OFF};
    int which;
    if (!one_of(value, words, &which))
        return bad_value("interior", value, "one of on, off, known");
    args->interior = kinds[which];
    return NULL;
}

static hx_error *parse_content(const char *value)
{
    static const char *const words[] = {"none", "strings", "full", NULL};
    int which;
    if (!one_of(value, words, &which))
        return bad_value("content", value, "one of none, strings, full");
    if (which != 0)
        return hx_error_new(HX_E_USAGE, "--content", "leave it out", "%s is not in this version",
                            value);
    return NULL;
}

static hx_error *parse_color(const char *value, struct hx_args *args)
{
    static const char *const words[] = {"auto", "always", "never", NULL};
    static const int colors[] = {-1, 1, 0};
    int which = 1;
    if (value && !one_of(value, words, &which))
        return bad_value("color", value, "one of auto, always, never");
    args->color = colors[which];
    return NULL;
}

static hx_error *parse_snapshot(const char *value, struct hx_args *args)
{
    uint64_t number;
    if (strcmp(value, "first") != 0 && strcmp(value, "last") != 0 && strcmp(value, "all") != 0 &&
        (!hx_is_pid(value) || !hx_parse_u64(value, &number) || number > INT64_MAX))
        return bad_value("snapshot", value, "a number, first, last or all");
    args->snapshot = value;
    return NULL;
}

static hx_error *parse_threads(const char *value, struct hx_args *args)
{
    uint64_t n;
    HX_TRY(parse_count("threads", value, 1, THREADS_MAX, &n));
    args->threads = args->capture.threads = args->analysis.threads = (unsigned)n;
    return NULL;
}

static hx_error *parse_scheme(const char *value, struct hx_args *args)
{
    const struct hx_scheme *scheme = hx_scheme_find(value);
    if (!scheme)
        return bad_value("scheme", value, "one of root, module, thread, type, site");
    args->analysis.scheme = scheme;
    return NULL;
}

static hx_error *parse_holders(const char *value, struct hx_args *args)
{
    bool on = strcmp(value, "on") == 0;
    if (!on && strcmp(value, "off") != 0)
        return bad_value("holders", value, "on or off");
    args->analysis.hold.holders = on;
    args->analysis.has_hold = true;
    return NULL;
}

static hx_error *parse_type_cache(const char *value, struct hx_args *args)
{
    args->type_cache = strcmp(value, "on") == 0;
    return args->type_cache || strcmp(value, "off") == 0
               ? NULL
               : bad_value("type-cache", value, "on or off");
}

static hx_error *parse_analyse(const char *value, struct hx_args *args)
{
    static const struct {
        const char *word;
        unsigned parts;
    } words[] = {{"now", HX_ANALYSE_ALL}, {"later", HX_ANALYSE_LATER}, {"sure", HX_ANALYSE_EVER}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].word, value) == 0) {
            args->analysis.parts = words[i].parts;
            return NULL;
        }
    return bad_value("analyse", value, "now, later or sure");
}

static hx_error *parse_rules(const char *value, struct hx_args *args)
{
    args->analysis.has_hold = true;
    return hx_rules_parse(value, &args->analysis.hold.off);
}

static hx_error *parse_root(const char *value, struct hx_args *args)
{
    HX_FREE char *name = NULL;
    const char *expr;
    HX_TRY(hx_naming_parse(value, &name, &expr));
    for (size_t i = 0; i < args->n_roots; i++)
        if (strncmp(args->root[i], value, strlen(name) + 1) == 0)
            return hx_error_new(HX_E_USAGE, "--root", "choose another name",
                                "there are two roots '%s'", name);
    args->root[args->n_roots++] = value;
    return NULL;
}

static hx_error *parse_max_set(const char *value, struct hx_args *args)
{
    uint64_t n = HX_SETS_AUTO;
    if (strcmp(value, "auto") != 0 && (!hx_parse_u64(value, &n) || n >= HX_SETS_AUTO))
        return bad_value("max-set", value, "auto or a whole number; 0 is no limit");
    args->analysis.max_set = (unsigned)n;
    args->analysis.has_max_set = true;
    return NULL;
}

static hx_error *parse_threads_as(const char *value, struct hx_args *args)
{
    args->analysis.has_threads_as = hx_threads_as_parse(value, &args->analysis.options.threads_as);
    return args->analysis.has_threads_as
               ? NULL
               : bad_value("threads-as", value, "one of name, one, parts");
}

static hx_error *parse_bytes(const char *name, const char *value, uint64_t *ret)
{
    if (!hx_parse_bytes(value, ret) || *ret == 0)
        return bad_value(name, value, "a number of bytes above zero, such as 4096, 64K, 1M");
    return NULL;
}

static hx_error *parse_recursion(const char *value, struct hx_args *args)
{
    static const char *const words[] = {"truncate", "whole", NULL};
    int which;
    if (!one_of(value, words, &which))
        return bad_value("recursion", value, "one of truncate, whole");
    args->attribution.recursion = which ? HX_RECURSION_WHOLE : HX_RECURSION_TRUNCATES;
    return NULL;
}

static hx_error *parse_depth(const char *value, struct hx_args *args)
{
    uint64_t n;
    HX_TRY(parse_count("depth", value, 0, UINT32_MAX, &n));
    args->attribution.chain_depth = (uint32_t)n;
    return NULL;
}

static hx_error *parse_one(enum hx_option_id id, const char *value, struct hx_args *args)
{
    const char *name = rows[id].name;
    if (value && !value[0]) {
        char shown[64];
        snprintf(shown, sizeof shown, "--%s", name);
        return usage(shown, NULL, "its value is empty");
    }
    switch (id) {
    case HX_OPT_OUT:
        args->out = value;
        return NULL;
    case HX_OPT_SCRIPT:
        args->script = value;
        return NULL;
    case HX_OPT_SORT:
        args->sort = value;
        return NULL;
    case HX_OPT_WHERE:
        args->where = value;
        return NULL;
    case HX_OPT_STILL:
        args->still = value;
        return NULL;
    case HX_OPT_FROM:
        args->from = value;
        return NULL;
    case HX_OPT_ALL:
        args->all = true;
        return NULL;
    case HX_OPT_WHEN:
        args->when = value;
        return NULL;
    case HX_OPT_SUPPRESSIONS:
        args->suppressions[args->n_suppressions++] = value;
        return NULL;
    case HX_OPT_TYPES:
        args->types[args->n_types++] = value;
        return NULL;
    case HX_OPT_TYPE_CACHE:
        return parse_type_cache(value, args);
    case HX_OPT_VISITS:
        return NULL; /* that it was given is all */
    case HX_OPT_STRICT:
        args->strict = true;
        return NULL;
    case HX_OPT_BY:
        args->by = value;
        return NULL;
    case HX_OPT_OF:
        args->of = value;
        return NULL;
    case HX_OPT_OBJECT:
        return hx_parse_u64(value, &args->object)
                   ? NULL
                   : bad_value(name, value, "an address, such as 0x55d0c0ffee10");
    case HX_OPT_EXE:
        args->exe = value;
        return NULL;
    case HX_OPT_DEBUG:
        args->debug = value;
        return NULL;
    case HX_OPT_SYSROOT:
        args->sysroot = value;
        return NULL;
    case HX_OPT_ROOT:
        return parse_root(value, args);
    case HX_OPT_SCHEME:
        return parse_scheme(value, args);
    case HX_OPT_RETAINER:
        args->retainer[args->analysis.options.n_patterns++] = value;
        return NULL;
    case HX_OPT_MAX_SET:
        return parse_max_set(value, args);
    case HX_OPT_THREADS_AS:
        return parse_threads_as(value, args);
    case HX_OPT_HOLDERS:
        return parse_holders(value, args);
    case HX_OPT_RULES:
        return parse_rules(value, args);
    case HX_OPT_ANALYSE:
        return parse_analyse(value, args);
    case HX_OPT_EVERY:
        return parse_duration(name, value, &args->every_ns);
    case HX_OPT_DURATION:
        return parse_duration(name, value, &args->duration_ns);
    case HX_OPT_MAX_PAUSE:
        return parse_duration(name, value, &args->capture.max_pause_ns);
    case HX_OPT_COUNT:
        return parse_count(name, value, 1, INT64_MAX, &args->count);
    case HX_OPT_LIMIT:
        return parse_count(name, value, 0, INT64_MAX, &args->limit);
    case HX_OPT_SNAPSHOT:
        return parse_snapshot(value, args);
    case HX_OPT_FORMAT:
        args->as_suppressions =
            args->command->run == hx_cmd_report && strcmp(value, "suppressions") == 0;
        return args->as_suppressions || hx_format_parse(value, &args->format)
                   ? NULL
                   : bad_value(name, value, "one of text, json, csv");
    case HX_OPT_PAUSE:
        return parse_pause(value, args);
    case HX_OPT_INTERIOR:
        return parse_interior(value, args);
    case HX_OPT_CONTENT:
        return parse_content(value);
    case HX_OPT_THREADS:
        return parse_threads(value, args);
    case HX_OPT_COLOR:
        return parse_color(value, args);
    case HX_OPT_RECORD:
        args->record = true;
        return NULL;
    case HX_OPT_SAMPLE:
        return parse_bytes(name, value, &args->recorder.sample_bytes);
    case HX_OPT_MIN_SIZE:
        return parse_bytes(name, value, &args->recorder.least_bytes);
    case HX_OPT_MAX_SIZE:
        return parse_bytes(name, value, &args->recorder.most_bytes);
    case HX_OPT_MIN_AGE:
        return parse_duration(name, value, &args->min_age_ns);
    case HX_OPT_MMAP:
        args->recorder.mappings = true;
        return NULL;
    case HX_OPT_CHILDREN:
        args->recorder.children = true;
        return NULL;
    case HX_OPT_AT_EXIT:
        args->recorder.at_exit = true;
        return NULL;
    case HX_OPT_CENTRE:
        HX_TRY(hx_centre_pattern_test(value));
        args->centre[args->attribution.n_patterns++] = value;
        return NULL;
    case HX_OPT_RECURSION:
        return parse_recursion(value, args);
    case HX_OPT_DEPTH:
        return parse_depth(value, args);
    case HX_OPT_OFFSETS:
        args->attribution.offsets = true;
        return NULL;
    case HX_OPT_TERSE:
    case HX_OPT_NORMAL:
    case HX_OPT_VERBOSE: /* the last one counts */
        args->terse = id == HX_OPT_TERSE;
        args->verbose = id == HX_OPT_VERBOSE;
        return NULL;
    case HX_OPT_HELP:
    case HX_OPT_VERSION:
    case HX_OPTS:
        break;
    }
    return NULL;
}

/* --- The parser --------------------------------------------------------------- */

/* strict: options end before the first other word. */
static void make_option_table(struct option table[HX_OPTS + 1], char letters[2 * HX_OPTS + 4],
                              bool strict)
{
    memset(table, 0, sizeof(struct option) * (HX_OPTS + 1));
    char *letter = letters;
    if (strict)
        *letter++ = '+';
    *letter++ = ':'; /* a missing argument is told apart */
    for (int i = 0; i < HX_OPTS; i++) {
        int argument = !rows[i].argument            ? no_argument
                       : rows[i].argument[0] == '[' ? optional_argument
                                                    : required_argument;
        table[i] = (struct option){rows[i].name, argument, NULL, CODE_FIRST + i};
        if (rows[i].letter) {
            *letter++ = rows[i].letter;
            if (rows[i].argument)
                *letter++ = ':';
        }
    }
    *letter = 0;
}

static int id_of(int code)
{
    for (int i = 0; i < HX_OPTS; i++)
        if (code == CODE_FIRST + i || (rows[i].letter && code == rows[i].letter))
            return i;
    return -1;
}

/* What getopt_long stumbled over, as the user wrote it. */
static hx_error *stumbled(const struct hx_command *command, int code, char **argv)
{
    char letter[3] = {'-', (char)optopt, 0};
    int id = optopt ? id_of(optopt) : -1;
    const char *shown = optopt && optopt < CODE_FIRST ? letter : argv[optind - 1];
    if (code == ':' && id >= 0) {
        char todo[96];
        snprintf(todo, sizeof todo, "it takes %s", rows[id].argument);
        return usage(shown, todo, "a value is missing");
    }
    if (id >= 0)
        return usage(shown, "leave the value out", "takes no value");
    return unknown_option(command, shown);
}

static hx_error *take_option(const struct hx_command *command, int code, char **argv,
                             struct hx_args *args)
{
    if (code == '?' || code == ':')
        return stumbled(command, code, argv);
    int id = id_of(code);
    if (!((command->options | HX_OPTS_ALWAYS) >> id & 1)) {
        char shown[64], todo[96];
        snprintf(shown, sizeof shown, "--%s", rows[id].name);
        snprintf(todo, sizeof todo, "see: heapx help %s", command->name);
        return hx_error_new(HX_E_USAGE, shown, todo, "is no option of %s", command->name);
    }
    args->given |= (uint64_t)1 << id;
    return parse_one((enum hx_option_id)id, optarg, args);
}

static hx_error *check_words(const struct hx_args *args)
{
    const struct hx_command *command = args->command;
    char todo[160];
    snprintf(todo, sizeof todo, "usage: heapx %s %s", command->name, command->positional);
    if (args->n_words < command->least)
        return hx_error_new(HX_E_USAGE, command->name, todo, "an argument is missing");
    if (args->n_words > command->most)
        return hx_error_new(HX_E_USAGE, command->name, todo, "'%s' is one argument too many",
                            args->word[command->most]);
    /* what follows CMD is its own, whatever it is */
    size_t n = command->run == hx_cmd_run ? 1 : args->n_words;
    for (size_t i = 0; i < n; i++)
        if (!args->word[i][0])
            return hx_error_new(HX_E_USAGE, command->name, todo, "argument %zu is empty", i + 1);
    return NULL;
}

/* What options mean for each other. */
static hx_error *settle_options(struct hx_args *args)
{
    struct hx_analysis *analysis = &args->analysis;
    bool patterns = analysis->options.n_patterns > 0;
    if (patterns && !analysis->scheme)
        analysis->scheme = &hx_scheme_type;
    if (patterns && analysis->scheme != &hx_scheme_type)
        return usage("--retainer", "add: --scheme type", "only scheme type asks for types");
    for (size_t i = 0; i < analysis->options.n_patterns; i++)
        HX_TRY(hx_pattern_check(args->retainer[i]));
    bool records =
        args->record || args->command->run == hx_cmd_run || args->command->run == hx_cmd_record;
    if (args->given & HX_OPTS_RECORDER && !records)
        return usage("--record", "add it, or leave out what is asked of it",
                     "sampling and filters are the recorder's");
    if (args->strict && !args->n_suppressions)
        return usage("--strict", "add: --suppressions FILE", "it is about suppressions");
    if (args->recorder.most_bytes && args->recorder.most_bytes < args->recorder.least_bytes)
        return usage("--max-size", NULL, "is less than --min-size: nothing would be recorded");
    return NULL;
}

hx_error *hx_args_parse(const struct hx_command *command, int argc, char **argv,
                        struct hx_args *ret)
{
    struct option table[HX_OPTS + 1];
    char letters[2 * HX_OPTS + 4];
    make_option_table(table, letters, command->run == hx_cmd_run); /* CMD's options are its own */
    *ret = (struct hx_args){.command = command, .color = -1, .snapshot = "last"};
    ret->analysis.max_set = HX_SETS_AUTO;
    ret->analysis.hold.holders = true;
    ret->type_cache = true;
    ret->root = calloc((size_t)argc + 1, sizeof *ret->root);
    ret->retainer = calloc((size_t)argc + 1, sizeof *ret->retainer);
    ret->analysis.options.pattern = ret->retainer;
    ret->centre = calloc((size_t)argc + 1, sizeof *ret->centre);
    ret->attribution = HX_ATTRIBUTION_DEFAULT;
    ret->attribution.pattern = ret->centre;
    ret->suppressions = calloc((size_t)argc + 1, sizeof *ret->suppressions);
    ret->types = calloc((size_t)argc + 1, sizeof *ret->types);
    HX_NEED(ret->root && ret->retainer && ret->centre && ret->suppressions);
    opterr = 0;
    optind = 0; /* glibc: begin anew, and permute */
    int code;
    while ((code = getopt_long(argc, argv, letters, table, NULL)) != -1) {
        HX_TRY(take_option(command, code, argv, ret));
        if (hx_args_given(ret, HX_OPT_HELP) || hx_args_given(ret, HX_OPT_VERSION))
            return NULL;
    }
    ret->word = argv + optind;
    ret->n_words = (size_t)(argc - optind);
    HX_TRY(settle_options(ret));
    return check_words(ret);
}

void hx_args_deinit(struct hx_args *args)
{
    free(args->root);
    free(args->retainer);
    free(args->centre);
    free(args->suppressions);
    free(args->types);
    args->root = args->retainer = args->centre = args->suppressions = args->types = NULL;
}

void hx_option_help(enum hx_option_id id, struct hx_text *text)
{
    struct hx_text left = {0};
    if (rows[id].letter)
        hx_text_putf(&left, "-%c, ", rows[id].letter);
    hx_text_putf(&left, "--%s", rows[id].name);
    if (rows[id].argument)
        hx_text_putf(&left, rows[id].argument[0] == '[' ? "%s" : " %s", rows[id].argument);
    hx_help_row(text, hx_text_str(&left), rows[id].about);
    hx_text_free(&left);
}
