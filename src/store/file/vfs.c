/* vfs.c - SQLite's files by the names of one store, and by no other.
 *
 * Each connection has a layer (sqlite3_vfs) of its own, which knows the names of its store. Below
 * it the system's layer opens and deletes the index of the log by itself: its calls open() and
 * unlink() go through ours, which look at what was really opened.
 */
#include "store/file/vfs.h"

#include "base/text.h"
#include "store/db.h"
#include "store/file/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PINNED "/proc/self/fd/"

/* SQLite shares the index of the log between the connections of a process, and remembers it by the
 * path of the first: so they share the layer, too, which holds the folder until the last one ends.
 */
struct hx_vfs {
    sqlite3_vfs layer; /* the first: what SQLite holds */
    sqlite3_vfs *system;
    struct hx_pin store;
    size_t connections;   /* guarded by SQLite's mutex for applications */
    _Atomic bool stopped; /* another file was asked for */
    char name[];          /* of the layer: the folder by its number, and the name in it */
};

/* --- the system's calls ------------------------------------------------------------------- */

/* A file with another name, which somebody else may have given it in the folder, is not written:
 * a journal of his would be played back into it. */
static bool is_lent(int fd, const char *path)
{
    struct stat st;
    return fstat(fd, &st) != 0 ||
           (st.st_nlink > 1 && hx_pin_named_by_others(atoi(path + strlen(PINNED))));
}

/* In a pinned folder: no link, nothing that would wait, and of sidecars only what is the store's.
 */
static int careful_open(const char *path, int flags, int mode)
{
    const char *name = strrchr(path, '/');
    bool pinned = strncmp(path, PINNED, strlen(PINNED)) == 0 && name >= path + strlen(PINNED);
    if (!pinned)
        return open(path, flags, mode);
    if (hx_sidecar_of(path) != HX_SIDECARS)
        return hx_sidecar_open(path, flags, (mode_t)mode);
    int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode);
    if (fd >= 0 && (flags & O_ACCMODE) != O_RDONLY && is_lent(fd, path)) {
        close(fd);
        errno = EACCES; /* SQLite tries to read it only */
        return -1;
    }
    return fd;
}

static int careful_unlink(const char *path)
{
    return strncmp(path, PINNED, strlen(PINNED)) == 0 ? hx_sidecar_unlink(path) : unlink(path);
}

/* SQLite, run by root, gives each sidecar that it opens to the owner of the store: also what was
 * there, a file of root's that he may have renamed to that. hx_sidecar_open() gives him those that
 * it makes. */
static int careful_fchown(int fd, uid_t user, gid_t group)
{
    (void)fd, (void)user, (void)group;
    return 0;
}

static const struct call {
    const char *name;
    sqlite3_syscall_ptr call;
} calls[] = {
    {"open", (sqlite3_syscall_ptr)careful_open},
    {"unlink", (sqlite3_syscall_ptr)careful_unlink},
    {"fchown", (sqlite3_syscall_ptr)careful_fchown},
};
enum { CALLS = sizeof calls / sizeof *calls };

static void replace_calls(void)
{
    sqlite3_vfs *system = sqlite3_vfs_find(NULL);
    if (!system || system->iVersion < 3 || !system->xSetSystemCall)
        return;
    for (size_t i = 0; i < CALLS; i++)
        system->xSetSystemCall(system, calls[i].name, calls[i].call);
}

/* The system's layer with our calls; NULL: it cannot have them. */
static sqlite3_vfs *system_layer(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, replace_calls);
    sqlite3_vfs *system = sqlite3_vfs_find(NULL);
    if (!system || system->iVersion < 3 || !system->xGetSystemCall)
        return NULL;
    for (size_t i = 0; i < CALLS; i++)
        if (system->xGetSystemCall(system, calls[i].name) != calls[i].call)
            return NULL;
    return system;
}

/* --- the layer ---------------------------------------------------------------------------- */

/* Is it the store itself (a suffix of "") or that sidecar? Whatever else is asked for is
 * remembered. */
static bool is_store_file(struct hx_vfs *vfs, const char *path, const char *suffix)
{
    size_t n = strlen(vfs->store.at);
    if (strncmp(path, vfs->store.at, n) == 0 && strcmp(path + n, suffix) == 0)
        return true;
    vfs->stopped = true;
    return false;
}

static bool is_sidecar(struct hx_vfs *vfs, const char *path)
{
    size_t suffix = hx_sidecar_of(path);
    return is_store_file(vfs, path, suffix == HX_SIDECARS ? "/" : hx_sidecar[suffix]);
}

static int layer_open(sqlite3_vfs *layer, const char *path, sqlite3_file *file, int flags,
                      int *ret_flags)
{
    struct hx_vfs *vfs = (struct hx_vfs *)layer;
    bool store = flags & SQLITE_OPEN_MAIN_DB;
    file->pMethods = NULL;
    if (path && !(store && is_store_file(vfs, path, "")) &&
        !(flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL) && is_sidecar(vfs, path))) {
        vfs->stopped = true;
        return SQLITE_CANTOPEN;
    }
    return vfs->system->xOpen(vfs->system, path, file, flags, ret_flags);
}

static int layer_delete(sqlite3_vfs *layer, const char *path, int sync)
{
    struct hx_vfs *vfs = (struct hx_vfs *)layer;
    if (!is_sidecar(vfs, path))
        return SQLITE_IOERR_DELETE;
    return vfs->system->xDelete(vfs->system, path, sync);
}

