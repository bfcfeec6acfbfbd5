/* import_eventlog.c - event logs of GHC's runtime: their heap profiles.
 *
 * A log is a header, which declares each kind of event with its size, and events: kind, time, the
 * length of those whose kind has none, content. All numbers are big-endian. What is not known is
 * skipped by its declared or own length. A log that was cut off keeps what is whole: it differs
 * from one that lies about lengths by the end mark, which is written last. */
#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "export/import/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE   0xffff /* declared size: each event has its own length */
#define DATA_END   0xffff /* in the place of an event's kind */
#define EVENT_HEAD 10     /* kind and time */

enum event {
    EV_BLOCK_MARKER = 18,
    EV_RTS_IDENTIFIER = 29,
    EV_PROGRAM_ARGS = 30,
    EV_OSPROCESS_PID = 32,
    EV_WALL_CLOCK_TIME = 43,
    EV_HEAP_SIZE = 50,
    EV_HEAP_LIVE = 51,
    EV_BLOCKS_SIZE = 91,
    EV_HEAP_PROF_BEGIN = 160,
    EV_HEAP_PROF_COST_CENTRE = 161,
    EV_HEAP_PROF_SAMPLE_BEGIN = 162,
    EV_HEAP_PROF_SAMPLE_COST_CENTRE = 163,
    EV_HEAP_PROF_SAMPLE_STRING = 164,
    EV_HEAP_PROF_SAMPLE_END = 165,
    EV_HEAP_BIO_PROF_SAMPLE_BEGIN = 166,
    EV_PROF_SAMPLE_COST_CENTRE = 167,
    EV_PROF_BEGIN = 168,
    EV_IPE = 169,
};

/* Kinds that GHC's runtimes have had so far, or that are reserved for other programs'. */
static const struct {
    uint16_t first, last;
} known_kinds[] = {{0, 99}, {100, 159}, {160, 169}, {181, 182}, {200, 212}};

struct kind {
    uint16_t number, size;
    size_t at;          /* where it is declared */
    size_t description; /* of description_bytes */
    size_t description_bytes;
    uint64_t events;
    uint64_t first; /* where its first event lies */
};

/* What a garbage collector said of the whole heap at some time. */
struct reported {
    uint64_t time_ns, bytes;
};
enum figure { FIGURE_SIZE, FIGURE_LIVE, FIGURE_BLOCKS, FIGURES };

struct log {
    struct hx_import *import;
    struct hx_profile *profile;
    size_t at; /* what is read next */
    HX_VEC(struct kind) kinds;
    uint32_t *kind_of; /* by number; HX_NO_PAIR: not declared */
    bool has_end;      /* the file ends with the end mark */
    bool open;         /* a sample has begun */
    bool has_sample_end;
    uint64_t ordinal; /* of the open sample */
    bool has_identifier;
    HX_VEC(struct reported) reported[FIGURES];
};

/* An event's content. */
struct event_body {
    size_t event;   /* where the event begins */
    size_t at, end; /* what is left of its content */
    uint64_t time_ns;
};

static void deinit_import_log(struct log *log)
{
    hx_vec_free(&log->kinds);
    for (int i = 0; i < FIGURES; i++)
        hx_vec_free(&log->reported[i]);
    free(log->kind_of);
    log->kind_of = NULL;
}

static uint64_t number_at(const struct log *log, size_t at, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value = value << 8 | log->import->bytes[at + i];
    return value;
}

/* --- the header ------------------------------------------------------------------------ */

static hx_error *ends_early(const struct log *log, const char *where)
{
    return hx_import_error(log->import, log->import->n, "the file ends %s", where);
}

static hx_error *header_number(struct log *log, size_t n, uint64_t *ret)
{
    if (log->import->n - log->at < n)
        return ends_early(log, "within its header");
    *ret = number_at(log, log->at, n);
    log->at += n;
    return NULL;
}

static hx_error *header_mark(struct log *log, const char *mark)
{
    const uint8_t *bytes = log->import->bytes;
    for (size_t i = 0; i < 4; i++) {
        if (log->at + i >= log->import->n)
            return ends_early(log, "within its header");
        if (bytes[log->at + i] != (uint8_t)mark[i])
            return hx_import_error(log->import, log->at, "'%.4s' is missing in its header", mark);
    }
    log->at += 4;
    return NULL;
}

