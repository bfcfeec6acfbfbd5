/* analyse.c - the parts of an analysis: retainer sets and bins here, what is retained in
 * retained.c. */
#include "store/write/analyse.h"

#include "base/cleanup.h"
#include "base/pairs.h"
#include "base/timing.h"
#include "store/db.h"
#include "store/objects/classes.h"
#include "store/objects/overlay.h"
#include "store/write/alike.h"
#include "store/write/holdings.h"
#include "store/write/sets.h"
#include "store/write/trees.h"
#include "traverse/hold/rounds.h"
#include "traverse/retain/bins.h"
#include "traverse/retain/entries.h"

#include <stdlib.h>

#define CHECK_MASK 0x3fff

bool hx_can_analyse(const struct hx_snapshot *snapshot)
{
    const struct hx_graph *graph = &snapshot->graph;
    return !snapshot->no_heap && (!graph->n || (graph->state && graph->fwd));
}

/* --- what the parts share ---------------------------------------------------------- */

hx_error *hx_analyse_read_back(struct hx_writer *w, const struct hx_object_block *block,
                               enum hx_column_id column)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    size_t n = block->to - block->from;
    HX_FREE uint16_t *place = NULL;
    HX_TRY(hx_overlay_column(w->db, w->what, &st));
    sqlite3_bind_int64(st, 1, block->id * HX_COLUMN_SLOTS + column);
    int code = sqlite3_step(st);
    if (code != SQLITE_ROW)
        return hx_db_error(w->db, code, w->what);
    if (sqlite3_column_type(st, 0) == SQLITE_NULL)
        return hx_error_new(HX_E_FAIL, w->what, NULL, "a column is gone that was just written");
    const void *blob = sqlite3_column_blob(st, 0);
    size_t bytes = (size_t)sqlite3_column_bytes(st, 0);
    if (hx_column_is_placed(blob, bytes)) {
        HX_NEED(place = malloc(n * sizeof *place));
        HX_TRY(hx_classes_place(w->class + block->from, n, place));
    }
    return hx_column_decode(w->codec, blob, bytes, place, w->value, n);
}

/* By the columns as they are stored: of a damaged file the graph may say something else. */
static hx_error *classify_stored(struct hx_writer *w)
{
    HX_TRY(hx_big_array(w->class, w->graph->n));
    for (size_t b = 0; b < w->objects.n; b++) {
        const struct hx_object_block *block = &w->objects.v[b];
        uint16_t *class = w->class + block->from;
        size_t n = block->to - block->from;
        HX_TRY(hx_analyse_read_back(w, block, HX_COL_SIZE));
        for (size_t i = 0; i < n; i++)
            class[i] = hx_class_of_size(w->value[i]);
        HX_TRY(hx_analyse_read_back(w, block, HX_COL_IN));
        for (size_t i = 0; i < n; i++)
            class[i] += hx_class_of_in(w->value[i]);
        HX_TRY(hx_analyse_read_back(w, block, HX_COL_OUT));
        for (size_t i = 0; i < n; i++)
            class[i] += hx_class_of_out(w->value[i]);
    }
    return NULL;
}

/* Objects lie where they lay when they were stored, also for who lays something over that. */
static hx_error *find_objects(struct hx_writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "SELECT id, first_row, n FROM main.hx_block"
                         " WHERE snapshot = ? AND family = ? ORDER BY first_row",
                         &st));
    sqlite3_bind_int64(st, 1, w->id);
    sqlite3_bind_int(st, 2, HX_FAMILY_OBJECT);
    uint64_t rows = 0;
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(st, 0), n = sqlite3_column_int64(st, 2);
        if (!hx_block_id_is_sane(id) || (uint64_t)sqlite3_column_int64(st, 1) != rows || n < 1 ||
            n > HX_BLOCK_ROWS)
            return hx_error_new(HX_E_CORRUPT, w->what, "take it from a backup or make it again",
                                "the store is damaged (a block is missing)");
        struct hx_object_block block = {id, rows, rows + (uint64_t)n};
        HX_NEED(hx_vec_push(&w->objects, block));
        rows = block.to;
    }
    if (code != SQLITE_DONE)
        return hx_db_error(w->db, code, w->what);
    return rows == w->graph->n
               ? NULL
               : hx_error_new(HX_E_FAIL, w->what, NULL,
                              "snapshot %lld has other objects than those to analyse",
                              (long long)w->id);
}

/* A column of all objects. */
struct analysed_column {
    struct hx_writer *w;
    enum hx_column_id id;
    hx_gather_fn *gather;
    hx_gather_fn *ordered; /* what lists order by; NULL: the same */
    const void *context;
    hx_ends *ends;
};

