/* analysis_model.h - random snapshots with all that an analysis looks at, and what it has to find,
 * each figure worked out from its definition in the slowest way. */
#ifndef HX_TEST_ANALYSIS_MODEL_H
#define HX_TEST_ANALYSIS_MODEL_H

#include "hold_model.h"
#include "random_graph.h"
#include "store_model.h"

#include "traverse/reach.h"

#define MODEL_MAX  RANDOM_GRAPH_MAX
#define MODEL_PAGE 4096

/* --- making ------------------------------------------------------------------------ */

static inline void model_spread(struct unit_random *random, struct hx_snapshot *s)
{
    struct hx_graph *g = &s->graph;
    uint64_t at = HX_DRAW_HEAP_BASE + 16;
    for (hx_obj i = 0; i < g->n; i++) {
        g->size[i] += 16 * unit_below(random, unit_below(random, 10) ? 20 : 900);
        g->addr[i] = at;
        at += g->size[i] + 8;
        at += unit_below(random, 6) ? 0 : MODEL_PAGE * unit_below(random, 3);
    }
}

static inline void model_resident(struct unit_random *random, struct hx_snapshot *s)
{
    const struct hx_graph *g = &s->graph;
    s->has_resident = g->n && unit_below(random, 4);
    uint64_t page = HX_DRAW_HEAP_BASE / MODEL_PAGE;
    uint64_t end = g->n ? (g->addr[g->n - 1] + g->size[g->n - 1]) / MODEL_PAGE + 2 : 0;
    while (s->has_resident && page < end) {
        uint64_t pages = 1 + unit_below(random, 3);
        struct hx_range range = {page * MODEL_PAGE, (page + pages) * MODEL_PAGE};
        assert_true(hx_vec_push(&s->resident, range));
        page += pages + 1 + unit_below(random, 2);
    }
}

static inline void model_types(struct unit_random *random, struct hx_snapshot *s)
{
    static const char *const names[] = {"Node", "std::map<int, B>", "a (b)", "T"};
    struct hx_graph *g = &s->graph;
    if (!g->n || !unit_below(random, 5))
        return; /* nobody looked */
    for (size_t i = 0, n = unit_below(random, 5); i < n; i++) {
        struct hx_type type = {.name = strdup(names[i]),
                               .confidence = (enum hx_confidence)unit_below(random, 3)};
        assert_true(hx_vec_push(&s->types, type));
    }
    assert_done(hx_big_reserve(&g->type_mem, (size_t)g->n * sizeof *g->type));
    g->type = g->type_mem.base;
    for (hx_obj i = 0; i < g->n; i++) {
        uint64_t type = unit_below(random, s->types.n + 2);
        g->type[i] = type < s->types.n ? (uint32_t)type : HX_NO_TYPE;
    }
}

/* Several roots of one name, modules, threads. */
static inline void model_rename_roots(struct unit_random *random, struct hx_snapshot *s)
{
    static const char *const names[] = {"r0", "r1", "r, 1", "\xc3\xa9"};
    static const char *const modules[] = {"", "libc.so.6", "a.out"};
    for (size_t i = 0; i < s->roots.n; i++) {
        struct hx_root *root = &s->roots.v[i];
        free(root->name);
        free(root->module);
        root->name = strdup(names[unit_below(random, 4)]);
        root->module = strdup(modules[unit_below(random, 3)]);
        if (unit_below(random, 4) == 0) {
            root->kind = HX_ROOT_STACK;
            root->tid = (pid_t)unit_below(random, 3);
        }
    }
}

static inline void model_drop_named(struct hx_snapshot *s)
{
    while (s->roots.n && s->roots.v[s->roots.n - 1].kind == HX_ROOT_NAMED) {
        s->roots.n--;
        free(s->roots.v[s->roots.n].name);
        free(s->roots.v[s->roots.n].module);
    }
    while (s->root_edges.n && s->root_edges.v[s->root_edges.n - 1].root >= s->roots.n)
        s->root_edges.n--;
    for (size_t i = 0; i < s->named.n; i++) {
        free(s->named.v[i].name);
        free(s->named.v[i].expr);
    }
    s->named.n = 0;
}

