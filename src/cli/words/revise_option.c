/* revise_option.c - roots named, and retainers chosen, after a snapshot was taken. */
#include "base/cleanup.h"
#include "base/timing.h"
#include "cli/take/take.h"
#include "cli/words/matched.h"
#include "store/stages.h"
#include "traverse/named.h"

#include <stdlib.h>
#include <string.h>

struct revision {
    const struct hx_args *args;
    struct hx_console *console;
    hx_store *store;
    unsigned asked;  /* parts that the options speak of */
    unsigned wanted; /* parts that must be there */
    struct hx_matched found;
};

/* Who retained when the snapshot was stored; the default where nobody asked. */
struct stored {
    char *text; /* the patterns */
    const char **pattern;
};

static void cleanup_stored(struct stored *stored)
{
    free(stored->text);
    free(stored->pattern);
}

static hx_error *stored_scheme(const struct revision *revision, int64_t number,
                               struct stored *stored, struct hx_analysis *analysis)
{
    HX_TRY(hx_store_scheme(revision->store, number, &analysis->scheme, &stored->text));
    if (!analysis->scheme)
        analysis->scheme = hx_schemes[0];
    if (!stored->text || !analysis->scheme->picks)
        return NULL;
    stored->pattern = calloc(strlen(stored->text) + 1, sizeof *stored->pattern);
    HX_NEED(stored->pattern);
    size_t n = 0;
    for (char *rest = stored->text; rest;)
        stored->pattern[n++] = strsep(&rest, "\n");
    analysis->options.pattern = stored->pattern;
    analysis->options.n_patterns = n;
    return NULL;
}

static hx_error *name_roots(const struct hx_args *args, struct hx_snapshot *snapshot)
{
    HX_FREE struct hx_naming *naming = calloc(args->n_roots + 1, sizeof *naming);
    HX_FREE char **names = calloc(args->n_roots + 1, sizeof *names);
    HX_NEED(naming && names);
    hx_error *err = NULL;
    for (size_t i = 0; i < args->n_roots && !err; i++) {
        err = hx_naming_parse(args->root[i], &names[i], &naming[i].expr);
        naming[i].name = names[i];
    }
    if (!err)
        err = hx_named_renew(snapshot, naming, args->n_roots, NULL);
    for (size_t i = 0; i < args->n_roots; i++)
        free(names[i]);
    return err;
}

/* What is told by cost-centre stacks is no longer what was stored, once others are chosen. */
static hx_error *follows_centres(const struct revision *revision, int64_t number, unsigned *parts)
{
    if (!hx_args_given(revision->args, HX_OPT_CENTRE) &&
        !hx_args_given(revision->args, HX_OPT_RECURSION))
        return NULL;
    const struct hx_scheme *scheme;
    HX_FREE char *patterns = NULL;
    *parts |= revision->wanted & HX_ANALYSE_TYPES;
    HX_TRY(hx_store_scheme(revision->store, number, &scheme, &patterns));
    if (scheme == &hx_scheme_site)
        *parts |= revision->wanted & HX_ANALYSE_RETAINERS;
    return NULL;
}

