/* analysis.c - working out retainer sets, bins and retained sizes from within the explorer. */
#include "ui/app.h"

#include "query/pattern.h"
#include "store/stages.h"
#include "ui/analysis.h"
#include "ui/job.h"
#include "ui/list/pane.h"
#include "ui/ui_options.h"

#include <inttypes.h>
#include <string.h>

/* --- the choice ------------------------------------------------------------------------- */

static void free_edit(struct hx_naming_edit *edit)
{
    free(edit->name);
    free(edit->expr);
}

static void forget_patterns(struct hx_choice *choice)
{
    while (choice->patterns.n)
        free(choice->patterns.v[--choice->patterns.n]);
}

void hx_choice_deinit(struct hx_choice *choice)
{
    forget_patterns(choice);
    hx_vec_free(&choice->patterns);
    for (size_t i = 0; i < choice->edits.n; i++)
        free_edit(&choice->edits.v[i]);
    hx_vec_free(&choice->edits);
    *choice = (struct hx_choice){0};
}

static hx_error *add_pattern(struct hx_choice *choice, const char *pattern)
{
    HX_FREE char *copy = strdup(pattern);
    HX_NEED(copy && hx_vec_push(&choice->patterns, copy));
    copy = NULL;
    choice->has_patterns = true;
    return NULL;
}

static hx_error *add_edit(struct hx_choice *choice, const char *name, const char *expr)
{
    struct hx_naming_edit edit = {strdup(name), expr ? strdup(expr) : NULL};
    if (edit.name && (!expr || edit.expr) && hx_vec_push(&choice->edits, edit))
        return NULL;
    free_edit(&edit);
    return hx_error_nomem();
}

hx_error *hx_choice_copy(const struct hx_choice *from, struct hx_choice *ret)
{
    *ret = *from;
    memset(&ret->patterns, 0, sizeof ret->patterns);
    memset(&ret->edits, 0, sizeof ret->edits);
    hx_error *error = NULL;
    for (size_t i = 0; i < from->patterns.n && !error; i++)
        error = add_pattern(ret, from->patterns.v[i]);
    for (size_t i = 0; i < from->edits.n && !error; i++)
        error = add_edit(ret, from->edits.v[i].name, from->edits.v[i].expr);
    if (error)
        hx_choice_deinit(ret);
    return error;
}

/* From the rule of a snapshot to the one that is chosen. */
static void choose_hold(const struct hx_choice *choice, struct hx_hold_options *hold)
{
    if (choice->has_holders)
        hold->holders = choice->holders;
    hold->off = (hold->off | choice->rules_off) & ~choice->rules_on;
}

void hx_choice_analysis(const struct hx_choice *choice, const struct hx_analysis *otherwise,
                        struct hx_analysis *ret)
{
    static const struct hx_analysis usual = {.max_set = HX_SETS_AUTO, .hold.holders = true};
    *ret = otherwise ? *otherwise : usual;
    if (choice->scheme)
        ret->scheme = choice->scheme;
    if (choice->has_max_set) {
        ret->max_set = choice->max_set;
        ret->has_max_set = true;
    }
    if (choice->has_threads_as) {
        ret->options.threads_as = choice->threads_as;
        ret->has_threads_as = true;
    }
    if (choice->holds) {
        choose_hold(choice, &ret->hold);
        ret->has_hold = true;
    }
    if (choice->has_patterns) {
        ret->options.pattern = (const char *const *)choice->patterns.v;
        ret->options.n_patterns = choice->patterns.n;
    }
}

/* --- names of roots --------------------------------------------------------------------- */

typedef HX_VEC(struct hx_naming) namings;

static size_t find_naming(const namings *all, const char *name)
{
    size_t i = 0;
    while (i < all->n && strcmp(all->v[i].name, name) != 0)
        i++;
    return i;
}

/* What the program itself named by an address: the global or the word, or the object that its one
 * edge leads to; 0 when it was a null or dangling pointer. */
