/* test_store_recording.c - recordings in the store: random ones over random heaps, several in one
 * store, compared with paths and sums that are worked out here from the stacks themselves. */
#define MODEL_LABEL 16384 /* names of sites are long */
#include "analysis_check.h"

#include "store/recording.h"
#include "traverse/diff.h"

#include <math.h>

/* --- programs ---------------------------------------------------------------------- */

enum { FILES = 4, PLACES = 14, MOST_STACKS = 24, MOST_FRAMES = 9 };

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
        };
        place->lines = calloc(place->n_lines + 1, sizeof *place->lines);
        assert_non_null(place->lines);
        for (size_t k = 0; k < place->n_lines; k++)
            place->lines[k] = (struct hx_rec_line){
                .function = unit_below(random, 4) ? some_text(random) : NULL,
                .source = unit_below(random, 2) ? some_text(random) : NULL,
                .line = (uint32_t)unit_below(random, 3),
            };
    }
}

static void free_program(struct program *program)
{
    for (size_t i = 0; i < PLACES; i++) {
        for (size_t k = 0; k < program->place[i].n_lines; k++) {
            free(program->place[i].lines[k].function);
            free(program->place[i].lines[k].source);
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
        assert_true(asprintf(&file.path, "/lib/%s%u", n == 2 ? "\xff" : "lib", n) > 0);
        assert_true(asprintf(&file.name, "%s%u", n == 2 ? "\xff" : "lib", n) > 0);
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
    for (uint32_t i = 0; i < stack.n; i++)
        assert_true(hx_vec_push(&recording->stack_places, (uint32_t)unit_below(random, span)));
    assert_true(hx_vec_push(&recording->stacks, stack));
    struct hx_rec_costs costs = {0};
    if (unit_below(random, 5)) {
        costs.allocs = 1 + unit_below(random, 1000);
        costs.alloc_bytes = unit_below(random, 1 << 20);
        costs.frees = unit_below(random, costs.allocs + 1);
        costs.freed_bytes = unit_below(random, costs.alloc_bytes + 1);
        costs.live = costs.allocs - costs.frees;
        costs.live_bytes = costs.alloc_bytes - costs.freed_bytes;
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
    recording->cut_stacks = 3 * unit_below(random, 2);
    recording->full_stacks = 4 * unit_below(random, 2);
    recording->implied_frees = 5 * unit_below(random, 2);
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
    bool uncosted, lacks;
    uint64_t own[6], inherited[4];
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

static void put_function(const struct hx_recording *r, const struct hx_rec_place *place,
                         size_t line, struct hx_text *path)
{
    const struct hx_rec_line *known = line < place->n_lines ? &place->lines[line] : NULL;
    bool has = place->file != UINT32_MAX;
    const char *module = has ? r->files.v[place->file].name : "(unknown)";
    hx_text_puts(path, "\x01");
    if (known && known->function)
        hx_text_puts(path, known->function);
    else if (has)
        hx_text_putf(path, "%s+0x%llx", module, (unsigned long long)place->vaddr);
    else
        hx_text_putf(path, "0x%llx", (unsigned long long)place->vaddr);
    hx_text_putf(path, "\x02%s\x02", module);
    if (known && known->source && known->line)
        hx_text_putf(path, "%s:%u", known->source, known->line);
    else
        hx_text_puts(path, known && known->source ? known->source : "-");
    hx_text_putf(path, "\x02%lld\x02%s", (long long)place->vaddr,
                 has ? r->files.v[place->file].path : "-");
    hx_text_putf(path, "\x02%zu", place->n_lines ? place->n_lines - 1 - line : 0);
}

typedef void visit_fn(void *context, const char *path);

/* Each node of a stack, MAIN first. */
static void walk(const struct hx_recording *r, uint32_t number, visit_fn *visit, void *context,
                 struct hx_text *path)
{
    hx_text_clear(path);
    visit(context, hx_text_str(path));
    const char *builtin = number == HX_SITE_BEFORE     ? "<before attach>"
                          : number >= r->stacks.n      ? "<unknown>"
                          : r->stacks.v[number].cut    ? "<cut>"
                          : r->stacks.v[number].n == 0 ? "<cut>"
                                                       : NULL;
    if (builtin) {
        hx_text_putf(path, "\x01%s\x02<built-in>\x02-\x02", builtin);
        hx_text_putf(path, "%d\x02-\x02-1",
                     *builtin == '<' && builtin[1] == 'b'   ? 1
                     : *builtin == '<' && builtin[1] == 'u' ? 2
                                                            : 3);
        visit(context, hx_text_str(path));
    }
    if (number >= r->stacks.n)
        return;
    const struct hx_rec_stack *stack = &r->stacks.v[number];
    uint32_t inner = 0;
    while (inner < stack->n && r->places.v[r->stack_places.v[stack->first + inner]].allocator)
        inner++;
    inner = inner == stack->n ? 0 : inner;
    for (uint32_t i = stack->n; i-- > inner;) {
        const struct hx_rec_place *place = &r->places.v[r->stack_places.v[stack->first + i]];
        for (size_t line = place->n_lines ? place->n_lines : 1; line-- > 0;) {
            put_function(r, place, line, path);
            visit(context, hx_text_str(path));
        }
    }
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

static void expect_costs(const struct hx_snapshot *s, expectation *all)
{
    const struct hx_recording *r = s->recording;
    struct hx_text path = {0};
    expect(all, "");
    for (uint32_t i = 0; i < r->stacks.n; i++) {
        const struct hx_rec_costs *c = &r->costs.v[i];
        if (!c->allocs)
            continue;
        struct adding adding = {all, c->alloc_bytes, c->allocs, c->live_bytes, c->live};
        walk(r, i, add_inherited, &adding, &path);
        struct expected *e = expect(all, hx_text_str(&path));
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
        walk(r, unseen ? HX_SITE_UNKNOWN : HX_SITE_BEFORE, add_inherited, &adding, &path);
        struct expected *e = expect(all, hx_text_str(&path));
        e->uncosted = true;
        e->lacks = lacks;
        e->own[4] = adding.live_bytes;
        e->own[5] = adding.live;
    }
    hx_text_free(&path);
}

/* --- comparing ----------------------------------------------------------------------- */

/* The whole path of each cost centre, as put_function() writes it. */
#define PATHS                                                                                      \
    "WITH RECURSIVE path(ccs_id, path) AS (SELECT ccs_id, '' FROM ccs WHERE parent_id IS NULL"     \
    " UNION ALL SELECT c.ccs_id, p.path || char(1) || v.label || char(2) || v.module || char(2)"   \
    " || coalesce(v.source, '-') || char(2) || x.vaddr || char(2) || coalesce(f.path, '-')"        \
    " || char(2) || x.inlined FROM path AS p JOIN hx_ccs AS c ON c.parent_id = p.ccs_id"           \
    " JOIN ccs AS v ON v.ccs_id = c.ccs_id JOIN hx_place AS x ON x.place = c.place"                \
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

static void check_costs(hx_store *store, int64_t id, const struct hx_snapshot *s)
{
    expectation all = {0};
    struct hx_text text = {0}, errors = {0};
    expect_costs(s, &all);
    qsort(all.v, all.n, sizeof *all.v, by_path);
    for (size_t i = 0; i < all.n; i++) {
        const struct expected *e = &all.v[i];
        hx_text_putf(&text, "%s|NULL|", e->path);
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
    assert_string_equal(found, hx_text_str(&text));
    free(found);
    found = tell_format(store,
                        PATHS "SELECT path, alloc_error_bytes, live_error_bytes FROM estimates"
                              " JOIN path USING(ccs_id) WHERE snapshot = %d ORDER BY path",
                        (int)id);
    assert_string_equal(found, hx_text_str(&errors));
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
        if (!place->allocator)
            return place->file == UINT32_MAX ? "(unknown)" : r->files.v[place->file].name;
    }
    return "(unknown)";
}

/* Object by object; the censuses follow from these. */
static void check_sites(hx_store *store, int64_t id, const struct hx_snapshot *s)
{
    struct hx_text text = {0}, path = {0};
    for (hx_obj i = 0; i < s->graph.n && s->graph.site; i++) {
        uint32_t site = s->graph.site[i];
        uint32_t stack = site == HX_NO_SITE ? HX_SITE_UNKNOWN : s->sites.v[site].stack;
        walk(s->recording, stack, nothing, NULL, &path);
        hx_text_putf(&text, "%llu|", (unsigned long long)s->graph.addr[i]);
        put_number(&text, s->graph.requested[i] != HX_NO_REQUEST, s->graph.requested[i]);
        hx_text_putf(&text, "%s|%s|\n", hx_text_str(&path), module_of(s->recording, stack));
    }
    char *found = tell_format(store,
                              PATHS "SELECT address, requested, path, module FROM objects"
                                    " JOIN path USING(ccs_id) JOIN hx_stack USING(ccs_id)"
                                    " WHERE snapshot = %d ORDER BY address",
                              (int)id);
    assert_string_equal(found, hx_text_str(&text));
    free(found);
    hx_text_free(&text);
    hx_text_free(&path);
}

/* What would go with all objects of a site. */
static void check_retained(hx_store *store, int64_t id, const struct hx_snapshot *loaded)
{
    const bool none[MODEL_MAX] = {false};
    bool scope[MODEL_MAX], reached[MODEL_MAX];
    struct hx_text text = {0};
    unsigned follows = model_follows(loaded, false);
    model_search(loaded, follows, UINT32_MAX, UINT32_MAX, none, scope);
    for (uint32_t k = 0; k < loaded->sites.n; k++) {
        bool gone[MODEL_MAX] = {false};
        for (hx_obj i = 0; i < loaded->graph.n; i++)
            gone[i] = loaded->graph.site[i] == k;
        model_search(loaded, follows, UINT32_MAX, UINT32_MAX, gone, reached);
        hx_text_putf(&text, "%lld|%llu|\n", (long long)loaded->sites.v[k].ccs_id,
                     (unsigned long long)model_lost(loaded, scope, reached).bytes);
    }
    char *found = tell_format(
        store, "SELECT ccs_id, retained_bytes FROM sites WHERE snapshot = %d ORDER BY 1", (int)id);
    assert_string_equal(found, hx_text_str(&text));
    free(found);
    hx_text_free(&text);
}

/* What holds in every store. */
static void check_store(hx_store *store)
{
    assert_nothing(store, PATHS "SELECT path FROM path GROUP BY path HAVING count(*) > 1");
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
    assert_same_rows(store, "SELECT snapshot, module, bytes, objects FROM modules",
                     "SELECT snapshot, module, sum(bytes), count(*) FROM objects JOIN hx_stack"
                     " USING(ccs_id) GROUP BY 1, 2");
    assert_same_rows(store, "SELECT snapshot, kind, type, site, bytes, objects FROM leaks",
                     "SELECT snapshot, state, type, label, sum(bytes), count(*) FROM objects"
                     " LEFT JOIN hx_stack USING(ccs_id) WHERE state <> 'reachable'"
                     " GROUP BY 1, 2, 3, 4");
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
                          " AND (label NOT GLOB '#*')");
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
    } losses[] = {{"events lost: allocations", r->lost_allocs},
                  {"events lost: frees", r->lost_frees},
                  {"implied frees", r->implied_frees},
                  {"stacks cut", r->cut_stacks},
                  {"stacks without room", r->full_stacks}};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (losses[i].n)
            hx_text_putf(&text, "%s|%llu|\n", losses[i].what, (unsigned long long)losses[i].n);
    char *found = tell_format(
        store, "SELECT what, count FROM losses WHERE snapshot = %d ORDER BY what", (int)id);
    assert_string_equal(found, hx_text_str(&text));
    free(found);
    hx_text_free(&text);
    found = tell_format(store, "SELECT notes FROM snapshots WHERE snapshot = %d", (int)id);
    assert_non_null(strstr(found, r->from_start ? " from the start, " : " since 23:59:00 (UTC), "));
    assert_int_equal(strstr(found, "by probes") != NULL, strcmp(r->method, "probes") == 0);
    assert_int_equal(strstr(found, "live figures are upper bounds") != NULL, r->upper_bounds);
    assert_int_equal(strstr(found, "sampled every 524,288 bytes") != NULL, r->sample_bytes != 0);
    free(found);
}

static struct hx_snapshot *make_snapshot(struct unit_random *random, const struct program *program)
{
    struct hx_snapshot *s = model_to_analyse(random, 24);
    s->taken_at_ns = 86400 * INT64_C(1000000000);
    record(random, program, s);
    if (unit_below(random, 6))
        give_sites(random, s);
    return s;
}

static void check_snapshot(hx_store *store, int64_t id, const struct hx_snapshot *s,
                           const struct hx_analysis *analysis)
{
    struct hx_snapshot *loaded;
    check_costs(store, id, s);
    check_sites(store, id, s);
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
    struct hx_analysis analysis = {.scheme = &hx_scheme_site, .max_set = 4, .threads = 1};
    assert_done(hx_store_load(store, id, NULL, &loaded));
    if (has_sites || !loaded->graph.n) {
        assert_done(hx_store_revise(store, id, loaded, &analysis, HX_ANALYSE_ALL, NULL));
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
    struct hx_analysis analysis = {.scheme = &hx_scheme_site, .max_set = 4};
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

static char *golden_sql(void)
{
    const char *source = getenv("HX_SRCDIR");
    char *path = model_path(source ? source : ".", "test/golden/store-schema-2.sql");
    static char sql[1 << 16];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    sql[fread(sql, 1, sizeof sql - 1, file)] = 0;
    fclose(file);
    free(path);
    return sql;
}

static void copy_table(void *context, const char *table, const char *columns)
{
    char *sql = sqlite3_mprintf("INSERT INTO %s SELECT %s FROM new.%s", table, columns, table);
    must_run(context, sql);
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
    must_run(db, golden_sql());
    must_run(db, attach);
    sqlite3_free(attach);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        copy_table(db, same[i], "*");
    copy_table(db, "hx_leak", "snapshot, kind, type, site, bytes, objects");
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

static void schema_2(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("schema_2");
    char *directory = model_directory();
    char *old = model_path(directory, "old"), *new = model_path(directory, "new");
    struct program program;
    make_program(&random, &program);
    struct hx_snapshot *s = model_to_analyse(&random, 24), *more = make_snapshot(&random, &program);
    struct hx_analysis analysis = some_analysis(&random);
    hx_store *store, *fresh;
    int64_t id;
    assert_done(hx_store_append(new, &store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    assert_done(hx_store_close(store));
    make_schema_2(old, new);
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

/* --- damage -------------------------------------------------------------------------- */

/* A store that lies about its cost centres: an error or figures, but an end. */
static void damaged(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("damaged");
    static const char *const lies[] = {
        "DELETE FROM hx_ccs WHERE ccs_id = 2",
        "UPDATE hx_ccs SET parent_id = ccs_id",
        "UPDATE hx_ccs SET parent_id = 99999",
        "UPDATE hx_ccs SET place = NULL WHERE ccs_id > 3",
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
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct program program;
        hx_store *store;
        sqlite3 *db;
        int64_t id;
        struct hx_snapshot *loaded = NULL;
        struct hx_analysis analysis = {.scheme = &hx_scheme_site, .max_set = 4, .threads = 1};
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
            hx_error_free(hx_store_revise(store, 1, loaded, &analysis, HX_ANALYSE_ALL, NULL));
        hx_error_free(err);
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
        cmocka_unit_test(schema_2), cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