static hx_error *revise_one(struct revision *revision, int64_t number)
{
    const struct hx_args *args = revision->args;
    unsigned have;
    HX_TRY(hx_store_parts(revision->store, number, &have));
    unsigned parts = revision->asked | (revision->wanted & ~have);
    HX_TRY(follows_centres(revision, number, &parts));
    if (!parts && !hx_args_given(args, HX_OPT_VISITS))
        return NULL;
    uint64_t begun = hx_timing_begin();
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    hx_stages_begin(&revision->console->progress, parts | HX_WORK_LOAD, parts | HX_WORK_LOAD,
                    args->threads);
    HX_TRY(hx_store_load(revision->store, number, &revision->console->progress, &snapshot));
    hx_timing_end(begun, "load", snapshot->graph.n);
    if (snapshot->no_heap && revision->asked && strcmp(snapshot->method, "import") == 0)
        return hx_error_new(HX_E_ABSENT, args->word[0], "leave the options of the analysis out",
                            "snapshot %lld was imported: it has no objects to analyse",
                            (long long)number);
    if (snapshot->no_heap)
        return NULL;
    static const struct hx_apart apart = {0}; /* who writes into the file need not wait */
    struct hx_analysis analysis = args->analysis;
    analysis.apart = &apart;
    HX_CLEANUP(cleanup_stored) struct stored stored = {0};
    if (!analysis.scheme)
        HX_TRY(stored_scheme(revision, number, &stored, &analysis));
    if (analysis.has_hold && analysis.hold.holders && snapshot->graph.n &&
        !snapshot->graph.evidence)
        hx_say(revision->console, "--holders",
               "all references count: nobody has judged those of"
               " snapshot %lld",
               (long long)number);
    if (args->n_roots)
        HX_TRY(name_roots(args, snapshot));
    HX_TRY(hx_matched_look(&revision->found, snapshot));
    begun = hx_timing_begin();
    if (parts)
        HX_TRY(hx_store_revise(revision->store, number, snapshot, &analysis, parts,
                               &revision->console->progress));
    hx_progress_end(&revision->console->progress);
    hx_timing_end(begun, "revise", snapshot->graph.n);
    if (!hx_args_given(args, HX_OPT_VISITS))
        return NULL;
    return hx_store_count_visits(revision->store, number, snapshot, &analysis,
                                 &revision->console->progress);
}

/* Numbers may have gaps of any size. */
static hx_error *revise_all(struct revision *revision)
{
    int64_t number;
    HX_TRY(hx_store_resolve(revision->store, "first", &number)); /* an empty store is an error */
    for (number = 0;;) {
        HX_TRY(hx_store_next(revision->store, number, &number));
        if (!number)
            return NULL;
        if (atomic_load(hx_interrupted()))
            return hx_error_cancelled("analysis");
        hx_error *err = revise_one(revision, number);
        if (err && err->kind != HX_E_ABSENT) /* somebody has deleted it */
            return err;
        hx_error_free(err);
    }
}

static hx_error *run_revision(struct revision *revision, const char *which)
{
    int64_t number;
    if (strcmp(which, "all") == 0)
        return revise_all(revision);
    HX_TRY(hx_store_resolve(revision->store, which, &number));
    return revise_one(revision, number);
}

hx_error *hx_reattribute(const struct hx_args *args, struct hx_console *console, hx_store *store,
                         const char *which)
{
    const char *idle;
    int64_t number = 0;
    if (!(args->given & HX_OPTS_ATTRIBUTION))
        return NULL;
    if (strcmp(which, "all") != 0)
        HX_TRY(hx_store_resolve(store, which, &number));
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_store_attribute(store, number, &args->attribution, &console->progress, &idle));
    hx_timing_end(begun, "attribute", 0);
    hx_console_clear(console);
    if (idle)
        hx_say(console, "--centre", "'%s' stands for no cost centre of this recording", idle);
    return NULL;
}

hx_error *hx_revise(const struct hx_args *args, struct hx_console *console, hx_store *store,
                    const char *which, unsigned parts)
{
    struct revision revision = {.args = args, .console = console, .store = store, .wanted = parts};
    if (args->analysis.parts == HX_ANALYSE_LATER)
        revision.wanted = 0;
    else
        revision.wanted |= args->analysis.parts & HX_ANALYSE_SURE;
    if (args->n_roots)
        revision.asked |= HX_ANALYSE_BINS;
    if (hx_args_given(args, HX_OPT_SCHEME) || hx_args_given(args, HX_OPT_RETAINER) ||
        hx_args_given(args, HX_OPT_MAX_SET))
        revision.asked |= HX_ANALYSE_RETAINERS;
    if (hx_args_given(args, HX_OPT_THREADS_AS)) /* holders are told of as retainers are */
        revision.asked |= HX_ANALYSE_RETAINERS | HX_ANALYSE_HOLDERS;
    if (args->analysis.has_hold)
        revision.asked |= HX_ANALYSE_ALL;
    if (!(revision.asked | revision.wanted) && !hx_args_given(args, HX_OPT_VISITS))
        return NULL;
    HX_TRY(hx_matched_init(args, &revision.found));
    hx_error *err = run_revision(&revision, which);
    if (!err) {
        hx_console_clear(console);
        hx_matched_tell(&revision.found, console);
    }
    hx_matched_deinit(&revision.found);
    return err;
}