static uint64_t address_of(const struct hx_snapshot *snapshot, const struct hx_named *named)
{
    if (named->root >= snapshot->roots.n)
        return 0;
    const struct hx_root *root = &snapshot->roots.v[named->root];
    if (hx_root_has_place(root))
        return root->address;
    for (size_t i = snapshot->root_edges.n; i-- > 0;)
        if (snapshot->root_edges.v[i].root == named->root)
            return snapshot->graph.addr[snapshot->root_edges.v[i].target];
    return root->address;
}

static hx_error *apply_edit(namings *all, const struct hx_naming_edit *edit)
{
    size_t at = find_naming(all, edit->name);
    struct hx_naming naming = {.name = edit->name, .expr = edit->expr};
    if (!edit->expr && at < all->n) {
        memmove(all->v + at, all->v + at + 1, (all->n - at - 1) * sizeof *all->v);
        all->n--;
    } else if (edit->expr && at < all->n) {
        all->v[at] = naming;
    } else if (edit->expr && !hx_vec_push(all, naming)) {
        return hx_error_nomem();
    }
    return NULL;
}

hx_error *hx_choice_name(const struct hx_choice *choice, struct hx_snapshot *snapshot,
                         size_t *ret_missing)
{
    namings all = {0};
    hx_error *error = NULL;
    *ret_missing = 0;
    if (!choice->edits.n)
        return NULL;
    for (size_t i = 0; i < snapshot->named.n && !error; i++) {
        const struct hx_named *named = &snapshot->named.v[i];
        struct hx_naming naming = {.name = named->name, .expr = named->expr};
        if (naming.expr && choice->instead)
            continue;
        if (!naming.expr)
            naming.address = address_of(snapshot, named);
        if (!hx_vec_push(&all, naming))
            error = hx_error_nomem();
    }
    for (size_t i = 0; i < choice->edits.n && !error; i++)
        error = apply_edit(&all, &choice->edits.v[i]);
    if (!error)
        error = hx_named_set(snapshot, all.v, all.n, ret_missing);
    hx_vec_free(&all);
    return error;
}

/* --- the work --------------------------------------------------------------------------- */

struct revising {
    struct hx_job job;
    struct hx_ui *ui; /* its graph is used on the lane, its options do not change */
    int64_t snapshot;
    unsigned parts;
    bool lacking; /* also those that the store does not have, */
    bool later;   /* of these only the next: what `needs` has comes first */
    unsigned needs;
    bool more;         /* there are others */
    uint64_t begun_ns; /* when the first of them was */
    struct hx_choice choice;
    /* answers */
    size_t missing, named;
    const char *unknown; /* a name to take away that no root has; of the choice */
    const struct hx_scheme *scheme;
};

/* What the snapshot was stored with, as far as the user did not choose anything else. */
static hx_error *stored_choice(struct revising *revising, hx_store *store)
{
    struct hx_choice *choice = &revising->choice;
    HX_ROWS hx_rows *rows = NULL;
    HX_TRY(hx_query_named(store, HX_QUERY_census_options,
                          HX_QUERY_ARGS(.snapshot = revising->snapshot), &rows));
    bool more = false;
    HX_TRY(hx_rows_next(rows, &more));
    if (!more)
        return NULL;
    struct hx_value scheme = hx_rows_value(rows, 0), max = hx_rows_value(rows, 1);
    if (!choice->scheme && scheme.type == HX_VALUE_TEXT)
        choice->scheme = hx_scheme_find(scheme.text);
    if (!choice->has_max_set && max.type == HX_VALUE_INT && max.i > 0 && max.i < HX_SETS_AUTO) {
        choice->has_max_set = true;
        choice->max_set = (unsigned)max.i;
    }
    struct hx_value patterns = hx_rows_value(rows, 2);
    if (choice->has_patterns)
        return NULL;
    choice->has_patterns = true;
    if (patterns.type != HX_VALUE_TEXT)
        return NULL;
    for (const char *s = patterns.text; *s;) { /* one in each line */
        size_t n = strcspn(s, "\n");
        HX_FREE char *line = strndup(s, n);
        HX_NEED(line);
        if (n)
            HX_TRY(add_pattern(choice, line));
        s += n + (s[n] == '\n');
    }
    return NULL;
}

