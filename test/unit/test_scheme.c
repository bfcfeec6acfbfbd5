/* test_scheme.c - who retains by each scheme, and retainer sets by all of them. */
#include "retain_oracle.h"

#include "query/pattern.h"
#include "traverse/components.h"
#include "traverse/key_sums.h"
#include "traverse/reach.h"
#include "traverse/retain/scheme.h"

enum { NAMES = 5 };

static const char *const root_names[NAMES] = {"", "g_cache", "g_table", "heap", "main"};
static const char *const modules[NAMES] = {"", "a.out", "libc.so.6", "libm.so.6", ""};
static const char *const types[NAMES] = {"main", "Node", "Leaf<int>", "vector<Node*>", "Node2"};
static const char *const sites[NAMES] = {"main", "f/g", "f", "h", "x"};

static const char *const thread_names[NAMES] = {"worker", "worker", "", NULL, "I/O"};

static char *copy(const char *s)
{
    char *fresh = strdup(s);
    assert_non_null(fresh);
    return fresh;
}

static const struct hx_scheme *scheme_of(const char *name)
{
    const struct hx_scheme *scheme = hx_scheme_find(name);
    assert_non_null(scheme);
    assert_string_equal(scheme->name, name);
    return scheme;
}

/* --- a snapshot with everything that a scheme looks at ------------------------------ */

static void rename_root(struct hx_root *root, const char *name, const char *module)
{
    free(root->name);
    free(root->module);
    root->name = copy(name);
    root->module = copy(module);
}

static void decorate_roots(struct unit_random *random, struct hx_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        struct hx_root *root = &snapshot->roots.v[i];
        rename_root(root, root_names[unit_below(random, NAMES)],
                    modules[unit_below(random, NAMES)]);
        root->kind = (enum hx_root_kind)unit_below(random, HX_ROOT_NAMED);
        root->tid = unit_below(random, 2) ? (pid_t)(10 + unit_below(random, 3)) : 0;
        const char *thread = thread_names[unit_below(random, NAMES)];
        root->thread = root->tid && thread ? copy(thread) : NULL;
        root->symbol = unit_below(random, 3) ? NULL : copy("_ZL1x");
    }
    if (snapshot->roots.n && unit_below(random, 3) == 0)
        snapshot->roots.v[snapshot->roots.n - 1].kind = HX_ROOT_NAMED;
}

/* A group for each object, or none. */
static uint32_t *decorate_objects(struct unit_random *random, hx_obj n, struct hx_big *mem)
{
    assert_null(hx_big_reserve(mem, (size_t)n * 4 + 1));
    uint32_t *group = mem->base;
    uint64_t rare = 1 + unit_below(random, 6);
    for (hx_obj i = 0; i < n; i++)
        group[i] = unit_below(random, rare) ? UINT32_MAX : (uint32_t)unit_below(random, NAMES);
    return group;
}

static void decorate(struct unit_random *random, struct hx_snapshot *snapshot)
{
    struct hx_graph *graph = &snapshot->graph;
    decorate_roots(random, snapshot);
    if (unit_below(random, 5) == 0)
        return; /* nobody looked for types */
    for (size_t i = 0; i < NAMES; i++) {
        assert_true(hx_vec_push(&snapshot->types, (struct hx_type){.name = copy(types[i])}));
        assert_true(hx_vec_push(&snapshot->sites, (struct hx_site){.label = copy(sites[i])}));
    }
    graph->type = decorate_objects(random, graph->n, &graph->type_mem);
    graph->site = decorate_objects(random, graph->n, &graph->site_mem);
}

/* --- the same once more, naively ------------------------------------------------------- */

struct who {
    char text[64]; /* "space\1label"; "" when it is no retainer */
};

/* What `--threads-as` is about. */
static bool is_of_thread(const struct hx_root *root)
{
    switch (root->kind) {
    case HX_ROOT_STACK:
    case HX_ROOT_FRAME:
    case HX_ROOT_REGISTER:
        return root->tid != 0;
    case HX_ROOT_TLS:
        return root->tid != 0 && !root->symbol;
    default:
        return false;
    }
}

