/* unwind_table.h - compact tables of unwind rules, for the kernel, out of .eh_frame.
 *
 * One table a file, in the layout of unwind_rows.h, which tells how a rule is found in it.
 */
#ifndef HX_RECORD_BPF_UNWIND_TABLE_H
#define HX_RECORD_BPF_UNWIND_TABLE_H

#include "base/error.h"
#include "record/bpf/unwind_rows.h"
#include "sym/cfi.h"

#include <stdbool.h>
#include <stddef.h>

/* Invariants: n_pieces = span / HX_UNWIND_PIECE; piece i has the rows [first, first + more), and
 * first + more is `first` of piece i + 1, or n_rows; each rule's number is below n_rules. A file
 * with no entry that can be used gives a table with span 0. */
struct hx_unwind_table {
    uint64_t start; /* p_vaddr, a multiple of HX_UNWIND_PIECE */
    uint32_t span;  /* a multiple of HX_UNWIND_PIECE, at most HX_UNWIND_SPAN_MAX */
    uint32_t n_pieces, n_rows, n_rules;
    struct hx_unwind_piece *pieces;
    struct hx_unwind_row *rows;
    struct hx_unwind_rule *rules; /* rules[HX_UNWIND_NONE] is all zero and means nothing */
    uint64_t damaged;             /* entries of .eh_frame that made no sense */
    uint64_t beyond;              /* rows of .eh_frame left out because a bound was reached */
};

/* The table of the code in [start, end) by p_vaddr; 0 and UINT64_MAX: of all code. */
hx_error *hx_unwind_table_build(const struct hx_cfi *cfi, uint64_t start, uint64_t end,
                                struct hx_unwind_table *ret);
void hx_unwind_table_deinit(struct hx_unwind_table *table); /* zeroes it; twice is legal */

/* The rule at an address, in the way of the kernel. False: there is none. */
bool hx_unwind_table_find(const struct hx_unwind_table *table, uint64_t vaddr,
                          struct hx_cfi_rule *ret);

#endif
