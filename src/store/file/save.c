/* save.c - a private temporary store becomes a file that stays. */
#include "base/cleanup.h"
#include "store/db.h"
#include "store/file/sidecar.h"
#include "store/file/store_file.h"
#include "store/store.h"
#include "store/store_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

bool hx_store_is_temporary(const hx_store *store)
{
    return store->temporary;
}

struct copying {
    sqlite3_file *from;
    sqlite3_int64 size;
    const char *path;
    const struct hx_progress *progress;
};

static hx_error *read_error(const struct copying *copying)
{
    int number = 0;
    copying->from->pMethods->xFileControl(copying->from, SQLITE_FCNTL_LAST_ERRNO, &number);
    return hx_error_os(number ? number : EIO, "temporary store", "read");
}

/* Its pages are all in the file: nothing is written at the moment, and it has no log. */
static hx_error *copy_pages(void *context, int fd)
{
    const struct copying *copying = context;
    HX_FREE uint8_t *chunk = malloc(CHUNK);
    HX_NEED(chunk);
    for (sqlite3_int64 at = 0; at < copying->size;) {
        int n = copying->size - at < CHUNK ? (int)(copying->size - at) : CHUNK;
        if (hx_progress_cancelled(copying->progress))
            return hx_error_cancelled(copying->path);
        if (copying->from->pMethods->xRead(copying->from, chunk, n, at) != SQLITE_OK)
            return read_error(copying);
        HX_TRY(hx_file_write(fd, copying->path, chunk, (size_t)n));
        at += n;
        hx_progress_at(copying->progress, "saving", (uint64_t)at, (uint64_t)copying->size);
    }
    return fsync(fd) ? hx_error_os(errno, copying->path, "write") : NULL;
}

hx_error *hx_store_save(hx_store *store, const char *path, const struct hx_progress *progress)
{
    enum hx_file_kind kind;
    HX_PIN struct hx_pin file = HX_PIN_NONE;
    HX_TRY(hx_file_probe(path, &file, &kind));
    if (file.doubt)
        return hx_pin_doubted(&file, path);
    if (kind == HX_FILE_ABSENT)
        HX_TRY(hx_sidecar_check(&file, path, true));
    if (!store->temporary)
        return hx_error_new(HX_E_FAIL, store->path, "copy the file", "is a file already");
    if (!sqlite3_get_autocommit(store->db))
        return hx_error_new(HX_E_BUSY, store->path, "try again in a moment",
                            "a snapshot is being written");
    if (kind != HX_FILE_ABSENT)
        return hx_error_new(HX_E_FAIL, path, "give a name that nothing has", "exists already");
    struct copying copying = {.path = path, .progress = progress};
    if (sqlite3_file_control(store->db, "main", SQLITE_FCNTL_FILE_POINTER, &copying.from) !=
            SQLITE_OK ||
        !copying.from->pMethods ||
        copying.from->pMethods->xFileSize(copying.from, &copying.size) != SQLITE_OK)
        return hx_error_os(EIO, "temporary store", "read");
    return hx_file_create_by(&file, path, copy_pages, &copying);
}
