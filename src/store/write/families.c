/* families.c - the large tables of a snapshot.
 *
 * They go block by block: the columns of some blocks are gathered from the model and compressed
 * ahead by several threads, and inserted in order, so that memory beyond the model stays at a few
 * blocks (and four bytes an object for the count of incoming edges). */
#include "store/write/families.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "base/parallel.h"
#include "store/objects/classes.h"
#include "store/write/alike.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define COLUMNS      10 /* of a family, at most */

/* Rows [from, to) of a family, gathered for one column. */
struct span {
    uint64_t from, to;
};

typedef void gather_fn(const struct hx_writer *w, const struct span *span, uint64_t *value);

static void gather_gap(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_graph *g = w->graph;
    *value++ = 0;
    for (uint64_t i = span->from + 1; i < span->to; i++)
        *value++ = g->addr[i] - (g->addr[i - 1] + g->size[i - 1]);
}

static void gather_size(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    memcpy(value, w->graph->size + span->from, (span->to - span->from) * sizeof *value);
}

static void gather_state(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = w->graph->state ? w->graph->state[i] : HX_STATE_NONE;
}

static uint64_t edges_in(const struct hx_writer *w, uint64_t i)
{
    const hx_eidx *rev = w->graph->rev;
    return w->in ? w->in[i] : rev ? rev[i + 1] - rev[i] : 0;
}

static uint64_t edges_out(const struct hx_writer *w, uint64_t i)
{
    const hx_eidx *fwd = w->graph->fwd;
    return fwd ? fwd[i + 1] - fwd[i] : 0;
}

static void gather_in(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = edges_in(w, i);
}

static void gather_out(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = edges_out(w, i);
}

static void gather_type(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = hx_writer_type(w, i);
}

static void gather_typed(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = w->graph->typed[i];
}

static void gather_requested(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = w->graph->requested[i] + 1; /* unknown: 0 */
}

static void gather_shape(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = hx_writer_shape(w, i);
}

static void gather_stack(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = (uint64_t)w->snapshot->sites.v[w->graph->site[i]].stack_id;
}

/* The object that an edge belongs to. */
static hx_obj source_of(const struct hx_graph *graph, hx_eidx edge)
{
    return (hx_obj)HX_LOWER_BOUND(graph->n, i, graph->fwd[i + 1] <= edge);
}

static void gather_target(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_graph *g = w->graph;
    hx_obj source = source_of(g, span->from);
    for (uint64_t e = span->from; e < span->to; e++) {
        while (e >= g->fwd[source + 1])
            source++;
        *value++ = hx_zigzag((int64_t)hx_edge_target(g->edge[e]) - (int64_t)source);
    }
}

static void gather_offset(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = hx_edge_offset(w->graph->edge[e]) / 8;
}

static void gather_kind(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = hx_edge_kind_of(w->graph->edge[e]);
}

static void gather_evidence(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = HX_EVIDENCE_RULE(w->graph->evidence[e]);
}

static void gather_root(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    *value++ = 0;
    for (uint64_t e = span->from + 1; e < span->to; e++)
        *value++ = edge[e].root - edge[e - 1].root;
}

static void gather_root_target(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    int64_t before = 0;
    for (uint64_t e = span->from; e < span->to; e++) {
        *value++ = hx_zigzag((int64_t)edge[e].target - before);
        before = edge[e].target;
    }
}

static void gather_word(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    uint64_t before = 0;
    for (uint64_t e = span->from; e < span->to; e++) {
        *value++ = hx_zigzag((int64_t)(edge[e].address - before));
        before = edge[e].address;
    }
}

static void gather_root_kind(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = w->snapshot->root_edges.v[e].kind;
}

static void gather_root_evidence(const struct hx_writer *w, const struct span *span,
                                 uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = HX_EVIDENCE_RULE(w->snapshot->root_edges.v[e].evidence);
}

static uint64_t first_page(const struct hx_range *range)
{
    return range->start / HX_PAGE_BYTES;
}

static uint64_t end_page(const struct hx_range *range)
{
    return (range->end + HX_PAGE_BYTES - 1) / HX_PAGE_BYTES;
}

