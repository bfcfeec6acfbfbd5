/* frames.c - interning of files, cost centres, places and stacks.
 *
 * Places hold the texts, so that a deep tree stores each of them once. A place is known by
 * everything that is said of it: a file without a build-id that was made anew under the same name
 * does not lend its old functions to new stacks. */
#include "store/write/frames.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "model/function_name.h"
#include "model/recording.h"
#include "store/db.h"
#include "store/schema/row.h"

#include <stdlib.h>
#include <string.h>

#define NO_TEXT SIZE_MAX

struct hx_known_file {
    int64_t id;
    size_t path, name, build_id; /* in strings */
};

struct hx_known_place {
    int64_t id;
    uint32_t file; /* index */
    int32_t inlined;
    uint64_t vaddr, hash, entry;
    size_t label, module, source; /* in strings; source NO_TEXT: unknown */
    uint32_t next;                /* of the same hash; HX_NO_PAIR: none */
    uint8_t kind, initialiser;
    hx_centre centre; /* HX_NO_CENTRE: none */
    int64_t target;   /* HX_FRAME_DEFERRED: number of the frame; 0: not known */
    bool runtime;     /* of the language's own library */
};

static const char *const builtins[] = {"MAIN", "<before attach>", "<unknown>", "<cut>",
                                       "<recorder>"};
static const char *const centre_kinds[] = {"function", "region", "caf", "builtin"};

const char *hx_builtin_name(int64_t ccs_id)
{
    return ccs_id >= 1 && ccs_id <= HX_BUILTINS ? builtins[ccs_id - 1] : NULL;
}

static hx_error *damaged_frames(const struct hx_frames *frames)
{
    return hx_error_new(HX_E_CORRUPT, frames->what, "take it from a backup or make it again",
                        "the store is damaged (recorded stacks)");
}

static hx_error *too_many(const struct hx_frames *frames)
{
    return hx_error_new(HX_E_FAIL, frames->what, "begin a new store", "too many recorded stacks");
}

/* --- strings and hashes ------------------------------------------------------------ */

static hx_error *keep_frame_text(struct hx_frames *frames, const char *text, size_t *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    hx_text_name(&name, text, strlen(text));
    HX_NEED(!name.failed && hx_vec_reserve(&frames->strings, frames->strings.n + name.n + 1));
    memcpy(frames->strings.v + frames->strings.n, hx_text_str(&name), name.n + 1);
    *ret = frames->strings.n;
    frames->strings.n += name.n + 1;
    return NULL;
}

static const char *frame_text(const struct hx_frames *frames, size_t at)
{
    return at == NO_TEXT ? NULL : frames->strings.v + at;
}

uint64_t hx_frames_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* FNV-1a, with its length. */
static uint64_t mix_text(uint64_t hash, const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    size_t n = text ? strlen(text) : 0;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    return hx_frames_mix(hash, h + n + (text != NULL));
}

static uint64_t mix_file(const struct hx_frames *frames, uint64_t hash, uint32_t number)
{
    if (number == HX_FRAMES_NO_FILE)
        return hash;
    const struct hx_known_file *file = &frames->files.v[number];
    return mix_text(mix_text(hash, frame_text(frames, file->path)),
                    frame_text(frames, file->build_id));
}

/* Of what a place is, not of the numbers that this store has for it, but for what was entered. */
static uint64_t hash_place(const struct hx_frames *frames, const struct hx_frames_place *place,
                           int64_t target)
{
    uint64_t hash =
        hx_frames_mix(hx_frames_mix(1, place->vaddr), (uint64_t)(int64_t)place->inlined);
    hash = mix_file(frames, hash, place->file);
    if (place->kind == HX_FRAME_REGION || place->kind == HX_FRAME_DEFERRED)
        hash = hx_frames_mix(hash, place->kind + (uint64_t)target * 4);
    hash = mix_text(hash, place->label);
    return mix_text(hash, place->source);
}

/* The same in every store: a function by where it is declared, whatever became of it there, or by
 * where it begins; a region by the structure that it is. */