static void name_root(const char *scheme, enum hx_threads_as threads_as, const struct hx_root *root,
                      struct who *who)
{
    const char *thread = root->thread && *root->thread ? root->thread : NULL;
    bool by_thread = strcmp(scheme, "thread") == 0
                         ? root->tid != 0
                         : strcmp(scheme, "module") != 0 && is_of_thread(root) &&
                               threads_as != HX_THREADS_AS_PARTS;
    const char *space = strcmp(scheme, "thread") == 0 ? scheme : "root";
    who->text[0] = '\0';
    if (root->kind == HX_ROOT_NAMED)
        return;
    if (strcmp(scheme, "module") == 0)
        snprintf(who->text, sizeof who->text, "module\1%s",
                 *root->module ? root->module : "(no module)");
    else if (by_thread && !thread)
        snprintf(who->text, sizeof who->text, "%s\1thread %d", space, (int)root->tid);
    else if (by_thread && threads_as == HX_THREADS_AS_NAME && strcmp(space, "root") == 0)
        snprintf(who->text, sizeof who->text, "root\1thread %s", thread);
    else if (by_thread)
        snprintf(who->text, sizeof who->text, "%s\1thread %d %s", space, (int)root->tid, thread);
    else if (strcmp(scheme, "thread") == 0)
        snprintf(who->text, sizeof who->text, "thread\1globals");
    else
        snprintf(who->text, sizeof who->text, "root\1%s", root->name);
}

/* Patterns of these tests are found as they are. */
static void name_object(const char *scheme, const struct hx_graph *graph, hx_obj object,
                        const char *pattern, struct who *who)
{
    who->text[0] = '\0';
    if (strcmp(scheme, "type") == 0 && graph->type && graph->type[object] < NAMES &&
        (!pattern || strstr(types[graph->type[object]], pattern)))
        snprintf(who->text, sizeof who->text, "type\1%s", types[graph->type[object]]);
    if (strcmp(scheme, "site") == 0 && graph->site && graph->site[object] < NAMES)
        snprintf(who->text, sizeof who->text, "site\1%s", sites[graph->site[object]]);
}

static void check_identity(const struct hx_scheme_rule *rule, hx_retainer retainer,
                           const struct who *who)
{
    if (!who->text[0]) {
        assert_int_equal(retainer, HX_NO_RETAINER);
        return;
    }
    char text[64];
    assert_true(retainer < rule->n_identities);
    const struct hx_identity *identity = &rule->identity[retainer];
    snprintf(text, sizeof text, "%s\1%s", identity->space, identity->label);
    assert_string_equal(text, who->text);
    assert_non_null(identity->kind);
}

static void check_rule(const struct hx_snapshot *snapshot, const char *scheme,
                       const struct hx_scheme_options *options, const struct hx_scheme_rule *rule,
                       struct rule *ret)
{
    struct who who;
    const char *pattern = options->n_patterns ? *options->pattern : NULL;
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        name_root(scheme, options->threads_as, &snapshot->roots.v[i], &who);
        ret->of_root[i] = rule->rule.of_root[i];
        check_identity(rule, ret->of_root[i], &who);
    }
    for (hx_obj i = 0; i < snapshot->graph.n; i++) {
        name_object(scheme, &snapshot->graph, i, pattern, &who);
        ret->of_object[i] = rule->rule.of_object ? rule->rule.of_object[i] : HX_NO_RETAINER;
        check_identity(rule, ret->of_object[i], &who);
    }
    for (size_t i = 1; i < rule->n_identities; i++) {
        const struct hx_identity *a = &rule->identity[i - 1], *b = &rule->identity[i];
        int order = strcmp(a->space, b->space);
        assert_true(order < 0 || (order == 0 && strcmp(a->label, b->label) < 0));
    }
}

/* --- random graphs ---------------------------------------------------------------------- */

static uint64_t heap_bytes(const struct hx_graph *graph)
{
    uint64_t bytes = 0;
    for (hx_obj i = 0; i < graph->n; i++)
        bytes += graph->size[i];
    return bytes;
}