static void gather_first_page(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_range *range = w->snapshot->resident.v;
    *value++ = 0;
    for (uint64_t i = span->from + 1; i < span->to; i++)
        *value++ = first_page(&range[i]) - end_page(&range[i - 1]);
}

static void gather_pages(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_range *range = w->snapshot->resident.v;
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = end_page(&range[i]) - first_page(&range[i]);
}

struct column {
    enum hx_column_id id;
    gather_fn *gather;
    bool early; /* what it holds is settled once words are judged */
};
/* The first ALWAYS are always there, each of the others when somebody has looked. */
static const struct column object_columns[] = {
    {HX_COL_GAP, gather_gap, true},
    {HX_COL_SIZE, gather_size, true},
    {HX_COL_STATE, gather_state, false},
    {HX_COL_IN, gather_in, true},
    {HX_COL_OUT, gather_out, true},
    {HX_COL_TYPE, gather_type, false},
    {HX_COL_REQUESTED, gather_requested, true},
    {HX_COL_STACK, gather_stack, false},
    {HX_COL_SHAPE, gather_shape, true},
    {HX_COL_TYPED, gather_typed, false},
};
enum { ALWAYS = 5 };
/* Who the sources are follows from what goes out of each object. */
static const struct column edge_columns[] = {
    {HX_COL_TARGET, gather_target, true},
    {HX_COL_OFFSET, gather_offset, true},
    {HX_COL_KIND, gather_kind, true},
    {HX_COL_EVIDENCE, gather_evidence, false}, /* last: where words were judged */
};
static const struct column root_edge_columns[] = {
    {HX_COL_ROOT, gather_root, false},
    {HX_COL_ROOT_TARGET, gather_root_target, false},
    {HX_COL_WORD, gather_word, false},
    {HX_COL_KIND, gather_root_kind, false},
    {HX_COL_EVIDENCE, gather_root_evidence, false}, /* last: where words were judged */
};

static const struct column resident_columns[] = {
    {HX_COL_FIRST_PAGE, gather_first_page, false},
    {HX_COL_PAGES, gather_pages, false},
};

struct keys {
    uint64_t first, last, bytes;
};
typedef void keys_fn(struct hx_writer *w, const struct span *span, struct keys *ret);
typedef void classify_fn(const struct hx_writer *w, const struct span *span, uint16_t *class);

/* A family's columns that are encoded already. */
struct early {
    bool has[COLUMNS]; /* by place in the family's table, as all of these */
    hx_ends *ends[COLUMNS];
    struct blob {
        void *bytes; /* NULL: it was put */
        size_t n;
    } * blob; /* COLUMNS for each block */
    size_t blobs;
};

/* All rows of a family, and the columns that they have. */
struct family {
    struct hx_writer *w;
    enum hx_family id;
    uint64_t rows;
    const struct column *table, *column[COLUMNS]; /* of the table: those that there are */
    size_t columns;
    size_t piece[COLUMNS]; /* of these: what is to be encoded of each block */
    size_t pieces;
    keys_fn *keys;
    classify_fn *classify; /* NULL: no column is placed */
    struct early *early;
    int64_t block;          /* that pieces are put into */
    hx_ends *ends[COLUMNS]; /* of objects, for each column; NULL: none */
};

static size_t place_of(const struct family *family, size_t column)
{
    return (size_t)(family->column[column] - family->table);
}

static uint64_t blocks_of(const struct family *family)
{
    return (family->rows + HX_BLOCK_ROWS - 1) / HX_BLOCK_ROWS;
}

static struct span span_of_block(const struct family *family, size_t block)
{
    struct span span = {.from = (uint64_t)block * HX_BLOCK_ROWS};
    uint64_t left = family->rows - span.from;
    span.to = span.from + (left < HX_BLOCK_ROWS ? left : HX_BLOCK_ROWS);
    return span;
}

/* The column that piece i is of. */
static size_t column_of(const struct family *family, size_t i)
{
    return family->piece[i % family->pieces];
}

