/* eventlog.c - GHC event logs with samples of the heap, for eventlog2html and all that reads these.
 *
 * A log is about one break-down. Which of GHC's numbers it has is in the table of censuses:
 * cost-centre stacks (also whole recorded stacks, whose frames are the cost centres then), or
 * names. Times are wall time since the target began; each snapshot is a sample. What GHC's own logs
 * leave out is here: the set MANY, and the real number and time of each sample.
 */
#include "config.h"

#include "export/ghc/eventlog.h"

#include "base/cleanup.h"
#include "export/ghc/bands.h"
#include "store/query/named.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROCESS_SET = 0, /* of capabilities; also the set whose heap it is */
    CLOCK_SET = 1,
    SET_OF_PROCESS = 2,
    SET_OF_CLOCK = 3,
    PROFILE = 0,
    MOST_DEPTH = 255,    /* a byte says how deep a stack is */
    NAME_LIMIT = 65000,  /* bytes */
    PART_LIMIT = 16000,  /* of the three names of a cost centre */
    FILTER_LIMIT = 8000, /* of the seven filters */
};

struct log {
    const struct hx_export *export;
    struct hx_bands bands;
    struct hx_event_writer out;
    struct hx_text text;
    uint64_t period_ns, ordinal;
    bool stacks, biography;
    hx_rows *heaps; /* what is known of the heap, by snapshot */
    bool more_heaps;
    hx_rows *ticks; /* where threads were, by snapshot */
    bool more_ticks;
    HX_VEC(int64_t) threads; /* their numbers, sorted */
    HX_VEC(struct deep {
        uint32_t at;
        uint64_t bytes;
    })
    deep;
    uint64_t cut, merged;
};

static void deinit_export_log(struct log *log)
{
    hx_bands_deinit(&log->bands);
    hx_text_free(&log->text);
    hx_text_free(&log->out.payload);
    hx_rows_end(log->heaps);
    hx_rows_end(log->ticks);
    hx_vec_free(&log->threads);
    hx_vec_free(&log->deep);
}

/* A text as logs want it; until the next one. */
static const char *clean(struct log *log, const char *s, size_t limit)
{
    struct hx_text *text = &log->text;
    hx_text_clear(text);
    hx_band_clean(text, HX_BAND_TEXT, s, strlen(s));
    if (text->failed)
        log->out.payload.failed = true;
    else
        log->cut += hx_band_cut(text, limit);
    return hx_text_str(text);
}

/* --- the beginning --------------------------------------------------------------------- */

static void put_sets(struct log *log)
{
    hx_event_u32(&log->out, PROCESS_SET);
    hx_event_u16(&log->out, SET_OF_PROCESS);
    hx_event_end(&log->out, HX_EVENT_CAPSET_CREATE);
    hx_event_u32(&log->out, CLOCK_SET);
    hx_event_u16(&log->out, SET_OF_CLOCK);
    hx_event_end(&log->out, HX_EVENT_CAPSET_CREATE);
    int64_t now =
        log->bands.timepoints.began_ns; /* times count from there, so this one is 1 later */
    now += now < INT64_MAX;
    hx_event_u32(&log->out, CLOCK_SET);
    hx_event_u64(&log->out, now > 0 ? (uint64_t)now / 1000000000 : 0);
    hx_event_u32(&log->out, now > 0 ? (uint32_t)((uint64_t)now % 1000000000) : 0);
    hx_event_end(&log->out, HX_EVENT_WALL_CLOCK_TIME);
}

static void put_program(struct log *log)
{
    const struct hx_timepoints *timepoints = &log->bands.timepoints;
    if (timepoints->pid > 0) {
        hx_event_u32(&log->out, PROCESS_SET);
        hx_event_u32(&log->out, (uint32_t)timepoints->pid);
        hx_event_end(&log->out, HX_EVENT_OSPROCESS_PID);
    }
    hx_event_u32(&log->out, PROCESS_SET);
    hx_event_bytes(&log->out, "heapx " VERSION);
    hx_event_end(&log->out, HX_EVENT_RTS_IDENTIFIER);
    const char *program =
        timepoints->exe[0] ? timepoints->exe : hx_timepoints_program(timepoints, log->export);
    hx_event_u32(&log->out, PROCESS_SET);
    hx_event_string(&log->out, clean(log, program, PART_LIMIT));
    hx_event_end(&log->out, HX_EVENT_PROGRAM_ARGS);
}

