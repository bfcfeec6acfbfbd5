/* attach.c - what can be done with a target of either kind. */
#include "attach/attach.h"

#include "attach/memwatch.h"
#include "attach/python/python.h"
#include "attach/roots/program_roots.h"
#include "attach/roots/rename.h"
#include "attach/roots/rootmap.h"
#include "attach/target.h"
#include "attach/types/debug_types.h"
#include "attach/types/rtti.h"
#include "attach/types/vtable.h"
#include "base/cleanup.h"
#include "record/read/space.h"
#include "sym/code/code.h"
#include "sym/reading.h"

#include <stdlib.h>
#include <string.h>

hx_error *hx_target_opened(hx_attach *attach, char *name, hx_error *err, hx_attach **ret)
{
    attach->name = name;
    if (!err)
        err = name ? hx_code_create(&attach->code) : hx_error_nomem();
    if (err)
        hx_attach_close(attach);
    else
        *ret = attach;
    return err;
}

void hx_attach_close(hx_attach *attach)
{
    if (!attach)
        return;
    hx_memwatch_end(attach->watch);
    hx_code_destroy(attach->code);
    hx_modules_destroy(attach->modules);
    free(attach->name);
    attach->ops->close(attach);
}

const char *hx_attach_name(const hx_attach *attach)
{
    return attach->name;
}

void hx_attach_share_code(hx_attach *attach, hx_code *code)
{
    hx_code_destroy(attach->code);
    attach->code = hx_code_share(code);
}

hx_error *hx_attach_capture(hx_attach *attach, const struct hx_capture_options *options,
                            const struct hx_progress *progress, struct hx_snapshot **ret)
{
    hx_reading_listen(hx_code_reading(attach->code), progress);
    hx_error *err = attach->ops->capture(attach, options, progress, ret);
    hx_reading_listen(hx_code_reading(attach->code), NULL);
    if (attach->modules)
        hx_reading_listen(hx_modules_reading(attach->modules), NULL);
    return err;
}

/* --- memory --------------------------------------------------------------------------- */

const atomic_bool *hx_attach_exhausted(hx_attach *attach)
{
    return attach->exhausted;
}

hx_error *hx_target_watch(hx_attach *attach, const struct hx_memory_need *need)
{
    hx_limits limits = {0};
    hx_memwatch_end(hx_steal(attach->watch));
    atomic_store(attach->exhausted, false);
    HX_TRY(hx_limits_find("", attach->via, &limits));
    hx_error *err = hx_limits_fit(&limits, need);
    if (!err)
        attach->watch = hx_memwatch_begin(&limits, need, attach->exhausted);
    hx_limits_deinit(&limits);
    return err;
}

hx_error *hx_attach_settle(hx_attach *attach, hx_error *err, bool *ret_killed)
{
    if (err && attach->watch && atomic_load(attach->exhausted)) {
        hx_error_free(err);
        err = hx_memwatch_error(attach->watch);
    }
    *ret_killed = hx_memwatch_killed(attach->watch) && attach->ops->has_exited(attach);
    hx_memwatch_end(hx_steal(attach->watch));
    atomic_store(attach->exhausted, false); /* the next one begins anew */
    return err;
}

hx_error *hx_attach_peek(const hx_attach *attach, uint64_t addr, size_t n, void *ret, size_t *ret_n)
{
    return attach->ops->peek(attach, addr, n, ret, ret_n);
}

struct hx_stop_mark *hx_attach_stop_mark(hx_attach *attach)
{
    return attach->stop_mark;
}

/* --- what the newest capture is made of ------------------------------------------------ */

bool hx_attach_is_vtable(void *context, uint64_t addr)
{
    const struct hx_attach *attach = context;
    return hx_is_vtable(attach->image, attach->modules, addr);
}

hx_error *hx_attach_names(hx_attach *attach, struct hx_snapshot *snapshot,
                          const struct hx_progress *progress)
{
    return hx_rootmap_names(snapshot, attach->modules, progress);
}

static bool read_module_memory(void *modules, uint64_t addr, void *dst, size_t len)
{
    return hx_module_read(modules, addr, dst, len);
}

static bool has_namesake(void *modules, const char *symbol, const char *untagged)
{
    for (size_t i = 0; i < hx_modules_count(modules); i++)
        if (hx_module_has_namesake(modules, i, symbol, untagged))
            return true;
    return false;
}

