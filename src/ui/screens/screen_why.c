/* screen_why.c - why an object is alive: chains of references from roots, each read from its root
 * down to the object.
 *
 * It asks the graph of the snapshot, on the WORK lane. A pane with a text is about one retainer:
 * the text is its label, `more` the scheme that gives it; chains then begin in its roots only.
 * Who allocated the object is in the pane's facts.
 */
#include "base/bits.h"
#include "ui/app.h"
#include "ui/data/call_label.h"

#include "traverse/leaks.h"
#include "traverse/reach.h"
#include "traverse/retain/scheme.h"
#include "ui/job.h"
#include "ui/list/pane.h"
#include "traverse/hold/rounds.h"

#include <inttypes.h>
#include <string.h>

#define CHAINS_MAX 20
/* Steps that are the same over and over (a list) are shown from this many on as one row. */
#define ALIKE_MIN 6
/* Of a longer chain only so many rows of either end are shown. */
#define END_ROWS 500

static const struct hx_column columns[] = {
    {"reference", "chain", HX_AS_TYPE, -20, 0, NULL, NULL},
    {"offset", NULL, HX_AS_OFFSET, 8, 1, NULL, NULL},
    {"kind", "points", HX_AS_TEXT, 8, 4, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 7, 3, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -8, 2, NULL, NULL},
    {0},
};
/* As `heapx why` names them, and what stands on the left of a line. The first row of a chain is its
 * root, and each other an object: where the pointer to it stands in the one above. */
static const char *const names[] = {"chain", "step",  "root_id", "source", "target",    "offset",
                                    "kind",  "bytes", "type",    "rule",   "reference", NULL};
enum { CHAIN, STEP, ROOT_ID, SOURCE, TARGET, OFFSET, KIND, BYTES, TYPE, RULE, REFERENCE };

struct asking {
    struct hx_job job;
    struct hx_ui *ui; /* only its graph is used on the lane */
    uint64_t pane, address;
    int64_t snapshot;
    char *retainer, *scheme; /* of the pane; NULL: any root */
    size_t levels;           /* deeper ones stand below each other */
    hx_store *store;         /* while chains are written down */
    struct hx_table rows, frames;
    size_t depth; /* rows of the chain so far */
    enum hx_state state;
};

/* --- rows --- */

static hx_error *set_text(struct hx_cell *cell, struct hx_text *text)
{
    hx_error *error =
        text->failed ? hx_error_nomem() : hx_cell_set_text(cell, hx_text_str(text), text->n);
    hx_text_free(text);
    return error;
}

/* "1 cache = cache_head of victim" */
static hx_error *add_chain_root(struct asking *asking, size_t number, const struct hx_chain *chain)
{
    const struct hx_snapshot *snapshot = asking->ui->graph;
    const struct hx_step *first = &chain->step[0];
    const struct hx_root *root = &snapshot->roots.v[first->root];
    const struct hx_named *named = hx_chain_named(snapshot, chain);
    const char *kind = hx_root_kind_name(root->kind);
    struct hx_text text = {0};
    struct hx_cell *cell;
    HX_TRY(hx_table_add(&asking->rows, &cell));
    hx_cell_set_int(&cell[CHAIN], (int64_t)number + 1);
    hx_cell_set_int(&cell[STEP], 0);
    hx_cell_set_int(&cell[ROOT_ID], (int64_t)first->root);
    if (hx_root_has_place(root))
        hx_cell_set_int(&cell[BYTES], (int64_t)root->size);
    HX_TRY(hx_cell_set_text(&cell[TYPE], kind, strlen(kind)));
    hx_text_putf(&text, "%zu ", number + 1);
    if (named && strcmp(named->name, root->name) != 0)
        hx_text_putf(&text, "%s = ", named->name);
    hx_text_puts(&text, root->name);
    if (*root->module && strncmp(root->name, root->module, strlen(root->module)) != 0)
        hx_text_putf(&text, " of %s", root->module);
    return set_text(&cell[REFERENCE], &text);
}

