/* costs.c - what was recorded, as rows by whole stacks: their costs, the census of sites, sizes of
 * requests, and what a recording says of itself. What follows from them: attribute.c. */
#include "store/write/write_recording.h"

#include "base/cleanup.h"
#include "store/db.h"
#include "store/write/analyse.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK_MASK 0x3fff

/* Counts come from a recorder that may be lied to: they stop at the top. */
static void add_capped_cost(uint64_t *sum, uint64_t n)
{
    if (__builtin_add_overflow(*sum, n, sum))
        *sum = UINT64_MAX;
}

static double root_of(double square)
{
    return square > 0 ? sqrt(square) : 0; /* also of what is no number */
}

/* --- costs ------------------------------------------------------------------------- */

/* Of one whole stack: several of the recording may be the same but for the allocator's frames. */
struct stack_costs {
    uint32_t node;
    struct hx_rec_costs own;
};
typedef HX_VEC(struct stack_costs) all_costs;

static void free_costs(all_costs *costs)
{
    hx_vec_free(costs);
}

static void add_costs(struct hx_rec_costs *to, const struct hx_rec_costs *from)
{
    add_capped_cost(&to->alloc_bytes, from->alloc_bytes);
    add_capped_cost(&to->allocs, from->allocs);
    add_capped_cost(&to->freed_bytes, from->freed_bytes);
    add_capped_cost(&to->frees, from->frees);
    add_capped_cost(&to->live_bytes, from->live_bytes);
    add_capped_cost(&to->live, from->live);
    add_capped_cost(&to->entries, from->entries);
    for (int k = 0; k < HX_SIZE_CLASSES; k++) {
        add_capped_cost(&to->alloc_class[k], from->alloc_class[k]);
        add_capped_cost(&to->freed_class[k], from->freed_class[k]);
    }
    to->alloc_variance += from->alloc_variance;
    to->live_variance += from->live_variance;
}

static hx_error *sum_stacks(const struct hx_recorded *recorded, all_costs *ret)
{
    const struct hx_recording *recording = recorded->shadow.recording;
    HX_CLEANUP(hx_pairs_free) struct hx_pairs known = {0};
    for (size_t i = 0; i < recording->stacks.n; i++) {
        uint32_t node = recorded->stacks.node[i], *slot;
        if (node == HX_NO_PAIR || !hx_has_costs(&recording->costs.v[i]))
            continue;
        HX_TRY(hx_pairs_at(&known, node, &slot));
        if (*slot == HX_NO_PAIR) {
            HX_NEED(hx_vec_push(ret, ((struct stack_costs){.node = node})));
            *slot = (uint32_t)ret->n - 1;
        }
        add_costs(&ret->v[*slot].own, &recording->costs.v[i]);
    }
    return NULL;
}

static int by_node(const void *a, const void *b)
{
    uint32_t x = ((const struct stack_costs *)a)->node, y = ((const struct stack_costs *)b)->node;
    return (x > y) - (x < y);
}

/* Entries are those of regions; of functions they cannot be seen. */
static hx_error *write_stack(struct hx_writer *w, const struct stack_costs *costs)
{
    const struct hx_recorded *recorded = w->recorded;
    const struct hx_rec_costs *own = &costs->own;
    bool region = recorded->attributing.frame[costs->node].kind == HX_FRAME_REGION;
    const uint64_t *alloc = own->alloc_class, *freed = own->freed_class;
    return hx_write(
        w, stack_cost, .stack_id = hx_int(recorded->frames.node.v[costs->node].id),
        .entries = region ? hx_count(own->entries) : HX_NULL,
        .alloc_bytes = hx_count(own->alloc_bytes), .alloc_objects = hx_count(own->allocs),
        .freed_bytes = hx_count(own->freed_bytes), .freed_objects = hx_count(own->frees),
        .live_bytes = hx_count(own->live_bytes), .live_objects = hx_count(own->live),
        .alloc_s = hx_count(alloc[0]), .alloc_m = hx_count(alloc[1]), .alloc_l = hx_count(alloc[2]),
        .alloc_x = hx_count(alloc[3]), .freed_s = hx_count(freed[0]), .freed_m = hx_count(freed[1]),
        .freed_l = hx_count(freed[2]), .freed_x = hx_count(freed[3]),
        .alloc_variance = hx_real(own->alloc_variance),
        .live_variance = hx_real(own->live_variance));
}

/* Objects that have no recorded allocation: nothing but what is live is known of them. In a sampled
 * recording the estimates of the others speak for them. */
static hx_error *write_unseen(struct hx_writer *w, int64_t id)
{
    const struct hx_graph *graph = w->graph;
    uint64_t live = 0, bytes = 0;
    bool lack = false;
    if (w->snapshot->recording->sample_bytes || !graph->site)
        return NULL;
    for (hx_obj i = 0; i < graph->n; i++) {
        if (w->snapshot->sites.v[graph->site[i]].stack_id != id)
            continue;
        bool known = graph->requested && graph->requested[i] != HX_NO_REQUEST;
        live++;
        add_capped_cost(&bytes, known ? graph->requested[i] : 0);
        lack |= !known;
    }
    if (!live)
        return NULL;
    return hx_write(w, stack_cost, .stack_id = hx_int(id),
                    .live_bytes = lack ? HX_NULL : hx_count(bytes), .live_objects = hx_count(live));
}

