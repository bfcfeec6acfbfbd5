/* screen.h - what a screen is, and the list of all of them.
 *
 * A screen is a const table in one file, screen_NAME.c. To add one: that file, a line in
 * HX_UI_SCREENS, one in Makefile.am, a script with golden displays in test/ui/, a paragraph
 * in heapx-explorer(1). Screens only say what to list and how it looks; moving, sorting, searching,
 * loading and drawing are the same for all of them.
 */
#ifndef HX_UI_SCREEN_H
#define HX_UI_SCREEN_H

#include "store/census.h"
#include "store/query/named.h"
#include "store/table.h"
#include "ui/list/list_column.h"

/* In the order of Tab; those with a digit stand in the bar at the top. */
#define HX_UI_SCREENS(X)                                                                           \
    X(account)                                                                                     \
    X(timeline)                                                                                    \
    X(snapshots)                                                                                   \
    X(holders)                                                                                     \
    X(retainers)                                                                                   \
    X(bins)                                                                                        \
    X(centres)                                                                                     \
    X(flame)                                                                                       \
    X(types)                                                                                       \
    X(leaks)                                                                                       \
    X(dominators)                                                                                  \
    X(largest)                                                                                     \
    X(tree)                                                                                        \
    X(objects)                                                                                     \
    X(roots)                                                                                       \
    X(losses)                                                                                      \
    X(pages)                                                                                       \
    X(sites)                                                                                       \
    X(modules)                                                                                     \
    X(threads)                                                                                     \
    X(named)                                                                                       \
    X(holder)                                                                                      \
    X(set)                                                                                         \
    X(bin)                                                                                         \
    X(centre)                                                                                      \
    X(dominated)                                                                                   \
    X(histogram)                                                                                   \
    X(object)                                                                                      \
    X(hex)                                                                                         \
    X(root)                                                                                        \
    X(stack)                                                                                       \
    X(why)                                                                                         \
    X(details)                                                                                     \
    X(sql)                                                                                         \
    X(views)                                                                                       \
    X(palette)                                                                                     \
    X(help)                                                                                        \
    X(messages)

struct hx_ui;
struct hx_pane;

/* What a pane lists: a view (with a condition) or a statement, and a statement that gives
 * facts: `rows` (how many rows there are) and whatever the title needs, of which there may be
 * up to HX_FACTS_MAX rows. */
#define HX_FACTS_MAX 64
struct hx_source {
    const char *view;
    const char *answer; /* or the table of an answer (store/answer.h), which `sql` is over */
    const char *like;   /* the view that the statement's columns come from, for filters */
    struct hx_text where, sql, facts;
    struct hx_text written; /* what SELECT names when a file is written; empty: all */
    bool scattered; /* its rows lie anywhere in the store: first come those that are looked at */
    const char
        *written_without; /* with it: rows with a value in that column stay out; NULL: none */
};

/* A drawing between the title and the list. Coordinates are those of the terminal. */
struct hx_picture {
    /* How many of `lines` x `columns` cells it takes for itself, list and heading get the rest; 0:
     * there is too little room, or nothing to draw. */
    int (*lines)(const struct hx_ui *ui, const struct hx_pane *pane, int lines, int columns);
    void (*draw)(struct hx_ui *ui, struct hx_pane *pane, int y, int height, int columns);
    /* The mouse was pressed there (relative to the picture); NULL: nothing to choose. */
    hx_error *(*click)(struct hx_ui *ui, struct hx_pane *pane, int y, int x, bool twice);
};

