/* resolve.c - from an address that somebody typed to the object that contains it, from a set of
 * objects to its largest. */
#include "ui/app.h"
#include "ui/command/requests.h"
#include "ui/data/call_label.h"
#include "ui/job.h"
#include "ui/list/pane.h"
#include "layout/type_name.h"
#include "ui/ui_options.h"

#include <inttypes.h>
#include <string.h>

#define FIRST 1000 /* so many of the largest objects are looked at first */

/* What is looked for: an address, or the largest of a set. */
struct resolving {
    struct hx_job job;
    uint64_t address, object;
    int64_t snapshot;
    bool found;
    hx_error *(*open)(struct hx_ui *ui, uint64_t object);
    /* of an address: the root in which it lies, when it lies in one */
    int64_t root_id;
    char *root;
    /* of a set */
    bool is_set, fresh;   /* fresh: the other snapshot does not have it */
    struct hx_text where; /* which objects */
    struct hx_text facts; /* a statement that counts them */
    struct hx_text set;   /* what they are called */
    int64_t other, count; /* count -1: not known */
};

/* --- the largest of a set --- */

/* Of the `most` largest, where another snapshot is given the first that it does not have. */
static hx_error *first_address(hx_store *store, struct resolving *resolving,
                               enum hx_query_name query, int64_t most)
{
    HX_ROWS hx_rows *rows = NULL;
    HX_TRY(hx_query_named(store, query,
                          HX_QUERY_ARGS(.snapshot = resolving->snapshot, .other = resolving->other,
                                        .where = resolving->where.s, .limit = most),
                          &rows));
    HX_TRY(hx_rows_next(rows, &resolving->found));
    if (resolving->found)
        resolving->object = (uint64_t)hx_rows_value(rows, 0).i;
    return NULL;
}

/* Mostly one of the first ones is new; only else all are looked at. */
static hx_error *find_fresh(hx_store *store, struct resolving *resolving)
{
    HX_TRY(first_address(store, resolving, HX_QUERY_largest_new_object, FIRST));
    if (!resolving->found && (resolving->count < 0 || resolving->count > FIRST))
        HX_TRY(first_address(store, resolving, HX_QUERY_largest_new_object, -1));
    resolving->fresh = resolving->found;
    return NULL;
}

static hx_error *count_set(hx_store *store, struct resolving *resolving)
{
    HX_ROWS hx_rows *rows = NULL;
    bool more = false;
    HX_TRY(hx_query_sql(store, hx_text_str(&resolving->facts), &rows));
    HX_TRY(hx_rows_next(rows, &more));
    if (more && hx_rows_value(rows, 0).type == HX_VALUE_INT)
        resolving->count = hx_rows_value(rows, 0).i;
    return NULL;
}

static hx_error *largest_run(struct hx_job *job, hx_store *store,
                             const struct hx_progress *progress)
{
    struct resolving *resolving = (struct resolving *)job;
    (void)progress;
    HX_TRY(count_set(store, resolving));
    if (resolving->other)
        HX_TRY(find_fresh(store, resolving));
    return resolving->found ? NULL : first_address(store, resolving, HX_QUERY_largest_object, 1);
}

static void put_type_name(struct hx_text *text, const char *name, bool calls, bool ascii)
{
    struct hx_text brief = {0};
    if (calls)
        hx_text_calls(&brief, name ? name : "");
    else
        hx_text_type(&brief, name ? name : "");
    hx_text_escape(text, hx_text_str(&brief), brief.n, ascii);
    text->failed |= brief.failed;
    hx_text_free(&brief);
}

