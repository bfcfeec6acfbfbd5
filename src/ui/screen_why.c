/* screen_why.c - why an object is alive: chains of references from roots, shortest first.
 *
 * It asks the graph of the snapshot, on the WORK lane. A pane with a text is about one retainer:
 * the text is its label, `more` the scheme that gives it; chains then begin in its roots only.
 */
#include "ui/app.h"

#include "traverse/reach.h"
#include "traverse/scheme.h"

#include <inttypes.h>
#include <string.h>

#define CHAINS_MAX 20

static const struct hx_column columns[] = {
    {"chain", NULL, HX_AS_COUNT, 5, 1, NULL, NULL},
    {"from", NULL, HX_AS_TEXT, 0, 0, NULL, NULL},
    {"offset", NULL, HX_AS_OFFSET, 9, 2, NULL, NULL},
    {"kind", "points", HX_AS_TEXT, 8, 4, NULL, NULL},
    {"target", "to object", HX_AS_HEX, 14, 0, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 7, 3, NULL, NULL},
    {0},
};
/* As `heapx why` names them, and what stands on the left of a line. */
static const char *const names[] = {"chain", "step",  "root_id", "source", "target", "offset",
                                    "kind",  "bytes", "type",    "from",   NULL};
enum { CHAIN, STEP, ROOT_ID, SOURCE, TARGET, OFFSET, KIND, BYTES, TYPE, FROM };

struct asking {
    struct hx_job job;
    struct hx_ui *ui; /* only its graph is used on the lane */
    uint64_t pane, address;
    int64_t snapshot;
    char *retainer, *scheme; /* of the pane; NULL: any root */
    struct hx_table rows;
    enum hx_state state;
};

static hx_error *load_graph(struct asking *asking, hx_store *store,
                            const struct hx_progress *progress)
{
    struct hx_snapshot *snapshot;
    HX_TRY(hx_ui_graph(asking->ui, store, asking->snapshot, progress, &snapshot));
    return snapshot->graph.rev ? NULL : hx_graph_reverse(&snapshot->graph, 0, progress);
}

static hx_error *set_from(const struct hx_snapshot *snapshot, const struct hx_step *step,
                          struct hx_cell *cell)
{
    struct hx_text from = {0};
    if (step->source == HX_NO_OBJ && step->root < snapshot->roots.n) {
        const struct hx_root *root = &snapshot->roots.v[step->root];
        hx_text_puts(&from, root->name ? root->name : "");
        if (root->module && *root->module)
            hx_text_putf(&from, " (%s)", root->module);
    } else if (step->source < snapshot->graph.n) {
        hx_text_putf(&from, "  0x%" PRIx64, snapshot->graph.addr[step->source]);
    }
    hx_error *error =
        from.failed ? hx_error_nomem() : hx_cell_set_text(&cell[FROM], hx_text_str(&from), from.n);
    hx_text_free(&from);
    return error;
}

