/* test_suppress.c - patterns over whole names, files of suppressions and what they take out,
 * against the definitions. */
#include "random_graph.h"

#include "query/glob.h"
#include "query/suppress.h"
#include "traverse/reach.h"

static void must(hx_error *err)
{
    if (err)
        fail_msg("%s: %s", err->what, err->why);
}

/* --- patterns ------------------------------------------------------------------------ */

/* By trying everything; names and patterns are short. */
static bool naive(const char *glob, const char *name)
{
    if (*glob == '*')
        return naive(glob + 1, name) || (*name && naive(glob, name + 1));
    if (!*glob || !*name)
        return !*glob && !*name;
    if (*glob == '?')
        return naive(glob + 1, name + 1);
    return *glob == *name && naive(glob + 1, name + 1);
}

static bool glob_matches(const char *pattern, size_t n, const char *name, size_t name_n)
{
    size_t at;
    hx_glob *glob;
    must(hx_glob_create(pattern, n, &at, &glob));
    bool does = hx_glob_matches(glob, name, name_n);
    hx_glob_destroy(glob);
    return does;
}

static void globs(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("globs");
    for (size_t round = unit_rounds(20000); round > 0; round--) {
        char pattern[10] = "", name[12] = "";
        for (size_t i = unit_below(&random, sizeof pattern); i > 0; i--)
            pattern[i - 1] = "aab**?b?"[unit_below(&random, 8)];
        for (size_t i = unit_below(&random, sizeof name); i > 0; i--)
            name[i - 1] = "ab"[unit_below(&random, 2)];
        pattern[strlen(pattern)] = 0;
        bool does = glob_matches(pattern, strlen(pattern), name, strlen(name));
        if (does != naive(pattern, name))
            fail_msg("'%s' and '%s': %d", pattern, name, does);
    }
    assert_true(glob_matches("a\\*b", 4, "a*b", 3));
    assert_false(glob_matches("a\\*b", 4, "axb", 3));
    assert_true(glob_matches("?", 1, "\xc3\xa4", 2)); /* one character of two bytes */
    assert_true(glob_matches("~ ^x+$", 6, "xxx", 3));
    assert_false(glob_matches("~ ^x+$", 6, "xxy", 3));
    assert_true(glob_matches("\\x41", 4, "A", 1));
}

/* What is quoted matches exactly itself. */
static void quoted(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("quoted");
    for (size_t round = unit_rounds(5000); round > 0; round--) {
        char name[24], other[24];
        size_t n = 1 + (size_t)unit_below(&random, sizeof name);
        for (size_t i = 0; i < n; i++)
            name[i] = unit_below(&random, 2) ? "*?\\~ \nx\t"[unit_below(&random, 8)]
                                             : (char)(1 + unit_below(&random, 255));
        struct hx_text text = {0};
        hx_glob_quote(&text, name, n);
        assert_true(text.s[0] != '~' && text.s[0] != ' ' && text.s[text.n - 1] != ' ');
        assert_true(glob_matches(text.s, text.n, name, n));
        memcpy(other, name, n);
        other[unit_below(&random, n)] ^= 1;
        assert_false(glob_matches(text.s, text.n, other, n));
        hx_text_free(&text);
    }
}

/* --- files --------------------------------------------------------------------------- */

static hx_error *parse(const char *text, size_t n, hx_suppressions **ret)
{
    must(hx_suppressions_create(ret));
    return hx_suppressions_parse(*ret, "f", text, n);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *at, *why;
    } wrong[] = {
        {"x", "f:1:1", "in no entry"},
        {"{\n", "f:1:1", "no name"},
        {"a {\n}\n", "f:2:1", "take out everything"},
        {"a {\nat most: 1M\n}\n", "f:3:1", "take out everything"},
        {"a {\ntype: x\n", "f:2:1", "has no end"},
        {"a {\ntypo: x\n}\n", "f:2:1", "no key"},
        {"a {\n type:\n}\n", "f:2:6", "nothing stands"},
        {"a {\n kind: definite, lost\n}\n", "f:2:18", "no kind"},
        {"a {\n type: ~ (\n}\n", "f:2:10", ""},
        {"a {\n type: ~\n}\n", "f:2:9", "no expression"},
        {"a {\n type: b\\\n}\n", "f:2:9", "backslash"},
        {"a {\n type: \xc3\xa4\\xg\n}\n", "f:2:9", "backslash"},
        {"a {\n type: x\n type: y\n}\n", "f:3:2", "twice"},
        {"a {\n chain: x ->  -> y\n}\n", "f:2:14", "empty"},
        {"a {\n type: x\n at most: ten\n}\n", "f:3:11", "no limit"},
        {"a {\n type: x\n at most: 1K, -1 objects\n}\n", "f:3:15", "no limit"},
        {"a {\nb {\n", "f:2:1", "no line of an entry"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hx_suppressions *list;
        hx_error *err = parse(wrong[i].text, strlen(wrong[i].text), &list);
        if (!err || err->kind != HX_E_USAGE || strcmp(err->what, wrong[i].at) != 0 ||
            !strstr(err->why, wrong[i].why))
            fail_msg("%s: %s: %s", wrong[i].text, err ? err->what : "read", err ? err->why : "");
        hx_error_free(err);
        hx_suppressions_destroy(list);
    }
}

