/* naming.c - names in a recording: files, the functions and lines at its places, and types whose
 * size was requested. */
#include "record/launch.h"
#include "record/read/space.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "model/function_name.h"
#include "sym/reading.h"

#include <stdlib.h>
#include <string.h>

#define TYPES_NS   ((uint64_t)2000000000) /* for all types, the first time */
#define TYPES_EACH 12                     /* names of one size */

static char *copy_string(const char *s)
{
    return strdup(s ? s : "");
}

static hx_error *name_files(struct hx_recording *recording, hx_code *code)
{
    for (size_t i = recording->files.n; i < hx_code_count(code); i++) {
        struct hx_rec_file file = {.path = copy_string(hx_code_path(code, (uint32_t)i)),
                                   .name = copy_string(hx_code_name(code, (uint32_t)i)),
                                   .build_id = copy_string(hx_code_build_id(code, (uint32_t)i))};
        if (!file.path || !file.name || !file.build_id || !hx_vec_push(&recording->files, file)) {
            free(file.path);
            free(file.name);
            free(file.build_id);
            return hx_error_nomem();
        }
    }
    return NULL;
}

/* --- places -------------------------------------------------------------------- */

static char *brief_name(const char *function)
{
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    hx_function_name_short(&text, function);
    return text.failed ? NULL : strdup(hx_text_str(&text));
}

static bool copy_code_line(const struct hx_code_line *from, struct hx_rec_line *to)
{
    *to = (struct hx_rec_line){.line = from->line,
                               .declared_line = from->declared_line,
                               .entry = from->entry,
                               .function = from->function ? strdup(from->function) : NULL,
                               .symbol = from->symbol ? strdup(from->symbol) : NULL,
                               .source = from->source ? strdup(from->source) : NULL,
                               .declared = from->declared ? strdup(from->declared) : NULL};
    if (to->function) {
        to->brief = brief_name(to->function);
        to->internal = hx_function_name_internal(to->function);
    }
    return !from->function == !to->function && !from->function == !to->brief &&
           !from->symbol == !to->symbol && !from->source == !to->source &&
           !from->declared == !to->declared;
}

/* A function of heapx/scc.h, which is part of the mark and no function of the program. */
static bool is_mark(const struct hx_code_line *line)
{
    const char *slash = line->declared ? strrchr(line->declared, '/') : NULL;
    return line->function && line->declared &&
           strcmp(slash ? slash + 1 : line->declared, "scc.h") == 0 &&
           (strncmp(line->function, "heapx_scc_", 10) == 0 ||
            strstr(line->function, "heapx::")); /* there may be a type in front */
}

/* The callable that enters the stack on which it was made, and calls what it holds. */
static bool is_callable(const struct hx_code_line *line)
{
    return is_mark(line) && strstr(line->function, "heapx::boxed<") &&
           strstr(line->function, "::operator()");
}

/* Functions that were inlined are left out when they only mark: the stack of a push is then that of
 * what is allocated in it. */
static hx_error *put_lines(struct hx_rec_place *place, const struct hx_code_line *line, size_t n)
{
    place->lines = calloc(n, sizeof *place->lines);
    HX_NEED(place->lines);
    for (size_t i = 0; i < n; i++) {
        if (place->n_lines && is_callable(&line[i]))
            place->lines[place->n_lines - 1].entered = true;
        if ((i + 1 == n || place->initialiser_callers || !is_mark(&line[i])) &&
            !copy_code_line(&line[i], &place->lines[place->n_lines++]))
            return hx_error_nomem();
    }
    return NULL;
}

static bool is_same_line(const struct hx_code_line *a, const struct hx_code_line *b)
{
    return a->function && b->function && strcmp(a->function, b->function) == 0 &&
           a->declared_line == b->declared_line;
}

/* How many of the outermost functions only had the initialiser inlined: those that are around the
 * call with which it begins, and not the innermost there. */