static size_t gather_piece(const void *context, size_t i, uint64_t *value)
{
    const struct family *family = context;
    struct span span = span_of_block(family, i / family->pieces);
    family->column[column_of(family, i)]->gather(family->w, &span, value);
    hx_ends *ends = family->ends[column_of(family, i)];
    if (ends)
        hx_ends_take(ends, span.from, value, span.to - span.from);
    return span.to - span.from;
}

static void classify_rows(const void *context, size_t block, uint16_t *class)
{
    const struct family *family = context;
    struct span span = span_of_block(family, block);
    family->classify(family->w, &span, class);
}

static bool is_placed(const void *context, size_t i)
{
    const struct family *family = context;
    return hx_column_may_be_placed(family->id, family->column[column_of(family, i)]->id);
}

static hx_error *encode_family(const struct family *family,
                               hx_error *(*put)(void *sink, size_t i, const void *blob,
                                                size_t bytes))
{
    struct hx_encode encode = {.pieces = (size_t)blocks_of(family) * family->pieces,
                               .context = family,
                               .gather = gather_piece,
                               .columns = family->pieces,
                               .classify = family->classify ? classify_rows : NULL,
                               .is_placed = is_placed,
                               .put = put,
                               .sink = (void *)family};
    return hx_encode(family->w->encoder, &encode, family->rows * family->pieces);
}

/* --- put into the store ------------------------------------------------------------ */

hx_error *hx_writer_put(struct hx_writer *w, int64_t block, enum hx_column_id column, size_t n)
{
    size_t bytes;
    HX_TRY(hx_column_encode(w->codec, w->value, NULL, n, w->blob, &bytes));
    return hx_alike_put(w, block, column, w->blob, bytes);
}

static hx_error *put_block(struct hx_writer *w, enum hx_family family, const struct span *span,
                           const struct keys *keys, int64_t *ret)
{
    int64_t block = w->next_block;
    if (!hx_block_id_is_sane(block))
        return hx_error_new(HX_E_CORRUPT, w->what, "take it from a backup or make it again",
                            "the store is damaged (numbers of blocks)");
    w->next_block++;
    *ret = block;
    return hx_insert(&w->insert, block, .id = hx_int(block), .snapshot = hx_int(w->id),
                     .family = hx_int(family), .first_row = hx_int(span->from),
                     .n = hx_int(span->to - span->from), .first_key = hx_int(keys->first),
                     .last_key = hx_int(keys->last), .bytes = hx_int(keys->bytes));
}

static hx_error *begin_block(struct family *family, size_t block)
{
    struct span span = span_of_block(family, block);
    struct keys keys = {0};
    family->keys(family->w, &span, &keys);
    family->w->rows_done += span.to - span.from;
    return put_block(family->w, family->id, &span, &keys, &family->block);
}

static hx_error *put_column(const struct family *family, size_t column, const void *blob,
                            size_t bytes)
{
    return hx_alike_put(family->w, family->block, family->column[column]->id, blob, bytes);
}

/* Columns [from, to) of a block, which are all encoded. */
static hx_error *put_early(const struct family *family, size_t block, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        struct blob *blob = &family->early->blob[block * COLUMNS + place_of(family, i)];
        HX_TRY(put_column(family, i, blob->bytes, blob->n));
        free(blob->bytes);
        blob->bytes = NULL;
    }
    return NULL;
}

static hx_error *look_up(struct hx_writer *w)
{
    hx_progress_at(w->progress, w->adding ? "storing" : "storing roots", w->rows_done,
                   w->rows_total);
    return hx_progress_cancelled(w->progress) ? hx_error_cancelled(w->what) : NULL;
}

static hx_error *put_piece(void *sink, size_t i, const void *blob, size_t bytes)
{
    struct family *family = sink;
    const size_t block = i / family->pieces, nth = i % family->pieces, column = family->piece[nth];
    const bool last = nth + 1 == family->pieces;
    if (nth == 0)
        HX_TRY(begin_block(family, block));
    HX_TRY(look_up(family->w));
    if (nth == 0)
        HX_TRY(put_early(family, block, 0, column));
    HX_TRY(put_column(family, column, blob, bytes));
    return put_early(family, block, column + 1, last ? family->columns : family->piece[nth + 1]);
}