static int layer_access(sqlite3_vfs *layer, const char *path, int flags, int *ret)
{
    struct hx_vfs *vfs = (struct hx_vfs *)layer;
    if (strcmp(path, vfs->store.at) != 0 && !is_sidecar(vfs, path))
        return SQLITE_IOERR_ACCESS;
    return vfs->system->xAccess(vfs->system, path, flags, ret);
}

static int layer_full_name(sqlite3_vfs *layer, const char *path, int size, char *ret)
{
    (void)layer;
    int n = snprintf(ret, (size_t)size, "%s", path); /* it is pinned: nothing is left to follow */
    return n < 0 || n >= size ? SQLITE_CANTOPEN : SQLITE_OK;
}

/* --- a connection ------------------------------------------------------------------------- */

/* A name for SQLite's URI form that says nobody will change the file. */
static char *immutable_name(const char *path)
{
    struct hx_text text = {0};
    hx_text_puts(&text, "file:");
    for (const char *p = path; *p; p++)
        if (strchr("?#%", *p))
            hx_text_putf(&text, "%%%02x", (unsigned char)*p);
        else
            hx_text_putc(&text, *p);
    hx_text_puts(&text, "?immutable=1");
    if (text.failed)
        hx_text_free(&text);
    return text.s;
}

static void destroy_vfs(struct hx_vfs *vfs)
{
    hx_pin_deinit(&vfs->store);
    free(vfs);
}

/* Makes one and registers it. */
static hx_error *make_layer(const struct hx_pin *store, const char *what, const char *name,
                            struct hx_vfs **ret)
{
    sqlite3_vfs *system = system_layer();
    if (!system)
        return hx_error_new(HX_E_FAIL, what, "use SQLite for Unix, 3.7.14 or later",
                            "this SQLite does not let its files be guarded");
    struct hx_vfs *vfs = calloc(1, sizeof *vfs + strlen(name) + 1);
    HX_NEED(vfs);
    vfs->system = system;
    vfs->layer = *system;
    vfs->layer.pNext = NULL;
    vfs->layer.zName = strcpy(vfs->name, name);
    vfs->layer.xOpen = layer_open;
    vfs->layer.xDelete = layer_delete;
    vfs->layer.xAccess = layer_access;
    vfs->layer.xFullPathname = layer_full_name;
    hx_error *err = hx_pin_in(store->folder, store->name, &vfs->store);
    if (!err && sqlite3_vfs_register(&vfs->layer, 0) != SQLITE_OK)
        err = hx_error_nomem();
    if (err) {
        destroy_vfs(vfs);
        return err;
    }
    *ret = vfs;
    return NULL;
}

/* The layer of that store for one more connection. */
static hx_error *take_layer(const struct hx_pin *store, const char *what, struct hx_vfs **ret)
{
    HX_FREE char *name = NULL;
    struct stat st;
    if (fstat(store->folder, &st) != 0)
        return hx_error_os(errno, what, "cannot look at its folder");
    if (asprintf(&name, "heapx %llx:%llx/%s", (unsigned long long)st.st_dev,
                 (unsigned long long)st.st_ino, store->name) < 0) {
        name = NULL;
        return hx_error_nomem();
    }
    sqlite3_initialize();
    sqlite3_mutex *mutex = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP1);
    sqlite3_mutex_enter(mutex);
    struct hx_vfs *vfs = (struct hx_vfs *)sqlite3_vfs_find(name);
    hx_error *err = vfs ? NULL : make_layer(store, what, name, &vfs);
    if (!err)
        vfs->connections++;
    sqlite3_mutex_leave(mutex);
    if (!err)
        *ret = vfs;
    return err;
}

static void leave_layer(struct hx_vfs *vfs)
{
    sqlite3_mutex *mutex = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP1);
    sqlite3_mutex_enter(mutex);
    bool last = --vfs->connections == 0;
    if (last)
        sqlite3_vfs_unregister(&vfs->layer);
    sqlite3_mutex_leave(mutex);
    if (last)
        destroy_vfs(vfs);
}

hx_error *hx_vfs_open(const struct hx_pin *store, const char *what, int flags, bool immutable,
                      hx_vfs **ret_vfs, sqlite3 **ret)
{
    struct hx_vfs *vfs = NULL;
    sqlite3 *db = NULL;
    HX_TRY(take_layer(store, what, &vfs));
    HX_FREE char *name = immutable ? immutable_name(vfs->store.at) : strdup(vfs->store.at);
    if (!name) {
        leave_layer(vfs);
        return hx_error_nomem();
    }
    flags |= SQLITE_OPEN_FULLMUTEX | (immutable ? SQLITE_OPEN_URI : 0);
    int code = sqlite3_open_v2(name, &db, flags, vfs->name);
    if (code != SQLITE_OK) {
        hx_error *err = hx_db_error(db, code, what);
        hx_vfs_close(vfs, db);
        return err;
    }
    *ret_vfs = vfs;
    *ret = db;
    return NULL;
}

void hx_vfs_close(hx_vfs *vfs, sqlite3 *db)
{
    bool gone = sqlite3_close(db) == SQLITE_OK;
    if (!gone)
        sqlite3_close_v2(db); /* it ends with its last statement, and needs the layer until then */
    if (vfs && gone)
        leave_layer(vfs);
}

hx_error *hx_vfs_explain(const hx_vfs *vfs, const char *what, hx_error *err)
{
    if (!err || !vfs || !vfs->stopped || err->kind == HX_E_NOMEM)
        return err;
    HX_FREE char *todo = NULL;
    if (asprintf(&todo, "remove %s-journal, if you trust the store without it", what) < 0) {
        todo = NULL;
        return err;
    }
    hx_error_free(err);
    return hx_error_new(HX_E_PERM, what, todo,
                        "its journal asks for other files to be opened and removed, and is no "
                        "journal of heapx");
}