/* Whatever stands in a file, it is read or refused. */
static void any_bytes(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("any_bytes");
    static const char *const pieces[] = {
        "a {\n",    "type: ", "site: ",    "chain: ",    " -> ",    "...", "kind: ",
        "possible", "\n}\n",  "at most: ", "12 objects", "~ (a|b)", "#\n", "\\",
        "x",        ",",      "\r\n",      "{",          "}"};
    for (size_t round = unit_rounds(5000); round > 0; round--) {
        struct hx_text text = {0};
        hx_suppressions *list;
        for (uint64_t i = unit_below(&random, 30); i > 0; i--)
            if (unit_below(&random, 20))
                hx_text_puts(&text, pieces[unit_below(&random, sizeof pieces / sizeof *pieces)]);
            else
                hx_text_putc(&text, (char)unit_below(&random, 256));
        hx_error_free(parse(hx_text_str(&text), text.n, &list));
        hx_suppressions_destroy(list);
        hx_text_free(&text);
    }
}

/* --- what is taken out --------------------------------------------------------------- */

enum { TYPES = 3, SITES = 2, CHAIN = 4, ENTRIES = 4 };
static const char *const names[TYPES + 1] = {"A", "B", "C", "(unknown)"};

struct rule {
    unsigned kinds;
    int type, site;   /* -1: any */
    int chain[CHAIN]; /* TYPES + 1: `...`, TYPES + 2: * */
    size_t n_chain;
    uint64_t most;
    bool over;
};

static void give_names(struct unit_random *random, struct hx_snapshot *s)
{
    struct hx_graph *g = &s->graph;
    must(hx_big_reserve(&g->type_mem, ((size_t)g->n + 1) * sizeof *g->type));
    must(hx_big_reserve(&g->site_mem, ((size_t)g->n + 1) * sizeof *g->site));
    g->type = g->type_mem.base;
    g->site = g->site_mem.base;
    for (hx_obj i = 0; i < g->n; i++) {
        uint64_t type = unit_below(random, TYPES + 1), site = unit_below(random, SITES + 1);
        g->type[i] = type < TYPES ? (uint32_t)type : HX_NO_TYPE;
        g->site[i] = site < SITES ? (uint32_t)site : HX_NO_SITE;
    }
    for (int i = 0; i < TYPES; i++)
        assert_true(hx_vec_push(&s->types, ((struct hx_type){.name = strdup(names[i])})));
    for (int i = 0; i < SITES; i++)
        assert_true(hx_vec_push(&s->sites, ((struct hx_site){.label = strdup(i ? "g" : "f")})));
}

static int type_of(const struct hx_graph *g, hx_obj object)
{
    return g->type[object] < TYPES ? (int)g->type[object] : TYPES;
}

static struct rule some_rule(struct unit_random *random, struct hx_text *text)
{
    struct rule rule = {.type = (int)unit_below(random, TYPES + 3) - 2, .most = UINT64_MAX};
    if (rule.type < 0)
        rule.type = -1;
    rule.site = unit_below(random, 3) ? -1 : (int)unit_below(random, SITES);
    rule.kinds = unit_below(random, 2) ? 7 : 1 + (unsigned)unit_below(random, 7);
    if (unit_below(random, 2))
        rule.n_chain = 1 + (size_t)unit_below(random, CHAIN);
    if (!unit_below(random, 4))
        rule.most = unit_below(random, 200);
    hx_text_puts(text, "e {\nkind: ");
    static const char *const kinds[] = {"definite", "indirect", "possible"};
    for (int i = 0, n = 0; i < 3; i++)
        if (rule.kinds >> i & 1)
            hx_text_putf(text, "%s%s", n++ ? "," : "", kinds[i]);
    if (rule.type >= 0)
        hx_text_putf(text, "\n type: %s", names[rule.type]);
    if (rule.site >= 0)
        hx_text_putf(text, "\n site: %s", rule.site ? "g" : "f");
    if (rule.most != UINT64_MAX)
        hx_text_putf(text, "\n at most: %llu", (unsigned long long)rule.most);
    for (size_t i = 0; i < rule.n_chain; i++) {
        rule.chain[i] = (int)unit_below(random, TYPES + 3);
        hx_text_putf(text, "%s%s", i ? " -> " : "\n chain: ",
                     rule.chain[i] == TYPES + 1   ? "..."
                     : rule.chain[i] == TYPES + 2 ? "*"
                                                  : names[rule.chain[i]]);
    }
    hx_text_puts(text, "\n}\n");
    return rule;
}

