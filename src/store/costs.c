/* costs.c - what was recorded, as rows: costs of the nodes with what they inherit, the errors of
 * estimates, the census of sites, and what a recording says of itself. */
#include "store/recording.h"

#include "base/cleanup.h"
#include "store/analyse.h"
#include "store/db.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK_MASK 0x3fff

enum { ALLOC_BYTES, ALLOCS, FREED_BYTES, FREES, LIVE_BYTES, LIVE, OWN };
enum { INHERITED_ALLOC_BYTES, INHERITED_ALLOCS, INHERITED_LIVE_BYTES, INHERITED_LIVE, INHERITED };

/* Figures of one node. */
struct node_costs {
    bool there;      /* it, or a node below it, has figures */
    bool uncosted;   /* its allocations were not seen: only what is live is known */
    bool bytes_lack; /* not even all of their requested bytes */
    uint64_t own[OWN], inherited[INHERITED];
    double alloc_variance, live_variance;
};

/* Counts come from a recorder that may be lied to: they stop at the top. */
static void add(uint64_t *sum, uint64_t n)
{
    if (__builtin_add_overflow(*sum, n, sum))
        *sum = UINT64_MAX;
}

static void bind_count(sqlite3_stmt *st, int i, uint64_t n)
{
    sqlite3_bind_int64(st, i, n > INT64_MAX ? INT64_MAX : (int64_t)n);
}

/* --- summing up -------------------------------------------------------------------- */

static void add_stacks(const struct hx_recorded *recorded, struct node_costs *costs)
{
    const struct hx_recording *recording = recorded->shadow.recording;
    for (size_t i = 0; i < recording->stacks.n; i++) {
        const struct hx_rec_costs *from = &recording->costs.v[i];
        if (recorded->node[i] == HX_NO_PAIR || !hx_has_costs(from))
            continue;
        struct node_costs *to = &costs[recorded->node[i]];
        to->there = true;
        add(&to->own[ALLOC_BYTES], from->alloc_bytes);
        add(&to->own[ALLOCS], from->allocs);
        add(&to->own[FREED_BYTES], from->freed_bytes);
        add(&to->own[FREES], from->frees);
        add(&to->own[LIVE_BYTES], from->live_bytes);
        add(&to->own[LIVE], from->live);
        to->alloc_variance += from->alloc_variance;
        to->live_variance += from->live_variance;
    }
}

/* Objects that have no recorded allocation. In a sampled recording the estimates of the others
 * speak for them. */
static void add_unseen(const struct hx_recorded *recorded, struct node_costs *costs)
{
    const struct hx_graph *graph = &recorded->shadow.graph;
    if (recorded->shadow.recording->sample_bytes || !graph->site)
        return;
    for (hx_obj i = 0; i < graph->n; i++) {
        int64_t id = recorded->shadow.sites.v[graph->site[i]].ccs_id;
        if (id != HX_CCS_BEFORE && id != HX_CCS_UNKNOWN)
            continue;
        struct node_costs *to = &costs[id - 1];
        to->there = to->uncosted = true;
        to->own[LIVE]++;
        if (graph->requested && graph->requested[i] != HX_NO_REQUEST)
            add(&to->own[LIVE_BYTES], graph->requested[i]);
        else
            to->bytes_lack = true;
    }
}

/* Children stand behind their parents. */
static void inherit(const struct hx_ccs *ccs, struct node_costs *costs)
{
    for (size_t i = ccs->node.n; i-- > 0;) {
        struct node_costs *node = &costs[i], *parent = &costs[ccs->node.v[i].parent];
        if (!node->there)
            continue;
        add(&node->inherited[INHERITED_ALLOC_BYTES], node->own[ALLOC_BYTES]);
        add(&node->inherited[INHERITED_ALLOCS], node->own[ALLOCS]);
        if (!node->bytes_lack)
            add(&node->inherited[INHERITED_LIVE_BYTES], node->own[LIVE_BYTES]);
        add(&node->inherited[INHERITED_LIVE], node->own[LIVE]);
        if (!i)
            break;
        parent->there = true;
        for (int k = 0; k < INHERITED; k++)
            add(&parent->inherited[k], node->inherited[k]);
    }
}

/* --- rows -------------------------------------------------------------------------- */

