/* store_model.h - random snapshots for the tests of the store, and their comparison. */
#ifndef HX_TEST_STORE_MODEL_H
#define HX_TEST_STORE_MODEL_H

#include "unit.h"

#include "base/cleanup.h"
#include "store/query.h"
#include "store/store.h"

#include <sys/stat.h>
#include <unistd.h>

/* Ends the test with the error's line. */
#define assert_done(call)                                                                          \
    do {                                                                                           \
        hx_error *done_error_ = (call);                                                            \
        if (done_error_) {                                                                         \
            char done_line_[512];                                                                  \
            hx_error_line(done_error_, done_line_, sizeof done_line_);                             \
            hx_error_free(done_error_);                                                            \
            fail_msg("%s: %s", #call, done_line_);                                                 \
        }                                                                                          \
    } while (0)

/* The call fails, with that kind and a word of its line. */
#define assert_refused(call, expected, word)                                                       \
    do {                                                                                           \
        hx_error *refused_error_ = (call);                                                         \
        char refused_line_[512] = "no error";                                                      \
        enum hx_error_kind refused_kind_ = HX_E_FAIL;                                              \
        if (refused_error_) {                                                                      \
            refused_kind_ = refused_error_->kind;                                                  \
            hx_error_line(refused_error_, refused_line_, sizeof refused_line_);                    \
        }                                                                                          \
        bool refused_ = refused_error_ != NULL;                                                    \
        hx_error_free(refused_error_);                                                             \
        if (!refused_ || refused_kind_ != (expected) || !strstr(refused_line_, (word)))            \
            fail_msg("%s: kind %d, %s", #call, (int)refused_kind_, refused_line_);                 \
    } while (0)

static inline char *model_text(struct unit_random *random, const char *prefix)
{
    static const char *const tails[] = {"",         "plain",   "\x1b[31mred", "caf\xc3\xa9",
                                        "\xff\xfe", "a,\"b\"", "line\nend",   "\xe2\x80\xae right"};
    char *text = NULL;
    if (asprintf(&text, "%s%s%u", prefix, tails[unit_below(random, 8)],
                 (unsigned)unit_below(random, 1000)) < 0)
        abort();
    return text;
}

static inline void model_objects(struct unit_random *random, struct hx_graph *g, hx_obj n)
{
    g->n = n;
    assert_done(hx_big_reserve(&g->addr_mem, (size_t)n * 8));
    assert_done(hx_big_reserve(&g->size_mem, (size_t)n * 8));
    assert_done(hx_big_reserve(&g->state_mem, n));
    g->addr = g->addr_mem.base;
    g->size = g->size_mem.base;
    g->state = g->state_mem.base;
    uint64_t at = 0x10000 + 16 * unit_below(random, (uint64_t)1 << 38);
    for (hx_obj i = 0; i < n; i++) {
        g->addr[i] = at;
        g->size[i] = unit_below(random, 1000) ? 24 + 16 * unit_below(random, 20)
                                              : unit_below(random, (uint64_t)1 << 31);
        at += g->size[i] + (unit_below(random, 10) ? 8 : 8 * unit_below(random, 1000));
        at += unit_below(random, 5000) ? 0 : unit_below(random, (uint64_t)1 << 40);
        g->state[i] = (uint8_t)(1 + unit_below(random, HX_STATES - 1));
    }
}

/* How many edges an object has that `room` others come before. Blocks of edges shall end behind one
 * of exactly 4, of 5 and more, and of none, in turn from `turn` on. */
static inline uint64_t model_count(struct unit_random *random, uint64_t room, uint64_t turn,
                                   bool none_before)
{
    enum { BLOCK = 65536, NEAR = 12 };
    const uint64_t rest = BLOCK - room % BLOCK, block = room / BLOCK + turn;
    const uint64_t last = block % 3 == 0 ? 4 : block % 3 == 1 ? 5 + unit_below(random, 3) : 1;
    if (room && rest == BLOCK && (block - 1) % 3 == 2 && !none_before)
        return 0;
    if (rest <= NEAR)
        return rest > last ? 1 : rest;
    if (unit_below(random, 20000) == 0)
        return unit_below(random, 100000); /* more than a block */
    return unit_below(random, 3) ? unit_below(random, 4) : 0;
}

static inline void model_edges(struct unit_random *random, struct hx_graph *g)
{
    size_t room = 0;
    const uint64_t turn = unit_below(random, 3);
    uint64_t *count = calloc((size_t)g->n + 1, sizeof *count);
    assert_non_null(count);
    for (hx_obj i = 0; i < g->n; i++) {
        count[i] = model_count(random, room, turn, i && !count[i - 1]);
        room += count[i];
    }
    assert_done(hx_big_reserve(&g->fwd_mem, ((size_t)g->n + 1) * 8));
    assert_done(hx_big_reserve(&g->edge_mem, room * 8));
    g->fwd = g->fwd_mem.base;
    g->edge = g->edge_mem.base;
    for (hx_obj i = 0; i < g->n; i++) {
        uint64_t word = unit_below(random, 3);
        for (uint64_t e = 0; e < count[i]; e++, word += 1 + unit_below(random, 3)) {
            hx_obj target = (hx_obj)(unit_below(random, 2) ? unit_below(random, g->n)
                                                           : (i + unit_below(random, 9)) % g->n);
            g->edge[g->n_edges++] =
                hx_edge_make(target, word, (enum hx_edge_kind)unit_below(random, 3));
        }
        g->fwd[i + 1] = g->n_edges;
    }
    free(count);
}

static inline void model_roots(struct unit_random *random, struct hx_snapshot *s)
{
    uint64_t at = 0x1000;
    size_t roots = unit_below(random, 200);
    for (size_t r = 0; r < roots; r++) {
        struct hx_root root = {.kind = (enum hx_root_kind)unit_below(random, 7),
                               .name = model_text(random, "root "),
                               .module =
                                   unit_below(random, 4) ? model_text(random, "lib") : strdup(""),
                               .address = at,
                               .size = 8 + 8 * unit_below(random, 100),
                               .tid = (pid_t)unit_below(random, 5)};
        if (root.kind == HX_ROOT_REGISTER)
            root.value = unit_random(random), root.address = 0;
        at += root.size + 8 * unit_below(random, 10);
        uint64_t edges = s->graph.n ? unit_below(random, r ? 8 : 2000) : 0, word = 0;
        for (uint64_t e = 0; e < edges; e++, word += 8) {
            struct hx_root_edge edge = {.root = (uint32_t)r,
                                        .target = (hx_obj)unit_below(random, s->graph.n),
                                        .address = root.address ? root.address + word : 0,
                                        .kind = (uint8_t)unit_below(random, 3)};
            assert_true(hx_vec_push(&s->root_edges, edge));
        }
        root.direct_objects = edges;
        assert_true(hx_vec_push(&s->roots, root));
    }
}

static inline struct hx_snapshot *model_snapshot(struct unit_random *random, hx_obj n)
{
    struct hx_snapshot *s;
    assert_done(hx_snapshot_create(&s));
    model_objects(random, &s->graph, n);
    model_edges(random, &s->graph);
    model_roots(random, s);
    s->taken_at_ns = (int64_t)unit_below(random, (uint64_t)1 << 60);
    s->pid = (pid_t)unit_below(random, 100000);
    s->comm = model_text(random, "comm ");
    s->exe = unit_below(random, 3) ? model_text(random, "/usr/bin/") : NULL;
    s->allocator = model_text(random, "glibc ");
    s->pause_us = unit_below(random, 100000);
    s->free_bytes = unit_below(random, 1 << 30);
    s->overhead_bytes = unit_below(random, 1 << 20);
    s->interior = (enum hx_interior)unit_below(random, 3);
    if (unit_below(random, 2))
        hx_snapshot_note(s, unit_below(random, 2), "something %u", (unsigned)n);
    s->has_rss = s->has_account = unit_below(random, 4) != 0;
    s->no_heap = n == 0 && unit_below(random, 2); /* nobody walked it */
    if (s->no_heap)
        s->free_bytes = s->overhead_bytes = 0;
    for (int part = s->no_heap ? HX_PART_FILES : 0; s->has_account && part < HX_PARTS; part++) {
        s->account[part] = unit_below(random, 1 << 30);
        s->rss_bytes += s->account[part];
    }
    for (uint64_t i = unit_below(random, 5); i > 0; i--)
        hx_snapshot_lose(s, i & 1 ? "pages unreadable" : "blocks skipped", i,
                         unit_below(random, 2) * 4096, unit_below(random, 2) * 4096 * i);
    return s;
}

static inline void assert_same_text(const char *a, const char *b)
{
    if (a && b)
        assert_string_equal(a, b);
    else
        assert_ptr_equal(a, b);
}

static inline void assert_same_snapshot(const struct hx_snapshot *a, const struct hx_snapshot *b)
{
    const struct hx_graph *g = &a->graph, *h = &b->graph;
    assert_int_equal(g->n, h->n);
    assert_int_equal(g->n_edges, h->n_edges);
    if (g->n) {
        assert_memory_equal(g->addr, h->addr, (size_t)g->n * 8);
        assert_memory_equal(g->size, h->size, (size_t)g->n * 8);
        assert_memory_equal(g->state, h->state, g->n);
        assert_memory_equal(g->fwd, h->fwd, ((size_t)g->n + 1) * 8);
    }
    if (g->n_edges)
        assert_memory_equal(g->edge, h->edge, g->n_edges * 8);
    assert_true(!g->evidence == !h->evidence && !g->shape == !h->shape);
    if (g->evidence && g->n_edges)
        assert_memory_equal(g->evidence, h->evidence, g->n_edges);
    if (g->shape && g->n)
        assert_memory_equal(g->shape, h->shape, g->n * sizeof *g->shape);
    assert_int_equal(a->shapes.n, b->shapes.n);
    for (size_t i = 0; i < a->shapes.n; i++)
        assert_string_equal(a->shapes.v[i].label, b->shapes.v[i].label);
    assert_int_equal(a->roots.n, b->roots.n);
    for (size_t i = 0; i < a->roots.n; i++) {
        const struct hx_root *r = &a->roots.v[i], *q = &b->roots.v[i];
        assert_string_equal(r->name, q->name);
        assert_string_equal(r->module, q->module);
        assert_true(r->kind == q->kind && r->address == q->address && r->size == q->size);
        assert_true(r->value == q->value && r->tid == q->tid);
        assert_int_equal(r->direct_objects, q->direct_objects);
    }
    assert_int_equal(a->root_edges.n, b->root_edges.n);
    for (size_t i = 0; i < a->root_edges.n; i++) {
        const struct hx_root_edge *e = &a->root_edges.v[i], *f = &b->root_edges.v[i];
        assert_true(e->root == f->root && e->target == f->target && e->address == f->address &&
                    e->kind == f->kind);
        if (g->evidence)
            assert_int_equal(e->evidence, f->evidence);
    }
    assert_true(a->taken_at_ns == b->taken_at_ns && a->pid == b->pid);
    assert_same_text(a->comm, b->comm);
    assert_same_text(a->exe, b->exe);
    assert_same_text(a->allocator, b->allocator);
    assert_string_equal(a->method, b->method);
    assert_string_equal(hx_text_str(&a->notes), hx_text_str(&b->notes));
    assert_true(a->pause_us == b->pause_us && a->complete == b->complete);
    assert_true(a->free_bytes == b->free_bytes && a->overhead_bytes == b->overhead_bytes);
    assert_true(a->no_heap == b->no_heap);
    assert_true(a->has_rss == b->has_rss && a->rss_bytes == b->rss_bytes);
    assert_true(a->interior == b->interior && a->has_account == b->has_account);
    assert_memory_equal(a->account, b->account, sizeof a->account);
    assert_int_equal(a->losses.n, b->losses.n);
    for (size_t i = 0; i < a->losses.n; i++) {
        const struct hx_loss *l = &a->losses.v[i], *m = &b->losses.v[i];
        assert_string_equal(l->what, m->what);
        assert_true(l->count == m->count && l->bytes == m->bytes && l->address == m->address);
        assert_true(l->has_bytes == m->has_bytes && l->has_address == m->has_address);
    }
}

/* The first value of the first row. */
static inline int64_t ask_int(hx_store *store, const char *sql)
{
    hx_rows *rows;
    bool more;
    assert_done(hx_query_sql(store, sql, &rows));
    assert_done(hx_rows_next(rows, &more));
    assert_true(more);
    int64_t value = hx_rows_value(rows, 0).i;
    hx_rows_end(rows);
    return value;
}

/* Columns of an attached store `new` as those of older schemas lie. */
#define MODEL_UNPACK                                                                               \
    "UPDATE new.hx_column SET data = (SELECT p.data FROM new.hx_pack AS p WHERE p.pack ="          \
    " hx_column.data) WHERE typeof(data) = 'integer'"

/* A directory of the test's own; call model_remove() at the end. */
static inline char *model_directory(void)
{
    const char *base = getenv("TMPDIR");
    char *path = NULL;
    if (asprintf(&path, "%s/heapx-test-XXXXXX", base ? base : "/tmp") < 0 || !mkdtemp(path))
        abort();
    return path;
}

static inline void model_remove(char *directory)
{
    char *command = NULL;
    if (asprintf(&command, "rm -rf '%s'", directory) >= 0 && system(command) != 0)
        fprintf(stderr, "cannot remove %s\n", directory);
    free(command);
    free(directory);
}

static inline char *model_path(const char *directory, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", directory, name) < 0)
        abort();
    return path;
}

static inline bool model_exists(const char *path, const char *suffix)
{
    char *name = NULL;
    if (asprintf(&name, "%s%s", path, suffix) < 0)
        abort();
    struct stat st;
    bool there = lstat(name, &st) == 0;
    free(name);
    return there;
}

#endif