/* The values that lists order by. */
static void offer_ordered(const struct analysed_column *column, uint64_t from, uint64_t to)
{
    uint64_t value[1024];
    for (uint64_t part; from < to; from += part) {
        part = to - from < 1024 ? to - from : 1024;
        column->ordered(column->context, from, from + part, value);
        hx_ends_take(column->ends, from, value, part);
    }
}

static size_t gather_block(const void *context, size_t i, uint64_t *value)
{
    const struct analysed_column *column = context;
    const struct hx_object_block *block = &column->w->objects.v[i];
    column->gather(column->context, block->from, block->to, value);
    if (column->ends && column->ordered)
        offer_ordered(column, block->from, block->to);
    else if (column->ends)
        hx_ends_take(column->ends, block->from, value, block->to - block->from);
    return block->to - block->from;
}

static hx_error *put_block_column(void *sink, size_t i, const void *blob, size_t bytes)
{
    const struct analysed_column *column = sink;
    struct hx_writer *w = column->w;
    const struct hx_object_block *block = &w->objects.v[i];
    hx_progress_at(w->progress, "storing", block->to, w->graph->n);
    if (hx_progress_cancelled(w->progress))
        return hx_error_cancelled(w->what);
    return hx_alike_put(w, block->id, column->id, blob, bytes);
}

static void classify_block(const void *context, size_t i, uint16_t *class)
{
    const struct hx_writer *w = ((const struct analysed_column *)context)->w;
    const struct hx_object_block *block = &w->objects.v[i];
    memcpy(class, w->class + block->from, (block->to - block->from) * sizeof *class);
}

hx_error *hx_analyse_ordered(struct hx_writer *w, enum hx_column_id id, hx_gather_fn *gather,
                             hx_gather_fn *ordered, const void *context)
{
    struct analysed_column column = {w, id, gather, ordered, context, NULL};
    struct hx_encode encode = {.pieces = w->objects.n,
                               .context = &column,
                               .gather = gather_block,
                               .columns = 1,
                               .classify = classify_block,
                               .put = put_block_column,
                               .sink = &column};
    HX_TRY(hx_writer_ends_begin(w, id, &column.ends));
    hx_error *err = hx_encode(w->encoder, &encode, w->graph->n);
    if (!err && column.ends)
        err = hx_writer_ends_put(w, w->objects.v[0].id, id, column.ends);
    hx_ends_destroy(column.ends);
    return err;
}

hx_error *hx_analyse_column(struct hx_writer *w, enum hx_column_id id, hx_gather_fn *gather,
                            const void *context)
{
    return hx_analyse_ordered(w, id, gather, NULL, context);
}

hx_error *hx_analyse_roots(struct hx_writer *w, const struct hx_analysis *analysis)
{
    if (w->has_roots)
        return NULL;
    HX_TRY(hx_scheme_apply(&hx_scheme_root, w->snapshot, &analysis->options, &w->roots));
    w->roots.rule.threads = analysis->threads;
    w->has_roots = true;
    return NULL;
}

hx_error *hx_analyse_forget(struct hx_writer *w, const char *sql)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, sql, &st));
    sqlite3_bind_int64(st, 1, w->id);
    return hx_db_run(w->db, w->what, st);
}

hx_error *hx_analyse_adds_up(const struct hx_writer *w, const struct hx_key_sums *census,
                             const char *name)
{
    uint64_t bytes = 0, objects = 0;
    for (uint32_t key = 0; key < census->n; key++) {
        bytes += census->bytes[key];
        objects += census->objects[key];
    }
    return hx_analyse_is_heap(w, bytes, objects, name);
}

hx_error *hx_analyse_is_heap(const struct hx_writer *w, uint64_t bytes, uint64_t objects,
                             const char *name)
{
    if (bytes == w->heap_bytes && objects == w->graph->n)
        return NULL;
    return hx_error_new(HX_E_FAIL, w->what, "report it: this is a mistake in heapx",
                        "%s do not add up: %llu bytes in %llu objects, not %llu in %llu", name,
                        (unsigned long long)bytes, (unsigned long long)objects,
                        (unsigned long long)w->heap_bytes, (unsigned long long)w->graph->n);
}

hx_error *hx_analyse_pages(struct hx_writer *w, const struct hx_key_sums *census, const char *name,
                           int64_t (*number)(const void *context, uint32_t key),
                           const void *context)
{
    if (!census->only_pages)
        return NULL;
    for (uint32_t key = 0; key < census->n; key++) {
        if ((key & CHECK_MASK) == CHECK_MASK && hx_progress_cancelled(w->progress))
            return hx_error_cancelled(w->what);
        if (!census->objects[key])
            continue;
        HX_TRY(hx_write(w, page, .census = hx_str(name),
                        .key = hx_int(number ? number(context, key) : key),
                        .only_pages = hx_int(census->only_pages[key]),
                        .shared_pages = hx_int(census->shared_pages[key])));
    }
    return NULL;
}

