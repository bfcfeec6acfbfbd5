/* test_store_recording.c - recordings in the store: random ones over random heaps, several in one
 * store, compared with paths and sums that are worked out here from the stacks themselves. */
#define MODEL_LABEL 16384 /* names of sites are long */
#include "analysis_check.h"

#include "store/cost/attribution.h"
#include "store/write/write_recording.h"
#include "sym/demangle.h"
#include "traverse/diff.h"

#include <math.h>

/* --- programs ---------------------------------------------------------------------- */

enum { FILES = 5, PLACES = 14, MOST_STACKS = 24, MOST_FRAMES = 9 };

/* Names as hostile as names can be. */
static const char *const functions[] = {"main",
                                        "f",
                                        "std::operator< <int>",
                                        "'; DROP TABLE hx_ccs; --",
                                        "\x1b[31m",
                                        "caf\xc3\xa9",
                                        "",
                                        " < ",
                                        "<before attach>",
                                        "<unknown>",
                                        "MAIN",
                                        "\xff\xfe"};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* What code there is; recordings number parts of it in orders of their own. */
struct program {
    struct hx_rec_place place[PLACES];
};

static char *some_text(struct unit_random *random)
{
    return strdup(functions[unit_below(random, FUNCTIONS)]);
}

static void make_program(struct unit_random *random, struct program *program)
{
    for (size_t i = 0; i < PLACES; i++) {
        struct hx_rec_place *place = &program->place[i];
        *place = (struct hx_rec_place){
            .file = unit_below(random, 6) ? (uint32_t)unit_below(random, FILES) : UINT32_MAX,
            .allocator = unit_below(random, 4) == 0,
            .vaddr = unit_below(random, 9) ? 0x1000 + i * 16 : UINT64_MAX - i,
            .n_lines = unit_below(random, 4),
            .initialiser = unit_below(random, 6) ? 0 : (uint8_t)unit_below(random, 3),
            .recorder = unit_below(random, 12) == 0,
        };
        if (place->recorder) /* which is one file */
            place->file = 0;
        if (unit_below(random, 6) == 0) { /* a region is one line, and nobody's code */
            place->kind = HX_REC_REGION;
            place->allocator = place->recorder = false;
            place->initialiser = 0;
            place->n_lines = 1;
        }
        place->lines = calloc(place->n_lines + 1, sizeof *place->lines);
        assert_non_null(place->lines);
        for (size_t k = 0; k < place->n_lines; k++)
            place->lines[k] = (struct hx_rec_line){
                .function = unit_below(random, 4) ? some_text(random) : NULL,
                .source = unit_below(random, 2) ? some_text(random) : NULL,
                .line = (uint32_t)unit_below(random, 3),
                /* of a region: the function that it is in */
                .declared = unit_below(random, 2) ? some_text(random) : NULL,
                .declared_line = (uint32_t)unit_below(random, 3),
                .entered = unit_below(random, 4) == 0,
            };
        if (place->kind == HX_REC_REGION && place->file != UINT32_MAX) {
            free(place->lines[0]
                     .function); /* each is its own, whatever its label: told apart here */
            assert_true(asprintf(&place->lines[0].function, "region %zu", i) > 0);
        }
        for (size_t k = 0; k < place->n_lines; k++) /* the same function begins at one place */
            place->lines[k].entry =
                place->lines[k].function ? 0x100 : unit_below(random, 2) * 0x200;
    }
}

static void free_program(struct program *program)
{
    for (size_t i = 0; i < PLACES; i++) {
        for (size_t k = 0; k < program->place[i].n_lines; k++) {
            free(program->place[i].lines[k].function);
            free(program->place[i].lines[k].source);
            free(program->place[i].lines[k].declared);
        }
        free(program->place[i].lines);
    }
}

/* --- recordings -------------------------------------------------------------------- */

/* Files in the order that begins with `first`. */
static void add_files(struct hx_recording *recording, uint32_t first)
{
    for (uint32_t i = 0; i < FILES; i++) {
        struct hx_rec_file file = {0};
        uint32_t n = (first + i) % FILES;
        const char *name = n == 2 ? "\xff" : n == 3 ? "libc.so." : "lib";
        assert_true(asprintf(&file.path, "/lib/%s%u", name, n) > 0);
        assert_true(asprintf(&file.name, "%s%u", name, n) > 0);
        file.build_id = strdup(n == 1 ? "" : "00ff");
        assert_true(hx_vec_push(&recording->files, file));
    }
}

static void add_place(struct hx_recording *recording, const struct hx_rec_place *from,
                      uint32_t first)
{
    struct hx_rec_place place = *from;
    place.file = from->file == UINT32_MAX ? UINT32_MAX : (from->file + FILES - first) % FILES;
    place.lines = calloc(from->n_lines + 1, sizeof *place.lines);
    assert_non_null(place.lines);
    for (size_t k = 0; k < from->n_lines; k++) {
        place.lines[k] = from->lines[k];
        if (place.lines[k].function)
            place.lines[k].function = strdup(place.lines[k].function);
        if (place.lines[k].source)
            place.lines[k].source = strdup(place.lines[k].source);
        if (place.lines[k].declared)
            place.lines[k].declared = strdup(place.lines[k].declared);
    }
    assert_true(hx_vec_push(&recording->places, place));
}

/* Few places, so that stacks share beginnings, and some are the same but for the allocator. */
static void add_stack(struct unit_random *random, struct hx_recording *recording)
{
    struct hx_rec_stack stack = {.first = recording->stack_places.n,
                                 .n = (uint32_t)unit_below(random, MOST_FRAMES),
                                 .cut = unit_below(random, 5) == 0};
    size_t span = unit_below(random, 3) ? 3 : PLACES;
    for (uint32_t i = 0; i < stack.n; i++) {
        uint32_t place = (uint32_t)unit_below(random, span);
        if (unit_below(random, 12) == 0) { /* of some other one, or of one that is lost */
            struct hx_rec_place entered = {
                .kind = HX_REC_DEFERRED, .file = UINT32_MAX, .stack = HX_NO_STACK};
            if (recording->stacks.n && unit_below(random, 4))
                entered.stack = (uint32_t)unit_below(random, recording->stacks.n);
            place = (uint32_t)recording->places.n;
            assert_true(hx_vec_push(&recording->places, entered));
        }
        assert_true(hx_vec_push(&recording->stack_places, place));
    }
    assert_true(hx_vec_push(&recording->stacks, stack));
    struct hx_rec_costs costs = {0};
    if (unit_below(random, 5)) {
        costs.allocs = 1 + unit_below(random, 1000);
        costs.alloc_bytes = unit_below(random, 1 << 20);
        costs.frees = unit_below(random, costs.allocs + 1);
        costs.freed_bytes = unit_below(random, costs.alloc_bytes + 1);
        costs.live = costs.allocs - costs.frees;
        costs.live_bytes = costs.alloc_bytes - costs.freed_bytes;
        costs.alloc_class[0] = costs.alloc_bytes / 3;
        costs.alloc_class[3] = costs.alloc_bytes - costs.alloc_class[0];
        costs.freed_class[3] = costs.freed_bytes;
        costs.entries = unit_below(random, 3);
    }
    if (recording->sample_bytes) {
        costs.alloc_variance = (double)unit_below(random, 1 << 30);
        costs.live_variance = (double)unit_below(random, 1 << 20);
    }
    assert_true(hx_vec_push(&recording->costs, costs));
}

static void record(struct unit_random *random, const struct program *program, struct hx_snapshot *s)
{
    struct hx_recording *recording;
    uint32_t first = (uint32_t)unit_below(random, FILES), turn = (uint32_t)unit_below(random, 2);
    assert_done(hx_recording_create(&recording));
    s->recording = recording;
    recording->method = unit_below(random, 2) ? "run" : "probes";
    recording->from_start = unit_below(random, 2);
    recording->upper_bounds = unit_below(random, 3) == 0;
    recording->sample_bytes = unit_below(random, 4) ? 0 : 524288;
    recording->began_ns = 5000000000;
    recording->frozen_ns = 65000000000;
    recording->events = unit_below(random, 10000000);
    recording->lost_allocs = unit_below(random, 2);
    recording->lost_frees = 7 * unit_below(random, 2);
    recording->lost_entries = 5 * unit_below(random, 2);
    recording->cut_stacks = 3 * unit_below(random, 2);
    recording->full_stacks = 4 * unit_below(random, 2);
    recording->implied_frees = 5 * unit_below(random, 2);
    recording->lost_captures = 6 * unit_below(random, 2);
    recording->unbalanced_pops = unit_below(random, 3);
    add_files(recording, first);
    for (size_t i = 0; i < PLACES; i++)
        add_place(recording, &program->place[turn ? PLACES - 1 - i : i], first);
    for (uint64_t n = unit_below(random, MOST_STACKS); n > 0; n--)
        add_stack(random, recording);
    assert_done(hx_recording_check(recording));
}

/* Objects by site, as a join gives them; some kinds of them may lack. */
static void give_sites(struct unit_random *random, struct hx_snapshot *s)
{
    struct hx_graph *g = &s->graph;
    const struct hx_recording *recording = s->recording;
    size_t stacks = recording->stacks.n;
    for (size_t i = 0; i < stacks + 2; i++) {
        struct hx_site site = {.stack = i < stacks    ? (uint32_t)i
                                        : i == stacks ? HX_SITE_BEFORE
                                                      : HX_SITE_UNKNOWN};
        assert_true(asprintf(&site.label, "site %zu", i) > 0);
        assert_true(hx_vec_push(&s->sites, site));
    }
    assert_done(hx_big_reserve(&g->site_mem, (size_t)g->n * sizeof *g->site));
    assert_done(hx_big_reserve(&g->requested_mem, (size_t)g->n * sizeof *g->requested));
    g->site = g->site_mem.base;
    g->requested = g->requested_mem.base;
    bool unknown_sized = unit_below(random, 2);
    for (hx_obj i = 0; i < g->n; i++) {
        g->site[i] = (uint32_t)unit_below(random, s->sites.n);
        g->requested[i] = g->size[i] - unit_below(random, 9 < g->size[i] ? 9 : 1);
        if (g->site[i] == stacks || (g->site[i] > stacks && !unknown_sized))
            g->requested[i] = HX_NO_REQUEST;
        if (g->site[i] > stacks && unit_below(random, 3) == 0)
            g->site[i] = HX_NO_SITE;
    }
}