static hx_error *write_family(struct family *family)
{
    for (size_t i = 0; i < family->columns; i++)
        if (!family->early || !family->early->has[place_of(family, i)])
            family->piece[family->pieces++] = i;
    if (family->pieces)
        return encode_family(family, put_piece);
    for (size_t block = 0; block < blocks_of(family); block++) {
        HX_TRY(begin_block(family, block));
        HX_TRY(look_up(family->w));
        HX_TRY(put_early(family, block, 0, family->columns));
    }
    return NULL;
}

/* --- objects ----------------------------------------------------------------------- */

static void find_object_keys(struct hx_writer *w, const struct span *span, struct keys *ret)
{
    const struct hx_graph *g = w->graph;
    *ret = (struct keys){g->addr[span->from], g->addr[span->to - 1], 0};
    for (uint64_t i = span->from; i < span->to; i++) {
        unsigned state = g->state && g->state[i] < HX_STATES ? g->state[i] : HX_STATE_NONE;
        w->state_bytes[state] += g->size[i];
        w->state_objects[state]++;
        ret->bytes += g->size[i];
    }
    w->heap_bytes += ret->bytes;
}

static void classify_objects(const struct hx_writer *w, const struct span *span, uint16_t *class)
{
    memcpy(class, w->class + span->from, (span->to - span->from) * sizeof *class);
}

static struct family object_family(struct hx_writer *w)
{
    const struct hx_graph *g = w->graph;
    const bool known[] = {g->type, g->requested, g->site, g->shape, g->typed};
    struct family family = {.w = w,
                            .id = HX_FAMILY_OBJECT,
                            .rows = g->n,
                            .table = object_columns,
                            .keys = find_object_keys,
                            .classify = classify_objects};
    for (size_t i = 0; i < COUNT(object_columns); i++)
        if (i < ALWAYS || known[i - ALWAYS])
            family.column[family.columns++] = &object_columns[i];
    return family;
}

/* The ends of a column, which are gathered now or were when it was encoded. */
static hx_error *find_ends(struct family *family, size_t column)
{
    struct early *early = family->early;
    const size_t place = place_of(family, column);
    if (!early || !early->has[place])
        return hx_writer_ends_begin(family->w, family->column[column]->id, &family->ends[column]);
    family->ends[column] = hx_steal(early->ends[place]);
    return NULL;
}

static hx_error *write_objects(struct hx_writer *w, struct early *early)
{
    struct family family = object_family(w);
    bool is_there[COUNT(object_columns)] = {false};
    hx_error *err = NULL;
    int64_t first = w->next_block;
    family.early = early;
    for (size_t i = 0; i < family.columns && !err; i++)
        err = find_ends(&family, i);
    if (!err)
        err = write_family(&family);
    for (size_t i = 0; i < family.columns; i++) {
        is_there[place_of(&family, i)] = true;
        if (!err)
            err = hx_writer_ends_put(w, first, family.column[i]->id, family.ends[i]);
        hx_ends_destroy(family.ends[i]);
    }
    for (size_t i = 0; i < COUNT(object_columns) && !err; i++)
        if (!is_there[i])
            err = hx_writer_ends_alike(w, first, object_columns[i].id);
    return err;
}

/* --- what they point to ------------------------------------------------------------ */

static void find_edge_keys(struct hx_writer *w, const struct span *span, struct keys *ret)
{
    const struct hx_graph *g = w->graph;
    hx_obj first = source_of(g, span->from);
    *ret = (struct keys){first, source_of(g, span->to - 1), span->from - g->fwd[first]};
}

static void classify_edges(const struct hx_writer *w, const struct span *span, uint16_t *class)
{
    const hx_eidx *fwd = w->graph->fwd;
    hx_obj source = source_of(w->graph, span->from);
    uint64_t nth = 0;
    for (uint64_t e = span->from; e < span->to; e++, nth++) {
        while (e >= fwd[source + 1]) {
            source++;
            nth = 0;
        }
        *class ++ = hx_edge_class_of(w->class[source], nth);
    }
}