static hx_error *write_stack_costs(struct hx_writer *w)
{
    HX_CLEANUP(free_costs) all_costs costs = {0};
    HX_TRY(sum_stacks(w->recorded, &costs));
    if (costs.n)
        qsort(costs.v, costs.n, sizeof *costs.v, by_node);
    HX_TRY(write_unseen(w, HX_CCS_BEFORE));
    HX_TRY(write_unseen(w, HX_CCS_UNKNOWN));
    for (size_t i = 0; i < costs.n; i++) {
        if ((i & CHECK_MASK) == CHECK_MASK && hx_progress_cancelled(w->progress))
            return hx_error_cancelled(w->what);
        HX_TRY(write_stack(w, &costs.v[i]));
    }
    return NULL;
}

/* --- sizes ------------------------------------------------------------------------- */

static hx_error *write_sizes(struct hx_writer *w, const struct hx_recording *recording)
{
    for (size_t i = 0; i < recording->sizes.n; i++) {
        const struct hx_rec_size *size = &recording->sizes.v[i];
        HX_TRY(hx_write(
            w, size, .size = hx_int(size->size > INT64_MAX ? -1 : (int64_t)size->size),
            .alloc_objects = hx_count(size->allocs), .alloc_bytes = hx_count(size->alloc_bytes),
            .freed_objects = hx_count(size->frees), .freed_bytes = hx_count(size->freed_bytes)));
    }
    return NULL;
}

static hx_error *write_size_types(struct hx_writer *w, const struct hx_recording *recording)
{
    for (size_t i = 0; i < recording->sized_types.n; i++)
        HX_TRY(hx_write(w, size_type, .size = hx_count(recording->sized_types.v[i].bytes),
                        .name = hx_str(recording->sized_types.v[i].name)));
    return NULL;
}

/* --- sites ------------------------------------------------------------------------- */

struct census {
    uint64_t *bytes, *objects; /* of each site */
};

static hx_error *write_census(struct hx_writer *w, const struct census *census)
{
    const struct hx_snapshot *snapshot = w->snapshot;
    for (size_t site = 0; site < snapshot->sites.n; site++) {
        if (!census->objects[site])
            continue;
        HX_TRY(hx_write(w, stack_site, .stack_id = hx_int(snapshot->sites.v[site].stack_id),
                        .bytes = hx_count(census->bytes[site]),
                        .objects = hx_count(census->objects[site])));
    }
    return NULL;
}

/* By whole stacks; every object is in one. */
static hx_error *write_stack_sites(struct hx_writer *w)
{
    const struct hx_graph *graph = w->graph;
    size_t n = w->snapshot->sites.n;
    if (!graph->site || !graph->n)
        return NULL;
    HX_FREE uint64_t *bytes = calloc(n + 1, sizeof *bytes);
    HX_FREE uint64_t *objects = calloc(n + 1, sizeof *objects);
    HX_NEED(bytes && objects);
    for (hx_obj i = 0; i < graph->n; i++) {
        bytes[graph->site[i]] += graph->size[i];
        objects[graph->site[i]]++;
    }
    return write_census(w, &(struct census){bytes, objects});
}

static int compare_cost_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static hx_error *number_groups(const struct hx_snapshot *snapshot, struct hx_site_groups *ret,
                               uint32_t *of_site)
{
    size_t n = snapshot->sites.n;
    for (size_t i = 0; i < n; i++)
        ret->ccs_id[i] = snapshot->sites.v[i].ccs_id;
    if (n)
        qsort(ret->ccs_id, n, sizeof *ret->ccs_id, compare_cost_numbers);
    for (size_t i = 0; i < n; i++)
        if (!ret->n || ret->ccs_id[i] != ret->ccs_id[ret->n - 1])
            ret->ccs_id[ret->n++] = ret->ccs_id[i];
    for (size_t i = 0; i < n; i++) {
        const int64_t *found = bsearch(&snapshot->sites.v[i].ccs_id, ret->ccs_id, ret->n,
                                       sizeof *ret->ccs_id, compare_cost_numbers);
        of_site[i] = (uint32_t)(found - ret->ccs_id);
    }
    return NULL;
}

hx_error *hx_site_groups_make(const struct hx_snapshot *snapshot, struct hx_site_groups *ret)
{
    const struct hx_graph *graph = &snapshot->graph;
    size_t n = snapshot->sites.n;
    HX_FREE uint32_t *of_site = malloc((n + 1) * sizeof *of_site);
    *ret = (struct hx_site_groups){.ccs_id = malloc((n + 1) * sizeof *ret->ccs_id)};
    HX_NEED(of_site && ret->ccs_id);
    HX_TRY(number_groups(snapshot, ret, of_site));
    HX_TRY(hx_big_reserve(&ret->group_mem, (size_t)graph->n * sizeof *ret->group));
    uint32_t *group = ret->group_mem.base;
    for (hx_obj i = 0; i < graph->n; i++)
        group[i] = graph->site[i] < n ? of_site[graph->site[i]] : UINT32_MAX;
    ret->group = group;
    return NULL;
}