static hx_error *write_node(struct hx_writer *w, sqlite3_stmt *st, int64_t id,
                            const struct node_costs *costs)
{
    sqlite3_clear_bindings(st);
    sqlite3_bind_int64(st, 1, w->id);
    sqlite3_bind_int64(st, 2, id);
    for (int k = 0; k < OWN; k++)
        if (k == LIVE || !(costs->uncosted && (k != LIVE_BYTES || costs->bytes_lack)))
            bind_count(st, 3 + k, costs->own[k]);
    for (int k = 0; k < INHERITED; k++)
        if (k == INHERITED_LIVE ||
            !(costs->uncosted && (k != INHERITED_LIVE_BYTES || costs->bytes_lack)))
            bind_count(st, 3 + OWN + k, costs->inherited[k]);
    return hx_db_run(w->db, w->what, st);
}

static hx_error *write_costs(struct hx_writer *w, const struct node_costs *costs)
{
    const struct hx_ccs *ccs = &w->recorded->ccs;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(
        hx_db_prepare(w->db, w->what, "INSERT INTO hx_cost VALUES(?,?,?,?,?,?,?,?,?,?,?,?)", &st));
    for (size_t i = 0; i < ccs->node.n; i++) {
        if ((i & CHECK_MASK) == CHECK_MASK && hx_progress_cancelled(w->progress))
            return hx_error_cancelled(w->what);
        if (costs[i].there)
            HX_TRY(write_node(w, st, ccs->node.v[i].id, &costs[i]));
    }
    return NULL;
}

static double root_of(double square)
{
    return square > 0 ? sqrt(square) : 0; /* also of what is no number */
}

/* One standard error, in whole bytes. */
static uint64_t error_of(double variance)
{
    double error = root_of(variance) + 0.5;
    return error < 9e18 ? (uint64_t)error : INT64_MAX;
}

