/* stages.h - the stages of a snapshot, from the process to the last part of its analysis. */
#ifndef HX_STORE_STAGES_H
#define HX_STORE_STAGES_H

#include "base/progress.h"
#include "store/store.h"

/* Work, beside enum hx_analysis_part. */
enum { HX_WORK_TAKE = 128, HX_WORK_STORE = 256, HX_WORK_LOAD = 512 };

/* What stages grow with: `seen` of a course. */
enum { HX_SIZE_BYTES = 1, HX_SIZE_OBJECTS, HX_SIZE_EDGES };

/* As hx_course_begin(); analysis->parts of a new snapshot are among `parts`. */
void hx_stages_begin(const struct hx_progress *progress, unsigned parts, unsigned now,
                     unsigned threads);

/* The parts of storing a new snapshot with this analysis. */
unsigned hx_stages_of_new(const struct hx_analysis *analysis);

#endif