/* Was the last wish to take a name away that there is not? */
static void note_unknown(struct revising *revising, const struct hx_snapshot *snapshot)
{
    const struct hx_choice *choice = &revising->choice;
    const struct hx_naming_edit *last =
        choice->edits.n ? &choice->edits.v[choice->edits.n - 1] : NULL;
    if (!last || last->expr)
        return;
    for (size_t i = 0; i < snapshot->named.n; i++)
        if (strcmp(snapshot->named.v[i].name, last->name) == 0)
            return;
    revising->unknown = last->name;
}

/* Those that are made of the same work are worked out together. */
static void choose_next(struct revising *revising)
{
    static const unsigned together[] = {HX_ANALYSE_HOLDERS | HX_ANALYSE_RETAINERS, HX_ANALYSE_BINS,
                                        HX_ANALYSE_RETAINED | HX_ANALYSE_TYPES | HX_ANALYSE_SURE};
    const size_t n = sizeof together / sizeof *together;
    const unsigned missing = revising->parts;
    size_t i = 0;
    while (i < n && !(together[i] & missing & revising->needs))
        i++;
    for (size_t k = 0; k < n && i == n; k++)
        i = together[k] & missing ? k : n;
    revising->parts = i < n ? missing & together[i] : missing;
    revising->more = revising->parts != missing;
}

static void leave_store(void *jobs)
{
    hx_jobs_leave_store(jobs);
}

static void enter_store(void *jobs)
{
    hx_jobs_enter_store(jobs);
}

static hx_error *revising_run(struct hx_job *job, hx_store *store,
                              const struct hx_progress *progress)
{
    struct revising *revising = (struct revising *)job;
    struct hx_snapshot *snapshot;
    struct hx_analysis analysis;
    const struct hx_analysis *options = revising->ui->options->analysis;
    if (revising->lacking) {
        unsigned has = 0;
        HX_TRY(hx_store_parts(store, revising->snapshot, &has));
        revising->parts |= HX_ANALYSE_ALL & ~has;
    }
    const unsigned all = revising->parts;
    if (revising->later)
        choose_next(revising);
    if (!revising->parts)
        return NULL;
    revising->begun_ns = job->began_ns ? job->began_ns : hx_now_ns();
    hx_stages_begin(progress, job->began_ns ? 0 : all | HX_WORK_LOAD,
                    revising->parts | HX_WORK_LOAD, options ? options->threads : 0);
    HX_TRY(stored_choice(revising, store));
    HX_TRY(hx_ui_graph(revising->ui, store, revising->snapshot, progress, &snapshot));
    if (revising->parts & HX_ANALYSE_BINS) {
        note_unknown(revising, snapshot);
        HX_TRY(hx_choice_name(&revising->choice, snapshot, &revising->missing));
    }
    hx_choice_analysis(&revising->choice, options, &analysis);
    HX_TRY(hx_store_hold(store, revising->snapshot, &analysis.hold));
    if (!analysis.scheme)
        analysis.scheme = hx_schemes[0];
    choose_hold(&revising->choice, &analysis.hold);
    analysis.has_hold = true;
    const struct hx_apart apart = {leave_store, enter_store, revising->ui->jobs};
    analysis.apart = &apart;
    analysis.shown_only = revising->ui->options->shown_only && !revising->later;
    revising->scheme = analysis.scheme;
    revising->named = snapshot->named.n;
    return hx_store_revise(store, revising->snapshot, snapshot, &analysis, revising->parts,
                           progress);
}