static uint32_t count_callers(hx_code *code, uint32_t file, uint64_t site,
                              const struct hx_code_line *line, size_t n)
{
    const struct hx_code_line *begin;
    size_t n_begin = site ? hx_code_lines(code, file, site, &begin) : 0;
    bool nested = n_begin > 1 && n_begin <= n && is_same_line(&begin[0], &line[n - n_begin]);
    return nested ? (uint32_t)(n_begin - 1) : 0;
}

static hx_error *name_place_briefly(struct hx_rec_place *place, hx_code *code)
{
    struct hx_code_line line;
    hx_code_symbol_line(code, place->file, place->vaddr, &line);
    return put_lines(place, &line, 1);
}

static hx_error *name_recorded_place(struct hx_rec_place *place, hx_code *code)
{
    const struct hx_code_line *line;
    uint64_t site;
    size_t n = hx_code_lines(code, place->file, place->vaddr, &line);
    switch (hx_code_once(code, place->file, place->vaddr, &site)) {
    case HX_CODE_ONCE:
        place->initialiser = HX_REC_INITIALISES;
        place->initialiser_callers = count_callers(code, place->file, site, line, n);
        break;
    case HX_CODE_CALLS_ONCE:
        place->initialiser = HX_REC_CALLS_INITIALISER;
        break;
    default:
        place->initialiser = HX_REC_NOT_INITIALISER;
    }
    /* what waits knows nothing yet, symbols included */
    return hx_code_waits(code, place->file) ? name_place_briefly(place, code)
                                            : put_lines(place, line, n);
}

static hx_error *name_places(struct hx_recording *recording, hx_code *code, uint64_t deadline_ns,
                             const struct hx_progress *progress)
{
    uint64_t begun = hx_timing_begin();
    HX_TRY(name_files(recording, code));
    for (size_t i = 0; i < recording->places.n; i++) {
        struct hx_rec_place *place = &recording->places.v[i];
        if (i % 256 == 0)
            hx_progress_at(progress, "names", i, recording->places.n);
        if (hx_progress_cancelled(progress))
            return hx_error_cancelled("recording");
        if (place->lines || place->kind != HX_REC_CODE || place->file >= hx_code_count(code))
            continue;
        place->recorder = strcmp(hx_code_name(code, place->file), HX_RECORD_LIBRARY) == 0;
        bool briefly = deadline_ns != UINT64_MAX && hx_now_ns() >= deadline_ns;
        HX_TRY(briefly ? name_place_briefly(place, code) : name_recorded_place(place, code));
    }
    hx_timing_end(begun, "names", recording->places.n);
    return NULL;
}

hx_error *hx_recording_name_until(struct hx_recording *recording, hx_code *code,
                                  uint64_t deadline_ns, const struct hx_progress *progress)
{
    hx_reading_listen(hx_code_reading(code), progress);
    hx_error *err = name_places(recording, code, deadline_ns, progress);
    hx_reading_listen(hx_code_reading(code), NULL);
    hx_text_clear(&recording->unread_notes);
    hx_reading_tell(hx_code_reading(code), &recording->unread_notes, &recording->unread);
    return err;
}

/* --- types ----------------------------------------------------------------------- */

/* How likely a program speaks of a type when it asks for memory. */
enum rank { RANK_PROGRAM, RANK_FILE, RANK_LIBRARY, RANKS, RANK_NONE = RANKS };

static enum rank rank_of(const char *name, bool program)
{
    if (strncmp(name, "__gnu_cxx::", 11) == 0 || strncmp(name, "std::_", 6) == 0 ||
        (strncmp(name, "std::", 5) == 0 && strstr(name, "::_")) ||
        strncmp(name, "heapx_", 6) == 0 /* of our own headers */)
        return RANK_NONE;
    if (strncmp(name, "std::", 5) == 0 || name[0] == '_' || strchr(name, '<') == name)
        return RANK_LIBRARY;
    return program ? RANK_PROGRAM : RANK_FILE;
}

