/* bench_store.c - what a large snapshot costs in the store: bytes an object and an edge,
 * seconds to write, open, load and query. The snapshot is made here, with the mix of block
 * sizes and references of a program with lists, maps, trees and buffers. */
#include "base/cleanup.h"
#include "store/query.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(hx_error *err)
{
    char line[512];
    if (!err)
        return;
    hx_error_line(err, line, sizeof line);
    fprintf(stderr, "bench_store: %s\n", line);
    exit(1);
}

static uint64_t rng = 88172645463325252u;
static uint64_t draw(uint64_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint64_t)((unsigned __int128)rng * n >> 64);
}

static uint64_t draw_size(void)
{
    static const uint16_t sizes[] = {24, 24, 24, 40, 40, 56, 56, 72, 88, 104};
    uint64_t i = draw(12);
    return i < 10 ? sizes[i] : 24 + 16 * draw(i == 10 ? 12 : 36);
}

static struct hx_snapshot *forest(uint64_t n)
{
    struct hx_snapshot *s;
    must(hx_snapshot_create(&s));
    struct hx_graph *g = &s->graph;
    g->n = (hx_obj)n;
    must(hx_big_reserve(&g->addr_mem, n * 8));
    must(hx_big_reserve(&g->size_mem, n * 8));
    must(hx_big_reserve(&g->state_mem, n));
    must(hx_big_reserve(&g->fwd_mem, (n + 1) * 8));
    must(hx_big_reserve(&g->edge_mem, n * 8 * 8));
    g->addr = g->addr_mem.base;
    g->size = g->size_mem.base;
    g->state = g->state_mem.base;
    g->fwd = g->fwd_mem.base;
    g->edge = g->edge_mem.base;
    uint64_t at = 0x55d0c0a012a0;
    for (uint64_t i = 0; i < n; i++) {
        g->addr[i] = at;
        g->size[i] = draw_size();
        at += g->size[i] + 8 + (draw(50) == 0 ? 16 * draw(20) : 0);
        g->state[i] = draw(47)  ? HX_STATE_REACHABLE
                      : draw(4) ? HX_STATE_INDIRECT
                                : HX_STATE_DEFINITE;
        uint64_t words = g->size[i] / 8, edges = draw(4) ? draw(3) : 0;
        edges += edges && words > 8 ? draw(4) : 0;
        uint64_t word = 0;
        for (; edges && word < words; edges--, word += 1 + draw(2)) {
            uint64_t target = draw(3) ? draw(n) : i + 1 + draw(8);
            enum hx_edge_kind kind = draw(20) ? HX_EDGE_START : HX_EDGE_INTERIOR;
            g->edge[g->n_edges++] = hx_edge_make((hx_obj)(target % n), word, kind);
        }
        g->fwd[i + 1] = g->n_edges;
    }
    return s;
}

/* Runs a query to its end; returns the seconds. */
static double ask(hx_store *store, const char *sql)
{
    hx_rows *rows;
    bool more = true;
    double start = now();
    must(hx_query_sql(store, sql, &rows));
    while (more)
        must(hx_rows_next(rows, &more));
    hx_rows_end(rows);
    return now() - start;
}

static double largest(hx_store *store, const char *sort)
{
    struct hx_query query = {.view = "objects", .snapshot = 1, .sort = sort, .limit = 50};
    hx_rows *rows;
    bool more = true;
    double start = now();
    must(hx_query_view(store, &query, &rows));
    while (more)
        must(hx_rows_next(rows, &more));
    hx_rows_end(rows);
    return now() - start;
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 10980000;
    const char *path = argc > 2 ? argv[2] : "bench_store.hpx";
    struct hx_snapshot *s = forest(n);
    uint64_t edges = s->graph.n_edges;
    unlink(path);

    hx_store *store;
    int64_t id;
    double start = now();
    must(hx_store_append(path, &store));
    must(hx_store_add(store, s, NULL, NULL, &id));
    double added = now() - start;
    must(hx_store_close(store));
    double write_s = now() - start;
    hx_snapshot_destroy(s);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("objects %llu, edges %llu\n", (unsigned long long)n, (unsigned long long)edges);
    printf("write %.2f s (add %.2f s), %.1f M rows/s, peak RSS %ld MB\n", write_s, added,
           (double)(n + edges) / 1e6 / write_s, usage.ru_maxrss / 1024);

    struct stat st;
    if (stat(path, &st))
        return 1;
    start = now();
    must(hx_store_open(path, &store));
    ask(store, "SELECT * FROM snapshots");
    ask(store, "SELECT * FROM account");
    printf("open, snapshots and account %.4f s\n", now() - start);

    hx_rows *rows;
    bool more;
    int64_t bytes[4] = {0};
    for (int family = 1; family <= 2; family++) {
        char sql[200];
        snprintf(sql, sizeof sql,
                 "SELECT sum(length(coalesce((SELECT p.data FROM hx_pack p WHERE p.pack = c.data),"
                 " data))) FROM hx_block b JOIN hx_column c"
                 " ON c.id BETWEEN b.id * 64 AND b.id * 64 + 63 WHERE family = %d",
                 family);
        must(hx_query_sql(store, sql, &rows));
        must(hx_rows_next(rows, &more));
        bytes[family] = hx_rows_value(rows, 0).i;
        hx_rows_end(rows);
    }
    printf("file %.1f MB; %.2f bytes an object, %.2f bytes an edge\n", (double)st.st_size / 1e6,
           (double)bytes[1] / (double)n, (double)bytes[2] / (double)edges);

    struct hx_snapshot *loaded;
    start = now();
    must(hx_store_load(store, id, NULL, &loaded));
    printf("load %.2f s\n", now() - start);
    hx_snapshot_destroy(loaded);

    printf("count and sum of objects %.2f s\n",
           ask(store, "SELECT count(*), sum(bytes) FROM objects"));
    printf("50 largest objects %.2f s, again %.2f s, by edges_in %.2f s\n", largest(store, "bytes"),
           largest(store, "bytes"), largest(store, "edges_in"));
    printf("referrers of one object %.3f s\n",
           ask(store, "SELECT * FROM edges WHERE target = (SELECT max(address) FROM objects"
                      " WHERE snapshot = 1 AND address < 0x55d0c1000000) AND snapshot = 1"));
    printf("referents of one object %.4f s\n",
           ask(store, "SELECT * FROM edges WHERE source = (SELECT max(address) FROM objects"
                      " WHERE snapshot = 1 AND address < 0x55d0c1000000) AND snapshot = 1"));
    printf("join of 1 M edges with their targets %.2f s\n",
           ask(store, "SELECT count(*), sum(o.bytes) FROM (SELECT target FROM edges WHERE"
                      " snapshot = 1 LIMIT 1000000) e JOIN objects o"
                      " ON o.address = e.target AND o.snapshot = 1"));
    must(hx_store_close(store));
    if (argc <= 2)
        unlink(path);
    return 0;
}
