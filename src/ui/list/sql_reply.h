/* sql_reply.h - answers to SQL as lists: which columns they have, and how long they are kept. */
#ifndef HX_UI_LIST_SQL_REPLY_H
#define HX_UI_LIST_SQL_REPLY_H

#include "store/answer.h"
#include "ui/list/pane.h"

/* Never changes once it is made, and lives as long as the explorer: jobs and panes point into it.
 * The rows, which are large, go when no pane shows them any more. */
struct hx_reply {
    struct hx_answer answer;
    struct hx_column *columns; /* ends with name NULL */
    const char **keys;         /* all columns: rows that agree in all of them are alike */
    const char *object;        /* column of an address; NULL: none */
    bool dropped;              /* the store has no rows of it any more */
};

/* Takes the answer over; also when it fails. `sample`: some of its rows. */
hx_error *hx_reply_create(struct hx_answer *answer, const struct hx_table *sample, bool ascii,
                          struct hx_reply **ret);
void hx_reply_destroy(struct hx_reply *reply); /* NULL is legal */

#endif