static uint64_t identify_centre(const struct hx_frames *frames,
                                const struct hx_frames_centre *centre)
{
    uint64_t hash = hx_frames_mix(2, (uint64_t)centre->kind);
    if (centre->kind == HX_CENTRE_CAF)
        hash = mix_text(hash, centre->module);
    hash = mix_text(mix_file(frames, hash, centre->file), centre->label);
    bool by_entry =
        centre->kind == HX_CENTRE_REGION ? centre->file != HX_FRAMES_NO_FILE : !centre->source;
    hash = by_entry ? hx_frames_mix(hash, centre->entry) : mix_text(hash, centre->source);
    return hash ? hash : 1;
}

static bool same_frame_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_place(const struct hx_frames *frames, const struct hx_known_place *known,
                     const struct hx_frames_place *place, int64_t target)
{
    return known->target == target && known->file == place->file && known->vaddr == place->vaddr &&
           known->inlined == place->inlined && known->kind == place->kind &&
           known->initialiser == place->initialiser && known->centre == place->centre &&
           same_frame_text(frame_text(frames, known->label), place->label) &&
           same_frame_text(frame_text(frames, known->module), place->module) &&
           same_frame_text(frame_text(frames, known->source), place->source);
}

/* --- making ------------------------------------------------------------------------ */

hx_error *hx_frames_file(struct hx_frames *frames, const char *path, const char *name,
                         const char *build_id, uint32_t *ret)
{
    for (size_t i = 0; i < frames->files.n; i++) { /* as many as a process maps */
        const struct hx_known_file *file = &frames->files.v[i];
        if (strcmp(frame_text(frames, file->path), path) == 0 &&
            strcmp(frame_text(frames, file->name), name) == 0 &&
            strcmp(frame_text(frames, file->build_id), build_id) == 0) {
            *ret = (uint32_t)i;
            return NULL;
        }
    }
    int64_t last = frames->files.n ? frames->files.v[frames->files.n - 1].id : 0;
    if (frames->files.n >= HX_FRAMES_NO_FILE || last == INT64_MAX)
        return too_many(frames);
    struct hx_known_file file = {.id = last + 1};
    HX_TRY(keep_frame_text(frames, path, &file.path));
    HX_TRY(keep_frame_text(frames, name, &file.name));
    HX_TRY(keep_frame_text(frames, build_id, &file.build_id));
    *ret = (uint32_t)frames->files.n;
    return hx_vec_push(&frames->files, file) ? NULL : hx_error_nomem();
}

static hx_error *add_place(struct hx_frames *frames, int64_t id,
                           const struct hx_frames_place *place, int64_t target, uint64_t hash,
                           uint32_t next)
{
    struct hx_known_place known = {
        .id = id,
        .file = place->file,
        .inlined = place->inlined,
        .vaddr = place->vaddr,
        .entry = place->entry,
        .hash = hash,
        .source = NO_TEXT,
        .next = next,
        .kind = place->kind,
        .initialiser = place->initialiser,
        .centre = place->centre,
        .target = target,
        .runtime = place->kind == HX_FRAME_CODE && hx_is_runtime_module(place->module),
    };
    HX_TRY(keep_frame_text(frames, place->label, &known.label));
    HX_TRY(keep_frame_text(frames, place->module, &known.module));
    if (place->source)
        HX_TRY(keep_frame_text(frames, place->source, &known.source));
    return hx_vec_push(&frames->places, known) ? NULL : hx_error_nomem();
}

hx_error *hx_frames_place(struct hx_frames *frames, const struct hx_frames_place *place,
                          uint32_t *ret)
{
    bool entered = place->kind == HX_FRAME_DEFERRED && place->target != HX_NO_PAIR;
    int64_t target = entered ? frames->node.v[place->target].id : 0;
    uint64_t hash = hash_place(frames, place, target);
    uint32_t *first;
    HX_TRY(hx_pairs_at(&frames->by_hash, hash, &first));
    for (uint32_t i = *first; i != HX_NO_PAIR; i = frames->places.v[i].next) {
        if (is_place(frames, &frames->places.v[i], place, target)) {
            *ret = i;
            return NULL;
        }
    }
    int64_t last = frames->places.n ? frames->places.v[frames->places.n - 1].id : 0;
    if (frames->places.n >= HX_NO_PAIR - 1 || last == INT64_MAX)
        return too_many(frames);
    HX_TRY(add_place(frames, last + 1, place, target, hash, *first));
    *ret = *first = (uint32_t)frames->places.n - 1;
    return NULL;
}

