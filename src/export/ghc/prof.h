/* prof.h - the second of the two reports of .prof files. */
#ifndef HX_EXPORT_GHC_PROF_H
#define HX_EXPORT_GHC_PROF_H

#include "export/export.h"
#include "export/timepoints.h"

/* The table of cost centres, of the last of the snapshots of which there are costs. */
hx_error *hx_prof_write_costs(const struct hx_export *export,
                              const struct hx_timepoints *timepoints, struct hx_sink *sink);

#endif