void hx_site_groups_deinit(struct hx_site_groups *groups)
{
    free(groups->ccs_id);
    hx_big_free(&groups->group_mem);
    *groups = (struct hx_site_groups){0};
}

static int64_t group_number(const void *context, uint32_t key)
{
    return ((const struct hx_site_groups *)context)->ccs_id[key];
}

hx_error *hx_writer_site_pages(struct hx_writer *w, const struct hx_site_groups *groups)
{
    struct hx_key_sums census = {0};
    hx_error *err = hx_key_sums_make(w->snapshot, groups->group, groups->n, w->progress, &census);
    if (!err)
        err = hx_analyse_adds_up(w, &census, "sites");
    if (!err)
        err = hx_analyse_pages(w, &census, "site", group_number, groups);
    hx_key_sums_deinit(&census);
    return err;
}

static hx_error *write_pages(struct hx_writer *w)
{
    if (!w->graph->site || !w->graph->n)
        return NULL;
    struct hx_site_groups groups = {0};
    hx_error *err = hx_site_groups_make(w->snapshot, &groups);
    if (!err)
        err = hx_writer_site_pages(w, &groups);
    hx_site_groups_deinit(&groups);
    return err;
}

/* --- what the recording says of itself ----------------------------------------------- */

static hx_error *write_loss(struct hx_writer *w, const char *what, uint64_t count)
{
    return count ? hx_write(w, loss, .what = hx_str(what), .count = hx_count(count)) : NULL;
}

static hx_error *write_losses(struct hx_writer *w, const struct hx_recording *recording)
{
    HX_TRY(write_loss(w, "events lost: allocations", recording->lost_allocs));
    HX_TRY(write_loss(w, "events lost: frees", recording->lost_frees));
    HX_TRY(write_loss(w, "stacks cut", recording->cut_stacks));
    HX_TRY(write_loss(w, "stacks without room", recording->full_stacks));
    HX_TRY(write_loss(w, "captured stacks lost", recording->lost_captures));
    HX_TRY(write_loss(w, "regions without a name", recording->lost_regions));
    HX_TRY(write_loss(w, "events lost: entries of regions", recording->lost_entries));
    return write_loss(w, "implied frees", recording->implied_frees);
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
    hx_text_count(text, (int64_t)recording->sample_bytes);
    hx_text_puts(text, " bytes in the mean, costs are estimates");
    put_error(text, ": allocated", alloc, alloc_variance);
    put_error(text, ", live", live, live_variance);
    if (alloc > 0)
        hx_text_puts(text, " (one standard error)");
}

/* A lost free leaves a block that is gone, a lost allocation hides one that is there. */
static void put_bounds(const struct hx_recording *recording, struct hx_text *text)
{
    if (recording->lost_allocs && recording->lost_frees)
        hx_text_puts(text, "; allocations and frees were lost: live figures may be too high or too"
                           " low, all others are too low");
    else if (recording->lost_allocs)
        hx_text_puts(text, "; allocations were lost: figures are lower bounds");
    else if (recording->lost_frees)
        hx_text_puts(text, "; frees were lost: live figures are upper bounds");
}

static void put_cost_notes(struct hx_writer *w, const struct hx_recording *recording)
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
    hx_text_count(text, (int64_t)recording->events);
    hx_text_puts(text, recording->events == 1 ? " event" : " events");
    if (recording->sample_bytes)
        put_sampling(text, recording);
    if (recording->unbalanced_pops) {
        hx_text_puts(text, "; ");
        hx_text_count(text, (int64_t)recording->unbalanced_pops);
        hx_text_puts(text, recording->unbalanced_pops == 1
                               ? " region was left without its pop"
                               : " regions were left without their pop");
    }
    put_bounds(recording, text);
}

static hx_error *write_recording(struct hx_writer *w, const struct hx_recording *recording)
{
    return hx_write(w, recording, .method = hx_str(recording->method),
                    .from_start = hx_int(recording->from_start),
                    .upper_bounds = hx_int(recording->upper_bounds),
                    .sample_bytes = hx_count(recording->sample_bytes),
                    .began_ns = hx_count(recording->began_ns),
                    .frozen_ns = hx_count(recording->frozen_ns),
                    .events = hx_count(recording->events),
                    .unmatched_frees = hx_count(recording->unmatched_frees));
}

hx_error *hx_writer_recording(struct hx_writer *w)
{
    const struct hx_recording *recording = w->snapshot->recording;
    if (!recording || !w->recorded)
        return NULL;
    put_cost_notes(w, recording);
    HX_TRY(write_recording(w, recording));
    HX_TRY(write_losses(w, recording));
    HX_TRY(write_stack_costs(w));
    HX_TRY(write_sizes(w, recording));
    HX_TRY(write_size_types(w, recording));
    HX_TRY(write_stack_sites(w));
    HX_TRY(hx_attribute_new(&w->recorded->attributing, w->id));
    return write_pages(w);
}
