/* folded.c - stacks a line each, "root;...;leaf BYTES": what flame graph tools read. */
#include "export/paths/paths.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* More than any reader shows; the rest is merged. */
#define SAMPLES 1000000

/* A frame's name is escaped already, with each backslash doubled: ';' as \x3b keeps different
 * names different. */
static void put_folded_name(struct hx_sink *sink, const char *name)
{
    for (size_t n; *name; name += n + 1) {
        n = strcspn(name, ";");
        hx_sink_put(sink, name, n);
        if (!name[n])
            return;
        hx_sink_puts(sink, "\\x3b");
    }
}

static void put_folded_path(struct hx_sink *sink, const struct hx_paths *paths, uint32_t node)
{
    uint32_t frame[HX_PATHS_DEPTH + 1];
    uint32_t n = hx_paths_frames(paths, node, frame);
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            hx_sink_putc(sink, ';');
        put_folded_name(sink, paths->frames.v[frame[i]].name);
    }
    hx_sink_putf(sink, " %" PRIu64 "\n", paths->nodes.v[node].own[HX_PATH_BYTES]);
}

static hx_error *write_folded(const struct hx_export *export, struct hx_sink *sink)
{
    HX_PATHS struct hx_paths paths = {0};
    HX_FREE uint32_t *order = NULL;
    struct hx_paths_cut cut = {.samples = SAMPLES, .value = HX_PATH_BYTES};
    size_t merged = 0;
    HX_TRY(hx_paths_load(export, export->snapshot, &paths));
    HX_TRY(hx_paths_cut(&paths, &cut, &merged));
    HX_TRY(hx_paths_order(&paths, NULL, &order));
    for (size_t i = 1; i < paths.nodes.n; i++)
        if (paths.nodes.v[order[i]].own[HX_PATH_BYTES])
            put_folded_path(sink, &paths, order[i]);
    hx_paths_note(export, &paths);
    if (merged)
        hx_text_putf(export->notes, "%zu of the smallest stacks are merged into (other)\n", merged);
    return NULL;
}

const struct hx_exporter hx_export_folded = {
    .name = "folded",
    .about = "a line for each stack, for flame graph tools",
    .by = HX_PATHS_BY,
    .censuses = HX_CENSUS_FLAT,
    .span = HX_EXPORT_ONE,
    .write = write_folded,
};