/* --- what has to come out ------------------------------------------------------------ */

struct expected {
    char *path;
    bool uncosted, lacks, entered;
    uint64_t entries, own[6], inherited[4];
    double alloc_variance, live_variance;
};
typedef HX_VEC(struct expected) expectation;

static struct expected *expect(expectation *all, const char *path)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->v[i].path, path) == 0)
            return &all->v[i];
    assert_true(hx_vec_push(all, ((struct expected){.path = strdup(path)})));
    return &all->v[all->n - 1];
}

static void free_expectation(expectation *all)
{
    for (size_t i = 0; i < all->n; i++)
        free(all->v[i].path);
    hx_vec_free(all);
}

/* What cost centres are chosen, and what becomes of recursion. */
struct choice {
    bool (*chosen)(const char *label); /* NULL: all */
    bool whole;
};

/* A cost-centre stack: what each centre is, MAIN left out. */
typedef HX_VEC(char *) centres;

static void drop_to(centres *stack, size_t n)
{
    while (stack->n > n)
        free(stack->v[--stack->n]);
}

/* The push rule. Owns the text. */
static void push(const struct choice *choice, centres *stack, char *what)
{
    for (size_t i = stack->n; i-- > 0;) {
        if (strcmp(stack->v[i], what) == 0 && (!choice->whole || i + 1 == stack->n)) {
            drop_to(stack, i + 1);
            free(what);
            return;
        }
    }
    assert_true(hx_vec_push(stack, what));
}

static const char *module_name(const struct hx_recording *r, const struct hx_rec_place *place)
{
    return place->file != UINT32_MAX ? r->files.v[place->file].name : "(unknown)";
}

static char *centre_text(const struct hx_recording *r, const struct hx_rec_place *place,
                         const char *kind, const char *label, const char *source)
{
    char *text;
    assert_true(asprintf(&text, "%s\x02%s\x02%s\x02%s\x02%s", label, module_name(r, place), source,
                         kind, place->file != UINT32_MAX ? r->files.v[place->file].path : "-") > 0);
    return text;
}

static void push_function(const struct choice *choice, const struct hx_recording *r,
                          const struct hx_rec_place *place, size_t line, centres *stack)
{
    static const struct hx_rec_line none;
    const struct hx_rec_line *is = line < place->n_lines ? &place->lines[line] : &none;
    bool region = place->kind == HX_REC_REGION, has = place->file != UINT32_MAX;
    const char *file = region ? is->source : is->declared;
    uint32_t number = region ? is->line : is->declared_line;
    char label[256], source[256];
    uint64_t at = is->entry ? is->entry : place->vaddr;
    if (is->function)
        snprintf(label, sizeof label, "%s", is->function);
    else if (has)
        snprintf(label, sizeof label, "%s+0x%llx", module_name(r, place), (unsigned long long)at);
    else
        snprintf(label, sizeof label, "0x%llx", (unsigned long long)at);
    if (file && number)
        snprintf(source, sizeof source, "%s:%u", file, number);
    else
        snprintf(source, sizeof source, "%s", file ? file : "-");
    if (!choice->chosen || choice->chosen(label))
        push(choice, stack, centre_text(r, place, region ? "region" : "function", label, source));
}

static const char *unseen_name(uint32_t number)
{
    return number == HX_SITE_BEFORE ? "<before attach>" : "<unknown>";
}

static void push_builtin(const struct choice *choice, const char *name, centres *stack)
{
    char *text;
    drop_to(stack, 0);
    assert_true(asprintf(&text,
                         "%s\x02<built-in>\x02-\x02"
                         "builtin\x02-",
                         name) > 0);
    push(choice, stack, text);
}

static void enter_caf(const struct choice *choice, const struct hx_recording *r,
                      const struct hx_rec_place *place, centres *stack)
{
    drop_to(stack, 0);
    push(choice, stack, centre_text(r, place, "caf", "CAF", "-"));
}

/* Is a region, at such a place, written in the function? */
static bool is_written_in(const struct hx_rec_place *region, const char *function)
{
    const char *name = region->n_lines ? region->lines[0].declared : NULL;
    if (region->kind != HX_REC_REGION || !name || !*name || !function)
        return false;
    for (size_t at = 0, n = strlen(name); at + n <= strlen(function); at++)
        if (memcmp(function + at, name, n) == 0 && (at == 0 || strchr(": ", function[at - 1])) &&
            (function[at + n] == 0 || strchr("(<.[ ", function[at + n])))
            return true;
    return false;
}

static bool equal(const char *a, const char *b)
{
    return strcmp(a ? a : "\x01", b ? b : "\x01") == 0;
}

/* Functions of `push`, from the outermost, that a place is in, too; each but the last is left by
 * the same call. */
static size_t shared_functions(const struct hx_rec_place *push, const struct hx_rec_place *at)
{
    for (size_t n = 0;; n++) {
        if (n == push->n_lines || n == at->n_lines)
            return n;
        const struct hx_rec_line *x = &push->lines[push->n_lines - n - 1];
        const struct hx_rec_line *y = &at->lines[at->n_lines - n - 1];
        if (n && (x[1].line != y[1].line || !equal(x[1].source, y[1].source)))
            return n;
        if (!x->function || !equal(x->function, y->function) || !equal(x->declared, y->declared) ||
            x->declared_line != y->declared_line)
            return n;
    }
}

/* How many functions of a place are outside of a region, by the pushes that were seen; 0: unknown.
 */
static size_t around_region(const struct hx_recording *r, const struct hx_rec_place *at,
                            uint32_t region, size_t above)
{
    size_t best = 0, nearest = 0;
    for (size_t i = 0; i < r->stacks.n && i < r->costs.n; i++) {
        const uint32_t *places = r->stack_places.v + r->stacks.v[i].first;
        uint32_t k = 1, n = r->stacks.v[i].n;
        while (k < n && r->places.v[places[k]].kind != HX_REC_CODE)
            k++;
        if (k >= n || places[0] != region || !r->costs.v[i].entries)
            continue;
        const struct hx_rec_place *push = &r->places.v[places[k]];
        size_t shared = shared_functions(push, at);
        nearest = shared > nearest ? shared : nearest;
        if (!shared || shared < push->n_lines)
            continue;
        bool inside = shared > above, best_inside = best > above;
        if (!best || inside > best_inside || (inside == best_inside && (shared < best) == inside))
            best = shared;
    }
    return best ? best : nearest;
}

/* Of marks behind a frame of several functions: does the next one go behind function `line`? */
static bool stands_here(const struct hx_recording *r, uint32_t frame, uint32_t mark, size_t line,
                        uint32_t *region, size_t *above, size_t *entered)
{
    const struct hx_rec_place *at = &r->places.v[frame], *is = &r->places.v[mark];
    size_t outside = at->n_lines - line, found = 0;
    if (is->kind == HX_REC_CODE)
        return false;
    if (is->kind == HX_REC_DEFERRED) {
        for (size_t i = *entered + 1; i < at->n_lines && !found; i++)
            found = at->lines[at->n_lines - 1 - i].entered ? i : 0;
        if (!found || found > outside)
            return false;
        *entered = outside;
        return true;
    }
    found = around_region(r, at, mark, *region == mark ? *above : 0);
    if (found ? found > outside : !is_written_in(is, at->lines[line].function))
        return false;
    *region = mark;
    *above = outside;
    return true;
}

/* The cost-centre stack of a recorded one; recursion is as deep as captured stacks are. */
static void attribute(const struct choice *choice, const struct hx_recording *r, uint32_t number,
                      centres *ret)
{
    drop_to(ret, 0);
    if (number >= r->stacks.n) {
        push_builtin(choice, unseen_name(number), ret);
        return;
    }
    const struct hx_rec_stack *stack = &r->stacks.v[number];
    const uint32_t *places = r->stack_places.v + stack->first;
    uint32_t inner = 0, near = 0;
    while (inner < stack->n && r->places.v[places[inner]].allocator)
        inner++;
    inner = inner == stack->n ? 0 : inner;
    while (near < stack->n &&
           (r->places.v[places[near]].allocator || r->places.v[places[near]].kind != HX_REC_CODE))
        near++;
    if (near < stack->n && r->places.v[places[near]].recorder) {
        push_builtin(choice, "<recorder>", ret);
        return;
    }
    if (stack->cut || !stack->n)
        push_builtin(choice, "<cut>", ret);
    bool pending = false;
    for (uint32_t i = stack->n; i-- > inner;) {
        const uint32_t frame = places[i];
        const struct hx_rec_place *place = &r->places.v[frame];
        bool runtime = strncmp(module_name(r, place), "libc.so", 7) == 0;
        if (place->kind == HX_REC_DEFERRED) {
            if (place->stack < number)
                attribute(choice, r, place->stack, ret);
            pending = false;
            continue;
        }
        size_t lines = place->n_lines ? place->n_lines : 1, above = 0, entered = 0;
        uint32_t region = UINT32_MAX;
        for (size_t line = lines; line-- > 0;) {
            bool code = place->kind == HX_REC_CODE;
            bool once = line + 1 == lines && place->initialiser == HX_REC_INITIALISES;
            if (code && (once || (pending && !runtime)))
                enter_caf(choice, r, place, ret);
            pending = (line == 0 && place->initialiser == HX_REC_CALLS_INITIALISER) ||
                      (pending && (!code || runtime));
            push_function(choice, r, place, line, ret);
            for (; lines > 1 && i > inner + (number < r->costs.n && r->costs.v[number].entries) &&
                   stands_here(r, frame, places[i - 1], line, &region, &above, &entered);
                 i--) {
                const struct hx_rec_place *mark = &r->places.v[places[i - 1]];
                if (mark->kind == HX_REC_REGION)
                    push_function(choice, r, mark, 0, ret);
                else if (mark->stack < number)
                    attribute(choice, r, mark->stack, ret);
                pending = pending && mark->kind == HX_REC_REGION;
            }
        }
    }
}

