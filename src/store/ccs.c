/* ccs.c - interning of files, places and stacks.
 *
 * Places hold the texts, so that a deep tree stores each of them once. A place is known by
 * everything that is said of it: a file without a build-id that was made anew under the same name
 * does not lend its old functions to new stacks. */
#include "store/ccs.h"

#include "base/cleanup.h"
#include "store/db.h"

#include <stdlib.h>
#include <string.h>

#define NO_TEXT SIZE_MAX

struct hx_ccs_known_file {
    int64_t id;
    size_t path, name, build_id; /* in strings */
};

struct hx_ccs_known_place {
    int64_t id;
    uint32_t file; /* index */
    int32_t inlined;
    uint64_t vaddr, hash;
    size_t label, module, source; /* in strings; source NO_TEXT: unknown */
    uint32_t next;                /* of the same hash; HX_NO_PAIR: none */
};

static const char *const builtins[] = {"MAIN", "<before attach>", "<unknown>", "<cut>"};
enum { N_BUILTINS = sizeof builtins / sizeof *builtins };

const char *hx_ccs_builtin_name(int64_t ccs_id)
{
    return ccs_id >= 1 && ccs_id <= N_BUILTINS ? builtins[ccs_id - 1] : NULL;
}

static hx_error *damaged(const struct hx_ccs *ccs)
{
    return hx_error_new(HX_E_CORRUPT, ccs->what, "take it from a backup or make it again",
                        "the store is damaged (cost centres)");
}

static hx_error *too_many(const struct hx_ccs *ccs)
{
    return hx_error_new(HX_E_FAIL, ccs->what, "begin a new store", "too many cost centres");
}

/* --- strings and hashes ------------------------------------------------------------ */

static hx_error *keep(struct hx_ccs *ccs, const char *text, size_t *ret)
{
    size_t bytes = strlen(text) + 1;
    if (!hx_vec_reserve(&ccs->strings, ccs->strings.n + bytes))
        return hx_error_nomem();
    memcpy(ccs->strings.v + ccs->strings.n, text, bytes);
    *ret = ccs->strings.n;
    ccs->strings.n += bytes;
    return NULL;
}

static const char *text_at(const struct hx_ccs *ccs, size_t at)
{
    return at == NO_TEXT ? NULL : ccs->strings.v + at;
}

static uint64_t mix(uint64_t hash, uint64_t word)
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
    return mix(hash, h + n + (text != NULL));
}

