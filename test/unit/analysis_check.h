/* analysis_check.h - what a store says of a snapshot, compared with what analysis_model.h finds. */
#ifndef HX_TEST_ANALYSIS_CHECK_H
#define HX_TEST_ANALYSIS_CHECK_H

#include "analysis_model.h"

/* --- asking ------------------------------------------------------------------------ */

/* All rows of a statement as text. */
/* Ends the rows. */
static inline void tell_rows(hx_rows *rows, struct hx_text *text)
{
    for (bool more;;) {
        assert_done(hx_rows_next(rows, &more));
        if (!more)
            break;
        for (size_t c = 0; c < hx_rows_columns(rows); c++) {
            struct hx_value value = hx_rows_value(rows, c);
            if (value.type == HX_VALUE_INT)
                hx_text_putf(text, "%lld|", (long long)value.i);
            else if (value.type == HX_VALUE_REAL)
                hx_text_putf(text, "%.12g|", value.real);
            else
                hx_text_putf(text, "%s|", value.type == HX_VALUE_TEXT ? value.text : "NULL");
        }
        hx_text_putc(text, '\n');
    }
    hx_rows_end(rows);
    assert_false(text->failed);
}

static inline void tell(hx_store *store, struct hx_text *text, const char *sql)
{
    hx_rows *rows;
    assert_done(hx_query_sql(store, sql, &rows));
    tell_rows(rows, text);
}