/* --- which snapshots ---------------------------------------------------------------------- */

static struct hx_revision *revision_of(struct hx_ui *ui, int64_t snapshot)
{
    for (size_t i = 0; i < ui->revisions.n; i++)
        if (ui->revisions.v[i].snapshot == snapshot)
            return &ui->revisions.v[i];
    struct hx_revision revision = {.snapshot = snapshot};
    return hx_vec_push(&ui->revisions, revision) ? &ui->revisions.v[ui->revisions.n - 1] : NULL;
}

void hx_ui_is_revised(struct hx_ui *ui, int64_t snapshot, const struct hx_choice *choice)
{
    struct hx_revision *revision = revision_of(ui, snapshot);
    if (!revision)
        return; /* it will be revised once more than needed */
    revision->retainers = choice->retainers;
    revision->bins = choice->bins;
    revision->holds = choice->holds;
    revision->want = 0;
    revision->missing = revision->later = false;
}

/* All lists of the store are loaded anew when they are looked at. */
static void outdate_all(struct hx_ui *ui)
{
    for (size_t i = 0; i < HX_SCREENS; i++)
        if (ui->base[i])
            hx_pane_outdate(ui->base[i]);
    for (size_t i = 1; i < ui->open.n; i++)
        hx_pane_outdate(ui->open.v[i]);
    hx_ui_complain(ui, hx_ui_load_snapshots(ui));
}

static void say_revised(struct hx_ui *ui, const struct revising *revising)
{
    bool bins = revising->parts & HX_ANALYSE_BINS, sets = revising->parts & HX_ANALYSE_RETAINERS;
    if (sets && bins)
        hx_ui_say(ui, "worked out: retainer sets by %s, root bins%s", revising->scheme->name,
                  revising->parts & HX_ANALYSE_RETAINED ? ", dominators" : "");
    else if (sets)
        hx_ui_say(ui, "retainer sets by %s worked out", revising->scheme->name);
    else if (bins && revising->unknown)
        hx_ui_say(ui, "no root is named %s in this snapshot", revising->unknown);
    else if (bins && revising->missing)
        hx_ui_say(ui, "named roots: %zu, without an object here: %zu; :root lists them",
                  revising->named, revising->missing);
    else if (bins)
        hx_ui_say(ui, "bins of %zu named root%s worked out", revising->named,
                  revising->named == 1 ? "" : "s");
    else
        hx_ui_say(ui, "dominators worked out");
}

static void revising_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct revising *revising = (struct revising *)job;
    ui->revising--;
    if (error && error->kind == HX_E_CANCEL && !job->by_user) {
        hx_error_free(error); /* another choice or another snapshot came before it */
        return;
    }
    /* What failed or was cancelled is not tried again by itself. */
    hx_ui_is_revised(ui, revising->snapshot, &revising->choice);
    struct hx_revision *revision = revision_of(ui, revising->snapshot);
    if (revision) {
        revision->failed =
            error ? revision->failed | revising->parts : revision->failed & ~revising->parts;
        revision->missing = revision->later = revising->later && revising->more && !error;
        revision->began_ns = revision->missing ? revising->begun_ns : 0;
    }
    if (error && error->kind == HX_E_CANCEL) {
        hx_error_free(error);
        hx_ui_say(ui, "cancelled; :analyse begins again");
    } else if (error) {
        hx_ui_complain(ui, error);
    } else if (!revising->parts) {
        hx_ui_say(ui, "nothing is missing in snapshot %" PRId64, revising->snapshot);
        if (!ui->revising)
            hx_ui_revise(ui);
    } else {
        outdate_all(ui);
        if (!revising->later)
            say_revised(ui, revising);
        if (!ui->revising)
            hx_ui_revise(ui); /* the other one of two that are compared, or what is left of it */
    }
}

