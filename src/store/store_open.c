/* store_open.c - opening, recovering and closing a store. */
#include "store/store.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "store/cost/attribution_tables.h"
#include "store/db.h"
#include "store/file/sidecar.h"
#include "store/file/store_file.h"
#include "store/functions.h"
#include "store/hints.h"
#include "store/objects/sizes.h"
#include "store/objects/sums.h"
#include "store/objects/vtab.h"
#include "store/schema/migrate.h"
#include "store/schema/schema.h"
#include "store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#define HX_STR_(x) #x
#define HX_STR(x)  HX_STR_(x)

static void disconnect(hx_store *store)
{
    if (store->blocks)
        hx_blocks_rest(store->blocks);
    hx_blocks_unref(store->blocks);
    store->blocks = NULL;
    hx_ccs_overlay_unref(store->overlay);
    store->overlay = NULL;
    hx_vfs_close(store->vfs, store->db);
    store->vfs = NULL;
    store->db = NULL;
}

static void destroy_store(hx_store *store)
{
    disconnect(store);
    hx_folder_remove(&store->scratch);
    hx_pin_deinit(&store->file);
    free(store->answer_order);
    free(store->path);
    free(store);
}

static hx_error *create_store(const char *path, const atomic_bool *cancel, hx_store **ret)
{
    hx_store *store = calloc(1, sizeof *store);
    HX_NEED(store);
    store->file = HX_PIN_NONE;
    store->scratch = HX_FOLDER_NONE;
    store->cancel = cancel;
    store->path = strdup(path);
    if (!store->path) {
        destroy_store(store);
        return hx_error_nomem();
    }
    *ret = store;
    return NULL;
}

/* Under every statement: SQLite asks it each HX_STORE_STEPS of its steps. */
static int is_over(void *context)
{
    hx_store *store = context;
    if (store->cancel && atomic_load_explicit(store->cancel, memory_order_relaxed))
        return 1;
    if (store->grace > 0)
        store->grace--;
    return store->grace == 0;
}

/* The file's own statements are checked, then loaded. A schema of ours takes some thousand steps;
 * a file can claim one without end. */
static hx_error *meet_schema(hx_store *store)
{
    store->grace = HX_STORE_GRACE;
    hx_error *err = hx_schema_check(store->db, store->path, &store->schema);
    /* connects them now: a user's statement is not allowed to declare tables */
    if (!err)
        err =
            hx_db_exec(store->db, store->path, "SELECT 1 FROM objects, edges, root_edges LIMIT 0");
    bool endless = store->grace == 0;
    store->grace = -1;
    /* without an error it were statistics, which each change of the schema would load again */
    if (!endless || (err && err->kind != HX_E_CANCEL))
        return err;
    hx_error_free(err);
    return hx_db_error(store->db, SQLITE_CORRUPT, store->path);
}

/* Gives a new connection what every one has. */
static hx_error *make_ready(hx_store *store, bool alone)
{
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, HX_STORE_BUSY_MS);
    store->grace = -1;
    sqlite3_progress_handler(store->db, HX_STORE_STEPS, is_over, store);
    /* hostile files must not reach functions with effects through views or triggers */
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    HX_TRY(hx_db_exec(store->db, store->path,
                      "PRAGMA trusted_schema = 0;"
                      "PRAGMA cell_size_check = 1"));
    if (alone)
        HX_TRY(hx_db_exec(store->db, store->path, "PRAGMA locking_mode = EXCLUSIVE"));
    HX_TRY(hx_functions(store->db));
    HX_TRY(hx_hints(store->db));
    HX_TRY(hx_object_tables(store->db, &store->blocks));
    HX_TRY(hx_size_table(store->db, store->blocks));
    HX_TRY(hx_sums_function(store->db, store->blocks));
    HX_TRY(hx_ccs_overlay_create(store->db, store->path, &store->overlay));
    HX_TRY(meet_schema(store));
    return hx_db_exec(store->db, store->path, "PRAGMA cache_size = -16384");
}

enum access {
    READ = 1,
    WRITE = 2,     /* may write */
    ALONE = 4,     /* nobody beside us: the index of the log stays in our memory */
    IMMUTABLE = 8, /* nobody changes it */
};