/* Of a frame on top of others. What was entered is known by what it is, not by its number. */
static hx_error *identify_node(struct hx_frames *frames, uint32_t parent,
                               const struct hx_known_place *place, uint64_t *ret)
{
    uint64_t above = frames->node.n ? frames->node.v[parent].identity : 0, own = place->hash;
    if (place->kind == HX_FRAME_DEFERRED && place->target) {
        size_t target = hx_frames_index(frames, place->target);
        if (target == SIZE_MAX) /* it has to stand before */
            return damaged_frames(frames);
        own = hx_frames_mix(3, frames->node.v[target].identity);
    }
    *ret = hx_frames_mix(above, own);
    *ret = *ret ? *ret : 1;
    return NULL;
}

static hx_error *add_frame_node(struct hx_frames *frames, int64_t id, uint32_t parent,
                                uint32_t place)
{
    struct hx_frames_node node = {
        .id = id,
        .parent = parent,
        .place = place,
        .depth = frames->node.n ? frames->node.v[parent].depth + 1 : 0,
    };
    HX_TRY(identify_node(frames, parent, &frames->places.v[place], &node.identity));
    return hx_vec_push(&frames->node, node) ? NULL : hx_error_nomem();
}

hx_error *hx_frames_child(struct hx_frames *frames, uint32_t parent, uint32_t place, uint32_t *ret)
{
    uint32_t *number;
    HX_TRY(hx_pairs_at(&frames->children, hx_pair_key(parent, place), &number));
    if (*number == HX_NO_PAIR) {
        int64_t last = frames->node.v[frames->node.n - 1].id;
        if (frames->node.n >= HX_NO_PAIR - 1 || last == INT64_MAX)
            return too_many(frames);
        HX_TRY(add_frame_node(frames, last + 1, parent, place));
        *number = (uint32_t)frames->node.n - 1;
    }
    *ret = *number;
    return NULL;
}

/* --- cost centres ------------------------------------------------------------------ */

static bool is_centre(const struct hx_frames *frames, const struct hx_known_centre *known,
                      const struct hx_frames_centre *centre)
{
    return known->kind == centre->kind && known->file == centre->file &&
           same_frame_text(frame_text(frames, known->label), centre->label) &&
           same_frame_text(frame_text(frames, known->module), centre->module) &&
           same_frame_text(frame_text(frames, known->source), centre->source);
}

static hx_error *add_centre(struct hx_frames *frames, int64_t id,
                            const struct hx_frames_centre *centre, uint64_t identity, uint32_t next)
{
    struct hx_known_centre known = {
        .id = id,
        .kind = centre->kind,
        .file = centre->file,
        .identity = identity,
        .source = NO_TEXT,
        .symbol = NO_TEXT,
        .next = next,
    };
    HX_TRY(keep_frame_text(frames, centre->label, &known.label));
    HX_TRY(keep_frame_text(frames, centre->module, &known.module));
    if (centre->source)
        HX_TRY(keep_frame_text(frames, centre->source, &known.source));
    if (centre->symbol)
        HX_TRY(keep_frame_text(frames, centre->symbol, &known.symbol));
    return hx_vec_push(&frames->centres, known) ? NULL : hx_error_nomem();
}

static hx_error *find_frame_centre(struct hx_frames *frames, const struct hx_frames_centre *centre,
                                   uint64_t *ret_identity, uint32_t **ret_first, hx_centre *ret)
{
    *ret_identity = identify_centre(frames, centre);
    HX_TRY(hx_pairs_at(&frames->centre_by_identity, *ret_identity, ret_first));
    *ret = **ret_first;
    while (*ret != HX_NO_PAIR && !is_centre(frames, &frames->centres.v[*ret], centre))
        *ret = frames->centres.v[*ret].next;
    return NULL;
}

hx_error *hx_frames_centre(struct hx_frames *frames, const struct hx_frames_centre *centre,
                           hx_centre *ret)
{
    uint64_t identity;
    uint32_t *first;
    HX_TRY(find_frame_centre(frames, centre, &identity, &first, ret));
    if (*ret != HX_NO_CENTRE)
        return NULL;
    int64_t last = frames->centres.n ? frames->centres.v[frames->centres.n - 1].id : 0;
    if (frames->centres.n >= HX_NO_CENTRE - 1 || last == INT64_MAX)
        return too_many(frames);
    HX_TRY(add_centre(frames, last + 1, centre, identity, *first));
    *ret = *first = (uint32_t)frames->centres.n - 1;
    return NULL;
}

