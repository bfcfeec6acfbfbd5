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
    {VICTIM, false, 0x1810, {{"parse_value", "parse.c", 88}}},
    /* 15 */
    {VICTIM, false, 0x1850, {{"parse_list", "parse.c", 52}}},
    {VICTIM, false, 0x4010, {{"nightly report", "report.c", 30}}},
    {VICTIM, false, 0x1900, {{"query_rows", "report.c", 12}}},
    {VICTIM, false, 0x1940, {{"run_report", "report.c", 31}}},
    {VICTIM, false, 0x1a00, {{"submit_index", "pool.c", 70}}},
    /* 20 */
    {VICTIM, false, 0x1a40, {{"build_index", "index.c", 14}}},
    {VICTIM, false, 0x1a80, {{"worker_loop", "pool.c", 25}}},
    {LIBC, false, 0x89134, {{"start_thread", "pthread_create.c", 442}}},
    {VICTIM, false, 0x1b00, {{"_GLOBAL__sub_I_defaults", "defaults.cc", 5}}},
    {VICTIM, false, 0x1b40, {{"read_defaults()", "defaults.cc", 21}}},
    /* 25 */
    {UINT32_MAX, false, 0, {{NULL, NULL, 0}}},
    {LIBC, false, 0x108db7, {{"epoll_wait", "epoll_wait.c", 30}}},
};
enum { REGION = 16, DEFERRED = 25, INITIALISER = 23 };

#define WALKS 40 /* frames of a recursion */

static const struct drawn_stack {
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
    /* two functions that call each other, a region, and where it was entered */
    {false, {0, 14, 15, 14, 15, 14, 10, 11, 12, -1}},
    {false, {0, 17, 16, 18, 10, 11, 12, -1}},
    {false, {16, 18, 10, 11, 12, -1}},
    /* a stack that was captured, and what was done for it by a worker; an initialiser */
    {false, {19, 9, 10, 11, 12, -1}},
    {false, {0, 20, 25, 21, 22, -1}},
    {false, {0, 24, 23, 12, -1}},
};
enum {
    STACKS = sizeof stacks / sizeof *stacks,
    PARSED = 7,
    REPORTED,
    ENTERED,
    CAPTURED,
    INDEXED,
    SET
};

/* Where the threads stood. */
static const struct drawn_stack standing[] = {
    {false, {2, 9, 10, 11, 12, -1}},
    {false, {26, 21, 22, -1}},
};

static char *copy(const char *text)
{
    char *made = text ? strdup(text) : NULL;
    if (text && !made)
        must(hx_error_nomem());
    return made;
}

static void add_places(struct hx_recording *recording)
{
    for (uint32_t i = 0; i < FILES; i++) {
        struct hx_rec_file file = {copy(files[i]), copy(files[i]), copy("c0ffee")};
        if (!hx_vec_push(&recording->files, file))
            must(hx_error_nomem());
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct hx_rec_place place = {.file = places[i].file,
                                     .kind = i == REGION     ? HX_REC_REGION
                                             : i == DEFERRED ? HX_REC_DEFERRED
                                                             : HX_REC_CODE,
                                     .stack = i == DEFERRED ? CAPTURED : HX_NO_STACK,
                                     .initialiser = i == INITIALISER ? HX_REC_INITIALISES
                                                                     : HX_REC_NOT_INITIALISER,
                                     .allocator = places[i].allocator,
                                     .vaddr = places[i].vaddr,
                                     .lines = calloc(3, sizeof *place.lines)};
        if (!place.lines)
            must(hx_error_nomem());
        for (; place.n_lines < 3 && places[i].lines[place.n_lines].function; place.n_lines++) {
            const char *source = places[i].lines[place.n_lines].source;
            uint32_t line = places[i].lines[place.n_lines].line;
            place.lines[place.n_lines] = (struct hx_rec_line){
                .function = copy(places[i].lines[place.n_lines].function),
                .source = copy(source),
                .line = line,
                .declared = copy(source),
                .declared_line = line - line % 10, /* a function begins somewhere above */
                .entry = place.n_lines ? 0 : places[i].vaddr & ~(uint64_t)0x3f};
        }
        if (!hx_vec_push(&recording->places, place))
            must(hx_error_nomem());
    }
}

static void add_frames(struct hx_recording *recording, uint32_t place, int times)
{
    for (; times > 0; times--)
        if (!hx_vec_push(&recording->stack_places, place))
            must(hx_error_nomem());
}

