/* scheme_root.c - roots retain, each under its name. */
#include "traverse/retain/scheme.h"

void hx_scheme_root_by_name(const struct hx_root *root, struct hx_text *label,
                            struct hx_identity *ret)
{
    (void)label;
    ret->space = "root";
    ret->label = root->name ? root->name : "";
    ret->symbol = root->symbol;
    ret->module = root->module && *root->module ? root->module : NULL;
}

const struct hx_scheme hx_scheme_root = {
    .name = "root",
    .about = "roots, by name",
    .root = hx_scheme_root_by_name,
};