static hx_error *add_step(struct asking *asking, size_t chain, size_t number,
                          const struct hx_step *step)
{
    const struct hx_snapshot *snapshot = asking->ui->graph;
    const struct hx_graph *graph = &snapshot->graph;
    struct hx_cell *cell;
    HX_TRY(hx_table_add(&asking->rows, &cell));
    hx_cell_set_int(&cell[CHAIN], (int64_t)chain + 1);
    hx_cell_set_int(&cell[STEP], (int64_t)number + 1);
    if (step->source == HX_NO_OBJ) {
        hx_cell_set_int(&cell[ROOT_ID], (int64_t)step->root);
    } else if (step->source < graph->n) {
        hx_cell_set_int(&cell[SOURCE], (int64_t)graph->addr[step->source]);
    }
    if (step->target < graph->n) {
        hx_cell_set_int(&cell[TARGET], (int64_t)graph->addr[step->target]);
        hx_cell_set_int(&cell[BYTES], (int64_t)graph->size[step->target]);
    }
    hx_cell_set_int(&cell[OFFSET], (int64_t)step->offset);
    const char *kind = hx_edge_kind_name((enum hx_edge_kind)step->kind);
    HX_TRY(hx_cell_set_text(&cell[KIND], kind, strlen(kind)));
    return set_from(snapshot, step, cell);
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
        struct hx_identity identity = {.kind = hx_root_kind_name(root->kind)};
        if (root->kind == HX_ROOT_NAMED)
            continue;
        hx_text_clear(&text);
        scheme->root(root, &text, &identity);
        if (strcmp(identity.label ? identity.label : hx_text_str(&text), retainer) == 0)
            roots[i / 64] |= UINT64_C(1) << i % 64;
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

static hx_error *asking_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    struct asking *asking = (struct asking *)job;
    HX_TRY(load_graph(asking, store, progress));
    const struct hx_snapshot *snapshot = asking->ui->graph;
    hx_obj object = hx_graph_find(&snapshot->graph, asking->address);
    HX_TRY(hx_table_begin(&asking->rows, names));
    if (object == HX_NO_OBJ)
        return NULL;
    asking->state =
        snapshot->graph.state ? (enum hx_state)snapshot->graph.state[object] : HX_STATE_NONE;
    struct hx_chains chains = {0};
    HX_FREE uint64_t *roots = NULL;
    const struct hx_scheme *scheme = asking->scheme ? hx_scheme_find(asking->scheme) : NULL;
    if (asking->retainer && scheme)
        HX_TRY(choose_roots(snapshot, asking->retainer, scheme, &roots));
    const struct hx_why_options options = {.limit = CHAINS_MAX, .roots = roots};
    HX_TRY(hx_why(snapshot, object, &options, progress, &chains));
    hx_error *error = NULL;
    for (size_t i = 0; i < chains.n && !error; i++)
        for (size_t k = 0; k < chains.chain[i].n && !error; k++)
            error = add_step(asking, i, k, &chains.chain[i].step[k]);
    hx_chains_deinit(&chains);
    return error ? error : hx_table_show(&asking->rows, progress);
}

static void asking_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
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
    hx_pane_set_rows(pane, &asking->rows);
}

static void asking_destroy(struct hx_job *job)
{
    struct asking *asking = (struct asking *)job;
    hx_table_deinit(&asking->rows);
    free(asking->retainer);
    free(asking->scheme);
    free(asking);
}

static hx_error *fill(struct hx_ui *ui, struct hx_pane *pane)
{
    struct asking *asking = calloc(1, sizeof *asking);
    if (!asking)
        return hx_error_nomem();
    asking->job = (struct hx_job){.what = "looking for chains",
                                  .lane = HX_LANE_WORK,
                                  .run = asking_run,
                                  .done = asking_done,
                                  .destroy = asking_destroy};
    asking->ui = ui;
    asking->pane = pane->serial;
    asking->address = pane->address;
    asking->snapshot = pane->snapshot;
    asking->retainer = pane->text ? strdup(pane->text) : NULL;
    asking->scheme = pane->more ? strdup(pane->more) : NULL;
    if ((pane->text && !asking->retainer) || (pane->more && !asking->scheme)) {
        asking_destroy(&asking->job);
        return hx_error_nomem();
    }
    pane->loading = true;
    hx_jobs_start(ui->jobs, &asking->job);
    return NULL;
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    hx_text_putf(ret, "Why 0x%" PRIx64 " is alive, in snapshot %lld", pane->address,
                 (long long)pane->snapshot);
    if (pane->text) {
        hx_text_puts(ret, "\nbecause of ");
        hx_pane_put_text(pane, !ui->term.utf8, ret);
    }
    if (!pane->loaded || pane->problem || pane->filter)
        return;
    int64_t chains = pane->total ? hx_table_int(&pane->rows, pane->rows.n_rows - 1, "chain", 0) : 0;
    if (pane->total)
        hx_text_putf(ret, ": %lld chain%s%s, shortest first", (long long)chains,
                     chains == 1 ? "" : "s", pane->text ? "" : " from roots");
    else if (pane->id == HX_STATE_NONE)
        hx_text_puts(ret, ": no such object");
    else
        hx_text_putf(ret, ": it is lost (%s)", hx_state_name((enum hx_state)pane->id));
}

/* Enter goes where the step leads. */
const struct hx_screen hx_screen_why = {
    .name = "why",
    .about = "chains of references from roots to an object",
    .digit = -1,
    .by_argument = true,
    .pinned = true,
    .columns = columns,
    .object = "target",
    .fill = fill,
    .head = head,
    .empty = "No chain from a root leads here; R on its row shows what refers to it.",
};
