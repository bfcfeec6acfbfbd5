/* prof.h - the two reports of .prof files, and how names stand in them. */
#ifndef HX_EXPORT_PROF_H
#define HX_EXPORT_PROF_H

#include "export/moments.h"
#include "export/stacktree.h"

/* The table of cost centres, of the last of the snapshots of which there are costs. */
hx_error *hx_prof_write_costs(const struct hx_export *export, const struct hx_moments *moments,
                              struct hx_sink *sink);

/* Writes nanoseconds as seconds with six decimals. */
void hx_prof_put_seconds(struct hx_sink *sink, uint64_t ns);

#endif
