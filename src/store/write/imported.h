/* imported.h - snapshots that a profile of another program tells of: break-downs without objects.
 *
 * Whoever reads such a profile first says what there is to be counted (names, sets, cost centres,
 * stacks), which gives numbers, and then adds one snapshot after the other, whose rows speak of
 * these numbers. The first snapshot stores all of them; from then on nothing may be named. What is
 * the same has one number in the whole store, whichever file it came from.
 *
 * Texts are UTF-8 without NUL, which the caller has tested. Nothing is written before the first
 * snapshot, and each snapshot is one transaction.
 */
#ifndef HX_STORE_WRITE_IMPORTED_H
#define HX_STORE_WRITE_IMPORTED_H

#include "base/progress.h"
#include "store/store.h"

enum hx_imported_by {
    HX_IMPORTED_RETAINER,
    HX_IMPORTED_CCS,
    HX_IMPORTED_TYPE,
    HX_IMPORTED_MODULE,
    HX_IMPORTED_BIOGRAPHY,
    HX_IMPORTED_BYS,
};

/* Sets that need no naming; the stack that is the root alone, and the one that stands for outermost
 * centres which are missing. */
enum { HX_IMPORTED_UNREACHABLE = 0, HX_IMPORTED_MANY = 1 };
enum { HX_IMPORTED_MAIN = 0, HX_IMPORTED_CUT = 1 };

/* Numbers of HX_IMPORTED_BIOGRAPHY. */
enum hx_imported_phase {
    HX_IMPORTED_LAG,
    HX_IMPORTED_USE,
    HX_IMPORTED_DRAG,
    HX_IMPORTED_VOID,
    HX_IMPORTED_INHERENT,
    HX_IMPORTED_PHASES,
};
extern const char *const hx_imported_phases[HX_IMPORTED_PHASES]; /* as in `biography` */

struct hx_imported_centre {
    const char *label, *module;
    const char *source; /* NULL: unknown */
    bool is_caf;
};

/* Rows of one break-down and number are added up. */
struct hx_imported_row {
    enum hx_imported_by by;
    uint32_t number; /* of a set, a stack, a name (types, modules), a phase */
    uint64_t bytes;
};

struct hx_imported_loss {
    const char *what;
    uint64_t count;
};

/* Invariant: of each break-down that has rows these sum to at most INT64_MAX. heap_bytes is the
 * largest of these sums, by which a break-down that counts less than another one does not make the
 * heap smaller. */
struct hx_imported_snapshot {
    int64_t taken_at_ns;
    int64_t started_at_ns;  /* 0: unknown */
    int64_t pid;            /* 0: unknown */
    const char *comm, *exe; /* NULL: unknown */
    bool complete;
    const char *notes; /* NULL: none */
    unsigned told;     /* 1 << enum hx_imported_by: break-downs that it has, with or without rows */
    const struct hx_imported_row *row;
    size_t n;
    const struct hx_imported_loss *loss;
    size_t losses;
};

typedef struct hx_imported hx_imported;

/* The store is open for appending, and nothing else is done with it until the end. */
hx_error *hx_imported_create(hx_store *store, const struct hx_progress *progress,
                             hx_imported **ret);
void hx_imported_destroy(hx_imported *imported); /* NULL is legal */

/* A type or a module. */
hx_error *hx_imported_name(hx_imported *imported, const char *name, size_t bytes, uint32_t *ret);
/* A retainer set, from the names of its members, in any order; a name that comes twice is another
 * member of that name. */
hx_error *hx_imported_set(hx_imported *imported, const char *const *name, const size_t *bytes,
                          size_t n, uint32_t *ret);
hx_error *hx_imported_centre(hx_imported *imported, const struct hx_imported_centre *centre,
                             uint32_t *ret);
/* The stack that a centre makes on top of another one. */
hx_error *hx_imported_push(hx_imported *imported, uint32_t stack, uint32_t centre, uint32_t *ret);

/* *ret: the number of the snapshot. */
hx_error *hx_imported_add(hx_imported *imported, const struct hx_imported_snapshot *snapshot,
                          int64_t *ret);

static inline void hx_cleanup_imported(hx_imported **imported)
{
    hx_imported_destroy(*imported);
}
#define HX_IMPORTED __attribute__((cleanup(hx_cleanup_imported)))

#endif