static bool header_is(const struct log *log, const char *mark)
{
    return log->import->n - log->at >= 4 && memcmp(log->import->bytes + log->at, mark, 4) == 0;
}

/* A length and so many bytes. */
static hx_error *header_bytes(struct log *log, const char *what, size_t *ret_at, size_t *ret_n)
{
    uint64_t n = 0;
    size_t at = log->at;
    HX_TRY(header_number(log, 4, &n));
    if (n > log->import->n - log->at)
        return hx_import_error(log->import, at,
                               "%s has %" PRIu64 " bytes, more than the file has left", what, n);
    *ret_at = log->at;
    *ret_n = (size_t)n;
    log->at += (size_t)n;
    return NULL;
}

static hx_error *declare(struct log *log, const struct kind *kind)
{
    uint32_t *index = &log->kind_of[kind->number];
    if (*index != HX_NO_PAIR) {
        if (log->kinds.v[*index].size == kind->size)
            return NULL;
        return hx_import_error(log->import, kind->at,
                               "event kind %u is declared twice, with sizes %u and %u",
                               kind->number, log->kinds.v[*index].size, kind->size);
    }
    *index = (uint32_t)log->kinds.n;
    return hx_vec_push(&log->kinds, *kind) ? NULL : hx_error_nomem();
}

static hx_error *read_declaration(struct log *log)
{
    struct kind kind = {.at = log->at};
    uint64_t number = 0, size = 0;
    size_t extra, extra_bytes;
    HX_TRY(header_mark(log, "etb\0"));
    HX_TRY(header_number(log, 2, &number));
    HX_TRY(header_number(log, 2, &size));
    kind.number = (uint16_t)number;
    kind.size = (uint16_t)size;
    HX_TRY(
        header_bytes(log, "the name of an event kind", &kind.description, &kind.description_bytes));
    HX_TRY(header_bytes(log, "what is said of an event kind", &extra, &extra_bytes));
    HX_TRY(header_mark(log, "ete\0"));
    if (kind.number == DATA_END)
        return hx_import_error(log->import, kind.at, "event kind 65535 is the end mark");
    return declare(log, &kind);
}

static hx_error *read_header(struct log *log)
{
    HX_TRY(header_mark(log, "hdrb"));
    HX_TRY(header_mark(log, "hetb"));
    while (!header_is(log, "hete"))
        HX_TRY(read_declaration(log));
    HX_TRY(header_mark(log, "hete"));
    HX_TRY(header_mark(log, "hdre"));
    return header_mark(log, "datb");
}

/* --- the content of events --------------------------------------------------------------- */

static hx_error *too_short(const struct log *log, const struct event_body *body, const char *what)
{
    return hx_import_error(log->import, body->at, "an event ends before its %s", what);
}

static hx_error *read_event_number(const struct log *log, struct event_body *body, size_t n,
                                   const char *what, uint64_t *ret)
{
    if (body->end - body->at < n)
        return too_short(log, body, what);
    *ret = number_at(log, body->at, n);
    body->at += n;
    return NULL;
}

/* A string with its end mark; the text lies in the file. */
static hx_error *read_string(const struct log *log, struct event_body *body, const char *what,
                             struct hx_profile_text *ret)
{
    const uint8_t *s = log->import->bytes + body->at;
    size_t left = body->end - body->at;
    const uint8_t *end = left ? memchr(s, 0, left) : NULL;
    if (!end)
        return hx_import_error(log->import, body->at, "the %s of an event has no end", what);
    *ret = (struct hx_profile_text){body->at, (size_t)(end - s)};
    HX_TRY(hx_profile_utf8(log->import, ret->at, ret->n));
    body->at += ret->n + 1;
    return NULL;
}

static hx_error *read_c_string(const struct log *log, struct event_body *body, const char *what,
                               const char **ret)
{
    struct hx_profile_text text = {0};
    HX_TRY(read_string(log, body, what, &text));
    *ret = (const char *)log->import->bytes + text.at;
    return NULL;
}

/* --- the program ------------------------------------------------------------------------- */

