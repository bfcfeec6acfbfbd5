/* unwind_rows.h - unwind rules of one file, as the probes in the kernel read them.
 *
 * A table covers `span` bytes of code from p_vaddr `start` on, cut into pieces of 256 bytes. It is
 * three arrays, in which nothing depends on where the file is loaded, so that all processes share
 * it. The rule for an address:
 *
 *     off = address - bias - file.start         not below file.span: no rule
 *     piece = pieces[file.pieces + off / 256]
 *     rule = piece.rule                         the one at the start of the piece
 *     if piece.more: of the piece.more rows from rows[file.rows + piece.first] on, the rule of the
 *         last one with row.at <= off % 256, where there is one; at most HX_UNWIND_STEPS steps:
 *
 *         lo = 0, hi = piece.more
 *         for HX_UNWIND_STEPS times, while lo < hi
 *             mid = (lo + hi) / 2
 *             if row[mid].at <= off % 256: lo = mid + 1; else hi = mid
 *         if lo > 0: rule = row[lo - 1].rule
 *     rule == HX_UNWIND_NONE: no rule; else rules[file.rules + rule]
 *
 * In all frames but the innermost, and those behind a signal frame, the address looked up is the
 * return address less 1. hx_unwind_table_find() does the same in user space.
 *
 * Rows are 4 bytes and pieces 8: where a map's values are larger (several rows in one, say), all
 * arrays may be cut at any place.
 */
#ifndef HX_RECORD_BPF_UNWIND_ROWS_H
#define HX_RECORD_BPF_UNWIND_ROWS_H

#include "record/event.h"

#ifndef __bpf__
#define HX_UW_U8  uint8_t
#define HX_UW_U16 uint16_t
#define HX_UW_S32 int32_t
#else
#define HX_UW_U8  __u8
#define HX_UW_U16 __u16
#define HX_UW_S32 __s32
#endif

#define HX_UNWIND_PIECE 256 /* bytes of code */
#define HX_UNWIND_STEPS 8   /* of the search in a piece: it has at most 255 rows */
#define HX_UNWIND_NONE  0   /* a rule's number: no entry covers the address */

/* Bounds of one table; what lies beyond is left out and counted. */
#define HX_UNWIND_ROWS_MAX  ((HX_EV_U32)8 << 20)
#define HX_UNWIND_SPAN_MAX  ((HX_EV_U32)1 << 30) /* bytes of code */
#define HX_UNWIND_RULES_MAX 65535                /* numbers, of which 0 is no rule */

struct hx_unwind_piece {
    HX_EV_U32 first; /* row */
    HX_UW_U16 more;  /* rows that start inside the piece, behind its first byte; at most 255 */
    HX_UW_U16 rule;  /* that holds at its first byte */
};

struct hx_unwind_row {
    HX_UW_U8 at; /* 1..255, in the piece; rises from row to row of a piece */
    HX_UW_U8 unused;
    HX_UW_U16 rule; /* from here on */
};

/* The fields and values of struct hx_cfi_rule (sym/cfi.h), 16 bytes. */
struct hx_unwind_rule {
    HX_UW_U8 cfa;    /* enum hx_uw_cfa */
    HX_UW_U8 fp;     /* enum hx_uw_save: the caller's rbp */
    HX_UW_U8 ra;     /* enum hx_uw_save: the return address; AT_CFA or AT_SP */
    HX_UW_U8 signal; /* 1: the return address is an interrupted instruction itself */
    HX_UW_S32 cfa_off, fp_off, ra_off;
};

enum hx_uw_cfa {
    HX_UW_CFA_END = 0, /* the outermost frame */
    HX_UW_CFA_SP,      /* sp + cfa_off */
    HX_UW_CFA_FP,      /* rbp + cfa_off */
    HX_UW_CFA_AT_SP,   /* the word at sp + cfa_off */
    HX_UW_CFA_AT_FP,   /* the word at rbp + cfa_off */
    HX_UW_CFA_PLT,     /* sp + 8, and 8 more when (pc & 15) >= cfa_off */
    HX_UW_CFA_UNKNOWN, /* the stack is cut here */
};

enum hx_uw_save {
    HX_UW_SAVE_SAME = 0, /* the register has it still */
    HX_UW_SAVE_AT_CFA,   /* the word at CFA + offset */
    HX_UW_SAVE_AT_SP,    /* the word at this frame's sp + offset */
    HX_UW_SAVE_AT_FP,    /* the word at this frame's rbp + offset; of rbp only */
    HX_UW_SAVE_UNKNOWN,  /* not known */
};

/* One file: where its table begins in arrays that several files share. */
struct hx_unwind_file {
    HX_EV_U64 start; /* p_vaddr */
    HX_EV_U32 span;
    HX_EV_U32 pieces, rows, rules; /* first element of each */
};

#endif