static void check_sums(const struct hx_snapshot *snapshot, const hx_sets *sets,
                       const struct hx_retention *retention)
{
    struct hx_key_sums census;
    uint64_t bytes = 0, objects = 0;
    assert_null(hx_key_sums_make(snapshot, retention->set, hx_sets_count(sets), NULL, &census));
    for (uint32_t i = 0; i < census.n; i++) {
        bytes += census.bytes[i];
        objects += census.objects[i];
    }
    assert_int_equal(bytes, heap_bytes(&snapshot->graph));
    assert_int_equal(objects, snapshot->graph.n);
    assert_int_equal(census.objects[HX_SET_NONE], snapshot->state_objects[HX_STATE_DEFINITE] +
                                                      snapshot->state_objects[HX_STATE_INDIRECT]);
    hx_key_sums_deinit(&census);
}

/* Each edge that is followed counts once. */
static uint64_t count_visits(const struct random_graph *graph, const struct hx_snapshot *snapshot,
                             enum hx_interior interior, const struct rule *rule)
{
    uint64_t visits = 0;
    for (size_t e = 0; e < graph->n_root_edges; e++)
        visits += rule->of_root[graph->root_edge[e].source] != HX_NO_RETAINER &&
                  is_followed(interior, graph->root_edge[e].kind);
    for (size_t e = 0; e < graph->n_edges; e++) {
        uint8_t state = snapshot->graph.state[graph->edge[e].source];
        visits += (state == HX_STATE_REACHABLE || state == HX_STATE_POSSIBLE) &&
                  is_followed(interior, graph->edge[e].kind);
    }
    return visits;
}

static void check_sets(const struct random_graph *graph, const struct hx_snapshot *snapshot,
                       enum hx_interior interior, const struct hx_retain_rule *given,
                       const struct rule *rule)
{
    uint64_t document[RANDOM_GRAPH_MAX] = {0}, equations[RANDOM_GRAPH_MAX] = {0};
    for (size_t e = 0; e < graph->n_root_edges; e++)
        if (rule->of_root[graph->root_edge[e].source] != HX_NO_RETAINER &&
            is_followed(interior, graph->root_edge[e].kind))
            document_retain(graph, interior, rule, graph->root_edge[e].target,
                            rule->of_root[graph->root_edge[e].source], document);
    fixed_point(graph, interior, rule, snapshot->graph.state, equations);
    const unsigned max_sets[] = {0, 1, 8};
    for (size_t k = 0; k < 3; k++) {
        hx_sets *sets;
        struct hx_retention retention;
        assert_null(hx_sets_create(max_sets[k], &sets));
        assert_null(hx_retain(snapshot, given, sets, NULL, &retention));
        for (hx_obj i = 0; i < graph->n; i++) {
            assert_int_equal(document[i], equations[i]);
            expect_set(sets, retention.set[i], equations[i], max_sets[k]);
        }
        check_sums(snapshot, sets, &retention);
        assert_int_equal(retention.visits, count_visits(graph, snapshot, interior, rule));
        hx_retention_deinit(&retention);
        hx_sets_destroy(sets);
    }
}

/* The limit that is found is the largest that fits, by all sets that there are; with a budget that
 * is too small for those in between it is some limit. */
static void check_found_limit(struct unit_random *random, const struct random_graph *graph,
                              const struct hx_snapshot *snapshot, enum hx_interior interior,
                              const struct hx_retain_rule *given, const struct rule *rule)
{
    uint64_t exact[RANDOM_GRAPH_MAX] = {0};
    fixed_point(graph, interior, rule, snapshot->graph.state, exact);
    uint64_t all = sets_take(exact, graph->n, 0), room = unit_below(random, all + all / 4 + 2);
    for (int hard = 0; hard < 2; hard++) {
        hx_sets *sets;
        struct hx_retention retention;
        assert_null(hx_sets_create(HX_SETS_AUTO, &sets));
        hx_sets_make_room(sets, room);
        if (hard)
            hx_sets_allow(sets, given->of_object ? 1000 : ORACLE_ROOTS + unit_below(random, 30));
        assert_null(hx_retain(snapshot, given, sets, NULL, &retention));
        unsigned want = limit_that_fits(exact, graph->n, room), limit = hx_sets_limit(sets);
        if (hard && want)
            assert_true(limit && limit <= want);
        else if (!hard)
            assert_int_equal(limit, want);
        for (hx_obj i = 0; i < graph->n; i++)
            expect_set(sets, retention.set[i], exact[i], limit);
        hx_retention_deinit(&retention);
        hx_sets_destroy(sets);
    }
}