static struct family family_of(struct hx_writer *w, enum hx_family id, uint64_t rows,
                               const struct column *table, size_t columns, keys_fn *keys)
{
    struct family family = {
        .w = w, .id = id, .rows = rows, .table = table, .columns = columns, .keys = keys};
    for (size_t i = 0; i < columns; i++)
        family.column[i] = &table[i];
    return family;
}

static struct family edge_family(struct hx_writer *w)
{
    const struct hx_graph *g = w->graph;
    struct family family = family_of(w, HX_FAMILY_EDGE, g->fwd ? g->n_edges : 0, edge_columns,
                                     COUNT(edge_columns) - !g->evidence, find_edge_keys);
    family.classify = classify_edges;
    return family;
}

static hx_error *write_edges(struct hx_writer *w, struct early *early)
{
    struct family family = edge_family(w);
    family.early = early;
    return write_family(&family);
}

static void find_root_edge_keys(struct hx_writer *w, const struct span *span, struct keys *ret)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    *ret = (struct keys){edge[span->from].root, edge[span->to - 1].root, 0};
}

hx_error *hx_writer_root_edges(struct hx_writer *w)
{
    struct family family =
        family_of(w, HX_FAMILY_ROOT_EDGE, w->snapshot->root_edges.n, root_edge_columns,
                  COUNT(root_edge_columns) - !w->graph->evidence, find_root_edge_keys);
    return write_family(&family);
}

hx_error *hx_writer_no_root_edges(struct hx_writer *w)
{
    int64_t block;
    return put_block(w, HX_FAMILY_ROOT_EDGE, &(struct span){0}, &(struct keys){0}, &block);
}

static void find_page_keys(struct hx_writer *w, const struct span *span, struct keys *ret)
{
    const struct hx_range *range = w->snapshot->resident.v;
    *ret = (struct keys){first_page(&range[span->from]), first_page(&range[span->to - 1]), 0};
}

static hx_error *write_resident(struct hx_writer *w)
{
    const uint64_t rows = w->snapshot->has_resident ? w->snapshot->resident.n : 0;
    struct family family = family_of(w, HX_FAMILY_RESIDENT, rows, resident_columns,
                                     COUNT(resident_columns), find_page_keys);
    return write_family(&family);
}

/* --- all of them ------------------------------------------------------------------- */

/* Incoming edges in one pass over the edges when the reverse index is not there. */
static hx_error *count_incoming(struct hx_writer *w)
{
    const struct hx_graph *g = w->graph;
    if (g->rev || !g->fwd)
        return NULL;
    HX_TRY(hx_big_array(w->in, g->n));
    for (hx_eidx e = 0; e < g->n_edges; e++) {
        uint32_t *count = &w->in[hx_edge_target(g->edge[e])];
        if (++*count == 0)
            return hx_error_new(HX_E_FAIL, w->what, NULL,
                                "an object with more than 2^32 references");
    }
    return NULL;
}

static hx_error *classify_all(struct hx_writer *w)
{
    HX_TRY(hx_big_array(w->class, w->graph->n));
    for (uint64_t i = 0; i < w->graph->n; i++)
        w->class[i] = hx_class_of(w->graph->size[i], edges_in(w, i), edges_out(w, i));
    return NULL;
}

static void early_deinit(struct early *early)
{
    for (size_t i = 0; i < COLUMNS; i++)
        hx_ends_destroy(early->ends[i]);
    for (size_t i = 0; early->blob && i < early->blobs; i++)
        free(early->blob[i].bytes);
    free(early->blob);
}

/* --- before the rest is known ------------------------------------------------------- */

enum { EARLY_LEAST = 1 << 18 /* objects and edges: fewer are written in no time */ };

struct hx_early_columns {
    struct hx_writer w;
    struct hx_progress progress;
    struct hx_aside aside;
    bool joined;
    hx_error *err;
    struct family object_family, edge_family; /* as they were when it began */
    struct early objects, edges;
};

static hx_error *keep_piece(void *sink, size_t i, const void *blob, size_t bytes)
{
    struct family *family = sink;
    struct blob *kept =
        &family->early->blob[i / family->pieces * COLUMNS + place_of(family, column_of(family, i))];
    HX_NEED(kept->bytes = malloc(bytes + 1));
    memcpy(kept->bytes, blob, bytes);
    kept->n = bytes;
    return hx_progress_cancelled(family->w->progress) ? hx_error_cancelled("columns") : NULL;
}