typedef void visit_fn(void *context, const char *path);

/* Each prefix of a recorded stack's, MAIN first; `path` ends as the whole. */
static void walk(const struct choice *choice, const struct hx_recording *r, uint32_t number,
                 visit_fn *visit, void *context, struct hx_text *path)
{
    centres stack = {0};
    attribute(choice, r, number, &stack);
    hx_text_clear(path);
    visit(context, hx_text_str(path));
    for (size_t i = 0; i < stack.n; i++) {
        hx_text_putf(path, "\x01%s", stack.v[i]);
        visit(context, hx_text_str(path));
    }
    drop_to(&stack, 0);
    hx_vec_free(&stack);
}

/* Do regions, up to the innermost, stand before the last function of the frame behind them? */
static bool is_around_more(const struct hx_recording *r, const uint32_t *places, uint32_t inner,
                           uint32_t behind)
{
    const struct hx_rec_place *frame = &r->places.v[places[behind]];
    size_t above = 0, entered = 0;
    uint32_t region = UINT32_MAX, i = behind;
    for (size_t line = frame->n_lines; line-- > 1 && frame->kind == HX_REC_CODE;)
        while (i > inner &&
               stands_here(r, places[behind], places[i - 1], line, &region, &above, &entered))
            i--;
    return i == inner;
}

/* Is the innermost frame a region, and chosen? Its entries are known then. */
static bool is_entered(const struct choice *choice, const struct hx_recording *r, uint32_t number)
{
    const struct hx_rec_stack *stack = &r->stacks.v[number];
    const uint32_t *places = r->stack_places.v + stack->first;
    uint32_t inner = 0, near = 0;
    while (inner < stack->n && r->places.v[places[inner]].allocator)
        inner++;
    while (near < stack->n &&
           (r->places.v[places[near]].allocator || r->places.v[places[near]].kind != HX_REC_CODE))
        near++;
    if (inner == stack->n || r->places.v[places[inner]].kind != HX_REC_REGION ||
        (near < stack->n && r->places.v[places[near]].recorder))
        return false;
    uint32_t behind = inner + 1;
    while (behind < stack->n && r->places.v[places[behind]].kind != HX_REC_CODE)
        behind++;
    if (!r->costs.v[number].entries && behind < stack->n &&
        is_around_more(r, places, inner, behind))
        return false;
    centres one = {0};
    push_function(choice, r, &r->places.v[places[inner]], 0, &one);
    bool chosen = one.n > 0;
    drop_to(&one, 0);
    hx_vec_free(&one);
    return chosen;
}

struct adding {
    expectation *all;
    uint64_t alloc_bytes, allocs, live_bytes, live;
};

static void add_inherited(void *context, const char *path)
{
    const struct adding *adding = context;
    struct expected *e = expect(adding->all, path);
    e->inherited[0] += adding->alloc_bytes;
    e->inherited[1] += adding->allocs;
    e->inherited[2] += adding->live_bytes;
    e->inherited[3] += adding->live;
}

static void expect_costs(const struct choice *choice, const struct hx_snapshot *s, expectation *all)
{
    const struct hx_recording *r = s->recording;
    struct hx_text path = {0};
    expect(all, "");
    for (uint32_t i = 0; i < r->stacks.n; i++) {
        const struct hx_rec_costs *c = &r->costs.v[i];
        if (!c->allocs)
            continue;
        struct adding adding = {all, c->alloc_bytes, c->allocs, c->live_bytes, c->live};
        walk(choice, r, i, add_inherited, &adding, &path);
        struct expected *e = expect(all, hx_text_str(&path));
        if (is_entered(choice, r, i)) {
            e->entered = true;
            e->entries += c->entries;
        }
        const uint64_t own[] = {c->alloc_bytes, c->allocs,     c->freed_bytes,
                                c->frees,       c->live_bytes, c->live};
        for (int k = 0; k < 6; k++)
            e->own[k] += own[k];
        e->alloc_variance += c->alloc_variance;
        e->live_variance += c->live_variance;
    }
    for (int unseen = 0; unseen < 2 && !r->sample_bytes && s->graph.site; unseen++) {
        struct adding adding = {.all = all};
        bool lacks = false;
        for (hx_obj i = 0; i < s->graph.n; i++) {
            uint32_t site = s->graph.site[i];
            uint32_t stack = site == HX_NO_SITE ? HX_SITE_UNKNOWN : s->sites.v[site].stack;
            if (stack != (unseen ? HX_SITE_UNKNOWN : HX_SITE_BEFORE))
                continue;
            adding.live++;
            lacks |= s->graph.requested[i] == HX_NO_REQUEST;
            adding.live_bytes += s->graph.requested[i];
        }
        if (!adding.live)
            continue;
        adding.live_bytes = lacks ? 0 : adding.live_bytes;
        walk(choice, r, unseen ? HX_SITE_UNKNOWN : HX_SITE_BEFORE, add_inherited, &adding, &path);
        struct expected *e = expect(all, hx_text_str(&path));
        e->uncosted = true;
        e->lacks = lacks;
        e->own[4] = adding.live_bytes;
        e->own[5] = adding.live;
    }
    hx_text_free(&path);
}

/* --- comparing ----------------------------------------------------------------------- */

/* The whole path of each cost-centre stack, as walk() writes it. */
#define PATHS                                                                                      \
    "WITH RECURSIVE path(ccs_id, path) AS (SELECT ccs_id, '' FROM ccs WHERE parent_id IS NULL"     \
    " UNION ALL SELECT c.ccs_id, p.path || char(1) || v.label || char(2) || v.module || char(2)"   \
    " || coalesce(v.source, '-') || char(2) || x.kind || char(2) || coalesce(f.path, '-')"         \
    " FROM path AS p JOIN hx_ccs AS c ON c.parent_id = p.ccs_id"                                   \
    " JOIN ccs AS v ON v.ccs_id = c.ccs_id JOIN hx_centre AS x ON x.centre = c.centre"             \
    " LEFT JOIN hx_file AS f ON f.file = x.file) "

static void put_number(struct hx_text *text, bool known, uint64_t n)
{
    if (known)
        hx_text_putf(text, "%llu|", (unsigned long long)n);
    else
        hx_text_puts(text, "NULL|");
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct expected *)a)->path, ((const struct expected *)b)->path);
}

static void check_costs(hx_store *store, int64_t id, const struct hx_snapshot *s,
                        const struct choice *choice)
{
    expectation all = {0};
    struct hx_text text = {0}, errors = {0};
    expect_costs(choice, s, &all);
    qsort(all.v, all.n, sizeof *all.v, by_path);
    for (size_t i = 0; i < all.n; i++) {
        const struct expected *e = &all.v[i];
        hx_text_putf(&text, "%s|", e->path);
        put_number(&text, e->entered, e->entries);
        for (int k = 0; k < 6; k++)
            put_number(&text, k == 5 || !e->uncosted || (k == 4 && !e->lacks), e->own[k]);
        for (int k = 0; k < 4; k++)
            put_number(&text, k == 3 || !e->uncosted || (k == 2 && !e->lacks), e->inherited[k]);
        hx_text_putc(&text, '\n');
        if (s->recording->sample_bytes)
            hx_text_putf(&errors, "%s|%.0f|%.0f|\n", e->path, floor(sqrt(e->alloc_variance) + 0.5),
                         floor(sqrt(e->live_variance) + 0.5));
    }
    char *found = tell_format(
        store,
        PATHS "SELECT path, entries, alloc_bytes, alloc_objects, freed_bytes, freed_objects,"
              " live_bytes, live_objects, inherited_alloc_bytes, inherited_alloc_objects,"
              " inherited_live_bytes, inherited_live_objects FROM costs JOIN path USING(ccs_id)"
              " WHERE snapshot = %d ORDER BY path",
        (int)id);
    assert_same_lines(found, hx_text_str(&text));
    free(found);
    found = tell_format(store,
                        PATHS "SELECT path, alloc_error_bytes, live_error_bytes FROM estimates"
                              " JOIN path USING(ccs_id) WHERE snapshot = %d ORDER BY path",
                        (int)id);
    assert_same_lines(found, hx_text_str(&errors));
    free(found);
    free_expectation(&all);
    hx_text_free(&text);
    hx_text_free(&errors);
}

static void nothing(void *context, const char *path)
{
    (void)context, (void)path;
}

static const char *module_of(const struct hx_recording *r, uint32_t number)
{
    if (number >= r->stacks.n)
        return "(unknown)";
    const struct hx_rec_stack *stack = &r->stacks.v[number];
    for (uint32_t i = 0; i < stack->n; i++) {
        const struct hx_rec_place *place = &r->places.v[r->stack_places.v[stack->first + i]];
        if (!place->allocator && place->kind == HX_REC_CODE)
            return module_name(r, place);
    }
    return "(unknown)";
}

static uint32_t stack_of(const struct hx_snapshot *s, hx_obj object)
{
    uint32_t site = s->graph.site[object];
    return site == HX_NO_SITE ? HX_SITE_UNKNOWN : s->sites.v[site].stack;
}