/* "stray: behind the end of a vector", of a word that is not firm. */
static hx_error *tell_word(struct asking *asking, const struct hx_step *step, struct hx_cell *cell)
{
    static const char *const ranks[] = {[HX_RANK_SPARSE] = "sparse", [HX_RANK_STRAY] = "stray"};
    const struct hx_snapshot *snapshot = asking->ui->graph;
    struct hx_word_figures figures = {.requested = -1};
    hx_eidx edge;
    enum hx_rule rule = (enum hx_rule)hx_step_rule(snapshot, step, &edge);
    enum hx_rank rank = hx_rule_rank(rule);
    if (rank == HX_RANK_FIRM)
        return NULL;
    if (step->source != HX_NO_OBJ)
        HX_TRY(hx_ui_word_figures(asking->store, asking->snapshot,
                                  snapshot->graph.addr[step->source], (int64_t)step->offset,
                                  &figures));
    struct hx_text text = {0};
    hx_text_putf(&text, "%s: ", ranks[rank]);
    hx_rule_put(rule, &figures, &text);
    HX_TRY(set_text(&cell[RULE], &text));
    return hx_cell_set_text(&cell[KIND], ranks[rank], strlen(ranks[rank]));
}

static void put_indent(struct asking *asking, struct hx_text *text)
{
    asking->depth++;
    for (size_t i = 0; i < asking->depth && i < asking->levels; i++)
        hx_text_puts(text, "  ");
}

static hx_error *set_name(struct hx_cell *cell, const struct hx_snapshot *snapshot, hx_obj object)
{
    struct hx_text name = {0};
    hx_snapshot_put_name(snapshot, object, &name);
    if (name.n || name.failed)
        return set_text(cell, &name);
    return NULL;
}

/* Step `i` of a chain: the object that it leads to. left_out: this and the ones behind it. */
static hx_error *add_step(struct asking *asking, size_t number, const struct hx_chain *chain,
                          size_t i, size_t left_out, bool alike)
{
    const struct hx_snapshot *snapshot = asking->ui->graph;
    const struct hx_graph *graph = &snapshot->graph;
    const struct hx_step *step = &chain->step[i];
    struct hx_text text = {0};
    struct hx_cell *cell;
    HX_TRY(hx_table_add(&asking->rows, &cell));
    hx_cell_set_int(&cell[CHAIN], (int64_t)number + 1);
    hx_cell_set_int(&cell[STEP], (int64_t)i + 1);
    if (i)
        hx_cell_set_int(&cell[SOURCE], (int64_t)graph->addr[step->source]);
    else
        hx_cell_set_int(&cell[ROOT_ID], (int64_t)step->root);
    hx_cell_set_int(&cell[TARGET], (int64_t)graph->addr[step->target]);
    if (left_out <= 1 || alike) {
        const char *kind = hx_edge_kind_name((enum hx_edge_kind)step->kind);
        if (i || hx_root_has_place(&snapshot->roots.v[step->root]))
            hx_cell_set_int(&cell[OFFSET], (int64_t)step->offset);
        hx_cell_set_int(&cell[BYTES], (int64_t)graph->size[step->target]);
        HX_TRY(hx_cell_set_text(&cell[KIND], kind, strlen(kind)));
        HX_TRY(set_name(&cell[TYPE], snapshot, step->target));
        HX_TRY(tell_word(asking, step, cell));
    }
    put_indent(asking, &text);
    if (left_out > 1) {
        hx_text_puts(&text, "... ");
        hx_text_count(&text, (int64_t)left_out);
        hx_text_puts(&text, alike ? " such" : " steps");
    } else {
        if (hx_step_put_field(snapshot, step, &text))
            hx_text_puts(&text, " -> ");
        hx_text_putf(&text, "0x%" PRIx64, graph->addr[step->target]);
    }
    return set_text(&cell[REFERENCE], &text);
}

/* Do two steps look the same but for the objects? */
static bool steps_look_alike(const struct hx_graph *graph, const struct hx_step *a,
                             const struct hx_step *b)
{
    return a->offset == b->offset && a->kind == b->kind &&
           graph->size[a->target] == graph->size[b->target] &&
           (!graph->type || graph->type[a->target] == graph->type[b->target]);
}

/* So many steps from step `i` on (not the first of the chain) look the same. */
static size_t count_alike(const struct hx_graph *graph, const struct hx_chain *chain, size_t i)
{
    size_t n = 1;
    while (i && i + n < chain->n && steps_look_alike(graph, &chain->step[i], &chain->step[i + n]))
        n++;
    return n;
}

/* Shows the steps [begin, end) of a chain, of alike ones the first and the last. */
static hx_error *add_steps(struct asking *asking, size_t number, const struct hx_chain *chain,
                           size_t begin, size_t end)
{
    const struct hx_graph *graph = &asking->ui->graph->graph;
    for (size_t i = begin; i < end;) {
        size_t n = count_alike(graph, chain, i);
        n = n > end - i ? end - i : n;
        HX_TRY(add_step(asking, number, chain, i, 1, false));
        i++;
        if (n < ALIKE_MIN)
            continue;
        HX_TRY(add_step(asking, number, chain, i, n - 2, true));
        HX_TRY(add_step(asking, number, chain, i + n - 2, 1, false));
        i += n - 1;
    }
    return NULL;
}

