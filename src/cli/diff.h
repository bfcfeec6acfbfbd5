/* diff.h - what the parts of `heapx diff` share: two or three snapshots, and which of the rows
 * are shown. */
#ifndef HX_CLI_DIFF_H
#define HX_CLI_DIFF_H

#include "cli/console.h"
#include "cli/words/options.h"
#include "cli/words/snapshot_place.h"
#include "query/filter.h"
#include "store/census.h"

/* The snapshots of a call; the last one only with --still. */
enum { HX_SIDE_A, HX_SIDE_B, HX_SIDE_STILL, HX_SIDES };

struct hx_diff_side {
    struct hx_place place;
    hx_store *store; /* one store that two sides name is opened once */
    bool borrowed;   /* the store is an earlier side's */
    int64_t number;
};

struct hx_diff_call {
    const struct hx_args *args;
    struct hx_console *console;
    struct hx_diff_side side[HX_SIDES];
};

static inline bool hx_diff_is_still(const struct hx_diff_call *call)
{
    return call->args->still != NULL;
}

/* Which rows, in which order, and how many. */
enum { HX_DIFF_COLUMNS = 10 };
struct hx_diff_choice {
    struct hx_filter_column column[HX_DIFF_COLUMNS]; /* id: its place */
    const char *name[HX_DIFF_COLUMNS];
    size_t columns;
    hx_filter *where; /* NULL: all */
    size_t sort;      /* a column; `columns`: the order of its own */
    bool ascending;
    uint64_t limit;
};

void hx_diff_column(struct hx_diff_choice *choice, const char *name, enum hx_filter_class class);
/* Reads --where, --sort and --limit for the columns that were named. */
hx_error *hx_diff_choose(const struct hx_args *args, struct hx_diff_choice *choice);
void hx_diff_choice_deinit(struct hx_diff_choice *choice);
#define HX_DIFF_CHOICE HX_CLEANUP(hx_diff_choice_deinit)

bool hx_diff_chosen(const struct hx_diff_choice *choice, const struct hx_value *values);
/* The order of two values in the column to sort by: what is not known comes last. */
int hx_diff_order(const struct hx_diff_choice *choice, struct hx_value a, struct hx_value b);
struct hx_value hx_value_int(int64_t i);
struct hx_value hx_value_text(const char *text);

/* Opens the stores, once the call is known to make sense. */
hx_error *hx_diff_open(struct hx_diff_call *call);

/* HX_E_ABSENT: the snapshot has no such thing. */
hx_error *hx_diff_lacks(const struct hx_diff_side *side, const char *what);

/* The objects of a side, without edges; HX_E_ABSENT when they are not known. */
hx_error *hx_diff_load(const struct hx_diff_call *call, int side, struct hx_snapshot **ret);

/* For each object of B one bit: it is not in A, and is in the third snapshot. */
hx_error *hx_diff_still(const struct hx_diff_call *call, const struct hx_snapshot *b,
                        struct hx_big *ret);

hx_error *hx_diff_print_objects(struct hx_diff_call *call);

/* The names of the censuses and views that can be compared. */
void hx_diff_censuses(bool still, struct hx_text *text);
hx_error *hx_diff_print_census(struct hx_diff_call *call, const struct hx_stored_census *census);

#endif