static void revising_destroy(struct hx_job *job)
{
    struct revising *revising = (struct revising *)job;
    hx_choice_deinit(&revising->choice);
    free(revising);
}

/* --- names that were left to later ---------------------------------------------------------- */

struct naming {
    struct hx_job job;
    struct hx_ui *ui; /* its graph is used on the lane, its options do not change */
    int64_t snapshot;
};

static hx_error *naming_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    const struct naming *naming = (const struct naming *)job;
    struct hx_ui *ui = naming->ui;
    const struct hx_apart apart = {leave_store, enter_store, ui->jobs};
    /* one graph at a time in memory, and this one is not the same afterwards */
    hx_snapshot_destroy(hx_steal(ui->graph));
    hx_backwards_destroy(hx_steal(ui->backwards));
    ui->graph_of = 0;
    return ui->options->name(ui->options->context, store, naming->snapshot, &apart, progress);
}

static void naming_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    const struct naming *naming = (const struct naming *)job;
    struct hx_revision *revision = revision_of(ui, naming->snapshot);
    const bool cancelled = error && error->kind == HX_E_CANCEL;
    ui->naming = false;
    if (revision)
        revision->unnamed = cancelled && !job->by_user; /* put off */
    if (cancelled && job->by_user)
        hx_ui_say(ui, "snapshot %" PRId64 " stays without names; see: heapx symbolize",
                  naming->snapshot);
    if (cancelled) {
        hx_error_free(error);
    } else if (error) {
        hx_ui_complain(ui, error);
    } else {
        hx_ui_leave_roots(ui, naming->snapshot);
        outdate_all(ui);
    }
    hx_ui_revise(ui);
}

static void naming_destroy(struct hx_job *job)
{
    free(job);
}

void hx_ui_is_unnamed(struct hx_ui *ui, int64_t snapshot)
{
    struct hx_revision *revision = revision_of(ui, snapshot);
    if (revision && ui->options->name)
        revision->unnamed = true;
}

void hx_ui_put_off_names(struct hx_ui *ui)
{
    hx_jobs_supersede(ui->jobs, naming_run);
}

/* Starts on the newest that lacks its names: others look at it. True: one is under way. */
static bool name_one(struct hx_ui *ui)
{
    const struct hx_revision *revision = NULL;
    for (size_t i = 0; i < ui->revisions.n; i++)
        if (ui->revisions.v[i].unnamed &&
            (!revision || ui->revisions.v[i].snapshot > revision->snapshot))
            revision = &ui->revisions.v[i];
    struct naming *naming = revision && !ui->naming ? calloc(1, sizeof *naming) : NULL;
    if (!naming)
        return ui->naming;
    naming->job = (struct hx_job){.what = "names and types",
                                  .unasked = true,
                                  .lane = HX_LANE_WORK,
                                  .run = naming_run,
                                  .done = naming_done,
                                  .destroy = naming_destroy};
    naming->ui = ui;
    naming->snapshot = revision->snapshot;
    ui->naming = true;
    hx_jobs_start(ui->jobs, &naming->job);
    return true;
}

/* The row of a snapshot in ui->snapshots. */
static size_t row_of_snapshot(const struct hx_ui *ui, int64_t snapshot)
{
    size_t i = 0;
    while (i < ui->snapshots.n_rows && hx_table_int(&ui->snapshots, i, "snapshot", 0) != snapshot)
        i++;
    return i;
}

