/* scheme_root.c - roots retain, each under its name, or under that of its thread. */
#include "traverse/retain/scheme.h"

/* Is it a part of a thread that no program has a name for? */
static bool is_part_of_thread(const struct hx_root *root)
{
    return root->tid && (hx_root_is_scratch(root) || (root->kind == HX_ROOT_TLS && !root->symbol));
}

void hx_scheme_put_thread(const struct hx_root *root, bool together, struct hx_text *label)
{
    const char *name = root->thread && *root->thread ? root->thread : NULL;
    hx_text_puts(label, "thread");
    if (!name || !together)
        hx_text_putf(label, " %d", (int)root->tid);
    if (name)
        hx_text_putf(label, " %s", name);
}

void hx_scheme_root_by_name(const struct hx_root *root, enum hx_threads_as threads_as,
                            struct hx_text *label, struct hx_identity *ret)
{
    ret->space = "root";
    if (threads_as != HX_THREADS_AS_PARTS && is_part_of_thread(root)) {
        ret->kind = "thread";
        hx_scheme_put_thread(root, threads_as == HX_THREADS_AS_NAME, label);
        return;
    }
    ret->label = root->name ? root->name : "";
    if (root->kind == HX_ROOT_FRAME) { /* frames of one function are one */
        hx_text_putn(label, root->name, hx_root_function_length(root));
        return;
    }
    ret->symbol = root->symbol;
    ret->module = root->module && *root->module ? root->module : NULL;
}

const struct hx_scheme hx_scheme_root = {
    .name = "root",
    .about = "roots, by name",
    .root = hx_scheme_root_by_name,
};