/* Where so many rows from a place on end; steps that are shown as one row are one. */
static size_t skip_rows(const struct hx_graph *graph, const struct hx_chain *chain, size_t i,
                        size_t rows)
{
    for (; rows && i < chain->n; rows--) {
        size_t n = count_alike(graph, chain, i);
        i += n < ALIKE_MIN ? 1 : n;
    }
    return i;
}

static hx_error *add_chain(struct asking *asking, size_t number, const struct hx_chain *chain)
{
    const struct hx_graph *graph = &asking->ui->graph->graph;
    size_t head = skip_rows(graph, chain, 0, END_ROWS);
    size_t tail = chain->n - head > END_ROWS ? chain->n - END_ROWS : head;
    asking->depth = 0;
    HX_TRY(add_chain_root(asking, number, chain));
    HX_TRY(add_steps(asking, number, chain, 0, head));
    if (tail > head)
        HX_TRY(add_step(asking, number, chain, head, tail - head, false));
    return add_steps(asking, number, chain, tail, chain->n);
}

/* An object that only lost ones lead to: the leak at their head, and how far it is. */
static hx_error *add_leak(struct asking *asking, hx_obj object, const struct hx_progress *progress)
{
    const struct hx_snapshot *snapshot = asking->ui->graph;
    const struct hx_graph *graph = &snapshot->graph;
    hx_obj leak;
    uint64_t steps;
    HX_TRY(hx_leaks_holder(graph, object, progress, &leak, &steps));
    if (leak == HX_NO_OBJ)
        return NULL;
    struct hx_text text = {0};
    struct hx_cell *cell;
    HX_TRY(hx_table_add(&asking->rows, &cell));
    hx_cell_set_int(&cell[TARGET], (int64_t)graph->addr[leak]);
    hx_cell_set_int(&cell[BYTES], (int64_t)graph->size[leak]);
    HX_TRY(set_name(&cell[TYPE], snapshot, leak));
    hx_text_putf(&text, "leak 0x%" PRIx64 ", ", graph->addr[leak]);
    hx_text_count(&text, (int64_t)steps);
    hx_text_puts(&text, steps == 1 ? " step" : " steps");
    return set_text(&cell[REFERENCE], &text);
}

/* --- asking --- */

/* Is it the retainer of that label? No two ways to name threads make one label. */
static bool is_retainer(const struct hx_scheme *scheme, const struct hx_root *root,
                        const char *retainer, struct hx_text *text)
{
    bool is = false;
    for (int as = HX_THREADS_AS_NAME; as <= HX_THREADS_AS_PARTS && !is; as++) {
        struct hx_identity identity = {.kind = hx_root_kind_name(root->kind)};
        hx_text_clear(text);
        scheme->root(root, (enum hx_threads_as)as, text, &identity);
        is = strcmp(identity.label ? identity.label : hx_text_str(text), retainer) == 0;
    }
    return is;
}

/* A bit for each root that is the retainer. */
static hx_error *choose_roots(const struct hx_snapshot *snapshot, const char *retainer,
                              const struct hx_scheme *scheme, uint64_t **ret)
{
    uint64_t *roots = calloc(snapshot->roots.n / 64 + 1, sizeof *roots);
    struct hx_text text = {0};
    bool failed = !roots;
    for (size_t i = 0; i < snapshot->roots.n && !failed; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        if (root->kind != HX_ROOT_NAMED && is_retainer(scheme, root, retainer, &text))
            hx_bit_set(roots, i);
        failed = text.failed;
    }
    hx_text_free(&text);
    if (failed) {
        free(roots);
        return hx_error_nomem();
    }
    *ret = roots;
    return NULL;
}

/* The innermost calls of whoever allocated it. */
static hx_error *read_frames(struct asking *asking, hx_store *store)
{
    HX_ROWS hx_rows *rows = NULL;
    HX_TRY(hx_query_named(store, HX_QUERY_stack,
                          HX_QUERY_ARGS(.snapshot = asking->snapshot, .address = asking->address,
                                        .limit = HX_FACTS_MAX),
                          &rows));
    HX_TRY(hx_table_read(&asking->frames, rows, HX_FACTS_MAX));
    return NULL;
}

