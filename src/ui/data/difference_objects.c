/* difference_objects.c - which objects appeared and which are gone between two snapshots.
 *
 * Both lists of objects are read by address, some at a time, so that other lists are loaded in
 * between, and merged as they come: memory holds a batch of each and the largest of what differs.
 * What makes two objects the same one is what traverse/diff.h says.
 */
#include "ui/data/difference.h"

#include "base/index.h"
#include "ui/app.h"

#include "store/write/frames.h"
#include "traverse/diff.h"
#include "ui/job.h"
#include "ui/list/pane.h"

#include <inttypes.h>
#include <string.h>

#define BATCH     65536   /* objects of a side that are read at once */
#define LISTED    5000    /* so many of those that differ are kept */
#define NAMES_MAX 1000000 /* different types; further ones are not told apart */

enum { THEN, NOW, SIDES };
enum { ADDRESS, BYTES, TYPE, STATUS, STATE, COLUMNS };
static const char *const names[] = {"address", "bytes", "type", "status", "state", NULL};
static const struct hx_filter_column filter_columns[COLUMNS] = {
    {NULL, "address", HX_FILTER_NUMBER, ADDRESS}, {NULL, "bytes", HX_FILTER_NUMBER, BYTES},
    {NULL, "type", HX_FILTER_TEXT, TYPE},         {NULL, "status", HX_FILTER_TEXT, STATUS},
    {NULL, "state", HX_FILTER_TEXT, STATE},
};

struct object {
    int64_t address, bytes, stack; /* stack 0: none */
    uint32_t type, state;          /* numbers of words; 0: not known */
    uint8_t status;                /* enum hx_diff */
};

/* Texts by number, from 1. */
struct words {
    HX_VEC(char *) text;
    struct hx_index index;
    uint32_t latest[2]; /* neighbours are often alike */
};

struct side {
    int64_t snapshot, last; /* the address behind which the next batch begins */
    struct object *object;  /* BATCH */
    size_t n, at;
    bool ended;
};

/* What is found so far; one job hands it to the next. */
struct merge {
    uint64_t pane, want;
    struct hx_text where; /* which objects; empty: all */
    hx_filter *filter;    /* NULL: none */
    struct side side[SIDES];
    struct words words;
    HX_VEC(struct object) kept;  /* a heap, the smallest on top */
    uint64_t count[3], matching; /* by enum hx_diff */
    int64_t bytes[3];
    uint64_t seen, total, began_ns;
};

struct comparing {
    struct hx_job job;
    struct merge *merge; /* owned */
};

static void destroy_merge(struct merge *merge)
{
    if (!merge)
        return;
    hx_text_free(&merge->where);
    hx_filter_destroy(merge->filter);
    for (int i = 0; i < SIDES; i++)
        free(merge->side[i].object);
    for (size_t i = 0; i < merge->words.text.n; i++)
        free(merge->words.text.v[i]);
    hx_vec_free(&merge->words.text);
    hx_index_free(&merge->words.index);
    hx_vec_free(&merge->kept);
    free(merge);
}

/* --- words --- */

/* The number of a text; `use`: which of the latest to try first. */
static hx_error *intern_value(struct words *words, struct hx_value value, int use, uint32_t *ret)
{
    uint32_t latest = words->latest[use];
    *ret = 0;
    if (value.type != HX_VALUE_TEXT)
        return NULL;
    if (latest && strcmp(words->text.v[latest - 1], value.text) == 0) {
        *ret = latest;
        return NULL;
    }
    uint64_t hash = hx_hash_bytes(value.text, strlen(value.text));
    uint32_t number = 0;
    for (uint32_t at = 0, i; !number && hx_index_next(&words->index, hash, &at, &i);)
        number = strcmp(words->text.v[i], value.text) == 0 ? i + 1 : 0;
    if (!number && words->text.n < NAMES_MAX) {
        char *copy = strdup(value.text);
        if (!copy || !hx_vec_push(&words->text, copy)) {
            free(copy);
            return hx_error_nomem();
        }
        number = (uint32_t)words->text.n;
        HX_TRY(hx_index_add(&words->index, hash, number - 1));
    }
    *ret = words->latest[use] = number;
    return NULL;
}

static const char *word(const struct words *words, uint32_t number)
{
    return number ? words->text.v[number - 1] : NULL;
}

/* --- the merge, on the lane's thread --- */

