/* speedscope.c - the file format of speedscope: a sampled profile for each snapshot, whose weights
 * are bytes. Frames are shared by all of them, and stand behind them, so that a profile is written
 * as soon as it is made. */
#include "export/paths/paths.h"
#include "export/timepoints.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 200000                    /* of a profile: what a browser takes */
#define LARGEST (((uint64_t)1 << 53) - 1) /* number of JSON that every reader keeps */

struct speedscope {
    const struct hx_export *export;
    struct hx_sink *sink;
    struct hx_paths paths;
    HX_VEC(uint32_t) number; /* of each frame of the paths among those of the file, plus 1 */
    HX_VEC(uint32_t) frames; /* those of the file, in the order in which they are met */
    size_t profiles, merged;
};

static void deinit_speedscope(struct speedscope *s)
{
    hx_paths_deinit(&s->paths);
    hx_vec_free(&s->number);
    hx_vec_free(&s->frames);
}

static void put_speedscope_string(struct hx_sink *sink, const char *s)
{
    hx_sink_json(sink, s, strlen(s));
}

static hx_error *number_frame(struct speedscope *s, uint32_t frame, uint32_t *ret)
{
    while (s->number.n <= frame)
        HX_NEED(hx_vec_push(&s->number, 0));
    if (!s->number.v[frame]) {
        HX_NEED(hx_vec_push(&s->frames, frame));
        s->number.v[frame] = (uint32_t)s->frames.n;
    }
    *ret = s->number.v[frame] - 1;
    return NULL;
}

static hx_error *put_speedscope_sample(struct speedscope *s, uint32_t node, bool first)
{
    uint32_t frame[HX_PATHS_DEPTH + 1], number = 0;
    uint32_t n = hx_paths_frames(&s->paths, node, frame);
    hx_sink_puts(s->sink, first ? "\n[" : ",\n[");
    for (uint32_t i = 0; i < n; i++) {
        HX_TRY(number_frame(s, frame[i], &number));
        hx_sink_putf(s->sink, i ? ",%" PRIu32 : "%" PRIu32, number);
    }
    hx_sink_putc(s->sink, ']');
    return NULL;
}

/* Root first; the heaviest paths first, so that what belongs together is side by side. */
static hx_error *put_samples(struct speedscope *s, const uint32_t *order)
{
    const struct hx_paths *paths = &s->paths;
    bool first = true;
    hx_sink_puts(s->sink, "\"samples\":[");
    for (size_t i = 1; i < paths->nodes.n; i++)
        if (paths->nodes.v[order[i]].own[HX_PATH_BYTES]) {
            HX_TRY(put_speedscope_sample(s, order[i], first));
            first = false;
        }
    hx_sink_puts(s->sink, "],\n\"weights\":[");
    first = true;
    for (size_t i = 1; i < paths->nodes.n; i++) {
        uint64_t bytes = paths->nodes.v[order[i]].own[HX_PATH_BYTES];
        if (bytes)
            hx_sink_putf(s->sink, first ? "%" PRIu64 : ",%" PRIu64, bytes);
        first = first && !bytes;
    }
    hx_sink_puts(s->sink, "]}");
    return NULL;
}

static void put_speedscope_head(struct speedscope *s)
{
    struct hx_text name = {0};
    hx_sink_puts(s->sink, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
                          "\"exporter\":\"heapx\",\n\"name\":");
    hx_text_escape(&name, s->export->title, strlen(s->export->title), false);
    put_speedscope_string(s->sink, hx_text_str(&name));
    hx_text_free(&name);
    hx_sink_puts(s->sink, ",\n\"profiles\":[");
}