static hx_error *on_wall_clock(struct log *log, struct event_body *body)
{
    struct hx_profile *profile = log->profile;
    uint64_t set = 0, seconds = 0, rest = 0;
    size_t at;
    int64_t now;
    HX_TRY(read_event_number(log, body, 4, "set", &set));
    at = body->at;
    HX_TRY(read_event_number(log, body, 8, "seconds", &seconds));
    HX_TRY(read_event_number(log, body, 4, "nanoseconds", &rest));
    if (seconds > INT64_MAX / 1000000000 - 1 || rest >= 1000000000 ||
        body->time_ns > (uint64_t)INT64_MAX)
        return hx_import_error(log->import, at, "a time of day that is none");
    if (profile->has_clock)
        return NULL;
    now = (int64_t)(seconds * 1000000000 + rest);
    if (now <= (int64_t)body->time_ns)
        return hx_import_error(log->import, at, "a time of day before 1970");
    profile->began_ns = now - (int64_t)body->time_ns;
    profile->has_clock = true;
    return NULL;
}

static hx_error *on_pid(struct log *log, struct event_body *body)
{
    uint64_t set = 0, pid = 0;
    HX_TRY(read_event_number(log, body, 4, "set", &set));
    HX_TRY(read_event_number(log, body, 4, "process number", &pid));
    if (!log->profile->pid)
        log->profile->pid = (int64_t)pid;
    return NULL;
}

/* The words of the call. What is said to the runtime stands between +RTS and -RTS. */
static hx_error *on_arguments(struct log *log, struct event_body *body)
{
    const char *bytes = (const char *)log->import->bytes;
    uint64_t set = 0;
    HX_TRY(read_event_number(log, body, 4, "set", &set));
    bool first = true, runtime = false;
    for (size_t at = body->at, end; at < body->end; at = end + 1, first = false) {
        const char *nul = memchr(bytes + at, 0, body->end - at);
        end = nul ? (size_t)(nul - bytes) : body->end;
        size_t n = end - at;
        if (first)
            HX_TRY(hx_profile_program(log->profile, bytes + at, n));
        else if (n == 4 && memcmp(bytes + at, "+RTS", n) == 0)
            runtime = true;
        else if (n == 4 && memcmp(bytes + at, "-RTS", n) == 0)
            runtime = false;
        else if (runtime)
            hx_profile_option(log->profile, bytes + at, n);
    }
    body->at = body->end;
    return NULL;
}

static hx_error *on_identifier(struct log *log, struct event_body *body)
{
    uint64_t set = 0;
    HX_TRY(read_event_number(log, body, 4, "set", &set));
    struct hx_text *notes = &log->profile->notes;
    const char *s = (const char *)log->import->bytes + body->at;
    size_t n = strnlen(s, body->end - body->at);
    body->at = body->end;
    if (log->has_identifier || !n)
        return NULL;
    log->has_identifier = true;
    if (n > 5 && memcmp(s, "heapx", 5) == 0) /* which cuts no names */
        log->profile->name_bytes = SIZE_MAX;
    hx_profile_note(notes, "made by ");
    for (size_t i = 0; i < n; i++) /* a name and a version */
        hx_text_putc(notes, s[i] >= 0x20 && s[i] < 0x7f && s[i] != ';' ? s[i] : '?');
    return NULL;
}

static hx_error *on_figure(struct log *log, struct event_body *body, enum figure figure)
{
    uint64_t set = 0, bytes = 0;
    HX_TRY(read_event_number(log, body, 4, "set", &set));
    HX_TRY(read_event_number(log, body, 8, "bytes", &bytes));
    HX_NEED(hx_vec_push(&log->reported[figure], ((struct reported){body->time_ns, bytes})));
    return NULL;
}

/* --- what is profiled -------------------------------------------------------------------- */

static const char *const filters[] = {"module",       "closure description", "type description",
                                      "cost centre",  "cost-centre stack",   "retainer",
                                      "phase of life"};