/* Object by object; the census follows from these. */
static void check_sites(hx_store *store, int64_t id, const struct hx_snapshot *s,
                        const struct choice *choice)
{
    struct hx_text text = {0}, path = {0};
    for (hx_obj i = 0; i < s->graph.n && s->graph.site; i++) {
        walk(choice, s->recording, stack_of(s, i), nothing, NULL, &path);
        hx_text_putf(&text, "%llu|", (unsigned long long)s->graph.addr[i]);
        put_number(&text, s->graph.requested[i] != HX_NO_REQUEST, s->graph.requested[i]);
        hx_text_putf(&text, "%s|\n", hx_text_str(&path));
    }
    char *found = tell_format(store,
                              PATHS "SELECT address, requested, path FROM objects"
                                    " JOIN path USING(ccs_id)"
                                    " WHERE snapshot = %d ORDER BY address",
                              (int)id);
    assert_same_lines(found, hx_text_str(&text));
    free(found);
    hx_text_free(&text);
    hx_text_free(&path);
}

static void check_modules(hx_store *store, int64_t id, const struct hx_snapshot *s)
{
    expectation all = {0};
    struct hx_text text = {0};
    for (hx_obj i = 0; i < s->graph.n && s->graph.site; i++) {
        struct expected *e = expect(&all, module_of(s->recording, stack_of(s, i)));
        e->own[0] += s->graph.size[i];
        e->own[1]++;
    }
    if (all.n)
        qsort(all.v, all.n, sizeof *all.v, by_path);
    for (size_t i = 0; i < all.n; i++)
        hx_text_putf(&text, "%s|%llu|%llu|\n", all.v[i].path, (unsigned long long)all.v[i].own[0],
                     (unsigned long long)all.v[i].own[1]);
    char *found = tell_format(
        store, "SELECT module, bytes, objects FROM modules WHERE snapshot = %d ORDER BY module",
        (int)id);
    assert_same_lines(found, hx_text_str(&text));
    free(found);
    hx_text_free(&text);
    free_expectation(&all);
}

/* What would go with all objects of a site. */
static void check_retained(hx_store *store, int64_t id, const struct hx_snapshot *loaded)
{
    const bool none[MODEL_MAX] = {false};
    bool scope[MODEL_MAX], reached[MODEL_MAX];
    struct hx_text text = {0};
    unsigned follows = model_follows(loaded, false);
    model_search(loaded, follows, UINT32_MAX, UINT32_MAX, none, scope);
    int64_t last = 0;
    for (hx_obj n = 0; n < loaded->graph.n; n++) {
        bool gone[MODEL_MAX] = {false};
        int64_t next = INT64_MAX; /* cost-centre stacks in their order */
        for (hx_obj i = 0; i < loaded->graph.n; i++) {
            int64_t ccs = loaded->sites.v[loaded->graph.site[i]].ccs_id;
            next = ccs > last && ccs < next ? ccs : next;
        }
        if (next == INT64_MAX)
            break;
        last = next;
        for (hx_obj i = 0; i < loaded->graph.n; i++)
            gone[i] = loaded->sites.v[loaded->graph.site[i]].ccs_id == next;
        model_search(loaded, follows, UINT32_MAX, UINT32_MAX, gone, reached);
        hx_text_putf(&text, "%lld|%llu|\n", (long long)next,
                     (unsigned long long)model_lost(loaded, scope, reached).bytes);
    }
    char *found = tell_format(
        store, "SELECT ccs_id, retained_bytes FROM sites WHERE snapshot = %d ORDER BY 1", (int)id);
    assert_same_lines(found, hx_text_str(&text));
    free(found);
    hx_text_free(&text);
}

/* What holds in every store. */
static void check_store(hx_store *store)
{
    assert_nothing(store, PATHS "SELECT path FROM path GROUP BY path HAVING count(*) > 1");
    assert_nothing(store, "SELECT f.frame_id FROM frames AS f JOIN frames AS p"
                          " ON p.frame_id = f.parent_id WHERE f.depth <> p.depth + 1");
    assert_nothing(store, "SELECT snapshot FROM hx_stack_cost WHERE alloc_bytes <>"
                          " alloc_s + alloc_m + alloc_l + alloc_x OR freed_bytes <>"
                          " freed_s + freed_m + freed_l + freed_x");
    assert_nothing(store, PATHS "SELECT ccs_id FROM ccs EXCEPT SELECT ccs_id FROM path");
    assert_nothing(store, "SELECT c.ccs_id FROM ccs AS c JOIN ccs AS p ON p.ccs_id = c.parent_id"
                          " WHERE c.depth <> p.depth + 1");
    assert_nothing(store, "SELECT snapshot FROM snapshots JOIN (SELECT snapshot, sum(bytes) AS b,"
                          " sum(objects) AS n FROM sites GROUP BY 1) USING(snapshot)"
                          " WHERE b <> heap_bytes OR n <> heap_objects");
    assert_nothing(store, "SELECT snapshot FROM snapshots JOIN (SELECT snapshot, sum(bytes) AS b,"
                          " sum(objects) AS n FROM modules GROUP BY 1) USING(snapshot)"
                          " WHERE b <> heap_bytes OR n <> heap_objects");
    assert_same_rows(store, "SELECT snapshot, ccs_id, bytes, objects FROM sites",
                     "SELECT snapshot, ccs_id, sum(bytes), count(*) FROM objects"
                     " WHERE ccs_id IS NOT NULL GROUP BY 1, 2");
    assert_same_rows(store,
                     "SELECT snapshot, kind, type, sum(bytes), sum(objects) FROM leaks"
                     " GROUP BY 1, 2, 3",
                     "SELECT snapshot, state, type, sum(bytes), count(*) FROM objects"
                     " WHERE state <> 'reachable' GROUP BY 1, 2, 3");
    assert_same_rows(store, "SELECT snapshot, ccs_id, bytes, objects FROM sites",
                     "SELECT s.snapshot, ccs_id, sum(s.bytes), sum(s.objects) FROM hx_stack_site"
                     " AS s JOIN hx_attributed USING(stack_id) GROUP BY 1, 2");
    assert_nothing(store, "SELECT stack_id FROM hx_stack EXCEPT SELECT stack_id FROM"
                          " hx_attributed");
    assert_nothing(store,
                   "SELECT s.snapshot FROM snapshots AS s WHERE"
                   " (SELECT sum(alloc_bytes) FROM stacks AS t WHERE t.snapshot = s.snapshot)"
                   " IS NOT (SELECT sum(alloc_bytes) FROM costs AS c"
                   " WHERE c.snapshot = s.snapshot AND alloc_bytes > 0)"
                   " AND EXISTS (SELECT 1 FROM costs AS c WHERE c.snapshot = s.snapshot"
                   " AND alloc_bytes > 0)");
    assert_nothing(store, "SELECT 1 FROM stacks WHERE site IS NULL");
    assert_nothing(store, "SELECT s.snapshot FROM snapshots AS s JOIN costs AS c USING(snapshot)"
                          " WHERE c.ccs_id = 1 AND c.inherited_alloc_bytes <> (SELECT"
                          " sum(alloc_bytes) FROM costs AS o WHERE o.snapshot = s.snapshot)");
    assert_nothing(store, "SELECT * FROM pages AS p WHERE census = 'site' AND NOT EXISTS (SELECT 1"
                          " FROM sites AS s WHERE s.snapshot = p.snapshot AND s.ccs_id = p.key)");
    assert_nothing(store, "SELECT * FROM retainer_members WHERE kind = 'site'"
                          " AND label NOT GLOB '#*' AND label NOT IN ('MAIN', '<recorder>')");
}

/* A filter on the site gives what SQLite itself would choose. */
static void check_filter(hx_store *store)
{
    for (int ccs = -1; ccs < 40; ccs += 3) {
        char one[160], other[160];
        snprintf(one, sizeof one, "SELECT snapshot, address FROM objects WHERE ccs_id = %d", ccs);
        snprintf(other, sizeof other, "SELECT snapshot, address FROM objects WHERE +ccs_id = %d",
                 ccs);
        assert_same_rows(store, one, other);
    }
    assert_same_rows(store, "SELECT snapshot, address FROM objects WHERE ccs_id IS NULL",
                     "SELECT snapshot, address FROM objects WHERE +ccs_id IS NULL");
}

/* --- tests --------------------------------------------------------------------------- */

static void check_losses(hx_store *store, int64_t id, const struct hx_recording *r)
{
    struct hx_text text = {0};
    const struct {
        const char *what;
        uint64_t n;
    } losses[] = {{"captured stacks lost", r->lost_captures},
                  {"events lost: allocations", r->lost_allocs},
                  {"events lost: entries of regions", r->lost_entries},
                  {"events lost: frees", r->lost_frees},
                  {"implied frees", r->implied_frees},
                  {"stacks cut", r->cut_stacks},
                  {"stacks without room", r->full_stacks}};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (losses[i].n)
            hx_text_putf(&text, "%s|%llu|\n", losses[i].what, (unsigned long long)losses[i].n);
    char *found = tell_format(
        store, "SELECT what, count FROM losses WHERE snapshot = %d ORDER BY what", (int)id);
    assert_same_lines(found, hx_text_str(&text));
    free(found);
    hx_text_free(&text);
    found = tell_format(store, "SELECT notes FROM snapshots WHERE snapshot = %d", (int)id);
    assert_non_null(strstr(found, r->from_start ? " from the start, " : " since 23:59:00 (UTC), "));
    assert_int_equal(strstr(found, "by probes") != NULL, strcmp(r->method, "probes") == 0);
    assert_int_equal(strstr(found, "live figures are upper bounds") != NULL,
                     r->lost_frees && !r->lost_allocs);
    assert_int_equal(strstr(found, "; allocations were lost: figures are lower bounds") != NULL,
                     r->lost_allocs && !r->lost_frees);
    assert_int_equal(strstr(found, "live figures may be too high or too low") != NULL,
                     r->lost_allocs && r->lost_frees);
    assert_int_equal(strstr(found, "left without its pop") != NULL, r->unbalanced_pops == 1);
    assert_int_equal(strstr(found, "; 2 regions were left without") != NULL,
                     r->unbalanced_pops == 2);
    assert_int_equal(strstr(found, "sampled every 524,288 bytes") != NULL, r->sample_bytes != 0);
    free(found);
}