/* The mean distance of snapshots; of one alone, how long the target had run. */
static uint64_t period_of(const struct hx_timepoints *timepoints)
{
    uint64_t first = timepoints->v.v[0].since_ns,
             last = timepoints->v.v[timepoints->v.n - 1].since_ns;
    return timepoints->v.n > 1 ? (last - first) / (timepoints->v.n - 1) : first;
}

/* --- filters -------------------------------------------------------------------------- */

/* Patterns of cost centres that speak of modules (or those that do not), with a comma between. */
static void put_centres(struct log *log, bool modules)
{
    static const char prefix[] = "module:";
    const struct hx_attribution *attribution = log->export->attribution;
    struct hx_text list = {0};
    for (size_t i = 0; attribution && i < attribution->n_patterns; i++) {
        const char *pattern = attribution->pattern[i];
        const char *not = pattern[0] == '!' ? "!" : "";
        const char *rest = pattern + strlen(not );
        bool module = strncmp(rest, prefix, strlen(prefix)) == 0;
        if (module == modules)
            hx_text_putf(&list, "%s%s%s", list.n ? "," : "", not,
                         rest + (module ? strlen(prefix) : 0));
    }
    log->out.payload.failed |= list.failed;
    hx_event_string(&log->out, clean(log, hx_text_str(&list), FILTER_LIMIT));
    hx_text_free(&list);
}

/* Which types retain, and a word on what else decided: of the last census in question. */
static hx_error *load_census(struct log *log, struct hx_text *patterns, struct hx_text *about)
{
    hx_rows *rows = NULL;
    HX_TRY(hx_query_named(log->export->store, HX_QUERY_census_options,
                          HX_QUERY_ARGS(.snapshot = log->export->snapshot), &rows));
    bool more = false;
    hx_error *err = hx_rows_next(rows, &more);
    if (!err && more) {
        struct hx_value scheme = hx_rows_value(rows, 0), list = hx_rows_value(rows, 2);
        struct hx_value most = hx_rows_value(rows, 1);
        if (list.type == HX_VALUE_TEXT)
            for (const char *s = list.text; *s; s++)
                hx_text_putc(patterns, *s == '\n' ? ',' : *s);
        if (scheme.type == HX_VALUE_TEXT)
            hx_text_putf(about, "retainer scheme %s", scheme.text);
        if (about->n && most.type == HX_VALUE_INT && most.i)
            hx_text_putf(about, ", MANY from %" PRId64 " names on", most.i + 1);
    }
    hx_rows_end(rows);
    return err;
}

static void put_begin(struct log *log, uint32_t number, const char *patterns)
{
    struct hx_event_writer *out = &log->out;
    hx_event_u8(out, PROFILE);
    hx_event_u64(out, log->period_ns);
    hx_event_u32(out, number);
    put_centres(log, true);
    hx_event_string(out, ""); /* closure descriptions */
    hx_event_string(out, ""); /* type descriptions */
    put_centres(log, false);
    hx_event_string(out, ""); /* cost-centre stacks */
    hx_event_string(out, clean(log, patterns, FILTER_LIMIT));
    hx_event_string(out, ""); /* biography */
    hx_event_end(out, HX_EVENT_PROF_BEGIN);
}

static hx_error *put_profile(struct log *log, uint32_t number)
{
    struct hx_text patterns = {0}, about = {0};
    hx_error *err = NULL;
    if (log->bands.census->form == HX_KEY_SET)
        err = load_census(log, &patterns, &about);
    if (!err) {
        log->out.payload.failed |= patterns.failed || about.failed;
        if (about.n) {
            hx_event_bytes(&log->out, clean(log, about.s, PART_LIMIT));
            hx_event_end(&log->out, HX_EVENT_LOG_MSG);
        }
        put_begin(log, number, hx_text_str(&patterns));
    }
    hx_text_free(&patterns);
    hx_text_free(&about);
    return err;
}

/* --- cost centres --------------------------------------------------------------------- */