static void one_graph(struct unit_random *random, const struct hx_scheme *scheme)
{
    struct random_graph graph;
    struct hx_scheme_rule given;
    struct rule rule;
    random_graph_make(random, RANDOM_GRAPH_MAX, &graph);
    struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
    decorate(random, snapshot);
    enum hx_interior interior = (enum hx_interior)unit_below(random, 3);
    assert_null(hx_reach(snapshot, interior, 1, NULL));
    const char *const pattern[] = {"Node"};
    struct hx_scheme_options options = {.pattern = pattern,
                                        .n_patterns = unit_below(random, 2),
                                        .threads_as = (enum hx_threads_as)unit_below(random, 3)};
    assert_null(hx_scheme_apply(scheme, snapshot, &options, &given));
    check_rule(snapshot, scheme->name, &options, &given, &rule);
    check_sets(&graph, snapshot, interior, &given.rule, &rule);
    check_found_limit(random, &graph, snapshot, interior, &given.rule, &rule);
    hx_scheme_rule_deinit(&given);
    hx_snapshot_destroy(snapshot);
}

static void test_random_graphs(void **state)
{
    (void)state;
    for (size_t i = 0; hx_schemes[i]; i++) {
        struct unit_random random = unit_random_begin(hx_schemes[i]->name);
        for (size_t round = unit_rounds(2000); round; round--)
            one_graph(&random, hx_schemes[i]);
    }
}

/* --- identities ------------------------------------------------------------------------- */

static struct hx_snapshot *three_roots(void)
{
    const struct hx_drawn_edge edge[] = {
        {0, 0, HX_EDGE_START}, {1, 0, HX_EDGE_START}, {2, 1, HX_EDGE_START}};
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(2, NULL, 0, 3, edge, 3, &snapshot));
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    return snapshot;
}

static void test_one_name_in_two_modules(void **state)
{
    (void)state;
    struct hx_snapshot *snapshot = three_roots();
    struct hx_scheme_rule rule;
    rename_root(&snapshot->roots.v[0], "same", "a.so");
    rename_root(&snapshot->roots.v[1], "same", "b.so");
    rename_root(&snapshot->roots.v[2], "other", "b.so");
    assert_null(hx_scheme_apply(scheme_of("root"), snapshot, NULL, &rule));
    assert_int_equal(rule.n_identities, 2);
    assert_string_equal(rule.identity[0].label, "other");
    assert_string_equal(rule.identity[0].module, "b.so");
    assert_string_equal(rule.identity[0].kind, "global");
    assert_string_equal(rule.identity[1].label, "same");
    assert_null(rule.identity[1].module);
    hx_scheme_rule_deinit(&rule);
    hx_snapshot_destroy(snapshot);
}

static void test_strings_are_the_rules_own(void **state)
{
    (void)state;
    struct hx_snapshot *snapshot = three_roots();
    struct hx_scheme_rule rule;
    for (size_t i = 0; i < 3; i++)
        rename_root(&snapshot->roots.v[i], i ? "" : "x", "");
    snapshot->roots.v[2].tid = 7;
    assert_null(hx_scheme_apply(scheme_of("thread"), snapshot, NULL, &rule));
    hx_snapshot_destroy(snapshot);
    assert_int_equal(rule.n_identities, 2);
    assert_string_equal(rule.identity[0].label, "globals");
    assert_string_equal(rule.identity[1].label, "thread 7");
    assert_string_equal(rule.identity[1].kind, "thread");
    hx_scheme_rule_deinit(&rule);
}

