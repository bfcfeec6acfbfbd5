/* retained.c - the parts of an analysis that tell what would go with what: dominators and the
 * retained figures of objects and roots; those of types and sites; the sure ones. All of them are
 * read off the dominators.
 *
 * Over all followed edges first. The sure figures are stored as differences to these, and found
 * as such. Only where they concern too much, they are found on their own, when the others are
 * in the store already: so two dominator trees are never in memory at once. */
#include "store/write/analyse.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "store/db.h"
#include "store/write/alike.h"
#include "store/write/trees.h"
#include "store/write/write_recording.h"
#include "traverse/dominate/alone.h"
#include "traverse/dominate/groups.h"
#include "traverse/dominate/sure.h"

#include <stdlib.h>
#include <string.h>

#define TOP       1000                /* rows of hx_dominator */
#define TYPE_WORK UINT64_C(400000000) /* objects and edges to pass for the sizes of types */
#define TYPE_PASS 64                  /* types of one pass (groups.h) */
#define TWO_FIT   ((hx_obj)50000)     /* up to so many objects two threads' memory is nothing */
#define SURE_PART 4 /* differences are worth it, and fit, up to a fourth (sure.h) */

/* One of the largest. */
struct top {
    hx_obj object, parent;
    uint64_t bytes, objects;
    uint64_t sure_bytes, sure_objects; /* objects 0: not reached over sure edges */
};

struct retained {
    struct hx_writer *w;
    const struct hx_analysis *analysis;
    struct hx_dominators_aside *aside;
    unsigned threads, parts;
    struct hx_dominators dominators;
    struct hx_sure sure; /* differences to them */
    struct top *top;     /* 2 * TOP; the first n_top count */
    size_t n_top;
    struct hx_groups types;
    struct hx_big group_mem;
    struct hx_aside measuring; /* types, beside what is written */
    bool measures;
    hx_error *measure_error;
};

/* --- columns ----------------------------------------------------------------------- */

static void gather_dominator(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct hx_dominators *d = context;
    for (uint64_t i = from; i < to; i++)
        *value++ = d->parent[i] == HX_NO_OBJ ? 0 : hx_zigzag((int64_t)d->parent[i] - (int64_t)i);
}

static void gather_objects(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct hx_dominators *d = context;
    for (uint64_t i = from; i < to; i++)
        *value++ = d->objects[i];
}

static void gather_bytes(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct retained *r = context;
    const struct hx_dominators *d = &r->dominators;
    for (uint64_t i = from; i < to; i++)
        *value++ = hx_zigzag((int64_t)(d->bytes[i] - d->objects[i] * r->w->graph->size[i]));
}

/* As the column that is made of these is served: plus 1, 0 for NULL. */
static void gather_retained(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct hx_dominators *d = &((const struct retained *)context)->dominators;
    for (uint64_t i = from; i < to; i++)
        *value++ = d->objects[i] ? d->bytes[i] + 1 : 0;
}

/* The same of what hangs directly under the roots: a level that lists show. */
static void gather_under_roots(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct hx_dominators *d = context;
    for (uint64_t i = from; i < to; i++)
        *value++ = d->parent[i] == HX_NO_OBJ && d->objects[i] ? d->bytes[i] + 1 : 0;
}

static hx_error *write_columns(struct retained *r)
{
    struct hx_writer *w = r->w;
    HX_TRY(hx_analyse_ordered(w, HX_COL_DOMINATOR, gather_dominator, gather_under_roots,
                              &r->dominators));
    HX_TRY(hx_analyse_ordered(w, HX_COL_RETAINED_REST, gather_bytes, gather_retained, r));
    return hx_analyse_column(w, HX_COL_RETAINED_OBJECTS, gather_objects, &r->dominators);
}

/* As the sure columns have it: 0 for what is not reached, else the difference. */
static inline uint64_t difference(uint64_t sure_objects, uint64_t sure, uint64_t all)
{
    return sure_objects ? hx_zigzag((int64_t)(sure - all)) + 1 : 0;
}