/* Numbers are from 1 on, by the store's. */
static uint32_t centre_event_number(uint32_t centre)
{
    return centre + 1;
}

static void put_cost_centres(struct log *log)
{
    const struct hx_stacktree *tree = &log->bands.tree;
    for (uint32_t i = 0; i < tree->centres.n; i++) {
        const struct hx_stack_centre *centre = &tree->centres.v[i];
        hx_event_u32(&log->out, centre_event_number(i));
        hx_event_string(&log->out, clean(log, hx_stacktree_text(tree, centre->label), PART_LIMIT));
        hx_event_string(&log->out, clean(log, hx_stacktree_text(tree, centre->module), PART_LIMIT));
        hx_event_string(&log->out, clean(log, hx_stacktree_text(tree, centre->source), PART_LIMIT));
        hx_event_u8(&log->out, centre->is_caf);
        hx_event_end(&log->out, HX_EVENT_COST_CENTRE);
    }
}

/* A stack's depth without MAIN; MOST_DEPTH + 1: deeper than can be said. */
static unsigned ccs_depth(const struct hx_stacktree *tree, uint32_t at)
{
    unsigned depth = 0;
    while (tree->rows.v[at].parent != HX_NO_STACK && depth <= MOST_DEPTH) {
        depth++;
        at = tree->rows.v[at].parent;
    }
    return depth;
}

/* The innermost centre first. */
static void put_centre_stack(struct log *log, uint32_t at)
{
    const struct hx_stacktree *tree = &log->bands.tree;
    unsigned depth = ccs_depth(tree, at);
    if (depth > MOST_DEPTH)
        depth = MOST_DEPTH;
    hx_event_u8(&log->out, (uint8_t)depth);
    for (; depth; depth--) {
        hx_event_u32(&log->out, centre_event_number(tree->rows.v[at].centre));
        at = tree->rows.v[at].parent;
    }
}

static void put_stack_sample(struct log *log, uint32_t at, uint64_t bytes)
{
    hx_event_u8(&log->out, PROFILE);
    hx_event_u64(&log->out, bytes);
    put_centre_stack(log, at);
    hx_event_end(&log->out, HX_EVENT_SAMPLE_COST_CENTRE);
}

/* By what is left of stacks that are too deep. */
static int by_inner(const void *left, const void *right, void *context)
{
    const struct hx_stacktree *tree = context;
    uint32_t a = ((const struct deep *)left)->at, b = ((const struct deep *)right)->at;
    for (unsigned i = 0; i < MOST_DEPTH && a != b; i++) {
        uint32_t x = tree->rows.v[a].centre, y = tree->rows.v[b].centre;
        if (x != y)
            return x < y ? -1 : 1;
        a = tree->rows.v[a].parent;
        b = tree->rows.v[b].parent;
    }
    return 0;
}

/* Those that are one stack for a reader become one row. */
static void put_deep(struct log *log)
{
    struct hx_stacktree *tree = &log->bands.tree;
    size_t n = log->deep.n;
    if (n)
        qsort_r(log->deep.v, n, sizeof *log->deep.v, by_inner, tree);
    for (size_t i = 0, end; i < n; i = end) {
        uint64_t bytes = 0;
        for (end = i; end < n && by_inner(&log->deep.v[i], &log->deep.v[end], tree) == 0; end++)
            bytes += log->deep.v[end].bytes;
        log->merged += end - i;
        put_stack_sample(log, log->deep.v[i].at, bytes);
    }
    log->deep.n = 0;
}

/* --- samples -------------------------------------------------------------------------- */

/* The row of a snapshot in rows that are sorted by it; *ret false: none. */
static hx_error *seek_snapshot_row(hx_rows *rows, bool *more, int64_t snapshot, bool *ret)
{
    while (*more && hx_rows_value(rows, 0).i < snapshot)
        HX_TRY(hx_rows_next(rows, more));
    *ret = *more && hx_rows_value(rows, 0).i == snapshot;
    return NULL;
}