/* Of what a place is, not of the numbers that this store has for it. */
static uint64_t hash_place(const struct hx_ccs *ccs, const struct hx_ccs_place *place)
{
    uint64_t hash = mix(mix(1, place->vaddr), (uint64_t)(int64_t)place->inlined);
    if (place->file != HX_CCS_NO_FILE) {
        const struct hx_ccs_known_file *file = &ccs->files.v[place->file];
        hash = mix_text(hash, text_at(ccs, file->path));
        hash = mix_text(hash, text_at(ccs, file->build_id));
    }
    hash = mix_text(hash, place->label);
    return mix_text(hash, place->source);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_place(const struct hx_ccs *ccs, const struct hx_ccs_known_place *known,
                     const struct hx_ccs_place *place)
{
    return known->file == place->file && known->vaddr == place->vaddr &&
           known->inlined == place->inlined &&
           same_text(text_at(ccs, known->label), place->label) &&
           same_text(text_at(ccs, known->module), place->module) &&
           same_text(text_at(ccs, known->source), place->source);
}

/* --- making ------------------------------------------------------------------------ */

hx_error *hx_ccs_file(struct hx_ccs *ccs, const char *path, const char *name, const char *build_id,
                      uint32_t *ret)
{
    for (size_t i = 0; i < ccs->files.n; i++) { /* as many as a process maps */
        const struct hx_ccs_known_file *file = &ccs->files.v[i];
        if (strcmp(text_at(ccs, file->path), path) == 0 &&
            strcmp(text_at(ccs, file->name), name) == 0 &&
            strcmp(text_at(ccs, file->build_id), build_id) == 0) {
            *ret = (uint32_t)i;
            return NULL;
        }
    }
    int64_t last = ccs->files.n ? ccs->files.v[ccs->files.n - 1].id : 0;
    if (ccs->files.n >= HX_CCS_NO_FILE || last == INT64_MAX)
        return too_many(ccs);
    struct hx_ccs_known_file file = {.id = last + 1};
    HX_TRY(keep(ccs, path, &file.path));
    HX_TRY(keep(ccs, name, &file.name));
    HX_TRY(keep(ccs, build_id, &file.build_id));
    *ret = (uint32_t)ccs->files.n;
    return hx_vec_push(&ccs->files, file) ? NULL : hx_error_nomem();
}

static hx_error *add_place(struct hx_ccs *ccs, int64_t id, const struct hx_ccs_place *place,
                           uint64_t hash, uint32_t *first)
{
    struct hx_ccs_known_place known = {
        .id = id,
        .file = place->file,
        .inlined = place->inlined,
        .vaddr = place->vaddr,
        .hash = hash,
        .source = NO_TEXT,
        .next = *first,
    };
    HX_TRY(keep(ccs, place->label, &known.label));
    HX_TRY(keep(ccs, place->module, &known.module));
    if (place->source)
        HX_TRY(keep(ccs, place->source, &known.source));
    if (!hx_vec_push(&ccs->places, known))
        return hx_error_nomem();
    *first = (uint32_t)ccs->places.n - 1;
    return NULL;
}

/* `id` 0: where there is none, the next number. */
static hx_error *find_place(struct hx_ccs *ccs, int64_t id, const struct hx_ccs_place *place,
                            uint32_t *ret)
{
    uint64_t hash = hash_place(ccs, place);
    uint32_t *first;
    HX_TRY(hx_pairs_at(&ccs->by_hash, hash, &first));
    for (uint32_t i = *first; i != HX_NO_PAIR && !id; i = ccs->places.v[i].next) {
        if (is_place(ccs, &ccs->places.v[i], place)) {
            *ret = i;
            return NULL;
        }
    }
    int64_t last = ccs->places.n ? ccs->places.v[ccs->places.n - 1].id : 0;
    if (ccs->places.n >= HX_NO_PAIR - 1 || last == INT64_MAX)
        return too_many(ccs);
    HX_TRY(add_place(ccs, id ? id : last + 1, place, hash, first));
    *ret = *first;
    return NULL;
}

hx_error *hx_ccs_place(struct hx_ccs *ccs, const struct hx_ccs_place *place, uint32_t *ret)
{
    return find_place(ccs, 0, place, ret);
}

static hx_error *add_node(struct hx_ccs *ccs, int64_t id, uint32_t parent, uint32_t place)
{
    bool root = !ccs->node.n;
    uint64_t identity = mix(root ? 0 : ccs->node.v[parent].identity, ccs->places.v[place].hash);
    struct hx_ccs_node node = {
        .id = id,
        .parent = parent,
        .place = place,
        .depth = root ? 0 : ccs->node.v[parent].depth + 1,
        .identity = identity ? identity : 1,
    };
    return hx_vec_push(&ccs->node, node) ? NULL : hx_error_nomem();
}

hx_error *hx_ccs_child(struct hx_ccs *ccs, uint32_t parent, uint32_t place, uint32_t *ret)
{
    uint32_t *number;
    HX_TRY(hx_pairs_at(&ccs->children, hx_pair_key(parent, place), &number));
    if (*number == HX_NO_PAIR) {
        int64_t last = ccs->node.v[ccs->node.n - 1].id;
        if (ccs->node.n >= HX_NO_PAIR - 1 || last == INT64_MAX)
            return too_many(ccs);
        HX_TRY(add_node(ccs, last + 1, parent, place));
        *number = (uint32_t)ccs->node.n - 1;
    }
    *ret = *number;
    return NULL;
}

/* --- loading ----------------------------------------------------------------------- */

/* The index of a number among ids that grow; SIZE_MAX: none. Mostly there are no gaps. */
#define FIND_ID(vec, wanted)                                                                       \
    ({                                                                                             \
        size_t low_ = 0, high_ = (vec).n, found_ = SIZE_MAX;                                       \
        if ((wanted) >= 1 && (uint64_t)(wanted) <= high_ && (vec).v[(wanted)-1].id == (wanted))    \
            found_ = (size_t)(wanted)-1;                                                           \
        while (found_ == SIZE_MAX && low_ < high_) {                                               \
            size_t middle_ = low_ + (high_ - low_) / 2;                                            \
            if ((vec).v[middle_].id == (wanted))                                                   \
                found_ = middle_;                                                                  \
            else if ((vec).v[middle_].id < (wanted))                                               \
                low_ = middle_ + 1;                                                                \
            else                                                                                   \
                high_ = middle_;                                                                   \
        }                                                                                          \
        found_;                                                                                    \
    })

size_t hx_ccs_index(const struct hx_ccs *ccs, int64_t ccs_id)
{
    return FIND_ID(ccs->node, ccs_id);
}

static const char *column_text(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);
    return text ? text : "";
}

