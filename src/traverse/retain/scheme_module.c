/* scheme_module.c - roots retain, those of one module together. */
#include "traverse/retain/scheme.h"

static void identify_module(const struct hx_root *root, enum hx_threads_as threads_as,
                            struct hx_text *label, struct hx_identity *ret)
{
    (void)threads_as;
    (void)label;
    bool has = root->module && *root->module;
    ret->space = ret->kind = "module";
    ret->label = has ? root->module : "(no module)";
    ret->module = has ? root->module : NULL;
}

const struct hx_scheme hx_scheme_module = {
    .name = "module",
    .about = "roots, by module",
    .root = identify_module,
};