/* All but r->sure's objects have the same figures over both kinds of edges. */
static void gather_sure_bytes(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct retained *r = context;
    const struct hx_dominators *d = &r->dominators;
    const struct hx_sure *sure = &r->sure;
    for (uint64_t i = from, k = hx_sure_from(sure, (hx_obj)from); i < to; i++, value++) {
        *value = d->objects[i] != 0;
        if (k < sure->n && sure->object[k] == i) {
            *value = difference(sure->objects[k], sure->bytes[k], d->bytes[i]);
            k++;
        }
    }
}

static void gather_sure_objects(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct retained *r = context;
    const struct hx_dominators *d = &r->dominators;
    const struct hx_sure *sure = &r->sure;
    for (uint64_t i = from, k = hx_sure_from(sure, (hx_obj)from); i < to; i++, value++) {
        *value = d->objects[i] != 0;
        if (k < sure->n && sure->object[k] == i) {
            *value = difference(sure->objects[k], sure->objects[k], d->objects[i]);
            k++;
        }
    }
}

/* The dominators in r are the sure ones. `all`: room for a block. */
static hx_error *write_differences(struct retained *r, const struct hx_object_block *block,
                                   uint64_t *all)
{
    struct hx_writer *w = r->w;
    const struct hx_dominators *d = &r->dominators;
    uint64_t *value = w->value;
    size_t n = block->to - block->from;
    HX_TRY(hx_analyse_read_back(w, block, HX_COL_RETAINED_OBJECTS));
    memcpy(all, value, n * sizeof *all);
    HX_TRY(hx_analyse_read_back(w, block, HX_COL_RETAINED_REST));
    for (size_t k = 0; k < n; k++) {
        uint64_t i = block->from + k;
        uint64_t bytes = all[k] * w->graph->size[i] + (uint64_t)hx_unzigzag(value[k]);
        value[k] = difference(d->objects[i], d->bytes[i], bytes);
    }
    HX_TRY(hx_writer_put(w, block->id, HX_COL_SURE, n));
    for (size_t k = 0; k < n; k++) {
        uint64_t objects = d->objects[block->from + k];
        value[k] = difference(objects, objects, all[k]);
    }
    return hx_writer_put(w, block->id, HX_COL_SURE_OBJECTS, n);
}

static hx_error *write_sure(struct retained *r)
{
    struct hx_writer *w = r->w;
    HX_FREE uint64_t *all = malloc(HX_BLOCK_ROWS * sizeof *all);
    HX_NEED(all);
    for (size_t b = 0; b < w->objects.n; b++) {
        HX_TRY(write_differences(r, &w->objects.v[b], all));
        hx_progress_at(w->progress, "storing", w->objects.v[b].to, w->graph->n);
        if (hx_progress_cancelled(w->progress))
            return hx_error_cancelled(w->what);
    }
    return NULL;
}

/* --- roots ------------------------------------------------------------------------- */

/* UPDATE ... SET figures ?1, ?2 of snapshot ?3 WHERE the key is ?4; what is not known stays NULL.
 */
static hx_error *write_retained_figures(struct hx_writer *w, sqlite3_stmt *st, int64_t key,
                                        uint64_t bytes, uint64_t objects)
{
    if (bytes == HX_RETAINED_UNKNOWN)
        return NULL;
    sqlite3_bind_int64(st, 1, (int64_t)bytes);
    sqlite3_bind_int64(st, 2, (int64_t)objects);
    sqlite3_bind_int64(st, 3, w->id);
    sqlite3_bind_int64(st, 4, key);
    return hx_db_run(w->db, w->what, st);
}

static hx_error *write_roots(struct retained *r)
{
    struct hx_writer *w = r->w;
    const struct hx_dominators *d = &r->dominators;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "UPDATE hx_root SET retained_bytes = ?1, retained_objects = ?2"
                         " WHERE snapshot = ?3 AND root_id = ?4",
                         &st));
    for (size_t i = 0; i < d->n_roots; i++)
        HX_TRY(write_retained_figures(w, st, (int64_t)i, d->root_bytes[i], d->root_objects[i]));
    return NULL;
}

/* --- the largest ------------------------------------------------------------------- */

static int larger_retained_first(const void *left, const void *right)
{
    const struct top *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->object < b->object ? -1 : 1; /* in order of address, too */
}

static void keep_largest(struct retained *r)
{
    qsort(r->top, r->n_top, sizeof *r->top, larger_retained_first);
    r->n_top = r->n_top < TOP ? r->n_top : TOP;
}

