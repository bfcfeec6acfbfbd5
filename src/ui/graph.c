/* graph.c - the graph of one stored snapshot, kept from one question to the next. */
#include "ui/app.h"

hx_error *hx_ui_graph(struct hx_ui *ui, hx_store *store, int64_t number,
                      const struct hx_progress *progress, struct hx_snapshot **ret)
{
    if (!ui->graph || ui->graph_of != number) {
        hx_snapshot_destroy(hx_steal(ui->graph)); /* one at a time in memory */
        HX_TRY(hx_store_load(store, number, progress, &ui->graph));
        ui->graph_of = number;
    }
    *ret = ui->graph;
    return NULL;
}
