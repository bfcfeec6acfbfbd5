/* pane.h - one open screen: what it shows, where its cursor is, the rows in memory.
 *
 * Rows of a store come in windows (limit and offset) from the READ lane; drawing uses what
 * is there. After a change of snapshot or order the cursor goes back to its row by key.
 */
#ifndef HX_UI_LIST_PANE_H
#define HX_UI_LIST_PANE_H

#include "ui/screen.h"

#include "base/vec.h"

/* Invariants: rows holds the list's rows offset .. offset + rows.n_rows - 1;
 * 0 <= cursor < total unless total is 0; top <= cursor. */
struct hx_pane {
    const struct hx_screen *screen;
    uint64_t serial; /* tells it apart from all others of this run */

    /* what it is about, as far as the screen needs it */
    enum hx_subset subset;
    uint64_t address;
    int64_t id;
    char *text;   /* owned */
    char *more;   /* owned */
    char *chosen; /* how its object was chosen ("largest of 12 objects"); NULL: it was named; owned;
                     safe for a terminal */
    int64_t from; /* the snapshot in which it was opened */

    int64_t snapshot; /* that it shows; 0: none yet */
    int64_t other;    /* whose differences to that one it shows; 0: no differences */
    int64_t before;   /* what changes are against, also without differences; 0: none */
    /* What it lists and what tells rows apart: the screen's, unless the pane has its own. */
    const struct hx_column *columns;
    const char *const *keys;
    const char *object; /* column with the address of a row's object; NULL: none */
    const char *sort;   /* a column; NULL: as stored */
    bool ascending;
    char *filter;             /* as it was typed; NULL: none; owned */
    char *condition;          /* the same for SQLite; owned */
    struct hx_filter *parsed; /* or, of rows that are made here, as it is; owned */
    unsigned parts;           /* what is worked out of the snapshot (enum hx_analysis_part) */

    int64_t cursor, top, total;
    int64_t offset;
    struct hx_table rows, facts;
    bool *full; /* of rows in memory: names are not shortened, or they would read like those of
                   another row; NULL: none of them; owned */
    struct hx_tree *tree; /* of a screen that is a tree; NULL before its first load; owned */
    void *data;           /* what a screen keeps beside the rows */
    void (*free_data)(void *data);
    struct hx_marks *marks; /* rows that Space marked (marked_rows.h); NULL: none; owned */
    bool loaded;            /* rows were loaded at least once */
    bool loading;           /* a job is under way */
    bool ahead;             /* a job is under way that loads more rows than are looked at */
    bool stale;             /* rows are of another snapshot or order */
    uint64_t want;          /* number of the newest load; older ones are ignored */
    int beside;             /* snapshots beside this one that were read ahead, or are */
    bool looks_beside;      /* a job is under way that does */
    char *keep;             /* key of the row to find again, owned */
    char *problem;          /* why loading failed, owned */
    /* of the last drawing */
    int height;     /* rows that were visible */
    int first_line; /* of the screen, where they began */
    int picture_line, picture_height;
};

hx_error *hx_pane_create(struct hx_ui *ui, const struct hx_screen *screen, struct hx_pane **ret);
void hx_pane_destroy(struct hx_pane *pane);

/* Sees to it that the visible rows of the current snapshot are in memory or on their way. */
void hx_pane_update(struct hx_ui *ui, struct hx_pane *pane);

/* Loads again from the store: new order or new snapshot. The cursor keeps its row. */
void hx_pane_reload(struct hx_ui *ui, struct hx_pane *pane);

/* Its rows are not those of the store any more: they are loaded anew when they are looked at. */
void hx_pane_outdate(struct hx_pane *pane);

/* Shows only the rows for which a condition (traverse/filter.h) holds; NULL: all again. */
hx_error *hx_pane_filter(struct hx_ui *ui, struct hx_pane *pane, const char *filter);

/* The list says why there are no rows: the error, or `cancelled` where somebody cancelled. */
void hx_pane_problem(struct hx_pane *pane, const struct hx_error *error, const char *cancelled);

/* Another order: a column, and its direction. */
void hx_pane_order(struct hx_ui *ui, struct hx_pane *pane, const char *sort, bool ascending);

/* Moves the cursor to a row, limited to the list. */
void hx_pane_go(struct hx_pane *pane, int64_t row);

/* Gives the pane its text; NULL: none. */
hx_error *hx_pane_set_text(struct hx_pane *pane, const char *text);
/* Appends that text for people: names shortened (type_name.h), safe for a terminal.
 */
void hx_pane_put_text(const struct hx_pane *pane, bool ascii, struct hx_text *ret);

/* The same where the text is the label of a stack: in short. */
void hx_pane_put_calls(const struct hx_pane *pane, bool ascii, struct hx_text *ret);

/* Index in pane->rows of the row under the cursor; false when it is not in memory. */
bool hx_pane_row(const struct hx_pane *pane, size_t *ret);

/* The address of the object that the row stands for. */
bool hx_pane_object(const struct hx_pane *pane, size_t row, uint64_t *ret);

/* The column as it is for that row of pane->rows. */
struct hx_column hx_pane_column(const struct hx_pane *pane, const struct hx_column *column,
                                size_t row);

/* A rows-in-memory pane: takes over the rows; those for which the filter does not hold go. */
void hx_pane_set_rows(struct hx_pane *pane, struct hx_table *rows);

/* Searches visible text from the row after (before) the cursor on, around the end. */
hx_error *hx_pane_search(struct hx_ui *ui, struct hx_pane *pane, const char *pattern,
                         bool backwards);

/* Are there rows of snapshots beside the shown one to be read ahead? Nothing else is under way. */
bool hx_pane_wants_beside(const struct hx_ui *ui, const struct hx_pane *pane);
/* Begins to read those of one of them, which any key ends. */
void hx_pane_look_beside(struct hx_ui *ui, struct hx_pane *pane);

/* Writes all rows to a file; its ending says the form. */
hx_error *hx_pane_write(struct hx_ui *ui, struct hx_pane *pane, const char *path, bool overwrite);

/* What a pane lists: what its screen says, or the differences of that. */
void hx_pane_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret);

/* Are its rows asked from the store, a window at a time? */
static inline bool hx_pane_windowed(const struct hx_pane *pane)
{
    return pane->screen->source && !(pane->other && pane->screen->fill_differences);
}

/* Have its rows only those columns of an object that the screen needs? */
bool hx_pane_is_brief(const struct hx_pane *pane);

/* Opens the rows of a pane, in its order, on a lane's thread. */
struct hx_load {
    struct hx_source source;
    struct hx_text shown; /* of objects: the columns that are read; empty: all */
    int64_t snapshot;
    bool all; /* of all snapshots */
    const char *sort;
    bool ascending;
    const char *const *keys;
    bool written;    /* for a file: source.written */
    char *condition; /* owned */
};
void hx_load_begin(const struct hx_pane *pane, int64_t snapshot, struct hx_load *ret);
hx_error *hx_load_open(const struct hx_load *load, hx_store *store, int64_t offset, int64_t limit,
                       hx_rows **ret);
void hx_load_end(struct hx_load *load);
/* How many rows the list has, counted one by one. */
hx_error *hx_load_count(const struct hx_load *load, hx_store *store, int64_t *ret);

/* The text that tells a row apart from others. */
void hx_pane_key(const char *const *keys, const struct hx_table *rows, size_t row,
                 struct hx_text *ret);

#endif
