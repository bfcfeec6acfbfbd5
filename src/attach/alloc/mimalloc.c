/* mimalloc.c - mimalloc 2 and 3, 64 bit: its table of functions. */
#include "attach/alloc/mimalloc.h"
#include "attach/alloc/module_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_MAX = 4 };

struct state {
    uint64_t map;               /* of mimalloc 3; 0: it is mimalloc 2 */
    bool lost;                  /* it is there, and neither segments nor a map were found */
    int version;                /* as mi_version() tells it; 0: not known */
    size_t module;              /* that has it; SIZE_MAX: none is known */
    uint64_t data[DATA_MAX][2]; /* its variables */
    size_t n_data;
};

static bool is_library(const struct hx_alloc_target *target, size_t i)
{
    return strstr(hx_module_name(target->modules, i), "mimalloc") != NULL;
}

/* mi_version() returns a constant. */
static int read_version(const struct hx_alloc_target *target, uint64_t addr)
{
    uint8_t code[24];
    int32_t version;
    if (!hx_module_read(target->modules, addr, code, sizeof code))
        return 0;
    for (size_t i = 0; i + 5 < sizeof code; i++) {
        memcpy(&version, code + i + 1, sizeof version);
        if (code[i] == 0xb8 && version >= 100 && version < 100000)
            return version;
    }
    return 0;
}

/* Is there a segment in the first gigabytes of some mapping? */
static bool find_segment(const struct hx_alloc_target *target)
{
    enum { STEP_SHIFT = 25, PER_MAPPING = 1024, LOOKS = 8192 };
    const uint64_t step = UINT64_C(1) << STEP_SHIFT;
    int looks = 0;
    for (size_t i = 0; i < target->n_mappings; i++) {
        const struct hx_mapping *m = &target->mapping[i];
        if (!(m->prot & HX_PROT_W) || m->prot & HX_PROT_SHARED || m->device)
            continue;
        uint64_t at = (m->start + step - 1) & ~(step - 1);
        for (int n = 0; n < PER_MAPPING && at >= m->start && at < m->end; n++, at += step) {
            uint8_t bytes[HX_MI_HEADER_BYTES];
            if (looks++ == LOOKS)
                return false;
            if (!target->peek->read(target->peek->context, at, bytes, sizeof bytes))
                continue;
            for (size_t k = 0; k < hx_mi_n_layouts; k++)
                if (hx_mi_is_likely(&hx_mi_layouts[k], at, bytes))
                    return true;
        }
    }
    return false;
}

/* The module that exports mi_version; of a library, all of it is mimalloc's. */
static void find_module(const struct hx_alloc_target *target, struct state *state)
{
    uint64_t addr, size;
    for (size_t i = 0; i < hx_modules_count(target->modules); i++) {
        if (!hx_module_symbol(target->modules, i, "mi_version", &addr, &size))
            continue;
        state->module = i;
        state->version = read_version(target, addr);
        if (is_library(target, i))
            state->n_data = hx_module_data(target->modules, i, state->data, DATA_MAX);
        return;
    }
}

static bool is_version_2(int version)
{
    return version / 100 == 2 || version / 10000 == 2;
}

static bool is_loaded(const struct hx_alloc_target *target)
{
    for (size_t i = 0; i < hx_modules_count(target->modules); i++)
        if (is_library(target, i))
            return true;
    return false;
}

static hx_error *mimalloc_find(const struct hx_alloc_target *target,
                               struct hx_allocator_share *share, void **ret_state)
{
    char version[32];
    bool segment = find_segment(target);
    uint64_t map = segment ? 0 : hx_mi_find_map(target);
    *ret_state = NULL;
    if (!segment && !map && !is_loaded(target))
        return NULL;
    struct state *state = calloc(1, sizeof *state);
    HX_NEED(state);
    state->map = map;
    state->module = SIZE_MAX;
    find_module(target, state);
    /* of version 2 there is nothing as long as nobody calls malloc */
    if (!segment && !map && (!state->version || is_version_2(state->version))) {
        free(state);
        return NULL;
    }
    state->lost = !segment && !map;
    *ret_state = state;
    share->name = strdup("mimalloc");
    share->evidence = strdup(map ? "page map by its shape" : "segments by their shape");
    HX_NEED(share->name && share->evidence);
    if (state->module != SIZE_MAX)
        HX_NEED(share->module = strdup(hx_module_name(target->modules, state->module)));
    if (state->version) {
        hx_mi_name_version(version, sizeof version, state->version);
        HX_NEED(share->version = strdup(version));
    }
    return NULL;
}

static void mimalloc_end(void *state)
{
    free(state);
}

static hx_error *mimalloc_guard(void *context, const struct hx_alloc_target *target,
                                struct hx_guard *ret)
{
    static const char *const functions[][8] = {{"mi_malloc", "mi_free", "mi_realloc", "mi_collect",
                                                "_mi_malloc_generic", "_mi_os_alloc",
                                                "_mi_page_retire"}};
    const struct state *state = context;
    return state->module == SIZE_MAX
               ? NULL
               : hx_guard_module(target, state->module, "mimalloc", functions, 1, ret);
}

static hx_error *mimalloc_walk(void *state, struct hx_snapshot *snapshot,
                               struct hx_allocator_share *share, hx_ranges *excluded,
                               const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    const struct state *found = state;
    *ret = HX_WALK_OK;
    struct hx_mi_walk walk = {.snapshot = snapshot, .map = found->map};
    if (found->lost)
        return hx_mi_refuse(&walk, share);
    for (size_t i = 0; i < found->n_data; i++)
        HX_NEED(hx_vec_push(excluded, (struct hx_range){found->data[i][0], found->data[i][1]}));
    hx_slabs_init(&walk.slabs, snapshot);
    hx_error *err = hx_mi_walk_heap(&walk, share, excluded, progress, ret);
    hx_mi_walk_deinit(&walk);
    return err;
}

const struct hx_allocator hx_allocator_mimalloc = {.name = "mimalloc",
                                                   .linked = true,
                                                   .find = mimalloc_find,
                                                   .guard = mimalloc_guard,
                                                   .walk = mimalloc_walk,
                                                   .end = mimalloc_end};
