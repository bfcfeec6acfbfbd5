/* expression.h - what the user writes for a root, taken apart. Used by named.c only. */
#ifndef HX_TRAVERSE_EXPRESSION_H
#define HX_TRAVERSE_EXPRESSION_H

#include "base/error.h"

#include <stdint.h>

enum hx_form {
    HX_FORM_SYMBOL,
    HX_FORM_THREAD,
    HX_FORM_MODULE,
    HX_FORM_FRAME,
    HX_FORM_TYPE,
    HX_FORM_OBJECT,
    HX_FORM_POINTER,
};

struct hx_expression {
    enum hx_form form;
    uint64_t number;  /* thread, address */
    const char *text; /* symbol, module, function, pattern: points into the expression */
};

/* HX_E_USAGE for what is no expression, whatever the snapshot. */
hx_error *hx_expression_parse(const char *text, struct hx_expression *ret);

/* Does it speak of a part of a variable? */
bool hx_expression_has_part(const char *text);

/* The error about a part of a variable. */
hx_error *hx_expression_needs_debug(const char *text);

#endif