const char *hx_frames_label(const struct hx_frames *frames, hx_centre centre)
{
    return frame_text(frames, frames->centres.v[centre].label);
}

const char *hx_frames_module(const struct hx_frames *frames, hx_centre centre)
{
    return frame_text(frames, frames->centres.v[centre].module);
}

const char *hx_frames_source(const struct hx_frames *frames, hx_centre centre)
{
    return frame_text(frames, frames->centres.v[centre].source);
}

/* --- as others work on them -------------------------------------------------------- */

/* The CAF of a place's module; HX_NO_CENTRE when there is none and none may be made. */
static hx_error *find_caf(struct hx_frames *frames, const struct hx_known_place *place,
                          hx_centre *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text module = {0};
    hx_text_puts(&module, frame_text(frames, place->module)); /* which moves when one is made */
    HX_NEED(!module.failed);
    struct hx_frames_centre caf = {
        .kind = HX_CENTRE_CAF,
        .file = place->file,
        .label = "CAF",
        .module = hx_text_str(&module),
    };
    if (frames->interning)
        return hx_frames_centre(frames, &caf, ret);
    for (*ret = 0; *ret < frames->centres.n; ++*ret) /* few places ask */
        if (is_centre(frames, &frames->centres.v[*ret], &caf))
            return NULL;
    *ret = HX_NO_CENTRE;
    return NULL;
}

struct making {
    struct hx_frames *frames;
    bool *pending;  /* of each node: what it calls, itself or through the runtime, initialises */
    hx_centre *caf; /* of each file, the last one is none: HX_NO_CENTRE: not asked for */
};

static hx_error *make_caf(const struct making *making, const struct hx_known_place *place,
                          hx_centre *ret)
{
    struct hx_frames *frames = making->frames;
    hx_centre *known = &making->caf[place->file < frames->files.n ? place->file : frames->files.n];
    if (*known == HX_NO_CENTRE)
        HX_TRY(find_caf(frames, place, known));
    *ret = *known;
    return NULL;
}

static hx_error *make_frame(const struct making *making, uint32_t i, struct hx_frame *ret)
{
    struct hx_frames *frames = making->frames;
    const struct hx_frames_node *node = &frames->node.v[i];
    const struct hx_known_place *place = &frames->places.v[node->place];
    bool within = i && making->pending[node->parent];
    *ret = (struct hx_frame){.parent = node->parent,
                             .target = UINT32_MAX,
                             .centre = place->centre,
                             .caf = HX_NO_CENTRE,
                             .kind = place->kind};
    if (place->kind == HX_FRAME_DEFERRED && place->target) {
        size_t target = hx_frames_index(frames, place->target);
        if (target >= i) /* or none */
            return damaged_frames(frames);
        ret->target = (uint32_t)target;
    }
    making->pending[i] = place->initialiser == HX_REC_CALLS_INITIALISER ||
                         (within && (place->runtime || place->kind == HX_FRAME_REGION));
    if (place->kind == HX_FRAME_CODE &&
        (place->initialiser == HX_REC_INITIALISES || (within && !place->runtime)))
        HX_TRY(make_caf(making, place, &ret->caf));
    return NULL;
}

hx_error *hx_frames_make(struct hx_frames *frames, struct hx_frame **ret)
{
    size_t n = frames->node.n;
    HX_FREE struct hx_frame *frame = calloc(n + 1, sizeof *frame);
    HX_FREE bool *pending = calloc(n + 1, sizeof *pending);
    HX_FREE hx_centre *caf = malloc((frames->files.n + 1) * sizeof *caf);
    struct making making = {frames, pending, caf};
    HX_NEED(frame && pending && caf);
    memset(caf, 0xff, (frames->files.n + 1) * sizeof *caf);
    for (uint32_t i = 0; i < n; i++)
        HX_TRY(make_frame(&making, i, &frame[i]));
    *ret = hx_steal(frame);
    return NULL;
}

/* --- loading ----------------------------------------------------------------------- */