/* Those that begin in the object's holder come first: who asks looks at what it holds. */
static hx_error *put_holder_first(struct asking *asking, hx_store *store, struct hx_chains *chains)
{
    const struct hx_snapshot *snapshot = asking->ui->graph;
    HX_ROWS hx_rows *rows = NULL;
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    bool more;
    HX_TRY(hx_query_named(store, HX_QUERY_object_head,
                          HX_QUERY_ARGS(.snapshot = asking->snapshot, .address = asking->address),
                          &rows));
    HX_TRY(hx_rows_next(rows, &more));
    struct hx_value holder = more ? hx_rows_value(rows, 7) : (struct hx_value){0};
    size_t first = 0;
    for (size_t i = 0; i < chains->n && holder.type == HX_VALUE_TEXT; i++) {
        struct hx_chain chain = chains->chain[i];
        if (hx_chain_named(snapshot, &chain))
            first = i + 1; /* behind those of named roots */
        else if (is_retainer(&hx_scheme_root, &snapshot->roots.v[chain.step[0].root], holder.text,
                             &text)) {
            memmove(&chains->chain[first + 1], &chains->chain[first],
                    (i - first) * sizeof *chains->chain);
            chains->chain[first++] = chain;
        }
    }
    HX_NEED(!text.failed);
    return NULL;
}

static hx_error *find_chains_over(struct asking *asking, hx_obj object,
                                  const struct hx_progress *progress, struct hx_chains *ret)
{
    const struct hx_snapshot *snapshot = asking->ui->graph;
    const struct hx_scheme *scheme = asking->scheme ? hx_scheme_find(asking->scheme) : NULL;
    HX_FREE uint64_t *roots = NULL;
    if (!asking->retainer || !scheme)
        return hx_why_named_first(snapshot, object, CHAINS_MAX, progress, ret);
    HX_TRY(choose_roots(snapshot, asking->retainer, scheme, &roots));
    const struct hx_why_options options = {.limit = CHAINS_MAX, .roots = roots};
    return hx_why(snapshot, object, &options, progress, ret);
}

/* Over the edges of holders; where no chain of these leads there, over all. */
static hx_error *find_chains(struct asking *asking, hx_obj object,
                             const struct hx_hold_options *hold, const struct hx_progress *progress,
                             struct hx_chains *ret)
{
    struct hx_snapshot *snapshot = asking->ui->graph;
    HX_TRY(hx_choose(snapshot, hold, 0, progress));
    hx_error *error = find_chains_over(asking, object, progress, ret);
    hx_edges_restore(snapshot, 0);
    if (error || ret->n || !snapshot->graph.evidence)
        return error;
    return find_chains_over(asking, object, progress, ret);
}

static hx_error *why_job_run(struct hx_job *job, hx_store *store,
                             const struct hx_progress *progress)
{
    struct asking *asking = (struct asking *)job;
    struct hx_snapshot *snapshot;
    HX_TRY(hx_ui_graph_about(asking->ui, store, asking->snapshot, asking->address, progress,
                             &snapshot));
    hx_obj object = hx_graph_find(&snapshot->graph, asking->address);
    HX_TRY(hx_table_begin(&asking->rows, names));
    if (object == HX_NO_OBJ)
        return NULL;
    asking->state =
        snapshot->graph.state ? (enum hx_state)snapshot->graph.state[object] : HX_STATE_NONE;
    struct hx_hold_options hold;
    HX_TRY(hx_store_hold(store, asking->snapshot, &hold));
    HX_CLEANUP(hx_chains_deinit) struct hx_chains chains = {0};
    hx_jobs_leave_store(asking->ui->jobs);
    hx_error *error = find_chains(asking, object, &hold, progress, &chains);
    hx_jobs_enter_store(asking->ui->jobs);
    HX_TRY(error);
    asking->store = store;
    if (!asking->retainer)
        HX_TRY(put_holder_first(asking, store, &chains));
    for (size_t i = 0; i < chains.n; i++)
        HX_TRY(add_chain(asking, i, &chains.chain[i]));
    if (asking->state == HX_STATE_INDIRECT)
        HX_TRY(add_leak(asking, object, progress));
    return read_frames(asking, store);
}