/* "of type block" */
static void put_set(struct hx_text *text, const struct hx_of *of, bool ascii)
{
    static const struct {
        const char *what;
        bool calls;
    } words[] = {
        [HX_SUBSET_SET] = {" retained by ", false}, [HX_SUBSET_BIN] = {" of bin ", false},
        [HX_SUBSET_TYPE] = {" of type ", false},    [HX_SUBSET_SITE] = {" allocated by ", true},
        [HX_SUBSET_CCS] = {" allocated by ", true}, [HX_SUBSET_BELOW] = {" allocated below ", true},
        [HX_SUBSET_STATE] = {" that are ", false},  [HX_SUBSET_MODULE] = {" allocated by ", false},
        [HX_SUBSET_DOMINATED] = {NULL, false},      [HX_SUBSET_NONE] = {NULL, false},
    };
    if (!words[of->subset].what && of->subset != HX_SUBSET_LEAK && of->subset != HX_SUBSET_KEY)
        return;
    if (of->subset == HX_SUBSET_LEAK) {
        hx_text_puts(text, " that are ");
        put_type_name(text, of->text, false, ascii);
        if (of->more) {
            hx_text_puts(text, ", of type ");
            put_type_name(text, of->more, false, ascii);
        }
    } else if (of->subset == HX_SUBSET_TYPE && !of->text) {
        hx_text_puts(text, " of unknown type");
    } else if (of->subset == HX_SUBSET_KEY) {
        hx_text_puts(text, hx_stored_censuses[of->id].of);
        put_type_name(text, of->text, false, ascii);
    } else {
        hx_text_puts(text, words[of->subset].what);
        put_type_name(text, of->text, words[of->subset].calls, ascii);
    }
}

/* "The largest that is new since snapshot 3, of 1,234 objects of type block" */
static char *chosen_text(const struct resolving *resolving)
{
    struct hx_text text = {0};
    if (resolving->fresh)
        hx_text_putf(&text, "The largest that is new since snapshot %" PRId64 ", of ",
                     resolving->other);
    else if (resolving->other)
        hx_text_putf(&text, "The largest, as none is new since snapshot %" PRId64 ", of ",
                     resolving->other);
    else
        hx_text_puts(&text, resolving->count == 1 ? "The only one of " : "The largest of ");
    if (resolving->count >= 0) {
        hx_text_count(&text, resolving->count);
        hx_text_puts(&text, resolving->count == 1 ? " object" : " objects");
    } else {
        hx_text_puts(&text, "the objects");
    }
    hx_text_puts(&text, hx_text_str(&resolving->set));
    if (text.failed)
        hx_text_free(&text);
    return text.s;
}

/* --- an address --- */

/* A root that has a place there: named ones may lie over others, and say less. */
static hx_error *find_root(hx_store *store, struct resolving *resolving)
{
    HX_ROWS hx_rows *rows = NULL;
    HX_TRY(hx_query_named(
        store, HX_QUERY_root_at,
        HX_QUERY_ARGS(.snapshot = resolving->snapshot, .address = resolving->address), &rows));
    bool more = false;
    HX_TRY(hx_rows_next(rows, &more));
    if (!more)
        return NULL;
    struct hx_value name = hx_rows_value(rows, 1);
    resolving->root_id = hx_rows_value(rows, 0).i;
    resolving->root = strdup(name.type == HX_VALUE_TEXT ? name.text : "");
    return resolving->root ? NULL : hx_error_nomem();
}

static hx_error *resolving_run(struct hx_job *job, hx_store *store,
                               const struct hx_progress *progress)
{
    struct resolving *resolving = (struct resolving *)job;
    (void)progress;
    HX_ROWS hx_rows *rows = NULL;
    HX_TRY(hx_query_named(
        store, HX_QUERY_object_at,
        HX_QUERY_ARGS(.snapshot = resolving->snapshot, .address = resolving->address), &rows));
    bool more = false;
    HX_TRY(hx_rows_next(rows, &more));
    if (more) {
        resolving->object = (uint64_t)hx_rows_value(rows, 0).i;
        uint64_t bytes = (uint64_t)hx_rows_value(rows, 1).i;
        /* An empty object still has its address. */
        resolving->found = resolving->address == resolving->object ||
                           resolving->address - resolving->object < bytes;
    }
    return resolving->found ? NULL : find_root(store, resolving);
}