/* Is there something to work out of a snapshot? NULL: no. */
static const struct hx_revision *needed(struct hx_ui *ui, int64_t snapshot, unsigned *ret_parts)
{
    const struct hx_choice *choice = ui->choice;
    const size_t row = row_of_snapshot(ui, snapshot);
    bool known = false, later = hx_table_int(&ui->snapshots, row, "later", 0);
    for (size_t i = 0; i < ui->revisions.n; i++)
        known |= ui->revisions.v[i].snapshot == snapshot;
    if (!known && !later && !choice->retainers && !choice->bins && !choice->holds)
        return NULL; /* as it was stored */
    struct hx_revision *revision = revision_of(ui, snapshot);
    if (!revision || hx_table_int(&ui->snapshots, row, "heap_bytes", -1) < 0)
        return NULL;
    if (later && !revision->begun)
        revision->missing = revision->later = revision->begun = true;
    *ret_parts = revision->want;
    if (revision->retainers != choice->retainers) /* holders are told of as retainers are */
        *ret_parts |= HX_ANALYSE_RETAINERS | (choice->has_threads_as ? HX_ANALYSE_HOLDERS : 0);
    *ret_parts |= revision->bins != choice->bins ? HX_ANALYSE_BINS : 0;
    *ret_parts |= revision->holds != choice->holds ? HX_ANALYSE_ALL : 0;
    return *ret_parts || revision->missing ? revision : NULL;
}

void hx_ui_revise(struct hx_ui *ui)
{
    const struct hx_choice *choice = ui->choice;
    int64_t snapshot = ui->snapshot, other = ui->differences ? hx_ui_other(ui) : 0;
    unsigned parts = 0;
    if (name_one(ui))
        return; /* it comes back here */
    const struct hx_revision *revision = needed(ui, snapshot, &parts);
    if (!revision && other)
        revision = needed(ui, snapshot = other, &parts);
    for (size_t i = ui->snapshots.n_rows; i-- > 0 && !revision;)
        if (hx_table_int(&ui->snapshots, i, "later", 0))
            revision =
                needed(ui, snapshot = hx_table_int(&ui->snapshots, i, "snapshot", 0), &parts);
    if (!revision)
        return;
    struct revising *revising = calloc(1, sizeof *revising);
    hx_error *error = revising ? hx_choice_copy(choice, &revising->choice) : hx_error_nomem();
    if (error) {
        free(revising);
        hx_ui_complain(ui, error);
        return;
    }
    revising->job =
        (struct hx_job){.what = parts == HX_ANALYSE_BINS        ? "working out bins"
                                : parts == HX_ANALYSE_RETAINERS ? "working out retainer sets"
                                                                : "analysis",
                        .unasked = revision->later,
                        .lane = HX_LANE_WORK,
                        .began_ns = revision->began_ns,
                        .run = revising_run,
                        .done = revising_done,
                        .destroy = revising_destroy};
    revising->ui = ui;
    revising->snapshot = snapshot;
    revising->parts = parts;
    revising->lacking = revision->missing;
    revising->later = revision->later;
    revising->needs = hx_ui_pane(ui)->screen->needs;
    ui->revising++;
    hx_jobs_supersede(ui->jobs, revising_run);
    hx_jobs_start(ui->jobs, &revising->job);
}

/* --- commands --------------------------------------------------------------------------- */

static hx_error *need_heap(const struct hx_ui *ui)
{
    size_t row = hx_ui_snapshot_row(ui);
    if (row >= ui->snapshots.n_rows)
        return hx_error_new(HX_E_ABSENT, "snapshots", NULL, "there is none yet");
    if (hx_table_int(&ui->snapshots, row, "heap_bytes", -1) < 0)
        return hx_error_new(HX_E_ABSENT, "snapshot",
                            "its notes say why: `:screen snapshots`, then i",
                            "no heap was found in it: there is nothing to work out");
    if (hx_table_int(&ui->snapshots, row, "heap_objects", -1) < 0)
        return hx_error_new(HX_E_ABSENT, "snapshot", "its notes say what it is: :snapshots, then i",
                            "its profile has no objects: there is nothing to work out");
    return NULL;
}

/* Who allocated is known only when somebody recorded it. */
static hx_error *need_recording(const struct hx_ui *ui)
{
    if (hx_table_int(&ui->snapshots, hx_ui_snapshot_row(ui), "recorded", 0))
        return NULL;
    return hx_error_new(HX_E_ABSENT, "scheme site", "use heapx run or heapx record",
                        "nothing was recorded");
}

