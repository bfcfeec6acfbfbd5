/* bins.c - from the sets of named roots that reach objects to numbered bins. */
#include "traverse/retain/bins.h"

#include "traverse/retain/retain.h"

/* Of all bins together, those on the way included: each is a name in a text of the store. */
#define MEMBERS_MAX ((size_t)1 << 24)

#include <stdlib.h>
#include <string.h>

#define NO_BIN UINT32_MAX

struct work {
    const struct hx_snapshot *snapshot;
    struct hx_retain_seed *seed;
    hx_sets *sets;
    uint32_t *of_set; /* the bin of each set */
    HX_VEC(uint32_t) first;
    HX_VEC(uint32_t) members;
};

/* Each named root begins at the edges of its root; several may share one. */
static hx_error *make_seeds(struct work *work)
{
    const struct hx_snapshot *snapshot = work->snapshot;
    work->seed = calloc(snapshot->named.n, sizeof *work->seed);
    HX_NEED(work->seed);
    for (size_t i = 0; i < snapshot->named.n; i++) {
        uint64_t root = snapshot->named.v[i].root;
        work->seed[i] = (struct hx_retain_seed){.from = hx_snapshot_root_edges(snapshot, root),
                                                .to = hx_snapshot_root_edges(snapshot, root + 1),
                                                .retainer = (hx_retainer)i};
    }
    return NULL;
}

static hx_error *new_bin(struct work *work, const hx_retainer *member, size_t n)
{
    if (work->members.n + n > UINT32_MAX)
        return hx_error_new(HX_E_FAIL, "bins", "name fewer roots", "too many sets of roots");
    HX_NEED(hx_vec_reserve(&work->members, work->members.n + n));
    if (n)
        memcpy(work->members.v + work->members.n, member, n * sizeof *member);
    work->members.n += n;
    return hx_vec_push(&work->first, (uint32_t)work->members.n) ? NULL : hx_error_nomem();
}

static hx_error *begin_bins(struct work *work)
{
    HX_NEED(hx_vec_push(&work->first, 0));
    HX_TRY(new_bin(work, NULL, 0)); /* HX_BIN_NONE */
    return new_bin(work, NULL, 0);  /* HX_BIN_LOST */
}

static inline uint32_t bin_without(const struct hx_graph *graph, hx_obj object)
{
    uint8_t state = graph->state[object];
    return state == HX_STATE_REACHABLE || state == HX_STATE_POSSIBLE ? HX_BIN_NONE : HX_BIN_LOST;
}

/* In place: the bin of each object where its set was. Bins are numbered as they come. */
static hx_error *number_bins(struct work *work, uint32_t *bin)
{
    const struct hx_graph *graph = &work->snapshot->graph;
    const size_t n_sets = hx_sets_count(work->sets);
    work->of_set = malloc(n_sets * sizeof *work->of_set);
    HX_NEED(work->of_set);
    memset(work->of_set, 0xff, n_sets * sizeof *work->of_set);
    for (hx_obj i = 0; i < graph->n; i++) {
        hx_set set = bin[i];
        if (set == HX_SET_NONE) {
            bin[i] = bin_without(graph, i);
            continue;
        }
        if (work->of_set[set] == NO_BIN) {
            const hx_retainer *member;
            size_t n = hx_sets_elements(work->sets, set, &member);
            work->of_set[set] = (uint32_t)work->first.n - 1;
            HX_TRY(new_bin(work, member, n));
        }
        bin[i] = work->of_set[set];
    }
    return NULL;
}

static hx_error *find_bins(struct work *work, const struct hx_progress *progress,
                           struct hx_retention *retention)
{
    const struct hx_snapshot *snapshot = work->snapshot;
    HX_TRY(begin_bins(work));
    if (!snapshot->named.n) {
        const struct hx_graph *graph = &snapshot->graph;
        HX_TRY(hx_big_reserve(&retention->set_mem, (size_t)graph->n * sizeof(uint32_t)));
        uint32_t *bin = retention->set_mem.base;
        for (hx_obj i = 0; i < graph->n; i++)
            bin[i] = bin_without(graph, i);
        return NULL;
    }
    HX_TRY(make_seeds(work));
    HX_TRY(hx_sets_create(0, &work->sets));
    hx_sets_allow(work->sets, MEMBERS_MAX);
    const struct hx_retain_rule rule = {
        .seed = work->seed, .n_seeds = snapshot->named.n, .everything = true};
    HX_TRY(hx_retain(snapshot, &rule, work->sets, progress, retention));
    return number_bins(work, retention->set);
}

hx_error *hx_bins_find(const struct hx_snapshot *snapshot, const struct hx_progress *progress,
                       struct hx_bins *ret)
{
    struct work work = {.snapshot = snapshot};
    struct hx_retention retention = {0};
    hx_error *err = find_bins(&work, progress, &retention);
    hx_sets_destroy(work.sets);
    free(work.seed);
    free(work.of_set);
    if (err) {
        hx_retention_deinit(&retention);
        hx_vec_free(&work.first);
        hx_vec_free(&work.members);
        return err;
    }
    *ret = (struct hx_bins){.n = (uint32_t)work.first.n - 1,
                            .bin = retention.set_mem.base,
                            .bin_mem = retention.set_mem,
                            .first = work.first.v,
                            .member = work.members.v,
                            .n_members = work.members.n};
    return NULL;
}

void hx_bins_deinit(struct hx_bins *bins)
{
    hx_big_free(&bins->bin_mem);
    free(bins->first);
    free(bins->member);
    *bins = (struct hx_bins){0};
}

void hx_bin_label(const struct hx_snapshot *snapshot, const struct hx_bins *bins, uint32_t bin,
                  struct hx_text *text)
{
    if (bin == HX_BIN_NONE || bin == HX_BIN_LOST) {
        hx_text_puts(text, bin == HX_BIN_NONE ? "-" : "(unreachable)");
        return;
    }
    for (uint32_t i = bins->first[bin]; i < bins->first[bin + 1]; i++) {
        if (i > bins->first[bin])
            hx_text_putc(text, '+');
        hx_text_puts(text, snapshot->named.v[bins->member[i]].name);
    }
}
