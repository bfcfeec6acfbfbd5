/* tables.h - the views and the object tables as rows of text: what JSON, JSON lines and CSV share.
 *
 * Rows are streamed: ten million of them take no more memory than ten. They come snapshot by
 * snapshot, within one the largest first as in a report, objects and edges by address.
 */
#ifndef HX_EXPORT_TABLES_TABLES_H
#define HX_EXPORT_TABLES_TABLES_H

#include "export/export.h"
#include "store/query.h"

#include "base/vec.h"

/* --by of such a format: the censuses, then the views (two of which are called like one). */
#define HX_SHEET_WORD(name, sort, about) " " #name
#define HX_SHEET_WORDS                   "retainer bin ccs type module site leak" HX_VIEWS(HX_SHEET_WORD)

/* Integers beyond it are not safe in readers that have doubles only: 2^53 - 1. */
#define HX_SHEET_SAFE INT64_C(9007199254740991)

/* A table that is being written. Forms append to `text`; it goes into the sink by itself. */
struct hx_sheet {
    const char *view;
    bool among;                     /* it is one of several tables in the file; else the only one */
    uint64_t index;                 /* how many tables are before it */
    uint64_t rows;                  /* how many rows are before this one */
    struct hx_filter_schema schema; /* its columns; only their names are meant */
    struct hx_text text;
    struct hx_text scratch; /* for what a cell needs for a moment */
    struct hx_text keys;    /* what begin() may put for each column, with an end in key_end */
    HX_VEC(size_t) key_end;
    HX_VEC(int64_t) snapshots; /* of the store, once they were asked for */
};

/* How a format puts tables. None of them fails: texts remember it. */
struct hx_sheet_form {
    void (*begin)(struct hx_sheet *table);
    void (*row)(struct hx_sheet *table, const hx_rows *rows);
    void (*end)(struct hx_sheet *table);
};

/* Writes the table of a word of HX_SHEET_WORDS. HX_E_ABSENT, and nothing is written, when it is a
 * census that the store has no row of. */
hx_error *hx_sheet_write(const struct hx_export *export, const char *by,
                         const struct hx_sheet_form *form, struct hx_sink *sink);

/* Writes all views, one after the other, but those with a row for each object or edge. */
hx_error *hx_sheet_write_all(const struct hx_export *export, const struct hx_sheet_form *form,
                             struct hx_sink *sink);

/* --- for forms --- */

void hx_sheet_int(struct hx_text *text, int64_t value);
/* The shortest form that is read as the same number, with a point or an exponent. */
void hx_sheet_real(struct hx_text *text, double real);
/* A cell as JSON: integers that are not safe are strings. */
void hx_sheet_json(struct hx_text *text, struct hx_value value);
/* {"column":cell,...}: keys as hx_sheet_json_keys() made them. */
void hx_sheet_json_keys(struct hx_sheet *table, const char *before);
void hx_sheet_json_row(struct hx_sheet *table, const hx_rows *rows);

#endif