/* Somewhere else than in an object: the root there is opened where an object would be. */
static hx_error *no_object_there(struct resolving *resolving, struct hx_ui *ui)
{
    char what[32];
    snprintf(what, sizeof what, "0x%" PRIx64, resolving->address);
    if (resolving->root && resolving->open == hx_ui_open_object) {
        HX_TRY(hx_ui_open_text(ui, &hx_screen_root, resolving->root, resolving->root_id));
        hx_ui_say(ui, "%s lies in this root, in no object", what);
        return NULL;
    }
    return resolving->root
               ? hx_error_new(HX_E_ABSENT, what, "`:goto` opens it",
                              "lies in the root '%s', in no object", resolving->root)
               : hx_error_new(HX_E_ABSENT, what, NULL, "lies in no object of snapshot %" PRId64,
                              resolving->snapshot);
}

static hx_error *open_found(struct resolving *resolving, struct hx_ui *ui)
{
    const struct hx_pane *before = hx_ui_pane(ui);
    HX_TRY(resolving->open(ui, resolving->object));
    struct hx_pane *pane = hx_ui_pane(ui);
    if (resolving->is_set && pane != before) {
        pane->chosen = chosen_text(resolving);
        return pane->chosen ? NULL : hx_error_nomem();
    }
    uint64_t offset = resolving->is_set ? 0 : resolving->address - resolving->object;
    if (resolving->open == hx_ui_open_hex && ui->options->read && offset / 8 < INT64_MAX)
        pane->cursor = (int64_t)(offset / 8);
    if (offset)
        hx_ui_say(ui, "0x%" PRIx64 " is byte +%" PRIu64 " of this object", resolving->address,
                  offset);
    return NULL;
}

static void resolving_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct resolving *resolving = (struct resolving *)job;
    if (!error && resolving->found)
        error = open_found(resolving, ui);
    else if (!error && resolving->is_set)
        error = hx_error_new(HX_E_ABSENT, "this row", NULL,
                             "stands for no object of snapshot %" PRId64, resolving->snapshot);
    else if (!error)
        error = no_object_there(resolving, ui);
    hx_ui_complain(ui, error);
}

static void resolving_destroy(struct hx_job *job)
{
    struct resolving *resolving = (struct resolving *)job;
    hx_text_free(&resolving->where);
    hx_text_free(&resolving->facts);
    hx_text_free(&resolving->set);
    free(resolving->root);
    free(resolving);
}

static hx_error *start_resolving(struct hx_ui *ui, struct resolving *resolving)
{
    resolving->job.what = "looking for the object";
    resolving->job.leads = HX_WAITS_ROW;
    resolving->job.lane = HX_LANE_READ;
    resolving->job.done = resolving_done;
    resolving->job.destroy = resolving_destroy;
    if (resolving->where.failed || resolving->facts.failed || resolving->set.failed) {
        resolving_destroy(&resolving->job);
        return hx_error_nomem();
    }
    hx_jobs_start(ui->jobs, &resolving->job);
    return NULL;
}

hx_error *hx_ui_resolve(struct hx_ui *ui, uint64_t address,
                        hx_error *(*open)(struct hx_ui *ui, uint64_t object))
{
    if (!ui->snapshot)
        return hx_error_new(HX_E_ABSENT, "snapshots", NULL, "there is none yet");
    struct resolving *resolving = calloc(1, sizeof *resolving);
    HX_NEED(resolving);
    resolving->job.run = resolving_run;
    resolving->snapshot = ui->snapshot;
    resolving->address = address;
    resolving->open = open;
    return start_resolving(ui, resolving);
}

hx_error *hx_ui_largest(struct hx_ui *ui, const struct hx_of *of, int64_t other,
                        hx_error *(*open)(struct hx_ui *ui, uint64_t object))
{
    struct resolving *resolving = calloc(1, sizeof *resolving);
    HX_NEED(resolving);
    resolving->is_set = true;
    resolving->snapshot = ui->snapshot;
    resolving->count = -1;
    hx_of_where(of, &resolving->where);
    hx_of_facts(of, ui->snapshot, &resolving->facts);
    put_set(&resolving->set, of, !ui->term.utf8);
    resolving->job.run = largest_run;
    resolving->other = other;
    resolving->open = open;
    return start_resolving(ui, resolving);
}
