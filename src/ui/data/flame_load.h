/* flame_load.h - the nodes of a flame graph that are at least a cell wide, as rows of its pane. */
#ifndef HX_UI_DATA_FLAME_LOAD_H
#define HX_UI_DATA_FLAME_LOAD_H

#include "layout/flame.h"
#include "ui/list/tree.h"

/* Levels that are loaded; what is deeper is shown by zooming into a block. */
#define HX_FLAME_LEVELS 200

/* What a pane keeps of its picture: of each row its node and block. Invariants: `n` is rows.n_rows;
 * node[i] is row i of the pane. */
struct hx_flame {
    int columns; /* that were loaded for */
    int laid;    /* that the blocks are laid for; 0: not yet */
    int first;   /* the first level that was shown */
    int info;    /* lines below the blocks, of the picture's last size */
    size_t n;
    struct hx_flame_node *node;
    struct hx_flame_block *block;
    bool *match;   /* of the search */
    char *pattern; /* whose matches these are; NULL: not looked for yet */
};

/* A figure that widths can be of: a column that nodes inherit, and what they have of it themselves.
 */
struct hx_flame_figure {
    const char *column, *own;
    const char *what, *brief; /* "live bytes", "live" */
    enum hx_tree_column inherited, itself;
    bool bytes;
};
#define HX_FLAME_FIGURES 4
extern const struct hx_flame_figure hx_flame_figures[HX_FLAME_FIGURES];

/* The one of a pane: the column that it is sorted by, else the live bytes. */
const struct hx_flame_figure *hx_flame_figure(const struct hx_pane *pane);

/* The screen's fill(): the tree below the pane's node (pane->id; 0: all), for the terminal's
 * width. Rows are those of tree.h in the order of the tree, their depth counted from that node, and
 * with differences also `grown`: what a node's figure is more than in the other snapshot. */
hx_error *hx_flame_fill(struct hx_ui *ui, struct hx_pane *pane);

/* Cells that the top of the graph takes on the terminal. */
int hx_flame_columns(void);

#endif