static void why_job_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct asking *asking = (struct asking *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, asking->pane);
    if (error) {
        if (pane) {
            char line[512];
            hx_error_line(error, line, sizeof line);
            pane->problem = strdup(line);
            pane->loaded = true;
            pane->loading = false;
        }
        hx_ui_complain(ui, error);
        return;
    }
    if (!pane)
        return;
    pane->loading = false;
    pane->id = asking->state;
    hx_table_deinit(&pane->facts);
    pane->facts = asking->frames;
    asking->frames = (struct hx_table){0};
    hx_pane_set_rows(pane, &asking->rows);
}

static void why_job_destroy(struct hx_job *job)
{
    struct asking *asking = (struct asking *)job;
    hx_table_deinit(&asking->rows);
    hx_table_deinit(&asking->frames);
    free(asking->retainer);
    free(asking->scheme);
    free(asking);
}

static hx_error *fill_why(struct hx_ui *ui, struct hx_pane *pane)
{
    struct asking *asking = calloc(1, sizeof *asking);
    HX_NEED(asking);
    asking->job = (struct hx_job){.what = "looking for chains",
                                  .lane = HX_LANE_WORK,
                                  .run = why_job_run,
                                  .done = why_job_done,
                                  .destroy = why_job_destroy};
    asking->ui = ui;
    asking->pane = pane->serial;
    asking->address = pane->address;
    asking->snapshot = pane->snapshot;
    asking->levels = hx_term_columns() < 60 ? 3 : 8;
    asking->retainer = pane->text ? strdup(pane->text) : NULL;
    asking->scheme = pane->more ? strdup(pane->more) : NULL;
    if ((pane->text && !asking->retainer) || (pane->more && !asking->scheme)) {
        why_job_destroy(&asking->job);
        return hx_error_nomem();
    }
    pane->loading = true;
    hx_jobs_start(ui->jobs, &asking->job);
    return NULL;
}

static void put_found(const struct hx_pane *pane, struct hx_text *ret)
{
    int64_t chains = pane->total ? hx_table_int(&pane->rows, pane->rows.n_rows - 1, "chain", 0) : 0;
    if (chains)
        hx_text_putf(ret, ": %s%lld chain%s%s", chains == CHAINS_MAX ? "the first " : "",
                     (long long)chains, chains == 1 ? "" : "s",
                     chains == 1  ? ""
                     : pane->text ? ", shortest first"
                                  : ", named roots first");
    else if (pane->id == HX_STATE_NONE)
        hx_text_puts(ret, ": no such object");
    else if (!pane->text)
        hx_text_putf(ret, ": it is not, but lost (%s)", hx_state_name((enum hx_state)pane->id));
}

static void why_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    bool ascii = !ui->term.utf8;
    hx_text_putf(ret, "Why 0x%" PRIx64, pane->address);
    if (hx_term_columns() >= 60)
        hx_text_putf(ret, " is alive, in snapshot %lld", (long long)pane->snapshot);
    if (pane->text) {
        hx_text_puts(ret, "\nbecause of ");
        hx_pane_put_text(pane, ascii, ret);
    }
    if (!pane->loaded || pane->problem)
        return;
    if (!pane->filter)
        put_found(pane, ret);
    if (pane->chosen)
        hx_text_putf(ret, "\n%s", pane->chosen);
    if (pane->id == HX_STATE_NONE)
        return;
    hx_text_puts(ret, "\nallocated by ");
    if (!hx_frames_put(&pane->facts, 3, " < ", ascii, ret))
        hx_text_puts(ret, "- (heapx run and heapx record tell by whom)");
    size_t row;
    const char *rule = hx_pane_row(pane, &row) ? hx_table_text(&pane->rows, row, "rule") : "";
    if (*rule)
        hx_text_putf(ret, "\n%s", rule);
}

/* A chain's first row is its root, others are objects; `...` goes to the first that it stands for.
 */
static hx_error *open_why_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    uint64_t address;
    if (hx_pane_object(pane, row, &address))
        return hx_ui_open_object(ui, address);
    HX_TRY(hx_ui_open_text(ui, &hx_screen_root, hx_table_text(&pane->rows, row, "reference"),
                           hx_table_int(&pane->rows, row, "root_id", -1)));
    hx_ui_pane(ui)->from = pane->snapshot;
    return NULL;
}

const struct hx_screen hx_screen_why = {
    .name = "why",
    .about = "chains of references from roots to an object",
    .digit = -1,
    .by_argument = true,
    .pinned = true,
    .columns = columns,
    .object = "target",
    .fill = fill_why,
    .head = why_title,
    .empty = "No chain from a root leads here; R shows what refers to it.",
    .open = open_why_row,
};
