/* row_writer.h - rows as CSV, as JSON and as lines of JSON, for whoever has their values: the
 * printers of rows, the exporters of tables, the explorer.
 */
#ifndef HX_STORE_PRINT_ROW_WRITER_H
#define HX_STORE_PRINT_ROW_WRITER_H

#include "base/text.h"
#include "base/vec.h"
#include "store/query.h"

/* Zero to begin, but for the first two members. The caller takes away what is in `text` when it
 * wants to, and looks at its `failed`. */
struct hx_row_writer {
    enum hx_format format; /* not HX_FORMAT_TEXT: print.c lays that out */
    bool safe;             /* in JSON integers that a double cannot hold are strings */
    struct hx_text text;

    const char *view;    /* of begin() */
    size_t column;       /* that comes next in the row */
    uint64_t rows;       /* of this table, whole ones */
    uint64_t tables;     /* begun */
    struct hx_text keys; /* what stands before the value of each column, up to its end */
    HX_VEC(size_t) key_end;
};

/* Begins a table. `view` is its name among several in one file, which stays valid; NULL: it is the
 * only one. In JSON several are members of one object, which the caller ends; in lines of JSON each
 * line names its own. */
void hx_row_writer_begin(struct hx_row_writer *writer, const char *view);
/* Then its columns, then value by value its rows. */
void hx_row_writer_column(struct hx_row_writer *writer, const char *name);
void hx_row_writer_value(struct hx_row_writer *writer, struct hx_value value);
void hx_row_writer_row(struct hx_row_writer *writer, const hx_rows *rows);
void hx_row_writer_end(struct hx_row_writer *writer);
void hx_row_writer_deinit(struct hx_row_writer *writer);

/* The shortest form that reads back as the same number; has a point or an exponent. */
void hx_put_shortest_real(struct hx_text *text, double real);

#endif
