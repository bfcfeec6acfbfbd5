/* scheme_type.c - roots retain by name, and objects of the picked types by type. */
#include "traverse/retain/scheme.h"

#include <string.h>

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

/* Classes of C++ with a vtable, and those of Python that are in a module. A type that refers to
 * itself is left out: each node of a list would only name the one before it. */
static bool retains_by_default(const struct hx_snapshot *snapshot, uint32_t group)
{
    const struct hx_type *type = &snapshot->types.v[group];
    if (type->sources >> HX_TYPED_PYTHON & 1)
        return strchr(type->name, '.') && !strchr(type->name, ' ');
    if (type->sources && !(type->sources >> HX_TYPED_VTABLE & 1))
        return false;
    if (!type->layout || type->layout > snapshot->layouts.n)
        return true;
    const struct hx_layout *layout = &snapshot->layouts.v[type->layout - 1];
    for (size_t i = 0; i < layout->fields.n; i++)
        if (layout->fields.v[i].target && strcmp(layout->fields.v[i].target, type->name) == 0)
            return false;
    return true;
}

const struct hx_scheme hx_scheme_type = {
    .name = "type",
    .about = "roots by name, and objects by type",
    .root = hx_scheme_root_by_name,
    .groups = type_groups,
    .group = identify_type,
    .picks = true,
    .by_default = retains_by_default,
};