bool hx_frames_same_code(const struct hx_frames *frames, size_t a, size_t b)
{
    const struct hx_known_place *x = &frames->places.v[frames->node.v[a].place],
                                *y = &frames->places.v[frames->node.v[b].place];
    return !x->entry || !y->entry || (x->entry == y->entry && x->file == y->file);
}

size_t hx_frames_index(const struct hx_frames *frames, int64_t frame_id)
{
    return HX_FIND_ID(frames->node.n, i, frames->node.v[i].id, frame_id);
}

static const char *text_or_empty(struct hx_str text)
{
    return text.s ? text.s : "";
}

static hx_error *load_files(struct hx_frames *frames)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(frames->db, frames->what, "SELECT * FROM hx_file ORDER BY file", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_file row = hx_row(st, file);
        struct hx_known_file file = {.id = row.file.value};
        if (frames->files.n >= HX_FRAMES_NO_FILE)
            return damaged_frames(frames);
        HX_TRY(keep_frame_text(frames, text_or_empty(row.path), &file.path));
        HX_TRY(keep_frame_text(frames, text_or_empty(row.name), &file.name));
        HX_TRY(keep_frame_text(frames, text_or_empty(row.build_id), &file.build_id));
        HX_NEED(hx_vec_push(&frames->files, file));
    }
    frames->files_stored = frames->files.n;
    return code == SQLITE_DONE ? NULL : hx_db_error(frames->db, code, frames->what);
}

static enum hx_centre_kind centre_kind(const char *name)
{
    for (int kind = HX_CENTRE_FUNCTION; kind <= HX_CENTRE_BUILTIN; kind++)
        if (strcmp(name, centre_kinds[kind]) == 0)
            return (enum hx_centre_kind)kind;
    return HX_CENTRE_FUNCTION;
}

static hx_error *load_centres(struct hx_frames *frames)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(frames->db, frames->what, "SELECT * FROM hx_centre ORDER BY centre", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_centre row = hx_row(st, centre);
        int64_t id = row.centre.value, file = row.file.value;
        uint64_t identity = (uint64_t)row.identity.value;
        size_t index =
            file ? HX_FIND_ID(frames->files.n, i, frames->files.v[i].id, file) : HX_FRAMES_NO_FILE;
        uint32_t none = HX_NO_PAIR, *first = &none;
        if (index == SIZE_MAX || id < 1 || frames->centres.n >= HX_NO_CENTRE - 1)
            return damaged_frames(frames);
        if (frames->interning)
            HX_TRY(hx_pairs_at(&frames->centre_by_identity, identity, &first));
        struct hx_frames_centre centre = {
            .kind = centre_kind(text_or_empty(row.kind)),
            .file = (uint32_t)index,
            .label = text_or_empty(row.label),
            .module = text_or_empty(row.module),
            .source = row.source.s,
            .symbol = row.symbol.s,
        };
        HX_TRY(add_centre(frames, id, &centre, identity ? identity : 1, *first));
        *first = (uint32_t)frames->centres.n - 1;
    }
    frames->centres_stored = frames->centres.n;
    return code == SQLITE_DONE ? NULL : hx_db_error(frames->db, code, frames->what);
}

/* The columns from `kind` on, which files of schema 3 have not. */
static hx_error *load_role(const struct hx_frames *frames, const struct hx_row_place *row,
                           struct hx_frames_place *place, int64_t *ret_target)
{
    int64_t kind = row->kind.value, initialiser = row->initialiser.value;
    size_t centre = HX_NO_CENTRE;
    if (!row->kind.known)
        kind = place->inlined < 0 ? HX_FRAME_BUILTIN : HX_FRAME_CODE;
    if (row->centre.known)
        centre = HX_FIND_ID(frames->centres.n, i, frames->centres.v[i].id, row->centre.value);
    if (kind < HX_FRAME_CODE || kind > HX_FRAME_BUILTIN || centre == SIZE_MAX ||
        initialiser < HX_REC_NOT_INITIALISER || initialiser > HX_REC_CALLS_INITIALISER)
        return damaged_frames(frames);
    place->kind = (uint8_t)kind;
    place->centre = (hx_centre)centre;
    place->initialiser = (uint8_t)initialiser;
    *ret_target = kind == HX_FRAME_DEFERRED ? row->target.value : 0;
    return NULL;
}