static bool lost(const struct hx_graph *g, hx_obj i)
{
    return g->state[i] == HX_STATE_DEFINITE || g->state[i] == HX_STATE_INDIRECT;
}

/* (object, elements of the chain behind it), by following everything there is. Roots are called
 * something else than types. */
static void find_places(const struct hx_snapshot *s, const struct rule *rule,
                        bool at[RANDOM_GRAPH_MAX][CHAIN + 1])
{
    const struct hx_graph *g = &s->graph;
    memset(at, 0, sizeof(bool[RANDOM_GRAPH_MAX][CHAIN + 1]));
    bool before[CHAIN + 1] = {true}, behind_root[CHAIN + 1] = {false};
    for (size_t p = 0; p < rule->n_chain; p++) {
        before[p + 1] = before[p] && rule->chain[p] == TYPES + 1;
        if (before[p] && rule->chain[p] >= TYPES + 1)
            behind_root[rule->chain[p] == TYPES + 1 ? p : p + 1] = true;
    }
    if (before[rule->n_chain])
        behind_root[rule->n_chain] |= rule->n_chain && rule->chain[rule->n_chain - 1] == TYPES + 1;
    for (bool more = true; more;) {
        more = false;
        for (hx_obj i = 0; i < g->n; i++) {
            bool in[CHAIN + 1] = {false};
            if (g->state[i] == HX_STATE_DEFINITE)
                memcpy(in, before, sizeof in);
            for (size_t k = 0; k < s->root_edges.n && !lost(g, i); k++)
                for (size_t p = 0; p <= rule->n_chain && s->root_edges.v[k].target == i; p++)
                    in[p] |= behind_root[p];
            for (hx_obj from = 0; from < g->n; from++)
                for (hx_eidx e = g->fwd[from]; e < g->fwd[from + 1]; e++)
                    for (size_t p = 0; p <= rule->n_chain; p++)
                        if (hx_edge_target(g->edge[e]) == i && lost(g, from) == lost(g, i))
                            in[p] |= at[from][p];
            for (size_t p = 0; p < rule->n_chain; p++) /* `...` may be nothing */
                in[p + 1] |= in[p] && rule->chain[p] == TYPES + 1;
            for (size_t p = 0; p < rule->n_chain; p++) {
                bool any = rule->chain[p] == TYPES + 1;
                bool fits = rule->chain[p] == TYPES + 2 || rule->chain[p] == type_of(g, i);
                size_t to = any ? p : p + 1;
                if (in[p] && (any || fits) && !at[i][to])
                    more = at[i][to] = true;
            }
            for (size_t p = 0; p < rule->n_chain; p++)
                if (at[i][p] && rule->chain[p] == TYPES + 1 && !at[i][p + 1])
                    more = at[i][p + 1] = true;
        }
    }
}

static bool is_matched(const struct hx_snapshot *s, const struct rule *rule, hx_obj i,
                       bool at[RANDOM_GRAPH_MAX][CHAIN + 1])
{
    const struct hx_graph *g = &s->graph;
    unsigned kind = g->state[i] == HX_STATE_DEFINITE   ? 1
                    : g->state[i] == HX_STATE_INDIRECT ? 2
                    : g->state[i] == HX_STATE_POSSIBLE ? 4
                                                       : 0;
    return rule->kinds & kind && (rule->type < 0 || rule->type == type_of(g, i)) &&
           (rule->site < 0 || (uint32_t)rule->site == g->site[i]) &&
           (!rule->n_chain || at[i][rule->n_chain]);
}

