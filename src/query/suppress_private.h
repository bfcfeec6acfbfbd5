/* suppress_private.h - the parsed entries of suppressions: what reading and taking out share. */
#ifndef HX_QUERY_SUPPRESS_PRIVATE_H
#define HX_QUERY_SUPPRESS_PRIVATE_H

#include "base/vec.h"
#include "query/glob.h"
#include "query/suppress.h"

struct hx_suppress_entry {
    struct hx_suppression suppression; /* name and file are the list's */
    unsigned kinds;                    /* bit for each enum hx_state */
    hx_glob *type, *site;              /* NULL: any */
    hx_glob **chain;                   /* NULL at `...`; no two of those stand side by side */
    size_t n_chain;                    /* 0: any */
    uint64_t most_bytes, most_objects;
    bool said;               /* it says something of what it matches */
    bool empty;              /* while a snapshot is looked at: above its limit there */
    uint64_t bytes, objects; /* the same: what it takes out of it */
};

struct hx_suppressions {
    HX_VEC(struct hx_suppress_entry) entries;
    HX_VEC(char *) texts; /* names of entries and files */
};

#endif