static hx_error *load_place(struct hx_frames *frames, const struct hx_row_place *row)
{
    int64_t id = row->place.value, file = row->file.value, target = 0;
    size_t index =
        file ? HX_FIND_ID(frames->files.n, i, frames->files.v[i].id, file) : HX_FRAMES_NO_FILE;
    uint32_t none = HX_NO_PAIR, *first = &none;
    if (index == SIZE_MAX || id < 1 || frames->places.n >= HX_NO_PAIR - 1)
        return damaged_frames(frames);
    struct hx_frames_place place = {
        .file = (uint32_t)index,
        .vaddr = (uint64_t)row->vaddr.value,
        .inlined = (int32_t)row->inlined.value,
        .label = text_or_empty(row->label),
        .module = text_or_empty(row->module),
        .source = row->source.s,
    };
    HX_TRY(load_role(frames, row, &place, &target));
    uint64_t hash = hash_place(frames, &place, target);
    if (frames->interning)
        HX_TRY(hx_pairs_at(&frames->by_hash, hash, &first));
    HX_TRY(add_place(frames, id, &place, target, hash, *first));
    *first = (uint32_t)frames->places.n - 1;
    return NULL;
}

static hx_error *load_places(struct hx_frames *frames)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(frames->db, frames->what, "SELECT * FROM hx_place ORDER BY place", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_place row = hx_row(st, place);
        HX_TRY(load_place(frames, &row));
    }
    frames->places_stored = frames->places.n;
    return code == SQLITE_DONE ? NULL : hx_db_error(frames->db, code, frames->what);
}

/* There may be millions: no more columns of them than are needed. */
static hx_error *load_frame_nodes(struct hx_frames *frames)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(frames->db, frames->what,
                         "SELECT frame_id, parent_id, place FROM hx_frame ORDER BY frame_id", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(st, 0), up = sqlite3_column_int64(st, 1);
        int64_t place_id = sqlite3_column_int64(st, 2);
        size_t place = HX_FIND_ID(frames->places.n, i, frames->places.v[i].id, place_id);
        size_t parent = 0;
        if (frames->node.n)
            parent = hx_frames_index(frames, up);
        if (id < 1 || place == SIZE_MAX || parent == SIZE_MAX || frames->node.n >= HX_NO_PAIR - 1)
            return damaged_frames(frames);
        if (frames->node.n && frames->interning) {
            uint32_t *number;
            HX_TRY(hx_pairs_at(&frames->children, hx_pair_key((uint32_t)parent, (uint32_t)place),
                               &number));
            *number = (uint32_t)frames->node.n;
        }
        HX_TRY(add_frame_node(frames, id, (uint32_t)parent, (uint32_t)place));
    }
    frames->n_stored = frames->node.n;
    return code == SQLITE_DONE ? NULL : hx_db_error(frames->db, code, frames->what);
}

/* --- what is built in -------------------------------------------------------------- */

static const char *builtin_module(size_t i)
{
    return i ? "<built-in>" : "MAIN";
}

static hx_error *make_builtin_centres(struct hx_frames *frames)
{
    for (size_t i = 0; i < HX_BUILTINS; i++) {
        struct hx_frames_centre centre = {
            .kind = HX_CENTRE_BUILTIN,
            .file = HX_FRAMES_NO_FILE,
            .label = builtins[i],
            .module = builtin_module(i),
            .entry = i,
        };
        hx_centre number;
        HX_TRY(hx_frames_centre(frames, &centre, &number));
    }
    return NULL;
}

static hx_error *builtin_place(struct hx_frames *frames, size_t i, uint32_t *ret)
{
    struct hx_frames_place place = {
        .file = HX_FRAMES_NO_FILE,
        .vaddr = i,
        .inlined = -1,
        .label = builtins[i],
        .module = builtin_module(i),
        .kind = HX_FRAME_BUILTIN,
        .target = HX_NO_PAIR,
        .centre = (hx_centre)i,
    };
    return hx_frames_place(frames, &place, ret);
}

static hx_error *make_builtins(struct hx_frames *frames)
{
    for (size_t i = 0; i < HX_BUILTIN_FRAMES; i++) {
        uint32_t number;
        HX_TRY(builtin_place(frames, i, &number));
        if (i)
            HX_TRY(hx_frames_child(frames, 0, number, &number));
        else
            HX_TRY(add_frame_node(frames, HX_CCS_MAIN, 0, number));
    }
    return NULL;
}

