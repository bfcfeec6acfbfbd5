/* scheme_type.c - roots retain by name, and objects of the picked types by type. */
#include "traverse/retain/scheme.h"

static const uint32_t *type_groups(const struct hx_snapshot *snapshot, uint32_t *ret_n)
{
    *ret_n = (uint32_t)snapshot->types.n;
    return snapshot->graph.type;
}

static void identify_type(const struct hx_snapshot *snapshot, uint32_t group,
                          struct hx_identity *ret)
{
    ret->space = ret->kind = "type";
    ret->label = snapshot->types.v[group].name;
    ret->symbol = snapshot->types.v[group].symbol;
}

const struct hx_scheme hx_scheme_type = {
    .name = "type",
    .about = "roots by name, and objects by type",
    .root = hx_scheme_root_by_name,
    .groups = type_groups,
    .group = identify_type,
    .picks = true,
};