static hx_error *on_begin(struct log *log, struct event_body *body)
{
    struct hx_profile *profile = log->profile;
    uint64_t number = 0, period = 0, breakdown = 0;
    size_t at;
    uint32_t index;
    HX_TRY(read_event_number(log, body, 1, "profile number", &number));
    HX_TRY(read_event_number(log, body, 8, "sampling period", &period));
    at = body->at;
    HX_TRY(read_event_number(log, body, 4, "break-down", &breakdown));
    if (!breakdown)
        return hx_import_error(log->import, at, "a heap profile by nothing (0)");
    if (breakdown >= HX_BREAKDOWN_NEWER)
        breakdown = HX_BREAKDOWN_NEWER;
    HX_TRY(hx_profile_kind(profile, (uint8_t)number, body->event, &index));
    struct hx_profile_kind *kind = &profile->kinds.v[index];
    if (kind->begun && kind->breakdown != (enum hx_breakdown)breakdown)
        return hx_import_error(log->import, at, "profile %" PRIu64 " begins twice, by %s and by %s",
                               number, hx_breakdown_name(kind->breakdown),
                               hx_breakdown_name((enum hx_breakdown)breakdown));
    bool again = kind->begun;
    kind->begun = true;
    kind->breakdown = (enum hx_breakdown)breakdown;
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        struct hx_profile_text text = {0};
        HX_TRY(read_string(log, body, "filter", &text));
        if (text.n && !again) {
            hx_profile_note(&profile->notes, "only of %s ", filters[i]);
            hx_text_putn(&profile->notes, (const char *)log->import->bytes + text.at, text.n);
        }
    }
    return NULL;
}

static bool same_centre(const struct hx_profile_centre *a, const struct hx_profile_centre *b)
{
    return strcmp(a->label, b->label) == 0 && strcmp(a->module, b->module) == 0 &&
           strcmp(a->source, b->source) == 0 && a->is_caf == b->is_caf;
}

static hx_error *on_centre(struct log *log, struct event_body *body)
{
    struct hx_profile *profile = log->profile;
    struct hx_profile_centre centre = {0};
    uint64_t id = 0, flags = 0;
    uint32_t *index;
    HX_TRY(read_event_number(log, body, 4, "number", &id));
    HX_TRY(read_c_string(log, body, "label", &centre.label));
    HX_TRY(read_c_string(log, body, "module", &centre.module));
    HX_TRY(read_c_string(log, body, "place", &centre.source));
    HX_TRY(read_event_number(log, body, 1, "flags", &flags));
    centre.id = (uint32_t)id;
    centre.is_caf = flags & 1;
    HX_TRY(hx_pairs_at(&profile->centre_by_id, id, &index));
    if (*index != HX_NO_PAIR) {
        if (same_centre(&profile->centres.v[*index], &centre))
            return NULL;
        return hx_import_error(log->import, body->event,
                               "cost centre %" PRIu64 " is defined twice, differently", id);
    }
    *index = (uint32_t)profile->centres.n;
    return hx_vec_push(&profile->centres, centre) ? NULL : hx_error_nomem();
}

static bool same_table(const struct hx_profile_table *a, const struct hx_profile_table *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->type, b->type) == 0 &&
           strcmp(a->label, b->label) == 0 && strcmp(a->module, b->module) == 0 &&
           strcmp(a->source, b->source) == 0;
}

static hx_error *on_table(struct log *log, struct event_body *body)
{
    struct hx_profile *profile = log->profile;
    struct hx_profile_table table = {0};
    const char *description;
    uint32_t *index;
    HX_TRY(read_event_number(log, body, 8, "address", &table.address));
    HX_TRY(read_c_string(log, body, "name", &table.name));
    HX_TRY(read_c_string(log, body, "description", &description));
    HX_TRY(read_c_string(log, body, "type", &table.type));
    HX_TRY(read_c_string(log, body, "label", &table.label));
    HX_TRY(read_c_string(log, body, "module", &table.module));
    HX_TRY(read_c_string(log, body, "place", &table.source));
    HX_TRY(hx_pairs_at(&profile->table_by_address, table.address, &index));
    if (*index != HX_NO_PAIR) {
        if (same_table(&profile->tables.v[*index], &table))
            return NULL;
        return hx_import_error(log->import, body->event,
                               "info table 0x%" PRIx64 " is explained twice, differently",
                               table.address);
    }
    *index = (uint32_t)profile->tables.n;
    return hx_vec_push(&profile->tables, table) ? NULL : hx_error_nomem();
}

/* --- samples ------------------------------------------------------------------------------- */