/* --- retainer sets ----------------------------------------------------------------- */

struct retainers {
    struct hx_writer *w;
    const struct hx_scheme_rule *rule; /* w->roots, or: */
    struct hx_scheme_rule own;
    hx_sets *sets;
    unsigned max_set; /* by which they were made */
    struct hx_retention retention;
    struct hx_key_sums census;
    int64_t *stored; /* number in the store, by set */
    /* what all edges would say */
    bool doubts;
    struct hx_aside doubting;
    hx_error *doubt_error;
    uint64_t doubt_bytes;
};

static int64_t stored_set(const void *context, uint32_t key)
{
    return ((const struct retainers *)context)->stored[key];
}

static void gather_set(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct retainers *r = context;
    for (uint64_t i = from; i < to; i++)
        *value++ = (uint64_t)r->stored[r->retention.set[i]];
}

static hx_error *write_retention(struct hx_writer *w, const struct retainers *r,
                                 int64_t *ret_visited, int64_t *ret_sets)
{
    int64_t visited = 0, sets = 0;
    for (uint32_t set = 0; set < r->census.n; set++) {
        if ((set & CHECK_MASK) == CHECK_MASK && hx_progress_cancelled(w->progress))
            return hx_error_cancelled(w->what);
        if (!r->census.objects[set])
            continue;
        sets += set != HX_SET_NONE;
        visited += set != HX_SET_NONE ? (int64_t)r->census.bytes[set] : 0;
        HX_TRY(hx_write(w, retention, .set_id = hx_int(r->stored[set]),
                        .bytes = hx_int(r->census.bytes[set]),
                        .objects = hx_int(r->census.objects[set])));
    }
    *ret_visited = visited;
    *ret_sets = sets;
    return NULL;
}

/* What was found of the sets of a census. */
struct census {
    struct hx_int max_set, visited, sets; /* visited: bytes that have a retainer */
};

/* How often objects are visited is asked for by itself. */
static hx_error *write_census(struct hx_writer *w, const struct hx_analysis *analysis,
                              const struct census *found)
{
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_census WHERE snapshot = ?"));
    HX_CLEANUP(hx_text_free) struct hx_text rules = {0};
    for (int rule = HX_RULE_NONE + 1; rule < HX_RULE_COUNT; rule++)
        if (!hx_rule_is_on(&analysis->hold, (enum hx_rule)rule))
            hx_text_putf(&rules, "%s-%s", rules.n ? "," : "", hx_rule_name((enum hx_rule)rule));
    HX_NEED(!rules.failed);
    const struct hx_scheme_options *options = &analysis->options;
    HX_CLEANUP(hx_text_free) struct hx_text lines = {0};
    for (size_t i = 0; i < options->n_patterns; i++)
        hx_text_putf(&lines, "%s%s", i ? "\n" : "", options->pattern[i]);
    HX_NEED(!lines.failed);
    return hx_write(w, census, .scheme = hx_str(analysis->scheme->name), .max_set = found->max_set,
                    .patterns = hx_str(options->n_patterns ? hx_text_str(&lines) : NULL),
                    .total_bytes = found->visited, .sets = found->sets,
                    .holders = hx_int(hx_holdings_wanted(w, analysis)),
                    .threads_as = hx_str(hx_threads_as_name(options->threads_as)),
                    .rules = {rules.n ? rules.s : NULL, rules.n});
}

/* --- by how many each member comes in -------------------------------------------------- */

enum { ENTRY_SETS = 1000, ENTRY_MEMBERS = 64 };

static int larger_set_first(const void *left, const void *right, void *context)
{
    const uint64_t *bytes = context;
    hx_set a = *(const hx_set *)left, b = *(const hx_set *)right;
    if (bytes[a] != bytes[b])
        return bytes[a] < bytes[b] ? 1 : -1;
    return a < b ? -1 : a > b;
}

/* The sets of most bytes that have several members. */
static hx_error *choose_sets(const struct retainers *r, hx_set **ret, size_t *ret_n)
{
    hx_set n = hx_sets_count(r->sets), *set = malloc(((size_t)n + 1) * sizeof *set);
    size_t chosen = 0;
    HX_NEED(set);
    for (hx_set i = HX_SET_MANY + 1; i < n; i++) {
        const hx_retainer *element;
        size_t members = r->census.objects[i] ? hx_sets_elements(r->sets, i, &element) : 0;
        if (members > 1 && members <= ENTRY_MEMBERS)
            set[chosen++] = i;
    }
    if (chosen)
        qsort_r(set, chosen, sizeof *set, larger_set_first, r->census.bytes);
    *ret = set;
    *ret_n = chosen < ENTRY_SETS ? chosen : ENTRY_SETS;
    return NULL;
}