hx_error *hx_frames_recorder(struct hx_frames *frames, uint32_t *ret)
{
    uint32_t place;
    HX_TRY(builtin_place(frames, HX_CCS_RECORDER - 1, &place));
    return hx_frames_child(frames, 0, place, ret);
}

/* Those that are built in stand where they have to. */
static hx_error *check_builtins(const struct hx_frames *frames)
{
    bool right = frames->centres.n >= HX_BUILTINS && frames->node.n >= HX_BUILTIN_FRAMES;
    for (size_t i = 0; right && i < HX_BUILTINS; i++)
        right = frames->centres.v[i].id == (int64_t)i + 1 &&
                frames->centres.v[i].kind == HX_CENTRE_BUILTIN &&
                strcmp(hx_frames_label(frames, (hx_centre)i), builtins[i]) == 0;
    for (size_t i = 0; right && i < HX_BUILTIN_FRAMES; i++) {
        const struct hx_frames_node *node = &frames->node.v[i];
        const struct hx_known_place *place = &frames->places.v[node->place];
        right = node->id == (int64_t)i + 1 && !node->parent && place->kind == HX_FRAME_BUILTIN &&
                place->centre == i;
    }
    return right ? NULL : damaged_frames(frames);
}

static hx_error *load_all_frames(struct hx_frames *frames)
{
    HX_TRY(load_files(frames));
    HX_TRY(load_centres(frames));
    if (!frames->centres.n && frames->interning)
        HX_TRY(make_builtin_centres(frames));
    HX_TRY(load_places(frames));
    HX_TRY(load_frame_nodes(frames));
    if (frames->node.n)
        return NULL;
    return frames->interning ? make_builtins(frames) : NULL;
}

static hx_error *load_frame_tree(sqlite3 *db, const char *what, bool interning, bool old,
                                 struct hx_frames *ret)
{
    *ret = (struct hx_frames){.db = db, .what = what, .interning = interning};
    hx_error *err = load_all_frames(ret);
    if (!err && ret->node.n && !old)
        err = check_builtins(ret);
    if (err)
        hx_frames_deinit(ret);
    return err;
}

hx_error *hx_frames_load(sqlite3 *db, const char *what, bool interning, struct hx_frames *ret)
{
    return load_frame_tree(db, what, interning, false, ret);
}

void hx_frames_deinit(struct hx_frames *frames)
{
    hx_vec_free(&frames->node);
    hx_vec_free(&frames->centres);
    hx_vec_free(&frames->files);
    hx_vec_free(&frames->places);
    hx_vec_free(&frames->strings);
    hx_pairs_free(&frames->children);
    hx_pairs_free(&frames->by_hash);
    hx_pairs_free(&frames->centre_by_identity);
}

/* --- storing ----------------------------------------------------------------------- */

static struct hx_str frame_str(const struct hx_frames *frames, size_t at)
{
    return hx_str(frame_text(frames, at));
}

static hx_error *store_files(struct hx_frames *frames, struct hx_inserter *insert)
{
    for (; frames->files_stored < frames->files.n; frames->files_stored++) {
        const struct hx_known_file *file = &frames->files.v[frames->files_stored];
        HX_TRY(hx_insert(
            insert, file, .file = hx_int(file->id), .path = frame_str(frames, file->path),
            .name = frame_str(frames, file->name), .build_id = frame_str(frames, file->build_id)));
    }
    return NULL;
}

static struct hx_int file_id(const struct hx_frames *frames, uint32_t file)
{
    return hx_int(file != HX_FRAMES_NO_FILE ? frames->files.v[file].id : 0);
}

static hx_error *store_centres(struct hx_frames *frames, struct hx_inserter *insert)
{
    for (; frames->centres_stored < frames->centres.n; frames->centres_stored++) {
        const struct hx_known_centre *centre = &frames->centres.v[frames->centres_stored];
        HX_TRY(hx_insert(
            insert, centre, .centre = hx_int(centre->id),
            .kind = hx_str(centre_kinds[centre->kind]), .label = frame_str(frames, centre->label),
            .module = frame_str(frames, centre->module),
            .source = frame_str(frames, centre->source),
            .is_caf = hx_int(centre->kind == HX_CENTRE_CAF), .file = file_id(frames, centre->file),
            .identity = hx_int(centre->identity), .symbol = frame_str(frames, centre->symbol)));
    }
    return NULL;
}