static hx_error *read_batch(struct merge *merge, struct side *side, hx_store *store)
{
    HX_ROWS hx_rows *rows = NULL;
    HX_TRY(hx_query_named(store, HX_QUERY_objects_behind,
                          HX_QUERY_ARGS(.snapshot = side->snapshot, .address = (uint64_t)side->last,
                                        .where = merge->where.s, .limit = BATCH),
                          &rows));
    side->n = side->at = 0;
    for (bool more = true; side->n < BATCH;) {
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            break;
        struct object *object = &side->object[side->n++];
        *object = (struct object){.address = hx_rows_value(rows, 0).i,
                                  .bytes = hx_rows_value(rows, 1).i,
                                  .stack = hx_rows_value(rows, 4).i};
        HX_TRY(intern_value(&merge->words, hx_rows_value(rows, 2), 0, &object->type));
        HX_TRY(intern_value(&merge->words, hx_rows_value(rows, 3), 1, &object->state));
        side->last = object->address;
    }
    side->ended = side->n < BATCH;
    merge->seen += side->n;
    return NULL;
}

/* Both know it, and it is not the same. What was not seen allocated may be the same as what was:
 * but not when it was there before a recorder came that has seen the other one. */
static bool is_same_object(const struct object *then, const struct object *now)
{
    bool unseen = then->stack == HX_CCS_UNKNOWN || now->stack == HX_CCS_UNKNOWN ||
                  now->stack == HX_CCS_BEFORE;
    return then->bytes == now->bytes && (!then->type || !now->type || then->type == now->type) &&
           (!then->stack || !now->stack || unseen || then->stack == now->stack);
}

struct filtered {
    const struct merge *merge;
    const struct object *object;
};

static struct hx_filter_value text_value(const char *text)
{
    return text
               ? (struct hx_filter_value){.type = HX_FILTER_STRING, .text = text, .n = strlen(text)}
               : (struct hx_filter_value){.type = HX_FILTER_NULL};
}

static struct hx_filter_value object_operand(void *context, size_t id)
{
    const struct filtered *filtered = context;
    const struct object *object = filtered->object;
    switch (id) {
    case ADDRESS:
        return (struct hx_filter_value){.type = HX_FILTER_INT, .i = object->address};
    case BYTES:
        return (struct hx_filter_value){.type = HX_FILTER_INT, .i = object->bytes};
    case TYPE:
        return text_value(word(&filtered->merge->words, object->type));
    case STATUS:
        return text_value(hx_diff_name((enum hx_diff)object->status));
    default:
        return text_value(word(&filtered->merge->words, object->state));
    }
}

/* Of two objects the smaller one, else the one that comes later. */
static bool is_less(const struct object *a, const struct object *b)
{
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->address > b->address;
}

/* The heap's place `at` is not in order with those below it. */
static void sink(struct merge *merge, size_t at)
{
    struct object *v = merge->kept.v;
    for (;;) {
        size_t least = at;
        for (size_t below = 2 * at + 1; below <= 2 * at + 2 && below < merge->kept.n; below++)
            if (is_less(&v[below], &v[least]))
                least = below;
        if (least == at)
            return;
        struct object object = v[at];
        v[at] = v[least];
        v[least] = object;
        at = least;
    }
}

static hx_error *keep_object(struct merge *merge, const struct object *object)
{
    struct filtered filtered = {merge, object};
    if (merge->filter && !hx_filter_holds(merge->filter, object_operand, &filtered))
        return NULL;
    merge->matching++;
    if (merge->kept.n == LISTED) {
        if (!is_less(merge->kept.v, object))
            return NULL;
        merge->kept.v[0] = *object;
        sink(merge, 0);
        return NULL;
    }
    HX_NEED(hx_vec_push(&merge->kept, *object));
    for (size_t i = merge->kept.n == LISTED ? LISTED / 2 : 0; i-- > 0;)
        sink(merge, i); /* it is full now, and becomes a heap */
    return NULL;
}

static hx_error *merge_object(struct merge *merge, struct side *side, enum hx_diff status)
{
    struct object *object = &side->object[side->at++];
    object->status = (uint8_t)status;
    merge->count[status]++;
    if (__builtin_add_overflow(merge->bytes[status], object->bytes, &merge->bytes[status]))
        merge->bytes[status] = INT64_MAX;
    return status == HX_DIFF_SAME ? NULL : keep_object(merge, object);
}

/* Goes on until one side has to be read on. */
static hx_error *merge_batches(struct merge *merge)
{
    struct side *then = &merge->side[THEN], *now = &merge->side[NOW];
    for (;;) {
        bool left = then->at < then->n, right = now->at < now->n;
        if ((!left && !then->ended) || (!right && !now->ended) || (!left && !right))
            return NULL;
        const struct object *a = &then->object[then->at], *b = &now->object[now->at];
        if (left && right && a->address == b->address && is_same_object(a, b)) {
            then->at++;
            HX_TRY(merge_object(merge, now, HX_DIFF_SAME));
        } else if (left && (!right || a->address <= b->address)) {
            HX_TRY(merge_object(merge, then, HX_DIFF_GONE));
        } else {
            HX_TRY(merge_object(merge, now, HX_DIFF_APPEARED));
        }
    }
}