/* Some are roots that are there anyway, some have a row of their own. */
static inline void model_name_roots(struct unit_random *random, struct hx_snapshot *s)
{
    model_drop_named(s);
    for (size_t i = 0, n = unit_below(random, 5); i < n; i++) {
        char *name = NULL;
        if (asprintf(&name, "%c%zu", "zab"[i % 3], i) < 0)
            abort();
        struct hx_named named = {.name = name, .expr = i & 1 ? strdup("*0x10") : NULL};
        if (s->roots.n && s->roots.v[0].kind != HX_ROOT_NAMED && unit_below(random, 2)) {
            named.root = 0;
        } else {
            struct hx_root root = {.kind = HX_ROOT_NAMED,
                                   .name = strdup(name),
                                   .module = strdup(""),
                                   .address = HX_DRAW_ROOT_BASE,
                                   .size = 8};
            named.root = (uint32_t)s->roots.n;
            for (uint64_t k = s->graph.n ? unit_below(random, 3) : 0; k; k--) {
                uint8_t kind = (uint8_t)unit_below(random, 3);
                struct hx_root_edge edge = {named.root, (hx_obj)unit_below(random, s->graph.n),
                                            HX_DRAW_ROOT_BASE, kind, HX_EVIDENCE(0, kind)};
                assert_true(hx_vec_push(&s->root_edges, edge));
                root.direct_objects++;
            }
            assert_true(hx_vec_push(&s->roots, root));
        }
        assert_true(hx_vec_push(&s->named, named));
    }
}

static inline struct hx_snapshot *model_to_analyse(struct unit_random *random, hx_obj most)
{
    struct random_graph graph;
    random_graph_make(random, most, &graph);
    struct hx_snapshot *s = random_graph_snapshot(&graph);
    s->method = "copy";
    s->complete = true;
    model_spread(random, s);
    model_resident(random, s);
    model_types(random, s);
    model_rename_roots(random, s);
    model_name_roots(random, s);
    model_judge(random, s);
    assert_done(hx_reach(s, (enum hx_interior)unit_below(random, 3), 1, NULL));
    return s;
}

/* --- whose edges --------------------------------------------------------------------- */

static inline bool model_holds(const struct hx_snapshot *s, const struct hx_analysis *analysis)
{
    return analysis->hold.holders && s->graph.evidence;
}

static inline void model_set_kind(struct hx_snapshot *s, hx_eidx e, unsigned kind)
{
    s->graph.edge[e] = (s->graph.edge[e] & ~(hx_edge)3) | kind;
}

/* Sets those edges aside that are not in the graph of holders. */
static inline void model_choose(struct hx_snapshot *s, const struct hx_hold_options *hold,
                                bool named, unsigned *round)
{
    const struct hx_graph *g = &s->graph;
    model_rounds(s, hold, named, round);
    for (hx_obj i = 0; i < g->n; i++)
        for (hx_eidx e = g->fwd[i]; e < g->fwd[i + 1]; e++)
            model_set_kind(s, e,
                           model_is_chosen(s, hold, round, i, e) ? HX_EVIDENCE_KIND(g->evidence[e])
                                                                 : HX_EDGE_ASIDE);
    for (size_t i = 0; i < s->root_edges.n; i++) {
        struct hx_root_edge *edge = &s->root_edges.v[i];
        edge->kind = model_root_is_chosen(s, hold, round, edge, named)
                         ? HX_EVIDENCE_KIND(edge->evidence)
                         : HX_EDGE_ASIDE;
    }
}

static inline void model_restore(struct hx_snapshot *s)
{
    for (hx_eidx e = 0; e < s->graph.n_edges; e++)
        model_set_kind(s, e, HX_EVIDENCE_KIND(s->graph.evidence[e]));
    for (size_t i = 0; i < s->root_edges.n; i++)
        s->root_edges.v[i].kind = HX_EVIDENCE_KIND(s->root_edges.v[i].evidence);
}

/* --- finding out --------------------------------------------------------------------- */

static inline unsigned model_follows(const struct hx_snapshot *s, bool sure)
{
    return !sure && s->interior != HX_INTERIOR_OFF ? 7 : 3;
}

/* Marks what roots reach without the objects in `gone` and the root `gone_root`. A root is
 * UINT32_MAX for all but the named ones. */