/* Opens store->db and makes ready what every connection has. */
static hx_error *connect_to(hx_store *store, const struct hx_pin *file, unsigned access)
{
    int flags = access & WRITE ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    HX_TRY(hx_vfs_open(file, store->path, flags, access & IMMUTABLE, &store->vfs, &store->db));
    hx_error *err = make_ready(store, access & ALONE);
    err = hx_vfs_explain(store->vfs, store->path, err);
    if (err)
        disconnect(store); /* a file that is refused is not tidied up either */
    return err;
}

/* How the store itself is opened for writing. Whoever owns the index of the log can cut it off, or
 * fill it with anything, while it is mapped. */
static unsigned for_writing(const hx_store *store)
{
    return WRITE | (hx_file_foreign(&store->file) ? ALONE : 0u);
}

/* The bytes of an empty store, made in memory so that the file appears complete. */
static hx_error *empty_store(const char *what, unsigned char **ret, size_t *ret_bytes)
{
    sqlite3 *db = NULL;
    int code = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, NULL);
    hx_error *err = code == SQLITE_OK ? NULL : hx_db_error(db, code, what);
    if (!err)
        err = hx_schema_create(db, what);
    sqlite3_int64 bytes = 0;
    unsigned char *data = err ? NULL : sqlite3_serialize(db, "main", &bytes, 0);
    sqlite3_close_v2(db);
    if (!err && !data)
        err = hx_error_nomem();
    if (err)
        return err;
    *ret = data;
    *ret_bytes = (size_t)bytes;
    return NULL;
}

static hx_error *make_store_file(const hx_store *store)
{
    unsigned char *data;
    size_t bytes;
    HX_TRY(empty_store(store->path, &data, &bytes));
    hx_error *err = hx_file_create(&store->file, store->path, data, bytes);
    sqlite3_free(data);
    return err;
}

/* Who wrote alone had the index of the log in memory, and nobody comes before he lets go: a file of
 * one is what a program has left that was killed. */
static void drop_index(const struct hx_pin *file)
{
    HX_FREE char *at = NULL;
    if (asprintf(&at, "%s-shm", file->at) < 0)
        at = NULL;
    else
        hx_sidecar_unlink(at);
}