static inline char *tell_format(hx_store *store, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline char *tell_format(hx_store *store, const char *format, ...)
{
    struct hx_text text = {0}, sql = {0};
    va_list args;
    va_start(args, format);
    hx_text_vputf(&sql, format, args);
    va_end(args);
    tell(store, &text, hx_text_str(&sql));
    hx_text_free(&sql);
    if (!text.s)
        return strdup("");
    return text.s;
}

/* Says the first line that differs: whole tables are too long to read. */
static inline void assert_same_lines(const char *found, const char *expected)
{
    if (strcmp(found, expected) == 0) /* strcspn() looks at all that follows under the sanitizers */
        return;
    while (*found || *expected) {
        size_t n = strcspn(found, "\n"), m = strcspn(expected, "\n");
        if (n != m || memcmp(found, expected, n) != 0)
            fail_msg("found:\n%.*s\nexpected:\n%.*s", (int)n, found, (int)m, expected);
        found += n + (found[n] == '\n');
        expected += m + (expected[m] == '\n');
    }
}

/* The statement has no rows. */
static inline void assert_nothing(hx_store *store, const char *sql)
{
    struct hx_text text = {0};
    tell(store, &text, sql);
    if (text.n)
        fail_msg("%s:\n%s", sql, text.s);
    hx_text_free(&text);
}

static inline void assert_same_rows(hx_store *store, const char *a, const char *b)
{
    struct hx_text sql = {0};
    hx_text_putf(&sql, "SELECT 'too many', * FROM (%s EXCEPT %s)", a, b);
    assert_nothing(store, hx_text_str(&sql));
    hx_text_clear(&sql);
    hx_text_putf(&sql, "SELECT 'missing', * FROM (%s EXCEPT %s)", b, a);
    assert_nothing(store, hx_text_str(&sql));
    hx_text_free(&sql);
}

/* Everything that a snapshot's views say, but what depends on what was stored before: numbers of
 * sets, kind and module of retainers that several snapshots have. */
static inline char *tell_all(hx_store *store, int64_t id)
{
    static const char *const questions[] = {
        "SELECT heap_bytes, heap_objects, scheme, notes FROM snapshots WHERE snapshot = %d",
        "SELECT scheme, max_set, holders, visits_per_object, total_bytes, sets"
        " FROM censuses WHERE snapshot = %d",
        "SELECT stray_edges, doubt_bytes FROM snapshots WHERE snapshot = %d",
        "SELECT holder, bytes, objects, alone_bytes, contested_bytes, entries FROM holders"
        " WHERE snapshot = %d ORDER BY holder",
        "SELECT * FROM shapes WHERE snapshot = %d ORDER BY shape",
        "SELECT r.label, e.position, e.entries, e.alike, e.doubt FROM retainers AS r"
        " JOIN retainer_entries AS e USING(snapshot, set_id) WHERE r.snapshot = %d"
        " ORDER BY r.label, e.position",
        "SELECT * FROM edges WHERE snapshot = %d",
        "SELECT label, members, many, bytes, objects FROM retainers WHERE snapshot = %d"
        " ORDER BY label, bytes",
        "SELECT r.label, m.position, m.label FROM retainers AS r"
        " JOIN retainer_members AS m USING(set_id) WHERE snapshot = %d"
        " ORDER BY r.label, m.position",
        "SELECT roots, bytes, objects FROM bins WHERE snapshot = %d ORDER BY roots",
        "SELECT type, confidence, bytes, objects, retained_bytes FROM types WHERE snapshot = %d"
        " ORDER BY type",
        "SELECT root_id, kind, name, module, address, size, direct_objects, retained_bytes"
        " FROM roots WHERE snapshot = %d ORDER BY root_id",
        "SELECT * FROM dominators WHERE snapshot = %d",
        "SELECT * FROM tree WHERE snapshot = %d ORDER BY node",
        "SELECT * FROM holder_tree WHERE snapshot = %d ORDER BY node",
        "SELECT census, CASE census WHEN 'retainer' THEN (SELECT label FROM retainers AS r"
        " WHERE r.snapshot = p.snapshot AND r.set_id = p.key) ELSE key END AS k,"
        " only_pages, shared_pages FROM pages AS p WHERE snapshot = %d ORDER BY census, k,"
        " only_pages, shared_pages",
        "SELECT kind, type, bytes, objects FROM leaks WHERE snapshot = %d ORDER BY kind, type",
        "SELECT o.address, o.bytes, o.type, o.shape, o.round, o.holder, o.state, r.label, o.bin, "
        "o.dominator,"
        " o.retained_bytes, o.retained_objects, o.sure_retained_bytes, o.sure_retained_objects"
        " FROM objects AS o LEFT JOIN retainers AS r USING(snapshot, set_id)"
        " WHERE o.snapshot = %d ORDER BY o.address",
        "SELECT * FROM root_edges WHERE snapshot = %d",
    };
    struct hx_text text = {0};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        char sql[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(sql, sizeof sql, questions[i], (int)id);
#pragma GCC diagnostic pop
        hx_text_putf(&text, "-- %s\n", questions[i]);
        tell(store, &text, sql);
    }
    return text.s;
}

static inline void assert_same_told(hx_store *a, int64_t a_id, hx_store *b, int64_t b_id)
{
    char *one = tell_all(a, a_id), *other = tell_all(b, b_id);
    assert_string_equal(one, other);
    free(one);
    free(other);
}

/* --- figures ----------------------------------------------------------------------- */

static inline void put_figure(struct hx_text *text, bool known, struct model_figure figure)
{
    if (known)
        hx_text_putf(text, "%llu|%llu|", (unsigned long long)figure.bytes,
                     (unsigned long long)figure.objects);
    else
        hx_text_puts(text, "NULL|NULL|");
}

static inline void check_objects(hx_store *store, int64_t id, const struct hx_snapshot *s,
                                 const model_label *set, const model_label *bin,
                                 const struct model_tree *all, const struct model_tree *sure)
{
    struct hx_text expected = {0};
    for (hx_obj i = 0; i < s->graph.n; i++) {
        const char *type = model_type(s, i);
        hx_text_putf(&expected, "%llu|%s|%s|%s|", (unsigned long long)s->graph.addr[i],
                     type ? type : "NULL", set[i], bin[i]);
        if (all->scope[i] && all->parent[i] != HX_NO_OBJ)
            hx_text_putf(&expected, "%llu|", (unsigned long long)s->graph.addr[all->parent[i]]);
        else
            hx_text_puts(&expected, "NULL|");
        put_figure(&expected, all->scope[i], all->retained[i]);
        put_figure(&expected, sure->scope[i], sure->retained[i]);
        hx_text_putc(&expected, '\n');
    }
    char *found = tell_format(store,
                              "SELECT o.address, o.type, r.label, o.bin, o.dominator,"
                              " o.retained_bytes, o.retained_objects, o.sure_retained_bytes,"
                              " o.sure_retained_objects FROM objects AS o"
                              " LEFT JOIN retainers AS r USING(snapshot, set_id)"
                              " WHERE o.snapshot = %d ORDER BY o.address",
                              (int)id);
    assert_string_equal(found, hx_text_str(&expected));
    free(found);
    hx_text_free(&expected);
}

/* Views are sums over objects, which were tested before. */
static inline void check_sums(hx_store *store)
{
    assert_same_rows(store, "SELECT snapshot, set_id, bytes, objects FROM retainers",
                     "SELECT snapshot, set_id, sum(bytes), count(*) FROM objects"
                     " GROUP BY snapshot, set_id");
    assert_same_rows(store, "SELECT snapshot, roots, bytes, objects FROM bins",
                     "SELECT snapshot, bin, sum(bytes), count(*) FROM objects"
                     " GROUP BY snapshot, bin");
    assert_same_rows(store, "SELECT snapshot, holder, bytes, objects FROM holders",
                     "SELECT snapshot, holder, sum(bytes), count(*) FROM objects"
                     " WHERE holder IS NOT NULL GROUP BY snapshot, holder");
    assert_same_rows(store, "SELECT snapshot, shape, bytes, objects FROM shapes",
                     "SELECT snapshot, coalesce(shape, '(unknown)'), sum(bytes), count(*)"
                     " FROM objects WHERE snapshot IN (SELECT snapshot FROM snapshots"
                     " WHERE stray_edges IS NOT NULL)"
                     " GROUP BY snapshot, shape");
    assert_same_rows(store, "SELECT snapshot, type, bytes, objects FROM types",
                     "SELECT snapshot, coalesce(type, '(unknown)'), sum(bytes), count(*)"
                     " FROM objects GROUP BY snapshot, type");
    assert_same_rows(store, "SELECT snapshot, kind, type, bytes, objects FROM leaks",
                     "SELECT snapshot, state, type, sum(bytes), count(*) FROM objects"
                     " WHERE state IN ('definite', 'indirect', 'possible')"
                     " GROUP BY snapshot, state, type");
    assert_same_rows(store, "SELECT * FROM dominators",
                     "SELECT snapshot, address, type, bytes, retained_bytes, retained_objects,"
                     " sure_retained_bytes, sure_retained_objects, dominator FROM objects"
                     " WHERE retained_bytes IS NOT NULL");
    assert_same_rows(
        store,
        "SELECT c.snapshot, c.total_bytes, c.sets, s.scheme FROM censuses AS c"
        " JOIN snapshots AS s USING(snapshot)",
        "SELECT s.snapshot, (SELECT coalesce(sum(bytes), 0) FROM retainers AS r"
        " WHERE r.snapshot = s.snapshot AND r.set_id <> 0), (SELECT count(*) FROM retainers AS r"
        " WHERE r.snapshot = s.snapshot AND r.set_id <> 0),"
        " (SELECT scheme FROM censuses AS c WHERE c.snapshot = s.snapshot)"
        " FROM snapshots AS s");
    assert_same_rows(store, "SELECT set_id, members, label FROM retainers WHERE set_id > 1",
                     "SELECT set_id, count(*), group_concat(label, ', ') FROM"
                     " (SELECT set_id, label FROM retainer_members ORDER BY set_id, position)"
                     " GROUP BY set_id");
    assert_nothing(store, "SELECT * FROM retainers WHERE (set_id = 1) <> many"
                          " OR (members IS NULL) <> many OR (members = 0) <> (set_id = 0)");
}

static inline void check_pages(hx_store *store, int64_t id, const struct hx_snapshot *s,
                               const char *census, const char *key, const model_label *label)
{
    struct hx_text expected = {0};
    for (hx_obj i = 0; s->has_resident && i < s->graph.n; i++) {
        uint64_t only, shared;
        model_pages(s, label, label[i], &only, &shared);
        hx_text_putf(&expected, "%llu|%llu|\n", (unsigned long long)only,
                     (unsigned long long)shared);
    }
    char *found = tell_format(store,
                              "SELECT p.only_pages, p.shared_pages FROM objects AS o JOIN pages"
                              " AS p ON p.snapshot = o.snapshot AND p.census = '%s' AND p.key = %s"
                              " WHERE o.snapshot = %d ORDER BY o.address",
                              census, key, (int)id);
    assert_string_equal(found, hx_text_str(&expected));
    free(found);
    hx_text_free(&expected);
}

static inline void check_roots(hx_store *store, int64_t id, const struct hx_snapshot *s,
                               const struct model_tree *all)
{
    const bool none[MODEL_MAX] = {false};
    struct hx_text expected = {0};
    for (size_t i = 0; i < s->roots.n; i++) {
        bool reached[MODEL_MAX];
        model_search(s, model_follows(s, false), UINT32_MAX, (uint32_t)i, none, reached);
        struct model_figure figure = model_lost(s, all->scope, reached);
        if (s->roots.v[i].kind == HX_ROOT_NAMED)
            hx_text_puts(&expected, "NULL|\n");
        else
            hx_text_putf(&expected, "%llu|\n", (unsigned long long)figure.bytes);
    }
    char *found = tell_format(
        store, "SELECT retained_bytes FROM roots WHERE snapshot = %d ORDER BY root_id", (int)id);
    assert_string_equal(found, hx_text_str(&expected));
    free(found);
    hx_text_free(&expected);
}

static inline void check_types(hx_store *store, int64_t id, const struct hx_snapshot *s,
                               const struct model_tree *all)
{
    for (size_t t = 0; t <= s->types.n; t++) {
        const char *name = t < s->types.n ? s->types.v[t].name : NULL;
        bool gone[MODEL_MAX] = {false}, reached[MODEL_MAX], any = false;
        for (hx_obj i = 0; i < s->graph.n; i++)
            any |= gone[i] = model_type(s, i) == name;
        model_search(s, model_follows(s, false), UINT32_MAX, UINT32_MAX, gone, reached);
        char expected[128] = "", *found;
        if (any)
            snprintf(expected, sizeof expected, "%s|%llu|\n",
                     name ? hx_confidence_name(s->types.v[t].confidence) : "NULL",
                     (unsigned long long)model_lost(s, all->scope, reached).bytes);
        found = tell_format(store,
                            "SELECT confidence, retained_bytes FROM types WHERE snapshot = %d"
                            " AND type = '%s'",
                            (int)id, name ? name : "(unknown)");
        assert_string_equal(found, expected);
        free(found);
    }
}

/* Each tree is the heap. By dominators, what one root alone keeps is under its name. */
static inline void check_trees(hx_store *store, int64_t id)
{
    static const char *const questions[] = {
        "SELECT sum(t.bytes) IS NOT nullif(s.heap_bytes, 0) OR sum(t.objects) IS NOT"
        " nullif(s.heap_objects, 0) FROM snapshots s LEFT JOIN tree t USING(snapshot)"
        " WHERE s.snapshot = %d AND (t.node IS NOT NULL OR s.stray_edges IS NOT NULL)"
        " GROUP BY s.snapshot UNION ALL SELECT 0 LIMIT 1", /* older schemas have none */
        "SELECT count(*) FROM tree t WHERE snapshot = %d AND retained_bytes <> bytes +"
        " (SELECT coalesce(sum(c.retained_bytes), 0) FROM tree c"
        " WHERE c.snapshot = t.snapshot AND c.parent = t.node)",
        "SELECT count(*) FROM tree t WHERE snapshot = %d AND parent IS NULL AND label NOT IN"
        " ('(several)', '(unreachable)') AND retained_bytes < (SELECT sum(r.retained_bytes)"
        " FROM roots r WHERE r.snapshot = t.snapshot AND r.name = t.label AND r.kind IN ('global', "
        "'mapping'))",
    };
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        char sql[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(sql, sizeof sql, questions[i], (int)id);
#pragma GCC diagnostic pop
        char *found = tell_format(store, "%s", sql);
        if (strcmp(found, "0|\n") != 0)
            print_error("%s: %s\n", sql, found);
        assert_string_equal(found, "0|\n");
        free(found);
    }
}

/* Rounds, and that who holds an object is one of those who retain it. */
static inline void check_holding(hx_store *store, int64_t id, const struct hx_snapshot *s,
                                 const struct hx_analysis *analysis, const unsigned *round)
{
    static model_label root[MODEL_MAX];
    struct hx_analysis by_root = *analysis;
    struct hx_text expected = {0};
    uint64_t stray = 0;
    by_root.scheme = hx_scheme_find("root");
    by_root.max_set = 0;
    model_retain(s, &by_root, root);
    for (hx_obj i = 0; i < s->graph.n; i++) {
        unsigned shape = s->graph.shape ? s->graph.shape[i] : HX_NO_SHAPE;
        hx_text_putf(&expected, "%s|", shape < s->shapes.n ? s->shapes.v[shape].label : "NULL");
        if (round && round[i] != MODEL_UNREACHED)
            hx_text_putf(&expected, "%u|", round[i]);
        else
            hx_text_puts(&expected, "NULL|");
        char *held =
            tell_format(store,
                        "SELECT coalesce(instr(', ' || '%s' || ', ', ', ' || holder || ', ')"
                        " > 0 OR holder = '(mixed)', -1)"
                        " FROM objects WHERE snapshot = %d AND address = %lld",
                        root[i], (int)id, (long long)s->graph.addr[i]);
        assert_string_equal(held, round ? "1|\n" : "-1|\n");
        free(held);
        hx_text_putc(&expected, '\n');
    }
    char *found = tell_format(
        store, "SELECT shape, round FROM objects WHERE snapshot = %d ORDER BY address", (int)id);
    assert_string_equal(found, hx_text_str(&expected));
    free(found);
    hx_text_clear(&expected);
    for (hx_eidx e = 0; s->graph.evidence && e < s->graph.n_edges; e++)
        stray += hx_word_rank(s->graph.evidence[e], &analysis->hold) == HX_RANK_STRAY;
    for (size_t i = 0; i < s->root_edges.n; i++)
        stray += hx_word_rank(s->root_edges.v[i].evidence, &analysis->hold) == HX_RANK_STRAY;
    hx_text_putf(&expected, s->graph.evidence ? "%d|%llu|\n" : "%d|NULL|\n", round != NULL,
                 (unsigned long long)stray);
    found = tell_format(store,
                        "SELECT holders, stray_edges FROM censuses JOIN snapshots USING(snapshot)"
                        " WHERE snapshot = %d",
                        (int)id);
    assert_string_equal(found, hx_text_str(&expected));
    free(found);
    hx_text_free(&expected);
}

static inline void check_doubt(hx_store *store, int64_t id, const struct hx_snapshot *s, bool holds,
                               const model_label *set, const model_label *all_edges)
{
    char expected[32] = "NULL|\n";
    uint64_t bytes = 0;
    for (hx_obj i = 0; i < s->graph.n; i++)
        bytes += strcmp(set[i], all_edges[i]) != 0 ? s->graph.size[i] : 0;
    if (holds)
        snprintf(expected, sizeof expected, "%llu|\n", (unsigned long long)bytes);
    char *found =
        tell_format(store, "SELECT doubt_bytes FROM snapshots WHERE snapshot = %d", (int)id);
    assert_string_equal(found, expected);
    free(found);
}

/* Ranks by the snapshot's own rules. */
static inline void check_ranks(hx_store *store, int64_t id, const struct hx_snapshot *s,
                               const struct hx_analysis *analysis)
{
    struct hx_text expected = {0};
    for (hx_eidx e = 0; e < s->graph.n_edges; e++) {
        hx_evidence evidence = s->graph.evidence ? s->graph.evidence[e] : 0;
        const char *rule = hx_rule_name((enum hx_rule)HX_EVIDENCE_RULE(evidence));
        if (s->graph.evidence)
            hx_text_putf(&expected, "%u|%s|\n", (unsigned)hx_word_rank(evidence, &analysis->hold),
                         rule ? rule : "NULL");
        else
            hx_text_puts(&expected, "NULL|NULL|\n");
    }
    char *found = tell_format(
        store, "SELECT rank, rule FROM edges WHERE snapshot = %d ORDER BY rowid", (int)id);
    assert_string_equal(found, hx_text_str(&expected));
    free(found);
    hx_text_free(&expected);
    assert_same_rows(store, "SELECT snapshot, source, target, offset FROM edges WHERE rank = 2",
                     "SELECT snapshot, source, target, offset FROM edges WHERE +rank = 2");
    assert_same_rows(store, "SELECT snapshot, source, target, offset FROM edges WHERE rule = 'few'",
                     "SELECT snapshot, source, target, offset FROM edges WHERE +rule = 'few'");
}

static inline void check_all(hx_store *store, int64_t id, struct hx_snapshot *s,
                             const struct hx_analysis *analysis)
{
    unsigned round[MODEL_MAX];
    bool holds = model_holds(s, analysis);
    check_ranks(store, id, s, analysis);
    static struct model_tree all, sure;
    static model_label set[MODEL_MAX], bin[MODEL_MAX], type[MODEL_MAX];
    static model_label all_edges[MODEL_MAX];
    model_retain(s, analysis, all_edges);
    if (holds)
        model_choose(s, &analysis->hold, true, round);
    model_bins(s, bin);
    if (holds)
        model_choose(s, &analysis->hold, false, round);
    model_dominate(s, false, &all);
    model_dominate(s, true, &sure);
    model_retain(s, analysis, set);
    check_holding(store, id, s, analysis, holds ? round : NULL);
    check_doubt(store, id, s, holds, set, all_edges);
    for (hx_obj i = 0; i < s->graph.n; i++) {
        snprintf(type[i], MODEL_LABEL, "%s", model_type(s, i) ? model_type(s, i) : "(unknown)");
    }
    check_objects(store, id, s, set, bin, &all, &sure);
    check_roots(store, id, s, &all);
    check_types(store, id, s, &all);
    check_trees(store, id);
    check_pages(store, id, s, "retainer", "o.set_id", set);
    check_pages(store, id, s, "bin", "o.bin", bin);
    check_pages(store, id, s, "type", "coalesce(o.type, '(unknown)')", type);
    if (holds)
        model_restore(s);
}

static inline struct hx_analysis some_analysis(struct unit_random *random)
{
    static const char *const patterns[] = {"^Node$", "std"};
    static const char *const schemes[] = {"root", "module", "thread", "type"};
    return (struct hx_analysis){
        .scheme = hx_scheme_find(schemes[unit_below(random, 4)]),
        .options = {patterns, unit_below(random, 3), (enum hx_threads_as)unit_below(random, 3)},
        .has_threads_as = true,
        .max_set = (unsigned)unit_below(random, 4),
        .threads = 1 + (unsigned)unit_below(random, 2),
        .hold = model_some_hold(random),
        .has_hold = true,
        .parts = HX_ANALYSE_EVER};
}

/* --- snapshots for a purpose ---------------------------------------------------- */

/* A root with an object of its own for each bit, and both objects point to a third one. */
static inline struct hx_snapshot *two_roots(const char *first, const char *second)
{
    static const struct hx_drawn_edge edge[] = {{0, 2, 0}, {1, 2, 0}};
    static const struct hx_drawn_edge root_edge[] = {{0, 0, 0}, {1, 1, 0}};
    struct hx_snapshot *s;
    assert_done(hx_image_graph(3, edge, 2, 2, root_edge, 2, &s));
    s->method = "copy";
    const char *name[] = {first, second};
    for (size_t i = 0; i < 2; i++) {
        free(s->roots.v[i].name);
        s->roots.v[i].name = strdup(name[i]);
        free(s->roots.v[i].module);
        s->roots.v[i].module = strdup(i ? "libz.so" : "a.out");
    }
    assert_done(hx_reach(s, HX_INTERIOR_KNOWN, 1, NULL));
    return s;
}

/* Many roots, each with an object: rows enough to meet any limit. */
static inline struct hx_snapshot *many_sets(hx_obj n)
{
    struct hx_drawn_edge *edge = calloc(n, sizeof *edge);
    struct hx_snapshot *s;
    for (hx_obj i = 0; i < n; i++)
        edge[i] = (struct hx_drawn_edge){i, i, HX_EDGE_START};
    assert_done(hx_image_graph(n, NULL, 0, n, edge, n, &s));
    assert_done(hx_reach(s, HX_INTERIOR_KNOWN, 1, NULL));
    s->method = "copy";
    free(edge);
    return s;
}

#endif