static inline void model_search(const struct hx_snapshot *s, unsigned follows, uint32_t from_root,
                                uint32_t gone_root, const bool *gone, bool *reached)
{
    const struct hx_graph *g = &s->graph;
    memset(reached, 0, MODEL_MAX * sizeof *reached);
    for (size_t i = 0; i < s->root_edges.n; i++) {
        const struct hx_root_edge *e = &s->root_edges.v[i];
        bool begins = from_root == UINT32_MAX ? s->roots.v[e->root].kind != HX_ROOT_NAMED
                                              : e->root == from_root;
        if (begins && e->root != gone_root && follows >> e->kind & 1 && !gone[e->target])
            reached[e->target] = true;
    }
    for (bool more = true; more;) {
        more = false;
        for (hx_obj i = 0; i < g->n; i++) {
            for (hx_eidx e = g->fwd[i]; reached[i] && e < g->fwd[i + 1]; e++) {
                hx_obj to = hx_edge_target(g->edge[e]);
                if (follows >> hx_edge_kind_of(g->edge[e]) & 1 && !reached[to] && !gone[to])
                    reached[to] = more = true;
            }
        }
    }
}

struct model_figure {
    uint64_t bytes, objects;
};

/* What is in scope and not reached any more. */
static inline struct model_figure model_lost(const struct hx_snapshot *s, const bool *scope,
                                             const bool *reached)
{
    struct model_figure lost = {0};
    for (hx_obj i = 0; i < s->graph.n; i++) {
        if (!scope[i] || reached[i])
            continue;
        lost.bytes += s->graph.size[i];
        lost.objects++;
    }
    return lost;
}

struct model_tree {
    bool scope[MODEL_MAX];
    struct model_figure retained[MODEL_MAX];
    hx_obj parent[MODEL_MAX];
};

static inline void model_dominate(const struct hx_snapshot *s, bool sure, struct model_tree *tree)
{
    static bool over[MODEL_MAX][MODEL_MAX]; /* over[a][b]: a dominates b */
    const bool none[MODEL_MAX] = {false};
    unsigned follows = model_follows(s, sure), above[MODEL_MAX] = {0};
    model_search(s, follows, UINT32_MAX, UINT32_MAX, none, tree->scope);
    for (hx_obj i = 0; i < s->graph.n; i++) {
        bool gone[MODEL_MAX] = {false}, reached[MODEL_MAX];
        gone[i] = true;
        model_search(s, follows, UINT32_MAX, UINT32_MAX, gone, reached);
        tree->retained[i] =
            tree->scope[i] ? model_lost(s, tree->scope, reached) : (struct model_figure){0};
        for (hx_obj k = 0; k < s->graph.n; k++) {
            over[i][k] = tree->scope[i] && tree->scope[k] && !reached[k];
            above[k] += over[i][k];
        }
    }
    for (hx_obj k = 0; k < s->graph.n; k++) {
        tree->parent[k] = HX_NO_OBJ;
        for (hx_obj i = 0; i < s->graph.n; i++)
            if (i != k && over[i][k] && above[i] + 1 == above[k])
                tree->parent[k] = i;
    }
}

static inline void model_append(char *text, size_t size, const char *glue, const char *more)
{
    size_t n = strlen(text);
    snprintf(text + n, size - n, "%s%s", n ? glue : "", more);
}

#ifndef MODEL_LABEL
#define MODEL_LABEL 256
#endif
typedef char model_label[MODEL_LABEL];

/* The bin of each object, one search a root. */
static inline void model_bins(const struct hx_snapshot *s, model_label *label)
{
    const bool none[MODEL_MAX] = {false};
    memset(label, 0, MODEL_MAX * sizeof *label);
    for (size_t k = 0; k < s->named.n; k++) {
        bool reached[MODEL_MAX];
        model_search(s, model_follows(s, false), s->named.v[k].root, UINT32_MAX, none, reached);
        for (hx_obj i = 0; i < s->graph.n; i++)
            if (reached[i])
                model_append(label[i], MODEL_LABEL, "+", s->named.v[k].name);
    }
    bool reached[MODEL_MAX];
    model_search(s, model_follows(s, false), UINT32_MAX, UINT32_MAX, none, reached);
    for (hx_obj i = 0; i < s->graph.n; i++)
        if (!label[i][0])
            strcpy(label[i], reached[i] ? "-" : "(unreachable)");
}