struct sized {
    uint64_t bytes;
    size_t n;
    const char *name[TYPES_EACH];
};

struct typing {
    struct sized *sized; /* by size */
    size_t n;
    enum rank rank;
    bool program;
};

static int compare_place_bytes(const void *a, const void *b)
{
    const struct sized *x = a, *y = b;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static bool take_type(void *context, const char *name, uint64_t bytes)
{
    struct typing *typing = context;
    const struct sized key = {.bytes = bytes};
    struct sized *sized = bsearch(&key, typing->sized, typing->n, sizeof key, compare_place_bytes);
    if (!sized || sized->n == TYPES_EACH || rank_of(name, typing->program) != typing->rank)
        return true;
    for (size_t i = 0; i < sized->n; i++)
        if (strcmp(sized->name[i], name) == 0)
            return true;
    sized->name[sized->n++] = name;
    return true;
}

static int compare_place_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static hx_error *put_size_types(struct hx_recording *recording, struct typing *typing)
{
    for (size_t i = 0; i < typing->n; i++) {
        struct sized *sized = &typing->sized[i];
        qsort(sized->name, sized->n, sizeof *sized->name, compare_place_names);
        for (size_t k = 0; k < sized->n; k++) {
            struct hx_rec_sized_type type = {sized->bytes, strdup(sized->name[k])};
            if (!type.name || !hx_vec_push(&recording->sized_types, type)) {
                free(type.name);
                return hx_error_nomem();
            }
        }
    }
    return NULL;
}

/* The types of files that stacks pass through, the program's before others. */
static hx_error *name_size_types(struct hx_recording *recording, hx_code *code)
{
    size_t n_files = hx_code_count(code);
    HX_FREE struct sized *sized = calloc(recording->sizes.n, sizeof *sized);
    HX_FREE uint8_t *used = calloc(1, n_files); /* 1: code of it is in stacks; 2: the program */
    struct typing typing = {.sized = sized};
    uint64_t begun = hx_timing_begin(), deadline = hx_now_ns() + TYPES_NS, vaddr, size;
    HX_NEED(sized && used);
    for (size_t i = 0; i < recording->sizes.n; i++)
        if (recording->sizes.v[i].size && recording->sizes.v[i].size != UINT64_MAX)
            sized[typing.n++].bytes = recording->sizes.v[i].size;
    qsort(sized, typing.n, sizeof *sized, compare_place_bytes);
    for (size_t i = 0; i < recording->places.n; i++) {
        const struct hx_rec_place *place = &recording->places.v[i];
        if (place->kind == HX_REC_CODE && !place->recorder && place->file < n_files &&
            !used[place->file] && !hx_is_runtime_module(hx_code_name(code, place->file)))
            used[place->file] = hx_code_function(code, place->file, "main", &vaddr, &size) ? 2 : 1;
    }
    for (typing.rank = 0; typing.rank < RANKS; typing.rank++)
        for (int program = 2; program > 0; program--)
            for (uint32_t i = 0; i < n_files; i++) {
                typing.program = program == 2;
                if (used[i] == program)
                    (void)hx_code_types(code, i, deadline, take_type, &typing);
            }
    hx_timing_end(begun, "sized types", typing.n);
    return put_size_types(recording, &typing);
}

hx_error *hx_recording_name(struct hx_recording *recording, hx_code *code,
                            const struct hx_progress *progress)
{
    HX_TRY(hx_recording_name_until(recording, code, UINT64_MAX, progress));
    if (!recording->sizes.n || recording->sized_types.n || !hx_code_count(code))
        return NULL;
    hx_reading_listen(hx_code_reading(code), progress);
    hx_error *err = name_size_types(recording, code);
    hx_reading_listen(hx_code_reading(code), NULL);
    if (!err && hx_progress_cancelled(progress))
        err = hx_error_cancelled("recording");
    return err;
}