/* Older runtimes do not say where a sample ends: it does where the next one begins. */
static void close_sample(struct log *log, bool whole)
{
    struct hx_profile *profile = log->profile;
    if (!log->open)
        return;
    log->open = false;
    struct hx_profile_sample *sample = &profile->samples.v[profile->samples.n - 1];
    sample->n = profile->rows.n - sample->first;
    if (whole)
        return;
    profile->lost[HX_LOSS_UNFINISHED]++;
    profile->rows.n = sample->first;
    hx_text_free(&sample->notes);
    profile->samples.n--;
}

static hx_error *open_sample(struct log *log, struct event_body *body, bool own_time)
{
    struct hx_profile *profile = log->profile;
    uint64_t ordinal = 0, time = body->time_ns;
    HX_TRY(read_event_number(log, body, 8, "number", &ordinal));
    if (own_time)
        HX_TRY(read_event_number(log, body, 8, "time", &time));
    close_sample(log, !log->has_sample_end);
    struct hx_profile_sample sample = {
        .time_ns = time, .at = body->event, .first = profile->rows.n};
    HX_NEED(hx_vec_push(&profile->samples, sample));
    log->open = true;
    log->ordinal = ordinal;
    return NULL;
}

static hx_error *on_sample_end(struct log *log, struct event_body *body)
{
    uint64_t ordinal = 0;
    size_t at = body->at;
    HX_TRY(read_event_number(log, body, 8, "number", &ordinal));
    if (!log->open) /* the log began within one */
        return NULL;
    if (ordinal != log->ordinal)
        return hx_import_error(log->import, at,
                               "sample %" PRIu64 " has begun, and sample %" PRIu64 " ends",
                               log->ordinal, ordinal);
    log->has_sample_end = true;
    close_sample(log, true);
    return NULL;
}

static hx_error *add_profile_row(struct log *log, struct hx_profile_row *row, uint64_t number,
                                 size_t at)
{
    struct hx_profile *profile = log->profile;
    HX_TRY(hx_profile_kind(profile, (uint8_t)number, at, &row->profile));
    if (!log->open) {
        profile->lost[HX_LOSS_OUTSIDE]++;
        return NULL;
    }
    return hx_vec_push(&profile->rows, *row) ? NULL : hx_error_nomem();
}

static hx_error *on_stack(struct log *log, struct event_body *body)
{
    struct hx_profile_row row = {.is_stack = true};
    uint64_t number = 0, depth = 0;
    size_t at;
    HX_TRY(read_event_number(log, body, 1, "profile number", &number));
    HX_TRY(read_event_number(log, body, 8, "bytes", &row.bytes));
    at = body->at;
    HX_TRY(read_event_number(log, body, 1, "depth", &depth));
    if (body->end - body->at < 4 * depth)
        return hx_import_error(log->import, at, "a stack of %" PRIu64 " cost centres in %zu bytes",
                               depth, body->end - body->at);
    row.text = (struct hx_profile_text){body->at, (size_t)depth};
    body->at += 4 * (size_t)depth;
    return add_profile_row(log, &row, number, body->event);
}

static hx_error *on_string(struct log *log, struct event_body *body)
{
    struct hx_profile_row row = {0};
    uint64_t number = 0;
    HX_TRY(read_event_number(log, body, 1, "profile number", &number));
    HX_TRY(read_event_number(log, body, 8, "bytes", &row.bytes));
    HX_TRY(read_string(log, body, "label", &row.text));
    return add_profile_row(log, &row, number, body->event);
}

/* --- events -------------------------------------------------------------------------------- */

static bool is_known_event(unsigned number)
{
    for (size_t i = 0; i < sizeof known_kinds / sizeof *known_kinds; i++)
        if (number >= known_kinds[i].first && number <= known_kinds[i].last)
            return true;
    return false;
}

