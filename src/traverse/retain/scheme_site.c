/* scheme_site.c - roots retain by name, and objects by the place that allocated them. */
#include "traverse/retain/scheme.h"

static const uint32_t *site_groups(const struct hx_snapshot *snapshot, uint32_t *ret_n)
{
    *ret_n = (uint32_t)snapshot->sites.n;
    return snapshot->graph.site;
}

static void identify_site(const struct hx_snapshot *snapshot, uint32_t group,
                          struct hx_identity *ret)
{
    ret->space = ret->kind = "site";
    ret->label = snapshot->sites.v[group].label;
}

/* Whose allocation was recorded. */
static bool retains(const struct hx_snapshot *snapshot, uint32_t group)
{
    uint32_t stack = snapshot->sites.v[group].stack;
    return stack != HX_SITE_BEFORE && stack != HX_SITE_UNKNOWN;
}

const struct hx_scheme hx_scheme_site = {
    .name = "site",
    .about = "roots by name, and objects by allocation site",
    .root = hx_scheme_root_by_name,
    .groups = site_groups,
    .group = identify_site,
    .retains = retains,
};
