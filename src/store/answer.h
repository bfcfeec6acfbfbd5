/* answer.h - the answer to a statement of the user's, kept in a temporary table, so that it can be
 * read in windows, sorted and filtered without asking again.
 *
 * A table belongs to its store and goes with it. What the user gives names to is kept with the
 * names as they were given; the table's columns have names that a condition can speak of.
 */
#ifndef HX_STORE_ANSWER_H
#define HX_STORE_ANSWER_H

#include "base/progress.h"
#include "base/text.h"
#include "store/query.h"
#include "store/store.h"

#include <stdint.h>

/* An answer is cut behind that many rows, or bytes of values. */
#define HX_ANSWER_ROWS  1000000
#define HX_ANSWER_BYTES (256u << 20)
/* A blob becomes text, x'00ff', of that many bytes at most. */
#define HX_ANSWER_BLOB (512u << 10)

/* Which values a column has. */
enum { HX_ANSWER_INTS = 1, HX_ANSWER_REALS = 2, HX_ANSWER_TEXTS = 4, HX_ANSWER_NULLS = 8 };

struct hx_answer_column {
    char *given; /* as the statement names it */
    char *name;  /* in the table: letters, digits and _, unlike all others; owned */
    unsigned values;
    int64_t least, most; /* of its integers */
};

struct hx_answer {
    int64_t id;
    char table[40]; /* for FROM */
    struct hx_answer_column *columns;
    size_t n_columns;
    uint64_t rows;
    bool cut; /* there are more rows than these */
};

/* Where a statement is wrong: bytes from its beginning; SIZE_MAX: not known. */
struct hx_answer_place {
    size_t offset;
};

/* Asks, and keeps what comes. `id` is the caller's, unlike that of any other answer. */
hx_error *hx_answer_make(hx_store *store, int64_t id, const char *sql,
                         const struct hx_progress *progress, struct hx_answer_place *ret_place,
                         struct hx_answer *ret);

/* Some rows of an answer, in an order, as far as a condition holds. The order is worked out once,
 * and kept until another one is asked for, so that any window of it costs the same. */
struct hx_answer_query {
    const char *table;
    const char *columns; /* trusted SQL: what SELECT names; NULL: * */
    const char *where;   /* trusted SQL over the columns; NULL: all */
    const char *sort;    /* a column; NULL: as the answer came */
    bool ascending;
    int64_t offset, limit; /* limit < 0: no limit */
};
hx_error *hx_answer_rows(hx_store *store, const struct hx_answer_query *query, hx_rows **ret);

/* Appends the columns of hx_answer_query for all of them, under the names that they were given. */
void hx_answer_given(const struct hx_answer *answer, struct hx_text *columns);

/* Forgets the rows of an answer; one that does not exist is none. */
hx_error *hx_answer_drop(hx_store *store, int64_t id);

void hx_answer_deinit(struct hx_answer *answer);

#endif