/* Where a member stands in the stored set: by label, then by number. */
static size_t place_of(const struct hx_identity *who, const struct hx_entry *entry, size_t n,
                       size_t k)
{
    size_t before = 0;
    for (size_t i = 0; i < n; i++) {
        int order = strcmp(who[entry[i].member].label, who[entry[k].member].label);
        before += order < 0 || (order == 0 && i < k);
    }
    return before + 1;
}

static hx_error *write_entries(struct hx_writer *w, const struct retainers *r,
                               const struct hx_entries *entries)
{
    for (size_t i = 0; i < entries->n; i++) {
        const struct hx_set_entries *of = &entries->of[i];
        const struct hx_entry *entry = entries->entry + of->first;
        for (size_t k = 0; k < of->n; k++)
            HX_TRY(hx_write(w, entry, .set_id = hx_int(r->stored[of->set]),
                            .position = hx_int(place_of(r->rule->identity, entry, of->n, k)),
                            .entries = hx_int(entry[k].entries), .alike = hx_int(entry[k].alike),
                            .doubt = hx_int(entry[k].doubt)));
    }
    return NULL;
}

static hx_error *analyse_entries(struct hx_writer *w, const struct retainers *r)
{
    HX_FREE hx_set *chosen = NULL;
    size_t n = 0;
    struct hx_entries entries = {0};
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_entry WHERE snapshot = ?"));
    HX_TRY(choose_sets(r, &chosen, &n));
    if (!n)
        return NULL;
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_writer_leave(w));
    HX_TRY(hx_writer_enter(w, hx_entries_find(w->snapshot, &r->rule->rule, r->sets, &r->retention,
                                              chosen, n, w->progress, &entries)));
    hx_timing_end(begun, "entries", w->graph->n);
    hx_error *err = write_entries(w, r, &entries);
    hx_entries_deinit(&entries);
    return err;
}

/* --- what all edges would say ------------------------------------------------------------ */

enum { DOUBT_ELEMENTS = 1 << 22 }; /* of sets; beyond these it is not measured */

static void find_doubt(void *context)
{
    struct retainers *r = context;
    const struct hx_writer *w = r->w;
    uint64_t begun = hx_timing_begin();
    r->doubt_error = hx_retain_doubt(w->snapshot, &r->rule->rule, r->sets, &r->retention,
                                     DOUBT_ELEMENTS, w->progress, &r->doubt_bytes);
    hx_timing_end(begun, "doubt", w->graph->n);
}

/* By all edges, where these are others: beside what is found of dominators then. */
static void begin_doubt(const struct hx_analysis *analysis, bool beside, struct retainers *r)
{
    if (!hx_holdings_wanted(r->w, analysis))
        return;
    if (beside && hx_threads(analysis->threads) > 1)
        hx_aside_begin(find_doubt, r, &r->doubting);
    else
        find_doubt(r);
    r->doubts = true;
}

static hx_error *end_doubt(struct retainers *r)
{
    if (!r->doubts)
        return NULL;
    if (r->doubting.work)
        hx_aside_end(&r->doubting);
    r->doubts = false;
    r->w->doubt_bytes = hx_int_if(!r->doubt_error, r->doubt_bytes);
    if (r->doubt_error && r->doubt_error->kind == HX_E_LIMIT)
        hx_error_free(hx_steal(r->doubt_error)); /* not measured */
    return hx_steal(r->doubt_error);
}

static hx_error *find_retainers(struct hx_writer *w, const struct hx_analysis *analysis,
                                struct retainers *r)
{
    if (analysis->scheme == &hx_scheme_site && w->graph->n && !w->graph->site)
        return hx_error_new(HX_E_FAIL, "scheme site", "use heapx run or heapx record",
                            "nothing was recorded of snapshot %lld: who allocated is not known",
                            (long long)w->id);
    if (analysis->scheme == &hx_scheme_root) {
        HX_TRY(hx_analyse_roots(w, analysis));
        r->rule = &w->roots;
    } else {
        HX_TRY(hx_scheme_apply(analysis->scheme, w->snapshot, &analysis->options, &r->own));
        r->own.rule.threads = analysis->threads;
        r->rule = &r->own;
    }
    HX_TRY(hx_sets_create(analysis->max_set, &r->sets));
    hx_sets_at_most(r->sets, analysis->most_found);
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_writer_leave(w));
    HX_TRY(hx_writer_enter(
        w, hx_retain(w->snapshot, &r->rule->rule, r->sets, w->progress, &r->retention)));
    hx_timing_end(begun, "retainers", w->graph->n);
    r->max_set = hx_sets_limit(r->sets);
    HX_TRY(hx_key_sums_make(w->snapshot, r->retention.set, hx_sets_count(r->sets), w->progress,
                            &r->census));
    HX_TRY(hx_analyse_adds_up(w, &r->census, "retainer sets"));
    HX_TRY(hx_sets_store(w, r->sets, r->rule, r->census.objects, &r->stored));
    HX_TRY(analyse_entries(w, r));
    return w->holding && analysis->scheme == &hx_scheme_root
               ? hx_holdings_alone(w, r->sets, &r->retention)
               : NULL;
}