/* Collects twice as many as are wanted before it sorts and drops the smaller half. */
static hx_error *find_top(struct retained *r)
{
    const struct hx_dominators *d = &r->dominators;
    uint64_t floor = 0;
    r->top = calloc(2 * TOP, sizeof *r->top);
    HX_NEED(r->top);
    for (hx_obj i = 0; i < d->n; i++) {
        if (!d->objects[i] || d->bytes[i] < floor)
            continue;
        r->top[r->n_top++] = (struct top){
            .object = i, .parent = d->parent[i], .bytes = d->bytes[i], .objects = d->objects[i]};
        if (r->n_top < 2 * TOP)
            continue;
        keep_largest(r);
        floor = r->top[TOP - 1].bytes + 1; /* an equal one with a higher address comes later */
    }
    keep_largest(r);
    return NULL;
}

static void note_differences(struct retained *r)
{
    const struct hx_sure *sure = &r->sure;
    for (size_t k = 0; k < r->n_top; k++) {
        struct top *top = &r->top[k];
        hx_obj at = hx_sure_from(sure, top->object);
        bool differs = at < sure->n && sure->object[at] == top->object;
        top->sure_bytes = differs ? sure->bytes[at] : top->bytes;
        top->sure_objects = differs ? sure->objects[at] : top->objects;
    }
}

static void note_sure(struct retained *r)
{
    for (size_t k = 0; k < r->n_top; k++) {
        r->top[k].sure_bytes = r->dominators.bytes[r->top[k].object];
        r->top[k].sure_objects = r->dominators.objects[r->top[k].object];
    }
}

static const char *written_type_name(const struct hx_writer *w, hx_obj object)
{
    uint32_t type = hx_writer_type(w, object);
    return type ? w->snapshot->types.v[type - 1].name : NULL;
}

static hx_error *write_top(struct retained *r)
{
    struct hx_writer *w = r->w;
    for (size_t k = 0; k < r->n_top; k++) {
        const struct top *top = &r->top[k];
        HX_TRY(hx_write(
            w, dominator, .position = hx_int(k + 1), .address = hx_int(w->graph->addr[top->object]),
            .type = hx_str(written_type_name(w, top->object)),
            .bytes = hx_int(w->graph->size[top->object]), .retained_bytes = hx_int(top->bytes),
            .retained_objects = hx_int(top->objects),
            .sure_retained_bytes = hx_int_if(top->sure_objects, top->sure_bytes),
            .sure_retained_objects = hx_int_if(top->sure_objects, top->sure_objects),
            .parent = hx_int_if(top->parent != HX_NO_OBJ, w->graph->addr[top->parent])));
    }
    return NULL;
}

/* --- types ------------------------------------------------------------------------- */

/* Objects of no known type are a group, too: the last one. */
static hx_error *group_by_type(struct retained *r)
{
    const struct hx_graph *graph = r->w->graph;
    uint32_t unknown = (uint32_t)r->w->snapshot->types.n;
    HX_TRY(hx_big_reserve(&r->group_mem, (size_t)graph->n * sizeof(uint32_t)));
    uint32_t *group = r->group_mem.base;
    for (hx_obj i = 0; i < graph->n; i++)
        group[i] = graph->type && graph->type[i] < unknown ? graph->type[i] : unknown;
    return NULL;
}

/* All objects are one group: that retains everything, without a search. */
static hx_error *measure_all(struct retained *r)
{
    r->types = (struct hx_groups){.n = 1, .measured = 1};
    r->types.bytes = malloc(sizeof *r->types.bytes);
    r->types.objects = malloc(sizeof *r->types.objects);
    HX_NEED(r->types.bytes && r->types.objects);
    r->types.bytes[0] = r->dominators.scope_bytes;
    r->types.objects[0] = r->dominators.scope_objects;
    return NULL;
}

/* How many groups there is time for; 0: all. */
static uint32_t measured_groups(const struct hx_writer *w)
{
    uint64_t passes = TYPE_WORK / ((uint64_t)w->graph->n + w->graph->n_edges + 1);
    uint64_t limit = passes ? passes * TYPE_PASS : TYPE_PASS;
    return limit < UINT32_MAX ? (uint32_t)limit : 0;
}