static hx_error *load_files(struct hx_ccs *ccs)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(ccs->db, ccs->what,
                         "SELECT file, path, name, build_id FROM hx_file ORDER BY file", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_ccs_known_file file = {.id = sqlite3_column_int64(st, 0)};
        if (ccs->files.n >= HX_CCS_NO_FILE)
            return damaged(ccs);
        HX_TRY(keep(ccs, column_text(st, 1), &file.path));
        HX_TRY(keep(ccs, column_text(st, 2), &file.name));
        HX_TRY(keep(ccs, column_text(st, 3), &file.build_id));
        if (!hx_vec_push(&ccs->files, file))
            return hx_error_nomem();
    }
    ccs->files_stored = ccs->files.n;
    return code == SQLITE_DONE ? NULL : hx_db_error(ccs->db, code, ccs->what);
}

static hx_error *load_places(struct hx_ccs *ccs)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(ccs->db, ccs->what,
                         "SELECT place, file, vaddr, inlined, label, module, source FROM hx_place"
                         " ORDER BY place",
                         &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(st, 0), file = sqlite3_column_int64(st, 1);
        size_t index = file ? FIND_ID(ccs->files, file) : HX_CCS_NO_FILE;
        if (index == SIZE_MAX || id < 1)
            return damaged(ccs);
        struct hx_ccs_place place = {
            .file = (uint32_t)index,
            .vaddr = (uint64_t)sqlite3_column_int64(st, 2),
            .inlined = sqlite3_column_int(st, 3),
            .label = column_text(st, 4),
            .module = column_text(st, 5),
            .source = (const char *)sqlite3_column_text(st, 6),
        };
        uint32_t number;
        HX_TRY(find_place(ccs, id, &place, &number));
    }
    ccs->places_stored = ccs->places.n;
    return code == SQLITE_DONE ? NULL : hx_db_error(ccs->db, code, ccs->what);
}

static hx_error *load_nodes(struct hx_ccs *ccs)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(ccs->db, ccs->what,
                         "SELECT ccs_id, parent_id, place FROM hx_ccs ORDER BY ccs_id", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(st, 0), up = sqlite3_column_int64(st, 1);
        int64_t place_id = sqlite3_column_int64(st, 2);
        size_t place = FIND_ID(ccs->places, place_id), parent = 0;
        if (ccs->node.n)
            parent = hx_ccs_index(ccs, up);
        if (id < 1 || place == SIZE_MAX || parent == SIZE_MAX || ccs->node.n >= HX_NO_PAIR - 1)
            return damaged(ccs);
        if (ccs->node.n) {
            uint32_t *number;
            HX_TRY(hx_pairs_at(&ccs->children, hx_pair_key((uint32_t)parent, (uint32_t)place),
                               &number));
            *number = (uint32_t)ccs->node.n;
        }
        HX_TRY(add_node(ccs, id, (uint32_t)parent, (uint32_t)place));
    }
    ccs->n_stored = ccs->node.n;
    return code == SQLITE_DONE ? NULL : hx_db_error(ccs->db, code, ccs->what);
}

static hx_error *make_builtins(struct hx_ccs *ccs)
{
    for (size_t i = 0; i < N_BUILTINS; i++) {
        struct hx_ccs_place place = {
            .file = HX_CCS_NO_FILE,
            .vaddr = i,
            .inlined = -1,
            .label = builtins[i],
            .module = i ? "<built-in>" : "MAIN",
        };
        uint32_t number;
        HX_TRY(hx_ccs_place(ccs, &place, &number));
        if (i)
            HX_TRY(hx_ccs_child(ccs, 0, number, &number));
        else
            HX_TRY(add_node(ccs, HX_CCS_MAIN, 0, number));
    }
    return NULL;
}

