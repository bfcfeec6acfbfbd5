/* synthetic.h - a synthetic snapshot for benchmarks, and what measuring takes.
 *
 * The forest: lists, hash maps of strings, trees with vtables, shared nodes, buffers; neighbours
 * in a structure lie at random places. 10 million objects are about 1 GB.
 */
#ifndef HX_BENCH_SYNTHETIC_H
#define HX_BENCH_SYNTHETIC_H

#include "../tools/must.h"
#include "model/snapshot.h"

#define HEAP_BASE UINT64_C(0x555555600000)
#define ROOT_BASE UINT64_C(0x7ffff7d00000)
#define VTABLE    UINT64_C(0x555555550000)

enum shape { LIST_NODE, ENTRY, STRING, TREE_NODE, SHARED, BUFFER, TABLE, SHAPES };

/* Objects of one shape, shuffled. */
struct members {
    hx_obj *object;
    size_t n;
};

struct forest {
    struct hx_snapshot *snapshot;
    struct members members[SHAPES];
    uint8_t *shape;
    uint8_t *bytes; /* of the heap, then of the roots */
    uint64_t heap_bytes, root_bytes;
    uint64_t *root;
    size_t n_roots;
    uint64_t random;
};

/* Seconds. With HX_BENCH_CPU set those of processor time, for a machine with other work to do. */
double now(void);

uint64_t next_random(struct forest *forest);
uint64_t below(struct forest *forest, uint64_t limit);

void make_forest(struct forest *forest, hx_obj n);

/* One root over all words that hold roots, as before a scan. */
void set_roots(struct forest *forest);

bool is_vtable(void *context, uint64_t addr);

/* Marks depth-first, nothing else: the yardstick. Returns how many objects. */
uint64_t plain_mark(const struct hx_snapshot *snapshot);
double time_plain_mark(const struct forest *forest, uint64_t *ret);

/* The largest resident set since the last call, in bytes; 0 when the kernel does not say. */
double peak_since(void);

#define BEST(best, round, expression)                                                              \
    do {                                                                                           \
        double took_ = (expression);                                                               \
        (best) = (round) == 0 || took_ < (best) ? took_ : (best);                                  \
    } while (0)

void row(const char *what, double seconds, double count, const char *unit);

#endif