static hx_error *write_retainers(struct hx_writer *w, const struct hx_analysis *analysis,
                                 const struct retainers *r)
{
    int64_t visited = 0, sets = 0;
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_retention WHERE snapshot = ?"));
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_page WHERE snapshot = ? AND census = 'retainer'"));
    HX_TRY(write_retention(w, r, &visited, &sets));
    const struct census found = {hx_int(r->max_set), hx_int(visited), hx_int(sets)};
    HX_TRY(write_census(w, analysis, &found));
    HX_TRY(hx_analyse_pages(w, &r->census, "retainer", stored_set, r));
    return hx_analyse_column(w, HX_COL_SET, gather_set, r);
}

/* --- holders ------------------------------------------------------------------------ */

enum { HOLDERS = 8 }; /* sets of one stack and state; the others are one row */

/* What a set holds of the objects of a stack in a state. */
struct holder {
    uint32_t site, set;
    uint8_t state;
    uint64_t bytes, objects;
};
typedef HX_VEC(struct holder) holders;

static void free_holders(holders *list)
{
    hx_vec_free(list);
}

static int compare_site_stacks(const void *a, const void *b)
{
    const struct holder *x = a, *y = b;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->set > y->set) - (x->set < y->set);
}

/* Groups of stack and state are numbered first: a key of both and a set has too many bits. */
static hx_error *sum_holders(const struct hx_writer *w, const struct retainers *r, holders *ret)
{
    HX_CLEANUP(hx_pairs_free) struct hx_pairs groups = {0}, known = {0};
    const struct hx_graph *g = w->graph;
    uint32_t n_groups = 0;
    for (hx_obj i = 0; i < g->n; i++) {
        uint32_t site = g->site[i], *group, *slot;
        uint8_t state = g->state[i];
        if (site >= w->snapshot->sites.n)
            continue;
        HX_TRY(hx_pairs_at(&groups, hx_pair_key(site, state), &group));
        *group = *group == HX_NO_PAIR ? n_groups++ : *group;
        HX_TRY(hx_pairs_at(&known, hx_pair_key(*group, r->retention.set[i]), &slot));
        if (*slot == HX_NO_PAIR) {
            struct holder holder = {.site = site, .set = r->retention.set[i], .state = state};
            HX_NEED(hx_vec_push(ret, holder));
            *slot = (uint32_t)ret->n - 1;
        }
        ret->v[*slot].bytes += g->size[i];
        ret->v[*slot].objects++;
    }
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, compare_site_stacks);
    return NULL;
}

static hx_error *write_holder(struct hx_writer *w, const struct retainers *r,
                              const struct holder *holder, bool rest)
{
    return hx_write(w, holder, .stack_id = hx_int(w->snapshot->sites.v[holder->site].stack_id),
                    .state = hx_str(hx_state_name((enum hx_state)holder->state)),
                    .set_id = hx_int_if(!rest, r->stored[holder->set]),
                    .bytes = hx_int(holder->bytes), .objects = hx_int(holder->objects));
}

static hx_error *write_holders(struct hx_writer *w, const struct retainers *r)
{
    HX_CLEANUP(free_holders) holders all = {0};
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_holder WHERE snapshot = ?"));
    if (!w->graph->site || !w->graph->state)
        return NULL;
    HX_TRY(sum_holders(w, r, &all));
    for (size_t i = 0, end; i < all.n; i = end) {
        struct holder rest = all.v[i];
        rest.bytes = rest.objects = 0;
        for (end = i;
             end < all.n && all.v[end].site == all.v[i].site && all.v[end].state == all.v[i].state;
             end++) {
            if (end - i < HOLDERS) {
                HX_TRY(write_holder(w, r, &all.v[end], false));
            } else {
                rest.bytes += all.v[end].bytes;
                rest.objects += all.v[end].objects;
            }
        }
        if (rest.objects)
            HX_TRY(write_holder(w, r, &rest, true));
    }
    return NULL;
}

static void deinit_retainers(struct retainers *r)
{
    if (r->doubts) /* something else failed */
        hx_error_free(end_doubt(r));
    free(r->stored);
    hx_key_sums_deinit(&r->census);
    hx_retention_deinit(&r->retention);
    hx_sets_destroy(r->sets);
    hx_scheme_rule_deinit(&r->own);
}

/* `beside`: there is more to be found, and what is in doubt may be found beside it. */
static hx_error *analyse_retainers(struct hx_writer *w, const struct hx_analysis *analysis,
                                   bool beside, struct retainers *r)
{
    HX_TRY(find_retainers(w, analysis, r));
    begin_doubt(analysis, beside, r);
    HX_TRY(write_retainers(w, analysis, r));
    HX_TRY(write_holders(w, r));
    w->scheme = analysis->scheme->name;
    return NULL;
}

