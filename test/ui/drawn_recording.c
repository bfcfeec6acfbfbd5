/* drawn_recording.c - who allocated the drawn heap, the same in every run. */
#include "drawing.h"

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VICTIM, LIBC, LIBSTDCXX, EVIL, FILES };

static const char *const files[FILES] = {"victim", "libc.so.6", "libstdc++.so.6",
                                         "lib\x1b[31mred.so"};

static const struct {
    uint32_t file;
    bool allocator;
    uint64_t vaddr;
    struct {
        const char *function, *source;
        uint32_t line;
    } lines[3]; /* innermost first */
} places[] = {
    /* 0 */ {LIBC, true, 0x97a40, {{"malloc", NULL, 0}}},
    {LIBSTDCXX, true, 0xb4de0, {{"operator new(unsigned long)", NULL, 0}}},
    {VICTIM, false, 0x1150, {{"cache_put", "cache.c", 41}}},
    {VICTIM, false, 0x1290, {{"load_table", "/home/anna/victim/src/storage/table.c", 118}}},
    {VICTIM,
     false,
     0x1402,
     {{"std::make_unique<net::session<std::string> >()", "/usr/include/c++/12/bits/unique_ptr.h",
       1065},
      {"net::session<std::string>::open(int)", "session.cc", 77},
      {"net::server::accept(std::vector<int, std::allocator<int> > const&)", "session.cc", 140}}},
    /* 5 */
    {VICTIM,
     false,
     0x1512,
     {{"std::__new_allocator<char>::allocate(unsigned long, void const*)",
       "/usr/include/c++/12/bits/new_allocator.h", 137},
      {"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
       " std::operator+<char>(char const*, std::__cxx11::basic_string<char> const&)",
       "/usr/include/c++/12/bits/basic_string.h", 3541},
      {"(anonymous namespace)::greet(int)::{lambda()#1}::operator()() const", "session.cc", 12}}},
    {VICTIM, false, 0x1600, {{"walk", "walk.c", 9}}},
    {EVIL, false, 0x2000, {{"it's \x1b[2J\xe2\x80\xaeliave", "\x1b]0;owned\x07.c", 1}}},
    {EVIL, false, 0x2468, {{NULL, NULL, 0}}},
    {VICTIM, false, 0x1777, {{"serve(int)", "main.cc", 20}}},
    /* 10 */
    {VICTIM, false, 0x1799, {{"main", "main.cc", 33}}},
    {LIBC, false, 0x271ca, {{"__libc_start_call_main", "libc_start_call_main.h", 58}}},
    {VICTIM, false, 0x1080, {{"_start", NULL, 0}}},
    {UINT32_MAX, false, 0x7f0000400010, {{NULL, NULL, 0}}},
};

#define WALKS 40 /* frames of a recursion */

static const struct {
    bool cut;
    int place[10]; /* ends with -1; the place before -2 comes WALKS times */
} stacks[] = {
    {false, {0, 2, 9, 10, 11, 12, -1}},
    {false, {0, 3, 10, 11, 12, -1}},
    {false, {1, 4, 9, 10, 11, 12, -1}},
    {false, {1, 5, 9, 10, 11, 12, -1}},
    {false, {0, 6, -2, 10, 11, 12, -1}},
    {true, {0, 7, 8, 13, -1}},
    {true, {-1}},
};
enum { STACKS = sizeof stacks / sizeof *stacks };

static char *copy(const char *text)
{
    char *made = text ? strdup(text) : NULL;
    if (text && !made)
        die(hx_error_nomem());
    return made;
}

static void add_places(struct hx_recording *recording)
{
    for (uint32_t i = 0; i < FILES; i++) {
        struct hx_rec_file file = {copy(files[i]), copy(files[i]), copy("c0ffee")};
        if (!hx_vec_push(&recording->files, file))
            die(hx_error_nomem());
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct hx_rec_place place = {.file = places[i].file,
                                     .allocator = places[i].allocator,
                                     .vaddr = places[i].vaddr,
                                     .lines = calloc(3, sizeof *place.lines)};
        if (!place.lines)
            die(hx_error_nomem());
        for (; place.n_lines < 3 && places[i].lines[place.n_lines].function; place.n_lines++)
            place.lines[place.n_lines] = (struct hx_rec_line){
                copy(places[i].lines[place.n_lines].function),
                copy(places[i].lines[place.n_lines].source), places[i].lines[place.n_lines].line};
        if (!hx_vec_push(&recording->places, place))
            die(hx_error_nomem());
    }
}

