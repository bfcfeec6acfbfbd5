/* marks_plugin.c - a library that marks a region, for test_probe_marks. */
#include "heapx/scc.h"

#include <stdlib.h>

/* How many probes are set in it. */
int marked_probes(void)
{
    return heapx_scc_v1.semaphore;
}

void *marked_malloc(size_t bytes)
{
    HEAPX_SCC("plugin");
    return malloc(bytes);
}