struct hx_screen {
    const char *name;
    const char *brief; /* the name where there is less room; NULL: the name */
    const char *about; /* for help */
    int digit;         /* -1: none */
    unsigned needs;    /* parts of the analysis (enum hx_analysis_part) that make its rows */
    const char *lacks; /* with needs: what is missing, "Retainer sets are" */
    bool by_argument;  /* needs to be told what to show: not reached by name */
    bool pinned;       /* stays with its snapshot when a newer one comes */
    bool over_time;    /* marks the row of the current snapshot */
    bool tree;         /* rows hang on each other (tree.h); they are made in fill() */
    bool stored;       /* fill() asks the store: rows are sorted and filtered there */
    const struct hx_column *columns;
    const char *const *key;              /* columns that tell rows apart, ends with NULL */
    const char *sort;                    /* column of the first order; NULL: as stored */
    const char *census;                  /* that it lists (store/census.h); NULL: it lists none */
    const struct hx_column *differences; /* columns of those to pane->other; NULL: it has none */
    const char *differences_sort;        /* their first order, where there is no census */
    /* Without a census: makes them as rows in memory, in an order of their own; NULL: it does not.
     */
    hx_error *(*fill_differences)(struct hx_ui *ui, struct hx_pane *pane);
    const struct hx_picture *picture; /* NULL: none */
    /* Before each drawing: sets pane->columns where they depend on its rows and the room. NULL:
     * they do not. */
    void (*lay_out)(const struct hx_ui *ui, struct hx_pane *pane, int columns);
    /* Appends the cell of a column HX_AS_OWN or HX_AS_BAND, safe for a terminal. */
    void (*cell)(const struct hx_pane *pane, size_t row, bool ascii, struct hx_text *ret);
    const struct hx_screen *view; /* the other view of the same (`v`); NULL: none */
    /* Shows that one with the cursor on the same; NULL: with the cursor where it was there. */
    hx_error *(*show_view)(struct hx_ui *ui, const struct hx_pane *pane);
    const char *object; /* column with the address of the object that a row stands for */

    /* Says what to list; NULL for a screen that makes its rows in fill(). */
    void (*source)(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret);
    /* Makes all rows of pane->rows at once, or starts a job that will. */
    hx_error *(*fill)(struct hx_ui *ui, struct hx_pane *pane);
    /* fill() may give a part of the rows only: it is asked again where more are needed. */
    bool windows;
    /* What stands above the list: lines, the most important first. */
    void (*head)(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret);
    /* Said instead of an empty list; `instead` where it depends (nothing appended: `empty`). */
    const char *empty;
    void (*instead)(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret);
    /* Enter on a row; NULL: goes to the row's object when it has one. */
    hx_error *(*open)(struct hx_ui *ui, struct hx_pane *pane, size_t row);
    /* `w` on a row that stands for no object; NULL: there is nothing to tell. */
    hx_error *(*why)(struct hx_ui *ui, struct hx_pane *pane, size_t row);
    /* The objects that a row stands for: `o` lists them, and what asks for one object takes the
     * largest of them. False: the row stands for none. NULL: no row does. */
    bool (*of)(const struct hx_pane *pane, size_t row, struct hx_of *ret);
    /* `o` where that is no list of objects; NULL: it is. */
    hx_error *(*objects)(struct hx_ui *ui, struct hx_pane *pane, size_t row);
};

/* Do its rows come from the store, so that they can be sorted and filtered there? */
static inline bool hx_screen_stored(const struct hx_screen *screen)
{
    return screen->source || screen->tree || screen->stored;
}

/* The census that it lists, of which differences are made (ui/data/difference.h); NULL: none. */
const struct hx_stored_census *hx_screen_census(const struct hx_screen *screen);

#define HX_UI_DECLARE_SCREEN(name) extern const struct hx_screen hx_screen_##name;
HX_UI_SCREENS(HX_UI_DECLARE_SCREEN)
#undef HX_UI_DECLARE_SCREEN

enum {
#define HX_UI_SCREEN_NUMBER(name) HX_SCREEN_##name,
    HX_UI_SCREENS(HX_UI_SCREEN_NUMBER)
#undef HX_UI_SCREEN_NUMBER
        HX_SCREENS
};

extern const struct hx_screen *const hx_screens[HX_SCREENS];

/* Said where it lacks, and what to do. */
#define HX_UI_NOT_RECORDED                                                                         \
    "Who allocated was not recorded: heapx run -- CMD, heapx record PID and"                       \
    " heapx attach --record PID do it."

const struct hx_screen *hx_screen_find(const char *name); /* NULL when unknown */
const struct hx_screen *hx_screen_by_digit(int digit);    /* each digit has one */

#endif
