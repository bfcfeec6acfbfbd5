/* census.h - the censuses that a store keeps of its snapshots: what breaks the bytes of one down by
 * one identity. All that anybody wants to know of one is its row of hx_stored_censuses[]: the
 * statement of its rows, their keys and labels, what they are compared by, which objects a row
 * stands for, words, and the formats that take it.
 *
 * A census is added by a row in census.c.
 */
#ifndef HX_STORE_CENSUS_H
#define HX_STORE_CENSUS_H

#include "base/text.h"
#include "store/query/subset.h"

#include <stdbool.h>
#include <stdint.h>

/* What the key of a census is. */
enum hx_census_key {
    HX_KEY_TEXT,
    HX_KEY_SET,   /* set_id */
    HX_KEY_CCS,   /* ccs_id */
    HX_KEY_STACK, /* stack_id */
};

/* What both snapshots have to share, so that their rows are of one kind. */
enum hx_alike { HX_ALIKE_ANYWAY, HX_ALIKE_SCHEME, HX_ALIKE_ROOTS };

/* Formats that take any census with the mark; and which is meant by nobody who does not say so. */
enum {
    HX_CENSUS_SAMPLED = 1, /* samples over time: hp, eventlog */
    HX_CENSUS_DRAWN = 2,   /* svg */
    HX_CENSUS_FLAT = 4,    /* folded and its like: a path of one frame for each row */
    HX_CENSUS_SHEET = 8,   /* csv, json: its view by another name; only with a view */
    HX_CENSUS_ASKED = 16,
};

/* GHC's numbers of break-downs in event logs. */
enum hx_ghc_number {
    HX_GHC_STACKS = 1,
    HX_GHC_MODULES,
    HX_GHC_DESCRIPTIONS,
    HX_GHC_TYPES,
    HX_GHC_RETAINERS,
    HX_GHC_BIOGRAPHY,
    HX_GHC_CLOSURES,
};

/* Columns that tell rows apart: names, ending with NULL, and the same as SQL over a row x. */
struct hx_census_columns {
    const char *name[4];
    const char *sql;
};

/* Texts are NULL where a census has none of it. SQL is over x, a row of `table`; in statements
 * are parameters of named queries (hx_query_expand()): $snapshot, $other, and what a screen is
 * about. */
struct hx_stored_census {
    const char *name;  /* one word: "retainer" */
    const char *title; /* for people: "retainer sets" */
    const char *view;  /* the public view that its figures are those of; NULL: there is none */
    const char *total; /* the column of `snapshots` that its bytes add up to */
    unsigned needs;    /* parts of the analysis (enum hx_analysis_part) that make its rows */

    /* its rows */
    const char *statement; /* of snapshot, key and bytes; or from a table, a
                               virtual one, or a SELECT in brackets: */
    const char *table, *key;
    const char *where;           /* rows that count; NULL: all */
    const char *bytes, *objects; /* NULL: the columns of that name */
    bool several;                /* rows may have one key: they are added up */
    bool lost;                   /* of objects that are lost, or may be: a row counts the others */
    enum hx_census_key form;
    const char *label[2]; /* SQL around the key; NULL: the key says it */
    const char *brief[2]; /* the same for drawings, where labels may be long; NULL: as label */
    const char *numbers;  /* keys that have a label of their own */
    const char *also;     /* a table of (snapshot, name, bytes, objects) with more of its rows */

    /* the objects of a row */
    enum hx_subset subset;
    const char *members;     /* HX_SUBSET_KEY: a condition on `objects` for the key $text */
    const char *of;          /* what stands between "Objects" and the key: " of size class " */
    const char *objects_are; /* columns of `objects` as those of `table`; NULL: rows tell none */