hx_error *hx_attach_types(hx_attach *attach, struct hx_snapshot *snapshot, unsigned threads,
                          const struct hx_progress *progress)
{
    hx_ranges segments = {0};
    struct hx_range segment;
    for (size_t k = 0; hx_modules_segment(attach->modules, k, &segment.start, &segment.end); k++)
        if (!hx_vec_push(&segments, segment)) {
            hx_vec_free(&segments);
            return hx_error_nomem();
        }
    struct hx_rtti_source source = {.range = segments.v,
                                    .n_ranges = segments.n,
                                    .read = read_module_memory,
                                    .has_namesake = has_namesake,
                                    .context = attach->modules};
    hx_error *err = hx_rtti(snapshot, &source, threads, progress);
    hx_vec_free(&segments);
    HX_TRY(err);
    struct hx_stopped_memory memory = {.attach = attach, .snapshot = snapshot};
    const struct hx_peek peek = {.read = hx_stopped_memory_read, .context = &memory};
    return hx_python_types(snapshot, attach->modules, &peek, threads, progress);
}

hx_error *hx_attach_debug_types(hx_attach *attach, struct hx_snapshot *snapshot,
                                uint64_t deadline_ns, const struct hx_progress *progress,
                                struct hx_debug_types *ret)
{
    return hx_debug_types_find(snapshot, attach->code, deadline_ns, progress, ret);
}

/* The number that a file of code has; HX_NO_FILE: none, or another one may be meant. */
static uint32_t find_code(const hx_code *code, const struct hx_loaded_file *file)
{
    const char *build_id = file->build_id ? file->build_id : "";
    uint32_t found = HX_NO_FILE;
    for (size_t i = 0, n = hx_code_count(code); i < n; i++) {
        if (strcmp(hx_code_path(code, (uint32_t)i), file->path) != 0 ||
            strcmp(hx_code_build_id(code, (uint32_t)i), build_id) != 0)
            continue;
        if (found != HX_NO_FILE)
            return HX_NO_FILE;
        found = (uint32_t)i;
    }
    return found;
}

hx_error *hx_attach_rename(hx_attach *attach, struct hx_snapshot *snapshot,
                           const struct hx_progress *progress)
{
    struct hx_reading *reading = hx_code_reading(attach->code);
    for (size_t i = 0; i < snapshot->loaded.n; i++)
        snapshot->loaded.v[i].code = find_code(attach->code, &snapshot->loaded.v[i]);
    hx_reading_listen(reading, progress);
    hx_error *err = hx_roots_rename(snapshot, NULL, attach->code, progress);
    hx_reading_listen(reading, NULL);
    return err;
}

hx_error *hx_attach_name_stacks(hx_attach *attach, struct hx_recording *backtraces,
                                const struct hx_progress *progress)
{
    for (size_t i = 0; i < backtraces->places.n; i++)
        if (!backtraces->places.v[i].language)
            hx_rec_place_free_lines(&backtraces->places.v[i]);
    return hx_recording_name_until(backtraces, attach->code, UINT64_MAX, progress);
}

void hx_attach_cache_types(hx_attach *attach)
{
    hx_code_cache_types(attach->code);
}

hx_error *hx_attach_program_roots(hx_attach *attach, struct hx_snapshot *snapshot,
                                  const struct hx_progress *progress, struct hx_program_roots *ret)
{
    struct hx_program_source source = {.snapshot = snapshot,
                                       .modules = attach->modules,
                                       .read_live = attach->ops->read_constant,
                                       .context = attach};
    hx_reading_listen(hx_modules_reading(attach->modules), progress);
    hx_error *err = hx_program_roots_find(&source, ret);
    hx_reading_listen(hx_modules_reading(attach->modules), NULL);
    if (err || !hx_progress_cancelled(progress))
        return err;
    hx_program_roots_deinit(ret);
    return hx_error_cancelled("roots");
}

void hx_attach_each_variable(hx_attach *attach, const char *module,
                             bool (*each)(void *context, const char *name), void *context)
{
    for (size_t i = 0; i < hx_modules_count(attach->modules); i++)
        if ((!module || strcmp(hx_module_name(attach->modules, i), module) == 0) &&
            !hx_module_each_variable(attach->modules, i, each, context))
            return;
}