static hx_error *put_heap(struct log *log, const struct hx_timepoint *timepoint)
{
    static const enum hx_event_id events[] = {HX_EVENT_HEAP_ALLOCATED, HX_EVENT_HEAP_LIVE,
                                              HX_EVENT_HEAP_SIZE};
    bool there;
    HX_TRY(seek_snapshot_row(log->heaps, &log->more_heaps, timepoint->snapshot, &there));
    for (size_t i = 0; there && i < sizeof events / sizeof *events; i++) {
        struct hx_value value = hx_rows_value(log->heaps, i + 1);
        if (value.type != HX_VALUE_INT || value.i < 0)
            continue;
        hx_event_u32(&log->out, PROCESS_SET);
        hx_event_u64(&log->out, (uint64_t)value.i);
        hx_event_end(&log->out, events[i]);
    }
    return NULL;
}

static void put_string_sample(struct log *log, const char *name, uint64_t bytes)
{
    hx_event_u8(&log->out, PROFILE);
    hx_event_u64(&log->out, bytes);
    hx_event_string(&log->out, name);
    hx_event_end(&log->out, HX_EVENT_SAMPLE_STRING);
}

/* GHC's order of the phases of life; all of them are in each sample. */
static const char *const phases[] = {"VOID", "LAG", "USE", "INHERENT_USE", "DRAG"};
#define PHASES (sizeof phases / sizeof *phases)

/* Is it a phase? Then it is kept for the end of the sample. */
static bool keep_phase(const struct hx_band *band, uint64_t *bytes)
{
    for (size_t i = 0; i < PHASES; i++)
        if (strcmp(phases[i], band->name) == 0) {
            bytes[i] += band->bytes;
            return true;
        }
    return false;
}

static hx_error *put_band(struct log *log, const struct hx_band *band, uint64_t *phase)
{
    const struct hx_stacktree *tree = &log->bands.tree;
    if (!log->stacks) {
        if (!log->biography || !keep_phase(band, phase))
            put_string_sample(log, band->name, band->bytes);
        return NULL;
    }
    uint32_t at = hx_stacktree_find(tree, band->id);
    if (at == HX_NO_STACK)
        return hx_export_damaged(log->export, "stacks");
    if (ccs_depth(tree, at) <= MOST_DEPTH)
        put_stack_sample(log, at, band->bytes);
    else if (!hx_vec_push(&log->deep, (struct deep){at, band->bytes}))
        return hx_error_nomem();
    return NULL;
}

static hx_error *put_bands(struct log *log)
{
    uint64_t phase[PHASES] = {0};
    for (;;) {
        struct hx_band band;
        bool more;
        HX_TRY(hx_bands_next(&log->bands, &band, &more));
        if (!more)
            break;
        HX_TRY(put_band(log, &band, phase));
    }
    put_deep(log);
    for (size_t i = 0; log->biography && i < PHASES; i++)
        put_string_sample(log, phases[i], phase[i]);
    return NULL;
}