static struct hx_rec_stack add_stack(struct hx_recording *recording,
                                     const struct drawn_stack *drawn)
{
    struct hx_rec_stack stack = {.first = recording->stack_places.n, .cut = drawn->cut};
    for (int k = 0; drawn->place[k] != -1; k++)
        add_frames(recording, (uint32_t)drawn->place[drawn->place[k] == -2 ? k - 1 : k],
                   drawn->place[k] == -2 ? WALKS - 1 : 1);
    stack.n = (uint32_t)(recording->stack_places.n - stack.first);
    return stack;
}

static void add_stacks(struct hx_recording *recording, unsigned number)
{
    for (size_t i = 0; i < STACKS; i++) {
        struct hx_rec_stack stack = add_stack(recording, &stacks[i]);
        struct hx_rec_costs costs = {.allocs = 1000 * (i + 1) * number,
                                     .alloc_bytes = 40961 * (i + 1) * number,
                                     .frees = 900 * (i + 1) * number,
                                     .freed_bytes = 36000 * (i + 1) * number};
        if (i == ENTERED || i == CAPTURED)
            costs = (struct hx_rec_costs){.entries = i == ENTERED ? 12 * number : 0};
        if (i == SET) /* once, and never again */
            costs = (struct hx_rec_costs){.allocs = 3, .alloc_bytes = 3000};
        costs.live = costs.allocs - costs.frees;
        costs.live_bytes = costs.alloc_bytes - costs.freed_bytes;
        if (!hx_vec_push(&recording->stacks, stack) || !hx_vec_push(&recording->costs, costs))
            must(hx_error_nomem());
    }
}

/* Which stack made an object. */
static uint32_t site_of(const struct hx_snapshot *snapshot, hx_obj i)
{
    const struct hx_graph *graph = &snapshot->graph;
    const char *type = graph->type[i] == HX_NO_TYPE ? "" : snapshot->types.v[graph->type[i]].name;
    uint64_t size = graph->size[i];
    if (strcmp(type, "cache::node") == 0) {
        static const uint32_t sites[] = {PARSED, REPORTED, INDEXED, INDEXED, SET};
        return i % 16 < 5 ? sites[i % 16] : 0;
    }
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
            must(hx_error_nomem());
    }
    must(hx_big_reserve(&graph->site_mem, (size_t)graph->n * sizeof *graph->site));
    must(hx_big_reserve(&graph->requested_mem, (size_t)graph->n * sizeof *graph->requested));
    graph->site = graph->site_mem.base;
    graph->requested = graph->requested_mem.base;
    for (hx_obj i = 0; i < graph->n; i++) {
        graph->site[i] = site_of(snapshot, i);
        graph->requested[i] = graph->site[i] < STACKS ? graph->size[i] - i % 8 : HX_NO_REQUEST;
    }
}

static void draw_threads(struct hx_snapshot *snapshot)
{
    static const char *const names[] = {"victim", "worker\x1b[5m", "lost"};
    enum { THREADS = sizeof names / sizeof *names };
    struct hx_recording *stacks_of;
    must(hx_recording_create(&stacks_of));
    snapshot->backtraces = stacks_of;
    add_places(stacks_of);
    stacks_of->places.v[DEFERRED].stack = HX_NO_STACK;
    snapshot->thread = calloc(THREADS, sizeof *snapshot->thread);
    if (!snapshot->thread)
        must(hx_error_nomem());
    snapshot->n_threads = THREADS;
    for (uint32_t i = 0; i < THREADS; i++) {
        bool known = i < sizeof standing / sizeof *standing;
        snapshot->thread[i].tid = 4242 + (int)i;
        snprintf(snapshot->thread[i].comm, sizeof snapshot->thread[i].comm, "%s", names[i]);
        if (known && !hx_vec_push(&stacks_of->stacks, add_stack(stacks_of, &standing[i])))
            must(hx_error_nomem());
        if (known && !hx_vec_push(&stacks_of->costs, (struct hx_rec_costs){0}))
            must(hx_error_nomem());
        if (!hx_vec_push(&snapshot->thread_stack, known ? i : HX_NO_STACK))
            must(hx_error_nomem());
    }
}

void draw_recording(struct hx_snapshot *snapshot, unsigned number)
{
    struct hx_recording *recording;
    must(hx_recording_create(&recording));
    snapshot->recording = recording;
    recording->method = "probes";
    recording->began_ns = 5000000000;
    recording->frozen_ns = 65000000000 + number * 1000000000;
    recording->events = 1234567 * (uint64_t)number;
    recording->lost_frees = number == 2 ? 12 : 0;
    recording->upper_bounds = recording->lost_frees;
    add_places(recording);
    add_stacks(recording, number);
    must(hx_recording_check(recording));
    give_sites(snapshot);
    draw_threads(snapshot);
}
