/* load_stop.c - what a snapshot keeps so that its files can be asked for names later. */
#include "store/store_private.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "store/db.h"
#include "store/schema/row.h"

#include <string.h>

struct stop_reader {
    hx_store *store;
    int64_t id;
    struct hx_snapshot *snapshot;
};

static hx_error *damaged_stop(const struct stop_reader *r, const char *what)
{
    return hx_error_new(HX_E_CORRUPT, r->store->path, "take it from a backup or make it again",
                        "the store is damaged (snapshot %lld: %s)", (long long)r->id, what);
}

static hx_error *select_stop(const struct stop_reader *r, const char *sql, sqlite3_stmt **ret)
{
    HX_TRY(hx_db_prepare(r->store->db, r->store->path, sql, ret));
    sqlite3_bind_int64(*ret, 1, r->id);
    return NULL;
}

static hx_error *copy_bounded(struct hx_str text, char **ret)
{
    *ret = text.s ? strndup(text.s, HX_TEXT_NAME) : NULL;
    return *ret || !text.s ? NULL : hx_error_nomem();
}

static hx_error *load_loaded(struct stop_reader *r)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_stop(r, "SELECT * FROM hx_loaded WHERE snapshot = ? ORDER BY number", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_loaded row = hx_row(st, loaded);
        struct hx_loaded_file file = {.bias = (uint64_t)row.bias.value, .code = UINT32_MAX};
        if (row.number.value != (int64_t)r->snapshot->loaded.n || !row.path.s ||
            r->snapshot->loaded.n >= HX_LOADED_FILES_MAX)
            return damaged_stop(r, "a file");
        HX_NEED(hx_vec_push(&r->snapshot->loaded, file));
        struct hx_loaded_file *kept = &r->snapshot->loaded.v[r->snapshot->loaded.n - 1];
        HX_TRY(copy_bounded(row.path, &kept->path));
        HX_TRY(copy_bounded(row.build_id, &kept->build_id));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(r->store->db, code, r->store->path);
}

static hx_error *load_frames(struct stop_reader *r)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_stop(
        r, "SELECT * FROM hx_stopped_frame WHERE snapshot = ? ORDER BY tid, position", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_stopped_frame row = hx_row(st, stopped_frame);
        const struct hx_int *kept[HX_KEPT_REGISTERS] = {&row.rbx, &row.rbp, &row.r12,
                                                        &row.r13, &row.r14, &row.r15};
        struct hx_stopped_frame frame = {.tid = (pid_t)row.tid.value,
                                         .position = (uint32_t)row.position.value,
                                         .file = (uint32_t)row.file.value,
                                         .vaddr = (uint64_t)row.vaddr.value,
                                         .sp = (uint64_t)row.sp.value,
                                         .cfa = (uint64_t)row.cfa.value,
                                         .fp = (uint64_t)row.fp.value,
                                         .fp_known = row.fp.known};
        for (size_t i = 0; i < HX_KEPT_REGISTERS; i++)
            frame.kept[i] = (uint64_t)kept[i]->value;
        if (row.file.value < 0 || (uint64_t)row.file.value >= r->snapshot->loaded.n ||
            frame.cfa <= frame.sp || r->snapshot->frames.n >= HX_STOPPED_FRAMES_MAX)
            return damaged_stop(r, "a frame");
        HX_NEED(hx_vec_push(&r->snapshot->frames, frame));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(r->store->db, code, r->store->path);
}

static hx_error *load_tls_blocks(struct stop_reader *r)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_stop(r, "SELECT * FROM hx_tls_block WHERE snapshot = ? ORDER BY start", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_tls_block row = hx_row(st, tls_block);
        struct hx_tls_block block = {.start = (uint64_t)row.start.value,
                                     .file = (uint32_t)row.file.value,
                                     .tid = (pid_t)row.tid.value};
        if (row.file.value < 0 || (uint64_t)row.file.value >= r->snapshot->loaded.n ||
            __builtin_add_overflow(block.start, (uint64_t)row.bytes.value, &block.end) ||
            r->snapshot->tls_blocks.n >= HX_TLS_BLOCKS_MAX)
            return damaged_stop(r, "a block of thread-local variables");
        HX_NEED(hx_vec_push(&r->snapshot->tls_blocks, block));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(r->store->db, code, r->store->path);
}

hx_error *hx_store_load_stop(hx_store *store, int64_t number, struct hx_snapshot *snapshot)
{
    struct stop_reader r = {store, number, snapshot};
    HX_TRY(load_loaded(&r));
    HX_TRY(load_frames(&r));
    return load_tls_blocks(&r);
}