/* --- bins -------------------------------------------------------------------------- */

static void gather_bin(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct hx_bins *bins = context;
    for (uint64_t i = from; i < to; i++)
        *value++ = bins->bin[i];
}

static hx_error *write_bin_rows(struct hx_writer *w, const struct hx_bins *bins,
                                const struct hx_key_sums *census)
{
    HX_CLEANUP(hx_text_free) struct hx_text label = {0};
    for (uint32_t bin = 0; bin < bins->n; bin++) {
        if ((bin & CHECK_MASK) == CHECK_MASK && hx_progress_cancelled(w->progress))
            return hx_error_cancelled(w->what);
        hx_text_clear(&label);
        hx_bin_label(w->snapshot, bins, bin, &label);
        HX_NEED(!label.failed);
        HX_TRY(hx_write(w, bin, .bin = hx_int(bin), .roots = {hx_text_str(&label), label.n},
                        .bytes = hx_int(census->bytes[bin]),
                        .objects = hx_int(census->objects[bin])));
    }
    return NULL;
}

static hx_error *write_bins(struct hx_writer *w, const struct hx_bins *bins,
                            const struct hx_key_sums *census)
{
    HX_TRY(hx_analyse_adds_up(w, census, "bins"));
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_bin WHERE snapshot = ?"));
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_page WHERE snapshot = ? AND census = 'bin'"));
    HX_TRY(write_bin_rows(w, bins, census));
    HX_TRY(hx_analyse_pages(w, census, "bin", NULL, NULL));
    return hx_analyse_column(w, HX_COL_BIN, gather_bin, bins);
}

static hx_error *analyse_bins(struct hx_writer *w)
{
    struct hx_bins bins = {0};
    struct hx_key_sums census = {0};
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_writer_leave(w));
    hx_error *err = hx_writer_enter(w, hx_bins_find(w->snapshot, w->progress, &bins));
    hx_timing_end(begun, "bins", w->graph->n);
    if (!err)
        err = hx_key_sums_make(w->snapshot, bins.bin, bins.n, w->progress, &census);
    if (!err)
        err = write_bins(w, &bins, &census);
    hx_key_sums_deinit(&census);
    hx_bins_deinit(&bins);
    return err;
}

/* What is too large is left out of a new snapshot, with a note; whoever asks for it afterwards is
 * told. */
static hx_error *left_out(struct hx_writer *w, hx_error *err, unsigned *done)
{
    if (!err || err->kind != HX_E_LIMIT || !w->adding)
        return err;
    hx_text_putf(&w->notes, "%s%s left out: %s", w->notes.n ? "; " : "",
                 *done & HX_ANALYSE_BINS ? "bins" : "retainer sets", err->why);
    hx_error_free(err);
    *done = 0;
    return NULL;
}

/* --- whose edges --------------------------------------------------------------------- */

static uint64_t count_stray(const struct hx_writer *w, const struct hx_analysis *analysis)
{
    uint64_t words[256] = {0}, stray = 0;
    for (hx_eidx e = 0; e < w->graph->n_edges; e++)
        words[w->graph->evidence[e]]++;
    for (size_t i = 0; i < w->snapshot->root_edges.n; i++)
        words[w->snapshot->root_edges.v[i].evidence]++;
    for (unsigned i = 0; i < 256; i++)
        if (hx_word_rank((hx_evidence)i, &analysis->hold) == HX_RANK_STRAY)
            stray += words[i];
    return stray;
}

/* Only edges of the graph of holders are left in sight. */
static hx_error *choose_by_rounds(struct hx_writer *w, const struct hx_analysis *analysis)
{
    HX_TRY(hx_writer_leave(w));
    HX_TRY(hx_writer_enter(
        w, hx_rounds_find(w->snapshot, &analysis->hold, false, analysis->threads, w->progress)));
    hx_edges_choose(w->snapshot, &analysis->hold, analysis->threads);
    return NULL;
}

/* Is there an edge of a named root that is of another round otherwise? */
static bool has_own_bins(const struct hx_snapshot *snapshot, const struct hx_analysis *analysis)
{
    struct hx_edge_rounds rounds;
    hx_edge_rounds_init(&analysis->hold, snapshot->interior, &rounds);
    for (size_t i = 0; i < snapshot->named.n; i++) {
        uint32_t root = snapshot->named.v[i].root;
        size_t end = hx_snapshot_root_edges(snapshot, (uint64_t)root + 1);
        for (size_t e = hx_snapshot_root_edges(snapshot, root); e < end; e++)
            if (snapshot->roots.v[root].kind == HX_ROOT_NAMED ||
                hx_root_edge_round(snapshot, &snapshot->root_edges.v[e], &rounds) != 1)
                return true;
    }
    return false;
}

