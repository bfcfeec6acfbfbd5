/* module_data.c - the variables of modules at once, and what guards the code around them. */
#include "attach/alloc/module_data.h"

#include <stdlib.h>

enum { BLOCK = 1 << 16 };
static const uint64_t cheap_max = UINT64_C(16) << 20, segment_max = UINT64_C(256) << 20;
static const uint64_t library_max = UINT64_C(1) << 20;

/* What cannot be read was never written. */
static void read_data(struct hx_module_data *data)
{
    const struct hx_peek *peek = data->target->peek;
    for (uint64_t at = 0, len; at < data->len; at += len) {
        len = BLOCK - (data->start + at) % BLOCK;
        len = len < data->len - at ? len : data->len - at;
        if (!hx_peek_read(peek, data->start + at, data->bytes + at, len))
            hx_peek_pages(peek, data->start + at, data->bytes + at, len);
    }
}

static bool is_worth_it(const struct hx_alloc_target *target, size_t module, uint64_t len,
                        uint64_t min, const char *function)
{
    uint64_t addr, size;
    return len >= min && len <= segment_max &&
           (len <= cheap_max || hx_module_symbol(target->modules, module, function, &addr, &size));
}

hx_error *hx_module_data_search(const struct hx_alloc_target *target, uint64_t min,
                                const char *function,
                                bool (*examine)(void *context, const struct hx_module_data *data),
                                void *context, bool *ret)
{
    enum { RANGES = 16 };
    uint64_t range[RANGES][2];
    *ret = false;
    for (size_t i = 0; i < hx_modules_count(target->modules); i++) {
        size_t n = hx_module_data(target->modules, i, range, RANGES);
        for (size_t k = 0; k < n && !*ret; k++) {
            struct hx_module_data data = {.target = target, .module = i, .start = range[k][0]};
            data.len = range[k][1] > range[k][0] ? range[k][1] - range[k][0] : 0;
            if (!is_worth_it(target, i, data.len, min, function))
                continue;
            HX_NEED(data.bytes = malloc(data.len));
            read_data(&data);
            *ret = examine(context, &data);
            free(data.bytes);
        }
    }
    return NULL;
}

static hx_error *guard_functions(const struct hx_alloc_target *target, size_t module,
                                 const char *const names[8], struct hx_guard *ret)
{
    uint64_t low = UINT64_MAX, high = 0, addr, size;
    for (size_t i = 0; names[i]; i++)
        if (hx_module_symbol(target->modules, module, names[i], &addr, &size)) {
            low = addr < low ? addr : low;
            high = addr + size > high ? addr + size : high;
        }
    if (low >= high || high - low > library_max)
        return NULL;
    return hx_guard_lockless(ret, (struct hx_range){low, high});
}

hx_error *hx_guard_module(const struct hx_alloc_target *target, size_t module, const char *library,
                          const char *const (*functions)[8], size_t n, struct hx_guard *ret)
{
    bool own = strstr(hx_module_name(target->modules, module), library) != NULL;
    for (size_t i = 0; own && i < target->n_mappings; i++) {
        const struct hx_mapping *mapping = &target->mapping[i];
        if (mapping->prot & HX_PROT_X && hx_modules_find(target->modules, mapping->start) == module)
            HX_TRY(hx_guard_lockless(ret, (struct hx_range){mapping->start, mapping->end}));
    }
    for (size_t k = 0; !own && k < n; k++)
        HX_TRY(guard_functions(target, module, functions[k], ret));
    return NULL;
}