/* Two workers, one of which has two parts, and a thread that nobody named. */
static void test_threads(void **state)
{
    (void)state;
    static const struct {
        enum hx_threads_as threads_as;
        const char *label[4];
    } cases[] = {
        {HX_THREADS_AS_NAME, {"thread 12", "thread worker"}},
        {HX_THREADS_AS_ONE, {"thread 10 worker", "thread 11 worker", "thread 12"}},
        {HX_THREADS_AS_PARTS, {"main", "rbx of thread 10", "stack of thread 12", "tls"}},
    };
    const struct hx_drawn_edge edge[] = {
        {0, 0, HX_EDGE_START}, {1, 0, HX_EDGE_START}, {2, 1, HX_EDGE_START}, {3, 1, HX_EDGE_START}};
    static const struct {
        enum hx_root_kind kind;
        pid_t tid;
        const char *name, *thread;
    } parts[] = {{HX_ROOT_FRAME, 10, "main", "worker"},
                 {HX_ROOT_REGISTER, 10, "rbx of thread 10", "worker"},
                 {HX_ROOT_TLS, 11, "tls", "worker"},
                 {HX_ROOT_STACK, 12, "stack of thread 12", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hx_snapshot *snapshot;
        struct hx_scheme_rule rule;
        enum hx_threads_as parsed;
        assert_null(hx_image_graph(2, NULL, 0, 4, edge, 4, &snapshot));
        for (size_t k = 0; k < 4; k++) {
            struct hx_root *root = &snapshot->roots.v[k];
            rename_root(root, parts[k].name, "");
            root->kind = parts[k].kind;
            root->tid = parts[k].tid;
            root->thread = parts[k].thread ? copy(parts[k].thread) : NULL;
        }
        assert_true(hx_threads_as_parse(hx_threads_as_name(cases[i].threads_as), &parsed));
        assert_int_equal(parsed, cases[i].threads_as);
        const struct hx_scheme_options options = {.threads_as = parsed};
        assert_null(hx_scheme_apply(scheme_of("root"), snapshot, &options, &rule));
        for (size_t k = 0; k < rule.n_identities; k++) {
            assert_string_equal(rule.identity[k].label, cases[i].label[k]);
            assert_string_equal(rule.identity[k].space, "root");
            if (cases[i].threads_as != HX_THREADS_AS_PARTS)
                assert_string_equal(rule.identity[k].kind, "thread");
        }
        assert_true(rule.n_identities == 4 || !cases[i].label[rule.n_identities]);
        hx_scheme_rule_deinit(&rule);
        hx_snapshot_destroy(snapshot);
    }
}

static void test_bad_pattern(void **state)
{
    (void)state;
    struct hx_snapshot *snapshot = three_roots();
    const char *const pattern[] = {"Node", "("};
    const struct hx_scheme_options options = {.pattern = pattern, .n_patterns = 2};
    struct hx_scheme_rule rule;
    hx_error *err = hx_scheme_apply(scheme_of("type"), snapshot, &options, &rule);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_USAGE);
    hx_error_free(err);
    hx_snapshot_destroy(snapshot);
}

/* Every name that `types` shows picks itself. */
static void test_names_as_patterns(void **state)
{
    (void)state;
    static const char *const names[] = {"Node[]", "H<main::{lambda(char const*, double)#2}>",
                                        "(anonymous namespace)::A", "T<int*, &f>"};
    static const char *const neither[] = {"(", "[a", "a{1", "(a]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hx_patterns *patterns;
        assert_null(hx_pattern_check(names[i]));
        assert_null(hx_patterns_create(&names[i], 1, &patterns));
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            assert_int_equal(hx_patterns_match(patterns, names[k]), k == i);
        hx_patterns_destroy(patterns);
    }
    for (size_t i = 0; i < sizeof neither / sizeof *neither; i++) {
        hx_error *err = hx_pattern_check(neither[i]);
        assert_non_null(err);
        assert_int_equal(err->kind, HX_E_USAGE);
        hx_error_free(err);
    }
}

static void test_list(void **state)
{
    (void)state;
    assert_string_equal(hx_schemes[0]->name, "root");
    assert_null(hx_scheme_find("roots"));
    for (size_t i = 0; hx_schemes[i]; i++) {
        assert_ptr_equal(hx_scheme_find(hx_schemes[i]->name), hx_schemes[i]);
        assert_non_null(hx_schemes[i]->about);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_one_name_in_two_modules),
        cmocka_unit_test(test_strings_are_the_rules_own),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_bad_pattern),
        cmocka_unit_test(test_names_as_patterns),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