/* Bins have rounds of their own where named roots have edges of their own; these stay. */
static hx_error *analyse_bins_by_rounds(struct hx_writer *w, const struct hx_analysis *analysis,
                                        bool rounds)
{
    if (rounds && has_own_bins(w->snapshot, analysis)) {
        HX_TRY(hx_rounds_find(w->snapshot, &analysis->hold, true, analysis->threads, w->progress));
        HX_TRY(hx_edges_choose_named(w->snapshot, &analysis->hold, analysis->threads));
    }
    return analyse_bins(w);
}

static hx_error *analyse_holders(struct hx_writer *w, const struct hx_analysis *analysis,
                                 bool rounds, unsigned parts)
{
    if (parts & HX_ANALYSE_HOLDERS && w->graph->evidence)
        w->stray_edges = hx_int(count_stray(w, analysis));
    if (!rounds && parts & HX_ANALYSE_HOLDERS) {
        HX_TRY(hx_trees_forget_holders(w));
        return hx_holdings_forget(w);
    }
    if (!rounds)
        return NULL;
    if (!(parts & HX_ANALYSE_HOLDERS))
        return choose_by_rounds(w, analysis);
    HX_TRY(hx_analyse_holdings(w, analysis));
    hx_edges_choose(w->snapshot, &analysis->hold, analysis->threads);
    return NULL;
}

hx_error *hx_analysed_hold(sqlite3 *db, const char *what, int64_t number,
                           struct hx_hold_options *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(db, what,
                         "SELECT holders, substr(rules, 1, 65536) FROM hx_census"
                         " WHERE snapshot <= ? AND holders IS NOT NULL"
                         " ORDER BY snapshot DESC LIMIT 1",
                         &st));
    sqlite3_bind_int64(st, 1, number);
    *ret = (struct hx_hold_options){.holders = true};
    int code = sqlite3_step(st);
    if (code == SQLITE_DONE)
        return NULL;
    if (code != SQLITE_ROW)
        return hx_db_error(db, code, what);
    ret->holders = sqlite3_column_int(st, 0) != 0;
    const char *rules = (const char *)sqlite3_column_text(st, 1);
    hx_error *err = rules ? hx_rules_parse(rules, &ret->off) : NULL;
    if (!err || err->kind != HX_E_USAGE)
        return err;
    hx_error_free(err);
    return hx_error_new(HX_E_CORRUPT, what, "take it from a backup or make it again",
                        "the store is damaged (a rule that is not there)");
}

enum { OF_DOMINATORS = HX_ANALYSE_RETAINED | HX_ANALYSE_SURE | HX_ANALYSE_TYPES };

/* For who works out the rest: a limit that is to be found is found then. */
static hx_error *keep_rule(struct hx_writer *w, const struct hx_analysis *analysis)
{
    const struct census none = {.max_set =
                                    hx_int_if(analysis->max_set < HX_SETS_AUTO, analysis->max_set)};
    if (w->graph->evidence)
        w->stray_edges = hx_int(count_stray(w, analysis));
    return write_census(w, analysis, &none);
}

/* What needs no other edges, while dominators are found beside it. */
static hx_error *analyse_beside(struct hx_writer *w, const struct hx_analysis *analysis,
                                bool rounds, unsigned parts, struct retainers *r,
                                struct hx_dominators_aside *aside)
{
    unsigned retainers = parts & HX_ANALYSE_RETAINERS;
    const unsigned retained = parts & OF_DOMINATORS;
    if (retained && parts & ~OF_DOMINATORS)
        HX_TRY(hx_dominators_begin(w, analysis, parts, aside));
    if (rounds && parts & HX_ANALYSE_HOLDERS)
        HX_TRY(hx_trees_holders(w));
    if (retainers)
        HX_TRY(left_out(w, analyse_retainers(w, analysis, retained, r), &retainers));
    if (w->holding && (!retainers || analysis->scheme != &hx_scheme_root))
        HX_TRY(hx_holdings_alone_apart(w, analysis));
    if (retained)
        HX_TRY(hx_analyse_retained(w, analysis, retained, aside));
    HX_TRY(end_doubt(r));
    w->parts |= retainers | retained | (parts & HX_ANALYSE_HOLDERS);
    return NULL;
}

static hx_error *analyse_parts(struct hx_writer *w, const struct hx_analysis *analysis, bool rounds,
                               unsigned parts)
{
    struct hx_dominators_aside aside = {.begun = false};
    unsigned bins = parts & HX_ANALYSE_BINS;
    HX_TRY(analyse_holders(w, analysis, rounds, parts));
    struct retainers r = {.w = w};
    hx_error *err = analyse_beside(w, analysis, rounds, parts, &r, &aside);
    deinit_retainers(&r);
    hx_dominators_end(&aside);
    HX_TRY(err);
    if (bins) /* last: they may choose other edges */
        HX_TRY(left_out(w, analyse_bins_by_rounds(w, analysis, rounds), &bins));
    w->parts |= bins;
    return NULL;
}

