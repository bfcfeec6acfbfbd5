/* print_mprof.h - what the printers of mprof's tables share. */
#ifndef HX_STORE_PRINT_PRINT_MPROF_H
#define HX_STORE_PRINT_PRINT_MPROF_H

#include "model/recording.h"
#include "store/cost/mprof.h"
#include "store/print/print.h"

#define HX_MPROF_COLUMNS 20 /* at most, of a view */
#define HX_MPROF_CELL    4  /* bytes of a share */

struct hx_mprof_printer {
    hx_store *store;
    enum hx_mprof_level level;
    void *file;    /* FILE */
    size_t screen; /* columns */
    bool ascii;
    bool freed;                     /* anything was, in this snapshot */
    size_t width[HX_MPROF_COLUMNS]; /* of the longest number of each column */
    int64_t rows;                   /* of this snapshot, so far */
    struct hx_text out, name;
};

/* A share in percent in two characters: "" (0 and unknown), ".", "7", "99", "**". */
void hx_mprof_cell(struct hx_value share, char cell[HX_MPROF_CELL]);

void hx_mprof_put_share(struct hx_text *out, struct hx_value share); /* "(99)", 4 wide */
/* Four of them, by size class: 11 wide. */
void hx_mprof_put_split(struct hx_text *out, const struct hx_value *share);
void hx_mprof_put_count(struct hx_text *out, size_t width, struct hx_value value);
void hx_mprof_put_spaces(struct hx_text *out, size_t n);
void hx_mprof_end_line(struct hx_text *out);

/* Puts a name at most `width` wide; returns the width that it took. */
size_t hx_mprof_put_name(struct hx_mprof_printer *p, const char *s, size_t n, size_t width);

hx_error *hx_mprof_flush(struct hx_mprof_printer *p, bool all);

hx_error *hx_mprof_print_graph(struct hx_mprof_printer *p, hx_rows *rows);

#endif