static bool has_ended(const struct merge *merge)
{
    for (int i = 0; i < SIDES; i++)
        if (!merge->side[i].ended || merge->side[i].at < merge->side[i].n)
            return false;
    return true;
}

static hx_error *comparing_run(struct hx_job *job, hx_store *store,
                               const struct hx_progress *progress)
{
    struct merge *merge = ((struct comparing *)job)->merge;
    hx_progress_at(progress, "comparing objects", merge->seen, merge->total);
    for (int i = 0; i < SIDES; i++) {
        struct side *side = &merge->side[i];
        if (!side->object)
            HX_NEED(side->object = calloc(BATCH, sizeof *side->object));
        if (side->at == side->n && !side->ended)
            HX_TRY(read_batch(merge, side, store));
    }
    return merge_batches(merge);
}

/* --- the list, on the screen's thread --- */

static int larger_object_first(const void *a, const void *b)
{
    return is_less(a, b) - is_less(b, a);
}

static hx_error *make_rows(struct merge *merge, struct hx_table *ret)
{
    if (merge->kept.n)
        qsort(merge->kept.v, merge->kept.n, sizeof *merge->kept.v, larger_object_first);
    HX_TRY(hx_table_begin(ret, names));
    for (size_t i = 0; i < merge->kept.n; i++) {
        const struct object *object = &merge->kept.v[i];
        const char *text[COLUMNS] = {[TYPE] = word(&merge->words, object->type),
                                     [STATUS] = hx_diff_name((enum hx_diff)object->status),
                                     [STATE] = word(&merge->words, object->state)};
        struct hx_cell *cell;
        HX_TRY(hx_table_add(ret, &cell));
        hx_cell_set_int(&cell[ADDRESS], object->address);
        hx_cell_set_int(&cell[BYTES], object->bytes);
        for (int k = TYPE; k < COLUMNS; k++)
            if (text[k])
                HX_TRY(hx_cell_set_text(&cell[k], text[k], strlen(text[k])));
    }
    return NULL;
}

static hx_error *make_facts(const struct merge *merge, struct hx_table *ret)
{
    static const char *const facts[] = {"snapshot_a",     "snapshot_b", "appeared",
                                        "appeared_bytes", "gone",       "gone_bytes",
                                        "same",           "matching",   NULL};
    const int64_t value[] = {merge->side[THEN].snapshot,
                             merge->side[NOW].snapshot,
                             (int64_t)merge->count[HX_DIFF_APPEARED],
                             merge->bytes[HX_DIFF_APPEARED],
                             (int64_t)merge->count[HX_DIFF_GONE],
                             merge->bytes[HX_DIFF_GONE],
                             (int64_t)merge->count[HX_DIFF_SAME],
                             (int64_t)merge->matching};
    struct hx_cell *cell;
    HX_TRY(hx_table_begin(ret, facts));
    HX_TRY(hx_table_add(ret, &cell));
    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        hx_cell_set_int(&cell[i], value[i]);
    return NULL;
}

static hx_error *start_merge(struct hx_ui *ui, struct merge *merge);

/* The row with that key goes under the cursor, at its height on the screen. */
static void go_back_to(struct hx_pane *pane, const char *key)
{
    for (size_t i = 0; i < pane->rows.n_rows; i++) {
        struct hx_text other = {0};
        hx_pane_key(pane->keys, &pane->rows, i, &other);
        bool found = strcmp(hx_text_str(&other), key) == 0;
        hx_text_free(&other);
        if (found) {
            pane->top += (int64_t)i - pane->cursor;
            hx_pane_go(pane, (int64_t)i);
            return;
        }
    }
}

static hx_error *show_difference(struct hx_pane *pane, struct merge *merge)
{
    struct hx_table rows = {0}, facts = {0};
    struct hx_text key = {0};
    size_t row;
    hx_error *error = make_rows(merge, &rows);
    if (!error)
        error = make_facts(merge, &facts);
    if (error) {
        hx_table_deinit(&rows);
        hx_table_deinit(&facts);
        return error;
    }
    if (hx_pane_row(pane, &row))
        hx_pane_key(pane->keys, &pane->rows, row, &key);
    hx_table_deinit(&pane->facts);
    pane->facts = facts;
    hx_pane_set_rows(pane, &rows);
    if (key.n)
        go_back_to(pane, hx_text_str(&key));
    hx_text_free(&key);
    return NULL;
}

/* Why there is no list. */
static void fail_difference(struct hx_ui *ui, struct hx_pane *pane, hx_error *error)
{
    bool cancelled = error->kind == HX_E_CANCEL;
    hx_pane_problem(pane, error, "Cancelled. Ctrl-L compares again.");
    pane->loaded = true;
    pane->stale = false;
    if (cancelled)
        hx_error_free(error);
    else
        hx_ui_complain(ui, error);
}