static struct hx_snapshot *make_snapshot(struct unit_random *random, const struct program *program)
{
    struct hx_snapshot *s = model_to_analyse(random, 24);
    model_unjudge(s); /* it is in test_analysis, and older schemas know nothing of it */
    s->taken_at_ns = 86400 * INT64_C(1000000000);
    record(random, program, s);
    if (unit_below(random, 6))
        give_sites(random, s);
    return s;
}

static const struct choice default_choice;

static void check_snapshot(hx_store *store, int64_t id, const struct hx_snapshot *s,
                           const struct hx_analysis *analysis)
{
    struct hx_snapshot *loaded;
    check_costs(store, id, s, &default_choice);
    check_sites(store, id, s, &default_choice);
    check_modules(store, id, s);
    check_losses(store, id, s->recording);
    assert_done(hx_store_load(store, id, NULL, &loaded));
    assert_null(loaded->recording);
    assert_int_equal(loaded->graph.site != NULL, s->graph.site && s->graph.n);
    for (hx_obj i = 0; i < s->graph.n && s->graph.site; i++)
        assert_true(loaded->graph.requested[i] == s->graph.requested[i]);
    if (loaded->graph.site)
        check_retained(store, id, loaded);
    if (analysis->scheme != &hx_scheme_site || loaded->graph.site || !s->graph.n)
        check_all(store, id, loaded, analysis);
    struct hx_big bits; /* nothing has changed */
    assert_done(hx_diff_objects(loaded, loaded, NULL, &bits));
    for (hx_obj i = 0; i < loaded->graph.n; i++)
        assert_true(hx_diff_has(&bits, i));
    hx_big_free(&bits);
    hx_snapshot_destroy(loaded);
}

/* The same answer whether retainers by site were asked for at once or afterwards. */
static void check_scheme(hx_store *store, int64_t id, bool has_sites)
{
    struct hx_snapshot *loaded;
    struct hx_analysis analysis = {
        .scheme = &hx_scheme_site, .max_set = 4, .has_threads_as = true, .threads = 1};
    assert_done(hx_store_load(store, id, NULL, &loaded));
    if (has_sites || !loaded->graph.n) {
        assert_done(hx_store_revise(store, id, loaded, &analysis, HX_ANALYSE_EVER, NULL));
        check_all(store, id, loaded, &analysis);
    } else {
        assert_refused(hx_store_revise(store, id, loaded, &analysis, HX_ANALYSE_RETAINERS, NULL),
                       HX_E_FAIL, "nothing was recorded");
    }
    hx_snapshot_destroy(loaded);
}

static void recorded(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("recorded");
    char *directory = model_directory(), *path = model_path(directory, "store");
    for (size_t round = unit_rounds(60); round > 0; round--) {
        struct program program;
        struct hx_snapshot *s[3];
        struct hx_analysis analysis[3];
        hx_store *store;
        int64_t id;
        make_program(&random, &program);
        for (int i = 0; i < 3; i++) { /* each time opened anew */
            s[i] = make_snapshot(&random, &program);
            analysis[i] = some_analysis(&random);
            if (unit_below(&random, 3) == 0 && s[i]->graph.site)
                analysis[i].scheme = &hx_scheme_site;
            assert_done(hx_store_append(path, &store));
            assert_done(hx_store_add(store, s[i], &analysis[i], NULL, &id));
            assert_int_equal(id, i + 1);
            assert_done(hx_store_close(store));
        }
        assert_done(hx_store_open(path, &store));
        for (int i = 0; i < 3; i++)
            check_snapshot(store, i + 1, s[i], &analysis[i]);
        check_store(store);
        check_filter(store);
        for (int i = 0; i < 3; i++) /* in tables over those of the file */
            check_scheme(store, i + 1, s[i]->graph.site);
        check_store(store);
        assert_done(hx_store_close(store));
        for (int i = 0; i < 3; i++)
            hx_snapshot_destroy(s[i]);
        free_program(&program);
        assert_int_equal(unlink(path), 0);
    }
    free(path);
    model_remove(directory);
}

/* The same stacks in another store have the same identity, whatever their numbers are. */
static void two_stores(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("two_stores");
    for (size_t round = unit_rounds(20); round > 0; round--) {
        struct program program;
        hx_store *store[2];
        int64_t id;
        make_program(&random, &program);
        struct hx_snapshot *s = make_snapshot(&random, &program), *loaded[2];
        struct hx_snapshot *other = make_snapshot(&random, &program);
        assert_done(hx_store_temporary(&store[0]));
        assert_done(hx_store_temporary(&store[1]));
        assert_done(hx_store_add(store[0], s, NULL, NULL, &id));
        assert_done(hx_store_load(store[0], id, NULL, &loaded[0]));
        assert_done(hx_store_add(store[1], other, NULL, NULL, &id));
        assert_done(hx_store_add(store[1], s, NULL, NULL, &id));
        assert_done(hx_store_load_objects(store[1], id, NULL, &loaded[1]));
        struct hx_big bits;
        assert_done(hx_diff_objects(loaded[0], loaded[1], NULL, &bits));
        for (hx_obj i = 0; i < s->graph.n; i++) {
            assert_true(hx_diff_has(&bits, i));
            if (s->graph.site)
                assert_true(loaded[0]->sites.v[loaded[0]->graph.site[i]].identity ==
                            loaded[1]->sites.v[loaded[1]->graph.site[i]].identity);
        }
        hx_big_free(&bits);
        /* what is loaded has numbers of its store: it is nothing recorded for another one */
        assert_done(hx_store_add(store[0], loaded[1], NULL, NULL, &id));
        assert_nothing(store[0], "SELECT 1 FROM sites WHERE snapshot = 2");
        assert_nothing(store[0], "SELECT 1 FROM costs WHERE snapshot = 2");
        for (int i = 0; i < 2; i++) {
            assert_done(hx_store_close(store[i]));
            hx_snapshot_destroy(loaded[i]);
        }
        hx_snapshot_destroy(s);
        hx_snapshot_destroy(other);
        free_program(&program);
    }
}

static void not_recorded(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("not_recorded");
    struct hx_snapshot *s;
    hx_store *store;
    int64_t id;
    while (s = model_to_analyse(&random, 24), !s->graph.n)
        hx_snapshot_destroy(s);
    struct hx_analysis analysis = {.scheme = &hx_scheme_site, .max_set = 4, .has_threads_as = true};
    assert_done(hx_store_temporary(&store));
    assert_refused(hx_store_add(store, s, &analysis, NULL, &id), HX_E_FAIL, "heapx record");
    analysis.scheme = hx_schemes[0];
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    static const char *const views[] = {"sites", "modules", "ccs", "costs", "estimates"};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "SELECT * FROM %s", views[i]);
        assert_nothing(store, sql);
    }
    assert_nothing(store, "SELECT * FROM objects WHERE requested IS NOT NULL OR ccs_id IS NOT"
                          " NULL UNION ALL SELECT * FROM objects WHERE ccs_id = 0");
    assert_nothing(store, "SELECT * FROM leaks WHERE site IS NOT NULL");
    assert_done(hx_store_close(store));
    hx_snapshot_destroy(s);
}

/* --- schema 2 ------------------------------------------------------------------------ */

static void must_run(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
}

static char *golden_sql(int version)
{
    const char *source = getenv("HX_SRCDIR");
    char name[64];
    snprintf(name, sizeof name, "test/golden/store-schema-%d.sql", version);
    char *path = model_path(source ? source : ".", name);
    static char sql[1 << 16];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    sql[fread(sql, 1, sizeof sql - 1, file)] = 0;
    fclose(file);
    free(path);
    return sql;
}