static void add_frames(struct hx_recording *recording, uint32_t place, int times)
{
    for (; times > 0; times--)
        if (!hx_vec_push(&recording->stack_places, place))
            die(hx_error_nomem());
}

static void add_stacks(struct hx_recording *recording, unsigned number)
{
    for (size_t i = 0; i < STACKS; i++) {
        struct hx_rec_stack stack = {.first = recording->stack_places.n, .cut = stacks[i].cut};
        for (int k = 0; stacks[i].place[k] != -1; k++)
            add_frames(recording, (uint32_t)stacks[i].place[stacks[i].place[k] == -2 ? k - 1 : k],
                       stacks[i].place[k] == -2 ? WALKS - 1 : 1);
        stack.n = (uint32_t)(recording->stack_places.n - stack.first);
        struct hx_rec_costs costs = {.allocs = 1000 * (i + 1) * number,
                                     .alloc_bytes = 40961 * (i + 1) * number,
                                     .frees = 900 * (i + 1) * number,
                                     .freed_bytes = 36000 * (i + 1) * number};
        costs.live = costs.allocs - costs.frees;
        costs.live_bytes = costs.alloc_bytes - costs.freed_bytes;
        if (!hx_vec_push(&recording->stacks, stack) || !hx_vec_push(&recording->costs, costs))
            die(hx_error_nomem());
    }
}

/* Which stack made an object. */
static uint32_t site_of(const struct hx_snapshot *snapshot, hx_obj i)
{
    const struct hx_graph *graph = &snapshot->graph;
    const char *type = graph->type[i] == HX_NO_TYPE ? "" : snapshot->types.v[graph->type[i]].name;
    uint64_t size = graph->size[i];
    if (strcmp(type, "cache::node") == 0)
        return 0;
    if (strcmp(type, "block") == 0 || size == 4096)
        return 1;
    if (strncmp(type, "net::session", 12) == 0)
        return 2;
    if (size == 40)
        return 4;
    if (size >= 1000)
        return size >= 1016 ? STACKS : 5; /* from before */
    if (size == 72 || size == 120)
        return size == 72 ? 6 : STACKS + 1;
    return size >= 200 ? 3 : 0;
}

static void give_sites(struct hx_snapshot *snapshot)
{
    struct hx_graph *graph = &snapshot->graph;
    for (uint32_t i = 0; i < STACKS + 2; i++) {
        struct hx_site site = {.stack = i < STACKS    ? i
                                        : i == STACKS ? HX_SITE_BEFORE
                                                      : HX_SITE_UNKNOWN};
        if (asprintf(&site.label, "site %u", i) < 0 || !hx_vec_push(&snapshot->sites, site))
            die(hx_error_nomem());
    }
    die(hx_big_reserve(&graph->site_mem, (size_t)graph->n * sizeof *graph->site));
    die(hx_big_reserve(&graph->requested_mem, (size_t)graph->n * sizeof *graph->requested));
    graph->site = graph->site_mem.base;
    graph->requested = graph->requested_mem.base;
    for (hx_obj i = 0; i < graph->n; i++) {
        graph->site[i] = site_of(snapshot, i);
        graph->requested[i] = graph->site[i] < STACKS ? graph->size[i] - i % 8 : HX_NO_REQUEST;
    }
}

void draw_recording(struct hx_snapshot *snapshot, unsigned number)
{
    struct hx_recording *recording;
    die(hx_recording_create(&recording));
    snapshot->recording = recording;
    recording->method = "probes";
    recording->began_ns = 5000000000;
    recording->frozen_ns = 65000000000 + number * 1000000000;
    recording->events = 1234567 * (uint64_t)number;
    recording->lost_frees = number == 2 ? 12 : 0;
    recording->upper_bounds = recording->lost_frees;
    add_places(recording);
    add_stacks(recording, number);
    die(hx_recording_check(recording));
    give_sites(snapshot);
}
