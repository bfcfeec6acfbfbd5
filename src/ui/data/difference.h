/* difference.h - a census as differences between two snapshots: one statement for all of them.
 *
 * A screen says which rows one snapshot has; what `heapx diff` shows of two follows from it, in
 * columns of the same names: status, bytes_a, bytes_b, bytes_delta, objects_a, objects_b,
 * objects_delta, behind those of the key. Column `moved` is how much a row moved, for the order.
 */
#ifndef HX_UI_DATA_DIFFERENCE_H
#define HX_UI_DATA_DIFFERENCE_H

#include "ui/list/pane.h"

/* What both snapshots have to share, so that their rows are of one kind. */
enum hx_alike { HX_ALIKE_ANYWAY, HX_ALIKE_SCHEME, HX_ALIKE_ROOTS };

struct hx_difference {
    const char *title;         /* what differs: "Retainer sets" */
    const char *lacks;         /* what a snapshot may not have: "retainer sets" */
    const char *total;         /* the column of `snapshots` that all bytes add up to */
    const char *total_title;   /* for people: "heap" */
    const char *total_objects; /* the same of objects; NULL: none are counted */
    enum hx_alike alike;
    const char *const *keys; /* columns that tell rows apart, ends with NULL */
    const char *const *kept; /* columns that come along, the greatest of them; NULL: none */
    /* Appends a statement of one snapshot's rows: the keys, what is kept, bytes and (NULL where
     * they are not counted) objects. */
    void (*rows)(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql);
    /* Appends ", EXPR AS NAME" for further columns of a row d; NULL: none. */
    void (*more)(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql);
    const char *written; /* the key's columns in a file, as `heapx diff` has them */
    /* SQL that holds when a snapshot, which stands behind it, has such rows; NULL: it has them
     * when there are some, or there is no object. */
    const char *made;
};

/* The columns that all of them begin with, and the one with what is left of the line. */
#define HX_DIFFERENCE_COLUMNS                                                                      \
    {"status", NULL, HX_AS_TEXT, 8, 0, NULL, NULL},                                                \
        {"bytes_delta", "change", HX_AS_CHANGE, 8, 0, NULL, NULL},                                 \
        {"bytes_a", "then", HX_AS_BYTES, 6, 3, NULL, NULL},                                        \
        {"bytes_b", "now", HX_AS_BYTES, 6, 2, NULL, NULL},                                         \
        {"objects_delta", "objects", HX_AS_COUNT_CHANGE, 10, 4, NULL, NULL},                       \
    {                                                                                              \
        "bytes_delta", "", HX_AS_SWING, 9, 5, "moved", NULL                                        \
    }

/* The order of the first look: what moved most first. */
#define HX_DIFFERENCE_SORT "moved"

/* What a pane lists whose `other` is set, for hx_pane_source(). */
void hx_difference_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret);
/* What stands above that. */
void hx_difference_head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret);
/* Why there are no rows: the two do not compare, or there is nothing; false: for no such reason. */
bool hx_difference_instead(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret);

/* Is the row of differences one that the shown snapshot does not have? Then what asks for its
 * objects gets this error; NULL: it is there, or the pane shows no differences. */
hx_error *hx_difference_gone(const struct hx_pane *pane, size_t row);

/* A row's bytes against those of another snapshot, for the plain list: appends ", EXPR AS
 * bytes_delta" where `then` is the bytes in that one (SQL; NULL where it has none of it) and `now`
 * those in the shown one. Without another snapshot (0), or when that has no such rows, it is NULL.
 */
void hx_change_sql(int64_t other, const char *now, const char *then, const char *made,
                   struct hx_text *sql);

/* difference_objects.c: the objects that appeared or are gone, the largest of them as rows in
 * memory; and what stands behind the title of their list. */
hx_error *hx_difference_objects_fill(struct hx_ui *ui, struct hx_pane *pane);
void hx_difference_objects_head(const struct hx_pane *pane, struct hx_text *ret);

#endif