/* May a leak be held by something that stays? */
static bool begins(const struct hx_snapshot *s, hx_obj i)
{
    const struct hx_graph *g = &s->graph;
    if (g->state[i] != HX_STATE_POSSIBLE)
        return g->state[i] == HX_STATE_DEFINITE;
    for (size_t k = 0; k < s->root_edges.n; k++)
        if (s->root_edges.v[k].target == i)
            return true;
    for (hx_obj from = 0; from < g->n; from++)
        for (hx_eidx e = g->fwd[from]; e < g->fwd[from + 1]; e++)
            if (hx_edge_target(g->edge[e]) == i && g->state[from] == HX_STATE_REACHABLE)
                return true;
    return false;
}

/* kept[i]: it stays; else, of what is lost or possibly lost, it is taken out. */
static void find_kept(const struct hx_snapshot *s, const bool *matched, bool *kept)
{
    const struct hx_graph *g = &s->graph;
    for (hx_obj i = 0; i < g->n; i++)
        kept[i] = g->state[i] == HX_STATE_REACHABLE ||
                  (!matched[i] && g->state[i] != HX_STATE_NONE && begins(s, i));
    for (bool more = true; more;) {
        more = false;
        for (hx_obj from = 0; from < g->n; from++)
            for (hx_eidx e = g->fwd[from]; e < g->fwd[from + 1]; e++) {
                hx_obj to = hx_edge_target(g->edge[e]);
                if (kept[from] && !matched[to] && !kept[to] && lost(g, from) == lost(g, to))
                    more = kept[to] = true;
            }
    }
}

static void taken_out(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("taken_out");
    size_t any = 0, over = 0;
    for (size_t round = unit_rounds(3000); round > 0; round--) {
        struct random_graph drawn;
        random_graph_make(&random, RANDOM_GRAPH_MAX, &drawn);
        struct hx_snapshot *s = random_graph_snapshot(&drawn);
        give_names(&random, s);
        must(hx_reach(s, HX_INTERIOR_KNOWN, 1, NULL));
        struct hx_text text = {0};
        struct rule rule[ENTRIES];
        size_t n = 1 + (size_t)unit_below(&random, ENTRIES);
        for (size_t i = 0; i < n; i++)
            rule[i] = some_rule(&random, &text);
        hx_suppressions *list;
        must(parse(hx_text_str(&text), text.n, &list));
        assert_int_equal(hx_suppressions_count(list), n);

        uint8_t before[RANDOM_GRAPH_MAX];
        if (!s->graph.n) { /* nothing has a state */
            hx_suppressions_destroy(list);
            hx_text_free(&text);
            hx_snapshot_destroy(s);
            continue;
        }
        memcpy(before, s->graph.state, s->graph.n);

        static bool at[ENTRIES][RANDOM_GRAPH_MAX][CHAIN + 1];
        for (size_t i = 0; i < n; i++)
            find_places(s, &rule[i], at[i]);
        uint64_t bytes, objects, sum = 0;
        must(hx_suppress(list, s, NULL, &bytes, &objects));
        uint8_t after[RANDOM_GRAPH_MAX];
        memcpy(after, s->graph.state, s->graph.n);
        memcpy(s->graph.state, before, s->graph.n);
        bool matched[RANDOM_GRAPH_MAX] = {false}, kept[RANDOM_GRAPH_MAX];
        for (size_t i = 0; i < n; i++) {
            const struct hx_suppression *is = hx_suppressions_at(list, i);
            assert_true(is->bytes <= rule[i].most);
            assert_true(!is->over_objects || (!is->objects && is->over_bytes > rule[i].most));
            over += is->over_objects != 0;
            sum += is->objects;
            for (hx_obj k = 0; k < s->graph.n && !is->over_objects; k++)
                matched[k] |= is_matched(s, &rule[i], k, at[i]);
        }
        find_kept(s, matched, kept);
        uint64_t expected = 0, all = 0;
        for (hx_obj i = 0; i < s->graph.n; i++) {
            bool taken = after[i] == HX_STATE_NONE;
            if (taken != !kept[i])
                fail_msg("object %u (state %u) %s\n%s", (unsigned)i, before[i],
                         taken ? "is taken out" : "stays", hx_text_str(&text));
            assert_true(taken || after[i] == before[i]);
            expected += taken && lost(&s->graph, i) ? s->graph.size[i] : 0;
            all += taken;
        }
        assert_int_equal(bytes, expected);
        assert_int_equal(sum, all);
        any += all != 0;
        hx_suppressions_destroy(list);
        hx_text_free(&text);
        hx_snapshot_destroy(s);
    }
    printf("in %zu rounds something was taken out, %zu limits were passed\n", any, over);
    assert_true(any);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(globs),     cmocka_unit_test(quoted),    cmocka_unit_test(refused),
        cmocka_unit_test(any_bytes), cmocka_unit_test(taken_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