static void comparing_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct comparing *comparing = (struct comparing *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, comparing->merge->pane);
    if (!pane || pane->want != comparing->merge->want) {
        hx_error_free(error); /* nobody waits for it any more */
        return;
    }
    if (!error && job->by_user)
        error = hx_error_cancelled("comparison"); /* between two batches */
    if (!error && !has_ended(comparing->merge)) {
        if (pane == hx_ui_pane(ui)) {
            error = start_merge(ui, hx_steal(comparing->merge));
            if (!error)
                return;
        } else { /* somebody looks at another list: it begins anew afterwards */
            pane->loading = false;
            pane->stale = true;
            return;
        }
    }
    pane->loading = false;
    if (!error)
        error = show_difference(pane, comparing->merge);
    if (error)
        fail_difference(ui, pane, error);
}

static void comparing_destroy(struct hx_job *job)
{
    struct comparing *comparing = (struct comparing *)job;
    destroy_merge(comparing->merge);
    free(comparing);
}

/* Takes the merge over. */
static hx_error *start_merge(struct hx_ui *ui, struct merge *merge)
{
    struct comparing *comparing = calloc(1, sizeof *comparing);
    if (!comparing) {
        destroy_merge(merge);
        return hx_error_nomem();
    }
    comparing->job = (struct hx_job){.what = "comparing objects",
                                     .began_ns = merge->began_ns,
                                     .lane = HX_LANE_READ,
                                     .run = comparing_run,
                                     .done = comparing_done,
                                     .destroy = comparing_destroy};
    comparing->merge = merge;
    hx_jobs_start(ui->jobs, &comparing->job);
    return NULL;
}

static uint64_t objects_of(const struct hx_ui *ui, int64_t snapshot)
{
    for (size_t i = 0; i < ui->snapshots.n_rows; i++)
        if (hx_table_int(&ui->snapshots, i, "snapshot", 0) == snapshot)
            return (uint64_t)hx_table_int(&ui->snapshots, i, "heap_objects", 0);
    return 0;
}

hx_error *hx_difference_objects_fill(struct hx_ui *ui, struct hx_pane *pane)
{
    const struct hx_filter_schema schema = {filter_columns, COLUMNS, NULL};
    struct merge *merge = calloc(1, sizeof *merge);
    HX_NEED(merge);
    struct hx_of of = hx_pane_of(pane);
    hx_of_where(&of, &merge->where);
    merge->pane = pane->serial;
    merge->began_ns = hx_now_ns();
    merge->want = ++pane->want;
    merge->side[THEN].snapshot = pane->other;
    merge->side[NOW].snapshot = pane->snapshot;
    merge->total = objects_of(ui, pane->other) + objects_of(ui, pane->snapshot);
    if (merge->where.n)
        merge->total = 0; /* how many they are is not known */
    merge->side[THEN].last = merge->side[NOW].last = -1;
    hx_error *error = merge->where.failed ? hx_error_nomem() : NULL;
    if (!error && pane->filter)
        error = hx_filter_parse(pane->filter, &schema, NULL, &merge->filter);
    if (error) {
        destroy_merge(merge);
        return error;
    }
    pane->loading = true;
    free(hx_steal(pane->problem));
    error = start_merge(ui, merge);
    pane->loading = !error;
    return error;
}

/* "1,234 appeared (12.3M), 21 gone (1.1K), 9,876 the same" */
void hx_difference_objects_head(const struct hx_pane *pane, struct hx_text *ret)
{
    static const char *const states[][3] = {{"appeared", "appeared_bytes", " appeared ("},
                                            {"gone", "gone_bytes", " gone ("}};
    const struct hx_table *facts = &pane->facts;
    char size[HX_HUMAN];
    hx_text_putf(ret, ", %" PRId64 " against %" PRId64,
                 hx_table_int(facts, 0, "snapshot_b", pane->snapshot),
                 hx_table_int(facts, 0, "snapshot_a", pane->other));
    if (!facts->n_rows || !pane->loaded)
        return;
    hx_text_putc(ret, '\n');
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        hx_text_count(ret, hx_table_int(facts, 0, states[i][0], 0));
        hx_text_puts(ret, states[i][2]);
        uint64_t bytes = (uint64_t)hx_table_int(facts, 0, states[i][1], 0);
        hx_text_putf(ret, "%s), ", hx_human_bytes(bytes, size));
    }
    hx_text_count(ret, hx_table_int(facts, 0, "same", 0));
    hx_text_puts(ret, " the same");
    if (hx_table_int(facts, 0, "matching", 0) > LISTED) {
        hx_text_puts(ret, "\nthe largest ");
        hx_text_count(ret, LISTED);
        hx_text_putf(ret,
                     " are listed; `heapx diff FILE:%" PRId64 " FILE:%" PRId64 " objects` has all",
                     pane->other, pane->snapshot);
    }
}
