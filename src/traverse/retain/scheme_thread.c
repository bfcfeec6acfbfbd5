/* scheme_thread.c - roots retain: those of a thread together, and all others as "globals". */
#include "traverse/retain/scheme.h"

static void identify_thread(const struct hx_root *root, struct hx_text *label,
                            struct hx_identity *ret)
{
    ret->space = "thread";
    if (root->tid) {
        ret->kind = "thread";
        hx_text_putf(label, "thread %d", (int)root->tid);
    } else {
        ret->kind = "global";
        ret->label = "globals";
    }
}

const struct hx_scheme hx_scheme_thread = {
    .name = "thread",
    .about = "roots, by thread, globals together",
    .root = identify_thread,
};
