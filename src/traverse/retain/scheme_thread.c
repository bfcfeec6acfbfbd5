/* scheme_thread.c - roots retain: those of a thread together, and all others as "globals". */
#include "traverse/retain/scheme.h"

static void identify_thread(const struct hx_root *root, enum hx_threads_as threads_as,
                            struct hx_text *label, struct hx_identity *ret)
{
    (void)threads_as; /* each thread by itself: that is the scheme */
    ret->space = "thread";
    if (root->tid) {
        ret->kind = "thread";
        hx_scheme_put_thread(root, false, label);
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