static hx_error *store_places(struct hx_frames *frames, struct hx_inserter *insert)
{
    for (; frames->places_stored < frames->places.n; frames->places_stored++) {
        const struct hx_known_place *place = &frames->places.v[frames->places_stored];
        HX_TRY(hx_insert(
            insert, place, .place = hx_int(place->id), .file = file_id(frames, place->file),
            .vaddr = hx_int(place->vaddr), .inlined = hx_int(place->inlined),
            .label = frame_str(frames, place->label), .module = frame_str(frames, place->module),
            .source = frame_str(frames, place->source), .is_caf = hx_int(0),
            .kind = hx_int(place->kind),
            .centre = hx_int_if(place->centre != HX_NO_CENTRE, frames->centres.v[place->centre].id),
            .target = hx_int_if(place->target, place->target),
            .initialiser = hx_int(place->initialiser),
            .entry = hx_int_if(place->entry, place->entry)));
    }
    return NULL;
}

hx_error *hx_frames_store(struct hx_frames *frames)
{
    HX_CLEANUP(hx_inserter_deinit)
    struct hx_inserter insert = {.db = frames->db, .what = frames->what};
    HX_TRY(store_files(frames, &insert));
    HX_TRY(store_centres(frames, &insert));
    HX_TRY(store_places(frames, &insert));
    for (; frames->n_stored < frames->node.n; frames->n_stored++) {
        const struct hx_frames_node *node = &frames->node.v[frames->n_stored];
        HX_TRY(hx_insert(&insert, frame, .frame_id = hx_int(node->id),
                         .parent_id = hx_int_if(frames->n_stored, frames->node.v[node->parent].id),
                         .depth = hx_int(node->depth),
                         .place = hx_int(frames->places.v[node->place].id)));
    }
    return NULL;
}

/* --- files of schema 3 -------------------------------------------------------------- */

/* Where a function is declared was not asked then: it is known by its name and file. */
static hx_error *adopt_place(struct hx_frames *frames, struct hx_known_place *place)
{
    HX_CLEANUP(hx_text_free) struct hx_text label = {0}, module = {0};
    for (size_t i = 0; place->kind == HX_FRAME_BUILTIN && i < HX_BUILTIN_FRAMES; i++)
        if (strcmp(frame_text(frames, place->label), builtins[i]) == 0)
            place->centre = (hx_centre)i;
    if (place->centre != HX_NO_CENTRE)
        return NULL;
    hx_text_puts(&label, frame_text(frames, place->label)); /* which moves when one is made */
    hx_text_puts(&module, frame_text(frames, place->module));
    HX_NEED(!label.failed && !module.failed);
    struct hx_frames_centre centre = {
        .kind = HX_CENTRE_FUNCTION,
        .file = place->file,
        .label = hx_text_str(&label),
        .module = hx_text_str(&module),
    };
    return hx_frames_centre(frames, &centre, &place->centre);
}

static hx_error *adopt(struct hx_frames *frames)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    for (size_t i = 0; i < frames->places.n; i++)
        if (frames->places.v[i].centre == HX_NO_CENTRE)
            HX_TRY(adopt_place(frames, &frames->places.v[i]));
    HX_TRY(check_builtins(frames));
    HX_TRY(hx_frames_store(frames));
    HX_TRY(hx_db_prepare(frames->db, frames->what,
                         "UPDATE hx_place SET kind = ?1, centre = ?2 WHERE place = ?3", &st));
    for (size_t i = 0; i < frames->places.n; i++) {
        const struct hx_known_place *place = &frames->places.v[i];
        sqlite3_bind_int(st, 1, place->kind);
        sqlite3_bind_int64(st, 2, frames->centres.v[place->centre].id);
        sqlite3_bind_int64(st, 3, place->id);
        HX_TRY(hx_db_run(frames->db, frames->what, st));
    }
    return NULL;
}

hx_error *hx_frames_adopt(sqlite3 *db, const char *what, struct hx_frames *ret)
{
    HX_TRY(load_frame_tree(db, what, true, true, ret));
    hx_error *err = adopt(ret);
    if (err)
        hx_frames_deinit(ret);
    return err;
}