static int compare_centre_numbers(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Where the threads were when the snapshot was taken: a tick. A thread is a capability. */
static hx_error *put_ticks(struct log *log, const struct hx_timepoint *timepoint)
{
    const struct hx_stacktree *tree = &log->bands.tree;
    bool there = false;
    if (log->ticks)
        HX_TRY(seek_snapshot_row(log->ticks, &log->more_ticks, timepoint->snapshot, &there));
    while (there) {
        int64_t thread = hx_rows_value(log->ticks, 1).i;
        uint32_t at = hx_stacktree_find(tree, hx_rows_value(log->ticks, 2).i);
        const int64_t *found = bsearch(&thread, log->threads.v, log->threads.n,
                                       sizeof *log->threads.v, compare_centre_numbers);
        if (at == HX_NO_STACK || !found)
            return hx_export_damaged(log->export, "threads");
        hx_event_u32(&log->out, (uint32_t)(found - log->threads.v));
        hx_event_u64(&log->out, log->ordinal);
        put_centre_stack(log, at);
        hx_event_end(&log->out, HX_EVENT_TICK);
        HX_TRY(hx_rows_next(log->ticks, &log->more_ticks));
        HX_TRY(seek_snapshot_row(log->ticks, &log->more_ticks, timepoint->snapshot, &there));
    }
    return NULL;
}

static hx_error *put_heap_sample(struct log *log, const struct hx_timepoint *timepoint)
{
    struct hx_event_writer *out = &log->out;
    out->time_ns = timepoint->since_ns;
    HX_TRY(put_heap(log, timepoint));
    hx_event_u64(out, log->ordinal);
    if (log->biography)
        hx_event_u64(out, timepoint->since_ns);
    hx_event_end(out, log->biography ? HX_EVENT_BIOGRAPHY_BEGIN : HX_EVENT_SAMPLE_BEGIN);
    HX_TRY(put_bands(log));
    hx_event_u64(out, log->ordinal);
    hx_event_end(out, HX_EVENT_SAMPLE_END);
    HX_TRY(put_ticks(log, timepoint));
    log->ordinal++;
    return NULL;
}

/* --- what else there is to read --------------------------------------------------------- */

/* All that was ever allocated is known when each allocation was recorded from the start on. */
static hx_error *open_heaps(struct log *log)
{
    HX_TRY(hx_query_named(log->export->store, HX_QUERY_heap_samples, HX_QUERY_ARGS(), &log->heaps));
    return hx_rows_next(log->heaps, &log->more_heaps);
}

static hx_error *add_thread(void *context, hx_rows *rows)
{
    struct log *log = context;
    return hx_vec_push(&log->threads, hx_rows_value(rows, 0).i) ? NULL : hx_error_nomem();
}

static hx_error *open_ticks(struct log *log)
{
    if (log->bands.census->form != HX_KEY_CCS)
        return NULL;
    HX_TRY(
        hx_query_each(log->export->store, HX_QUERY_tick_threads, HX_QUERY_ARGS(), add_thread, log));
    if (!log->threads.n)
        return NULL;
    HX_TRY(hx_query_named(log->export->store, HX_QUERY_ticks, HX_QUERY_ARGS(), &log->ticks));
    HX_TRY(hx_rows_next(log->ticks, &log->more_ticks));
    hx_event_u64(&log->out, log->period_ns);
    hx_event_end(&log->out, HX_EVENT_TICKS_BEGIN);
    return NULL;
}

/* --- the format ----------------------------------------------------------------------- */

static hx_error *begin_log(struct log *log)
{
    const struct hx_bands *bands = &log->bands;
    log->stacks = hx_census_calls(bands->census);
    log->biography = bands->census->ghc_number == HX_GHC_BIOGRAPHY;
    log->bands.named = !log->stacks;
    log->period_ns = period_of(&bands->timepoints);
    log->out.time_ns = 1;
    hx_event_header(&log->out);
    put_sets(log);
    put_program(log);
    if (log->stacks)
        put_cost_centres(log);
    HX_TRY(put_profile(log, bands->census->ghc_number));
    HX_TRY(open_heaps(log));
    return open_ticks(log);
}

static void tell_log_notes(const struct log *log)
{
    struct hx_text *notes = log->export->notes;
    if (log->cut)
        hx_text_putf(notes, "texts that were too long for an event and are cut: %" PRIu64 "\n",
                     log->cut);
    if (log->merged)
        hx_text_putf(notes,
                     "stacks deeper than %d, of which the innermost centres are written: %" PRIu64
                     "\n",
                     MOST_DEPTH, log->merged);
}

static hx_error *write_eventlog(const struct hx_export *export, struct hx_sink *sink)
{
    HX_CLEANUP(deinit_export_log) struct log log = {.export = export, .out.sink = sink};
    HX_TRY(hx_bands_begin(export, HX_BAND_TEXT, NAME_LIMIT, &log.bands));
    HX_TRY(begin_log(&log));
    for (;;) {
        const struct hx_timepoint *timepoint;
        HX_TRY(hx_bands_sample(&log.bands, &timepoint));
        if (!timepoint)
            break;
        HX_TRY(put_heap_sample(&log, timepoint));
    }
    hx_event_finish(&log.out);
    tell_log_notes(&log);
    return NULL;
}

const struct hx_exporter hx_export_eventlog = {
    .name = "eventlog",
    .about = "GHC's event log with samples of the heap",
    .by = HX_BANDS_BY,
    .censuses = HX_CENSUS_SAMPLED,
    .span = HX_EXPORT_SERIES,
    .binary = true,
    .write = write_eventlog,
};
