/* attribute.h - one pass of an attribution, and the parts that work on it.
 *
 * The same for a new snapshot, for one that is looked at by other cost centres, and for a file of
 * an older schema. Table names in statements are bare, so that temporary tables of the same names
 * take the place of the file's own.
 */
#ifndef HX_STORE_COST_ATTRIBUTE_H
#define HX_STORE_COST_ATTRIBUTE_H

#include "base/progress.h"
#include "store/cost/attribution.h"
#include "store/write/frames.h"

/* Invariants: frame has frames->node.n; row[i] is a row of the table, which has the built-in roots
 * first, so that row r is ccs_id r + 1. */
struct hx_attributing {
    sqlite3 *db;
    const char *what;
    const struct hx_progress *progress;
    struct hx_attribution how;
    struct hx_frames *frames;   /* the caller's */
    struct hx_frame *frame;     /* of each node */
    bool *selected;             /* of each centre; NULL: all */
    struct hx_ccs_table *table; /* cost-centre stacks */
    hx_ccs_row *row;            /* of each node: the stack that what it allocates belongs to */
    const char *idle;           /* as in centres.h */
};

/* Attributes all frames. On error too `ret` is to be given to hx_attributing_deinit(). */
hx_error *hx_attributing_init(sqlite3 *db, const char *what, struct hx_frames *frames,
                              const struct hx_attribution *how, const struct hx_progress *progress,
                              struct hx_attributing *ret);
void hx_attributing_deinit(struct hx_attributing *a);

/* hx_ccs and hx_attributed: those rows that are not there yet. HX_E_CORRUPT when what is there is
 * of another choice. */
hx_error *hx_attribute_stacks(const struct hx_attributing *a);
hx_error *hx_attribute_numbers(const struct hx_attributing *a); /* hx_attributed alone */

/* hx_ccs.identity of each row of the table. */
void hx_attributing_identities(const struct hx_attributing *a, uint64_t *ret);

/* All of a snapshot that was just stored: the above, mprof's chains, and what follows. */
hx_error *hx_attribute_new(const struct hx_attributing *a, int64_t snapshot);

/* hx_cost and hx_estimate of a snapshot, from hx_stack_cost; nothing when nothing was recorded. */
hx_error *hx_attribute_costs(const struct hx_attributing *a, int64_t snapshot);
/* hx_site (without retained figures), from hx_stack_site. */
hx_error *hx_attribute_sites(const struct hx_attributing *a, int64_t snapshot);

/* hx_recording.method of a profile of another program: it knows live bytes, and nothing else. */
#define HX_RECORDING_IMPORT "import"

static inline int64_t hx_ccs_id_of(hx_ccs_row row)
{
    return (int64_t)row + 1;
}

/* --- costs ------------------------------------------------------------------------- */

enum {
    HX_ALLOC_BYTES,
    HX_ALLOCS,
    HX_FREED_BYTES,
    HX_FREES,
    HX_LIVE_BYTES,
    HX_LIVE,
    HX_OWN_COSTS,
};
enum {
    HX_INHERITED_ALLOC_BYTES,
    HX_INHERITED_ALLOCS,
    HX_INHERITED_LIVE_BYTES,
    HX_INHERITED_LIVE,
    HX_INHERITED_COSTS,
};

/* What stands in a cost-centre stack itself; few of them have anything. */
struct hx_own_costs {
    bool uncosted;   /* its allocations were not seen: only what is live is known */
    bool bytes_lack; /* not even all of their requested bytes */
    bool entered;    /* its entries were counted */
    uint64_t entries, figure[HX_OWN_COSTS];
    double alloc_variance, live_variance;
};

#define HX_NO_COSTS UINT32_MAX
#define HX_NONE_OWN 0 /* what it has is inherited */

struct hx_row_costs {
    uint64_t inherited[HX_INHERITED_COSTS];
    uint32_t own; /* in hx_ccs_costs.own; HX_NO_COSTS: neither it nor one below it has figures */
};

/* Of a snapshot. Invariants: own[HX_NONE_OWN] is all 0; `row` has n, one for each row of the table,
 * and none when nothing was recorded. */
struct hx_ccs_costs {
    bool recorded, sampled;
    bool imported; /* nothing but live bytes is known */
    uint32_t n;
    struct hx_row_costs *row;
    HX_VEC(struct hx_own_costs) own;
};

/* On error too `ret`, which is all 0, is to be given to hx_ccs_costs_deinit(). */
hx_error *hx_ccs_costs_make(const struct hx_attributing *a, int64_t snapshot,
                            struct hx_ccs_costs *ret);
void hx_ccs_costs_deinit(struct hx_ccs_costs *costs);

/* Is there a row of hx_cost? Only then the others may be asked. */
static inline bool hx_ccs_costs_there(const struct hx_ccs_costs *costs, hx_ccs_row row)
{
    return row < costs->n && costs->row[row].own != HX_NO_COSTS;
}

/* A column of hx_cost behind the first two; false: NULL. */
enum { HX_COST_COLUMNS = 1 + HX_OWN_COSTS + HX_INHERITED_COSTS };
bool hx_ccs_costs_value(const struct hx_ccs_costs *costs, hx_ccs_row row, int column, int64_t *ret);
/* Those of hx_estimate: one standard error, in bytes. */
void hx_ccs_costs_error(const struct hx_ccs_costs *costs, hx_ccs_row row, int64_t *ret_alloc,
                        int64_t *ret_live);

/* --- labels ------------------------------------------------------------------------ */

#define HX_SITE_FRAMES 5 /* of a site's label, as a retainer has it */

/* Cost-centre stacks and what their centres are called. */
struct hx_ccs_name {
    hx_ccs_row parent; /* of row 0: itself */
    const char *label;
    bool function; /* its label is a function's name */
};
typedef void hx_ccs_name_fn(const void *context, hx_ccs_row row, struct hx_ccs_name *ret);

/* Appends a stack as one line, innermost first: "#12 make_widget < main". It is what the objects of
 * a site are called as retainers. */
void hx_ccs_label(hx_ccs_name_fn *name, const void *context, hx_ccs_row row, struct hx_text *text);

/* Its context is a struct hx_attributing. */
void hx_attributing_name(const void *context, hx_ccs_row row, struct hx_ccs_name *ret);

/* Those of a store. */
typedef struct hx_ccs_names hx_ccs_names;
hx_error *hx_ccs_names_load(sqlite3 *db, const char *what, hx_ccs_names **ret);
void hx_ccs_names_free(hx_ccs_names *names); /* NULL is legal */
/* HX_E_CORRUPT: there is no such stack. */
hx_error *hx_ccs_names_label(const hx_ccs_names *names, int64_t ccs_id, struct hx_text *text);

/* Everything that follows from the frames of a file that was just brought to schema 4. */
hx_error *hx_attribute_migrated(sqlite3 *db, const char *what, const struct hx_progress *progress);
/* Which stacks of one of schema 4 are recursive; of one that is damaged that stays unknown. */
hx_error *hx_attribute_recursion(sqlite3 *db, const char *what, const struct hx_progress *progress);

#endif