hx_error *hx_ui_analyse(struct hx_ui *ui, const char *word)
{
    const bool sure = strcmp(word, "sure") == 0;
    if (*word && !sure)
        return hx_error_new(HX_E_USAGE, word, "sure: what sure references retain, too",
                            "is no part of the analysis");
    HX_TRY(need_heap(ui));
    int64_t snapshot[] = {ui->snapshot, ui->differences ? hx_ui_other(ui) : 0};
    for (int i = 0; i < 2 && snapshot[i]; i++) {
        struct hx_revision *revision = revision_of(ui, snapshot[i]);
        HX_NEED(revision);
        revision->want |= revision->failed | (sure ? HX_ANALYSE_SURE : 0);
        revision->missing = true;
    }
    hx_ui_revise(ui);
    return NULL;
}

hx_error *hx_ui_choose_scheme(struct hx_ui *ui, const char *name)
{
    const struct hx_scheme *scheme = hx_scheme_find(name);
    if (!scheme) {
        struct hx_text todo = {0};
        hx_text_puts(&todo, "the schemes are: ");
        for (size_t i = 0; hx_schemes[i]; i++)
            hx_text_putf(&todo, "%s%s", i ? ", " : "", hx_schemes[i]->name);
        hx_error *error = hx_error_new(HX_E_USAGE, name, hx_text_str(&todo), "no such scheme");
        hx_text_free(&todo);
        return error;
    }
    HX_TRY(need_heap(ui));
    if (scheme == &hx_scheme_site)
        HX_TRY(need_recording(ui));
    ui->choice->scheme = scheme;
    ui->choice->retainers++;
    hx_ui_revise(ui);
    return NULL;
}

hx_error *hx_ui_choose_retainer(struct hx_ui *ui, const char *pattern)
{
    struct hx_choice *choice = ui->choice;
    HX_TRY(need_heap(ui));
    if (*pattern) {
        HX_TRY(hx_pattern_check(pattern));
        HX_TRY(add_pattern(choice, pattern));
    } else {
        forget_patterns(choice);
        choice->has_patterns = true;
    }
    choice->scheme = &hx_scheme_type; /* the only one that patterns mean anything to */
    choice->retainers++;
    hx_ui_revise(ui);
    return NULL;
}

hx_error *hx_ui_choose_max_set(struct hx_ui *ui, const char *number)
{
    uint64_t value = HX_SETS_AUTO;
    if (strcmp(number, "auto") != 0 && (!hx_parse_u64(number, &value) || value >= HX_SETS_AUTO))
        return hx_error_new(HX_E_USAGE, number, "for example `:max-set 16`; 0 is no limit",
                            "is no number of names");
    HX_TRY(need_heap(ui));
    ui->choice->has_max_set = true;
    ui->choice->max_set = (unsigned)value;
    ui->choice->retainers++;
    hx_ui_revise(ui);
    return NULL;
}

hx_error *hx_ui_choose_threads_as(struct hx_ui *ui, const char *word)
{
    enum hx_threads_as threads_as;
    if (!hx_threads_as_parse(word, &threads_as))
        return hx_error_new(HX_E_USAGE, word, "name, one or parts", "no such way to name threads");
    HX_TRY(need_heap(ui));
    ui->choice->has_threads_as = true;
    ui->choice->threads_as = threads_as;
    ui->choice->retainers++;
    hx_ui_revise(ui);
    return NULL;
}

hx_error *hx_ui_choose_holders(struct hx_ui *ui, const char *word)
{
    bool on = strcmp(word, "on") == 0;
    if (!on && strcmp(word, "off") != 0)
        return hx_error_new(HX_E_USAGE, word, "`:holders on` or `:holders off`",
                            "all references are looked at, or those of holders");
    HX_TRY(need_heap(ui));
    ui->choice->holders = on;
    ui->choice->has_holders = true;
    ui->choice->holds++;
    hx_ui_revise(ui);
    return NULL;
}

