/* trees.h - merged trees of a snapshot (traverse/dominate/merged_tree.h) as rows of hx_tree. */
#ifndef HX_STORE_WRITE_TREES_H
#define HX_STORE_WRITE_TREES_H

#include "store/write/analyse.h"
#include "traverse/dominate/dominators.h"

/* By dominators, over all followed edges and with their parents. What one root alone keeps alive is
 * under its name, the rest under `(several)`, what is not reached under `(unreachable)`. `alone`:
 * by alone.h and the scheme root, which is taken; empty: it is found. */
hx_error *hx_trees_dominators(struct hx_writer *w, const struct hx_analysis *analysis,
                              const struct hx_dominators *dominators, struct hx_big *alone);

/* By the chains of holders. hx_analyse_holdings() was called, edges are chosen. */
hx_error *hx_trees_holders(struct hx_writer *w);
hx_error *hx_trees_forget_holders(struct hx_writer *w);

#endif