/* --- by which rule ------------------------------------------------------------------- */

hx_error *hx_analysed_threads(sqlite3 *db, const char *what, int64_t number,
                              enum hx_threads_as *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(db, what,
                         "SELECT threads_as FROM hx_census WHERE snapshot <= ?"
                         " AND threads_as IS NOT NULL ORDER BY snapshot DESC LIMIT 1",
                         &st));
    sqlite3_bind_int64(st, 1, number);
    int code = sqlite3_step(st);
    const char *word = code == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (word)
        hx_threads_as_parse(word, ret);
    return code == SQLITE_ROW || code == SQLITE_DONE ? NULL : hx_db_error(db, code, what);
}

/* What is analysed, and the patterns of it that are not the caller's. */
struct rule {
    struct hx_analysis analysis;
    char *text;
    const char **pattern;
};

static void cleanup_rule(struct rule *rule)
{
    free(rule->text);
    free(rule->pattern);
}

static hx_error *take_patterns(struct rule *rule, const char *lines)
{
    size_t n = 0;
    rule->text = strdup(lines);
    rule->pattern = calloc(strlen(lines) + 1, sizeof *rule->pattern);
    HX_NEED(rule->text && rule->pattern);
    for (char *rest = rule->text; rest;)
        rule->pattern[n++] = strsep(&rest, "\n");
    rule->analysis.options.pattern = rule->pattern;
    rule->analysis.options.n_patterns = n;
    return NULL;
}

/* What was not asked for is as it was for the last snapshot. */
static hx_error *follow_last(const struct hx_writer *w, struct rule *rule)
{
    struct hx_analysis *analysis = &rule->analysis;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "SELECT scheme, max_set, substr(patterns, 1, 65536) FROM hx_census"
                         " WHERE scheme IS NOT NULL ORDER BY snapshot DESC LIMIT 1",
                         &st));
    int code = sqlite3_step(st);
    if (code != SQLITE_ROW)
        return code == SQLITE_DONE ? NULL : hx_db_error(w->db, code, w->what);
    const struct hx_scheme *last = hx_scheme_find((const char *)sqlite3_column_text(st, 0));
    const char *patterns = (const char *)sqlite3_column_text(st, 2);
    int64_t max_set = sqlite3_column_int64(st, 1);
    bool possible = last && (last != &hx_scheme_site || w->graph->site);
    if (!analysis->scheme && possible) {
        analysis->scheme = last;
        if (patterns && last->picks)
            HX_TRY(take_patterns(rule, patterns));
    }
    if (analysis->scheme == last && !analysis->has_max_set && analysis->max_set == HX_SETS_AUTO &&
        max_set > 0 && max_set < HX_SETS_AUTO)
        analysis->most_found = (unsigned)max_set;
    return NULL;
}

static hx_error *make_rule(const struct hx_writer *w, const struct hx_analysis *wanted,
                           struct rule *ret)
{
    struct hx_analysis *analysis = &ret->analysis;
    *analysis = *wanted;
    if (w->adding)
        HX_TRY(follow_last(w, ret));
    if (!analysis->scheme)
        analysis->scheme = hx_schemes[0];
    if (!wanted->has_threads_as && wanted->options.threads_as == HX_THREADS_AS_NAME)
        HX_TRY(hx_analysed_threads(w->db, w->what, w->id, &analysis->options.threads_as));
    return wanted->has_hold ? NULL : hx_analysed_hold(w->db, w->what, w->id, &analysis->hold);
}

hx_error *hx_analyse_prepare(struct hx_writer *w)
{
    if (!w->objects.n)
        HX_TRY(find_objects(w));
    return w->class ? NULL : classify_stored(w);
}

hx_error *hx_analyse(struct hx_writer *w, const struct hx_analysis *wanted, unsigned parts)
{
    HX_CLEANUP(cleanup_rule) struct rule rule = {0};
    HX_TRY(make_rule(w, wanted, &rule));
    const struct hx_analysis *analysis = &rule.analysis;
    bool rounds = (parts & HX_ANALYSE_EVER) && hx_holdings_wanted(w, analysis);
    if (w->adding) {
        HX_TRY(hx_analyse_types(w));
        HX_TRY(keep_rule(w, analysis));
    }
    HX_TRY(hx_analyse_prepare(w));
    hx_error *err = analyse_parts(w, analysis, rounds, parts);
    if (rounds)
        hx_edges_restore(w->snapshot, analysis->threads);
    return err;
}