/* Of a table of another store the columns that it has here, too. */
static void copy_table(void *context, const char *table)
{
    char *sql = sqlite3_mprintf("SELECT 'INSERT INTO %s(' || group_concat(name) || ') SELECT ' ||"
                                " group_concat(name) || ' FROM new.%s'"
                                " FROM pragma_table_info('%s', 'main')",
                                table, table, table);
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_prepare_v2(context, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    must_run(context, (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    sqlite3_free(sql);
}

/* A store of schema 2 with all that another one holds, which has no recording. */
static void make_schema_2(const char *path, const char *from)
{
    static const char *const same[] = {
        "hx_snapshot",  "hx_account", "hx_root",      "hx_loss",     "hx_block", "hx_column",
        "hx_type",      "hx_named",   "hx_bin",       "hx_retainer", "hx_set",   "hx_set_member",
        "hx_retention", "hx_census",  "hx_dominator", "hx_page"};
    sqlite3 *db;
    char *attach = sqlite3_mprintf("ATTACH %Q AS new", from);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    must_run(db, golden_sql(2));
    must_run(db, attach);
    must_run(db, MODEL_UNPACK);
    sqlite3_free(attach);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        copy_table(db, same[i]);
    copy_table(db, "hx_leak");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static char *schema_of(const char *path)
{
    hx_store *store;
    assert_done(hx_store_append(path, &store));
    char *text = tell_format(store, "SELECT type, name, tbl_name, sql FROM sqlite_schema"
                                    " ORDER BY type, name");
    assert_done(hx_store_close(store));
    return text;
}

/* Which older schemas have no place for. */
static void forget_newer(const char *path)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    must_run(db, "DELETE FROM hx_tree; DELETE FROM hx_entry");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void schema_2(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("schema_2");
    char *directory = model_directory();
    char *old = model_path(directory, "old"), *new = model_path(directory, "new");
    struct program program;
    make_program(&random, &program);
    struct hx_snapshot *s = model_to_analyse(&random, 24), *more = make_snapshot(&random, &program);
    model_unjudge(s);
    struct hx_analysis analysis = some_analysis(&random);
    hx_store *store, *fresh;
    int64_t id;
    assert_done(hx_store_append(new, &store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    assert_done(hx_store_close(store));
    make_schema_2(old, new);
    forget_newer(new);
    assert_done(hx_store_open(old, &store)); /* brought up to date on a copy */
    assert_done(hx_store_open(new, &fresh));
    assert_same_told(store, 1, fresh, 1);
    assert_nothing(store, "SELECT ccs_id FROM ccs UNION ALL SELECT ccs_id FROM costs UNION ALL"
                          " SELECT ccs_id FROM sites UNION ALL SELECT objects FROM modules");
    assert_done(hx_store_close(store));
    assert_done(hx_store_close(fresh));
    assert_done(hx_store_append(old, &store));
    assert_done(hx_store_add(store, more, &analysis, NULL, &id));
    check_snapshot(store, 2, more, &analysis);
    check_store(store);
    assert_done(hx_store_close(store));
    char *migrated = schema_of(old), *created = schema_of(new);
    assert_string_equal(migrated, created);
    free(migrated), free(created), free(old), free(new);
    hx_snapshot_destroy(s);
    hx_snapshot_destroy(more);
    free_program(&program);
    model_remove(directory);
}

/* --- schema 3 ------------------------------------------------------------------------ */

/* A program without what schema 3 did not know. */
static void make_plain(struct unit_random *random, struct program *program)
{
    make_program(random, program);
    for (size_t i = 0; i < PLACES; i++) {
        struct hx_rec_place *place = &program->place[i];
        place->kind = HX_REC_CODE;
        place->initialiser = 0;
        place->recorder = false;
        for (size_t k = 0; k < place->n_lines; k++) {
            free(place->lines[k].declared);
            place->lines[k].declared = NULL;
            place->lines[k].entry = 0;
        }
    }
}

static void forget_entered(struct hx_snapshot *s)
{
    for (size_t i = 0; i < s->recording->stack_places.n; i++) {
        uint32_t *place = &s->recording->stack_places.v[i];
        if (s->recording->places.v[*place].kind == HX_REC_DEFERRED)
            *place = 0;
    }
}

/* A store of schema 3 with what another one holds: figures by whole stacks, which were ccs_ids. */
static void make_schema_3(const char *path, const char *from)
{
    static const char *const same[] = {
        "hx_snapshot",  "hx_account",    "hx_root",      "hx_loss",   "hx_block",
        "hx_column",    "hx_type",       "hx_named",     "hx_bin",    "hx_set",
        "hx_retainer",  "hx_set_member", "hx_retention", "hx_census", "hx_dominator",
        "hx_recording", "hx_file"};
    sqlite3 *db;
    char *attach = sqlite3_mprintf("ATTACH %Q AS new", from);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    must_run(db, golden_sql(3));
    must_run(db, attach);
    must_run(db, MODEL_UNPACK);
    sqlite3_free(attach);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        copy_table(db, same[i]);
    copy_table(db, "hx_place");
    must_run(
        db, "INSERT INTO hx_leak SELECT * FROM new.hx_leak;"
            "INSERT INTO hx_stack SELECT stack_id, label, site, module, identity FROM new.hx_stack;"
            "INSERT INTO hx_ccs SELECT * FROM new.hx_frame;"
            "INSERT INTO hx_site SELECT snapshot, stack_id, bytes, objects, 7, 8"
            " FROM new.hx_stack_site;"
            "INSERT INTO hx_cost SELECT snapshot, stack_id, alloc_bytes, alloc_objects,"
            " freed_bytes, freed_objects, live_bytes, live_objects, 1, 1, 1, 1"
            " FROM new.hx_stack_cost;"
            "INSERT OR IGNORE INTO hx_cost SELECT DISTINCT snapshot, 1, 0, 0, 0, 0, 0, 0, 1,"
            " 1, 1, 1 FROM new.hx_recording;"
            "INSERT INTO hx_estimate SELECT c.snapshot, c.stack_id,"
            " CAST(round(sqrt(c.alloc_variance)) AS INTEGER),"
            " CAST(round(sqrt(c.live_variance)) AS INTEGER) FROM new.hx_stack_cost AS c"
            " JOIN new.hx_recording AS r USING(snapshot) WHERE r.sample_bytes");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#define STACK_FIGURES                                                                              \
    "SELECT snapshot, stack_id, alloc_bytes, alloc_objects, freed_bytes, freed_objects,"           \
    " live_bytes, live_objects, bytes, objects, site FROM stacks ORDER BY 1, 2"

static void schema_3(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("schema_3");
    char *directory = model_directory();
    char *old = model_path(directory, "old"), *new = model_path(directory, "new");
    for (size_t round = unit_rounds(20); round > 0; round--) {
        struct program program;
        struct hx_snapshot *s[2], *more;
        hx_store *store, *fresh;
        int64_t id;
        make_plain(&random, &program);
        struct hx_analysis analysis = some_analysis(&random);
        assert_done(hx_store_append(new, &store));
        for (int i = 0; i < 2; i++) {
            s[i] = make_snapshot(&random, &program);
            forget_entered(s[i]);
            assert_done(hx_store_add(store, s[i], &analysis, NULL, &id));
        }
        assert_done(hx_store_close(store));
        make_schema_3(old, new);
        assert_done(hx_store_open(old, &store)); /* brought up to date on a copy */
        assert_done(hx_store_open(new, &fresh));
        char *was = tell_format(fresh, STACK_FIGURES), *is = tell_format(store, STACK_FIGURES);
        assert_string_equal(is, was);
        free(was), free(is);
        check_store(store);
        assert_nothing(store, "SELECT 1 FROM sites WHERE retained_bytes <> 7");
        for (int i = 0; i < 2; i++)
            if (!s[i]->recording->sample_bytes) /* errors were rounded */
                check_costs(store, i + 1, s[i], &default_choice);
        assert_done(hx_store_close(store));
        assert_done(hx_store_close(fresh));
        more = make_snapshot(&random, &program);
        assert_done(hx_store_append(old, &store));
        assert_done(hx_store_add(store, more, &analysis, NULL, &id));
        check_snapshot(store, 3, more, &analysis);
        check_store(store);
        assert_done(hx_store_close(store));
        char *migrated = schema_of(old), *created = schema_of(new);
        assert_string_equal(migrated, created);
        free(migrated), free(created);
        for (int i = 0; i < 2; i++)
            hx_snapshot_destroy(s[i]);
        hx_snapshot_destroy(more);
        free_program(&program);
        assert_int_equal(unlink(old), 0);
        assert_int_equal(unlink(new), 0);
    }
    free(old), free(new);
    model_remove(directory);
}

/* --- schemas 5 and 6 ------------------------------------------------------------------------ */

/* A store of schema 5 or 6 with what another one holds of it: each of its tables, by its columns.
 */
static void make_old(int version, const char *path, const char *from)
{
    sqlite3 *db;
    sqlite3_stmt *table;
    char *attach = sqlite3_mprintf("ATTACH %Q AS new", from);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    must_run(db, golden_sql(version));
    must_run(db, attach);
    must_run(db, MODEL_UNPACK);
    sqlite3_free(attach);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT name FROM main.sqlite_schema WHERE type = 'table'",
                                        -1, &table, NULL),
                     SQLITE_OK);
    while (sqlite3_step(table) == SQLITE_ROW) {
        char *name = strdup((const char *)sqlite3_column_text(table, 0));
        copy_table(db, name);
        free(name);
    }
    sqlite3_finalize(table);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* All that it held is there, and of what it had no place for nothing is. */
static void from_schema(int version, const char *name)
{
    struct unit_random random = unit_random_begin(name);
    char *directory = model_directory();
    char *old = model_path(directory, "old"), *new = model_path(directory, "new");
    struct program program;
    make_program(&random, &program);
    struct hx_snapshot *s = make_snapshot(&random, &program);
    struct hx_analysis analysis = some_analysis(&random);
    hx_store *store;
    int64_t id;
    assert_done(hx_store_append(new, &store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    assert_done(hx_store_close(store));
    make_old(version, old, new);
    assert_done(hx_store_open(old, &store)); /* brought up to date on a copy */
    check_snapshot(store, 1, s, &analysis);
    check_store(store);
    if (version < 6)
        assert_nothing(store, "SELECT 1 FROM hx_snapshot WHERE started_at_ns IS NOT NULL");
    assert_nothing(store, "SELECT 1 FROM biography UNION ALL SELECT 1 FROM hx_module");
    assert_done(hx_store_close(store));
    assert_done(hx_store_append(old, &store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    check_snapshot(store, 2, s, &analysis);
    assert_done(hx_store_close(store));
    char *migrated = schema_of(old), *created = schema_of(new);
    assert_string_equal(migrated, created);
    free(migrated), free(created), free(old), free(new);
    hx_snapshot_destroy(s);
    free_program(&program);
    model_remove(directory);
}

static void schema_5(void **state)
{
    (void)state;
    from_schema(5, "schema_5");
}

static void schema_6(void **state)
{
    (void)state;
    from_schema(6, "schema_6");
}

/* Names of variables as stores had them up to schema 6, and others of the same name. */
static void set_names(struct hx_snapshot *s, bool written)
{
    static const char *const names[] = {"_ZN3app5cacheE",        "_ZL5cache", "cache", "r, 1",
                                        "_ZN3app5namesB5cxx11E", "_Zno"};
    for (size_t i = 0; i < s->roots.n; i++) {
        struct hx_root *root = &s->roots.v[i];
        const char *symbol = names[i * 7 % (sizeof names / sizeof *names)];
        if (root->kind != HX_ROOT_GLOBAL)
            continue;
        free(root->name);
        free(root->symbol);
        root->name = written ? hx_written_name(symbol) : strdup(symbol);
        root->symbol = written ? strdup(symbol) : NULL;
    }
}

/* Stores with the linker's names say afterwards what those that are made today do, and numbers of
 * sets that nothing was merged into stay. */
static void renamed(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("renamed");
    char *directory = model_directory();
    char *old = model_path(directory, "old"), *new = model_path(directory, "new"),
         *is = model_path(directory, "is");
    for (size_t round = unit_rounds(40); round > 0; round--) {
        struct hx_analysis analysis = some_analysis(&random);
        hx_store *store, *fresh;
        int64_t id;
        analysis.max_set = 0; /* a set of many can be one of few after it */
        assert_done(hx_store_append(new, &store));
        assert_done(hx_store_append(is, &fresh));
        for (int i = 0; i < 2; i++) {
            struct hx_snapshot *s = model_to_analyse(&random, 30);
            model_unjudge(s);
            s->has_resident = false; /* pages of two sets cannot be added */
            set_names(s, false);
            assert_done(hx_store_add(store, s, &analysis, NULL, &id));
            set_names(s, true);
            assert_done(hx_store_add(fresh, s, &analysis, NULL, &id));
            hx_snapshot_destroy(s);
        }
        char *was = tell_format(store, "SELECT set_id FROM retainers WHERE label NOT LIKE '%%_Z%%'"
                                       " AND label NOT LIKE '%%cache%%' ORDER BY 1");
        assert_done(hx_store_close(store));
        make_old(6, old, new);
        assert_done(hx_store_close(fresh));
        forget_newer(is);
        assert_done(hx_store_append(is, &fresh));
        assert_done(hx_store_open(old, &store));
        char *now = tell_format(store, "SELECT set_id FROM retainers WHERE label NOT LIKE '%%_Z%%'"
                                       " AND label NOT LIKE '%%cache%%'"
                                       " AND label NOT LIKE '%%names%%' ORDER BY 1");
        assert_string_equal(now, was);
        free(now), free(was);
        check_store(store);
        for (int i = 1; i <= 2; i++) {
            assert_same_told(store, i, fresh, i);
            was = tell_format(fresh,
                              "SELECT root_id, name, symbol FROM roots WHERE snapshot = %d"
                              " ORDER BY 1",
                              i);
            now = tell_format(store,
                              "SELECT root_id, name, symbol FROM roots WHERE snapshot = %d"
                              " ORDER BY 1",
                              i);
            assert_string_equal(now, was);
            free(now), free(was);
        }
        assert_nothing(store, "SELECT 1 FROM retainer_members WHERE label = 'app::cache'"
                              " AND symbol IS NOT '_ZN3app5cacheE'");
        assert_done(hx_store_close(store));
        assert_done(hx_store_close(fresh));
        /* sets are found again when one more snapshot comes */
        assert_done(hx_store_append(old, &store));
        struct hx_snapshot *s = model_to_analyse(&random, 30);
        set_names(s, true);
        assert_done(hx_store_add(store, s, &analysis, NULL, &id));
        assert_nothing(store, "SELECT 1 FROM hx_set GROUP BY key, members HAVING count(*) > 1");
        check_store(store);
        assert_done(hx_store_close(store));
        hx_snapshot_destroy(s);
        assert_int_equal(unlink(old), 0);
        assert_int_equal(unlink(new), 0);
        assert_int_equal(unlink(is), 0);
    }
    free(old), free(new), free(is);
    model_remove(directory);
}

/* --- other cost centres ---------------------------------------------------------------- */

static bool has_f(const char *label)
{
    return strchr(label, 'f') != NULL;
}

static bool has_no_f(const char *label)
{
    return strchr(label, 'f') == NULL;
}

#define ATTRIBUTED                                                                                 \
    "SELECT 'ccs', ccs_id, parent_id, depth, label, module, source, is_caf, 0, 0, 0 FROM ccs"      \
    " UNION ALL SELECT 'cost', snapshot, ccs_id, entries, alloc_bytes, alloc_objects, "            \
    "freed_bytes,"                                                                                 \
    " live_bytes, inherited_alloc_bytes, inherited_live_bytes, inherited_live_objects FROM costs"  \
    " UNION ALL SELECT 'estimate', snapshot, ccs_id, alloc_error_bytes, 0, 0, 0, 0, 0, 0, 0 FROM"  \
    " estimates UNION ALL SELECT 'site', snapshot, ccs_id, bytes, objects, 0, 0, 0, 0, 0, 0 FROM"  \
    " sites UNION ALL SELECT 'object', snapshot, address, ccs_id, 0, 0, 0, 0, 0, 0, 0 FROM"        \
    " objects ORDER BY 1, 2, 3, 4"

/* Of one snapshot, by a choice, against what it has to be. */
static void check_choice(hx_store *store, int64_t id, const struct hx_snapshot *s,
                         const struct choice *choice, const char *pattern)
{
    struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
    const char *idle = NULL;
    struct hx_snapshot *loaded;
    struct hx_analysis analysis = {
        .scheme = &hx_scheme_site, .max_set = 4, .has_threads_as = true, .threads = 1};
    how.pattern = &pattern;
    how.n_patterns = pattern != NULL;
    how.recursion = choice->whole ? HX_RECURSION_WHOLE : HX_RECURSION_TRUNCATES;
    assert_done(hx_store_attribute(store, id, &how, NULL, &idle));
    check_costs(store, id, s, choice);
    check_sites(store, id, s, choice);
    check_modules(store, id, s);
    assert_done(hx_store_load(store, id, NULL, &loaded));
    if (!loaded->graph.site) {
        hx_snapshot_destroy(loaded);
        return;
    }
    assert_nothing(store, "SELECT 1 FROM sites WHERE retained_bytes IS NOT NULL");
    assert_nothing(store, "SELECT 1 FROM pages WHERE census = 'site'");
    assert_done(hx_store_revise(store, id, loaded, &analysis, HX_ANALYSE_EVER, NULL));
    check_retained(store, id, loaded);
    check_all(store, id, loaded, &analysis);
    assert_nothing(store, "SELECT 1 FROM pages AS p WHERE census = 'site' AND NOT EXISTS (SELECT 1"
                          " FROM sites AS s WHERE s.snapshot = p.snapshot AND s.ccs_id = p.key)");
    hx_snapshot_destroy(loaded);
}

/* The same attribution again is the same in every number; another one is what it has to be; and
 * nothing of it is in the file. */
static void chosen(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("chosen");
    char *directory = model_directory(), *path = model_path(directory, "store");
    static const struct choice all_whole = {NULL, true}, some = {has_f, false},
                               others = {has_no_f, false}, some_whole = {has_f, true};
    for (size_t round = unit_rounds(40); round > 0; round--) {
        struct program program;
        struct hx_snapshot *s[2];
        hx_store *store;
        int64_t id;
        make_program(&random, &program);
        for (size_t i = 0; i < PLACES; i++) /* patterns over names choose no regions */
            program.place[i].kind = HX_REC_CODE;
        bool in_place = unit_below(&random, 3) == 0;
        assert_done(hx_store_append(path, &store));
        for (int i = 0; i < 2; i++) {
            struct hx_analysis analysis = some_analysis(&random);
            s[i] = make_snapshot(&random, &program);
            assert_done(hx_store_add(store, s[i], &analysis, NULL, &id));
        }
        if (!in_place) {
            assert_done(hx_store_close(store));
            assert_done(hx_store_open(path, &store));
        }
        struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
        char *before = tell_format(store, ATTRIBUTED);
        assert_done(hx_store_attribute(store, 0, &how, NULL, NULL));
        char *after = tell_format(store, ATTRIBUTED);
        assert_string_equal(after, before);
        free(after);
        check_choice(store, 2, s[1], &some, "f");
        check_choice(store, 1, s[0], &others, "!f");
        check_choice(store, 1, s[0], &all_whole, NULL);
        check_choice(store, 2, s[1], &some_whole, "f");
        if (in_place) { /* ends with the next snapshot */
            assert_done(hx_store_add(store, s[0], NULL, NULL, &id));
            check_costs(store, 3, s[0], &default_choice);
            check_sites(store, 3, s[0], &default_choice);
            check_store(store);
        }
        assert_done(hx_store_close(store));
        assert_done(hx_store_open(path, &store));
        after = tell_format(store, ATTRIBUTED);
        if (!in_place)
            assert_string_equal(after, before);
        check_costs(store, 1, s[0], &default_choice);
        assert_done(hx_store_close(store));
        free(before), free(after);
        for (int i = 0; i < 2; i++)
            hx_snapshot_destroy(s[i]);
        free_program(&program);
        assert_int_equal(unlink(path), 0);
    }
    free(path);
    model_remove(directory);
}

static void refused(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("refused");
    struct program program;
    struct hx_snapshot *s, *none;
    hx_store *store;
    int64_t id;
    const char *pattern = "(", *idle = NULL;
    struct hx_attribution how = {.pattern = &pattern, .n_patterns = 1};
    make_program(&random, &program);
    s = make_snapshot(&random, &program);
    none = model_to_analyse(&random, 24);
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, none, NULL, NULL, &id));
    assert_refused(hx_store_attribute(store, 0, &how, NULL, NULL), HX_E_ABSENT, "heapx record");
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    assert_refused(hx_store_attribute(store, 1, &how, NULL, NULL), HX_E_ABSENT, "heapx record");
    assert_refused(hx_store_attribute(store, 9, &how, NULL, NULL), HX_E_ABSENT, "snapshot 9");
    hx_error *err = hx_store_attribute(store, 2, &how, NULL, NULL);
    assert_true(err && err->kind == HX_E_USAGE);
    hx_error_free(err);
    check_costs(store, 2, s, &default_choice);
    pattern = "no function is called that";
    assert_done(hx_store_attribute(store, 2, &how, NULL, &idle));
    assert_ptr_equal(idle, pattern);
    assert_done(hx_store_close(store));
    hx_snapshot_destroy(s);
    hx_snapshot_destroy(none);
    free_program(&program);
}

/* --- threads ----------------------------------------------------------------------------- */

/* What threads did is stored without a recording, too, and beside one in the same tree. */
static void threads(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("threads");
    for (size_t round = unit_rounds(20); round > 0; round--) {
        struct program program;
        hx_store *store;
        int64_t id;
        struct hx_text text = {0}, path = {0};
        make_program(&random, &program);
        struct hx_snapshot *s = make_snapshot(&random, &program);
        s->backtraces = s->recording;
        s->recording = NULL;
        s->graph.site = NULL;
        if (unit_below(&random, 2))
            record(&random, &program, s);
        s->n_threads = 3;
        s->thread = calloc(s->n_threads, sizeof *s->thread);
        for (uint32_t i = 0; i < s->n_threads; i++) {
            size_t stacks = s->backtraces->stacks.n;
            uint32_t stack = stacks && i ? (uint32_t)unit_below(&random, stacks) : HX_NO_STACK;
            s->thread[i].tid = (pid_t)i + 7;
            snprintf(s->thread[i].comm, sizeof s->thread[i].comm, "worker %u", i);
            assert_true(hx_vec_push(&s->thread_stack, stack));
            hx_text_putf(&text, "%u|worker %u|", i + 7, i);
            if (stack == HX_NO_STACK) {
                hx_text_puts(&text, "NULL|\n");
                continue;
            }
            walk(&default_choice, s->backtraces, stack, nothing, NULL, &path);
            hx_text_putf(&text, "%s|\n", hx_text_str(&path));
        }
        assert_done(hx_store_temporary(&store));
        assert_done(hx_store_add(store, s, NULL, NULL, &id));
        char *found = tell_format(store, PATHS "SELECT tid, name, path FROM threads LEFT JOIN path"
                                               " USING(ccs_id) ORDER BY tid");
        assert_same_lines(found, hx_text_str(&text));
        free(found);
        assert_nothing(store, "SELECT 1 FROM threads WHERE (stack IS NULL) <> (stack_id IS NULL)"
                              " OR (stack_id IS NULL) <> (ccs_id IS NULL)");
        if (!s->recording)
            assert_nothing(store, "SELECT ccs_id FROM costs UNION SELECT ccs_id FROM sites");
        check_store(store);
        for (const struct hx_view *view = hx_views; view->name; view++) {
            struct hx_query query = {.view = view->name, .limit = -1, .snapshot = 1};
            hx_rows *rows;
            bool more = true;
            assert_done(hx_query_view(store, &query, &rows));
            while (more)
                assert_done(hx_rows_next(rows, &more));
            hx_rows_end(rows);
        }
        assert_done(hx_store_close(store));
        hx_text_free(&text);
        hx_text_free(&path);
        hx_snapshot_destroy(s);
        free_program(&program);
    }
}

/* --- damage -------------------------------------------------------------------------- */

/* A store that lies about its stacks and cost centres: an error or figures, but an end. */
static void damaged(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("damaged");
    static const char *const lies[] = {
        "DELETE FROM hx_ccs WHERE ccs_id = 2",
        "DELETE FROM hx_ccs",
        "UPDATE hx_ccs SET parent_id = ccs_id + 1",
        "UPDATE hx_ccs SET centre = 99999 WHERE ccs_id = (SELECT max(ccs_id) FROM hx_ccs)",
        "DELETE FROM hx_frame WHERE frame_id = 2",
        "UPDATE hx_frame SET parent_id = frame_id",
        "UPDATE hx_frame SET parent_id = frame_id + 1 WHERE frame_id > 1",
        "UPDATE hx_frame SET parent_id = 99999",
        "UPDATE hx_frame SET place = NULL WHERE frame_id > 4",
        "UPDATE hx_frame SET frame_id = 9223372036854775807 WHERE frame_id ="
        " (SELECT max(frame_id) FROM hx_frame)",
        "UPDATE hx_place SET kind = 2, target = 99999",
        "UPDATE hx_place SET kind = 2, target = (SELECT max(frame_id) FROM hx_frame)"
        " WHERE place > 4",
        "UPDATE hx_place SET kind = 3, centre = NULL WHERE place > 4",
        "UPDATE hx_place SET kind = 99, initialiser = -1",
        "UPDATE hx_place SET centre = 99999",
        "UPDATE hx_place SET centre = 2 WHERE place = 1",
        "DELETE FROM hx_centre",
        "DELETE FROM hx_centre WHERE centre > 5",
        "UPDATE hx_centre SET label = NULL, kind = 'x', identity = 0, file = 77",
        "UPDATE hx_centre SET centre = 9223372036854775807 WHERE centre = (SELECT max(centre) FROM"
        " hx_centre)",
        "DELETE FROM hx_attributed",
        "UPDATE hx_attributed SET ccs_id = 99999",
        "UPDATE hx_attributed SET ccs_id = -5",
        "UPDATE hx_attributed SET stack_id = stack_id + 1000000000000",
        "UPDATE hx_stack_cost SET stack_id = stack_id + 100000",
        "UPDATE hx_stack_cost SET alloc_bytes = 'x', live_bytes = -5, entries = 1e300",
        "UPDATE hx_stack_cost SET alloc_bytes = 9223372036854775807, live_objects ="
        " 9223372036854775807, alloc_variance = 1e308",
        "UPDATE hx_stack_site SET stack_id = stack_id - 5",
        "DELETE FROM hx_stack_site",
        "UPDATE hx_ccs SET parent_id = ccs_id",
        "UPDATE hx_ccs SET parent_id = 99999",
        "UPDATE hx_ccs SET centre = NULL WHERE ccs_id > 5",
        "UPDATE hx_ccs SET ccs_id = 9223372036854775807 WHERE ccs_id = (SELECT max(ccs_id) FROM"
        " hx_ccs)",
        "UPDATE hx_place SET file = 12345, vaddr = 'x', label = NULL",
        "UPDATE hx_place SET label = 'x' WHERE place = 1",
        "DELETE FROM hx_place",
        "DELETE FROM hx_file",
        "DELETE FROM hx_stack",
        "DELETE FROM hx_site",
        "UPDATE hx_stack SET label = zeroblob(9), site = NULL, identity = 'x'",
        "UPDATE hx_site SET ccs_id = ccs_id - 5",
        "DELETE FROM hx_column WHERE id % 64 = 14 AND id / 64 % 2",
        "UPDATE hx_column SET data = x'00' WHERE id % 64 = 13",
    };
    char *directory = model_directory(), *path = model_path(directory, "store");
    size_t step = !unit_quick() ? 1 : 5; /* some of them, when it has to be quick */
    for (size_t i = unit_below(&random, step); i < sizeof lies / sizeof *lies; i += step) {
        struct program program;
        hx_store *store;
        sqlite3 *db;
        int64_t id;
        struct hx_snapshot *loaded = NULL;
        struct hx_analysis analysis = {
            .scheme = &hx_scheme_site, .max_set = 4, .has_threads_as = true, .threads = 1};
        make_program(&random, &program);
        struct hx_snapshot *s = make_snapshot(&random, &program);
        assert_done(hx_store_append(path, &store));
        assert_done(hx_store_add(store, s, NULL, NULL, &id));
        assert_done(hx_store_close(store));
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        sqlite3_exec(db, lies[i], NULL, NULL, NULL);
        sqlite3_close(db);
        assert_done(hx_store_append(path, &store));
        hx_error_free(hx_store_add(store, s, NULL, NULL, &id));
        hx_error *err = hx_store_load(store, 1, NULL, &loaded);
        if (!err)
            hx_error_free(hx_store_revise(store, 1, loaded, &analysis, HX_ANALYSE_EVER, NULL));
        hx_error_free(err);
        for (int round = 0; round < 4; round++) { /* the last views are those of the overlay */
            const char *pattern = round & 2 ? "!f" : ".";
            struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
            how.pattern = &pattern;
            how.n_patterns = 1;
            how.recursion = round & 1 ? HX_RECURSION_WHOLE : HX_RECURSION_TRUNCATES;
            hx_error_free(hx_store_attribute(store, round & 1, &how, NULL, NULL));
        }
        err = NULL;
        for (const struct hx_view *view = hx_views; view->name; view++) {
            struct hx_query query = {.view = view->name, .limit = -1};
            hx_rows *rows;
            bool more = true;
            assert_done(hx_query_view(store, &query, &rows));
            while (!err && more) {
                err = hx_rows_next(rows, &more);
                if (err)
                    more = false;
            }
            hx_error_free(err);
            err = NULL;
            hx_rows_end(rows);
        }
        hx_error_free(hx_store_close(store));
        if (loaded)
            hx_snapshot_destroy(loaded);
        hx_snapshot_destroy(s);
        free_program(&program);
        assert_int_equal(unlink(path), 0);
    }
    free(path);
    model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded), cmocka_unit_test(two_stores), cmocka_unit_test(not_recorded),
        cmocka_unit_test(schema_2), cmocka_unit_test(schema_3),   cmocka_unit_test(schema_5),
        cmocka_unit_test(schema_6), cmocka_unit_test(renamed),    cmocka_unit_test(chosen),
        cmocka_unit_test(refused),  cmocka_unit_test(threads),    cmocka_unit_test(damaged),
    };
    return unit_run_some(tests);
}