/* What types retain, those with the most bytes first while time allows. */
static void measure_types(void *context)
{
    struct retained *r = context;
    const struct hx_writer *w = r->w;
    const uint64_t begun = hx_timing_begin();
    r->measure_error = hx_groups_measure(
        w->snapshot, &r->dominators, r->group_mem.base, (uint32_t)w->snapshot->types.n + 1,
        measured_groups(w), w->graph->n <= TWO_FIT ? r->threads : 1, w->progress, &r->types);
    hx_timing_end(begun, "type-sizes", w->graph->n);
}

static hx_error *begin_types(struct retained *r)
{
    HX_TRY(group_by_type(r));
    if (!r->w->snapshot->types.n)
        return measure_all(r);
    r->measures = true;
    if (r->w->graph->n > TWO_FIT && hx_threads(r->threads) > 1)
        hx_aside_begin(measure_types, r, &r->measuring);
    else
        r->measuring = (struct hx_aside){.work = measure_types, .context = r}; /* at its end */
    return NULL;
}

static hx_error *end_types(struct retained *r)
{
    struct hx_writer *w = r->w;
    if (!r->measures)
        return NULL;
    HX_TRY(hx_writer_leave(w));
    hx_aside_end(&r->measuring);
    r->measures = false;
    HX_TRY(hx_writer_enter(w, hx_steal(r->measure_error)));
    if (r->types.measured < r->types.n)
        hx_text_putf(&w->notes,
                     "%sretained sizes of the smaller types (%u of %u) were not measured: too many",
                     w->notes.n ? "; " : "", r->types.n - r->types.measured, r->types.n);
    return NULL;
}

/* The last key of the census is number 0. */
static int64_t type_number(const void *context, uint32_t key)
{
    const struct hx_key_sums *census = context;
    return key + 1 == census->n ? 0 : (int64_t)key + 1;
}

/* `groups`: NULL: what they retain is not known. */
static hx_error *write_type_rows(struct hx_writer *w, const struct hx_key_sums *census,
                                 const struct hx_groups *groups)
{
    char source[HX_SOURCES];
    for (uint32_t key = 0; key < census->n; key++) {
        bool known = key + 1 < census->n;
        const struct hx_type *type = known ? &w->snapshot->types.v[key] : NULL;
        uint64_t bytes = groups ? groups->bytes[key] : HX_RETAINED_UNKNOWN;
        bool measured = bytes != HX_RETAINED_UNKNOWN;
        HX_TRY(hx_write(w, type, .type = hx_int(type_number(census, key)),
                        .name = hx_str(type ? type->name : NULL),
                        .confidence = hx_str(type ? hx_confidence_name(type->confidence) : NULL),
                        .bytes = hx_int(census->bytes[key]),
                        .objects = hx_int(census->objects[key]),
                        .retained_bytes = hx_int_if(measured, bytes),
                        .retained_objects = hx_int_if(measured, groups ? groups->objects[key] : 0),
                        .symbol = hx_str(type ? type->symbol : NULL),
                        .source = hx_str(type ? hx_type_sources(type, source) : NULL),
                        .layout = hx_int_if(type && type->layout, type ? type->layout : 0)));
    }
    return NULL;
}

static hx_error *write_types(struct retained *r, const struct hx_groups *groups)
{
    struct hx_writer *w = r->w;
    struct hx_key_sums census = {0};
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_type WHERE snapshot = ?"));
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_page WHERE snapshot = ? AND census = 'type'"));
    hx_error *err = hx_key_sums_make(w->snapshot, r->group_mem.base,
                                     (uint32_t)w->snapshot->types.n + 1, w->progress, &census);
    if (!err)
        err = hx_analyse_adds_up(w, &census, "types");
    if (!err)
        err = write_type_rows(w, &census, groups);
    if (!err && groups)
        err = hx_analyse_pages(w, &census, "type", type_number, &census);
    hx_key_sums_deinit(&census);
    return err;
}

/* --- sites ------------------------------------------------------------------------- */

