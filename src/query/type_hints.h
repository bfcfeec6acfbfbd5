/* type_hints.h - what fields lead to where their types do not say: lines of types.d/ and of --types
 * FILE.
 *
 *   [PROGRAM:] TYPE.FIELD[, FIELD...] -> TARGET       # comment
 *   [PROGRAM:] TYPE.FIELD[, FIELD...] = TARGET
 *
 * TYPE is the name of a record, in which * stands for anything (glob.h); FIELD a path of names in
 * it ("_M_impl._M_header._M_parent"), found in its bases and nameless members, too. TARGET is what
 * the field points to or, behind =, what lies in it: NAME, or behind -> several with | between, of
 * which an object is one:
 *
 *   NAME       a type of the program's, in which $1 to $9 stand for the template arguments of TYPE,
 *              with a * in front for each pointer that lies between, and [] in front of all when
 *              there are one or more of it; a name that the program does not have is given to the
 *              objects as it is
 *   NAME...    something larger that begins with one (as large: one)
 *   +NAME      what the field points into, behind a header, not to the start of; one in a TARGET
 *
 * Of several, the largest type counts that fits and has pointers where the object has some, then
 * NAME..., then a name that the program does not have; the same where types of the program have one
 * NAME and no $ is in it. With PROGRAM the line counts where a file of
 * that name, or with that beginning, is mapped.
 *
 * In names do not count: blanks beside <>,*&, const and volatile, the order of words of an integer
 * type, casts and suffixes of numbers. What comes first in the texts is asked first.
 */
#ifndef HX_QUERY_TYPE_HINTS_H
#define HX_QUERY_TYPE_HINTS_H

#include "base/vec.h"
#include "query/glob.h"

struct hx_type_hint {
    char *program; /* NULL: any */
    hx_glob *type; /* of names without blanks that do not count */
    char *field;
    char *target; /* the same */
    bool within;  /* what lies in the field, not what it points to */
};
typedef HX_VEC(struct hx_type_hint) hx_type_hints;

/* Appends the lines of a text; an error names `what`, line and column. */
hx_error *hx_type_hints_parse(const char *what, const char *text, size_t n, hx_type_hints *hints);
/* The lines that heapx brings: containers of libstdc++ and libc++, and redis. */
hx_error *hx_type_hints_builtin(hx_type_hints *hints);
void hx_type_hint_deinit(struct hx_type_hint *hint);
void hx_type_hints_free(hx_type_hints *hints);

/* Appends a type's name without what does not count: what compilers and demanglers write in several
 * ways. */
void hx_type_hint_plain(struct hx_text *text, const char *name, size_t n);

/* The n-th template argument (from 1) of a name, NULL when it has fewer. *ret_n: its length. */
const char *hx_type_argument(const char *name, unsigned n, size_t *ret_n);

/* Appends TARGET for the record of this (plain) name; false: it has too few template arguments. */
bool hx_type_hint_target(const struct hx_type_hint *hint, const char *plain, struct hx_text *text);

#endif