hx_error *hx_ui_choose_rules(struct hx_ui *ui, const char *names)
{
    struct hx_choice *choice = ui->choice;
    uint64_t off = 0, kept = UINT64_MAX; /* of none and of all of them */
    HX_TRY(need_heap(ui));
    HX_TRY(hx_rules_parse(names, &off));
    HX_TRY(hx_rules_parse(names, &kept));
    choice->rules_on = (choice->rules_on & ~off) | ~kept;
    choice->rules_off = (choice->rules_off & kept) | off;
    choice->holds++;
    hx_ui_revise(ui);
    return NULL;
}

hx_error *hx_ui_choose_root(struct hx_ui *ui, const char *naming)
{
    struct hx_choice *choice = ui->choice;
    HX_FREE char *name = NULL;
    const char *expr;
    HX_TRY(hx_naming_parse(naming, &name, &expr));
    HX_TRY(need_heap(ui));
    for (size_t i = 0; i < choice->edits.n; i++) {
        struct hx_naming_edit *edit = &choice->edits.v[i];
        if (!edit->expr || strcmp(edit->name, name) != 0)
            continue;
        char *copy = strdup(expr);
        HX_NEED(copy);
        free(edit->expr);
        edit->expr = copy;
        choice->bins++;
        hx_ui_revise(ui);
        return NULL;
    }
    HX_TRY(add_edit(choice, name, expr));
    choice->bins++;
    hx_ui_revise(ui);
    return NULL;
}

hx_error *hx_ui_choose_no_root(struct hx_ui *ui, const char *name)
{
    struct hx_choice *choice = ui->choice;
    HX_TRY(need_heap(ui));
    for (size_t i = 0; i < choice->edits.n;) {
        if (strcmp(choice->edits.v[i].name, name) != 0) {
            i++;
            continue;
        }
        free_edit(&choice->edits.v[i]);
        memmove(choice->edits.v + i, choice->edits.v + i + 1,
                (choice->edits.n - i - 1) * sizeof *choice->edits.v);
        choice->edits.n--;
    }
    HX_TRY(add_edit(choice, name, NULL));
    choice->bins++;
    hx_ui_revise(ui);
    return NULL;
}

hx_error *hx_ui_begin_choice(struct hx_ui *ui)
{
    const struct hx_ui_options *options = ui->options;
    const struct hx_analysis *analysis = options->analysis;
    struct hx_choice *choice = ui->choice;
    if (options->take)
        return NULL; /* who takes snapshots names their roots, and the first is there already */
    for (size_t i = 0; i < options->n_roots; i++) {
        HX_FREE char *name = NULL;
        const char *expr;
        HX_TRY(hx_naming_parse(options->root[i], &name, &expr));
        HX_TRY(add_edit(choice, name, expr));
        choice->instead = true;
        choice->bins = 1;
    }
    if (analysis && analysis->has_hold) {
        choice->holders = analysis->hold.holders;
        choice->has_holders = true;
        choice->rules_off = analysis->hold.off;
        choice->rules_on = ~analysis->hold.off;
        choice->holds = 1;
    }
    if (!analysis || !(analysis->scheme || analysis->has_max_set || analysis->has_threads_as))
        return NULL; /* nothing was asked for */
    choice->retainers = 1;
    choice->scheme = analysis->scheme;
    choice->has_max_set = analysis->has_max_set;
    choice->max_set = analysis->max_set;
    choice->has_threads_as = analysis->has_threads_as;
    choice->threads_as = analysis->options.threads_as;
    choice->has_patterns = analysis->scheme == &hx_scheme_type;
    for (size_t i = 0; i < analysis->options.n_patterns; i++)
        HX_TRY(add_pattern(choice, analysis->options.pattern[i]));
    return NULL;
}