/* The retainer set of each object: the least fixed point. Returns the edges between a retained
 * object or a root and an object. */
static inline uint64_t model_retain(const struct hx_snapshot *s, const struct hx_analysis *analysis,
                                    model_label *label)
{
    struct hx_scheme_rule rule;
    const struct hx_graph *g = &s->graph;
    unsigned follows = model_follows(s, false);
    uint64_t set[MODEL_MAX] = {0}, walked = 0;
    assert_done(hx_scheme_apply(analysis->scheme, s, &analysis->options, &rule));
    assert_true(rule.n_identities < 64);
    for (size_t i = 0; i < s->root_edges.n; i++) {
        const struct hx_root_edge *e = &s->root_edges.v[i];
        if (s->roots.v[e->root].kind == HX_ROOT_NAMED || !(follows >> e->kind & 1))
            continue;
        set[e->target] |= (uint64_t)1 << rule.rule.of_root[e->root];
        walked++;
    }
    for (bool more = true; more;) {
        more = false;
        for (hx_obj i = 0; i < g->n; i++) {
            hx_retainer own = rule.rule.of_object ? rule.rule.of_object[i] : HX_NO_RETAINER;
            uint64_t gives = own == HX_NO_RETAINER ? set[i] : (uint64_t)1 << own;
            for (hx_eidx e = g->fwd[i]; set[i] && e < g->fwd[i + 1]; e++) {
                hx_obj to = hx_edge_target(g->edge[e]);
                if (!(follows >> hx_edge_kind_of(g->edge[e]) & 1) || !(gives & ~set[to]))
                    continue;
                set[to] |= gives;
                more = true;
            }
        }
    }
    memset(label, 0, MODEL_MAX * sizeof *label);
    for (hx_obj i = 0; i < g->n; i++) {
        for (hx_eidx e = g->fwd[i]; set[i] && e < g->fwd[i + 1]; e++)
            walked += follows >> hx_edge_kind_of(g->edge[e]) & 1;
        const char *name[64];
        size_t n = 0;
        for (uint64_t left = set[i]; left; left &= left - 1) {
            const char *more = rule.identity[__builtin_ctzll(left)].label;
            size_t at = n++;
            for (; at && strcmp(name[at - 1], more) > 0; at--)
                name[at] = name[at - 1];
            name[at] = more;
        }
        for (size_t k = 0; k < n; k++)
            model_append(label[i], MODEL_LABEL, ", ", name[k]);
        if (!n)
            strcpy(label[i], "(unreachable)");
        else if (analysis->max_set && n > analysis->max_set)
            strcpy(label[i], "MANY");
    }
    hx_scheme_rule_deinit(&rule);
    return walked;
}

static inline const char *model_type(const struct hx_snapshot *s, hx_obj object)
{
    const uint32_t *type = s->graph.type;
    return type && type[object] != HX_NO_TYPE ? s->types.v[type[object]].name : NULL;
}

static inline bool model_is_resident(const struct hx_snapshot *s, uint64_t page)
{
    for (size_t i = 0; i < s->resident.n; i++)
        if (s->resident.v[i].start / MODEL_PAGE <= page && page < s->resident.v[i].end / MODEL_PAGE)
            return true;
    return false;
}

/* Pages that hold objects of this label only, and those with another one's, too. */
static inline void model_pages(const struct hx_snapshot *s, const model_label *label,
                               const char *key, uint64_t *ret_only, uint64_t *ret_shared)
{
    const struct hx_graph *g = &s->graph;
    uint64_t end = g->n ? (g->addr[g->n - 1] + g->size[g->n - 1]) / MODEL_PAGE + 1 : 0;
    *ret_only = *ret_shared = 0;
    for (uint64_t page = HX_DRAW_HEAP_BASE / MODEL_PAGE; page < end; page++) {
        bool mine = false, others = false;
        for (hx_obj i = 0; i < g->n; i++) {
            if (g->addr[i] / MODEL_PAGE > page || (g->addr[i] + g->size[i] - 1) / MODEL_PAGE < page)
                continue;
            *(strcmp(label[i], key) == 0 ? &mine : &others) = true;
        }
        if (mine && model_is_resident(s, page))
            ++*(others ? ret_shared : ret_only);
    }
}

#endif
