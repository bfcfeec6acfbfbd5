/* glibc_layout.c - where glibc's allocator keeps its fields, by version (64 bit). */
#include "attach/alloc/glibc.h"

/* 2.17 to 2.22; then attached_threads came (2.23), have_fastchunks (2.27), and the fastbins
 * went (2.43). */
static const struct hx_glibc_state_shape state_2_17 = {.fastbins = 8,
                                                       .n_fastbins = 10,
                                                       .top = 88,
                                                       .last_remainder = 96,
                                                       .bins = 104,
                                                       .next = 2152,
                                                       .system_mem = 2168,
                                                       .size = 2184};
static const struct hx_glibc_state_shape state_2_23 = {.fastbins = 8,
                                                       .n_fastbins = 10,
                                                       .top = 88,
                                                       .last_remainder = 96,
                                                       .bins = 104,
                                                       .next = 2152,
                                                       .attached = 2168,
                                                       .system_mem = 2176,
                                                       .size = 2192};
static const struct hx_glibc_state_shape state_2_27 = {.fastbins = 16,
                                                       .n_fastbins = 10,
                                                       .top = 96,
                                                       .last_remainder = 104,
                                                       .bins = 112,
                                                       .next = 2160,
                                                       .attached = 2176,
                                                       .system_mem = 2184,
                                                       .size = 2200};
static const struct hx_glibc_state_shape state_2_43 = {.top = 8,
                                                       .last_remainder = 16,
                                                       .bins = 24,
                                                       .next = 2072,
                                                       .attached = 2088,
                                                       .system_mem = 2096,
                                                       .size = 2112};

/* In the order in which a search prefers them. */
const struct hx_glibc_state_shape *const hx_glibc_state_shapes[] = {&state_2_27, &state_2_23,
                                                                    &state_2_17, &state_2_43};
const size_t hx_glibc_n_state_shapes = sizeof hx_glibc_state_shapes / sizeof *hx_glibc_state_shapes;

/* max_total_mem went in 2.24, the tcache came in 2.26, huge pages in 2.35, thp_mode in 2.43. */
static const struct hx_glibc_param_shape param_2_17 = {
    .n_mmaps = 40, .mmapped_mem = 56, .sbrk_base = 80, .size = 88};
static const struct hx_glibc_param_shape param_2_24 = {
    .n_mmaps = 40, .mmapped_mem = 56, .sbrk_base = 72, .size = 80};
static const struct hx_glibc_param_shape param_2_26 = {
    .n_mmaps = 40, .mmapped_mem = 56, .sbrk_base = 72, .tcache = 80, .size = 112};
static const struct hx_glibc_param_shape param_2_35 = {.hp_pagesize = 48,
                                                       .n_mmaps = 60,
                                                       .mmapped_mem = 80,
                                                       .sbrk_base = 96,
                                                       .tcache = 104,
                                                       .size = 136};
static const struct hx_glibc_param_shape param_2_43 = {.hp_pagesize = 56,
                                                       .n_mmaps = 68,
                                                       .mmapped_mem = 88,
                                                       .sbrk_base = 104,
                                                       .tcache = 112,
                                                       .size = 144};

/* One-byte counts, two-byte counts (2.30), free slots and bins for large chunks (2.42). */
static const struct hx_glibc_tcache_shape tcache_none = {0};
static const struct hx_glibc_tcache_shape tcache_2_26 = {.n = 64, .count_size = 1, .size = 576};
static const struct hx_glibc_tcache_shape tcache_2_30 = {.n = 64, .count_size = 2, .size = 640};
static const struct hx_glibc_tcache_shape tcache_2_42 = {
    .n = 76, .count_size = 2, .slots = true, .size = 760};

const struct hx_glibc_layout hx_glibc_layouts[] = {
    {.first = 17,
     .last = 22,
     .state = &state_2_17,
     .param = &param_2_17,
     .tcache = &tcache_none,
     .heap_info = 32},
    {.first = 23,
     .last = 23,
     .state = &state_2_23,
     .param = &param_2_17,
     .tcache = &tcache_none,
     .heap_info = 32},
    {.first = 24,
     .last = 25,
     .state = &state_2_23,
     .param = &param_2_24,
     .tcache = &tcache_none,
     .heap_info = 32},
    {.first = 26,
     .last = 26,
     .state = &state_2_23,
     .param = &param_2_26,
     .tcache = &tcache_2_26,
     .heap_info = 32},
    {.first = 27,
     .last = 29,
     .state = &state_2_27,
     .param = &param_2_26,
     .tcache = &tcache_2_26,
     .heap_info = 32},
    {.first = 30,
     .last = 31,
     .state = &state_2_27,
     .param = &param_2_26,
     .tcache = &tcache_2_30,
     .heap_info = 32},
    {.first = 32,
     .last = 34,
     .state = &state_2_27,
     .param = &param_2_26,
     .tcache = &tcache_2_30,
     .heap_info = 32,
     .safe_linking = true},
    {.first = 35,
     .last = 41,
     .state = &state_2_27,
     .param = &param_2_35,
     .tcache = &tcache_2_30,
     .heap_info = 48,
     .safe_linking = true},
    {.first = 42,
     .last = 42,
     .state = &state_2_27,
     .param = &param_2_35,
     .tcache = &tcache_2_42,
     .heap_info = 48,
     .safe_linking = true},
    {.first = 43,
     .last = 43,
     .state = &state_2_43,
     .param = &param_2_43,
     .tcache = &tcache_2_42,
     .heap_info = 48,
     .safe_linking = true,
     .mmapped_header = true},
};
const size_t hx_glibc_n_layouts = sizeof hx_glibc_layouts / sizeof *hx_glibc_layouts;

const struct hx_glibc_layout *hx_glibc_layout_of(int minor)
{
    for (size_t i = 0; i < hx_glibc_n_layouts; i++)
        if (minor >= hx_glibc_layouts[i].first && minor <= hx_glibc_layouts[i].last)
            return &hx_glibc_layouts[i];
    /* A newer one: most probably as the newest that is known. */
    if (minor > hx_glibc_layouts[hx_glibc_n_layouts - 1].last)
        return &hx_glibc_layouts[hx_glibc_n_layouts - 1];
    return NULL;
}

bool hx_glibc_proven(int minor)
{
    return minor == 31 || minor == 36 || minor == 41 || minor == 43;
}