static hx_error *write_site_rows(struct hx_writer *w, const struct hx_site_groups *sites,
                                 const struct hx_groups *groups)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "UPDATE hx_site SET retained_bytes = ?1, retained_objects = ?2"
                         " WHERE snapshot = ?3 AND ccs_id = ?4",
                         &st));
    for (uint32_t key = 0; key < groups->n; key++)
        HX_TRY(write_retained_figures(w, st, sites->ccs_id[key], groups->bytes[key],
                                      groups->objects[key]));
    return NULL;
}

/* As types: those with the most bytes first while time allows. */
static hx_error *measure_groups(struct retained *r, const struct hx_site_groups *sites)
{
    struct hx_writer *w = r->w;
    struct hx_groups groups = {0};
    unsigned threads = w->graph->n <= TWO_FIT ? r->threads : 1;
    HX_TRY(hx_writer_leave(w));
    HX_TRY(
        hx_writer_enter(w, hx_groups_measure(w->snapshot, &r->dominators, sites->group, sites->n,
                                             measured_groups(w), threads, w->progress, &groups)));
    if (groups.measured < groups.n)
        hx_text_putf(&w->notes,
                     "%sretained sizes of the smaller sites (%u of %u) were not measured: too many",
                     w->notes.n ? "; " : "", groups.n - groups.measured, groups.n);
    hx_error *err = write_site_rows(w, sites, &groups);
    hx_groups_deinit(&groups);
    return err;
}

/* Of a snapshot that is revised the cost centres may be others than before. */
static hx_error *renew_pages(struct hx_writer *w, const struct hx_site_groups *sites)
{
    if (w->adding)
        return NULL;
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_page WHERE snapshot = ? AND census = 'site'"));
    return hx_writer_site_pages(w, sites);
}

static hx_error *measure_sites(struct retained *r)
{
    struct hx_writer *w = r->w;
    if (!w->graph->site || !w->snapshot->sites.n)
        return NULL;
    struct hx_site_groups sites = {0};
    hx_error *err = hx_site_groups_make(w->snapshot, &sites);
    if (!err)
        err = measure_groups(r, &sites);
    if (!err)
        err = renew_pages(w, &sites);
    hx_site_groups_deinit(&sites);
    return err;
}

/* --- all of it --------------------------------------------------------------------- */

static void find_aside(void *context)
{
    struct hx_dominators_aside *aside = context;
    const struct hx_progress *progress = &aside->progress;
    struct hx_dominators *dominators = &aside->dominators;
    uint64_t begun = hx_timing_begin();
    aside->err = hx_dominators_find(aside->snapshot, HX_OVER_FOLLOWED, progress, dominators);
    hx_timing_end(begun, "dominators", aside->snapshot->graph.n);
    begun = hx_timing_begin();
    if (aside->of_root && !aside->err)
        aside->err = hx_alone_find(aside->snapshot, aside->of_root, dominators->follows, progress,
                                   &aside->alone);
    hx_timing_end(begun, "alone", aside->snapshot->graph.n);
}

hx_error *hx_dominators_begin(struct hx_writer *w, const struct hx_analysis *analysis,
                              unsigned parts, struct hx_dominators_aside *ret)
{
    if (hx_threads(analysis->threads) == 1)
        return NULL;
    if (parts & HX_ANALYSE_RETAINED) {
        HX_TRY(hx_analyse_roots(w, analysis));
        ret->of_root = w->roots.rule.of_root;
    }
    ret->snapshot = w->snapshot;
    if (w->progress)
        ret->progress = *w->progress;
    ret->begun = true;
    hx_aside_begin(find_aside, ret, &ret->aside);
    return NULL;
}

void hx_dominators_end(struct hx_dominators_aside *aside)
{
    if (aside->begun)
        hx_aside_end(&aside->aside);
    aside->begun = false;
    hx_error_free(hx_steal(aside->err));
    hx_dominators_deinit(&aside->dominators);
    hx_big_free(&aside->alone);
}

static hx_error *find_dominators(struct retained *r, enum hx_dominators_over over)
{
    struct hx_writer *w = r->w;
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_writer_leave(w));
    HX_TRY(hx_writer_enter(w, hx_dominators_find(w->snapshot, over, w->progress, &r->dominators)));
    hx_timing_end(begun, "dominators", w->graph->n);
    return NULL;
}

