/* subset.h - sets of objects that have something in common: the condition that picks them, and
 * what they add up to. */
#ifndef HX_STORE_QUERY_SUBSET_H
#define HX_STORE_QUERY_SUBSET_H

#include "base/text.h"

#include <stdint.h>

enum hx_subset {
    HX_SUBSET_ALL,
    HX_SUBSET_LEAK,   /* text: the kind; more: the type, NULL when unknown; id: one of the stacks of
                         that   label, 0 when unknown */
    HX_SUBSET_SET,    /* id: the retainer set; more: who holds them, NULL: whoever */
    HX_SUBSET_BIN,    /* text: the named roots */
    HX_SUBSET_TYPE,   /* text: the type, NULL when unknown */
    HX_SUBSET_SITE,   /* id: the recorded stack; text: its label */
    HX_SUBSET_CCS,    /* id: the cost-centre stack; text: the label of its centre */
    HX_SUBSET_THREAD, /* no objects: id: the stack that a thread stood in; text: its name */
    HX_SUBSET_BELOW,  /* the same as CCS with all stacks that begin with it */
    HX_SUBSET_STATE,  /* text: the state, of whatever type */
    HX_SUBSET_MODULE, /* text: the module that allocated, or "(unknown)" */
    HX_SUBSET_DOMINATED, /* id: the address of the immediate dominator; 0: none but the roots; it
                            has no sums */
    HX_SUBSET_KEY,  /* text: the key of a row; id: place of its census in hx_stored_censuses[] */
    HX_SUBSET_NONE, /* no objects */
};

/* A set of objects. The texts are the caller's. */
struct hx_of {
    enum hx_subset subset;
    const char *text, *more;
    int64_t id;
};

/* Appends the condition on the view `objects`; nothing where it is all of them. */
void hx_of_where(const struct hx_of *of, struct hx_text *sql);

/* Appends a statement: one row of `rows` and `bytes` (how many they are and how large), of a leak
 * whose stack is known also `site`. Some other view has it summed up already. */
void hx_of_facts(const struct hx_of *of, int64_t snapshot, struct hx_text *sql);

/* Appends "(SELECT ...)": a cost-centre stack and all that begin with it. */
void hx_below_sql(int64_t ccs_id, struct hx_text *sql);

/* The state of that name in the words of the model; "" when there is none. */
const char *hx_of_state(const char *text);

#endif