    /* differences */
    struct hx_census_columns here;   /* in one store */
    struct hx_census_columns across; /* in any two stores, as `heapx diff` shows them */
    const char *kept;                /* a column of here.sql that comes along; the greatest */
    bool numbered;        /* the first of across is a number that means something in one store */
    const char *identity; /* SQL: the same in every store, not shown; NULL: across says it */
    bool largest_only;    /* rows are left out: `objects` has the others, by address */
    bool whole;           /* has a row for every object, so none at all is no data */
    enum hx_alike alike;
    const char
        *made; /* statement: has $snapshot such rows? NULL: when there are some, or no object */
    const char *more;    /* further columns of a row d in the explorer: ", EXPR AS NAME" */
    const char *written; /* the key's columns in a file of the explorer's */
    const char *moved, *moved_as, *counts; /* columns of `snapshots`: bytes, words, objects */

    /* the explorer's list: its rows with bytes_delta against $other, of a part of it ($id), and
     * what its title tells */
    const char *list, *list_below, *facts;
    const char *list_written; /* its columns in a file; NULL: all */

    /* words */
    const char *heading;    /* "Heap by retainer sets" */
    const char *subject;    /* of a drawing; NULL: "heap by TITLE" */
    const char *lacks;      /* what a snapshot may not have: "retainer sets" */
    const char *missing;    /* where no snapshot has it: a sentence */
    const char *todo;       /* the same for who exports */
    const char *counted;    /* a condition on `snapshots` of those that should have rows; NULL:
                               that they have objects */
    const char *unmeasured; /* why they have none; NULL: the notes may say it */

    /* formats */
    unsigned formats;
    const char *ghc_option;        /* that asks GHC's runtime for the like: "-hr" */
    enum hx_ghc_number ghc_number; /* the same in event logs */
};
extern const struct hx_stored_census hx_stored_censuses[]; /* ends with name NULL */

/* What an object is as far as it is known; for GHC's formats alone. */
extern const struct hx_stored_census hx_census_kinds;

/* What else compares, by the names of its view: rows that do not add up to anything. */
extern const struct hx_stored_census hx_compared_views[]; /* ends with name NULL */

const struct hx_stored_census *hx_census_find(const char *name); /* NULL when unknown */

/* The census whose figures a view has, as they are; NULL: none. */
const struct hx_stored_census *hx_census_of_view(const char *view);

/* What `heapx diff` compares by that word: a view, or a census without one. NULL: it does not. */
const struct hx_stored_census *hx_census_compared(const char *word);
/* Its name there. */
static inline const char *hx_census_word(const struct hx_stored_census *census)
{
    return census->view ? census->view : census->name;
}

/* Are its labels stacks? */
static inline bool hx_census_calls(const struct hx_stored_census *census)
{
    return census->form == HX_KEY_CCS || census->form == HX_KEY_STACK;
}

/* Appends a statement, without order, of the rows (snapshot, key, label, bytes, objects) of one
 * snapshot, or of all of them (0). A key comes once in a snapshot, and is the same in all
 * snapshots of a store. `objects` is NULL where none are counted. A snapshot of
 * which the census was not made has no rows. Labels of retainer, ccs and site are looked up row by
 * row, and only where they are asked for: who adds up many rows by key asks afterwards, for the
 * few keys that are left, with hx_census_label_sql(). */
void hx_census_sql(const struct hx_stored_census *census, int64_t snapshot, struct hx_text *sql);

/* Appends an expression: the label of a key, which is an expression in SQL. */
void hx_census_brief_sql(const struct hx_stored_census *census, const char *key,
                         struct hx_text *sql); /* of drawings */
void hx_census_label_sql(const struct hx_stored_census *census, const char *key,
                         struct hx_text *sql);

/* Appends a statement of the rows of a snapshot as they are compared in one store: the columns of
 * `here`, bytes and objects; of a part of the rows (below: a ccs_id; 0: all). Keys may come more
 * than once. */
void hx_census_rows_sql(const struct hx_stored_census *census, int64_t snapshot, int64_t below,
                        struct hx_text *sql);

/* The same in any store: those of `across`, identity, bytes and objects. */
void hx_census_rows_across_sql(const struct hx_stored_census *census, int64_t snapshot,
                               struct hx_text *sql);

#endif
