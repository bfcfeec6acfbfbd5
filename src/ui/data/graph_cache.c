/* graph_cache.c - the graph of one stored snapshot, kept from one question to the next; of a large
 * one only what concerns the object that is asked about.
 */
#include "ui/app.h"

#include "base/cleanup.h"
#include "ui/job.h"

/* Up to so many objects the whole graph is loaded: some 100 bytes for each. */
#define WHOLE_MAX 400000
/* Otherwise so many, of those that reach the object. */
#define PART_MAX 400000

static void forget_graph(struct hx_ui *ui)
{
    hx_snapshot_destroy(hx_steal(ui->graph));
    ui->graph_of = 0;
}

hx_error *hx_ui_graph(struct hx_ui *ui, hx_store *store, int64_t number,
                      const struct hx_progress *progress, struct hx_snapshot **ret)
{
    if (!ui->graph || ui->graph_of != number) {
        forget_graph(ui); /* one at a time in memory */
        hx_backwards_destroy(hx_steal(ui->backwards));
        HX_TRY(hx_store_load(store, number, progress, &ui->graph));
        ui->graph_of = number;
    }
    *ret = ui->graph;
    return NULL;
}

static hx_error *find_backwards(struct hx_ui *ui, hx_store *store, int64_t number,
                                const struct hx_progress *progress)
{
    if (ui->backwards && ui->backwards_of == number)
        return NULL;
    hx_backwards_destroy(hx_steal(ui->backwards));
    HX_TRY(hx_store_backwards(store, number, progress, hx_jobs_breathe, ui->jobs, &ui->backwards));
    ui->backwards_of = number;
    return NULL;
}

/* Loads the object with all that can be on a chain to it into the snapshot, which has the roots. */
static hx_error *load_part(struct hx_ui *ui, hx_store *store, int64_t number, uint64_t address,
                           const struct hx_progress *progress, struct hx_snapshot *into)
{
    HX_FREE uint64_t *chosen = NULL;
    hx_obj object;
    HX_TRY(find_backwards(ui, store, number, progress));
    HX_TRY(hx_store_object(store, number, address, &object));
    hx_error *error = NULL;
    if (object != HX_NO_OBJ) {
        hx_jobs_leave_store(ui->jobs);
        error = hx_backwards_choose(ui->backwards, into, object, PART_MAX, progress, &chosen);
        hx_jobs_enter_store(ui->jobs);
    } else if (!(chosen = calloc((size_t)into->graph.n / 64 + 1, sizeof *chosen))) {
        error = hx_error_nomem();
    }
    return error ? error : hx_store_load_chosen(store, number, chosen, progress, into);
}

hx_error *hx_ui_graph_about(struct hx_ui *ui, hx_store *store, int64_t number, uint64_t address,
                            const struct hx_progress *progress, struct hx_snapshot **ret)
{
    HX_SNAPSHOT struct hx_snapshot *part = NULL;
    if (!ui->graph || ui->graph_of != number)
        HX_TRY(hx_store_load_roots(store, number, progress, &part));
    if (!part || part->graph.n <= WHOLE_MAX) {
        HX_TRY(hx_ui_graph(ui, store, number, progress, ret));
    } else {
        forget_graph(ui);
        HX_TRY(load_part(ui, store, number, address, progress, part));
        *ret = ui->graph = hx_steal(part);
    }
    return (*ret)->graph.rev ? NULL : hx_graph_reverse(&(*ret)->graph, 0, progress);
}
