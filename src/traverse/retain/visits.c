/* visits.c - the document's traversal, with a stack of its own. */
#include "traverse/retain/visits.h"

#include "base/vec.h"

#include <stdlib.h>

enum { CHECK_MASK = 0x3fff, PATH_MAX_STEPS = 1 << 28 };

/* An object whose children are being visited with a retainer. */
struct step {
    hx_obj object;
    hx_retainer retainer;
    hx_eidx next; /* edge */
};

struct walk {
    const struct hx_snapshot *snapshot;
    const struct hx_retain_rule *rule;
    hx_sets *sets;
    const struct hx_progress *progress;
    struct hx_visits result;
    HX_VEC(struct step) path;
};

static bool visit_follows(const struct walk *walk, unsigned kind)
{
    return kind != HX_EDGE_ASIDE &&
           (kind != HX_EDGE_INTERIOR || walk->snapshot->interior != HX_INTERIOR_OFF);
}

static hx_error *visit_object(struct walk *walk, hx_obj object, hx_retainer retainer)
{
    const struct hx_graph *g = &walk->snapshot->graph;
    struct hx_visits *r = &walk->result;
    hx_set *set = &r->set[object];
    hx_retainer own = walk->rule->of_object ? walk->rule->of_object[object] : HX_NO_RETAINER;
    bool again = *set != HX_SET_NONE;
    r->visits++;
    if (again && hx_sets_member(walk->sets, *set, retainer))
        return NULL;
    r->objects += !again;
    *set =
        again ? hx_sets_add(walk->sets, *set, retainer) : hx_sets_singleton(walk->sets, retainer);
    if (hx_sets_failed(walk->sets))
        return hx_sets_error(walk->sets);
    if (again && own != HX_NO_RETAINER)
        return NULL; /* its children know it already */
    struct step step = {
        .object = object,
        .retainer = own != HX_NO_RETAINER ? own : retainer,
        .next = g->fwd[object],
    };
    if (walk->path.n >= PATH_MAX_STEPS)
        return hx_error_new(HX_E_LIMIT, "visits", NULL, "a path is too long to be walked");
    return hx_vec_push(&walk->path, step) ? NULL : hx_error_nomem();
}

static hx_error *continue_visits(const struct walk *walk)
{
    const struct hx_visits *r = &walk->result;
    hx_progress_at(walk->progress, "visits", r->objects, walk->snapshot->graph.n);
    if (hx_progress_cancelled(walk->progress))
        return hx_error_cancelled("visits");
    if (r->visits / HX_VISITS_MAX > r->objects)
        return hx_error_new(HX_E_LIMIT, "visits", "give a smaller --max-set",
                            "objects are visited more than %d times", HX_VISITS_MAX);
    return NULL;
}

static hx_error *visit_from(struct walk *walk, hx_obj object, hx_retainer retainer)
{
    const struct hx_graph *g = &walk->snapshot->graph;
    HX_TRY(visit_object(walk, object, retainer));
    for (uint64_t steps = 1; walk->path.n; steps++) {
        struct step *top = &walk->path.v[walk->path.n - 1];
        if ((steps & CHECK_MASK) == 0)
            HX_TRY(continue_visits(walk));
        if (top->next == g->fwd[(size_t)top->object + 1]) {
            walk->path.n--;
            continue;
        }
        hx_edge edge = g->edge[top->next++];
        if (visit_follows(walk, hx_edge_kind_of(edge)))
            HX_TRY(visit_object(walk, hx_edge_target(edge), top->retainer));
    }
    return NULL;
}

static hx_error *walk_all(struct walk *walk)
{
    const struct hx_snapshot *s = walk->snapshot;
    HX_TRY(hx_big_array(walk->result.set, (size_t)s->graph.n + 1));
    for (size_t i = 0; walk->rule->of_root && i < s->root_edges.n; i++) {
        const struct hx_root_edge *edge = &s->root_edges.v[i];
        hx_retainer retainer = walk->rule->of_root[edge->root];
        if (retainer != HX_NO_RETAINER && visit_follows(walk, edge->kind))
            HX_TRY(visit_from(walk, edge->target, retainer));
        if ((i & CHECK_MASK) == CHECK_MASK)
            HX_TRY(continue_visits(walk));
    }
    return NULL;
}

hx_error *hx_visits(const struct hx_snapshot *snapshot, const struct hx_retain_rule *rule,
                    hx_sets *sets, const struct hx_progress *progress, struct hx_visits *ret)
{
    struct walk walk = {.snapshot = snapshot, .rule = rule, .sets = sets, .progress = progress};
    hx_error *err = walk_all(&walk);
    hx_vec_free(&walk.path);
    if (err)
        hx_visits_deinit(&walk.result);
    else
        *ret = walk.result;
    return err;
}

void hx_visits_deinit(struct hx_visits *visits)
{
    hx_big_free(&visits->set_mem);
    *visits = (struct hx_visits){0};
}