static hx_error *encode_early(struct family *family, struct early *early)
{
    early->blobs = (size_t)blocks_of(family) * COLUMNS;
    HX_NEED(early->blob = calloc(early->blobs + 1, sizeof *early->blob));
    for (size_t i = 0; i < family->columns; i++) {
        const size_t place = place_of(family, i);
        if (!family->column[i]->early)
            continue;
        early->has[place] = true;
        family->piece[family->pieces++] = i;
        if (family->id == HX_FAMILY_OBJECT)
            HX_TRY(hx_writer_ends_begin(family->w, family->column[i]->id, &early->ends[place]));
        family->ends[i] = early->ends[place];
    }
    family->early = early;
    return encode_family(family, keep_piece);
}

static hx_error *find_early(struct hx_early_columns *columns)
{
    struct hx_writer *w = &columns->w;
    HX_TRY(hx_encoder_create(w->threads, &w->encoder));
    HX_TRY(count_incoming(w));
    HX_TRY(classify_all(w));
    HX_TRY(encode_early(&columns->object_family, &columns->objects));
    hx_big_free(&w->in_mem);
    w->in = NULL;
    return encode_early(&columns->edge_family, &columns->edges);
}

static void work_early(void *context)
{
    struct hx_early_columns *columns = context;
    columns->err = find_early(columns);
}

void hx_early_columns_destroy(struct hx_early_columns *columns)
{
    if (!columns)
        return;
    if (!columns->joined)
        hx_aside_end(&columns->aside);
    hx_error_free(columns->err);
    hx_encoder_destroy(columns->w.encoder);
    hx_big_free(&columns->w.in_mem);
    hx_big_free(&columns->w.class_mem);
    early_deinit(&columns->objects);
    early_deinit(&columns->edges);
    free(columns);
}

void hx_early_columns_begin(struct hx_snapshot *snapshot, unsigned threads,
                            const struct hx_progress *progress)
{
    const struct hx_graph *graph = &snapshot->graph;
    threads = hx_threads(threads);
    if (threads < 2 || (uint64_t)graph->n + graph->n_edges < EARLY_LEAST || snapshot->early)
        return;
    struct hx_early_columns *columns = calloc(1, sizeof *columns);
    if (!columns) /* they are encoded in time */
        return;
    columns->progress = progress ? *progress : (struct hx_progress){0};
    columns->w = (struct hx_writer){.what = "columns",
                                    .snapshot = snapshot,
                                    .graph = graph,
                                    .progress = &columns->progress,
                                    .threads = threads - 1};
    columns->object_family = object_family(&columns->w);
    columns->edge_family = edge_family(&columns->w);
    snapshot->early = columns;
    snapshot->drop_early = hx_early_columns_destroy;
    hx_aside_begin(work_early, columns, &columns->aside);
}

void hx_early_columns_end(struct hx_snapshot *snapshot)
{
    struct hx_early_columns *columns = snapshot->early;
    if (!columns || columns->joined)
        return;
    hx_aside_end(&columns->aside);
    columns->joined = true;
    if (!columns->err)
        return;
    hx_early_columns_destroy(columns);
    snapshot->early = NULL;
}

hx_error *hx_writer_families(struct hx_writer *w)
{
    struct hx_early_columns *early = hx_steal(w->early);
    hx_error *err = NULL;
    if (early) {
        w->class = early->w.class;
        w->class_mem = early->w.class_mem;
        early->w.class_mem = (struct hx_big){0};
    } else {
        err = count_incoming(w);
        if (!err)
            err = classify_all(w);
    }
    if (!err)
        err = write_objects(w, early ? &early->objects : NULL);
    hx_big_free(&w->in_mem);
    w->in = NULL;
    if (!err)
        err = write_edges(w, early ? &early->edges : NULL);
    hx_early_columns_destroy(early);
    HX_TRY(err);
    HX_TRY(hx_writer_root_edges(w));
    return write_resident(w);
}