static hx_error *write_estimates(struct hx_writer *w, const struct node_costs *costs)
{
    const struct hx_ccs *ccs = &w->recorded->ccs;
    if (!w->snapshot->recording->sample_bytes)
        return NULL;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_estimate VALUES(?,?,?,?)", &st));
    for (size_t i = 0; i < ccs->node.n; i++) {
        if (!costs[i].there)
            continue;
        sqlite3_bind_int64(st, 1, w->id);
        sqlite3_bind_int64(st, 2, ccs->node.v[i].id);
        bind_count(st, 3, error_of(costs[i].alloc_variance));
        bind_count(st, 4, error_of(costs[i].live_variance));
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

/* --- sites ------------------------------------------------------------------------- */

static int64_t site_number(const void *context, uint32_t key)
{
    return ((const struct hx_snapshot *)context)->sites.v[key].ccs_id;
}

static hx_error *write_census(struct hx_writer *w, const struct hx_census *census)
{
    HX_TRY(hx_analyse_adds_up(w, census, "sites"));
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_site VALUES(?,?,?,?,NULL,NULL)", &st));
    for (uint32_t key = 0; key < census->n; key++) {
        if (!census->objects[key])
            continue;
        sqlite3_bind_int64(st, 1, w->id);
        sqlite3_bind_int64(st, 2, site_number(w->snapshot, key));
        bind_count(st, 3, census->bytes[key]);
        bind_count(st, 4, census->objects[key]);
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return hx_analyse_pages(w, census, "site", site_number, w->snapshot);
}

static hx_error *write_sites(struct hx_writer *w)
{
    struct hx_census census = {0};
    if (!w->graph->site || !w->graph->n)
        return NULL;
    HX_TRY(hx_census_take(w->snapshot, w->graph->site, (uint32_t)w->snapshot->sites.n, w->progress,
                          &census));
    hx_error *err = write_census(w, &census);
    hx_census_deinit(&census);
    return err;
}

/* --- what the recording says of itself ----------------------------------------------- */

static hx_error *write_loss(struct hx_writer *w, sqlite3_stmt *st, const char *what, uint64_t count)
{
    if (!count)
        return NULL;
    sqlite3_bind_int64(st, 1, w->id);
    hx_bind_text(st, 2, what);
    bind_count(st, 3, count);
    return hx_db_run(w->db, w->what, st);
}

static hx_error *write_losses(struct hx_writer *w, const struct hx_recording *recording)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_loss VALUES(?,?,?,NULL,NULL)", &st));
    HX_TRY(write_loss(w, st, "events lost: allocations", recording->lost_allocs));
    HX_TRY(write_loss(w, st, "events lost: frees", recording->lost_frees));
    HX_TRY(write_loss(w, st, "stacks cut", recording->cut_stacks));
    HX_TRY(write_loss(w, st, "stacks without room", recording->full_stacks));
    return write_loss(w, st, "implied frees", recording->implied_frees);
}

/* When the recorder came, by the clock of the wall. */
static void put_time(const struct hx_snapshot *snapshot, struct hx_text *text)
{
    const struct hx_recording *recording = snapshot->recording;
    uint64_t since =
        recording->frozen_ns > recording->began_ns ? recording->frozen_ns - recording->began_ns : 0;
    time_t seconds = (time_t)((snapshot->taken_at_ns - (int64_t)since) / 1000000000);
    struct tm tm = {0};
    char word[32];
    gmtime_r(&seconds, &tm);
    strftime(word, sizeof word, "%H:%M:%S", &tm);
    hx_text_putf(text, "%s (UTC)", word);
}

/* 1,234,567 */
static void put_count(struct hx_text *text, uint64_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n);
    for (int i = 0; i < length; i++) {
        hx_text_puts(text, i && (length - i) % 3 == 0 ? "," : "");
        hx_text_putc(text, digits[i]);
    }
}

static void put_error(struct hx_text *text, const char *what, double total, double variance)
{
    if (total <= 0)
        return;
    double percent = 100 * root_of(variance) / total;
    if (percent < 10)
        hx_text_putf(text, "%s +- %.2g %%", what, percent);
    else
        hx_text_putf(text, "%s +- %.0f %%", what, percent);
}

static void put_sampling(struct hx_text *text, const struct hx_recording *recording)
{
    double alloc = 0, live = 0, alloc_variance = 0, live_variance = 0;
    for (size_t i = 0; i < recording->costs.n; i++) {
        const struct hx_rec_costs *costs = &recording->costs.v[i];
        alloc += (double)costs->alloc_bytes;
        live += (double)costs->live_bytes;
        alloc_variance += costs->alloc_variance;
        live_variance += costs->live_variance;
    }
    hx_text_puts(text, "; sampled every ");
    put_count(text, recording->sample_bytes);
    hx_text_puts(text, " bytes in the mean, costs are estimates");
    put_error(text, ": allocated", alloc, alloc_variance);
    put_error(text, ", live", live, live_variance);
    if (alloc > 0)
        hx_text_puts(text, " (one standard error)");
}

static void put_notes(struct hx_writer *w, const struct hx_recording *recording)
{
    struct hx_text *text = &w->notes;
    bool probes = recording->method && strcmp(recording->method, "probes") == 0;
    hx_text_puts(text, text->n ? "; recorded" : "recorded");
    if (probes)
        hx_text_puts(text, " by probes");
    if (recording->from_start) {
        hx_text_puts(text, " from the start");
    } else {
        hx_text_puts(text, " since ");
        put_time(w->snapshot, text);
    }
    hx_text_puts(text, ", ");
    put_count(text, recording->events);
    hx_text_puts(text, recording->events == 1 ? " event" : " events");
    if (recording->sample_bytes)
        put_sampling(text, recording);
    if (recording->upper_bounds)
        hx_text_puts(text, "; frees were lost: live figures are upper bounds");
}

static hx_error *write_recording(struct hx_writer *w, const struct hx_recording *recording)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(
        hx_db_prepare(w->db, w->what, "INSERT INTO hx_recording VALUES(?,?,?,?,?,?,?,?,?)", &st));
    sqlite3_bind_int64(st, 1, w->id);
    hx_bind_text(st, 2, recording->method);
    sqlite3_bind_int(st, 3, recording->from_start);
    sqlite3_bind_int(st, 4, recording->upper_bounds);
    bind_count(st, 5, recording->sample_bytes);
    bind_count(st, 6, recording->began_ns);
    bind_count(st, 7, recording->frozen_ns);
    bind_count(st, 8, recording->events);
    bind_count(st, 9, recording->unmatched_frees);
    return hx_db_run(w->db, w->what, st);
}

hx_error *hx_writer_recording(struct hx_writer *w)
{
    const struct hx_recording *recording = w->snapshot->recording;
    if (!recording || !w->recorded)
        return NULL;
    const struct hx_ccs *ccs = &w->recorded->ccs;
    HX_FREE struct node_costs *costs = calloc(ccs->node.n, sizeof *costs);
    if (!costs)
        return hx_error_nomem();
    add_stacks(w->recorded, costs);
    add_unseen(w->recorded, costs);
    costs[HX_CCS_MAIN - 1].there = true; /* that nothing was allocated is a figure, too */
    inherit(ccs, costs);
    put_notes(w, recording);
    HX_TRY(write_recording(w, recording));
    HX_TRY(write_costs(w, costs));
    HX_TRY(write_estimates(w, costs));
    HX_TRY(write_losses(w, recording));
    return write_sites(w);
}