/* *ret_read: its content was read, up to what is newer than this. */
static hx_error *on_event(struct log *log, unsigned number, struct event_body *body, bool *ret_read)
{
    *ret_read = true;
    switch (number) {
    case EV_RTS_IDENTIFIER:
        return on_identifier(log, body);
    case EV_PROGRAM_ARGS:
        return on_arguments(log, body);
    case EV_OSPROCESS_PID:
        return on_pid(log, body);
    case EV_WALL_CLOCK_TIME:
        return on_wall_clock(log, body);
    case EV_HEAP_SIZE:
        return on_figure(log, body, FIGURE_SIZE);
    case EV_HEAP_LIVE:
        return on_figure(log, body, FIGURE_LIVE);
    case EV_BLOCKS_SIZE:
        return on_figure(log, body, FIGURE_BLOCKS);
    case EV_HEAP_PROF_BEGIN:
        return on_begin(log, body);
    case EV_HEAP_PROF_COST_CENTRE:
        return on_centre(log, body);
    case EV_HEAP_PROF_SAMPLE_BEGIN:
        return open_sample(log, body, false);
    case EV_HEAP_BIO_PROF_SAMPLE_BEGIN:
        return open_sample(log, body, true);
    case EV_HEAP_PROF_SAMPLE_COST_CENTRE:
        return on_stack(log, body);
    case EV_HEAP_PROF_SAMPLE_STRING:
        return on_string(log, body);
    case EV_HEAP_PROF_SAMPLE_END:
        return on_sample_end(log, body);
    case EV_IPE:
        return on_table(log, body);
    default:
        *ret_read = false;
        log->profile->lost[HX_LOSS_TICKS] += number == EV_PROF_SAMPLE_COST_CENTRE;
        log->profile->lost[HX_LOSS_NEWER_EVENTS] += !is_known_event(number);
        return NULL;
    }
}

/* The file is whole when it has its end mark: then what does not fit lies. */
static hx_error *cut_here(struct log *log, size_t at, const char *what, uint64_t length)
{
    if (log->has_end)
        return hx_import_error(log->import, at,
                               "%s of %" PRIu64 " bytes is more than the file has left", what,
                               length);
    log->profile->cut = true;
    log->profile->cut_at = log->import->n;
    log->at = log->import->n;
    return NULL;
}

/* Reads one event. *ret_more false: there are no others. */
static hx_error *read_event(struct log *log, bool *ret_more)
{
    const struct hx_import *import = log->import;
    size_t begin = log->at, left = import->n - begin;
    *ret_more = false;
    if (left < 2)
        return cut_here(log, begin, "an event", 2);
    unsigned number = (unsigned)number_at(log, begin, 2);
    if (number == DATA_END) {
        log->at += 2;
        return NULL;
    }
    uint32_t index = log->kind_of[number];
    if (index == HX_NO_PAIR)
        return hx_import_error(import, begin, "event kind %u is not declared in the header",
                               number);
    struct kind *kind = &log->kinds.v[index];
    bool variable = kind->size == VARIABLE;
    size_t head = EVENT_HEAD + (variable ? 2 : 0);
    if (left < head)
        return cut_here(log, begin, "an event", head);
    size_t length = variable ? (size_t)number_at(log, begin + EVENT_HEAD, 2) : kind->size;
    if (left - head < length)
        return cut_here(log, variable ? begin + EVENT_HEAD : begin, "an event", length);
    struct event_body body = {.event = begin,
                              .at = begin + head,
                              .end = begin + head + length,
                              .time_ns = number_at(log, begin + 2, 8)};
    bool read;
    kind->first = kind->events++ ? kind->first : begin;
    HX_TRY(on_event(log, number, &body, &read));
    if (read)
        log->profile->lost[HX_LOSS_NEWER_BYTES] += body.end - body.at;
    log->at = body.end;
    *ret_more = true;
    return NULL;
}

#define CHECK_MASK 0xfff

static hx_error *read_events(struct log *log)
{
    const struct hx_import *import = log->import;
    bool more = true;
    for (size_t i = 0; more; i++) {
        HX_TRY(read_event(log, &more));
        if (i & CHECK_MASK)
            continue;
        hx_progress_at(import->progress, "reading", log->at, import->n);
        if (hx_progress_cancelled(import->progress))
            return hx_error_cancelled(import->path);
    }
    if (!log->profile->cut)
        log->profile->lost[HX_LOSS_BEHIND] = import->n - log->at;
    close_sample(log, !log->profile->cut && !log->has_sample_end);
    return NULL;
}

/* --- what came out of it --------------------------------------------------------------------- */

