/* input_file.c - stores, and files that can be read like one. */
#include "cli/words/input_file.h"

#include "attach/core/core.h"
#include "base/cleanup.h"
#include "cli/take/take.h"
#include "export/import/import.h"

static hx_error *unknown_kind(const char *path)
{
    struct hx_text known = {0};
    hx_text_puts(&known, "what can be imported: ELF cores");
    for (const struct hx_importer *const *importer = hx_importers; *importer; importer++)
        hx_text_putf(&known, ", %s", (*importer)->about);
    hx_error *err = hx_error_new(HX_E_FAIL, path, hx_text_str(&known), "is of no known format");
    hx_text_free(&known);
    return err;
}

/* What says where the files of a core's process lie is for cores. */
static hx_error *no_core(const struct hx_args *args, const char *path)
{
    if (!args->exe && !args->sysroot)
        return NULL;
    return hx_error_new(HX_E_USAGE, path, "leave it out",
                        "is no core: --exe and --sysroot say where the files of a core's process "
                        "are");
}

static hx_error *import_core(const struct hx_args *args, struct hx_console *console,
                             const char *path, hx_store *store, bool *ret_partial)
{
    HX_SESSION struct hx_session session = {0};
    int64_t number;
    HX_TRY(hx_session_open_core(args, path, &session));
    HX_TRY(hx_take_into(&session, store, &console->progress, console, &number));
    *ret_partial = session.partial;
    return NULL;
}

static hx_error *import(const struct hx_args *args, struct hx_console *console, const char *path,
                        hx_store *store, bool *ret_partial)
{
    const struct hx_importer *importer;
    if (hx_core_detect(path))
        return import_core(args, console, path, store, ret_partial);
    HX_TRY(hx_importer_detect(path, &importer));
    HX_TRY(no_core(args, path));
    if (!importer)
        return unknown_kind(path);
    return hx_import_file(importer, path, store, &console->progress, ret_partial);
}

hx_error *hx_file_import(const struct hx_args *args, struct hx_console *console, const char *path,
                         hx_store *store, bool *ret_partial)
{
    HX_SPOOL struct hx_spool spool;
    HX_TRY(hx_spool_open(path, &console->progress, &spool));
    return hx_spool_error(&spool, import(args, console, spool.path, store, ret_partial));
}

static hx_error *open_spooled(const struct hx_args *args, struct hx_console *console,
                              const struct hx_spool *spool, hx_store **ret, bool *ret_partial)
{
    const char *path = spool->path;
    const struct hx_importer *importer = NULL;
    *ret_partial = false;
    hx_error *unread = hx_importer_detect(path, &importer);
    bool readable = !unread;
    hx_error_free(unread); /* the store says it better */
    if (!importer && !hx_core_detect(path)) {
        HX_TRY(readable ? no_core(args, path) : NULL);
        if (spool->fd >= 0)
            return hx_error_new(HX_E_FAIL, path,
                                "a store has to be a file; of what can be read "
                                "from a pipe, see: heapx help import",
                                "is neither a core nor a profile");
        return hx_store_open_until(path, hx_interrupted(), ret);
    }
    HX_STORE hx_store *store = NULL;
    HX_TRY(hx_store_temporary(&store));
    hx_store_cancelled_by(store, hx_interrupted());
    HX_TRY(import(args, console, path, store, ret_partial));
    *ret = hx_steal(store);
    return NULL;
}

hx_error *hx_file_open_spooled(const struct hx_args *args, struct hx_console *console,
                               const struct hx_spool *spool, hx_store **ret, bool *ret_partial)
{
    return hx_spool_error(spool, open_spooled(args, console, spool, ret, ret_partial));
}

hx_error *hx_file_open(const struct hx_args *args, struct hx_console *console, const char *path,
                       hx_store **ret, bool *ret_partial)
{
    HX_SPOOL struct hx_spool spool;
    HX_TRY(hx_spool_open(path, &console->progress, &spool));
    return hx_file_open_spooled(args, console, &spool, ret, ret_partial);
}
