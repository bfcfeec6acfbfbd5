/* scc_plugin.c - a library that scc_victim loads: it has regions of its own, one already when it is
 * constructed. */
#include "scc_victim.h"

static __attribute__((constructor)) FAR void constructed(void)
{
    HEAPX_SCC("constructing");
    keep(1901);
    THEN();
}

void plugin_work(void);
void plugin_work(void)
{
    HEAPX_SCC("plugin");
    keep(1902);
    THEN();
}

/* For whoever leaves it on the stack while the library goes. */
extern const struct heapx_centre plugin_centre;
const struct heapx_centre plugin_centre = {"of a plugin that is gone", "none", __FILE__, __LINE__,
                                           0};