static int by_events(const void *left, const void *right)
{
    const struct kind *a = left, *b = right;
    if (a->events != b->events)
        return a->events > b->events ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* What a log without a heap profile holds instead. */
static hx_error *holds_no_profile(struct log *log)
{
    HX_CLEANUP(hx_text_free) struct hx_text held = {0};
    uint64_t events = 0;
    for (size_t i = 0; i < log->kinds.n; i++)
        events += log->kinds.v[i].events;
    if (log->kinds.n)
        qsort(log->kinds.v, log->kinds.n, sizeof *log->kinds.v, by_events);
    for (size_t i = 0; i < 3 && i < log->kinds.n && log->kinds.v[i].events; i++) {
        const struct kind *kind = &log->kinds.v[i];
        hx_text_putf(&held, "%s%" PRIu64 " of '%.*s'", i ? ", " : ": ", kind->events,
                     (int)(kind->description_bytes < 60 ? kind->description_bytes : 60),
                     (const char *)log->import->bytes + kind->description);
    }
    return hx_error_new(HX_E_FAIL, log->import->path,
                        "run the program with +RTS -l and -hT, or -hc when it is profiled",
                        "has no heap profile, but %" PRIu64 " other events%s%s", events,
                        hx_text_str(&held), events && log->kinds.n > 3 ? ", ..." : "");
}

static hx_error *check_samples(struct log *log)
{
    const struct hx_profile *profile = log->profile;
    bool any_begun = false;
    for (size_t i = 0; i < profile->kinds.n; i++)
        any_begun |= profile->kinds.v[i].begun;
    for (size_t i = 0; i < profile->kinds.n && any_begun; i++)
        if (!profile->kinds.v[i].begun)
            return hx_import_error(log->import, profile->kinds.v[i].at,
                                   "a sample of heap profile %u, which has not begun",
                                   profile->kinds.v[i].number);
    if (profile->samples.n)
        return NULL;
    if (profile->cut)
        return hx_import_error(log->import, profile->cut_at,
                               "the file ends before the first sample of a heap profile does");
    if (!profile->kinds.n)
        return holds_no_profile(log);
    return hx_error_new(HX_E_FAIL, log->import->path, "let the program run for longer, or give -i",
                        "has a heap profile without any whole sample");
}

static int compare_sample_times(const void *left, const void *right)
{
    const struct reported *a = left, *b = right;
    return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

/* Events of several processors stand in blocks: only within each of them by time. */
static void put_figures(struct log *log)
{
    static const char *const words[FIGURES] = {"heap size", "live at the last collection",
                                               "blocks"};
    for (int k = 0; k < FIGURES; k++) {
        struct reported *v = log->reported[k].v;
        size_t n = log->reported[k].n;
        if (n)
            qsort(v, n, sizeof *v, compare_sample_times);
        for (size_t i = 0; i < log->profile->samples.n; i++) {
            struct hx_profile_sample *sample = &log->profile->samples.v[i];
            size_t low = HX_LOWER_BOUND(n, at, v[at].time_ns <= sample->time_ns);
            if (low)
                hx_profile_note(&sample->notes, "%s %" PRIu64, words[k], v[low - 1].bytes);
        }
    }
}

static hx_error *read_log(struct log *log)
{
    size_t n = 1 << 16;
    log->kind_of = malloc(n * sizeof *log->kind_of);
    HX_NEED(log->kind_of);
    memset(log->kind_of, 0xff, n * sizeof *log->kind_of);
    HX_TRY(read_header(log));
    log->has_end =
        log->import->n - log->at >= 2 && number_at(log, log->import->n - 2, 2) == DATA_END;
    HX_TRY(read_events(log));
    HX_TRY(check_samples(log));
    put_figures(log);
    return hx_profile_store(log->profile);
}

static hx_error *read_eventlog(struct hx_import *import)
{
    HX_PROFILE struct hx_profile profile = {.import = import};
    HX_CLEANUP(deinit_import_log) struct log log = {.import = import, .profile = &profile};
    return read_log(&log);
}

static bool is_eventlog(const uint8_t *head, size_t n, uint64_t size)
{
    (void)size;
    return n >= 4 && memcmp(head, "hdrb", 4) == 0;
}

const struct hx_importer hx_import_eventlog = {
    .name = "eventlog",
    .about = "GHC event log",
    .detect = is_eventlog,
    .read = read_eventlog,
};