static hx_error *put_profile(struct speedscope *s, const struct hx_timepoint *timepoint)
{
    HX_FREE uint64_t *weight = NULL;
    HX_FREE uint32_t *order = NULL;
    struct hx_paths_cut cut = {.samples = SAMPLES, .value = HX_PATH_BYTES};
    size_t merged = 0;
    HX_TRY(hx_paths_load(s->export, timepoint->snapshot, &s->paths));
    HX_TRY(hx_paths_cut(&s->paths, &cut, &merged));
    HX_TRY(hx_paths_inclusive(&s->paths, HX_PATH_BYTES, &weight));
    HX_TRY(hx_paths_order(&s->paths, weight, &order));
    if (weight[0] > LARGEST)
        return hx_error_new(HX_E_LIMIT, s->export->title, NULL,
                            "has more bytes than numbers of JSON can say");
    if (s->profiles++)
        hx_sink_putc(s->sink, ',');
    else
        put_speedscope_head(s);
    hx_sink_putf(s->sink,
                 "\n{\"type\":\"sampled\",\"name\":\"snapshot %" PRId64
                 ", by %s\",\"unit\":\"bytes\","
                 "\"startValue\":0,\"endValue\":%" PRIu64 ",\n",
                 timepoint->snapshot, s->paths.by, weight[0]);
    s->merged += merged;
    return put_samples(s, order);
}

static void put_frames(struct speedscope *s)
{
    hx_sink_putf(s->sink, "],\n\"activeProfileIndex\":%zu,\n\"shared\":{\"frames\":[",
                 s->profiles - 1);
    for (size_t i = 0; i < s->frames.n; i++) {
        const struct hx_path_frame *frame = &s->paths.frames.v[s->frames.v[i]];
        hx_sink_puts(s->sink, i ? ",\n{\"name\":" : "\n{\"name\":");
        put_speedscope_string(s->sink, frame->name);
        if (frame->file[0]) {
            hx_sink_puts(s->sink, ",\"file\":");
            put_speedscope_string(s->sink, frame->file);
        }
        if (frame->line)
            hx_sink_putf(s->sink, ",\"line\":%" PRIu32, frame->line);
        hx_sink_putc(s->sink, '}');
    }
    hx_sink_puts(s->sink, "]}}\n");
}

/* Snapshots without such paths are left out; when none is left, it is an error. */
static hx_error *put_profiles(struct speedscope *s, const struct hx_timepoints *timepoints)
{
    size_t absent = 0;
    for (size_t i = 0; i < timepoints->v.n; i++) {
        if (hx_progress_cancelled(s->export->progress))
            return hx_error_cancelled(s->export->title);
        hx_error *err = put_profile(s, &timepoints->v.v[i]);
        if (!err)
            continue;
        if (err->kind != HX_E_ABSENT || (i + 1 == timepoints->v.n && !s->profiles))
            return err;
        hx_error_free(err);
        absent++;
    }
    if (absent)
        hx_text_putf(s->export->notes, "%zu snapshots without such stacks are left out\n", absent);
    return NULL;
}

static hx_error *write_speedscope(const struct hx_export *export, struct hx_sink *sink)
{
    HX_CLEANUP(deinit_speedscope)
    struct speedscope s = {
        .export = export, .sink = sink, .paths = {.detail = HX_PATHS_MODULES | HX_PATHS_LINES}};
    HX_TIMEPOINTS struct hx_timepoints timepoints = {0};
    HX_TRY(hx_timepoints_load(export, &timepoints));
    HX_TRY(put_profiles(&s, &timepoints));
    put_frames(&s);
    hx_paths_note(export, &s.paths);
    if (s.merged)
        hx_text_putf(export->notes, "%zu of the smallest stacks are merged into (other)\n",
                     s.merged);
    return NULL;
}

const struct hx_exporter hx_export_speedscope = {
    .name = "speedscope",
    .about = "stacks as JSON for speedscope, a profile a snapshot",
    .by = HX_PATHS_BY,
    .censuses = HX_CENSUS_FLAT,
    .span = HX_EXPORT_SERIES,
    .write = write_speedscope,
};
