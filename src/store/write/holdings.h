/* holdings.h - who holds what: the part of an analysis that the others then stand on. */
#ifndef HX_STORE_WRITE_HOLDINGS_H
#define HX_STORE_WRITE_HOLDINGS_H

#include "store/write/analyse.h"
#include "traverse/retain/retain.h"

/* Are the edges of holders alone looked at? Not where nobody judged their words. */
bool hx_holdings_wanted(const struct hx_writer *w, const struct hx_analysis *analysis);

/* Finds rounds and holders and writes their columns and rows, with what is not known yet left out.
 * Leaves in w->holding what hx_holdings_alone() needs. */
hx_error *hx_analyse_holdings(struct hx_writer *w, const struct hx_analysis *analysis);

/* Columns and rows go: all edges are looked at. */
hx_error *hx_holdings_forget(struct hx_writer *w);

/* alone_bytes: what is retained by its holder only. The sets are those of the scheme root. */
hx_error *hx_holdings_alone(struct hx_writer *w, const hx_sets *sets,
                            const struct hx_retention *retention);
/* The same, where such sets are not there. */
hx_error *hx_holdings_alone_apart(struct hx_writer *w, const struct hx_analysis *analysis);

#endif