hx_error *hx_ccs_load(sqlite3 *db, const char *what, struct hx_ccs *ret)
{
    *ret = (struct hx_ccs){.db = db, .what = what};
    hx_error *err = load_files(ret);
    if (!err)
        err = load_places(ret);
    if (!err)
        err = load_nodes(ret);
    if (!err && !ret->node.n)
        err = make_builtins(ret);
    for (size_t i = 0; i < N_BUILTINS && !err; i++)
        if (i >= ret->node.n || ret->node.v[i].id != (int64_t)i + 1 || ret->node.v[i].parent ||
            strcmp(text_at(ret, ret->places.v[ret->node.v[i].place].label), builtins[i]) != 0)
            err = damaged(ret);
    if (err)
        hx_ccs_deinit(ret);
    return err;
}

void hx_ccs_deinit(struct hx_ccs *ccs)
{
    hx_vec_free(&ccs->node);
    hx_vec_free(&ccs->files);
    hx_vec_free(&ccs->places);
    hx_vec_free(&ccs->strings);
    hx_pairs_free(&ccs->children);
    hx_pairs_free(&ccs->by_hash);
}

/* --- storing ----------------------------------------------------------------------- */

static void bind_text(const struct hx_ccs *ccs, sqlite3_stmt *st, int i, size_t at)
{
    sqlite3_bind_text(st, i, text_at(ccs, at), -1, SQLITE_STATIC); /* NULL binds NULL */
}

static hx_error *store_files(struct hx_ccs *ccs)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(ccs->db, ccs->what, "INSERT INTO hx_file VALUES(?,?,?,?)", &st));
    for (; ccs->files_stored < ccs->files.n; ccs->files_stored++) {
        const struct hx_ccs_known_file *file = &ccs->files.v[ccs->files_stored];
        sqlite3_bind_int64(st, 1, file->id);
        bind_text(ccs, st, 2, file->path);
        bind_text(ccs, st, 3, file->name);
        bind_text(ccs, st, 4, file->build_id);
        HX_TRY(hx_db_run(ccs->db, ccs->what, st));
    }
    return NULL;
}

static hx_error *store_places(struct hx_ccs *ccs)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(ccs->db, ccs->what, "INSERT INTO hx_place VALUES(?,?,?,?,?,?,?,0)", &st));
    for (; ccs->places_stored < ccs->places.n; ccs->places_stored++) {
        const struct hx_ccs_known_place *place = &ccs->places.v[ccs->places_stored];
        bool has = place->file != HX_CCS_NO_FILE;
        sqlite3_bind_int64(st, 1, place->id);
        sqlite3_bind_int64(st, 2, has ? ccs->files.v[place->file].id : 0);
        sqlite3_bind_int64(st, 3, (int64_t)place->vaddr);
        sqlite3_bind_int(st, 4, place->inlined);
        bind_text(ccs, st, 5, place->label);
        bind_text(ccs, st, 6, place->module);
        bind_text(ccs, st, 7, place->source);
        HX_TRY(hx_db_run(ccs->db, ccs->what, st));
    }
    return NULL;
}

hx_error *hx_ccs_store(struct hx_ccs *ccs)
{
    HX_TRY(store_files(ccs));
    HX_TRY(store_places(ccs));
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(ccs->db, ccs->what, "INSERT INTO hx_ccs VALUES(?,?,?,?)", &st));
    for (; ccs->n_stored < ccs->node.n; ccs->n_stored++) {
        const struct hx_ccs_node *node = &ccs->node.v[ccs->n_stored];
        sqlite3_bind_int64(st, 1, node->id);
        if (ccs->n_stored)
            sqlite3_bind_int64(st, 2, ccs->node.v[node->parent].id);
        else
            sqlite3_bind_null(st, 2);
        sqlite3_bind_int64(st, 3, node->depth);
        sqlite3_bind_int64(st, 4, ccs->places.v[node->place].id);
        HX_TRY(hx_db_run(ccs->db, ccs->what, st));
    }
    return NULL;
}