/* Leaves one plain file. With another reader or writer there the last one does it. */
static hx_error *finish_store(hx_store *store)
{
    int code = SQLITE_INTERRUPT;
    /* an interrupt was meant for the work before; it must not keep the file from its end */
    for (int attempt = 0; attempt < 4 && code == SQLITE_INTERRUPT; attempt++) {
        code = sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        if (code == SQLITE_OK)
            code = sqlite3_exec(store->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    }
    if (code == SQLITE_OK && store->writer && hx_file_foreign(&store->file))
        drop_index(&store->file);
    if (code == SQLITE_OK || (code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED)
        return NULL;
    hx_error *err = hx_db_error(store->db, code, store->path);
    if (err == hx_error_nomem())
        return err;
    hx_error *told =
        hx_error_new(err->kind, store->path, "nothing is lost: free space, then open it once",
                     "its log %s-wal cannot be moved into it: %s", store->path, err->why);
    if (told != hx_error_nomem())
        told->os_errno = err->os_errno;
    hx_error_free(err);
    return told;
}

/* Is more than one plain file there: a log, or the journal of a writer that was killed
 * before it held anything? */
static bool is_untidy(hx_store *store)
{
    if (hx_sidecar_there(&store->file, "-journal", 0))
        return true;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(store->db, "PRAGMA journal_mode", -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW)
        return false;
    const char *mode = (const char *)sqlite3_column_text(st, 0);
    return mode && strcmp(mode, "wal") == 0;
}

static hx_error *migrate(hx_store *store)
{
    const struct hx_progress progress = {.cancel = store->cancel};
    return hx_schema_migrate(store->db, store->path, store->schema, &progress);
}

/* Brings a copy up to date and puts it in the place of the store, complete; disconnects. */
static hx_error *replace_by_migrated(hx_store *store)
{
    HX_TRY(finish_store(store)); /* what the copy is made of must be one file */
    if (is_untidy(store))
        return hx_error_new(HX_E_BUSY, store->path, "wait for it to end",
                            "another program is using the store");
    disconnect(store);
    struct stat old;
    char where[64]; /* beside it, so that it can be moved */
    snprintf(where, sizeof where, "/proc/self/fd/%d", store->file.folder);
    HX_FOLDER struct hx_folder folder = HX_FOLDER_NONE;
    HX_PIN struct hx_pin copy = HX_PIN_NONE;
    hx_error *err = hx_folder_make(where, &folder);
    if (!err)
        err = hx_pin_in(folder.fd, "store", &copy);
    if (!err)
        err = hx_file_copy_plain(&store->file, store->path, &copy, &old);
    if (!err)
        err = connect_to(store, &copy, WRITE);
    if (!err)
        err = migrate(store);
    if (store->db)
        disconnect(store);
    return err ? err : hx_file_replace(&store->file, store->path, &copy, &old);
}

/* By whoever has the lock; leaves the store disconnected. */
static hx_error *replace_if_old(hx_store *store)
{
    hx_error *err = connect_to(store, &store->file, for_writing(store));
    if (!err && store->schema < HX_STORE_SCHEMA)
        err = replace_by_migrated(store);
    if (store->db)
        disconnect(store);
    return err;
}

/* Of several that begin to write at once one brings the store up to date; the others wait and find
 * it done. Else one would write into a file that another one is about to replace. */
static hx_error *bring_up_to_date(hx_store *store)
{
    disconnect(store);
    int lock = open(store->file.at, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    hx_error *err = NULL;
    if (lock < 0 || flock(lock, LOCK_EX))
        err = errno == EINTR ? hx_error_cancelled(store->path)
                             : hx_error_os(errno, store->path, "cannot lock it");
    else
        err = replace_if_old(store);
    /* before SQLite has the file again: its own locks would go with this */
    hx_cleanup_fd(&lock);
    HX_TRY(err);
    return connect_to(store, &store->file, for_writing(store));
}

static hx_error *try_writing(hx_store *store)
{
    HX_TRY(connect_to(store, &store->file, for_writing(store)));
    if (store->schema < HX_STORE_SCHEMA)
        HX_TRY(bring_up_to_date(store));
    if (sqlite3_db_readonly(store->db, "main") == 1)
        return hx_error_new(HX_E_PERM, store->path, "choose a file that you may write",
                            "no permission to write it");
    return hx_db_exec(store->db, store->path,
                      "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                      "PRAGMA journal_size_limit = 16777216");
}

/* Two that want to be alone, and have read meanwhile, would wait for each other: SQLite tells both
 * so at once. Each lets go of the store and comes back after a while of its own. */
static hx_error *start_writing(hx_store *store)
{
    uint64_t end = hx_now_ns() + HX_STORE_BUSY_MS * UINT64_C(1000000);
    hx_error *err = try_writing(store);
    while (err && err->kind == HX_E_BUSY && for_writing(store) & ALONE && hx_now_ns() < end) {
        hx_error_free(err);
        disconnect(store);
        struct timespec pause = {0, 5000000 + (long)(hx_now_ns() / 1000 % 64) * 1000000};
        nanosleep(&pause, NULL);
        if (store->cancel && atomic_load(store->cancel))
            return hx_error_cancelled(store->path);
        err = try_writing(store);
    }
    return err;
}

/* May what is there, or will be, be written? Makes what is not there. */
static hx_error *prepare_writing(hx_store *store, enum hx_file_kind kind)
{
    struct stat st;
    if (store->file.doubt)
        return hx_pin_doubted(&store->file, store->path);
    if (kind == HX_FILE_ABSENT) {
        hx_error *err = hx_sidecar_check(&store->file, store->path, true);
        if (!err) {
            err = make_store_file(store);
            store->created = !err;
        }
        if (!err)
            return NULL;
        /* another heapx may have been faster */
        hx_error *again = hx_file_probe(store->path, &store->file, &kind);
        if (again || kind == HX_FILE_ABSENT) {
            hx_error_free(again);
            return err;
        }
        hx_error_free(err);
    }
    if (!hx_file_writable(&store->file))
        return hx_error_new(HX_E_PERM, store->path,
                            "choose a file in a directory that you may write",
                            "no permission to write there");
    if (lstat(store->file.at, &st) == 0 && st.st_nlink > 1)
        return hx_error_new(HX_E_PERM, store->path, "make a copy, and write that",
                            "it has another name, too (a hard link), and its log but one");
    return hx_sidecar_check(&store->file, store->path, false);
}

hx_error *hx_store_append(const char *path, hx_store **ret)
{
    return hx_store_append_until(path, NULL, ret);
}

hx_error *hx_store_append_until(const char *path, const atomic_bool *cancel, hx_store **ret)
{
    enum hx_file_kind kind;
    hx_store *store;
    HX_TRY(create_store(path, cancel, &store));
    hx_error *err = hx_file_probe(path, &store->file, &kind);
    if (err && err->os_errno == ENOENT) { /* no such folder */
        hx_error_free(err);
        err = hx_error_os(ENOENT, path, "cannot make the file");
    }
    if (!err) {
        store->writer = true;
        err = prepare_writing(store, kind);
    }
    if (!err)
        err = hx_sidecar_explain(&store->file, path, start_writing(store));
    if (err) {
        hx_error_free(hx_store_close(store));
        return err;
    }
    *ret = store;
    return NULL;
}

/* Can the file be read as it is? Reads its schema, so that a log is looked at, too. */
static hx_error *try_reading(hx_store *store, const struct hx_pin *file, unsigned access)
{
    hx_error *err = connect_to(store, file, access);
    if (err)
        disconnect(store);
    return err;
}

static hx_error *open_copy(hx_store *store)
{
    HX_PIN struct hx_pin copy = HX_PIN_NONE;
    HX_TRY(hx_folder_make_temporary(&store->scratch));
    HX_TRY(hx_pin_in(store->scratch.fd, "store", &copy));
    HX_TRY(hx_file_copy(&store->file, store->path, &copy));
    return try_reading(store, &copy, WRITE);
}

/* Where nothing may be written: as it is when SQLite can, which a live writer's log
 * allows; a lone file as immutable; with a log left behind on a private copy. */
static hx_error *open_unwritable(hx_store *store)
{
    hx_error *err = try_reading(store, &store->file, READ);
    if (!err || err->kind == HX_E_NOMEM)
        return err;
    bool log =
        hx_sidecar_there(&store->file, "-wal", 1) || hx_sidecar_there(&store->file, "-journal", 1);
    if (err->kind == HX_E_CORRUPT && !log)
        return err;
    hx_error_free(err);
    if (log)
        return open_copy(store);
    return try_reading(store, &store->file, READ | IMMUTABLE);
}

/* Could somebody else change files while they are mapped or played back? */
static bool is_unsafe(const hx_store *store)
{
    return store->file.doubt || (hx_file_foreign(&store->file) && hx_file_logged(&store->file));
}

static hx_error *start_reading(hx_store *store)
{
    HX_TRY(hx_sidecar_check(&store->file, store->path, false));
    if (is_unsafe(store))
        HX_TRY(open_copy(store));
    else if (hx_file_writable(&store->file))
        HX_TRY(try_reading(store, &store->file, WRITE));
    else
        HX_TRY(open_unwritable(store));
    if (store->schema == HX_STORE_SCHEMA)
        return NULL;
    if (store->scratch.fd < 0) {
        disconnect(store);
        HX_TRY(open_copy(store));
    }
    return migrate(store);
}

hx_error *hx_store_open(const char *path, hx_store **ret)
{
    return hx_store_open_until(path, NULL, ret);
}

hx_error *hx_store_open_until(const char *path, const atomic_bool *cancel, hx_store **ret)
{
    enum hx_file_kind kind = HX_FILE_ABSENT;
    hx_store *store;
    HX_TRY(create_store(path, cancel, &store));
    hx_error *err = hx_file_probe(path, &store->file, &kind);
    if (err ? err->os_errno == ENOENT : kind == HX_FILE_ABSENT) {
        hx_error_free(err);
        err = hx_error_new(HX_E_ABSENT, path, "give a file made by heapx", "no such file");
    }
    if (!err)
        err = hx_sidecar_explain(&store->file, path, start_reading(store));
    if (err) {
        destroy_store(store);
        return err;
    }
    *ret = store;
    return NULL;
}

hx_error *hx_store_temporary(hx_store **ret)
{
    hx_store *store;
    HX_TRY(create_store("temporary store", NULL, &store));
    store->writer = store->temporary = true;
    unsigned char *data = NULL;
    size_t bytes = 0;
    HX_PIN struct hx_pin file = HX_PIN_NONE;
    hx_error *err = empty_store(store->path, &data, &bytes);
    if (!err)
        err = hx_folder_make_temporary(&store->scratch);
    if (!err)
        err = hx_pin_in(store->scratch.fd, "store", &file);
    if (!err)
        err = hx_file_create(&file, store->path, data, bytes);
    sqlite3_free(data);
    if (!err)
        err = connect_to(store, &file, WRITE);
    /* Nobody else reads it and no crash leaves it behind: it loses its name at once, and
     * what a rollback needs stays in memory. */
    if (!err)
        err = hx_db_exec(store->db, store->path,
                         "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;"
                         "PRAGMA locking_mode = EXCLUSIVE; SELECT count(*) FROM hx_snapshot");
    if (!err)
        hx_folder_remove(&store->scratch);
    if (err) {
        destroy_store(store);
        return err;
    }
    *ret = store;
    return NULL;
}

/* A file that this open made and that holds no snapshot goes away again. */
static bool is_useless(hx_store *store)
{
    int64_t snapshots = 0;
    if (!store->created || store->added)
        return false;
    if (!store->db)
        return true;
    /* another process may have appended; when nothing can be read it could not either */
    hx_error_free(
        hx_db_int(store->db, store->path, "SELECT count(snapshot) FROM hx_snapshot", &snapshots));
    return snapshots == 0;
}

hx_error *hx_store_close(hx_store *store)
{
    if (!store)
        return NULL;
    hx_error *err = NULL;
    store->cancel = NULL;
    if (is_useless(store)) {
        disconnect(store);
        hx_file_remove(&store->file);
    } else if (store->db && store->writer && !store->temporary) {
        sqlite3_busy_timeout(store->db, 1000);
        err = finish_store(store);
    } else if (store->db && store->scratch.fd < 0 && !sqlite3_db_readonly(store->db, "main") &&
               is_untidy(store)) {
        /* a writer was killed, or ended while this reader was there; when the log has to
         * stay it does no harm */
        sqlite3_busy_timeout(store->db, 0);
        hx_error_free(finish_store(store));
        /* a write is what removes an old journal */
        if (hx_sidecar_there(&store->file, "-journal", 0))
            hx_error_free(hx_db_exec(store->db, store->path,
                                     "PRAGMA user_version = " HX_STR(HX_STORE_SCHEMA)));
    }
    destroy_store(store);
    return err;
}

void hx_store_cancelled_by(hx_store *store, const atomic_bool *cancel)
{
    store->cancel = cancel;
}

void hx_store_interrupt(hx_store *store)
{
    hx_blocks_interrupt(store->blocks);
    sqlite3_interrupt(store->db);
}

void hx_store_aloof(hx_store *store, bool on)
{
    hx_blocks_aloof(store->blocks, on);
}

hx_error *hx_store_resolve(hx_store *store, const char *which, int64_t *ret)
{
    int64_t count, id = 0;
    HX_TRY(hx_db_int(store->db, store->path, "SELECT count(snapshot) FROM hx_snapshot", &count));
    uint64_t number;
    bool first = strcmp(which, "first") == 0, last = strcmp(which, "last") == 0;
    if (!first && !last && !hx_parse_u64(which, &number))
        return hx_error_new(HX_E_USAGE, which, "give a number, first or last",
                            "not a snapshot number");
    if (!count)
        return hx_error_new(HX_E_ABSENT, store->path, "add one: heapx snap PID -o FILE",
                            "there is no snapshot in it");
    if (first || last) {
        HX_TRY(hx_db_int(store->db, store->path,
                         first ? "SELECT min(snapshot) FROM hx_snapshot"
                               : "SELECT max(snapshot) FROM hx_snapshot",
                         &id));
    } else if (number <= INT64_MAX) {
        char sql[96];
        snprintf(sql, sizeof sql, "SELECT snapshot FROM hx_snapshot WHERE snapshot = %lld",
                 (long long)number);
        HX_TRY(hx_db_int(store->db, store->path, sql, &id));
    }
    if (id < 1)
        return hx_error_new(HX_E_ABSENT, store->path,
                            "heapx report FILE snapshots --snapshot all lists them",
                            "no snapshot %s in it (%lld there)", which, (long long)count);
    *ret = id;
    return NULL;
}

hx_error *hx_store_next(hx_store *store, int64_t after, int64_t *ret)
{
    char sql[96];
    snprintf(sql, sizeof sql,
             "SELECT coalesce(min(snapshot), 0) FROM hx_snapshot WHERE snapshot > %lld",
             (long long)after);
    return hx_db_int(store->db, store->path, sql, ret);
}