/* What was begun, or what is found now. */
static hx_error *take_dominators(struct retained *r)
{
    struct hx_dominators_aside *aside = r->aside;
    if (!aside->begun)
        return find_dominators(r, HX_OVER_FOLLOWED);
    HX_TRY(hx_writer_leave(r->w));
    hx_aside_end(&aside->aside);
    aside->begun = false;
    HX_TRY(hx_writer_enter(r->w, hx_steal(aside->err)));
    r->dominators = aside->dominators;
    aside->dominators = (struct hx_dominators){0};
    return NULL;
}

/* As differences to the dominators over all followed edges, which still have their parents. */
static hx_error *find_differences(struct retained *r)
{
    struct hx_writer *w = r->w;
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_writer_leave(w));
    HX_TRY(hx_writer_enter(
        w, hx_sure_find(w->snapshot, &r->dominators, SURE_PART, w->progress, &r->sure)));
    hx_timing_end(begun, "differences", r->sure.n);
    if (r->sure.too_many)
        return NULL;
    note_differences(r);
    HX_TRY(hx_analyse_column(w, HX_COL_SURE, gather_sure_bytes, r));
    HX_TRY(hx_analyse_column(w, HX_COL_SURE_OBJECTS, gather_sure_objects, r));
    hx_sure_deinit(&r->sure);
    return NULL;
}

/* On their own. Nothing but the columns and the largest is left of the others. */
static hx_error *find_sure(struct retained *r)
{
    hx_dominators_deinit(&r->dominators);
    HX_TRY(find_dominators(r, HX_OVER_SURE));
    hx_dominators_drop_parent(&r->dominators);
    note_sure(r);
    return write_sure(r);
}

static hx_error *find_types(struct retained *r)
{
    HX_TRY(measure_sites(r));
    HX_TRY(write_types(r, &r->types));
    hx_big_free(&r->group_mem);
    return NULL;
}

static hx_error *run_retained(struct retained *r)
{
    struct hx_writer *w = r->w;
    HX_TRY(take_dominators(r));
    if (r->parts & HX_ANALYSE_TYPES)
        HX_TRY(begin_types(r));
    if (r->parts & (HX_ANALYSE_RETAINED | HX_ANALYSE_SURE))
        HX_TRY(write_columns(r)); /* sure ones are told as differences */
    if (r->parts & HX_ANALYSE_RETAINED) {
        HX_TRY(write_roots(r));
        HX_TRY(hx_trees_dominators(w, r->analysis, &r->dominators, &r->aside->alone));
    }
    HX_TRY(find_top(r));
    if (r->parts & HX_ANALYSE_SURE)
        HX_TRY(find_differences(r));
    HX_TRY(end_types(r));
    hx_dominators_drop_parent(&r->dominators);
    if (r->parts & HX_ANALYSE_TYPES)
        HX_TRY(find_types(r));
    if (r->sure.too_many)
        HX_TRY(find_sure(r));
    if (!(r->parts & (HX_ANALYSE_RETAINED | HX_ANALYSE_SURE)))
        return NULL;
    HX_TRY(hx_alike_forget(w, HX_ALIKE_DOMINATORS));
    HX_TRY(write_top(r));
    return hx_alike_share(w, HX_ALIKE_DOMINATORS);
}

static void deinit(struct retained *r)
{
    if (r->measures && r->measuring.started) /* something else failed */
        hx_aside_end(&r->measuring);
    hx_error_free(r->measure_error);
    hx_sure_deinit(&r->sure);
    hx_dominators_deinit(&r->dominators);
    hx_groups_deinit(&r->types);
    hx_big_free(&r->group_mem);
    free(r->top);
}

hx_error *hx_analyse_retained(struct hx_writer *w, const struct hx_analysis *analysis,
                              unsigned parts, struct hx_dominators_aside *aside)
{
    struct retained r = {
        .w = w, .analysis = analysis, .aside = aside, .threads = analysis->threads, .parts = parts};
    hx_error *err = run_retained(&r);
    deinit(&r);
    return err;
}

hx_error *hx_analyse_types(struct hx_writer *w)
{
    struct retained r = {.w = w};
    hx_error *err = group_by_type(&r);
    if (!err)
        err = write_types(&r, NULL);
    deinit(&r);
    return err;
}
