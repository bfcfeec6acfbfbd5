/* jemalloc_layout.c - offsets in jemalloc's structures, and its size classes. */
#include "attach/alloc/jemalloc.h"

#define LAYOUT_52                                                                                  \
    .lg_page = 12, .internal = 104, .bin_regs = 160, .bin_slabs = 200, .bin_current = 112,         \
    .bin_full = 128, .base_mutex = 16, .base_blocks = 144, .lock = 64,                             \
    .cache_bins = HX_JEMALLOC_SIZES, .state_shift = 16, .state_bits = 2, .szind_shift = 18

#define LAYOUT_53                                                                                  \
    .flat_bins = true, .stacks = true, .bin_bytes = 224, .bin_regs = 136, .bin_slabs = 176,        \
    .bin_current = 192, .bin_full = 216, .base_mutex = 32, .base_blocks = 160, .state_shift = 17,  \
    .state_bits = 3, .szind_shift = 20

const struct hx_jemalloc_layout hx_jemalloc_layouts[] = {
    {.first = 50300,
     .last = 50300,
     .lg_page = 12,
     LAYOUT_53,
     .lock = 64,
     .cache_self = 152,
     .cache_bins = 73,
     .internal = 56,
     .caches = 10400,
     .nactive = 10656,
     .large = 10528,
     .base = 78936,
     .bins = 78952,
     .mutex = {10408, 10536, 10728, 30168, 49608, 69080, 78768}},
    {.first = 50300,
     .last = 50300,
     .lg_page = 16,
     LAYOUT_53,
     .lock = 64,
     .cache_self = 200,
     .cache_bins = 73,
     .internal = 56,
     .caches = 9632,
     .nactive = 9888,
     .large = 9760,
     .base = 73512,
     .bins = 73528,
     .mutex = {9640, 9768, 9960, 27848, 45736, 63656, 73344}},
    {.first = 50301,
     .last = 50301,
     .lg_page = 12,
     LAYOUT_53,
     .lock = 72,
     .unrounded = true,
     .cache_self = 216,
     .cache_bins = 41,
     .internal = 72,
     .caches = 11984,
     .nactive = 12296,
     .large = 12112,
     .base = 80648,
     .bins = 80704,
     .mutex = {11992, 12120, 12352, 31792, 51232, 70704, 80472}},
    {.first = 50201,
     .last = 50201,
     LAYOUT_52,
     .bin_bytes = 280,
     .caches = 10192,
     .nactive = 10344,
     .large = 10352,
     .base = 29480,
     .bins = 29192,
     .mutex = {10200, 10360, 10472, 15440, 20408, 28952, 29080}},
    {.first = 50200,
     .last = 50200,
     LAYOUT_52,
     .bin_bytes = 272,
     .caches = 7032,
     .nactive = 7192,
     .large = 7200,
     .base = 26328,
     .bins = 26040,
     .mutex = {7040, 7208, 7320, 12288, 17256, 25800, 25928}},
};
const size_t hx_jemalloc_n_layouts = sizeof hx_jemalloc_layouts / sizeof *hx_jemalloc_layouts;

unsigned hx_jemalloc_bins(const struct hx_jemalloc_layout *layout)
{
    return 36 + 4 * (layout->lg_page - 12);
}

/* 8, then four classes to each doubling: 16 to 64, 80 to 128, 160 to 256, ... */
uint64_t hx_jemalloc_size(unsigned szind)
{
    if (szind == 0)
        return 8;
    unsigned group = (szind - 1) / 4, step = (szind - 1) % 4 + 1;
    return group ? (UINT64_C(32) << group) + ((uint64_t)step << (group + 3)) : 16 * step;
}
