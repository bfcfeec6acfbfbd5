/* code_table.c - the types of a file: from the cache, else by its reader, and then for the cache.
 */
#include "sym/code/code_private.h"

#include "base/cleanup.h"
#include "base/timing.h"

#include <stdlib.h>
#include <string.h>

void hx_code_cache_types(hx_code *code)
{
    pthread_mutex_lock(&code->names);
    if (code->cache.folder < 0)
        hx_type_cache_open(&code->cache);
    pthread_mutex_unlock(&code->names);
}

/* Asked once: what is not there is made in this run. */
static void try_cache(hx_code *code, struct hx_code_file *file, uint64_t deadline_ns)
{
    struct hx_type_source source;
    HX_CODE_DEBUG struct hx_code_debug debug = HX_CODE_DEBUG_NONE;
    const uint64_t begun = hx_timing_begin();
    if (!hx_code_debug_open(code, file, &debug)) {
        file->cache_tried = true;
        return;
    }
    const bool known = hx_type_source(&code->cache, debug.fd, &code->reading, deadline_ns, &source);
    file->cache_tried = known || (!hx_reading_ended(&code->reading) && hx_now_ns() < deadline_ns);
    if (!known)
        return;
    if (hx_type_cache_get(&code->cache, source.hash, &file->type_table, &file->type_block)) {
        hx_timing_end(begun, "type table from the cache", file->type_table.n_types);
        return;
    }
    file->type_source = malloc(sizeof source);
    if (file->type_source)
        *file->type_source = source;
}

/* Only what was read is kept by the hash of what was hashed: the files may be others meanwhile. */
static void keep_table(hx_code *code, const struct hx_code_file *file)
{
    if (file->type_source && memcmp(file->type_source->stamp, file->read, sizeof file->read) == 0)
        hx_type_cache_put(&code->cache, file->type_source->hash, &file->type_table);
}

static void find_table(hx_code *code, struct hx_code_file *file, uint64_t deadline_ns)
{
    bool whole;
    if (code->cache.folder >= 0 && !file->cache_tried && file->sound)
        try_cache(code, file, deadline_ns);
    if (file->type_block || hx_now_ns() >= deadline_ns || !hx_code_load_dwarf(code, file) ||
        !file->dwarf)
        return;
    if (hx_code_reader_type_table(file->dwarf, deadline_ns, &file->type_table, &file->type_block,
                                  &whole)) {
        if (whole)
            keep_table(code, file);
    } else if (hx_reading_late(&code->reading)) {
        hx_code_forget_dwarf(code, file);
    }
}

hx_error *hx_code_type_table(hx_code *code, uint32_t number, uint64_t deadline_ns,
                             const struct hx_type_table **ret, bool *ret_later)
{
    struct hx_code_file *file = hx_code_file_at(code, number);
    *ret = NULL;
    pthread_mutex_lock(&code->names);
    const bool begins = !file->type_block && hx_now_ns() < deadline_ns;
    const bool large = begins && deadline_ns != UINT64_MAX && hx_code_is_large(code, file);
    if (begins && !large)
        find_table(code, file, deadline_ns);
    if (file->type_block)
        *ret = &file->type_table;
    *ret_later =
        large || (!*ret && hx_now_ns() >= deadline_ns && (file->dwarf || !file->dwarf_tried));
    pthread_mutex_unlock(&code->names);
    return NULL;
}
