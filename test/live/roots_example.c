/* roots_example.c - a structure whose parts share some of their values, and its roots: the example
 * of the root profiler for GHC. Part of test/live/roots, and a library that it can load.
 */
#include <heapx/roots.h>

#include <stdint.h>
#include <stdlib.h>

/* The first word of everything says what it is, as in the heap of the example. */
struct info {
    const char *name;
};
static const struct info hsc_info = {"HscEnv"}, eps_info = {"EPS"}, fc_info = {"FC"},
                         other_info = {"OTHER"}, word_info = {"Word"};

struct word {
    const struct info *info;
    uint64_t value;
};
struct eps {
    const struct info *info;
    struct word *a, *b, *c;
};
struct fc {
    const struct info *info;
    struct word *a, *b, *c, *d;
};
struct other {
    const struct info *info;
    struct word *a, *b, *c;
};
struct hsc {
    const struct info *info;
    struct eps *eps;
    struct fc *fc;
    struct other *other;
};

static void *need(void *p)
{
    if (!p)
        abort();
    return p;
}

static struct word *word(uint64_t value)
{
    struct word *p = need(malloc(sizeof *p));
    *p = (struct word){&word_info, value};
    return p;
}

static struct heapx_root example_roots[3];

void example(void);

void example(void)
{
    struct word *x = word(1), *y = word(2), *z = word(3), *e = word(4), *f = word(5), *t = word(6);
    struct eps *eps = need(malloc(sizeof *eps));
    *eps = (struct eps){&eps_info, x, y, e};
    struct fc *fc = need(malloc(sizeof *fc));
    *fc = (struct fc){&fc_info, x, y, z, f};
    struct other *other = need(malloc(sizeof *other));
    *other = (struct other){&other_info, x, z, t};
    struct hsc *hsc = need(malloc(sizeof *hsc));
    *hsc = (struct hsc){&hsc_info, eps, fc, other};
    example_roots[0] = (struct heapx_root){"hsc", hsc};
    example_roots[1] = (struct heapx_root){"eps", hsc->eps};
    example_roots[2] = (struct heapx_root){"fc", hsc->fc};
    heapx_set_roots(example_roots, 3);
}
